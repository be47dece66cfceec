/*
 * Folds: which rows are held out together. Made here when a pool brings none (a frozen pool), and
 * checked when it does. Paper: the stratified L-fold partition of the out-of-fold matrix; method.md
 * section 0.
 */
#ifndef CORESTACK_FOLDS_H
#define CORESTACK_FOLDS_H

#include <corestack/context.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Stratified folds: in every class, and over all rows, the folds' counts differ by at most one.
 * labels: [rows], >= 0. out: [rows], gets 0..folds-1; the same for the same labels, folds and seed.
 * A class with fewer rows than folds is spread over some of them, with a notice that names it.
 * CST_ERROR_ARGUMENT for folds < 2, CST_ERROR_INPUT for fewer rows than folds or a negative label.
 */
CST_API cst_status cst_folds_stratified(cst_context *context, const int32_t *labels, int64_t rows,
                                        int32_t folds, uint64_t seed, int32_t *out);

/* Folds that keep the rows of one group together: groups (any ids, [rows]) are placed one by one,
 * largest first and in seeded order among equals, each into the fold that leaves the classes spread
 * most evenly (least mean over classes of the standard deviation of the folds' shares). No fold is
 * empty. CST_ERROR_INPUT for fewer groups than folds. */
CST_API cst_status cst_folds_grouped(cst_context *context, const int32_t *labels,
                                     const int64_t *groups, int64_t rows, int32_t folds,
                                     uint64_t seed, int32_t *out);

/* Folds for a regression. targets: [rows][outputs], finite. Rows are ranked by their target (of
 * several outputs by the sum of the targets in standard deviations from their means), and stretches
 * of as many neighbours as there are folds take the place of classes in cst_folds_stratified;
 * groups ([rows], or NULL) are kept together as by cst_folds_grouped, over ten stretches. Errors as
 * there. */
CST_API cst_status cst_folds_quantile(cst_context *context, const double *targets, int32_t outputs,
                                      const int64_t *groups, int64_t rows, int32_t folds,
                                      uint64_t seed, int32_t *out);

/* Checks a given fold vector [rows], numbered 0..L-1. CST_ERROR_INPUT for a negative fold, a
 * number in 0..L-1 that no row has, or fewer than two folds. Notices for classes that some fold
 * lacks, and for classes that live in one fold only, which no fit that leaves it out can learn.
 * labels may be NULL, in which case only the numbering is checked. */
CST_API cst_status cst_folds_check(cst_context *context, const int32_t *folds,
                                   const int32_t *labels, int64_t rows);

#ifdef __cplusplus
}
#endif
#endif
