/* The family of regression: values and the squared error.
 * Paper: stages S1 to S4; "Leakage-Freeness of the Nested OOF Construction". */
#include "tasks/regression/regression.h"

#include "fit/label.h"
#include "fit/refits.h"
#include "model/fit_rows.h"
#include "model/transform.h"
#include "stats/row_weights.h"

#include <math.h>
#include <string.h>

const double cst_coverage_levels[CST_COVERAGE_LEVELS] = {0.5, 0.8, 0.9, 0.95};

/* ---- a run ---- */

CST_OWNED(cst_projection)

/* Rows that CKA looks at where outputs are brought to one scale first, which takes a copy. */
enum { SCALED_ROWS = 1 << 14 };

/* Of so few members a near-duplicate must have the same errors too: a removal saves little. */
enum { FEW_MEMBERS = 8 };

/* Mean squared error of each member, its mean over the outputs. moments [outputs]: without a gate.
 * risk: [K]. */
static void value_risk(const cst_moments *moments, int32_t outputs, double *risk) {
    int32_t k = moments->columns;
    size_t width = (size_t)k + 2;
    for (int32_t j = 0; j < k; j++) {
        double sum = 0;
        double rows = 0;
        for (int32_t d = 0; d < outputs; d++)
            for (int32_t f = 0; f < moments->folds; f++) {
                const double *m = moments[d].sums + (size_t)f * width * width;
                size_t y = (size_t)k;
                sum += m[(size_t)j * width + (size_t)j] - 2 * m[(size_t)j * width + y] +
                       m[y * width + y];
                rows += m[width * width - 1];
            }
        risk[j] = fmax(sum / rows, 0);
    }
}

/* Root mean squared error in standard deviations of the target from which a member is in another
 * unit: what aggregators square twice must stay within doubles and the bounds of model files. */
static const double MAX_DEVIATIONS = 1e12;

static cst_status check_members(cst_context *context, const cst_moments *moments, int32_t outputs) {
    size_t k = (size_t)moments->columns;
    size_t width = k + 2;
    CST_SCOPE(scope);
    CST_NEW(context, scope, double, sum, (width * width));
    for (int32_t d = 0; d < outputs; d++) {
        cst_moments_without(&moments[d], -1, sum);
        double n = sum[width * width - 1];
        double mean = sum[k * width + k + 1] / n;
        double variance = sum[k * width + k] / n - mean * mean;
        for (size_t j = 0; variance > 0 && j < k; j++) {
            double error =
                (sum[j * width + j] - 2 * sum[j * width + k] + sum[k * width + k]) / n / variance;
            if (error > MAX_DEVIATIONS * MAX_DEVIATIONS)
                return cst_fail(
                    context, CST_ERROR_INPUT,
                    "output %d: member %zu (counting from 0) is off by %.3g standard deviations of "
                    "the targets: are its predictions in the unit of the targets?",
                    (int)d, j, sqrt(error));
        }
    }
    return CST_OK;
}

void cst_value_pearson(const cst_moments *moments, int32_t outputs, double *pearson) {
    size_t k = (size_t)moments->columns;
    size_t width = k + 2;
    memset(pearson, 0, k * k * sizeof *pearson);
    double rows = 0;
    for (int32_t d = 0; d < outputs; d++)
        for (int32_t f = 0; f < moments->folds; f++)
            rows += moments[d].sums[((size_t)f + 1) * width * width - 1];
    for (size_t i = 0; i < k; i++)
        for (size_t j = 0; j <= i; j++) {
            double both = 0;
            double mean[2] = {0, 0};
            for (int32_t d = 0; d < outputs; d++)
                for (int32_t f = 0; f < moments->folds; f++) {
                    const double *m = moments[d].sums + (size_t)f * width * width;
                    both += m[i * width + j] / rows;
                    mean[0] += m[i * width + width - 1] / rows;
                    mean[1] += m[j * width + width - 1] / rows;
                }
            pearson[i * k + j] = both - mean[0] * mean[1];
        }
    for (size_t i = 0; i < k; i++)
        for (size_t j = 0; j < i; j++) {
            double a = pearson[i * k + i];
            double b = pearson[j * k + j];
            bool varies = a > 1e-20 && b > 1e-20;
            double value = varies ? pearson[i * k + j] / sqrt(a * b) : 0;
            pearson[i * k + j] = pearson[j * k + i] = fmax(fmin(value, 1), -1);
        }
    for (size_t i = 0; i < k; i++)
        pearson[i * k + i] = 1;
}

