/* Implements pace.h. */
#include "client/pace.h"
