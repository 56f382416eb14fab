/* Writes and reads the bytes of tokens. Called by reservation.c. */
#include "limiter/reservation_token.h"

#include <string.h>

#include "base/blake.h"

#define CODE_BYTES WR_RESERVATION_CODE_BYTES
#define TIME_BYTES 9u /* bytes of a time or of a delay, which has at most 63 bits */
#define GIVEN_BYTES 9u
#define U32_BYTES 5u
#define U8_BYTES 2u

_Static_assert(CODE_BYTES == WR_BLAKE_BYTES, "the code is a digest");

static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

void wr_reservation_token_put(struct wr_reservation_token *token, const void *bytes, size_t len)
{
	if (token->failed || len > token->cap - token->len) {
		token->failed = true;
		return;
	}
	if (len)
		memcpy(token->at + token->len, bytes, len);
	token->len += len;
}

static void put_number(struct wr_reservation_token *token, uint64_t n)
{
	uint8_t byte;

	for (; n >= 0x80; n >>= 7) {
		byte = (uint8_t)(n | 0x80);
		wr_reservation_token_put(token, &byte, 1);
	}
	byte = (uint8_t)n;
	wr_reservation_token_put(token, &byte, 1);
}

static size_t number_len(uint64_t n)
{
	size_t len = 1;

	while (n >>= 7)
		len++;
	return len;
}

size_t wr_reservation_token_charge_max(uint64_t own_cost, uint64_t cost, bool central)
{
	size_t len = sizeof(uint8_t) + sizeof(uint64_t) + number_len(own_cost) + number_len(cost) +
		     TIME_BYTES + U8_BYTES + U32_BYTES + GIVEN_BYTES;

	/* A charge of the central store is longer than one of a lease. */
	return central ? len + sizeof(uint64_t) + 2 * TIME_BYTES + U32_BYTES : len;
}

void wr_reservation_token_put_charge(struct wr_reservation_token *token,
				     const struct wr_reservation_charge *charge)
{
	wr_reservation_token_put(token, &charge->flags, sizeof charge->flags);
	wr_reservation_token_put(token, &charge->tag, sizeof charge->tag);
	put_number(token, charge->own_cost);
	if (charge->flags & WR_CHARGE_MERGED)
		return;
	put_number(token, charge->cost);
	put_number(token, charge->charged_ns);
	put_number(token, charge->candidates);
	if (charge->flags & WR_CHARGE_CENTRAL) {
		wr_reservation_token_put(token, &charge->fleet_name, sizeof charge->fleet_name);
		put_number(token, charge->decided_us);
		put_number(token, charge->delay_ns);
		put_number(token, charge->booked);
	}
	if (!(charge->flags & WR_CHARGE_LEASED)) {
		put_number(token, charge->used);
		put_number(token, charge->given);
	}
	if (charge->flags & WR_CHARGE_LEASED) {
		put_number(token, charge->lease_grant);
		put_number(token, charge->booked);
		put_number(token, charge->decided_us);
	}
}

void wr_reservation_token_get(struct wr_reservation_token *token, void *bytes, size_t len)
{
	memset(bytes, 0, len);
	if (token->failed || len > token->cap - token->len) {
		token->failed = true;
		return;
	}
	memcpy(bytes, token->at + token->len, len);
	token->len += len;
}

static uint64_t get_number(struct wr_reservation_token *token)
{
	uint64_t n = 0;
	uint8_t byte = 0x80;

	for (unsigned shift = 0; shift < 64 && byte & 0x80; shift += 7) {
		wr_reservation_token_get(token, &byte, 1);
		n |= (uint64_t)(byte & 0x7f) << shift;
	}
	return n;
}

bool wr_reservation_token_get_charge(struct wr_reservation_token *token,
				     struct wr_reservation_charge *charge)
{
	*charge = (struct wr_reservation_charge){0};
	if (token->failed || token->len == token->cap)
		return false;
	wr_reservation_token_get(token, &charge->flags, sizeof charge->flags);
	wr_reservation_token_get(token, &charge->tag, sizeof charge->tag);
	charge->own_cost = get_number(token);
	if (charge->flags & WR_CHARGE_MERGED)
		return !token->failed;
	charge->cost = get_number(token);
	charge->charged_ns = get_number(token);
	charge->candidates = get_number(token);
	if (charge->flags & WR_CHARGE_CENTRAL) {
		wr_reservation_token_get(token, &charge->fleet_name, sizeof charge->fleet_name);
		charge->decided_us = get_number(token);
		charge->delay_ns = get_number(token);
		charge->booked = get_number(token);
	}
	if (!(charge->flags & WR_CHARGE_LEASED)) {
		charge->used = get_number(token);
		charge->given = get_number(token);
	}
	if (charge->flags & WR_CHARGE_LEASED) {
		charge->lease_grant = get_number(token);
		charge->booked = get_number(token);
		charge->decided_us = get_number(token);
	}
	return !token->failed;
}

