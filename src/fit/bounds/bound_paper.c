/* Clusters, spectrum and PAC-Bayes bound by the paper. docs/bounds.md#the-papers-quantities. */
#include "core/la.h"
#include "fit/bounds/bound.h"
#include "fit/bounds/spectral.h"
#include "fit/document.h"
#include "fit/training.h"
#include "method/linear/linear.h"
#include "method/linear/moments.h"
#include "model/stack.h"
#include "stats/pac_bayes.h"

#include <math.h>
#include <string.h>

typedef struct pool_facts {
    cst_cka_result cka;
    double *pearson;      /* [members][members] */
    double *values;       /* [2][members]: eigenvalues of all, then of the kept ones */
    int32_t *cluster_of;  /* [members] */
    int32_t *kept;        /* [clusters]: of each cluster the member with the least NLL */
    cst_metrics *metrics; /* [members] */
    cst_cluster_facts by_cka;
    cst_cluster_facts by_pearson;
    cst_spectral_facts before;
    cst_spectral_facts after;
    double kappa_cka[2]; /* of the CKA matrix: of all, of the kept ones */
    cst_spectral_claims claims;
} pool_facts;

CST_OWNED(cst_cka_result)

static void choose_kept(pool_facts *f, int32_t members) {
    for (int32_t c = 0; c < f->by_cka.clusters; c++)
        f->kept[c] = -1;
    for (int32_t k = 0; k < members; k++) {
        int32_t *kept = &f->kept[f->cluster_of[k]];
        if (*kept < 0 || f->metrics[k].nll < f->metrics[*kept].nll)
            *kept = k;
    }
}

static cst_status measure(cst_context *context, cst_scope *scope, const cst_bound_work *work,
                          pool_facts *f) {
    const cst_view *view = &work->view;
    size_t members = (size_t)view->members;
    CST_TAKE(context, scope, f->pearson, members * members);
    CST_TAKE(context, scope, f->values, 2 * members);
    CST_TAKE(context, scope, f->cluster_of, members);
    CST_TAKE(context, scope, f->kept, members);
    CST_TAKE(context, scope, f->metrics, members);
    CST_OWN(context, scope, cst_cka_result, &f->cka);
    CST_TRY(cst_member_metrics(context, view, f->metrics));
    CST_TRY(cst_stage(context, "redundancy"));
    CST_TRY(cst_cka(context, view, &work->settings.cka, &f->cka));
    CST_TRY(cst_pearson(context, view, f->pearson));
    CST_TRY(
        cst_clusters(context, f->cka.cka, view->members, work->settings.threshold, f->cluster_of));
    cst_cluster_facts_of(f->cka.cka, view->members, f->cluster_of, &f->by_cka);
    cst_cluster_facts_of(f->pearson, view->members, f->cluster_of, &f->by_pearson);
    choose_kept(f, view->members);
    CST_TRY(
        cst_spectral_facts_of(context, f->pearson, view->members, NULL, 0, f->values, &f->before));
    CST_TRY(cst_spectral_facts_of(context, f->pearson, view->members, f->kept, f->by_cka.clusters,
                                  f->values + members, &f->after));
    CST_TRY(cst_cka_kappa(context, &f->cka, NULL, 0, &f->kappa_cka[0]));
    CST_TRY(cst_cka_kappa(context, &f->cka, f->kept, f->by_cka.clusters, &f->kappa_cka[1]));
    cst_spectral_claims_of(&f->by_cka, &f->before, &f->after, &f->claims);
    return CST_OK;
}

