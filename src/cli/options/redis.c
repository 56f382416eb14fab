#include "cli/options/redis.h"

#include "serve/settings.h"

#define AT(field) .at = offsetof(struct wr_redis_settings, field)

const struct wr_option redis_options[WR_REDIS_OPTIONS] = {
	{"redis", WR_OPTION_TEXT, "URL", NULL,
	 "share the counters of rules that are not `local` with\n"
	 "other machines: redis://[USER[:PASSWORD]@]HOST[:PORT][/DB],\n"
	 "rediss:// (TLS), redis+unix:///PATH,\n"
	 "redis+sentinel://HOST,…/MASTER, redis+cluster://HOST,…",
	 AT(url), .secret = true},
	{"redis-password-file", WR_OPTION_TEXT, "FILE", NULL,
	 "the password, so that it is not in the URL; read again\n"
	 "when it changes",
	 AT(password_file), .needs = "redis"},
	{"redis-prefix", WR_OPTION_TEXT, "TEXT", "weir", "what every key begins with", AT(prefix),
	 .needs = "redis queue"},
	{"redis-timeout", WR_OPTION_DURATION, "TIME", "250ms",
	 "for connecting and for an answer; after it a rule does\n"
	 "what its on_store_failure says",
	 AT(timeout_ns), .min = 1000000, .max = 60000000000, .needs = "redis"},
	{"redis-ca", WR_OPTION_TEXT, "FILE", NULL,
	 "certificates to believe, PEM (those of the system)", AT(ca), .needs = "redis queue"},
	{"redis-cert", WR_OPTION_TEXT, "FILE", NULL, "our certificate, if Redis asks for one",
	 AT(cert), .needs = "redis queue"},
	{"redis-key", WR_OPTION_TEXT, "FILE", NULL, "its private key", AT(key),
	 .needs = "redis queue"},
	{"key-secret", WR_OPTION_TEXT, "FILE", NULL,
	 "what names of counters are hashed with: the same on all\n"
	 "machines, at least 16 bytes (agreed upon in Redis)",
	 AT(key_secret), .needs = "redis"},
	{"fleet-size", WR_OPTION_NUMBER, "N", "1",
	 "machines there are, for `on_store_failure: local`, until\n"
	 "they have been counted in Redis",
	 AT(fleet_size), .min = 1, .max = 100000, .needs = "redis"},
	{"sync-interval", WR_OPTION_DURATION, "TIME", "100ms",
	 "how often machines tell each other what they admitted by\n"
	 "`consistency: eventual`; what may be admitted too much\n"
	 "grows with it",
	 AT(sync_ns), .min = 10000000, .max = 60000000000, .needs = "redis"},
	{"region", WR_OPTION_TEXT, "NAME", NULL,
	 "this region's name, where several have a Redis each; not\n"
	 "that of another one",
	 AT(region), .needs = "redis"},
	{"peer", WR_OPTION_LIST, "URL,…", NULL,
	 "Redis of the other regions, as --redis: eventual limits\n"
	 "count what was admitted in all of them. Needs --region\n"
	 "and --key-secret",
	 AT(peers), .secret = true, .needs = "redis"},
};
