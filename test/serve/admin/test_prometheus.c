/* Both text formats, byte by byte, and the choice of the format. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "serve/admin/prometheus.h"

static const struct wr_prom_family decisions = {"weir_decisions", WR_PROM_COUNTER, "",
						"Decisions."};
static const struct wr_prom_family delay = {"weir_delay_seconds", WR_PROM_COUNTER, "seconds",
					    "Waits."};
static const struct wr_prom_family build = {"weir_build", WR_PROM_INFO, "", "Version."};
static const struct wr_prom_family took = {"weir_took_seconds", WR_PROM_HISTOGRAM, "seconds",
					   "Time."};

/* Writes a family of each type, with one sample or more. */
static const char *write_all(bool open)
{
	static const uint64_t bounds[] = {64, 1500000, 1000000000, 2500000000},
			      counts[] = {1, 0, 5, 0, 2};
	static char text[4096];
	struct wr_buf out;
	struct wr_prom prom = {.out = &out, .open = open};
	struct wr_prom_label labels[] = {{"rule", WR_STR("a/b")}, {"result", WR_STR("admitted")}};
	struct wr_prom_histogram histogram = {bounds, counts, 4, 3000000001};

	wr_buf_init_fixed(&out, text, sizeof text);
	wr_prom_family(&prom, &decisions);
	wr_prom_number(&prom, labels, 2, UINT64_MAX);
	wr_prom_number(&prom, NULL, 0, 0);
	wr_prom_family(&prom, &delay);
	wr_prom_micros(&prom, labels, 1, 1500000);
	wr_prom_micros(&prom, labels, 1, 7000000);
	wr_prom_micros(&prom, labels, 1, 1);
	wr_prom_family(&prom, &build);
	wr_prom_number(&prom, labels, 1, 1);
	wr_prom_family(&prom, &took);
	wr_prom_histogram(&prom, labels, 1, &histogram);
	wr_prom_end(&prom);
	assert_false(wr_buf_failed(&out));
	return text;
}

static void test_text(void **state)
{
	(void)state;
	assert_string_equal(write_all(false),
			    "# HELP weir_decisions_total Decisions.\n"
			    "# TYPE weir_decisions_total counter\n"
			    "weir_decisions_total{rule=\"a/b\",result=\"admitted\"} "
			    "18446744073709551615\n"
			    "weir_decisions_total 0\n"
			    "# HELP weir_delay_seconds_total Waits.\n"
			    "# TYPE weir_delay_seconds_total counter\n"
			    "weir_delay_seconds_total{rule=\"a/b\"} 1.5\n"
			    "weir_delay_seconds_total{rule=\"a/b\"} 7\n"
			    "weir_delay_seconds_total{rule=\"a/b\"} 0.000001\n"
			    "# HELP weir_build_info Version.\n"
			    "# TYPE weir_build_info gauge\n"
			    "weir_build_info{rule=\"a/b\"} 1\n"
			    "# HELP weir_took_seconds Time.\n"
			    "# TYPE weir_took_seconds histogram\n"
			    "weir_took_seconds_bucket{rule=\"a/b\",le=\"0.000000064\"} 1\n"
			    "weir_took_seconds_bucket{rule=\"a/b\",le=\"0.0015\"} 1\n"
			    "weir_took_seconds_bucket{rule=\"a/b\",le=\"1.0\"} 6\n"
			    "weir_took_seconds_bucket{rule=\"a/b\",le=\"2.5\"} 6\n"
			    "weir_took_seconds_bucket{rule=\"a/b\",le=\"+Inf\"} 8\n"
			    "weir_took_seconds_sum{rule=\"a/b\"} 3.000000001\n"
			    "weir_took_seconds_count{rule=\"a/b\"} 8\n");
}

/* In OpenMetrics the name of a family has no suffix, a unit has a line, and the text has an end
 * mark. */
static void test_open_metrics(void **state)
{
	const char *text = write_all(true);

	(void)state;
	assert_non_null(strstr(text, "# HELP weir_decisions Decisions.\n"
				     "# TYPE weir_decisions counter\n"
				     "weir_decisions_total{rule="));
	assert_non_null(strstr(text, "# TYPE weir_delay_seconds counter\n"
				     "# UNIT weir_delay_seconds seconds\n"
				     "weir_delay_seconds_total{rule="));
	assert_non_null(strstr(text, "# TYPE weir_build info\nweir_build_info{"));
	assert_non_null(strstr(text, "# UNIT weir_took_seconds seconds\n"));
	assert_string_equal(strstr(text, "weir_took_seconds_count"),
			    "weir_took_seconds_count{rule=\"a/b\"} 8\n# EOF\n");
}

static void test_labels_are_any_bytes(void **state)
{
	static const struct {
		struct weir_str value;
		const char *written;
	} cases[] = {
		{{"plain", 5}, "plain"},
		{{"", 0}, ""},
		{{"a\"b\\c\nd", 7}, "a\\\"b\\\\c\\nd"},
		{{"\xc3\xa9\xe2\x82\xac", 5}, "\xc3\xa9\xe2\x82\xac"},
		{{"cut \xe2\x82", 6}, "cut \xef\xbf\xbd\xef\xbf\xbd"},
		{{"\xff\x41", 2},
		 "\xef\xbf\xbd"
		 "A"},
		{{"\x1b[2J\t", 5}, "\x1b[2J\t"}, /* control characters are text to Prometheus */
	};

	(void)state;
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		char text[256], wanted[256];
		struct wr_buf out;
		struct wr_prom prom = {.out = &out};
		struct wr_prom_label label = {"x", cases[i].value};

		wr_buf_init_fixed(&out, text, sizeof text);
		prom.family = &decisions;
		wr_prom_number(&prom, &label, 1, 1);
		snprintf(wanted, sizeof wanted, "weir_decisions_total{x=\"%s\"} 1\n",
			 cases[i].written);
		assert_string_equal(text, wanted);
	}
}

static void test_choice_of_format(void **state)
{
	static const struct {
		const char *accept;
		bool open;
	} cases[] = {
		{"", false},
		{"*/*", false},
		{"text/plain", false},
		{"application/openmetrics-text", true},
		{"application/openmetrics-text; version=1.0.0", true},
		{"application/openmetrics-text;version=0.0.1", false},
		{"application/openmetrics-text;version=1.0.0;q=0", false},
		/* Prometheus 2.42 and 2.53 */
		{"application/openmetrics-text;version=1.0.0,application/"
		 "openmetrics-text;version=0.0.1;q=0.75,text/plain;version=0.0.4;q=0.5,*/*;q=0.1",
		 true},
		{"application/openmetrics-text;version=1.0.0;q=0.5,text/plain;version=0.0.4;q=0.6",
		 false},
		{"application/openmetrics-text;version=1.0.0;q=0.333,text/plain;q=0.332", true},
		{"application/vnd.google.protobuf;q=0.9, text/plain", false},
		{",;,q=;;,", false},
	};

	(void)state;
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
		assert_int_equal(wr_prom_wants_open(wr_str(cases[i].accept)), cases[i].open);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_text),
		cmocka_unit_test(test_open_metrics),
		cmocka_unit_test(test_labels_are_any_bytes),
		cmocka_unit_test(test_choice_of_format),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
