/* Values separated by commas: with a header line, with names that the user gives, and without a
 * header line, as Apache can write them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "lab/log/csv.h"
#include "lab/log/log_test.h"

static void cells_are_split(void **state)
{
	static const struct {
		const char *line;
		bool escapes;
		uint32_t count;
		const char *cells[4];
	} cases[] = {
		{"a,b,c", false, 3, {"a", "b", "c"}},
		{"", false, 1, {""}},
		{",", false, 2, {"", ""}},
		{"a, b ,", false, 3, {"a", "b", ""}},
		{"\"a,b\",c", false, 2, {"a,b", "c"}},
		{"\"a\"\"b\",\"\"", false, 2, {"a\"b", ""}},
		{"\"a\"x,b", false, 2, {"a", "b"}},
		{"\"C:\\\",b", false, 2, {"C:\\", "b"}},
		{"\"a\\\"b\",c", true, 2, {"a\"b", "c"}},
		{"\"a\\\\\",c", true, 2, {"a\\", "c"}},
		{"\"a", false, 0, {NULL}},
		{"\"a\"\"", false, 0, {NULL}},
		{"\"a\\\"", true, 0, {NULL}},
		{"\"a\\", true, 0, {NULL}},
	};

	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct weir_str cells[WR_LAB_COLUMNS];
		char line[64];

		snprintf(line, sizeof line, "%s", cases[i].line);
		assert_int_equal(wr_lab_csv_split(line, strlen(line), cases[i].escapes, cells),
				 cases[i].count);
		for (uint32_t j = 0; j < cases[i].count; j++)
			assert_str(cells[j], cases[i].cells[j] ? cases[i].cells[j] : "");
	}
	(void)state;
}

static void columns_are_found_by_name(void **state)
{
	struct test_line line;
	const struct wr_lab_record *record = &line.slot.record;

	assert_null(test_line_read(
		&line, WR_LAB_CSV, NULL,
		"\"Time\",IP,Method,path,Status,cost,User_Agent,http_x_api_key,other\n",
		"2024-01-02 03:04:05,192.0.2.1,GET,\"/a,b\",429,5,\"say \"\"hi\"\"\",k,z"));
	assert_int_equal(record->time_ns, 1704164645000000000);
	assert_true(line.slot.whole);
	assert_str(record->client, "192.0.2.1");
	assert_str(record->method, "GET");
	assert_str(record->target, "/a,b");
	assert_int_equal(record->status, 429);
	assert_int_equal(record->cost, 5);
	assert_int_equal(record->header_count, 2);
	assert_header(record, "user-agent", "say \"hi\"");
	assert_header(record, "x-api-key", "k");
	test_line_free(&line);
	(void)state;
}

/* The columns of a trace of a language model: a time and two counts of tokens. */
static void token_counts_are_added(void **state)
{
	struct test_line line;

	assert_null(test_line_read(&line, WR_LAB_CSV, NULL,
				   "TIMESTAMP,ContextTokens,GeneratedTokens\n",
				   "2023-11-16 18:17:03.9799600,4808,10"));
	assert_int_equal(line.slot.record.time_ns, 1700158623979960000);
	assert_int_equal(line.slot.record.cost, 4818);
	assert_false(line.slot.record.has_address);
	test_line_free(&line);
	(void)state;
}

static void columns_are_found_by_given_names(void **state)
{
	struct test_line line;

	assert_null(test_line_read(&line, WR_LAB_CSV, "time=when,client=who,cost=in+out",
				   "when,who,in,out,cost\n", "1704164645250,carol,3,4,99"));
	assert_int_equal(line.slot.record.time_ns, 1704164645250000000);
	assert_str(line.slot.record.client, "carol");
	assert_true(line.slot.record.stand_in);
	assert_int_equal(line.slot.record.cost, 7);
	test_line_free(&line);

	/* numbers of columns, of a file without a header line */
	assert_null(test_line_read(&line, WR_LAB_CSV, "time=2,client=1,cost=3",
				   "dave,2024-01-02T03:04:05Z,8\n", "dave,2024-01-02T03:04:05Z,8"));
	assert_int_equal(line.slot.record.time_ns, 1704164645000000000);
	assert_str(line.slot.record.client, "dave");
	assert_int_equal(line.slot.record.cost, 8);
	test_line_free(&line);
	(void)state;
}

static void large_costs_stay_large(void **state)
{
	static const struct {
		const char *text;
		int64_t cost;
	} cases[] = {{"1704164645,a,1e18", WR_LAB_COST_MAX},
		     {"1704164645,a,1e30", WR_LAB_COST_MAX},
		     {"1704164645,a,1000000000000000000", WR_LAB_COST_MAX},
		     {"1704164645,a,2e3", 2000},
		     {"1704164645,a,many", 1}};

	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct test_line line;

		assert_null(test_line_read(&line, WR_LAB_CSV, NULL, "time,client,cost\n",
					   cases[i].text));
		assert_int_equal(line.slot.record.cost, cases[i].cost);
		test_line_free(&line);
	}
	(void)state;
}

