/* Makes the private table of a replay. Called by replay_open.c. */
#include "lab/replay/table.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/error.h"
#include "table/table.h"

#define TABLE_NAME "replay"
#define FOLDER_BYTES 4096u
#define PAGE_BYTES 4096u

/* Makes a folder that only this user can access, in memory if possible. */
static int make_folder(char folder[FOLDER_BYTES], struct weir_error *error)
{
	const char *bases[] = {"/dev/shm", getenv("TMPDIR"), "/tmp"};

	for (size_t i = 0; i < sizeof bases / sizeof *bases; i++) {
		if (!bases[i] || !*bases[i] ||
		    snprintf(folder, FOLDER_BYTES, "%s/weir-replay-XXXXXX", bases[i]) >=
			    (int)FOLDER_BYTES)
			continue;
		if (mkdtemp(folder))
			return 0;
	}
	return wr_error_errno(error, WEIR_ESYS,
			      "cannot make a folder for the table in /dev/shm or /tmp; set TMPDIR");
}

/* ---- huge pages ---- */

static bool is_zero(const uint8_t *page)
{
	return page[0] == 0 && memcmp(page, page + 1, PAGE_BYTES - 1) == 0;
}

/* Copies the pages of a new table that are not zero, and marks them in `marks`, one byte for each
 * page. */
static void copy_pages(uint8_t *to, const uint8_t *from, size_t pages, uint8_t *marks, bool marked)
{
	for (size_t i = 0; i < pages; i++) {
		if (!marked)
			marks[i] = !is_zero(from + i * PAGE_BYTES);
		if (marks[i])
			memcpy(to + i * PAGE_BYTES, from + i * PAGE_BYTES, PAGE_BYTES);
	}
}

/* Replaces the mapping of the table's file by memory with huge pages, at the same address and with
 * the same contents. With small pages, a processor spends a tenth of the time of a decision on
 * finding the page of the counter, and in a virtual machine even more. Files in /dev/shm have huge
 * pages only if an administrator allows it. Returns false if there is no memory; the table is then
 * not usable. */
static bool use_huge_pages(struct weir_table *table)
{
	int flags = MAP_PRIVATE | MAP_ANONYMOUS, access = PROT_READ | PROT_WRITE;
	size_t pages = table->bytes / PAGE_BYTES;
	uint8_t *copy = mmap(NULL, table->bytes, access, flags | MAP_NORESERVE, -1, 0);
	uint8_t *marks = malloc(pages + 1), *memory = MAP_FAILED;

	if (copy != MAP_FAILED && marks) {
		copy_pages(copy, table->base, pages, marks, false);
		memory = mmap(table->base, table->bytes, access, flags | MAP_FIXED, -1, 0);
	}
	if (memory != MAP_FAILED) {
		/* Without huge pages the table works too. */
		(void)madvise(memory, table->bytes, MADV_HUGEPAGE);
		copy_pages(memory, copy, pages, marks, true);
	}
	free(marks);
	if (copy != MAP_FAILED)
		munmap(copy, table->bytes);
	return memory != MAP_FAILED;
}

/* ---- the table ---- */

int wr_lab_replay_table(uint64_t memory_bytes, bool logs, struct weir_table **table,
			struct weir_error *error)
{
	struct weir_opts opts = {.size = sizeof opts,
				 .flags = logs ? WEIR_OPEN_LOGS : 0,
				 .name = TABLE_NAME,
				 .memory_bytes = memory_bytes};
	char folder[FOLDER_BYTES];
	int rc = make_folder(folder, error);

	if (rc)
		return rc;
	opts.dir = folder;
	rc = weir_open(&opts, table, error);
	/* The file and its folder are removed at once, so that nothing is left behind, even if the
	 * process is killed. */
	if (rc == 0)
		weir_remove(TABLE_NAME, folder, NULL);
	rmdir(folder);
	if (rc || use_huge_pages(*table))
		return rc;
	weir_close(*table);
	*table = NULL;
	return wr_error(error, WEIR_EMEMORY, "no memory for the table; use a smaller --memory");
}
