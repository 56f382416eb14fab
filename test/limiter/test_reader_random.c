/* The reader against jansson: random JSON texts and random pointers. jansson reads a whole text, and
 * the pointer is looked up in its tree. */
#include "limiter/reader_test.h"

#include <jansson.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>

#include "rounds.h"

#define BODY_MAX 65536
#define TEXTS_MAX 4
#define POINTERS_MAX WEIR_READER_POINTERS_MAX

/* ---- random bodies ---- */

struct random {
	uint64_t x;
};

static uint64_t below(struct random *random, uint64_t n) /* splitmix64 */
{
	uint64_t z = random->x += 0x9e3779b97f4a7c15ull;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ull;
	z = (z ^ z >> 27) * 0x94d049bb133111ebull;
	return (z ^ z >> 31) % n;
}

struct body {
	size_t len;
	char text[BODY_MAX];
};

static void put(struct body *body, const char *text)
{
	size_t len = strlen(text);

	assert_true(body->len + len < sizeof body->text);
	memcpy(body->text + body->len, text, len + 1);
	body->len += len;
}

/* A name in three forms: in a JSON text, the same with escapes, and as a step of a pointer. */
static const char *const names[][3] = {
	{"a", "\\u0061", "a"},
	{"b", "b", "b"},
	{"ab", "a\\u0062", "ab"},
	{"", "", ""},
	{"0", "\\u0030", "0"},
	{"1", "1", "1"},
	{"a/b", "a\\/b", "a~1b"},
	{"~", "\\u007E", "~0"},
	{"~1", "\\u007e1", "~01"},
	{"\xc3\xa9", "\\u00e9", "\xc3\xa9"},
	{"\xf0\x9f\x98\x80", "\\uD83D\\ude00", "\xf0\x9f\x98\x80"},
	{"\\\"\\\\", "\\u0022\\u005c", "\"\\"},
	{"a long name of a member", "a long name of a \\u006dember", "a long name of a member"},
};
#define NAMES (sizeof names / sizeof *names)

/* The first names are more likely, so that pointers lead to values. */
static size_t random_name(struct random *random)
{
	return below(random, 1 + below(random, NAMES));
}

static void put_space(struct random *random, struct body *body)
{
	static const char *const spaces[] = {"", "", "", "", " ", "\n", "\t ", "\r\n"};

	put(body, spaces[below(random, 8)]);
}

static void put_number(struct random *random, struct body *body)
{
	char text[64];

	switch (below(random, 5)) {
	case 0:
		snprintf(text, sizeof text, "%d", (int)below(random, 10));
		break;
	case 1:
		snprintf(text, sizeof text, "%lld",
			 (long long)(below(random, UINT64_MAX) >> (1 + below(random, 62))));
		break;
	case 2:
		snprintf(text, sizeof text, "%d.%03d", (int)below(random, 1000),
			 (int)below(random, 1000));
		break;
	case 3:
		snprintf(text, sizeof text, "%d%c%s%d", (int)below(random, 1000),
			 "eE"[below(random, 2)], below(random, 2) ? "+" : "",
			 (int)below(random, 8));
		break;
	default:
		snprintf(text, sizeof text, "-%d", (int)below(random, 1000));
	}
	put(body, text);
}

static void put_string(struct random *random, struct body *body)
{
	static const char *const pieces[] = {"x",       "{\\\"a\\\":1}", "]}",     "\\\\",
					     "\\u00e9", "\\\"",          "data: ", "[1,2]",
					     "\\n",     " long text"};

	put(body, "\"");
	for (uint64_t i = below(random, 5); i > 0; i--)
		put(body, pieces[below(random, 10)]);
	put(body, "\"");
}

static void put_scalar(struct random *random, struct body *body)
{
	static const char *const words[] = {"true", "false", "null"};

	switch (below(random, 4)) {
	case 0:
		put_string(random, body);
		break;
	case 1:
		put(body, words[below(random, 3)]);
		break;
	default:
		put_number(random, body);
	}
}

static void put_name(struct random *random, struct body *body)
{
	put(body, "\"");
	put(body, names[random_name(random)][below(random, 2)]);
	put(body, "\"");
	put_space(random, body);
	put(body, ":");
	put_space(random, body);
}

/* Names repeat in an object: the last member counts, for jansson too. */
static void put_value(struct random *random, struct body *body, int depth)
{
	bool array = below(random, 3) == 0;
	uint64_t count = below(random, 7);

	if (depth == 0 || below(random, 4) == 0) {
		put_scalar(random, body);
		return;
	}
	put(body, array ? "[" : "{");
	put_space(random, body);
	for (uint64_t i = 0; i < count; i++) {
		if (i)
			put(body, ",");
		put_space(random, body);
		if (!array)
			put_name(random, body);
		put_value(random, body, depth - 1);
		put_space(random, body);
	}
	put(body, array ? "]" : "}");
}

/* Writes the text as an event: each of its lines is a line with data. */
static void put_event(struct random *random, struct body *body, char *text)
{
	static const char *const others[] = {"", "", ": data: 1", "id: 1", "event: data"};
	static const char *const ends[] = {"\n", "\r\n", "\r"};
	const char *end = ends[below(random, 3)];
	char *rest = text, *line;

	while ((line = strsep(&rest, "\n"))) {
		const char *other = others[below(random, 5)];

		line[strcspn(line, "\r")] = 0;
		put(body, other);
		put(body, *other ? end : "");
		put(body, below(random, 2) ? "data: " : "data:");
		put(body, line);
		put(body, end);
	}
	put(body, end);
}

