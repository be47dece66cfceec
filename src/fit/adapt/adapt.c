/* cst_adapt: a stack and labelled rows of a new distribution in, an adapted stack out.
 * docs/json.md#adapt. */
#include "fit/adapt/adapt.h"
#include "core/la.h"
#include "data/checks/checks.h"
#include "data/pool/pool.h"
#include "fit/document.h"
#include "fit/family.h"
#include "model/fit_rows.h"
#include "report/report.h"

#include <corestack/adapt.h>
#include <math.h>
#include <string.h>

/* A returned member is dropped again if its part of the scores has a standard deviation below this
 * over rows and classes. */
static const double NEGLIGIBLE = 0.02;

/* ---- what rows may be learnt from ---- */

static cst_status check_rows(cst_context *context, const char *split, const cst_adapt_rows *rows) {
    const cst_view *view = &rows->view;
    if (view->rows < CST_ADAPT_ROWS_MIN)
        return cst_fail(context, CST_ERROR_INPUT,
                        "split '%s': %lld labelled rows are too few to learn from; at least %d are "
                        "needed",
                        split, (long long)view->rows, CST_ADAPT_ROWS_MIN);
    if (view->rows > CST_ADAPT_ROWS_MAX)
        return cst_fail(context, CST_ERROR_INPUT,
                        "split '%s': an adaptation takes up to %d labelled rows, not %lld; with so "
                        "many, fit a stack on them",
                        split, CST_ADAPT_ROWS_MAX, (long long)view->rows);
    for (int64_t i = 1; i < view->rows; i++)
        if (cst_view_label(view, i) != cst_view_label(view, 0))
            return CST_OK;
    return cst_fail(context, CST_ERROR_INPUT,
                    "split '%s': all %lld labelled rows are of class %d; label rows of at least "
                    "two classes",
                    split, (long long)view->rows, (int)cst_view_label(view, 0));
}

static cst_status check_fit(cst_context *context, const cst_model *model, cst_pool *pool,
                            const char *split, const cst_adapt_rows *rows) {
    cst_known_rows known = {0};
    cst_row_match match = {0};
    cst_seen seen = CST_SEEN_NONE;
    cst_fit_rows fit = cst_fit_rows_of(model, rows->view.index ? NULL : rows->view.labels,
                                       rows->view.index ? 0 : rows->view.rows);
    cst_status status =
        cst_rows_seen(context, model, pool, &fit, split, &rows->view, &known, &match, &seen);
    if (status == CST_OK && (seen == CST_SEEN_ALL || strcmp(fit.split, split) == 0) &&
        (seen != CST_SEEN_NONE || cst_fit_rows_named(&fit, split)))
        status = cst_fail(context, CST_ERROR_INPUT,
                          "the model was fitted on the rows of split '%s', which teach it nothing "
                          "new; name a split of the new distribution",
                          split);
    else if (status == CST_OK && seen == CST_SEEN_SOME)
        cst_notice(context,
                   "of %lld rows of split '%s' that were checked, %lld have the label and the "
                   "predictions of rows that the model was fitted on",
                   (long long)match.looked_at, split, (long long)match.found);
    cst_scope_free(&known.scope);
    return status;
}

/* ---- the model ---- */

/* A copy, as if saved and loaded. */
static cst_status copy_model(cst_context *context, const cst_model *model, cst_model **out) {
    uint8_t *bytes = NULL;
    size_t size = 0;
    CST_TRY(cst_stack_encode(context, model, &bytes, &size));
    cst_status status = cst_stack_decode(context, "the adapted model", bytes, size, out);
    cst_free(context, bytes);
    return status;
}

