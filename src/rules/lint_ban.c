/* Checks limits with `ban`: a client must not be able to get other clients banned. Also finds the
 * address in the keys of all limits, for weir shield.
 *
 * A ban is safe if some part of the key says which client sent the request, and the client cannot
 * choose this part: the address of its connection, or the identity that an authentication service
 * has checked. Other parts may then be anything: the client can only ban its own keys. */
#include "rules/load.h"

#include "base/assert.h"
#include "rules/lint_fit.h"
#include "rules/requests.h"

/* A prefix of at least this length usually belongs to one client. */
#define V4_BITS_CLIENT 32
#define V6_BITS_CLIENT 56

/* The search takes more steps than the search for warnings, because an incomplete search is an
 * error. 4,096 entries of `requests:` and as many rules with a ban need 50 million steps, which take
 * about a third of a second. */
#define STEPS_FACTOR 32

/* The search for one domain. */
struct ban_search {
	struct wr_load *load;
	const struct wr_node *domain;
	uint64_t steps;
	uint64_t steps_most;
};

/* The parts of a key. Bit number i of a set is the entry number i of the descriptor. */
struct ban_key {
	uint32_t addresses; /* the entries that are the address of the client, or a prefix of it */
	uint32_t whole;     /* the entries that are the whole address */
	bool client;        /* some entry says which client sent the request */
	bool network;       /* the entry that says so is a prefix that can have several clients */
	bool wide;          /* a prefix is too short to say which client sent the request */
	bool shared;        /* an entry that would say so has `share_threshold` */
	/* An entry that would say which client sent the request, but has a default value. */
	const struct wr_source *defaulted;
	const struct wr_source *loose; /* a source that clients can forge */
	struct weir_str unknown;       /* an entry whose source is not known, or "" */
	struct weir_str varying;       /* an entry besides the address with several values, or "" */
	const char *file;              /* location of the descriptor */
	uint32_t line;
};

static bool is_over(const struct ban_search *search)
{
	return search->steps > search->steps_most;
}

/* Counts the comparison of a tree node with an entry of a descriptor. A comparison with a pattern
 * takes more steps. Returns false if the search has to stop. */
static bool take_steps(struct ban_search *search, const struct wr_node *node,
		       const struct wr_rules_part *part)
{
	search->steps += 1;
	if (wr_node_is_wild(node))
		search->steps += (part->key.len + part->value.len) / 4;
	return !is_over(search);
}

static bool is_address(const struct wr_source *source)
{
	return source->kind == WR_FROM_REMOTE_ADDRESS ||
	       source->kind == WR_FROM_MASKED_REMOTE_ADDRESS;
}

/* Returns whether `node` matches this fixed value, and no other child of the parent has priority. */
static bool takes_value(struct ban_search *search, const struct wr_node *node,
			const struct wr_rules_part *part)
{
	const struct wr_node *other = node->parent->more->first_child;
	bool before = true; /* `other` comes before `node` */

	if (node->kind == WR_NODE_EXACT)
		return wr_str_equal(node->value, part->value);
	if (!wr_lint_value_fits(node, part->value))
		return false;
	for (; other && take_steps(search, other, part); other = other->more->next) {
		if (other == node) {
			before = false;
			continue;
		}
		if (!wr_lint_key_fits(other, part->key))
			continue;
		if (other->kind == WR_NODE_EXACT && wr_str_equal(other->value, part->value))
			return false;
		if (wr_node_is_wild(other) && (before || node->kind == WR_NODE_ANY) &&
		    wr_lint_value_fits(other, part->value))
			return false;
	}
	return true;
}

/* Returns whether the descriptor of an entry of `requests:` can match the tree node. */
static bool makes(struct ban_search *search, const struct wr_rules_request *request,
		  const struct wr_node *node)
{
	if (request->allow || request->part_count != node->depth)
		return false;
	for (; node->depth; node = node->parent) {
		const struct wr_rules_part *part = &request->parts[node->depth - 1];

		if (!take_steps(search, node, part) || !wr_lint_key_fits(node, part->key) ||
		    (part->source_count == 0 && !takes_value(search, node, part)))
			return false;
	}
	return true;
}

/* Adds an entry whose sources are all addresses. */
static void add_address(struct ban_key *key, const struct wr_rules_part *part, uint32_t bit)
{
	bool prefix = false, network = false, wide = false;

	for (uint32_t i = 0; i < part->source_count; i++) {
		const struct wr_source *s = &part->sources[i];

		if (s->kind != WR_FROM_MASKED_REMOTE_ADDRESS)
			continue;
		prefix = true;
		network |= s->v4_bits < V4_BITS_CLIENT || s->v6_bits < V6_BITS_CLIENT;
		wide |= s->v4_bits < WR_BAN_V4_BITS_LEAST || s->v6_bits < WR_BAN_V6_BITS_LEAST;
	}
	key->wide |= wide;
	if (wide)
		return;
	key->addresses |= bit;
	key->whole |= prefix ? 0 : bit;
	key->network = network && (key->network || !key->client);
	key->client = true;
}

