/* The option --queue and the options that refine it, for `weir serve` and `weir gateway`. */
#include "cli/options/shared.h"

#define AT(field) .at = offsetof(struct wr_serve_queue_settings, field)
#define SECONDS(n) ((uint64_t)(n)*1000000000)
#define DAY SECONDS(86400)

const struct wr_cli_option wr_cli_queue_options[WR_QUEUE_OPTIONS] = {
	{"queue", WR_OPTION_TEXT, "URL", NULL,
	 "storage of requests that a rule with on_limit: defer\n"
	 "refuses: file:/folder, redis://HOST, rediss://HOST,\n"
	 "redis+unix:/path, or off",
	 AT(url), .secret = true},
	{"queue-password-file", WR_OPTION_TEXT, "FILE", NULL,
	 "file with the password of that Redis, instead of a\n"
	 "password in the URL. --redis-ca, --redis-cert,\n"
	 "--redis-key and --redis-prefix apply to this Redis too",
	 AT(password_file), .needs = "queue:redis"},
	{"queue-assume-durable", WR_OPTION_SWITCH, NULL, NULL,
	 "accept a Redis whose settings cannot be read (CONFIG is\n"
	 "blocked), and assume that it does not lose writes",
	 AT(assume_durable), .needs = "queue:redis"},
	{"queue-target", WR_OPTION_TEXT, "URL", NULL,
	 "server that receives deferred requests, at the rate of\n"
	 "the rule: http://HOST:PORT, https://HOST, unix:/path",
	 AT(target), .needs = "queue"},
	{"queue-target-ca", WR_OPTION_TEXT, "FILE", NULL,
	 "CA certificates for https targets, PEM, instead of those\n"
	 "of the system",
	 AT(target_ca), .needs = "queue"},
	{"queue-key", WR_OPTION_TEXT, "FILE", NULL,
	 "file with the key that encrypts Authorization, Cookie and\n"
	 "similar fields: 32 bytes, raw or in hexadecimal digits",
	 AT(key_file), .needs = "queue"},
	{"queue-max", WR_OPTION_NUMBER, "N", "100000", "maximum number of requests in the queue",
	 AT(max_requests), .min = 1, .max = 1000000000, .needs = "queue"},
	{"queue-bytes", WR_OPTION_SIZE, "SIZE", "1G", "maximum size of the queue", AT(max_bytes),
	 .min = 65536, .max = (uint64_t)1 << 50, .needs = "queue"},
	{"queue-line-bytes", WR_OPTION_SIZE, "SIZE", "0",
	 "maximum size of the requests of one key; 0: a\n"
	 "sixteenth of --queue-bytes, at least 4M",
	 AT(max_line_bytes), .min = 0, .max = (uint64_t)1 << 50, .needs = "queue"},
	{"queue-dead-max", WR_OPTION_NUMBER, "N", "0",
	 "maximum number of dead letters, beside --queue-max; the\n"
	 "oldest are removed first; 0: a tenth of --queue-max",
	 AT(max_dead), .min = 0, .max = 1000000000, .needs = "queue"},
	{"queue-dead-bytes", WR_OPTION_SIZE, "SIZE", "0",
	 "maximum size of dead letters; 0: a quarter of\n"
	 "--queue-bytes",
	 AT(max_dead_bytes), .min = 0, .max = (uint64_t)1 << 50, .needs = "queue"},
	{"queue-connections", WR_OPTION_NUMBER, "N", "32",
	 "maximum number of deliveries at the same time", AT(connections), .min = 1, .max = 1024,
	 .needs = "queue"},
	{"queue-timeout", WR_OPTION_DURATION, "TIME", "60s",
	 "timeout of one delivery; the request is then retried", AT(timeout_ns), .min = 1000000,
	 .max = SECONDS(3600), .needs = "queue"},
	{"queue-keep", WR_OPTION_DURATION, "TIME", "24h",
	 "how long a ticket reports the result of its request", AT(keep_ns), .min = SECONDS(1),
	 .max = 366 * DAY, .needs = "queue"},
};
