/* The limits from which a request takes units: all or nothing, shadow and quota mode, replaces,
 * overrides, hits, and the other rules of a decision. */
#include "helper.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define OK WEIR_STATUS_OK
#define OVER WEIR_STATUS_OVER_LIMIT

static const char two_limits[] = "domain: d\n"
				 "descriptors:\n"
				 "- key: a\n"
				 "  rate_limit: {unit: day, requests_per_unit: 5}\n"
				 "- key: b\n"
				 "  rate_limit: {unit: day, requests_per_unit: 3}\n";

static uint32_t remaining(struct rig *rig, const char *descriptor)
{
	rig_begin(rig);
	assert_int_equal(rig_add(rig, descriptor, 0), 0);
	rig_decide(rig);
	return rig_status(rig, 0).decision.remaining;
}

/* A request that one limit refuses takes nothing from the other, in either order. */
static void all_or_nothing(void **state)
{
	struct rig rig;

	rig_open(&rig, two_limits, "d");
	assert_int_equal(rig_admitted(&rig, "a=1;b=1", 9), 3);
	assert_int_equal(remaining(&rig, "a=1"), 2);
	assert_int_equal(rig_ask(&rig, "b=1;a=1"), WEIR_REFUSE);
	assert_int_equal(rig_status(&rig, 0).code, OVER);
	assert_int_equal(rig_status(&rig, 1).code, OK);
	/* The refused request took nothing. */
	assert_int_equal(rig_status(&rig, 1).remaining, 2);
	assert_int_equal(remaining(&rig, "a=1"), 2);
	assert_int_equal(rig_admitted(&rig, "a=1", 9), 2);
	assert_int_equal(rig_stat(&rig, "d/a/1d").admitted, 5);
	assert_int_equal(rig_stat(&rig, "d/a/1d").refused, 7);
	assert_int_equal(rig_stat(&rig, "d/b/1d").refused, 7);
	rig_close(&rig);
	(void)state;
}

/* The hash of the key determines from which counter units are taken first. In both orders the limit
 * that does not refuse reports its remaining units and keeps them. */
static void order_of_takes_does_not_matter(void **state)
{
	struct rig rig;
	char text[32];

	rig_open(&rig, two_limits, "d");
	for (int i = 0; i < 64; i++) {
		snprintf(text, sizeof text, "a=%d", i);
		assert_int_equal(rig_ask(&rig, text), WEIR_ADMIT);
		snprintf(text, sizeof text, "b=%d", i);
		assert_int_equal(rig_admitted(&rig, text, 9), 3);
		snprintf(text, sizeof text, "a=%d;b=%d", i, i);
		assert_int_equal(rig_ask(&rig, text), WEIR_REFUSE);
		assert_int_equal(rig_status(&rig, 0).code, OK);
		assert_int_equal(rig_status(&rig, 0).remaining, 4);
		assert_int_equal(rig_status(&rig, 0).limit, 5);
		assert_int_equal(rig_status(&rig, 1).code, OVER);
		snprintf(text, sizeof text, "a=%d", i);
		assert_int_equal(remaining(&rig, text), 4);
	}
	rig_close(&rig);
	(void)state;
}

/* All limits of a descriptor apply. */
static void all_limits_of_a_descriptor_apply(void **state)
{
	struct rig rig;

	rig_open(&rig,
		 "domain: d\n"
		 "descriptors:\n"
		 "- key: a\n"
		 "  rate_limits:\n"
		 "  - {unit: minute, requests_per_unit: 2}\n"
		 "  - {unit: day, requests_per_unit: 3}\n",
		 "d");
	assert_int_equal(rig_admitted(&rig, "a=1", 5), 2);
	assert_int_equal(rig_status(&rig, 0).requests_per_unit, 2);
	rig.now_ns += MINUTE_NS;
	assert_int_equal(rig_ask(&rig, "a=1"), WEIR_ADMIT);
	assert_int_equal(rig_status(&rig, 0).requests_per_unit, 3);
	assert_int_equal(rig_status(&rig, 0).remaining, 0);
	assert_int_equal(rig_ask(&rig, "a=1"), WEIR_REFUSE);
	/* The wait is until both limits admit, which is the wait of the day. */
	assert_int_equal(rig_result(&rig).retry_after_ns, DAY_NS - MINUTE_NS);
	rig_close(&rig);
	(void)state;
}

