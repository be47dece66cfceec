/*
 * How often a test repeats a random experiment: as often as it says by default, at least a
 * thousand times where tests are short, fifty times as often in the long form (tests/long/run.sh).
 * And how many failures are still no evidence against a probability. The long form says how many
 * there were, in lines that tests/long/bounds.sh makes a table of.
 */
#ifndef CST_TEST_REPETITIONS_H
#define CST_TEST_REPETITIONS_H

#include "short_tests.h"

#include "stats/statistics.h"

#include <stdint.h>
#include <stdio.h>

static inline int64_t repetitions(int64_t usual) {
    if (short_tests())
        return usual < 1000 ? usual : 1000;
    return getenv("CORESTACK_LONG") ? 50 * usual : usual;
}

/* Whether `failures` of `trials` are no more than chance makes of a probability `delta`: as many or
 * more would be seen less than once in a million runs of the test. */
static inline bool plausible(int64_t failures, int64_t trials, double delta) {
    return cst_binomial_at_least(failures, trials, delta) > 1e-6;
}

/* `plausible`, told to who reads the output of the long form. */
static inline bool plausible_said(const char *bound, int64_t failures, int64_t trials,
                                  double delta) {
    if (getenv("CORESTACK_LONG"))
        printf("coverage | %s | %lld | %lld | %g\n", bound, (long long)failures, (long long)trials,
               delta);
    return plausible(failures, trials, delta);
}

#endif
