#include "redis/sentinel.h"

#include "base/str.h"

int wr_sentinel_master(const redisReply *reply, const struct wr_endpoint *asked,
		       struct wr_endpoint *master)
{
	if (!reply)
		return -1;
	if (reply->type == REDIS_REPLY_NIL)
		return 0;
	return wr_place_read(reply, 0, asked, master) ? 1 : -1;
}

/* The value behind a name in an array of names and values. */
static const redisReply *value_of(const redisReply *fields, const char *name)
{
	if (!fields || fields->type != REDIS_REPLY_ARRAY)
		return NULL;
	for (size_t i = 0; i + 1 < fields->elements; i += 2)
		if (wr_str_equal(wr_reply_text(fields->element[i]), wr_str(name)))
			return fields->element[i + 1];
	return NULL;
}

static bool is_listed(const struct wr_endpoint_list *list, const struct wr_endpoint *at)
{
	for (size_t i = 0; i < list->count; i++)
		if (wr_endpoint_equal(&list->items[i], at))
			return true;
	return false;
}

static void add_one(const redisReply *fields, const struct wr_endpoint *asked,
		    struct wr_endpoint_list *list)
{
	redisReply *pair[2] = {(redisReply *)value_of(fields, "ip"),
			       (redisReply *)value_of(fields, "port")};
	redisReply place = {.type = REDIS_REPLY_ARRAY, .elements = 2, .element = pair};
	struct wr_endpoint at;

	if (list->count < WR_ENDPOINTS_MAX && wr_place_read(&place, 0, asked, &at) &&
	    !is_listed(list, &at))
		list->items[list->count++] = at;
}

void wr_sentinel_others(const redisReply *reply, const struct wr_endpoint *asked,
			struct wr_endpoint_list *list)
{
	if (!reply || reply->type != REDIS_REPLY_ARRAY)
		return;
	for (size_t i = 0; i < reply->elements; i++)
		add_one(reply->element[i], asked, list);
}

bool wr_role_may_be_master(const redisReply *reply)
{
	const redisReply *role = wr_reply_at(reply, 0);

	return !wr_reply_is_text(role) || wr_str_equal(wr_reply_text(role), WR_STR("master"));
}

struct weir_str wr_info_field(struct weir_str info, const char *name)
{
	struct weir_str wanted = wr_str(name);

	while (info.len) {
		struct weir_str line = wr_str_first(info, wr_str_find(info, '\n'));

		info = wr_str_from(info, line.len < info.len ? line.len + 1 : line.len);
		if (line.len && line.ptr[line.len - 1] == '\r')
			line.len--;
		if (wr_str_begins(line, wanted) && line.len > wanted.len &&
		    line.ptr[wanted.len] == ':')
			return wr_str_from(line, wanted.len + 1);
	}
	return WR_STR("");
}
