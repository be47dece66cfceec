/* Documents of a regression. Last step of fit, evaluate and compare. Keys: docs/json.md. */
#include "tasks/regression/document.h"
#include "fit/findings.h"

#include "stats/regression.h"

#include <math.h>
#include <string.h>

/* ---- scores ---- */

void cst_value_put_scores(cst_report *report, json_t *object, const cst_value_metrics *scores) {
    cst_report_number(report, object, "rmse", scores->rmse);
    cst_report_number(report, object, "mae", scores->mae);
    cst_report_number(report, object, "median_ae", scores->median_ae);
    cst_report_number(report, object, "r2", scores->r2);
    cst_report_number(report, object, "nll", scores->nll);
    cst_value_put_coverage(report, object, scores);
}

void cst_value_put_coverage(cst_report *report, json_t *object, const cst_value_metrics *scores) {
    if (scores->levels == 0)
        return;
    cst_report_numbers(report, object, "levels", scores->level, scores->levels);
    cst_report_numbers(report, object, "coverage", scores->coverage, scores->levels);
    cst_report_numbers(report, object, "width", scores->width, scores->levels);
}

static void put_name(cst_report *report, json_t *object, const cst_pool *pool, int32_t output) {
    char number[24];
    const char *name = pool ? cst_pool_class_name(pool, output) : NULL;
    (void)cst_snprintf(number, sizeof number, "%d", (int)output);
    cst_report_string(report, object, "name", name ? name : number);
}

json_t *cst_value_put_outputs(cst_report *report, json_t *object, const cst_pool *pool,
                              const cst_value_metrics *each, int32_t outputs) {
    json_t *list = cst_report_list(report, object, "outputs");
    for (int32_t d = 0; d < outputs; d++) {
        json_t *entry = cst_report_add_object(report, list);
        put_name(report, entry, pool, d);
        if (each)
            cst_value_put_scores(report, entry, &each[d]);
    }
    return list;
}

void cst_value_put_definitions(cst_report *report) {
    static const char *const names[] = {"rmse", "mae", "median_ae", "r2", "coverage", "width"};
    json_t *object = cst_report_object(report, cst_report_root(report), "definitions");
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        cst_report_string(report, object, names[i], cst_metric_definition(names[i]));
    cst_report_string(report, object, "nll", cst_metric_definition("nll_gaussian"));
}

/* ---- members ---- */

enum { SUM_SQUARE = 0, SUM_ABSOLUTE = 1, SUM_DEVIATION = 2, SUM_MEMBER = 3 };

typedef struct members_job {
    const cst_view *view;
    const uint8_t **present; /* [members]: rows that each predicted; NULL: all */
    double *mean;            /* [members][outputs]: of the targets of these rows */
} members_job;

static bool is_there(const members_job *job, int32_t member, int64_t row) {
    const uint8_t *present = job->present[member];
    return !present || cst_view_is_there(job->view, present, row);
}

/* The weighted mean of an output's targets, no further than the targets are: rounding takes that of
 * equal ones beside them, and leaves a deviation where there is none. */
static double target_mean(const members_job *job, int32_t member, int32_t output) {
    const cst_view *view = job->view;
    double sum = 0;
    double total = 0;
    double least = INFINITY;
    double most = -INFINITY;
    for (int64_t i = 0; i < view->rows; i++) {
        double weight = is_there(job, member, i) ? cst_view_weight(view, i) : 0;
        if (!(weight > 0))
            continue;
        double y = cst_view_target(view, i)[output];
        sum += weight * y;
        total += weight;
        least = fmin(least, y);
        most = fmax(most, y);
    }
    return fmin(fmax(sum / total, least), most);
}

/* Rows that a member did not predict do not count, unless it predicted none. */
static void look_at_rows(const members_job *job) {
    const cst_view *view = job->view;
    for (int32_t k = 0; k < view->members; k++) {
        double *mean = job->mean + (size_t)k * (size_t)view->classes;
        job->present[k] = cst_view_present(view, k);
        if (job->present[k] && !(cst_view_present_sum(view, k) > 0))
            job->present[k] = NULL;
        if (!job->present[k] && k > 0 && !job->present[k - 1])
            memcpy(mean, mean - view->classes, (size_t)view->classes * sizeof *mean);
        else
            for (int32_t d = 0; d < view->classes; d++)
                mean[d] = target_mean(job, k, d);
    }
}

static void add_row(const members_job *job, int32_t member, int64_t row, const float *values,
                    double *sum) {
    const cst_view *view = job->view;
    const double *mean = job->mean + (size_t)member * (size_t)view->classes;
    const double *y = cst_view_target(view, row);
    double weight = cst_view_weight(view, row);
    for (int32_t d = 0; d < view->classes; d++, sum += SUM_MEMBER) {
        double error = (double)values[d] - y[d];
        sum[SUM_SQUARE] += weight * (error * error);
        sum[SUM_ABSOLUTE] += weight * fabs(error);
        sum[SUM_DEVIATION] += weight * ((y[d] - mean[d]) * (y[d] - mean[d]));
    }
}

