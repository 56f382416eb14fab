/* weir shield: carries banned addresses into the kernel, until a signal ends it. */
#include "cli/shield.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/str.h"
#include "net/log.h"
#include "serve/user.h"
#include "shield/lists.h"
#include "shield/run.h"

#define DRY_RUN_MAX ((size_t)1 << 30)

static struct shield_arguments {
	const char *rules, *limit, *user, *log_format, *span;
	struct wr_text_list trust, never, hooks, ports, ssh_ports;
	uint64_t size;
	bool reject, leave, dry_run, json;
} given;
static struct wr_cli_table_choice table;
static struct wr_cli_words words; /* the verb and its argument */

#define AT(field) .at = offsetof(struct shield_arguments, field)

static const struct wr_cli_option run_options[] = {
	{"rules", WR_OPTION_TEXT, "PATH", NULL,
	 "rule file or directory; the addresses of its entries with\n"
	 "`allow: true` are protected, and bans of rules that are in\n"
	 "shadow mode there, or have no shield, are skipped. Changes\n"
	 "take effect within a second",
	 AT(rules)},
	{"trust", WR_OPTION_LIST, "CIDR,…", NULL,
	 "proxies in front of the gateway, which are protected", AT(trust)},
	{"never", WR_OPTION_LIST, "CIDR|FILE,…", NULL,
	 "protected networks, for example those of a CDN. A FILE begins\n"
	 "with / or . and has one network per line; changes take effect\n"
	 "within a second",
	 AT(never)},
	{"ssh-ports", WR_OPTION_LIST, "PORT,…", "22",
	 "ports of sshd: the addresses of users who have logged in are\n"
	 "protected",
	 AT(ssh_ports)},
	{"reject", WR_OPTION_SWITCH, NULL, NULL,
	 "answer with a TCP reset or an ICMP message; without it\n"
	 "packets are dropped silently",
	 AT(reject)},
	{"hooks", WR_OPTION_LIST, "HOOK,…", "input,forward",
	 "input: packets to this machine; forward: packets to its\n"
	 "containers and virtual machines. With both, and without\n"
	 "--reject, packets are dropped in prerouting",
	 AT(hooks)},
	{"limit", WR_OPTION_TEXT, "RATE", NULL,
	 "maximum rate of new TCP connections per source to the ports\n"
	 "of --port: 100/second, 1000/minute. A source is an IPv4\n"
	 "address or an IPv6 network of 64 bits",
	 AT(limit)},
	{"port", WR_OPTION_LIST, "PORT,…", NULL, "ports of --limit", AT(ports)},
	{"size", WR_OPTION_NUMBER, "N", "262144", "maximum number of addresses in the kernel",
	 AT(size), .min = 16, .max = 4194304},
	{"leave", WR_OPTION_SWITCH, NULL, NULL,
	 "keep the nftables table when the shield exits; its elements\n"
	 "expire by themselves, after a day at the latest",
	 AT(leave)},
	{"user", WR_OPTION_TEXT, "NAME", NULL,
	 "user of the process when root starts it. Without it weir, if\n"
	 "that user exists",
	 AT(user)},
	{"log-format", WR_OPTION_TEXT, "FORMAT", "text", "form of log lines: text, json",
	 AT(log_format), .choices = "text json"},
	{"dry-run", WR_OPTION_SWITCH, NULL, NULL,
	 "print the commands of nftables and change nothing", AT(dry_run),
	 .variable = WR_NO_VARIABLE},
};

static const struct wr_cli_option verb_options[] = {
	{"for", WR_OPTION_TEXT, "TIME", NULL, "add: how long: 90s, 15m, 1h30m, 7d, or ever",
	 AT(span), .variable = WR_NO_VARIABLE},
	{"json", WR_OPTION_SWITCH, NULL, NULL, "list: print the whole answer as JSON", AT(json),
	 .variable = WR_NO_VARIABLE},
};

static const struct wr_cli_option_group groups[] = {
	WR_OPTION_GROUP("Options of the shield", run_options, &given),
	WR_OPTION_GROUP("Options of add and list", verb_options, &given),
	WR_OPTION_GROUP("Table", wr_cli_table_options, &table),
};

