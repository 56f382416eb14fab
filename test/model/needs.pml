/* Two limits on one request: take_in_order() and the give-back after a late refusal, of src/store/need.c and
 * src/store/take_all.c, with wr_store_return() of src/store/back.c on fixed windows. A take from one counter is one
 * swap of its cell (decide.pml), so it is one step here.
 *
 * -DPARTICIPANTS=n  each asks once
 * -DFIRST=n         the limit that is taken first; the second limit is 1
 * -DTURNS=n         how often the window ends, at any time: a request may be decided late
 *
 * Properties: In every window a counter is at least the number of requests admitted in it, so never more than the
 * limit is admitted. When all participants have finished, the counter is equal to that number. A killed
 * participant takes no further step. The first property holds in every state, so a unit that was not given back
 * makes the counter too high, never too low.
 *
 * Mutations, each of which must be found:
 *   BACK_ANYWHERE  the unit goes into the window of the give-back, not of the take
 *   BACK_ALL       also gives back to the limit that refused
 *   BACK_NEVER     a late refusal gives nothing back
 *   BACK_STORE     the give-back writes the value read before, less one
 *   CHARGED_NOW    remembers the window of the request, not the window that counted it
 *   PASS_LATE      a request passes although its second take was refused
 */
#ifndef PARTICIPANTS
#define PARTICIPANTS 3
#endif
#ifndef FIRST
#define FIRST 2
#endif
#ifndef TURNS
#define TURNS 1
#endif

#ifdef CHARGED_NOW
#define CHARGED(n) now
#else
#define CHARGED(n) epoch[n]
#endif
#define LIMIT(n) ((n) == 0 -> FIRST : 1)

byte window;
byte epoch[2]; /* the window that each counter counts in */
byte count[2];
/* Number of requests admitted in this window; this and all variables below are only for
 * assertions. */
byte sure[2];
byte under_way;

/* A counter is at least the number of admitted requests, and at most its limit. */
#define CHECK(n)                                                                                   \
	assert(count[n] <= LIMIT(n));                                                              \
	assert(count[n] >= sure[n])

/* Moves a counter to the present window. A late request is counted in the counter's window. */
inline roll(n)
{
	if
	:: epoch[n] < now -> epoch[n] = now; count[n] = 0; sure[n] = 0
	:: else
	fi
}

/* One step: the admission counts for both counters when the second one is taken. */
inline admit()
{
	if
	:: epoch[0] == charged[0] -> sure[0]++
	:: else
	fi;
	if
	:: epoch[1] == charged[1] -> sure[1]++
	:: else
	fi;
	CHECK(0);
	CHECK(1)
}

proctype participant()
{
	byte charged[2], seen, now;

	now = window;
	/* take_in_order */
	atomic {
		roll(0);
		if
		:: count[0] < LIMIT(0) -> count[0]++; charged[0] = CHARGED(0); CHECK(0)
		:: else -> goto done
		fi
	}
	atomic {
		roll(1);
		if
		:: count[1] < LIMIT(1) -> count[1]++; charged[1] = CHARGED(1); admit(); goto done
		:: else
		fi;
#ifdef PASS_LATE
		charged[1] = epoch[1];
		admit();
		goto done
#endif
	}
#ifdef BACK_NEVER
	goto done;
#endif
	/* wr_store_return: compares the window that counted the take */
	atomic {
		seen = count[0];
#ifdef BACK_STORE
	}
	atomic {
#endif
		if
#ifdef BACK_ANYWHERE
		:: count[0] > 0 ->
#else
		:: epoch[0] == charged[0] ->
#endif
			count[0] = seen - 1;
			CHECK(0)
		:: else
		fi
	}
#ifdef BACK_ALL
	atomic {
		if
		:: count[1] > 0 -> count[1]--; CHECK(1)
		:: else
		fi
	}
#endif
done:
	atomic {
		seen = 0;
		now = 0;
		under_way--;
		if
		:: under_way == 0 ->
			assert(count[0] == sure[0]);
			assert(count[1] == sure[1])
		:: else
		fi
	}
}

/* Ends the window. A counter moves to the new window with the first take in it. */
proctype clock()
{
	byte turns = TURNS;

	do
	:: turns > 0 -> atomic { turns--; window++ }
	:: turns == 0 -> break
	od
}

init {
	atomic {
		byte n = PARTICIPANTS;

		under_way = PARTICIPANTS;
		do
		:: n > 0 -> run participant(); n--
		:: else -> break
		od;
		run clock()
	}
}
