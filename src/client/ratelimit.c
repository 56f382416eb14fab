/* Implements ratelimit.h. */
#include <weir/ratelimit.h>