/* Adds an entry of a descriptor that `requests:` makes. */
static void add_part(struct ban_key *key, const struct wr_node *node,
		     const struct wr_rules_part *part)
{
	const struct wr_source *loose = NULL;
	bool addresses = true, clients = true;

	if (part->source_count == 0)
		return;
	for (uint32_t i = 0; i < part->source_count; i++) {
		const struct wr_source *s = &part->sources[i];

		addresses &= is_address(s);
		clients &= is_address(s) || s->kind == WR_FROM_IDENTITY;
		if (s->loose && !loose)
			loose = s;
	}
	if (node->flags & WR_SHARE) {
		key->shared |= clients;
		return;
	}
	if (clients && part->has_default) {
		key->defaulted = &part->sources[0];
	} else if (addresses) {
		add_address(key, part, 1u << (node->depth - 1));
		return;
	} else if (clients) {
		key->client = true;
		key->network = false;
	}
	if (node->kind == WR_NODE_EXACT)
		return;
	key->varying = part->key;
	if (loose)
		key->loose = loose;
}

static struct ban_key key_of_request(const struct wr_rules_request *request,
				     const struct wr_node *node)
{
	struct ban_key key = {.file = request->file, .line = request->line};

	for (; node->depth; node = node->parent)
		add_part(&key, node, &request->parts[node->depth - 1]);
	return key;
}

/* Returns whether Envoy sets this key to a text that does not depend on the client. */
static bool is_constant(struct weir_str key)
{
	static const char *const names[] = {"generic_key", "header_match", "query_match",
					    "source_cluster", "destination_cluster"};

	for (size_t i = 0; i < sizeof names / sizeof *names; i++)
		if (wr_str_equal(key, wr_str(names[i])))
			return true;
	return false;
}

/* Returns the key of a descriptor that no entry of `requests:` makes. It comes from a trusted
 * caller, such as Envoy, whose actions have fixed names for the address. */
static struct ban_key key_of_caller(const struct wr_node *node)
{
	struct ban_key key = {.file = node->more->file, .line = node->more->line};

	for (; node->depth; node = node->parent) {
		bool whole = wr_str_equal(node->key, WR_STR("remote_address"));

		bool address = whole || wr_str_equal(node->key, WR_STR("masked_remote_address"));

		if (node->flags & WR_SHARE)
			key.shared |= address;
		if (node->flags & WR_SHARE || is_constant(node->key))
			continue;
		if (address) {
			key.addresses |= 1u << (node->depth - 1);
			key.whole |= (uint32_t)whole << (node->depth - 1);
			key.client = true;
			continue;
		}
		key.unknown = node->key;
		if (node->kind != WR_NODE_EXACT)
			key.varying = node->key;
	}
	return key;
}

/* Adds the key of another descriptor that matches the same rule. `all` then has the entries that are
 * an address in both keys, and otherwise the data of the less safe key. */
static void merge_key(struct ban_key *all, const struct ban_key *key)
{
	uint32_t addresses = all->addresses & key->addresses, whole = all->whole & key->whole;
	struct weir_str varying = all->varying.len ? all->varying : key->varying;

	if (all->client && (!key->client || (key->network && !all->network)))
		*all = *key;
	all->addresses = addresses;
	all->whole = whole;
	all->varying = varying;
}

/* Returns the key of the descriptors that match the tree node. */
static struct ban_key key_of_node(struct ban_search *search, const struct wr_node *node)
{
	const struct wr_rules_requests *requests = search->domain->more->requests;
	struct ban_key all = {0};
	bool made = false;

	for (const struct wr_rules_request *r = requests ? requests->first : NULL;
	     r && !is_over(search); r = r->next) {
		struct ban_key key;

		if (!makes(search, r, node))
			continue;
		key = key_of_request(r, node);
		if (made)
			merge_key(&all, &key);
		else
			all = key;
		made = true;
	}
	return made ? all : key_of_caller(node);
}

static void report(struct ban_search *search, enum wr_diag_id id, const struct wr_rules_ban *ban,
		   const struct weir_str *args)
{
	wr_rules_report_at(search->load, id, ban->file, ban->line, ban->column, args);
}

/* Reports a ban that a client can turn against other clients, by a descriptor with this key. Returns
 * whether it has reported an error. */
