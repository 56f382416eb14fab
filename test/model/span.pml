/* Cutting a span anew while others walk it: wr_block_appraise(), wr_block_seize() of
 * src/table/block.c, begin(), mark_block(), mark_start() and finish() of src/table/span.c.
 *
 * The span has two small blocks or one large one. at[0] is the tenure of the first block; at[1] is
 * the tenure of the second small block, or a stamp of the large log. Every tenure is another number,
 * as generations are, and stamps are numbers from STAMP on. A walk may take any block it may
 * appraise: whether a block is free, expired or garbage does not matter here.
 *
 * -DWALKERS=n    each walks small blocks and takes one
 * -DCUTTERS=n    each cuts the span for large blocks, or helps with it; then it takes the large block
 *                and writes its stamp
 * -DBACK         one more cuts the span for small blocks again, once it is large
 *
 * What must hold: nobody but the holder of the large block changes its stamp.
 *
 * Mutations, each of which must be found:
 *   NO_CHECK     a walk does not look at the span's word between tenure and swap
 *   CHECK_FIRST  a walk looks at the span's word before it loads the tenure
 */
#ifndef WALKERS
#define WALKERS 1
#endif
#ifndef CUTTERS
#define CUTTERS 1
#endif

#define STAMP 100

byte at[2];
/* the span's word */
byte version;
bit large, emptied;
byte marker;

byte generation; /* last one given */
byte holder;     /* tenure of whoever holds the large block and has written its stamp; 0: nobody */
byte stamp;      /* … which is this */

/* The stamp of the large log is its holder's. */
#define CHECK assert(holder == 0 || at[0] != holder || at[1] == stamp)

inline new_generation(g)
{
	generation++;
	g = generation
}

proctype walker()
{
	byte seen_version, seen, mine;
	bit i;

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
	/* appraise */
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
	/* seize */
	atomic {
		new_generation(mine);
		if
		:: at[i] == seen -> at[i] = mine; CHECK
		:: else -> goto done
		fi
	}
	/* take_bargain: not in a span that is emptied */
	atomic {
		if
		:: version != seen_version && at[i] == mine ->
			new_generation(mine);
			at[i] = mine;
			CHECK
		:: else
		fi
	}
done:
	atomic { seen = 0; mine = 0; seen_version = 0; i = 0 }
}

/* Cuts the span for large blocks, or for small ones. */
proctype cutter(bit to_large)
{
	byte seen_version, seen, mark, mine;
	bit i;

	/* begin */
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
	/* mark_block, and mark_start where small blocks begin in the large one */
	seen = at[i];
	atomic {
		if
		:: version != seen_version -> goto hold
		:: else
		fi;
		if
		:: seen == mark -> goto marked
		:: else
		fi
	}
	atomic {
		if
		:: at[i] == seen -> at[i] = mark; CHECK
		:: else -> goto hold
		fi
	}
marked:
	atomic {
		if
		:: i == 0 -> i = 1; goto mark_next
		:: else
		fi
	}
	/* finish */
	atomic {
		if
		:: version == seen_version && emptied ->
			large = to_large;
			emptied = 0;
			version++
		:: else
		fi
	}

hold:	/* takes the large block and writes its stamp */
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
	atomic {
		new_generation(mine);
		if
		:: at[0] == seen -> at[0] = mine
		:: else -> goto done
		fi
	}
	/* The block may have been lost meanwhile: then its word has, and nothing is written. */
	atomic {
		if
		:: at[0] == mine && version == seen_version && holder == 0 ->
			stamp = STAMP + mine;
			at[1] = stamp;
			holder = mine;
			CHECK
		:: else
		fi
	}
done:
	atomic { seen = 0; mine = 0; seen_version = 0; mark = 0; i = 0 }
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
#ifdef BACK
		run cutter(0)
#endif
	}
}
