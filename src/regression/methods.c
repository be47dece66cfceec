/*
 * Linear baselines of a regression from moments, and methods by name. Behind comparisons.
 * Paper: section "Experimental Setup"; docs/regression.md.
 */
#include "regression/methods.h"

#include "blend/blend.h"
#include "meta/linear.h"
#include "regression/check.h"
#include "regression/path.h"
#include "regression/redundant.h"

#include <corestack/compare.h>
#include <corestack/statistics.h>

#include <math.h>
#include <string.h>

enum { GREEDY_ROUNDS = 25, CLIMB_STEPS = 1000 };

/* Weights and intercept for one output from the moments of its members. */
typedef cst_status (*baseline_fn)(cst_context *context, const cst_moments *moments, double *weights,
                                  double *intercept);

struct cst_value_baseline {
    const char *name;
    const char *definition;
    baseline_fn fit;
};

/* ---- what baselines are made of ---------------------------------------------------------------
 */

/* Mean products of the members' residuals f - y, [K][K]. */
static cst_status residual_products(cst_context *context, const cst_moments *moments,
                                    double **out) {
    size_t k = (size_t)moments->columns;
    size_t width = k + 2;
    double *sum = cst_alloc(context, width * width, sizeof *sum);
    *out = cst_alloc(context, k * k, sizeof **out);
    if (!sum || !*out) {
        cst_free(context, sum);
        return CST_ERROR_MEMORY;
    }
    cst_moments_without(moments, -1, sum);
    double n = sum[width * width - 1];
    for (size_t i = 0; i < k; i++)
        for (size_t j = 0; j < k; j++)
            (*out)[i * k + j] = (sum[i * width + j] - sum[i * width + k] - sum[j * width + k] +
                                 sum[k * width + k]) /
                                n;
    cst_free(context, sum);
    return CST_OK;
}

static cst_status fit_best_single(cst_context *context, const cst_moments *moments, double *weights,
                                  double *intercept) {
    double *products = NULL;
    size_t k = (size_t)moments->columns;
    cst_status status = residual_products(context, moments, &products);
    size_t best = 0;
    for (size_t j = 1; status == CST_OK && j < k; j++)
        if (products[j * k + j] < products[best * k + best])
            best = j;
    for (size_t j = 0; j < k; j++)
        weights[j] = j == best;
    *intercept = 0;
    cst_free(context, products);
    return status;
}

static cst_status fit_average(cst_context *context, const cst_moments *moments, double *weights,
                              double *intercept) {
    (void)context;
    for (int32_t j = 0; j < moments->columns; j++)
        weights[j] = 1 / (double)moments->columns;
    *intercept = 0;
    return CST_OK;
}

static cst_status fit_performance(cst_context *context, const cst_moments *moments, double *weights,
                                  double *intercept) {
    double *products = NULL;
    size_t k = (size_t)moments->columns;
    cst_status status = residual_products(context, moments, &products);
    double sum = 0;
    for (size_t j = 0; status == CST_OK && j < k; j++) {
        weights[j] = 1 / fmax(products[j * k + j], 1e-12);
        sum += weights[j];
    }
    for (size_t j = 0; status == CST_OK && j < k; j++)
        weights[j] /= sum;
    *intercept = 0;
    cst_free(context, products);
    return status;
}

