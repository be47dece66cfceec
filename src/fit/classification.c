/* The family of classification: log-probabilities and cross-entropy. Paper: stages S1 to S4;
 * "Leakage-Freeness of the Nested OOF Construction". */
#include "fit/family.h"
#include "fit/label.h"
#include "fit/simple_rules.h"
#include "stats/row_weights.h"
#include "stats/samples.h"

#include <math.h>
#include <string.h>

CST_OWNED(cst_projection)
CST_OWNED(cst_cka_result)
CST_OWNED(cst_logtable)
CST_OWNED(cst_loglinear)
CST_OWNED(cst_moments)
CST_OWNED(cst_meta_fit)

/* ---- before the fit ---- */

cst_status cst_balance_check(cst_context *context, const cst_settings *settings) {
    if (settings->balance <= 0)
        return CST_OK;
    if (settings->learners != CST_META_LOGLINEAR)
        return cst_fail(
            context, CST_ERROR_ARGUMENT,
            "fit.balance weights the rows of the log-linear pool and of selection, and has no "
            "effect on other meta-learners: set meta.learners=log-linear, or fit.balance=0");
    if (settings->drop)
        return cst_fail(context, CST_ERROR_ARGUMENT,
                        "fit.balance and refit.drop cannot be combined: removals are judged on "
                        "unweighted rows; set refit.drop=false, or fit.balance=0");
    if (settings->domain_aware == CST_DOMAIN_AWARE_TRUE)
        return cst_fail(context, CST_ERROR_ARGUMENT,
                        "fit.balance and domain.aware=true cannot be combined: biases of domains "
                        "would undo the balance; set domain.aware=false, or fit.balance=0");
    return CST_OK;
}

/* The settings for the rows of a view: with a balance, losses of selection and log-linear pool have
 * class weights (rows / (classes n_c))^balance, scaled so that the rows' mean is 1; a class without
 * rows has none. Rows are counted by their own weights, of mean 1. */
static cst_status balance(cst_context *context, cst_scope *scope, const cst_view *view,
                          const cst_settings *settings, cst_settings *out) {
    double total = 0;
    *out = *settings;
    CST_TRY(cst_balance_check(context, settings));
    if (settings->balance <= 0)
        return CST_OK;
    CST_NEW(context, scope, double, counts, view->classes);
    CST_NEW(context, scope, double, weights, view->classes);
    for (int64_t i = 0; i < view->rows; i++)
        counts[cst_view_label(view, i)] += cst_view_weight(view, i);
    for (int32_t c = 0; c < view->classes; c++) {
        double share = (double)view->classes * counts[c] / (double)view->rows;
        weights[c] = counts[c] > 0 ? pow(share, -settings->balance) : 0;
        total += counts[c] * weights[c];
    }
    for (int32_t c = 0; c < view->classes; c++)
        weights[c] *= (double)view->rows / total;
    out->selection.compact.class_weights = weights;
    out->loglinear.compact.class_weights = weights;
    return CST_OK;
}

static cst_status prepare(cst_context *context, cst_scope *scope, cst_run *run, cst_stages *out) {
    const cst_settings *settings = run->settings;
    if (settings->loglinear.nonnegative && !settings->select &&
        !(settings->learners & CST_META_LOGLINEAR))
        cst_notice(context,
                   "loglinear.nonnegative=true has no effect: there is neither selection nor a "
                   "log-linear pool, and the weights of linear meta-learners may be negative");
    CST_NEW(context, scope, cst_settings, balanced, 1);
    CST_TRY(balance(context, scope, run->view, settings, balanced));
    run->settings = balanced;
    CST_TRY(cst_stage(context, "risk of members"));
    CST_TRY(cst_risk_all(context, run->view, out->risk));
    CST_TRY(cst_stage(context, "correlations"));
    if (settings->cka.quiet && settings->measure == CST_MEASURE_CKA) /* only a report has them */
        return CST_OK;
    return settings->measure == CST_MEASURE_PEARSON
               ? cst_pearson(context, run->view, out->pearson)
               : cst_pearson_about(context, run->view, out->pearson);
}

/* Before a selection, members that say the same are found on so many rows, or where they have fewer
 * numbers, on more. */
