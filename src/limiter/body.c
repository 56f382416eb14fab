/* weir_ask_body: writes the body of a refusal as a problem document, as text or as HTML. */
#include "limiter/ban.h"
#include "limiter/policy.h"
#include "limiter/text.h"
#include "rules/civil.h"

#define PROBLEM_TYPES "https://iana.org/assignments/http-problem-types"
#define QUOTA_EXCEEDED PROBLEM_TYPES "#quota-exceeded"
#define ABNORMAL_USAGE PROBLEM_TYPES "#abnormal-usage-detected"

typedef void (*escape_fn)(struct wr_limiter_text *text, struct weir_str piece);

/* The members type, title and detail of a problem document (RFC 9457). */
struct problem {
	struct weir_str type;
	struct weir_str title;
	struct weir_str detail;
};

static struct problem problem_of(const struct weir_ask *ask)
{
	if (ask->denied)
		return (struct problem){
			WR_STR("about:blank"), WR_STR("Forbidden"),
			WR_STR("A value that the rules require is missing from the request.")};
	if (ask->unreadable)
		return (struct problem){
			WR_STR("about:blank"), WR_STR("Bad Request"),
			WR_STR("The request target is malformed, or the request has "
			       "too many or too long parts.")};
	if (ask->crowded)
		return (struct problem){WR_STR("about:blank"), WR_STR("Too Many Requests"),
					WR_STR("More limits apply to the request than can be "
					       "counted.")};
	if (wr_ask_banned_until(ask))
		return (struct problem){WR_STR(ABNORMAL_USAGE), WR_STR("Too Many Requests"),
					WR_STR("This client is banned")};
	return (struct problem){WR_STR(QUOTA_EXCEEDED), WR_STR("Too Many Requests"),
				WR_STR("A rate limit was exceeded.")};
}

/* Writes the names of the limits that refused: around[0] before each name, around[2] after it, and
 * around[1] between two names. */
static void put_violated(const struct weir_ask *ask, struct wr_limiter_text *text, escape_fn escape,
			 struct weir_str around[3])
{
	bool any = false;

	for (uint8_t i = 0; i < ask->need_count; i++) {
		const struct wr_ask_need *need = &ask->needs[i];
		char name[WR_POLICY_NAME], ascii[2 * WR_POLICY_NAME];
		struct wr_limiter_text plain = {ascii, sizeof ascii, 0};

		if (need->same_as != i || !wr_ask_need_is_shown(need) || need->need.cost < 0 ||
		    wr_ask_need_decision(ask, need)->admitted)
			continue;
		for (size_t at = 0, len = wr_policy_name(need, name); at < len; at++)
			wr_limiter_text_char(
				&plain,
				(char)(name[at] >= ' ' && name[at] <= '~' ? name[at] : '?'));
		if (any)
			wr_limiter_text_put(text, around[1]);
		wr_limiter_text_put(text, around[0]);
		escape(text, (struct weir_str){ascii, plain.len});
		wr_limiter_text_put(text, around[2]);
		any = true;
	}
}

static void put_detail(const struct weir_ask *ask, struct wr_limiter_text *text, escape_fn escape)
{
	uint64_t until_ns = wr_ask_banned_until(ask);
	char time[WR_CIVIL_TIME];

	escape(text, problem_of(ask).detail);
	if (until_ns == WEIR_NEVER)
		wr_limiter_text_put(text, WR_STR(" permanently."));
	else if (until_ns) {
		wr_limiter_text_put(text, WR_STR(" until "));
		wr_limiter_text_put(text, wr_civil_time(until_ns, time));
		wr_limiter_text_char(text, '.');
	}
	if (ask->why_not) {
		wr_limiter_text_put(text, WR_STR(" It could not be queued for later delivery ("));
		escape(text, wr_str(ask->why_not));
		wr_limiter_text_put(text, WR_STR(")."));
	}
	if (ask->retry_after_ns != WEIR_NEVER) {
		wr_limiter_text_put(text, WR_STR(" Try again in "));
		wr_limiter_text_number(text, wr_limiter_wait_seconds(ask->retry_after_ns));
		wr_limiter_text_put(text, WR_STR(" s."));
	}
}

