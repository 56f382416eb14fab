/* The forms of a log: in its cell as an instant, a ring, brief. grow(), make_brief(), write_cell()
 * and attempt_once() of src/store/log_take.c against shrink_owner() of src/table/block.c, by which
 * another key takes the ring of a live log. Entries are counted and have no times: those are
 * log.pml. A ring is named once and never again: blocks that are taken anew are grow.pml.
 *
 * -DTAKERS=n    participants that append to the log, twice each
 * -DSHRINKERS=n participants that take the log's ring, if it has one
 *
 * What must hold: whatever form the log has, it counts each entry that was admitted, once.
 *
 * Mutations, each of which must be found:
 *   NO_SEAL      a ring becomes brief while others append to it
 *   COUNT_FIRST  what goes into the cell is counted before the ring is sealed
 *   CELL_STORE   the brief log is stored, whatever the cell has become
 *   IGNORE_SEAL  an append compares the ring's count and not its seal
 */
#ifndef TAKERS
#define TAKERS 2
#endif
#ifndef SHRINKERS
#define SHRINKERS 1
#endif

#define INSTANT 0
#define RING 1
#define BRIEF 2
#define RINGS 4 /* a participant that wants another one stops, as if killed */

/* the cell: its form, and a number of entries or the name of a ring */
unsigned form : 2;
byte lo;
/* words of rings */
byte count[RINGS];
bit sealed[RINGS];
byte rings;
byte past; /* what was admitted */

#define SAME_CELL (form == c_form && lo == c_lo)
#define CHECK assert(past == (form == RING -> count[lo] : lo))

/* Puts what is in the sealed ring into the cell. */
inline shrink()
{
	if
#ifdef CELL_STORE
	:: true ->
#else
	:: SAME_CELL ->
#endif
		form = BRIEF; lo = n; CHECK
	:: else
	fi
}

proctype taker()
{
	byte takes = 2, c_form, c_lo, n, new;
	bit s;

read:
	atomic {
		if
		:: takes == 0 -> goto done
		:: else
		fi;
		c_form = form; c_lo = lo; n = 0; s = 0; new = 0;
		if
		:: c_form == RING -> goto ring
		:: c_form != RING -> goto in_cell
		:: c_form != RING && rings < RINGS -> n = c_lo; goto grow
		fi
	}
in_cell:
	atomic {
		if
		:: SAME_CELL -> lo++; past++; takes--; CHECK
		:: else
		fi;
		goto read
	}
grow:	/* a block of its own, filled with what was read, then the pointer */
	atomic {
		if
		:: rings == RINGS -> goto read
		:: else -> new = rings; rings++; count[new] = n
		fi
	}
	atomic {
		if
		:: SAME_CELL -> form = RING; lo = new; CHECK
		:: else
		fi;
		goto read
	}
ring:
	atomic {
		n = count[c_lo]; s = sealed[c_lo];
		if
		:: s && rings < RINGS -> goto grow
		:: s -> goto brief
		:: else
		fi
	}
	atomic {
		if
#ifdef IGNORE_SEAL
		:: count[c_lo] == n ->
#else
		:: count[c_lo] == n && sealed[c_lo] == s ->
#endif
			count[c_lo]++; past++; takes--; CHECK
		:: else
		fi;
		goto read
	}
brief:
	atomic { shrink(); goto read }
done:
	skip
}

proctype shrinker()
{
	byte c_form, c_lo, n;

	atomic {
		c_form = form; c_lo = lo;
		if
		:: c_form != RING -> goto done
		:: else -> n = count[c_lo]
		fi
	}
	atomic {
		if
#ifdef NO_SEAL
		:: true
#elif defined(COUNT_FIRST)
		:: true -> sealed[c_lo] = 1
#else
		:: sealed[c_lo] -> n = count[c_lo]
		:: !sealed[c_lo] && count[c_lo] == n -> sealed[c_lo] = 1
		:: !sealed[c_lo] && count[c_lo] != n -> goto done
#endif
		fi
	}
	atomic { shrink() }
done:
	skip
}

init {
	atomic {
		form = RING; count[0] = 1; rings = 1; past = 1;
		run taker();
#if TAKERS > 1
		run taker();
#endif
#if TAKERS > 2
		run taker();
#endif
		run shrinker();
#if SHRINKERS > 1
		run shrinker();
#endif
	}
}