static const int64_t ALIKE_ROWS = 4096;
static const int64_t ALIKE_NUMBERS = (int64_t)1 << 24;

static cst_status cka(cst_context *context, const cst_run *run, cst_cka_result *out) {
    cst_some_rows rows = {*run->view, run->folds, NULL, run->fold_count};
    int64_t most = ALIKE_NUMBERS / ((int64_t)rows.view.members * rows.view.classes);
    CST_SCOPE(scope);
    if (run->settings->select && run->settings->cka.estimator == CST_CKA_AUTO)
        CST_TRY(cst_some_rows_thin(context, scope, &rows, most < ALIKE_ROWS ? ALIKE_ROWS : most,
                                   &rows));
    return cst_cka(context, &rows.view, &run->settings->cka, out);
}

/* Held-out NLL of a log-linear pool on the given members, fitted on `in`, judged on `out`. */
static cst_status pool_loss(cst_context *context, const cst_view *in, const cst_view *out,
                            const int32_t *members, int32_t count, const cst_settings *settings,
                            double *loss) {
    cst_logtable table = {0};
    cst_logtable held = {0};
    cst_loglinear pool = {0};
    CST_SCOPE(scope);
    CST_NEW(context, scope, const float *, pointers, 2 * (size_t)count);
    CST_NEW(context, scope, int32_t, active, count);
    CST_OWN(context, scope, cst_logtable, &table);
    CST_OWN(context, scope, cst_logtable, &held);
    CST_OWN(context, scope, cst_loglinear, &pool);
    cst_view fit = cst_view_members(in, members, count, pointers);
    cst_view judge = cst_view_members(out, members, count, pointers + count);
    cst_loglinear_options options = settings->loglinear;
    options.evidence = false;
    for (int32_t k = 0; k < count; k++)
        active[k] = k;
    CST_TRY(cst_logtable_pair(context, &fit, &judge, &table, &held));
    CST_TRY(cst_loglinear_fit(context, &table, active, count, &options, NULL, &pool));
    return cst_loglinear_loss(context, &held, active, count, pool.weights, pool.bias, loss, NULL);
}

typedef struct threshold_job {
    const cst_run *run;
    const double *taus;
    int32_t count;
    double *loss; /* [count][folds] */
} threshold_job;

static cst_status threshold_fold(cst_context *context, void *user, int64_t fold) {
    const threshold_job *job = user;
    const cst_run *run = job->run;
    const cst_view *view = run->view;
    size_t cells = (size_t)view->members * (size_t)view->members;
    cst_view in;
    cst_view out;
    cst_cka_result found = {0};
    CST_SCOPE(scope);
    CST_NEW(context, scope, int64_t, index, view->rows);
    CST_NEW(context, scope, double, similarity, cells);
    CST_NEW(context, scope, double, risk, view->members);
    cst_view_split(view, run->folds, (int32_t)fold, index, &in, &out);
    if (run->settings->measure == CST_MEASURE_PEARSON) {
        CST_TRY(cst_pearson(context, &in, similarity));
    } else {
        CST_TRY(cst_cka(context, &in, &run->settings->cka, &found));
        CST_OWN(context, scope, cst_cka_result, &found);
        memcpy(similarity, found.cka, cells * sizeof *similarity);
    }
    CST_TRY(cst_risk_all(context, &in, risk));
    for (int32_t c = 0; c < job->count; c++) {
        cst_projection kept = {0};
        cst_projection_rule rule = cst_projection_rule_of(run, found.constant);
        CST_SCOPE(round);
        rule.tau = job->taus[c];
        CST_OWN(context, round, cst_projection, &kept);
        CST_TRY(cst_project(context, similarity, view->members, risk, &rule, &kept));
        CST_TRY(pool_loss(context, &in, &out, kept.kept, kept.kept_count, run->settings,
                          &job->loss[c * run->fold_count + fold]));
    }
    return CST_OK;
}

static cst_status judge(cst_context *context, const cst_run *run, const cst_stages *stages,
                        const double *taus, int32_t count, double *loss) {
    threshold_job job = {.run = run, .taus = taus, .count = count, .loss = loss};
    (void)stages;
    return cst_parallel_for(context, run->fold_count, threshold_fold, &job);
}

