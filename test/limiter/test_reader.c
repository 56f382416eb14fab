/* The reader of numbers in JSON and in server-sent events. Every body of a table is read in one
 * piece, in two pieces cut at every byte, and byte by byte. */
#include "limiter/reader_test.h"

#include <stdio.h>

#include "rounds.h"

#define TOKENS "/usage/total_tokens"
#define MIB (1 << 20)

/* Shorthands for the tables. */
#define MISSING WEIR_READER_MISSING, 0
#define FOUND(value) WEIR_READER_FOUND, value
#define INVALID WEIR_READER_INVALID, 0

struct body_case {
	const char *pointer;
	const char *body;
	int result;
	int64_t value;
};

static void expect(const struct body_case *c, struct reading got, const char *how, size_t cut)
{
	if (got.result != c->result || got.value != c->value)
		fail_msg("%s of %.100s, %s %zu: got %d %lld instead of %d %lld", c->pointer,
			 c->body, how, cut, got.result, (long long)got.value, c->result,
			 (long long)c->value);
}

static void check_body(int format, const struct body_case *c)
{
	struct weir_str pointer = str_of(c->pointer);
	size_t len = strlen(c->body);
	struct reader_rig rig;

	for (size_t cut = 0; cut <= len; cut++) {
		reader_open(&rig, format, &pointer, 1);
		reader_feed(&rig, c->body, cut);
		reader_feed(&rig, c->body + cut, len - cut);
		expect(c, reader_close(&rig), "cut at", cut);
	}
	for (size_t piece = 1; piece <= 3; piece++) {
		reader_open(&rig, format, &pointer, 1);
		for (size_t at = 0; at < len; at += piece)
			reader_feed(&rig, c->body + at, len - at < piece ? len - at : piece);
		expect(c, reader_close(&rig), "in pieces of", piece);
	}
}

#define CHECK_ALL(format, cases)                                                                   \
	for (size_t i = 0; i < sizeof(cases) / sizeof *(cases); i++)                               \
	check_body(format, &(cases)[i])

/* ---- JSON ---- */

static void numbers(void **state)
{
	static const struct body_case cases[] = {
		{TOKENS, "{\"usage\":{\"total_tokens\":12}}", FOUND(12)},
		{TOKENS, " {\n\t\"usage\" : {\r\n \"total_tokens\" : 12 }\n}\n", FOUND(12)},
		{"/n", "{\"n\":0}", FOUND(0)},
		{"/n", "{\"n\":-0}", FOUND(0)},
		{"/n", "{\"n\":-0.000}", FOUND(0)},
		{"/n", "{\"n\":12.5}", FOUND(13)},
		{"/n", "{\"n\":12.0}", FOUND(12)},
		{"/n", "{\"n\":12.000000000000000000000000000001}", FOUND(13)},
		{"/n", "{\"n\":0.0000000000000000000000000000001}", FOUND(1)},
		{"/n", "{\"n\":1e3}", FOUND(1000)},
		{"/n", "{\"n\":1E+2}", FOUND(100)},
		{"/n", "{\"n\":1250e-2}", FOUND(13)},
		{"/n", "{\"n\":1200e-2}", FOUND(12)},
		{"/n", "{\"n\":1.25e2}", FOUND(125)},
		{"/n", "{\"n\":1e-400}", FOUND(1)},
		{"/n", "{\"n\":1e400}", FOUND(INT64_MAX)},
		{"/n", "{\"n\":1e99999999999999999999999999}", FOUND(INT64_MAX)},
		{"/n", "{\"n\":1e-99999999999999999999999999}", FOUND(1)},
		{"/n", "{\"n\":0e99999999999999999999999999}", FOUND(0)},
		{"/n", "{\"n\":922337203685477580}", FOUND(922337203685477580)},
		{"/n", "{\"n\":922337203685477580e1}", FOUND(9223372036854775800)},
		{"/n", "{\"n\":922337203685477581e1}", FOUND(INT64_MAX)},
		{"/n", "{\"n\":9223372036854775806}", FOUND(INT64_MAX - 1)},
		{"/n", "{\"n\":9223372036854775806.1}", FOUND(INT64_MAX)},
		{"/n", "{\"n\":9223372036854775807}", FOUND(INT64_MAX)},
		{"/n", "{\"n\":9223372036854775808}", FOUND(INT64_MAX)},
		{"/n", "{\"n\":18446744073709551616}", FOUND(INT64_MAX)},
		{"/n", "{\"n\":18446744073709551617}", FOUND(INT64_MAX)},
		{"/n", "{\"n\":123456789012345678901234567890e-20}", FOUND(1234567891)},
		{"/n", "{\"n\":100000000000000000000000000000e-20}", FOUND(1000000000)},
		{"/n", "{\"n\":100000000000000000000000000001e-20}", FOUND(1000000001)},
	};

	CHECK_ALL(WEIR_READER_JSON, cases);
	(void)state;
}

static void numbers_of_400_digits(void **state)
{
	char body[1024];
	struct body_case c = {"/n", body, FOUND(INT64_MAX)};

	snprintf(body, sizeof body, "{\"n\":1%0400d}", 0);
	check_body(WEIR_READER_JSON, &c);
	snprintf(body, sizeof body, "{\"n\":1%0400de-398}", 0);
	c.value = 100;
	check_body(WEIR_READER_JSON, &c);
	snprintf(body, sizeof body, "{\"n\":0.%0400d5e402}", 0);
	c.value = 50;
	check_body(WEIR_READER_JSON, &c);
	snprintf(body, sizeof body, "{\"n\":7.%0400d}", 0);
	c.value = 7;
	check_body(WEIR_READER_JSON, &c);
	snprintf(body, sizeof body, "{\"n\":7.%0400d}", 1);
	c.value = 8;
	check_body(WEIR_READER_JSON, &c);
	(void)state;
}

