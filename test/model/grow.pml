/* Blocks of the slab, and the forms of a log: in its cell (one instant, or brief), a ring, a sealed ring. Models
 * taking a block, growth by seal, copy and swap of the pointer, concurrent appends, and the evictions of
 * src/table: shrink_owner() and forget_owner() of block.c, stake_claim() of claim.c. Comments name the C
 * function of a step.
 *
 * -DA=n      participants that each append one stamp to key 0's log, which starts full, in a block of one slot
 * -DB=n      participants that each append one stamp to key 1's log, which starts empty, in its cell
 * -DBLOCKS=n blocks of the slab; block 0 has one slot, the others two
 * -DEARLY    block 0 has two slots, and growth may happen before it is full, as for a larger cost
 * -DGARBAGE  a taken block that no cell names may be taken by others at any time, because clocks jump and
 *            participants sleep for minutes
 * -DEVICT    a block may be taken from the key that owns it: a live log becomes brief
 * -DOLD      key 0's log starts expired, with an empty ring, and may be forgotten
 * -DCLAIM    one more participant takes the cell of key 0 for another key, once
 * -DROUND    the 15 bits of the generation in the word are the same for all blocks
 *
 * The minimum age of garbage only makes a conflict rare: the holder of a garbage block may be slow. If it then
 * publishes the block, its cell names a block of another key. The next reader forgets the log and counts it
 * (log_lost). Stamps never enter the log of another key.
 *
 * Rings do not wrap here, and nothing expires except at the start; log.pml models both. Instants and brief logs
 * are a set of stamps in the cell; the slots of a brief log are arithmetic. Only a participant whose own log is
 * in its cell evicts. `past` is the set of stamps admitted and counted in the present life of a key.
 *
 * Mutations, each of which must be found:
 *   NO_SEAL         growth does not stop appends to the old block
 *   RELEASE_FIRST   the old block is released before the pointer is swapped
 *   PUBLISH_FIRST   the pointer is swapped before the copy is complete
 *   PUBLISH_ANY     the pointer is stored without comparing the cell
 *   WIPE            a new holder resets the word without checking that it still holds the block
 *   FILL_ANY        a copy starts from any word that it finds in the new block
 *   APPEND_ANY      an append does not compare the word
 *   KEEP_LATE       an append does not check after its swap that the log still belongs to the key
 *   WRITE_ANY       a log in the cell is stored, not swapped
 *   TENURE_FIRST    the block is taken before its key is evicted
 *   TENURE_ANY      the tenure is stored, not swapped
 *   OWNER_ANY       a block is taken from the cell of its tenure, even if that cell names another block
 *   FORGET_UNSEALED an expired key is forgotten without sealing its ring
 *   FORGET_STALE    an expired key is forgotten without reading fresh_at again
 *   SHRINK_UNSEALED a live log becomes brief without sealing its ring
 *   SHRINK_EARLY    a live log becomes brief with the entries from before the seal
 *   SHRINK_ANY      a live log becomes brief without comparing its cell
 *   CLAIM_UNSEALED  the cell of an expired key is taken without sealing its ring
 *   CLAIM_STALE     the cell of an expired key is taken without reading fresh_at again
 *   FIND_ANY        a reader does not compare tenure and name
 *   WORD_LAST       a reader does not check the tenure again after it has read the word
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
/* Maximum number of blocks taken in total; a participant that needs another block stops, as if it
 * were killed. */
#define GENERATIONS 5
#endif

#define NONE 7
#ifdef EARLY
#define CAP(b) 2
#else
#define CAP(b) ((b) == 0 -> 1 : 2)
#endif
#define FIRST 6 /* the initial stamp of key 0 */

typedef block {
	/* The tenure of the block. */
	byte gen;
	bit taken;
	bit holder;
	/* The word of the block. */
	unsigned newest : 3;
	unsigned count : 2;
	bit pending;
	bit sealed;
	byte word_gen;
	/* The stamps of the block. */
	unsigned slot0 : 3;
	unsigned slot1 : 3
}

typedef cell {
	unsigned name : 3; /* the block of the log, or NONE if the log is in the cell */
	byte gen;
	byte set; /* the stamps of a log in the cell, one bit each */
	unsigned version : 3;
	bit fresh /* 1: the log is active */
}

block blocks[BLOCKS];
cell cells[2];
byte generation = 1;
bit lost; /* the tally log_lost is not 0 */
byte past[2]; /* the admitted stamps of each key, one bit each */

