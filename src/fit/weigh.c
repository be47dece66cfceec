/* The weights of meta-learners in the blend, from what they say of rows that they have not seen.
 * Stage S4. Paper: "Laplace-Approximate Bayesian Blender"; docs/method.md#s4-blend. */
#include "fit/learners.h"

#include "stats/samples.h"
#include "stats/statistics.h"

#include <math.h>
#include <string.h>

static const double TWO_PI = 6.283185307179586476925;

/* Total NLL of one learner's held-out probabilities of the true class. */
static double total_nll(const cst_view *view, const float *truth) {
    double sum = 0;
    for (int64_t i = 0; i < view->rows; i++) {
        double loss = -log(fmax((double)truth[i], CST_NLL_FLOOR));
        sum += view->weights ? cst_view_weight(view, i) * loss : loss;
    }
    return sum;
}

static bool is_empty(const cst_learner *learner) {
    for (int32_t j = 0; j < learner->coefficients; j++)
        if (learner->weights[j] != 0)
            return false;
    return true;
}

/* A penalty that leaves a learner no coefficient leaves it no Hessian either, and the Laplace
 * weights would take the missing determinant for simplicity: such a learner, which says the same
 * for every sample, gets no evidence as long as there is another. */
static void leave_out_empty(cst_context *context, const cst_model *model, int32_t learners,
                            double *nll) {
    int32_t full = 0;
    for (int32_t m = 0; m < learners; m++)
        full += !is_empty(&model->learner[m]);
    for (int32_t m = 0; m < learners && full > 0; m++) {
        if (!is_empty(&model->learner[m]))
            continue;
        nll[m] = INFINITY;
        cst_notice(context,
                   "the penalty removes every coefficient of the %s; it is left out of the blend",
                   cst_learner_name(model->learner[m].kind));
    }
}

/* Weights of stacking without some learners (bits), with the prior on the pools of scaled members.
 * Learners below the least weight leave, but never the one with the most, and the rest is weighed
 * again. */
static cst_status stack(cst_context *context, const cst_view *view,
                        const cst_blend_options *settings, const float *truth,
                        const cst_meta_fit *fit, unsigned without, double *weights) {
    size_t rows = (size_t)view->rows;
    int32_t place[CST_LEARNERS_MAX];
    double share[CST_LEARNERS_MAX];
    int32_t count = 0;
    CST_SCOPE(scope);
    CST_NEW(context, scope, float, left, (rows * (size_t)fit->learners));
    for (int32_t m = 0; m < fit->learners; m++)
        if (!(without >> m & 1U))
            place[count++] = m;
    for (bool stay = false; !stay;) {
        cst_blend_options options = *settings;
        options.favoured = 0;
        for (int32_t m = 0; m < count; m++) {
            memcpy(left + (size_t)m * rows, truth + (size_t)place[m] * rows, rows * sizeof *left);
            const cst_learner *learner = &fit->model->learner[place[m]];
            if (learner->own && learner->own->scaled > 0)
                options.favoured |= 1U << m;
        }
        cst_blend_evidence evidence = {
            .rows = view->rows, .members = count, .truth = left, .weighted = view};
        CST_TRY(cst_blend_weights_from(context, &evidence, &options, share));
        int32_t kept = 0;
        double most = 0;
        for (int32_t m = 0; m < count; m++)
            most = fmax(most, share[m]);
        for (int32_t m = 0; m < count; m++)
            if (share[m] >= fmin(options.least, most)) {
                share[kept] = share[m];
                place[kept++] = place[m];
            }
        stay = kept == count;
        count = kept;
    }
    memset(weights, 0, (size_t)fit->learners * sizeof *weights);
    for (int32_t m = 0; m < count; m++)
        weights[place[m]] = share[m];
    return CST_OK;
}

/* Losses of the blend [rows]. */
static void blend_losses(const cst_view *view, const float *truth, const double *weights,
                         int32_t learners, double *loss) {
    for (int64_t i = 0; i < view->rows; i++) {
        double p = 0;
        for (int32_t m = 0; m < learners; m++)
            p += weights[m] * (double)truth[m * view->rows + i];
        loss[i] = -log(fmax(p, CST_NLL_FLOOR)) * cst_view_weight(view, i);
    }
}

