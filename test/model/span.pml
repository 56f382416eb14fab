/* Cutting a span for another class while other participants walk it: wr_block_appraise(), wr_block_seize() and
 * wr_block_reset() of src/table/block.c, take_bargain() of slab.c, begin_emptying(), mark_block(), mark_start() and
 * finish_emptying() of span.c. Comments name the C function of a step.
 *
 * The span has two small blocks or one large block. at[0] is the tenure of the first block. at[1] and (word, rest)
 * are tenure and word of the second small block. In the large log at[1] and word are stamps, and rest is a slot
 * without an entry. Every tenure is a different number, like generations. The newest stamp of the second small log
 * is NEWEST, which is also a stamp of the large log, because many keys have requests at one time. A walk may take
 * any block that it may appraise: free, expired and garbage blocks are not distinguished here.
 *
 * -DWALKERS=n    each walks small blocks and takes one
 * -DCUTTERS=n    each cuts the span for large blocks, or helps with it; then it takes the large block and writes
 *                its stamps
 * -DBACK         one more cuts the span for small blocks again, after it is large
 *
 * Property: only the holder of the large block changes its stamps.
 *
 * Mutations, each of which must be found:
 *   NO_CHECK        a walk does not check the span's word between tenure and swap
 *   CHECK_FIRST     a walk checks the span's word before it loads the tenure
 *   SEIZE_ANY       a walk stores the tenure without comparing
 *   MARK_UNCHECKED  a block is marked without a check of the span's word
 *   MARK_ANY        a marker is stored without comparing
 *   RESET_UNCHECKED a block's word is reset without a check of the span's word
 *   RESET_SKIPPED   a marked block is passed before its word is reset
 *   FINISH_EARLY    the span gets its class before the second block has its marker
 */
#ifndef WALKERS
#define WALKERS 1
#endif
#ifndef CUTTERS
#define CUTTERS 1
#endif

#define NEWEST 60
#define STAMP 100 /* stamp of the large log at at[1]; the holder's number is added */

byte at[2];
/* The lower and the upper half of the second block's word. The upper half contains the generation. */
byte word = NEWEST, rest = 1;
/* The word of the span. */
byte version;
bit large, emptied;
byte marker;

byte generation; /* the tenure that was given last */
/* Tenure of the holder of the large block, after its first stamp; 0: there is no holder. */
byte holder;
bit both;        /* the holder has written its second stamp */

/* Checks that the stamps of the large log belong to its holder. */
#define CHECK                                                                                      \
	assert(holder == 0 || at[0] != holder ||                                                   \
	       (word == NEWEST && (!both || at[1] == STAMP + holder)))

inline new_generation(g)
{
	generation++;
	g = generation
}

/* wr_block_reset() of the second small block */
inline reset(held)
{
	atomic { seen = word; seen_rest = rest }
	atomic {
		if
		:: at[1] != held -> goto reset_failed
		:: else
		fi
	}
#ifndef RESET_UNCHECKED
	atomic {
		if
		:: version != seen_version -> goto reset_failed
		:: else
		fi
	}
#endif
	atomic {
		if
		:: word == seen && rest == seen_rest -> word = 0; rest = held; CHECK
		:: else -> goto reset_word
		fi
	}
}

proctype walker()
{
	byte seen_version, seen, seen_rest, mine;
	bit i;

	/* enter: the span's word */
	atomic {
		if
		:: large || emptied -> goto done
		:: else -> seen_version = version
		fi;
		if
		:: i = 0
		:: i = 1
		fi
	}
#ifdef CHECK_FIRST
	atomic {
		if
		:: version != seen_version -> goto done
		:: else
		fi
	}
#endif
	/* wr_block_appraise: the tenure, then the span's word */
	seen = at[i];
#ifndef NO_CHECK
#ifndef CHECK_FIRST
	atomic {
		if
		:: version != seen_version -> goto done
		:: else
		fi
	}
#endif
#endif
	/* wr_block_seize */
	atomic {
		if
#ifdef SEIZE_ANY
		:: true -> new_generation(mine); at[i] = mine; CHECK
#else
		:: at[i] == seen -> new_generation(mine); at[i] = mine; CHECK
#endif
		:: else -> goto done
		fi
	}
	/* take_bargain: gives up if the span is being emptied */
	atomic {
		if
		:: version != seen_version -> goto reset_failed
		:: version == seen_version && i == 0 -> goto done
		:: else
		fi
	}
reset_word:
	reset(mine);
	goto done;
reset_failed: /* set_free */
	atomic {
		if
		:: at[i] == mine ->
			new_generation(mine);
			at[i] = mine;
			CHECK
		:: else
		fi
	}
done:
	atomic { seen = 0; seen_rest = 0; mine = 0; seen_version = 0; i = 0 }
}

