/* Signals: the first asks the command to stop. Under every command. */
#include "cli.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <time.h>

/* The first signal asks the library to stop. More of them within INSIST seconds (held keys, groups)
 * change nothing; after that the run is taken to hang. */

static const int64_t INSIST = 5000; /* milliseconds */

/* The things a signal handler may touch, in whatever thread it runs. */
static volatile sig_atomic_t interrupted_by;
static int64_t first_came; /* milliseconds; 0: none yet */
static int ending;

static int64_t now_milliseconds(void) {
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000 + 1; /* never 0 */
}

void cli_end_by_signal(int number) {
    sigset_t it;
    (void)signal(number, SIG_DFL);
    (void)sigemptyset(&it);
    (void)sigaddset(&it, number);
    (void)raise(number);
    (void)pthread_sigmask(SIG_UNBLOCK, &it, NULL);
}

static void on_signal(int number) {
    int reason = errno;
    int64_t none = 0;
    int64_t now = now_milliseconds();
    if (__atomic_compare_exchange_n(&first_came, &none, now, false, __ATOMIC_SEQ_CST,
                                    __ATOMIC_SEQ_CST))
        interrupted_by = number;
    if (none && now - none >= INSIST && !__atomic_exchange_n(&ending, 1, __ATOMIC_SEQ_CST)) {
        cli_unfinished_remove();
        cli_end_by_signal(number);
    }
    errno = reason;
}

int cli_interrupted(void) {
    return (int)interrupted_by;
}

void cli_heed_signals(void) {
    static const int numbers[] = {SIGINT,  SIGTERM, SIGHUP,  SIGQUIT,
                                  SIGXCPU, SIGALRM, SIGUSR1, SIGUSR2};
    const size_t count = sizeof numbers / sizeof *numbers;
    struct sigaction action;
    struct sigaction before;
    memset(&action, 0, sizeof action);
    action.sa_handler = on_signal;
    (void)sigemptyset(&action.sa_mask);
    for (size_t i = 0; i < count; i++)
        (void)sigaddset(&action.sa_mask, numbers[i]);
    for (size_t i = 0; i < count; i++) {
        if (sigaction(numbers[i], NULL, &before) != 0 || before.sa_handler != SIG_IGN)
            (void)sigaction(numbers[i], &action, NULL);
    }
}
