/* Methods by name, one run of one, intervals, rows of a document. See the header. */
#include "fit/harness.h"
#include "fit/document.h"
#include "fit/family.h"

#include "core/la.h"
#include "model/fit_rows.h"
#include "model/patterns.h"

#include <math.h>
#include <string.h>

/* ---- opening ---- */

static bool is_of_rows(const cst_task_ops *ops) {
    return ops->task == CST_TASK_CLASSIFICATION || ops->task == CST_TASK_REGRESSION;
}

/* Rows that are scored and not fitted on. */
static cst_status check_scored(cst_context *context, const cst_evaluation *e) {
    bool rows = e->ops->task == CST_TASK_CLASSIFICATION || cst_task_has_outputs(e->ops->task);
    if (!rows || e->nested || !cst_pool_has_split(e->pool, e->split) ||
        cst_pool_conditions(e->pool, e->split) > 0)
        return CST_OK;
    cst_counted counted = {0};
    CST_SCOPE(scope);
    CST_OWN(context, scope, cst_counted, &counted);
    CST_TRY(cst_counted_open(context, e->pool, e->split, NULL, 0, &counted));
    const cst_check_source source = {.pool = e->pool,
                                     .split = e->split,
                                     .view = &counted.view,
                                     .rows = counted.rows,
                                     .shares = true};
    return cst_check_scored(context, &source);
}

/* The caller's settings; where it gave none, those of preset default. */
static cst_status read_settings(cst_context *context, const cst_evaluation *e, cst_settings *out) {
    return cst_method_settings(context, "default", e->options->seed, e->options->settings,
                               (int32_t)e->options->setting_count, NULL, out);
}

static cst_status check_data(cst_context *context, cst_evaluation *e) {
    cst_settings settings;
    CST_TRY(read_settings(context, e, &settings));
    if (!settings.checks || e->checked)
        return CST_OK;
    CST_TRY(cst_training_check(context, e->pool, cst_evaluation_fitted(e), e->source, NULL,
                               &e->findings));
    return check_scored(context, e);
}

CST_OWNED(cst_cka_result)

static cst_status compute_cka(cst_context *context, cst_evaluation *e) {
    size_t cells = (size_t)e->members * (size_t)e->members;
    cst_settings settings;
    cst_cka_result found = {0};
    CST_SCOPE(scope);
    CST_OWN(context, scope, cst_cka_result, &found);
    CST_TRY(read_settings(context, e, &settings));
    settings.cka.lsh = CST_LSH_OFF;
    settings.cka.threshold = 0;
    CST_TRY(e->ops->cka ? e->ops->cka(context, e, &settings.cka, &found)
                        : cst_cka(context, &e->source->view, &settings.cka, &found));
    CST_TAKE(context, &e->scope, e->cka, cells);
    memcpy(e->cka, found.cka, cells * sizeof *e->cka);
    return CST_OK;
}

cst_status cst_evaluation_similarities(cst_context *context, cst_evaluation *e) {
    size_t members = (size_t)e->members;
    if (!e->pearson) {
        CST_TAKE(context, &e->scope, e->pearson, members * members);
        CST_TRY(cst_pearson_about(context, &e->source->view, e->pearson));
    }
    bool some = e->members > 1 && e->members <= CST_CKA_CONDITION_MEMBERS;
    return !e->cka && some && e->source->view.rows >= CST_CKA_CONDITION_ROWS
               ? compute_cka(context, e)
               : CST_OK;
}

cst_status cst_evaluation_take(cst_context *context, cst_evaluation *e) {
    cst_release_fn release = e->positions ? NULL : e->ops->release; /* a part borrows */
    e->data = cst_take(context, &e->scope, 1, e->ops->state_bytes);
    if (!e->data)
        return CST_ERROR_MEMORY;
    return release ? cst_scope_own(context, &e->scope, release, e->data) : CST_OK;
}