#define SLOT(b, i) ((i) == 0 -> blocks[b].slot0 : blocks[b].slot1)
#define NAMED(k, b, g) (cells[k].name == b && cells[k].gen == g)
#define HELD(b, g) (blocks[b].taken && blocks[b].gen == (g))
#define SAME_CELL                                                                                  \
	(cells[key].name == at && cells[key].gen == gen && cells[key].set == set &&                \
	 cells[key].version == version)
#define SAME_WORD(b)                                                                               \
	(blocks[b].newest == w_newest && blocks[b].count == w_count &&                             \
	 blocks[b].pending == w_pending && blocks[b].sealed == w_sealed &&                         \
	 blocks[b].word_gen == w_gen)
#define EMPTY_WORD(b, g)                                                                           \
	(blocks[b].newest == 0 && blocks[b].count == 0 && !blocks[b].pending &&                    \
	 !blocks[b].sealed && blocks[b].word_gen == g)
/* The stamps of the word and the slots, as a set. */
#define STAMPS(b, n, p, newest)                                                                    \
	(((n) > 0 -> 1 << ((p) && (n) == 1 -> (newest) : blocks[b].slot0) : 0) |                   \
	 ((n) > 1 -> 1 << ((p) -> (newest) : blocks[b].slot1) : 0))

/* A log in a cell contains the admitted stamps. So does a ring that a cell names and owns. */
inline check_key(k)
{
	if
	:: cells[k].name == NONE -> assert(cells[k].set == past[k])
	:: cells[k].name != NONE && HELD(cells[k].name, cells[k].gen) ->
		assert(blocks[cells[k].name].word_gen == cells[k].gen);
		assert(STAMPS(cells[k].name, blocks[cells[k].name].count,
			      blocks[cells[k].name].pending, blocks[cells[k].name].newest) ==
		       past[k])
	:: else
	fi
}

inline check()
{
	check_key(0);
	check_key(1)
}

inline load_word(b)
{
	w_newest = blocks[b].newest;
	w_count = blocks[b].count;
	w_pending = blocks[b].pending;
	w_sealed = blocks[b].sealed;
	w_gen = blocks[b].word_gen
}

inline forget_all()
{
	at = 0; gen = 0; set = 0; version = 0; new = 0; new_gen = 0; i = 0; seen = 0; stamp = 0;
	w_newest = 0; w_count = 0; w_pending = 0; w_sealed = 0; w_gen = 0;
	t_gen = 0; t_taken = 0; t_cell = 0; o_version = 0; brief = 0
}

inline again()
{
	forget_all();
	goto read_key
}

inline stop()
{
	forget_all();
	goto done
}

proctype participant(bit key)
{
	byte at, gen, set, version; /* the cell as it was read */
	/* A word as it was read: of the participant's own ring, or of the ring that it takes. */
	byte w_newest, w_count, w_gen;
	bit w_pending, w_sealed;
	byte new, new_gen, t_gen, o_version; /* the block that is being taken */
	bit t_taken, t_cell;
	byte i, seen, stamp, brief;

read_key: /* wr_table_find */
	atomic {
		at = cells[key].name; gen = cells[key].gen;
		set = cells[key].set; version = cells[key].version;
		if
		:: at == NONE && (set == 0 || !(set & (set - 1))) -> goto take /* grow */
		:: at == NONE -> goto write_cell
		:: else
		fi
	}
	/* wr_slab_find: the tenure */
#ifndef FIND_ANY
	atomic {
		if
		:: !HELD(at, gen) -> goto forget_log
		:: else
		fi
	}
#endif
	/* read_ring: the word */
	atomic {
		load_word(at);
#ifndef ROUND
#ifndef FIND_ANY
		if
		:: w_gen != gen -> goto forget_log
		:: else
		fi
#endif
#endif
	}
	/* wr_block_is: the tenure again. Then attempt_once */
	atomic {
#ifndef WORD_LAST
#ifndef FIND_ANY
		if
		:: !HELD(at, gen) -> goto forget_log
		:: else
		fi;
#endif
#endif
		if
		:: w_sealed || w_count >= CAP(at) -> goto take      /* move_log: grow */
		/* There is no room in the slab. */
		:: w_sealed || w_count >= CAP(at) -> goto make_brief
#ifdef EARLY
		:: !w_sealed && w_count < CAP(at) -> goto take
#endif
		:: !w_sealed && w_count < CAP(at)
		fi
	}

	/* wr_cell_raise_fresh */
	atomic {
		cells[key].fresh = 1;
		if
		:: w_pending -> goto flush_read
		:: else -> goto append
		fi
	}
flush_read: /* commit: wr_block_put */
	atomic { seen = SLOT(at, w_count - 1) }
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
		:: SLOT(at, w_count - 1) == seen ->
			if
			:: w_count == 1 -> blocks[at].slot0 = w_newest
			:: else -> blocks[at].slot1 = w_newest
			fi;
			check();
			seen = 0
		:: else -> goto flush_read
		fi
	}
