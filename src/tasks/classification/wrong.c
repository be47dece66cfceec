/* Where predictions are wrong: scores of classes, pairs of classes that are confused, the rows with
 * the highest loss. docs/json.md#evaluate. */
#include "fit/document.h"
#include "tasks/classification/classification.h"

enum { PAIRS = 400, WORST = 10 };

/* A pair of label and prediction that differ, and how often. */
typedef struct pair {
    int64_t count, key;
} pair;

CST_BY(by_count, pair, CST_DOWN(count), CST_UP(key), 0)

/* keys [count] of rows that are wrong; sorts them. */
static cst_status put_pairs(cst_context *context, cst_report *report, int64_t *keys, int64_t count,
                            int32_t classes) {
    int64_t distinct = 0;
    CST_SCOPE(scope);
    CST_NEW(context, scope, pair, pairs, count + 1);
    CST_TRY(cst_sort(context, keys, (size_t)count, sizeof *keys, cst_by_i64));
    for (int64_t i = 0; i < count; i++) {
        if (i == 0 || keys[i] != keys[i - 1])
            pairs[distinct++].key = keys[i];
        pairs[distinct - 1].count++;
    }
    CST_TRY(cst_sort(context, pairs, (size_t)distinct, sizeof *pairs, by_count));
    json_t *list = cst_report_list(report, cst_report_root(report), "confused");
    for (int64_t i = 0; i < distinct && i < PAIRS; i++) {
        json_t *entry = cst_report_add_list(report, list);
        cst_report_add_integer(report, entry, pairs[i].key / classes);
        cst_report_add_integer(report, entry, pairs[i].key % classes);
        cst_report_add_integer(report, entry, pairs[i].count);
    }
    return CST_OK;
}

typedef struct class_sums {
    int64_t labels, predictions, right;
    double nll;
} class_sums;

static void put_classes(cst_report *report, const cst_wrong *w, const class_sums *sums) {
    json_t *list = cst_report_list(report, cst_report_root(report), "per_class");
    for (int32_t c = 0; c < w->classes; c++) {
        const class_sums *one = &sums[c];
        double rows = (double)one->labels;
        if (one->labels == 0)
            continue;
        json_t *entry = cst_report_add_object(report, list);
        CST_PUT(report, entry, CST_I("class", c), CST_I("samples", one->labels),
                CST_N("top1", (double)one->right / rows),
                CST_N("precision", (double)one->right / (double)one->predictions),
                CST_N("nll", one->nll / rows));
    }
}

static void put_row(cst_report *report, json_t *list, const cst_wrong *w, int64_t row,
                    int32_t predicted) {
    const cst_target *target = w->target;
    const float *p = w->rows + (size_t)row * (size_t)w->classes;
    json_t *entry = cst_report_add_object(report, list);
    cst_document_row(report, entry, w->pool, target->split, w->numbers ? w->numbers[row] : row);
    CST_PUT(report, entry, CST_I("label", target->labels[row]), CST_I("predicted", predicted),
            CST_N("probability", p[predicted]), CST_N("probability_label", p[target->labels[row]]));
}

cst_status cst_document_wrong(cst_context *context, cst_report *report, const cst_wrong *w) {
    const cst_target *target = w->target;
    int64_t worst[WORST];
    int64_t listed = 0;
    int64_t wrong = 0;
    CST_SCOPE(scope);
    CST_NEW(context, scope, double, nll, target->samples);
    CST_NEW(context, scope, int32_t, predicted, target->samples);
    CST_NEW(context, scope, int64_t, keys, target->samples);
    CST_NEW(context, scope, class_sums, sums, w->classes);
    CST_TRY(cst_samples_fill(context, w->rows, target->samples, w->classes, target->labels,
                             &(cst_samples){.nll = nll}));
    for (int64_t i = 0; i < target->samples; i++) {
        int32_t label = target->labels[i];
        predicted[i] = w->decided
                           ? w->decided[i]
                           : cst_largest(w->rows + (size_t)i * (size_t)w->classes, w->classes);
        sums[label].labels++;
        sums[label].nll += nll[i];
        sums[predicted[i]].predictions++;
        sums[label].right += label == predicted[i];
        if (label != predicted[i])
            keys[wrong++] = (int64_t)label * w->classes + predicted[i];
        int64_t at = listed < WORST ? listed++ : WORST; /* the highest first, equal ones by row */
        for (; at > 0 && nll[worst[at - 1]] < nll[i]; at--)
            if (at < WORST)
                worst[at] = worst[at - 1];
        if (at < WORST)
            worst[at] = i;
    }
    put_classes(report, w, sums);
    CST_TRY(put_pairs(context, report, keys, wrong, w->classes));
    json_t *list = cst_report_list(report, cst_report_root(report), "worst");
    for (int64_t i = 0; i < listed; i++)
        put_row(report, list, w, worst[i], predicted[worst[i]]);
    return CST_OK;
}