static void bound(const cst_run *run, double *similarity) {
    const cst_moments *moments = ((const cst_value_own *)run->own)->moments;
    int32_t outputs = run->view->classes;
    if (!run->settings->select || run->view->members > FEW_MEMBERS)
        return;
    size_t k = (size_t)moments->columns;
    size_t width = k + 2;
    for (size_t i = 0; i < k; i++)
        for (size_t j = 0; j < i; j++) {
            double both = 0;
            double own[2] = {0, 0};
            for (int32_t d = 0; d < outputs; d++)
                for (int32_t f = 0; f < moments->folds; f++) {
                    const double *m = moments[d].sums + (size_t)f * width * width;
                    const double *y = m + k * width;
                    both += m[i * width + j] - y[i] - y[j] + y[k];
                    own[0] += m[i * width + i] - 2 * y[i] + y[k];
                    own[1] += m[j * width + j] - 2 * y[j] + y[k];
                }
            if (!(own[0] > 0 && own[1] > 0))
                continue;
            double value = fmin(similarity[i * k + j], both / sqrt(own[0] * own[1]));
            similarity[i * k + j] = similarity[j * k + i] = value;
        }
}

/* ---- CKA ---- */

/* CKA of several outputs, each in units of its target: on a copy of at most SCALED_ROWS rows. */
static cst_status scaled_cka(cst_context *context, const cst_view *view, const cst_scaling *scaling,
                             const cst_cka_options *options, cst_cka_result *out) {
    size_t outputs = (size_t)view->classes;
    int64_t count = view->rows < SCALED_ROWS ? view->rows : SCALED_ROWS;
    size_t cells = (size_t)count * outputs;
    CST_SCOPE(scope);
    CST_NEW(context, scope, float *, copies, view->members);
    CST_NEW(context, scope, int64_t, positions, count);
    for (int64_t i = 0; i < count; i++)
        positions[i] = (int64_t)((double)i * ((double)view->rows / (double)count));
    for (int32_t k = 0; k < view->members; k++) {
        CST_TAKE(context, scope, copies[k], cells);
        CST_TRY(cst_view_gather(context, view, k, positions, count, copies[k]));
        for (size_t e = 0; e < cells; e++) {
            size_t d = e % outputs;
            copies[k][e] =
                (float)(((double)copies[k][e] - scaling->location[d]) / scaling->scale[d]);
        }
    }
    cst_view scaled = {.rows = count,
                       .classes = view->classes,
                       .members = view->members,
                       .data = (const float *const *)copies};
    return cst_cka(context, &scaled, options, out);
}

cst_status cst_value_cka(cst_context *context, const cst_view *view, const cst_scaling *scaling,
                         const cst_cka_options *options, cst_cka_result *out) {
    return view->classes > 1 ? scaled_cka(context, view, scaling, options, out)
                             : cst_cka(context, view, options, out);
}

/* ---- the threshold ---- */