/* A descriptor that is added twice takes the sum of both costs, or nothing. */
static void the_same_descriptor_twice(void **state)
{
	struct rig rig;

	rig_open(&rig, two_limits, "d");
	assert_int_equal(rig_ask(&rig, "a=1;a=1"), WEIR_ADMIT);
	assert_int_equal(rig_status(&rig, 0).remaining, 3);
	assert_int_equal(rig_status(&rig, 1).remaining, 3);
	assert_int_equal(rig_ask(&rig, "a=1;a=1"), WEIR_ADMIT);
	assert_int_equal(rig_ask(&rig, "a=1;a=1"), WEIR_REFUSE);
	assert_int_equal(rig_status(&rig, 0).code, OVER);
	assert_int_equal(rig_status(&rig, 1).code, OVER);
	assert_int_equal(rig_ask(&rig, "a=1"), WEIR_ADMIT);
	/* Costs are added up with saturation. */
	rig_begin(&rig);
	rig_add(&rig, "a=2", INT64_MAX);
	rig_add(&rig, "a=2", INT64_MAX);
	assert_int_equal(rig_decide(&rig), WEIR_REFUSE);
	assert_int_equal(rig_result(&rig).retry_after_ns, WEIR_NEVER);
	rig_close(&rig);
	(void)state;
}

static const char modes[] = "domain: d\n"
			    "descriptors:\n"
			    "- key: n\n"
			    "  rate_limit: {unit: day, requests_per_unit: 5}\n"
			    "- key: s\n"
			    "  shadow_mode: true\n"
			    "  rate_limit: {unit: day, requests_per_unit: 2}\n"
			    "- key: q\n"
			    "  quota_mode: true\n"
			    "  rate_limit: {unit: day, requests_per_unit: 2}\n"
			    "- key: r\n"
			    "  quota_mode: true\n"
			    "  rate_limit: {unit: hour, requests_per_unit: 4}\n"
			    "- key: u\n"
			    "  rate_limit: {unlimited: true}\n"
			    "- key: w\n"
			    "  value: free\n"
			    "- key: w\n"
			    "  rate_limit: {unit: day, requests_per_unit: 1}\n";

static void shadow_mode(void **state)
{
	struct rig rig;

	rig_open(&rig, modes, "d");
	assert_int_equal(rig_admitted(&rig, "s=1", 5), 5);
	assert_int_equal(rig_status(&rig, 0).code, OK);
	assert_int_equal(rig_status(&rig, 0).remaining, 0);
	assert_int_equal(rig_status(&rig, 0).requests_per_unit, 2);
	assert_int_equal(rig_status(&rig, 0).flags,
			 WEIR_STATUS_LIMITED | WEIR_STATUS_SHADOW | WEIR_STATUS_WOULD_REFUSE);
	assert_int_equal(rig_stat(&rig, "d/s/1d").admitted, 2);
	assert_int_equal(rig_stat(&rig, "d/s/1d").shadowed, 3);
	/* Headers show enforced limits only. */
	assert_null(rig_header(&rig, WEIR_PROFILE_X, "X-Ratelimit-Limit"));
	/* A limit in shadow mode is not counted if an enforced limit refuses. */
	assert_int_equal(rig_admitted(&rig, "n=1;s=2", 1), 1);
	assert_int_equal(rig_admitted(&rig, "n=1", 9), 4);
	assert_int_equal(rig_ask(&rig, "n=1;s=2"), WEIR_REFUSE);
	assert_int_equal(rig_status(&rig, 1).code, OK);
	assert_int_equal(rig_status(&rig, 1).remaining, 1);
	assert_int_equal(remaining(&rig, "s=2"), 1);
	assert_int_equal(rig_stat(&rig, "d/s/1d").shadowed, 3);
	rig_close(&rig);
	(void)state;
}

/* A request is refused if an ordinary limit refuses, or if all quotas refuse. */
static void quota_mode(void **state)
{
	struct rig rig;

	rig_open(&rig, modes, "d");
	assert_int_equal(rig_admitted(&rig, "q=1;r=1", 9), 4);
	assert_int_equal(rig_result(&rig).verdict, WEIR_REFUSE);
	/* The wait ends with the hour, because the request is admitted if one quota admits it. */
	assert_int_equal(rig_result(&rig).retry_after_ns, HOUR_NS);
	assert_int_equal(rig_status(&rig, 0).code, OVER);
	assert_int_equal(rig_status(&rig, 0).flags, WEIR_STATUS_LIMITED | WEIR_STATUS_QUOTA);
	assert_int_equal(rig_ask(&rig, "q=1"), WEIR_REFUSE);
	rig.now_ns += HOUR_NS;
	assert_int_equal(rig_ask(&rig, "q=1;r=1"), WEIR_ADMIT);
	assert_int_equal(rig_status(&rig, 0).code, OVER);
	assert_int_equal(rig_status(&rig, 1).code, OK);
	/* An unlimited rule is not a quota: the only quota refuses. */
	assert_int_equal(rig_ask(&rig, "q=1;u=1"), WEIR_REFUSE);
	/* If all quotas refuse, no units are taken from enforced limits. */
	assert_int_equal(rig_ask(&rig, "n=7;q=1"), WEIR_REFUSE);
	assert_int_equal(remaining(&rig, "n=7"), 5);
	/* If an enforced limit refuses, no units are taken from the quotas. */
	assert_int_equal(rig_admitted(&rig, "n=7", 9), 5);
	assert_int_equal(rig_ask(&rig, "n=7;r=5"), WEIR_REFUSE);
	assert_int_equal(remaining(&rig, "r=5"), 4);
	rig_close(&rig);
	(void)state;
}

