/* Creates, checks and maps table files. Called by import.c for the public functions of
 * <weir/weir.h>. */
#include "table/file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <unistd.h>

#include "base/assert.h"
#include "base/error.h"
#include "table/huge.h"

#define MEMORY_MIN (256ull << 10)
/* Maximum of memory_bytes: four times the size of WR_ROWS_MAX rows, rounded up to whole GiB. The
 * factor is four because logs can use at most three quarters of memory_bytes, so that at least a
 * quarter is left for the rows. */
#define MEMORY_MAX (256ull << 30)
#define MEMORY_DEFAULT (64ull << 20)
#define LOG_SHARE 16 /* by default 1/16 of the memory is for logs */
/* 1/4 of the memory is for logs if some limits are sliding window logs (calculation:
 * docs/engine.md). */
#define LOG_SHARE_USED 4

/* The sections besides keys and slab. The size of a section is memory_bytes / share, but at least
 * one page. These sections are added to memory_bytes, and are not a part of it. */
static const struct {
	enum wr_section section;
	unsigned share;
} reserved[] = {
	{WR_SECTION_LANES, 16},      {WR_SECTION_HISTORY, 8},   {WR_SECTION_TOP, 32},
	{WR_SECTION_LEASES, 64},     {WR_SECTION_BANS, 16},     {WR_SECTION_OVERRIDES, 256},
	{WR_SECTION_EXCHANGE, 32},   {WR_SECTION_DEFERRED, 64}, {WR_SECTION_RETURNED, 64},
	{WR_SECTION_BAN_ORDERS, 64},
};

static uint64_t page_bytes(uint64_t bytes)
{
	return (bytes + WR_PAGE - 1) / WR_PAGE * WR_PAGE;
}

static uint64_t header_checksum(const struct wr_header *header)
{
	return XXH3_64bits(header, offsetof(struct wr_header, checksum));
}

static void append_section(struct wr_header *header, enum wr_section section, uint64_t bytes)
{
	header->sections[section] = (struct wr_extent){header->file_bytes, bytes};
	header->file_bytes += page_bytes(bytes);
}

/* Returns the size of a span: the largest power of two from WR_SPAN_MIN to WR_SPAN_MAX with which
 * the slab has at least sixteen spans. */
static uint64_t span_size(uint64_t log_bytes)
{
	uint64_t span = WR_SPAN_MAX;

	while (span > WR_SPAN_MIN && span * 16 > log_bytes)
		span /= 2;
	return span;
}

/* Returns the number of bytes for logs if the caller has not set it. A table that replaces another
 * table uses at least as large a part of its memory for logs as the old table. */
static uint64_t default_log(const struct wr_file_plan *plan, uint64_t memory)
{
	const struct wr_header *before = plan->before;
	uint64_t log = memory / (plan->logs ? LOG_SHARE_USED : LOG_SHARE);
	uint64_t inherited = 0;

	if (before && before->memory_bytes > before->sections[WR_SECTION_KEYS].bytes) {
		inherited = before->memory_bytes - before->sections[WR_SECTION_KEYS].bytes;
		inherited =
			(uint64_t)((unsigned __int128)memory * inherited / before->memory_bytes);
	}
	if (inherited > memory / 4 * 3)
		inherited = memory / 4 * 3;
	return log > inherited ? log : inherited;
}

static int lay_out(const struct wr_file_plan *plan, struct wr_header *header,
		   struct weir_error *error)
{
	uint64_t memory = plan->memory_bytes ? plan->memory_bytes : MEMORY_DEFAULT;
	uint64_t log = plan->log_bytes ? plan->log_bytes : default_log(plan, memory);
	uint64_t spans;

	if (memory < MEMORY_MIN || memory > MEMORY_MAX)
		return wr_error(error, WEIR_EINVAL,
				"memory_bytes must be 256 KiB to 256 GiB, not %llu",
				(unsigned long long)memory);
	if (log > memory / 4 * 3)
		return wr_error(error, WEIR_EINVAL,
				"log_bytes must be at most three quarters of memory_bytes (%llu)",
				(unsigned long long)memory);
	if ((memory - log) / sizeof(struct wr_row) > WR_ROWS_MAX)
		return wr_error(error, WEIR_EINVAL,
				"memory_bytes less log_bytes must be below 64 GiB, not %llu",
				(unsigned long long)(memory - log));
	memcpy(header->magic, WR_MAGIC, sizeof header->magic);
	header->layout = WR_LAYOUT;
	header->header_bytes = sizeof *header;
	header->created_ns = plan->now_ns;
	header->memory_bytes = memory;
	header->span_bytes = span_size(log);
	spans = log / header->span_bytes;
	header->file_bytes = 2 * WR_PAGE;
	append_section(header, WR_SECTION_KEYS,
		       (memory - log) / sizeof(struct wr_row) * sizeof(struct wr_row));
	append_section(header, WR_SECTION_SPANS, spans * sizeof(struct wr_pair));
	append_section(header, WR_SECTION_SLAB, spans * header->span_bytes);
	for (size_t i = 0; i < sizeof reserved / sizeof *reserved; i++)
		append_section(header, reserved[i].section, page_bytes(memory / reserved[i].share));
	return 0;
}

