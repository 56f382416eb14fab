/* Makes descriptors from the fields of a log. Called by replay.c for rules without `requests:`. */
#include "lab/replay/descriptor.h"

#include <stdio.h>

#include "base/error.h"
#include "base/str.h"

static const struct {
	const char *name;
	enum wr_lab_entry_field field;
} fields[] = {
#define FIELD_ROW(field, text) {text, field},
	WR_LAB_ENTRY_FIELDS(FIELD_ROW)
#undef FIELD_ROW
};

#define FIELD_NAME(field, text) " " text
#define FORM                                                                                       \
	"the form is KEY=FIELD,… or KEY=\"TEXT\",…; the fields are" WR_LAB_ENTRY_FIELDS(           \
		FIELD_NAME) "NAME"

/* Sets the field of a part and the name after its dot. Returns false if there is no such field. */
static bool read_field(struct weir_str value, enum wr_lab_entry_field *field, struct weir_str *name)
{
	for (size_t i = 0; i < sizeof fields / sizeof *fields; i++) {
		struct weir_str known = wr_str(fields[i].name);
		bool named = wr_str_ends(known, WR_STR("."));

		if (named ? value.len > known.len && wr_str_begins(value, known)
			  : wr_str_equal(value, known)) {
			*field = fields[i].field;
			*name = wr_str_from(value, known.len);
			return true;
		}
	}
	return false;
}

/* Removes the next value from the text: a constant in quotes, or the text up to a comma. Returns
 * false if a quote is missing. */
static bool take_value(struct weir_str *rest, struct weir_str *value, bool *quoted)
{
	size_t end;

	*quoted = rest->len && rest->ptr[0] == '"';
	if (*quoted)
		*rest = wr_str_from(*rest, 1);
	end = wr_str_find(*rest, *quoted ? '"' : ',');
	*value = wr_str_first(*rest, end);
	if (*quoted && end == rest->len)
		return false;
	*rest = wr_str_from(*rest, end + *quoted);
	if (rest->len && rest->ptr[0] != ',')
		return false;
	*rest = wr_str_from(*rest, rest->len > 0);
	return true;
}

int wr_lab_descriptor_read(const char *text, struct wr_lab_descriptor *descriptor,
			   struct weir_error *error)
{
	struct weir_str rest = wr_str(text);

	descriptor->count = 0;
	while (rest.len) {
		size_t equals = wr_str_find(rest, '=');
		struct weir_str key = wr_str_trim(wr_str_first(rest, equals)), value;
		bool quoted;

		if (descriptor->count == WR_LAB_ENTRIES_MAX)
			return wr_error(error, WEIR_EINVAL,
					"--descriptor '%s' has more than %u entries", text,
					WR_LAB_ENTRIES_MAX);
		rest = wr_str_from(rest, equals + (equals < rest.len));
		if (key.len == 0 || !take_value(&rest, &value, &quoted))
			return wr_error(error, WEIR_EINVAL, "--descriptor '%s': " FORM, text);
		descriptor->parts[descriptor->count].key = key;
		descriptor->parts[descriptor->count].text = value;
		descriptor->parts[descriptor->count].field = WR_LAB_ENTRY_TEXT;
		if (!quoted &&
		    !read_field(wr_str_trim(value), &descriptor->parts[descriptor->count].field,
				&descriptor->parts[descriptor->count].text))
			return wr_error(error, WEIR_EINVAL,
					"--descriptor '%s': there is no field '%.*s'; " FORM, text,
					(int)value.len, value.ptr);
		descriptor->count++;
	}
	if (descriptor->count == 0)
		return wr_error(error, WEIR_EINVAL, "--descriptor is empty; " FORM);
	return 0;
}

static struct weir_str find_header(const struct wr_lab_record *record, struct weir_str name)
{
	for (uint32_t i = 0; i < record->header_count; i++)
		if (wr_str_equal_nocase(record->headers[i].name, name))
			return record->headers[i].value;
	return WR_STR("");
}

static struct weir_str read_value(const struct wr_lab_record *record, enum wr_lab_entry_field field,
				  struct weir_str name, char status[16])
{
	switch (field) {
	case WR_LAB_ENTRY_TEXT:
		return name;
	case WR_LAB_ENTRY_CLIENT:
		return record->client;
	case WR_LAB_ENTRY_METHOD:
		return record->method;
	case WR_LAB_ENTRY_PATH:
		return wr_str_first(record->target, wr_str_find(record->target, '?'));
	case WR_LAB_ENTRY_TARGET:
		return record->target;
	case WR_LAB_ENTRY_HOST:
		return record->host;
	case WR_LAB_ENTRY_USER:
		return record->user;
	case WR_LAB_ENTRY_STATUS:
		if (record->status == 0)
			break;
		return (struct weir_str){status,
					 (size_t)snprintf(status, 16, "%u", record->status)};
	case WR_LAB_ENTRY_HEADER:
		return find_header(record, name);
	}
	return WR_STR("");
}

size_t wr_lab_descriptor_make(const struct wr_lab_descriptor *descriptor,
			      const struct wr_lab_record *record,
			      struct weir_entry entries[WR_LAB_ENTRIES_MAX], char status[16])
{
	for (size_t i = 0; i < descriptor->count; i++) {
		struct weir_str value = read_value(record, descriptor->parts[i].field,
						   descriptor->parts[i].text, status);

		if (value.len == 0)
			return 0;
		entries[i] = (struct weir_entry){descriptor->parts[i].key, value, WR_STR("")};
	}
	return descriptor->count;
}
