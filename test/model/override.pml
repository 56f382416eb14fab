/* Bans set and lifted during takes: wr_override_change() and wr_override_settle() of src/table/override.c, and
 * attempt_overridden() of src/store/take.c. There is one key, with its cell and the cell of its override. A claim
 * is one step here; claim.pml models claims. Evictions of either cell are counted losses and are not modelled.
 *
 * -DSETTERS=n  operators that ban, -DSETS=n times each
 * -DLIFTERS=n  operators that lift, once each
 * -DTAKERS=n   participants that take, twice each
 * -DBEFORE     a ban is in force at the start
 *
 * A ban is promised when its call has returned, until it is lifted. Property: while a ban is promised, the bit is
 * set, and no take that starts during the promise is admitted.
 *
 * A killed participant takes no further step. Every assertion holds in every state, so it also holds after
 * any kill.
 *
 * The count of changes has four values, as in a cell. It wraps if four bans are set while a participant sleeps
 * that is about to clear the bit (COME_ROUND: two bans). The code reads the override again after it has cleared
 * the bit, and sets the bit again in this case. The model leaves this out.
 *
 * Mutations, each of which must be found:
 *   SAME_BIT     a ban on a key that has the bit does not change the cell
 *   BIT_FIRST    sets the bit, then writes the override
 *   READ_FIRST   reads the override before the cell to clear the bit
 *   CLEAR_BLIND  clears the bit without comparing
 *   KEEP_VERSION a cell that is given back keeps its version
 *   COME_ROUND   counts changes modulo two
 */
#ifndef SETTERS
#define SETTERS 1
#endif
#ifndef SETS
#define SETS 1
#endif
#ifndef LIFTERS
#define LIFTERS 1
#endif
#ifndef TAKERS
#define TAKERS 1
#endif

#ifdef COME_ROUND
#define NEXT(n) ((n + 1) & 1)
#else
#define NEXT(n) ((n + 1) & 3)
#endif

/* The cell of the key. */
bit live;
bit marked; /* the override bit of the cell */
unsigned changes : 2;
unsigned version : 3;
bit taken; /* the key has taken units */
/* The cell of the override. */
bit banned;

/* The promised bans, for the assertions. */
bit promised;
unsigned lifts : 2;

#define SAME (live && marked == seen_marked && changes == seen_changes && \
	      version == seen_version && taken == seen_taken)

inline look()
{
	seen_live = live;
	seen_marked = marked;
	seen_changes = changes;
	seen_version = version;
	seen_taken = taken
}

inline forget()
{
	seen_live = 0;
	seen_marked = 0;
	seen_changes = 0;
	seen_version = 0;
	seen_taken = 0;
	seen_banned = 0
}

/* Starts a new life of the key's cell, if the key has no cell. */
inline claim()
{
	if
	:: !live ->
		live = 1;
		marked = 0;
		changes = 0;
		taken = 0
	:: else
	fi
}

/* wr_override_settle: reads the cell and the override, then swaps. Repeats until the swap succeeds or there is
 * nothing to clear. */
inline settle()
{
	do
	:: true ->
#ifdef READ_FIRST
		atomic { seen_banned = banned }
		atomic { look() }
#else
		atomic {
			look();
			if
			:: !(seen_live && seen_marked) -> forget(); break
			:: else
			fi
		}
		atomic { seen_banned = banned }
#endif
		atomic {
			if
			:: !(seen_live && seen_marked) || seen_banned -> forget(); break
#ifdef CLEAR_BLIND
			:: else ->
				marked = 0;
				forget();
				break
#else
			:: else ->
				if
				:: SAME ->
					if
					:: taken -> marked = 0
					:: else ->
						live = 0;
						marked = 0;
						changes = 0;
#ifndef KEEP_VERSION
						version++
#endif
					fi;
					forget();
					break
				:: else -> forget()
				fi
#endif
			fi;
			assert(!promised || (live && marked))
		}
	od
}

inline set_bit()
{
	do
	:: atomic { claim(); look() }
		atomic {
			if
			:: SAME ->
#ifdef SAME_BIT
				changes = (marked -> changes : NEXT(changes));
#else
				changes = NEXT(changes);
#endif
				marked = 1;
				forget();
				break
			:: else -> forget()
			fi
		}
	od
}

proctype setter(byte sets)
{
	bit seen_live, seen_marked, seen_taken, seen_banned;
	unsigned seen_changes : 2, seen_version : 3, since : 2;

	do
	:: sets > 0 ->
#ifdef BIT_FIRST
		set_bit();
		atomic { banned = 1; since = lifts }
#else
		atomic { banned = 1; since = lifts }
		set_bit();
#endif
		atomic { /* the call of the operator returns */
			sets--;
			if
			:: since == lifts -> promised = 1
			:: else
			fi;
			since = 0;
			assert(!promised || (live && marked))
		}
	:: else -> break
	od
}

proctype lifter()
{
	bit seen_live, seen_marked, seen_taken, seen_banned;
	unsigned seen_changes : 2, seen_version : 3;

	atomic { banned = 0; promised = 0; lifts++ }
	settle()
}

proctype taker(byte takes)
{
	bit seen_live, seen_marked, seen_taken, seen_banned, under;
	/* The override was read. The code reads it again if the cell has changed since. The
	 * assertions do not need that. */
	bit ruled;
	unsigned seen_changes : 2, seen_version : 3, before : 2;

again:	atomic {
		ruled = 0;
		if
		:: takes == 0 -> goto done
		:: else
		fi;
		under = promised;
		before = lifts
	}
find:	atomic { claim(); look() }
	atomic {
		if
		:: seen_marked && !ruled -> goto overridden
		:: else
		fi
	}
	atomic {
		if
		:: SAME ->
			assert(!(under && lifts == before));
			taken = 1;
			takes--;
			forget();
			goto again
		:: else -> forget(); goto find
		fi
	}
overridden:
	atomic {
		ruled = 1;
		forget();
		seen_banned = banned;
		if
		:: seen_banned -> /* refused */
			seen_banned = 0;
			takes--;
			goto again
		:: else
		fi
	}
	settle();
	goto find;
done:
	skip
}

init {
	atomic {
#ifdef BEFORE
		live = 1;
		marked = 1;
		banned = 1;
		promised = 1;
#endif
		run setter(SETS);
#if SETTERS > 1
		run setter(SETS);
#endif
#if LIFTERS > 0
		run lifter();
#endif
#if LIFTERS > 1
		run lifter();
#endif
#if TAKERS > 0
		run taker(2);
#endif
#if TAKERS > 1
		run taker(2);
#endif
	}
}
