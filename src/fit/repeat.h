/*
 * Repeated meta-training: the same comparison with other seeds and, where rows are held out, on
 * other rows. Around every comparison (compare.c). Paper: section "Results", "averaged over three
 * independent meta-training splits".
 */
#ifndef CST_EVALUATION_REPEAT_H
#define CST_EVALUATION_REPEAT_H

#include "fit/harness.h"

/* One comparison, into a report. checked: the data were checked before, and `findings`, which may
 * be NULL and is emptied, is what was found. */
typedef cst_status cst_once_fn(cst_context *context, const cst_task_ops *ops, cst_pool *pool,
                               const cst_compare_options *options, bool checked,
                               cst_findings *findings, cst_report *report);

/* As many comparisons as options->splits says, with the options' seed and those after it, and
 * options->holdout; the report has their means (report/means.h). One comparison with neither. */
cst_status cst_run_repeated(cst_context *context, const cst_task_ops *ops, cst_pool *pool,
                            const cst_compare_options *options, cst_once_fn *once,
                            cst_report *report);

#endif
