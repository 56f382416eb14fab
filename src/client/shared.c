/* Implements shared.h. */
#include "client/shared.h"
