/* Simple rules on the nested folds of a fit. See the header. */
#include "fit/simple_rules.h"

#include "fit/baselines/baselines.h"
#include "fit/family.h"
#include "method/calibration/calibration.h"
#include "stats/row_weights.h"
#include "stats/samples.h"
#include "stats/statistics.h"

#include <math.h>

static const struct {
    const char *name; /* as of `compare` */
    int baseline;
    cst_calibrator_kind calibrator;
} RULES[] = {
    {"greedy+temperature", CST_BASELINE_GREEDY, CST_CALIBRATOR_TEMPERATURE},
    {"best-single+temperature", CST_BASELINE_BEST_SINGLE, CST_CALIBRATOR_TEMPERATURE},
    {"best-single", CST_BASELINE_BEST_SINGLE, CST_CALIBRATOR_NONE},
    {"average", CST_BASELINE_AVERAGE, CST_CALIBRATOR_NONE},
};
enum { RULE_COUNT = sizeof RULES / sizeof RULES[0] };

/* ---- tests ---- */

typedef struct grouped {
    int64_t group, row;
} grouped;

CST_BY(by_group, grouped, CST_UP(group), CST_UP(row), 0)

cst_status cst_compared_test(cst_context *context, const cst_view *view, const double *loss,
                             const double *of_fit, cst_compared *out) {
    size_t rows = (size_t)view->rows;
    int64_t count = -1;
    cst_t_test test;
    CST_SCOPE(scope);
    CST_NEW(context, scope, grouped, order, rows);
    CST_NEW(context, scope, double, of, 2 * rows);
    for (size_t i = 0; i < rows; i++)
        order[i] = (grouped){view->groups ? view->groups[i] : (int64_t)i, (int64_t)i};
    if (view->groups)
        CST_TRY(cst_sort(context, order, rows, sizeof *order, by_group));
    for (size_t i = 0; i < rows; i++) {
        count += i == 0 || order[i].group != order[i - 1].group;
        of[count] += loss[order[i].row];
        of[(int64_t)rows + count] += of_fit[order[i].row];
    }
    count++;
    out->difference = out->se = out->p = NAN;
    if (count < 2)
        return CST_OK;
    for (size_t i = 0; view->groups && i < 2 * rows; i++)
        of[i] *= (double)count / (double)rows; /* their mean is that of the rows */
    CST_TRY(cst_paired_t_test(context, of, of + rows, count, &test));
    out->difference = test.mean_difference;
    out->se = test.standard_error;
    out->p = test.p;
    return CST_OK;
}

void cst_compared_adjust(cst_compared *list, int32_t count) {
    for (int32_t i = 0; i < count; i++)
        list[i].p_adjusted = fmin((double)count * list[i].p, 1);
}

/* ---- members ---- */

cst_status cst_members_missed(cst_context *context, cst_fit_job *job, const cst_view *view,
                              const float *without) {
    size_t members = (size_t)job->source.view.members;
    CST_NEW(context, job->scope, double, out, 2 * members);
    for (size_t k = 0; k < members; k++) {
        double total = 0;
        double sum = 0;
        double square = 0;
        for (int64_t i = 0; i < view->rows; i++) {
            double rise = (double)without[(size_t)i * members + k];
            if (isnan(rise))
                continue;
            double weight = cst_view_weight(view, i);
            total += weight;
            sum += weight * rise;
        }
        for (int64_t i = 0; i < view->rows; i++) {
            double rise = (double)without[(size_t)i * members + k];
            double off = isnan(rise) ? 0 : cst_view_weight(view, i) * (rise - sum / total);
            square += off * off;
        }
        out[k] = total > 0 ? sum / total : NAN;
        out[members + k] = total > 0 ? sqrt(square) / total : NAN;
    }
    job->facts.without = out;
    return CST_OK;
}

/* What a rule of these members, fitted on all rows, reads. */
static void describe(const cst_training *source, const bool *uses, const char *name,
                     cst_compared *out) {
    out->name = name;
    out->members = 0;
    for (int32_t k = 0; k < source->view.members; k++) {
        out->members += uses[k];
        out->member = uses[k] ? k : out->member;
    }
    out->member = out->members > 1 ? -1 : out->member;
    out->flops_rel = cst_training_flops_rel(source, uses);
}

/* ---- one rule ---- */

CST_OWNED(cst_baseline_fit)

typedef struct rule_job {
    const cst_training *all;
    const cst_training *source; /* of the members that the rule chooses from */
    const int32_t *members;     /* [source->view.members], places in all */
    uint64_t seed;
    int rule;
    float *told; /* [rows][classes] */
} rule_job;

static cst_status fit_rule(cst_context *context, const rule_job *job, const cst_training *on,
                           cst_baseline_fit *out) {
    const cst_baseline_data data = {
        .view = &on->view, .folds = on->folds, .fold_count = on->fold_count, .seed = job->seed};
    return cst_baseline_fit_run(context, &cst_baselines[RULES[job->rule].baseline], &data, out);
}