static void unlimited_and_whitelisted(void **state)
{
	struct rig rig;

	rig_open(&rig, modes, "d");
	assert_int_equal(rig_ask(&rig, "u=1;w=free;x=1"), WEIR_ADMIT);
	assert_int_equal(rig_status(&rig, 0).code, OK);
	assert_int_equal(rig_status(&rig, 0).remaining, UINT32_MAX);
	assert_int_equal(rig_status(&rig, 0).flags, WEIR_STATUS_UNLIMITED);
	assert_int_equal(rig_status(&rig, 1).flags, WEIR_STATUS_WHITELISTED);
	assert_int_equal(rig_status(&rig, 2).flags, 0);
	assert_int_equal(rig_status(&rig, 2).code, OK);
	assert_int_equal(rig_admitted(&rig, "w=free", 9), 9);
	assert_int_equal(rig_admitted(&rig, "w=other", 9), 1);
	assert_int_equal(rig_stat(&rig, "d/u/unlimited").admitted, 1);
	assert_int_equal(rig_stat(&rig, "no_rule").admitted, 0);
	assert_int_equal(rig_ask(&rig, ""), WEIR_ADMIT);
	assert_int_equal(rig_stat(&rig, "no_rule").admitted, 1);
	rig_close(&rig);
	(void)state;
}

/* A request of cost 0 followed by the request itself counts once. */
static void cost_zero_is_not_counted(void **state)
{
	static const char *const met[] = {"x=1", "u=1", "n=1"};
	static const char *const counts[] = {"no_rule", "d/u/unlimited", "d/n/1d"};
	struct rig rig;

	rig_open(&rig, modes, "d");
	for (int i = 0; i < 3; i++) {
		for (int hits = 0; hits < 2; hits++) {
			rig_begin(&rig);
			assert_int_equal(weir_ask_hits(rig.ask, hits), 0);
			rig_add(&rig, met[i], WEIR_HITS_UNSET);
			assert_int_equal(rig_decide(&rig), WEIR_ADMIT);
			assert_int_equal(rig_stat(&rig, counts[i]).admitted, hits);
		}
	}
	rig_close(&rig);
	(void)state;
}

static void replaces(void **state)
{
	struct rig rig;

	rig_open(&rig,
		 "domain: d\n"
		 "descriptors:\n"
		 "- key: base\n"
		 "  rate_limit: {unit: day, requests_per_unit: 1, name: base}\n"
		 "- key: more\n"
		 "  rate_limit: {unit: day, requests_per_unit: 3, name: more, replaces: [{name: "
		 "base}]}\n"
		 "- key: vip\n"
		 "  rate_limit: {unlimited: true, replaces: [{name: base}, {name: more}]}\n"
		 "- key: less\n"
		 "  rate_limit: {unit: day, requests_per_unit: 9, name: less, replaces: [{name: "
		 "more}]}\n"
		 "- key: cycle\n"
		 "  rate_limit: {unit: day, requests_per_unit: 9, name: c, replaces: [{name: "
		 "less}]}\n",
		 "d");
	assert_int_equal(rig_admitted(&rig, "base=1;more=1", 9), 3);
	assert_int_equal(rig_status(&rig, 0).code, OK);
	assert_int_equal(rig_status(&rig, 0).flags, WEIR_STATUS_REPLACED);
	assert_int_equal(rig_status(&rig, 0).requests_per_unit, 0);
	/* The replaced limit was not counted. */
	assert_int_equal(rig_admitted(&rig, "base=1", 3), 1);
	/* An unlimited rule replaces too. */
	assert_int_equal(rig_admitted(&rig, "base=1;more=1;vip=1", 20), 20);
	/* A replaced limit still replaces others: "less" replaces "more", and "more" replaces
	 * "base". */
	assert_int_equal(rig_admitted(&rig, "base=1;more=1;less=1", 20), 9);
	rig_close(&rig);
	(void)state;
}