cst_status cst_evaluation_begin(cst_context *context, cst_evaluation *e, const cst_model *model) {
    if (!e->data)
        CST_TRY(cst_evaluation_take(context, e));
    return e->ops->open(context, e, model);
}

cst_status cst_evaluation_subset(cst_context *context, const cst_evaluation *e, int32_t members,
                                 const int32_t *positions, cst_evaluation *out) {
    *out = *e;
    out->findings = (cst_findings){0};
    out->scope = (cst_scope){0};
    out->pearson = NULL;
    out->cka = NULL;
    out->members = members;
    out->positions = positions;
    CST_TRY(cst_evaluation_take(context, out));
    return e->ops->subset(context, e, out);
}

cst_status cst_evaluation_open(cst_context *context, const cst_task_ops *ops, cst_pool *pool,
                               const cst_compare_options *options, bool shift,
                               cst_evaluation *out) {
    double start = cst_seconds();
    *out = (cst_evaluation){.ops = ops,
                            .pool = pool,
                            .options = options,
                            .split = options->split ? options->split : "oof",
                            .fitted = out->fitted,
                            .checked = out->checked,
                            .shift = shift,
                            .members = (int32_t)cst_pool_members(pool)};
    out->nested = strcmp(out->split, cst_evaluation_fitted(out)) == 0;
    cst_settings settings;
    CST_TRY(read_settings(context, out, &settings));
    CST_TRY(cst_evaluation_metric(context, out, settings.metric));
    if (options->predicted && !ops->told)
        return cst_fail(context, CST_ERROR_UNSUPPORTED,
                        "a comparison of a %s pool does not provide the predictions of the "
                        "methods; fit, then predict",
                        cst_task_text(ops->task));
    CST_TRY(cst_evaluation_begin(context, out, NULL));
    CST_TRY(check_data(context, out));
    CST_TRY(cst_evaluation_similarities(context, out));
    out->seconds_read = cst_seconds() - start;
    return CST_OK;
}

void cst_evaluation_close(cst_context *context, cst_evaluation *e) {
    cst_scope_free(&e->scope);
    cst_findings_free(context, &e->findings);
    *e = (cst_evaluation){0};
}

/* ---- rows of a model ---- */

static cst_status count_unpredicted(cst_context *context, const cst_view *view, int64_t *out) {
    *out = 0;
    if (!cst_view_has_absent(view))
        return CST_OK;
    CST_SCOPE(scope);
    CST_NEW(context, scope, uint8_t, there, view->rows);
    cst_view_any_there(view, there);
    for (int64_t i = 0; i < view->rows; i++)
        *out += !there[i];
    return CST_OK;
}

cst_status cst_scored_members(cst_context *context, const cst_model *model, cst_pool *pool,
                              const char *split, int32_t *positions, int32_t *count) {
    CST_SCOPE(scope);
    cst_view view = {0};
    int64_t unpredicted = 0;
    int32_t inputs = cst_model_inputs(model);
    CST_TRY(cst_model_view(context, scope, model, pool, split, &view)); /* loads */
    CST_TRY(count_unpredicted(context, &view, &unpredicted));
    *count = inputs;
    for (int32_t k = 0; k < inputs; k++) {
        positions[k] = cst_pool_member_index(pool, cst_model_member_name(model, k));
        unpredicted = view.data[k] ? unpredicted : 0; /* a member without a file is not filled in */
    }
    if (unpredicted > 0) {
        CST_TRY(cst_pool_load(context, pool, split));
        for (int32_t k = 0; k < cst_pool_members(pool); k++) {
            bool other = cst_pool_member_has_split(pool, k, split);
            for (int32_t j = 0; j < inputs; j++)
                other = other && positions[j] != k;
            if (other)
                positions[(*count)++] = k;
        }
    }
    return CST_OK;
}