/* A dear learner is not needed if without it the blend's mean loss rises by less than one standard
 * error and this share of it, or as good as nothing. */
static const double NEEDED_SHARE = 1e-3;
static const double NEEDED_LEAST = 1e-5;

cst_status cst_unneeded_learners(cst_context *context, const cst_view *view,
                                 const cst_blend_options *options, const float *truth,
                                 const cst_meta_fit *fit, unsigned dear, unsigned *without) {
    double weights[CST_LEARNERS_MAX];
    double fewer[CST_LEARNERS_MAX];
    double mean = 0;
    CST_SCOPE(scope);
    CST_NEW(context, scope, double, loss, view->rows);
    CST_NEW(context, scope, double, other, view->rows);
    *without = 0;
    CST_TRY(stack(context, view, options, truth, fit, 0, weights));
    blend_losses(view, truth, weights, fit->learners, loss);
    for (int64_t i = 0; i < view->rows; i++)
        mean += loss[i] / (double)view->rows;
    while (dear) {
        int32_t next = 0; /* the one of least weight */
        double se = 0;
        while (!(dear >> next & 1U))
            next++;
        for (int32_t m = 0; m < fit->learners; m++)
            if (dear >> m & 1U && weights[m] < weights[next])
                next = m;
        dear &= ~(1U << next);
        CST_TRY(stack(context, view, options, truth, fit, *without | 1U << next, fewer));
        blend_losses(view, truth, fewer, fit->learners, other);
        double rise = cst_paired_mean(other, loss, view->rows, &se);
        if (rise > fmin(se, fmax(NEEDED_SHARE * mean, NEEDED_LEAST)))
            continue;
        *without |= 1U << next;
        memcpy(weights, fewer, sizeof fewer);
    }
    for (int32_t m = 0; m < fit->learners; m++)
        if (weights[m] <= 0)
            *without |= 1U << m;
    return CST_OK;
}

/* Losses of the blend [rows] by weights that are found without each row's fold. */
static cst_status refit_without_folds(cst_context *context, const cst_some_rows *rows,
                                      const cst_blend_options *options, const float *truth,
                                      const cst_meta_fit *fit, double *loss) {
    int64_t n = rows->view.rows;
    CST_SCOPE(scope);
    CST_NEW(context, scope, float, inside, (n * fit->learners));
    CST_NEW(context, scope, int64_t, index, n);
    for (int32_t f = 0; f < rows->fold_count; f++) {
        double weights[CST_LEARNERS_MAX];
        cst_view in;
        cst_view out;
        cst_view_split(&rows->view, rows->folds, f, index, &in, &out);
        for (int32_t m = 0; m < fit->learners; m++)
            for (int64_t i = 0, to = 0; i < n; i++)
                if (rows->folds[i] != f)
                    inside[m * in.rows + to++] = truth[m * n + i];
        CST_TRY(stack(context, &in, options, inside, fit, 0, weights));
        for (int64_t i = 0; i < n; i++) {
            double p = 0;
            for (int32_t m = 0; rows->folds[i] == f && m < fit->learners; m++)
                p += weights[m] * (double)truth[m * n + i];
            if (rows->folds[i] == f)
                loss[i] = -log(fmax(p, CST_NLL_FLOOR));
        }
    }
    return CST_OK;
}

/* Standard errors, and share of the blend's loss, by which the pool has to beat it; folds from
 * which on the errors are of means of folds, within which rows may depend on one another. */
static const double SAFE = 3;
static const double SAFE_SHARE = 0.01;
enum { SAFE_FOLDS = 10 };

/* Mean by the rows' weights of how far the pool's loss is above the blend's, and its standard
 * error. sums: [fold_count][2] scratch. */
