/* Reads rate_limit and rate_limits. Each map in them becomes a checked struct weir_limit with its
 * settings. */
#include "rules/read.h"

#include "rules/calendar.h"

#define WHOLE_PPM 1000000

/* Keys that work only with some algorithms. X(key, names of the algorithms for messages, set of the
 * algorithms) */
#define SPECIAL_KEYS(X)                                                                            \
	X(BURST, "`token_bucket`", 1u << WEIR_TOKEN_BUCKET)                                        \
	X(QUEUE_SIZE, "`leaky_bucket`", 1u << WEIR_LEAKY_BUCKET)                                   \
	X(MAX_WAIT, "`leaky_bucket`", 1u << WEIR_LEAKY_BUCKET)                                     \
	X(COUNT_REJECTED, "`fixed_window`, `sliding_window_counter` or `sliding_window_log`",      \
	  1u << WEIR_FIXED_WINDOW | 1u << WEIR_SLIDING_COUNTER | 1u << WEIR_SLIDING_LOG)           \
	X(ON_FULL, "`sliding_window_log`", 1u << WEIR_SLIDING_LOG)                                 \
	X(SOFT,                                                                                    \
	  "`token_bucket`, `fixed_window`, `sliding_window_counter` or `sliding_window_log`",      \
	  ~(1u << WEIR_LEAKY_BUCKET))                                                              \
	X(MAX_DEBT,                                                                                \
	  "`token_bucket`, `fixed_window`, `sliding_window_counter` or `sliding_window_log`",      \
	  ~(1u << WEIR_LEAKY_BUCKET))                                                              \
	X(ON_EXPIRY,                                                                               \
	  "`token_bucket`, `fixed_window`, `sliding_window_counter` or `sliding_window_log`",      \
	  ~(1u << WEIR_LEAKY_BUCKET))

static struct weir_str algorithm_name(const struct wr_rules_limit *limit)
{
	return wr_str(weir_algorithm_name((int)limit->limit.algorithm));
}

static void check_special(struct wr_load *load, const struct wr_fields *f,
			  const struct wr_rules_limit *limit)
{
	static const struct {
		const char *with;
		enum wr_rules_key_id key;
		uint32_t algorithms;
	} special[] = {
#define SPECIAL_ROW(key, with, algorithms) {with, WR_KEY_##key, algorithms},
		SPECIAL_KEYS(SPECIAL_ROW)
#undef SPECIAL_ROW
	};

	for (size_t i = 0; i < sizeof special / sizeof *special; i++)
		if (f->value[special[i].key] &&
		    !(special[i].algorithms >> limit->limit.algorithm & 1))
			wr_rules_report(load, WR_D_wrong_algorithm, f->key[special[i].key],
					WR_ARGS(wr_keys[special[i].key].name,
						wr_str(special[i].with), algorithm_name(limit)));
}

/* Returns the zone with this name. Each zone is read only once for all limits of a generation. */
static const struct wr_zone *find_zone(struct wr_load *load, const struct wr_yaml *at,
				       struct weir_str name)
{
	struct wr_zone *zone;

	for (const struct wr_zone *known = load->zones; known; known = known->next)
		if (wr_str_equal(known->name, name))
			return known;
	switch (wr_zone_load(&load->rules->arena, load->zone_directory, name, &zone)) {
	case WR_ZONE_OK:
		zone->next = load->zones;
		load->zones = zone;
		return zone;
	case WR_ZONE_MEMORY:
		longjmp(load->out_of_memory, 1);
	case WR_ZONE_DAMAGED:
		wr_rules_report(load, WR_D_damaged_timezone, at, WR_ARGS(name));
		return NULL;
	case WR_ZONE_NAME:
	case WR_ZONE_ABSENT:
	default:
		wr_rules_report(load, WR_D_unknown_timezone, at, WR_ARGS(name));
		return NULL;
	}
}

