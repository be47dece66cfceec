/*
 * What the tests of the meta-design share: contexts, closeness, random pools.
 */
#ifndef META_CHECK_H
#define META_CHECK_H

#include "core/base.h"
#include "core/la.h"
#include "data/pool/view.h"

#include "check.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static inline void assert_all_close(const double *actual, const double *expected, size_t count,
                                    double relative, double floor) {
    for (size_t i = 0; i < count; i++)
        assert_relative(actual[i], expected[i], relative, floor);
}

/* A pool whose members see the label through noise: softmax(sharpness * (truth + noise)), member 0
 * the best. */
typedef struct random_pool {
    float *values;
    const float **members;
    int32_t *labels;
    cst_view view;
} random_pool;

static inline random_pool make_pool(uint64_t seed, int64_t rows, int32_t classes, int32_t members,
                                    double sharpness) {
    random_pool p;
    size_t cells = (size_t)rows * (size_t)classes;
    p.values = malloc(cells * (size_t)members * sizeof *p.values);
    p.members = malloc((size_t)members * sizeof *p.members);
    p.labels = malloc((size_t)rows * sizeof *p.labels);
    double *truth = malloc(cells * sizeof *truth);
    double *scores = malloc((size_t)classes * sizeof *scores);
    assert_true(p.values && p.members && p.labels && truth && scores);
    cst_rng rng;
    cst_rng_init(&rng, seed, CST_STREAM_TEST, 0);
    for (int64_t i = 0; i < rows; i++) {
        p.labels[i] = 0;
        for (int32_t c = 0; c < classes; c++) {
            truth[i * classes + c] = cst_rng_normal(&rng);
            if (truth[i * classes + c] > truth[i * classes + p.labels[i]])
                p.labels[i] = c;
        }
    }
    for (int32_t k = 0; k < members; k++) {
        float *out = p.values + (size_t)k * cells;
        p.members[k] = out;
        for (int64_t i = 0; i < rows; i++) {
            double sum = 0;
            for (int32_t c = 0; c < classes; c++) {
                double noise = (0.5 + 0.1 * k) * cst_rng_normal(&rng);
                scores[c] = exp(sharpness * (truth[i * classes + c] + noise));
                sum += scores[c];
            }
            for (int32_t c = 0; c < classes; c++)
                out[i * classes + c] = (float)(scores[c] / sum);
        }
    }
    free(truth);
    free(scores);
    p.view = (cst_view){.rows = rows,
                        .classes = classes,
                        .members = members,
                        .data = p.members,
                        .labels = p.labels,
                        .index = NULL};
    return p;
}

static inline void free_pool(random_pool *p) {
    free(p->values);
    free(p->members);
    free(p->labels);
}

#endif
