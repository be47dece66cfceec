/* Baselines of a comparison of lists, and losses of members. docs/topk.md#methods. */
#include "tasks/topk/topk.h"

#include "core/wide.h"

#include <math.h>
#include <string.h>

enum { GREEDY_ROUNDS = 25, STEPS_MAX = 30 };

typedef enum topk_mix { MIX_BEST, MIX_AVERAGE, MIX_GREEDY, MIX_LOGLINEAR } topk_mix;

struct cst_topk_baseline {
    const char *name;
    const char *definition;
    topk_mix mix;
    bool scaled;
};

static const cst_topk_baseline BASELINES[] = {
    {"best-single", "the member with the lowest NLL", MIX_BEST, false},
    {"best-single+temperature", "the member with the lowest NLL, with a fitted temperature",
     MIX_BEST, true},
    {"average", "the mean of the members' probabilities", MIX_AVERAGE, false},
    {"average+temperature", "the mean of the members' probabilities, with a fitted temperature",
     MIX_AVERAGE, true},
    {"greedy",
     "greedy selection with replacement that minimises the NLL of the mean, 25 rounds (Caruana et "
     "al. 2004)",
     MIX_GREEDY, false},
    {"greedy+temperature", "greedy, with a fitted temperature", MIX_GREEDY, true},
    {"log-linear", "the log-linear pool of all members", MIX_LOGLINEAR, false},
};

const cst_topk_baseline *cst_topk_baseline_at(size_t index) {
    return index < sizeof BASELINES / sizeof BASELINES[0] ? &BASELINES[index] : NULL;
}

const cst_topk_baseline *cst_topk_baseline_find(const char *name) {
    for (size_t i = 0; cst_topk_baseline_at(i); i++)
        if (strcmp(name, BASELINES[i].name) == 0)
            return &BASELINES[i];
    return NULL;
}

const char *cst_topk_baseline_name(const cst_topk_baseline *baseline) {
    return baseline->name;
}

const char *cst_topk_baseline_definition(const cst_topk_baseline *baseline) {
    return baseline->definition;
}

/* ---- losses of members ---- */

double cst_topk_label_log(const cst_view *view, const float *row, int64_t at) {
    size_t listed = (size_t)view->classes / 2;
    float class = (float)cst_view_label(view, at);
    double all = view->listed_of;
    double label = 0;
    double above[64]; /* of so many at a time */
    for (size_t j = 0; j < listed && row[j] >= 0; j += 64) {
        int64_t part = 0;
        for (; part < 64 && j + (size_t)part < listed && row[j + (size_t)part] >= 0; part++) {
            size_t place = j + (size_t)part;
            above[part] = (double)row[listed + place];
            label = row[place] >= class && row[place] <= class ? above[part] : label;
        }
        cst_exp_f64(part, above, above);
        for (int64_t l = 0; l < part; l++)
            all += above[l] - 1;
    }
    return label - log(all);
}

typedef struct risk_job {
    const cst_view *view;
    const int32_t *folds;
} risk_job;

static cst_status risk_block(cst_context *context, void *user, int64_t block, double *sum) {
    const risk_job *job = user;
    const cst_view *view = job->view;
    cst_rows rows;
    CST_SCOPE(scope);
    CST_TRY(cst_rows_open(context, scope, view, block, &rows));
    for (int32_t k = 0; k < view->members; k++) {
        CST_TRY(cst_rows_read(context, &rows, k));
        for (int64_t i = 0; i < rows.count; i++) {
            int64_t row = rows.first + i;
            double *to = sum + (job->folds ? job->folds[row] : 0) * (view->members + 1);
            to[k] -=
                cst_view_weight(view, row) * cst_topk_label_log(view, cst_rows_at(&rows, i), row);
            to[view->members] += k == 0 ? cst_view_weight(view, row) : 0;
        }
    }
    return CST_OK;
}