/* ---- authentication ---- */

/* BLAKE2s of the secret and the bytes. Unlike SHA-256, BLAKE2s is a secure authentication code in
 * this form: an attacker cannot extend a text whose digest is known. */
static void make_code(const uint8_t *bytes, size_t len, const uint8_t *secret,
		      uint8_t code[CODE_BYTES])
{
	struct wr_blake blake;

	wr_blake_begin(&blake);
	wr_blake_feed(&blake, secret, WEIR_SECRET_BYTES);
	wr_blake_feed(&blake, "weir reservation", 16);
	wr_blake_feed(&blake, bytes, len);
	wr_blake_end(&blake, code);
}

void wr_reservation_token_mask(uint64_t key[2], uint64_t id, const uint8_t *secret)
{
	uint8_t pad[CODE_BYTES], *bytes = (uint8_t *)key;
	struct wr_blake blake;

	_Static_assert(sizeof pad == 2 * sizeof *key, "the pad is as long as the key");
	wr_blake_begin(&blake);
	wr_blake_feed(&blake, secret, WEIR_SECRET_BYTES);
	wr_blake_feed(&blake, "weir marker", 11);
	wr_blake_feed(&blake, &id, sizeof id);
	wr_blake_end(&blake, pad);
	for (size_t i = 0; i < sizeof pad; i++)
		bytes[i] ^= pad[i];
}

/* Compares in a time that does not depend on the bytes. */
bool wr_reservation_token_is_sealed(const uint8_t *bytes, size_t len, const uint8_t *secret)
{
	uint8_t code[CODE_BYTES], differs = 0;

	make_code(bytes, len, secret, code);
	for (size_t i = 0; i < CODE_BYTES; i++)
		differs |= code[i] ^ bytes[len + i];
	return differs == 0;
}

/* ---- text ---- */

static int write_text(const uint8_t *bytes, size_t len, char *text)
{
	uint32_t held = 0;
	unsigned bits = 0;
	int at = 0;

	for (size_t i = 0; i < len; i++) {
		held = held << 8 | bytes[i];
		for (bits += 8; bits >= 6; bits -= 6)
			text[at++] = digits[held >> (bits - 6) & 63];
	}
	if (bits)
		text[at++] = digits[held << (6 - bits) & 63];
	return at;
}

int wr_reservation_token_seal(struct wr_reservation_token *token, const uint8_t *secret,
			      char text[WR_RESERVATION_TEXT_MAX])
{
	uint8_t code[CODE_BYTES];

	if (!token->failed)
		make_code(token->at, token->len, secret, code);
	wr_reservation_token_put(token, code, sizeof code);
	return token->failed ? WEIR_EROOM : write_text(token->at, token->len, text);
}

/* Returns the value of a digit, or 64 if the character is no digit. */
static uint32_t value_of(char c)
{
	const char *digit = c ? strchr(digits, c) : NULL;

	return digit ? (uint32_t)(digit - digits) : 64;
}

/* A token has one spelling only: bits after the last byte must be 0. */
size_t wr_reservation_token_parse(struct weir_str text, uint8_t *bytes)
{
	uint32_t held = 0;
	unsigned bits = 0;
	size_t len = 0;

	if (text.len > WR_RESERVATION_TEXT_MAX)
		return 0;
	for (size_t i = 0; i < text.len; i++) {
		uint32_t value = value_of(text.ptr[i]);

		if (value > 63)
			return 0;
		held = (held << 6 | value) & 0xfff;
		bits += 6;
		if (bits >= 8) {
			bits -= 8;
			bytes[len++] = (uint8_t)(held >> bits);
		}
	}
	if (bits >= 6 || held & ((1u << bits) - 1))
		return 0;
	return len > CODE_BYTES ? len - CODE_BYTES : 0;
}
