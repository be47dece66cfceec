/*
 * Extreme pools of classification through every computation: inspect, fit, prediction, evaluation,
 * comparison, model files. Results are finite, or the refusal is one line.
 */
#include "pool_case.h"

#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

/* ---- how pools are made -----------------------------------------------------------------------
 */

/* Softmax of noise plus `skill` on the label. */
static void noisy_row(cst_rng *rng, double skill, int32_t label, int32_t classes, double *out) {
    double sum = 0;
    for (int32_t j = 0; j < classes; j++) {
        out[j] = exp(cst_rng_normal(rng) + (j == label ? skill : 0));
        sum += out[j];
    }
    for (int32_t j = 0; j < classes; j++)
        out[j] /= sum;
}

/* Labels in turn, members of skill 1, 1.5, 2, ... */
static pool_case ordinary(int32_t members, int64_t rows, int32_t classes) {
    cst_rng rng;
    pool_case c = new_case(members, rows, classes);
    cst_rng_init(&rng, 1, CST_STREAM_TEST, 0);
    for (int64_t i = 0; i < rows; i++)
        c.labels[i] = (int32_t)(i % classes);
    for (int32_t k = 0; k < members; k++)
        for (int64_t i = 0; i < rows; i++)
            noisy_row(&rng, 1 + 0.5 * (k % 4), c.labels[i], classes, case_row(&c, k, i));
    return c;
}

/* All of row's mass on one class, the others get `rest` each. */
static void sharp_row(double *row, int32_t classes, int32_t top, double rest) {
    for (int32_t j = 0; j < classes; j++)
        row[j] = j == top ? 1 - rest * (classes - 1) : rest;
}

static void sharpen(pool_case *c, double rest) {
    for (int32_t k = 0; k < c->members; k++)
        for (int64_t i = 0; i < c->rows; i++) {
            double *row = case_row(c, k, i);
            int32_t top = 0;
            for (int32_t j = 1; j < c->classes; j++)
                top = row[j] > row[top] ? j : top;
            sharp_row(row, c->classes, top, rest);
        }
}

