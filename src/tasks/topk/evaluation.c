/* The table of top-k: methods by name, what is fitted on and scored, bootstrap, tests, and scores
 * of a member. Chosen by src/tasks. docs/topk.md. */
#include "data/pool/pool.h"
#include "fit/harness.h"
#include "fit/label.h"
#include "tasks/topk/topk.h"

#include <math.h>
#include <string.h>

/* A method by name: a baseline or a preset of the stack. */
typedef struct topk_method {
    const cst_topk_baseline *baseline; /* NULL: a preset */
    cst_settings settings;             /* of a preset */
} topk_method;

/* What an evaluation holds: that of some members borrows rows of the whole. */
typedef struct state {
    cst_training source;
    cst_view rows;          /* what is scored */
    cst_counted counted;    /* what it is in, unless it is the source's */
    cst_counted model_rows; /* the rows scored, with the members of a model */
} state;

/* What a method, a model or a member predicted: an entry's result. */
typedef struct predicted {
    float *outcomes; /* [rows][CST_TOPK_OUTCOME] */
} predicted;

static state *state_of(const cst_evaluation *e) {
    return e->data;
}

/* ---- names ---- */

/* The paper's own have stages that this task has not. */
static const char *const PRESETS[] = {"default", "compact", "best", NULL};

static const char *method_name(size_t index) {
    size_t baselines = 0;
    for (; cst_topk_baseline_at(baselines); baselines++)
        if (baselines == index)
            return cst_topk_baseline_name(cst_topk_baseline_at(index));
    index -= baselines;
    return index < sizeof PRESETS / sizeof PRESETS[0] ? PRESETS[index] : NULL;
}

static cst_status parse(cst_context *context, const cst_evaluation *e, const char *const *settings,
                        int32_t count, cst_entry *entry) {
    topk_method *method = entry->method;
    method->baseline = cst_topk_baseline_find(entry->name);
    if (method->baseline) {
        entry->definition = cst_topk_baseline_definition(method->baseline);
        return CST_OK;
    }
    for (size_t i = 0; PRESETS[i]; i++) {
        if (strcmp(entry->name, PRESETS[i]) != 0)
            continue;
        entry->definition = "the log-linear pool, exact on the union of the lists of a row, of the "
                            "members that are not redundant and were selected";
        entry->preset = PRESETS[i];
        entry->settings = &method->settings;
        CST_TRY(cst_method_settings(context, entry->preset, e->options->seed, settings, count,
                                    cst_topk_check_options, &method->settings));
        method->settings.drop = false;
        return CST_OK;
    }
    char list[CST_METHOD_LIST_CHARS];
    bool known = strchr(entry->name, '+') || cst_method_describe(entry->name);
    cst_method_names(method_name, list);
    return cst_fail(context, known ? CST_ERROR_UNSUPPORTED : CST_ERROR_ARGUMENT,
                    known ? "method '%.60s' is for other tasks; the methods for topk are %s"
                          : "unknown method '%.60s'; the methods for topk are %s",
                    entry->name, list);
}

/* ---- opening ---- */

static cst_status open_source(cst_context *context, cst_evaluation *e, const char *split,
                              int32_t folds) {
    state *s = e->data;
    CST_OWN(context, &e->scope, cst_training, &s->source);
    CST_TRY(cst_training_open(context, e->pool, split, &(cst_fold_plan){.count = folds},
                              e->options->seed, &s->source));
    e->source = &s->source;
    return CST_OK;
}

/* The rows of the split, with some members or (NULL) all, to be scored. */
static cst_status open_rows(cst_context *context, cst_evaluation *e, const int32_t *members,
                            int32_t count, cst_counted *counted) {
    state *s = state_of(e);
    CST_OWN(context, &e->scope, cst_counted, counted);
    CST_TRY(cst_counted_open(context, e->pool, e->split, members, count, counted));
    s->rows = counted->view;
    s->rows.groups = counted->groups;
    return s->rows.labels ? CST_OK
                          : cst_fail(context, CST_ERROR_INPUT,
                                     "split '%s' has no labels to score against", e->split);
}

