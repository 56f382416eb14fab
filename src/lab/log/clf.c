/* Reads lines of the common log format of Apache and nginx, and of the formats that extend it:
 *
 *   [host[:port] ]client ident user [time] "request" status bytes["referer" "user-agent" …]
 *
 * The usual line, without escapes and without a user, takes the short way through every step. */
#include "base/str.h"
#include "lab/log/value.h"

#define CLF_TIME_BYTES 26u /* "20/Feb/2016:00:00:45 -0500" */
#define STATUS_MAX 999u

/* The part of a line that is still to read. */
struct clf_rest {
	char *at, *end;
};

/* ---- steps ---- */

/* Returns the first quote or backslash in [at, end), or `end`. */
static char *find_quote(char *at, char *end)
{
	for (; at < end; at += 64) {
		uint64_t found = wr_lab_match64(at, '"', '\\');

		if (found) {
			at += __builtin_ctzll(found);
			return at < end ? at : end;
		}
	}
	return end;
}

static bool ends_field(const struct clf_rest *rest, const char *at)
{
	return at == rest->end || *at == ' ';
}

/* Reads a quoted text and decodes its escapes. A quote inside the text, which some servers do not
 * escape, is not followed by a blank. */
static bool take_quoted(struct clf_rest *rest, struct weir_str *text)
{
	char *start = rest->at + 1, *at = start;
	bool escaped = false;

	if (rest->at == rest->end || *rest->at != '"')
		return false;
	for (;;) {
		at = find_quote(at, rest->end);
		if (at == rest->end)
			return false;
		if (*at == '"' && ends_field(rest, at + 1))
			break;
		escaped |= *at == '\\';
		at += *at == '\\' && rest->end - at > 1 ? 2 : 1;
	}
	text->ptr = start;
	text->len = (size_t)(at - start);
	if (escaped)
		text->len = wr_lab_unescape(start, text->len);
	rest->at = at + 1;
	return true;
}

static bool take_blank(struct clf_rest *rest)
{
	if (rest->at == rest->end || *rest->at != ' ')
		return false;
	rest->at++;
	return true;
}

/* Reads up to the next blank or the end. */
static struct weir_str take_word(struct clf_rest *rest)
{
	struct weir_str word = {rest->at, 0};

	while (rest->at < rest->end && *rest->at != ' ')
		rest->at++;
	word.len = (size_t)(rest->at - word.ptr);
	return word;
}

/* Reads a number or "-", which counts as 0. Numbers above 2^63 stay at this maximum. */
static bool take_number(struct clf_rest *rest, uint64_t *number)
{
	const char *start = rest->at;
	unsigned digits = wr_lab_digits(start, number);

	if (digits && start + digits <= rest->end) {
		rest->at += digits;
		return ends_field(rest, rest->at);
	}
	*number = 0;
	if (rest->at < rest->end && *rest->at == '-') {
		rest->at++;
		return ends_field(rest, rest->at);
	}
	for (; rest->at < rest->end && *rest->at >= '0' && *rest->at <= '9'; rest->at++)
		if (*number <= (UINT64_MAX >> 1) / 10 - 1)
			*number = *number * 10 + (uint64_t)(*rest->at - '0');
	return rest->at > start && ends_field(rest, rest->at);
}

static struct weir_str between(const char *start, const char *end)
{
	return (struct weir_str){start, (size_t)(end - start)};
}

/* ---- the fields before the request ---- */

/* Reads "[time]" at `at`. Sets rest->at behind it. */
static bool take_time(struct wr_lab_parser *parser, struct clf_rest *rest, char *at,
		      struct wr_lab_time *time)
{
	char *end = at + 1 + CLF_TIME_BYTES;

	if (rest->end - at < (ptrdiff_t)CLF_TIME_BYTES + 2 || *end != ']') {
		end = memchr(at, ']', (size_t)(rest->end - at));
		if (!end)
			return false;
	}
	if (!wr_lab_time_clf(between(at + 1, end), &parser->day, time) &&
	    !wr_lab_time_read(between(at + 1, end), &parser->day, time))
		return false;
	rest->at = end + 1;
	return true;
}

/* Finds the time of a line: the first " [" or the start of the line, if a time follows. Returns the
 * place of the bracket, or NULL. */
static char *find_time(struct wr_lab_parser *parser, struct clf_rest *rest,
		       struct wr_lab_time *time)
{
	char *start = rest->at, *at = start;

	/* The usual line is "192.0.2.7 - - [". */
	at += __builtin_ctz(wr_lab_match16(at, ' ') | 1u << 15) + 5;
	if (at < rest->end && memcmp(at - 5, " - - [", 6) == 0 && take_time(parser, rest, at, time))
		return at;
	at = start;
	while ((at = memchr(at, '[', (size_t)(rest->end - at))) != NULL) {
		if (at > start && at[-1] == ' ' && take_time(parser, rest, at, time))
			return at;
		at++;
	}
	return NULL;
}