static void overrides(void **state)
{
	struct rig rig;
	struct weir_limit broken = {.size = sizeof broken, .algorithm = 99, .limit = 1};
	struct weir_entry entry = {{"a", 1}, {"1", 1}, {"", 0}};

	rig_open(&rig, modes, "d");
	for (int i = 0; i < 4; i++) {
		rig_begin(&rig);
		assert_int_equal(rig_add_override(&rig, "s=1", 2, 1, WEIR_HITS_UNSET), 0);
		/* The override applies instead of the rule, so the rule's shadow mode does not
		 * apply. */
		assert_int_equal(rig_decide(&rig), i < 2 ? WEIR_ADMIT : WEIR_REFUSE);
	}
	assert_int_equal(rig_status(&rig, 0).requests_per_unit, 2);
	assert_int_equal(rig_status(&rig, 0).unit, 1);
	assert_int_equal(rig_status(&rig, 0).reset_s, 1);
	assert_int_equal(rig_status(&rig, 0).name.len, 0);
	assert_int_equal(rig_status(&rig, 0).flags, WEIR_STATUS_LIMITED | WEIR_STATUS_OVERRIDE);
	assert_int_equal(rig_stat(&rig, "d/override").admitted, 2);
	assert_int_equal(rig_stat(&rig, "d/override").refused, 2);
	/* An override needs no rule, a limit of 0 refuses everything, and a week is unit 7. */
	rig_begin(&rig);
	assert_int_equal(rig_add_override(&rig, "unknown=1", 0, 7, WEIR_HITS_UNSET), 0);
	assert_int_equal(rig_decide(&rig), WEIR_REFUSE);
	assert_int_equal(rig_result(&rig).retry_after_ns, WEIR_NEVER);
	assert_int_equal(rig_status(&rig, 0).unit, 7);
	/* The override uses the rule's counter with another limit: a larger limit admits more. */
	assert_int_equal(rig_admitted(&rig, "n=9", 9), 5);
	rig_begin(&rig);
	assert_int_equal(rig_add_override(&rig, "n=9", 8, 4, WEIR_HITS_UNSET), 0);
	assert_int_equal(rig_decide(&rig), WEIR_ADMIT);
	assert_int_equal(rig_status(&rig, 0).remaining, 2);
	/* The override is checked. */
	rig_begin(&rig);
	assert_int_equal(rig_add_override(&rig, "n=9", 8, 0, 1), WEIR_ELIMIT);
	assert_int_equal(rig_add_override(&rig, "n=9", 8, 8, 1), WEIR_ELIMIT);
	assert_int_equal(weir_ask_add(rig.ask, &entry, 1, &broken, 1), WEIR_ELIMIT);
	broken.size = 3;
	assert_int_equal(weir_ask_add(rig.ask, &entry, 1, &broken, 1), WEIR_ELIMIT);
	assert_int_equal(rig_decide(&rig), WEIR_ADMIT);
	assert_int_equal(rig_result(&rig).descriptors, 0);
	/* An override needs the domain to exist. */
	rig.domain = "elsewhere";
	rig_begin(&rig);
	assert_int_equal(rig_add_override(&rig, "n=9", 0, 1, 1), 0);
	assert_int_equal(rig_decide(&rig), WEIR_ADMIT);
	assert_int_equal(rig_status(&rig, 0).code, OK);
	assert_int_equal(rig_status(&rig, 0).flags, 0);
	assert_int_equal(rig_stat(&rig, "domain_not_found").admitted, 1);
	rig_close(&rig);
	(void)state;
}

/* The hits of the descriptor apply if set (0 takes nothing), otherwise those of the request. */
static void costs_of_descriptors(void **state)
{
	struct rig rig;

	rig_open(&rig, modes, "d");
	rig_begin(&rig);
	assert_int_equal(weir_ask_hits(rig.ask, 3), 0);
	rig_add(&rig, "n=1", WEIR_HITS_UNSET);
	rig_add(&rig, "n=2", 2);
	assert_int_equal(rig_decide(&rig), WEIR_ADMIT);
	assert_int_equal(rig_status(&rig, 0).remaining, 2);
	assert_int_equal(rig_status(&rig, 1).remaining, 3);
	/* A cost above the remaining units is refused, and nothing is taken. */
	rig_begin(&rig);
	rig_add(&rig, "n=1", 3);
	assert_int_equal(rig_decide(&rig), WEIR_REFUSE);
	assert_int_equal(rig_status(&rig, 0).remaining, 2);
	assert_int_equal(rig_status(&rig, 0).decision.remaining, 2);
	/* A cost of 0 takes nothing and is refused if no unit is left. */
	assert_int_equal(remaining(&rig, "n=1"), 2);
	assert_int_equal(remaining(&rig, "n=1"), 2);
	assert_int_equal(rig_admitted(&rig, "n=1", 9), 2);
	rig_begin(&rig);
	rig_add(&rig, "n=1", 0);
	assert_int_equal(rig_decide(&rig), WEIR_REFUSE);
	/* A negative cost is always admitted, never exceeds the full limit, and applies only if the
	 * request is admitted. */
	rig_begin(&rig);
	rig_add(&rig, "n=1", -2);
	assert_int_equal(rig_decide(&rig), WEIR_ADMIT);
	assert_int_equal(rig_status(&rig, 0).code, OK);
	assert_int_equal(rig_status(&rig, 0).remaining, 2);
	rig_begin(&rig);
	rig_add(&rig, "n=1", -100);
	assert_int_equal(rig_decide(&rig), WEIR_ADMIT);
	assert_int_equal(remaining(&rig, "n=1"), 5);
	assert_int_equal(rig_admitted(&rig, "n=1;w=1", 9), 1);
	rig_begin(&rig);
	rig_add(&rig, "n=1", -1);
	rig_add(&rig, "w=1", 1);
	assert_int_equal(rig_decide(&rig), WEIR_REFUSE);
	assert_int_equal(rig_status(&rig, 0).code, OK);
	assert_int_equal(remaining(&rig, "n=1"), 4);
	/* Costs of 0 and below are not counted in the statistics. */
	assert_int_equal(rig_stat(&rig, "d/n/1d").admitted, 2 + 2 + 1);
	rig_close(&rig);
	(void)state;
}