static cst_status fit_penalised(cst_context *context, const cst_moments *moments,
                                cst_linear_kind kind, double *weights, double *intercept) {
    cst_standardised standardised = {0};
    cst_spectrum spectrum = {0};
    cst_linear linear = {0};
    cst_penalty_grid grid = cst_penalty_grid_default();
    double ratio = kind == CST_LINEAR_LASSO ? 1 : 0.5;
    double lambda = 0;
    cst_penalty_rule rule = moments->folds < 2 ? CST_PENALTY_GCV : CST_PENALTY_CV;
    cst_status status = cst_standardise(context, moments, -1, &standardised);
    if (status == CST_OK)
        status = cst_spectrum_compute(context, &standardised, CST_NOISE_MEDIAN, &spectrum);
    if (status == CST_OK)
        status =
            kind == CST_LINEAR_RIDGE || moments->folds < 2
                ? cst_penalty_choose(context, moments, &standardised, &spectrum, rule, &grid,
                                     &lambda)
                : cst_linear_path_cv(context, moments, kind, ratio, 1e-6, 61, &lambda, NULL, NULL);
    if (status == CST_OK)
        status = cst_linear_fit(context, &standardised, kind, lambda, 0.5, &linear);
    if (status == CST_OK) {
        memcpy(weights, linear.coefficients, (size_t)linear.columns * sizeof *weights);
        *intercept = linear.intercept;
    }
    cst_linear_free(context, &linear);
    cst_spectrum_free(context, &spectrum);
    cst_standardised_free(context, &standardised);
    return status;
}

static cst_status fit_ridge(cst_context *context, const cst_moments *moments, double *weights,
                            double *intercept) {
    return fit_penalised(context, moments, CST_LINEAR_RIDGE, weights, intercept);
}

static cst_status fit_lasso(cst_context *context, const cst_moments *moments, double *weights,
                            double *intercept) {
    return fit_penalised(context, moments, CST_LINEAR_LASSO, weights, intercept);
}

static cst_status fit_elastic_net(cst_context *context, const cst_moments *moments, double *weights,
                                  double *intercept) {
    return fit_penalised(context, moments, CST_LINEAR_ELASTIC_NET, weights, intercept);
}

static cst_status fit_greedy(cst_context *context, const cst_moments *moments, double *weights,
                             double *intercept) {
    double *products = NULL;
    cst_status status = residual_products(context, moments, &products);
    if (status == CST_OK)
        cst_value_greedy(products, moments->columns, GREEDY_ROUNDS, weights);
    *intercept = 0;
    cst_free(context, products);
    return status;
}

static cst_status fit_minimum_variance(cst_context *context, const cst_moments *moments,
                                       double *weights, double *intercept) {
    double *products = NULL;
    cst_status status = residual_products(context, moments, &products);
    if (status == CST_OK)
        status = cst_blend_minimum_variance(context, moments->columns, products, false, weights);
    *intercept = 0;
    cst_free(context, products);
    return status;
}

/* From the best member on, the mixture moves towards the member that lowers its error most, by the
 * best step, until no step lowers it by a millionth. */
static cst_status fit_hill_climbing(cst_context *context, const cst_moments *moments,
                                    double *weights, double *intercept) {
    double *s = NULL;
    size_t k = (size_t)moments->columns;
    cst_status status = residual_products(context, moments, &s);
    double *along = cst_alloc(context, k, sizeof *along); /* S w */
    if (!along)
        status = CST_ERROR_MEMORY;
    if (status == CST_OK)
        status = fit_best_single(context, moments, weights, intercept);
    for (int step = 0; status == CST_OK && step < CLIMB_STEPS; step++) {
        double now = 0;
        for (size_t i = 0; i < k; i++) {
            along[i] = 0;
            for (size_t j = 0; j < k; j++)
                along[i] += s[i * k + j] * weights[j];
            now += weights[i] * along[i];
        }
        size_t best = 0;
        double gain = 0;
        double size = 0;
        for (size_t j = 0; j < k; j++) {
            double curve = s[j * k + j] - 2 * along[j] + now;
            double slope = now - along[j];
            double a = curve > 0 ? fmin(fmax(slope / curve, 0), 1) : 0;
            double gained = 2 * a * slope - a * a * curve;
            if (gained > gain) {
                gain = gained;
                size = a;
                best = j;
            }
        }
        if (gain <= 1e-6 * now)
            break;
        for (size_t j = 0; j < k; j++)
            weights[j] = (1 - size) * weights[j] + (j == best ? size : 0);
    }
    cst_free(context, along);
    cst_free(context, s);
    return status;
}

