/* The family of multilabel: log-odds of independent probabilities and their log loss.
 * Paper: stages S1 to S4. docs/multilabel.md. */
#include "tasks/multilabel/multilabel.h"

#include "core/la.h"
#include "method/select/wald.h"
#include "method/select/within.h"
#include "tasks/regression/regression.h"

#include <math.h>
#include <string.h>

CST_OWNED(cst_projection)

/* Many cells, whose members agree in how they are wrong: precision in units of select.prior. */
static const double LABELS_PRIOR = 10;

/* What paths and thresholds are judged with: nearly common weights. */
static const double COMMON = 1e5;

static cst_status prepare(cst_context *context, cst_scope *scope, cst_run *run, cst_stages *out) {
    CST_NEW(context, scope, cst_label_table, table, 1);
    CST_TRY(cst_stage(context, "log-odds"));
    CST_TRY(cst_label_table_make(context, scope, run->view, run->folds, run->fold_count, table));
    run->own = table;
    memcpy(out->risk, table->risk, (size_t)table->members * sizeof *out->risk);
    return cst_pearson(context, run->view, out->pearson);
}

static cst_status cka(cst_context *context, const cst_run *run, cst_cka_result *out) {
    return cst_cka(context, run->view, &run->settings->cka, out);
}

static cst_label_pool pool_of(const cst_run *run, const int32_t *members, int32_t count,
                              double lambda) {
    return (cst_label_pool){.members = members,
                            .count = count,
                            .prior = LABELS_PRIOR * run->settings->selection.prior,
                            .lambda = lambda};
}

/* ---- the threshold ---- */

static cst_status judge(cst_context *context, const cst_run *run, const cst_stages *stages,
                        const double *taus, int32_t count, double *loss) {
    const cst_label_table *table = run->own;
    cst_projection_rule rule = cst_projection_rule_of(run, stages->cka.constant);
    for (int32_t c = 0; c < count; c++) {
        cst_projection kept = {0};
        CST_SCOPE(scope);
        CST_NEW(context, scope, double, held, table->rows);
        rule.tau = taus[c];
        CST_OWN(context, scope, cst_projection, &kept);
        CST_TRY(
            cst_project(context, stages->similarity, stages->members, stages->risk, &rule, &kept));
        cst_label_pool pool = pool_of(run, kept.kept, kept.kept_count, COMMON);
        CST_TRY(cst_label_pool_take(context, scope, table, &pool));
        for (int32_t f = 0; f < table->fold_count; f++) {
            double rows = 0;
            double *sum = &loss[c * table->fold_count + f];
            CST_TRY(cst_label_pool_fit(context, table, f, &pool, NULL));
            CST_TRY(cst_label_pool_losses(context, table, f, &pool, held));
            for (int64_t i = 0; i < table->rows; i++) {
                *sum += table->folds[i] == f ? held[i] : 0;
                rows += table->folds[i] == f;
            }
            *sum /= fmax(rows, 1);
        }
    }
    return CST_OK;
}

/* ---- selection ---- */

typedef struct choice {
    const cst_run *run;
    const cst_label_table *table;
    const int32_t *members; /* [count] */
    int32_t count;
    const cst_select_options *options;
    double lambda;
} choice;

/* The path on the rows without a fold, in positions of `members`. */
static cst_status find_path(cst_context *context, const choice *c, int32_t fold, int32_t **set) {
    size_t d = (size_t)c->count + 1;
    CST_SCOPE(scope);
    CST_NEW(context, scope, double, curvature, d *d);
    cst_label_pool pool = pool_of(c->run, c->members, c->count, COMMON);
    CST_TRY(cst_label_pool_take(context, scope, c->table, &pool));
    CST_TRY(cst_label_pool_fit(context, c->table, fold, &pool, curvature));
    return cst_wald_path(context, pool.shared, curvature, c->count, d, c->options, set);
}

