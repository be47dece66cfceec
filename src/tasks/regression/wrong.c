/* Where predictions of values are wrong: errors by size of the prediction, the rows with the
 * largest errors. docs/json.md#evaluate. */
#include "data/pool/pool.h"
#include "tasks/regression/regression.h"

#include <math.h>

enum { RANGES = 5, WORST = 10, FEWEST = 50 };

typedef struct placed {
    double key;
    int64_t row;
} placed;

CST_BY(by_key, placed, CST_UP(key), CST_UP(row), 0)

static double error_of(const cst_value_wrong *w, int64_t row) {
    return (double)w->values->mean[row] - w->rows->targets[row];
}

/* The rows first..end-1 by size of the prediction. */
static void put_range(cst_report *report, json_t *list, const cst_value_wrong *w,
                      const placed *order, int64_t first, int64_t end) {
    const cst_predicted_values *v = w->values;
    double count = (double)(end - first);
    double squares = 0;
    double sum = 0;
    double inside = 0;
    int64_t level = 0;
    while (level + 1 < v->levels && v->level[level] < 0.9 - 1e-9)
        level++;
    for (int64_t i = first; i < end; i++) {
        double error = error_of(w, order[i].row);
        squares += error * error;
        sum += error;
        inside += v->levels > 0 && fabs(error) <= (double)v->half_width[level][order[i].row];
    }
    json_t *at = cst_report_add_object(report, list);
    CST_PUT(report, at, CST_N("low", order[first].key), CST_N("high", order[end - 1].key),
            CST_I("samples", end - first), CST_N("rmse", sqrt(squares / count)),
            CST_N("bias", sum / count), CST_N("level", v->levels > 0 ? v->level[level] : NAN),
            CST_N("coverage", v->levels > 0 ? inside / count : NAN));
}

static void put_row(cst_report *report, json_t *list, const cst_value_wrong *w, int64_t row) {
    json_t *entry = cst_report_add_object(report, list);
    cst_document_row(report, entry, w->pool, w->split, w->numbers ? w->numbers[row] : row);
    CST_PUT(report, entry, CST_N("target", w->rows->targets[row]),
            CST_N("predicted", (double)w->values->mean[row]));
}

cst_status cst_value_put_wrong(cst_context *context, cst_report *report, const cst_value_wrong *w) {
    int64_t rows = w->rows->rows;
    CST_SCOPE(scope);
    CST_NEW(context, scope, placed, order, rows);
    for (int64_t i = 0; i < rows; i++)
        order[i] = (placed){(double)w->values->mean[i], i};
    CST_TRY(cst_sort(context, order, (size_t)rows, sizeof *order, by_key));
    json_t *list =
        rows < FEWEST ? NULL : cst_report_list(report, cst_report_root(report), "ranges");
    for (int64_t k = 0; list && k < RANGES; k++)
        put_range(report, list, w, order, k * rows / RANGES, (k + 1) * rows / RANGES);
    for (int64_t i = 0; i < rows; i++)
        order[i] = (placed){-fabs(error_of(w, i)), i};
    CST_TRY(cst_sort(context, order, (size_t)rows, sizeof *order, by_key));
    list = cst_report_list(report, cst_report_root(report), "worst");
    for (int64_t i = 0; i < rows && i < WORST; i++)
        put_row(report, list, w, order[i].row);
    return CST_OK;
}
