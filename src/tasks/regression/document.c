/* Documents of a regression. Last step of fit, evaluate and compare. Keys: docs/json.md. */
#include "tasks/regression/regression.h"

#include "model/transform.h"
#include "stats/row_weights.h"

#include <math.h>
#include <string.h>

/* ---- scores ---- */

void cst_value_put_scores(cst_report *report, json_t *object, const cst_value_metrics *scores) {
    CST_PUT(report, object, CST_N("rmse", scores->rmse), CST_N("mae", scores->mae),
            CST_N("median_ae", scores->median_ae), CST_N("r2", scores->r2),
            CST_N("nll", scores->nll));
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
    size_t width = (size_t)job->view->classes * SUM_MEMBER;
    cst_rows rows;
    CST_SCOPE(scope);
    CST_TRY(cst_rows_open(context, scope, job->view, index, &rows));
    for (int32_t k = 0; k < job->view->members; k++) {
        CST_TRY(cst_rows_read(context, &rows, k));
        for (int64_t i = 0; i < rows.count; i++)
            if (is_there(job, k, rows.first + i))
                add_row(job, k, rows.first + i, cst_rows_at(&rows, i), sum + (size_t)k * width);
    }
    return CST_OK;
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
    members_job job = {.view = view};
    CST_SCOPE(scope);
    CST_NEW(context, scope, double, sums, (members * each));
    CST_TAKE(context, scope, job.present, members);
    CST_TAKE(context, scope, job.mean, members * (size_t)view->classes);
    look_at_rows(&job);
    CST_TRY(cst_reduce_blocks(context, cst_block_count(view->rows), members * each, members_block,
                              &job, sums));
    for (int32_t k = 0; k < view->members; k++)
        put_member_metrics(&job, k, sums + (size_t)k * each, &out[k]);
    return CST_OK;
}

static void put_members(cst_report *report, const cst_pool *pool, const cst_value_metrics *members,
                        const cst_reason *reason) {
    json_t *list = cst_report_list(report, cst_report_root(report), "members");
    for (int32_t k = 0; k < cst_pool_members(pool); k++) {
        json_t *member = cst_document_member(report, list, pool, k, reason);
        CST_PUT(report, member, CST_N("rmse", members[k].rmse), CST_N("mae", members[k].mae),
                CST_N("r2", members[k].r2));
        cst_document_cost(report, member, pool, k);
    }
}

/* ---- a fit ---- */

void cst_value_put_kept(cst_report *report, const cst_fit_facts *facts) {
    put_members(report, facts->pool, facts->members, facts->stages->reason);
}

/* What differs between the outputs. */
static void put_outputs(cst_report *report, const cst_fit_facts *facts) {
    const cst_value_fit *fit = facts->stages->fit.values;
    const cst_model *model = facts->stages->fit.model;
    const cst_learner *learner = &model->learner[0];
    int32_t columns = learner->coefficients / fit->outputs;
    json_t *list = cst_value_put_outputs(report, cst_report_root(report), facts->pool, facts->each,
                                         fit->outputs);
    for (int32_t d = 0; d < fit->outputs; d++) {
        json_t *entry = json_array_get(list, (size_t)d);
        int32_t range = model->range ? model->range[d] : 0;
        CST_PUT(report, entry, CST_N("lambda", fit->lambda[d]),
                CST_N("noise_sd", sqrt(model->values->noise[d])),
                CST_N("disagreement", model->values->share[d]),
                CST_N("intercept", learner->bias[d]), CST_N("low", range & CST_RANGE_LOW ? 0 : NAN),
                CST_N("high", range & CST_RANGE_HIGH ? 1 : NAN));
        cst_document_weights(report, entry, "weights", facts, learner->weights + d * columns,
                             model->members);
        json_t *blend = cst_report_object(report, entry, "blend");
        for (int32_t m = 0; m < fit->learners; m++)
            cst_report_number(report, blend, cst_value_learner_name(fit->kind[m]),
                              fit->blend[d * fit->learners + m]);
    }
}

/* Weights of the members where the stack is a linear function of them alone, their mean over the
 * outputs; scores; outputs. */