cst_status cst_scored_narrow(cst_context *context, const cst_model *model, const char *split,
                             cst_view *rows) {
    int64_t filled = 0;
    rows->members = cst_model_inputs(model);
    CST_TRY(count_unpredicted(context, rows, &filled));
    if (filled > 0)
        cst_notice(
            context,
            "split '%s': no member of the model predicted %lld of %lld rows; they are scored "
            "as filled in from the other members of the pool, and cannot be predicted "
            "without these",
            split, (long long)filled, (long long)rows->rows);
    return CST_OK;
}

/* ---- one method ---- */

/* An entry without scores. */
void cst_entry_begin(const char *name, cst_entry *out) {
    *out = (cst_entry){.mix = CST_MIX_OTHER, .kappa_gram = NAN, .kappa_cka = NAN, .flops_rel = NAN};
    (void)cst_snprintf(out->name, sizeof out->name, "%s", name);
    for (int s = 0; s < CST_TASK_SCORES_MAX; s++)
        out->scores[s] = NAN;
}

cst_status cst_entry_make(cst_context *context, const cst_evaluation *e, const char *name,
                          const char *const *settings, int32_t count, cst_entry *out) {
    cst_entry_begin(name, out);
    if (strlen(name) >= sizeof out->name)
        return cst_fail(context, CST_ERROR_ARGUMENT, "unknown method '%.60s...'", name);
    if (!is_of_rows(e->ops) && cst_added_find(context, name))
        return cst_fail(context, CST_ERROR_UNSUPPORTED,
                        "'%s': methods of your own are supported for classification and "
                        "regression only",
                        name);
    out->method = cst_take(context, &out->scope, 1, e->ops->method_bytes);
    return out->method ? e->ops->parse(context, e, settings, count, out) : CST_ERROR_MEMORY;
}

cst_status cst_entry_predict(cst_context *context, const cst_evaluation *e, const cst_model *model,
                             cst_entry *entry) {
    entry->result = cst_take(context, &entry->scope, 1, e->ops->result_bytes);
    if (!entry->result)
        return CST_ERROR_MEMORY;
    CST_TRY(e->ops->run(context, e, model, entry));
    return cst_entry_metric(context, e, entry);
}

bool cst_entry_applies(const cst_evaluation *e, const cst_entry *entry) {
    return !entry->tags || cst_ensemble_applies(entry->tags, e->source->ensembles, e->members);
}

cst_status cst_entry_check_settings(cst_context *context, const cst_evaluation *e,
                                    const cst_entry *entry) {
    if (!entry->preset)
        return CST_OK;
    if (!cst_task_has_outputs(e->ops->task))
        CST_TRY(cst_balance_check(context, entry->settings));
    return cst_training_check_costs(context, e->pool, e->source, &entry->settings->limits);
}

cst_status cst_entry_check(cst_context *context, const cst_evaluation *e, const cst_entry *entry) {
    if (!cst_entry_applies(e, entry))
        return cst_fail(context, CST_ERROR_INPUT,
                        "needs members with its tag in the manifest (key 'ensemble'), at least two "
                        "for deep ensembles and snapshots; this pool has too few");
    return cst_entry_check_settings(context, e, entry);
}

cst_status cst_entry_leave_out(cst_context *context, const cst_entry *entry, bool last,
                               cst_status status) {
    char why[256];
    bool about_data =
        status == CST_ERROR_INPUT || status == CST_ERROR_NUMERIC || status == CST_ERROR_UNSUPPORTED;
    if (!about_data && status != CST_ERROR_ARGUMENT)
        return status;
    (void)cst_snprintf(why, sizeof why, "%s", cst_last_error(context));
    if (entry->asked || last)
        return cst_fail(context, status, "method %s: %s", entry->name, why);
    cst_notice(context, "%s is left out: %s", entry->name, why);
    return CST_OK;
}

