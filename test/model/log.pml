/* Appending to one ring: attempt_once() and commit() of src/store/log_take.c with the plan of src/algo/log.h, and
 * wr_block_put() of src/table/slab.c. Comments name the C function of a step. grow.pml and brief.pml model the
 * other forms of a log, growth and eviction. span.pml models spans.
 *
 * -DPARTICIPANTS=n -DOPS=n  each takes or gives back OPS times, each time at any time from 1 to TIMES: clocks
 *                           differ and step back
 * -DCAP=n                   slots of the ring, and the limit
 * -DSKEW=n                  a request that is late by up to n counts at the newest stamp
 * -DDISTINCT                no two takes at the same time, and a give-back undoes the last take
 *
 * `past` is the log as a list. It changes in one step with each swap of the word. Property: after every step,
 * word and slots are equal to the list, and every decision agrees with the list. A killed participant takes no
 * further step. The states in which it does not continue check that the next participant writes the pending
 * stamps.
 *
 * Without DISTINCT, more than three operations each find the known gap: the clock steps back, and a take happens
 * at exactly the nanosecond of an older, given back stamp that still lies in the same slot. A helper that read
 * the older stamp and slept since then can swap the slot, and one entry gets the helper's time.
 *
 * Mutations, each of which must be found:
 *   PUT_UNCHECKED  wr_block_put does not check the word again
 *   PUT_STORE      wr_block_put stores instead of comparing
 *   NO_FLUSH       pending stamps are not written
 *   SWAP_FIRST     the word is swapped before the pending stamps are written
 *   SWAP_ANY       the word is stored, not swapped
 *   NO_LOOK        a refusal does not check the word again
 *   GIVE_ANY       gives back an entry that is not the newest
 */
#ifndef PARTICIPANTS
#define PARTICIPANTS 2
#endif
#ifndef OPS
#define OPS 2
#endif
#ifndef CAP
#define CAP 2
#endif
#ifndef TIMES
#define TIMES 4
#endif
#ifndef PERIOD
#define PERIOD 2
#endif
#ifndef SKEW
#define SKEW 1
#endif
#define MAX 4

#ifdef DISTINCT
short used = 1; /* the times that takes have used, one bit each; bit 0 is unused */
#endif
byte slots[CAP];
/* The word of the ring. */
byte newest, head, count, pending;
/* The log as a list, oldest entry first. */
byte past[MAX];
byte past_count;

#define BACK(h, n) (((h) + CAP - (n)) % CAP)
#define SAME_WORD                                                                                  \
	(newest == w_newest && head == w_head && count == w_count && pending == w_pending)
/* An entry that is exactly one period old is not in the window any more. */
#define LIVE(stamp) (then < PERIOD || (stamp) > then - PERIOD)

/* Checks that word and slots are equal to the list. */
inline check()
{
	d_step {
		assert(count == past_count);
		j = 0;
		do
		:: j < count ->
			if
			:: j >= count - pending -> assert(past[j] == newest)
			:: else ->
				k = slots[BACK(head, count - 1 - j)];
				assert(past[j] == (k < newest -> k : newest))
			fi;
			j++
		:: else -> break
		od;
		j = 0;
		k = 0
	}
}

/* Moves the list to `then`: later stamps become `then`, and expired stamps are removed. */
inline age_list()
{
	j = 0;
	k = 0;
	do
	:: j < past_count ->
		if
		:: LIVE(past[j]) -> past[k] = (past[j] > then -> then : past[j]); k++
		:: else
		fi;
		j++
	:: else -> break
	od;
	past_count = k
}

inline clear_list_tail()
{
	j = past_count;
	do
	:: j < MAX -> past[j] = 0; j++
	:: else -> break
	od;
	j = 0;
	k = 0
}

/* Applies a swap of the word to the list. */
inline swap_list()
{
	d_step {
		if
		:: taking ->
			if
			:: live < CAP ->
				age_list();
				/* In any window, at most the limit is admitted. */
				assert(past_count < CAP);
				past[past_count] = then;
				past_count++
#ifdef DISTINCT
				; last = then
#endif
			:: else -> /* the request is refused, but later stamps became `then` */
				j = 0;
				do
				:: j < past_count ->
					past[j] = (past[j] > then -> then : past[j]);
					j++
				:: else -> break
				od
			fi
		:: else ->
			/* A give-back removes the stamp of its own time. */
			assert(past[past_count - 1] == then);
			age_list();
			past_count--
		fi;
		clear_list_tail()
	}
}

/* Steps of wr_algo_log_plan, or of wr_algo_log_plan_back if `taking` is false, on the word and slots that were read. */
inline plan()
{
	d_step {
		p_newest = w_newest;
		p_head = w_head;
		p_count = w_count;
		p_pending = w_pending;
		rebase = 0;
		flush = 0;
		/* wr_algo_log_now_ns */
		then = (w_newest > now && w_newest - now <= SKEW -> w_newest : now);
		/* wr_algo_log_may_return */
		change = (w_count > 0 && w_newest == now && entry[(w_count > 0 -> w_count - 1 : 0)] == now);
		/* wr_algo_log_carry */
		if
		:: w_newest > then ->
			rebase = 1;
			p_newest = then;
			p_pending = 0;
			j = 0;
			do
			:: j < w_count ->
				if
				:: entry[j] >= then -> entry[j] = then; p_pending++
				:: else
				fi;
				j++
			:: else -> break
			od
		:: else
		fi;
		/* wr_algo_log_live */
		live = 0;
		j = 0;
		do
		:: j < w_count ->
			if
			:: LIVE(entry[j]) -> live++
			:: else
			fi;
			j++
		:: else -> break
		od;
		if
		:: taking && live < CAP -> /* wr_algo_log_append */
			if
			:: live > 0 && p_newest == then -> p_pending++
			:: else ->
				if
				:: live > 0 -> flush = w_pending
				:: else
				fi;
				p_pending = 1
			fi;
			p_newest = then;
			p_head = (w_head + 1) % CAP;
			p_count = live + 1;
			change = 1
		:: taking && live == CAP -> change = rebase
		/* wr_algo_log_give: the newest stamp stays, because late requests need it */
		:: !taking ->
#ifdef GIVE_ANY
			change = (live > 0);
#endif
			if
			:: change ->
				p_count = live - 1;
				p_head = BACK(w_head, 1);
				p_pending = (p_pending > 0 -> p_pending - 1 : 0)
			:: else
			fi
		fi;
		j = 0;
		do
		:: j < MAX -> entry[j] = 0; j++
		:: else -> break
		od;
		j = 0
	}
}

