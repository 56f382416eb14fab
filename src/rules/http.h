/* HTTP request → descriptors, by the `requests:` of a domain.
 *
 * Two spellings of one request give the same entries: header names in any case; %-encodings;
 * dot segments, doubled and trailing slashes; host in any case, with or without port and trailing
 * dot; IPv4 and IPv4-mapped IPv6.
 *
 * Where servers disagree about what a request means, it has several readings: a path
 * (http_target.h: is %2F a slash? does ;x=1 belong to the segment?), a header field, cookie or
 * query parameter that is there with different values (which one will the API believe?), and HEAD,
 * which servers answer by what they have for GET.
 *
 *   limits      hold if any reading matches: each reading makes its descriptor
 *   exemptions  hold if all readings match: `allow: true`, and `certain` descriptors, whose rules
 * may replace limits
 *
 * The readings of a path have counters of their own. Those of a name with different values share
 * one for each rule: entries with the source WR_AMBIGUOUS_SOURCE (key.h). The rule file may choose
 * otherwise (`ambiguous:`).
 *
 * Values are not cut: an entry points into the view where nothing had to be decoded, into `memory`
 * otherwise. wr_key_feed takes any length. */
#ifndef WR_RULES_HTTP_H
#define WR_RULES_HTTP_H

#include "rules/rules.h"

/* Enough for any target and query of up to 4 KiB whose values are used twice, with up to four
 * readings. */
#define WR_HTTP_MEMORY 32768

struct wr_request;

struct wr_descriptor {
	const struct weir_entry *entries;
	uint32_t count;
	const struct wr_request *request; /* the entry of `requests:` that made it */
	bool certain; /* every reading makes this descriptor: its rule may replace other limits */
};

struct wr_http {
	bool allowed; /* `allow: true`: no limit of this domain applies */
	bool denied;  /* `missing: deny`: refuse the request */
	const struct wr_request *allowed_by,
		*denied_by; /* the entry of `requests:` that decided it */
	uint32_t count;
	struct wr_descriptor descriptors[WR_DESCRIPTORS_MAX];
};

/* Makes the descriptors of a request. Entries and decoded values are placed in memory[0 … size),
 * which must outlive their use. Returns 0 or
 *   WEIR_EINVAL   the view is not filled in correctly
 *   WEIR_EROOM    not enough memory, or too many fields of one name
 *   WEIR_EFORMAT  a target that no server should receive
 *   WEIR_EMANY    more than WR_DESCRIPTORS_MAX descriptors
 * After each of these but WEIR_EINVAL the caller refuses the request, because it cannot be counted.
 */
int wr_http_read(const struct wr_node *domain, const struct weir_http_view *view, void *memory,
		 size_t size, struct wr_http *http);

#endif
