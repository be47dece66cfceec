/*
 * Random pools from a seed, and the same pool rearranged: members, rows or classes in another
 * order, a member twice, other types and layouts. For tests/api/properties.c.
 */
#ifndef CST_TEST_RANDOM_CASE_H
#define CST_TEST_RANDOM_CASE_H

#include "pool_case.h"

static inline double between(cst_rng *rng, double low, double high) {
    return low + (high - low) * cst_rng_uniform(rng);
}

static inline bool chance(cst_rng *rng, double p) {
    return cst_rng_uniform(rng) < p;
}

/* Seeded order of 0..count-1; the caller's. */
static inline int64_t *random_order(cst_rng *rng, int64_t count) {
    int64_t *order = allocate((size_t)count, sizeof *order);
    for (int64_t i = 0; i < count; i++)
        order[i] = i;
    cst_rng_shuffle(rng, order, count);
    return order;
}

/* To float32, to which every row of a pool goes, and in a way that its type holds exactly. */
static inline void round_values(pool_case *c) {
    for (size_t i = 0; i < (size_t)c->members * case_cells(c); i++)
        c->values[i] = (double)(float)c->values[i];
}

/* ---- classification ---- */

static inline void random_row(cst_rng *rng, double sharpness, double skill, double zeros,
                              int32_t label, int32_t classes, double *row) {
    double top = -INFINITY;
    double sum = 0;
    for (int32_t j = 0; j < classes; j++) {
        row[j] = sharpness * (cst_rng_normal(rng) + (j == label ? skill : 0));
        top = fmax(top, row[j]);
    }
    for (int32_t j = 0; j < classes; j++) {
        row[j] = exp(row[j] - top); /* the largest is 1 */
        if (row[j] < 1 && chance(rng, zeros))
            row[j] = 0;
        sum += row[j];
    }
    for (int32_t j = 0; j < classes; j++)
        row[j] /= sum;
}

static inline void random_member(cst_rng *rng, pool_case *c, int32_t k) {
    double sharpness = exp(between(rng, -1.5, 2.5));
    double skill = chance(rng, 0.15) ? 0 : between(rng, 0.2, 3); /* 0: noise */
    double zeros = chance(rng, 0.2) ? between(rng, 0, 0.9) : 0;
    if (k > 0 && chance(rng, 0.12)) { /* a copy */
        int32_t of = (int32_t)cst_rng_below(rng, k);
        memcpy(case_row(c, k, 0), case_row(c, of, 0), case_cells(c) * sizeof *c->values);
        return;
    }
    bool constant = chance(rng, 0.05);
    for (int64_t i = 0; i < c->rows; i++) {
        if (constant && i > 0)
            memcpy(case_row(c, k, i), case_row(c, k, 0), (size_t)c->classes * sizeof(double));
        else
            random_row(rng, sharpness, skill, zeros, c->labels[i], c->classes, case_row(c, k, i));
    }
}

static inline void random_folds(cst_rng *rng, pool_case *c) {
    int64_t count = 2 + cst_rng_below(rng, 4);
    int64_t *order = random_order(rng, c->rows);
    c->folds = allocate((size_t)c->rows, sizeof *c->folds);
    for (int64_t i = 0; i < c->rows; i++)
        c->folds[order[i]] = i % count;
    free(order);
}

/* Weights of rows: whole numbers, some of them 0, or over some orders of magnitude. */
static inline void random_weights(cst_rng *rng, pool_case *c) {
    double spread = chance(rng, 0.5) ? 0 : between(rng, 0.1, 4);
    c->weights = allocate((size_t)c->rows, sizeof *c->weights);
    for (int64_t i = 0; i < c->rows; i++)
        c->weights[i] =
            spread > 0 ? exp(spread * cst_rng_normal(rng)) : (double)(cst_rng_below(rng, 4));
    c->weights[0] = 1;
}

static inline int64_t fold_count(const pool_case *c) {
    int64_t most = 0;
    for (int64_t i = 0; i < c->rows; i++)
        most = c->folds[i] > most ? c->folds[i] : most;
    return most + 1;
}