static const struct wr_cli_command command = {
	"shield",
	"weir shield [--rules PATH] [--trust CIDR,…] [--never CIDR|FILE,…]\n"
	"weir shield add ADDRESS|CIDR --for TIME\n"
	"weir shield release ADDRESS|CIDR\n"
	"weir shield flush\n"
	"weir shield list [--json]\n"
	"\n"
	"Drops the packets of banned clients in the kernel, with nftables. It carries the bans of\n"
	"rules with `ban: {…, shield: true}`, of weir ban add --shield and of weir shield add\n"
	"from the table that the gateway uses to its own table in nftables, inet weir, which it\n"
	"removes when it exits. It needs CAP_NET_ADMIN, and gives up all other rights. The\n"
	"gateway works without it.\n"
	"\n"
	"add, release and flush change the bans of weir shield add in the table; a running shield\n"
	"follows within a second. list shows the state of the shield and all bans for the\n"
	"shield, and which of them are skipped because their rule is paused; with --rules also\n"
	"those of rules in shadow mode and of removed rules.\n",
	"Examples\n"
	"  weir shield --rules /etc/weir/rules\n"
	"  weir shield --rules /etc/weir/rules --trust 10.0.0.0/8 --never /etc/weir/cdn.txt\n"
	"  weir shield --limit 100/second --port 80,443\n"
	"  weir shield --dry-run | nft --check -f -\n"
	"  weir shield add 198.51.100.7 --for 1h\n"
	"  weir shield add 2001:db8:7::/48 --for 7d\n"
	"  weir shield list --rules /etc/weir/rules\n"
	"\n"
	"Exit: 0 done or ended by a signal, 1 the shield cannot run or the ban was not found,\n"
	"2 usage error.\n",
	groups,
	sizeof groups / sizeof *groups,
	.words = &words,
};

/* ---- settings ---- */

/* Reads a port. Returns 0 if the text is not a port. */
static unsigned read_port(const char *text)
{
	size_t digits = strspn(text, "0123456789");
	unsigned long port = strtoul(text, NULL, 10);

	return digits && !text[digits] && digits <= 5 && port <= UINT16_MAX ? (unsigned)port : 0;
}

static int read_ports(struct wr_nft_settings *settings)
{
	const char *connection = getenv("SSH_CONNECTION");

	if (given.ports.count > WR_NFT_PORTS_MAX || given.ssh_ports.count > WR_SSH_PORTS_MAX - 1)
		return wr_cli_usage("shield", "too many ports");
	for (size_t i = 0; i < given.ports.count; i++) {
		unsigned port = read_port(given.ports.items[i]);

		if (!port)
			return wr_cli_usage("shield", "--port '%s' is not a port",
					    given.ports.items[i]);
		settings->design.ports[settings->design.port_count++] = (uint16_t)port;
	}
	for (size_t i = 0; i < given.ssh_ports.count; i++) {
		unsigned port = read_port(given.ssh_ports.items[i]);

		if (!port)
			return wr_cli_usage("shield", "--ssh-ports '%s' is not a port",
					    given.ssh_ports.items[i]);
		wr_ssh_ports_add(&settings->ssh_ports, port);
	}
	wr_ssh_ports_add(&settings->ssh_ports, wr_ssh_port_of(connection));
	settings->has_ssh_client = wr_ssh_client_of(connection, &settings->ssh_client);
	return 0;
}

static int read_hooks(struct wr_nft_design *design)
{
	for (size_t i = 0; i < given.hooks.count; i++) {
		const char *hook = given.hooks.items[i];

		if (strcmp(hook, "input") == 0)
			design->input = true;
		else if (strcmp(hook, "forward") == 0)
			design->forward = true;
		else
			return wr_cli_usage("shield", "--hooks '%s' is not input or forward", hook);
	}
	return design->input || design->forward ? 0
						: wr_cli_usage("shield", "--hooks names no hook");
}

static int check_networks(void)
{
	struct weir_error error;

	if (wr_protect_check_option(&given.trust, "--trust", false, &error) < 0 ||
	    wr_protect_check_option(&given.never, "--never", true, &error) < 0)
		return wr_cli_usage("shield", "%s", error.text);
	return 0;
}

