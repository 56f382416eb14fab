/* Finds out what the columns of a CSV mean. With a header line, the names of the columns tell. Apache
 * can write values separated by commas without a header line. Then the values of the first lines
 * tell: most values of a column are times, addresses, methods and so on. */
#include <stdio.h>

#include "base/str.h"
#include "lab/log/csv.h"

#define SAMPLE_LINES 64u

/* How many of the first values of a column look like this. */
struct looks {
	uint32_t time, address, method, path, status, domain, agent, url;
	uint32_t no_query; /* neither empty nor a query */
};

/* ---- by names ---- */

/* The user may name columns by their numbers, beginning with 1. */
static struct wr_lab_meaning meaning_of_column(struct wr_lab_parser *parser, uint32_t column,
					       struct weir_str name)
{
	struct wr_lab_meaning meaning = wr_lab_fields_find(parser->fields, name);
	char number[16];

	if (meaning.means == WR_LAB_MEANS_NOTHING) {
		snprintf(number, sizeof number, "%u", column + 1);
		meaning = wr_lab_fields_find(parser->fields, wr_str(number));
	}
	if (meaning.means == WR_LAB_MEANS_HEADER)
		meaning.header = wr_lab_fields_keep(parser->fields, &meaning);
	return meaning;
}

static uint32_t count_meaning(const struct wr_lab_csv *csv, enum wr_lab_means means)
{
	uint32_t found = 0;

	for (uint32_t i = 0; i < csv->count; i++)
		found += csv->columns[i].means == means;
	return found;
}

static bool any_time(struct wr_lab_parser *parser, const struct weir_str *cells, uint32_t count)
{
	struct wr_lab_time time;

	for (uint32_t i = 0; i < count; i++)
		if (wr_lab_time_read(cells[i], &parser->day, &time))
			return true;
	return false;
}

/* Takes the first line as the names of the columns. A header line contains no time. */
static void read_names(struct wr_lab_parser *parser, const struct weir_str *cells, uint32_t count)
{
	struct wr_lab_csv *csv = &parser->csv;
	bool header = !any_time(parser, cells, count);

	csv->count = count;
	for (uint32_t i = 0; i < count; i++)
		csv->columns[i] = meaning_of_column(parser, i, header ? cells[i] : WR_STR(""));
	csv->skip = header;
}

/* ---- by values ---- */

static bool is_method(struct weir_str text)
{
	static const char *const methods[] = {"GET",   "POST",    "HEAD",    "PUT",
					      "PATCH", "OPTIONS", "CONNECT", "DELETE"};

	for (size_t i = 0; i < sizeof methods / sizeof *methods; i++)
		if (wr_str_equal(text, wr_str(methods[i])))
			return true;
	return false;
}

static bool is_status(struct weir_str text)
{
	return text.len == 3 && text.ptr[0] >= '1' && text.ptr[0] <= '5' && text.ptr[1] >= '0' &&
	       text.ptr[1] <= '9' && text.ptr[2] >= '0' && text.ptr[2] <= '9';
}

