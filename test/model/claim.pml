/* Giving a key a cell: wr_table_claim() of src/table/claim.c, one shared access per step.
 *
 * -DK=n       participants that claim key 1
 * -DU=n       participants that claim key 2, which compete for the same cells
 * -DCELLS=n   candidate cells, scanned from 0 up. Cell 0 holds the live key 3, the others are empty
 * -DTORN      wr_pair_load() takes three reads instead of one step
 *
 * A scan may choose any cell as its victim. The model therefore covers every order of prices, including theft
 * of a standing claim.
 *
 * A killed participant takes no further step. Every assertion holds in every state, so it also holds after
 * any kill.
 * `solo` checks that a killed participant blocks no other: at any time all participants but one may stop, and
 * the remaining one must finish within three scans.
 *
 * Mutations, each of which must be found:
 *   DROP_ONCE       a claim that changed before it was dropped is not read again
 *   CONFIRM_AT_ONCE confirms a claim first seen in this scan
 *   JUDGE_TWICE     reads hot again to check for a claim, after it was found not live
 *   HOT_FIRST       writes hot before id
 *   WAIT_FOR_OWNER  leaves a claim to the participant that made it
 */
#ifndef K
#define K 2
#endif
#ifndef U
#define U 0
#endif
#ifndef CELLS
#define CELLS 2
#endif
#ifndef STAKES
#define STAKES 3 /* maximum number of claims per participant; then it stops, as if it were killed */
#endif

#define EMPTY 0
#define TENTATIVE 1
#define LIVE 2
#define NONE 7
#define OLD_KEY 3

typedef cell {
	unsigned state : 2; /* part of the hot pair */
	/* Part of the hot pair: the tag while the cell is tentative, otherwise the state of the
	 * key, which is 0 here. */
	unsigned lo : 2;
	byte version; /* part of the hot pair */
	unsigned tag : 2; /* part of the id */
	byte id_version /* part of the id */
}

cell cells[CELLS];
byte solo; /* the only participant that is alive; 0: all are alive */

inline check()
{
	d_step {
		j = 0;
		seen = 0;
		do
		:: j < CELLS ->
			if
			:: cells[j].state == LIVE ->
				/* The id of a live cell has the version of its hot pair. */
				assert(cells[j].version == cells[j].id_version);
				/* No key has two cells. */
				assert(!(seen & (1 << cells[j].tag)));
				seen = seen | (1 << cells[j].tag)
			:: else
			fi;
			j++
		:: else -> break
		od;
		j = 0;
		seen = 0
	}
}

inline maybe_victim()
{
	if
	:: claim == NONE && live == NONE ->
		if
		:: victim = i; victim_state = state; victim_lo = lo; victim_version = version
		:: victim != NONE
		fi
	:: else
	fi
}

inline forget_victim()
{
	victim = NONE;
	victim_state = 0;
	victim_lo = 0;
	victim_version = 0
}

inline begin_scan()
{
	i = 0;
	live = NONE;
	claim = NONE;
	claim_version = 0;
	forget_victim();
	if
	:: solo == _pid ->
		scans++;
		assert(scans <= 3) /* a participant that runs alone finishes within three scans */
	:: else
	fi
}

/* Goes to the next cell. After the last cell, the result of the scan selects the next step. */
inline next_cell()
{
	state = 0;
	lo = 0;
	version = 0;
	rest = 0;
	tag = 0;
	i++;
	if
	:: i < CELLS -> goto read_cell
	:: else -> i = 0
	fi;
	if
	:: live != NONE && claim != NONE -> goto drop_last
	:: live != NONE && claim == NONE -> goto done
	:: live == NONE && claim == NONE -> goto stake
	:: live == NONE && claim != NONE ->
#ifdef CONFIRM_AT_ONCE
		known = claim;
		known_version = claim_version;
#endif
		if
		:: claim == known && claim_version == known_version -> goto confirm
		:: else
		fi;
#ifndef WAIT_FOR_OWNER
		known = claim;
		known_version = claim_version;
#endif
		begin_scan();
		goto read_cell
	fi
}

