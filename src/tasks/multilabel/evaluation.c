/* The table of multilabel: methods by name, what is fitted on and scored, bootstrap, tests, and
 * scores of a member. Chosen by src/tasks. docs/multilabel.md. */
#include "data/checks/checks.h"
#include "data/pool/pool.h"
#include "fit/label.h"
#include "fit/profile.h"
#include "model/fit_rows.h"
#include "tasks/multilabel/multilabel.h"
#include "tasks/regression/regression.h"

#include <math.h>
#include <string.h>

/* What a method, a model or a member predicted: an entry's result. */
typedef struct predicted {
    cst_mix_result of;     /* [rows][labels] probabilities */
    cst_label_score *each; /* [labels] */
} predicted;

static const cst_view *rows_scored(const cst_evaluation *e) {
    return &cst_mix_state_of(e)->rows;
}

/* ---- fits ---- */

CST_OWNED(cst_made_model)

static cst_status make(cst_context *context, cst_scope *scope, const cst_named *baseline,
                       const cst_training *source, char *calibrator, cst_made_model *out) {
    const cst_view even = cst_view_even(&source->view);
    const double prior = 10; /* of nothing that it fits */
    int32_t count = 0;
    cst_label_functions functions;
    double *mix;
    (void)calibrator; /* they have none */
    *out = (cst_made_model){0};
    CST_OWN(context, scope, cst_made_model, out);
    CST_NEW(context, scope, bool, uses, even.members);
    CST_TRY(cst_label_baseline_fit(context, scope, baseline, &even, source->folds,
                                   source->fold_count, prior, &functions, &mix));
    for (int32_t l = 0; l < even.classes; l++)
        for (int32_t j = 0; j < even.members; j++)
            uses[j] = uses[j] || functions.weights[l * even.members + j] != 0;
    CST_TRY(cst_members_used(context, uses, even.members, &out->kept, &count));
    return cst_label_model(context, even.classes, even.members, out->kept, count, &functions, mix,
                           &out->model);
}

/* By the model of a fit as a saved one predicts, without a word of absent members. */
static cst_status predict(cst_context *context, const cst_model *model, const int32_t *kept,
                          const cst_view *rows, float *out) {
    if (!kept)
        return cst_stack_predict(context, model, rows, out);
    CST_SCOPE(scope);
    CST_NEW(context, scope, const float *, pointers, model->members);
    const cst_view view = cst_view_members(rows, kept, model->members, pointers);
    cst_mute(context, true);
    cst_status status = cst_stack_predict(context, model, &view, out);
    cst_mute(context, false);
    return status;
}

static int32_t width(const cst_view *rows) {
    return rows->classes;
}

static int32_t functions_of(const cst_model *model) {
    return model->classes;
}

/* ---- one run ---- */

/* Labels and weights of the rows scored, in their order. */
static cst_status rows_of(cst_context *context, cst_scope *scope, const cst_evaluation *e,
                          cst_label_cells *out) {
    const cst_view *view = rows_scored(e);
    size_t labels = (size_t)view->classes;
    double *targets;
    double *weights = NULL;
    CST_TAKE(context, scope, targets, (size_t)view->rows * labels);
    if (view->weights)
        CST_TAKE(context, scope, weights, view->rows);
    for (int64_t i = 0; i < view->rows; i++) {
        memcpy(targets + (size_t)i * labels, cst_view_target(view, i), labels * sizeof *targets);
        if (weights)
            weights[i] = cst_view_weight(view, i);
    }
    *out = (cst_label_cells){NULL, targets, weights, view->rows, view->classes};
    return CST_OK;
}

static cst_status score(cst_context *context, const cst_evaluation *e, cst_entry *entry) {
    predicted *p = entry->result;
    cst_label_cells rows;
    CST_SCOPE(scope);
    CST_TRY(rows_of(context, scope, e, &rows));
    rows.p = p->of.rows;
    CST_TAKE(context, &entry->scope, p->each, rows.labels);
    return cst_label_scores_of(context, &rows, entry->scores, p->each);
}

static cst_status member(cst_context *context, cst_evaluation *e, cst_entry *entry,
                         const void *member) {
    CST_TRY(cst_mix_member(context, e, member));
    CST_TRY(cst_mix_room(context, e, entry));
    CST_TRY(cst_view_copy(context, rows_scored(e), 0, ((predicted *)entry->result)->of.rows));
    return score(context, e, entry);
}

static cst_status own(cst_context *context, const cst_evaluation *e,
                      const cst_own_predictions *given, cst_entry *entry) {
    const cst_mix_state *s = e->data;
    const cst_counted *counted = e->nested ? &s->source.counted : &s->counted;
    CST_TRY(cst_mix_room(context, e, entry));
    CST_TRY(cst_pool_own(context, e->pool, e->split, given, counted->rows, s->rows.rows,
                         ((predicted *)entry->result)->of.rows));
    return score(context, e, entry);
}

static cst_status label(cst_context *context, const cst_evaluation *e, const cst_options *options,
                        cst_entry *entry) {
    return cst_value_label(context, e->pool, cst_evaluation_fitted(e), e->source, options,
                           entry->name, entry->made.kept, entry->made.model);
}

