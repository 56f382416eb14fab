/* Limits with consistency `eventual`: decided in the table, told to other nodes now and then. */
#ifndef WR_LIMITER_EXCHANGE_H
#define WR_LIMITER_EXCHANGE_H

#include "limiter/ask.h"

/* Before the decision, ask->eventual: finds or makes the slots. What has not been exchanged for too
 * long is decided as the rule's on_store_failure says; `local` is the node's share of the limit. */
void wr_ask_exchange_begin(struct weir_ask *ask);

/* It is admitted: what was taken and given back is counted for others. */
void wr_ask_exchange_note(struct weir_ask *ask);

/* So much of a need's take was undone. */
void wr_ask_exchange_undo(struct weir_ask *ask, struct wr_ask_need *need, uint64_t returned);

#endif
