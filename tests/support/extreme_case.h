/*
 * Pools of extreme numbers, each by a function without arguments: probabilities at and below what
 * floating point holds, degenerate members, rows, labels, folds and weights. For
 * tests/api/numbers.c.
 */
#ifndef CST_TEST_EXTREME_CASE_H
#define CST_TEST_EXTREME_CASE_H

#include "pool_case.h"

/* ---- how pools are made ---- */

/* Softmax of noise plus `skill` on the label. */
static inline void noisy_row(cst_rng *rng, double skill, int32_t label, int32_t classes,
                             double *out) {
    double sum = 0;
    for (int32_t j = 0; j < classes; j++) {
        out[j] = exp(cst_rng_normal(rng) + (j == label ? skill : 0));
        sum += out[j];
    }
    for (int32_t j = 0; j < classes; j++)
        out[j] /= sum;
}

/* Labels in turn, members of skill 1, 1.5, 2, ... */
static inline pool_case ordinary(int32_t members, int64_t rows, int32_t classes) {
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
static inline void sharp_row(double *row, int32_t classes, int32_t top, double rest) {
    for (int32_t j = 0; j < classes; j++)
        row[j] = j == top ? 1 - rest * (classes - 1) : rest;
}

static inline void sharpen(pool_case *c, double rest) {
    for (int32_t k = 0; k < c->members; k++)
        for (int64_t i = 0; i < c->rows; i++) {
            double *row = case_row(c, k, i);
            int32_t top = 0;
            for (int32_t j = 1; j < c->classes; j++)
                top = row[j] > row[top] ? j : top;
            sharp_row(row, c->classes, top, rest);
        }
}

static inline pool_case denormals(void) {
    pool_case c = ordinary(4, 45, 3);
    sharpen(&c, 1e-45);
    return c;
}
static inline pool_case denormals_of_float64(void) {
    pool_case c = ordinary(4, 45, 3);
    sharpen(&c, 5e-324);
    c.type = CST_NUMBER_FLOAT64;
    return c;
}
static inline pool_case half_precision(void) {
    pool_case c = ordinary(4, 45, 3);
    sharpen(&c, 1e-9);
    for (int32_t k = 0; k < 2; k++)
        for (int64_t i = 0; i < c.rows; i += 2)
            sharp_row(case_row(&c, k, i), 3, c.labels[i], 6e-8);
    c.type = CST_NUMBER_FLOAT16;
    return c;
}
static inline pool_case zeros_and_ones(void) {
    pool_case c = ordinary(4, 45, 3);
    sharpen(&c, 0);
    return c;
}
static inline pool_case always_wrong(void) {
    pool_case c = ordinary(4, 45, 3);
    for (int32_t k = 0; k < 4; k++)
        for (int64_t i = 0; i < c.rows; i++)
            sharp_row(case_row(&c, k, i), 3, (c.labels[i] + 1 + (k + (int32_t)i) % 2) % 3, 0);
    return c;
}
static inline pool_case truth_zero_in_some_rows(void) {
    pool_case c = ordinary(4, 45, 3);
    for (int32_t k = 0; k < 4; k++)
        for (int64_t i = 0; i < c.rows; i += 7)
            sharp_row(case_row(&c, k, i), 3, (c.labels[i] + 1) % 3, 0);
    return c;
}
static inline pool_case perfectly_right(void) {
    pool_case c = ordinary(4, 45, 3);
    for (int32_t k = 0; k < 4; k++)
        for (int64_t i = 0; i < c.rows; i++)
            sharp_row(case_row(&c, k, i), 3, c.labels[i], 0);
    return c;
}
static inline pool_case separable(void) {
    pool_case c = ordinary(5, 60, 4);
    for (int32_t k = 0; k < 5; k++)
        for (int64_t i = 0; i < c.rows; i++)
            sharp_row(case_row(&c, k, i), 4, c.labels[i], pow(10, -1 - k));
    return c;
}
static inline pool_case uniform(void) {
    pool_case c = ordinary(4, 40, 4);
    for (int32_t k = 0; k < 4; k++)
        for (int64_t i = 0; i < c.rows; i++)
            sharp_row(case_row(&c, k, i), 4, 0, 0.25);
    return c;
}
static inline pool_case constant_members(void) {
    pool_case c = ordinary(3, 40, 4);
    for (int32_t k = 0; k < 3; k++)
        for (int64_t i = 0; i < c.rows; i++)
            sharp_row(case_row(&c, k, i), 4, k, 0.1);
    return c;
}
static inline pool_case a_constant_member(void) {
    pool_case c = ordinary(4, 45, 3);
    for (int64_t i = 0; i < c.rows; i++)
        sharp_row(case_row(&c, 3, i), 3, 1, 0.2);
    return c;
}
static inline void copy_member(pool_case *c, int32_t from, int32_t to) {
    memcpy(case_row(c, to, 0), case_row(c, from, 0), case_cells(c) * sizeof *c->values);
}
static inline pool_case identical_members(void) {
    pool_case c = ordinary(6, 45, 3);
    for (int32_t k = 1; k < 6; k++)
        copy_member(&c, 0, k);
    return c;
}
static inline pool_case forty_copies_and_two(void) {
    pool_case c = ordinary(42, 30, 3);
    for (int32_t k = 1; k < 40; k++)
        copy_member(&c, 0, k);
    return c;
}
static inline pool_case more_members_than_rows(void) {
    return ordinary(16, 8, 3);
}
static inline pool_case two_rows(void) {
    return ordinary(3, 2, 2);
}
static inline pool_case three_rows(void) {
    return ordinary(3, 3, 2);
}
static inline pool_case two_rows_in_two_folds(void) {
    pool_case c = ordinary(3, 2, 2);
    c.folds = allocate(2, sizeof *c.folds);
    c.folds[1] = 1;
    return c;
}
static inline pool_case one_row(void) {
    return ordinary(3, 1, 2);
}
static inline pool_case ten_rows(void) {
    return ordinary(3, 10, 2);
}
static inline pool_case two_classes(void) {
    return ordinary(4, 80, 2);
}
static inline pool_case one_member(void) {
    return ordinary(1, 60, 3);
}
static inline pool_case one_constant_member(void) {
    pool_case c = ordinary(1, 60, 3);
    for (int64_t i = 0; i < c.rows; i++)
        sharp_row(case_row(&c, 0, i), 3, 1, 0);
    return c;
}
static inline pool_case one_label(void) {
    pool_case c = ordinary(4, 60, 3);
    for (int64_t i = 0; i < c.rows; i++)
        c.labels[i] = 1;
    return c;
}
static inline pool_case one_label_of_two(void) {
    pool_case c = ordinary(4, 60, 2);
    for (int64_t i = 0; i < c.rows; i++)
        c.labels[i] = 0;
    return c;
}
static inline pool_case classes_that_never_occur(void) {
    pool_case c = ordinary(4, 45, 12);
    for (int64_t i = 0; i < c.rows; i++)
        c.labels[i] %= 3;
    return c;
}
static inline pool_case a_class_with_one_sample(void) {
    pool_case c = ordinary(4, 45, 3);
    for (int64_t i = 0; i < c.rows; i++)
        c.labels[i] = i == 31 ? 2 : (int32_t)(i % 2);
    return c;
}
static inline pool_case folds_that_miss_a_class(void) {
    pool_case c = ordinary(4, 45, 3);
    c.folds = allocate(45, sizeof *c.folds);
    for (int64_t i = 0; i < c.rows; i++)
        c.folds[i] = c.labels[i]; /* each class lives in one fold */
    return c;
}
static inline pool_case duplicated_rows(void) {
    pool_case c = ordinary(4, 45, 3);
    for (int32_t k = 0; k < 4; k++)
        for (int64_t i = 3; i < c.rows; i++)
            memcpy(case_row(&c, k, i), case_row(&c, k, i % 3), 3 * sizeof *c.values);
    return c;
}
static inline pool_case equal_rows(void) {
    pool_case c = ordinary(3, 600, 3);
    for (int32_t k = 0; k < 3; k++)
        for (int64_t i = 1; i < c.rows; i++)
            memcpy(case_row(&c, k, i), case_row(&c, k, 0), 3 * sizeof *c.values);
    return c;
}
static inline pool_case logits(double scale) {
    pool_case c = ordinary(4, 45, 3);
    for (size_t i = 0; i < 4 * case_cells(&c); i++)
        c.values[i] = log(c.values[i]) * scale;
    c.output = CST_OUTPUT_LOGIT;
    c.type = CST_NUMBER_FLOAT64;
    return c;
}
static inline pool_case huge_logits(void) {
    return logits(1e30);
}
static inline pool_case largest_logits(void) {
    pool_case c = logits(1);
    for (size_t i = 0; i < 4 * case_cells(&c); i++)
        c.values[i] = i % 3 == 1 ? -1.7e308 : i % 5 == 1 ? 1.7e308 : c.values[i];
    return c;
}
static inline pool_case tiny_logits(void) {
    return logits(1e-30);
}
static inline pool_case weighted(double low, double high) {
    pool_case c = ordinary(4, 45, 3);
    c.weights = allocate((size_t)c.rows, sizeof *c.weights);
    for (int64_t i = 0; i < c.rows; i++)
        c.weights[i] = i % 2 ? low : high;
    return c;
}
static inline pool_case tiny_weights(void) {
    return weighted(1e-300, 3e-300);
}
static inline pool_case huge_weights(void) {
    return weighted(1e300, 1e308);
}
static inline pool_case weights_of_every_size(void) {
    return weighted(1e-300, 1e300);
}
static inline pool_case denormal_weights(void) {
    return weighted(5e-324, 1e-320);
}
static inline pool_case weight_on_one_row(void) {
    pool_case c = weighted(0, 0);
    c.weights[7] = 1;
    return c;
}
static inline pool_case no_weight_on_a_class(void) {
    pool_case c = weighted(1, 2);
    for (int64_t i = 0; i < c.rows; i++)
        c.weights[i] = c.labels[i] == 2 ? 0 : c.weights[i];
    return c;
}
static inline pool_case a_hundred_thousand_classes(void) {
    return ordinary(3, 40, 100000);
}

#endif