static cst_status open_methods(cst_context *context, cst_evaluation *e) {
    const cst_compare_options *options = e->options;
    state *s = e->data;
    cst_settings settings;
    CST_TRY(cst_method_settings(context, "default", options->seed, options->settings,
                                (int32_t)options->setting_count, cst_topk_check_options,
                                &settings));
    CST_TRY(open_source(context, e, cst_evaluation_fitted(e), settings.folds.count));
    s->rows = s->source.view;
    e->checked = true;
    if (e->nested)
        return CST_OK;
    CST_TRY(cst_pool_load(context, e->pool, e->split));
    return open_rows(context, e, NULL, 0, &s->counted);
}

static cst_status open(cst_context *context, cst_evaluation *e, const cst_model *model) {
    state *s = e->data;
    int32_t count = 0;
    if (!model && !e->brief)
        return open_methods(context, e);
    if (!model) {
        CST_TRY(cst_pool_load(context, e->pool, e->split));
        CST_TRY(open_rows(context, e, NULL, 0, &s->counted));
        return open_source(context, e, "oof", 5);
    }
    CST_SCOPE(scope);
    CST_NEW(context, scope, int32_t, positions,
            cst_model_inputs(model) + cst_pool_members(e->pool));
    CST_TRY(cst_scored_members(context, model, e->pool, e->split, positions, &count));
    return open_rows(context, e, positions, count, &s->model_rows);
}

static cst_status subset(cst_context *context, const cst_evaluation *e, cst_evaluation *out) {
    const state *whole = e->data;
    state *s = out->data;
    CST_TRY(cst_training_part(context, &out->scope, &whole->source, out->positions, out->members,
                              &s->source));
    CST_NEW(context, &out->scope, const float *, pointers, out->members);
    s->rows = cst_view_members(&whole->rows, out->positions, out->members, pointers);
    out->source = &s->source;
    return CST_OK;
}

/* ---- a baseline ---- */

/* By a mix of all members of a training, on rows of them. */
static cst_status run_mix(cst_context *context, const cst_topk_baseline *baseline,
                          const cst_training *source, const cst_view *rows, cst_topk_made *made,
                          float *out) {
    const cst_view even = cst_view_even(&source->view);
    const double prior = 10;
    const cst_topk_rows fitted = {&even, source->folds, source->fold_count, prior, CST_TOPK_ENOUGH};
    CST_TRY(cst_topk_baseline_fit(context, baseline, &fitted, made));
    const cst_topk_mix mix = {made->weights, made->linear, 1 / made->temperature, NULL};
    return out ? cst_topk_outcomes(context, rows, &mix, out) : CST_OK;
}

/* The rows of each fold by the fit without it. */
static cst_status predict_folds(cst_context *context, const cst_evaluation *e,
                                const cst_topk_baseline *baseline, float *out) {
    const cst_training *source = &state_of(e)->source;
    for (int32_t f = 0; f < source->fold_count; f++) {
        cst_fold_rows rows;
        cst_topk_made made;
        CST_SCOPE(scope);
        CST_TRY(cst_fold_rows_make(context, scope, source, f, e->options->seed, &rows));
        CST_TAKE(context, scope, made.weights, source->view.members);
        CST_NEW(context, scope, float, part, (size_t)rows.held.rows *CST_TOPK_OUTCOME);
        CST_TRY(run_mix(context, baseline, &rows.inside, &rows.held, &made, part));
        cst_fold_scatter(source->folds, source->view.rows, f, CST_TOPK_OUTCOME, part, out);
    }
    return CST_OK;
}

static cst_status run_baseline(cst_context *context, const cst_evaluation *e, const state *s,
                               cst_entry *entry, float *out) {
    const cst_topk_baseline *baseline = ((const topk_method *)entry->method)->baseline;
    int32_t members = s->source.view.members;
    int32_t count = 0;
    cst_topk_made made;
    double before = cst_seconds();
    CST_TAKE(context, &entry->scope, made.weights, members);
    CST_TRY(run_mix(context, baseline, &s->source, NULL, &made, NULL));
    entry->seconds = cst_seconds() - before;
    entry->weights = made.weights;
    entry->mix = made.linear ? CST_MIX_LINEAR : CST_MIX_LOGLINEAR;
    for (int32_t k = 0; k < members; k++)
        entry->uses[k] = made.weights[k] != 0;
    const cst_topk_mix mix = {made.weights, made.linear, 1 / made.temperature, NULL};
    if (made.temperature < 1 || made.temperature > 1)
        (void)cst_snprintf(entry->calibrator, sizeof entry->calibrator, "T = %.4g",
                           made.temperature);
    if (!e->unscored)
        CST_TRY(e->nested ? predict_folds(context, e, baseline, out)
                          : cst_topk_outcomes(context, &s->rows, &mix, out));
    if (!entry->keep)
        return CST_OK;
    CST_TRY(cst_members_used(context, entry->uses, members, &entry->made.kept, &count));
    return cst_topk_model(context, s->source.view.listed_of, entry->made.kept, count, made.weights,
                          made.linear, made.temperature, &entry->made.model);
}