/* What a log-linear pool of all members, with the prior of its evidence, says of every row. */
static cst_status teach(cst_context *context, cst_scope *scope, const cst_run *run,
                        const cst_some_rows *rows, const cst_view *view,
                        cst_select_options *options) {
    cst_meta_fit fit = {0};
    float *told;
    CST_SCOPE(own);
    CST_TAKE(context, scope, told, (size_t)view->rows * (size_t)view->classes);
    CST_OWN(context, own, cst_meta_fit, &fit);
    cst_settings settings = *run->settings;
    cst_settings_pool_only(&settings);
    if (settings.learners == CST_META_POOLS)
        settings.learners = CST_META_LOGLINEAR;
    if (settings.prior_cv)
        settings.loglinear.evidence = view->classes <= CST_COMPACT_CLASSES;
    settings.prior_cv = settings.share_cv = false;
    CST_TRY(cst_meta_fit_run(context, view, rows->folds, rows->fold_count, &settings, false, &fit));
    CST_TRY(cst_stack_predict(context, fit.model, view, told));
    options->targets = told;
    return CST_OK;
}

/* What members can say of one another is seen on so many rows, or where they have fewer numbers, on
 * more. */
static const int64_t TAUGHT_ROWS = 8192;
static const int64_t TAUGHT_NUMBERS = (int64_t)1 << 24;

static cst_status choose(cst_context *context, const cst_run *run, const int32_t *members,
                         int32_t count, const cst_select_options *options, cst_selection *out,
                         cst_front *front) {
    cst_some_rows rows = {*run->view, run->folds, NULL, run->fold_count};
    cst_select_options with = *options;
    int64_t most = TAUGHT_NUMBERS / ((int64_t)count * run->view->classes);
    CST_SCOPE(scope);
    CST_NEW(context, scope, const float *, pointers, count);
    if (options->rule == CST_SELECT_DISTIL)
        CST_TRY(cst_some_rows_thin(context, scope, &rows, most < TAUGHT_ROWS ? TAUGHT_ROWS : most,
                                   &rows));
    cst_view part = cst_view_members(&rows.view, members, count, pointers);
    if (options->rule == CST_SELECT_DISTIL)
        CST_TRY(teach(context, scope, run, &rows, &part, &with));
    return cst_select(context, &part, rows.folds, rows.fold_count, &with, out, front);
}

static cst_status lead(cst_context *context, const cst_run *run, bool *leading) {
    int32_t count = 0;
    CST_TRY(cst_leading_members(context, run, leading));
    for (int32_t k = 0; k < run->view->members; k++)
        count += leading[k];
    if (!run->settings->cka.quiet)
        cst_notice(
            context,
            "%d members are too many to select from: only the %d that a log-linear pool of all "
            "needs most take "
            "part",
            (int)run->view->members, (int)count);
    return CST_OK;
}

/* ---- the fit ---- */

static cst_status fit_members(cst_context *context, const cst_run *run, const int32_t *members,
                              int32_t count, bool losses, cst_meta_fit *out) {
    CST_SCOPE(scope);
    CST_NEW(context, scope, const float *, pointers, count);
    cst_view part = cst_view_members(run->view, members, count, pointers);
    return cst_meta_fit_run(context, &part, run->folds, run->fold_count, run->settings, losses,
                            out);
}

static double reliance(const cst_run *run, const cst_meta_fit *fit, int32_t j,
                       const double *deviation) {
    double square = 0;
    double sum = 0;
    for (int32_t c = 0; c < run->view->classes; c++)
        square += deviation[c] * deviation[c];
    for (int32_t m = 0; m < fit->model->learners; m++)
        sum += fabs(fit->model->learner[m].blend * fit->model->learner[m].weights[j]);
    return sum * sqrt(square / (double)run->view->classes);
}

static cst_status complete(cst_context *context, const cst_run *run, cst_stages *out) {
    (void)run;
    return cst_model_prune(context, out->fit.model);
}

/* The layer of the domains on predictions of rows by stacks that have not seen them; the model gets
 * it where it is to have one. */