/* Standard deviation of a column over rows and classes, each row around its own mean. */
static double spread(const cst_adapt_table *table, int32_t column) {
    double sum = 0;
    for (int64_t i = 0; i < table->rows; i++) {
        const float *x = table->x + i * table->classes * table->columns + column;
        double mean = 0;
        double squares = 0;
        for (int32_t c = 0; c < table->classes; c++)
            mean += (double)x[(int64_t)c * table->columns] / table->classes;
        for (int32_t c = 0; c < table->classes; c++) {
            double off = (double)x[(int64_t)c * table->columns] - mean;
            squares += off * off;
        }
        sum += squares / table->classes;
    }
    return sqrt(sum / (double)table->rows);
}

/* Stores theta as section ADPT. Returned members with a negligible weight are dropped; the stack
 * gets their weight. */
static cst_status put_adapted(cst_context *context, const cst_pool *pool,
                              const cst_adapt_rows *rows, const cst_adapt_table *table,
                              const double *theta, cst_model *made) {
    int32_t members = table->columns - 1;
    int32_t extra = 0;
    int32_t at = 0;
    CST_SCOPE(scope);
    CST_NEW(context, scope, bool, stays, members);
    for (int32_t k = 0; k < members; k++) {
        stays[k] = k < made->members || fabs(theta[k + 1]) * spread(table, k + 1) >= NEGLIGIBLE;
        extra += stays[k] && k >= made->members;
    }
    CST_TRY(cst_adapted_take(context, &made->scope, made->members + extra, extra, made->classes,
                             &made->adapted));
    cst_adapted *adapted = made->adapted;
    adapted->scale = theta[0];
    adapted->rows = table->rows;
    for (int32_t k = 0; k < members; k++) {
        if (!stays[k]) {
            adapted->scale += theta[k + 1];
            continue;
        }
        if (k >= made->members) {
            const char *name = cst_pool_member_name(pool, rows->position[k]);
            adapted->names[at - made->members] = cst_take_text(context, &made->scope, name);
            if (!adapted->names[at - made->members])
                return CST_ERROR_MEMORY;
        }
        adapted->mix[at] = CST_ADAPT_MIX;
        adapted->weights[at++] = theta[k + 1];
    }
    memcpy(adapted->bias, theta + table->columns, (size_t)made->classes * sizeof *theta);
    return CST_OK;
}

/* Appends the returned members' costs to a setting like "members.flops=1e9,-". */
static cst_status extend_costs(cst_context *context, const cst_pool *pool, const char *key,
                               double (*cost)(const cst_pool *, int32_t), cst_model *made) {
    size_t length = strlen(key);
    for (size_t i = 0; i < made->settings; i++) {
        if (strncmp(made->setting[i], key, length) != 0 || made->setting[i][length] != '=')
            continue;
        for (int32_t k = made->members; k < cst_model_inputs(made); k++) {
            char number[40] = "-";
            double value = cost(pool, cst_pool_member_index(pool, cst_model_input_name(made, k)));
            if (isfinite(value))
                (void)cst_snprintf(number, sizeof number, "%.17g", value);
            made->setting[i] =
                cst_take_format(context, &made->scope, "%s,%s", made->setting[i], number);
            if (!made->setting[i])
                return CST_ERROR_MEMORY;
        }
    }
    return CST_OK;
}

/* Notes the rows used, so that later scores on them are recognised. */
static cst_status note_rows(cst_context *context, const cst_pool *pool, const char *split,
                            const cst_adapt_rows *rows, const cst_adapt_table *table,
                            const cst_adapt_choice *choice, cst_model *made) {
    size_t count = 0;
    cst_scope *scope = &made->scope;
    cst_view kept = rows->view;
    kept.members = made->members;
    CST_NEW(context, scope, char *, settings, made->settings + CST_FITTED_ON_SETTINGS + 1);
    memcpy(settings, made->setting, made->settings * sizeof *settings);
    made->setting = settings;
    CST_TRY(cst_fitted_on_note(context, scope, CST_ADAPTED_KEY, split, table->labels, table->rows,
                               &kept, settings + made->settings, &count));
    made->settings += count;
    char *step = cst_take_format(context, scope, CST_ADAPTED_KEY ".step=%.17g", choice->step);
    if (!step)
        return CST_ERROR_MEMORY;
    settings[made->settings++] = step;
    CST_TRY(extend_costs(context, pool, "members.flops", cst_pool_member_flops, made));
    return extend_costs(context, pool, "members.latency_ms", cst_pool_member_latency_ms, made);
}