/* In the order of reports. */
static const cst_value_baseline BASELINES[] = {
    {"best-single", "the member of least squared error", fit_best_single},
    {"average", "the mean of the members", fit_average},
    {"performance-weighted", "members weighted by 1 / mean squared error", fit_performance},
    {"ridge", "ridge regression on the members, penalty by cross-validation", fit_ridge},
    {"lasso", "lasso on the members, penalty by cross-validation", fit_lasso},
    {"elastic-net", "elastic net on the members, penalty by cross-validation", fit_elastic_net},
    {"greedy", "greedy selection with replacement on the squared error, 25 rounds (Caruana)",
     fit_greedy},
    {"minimum-variance", "non-negative weights of sum 1 with the least squared error",
     fit_minimum_variance},
    {"hill-climbing", "steps from the best member towards whichever lowers the squared error most",
     fit_hill_climbing},
};

static const struct value_preset {
    const char *name;
    const char *definition;
} PRESETS[] = {
    {"prototype", "CoRe-Stack, the prototype: Pearson filter, six fixed features, cross-validated "
                  "penalties, inverse-RMSE weights"},
    {"paper", "CoRe-Stack+ to the letter: CKA filter, learned gate, lambda*, Laplace blend, refit"},
    {"default", "corestack's default: near-duplicates out, selection on held-out error, linear "
                "pool drawn to the good members"},
};

enum {
    BASELINE_COUNT = sizeof BASELINES / sizeof BASELINES[0],
    PRESET_COUNT = sizeof PRESETS / sizeof PRESETS[0]
};

/* ---- by name ----------------------------------------------------------------------------------
 */

const char *cst_value_method_name(size_t index) {
    if (index < BASELINE_COUNT)
        return BASELINES[index].name;
    return index < BASELINE_COUNT + PRESET_COUNT ? PRESETS[index - BASELINE_COUNT].name : NULL;
}

static cst_status unknown(cst_context *context, const char *text) {
    char list[384] = "";
    for (size_t i = 0; cst_value_method_name(i); i++) {
        size_t used = strlen(list);
        (void)cst_snprintf(list + used, sizeof list - used, "%s%s", i ? ", " : "",
                           cst_value_method_name(i));
    }
    bool known = strchr(text, '+') || cst_method_describe(text);
    return cst_fail(context, known ? CST_ERROR_UNSUPPORTED : CST_ERROR_ARGUMENT,
                    known ? "method '%.60s' is for classification; those for a regression are %s"
                          : "there is no method '%.60s'; those for a regression are %s",
                    text, list);
}

static cst_status read_settings(cst_context *context, const char *preset, uint64_t seed,
                                const char *const *settings, int32_t count, cst_settings *out) {
    cst_options *options = NULL;
    char text[32];
    (void)cst_snprintf(text, sizeof text, "%llu", (unsigned long long)seed);
    cst_status status = cst_options_create(context, &options);
    if (status == CST_OK)
        status = cst_options_preset(context, options, preset);
    if (status == CST_OK)
        status = cst_options_set(context, options, "seed", text);
    for (int32_t i = 0; status == CST_OK && i < count; i++) {
        const char *equals = strchr(settings[i], '=');
        char key[64];
        if (!equals || (size_t)(equals - settings[i]) >= sizeof key) {
            status = cst_fail(context, CST_ERROR_ARGUMENT, "'%.60s' is not of the form KEY=VALUE",
                              settings[i]);
            break;
        }
        memcpy(key, settings[i], (size_t)(equals - settings[i]));
        key[equals - settings[i]] = '\0';
        status = cst_options_set(context, options, key, equals + 1);
    }
    if (status == CST_OK)
        status = cst_value_check_options(context, options);
    if (status == CST_OK)
        cst_settings_read(options, out);
    cst_options_free(context, options);
    return status;
}

