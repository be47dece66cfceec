/*
 * The table of classification: what is fitted on and scored, one method's run, bootstrap, tests.
 * Chosen by src/tasks. Paper: sections "Experimental Setup" and "Results".
 */
#include "tasks/classification/classification.h"

#include "fit/label.h"
#include "fit/pipeline.h"
#include "fit/profile.h"
#include "stats/weighted.h"
#include "tasks/classification/shift.h"
#include "tasks/classification/state.h"

#include "stats/statistics.h"

#include <string.h>

enum { SCORES = CST_CLASS_SCORES, BRIEF = 4 }; /* the first four are in every evaluation */

typedef cst_class_state state;
typedef cst_class_predictions predicted;

static const state *state_of(const cst_evaluation *e) {
    return e->data;
}

/* ---- opening ---- */

static cst_status open_targets(cst_context *context, const cst_evaluation *e, state *s) {
    const cst_compare_options *options = e->options;
    if (!e->shift && !e->nested && !cst_pool_has_split(e->pool, e->split))
        return cst_fail_split(context, CST_ERROR_MISMATCH, e->pool, e->split);
    cst_status status = cst_targets_make(context, e->pool, e->split, e->shift ? options->clean : "",
                                         e->shift ? options->ood : NULL, &s->targets);
    for (int32_t t = 0; status == CST_OK && t < s->targets.count; t++) {
        cst_target *target = &s->targets.list[t];
        if (t > 0 || !e->nested) {
            status = cst_target_load(context, e->pool, target);
            continue;
        }
        target->view = s->source.view;
        target->labels = s->source.view.labels;
        target->groups = s->source.view.groups;
        target->weights = s->source.view.weights;
        target->domains = s->source.view.domains;
        target->samples = s->source.view.rows;
    }
    CST_THEN(cst_targets_check_weights(context, e->pool, &s->targets));
    if (status != CST_OK)
        return status;
    s->views = cst_alloc(context, (size_t)s->targets.count, sizeof *s->views);
    for (int32_t t = 0; s->views && t < s->targets.count; t++)
        s->views[t] = s->targets.list[t].view;
    return s->views ? CST_OK : CST_ERROR_MEMORY;
}

static cst_status open(cst_context *context, cst_evaluation *e) {
    const cst_compare_options *options = e->options;
    cst_method method;
    state *s = cst_alloc(context, 1, sizeof *s);
    if (!s)
        return CST_ERROR_MEMORY;
    e->data = s;
    cst_status status = cst_method_parse(context, "default", options->seed, options->settings,
                                         options->setting_count, &method);
    CST_THEN(cst_training_open(context, e->pool, cst_evaluation_fitted(e), method.settings.folds,
                               options->seed, &s->source));
    if (method.settings.checks && !e->checked)
        CST_THEN(cst_training_teach(context, e->pool, cst_evaluation_fitted(e), options->seed,
                                    &s->source, &e->findings));
    if (status != CST_OK)
        return status;
    s->classes = s->source.view.classes;
    e->source = &s->source;
    return open_targets(context, e, s);
}

static void close_state(cst_context *context, cst_evaluation *e) {
    state *s = e->data;
    if (!s)
        return;
    cst_free(context, s->views);
    cst_free(context, s->pointers);
    cst_free(context, s->positions);
    cst_free(context, s->model_views);
    for (int32_t t = 0; s->counted && t < s->targets.count; t++)
        cst_counted_close(context, &s->counted[t]);
    cst_free(context, s->counted);
    if (s->narrowed) {
        cst_training_part_free(context, &s->part);
    } else {
        cst_training_close(context, &s->source);
        cst_targets_free(context, &s->targets);
    }
    cst_free(context, s);
    e->data = NULL;
}

static cst_status narrow(cst_context *context, const cst_evaluation *e, cst_evaluation *out) {
    const state *whole = state_of(e);
    size_t targets = (size_t)whole->targets.count;
    size_t count = (size_t)out->members;
    state *s = cst_alloc(context, 1, sizeof *s);
    if (!s)
        return CST_ERROR_MEMORY;
    out->data = s;
    s->narrowed = true;
    s->classes = whole->classes;
    s->targets = whole->targets;
    s->views = cst_alloc(context, targets, sizeof *s->views);
    s->pointers = cst_alloc(context, targets * count, sizeof *s->pointers);
    cst_status status = s->views && s->pointers
                            ? cst_training_part_make(context, &whole->source, out->positions,
                                                     out->members, &s->part)
                            : CST_ERROR_MEMORY;
    for (size_t t = 0; status == CST_OK && t < targets; t++)
        s->views[t] = cst_view_members(&whole->views[t], out->positions, out->members,
                                       s->pointers + t * count);
    s->source = s->part.source;
    out->source = &s->source;
    return status;
}

