/* Shared by the suites of weir/control.h: rules, targets, and calls that must succeed. */
#ifndef TEST_LIMITER_CONTROL_H
#define TEST_LIMITER_CONTROL_H

#include "helper.h"

#include <stdio.h>
#include <string.h>

#include <weir/control.h>

#include "base/str.h"

static const char rules[] =
	"domain: d\n"
	"descriptors:\n"
	"- key: token\n"
	"  rate_limit: {algorithm: token_bucket, burst: 4, unit: hour, requests_per_unit: 2}\n"
	"- key: leaky\n"
	"  rate_limit: {algorithm: leaky_bucket, queue_size: 3, unit: hour, requests_per_unit: 2}\n"
	"- key: fixed\n"
	"  rate_limit: {algorithm: fixed_window, unit: day, requests_per_unit: 4}\n"
	"- key: counter\n"
	"  rate_limit: {algorithm: sliding_window_counter, unit: day, requests_per_unit: 4}\n"
	"- key: log\n"
	"  rate_limit: {algorithm: sliding_window_log, unit: day, requests_per_unit: 4}\n"
	"- key: month\n"
	"  rate_limit: {calendar: month, requests_per_unit: 4}\n"
	"- key: soft\n"
	"  rate_limit: {algorithm: fixed_window, unit: day, requests_per_unit: 4, mode: soft,\n"
	"    soft: {overshoot: 50%, for: 1h}}\n"
	"- key: two\n"
	"  rate_limits:\n"
	"  - {name: short, unit: minute, requests_per_unit: 2}\n"
	"  - {name: long, unit: day, requests_per_unit: 5}\n"
	"- key: shadow\n"
	"  shadow_mode: true\n"
	"  rate_limit: {unit: day, requests_per_unit: 1}\n"
	"- key: quota\n"
	"  quota_mode: true\n"
	"  rate_limit: {unit: day, requests_per_unit: 1}\n"
	"- key: kept\n"
	"  rate_limit: {unit: day, requests_per_unit: 4, count_rejected: true}\n"
	"- key: free\n"
	"  rate_limit: {unlimited: true}\n"
	"- key: nested\n"
	"  descriptors:\n"
	"  - key: ip\n"
	"    rate_limit: {unit: day, requests_per_unit: 1}\n";

/* Descriptors whose limits admit four requests at once. */
static const char *const fours[] = {"token=1",   "leaky=1", "fixed=1",
				    "counter=1", "log=1",   "month=1"};
#define FOURS (sizeof fours / sizeof *fours)

static inline size_t entries_of(const char *text, struct weir_entry entries[8])
{
	struct weir_str rest = wr_str(text);
	size_t count = 0;

	while (rest.len) {
		struct weir_str one = wr_str_first(rest, wr_str_find(rest, '|'));
		size_t equals = wr_str_find(one, '=');

		entries[count++] = (struct weir_entry){.key = wr_str_first(one, equals),
						       .value = wr_str_from(one, equals + 1)};
		rest = wr_str_from(rest, one.len + (one.len < rest.len));
	}
	return count;
}

/* Returns the target of a descriptor, which is valid until the next call. */
static inline const struct weir_target *whom(const struct rig *rig, const char *descriptor)
{
	static struct weir_entry entries[8];
	static struct weir_target target;

	target = (struct weir_target){.size = sizeof target,
				      .domain = wr_str(rig->domain),
				      .entries = entries,
				      .count = entries_of(descriptor, entries)};
	return &target;
}

static inline const struct weir_target *whose(const struct rig *rig, const char *descriptor,
					      const char *limit)
{
	static struct weir_target target;

	target = *whom(rig, descriptor);
	target.limit = wr_str(limit);
	return &target;
}

static inline void ban(struct rig *rig, const char *descriptor, uint64_t until_ns)
{
	assert_int_equal(
		weir_control_ban(rig->engine, whom(rig, descriptor), until_ns, rig->now_ns, NULL),
		1);
}

static inline void grant(struct rig *rig, const char *descriptor, uint32_t extra, uint64_t until_ns)
{
	assert_int_equal(weir_control_grant(rig->engine, whom(rig, descriptor), extra, until_ns,
					    rig->now_ns, NULL),
			 1);
}

static inline void reset(struct rig *rig, const char *descriptor)
{
	assert_int_equal(weir_control_reset(rig->engine, whom(rig, descriptor), rig->now_ns, NULL),
			 1);
}

struct counters {
	struct weir_counter list[4];
	int count;
};

static inline int keep(void *context, const struct weir_counter *counter)
{
	struct counters *counters = context;

	counters->list[counters->count++] = *counter;
	return 0;
}

static inline struct weir_counter get(struct rig *rig, const char *descriptor)
{
	struct counters counters = {.count = 0};

	assert_int_equal(
		weir_control_get(rig->engine, whom(rig, descriptor), rig->now_ns, keep, &counters),
		1);
	return counters.list[0];
}

#endif