static cst_status add_domains(cst_context *context, const cst_run *run, cst_stages *out) {
    const cst_view *view = run->view;
    double start = cst_seconds();
    size_t cells = 0;
    float *held;
    cst_settings plain = *run->settings;
    cst_run nested = *run;
    if (!cst_domain_wanted(view, run->settings))
        return CST_OK;
    nested.settings = &plain;
    plain.domain_aware = CST_DOMAIN_AWARE_FALSE;
    plain.front = false;
    if (!cst_size_mul((size_t)view->rows, (size_t)view->classes, &cells))
        return cst_fail(context, CST_ERROR_LIMIT, "the held-out predictions overflow");
    CST_SCOPE(scope);
    CST_TAKE(context, scope, held, cells);
    const cst_fold_result result = {held, (size_t)view->classes};
    CST_TRY(cst_stage(context, "domains"));
    CST_TRY(cst_stages_nested(context, &nested, NULL, &result, 1));
    CST_TRY(cst_domain_layer_fit(context, view, run->folds, run->fold_count, run->settings, held,
                                 &out->domain));
    if (out->domain.used)
        out->fit.model->domains = out->domain.map;
    out->seconds_domain = cst_seconds() - start;
    return CST_OK;
}

static cst_status predict(cst_context *context, const cst_model *model, const cst_view *view,
                          float *const *out) {
    return cst_stack_predict(context, model, view, out[0]);
}

static double row_loss(const cst_view *view, int64_t row, const float *told) {
    return -log(fmax((double)told[cst_view_label(view, row)], CST_NLL_FLOOR));
}

/* ---- a fit of a split ---- */

/* Presets that are the paper's method to the letter learn nothing of classes from other members. */
static cst_status admit(cst_context *context, cst_fit_job *job) {
    const char *preset = cst_options_preset_name(job->facts.options);
    if (!job->settings.checks || job->hints || strcmp(preset, "paper") == 0 ||
        strcmp(preset, "prototype") == 0)
        return CST_OK;
    return cst_training_teach(context, job->pool, job->facts.split, job->settings.seed,
                              &job->source, &job->findings);
}

static cst_status ready(cst_context *context, cst_fit_job *job) {
    CST_TRY(cst_fit_doubt(context, job));
    job->facts.noise = job->hints ? NULL : &job->noise;
    return cst_stages_attach(context, job->scope, &job->source, &job->settings, &job->source.view);
}

static cst_status label(cst_context *context, cst_fit_job *job) {
    CST_TRY(cst_stage(context, "reference for the guard"));
    return cst_fit_label_rows(context, job->pool, job->facts.split, &job->source,
                              job->facts.options, NULL, job->stages.kept, job->stages.fit.model);
}

/* Penalty and spectrum for the report where no linear learner has computed them. */
static cst_status diagnose(cst_context *context, cst_fit_job *job) {
    const cst_training *source = &job->source;
    cst_stages *stages = &job->stages;
    if (!isnan(stages->fit.lambda))
        return CST_OK;
    CST_SCOPE(scope);
    CST_NEW(context, scope, const float *, pointers, stages->kept_count);
    cst_view kept = cst_view_members(&source->view, stages->kept, stages->kept_count, pointers);
    cst_status status = cst_meta_diagnose(context, &kept, source->folds, source->fold_count,
                                          &job->settings, &stages->fit);
    if (status != CST_ERROR_INPUT && status != CST_ERROR_NUMERIC)
        return status;
    /* Nothing of the fit depends on it: constant members have no spectrum. */
    cst_notice(context, "penalty and spectrum are not reported: %s", cst_last_error(context));
    return CST_OK;
}

/* Finds the model's decisions for a metric of decisions, and scores the metric. held: nested
 * predictions of the rows that are scored. */
static cst_status judge_metric(cst_context *context, cst_fit_job *job, const float *held) {
    cst_metric_choice metric = job->facts.metric;
    cst_metric_rows rows;
    const int32_t *folds;
    if (!metric.metric)
        return CST_OK;
    CST_SCOPE(scope);
    CST_TRY(cst_nested_rows(context, scope, &job->source, held, &rows, &folds));
    CST_NEW(context, scope, int32_t, decided, rows.rows);
    if (cst_metric_decides(metric))
        CST_TRY(cst_model_decisions(context, metric, &rows, folds, job->source.fold_count, decided,
                                    job->stages.fit.model, &job->facts.gain));
    rows.decided = cst_metric_decides(metric) ? decided : NULL;
    return cst_metric_interval(context, metric, &rows, job->settings.seed, &job->facts.oof_metric);
}

