/* Deciding on a cell while other participants take it: wr_cell_holds(), step_on_cell() and wr_cell_raise_fresh() of
 * src/table/table.h and src/store/take.c against stake_claim() and confirm() of src/table/claim.c. There is
 * only one cell, so that all participants use it. The clock stands still.
 *
 * -DTAKERS=n   participants that take from key 1, twice each
 * -DOTHERS=n   participants that take from key 2, once each
 * -DEMPTIERS=n participants that empty the cell, EMPTIES times each: either an unused cell (without_bit() of
 *              src/table/override.c) or any cell (forget_owner() of src/table/block.c)
 * -DQUICK      each may try the short path first (take_quickly), whose reads may be torn
 *
 * A participant that does not find its key takes the cell, whatever it holds. The time between two claims is
 * one life of the cell. The version numbers the lives.
 *
 * A killed participant takes no further step. Every assertion holds in every state, so it also holds after
 * any kill.
 *
 * Mutations, each of which must be found:
 *   NO_BUMP        a claim keeps the version
 *   TAG_FIRST      reads id's tag before its version
 *   STILL_LIVE     after a failed swap, compares the state and not the version
 *   RAISE_LATE     raises fresh_at after the swap
 *   HALF_SWAP      the short path compares the upper word alone
 *   BLIND_SWAP     writes the new state without comparing
 *   EMPTY_BLIND    empties the cell without comparing
 *   EMPTY_STALE    checks that the cell is unused in one read, and compares with a later read
 *   EMPTY_REVIVED  an emptied cell is claimed with the version of its last life
 */
#ifndef TAKERS
#define TAKERS 2
#endif
#ifndef OTHERS
#define OTHERS 1
#endif
#ifndef EMPTIERS
#define EMPTIERS 0
#endif
#ifndef EMPTIES
#define EMPTIES 1
#endif
#ifndef LIVES
/* Maximum number of claims in total; a participant that needs another claim stops, as if it were
 * killed. */
#define LIVES 4
#endif

#define LIMIT 2
#define EMPTY 0
#define TENTATIVE 1
#define LIVE 2

/* The hot pair of the cell. */
unsigned state : 2;
unsigned s0 : 3; /* the tag while the cell is tentative, then the units taken */
unsigned version : 4;
bit refused;
/* The id of the cell. */
unsigned tag : 2;
unsigned id_version : 4;
bit fresh; /* 1: the counter is active */

/* The real history, for the assertions. */
unsigned life : 4;               /* number of the present claim */
unsigned owner : 2; /* the key of this claim */
unsigned admitted : 3; /* units that swaps have admitted in this life of the cell */

#define HOT(st, lo, ver, ref) (state == st && s0 == lo && version == ver && refused == ref)

inline set_hot(st, lo, ver, ref)
{
	state = st;
	s0 = lo;
	version = ver;
	refused = ref
}

/* Returns to the start and clears all variables, which reduces the number of states. */
inline again()
{
	seen_state = 0;
	seen_s0 = 0;
	seen_version = 0;
	seen_refused = 0;
	before = 0;
	rest = 0;
	name = 0;
	expired = 0;
	goto find
}

proctype taker(byte key; byte takes)
{
	unsigned seen_state : 2, seen_s0 : 3, seen_version : 4, before : 4, rest : 4, name : 2;
	bit seen_refused, expired;

find:	/* wr_cell_holds: id's version, id's tag, hot */
	atomic {
		if
		:: takes == 0 -> goto done
		:: else
		fi;
#ifdef QUICK
		if
		:: rest = id_version; goto quick
		:: true
		fi;
#endif
#ifdef TAG_FIRST
		name = tag
	}
	atomic { rest = id_version }
#else
		rest = id_version
	}
	atomic { name = tag }
#endif
	atomic {
		seen_state = state;
		seen_s0 = s0;
		seen_version = version;
		seen_refused = refused;
		if
		:: name == key && seen_state == LIVE && seen_version == rest ->
			before = rest;
			name = 0;
			rest = 0;
			goto step
		:: else -> name = 0; rest = 0
		fi
	}

	/* The key is not in the cell. Replaces the hot pair that was read. rank_of reads fresh_at afterwards. */
	atomic { expired = !fresh }
	atomic {
		if
		:: life == LIVES ->
			seen_state = 0; seen_s0 = 0; seen_version = 0; seen_refused = 0; expired = 0;
			goto done
		:: else
		fi;
		if
		:: HOT(seen_state, seen_s0, seen_version, seen_refused) ->
			/* A cell that was evicted as expired had taken nothing. */
			assert(!(expired && seen_state == LIVE && admitted > 0));
#ifdef NO_BUMP
			before = seen_version;
#elif defined(EMPTY_REVIVED)
			before = (seen_state == EMPTY && seen_version > 0 -> seen_version - 1 :
				seen_version + 1);
#else
			before = seen_version + 1;
#endif
			set_hot(TENTATIVE, key, before, 0);
			life++;
			owner = key;
			admitted = 0
		:: else -> again()
		fi;
		expired = 0
	}

	/* Steps of confirm: the id, then the hot pair. A single cell needs no scan. */
