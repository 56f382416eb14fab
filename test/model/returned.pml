/* The two counts of tokens that are given back to a token bucket: wr_returned_read(), wr_returned_begin() and
 * wr_returned_end() of src/store/returned.h, around the steps of weir_reserve(), weir_settle() and wr_store_return(). A
 * change of the bucket is one swap of its cell (decide.pml), so it is one step here. Numbers of tokens are integers,
 * and one token flows in per tick. Comments name the C function of a step.
 *
 * -DREQUESTS=n    number of requests that reserve tokens, use some of them, and settle
 * -DCANCELLERS=n  number of requests that take tokens and give all of them back, without settling
 * -DRESERVE=n     largest number of tokens that a request reserves
 * -DCAPACITY=n    number of tokens of a full bucket
 * -DTICKS=n       number of ticks of the clock; a tick can occur between any two steps
 *
 * Property: the tokens that are used never exceed the sum of capacity and inflow. An ideal bucket checks this: it knows
 * the cost of each request at its arrival, so no token is ever given back to it. In every state, the bucket lacks at
 * least as many tokens as the ideal bucket. Time can pass between the moment for which a give-back is computed and its
 * swap. The bucket may then lack fewer tokens, by the tokens that flow in during this time (wr_bucket_give() of
 * src/algo/bucket.h). A killed participant takes no further step, so kills are covered.
 *
 * Mutations, each of which must be found:
 *   ONLY_BEGUN       `ended` does not exist: a take reads `begun`
 *   ONLY_ENDED       `begun` does not exist: a settlement reads `ended`
 *   READ_LATE        a take reads `ended` after its swap
 *   BEGIN_LATE       a settlement reads `begun` before its swap and raises it afterwards
 *   END_EARLY        a settlement raises `ended` before its swap
 *   CANCEL_UNCOUNTED a give-back without a settlement is not counted
 */
#ifndef REQUESTS
#define REQUESTS 3
#endif
#ifndef CANCELLERS
#define CANCELLERS 0
#endif
#ifndef RESERVE
#define RESERVE 1
#endif
#ifndef CAPACITY
#define CAPACITY 2
#endif
#ifndef TICKS
#define TICKS 1
#endif

byte lacks; /* the cell: the tokens that the bucket lacks to be full */
byte now;
byte begun, ended;
/* The tokens that the ideal bucket lacks, and the tokens that flowed in before late swaps; only for assertions. */
byte ideal, late;

#define LESS(a, b) ((a) > (b) -> (a) - (b) : 0)
#define CHECK assert(ideal <= lacks + late && lacks <= CAPACITY)

/* wr_returned_read */
#ifdef ONLY_BEGUN
#define READ given = begun
#else
#define READ given = ended
#endif

/* wr_returned_begin, by a settlement */
inline begin()
{
#if defined(ONLY_ENDED)
	others = ended - given
#elif defined(BEGIN_LATE)
	others = begun - given
#else
	atomic { others = begun - given; begun = begun + unused }
#endif
}

/* wr_token_sure, and refund_of, which chooses the larger one of two refunds */
inline compute_refund()
{
	refund = LESS(LESS(used, others), at - charged);
	if
	:: refund > unused -> refund = unused
	:: refund < LESS(unused, at - charged) -> refund = unused - (at - charged)
	:: else
	fi
}

inline give()
{
	lacks = LESS(lacks, refund);
	late = late + now - at;
	CHECK
}

proctype request()
{
	byte reserved, unused, given, charged, used, at, others, refund;

	/* The request reserves some tokens and leaves some of them unused. */
	atomic {
		select(reserved : 1 .. RESERVE);
		select(unused : 0 .. RESERVE);
		if
		:: unused > reserved -> unused = reserved
		:: else
		fi
	}
	/* weir_reserve */
#ifndef READ_LATE
	READ;
#endif
	atomic {
		if
		:: lacks + reserved > CAPACITY -> goto done
		:: else
		fi;
		lacks = lacks + reserved;
		used = lacks;
		charged = now;
		ideal = ideal + reserved - unused;
		reserved = 0;
		CHECK;
		if
		:: unused == 0 -> goto done
		:: else
		fi
	}
#ifdef READ_LATE
	READ;
#endif
	/* weir_settle: its time is an argument */
	at = now;
	begin();
#ifdef END_EARLY
	ended = ended + unused;
#endif
	atomic { /* give_back */
		compute_refund();
		give();
		given = 0; charged = 0; used = 0; at = 0; others = 0; refund = 0
	}
#ifdef BEGIN_LATE
	begun = begun + unused;
#endif
#ifndef END_EARLY
	ended = ended + unused;
#endif
done:
	atomic { reserved = 0; unused = 0; given = 0; charged = 0; used = 0 }
}

/* weir_take, then wr_store_return of all tokens */
proctype canceller()
{
	byte charged, at, refund;

	atomic {
		if
		:: lacks + RESERVE > CAPACITY -> goto done
		:: else -> lacks = lacks + RESERVE; charged = now; CHECK
		fi
	}
	at = now;
	/* wr_attempt_decide */
#ifndef CANCEL_UNCOUNTED
	begun = begun + RESERVE;
#endif
	atomic { refund = LESS(RESERVE, at - charged); give(); charged = 0; at = 0; refund = 0 }
#ifndef CANCEL_UNCOUNTED
	ended = ended + RESERVE;
#endif
done:
	skip
}

/* A token flows in. */
proctype clock()
{
	do
	:: now < TICKS ->
		atomic { now++; lacks = LESS(lacks, 1); ideal = LESS(ideal, 1); CHECK }
	:: else -> break
	od
}

init {
	atomic {
		byte n = REQUESTS + CANCELLERS;

		do
		:: n > CANCELLERS -> run request(); n--
		:: n > 0 && n <= CANCELLERS -> run canceller(); n--
		:: n == 0 -> break
		od;
		run clock()
	}
}
