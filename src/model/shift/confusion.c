/* What a fit stores of its predictions for each class. */
#include "method/calibration/calibration.h"
#include "model/shift/label_shift.h"

cst_status cst_confusion_alloc(cst_context *context, cst_scope *scope, int32_t classes,
                               int32_t entries, cst_confusion **out) {
    *out = NULL;
    CST_NEW(context, scope, cst_confusion, made, 1);
    made->classes = classes;
    CST_TAKE(context, scope, made->share, classes);
    CST_TAKE(context, scope, made->bin, classes * CST_CONFUSION_BINS);
    CST_TAKE(context, scope, made->first, classes + 1);
    CST_TAKE(context, scope, made->predicted, entries);
    CST_TAKE(context, scope, made->count, entries);
    *out = made;
    return CST_OK;
}

int64_t cst_confusion_rows(const cst_confusion *confusion, int32_t c) {
    int64_t rows = 0;
    for (int b = 0; b < CST_CONFUSION_BINS; b++)
        rows += confusion->bin[(size_t)c * CST_CONFUSION_BINS + (size_t)b];
    return rows;
}

int64_t cst_confusion_all_rows(const cst_confusion *confusion) {
    int64_t rows = 0;
    for (int32_t c = 0; c < confusion->classes; c++)
        rows += cst_confusion_rows(confusion, c);
    return rows;
}

float cst_confusion_counted_share(const cst_confusion *confusion, int32_t c, int64_t rows) {
    return (float)((double)cst_confusion_rows(confusion, c) / (double)rows);
}

cst_confusion_row cst_confusion_row_of(const float *p, int32_t classes, int32_t label) {
    int32_t top = cst_largest(p, classes);
    return (cst_confusion_row){.label = label, .predicted = top, .confidence = p[top]};
}