static int fill_secrets(const struct wr_file_plan *plan, struct wr_header *header,
			struct weir_error *error)
{
	if (getrandom(header->table_id, sizeof header->table_id, 0) !=
		    (ssize_t)sizeof header->table_id ||
	    getrandom(header->secret, sizeof header->secret, 0) != (ssize_t)sizeof header->secret)
		return wr_error_errno(error, WEIR_ESYS, "no random numbers for the table's secret");
	if (plan->secret)
		memcpy(header->secret, plan->secret, sizeof header->secret);
	header->checksum = header_checksum(header);
	return 0;
}

static bool extent_ok(const struct wr_header *header, enum wr_section section)
{
	struct wr_extent extent = header->sections[section];

	return extent.offset % WR_PAGE == 0 && extent.offset >= 2ull * WR_PAGE &&
	       extent.offset <= header->file_bytes &&
	       extent.bytes <= header->file_bytes - extent.offset;
}

/* Checks everything in the header that later code relies on. A file of layout 1 can only be opened
 * for reading. */
static int check_header(const struct wr_header *header, const char *path, bool private,
			uint64_t file_bytes, struct weir_error *error)
{
	uint64_t span = header->span_bytes;
	uint64_t keys = header->sections[WR_SECTION_KEYS].bytes;
	uint64_t slab = header->sections[WR_SECTION_SLAB].bytes;
	bool is_old = header->layout == WR_LAYOUT_SHARES;

	if (memcmp(header->magic, WR_MAGIC, sizeof header->magic) != 0)
		return wr_error(error, WEIR_EFORMAT, "%s is not a weir table", path);
	if ((header->layout != WR_LAYOUT && !(private && is_old)) ||
	    header->header_bytes != sizeof *header)
		return wr_error(error, WEIR_ELAYOUT,
				"%s has layout %u, but this version of weir uses layout %d", path,
				header->layout, WR_LAYOUT);
	if (header->checksum != header_checksum(header))
		return wr_error(error, WEIR_EFORMAT, "%s: the header is damaged", path);
	if (header->file_bytes != file_bytes)
		return wr_error(error, WEIR_EFORMAT, "%s is %llu bytes long instead of %llu", path,
				(unsigned long long)file_bytes,
				(unsigned long long)header->file_bytes);
	for (int i = 0; i < WR_SECTIONS; i++)
		if (header->sections[i].bytes != 0 && !extent_ok(header, i))
			return wr_error(error, WEIR_EFORMAT, "%s: section %d lies outside the file",
					path, i);
	if (keys < 2 * sizeof(struct wr_row) || keys % sizeof(struct wr_row) != 0 ||
	    keys / sizeof(struct wr_row) > WR_ROWS_MAX || slab > WR_SLAB_MAX ||
	    span < WR_SPAN_MIN || span > WR_SPAN_MAX || (span & (span - 1)) != 0 ||
	    slab % span != 0 ||
	    slab / span * (is_old ? sizeof(uint32_t) : sizeof(struct wr_pair)) >
		    header->sections[WR_SECTION_SPANS].bytes ||
	    header->sections[WR_SECTION_OVERRIDES].bytes < sizeof(struct wr_control))
		return wr_error(error, WEIR_EFORMAT, "%s: impossible section sizes", path);
	return 0;
}

