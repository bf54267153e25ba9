/*
 * bare_postgres_rows: the records that bare_postgres sends, and the forms it can send them in.
 *
 * Ownership: a struct rows is one connection's; its memory is taken by rows_open() and given back
 * by rows_close(). Threading: none. Errors end the program through bare_fail().
 */
#ifndef BENCH_TESTS_BARE_POSTGRES_ROWS_H
#define BENCH_TESTS_BARE_POSTGRES_ROWS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <libpq-fe.h>

enum form {
    FORM_SLICES, /* insert … select unnest($1), …: an array a column, payloads cut from one value */
    FORM_UNNEST, /* the same with an array of payloads */
    FORM_VALUES, /* insert … values ($1, …), …: a parameter a value */
    FORM_COPY,   /* copy … from stdin (format binary) */
};
enum key { KEY_SEQ, KEY_UUIDV7, KEY_UUIDV4 };

struct rows {
    enum form form;
    enum key key;
    unsigned batch;
    unsigned payload_bytes;
    unsigned slot_count;
    unsigned slot_next;
    unsigned copied; /* how many of the batch a copy has sent */
    uint64_t run_next;
    uint64_t random;
    struct slot *slots; /* the runs in flight on this connection */
    struct row *rows;   /* the batch */
    char *text;         /* payloads are pieces of it */
    char *buffer;
    const char **values;
    int *lengths;
    int *formats;
};

void rows_open(struct rows *rows, unsigned connection, unsigned runs);
void rows_close(struct rows *rows);

/* Prepares the statement of the form on a connection that still blocks. */
void rows_prepare(struct rows *rows, PGconn *pg, bool conflict);

/* Makes the next batch and queues it; a copy only asks to be let in. */
void rows_send(struct rows *rows, PGconn *pg);

/* Queues a piece of the copy that the server has agreed to and returns whether there is more. To be
 * called when libpq has sent what it had: it moves all the rest whenever the socket takes some. */
bool rows_send_copy(struct rows *rows, PGconn *pg);

void *bare_take(size_t count, size_t bytes); /* zeroed memory */
void bare_fail(const char *what, const char *why) __attribute__((noreturn));

#endif
