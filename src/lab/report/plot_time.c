/* Ticks of time axes; see lab/report/plot_time.h. */
#include "lab/report/plot_time.h"

#include <math.h>
#include <stdint.h>
#include <string.h>
#include <time.h>

#define DAY_S 86400
#define MONDAY_S (4 * DAY_S) /* 5 January 1970 was a Monday */

/* strftime() would use the locale of the process. */
static const char months[12][4] = {"Jan", "Feb", "Mar", "Apr", "May", "Jun",
				   "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};

/* A distance of ticks: seconds or months, the other is 0. */
struct time_step {
	double seconds;
	int months;
};

static const struct time_step steps[] = {
	{0.001, 0}, {0.002, 0}, {0.005, 0}, {0.01, 0},      {0.02, 0},      {0.05, 0},
	{0.1, 0},   {0.2, 0},   {0.5, 0},   {1, 0},         {2, 0},         {5, 0},
	{10, 0},    {15, 0},    {30, 0},    {60, 0},        {120, 0},       {300, 0},
	{600, 0},   {900, 0},   {1800, 0},  {3600, 0},      {7200, 0},      {10800, 0},
	{21600, 0}, {43200, 0}, {DAY_S, 0}, {2 * DAY_S, 0}, {7 * DAY_S, 0}, {14 * DAY_S, 0},
	{0, 1},     {0, 2},     {0, 3},     {0, 6},         {0, 12},        {0, 24},
	{0, 60},    {0, 120},   {0, 240},   {0, 600},       {0, 1200},      {0, 2400},
	{0, 6000},  {0, 12000}, {0, 24000}};

static struct time_step step_of(double range, unsigned most)
{
	size_t last = sizeof(steps) / sizeof(steps[0]) - 1, i = 0;

	while (i < last &&
	       range / most > (steps[i].months ? steps[i].months * 28.0 * DAY_S : steps[i].seconds))
		i++;
	return steps[i];
}

static struct tm civil(double time_s)
{
	time_t whole = (time_t)floor(time_s);
	struct tm tm;

	gmtime_r(&whole, &tm);
	return tm;
}

static void put_time(struct wr_lab_tick *tick, struct time_step step, const struct tm *tm)
{
	char *text = tick->text;

	if (step.months >= 12)
		snprintf(text, WR_LAB_TICK_TEXT, "%d", tm->tm_year + 1900);
	else if (step.months)
		snprintf(text, WR_LAB_TICK_TEXT, "%s", months[tm->tm_mon]);
	else if (step.seconds >= DAY_S)
		snprintf(text, WR_LAB_TICK_TEXT, "%d %s", tm->tm_mday, months[tm->tm_mon]);
	else if (step.seconds >= 60)
		snprintf(text, WR_LAB_TICK_TEXT, "%02d:%02d", tm->tm_hour, tm->tm_min);
	else if (step.seconds >= 1)
		snprintf(text, WR_LAB_TICK_TEXT, "%02d:%02d:%02d", tm->tm_hour, tm->tm_min,
			 tm->tm_sec);
	else
		snprintf(text, WR_LAB_TICK_TEXT, "%02d:%02d:%02d.%03d", tm->tm_hour, tm->tm_min,
			 tm->tm_sec,
			 (int)(nearbyint((tick->value - floor(tick->value)) * 1000)) % 1000);
}

/* `before` is the time of the tick before this one, NULL for the first tick. */
static void put_date(struct wr_lab_tick *tick, struct time_step step, const struct tm *tm,
		     const struct tm *before)
{
	bool whole_days = step.months > 0 || step.seconds >= DAY_S;

	if (step.months >= 12)
		return;
	if (before && before->tm_year == tm->tm_year &&
	    (whole_days || before->tm_yday == tm->tm_yday))
		return;
	if (whole_days)
		snprintf(tick->date, WR_LAB_TICK_TEXT, "%d", tm->tm_year + 1900);
	else
		snprintf(tick->date, WR_LAB_TICK_TEXT, "%d %s %d", tm->tm_mday, months[tm->tm_mon],
			 tm->tm_year + 1900);
}

/* Returns the first round time that is not before `low`. */
static double first_time(double low, struct time_step step)
{
	struct tm tm;
	double first, offset;

	if (step.months == 0) {
		offset = step.seconds >= 7 * DAY_S ? MONDAY_S : 0;
		return ceil((low - offset) / step.seconds - 1e-9) * step.seconds + offset;
	}
	tm = civil(low);
	tm = (struct tm){.tm_year = tm.tm_year, .tm_mon = tm.tm_mon, .tm_mday = 1};
	if (step.months > 12)
		tm.tm_year -= (tm.tm_year + 1900) % (step.months / 12);
	tm.tm_mon = step.months >= 12 ? 0 : tm.tm_mon - tm.tm_mon % step.months;
	while ((first = (double)timegm(&tm)) < low)
		tm.tm_mon += step.months;
	return first;
}

static double next_time(double time_s, struct time_step step)
{
	struct tm tm;

	if (step.months == 0)
		return time_s + step.seconds;
	tm = civil(time_s);
	tm.tm_mon += step.months;
	return (double)timegm(&tm);
}

size_t wr_lab_time_ticks(const struct wr_lab_scale *scale, unsigned most,
			 struct wr_lab_tick ticks[WR_LAB_TICKS_MAX])
{
	struct time_step step = step_of(scale->high - scale->low, most);
	double at = first_time(scale->low, step), end = scale->high + step.seconds * 1e-3;
	struct tm before = {0};
	size_t count = 0;

	while (at <= end && count < WR_LAB_TICKS_MAX) {
		struct wr_lab_tick *tick = &ticks[count];
		struct tm tm = civil(at + 1e-6);

		tick->value = at;
		tick->date[0] = '\0';
		put_time(tick, step, &tm);
		put_date(tick, step, &tm, count ? &before : NULL);
		before = tm;
		at = next_time(at, step);
		count++;
	}
	return count;
}
