/*
 * Extreme pools, each fitted by every preset and compared: who refuses it, and with what words.
 * Shared by tests/api/numbers.c and number_values.c; included by one program each.
 */
#ifndef CST_TEST_EDGE_CASE_H
#define CST_TEST_EDGE_CASE_H

#include "pool_case.h"

#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

/* Who refuses a pool: every fit and comparison, what has linear meta-learners (the presets paper
 * and prototype), or what fits without a fold: nested fits, comparisons and those presets. */
typedef enum refusal { NOBODY, EVERYBODY, LINEAR, NESTED } refusal;

typedef struct edge {
    const char *name;
    pool_case (*make)(void);
    refusal refusal;
    const char *why; /* part of the refusal */
    bool compared;   /* also where the first argument is not "long" */
    bool left_out;   /* by comparisons, which do not fail */
    bool large;      /* with "long" alone, preset default, not compared */
} edge;

#define EDGE(pool)                                                                                 \
    { .name = #pool, .make = (pool) }
#define COMPARED(pool)                                                                             \
    { .name = #pool, .make = (pool), .compared = true }
#define LARGE(pool)                                                                                \
    { .name = #pool, .make = (pool), .large = true }
#define REFUSED(pool, by, text)                                                                    \
    { .name = #pool, .make = (pool), .refusal = (by), .why = (text) }
/* Fits of presets refuse it; a comparison leaves the presets out and goes on. */
#define LEFT_OUT(pool, by, text)                                                                   \
    {                                                                                              \
        .name = #pool, .make = (pool), .refusal = (by), .why = (text), .compared = true,           \
        .left_out = true                                                                           \
    }
#define REFUSED_COMPARED(pool, by, text)                                                           \
    { .name = #pool, .make = (pool), .refusal = (by), .why = (text), .compared = true }

static inline void expect(bool ok, const char *what, const verdict *v) {
    if (!ok)
        print_error("%s: %s\n", what, v->text);
    assert_true(ok);
}

/* A fit or comparison ends as it should. */
static inline void expect_end(const cst_context *context, cst_status status, bool refused,
                              const char *why) {
    if (status != (refused ? CST_ERROR_INPUT : CST_OK))
        print_error("%s: %s\n", cst_status_name(status), cst_last_error(context));
    assert_int_equal(status, refused ? CST_ERROR_INPUT : CST_OK);
    if (refused)
        assert_non_null(strstr(cst_last_error(context), why));
}

/* Under sanitizers, and with valgrind: nested fits, which have the others in them. */
static inline int is_short(void) {
    return getenv("CST_SHORT_TESTS") != NULL;
}

static inline void fits(void **state) {
    static const char *const presets[] = {"default", "paper", "prototype"};
    const edge *e = *state;
    cst_context *context = NULL;
    cst_pool *pool = NULL;
    pool_case c = e->make();
    verdict v = {""};
    assert_int_equal(cst_context_create(&context), CST_OK);
    assert_int_equal(make_pool(context, &c, &pool), CST_OK);
    for (int p = 0; p < (e->large ? 1 : 3); p++)
        for (int nested = is_short(); nested < 2; nested++) {
            cst_status status = CST_OK;
            bool ok =
                fit_is_sound(context, &c, pool, presets[p], nested ? "true" : "false", &status, &v);
            expect(ok, presets[p], &v);
            expect_end(context, status,
                       e->refusal == EVERYBODY || (e->refusal == LINEAR && p > 0) ||
                           (e->refusal == NESTED && (nested || p > 0)),
                       e->why);
        }
    cst_pool_free(context, pool);
    free_case(&c);
    cst_context_free(context);
}

/* Compares `count` methods, of a pool with weights the first one. */
static inline void compare_methods(const edge *e, const char *const *methods, int count,
                                   bool refused) {
    cst_context *context = NULL;
    cst_pool *pool = NULL;
    pool_case c = e->make();
    verdict v = {""};
    cst_status status = CST_OK;
    assert_int_equal(cst_context_create(&context), CST_OK);
    assert_int_equal(make_pool(context, &c, &pool), CST_OK);
    expect(compare_is_sound(context, pool, methods, c.weights ? 1 : count, &status, &v), e->name,
           &v);
    expect_end(context, status, refused, e->why);
    cst_pool_free(context, pool);
    free_case(&c);
    cst_context_free(context);
}

/* The tests of the edges into `tests`: at most two for each. Returns how many. `all`: the first
 * argument is "long". */
static inline size_t edge_tests(const edge *edges, size_t count, CMUnitTestFunction compares,
                                bool all, struct CMUnitTest *tests) {
    size_t made = 0;
    for (size_t i = 0; i < count; i++) {
        const edge *e = &edges[i];
        void *state = (void *)(uintptr_t)e;
        if (e->large && !all)
            continue;
        tests[made++] = (struct CMUnitTest){e->name, fits, NULL, NULL, state};
        if (all ? !e->large : e->compared && !is_short())
            tests[made++] = (struct CMUnitTest){e->name, compares, NULL, NULL, state};
    }
    return made;
}

#endif