static void values_that_are_not_numbers(void **state)
{
	static const struct body_case cases[] = {
		{"/n", "{\"n\":-5}", INVALID},      {"/n", "{\"n\":-0.5}", INVALID},
		{"/n", "{\"n\":-1e-400}", INVALID}, {"/n", "{\"n\":\"12\"}", INVALID},
		{"/n", "{\"n\":\"\"}", INVALID},    {"/n", "{\"n\":null}", INVALID},
		{"/n", "{\"n\":true}", INVALID},    {"/n", "{\"n\":false}", INVALID},
		{"/n", "{\"n\":{}}", INVALID},      {"/n", "{\"n\":{\"n\":5}}", INVALID},
		{"/n", "{\"n\":[5]}", INVALID},     {"/n", "{\"n\":01}", INVALID},
		{"/n", "{\"n\":1.}", INVALID},      {"/n", "{\"n\":1.e5}", INVALID},
		{"/n", "{\"n\":1e}", INVALID},      {"/n", "{\"n\":1e+}", INVALID},
		{"/n", "{\"n\":--1}", INVALID},     {"/n", "{\"n\":1-1}", INVALID},
		{"/n", "{\"n\":1.2.3}", INVALID},   {"/n", "{\"n\":12abc}", INVALID},
		{"/n", "{\"n\":-}", INVALID},
	};

	CHECK_ALL(WEIR_READER_JSON, cases);
	(void)state;
}

static void missing_values(void **state)
{
	static const struct body_case cases[] = {
		{TOKENS, "", MISSING},
		{TOKENS, "{}", MISSING},
		{TOKENS, "[]", MISSING},
		{TOKENS, "5", MISSING},
		{TOKENS, "{\"usage\":null}", MISSING},
		{TOKENS, "{\"usage\":5}", MISSING},
		{TOKENS, "{\"usage\":\"total_tokens\"}", MISSING},
		{TOKENS, "{\"usage\":{}}", MISSING},
		{TOKENS, "{\"usage\":{\"prompt_tokens\":5}}", MISSING},
		{TOKENS, "{\"usage\":{\"total_tokens_\":5}}", MISSING},
		{TOKENS, "{\"usage\":{\"total_token\":5}}", MISSING},
		{TOKENS, "{\"total_tokens\":5}", MISSING},
		{TOKENS, "{\"a\":{\"usage\":{\"total_tokens\":5}}}", MISSING},
		{TOKENS, "[{\"usage\":{\"total_tokens\":5}}]", MISSING},
		{TOKENS, "{\"usage\":[{\"total_tokens\":5}]}", MISSING},
		{TOKENS, "{\"usage\":{\"x\":{\"total_tokens\":5}}}", MISSING},
		{TOKENS, "{\"text\":\"{\\\"usage\\\":{\\\"total_tokens\\\":5}}\"}", MISSING},
		{TOKENS, "\"\\\"usage\\\":5\"", MISSING},
	};

	CHECK_ALL(WEIR_READER_JSON, cases);
	(void)state;
}

static void values_behind_other_values(void **state)
{
	static const struct body_case cases[] = {
		{TOKENS,
		 "{\"id\":\"chatcmpl-1\",\"choices\":[{\"index\":0,\"message\":{\"role\":"
		 "\"assistant\",\"content\":\"a \\\"quoted\\\" brace } and ] \\\\\"}}],"
		 "\"usage\":{\"prompt_tokens\":9,\"completion_tokens\":12,\"total_tokens\":21}}",
		 FOUND(21)},
		{"/n", "{\"a\":[],\"b\":{},\"c\":[[],[{}]],\"d\":\"\",\"e\":\"\\\\\",\"n\":3}",
		 FOUND(3)},
		{"/n", "{\"a\":true,\"b\":false,\"c\":null,\"d\":-1.5e-7,\"n\":3}", FOUND(3)},
		{"/n", "{\"a\":\"0123456789abcdef\",\"b\":\"0123456789abcdef\\\"\",\"n\":3}",
		 FOUND(3)},
		{"/n", "{\"a\":\"0123456789abcde\\\\\",\"n\":3,\"b\":{\"n\":4}}", FOUND(3)},
	};

	CHECK_ALL(WEIR_READER_JSON, cases);
	(void)state;
}

static void the_last_of_equal_members_counts(void **state)
{
	static const struct body_case cases[] = {
		{"/n", "{\"n\":1,\"n\":2}", FOUND(2)},
		{"/n", "{\"n\":1,\"n\":null}", INVALID},
		{"/n", "{\"n\":\"x\",\"n\":2}", FOUND(2)},
		{"/a/n", "{\"a\":{\"n\":1},\"a\":{\"n\":2}}", FOUND(2)},
		{"/a/n", "{\"a\":{\"n\":1},\"a\":{}}", MISSING},
		{"/a/n", "{\"a\":{\"n\":1},\"a\":null}", MISSING},
		{"/a/n", "{\"a\":{\"n\":1},\"b\":{\"n\":2}}", FOUND(1)},
	};

	CHECK_ALL(WEIR_READER_JSON, cases);
	(void)state;
}

