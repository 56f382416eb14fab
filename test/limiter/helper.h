/* A rig for tests: an engine on its own table, and functions that decide a request in one call. */
#ifndef TEST_LIMITER_HELPER_H
#define TEST_LIMITER_HELPER_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <weir/host.h>
#include <weir/stats.h>
#include <weir/weir.h>

#define SECOND_NS 1000000000ull
#define MINUTE_NS (60 * SECOND_NS)
#define HOUR_NS (60 * MINUTE_NS)
#define DAY_NS (24 * HOUR_NS)
#define NOW_NS (1794787200ull * SECOND_NS) /* 2026-11-16 00:00 UTC, a Monday */

struct rig {
	_Alignas(16) char memory[WEIR_ASK_BYTES];
	struct weir_table *table;
	struct weir_engine *engine;
	const char *domain;
	uint64_t now_ns;
	struct weir_ask *ask; /* the last ask; ended by the next one or by rig_close */
};

struct weir_table *rig_table(void);
struct weir_rules *rig_rules(const char *yaml);
struct weir_rules *rig_load(const char *path);

/* Opens a table and an engine with the rules. Asks use the domain. */
void rig_open(struct rig *rig, const char *yaml, const char *domain);
void rig_open_with(struct rig *rig, struct weir_rules *rules, const char *domain, uint32_t flags);
void rig_close(struct rig *rig);

/* Ends the last ask and begins a new one. */
struct weir_ask *rig_begin(struct rig *rig);

/* Adds a descriptor such as "a=1|b=2". */
int rig_add(struct rig *rig, const char *descriptor, int64_t hits);
int rig_add_override(struct rig *rig, const char *descriptor, uint32_t requests, int unit,
		     int64_t hits);
int rig_decide(struct rig *rig);

/* Begins an ask, adds descriptors, which are separated by ';' and have cost 1, and decides. Returns
 * the verdict. */
int rig_ask(struct rig *rig, const char *descriptors);

/* Decides an HTTP request such as "POST /v1/posts". `headers` is "name: value\n…" or NULL, `peer`
 * the client's address. */
int rig_http(struct rig *rig, const char *line, const char *headers, const char *peer);

struct weir_status rig_status(struct rig *rig, size_t at);
struct weir_result rig_result(struct rig *rig);

/* Returns how many of `crowd` requests at the current time are admitted. */
int rig_admitted(struct rig *rig, const char *descriptors, int crowd);

/* Returns the value of a header field of the last response, or NULL. The text is valid until the
 * next call. */
const char *rig_header(struct rig *rig, int profile, const char *wanted);

/* Returns the statistics of a rule. */
struct weir_stat rig_stat(struct rig *rig, const char *rule);

/* Fills the table with other keys, which weigh more than the marker of a reservation. The markers are
 * then evicted. */
void rig_evict(struct rig *rig);

#endif