/* Members and their costs, in the pool's positions. */
static cst_status describe(cst_context *context, const cst_evaluation *e,
                           const cst_evaluation *part, cst_entry *entry) {
    CST_SCOPE(scope);
    CST_NEW(context, scope, int32_t, used, e->members);      /* in the pool */
    CST_NEW(context, scope, int32_t, mine_used, e->members); /* in the part */
    CST_NEW(context, &entry->scope, bool, uses, e->members);
    CST_NEW(context, &entry->scope, double, weights, e->members);
    for (int32_t j = 0; j < part->members; j++) {
        int32_t k = part->positions ? part->positions[j] : j;
        weights[k] = entry->weights ? entry->weights[j] : 0;
        if (!entry->uses[j])
            continue;
        uses[k] = true;
        mine_used[entry->models] = j;
        used[entry->models++] = k;
    }
    entry->uses = uses;
    entry->weights = entry->weights ? weights : NULL;
    entry->flops_rel = cst_training_flops_rel(e->source, uses);
    if (!*entry->detail && entry->models == 1)
        (void)cst_snprintf(entry->detail, sizeof entry->detail, "%.250s",
                           cst_pool_member_name(e->pool, used[0]));
    size_t length = strlen(entry->detail);
    if (*entry->calibrator)
        (void)cst_snprintf(entry->detail + length, sizeof entry->detail - length, "%s%.60s",
                           length > 0 ? ", " : "", entry->calibrator);
    /* Similarities of the part are those of the whole, unless it has its own. */
    const cst_evaluation *from = part->pearson ? part : e;
    const int32_t *places = part->pearson ? mine_used : used;
    if (from->pearson)
        CST_TRY(cst_gram_kappa(context, from->pearson, from->members, places, entry->models,
                               &entry->kappa_gram));
    if (from->cka)
        return cst_gram_kappa(context, from->cka, from->members, places, entry->models,
                              &entry->kappa_cka);
    if (from->pearson && entry->models == 1)
        entry->kappa_cka = 1;
    return CST_OK;
}

cst_status cst_entry_run(cst_context *context, const cst_evaluation *e, const cst_evaluation *part,
                         cst_entry *entry) {
    part = part ? part : e;
    CST_TAKE(context, &entry->scope, entry->uses, part->members);
    cst_notice_about(context, entry->name);
    cst_status status = cst_entry_predict(context, part, NULL, entry);
    cst_notice_about(context, NULL);
    return status == CST_OK ? describe(context, e, part, entry) : status;
}

cst_status cst_fail_row(cst_context *context, cst_status status, const char *method,
                        const char *key, const char *value) {
    char why[512];
    if (status != CST_ERROR_INPUT && status != CST_ERROR_NUMERIC && status != CST_ERROR_ARGUMENT)
        return status;
    (void)cst_snprintf(why, sizeof why, "%s", cst_last_error(context));
    return key ? cst_fail(context, status, "%s with %s=%.60s: %s", method, key, value, why)
               : cst_fail(context, status, "%s: %s", method, why);
}

void cst_entry_free(cst_context *context, cst_entry *entry) {
    cst_scope_free(&entry->scope);
    cst_made_model_free(context, &entry->made);
    *entry = (cst_entry){0};
}

/* ---- methods of rows ---- */

void cst_entry_take_method(const cst_method *method, cst_entry *entry) {
    entry->preset = method->preset;
    entry->definition = cst_method_definition(method);
    entry->settings = &method->settings;
    entry->tags = method->baseline ? cst_ensemble_rule_of(method->baseline->ensemble) : NULL;
}

cst_status cst_entry_parse_rows(cst_context *context, const cst_evaluation *e,
                                const char *const *settings, int32_t count, cst_entry *entry) {
    CST_TRY(
        cst_method_parse(context, entry->name, e->options->seed, settings, count, entry->method));
    cst_entry_take_method(entry->method, entry);
    return CST_OK;
}

