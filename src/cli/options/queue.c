#include "cli/options/queue.h"

#include "serve/settings.h"

#define AT(field) .at = offsetof(struct wr_queue_settings, field)
#define SECONDS(n) ((uint64_t)(n)*1000000000)
#define DAY SECONDS(86400)

const struct wr_option queue_options[WR_QUEUE_OPTIONS] = {
	{"queue", WR_OPTION_TEXT, "URL", NULL,
	 "where requests are kept that a rule with on_limit: defer\n"
	 "refused: file:/folder, redis://HOST, rediss://HOST,\n"
	 "redis+unix:/path, or off",
	 AT(url), .secret = true},
	{"queue-password-file", WR_OPTION_TEXT, "FILE", NULL,
	 "password of that Redis, so that it is not in the URL;\n"
	 "--redis-ca, --redis-cert, --redis-key and --redis-prefix\n"
	 "are for both",
	 AT(password_file)},
	{"queue-assume-durable", WR_OPTION_SWITCH, NULL, NULL,
	 "a Redis that does not tell its settings (CONFIG is blocked)\n"
	 "is taken to keep what it has answered",
	 AT(assume_durable)},
	{"queue-target", WR_OPTION_TEXT, "URL", NULL,
	 "where they are delivered to, at the rate of the rule:\n"
	 "http://HOST:PORT, https://HOST, unix:/path",
	 AT(target)},
	{"queue-target-ca", WR_OPTION_TEXT, "FILE", NULL,
	 "certificates to believe there, instead of those that\n"
	 "the system trusts",
	 AT(target_ca)},
	{"queue-key", WR_OPTION_TEXT, "FILE", NULL,
	 "key that Authorization, Cookie and the like are sealed\n"
	 "with: 32 bytes, as they are or in hexadecimal digits",
	 AT(key_file)},
	{"queue-max", WR_OPTION_NUMBER, "N", "100000", "requests it may hold", AT(max_requests),
	 .min = 1, .max = 1000000000},
	{"queue-bytes", WR_OPTION_SIZE, "SIZE", "1G", "… and bytes of them", AT(max_bytes),
	 .min = 65536, .max = (uint64_t)1 << 50},
	{"queue-line-bytes", WR_OPTION_SIZE, "SIZE", "0",
	 "… of one key; 0: a sixteenth of them, at least 4M", AT(max_line_bytes), .min = 0,
	 .max = (uint64_t)1 << 50},
	{"queue-dead-max", WR_OPTION_NUMBER, "N", "0",
	 "dead letters it may hold besides, beyond which the oldest\n"
	 "go; 0: a tenth of --queue-max",
	 AT(max_dead), .min = 0, .max = 1000000000},
	{"queue-dead-bytes", WR_OPTION_SIZE, "SIZE", "0",
	 "… and bytes of them; 0: a quarter of --queue-bytes", AT(max_dead_bytes), .min = 0,
	 .max = (uint64_t)1 << 50},
	{"queue-connections", WR_OPTION_NUMBER, "N", "32", "deliveries at once", AT(connections),
	 .min = 1, .max = 1024},
	{"queue-timeout", WR_OPTION_DURATION, "TIME", "60s",
	 "for an answer to a delivery; then it is tried again", AT(timeout_ns), .min = 1000000,
	 .max = SECONDS(3600)},
	{"queue-keep", WR_OPTION_DURATION, "TIME", "24h",
	 "how long a ticket tells what became of it", AT(keep_ns), .min = SECONDS(1),
	 .max = 366 * DAY},
};
