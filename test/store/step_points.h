/* Included before every file of src/table and src/store in test_interleave*.c. Each access to
 * shared memory becomes a point at which the test may let another simulated thread run, or end this
 * one as if it were killed. */
#ifndef TEST_STEP_POINTS_H
#define TEST_STEP_POINTS_H

void step_point(void);

// NOLINTBEGIN(bugprone-reserved-identifier): the compiler's own names are what is to be intercepted
#define __atomic_load_n(...) (step_point(), __atomic_load_n(__VA_ARGS__))
#define __atomic_store_n(...) (step_point(), __atomic_store_n(__VA_ARGS__))
#define __atomic_fetch_add(...) (step_point(), __atomic_fetch_add(__VA_ARGS__))
#define __atomic_fetch_sub(...) (step_point(), __atomic_fetch_sub(__VA_ARGS__))
#define __atomic_add_fetch(...) (step_point(), __atomic_add_fetch(__VA_ARGS__))
#define __atomic_exchange_n(...) (step_point(), __atomic_exchange_n(__VA_ARGS__))
#define __atomic_fetch_or(...) (step_point(), __atomic_fetch_or(__VA_ARGS__))
#define __atomic_fetch_and(...) (step_point(), __atomic_fetch_and(__VA_ARGS__))
#define __atomic_and_fetch(...) (step_point(), __atomic_and_fetch(__VA_ARGS__))
#define __atomic_compare_exchange_n(...) (step_point(), __atomic_compare_exchange_n(__VA_ARGS__))
// NOLINTEND(bugprone-reserved-identifier)

#include "base/pair.h"

#define wr_pair_cas(...) (step_point(), wr_pair_cas(__VA_ARGS__))

#endif