cst_status cst_topk_risks(cst_context *context, const cst_view *view, const int32_t *folds,
                          int32_t count, double *risk) {
    size_t k = (size_t)view->members;
    risk_job job = {view, folds};
    CST_SCOPE(scope);
    CST_NEW(context, scope, double, sum, (k + 1) * (size_t)count);
    CST_TRY(cst_reduce_blocks(context, cst_block_count(view->rows), (k + 1) * (size_t)count,
                              risk_block, &job, sum));
    for (int32_t f = 0; f < count; f++)
        for (size_t a = 0; a < k; a++) {
            double all[2] = {0}; /* of the other folds, or of the only one */
            for (int32_t g = 0; g < count; g++) {
                all[0] += g != f || count == 1 ? sum[(size_t)g * (k + 1) + a] : 0;
                all[1] += g != f || count == 1 ? sum[(size_t)g * (k + 1) + k] : 0;
            }
            risk[(size_t)f * k + a] = all[0] / all[1];
        }
    return CST_OK;
}

/* ---- greedy ---- */

typedef struct greedy_job {
    const cst_view *view;
    float *told;           /* [members][rows]: probability of the label */
    const int32_t *counts; /* [members]: how often each was taken */
} greedy_job;

static cst_status told_block(cst_context *context, void *user, int64_t block) {
    const greedy_job *job = user;
    cst_rows rows;
    CST_SCOPE(scope);
    CST_TRY(cst_rows_open(context, scope, job->view, block, &rows));
    for (int32_t k = 0; k < job->view->members; k++) {
        CST_TRY(cst_rows_read(context, &rows, k));
        for (int64_t i = 0; i < rows.count; i++)
            job->told[k * job->view->rows + rows.first + i] =
                (float)exp(cst_topk_label_log(job->view, cst_rows_at(&rows, i), rows.first + i));
    }
    return CST_OK;
}

/* Loss of the sum with each member taken once more: sum [members]. */
static cst_status greedy_block(cst_context *context, void *user, int64_t block, double *sum) {
    const greedy_job *job = user;
    const cst_view *view = job->view;
    int64_t first = cst_block_first(block);
    (void)context;
    for (int64_t i = first; i < first + cst_block_size(view->rows, block); i++) {
        double taken = 0;
        for (int32_t k = 0; k < view->members; k++)
            taken += job->counts[k] * (double)job->told[k * view->rows + i];
        for (int32_t k = 0; k < view->members; k++)
            sum[k] -= cst_view_weight(view, i) *
                      log(fmax(taken + (double)job->told[k * view->rows + i], 1e-300));
    }
    return CST_OK;
}

/* Weights up to the round of the least loss. */
static cst_status greedy(cst_context *context, const cst_view *view, double *weights) {
    int32_t picked[GREEDY_ROUNDS];
    int32_t kept = 0;
    double least = INFINITY;
    double all = cst_view_weight_sum(view);
    CST_SCOPE(scope);
    CST_NEW(context, scope, int32_t, counts, view->members);
    CST_NEW(context, scope, double, sum, view->members);
    CST_NEW(context, scope, float, told, (size_t)view->members *(size_t)view->rows);
    greedy_job job = {view, told, counts};
    CST_TRY(cst_parallel_for(context, cst_block_count(view->rows), told_block, &job));
    for (int32_t r = 0; r < GREEDY_ROUNDS; r++) {
        int32_t best = 0;
        CST_TRY(cst_reduce_blocks(context, cst_block_count(view->rows), (size_t)view->members,
                                  greedy_block, &job, sum));
        for (int32_t k = 1; k < view->members; k++)
            best = sum[k] < sum[best] ? k : best;
        counts[best]++;
        picked[r] = best;
        double loss = sum[best] + all * log(r + 1); /* of the mean */
        kept = loss < least ? r + 1 : kept;
        least = fmin(loss, least);
    }
    for (int32_t r = 0; r < kept; r++)
        weights[picked[r]] += 1 / (double)kept;
    return CST_OK;
}