append:	/* commit: the word */
	atomic {
		if
#ifdef APPEND_ANY
		:: true ->
#else
		:: SAME_WORD(at) ->
#endif
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
	/* still_its_cell */
	atomic {
#ifndef KEEP_LATE
		if
		:: cells[key].version != version -> again()
		:: else
		fi;
		/* The stamp was admitted and is counted. */
		assert((past[key] & (1 << _pid)) || lost);
#else
		assert(cells[key].version == version || (past[key] & (1 << _pid)));
#endif
		stop()
	}

write_cell: /* wr_cell_raise_fresh */
	atomic { cells[key].fresh = 1 }
	/* write_cell: the hot pair */
	atomic {
		if
#ifdef WRITE_ANY
		:: true ->
#else
		:: SAME_CELL ->
#endif
			cells[key].name = NONE;
			cells[key].gen = 0;
			cells[key].set = set | (1 << _pid);
			past[key] = past[key] | (1 << _pid);
			check();
			stop()
		:: else -> again()
		fi
	}

make_brief: /* wr_table_log_seal */
	atomic {
		if
		:: w_sealed
		:: !w_sealed && SAME_WORD(at) -> blocks[at].sealed = 1; w_sealed = 1
		:: else -> again()
		fi
	}
	/* Step wr_table_log_brief. A slot that changes meanwhile belongs to a block that the cell no longer names. */
	atomic { brief = STAMPS(at, w_count, w_pending, w_newest) }
	atomic {
		if
		:: SAME_CELL ->
			cells[key].name = NONE;
			cells[key].gen = 0;
			cells[key].set = brief;
			check();
			goto release_old
		:: else -> again()
		fi
	}

forget_log: /* the cell names a block of another generation */
	atomic {
		if
		:: SAME_CELL ->
			cells[key].name = NONE;
			cells[key].gen = 0;
			past[key] = 0;
			lost = 1;
#ifndef GARBAGE
			assert(false);
#endif
			again()
		:: else -> again()
		fi
	}

take:	/* wr_block_appraise: the tenure */
	atomic {
		if
		/* All entries are of one instant, or there is no room in the slab. */
		:: at == NONE -> goto write_cell
		:: true
		fi;
		if
		:: generation == GENERATIONS -> stop()
		:: else
		fi;
		select(new : 0 .. BLOCKS - 1);
		t_gen = blocks[new].gen;
		t_taken = blocks[new].taken;
		t_cell = blocks[new].holder;
		if
		:: t_taken -> goto find_owner
		:: else -> goto seize
		fi
	}
find_owner: /* the hot pair of the tenure's cell */
	atomic {
		o_version = cells[t_cell].version;
		if
#ifdef OWNER_ANY
		:: true -> skip
#else
		:: NAMED(t_cell, new, t_gen) -> skip
		:: else -> goto unowned
#endif
		fi;
#ifdef EVICT
		if
		:: t_cell == key || at != NONE -> again() /* a participant never takes its own block */
		:: else
		fi
#else
		again()
#endif
	}
#ifdef EVICT
	/* price_of_owner */
#ifdef TENURE_FIRST
	goto seize;
#endif
evict:
	atomic {
		if
		:: cells[t_cell].fresh -> goto shrink_owner
		:: else -> goto forget_owner
		fi
	}

forget_owner: /* wr_table_log_retire: wr_slab_find and wr_block_is around the word, wr_table_log_seal */
	atomic { load_word(new) }
#ifndef FORGET_UNSEALED
	atomic {
		if
		:: HELD(new, t_gen) && w_gen == t_gen -> skip
		:: else -> goto forget_swap
		fi
	}
	atomic {
		if
		:: w_sealed
		:: !w_sealed && SAME_WORD(new) -> blocks[new].sealed = 1
		:: else -> again()
		fi
	}
#endif
#ifndef FORGET_STALE
	/* wr_cell_fresh_s */
	atomic {
		if
		:: cells[t_cell].fresh -> again()
		:: else
		fi
	}
#endif
forget_swap:
	atomic {
		if
		:: NAMED(t_cell, new, t_gen) && cells[t_cell].version == o_version ->
			assert(past[t_cell] == 0); /* no admitted stamp is forgotten */
			cells[t_cell].name = NONE;
			cells[t_cell].gen = 0;
			cells[t_cell].set = 0;
			cells[t_cell].version = o_version + 1;
			goto evicted
		:: else -> again()
		fi
	}

shrink_owner: /* the word, wr_slab_find */
	atomic { load_word(new) }
	atomic {
		if
		:: !HELD(new, t_gen) || w_gen != t_gen -> again()
		:: else
		fi
#ifdef SHRINK_EARLY
		; brief = STAMPS(new, w_count, w_pending, w_newest)
#endif
	}
#ifndef SHRINK_UNSEALED
	/* wr_table_log_seal */
	atomic {
		if
		:: w_sealed
#ifdef SHRINK_EARLY
		:: !w_sealed -> blocks[new].sealed = 1
#else
		:: !w_sealed && SAME_WORD(new) -> blocks[new].sealed = 1
		:: else -> again()
#endif
		fi
	}
#endif
#ifndef SHRINK_EARLY
	/* wr_table_log_brief */
	atomic { brief = STAMPS(new, w_count, w_pending, w_newest) }
#endif
	atomic {
		if
#ifdef SHRINK_ANY
		:: true ->
#else
		:: NAMED(t_cell, new, t_gen) && cells[t_cell].version == o_version ->
#endif
			cells[t_cell].name = NONE;
			cells[t_cell].gen = 0;
			cells[t_cell].set = brief;
			check()
		:: else -> again()
		fi
	}
evicted:
	atomic {
		w_newest = 0; w_count = 0; w_pending = 0; w_sealed = 0; w_gen = 0; brief = 0;
#ifdef TENURE_FIRST
		goto find_new
#else
		goto seize
#endif
	}
#endif
unowned:
#ifdef GARBAGE
	goto seize;
#else
	atomic { again() }
#endif

seize:	/* wr_block_seize: the tenure */
	atomic {
		if
		:: generation == GENERATIONS -> stop()
		:: else -> generation++; new_gen = generation
		fi;
		if
#ifdef TENURE_ANY
		:: true ->
#else
		:: blocks[new].gen == t_gen && blocks[new].taken == t_taken &&
		   blocks[new].holder == t_cell ->
#endif
			blocks[new].gen = new_gen;
			blocks[new].taken = 1;
			blocks[new].holder = key
		:: else -> again()
		fi
#ifdef TENURE_FIRST
		;
		if
		:: t_taken && NAMED(t_cell, new, t_gen) -> goto evict
		:: else
		fi
#endif
	}
find_new: /* take_bargain: wr_slab_find. span.pml models the check of the span before it. */
	atomic {
		t_gen = 0; t_taken = 0; t_cell = 0; o_version = 0;
		if
		:: !HELD(new, new_gen) -> again()
		:: else
		fi
	}
reset_word: /* wr_block_reset */
	atomic {
		/* It is sufficient to compare the newest stamp and the generation. */
		seen = blocks[new].word_gen;
		stamp = blocks[new].newest;
		i = blocks[new].count + 4 * blocks[new].sealed + 8 * blocks[new].pending
	}
#ifndef WIPE
	atomic {
		if
		:: !HELD(new, new_gen) -> again()
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
			i = 0; seen = 0; stamp = 0;
			if
			:: CAP(new) == 1 && (at != NONE || set != 0) ->
				goto release_new /* the block is too small, so it is released */
			:: else
			fi;
			if
			:: at == NONE || w_sealed -> goto fill
			:: else
			fi
		:: else -> i = 0; seen = 0; stamp = 0; goto reset_word
		fi
	}
#ifndef NO_SEAL
	/* fill_any: wr_table_log_seal */
	atomic {
		if
		:: SAME_WORD(at) -> blocks[at].sealed = 1
		:: else -> goto release_new
		fi
	}
#endif

fill:	/* fill, fill_brief */
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
copy:	/* wr_algo_log_stamp, or the single entry of a log in the cell */
	atomic {
		if
		:: (at == NONE && i == (set != 0)) || (at != NONE && i == w_count) ->
			goto fill_word
		:: else
		fi;
		if
		:: at == NONE ->
			do
			:: set == 1 << stamp -> break
			:: else -> stamp++
			od
		:: at != NONE && w_pending && i == w_count - 1 -> stamp = w_newest
		:: else -> stamp = SLOT(at, i)
		fi
	}
copy_put: /* wr_block_put */
	atomic { seen = SLOT(new, i) }
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
		:: SLOT(new, i) == seen && i == 0 -> blocks[new].slot0 = stamp
		:: SLOT(new, i) == seen && i != 0 -> blocks[new].slot1 = stamp
		:: else -> goto copy_put
		fi;
		check();
		i++; seen = 0; stamp = 0;
		goto copy
	}
