/* Blocks of header fields: reading, building and updating. */
#include "client/fields.h"

bool wr_fetch_fields_next(struct weir_str *rest, struct weir_str *name, struct weir_str *value)
{
	if (rest->len == 0)
		return false;
	*name = wr_str_first(*rest, wr_str_find(*rest, '\0'));
	*rest = wr_str_from(*rest, name->len + 1);
	*value = wr_str_first(*rest, wr_str_find(*rest, '\0'));
	*rest = wr_str_from(*rest, value->len + 1);
	return true;
}

bool wr_fetch_fields_valid(struct weir_str block)
{
	size_t zeros = 0;

	if (block.len > WR_FETCH_FIELDS_MAX)
		return false;
	for (size_t i = 0; i < block.len; i++)
		zeros += block.ptr[i] == '\0';
	return zeros % 2 == 0 && zeros / 2 <= WR_FETCH_FIELD_COUNT &&
	       (block.len == 0 || block.ptr[block.len - 1] == '\0');
}

bool wr_fetch_fields_add(struct wr_buf *block, struct weir_str name, struct weir_str value)
{
	char *at = wr_buf_reserve(block, name.len + value.len + 2);

	if (!at)
		return false;
	memcpy(at, name.ptr, name.len);
	at[name.len] = '\0';
	if (value.len)
		memcpy(at + name.len + 1, value.ptr, value.len);
	at[name.len + 1 + value.len] = '\0';
	wr_buf_commit(block, name.len + value.len + 2);
	return true;
}

bool wr_fetch_fields_get(struct weir_str block, struct weir_str name, struct weir_str *value)
{
	struct weir_str found;

	while (wr_fetch_fields_next(&block, &found, value))
		if (wr_str_equal_nocase(found, name))
			return true;
	return false;
}

static bool list_has(struct weir_str list, struct weir_str item)
{
	while (list.len) {
		size_t end = wr_str_find(list, ',');

		if (wr_str_equal_nocase(wr_str_trim(wr_str_first(list, end)), item))
			return true;
		list = wr_str_from(list, end < list.len ? end + 1 : end);
	}
	return false;
}

bool wr_fetch_fields_list_has(struct weir_str block, struct weir_str name, struct weir_str item)
{
	struct weir_str found, value;

	while (wr_fetch_fields_next(&block, &found, &value))
		if (wr_str_equal_nocase(found, name) && list_has(value, item))
			return true;
	return false;
}

/* Reads digits. Returns false if the text is something else, or the number is larger than 2^63 - 1. */
static bool read_digits(struct weir_str text, uint64_t *number)
{
	*number = 0;
	for (size_t i = 0; i < text.len; i++) {
		unsigned digit = (unsigned)(text.ptr[i] - '0');

		if (digit > 9 || *number > ((uint64_t)INT64_MAX - digit) / 10)
			return false;
		*number = *number * 10 + digit;
	}
	return text.len > 0;
}

/* Reads the value of a Content-Length field, which can be a list of equal numbers such as "5, 5". */
static bool read_length(struct weir_str value, uint64_t *length)
{
	uint64_t number;
	size_t end;

	do {
		end = wr_str_find(value, ',');
		if (!read_digits(wr_str_trim(wr_str_first(value, end)), &number) ||
		    (*length != WR_FETCH_LENGTH_NONE && *length != number))
			return false;
		*length = number;
		value = wr_str_from(value, end < value.len ? end + 1 : end);
	} while (value.len);
	return true;
}

bool wr_fetch_fields_length(struct weir_str block, uint64_t *length)
{
	struct weir_str name, value;

	*length = WR_FETCH_LENGTH_NONE;
	if (wr_fetch_fields_list_has(block, WR_STR("transfer-encoding"), WR_STR("chunked")))
		return true;
	while (wr_fetch_fields_next(&block, &name, &value))
		if (wr_str_equal_nocase(name, WR_STR("content-length")) &&
		    !read_length(value, length))
			return false;
	return true;
}

/* Fields that a 304 does not replace. */
static bool is_kept(struct weir_str name)
{
	static const char *const kept[] = {"content-length", "content-encoding",  "content-type",
					   "content-range",  "transfer-encoding", "connection",
					   "keep-alive",     "trailer",           "upgrade"};

	for (size_t i = 0; i < sizeof kept / sizeof *kept; i++)
		if (wr_str_equal_nocase(name, wr_str(kept[i])))
			return true;
	return false;
}

void wr_fetch_fields_update(struct weir_str stored, struct weir_str confirmed, struct wr_buf *block)
{
	struct weir_str name, value, ignored;

	while (wr_fetch_fields_next(&stored, &name, &value))
		if (is_kept(name) || !wr_fetch_fields_get(confirmed, name, &ignored))
			wr_fetch_fields_add(block, name, value);
	while (wr_fetch_fields_next(&confirmed, &name, &value))
		if (!is_kept(name))
			wr_fetch_fields_add(block, name, value);
}

bool wr_fetch_is_token(struct weir_str text)
{
	for (size_t i = 0; i < text.len; i++) {
		char c = wr_lower(text.ptr[i]);

		if (!(c >= 'a' && c <= 'z') && !(c >= '0' && c <= '9') &&
		    (c == '\0' || !strchr("!#$%&'*+-.^_`|~", c)))
			return false;
	}
	return text.len > 0;
}

bool wr_fetch_is_value(struct weir_str text)
{
	for (size_t i = 0; i < text.len; i++)
		if (((unsigned char)text.ptr[i] < ' ' && text.ptr[i] != '\t') || text.ptr[i] == 127)
			return false;
	return true;
}
