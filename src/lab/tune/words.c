/* Describes in words how the clients of a route behave. */
#include <stdio.h>

#include "lab/tune/tune.h"
#include "stats/words.h"

#define LARGE 5u /* smaller bursts are small */

_Static_assert(WR_LAB_BATCH_NS == 2000000000ull, "the sentences say 2 s");

/* Writes a duration that need not be exact: "about 40 s", "about 3 min". */
static void about(double seconds, char text[32])
{
	if (seconds < 90)
		snprintf(text, 32, "about %.0f s", seconds);
	else
		snprintf(text, 32, "about %.0f min", seconds / 60);
}

/* Writes a rate that need not be exact: "about 60 per minute", "about 1.3 per minute". */
static void about_rate(double per_minute, char text[WR_NUMBER_WORDS + 32])
{
	char number[WR_NUMBER_WORDS];

	wr_number_words((uint64_t)(per_minute + 0.5), number);
	if (per_minute < 9.95)
		snprintf(number, sizeof number, "%.1f", per_minute);
	snprintf(text, WR_NUMBER_WORDS + 32, "about %s per minute", number);
}

static void print_bursts(const struct wr_lab_tune_route *route, char *text, size_t cap)
{
	char half[WR_NUMBER_WORDS + 32] = "no bursts";
	char most[WR_NUMBER_WORDS], number[WR_NUMBER_WORDS], pause[32], rest[64] = "";
	bool bursts = route->burst_half > 1;

	wr_number_words(route->burst_half, number);
	wr_number_words(route->burst_most, most);
	if (bursts)
		snprintf(half, sizeof half, "up to %s within 2 s", number);
	about(route->pause_s, pause);
	if (route->pause_s > 0)
		snprintf(rest, sizeof rest, "; between bursts they rest for %s", pause);
	snprintf(text, cap, "bursts: half of the clients send %s, nine of ten up to %s%s%s", half,
		 most, bursts ? "" : " within 2 s", rest);
}

void wr_lab_tune_words(const struct wr_lab_tune_route *route, char *text, size_t cap)
{
	char most[WR_NUMBER_WORDS], rate[WR_NUMBER_WORDS + 32];

	wr_number_words(route->burst_most, most);
	about_rate(route->pace, rate);
	if (route->considered == 0)
		snprintf(text, cap, "no client is considered");
	else if (route->burst_most >= LARGE)
		print_bursts(route, text, cap);
	else if (route->burst_most > 1)
		snprintf(text, cap,
			 "small bursts: nine of ten clients send up to %s within 2 s; %s while a "
			 "client is active",
			 most, rate);
	else
		snprintf(text, cap,
			 "steady, %s while a client is active; nine of ten clients send no bursts",
			 rate);
}
