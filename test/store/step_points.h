/* Put before every file of src/table and src/store in test_interleave: each access to shared memory
 * becomes a point where the test may let another participant run, or end this one for good. */
#ifndef TEST_STEP_POINTS_H
#define TEST_STEP_POINTS_H

#include <stdbool.h>

void step_point(const volatile void *at, bool writes);

#define __atomic_load_n(at, order) (step_point(at, false), __atomic_load_n(at, order))
#define __atomic_store_n(at, ...) (step_point(at, true), __atomic_store_n(at, __VA_ARGS__))
#define __atomic_fetch_add(at, ...) (step_point(at, false), __atomic_fetch_add(at, __VA_ARGS__))
#define __atomic_add_fetch(at, ...) (step_point(at, false), __atomic_add_fetch(at, __VA_ARGS__))
#define __atomic_compare_exchange_n(at, ...)                                                       \
	(step_point(at, true), __atomic_compare_exchange_n(at, __VA_ARGS__))

#include "base/pair.h"

#define wr_pair_cas(at, ...) (step_point(at, true), wr_pair_cas(at, __VA_ARGS__))

#endif