static cst_status members_block(cst_context *context, void *user, int64_t index, double *sum) {
    const members_job *job = user;
    const cst_view *view = job->view;
    size_t outputs = (size_t)view->classes;
    int64_t first = cst_block_first(index);
    int64_t count = cst_block_size(view->rows, index);
    float *scratch =
        cst_alloc(context, cst_view_copies(view) ? (size_t)count * outputs : 0, sizeof *scratch);
    cst_status status = scratch ? CST_OK : CST_ERROR_MEMORY;
    for (int32_t k = 0; status == CST_OK && k < view->members; k++) {
        const float *rows = NULL;
        status = cst_view_rows(context, view, k, first, count, scratch, &rows);
        for (int64_t i = 0; status == CST_OK && i < count; i++)
            if (is_there(job, k, first + i))
                add_row(job, k, first + i, rows + (size_t)i * outputs,
                        sum + (size_t)k * outputs * SUM_MEMBER);
    }
    cst_free(context, scratch);
    return status;
}

static void put_member_metrics(const members_job *job, int32_t member, const double *sum,
                               cst_value_metrics *out) {
    const cst_view *view = job->view;
    const uint8_t *present = job->present[member];
    double total = present ? cst_view_present_sum(view, member) : cst_view_weight_sum(view);
    double share = 1 / (double)view->classes;
    *out = (cst_value_metrics){.median_ae = NAN, .nll = NAN};
    for (int64_t i = 0; i < view->rows; i++)
        out->samples += is_there(job, member, i);
    for (int32_t d = 0; d < view->classes; d++, sum += SUM_MEMBER) {
        out->rmse += share * sqrt(sum[SUM_SQUARE] / total);
        out->mae += share * (sum[SUM_ABSOLUTE] / total);
        out->r2 += share * cst_r2_of(sum[SUM_SQUARE], sum[SUM_DEVIATION]);
    }
}

cst_status cst_value_member_metrics(cst_context *context, const cst_view *view,
                                    cst_value_metrics *out) {
    size_t members = (size_t)view->members;
    size_t each = (size_t)view->classes * SUM_MEMBER;
    double *sums = cst_alloc(context, members * each, sizeof *sums);
    members_job job = {.view = view,
                       .present = cst_alloc(context, members, sizeof *job.present),
                       .mean =
                           cst_alloc(context, members * (size_t)view->classes, sizeof *job.mean)};
    cst_status status = sums && job.present && job.mean ? CST_OK : CST_ERROR_MEMORY;
    if (status == CST_OK) {
        look_at_rows(&job);
        status = cst_reduce_blocks(context, cst_block_count(view->rows), members * each,
                                   members_block, &job, sums);
    }
    for (int32_t k = 0; status == CST_OK && k < view->members; k++)
        put_member_metrics(&job, k, sums + (size_t)k * each, &out[k]);
    cst_free(context, sums);
    cst_free(context, job.present);
    cst_free(context, job.mean);
    return status;
}

void cst_value_put_members(cst_report *report, const cst_pool *pool,
                           const cst_value_metrics *members, const cst_reason *reason) {
    json_t *list = cst_report_list(report, cst_report_root(report), "members");
    for (int32_t k = 0; k < cst_pool_members(pool); k++) {
        json_t *member = cst_document_member(report, list, pool, k, reason);
        cst_report_number(report, member, "rmse", members[k].rmse);
        cst_report_number(report, member, "mae", members[k].mae);
        cst_report_number(report, member, "r2", members[k].r2);
        cst_document_cost(report, member, pool, k);
    }
}

/* ---- a fit ---- */

/* Means of the learners' weights and sums of their losses over the outputs. */
static void put_learners(cst_report *report, const cst_value_facts *facts) {
    static const char *const rules[] = {"star", "cv", "gcv", "evidence"};
    static const char *const of[] = {"meta", "oof"};
    const cst_value_fit *fit = &facts->stages->fit;
    json_t *root = cst_report_root(report);
    cst_report_number(report, root, "lambda", fit->lambda[0]);
    cst_report_string(report, root, "lambda_rule", rules[facts->base.settings->penalty_rule]);
    cst_report_string(report, root, "spectrum_of", of[facts->base.settings->spectrum_of]);
    cst_report_number(report, root, "sigma2", fit->sigma2);
    cst_report_number(report, root, "mp_edge", fit->mp_edge);
    cst_report_number(report, root, "snr", fit->snr);
    json_t *learners = cst_report_list(report, root, "learners");
    json_t *blend = cst_report_object(report, root, "blend");
    for (int32_t m = 0; m < fit->learners; m++) {
        double sums[3] = {0, 0, 0};
        for (int32_t d = 0; d < fit->outputs; d++) {
            sums[0] += fit->blend[d * fit->learners + m] / fit->outputs;
            sums[1] += fit->nll[d * fit->learners + m];
            sums[2] += 0.5 * fit->logdet[d * fit->learners + m];
        }
        json_t *entry = cst_report_add_object(report, learners);
        cst_report_string(report, entry, "name", cst_value_learner_name(fit->kind[m]));
        cst_report_number(report, entry, "nll", sums[1]);
        if (facts->base.settings->blend.rule == CST_BLEND_LAPLACE)
            cst_report_number(report, entry, "loss", sums[1]);
        cst_report_number(report, entry, "half_logdet", sums[2]);
        cst_report_number(report, entry, "weight", sums[0]);
        cst_report_number(report, blend, cst_value_learner_name(fit->kind[m]), sums[0]);
    }
}

