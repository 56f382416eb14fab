/* The bytes of a reservation's token (reservation.h), which are sent as base64url without padding:
 *
 *   version (8 bits), flags (8 bits), id (64 bits), time of the decision and time to live in ns (64
 *   bits each), if the central store took units the encrypted key of the marker (128 bits), domain
 *   and record, each as its length (16 bits) and its bytes, then the charges up to the
 *   authentication code, which is the last 16 bytes.
 *
 * The record is that of weir_ask_record. A charge records the units that one need of the request
 * took:
 *
 *   flags (8 bits), tag of the counter in the table (64 bits), cost of the need (variable)
 *   unless merged:  units, charged_ns, candidates (variable)
 *   central store:  name of the counter in the fleet (64 bits), decided_us, delay_ns, booked, used,
 *                   given
 *   lease:          lease_grant, booked, decided_us
 *
 * Numbers of fixed length are little endian. A number of variable length has 7 bits in each byte,
 * the lowest first; the highest bit of a byte says that another byte follows. */
#ifndef WR_LIMITER_RESERVATION_TOKEN_H
#define WR_LIMITER_RESERVATION_TOKEN_H

#include "limiter/ask.h"
#include "limiter/reservation.h"

enum wr_reservation_charge_flags {
	WR_CHARGE_CENTRAL = 1, /* the central store took the units */
	WR_CHARGE_LEASED = 2,  /* the units came from a lease */
	WR_CHARGE_MERGED = 4,  /* an earlier charge on the same counter has the units */
	WR_CHARGE_SHARE = 8,   /* decided on this node's share, because the central store failed */
	WR_CHARGE_REFUND = 16, /* the limit has `on_expiry: refund` */
};

struct wr_reservation_charge {
	uint8_t flags; /* enum wr_reservation_charge_flags */
	uint64_t tag, fleet_name;
	uint64_t own_cost, cost, charged_ns, candidates;
	uint64_t decided_us, delay_ns, booked, lease_grant;
	uint64_t used, given; /* with WR_CHARGE_CENTRAL: as in struct wr_ask_need */
};

#define WR_RESERVATION_CODE_BYTES 16u /* bytes of the authentication code */

/* The bytes of a token that is being written or read. */
struct wr_reservation_token {
	uint8_t *at;
	size_t len, cap;
	bool failed; /* the bytes are not a token, or do not fit */
};

void wr_reservation_token_put(struct wr_reservation_token *token, const void *bytes, size_t len);
void wr_reservation_token_put_charge(struct wr_reservation_token *token,
				     const struct wr_reservation_charge *charge);

/* Returns the largest number of bytes of the charge of a need whose own cost is `own_cost`. The cost
 * with all merged needs is at most `cost`. `central` tells whether the central store may take the
 * units, or a lease. */
size_t wr_reservation_token_charge_max(uint64_t own_cost, uint64_t cost, bool central);

void wr_reservation_token_get(struct wr_reservation_token *token, void *bytes, size_t len);

/* Reads the next charge. Returns false at the end, or if token->failed. */
bool wr_reservation_token_get_charge(struct wr_reservation_token *token,
				     struct wr_reservation_charge *charge);

/* Appends the authentication code, and writes the token as text. Returns its length or
 * WEIR_EROOM. */
int wr_reservation_token_seal(struct wr_reservation_token *token, const uint8_t *secret,
			      char text[WR_RESERVATION_TEXT_MAX]);

/* Encrypts the key of the marker, or decrypts it again. The key is a hash that was made with the
 * fleet's secret, so clients must not learn it. `id` is the random id of the reservation. */
void wr_reservation_token_mask(uint64_t key[2], uint64_t id, const uint8_t *secret);

/* Reads the text into `bytes` of WR_RESERVATION_BYTES_MAX bytes. Returns the number of bytes
 * without the authentication code, or 0 if the text is not base64url or is too short. */
size_t wr_reservation_token_parse(struct weir_str text, uint8_t *bytes);

/* Returns whether the authentication code after the `len` bytes was made with this secret. */
bool wr_reservation_token_is_sealed(const uint8_t *bytes, size_t len, const uint8_t *secret);

#endif