static void set_user(struct wr_lab_slot *slot, struct weir_str user)
{
	user = wr_str_trim(user);
	if (user.len != 1 || user.ptr[0] != '-')
		slot->record.user = user;
}

/* Reads "[host[:port] ]client ident user" before the time. A user may contain blanks. */
static const char *read_head(struct wr_lab_parser *parser, struct weir_str head,
			     struct wr_lab_slot *slot)
{
	struct weir_str host, client;
	size_t blank;

	if (parser->format == WR_LAB_VHOST) {
		blank = wr_str_find(head, ' ');
		host = wr_str_first(head, blank);
		head = wr_str_from(head, blank < head.len ? blank + 1 : blank);
		slot->record.host = wr_str_first(host, wr_str_find(host, ':'));
	}
	blank = wr_str_find(head, ' ');
	client = wr_str_first(head, blank);
	if (client.len == 0)
		return "no client";
	if (parser->format == WR_LAB_VHOST &&
	    (blank == head.len || wr_str_equal(client, WR_STR("-"))))
		return "no virtual host";
	wr_lab_slot_client(slot, client, &parser->client);
	head = wr_str_from(head, blank < head.len ? blank + 1 : blank);
	blank = wr_str_find(head, ' ');
	set_user(slot, wr_str_from(head, blank));
	return NULL;
}

/* ---- the fields behind the length ---- */

/* Reads "0.123", "17ms", "rt=0.123" or "request_time=0.123" as the duration. Other numbers stay
 * unread: nothing tells whether 17 are bytes, milliseconds or seconds. */
static void read_duration(struct wr_lab_slot *slot, struct weir_str word)
{
	size_t equals = wr_str_find(word, '=');
	struct weir_str name = wr_str_first(word, equals);

	if (slot->record.duration_ns)
		return;
	if (equals < word.len) {
		if (!wr_str_equal(name, WR_STR("rt")) &&
		    !wr_str_equal(name, WR_STR("request_time")))
			return;
		word = wr_str_from(word, equals + 1);
	}
	if (wr_str_has(word, '.') || wr_str_ends(word, WR_STR("ms")))
		slot->record.duration_ns = wr_lab_duration(word, 0);
}

/* Adds X-Forwarded-For if the text is a list of addresses. */
static void read_forwarded(struct wr_lab_slot *slot, struct weir_str text)
{
	struct weir_str first = wr_str_trim(wr_str_first(text, wr_str_find(text, ',')));
	struct wr_address address;

	if (wr_address_parse(first, &address) == 0)
		wr_lab_slot_header(slot, WR_STR("x-forwarded-for"), text);
}

/* Reads Referer, User-Agent and further fields. Fields that cannot be read are left out. */
static void read_tail(struct clf_rest *rest, struct wr_lab_slot *slot)
{
	unsigned quoted = 0;
	struct weir_str text;

	while (take_blank(rest)) {
		if (rest->at == rest->end || *rest->at != '"') {
			read_duration(slot, take_word(rest));
			continue;
		}
		if (!take_quoted(rest, &text))
			return;
		if (quoted == 0)
			wr_lab_slot_header(slot, WR_STR("referer"), text);
		else if (quoted == 1)
			wr_lab_slot_header(slot, WR_STR("user-agent"), text);
		else
			read_forwarded(slot, text);
		quoted++;
	}
}

/* ---- the line ---- */

const char *wr_lab_clf_read(struct wr_lab_parser *parser, char *line, size_t len,
			    struct wr_lab_slot *slot)
{
	struct clf_rest rest = {line, line + len};
	struct wr_lab_time time;
	struct weir_str request;
	const char *reason;
	uint64_t status;
	char *bracket = find_time(parser, &rest, &time);

	if (!bracket)
		return "no time";
	slot->record.time_ns = time.ns;
	slot->whole = time.whole;
	reason = read_head(parser, between(line, bracket - 1), slot);
	if (reason)
		return reason;
	if (!take_blank(&rest) || !take_quoted(&rest, &request))
		return "no request in quotes";
	wr_lab_slot_request(slot, request);
	if (!take_blank(&rest) || !take_number(&rest, &status) || status > STATUS_MAX)
		return "no status";
	slot->record.status = (uint32_t)status;
	if (!take_blank(&rest) || !take_number(&rest, &slot->record.bytes))
		return "no length";
	if (parser->format != WR_LAB_COMMON)
		read_tail(&rest, slot);
	return NULL;
}