static void read_calendar(struct wr_load *load, const struct wr_fields *f,
			  struct wr_rules_limit *limit)
{
	struct weir_str zone;
	int calendar;

	if (!wr_get_word(load, f, WR_KEY_CALENDAR, wr_calendar_words, &calendar))
		return;
	limit->calendar = (uint8_t)calendar;
	limit->limit.period_ns = wr_calendar_period_ns(calendar);
	/* A placeholder for the end of the window. Each decision sets the window that contains the
	 * time of its request. */
	limit->limit.window_end_ns = limit->limit.period_ns;
	if (limit->limit.algorithm != WEIR_FIXED_WINDOW)
		wr_rules_report(load, WR_D_calendar_algorithm, f->key[WR_KEY_CALENDAR],
				WR_ARGS(algorithm_name(limit)));
	if (wr_get_text(load, f, WR_KEY_TIMEZONE, &zone) && !wr_str_equal(zone, WR_STR("UTC")))
		limit->zone = find_zone(load, f->value[WR_KEY_TIMEZONE], zone);
}

/* Reads the period of a limit, which has exactly one of unit, period and calendar. */
static void read_span(struct wr_load *load, const struct wr_fields *f, struct wr_rules_limit *limit)
{
	static const enum wr_rules_key_id spans[] = {WR_KEY_UNIT, WR_KEY_PERIOD, WR_KEY_CALENDAR};
	int first = -1, unit;

	for (int i = 0; i < 3; i++) {
		if (!f->value[spans[i]])
			continue;
		if (first >= 0)
			wr_rules_report(load, WR_D_two_spans, f->key[spans[i]],
					WR_ARGS(wr_keys[spans[i]].name, wr_keys[first].name));
		first = (int)spans[i];
	}
	if (first < 0 && !f->misread)
		wr_rules_report(load, WR_D_no_span, f->at, NULL);
	if (f->value[WR_KEY_TIMEZONE] && !f->value[WR_KEY_CALENDAR])
		wr_rules_report(load, WR_D_timezone_without_calendar, f->key[WR_KEY_TIMEZONE],
				NULL);
	if (wr_get_word(load, f, WR_KEY_UNIT, wr_unit_words, &unit))
		limit->limit.period_ns = wr_unit_ns(unit);
	wr_get_duration(load, f, WR_KEY_PERIOD, &limit->limit.period_ns);
	limit->unit = wr_unit_of(limit->limit.period_ns);
	read_calendar(load, f, limit);
}

static void read_numbers(struct wr_load *load, const struct wr_fields *f,
			 struct wr_rules_limit *limit)
{
	struct weir_limit *l = &limit->limit;
	int on_full;

	if (!f->value[WR_KEY_REQUESTS_PER_UNIT] && !f->misread)
		wr_rules_report(load, WR_D_no_requests_per_unit, f->at, NULL);
	wr_get_number(load, f, WR_KEY_REQUESTS_PER_UNIT, 0, UINT32_MAX, &l->limit);
	wr_get_number(load, f, WR_KEY_BURST, 1, UINT32_MAX, &l->burst);
	wr_get_number(load, f, WR_KEY_QUEUE_SIZE, 0, UINT32_MAX - 1, &l->queue_size);
	wr_get_duration(load, f, WR_KEY_MAX_WAIT, &l->max_wait_ns);
	/* In a struct weir_limit, a max_debt of 0 stands for the default, so a rule file's 0 is a
	 * flag. */
	if (wr_get_number(load, f, WR_KEY_MAX_DEBT, 0, UINT32_MAX, &l->max_debt) &&
	    l->max_debt == 0)
		l->flags |= WEIR_NO_DEBT;
	if (wr_get_flag(load, f, WR_KEY_COUNT_REJECTED))
		l->flags |= WEIR_COUNT_REJECTED;
	/* on_full is only for sliding_window_log. If the limit has on_full and another algorithm,
	 * check_special() reports an error. */
	if (wr_get_word(load, f, WR_KEY_ON_FULL, wr_on_full_words, &on_full) &&
	    on_full == WR_FULL_REFUSE && l->algorithm == WEIR_SLIDING_LOG)
		l->flags |= WEIR_FULL_REFUSES;
}