static void names_with_escapes(void **state)
{
	static const struct body_case cases[] = {
		{"/a~1b", "{\"a/b\":1}", FOUND(1)},
		{"/a~1b", "{\"a\\/b\":1}", FOUND(1)},
		{"/a~0b", "{\"a~b\":1}", FOUND(1)},
		{"/a~01b", "{\"a~1b\":1}", FOUND(1)},
		{"/a~01b", "{\"a/b\":1}", MISSING},
		{"/~0~1/~1~0", "{\"~/\":{\"/~\":4}}", FOUND(4)},
		{"/a", "{\"\\u0061\":1}", FOUND(1)},
		{"/usage", "{\"\\u0075s\\u0061g\\u0065\":1}", FOUND(1)},
		{"/k\"l", "{\"k\\\"l\":1}", FOUND(1)},
		{"/k\\l", "{\"k\\\\l\":1}", FOUND(1)},
		{"/\b\f\n\r\t", "{\"\\b\\f\\n\\r\\t\":1}", FOUND(1)},
		{"/\xc3\xa9", "{\"\\u00e9\":1}", FOUND(1)},
		{"/\xc3\xa9", "{\"\xc3\xa9\":1}", FOUND(1)},
		{"/\xe2\x82\xac", "{\"\\u20AC\":1}", FOUND(1)},
		{"/\xf0\x9f\x98\x80", "{\"\\ud83d\\ude00\":1}", FOUND(1)},
		{"/\xf0\x9f\x98\x80", "{\"\\uD83D\\uDE00\":1}", FOUND(1)},
		{"/\xf4\x8f\xbf\xbfx", "{\"\\udbff\\udfffx\":1}", FOUND(1)},
		/* Halves of surrogate pairs, and invalid escapes. */
		{"/\xed\xa0\xbd", "{\"\\ud83d\":1}", MISSING},
		{"/\xed\xb8\x80", "{\"\\ude00\":1}", MISSING},
		{"/\xf0\x9f\x98\x80", "{\"\\ud83d\\ud83d\\ude00\":1}", MISSING},
		{"/x", "{\"\\ud83dx\":1}", MISSING},
		{"/x", "{\"x\\ud83d\":1}", MISSING},
		{"/x\xf0\x9f\x98\x80", "{\"\\ud83dx\\ude00\":1}", MISSING},
		{"/\n", "{\"\\ud83d\\n\":1}", MISSING},
		{"/x", "{\"\\ud83dx\":1,\"\\ud83d\\n\":2,\"x\":3}", FOUND(3)},
		{"/x", "{\"\\x\":1,\"\\u00zz\":2,\"\\u\":4,\"x\":3}", FOUND(3)},
		{"/a", "{\"\\u0061b\":1,\"\\u0062\":2,\"\\\"a\":4}", MISSING},
	};

	CHECK_ALL(WEIR_READER_JSON, cases);
	(void)state;
}

static void steps_of_pointers(void **state)
{
	static const struct body_case cases[] = {
		{"", "17", FOUND(17)},
		{"", "{\"a\":1}", INVALID},
		{"", "\"17\"", INVALID},
		{"", "", MISSING},
		{"/", "{\"\":1}", FOUND(1)},
		{"/", "{\"a\":1}", MISSING},
		{"//", "{\"\":{\"\":1}}", FOUND(1)},
		{"/a//b", "{\"a\":{\"\":{\"b\":1}}}", FOUND(1)},
		{"/a/", "{\"a\":{\"\":1}}", FOUND(1)},
		{"/a/", "{\"a\":1}", MISSING},
		{"/0", "[5,6,7]", FOUND(5)},
		{"/2", "[5,6,7]", FOUND(7)},
		{"/3", "[5,6,7]", MISSING},
		{"/-", "[5,6,7]", MISSING},
		{"/01", "[5,6,7]", MISSING},
		{"/ 1", "[5,6,7]", MISSING},
		{"/1e0", "[5,6,7]", MISSING},
		{"/", "[5,6,7]", MISSING},
		{"/18446744073709551617", "[5,6,7]", MISSING},
		{"/01", "{\"01\":1}", FOUND(1)},
		{"/1", "{\"1\":8}", FOUND(8)},
		{"/1/1", "[[1,2],[3,4],[5,6]]", FOUND(4)},
		{"/2/0", "[\"]\",{\"0\":1}, [ 5 , 6 ] ]", FOUND(5)},
		{"/11", "[0,1,2,3,4,5,6,7,8,9,10,1100]", FOUND(1100)},
		{"/choices/1/n", "{\"choices\":[{\"n\":1},{\"n\":2},{\"n\":3}]}", FOUND(2)},
		{"/a/b/c/d/e/f/g/h/i/j/k/l/m/n/o/p",
		 "{\"a\":{\"b\":{\"c\":{\"d\":{\"e\":{\"f\":{\"g\":{\"h\":{\"i\":{\"j\":{\"k\":{"
		 "\"l\":{\"m\":{\"n\":{\"o\":{\"p\":16}}}}}}}}}}}}}}}}",
		 FOUND(16)},
		{"/a/b/c/d/e/f/g/h/i/j/k/l/m/n/o/p",
		 "{\"a\":{\"b\":{\"c\":{\"d\":{\"e\":{\"f\":{\"g\":{\"h\":{\"i\":{\"j\":{\"k\":{"
		 "\"l\":{\"m\":{\"n\":{\"o\":{\"p\":[{\"q\":1}]}}}}}}}}}}}}}}}}",
		 INVALID},
	};

	CHECK_ALL(WEIR_READER_JSON, cases);
	(void)state;
}

static void several_texts(void **state)
{
	static const struct body_case cases[] = {
		{"/n", "{\"n\":1}\n{\"n\":2}\n", FOUND(2)},
		{"/n", "{\"n\":1}{\"n\":2}", FOUND(2)},
		{"/n", "{\"n\":1}\n{\"m\":2}\n[]\n7\n", FOUND(1)},
		{"/n", "{\"n\":1}\n{\"n\":\"x\"}", INVALID},
		{"/n", "{\"n\":-1}\n{\"n\":5}", FOUND(5)},
		{"/n", "{\"n\":1}\n{\"n\":null}", FOUND(1)}, /* null replaces nothing */
		{"/n", "{\"n\":null}\n{\"n\":1}", FOUND(1)},
		{"/n", "{\"n\":null}\n{\"n\":null}", INVALID},
		{"/n", "{\"n\":\"x\"}\n{\"n\":null}", INVALID},
		{"", "1 2\n3", FOUND(3)},
		{"/n", "\xef\xbb\xbf{\"n\":1}", FOUND(1)},
	};

	CHECK_ALL(WEIR_READER_JSON, cases);
	(void)state;
}

