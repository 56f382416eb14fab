/* Reads the filter of /v1/queue/… from a query or a JSON body. Called by queue.c. */
#include <stdio.h>
#include <string.h>

#include "serve/admin/queue.h"

#include "base/assert.h"

static bool read_key(struct weir_str text, uint8_t key[WR_LINE_KEY_BYTES])
{
	if (text.len != 2 * WR_LINE_KEY_BYTES)
		return false;
	for (size_t i = 0; i < WR_LINE_KEY_BYTES; i++) {
		int high = wr_hex(text.ptr[2 * i]), low = wr_hex(text.ptr[2 * i + 1]);

		if (high < 0 || low < 0)
			return false;
		key[i] = (uint8_t)(high << 4 | low);
	}
	return true;
}

/* Reads the name of a state. "waiting" includes the requests that are being delivered. */
static bool read_state(struct weir_str text, uint8_t *states)
{
	for (int i = 0; i < WR_QUEUE_REQUEST_STATE_COUNT; i++)
		if (wr_str_equal(text, wr_str(wr_queue_request_state_name(
					       (enum wr_queue_request_state)i)))) {
			*states = (uint8_t)(1u << i);
			if (i == WR_QUEUE_REQUEST_WAITING)
				*states |= 1u << WR_QUEUE_REQUEST_DELIVERING;
			return true;
		}
	return false;
}

static bool read_number(struct weir_str text, uint64_t *number)
{
	*number = 0;
	for (size_t i = 0; i < text.len; i++) {
		unsigned digit = (unsigned char)text.ptr[i] - (unsigned)'0';

		if (digit > 9 || *number > (UINT64_MAX - digit) / 10)
			return false;
		*number = *number * 10 + digit;
	}
	return text.len > 0;
}

bool wr_admin_queue_is_filtered(const struct wr_queue_filter *filter)
{
	return filter->key || filter->states || filter->rule.len;
}

/* Reads one member of the query or the body. `text` is its value; a number is passed as its
 * digits. */
static int read_value(struct wr_admin_queue_page *page, const char *name, struct weir_str text,
		      struct wr_problem *problem)
{
	struct wr_queue_filter *filter = &page->job.page.filter;
	uint64_t number = 0;

	if (strcmp(name, "rule") == 0 && text.len <= WR_DEFER_NAME_MAX) {
		snprintf(page->rule, sizeof page->rule, "%.*s", (int)text.len, text.ptr);
		filter->rule = (struct weir_str){page->rule, text.len};
		return 0;
	}
	if (strcmp(name, "state") == 0)
		return read_state(text, &filter->states)
			       ? 0
			       : wr_problem(problem, WR_BAD_VALUE,
					    "state has to be waiting, delivering, delivered, "
					    "dead or dropped");
	if (strcmp(name, "key") == 0) {
		filter->key = page->key;
		return read_key(text, page->key)
			       ? 0
			       : wr_problem(problem, WR_BAD_VALUE,
					    "key has to be 32 hexadecimal digits, as in a list");
	}
	if (!read_number(text, &number))
		return wr_problem(problem, WR_BAD_VALUE, "%s is not a number", name);
	if (strcmp(name, "id") == 0)
		filter->id = number;
	else if (strcmp(name, "after") == 0)
		page->job.page.after = number;
	else if (number < 1 || number > WR_QUEUE_PAGE_MAX)
		return wr_problem(problem, WR_BAD_VALUE, "count has to be from 1 to %u",
				  WR_QUEUE_PAGE_MAX);
	else
		page->job.page.max = (uint32_t)number;
	return 0;
}

int wr_admin_queue_read_query(struct wr_admin_queue_page *page, struct wr_problem *problem)
{
	static const char *const names[] = {"rule", "state", "key", "id", "after", "count"};

	wr_assert_magic(page->request, WR_HTTP_REQUEST_MAGIC);
	for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
		const char *text = wr_serve_http_argument(page->request, names[i]);

		if (text && read_value(page, names[i], wr_str(text), problem) != 0)
			return -1;
	}
	return 0;
}

static int read_member(struct wr_admin_queue_page *page, const char *name, const json_t *value,
		       struct wr_problem *problem)
{
	static const char members[] = "id, rule, state, key, all, after, count";
	struct wr_wire_json_at at = {NULL, name, 0};
	struct weir_str text;
	char digits[24];
	int64_t number;

	if (strcmp(name, "rule") == 0 || strcmp(name, "state") == 0 || strcmp(name, "key") == 0) {
		if (wr_wire_json_get_text(value, &at, &text, problem) != 0)
			return -1;
		return read_value(page, name, text, problem);
	}
	if (strcmp(name, "id") != 0 && strcmp(name, "after") != 0 && strcmp(name, "count") != 0)
		return wr_wire_json_unknown(&at, members, problem);
	if (wr_wire_json_get_int(value, &at, 0, INT64_MAX, &number, problem) != 0)
		return -1;
	snprintf(digits, sizeof digits, "%lld", (long long)number);
	return read_value(page, name, wr_str(digits), problem);
}

int wr_admin_queue_read_order(struct wr_admin_queue_page *page, const json_t *document,
			      struct wr_problem *problem)
{
	const struct wr_queue_filter *filter = &page->job.page.filter;
	bool all = false;
	const char *name;
	json_t *value;

	if (wr_wire_json_need_object(document, NULL, problem) != 0)
		return -1;
	json_object_foreach((json_t *)document, name, value) {
		struct wr_wire_json_at at = {NULL, name, 0};

		if (strcmp(name, "all") == 0 ? wr_wire_json_get_bool(value, &at, &all, problem) != 0
					     : read_member(page, name, value, problem) != 0)
			return -1;
	}
	if (all || filter->id || wr_admin_queue_is_filtered(filter))
		return 0;
	return wr_problem_at(problem, WR_MISSING_MEMBER, NULL,
			     "\"id\", \"rule\", \"state\", \"key\" or \"all\": true is required");
}
