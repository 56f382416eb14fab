/* Reads TZif files. A file has a header and data with 32-bit times. From version 2 on, a second
 * header and data with 64-bit times follow, and then a footer, which is a POSIX TZ string between
 * two newlines. Files are not trusted. */
#include "rules/zone.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include "base/str.h"

#define HEADER_BYTES 44
#define FILE_MAX ((size_t)256 * 1024)
#define OFFSET_MAX_S (26 * 3600) /* RFC 8536 allows −25 to +26 hours */

struct header {
	uint8_t version;
	uint32_t isutcnt, isstdcnt, leapcnt, timecnt, typecnt, charcnt;
};

static uint32_t read_u32(const uint8_t *at)
{
	return (uint32_t)at[0] << 24 | (uint32_t)at[1] << 16 | (uint32_t)at[2] << 8 | at[3];
}

static int read_header(const uint8_t *bytes, size_t len, struct header *h)
{
	if (len < HEADER_BYTES || memcmp(bytes, "TZif", 4) != 0)
		return -1;
	*h = (struct header){bytes[4],
			     read_u32(bytes + 20),
			     read_u32(bytes + 24),
			     read_u32(bytes + 28),
			     read_u32(bytes + 32),
			     read_u32(bytes + 36),
			     read_u32(bytes + 40)};
	if (h->timecnt > FILE_MAX || h->typecnt > 256 || h->typecnt == 0 || h->charcnt > FILE_MAX ||
	    h->leapcnt > FILE_MAX || h->isstdcnt > 256 || h->isutcnt > 256)
		return -1;
	return 0;
}

static size_t data_size(const struct header *h, size_t width)
{
	return h->timecnt * (width + 1) + (size_t)h->typecnt * 6 + h->charcnt +
	       h->leapcnt * (width + 4) + h->isstdcnt + h->isutcnt;
}

/* Reads transitions and offsets. A type in the file consists of an offset, a flag for summer time
 * and a name; only the offset is used. Times before the first transition have the offset
 * of the first type. */
static enum wr_zone_error read_data(struct wr_arena *arena, const uint8_t *data,
				    const struct header *h, size_t width, struct wr_zone *zone)
{
	const uint8_t *indices = data + h->timecnt * width;
	const uint8_t *types = indices + h->timecnt;
	int64_t *times = wr_arena_alloc(arena, h->timecnt * sizeof *times + 1);
	int32_t *offsets = wr_arena_alloc(arena, (h->timecnt + 1) * sizeof *offsets);

	if (!times || !offsets)
		return WR_ZONE_MEMORY;
	for (uint32_t i = 0; i <= h->timecnt; i++) {
		uint8_t type = i ? indices[i - 1] : 0;

		if (type >= h->typecnt)
			return WR_ZONE_DAMAGED;
		offsets[i] = (int32_t)read_u32(types + (size_t)type * 6);
		if (offsets[i] < -OFFSET_MAX_S || offsets[i] > OFFSET_MAX_S)
			return WR_ZONE_DAMAGED;
		if (i == h->timecnt)
			break;
		times[i] = (int32_t)read_u32(data + i * width);
		if (width == 8)
			times[i] = (int64_t)((uint64_t)times[i] << 32 |
					     read_u32(data + i * width + 4));
		if (i && times[i] <= times[i - 1])
			return WR_ZONE_DAMAGED;
	}
	zone->count = h->timecnt;
	zone->times_s = times;
	zone->offsets_s = offsets;
	return WR_ZONE_OK;
}

static enum wr_zone_error read_footer(const uint8_t *bytes, size_t len, struct wr_zone *zone)
{
	struct weir_str text = {(const char *)bytes, len};
	size_t end;

	if (len < 2 || text.ptr[0] != '\n')
		return WR_ZONE_DAMAGED;
	text = wr_str_from(text, 1);
	end = wr_str_find(text, '\n');
	if (end == text.len)
		return WR_ZONE_DAMAGED;
	if (end == 0)
		return WR_ZONE_OK;
	zone->has_rule = true;
	return wr_tz_rule_parse(wr_str_first(text, end), &zone->rule) == 0 ? WR_ZONE_OK
									   : WR_ZONE_DAMAGED;
}