fill_word: /* fill: the word */
	atomic {
		if
		:: EMPTY_WORD(new, t_gen) ->
			blocks[new].newest = (at == NONE -> (set == 0 -> 0 : blocks[new].slot0) :
							    w_newest);
			blocks[new].count = i;
			check()
		:: else -> goto release_new
		fi
#ifdef PUBLISH_FIRST
		;
		check();
		goto release_old
#endif
	}
publish: /* grow: the hot pair */
	atomic {
		if
#ifdef PUBLISH_ANY
		:: true ->
#else
		:: SAME_CELL ->
#endif
			cells[key].name = new;
			cells[key].gen = new_gen;
			cells[key].set = 0;
			check()
		:: else -> goto release_new
		fi
#ifdef PUBLISH_FIRST
		; goto copy
#endif
	}
release_old: /* wr_slab_release: wr_slab_find, the tenure */
	atomic {
		if
		:: at != NONE && HELD(at, gen) -> skip
		:: else -> again()
		fi
	}
	/* set_free */
	atomic {
		if
		:: HELD(at, gen) -> blocks[at].taken = 0
		:: else
		fi;
		again()
	}
release_new:
	atomic {
		if
		:: HELD(new, new_gen) -> blocks[new].taken = 0
		:: else
		fi;
		again()
	}