static void put_claims(cst_report *report, const pool_facts *f) {
    json_t *object = cst_report_object(report, cst_report_root(report), "spectral");
    CST_PUT(report, object, CST_B("applies", f->claims.applies),
            CST_N("kappa_before_above", f->claims.kappa_above),
            CST_N("kappa_after_below", f->claims.kappa_below),
            CST_N("ratio_above", f->claims.ratio_above));
    static const char *const names[] = {"holds_before", "holds_after", "holds_ratio"};
    for (int i = 0; i < 3; i++)
        cst_report_flag_where(report, object, names[i], i == 2 || f->claims.applies,
                              f->claims.holds[i]);
    CST_PUT(report, object, CST_N("largest", f->before.largest),
            CST_N("smallest", f->before.smallest), CST_N("disc_low", f->before.disc_low),
            CST_N("disc_high", f->before.disc_high),
            CST_N("trace_difference", f->before.trace - f->after.trace),
            CST_N("trace_claimed", f->by_cka.largest - 1));
}

/* Gershgorin's discs of the correlation matrix. */
static void put_discs(cst_report *report, const cst_bound_work *work, const pool_facts *f) {
    size_t members = (size_t)work->view.members;
    json_t *list = cst_report_list(report, cst_report_root(report), "discs");
    for (size_t i = 0; i < members; i++) {
        double radius = 0;
        for (size_t j = 0; j < members; j++)
            radius += j == i ? 0 : fabs(f->pearson[i * members + j]);
        json_t *disc = cst_report_add_object(report, list);
        CST_PUT(report, disc, CST_S("member", cst_pool_member_name(work->pool, (int32_t)i)),
                CST_N("centre", f->pearson[i * members + i]), CST_N("radius", radius));
    }
}

/* Condition and effective dimension with a penalty, in units of the mean eigenvalue, 1. */
static void put_penalties(cst_report *report, const pool_facts *f) {
    static const double penalties[] = {0.01, 0.1, 1};
    json_t *list = cst_report_list(report, cst_report_root(report), "regularised");
    for (size_t i = 0; i < sizeof penalties / sizeof penalties[0]; i++) {
        double lambda = penalties[i];
        double before = cst_kappa_lambda(&f->before, lambda);
        double after = cst_kappa_lambda(&f->after, lambda);
        double claimed = cst_kappa_reduction(&f->by_cka, &f->before, &f->after, lambda);
        json_t *item = cst_report_add_object(report, list);
        CST_PUT(report, item, CST_N("lambda", lambda), CST_N("kappa_before", before),
                CST_N("kappa_after", after), CST_N("claimed", claimed),
                CST_B("holds", before - after >= claimed - 1e-9 * before),
                CST_N("dimension_before",
                      cst_effective_dimension(f->values, f->before.members, lambda)),
                CST_N("dimension_after", cst_effective_dimension(f->values + f->before.members,
                                                                 f->after.members, lambda)));
    }
}

cst_status cst_bound_spectrum(cst_context *context, cst_bound_work *work, cst_report *report) {
    json_t *root = cst_report_root(report);
    pool_facts f = {0};
    CST_SCOPE(scope);
    CST_TRY(measure(context, scope, work, &f));
    cst_document_clusters(report, work->pool, f.cluster_of);
    CST_PUT(report, root, CST_N("cluster_threshold", work->settings.threshold),
            CST_I("largest_cluster", f.by_cka.largest), CST_N("epsilon", f.by_cka.epsilon),
            CST_N("mu", f.by_cka.mu), CST_B("incoherent", f.by_cka.incoherent),
            CST_N("epsilon_pearson", f.by_pearson.epsilon), CST_N("mu_pearson", f.by_pearson.mu),
            CST_N("kappa_gram_before", f.before.kappa), CST_N("kappa_gram_after", f.after.kappa),
            CST_N("kappa_cka_before", f.kappa_cka[0]), CST_N("kappa_cka_after", f.kappa_cka[1]));
    put_claims(report, &f);
    put_discs(report, work, &f);
    put_penalties(report, &f);
    return CST_OK;
}