cst_status cst_value_method_parse(cst_context *context, const char *text, uint64_t seed,
                                  const char *const *settings, int32_t setting_count,
                                  cst_value_method *out) {
    *out = (cst_value_method){0};
    (void)cst_snprintf(out->name, sizeof out->name, "%s", text);
    for (int i = 0; i < BASELINE_COUNT; i++)
        if (strcmp(text, BASELINES[i].name) == 0) {
            out->baseline = &BASELINES[i];
            out->definition = BASELINES[i].definition;
            return CST_OK;
        }
    for (int i = 0; i < PRESET_COUNT; i++)
        if (strcmp(text, PRESETS[i].name) == 0) {
            out->preset = PRESETS[i].name;
            out->definition = PRESETS[i].definition;
            return read_settings(context, out->preset, seed, settings, setting_count,
                                 &out->settings);
        }
    return unknown(context, text);
}

cst_status cst_value_baseline_fit(cst_context *context, const char *name,
                                  const cst_moments *moments, double *weights, double *intercept) {
    for (int i = 0; i < BASELINE_COUNT; i++)
        if (strcmp(name, BASELINES[i].name) == 0)
            return BASELINES[i].fit(context, moments, weights, intercept);
    return unknown(context, name);
}

/* ---- a baseline's fit -------------------------------------------------------------------------
 */

/* Linear functions in units of the targets, and the noise beside them. */
typedef struct linear_fit {
    double *weights;   /* [outputs][members] */
    double *intercept; /* [outputs] */
    double *noise;     /* [outputs] */
} linear_fit;

static void linear_free(cst_context *context, linear_fit *fit) {
    cst_free(context, fit->weights);
    cst_free(context, fit->intercept);
    cst_free(context, fit->noise);
    *fit = (linear_fit){0};
}

/* Mean squared error on folds that the fit has not seen, and so the noise. */
static cst_status cross_noise(cst_context *context, const cst_value_baseline *baseline,
                              const cst_moments *moments, double *weights, double *out) {
    double sum = 0;
    double rows = 0;
    cst_status status = CST_OK;
    for (int32_t f = 0; status == CST_OK && f < moments->folds; f++) {
        cst_moments in = {0};
        double intercept = 0;
        double count = 0;
        status = cst_value_moments_part(context, moments, f, NULL, 0, &in);
        if (status == CST_OK)
            status = baseline->fit(context, &in, weights, &intercept);
        if (status == CST_OK)
            sum += cst_moments_loss(moments, f, weights, intercept, &count);
        rows += count;
        cst_moments_free(context, &in);
    }
    *out = rows > 0 ? sum / rows : 0;
    return status;
}

/* Fits each output on the moments of all folds but `without` (negative: all). */
static cst_status fit_linear(cst_context *context, const cst_value_scene *scene,
                             const cst_value_baseline *baseline, int32_t without, linear_fit *out) {
    size_t members = (size_t)scene->source->view.members;
    size_t outputs = (size_t)scene->source->view.classes;
    double *scratch = cst_alloc(context, members, sizeof *scratch);
    out->weights = cst_alloc(context, outputs * members, sizeof *out->weights);
    out->intercept = cst_alloc(context, outputs, sizeof *out->intercept);
    out->noise = cst_alloc(context, outputs, sizeof *out->noise);
    cst_status status =
        scratch && out->weights && out->intercept && out->noise ? CST_OK : CST_ERROR_MEMORY;
    for (size_t d = 0; status == CST_OK && d < outputs; d++) {
        cst_moments moments = {0};
        double *weights = out->weights + d * members;
        double intercept = 0;
        double location = scene->scaling->location[d];
        double scale = scene->scaling->scale[d];
        status = cst_value_moments_part(context, &scene->moments[d], without, NULL, 0, &moments);
        if (status == CST_OK)
            status = baseline->fit(context, &moments, weights, &intercept);
        if (status == CST_OK && moments.folds > 1)
            status = cross_noise(context, baseline, &moments, scratch, &out->noise[d]);
        else if (status == CST_OK) {
            double rows = 0;
            double loss = cst_moments_loss(&moments, -1, weights, intercept, &rows);
            out->noise[d] = loss / rows;
        }
        out->noise[d] = fmax(out->noise[d] * scale * scale, 1e-300);
        out->intercept[d] = location + scale * intercept;
        for (size_t j = 0; j < members; j++)
            out->intercept[d] -= weights[j] * location;
        cst_moments_free(context, &moments);
    }
    cst_free(context, scratch);
    return status;
}