/* ---- rows without labels ---- */

typedef struct unlabeled_rows {
    cst_adapt_table table;
    double *shares;
    cst_adapt_balance balance;
} unlabeled_rows;

/* At most CST_ADAPT_ROWS_MAX rows, evenly over the split. */
static cst_status thin(cst_context *context, cst_scope *scope, cst_view *view) {
    int64_t all = view->rows;
    if (all <= CST_ADAPT_ROWS_MAX)
        return CST_OK;
    CST_NEW(context, scope, int64_t, index, CST_ADAPT_ROWS_MAX);
    for (int64_t i = 0; i < CST_ADAPT_ROWS_MAX; i++)
        index[i] = i * all / CST_ADAPT_ROWS_MAX;
    view->index = index;
    view->rows = CST_ADAPT_ROWS_MAX;
    return CST_OK;
}

static cst_status open_unlabeled(cst_context *context, cst_scope *scope, const cst_model *model,
                                 cst_pool *pool, const char *split, const cst_adapt_rows *labelled,
                                 unlabeled_rows *out) {
    const cst_confusion *confusion = model->reference.confusion;
    cst_adapt_rows rows;
    double sum = 0;
    if (!confusion)
        return cst_fail(
            context, CST_ERROR_UNSUPPORTED,
            "rows without labels need the class shares of the fit, which files of older "
            "versions and models fitted on few rows do not have; leave the rows out");
    CST_TRY(cst_adapt_rows_open(context, scope, model, pool, split, NULL, NULL, 0, false, &rows));
    bool same = rows.view.members == labelled->view.members;
    for (int32_t k = 0; same && k < labelled->view.members; k++)
        same = rows.position[k] == labelled->position[k];
    if (!same)
        return cst_fail(context, CST_ERROR_MISMATCH,
                        "split '%s' and the labelled rows have predictions of different members; "
                        "give both splits the same members",
                        split);
    rows.view.labels = NULL;
    rows.view.weights = NULL;
    CST_TRY(thin(context, scope, &rows.view));
    CST_TRY(cst_adapt_table_make(context, scope, model, &rows.view, &out->table));
    CST_TAKE(context, scope, out->shares, model->classes);
    for (int32_t c = 0; c < model->classes; c++)
        sum += out->shares[c] = fmax((double)confusion->share[c], 1e-6);
    for (int32_t c = 0; c < model->classes; c++)
        out->shares[c] /= sum;
    out->balance = (cst_adapt_balance){&out->table, out->shares};
    return CST_OK;
}

/* ---- the report ---- */

/* docs/bounds.md#under-shift */
static const char CERTIFICATES[] =
    "bounds and prediction sets of the stack before do not hold for the adapted one: run bound on "
    "labelled rows that neither the fit nor the adaptation used; similarity, clusters and spectrum "
    "of the members stay";

static double weight_of(const cst_model *made, int32_t k) {
    return made->adapted ? made->adapted->weights[k] : 0;
}

static void put_members(cst_report *report, const cst_model *made) {
    json_t *list = cst_report_list(report, cst_report_root(report), "members");
    for (int32_t k = 0; k < cst_model_inputs(made); k++) {
        json_t *member = cst_report_add_object(report, list);
        CST_PUT(report, member, CST_S("name", cst_model_input_name(made, k)),
                CST_N("weight", weight_of(made, k)), CST_B("returned", k >= made->members));
    }
}

static void put_candidates(cst_report *report, const cst_adapt_choice *choice) {
    json_t *list = cst_report_list(report, cst_report_root(report), "candidates");
    for (int32_t c = 0; c < CST_ADAPT_CANDIDATES; c++) {
        const cst_adapt_candidate *from = &choice->candidate[c];
        json_t *entry = cst_report_add_object(report, list);
        CST_PUT(report, entry, CST_S("center", from->halfway ? "halfway" : "stack"),
                CST_N("precision", from->precision), CST_N("nll", from->loss),
                CST_N("log_evidence", from->evidence), CST_N("share", from->share));
    }
}

