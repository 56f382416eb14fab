/* Tokens of reservations: forged tokens, and the lengths of descriptors and charges that fit. */
#include "reservation_test.h"

#include "limiter/reservation_token.h"

/* Limits that admit large costs. */
static const char big[] = "domain: d\n"
			  "descriptors:\n"
			  "- key: t\n"
			  "  rate_limit: {unit: minute, requests_per_unit: 4294967295}\n"
			  "- key: c\n"
			  "  rate_limits:\n"
			  "  - {unit: minute, requests_per_unit: 10000}\n"
			  "  - {concurrent: 2, max_hold: 2m}\n";

static void forged_and_foreign_tokens_are_unknown(void **state)
{
	struct reserved made;
	struct rig rig, other;

	rig_open(&rig, tokens, "d");
	rig_open(&other, tokens, "d");
	assert_int_equal(reserve(&rig, "t=1", 600, 0, &made), WEIR_ADMIT);
	for (int i = 0; i < made.len; i++) {
		char was = made.text[i];

		made.text[i] = was == 'A' ? 'B' : 'A';
		assert_int_equal(settle(&rig, &made, WR_SETTLE_COMMIT, 1).read, WEIR_ENOENT);
		made.text[i] = was;
		assert_int_equal(settle_text(&rig, (struct weir_str){made.text, (size_t)i},
					     WR_SETTLE_COMMIT, 1)
					 .read,
				 WEIR_ENOENT);
	}
	assert_int_equal(settle(&other, &made, WR_SETTLE_COMMIT, 1).read, WEIR_ENOENT);
	assert_int_equal(look(&rig, "t=1").remaining, 9400);
	assert_int_equal(settle(&rig, &made, WR_SETTLE_COMMIT, 600).claim, WR_CLAIM_FIRST);
	rig_close(&rig);
	rig_close(&other);
	(void)state;
}

static void long_descriptors_are_refused(void **state)
{
	uint8_t record[WR_RESERVATION_BYTES_MAX];
	char descriptor[1600], text[WR_RESERVATION_TEXT_MAX];
	uint64_t expires_ns;
	bool refunds;
	struct rig rig;

	rig_open(&rig, tokens, "d");
	for (int len = 1300; len < 1600; len += 10) {
		int rc;

		memset(descriptor, 'x', sizeof descriptor);
		memcpy(descriptor, "t=", 2);
		descriptor[len] = 0;
		rig_begin(&rig);
		assert_int_equal(wr_reservation_begin(rig.ask, record), 0);
		rig_add(&rig, descriptor, 7);
		assert_int_equal(rig_decide(&rig), WEIR_ADMIT);
		rc = wr_reservation_write(rig.ask, 0, text, &expires_ns, &refunds);
		assert_true(rc == WEIR_EROOM || (rc > 1700 && rc <= (int)WR_RESERVATION_TEXT_MAX));
		assert_true((rc == WEIR_EROOM) == (len >= 1440));
	}
	rig_close(&rig);
	(void)state;
}

/* A request whose descriptors fit gets a token, whatever it is charged. All lengths around the
 * bound are tried. */
static void fitting_descriptors_get_a_token(void **state)
{
	static const struct {
		const char *key;
		int64_t hits;
		size_t most; /* the longest value that fits */
	} cases[] = {{"t=", 7, 1422}, {"t=", 1000000000, 1414}, {"c=", 1, 1386}};
	uint8_t record[WR_RESERVATION_BYTES_MAX];
	char descriptor[1600], text[WR_RESERVATION_TEXT_MAX];
	uint64_t expires_ns;
	bool refunds;
	struct rig rig;

	rig_open(&rig, big, "d");
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
		for (size_t len = 1360; len < 1460; len++) {
			memset(descriptor, 'x', sizeof descriptor);
			memcpy(descriptor, cases[i].key, 2);
			descriptor[2 + len] = 0;
			rig_begin(&rig);
			assert_int_equal(wr_reservation_begin(rig.ask, record), 0);
			assert_int_equal(rig_add(&rig, descriptor, cases[i].hits), 0);
			assert_int_equal(wr_reservation_fits(rig.ask), len <= cases[i].most);
			assert_int_equal(rig_decide(&rig), WEIR_ADMIT);
			if (len <= cases[i].most)
				assert_in_range(wr_reservation_write(rig.ask, 0, text, &expires_ns,
								     &refunds),
						1, WR_RESERVATION_TEXT_MAX);
		}
	rig_close(&rig);
	(void)state;
}

/* The largest charges have exactly the number of bytes that wr_reservation_fits expects. */
static void largest_charges(void **state)
{
	uint8_t bytes[256];
	struct wr_reservation_charge charge = {.flags = WR_CHARGE_CENTRAL,
					       .own_cost = UINT32_MAX,
					       .cost = 3ull * UINT32_MAX,
					       .charged_ns = INT64_MAX,
					       .candidates = UINT8_MAX,
					       .decided_us = INT64_MAX,
					       .delay_ns = INT64_MAX,
					       .booked = UINT32_MAX,
					       .used = UINT32_MAX,
					       .given = INT64_MAX};

	for (int central = 1; central >= 0; central--) {
		struct wr_reservation_token token = {.at = bytes, .cap = sizeof bytes};

		wr_reservation_token_put_charge(&token, &charge);
		assert_int_equal(token.len, central ? 75 : 44);
		assert_int_equal(token.len, wr_reservation_token_charge_max(charge.own_cost,
									    charge.cost, central));
		charge.flags = 0;
	}
	(void)state;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(forged_and_foreign_tokens_are_unknown),
		cmocka_unit_test(long_descriptors_are_refused),
		cmocka_unit_test(fitting_descriptors_get_a_token),
		cmocka_unit_test(largest_charges),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