typedef struct apply_job {
    const cst_view *view;
    const int32_t *folds; /* NULL: fit 0 for every row */
    const linear_fit *fits;
    cst_value_result *out;
} apply_job;

static cst_status apply_block(cst_context *context, void *user, int64_t index) {
    const apply_job *job = user;
    const cst_view *view = job->view;
    int32_t outputs = view->classes;
    int64_t first = cst_block_first(index);
    int64_t count = cst_block_size(view->rows, index);
    size_t cells = (size_t)count * (size_t)outputs;
    float *scratch = cst_alloc(context, cst_view_copies(view) ? cells : 0, sizeof *scratch);
    double *sum = cst_alloc(context, cells, sizeof *sum);
    cst_status status = scratch && sum ? CST_OK : CST_ERROR_MEMORY;
    for (int32_t k = 0; status == CST_OK && k < view->members; k++) {
        const float *rows = NULL;
        status = cst_view_rows(context, view, k, first, count, scratch, &rows);
        for (size_t e = 0; status == CST_OK && e < cells; e++) {
            int64_t row = first + (int64_t)e / outputs;
            size_t d = e % (size_t)outputs;
            const linear_fit *fit = &job->fits[job->folds ? job->folds[row] : 0];
            sum[e] += fit->weights[d * (size_t)view->members + (size_t)k] * (double)rows[e];
        }
    }
    for (size_t e = 0; status == CST_OK && e < cells; e++) {
        int64_t row = first + (int64_t)e / outputs;
        size_t d = e % (size_t)outputs;
        size_t at = (size_t)first * (size_t)outputs + e;
        const linear_fit *fit = &job->fits[job->folds ? job->folds[row] : 0];
        job->out->mean[at] = (float)(sum[e] + fit->intercept[d]);
        job->out->variance[at] = (float)fmax(fit->noise[d], 1e-37);
        for (int l = 0; l < CST_COVERAGE_LEVELS; l++)
            job->out->half[l][at] =
                (float)(sqrt((double)job->out->variance[at]) *
                        cst_normal_quantile(0.5 + 0.5 * cst_coverage_levels[l]));
    }
    cst_free(context, scratch);
    cst_free(context, sum);
    return status;
}

static cst_status run_baseline(cst_context *context, const cst_value_scene *scene,
                               cst_value_entry *out) {
    const cst_training *source = scene->source;
    const cst_view *rows = scene->rows ? scene->rows : &source->view;
    int32_t count = scene->rows ? 1 : source->fold_count;
    size_t members = (size_t)source->view.members;
    linear_fit whole = {0};
    double before = cst_seconds();
    linear_fit *fits = cst_alloc(context, (size_t)count, sizeof *fits);
    out->weights = cst_alloc(context, members, sizeof *out->weights);
    cst_status status = fits && out->weights ? CST_OK : CST_ERROR_MEMORY;
    if (status == CST_OK)
        status = fit_linear(context, scene, out->method->baseline, -1, &whole);
    out->seconds = cst_seconds() - before;
    for (int32_t f = 0; status == CST_OK && f < count; f++)
        status = fit_linear(context, scene, out->method->baseline, scene->rows ? -1 : f, &fits[f]);
    apply_job job = {.view = rows,
                     .folds = scene->rows ? NULL : source->folds,
                     .fits = fits,
                     .out = &out->result};
    if (status == CST_OK)
        status = cst_parallel_for(context, cst_block_count(rows->rows), apply_block, &job);
    for (size_t j = 0; status == CST_OK && j < members; j++)
        for (int32_t d = 0; d < source->view.classes; d++) {
            double weight = whole.weights[(size_t)d * members + j];
            out->weights[j] += weight / source->view.classes;
            out->uses[j] = out->uses[j] || weight != 0;
        }
    for (int32_t f = 0; fits && f < count; f++)
        linear_free(context, &fits[f]);
    linear_free(context, &whole);
    cst_free(context, fits);
    return status;
}

