/* Prints deferred requests and the state of their queue as text. Called by queue.c. */
#include "cli/cli.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#include "cli/client/client.h"

static long long number(const json_t *from, const char *name)
{
	return (long long)json_integer_value(json_object_get(from, name));
}

static const char *text(const json_t *from, const char *name)
{
	const char *value = json_string_value(json_object_get(from, name));

	return value ? value : "";
}

/* ---- stats ---- */

static void print_refused(const json_t *refused)
{
	const char *reason;
	json_t *count;
	bool first = true;

	json_object_foreach((json_t *)refused, reason, count) {
		printf("%s%s %lld", first ? "not deferred " : ", ", reason,
		       (long long)json_integer_value(count));
		first = false;
	}
	if (!first)
		putchar('\n');
}

static void print_where(const json_t *queue)
{
	printf("queue       ");
	wr_cli_client_print(text(queue, "url"));
	if (strcmp(text(queue, "state"), "ok") != 0) {
		printf(", cannot store requests: ");
		wr_cli_client_print(text(queue, "trouble"));
	}
	printf("\ntarget      ");
	wr_cli_client_print(json_is_null(json_object_get(queue, "target"))
				    ? "another process delivers"
				    : text(queue, "target"));
	if (json_is_false(json_object_get(queue, "target_up")))
		printf(", unavailable");
	putchar('\n');
}

int wr_cli_queue_print_stats(const json_t *answer)
{
	const json_t *queue = json_object_get(answer, "queue");
	const json_t *totals = json_object_get(queue, "totals");
	char age[WR_CLIENT_SPAN];

	if (!json_is_object(queue)) {
		puts("there is no queue; start weir serve with --queue, or a gateway whose rules "
		     "defer");
		return WR_EXIT_NO;
	}
	print_where(queue);
	printf("waiting     %lld of %lld, in %lld bytes, of %lld %s", number(queue, "waiting"),
	       number(queue, "max_requests"), number(queue, "bytes"), number(queue, "keys"),
	       number(queue, "keys") == 1 ? "key" : "keys");
	if (number(queue, "waiting") + number(queue, "delivering"))
		printf(", the oldest for %s",
		       wr_cli_client_span(wr_cli_client_number(queue, "oldest"), age));
	printf("\ndelivering  %lld\ndead        %lld of %lld\n", number(queue, "delivering"),
	       number(queue, "dead"), number(queue, "max_dead"));
	printf("bytes       at most %lld, of one key %lld, and %lld of dead ones\n",
	       number(queue, "max_bytes"), number(queue, "max_line_bytes"),
	       number(queue, "max_dead_bytes"));
	printf("so far      %lld stored, %lld delivered, %lld attempts failed, %lld dead, %lld "
	       "dropped\n",
	       number(totals, "stored"), number(totals, "delivered"), number(totals, "retried"),
	       number(totals, "dead"), number(totals, "dropped"));
	print_refused(json_object_get(queue, "refused"));
	return WR_EXIT_YES;
}

/* ---- list ---- */

static void print_row(const json_t *request, double now)
{
	char age[WR_CLIENT_SPAN];
	double since = now - wr_cli_client_number(request, "accepted_at");

	printf("%8lld  %-10s %8lld  %10s  ", number(request, "id"), text(request, "state"),
	       number(request, "tries"), wr_cli_client_span(since > 0 ? since : 0, age));
	wr_cli_client_print(text(request, "method"));
	putchar(' ');
	wr_cli_client_print(text(request, "uri"));
	printf("  ");
	wr_cli_client_print(text(request, "rule"));
	if (text(request, "reason")[0]) {
		printf("  (");
		wr_cli_client_print(text(request, "reason"));
		putchar(')');
	}
	putchar('\n');
}

int wr_cli_queue_print_list(const json_t *answer)
{
	const json_t *list = json_object_get(answer, "requests");
	double now = (double)time(NULL);
	const json_t *each;
	size_t i;

	if (json_array_size(list) == 0)
		puts("none");
	else
		puts("      ID  STATE      ATTEMPTS         AGE  REQUEST");
	json_array_foreach(list, i, each) {
		print_row(each, now);
	}
	if (number(answer, "next"))
		printf("… more: --after %lld\n", number(answer, "next"));
	return WR_EXIT_YES;
}

/* ---- show ---- */

static void print_text(const char *title, const json_t *from, const char *name)
{
	if (!text(from, name)[0])
		return;
	printf("%-12s", title);
	wr_cli_client_print(text(from, name));
	putchar('\n');
}

static void print_time(const char *title, const json_t *from, const char *name)
{
	time_t at = (time_t)wr_cli_client_number(from, name);
	char stamp[40];
	struct tm local;

	if (!at)
		return;
	localtime_r(&at, &local);
	strftime(stamp, sizeof stamp, "%Y-%m-%d %H:%M:%S", &local);
	printf("%-12s%s\n", title, stamp);
}

static void print_fields(const json_t *fields)
{
	const json_t *field;
	size_t i;

	json_array_foreach(fields, i, field) {
		printf("  ");
		wr_cli_client_print(text(field, "name"));
		printf(": ");
		if (json_is_true(json_object_get(field, "sealed")))
			printf("(sealed)");
		else if (json_is_null(json_object_get(field, "value")))
			printf("(hidden)");
		else
			wr_cli_client_print(text(field, "value"));
		putchar('\n');
	}
}

/* Prints the body of a request. Control characters other than line ends and tabs become '?'. */
static void print_body(const json_t *request)
{
	const json_t *body = json_object_get(request, "body");
	long long len = number(request, "body_bytes");

	if (!json_is_string(body)) {
		printf("\n(%lld bytes, not shown: binary, too long, or hidden)\n", len);
		return;
	}
	if (len == 0)
		return;
	putchar('\n');
	for (const char *c = json_string_value(body); *c;) {
		size_t control = *c == '\n' || *c == '\t' ? 0 : wr_cli_client_control(c);

		putchar(control ? '?' : *c);
		c += control ? control : 1;
	}
	putchar('\n');
}

int wr_cli_queue_print_request(const json_t *answer)
{
	printf("request     %lld, %s", number(answer, "id"), text(answer, "state"));
	if (number(answer, "position"))
		printf(", %lld. of its key", number(answer, "position"));
	putchar('\n');
	print_text("rule", answer, "rule");
	print_text("key", answer, "key");
	print_time("accepted", answer, "accepted_at");
	print_time("due", answer, "due_at");
	print_time("expires", answer, "expires_at");
	print_time("finished", answer, "finished_at");
	printf("%-12s%lld of %lld\n", "attempts", number(answer, "tries"),
	       number(answer, "max_tries"));
	if (number(answer, "http_status"))
		printf("%-12s%lld\n", "status", number(answer, "http_status"));
	print_text("reason", answer, "reason");
	print_text("idempotency", answer, "idempotency_key");
	putchar('\n');
	wr_cli_client_print(text(answer, "method"));
	putchar(' ');
	wr_cli_client_print(text(answer, "uri"));
	putchar('\n');
	print_fields(json_object_get(answer, "fields"));
	print_body(answer);
	return WR_EXIT_YES;
}