/* A name with a point, of letters, digits and hyphens, that does not end with a digit. */
static bool is_domain(struct weir_str text)
{
	for (size_t i = 0; i < text.len; i++) {
		char c = wr_lower(text.ptr[i]);

		if (!((c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '.'))
			return false;
	}
	return wr_str_has(text, '.') && wr_lower(text.ptr[text.len - 1]) >= 'a';
}

/* A product and its version, such as "curl/8.0". */
static bool is_agent(struct weir_str text)
{
	size_t slash = wr_str_find(text, '/');

	return slash > 0 && slash + 1 < text.len && text.ptr[slash + 1] >= '0' &&
	       text.ptr[slash + 1] <= '9' && !wr_str_begins(text, WR_STR("HTTP/"));
}

static void look(struct wr_lab_parser *parser, struct looks *looks, struct weir_str cell)
{
	struct wr_address address;
	struct wr_lab_time time;

	looks->time += wr_lab_time_read(cell, &parser->day, &time) &&
		       time.ns > 100000000 * WR_LAB_SECOND_NS;
	looks->address += wr_address_parse(cell, &address) == 0;
	looks->method += is_method(cell);
	looks->path += cell.len && cell.ptr[0] == '/';
	looks->no_query += cell.len && cell.ptr[0] != '?';
	looks->status += is_status(cell);
	looks->domain += is_domain(cell);
	looks->agent += is_agent(cell);
	looks->url +=
		wr_str_begins(cell, WR_STR("http://")) || wr_str_begins(cell, WR_STR("https://"));
}

/* Gives the column the meaning, unless the user or the guess has given the meaning to a column or
 * the column a meaning. */
static void give(struct wr_lab_csv *csv, uint32_t column, struct wr_lab_meaning meaning)
{
	if (column < csv->count && csv->columns[column].means == WR_LAB_MEANS_NOTHING &&
	    (meaning.means == WR_LAB_MEANS_HEADER || count_meaning(csv, meaning.means) == 0))
		csv->columns[column] = meaning;
}

/* Returns the column with the highest count of a member of struct looks, or UINT32_MAX. */
static uint32_t best(const struct looks *looks, uint32_t count, size_t member, uint32_t least)
{
	uint32_t found = UINT32_MAX, most = least ? least - 1 : 0;

	for (uint32_t i = 0; i < count; i++) {
		uint32_t value = *(const uint32_t *)((const char *)&looks[i] + member);

		if (value > most) {
			most = value;
			found = i;
		}
	}
	return found;
}

/* Returns the column that looks like a status and is nearest to the method. */
static uint32_t find_status(const struct looks *looks, uint32_t count, uint32_t method,
			    uint32_t lines)
{
	uint32_t found = UINT32_MAX, nearest = UINT32_MAX;

	for (uint32_t i = 0; i < count; i++) {
		uint32_t distance = i > method ? i - method : method - i;

		if (looks[i].status * 10 >= lines * 9 && distance < nearest) {
			nearest = distance;
			found = i;
		}
	}
	return found;
}

static void guess_columns(struct wr_lab_csv *csv, const struct looks *looks, uint32_t lines)
{
#define BEST(member, least) best(looks, csv->count, offsetof(struct looks, member), least)
#define MEANS(meaning) ((struct wr_lab_meaning){.means = WR_LAB_MEANS_##meaning, .rank = 1})
	uint32_t most = lines / 2 + 1, method = BEST(method, most), path = BEST(path, most);
	struct wr_lab_meaning agent = MEANS(HEADER), referer = MEANS(HEADER);

	agent.header = WR_STR("user-agent");
	referer.header = WR_STR("referer");
	give(csv, BEST(time, most), MEANS(TIME));
	give(csv, BEST(address, most), MEANS(CLIENT));
	give(csv, BEST(domain, most), MEANS(HOST));
	if (method < csv->count)
		give(csv, find_status(looks, csv->count, method, lines), MEANS(STATUS));
	give(csv, method, MEANS(METHOD));
	give(csv, path, MEANS(TARGET));
	if (path < csv->count && path + 1 < csv->count && looks[path + 1].no_query == 0)
		give(csv, path + 1, MEANS(QUERY));
	give(csv, BEST(agent, 1), agent);
	give(csv, BEST(url, 1), referer);
#undef BEST
#undef MEANS
}

/* ---- the first lines ---- */

static struct weir_str take_line(struct weir_str *head, char *copy)
{
	struct weir_str line = wr_str_first(*head, wr_str_find(*head, '\n'));

	*head = wr_str_from(*head, line.len + (line.len < head->len));
	if (line.len && line.ptr[line.len - 1] == '\r')
		line.len--;
	if (line.len)
		memcpy(copy, line.ptr, line.len);
	return (struct weir_str){copy, line.len};
}

static void read_values(struct wr_lab_parser *parser, struct weir_str head, char *copy)
{
	struct weir_str cells[WR_LAB_COLUMNS];
	struct looks looks[WR_LAB_COLUMNS] = {{0}};
	uint32_t lines = 0;

	while (head.len && lines < SAMPLE_LINES) {
		size_t len = take_line(&head, copy).len;
		uint32_t count = wr_lab_csv_split(copy, len, true, cells);

		if (len == 0 || count == 0)
			continue;
		lines++;
		for (uint32_t i = 0; i < count && i < parser->csv.count; i++)
			look(parser, &looks[i], cells[i]);
	}
	guess_columns(&parser->csv, looks, lines);
}

bool wr_lab_csv_start(struct wr_lab_parser *parser, struct weir_str head, char *copy)
{
	struct weir_str cells[WR_LAB_COLUMNS], rest = head;
	size_t len = take_line(&rest, copy).len;
	uint32_t count = wr_lab_csv_split(copy, len, false, cells);

	parser->csv = (struct wr_lab_csv){.count = 0};
	if (count < 2 && !wr_str_has(wr_str_first(head, len), ','))
		return false;
	read_names(parser, cells, count);
	if (parser->csv.skip)
		return count_meaning(&parser->csv, WR_LAB_MEANS_TIME) > 0;
	parser->csv.escapes = true;
	read_values(parser, head, copy);
	return count_meaning(&parser->csv, WR_LAB_MEANS_TIME) > 0;
}
