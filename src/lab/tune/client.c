/* What one client does, see tune_client.h. */
#include "lab/tune/client.h"

#include <math.h>
#include <stdio.h>

#include "base/hash.h"
#include "base/str.h"
#include "lab/tune/routes.h"
#include "stats/words.h"

#define SECOND_NS 1000000000ull
#define RETRY_NS (2 * SECOND_NS)        /* a retry within this time is one of a machine */
#define ALONE_NS (2 * SECOND_NS)        /* a request after a longer pause is read alone */
#define PERIOD_LEAST_NS (5 * SECOND_NS) /* monitors do not check more often */
#define PATH_BITS (64 * WR_LAB_PATH_WORDS)

#define GUESSES 20u
#define RETRIES 20u
#define SCANNED_PATHS 20u
#define MONITOR_REQUESTS 50u
#define CRAWLER_REQUESTS 50u
#define CRAWLER_PATHS 100u
#define HEAVY_SHARE 20u   /* a heavy user has one of this number of requests */
#define HEAVY_CLIENTS 20u /* with fewer clients, large shares are usual */

static const struct {
	const char *name, *rule;
} kinds[] = {{"", ""},
#define KIND_ROW(name, text, rule) {text, rule},
	     WR_LAB_KINDS(KIND_ROW)
#undef KIND_ROW
};

const char *wr_lab_kind_name(enum wr_lab_kind kind)
{
	return kinds[kind].name;
}

const char *wr_lab_kind_rule(enum wr_lab_kind kind)
{
	return kinds[kind].rule;
}

/* ---- requests ---- */

static struct weir_str path_of(struct weir_str target)
{
	return wr_str_first(target, wr_str_find(target, '?'));
}

static bool contains(struct weir_str text, const char *part)
{
	size_t len = strlen(part);

	for (size_t i = 0; i + len <= text.len; i++)
		if (wr_str_equal_nocase((struct weir_str){text.ptr + i, len}, wr_str(part)))
			return true;
	return false;
}

static bool contains_any(struct weir_str text, const char *const *parts, size_t count)
{
	for (size_t i = 0; i < count; i++)
		if (contains(text, parts[i]))
			return true;
	return false;
}

static bool is_login(struct weir_str path)
{
	static const char *const parts[] = {"login", "logon",   "signin",     "sign-in",
					    "/auth", "session", "xmlrpc.php", "password"};

	return contains_any(path, parts, sizeof parts / sizeof *parts);
}

static bool is_robot(struct weir_str agent)
{
	static const char *const parts[] = {"bot", "crawl", "spider", "slurp"};

	return contains_any(agent, parts, sizeof parts / sizeof *parts);
}

static void vote(struct wr_lab_favourite *favourite, uint64_t hash,
		 const struct wr_lab_record *record, struct weir_str path)
{
	if (favourite->votes == 0) {
		favourite->hash = hash;
		favourite->count = 0;
		snprintf(favourite->path, sizeof favourite->path, "%.*s%s%.*s",
			 (int)record->method.len, record->method.ptr, record->method.len ? " " : "",
			 (int)path.len, path.ptr);
	}
	if (favourite->hash == hash) {
		favourite->votes++;
		favourite->count++;
	} else {
		favourite->votes--;
	}
}

static bool is_equal_period(uint64_t a, uint64_t b)
{
	uint64_t more = a > b ? a : b, difference = more - (a > b ? b : a);

	return more >= PERIOD_LEAST_NS && (difference <= more / 10 || difference <= SECOND_NS);
}

static void add_to_rhythm(struct wr_lab_rhythm *rhythm, uint64_t requests, uint64_t time_ns)
{
	for (size_t k = 0; k < WR_LAB_LAGS && k < requests; k++) {
		uint64_t period_ns = time_ns - rhythm->times_ns[k];

		if (is_equal_period(period_ns, rhythm->period_ns[k])) {
			rhythm->equal[k]++;
			rhythm->equal_ns[k] += period_ns;
		}
		rhythm->period_ns[k] = period_ns;
	}
	for (size_t k = WR_LAB_LAGS - 1; k > 0; k--)
		rhythm->times_ns[k] = rhythm->times_ns[k - 1];
	rhythm->times_ns[0] = time_ns;
}

