/* Slots of a limit on concurrent requests: src/store/slots.c. Models find_slots(), count_held(), take_slot(),
 * keep_or_drop(), drop_taken(), attempt_free(), take_block() and the two swaps of a change, the pair of a slot and
 * then the hot pair of the cell. Comments name the C function of a step.
 *
 * -DUSERS=n    participants that each take a slot under LIMIT and free it again, TURNS times
 * -DMOVERS=n   participants that each take a slot under the limit 3, and free it. They move the key to a block of
 *              three slots, if its block has fewer
 * -DEVICTORS=n participants that take the cell for another key, if it looks expired, and then use its block for
 *              that key
 * -DLIMIT=n    the limit of users
 * -DROOMY      the first block has three slots, which are free
 * -DHIGHER     the limit was 3 and is LIMIT now. Slot 2 is still held, and is never freed
 *
 * A stamp is the number of the request, so two requests never have the same stamp; algo/slots.h shows why. The
 * clock stands still, so no slot becomes free by itself. A block is not lost while it is prepared, see grow.pml.
 *
 * A killed participant takes no further step. Every assertion holds in every state, so it also holds after any
 * kill. The last assertion is about runs without a kill.
 *
 * Mutations, each of which must be found:
 *   SAME_CHANGES  a change does not raise the number of changes
 *   FREE_SILENT   a slot is freed without the swap of the hot pair
 *   TAKE_SILENT   a request is admitted without the swap of the hot pair
 *   FORGET_TAKEN  a participant does not look for its slot in the new block
 *   LOWER_BLIND   a slot is taken although another slot has changed since the held slots were counted
 *   ABOVE         a participant takes slots that are not below its limit
 *   TAKE_ANY      a slot is taken although another participant has taken it
 *   SLOT_ANY      the swap of a slot does not compare the generation
 *   MOVE_ANY      the key is moved without comparing the number of changes
 *   RELEASE_FIRST the old block is released before the key has the new one
 *   FRESH_LATE    fresh_at is raised after the slot and the hot pair are swapped
 */
#ifndef USERS
#define USERS 2
#endif
#ifndef TURNS
#define TURNS 1
#endif
#ifndef MOVERS
#define MOVERS 0
#endif
#ifndef EVICTORS
#define EVICTORS 0
#endif
#ifndef LIMIT
#define LIMIT 1
#endif
#ifndef LIVES
/* Maximum number of claims and of blocks taken in total; a participant that needs another one stops, as if it were
 * killed. */
#define LIVES 4
#endif

#define BLOCKS 3
#define NONE 3
#define KEPT 14    /* the stamp of the slot that is never freed */
#define FOREIGN 15 /* a slot of another key */
#if defined(HIGHER) || defined(ROOMY)
#define FIRST_SLOTS 3
#else
#define FIRST_SLOTS LIMIT
#endif

typedef block {
	unsigned gen : 3; /* 0: the block is free */
	bit foreign;      /* another key has the block, and has filled it */
	unsigned slots : 2;
	/* The pairs of the slots. A word is 0 if the slot is free. */
	byte word[3];
	byte tag[3]
}

block blocks[BLOCKS];
unsigned generation : 3 = 1;
/* The hot pair of the cell. `name` is NONE if the key has no block. */
unsigned name : 2;
unsigned name_gen : 3;
unsigned changes : 4;
unsigned life : 3; /* the version */
bit other;         /* another key has the cell */
bit fresh;         /* fresh_at is not in the past */

/* The real history, for the assertions. */
unsigned holding : 3; /* admitted requests of the present life that have not freed their slot */
unsigned running : 3; /* participants that have not ended */

#define SAME_BLOCK (!other && life == s_life && name == s_name && name_gen == s_gen)

/* No slot of another key has changed, and the block that the cell names belongs to the key. */
inline check()
{
	assert(other || name == NONE || blocks[name].gen == name_gen);
	for (f in blocks) {
		assert(!blocks[f].foreign || (blocks[f].word[0] == FOREIGN && blocks[f].word[1] == 0))
	}
	f = 0
}

/* find_slots */
inline read_cell()
{
	s_name = name;
	s_gen = name_gen;
	s_changes = changes;
	s_life = life
}

