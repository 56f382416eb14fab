/* weir_body_type: reads the Accept header (RFC 9110 §12.5.1) to choose the body of a refusal. */
#include <weir/engine.h>

#include "base/str.h"

#define Q_MAX 1000
#define RANGES_MAX 64 /* number of media ranges that are read; further ranges are ignored */

struct offer {
	struct weir_str type;
	/* Quality of the most precise range that matches, in thousandths; -1: no range matches. */
	int q;
	/* Precision of the most precise range that matches: 0 for any type, 1 for any subtype, 2
	 * for the type itself. -1: no range matches. */
	int exact;
};

static struct weir_str split_off(struct weir_str *rest, char separator)
{
	struct weir_str piece = wr_str_first(*rest, wr_str_find(*rest, separator));

	*rest = wr_str_from(*rest, piece.len + (piece.len < rest->len));
	return wr_str_trim(piece);
}

/* Returns a quality value in thousandths: 800 for "0.8". A text that is not a quality value counts
 * as "1". */
static int quality(struct weir_str text)
{
	int q = 0, scale = 100;

	if (text.len == 0 || text.len > 5 || (text.ptr[0] != '0' && text.ptr[0] != '1'))
		return Q_MAX;
	if (text.ptr[0] == '1')
		return Q_MAX;
	for (size_t i = 2; i < text.len; i++, scale /= 10) {
		if (text.ptr[i] < '0' || text.ptr[i] > '9')
			return Q_MAX;
		q += (text.ptr[i] - '0') * scale;
	}
	return q;
}

static int range_quality(struct weir_str parameters)
{
	while (parameters.len) {
		struct weir_str value = split_off(&parameters, ';');
		struct weir_str name = split_off(&value, '=');

		if (wr_str_equal_nocase(name, WR_STR("q")))
			return quality(value);
	}
	return Q_MAX;
}

/* Returns the precision with which a media range matches a type, or -1 if it does not match. */
static int exactness(struct weir_str range, struct weir_str type)
{
	struct weir_str kind = wr_str_first(type, wr_str_find(type, '/') + 1);

	if (wr_str_equal(range, WR_STR("*/*")))
		return 0;
	if (range.len == kind.len + 1 && range.ptr[kind.len] == '*' &&
	    wr_str_equal_nocase(wr_str_first(range, kind.len), kind))
		return 1;
	return wr_str_equal_nocase(range, type) ? 2 : -1;
}

static void weigh(struct offer *offer, struct weir_str range, int q)
{
	int exact = exactness(range, offer->type);

	if (exact > offer->exact || (exact == offer->exact && q > offer->q)) {
		offer->exact = exact;
		offer->q = q;
	}
}

int weir_body_type(struct weir_str accept)
{
	/* The types in order of preference. A client that accepts JSON gets a problem document. */
	struct offer offers[] = {{WR_STR("application/problem+json"), -1, -1},
				 {WR_STR("application/json"), -1, -1},
				 {WR_STR("text/plain"), -1, -1},
				 {WR_STR("text/html"), -1, -1}};
	static const int bodies[] = {WEIR_BODY_PROBLEM, WEIR_BODY_PROBLEM, WEIR_BODY_TEXT,
				     WEIR_BODY_HTML};
	int best = 0;

	for (int n = 0; accept.len && n < RANGES_MAX; n++) {
		struct weir_str parameters = split_off(&accept, ',');
		struct weir_str range = split_off(&parameters, ';');
		int q = range_quality(parameters);

		for (int i = 0; i < 4; i++)
			weigh(&offers[i], range, q);
	}
	for (int i = 1; i < 4; i++)
		if (offers[i].q > offers[best].q ||
		    (offers[i].q == offers[best].q && offers[i].exact > offers[best].exact))
			best = i;
	return offers[best].q > 0 ? bodies[best] : WEIR_BODY_PROBLEM;
}
