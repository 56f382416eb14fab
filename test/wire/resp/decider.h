/* Replaces serve/decide in talk.c and fuzz_resp.c: decides asks in the table, or through
 * host->central if a rule requires that. */
#ifndef TEST_WIRE_RESP_DECIDER_H
#define TEST_WIRE_RESP_DECIDER_H

#include <stdio.h>
#include <stdlib.h>

#include "wire/resp/wait.h"

static int decider_open;        /* number of decisions that have begun and not ended */
static int decider_resets;      /* number of calls of `reset` */
static uint64_t decider_now_ns; /* time of the last decision */
static bool decider_no_memory;
/* Tokens are not sent. The fuzz target compares the replies of two tables, whose tokens differ. */
static bool decider_hides_tokens;

static int decider_begin(struct wr_resp_host *host, struct weir_str domain,
			 struct wr_resp_wait **wait)
{
	if (decider_no_memory)
		return WEIR_EMEMORY;
	*wait = calloc(1, sizeof **wait +
				  WR_RESERVATION_BYTES_MAX); /* the record of decider_reserve */
	decider_open++;
	return weir_ask_init(malloc(weir_ask_size()), weir_ask_size(), host->engine, domain,
			     &(*wait)->ask);
}

static void decider_end(struct wr_resp_host *host, struct wr_resp_wait *wait)
{
	(void)host;
	weir_ask_done(wait->ask);
	free(wait->ask);
	free(wait);
	decider_open--;
}

/* Sends the messages of the ask to the central store, and reports the verdict to the session. */
static bool decider_conclude(struct wr_resp_wait *wait, int verdict, uint64_t now_ns)
{
	struct wr_resp_host *host = wait->session->host;
	uint8_t message[WEIR_QUESTION_MAX];
	int len;

	while (host->central && (len = weir_ask_question(wait->ask, message, sizeof message)) > 0)
		host->central->send(host, message, (size_t)len, now_ns);
	return wr_resp_decided(wait, host->shadow && verdict > 0 ? WEIR_ADMIT : verdict);
}

/* Passes the central store's answer to the ask. If `len` is 0, the central store has not
 * answered. */
static bool decider_answered(struct wr_resp_wait *wait, const void *answer, size_t len,
			     uint64_t now_ns)
{
	return decider_conclude(wait,
				len ? weir_ask_answer(wait->ask, answer, len, now_ns)
				    : weir_ask_store_failed(wait->ask, now_ns),
				now_ns);
}

static void decider_decide(struct wr_resp_host *host, struct wr_resp_wait *wait, uint64_t now_ns)
{
	int verdict = weir_ask_decide(wait->ask, now_ns);
	uint8_t question[WEIR_QUESTION_MAX];

	decider_now_ns = now_ns;
	if (verdict != WEIR_WAIT)
		decider_conclude(wait, verdict, now_ns);
	else if (host->central)
		host->central->ask(host, wait, question,
				   (size_t)weir_ask_question(wait->ask, question, sizeof question),
				   now_ns);
	else
		decider_answered(wait, NULL, 0, now_ns);
}

static void decider_cancel(struct wr_resp_host *host, struct wr_resp_wait *wait)
{
	uint8_t message[WEIR_QUESTION_MAX];
	int len;

	if (!wait->answered) {
		host->central->leave(host, wait);
		return;
	}
	weir_ask_cancel(wait->ask, decider_now_ns);
	while (host->central && (len = weir_ask_question(wait->ask, message, sizeof message)) > 0)
		host->central->send(host, message, (size_t)len, decider_now_ns);
}

static int decider_reset(struct wr_resp_host *host, const struct weir_target *target,
			 uint64_t now_ns, struct weir_error *error)
{
	decider_resets++;
	return weir_control_reset(host->engine, target, now_ns, error);
}

static int decider_reserve(struct wr_resp_host *host, struct wr_resp_wait *wait)
{
	(void)host;
	return wr_reservation_begin(wait->ask, wait + 1);
}

static int decider_token(struct wr_resp_host *host, struct wr_resp_wait *wait, uint64_t *ttl_ns,
			 char *text)
{
	uint64_t expires_ns;
	bool refunds;
	int len = wr_reservation_write(wait->ask, *ttl_ns, text, &expires_ns, &refunds);

	(void)host;
	*ttl_ns = expires_ns - decider_now_ns;
	if (len > 0 && decider_hides_tokens)
		return sprintf(text, "hidden");
	return len;
}

static uint64_t decider_charge(struct wr_resp_host *host, struct wr_resp_wait *wait,
			       uint64_t now_ns)
{
	uint64_t charged;

	(void)host;
	wr_ask_charge(wait->ask, now_ns);
	wr_ask_settled_units(wait->ask, &charged);
	return charged;
}

static const struct wr_resp_decider standin_decider = {
	decider_begin, decider_decide,  decider_cancel, decider_end,
	decider_reset, decider_reserve, decider_token,  decider_charge};

/* ---- the settler: settles in the table, at the time of the last decision ---- */

static struct wr_resp_wait *settler_begin(struct wr_resp_host *host)
{
	(void)host;
	decider_open++;
	return calloc(1, sizeof(struct wr_resp_wait));
}

static void settler_end(struct wr_resp_host *host, struct wr_resp_wait *wait)
{
	(void)host;
	free(wait);
	decider_open--;
}

static void settler_settle(struct wr_resp_host *host, struct wr_resp_wait *wait,
			   enum wr_settle_action action, int64_t actual, struct weir_str token)
{
	struct wr_reservation reservation;
	struct wr_settle_order order = {.action = action, .actual = actual};
	void *memory = malloc(weir_ask_size());
	struct weir_ask *ask;

	if (wr_reservation_read(&reservation, host->engine, token, decider_now_ns) != 0) {
		wait->settle.word = "unknown";
		wait->settle.unknown = true;
	} else if (reservation.fleet) {
		wait->settle.error = "Redis is unavailable";
	} else {
		order.claim =
			wr_reservation_claim(&reservation, host->engine, action, decider_now_ns);
		wait->settle.word = order.claim == WR_CLAIM_ALREADY ? "already" : "settled";
		if (order.claim != WR_CLAIM_ALREADY &&
		    wr_reservation_restore(&reservation, memory, weir_ask_size(), host->engine,
					   &ask) == 0) {
			wr_reservation_settle(&reservation, ask, &order, decider_now_ns);
			wait->settle.refunded = wr_ask_settled_units(ask, &wait->settle.charged);
			weir_ask_done(ask);
		}
	}
	free(memory);
	wr_resp_settled(wait);
}

static void settler_leave(struct wr_resp_host *host, struct wr_resp_wait *wait)
{
	(void)host;
	(void)wait;
}

static const struct wr_resp_settler standin_settler = {settler_begin, settler_end, settler_settle,
						       settler_leave};

#endif
