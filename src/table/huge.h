/* Huge pages for the cells of a table. They reduce TLB misses.
 *
 * Where the kernel offers no huge pages, the functions do nothing. It offers them
 *   - on tmpfs with the mount option huge=advise, huge=within_size or huge=always,
 *   - on hugetlbfs, as far as vm.nr_hugepages has reserved pages. */
#ifndef WR_TABLE_HUGE_H
#define WR_TABLE_HUGE_H

#include "table/table.h"

/* Returns the size of a file for `bytes` bytes of data. The size of a file on hugetlbfs is a
 * multiple of its pages. */
uint64_t wr_huge_file_bytes(int fd, uint64_t bytes);

/* Asks the kernel to use huge pages for the cells of a mapping. */
void wr_huge_advise(const struct weir_table *table);

/* Copies the cells of a new file on tmpfs to huge pages. Tables on disks keep small pages: one
 * changed cell would make the kernel write a whole huge page to the disk. */
void wr_huge_collapse(const struct weir_table *table, int fd);

/* Returns how many bytes of the table this process has mapped with huge pages. */
uint64_t wr_huge_bytes(const struct weir_table *table);

#endif