/* ---- temperature ---- */

typedef struct scale_job {
    const cst_view *view;
    cst_topk_mix mix; /* its power is where derivatives are taken */
} scale_job;

/* Slope and curvature in the power. */
static cst_status scale_block(cst_context *context, void *user, int64_t block, double *sum) {
    const scale_job *job = user;
    cst_topk_reader r;
    CST_SCOPE(scope);
    CST_TRY(cst_topk_reader_take(context, scope, job->view, &r));
    CST_TRY(cst_topk_reader_block(context, &r, block));
    for (int64_t i = 0; i < r.count; i++) {
        double weight = cst_view_weight(job->view, r.first + i) / job->mix.power;
        double other = 0;
        double mean = 0;
        double square = 0;
        cst_topk_reader_row(&r, i);
        (void)cst_topk_mixed(&r, &job->mix, &other);
        for (int32_t u = 0; u < r.row.count; u++) {
            mean += r.p[u] * r.score[u];
            square += r.p[u] * r.score[u] * r.score[u];
        }
        sum[0] += weight * (mean - (r.row.label < 0 ? 0 : r.score[r.row.label]));
        sum[1] += weight / job->mix.power * (square - mean * mean);
    }
    return CST_OK;
}

/* Newton, with steps that at most double or halve the power. */
static cst_status scale(cst_context *context, const cst_view *view, cst_topk_made *made) {
    scale_job job = {view, {made->weights, true, 1, NULL}};
    double sum[2];
    for (int s = 0; s < STEPS_MAX; s++) {
        CST_TRY(cst_reduce_blocks(context, cst_block_count(view->rows), 2, scale_block, &job, sum));
        double power = job.mix.power;
        double next = sum[1] > 0 ? power - sum[0] / sum[1] : power;
        job.mix.power = fmin(fmax(fmin(fmax(next, power / 2), 2 * power), 0.01), 100);
        if (fabs(job.mix.power - power) <= 1e-10 * power)
            break;
    }
    made->temperature = 1 / job.mix.power;
    return CST_OK;
}

/* ---- all of them ---- */

/* The log-linear pool of all members, or of one. */
static cst_status pool(cst_context *context, const cst_topk_rows *rows, const bool *in,
                       cst_topk_made *out) {
    cst_topk_fit fit = {.fold = -1, .in = in, .weights = out->weights};
    out->linear = false;
    cst_topk_begin(rows, &fit);
    return cst_topk_fit_all(context, rows, &fit, 1);
}

cst_status cst_topk_baseline_fit(cst_context *context, const cst_topk_baseline *baseline,
                                 const cst_topk_rows *rows, cst_topk_made *out) {
    int32_t members = rows->view->members;
    int32_t best = 0;
    CST_SCOPE(scope);
    CST_NEW(context, scope, double, risk, members);
    CST_NEW(context, scope, bool, in, members);
    out->linear = baseline->mix != MIX_LOGLINEAR;
    out->temperature = 1;
    if (baseline->mix == MIX_LOGLINEAR)
        return pool(context, rows, NULL, out);
    if (baseline->mix == MIX_GREEDY)
        CST_TRY(greedy(context, rows->view, out->weights));
    for (int32_t k = 0; baseline->mix == MIX_AVERAGE && k < members; k++)
        out->weights[k] = 1 / (double)members;
    if (baseline->mix == MIX_BEST) {
        CST_TRY(cst_topk_risks(context, rows->view, NULL, 1, risk));
        for (int32_t k = 1; k < members; k++)
            best = risk[k] < risk[best] ? k : best;
        out->weights[best] = 1;
        in[best] = true;
        if (baseline->scaled)
            return pool(context, rows, in, out);
    }
    return baseline->scaled ? scale(context, rows->view, out) : CST_OK;
}
