/* Automatic bans: the `ban` of a rule. A refusal of a key is counted, and a key with too many
 * refusals is banned.
 *
 *   need.key           the counter of the limit; its override (table/override.h) contains the ban
 *   key ^ refusals     the refusals of the key since its last ban, a sliding window log
 *   key ^ history      the last ban of the key: start, end and level (struct wr_limiter_ban_last)
 *
 * A limit that is only counted (shadow mode, a pause, `enforce`) has other keys for its refusals and
 * its last ban, and no override. Nothing reads these keys after the rule is enforced. */
#ifndef WR_LIMITER_BAN_H
#define WR_LIMITER_BAN_H

#include "limiter/ask.h"
#include "limiter/order.h"
#include "table/ban.h"

/* The last ban of a key. All fields are 0 if the key was never banned, or if its last ban ended more
 * than a day ago. */
struct wr_limiter_ban_last {
	uint32_t since_s;
	uint32_t until_s;
	uint32_t level; /* 1 for the first ban of a day */
};

/* What a refusal led to. */
enum wr_limiter_ban_step {
	WR_BAN_NOT_YET, /* the key has too few refusals */
	WR_BAN_STARTED, /* this refusal has started a ban */
	WR_BAN_RUNNING, /* another refusal has started a ban; this refusal is not counted */
};

/* Returns the duration of a ban: for_ns * grow^(level - 1), but at most max_ns. */
uint64_t wr_limiter_ban_duration(const struct wr_rules_ban *ban, uint32_t level);

/* Counts one refusal of the key. Refusals from before the key's last ban do not count. Exactly one
 * of several racing callers gets WR_BAN_STARTED. *last becomes the ban in force, unless the result
 * is WR_BAN_NOT_YET. */
enum wr_limiter_ban_step wr_limiter_ban_count(struct weir_table *table,
					      const struct wr_rules_ban *ban, struct wr_key key,
					      bool shadow, uint64_t now_ns,
					      struct wr_limiter_ban_last *last);

struct wr_limiter_ban_last wr_limiter_ban_last(struct weir_table *table, struct wr_key key,
					       bool shadow, uint32_t now_s);

/* Returns the number of refusals that count toward a ban now: 0 while a ban is in force. */
uint32_t wr_limiter_ban_refusals(struct weir_table *table, const struct wr_rules_ban *ban,
				 struct wr_key key, bool shadow, uint64_t now_ns);

/* Clears the last ban of the key, so that its next ban has level 1, and the refusals of the key.
 * `ban` is NULL if the rule has none any more; then refusals are not cleared. */
void wr_limiter_ban_clear(struct weir_table *table, const struct wr_rules_ban *ban,
			  struct wr_key key, bool shadow, uint64_t now_ns);

/* The key under which a ban in shadow mode is listed, next to a ban of the key that is in force. Of
 * the key of a listed ban in shadow mode, returns the key of the counter. */
static inline struct wr_key wr_limiter_shadow_key(struct wr_key key)
{
	return (struct wr_key){~key.tag};
}

/* Writes the last ban of the key, which another node has started. Does nothing if a ban that ends
 * later is known already. */
void wr_limiter_ban_note_last(struct weir_table *table, struct wr_key key,
			      const struct wr_limiter_ban_last *last, uint32_t now_s);

/* ---- ban_entries.c: entries of descriptors ---- */

/* Keeps the descriptor's entries until the verdict, for the order and the note of a ban. Called for
 * a descriptor that a limit with `ban` applies to. If the ask has no room for all entries, only the
 * value with the address is kept. */
void wr_ask_keep_entries(struct weir_ask *ask, const struct wr_rules_ban *ban,
			 const struct weir_entry *entries, size_t count);

/* The target of a descriptor, whose texts are in the ask. */
struct wr_ask_banned {
	struct weir_target target; /* target.count is 0 if the entries were not kept */
	struct weir_entry entries[WR_ORDER_ENTRIES];
	struct weir_str address; /* the value with the address, or empty */
};

/* Makes the target of the need's descriptor from the entries that were kept. */
void wr_ask_find_banned(const struct weir_ask *ask, const struct wr_ask_need *need,
			struct wr_ask_banned *banned);

/* ---- ban_address.c: addresses in keys ---- */

/* Sets the address of the ban. If the text is not the address of a client, the ban gets none. `rule`
 * is the `ban` of the rule for an automatic ban, and NULL for the ban of an operator. */
void wr_limiter_ban_set_address(struct wr_ban *ban, struct weir_str text,
				const struct wr_rules_ban *rule);

/* Returns the value of the descriptor that is the client's address, or an empty text if there is
 * none or if it is not known which value is the address. */
struct weir_str wr_limiter_ban_address_in(const struct weir_target *target,
					  const struct wr_ask_need *need, bool automatic);

/* Writes the address whose packets weir shield drops if an operator bans the descriptor with
 * WEIR_BAN_SHIELD, with a zero byte at the end. Returns 0, WEIR_EINVAL if there is no such address
 * or if it is not known which value is the address, or an error of wr_scope_open(). */
int wr_limiter_ban_shield_address(struct weir_engine *engine, const struct weir_target *target,
				  uint64_t now_ns, char address[WR_ADDRESS_TEXT],
				  struct weir_error *error);

/* ---- ban_write.c ---- */

/* Counts the refusals of an ask with a limit that has `ban`, and bans keys. Called when the verdict
 * is set. */
void wr_ask_ban(struct weir_ask *ask, bool admitted);

/* Bans the key of a need, or releases it if until_s is 0. Called for operators and for orders of
 * other nodes. `order` gives flags and level. An order with WR_BAN_AUTOMATIC does not shorten a ban;
 * any other order replaces the earlier ban. A release also clears the refusals and the level. */
void wr_limiter_ban_set(struct weir_engine *engine, const struct weir_target *target,
			const struct wr_ask_need *need, uint32_t until_s,
			const struct wr_order *order, uint64_t now_ns);

/* control.c: carries out an order with the verb WR_ORDER_BAN. Returns the result of
 * weir_control_ban(). */
int wr_limiter_ban_order(struct weir_engine *engine, const struct wr_order *order, uint64_t now_ns,
			 struct weir_error *error);

/* Returns the end of the longest ban that refuses the request. 0: no ban refuses it; WEIR_NEVER: the
 * ban never ends. */
uint64_t wr_ask_banned_until(const struct weir_ask *ask);

/* Writes the note of an override: the rule, and the descriptor as "api|user=7". */
void wr_limiter_note_write(struct weir_engine *engine, const struct weir_target *target,
			   const struct wr_ask_need *need, uint32_t now_s);

#endif
