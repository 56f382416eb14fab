/* Finds the meaning of field names, and reads the names that the user gives. */
#include "lab/log/fields.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/str.h"
#include "lab/log/names.h"

#define NAME_MAX_BYTES 64u /* longer names have no meaning */
#define KEPT_MAX 256u      /* names of CSV columns that are header fields */
#define BINS 512u          /* a power of two, several times the number of known names */

struct known {
	const char *name;
	struct wr_lab_meaning meaning;
};

static const struct known known[] = {
#define KNOWN(meaning, rank, unit_ns, name)                                                        \
	{name, {WR_LAB_MEANS_##meaning, rank, unit_ns, {NULL, 0}, false, 0}},
	WR_LAB_NAMES(KNOWN)
#undef KNOWN
#define KNOWN(name, header)                                                                        \
	{name, {WR_LAB_MEANS_HEADER, 1, 0, {header, sizeof(header) - 1}, false, 0}},
		WR_LAB_HEADER_NAMES(KNOWN)
#undef KNOWN
};

#define KNOWN_COUNT (sizeof known / sizeof *known)

static const char *const meanings[] = {
#define MEANING(name, text, help) text,
	WR_LAB_MEANINGS(MEANING)
#undef MEANING
};

/* A name that the user gave. */
struct given {
	struct weir_str name;
	struct wr_lab_meaning meaning;
};

struct wr_lab_fields {
	char *text; /* copy of the user's text */
	struct given given[WR_LAB_GIVEN_MAX];
	size_t given_count;
	uint64_t seen;                        /* bit i: a line had the field given[i] */
	bool replaced[WR_LAB_MEANINGS_COUNT]; /* the user gave names of this meaning */
	uint8_t bins[BINS];                   /* hash table: index in `known` + 1, or 0 */
	struct weir_str kept[KEPT_MAX];
	size_t kept_count;
};

_Static_assert(WR_LAB_GIVEN_MAX <= 64, "fields.seen has 64 bits");
_Static_assert(KNOWN_COUNT < 256 && 2 * KNOWN_COUNT < BINS, "the bins are too few or too small");

/* ---- known names ---- */

static uint32_t hash_of(struct weir_str name)
{
	uint32_t hash = 2166136261u;

	for (size_t i = 0; i < name.len; i++)
		hash = (hash ^ (uint8_t)wr_lower(name.ptr[i])) * 16777619u;
	return hash ^ hash >> 15;
}

static void fill_bins(struct wr_lab_fields *fields)
{
	for (size_t i = 0; i < KNOWN_COUNT; i++) {
		uint32_t bin = hash_of(wr_str(known[i].name)) & (BINS - 1);

		while (fields->bins[bin])
			bin = (bin + 1) & (BINS - 1);
		fields->bins[bin] = (uint8_t)(i + 1);
	}
}

static const struct wr_lab_meaning *find_known(const struct wr_lab_fields *fields,
					       struct weir_str name)
{
	uint32_t bin = hash_of(name) & (BINS - 1);

	for (; fields->bins[bin]; bin = (bin + 1) & (BINS - 1)) {
		const struct known *one = &known[fields->bins[bin] - 1];

		if (wr_str_equal_nocase(wr_str(one->name), name))
			return &one->meaning;
	}
	return NULL;
}

/* Recognises header fields by the start of the name: http_x_api_key of nginx, request_X-Api-Key of
 * Traefik, request.headers.X-Api-Key of Caddy. */
static struct wr_lab_meaning find_header(struct weir_str name)
{
	static const char *const prefixes[] = {"request.headers.", "request_headers.", "headers."};
	struct wr_lab_meaning meaning = {.means = WR_LAB_MEANS_HEADER, .rank = 1};

	for (size_t i = 0; i < sizeof prefixes / sizeof *prefixes; i++) {
		struct weir_str prefix = wr_str(prefixes[i]);

		if (wr_str_equal_nocase(wr_str_first(name, prefix.len), prefix)) {
			meaning.header = wr_str_from(name, prefix.len);
			return meaning;
		}
	}
	if (wr_str_begins(name, WR_STR("http_"))) {
		meaning.header = wr_str_from(name, 5);
		meaning.underscores = true;
	} else if (wr_str_begins(name, WR_STR("request_")) && name.len > 8 && name.ptr[8] >= 'A' &&
		   name.ptr[8] <= 'Z') {
		meaning.header = wr_str_from(name, 8);
	} else {
		meaning.means = WR_LAB_MEANS_NOTHING;
	}
	return meaning;
}

struct wr_lab_meaning wr_lab_fields_find(const struct wr_lab_fields *fields, struct weir_str name)
{
	struct wr_lab_meaning nothing = {.means = WR_LAB_MEANS_NOTHING};
	const struct wr_lab_meaning *found;

	for (size_t i = 0; i < fields->given_count; i++)
		if (wr_str_equal_nocase(fields->given[i].name, name))
			return fields->given[i].meaning;
	if (name.len > NAME_MAX_BYTES)
		return nothing;
	found = find_known(fields, name);
	if (!found)
		return find_header(name);
	if (found->means < WR_LAB_MEANINGS_COUNT && fields->replaced[found->means])
		return nothing;
	return *found;
}

void wr_lab_meaning_hyphens(const struct wr_lab_meaning *meaning, char *name, size_t len)
{
	for (size_t i = 0; meaning->underscores && i < len; i++)
		if (name[i] == '_')
			name[i] = '-';
}

struct weir_str wr_lab_fields_keep(struct wr_lab_fields *fields,
				   const struct wr_lab_meaning *meaning)
{
	char name[NAME_MAX_BYTES + 1];
	struct weir_str text = wr_str_first(meaning->header, NAME_MAX_BYTES);
	char *copy;

	memcpy(name, text.ptr, text.len);
	name[text.len] = '\0';
	wr_lab_meaning_hyphens(meaning, name, text.len);
	for (size_t i = 0; i < fields->kept_count; i++)
		if (wr_str_equal(fields->kept[i], wr_str(name)))
			return fields->kept[i];
	copy = fields->kept_count < KEPT_MAX ? strdup(name) : NULL;
	if (!copy)
		return (struct weir_str){"", 0};
	return fields->kept[fields->kept_count++] = wr_str(copy);
}

/* ---- names of the user ---- */

static int report_meaning(struct weir_str word, struct weir_error *error)
{
	char list[256] = "";
	size_t used = 0;

	for (size_t i = 0; i < WR_LAB_MEANINGS_COUNT; i++)
		used += (size_t)snprintf(list + used, sizeof list - used, "%s, ", meanings[i]);
	return wr_error(error, WEIR_EINVAL,
			"\"%.*s\" in the names of fields is unknown. Known are: %sheader.NAME",
			(int)(word.len < 64 ? word.len : 64), word.ptr, list);
}

/* Finds the meaning of a word before "=". */
static bool meaning_of(struct weir_str word, struct wr_lab_meaning *meaning)
{
	*meaning = (struct wr_lab_meaning){.rank = 1};
	for (size_t i = 0; i < WR_LAB_MEANINGS_COUNT; i++) {
		if (wr_str_equal(word, wr_str(meanings[i]))) {
			meaning->means = (enum wr_lab_means)i;
			return true;
		}
	}
	meaning->means = WR_LAB_MEANS_HEADER;
	meaning->header = wr_str_from(word, wr_str_begins(word, WR_STR("header.")) ? 7 : word.len);
	return meaning->header.len > 0;
}

/* Durations are read by the ends of their names: took_ms. */
static uint64_t unit_of(struct weir_str name)
{
	if (wr_str_ends(name, WR_STR("_ns")))
		return 1;
	if (wr_str_ends(name, WR_STR("_us")))
		return 1000;
	if (wr_str_ends(name, WR_STR("_ms")))
		return 1000000;
	return wr_str_ends(name, WR_STR("_s")) ? 1000000000 : 0;
}

static int add_given(struct wr_lab_fields *fields, struct weir_str name,
		     struct wr_lab_meaning meaning, struct weir_error *error)
{
	if (name.len == 0)
		return wr_error(error, WEIR_EINVAL,
				"a name of a field is empty: write time=NAME,client=NAME");
	if (fields->given_count == WR_LAB_GIVEN_MAX)
		return wr_error(error, WEIR_EMANY, "more than %u names of fields",
				WR_LAB_GIVEN_MAX);
	for (size_t i = 0; i < fields->given_count; i++)
		if (wr_str_equal_nocase(fields->given[i].name, name))
			return wr_error(error, WEIR_EINVAL,
					"the names of fields contain \"%.*s\" twice: a field can "
					"have one meaning only",
					(int)(name.len < 64 ? name.len : 64), name.ptr);
	if (meaning.means == WR_LAB_MEANS_DURATION)
		meaning.unit_ns = unit_of(name);
	meaning.given = (uint8_t)(fields->given_count + 1);
	fields->given[fields->given_count++] = (struct given){name, meaning};
	return 0;
}

/* Returns whether the user gave names of this meaning already. */
static bool is_given(const struct wr_lab_fields *fields, const struct wr_lab_meaning *meaning)
{
	for (size_t i = 0; i < fields->given_count; i++) {
		const struct wr_lab_meaning *other = &fields->given[i].meaning;

		if (other->means == meaning->means &&
		    wr_str_equal_nocase(other->header, meaning->header))
			return true;
	}
	return false;
}

/* Reads "cost=in+out". */
static int read_given(struct wr_lab_fields *fields, struct weir_str item, struct weir_error *error)
{
	size_t equals = wr_str_find(item, '=');
	struct weir_str word = wr_str_trim(wr_str_first(item, equals)), names;
	struct wr_lab_meaning meaning;
	int rc;

	if (!meaning_of(word, &meaning))
		return report_meaning(word, error);
	if (is_given(fields, &meaning))
		return wr_error(error, WEIR_EINVAL, "\"%.*s\" has two fields: give one%s",
				(int)(word.len < 64 ? word.len : 64), word.ptr,
				meaning.means == WR_LAB_MEANS_COST ? ", or add them: cost=A+B"
								   : "");
	if (meaning.means < WR_LAB_MEANINGS_COUNT)
		fields->replaced[meaning.means] = true;
	names = wr_str_trim(wr_str_from(item, equals < item.len ? equals + 1 : equals));
	if (meaning.means != WR_LAB_MEANS_COST)
		return add_given(fields, names, meaning, error);
	for (;;) {
		size_t plus = wr_str_find(names, '+');

		rc = add_given(fields, wr_str_trim(wr_str_first(names, plus)), meaning, error);
		if (rc || plus == names.len)
			return rc;
		names = wr_str_from(names, plus + 1);
	}
}

size_t wr_lab_fields_given(const struct wr_lab_fields *fields)
{
	return fields->given_count;
}

struct weir_str wr_lab_fields_given_name(const struct wr_lab_fields *fields, size_t i)
{
	return fields->given[i].name;
}

void wr_lab_fields_saw(struct wr_lab_fields *fields, uint64_t names)
{
	fields->seen |= names;
}

uint64_t wr_lab_fields_unseen(const struct wr_lab_fields *fields)
{
	uint64_t all = fields->given_count < 64 ? (1ull << fields->given_count) - 1 : UINT64_MAX;

	return all & ~fields->seen;
}

int wr_lab_fields_new(struct wr_lab_fields **fields, const char *text, struct weir_error *error)
{
	struct weir_str rest;
	int rc = 0;

	*fields = calloc(1, sizeof **fields);
	if (*fields)
		(*fields)->text = strdup(text ? text : "");
	if (!*fields || !(*fields)->text) {
		free(*fields);
		*fields = NULL;
		return wr_error(error, WEIR_EMEMORY, "no memory for names of fields");
	}
	fill_bins(*fields);
	rest = wr_str((*fields)->text);
	while (rest.len && rc == 0) {
		size_t comma = wr_str_find(rest, ',');

		rc = read_given(*fields, wr_str_first(rest, comma), error);
		rest = wr_str_from(rest, comma < rest.len ? comma + 1 : comma);
	}
	if (rc) {
		wr_lab_fields_free(*fields);
		*fields = NULL;
	}
	return rc;
}

void wr_lab_fields_free(struct wr_lab_fields *fields)
{
	if (!fields)
		return;
	for (size_t i = 0; i < fields->kept_count; i++)
		free((char *)(uintptr_t)fields->kept[i].ptr);
	free(fields->text);
	free(fields);
}
