/* Runs COMMAND, CONFIG and INFO. Called through the table of commands.c. */
#include "wire/resp/commands.h"

#include <unistd.h>

#include "base/buffer.h"

#define SECOND_NS 1000000000ull
#define SINCE "0.1.0"

static size_t count_of(const struct wr_resp_entry *entries)
{
	size_t count = 0;

	while (entries && entries[count].name)
		count++;
	return count;
}

/* ---- COMMAND ---- */

static const struct {
	uint16_t flag;
	const char *name;
} flag_names[] = {
#define FLAG_NAME(name, number, text) {name, text},
	WR_RESP_FLAGS(FLAG_NAME)
#undef FLAG_NAME
};

/* Writes the first nine of the ten elements that describe a command in Redis: name, arity, flags,
 * first and last key, step, categories, hints and key specifications. Categories, hints and key
 * specifications are empty. The caller writes the tenth element, the subcommands. */
static void write_head(struct wr_resp_out *out, const struct wr_resp_entry *entry)
{
	wr_reply_array(out, 10);
	wr_reply_cstr(out, entry->name);
	wr_reply_integer(out, entry->arity);
	wr_reply_set(out, (size_t)__builtin_popcount(entry->flags));
	for (size_t i = 0; i < sizeof flag_names / sizeof *flag_names; i++)
		if (entry->flags & flag_names[i].flag)
			wr_reply_simple(out, flag_names[i].name);
	wr_reply_integer(out, entry->key);
	wr_reply_integer(out, entry->key);
	wr_reply_integer(out, entry->key != 0);
	wr_reply_set(out, 0);
	wr_reply_set(out, 0);
	wr_reply_set(out, 0);
}

static void write_command(struct wr_resp_out *out, const struct wr_resp_entry *entry)
{
	size_t children = count_of(entry->children);

	write_head(out, entry);
	wr_reply_array(out, children);
	for (size_t i = 0; i < children; i++) {
		write_head(out, &entry->children[i]);
		wr_reply_array(out, 0);
	}
}

static void write_pair(struct wr_resp_out *out, const char *key, const char *value)
{
	wr_reply_cstr(out, key);
	wr_reply_cstr(out, value);
}

static void write_docs_head(struct wr_resp_out *out, const struct wr_resp_entry *entry, bool parent)
{
	wr_reply_cstr(out, entry->name);
	wr_reply_map(out, parent ? 5 : 4);
	write_pair(out, "summary", entry->summary);
	write_pair(out, "since", SINCE);
	write_pair(out, "group", entry->group);
	write_pair(out, "syntax", entry->arguments);
}

static void write_docs(struct wr_resp_out *out, const struct wr_resp_entry *entry)
{
	size_t children = count_of(entry->children);

	write_docs_head(out, entry, children > 0);
	if (children == 0)
		return;
	wr_reply_cstr(out, "subcommands");
	wr_reply_map(out, children);
	for (size_t i = 0; i < children; i++)
		write_docs_head(out, &entry->children[i], false);
}

/* Returns the command ("client") or subcommand ("client|id") with this name, or NULL. */
static const struct wr_resp_entry *find_any(struct weir_str name)
{
	size_t bar = wr_str_find(name, '|');
	const struct wr_resp_entry *entry = wr_resp_find(wr_resp_commands, wr_str_first(name, bar));

	if (bar == name.len || !entry)
		return entry;
	return entry->children ? wr_resp_find_child(entry, wr_str_from(name, bar + 1)) : NULL;
}

void wr_resp_command_command(const struct wr_resp_call *call)
{
	wr_reply_array(call->out, count_of(wr_resp_commands));
	for (const struct wr_resp_entry *entry = wr_resp_commands; entry->name; entry++)
		write_command(call->out, entry);
}

void wr_resp_command_command_count(const struct wr_resp_call *call)
{
	wr_reply_integer(call->out, (int64_t)count_of(wr_resp_commands));
}

void wr_resp_command_command_list(const struct wr_resp_call *call)
{
	wr_reply_array(call->out, count_of(wr_resp_commands));
	for (const struct wr_resp_entry *entry = wr_resp_commands; entry->name; entry++)
		wr_reply_cstr(call->out, entry->name);
}

void wr_resp_command_command_info(const struct wr_resp_call *call)
{
	if (call->argc == 2) {
		wr_resp_command_command(call);
		return;
	}
	wr_reply_array(call->out, call->argc - 2);
	for (uint32_t i = 2; i < call->argc; i++) {
		const struct wr_resp_entry *entry = find_any(call->argv[i]);

		if (entry)
			write_command(call->out, entry);
		else
			wr_reply_null(call->out);
	}
}

void wr_resp_command_command_docs(const struct wr_resp_call *call)
{
	size_t known = 0;

	if (call->argc == 2) {
		wr_reply_map(call->out, count_of(wr_resp_commands));
		for (const struct wr_resp_entry *entry = wr_resp_commands; entry->name; entry++)
			write_docs(call->out, entry);
		return;
	}
	for (uint32_t i = 2; i < call->argc; i++)
		known += find_any(call->argv[i]) != NULL;
	wr_reply_map(call->out, known);
	for (uint32_t i = 2; i < call->argc; i++) {
		const struct wr_resp_entry *entry = find_any(call->argv[i]);

		if (entry)
			write_docs(call->out, entry);
	}
}