cst_status cst_entry_take_weights(cst_context *context, const double *weights, int32_t members,
                                  cst_entry *entry) {
    entry->weights = NULL;
    if (!weights)
        return CST_OK;
    CST_TAKE(context, &entry->scope, entry->weights, members);
    memcpy(entry->weights, weights, (size_t)members * sizeof *weights);
    return CST_OK;
}

cst_status cst_entry_take_fit(cst_context *context, const cst_method_fit *fit, cst_entry *entry) {
    memcpy(entry->uses, fit->uses, (size_t)fit->members * sizeof *entry->uses);
    CST_TRY(cst_entry_take_weights(context, fit->weights, fit->members, entry));
    entry->mix = fit->mix;
    entry->seconds = fit->seconds;
    (void)cst_snprintf(entry->detail, sizeof entry->detail, "%.100s",
                       fit->method.baseline ? fit->baseline.detail : "");
    (void)cst_snprintf(entry->calibrator, sizeof entry->calibrator, "%.60s",
                       fit->calibrator.detail);
    return CST_OK;
}

/* ---- several methods ---- */

enum { METHODS_MAX = 512 };

typedef struct method_list {
    const cst_evaluation *e;
    cst_entry *entries; /* [METHODS_MAX] and those of the user's own */
    int32_t count;
} method_list;

int32_t cst_entries_find(const cst_entry *entries, int32_t count, const char *name) {
    for (int32_t m = 0; m < count; m++)
        if (strcmp(entries[m].name, name) == 0)
            return m;
    return -1;
}

static cst_status add_method(cst_context *context, method_list *l, const char *name, bool asked) {
    const cst_compare_options *o = l->e->options;
    int32_t found = cst_entries_find(l->entries, l->count, name);
    if (found >= 0) {
        l->entries[found].asked = l->entries[found].asked || asked;
        return CST_OK;
    }
    if (l->count == METHODS_MAX)
        return cst_fail(context, CST_ERROR_LIMIT, "more than %d methods", METHODS_MAX);
    cst_entry *entry = &l->entries[l->count];
    cst_status status =
        cst_entry_make(context, l->e, name, o->settings, (int32_t)o->setting_count, entry);
    entry->asked = asked;
    bool runs = status == CST_OK;
    if (runs && !asked && !cst_entry_applies(l->e, entry)) {
        runs = false; /* one of all: without a word */
    } else if (runs) {
        status = cst_entry_check(context, l->e, entry);
        runs = status == CST_OK;
        if (!runs)
            status = cst_entry_leave_out(context, entry, false, status);
    }
    if (runs)
        l->count++;
    else
        cst_entry_free(context, entry);
    return status;
}

static cst_status add_all(cst_context *context, method_list *l, bool extras) {
    const cst_task_ops *ops = l->e->ops;
    for (size_t i = 0; ops->method_name(i); i++)
        if (extras || !cst_method_is_extra(ops->method_name(i)))
            CST_TRY(add_method(context, l, ops->method_name(i), false));
    for (size_t i = 0; is_of_rows(ops) && cst_added_at(context, i); i++)
        CST_TRY(add_method(context, l, cst_added_at(context, i)->name, false));
    return CST_OK;
}

static bool is_of_task(const cst_task_ops *ops, const char *name) {
    size_t length = strcspn(name, "+");
    bool found = false;
    for (size_t i = 0; !found && ops->method_name(i); i++)
        found = strncmp(ops->method_name(i), name, length) == 0 &&
                strcspn(ops->method_name(i), "+") == length;
    return found;
}

static cst_status add_defaults(cst_context *context, method_list *l, const char *const *names) {
    if (!names)
        return add_all(context, l, false);
    for (; *names; names++)
        if (is_of_task(l->e->ops, *names))
            CST_TRY(add_method(context, l, *names, false));
    return CST_OK;
}