static void copy_agent(struct wr_lab_tune_client *client, const struct wr_lab_record *record)
{
	for (uint32_t i = 0; i < record->header_count; i++)
		if (wr_str_equal_nocase(record->headers[i].name, WR_STR("user-agent")))
			snprintf(client->agent, sizeof client->agent, "%.*s",
				 (int)record->headers[i].value.len, record->headers[i].value.ptr);
}

static void count_status(struct wr_lab_tune_client *client, uint32_t status)
{
	client->denied += status == 401 || status == 403;
	client->missing += status == 404 || status == 410;
	client->errors += status >= 400 && status < 500;
	client->failures += status >= 500;
}

void wr_lab_client_add(struct wr_lab_tune_client *client, const struct wr_lab_record *record)
{
	struct weir_str path = path_of(record->target);
	uint64_t method_hash = XXH3_64bits(record->method.ptr, record->method.len);
	uint64_t path_hash = XXH3_64bits_withSeed(path.ptr, path.len, method_hash);
	uint64_t request =
		XXH3_64bits_withSeed(record->target.ptr, record->target.len, method_hash);
	uint64_t pause_ns = record->time_ns - client->last_ns;

	if (client->requests == 0) {
		client->first_ns = record->time_ns;
		copy_agent(client, record);
	} else if (client->last_status >= 400 && request == client->last_request &&
		   pause_ns <= RETRY_NS) {
		client->retries++;
	}
	client->alone += client->requests == 0 || pause_ns > ALONE_NS;
	client->statics += wr_lab_path_is_static(path);
	client->path_bits[path_hash % PATH_BITS / 64] |= 1ull << path_hash % 64;
	vote(&client->usual, path_hash, record, path);
	if (record->status == 401 || record->status == 403 ||
	    (wr_str_equal(record->method, WR_STR("POST")) && is_login(path)))
		vote(&client->login, path_hash, record, path);
	count_status(client, record->status);
	add_to_rhythm(&client->rhythm, client->requests, record->time_ns);
	client->requests++;
	client->last_ns = record->time_ns;
	client->last_status = record->status;
	client->last_request = request;
}

uint64_t wr_lab_client_paths(const struct wr_lab_tune_client *client)
{
	unsigned empty = PATH_BITS;

	for (size_t i = 0; i < WR_LAB_PATH_WORDS; i++)
		empty -= (unsigned)__builtin_popcountll(client->path_bits[i]);
	/* Linear counting: n paths leave each bit empty with the chance (1 - 1/bits)^n. If all bits
	 * are set, the number is at least the estimate for one empty bit. */
	return (uint64_t)(-(double)PATH_BITS * log((empty ? empty : 1) / (double)PATH_BITS) + 0.5);
}

/* ---- kinds ---- */

/* Returns the smallest lag at which three quarters of the requests repeat with an equal period, or
 * WR_LAB_LAGS. */
static size_t find_lag(const struct wr_lab_tune_client *client)
{
	size_t lag = 0;

	while (lag < WR_LAB_LAGS && client->rhythm.equal[lag] * 4 < client->requests * 3)
		lag++;
	return lag;
}

static bool is_monitor(const struct wr_lab_tune_client *client)
{
	return client->requests >= MONITOR_REQUESTS &&
	       client->usual.count * 10 >= client->requests * 9 && find_lag(client) < WR_LAB_LAGS;
}

static bool is_crawler(const struct wr_lab_tune_client *client)
{
	if (client->requests >= CRAWLER_REQUESTS && is_robot(wr_str(client->agent)))
		return true;
	return wr_lab_client_paths(client) >= CRAWLER_PATHS &&
	       wr_lab_client_paths(client) * 10 >= client->requests &&
	       client->alone * 2 >= client->requests && client->statics * 10 <= client->requests;
}