inline forget()
{
	d_step {
		w_newest = 0; w_head = 0; w_count = 0; w_pending = 0;
		p_newest = 0; p_head = 0; p_count = 0; p_pending = 0;
		rebase = 0; flush = 0; live = 0; change = 0; i = 0; seen = 0; then = 0
	}
}

inline put_done()
{
	seen = 0;
	i++;
	if
	:: i < flush -> goto put_read
	:: else -> i = 0; goto swap_now
	fi
}

proctype participant()
{
	byte ops = OPS, now, then, last, i, j, k, seen, live, flush;
	byte w_newest, w_head, w_count, w_pending;
	byte p_newest, p_head, p_count, p_pending;
	byte entry[MAX];
	bit taking, rebase, change;

next:
	atomic {
		if
		:: ops == 0 -> now = 0; last = 0; taking = 0; goto done
		:: else -> ops--
		fi;
#ifdef DISTINCT
		if
		:: taking = 1;
			do
			:: used & (1 << i) -> i++
			:: !(used & (1 << i)) && i <= TIMES -> break
			:: !(used & (1 << i)) && i < TIMES -> i++
			:: i > TIMES -> ops = 0; i = 0; last = 0; taking = 0; goto done
			od;
			now = i;
			i = 0;
			used = used | (1 << now)
		:: last > 0 -> taking = 0; now = last; last = 0
		fi;
#else
		select(now : 1 .. TIMES);
		if
		:: taking = 1
		:: taking = 0
		fi;
#endif
		goto read
	}

read:	/* read_ring: the word */
	atomic {
		w_newest = newest; w_head = head; w_count = count; w_pending = pending;
		i = 0;
		do
		:: i < w_count -> entry[i] = w_newest; i++
		:: else -> break
		od;
		i = 0;
		if
		:: w_count == w_pending -> plan(); goto act
		:: else
		fi
	}
read_slot: /* wr_algo_log_stamp */
	atomic {
		seen = slots[BACK(w_head, w_count - 1 - i)];
		entry[i] = (seen < w_newest -> seen : w_newest);
		seen = 0;
		i++;
		if
		:: i < w_count - w_pending -> goto read_slot
		:: else -> i = 0; plan()
		fi
	}

act:
	atomic {
		if
		:: !change -> /* settle_unchanged: still_so */
			if
#ifdef NO_LOOK
			:: taking ->
#else
			:: SAME_WORD && taking ->
#endif
				d_step {
					/* Checks that the list agrees with the refusal. */
					j = 0;
					k = 0;
					do
					:: j < past_count -> k = k + LIVE(past[j]); j++
					:: else -> break
					od;
					assert(k == CAP);
					j = 0;
					k = 0
				};
				forget();
				goto next
			:: SAME_WORD && !taking -> forget(); goto next
			:: else -> forget(); goto read
			fi
#ifndef NO_FLUSH
#ifndef SWAP_FIRST
		:: change && flush > 0 -> seen = slots[BACK(w_head, i)]; goto put_check
		:: change && flush == 0 -> goto swap_now
#endif
#endif
#if defined(NO_FLUSH) || defined(SWAP_FIRST)
		:: change -> goto swap_now
#endif
		fi
	}
swap_now: /* commit: the word */
	atomic {
		if
#ifdef SWAP_ANY
		:: true ->
#else
		:: SAME_WORD ->
#endif
			newest = p_newest; head = p_head; count = p_count; pending = p_pending;
			swap_list();
#ifdef SWAP_FIRST
			if
			:: flush > 0 -> goto put_late
			:: else
			fi;
#endif
			check();
			forget();
			goto next
		:: else -> forget(); goto read
		fi
	}

	/* commit: wr_block_put reads the slot, reads the word, swaps the slot */
put_read:
	atomic { seen = slots[BACK(w_head, i)] }
put_check:
	atomic {
#ifndef PUT_UNCHECKED
		if
		:: !SAME_WORD -> forget(); goto read
		:: else
		fi;
#endif
		if
		:: seen == w_newest -> put_done()
		:: else
		fi
	}
	atomic {
#ifdef PUT_STORE
		seen = slots[BACK(w_head, i)];
#endif
		if
		:: slots[BACK(w_head, i)] == seen ->
			slots[BACK(w_head, i)] = w_newest;
			check();
			put_done()
		:: else -> goto put_read
		fi
	}

#ifdef SWAP_FIRST
put_late:
	atomic {
		slots[BACK(w_head, i)] = w_newest;
		i++;
		if
		:: i < flush -> goto put_late
		:: else -> check(); forget(); goto next
		fi
	}
#endif

done:
	skip
}

init {
	atomic {
		run participant();
		run participant();
#if PARTICIPANTS > 2
		run participant();
#endif
	}
}
