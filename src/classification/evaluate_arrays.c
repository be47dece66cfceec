/*
 * cst_evaluate: scores of probabilities in memory. After prediction.
 */
#include "classification/classification.h"
#include "classification/evaluate.h"

cst_status cst_evaluate(cst_context *context, const float *probabilities, int64_t rows,
                        int32_t classes, const int32_t *labels, int32_t resamples, uint64_t seed,
                        cst_report **report) {
    if (report)
        *report = NULL;
    CST_ENTER(context);
    CST_FITS(context, rows, classes, sizeof(*probabilities));
    CST_SEED(context, seed);
    CST_RESAMPLES(context, resamples);
    if (!probabilities || !labels || !report || rows < 1 || classes < 1)
        return cst_fail(context, CST_ERROR_ARGUMENT,
                        "cst_evaluate: probabilities, labels and report are required");
    cst_notices_clear(context);
    cst_view view = {
        .rows = rows, .classes = classes, .members = 1, .data = &probabilities, .labels = labels};
    return cst_why(context, cst_evaluate_view(context, &cst_classification_ops, &view, resamples,
                                              seed, report));
}
