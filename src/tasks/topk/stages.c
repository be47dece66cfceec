/* The family of top-k: listed log-probabilities, exact on the union of the lists. Paper: stages S1
 * to S4. docs/topk.md. */
#include "tasks/topk/topk.h"

#include "core/la.h"
#include "fit/label.h"
#include "method/select/wald.h"
#include "tasks/regression/regression.h"

#include <math.h>
#include <string.h>

CST_OWNED(cst_projection)

enum {
    SIMILAR_ROWS = 512, /* that redundancy is judged on */
    SIMILAR_COLUMNS = 512,
    SIMILAR_CELLS = 1 << 26, /* of all members together */
    START_ROWS = 50000,      /* a fit of four times as many begins with one of so many */
    FITTED_ROWS = 1 << 19,   /* of selection, times members and folds */
    FITTED_LEAST = 2000,
};

/* Of fits to a part of the rows, which choose members or where another fit begins. */
static const double PART_ENOUGH = 1e-3;

/* ---- redundancy ---- */

/* Positions of at most `most` rows of a view, evenly spread. */
static cst_status spread_rows(cst_context *context, cst_scope *scope, int64_t rows, int64_t most,
                              int64_t **position, int64_t *count) {
    *count = rows < most ? rows : most;
    CST_TAKE(context, scope, *position, *count);
    for (int64_t i = 0; i < *count; i++)
        (*position)[i] = (int64_t)((double)i * (double)rows / (double)*count);
    return CST_OK;
}

/* Probabilities of rows [count][2 k] as rows of few columns with the same distances: the classes
 * that these rows list and, in one column more, all others. More classes than columns share them
 * with signs by their numbers, so that distances are the same on average. */
static void widen(const cst_view *view, const float *lists, int64_t count, const int32_t *column,
                  int32_t met, const cst_view *wide, float *out) {
    size_t listed = (size_t)view->classes / 2;
    int32_t columns = met < SIMILAR_COLUMNS ? met : SIMILAR_COLUMNS;
    bool exact = met <= columns;
    for (int64_t i = 0; i < count; i++, out += wide->classes) {
        const float *row = lists + (size_t)i * 2 * listed;
        double all = view->listed_of;
        for (size_t j = 0; j < listed && row[j] >= 0; j++)
            all += expm1((double)row[listed + j]);
        for (int32_t c = 0; c < columns; c++)
            out[c] = exact ? (float)(1 / all) : 0;
        if (wide->classes > columns)
            out[columns] = (float)(sqrt(view->listed_of - (exact ? met : 0)) / all);
        for (size_t j = 0; j < listed && row[j] >= 0; j++) {
            int32_t at = column[(int32_t)row[j]];
            double above = expm1((double)row[listed + j]) / all;
            out[at % columns] += (float)(exact || at / columns % 2 == 0 ? above : -above);
        }
    }
}

cst_status cst_topk_widen(cst_context *context, cst_scope *scope, const cst_view *view,
                          cst_view *out) {
    size_t width = (size_t)view->classes;
    int64_t *position;
    int64_t count = 0;
    int32_t met = 0;
    int64_t most = SIMILAR_CELLS / (SIMILAR_COLUMNS + 1) / view->members;
    CST_SCOPE(own);
    most = most < 16 ? 16 : most > SIMILAR_ROWS ? SIMILAR_ROWS : most;
    CST_TRY(spread_rows(context, own, view->rows, most, &position, &count));
    CST_NEW(context, own, float, lists, (size_t)count *width);
    CST_NEW(context, own, int32_t, column, view->listed_of);
    for (int32_t c = 0; c < view->listed_of; c++)
        column[c] = -1;
    for (int32_t k = 0; k < view->members; k++) {
        CST_TRY(cst_view_gather(context, view, k, position, count, lists));
        for (size_t i = 0; i < (size_t)count; i++)
            for (size_t j = 0; j < width / 2 && lists[i * width + j] >= 0; j++) {
                int32_t *to = &column[(int32_t)lists[i * width + j]];
                *to = *to < 0 ? met++ : *to;
            }
    }
    int32_t columns = met < SIMILAR_COLUMNS ? met : SIMILAR_COLUMNS;
    CST_NEW(context, scope, const float *, data, view->members);
    *out = (cst_view){.rows = count,
                      .classes = columns + (columns < view->listed_of),
                      .members = view->members,
                      .data = data};
    for (int32_t k = 0; k < view->members; k++) {
        CST_NEW(context, scope, float, rows, (size_t)count *(size_t)out->classes);
        CST_TRY(cst_view_gather(context, view, k, position, count, lists));
        widen(view, lists, count, column, met, out, rows);
        data[k] = rows;
    }
    return CST_OK;
}