/* The metric of the rows, by the stack and by the fits without each row's fold. */
static cst_status put_metric(cst_context *context, cst_report *report, const cst_model *model,
                             const cst_adapt_table *table, cst_metric_choice metric,
                             const float *held) {
    size_t numbers = (size_t)table->rows * (size_t)table->classes;
    double stack = NAN;
    double cross_validated = NAN;
    CST_SCOPE(scope);
    CST_NEW(context, scope, float, p, numbers);
    for (size_t i = 0; i < numbers; i++)
        p[i] = expf(table->x[i * (size_t)table->columns]);
    cst_metric_rows rows = {.values = p,
                            .rows = table->rows,
                            .columns = table->classes,
                            .labels = table->labels,
                            .weights = table->weights};
    CST_TRY(cst_model_score(context, model, metric, metric.metric->name, &rows, &stack));
    rows.values = held;
    if (!isnan(stack))
        CST_TRY(
            cst_model_score(context, model, metric, metric.metric->name, &rows, &cross_validated));
    cst_put_metric(report, metric);
    json_t *object = json_object_get(cst_report_root(report), "metric");
    CST_PUT(report, object, CST_N("stack", stack), CST_N("cross_validated", cross_validated));
    return CST_OK;
}

static void fill_report(cst_report *report, const cst_model *before, const cst_model *made,
                        const cst_pool *pool, const char *split, const cst_adapt_rows *rows,
                        const cst_adapt_choice *choice, const char *unlabeled, int64_t more) {
    json_t *root = cst_report_root(report);
    CST_PUT(report, root, CST_S("model", NULL), CST_S("out", NULL), CST_S("split", split),
            CST_I("samples", rows->view.rows));
    if (rows->view.weights)
        cst_report_number(report, root, "effective_samples", cst_view_effective_rows(&rows->view));
    CST_PUT(report, root, CST_I("classes", made->classes), CST_B("adapted", choice->adapted));
    json_t *nll = cst_report_object(report, root, "nll");
    CST_PUT(report, nll, CST_N("stack", choice->stack_loss), CST_N("cross_validated", choice->loss),
            CST_N("fitted", choice->fitted));
    cst_report_integer(report, root, "folds", choice->folds);
    if (unlabeled) {
        json_t *object = cst_report_object(report, root, "unlabeled");
        CST_PUT(report, object, CST_S("split", unlabeled), CST_I("samples", more),
                CST_B("used", choice->balanced), CST_N("nll_without", choice->labels_loss));
    }
    CST_PUT(report, root, CST_N("log_evidence", choice->evidence), CST_N("step", choice->step),
            CST_N("scale", made->adapted ? made->adapted->scale : 1),
            CST_I("members_before", before->members),
            CST_I("members_after", cst_model_inputs(made)),
            CST_I("members_pool", cst_pool_members(pool)));
    put_members(report, made);
    json_t *list = cst_report_list(report, root, "biases");
    for (int32_t c = 0; made->adapted && choice->biases && c < made->classes; c++)
        cst_report_add_number(report, list, made->adapted->bias[c]);
    put_candidates(report, choice);
    if (choice->adapted)
        cst_report_string(report, root, "certificates", CERTIFICATES);
}

/* ---- all of it ---- */

