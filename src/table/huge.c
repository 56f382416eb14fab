#include "table/huge.h"

#include <linux/magic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/vfs.h>

#ifndef MADV_COLLAPSE /* Linux 6.1; the header of glibc 2.36 does not have it */
#define MADV_COLLAPSE 25
#endif

uint64_t wr_huge_file_bytes(int fd, uint64_t bytes)
{
	struct statfs fs;
	uint64_t page;

	if (fstatfs(fd, &fs) < 0 || (unsigned long)fs.f_type != HUGETLBFS_MAGIC || fs.f_bsize <= 0)
		return bytes;
	page = (uint64_t)fs.f_bsize;
	return (bytes + page - 1) / page * page;
}

/* Most pages of the sections behind the keys are never used. So these sections get no huge pages,
 * and the kernel is asked not to read ahead in them. */
void wr_huge_advise(const struct weir_table *table)
{
	struct wr_extent keys = table->header.sections[WR_SECTION_KEYS];
	size_t behind = keys.offset + keys.bytes;

	madvise(table->base, behind, MADV_HUGEPAGE);
	if (behind % WR_PAGE == 0)
		madvise(table->base + behind, table->bytes - behind, MADV_RANDOM);
}

/* Reserving the file (file.c) has given it small pages. */
void wr_huge_collapse(const struct weir_table *table, int fd)
{
	struct wr_extent keys = table->header.sections[WR_SECTION_KEYS];
	struct statfs fs;

	if (fstatfs(fd, &fs) == 0 && (unsigned long)fs.f_type == TMPFS_MAGIC)
		madvise(table->base, keys.offset + keys.bytes, MADV_COLLAPSE);
}

/* Returns the kilobytes of a line like "ShmemPmdMapped:   40960 kB" if the line tells about huge
 * pages, otherwise 0. */
static uint64_t huge_kb(const char *line)
{
	static const char *const names[] = {
		"ShmemPmdMapped:", "FilePmdMapped:", "Shared_Hugetlb:", "Private_Hugetlb:"};

	for (size_t i = 0; i < sizeof names / sizeof *names; i++)
		if (strncmp(line, names[i], strlen(names[i])) == 0)
			return strtoull(line + strlen(names[i]), NULL, 10);
	return 0;
}

/* Reads the addresses at the beginning of a mapping, such as "7f2ae1c00000-7f2ae4400000 rw-s". Returns
 * false if the line has another form. */
static bool read_range(const char *line, uint64_t *start, uint64_t *end)
{
	char *at;

	*start = strtoull(line, &at, 16);
	if (at == line || *at != '-')
		return false;
	*end = strtoull(at + 1, &at, 16);
	return *at == ' ';
}

uint64_t wr_huge_bytes(const struct weir_table *table)
{
	uint64_t first = (uint64_t)(uintptr_t)table->base, start, end, kb = 0;
	FILE *maps = fopen("/proc/self/smaps", "re");
	bool inside = false;
	char line[1024];

	while (maps && fgets(line, sizeof line, maps)) {
		if (read_range(line, &start, &end))
			inside = start >= first && end <= first + table->bytes;
		else if (inside)
			kb += huge_kb(line);
	}
	if (maps)
		fclose(maps);
	return kb * 1024;
}
