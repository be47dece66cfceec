/* Baselines of a multilabel comparison. Behind comparisons. docs/multilabel.md#methods. */
#include "tasks/multilabel/multilabel.h"

#include <string.h>

typedef enum label_mix { MIX_BEST, MIX_AVERAGE, MIX_LOG_ODDS, MIX_GREEDY, MIX_LOGISTIC } label_mix;

typedef struct label_baseline {
    cst_named named; /* the first, as others see it */
    label_mix mix;
} label_baseline;

static const label_baseline BASELINES[] = {
    {{"best-single", "the member with the lowest log loss"}, MIX_BEST},
    {{"average", "the mean of the members' probabilities"}, MIX_AVERAGE},
    {{"log-odds-average", "the sigmoid of the mean of the members' log-odds"}, MIX_LOG_ODDS},
    {{"greedy",
      "greedy selection with replacement that minimises the log loss of the mean, 25 rounds "
      "(Caruana et al. 2004)"},
     MIX_GREEDY},
    {{"logistic",
      "a ridge logistic regression on the members' log-odds for each label by itself, one penalty "
      "for all chosen by cross-validation"},
     MIX_LOGISTIC},
};

const cst_named *cst_label_baseline_at(size_t index) {
    return index < sizeof BASELINES / sizeof BASELINES[0] ? &BASELINES[index].named : NULL;
}

/* ---- greedy ---- */

/* Loss of the mean with each member taken once more: sum [members]. */
static cst_status greedy_block(cst_context *context, void *user, int64_t block, double *sum) {
    const cst_mix_greedy *job = user;
    const cst_view *view = job->view;
    size_t cells = CST_BLOCK_ROWS * (size_t)view->classes;
    cst_rows rows;
    CST_SCOPE(scope);
    CST_NEW(context, scope, double, mean, cells);
    CST_TRY(cst_rows_open(context, scope, view, block, &rows));
    cells = (size_t)rows.count * (size_t)view->classes;
    for (int32_t k = 0; k < view->members; k++) {
        if (job->counts[k] == 0)
            continue;
        CST_TRY(cst_rows_read(context, &rows, k));
        for (size_t e = 0; e < cells; e++)
            mean[e] += job->counts[k] * (double)rows.data[e];
    }
    for (int32_t k = 0; k < view->members; k++) {
        CST_TRY(cst_rows_read(context, &rows, k));
        for (int64_t i = 0; i < rows.count; i++) {
            const double *y = cst_view_target(view, rows.first + i);
            double weight = cst_view_weight(view, rows.first + i);
            const float *p = cst_rows_at(&rows, i);
            for (int32_t l = 0; l < view->classes; l++)
                if (!isnan(y[l]))
                    sum[k] += weight * cst_label_loss((mean[i * view->classes + l] + (double)p[l]) /
                                                          (job->taken + 1),
                                                      y[l] > 0.5);
        }
    }
    return CST_OK;
}

/* ---- all of them ---- */

static cst_status logistic(cst_context *context, const cst_label_table *table, double prior,
                           cst_label_functions *out) {
    size_t members = (size_t)table->members;
    cst_label_pool pool = {.count = table->members, .alone = true, .prior = prior};
    CST_SCOPE(scope);
    CST_NEW(context, scope, double, losses, table->rows);
    CST_TRY(cst_label_pool_take(context, scope, table, &pool));
    CST_TRY(cst_label_pool_choose(context, table, &pool, losses));
    for (size_t l = 0; l < (size_t)table->labels; l++) {
        memcpy(out->weights + l * members, pool.theta + l * (members + 1),
               members * sizeof *pool.theta);
        out->bias[l] = pool.theta[l * (members + 1) + members];
    }
    return CST_OK;
}

cst_status cst_label_baseline_fit(cst_context *context, cst_scope *scope, const cst_named *baseline,
                                  const cst_view *view, const int32_t *folds, int32_t fold_count,
                                  double prior, cst_label_functions *out, double **mix) {
    size_t members = (size_t)view->members;
    cst_label_table table;
    int32_t best = 0;
    label_mix mixed = ((const label_baseline *)baseline)->mix;
    *out = (cst_label_functions){.mean = mixed != MIX_LOG_ODDS && mixed != MIX_LOGISTIC};
    CST_TAKE(context, scope, out->weights, (size_t)view->classes * members);
    CST_TAKE(context, scope, out->bias, view->classes);
    CST_TAKE(context, scope, *mix, members);
    CST_SCOPE(own);
    CST_NEW(context, own, double, weights, members);
    CST_TRY(cst_label_table_make(context, own, view, folds, fold_count, &table));
    memcpy(*mix, table.mix, members * sizeof **mix);
    if (mixed == MIX_LOGISTIC)
        return logistic(context, &table, prior, out);
    for (int32_t k = 1; k < view->members; k++)
        best = table.risk[k] < table.risk[best] ? k : best;
    if (mixed == MIX_BEST)
        weights[best] = 1;
    else if (mixed == MIX_GREEDY)
        CST_TRY(cst_mix_greedy_weights(context, view, NULL, greedy_block, weights));
    else
        for (size_t k = 0; k < members; k++)
            weights[k] = 1 / (double)members;
    for (size_t l = 0; l < (size_t)view->classes; l++)
        memcpy(out->weights + l * members, weights, members * sizeof *weights);
    return CST_OK;
}