static double above_blend(const cst_some_rows *rows, const float *truth, const double *loss,
                          double *sums, double *se) {
    bool folds = rows->fold_count >= SAFE_FOLDS;
    double total = 0;
    double mean = 0;
    double square = 0;
    memset(sums, 0, 2 * (size_t)rows->fold_count * sizeof *sums);
    for (int64_t i = 0; i < rows->view.rows; i++) {
        double change = -log(fmax((double)truth[i], CST_NLL_FLOOR)) - loss[i];
        double weight = cst_view_weight(&rows->view, i);
        total += weight;
        mean += weight * change;
        square += weight * weight * change * change;
        sums[2 * rows->folds[i]] += weight;
        sums[2 * rows->folds[i] + 1] += weight * change;
    }
    mean /= total;
    if (!folds) {
        *se = sqrt(fmax(square / (total * total) - mean * mean / (double)rows->view.rows, 0));
        return mean;
    }
    square = 0;
    for (int32_t f = 0; f < rows->fold_count; f++) {
        double residual = sums[2 * f + 1] - mean * sums[2 * f];
        square += residual * residual;
    }
    *se = sqrt(square * rows->fold_count / (rows->fold_count - 1.0)) / total;
    return mean;
}

/* The log-linear pool gets all of the weight where it is better beyond noise than the blend, whose
 * weights are found without each fold: many learners fit rows that depend on one another too well.
 */
static cst_status keep_safe(cst_context *context, const cst_some_rows *rows,
                            const cst_blend_options *options, const float *truth, cst_meta_fit *fit,
                            double *weights) {
    cst_pool_alone *alone = &fit->alone;
    int64_t n = rows->view.rows;
    int32_t pool = 0;
    while (pool < fit->learners && (fit->model->learner[pool].kind != CST_LEARNER_LOGLINEAR ||
                                    fit->model->learner[pool].own))
        pool++;
    if (pool == fit->learners)
        return CST_OK;
    CST_SCOPE(scope);
    CST_NEW(context, scope, double, loss, n);
    CST_NEW(context, scope, double, sums, 2 * (size_t)rows->fold_count);
    cst_mute(context, true);
    cst_status status = refit_without_folds(context, rows, options, truth, fit, loss);
    cst_mute(context, false);
    CST_TRY(status);
    alone->tried = true;
    alone->change = above_blend(rows, truth + pool * n, loss, sums, &alone->se);
    double blend = 0;
    for (int64_t i = 0; i < n; i++)
        blend += loss[i] / (double)n;
    alone->used = alone->change < -fmax(SAFE * alone->se, SAFE_SHARE * blend);
    for (int32_t m = 0; alone->used && m < fit->learners; m++)
        weights[m] = m == pool;
    return CST_OK;
}

/* L and log det H of the squared error as the exponent of a Gaussian likelihood, whose noise has
 * the learner's own held-out variance: n (log(2 pi s^2) + 1) / 2 over the n (sample, class) rows,
 * and (X'X + n lambda I) / s^2. A likelihood of classes is not on the same scale: with a log-linear
 * pool among the learners L stays the NLL. */
static void take_squares(cst_context *context, const cst_view *view, const double *squares,
                         const cst_meta_fit *fit, double *loss, double *logdet) {
    double rows = cst_view_weight_sum(view) * (double)view->classes;
    for (int32_t m = 0; m < fit->learners; m++)
        if (isnan(squares[m])) {
            cst_notice(context,
                       "blend.evidence=same-loss compares squared errors, which %s does not "
                       "minimise: the Laplace weights use the NLL",
                       fit->name[m]);
            return;
        }
    for (int32_t m = 0; m < fit->learners; m++) {
        double variance = fmax(squares[m], 1e-300);
        loss[m] = 0.5 * rows * (log(TWO_PI * variance) + 1);
        logdet[m] -= (double)fit->active[m] * log(2 * variance);
    }
}

/* ---- one of two pools ---- */

typedef struct grouped {
    int64_t group;
    double weight;
    double change; /* times the weight */
} grouped;

CST_BY(by_group, grouped, CST_UP(group), 0, 0)