/* Warns if a limit with `consistency: lease` also has soft mode or count_rejected. No units are
 * leased for such a limit, because Redis has to see each of its requests. */
static void check_lease(struct wr_load *load, const struct wr_fields *f,
			const struct wr_rules_limit *limit)
{
	if (limit->mode == WR_SOFT)
		wr_rules_report(load, WR_D_idle_lease, f->value[WR_KEY_CONSISTENCY],
				WR_ARGS(WR_STR("mode: soft")));
	if (limit->limit.flags & WEIR_COUNT_REJECTED)
		wr_rules_report(load, WR_D_idle_lease, f->value[WR_KEY_CONSISTENCY],
				WR_ARGS(WR_STR("count_rejected")));
}

/* Returns the settings that a limit can use instead of a `consistency` that does not work with its
 * algorithm, or an empty text if the consistency works. */
static struct weir_str consistency_remedy(int consistency, uint32_t algorithm)
{
	bool shared = consistency == WR_STRICT || consistency == WR_LOCAL;

	if (!shared && algorithm == WEIR_CONCURRENT)
		return WR_STR("`strict` or `local`");
	if (!shared && algorithm == WEIR_LEAKY_BUCKET)
		return WR_STR("`strict` or `algorithm: token_bucket`");
	if (consistency == WR_EVENTUAL && algorithm == WEIR_SLIDING_LOG)
		return WR_STR("`strict`, `lease` or `algorithm: sliding_window_counter`");
	return WR_STR("");
}

static void read_consistency(struct wr_load *load, const struct wr_fields *f,
			     struct wr_rules_limit *limit)
{
	struct weir_str remedy;
	int word;

	if (!wr_get_word(load, f, WR_KEY_CONSISTENCY, wr_consistency_words, &word))
		return;
	limit->consistency = (uint8_t)word;
	remedy = consistency_remedy(word, limit->limit.algorithm);
	if (remedy.len)
		wr_rules_report(
			load, WR_D_wrong_consistency, f->value[WR_KEY_CONSISTENCY],
			WR_ARGS(f->value[WR_KEY_CONSISTENCY]->text, algorithm_name(limit), remedy));
	else if (word == WR_LEASE)
		check_lease(load, f, limit);
}

static void read_behaviour(struct wr_load *load, const struct wr_fields *f,
			   struct wr_rules_limit *limit)
{
	int word;

	if (wr_get_word(load, f, WR_KEY_ON_LIMIT, wr_on_limit_words, &word))
		limit->on_limit = (uint8_t)word;
	if (wr_get_word(load, f, WR_KEY_ON_STORE_FAILURE, wr_rules_store_failure_words, &word))
		limit->on_store_failure = (uint8_t)word;
	if (wr_get_word(load, f, WR_KEY_ON_EXPIRY, wr_on_expiry_words, &word))
		limit->on_expiry = (uint8_t)word;
	read_consistency(load, f, limit);
}

/* Reports a limit that weir_limit_check() refuses, for example because a number is too large, or
 * because a bucket would take more than 100 years to fill. Also reports a period of 0. */
static void check_limit(struct wr_load *load, const struct wr_fields *f,
			struct wr_rules_limit *limit)
{
	struct weir_error error;

	if (limit->limit.period_ns && weir_limit_check(&limit->limit, &error) != 0)
		wr_rules_report(load, WR_D_unusable_limit, f->at, WR_ARGS(wr_str(error.text)));
	else if (!limit->limit.period_ns && f->value[WR_KEY_PERIOD])
		wr_rules_report(load, WR_D_bad_duration, f->value[WR_KEY_PERIOD],
				WR_ARGS(f->value[WR_KEY_PERIOD]->text));
}