/* wr_slab_take: sets `new` to a free block, or stops */
inline take_free_block()
{
	if
	:: generation == LIVES + 1 || (blocks[0].gen && blocks[1].gen && blocks[2].gen) -> goto stopped
	:: else
	fi;
	new = 0;
	do
	:: blocks[new].gen == 0 -> break
	:: else -> new++
	od;
	blocks[new].gen = generation;
	generation++
}

/* The number of held slots of the block that was read, one load per slot. */
inline count_held()
{
	i = 0;
	held = 0;
	higher = 0;
	do
	:: atomic {
		i < blocks[s_name].slots ->
		if
		:: blocks[s_name].word[i] && i >= limit -> higher++; held++
		:: blocks[s_name].word[i] && i < limit -> held++
		:: else
		fi;
		i++
	}
	:: atomic { i >= blocks[s_name].slots -> i = 0; break }
	od
}

/* swap_hot: `ok` is set if the hot pair was the one that was read, or strict is 0 and the block is the same. */
inline swap_hot(strict)
{
	if
	:: SAME_BLOCK && (!(strict) || changes == s_changes) ->
		ok = 1;
#ifndef SAME_CHANGES
		changes++
#endif
	:: else -> ok = 0
	fi
}

#define PAIR_IS(w) (blocks[s_name].word[at] == (w) && (SAME_GEN))
#ifdef SLOT_ANY
#define SAME_GEN true
#else
#define SAME_GEN (blocks[s_name].tag[at] == s_gen)
#endif

proctype user(byte limit; byte stamp; byte turns)
{
	unsigned s_name : 2, s_gen : 3, s_changes : 4, s_life : 3, new : 2, at : 2, i : 2, held : 2, higher : 2;
	unsigned my_life : 3, f : 2;
	bit ok, taken;

find:	atomic {
		if
		:: turns == 0 -> goto done
		:: other && life + 1 == LIVES -> goto stopped
		:: other && life + 1 < LIVES -> /* wr_table_claim */
			other = 0; life++; changes = 0; name = NONE; name_gen = 0; fresh = 0; holding = 0
		:: else
		fi;
		read_cell();
		if
		:: s_name == NONE || blocks[s_name].slots < limit -> goto move
		:: else
		fi
	}
	count_held();
	atomic {
#ifndef FORGET_TAKEN
		if
		:: taken && blocks[s_name].word[at] == stamp -> goto keep
		:: else
		fi;
#endif
		taken = 0;
		at = 0;
		if
		:: held >= limit -> goto next /* refused */
		:: else
		fi
	}
	/* find_free and the load in take_slot */
	atomic {
		if
#ifdef ABOVE
		:: i = blocks[s_name].slots
#else
		:: i = limit
#endif
		fi;
		do
		:: at < i && blocks[s_name].word[at] -> at++
		:: else -> break
		od;
		if
		:: at == i -> i = 0; at = 0; goto find
		:: else -> i = 0
		fi
	}
#ifndef FRESH_LATE
	atomic { fresh = 1 } /* wr_cell_raise_fresh */
#endif
	/* swap_slot */
	atomic {
		if
#ifdef TAKE_ANY
		:: SAME_GEN ->
#else
		:: PAIR_IS(0) ->
#endif
			blocks[s_name].word[at] = stamp;
			taken = 1;
			check()
		:: else -> at = 0; goto find
		fi
	}
	/* commit_take */
	atomic {
#ifdef TAKE_SILENT
		ok = 1;
#else
#ifdef LOWER_BLIND
		swap_hot(0);
#else
		swap_hot(higher > 0);
#endif
#endif
		goto committed
	}
keep:	/* keep_or_drop */
	atomic {
		if
		:: held > limit -> goto drop
		:: else -> swap_hot(higher > 0)
		fi
	}
committed:
	atomic {
		if
		:: !ok -> goto find
		:: else ->
			holding++;
			my_life = s_life;
#ifdef HIGHER
			assert(holding + 1 <= limit);
#else
			assert(holding <= (MOVERS -> 3 : LIMIT));
#endif
			ok = 0;
			goto hold
		fi
	}
drop:	/* drop_taken */
	atomic {
		if
		:: PAIR_IS(stamp) -> blocks[s_name].word[at] = 0; check()
		:: else -> goto find
		fi
	}
	atomic { swap_hot(0); ok = 0; goto find }

move:	/* take_block */
	atomic { take_free_block(); blocks[new].slots = 3; i = 0 }
	do /* fill_block */
	:: atomic {
		i < 3 ->
		blocks[new].word[i] = (s_name != NONE && i < blocks[s_name].slots -> blocks[s_name].word[i] : 0);
		blocks[new].tag[i] = blocks[new].gen;
		i++
	}
	:: atomic { i == 3 -> i = 0; break }
	od;
#ifdef RELEASE_FIRST
	atomic {
		if
		:: s_name != NONE && blocks[s_name].gen == s_gen -> blocks[s_name].gen = 0; check()
		:: else
		fi
	}
#endif
	atomic {
#ifdef MOVE_ANY
		ok = SAME_BLOCK;
#else
		ok = SAME_BLOCK && changes == s_changes;
#endif
		if
		:: ok -> name = new; name_gen = blocks[new].gen; changes++
		:: else -> blocks[new].gen = 0
		fi
	}
	atomic { /* wr_slab_release */
		if
		:: ok && s_name != NONE && blocks[s_name].gen == s_gen -> blocks[s_name].gen = 0; check()
		:: else
		fi;
		ok = 0;
		new = 0;
		goto find
	}

hold:	/* attempt_free */
	atomic {
		read_cell();
		if
		:: other || life != my_life || s_name == NONE -> goto next
		:: else
		fi
	}
	atomic { /* find_token */
		if
		:: blocks[s_name].word[at] == stamp && at < blocks[s_name].slots
		:: blocks[s_name].gen != s_gen -> goto hold
		:: else -> goto next
		fi
	}
	atomic { /* swap_slot */
		if
		:: PAIR_IS(stamp) ->
			blocks[s_name].word[at] = 0;
			check();
			if
			:: taken && life == my_life && !other -> holding--
			:: else
			fi;
			taken = 0
		:: else -> goto hold
		fi
	}
#ifndef FREE_SILENT
	atomic { /* commit_free */
		swap_hot(0);
		if
		:: ok -> ok = 0
		:: else -> goto hold
		fi
	}
#endif
next:	atomic { turns--; stamp++; taken = 0; at = 0; held = 0; higher = 0; my_life = 0; goto find }
done:	atomic {
		running--;
		/* No participant was killed, so that every slot is free. */
		if
		:: running == 0 && !other && name != NONE ->
			for (f in blocks[0].word) {
				assert(f >= blocks[name].slots || blocks[name].word[f] == 0 ||
				       blocks[name].word[f] == KEPT)
			}
			f = 0
		:: else
		fi
	}
stopped:
	skip
}