typedef struct ridge_fit {
    cst_scope *scope;    /* of the arrays */
    cst_settings fit;    /* the stack's */
    cst_view view;       /* its members, on the rows it was fitted on */
    cst_moments moments; /* of all rows, by fold */
    cst_standardised standardised;
    cst_linear linear;
    double star;     /* lambda*: the precision of the prior */
    double lambda;   /* on the scale of X'X/n */
    double variance; /* of the noise: the mean squared error on the folds that a fit has not seen */
    double mu;       /* largest CKA of two kept members */
    int64_t rows;    /* 0: there is no fit */
    double kl;       /* KL(Q || P) of the Laplace posterior in standardised coefficients */
    double norm;     /* |w| */
    bool validated;  /* lambda* is of rows that are not counted */
    double logdet;   /* of Q's precision */
    double spread;   /* mean loss that Q adds to that of its mean: trace(S X'X/n) */
} ridge_fit;

CST_RELEASED(cst_training, cst_training_close)
CST_OWNED(cst_moments)
CST_OWNED(cst_standardised)
CST_OWNED(cst_linear)
CST_OWNED(cst_spectrum)
CST_OWNED(cst_options)

cst_status cst_bound_settings(cst_context *context, const cst_model *model, const char *only,
                              cst_settings *out) {
    cst_options *options = NULL;
    CST_SCOPE(scope);
    CST_TRY(cst_options_create(context, &options));
    CST_OWN(context, scope, cst_options, options);
    for (int64_t i = 0; i < cst_option_count(); i++) {
        const char *key = cst_option_at(i)->key;
        const char *value = !only || strcmp(key, only) == 0 ? cst_model_value(model, key) : NULL;
        if (value)
            CST_TRY(cst_options_set(context, options, key, value));
    }
    cst_settings_read(options, out);
    return CST_OK;
}

/* lambda* of the kept members' columns, or of the meta-design, as the fit has it, on some rows. */
static cst_status star_of(cst_context *context, const cst_view *view, const ridge_fit *r,
                          const cst_standardised *standardised, double *star) {
    cst_spectrum spectrum = {0};
    cst_spectrum_members members = {.count = view->members, .classes = view->classes};
    CST_SCOPE(scope);
    CST_OWN(context, scope, cst_spectrum, &spectrum);
    if (r->fit.spectrum_of == CST_SPECTRUM_OOF)
        CST_TRY(
            cst_spectrum_of_members(context, standardised, &members, r->fit.noise_rule, &spectrum));
    else
        CST_TRY(cst_spectrum_values(context, standardised, r->fit.noise_rule, &spectrum));
    *star = spectrum.lambda_star;
    return isfinite(*star) && *star > 0
               ? CST_OK
               : cst_fail(context, CST_ERROR_NUMERIC, "there is no lambda* for it");
}

/* lambda* of a split whose rows are not counted, so that the prior does not depend on those that
 * are. */
static cst_status star_of_validation(cst_context *context, const cst_bound_work *work,
                                     const cst_gate *gate, const ridge_fit *r, double *star) {
    cst_view view;
    cst_moments moments = {0};
    cst_standardised standardised = {0};
    CST_SCOPE(scope);
    CST_OWN(context, scope, cst_moments, &moments);
    CST_OWN(context, scope, cst_standardised, &standardised);
    CST_TRY(cst_bound_view(context, scope, work, work->validation, &view));
    if (!view.labels)
        return cst_fail(context, CST_ERROR_INPUT, "split '%s' has no labels", work->validation);
    CST_TRY(cst_moments_compute(context, &view, gate, NULL, 1, &moments));
    CST_TRY(cst_standardise(context, &moments, -1, &standardised));
    return star_of(context, &view, r, &standardised, star);
}