static cst_status rule_task(cst_context *context, void *user, const cst_fold_rows *rows) {
    const rule_job *job = user;
    const cst_view *inside = &rows->inside.view;
    size_t classes = (size_t)inside->classes;
    cst_baseline_fit fit = {0};
    cst_calibrator map = {0};
    float *own;
    CST_SCOPE(scope);
    CST_NEW(context, scope, float, part, ((size_t)rows->held.rows * classes));
    CST_OWN(context, scope, cst_baseline_fit, &fit);
    CST_OWN(context, scope, cst_calibrator, &map);
    CST_TRY(fit_rule(context, job, &rows->inside, &fit));
    CST_TRY(cst_baseline_predict(context, &fit, &rows->held, part));
    if (RULES[job->rule].calibrator != CST_CALIBRATOR_NONE) {
        CST_TAKE(context, scope, own, (size_t)inside->rows * classes);
        CST_TRY(cst_baseline_predict(context, &fit, inside, own));
        CST_TRY(cst_calibrator_fit_view(context, RULES[job->rule].calibrator, inside, own, &map));
        CST_TRY(cst_calibrator_apply(context, &map, part, rows->held.rows));
    }
    cst_fold_scatter(job->source->folds, job->source->view.rows, rows->fold, classes, part,
                     job->told);
    return CST_OK;
}

/* Losses of predictions times the rows' weights. */
static cst_status losses(cst_context *context, const cst_view *view, const float *told,
                         double *out) {
    cst_samples samples = {.nll = out};
    CST_TRY(cst_samples_fill(context, told, view->rows, view->classes, view->labels, &samples));
    for (int64_t i = 0; view->weights && i < view->rows; i++)
        out[i] *= view->weights[i];
    return CST_OK;
}

/* What the rule, fitted to all rows, is; a mean of all members needs no folds to predict them. */
static cst_status run_rule(cst_context *context, const rule_job *job, cst_compared *out) {
    const cst_view *view = &job->source->view;
    const cst_fold_result held = {job->told, (size_t)view->classes};
    cst_baseline_fit fit = {0};
    CST_SCOPE(scope);
    CST_NEW(context, scope, bool, uses, job->all->view.members);
    CST_OWN(context, scope, cst_baseline_fit, &fit);
    CST_TRY(fit_rule(context, job, job->source, &fit));
    for (int32_t k = 0; k < view->members; k++)
        uses[job->members[k]] = fit.uses[k];
    describe(job->all, uses, RULES[job->rule].name, out);
    if (RULES[job->rule].baseline != CST_BASELINE_BEST_SINGLE)
        out->member = -1;
    if (RULES[job->rule].baseline == CST_BASELINE_AVERAGE)
        return cst_baseline_predict(context, &fit, view, job->told);
    return cst_nested_run(context, job->source, job->seed, rule_task, (void *)(uintptr_t)job, &held,
                          1);
}

static cst_status score_rule(cst_context *context, const rule_job *job, const cst_view *scored,
                             const double *of_fit, cst_metrics *metrics, cst_compared *out) {
    CST_SCOPE(scope);
    CST_NEW(context, scope, double, loss, scored->rows);
    *out = (cst_compared){.scores = metrics};
    CST_TRY(run_rule(context, job, out));
    cst_training_pack(job->source, (size_t)scored->classes, job->told);
    CST_TRY(cst_metrics_weighted(context, job->told, scored->rows, scored->classes, scored->labels,
                                 scored->weights, 0, metrics));
    CST_TRY(losses(context, scored, job->told, loss));
    return cst_compared_test(context, scored, loss, of_fit, out);
}

/* Best of many members, from which the best outside each fold is taken. */
enum { BEST = 16 };

/* Those of the members that a rule chooses from: all, or of many those that it would take of some
 * rows, or that are the best. */
static cst_status choose_from(cst_context *context, const cst_fit_job *job, int baseline,
                              int32_t *members, int32_t *count) {
    const cst_training *source = &job->source;
    const double *risk = job->stages.risk;
    bool many = source->view.members > CST_MANY_MEMBERS;
    *count = 0;
    if (many && baseline == CST_BASELINE_GREEDY)
        return cst_greedy_members(context, &source->view, source->folds, source->fold_count,
                                  members, count);
    for (int32_t k = 0; k < source->view.members; k++) {
        int32_t better = 0;
        if (many && baseline == CST_BASELINE_BEST_SINGLE)
            for (int32_t j = 0; j < source->view.members; j++)
                better += risk[j] < risk[k] || (j < k && risk[j] == risk[k]);
        if (better < BEST)
            members[(*count)++] = k;
    }
    return CST_OK;
}