static void enforce_share(void **state)
{
	struct rig rig;
	int refused = 0, shadowed = 0;

	rig_open(&rig,
		 "domain: d\n"
		 "descriptors:\n"
		 "- key: a\n"
		 "  rate_limit: {unit: day, requests_per_unit: 1, enforce: 10%}\n",
		 "d");
	for (int i = 0; i < 1000; i++) {
		char descriptor[16];
		int verdict;

		snprintf(descriptor, sizeof descriptor, "a=%d", i);
		assert_int_equal(rig_ask(&rig, descriptor), WEIR_ADMIT);
		verdict = rig_ask(&rig, descriptor);
		refused += verdict == WEIR_REFUSE;
		shadowed += verdict == WEIR_ADMIT;
		/* A key is always inside or always outside the share. */
		assert_int_equal(rig_ask(&rig, descriptor), verdict);
	}
	assert_in_range(refused, 70, 130);
	assert_int_equal(refused + shadowed, 1000);
	/* The share is the same in every table, because its hash has no secret. */
	assert_int_equal(refused, 102);
	assert_int_equal(rig_stat(&rig, "d/a/1d").refused, 2 * refused);
	assert_int_equal(rig_stat(&rig, "d/a/1d").shadowed, 2 * shadowed);
	rig_close(&rig);
	(void)state;
}

/* With count_rejected a refused request is counted, even if another limit refused it. */
static void count_rejected(void **state)
{
	struct rig rig;

	rig_open(&rig,
		 "domain: d\n"
		 "descriptors:\n"
		 "- key: log\n"
		 "  rate_limit: {unit: minute, requests_per_unit: 2, count_rejected: true,\n"
		 "    algorithm: sliding_window_log}\n"
		 "- key: window\n"
		 "  rate_limit: {unit: minute, requests_per_unit: 4, count_rejected: true}\n"
		 "- key: one\n"
		 "  rate_limit: {unit: day, requests_per_unit: 1}\n",
		 "d");
	rig.now_ns = NOW_NS + 1 * SECOND_NS;
	assert_int_equal(rig_ask(&rig, "log=1"), WEIR_ADMIT);
	rig.now_ns = NOW_NS + 30 * SECOND_NS;
	assert_int_equal(rig_ask(&rig, "log=1"), WEIR_ADMIT);
	rig.now_ns = NOW_NS + 50 * SECOND_NS;
	assert_int_equal(rig_ask(&rig, "log=1"), WEIR_REFUSE);
	rig.now_ns = NOW_NS + 100 * SECOND_NS;
	assert_int_equal(rig_ask(&rig, "log=1"), WEIR_ADMIT);
	assert_int_equal(rig_status(&rig, 0).remaining,
			 0); /* the log has entries at 0:50 and 1:40 */
	/* Another limit refuses: the window counts the request. */
	assert_int_equal(rig_admitted(&rig, "one=1;window=1", 3), 1);
	assert_int_equal(remaining(&rig, "window=1"), 1);
	rig_close(&rig);
	(void)state;
}

/* Soft mode. */
static void soft_mode(void **state)
{
	struct rig rig;

	rig_open(&rig,
		 "domain: d\n"
		 "descriptors:\n"
		 "- key: hard\n"
		 "  rate_limit: {period: 1m, requests_per_unit: 100}\n"
		 "- key: soft\n"
		 "  rate_limit: {period: 1m, requests_per_unit: 100, mode: soft,\n"
		 "    soft: {overshoot: 20%, for: 30s}}\n",
		 "d");
	assert_int_equal(rig_admitted(&rig, "hard=1", 200), 100);
	assert_int_equal(rig_admitted(&rig, "soft=1", 200), 120);
	assert_int_equal(rig_stat(&rig, "d/soft/1m").soft, 20);
	/* Soft mode ended 30 s after the first excess. The requests continue above the limit, so it
	 * is not available in the next minute: 100, not 120. */
	rig.now_ns += 40 * SECOND_NS;
	assert_int_equal(rig_admitted(&rig, "soft=1", 5), 0);
	rig.now_ns += 20 * SECOND_NS;
	assert_int_equal(rig_admitted(&rig, "soft=1", 200), 100);
	/* After a period without excess soft mode is available again. */
	rig.now_ns += MINUTE_NS - 1;
	assert_int_equal(rig_admitted(&rig, "soft=1", 1), 0);
	rig.now_ns += MINUTE_NS;
	assert_int_equal(rig_admitted(&rig, "soft=1", 200), 120);
	rig_close(&rig);
	(void)state;
}