static cst_status prepare(cst_context *context, cst_scope *scope, cst_run *run, cst_stages *out) {
    CST_NEW(context, scope, cst_view, wide, 1);
    if (run->own) /* found with those of other folds */
        memcpy(out->risk, run->own, (size_t)run->view->members * sizeof *out->risk);
    else
        CST_TRY(cst_topk_risks(context, run->view, NULL, 1, out->risk));
    CST_TRY(cst_topk_widen(context, scope, run->view, wide));
    run->own = wide;
    return cst_pearson(context, wide, out->pearson);
}

static cst_status cka(cst_context *context, const cst_run *run, cst_cka_result *out) {
    return cst_cka(context, run->own, &run->settings->cka, out);
}

/* ---- sets of members on a part of the rows ---- */

typedef struct part {
    cst_view view; /* of `members`, in memory */
    cst_topk_rows rows;
} part;

typedef struct gather_job {
    const cst_view *whole; /* of the part's members */
    const int64_t *position;
    int64_t rows;
    float **data; /* [members] */
} gather_job;

static cst_topk_rows rows_of(const cst_run *run, const cst_view *view, const int32_t *folds) {
    return (cst_topk_rows){view, folds, run->fold_count, run->settings->selection.prior,
                           CST_TOPK_ENOUGH};
}

static cst_status gather_member(cst_context *context, void *user, int64_t member) {
    const gather_job *job = user;
    return cst_view_gather(context, job->whole, (int32_t)member, job->position, job->rows,
                           job->data[member]);
}

/* At most `most` rows, with members [count]. */
static cst_status part_take(cst_context *context, cst_scope *scope, const cst_run *run,
                            const int32_t *members, int32_t count, int64_t most, part *out) {
    int64_t *position;
    int64_t rows = 0;
    CST_SCOPE(own);
    CST_TRY(spread_rows(context, own, run->view->rows, most, &position, &rows));
    CST_NEW(context, own, const float *, pointers, count);
    CST_NEW(context, scope, float *, data, count);
    CST_NEW(context, scope, int32_t, labels, rows);
    CST_NEW(context, scope, int32_t, folds, rows);
    CST_NEW(context, scope, double, weights, rows);
    const cst_view whole = cst_view_members(run->view, members, count, pointers);
    for (int32_t k = 0; k < count; k++)
        CST_TAKE(context, scope, data[k], (size_t)rows * (size_t)whole.classes);
    for (int64_t i = 0; i < rows; i++) {
        labels[i] = cst_view_label(&whole, position[i]);
        folds[i] = run->folds[position[i]];
        weights[i] = cst_view_weight(&whole, position[i]);
    }
    out->view = (cst_view){.rows = rows,
                           .classes = whole.classes,
                           .members = count,
                           .data = (const float *const *)data,
                           .labels = labels,
                           .listed_of = whole.listed_of,
                           .weights = weights,
                           .weight_scale = 1};
    gather_job job = {&whole, position, rows, data};
    out->rows = rows_of(run, &out->view, folds);
    out->rows.enough = PART_ENOUGH;
    return cst_parallel_for(context, count, gather_member, &job);
}

static int64_t fitted_rows(const cst_run *run, int32_t members) {
    int64_t most = FITTED_ROWS / members / run->fold_count;
    int64_t asked = run->settings->selection.compact.max_rows;
    most = most < FITTED_LEAST ? FITTED_LEAST : most;
    return asked > 0 && asked < most ? asked : most;
}

/* Held-out losses [count][rows] of sets in[fold][set][K]; weights [fold][set][K]: where fits begin,
 * or all 0: at the average. */
