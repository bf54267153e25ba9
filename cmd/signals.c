/* signals: see signals.h. */
#include "cmd/signals.h"

#include <pthread.h>
#include <stddef.h>

static const int signals[] = {SIGINT, SIGTERM};
enum { SIGNALS = sizeof(signals) / sizeof(signals[0]) };

sigset_t signals_taken(void)
{
    sigset_t taken;
    (void)sigemptyset(&taken);
    for (size_t i = 0; i < SIGNALS; i++) {
        struct sigaction action;
        if (sigaction(signals[i], NULL, &action) == 0 && action.sa_handler != SIG_IGN)
            (void)sigaddset(&taken, signals[i]);
    }
    return taken;
}

void signals_handle(const sigset_t *taken, void (*handler)(int signal))
{
    const struct sigaction action = {
        .sa_handler = handler,
        .sa_mask = *taken,
        .sa_flags = SA_RESTART,
    };
    for (size_t i = 0; i < SIGNALS; i++)
        if (sigismember(taken, signals[i]) == 1)
            (void)sigaction(signals[i], &action, NULL); /* It cannot fail for these. */
    (void)pthread_sigmask(SIG_UNBLOCK, taken, NULL);
}