/* Delays of leaky buckets. The delay of a request is the longest of all limits. */
static void delays_of_leaky_buckets(void **state)
{
	static const uint64_t quarter = SECOND_NS / 4;
	struct rig rig;

	rig_open(&rig,
		 "domain: d\n"
		 "descriptors:\n"
		 "- key: fast\n"
		 "  rate_limit: {unit: second, requests_per_unit: 4, algorithm: leaky_bucket,\n"
		 "    queue_size: 4}\n"
		 "- key: slow\n"
		 "  rate_limit: {unit: second, requests_per_unit: 1, algorithm: leaky_bucket,\n"
		 "    queue_size: 4}\n",
		 "d");
	assert_int_equal(rig_ask(&rig, "fast=1"), WEIR_ADMIT);
	for (uint64_t i = 1; i <= 4; i++) {
		assert_int_equal(rig_ask(&rig, "fast=1"), WEIR_DELAY);
		assert_int_equal(rig_result(&rig).delay_ns, i * quarter);
	}
	for (int i = 0; i < 5; i++)
		assert_int_equal(rig_ask(&rig, "fast=1"), WEIR_REFUSE);
	assert_int_equal(rig_result(&rig).delay_ns, 0);
	assert_int_equal(rig_stat(&rig, "d/fast/1s").delayed, 4);
	assert_int_equal(rig_stat(&rig, "d/fast/1s").delay_us, (1 + 2 + 3 + 4) * 250000);
	assert_int_equal(rig_ask(&rig, "fast=2;slow=2"), WEIR_ADMIT);
	assert_int_equal(rig_ask(&rig, "fast=2;slow=2"), WEIR_DELAY);
	assert_int_equal(rig_result(&rig).delay_ns, SECOND_NS);
	/* A client that disconnects gives its position in the queue back. */
	assert_int_equal(weir_ask_cancel(rig.ask, rig.now_ns), 0);
	assert_int_equal(rig_ask(&rig, "slow=2"), WEIR_DELAY);
	assert_int_equal(rig_result(&rig).delay_ns, SECOND_NS);
	assert_int_equal(rig_ask(&rig, "fast=2"), WEIR_DELAY);
	assert_int_equal(rig_result(&rig).delay_ns, quarter);
	rig_close(&rig);
	(void)state;
}

static void cancelled_requests_give_back(void **state)
{
	struct rig rig;

	rig_open(&rig, modes, "d");
	rig_begin(&rig);
	assert_int_equal(weir_ask_cancel(rig.ask, rig.now_ns), WEIR_EINVAL);
	rig_add(&rig, "n=1", 2);
	rig_add(&rig, "n=1", 1);
	rig_add(&rig, "s=1", 1);
	rig_add(&rig, "q=1", 1);
	assert_int_equal(rig_decide(&rig), WEIR_ADMIT);
	assert_int_equal(weir_ask_cancel(rig.ask, rig.now_ns + 5), 0);
	assert_int_equal(weir_ask_cancel(rig.ask, rig.now_ns + 5), WEIR_EINVAL);
	assert_int_equal(remaining(&rig, "n=1"), 5);
	assert_int_equal(remaining(&rig, "s=1"), 2);
	assert_int_equal(remaining(&rig, "q=1"), 2);
	/* A refused request has nothing to give back. */
	assert_int_equal(rig_admitted(&rig, "n=1", 9), 5);
	assert_int_equal(weir_ask_cancel(rig.ask, rig.now_ns), 0);
	assert_int_equal(remaining(&rig, "n=1"), 0);
	rig_close(&rig);
	(void)state;
}

/* A request is deferred only if every limit that refused defers. */
static void defer_needs_all_refusing_limits(void **state)
{
	struct rig rig;

	rig_open(&rig,
		 "domain: d\n"
		 "descriptors:\n"
		 "- key: a\n"
		 "  rate_limit: {unit: day, requests_per_unit: 1, on_limit: defer}\n"
		 "- key: b\n"
		 "  rate_limit: {unit: day, requests_per_unit: 1, on_limit: defer}\n"
		 "- key: c\n"
		 "  rate_limit: {unit: day, requests_per_unit: 1}\n"
		 "- key: d\n"
		 "  rate_limit: {unit: day, requests_per_unit: 100}\n",
		 "d");
	assert_int_equal(rig_ask(&rig, "a=1;b=1;c=1"), WEIR_ADMIT);
	assert_int_equal(rig_ask(&rig, "a=1"), WEIR_DEFER);
	assert_int_equal(rig_result(&rig).http_status, 429);
	assert_int_equal(rig_ask(&rig, "a=1;b=1"), WEIR_DEFER);
	assert_int_equal(rig_ask(&rig, "a=1;d=1"), WEIR_DEFER);
	assert_int_equal(rig_ask(&rig, "a=1;c=1"), WEIR_REFUSE);
	assert_int_equal(rig_ask(&rig, "c=1"), WEIR_REFUSE);
	assert_int_equal(rig_stat(&rig, "d/a/1d").deferred, 3);
	assert_int_equal(rig_stat(&rig, "d/a/1d").refused, 1);
	rig_begin(&rig);
	rig_add(&rig, "a=1", 1);
	rig_add_override(&rig, "o=1", 0, 1, 1);
	assert_int_equal(rig_decide(&rig), WEIR_REFUSE);
	rig_close(&rig);
	(void)state;
}

