/* Blocks of the slab and the logs in them: taking a block (seize(), forget_owner(), release of
 * src/table), growth by seal, copy and swap of the pointer, appends meanwhile, and the
 * eviction of a log's key as forget_owner() does it. That a live log becomes brief is brief.pml.
 *
 * -DA=n      participants that each append one stamp to key 0's log, which begins full, in a block
 *            of one slot
 * -DB=n      participants that each append one stamp to key 1's log, which begins without a block
 * -DBLOCKS=n blocks of the slab; block 0 has one slot, the others two
 * -DEARLY    block 0 has two slots, and growth may come before it is full, as for a larger cost
 * -DGARBAGE  a block that is taken but that no cell names may be taken by others at any time:
 *            clocks jump, participants sleep for minutes. The age only makes it rare.
 * -DEVICT    a block may be taken from the key that has it
 *
 * What the age is for: a garbage block's holder may only be slow. If it then publishes the block
 * after all, its cell names one that is somebody else's, and the next reader forgets the log and
 * counts it (log_lost). That is the whole damage: nobody's stamps end up in another's log.
 *
 * Rings do not wrap here and nothing expires: that is log.pml. `past` is what was admitted and
 * counted in the present life of a key, as a set.
 *
 * Mutations, each of which must be found:
 *   NO_SEAL        growth does not stop appends to the old block
 *   RELEASE_FIRST  the old block is released before the pointer is swapped
 *   PUBLISH_FIRST  the pointer is swapped before the copy is complete
 *   WIPE           a new holder resets the word without looking whether it still is the holder
 *   FILL_ANY       a copy begins from whatever word it finds in the new block
 *   KEEP_LATE      an append is not checked to be in the key's log after its swap
 *   COUNT_EARLY    whether an evicted key was as good as new is judged before the eviction
 *   TENURE_FIRST   the block is taken before its key is evicted
 */
#ifndef A
#define A 2
#endif
#ifndef B
#define B 1
#endif
#ifndef BLOCKS
#define BLOCKS 3
#endif
#ifndef GENERATIONS
#define GENERATIONS 5 /* blocks taken in all; whoever wants another one stops, as if killed */
#endif

#define NONE 7
#ifdef EARLY
#define CAP(b) 2
#else
#define CAP(b) ((b) == 0 -> 1 : 2)
#endif
#define FIRST 4 /* the stamp that is there from the start */

typedef block {
	/* tenure */
	byte gen;
	bit taken;
	bit holder;
	/* word */
	unsigned newest : 3;
	unsigned count : 2;
	bit pending;
	bit sealed;
	byte word_gen;
	/* stamps */
	byte slot[2]
}

typedef cell {
	unsigned name : 3; /* block, or NONE */
	byte gen;
	unsigned version : 3;
	bit fresh /* 1: not as good as new yet */
}

block blocks[BLOCKS];
cell cells[2];
byte generation = 1;
byte lost;    /* tally log_lost */
byte past[2]; /* bit per stamp */

#define NAMED(k, b, g) (cells[k].name == b && cells[k].gen == g)
#define SAME_WORD(b)                                                                               \
	(blocks[b].newest == w_newest && blocks[b].count == w_count &&                             \
	 blocks[b].pending == w_pending && blocks[b].sealed == w_sealed &&                         \
	 blocks[b].word_gen == w_gen)
#define EMPTY_WORD(b, g)                                                                           \
	(blocks[b].newest == 0 && blocks[b].count == 0 && !blocks[b].pending &&                    \
	 !blocks[b].sealed && blocks[b].word_gen == g)

/* A block that a cell names, and that is still this cell's, holds what was admitted. */
inline check()
{
	d_step {
		j = 0;
		do
		:: j < 2 ->
			b = cells[j].name;
			if
			:: b != NONE && blocks[b].taken && blocks[b].gen == cells[j].gen ->
				assert(blocks[b].word_gen == cells[j].gen);
				set = 0;
				n = 0;
				do
				:: n < blocks[b].count ->
					if
					:: blocks[b].pending && n == blocks[b].count - 1 ->
						set = set | (1 << blocks[b].newest)
					:: else -> set = set | (1 << blocks[b].slot[n])
					fi;
					n++
				:: else -> break
				od;
				assert(set == past[j])
			:: else
			fi;
			j++
		:: else -> break
		od;
		j = 0;
		b = 0;
		n = 0;
		set = 0
	}
}

inline again()
{
	d_step {
		at = 0; gen = 0; version = 0; new = 0; new_gen = 0; i = 0; seen = 0; stamp = 0;
		w_newest = 0; w_count = 0; w_pending = 0; w_sealed = 0; w_gen = 0;
		t_gen = 0; t_taken = 0; t_cell = 0; o_version = 0; owned = 0; expired = 0; gone = 0
	};
	goto read_cell
}

inline stop()
{
	d_step {
		at = 0; gen = 0; version = 0; new = 0; new_gen = 0; i = 0; seen = 0; stamp = 0;
		w_newest = 0; w_count = 0; w_pending = 0; w_sealed = 0; w_gen = 0;
		t_gen = 0; t_taken = 0; t_cell = 0; o_version = 0; owned = 0; expired = 0; gone = 0
	};
	goto done
}

