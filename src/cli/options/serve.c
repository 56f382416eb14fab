/* weir serve: its options. */
#include "cli/serve.h"

#include "cli/options/queue.h"
#include "cli/options/redis.h"

#define AT(field) .at = offsetof(struct wr_settings, field)
#define SECONDS(n) ((uint64_t)(n)*1000000000)
#define DAY SECONDS(86400)

struct wr_settings serve_settings;
const char *serve_headers;

static const struct wr_option ports[] = {
	{"grpc", WR_OPTION_LIST, "ADDR,…", "127.0.0.1:8081",
	 "Envoy's rate limit service: PORT (all addresses),\n"
	 "HOST:PORT, [IPV6]:PORT, unix:/path, or off",
	 AT(grpc)},
	{"http", WR_OPTION_LIST, "ADDR,…", "127.0.0.1:8082",
	 "/v1/check, /check/DOMAIN, /json, HTTP/1.1", AT(http)},
	{"trust", WR_OPTION_LIST, "CIDR,…", NULL,
	 "proxies that may describe requests at /check/DOMAIN, and\n"
	 "whose own addresses in X-Forwarded-For are passed over\n"
	 "(otherwise: this machine and private networks)",
	 AT(trust)},
	{"resp", WR_OPTION_LIST, "ADDR,…", "127.0.0.1:6380", "the Redis protocol", AT(resp)},
	{"refunds", WR_OPTION_LIST, "CIDR,…", NULL,
	 "clients that may give hits back, and reset counters by\n"
	 "--resp; unix: is all on Unix sockets (otherwise: there root\n"
	 "and the service's user, and those that know a password of\n"
	 "--resp)",
	 AT(refunds)},
	{"admin", WR_OPTION_LIST, "ADDR,…", "127.0.0.1:9099", "rules, counters, bans, metrics",
	 AT(admin)},
	{"admin-socket", WR_OPTION_TEXT, "PATH", NULL,
	 "Unix socket of the same for root and the service's user,\n"
	 "which weir's commands ask; off for none (TABLE.admin in\n"
	 "the table's folder, unless --admin is off)",
	 AT(admin_socket)},
	{"admin-token-file", WR_OPTION_TEXT, "FILE", NULL,
	 "tokens for --admin, one a line; needed when others than\n"
	 "this machine can reach it (otherwise: one that is made at\n"
	 "start and printed in the dashboard's address)",
	 AT(admin_token_file)},
	{"admin-open", WR_OPTION_SWITCH, NULL, NULL,
	 "let every user of this machine use --admin without a token", AT(admin_open)},
	{"resp-password-file", WR_OPTION_TEXT, "FILE", NULL, "password for AUTH of --resp",
	 AT(resp_password_file)},
	{"link-key", WR_OPTION_TEXT, "FILE", NULL,
	 "key that nginx's workers show at a Unix socket of --resp\n"
	 "(weir_link_key); made if the file is not there",
	 AT(link_key_file)},
};

static const struct wr_option limits[] = {
	{"rules", WR_OPTION_TEXT, "PATH", NULL,
	 "rule file or directory; changes are noticed within a\n"
	 "second",
	 AT(rules)},
	{"table", WR_OPTION_TEXT, "NAME", "default",
	 "the counters: processes that name one table share them", AT(table)},
	{"table-dir", WR_OPTION_TEXT, "DIR", NULL,
	 "its folder (/run/weir for root, else $XDG_RUNTIME_DIR/weir,\n"
	 "else /dev/shm)",
	 AT(table_dir)},
	{"memory", WR_OPTION_SIZE, "SIZE", "64M", "the table's size, about 44 bytes a key",
	 AT(memory_bytes), .min = 262144, .max = (uint64_t)256 << 30},
	{"log-memory", WR_OPTION_SIZE, "SIZE", "0",
	 "of it for sliding window logs, 8 bytes a stamp; 0: a quarter if\n"
	 "the rules have such limits, else a sixteenth",
	 AT(log_bytes), .max = (uint64_t)1 << 40},
	{"shadow", WR_OPTION_SWITCH, NULL, NULL, "decide and count, but let everything pass",
	 AT(shadow)},
};

