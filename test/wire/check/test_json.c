/* Tests questions of /v1/check and their answers: exact bytes, and a comparison of the fast reader
 * with the full reader. */
#include "limiter/helper.h"

#include <stdio.h>
#include <string.h>

#include "base/str.h"
#include "wire/check/json.h"

#define USER "{\"entries\":[{\"key\":\"user\",\"value\":\"7\"}]}"
#define QUESTION(descriptors) "{\"domain\":\"api\",\"descriptors\":[" descriptors "]}"

static const char rules[] =
	"domain: api\n"
	"descriptors:\n"
	"  - {key: user, rate_limit: {unit: minute, requests_per_unit: 2, name: per-user}}\n"
	"  - {key: door, rate_limit: {unit: second, requests_per_unit: 4, algorithm: leaky_bucket, "
	"queue_size: 1}}\n"
	"  - {key: shut, rate_limit: {unit: day, requests_per_unit: 0}}\n";

/* Reads a question, decides at rig->now_ns, and returns the answer. */
static const char *ask(struct rig *rig, const char *body)
{
	static char text[8192];
	struct wr_json_out json;
	struct wr_buf buf;
	struct wr_problem problem;
	struct wr_check check;
	int verdict;

	assert_int_equal(wr_check_open(&check, wr_str(body), &problem), 0);
	rig_begin(rig);
	assert_int_equal(wr_check_add(&check, 0, rig->ask, &problem), 0);
	wr_check_close(&check);
	verdict = weir_ask_decide(rig->ask, rig->now_ns);
	wr_buf_init_fixed(&buf, text, sizeof text);
	wr_json_begin(&json, &buf);
	wr_check_answer(rig->ask, verdict, &json);
	assert_false(wr_buf_failed(&buf));
	return text;
}

static void test_answers(void **state)
{
	struct rig rig;

	(void)state;
	rig_open(&rig, rules, "api");
	rig.now_ns = NOW_NS + 1500000001; /* 58.499999999 s before the reset */
	assert_string_equal(
		ask(&rig, QUESTION(USER)),
		"{\"admitted\":true,\"verdict\":\"admit\",\"status\":200,\"rule\":\"api/user/1m\","
		"\"name\":\"per-user\",\"limit\":2,\"remaining\":1,\"reset_after\":58.500,"
		"\"retry_after\":0,\"delay\":0,\"generation\":1,\"descriptors\":[{\"code\":\"ok\","
		"\"rule\":\"api/user/1m\",\"name\":\"per-user\",\"limit\":2,\"remaining\":1,"
		"\"reset_after\":58.500,\"retry_after\":0,\"requests_per_unit\":2,\"unit\":"
		"\"minute\","
		"\"flags\":[]}]}");
	ask(&rig, QUESTION(USER));
	rig.now_ns = NOW_NS + 2 * SECOND_NS;
	assert_non_null(
		strstr(ask(&rig, QUESTION(USER)),
		       "{\"admitted\":false,\"verdict\":\"refuse\",\"status\":429,"
		       "\"rule\":\"api/user/1m\",\"name\":\"per-user\",\"limit\":2,"
		       "\"remaining\":0,\"reset_after\":58,\"retry_after\":58,\"delay\":0,"));
	assert_string_equal(
		ask(&rig, QUESTION("{\"entries\":[{\"key\":\"nobody\"}]}")),
		"{\"admitted\":true,\"verdict\":\"admit\",\"status\":200,\"rule\":null,\"name\":"
		"null,"
		"\"limit\":null,\"remaining\":null,\"reset_after\":null,\"retry_after\":0,"
		"\"delay\":0,"
		"\"generation\":1,\"descriptors\":[{\"code\":\"ok\",\"rule\":null,\"name\":null,"
		"\"limit\":null,\"remaining\":null,\"reset_after\":null,\"retry_after\":0,"
		"\"requests_per_unit\":null,\"unit\":null,\"flags\":[]}]}");
	assert_non_null(strstr(ask(&rig, QUESTION("{\"entries\":[{\"key\":\"shut\"}]}")),
			       "\"retry_after\":null,\"delay\":0"));
	rig_close(&rig);
}

static void test_a_delay(void **state)
{
	static const char door[] = QUESTION("{\"entries\":[{\"key\":\"door\",\"value\":\"1\"}]}");
	struct rig rig;

	(void)state;
	rig_open(&rig, rules, "api");
	assert_non_null(strstr(ask(&rig, door), "\"verdict\":\"admit\",\"status\":200"));
	assert_non_null(strstr(ask(&rig, door), "{\"admitted\":true,\"verdict\":\"delay\","));
	assert_non_null(strstr(ask(&rig, door), "{\"admitted\":false,\"verdict\":\"refuse\","));
	rig_close(&rig);
}

/* ---- problems ---- */

