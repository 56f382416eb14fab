/* Responses: their memory, and looking up a field. */
#include <stdlib.h>

#include "client/engine.h"

struct wr_fetch_response *wr_fetch_response_make(const struct weir_client *client)
{
	struct wr_fetch_response *response = calloc(1, sizeof *response);

	if (!response)
		return NULL;
	response->shown.size = sizeof response->shown;
	response->shown.url = "";
	response->shown.text = "";
	wr_buf_init(&response->fields, WR_FETCH_FIELDS_MAX);
	wr_buf_init(&response->body, (size_t)client->opts.body_bytes);
	return response;
}

void wr_fetch_response_clear(struct wr_fetch_response *response)
{
	response->shown.status = 0;
	response->shown.fields = NULL;
	response->shown.field_count = 0;
	response->shown.body = NULL;
	response->shown.body_len = 0;
	wr_buf_clear(&response->fields);
	wr_buf_clear(&response->body);
}

int wr_fetch_response_decoded(struct wr_fetch_response *response)
{
	struct weir_str block = wr_buf_str(&response->fields), name, value;
	struct wr_buf left;

	if (!wr_fetch_fields_get(block, WR_STR("content-encoding"), &value))
		return 0;
	wr_buf_init(&left, WR_FETCH_FIELDS_MAX);
	while (wr_fetch_fields_next(&block, &name, &value))
		if (!wr_str_equal_nocase(name, WR_STR("content-encoding")) &&
		    !wr_str_equal_nocase(name, WR_STR("content-length")))
			wr_fetch_fields_add(&left, name, value);
	if (wr_buf_failed(&left)) {
		wr_buf_free(&left);
		return WEIR_EMEMORY;
	}
	wr_buf_free(&response->fields);
	response->fields = left;
	return 0;
}

int wr_fetch_response_list(struct wr_fetch_response *response)
{
	struct weir_str block = wr_buf_str(&response->fields), name, value;
	struct weir_field *list;
	size_t count = 0;

	while (wr_fetch_fields_next(&block, &name, &value))
		count++;
	list = realloc(response->list, (count + 1) * sizeof *list);
	if (!list)
		return WEIR_EMEMORY;
	response->list = list;
	block = wr_buf_str(&response->fields);
	for (size_t i = 0; wr_fetch_fields_next(&block, &name, &value); i++)
		list[i] = (struct weir_field){name.ptr, value.ptr};
	response->shown.fields = list;
	response->shown.field_count = count;
	return 0;
}

const char *weir_response_header(const struct weir_response *response, const char *name)
{
	struct weir_str wanted = wr_str(name);

	for (size_t i = 0; i < response->field_count; i++)
		if (wr_str_equal_nocase(wr_str(response->fields[i].name), wanted))
			return response->fields[i].value;
	return NULL;
}

void weir_response_free(struct weir_response *shown)
{
	struct wr_fetch_response *response = (struct wr_fetch_response *)(void *)shown;

	if (!response)
		return;
	wr_buf_free(&response->fields);
	wr_buf_free(&response->body);
	free(response->list);
	free(response->url);
	free(response);
}
