/* The option --redis and the options that refine it, for `weir serve` and `weir gateway`. */
#include "cli/options/shared.h"

#define AT(field) .at = offsetof(struct wr_serve_redis_settings, field)

const struct wr_cli_option wr_cli_redis_options[WR_REDIS_OPTIONS] = {
	{"redis", WR_OPTION_TEXT, "URL", NULL,
	 "Redis that shares the counters of all rules, except\n"
	 "`local` ones, with other machines:\n"
	 "redis://[USER[:PASSWORD]@]HOST[:PORT][/DB],\n"
	 "rediss:// (TLS), redis+unix:///PATH,\n"
	 "redis+sentinel://HOST,…/MASTER, redis+cluster://HOST,…",
	 AT(url), .secret = true},
	{"redis-password-file", WR_OPTION_TEXT, "FILE", NULL,
	 "file with the password, instead of a password in the URL;\n"
	 "read again when it changes",
	 AT(password_file), .needs = "redis"},
	{"redis-prefix", WR_OPTION_TEXT, "TEXT", "weir", "prefix of every key in Redis", AT(prefix),
	 .needs = "redis queue:redis"},
	{"redis-timeout", WR_OPTION_DURATION, "TIME", "250ms",
	 "timeout for a connection and for a reply; the rule's\n"
	 "on_store_failure then decides",
	 AT(timeout_ns), .min = 1000000, .max = 60000000000, .needs = "redis"},
	{"redis-ca", WR_OPTION_TEXT, "FILE", NULL,
	 "CA certificates, PEM; without it those of the system", AT(ca),
	 .needs = "redis queue:redis"},
	{"redis-cert", WR_OPTION_TEXT, "FILE", NULL,
	 "client certificate, PEM, if Redis requires one", AT(cert), .needs = "redis queue:redis"},
	{"redis-key", WR_OPTION_TEXT, "FILE", NULL, "private key of --redis-cert, PEM", AT(key),
	 .needs = "redis queue:redis"},
	{"key-secret", WR_OPTION_TEXT, "FILE", NULL,
	 "file with the secret that hashes names of counters: the\n"
	 "same on all machines, at least 16 bytes; without it the\n"
	 "machines agree on a secret in Redis",
	 AT(key_secret), .needs = "redis"},
	{"fleet-size", WR_OPTION_NUMBER, "N", "1",
	 "number of machines, for `on_store_failure: local`, until\n"
	 "Redis has counted them",
	 AT(fleet_size), .min = 1, .max = 100000, .needs = "redis"},
	{"sync-interval", WR_OPTION_DURATION, "TIME", "100ms",
	 "how often machines exchange the amounts that they\n"
	 "admitted by `consistency: eventual`; the possible\n"
	 "overshoot grows with it",
	 AT(sync_ns), .min = 10000000, .max = 60000000000, .needs = "redis"},
	{"region", WR_OPTION_TEXT, "NAME", NULL,
	 "name of this region, if several regions each have a\n"
	 "Redis; every region has its own name",
	 AT(region), .needs = "redis"},
	{"peer", WR_OPTION_LIST, "URL,…", NULL,
	 "Redis of the other regions, as --redis: eventual limits\n"
	 "count the amounts of all regions. Needs --region and\n"
	 "--key-secret",
	 AT(peers), .secret = true, .needs = "redis"},
};