enum wr_zone_error wr_zone_parse(struct wr_arena *arena, const uint8_t *bytes, size_t len,
				 struct wr_zone *zone)
{
	struct header h;
	size_t width = 4, size;
	enum wr_zone_error error;

	if (read_header(bytes, len, &h) != 0)
		return WR_ZONE_DAMAGED;
	if (h.version >= '2') {
		size = HEADER_BYTES + data_size(&h, 4);
		if (size > len || read_header(bytes + size, len - size, &h) != 0)
			return WR_ZONE_DAMAGED;
		bytes += size;
		len -= size;
		width = 8;
	}
	size = data_size(&h, width);
	if (size > len - HEADER_BYTES)
		return WR_ZONE_DAMAGED;
	error = read_data(arena, bytes + HEADER_BYTES, &h, width, zone);
	if (error == WR_ZONE_OK && width == 8)
		error = read_footer(bytes + HEADER_BYTES + size, len - HEADER_BYTES - size, zone);
	return error;
}

/* Returns whether a name is valid, as Europe/Berlin and Etc/GMT+3 are. Rejects names that lead out
 * of the directory. */
static bool is_name(struct weir_str name)
{
	if (name.len == 0 || name.len > WR_ZONE_NAME_MAX || name.ptr[0] == '/' ||
	    name.ptr[name.len - 1] == '/')
		return false;
	for (size_t i = 0; i < name.len; i++) {
		char c = name.ptr[i];

		if (!(wr_lower(c) >= 'a' && wr_lower(c) <= 'z') && !(c >= '0' && c <= '9') &&
		    c != '_' && c != '-' && c != '+' && c != '/')
			return false;
	}
	return true;
}

static enum wr_zone_error read_zone_file(struct wr_arena *arena, const char *path,
					 struct wr_zone *zone)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	struct wr_arena scratch;
	enum wr_zone_error error = WR_ZONE_DAMAGED;
	uint8_t *bytes;
	size_t len = 0;
	ssize_t n = 1;

	if (fd < 0)
		return WR_ZONE_ABSENT;
	wr_arena_init(&scratch, 2 * FILE_MAX);
	bytes = wr_arena_alloc(&scratch, FILE_MAX);
	if (!bytes)
		error = WR_ZONE_MEMORY;
	while (bytes && len < FILE_MAX && n > 0) {
		n = read(fd, bytes + len, FILE_MAX - len);
		len += n > 0 ? (size_t)n : 0;
	}
	if (bytes && n == 0)
		error = wr_zone_parse(arena, bytes, len, zone);
	wr_arena_free(&scratch);
	close(fd);
	return error;
}

enum wr_zone_error wr_zone_load(struct wr_arena *arena, const char *directory, struct weir_str name,
				struct wr_zone **zone)
{
	char path[256];

	if (!is_name(name))
		return WR_ZONE_NAME;
	*zone = wr_arena_alloc(arena, sizeof **zone);
	if (!*zone)
		return WR_ZONE_MEMORY;
	(*zone)->name = (struct weir_str){wr_arena_copy(arena, name.ptr, name.len), name.len};
	if (!(*zone)->name.ptr)
		return WR_ZONE_MEMORY;
	snprintf(path, sizeof path, "%s/%.*s", directory, (int)name.len, name.ptr);
	return read_zone_file(arena, path, *zone);
}

int32_t wr_zone_offset(const struct wr_zone *zone, int64_t at_s, int64_t *until_s)
{
	size_t low = 0, high = zone->count;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (zone->times_s[middle] <= at_s)
			low = middle + 1;
		else
			high = middle;
	}
	if (low == zone->count && zone->has_rule)
		return wr_tz_rule_offset(&zone->rule, at_s, until_s);
	*until_s = low < zone->count ? zone->times_s[low] : INT64_MAX;
	return zone->offsets_s[low];
}
