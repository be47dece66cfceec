/* Weights of each class and member, by L-BFGS from the Hessian's blocks of single classes. */
#include "method/loglinear/loglinear.h"

#include "core/la.h"
#include "core/wide.h"
#include "stats/samples.h"

#include <math.h>
#include <string.h>

/* Precisions of Gaussian priors against the total NLL: of the weights of a member around their mean
 * over the classes, of that mean around 1/K, and of the biases. */
static const double SHRINK = 10;
static const double OTHER_PRIOR = 1;

/* A step that promises less, in nats of all rows, is not taken. */
static const double TOLERANCE = 1e-3;
static const double ROUGH = 20;

typedef struct classwise {
    const cst_view *view;
    float *logs; /* [rows][members][classes]: log(max(p, 1e-15)) */
    const double *theta;
    double *factor; /* [classes][members + 1][members + 1]: Cholesky factors where it starts */
    double *solved; /* [members + 1] */
} classwise;

static cst_status log_block(cst_context *context, void *user, int64_t block) {
    const classwise *s = user;
    const cst_view *view = s->view;
    size_t classes = (size_t)view->classes;
    cst_rows rows;
    CST_SCOPE(scope);
    CST_NEW(context, scope, double, wide, classes);
    CST_TRY(cst_rows_open(context, scope, view, block, &rows));
    for (int32_t k = 0; k < view->members; k++) {
        CST_TRY(cst_rows_read(context, &rows, k));
        for (int64_t i = 0; i < rows.count; i++) {
            const float *p = cst_rows_at(&rows, i);
            float *to = s->logs + ((rows.first + i) * view->members + k) * view->classes;
            for (size_t c = 0; c < classes; c++)
                wide[c] = fmax((double)p[c], CST_NLL_FLOOR);
            cst_log_f64(view->classes, wide, wide);
            for (size_t c = 0; c < classes; c++)
                to[c] = (float)wide[c];
        }
    }
    return CST_OK;
}

/* z = biases + sum over members of weights times logs. */
CST_KERNEL(row_scores,
           (const float *restrict logs, const double *restrict theta, int32_t members,
            int32_t classes, double *restrict z),
           (logs, theta, members, classes, z)) {
    for (int32_t c = 0; c < classes; c++)
        z[c] = theta[members * classes + c];
    for (int32_t j = 0; j < members; j++)
        for (int32_t c = 0; c < classes; c++)
            z[c] += theta[j * classes + c] * (double)logs[j * classes + c];
}

CST_KERNEL(row_gradient,
           (const float *restrict logs, const double *restrict residual, int32_t members,
            int32_t classes, double *restrict gradient),
           (logs, residual, members, classes, gradient)) {
    for (int32_t j = 0; j < members; j++)
        for (int32_t c = 0; c < classes; c++)
            gradient[j * classes + c] += residual[c] * (double)logs[j * classes + c];
    for (int32_t c = 0; c < classes; c++)
        gradient[members * classes + c] += residual[c];
}

/* sum: the loss, and its gradient [members + 1][classes]. */
static cst_status loss_block(cst_context *context, void *user, int64_t block, double *sum) {
    const classwise *s = user;
    const cst_view *view = s->view;
    int64_t first = cst_block_first(block);
    int64_t end = first + cst_block_size(view->rows, block);
    CST_SCOPE(scope);
    CST_NEW(context, scope, double, z, view->classes);
    for (int64_t i = first; i < end; i++) {
        const float *logs = s->logs + i * view->members * view->classes;
        int32_t label = cst_view_label(view, i);
        double weight = cst_view_weight(view, i);
        row_scores(logs, s->theta, view->members, view->classes, z);
        double given = z[label];
        sum[0] += weight * (cst_pass_softmax(view->classes, z) - given);
        z[label] -= 1;
        for (int32_t c = 0; view->weights && c < view->classes; c++)
            z[c] *= weight;
        row_gradient(logs, z, view->members, view->classes, sum + 1);
    }
    return CST_OK;
}

static cst_status evaluate(cst_context *context, void *user, const double *theta, double *sums) {
    classwise *s = user;
    const cst_view *view = s->view;
    int32_t classes = view->classes;
    int32_t weights = view->members * classes;
    s->theta = theta;
    CST_TRY(cst_reduce_blocks(context, cst_block_count(view->rows), 1 + (size_t)(weights + classes),
                              loss_block, s, sums));
    for (int32_t k = 0; k < view->members; k++) {
        const double *own = theta + k * classes;
        double mean = 0;
        for (int32_t c = 0; c < classes; c++)
            mean += own[c] / classes;
        double off = mean - 1.0 / view->members;
        sums[0] += 0.5 * OTHER_PRIOR * off * off;
        for (int32_t c = 0; c < classes; c++) {
            sums[0] += 0.5 * SHRINK * (own[c] - mean) * (own[c] - mean);
            sums[1 + k * classes + c] += SHRINK * (own[c] - mean) + OTHER_PRIOR * off / classes;
        }
    }
    for (int32_t j = weights; j < weights + classes; j++) {
        sums[0] += 0.5 * OTHER_PRIOR * theta[j] * theta[j];
        sums[1 + j] += OTHER_PRIOR * theta[j];
    }
    return CST_OK;
}