static cst_status predict(cst_context *context, const cst_model *model, const int32_t *kept,
                          const cst_view *rows, float *out) {
    const cst_topk_mix mix = cst_topk_mix_of(model);
    CST_SCOPE(scope);
    CST_NEW(context, scope, const float *, pointers, model->members);
    const cst_view view = kept ? cst_view_members(rows, kept, model->members, pointers) : *rows;
    return cst_topk_outcomes(context, &view, &mix, out);
}

static cst_status run_preset(cst_context *context, const cst_evaluation *e, const state *s,
                             cst_entry *entry, float *out) {
    const cst_training *source = &s->source;
    const cst_settings *settings = &((const topk_method *)entry->method)->settings;
    cst_costs costs = cst_training_costs(source);
    cst_run run = cst_run_of(&cst_topk_family, &source->view, source->folds, source->fold_count,
                             settings, &costs);
    cst_stages stages = {0};
    double before = cst_seconds();
    CST_SCOPE(scope);
    CST_OWN(context, scope, cst_stages, &stages);
    CST_TRY(cst_stages_run(context, &run, &stages));
    entry->seconds = cst_seconds() - before;
    entry->mix = CST_MIX_LOGLINEAR;
    CST_TAKE(context, &entry->scope, entry->weights, source->view.members);
    for (int32_t j = 0; j < stages.kept_count; j++) {
        entry->uses[stages.kept[j]] = true;
        entry->weights[stages.kept[j]] = stages.fit.model->learner->weights[j];
    }
    if (!e->unscored)
        CST_TRY(e->nested ? cst_topk_nested(context, &run, &stages, out)
                          : predict(context, stages.fit.model, stages.kept, &s->rows, out));
    return entry->keep ? cst_stages_take_model(context, &stages, &entry->made) : CST_OK;
}

/* ---- one run ---- */

static cst_status take_room(cst_context *context, const cst_evaluation *e, cst_entry *entry) {
    predicted *p = entry->result;
    CST_TAKE(context, &entry->scope, p->outcomes,
             (size_t)state_of(e)->rows.rows * CST_TOPK_OUTCOME);
    return CST_OK;
}

static cst_status score(cst_context *context, const cst_evaluation *e, cst_entry *entry) {
    return cst_topk_scores(context, &state_of(e)->rows,
                           ((const predicted *)entry->result)->outcomes, entry->scores);
}

static cst_status run(cst_context *context, const cst_evaluation *e, const cst_model *model,
                      cst_entry *entry) {
    const state *s = e->data;
    predicted *p = entry->result;
    CST_TRY(take_room(context, e, entry));
    if (model)
        CST_TRY(predict(context, model, NULL, &s->rows, p->outcomes));
    else
        CST_TRY(((const topk_method *)entry->method)->baseline
                    ? run_baseline(context, e, s, entry, p->outcomes)
                    : run_preset(context, e, s, entry, p->outcomes));
    return e->unscored ? CST_OK : score(context, e, entry);
}

static cst_status member(cst_context *context, cst_evaluation *e, cst_entry *entry,
                         const void *member) {
    const double one = 1;
    const cst_topk_mix mix = {.weights = &one};
    CST_TRY(open_rows(context, e, member, 1, &state_of(e)->counted));
    CST_TRY(take_room(context, e, entry));
    CST_TRY(cst_topk_outcomes(context, &state_of(e)->rows, &mix,
                              ((predicted *)entry->result)->outcomes));
    return score(context, e, entry);
}

static cst_status own(cst_context *context, const cst_evaluation *e,
                      const cst_own_predictions *given, cst_entry *entry) {
    (void)e;
    (void)entry;
    return cst_fail(context, CST_ERROR_UNSUPPORTED,
                    "'%.80s': predictions of your own beside lists of the likeliest classes are "
                    "not supported: make them a member of the pool, and score it with evaluate",
                    given->name);
}

static cst_status label(cst_context *context, const cst_evaluation *e, const cst_options *options,
                        cst_entry *entry) {
    return cst_fit_label_rows(context, e->pool, cst_evaluation_fitted(e), e->source, options,
                              entry->name, entry->made.kept, entry->made.model);
}

