/* The options of `weir serve`: one row per option, with the field of struct wr_settings. */
#include "cli/options/shared.h"

#define AT(field) .at = offsetof(struct wr_settings, field)
#define SECONDS(n) ((uint64_t)(n)*1000000000)
#define DAY SECONDS(86400)

struct wr_settings wr_cli_serve_settings;
const char *wr_cli_serve_headers;

static const struct wr_cli_option ports[] = {
	{"grpc", WR_OPTION_LIST, "ADDR,…", "127.0.0.1:8081",
	 "addresses of Envoy's rate limit service: PORT (all\n"
	 "interfaces), HOST:PORT, [IPV6]:PORT, unix:/path, or off",
	 AT(grpc)},
	{"http", WR_OPTION_LIST, "ADDR,…", "127.0.0.1:8082",
	 "addresses of /v1/check, /check/DOMAIN and /json, HTTP/1.1", AT(http)},
	{"trust", WR_OPTION_LIST, "CIDR,…", NULL,
	 "proxies that may describe requests at /check/DOMAIN, and\n"
	 "whose addresses in X-Forwarded-For are skipped; without\n"
	 "it this machine and private networks",
	 AT(trust)},
	{"resp", WR_OPTION_LIST, "ADDR,…", "127.0.0.1:6380", "addresses of the Redis protocol",
	 AT(resp)},
	{"refunds", WR_OPTION_LIST, "CIDR,…", NULL,
	 "clients that may give hits back, and reset counters at\n"
	 "--resp; unix: is every client of a Unix socket. Without it\n"
	 "root and the service's user on Unix sockets, and clients\n"
	 "with the password of --resp",
	 AT(refunds)},
	{"admin", WR_OPTION_LIST, "ADDR,…", "127.0.0.1:9099",
	 "addresses of the admin API: rules, counters, bans, metrics", AT(admin)},
	{"link-key", WR_OPTION_TEXT, "FILE", NULL,
	 "file with the key that nginx's workers send at a Unix\n"
	 "socket of --resp (weir_link_key); created if missing",
	 AT(link_key_file)},
};

const struct wr_cli_option wr_cli_admin_options[WR_ADMIN_OPTIONS] = {
	{"admin-socket", WR_OPTION_TEXT, "PATH", NULL,
	 "Unix socket of the admin API for root and the service's\n"
	 "user, used by weir's commands; off for none. Without it\n"
	 "TABLE.admin in the table's folder, unless --admin is off",
	 AT(admin_socket)},
	{"admin-token-file", WR_OPTION_TEXT, "FILE", NULL,
	 "tokens for --admin, one per line; required if other\n"
	 "machines can reach it. Without it a token is made at\n"
	 "start and printed in the dashboard's address",
	 AT(admin_token_file)},
	{"admin-open", WR_OPTION_SWITCH, NULL, NULL,
	 "let every user of this machine use --admin without a token", AT(admin_open)},
	{"resp-password-file", WR_OPTION_TEXT, "FILE", NULL,
	 "file with the password for AUTH at --resp", AT(resp_password_file)},
};

static const struct wr_cli_option limits[] = {
	{"rules", WR_OPTION_TEXT, "PATH", NULL,
	 "rule file or directory; changes take effect within a\n"
	 "second",
	 AT(rules)},
	{"table-dir", WR_OPTION_TEXT, "DIR", NULL,
	 "folder of the table; without it /run/weir for root, else\n"
	 "$XDG_RUNTIME_DIR/weir, else /dev/shm",
	 AT(table_dir)},
	{"shadow", WR_OPTION_SWITCH, NULL, NULL, "decide and count, but admit every request",
	 AT(shadow)},
};

const struct wr_cli_option wr_cli_memory_options[WR_MEMORY_OPTIONS] = {
	{"table", WR_OPTION_TEXT, "NAME", "default",
	 "name of the table; processes with the same table share its\n"
	 "counters",
	 AT(table)},
	{"memory", WR_OPTION_SIZE, "SIZE", "64M", "size of the table, about 44 bytes per key",
	 AT(memory_bytes), .min = 262144, .max = (uint64_t)256 << 30},
	{"log-memory", WR_OPTION_SIZE, "SIZE", "0",
	 "part of --memory for sliding window logs, 8 bytes per\n"
	 "request; 0: a quarter if the rules have such limits, else a\n"
	 "sixteenth",
	 AT(log_bytes), .max = (uint64_t)192 << 30},
};

