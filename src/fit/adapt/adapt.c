/*
 * cst_adapt: a stack and labelled rows of a new distribution in, an adapted stack out. After a fit.
 * docs/json.md#adapt.
 */
#include "fit/adapt/adapt.h"
#include "core/la.h"
#include "data/checks/checks.h"
#include "data/pool/pool.h"
#include "model/fitted_on.h"
#include "model/seen_rows.h"

#include <corestack/adapt.h>
#include <math.h>
#include <string.h>

enum { OWN_SETTINGS = 3 };

/* A member that came back stays away where its part of the scores has a standard deviation below
 * this over rows and classes. */
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
    cst_known_rows_free(context, &known);
    return status;
}

/* ---- the model ---- */

static cst_status copy_model(cst_context *context, const cst_model *model, cst_model **out) {
    uint8_t *bytes = NULL;
    size_t size = 0;
    cst_status status = cst_stack_encode(context, model, &bytes, &size);
    CST_THEN(cst_stack_decode(context, "the adapted model", bytes, size, out));
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

/* theta as section ADPT has it; members that came back with a negligible weight leave it to the
 * stack. */
static cst_status put_adapted(cst_context *context, const cst_pool *pool,
                              const cst_adapt_rows *rows, const cst_adapt_table *table,
                              const double *theta, cst_model *made) {
    int32_t members = table->columns - 1;
    int32_t extra = 0;
    bool *stays = cst_alloc(context, (size_t)members, sizeof *stays);
    if (!stays)
        return CST_ERROR_MEMORY;
    for (int32_t k = 0; k < members; k++) {
        stays[k] = k < made->members || fabs(theta[k + 1]) * spread(table, k + 1) >= NEGLIGIBLE;
        extra += stays[k] && k >= made->members;
    }
    cst_adapted *adapted = NULL;
    cst_status status =
        cst_adapted_alloc(context, made->members + extra, extra, made->classes, &adapted);
    int32_t at = 0;
    if (status == CST_OK) {
        adapted->scale = theta[0];
        adapted->rows = table->rows;
    }
    for (int32_t k = 0; status == CST_OK && k < members; k++) {
        if (!stays[k]) {
            adapted->scale += theta[k + 1];
            continue;
        }
        if (k >= made->members) {
            char *name = cst_strdup(context, cst_pool_member_name(pool, rows->position[k]));
            adapted->names[at - made->members] = name;
            status = name ? CST_OK : CST_ERROR_MEMORY;
        }
        adapted->mix[at] = CST_ADAPT_MIX;
        adapted->weights[at++] = theta[k + 1];
    }
    if (status == CST_OK)
        memcpy(adapted->bias, theta + table->columns, (size_t)made->classes * sizeof *theta);
    cst_free(context, stays);
    made->adapted = adapted;
    return status;
}

/* "1e9,-" with those of the members that came back. */
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
            char *text = cst_format(context, "%s,%s", made->setting[i], number);
            if (!text)
                return CST_ERROR_MEMORY;
            cst_free(context, made->setting[i]);
            made->setting[i] = text;
        }
    }
    return CST_OK;
}

/* Notes the rows, so that scores on them are told apart from those on others. */
static cst_status note_rows(cst_context *context, const cst_pool *pool, const char *split,
                            const cst_adapt_rows *rows, const cst_adapt_table *table,
                            const cst_adapt_choice *choice, cst_model *made) {
    char *noted[CST_FITTED_ON_SETTINGS] = {NULL};
    size_t count = 0;
    cst_view kept = rows->view;
    kept.members = made->members;
    char **settings = cst_alloc(context, made->settings + CST_FITTED_ON_SETTINGS + OWN_SETTINGS,
                                sizeof *settings);
    if (!settings)
        return CST_ERROR_MEMORY;
    memcpy(settings, made->setting, made->settings * sizeof *settings);
    cst_free(context, made->setting);
    made->setting = settings;
    cst_status status = cst_fitted_on_note(context, CST_ADAPTED_KEY, split, table->labels,
                                           table->rows, &kept, noted, &count);
    for (size_t i = 0; i < CST_FITTED_ON_SETTINGS && noted[i]; i++)
        made->setting[made->settings++] = noted[i];
    if (status == CST_OK) {
        char *step = cst_format(context, CST_ADAPTED_KEY ".step=%.17g", choice->step);
        status = step ? CST_OK : CST_ERROR_MEMORY;
        if (step)
            made->setting[made->settings++] = step;
    }
    CST_THEN(extend_costs(context, pool, "members.flops", cst_pool_member_flops, made));
    CST_THEN(extend_costs(context, pool, "members.latency_ms", cst_pool_member_latency_ms, made));
    return status;
}

/* ---- rows without labels ---- */

typedef struct unlabeled {
    cst_adapt_rows rows;
    cst_adapt_table table;
    double *shares;
    cst_adapt_balance balance;
} unlabeled;

/* At most CST_ADAPT_ROWS_MAX rows, evenly over the split. */
static cst_status thin(cst_context *context, cst_adapt_rows *rows) {
    int64_t all = rows->view.rows;
    if (all <= CST_ADAPT_ROWS_MAX)
        return CST_OK;
    rows->index = cst_alloc(context, CST_ADAPT_ROWS_MAX, sizeof *rows->index);
    if (!rows->index)
        return CST_ERROR_MEMORY;
    for (int64_t i = 0; i < CST_ADAPT_ROWS_MAX; i++)
        rows->index[i] = i * all / CST_ADAPT_ROWS_MAX;
    rows->view.index = rows->index;
    rows->view.rows = CST_ADAPT_ROWS_MAX;
    return CST_OK;
}