static const struct wr_option watching[] = {
	{"decision-log", WR_OPTION_TEXT, "FILE", NULL,
	 "decisions, a line of JSON each; - is standard output.\n"
	 "HUP opens it again",
	 AT(decision_log)},
	{"decision-log-refused", WR_OPTION_NUMBER, "N", "1000",
	 "refusals told in a second, at most", AT(decision_log_refused), .max = 1000000},
	{"decision-log-share", WR_OPTION_TEXT, "PERCENT", "0",
	 "how many of the others are told: 1%, 0.05%, 100%", AT(decision_log_share)},
	{"keys", WR_OPTION_TEXT, "HOW", "text",
	 "how clients' keys are shown in statistics and in that log:\n"
	 "text, hashed, hidden",
	 AT(keys), .choices = "text hashed hidden"},
	{"metrics-rules", WR_OPTION_NUMBER, "N", "5000",
	 "rules that have series of their own at /metrics; the\n"
	 "rest is counted as \"other\"",
	 AT(metrics_rules), .min = 1, .max = 65536},
	{"near-limit", WR_OPTION_NUMBER, "PERCENT", "80",
	 "above which share of a limit statistics say near_limit", AT(near_limit_percent), .min = 1,
	 .max = 100},
};

static const struct wr_option tls[] = {
	{"tls-cert", WR_OPTION_TEXT, "FILE", NULL,
	 "certificate with its chain, PEM: --grpc and --resp then\n"
	 "speak TLS. Read again when it changes",
	 AT(tls_cert)},
	{"tls-key", WR_OPTION_TEXT, "FILE", NULL, "its private key, PEM", AT(tls_key)},
	{"tls-client-ca", WR_OPTION_TEXT, "FILE", NULL,
	 "clients have to show a certificate signed by one of these", AT(tls_client_ca)},
	{"tls-client-san", WR_OPTION_LIST, "NAME,…", NULL,
	 "… that is for one of these: DNS name, URI, address, e-mail", AT(tls_client_san)},
};

static const struct wr_option answers[] = {
	{"rls-headers", WR_OPTION_SWITCH, NULL, NULL,
	 "Envoy adds the three fields below to its answers", AT(rls_headers)},
	{"limit-header", WR_OPTION_TEXT, "NAME", "RateLimit-Limit", "requests per unit",
	 AT(limit_header)},
	{"remaining-header", WR_OPTION_TEXT, "NAME", "RateLimit-Remaining", "what is left",
	 AT(remaining_header)},
	{"reset-header", WR_OPTION_TEXT, "NAME", "RateLimit-Reset", "seconds until it is new",
	 AT(reset_header)},
	{"rls-profile", WR_OPTION_TEXT, "PROFILE", "none",
	 "… and those of a profile: x, ietf, github, none", AT(rls_profile),
	 .choices = "x ietf github none"},
	{"rls-bodies", WR_OPTION_SWITCH, NULL, NULL,
	 "every refusal has a body (RFC 9457), not only those of\n"
	 "rules with a `response`",
	 AT(rls_bodies)},
	{"dynamic-metadata", WR_OPTION_SWITCH, NULL, NULL,
	 "Envoy gets the question and the rules' metadata back", AT(dynamic_metadata)},
};

static const struct wr_option profile[] = {
	{"headers", WR_OPTION_TEXT, "PROFILE", "x", "fields of HTTP answers: x, ietf, github, none",
	 .at = 0, .choices = "x ietf github none"},
};