/* Held-out error of the linear pool on some members, by fold: out [folds], which is zero. */
static cst_status pool_losses(cst_context *context, const cst_run *run, const int32_t *members,
                              int32_t count, double *out) {
    const cst_settings *settings = run->settings;
    const cst_moments *moments = ((const cst_value_own *)run->own)->moments;
    int32_t outputs = run->view->classes;
    cst_linear_pool_options options = {.prior = CST_LINEAR_POOL_FIXED,
                                       .precision = settings->selection.prior,
                                       .power = settings->pool_power,
                                       .nonnegative = settings->pool_nonnegative};
    for (int32_t d = 0; d < outputs; d++) {
        cst_moments all;
        CST_SCOPE(scope);
        CST_TRY(cst_value_moments_part(context, scope, &moments[d], -1, members, count, &all));
        for (int32_t f = 0; f < all.folds; f++) {
            cst_moments in;
            cst_linear_pool pool;
            double rows = 0;
            CST_SCOPE(fold);
            CST_TRY(cst_value_moments_part(context, fold, &all, f, NULL, 0, &in));
            CST_TRY(cst_linear_pool_fit(context, fold, &in, &options, &pool));
            double loss = cst_moments_loss(&all, f, pool.weights, pool.intercept, &rows);
            out[f] += rows > 0 ? loss / rows / outputs : 0;
        }
    }
    return CST_OK;
}

/* Similarities and risks are those of all rows. */
static cst_status judge(cst_context *context, const cst_run *run, const cst_stages *stages,
                        const double *taus, int32_t count, double *loss) {
    cst_projection_rule rule = cst_projection_rule_of(run, stages->cka.constant);
    for (int32_t c = 0; c < count; c++) {
        cst_projection kept = {0};
        CST_SCOPE(scope);
        rule.tau = taus[c];
        CST_OWN(context, scope, cst_projection, &kept);
        CST_TRY(
            cst_project(context, stages->similarity, stages->members, stages->risk, &rule, &kept));
        CST_TRY(pool_losses(context, run, kept.kept, kept.kept_count, loss + c * run->fold_count));
    }
    return CST_OK;
}

/* The one that was asked for, or log1p for the metric that compares logarithms. */
static cst_status choose_transform(cst_context *context, const cst_run *run,
                                   cst_transform_kind *out) {
    const cst_settings *settings = run->settings;
    const cst_view *view = run->view;
    cst_metric_choice choice = {0};
    *out = (cst_transform_kind)(settings->target_transform - 1);
    if (settings->target_transform > 0)
        return CST_OK;
    CST_SCOPE(scope);
    *out = CST_TRANSFORM_NONE;
    if (*settings->metric)
        CST_TRY(cst_metric_parse(context, scope, CST_TASK_REGRESSION, settings->metric, &choice));
    if (!choice.metric || strcmp(choice.metric->name, "rmsle") != 0)
        return CST_OK;
    for (int64_t i = 0; i < view->rows; i++)
        for (int32_t d = 0; d < view->classes; d++)
            if (!cst_transform_takes(CST_TRANSFORM_LOG1P, cst_view_target(view, i)[d]))
                return CST_OK;
    *out = CST_TRANSFORM_LOG1P;
    if (!settings->cka.quiet)
        cst_notice(context, "metric rmsle: targets are fitted after log1p (target.transform=none "
                            "fits them as they are)");
    return CST_OK;
}

/* From here on the run is on transformed values. */
static cst_status transform(cst_context *context, cst_scope *scope, cst_run *run,
                            cst_value_own *own) {
    const cst_view *plain = run->view;
    cst_transform_kind kind = CST_TRANSFORM_NONE;
    own->plain = plain;
    CST_TRY(choose_transform(context, run, &kind));
    if (kind == CST_TRANSFORM_NONE)
        return CST_OK;
    CST_NEW(context, scope, cst_view, view, 1);
    CST_TRY(cst_transform_fit(context, scope, kind, plain, &own->transform));
    if (!run->settings->cka.quiet)
        CST_TRY(cst_transform_tell(context, own->transform, plain));
    CST_TRY(cst_transform_view(context, scope, own->transform, plain, true, view));
    run->view = view;
    return CST_OK;
}