/* The noise of the blender's evidence: each fold predicted by the ridge of the others. */
static cst_status heldout_variance(cst_context *context, const ridge_fit *r, double *variance) {
    double sum = 0;
    double rows = 0;
    for (int32_t f = 0; f < r->moments.folds; f++) {
        cst_standardised others = {0};
        cst_linear linear = {0};
        double count = 0;
        double star = r->star;
        CST_SCOPE(scope);
        CST_OWN(context, scope, cst_standardised, &others);
        CST_OWN(context, scope, cst_linear, &linear);
        CST_TRY(cst_standardise(context, &r->moments, f, &others));
        if (!r->validated)
            CST_TRY(star_of(context, &r->view, r, &others, &star));
        CST_TRY(cst_linear_fit(context, &others, CST_LINEAR_RIDGE,
                               cst_penalty_of_star(star, r->fit.penalty_scale, others.rows), 0,
                               &linear));
        sum += cst_moments_loss(&r->moments, f, linear.coefficients, linear.intercept, &count);
        rows += count;
    }
    *variance = fmax(sum / rows, 1e-300);
    return CST_OK;
}

static cst_status largest_cka(cst_context *context, const cst_view *view,
                              const cst_cka_options *options, double *mu) {
    cst_cka_result cka = {0};
    CST_SCOPE(scope);
    CST_OWN(context, scope, cst_cka_result, &cka);
    CST_TRY(cst_cka(context, view, options, &cka));
    *mu = 0;
    for (int32_t a = 0; a < view->members; a++)
        for (int32_t b = a + 1; b < view->members; b++)
            *mu = fmax(*mu, cka.cka[(size_t)a * (size_t)view->members + (size_t)b]);
    return CST_OK;
}

/* The ridge on the stack's gated features, on the rows it was fitted on, with lambda*. */
static cst_status fit_ridge(cst_context *context, const cst_bound_work *work, ridge_fit *r) {
    cst_training training = {0};
    cst_gate none = {.mode = CST_GATE_NONE, .inputs = work->model->members};
    const cst_gate *gate = work->model->gate.mode == CST_GATE_NONE ? &none : &work->model->gate;
    CST_SCOPE(scope);
    CST_TRY(cst_bound_settings(context, work->model, NULL, &r->fit));
    CST_TRY(cst_bound_view(context, r->scope, work, "oof", &r->view));
    if (!r->view.labels)
        return cst_fail(context, CST_ERROR_INPUT, "split 'oof' has no labels");
    CST_OWN(context, scope, cst_training, &training);
    CST_TRY(cst_training_open(context, work->pool, "oof", &r->fit.folds, r->fit.seed, &training));
    if (training.view.rows != r->view.rows)
        return cst_fail(context, CST_ERROR_INPUT, "rows of split 'oof' do not count");
    CST_OWN(context, r->scope, cst_moments, &r->moments);
    CST_OWN(context, r->scope, cst_standardised, &r->standardised);
    CST_OWN(context, r->scope, cst_linear, &r->linear);
    CST_TRY(cst_moments_compute(context, &r->view, gate, training.folds, training.fold_count,
                                &r->moments));
    CST_TRY(cst_standardise(context, &r->moments, -1, &r->standardised));
    r->validated = work->validation != NULL;
    CST_TRY(r->validated ? star_of_validation(context, work, gate, r, &r->star)
                         : star_of(context, &r->view, r, &r->standardised, &r->star));
    r->lambda = cst_penalty_of_star(r->star, r->fit.penalty_scale, r->standardised.rows);
    CST_TRY(cst_linear_fit(context, &r->standardised, CST_LINEAR_RIDGE, r->lambda, 0, &r->linear));
    CST_TRY(heldout_variance(context, r, &r->variance));
    CST_TRY(largest_cka(context, &r->view, &r->fit.cka, &r->mu));
    r->rows = r->view.rows;
    return CST_OK;
}