/* ---- pointers, and their values according to jansson ---- */

struct lookup {
	char text[WEIR_READER_POINTER_MAX];
	const char *names[4]; /* of the steps */
	size_t steps;
};

static void random_pointer(struct random *random, struct lookup *lookup)
{
	static struct body pointer;

	pointer.len = 0;
	lookup->steps = below(random, 1 + below(random, 5));
	for (size_t i = 0; i < lookup->steps; i++) {
		size_t name = random_name(random);

		lookup->names[i] = names[name][2];
		put(&pointer, "/");
		put(&pointer, names[name][2]);
	}
	assert_true(pointer.len < sizeof lookup->text);
	memcpy(lookup->text, pointer.text, pointer.len);
	lookup->text[pointer.len] = 0;
}

/* Returns the name that a step of a pointer stands for. */
static const char *unescaped(const char *step, char *name)
{
	size_t len = 0;

	for (; *step; step++) {
		if (*step == '~')
			name[len++] = *++step == '0' ? '~' : '/';
		else
			name[len++] = *step;
	}
	name[len] = 0;
	return name;
}

static const json_t *look_up(const json_t *value, const struct lookup *lookup)
{
	char name[64];

	for (size_t i = 0; i < lookup->steps && value; i++) {
		const char *step = unescaped(lookup->names[i], name);

		if (json_is_object(value))
			value = json_object_get(value, step);
		else if (json_is_array(value) && (strcmp(step, "0") == 0 || strcmp(step, "1") == 0))
			value = json_array_get(value, (size_t)(*step - '0'));
		else
			value = NULL;
	}
	return value;
}

static struct reading reading_of(const json_t *value)
{
	if (!json_is_number(value) || json_number_value(value) < 0)
		return (struct reading){WEIR_READER_INVALID, 0};
	if (json_is_integer(value))
		return (struct reading){WEIR_READER_FOUND, json_integer_value(value)};
	return (struct reading){WEIR_READER_FOUND, (int64_t)ceil(json_real_value(value))};
}

/* Adds a text to what the pointer gave in the texts before it. */
static void add_text(struct reading *reading, const char *text, size_t len,
		     const struct lookup *lookup)
{
	json_t *tree = json_loadb(text, len, JSON_DECODE_ANY, NULL);
	const json_t *value;

	assert_non_null(tree);
	value = look_up(tree, lookup);
	if (value && !(json_is_null(value) && reading->result != WEIR_READER_MISSING))
		*reading = reading_of(value);
	json_decref(tree);
}

/* ---- one round ---- */

static void feed_random_pieces(struct random *random, struct reader_rig *rig,
			       const struct body *body)
{
	uint64_t most = 1ull << below(random, 12);

	for (size_t at = 0, n; at < body->len; at += n) {
		n = 1 + below(random, most);
		if (n > body->len - at)
			n = body->len - at;
		reader_feed(rig, body->text + at, n);
	}
}

static int one_round(struct random *random, int format)
{
	static struct body body, text;
	struct lookup lookups[POINTERS_MAX];
	struct weir_str pointers[POINTERS_MAX];
	struct reading expected[POINTERS_MAX] = {0};
	size_t count = 1 + below(random, POINTERS_MAX), found = 0;
	struct reader_rig rig;

	body.len = 0;
	for (size_t i = 0; i < count; i++) {
		random_pointer(random, &lookups[i]);
		pointers[i] = str_of(lookups[i].text);
	}
	for (uint64_t left = 1 + below(random, TEXTS_MAX); left > 0; left--) {
		text.len = 0;
		put_value(random, &text, 1 + (int)below(random, 5));
		for (size_t i = 0; i < count; i++)
			add_text(&expected[i], text.text, text.len, &lookups[i]);
		if (format == WEIR_READER_EVENTS) {
			put_event(random, &body, text.text);
		} else {
			put(&body, text.text);
			put(&body, below(random, 2) ? "\n" : " ");
		}
	}
	reader_open(&rig, format, pointers, count);
	feed_random_pieces(random, &rig, &body);
	reader_close(&rig);
	for (size_t i = 0; i < count; i++) {
		struct reading got = reader_result(&rig, i);

		found += got.result == WEIR_READER_FOUND;
		if (got.result != expected[i].result || got.value != expected[i].value)
			fail_msg("%s of:\n%s\n\ngot %d %lld instead of %d %lld", lookups[i].text,
				 body.text, got.result, (long long)got.value, expected[i].result,
				 (long long)expected[i].value);
	}
	return (int)found;
}

static void run(int format)
{
	const char *seed = getenv("WEIR_SEED");
	struct random random = {seed ? strtoull(seed, NULL, 0) : 18};
	int rounds = test_rounds(8000, 200000), found = 0;

	for (int i = 0; i < rounds; i++)
		found += one_round(&random, format);
	assert_true(found > rounds / 5); /* the bodies have values at the pointers */
}

static void json_like_jansson(void **state)
{
	run(WEIR_READER_JSON);
	(void)state;
}

static void events_like_jansson(void **state)
{
	run(WEIR_READER_EVENTS);
	(void)state;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(json_like_jansson),
		cmocka_unit_test(events_like_jansson),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