/* The model keeps the transform of its fit. */
static cst_status keep_transform(cst_context *context, const cst_value_own *own, cst_model *model) {
    const cst_transform *from = own->transform;
    size_t outputs = (size_t)model->classes;
    if (!from)
        return CST_OK;
    CST_TAKE(context, &model->scope, model->transform, 1);
    *model->transform = *from;
    CST_TAKE(context, &model->scope, model->transform->low, outputs);
    CST_TAKE(context, &model->scope, model->transform->high, outputs);
    memcpy(model->transform->low, from->low, outputs * sizeof *from->low);
    memcpy(model->transform->high, from->high, outputs * sizeof *from->high);
    return CST_OK;
}

cst_status cst_value_prepare(cst_context *context, cst_scope *scope, cst_run *run,
                             cst_stages *out) {
    cst_gate none = {.mode = CST_GATE_NONE, .inputs = run->view->members};
    CST_NEW(context, scope, cst_value_own, own, 1);
    CST_TRY(transform(context, scope, run, own));
    const cst_view *view = run->view;
    CST_TAKE(context, scope, own->moments, view->classes);
    CST_TRY(cst_stage(context, "moments"));
    CST_TRY(cst_scaling_take(context, scope, view, &own->scaling));
    CST_TRY(cst_value_moments(context, scope, view, &own->scaling, &none, run->folds,
                              run->fold_count, own->moments));
    run->own = own;
    value_risk(own->moments, view->classes, out->risk);
    cst_value_pearson(own->moments, view->classes, out->pearson);
    return check_members(context, own->moments, view->classes);
}

static cst_status cka(cst_context *context, const cst_run *run, cst_cka_result *out) {
    const cst_value_own *own = run->own;
    return cst_value_cka(context, run->view, &own->scaling, &run->settings->cka, out);
}

/* The time of a selection grows with the fourth power of the members: of more than SELECT_MEMBERS,
 * at most one for every SELECT_ROWS rows takes part. */
enum { SELECT_MEMBERS = 400, SELECT_ROWS = 5 };

/* Leaves out the kept members of the highest error, until no more than that are left. */
static void shorten(cst_context *context, const cst_run *run, cst_stages *out) {
    int64_t rows = run->view->rows;
    int64_t most = rows / SELECT_ROWS > SELECT_MEMBERS ? rows / SELECT_ROWS : SELECT_MEMBERS;
    if (out->kept_count > most)
        cst_notice(context,
                   "%d members are too many to select from with %lld rows: the %lld of the lowest "
                   "error take part (select.direction=none keeps all, and takes much longer)",
                   (int)out->kept_count, (long long)rows, (long long)most);
    while (out->kept_count > most) {
        int32_t worst = 0;
        for (int32_t j = 1; j < out->kept_count; j++)
            if (out->risk[out->kept[j]] >= out->risk[out->kept[worst]])
                worst = j;
        out->reason[out->kept[worst]] = CST_REASON_SELECTION;
        out->kept_count--;
        memmove(out->kept + worst, out->kept + worst + 1,
                (size_t)(out->kept_count - worst) * sizeof *out->kept);
    }
}

static cst_status fit_members(cst_context *context, const cst_run *run, const int32_t *members,
                              int32_t count, bool losses, cst_meta_fit *out) {
    const cst_value_own *own = run->own;
    CST_SCOPE(scope);
    CST_NEW(context, scope, const float *, pointers, count);
    cst_view part = cst_view_members(run->view, members, count, pointers);
    return cst_value_fit_run(context, &part, &own->scaling, run->folds, run->fold_count,
                             run->settings, losses, out);
}

/* How much the values move with a member, in units of the outputs. */
static double reliance(const cst_run *run, const cst_meta_fit *meta, int32_t j,
                       const double *deviation) {
    const cst_value_own *own = run->own;
    const cst_value_fit *fit = meta->values;
    double sum = 0;
    for (int32_t d = 0; d < fit->outputs; d++) /* of part 0, all rows */
        sum += fabs(fit->weights[(size_t)d * (size_t)fit->columns + (size_t)j]) * deviation[d] /
               own->scaling.scale[d];
    return sum;
}

