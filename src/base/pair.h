/* A pair of words. Both words are changed at once, by a 16-byte compare-and-swap. wr_pair_load()
 * returns two words that the same change has written.
 *
 * The compare-and-swap is inline assembly, because GCC turns 16-byte __atomic builtins into calls
 * to libatomic, which may take a lock that other processes do not see. */
#ifndef WR_BASE_PAIR_H
#define WR_BASE_PAIR_H

#include <stdbool.h>
#include <stdint.h>

#if !defined(__x86_64__)
#error "base/pair.h supports only x86-64"
#endif

#if defined(__SANITIZE_THREAD__)
#define WR_TSAN 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define WR_TSAN 1
#endif
#endif

/* ThreadSanitizer does not understand assembly. These functions tell it that the compare-and-swap
 * has acquire and release order. */
#ifdef WR_TSAN
void __tsan_acquire(void *addr);
void __tsan_release(void *addr);
#define WR_NO_TSAN __attribute__((no_sanitize("thread"), noinline))
#else
#define WR_NO_TSAN
#endif

struct wr_pair {
	_Alignas(16) uint64_t lo;
	uint64_t hi;
};

_Static_assert(sizeof(struct wr_pair) == 16, "one cmpxchg16b");

static inline bool wr_pair_equal(struct wr_pair a, struct wr_pair b)
{
	return a.lo == b.lo && a.hi == b.hi;
}

/* Replaces *at by `desired` and returns true if *at is equal to *expected. Otherwise sets *expected
 * to the current value of *at and returns false. The call is a full memory barrier in both
 * cases. */
static inline bool wr_pair_cas(struct wr_pair *at, struct wr_pair *expected, struct wr_pair desired)
{
	bool done;

#ifdef WR_TSAN
	__tsan_release(at);
#endif
	__asm__ volatile("lock cmpxchg16b %1"
			 : "=@ccz"(done), "+m"(*at), "+a"(expected->lo), "+d"(expected->hi)
			 : "b"(desired.lo), "c"(desired.hi)
			 : "memory");
#ifdef WR_TSAN
	__tsan_acquire(at);
#endif
	return done;
}

/* Returns two words that belong to the same write. The low word is read before and after the high
 * word. Every write changes the low word (a time, a tag, a pointer with its generation), so an
 * unchanged low word means that no write happened between the two reads. The pair can change after
 * this call, so a caller that replaces it uses wr_pair_cas(), which compares both words again. */
static inline struct wr_pair wr_pair_load(const struct wr_pair *at)
{
	struct wr_pair seen;
	uint64_t again = __atomic_load_n(&at->lo, __ATOMIC_ACQUIRE);

	do {
		seen.lo = again;
		seen.hi = __atomic_load_n(&at->hi, __ATOMIC_ACQUIRE);
		again = __atomic_load_n(&at->lo, __ATOMIC_ACQUIRE);
	} while (again != seen.lo);
#ifdef WR_TSAN
	__tsan_acquire((void *)at);
#endif
	return seen;
}

#endif
