/* Folds: which rows are held out together. Made here when a pool brings none (a frozen pool), and
 * checked when it does. Paper: the stratified L-fold partition of the out-of-fold matrix;
 * docs/method.md#s0-rows-folds-ids. */
#ifndef CORESTACK_FOLDS_H
#define CORESTACK_FOLDS_H

#include <corestack/context.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Makes stratified folds: in every class, and over all rows, the fold sizes differ by at most one.
 * labels: [rows], >= 0. out: [rows], receives 0..folds-1. The same labels, folds and seed give the
 * same result. A class with fewer rows than folds is spread over some of them, with a notice that
 * names it. CST_ERROR_ARGUMENT for folds < 2, CST_ERROR_INPUT for fewer rows than folds or a
 * negative label. */
CST_API cst_status cst_folds_stratified(cst_context *context, const int32_t *labels, int64_t rows,
                                        int32_t folds, uint64_t seed, int32_t *out);

/* Makes folds in time: rows are cut into folds + 1 blocks of similar size that follow one another,
 * 0 to `folds`; block 0 is only fitted on. order: [rows], a smaller number is earlier, rows of
 * equal ones stay together; NULL: the order of the rows. out: [rows]. CST_ERROR_INPUT for fewer
 * different times than blocks. */
CST_API cst_status cst_folds_time(cst_context *context, const int64_t *order, int64_t rows,
                                  int32_t folds, int32_t *out);

/* Makes stratified folds that keep the rows of a group together. groups: [rows], any ids. Groups
 * are placed one by one, largest first (ties in seeded order), each into the fold that keeps the
 * class distribution most even: the lowest mean over classes of the standard deviation of the fold
 * shares. No fold is empty. CST_ERROR_INPUT for fewer groups than folds; other arguments and errors
 * as cst_folds_stratified. */
CST_API cst_status cst_folds_grouped(cst_context *context, const int32_t *labels,
                                     const int64_t *groups, int64_t rows, int32_t folds,
                                     uint64_t seed, int32_t *out);

/* Makes folds for regression. targets: [rows][outputs], finite. Rows are ranked by target (for
 * several outputs, by the sum of the standardised targets), and runs of `folds` neighbouring rows
 * are treated like classes in cst_folds_stratified. groups: [rows] or NULL; if given, groups are
 * kept together as in cst_folds_grouped, with ten quantiles as classes. Errors as in
 * cst_folds_stratified and cst_folds_grouped. */
CST_API cst_status cst_folds_quantile(cst_context *context, const double *targets, int64_t outputs,
                                      const int64_t *groups, int64_t rows, int32_t folds,
                                      uint64_t seed, int32_t *out);

#ifdef __cplusplus
}
#endif
#endif
