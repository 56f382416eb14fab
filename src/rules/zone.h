/* A time zone, read from a TZif file (RFC 8536) without changing the zone of the process. */
#ifndef WR_RULES_ZONE_H
#define WR_RULES_ZONE_H

#include "base/arena.h"
#include "rules/rules.h"

#define WR_ZONE_DIRECTORY "/usr/share/zoneinfo"
#define WR_ZONE_NAME_MAX 64

/* A day of the year in a POSIX TZ string, and the local time at which the offset changes on that
 * day. */
struct wr_tz_date {
	/* 'M': `month`, `week` and `day` (0 is Sunday) are used. 'J': only `day` is used, from 1 to
	 * 365; 29 February is not counted. 'N': only `day` is used, from 0 to 365; 29 February is
	 * counted. */
	char kind;
	int16_t month, week, day;
	int32_t time_s;
};

/* The contents of a POSIX TZ string: the offsets after the last transition of the zone file. */
struct wr_tz_rule {
	int32_t standard_s; /* offset of standard time in seconds, positive east of Greenwich */
	int32_t summer_s;
	bool has_summer;
	struct wr_tz_date start, end;
};

struct wr_zone {
	struct weir_str name;
	uint32_t count;
	const int64_t *times_s; /* times of the transitions, ascending */
	/* offsets_s[i] is the offset before times_s[i], offsets_s[count] the offset after the last
	 * transition. */
	const int32_t *offsets_s;
	bool has_rule;
	struct wr_tz_rule rule;
	const struct wr_zone *next; /* next zone of the same generation of rules */
};

enum wr_zone_error {
	WR_ZONE_OK,
	WR_ZONE_NAME,    /* not a valid name of a zone */
	WR_ZONE_ABSENT,  /* there is no such file */
	WR_ZONE_DAMAGED, /* the file is not valid TZif */
	WR_ZONE_MEMORY,
};

enum wr_zone_error wr_zone_load(struct wr_arena *arena, const char *directory, struct weir_str name,
				struct wr_zone **zone);

/* Reads a zone from the bytes of a TZif file. Tests call it too. */
enum wr_zone_error wr_zone_parse(struct wr_arena *arena, const uint8_t *bytes, size_t len,
				 struct wr_zone *zone);

/* Reads a TZ string such as "EST5EDT,M3.2.0,M11.1.0". Returns 0, or -1 if it is invalid. */
int wr_tz_rule_parse(struct weir_str text, struct wr_tz_rule *rule);

/* Returns the offset from UTC in seconds at an instant. Sets *until_s to the time until which this
 * offset is valid, or to INT64_MAX if the offset never changes. */
int32_t wr_zone_offset(const struct wr_zone *zone, int64_t at_s, int64_t *until_s);

/* Does the same as wr_zone_offset(), for times after the last transition of the file. */
int32_t wr_tz_rule_offset(const struct wr_tz_rule *rule, int64_t at_s, int64_t *until_s);

#endif
