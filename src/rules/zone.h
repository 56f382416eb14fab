/* A time zone, read from a TZif file (RFC 8536) without changing the zone of the process. */
#ifndef WR_RULES_ZONE_H
#define WR_RULES_ZONE_H

#include "base/arena.h"
#include "rules/rules.h"

#define WR_ZONE_DIRECTORY "/usr/share/zoneinfo"
#define WR_ZONE_NAME_MAX 64

/* A day of the year in a POSIX TZ string, and the local time of the change. */
struct wr_tz_date {
	char kind; /* 'M': month, week, day; 'J': day 1–365 without leap days; 'N': day 0–365 */
	int16_t month, week, day;
	int32_t time_s;
};

/* The rule after the last transition of the file. */
struct wr_tz_rule {
	int32_t standard_s; /* east of Greenwich */
	int32_t summer_s;
	bool has_summer;
	struct wr_tz_date start, end;
};

struct wr_zone {
	struct weir_str name;
	uint32_t count;
	const int64_t *times_s;   /* of the transitions, ascending */
	const int32_t *offsets_s; /* [i]: before times_s[i]; [count]: after the last */
	bool has_rule;
	struct wr_tz_rule rule;
	const struct wr_zone *next; /* zones of one generation */
};

enum wr_zone_error {
	WR_ZONE_OK,
	WR_ZONE_NAME,    /* not a valid name of a zone */
	WR_ZONE_ABSENT,  /* no such file */
	WR_ZONE_DAMAGED, /* not TZif */
	WR_ZONE_MEMORY,
};

enum wr_zone_error wr_zone_load(struct wr_arena *arena, const char *directory, struct weir_str name,
				struct wr_zone **zone);

/* Reads a zone from bytes, for tests. */
enum wr_zone_error wr_zone_parse(struct wr_arena *arena, const uint8_t *bytes, size_t len,
				 struct wr_zone *zone);

/* "EST5EDT,M3.2.0,M11.1.0". Returns 0 or -1. */
int wr_tz_rule_parse(struct weir_str text, struct wr_tz_rule *rule);

/* The offset at an instant, and the end of its validity (INT64_MAX: none). */
int32_t wr_zone_offset(const struct wr_zone *zone, int64_t at_s, int64_t *until_s);

/* The same by the rule only. */
int32_t wr_tz_rule_offset(const struct wr_tz_rule *rule, int64_t at_s, int64_t *until_s);

#endif
