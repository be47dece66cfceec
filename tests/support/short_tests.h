/*
 * Whether tests that repeat one computation for its statistics do so a few times only.
 * Under sanitizers and valgrind (scripts/test.sh sets CST_SHORT_TESTS) each line is what counts,
 * not its average; the release build of every test run, and `make check-long` under sanitizers,
 * repeat in full.
 */
#ifndef CST_SHORT_TESTS_H
#define CST_SHORT_TESTS_H

#include <stdbool.h>
#include <stdlib.h>

static inline bool short_tests(void) {
    return getenv("CST_SHORT_TESTS") != NULL;
}

#endif