static void read_algorithm(struct wr_load *load, const struct wr_fields *f,
			   struct wr_rules_limit *limit)
{
	const struct wr_yaml *value = f->value[WR_KEY_ALGORITHM];
	int algorithm = WEIR_FIXED_WINDOW;

	if (value && value->kind == WR_YAML_TEXT &&
	    wr_str_equal_nocase(value->text, wr_str(weir_algorithm_name(WEIR_CONCURRENT))))
		wr_rules_report(load, WR_D_algorithm_concurrent, value, NULL);
	else
		wr_get_word(load, f, WR_KEY_ALGORITHM, wr_algorithm_words, &algorithm);
	limit->limit.algorithm = (uint32_t)algorithm;
}

/* Reads a limit on the rate of requests: a number of requests per period. */
static void read_rate(struct wr_load *load, const struct wr_fields *f, struct wr_rules_limit *limit)
{
	read_algorithm(load, f, limit);
	if (f->value[WR_KEY_MAX_HOLD] && !f->misread)
		wr_rules_report(load, WR_D_hold_without_concurrent, f->key[WR_KEY_MAX_HOLD], NULL);
	read_span(load, f, limit);
	read_numbers(load, f, limit);
	check_special(load, f, limit);
	wr_read_soft(load, f, limit);
}

/* Reads the settings that limits and candidates share. Candidates have no `concurrent`. */
static void read_counting(struct wr_load *load, const struct wr_fields *f,
			  struct wr_rules_limit *limit)
{
	uint32_t errors = load->diags.errors->errors;

	limit->limit.size = sizeof limit->limit;
	limit->enforce_ppm = WHOLE_PPM;
	if (f->value[WR_KEY_CONCURRENT])
		wr_read_concurrent(load, f, limit);
	else
		read_rate(load, f, limit);
	/* After an error, check_limit() is not called, because it would only repeat that error. */
	if (load->diags.errors->errors == errors)
		check_limit(load, f, limit);
}

static void read_candidates(struct wr_load *load, const struct wr_fields *f,
			    struct wr_rules_limit *limit)
{
	const struct wr_yaml *marks[WR_CANDIDATES_MAX];
	struct wr_rules_limit *candidates;
	struct wr_fields fields;
	struct wr_rules_list list;
	uint32_t count = 0;

	if (!wr_get_list(load, f, WR_KEY_CANDIDATES, true, WR_CANDIDATES_MAX, &list))
		return;
	candidates = wr_load_alloc(load, &load->rules->arena, list.count * sizeof *candidates);
	while (count < WR_CANDIDATES_MAX && (marks[count] = wr_rules_list_next(&list))) {
		struct wr_rules_limit *c = &candidates[count];

		c->candidate = 1;
		c->consistency = WR_LOCAL;
		c->node = limit->node;
		if (wr_fields_read(load, marks[count++], WR_IN_CANDIDATE, WR_STR("candidates"),
				   &fields)) {
			wr_get_text(load, &fields, WR_KEY_NAME, &c->name);
			read_counting(load, &fields, c);
			wr_read_ban(load, &fields, c);
		}
	}
	limit->candidates = candidates;
	limit->candidate_count = count;
	wr_rules_name_candidates(load, limit->node, candidates, count, marks);
}

static void read_unlimited(struct wr_load *load, const struct wr_fields *f,
			   struct wr_rules_limit *limit)
{
	limit->unlimited = 1;
	limit->enforce_ppm = WHOLE_PPM;
	for (int key = 0; key < WR_KEY_COUNT; key++) {
		if (!f->value[key] || key == WR_KEY_UNLIMITED || key == WR_KEY_NAME ||
		    key == WR_KEY_REPLACES)
			continue;
		if (key == WR_KEY_REQUESTS_PER_UNIT)
			wr_rules_report(load, WR_D_unlimited_number, f->key[key], NULL);
		else
			wr_rules_report(load, WR_D_unlimited_with, f->key[key],
					WR_ARGS(wr_keys[key].name));
	}
}