/* ---- methods ---- */

/* Calibrated methods that are compared too, after the method itself: the paper's deep ensembles
   have a temperature. */
static const struct {
    const char *of, *name;
} CALIBRATED[] = {{"average", "average+temperature"},
                  {"average", "average+vector"},
                  {"average", "average+isotonic"},
                  {"average", "average+platt"},
                  {"deep-ensemble", "deep-ensemble+temperature"}};
enum { CALIBRATED_COUNT = sizeof CALIBRATED / sizeof CALIBRATED[0] };

static const char *method_name(size_t index) {
    for (size_t i = 0; cst_method_name(i); i++) {
        if (index-- == 0)
            return cst_method_name(i);
        for (size_t c = 0; c < CALIBRATED_COUNT; c++)
            if (strcmp(CALIBRATED[c].of, cst_method_name(i)) == 0 && index-- == 0)
                return CALIBRATED[c].name;
    }
    return NULL;
}

static bool applies(const cst_evaluation *e, const cst_entry *entry) {
    return cst_method_applies(entry->method, e->source);
}

static cst_status check(cst_context *context, const cst_evaluation *e, const cst_entry *entry) {
    return cst_method_check(context, entry->method, e->pool, e->source);
}

static void free_entry(cst_context *context, cst_entry *entry) {
    predicted *p = entry->result;
    for (int32_t t = 0; p && p->rows && t < p->targets; t++)
        cst_free(context, p->rows[t]);
    if (p) {
        cst_free(context, p->rows);
        cst_free(context, p->parts);
    }
    cst_free(context, p);
    cst_free(context, entry->method);
}

/* ---- one method ---- */

static cst_status predict(cst_context *context, const cst_evaluation *e, const cst_method_fit *fit,
                          predicted *out) {
    const state *s = state_of(e);
    size_t classes = (size_t)s->classes;
    size_t targets = (size_t)s->targets.count;
    out->rows = cst_alloc(context, targets, sizeof *out->rows);
    if (!out->rows)
        return CST_ERROR_MEMORY;
    out->targets = s->targets.count;
    cst_status status = CST_OK;
    for (size_t t = 0; status == CST_OK && t < targets; t++) {
        float *to = cst_alloc(context, (size_t)s->views[t].rows * classes, sizeof *to);
        out->rows[t] = to;
        if (!to)
            return CST_ERROR_MEMORY;
        status = t == 0 && e->nested
                     ? cst_method_nested(context, &fit->method, &s->source, e->options->seed, to)
                     : cst_method_fit_predict(context, fit, &s->views[t], to);
    }
    return status;
}

static cst_status run(cst_context *context, const cst_evaluation *e, cst_entry *entry) {
    cst_method_fit fit = {0};
    predicted *p = cst_alloc(context, 1, sizeof *p);
    if (!p)
        return CST_ERROR_MEMORY;
    entry->result = p;
    cst_status status =
        cst_method_fit_run(context, entry->method, e->source, e->options->seed, &fit);
    if (!e->unscored)
        CST_THEN(predict(context, e, &fit, p));
    if (status == CST_OK)
        cst_entry_take_fit(&fit, entry);
    if (!e->unscored)
        CST_THEN(cst_class_score(context, state_of(e), p, entry->scores));
    if (entry->keep)
        CST_THEN(cst_method_fit_model(context, &fit, &entry->made));
    cst_method_fit_free(context, &fit);
    return status;
}

static cst_status label_model(cst_context *context, const cst_evaluation *e,
                              const cst_options *options, cst_entry *entry) {
    return cst_fit_label_rows(context, e->pool, cst_evaluation_fitted(e), e->source, options,
                              entry->name, entry->made.kept, entry->made.model);
}