/* Losses [count sizes][rows] of the rows of a fold, by its own path. */
static cst_status fold_losses(cst_context *context, const choice *c, int32_t fold, double *losses) {
    int32_t **set;
    CST_SCOPE(scope);
    CST_NEW(context, scope, int32_t, members, c->count);
    CST_TRY(cst_wald_sets(context, scope, c->count, &set));
    CST_TRY(find_path(context, c, fold, set));
    for (int32_t s = 0; s < c->count; s++) {
        CST_SCOPE(own);
        for (int32_t j = 0; j <= s; j++)
            members[j] = c->members[set[s][j]];
        cst_label_pool pool = pool_of(c->run, members, s + 1, c->lambda);
        CST_TRY(cst_label_pool_take(context, own, c->table, &pool));
        CST_TRY(cst_label_pool_fit(context, c->table, fold, &pool, NULL));
        CST_TRY(cst_label_pool_losses(context, c->table, fold, &pool, losses + s * c->table->rows));
    }
    return CST_OK;
}

static cst_status choose(cst_context *context, const cst_run *run, const int32_t *members,
                         int32_t count, const cst_select_options *options, cst_selection *out,
                         cst_front *front) {
    choice c = {run, run->own, members, count, options, 0};
    size_t k = (size_t)count;
    int64_t rows = c.table->rows;
    int32_t **set;
    CST_SCOPE(scope);
    CST_NEW(context, scope, double, losses, k *(size_t)rows);
    cst_label_pool all = pool_of(run, members, count, 0);
    CST_TRY(cst_label_pool_take(context, scope, c.table, &all));
    CST_TRY(cst_label_pool_choose(context, c.table, &all, losses));
    c.lambda = all.lambda;
    for (int32_t f = 0; f < run->fold_count; f++)
        CST_TRY(fold_losses(context, &c, f, losses));
    CST_TRY(cst_wald_sets(context, scope, count, &set));
    CST_TRY(find_path(context, &c, -1, set));
    return cst_wald_choose(context, options, losses, rows, count, set, out, front);
}

/* ---- the fit ---- */

cst_status cst_label_model(cst_context *context, int32_t labels, int32_t members,
                           const int32_t *kept, int32_t count, const cst_label_functions *functions,
                           const double *mix, cst_model **out) {
    CST_TRY(cst_stack_create(context, out));
    cst_model *model = *out;
    CST_TRY(cst_value_model(context, labels, count, count, model));
    model->task = CST_TASK_MULTILABEL;
    model->map = functions->mean ? CST_PROBABILITY_MIXTURE : CST_PROBABILITY_CLIP;
    model->gate.inputs = count;
    for (int32_t j = 0; j < count; j++)
        model->mix[j] = mix[kept ? kept[j] : j];
    for (int32_t l = 0; l < labels; l++) {
        model->learner->bias[l] = functions->bias[l];
        for (int32_t j = 0; j < count; j++)
            model->learner->weights[l * count + j] =
                functions->weights[(size_t)l * (size_t)members + (size_t)(kept ? kept[j] : j)];
    }
    return CST_OK;
}

