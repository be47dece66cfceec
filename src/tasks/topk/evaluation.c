/* The table of top-k: methods by name, what is fitted on and scored, bootstrap, tests, and scores
 * of a member. Chosen by src/tasks. docs/topk.md. */
#include "data/pool/pool.h"
#include "fit/label.h"
#include "tasks/topk/topk.h"

#include <math.h>
#include <string.h>

/* Results are [rows][CST_TOPK_OUTCOME]. */
static const float *outcomes_of(const void *result) {
    return ((const cst_mix_result *)result)->rows;
}

/* ---- fits ---- */

CST_OWNED(cst_made_model)

static cst_status make(cst_context *context, cst_scope *scope, const cst_named *baseline,
                       const cst_training *source, char *calibrator, cst_made_model *out) {
    const cst_view even = cst_view_even(&source->view);
    const double prior = 10;
    const cst_topk_rows rows = {&even, source->folds, source->fold_count, prior, CST_TOPK_ENOUGH};
    *out = (cst_made_model){0};
    CST_OWN(context, scope, cst_made_model, out);
    CST_TRY(cst_topk_baseline_fit(context, baseline, &rows, out));
    if (out->model->calibrator.kind == CST_CALIBRATOR_TEMPERATURE)
        (void)cst_snprintf(calibrator, 64, "T = %.4g", out->model->calibrator.temperature);
    return CST_OK;
}

static cst_status predict(cst_context *context, const cst_model *model, const int32_t *kept,
                          const cst_view *rows, float *out) {
    const cst_topk_mix mix = cst_topk_mix_of(model);
    CST_SCOPE(scope);
    CST_NEW(context, scope, const float *, pointers, model->members);
    const cst_view view = kept ? cst_view_members(rows, kept, model->members, pointers) : *rows;
    return cst_topk_outcomes(context, &view, &mix, NULL, out);
}

static int32_t width(const cst_view *rows) {
    (void)rows;
    return CST_TOPK_OUTCOME;
}

static int32_t functions_of(const cst_model *model) {
    (void)model;
    return 1;
}

static cst_status score(cst_context *context, const cst_evaluation *e, cst_entry *entry) {
    return cst_topk_scores(context, &cst_mix_state_of(e)->rows, outcomes_of(entry->result),
                           entry->scores);
}

static cst_status member(cst_context *context, cst_evaluation *e, cst_entry *entry,
                         const void *member) {
    const double one = 1;
    const cst_topk_mix mix = {.weights = &one};
    CST_TRY(cst_mix_member(context, e, member));
    CST_TRY(cst_mix_room(context, e, entry));
    CST_TRY(cst_topk_outcomes(context, &cst_mix_state_of(e)->rows, &mix, NULL,
                              ((cst_mix_result *)entry->result)->rows));
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
    const cst_view *rows = &cst_mix_state_of(e)->rows;
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
        all[m] = outcomes_of(results[m]);
    return cst_topk_bootstrap(context, &cst_mix_state_of(e)->rows, all, count, reference, resamples,
                              e->options->seed, out);
}

/* Losses of units: their mean is that of the rows. */
static cst_status losses(cst_context *context, cst_scope *scope, const cst_evaluation *e,
                         const cst_entry *entry, cst_losses *out) {
    const cst_view *rows = &cst_mix_state_of(e)->rows;
    int64_t *unit;
    CST_SCOPE(own);
    *out = (cst_losses){.metric = "nll"};
    CST_TRY(cst_topk_units(context, own, rows, &unit, &out->samples));
    CST_TAKE(context, scope, out->loss, out->samples);
    double scale = (double)out->samples / cst_view_weight_sum(rows);
    for (int64_t i = 0; i < rows->rows; i++)
        out->loss[unit[i]] +=
            scale * cst_view_weight(rows, i) *
            (double)outcomes_of(entry->result)[i * CST_TOPK_OUTCOME + CST_TOPK_NLL];
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
        {"bits_per_byte", "NLL x rows / (ln 2 x bytes of their text, which a manifest gives)"},
    };
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++)
        if (strcmp(texts[i][0], key) == 0)
            return texts[i][1];
    return NULL;
}

static cst_status describe(cst_context *context, cst_part part, const cst_description *d) {
    (void)context;
    if (part == CST_PART_SIZE) {
        const cst_view *rows = &cst_mix_state_of(d->e)->rows;
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

static const char *method_name(size_t index) {
    return cst_mix_name(cst_topk_ops.mixes, index);
}

static const cst_mix_task MIXES = {
    .name = "topk",
    .definition = "the log-linear pool, exact on the union of the lists of a row, of the members "
                  "that are not redundant and were selected",
    .baseline = cst_topk_baseline_at,
    .check_options = cst_topk_check_options,
    .make = make,
    .width = width,
    .functions = functions_of,
    .predict = predict,
    .score = score,
};

static const char *const BASELINES[] = {"best-single", "average", "greedy", NULL};

const cst_task_ops cst_topk_ops = {
    .task = CST_TASK_TOPK,
    .unit = "samples",
    .baselines = BASELINES,
    .state_bytes = sizeof(cst_mix_state),
    .method_bytes = sizeof(cst_mix_method),
    .result_bytes = sizeof(cst_mix_result),
    .family = &cst_topk_family,
    .member = member,
    .method_name = method_name,
    .definition = definition,
    .open = cst_mix_open,
    .subset = cst_mix_subset,
    .cka = cka,
    .parse = cst_mix_parse,
    .run = cst_mix_run,
    .own = own,
    .label = label,
    .hash = cst_hash_rows,
    .seen = seen,
    .bootstrap = bootstrap,
    .losses = losses,
    .describe = describe,
    .mixes = &MIXES,
};
