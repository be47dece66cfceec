/*
 * How often a test repeats a random experiment: as often as it says by default, at least a
 * thousand times where tests are short, fifty times as often in the long form (tests/long/run.sh).
 * And how many failures are still no evidence against a probability.
 */
#ifndef CST_TEST_REPETITIONS_H
#define CST_TEST_REPETITIONS_H

#include "short_tests.h"

#include "bounds/binomial.h"

#include <stdint.h>

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

#endif