static cst_status judge_sets(cst_context *context, const cst_topk_rows *rows, const bool *in,
                             int32_t count, double *weights, double *losses) {
    size_t k = (size_t)rows->view->members;
    int32_t all = count * rows->fold_count;
    CST_SCOPE(scope);
    CST_NEW(context, scope, cst_topk_fit, fits, all);
    for (int32_t f = 0; f < all; f++) {
        fits[f] = (cst_topk_fit){
            .fold = f / count, .in = in + (size_t)f * k, .weights = weights + (size_t)f * k};
        bool begun = false;
        for (size_t a = 0; a < k; a++)
            begun = begun || fits[f].weights[a] != 0;
        if (!begun)
            cst_topk_begin(rows, &fits[f]);
    }
    CST_TRY(cst_topk_fit_all(context, rows, fits, all));
    return cst_topk_losses(context, rows, weights, count, false, losses);
}

static cst_status judge(cst_context *context, const cst_run *run, const cst_stages *stages,
                        const double *taus, int32_t count, double *loss) {
    size_t k = (size_t)stages->members;
    cst_projection_rule rule = cst_projection_rule_of(run, stages->cka.constant);
    part p;
    CST_SCOPE(scope);
    CST_NEW(context, scope, int32_t, every, k);
    for (int32_t a = 0; a < stages->members; a++)
        every[a] = a;
    CST_TRY(part_take(context, scope, run, every, stages->members, fitted_rows(run, count), &p));
    size_t all = (size_t)count * (size_t)run->fold_count;
    CST_NEW(context, scope, bool, in, all *k);
    CST_NEW(context, scope, double, weights, all *k);
    CST_NEW(context, scope, double, losses, (size_t)count *(size_t)p.view.rows);
    CST_NEW(context, scope, double, share, run->fold_count);
    for (int32_t c = 0; c < count; c++) {
        cst_projection kept = {0};
        CST_SCOPE(own);
        rule.tau = taus[c];
        CST_OWN(context, own, cst_projection, &kept);
        CST_TRY(
            cst_project(context, stages->similarity, stages->members, stages->risk, &rule, &kept));
        for (int32_t f = 0; f < run->fold_count; f++)
            for (int32_t j = 0; j < kept.kept_count; j++)
                in[((size_t)f * (size_t)count + (size_t)c) * k + (size_t)kept.kept[j]] = true;
    }
    CST_TRY(judge_sets(context, &p.rows, in, count, weights, losses));
    for (int64_t i = 0; i < p.view.rows; i++)
        share[p.rows.folds[i]]++;
    for (int64_t i = 0; i < p.view.rows; i++)
        for (int32_t c = 0; c < count; c++)
            loss[c * run->fold_count + p.rows.folds[i]] +=
                losses[c * p.view.rows + i] / share[p.rows.folds[i]];
    return CST_OK;
}

/* ---- selection ---- */

/* Sets along the path of each fold's fit, and of the last fit, which is of all rows. */
static cst_status find_paths(cst_context *context, const cst_topk_fit *fits, int32_t folds,
                             int32_t count, const cst_select_options *options, bool *in,
                             double *weights, int32_t **set) {
    size_t k = (size_t)count;
    for (int32_t f = 0; f <= folds; f++) {
        CST_TRY(cst_wald_path(context, fits[f].weights, fits[f].hessian, count, k, options, set));
        for (size_t s = 0; f < folds && s < k; s++) {
            size_t at = ((size_t)f * k + s) * k;
            for (size_t j = 0; j <= s; j++)
                in[at + (size_t)set[s][j]] = true;
            memcpy(weights + at, fits[f].weights, k * sizeof *weights);
        }
    }
    return CST_OK;
}