/* What differs between the outputs. */
static void put_outputs(cst_report *report, const cst_value_facts *facts) {
    const cst_value_fit *fit = &facts->stages->fit;
    const cst_model *model = facts->stages->base.fit.model;
    const cst_learner *learner = &model->learner[0];
    int32_t columns = learner->coefficients / fit->outputs;
    json_t *list = cst_value_put_outputs(report, cst_report_root(report), facts->base.pool,
                                         facts->each, fit->outputs);
    for (int32_t d = 0; d < fit->outputs; d++) {
        json_t *entry = json_array_get(list, (size_t)d);
        cst_report_number(report, entry, "lambda", fit->lambda[d]);
        cst_report_number(report, entry, "noise_sd", sqrt(model->values->noise[d]));
        cst_report_number(report, entry, "disagreement", model->values->share[d]);
        cst_report_number(report, entry, "intercept", learner->bias[d]);
        json_t *weights = cst_report_object(report, entry, "weights");
        for (int32_t j = 0; j < model->members; j++)
            cst_report_number(report, weights,
                              cst_pool_member_name(facts->base.pool, facts->stages->base.kept[j]),
                              learner->weights[d * columns + j]);
        json_t *blend = cst_report_object(report, entry, "blend");
        for (int32_t m = 0; m < fit->learners; m++)
            cst_report_number(report, blend, cst_value_learner_name(fit->kind[m]),
                              fit->blend[d * fit->learners + m]);
    }
}

/* Weights of the members, where the stack is a linear function of them alone; their mean over the
 * outputs. */
static void put_weights(cst_report *report, const cst_value_facts *facts) {
    const cst_value_fit *fit = &facts->stages->fit;
    const cst_model *model = facts->stages->base.fit.model;
    json_t *weights = cst_report_object(report, cst_report_root(report), "weights");
    int32_t columns = model->learner[0].coefficients / fit->outputs;
    for (int32_t j = 0; columns == model->members && j < columns; j++) {
        double mean = 0;
        for (int32_t d = 0; d < fit->outputs; d++)
            mean += model->learner[0].weights[d * columns + j] / fit->outputs;
        cst_report_number(report, weights,
                          cst_pool_member_name(facts->base.pool, facts->stages->base.kept[j]),
                          mean);
    }
}

static void put_oof(cst_report *report, const cst_value_facts *facts) {
    static const cst_value_metrics unknown = {
        .rmse = NAN, .mae = NAN, .median_ae = NAN, .r2 = NAN, .nll = NAN};
    json_t *oof = cst_report_object(report, cst_report_root(report), "oof");
    cst_value_put_scores(report, oof, facts->oof ? facts->oof : &unknown);
    cst_document_nested(report, oof, facts->oof != NULL);
}

cst_status cst_value_fit_document(cst_context *context, const cst_value_facts *facts,
                                  cst_report **out) {
    cst_status status = cst_report_begin(context, CST_REPORT_FIT, out);
    if (status != CST_OK)
        return status;
    cst_report *report = *out;
    const cst_fit_facts *base = &facts->base;
    const cst_stages *stages = &facts->stages->base;
    json_t *root = cst_report_root(report);
    cst_report_string(report, root, "task", "regression");
    cst_report_string(report, root, "model", NULL);
    cst_report_string(report, root, "preset", cst_options_preset_name(base->options));
    cst_report_integer(report, root, "seed", (int64_t)base->settings->seed);
    cst_report_integer(report, root, "samples", base->source->view.rows);
    if (base->source->view.weights)
        cst_report_number(report, root, "effective_samples",
                          cst_view_effective_rows(&base->source->view));
    cst_report_string(report, root, "pool_hash",
                      cst_model_value(base->stages->fit.model, "split.pool"));
    json_t *folds = cst_report_object(report, root, "folds");
    cst_report_integer(report, folds, "count", base->source->fold_count);
    cst_report_string(report, folds, "source", base->source->folds_given ? "pool" : "made");
    cst_document_outcomes(report, base);
    cst_value_put_members(report, facts->base.pool, facts->members, facts->stages->base.reason);
    cst_document_redundancy(report, base);
    cst_document_path(report, base);
    cst_document_front(report, base);
    status = cst_document_condition(context, report, stages);
    put_learners(report, facts);
    put_weights(report, facts);
    put_oof(report, facts);
    put_outputs(report, facts);
    cst_report_string(report, root, "interval_rule",
                      base->settings->conformal ? "conformal" : "gaussian");
    cst_value_put_definitions(report);
    cst_document_costs(report, base);
    cst_findings_put(report, base->pool, base->findings, false);
    cst_report_notices(report, context);
    CST_THEN(cst_report_finish(context, report));
    if (status != CST_OK) {
        cst_report_free(context, report);
        *out = NULL;
    }
    return status;
}