/* Lower triangles of the classes' blocks of the Hessian. */
static cst_status curvature_block(cst_context *context, void *user, int64_t block, double *sum) {
    const classwise *s = user;
    const cst_view *view = s->view;
    int32_t classes = view->classes;
    int32_t width = view->members + 1;
    int64_t first = cst_block_first(block);
    int64_t end = first + cst_block_size(view->rows, block);
    CST_SCOPE(scope);
    CST_NEW(context, scope, double, z, classes);
    for (int64_t i = first; i < end; i++) {
        const float *logs = s->logs + i * view->members * classes;
        row_scores(logs, s->theta, view->members, classes, z);
        (void)cst_pass_softmax(classes, z);
        for (int32_t c = 0; c < classes; c++) {
            double share = cst_view_weight(view, i) * z[c] * (1 - z[c]);
            double *to = sum + (ptrdiff_t)c * width * width;
            if (share < 1e-9)
                continue;
            for (int32_t a = 0; a < width; a++)
                for (int32_t b = 0; b <= a; b++)
                    to[a * width + b] += share *
                                         (a < view->members ? (double)logs[a * classes + c] : 1) *
                                         (b < view->members ? (double)logs[b * classes + c] : 1);
        }
    }
    return CST_OK;
}

static cst_status find_factors(cst_context *context, classwise *s, const double *theta) {
    size_t width = (size_t)s->view->members + 1;
    size_t classes = (size_t)s->view->classes;
    s->theta = theta;
    CST_TRY(cst_reduce_blocks(context, cst_block_count(s->view->rows), classes * width * width,
                              curvature_block, s, s->factor));
    for (size_t c = 0; c < classes; c++) {
        double *block = s->factor + c * width * width;
        for (size_t k = 0; k < width; k++)
            block[k * width + k] += k + 1 < width ? SHRINK : OTHER_PRIOR;
        CST_TRY(cst_cholesky(context, (int64_t)width, block));
    }
    return CST_OK;
}

static void solve(const void *user, const double *sums, double *v) {
    const classwise *s = user;
    size_t width = (size_t)s->view->members + 1;
    size_t classes = (size_t)s->view->classes;
    (void)sums;
    for (size_t c = 0; c < classes; c++) {
        for (size_t k = 0; k < width; k++)
            s->solved[k] = v[k * classes + c];
        cst_cholesky_solve((int64_t)width, s->factor + c * width * width, s->solved);
        for (size_t k = 0; k < width; k++)
            v[k * classes + c] = s->solved[k];
    }
}

cst_status cst_classwise_fit(cst_context *context, const cst_view *view, double *theta) {
    size_t members = (size_t)view->members;
    size_t classes = (size_t)view->classes;
    classwise s = {.view = view};
    cst_descent descent = {.size = (members + 1) * classes,
                           .sums = 1 + (members + 1) * classes,
                           .tolerance = ROUGH,
                           .evaluate = evaluate,
                           .solve = solve,
                           .user = &s,
                           .name = "class-wise weights"};
    CST_SCOPE(scope);
    CST_TAKE(context, scope, s.logs, (size_t)view->rows * members * classes);
    CST_TAKE(context, scope, s.factor, classes * (members + 1) * (members + 1));
    CST_TAKE(context, scope, s.solved, members + 1);
    CST_TRY(cst_parallel_own(context, cst_block_count(view->rows), 1, log_block, &s));
    CST_TRY(find_factors(context, &s, theta));
    CST_TRY(cst_descend(context, &descent, theta));
    descent.tolerance = TOLERANCE;
    CST_TRY(find_factors(context, &s, theta));
    return cst_descend(context, &descent, theta);
}

void cst_classwise_start(const cst_view *view, double *theta) {
    int32_t weights = view->members * view->classes;
    for (int32_t j = 0; j < weights + view->classes; j++)
        theta[j] = j < weights ? 1.0 / view->members : 0;
}

cst_status cst_classwise_maps(cst_context *context, const cst_view *view, const double *theta,
                              double *weights, cst_calibrator *maps) {
    int32_t classes = view->classes;
    CST_SCOPE(scope);
    CST_NEW(context, scope, double, numbers, 1 + 2 * (size_t)classes);
    for (int32_t k = 0; k < view->members; k++) {
        const double *own = theta + k * classes;
        double most = 1e-6;
        for (int32_t c = 0; c < classes; c++)
            most = fmax(most, fabs(own[c]));
        weights[k] = most;
        numbers[0] = 1;
        for (int32_t c = 0; c < classes; c++)
            numbers[1 + c] = own[c] / weights[k];
        CST_TRY(cst_calibrator_unpack(context, CST_CALIBRATOR_VECTOR, classes, numbers, &maps[k]));
    }
    return CST_OK;
}