done:
	skip
}

#ifdef CLAIM
/* Claims the cell of key 0 for another key. Key 0 then begins a new life. */
proctype claimer()
{
	byte at, gen, version, w_newest, w_count, w_gen;
	bit is_free, w_pending, w_sealed;

	/* scan_row: the hot pair, then price_of */
	atomic { at = cells[0].name; gen = cells[0].gen; version = cells[0].version }
	atomic {
		is_free = !cells[0].fresh;
		if
		:: !is_free || at == NONE -> goto stake
		:: else
		fi
	}
#ifndef CLAIM_UNSEALED
	/* is_free_still: wr_table_log_retire */
	atomic { load_word(at) }
	atomic {
		if
		:: HELD(at, gen) && w_gen == gen -> skip
		:: else -> goto stake
		fi
	}
	atomic {
		if
		:: w_sealed
		:: !w_sealed && SAME_WORD(at) -> blocks[at].sealed = 1
		:: else -> goto done
		fi
	}
#endif
#ifndef CLAIM_STALE
	/* is_free_still: rank_of */
	atomic {
		if
		:: cells[0].fresh -> goto done
		:: else
		fi
	}
#endif
stake:	/* stake_claim: the hot pair */
	atomic {
		if
		:: cells[0].name == at && cells[0].gen == gen && cells[0].version == version &&
		   (at != NONE || cells[0].set == 0) ->
			assert(!is_free || past[0] == 0);
			cells[0].name = NONE;
			cells[0].gen = 0;
			cells[0].set = 0;
			cells[0].version = version + 1;
			past[0] = 0
		:: else -> goto done
		fi
	}
	/* wr_slab_release */
	atomic {
		if
		:: at != NONE && HELD(at, gen) -> blocks[at].taken = 0
		:: else
		fi
	}
done:
	atomic {
		at = 0; gen = 0; version = 0; is_free = 0;
		w_newest = 0; w_count = 0; w_pending = 0; w_sealed = 0; w_gen = 0
	}
}
#endif

init {
	atomic {
		cells[0].name = 0;
		cells[0].gen = 1;
		cells[1].name = NONE;
		blocks[0].gen = 1;
		blocks[0].taken = 1;
		blocks[0].word_gen = 1;
#ifndef OLD
		cells[0].fresh = 1;
		blocks[0].newest = FIRST;
		blocks[0].count = 1;
		blocks[0].pending = 1;
		past[0] = 1 << FIRST;
#endif
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
#ifdef CLAIM
		run claimer();
#endif
	}
}