static const struct wr_cli_option watching[] = {
	{"decision-log", WR_OPTION_TEXT, "FILE", NULL,
	 "file for decisions, a line of JSON each; - is standard\n"
	 "output. HUP opens the file again",
	 AT(decision_log)},
	{"decision-log-refused", WR_OPTION_NUMBER, "N", "1000",
	 "maximum number of logged refusals per second", AT(decision_log_refused), .max = 1000000},
	{"decision-log-share", WR_OPTION_TEXT, "PERCENT", "0",
	 "share of other decisions that is logged: 1%, 0.05%, 100%", AT(decision_log_share)},
	{"keys", WR_OPTION_TEXT, "HOW", "text",
	 "how clients' keys are shown in statistics and in that log:\n"
	 "text, hashed, hidden",
	 AT(keys), .choices = "text hashed hidden"},
	{"metrics-rules", WR_OPTION_NUMBER, "N", "5000",
	 "number of rules with their own series at /metrics; all\n"
	 "others are counted as \"other\"",
	 AT(metrics_rules), .min = 1, .max = 65536},
	{"near-limit", WR_OPTION_NUMBER, "PERCENT", "80",
	 "share of a limit above which statistics count near_limit", AT(near_limit_percent),
	 .min = 1, .max = 100},
};

static const struct wr_cli_option tls[] = {
	{"tls-cert", WR_OPTION_TEXT, "FILE", NULL,
	 "certificate with its chain, PEM: --grpc and --resp then\n"
	 "use TLS. Read again when it changes",
	 AT(tls_cert)},
	{"tls-key", WR_OPTION_TEXT, "FILE", NULL, "private key of --tls-cert, PEM", AT(tls_key)},
	{"tls-client-ca", WR_OPTION_TEXT, "FILE", NULL,
	 "CA certificates, PEM: clients must have a certificate\n"
	 "signed by one of them",
	 AT(tls_client_ca)},
	{"tls-client-san", WR_OPTION_LIST, "NAME,…", NULL,
	 "clients' certificates must have one of these names: DNS\n"
	 "name, URI, address or e-mail",
	 AT(tls_client_san)},
};

static const struct wr_cli_option answers[] = {
	{"rls-headers", WR_OPTION_SWITCH, NULL, NULL,
	 "Envoy adds the three header fields below to its responses", AT(rls_headers)},
	{"limit-header", WR_OPTION_TEXT, "NAME", "RateLimit-Limit",
	 "name of the field with the requests per unit", AT(limit_header)},
	{"remaining-header", WR_OPTION_TEXT, "NAME", "RateLimit-Remaining",
	 "name of the field with the remaining requests", AT(remaining_header)},
	{"reset-header", WR_OPTION_TEXT, "NAME", "RateLimit-Reset",
	 "name of the field with the seconds until the reset", AT(reset_header)},
	{"rls-profile", WR_OPTION_TEXT, "PROFILE", "none",
	 "Envoy also adds the fields of a profile: x, ietf, github,\n"
	 "none",
	 AT(rls_profile), .choices = "x ietf github none"},
	{"rls-bodies", WR_OPTION_SWITCH, NULL, NULL,
	 "every refusal has a body (RFC 9457), not only refusals by\n"
	 "rules with a `response`",
	 AT(rls_bodies)},
	{"dynamic-metadata", WR_OPTION_SWITCH, NULL, NULL,
	 "return the request and the rules' metadata to Envoy", AT(dynamic_metadata)},
};

static const struct wr_cli_option profile[] = {
	{"headers", WR_OPTION_TEXT, "PROFILE", "x",
	 "header fields of HTTP responses: x, ietf, github, none", .at = 0,
	 .choices = "x ietf github none"},
};