static void test_problems(void **state)
{
	struct wr_problem problem;
	struct wr_check check;
	char text[WR_PROBLEM_TEXT];
	struct wr_json_out json;
	struct wr_buf buf;

	(void)state;
	assert_int_equal(
		wr_check_open(&check, WR_STR("[" QUESTION(USER) ",{\"domain\":1}]"), &problem), -1);
	wr_buf_init_fixed(&buf, text, sizeof text);
	wr_json_begin(&json, &buf);
	wr_problem_json(&problem, &json);
	assert_string_equal(text,
			    "{\"type\":\"about:blank\",\"title\":\"Bad Request\",\"status\":400,"
			    "\"code\":\"wrong_type\",\"detail\":\"a string is expected here\","
			    "\"pointer\":\"/1/domain\"}");
}

/* For names of any length and bytes, the pointer is UTF-8 and fits into the problem. */
static void test_long_names_in_pointers(void **state)
{
	char body[2048], name[1024];
	struct wr_problem problem;
	struct wr_check check;

	(void)state;
	name[0] = 'x';
	for (size_t i = 1; i + 2 < sizeof name; i += 2)
		memcpy(name + i, "\xc3\xbc", 2);
	name[1001] = '\0';
	snprintf(body, sizeof body, "[{\"domain\":\"api\",\"%s\":1}]", name);
	assert_int_equal(wr_check_open(&check, wr_str(body), &problem), -1);
	assert_string_equal(problem.pointer, "/0/xüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüü");
}

/* ---- two readers ---- */

static void compare(const char *body, bool usual)
{
	struct wr_check_quick quick;
	struct wr_problem problem;
	struct wr_check check;
	bool fine = wr_check_open(&check, wr_str(body), &problem) == 0;

	assert_int_equal(wr_check_quick(wr_str(body), &quick), usual);
	if (usual) {
		assert_true(fine && !check.many);
		assert_true(wr_str_equal(quick.domain, wr_check_domain(&check, 0)));
	}
	if (fine)
		wr_check_close(&check);
}

static void test_quick_reads_the_usual_and_leaves_the_rest(void **state)
{
	(void)state;
	compare(QUESTION(USER), true);
	compare(" {\n\t\"descriptors\" : [ " USER " , " USER " ] , \"domain\" : \"api\" }\r\n ",
		true);
	compare("{\"hits\":0,\"domain\":\"a\",\"descriptors\":[" USER "]}", true);
	compare("{\"hits\":-4294967295,\"domain\":\"a\",\"descriptors\":[" USER "]}", true);
	compare("{\"hits\":4294967296,\"domain\":\"a\",\"descriptors\":[" USER "]}", false);
	compare("{\"hits\":01,\"domain\":\"a\",\"descriptors\":[" USER "]}", false);
	compare("{\"hits\":1.0,\"domain\":\"a\",\"descriptors\":[" USER "]}", false);
	compare("{\"hits\":-,\"domain\":\"a\",\"descriptors\":[" USER "]}", false);
	compare("{\"domain\":\"a\",\"domain\":\"a\",\"descriptors\":[" USER "]}", false);
	compare("{\"domain\":\"\\u0061\",\"descriptors\":[" USER "]}", false);
	compare("{\"domain\":\"\xc3\xbc\",\"descriptors\":[" USER "]}", false);
	compare("{\"domain\":\"a\",\"descriptors\":[" USER ",]}", false);
	compare("{\"domain\":\"a\",\"descriptors\":[" USER "],}", false);
	compare("{,\"domain\":\"a\",\"descriptors\":[" USER "]}", false);
	compare("{\"domain\":\"a\",\"descriptors\":[" USER "]} x", false);
	compare("{\"domain\":\"a\",\"descriptors\":[" USER "]", false);
	compare("{\"domain\":\"a\"}", false);
	compare("{\"domain\":\"\",\"descriptors\":[" USER "]}", false);
	compare("[" QUESTION(USER) "]", false);
	compare("{\"domain\":\"a\",\"descriptors\":[{\"entries\":[{\"key\":\"\"}]}]}", false);
	compare("{\"domain\":\"a\",\"descriptors\":[{\"entries\":[{\"key\":\"k\",\"key\":\"k\"}]}]"
		"}",
		false);
	compare("{\"domain\":\"a\",\"descriptors\":[{\"entries\":[]}]}", false);
	compare("", false);
}

static void test_quick_costs_the_same(void **state)
{
	static const char body[] =
		"{\"domain\":\"api\",\"hits\":2,\"descriptors\":[" USER
		",{\"hits\":1,\"entries\":[{\"key\":\"user\",\"value\":\"8\"}]}]}";
	struct wr_check_quick quick;
	struct rig rig;

	(void)state;
	rig_open(&rig, rules, "api");
	assert_true(wr_check_quick(wr_str(body), &quick));
	assert_int_equal(quick.count, 2);
	rig_begin(&rig);
	assert_true(wr_check_quick_add(&quick, rig.ask));
	assert_int_equal(weir_ask_decide(rig.ask, rig.now_ns), WEIR_ADMIT);
	assert_int_equal(rig_status(&rig, 0).remaining, 0);
	assert_int_equal(rig_status(&rig, 1).remaining, 1);
	rig_close(&rig);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_answers),
		cmocka_unit_test(test_a_delay),
		cmocka_unit_test(test_problems),
		cmocka_unit_test(test_long_names_in_pointers),
		cmocka_unit_test(test_quick_reads_the_usual_and_leaves_the_rest),
		cmocka_unit_test(test_quick_costs_the_same),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
