/* A doubly linked list of objects that embed a struct wr_list, called a link. The list itself, its
 * head, is a struct wr_list too (`jobs` below). The head and the links form a ring, so that no
 * operation has a special case at an end.
 *
 *     struct job { int number; struct wr_list link; };
 *
 *     struct wr_list jobs;
 *     wr_list_init(&jobs);
 *     wr_list_add_last(&jobs, &job->link);
 *     for (struct wr_list *link = wr_list_first(&jobs); link; link = wr_list_after(&jobs, link))
 *             print(wr_container_of(link, struct job, link)->number);
 *
 * The list allocates nothing; the caller owns the objects. One thread at a time may use a list.
 *
 * A stack, a queue that is only pushed and popped, a hash chain, and a list that is only walked and
 * freed as a whole use a plain pointer `next` instead, because they need no second pointer. */
#ifndef WR_BASE_LIST_H
#define WR_BASE_LIST_H

#include <stdbool.h>
#include <stddef.h>

#include "base/assert.h"
#include "base/container.h"

/* The head of a list, or a link that an object embeds. A link is all zero while its object is in no
 * list. */
struct wr_list {
	struct wr_list *next, *prev;
};

static inline void wr_list_init(struct wr_list *head)
{
	head->next = head->prev = head;
}

static inline bool wr_list_is_empty(const struct wr_list *head)
{
	return head->next == head;
}

/* Returns whether the object with this link is in a list. */
static inline bool wr_list_holds(const struct wr_list *link)
{
	return link->next != NULL;
}

/* Returns the first link, or NULL if the list is empty. */
static inline struct wr_list *wr_list_first(const struct wr_list *head)
{
	return head->next == head ? NULL : head->next;
}

/* Returns the link after `link`, or NULL if `link` is the last one of the list. */
static inline struct wr_list *wr_list_after(const struct wr_list *head, const struct wr_list *link)
{
	return link->next == head ? NULL : link->next;
}

/* Adds `link`, which is in no list, directly behind `at`. `at` is the head or a link of a list. */
static inline void wr_list_add_after(struct wr_list *at, struct wr_list *link)
{
	wr_assert(at->next && !link->next);
	link->prev = at;
	link->next = at->next;
	at->next->prev = link;
	at->next = link;
}

static inline void wr_list_add_first(struct wr_list *head, struct wr_list *link)
{
	wr_list_add_after(head, link);
}

static inline void wr_list_add_last(struct wr_list *head, struct wr_list *link)
{
	wr_list_add_after(head->prev, link);
}

/* Removes a link from its list. Does nothing if the link is in no list. */
static inline void wr_list_remove(struct wr_list *link)
{
	if (!link->next)
		return;
	link->prev->next = link->next;
	link->next->prev = link->prev;
	link->next = link->prev = NULL;
}

/* Removes the first link and returns it. Returns NULL if the list is empty. */
static inline struct wr_list *wr_list_pop(struct wr_list *head)
{
	struct wr_list *link = wr_list_first(head);

	if (!link)
		return NULL;
	wr_assert(link->prev == head);
	head->next = link->next;
	link->next->prev = head;
	link->next = link->prev = NULL;
	return link;
}

/* Moves all links of `from` to the end of `to`, in the same order. Afterwards `from` is empty. */
static inline void wr_list_move_all(struct wr_list *to, struct wr_list *from)
{
	if (wr_list_is_empty(from))
		return;
	from->next->prev = to->prev;
	from->prev->next = to;
	to->prev->next = from->next;
	to->prev = from->prev;
	wr_list_init(from);
}

#endif
