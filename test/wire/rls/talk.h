/* Sends requests as bytes of RLS to an engine, and reads the responses. */
#ifndef TEST_WIRE_RLS_TALK_H
#define TEST_WIRE_RLS_TALK_H

#include "limiter/helper.h"

#include "wire/grpc/grpc.h"
#include "wire/rls/rls.h"

#define TALK_DESCRIPTORS 40
#define TALK_ENTRIES 8
#define TALK_BYTES 65536

struct talk {
	struct rig rig;
	struct wr_rls_memory memory;
	struct wr_rls_options options;
	struct weir_error error;
	int code;     /* result of the last request: 0, or an enum wr_grpc_code */
	int patience; /* verdict of a delayed request; WEIR_DELAY if the delay is too long */
	bool shadow;

	/* The request that the test builds. */
	Pb__RateLimitRequest request;
	Pb__RateLimitDescriptor descriptors[TALK_DESCRIPTORS];
	Pb__RateLimitDescriptor *list[TALK_DESCRIPTORS];
	Pb__RateLimitDescriptor__Entry entries[TALK_DESCRIPTORS][TALK_ENTRIES];
	Pb__RateLimitDescriptor__Entry *entry_list[TALK_DESCRIPTORS][TALK_ENTRIES];
	Pb__RateLimitDescriptor__RateLimitOverride overrides[TALK_DESCRIPTORS];
	Pb__UInt64Value hits[TALK_DESCRIPTORS];

	/* The response, unpacked by protobuf-c. The next request frees it. */
	Pb__RateLimitResponse *answer;
	uint8_t bytes[TALK_BYTES];
	size_t len;
};

void talk_open(struct talk *talk, const char *yaml);
void talk_close(struct talk *talk);

void talk_begin(struct talk *talk, const char *domain);
Pb__RateLimitDescriptor *talk_descriptor(struct talk *talk, const char *text); /* "a=1|b=2" */
void talk_hits(struct talk *talk, Pb__RateLimitDescriptor *descriptor, uint64_t hits);
void talk_override(struct talk *talk, Pb__RateLimitDescriptor *descriptor, uint32_t requests,
		   int unit);

/* Send the request, or these bytes. Return the overall code, or -1 with talk->code set. */
int talk_send(struct talk *talk);
int talk_send_bytes(struct talk *talk, const void *bytes, size_t len);

/* Sends a request with one descriptor, in domain "rl" with cost 1. */
int talk_ask(struct talk *talk, const char *descriptor);

/* Returns the value of a header field of the response, or NULL. */
const char *talk_header(struct talk *talk, const char *name);

#define OK PB__RATE_LIMIT_RESPONSE__CODE__OK
#define OVER PB__RATE_LIMIT_RESPONSE__CODE__OVER_LIMIT

#endif
