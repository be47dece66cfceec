/*
 * The best single member of a segmentation is the one of highest mIoU, which is what is reported;
 * the method itself takes the least NLL. After its fit. Paper: section "Experimental Setup".
 */
#include "tasks/segmentation/nested.h"
#include "tasks/segmentation/tally.h"

#include <string.h>

/* Adds the rows outside of fold `fold` (-1: all) as member `member` labels them. */
static cst_status tally_member(cst_context *context, const cst_training *source, int32_t fold,
                               int32_t member, double *tally) {
    const cst_view *view = &source->view;
    size_t classes = (size_t)view->classes;
    float *scratch = cst_alloc(context, CST_BLOCK_ROWS, classes * sizeof *scratch);
    int32_t *predicted = cst_alloc(context, 2 * CST_BLOCK_ROWS, sizeof *predicted);
    cst_status status = scratch && predicted ? CST_OK : CST_ERROR_MEMORY;
    int32_t *labels = predicted ? predicted + CST_BLOCK_ROWS : NULL;
    for (int64_t block = 0; status == CST_OK && block < cst_block_count(view->rows); block++) {
        int64_t first = cst_block_first(block);
        int64_t count = cst_block_size(view->rows, block);
        const float *rows = NULL;
        status = cst_view_rows(context, view, member, first, count, scratch, &rows);
        if (status != CST_OK)
            break;
        cst_label_rows(rows, count, view->classes, predicted);
        for (int64_t i = 0; i < count; i++)
            labels[i] = source->folds[first + i] == fold ? -1 : cst_view_label(view, first + i);
        cst_tally_labels(tally, view->classes, predicted, labels, count, NULL);
    }
    cst_free(context, scratch);
    cst_free(context, predicted);
    return status;
}

cst_status cst_method_prefer_miou(cst_context *context, const cst_training *source, int32_t fold,
                                  cst_method_fit *fit) {
    if (strcmp(fit->method.name, "best-single") != 0)
        return CST_OK;
    size_t width = cst_tally_width(fit->classes);
    double *tally = cst_alloc(context, width, sizeof *tally);
    cst_status status = tally ? CST_OK : CST_ERROR_MEMORY;
    int32_t best = 0;
    double most = -1;
    for (int32_t k = 0; status == CST_OK && k < fit->members; k++) {
        cst_segmentation_scores scores;
        memset(tally, 0, width * sizeof *tally);
        status = tally_member(context, source, fold, k, tally);
        if (status != CST_OK)
            break;
        cst_tally_scores(tally, fit->classes, false, &scores);
        if (scores.miou > most) {
            most = scores.miou;
            best = k;
        }
    }
    for (int32_t k = 0; status == CST_OK && k < fit->members; k++) {
        fit->baseline.weights[k] = k == best;
        fit->baseline.uses[k] = k == best;
        fit->uses[k] = k == best;
        if (fit->weights)
            fit->weights[k] = k == best;
    }
    cst_free(context, tally);
    return status;
}