/* Q: the mean is the ridge, the precision the blender's Hessian, (X'X + n lambda I) / variance. */
static cst_status take_posterior(cst_context *context, ridge_fit *r) {
    const cst_standardised *s = &r->standardised;
    size_t d = (size_t)s->kept;
    cst_spectrum spectrum = {0};
    CST_SCOPE(scope);
    CST_NEW(context, scope, double, hessian, (d * d));
    CST_NEW(context, scope, double, w, d);
    r->norm = 0;
    for (size_t i = 0; i < d; i++) {
        w[i] = r->linear.coefficients[s->index[i]] * s->scale[i];
        r->norm += w[i] * w[i];
    }
    r->norm = sqrt(r->norm);
    cst_linear_hessian(s, r->lambda, r->variance, hessian);
    CST_TRY(cst_cholesky(context, (int64_t)d, hessian));
    r->logdet = cst_cholesky_logdet((int64_t)d, hessian);
    CST_OWN(context, scope, cst_spectrum, &spectrum);
    CST_TRY(cst_spectrum_values(context, s, r->fit.noise_rule, &spectrum));
    r->spread = r->variance / s->rows *
                cst_effective_dimension(spectrum.values, spectrum.columns, r->lambda);
    return cst_kl_gaussian_hessian(context, (int64_t)d, w, hessian, NULL, r->star, &r->kl);
}

static void put_paper(const cst_bound_work *work, const ridge_fit *r, cst_report *report) {
    if (r->rows < 2) {
        cst_report_number(report, cst_report_root(report), "pac_bayes", NAN);
        return;
    }
    json_t *object = cst_report_object(report, cst_report_root(report), "pac_bayes");
    const cst_gate *gate = &work->model->gate;
    double dimensions = r->moments.columns;
    if (gate->mode == CST_GATE_LEARNED)
        dimensions += (double)cst_gate_parameter_count(gate->inputs, gate->hidden);
    double empirical = r->linear.loss + r->spread;
    cst_paper_bound bound = cst_pac_bayes_paper(empirical, r->kl, (double)r->rows, work->delta,
                                                r->norm, dimensions, work->model->members, r->mu);
    CST_PUT(report, object, CST_N("empirical", empirical), CST_N("kl", r->kl),
            CST_N("term", bound.term), CST_N("phi", bound.phi), CST_N("total", bound.total),
            CST_B("vacuous", bound.total >= r->standardised.target_square),
            CST_N("trivial", r->standardised.target_square), CST_I("samples", r->rows),
            CST_I("members", work->model->members), CST_N("mu", r->mu),
            CST_N("lambda_star", r->star), CST_N("lambda", r->lambda),
            CST_S("lambda_split", r->validated ? work->validation : "oof"),
            CST_N("variance", r->variance), CST_N("half_logdet", 0.5 * r->logdet),
            CST_N("radius", r->norm), CST_N("dimensions", dimensions));
}

cst_status cst_bound_paper(cst_context *context, const cst_bound_work *work, cst_report *report) {
    /* The rows of a list of files are called "oof" too, and are the ones that are scored. */
    bool scored = strcmp(work->split, "oof") == 0;
    CST_SCOPE(scope);
    ridge_fit r = {.scope = scope, .kl = NAN, .norm = NAN};
    if (work->model->adapted) {
        cst_notice(context,
                   "the model was adapted: bounds from rows of split '%s' hold for the adapted "
                   "model, the PAC-Bayes bound of the paper is about the stack before, and is not "
                   "reported",
                   work->split);
    } else if (scored || !cst_pool_has_split(work->pool, "oof") ||
               cst_pool_conditions(work->pool, "oof") > 0 || cst_pool_weights(work->pool, "oof")) {
        cst_notice(context,
                   "the PAC-Bayes bound of the paper needs unweighted out-of-fold rows, and the "
                   "pool has no such split 'oof'%s",
                   scored ? " besides the one that is scored" : "");
    } else {
        cst_status status = fit_ridge(context, work, &r);
        CST_THEN(take_posterior(context, &r));
        if (status == CST_ERROR_INPUT || status == CST_ERROR_NUMERIC ||
            status == CST_ERROR_MISMATCH) {
            cst_notice(context, "the PAC-Bayes bound of the paper is not reported: %s",
                       cst_last_error(context));
            status = CST_OK;
            r.rows = 0;
        }
        CST_TRY(status);
    }
    put_paper(work, &r, report);
    return CST_OK;
}
