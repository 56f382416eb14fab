/* For admin.c: notes what was done. */
#ifndef WR_SERVE_ADMIN_CHANGES_H
#define WR_SERVE_ADMIN_CHANGES_H

#include <stdint.h>

struct wr_changes;

/* `changes` may be NULL. */
void wr_changes_note(struct wr_changes *changes, uint64_t now_ns, uint64_t key, const char *who,
		     const char *what);

#endif