cst_status cst_entries_take(cst_context *context, cst_scope *scope, int32_t count,
                            cst_entry **out) {
    CST_TAKE(context, scope, *out, count);
    for (int32_t m = 0; m < count; m++)
        CST_OWN(context, scope, cst_entry, *out + m);
    return CST_OK;
}

cst_status cst_entries_list(cst_context *context, cst_scope *scope, const cst_evaluation *e,
                            const char *const *defaults, cst_entry **entries, int32_t *count) {
    const cst_compare_options *o = e->options;
    method_list l = {.e = e};
    CST_TRY(cst_entries_take(context, scope, METHODS_MAX + (int32_t)o->own_count, &l.entries));
    if (o->method_count < 1)
        CST_TRY(add_defaults(context, &l, defaults));
    for (int32_t m = 0; m < o->method_count; m++)
        CST_TRY(strcmp(o->methods[m], "all") == 0 ? add_all(context, &l, true)
                                                  : add_method(context, &l, o->methods[m], true));
    *entries = l.entries;
    *count = l.count;
    return CST_OK;
}

/* ---- intervals ---- */

static cst_status make_room(cst_context *context, cst_scope *scope, size_t cells,
                            cst_intervals *out) {
    *out = (cst_intervals){.done = true};
    CST_TAKE(context, scope, out->interval, cells);
    CST_TAKE(context, scope, out->difference, cells);
    CST_TAKE(context, scope, out->p, cells);
    for (size_t i = 0; i < cells; i++) {
        out->interval[i] = out->difference[i] = (cst_interval){NAN, NAN, NAN};
        out->p[i] = NAN;
    }
    return CST_OK;
}

/* Of the task's scores and of the metric, in one place. */
static cst_status fill_intervals(cst_context *context, const cst_evaluation *e,
                                 const void *const *results, int32_t count, int32_t reference,
                                 int32_t resamples, cst_intervals *out) {
    int32_t scores = 0;
    int32_t all = 0;
    cst_intervals own;
    cst_intervals metric;
    (void)cst_task_scores(e->ops->task, &scores);
    (void)cst_evaluation_scores(e, &all);
    if (all == scores)
        return e->ops->bootstrap(context, e, results, count, reference, resamples, out);
    CST_SCOPE(scope);
    CST_TRY(make_room(context, scope, (size_t)count * (size_t)scores, &own));
    CST_TRY(make_room(context, scope, (size_t)count, &metric));
    CST_TRY(e->ops->bootstrap(context, e, results, count, reference, resamples, &own));
    if (own.done)
        CST_TRY(cst_entries_metric_intervals(context, e, results, count, reference, resamples,
                                             metric.interval, metric.difference, metric.p));
    out->done = own.done;
    for (int32_t i = 0; i < count * all; i++) {
        const cst_intervals *from = i % all == scores ? &metric : &own;
        int32_t at = i % all == scores ? i / all : i / all * scores + i % all;
        out->interval[i] = from->interval[at];
        out->difference[i] = from->difference[at];
        out->p[i] = from->p[at];
    }
    return CST_OK;
}

cst_status cst_intervals_make(cst_context *context, cst_scope *scope, const cst_evaluation *e,
                              const cst_entry *entries, int32_t count, int32_t reference,
                              int32_t resamples, cst_intervals *out) {
    int32_t scores = 0;
    (void)cst_evaluation_scores(e, &scores);
    size_t width = (size_t)scores;
    cst_intervals pair;
    *out = (cst_intervals){0};
    if (resamples <= 0)
        return CST_OK;
    CST_SCOPE(own);
    CST_NEW(context, own, const void *, all, count);
    CST_TRY(make_room(context, scope, (size_t)count * width, out));
    for (int32_t m = 0; m < count; m++)
        all[m] = entries[m].result;
    CST_TRY(fill_intervals(context, e, all, count, reference < 0 ? 0 : reference, resamples, out));
    for (int32_t m = 1; reference < 0 && out->done && m < count;
         m++) { /* each and the one before */
        const void *const two[] = {all[m], all[m - 1]};
        CST_TRY(make_room(context, own, 2 * width, &pair));
        CST_TRY(fill_intervals(context, e, two, 2, 1, resamples, &pair));
        memcpy(out->difference + (size_t)m * width, pair.difference,
               width * sizeof *pair.difference);
    }
    return CST_OK;
}

