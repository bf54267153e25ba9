/*
 * list: an intrusive, circular, doubly linked list. Every operation is O(1) and allocates nothing.
 *
 * Ownership: the caller owns head and links; a link is on at most one list. Threading: none.
 */
#ifndef BENCH_BASE_LIST_H
#define BENCH_BASE_LIST_H

#include <stdbool.h>
#include <stddef.h>

struct list {
    struct list *next;
    struct list *prev;
};

/* The object of type `type` whose member `member` is at `pointer`. */
#define container_of(pointer, type, member) ((type *)((char *)(pointer)-offsetof(type, member)))

static inline void list_init(struct list *head)
{
    head->next = head;
    head->prev = head;
}

static inline bool list_empty(const struct list *head)
{
    return head->next == head;
}

static inline void list_push_back(struct list *head, struct list *link)
{
    struct list *last = head->prev;
    link->next = head;
    link->prev = last;
    last->next = link;
    head->prev = link;
}

/* Takes the link off whichever list it is on, and leaves it pointing at itself. */
static inline void list_remove(struct list *link)
{
    link->prev->next = link->next;
    link->next->prev = link->prev;
    list_init(link);
}

/* The first link, taken off, or NULL. */
static inline struct list *list_pop_front(struct list *head)
{
    struct list *link = head->next;
    if (link == head)
        return NULL;
    list_remove(link);
    return link;
}

/* Moves all of `from` behind the last of `to`. */
static inline void list_splice_back(struct list *to, struct list *from)
{
    if (list_empty(from))
        return;
    from->next->prev = to->prev;
    to->prev->next = from->next;
    from->prev->next = to;
    to->prev = from->prev;
    list_init(from);
}

#endif