static const struct wr_option running[] = {
	{"threads", WR_OPTION_NUMBER, "N", "0", "loops; 0: one for each processor", AT(threads),
	 .max = 256},
	{"max-connections", WR_OPTION_NUMBER, "N", "16384",
	 "of all ports together; --admin has 256 of its own", AT(max_connections), .min = 1,
	 .max = 1000000},
	{"max-connections-per-address", WR_OPTION_NUMBER, "N", "0",
	 "of one IPv4 address or /64 of IPv6; this machine's are\n"
	 "not counted. 0: a quarter of --max-connections",
	 AT(max_per_address), .max = 1000000},
	{"idle", WR_OPTION_DURATION, "TIME", "1h",
	 "connections on which nothing happens are closed; 0s: never", AT(idle_ns),
	 .max = 30 * DAY},
	{"slow", WR_OPTION_DURATION, "TIME", "10s",
	 "a client's time for a handshake, a request, or for\n"
	 "reading 4 KiB of an answer",
	 AT(slow_ns), .min = 1000000, .max = DAY},
	{"max-age", WR_OPTION_DURATION, "TIME", "0s",
	 "connections of this age are asked to go, give or take\n"
	 "a tenth, so that clients spread out; 0s: never",
	 AT(max_age_ns), .max = 365 * DAY},
	{"drain-delay", WR_OPTION_DURATION, "TIME", "0s",
	 "on TERM: from NOT_SERVING until the ports close", AT(drain_delay_ns), .max = DAY},
	{"drain", WR_OPTION_DURATION, "TIME", "30s", "… and from there until connections are cut",
	 AT(drain_ns), .max = DAY},
	{"user", WR_OPTION_TEXT, "NAME", NULL,
	 "when root starts it, whose rights to take on (weir, if\n"
	 "that user exists); a number that no account has will do",
	 AT(user)},
	{"log-level", WR_OPTION_TEXT, "LEVEL", "info", "error, warn, info, debug", AT(log_level),
	 .choices = "error warn info debug"},
	{"log-format", WR_OPTION_TEXT, "FORMAT", "text", "text, json", AT(log_format),
	 .choices = "text json"},
};

#define GROUP(title, options, into)                                                                \
	{                                                                                          \
		title, options, sizeof(options) / sizeof *(options), into                          \
	}

static const struct wr_option_group groups[] = {
	GROUP("Ports", ports, &serve_settings),
	GROUP("Limits", limits, &serve_settings),
	GROUP("Watching", watching, &serve_settings),
	{"Redis", redis_options, WR_REDIS_OPTIONS, &serve_settings.redis},
	{"Deferred requests", queue_options, WR_QUEUE_OPTIONS, &serve_settings.queue},
	GROUP("TLS", tls, &serve_settings),
	GROUP("Answers of --http", profile, &serve_headers),
	GROUP("Answers of --grpc", answers, &serve_settings),
	GROUP("Running", running, &serve_settings),
};

const struct wr_command serve_command = {
	"serve",
	"weir serve --rules PATH [--grpc ADDR] [--http ADDR] [--resp ADDR] [--admin ADDR] "
	"[OPTION…]\n"
	"\n"
	"Answers whether requests may pass: to Envoy over gRPC, to proxies and programs over "
	"HTTP,\n"
	"and to any Redis client. TERM or Ctrl-C ends it after the requests under way, a second\n"
	"one at once; HUP reads rules and certificates again, and opens the decision log again.\n"
	"\n"
	"Where RUNTIME_ROOT, RUNTIME_SUBDIRECTORY or RUNTIME_APPDIRECTORY is set, the variables "
	"of\n"
	"envoyproxy/ratelimit count too; docs/migrate-from-envoy-ratelimit.md has the list.\n",
	"Examples\n"
	"  weir serve --rules rules.yaml\n"
	"  weir serve --rules /etc/weir/rules --grpc unix:/run/weir/rls.sock --resp off\n"
	"  weir serve --rules rules.yaml --redis rediss://weir@redis.internal "
	"--redis-password-file "
	"redis.pw\n"
	"  weir serve --rules rules.yaml --queue file:/var/lib/weir/queue \\\n"
	"      --queue-target http://127.0.0.1:3000\n"
	"  weir serve --rules rules.yaml --tls-cert cert.pem --tls-key key.pem \\\n"
	"      --tls-client-ca clients.pem --tls-client-san spiffe://example.org/envoy\n"
	"\n"
	"Exit: 0 stopped, 1 the rules, the table or a port was in the way, 2 not understood.\n",
	groups,
	sizeof groups / sizeof *groups,
	.has_config = true,
};