static void read_limit(struct wr_load *load, const struct wr_yaml *map,
		       struct wr_rules_limit *limit)
{
	struct wr_fields f;

	if (!wr_fields_read(load, map, WR_IN_LIMIT, WR_STR("rate_limit"), &f))
		return;
	wr_get_text(load, &f, WR_KEY_NAME, &limit->name);
	wr_read_replaces(load, &f, limit);
	if (wr_get_flag(load, &f, WR_KEY_UNLIMITED)) {
		read_unlimited(load, &f, limit);
		return;
	}
	read_counting(load, &f, limit);
	read_behaviour(load, &f, limit);
	wr_read_response(load, &f, limit);
	wr_read_defer(load, &f, limit);
	wr_read_ban(load, &f, limit);
	wr_get_share(load, &f, WR_KEY_ENFORCE, WHOLE_PPM, &limit->enforce_ppm);
	if (limit->limit.algorithm != WEIR_CONCURRENT)
		read_candidates(load, &f, limit);
}

/* Reports a limit that replaces a limit of the same descriptor, because the replaced limit would
 * never count. */
static void check_replaces(struct wr_load *load, const struct wr_rules_limit *limits,
			   uint32_t count, const struct wr_yaml *const *marks)
{
	for (uint32_t i = 0; i < count; i++)
		for (uint32_t r = 0; r < limits[i].replace_count; r++)
			for (uint32_t j = 0; j < count; j++)
				if (wr_str_equal(limits[i].replaces[r], limits[j].name))
					wr_rules_report(load, WR_D_replaces_itself, marks[i],
							WR_ARGS(limits[j].name));
}

/* Returns the number of logs that a key can have under these limits. A log of one refusal is left
 * out, because it is stored in the cell of its key. */
static uint32_t count_logs(const struct wr_rules_limit *limits, uint32_t count)
{
	uint32_t logs = 0;

	for (uint32_t i = 0; i < count; i++) {
		logs += !limits[i].unlimited && limits[i].limit.algorithm == WEIR_SLIDING_LOG;
		logs += limits[i].ban && limits[i].ban->refusals.limit > 1;
		logs += count_logs(limits[i].candidates, limits[i].candidate_count);
	}
	return logs;
}

void wr_read_limits(struct wr_load *load, const struct wr_fields *f, struct wr_node *node)
{
	const struct wr_yaml *marks[WR_LIMITS_MAX] = {f->value[WR_KEY_RATE_LIMIT]};
	struct wr_rules_limit *limits;
	struct wr_rules_list list = {0};
	uint32_t count = marks[0] != NULL;

	if (marks[0] && f->value[WR_KEY_RATE_LIMITS])
		wr_rules_report(load, WR_D_limit_and_limits, f->key[WR_KEY_RATE_LIMITS], NULL);
	else if (!marks[0] && wr_get_list(load, f, WR_KEY_RATE_LIMITS, true, WR_LIMITS_MAX, &list))
		while (count < list.count)
			marks[count++] = wr_rules_list_next(&list);
	if (count == 0)
		return;
	limits = wr_load_alloc(load, &load->rules->arena, count * sizeof *limits);
	for (uint32_t i = 0; i < count; i++) {
		limits[i].node = node;
		read_limit(load, marks[i], &limits[i]);
	}
	check_replaces(load, limits, count, marks);
	for (uint32_t i = 0; count > 1 && i < count; i++)
		if (limits[i].unlimited)
			wr_rules_report(load, WR_D_unlimited_in_list, marks[i], NULL);
	wr_rules_name_limits(load, node, limits, count, marks);
	node->limits = limits;
	node->limit_count = (uint8_t)count & 15;
	if (limits[0].unlimited)
		node->flags |= WR_IS_UNLIMITED;
	load->rules->limit_count += count;
	load->rules->log_count += count_logs(limits, count);
}