static cst_status score(cst_context *context, cst_fit_job *job) {
    cst_view view = job->source.view;
    cst_counted later = {0};
    cst_costs costs = cst_training_costs(&job->source);
    cst_run run = cst_fit_job_run(job, &costs);
    CST_NEW(context, job->scope, cst_metrics, oof, 1);
    CST_SCOPE(scope);
    CST_NEW(context, scope, float, held, ((size_t)view.rows * (size_t)view.classes));
    const cst_fold_result result = {held, (size_t)view.classes};
    if (job->settings.nested)
        CST_TAKE(context, scope, run.without, (size_t)view.rows * (size_t)view.members);
    CST_TRY(cst_stages_nested(context, &run, &job->source, &result, 1));
    CST_TRY(cst_fit_job_scored(context, scope, job, &later, &view));
    cst_training_pack(&job->source, (size_t)view.classes, held);
    CST_TRY(cst_metrics_weighted(context, held, view.rows, view.classes, view.labels, view.weights,
                                 0, oof));
    job->facts.oof = oof;
    if (job->settings.nested) {
        cst_training_pack(&job->source, (size_t)job->source.view.members, run.without);
        CST_TRY(cst_members_missed(context, job, &view, run.without));
        CST_TRY(cst_simple_rules(context, job, &view, held));
    }
    return judge_metric(context, job, held);
}

static cst_status measure(cst_context *context, cst_fit_job *job) {
    CST_NEW(context, job->scope, cst_metrics, members, job->source.view.members);
    job->facts.members = members;
    CST_TRY(cst_fit_members_metric(context, job));
    return cst_member_metrics(context, &job->source.view, members);
}

/* ---- documents ---- */

static void put_members(cst_report *report, const cst_fit_facts *facts) {
    cst_document_members(report, facts->pool, facts->members, facts->stages->reason);
    cst_document_without(report, facts);
}

/* How members are mixed with the uniform distribution in the log-linear pool. */
static void put_mixing(cst_report *report, const cst_fit_facts *facts) {
    const cst_meta_fit *fit = &facts->stages->fit;
    const cst_model *model = fit->model;
    json_t *mixing = cst_report_object(report, cst_report_root(report), "mixing");
    cst_report_number(report, mixing, "share", fit->share > 0 ? fit->share : NAN);
    json_t *members = cst_report_object(report, mixing, "members");
    for (int32_t m = 0; m < model->learners; m++)
        for (int32_t j = 0; model->learner[m].kind == CST_LEARNER_LOGLINEAR &&
                            !model->learner[m].own && j < model->members;
             j++)
            cst_report_number(report, members,
                              cst_pool_member_name(facts->pool, facts->stages->kept[j]),
                              model->mix[j]);
}

static void put_scores(cst_report *report, json_t *object, const void *scores) {
    cst_document_scores(report, object, scores);
}

static void put_own(cst_report *report, const cst_fit_facts *facts) {
    static const cst_metrics unknown = {.top1 = NAN, .ece = NAN, .nll = NAN, .brier = NAN};
    const cst_domain_layer *layer = &facts->stages->domain;
    json_t *root = cst_report_root(report);
    const cst_learner *pool = cst_model_pool(facts->stages->fit.model);
    cst_document_weights(report, root, "weights", facts, pool ? pool->weights : NULL,
                         pool ? pool->coefficients : 0);
    put_mixing(report, facts);
    if (layer->tried) {
        json_t *object = cst_document_domains(report, layer->map);
        CST_PUT(report, object, CST_B("used", layer->used), CST_N("nll_before", layer->before),
                CST_N("nll_after", layer->after), CST_N("se", layer->se));
    }
    json_t *oof = cst_report_object(report, root, "oof");
    cst_document_scores(report, oof, facts->oof ? facts->oof : &unknown);
    cst_document_nested(report, oof, facts->oof != NULL);
    cst_document_comparison(report, facts, "nll", put_scores);
    cst_report_string(report, root, "ece_definition", cst_metric_definition("ece"));
}