/* ---- the model ---- */

/* The blend as one linear function of each output, in units of the target. */
static cst_status make_learner(cst_context *context, const cst_value_fit *fit,
                               const cst_scaling *scaling, cst_model *model) {
    size_t columns = (size_t)fit->columns;
    size_t outputs = (size_t)fit->outputs;
    CST_TRY(cst_value_model(context, fit->outputs, model->members, fit->columns, model));
    cst_learner *learner = &model->learner[0];
    for (size_t d = 0; d < outputs; d++) { /* part 0 */
        double bias = scaling->location[d] + scaling->scale[d] * fit->intercept[d];
        for (size_t j = 0; j < columns; j++) {
            bool member = j < (size_t)model->members; /* as they are; aggregators in the scaling */
            double weight = fit->weights[d * columns + j];
            learner->weights[d * columns + j] = member ? weight : weight * scaling->scale[d];
            bias -= member ? weight * scaling->location[d] : 0;
        }
        learner->bias[d] = bias;
    }
    return CST_OK;
}

cst_status cst_value_model(cst_context *context, int32_t outputs, int32_t members, int32_t columns,
                           cst_model *model) {
    model->task = CST_TASK_REGRESSION;
    model->classes = outputs;
    model->members = members;
    CST_TAKE(context, &model->scope, model->mix, members);
    CST_TAKE(context, &model->scope, model->learner, 1);
    model->learners = 1;
    cst_learner *learner = &model->learner[0];
    *learner = (cst_learner){.kind = CST_LEARNER_LINEAR,
                             .blend = 1,
                             .coefficients = outputs * columns,
                             .biases = outputs};
    return cst_learner_take(context, learner);
}

/* The refits of the learners with a weight, for the one learner of the model and in units of the
 * target. */
static void take_refits(const cst_value_fit *fit, const cst_scaling *scaling, cst_model *model) {
    int32_t kept = 0;
    for (int32_t i = 0; i < model->refits->count; i++) {
        const cst_refit *from = &model->refits->refit[i];
        double share = fit->blend[from->output * fit->learners + from->learner];
        if (!(share > 0))
            continue;
        cst_refit *refit = &model->refits->refit[kept++];
        *refit = *from;
        double location = scaling->location[refit->output];
        double scale = scaling->scale[refit->output];
        if (fit->learners > 1 && fit->columns == model->members) /* of the blend, not its own */
            refit->least =
                cst_refit_loss(refit, fit->weights + (size_t)refit->output * (size_t)fit->columns,
                               (size_t)model->members);
        refit->share = share;
        refit->learner = 0;
        refit->rest[0] = location + scale * refit->rest[0];
        for (int32_t k = 0; k < model->members; k++)
            refit->tilt[k] = scale * refit->tilt[k] + location;
    }
    model->refits->count = kept;
    cst_refits_check(model);
}

/* The learners with a weight, as a model says them: means over the outputs. */
static cst_status name_learners(cst_context *context, const cst_meta_fit *fit, cst_model *model) {
    cst_buffer text = {.context = context};
    bool any = false;
    for (int32_t m = 0; m < fit->learners; m++) {
        char number[40];
        if (!(fit->weight[m] > 0))
            continue;
        (void)cst_snprintf(number, sizeof number, " %.6g", fit->weight[m]);
        cst_buffer_add_text(&text, any ? "," : "");
        cst_buffer_add_text(&text, fit->name[m]);
        cst_buffer_add_text(&text, number);
        any = true;
    }
    CST_TRY(cst_scope_own(context, &model->scope, cst_free, text.bytes));
    model->blend = text.bytes;
    return text.status;
}