proctype participant(bit key)
{
	byte b, j, n, set;                                /* for check() */
	byte at, gen, version;                            /* the cell as read */
	byte w_newest, w_count, w_gen;                    /* the word of its block as read */
	bit w_pending, w_sealed;
	byte new, new_gen, t_gen, o_version;              /* the block being taken */
	bit t_taken, t_cell, owned, expired;
	byte i, seen, stamp, gone;

read_cell:
	atomic { at = cells[key].name; gen = cells[key].gen; version = cells[key].version;
		if
		:: at == NONE -> goto take
		:: else
		fi
	}
	/* wr_slab_find */
	atomic {
		if
		:: !blocks[at].taken || blocks[at].gen != gen -> goto forget
		:: else
		fi
	}
	atomic {
		w_newest = blocks[at].newest;
		w_count = blocks[at].count;
		w_pending = blocks[at].pending;
		w_sealed = blocks[at].sealed;
		w_gen = blocks[at].word_gen;
		if
		:: w_gen != gen -> goto forget
		:: w_gen == gen && (w_sealed || w_count == CAP(at)) -> goto take
#ifdef EARLY
		:: w_gen == gen -> goto take
#endif
		:: w_gen == gen && !w_sealed && w_count < CAP(at)
		fi
	}

	/* attempt_once: raise, flush, swap */
	atomic {
		cells[key].fresh = 1;
		if
		:: w_pending -> goto flush_read
		:: else -> goto append
		fi
	}
flush_read:
	atomic { seen = blocks[at].slot[w_count - 1] }
	atomic {
		if
		:: !SAME_WORD(at) -> again()
		:: else
		fi;
		if
		:: seen == w_newest -> seen = 0; goto append
		:: else
		fi
	}
	atomic {
		if
		:: blocks[at].slot[w_count - 1] == seen ->
			blocks[at].slot[w_count - 1] = w_newest;
			check();
			seen = 0
		:: else -> goto flush_read
		fi
	}
append:
	atomic {
		if
		:: SAME_WORD(at) ->
			blocks[at].newest = _pid;
			blocks[at].count = w_count + 1;
			blocks[at].pending = 1;
			if
			:: NAMED(key, at, gen) -> past[key] = past[key] | (1 << _pid)
			:: else
			fi;
			check()
		:: else -> again()
		fi
	}
#ifndef KEEP_LATE
	atomic {
		if
		:: cells[key].version != version -> again()
		:: else
		fi;
		/* admitted, and counted */
		assert((past[key] & (1 << _pid)) || lost > 0);
		stop()
	}
#else
	atomic {
		assert(cells[key].version == version || (past[key] & (1 << _pid)));
		stop()
	}
#endif

forget:	/* forget_log: the cell named a block that is not there */
	atomic {
		if
		:: NAMED(key, at, gen) && cells[key].version == version ->
			cells[key].name = NONE;
			cells[key].gen = 0;
			past[key] = 0;
			lost++;
#ifndef GARBAGE
			assert(false);
#endif
			again()
		:: else -> again()
		fi
	}

take:	/* appraise */
	atomic {
		if
		:: generation == GENERATIONS -> stop()
		:: else
		fi;
		select(new : 0 .. BLOCKS - 1);
		t_gen = blocks[new].gen;
		t_taken = blocks[new].taken;
		t_cell = blocks[new].holder;
		if
		:: t_taken -> goto look_at_owner
		:: else -> goto seize
		fi
	}
look_at_owner:
	atomic {
		o_version = cells[t_cell].version;
		if
		:: NAMED(t_cell, new, t_gen) -> owned = 1
		:: else -> goto unowned
		fi;
#ifdef EVICT
		if
		:: t_cell == key -> again() /* never its own */
		:: else
		fi
#else
		again()
#endif
	}
#ifdef EVICT
	atomic { expired = !cells[t_cell].fresh }
#ifdef TENURE_FIRST
	goto seize;
#endif
evict:	/* forget_owner */
	atomic {
		if
		:: NAMED(t_cell, new, t_gen) && cells[t_cell].version == o_version ->
			cells[t_cell].name = NONE;
			cells[t_cell].gen = 0;
			cells[t_cell].version = o_version + 1;
#ifdef COUNT_EARLY
			assert(!expired || past[t_cell] == 0);
#endif
			gone = past[t_cell];
			past[t_cell] = 0
		:: else -> again()
		fi
	}
#ifndef COUNT_EARLY
	/* the tally: what was lost, if it was not as good as new, is counted */
	atomic {
		expired = !cells[t_cell].fresh;
		assert(!expired || gone == 0);
		expired = 0;
		gone = 0
	}
#endif
#ifdef TENURE_FIRST
	goto reset_word;
#else
	goto seize;
#endif
#endif
unowned:
#ifdef GARBAGE
	goto seize;
#else
	atomic { again() }
#endif

seize:
	atomic {
		if
		:: generation == GENERATIONS -> stop()
		:: else -> generation++; new_gen = generation
		fi;
		if
		:: blocks[new].gen == t_gen && blocks[new].taken == t_taken &&
		   blocks[new].holder == t_cell ->
			blocks[new].gen = new_gen;
			blocks[new].taken = 1;
			blocks[new].holder = key
		:: else -> again()
		fi
#ifdef TENURE_FIRST
		;
		if
		:: owned -> owned = 0; goto evict
		:: else
		fi
#endif
	}
reset_word:
	atomic {
		owned = 0; t_gen = 0; t_taken = 0; t_cell = 0; o_version = 0;
		/* newest and generation name the word well enough to compare by */
		seen = blocks[new].word_gen;
		stamp = blocks[new].newest;
		i = blocks[new].count + 4 * blocks[new].sealed + 8 * blocks[new].pending
	}
#ifndef WIPE
	atomic {
		if
		:: blocks[new].gen != new_gen || !blocks[new].taken -> again()
		:: else
		fi
	}
#endif
	atomic {
		if
		:: blocks[new].word_gen == seen && blocks[new].newest == stamp &&
		   i == blocks[new].count + 4 * blocks[new].sealed + 8 * blocks[new].pending ->
			blocks[new].newest = 0;
			blocks[new].count = 0;
			blocks[new].pending = 0;
			blocks[new].sealed = 0;
			blocks[new].word_gen = new_gen;
			check();
			i = 0; seen = 0; stamp = 0
		:: else -> i = 0; seen = 0; stamp = 0; goto reset_word
		fi
	}
	/* wr_slab_find */
	atomic {
		if
		:: blocks[new].gen != new_gen || !blocks[new].taken -> again()
		:: else
		fi;
		if
		:: at == NONE -> goto fill
		:: CAP(new) == 1 && at != NONE -> goto release_new /* too small: another */
		:: else
		fi;
		if
		:: w_sealed -> goto fill
		:: else
		fi
	}
#ifndef NO_SEAL
	atomic { /* seal */
		if
		:: SAME_WORD(at) -> blocks[at].sealed = 1
		:: else -> goto release_new
		fi
	}
#endif

fill:
	atomic {
#ifdef FILL_ANY
		t_gen = blocks[new].word_gen;
#else
		t_gen = new_gen;
#endif
#ifdef RELEASE_FIRST
		if
		:: at != NONE && blocks[at].gen == gen -> blocks[at].taken = 0
		:: else
		fi;
#endif
		i = 0
#ifdef PUBLISH_FIRST
		; goto publish
#endif
	}
copy:
	atomic {
		if
		:: at == NONE || i == w_count -> i = 0; goto fill_word
		:: else
		fi;
		if
		:: w_pending && i == w_count - 1 -> stamp = w_newest
		:: else -> stamp = blocks[at].slot[i]
		fi
	}
copy_put:
	atomic { seen = blocks[new].slot[i] }
	atomic {
		if
		:: !EMPTY_WORD(new, t_gen) -> goto release_new
		:: else
		fi;
		if
		:: seen == stamp -> i++; seen = 0; stamp = 0; goto copy
		:: else
		fi
	}
	atomic {
		if
		:: blocks[new].slot[i] == seen -> blocks[new].slot[i] = stamp
		:: else -> goto copy_put
		fi;
		check();
		i++; seen = 0; stamp = 0;
		goto copy
	}
fill_word:
	atomic {
		if
		:: EMPTY_WORD(new, t_gen) ->
			blocks[new].newest = (at == NONE -> 0 : w_newest);
			blocks[new].count = (at == NONE -> 0 : w_count);
			check()
		:: else -> goto release_new
		fi
#ifdef PUBLISH_FIRST
		;
		check();
		goto release_old
#endif
	}
publish:
	atomic {
		if
		:: NAMED(key, at, gen) && cells[key].version == version ->
			cells[key].name = new;
			cells[key].gen = new_gen;
			check()
		:: else -> goto release_new
		fi
#ifdef PUBLISH_FIRST
		; goto copy
#endif
	}
release_old:
	atomic {
		if
		:: at != NONE && blocks[at].taken && blocks[at].gen == gen -> skip
		:: else -> again()
		fi
	}
	atomic {
		if
		:: blocks[at].taken && blocks[at].gen == gen -> blocks[at].taken = 0
		:: else
		fi;
		again()
	}
release_new:
	atomic {
		if
		:: blocks[new].taken && blocks[new].gen == new_gen -> blocks[new].taken = 0
		:: else
		fi;
		again()
	}
done:
	skip
}

init {
	atomic {
		cells[0].name = 0;
		cells[0].gen = 1;
		cells[0].fresh = 1;
		cells[1].name = NONE;
		blocks[0].gen = 1;
		blocks[0].taken = 1;
		blocks[0].newest = FIRST;
		blocks[0].count = 1;
		blocks[0].pending = 1;
		blocks[0].word_gen = 1;
		past[0] = 1 << FIRST;
		run participant(0);
#if A > 1
		run participant(0);
#endif
#if B > 0
		run participant(1);
#endif
#if B > 1
		run participant(1);
#endif
	}
}