/* Sets the pointers of the handle to the sections in the mapping. */
static void attach_sections(struct weir_table *table)
{
	const struct wr_extent *at = table->header.sections;

	table->rows = (struct wr_row *)(table->base + at[WR_SECTION_KEYS].offset);
	table->row_count = at[WR_SECTION_KEYS].bytes / sizeof(struct wr_row);
	table->secret = table->header.secret;
	table->tallies = (struct wr_tallies *)(table->base + WR_PAGE);
	table->control = (struct wr_control *)(table->base + at[WR_SECTION_OVERRIDES].offset);
	table->notes = (struct wr_note *)(table->control + 1);
	table->note_count =
		(uint32_t)((at[WR_SECTION_OVERRIDES].bytes - sizeof(struct wr_control)) /
			   sizeof(struct wr_note));
	table->spans = (struct wr_pair *)(table->base + at[WR_SECTION_SPANS].offset);
	table->slab = table->base + at[WR_SECTION_SLAB].offset;
	table->span_bytes = (uint32_t)table->header.span_bytes;
	table->span_count = (uint32_t)(at[WR_SECTION_SLAB].bytes / table->header.span_bytes);
}

/* Converts the words of the spans from layout 1 to this layout. */
static bool make_spans(struct weir_table *table)
{
	const uint32_t *words = (const uint32_t *)table->spans;

	if (table->header.layout != WR_LAYOUT_SHARES)
		return true;
	table->spans_made = calloc((size_t)table->span_count + 1, sizeof *table->spans_made);
	if (!table->spans_made)
		return false;
	for (uint32_t i = 0; i < table->span_count; i++)
		table->spans_made[i].lo = words[i] <= WR_SLAB_CLASSES ? words[i] : 0;
	table->spans = table->spans_made;
	return true;
}

/* Makes a handle for an open, checked file. */
static int map_file(int fd, const char *path, const struct wr_header *header, int flags,
		    struct weir_table **out, struct weir_error *error)
{
	struct weir_table *table = calloc(1, sizeof *table);

	if (!table)
		return wr_error(error, WEIR_EMEMORY, "no memory for a table handle");
	table->magic = WR_TABLE_MAGIC;
	table->header = *header;
	table->bytes = header->file_bytes;
	snprintf(table->path, sizeof table->path, "%s", path);
	table->base = mmap(NULL, table->bytes, PROT_READ | PROT_WRITE, flags, fd, 0);
	if (table->base == MAP_FAILED) {
		table->magic = 0;
		free(table);
		return wr_error_errno(error, WEIR_ESYS, "cannot map %s", path);
	}
	wr_huge_advise(table);
	attach_sections(table);
	if (!make_spans(table)) {
		weir_close(table);
		return wr_error(error, WEIR_EMEMORY, "no memory for a table handle");
	}
	*out = table;
	return 0;
}

void weir_close(struct weir_table *table)
{
	if (!table)
		return;
	munmap(table->base, table->bytes);
	free(table->spans_made);
	table->magic = 0;
	free(table);
}

int wr_file_open(const char *path, bool private, struct weir_table **table,
		 struct weir_error *error)
{
	int fd = open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
	struct wr_header header;
	struct stat st;
	ssize_t got;
	int rc;

	if (fd < 0)
		return errno == ENOENT ? wr_error(error, WEIR_ENOENT, "there is no %s", path)
		       : errno == ELOOP
			       ? wr_error(error, WEIR_EACCESS, "%s is a symbolic link", path)
			       : wr_error_errno(error, WEIR_ESYS, "cannot open %s", path);
	if (fstat(fd, &st) < 0) {
		close(fd);
		return wr_error_errno(error, WEIR_ESYS, "cannot stat %s", path);
	}
	rc = wr_table_paths_check(path, &st, error);
	if (rc == 0) {
		got = pread(fd, &header, sizeof header, 0);
		rc = got == (ssize_t)sizeof header
			     ? check_header(&header, path, private, (uint64_t)st.st_size, error)
			     : wr_error(error, WEIR_EFORMAT, "%s is too short for a weir table",
					path);
	}
	if (rc == 0)
		rc = map_file(fd, path, &header, private ? MAP_PRIVATE : MAP_SHARED, table, error);
	close(fd);
	return rc;
}

/* Opens a file without a name if the file system can do that, so that no file remains if this
 * process dies. */