static cst_status open_unlabeled(cst_context *context, const cst_model *model, cst_pool *pool,
                                 const char *split, const cst_adapt_rows *labelled,
                                 unlabeled *out) {
    if (!model->reference.confusion)
        return cst_fail(
            context, CST_ERROR_UNSUPPORTED,
            "rows without labels need the class shares of the fit, which files of older "
            "versions and models fitted on few rows do not have; leave the rows out");
    cst_status status =
        cst_adapt_rows_open(context, model, pool, split, NULL, NULL, 0, false, &out->rows);
    bool same = status == CST_OK && out->rows.view.members == labelled->view.members;
    for (int32_t k = 0; same && k < labelled->view.members; k++)
        same = out->rows.position[k] == labelled->position[k];
    if (status == CST_OK && !same)
        status = cst_fail(context, CST_ERROR_MISMATCH,
                          "split '%s' and the labelled rows have predictions of different members; "
                          "give both splits the same members",
                          split);
    if (status == CST_OK) {
        out->rows.view.labels = NULL;
        out->rows.view.weights = NULL;
        status = thin(context, &out->rows);
    }
    CST_THEN(cst_adapt_table_make(context, model, &out->rows.view, &out->table));
    if (status != CST_OK)
        return status;
    size_t classes = (size_t)model->classes;
    double sum = 0;
    out->shares = cst_alloc(context, classes, sizeof *out->shares);
    if (!out->shares)
        return CST_ERROR_MEMORY;
    for (size_t c = 0; c < classes; c++)
        sum += out->shares[c] = fmax((double)model->reference.confusion->share[c], 1e-6);
    for (size_t c = 0; c < classes; c++)
        out->shares[c] /= sum;
    out->balance = (cst_adapt_balance){&out->table, out->shares};
    return CST_OK;
}

static void close_unlabeled(cst_context *context, unlabeled *more) {
    cst_adapt_table_free(context, &more->table);
    cst_adapt_rows_close(context, &more->rows);
    cst_free(context, more->shares);
}

/* ---- all of it ---- */

static cst_status adapt(cst_context *context, const cst_model *model, cst_pool *pool,
                        const char *split, const cst_adapt_options *o, cst_model **out,
                        cst_report **report) {
    cst_adapt_rows rows = {0};
    cst_adapt_table table = {0};
    cst_adapt_choice choice = {0};
    unlabeled more = {0};
    cst_model *made = NULL;
    cst_model *result = NULL;
    cst_status status = cst_adapt_rows_open(context, model, pool, split, o->rows, o->labels,
                                            o->row_count, true, &rows);
    CST_THEN(check_rows(context, split, &rows));
    CST_THEN(check_fit(context, model, pool, split, &rows));
    CST_THEN(cst_check_scored(context, &(cst_check_source){.pool = pool,
                                                           .split = split,
                                                           .view = &rows.view,
                                                           .members = rows.position,
                                                           .rows = rows.counted.rows}));
    CST_THEN(cst_adapt_table_make(context, model, &rows.view, &table));
    if (o->unlabeled)
        CST_THEN(open_unlabeled(context, model, pool, o->unlabeled, &rows, &more));
    CST_THEN(cst_adapt_choose(context, &table, rows.groups, o->unlabeled ? &more.balance : NULL,
                              &choice));
    CST_THEN(copy_model(context, model, &made));
    if (status == CST_OK && choice.adapted) {
        made->reference.novelty = NULL; /* it describes rows unlike the new ones, as these do */
        made->reference.confusion = NULL;
        made->reference.watch = NULL;
        status = put_adapted(context, pool, &rows, &table, choice.theta, made);
        CST_THEN(note_rows(context, pool, split, &rows, &table, &choice, made));
        CST_THEN(copy_model(context, made, &result)); /* as a file of it reads */
    } else if (status == CST_OK) {
        result = made;
        made = NULL;
        cst_notice(context,
                   "the %lld labelled rows give no reason to change the stack (NLL %.4f; "
                   "cross-validated with a change %.4f): it is kept as it was",
                   (long long)rows.view.rows, choice.stack_loss, choice.loss);
    }
    if (status == CST_OK && report)
        cst_adapt_document(*report, model, result, pool, split, &rows, &choice, o->unlabeled,
                           more.table.rows);
    cst_model_free(context, made);
    if (status == CST_OK && out)
        *out = result;
    else
        cst_model_free(context, result);
    cst_adapt_choice_free(context, &choice);
    cst_adapt_table_free(context, &table);
    close_unlabeled(context, &more);
    cst_adapt_rows_close(context, &rows);
    return status;
}

cst_status cst_adapt(cst_context *context, const cst_model *model, cst_pool *pool,
                     const cst_adapt_options *options, cst_model **out, cst_report **report) {
    static const cst_adapt_options defaults = {0};
    if (out)
        *out = NULL;
    if (report)
        *report = NULL;
    CST_ENTER(context);
    const cst_adapt_options *o = options ? options : &defaults;
    if (!model || !pool || (o->labels && !o->rows) || (o->rows && o->row_count < 0))
        return cst_fail(context, CST_ERROR_ARGUMENT,
                        "cst_adapt: model and pool are required, and labels are given with rows");
    cst_notices_clear(context);
    cst_la_enter();
    cst_status status = report ? cst_report_create(context, CST_REPORT_ADAPT, report) : CST_OK;
    CST_THEN(adapt(context, model, pool, o->split ? o->split : "new", o, out, report));
    if (status == CST_OK && report) {
        cst_report_notices(*report, context);
        status = cst_report_finish(context, *report);
    }
    if (status != CST_OK && out) {
        cst_model_free(context, *out);
        *out = NULL;
    }
    cst_la_leave();
    return cst_why(context, report ? cst_report_settle(context, status, report) : status);
}