enum wr_lab_kind wr_lab_client_kind(const struct wr_lab_tune_client *client, uint64_t requests,
				    uint64_t clients)
{
	if (client->login.count >= GUESSES && client->login.count * 2 >= client->requests)
		return WR_LAB_GUESSER;
	if (client->retries >= RETRIES && client->retries * 2 >= client->requests)
		return WR_LAB_RETRIER;
	if (client->errors * 3 >= client->requests * 2 && client->requests >= SCANNED_PATHS &&
	    wr_lab_client_paths(client) >= SCANNED_PATHS)
		return WR_LAB_SCANNER;
	if (is_monitor(client))
		return WR_LAB_MONITOR;
	if (is_crawler(client))
		return WR_LAB_CRAWLER;
	if (clients >= HEAVY_CLIENTS && client->requests * HEAVY_SHARE >= requests)
		return WR_LAB_HEAVY;
	return WR_LAB_USUAL;
}

/* ---- reasons ---- */

/* Writes a share in per cent. Rounded down, so that 100 % means all. */
static unsigned percent(uint64_t part, uint64_t whole)
{
	return whole ? (unsigned)((double)part * 100 / (double)whole) : 0;
}

static void print_guesser(const struct wr_lab_tune_client *client, const char *requests, char *text,
			  size_t cap)
{
	char guesses[WR_NUMBER_WORDS], denied[64] = "";

	wr_number_words(client->login.count, guesses);
	if (client->denied)
		snprintf(denied, sizeof denied, "; %u %% of all were answered with 401 or 403",
			 percent(client->denied, client->requests));
	snprintf(text, cap, "%s of %s requests are %s%s", guesses, requests, client->login.path,
		 denied);
}

static void print_monitor(const struct wr_lab_tune_client *client, const char *requests, char *text,
			  size_t cap)
{
	size_t lag = find_lag(client);
	double period_s = (double)client->rhythm.equal_ns[lag] / (double)client->rhythm.equal[lag] /
			  (double)SECOND_NS;

	snprintf(text, cap, "%u %% of %s requests for %s, %zu every %.0f s",
		 percent(client->usual.count, client->requests), requests, client->usual.path,
		 lag + 1, period_s);
}

static void print_crawler(const struct wr_lab_tune_client *client, const char *requests, char *text,
			  size_t cap)
{
	char paths[WR_NUMBER_WORDS];

	wr_number_words(wr_lab_client_paths(client), paths);
	if (is_robot(wr_str(client->agent)))
		snprintf(text, cap, "%s requests for about %s paths; its user agent is %s",
			 requests, paths, client->agent);
	else
		snprintf(text, cap,
			 "%s requests for about %s paths, %u %% of them alone, %u %% for static "
			 "files",
			 requests, paths, percent(client->alone, client->requests),
			 percent(client->statics, client->requests));
}

void wr_lab_client_reason(const struct wr_lab_tune_client *client, enum wr_lab_kind kind,
			  char *text, size_t cap)
{
	char requests[WR_NUMBER_WORDS], other[WR_NUMBER_WORDS];

	wr_number_words(client->requests, requests);
	switch (kind) {
	case WR_LAB_GUESSER:
		print_guesser(client, requests, text, cap);
		break;
	case WR_LAB_RETRIER:
		wr_number_words(client->retries, other);
		snprintf(text, cap,
			 "%s of %s requests repeat a failed request within 2 s, mostly %s", other,
			 requests, client->usual.path);
		break;
	case WR_LAB_SCANNER:
		wr_number_words(wr_lab_client_paths(client), other);
		snprintf(text, cap, "%s requests for about %s paths; %u %% answered with 4xx",
			 requests, other, percent(client->errors, client->requests));
		break;
	case WR_LAB_MONITOR:
		print_monitor(client, requests, text, cap);
		break;
	case WR_LAB_CRAWLER:
		print_crawler(client, requests, text, cap);
		break;
	case WR_LAB_HEAVY:
		snprintf(text, cap, "%s requests, mostly %s", requests, client->usual.path);
		break;
	case WR_LAB_USUAL:
	case WR_LAB_KIND_COUNT:
		snprintf(text, cap, "%s requests", requests);
		break;
	}
}
