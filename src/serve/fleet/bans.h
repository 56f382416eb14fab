/* Automatic bans of this machine: the chief loop reads their orders from the table's ring
 * (table/ban_order.h), logs them, and publishes them to the other nodes. */
#ifndef WR_SERVE_FLEET_BANS_H
#define WR_SERVE_FLEET_BANS_H

#include <stdbool.h>
#include <stdint.h>

#include "table/ban_order.h"

struct wr_loop;
struct wr_serve_redis;

/* Maximum number of log lines about automatic bans in a minute. */
#define WR_BAN_LOG_LINES 60u

/* The position of a chief loop in the ring. The other loops do not use this struct. */
struct wr_serve_bans {
	uint64_t table_id[2]; /* the table whose ring is read */
	uint64_t log_at;      /* number of the next order that is logged */
	uint64_t publish_at;  /* number of the next order that is published */
	uint64_t lost;        /* orders that the ring has overwritten before they were published */
	bool lost_logged;
	uint64_t minute_ms; /* when the present minute of the log began */
	uint32_t lines;     /* number of lines in this minute */
	uint64_t held;      /* number of lines that were left out in this minute */
};

/* Called when the chief loop has got a table: at its start, or after a resize. Orders that were not
 * published before are published now, but not logged. */
void wr_serve_bans_begin(struct wr_loop *loop);

/* Logs and publishes new orders of the ring. Called in the chief loop four times a second. */
void wr_serve_bans_sweep(struct wr_loop *loop);

/* Returns the place in the stream of control messages from which a service with this table reads.
 * All fields are 0 if the table was not used in this fleet before. */
struct wr_ban_place wr_serve_bans_place(const struct wr_serve_redis *redis,
					const struct weir_table *table);

/* Returns whether one more line about an automatic ban can be logged in this minute. A line that is
 * left out is counted, and the number is logged at the end of the minute. */
bool wr_serve_bans_may_log(struct wr_loop *loop);

#endif
