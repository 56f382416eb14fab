/* Describes in words how the clients of a route behave. */
#include <stdio.h>

#include "lab/tune.h"
#include "stats/words.h"

#define BURST_BATCH 4.0  /* larger mean batches are bursts */
#define SINGLE_BATCH 1.5 /* smaller mean batches are single requests */

/* Writes a duration that need not be exact: "about 40 s", "about 3 min". */
static void about(double seconds, char text[32])
{
	if (seconds < 90)
		snprintf(text, 32, "about %.0f s", seconds);
	else
		snprintf(text, 32, "about %.0f min", seconds / 60);
}

/* Writes a small number: one decimal below 10. */
static void some(double number, char text[32])
{
	snprintf(text, 32, number < 9.95 ? "%.1f" : "%.0f", number);
}

void wr_lab_tune_words(const struct wr_lab_tune_route *route, char *text, size_t cap)
{
	double requests = (double)route->sampled_requests;
	double batch = route->batches ? requests / (double)route->batches : 0;
	char size[32], pause[32], rate[32], peak[WR_NUMBER_WORDS];

	some(batch, size);
	some(route->active_minutes ? requests / (double)route->active_minutes : 0, rate);
	about(route->pause_s, pause);
	wr_number_words(route->batch_peak, peak);
	if (route->sampled_requests == 0)
		snprintf(text, cap, "no requests");
	else if (batch >= BURST_BATCH && route->pauses)
		snprintf(text, cap,
			 "bursts: a client sends %s requests at once on average (nine of ten "
			 "clients: at most %s), then pauses for %s",
			 size, peak, pause);
	else if (batch >= BURST_BATCH)
		snprintf(text, cap,
			 "bursts: a client sends %s requests at once on average (nine of ten "
			 "clients: at most %s), and no more",
			 size, peak);
	else if (batch >= SINGLE_BATCH)
		snprintf(text, cap,
			 "small bursts: a client sends %s requests at once on average (nine of ten "
			 "clients: at most %s), %s per minute while it is active",
			 size, peak, rate);
	else
		snprintf(
			text, cap,
			"steady: a client sends its requests one by one, %s per minute while it is "
			"active",
			rate);
}
