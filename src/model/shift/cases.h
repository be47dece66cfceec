/* How unlike the cases of a fit a case is: an image or a volume, some of whose pixels are measured.
 * They are far from independent, so a case is a single observation. docs/segmentation.md#guard. */
#pragma once

#include "data/pool/view.h"
#include "model/shift/novelty.h"

struct cst_cases; /* data/pool/spatial.h */

enum {
    CST_CASES_MIN = 8,      /* cases of a fit, at least, for a test */
    CST_CASE_PIXELS = 1024, /* of a case that are measured, at most */
    CST_CASE_PARTS = 2,
    CST_CASES_TOGETHER = 10 /* of a prediction, at least, to be judged together */
};

/* The level below which a case is unlike the fit. Cases of the same kind as those of the fit have
 * such a level about once in 120 times: docs/segmentation.md#guard. */
#define CST_CASE_ALARMS 0.005
/* The share of the cases of a prediction that are further away than nearly all of the fit (level
 * below 1) from which on all of them are unlike the fit. */
#define CST_CASES_UNLIKE 0.4
/* The weight of the average is at most this: part of the stack is better than none under shift. */
#define CST_CASE_LAMBDA_MAX 0.75

/* Some of the numbers that are measured of a case, and how far cases are from their means. */
typedef struct cst_case_part {
    int32_t size;
    double *mean;  /* [size] */
    double *scale; /* [size]: standard deviations, and a little more */
    double center; /* mean of the logarithms of the distances of the cases of the fit */
    double spread; /* their standard deviation */
    double limit;  /* which one in a hundred of them reach, or one where there are fewer */
} cst_case_part;

/* The cases of a fit. The first part is how sure the members are (J, and the members' entropies),
 * the second the shares of the classes in their average. */
typedef struct cst_novelty_cases {
    int32_t cases;
    cst_case_part part[CST_CASE_PARTS];
} cst_novelty_cases;

/* Numbers that are measured of a case. */
int32_t cst_case_numbers(const cst_novelty *novelty);
/* Numbers of part `part` of them. */
static inline int32_t cst_case_part_size(const cst_novelty *novelty, int part) {
    return part == 0 ? 1 + novelty->size : novelty->classes;
}

/* Measures the case of rows first..first+rows-1 of a view of the kept members (without an index).
 * novelty: of the pixels, which says the members of the distance. out: [numbers]; NaN for what
 * absent members would say. */
cst_status cst_case_measure(cst_context *worker, const cst_novelty *novelty, const cst_view *kept,
                            int64_t first, int64_t rows, double *out);

/* The reference of measured cases [cases][numbers]. folds: [cases], 0..fold_count-1, so that no
 * case's distance is measured with itself. *out is NULL, without an error, where there are fewer
 * than CST_CASES_MIN cases or they tell nothing. */
cst_status cst_novelty_cases_fit(cst_context *context, cst_scope *scope, const cst_novelty *novelty,
                                 const double *numbers, int32_t cases, const int32_t *folds,
                                 int32_t fold_count, cst_novelty_cases **out);

/* The reference of the cases of a split, of a view of the kept members; cases that belong together
 * (groups) are in one fold. */
cst_status cst_cases_reference(cst_context *context, cst_scope *scope, const cst_novelty *novelty,
                               const cst_view *kept, const struct cst_cases *cases,
                               cst_novelty_cases **out);

/* The level of a measured case: the chance of one so unlike the fit among cases like those of the
 * fit; 1 where nothing is known of it. */
double cst_case_level(const cst_novelty_cases *reference, const double *numbers);

/* How far cases of these levels [cases] are to lean on the average, lambda [cases]: each by itself
 * from CST_CASE_ALARMS down; where CST_CASES_UNLIKE of CST_CASES_TOGETHER or more are far away,
 * these as far as may be, the others as far as that share says. */
void cst_cases_lambda(const double *level, int64_t cases, double *lambda);