/* ---- documents ---- */

void cst_put_header(cst_report *report, const cst_evaluation *e) {
    json_t *root = cst_report_root(report);
    CST_PUT(report, root, CST_S("task", cst_task_name(e->ops->task)), CST_S("split", e->split),
            CST_S("scored", e->nested ? "nested" : "held-out"));
    cst_put_size(report, e);
    CST_PUT(report, root, CST_I("models_in", cst_pool_members(e->pool)),
            CST_I("seed", (int64_t)e->options->seed));
    cst_put_metric(report, e->metric);
    cst_findings_put(report, e->pool, &e->findings, false);
}

void cst_put_size(cst_report *report, const cst_evaluation *e) {
    (void)e->ops->describe(
        NULL, CST_PART_SIZE,
        &(cst_description){.report = report, .object = cst_report_root(report), .e = e});
}

/* The scores that are shown: skips those between the first *shown and the metric. */
static const cst_score_spec *shown_scores(const cst_evaluation *e, int32_t *count, int32_t *shown) {
    const cst_score_spec *specs = cst_evaluation_scores(e, count);
    *shown = e->brief && e->ops->brief_scores ? e->ops->brief_scores : *count;
    return specs;
}

/* "KEY_ci". */
static void put_interval(cst_report *report, json_t *object, const char *key,
                         const cst_interval *interval) {
    char name[40];
    double ends[2] = {interval->low, interval->high};
    (void)cst_snprintf(name, sizeof name, "%s_ci", key);
    cst_report_numbers(report, object, name, ends, 2);
}

cst_status cst_put_scores(cst_context *context, cst_report *report, json_t *row,
                          const cst_evaluation *e, const cst_entry *entry,
                          const cst_intervals *intervals, int32_t m) {
    int32_t count = 0;
    int32_t shown = 0;
    const cst_score_spec *specs = shown_scores(e, &count, &shown);
    for (int32_t s = 0; s < count; s++) {
        if (s >= shown && !(e->added && s == count - 1))
            continue;
        cst_report_number(report, row, specs[s].key, entry->scores[s]);
        if (intervals->done && specs[s].has_interval)
            put_interval(report, row, specs[s].key, &intervals->interval[m * count + s]);
    }
    return e->ops->describe(
        context, CST_PART_ROW,
        &(cst_description){.report = report, .object = row, .e = e, .entries = entry, .count = 1});
}

void cst_put_difference(cst_report *report, json_t *row, const cst_evaluation *e,
                        const cst_intervals *intervals, int32_t m) {
    int32_t count = 0;
    int32_t shown = 0;
    const cst_score_spec *specs = shown_scores(e, &count, &shown);
    if (!intervals->done)
        return;
    json_t *part = cst_report_object(report, row, "difference");
    for (int32_t s = 0; s < count; s++) {
        const cst_interval *interval = &intervals->difference[m * count + s];
        if (!specs[s].has_interval || (s >= shown && !(e->added && s == count - 1)))
            continue;
        cst_report_number(report, part, specs[s].key, interval->value);
        put_interval(report, part, specs[s].key, interval);
    }
}

void cst_put_weights(cst_report *report, json_t *row, const cst_evaluation *e,
                     const cst_entry *entry) {
    static const char *const mixes[] = {"linear", "log-linear", NULL};
    cst_report_string(report, row, "mix", mixes[entry->mix]);
    if (entry->weights)
        cst_report_numbers(report, row, "weights", entry->weights, e->members);
    else
        cst_report_value(report, row, "weights", json_null());
}