static void broken_texts(void **state)
{
	static const struct body_case cases[] = {
		/* A number in a container is complete when a byte follows it. */
		{"/n", "{\"n\":12", MISSING},
		{"/n", "{\"n\":12 ", FOUND(12)},
		{"/n", "{\"n\":12}", FOUND(12)},
		{TOKENS, "{\"usage\":{\"total_tokens\":12", MISSING},
		{TOKENS, "{\"usage\":{\"total_tokens\":12}", FOUND(12)},
		{"/1", "[5,6", MISSING},
		{"/n", "{\"n\":1,\"n\":12", MISSING},
		{"/n", "{\"n\":1}\n{\"n\":12", FOUND(1)},
		{"/n", "{\"n\":1}\n{\"n\":nu", FOUND(1)},
		{"/n", "{\"n\":1}\n{\"n\":12}", FOUND(12)},
		{"/n", "{\"n\":1}\n{\"n\":12\n", FOUND(12)},
		/* A number that is the whole text is complete at the end of the body. */
		{"", "12", FOUND(12)},
		{"", "1\n12", FOUND(12)},
		/* A text is read up to the error, or up to its end. */
		{"/n", "{\"n\":12,", FOUND(12)},
		{"/n", "{\"n\":12,\"x\":\"ab", FOUND(12)},
		{"/n", "{\"n\":1e", MISSING},
		{"/n", "{\"n\":nul", MISSING},
		{"/n", "{\"n\":\"12", MISSING},
		{"/n", "{\"n\":[12", MISSING},
		{"/n", "{\"n\":", MISSING},
		{"/n", "{\"n\"", MISSING},
		{"/n", "{\"\\u006e", MISSING},
		{"/n", "{\"n\":1,}", FOUND(1)},
		{"/n", "{\"n\":1]", FOUND(1)},
		{"/n", "{\"n\" 1}", MISSING},
		{"/n", "{n:1}", MISSING},
		{"/n", "{\"a\":1 \"n\":2}", MISSING},
		{"/n", "{\"a\":@,\"n\":2}", MISSING},
		{"/n", "{\"a\":,\"n\":2}", MISSING},
		{"/n", "<html>{\"n\":2}</html>", MISSING},
		{"/0", "[DONE]", MISSING},
		{"", "[DONE]", MISSING},
		{"", "{DONE}", MISSING},
		{"", "}", MISSING},
		/* After an error, the next line is a new text. */
		{"/n", "[DONE]\n{\"n\":2}", FOUND(2)},
		{"/n", "{\"n\":1}x\n{\"n\":2}", FOUND(2)},
		{"/n", "{\"n\":1}x{\"n\":2}", FOUND(1)},
		{"/n", "{\"n\":1,\"m\"}\n{\"a\":3}\n{\"n\":2}", FOUND(2)},
		{"/n", "\xef\xbbx{\"n\":1}\n{\"n\":2}", FOUND(2)},
		{"/n", "\xef\xbb\n{\"n\":2}", FOUND(2)},
		{"/n", "\xef\xbb", MISSING},
	};

	CHECK_ALL(WEIR_READER_JSON, cases);
	(void)state;
}

/* ---- server-sent events ---- */