static inline pool_case random_classes(cst_rng *rng) {
    int32_t classes = chance(rng, 0.25) ? 2 : (int32_t)(2 + cst_rng_below(rng, 7));
    if (chance(rng, 0.05))
        classes = (int32_t)(10 + cst_rng_below(rng, 40));
    pool_case c =
        new_case((int32_t)(1 + cst_rng_below(rng, 8)), 20 + cst_rng_below(rng, 140), classes);
    double noise = chance(rng, 0.5) ? 0 : between(rng, 0, 0.5);
    double skew = chance(rng, 0.5) ? 1 : between(rng, 1, 4);
    for (int64_t i = 0; i < c.rows; i++)
        c.labels[i] = (int32_t)(pow(cst_rng_uniform(rng), skew) * classes);
    for (int32_t k = 0; k < c.members; k++)
        random_member(rng, &c, k);
    for (int64_t i = 0; i < c.rows; i++)
        if (chance(rng, noise))
            c.labels[i] = (int32_t)cst_rng_below(rng, classes);
    random_folds(rng, &c);
    if (chance(rng, 0.25))
        random_weights(rng, &c);
    round_values(&c);
    c.type = chance(rng, 0.5) ? CST_NUMBER_FLOAT64 : CST_NUMBER_FLOAT32;
    c.fortran = chance(rng, 0.3);
    return c;
}

/* ---- regression ---- */

static inline pool_case random_values(cst_rng *rng) {
    pool_case c = new_case((int32_t)(1 + cst_rng_below(rng, 8)), 20 + cst_rng_below(rng, 140),
                           (int32_t)(1 + cst_rng_below(rng, 3)));
    c.task = CST_TASK_REGRESSION;
    c.targets = allocate(case_cells(&c), sizeof *c.targets);
    for (int32_t j = 0; j < c.classes; j++) {
        double unit = pow(10, between(rng, -6, 6));
        double origin = chance(rng, 0.5) ? 0 : unit * between(rng, -30, 30);
        bool constant = chance(rng, 0.05);
        for (int64_t i = 0; i < c.rows; i++)
            c.targets[i * c.classes + j] = origin + (constant ? 0 : unit * cst_rng_normal(rng));
        for (int32_t k = 0; k < c.members; k++) {
            double error = unit * exp(between(rng, -3, 1.5));
            double slope = chance(rng, 0.15) ? 0 : between(rng, 0.5, 1.2);
            int32_t of = k > 0 && chance(rng, 0.12) ? (int32_t)cst_rng_below(rng, k) : k;
            for (int64_t i = 0; i < c.rows; i++)
                case_row(&c, k, i)[j] =
                    of < k ? case_row(&c, of, i)[j]
                           : origin + slope * (c.targets[i * c.classes + j] - origin) +
                                 error * cst_rng_normal(rng);
        }
    }
    random_folds(rng, &c);
    if (chance(rng, 0.25))
        random_weights(rng, &c);
    round_values(&c);
    c.type = chance(rng, 0.5) ? CST_NUMBER_FLOAT64 : CST_NUMBER_FLOAT32;
    c.fortran = chance(rng, 0.3);
    return c;
}

/* ---- the same pool in another order ---- */

/* Member k of the result is member members[k] (NULL: k), and so for rows and classes. `count`:
 * members of the result. */
static inline pool_case rearranged(const pool_case *c, const int64_t *members, int32_t count,
                                   const int64_t *rows, const int64_t *classes) {
    pool_case out = new_case(count, c->rows, c->classes);
    out.task = c->task;
    out.output = c->output;
    out.type = c->type;
    out.fortran = c->fortran;
    out.folds = allocate((size_t)c->rows, sizeof *out.folds);
    if (c->weights)
        out.weights = allocate((size_t)c->rows, sizeof *out.weights);
    if (c->targets)
        out.targets = allocate(case_cells(c), sizeof *out.targets);
    int32_t *inverse = allocate((size_t)c->classes, sizeof *inverse);
    for (int32_t j = 0; j < c->classes; j++)
        inverse[classes ? classes[j] : j] = j;
    for (int64_t i = 0; i < c->rows; i++) {
        int64_t from = rows ? rows[i] : i;
        out.folds[i] = c->folds[from];
        if (c->weights)
            out.weights[i] = c->weights[from];
        out.labels[i] = inverse[c->labels[from]];
        for (int32_t j = 0; j < c->classes; j++) {
            int64_t column = classes ? classes[j] : j;
            if (c->targets)
                out.targets[i * c->classes + j] = c->targets[from * c->classes + column];
            for (int32_t k = 0; k < count; k++)
                case_row(&out, k, i)[j] =
                    case_row(c, (int32_t)(members ? members[k] : k), from)[column];
        }
    }
    for (int32_t k = 0; members && k < count; k++)
        memcpy(out.names[k], c->names[members[k]], sizeof out.names[k]);
    free(inverse);
    return out;
}

#endif