/* ---- CONFIG ---- */

static const struct {
	const char *name, *value;
} settings[] = {
	{"appendonly", "no"},
	{"databases", "1"},
	{"maxmemory", "0"},
	{"maxmemory-policy", "noeviction"},
	{"proto-max-bulk-len", "65536"},
	{"save", ""},
	{"timeout", "0"},
};

#define SETTINGS (sizeof settings / sizeof *settings)

static bool is_asked(const struct wr_resp_call *call, const char *name)
{
	for (uint32_t i = 2; i < call->argc; i++)
		if (wr_str_equal_nocase(call->argv[i], wr_str(name)) ||
		    wr_str_equal(call->argv[i], WR_STR("*")))
			return true;
	return false;
}

void wr_resp_command_config_get(const struct wr_resp_call *call)
{
	size_t asked = 0;

	for (size_t i = 0; i < SETTINGS; i++)
		asked += is_asked(call, settings[i].name);
	wr_reply_map(call->out, asked);
	for (size_t i = 0; i < SETTINGS; i++)
		if (is_asked(call, settings[i].name))
			write_pair(call->out, settings[i].name, settings[i].value);
}

/* ---- INFO ---- */

static void add_server(const struct wr_resp_call *call, struct wr_buf *text)
{
	uint64_t up_ns = call->now_ns - call->host->started_ns;

	/* Clients use redis_version to decide which commands they can send. HELLO reports this
	 * version, too. */
	wr_buf_printf(text, "redis_version:%s\r\nredis_mode:standalone\r\nweir_version:%s\r\n",
		      WR_RESP_REDIS_VERSION, weir_version());
	wr_buf_printf(text, "process_id:%d\r\ntcp_port:%u\r\nuptime_in_seconds:%llu\r\n",
		      (int)getpid(), call->session->port, (unsigned long long)(up_ns / SECOND_NS));
}

static void sum_tallies(const struct wr_resp_host *host, struct wr_resp_tally *sum)
{
	if (host->sum)
		host->sum(host, sum);
	else
		wr_resp_tally_add(sum, &host->tally);
}

static void add_clients(const struct wr_resp_call *call, struct wr_buf *text)
{
	struct wr_resp_tally sum = {0};

	sum_tallies(call->host, &sum);
	wr_buf_printf(text, "connected_clients:%llu\r\n", (unsigned long long)sum.connected);
}

static void add_stats(const struct wr_resp_call *call, struct wr_buf *text)
{
	struct wr_resp_tally sum = {0};

	sum_tallies(call->host, &sum);
	wr_buf_printf(text, "total_connections_received:%llu\r\ntotal_commands_processed:%llu\r\n",
		      (unsigned long long)sum.accepted, (unsigned long long)sum.commands);
	wr_buf_printf(text, "limited:%llu\r\nprotocol_errors:%llu\r\n",
		      (unsigned long long)sum.limited, (unsigned long long)sum.bad);
}

static void add_rules(const struct wr_resp_call *call, struct wr_buf *text)
{
	struct weir_engine_info info = {.size = sizeof info};

	if (weir_engine_info(call->host->engine, &info) != 0)
		return;
	wr_buf_printf(text, "rules_generation:%llu\r\nrules_hash:%016llx\r\n",
		      (unsigned long long)info.generation, (unsigned long long)info.hash);
	wr_buf_printf(text, "rules_loads_good:%llu\r\nrules_loads_failed:%llu\r\n",
		      (unsigned long long)info.loads_good, (unsigned long long)info.loads_failed);
}

static void add_replication(const struct wr_resp_call *call, struct wr_buf *text)
{
	(void)call;
	wr_buf_printf(text, "role:master\r\nconnected_slaves:0\r\n");
}

static const struct section {
	const char *name, *title;
	void (*add)(const struct wr_resp_call *call, struct wr_buf *text);
} sections[] = {
	{"server", "Server", add_server}, {"clients", "Clients", add_clients},
	{"stats", "Stats", add_stats},    {"replication", "Replication", add_replication},
	{"rules", "Rules", add_rules},
};

static bool is_wanted(const struct wr_resp_call *call, const char *section)
{
	for (uint32_t i = 1; i < call->argc; i++) {
		struct weir_str word = call->argv[i];

		if (wr_str_equal_nocase(word, wr_str(section)) ||
		    wr_str_equal_nocase(word, WR_STR("all")) ||
		    wr_str_equal_nocase(word, WR_STR("default")) ||
		    wr_str_equal_nocase(word, WR_STR("everything")))
			return true;
	}
	return call->argc == 1;
}

void wr_resp_command_info(const struct wr_resp_call *call)
{
	char bytes[2048];
	struct wr_buf text;

	wr_buf_init_fixed(&text, bytes, sizeof bytes);

	for (size_t i = 0; i < sizeof sections / sizeof *sections; i++) {
		if (!is_wanted(call, sections[i].name))
			continue;
		wr_buf_printf(&text, "%s# %s\r\n", text.len ? "\r\n" : "", sections[i].title);
		sections[i].add(call, &text);
	}
	wr_reply_verbatim(call->out, wr_buf_str(&text));
}
