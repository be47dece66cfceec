/* Wrong labels in a fit, an inspection and a comparison: whose rows are left out, what a report
 * says of them, and the file of suspects. docs/method.md#wrong-labels. */
#include "data/readers/csv.h"
#include "fit/family.h"

#include <math.h>

enum { LISTED = 10 }; /* suspects in a document */

/* The rows with the members that greedy selection takes. */
static cst_status lead(cst_context *context, cst_scope *scope, const cst_training *source,
                       cst_view *out) {
    const cst_view *view = &source->view;
    int32_t count = 0;
    CST_NEW(context, scope, int32_t, members, view->members);
    CST_NEW(context, scope, const float *, pointers, view->members);
    CST_TRY(cst_greedy_members(context, view, source->folds, source->fold_count, members, &count));
    *out = cst_view_members(view, members, count, pointers);
    return CST_OK;
}

cst_status cst_training_doubt(cst_context *context, const cst_training *source,
                              const cst_settings *settings, cst_noise *out) {
    cst_view led;
    const cst_view *view = &source->view;
    CST_TRY(cst_stage(context, "labels"));
    CST_SCOPE(scope);
    if (view->members > CST_MANY_MEMBERS) {
        CST_TRY(lead(context, scope, source, &led));
        view = &led;
    }
    CST_TRY(
        cst_noise_find(context, view, source->folds, source->fold_count, &settings->labels, out));
    if (!out->alarm)
        return CST_OK;
    cst_notice(context,
               "about %.1f%% of the labels seem wrong, %s: a fit leaves out %lld of %lld rows; "
               "noise=off keeps them",
               100 * out->rate,
               out->rule == CST_LABELS_HUMAN
                   ? "as confident learning says"
                   : "since a model in which some are wrong predicts the labels better",
               (long long)out->count, (long long)view->rows);
    return CST_OK;
}

cst_status cst_fit_doubt(cst_context *context, cst_fit_job *job) {
    cst_noise *noise = &job->noise;
    if (job->hints) /* rows of another task */
        return CST_OK;
    CST_TRY(cst_training_doubt(context, &job->source, &job->settings, noise));
    return noise->alarm ? cst_training_leave_out(context, job->pool, job->facts.split, noise->wrong,
                                                 &job->source)
                        : CST_OK;
}

/* ---- documents ---- */

void cst_document_row(cst_report *report, json_t *object, const cst_pool *pool, const char *split,
                      int64_t row) {
    const char *id = pool ? cst_pool_id(pool, split, row) : NULL;
    if (id)
        cst_report_string(report, object, "id", id);
    else
        cst_report_integer(report, object, "row", row);
}

static void put_class(cst_report *report, json_t *object, const char *key, const cst_pool *pool,
                      int32_t class) {
    const char *name = cst_pool_class_name(pool, class);
    char number[16];
    (void)cst_snprintf(number, sizeof number, "%d", (int)class);
    cst_report_string(report, object, key, name ? name : number);
}

/* Suspects with their ids, or rows from 0. */
static void list_suspects(cst_report *report, json_t *list, const cst_pool *pool, const char *split,
                          const cst_counted *rows, const cst_noise *noise) {
    for (int64_t i = 0; i < noise->count; i++) {
        int64_t at = noise->suspects[i];
        int64_t row = rows->rows ? rows->rows[at] : at;
        json_t *object = cst_report_add_object(report, list);
        cst_document_row(report, object, pool, split, row);
        put_class(report, object, "label", pool, rows->labels[at]);
        put_class(report, object, "likely", pool, noise->likely[i]);
        cst_report_number(report, object, "probability", noise->own[i]);
    }
}

void cst_document_noise(cst_report *report, const cst_pool *pool, const char *split,
                        const cst_training *source, const cst_noise *noise) {
    static const char *const rules[] = {"auto", "off", "human"};
    report->suspects = json_array();
    report->failed |= json_array_append_new(
        report->suspects, json_string(cst_pool_id(pool, split, 0) ? "id" : "row"));
    list_suspects(report, report->suspects, pool, split, &source->counted, noise);
    if (!noise->alarm && noise->rule != CST_LABELS_HUMAN)
        return;
    json_t *object = cst_report_object(report, cst_report_root(report), "noise");
    CST_PUT(report, object, CST_S("rule", rules[noise->rule]), CST_B("alarm", noise->alarm),
            CST_N("rate", noise->rate), CST_I("rows_left_out", noise->count),
            CST_N("nll_plain", noise->nll_plain), CST_N("nll_noise", noise->nll_errors),
            CST_N("gain", 1 - noise->nll_errors / noise->nll_plain), CST_N("z", noise->z));
    json_t *list = cst_report_list(report, object, "suspects");
    for (size_t i = 1; i <= LISTED && i < json_array_size(report->suspects); i++)
        report->failed |= json_array_append(list, json_array_get(report->suspects, i)) != 0;
}

/* A name or number, and a comma before it. */
static cst_status put_cell(cst_context *context, cst_output_file *output, const json_t *value,
                           bool first) {
    char number[32] = "";
    if (json_is_integer(value))
        (void)cst_snprintf(number, sizeof number, "%lld", (long long)json_integer_value(value));
    CST_TRY(cst_csv_put_text(context, output, first ? "" : ","));
    return json_is_string(value) ? cst_csv_put_name(context, output, json_string_value(value))
                                 : cst_csv_put_text(context, output, number);
}

static cst_status put_suspect(cst_context *context, cst_output_file *output, const json_t *row) {
    const json_t *id = json_object_get(row, "id");
    CST_TRY(put_cell(context, output, id ? id : json_object_get(row, "row"), true));
    CST_TRY(put_cell(context, output, json_object_get(row, "label"), false));
    CST_TRY(put_cell(context, output, json_object_get(row, "likely"), false));
    CST_TRY(cst_csv_put_text(context, output, ","));
    CST_TRY(cst_csv_put_number(context, output,
                               (float)json_number_value(json_object_get(row, "probability"))));
    return cst_csv_put_text(context, output, "\n");
}

cst_status cst_write_suspects(cst_context *context, const cst_report *report, const char *path) {
    CST_ENTER(context);
    cst_output_file *output = NULL;
    if (!report || !path)
        return cst_fail(context, CST_ERROR_ARGUMENT,
                        "cst_write_suspects: report and path are required");
    if (!report->suspects)
        return cst_fail(context, CST_ERROR_UNSUPPORTED,
                        "wrong labels are found by fit and inspect, for classification with a "
                        "preset; this report has none");
    cst_status status = cst_output_open(context, &output, path);
    CST_THEN(
        cst_csv_put_text(context, output, json_string_value(json_array_get(report->suspects, 0))));
    CST_THEN(cst_csv_put_text(context, output, ",label,likely,probability\n"));
    for (size_t i = 1; status == CST_OK && i < json_array_size(report->suspects); i++)
        status = put_suspect(context, output, json_array_get(report->suspects, i));
    return cst_why(context, cst_output_end(context, output, status));
}