/* Different entries have different counters, even if their joined texts are equal. Long keys have
 * different counters. */
static void different_entries_have_different_counters(void **state)
{
	struct rig rig;
	char a[5000], b[5000];

	rig_open(&rig,
		 "domain: d\n"
		 "descriptors:\n"
		 "- key: a\n"
		 "  rate_limit: {unit: day, requests_per_unit: 1}\n"
		 "  descriptors:\n"
		 "  - key: a\n"
		 "    rate_limit: {unit: day, requests_per_unit: 1}\n"
		 "- key: a_b\n"
		 "  rate_limit: {unit: day, requests_per_unit: 1}\n",
		 "d");
	assert_int_equal(rig_ask(&rig, "a=b_c"), WEIR_ADMIT);
	assert_int_equal(rig_ask(&rig, "a_b=c"), WEIR_ADMIT);
	assert_int_equal(rig_ask(&rig, "a=x|a=y"), WEIR_ADMIT);
	assert_int_equal(rig_ask(&rig, "a=xa=y"), WEIR_ADMIT);
	memset(a, 'x', sizeof a);
	memcpy(a, "a=", 2);
	a[sizeof a - 1] = '\0';
	memcpy(b, a, sizeof b);
	b[sizeof b - 2] = 'y';
	assert_int_equal(rig_ask(&rig, a), WEIR_ADMIT);
	assert_int_equal(rig_ask(&rig, b), WEIR_ADMIT);
	assert_int_equal(rig_ask(&rig, a), WEIR_REFUSE);
	assert_int_equal(rig_ask(&rig, b), WEIR_REFUSE);
	/* The longest key that is hashed directly, and the shortest that is not. */
	for (size_t len = 1000; len < 1030; len++) {
		a[len] = '\0';
		assert_int_equal(rig_ask(&rig, a), WEIR_ADMIT);
		assert_int_equal(rig_ask(&rig, a), WEIR_REFUSE);
		a[len] = 'x';
	}
	rig_close(&rig);
	(void)state;
}

static void too_many_descriptors_and_limits(void **state)
{
	struct weir_error error;
	struct weir_ask *ask;
	struct rig rig;
	char many[1024] = "domain: d\ndescriptors:\n- key: a\n  rate_limits:\n";

	for (int i = 0; i < 8; i++)
		snprintf(many + strlen(many), sizeof many - strlen(many),
			 "  - {period: %ds, requests_per_unit: 1}\n", i + 1);
	rig_open(&rig, many, "d");
	rig_begin(&rig);
	for (int i = 0; i < 8; i++)
		assert_int_equal(rig_add(&rig, "a=1", 1), 0);
	for (int i = 8; i < WEIR_DESCRIPTORS_MAX; i++)
		assert_int_equal(rig_add(&rig, "none=1", 1), 0);
	assert_int_equal(rig_decide(&rig), WEIR_REFUSE); /* cost 8 under a limit of 1 */
	assert_int_equal(rig_decide(&rig), WEIR_EINVAL);
	assert_int_equal(rig_add(&rig, "a=1", 1), WEIR_EINVAL);
	assert_int_equal(rig_result(&rig).descriptors, WEIR_DESCRIPTORS_MAX);
	rig_begin(&rig);
	assert_int_equal(weir_ask_decide(rig.ask, 1ull << 63), WEIR_ETIME);
	assert_int_equal(rig_result(&rig).verdict, 0);

	assert_true(weir_ask_size() <= WEIR_ASK_BYTES);
	assert_int_equal(weir_ask_init(rig.memory, weir_ask_size() - 1, rig.engine,
				       (struct weir_str){"d", 1}, &ask),
			 WEIR_EROOM);
	assert_int_equal(weir_ask_init(rig.memory + 1, WEIR_ASK_BYTES - 1, rig.engine,
				       (struct weir_str){"d", 1}, &ask),
			 WEIR_EINVAL);
	assert_int_equal(weir_limit_per_unit(1, 9, &(struct weir_limit){0}, &error), WEIR_ELIMIT);
	rig_close(&rig);
	(void)state;
}

static const char hundred[] = "domain: d\n"
			      "descriptors:\n"
			      "- key: w\n"
			      "  rate_limit: {unit: minute, requests_per_unit: 100}\n"
			      "- key: b\n"
			      "  rate_limit: {unit: minute, requests_per_unit: 100, algorithm: "
			      "token_bucket}\n";

static int ask_for(struct rig *rig, const char *descriptor, int64_t hits, uint64_t taken_ns)
{
	rig_begin(rig);
	if (taken_ns)
		assert_int_equal(weir_ask_taken_at(rig->ask, taken_ns), 0);
	assert_int_equal(rig_add(rig, descriptor, hits), 0);
	return rig_decide(rig);
}