static void events(void **state)
{
	static const struct body_case cases[] = {
		{"/n", "data: {\"n\":1}\n\n", FOUND(1)},
		{"/n", "data:{\"n\":1}\n\n", FOUND(1)},
		{"/n", "data: {\"n\":1}\r\n\r\n", FOUND(1)},
		{"/n", "data: {\"n\":1}\r\r", FOUND(1)},
		{"/n",
		 "\xef\xbb\xbf"
		 "data: {\"n\":1}\n\n",
		 FOUND(1)},
		{"/n",
		 "\xef\xbb"
		 "data: {\"n\":1}\n\ndata: {\"n\":2}\n\n",
		 FOUND(2)},
		{"/n",
		 "data: {\"n\":1}\n\n\xef\xbb\xbf"
		 "data: {\"n\":2}\n\n",
		 FOUND(1)},
		/* The last event that has the pointer counts. */
		{TOKENS,
		 "data: {\"id\":\"1\",\"usage\":null}\n\n"
		 "data: {\"id\":\"1\",\"choices\":[],\"usage\":{\"total_tokens\":30}}\n\n"
		 "data: [DONE]\n\n",
		 FOUND(30)},
		{TOKENS,
		 "data: {\"usage\":{\"total_tokens\":30}}\n\ndata: {\"usage\":null}\n\n"
		 "data: {\"usage\":{}}\n\n",
		 FOUND(30)},
		{"/n", "data: {\"n\":1}\n\ndata: {\"n\":2}\n\n", FOUND(2)},
		{"/n", "data: {\"n\":1}\n\ndata: {\"n\":null}\n\n", FOUND(1)},
		{"/n", "data: {\"n\":1}\n\ndata: {\"n\":-2}\n\n", INVALID},
		{"", "data: 5\n\ndata: [DONE]\n\n", FOUND(5)},
		/* Other lines. */
		{"/n", ": comment\nevent: message\nid: 7\nretry: 10\ndata: {\"n\":1}\n\n",
		 FOUND(1)},
		{"/n", "event: a\r\ndata: {\"n\":1}\r\nid: 1\r\n\r\n: bye\r\n\r\n", FOUND(1)},
		{"/n", ":data: {\"n\":1}\n\n", MISSING},
		{"/n", "dat: {\"n\":1}\n\n", MISSING},
		{"/n", "datax: {\"n\":1}\n\n", MISSING},
		{"/n", " data: {\"n\":1}\n\n", MISSING},
		{"/n", "Data: {\"n\":1}\n\n", MISSING},
		{"/n", "data : {\"n\":1}\n\n", MISSING},
		{"/n", "data\n\ndata:\n\ndata: \n\ndata: {\"n\":1}\n\n", FOUND(1)},
		{"/n", "{\"n\":1}\n\n", MISSING},
		/* Several lines of data are one text. */
		{"/n", "data: {\ndata: \"n\"\ndata\ndata: :\ndata:12\ndata: }\n\n", FOUND(12)},
		{"/n", "data: {\"n\":1\ndata: 2}\n\n", FOUND(1)},
		{"/n", "data: {\"n\":\r\ndata:  4\r\ndata: }\r\n\r\n", FOUND(4)},
		{"/n", "data: {\"n\":\rid: {\rdata: 4}\r\r", FOUND(4)},
		{"", "data: 1\ndata: 2\n\n", FOUND(2)},
		/* Events that are not complete, and events with errors. */
		{"/n", "data: {\"n\":1}\n", FOUND(1)},
		{"/n", "data: {\"n\":1}", FOUND(1)},
		{"/n", "data: {\"n\":1", MISSING},
		{"/n", "data: {\"n\":1\n", MISSING},
		{"/n", "data: {\"n\":1\ndata", MISSING},
		{"/n", "data: {\"n\":1\ndata: ", FOUND(1)},
		{"/n", "data: {\"n\":1}\n\ndata: {\"n\":2", FOUND(1)},
		{"/n", "data: {\"n\":1}\n\ndata: {\"n\":2}", FOUND(2)},
		{TOKENS,
		 "data: {\"usage\":{\"total_tokens\":30}}\n\ndata: {\"usage\":{\"total_tokens\":4",
		 FOUND(30)},
		{"", "data: 12", MISSING},
		{"", "data: 5\n\ndata: 12", FOUND(5)},
		{"", "data: 12\n", FOUND(12)},
		{"/n", "data: {\"a\":[{\"n\":\"\n\ndata: {\"n\":1}\n\n", FOUND(1)},
		{"/n", "data: {\"n\":\n\ndata: 7}\n\n", MISSING},
		{"/n", "data: {\"n\":4\n\ndata: 7}\n\n", MISSING},
		{"/n", "data: oops {\ndata: {\"n\":3}\n\ndata: {\"m\":1}\n\n", MISSING},
		{"/n", "data: {\"x\\\n\ndata: {\"n\":1}\n\n", FOUND(1)},
		{"/n", "data: {\"\\u00\n\ndata: {\"n\":1}\n\n", FOUND(1)},
	};

	CHECK_ALL(WEIR_READER_EVENTS, cases);
	(void)state;
}

/* Events that are long enough to be searched for the names of the pointers. */
static void long_events(void **state)
{
#define LONG "\"text\":\"water flows over the weir and down\""
	static const struct body_case cases[] = {
		{TOKENS, "data: {" LONG ",\"usage\":{\"total_tokens\":5}}\n\n", FOUND(5)},
		{TOKENS, "data: {\"usage\":{\"total_tokens\":5}," LONG "}\n\n", FOUND(5)},
		{TOKENS,
		 "data: {\"usage\":{\"total_tokens\":5}," LONG "}\n\n"
		 "data: {" LONG ",\"usage\":null}\n\ndata: {" LONG "}\r\n\r\ndata: {" LONG "}\r\r",
		 FOUND(5)},
		/* A name with an escape. */
		{TOKENS, "data: {" LONG ",\"usage\":{\"total\\u005ftokens\":5}}\n\n", FOUND(5)},
		{TOKENS, "data: {\"usage\":{\"total_token\\u0073\":5}," LONG "}\n\n", FOUND(5)},
		/* The name is a text, or in another object. */
		{TOKENS, "data: {" LONG ",\"usage\":\"total_tokens\"}\n\n", MISSING},
		{TOKENS, "data: {" LONG ",\"other\":{\"total_tokens\":5}}\n\n", MISSING},
		/* A line without the name, and more lines of the same event. */
		{TOKENS, "data: {" LONG ",\ndata: \"usage\":{\"total_tokens\":5}}\n\n", FOUND(5)},
		{TOKENS, "data: {" LONG ",\r\ndata: \"usage\":{\"total_tokens\":5}}\r\n\r\n",
		 FOUND(5)},
		{TOKENS, "data: {" LONG ",\rdata: \"usage\":{\"total_tokens\":5}}\r\r", FOUND(5)},
		{TOKENS, "data: {" LONG "\ndata: }\n\ndata: {\"usage\":{\"total_tokens\":5}}\n\n",
		 FOUND(5)},
		/* Steps that are no names, or are not written like their names. */
		{"/0/1", "data: [[{" LONG "},7],{" LONG "}]\n\n", FOUND(7)},
		{"", "data:                                          7\n\n", FOUND(7)},
		{"/", "data: {" LONG ",\"\":7}\n\n", FOUND(7)},
		{"/a~1b", "data: {" LONG ",\"a/b\":7}\n\n", FOUND(7)},
		{"/a~1b/c", "data: {" LONG ",\"a/b\":{\"c\":7}}\n\n", FOUND(7)},
		{"/usage/0", "data: {" LONG ",\"usage\":[7]}\n\n", FOUND(7)},
		{"/a\"b", "data: {" LONG ",\"a\\\"b\":7}\n\n", FOUND(7)},
		{"/a\\b", "data: {" LONG ",\"a\\\\b\":7}\n\n", FOUND(7)},
		{"/a\tb", "data: {" LONG ",\"a\\tb\":7}\n\n", FOUND(7)},
		/* Events between other events, with every kind of line end. */
		{TOKENS,
		 "data: {" LONG "}\r\n\r\ndata: {" LONG "}\n\r\n: " LONG "\n\n\n\r\r\n\n"
		 "data: {\"usage\":{\"total_tokens\":6}}\r\r\n\ndata: {" LONG "}\r\n\n\r",
		 FOUND(6)},
		{TOKENS,
		 "data: {\"text\":\"a\\nb\\\\\"}\n\ndata: {" LONG "}\n\n"
		 "data: {\"usage\":{\ndata: \"total_tokens\":6}}\n\ndata: {" LONG "}\n\n",
		 FOUND(6)},
		/* The name follows an empty line of another event at once. */
		{TOKENS, "data: {\"usage\":{\"x\":1\n\ntotal_tokens\n\ndata: {" LONG "}\n\n",
		 MISSING},
		{TOKENS, "data: {\"usage\":{\n\ndata: \"total_tokens\":6}}\n\n", MISSING},
	};
#undef LONG

	CHECK_ALL(WEIR_READER_EVENTS, cases);
	(void)state;
}