/* Sets out[d] to the bounds that all targets of output d keep. */
static void target_bounds(const cst_view *view, int32_t *out) {
    for (int32_t d = 0; d < view->classes; d++) {
        double low = INFINITY;
        double high = -INFINITY;
        for (int64_t i = 0; i < view->rows; i++) {
            low = fmin(low, cst_view_target(view, i)[d]);
            high = fmax(high, cst_view_target(view, i)[d]);
        }
        out[d] = low < 0 ? 0 : high == 1 ? CST_RANGE_LOW + CST_RANGE_HIGH : CST_RANGE_LOW;
    }
}

/* Takes out of `kept` [outputs] the bounds that predictions of a member are beyond. */
static cst_status member_bounds(cst_context *context, const cst_view *view, int32_t member,
                                int32_t *kept) {
    for (int64_t block = 0; block < cst_block_count(view->rows); block++) {
        cst_rows rows;
        CST_SCOPE(scope);
        CST_TRY(cst_rows_open(context, scope, view, block, &rows));
        CST_TRY(cst_rows_read(context, &rows, member));
        for (int64_t e = 0; e < rows.count * view->classes; e++) {
            int32_t *bounds = &kept[e % view->classes];
            *bounds &= rows.data[e] < 0 ? ~CST_RANGE_LOW : *bounds;
            *bounds &= rows.data[e] > 1 ? ~CST_RANGE_HIGH : *bounds;
        }
    }
    return CST_OK;
}

/* Bounds that the targets keep, and each output of some member as well: where every member goes
 * beyond one, targets may do so. */
static cst_status find_range(cst_context *context, const cst_view *view, cst_model *model) {
    size_t outputs = (size_t)view->classes;
    int32_t any = 0;
    CST_SCOPE(scope);
    CST_NEW(context, scope, int32_t, bounds, outputs);
    CST_NEW(context, scope, int32_t, kept, outputs);
    CST_NEW(context, scope, int32_t, found, outputs);
    target_bounds(view, bounds);
    for (size_t d = 0; d < outputs; d++)
        any |= bounds[d];
    for (int32_t k = 0; any && k < view->members; k++) {
        memcpy(kept, bounds, outputs * sizeof *kept);
        CST_TRY(member_bounds(context, view, k, kept));
        for (size_t d = 0; d < outputs; d++)
            found[d] |= kept[d];
    }
    for (size_t d = 0; d < outputs; d++) {
        found[d] = found[d] & CST_RANGE_LOW ? found[d] : 0;
        if (found[d] && !model->range)
            CST_TAKE(context, &model->scope, model->range, outputs);
    }
    if (model->range)
        memcpy(model->range, found, outputs * sizeof *found);
    return CST_OK;
}

static cst_status complete(cst_context *context, const cst_run *run, cst_stages *out) {
    const cst_value_own *own = run->own;
    const cst_scaling *scaling = &own->scaling;
    cst_value_fit *fit = out->fit.values;
    CST_SCOPE(scope);
    CST_NEW(context, scope, const float *, pointers, out->kept_count);
    cst_view kept = cst_view_members(run->view, out->kept, out->kept_count, pointers);
    cst_model *model = out->fit.model;
    model->members = kept.members;
    model->map = run->settings->map;
    CST_TRY(make_learner(context, fit, scaling, model));
    CST_TRY(name_learners(context, &out->fit, model));
    take_refits(fit, scaling, model);
    CST_TRY(cst_values_fit(context, &model->scope, &kept, scaling, run->folds, fit,
                           (cst_variance_rule)run->settings->variance_rule,
                           run->settings->conformal, &model->values));
    model->gate = fit->gates[0]; /* which nobody reads any more */
    fit->gates[0] = (cst_gate){0};
    CST_OWN(context, &model->scope, cst_gate, &model->gate);
    CST_TRY(keep_transform(context, own, model));
    kept = cst_view_members(own->plain, out->kept, out->kept_count, pointers);
    return run->settings->target_range == 0 ? find_range(context, &kept, model) : CST_OK;
}

/* ---- results ---- */

