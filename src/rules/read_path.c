/* Reads path patterns: /v1/posts, /users/{id}, or /v1/ followed by a star. Patterns are written
 * without %-encoding. http_readings.c brings the paths of requests to the same form. */
#include "rules/read.h"

#include "rules/requests.h"

static bool report_bad_path(struct wr_load *load, const struct wr_yaml *value, const char *why)
{
	wr_rules_report(load, WR_D_bad_path, value, WR_ARGS(value->text, wr_str(why)));
	return false;
}

static bool is_name(struct weir_str name)
{
	for (size_t i = 0; i < name.len; i++) {
		char c = wr_lower(name.ptr[i]);

		if (!(c >= 'a' && c <= 'z') && !(c >= '0' && c <= '9') && c != '_' && c != '-')
			return false;
	}
	return name.len;
}

/* Reads one segment. Returns NULL on success, otherwise the text of the error. */
static const char *read_segment(struct weir_str text, struct wr_segment *segment)
{
	bool braces = wr_str_has(text, '{') || wr_str_has(text, '}');

	*segment = (struct wr_segment){.text = text};
	if (wr_str_equal(text, WR_STR(".")) || wr_str_equal(text, WR_STR("..")))
		return "it must not contain the segments . and ..";
	if (wr_str_has(text, '*'))
		return "* is allowed only as the last segment, as in /v1/*";
	if (!braces)
		return NULL;
	segment->text = wr_str_first(wr_str_from(text, 1), text.len < 2 ? 0 : text.len - 2);
	segment->capture = true;
	if (text.ptr[0] != '{' || text.ptr[text.len - 1] != '}' || !is_name(segment->text))
		return "a part such as {id} must be a whole segment, with letters, digits, _ or - "
		       "between the braces";
	return NULL;
}

static const char *check_shape(struct weir_str text)
{
	if (text.len == 0 || text.ptr[0] != '/')
		return "it must begin with /";
	if (wr_str_has(text, '?') || wr_str_has(text, '#'))
		return "it must not contain ? or #; match parameters with `from: query.NAME`";
	if (memmem(text.ptr, text.len, "//", 2))
		return "it must not contain //";
	if (wr_str_has(text, '%'))
		return "it must not contain %; write the characters without %-encoding";
	return NULL;
}

/* Returns false if segments[count] is a capture, such as {id}, and an earlier capture has the same
 * name. */
static bool is_new(const struct wr_segment *segments, uint16_t count)
{
	for (uint16_t i = 0; i < count; i++)
		if (segments[i].capture && segments[count].capture &&
		    wr_str_equal(segments[i].text, segments[count].text))
			return false;
	return true;
}

bool wr_read_path(struct wr_load *load, const struct wr_yaml *value, struct wr_path *path)
{
	struct weir_str rest = wr_load_copy(load, &load->rules->arena, value->text);
	struct wr_segment segments[WR_PATH_SEGMENTS_MAX];
	const char *why = check_shape(rest);
	unsigned captures = 0;

	*path = (struct wr_path){.text = rest};
	if (why)
		return report_bad_path(load, value, why);
	while (rest.len) {
		struct weir_str text = wr_str_from(rest, 1);

		text = wr_str_first(text, wr_str_find(text, '/'));
		rest = wr_str_from(rest, text.len + 1);
		if (text.len == 0)
			break; /* a slash at the end of a pattern has no meaning */
		if (rest.len == 0 && wr_str_equal(text, WR_STR("*"))) {
			path->rest = true;
			break;
		}
		if (path->count == WR_PATH_SEGMENTS_MAX)
			return report_bad_path(load, value, "it must have at most 64 segments");
		why = read_segment(text, &segments[path->count]);
		if (why)
			return report_bad_path(load, value, why);
		captures += segments[path->count].capture;
		if (captures > WR_CAPTURES_MAX || !is_new(segments, path->count))
			return report_bad_path(load, value,
					       "it must have at most 8 parts such as {id}, each "
					       "with a different name");
		path->count++;
	}
	if (path->count) {
		struct wr_segment *copy =
			wr_load_alloc(load, &load->rules->arena, path->count * sizeof *copy);

		memcpy(copy, segments, path->count * sizeof *copy);
		path->segments = copy;
	}
	return true;
}
