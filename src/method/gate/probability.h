/* Scores of a linear meta-learner become probabilities. docs/method.md#s4-blend, "Linear scores
 * become probabilities". */
#ifndef CST_LEARNERS_PROBABILITY_H
#define CST_LEARNERS_PROBABILITY_H

#include "core/base.h"

typedef enum cst_probability_map {
    CST_PROBABILITY_CLIP = 0,    /* clip to [1e-6, 1], divide by the sum */
    CST_PROBABILITY_SIMPLEX = 1, /* nearest point of the simplex, then as above */
    CST_PROBABILITY_MIXTURE = 2, /* unchanged: the scores are a mixture of probabilities */
    CST_PROBABILITY_FINE = 3     /* clip to [1e-15, 1 - 1e-15], divide by the sum */
} cst_probability_map;

/* The smallest value before renormalising, which keeps logarithms finite. */
#define CST_PROBABILITY_FLOOR 1e-6
/* That of CST_PROBABILITY_FINE, and how far the largest is below 1. */
#define CST_PROBABILITY_FINE_FLOOR 1e-15

/* In place, row by row: scores [count][classes]. With one class (regression) nothing is changed. */
void cst_probability_rows(cst_probability_map map, int64_t count, int32_t classes, double *scores);

/* Euclidean projection of one row onto {p >= 0, sum p = 1}, in place. */
void cst_simplex_project(int32_t classes, double *row);

#endif