static pool_case denormals(void) {
    pool_case c = ordinary(4, 45, 3);
    sharpen(&c, 1e-45);
    return c;
}
static pool_case denormals_of_float64(void) {
    pool_case c = ordinary(4, 45, 3);
    sharpen(&c, 5e-324);
    c.type = CST_NUMBER_FLOAT64;
    return c;
}
static pool_case half_precision(void) {
    pool_case c = ordinary(4, 45, 3);
    sharpen(&c, 1e-9);
    for (int32_t k = 0; k < 2; k++)
        for (int64_t i = 0; i < c.rows; i += 2)
            sharp_row(case_row(&c, k, i), 3, c.labels[i], 6e-8);
    c.type = CST_NUMBER_FLOAT16;
    return c;
}
static pool_case zeros_and_ones(void) {
    pool_case c = ordinary(4, 45, 3);
    sharpen(&c, 0);
    return c;
}
static pool_case always_wrong(void) {
    pool_case c = ordinary(4, 45, 3);
    for (int32_t k = 0; k < 4; k++)
        for (int64_t i = 0; i < c.rows; i++)
            sharp_row(case_row(&c, k, i), 3, (c.labels[i] + 1 + (k + (int32_t)i) % 2) % 3, 0);
    return c;
}
static pool_case truth_zero_in_some_rows(void) {
    pool_case c = ordinary(4, 45, 3);
    for (int32_t k = 0; k < 4; k++)
        for (int64_t i = 0; i < c.rows; i += 7)
            sharp_row(case_row(&c, k, i), 3, (c.labels[i] + 1) % 3, 0);
    return c;
}
static pool_case perfectly_right(void) {
    pool_case c = ordinary(4, 45, 3);
    for (int32_t k = 0; k < 4; k++)
        for (int64_t i = 0; i < c.rows; i++)
            sharp_row(case_row(&c, k, i), 3, c.labels[i], 0);
    return c;
}
static pool_case separable(void) {
    pool_case c = ordinary(5, 60, 4);
    for (int32_t k = 0; k < 5; k++)
        for (int64_t i = 0; i < c.rows; i++)
            sharp_row(case_row(&c, k, i), 4, c.labels[i], pow(10, -1 - k));
    return c;
}
static pool_case uniform(void) {
    pool_case c = ordinary(4, 40, 4);
    for (int32_t k = 0; k < 4; k++)
        for (int64_t i = 0; i < c.rows; i++)
            sharp_row(case_row(&c, k, i), 4, 0, 0.25);
    return c;
}
static pool_case constant_members(void) {
    pool_case c = ordinary(3, 40, 4);
    for (int32_t k = 0; k < 3; k++)
        for (int64_t i = 0; i < c.rows; i++)
            sharp_row(case_row(&c, k, i), 4, k, 0.1);
    return c;
}
static pool_case a_constant_member(void) {
    pool_case c = ordinary(4, 45, 3);
    for (int64_t i = 0; i < c.rows; i++)
        sharp_row(case_row(&c, 3, i), 3, 1, 0.2);
    return c;
}
static void copy_member(pool_case *c, int32_t from, int32_t to) {
    memcpy(case_row(c, to, 0), case_row(c, from, 0), case_cells(c) * sizeof *c->values);
}
static pool_case identical_members(void) {
    pool_case c = ordinary(6, 45, 3);
    for (int32_t k = 1; k < 6; k++)
        copy_member(&c, 0, k);
    return c;
}
static pool_case hundred_copies_and_two(void) {
    pool_case c = ordinary(102, 30, 3);
    for (int32_t k = 1; k < 100; k++)
        copy_member(&c, 0, k);
    return c;
}
static pool_case more_members_than_rows(void) {
    return ordinary(16, 8, 3);
}
static pool_case two_rows(void) {
    return ordinary(3, 2, 2);
}
static pool_case three_rows(void) {
    return ordinary(3, 3, 2);
}
static pool_case two_rows_in_two_folds(void) {
    pool_case c = ordinary(3, 2, 2);
    c.folds = allocate(2, sizeof *c.folds);
    c.folds[1] = 1;
    return c;
}
static pool_case one_row(void) {
    return ordinary(3, 1, 2);
}
static pool_case ten_rows(void) {
    return ordinary(3, 10, 2);
}
static pool_case two_classes(void) {
    return ordinary(4, 80, 2);
}
static pool_case one_member(void) {
    return ordinary(1, 60, 3);
}
static pool_case one_constant_member(void) {
    pool_case c = ordinary(1, 60, 3);
    for (int64_t i = 0; i < c.rows; i++)
        sharp_row(case_row(&c, 0, i), 3, 1, 0);
    return c;
}
static pool_case one_label(void) {
    pool_case c = ordinary(4, 60, 3);
    for (int64_t i = 0; i < c.rows; i++)
        c.labels[i] = 1;
    return c;
}
static pool_case one_label_of_two(void) {
    pool_case c = ordinary(4, 60, 2);
    for (int64_t i = 0; i < c.rows; i++)
        c.labels[i] = 0;
    return c;
}
static pool_case classes_that_never_occur(void) {
    pool_case c = ordinary(4, 45, 12);
    for (int64_t i = 0; i < c.rows; i++)
        c.labels[i] %= 3;
    return c;
}
static pool_case a_class_with_one_sample(void) {
    pool_case c = ordinary(4, 45, 3);
    for (int64_t i = 0; i < c.rows; i++)
        c.labels[i] = i == 31 ? 2 : (int32_t)(i % 2);
    return c;
}
static pool_case folds_that_miss_a_class(void) {
    pool_case c = ordinary(4, 45, 3);
    c.folds = allocate(45, sizeof *c.folds);
    for (int64_t i = 0; i < c.rows; i++)
        c.folds[i] = c.labels[i]; /* each class lives in one fold */
    return c;
}
static pool_case duplicated_rows(void) {
    pool_case c = ordinary(4, 45, 3);
    for (int32_t k = 0; k < 4; k++)
        for (int64_t i = 3; i < c.rows; i++)
            memcpy(case_row(&c, k, i), case_row(&c, k, i % 3), 3 * sizeof *c.values);
    return c;
}
static pool_case equal_rows(void) {
    pool_case c = ordinary(3, 600, 3);
    for (int32_t k = 0; k < 3; k++)
        for (int64_t i = 1; i < c.rows; i++)
            memcpy(case_row(&c, k, i), case_row(&c, k, 0), 3 * sizeof *c.values);
    return c;
}
static pool_case logits(double scale) {
    pool_case c = ordinary(4, 45, 3);
    for (size_t i = 0; i < 4 * case_cells(&c); i++)
        c.values[i] = log(c.values[i]) * scale;
    c.output = CST_OUTPUT_LOGIT;
    c.type = CST_NUMBER_FLOAT64;
    return c;
}
static pool_case huge_logits(void) {
    return logits(1e30);
}
static pool_case largest_logits(void) {
    pool_case c = logits(1);
    for (size_t i = 0; i < 4 * case_cells(&c); i++)
        c.values[i] = i % 3 == 1 ? -1.7e308 : i % 5 == 1 ? 1.7e308 : c.values[i];
    return c;
}
static pool_case tiny_logits(void) {
    return logits(1e-30);
}
static pool_case weighted(double low, double high) {
    pool_case c = ordinary(4, 45, 3);
    c.weights = allocate((size_t)c.rows, sizeof *c.weights);
    for (int64_t i = 0; i < c.rows; i++)
        c.weights[i] = i % 2 ? low : high;
    return c;
}
static pool_case tiny_weights(void) {
    return weighted(1e-300, 3e-300);
}
static pool_case huge_weights(void) {
    return weighted(1e300, 1e308);
}
static pool_case weights_of_every_size(void) {
    return weighted(1e-300, 1e300);
}
static pool_case denormal_weights(void) {
    return weighted(5e-324, 1e-320);
}
static pool_case weight_on_one_row(void) {
    pool_case c = weighted(0, 0);
    c.weights[7] = 1;
    return c;
}
static pool_case no_weight_on_a_class(void) {
    pool_case c = weighted(1, 2);
    for (int64_t i = 0; i < c.rows; i++)
        c.weights[i] = c.labels[i] == 2 ? 0 : c.weights[i];
    return c;
}
static pool_case a_hundred_thousand_classes(void) {
    return ordinary(3, 40, 100000);
}