/* 90 units are taken just before a minute ends and 90 in the next minute, then 80 of the first are
 * given back. Without the time of the take, the next minute admits 170 of 100. */
static void units_go_back_into_their_window(void **state)
{
	struct rig rig;
	uint64_t first_ns, second_ns;

	rig_open(&rig, hundred, "d");
	rig.now_ns += 59 * SECOND_NS;
	first_ns = rig.now_ns;
	assert_int_equal(ask_for(&rig, "w=1", 90, 0), WEIR_ADMIT);
	assert_int_equal(ask_for(&rig, "w=2", 90, 0), WEIR_ADMIT);
	rig.now_ns += 2 * SECOND_NS;
	second_ns = rig.now_ns;
	assert_int_equal(ask_for(&rig, "w=1", 90, 0), WEIR_ADMIT);
	assert_int_equal(ask_for(&rig, "w=2", 90, 0), WEIR_ADMIT);
	assert_int_equal(ask_for(&rig, "w=1", -80, WEIR_TAKEN_UNKNOWN), WEIR_ADMIT);
	assert_int_equal(ask_for(&rig, "w=1", 80, 0), WEIR_ADMIT); /* 170 in this minute */
	assert_int_equal(ask_for(&rig, "w=2", -80, first_ns), WEIR_ADMIT);
	assert_int_equal(rig_status(&rig, 0).remaining, 10);
	assert_int_equal(ask_for(&rig, "w=2", 80, 0), WEIR_REFUSE);
	assert_int_equal(ask_for(&rig, "w=2", -80, second_ns), WEIR_ADMIT);
	assert_int_equal(rig_status(&rig, 0).remaining, 90);
	rig_close(&rig);
	(void)state;
}

/* Half of the bucket's units have refilled since the take, so only the other half comes back. */
static void units_go_back_into_their_bucket(void **state)
{
	struct rig rig;
	uint64_t taken_ns;

	rig_open(&rig, hundred, "d");
	taken_ns = rig.now_ns;
	assert_int_equal(ask_for(&rig, "b=1", 100, 0), WEIR_ADMIT);
	rig.now_ns += 30 * SECOND_NS;
	assert_int_equal(ask_for(&rig, "b=1", 50, 0), WEIR_ADMIT);
	assert_int_equal(ask_for(&rig, "b=1", -100, taken_ns), WEIR_ADMIT);
	assert_int_equal(rig_status(&rig, 0).remaining, 50);
	rig_close(&rig);
	(void)state;
}

static void negative_costs_need_a_time(void **state)
{
	const struct weir_entry entry = {{"w", 1}, {"1", 1}, {NULL, 0}};
	struct rig rig;

	rig_open(&rig, hundred, "d");
	rig_begin(&rig);
	assert_int_equal(weir_ask_add(rig.ask, &entry, 1, NULL, -1), 0);
	assert_int_equal(weir_ask_taken_at(rig.ask, 0), WEIR_EINVAL);
	assert_int_equal(weir_ask_taken_at(rig.ask, UINT64_MAX - 1), WEIR_EINVAL);
	assert_int_equal(weir_ask_taken_at(NULL, 1), WEIR_EINVAL);
	assert_int_equal(rig_decide(&rig), WEIR_EINVAL);
	assert_int_equal(weir_ask_taken_at(rig.ask, rig.now_ns), 0);
	assert_int_equal(rig_decide(&rig), WEIR_ADMIT);
	assert_int_equal(weir_ask_taken_at(rig.ask, rig.now_ns), WEIR_EINVAL);
	rig_close(&rig);
	(void)state;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(all_or_nothing),
		cmocka_unit_test(all_limits_of_a_descriptor_apply),
		cmocka_unit_test(the_same_descriptor_twice),
		cmocka_unit_test(shadow_mode),
		cmocka_unit_test(quota_mode),
		cmocka_unit_test(unlimited_and_whitelisted),
		cmocka_unit_test(replaces),
		cmocka_unit_test(overrides),
		cmocka_unit_test(costs_of_descriptors),
		cmocka_unit_test(enforce_share),
		cmocka_unit_test(count_rejected),
		cmocka_unit_test(soft_mode),
		cmocka_unit_test(delays_of_leaky_buckets),
		cmocka_unit_test(cancelled_requests_give_back),
		cmocka_unit_test(defer_needs_all_refusing_limits),
		cmocka_unit_test(different_entries_have_different_counters),
		cmocka_unit_test(too_many_descriptors_and_limits),
		cmocka_unit_test(order_of_takes_does_not_matter),
		cmocka_unit_test(cost_zero_is_not_counted),
		cmocka_unit_test(units_go_back_into_their_window),
		cmocka_unit_test(units_go_back_into_their_bucket),
		cmocka_unit_test(negative_costs_need_a_time),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