static cst_status tell(cst_context *context, const cst_evaluation *e, const cst_entry *entry) {
    const state *s = state_of(e);
    const predicted *p = entry->result;
    cst_status status = CST_OK;
    for (int32_t t = 0; status == CST_OK && t < s->targets.count; t++)
        status = cst_tell_predicted(context, e, entry->name, s->targets.list[t].split, p->rows[t],
                                    s->targets.list[t].samples, s->classes);
    return status;
}

/* ---- intervals and tests ---- */

static const float *first_rows(const cst_entry *entry) {
    const predicted *p = entry->result;
    return p->rows[0];
}

/* In the order of the table of scores. */
static void take_intervals(const cst_metric_intervals *from, cst_interval *to) {
    const cst_interval all[] = {from->top1,         from->ece,      from->nll,
                                from->brier,        from->ece_mass, from->ece_classwise,
                                from->ece_debiased, from->corp};
    memcpy(to, all, sizeof all);
}

static cst_status bootstrap(cst_context *context, const cst_evaluation *e,
                            const cst_entry *const *entries, int32_t count, int32_t reference,
                            int32_t resamples, cst_intervals *out) {
    const state *s = state_of(e);
    const cst_target *target = &s->targets.list[0];
    if (cst_shift_scores(&s->targets))
        return CST_OK;
    size_t n = (size_t)count;
    const float **all = cst_alloc(context, n, sizeof *all);
    cst_metric_intervals *found = cst_alloc(context, 2 * n, sizeof *found);
    cst_status status = all && found ? CST_OK : CST_ERROR_MEMORY;
    for (size_t m = 0; status == CST_OK && m < n; m++)
        all[m] = first_rows(entries[m]);
    const cst_bootstrap_input input = {.probabilities = all,
                                       .methods = count,
                                       .rows = target->samples,
                                       .classes = s->classes,
                                       .labels = target->labels,
                                       .weights = target->weights,
                                       .resamples = resamples,
                                       .seed = e->options->seed,
                                       .scores = e->brief ? CST_BOOTSTRAP_BASIC : CST_BOOTSTRAP_ALL,
                                       .reference = reference};
    CST_THEN(cst_bootstrap_weighted(context, &input, found, found + n));
    for (size_t m = 0; status == CST_OK && m < n; m++) {
        take_intervals(&found[m], out->interval + m * SCORES);
        take_intervals(&found[n + m], out->difference + m * SCORES);
    }
    out->done = status == CST_OK;
    cst_free(context, all);
    cst_free(context, found);
    return status;
}

/* Losses of an entry's samples, times the weights of their rows: the mean difference is then the
 * scores'. */
static cst_status losses(cst_context *context, const state *s, const cst_entry *entry, double *nll,
                         unsigned char *correct) {
    const cst_target *target = &s->targets.list[0];
    cst_samples samples = {.nll = nll, .correct = correct};
    cst_status status = cst_samples_fill(context, first_rows(entry), target->samples, s->classes,
                                         target->labels, &samples);
    for (int64_t i = 0; status == CST_OK && target->weights && i < target->samples; i++)
        nll[i] *= target->weights[i];
    return status;
}

static cst_status tests(cst_context *context, const cst_evaluation *e, const cst_entry *entries,
                        int32_t count, int32_t reference, cst_pair_test *out) {
    const state *s = state_of(e);
    int64_t samples = s->targets.list[0].samples;
    if (cst_shift_scores(&s->targets) || samples < 2)
        return CST_OK;
    double *nll = cst_alloc(context, 2 * (size_t)samples, sizeof *nll);
    unsigned char *correct = cst_alloc(context, 2 * (size_t)samples, sizeof *correct);
    cst_status status =
        nll && correct ? losses(context, s, &entries[reference], nll, correct) : CST_ERROR_MEMORY;
    for (int32_t m = 0; status == CST_OK && m < count; m++) {
        cst_t_test t;
        cst_mcnemar_test top1;
        cst_pair_test *pair = &out[m * CST_PAIR_TESTS_MAX];
        if (m == reference)
            continue;
        status = losses(context, s, &entries[m], nll + samples, correct + samples);
        CST_THEN(cst_paired_t_test(context, nll, nll + samples, samples, &t));
        if (status != CST_OK)
            break;
        cst_mcnemar(correct, correct + samples, samples, &top1);
        pair[0] = cst_pair_of_t("nll", &t);
        pair[1].metric = "top1";
        pair[1].test = top1.exact ? "McNemar exact" : "McNemar chi-square";
        pair[1].only_a = top1.only_first;
        pair[1].only_b = top1.only_second;
        pair[1].p = top1.p;
    }
    cst_free(context, nll);
    cst_free(context, correct);
    return status;
}