static cst_status fit_members(cst_context *context, const cst_run *run, const int32_t *members,
                              int32_t count, bool losses, cst_meta_fit *out) {
    const cst_label_table *table = run->own;
    size_t d = (size_t)count + 1;
    size_t labels = (size_t)table->labels;
    cst_label_functions functions = {0};
    CST_SCOPE(scope);
    CST_NEW(context, scope, double, mix, count);
    CST_TAKE(context, scope, functions.weights, labels * (size_t)count);
    CST_TAKE(context, scope, functions.bias, labels);
    CST_TAKE(context, &out->scope, out->row_loss, table->rows);
    cst_label_pool pool = pool_of(run, members, count, 0);
    CST_TRY(cst_label_pool_take(context, scope, table, &pool));
    CST_TRY(cst_label_pool_choose(context, table, &pool, out->row_loss));
    for (size_t l = 0; l < labels; l++) {
        memcpy(functions.weights + l * (size_t)count, pool.theta + l * d,
               (size_t)count * sizeof *pool.theta);
        functions.bias[l] = pool.theta[l * d + d - 1];
    }
    for (int32_t j = 0; j < count; j++)
        mix[j] = table->mix[members[j]];
    CST_TRY(
        cst_label_model(context, table->labels, count, NULL, count, &functions, mix, &out->model));
    if (!losses)
        out->row_loss = NULL;
    out->model->blend = cst_take_text(context, &out->model->scope, "log-odds 1");
    out->learners = 1;
    out->name[0] = "log-odds";
    out->weight[0] = 1;
    out->nll[0] = out->loss[0] = out->half_logdet[0] = NAN;
    out->lambda = pool.lambda;
    out->sigma2 = out->mp_edge = out->snr = NAN;
    return out->model->blend ? CST_OK : CST_ERROR_MEMORY;
}

/* How much the log-odds move with a member, by its probabilities. */
static double reliance(const cst_run *run, const cst_meta_fit *fit, int32_t j,
                       const double *deviation) {
    const cst_model *model = fit->model;
    double sum = 0;
    for (int32_t l = 0; l < run->view->classes; l++)
        sum += fabs(model->learner->weights[l * model->members + j]) * deviation[l];
    return sum;
}

static cst_status predict(cst_context *context, const cst_model *model, const cst_view *view,
                          float *const *out) {
    return cst_stack_predict(context, model, view, out[0]);
}

/* ---- a fit of a split ---- */

static cst_status admit(cst_context *context, cst_fit_job *job) {
    const cst_view *view = &job->source.view;
    for (int64_t i = 0; i < view->rows; i++)
        for (int32_t l = 0; l < view->classes; l++)
            if (!isnan(cst_view_target(view, i)[l]))
                return CST_OK;
    return cst_fail(context, CST_ERROR_INPUT, "split '%.60s': no label of any row is known",
                    job->facts.split);
}

static bool is_foreign(const cst_options *options, const char *key) {
    static const char *const used[] = {"seed",        "folds.",    "evaluate.nested", "checks",
                                       "redundancy.", "cka.",      "pearson.",        "keep.",
                                       "select.",     "refit.drop"};
    (void)options;
    for (size_t i = 0; i < sizeof used / sizeof used[0]; i++)
        if (strncmp(key, used[i], strlen(used[i])) == 0)
            return false;
    return true;
}

cst_status cst_label_check_options(cst_context *context, const cst_options *options) {
    CST_TRY(cst_training_no_time(context, options, "multilabel"));
    return cst_check_foreign(context, options, "multilabel", is_foreign, "");
}

static cst_status ready(cst_context *context, cst_fit_job *job) {
    return cst_label_check_options(context, job->facts.options);
}

static cst_status label(cst_context *context, cst_fit_job *job) {
    return cst_value_label(context, job->pool, job->facts.split, &job->source, job->facts.options,
                           NULL, job->stages.kept, job->stages.fit.model);
}

static cst_status score(cst_context *context, cst_fit_job *job) {
    const cst_view *view = &job->source.view;
    size_t cells = (size_t)view->rows * (size_t)view->classes;
    cst_costs costs = cst_training_costs(&job->source);
    cst_run run = cst_fit_job_run(job, &costs);
    CST_NEW(context, job->scope, double, oof, CST_LABEL_SCORES);
    CST_NEW(context, job->scope, cst_label_score, each, view->classes);
    CST_SCOPE(scope);
    CST_NEW(context, scope, float, held, cells);
    CST_NEW(context, scope, double, weights, view->rows);
    CST_NEW(context, scope, double, targets, cells);
    const cst_fold_result result = {held, (size_t)view->classes};
    CST_TRY(cst_stages_nested(context, &run, NULL, &result, 1));
    for (int64_t i = 0; i < view->rows; i++) {
        weights[i] = cst_view_weight(view, i);
        memcpy(targets + i * view->classes, cst_view_target(view, i),
               (size_t)view->classes * sizeof *targets);
    }
    const cst_label_cells rows = {held, targets, weights, view->rows, view->classes};
    CST_TRY(cst_label_scores_of(context, &rows, oof, each));
    job->facts.oof = oof;
    job->facts.each = each;
    return job->settings.nested ? cst_label_simple_rules(context, job, &rows) : CST_OK;
}