static cst_status choose(cst_context *context, const cst_run *run, const int32_t *members,
                         int32_t count, const cst_select_options *options, cst_selection *out,
                         cst_front *front) {
    size_t k = (size_t)count;
    int32_t folds = run->fold_count;
    size_t all = (size_t)folds * k;
    int32_t **set;
    part p;
    CST_SCOPE(scope);
    CST_TRY(part_take(context, scope, run, members, count, fitted_rows(run, count), &p));
    if (p.view.rows < run->view->rows && !run->settings->cka.quiet)
        cst_notice(context, "members were selected on %lld of %lld samples", (long long)p.view.rows,
                   (long long)run->view->rows);
    CST_NEW(context, scope, cst_topk_fit, fits, folds + 1);
    CST_NEW(context, scope, double, numbers, (size_t)(folds + 1) * k * (k + 1));
    CST_NEW(context, scope, bool, in, all *k);
    CST_NEW(context, scope, double, weights, all *k);
    CST_NEW(context, scope, double, losses, k *(size_t)p.view.rows);
    CST_TRY(cst_wald_sets(context, scope, count, &set));
    for (int32_t f = 0; f <= folds; f++) {
        fits[f] = (cst_topk_fit){.fold = f < folds ? f : -1,
                                 .weights = numbers + (size_t)f * k * (k + 1)};
        fits[f].hessian = fits[f].weights + k;
    }
    cst_topk_begin(&p.rows, &fits[folds]);
    CST_TRY(cst_topk_fit_all(context, &p.rows, &fits[folds], 1));
    for (int32_t f = 0; f < folds; f++)
        memcpy(fits[f].weights, fits[folds].weights, k * sizeof *fits[f].weights);
    CST_TRY(cst_topk_fit_all(context, &p.rows, fits, folds));
    CST_TRY(find_paths(context, fits, folds, count, options, in, weights, set));
    CST_TRY(judge_sets(context, &p.rows, in, count, weights, losses));
    return cst_wald_choose(context, options, losses, p.view.rows, count, set, out, front);
}

/* ---- the fit ---- */

static cst_status fit_members(cst_context *context, const cst_run *run, const int32_t *members,
                              int32_t count, bool losses, cst_meta_fit *out) {
    (void)losses; /* of removals, which are off */
    CST_SCOPE(scope);
    CST_NEW(context, scope, const float *, pointers, count);
    CST_NEW(context, scope, double, weights, count);
    CST_NEW(context, scope, double, mixed, count);
    const cst_view view = cst_view_members(run->view, members, count, pointers);
    const cst_topk_rows rows = rows_of(run, &view, run->folds);
    cst_topk_fit fit = {.fold = -1, .weights = weights};
    double power = 1;
    bool linear = false;
    part p;
    cst_topk_begin(&rows, &fit);
    CST_TRY(part_take(context, scope, run, members, count, START_ROWS, &p));
    if (view.rows > 4 * START_ROWS)
        CST_TRY(cst_topk_fit_all(context, &p.rows, &fit, 1));
    CST_TRY(cst_topk_fit_all(context, &rows, &fit, 1));
    CST_NEW(context, scope, float, told, (size_t)count *(size_t)p.view.rows);
    CST_TRY(cst_topk_told(context, &p.view, told));
    CST_TRY(cst_topk_linear(context, &p.rows, told, -1, NULL, weights, mixed, &power, &linear));
    CST_TRY(cst_topk_model(context, view.listed_of, NULL, count, linear ? mixed : weights, linear,
                           linear ? 1 / power : 1, &out->model));
    out->model->blend =
        cst_take_text(context, &out->model->scope, linear ? "linear 1" : "log-linear 1");
    out->learners = 1;
    out->name[0] = linear ? "linear" : "log-linear";
    out->weight[0] = 1;
    out->nll[0] = out->loss[0] = out->half_logdet[0] = NAN;
    out->lambda = out->sigma2 = out->mp_edge = out->snr = NAN;
    return out->model->blend ? CST_OK : CST_ERROR_MEMORY;
}

/* Outcomes, [rows][CST_TOPK_OUTCOME]. */
static cst_status predict(cst_context *context, const cst_model *model, const cst_view *view,
                          float *const *out) {
    const cst_topk_mix mix = cst_topk_mix_of(model);
    return cst_topk_outcomes(context, view, &mix, NULL, out[0]);
}

/* ---- nested scores: the stages of every fold, and the fits of all folds in common passes ---- */

typedef struct nested_job {
    const cst_run *run;
    const double *risk; /* [folds][members]: without the fold */
    bool *in;           /* [folds][members] */
} nested_job;

/* A model of the average, where only the members of a fit are asked for. */
static cst_status fit_none(cst_context *context, const cst_run *run, const int32_t *members,
                           int32_t count, bool losses, cst_meta_fit *out) {
    (void)members;
    (void)losses;
    CST_SCOPE(scope);
    CST_NEW(context, scope, double, weights, count);
    for (int32_t j = 0; j < count; j++)
        weights[j] = 1 / (double)count;
    return cst_topk_model(context, run->view->listed_of, NULL, count, weights, false, 1,
                          &out->model);
}