/* *made: the adapted model, or a copy if nothing changes. */
static cst_status change(cst_context *context, const cst_model *model, const cst_pool *pool,
                         const char *split, const cst_adapt_rows *rows,
                         const cst_adapt_table *table, const cst_adapt_choice *choice,
                         cst_model **made) {
    cst_model *copy = NULL;
    CST_TRY(copy_model(context, model, &copy));
    if (!choice->adapted) {
        *made = copy;
        cst_notice(context,
                   "the %lld labelled rows give no reason to change the stack (NLL %.4f; "
                   "cross-validated with a change %.4f): it is kept as it was",
                   (long long)rows->view.rows, choice->stack_loss, choice->loss);
        return CST_OK;
    }
    copy->reference.novelty = NULL; /* it describes rows unlike the new ones, as these do */
    copy->reference.confusion = NULL;
    copy->cascade = NULL; /* it stops where this stack would have agreed before */
    copy->reference.gauge = NULL;
    cst_status status = put_adapted(context, pool, rows, table, choice->theta, copy);
    CST_THEN(note_rows(context, pool, split, rows, table, choice, copy));
    CST_THEN(copy_model(context, copy, made));
    cst_model_free(context, copy);
    return status;
}

static cst_status adapt(cst_context *context, const cst_model *model, cst_pool *pool,
                        const char *split, const cst_adapt_options *o, cst_model **out,
                        cst_report *report) {
    cst_adapt_rows rows;
    cst_adapt_table table;
    cst_adapt_choice choice;
    cst_metric_choice metric;
    unlabeled_rows more = {0};
    cst_model *made = NULL;
    CST_SCOPE(scope);
    CST_TRY(cst_adapt_rows_open(context, scope, model, pool, split, o->rows, o->labels,
                                o->row_count, true, &rows));
    CST_TRY(check_rows(context, split, &rows));
    CST_TRY(check_fit(context, model, pool, split, &rows));
    CST_TRY(cst_check_scored(context, &(cst_check_source){.pool = pool,
                                                          .split = split,
                                                          .view = &rows.view,
                                                          .members = rows.position,
                                                          .rows = rows.rows}));
    CST_TRY(cst_model_metric(context, scope, model, o->metric, &metric));
    CST_TRY(cst_metric_check_classes(context, metric, model->classes));
    CST_TRY(cst_adapt_table_make(context, scope, model, &rows.view, &table));
    if (o->unlabeled)
        CST_TRY(open_unlabeled(context, scope, model, pool, o->unlabeled, &rows, &more));
    CST_TRY(cst_adapt_choose(context, scope, &table, rows.groups,
                             o->unlabeled ? &more.balance : NULL, report && metric.metric,
                             &choice));
    CST_TRY(change(context, model, pool, split, &rows, &table, &choice, &made));
    if (report)
        fill_report(report, model, made, pool, split, &rows, &choice, o->unlabeled,
                    more.table.rows);
    if (choice.held)
        CST_TRY(put_metric(context, report, model, &table, metric, choice.held));
    if (out)
        *out = made;
    else
        cst_model_free(context, made);
    return CST_OK;
}

cst_status cst_adapt(cst_context *context, const cst_model *model, cst_pool *pool,
                     const cst_adapt_options *options_given, cst_model **out, cst_report **report) {
    static const cst_adapt_options defaults = {0};
    CST_CLEAR(out);
    CST_CLEAR(report);
    CST_ENTER(context);
    CST_STRUCT(context, cst_adapt_options, options, options_given);
    const cst_adapt_options *o = options ? options : &defaults;
    if (!model || !pool || (o->labels && !o->rows) || (o->rows && o->row_count < 0))
        return cst_fail(context, CST_ERROR_ARGUMENT,
                        "cst_adapt: model and pool are required, and labels are given with rows");
    cst_notices_clear(context);
    CST_LA();
    cst_status status = report ? cst_report_begin(context, CST_REPORT_ADAPT, report) : CST_OK;
    CST_THEN(
        adapt(context, model, pool, o->split ? o->split : "new", o, out, report ? *report : NULL));
    if (status == CST_OK && report) {
        cst_report_notices(*report, context);
        status = cst_report_finish(context, *report);
    }
    if (status != CST_OK && out) {
        cst_model_free(context, *out);
        *out = NULL;
    }
    return cst_why(context, report ? cst_report_settle(context, status, report) : status);
}