static void put_rule(cst_report *report, json_t *object, const void *scores) {
    cst_value_put_scores(report, object, scores);
}

void cst_value_put_own_fit(cst_report *report, const cst_fit_facts *facts) {
    static const cst_value_metrics unknown = {
        .rmse = NAN, .mae = NAN, .median_ae = NAN, .r2 = NAN, .nll = NAN};
    const cst_model *model = facts->stages->fit.model;
    const cst_learner *learner = &model->learner[0];
    json_t *root = cst_report_root(report);
    json_t *weights = cst_report_object(report, root, "weights");
    int32_t columns = learner->coefficients / model->classes;
    for (int32_t j = 0; columns == model->members && j < columns; j++) {
        double mean = 0;
        for (int32_t d = 0; d < model->classes; d++)
            mean += learner->weights[d * columns + j] / model->classes;
        cst_report_number(report, weights,
                          cst_pool_member_name(facts->pool, facts->stages->kept[j]), mean);
    }
    json_t *oof = cst_report_object(report, root, "oof");
    cst_value_put_scores(report, oof, facts->oof ? facts->oof : &unknown);
    cst_document_nested(report, oof, facts->oof != NULL);
    cst_document_comparison(report, facts, "squared_error", put_rule);
    put_outputs(report, facts);
    if (model->transform)
        cst_report_string(report, root, "transform", cst_transform_name(model->transform->kind));
    cst_report_string(report, root, "interval_rule",
                      facts->settings->conformal ? "conformal" : "gaussian");
    cst_value_put_definitions(report);
}

/* ---- an inspection ---- */

/* One spectrum of the meta-design for each output: at the root where there is one, else in
 * "outputs". */
static cst_status put_spectra(cst_context *context, cst_report *report, const cst_fit_job *job,
                              const cst_view *view, const cst_scaling *scaling) {
    const cst_training *source = &job->source;
    json_t *list = NULL;
    cst_gate gate = {.mode = job->settings.gate.mode, .inputs = view->members};
    CST_SCOPE(scope);
    CST_NEW(context, scope, cst_moments, moments, view->classes);
    CST_OWN(context, scope, cst_gate, &gate);
    CST_TRY(cst_value_gates_fit(context, view, scaling, source->folds, &job->settings, 1, &gate));
    CST_TRY(cst_value_moments(context, scope, view, scaling, &gate, source->folds,
                              source->fold_count, moments));
    if (view->classes > 1)
        list =
            cst_value_put_outputs(report, cst_report_root(report), job->pool, NULL, view->classes);
    for (int32_t d = 0; d < view->classes; d++) {
        json_t *object = list ? json_array_get(list, (size_t)d) : cst_report_root(report);
        cst_spectrum_members members = {.count = moments[d].inputs, .classes = 1};
        CST_TRY(cst_document_no_spectrum(
            context, report, object,
            cst_document_spectrum(context, report, object, &moments[d], &members, &job->settings)));
    }
    return CST_OK;
}

cst_status cst_value_inspect(cst_context *context, cst_fit_job *job, cst_report *report) {
    const cst_view *view = &job->source.view;
    cst_scope *scope = job->scope;
    cst_costs costs = cst_training_costs(&job->source);
    cst_run run = cst_fit_job_run(job, &costs);
    CST_TRY(cst_value_check(context, job->pool, job->facts.split, &job->source));
    CST_TRY(run.family->measure(context, job));
    put_members(report, job->pool, job->facts.members, NULL);
    CST_TRY(cst_inspect_findings(context, job, report));
    CST_OWN(context, scope, cst_stages, &job->stages);
    CST_TRY(cst_stages_alloc(context, view->members, &job->stages));
    CST_TRY(run.family->prepare(context, scope, &run, &job->stages));
    CST_TRY(cst_stage(context, "redundancy"));
    CST_TRY(run.family->cka(context, &run, &job->stages.cka));
    CST_TRY(cst_document_similarity(context, report, job->pool, &job->settings, &job->stages.cka,
                                    job->stages.pearson));
    return put_spectra(context, report, job, run.view, &((const cst_value_own *)run.own)->scaling);
}
