/* Makes descriptors from the fields of a log, for rules without `requests:`, such as those of
 * Envoy's rate limit service. The form of a descriptor is
 *
 *   KEY=FIELD,KEY=FIELD,…          remote_address=client,path=path
 *   KEY="TEXT"                     generic_key="checkout",remote_address=client
 *
 * FIELD is client, method, path (without its query), target (with it), host, user, status, or
 * header.NAME. If the log has no value for a field, the descriptor is not made for this request, as
 * Envoy does. */
#ifndef WR_LAB_REPLAY_DESCRIPTOR_H
#define WR_LAB_REPLAY_DESCRIPTOR_H

#include <stdbool.h>
#include <stddef.h>

#include <weir/error.h>
#include <weir/rules.h>

#include "lab/log/log.h"

#define WR_LAB_ENTRIES_MAX 16u

/* X(enum, name): the fields of a record. */
#define WR_LAB_ENTRY_FIELDS(X)                                                                     \
	X(WR_LAB_ENTRY_CLIENT, "client")                                                           \
	X(WR_LAB_ENTRY_METHOD, "method")                                                           \
	X(WR_LAB_ENTRY_PATH, "path")                                                               \
	X(WR_LAB_ENTRY_TARGET, "target")                                                           \
	X(WR_LAB_ENTRY_HOST, "host")                                                               \
	X(WR_LAB_ENTRY_USER, "user")                                                               \
	X(WR_LAB_ENTRY_STATUS, "status")                                                           \
	X(WR_LAB_ENTRY_HEADER, "header.")

enum wr_lab_entry_field {
	WR_LAB_ENTRY_TEXT, /* a constant */
#define WR_LAB_ENTRY_ENUM(name, text) name,
	WR_LAB_ENTRY_FIELDS(WR_LAB_ENTRY_ENUM)
#undef WR_LAB_ENTRY_ENUM
};

struct wr_lab_descriptor {
	struct {
		struct weir_str key;
		enum wr_lab_entry_field field;
		struct weir_str text; /* the constant, or the name of the header field */
	} parts[WR_LAB_ENTRIES_MAX];
	size_t count;
};

/* Reads the form of a descriptor. Its texts point into `text`. Returns 0, or WEIR_EINVAL with a
 * reason that names --descriptor. */
int wr_lab_descriptor_read(const char *text, struct wr_lab_descriptor *descriptor,
			   struct weir_error *error);

/* Makes the entries of a descriptor. Their texts point into the record, the descriptor and
 * `status`. Returns the number of entries, or 0 if a field is empty. */
size_t wr_lab_descriptor_make(const struct wr_lab_descriptor *descriptor,
			      const struct wr_lab_record *record,
			      struct weir_entry entries[WR_LAB_ENTRIES_MAX], char status[16]);

#endif