/* Fills in the settings. Returns 0, or the exit code of a usage error. */
static int read_settings(struct wr_nft_settings *settings)
{
	int code;

	*settings = (struct wr_nft_settings){
		.table_name = table.name,
		.table_dir = table.dir,
		.rules = given.rules,
		.trust = given.trust,
		.never = given.never,
		.design = {.size = (uint32_t)given.size, .reject = given.reject},
		.leave = given.leave,
	};
	code = check_networks();
	if (code == 0)
		code = read_hooks(&settings->design);
	if (code == 0)
		code = read_ports(settings);
	if (code == 0 && (given.limit != NULL) != (given.ports.count > 0))
		code = wr_cli_usage("shield", "--limit and --port need each other");
	if (code == 0 && given.limit &&
	    wr_nft_rate_parse(wr_str(given.limit), &settings->design.limit) < 0)
		code = wr_cli_usage("shield",
				    "--limit '%s' is not a rate such as 100/second, 1000/minute, "
				    "N/hour or N/day",
				    given.limit);
	return code;
}

/* ---- the shield ---- */

static int print_dry_run(const struct wr_nft_settings *settings)
{
	struct weir_error error;
	struct wr_buf buf;
	int rc;

	wr_buf_init(&buf, DRY_RUN_MAX);
	rc = wr_nft_dry_run(settings, &buf, &error);
	if (rc == 0)
		fwrite(buf.ptr, 1, buf.len, stdout);
	wr_buf_free(&buf);
	return rc < 0 ? wr_cli_fail("shield", &error, WR_EXIT_NO) : WR_EXIT_YES;
}

static int run_shield(void)
{
	struct wr_nft_settings settings;
	struct weir_error error;
	struct wr_user user;
	int code = read_settings(&settings);

	if (code)
		return code;
	wr_log_setup("weir shield", WR_LOG_INFO, strcmp(given.log_format, "json") == 0);
	if (given.dry_run)
		return print_dry_run(&settings);
	if (wr_user_find(given.user, &user, &error) < 0)
		return wr_cli_fail("shield", &error, WR_EXIT_USAGE);
	settings.user = (struct wr_nft_user){user.change, user.uid, user.gid, user.name};
	return wr_nft_run_shield(&settings, &error) < 0 ? wr_cli_fail("shield", &error, WR_EXIT_NO)
							: WR_EXIT_YES;
}

/* ---- verbs ---- */

static int check_word_count(size_t wanted)
{
	if (words.count > wanted)
		return wr_cli_usage("shield", "'%s' is an unexpected argument",
				    words.items[wanted]);
	return words.count < wanted
		       ? wr_cli_usage("shield", "%s needs ADDRESS or CIDR", words.items[0])
		       : 0;
}

int wr_cli_shield(int argc, char **argv)
{
	bool is_add, is_list;
	const char *verb;
	int code;

	if (!wr_cli_read(&command, argc, argv, &code))
		return code;
	verb = words.count ? words.items[0] : "";
	is_add = strcmp(verb, "add") == 0;
	is_list = strcmp(verb, "list") == 0;
	if (is_add != (given.span != NULL))
		return wr_cli_usage("shield", is_add ? "add needs --for TIME" : "--for is for add");
	if (given.json && !is_list)
		return wr_cli_usage("shield", "--json is for list");
	if (words.count && given.dry_run)
		return wr_cli_usage("shield", "--dry-run is for the shield itself");
	if (words.count == 0)
		return run_shield();
	code = check_word_count(is_add || strcmp(verb, "release") == 0 ? 2 : 1);
	if (code)
		return code;
	if (is_add)
		return wr_cli_shield_add(&table, words.items[1], given.span);
	if (strcmp(verb, "release") == 0)
		return wr_cli_shield_release(&table, words.items[1]);
	if (strcmp(verb, "flush") == 0)
		return wr_cli_shield_flush(&table);
	if (is_list)
		return wr_cli_shield_list(&table, given.rules, given.json);
	return wr_cli_usage("shield", "'%s' is not one of: add, release, flush, list", verb);
}