static void put_problem(const struct weir_ask *ask, struct wr_limiter_text *text, uint32_t status)
{
	struct weir_str around[3] = {WR_STR("\""), WR_STR(","), WR_STR("\"")};
	uint64_t until_ns = wr_ask_banned_until(ask);
	struct problem problem = problem_of(ask);
	char time[WR_CIVIL_TIME];

	wr_limiter_text_put(text, WR_STR("{\"type\":\""));
	wr_limiter_text_json(text, problem.type);
	wr_limiter_text_put(text, WR_STR("\",\"title\":\""));
	wr_limiter_text_json(text, problem.title);
	wr_limiter_text_put(text, WR_STR("\",\"status\":"));
	wr_limiter_text_number(text, status);
	wr_limiter_text_put(text, WR_STR(",\"detail\":\""));
	put_detail(ask, text, wr_limiter_text_json);
	wr_limiter_text_put(text, WR_STR("\",\"violated-policies\":["));
	put_violated(ask, text, wr_limiter_text_json, around);
	wr_limiter_text_char(text, ']');
	if (until_ns && until_ns != WEIR_NEVER) {
		wr_limiter_text_put(text, WR_STR(",\"banned-until\":\""));
		wr_limiter_text_put(text, wr_civil_time(until_ns, time));
		wr_limiter_text_char(text, '"');
	}
	if (ask->why_not) {
		wr_limiter_text_put(text, WR_STR(",\"not-deferred\":\""));
		wr_limiter_text_json(text, wr_str(ask->why_not));
		wr_limiter_text_char(text, '"');
	}
	wr_limiter_text_put(text, WR_STR("}\n"));
}

static void put_sentence(const struct weir_ask *ask, struct wr_limiter_text *text, escape_fn escape)
{
	struct weir_str around[3] = {WR_STR(""), WR_STR(", "), WR_STR("")};
	size_t before;

	put_detail(ask, text, escape);
	before = text->len;
	wr_limiter_text_put(text, WR_STR(" Limit: "));
	put_violated(ask, text, escape, around);
	if (text->len == before + sizeof " Limit: " - 1)
		text->len = before;
	else
		wr_limiter_text_char(text, '.');
}

static void put_html(const struct weir_ask *ask, struct wr_limiter_text *text, uint32_t status)
{
	struct problem problem = problem_of(ask);

	wr_limiter_text_put(
		text, WR_STR("<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">"
			     "<title>"));
	wr_limiter_text_number(text, status);
	wr_limiter_text_char(text, ' ');
	wr_limiter_text_html(text, problem.title);
	wr_limiter_text_put(text, WR_STR("</title></head>\n<body><h1>"));
	wr_limiter_text_html(text, problem.title);
	wr_limiter_text_put(text, WR_STR("</h1><p>"));
	put_sentence(ask, text, wr_limiter_text_html);
	wr_limiter_text_put(text, WR_STR("</p></body></html>\n"));
}

/* Writes the `response` of the rule. Returns false if the rule has no `response`, or if its
 * `response` has neither a body nor a content type. */
static bool put_response(const struct weir_ask *ask, struct wr_limiter_text *text,
			 struct weir_str *content_type)
{
	const struct wr_rules_response *response = wr_ask_response(ask);

	if (!response || (!response->body.len && !response->content_type.len))
		return false;
	wr_limiter_text_put(text, response->body);
	*content_type = response->content_type.len ? response->content_type
						   : WR_STR("text/plain; charset=utf-8");
	return true;
}

int weir_ask_body(const struct weir_ask *ask, int type, char *body, size_t cap,
		  struct weir_str *content_type)
{
	struct wr_limiter_text text = {body, cap, 0};
	struct weir_result result = {.size = sizeof result};

	if (!wr_ask_ok(ask) || (!body && cap) || !content_type || !wr_ask_refused(ask))
		return WEIR_EINVAL;
	if (put_response(ask, &text, content_type))
		return (int)text.len;
	weir_ask_result(ask, &result);
	if (type == WEIR_BODY_TEXT) {
		*content_type = WR_STR("text/plain; charset=utf-8");
		put_sentence(ask, &text, wr_limiter_text_put);
		wr_limiter_text_char(&text, '\n');
	} else if (type == WEIR_BODY_HTML) {
		*content_type = WR_STR("text/html; charset=utf-8");
		put_html(ask, &text, result.http_status);
	} else {
		*content_type = WR_STR("application/problem+json");
		put_problem(ask, &text, result.http_status);
	}
	return (int)text.len;
}