/* Cuts the span for large blocks, or for small ones. */
proctype cutter(bit to_large)
{
	byte seen_version, seen, seen_rest, mark, mine;
	bit i;

	/* begin, or empty_some for a span that another participant empties: the span's word. */
	atomic {
		if
		:: emptied -> skip
		:: !emptied && large != to_large ->
			version++;
			emptied = 1;
			new_generation(marker)
		:: else -> goto hold
		fi;
		seen_version = version;
		mark = marker;
		i = 0
	}
mark_next:
	/* mark_block: wr_block_appraise; or mark_start at the start of a small block inside the large one */
	seen = at[i];
	atomic {
#ifndef MARK_UNCHECKED
		if
		:: version != seen_version -> goto hold
		:: else
		fi;
#endif
		if
#ifdef RESET_SKIPPED
		:: seen == mark -> goto marked
#else
		:: seen == mark -> goto reset_it
#endif
		:: else
		fi
	}
	/* wr_block_seize */
	atomic {
		if
#ifdef MARK_ANY
		:: true -> at[i] = mark; CHECK
#else
		:: at[i] == seen -> at[i] = mark; CHECK
#endif
		:: else -> goto hold
		fi
	}
reset_it:
	atomic {
		if
		:: i == 0 || large -> goto marked /* mark_start resets nothing */
		:: else
		fi
	}
reset_word:
	reset(mark);
marked:
#ifndef FINISH_EARLY
	atomic {
		if
		:: i == 0 -> i = 1; goto mark_next
		:: else
		fi
	}
#endif
	/* finish */
	atomic {
		if
		:: version == seen_version && emptied ->
			large = !large;
			emptied = 0;
			version++
		:: else
		fi
	}
reset_failed:
hold:	/* takes the large block: wr_block_appraise */
	atomic {
		if
		:: !to_large || !large || emptied || holder != 0 -> goto done
		:: else -> seen_version = version; seen = at[0]
		fi
	}
	atomic {
		if
		:: version != seen_version -> goto done
		:: else
		fi
	}
	/* wr_block_seize */
	atomic {
		if
		:: at[0] == seen -> new_generation(mine); at[0] = mine
		:: else -> goto done
		fi
	}
	/* wr_block_put and the swap of the log's word; the block may have been lost */
put_first:
	seen = word;
	atomic {
		if
		:: at[0] != mine || version != seen_version || holder != 0 -> goto done
		:: else
		fi;
		if
		:: seen == NEWEST -> goto count_first
		:: else
		fi
	}
	atomic {
		if
		:: word == seen -> word = NEWEST
		:: else -> goto put_first
		fi
	}
count_first:
	atomic {
		if
		:: at[0] == mine && version == seen_version && holder == 0 ->
			holder = mine;
			CHECK
		:: else -> goto done
		fi
	}
	/* Step: writes the second stamp. */
	atomic {
		if
		:: at[0] == mine && version == seen_version ->
			at[1] = STAMP + mine;
			both = 1;
			CHECK
		:: else
		fi
	}
done:
	atomic { seen = 0; seen_rest = 0; mine = 0; seen_version = 0; mark = 0; i = 0 }
}

init {
	atomic {
		at[0] = 1;
		at[1] = 2;
		generation = 2;
		run walker();
#if WALKERS > 1
		run walker();
#endif
		run cutter(1);
#if CUTTERS > 1
		run cutter(1);
#endif
#if CUTTERS > 2
		run cutter(1);
#endif
#ifdef BACK
		run cutter(0)
#endif
	}
}