static cst_status measure(cst_context *context, cst_fit_job *job) {
    cst_label_table table;
    CST_NEW(context, job->scope, double, risk, job->source.view.members);
    CST_SCOPE(scope);
    CST_TRY(cst_label_table_make(context, scope, &job->source.view, job->source.folds,
                                 job->source.fold_count, &table));
    memcpy(risk, table.risk, (size_t)table.members * sizeof *risk);
    job->facts.members = risk;
    return CST_OK;
}

/* ---- documents ---- */

static void put_kept(cst_report *report, const cst_fit_facts *facts) {
    cst_document_losses(report, facts->pool, "log_loss", facts->members, facts->stages->reason);
}

void cst_label_put_each(cst_report *report, json_t *object, const cst_pool *pool,
                        const cst_label_score *each, int32_t labels) {
    json_t *list = cst_report_list(report, object, "labels");
    for (int32_t l = 0; l < labels; l++) {
        char number[24];
        const char *name = pool ? cst_pool_class_name(pool, l) : NULL;
        json_t *entry = cst_report_add_object(report, list);
        (void)cst_snprintf(number, sizeof number, "%d", (int)l);
        CST_PUT(report, entry, CST_S("name", name ? name : number), CST_I("known", each[l].known),
                CST_I("positives", each[l].positives), CST_N("log_loss", each[l].log_loss),
                CST_N("auc", each[l].auc), CST_N("ap", each[l].ap), CST_N("f1", each[l].f1));
    }
}

static void put_scores(cst_report *report, json_t *object, const void *scores) {
    int32_t count = 0;
    const double *values = scores;
    const cst_score_spec *specs = cst_task_scores(CST_TASK_MULTILABEL, &count);
    for (int32_t s = 0; s < count; s++)
        cst_report_number(report, object, specs[s].key, values ? values[s] : NAN);
}

/* Mean weights over the labels, nested scores, the labels. */
static void put_own(cst_report *report, const cst_fit_facts *facts) {
    const cst_model *model = facts->stages->fit.model;
    json_t *root = cst_report_root(report);
    json_t *weights = cst_report_object(report, root, "weights");
    for (int32_t j = 0; j < model->members; j++)
        cst_report_number(report, weights,
                          cst_pool_member_name(facts->pool, facts->stages->kept[j]),
                          cst_model_member_weight(model, j));
    json_t *scores = cst_report_object(report, root, "oof");
    put_scores(report, scores, facts->oof);
    cst_document_nested(report, scores, facts->oof != NULL);
    cst_document_comparison(report, facts, "log_loss", put_scores);
    if (facts->each)
        cst_label_put_each(report, root, facts->pool, facts->each, model->classes);
}

static cst_status inspect(cst_context *context, cst_fit_job *job, cst_report *report) {
    CST_TRY(admit(context, job));
    CST_TRY(measure(context, job));
    return cst_inspect_members(context, job, "log_loss", &job->source.view, report);
}

const cst_family cst_multilabel_family = {
    .task = "multilabel",
    .loss = "log loss",
    .pool = "log-odds",
    .whole = true,
    .prepare = prepare,
    .cka = cka,
    .judge = judge,
    .choose = choose,
    .fit = fit_members,
    .reliance = reliance,
    .predict = predict,
    .admit = admit,
    .ready = ready,
    .label = label,
    .score = score,
    .measure = measure,
    .put_members = put_kept,
    .put_own = put_own,
    .inspect = inspect,
};
