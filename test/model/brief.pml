/* The forms of a log: an instant in its cell, a ring, a brief log. Checks grow(), make_brief(), write_cell()
 * and attempt_once() of src/store/log_take.c against shrink_owner() of src/table/block.c, by which another
 * key takes the ring of a live log. Entries are counted and have no times; log.pml models the times. A ring
 * name is used once; grow.pml models blocks that are taken again and logs that are forgotten. Comments name
 * the C function of a step.
 *
 * -DTAKERS=n    participants that append to the log, twice each
 * -DSHRINKERS=n participants that take the log's ring, if it has one
 * -DOWN         takers also seal a ring that is not sealed, to grow it or to make it brief
 *
 * Property: in every form, the log counts each admitted entry once.
 *
 * Mutations, each of which must be found:
 *   NO_SEAL      a ring becomes brief while others append to it
 *   COUNT_FIRST  the entries for the cell are counted before the ring is sealed
 *   CELL_STORE   the brief log is stored without comparing the cell
 *   IGNORE_SEAL  an append compares the ring's count and not its seal
 *   OWN_NO_SEAL  the key makes its own ring brief without sealing it
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
#ifndef RINGS
#define RINGS 4 /* a participant that needs another ring stops, as if it were killed */
#endif

/* The cell: its form, and the number of entries or the name of a ring. */
unsigned form : 2;
byte lo;
/* The words of the rings. */
byte count[RINGS];
bit sealed[RINGS];
byte rings;
byte past; /* number of admitted entries */

#define SAME_CELL (form == c_form && lo == c_lo)
#define CHECK assert(past == (form == RING -> count[lo] : lo))

/* Steps of make_brief and shrink_owner: write the count of the sealed ring into the cell. */
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

read:	/* wr_table_find: the hot pair */
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
in_cell: /* write_cell */
	atomic {
		if
		:: SAME_CELL -> lo++; past++; takes--; CHECK
		:: else
		fi;
		goto read
	}
grow:	/* grow: fills a new block with the entries read, then swaps the pointer */
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
ring:	/* read_ring: the word. attempt_once: move_log if it is sealed, full or too small */
	atomic {
		n = count[c_lo]; s = sealed[c_lo];
		if
		:: s && rings < RINGS -> goto grow
		:: s -> goto brief
#ifdef OWN
		:: !s -> goto seal
#endif
		:: !s
		fi
	}
	/* commit */
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
#ifdef OWN
seal:	/* fill_any, make_brief: wr_table_log_seal */
#ifndef OWN_NO_SEAL
	atomic {
		if
		:: count[c_lo] == n && sealed[c_lo] == s -> sealed[c_lo] = 1
		:: else -> goto read
		fi
	}
#endif
	atomic {
		if
		:: rings < RINGS -> goto grow
		:: goto brief
		fi
	}
#endif
brief:
	atomic { shrink(); goto read }
done:
	skip
}

proctype shrinker()
{
	byte c_form, c_lo, n;
	bit s;

	/* find_owner: the hot pair; shrink_owner: the word */
	atomic {
		c_form = form; c_lo = lo;
		if
		:: c_form != RING -> goto done
		:: else
		fi
	}
	atomic { n = count[c_lo]; s = sealed[c_lo] }
	/* wr_table_log_seal */
	atomic {
		if
#ifdef NO_SEAL
		:: true
#elif defined(COUNT_FIRST)
		:: true -> sealed[c_lo] = 1
#else
		:: s
		:: !s && count[c_lo] == n && !sealed[c_lo] -> sealed[c_lo] = 1
		:: else -> goto done
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