cst_status cst_choose_class_wise(cst_context *context, const cst_some_rows *judged,
                                 const float *truth, cst_meta_fit *fit) {
    const cst_view *view = &judged->view;
    cst_class_wise *found = &fit->class_wise;
    size_t rows = (size_t)view->rows;
    double total = 0;
    double square = 0;
    double groups = 0;
    CST_SCOPE(scope);
    CST_NEW(context, scope, grouped, all, rows);
    for (int32_t m = 0; m < fit->learners; m++)
        fit->nll[m] = total_nll(view, truth + (size_t)m * rows);
    for (size_t i = 0; i < rows; i++) {
        int64_t row = view->index ? view->index[i] : (int64_t)i;
        double before = fmax((double)truth[i], CST_NLL_FLOOR);
        double weight = cst_view_weight(view, (int64_t)i);
        double change = log(before / fmax((double)truth[rows + i], CST_NLL_FLOOR));
        all[i] = (grouped){view->groups ? view->groups[row] : row, weight, weight * change};
        total += weight;
        found->change += weight * change;
    }
    found->change /= total;
    CST_TRY(cst_sort(context, all, rows, sizeof *all, by_group));
    for (size_t i = 0; i < rows;) {
        double residual = 0;
        int64_t group = all[i].group;
        for (; i < rows && all[i].group == group; i++)
            residual += all[i].change - found->change * all[i].weight;
        square += residual * residual;
        groups++;
    }
    found->se = groups > 1 ? sqrt(square * groups / (groups - 1)) / total : INFINITY;
    found->tried = true;
    found->used = found->change < -found->se;
    for (int32_t m = 0; m < fit->learners; m++)
        fit->weight[m] = fit->model->learner[m].blend = m == found->used;
    for (size_t i = 0; fit->row_loss && i < rows; i++)
        fit->row_loss[i] = -cst_view_weight(view, (int64_t)i) *
                           log(fmax((double)truth[found->used * rows + i], CST_NLL_FLOOR));
    return CST_OK;
}

cst_status cst_blend_learners(cst_context *context, const cst_some_rows *judged,
                              const cst_blend_options *options, const float *truth,
                              const double *moments, const double *squares, cst_meta_fit *fit) {
    const cst_view *view = &judged->view;
    int64_t rows = view->rows;
    double nll[CST_LEARNERS_MAX]; /* or the loss that is asked for */
    double logdet[CST_LEARNERS_MAX];
    for (int32_t m = 0; m < fit->learners; m++) {
        fit->nll[m] = total_nll(view, truth + m * rows);
        nll[m] = fit->nll[m];
        logdet[m] = 2 * fit->half_logdet[m];
    }
    if (squares)
        take_squares(context, view, squares, fit, nll, logdet);
    for (int32_t m = 0; options->rule == CST_BLEND_LAPLACE && m < fit->learners; m++) {
        fit->loss[m] = nll[m];
        fit->half_logdet[m] = 0.5 * logdet[m];
    }
    if (options->rule == CST_BLEND_LAPLACE)
        leave_out_empty(context, fit->model, fit->learners, nll);
    double weights[CST_LEARNERS_MAX] = {0};
    cst_blend_evidence evidence = {.rows = rows,
                                   .members = fit->learners,
                                   .nll = nll,
                                   .logdet = logdet,
                                   .truth = truth,
                                   .weighted = view,
                                   .moments = moments};
    CST_TRY(options->rule == CST_BLEND_STACKING
                ? stack(context, view, options, truth, fit, 0, weights)
                : cst_blend_weights_from(context, &evidence, options, weights));
    if (options->rule == CST_BLEND_STACKING && fit->learners > 1)
        CST_TRY(keep_safe(context, judged, options, truth, fit, weights));
    for (int32_t m = 0; m < fit->learners; m++)
        fit->weight[m] = fit->model->learner[m].blend = weights[m];
    for (int64_t i = 0; fit->row_loss && i < rows; i++) {
        double p = 0;
        for (int32_t m = 0; m < fit->learners; m++)
            p += weights[m] * (double)truth[m * rows + i];
        fit->row_loss[i] = -log(fmax(p, CST_NLL_FLOOR));
        if (view->weights)
            fit->row_loss[i] *= cst_view_weight(view, i);
    }
    return CST_OK;
}