static int open_nameless(const struct wr_table_paths *paths, struct wr_fresh_file *fresh)
{
	fresh->temporary[0] = 0;
	fresh->fd = open(paths->dir, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
	if (fresh->fd >= 0 || (errno != EOPNOTSUPP && errno != EISDIR && errno != ENOENT))
		return fresh->fd;
	snprintf(fresh->temporary, sizeof fresh->temporary, "%s/.weir-XXXXXX", paths->dir);
	fresh->fd = mkostemp(fresh->temporary, O_CLOEXEC);
	if (fresh->fd < 0)
		fresh->temporary[0] = 0;
	return fresh->fd;
}

/* Reserves every page of the file, because writing to a page that a full tmpfs cannot provide would
 * raise SIGBUS. */
static int reserve_pages(int fd, const char *dir, uint64_t bytes, struct weir_error *error)
{
	int failed;

	do
		failed = posix_fallocate(fd, 0, (off_t)bytes);
	while (failed == EINTR); /* signals such as SIGCHLD of an nginx worker interrupt the call */
	if (failed) {
		errno = failed;
		return wr_error_errno(error, WEIR_ENOSPACE, "no room for %llu bytes in %s",
				      (unsigned long long)bytes, dir);
	}
	return 0;
}

/* Maps the new file and writes its header. hugetlbfs permits no write(). */
static int fill_file(const struct wr_table_paths *paths, const struct wr_header *header,
		     struct wr_fresh_file *fresh, struct weir_error *error)
{
	int rc = map_file(fresh->fd, paths->path, header, MAP_SHARED, &fresh->table, error);

	if (rc < 0)
		return rc;
	wr_assert(fresh->table);
	memcpy(fresh->table->base, header, sizeof *header);
	wr_huge_collapse(fresh->table, fresh->fd);
	return 0;
}

int wr_file_make(const struct wr_table_paths *paths, const struct wr_file_plan *plan,
		 struct wr_fresh_file *fresh, struct weir_error *error)
{
	struct wr_header header = {0};
	int rc = lay_out(plan, &header, error);

	fresh->table = NULL;
	if (rc < 0)
		return rc;
	if (open_nameless(paths, fresh) < 0)
		return wr_error_errno(error, WEIR_ESYS, "cannot create a file in %s", paths->dir);
	if (fchown(fresh->fd, paths->owner, paths->group) < 0 || fchmod(fresh->fd, paths->mode) < 0)
		rc = wr_error_errno(error, WEIR_ESYS, "cannot set the owner of a file in %s",
				    paths->dir);
	header.file_bytes = wr_huge_file_bytes(fresh->fd, header.file_bytes);
	if (rc == 0)
		rc = fill_secrets(plan, &header, error);
	if (rc == 0)
		rc = reserve_pages(fresh->fd, paths->dir, header.file_bytes, error);
	if (rc == 0)
		rc = fill_file(paths, &header, fresh, error);
	if (rc < 0)
		wr_file_abandon(fresh);
	return rc;
}

static int link_as(const struct wr_fresh_file *fresh, const char *path)
{
	char self[64];

	if (fresh->temporary[0])
		return link(fresh->temporary, path);
	snprintf(self, sizeof self, "/proc/self/fd/%d", fresh->fd);
	return linkat(AT_FDCWD, self, AT_FDCWD, path, AT_SYMLINK_FOLLOW);
}

/* Keeps the mapping, closes the file and removes its temporary name. */
static void settle_fresh_file(struct wr_fresh_file *fresh)
{
	if (fresh->temporary[0])
		unlink(fresh->temporary);
	close(fresh->fd);
	fresh->fd = -1;
}

int wr_file_publish(struct wr_fresh_file *fresh, const char *path, struct weir_error *error)
{
	wr_assert(fresh->table && path);
	wr_assert_magic(fresh->table, WR_TABLE_MAGIC);
	if (link_as(fresh, path) < 0)
		return wr_error_errno(error, errno == EEXIST ? WEIR_EINVAL : WEIR_ESYS,
				      "cannot name the table %s", path);
	settle_fresh_file(fresh);
	return 0;
}

int wr_file_replace(struct wr_fresh_file *fresh, const char *path, struct weir_error *error)
{
	char next[600];

	wr_assert(fresh->table && path);
	wr_assert_magic(fresh->table, WR_TABLE_MAGIC);
	snprintf(next, sizeof next, "%s.%ld", path, (long)getpid());
	unlink(next);
	if (link_as(fresh, next) < 0 || rename(next, path) < 0) {
		wr_error_errno(error, WEIR_ESYS, "cannot put the new table at %s", path);
		unlink(next);
		return WEIR_ESYS;
	}
	settle_fresh_file(fresh);
	return 0;
}

void wr_file_abandon(struct wr_fresh_file *fresh)
{
	weir_close(fresh->table);
	fresh->table = NULL;
	if (fresh->fd >= 0)
		settle_fresh_file(fresh);
}
