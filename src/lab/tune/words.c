/* Describes in words how the clients of a route behave. */
#include <stdio.h>

#include "lab/tune/tune.h"
#include "stats/words.h"

#define BURST 5u /* batches of this size are bursts */

/* Writes a duration that need not be exact: "about 40 s", "about 3 min". */
static void about(double seconds, char text[32])
{
	if (seconds < 90)
		snprintf(text, 32, "about %.0f s", seconds);
	else
		snprintf(text, 32, "about %.0f min", seconds / 60);
}

static void print_bursts(const struct wr_lab_tune_route *route, char *text, size_t cap)
{
	char half[WR_NUMBER_WORDS + 16] = "their requests one by one";
	char most[WR_NUMBER_WORDS], number[WR_NUMBER_WORDS], pause[32], rest[64] = "";
	bool bursts = route->batch_half > 1;

	wr_number_words(route->batch_half, number);
	wr_number_words(route->batch_most, most);
	if (bursts)
		snprintf(half, sizeof half, "up to %s at once", number);
	about(route->pause_s, pause);
	if (route->pause_s > 0)
		snprintf(rest, sizeof rest, "; between bursts they rest for %s", pause);
	snprintf(text, cap, "bursts: half of the clients send %s, nine of ten up to %s%s%s", half,
		 most, bursts ? "" : " at once", rest);
}

void wr_lab_tune_words(const struct wr_lab_tune_route *route, char *text, size_t cap)
{
	char most[WR_NUMBER_WORDS];

	wr_number_words(route->batch_most, most);
	if (route->considered == 0)
		snprintf(text, cap, "no client is considered");
	else if (route->batch_most >= BURST)
		print_bursts(route, text, cap);
	else if (route->batch_most > 1)
		snprintf(text, cap,
			 "small bursts: nine of ten clients send up to %s requests at once, and "
			 "%.1f "
			 "per minute while they are active",
			 most, route->pace);
	else
		snprintf(text, cap,
			 "steady: nine of ten clients send their requests one by one, %.1f per "
			 "minute "
			 "while they are active",
			 route->pace);
}