/* Events that are slightly shorter and longer than the memory for the beginning of an event. The body
 * is split into three parts, first at every byte. */
static void cut_events(void **state)
{
	struct weir_str pointer = str_of(TOKENS);
	struct reader_rig rig;
	char body[800];

	for (int blanks = 400; blanks < 480; blanks++) {
		size_t len = (size_t)snprintf(body, sizeof body,
					      "data: {\"n\":1}\n\n"
					      "data: {%*s\"usage\":{\"total_tokens\":%d}}\n\n"
					      "data: {\"m\":2}\n\n",
					      blanks, "", blanks);

		for (size_t cut = 0; cut <= len; cut++) {
			size_t second = cut + (len - cut) / 2;

			reader_open(&rig, WEIR_READER_EVENTS, &pointer, 1);
			reader_feed(&rig, body, cut);
			reader_feed(&rig, body + cut, second - cut);
			reader_feed(&rig, body + second, len - second);
			assert_int_equal(reader_result(&rig, 0).value, blanks);
			assert_int_equal(reader_close(&rig).value, blanks);
		}
	}
	(void)state;
}

static void usage_in_the_last_of_10000_events(void **state)
{
	static const size_t pieces[] = {1, 7, 100, 4096, SIZE_MAX};
	struct weir_str pointer = str_of(TOKENS);
	struct reader_rig rig;
	size_t cap = 10000 * 100, len = 0;
	char *body = malloc(cap);

	for (int i = 1; i < 10000; i++)
		len += (size_t)snprintf(body + len, cap - len,
					"data: {\"choices\":[{\"delta\":{\"content\":\"w%d\"}}],"
					"\"usage\":null}\n\n",
					i);
	len += (size_t)snprintf(body + len, cap - len,
				"data: {\"choices\":[],\"usage\":{\"total_tokens\":10007}}\n\n"
				"data: [DONE]\n\n");
	assert_true(len < cap);
	for (size_t i = 0; i < sizeof pieces / sizeof *pieces; i++) {
		reader_open(&rig, WEIR_READER_EVENTS, &pointer, 1);
		for (size_t at = 0, n; at < len; at += n) {
			n = len - at < pieces[i] ? len - at : pieces[i];
			assert_int_equal(weir_reader_feed(rig.reader, body + at, n), 0);
			if (at + n < len / 2)
				assert_int_equal(reader_result(&rig, 0).result,
						 WEIR_READER_MISSING);
		}
		assert_int_equal(reader_close(&rig).value, 10007);
	}
	free(body);
	(void)state;
}

/* ---- large bodies ---- */

static void feed_text(struct reader_rig *rig, const char *text)
{
	reader_feed(rig, text, strlen(text));
}

/* Feeds the text again and again, 1 GiB in the full tier. */
static void feed_much(struct reader_rig *rig, const char *text)
{
	size_t len = strlen(text), count = MIB / len;
	char *buffer = malloc(count * len);

	for (size_t i = 0; i < count * len; i++)
		buffer[i] = text[i % len];
	for (int i = test_rounds(64, 1025); i > 0; i--)
		assert_int_equal(weir_reader_feed(rig->reader, buffer, count * len), 0);
	free(buffer);
}

static void a_body_of_1_gib(void **state)
{
	static const struct {
		int format;
		const char *begin, *repeated, *end;
	} bodies[] = {
		{WEIR_READER_JSON, "{\"t\":\"", "lorem ipsum \\\"dolor\\\" {[", "\""},
		{WEIR_READER_JSON, "{\"t\":[0", ",[1,{\"a\":\"b\"}],\"]\"", "]"},
		{WEIR_READER_JSON, "{\"t\":0", ",\"usage_\":{\"x\":1}", ""},
		{WEIR_READER_JSON, "{\"t\":0.", "0000000000", ""},
		{WEIR_READER_JSON, "", "{\"usage\":{\"total_tokens\":5}}\n", "{\"t\":0"},
		{WEIR_READER_JSON, "", "not JSON { \" [ ", "\n{\"t\":0"},
		{WEIR_READER_EVENTS, "", "data: {\"t\":\"w\"}\n\n", "data: {\"t\":0"},
		{WEIR_READER_EVENTS, "data: {\"t\":\"", "lorem ipsum dolor ", "\""},
	};
	struct weir_str pointer = str_of(TOKENS);

	for (size_t i = 0; i < sizeof bodies / sizeof *bodies; i++) {
		struct reader_rig rig;
		struct reading reading;

		reader_open(&rig, bodies[i].format, &pointer, 1);
		feed_text(&rig, bodies[i].begin);
		feed_much(&rig, bodies[i].repeated);
		feed_text(&rig, bodies[i].end);
		feed_text(&rig, ",\"usage\":{\"total_tokens\":77}}");
		reading = reader_close(&rig);
		assert_int_equal(reading.result, WEIR_READER_FOUND);
		assert_int_equal(reading.value, 77);
	}
	(void)state;
}