static const struct wr_cli_option running[] = {
	{"threads", WR_OPTION_NUMBER, "N", "0", "number of event loops; 0: one per processor",
	 AT(threads), .max = 256},
	{"max-connections", WR_OPTION_NUMBER, "N", "16384",
	 "maximum number of connections of all ports together;\n"
	 "--admin has 256 more",
	 AT(max_connections), .min = 1, .max = 1000000},
	{"max-connections-per-address", WR_OPTION_NUMBER, "N", "0",
	 "maximum number of connections of one IPv4 address or IPv6\n"
	 "/64, except this machine's; 0: a quarter of\n"
	 "--max-connections",
	 AT(max_per_address), .max = 1000000},
	{"idle", WR_OPTION_DURATION, "TIME", "1h",
	 "timeout of connections without traffic; 0s: none", AT(idle_ns), .max = 30 * DAY},
	{"slow", WR_OPTION_DURATION, "TIME", "10s",
	 "timeout for a client to finish a handshake, send a\n"
	 "request, or read 4 KiB of a response",
	 AT(slow_ns), .min = 1000000, .max = DAY},
	{"max-age", WR_OPTION_DURATION, "TIME", "0s",
	 "age at which connections are asked to close, with 10 %\n"
	 "jitter, so that clients spread over servers; 0s: never",
	 AT(max_age_ns), .max = 365 * DAY},
	{"drain-delay", WR_OPTION_DURATION, "TIME", "0s",
	 "time from TERM, which reports NOT_SERVING, until the ports\n"
	 "close",
	 AT(drain_delay_ns), .max = DAY},
	{"drain", WR_OPTION_DURATION, "TIME", "30s", "time from then until connections are closed",
	 AT(drain_ns), .max = DAY},
	{"user", WR_OPTION_TEXT, "NAME", NULL,
	 "user of the service when root starts it; a number without\n"
	 "an account is valid. Without it weir, if that user exists",
	 AT(user)},
	{"log-level", WR_OPTION_TEXT, "LEVEL", "info",
	 "least level that is logged: error, warn, info, debug", AT(log_level),
	 .choices = "error warn info debug"},
	{"log-format", WR_OPTION_TEXT, "FORMAT", "text", "form of log lines: text, json",
	 AT(log_format), .choices = "text json"},
};

static const struct wr_cli_option_group groups[] = {
	WR_OPTION_GROUP("Ports", ports, &wr_cli_serve_settings),
	WR_OPTION_GROUP(NULL, wr_cli_admin_options, &wr_cli_serve_settings),
	WR_OPTION_GROUP("Limits", limits, &wr_cli_serve_settings),
	WR_OPTION_GROUP(NULL, wr_cli_memory_options, &wr_cli_serve_settings),
	WR_OPTION_GROUP("Observing", watching, &wr_cli_serve_settings),
	WR_OPTION_GROUP("Redis", wr_cli_redis_options, &wr_cli_serve_settings.redis),
	WR_OPTION_GROUP("Deferred requests", wr_cli_queue_options, &wr_cli_serve_settings.queue),
	WR_OPTION_GROUP("TLS", tls, &wr_cli_serve_settings),
	WR_OPTION_GROUP("Responses of --http", profile, &wr_cli_serve_headers),
	WR_OPTION_GROUP("Responses of --grpc", answers, &wr_cli_serve_settings),
	WR_OPTION_GROUP("Running", running, &wr_cli_serve_settings),
};

const struct wr_cli_command wr_cli_serve_command = {
	"serve",
	"weir serve --rules PATH [--grpc ADDR] [--http ADDR] [--resp ADDR] [--admin ADDR] "
	"[OPTION…]\n"
	"\n"
	"Decides whether requests are admitted: for Envoy over gRPC, for proxies and programs "
	"over\n"
	"HTTP, and for any Redis client. TERM or Ctrl-C stops it when the requests in progress "
	"are\n"
	"done; a second TERM stops it at once. HUP reads rules and certificates again, and opens "
	"the\n"
	"decision log again.\n"
	"\n"
	"If RUNTIME_ROOT, RUNTIME_SUBDIRECTORY or RUNTIME_APPDIRECTORY is set, the variables of\n"
	"envoyproxy/ratelimit are read too; docs/migrate-from-envoy-ratelimit.md lists them.\n",
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
	"Exit: 0 stopped, 1 the rules, the table or a port cannot be used, 2 usage error.\n",
	groups,
	sizeof groups / sizeof *groups,
	.has_config = true,
};
