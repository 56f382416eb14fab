/* Finds the address in the key of a ban, for the list of bans and for weir shield. */
#include "limiter/ban.h"

#include <string.h>

#include "base/address.h"
#include "base/error.h"
#include "base/str.h"
#include "limiter/scope.h"

/* Returns whether an automatic ban may have this prefix. If the key contains whole addresses, a
 * prefix is a value that no correct client sends. */
static bool is_client(unsigned family, unsigned bits, const struct wr_rules_ban *rule)
{
	bool v4 = family == 4;

	if (bits == (v4 ? 32 : 128))
		return true;
	return !rule->whole_address && bits >= (v4 ? WR_BAN_V4_BITS_LEAST : WR_BAN_V6_BITS_LEAST);
}

void wr_limiter_ban_set_address(struct wr_ban *ban, struct weir_str text,
				const struct wr_rules_ban *rule)
{
	struct wr_address_range range;
	unsigned bits;

	if (text.len == 0 || wr_address_prefix_parse(text, &range, &bits) != WR_ADDRESS_PREFIX_OK ||
	    bits == 0)
		return;
	if (!rule || is_client(wr_address_is_v4(&range.low) ? 4 : 6, bits, rule))
		wr_ban_set_address(ban, &range.low, bits);
}

static bool have_same_address(const struct wr_ban *a, const struct wr_ban *b)
{
	return a->family == b->family && a->prefix_bits == b->prefix_bits &&
	       memcmp(a->address, b->address, sizeof a->address) == 0;
}

/* The values of a descriptor that can be the address in a ban of an operator. */
struct ban_address {
	struct weir_str first;
	struct weir_str other; /* a different address, or empty: there is none */
};

/* The rule says which value is the address. If it does not, each value that is an address or a
 * prefix can be the address: the client may have chosen another value, such as a user. */
static struct ban_address find_address(const struct weir_target *target,
				       const struct wr_ask_need *need)
{
	uint8_t depth = need->rule ? need->rule->node->more->address_depth : 0;
	struct wr_ban first = {0};
	struct ban_address found = {WR_STR(""), WR_STR("")};

	if (depth && depth <= target->count) {
		found.first = target->entries[depth - 1].value;
		return found;
	}
	for (size_t i = 0; i < target->count; i++) {
		struct wr_ban ban = {0};

		wr_limiter_ban_set_address(&ban, target->entries[i].value, NULL);
		if (ban.family && !first.family) {
			found.first = target->entries[i].value;
			first = ban;
		} else if (ban.family && !have_same_address(&ban, &first)) {
			found.other = target->entries[i].value;
		}
	}
	return found;
}

/* An automatic ban of another node has an address only if this node's rule has `ban` too. */
struct weir_str wr_limiter_ban_address_in(const struct weir_target *target,
					  const struct wr_ask_need *need, bool automatic)
{
	uint8_t depth = need->rule && need->rule->ban ? need->rule->ban->address_depth : 0;
	struct ban_address found;

	if (automatic)
		return depth && depth <= target->count ? target->entries[depth - 1].value
						       : WR_STR("");
	found = find_address(target, need);
	return found.other.len ? WR_STR("") : found.first;
}

struct shield_question {
	char *address;
	struct weir_error *error;
};

static int write_address(void *context, const struct wr_scope *scope,
			 const struct wr_ask_need *need)
{
	const struct shield_question *question = context;
	struct ban_address found = find_address(&scope->target, need);
	struct wr_ban ban = {0};

	/* The values in the first error are addresses, so they are short and have no control
	 * characters. */
	if (found.other.len)
		return wr_error(
			question->error, WEIR_EINVAL,
			"the rules do not say whether %.*s or %.*s is the client's address: "
			"leave out --shield (\"shield\" in JSON), and ban the right "
			"address with weir shield add",
			(int)found.first.len, found.first.ptr, (int)found.other.len,
			found.other.ptr);
	wr_limiter_ban_set_address(&ban, found.first, NULL);
	if (ban.family == 0)
		return wr_error(question->error, WEIR_EINVAL,
				"the key has no address whose packets weir shield can drop: leave "
				"out --shield (\"shield\" in JSON)");
	question->address[wr_ban_address_text(&ban, question->address)] = 0;
	return 0;
}

int wr_limiter_ban_shield_address(struct weir_engine *engine, const struct weir_target *target,
				  uint64_t now_ns, char address[WR_ADDRESS_TEXT],
				  struct weir_error *error)
{
	struct shield_question question = {address, error};
	int rc = wr_scope_visit(engine, target, now_ns, write_address, &question, error);

	return rc < 0 ? rc : 0;
}