/* ---- a preset ---------------------------------------------------------------------------------
 */

static cst_status run_preset(cst_context *context, const cst_value_scene *scene,
                             cst_value_entry *out) {
    const cst_training *source = scene->source;
    const cst_settings *settings = &out->method->settings;
    cst_value_stages stages = {0};
    double before = cst_seconds();
    cst_status status =
        cst_value_stages_run(context, &source->view, source->folds, source->fold_count, settings,
                             source->flops, source->latency, &stages);
    out->seconds = cst_seconds() - before;
    int32_t kept = stages.base.kept_count;
    const float **pointers = cst_alloc(context, (size_t)kept, sizeof *pointers);
    if (!pointers)
        status = CST_ERROR_MEMORY;
    if (status == CST_OK && !scene->rows)
        status = cst_value_stages_nested(context, &source->view, source->folds, source->fold_count,
                                         settings, source->flops, source->latency, &out->result);
    else if (status == CST_OK) {
        cst_view view = cst_view_members(scene->rows, stages.base.kept, kept, pointers);
        status = cst_value_result_predict(context, stages.base.fit.model, &view, &out->result);
    }
    bool linear = status == CST_OK && stages.fit.columns == kept;
    if (linear) {
        out->weights = cst_alloc(context, (size_t)source->view.members, sizeof *out->weights);
        status = out->weights ? CST_OK : CST_ERROR_MEMORY;
    }
    for (int32_t j = 0; status == CST_OK && j < kept; j++) {
        out->uses[stages.base.kept[j]] = true;
        for (int32_t d = 0; linear && d < source->view.classes; d++)
            out->weights[stages.base.kept[j]] +=
                stages.base.fit.model->learner[0].weights[d * kept + j] / source->view.classes;
    }
    cst_free(context, pointers);
    cst_value_stages_free(context, &stages);
    return status;
}

cst_status cst_value_entry_run(cst_context *context, const cst_value_scene *scene,
                               const cst_value_method *method, cst_value_entry *out) {
    const cst_view *view = &scene->source->view;
    const cst_view *rows = scene->rows ? scene->rows : view;
    *out = (cst_value_entry){.method = method};
    out->uses = cst_alloc(context, (size_t)view->members, sizeof *out->uses);
    cst_status status =
        out->uses ? cst_value_result_make(context, rows->rows, rows->classes, &out->result)
                  : CST_ERROR_MEMORY;
    if (status == CST_OK)
        status =
            method->baseline ? run_baseline(context, scene, out) : run_preset(context, scene, out);
    int32_t only = 0;
    for (int32_t k = 0; status == CST_OK && k < view->members; k++)
        if (out->uses[k]) {
            out->models++;
            only = k;
        }
    if (status == CST_OK && out->models == 1)
        (void)cst_snprintf(out->detail, sizeof out->detail, "%.180s",
                           cst_pool_member_name(scene->pool, only));
    if (status != CST_OK)
        cst_value_entry_free(context, out);
    return status;
}

void cst_value_entry_free(cst_context *context, cst_value_entry *entry) {
    cst_value_result_free(context, &entry->result);
    cst_free(context, entry->weights);
    cst_free(context, entry->uses);
    *entry = (cst_value_entry){0};
}