/* ---- an inspection ---- */

static cst_status put_redundancy(cst_context *context, cst_report *report, const cst_fit_job *job) {
    const cst_view *view = &job->source.view;
    cst_cka_result cka = {0};
    CST_SCOPE(scope);
    CST_NEW(context, scope, double, pearson, ((size_t)view->members * (size_t)view->members));
    CST_TRY(cst_stage(context, "redundancy"));
    CST_OWN(context, scope, cst_cka_result, &cka);
    CST_TRY(cst_cka(context, view, &job->settings.cka, &cka));
    CST_TRY(cst_pearson_about(context, view, pearson));
    return cst_document_similarity(context, report, job->pool, &job->settings, &cka, pearson);
}

/* Rows that the spectrum of many members is made from. */
enum { SPECTRUM_ROWS = 4096 };

/* Spectrum of the meta-design of all members and what each rule makes of it. */
static cst_status put_spectrum(cst_context *context, cst_report *report, const cst_fit_job *job,
                               const cst_metrics *scores) {
    const cst_training *source = &job->source;
    const cst_view *view = &source->view;
    cst_some_rows rows = {*view, source->folds, NULL, source->fold_count};
    cst_spectrum_members members = {.count = view->members, .classes = view->classes};
    cst_gate gate = {0};
    cst_moments moments = {0};
    int32_t best = 0;
    for (int32_t k = 1; k < view->members; k++)
        if (scores[k].nll < scores[best].nll)
            best = k;
    CST_SCOPE(scope);
    CST_OWN(context, scope, cst_gate, &gate);
    CST_OWN(context, scope, cst_moments, &moments);
    if (view->members > CST_MANY_MEMBERS && view->rows > SPECTRUM_ROWS) {
        CST_TRY(cst_some_rows_thin(context, scope, &rows, SPECTRUM_ROWS, &rows));
        cst_notice(context, "of %d members the spectrum is that of %lld of %lld rows",
                   (int)view->members, (long long)rows.view.rows, (long long)view->rows);
    }
    CST_TRY(cst_gate_fit(context, &rows.view, best, &job->settings.gate, &gate));
    CST_TRY(cst_moments_compute(context, &rows.view, &gate, rows.folds, rows.fold_count, &moments));
    return cst_document_spectrum(context, report, cst_report_root(report), &moments, &members,
                                 &job->settings);
}

static cst_status inspect(cst_context *context, cst_fit_job *job, cst_report *report) {
    const cst_view *view = &job->source.view;
    json_t *root = cst_report_root(report);
    CST_NEW(context, job->scope, cst_metrics, members, view->members);
    CST_NEW(context, job->scope, int64_t, counts, view->classes);
    CST_TRY(cst_member_metrics(context, view, members));
    CST_TRY(put_redundancy(context, report, job));
    CST_TRY(cst_document_no_spectrum(context, report, root,
                                     put_spectrum(context, report, job, members)));
    cst_document_members(report, job->pool, members, NULL);
    for (int64_t i = 0; i < view->rows; i++)
        counts[cst_view_label(view, i)]++;
    cst_report_integers(report, root, "class_counts", counts, view->classes);
    if (!job->hints) {
        CST_TRY(cst_training_doubt(context, &job->source, &job->settings, &job->noise));
        cst_document_noise(report, job->pool, job->facts.split, &job->source, &job->noise);
    }
    return cst_inspect_findings(context, job, report);
}

const cst_family cst_classification_family = {
    .loss = "NLL",
    .pool = "log-linear",
    .prepare = prepare,
    .cka = cka,
    .judge = judge,
    .lead = lead,
    .choose = choose,
    .fit = fit_members,
    .reliance = reliance,
    .complete = complete,
    .last = add_domains,
    .predict = predict,
    .row_loss = row_loss,
    .admit = admit,
    .ready = ready,
    .label = label,
    .diagnose = diagnose,
    .score = score,
    .measure = measure,
    .put_members = put_members,
    .put_own = put_own,
    .inspect = inspect,
};