cst_status cst_simple_rules(cst_context *context, cst_fit_job *job, const cst_view *scored,
                            const float *held) {
    const cst_view *view = &job->source.view;
    cst_training part;
    rule_job one = {.all = &job->source, .source = &part, .seed = job->settings.seed};
    int32_t count = 0;
    int32_t among = 0;
    CST_NEW(context, job->scope, cst_compared, list, RULE_COUNT);
    CST_NEW(context, job->scope, cst_metrics, metrics, RULE_COUNT);
    CST_SCOPE(scope);
    CST_NEW(context, scope, double, of_fit, scored->rows);
    CST_NEW(context, scope, int32_t, members, view->members);
    one.members = members;
    CST_TAKE(context, scope, one.told, (size_t)view->rows * (size_t)view->classes);
    CST_TRY(losses(context, scored, held, of_fit));
    for (one.rule = 0; one.rule < RULE_COUNT && view->members > 1; one.rule++) {
        CST_TRY(choose_from(context, job, RULES[one.rule].baseline, members, &among));
        CST_TRY(cst_training_part(context, scope, one.all, members, among, &part));
        cst_status status =
            score_rule(context, &one, scored, of_fit, &metrics[count], &list[count]);
        if (status == CST_ERROR_INPUT || status == CST_ERROR_NUMERIC)
            cst_notice(context, "the fit is not compared with %s: %s", RULES[one.rule].name,
                       cst_last_error(context));
        else
            CST_TRY(status);
        count += status == CST_OK;
    }
    cst_compared_adjust(list, count);
    job->facts.compared = list;
    job->facts.compared_count = count;
    return CST_OK;
}

/* ---- mixtures ---- */

typedef struct mixtures_job {
    const cst_training *source;
    cst_fit_mixtures_fn *fit;
    int32_t count;
    float **told;
} mixtures_job;

static cst_status mixtures_task(cst_context *context, void *user, const cst_fold_rows *rows) {
    const mixtures_job *job = user;
    const cst_view *held = &rows->held;
    size_t count = (size_t)job->count;
    size_t outputs = (size_t)held->classes;
    size_t members = (size_t)held->members;
    size_t cells = (size_t)held->rows * outputs;
    CST_SCOPE(scope);
    CST_NEW(context, scope, double, weights, (count * outputs * members));
    CST_NEW(context, scope, float, values, cells);
    CST_NEW(context, scope, double, sums, (count * cells));
    CST_TRY(job->fit(context, &rows->inside, weights));
    for (size_t k = 0; k < members; k++) {
        CST_TRY(cst_view_copy(context, held, (int32_t)k, values));
        for (size_t r = 0; r < count; r++)
            for (size_t e = 0; e < cells; e++)
                sums[r * cells + e] +=
                    weights[(r * outputs + e % outputs) * members + k] * (double)values[e];
    }
    for (size_t r = 0; r < count; r++) {
        for (size_t e = 0; e < cells; e++)
            values[e] = (float)sums[r * cells + e];
        cst_fold_scatter(job->source->folds, job->source->view.rows, rows->fold, outputs, values,
                         job->told[r]);
    }
    return CST_OK;
}

cst_status cst_mixtures_run(cst_context *context, cst_scope *scope, cst_fit_job *job,
                            const char *const *names, int32_t count, cst_fit_mixtures_fn *fit,
                            cst_compared **list, float **told) {
    const cst_training *source = &job->source;
    size_t outputs = (size_t)source->view.classes;
    int32_t members = source->view.members;
    size_t cells = outputs * (size_t)members;
    mixtures_job mixtures = {source, fit, count, told};
    if (members < 2 || source->view.presence)
        return CST_OK;
    CST_TAKE(context, job->scope, *list, count);
    CST_NEW(context, scope, bool, uses, members);
    CST_NEW(context, scope, double, weights, (size_t)count *cells);
    CST_NEW(context, scope, cst_fold_result, results, count);
    for (int32_t r = 0; r < count; r++) {
        CST_TAKE(context, scope, told[r], (size_t)source->view.rows * outputs);
        results[r] = (cst_fold_result){told[r], outputs};
    }
    CST_TRY(fit(context, source, weights));
    for (int32_t r = 0; r < count; r++) {
        for (int32_t k = 0; k < members; k++)
            uses[k] = false;
        for (size_t i = 0; i < cells; i++)
            uses[i % (size_t)members] |= weights[(size_t)r * cells + i] != 0;
        describe(source, uses, names[r], &(*list)[r]);
    }
    CST_TRY(cst_nested_run(context, source, job->settings.seed, mixtures_task, &mixtures, results,
                           count));
    for (int32_t r = 0; r < count; r++)
        cst_training_pack(source, outputs, told[r]);
    job->facts.compared = *list;
    job->facts.compared_count = count;
    return CST_OK;
}