/* Without another key, the user is the client. */
static void user_can_be_the_client(void **state)
{
	struct test_line line;

	assert_null(test_line_read(&line, WR_LAB_CSV, NULL, "time,user\n", "1704164645,erin"));
	assert_str(line.slot.record.user, "erin");
	assert_str(line.slot.record.client, "erin");
	test_line_free(&line);
	(void)state;
}

static void columns_are_found_by_values(void **state)
{
	static const char head[] =
		"a.example,443,192.0.2.1,-,-,[05/Dec/2024:00:06:08 +0000],663,4766,5429,410,2,2247,"
		"1977,200,\"HTTP/1.1\",\"GET\",\"/\",\"\",\"-\",\"-\",\"-\",-\n"
		"a.example,443,192.0.2.2,-,-,[05/Dec/2024:00:06:09 +0000],663,4766,5429,196,2,2247,"
		"1977,404,\"HTTP/1.1\",\"POST\",\"/b\",\"\",\"https://a.example/\",\"curl/"
		"8.0\",\"-\","
		"-\n";
	struct test_line line;
	const struct wr_lab_record *record = &line.slot.record;

	assert_null(test_line_read(
		&line, WR_LAB_CSV, NULL, head,
		"b.example,80,2001:db8::5,-,-,[05/Dec/2024:00:06:10 +0000],1,2,3,301,5,6,-,503,"
		"\"HTTP/1.1\",\"PUT\",\"/x\",\"?q=\\\"1\\\",2\",\"https://b.example/\",\"agent, "
		"2\",\"-\",-"));
	assert_int_equal(record->time_ns, 1733357170000000000);
	assert_str(record->client, "2001:db8::5");
	assert_str(record->host, "b.example");
	assert_str(record->method, "PUT");
	assert_str(record->target, "/x?q=\"1\",2");
	assert_int_equal(record->status, 503);
	assert_header(record, "referer", "https://b.example/");
	assert_header(record, "user-agent", "agent, 2");
	test_line_free(&line);
	(void)state;
}

static void unreadable_lines_have_reasons(void **state)
{
	static const struct {
		const char *text, *reason;
	} cases[] = {{"\"2024-01-02 03:04:05,1.2.3.4,1", "a quote is not closed"},
		     {"soon,1.2.3.4,1", "no time"},
		     {"10000-01-01 00:00:00,1.2.3.4,1", "no time"},
		     {",1.2.3.4,1", "no field with a time"},
		     {"1.2.3.4", "no time"}};

	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct test_line line;
		const char *reason = test_line_read(&line, WR_LAB_CSV, NULL, "time,client,cost\n",
						    cases[i].text);

		if (!reason || strcmp(reason, cases[i].reason) != 0)
			fail_msg("%s: %s", cases[i].text, reason ? reason : "readable");
		test_line_free(&line);
	}
	(void)state;
}

static void file_without_times_has_no_columns(void **state)
{
	static const char *const heads[] = {"a,b,c\n1,2,3\n", "no commas\n", "", "\"x\n"};

	for (size_t i = 0; i < sizeof heads / sizeof *heads; i++) {
		struct wr_lab_parser parser = {.format = WR_LAB_CSV};
		struct weir_error error;
		char copy[64];

		assert_int_equal(wr_lab_fields_new(&parser.fields, NULL, &error), 0);
		assert_false(wr_lab_csv_start(&parser,
					      (struct weir_str){heads[i], strlen(heads[i])}, copy));
		wr_lab_fields_free(parser.fields);
	}
	(void)state;
}

/* Columns behind the last one that is read. */
static void many_columns_have_a_bound(void **state)
{
	struct test_line line;
	char head[2048], text[2048];
	size_t used = (size_t)snprintf(head, sizeof head, "time,ip");
	size_t text_used = (size_t)snprintf(text, sizeof text, "1704164645,192.0.2.1");

	for (int i = 0; i < 300; i++) {
		used += (size_t)snprintf(head + used, sizeof head - used, ",cost");
		text_used += (size_t)snprintf(text + text_used, sizeof text - text_used, ",1");
	}
	snprintf(head + used, sizeof head - used, "\n");
	assert_null(test_line_read(&line, WR_LAB_CSV, NULL, head, text));
	assert_int_equal(line.slot.record.cost, 126);
	test_line_free(&line);
	(void)state;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(cells_are_split),
		cmocka_unit_test(columns_are_found_by_name),
		cmocka_unit_test(token_counts_are_added),
		cmocka_unit_test(columns_are_found_by_given_names),
		cmocka_unit_test(large_costs_stay_large),
		cmocka_unit_test(user_can_be_the_client),
		cmocka_unit_test(columns_are_found_by_values),
		cmocka_unit_test(unreadable_lines_have_reasons),
		cmocka_unit_test(file_without_times_has_no_columns),
		cmocka_unit_test(many_columns_have_a_bound),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