proctype claimer(byte key) provided (solo == 0 || solo == _pid)
{
	byte i, j, seen, stakes, scans;
	byte live = NONE, claim = NONE, known = NONE, victim = NONE;
	byte claim_version, known_version, victim_version, version, rest;
	unsigned state : 2, lo : 2, victim_state : 2, victim_lo : 2, tag : 2;

	atomic { begin_scan() }

read_cell:
#ifdef TORN
	atomic { lo = cells[i].lo }
read_again:
	atomic { state = cells[i].state; version = cells[i].version }
	atomic {
		if
		:: cells[i].lo != lo -> lo = cells[i].lo; goto read_again
		:: else
		fi;
#else
	atomic {
		state = cells[i].state;
		lo = cells[i].lo;
		version = cells[i].version;
#endif
		if
		:: state == LIVE -> goto read_id
		:: else
		fi;
#ifdef JUDGE_TWICE
	}
	atomic {
		state = cells[i].state;
		lo = cells[i].lo;
		version = cells[i].version;
#endif
		if
		:: state == TENTATIVE && lo == key ->
			forget_victim();
			if
			:: claim == NONE -> claim = i; claim_version = version
			:: else -> goto drop
			fi
		:: else -> maybe_victim()
		fi;
		next_cell()
	}

read_id:
	atomic { rest = cells[i].id_version }
	atomic {
		tag = cells[i].tag;
		if
		:: tag == key && rest == version -> live = i; forget_victim()
		:: else -> maybe_victim()
		fi;
		next_cell()
	}

drop: /* drops all claims of the key except the lowest one */
	atomic {
		if
		:: cells[i].state == TENTATIVE && cells[i].lo == key &&
		   cells[i].version == version ->
			cells[i].state = EMPTY;
			cells[i].lo = 0
#ifndef DROP_ONCE
		:: else -> goto read_cell /* this cell may have become the live cell */
#else
		:: else
#endif
		fi;
		next_cell()
	}

drop_last:
	atomic {
		if
		:: cells[claim].state == TENTATIVE && cells[claim].lo == key &&
		   cells[claim].version == claim_version ->
			cells[claim].state = EMPTY;
			cells[claim].lo = 0
		:: else
		fi;
		goto done
	}

stake:
	atomic {
		if
		:: stakes == STAKES -> goto gone
		:: else -> stakes++
		fi;
		if
		:: cells[victim].state == victim_state && cells[victim].lo == victim_lo &&
		   cells[victim].version == victim_version ->
			cells[victim].state = TENTATIVE;
			cells[victim].lo = key;
			cells[victim].version = victim_version + 1;
			known = victim;
			known_version = victim_version + 1
		:: else -> known = NONE; known_version = 0
		fi;
		begin_scan(); goto read_cell
	}

confirm:
	atomic { tag = cells[known].tag; rest = cells[known].id_version }
	atomic {
		if
		:: cells[known].state != TENTATIVE || cells[known].lo != key ||
		   cells[known].version != known_version ->
			tag = 0; rest = 0;
			begin_scan(); goto read_cell /* `known` stays equal to scan.claim */
		:: else
		fi;
#ifdef HOT_FIRST
		cells[known].state = LIVE;
		cells[known].lo = 0;
		check();
#endif
		if
		:: tag == key && rest == known_version -> goto confirm_hot
		:: else
		fi
	}
	atomic {
		if
		:: cells[known].tag == tag && cells[known].id_version == rest ->
			cells[known].tag = key;
			cells[known].id_version = known_version
		:: else -> goto confirm
		fi
	}
confirm_hot:
	atomic {
		tag = 0; rest = 0;
		if
		:: cells[known].state == TENTATIVE && cells[known].lo == key &&
		   cells[known].version == known_version ->
			cells[known].state = LIVE;
			cells[known].lo = 0;
			live = known;
			check();
			goto done
		:: else -> begin_scan(); goto read_cell
		fi
	}

done:
	atomic {
		if
		:: solo == _pid && scans > 0 ->
			assert(cells[live].state == LIVE && cells[live].tag == key &&
			       cells[live].id_version == cells[live].version)
		:: else
		fi;
		goto gone
	}
gone:
	atomic { live = 0; claim = 0; claim_version = 0; known = 0; known_version = 0; stakes = 0;
		 forget_victim() }
}

init {
	atomic {
		cells[0].state = LIVE;
		cells[0].tag = OLD_KEY;
		run claimer(1);
#if K > 1
		run claimer(1);
#else
		run claimer(2);
#endif
#if K > 2
		run claimer(1);
#elif K + U > 2
		run claimer(2);
#endif
	}
	atomic {
		if
		:: solo = 1
		:: solo = 2
#if K + U > 2
		:: solo = 3
#endif
		fi
	}
}