static cst_status choose_fold(cst_context *context, void *user, const cst_fold_rows *rows) {
    const nested_job *job = user;
    size_t members = (size_t)job->run->view->members;
    cst_family family = cst_topk_family;
    cst_settings settings = *job->run->settings;
    cst_run run = *job->run;
    cst_stages stages = {0};
    family.fit = fit_none;
    settings.cka.quiet = true;
    run.family = &family;
    run.settings = &settings;
    run.view = &rows->inside.view;
    run.folds = rows->inside.folds;
    run.fold_count = rows->inside.fold_count;
    run.own = job->risk + (size_t)rows->fold * members;
    CST_SCOPE(scope);
    CST_OWN(context, scope, cst_stages, &stages);
    CST_TRY(cst_stages_run(context, &run, &stages));
    for (int32_t j = 0; j < stages.kept_count; j++)
        job->in[(size_t)rows->fold * members + (size_t)stages.kept[j]] = true;
    return CST_OK;
}

static cst_status nested(cst_context *context, const cst_run *run, float *held) {
    const cst_stages *stages = run->whole;
    const cst_view even = cst_view_even(run->view);
    const cst_training source = {.view = *run->view,
                                 .folds = (int32_t *)(uintptr_t)run->folds, /* only looked at */
                                 .fold_count = run->fold_count};
    size_t k = (size_t)even.members;
    size_t folds = (size_t)run->fold_count;
    int32_t count = 0;
    CST_SCOPE(scope);
    CST_NEW(context, scope, double, numbers, folds *k); /* risks, then weights */
    CST_NEW(context, scope, bool, in, folds *k);
    CST_NEW(context, scope, int32_t, members, k);
    CST_NEW(context, scope, const float *, pointers, k);
    CST_NEW(context, scope, cst_topk_fit, fits, folds);
    CST_TRY(cst_topk_risks(context, &even, run->folds, run->fold_count, numbers));
    nested_job job = {run, numbers, in};
    CST_TRY(cst_nested_run(context, &source, run->settings->seed, choose_fold, &job, NULL, 0));
    for (size_t a = 0; a < k; a++) { /* those that some fit has */
        bool used = stages->reason[a] == CST_REASON_KEPT;
        for (size_t f = 0; f < folds; f++)
            used = used || in[f * k + a];
        if (used)
            members[count++] = (int32_t)a;
    }
    const cst_view view = cst_view_members(&even, members, count, pointers);
    const cst_topk_rows rows = rows_of(run, &view, run->folds);
    for (size_t f = 0; f < folds; f++) {
        size_t at = f * (size_t)count;
        fits[f] = (cst_topk_fit){.fold = (int32_t)f, .in = in + at, .weights = numbers + at};
        for (int32_t j = 0; j < count; j++) {
            in[at + (size_t)j] = in[f * k + (size_t)members[j]];
            fits[f].weights[j] = 0;
            for (int32_t l = 0; l < stages->kept_count; l++)
                if (stages->kept[l] == members[j])
                    fits[f].weights[j] = stages->fit.model->learner->weights[l];
        }
    }
    CST_TRY(cst_topk_fit_all(context, &rows, fits, run->fold_count));
    part p;
    CST_NEW(context, scope, cst_topk_mix, mixes, folds);
    CST_NEW(context, scope, double, mixed, folds *(size_t)count);
    CST_TRY(part_take(context, scope, run, members, count, START_ROWS, &p));
    CST_NEW(context, scope, float, told, (size_t)count *(size_t)p.view.rows);
    CST_TRY(cst_topk_told(context, &p.view, told));
    for (size_t f = 0; f < folds; f++) {
        double *own = mixed + f * (size_t)count;
        cst_topk_mix *mix = &mixes[f];
        CST_TRY(cst_topk_linear(context, &p.rows, told, (int32_t)f, fits[f].in, fits[f].weights,
                                own, &mix->power, &mix->linear));
        mix->weights = mix->linear ? own : fits[f].weights;
    }
    return cst_topk_outcomes(context, &view, mixes, run->folds, held);
}