/* stake_claim: takes the cell of a key that looks expired. forget_owner does the same before it takes the block. */
proctype evictor()
{
	unsigned s_name : 2, s_gen : 3, s_changes : 4, s_life : 3, f : 2;
	bit ok;

	atomic { read_cell(); ok = !other }
	atomic { ok = ok && !fresh }
	atomic {
		if
		:: ok && SAME_BLOCK && changes == s_changes ->
			assert(holding == 0); /* a key that holds slots has not expired */
			other = 1
		:: else -> goto done
		fi
	}
	atomic { /* wr_slab_release, and the other key takes the block */
		if
		:: s_name != NONE && blocks[s_name].gen == s_gen && generation <= LIVES ->
			blocks[s_name].gen = generation;
			generation++
		:: else -> goto done
		fi
	}
	atomic { blocks[s_name].word[0] = FOREIGN; blocks[s_name].tag[0] = blocks[s_name].gen }
	atomic {
		blocks[s_name].word[1] = 0;
		blocks[s_name].tag[1] = blocks[s_name].gen;
		blocks[s_name].foreign = 1
	}
done:	atomic { running--; f = 0 }
}

init {
	byte n;

	atomic {
		blocks[0].gen = generation;
		blocks[0].slots = FIRST_SLOTS;
		for (n in blocks[0].tag) {
			blocks[0].tag[n] = generation
		}
		name = 0;
		name_gen = generation;
		generation++;
#ifdef HIGHER
		blocks[0].word[2] = KEPT;
		fresh = 1;
#endif
		running = USERS + MOVERS + EVICTORS;
		n = 0;
		do
		:: n < USERS -> run user(LIMIT, 1 + n * TURNS, TURNS); n++
		:: else -> break
		od;
		n = 0;
		do
		:: n < MOVERS -> run user(3, 1 + USERS * TURNS + n, 1); n++
		:: else -> break
		od;
		n = 0;
		do
		:: n < EVICTORS -> run evictor(); n++
		:: else -> break
		od;
		n = 0
	}
}