static bool told(const cst_evaluation *e, const cst_entry *entry, int32_t index, cst_told *out) {
    const predicted *p = entry->result;
    const cst_view *rows = rows_scored(e);
    *out = (cst_told){e->split, p->of.rows, rows->rows, rows->classes};
    return index == 0;
}

static cst_status seen(cst_context *context, const cst_evaluation *e, const cst_model *model,
                       bool *out) {
    return cst_seen_targets(context, e, model, rows_scored(e), out);
}

/* ---- intervals and tests ---- */

static cst_status bootstrap(cst_context *context, const cst_evaluation *e,
                            const void *const *results, int32_t count, int32_t reference,
                            int32_t resamples, cst_intervals *out) {
    cst_label_cells rows;
    CST_SCOPE(scope);
    CST_NEW(context, scope, const float *, all, count);
    CST_TRY(rows_of(context, scope, e, &rows));
    for (int32_t m = 0; m < count; m++)
        all[m] = ((const predicted *)results[m])->of.rows;
    return cst_label_bootstrap(context, &rows, all, count, reference, resamples, e->options->seed,
                               out->interval, out->difference, out->p);
}

/* Log loss of each row: the mean over its known cells. */
static cst_status losses(cst_context *context, cst_scope *scope, const cst_evaluation *e,
                         const cst_entry *entry, cst_losses *out) {
    const predicted *p = entry->result;
    cst_label_cells rows;
    CST_SCOPE(own);
    CST_TRY(rows_of(context, own, e, &rows));
    *out = (cst_losses){.metric = "log_loss", .samples = rows.rows};
    CST_TAKE(context, scope, out->loss, rows.rows);
    cst_label_losses(&rows, p->of.rows, out->loss);
    return CST_OK;
}

/* ---- documents ---- */

static void put_size(cst_report *report, const cst_evaluation *e) {
    const cst_view *rows = rows_scored(e);
    int64_t known = 0;
    cst_report_integer(report, cst_report_root(report), "samples", rows->rows);
    for (int64_t i = 0; i < rows->rows; i++)
        for (int32_t l = 0; l < rows->classes; l++)
            known += !isnan(cst_view_target(rows, i)[l]);
    CST_PUT(report, cst_report_root(report), CST_I("output_count", rows->classes),
            CST_I("known", known));
}

static const char *definition(const char *key) {
    static const char *const texts[][2] = {
        {"log_loss", "mean over the known cells of -log p(truth), p in [2^-23, 1 - 2^-23]"},
        {"macro_auc", "area under the ROC curve of each label, their mean over the labels with "
                      "positive and negative rows"},
        {"micro_auc", "area under the ROC curve of all known cells together"},
        {"map", "average precision of each label, their mean over the labels with positive rows"},
        {"macro_f1", "F1 of each label, at a threshold for each fifth of the rows that has the "
                     "largest F1 on the others; their mean over the labels with positive rows"},
        {"micro_f1", "F1 of all known cells together, at the same thresholds"},
        {"lrap", "label ranking average precision: for each positive label of a row, the share of "
                 "positive labels among those of at least its probability; their mean"},
        {"hamming", "share of the known cells that a threshold of 0.5 gets wrong"},
        {"ece", "expected calibration error of all known cells, 15 bins of equal width"},
    };
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++)
        if (strcmp(texts[i][0], key) == 0)
            return texts[i][1];
    return NULL;
}

static cst_status describe(cst_context *context, cst_part part, const cst_description *d) {
    (void)context;
    if (part == CST_PART_SIZE)
        put_size(d->report, d->e);
    if (part == CST_PART_ROW && d->e->brief)
        cst_label_put_each(d->report, d->object, d->e->pool,
                           ((const predicted *)d->entries->result)->each,
                           rows_scored(d->e)->classes);
    if (part == CST_PART_OWN)
        cst_put_score_definitions(d->report, d->e);
    return CST_OK;
}

static const char *method_name(size_t index) {
    return cst_mix_name(cst_multilabel_ops.mixes, index);
}

static const cst_mix_task MIXES = {
    .name = "multilabel",
    .definition = "the pool of log-odds with weights of each label drawn to common ones, of the "
                  "members that are not redundant and were selected",
    .removals = true,
    .baseline = cst_label_baseline_at,
    .check_options = cst_label_check_options,
    .make = make,
    .width = width,
    .functions = functions_of,
    .predict = predict,
    .score = score,
};

static const char *const BASELINES[] = {"best-single", "average", "greedy", NULL};

const cst_task_ops cst_multilabel_ops = {
    .task = CST_TASK_MULTILABEL,
    .unit = "samples",
    .baselines = BASELINES,
    .state_bytes = sizeof(cst_mix_state),
    .method_bytes = sizeof(cst_mix_method),
    .result_bytes = sizeof(predicted),
    .family = &cst_multilabel_family,
    .member = member,
    .method_name = method_name,
    .definition = definition,
    .open = cst_mix_open,
    .subset = cst_mix_subset,
    .parse = cst_mix_parse,
    .run = cst_mix_run,
    .own = own,
    .told = told,
    .label = label,
    .hash = cst_hash_rows,
    .seen = seen,
    .bootstrap = bootstrap,
    .losses = losses,
    .describe = describe,
    .profile = &cst_profile_rows,
    .mixes = &MIXES,
};