/* ---- documents ---- */

static void put_size(cst_report *report, const cst_evaluation *e) {
    const state *s = state_of(e);
    json_t *root = cst_report_root(report);
    int64_t samples = 0;
    for (int32_t t = 0; t < s->targets.scored; t++)
        samples += s->targets.list[t].samples;
    cst_report_integer(report, root, "samples", samples);
    cst_view first = s->targets.list[0].view;
    first.rows = samples; /* of one condition */
    if (s->targets.scored == 1 && first.weights)
        cst_report_number(report, root, "effective_samples", cst_view_effective_rows(&first));
    cst_report_integer(report, root, "classes", s->classes);
    if (s->targets.list[0].conditions > 0) {
        cst_report_integer(report, root, "conditions", s->targets.list[0].conditions);
        cst_report_string(report, root, "aggregate", "mean over conditions");
    }
    if (s->targets.scored < 2)
        return;
    json_t *list = cst_report_list(report, root, "splits");
    for (int32_t t = 0; t < s->targets.scored; t++)
        cst_report_add_string(report, list, s->targets.list[t].split);
    cst_report_string(report, root, "aggregate", "mean over splits");
}

/* Corruption, parts of the split, several splits, rows out of distribution. */
static cst_status put_more(cst_context *context, cst_report *report, json_t *const *rows,
                           const cst_evaluation *e, const cst_entry *entries, int32_t count,
                           int32_t reference) {
    const state *s = state_of(e);
    const cst_compare_options *options = e->options;
    cst_shift_method *methods = cst_alloc(context, (size_t)count, sizeof *methods);
    if (!methods)
        return CST_ERROR_MEMORY;
    for (int32_t m = 0; m < count; m++) {
        const predicted *p = entries[m].result;
        bool model = m == 0 && s->model_views;
        methods[m] = (cst_shift_method){.row = rows[m],
                                        .predicted = (const float *const *)p->rows,
                                        .views = model ? s->model_views : s->views,
                                        .members = model ? s->positions : NULL,
                                        .weights = entries[m].weights,
                                        .uses = entries[m].uses};
    }
    const cst_shift shift = {.report = report,
                             .pool = e->pool,
                             .targets = &s->targets,
                             .classes = s->classes,
                             .methods = methods,
                             .count = count,
                             .reference = reference,
                             .resamples = options->resamples,
                             .seed = options->seed,
                             .head_above = options->head_above,
                             .tail_below = options->tail_below,
                             .reference_errors = options->reference_errors};
    cst_status status = cst_shift_report(context, &shift);
    cst_free(context, methods);
    return status;
}

static void put_definitions(cst_report *report, json_t *object, const cst_evaluation *e) {
    cst_shift_definitions(report, object, e->pool, &state_of(e)->targets);
}

static const char *const BASELINES[] = {"best-single", "average", "greedy", "greedy+temperature",
                                        NULL};

const cst_task_ops cst_classification_ops = {
    .task = CST_TASK_CLASSIFICATION,
    .unit = "samples",
    .fit = cst_classification_fit,
    .inspect = cst_classification_inspect,
    .evaluate_member = cst_classification_evaluate_member,
    .method_name = method_name,
    .definition = cst_metric_definition,
    .open = open,
    .close = close_state,
    .narrow = narrow,
    .parse = cst_entry_parse_rows,
    .check = check,
    .applies = applies,
    .run = run,
    .free_entry = free_entry,
    .label_model = label_model,
    .hash = cst_hash_rows,
    .bootstrap = bootstrap,
    .tests = tests,
    .tell = tell,
    .open_model = cst_class_open_model,
    .run_model = cst_class_run_model,
    .seen = cst_class_seen,
    .open_baselines = cst_class_open_baselines,
    .baselines = BASELINES,
    .brief_scores = BRIEF,
    .put_own = cst_class_put_own,
    .profile = &cst_profile_rows,
    .put_size = put_size,
    .put_more = put_more,
    .put_definitions = put_definitions,
};
