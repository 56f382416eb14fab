/* Guesses which word a misspelled word was meant to be, for error messages. */
#include "rules/fields.h"

#define WORD_MAX 48

static size_t least_of_three(size_t a, size_t b, size_t c)
{
	size_t ab = a < b ? a : b;

	return ab < c ? ab : c;
}

/* Returns the number of edits (insert, delete, replace, swap neighbours) that turn one word into
 * the other. A row has the numbers of edits between one prefix of `a` and all prefixes of `b`. Each
 * row is computed from the two rows before it. */
static size_t edit_distance(struct weir_str a, struct weir_str b)
{
	size_t rows[3][WORD_MAX + 1];
	size_t *before = rows[0], *last = rows[1], *now = rows[2];

	for (size_t j = 0; j <= b.len; j++)
		last[j] = j;
	for (size_t i = 1; i <= a.len; i++) {
		size_t *spare = before;

		now[0] = i;
		for (size_t j = 1; j <= b.len; j++) {
			bool same = wr_lower(a.ptr[i - 1]) == wr_lower(b.ptr[j - 1]);

			now[j] = least_of_three(last[j] + 1, now[j - 1] + 1, last[j - 1] + !same);
			if (i > 1 && j > 1 && a.ptr[i - 1] == b.ptr[j - 2] &&
			    a.ptr[i - 2] == b.ptr[j - 1] && before[j - 2] + 1 < now[j])
				now[j] = before[j - 2] + 1;
		}
		before = last;
		last = now;
		now = spare;
	}
	return last[b.len];
}

/* Stores the known word `candidate` in guess->best if it is more similar to the misspelled word
 * than all known words that were tried before. A word is similar if the number of edits is at most
 * 3, and at most a third of the length of the misspelled word, rounded up. */
void wr_guess_try(struct wr_guess *guess, struct weir_str candidate)
{
	size_t most = (guess->word.len + 2) / 3 < 3 ? (guess->word.len + 2) / 3 : 3;
	size_t edits;

	if (guess->word.len == 0 || guess->word.len > WORD_MAX || candidate.len > WORD_MAX)
		return;
	edits = edit_distance(guess->word, candidate);
	if (edits <= most && (guess->best.len == 0 || edits < guess->distance)) {
		guess->best = candidate;
		guess->distance = edits;
	}
}