static void feed_times(struct reader_rig *rig, const char *text, int times)
{
	for (int i = 0; i < times; i++)
		feed_text(rig, text);
}

static void a_depth_of_100000(void **state)
{
	struct weir_str pointers[] = {str_of("/n"), str_of("/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/n")};
	struct reader_rig rig;

	reader_open(&rig, WEIR_READER_JSON, pointers, 2);
	feed_text(&rig, "{\"d\":");
	feed_times(&rig, "[", 100000);
	feed_times(&rig, "]", 100000);
	feed_text(&rig, ",\"n\":41}");
	assert_int_equal(reader_close(&rig).value, 41);
	assert_int_equal(reader_result(&rig, 1).result, WEIR_READER_MISSING);

	reader_open(&rig, WEIR_READER_JSON, pointers, 2);
	feed_times(&rig, "{\"a\":", 100000);
	feed_text(&rig, "[]");
	feed_times(&rig, ",\"n\":1}", 100000 - 16);
	for (int i = 16; i > 0; i--) {
		char text[32];

		snprintf(text, sizeof text, ",\"n\":%d}", i);
		feed_text(&rig, text);
	}
	assert_int_equal(reader_close(&rig).value, 1);
	assert_int_equal(reader_result(&rig, 1).value, 16);
	(void)state;
}

/* ---- several pointers ---- */

/* Reads a body with the pointers of all cases, in pieces of every size. The cases have the same body. */
static void expect_together(int format, const struct body_case *cases, size_t count)
{
	struct weir_str pointers[WEIR_READER_POINTERS_MAX];
	size_t len = strlen(cases[0].body);

	for (size_t i = 0; i < count; i++)
		pointers[i] = str_of(cases[i].pointer);
	for (size_t piece = 1; piece <= len; piece++) {
		struct reader_rig rig;

		reader_open(&rig, format, pointers, count);
		for (size_t at = 0, n; at < len; at += n) {
			n = len - at < piece ? len - at : piece;
			reader_feed(&rig, cases[0].body + at, n);
		}
		reader_close(&rig);
		for (size_t i = 0; i < count; i++)
			expect(&cases[i], reader_result(&rig, i), "in pieces of", piece);
	}
}

static void eight_pointers(void **state)
{
	static const char body[] = "{\"a\":1,\"b\":{\"c\":2,\"d\":[3,4,{\"e~\":5}]},\"ab\":6,"
				   "\"\":7,\"b2\":\"x\"}";
	static const struct body_case cases[] = {
		{"/a", body, FOUND(1)},         {"/b/c", body, FOUND(2)},   {"/b", body, INVALID},
		{"/b/d/2/e~0", body, FOUND(5)}, {"/b/d/1", body, FOUND(4)}, {"/ab", body, FOUND(6)},
		{"/b/d/1", body, FOUND(4)}, /* the same again */
		{"/b/d/3", body, MISSING},
	};

	expect_together(WEIR_READER_JSON, cases, sizeof cases / sizeof *cases);
	(void)state;
}

/* ---- calls ---- */

/* The values of several pointers are in different events, in another order than the pointers. */
static void pointers_in_different_events(void **state)
{
	static const char body[] = "data: {\"b\":{\"y\":1}}\n\ndata: {\"text\":\"water\"}\n\n"
				   "data: {\"c\":2}\n\ndata: {\"b\":{\"y\":3}}\n\n"
				   "data: {\"text\":\"water flows over the weir and down\"}\n\n"
				   "data: {\"a\":4,\"c\":\"x\"}\n\ndata: [DONE]\n\n";
	static const struct body_case cases[] = {
		{"/a", body, FOUND(4)},
		{"/b/y", body, FOUND(3)},
		{"/c", body, INVALID},
		{"/d", body, MISSING},
	};

	expect_together(WEIR_READER_EVENTS, cases, sizeof cases / sizeof *cases);
	(void)state;
}

static void formats(void **state)
{
	static const struct {
		const char *type;
		int format;
	} cases[] = {
		{"application/json", WEIR_READER_JSON},
		{"Application/JSON", WEIR_READER_JSON},
		{"application/json; charset=utf-8", WEIR_READER_JSON},
		{" application/json ;charset=utf-8", WEIR_READER_JSON},
		{"application/problem+json", WEIR_READER_JSON},
		{"application/vnd.api+JSON;v=1", WEIR_READER_JSON},
		{"application/x-ndjson", WEIR_READER_JSON},
		{"application/jsonl", WEIR_READER_JSON},
		{"text/event-stream", WEIR_READER_EVENTS},
		{"Text/Event-Stream;charset=utf-8", WEIR_READER_EVENTS},
		{"", 0},
		{";", 0},
		{"text/html", 0},
		{"application/", 0},
		{"application", 0},
		{"application/+json", 0},
		{"application/json-seq", 0},
		{"application/jsonx", 0},
		{"application/xml; type=application/json", 0},
		{"text/event-streams", 0},
	};

	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
		if (weir_reader_format(str_of(cases[i].type)) != cases[i].format)
			fail_msg("%s", cases[i].type);
	assert_int_equal(weir_reader_format((struct weir_str){NULL, 0}), 0);
	(void)state;
}

