/* Baseline: the log-linear pool of all members, without selection and calibration. */
#include "fit/baselines/baselines.h"

#include "method/loglinear/loglinear.h"

#include <string.h>

typedef struct log_linear {
    double *mix;     /* [members]: share of the uniform distribution */
    double *bias;    /* [classes] */
    int32_t *active; /* [members]: 0, 1, ... */
} log_linear;

CST_OWNED(cst_loglinear)

cst_status cst_fit_log_linear(cst_context *context, const cst_baseline_data *data,
                              cst_baseline_fit *out) {
    const cst_view *view = data->view;
    cst_loglinear_options options = cst_loglinear_defaults();
    cst_loglinear pool = {0};
    CST_NEW(context, &out->scope, log_linear, s, 1);
    out->state = s;
    CST_TAKE(context, &out->scope, s->mix, view->members);
    CST_TAKE(context, &out->scope, s->bias, view->classes);
    CST_TAKE(context, &out->scope, s->active, view->members);
    for (int32_t k = 0; k < view->members; k++)
        s->active[k] = k;
    out->mix = CST_MIX_LOGLINEAR;
    cst_loglinear_cv cv = {.prior = true};
    CST_SCOPE(scope);
    CST_OWN(context, scope, cst_loglinear, &pool);
    CST_TRY(cst_loglinear_pool(context, view, data->folds, data->fold_count, &cv, &options, s->mix,
                               &pool, NULL));
    memcpy(out->weights, pool.weights, (size_t)view->members * sizeof *out->weights);
    memcpy(s->bias, pool.bias, (size_t)view->classes * sizeof *s->bias);
    (void)cst_snprintf(out->detail, sizeof out->detail, "prior precision %.3g of weights%s",
                       pool.prior_weights, options.evidence ? ", by the evidence" : "");
    return CST_OK;
}

cst_status cst_predict_log_linear(cst_context *context, void *user, int64_t block) {
    const cst_baseline_job *job = user;
    const cst_view *view = job->view;
    const log_linear *s = job->fit->state;
    int64_t first = cst_block_first(block);
    int64_t count = cst_block_size(view->rows, block);
    size_t classes = (size_t)view->classes;
    size_t members = (size_t)view->members;
    size_t cells = (size_t)count * classes;
    CST_SCOPE(scope);
    CST_NEW(context, scope, float, scratch, cst_view_copies(view) ? cells : 0);
    CST_NEW(context, scope, float, logs, (cells * members));
    CST_NEW(context, scope, double, row, classes);
    for (int32_t k = 0; k < view->members; k++) {
        const float *rows = NULL;
        CST_TRY(cst_view_rows(context, view, k, first, count, scratch, &rows));
        for (size_t j = 0; j < cells; j++)
            logs[j * members + (size_t)k] = cst_mixed_log(rows[j], s->mix[k], view->classes);
    }
    for (int64_t i = 0; i < count; i++) {
        cst_loglinear_row(logs + (size_t)i * classes * members, view->classes, view->members,
                          s->active, view->members, job->fit->weights, s->bias, row);
        for (size_t c = 0; c < classes; c++)
            job->out[(size_t)(first + i) * classes + c] = (float)row[c];
    }
    return CST_OK;
}

cst_status cst_model_log_linear(cst_context *context, const cst_baseline_fit *fit,
                                const int32_t *kept, cst_model *out) {
    const log_linear *s = fit->state;
    for (int32_t j = 0; j < out->members; j++)
        out->mix[j] = s->mix[kept[j]];
    return cst_baseline_learner(context, fit, CST_LEARNER_LOGLINEAR, kept, s->bias, fit->classes,
                                out);
}
