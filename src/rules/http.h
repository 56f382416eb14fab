/* HTTP request → descriptors, by the `requests:` of a domain.
 *
 * Different spellings of one request give the same entries. This holds for the case of header
 * names, %-encodings, dot segments, doubled and trailing slashes, the case, port and trailing dot
 * of the host, and IPv4 addresses written as IPv6.
 *
 * If servers disagree about what a request means, the request has several readings. Paths have
 * several readings (http_target.h: is %2F a slash? does ;x=1 belong to the segment?). So does a
 * header field, cookie or query parameter that occurs with different values (which value will the
 * API use?), and the method HEAD, which servers answer with the handler for GET.
 *
 *   limits      apply if any reading matches: each reading makes its own descriptor
 *   exemptions  apply only if all readings match. Exemptions are `allow: true`, and rules that
 *               replace limits; such a rule needs a descriptor that is `certain`
 *
 * Each reading of a path has a counter of its own. If a header field, cookie or parameter has
 * different values, all of these values share one counter for each rule: their entries have the
 * source WR_AMBIGUOUS_SOURCE (key.h). `ambiguous:` in a rule file selects another behaviour.
 *
 * Values are never cut. The text of a value is in the caller's weir_http_view if nothing had to be
 * decoded, otherwise in `memory`. wr_rules_key_feed() takes values of any length. */
#ifndef WR_RULES_HTTP_H
#define WR_RULES_HTTP_H

#include "rules/rules.h"

/* Size of the memory for wr_rules_http_read(). It suffices if the target, including its query, has
 * at most 4 KiB and at most four readings, and if descriptors use each value at most twice. */
#define WR_HTTP_MEMORY 32768

struct wr_rules_request;

/* How the cost of a request was found. */
enum wr_cost_note {
	WR_COST_AS_GIVEN,
	/* The value is missing, empty, not a number or negative, so `default` was used. */
	WR_COST_DEFAULTED,
	WR_COST_CLAMPED, /* the value was above `max` */
	/* The length of the body is known later. The cost is the largest possible one, or `default`
	 * if there is no maximum. */
	WR_COST_LENGTH_LATER,
};

struct wr_rules_descriptor {
	const struct weir_entry *entries;
	uint32_t count;
	/* The entry of `requests:` that made the descriptor. */
	const struct wr_rules_request *request;
	int64_t cost;      /* units to charge at arrival; 1 if the entry has no `cost:` */
	uint8_t cost_note; /* enum wr_cost_note */
	bool certain; /* all readings make this descriptor, so its rule can replace other limits */
};

struct wr_rules_http {
	/* True if an entry with `allow: true` exempts the request from all limits of the domain. */
	bool allowed;
	/* True if the caller has to refuse the request, because of `missing: deny` or
	 * `ambiguous: deny`. */
	bool denied;
	const struct wr_rules_request *allowed_by,
		*denied_by; /* entry of `requests:` that set `allowed`; the one that set `denied` */
	uint32_t count;
	struct wr_rules_descriptor descriptors[WR_DESCRIPTORS_MAX];
};

/* Makes the descriptors of a request. Entries and decoded values are placed in memory[0 … size),
 * which must live as long as the descriptors are used. Returns 0 or
 *   WEIR_EINVAL   `view` is not filled in correctly
 *   WEIR_EROOM    not enough memory, or too many fields of one name
 *   WEIR_EFORMAT  the target contains a control character, a fragment or an encoded zero byte
 *   WEIR_EMANY    more than WR_DESCRIPTORS_MAX descriptors
 * After any of these errors except WEIR_EINVAL the caller refuses the request, because the request
 * cannot be counted. */
int wr_rules_http_read(const struct wr_node *domain, const struct weir_http_view *view,
		       void *memory, size_t size, struct wr_rules_http *http);

#endif