/* Who refuses a pool: every fit and comparison, the linear presets paper and prototype (comparisons
 * leave them out), or what fits without a fold: nested fits, comparisons and those presets. */
typedef enum refusal { NOBODY, EVERYBODY, LINEAR, NESTED } refusal;

typedef struct edge {
    const char *name;
    pool_case (*make)(void);
    refusal refusal;
    const char *why; /* part of the refusal */
    bool compared;   /* also where the first argument is not "long" */
} edge;

#define EDGE(pool)                                                                                 \
    { .name = #pool, .make = (pool) }
#define COMPARED(pool)                                                                             \
    { .name = #pool, .make = (pool), .compared = true }
#define REFUSED(pool, by, text)                                                                    \
    { .name = #pool, .make = (pool), .refusal = (by), .why = (text) }
static const edge EDGES[] = {
    EDGE(denormals),
    EDGE(denormals_of_float64),
    EDGE(half_precision),
    COMPARED(zeros_and_ones),
    EDGE(always_wrong),
    EDGE(truth_zero_in_some_rows),
    EDGE(perfectly_right),
    EDGE(separable),
    REFUSED(uniform, LINEAR, "nothing to fit"),
    COMPARED(constant_members),
    EDGE(a_constant_member),
    EDGE(identical_members),
    EDGE(hundred_copies_and_two),
    EDGE(more_members_than_rows),
    REFUSED(one_row, EVERYBODY, "1 rows cannot be spread over 5 folds"),
    REFUSED(two_rows, EVERYBODY, "2 rows cannot be spread over 5 folds"),
    REFUSED(three_rows, EVERYBODY, "3 rows cannot be spread over 5 folds"),
    REFUSED(two_rows_in_two_folds, NESTED, "1 rows cannot be spread over 2 folds"),
    EDGE(ten_rows),
    EDGE(two_classes),
    COMPARED(one_member),
    COMPARED(one_constant_member),
    COMPARED(one_label),
    EDGE(one_label_of_two),
    EDGE(classes_that_never_occur),
    COMPARED(a_class_with_one_sample),
    EDGE(folds_that_miss_a_class),
    EDGE(duplicated_rows),
    EDGE(equal_rows),
    EDGE(huge_logits),
    COMPARED(largest_logits),
    REFUSED(tiny_logits, LINEAR, "nothing to fit"),
    EDGE(tiny_weights),
    EDGE(huge_weights),
    COMPARED(weights_of_every_size),
    EDGE(denormal_weights),
    REFUSED(weight_on_one_row, EVERYBODY, "1 rows cannot be spread over 5 folds"),
    EDGE(no_weight_on_a_class),
    EDGE(a_hundred_thousand_classes), /* the last one: with "long" alone, preset default */
};
enum { EDGE_COUNT = sizeof EDGES / sizeof EDGES[0] };

static bool is_large(const edge *e) {
    return e == &EDGES[EDGE_COUNT - 1];
}

/* ---- tests --------------------------------------------------------------------------------------
 */

static void expect(bool ok, const char *what, const verdict *v) {
    if (!ok)
        print_error("%s: %s\n", what, v->text);
    assert_true(ok);
}

/* A fit or comparison ends as it should. */
static void expect_end(const cst_context *context, cst_status status, bool refused,
                       const char *why) {
    if (status != (refused ? CST_ERROR_INPUT : CST_OK))
        print_error("%s: %s\n", cst_status_name(status), cst_last_error(context));
    assert_int_equal(status, refused ? CST_ERROR_INPUT : CST_OK);
    if (refused)
        assert_non_null(strstr(cst_last_error(context), why));
}

static void fits(void **state) {
    static const char *const presets[] = {"default", "paper", "prototype"};
    const edge *e = *state;
    cst_context *context = NULL;
    cst_pool *pool = NULL;
    pool_case c = e->make();
    verdict v = {""};
    assert_int_equal(cst_context_create(&context), CST_OK);
    assert_int_equal(make_pool(context, &c, &pool), CST_OK);
    for (int p = 0; p < (is_large(e) ? 1 : 3); p++)
        for (int nested = 0; nested < 2; nested++) {
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

static void compares(void **state) {
    static const char *const methods[] = {
        "all",
        "default+temperature",
        "default+vector",
        "default+isotonic",
        "default+platt",
        "average+temperature",
        "best-single+vector",
        "average+isotonic",
        "best-single+platt",
    };
    const edge *e = *state;
    cst_context *context = NULL;
    cst_pool *pool = NULL;
    pool_case c = e->make();
    verdict v = {""};
    cst_status status = CST_OK;
    assert_int_equal(cst_context_create(&context), CST_OK);
    assert_int_equal(make_pool(context, &c, &pool), CST_OK);
    expect(compare_is_sound(context, pool, methods, c.weights ? 1 : 9, &status, &v), e->name, &v);
    expect_end(context, status, e->refusal == EVERYBODY || e->refusal == NESTED, e->why);
    cst_pool_free(context, pool);
    free_case(&c);
    cst_context_free(context);
}

int main(int argc, char **argv) {
    bool all = argc > 1 && strcmp(argv[1], "long") == 0;
    struct CMUnitTest tests[2 * EDGE_COUNT];
    size_t count = 0;
    for (size_t i = 0; i < EDGE_COUNT; i++) {
        if (is_large(&EDGES[i]) && !all)
            continue;
        void *state = (void *)(uintptr_t)&EDGES[i];
        tests[count++] = (struct CMUnitTest){EDGES[i].name, fits, NULL, NULL, state};
        if (all ? !is_large(&EDGES[i]) : EDGES[i].compared)
            tests[count++] = (struct CMUnitTest){EDGES[i].name, compares, NULL, NULL, state};
    }
    return _cmocka_run_group_tests("numbers", tests, count, NULL, NULL);
}
