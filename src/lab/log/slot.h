/* A record with the things that it needs on its way from a reader to the caller: its text and its
 * header fields. The readers of the formats fill slots in. */
#ifndef WR_LAB_LOG_SLOT_H
#define WR_LAB_LOG_SLOT_H

#include "lab/log/log.h"
#include "lab/log/time.h"

#define WR_LAB_SLOT_HEADERS 4u /* header fields in the slot itself */

struct wr_lab_text;

struct wr_lab_slot {
	struct wr_lab_record record;
	struct wr_lab_slot *next; /* in a list of the window, of a batch, or of unused slots */
	struct wr_lab_text *text; /* the block that contains the line */
	uint32_t line_bytes;
	bool whole; /* the time of the record is a whole second */
	bool late;  /* the record was too late for the window, so it is left out */
	/* Room for more header fields. The slot keeps it for its next record. */
	struct weir_header *many;
	struct weir_header few[WR_LAB_SLOT_HEADERS];
};

/* The last client that was not an IPv4 address. All zero is an empty cache. */
struct wr_lab_client {
	char text[64];
	uint32_t len;
	bool stand_in;
	struct wr_address address;
};

/* Empties the record of a slot. */
void wr_lab_slot_reset(struct wr_lab_slot *slot);

/* Frees the memory that the slot owns, without the slot itself. */
void wr_lab_slot_free(struct wr_lab_slot *slot);

/* Sets the client, its address, and whether the address is a stand-in. The port of "10.0.0.1:80"
 * and the brackets of "[::1]:80" are left out. "-" is an empty client. `client` is part of a line,
 * so that WR_LAB_PADDING bytes at it are readable. */
void wr_lab_slot_client(struct wr_lab_slot *slot, struct weir_str client,
			struct wr_lab_client *last);

/* Adds a header field. An empty value and "-" mean that the request had no such field. */
void wr_lab_slot_header(struct wr_lab_slot *slot, struct weir_str name, struct weir_str value);

/* Sets method and target from a request line such as "GET /a HTTP/1.1". Both stay empty if the text
 * is not a request line of HTTP. */
void wr_lab_slot_request(struct wr_lab_slot *slot, struct weir_str line);

/* Decodes the escapes of nginx and Apache in place: \" \\ \n \t \x22. Returns the new length. */
size_t wr_lab_unescape(char *text, size_t len);

#endif