void cst_put_cost(cst_report *report, json_t *row, const cst_entry *entry) {
    if (entry->own && entry->models == 0)
        cst_report_value(report, row, "models", json_null());
    else
        cst_report_integer(report, row, "models", entry->models);
    CST_PUT(report, row, CST_N("kappa_gram", entry->kappa_gram),
            CST_N("kappa_cka", entry->kappa_cka), CST_N("flops_rel", entry->flops_rel),
            CST_N("seconds", entry->seconds));
}

void cst_put_score_definitions(cst_report *report, const cst_evaluation *e) {
    int32_t count = 0;
    const cst_score_spec *specs = cst_task_scores(e->ops->task, &count);
    json_t *object = cst_report_object(report, cst_report_root(report), "definitions");
    if (e->added)
        cst_report_string(report, object, e->metric.metric->shown.key,
                          e->metric.metric->definition);
    for (int32_t s = 0; s < count; s++)
        cst_report_string(report, object, specs[s].key, e->ops->definition(specs[s].key));
    (void)e->ops->describe(NULL, CST_PART_DEFINITIONS,
                           &(cst_description){.report = report, .object = object, .e = e});
}

void cst_put_condition(cst_report *report, json_t *object, const cst_pool *pool, const char *split,
                       int32_t condition) {
    CST_PUT(report, object, CST_S("shift", cst_pool_condition_shift(pool, split, condition)),
            CST_S("kind", cst_pool_condition_kind(pool, split, condition)),
            CST_N("severity", cst_pool_condition_severity(pool, split, condition)));
}

void cst_notice_seen(cst_context *context, const char *split) {
    cst_notice(context,
               "the model was fitted on the rows of split '%s', so these scores are optimistic; "
               "score a split that it has not seen, or use the nested scores in the report of fit",
               split);
}

bool cst_seen_labels(cst_context *context, const cst_evaluation *e, const cst_model *model,
                     const int32_t *labels, int64_t count) {
    bool seen = cst_fitted_on(model, e->split, labels, count);
    if (seen)
        cst_notice_seen(context, e->split);
    return seen;
}

cst_status cst_seen_targets(cst_context *context, const cst_evaluation *e, const cst_model *model,
                            const cst_view *rows, bool *out) {
    size_t cells = (size_t)rows->rows * (size_t)rows->classes;
    CST_SCOPE(scope);
    CST_NEW(context, scope, int32_t, words, 2 * cells);
    cst_target_words(rows->targets, cells, words);
    *out = cst_seen_labels(context, e, model, words, (int64_t)(2 * cells));
    return CST_OK;
}

/* ---- calls ---- */

cst_status cst_entry_tell(cst_context *context, const cst_evaluation *e, const cst_entry *entry) {
    cst_told told;
    const cst_compare_options *o = e->options;
    for (int32_t i = 0; o->predicted && !entry->own && e->ops->told(e, entry, i, &told); i++) {
        cst_run *run = cst_calling_begin(context);
        cst_status status =
            o->predicted(o->user, entry->name, told.split, told.values, told.rows, told.columns);
        cst_calling_end(context, run);
        CST_TRY(status);
    }
    return CST_OK;
}

cst_status cst_run_call(cst_context *context, cst_report_kind kind, cst_call_fn *fill, void *user,
                        cst_report **report) {
    cst_notices_clear(context);
    CST_LA();
    cst_status status = cst_report_begin(context, kind, report);
    CST_THEN(fill(context, user, *report));
    CST_THEN(cst_progress_end(context, cst_json_text(cst_report_root(*report), "command")));
    return cst_finish_report(context, status, report);
}

cst_status cst_finish_report(cst_context *context, cst_status status, cst_report **report) {
    if (status == CST_OK) {
        cst_report_notices(*report, context);
        status = cst_report_finish(context, *report);
    }
    return cst_report_settle(context, status, report);
}