static bool check_client(struct ban_search *search, const struct wr_rules_ban *ban,
			 const struct ban_key *key)
{
	struct weir_str location = wr_str(
		wr_load_print(search->load, &search->load->tree, "%s:%u", key->file, key->line));

	if (key->client && key->network)
		report(search, WR_D_ban_of_network, ban, WR_ARGS(location));
	else if (!key->client && key->unknown.len)
		report(search, WR_D_ban_unproven, ban, WR_ARGS(key->unknown));
	if (key->client || key->unknown.len)
		return false;
	if (key->wide)
		report(search, WR_D_ban_of_wide_prefix, ban,
		       WR_ARGS(location, wr_rules_number_text(search->load, WR_BAN_V4_BITS_LEAST),
			       wr_rules_number_text(search->load, WR_BAN_V6_BITS_LEAST)));
	else if (key->defaulted)
		report(search, WR_D_ban_of_default, ban, WR_ARGS(key->defaulted->label, location));
	else if (key->shared)
		report(search, WR_D_ban_of_shared, ban, WR_ARGS(location));
	else if (key->loose)
		report(search, WR_D_ban_can_forge, ban, WR_ARGS(key->loose->label, location));
	else
		report(search, WR_D_ban_of_everyone, ban, WR_ARGS(location));
	return true;
}

static void check_shield(struct ban_search *search, const struct wr_rules_ban *ban,
			 const struct ban_key *key)
{
	struct weir_str location = wr_str(
		wr_load_print(search->load, &search->load->tree, "%s:%u", key->file, key->line));

	if (ban->address_depth == 0)
		report(search, WR_D_shield_without_address, ban, WR_ARGS(location));
	else if (key->varying.len)
		report(search, WR_D_shield_of_all, ban, WR_ARGS(key->varying, key->varying));
}

/* Returns the depth of the entry that is the client's address, or 0. A whole address is preferred to
 * a prefix. */
static uint8_t depth_of(const struct ban_key *key)
{
	uint32_t addresses = key->whole ? key->whole : key->addresses;

	return (uint8_t)(addresses ? __builtin_ctz(addresses) + 1 : 0);
}

/* Checks the ban of a limit at a tree node whose descriptors have this key. */
static void check_ban(struct ban_search *search, const struct wr_node *node,
		      const struct wr_rules_limit *limit, const struct ban_key *key)
{
	/* `ban` is const, because rules are not changed after loading. The cast is safe, because
	 * the rules are still being loaded. */
	struct wr_rules_ban *ban = (struct wr_rules_ban *)limit->ban;

	if (!ban)
		return;
	ban->address_depth = depth_of(key);
	ban->whole_address = key->whole != 0;
	if (node->flags & WR_QUOTA)
		report(search, WR_D_ban_of_quota, ban, NULL);
	if (!check_client(search, ban, key) && ban->shield)
		check_shield(search, ban, key);
}

static bool has_ban(const struct wr_rules_limit *limits, uint32_t count)
{
	for (uint32_t i = 0; i < count; i++)
		if (limits[i].ban || has_ban(limits[i].candidates, limits[i].candidate_count))
			return true;
	return false;
}

static void check_bans(struct ban_search *search, const struct wr_node *node)
{
	struct ban_key key = key_of_node(search, node);

	if (is_over(search))
		return; /* wr_lint_bans() reports it; the key may be wrong */
	node->more->address_depth = depth_of(&key);
	for (uint8_t i = 0; i < node->limit_count; i++) {
		const struct wr_rules_limit *limit = &node->limits[i];

		check_ban(search, node, limit, &key);
		for (uint32_t j = 0; j < limit->candidate_count; j++)
			check_ban(search, node, &limit->candidates[j], &key);
	}
}

static void check_below(struct ban_search *search, const struct wr_node *parent)
{
	for (const struct wr_node *node = parent->more->first_child; node && !is_over(search);
	     node = node->more->next) {
		if (has_ban(node->limits, node->limit_count))
			check_bans(search, node);
		check_below(search, node);
	}
}

/* Finds the address in the keys of the limits without `ban`. If the search has to stop, the address
 * in the remaining keys is not known. Each entry of `requests:` counts as a step, because there are
 * many more such limits than limits with `ban`. */
static void find_addresses(struct ban_search *search, const struct wr_node *parent)
{
	const struct wr_rules_requests *requests = search->domain->more->requests;

	for (const struct wr_node *node = parent->more->first_child; node;
	     node = node->more->next) {
		if (node->limit_count && !has_ban(node->limits, node->limit_count)) {
			struct ban_key key = key_of_node(search, node);

			search->steps += requests ? requests->count : 0;
			if (is_over(search))
				return;
			node->more->address_depth = depth_of(&key);
		}
		find_addresses(search, node);
	}
}

void wr_lint_bans(struct wr_load *load, const struct wr_node *domain)
{
	struct ban_search search = {.load = load,
				    .domain = domain,
				    .steps_most = load->bounds.lint_steps * STEPS_FACTOR};

	wr_assert(domain->depth == 0);
	check_below(&search, domain);
	if (is_over(&search))
		wr_rules_report_node(load, WR_D_ban_unchecked, domain, WR_ARGS(domain->key));
	search.steps = load->address_steps;
	find_addresses(&search, domain);
	load->address_steps = search.steps;
}