/* ---- a fit of a split ---- */

static cst_status admit(cst_context *context, cst_fit_job *job) {
    job->settings.drop = false;
    return cst_topk_check_options(context, job->facts.options);
}

static bool is_foreign(const cst_options *options, const char *key) {
    static const char *const used[] = {"seed",        "folds.",  "evaluate.nested",
                                       "redundancy.", "cka.",    "pearson.",
                                       "keep.",       "select.", "metric"};
    (void)options;
    for (size_t i = 0; i < sizeof used / sizeof used[0]; i++)
        if (strncmp(key, used[i], strlen(used[i])) == 0)
            return false;
    return true;
}

cst_status cst_topk_check_options(cst_context *context, const cst_options *options) {
    CST_TRY(cst_training_no_time(context, options, "topk"));
    return cst_check_foreign(context, options, "topk", is_foreign, "");
}

static cst_status label(cst_context *context, cst_fit_job *job) {
    return cst_fit_label_rows(context, job->pool, job->facts.split, &job->source,
                              job->facts.options, NULL, job->stages.kept, job->stages.fit.model);
}

static cst_status score(cst_context *context, cst_fit_job *job) {
    const cst_view *view = &job->source.view;
    cst_costs costs = cst_training_costs(&job->source);
    cst_run run = cst_fit_job_run(job, &costs);
    CST_NEW(context, job->scope, double, oof, CST_TOPK_SCORES);
    CST_SCOPE(scope);
    CST_NEW(context, scope, float, held, (size_t)view->rows *CST_TOPK_OUTCOME);
    const cst_fold_result result = {held, CST_TOPK_OUTCOME};
    run.whole = &job->stages;
    CST_TRY(cst_stages_nested(context, &run, NULL, &result, 1));
    CST_TRY(cst_topk_scores(context, view, held, oof));
    job->facts.oof = oof;
    return CST_OK;
}

static cst_status measure(cst_context *context, cst_fit_job *job) {
    CST_NEW(context, job->scope, double, risk, job->source.view.members);
    if (job->stages.risk)
        memcpy(risk, job->stages.risk, (size_t)job->source.view.members * sizeof *risk);
    else
        CST_TRY(cst_topk_risks(context, &job->source.view, NULL, 1, risk));
    job->facts.members = risk;
    return CST_OK;
}

/* ---- documents ---- */

static void put_kept(cst_report *report, const cst_fit_facts *facts) {
    cst_document_losses(report, facts->pool, "nll", facts->members, facts->stages->reason);
}

/* Weights and nested scores. */
static void put_own(cst_report *report, const cst_fit_facts *facts) {
    const cst_model *model = facts->stages->fit.model;
    const double *oof = facts->oof;
    int32_t count = 0;
    const cst_score_spec *specs = cst_task_scores(CST_TASK_TOPK, &count);
    json_t *root = cst_report_root(report);
    json_t *weights = cst_report_object(report, root, "weights");
    for (int32_t j = 0; j < model->members; j++)
        cst_report_number(report, weights,
                          cst_pool_member_name(facts->pool, facts->stages->kept[j]),
                          model->learner->weights[j]);
    json_t *scores = cst_report_object(report, root, "oof");
    for (int32_t s = 0; s < count; s++)
        cst_report_number(report, scores, specs[s].key, oof ? oof[s] : NAN);
    cst_document_nested(report, scores, oof != NULL);
}

static cst_status inspect(cst_context *context, cst_fit_job *job, cst_report *report) {
    cst_view wide;
    CST_TRY(measure(context, job));
    CST_TRY(cst_topk_widen(context, job->scope, &job->source.view, &wide));
    return cst_inspect_members(context, job, "nll", &wide, report);
}

const cst_family cst_topk_family = {
    .task = "topk",
    .loss = "NLL",
    .pool = "log-linear",
    .whole = true,
    .prepare = prepare,
    .cka = cka,
    .judge = judge,
    .choose = choose,
    .fit = fit_members,
    .predict = predict,
    .nested = nested,
    .admit = admit,
    .label = label,
    .score = score,
    .measure = measure,
    .put_members = put_kept,
    .put_own = put_own,
    .inspect = inspect,
};