confirm:
	atomic { name = tag; rest = id_version; expired = fresh }
	atomic {
		if
		:: !HOT(TENTATIVE, key, before, 0) ->
			again()
		:: else
		fi
	}
	atomic {
		if
		:: tag == name && id_version == rest && fresh == expired ->
			tag = key;
			id_version = before;
			fresh = 0
		:: else -> goto confirm
		fi;
		name = 0; rest = 0; expired = 0
	}
	atomic {
		if
		:: HOT(TENTATIVE, key, before, 0) ->
			set_hot(LIVE, 0, before, 0);
			seen_state = LIVE; seen_s0 = 0; seen_version = before; seen_refused = 0
		:: else -> again()
		fi
	}

step:
	atomic {
		if
		:: seen_s0 == LIMIT && seen_refused -> takes--; again()
		:: seen_s0 == LIMIT && !seen_refused -> goto mark
		:: else
		fi;
#ifndef RAISE_LATE
		/* fresh_at may be raised for the next key of the cell: it then expires too late,
		 * never too early */
		fresh = 1
#endif
	}
	atomic {
		if
#ifdef BLIND_SWAP
		:: true ->
#else
		:: HOT(seen_state, seen_s0, seen_version, seen_refused) ->
#endif
			assert(state == LIVE && owner == key);
			set_hot(LIVE, seen_s0 + 1, seen_version, seen_refused);
			admitted++;
			assert(admitted <= LIMIT && admitted == s0);
			takes--;
#ifdef RAISE_LATE
			goto raise
#else
			again()
#endif
		:: else ->
			seen_state = state;
			seen_s0 = s0;
			seen_version = version;
			seen_refused = refused
		fi;
		if /* wr_spot_still */
#ifdef STILL_LIVE
		:: seen_state == LIVE -> goto step
#else
		:: seen_state == LIVE && seen_version == before -> goto step
#endif
		:: else -> again()
		fi
	}
#ifdef RAISE_LATE
raise:
	atomic { fresh = 1; again() }
#endif

mark:
	atomic {
		if
		:: HOT(seen_state, seen_s0, seen_version, seen_refused) ->
			assert(state == LIVE && owner == key);
			refused = 1
		:: else
		fi;
		takes--;
		again()
	}

#ifdef QUICK
quick:	/* wr_table_find_to_swap: id's version, hot word by word, id's tag; then swap or nothing */
	atomic { seen_s0 = s0 }
	atomic { seen_state = state; seen_version = version; seen_refused = refused }
	atomic {
		name = tag;
		if
		:: name == key && seen_state == LIVE && seen_version == rest &&
		   seen_s0 < LIMIT -> name = 0; rest = 0
		:: else -> again()
		fi
	}
	atomic { fresh = 1 }
	atomic {
		if
#ifdef HALF_SWAP
		:: state == seen_state && version == seen_version && refused == seen_refused ->
#else
		:: HOT(seen_state, seen_s0, seen_version, seen_refused) ->
#endif
			assert(state == LIVE && owner == key);
			set_hot(LIVE, seen_s0 + 1, seen_version, seen_refused);
			admitted++;
			assert(admitted <= LIMIT && admitted == s0);
			takes--
		:: else
		fi;
		again()
	}
#endif

done:
	skip
}

/* Empties the cell and raises its version by 1. The life ends, and no key owns the cell. */
proctype emptier(byte empties)
{
	unsigned seen_s0 : 3, seen_version : 4, gone : 3;
	bit seen_refused, whatever, expired;

look:
	atomic {
		if
		:: empties == 0 || state != LIVE -> goto done
		:: else
		fi;
		seen_s0 = s0;
		seen_version = version;
		seen_refused = refused;
		if
		:: seen_s0 == 0 -> whatever = 0
		:: whatever = 1
		fi
	}
#ifdef EMPTY_STALE
	atomic { seen_s0 = s0; seen_version = version; seen_refused = refused }
#endif
	atomic {
		if
#ifdef EMPTY_BLIND
		:: true ->
#else
		:: HOT(LIVE, seen_s0, seen_version, seen_refused) ->
#endif
			/* A cell that is given back as unused has taken nothing. */
			assert(whatever || admitted == 0);
			gone = admitted;
			set_hot(EMPTY, 0, seen_version + 1, 0);
			owner = 0;
			admitted = 0;
			empties--
		:: else -> goto forget
		fi;
		if
		:: !whatever -> goto forget
		:: else
		fi
	}
	atomic { expired = !fresh }
	/* A key that was counted as expired had taken nothing. A new owner may have reset fresh_at. */
	atomic { assert(!expired || gone == 0 || version != seen_version + 1) }
forget:
	atomic {
		seen_s0 = 0; seen_version = 0; seen_refused = 0; whatever = 0; expired = 0; gone = 0;
		goto look
	}
done:
	skip
}

init {
	atomic {
#if EMPTIERS > 0
		run emptier(EMPTIES);
#endif
#if EMPTIERS > 1
		run emptier(EMPTIES);
#endif
		run taker(1, 2);
#if TAKERS > 1
		run taker(1, 2);
#endif
#if TAKERS > 2
		run taker(1, 2);
#endif
#if OTHERS > 0
		run taker(2, 1);
#endif
#if OTHERS > 1
		run taker(2, 1);
#endif
	}
}