static cst_status seen(cst_context *context, const cst_evaluation *e, const cst_model *model,
                       bool *out) {
    const cst_view *rows = &state_of(e)->rows;
    CST_SCOPE(scope);
    CST_NEW(context, scope, int32_t, labels, rows->rows);
    for (int64_t i = 0; i < rows->rows; i++)
        labels[i] = cst_view_label(rows, i);
    *out = cst_seen_labels(context, e, model, labels, rows->rows);
    return CST_OK;
}

/* ---- intervals and tests ---- */

static cst_status bootstrap(cst_context *context, const cst_evaluation *e,
                            const void *const *results, int32_t count, int32_t reference,
                            int32_t resamples, cst_intervals *out) {
    CST_SCOPE(scope);
    CST_NEW(context, scope, const float *, all, count);
    for (int32_t m = 0; m < count; m++)
        all[m] = ((const predicted *)results[m])->outcomes;
    return cst_topk_bootstrap(context, &state_of(e)->rows, all, count, reference, resamples,
                              e->options->seed, out->interval, out->difference, out->p);
}

/* Losses of units: their mean is that of the rows. */
static cst_status losses(cst_context *context, cst_scope *scope, const cst_evaluation *e,
                         const cst_entry *entry, cst_losses *out) {
    const predicted *p = entry->result;
    const cst_view *rows = &state_of(e)->rows;
    int64_t *unit;
    CST_SCOPE(own);
    *out = (cst_losses){.metric = "nll"};
    CST_TRY(cst_topk_units(context, own, rows, &unit, &out->samples));
    CST_TAKE(context, scope, out->loss, out->samples);
    double scale = (double)out->samples / cst_view_weight_sum(rows);
    for (int64_t i = 0; i < rows->rows; i++)
        out->loss[unit[i]] += scale * cst_view_weight(rows, i) *
                              (double)p->outcomes[i * CST_TOPK_OUTCOME + CST_TOPK_NLL];
    return CST_OK;
}

/* ---- documents ---- */

static const char *definition(const char *key) {
    static const char *const texts[][2] = {
        {"nll", "mean of -log p(label); the classes that no member lists share the rest evenly"},
        {"perplexity", "exp(NLL)"},
        {"top1", "share of rows whose label is the likeliest class"},
        {"top5", "share of rows whose label is among the five likeliest classes"},
        {"ece", "expected calibration error of the likeliest class, 15 bins of equal width"},
        {"brier", "mean over the rows of sum_c (p_c - 1[c is the label])^2"},
    };
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++)
        if (strcmp(texts[i][0], key) == 0)
            return texts[i][1];
    return NULL;
}

static cst_status describe(cst_context *context, cst_part part, const cst_description *d) {
    (void)context;
    if (part == CST_PART_SIZE) {
        const cst_view *rows = &state_of(d->e)->rows;
        CST_PUT(d->report, cst_report_root(d->report), CST_I("samples", rows->rows),
                CST_I("classes", rows->listed_of), CST_I("listed", rows->classes / 2));
    }
    if (part == CST_PART_OWN)
        cst_put_score_definitions(d->report, d->e);
    return CST_OK;
}

/* Redundancy of the members of a comparison is that of the stages. */
static cst_status cka(cst_context *context, const cst_evaluation *e, const cst_cka_options *options,
                      cst_cka_result *out) {
    cst_view wide;
    CST_SCOPE(scope);
    CST_TRY(cst_topk_widen(context, scope, &e->source->view, &wide));
    return cst_cka(context, &wide, options, out);
}

static const char *const BASELINES[] = {"best-single", "average", "greedy", NULL};

const cst_task_ops cst_topk_ops = {
    .task = CST_TASK_TOPK,
    .unit = "samples",
    .baselines = BASELINES,
    .state_bytes = sizeof(state),
    .method_bytes = sizeof(topk_method),
    .result_bytes = sizeof(predicted),
    .family = &cst_topk_family,
    .member = member,
    .method_name = method_name,
    .definition = definition,
    .open = open,
    .subset = subset,
    .cka = cka,
    .parse = parse,
    .run = run,
    .own = own,
    .label = label,
    .hash = cst_hash_rows,
    .seen = seen,
    .bootstrap = bootstrap,
    .losses = losses,
    .describe = describe,
};