cst_status cst_value_result_make(cst_context *context, cst_scope *scope, int64_t rows,
                                 int32_t outputs, cst_value_result *out) {
    size_t cells = 0;
    *out = (cst_value_result){0};
    if (!cst_size_mul((size_t)rows, (size_t)outputs, &cells))
        return cst_fail(context, CST_ERROR_LIMIT, "too many values");
    for (int a = 0; a < CST_VALUE_ARRAYS; a++)
        CST_TAKE(context, scope, out->array[a], cells);
    for (int l = 0; l < CST_COVERAGE_LEVELS; l++)
        out->half_width[l] = out->array[2 + l];
    out->values = (cst_predicted_values){.rows = rows,
                                         .outputs = outputs,
                                         .mean = out->array[0],
                                         .variance = out->array[1],
                                         .levels = CST_COVERAGE_LEVELS,
                                         .level = cst_coverage_levels,
                                         .half_width = out->half_width};
    return CST_OK;
}

void cst_value_result_transformed(cst_value_result *out) {
    out->values.variance = NULL;
    out->values.levels = 0;
}

cst_status cst_value_predict(cst_context *context, const cst_model *model, const cst_view *view,
                             float *const *out) {
    int32_t outputs = view->classes;
    const float *variance = out[1];
    CST_TRY(cst_stack_predict(context, model, view, out[0]));
    CST_TRY(cst_stack_variance(context, model, view, out[1]));
    if (model->transform) /* scores would be those of other intervals */
        return CST_OK;
    for (int l = 0; l < CST_COVERAGE_LEVELS; l++)
        for (int32_t d = 0; d < outputs; d++) {
            double factor = cst_values_factor(model->values, d, cst_coverage_levels[l]);
            float *half = out[2 + l];
            for (int64_t e = d; e < view->rows * outputs; e += outputs) {
                half[e] = (float)(factor * sqrt((double)variance[e]));
                if (isfinite(factor) && !isfinite(half[e]))
                    return cst_fail(context, CST_ERROR_INPUT,
                                    "row %lld, output %d: the width of the interval for a variance "
                                    "of %g is too large for float32",
                                    (long long)e / outputs, (int)d, (double)variance[e]);
            }
        }
    return CST_OK;
}

void cst_value_intervals_tell(cst_context *context, const cst_value_metrics *scores) {
    for (int32_t l = 0; l < scores->levels; l++)
        if (isinf(scores->width[l]))
            cst_notice(context,
                       "intervals at level %g are infinite, because they need a fit on at least "
                       "%.0f rows",
                       scores->level[l], cst_values_needed(scores->level[l]));
}

cst_status cst_value_nested(cst_context *context, const cst_training *source,
                            const cst_settings *settings, cst_value_result *out) {
    cst_fold_result held[CST_VALUE_ARRAYS];
    cst_costs costs = cst_training_costs(source);
    cst_run run = cst_run_of(&cst_regression_family, &source->view, source->folds,
                             source->fold_count, settings, &costs);
    for (int a = 0; a < CST_VALUE_ARRAYS; a++)
        held[a] = (cst_fold_result){out->array[a], (size_t)source->view.classes};
    CST_TRY(cst_stages_nested(context, &run, source, held, CST_VALUE_ARRAYS));
    for (int a = 0; a < CST_VALUE_ARRAYS; a++)
        cst_training_pack(source, (size_t)source->view.classes, out->array[a]);
    return CST_OK;
}

/* ---- a fit of a split ---- */

static cst_status admit(cst_context *context, cst_fit_job *job) {
    return cst_value_check(context, job->pool, job->facts.split, &job->source);
}

static cst_status ready(cst_context *context, cst_fit_job *job) {
    return cst_value_check_options(context, job->facts.options);
}