static void pointers_are_checked(void **state)
{
	static const char *const good[] = {
		"", "/", "/a", "//", "/~0~1", "/a/0", "/1/2/3/4/5/6/7/8/9/10/11/12/13/14/15/16",
	};
	static const char *const bad[] = {
		"a", "a/b", "/~", "/~2", "/a~/", "/1/2/3/4/5/6/7/8/9/10/11/12/13/14/15/16/17",
	};
	char longest[WEIR_READER_POINTER_MAX + 1];

	for (size_t i = 0; i < sizeof good / sizeof *good; i++)
		assert_int_equal(weir_reader_check_pointer(str_of(good[i])), 0);
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
		assert_int_equal(weir_reader_check_pointer(str_of(bad[i])), WEIR_EINVAL);
	memset(longest, 'a', sizeof longest);
	longest[0] = '/';
	assert_int_equal(weir_reader_check_pointer((struct weir_str){longest, sizeof longest - 1}),
			 0);
	assert_int_equal(weir_reader_check_pointer((struct weir_str){longest, sizeof longest}),
			 WEIR_EINVAL);
	assert_int_equal(weir_reader_check_pointer((struct weir_str){NULL, 1}), WEIR_EINVAL);
	assert_int_equal(weir_reader_check_pointer((struct weir_str){NULL, 0}), 0);
	(void)state;
}

static void the_longest_name(void **state)
{
	char pointer[WEIR_READER_POINTER_MAX + 1], body[WEIR_READER_POINTER_MAX + 16];
	struct body_case c = {pointer, body, FOUND(3)};

	memset(pointer, 'x', sizeof pointer - 1);
	pointer[0] = '/';
	pointer[sizeof pointer - 1] = 0;
	snprintf(body, sizeof body, "{\"%s\":3}", pointer + 1);
	check_body(WEIR_READER_JSON, &c);
	(void)state;
}

static void invalid_calls(void **state)
{
	struct weir_str pointers[WEIR_READER_POINTERS_MAX + 1] = {{"/a", 2}, {"b", 1}};
	_Alignas(max_align_t) char memory[WEIR_READER_BYTES + 1] = {0};
	struct weir_reader *reader = (struct weir_reader *)memory;
	int64_t value = 7;

	assert_int_equal(weir_reader_feed(NULL, "", 0), WEIR_EINVAL);
	assert_int_equal(weir_reader_feed(reader, "", 0), WEIR_EINVAL);
	assert_int_equal(weir_reader_end(reader), WEIR_EINVAL);
	assert_int_equal(weir_reader_value(reader, 0, &value), WEIR_EINVAL);
#define INIT(memory, size, pointers, count, format)                                                \
	weir_reader_init(memory, size, pointers, count, format, &reader)
	assert_int_equal(INIT(NULL, sizeof memory, pointers, 1, 1), WEIR_EINVAL);
	assert_int_equal(INIT(memory + 1, sizeof memory - 1, pointers, 1, 1), WEIR_EINVAL);
	assert_int_equal(INIT(memory, WEIR_READER_BYTES - 1, pointers, 1, 1), WEIR_EROOM);
	assert_int_equal(INIT(memory, sizeof memory, NULL, 1, 1), WEIR_EINVAL);
	assert_int_equal(INIT(memory, sizeof memory, pointers, 0, 1), WEIR_EINVAL);
	assert_int_equal(INIT(memory, sizeof memory, pointers, 2, 1), WEIR_EINVAL);
	assert_int_equal(INIT(memory, sizeof memory, pointers, 1, 0), WEIR_EINVAL);
	assert_int_equal(INIT(memory, sizeof memory, pointers, 1, 3), WEIR_EINVAL);
	pointers[1] = (struct weir_str){"", 0};
	assert_int_equal(INIT(memory, sizeof memory, pointers, 9, 1), WEIR_EINVAL);
	assert_int_equal(INIT(memory, sizeof memory, pointers, 8, 1), 0);
#undef INIT
	assert_int_equal(weir_reader_feed(reader, NULL, 0), 0);
	assert_int_equal(weir_reader_feed(reader, NULL, 1), WEIR_EINVAL);
	assert_int_equal(weir_reader_value(reader, 8, &value), WEIR_EINVAL);
	assert_int_equal(weir_reader_value(reader, 0, NULL), WEIR_EINVAL);
	assert_int_equal(weir_reader_value(reader, 0, &value), WEIR_READER_MISSING);
	assert_int_equal(weir_reader_end(reader), 0);
	assert_int_equal(weir_reader_feed(reader, "{}", 2), WEIR_EINVAL); /* after the end */
	assert_int_equal(weir_reader_end(reader), 0);
	assert_int_equal(weir_reader_value(reader, 0, &value), WEIR_READER_MISSING);
	assert_int_equal(value, 7);
	(void)state;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(numbers),
		cmocka_unit_test(numbers_of_400_digits),
		cmocka_unit_test(values_that_are_not_numbers),
		cmocka_unit_test(missing_values),
		cmocka_unit_test(values_behind_other_values),
		cmocka_unit_test(the_last_of_equal_members_counts),
		cmocka_unit_test(names_with_escapes),
		cmocka_unit_test(steps_of_pointers),
		cmocka_unit_test(several_texts),
		cmocka_unit_test(broken_texts),
		cmocka_unit_test(events),
		cmocka_unit_test(long_events),
		cmocka_unit_test(cut_events),
		cmocka_unit_test(usage_in_the_last_of_10000_events),
		cmocka_unit_test(a_body_of_1_gib),
		cmocka_unit_test(a_depth_of_100000),
		cmocka_unit_test(eight_pointers),
		cmocka_unit_test(pointers_in_different_events),
		cmocka_unit_test(formats),
		cmocka_unit_test(pointers_are_checked),
		cmocka_unit_test(the_longest_name),
		cmocka_unit_test(invalid_calls),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
