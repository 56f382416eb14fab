/* Implements the requests of talk.h. */
#include "wire/rls/talk.h"

#include <stdio.h>
#include <string.h>

#include "base/str.h"

#define MEMORY_BYTES (768 << 10)

void talk_open(struct talk *talk, const char *yaml)
{
	memset(talk, 0, sizeof *talk);
	if (yaml)
		rig_open(&talk->rig, yaml, "rl");
	else
		rig_open_with(&talk->rig, NULL, "rl", 0);
	talk->patience = WEIR_ADMIT;
	assert_int_equal(wr_rls_memory_init(&talk->memory, MEMORY_BYTES), 0);
}

void talk_close(struct talk *talk)
{
	if (talk->answer)
		pb__rate_limit_response__free_unpacked(talk->answer, NULL);
	wr_rls_memory_free(&talk->memory);
	rig_close(&talk->rig);
}

static ProtobufCBinaryData bytes_of(struct weir_str text)
{
	return (ProtobufCBinaryData){text.len, (uint8_t *)text.ptr};
}

void talk_begin(struct talk *talk, const char *domain)
{
	pb__rate_limit_request__init(&talk->request);
	talk->request.domain = bytes_of(wr_str(domain));
	talk->request.descriptors = talk->list;
}

static void add_entries(struct talk *talk, size_t at, struct weir_str rest)
{
	Pb__RateLimitDescriptor *descriptor = &talk->descriptors[at];

	while (rest.len) {
		struct weir_str entry = wr_str_first(rest, wr_str_find(rest, '|'));
		size_t equals = wr_str_find(entry, '=');
		Pb__RateLimitDescriptor__Entry *to = &talk->entries[at][descriptor->n_entries];

		pb__rate_limit_descriptor__entry__init(to);
		to->key = bytes_of(wr_str_first(entry, equals));
		if (equals < entry.len)
			to->value = bytes_of(wr_str_from(entry, equals + 1));
		talk->entry_list[at][descriptor->n_entries++] = to;
		rest = wr_str_from(rest, entry.len + (entry.len < rest.len));
	}
	descriptor->entries = talk->entry_list[at];
}

Pb__RateLimitDescriptor *talk_descriptor(struct talk *talk, const char *text)
{
	size_t at = talk->request.n_descriptors++;
	Pb__RateLimitDescriptor *descriptor = &talk->descriptors[at];

	assert_true(at < TALK_DESCRIPTORS);
	pb__rate_limit_descriptor__init(descriptor);
	add_entries(talk, at, wr_str(text));
	talk->list[at] = descriptor;
	return descriptor;
}

void talk_hits(struct talk *talk, Pb__RateLimitDescriptor *descriptor, uint64_t hits)
{
	descriptor->hits_addend = &talk->hits[descriptor - talk->descriptors];
	pb__uint64_value__init(descriptor->hits_addend);
	descriptor->hits_addend->value = hits;
}

void talk_override(struct talk *talk, Pb__RateLimitDescriptor *descriptor, uint32_t requests,
		   int unit)
{
	descriptor->limit = &talk->overrides[descriptor - talk->descriptors];
	pb__rate_limit_descriptor__rate_limit_override__init(descriptor->limit);
	descriptor->limit->requests_per_unit = requests;
	descriptor->limit->unit = (Pb__RateLimitUnit)unit;
}

static int verdict_of(struct talk *talk)
{
	int verdict = weir_ask_decide(talk->rig.ask, talk->rig.now_ns);

	if (verdict == WEIR_DELAY && talk->patience == WEIR_DELAY)
		weir_ask_cancel(talk->rig.ask, talk->rig.now_ns);
	if (verdict == WEIR_DELAY)
		verdict = talk->patience;
	return talk->shadow ? WEIR_ADMIT : verdict;
}

static int answer(struct talk *talk, const Pb__RateLimitRequest *request)
{
	Pb__RateLimitResponse *response = wr_rls_answer(talk->rig.ask, verdict_of(talk), request,
							&talk->options, &talk->memory);

	assert_non_null(response);
	talk->len = wr_rls_size(response);
	assert_true(talk->len <= sizeof talk->bytes);
	wr_rls_pack(response, talk->bytes);
	talk->answer = pb__rate_limit_response__unpack(NULL, talk->len, talk->bytes);
	assert_non_null(talk->answer);
	return talk->answer->overall_code;
}

int talk_send_bytes(struct talk *talk, const void *bytes, size_t len)
{
	const Pb__RateLimitRequest *request;

	if (talk->answer)
		pb__rate_limit_response__free_unpacked(talk->answer, NULL);
	talk->answer = NULL;
	wr_rls_memory_reset(&talk->memory);
	talk->error.code = 0;
	request = wr_rls_read((struct weir_str){bytes, len}, &talk->memory, &talk->error);
	talk->code = talk->error.code;
	if (!request)
		return -1;
	talk->code = wr_rls_check(request, &talk->error);
	if (talk->code)
		return -1;
	weir_ask_done(talk->rig.ask);
	assert_int_equal(weir_ask_init(talk->rig.memory, sizeof talk->rig.memory, talk->rig.engine,
				       wr_rls_domain(request), &talk->rig.ask),
			 0);
	talk->code = wr_rls_ask(request, talk->rig.ask, &talk->memory, &talk->error);
	return talk->code ? -1 : answer(talk, request);
}

int talk_send(struct talk *talk)
{
	static uint8_t bytes[TALK_BYTES];
	size_t len = pb__rate_limit_request__get_packed_size(&talk->request);

	assert_true(len <= sizeof bytes);
	pb__rate_limit_request__pack(&talk->request, bytes);
	return talk_send_bytes(talk, bytes, len);
}

int talk_ask(struct talk *talk, const char *descriptor)
{
	talk_begin(talk, "rl");
	talk_descriptor(talk, descriptor);
	return talk_send(talk);
}

const char *talk_header(struct talk *talk, const char *name)
{
	static char value[512];

	for (size_t i = 0; i < talk->answer->n_response_headers_to_add; i++) {
		const Pb__HeaderValue *header = talk->answer->response_headers_to_add[i];

		if (!wr_str_equal(wr_rls_text(header->key), wr_str(name)))
			continue;
		snprintf(value, sizeof value, "%.*s", (int)header->value.len, header->value.data);
		return value;
	}
	return NULL;
}
