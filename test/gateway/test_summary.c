/* Tests the text that `weir gateway` prints at its start. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/str.h"
#include "gateway/plan.h"
#include "rules/rules.h"

static const char rules_text[] =
	"domain: api\n"
	"descriptors:\n"
	"  - key: user_id\n"
	"    rate_limit: {unit: second, requests_per_unit: 2, algorithm: token_bucket, burst: 4}\n"
	"  - key: route\n"
	"    value: signup\n"
	"    descriptors:\n"
	"      - key: ip\n"
	"        rate_limit: {period: 3h, requests_per_unit: 300, ban: {after: 9, for: 1h}}\n"
	"        descriptors:\n"
	"          - key: device\n"
	"            shadow_mode: true\n"
	"            rate_limit: {unit: day, requests_per_unit: 7}\n"
	"  - key: all\n"
	"    value: \"*\"\n"
	"    share_threshold: true\n"
	"    rate_limit: {unit: second, requests_per_unit: 4, algorithm: leaky_bucket, queue_size: "
	"9, "
	"max_wait: 2s}\n"
	"  - key: free\n"
	"    rate_limit: {unlimited: true}\n";

static struct weir_rules *load_rules(void)
{
	char path[] = "/tmp/weir-summary-XXXXXX.yaml";
	int fd = mkstemps(path, 5);
	struct weir_rules *rules = NULL;

	assert_int_equal(write(fd, rules_text, sizeof rules_text - 1), sizeof rules_text - 1);
	close(fd);
	assert_int_equal(weir_rules_load(path, &rules, NULL), 0);
	unlink(path);
	return rules;
}

static void describes_listeners_rules_and_limits(void **state)
{
	struct wr_gateway_settings settings = {
		.upstream = {.count = 1, .items = {"http://127.0.0.1:3000"}},
		.listen = {.count = 1},
		.auth = "http://auth/",
		.table = "there-is-no-such-table",
		.dry_run = true,
	};
	struct wr_gateway_plan plan = {.settings = &settings, .domain = "api", .rules = "/rules"};
	struct weir_rules *rules = load_rules();
	struct weir_rules_info info = {.size = sizeof info};
	char *text, expected[2048];
	size_t len;
	FILE *out = open_memstream(&text, &len);

	(void)state;
	weir_rules_info(rules, &info);
	assert_int_equal(wr_endpoint_parse(wr_str("8080"), &settings.listen.items[0], NULL), 0);
	wr_plan_summary_write(&plan, rules, 0, out);
	fclose(out);
	snprintf(expected, sizeof expected,
		 "  rules     /rules: 1 file, generation 0, hash %016llx\n"
		 "  limits    of domain api (dry run: counted, never enforced):\n"
		 "            api/user_id: 2 per second for each user_id, token_bucket, burst 4\n"
		 "            api/route=signup/ip: 300 per 3h for each ip, fixed_window, "
		 "banned for 1h after 9 refusals within 1m, each further ban 2 times as long, up "
		 "to 1d\n"
		 "            api/route=signup/ip/device: 7 per day for each ip and device, "
		 "fixed_window, "
		 "counted but never refused\n"
		 "            api/all=*: 4 per second for all together, leaky_bucket, 9 may wait "
		 "at most "
		 "2s\n"
		 "            api/free: unlimited\n",
		 (unsigned long long)info.hash);
	assert_non_null(strstr(text, "  listens   http://*:8080\n"
				     "  upstream  http://127.0.0.1:3000\n"
				     "  auth      http://auth/\n"
				     "  table     there-is-no-such-table: "));
	assert_string_equal(strstr(text, "  rules "), expected);
	free(text);
	weir_rules_free(rules);
}

/* Loads the rules of `make run`. */
static void quickstart_rules_load_without_warnings(void **state)
{
	struct weir_rules *rules = NULL;
	struct weir_errors errors = {.size = sizeof errors};

	(void)state;
	assert_int_equal(weir_rules_load(TEST_RULES, &rules, &errors), 0);
	assert_int_equal(errors.warnings, 0);
	assert_int_equal(rules->limit_count, 5);
	weir_errors_free(&errors);
	weir_rules_free(rules);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(describes_listeners_rules_and_limits),
		cmocka_unit_test(quickstart_rules_load_without_warnings)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
