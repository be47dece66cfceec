/*
 * Reads the section of a model file with how a batch leans on the average, trusting nothing. Before
 * prediction. docs/model-format.md.
 */
#include "model/reader.h"

#include <inttypes.h>

/* How often each class is predicted: `rows` times in all. */
static void get_counts(cst_reader *r, const cst_lean *lean, int32_t *count) {
    size_t at = r->at;
    int64_t left = lean->rows;
    for (int32_t c = 0; c < lean->classes && r->status == CST_OK; c++) {
        count[c] = cst_reader_count(r, "the rows of a predicted class", (int32_t)left);
        left -= count[c];
    }
    if (r->status == CST_OK && left > 0)
        cst_reader_refuse(r, at, "%" PRId64 " of %" PRId64 " rows have no predicted class", left,
                          lean->rows);
}

static double get_unit(cst_reader *r, const char *what) {
    return (double)cst_reader_count(r, what, CST_LEAN_UNITS) / CST_LEAN_UNITS;
}

void cst_lean_get(cst_reader *r, cst_model *model) {
    size_t classes = (size_t)model->classes;
    if (model->task != CST_TASK_CLASSIFICATION)
        cst_reader_refuse(r, r->at, "section LEAN is in a model of %s", cst_task_name(model->task));
    else if (classes * (CST_LEAN_SIDES + 2) > r->end - r->at)
        cst_reader_refuse(r, r->at, "%zu classes are declared, but %zu bytes are left", classes,
                          r->end - r->at);
    if (r->status == CST_OK)
        r->status = cst_lean_alloc(r->context, model->classes, &model->lean);
    if (r->status != CST_OK)
        return;
    cst_lean *lean = model->lean;
    lean->rows = cst_reader_int(r, "the number of rows", 1, INT32_MAX);
    for (int side = 0; side < CST_LEAN_SIDES; side++)
        lean->accuracy[side] = cst_reader_f64(r, "an accuracy", 0, 1);
    lean->sharpest = cst_reader_f64(r, "the largest temperature", 1, 4);
    for (int side = 0; side < CST_LEAN_SIDES; side++)
        get_counts(r, lean, lean->count[side]);
    for (size_t c = 0; c < classes && r->status == CST_OK; c++)
        lean->mean[c] = (float)get_unit(r, "a mean confidence");
    for (size_t c = 0; c < classes && r->status == CST_OK; c++) {
        double deviation = get_unit(r, "a deviation of confidences");
        lean->variance[c] = (float)(deviation * deviation);
    }
}
