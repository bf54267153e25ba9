/*
 * signals: SIGINT and SIGTERM, for the subcommands that take them. One that was ignored when bench
 * was started stays so: nohup and a shell's background jobs count on it.
 *
 * Threading: the controlling thread.
 */
#ifndef BENCH_CMD_SIGNALS_H
#define BENCH_CMD_SIGNALS_H

#include <signal.h>

/* Which of them are taken: ask before any has a handler. */
sigset_t signals_taken(void);

/* Has those of the set handled, one at a time, instead of by whatever did before, and lets them in
 * where they were blocked. System calls that they interrupt go on. The handler may do what is
 * async-signal-safe. */
void signals_handle(const sigset_t *taken, void (*handler)(int signal));

#endif