cst_status cst_value_label(cst_context *context, const cst_pool *pool, const char *split,
                           const cst_training *source, const cst_options *options,
                           const char *method, const int32_t *kept, cst_model *model) {
    size_t cells = (size_t)source->view.rows * (size_t)source->view.classes;
    CST_SCOPE(scope);
    CST_NEW(context, scope, int32_t, words, 2 * cells);
    cst_target_words(source->view.targets, cells, words);
    cst_fit_origin origin = {.pool = pool,
                             .split = split,
                             .options = options,
                             .method = method,
                             .labels = words,
                             .label_count = (int64_t)(2 * cells),
                             .kept = kept,
                             .source = source,
                             .samples = source->view.rows};
    CST_TRY(cst_pool_hash(context, pool, split, &origin.hash));
    return cst_fit_label(context, &origin, model);
}

static cst_status label(cst_context *context, cst_fit_job *job) {
    return cst_value_label(context, job->pool, job->facts.split, &job->source, job->facts.options,
                           NULL, job->stages.kept, job->stages.fit.model);
}

/* Nested values as rows of the metric, aimed at it. */
static cst_status aim(cst_context *context, cst_scope *scope, cst_fit_job *job,
                      const cst_value_result *held, cst_metric_rows *rows) {
    const int32_t *folds;
    cst_metric_choice metric = job->facts.metric;
    CST_TRY(cst_nested_rows(context, scope, &job->source, held->array[0], rows, &folds));
    if (!metric.metric)
        return CST_OK;
    CST_NEW(context, scope, float, aimed, ((size_t)rows->rows * (size_t)rows->columns));
    CST_TRY(cst_value_aim(context, metric, rows, held->array[1], folds, job->source.fold_count,
                          job->stages.fit.model, aimed, &job->facts.gain));
    rows->values = aimed;
    return CST_OK;
}

static cst_status score(cst_context *context, cst_fit_job *job) {
    cst_view view = job->source.view;
    cst_counted later = {0};
    cst_value_result held;
    cst_metric_rows rows;
    CST_NEW(context, job->scope, cst_value_metrics, oof, 1);
    CST_NEW(context, job->scope, cst_value_metrics, each, view.classes);
    CST_SCOPE(scope);
    CST_TRY(cst_value_result_make(context, scope, view.rows, view.classes, &held));
    CST_TRY(cst_value_nested(context, &job->source, &job->settings, &held));
    CST_TRY(cst_fit_job_scored(context, scope, job, &later, &view));
    held.values.rows = view.rows;
    if (job->stages.fit.model->transform)
        cst_value_result_transformed(&held);
    CST_TRY(aim(context, scope, job, &held, &rows));
    CST_TRY(
        cst_value_scores(context, job->facts.metric, &held.values, rows.values, &view, oof, each));
    cst_value_intervals_tell(context, oof);
    job->facts.oof = oof;
    job->facts.each = each;
    if (job->settings.nested)
        CST_TRY(cst_value_simple_rules(context, job, &view, &held.values));
    if (!job->facts.metric.metric)
        return CST_OK;
    return cst_metric_interval(context, job->facts.metric, &rows, job->settings.seed,
                               &job->facts.oof_metric);
}

static cst_status measure(cst_context *context, cst_fit_job *job) {
    CST_NEW(context, job->scope, cst_value_metrics, members, job->source.view.members);
    job->facts.members = members;
    CST_TRY(cst_fit_members_metric(context, job));
    return cst_value_member_metrics(context, &job->source.view, members);
}

const cst_family cst_regression_family = {
    .task = "regression",
    .loss = "squared error",
    .pool = "linear",
    .whole = true,
    .prepare = cst_value_prepare,
    .cka = cka,
    .bound = bound,
    .judge = judge,
    .shorten = shorten,
    .choose = cst_value_choose,
    .fit = fit_members,
    .reliance = reliance,
    .complete = complete,
    .predict = cst_value_predict,
    .admit = admit,
    .ready = ready,
    .label = label,
    .score = score,
    .measure = measure,
    .put_members = cst_value_put_kept,
    .put_own = cst_value_put_own_fit,
    .inspect = cst_value_inspect,
};
