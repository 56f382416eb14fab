/* Adds the descriptors of a RateLimitRequest to an ask. Called by serve/grpc/rls.c and
 * serve/http/json.c. */
#include "wire/rls/rls.h"

#include "base/assert.h"
#include "base/error.h"
#include "wire/grpc/grpc.h"
#include "wire/rls/plain.h"
#include "wire/rls/reserve.h"

Pb__RateLimitRequest *wr_rls_read(struct weir_str bytes, struct wr_rls_memory *memory,
				  struct weir_error *error)
{
	size_t before = memory->used;
	Pb__RateLimitRequest *request = wr_rls_read_plain(bytes, memory);

	wr_assert(memory->bytes && memory->used <= memory->size);
	if (!request) {
		memory->used = before;
		memory->full = false;
		request = pb__rate_limit_request__unpack(&memory->allocator, bytes.len,
							 (const uint8_t *)bytes.ptr);
	}
	if (!request && memory->full)
		wr_error(error, WR_GRPC_RESOURCE_EXHAUSTED,
			 "the request has too many descriptors or entries");
	else if (!request)
		wr_error(error, WR_GRPC_INVALID_ARGUMENT, "the message is not a RateLimitRequest");
	return request;
}

/* Checks the unit of the limit in descriptor number `at`, if the descriptor has a limit. The valid
 * units are SECOND to YEAR of envoy.type.v3.RateLimitUnit; Envoy has no week. */
static int check_override(const Pb__RateLimitDescriptor *descriptor, size_t at,
			  struct weir_error *error)
{
	if (!descriptor->limit || (descriptor->limit->unit >= PB__RATE_LIMIT_UNIT__SECOND &&
				   descriptor->limit->unit <= PB__RATE_LIMIT_UNIT__YEAR))
		return 0;
	return wr_error(error, WR_GRPC_INVALID_ARGUMENT,
			"the limit of descriptor %zu has the unknown unit %d; the units are SECOND "
			"(1) to YEAR (6)",
			at, descriptor->limit->unit);
}

int wr_rls_check(const Pb__RateLimitRequest *request, struct weir_error *error)
{
	int rc = 0;

	if (request->domain.len == 0)
		return wr_error(error, WR_GRPC_INVALID_ARGUMENT,
				"rate limit domain must not be empty");
	if (request->n_descriptors == 0)
		return wr_error(error, WR_GRPC_INVALID_ARGUMENT,
				"rate limit descriptor list must not be empty");
	for (size_t i = 0; rc == 0 && i < request->n_descriptors; i++)
		rc = check_override(request->descriptors[i], i, error);
	return rc;
}

/* Returns the hits of a descriptor. Hits above 2^63-1 count as 2^63-1, which no limit admits. */
static int64_t hits_of(const Pb__RateLimitRequest *request,
		       const Pb__RateLimitDescriptor *descriptor)
{
	uint64_t hits = request->hits_addend ? request->hits_addend : 1;

	if (descriptor->hits_addend)
		hits = descriptor->hits_addend->value;
	if (hits > INT64_MAX)
		hits = INT64_MAX;
	return descriptor->is_negative_hits ? -(int64_t)hits : (int64_t)hits;
}

static bool is_mark(const Pb__RateLimitDescriptor__Entry *entry)
{
	return wr_str_equal(wr_rls_text(entry->key), WR_STR(WR_RLS_CHARGE_KEY));
}

bool wr_rls_charges(const Pb__RateLimitRequest *request)
{
	for (size_t i = 0; i < request->n_descriptors; i++)
		for (size_t k = 0; k < request->descriptors[i]->n_entries; k++)
			if (is_mark(request->descriptors[i]->entries[k]))
				return true;
	return false;
}

/* Returns the entries of a descriptor without the mark of wr_rls_charges, and sets *count. */
static const struct weir_entry *entries_of(const Pb__RateLimitDescriptor *descriptor,
					   struct wr_rls_memory *memory, size_t *count)
{
	struct weir_entry *entries =
		wr_rls_alloc_many(memory, descriptor->n_entries, sizeof *entries);

	*count = 0;
	for (size_t i = 0; entries && i < descriptor->n_entries; i++)
		if (!is_mark(descriptor->entries[i]))
			entries[(*count)++] = (struct weir_entry){
				.key = wr_rls_text(descriptor->entries[i]->key),
				.value = wr_rls_text(descriptor->entries[i]->value)};
	return entries;
}

/* Adds descriptor number `at` to the ask. */
static int add_descriptor(const Pb__RateLimitDescriptor *descriptor, size_t at, int64_t hits,
			  struct weir_ask *ask, struct wr_rls_memory *memory,
			  struct weir_error *error)
{
	size_t count;
	const struct weir_entry *entries = entries_of(descriptor, memory, &count);
	struct weir_limit limit, *override = NULL;
	int rc = 0;

	if (!entries)
		return wr_error(error, WR_GRPC_RESOURCE_EXHAUSTED,
				"the request has too many descriptors or entries");
	if (descriptor->limit) {
		override = &limit;
		rc = weir_limit_per_unit(descriptor->limit->requests_per_unit,
					 descriptor->limit->unit, override, NULL);
	}
	/* The protocol does not say when the units were taken. */
	if (rc == 0 && hits < 0)
		rc = weir_ask_taken_at(ask, WEIR_TAKEN_UNKNOWN);
	if (rc == 0)
		rc = weir_ask_add(ask, entries, count, override, hits);
	if (rc != 0)
		return wr_error(error, WR_GRPC_INVALID_ARGUMENT, "descriptor %zu: %s", at,
				weir_strerror(rc));
	return 0;
}

/* Checks that rules are loaded, and returns in *count how many descriptors are added to the ask. If
 * the request has more than WEIR_DESCRIPTORS_MAX descriptors, this is one descriptor more than the
 * maximum, so that the ask refuses the request. An error response would be worse: by default, Envoy
 * lets a request pass after an error. */
static int count_descriptors(const Pb__RateLimitRequest *request, const struct weir_ask *ask,
			     size_t *count, struct weir_error *error)
{
	struct weir_result result = {.size = sizeof result};
	size_t most = WEIR_DESCRIPTORS_MAX + 1;

	*count = request->n_descriptors < most ? request->n_descriptors : most;
	weir_ask_result(ask, &result);
	if (result.generation == 0)
		return wr_error(error, WR_GRPC_FAILED_PRECONDITION,
				"no rate limit configuration loaded");
	return 0;
}

int wr_rls_ask(const Pb__RateLimitRequest *request, struct weir_ask *ask,
	       struct wr_rls_memory *memory, struct weir_error *error)
{
	size_t count;
	int rc = count_descriptors(request, ask, &count, error);

	wr_assert(request && ask && memory);
	for (size_t i = 0; rc == 0 && i < count; i++)
		rc = add_descriptor(request->descriptors[i], i,
				    hits_of(request, request->descriptors[i]), ask, memory, error);
	return rc;
}

int wr_rls_ask_amount(const Pb__RateLimitRequest *request, uint64_t amount, struct weir_ask *ask,
		      struct wr_rls_memory *memory, struct weir_error *error)
{
	size_t count;
	int rc = count_descriptors(request, ask, &count, error);

	for (size_t i = 0; rc == 0 && i < count; i++)
		rc = add_descriptor(request->descriptors[i], i,
				    amount < INT64_MAX ? (int64_t)amount : INT64_MAX, ask, memory,
				    error);
	return rc;
}
