/* Shared by the suites of reservations: rules, and functions that reserve and settle. */
#ifndef TEST_LIMITER_RESERVATION_H
#define TEST_LIMITER_RESERVATION_H

#include "helper.h"

#include <stdio.h>
#include <string.h>

#include "limiter/reservation.h"

static const char tokens[] =
	"domain: d\n"
	"descriptors:\n"
	"- key: t\n"
	"  rate_limit: {unit: minute, requests_per_unit: 10000}\n"
	"- key: r\n"
	"  rate_limit: {unit: minute, requests_per_unit: 1000, on_expiry: refund}\n"
	"- key: c\n"
	"  rate_limits:\n"
	"  - {unit: minute, requests_per_unit: 100}\n"
	"  - {concurrent: 2, max_hold: 2m}\n"
	"- key: b\n"
	"  rate_limit: {unit: second, requests_per_unit: 100, burst: 1000, algorithm: "
	"token_bucket}\n";

struct reserved {
	char text[WR_RESERVATION_TEXT_MAX];
	int len;
	uint64_t expires_ns;
	bool refunds;
};

/* Reserves `hits` units for each descriptor. Returns the verdict. If the request is refused, the token
 * is empty. */
static inline int reserve(struct rig *rig, const char *descriptors, int64_t hits, uint64_t ttl_ns,
			  struct reserved *made)
{
	uint8_t record[WR_RESERVATION_BYTES_MAX];
	char copy[1024], *rest = copy, *one;
	int verdict;

	made->len = 0;
	rig_begin(rig);
	assert_int_equal(wr_reservation_begin(rig->ask, record), 0);
	snprintf(copy, sizeof copy, "%s", descriptors);
	while ((one = strsep(&rest, ";")))
		assert_int_equal(rig_add(rig, one, hits), 0);
	verdict = rig_decide(rig);
	if (verdict == WEIR_ADMIT)
		made->len = wr_reservation_write(rig->ask, ttl_ns, made->text, &made->expires_ns,
						 &made->refunds);
	weir_ask_done(rig->ask);
	rig->ask = NULL;
	return verdict;
}

struct settled {
	int read; /* result of wr_reservation_read */
	enum wr_claim claim;
	bool gone;
	uint64_t refunded, debt;
};

static inline struct settled settle_text(struct rig *rig, struct weir_str text,
					 enum wr_settle_action action, int64_t actual)
{
	_Alignas(16) static char memory[WEIR_ASK_BYTES];
	struct wr_reservation reservation;
	struct settled settled = {0};
	struct weir_ask *ask;

	settled.read = wr_reservation_read(&reservation, rig->engine, text, rig->now_ns);
	if (settled.read != 0)
		return settled;
	settled.claim = wr_reservation_claim(&reservation, rig->engine, action, rig->now_ns);
	if (settled.claim == WR_CLAIM_ALREADY ||
	    (settled.claim == WR_CLAIM_LOST && action == WR_SETTLE_EXPIRY))
		return settled;
	assert_int_equal(
		wr_reservation_restore(&reservation, memory, sizeof memory, rig->engine, &ask), 0);
	wr_reservation_settle(&reservation, ask,
			      &(struct wr_settle_order){action, settled.claim, actual},
			      rig->now_ns);
	settled.refunded = wr_ask_settled_units(ask, &settled.debt);
	weir_ask_done(ask);
	settled.gone = reservation.gone;
	if (settled.gone && action == WR_SETTLE_COMMIT) {
		assert_int_equal(wr_reservation_charge(&reservation, actual, memory, sizeof memory,
						       rig->engine, rig->now_ns, &ask),
				 0);
		wr_ask_settled_units(ask, &settled.debt);
		weir_ask_done(ask);
	}
	return settled;
}

static inline struct settled settle(struct rig *rig, const struct reserved *made,
				    enum wr_settle_action action, int64_t actual)
{
	return settle_text(rig, (struct weir_str){made->text, (size_t)made->len}, action, actual);
}

static inline struct weir_decision look(struct rig *rig, const char *descriptor)
{
	rig_begin(rig);
	assert_int_equal(rig_add(rig, descriptor, 0), 0);
	rig_decide(rig);
	return rig_status(rig, 0).decision;
}

#endif
