/* Rounds of greedy selection (ties, rounding, the cut at the first minimum) and losses: top-1
 * error, Brier score, log loss of weighted rows, in AutoGluon's float32 arithmetic. */
#include "method/blend/greedy.h"

#include <math.h>

static const double ROUNDING_FROM = 1e-4; /* losses are rounded if the first best exceeds this */

/* Cells read in a round from which on threads share it: below, starting them costs more. */
static const double SHARED_FROM = 8e6;

typedef struct mersenne {
    uint32_t state[624];
    int next;
} mersenne;

static void mersenne_seed(mersenne *m, uint32_t seed) {
    m->state[0] = seed;
    for (uint32_t i = 1; i < 624; i++)
        m->state[i] = 1812433253U * (m->state[i - 1] ^ m->state[i - 1] >> 30) + i;
    m->next = 624;
}

static uint32_t mersenne_next(mersenne *m) {
    if (m->next == 624) {
        for (int i = 0; i < 624; i++) {
            uint32_t y = (m->state[i] & 0x80000000U) | (m->state[(i + 1) % 624] & 0x7fffffffU);
            m->state[i] = m->state[(i + 397) % 624] ^ y >> 1 ^ (y & 1U ? 0x9908b0dfU : 0U);
        }
        m->next = 0;
    }
    uint32_t y = m->state[m->next++];
    y ^= y >> 11;
    y ^= y << 7 & 0x9d2c5680U;
    y ^= y << 15 & 0xefc60000U;
    return y ^ y >> 18;
}

/* RandomState.randint(0, count): bits masked, too large ones drawn again, none drawn for one. */
static int32_t mersenne_below(mersenne *m, int32_t count) {
    uint32_t most = (uint32_t)count - 1;
    if (most == 0)
        return 0;
    uint32_t mask = most;
    for (int shift = 1; shift < 32; shift *= 2)
        mask |= mask >> shift;
    uint32_t draw = 0;
    do {
        draw = mersenne_next(m) & mask;
    } while (draw > most);
    return (int32_t)draw;
}

double cst_greedy_rounded(double loss, bool rounding) {
    return rounding ? rint(loss * 1e6) / 1e6 : loss;
}

/* The member with the least loss; ties go to members already used, then to the draw. */
static int32_t choose(const double *loss, const bool *used, int32_t members, mersenne *random,
                      int32_t *tied) {
    double least = INFINITY;
    for (int32_t k = 0; k < members; k++)
        least = fmin(least, loss[k]);
    int32_t count = 0;
    bool any_used = false;
    for (int32_t k = 0; k < members; k++) {
        if (fabs(loss[k] - least) > CST_GREEDY_TIE * fabs(least))
            continue;
        tied[count++] = k;
        any_used = any_used || used[k];
    }
    if (count > 1 && any_used) {
        int32_t kept = 0;
        for (int32_t j = 0; j < count; j++)
            if (used[tied[j]])
                tied[kept++] = tied[j];
        count = kept;
    }
    return tied[mersenne_below(random, count)];
}

static void cut(cst_greedy *out, int32_t rounds, int32_t members) {
    int32_t best = 0;
    for (int32_t i = 1; i < rounds; i++)
        if (out->loss[i] < out->loss[best])
            best = i;
    out->rounds = best + 1;
    for (int32_t i = 0; i < out->rounds; i++)
        out->weights[out->order[i]] += 1;
    for (int32_t k = 0; k < members; k++)
        out->weights[k] /= (double)out->rounds;
}

static cst_status run_rounds(cst_context *context, int32_t members, int32_t rounds, uint32_t seed,
                             cst_greedy_losses_fn losses, void *user, cst_greedy *out) {
    bool rounding = false;
    CST_SCOPE(scope);
    CST_NEW(context, scope, double, loss, members);
    CST_NEW(context, scope, bool, used, members);
    CST_NEW(context, scope, int32_t, tied, members);
    CST_NEW(context, scope, mersenne, random, 1);
    mersenne_seed(random, seed);
    if (members == 1)
        rounds = 1;
    for (int32_t i = 0; i < rounds; i++) {
        CST_TRY(losses(context, user, i, i > 0 ? out->order[i - 1] : -1, rounding, loss));
        int32_t best = choose(loss, used, members, random, tied);
        if (i == 0)
            rounding = loss[best] > ROUNDING_FROM;
        out->order[i] = best;
        out->loss[i] = cst_greedy_rounded(loss[best], rounding);
        used[best] = true;
    }
    cut(out, rounds, members);
    return CST_OK;
}

cst_status cst_greedy_run(cst_context *context, int32_t members, int32_t rounds, uint32_t seed,
                          double work, cst_greedy_losses_fn losses, void *user, cst_greedy *out) {
    int threads = cst_context_threads(context);
    CST_TAKE(context, &out->scope, out->order, rounds);
    CST_TAKE(context, &out->scope, out->loss, rounds);
    CST_TAKE(context, &out->scope, out->weights, members);
    if (work < SHARED_FROM)
        CST_TRY(cst_context_set_threads(context, 1));
    cst_status status = run_rounds(context, members, rounds, seed, losses, user, out);
    (void)cst_context_set_threads(context, threads); /* was valid before */
    return status;
}

typedef struct metric_state {
    const cst_view *view;
    cst_greedy_metric metric;
    double *mean; /* [rows][classes] of the ensemble so far */
    double total; /* sum of the rows' weights */
    int32_t size;
    int32_t last;
} metric_state;

/* mean = mean (s - 1)/s + last/s, the second quotient in float32. */
static cst_status fold_block(cst_context *context, void *user, int64_t block) {
    const metric_state *s = user;
    CST_SCOPE(scope);
    cst_rows rows;
    CST_TRY(cst_rows_open(context, scope, s->view, block, &rows));
    CST_TRY(cst_rows_read(context, &rows, s->last));
    double *mean = s->mean + rows.first * s->view->classes;
    double keep = (double)(s->size - 1) / (double)s->size;
    float size = (float)s->size;
    for (int64_t j = 0; j < rows.count * s->view->classes; j++) {
        float quotient = rows.data[j] / size;
        mean[j] = mean[j] * keep + (double)quotient;
    }
    return CST_OK;
}

/* 1 where the largest probability, the lowest class of equal ones, is not the label's. */
static double row_top1_error(const double *p, int32_t classes, int32_t label) {
    int32_t best = 0;
    for (int32_t c = 1; c < classes; c++)
        best = p[c] > p[best] ? c : best;
    return best == label ? 0 : 1;
}

static double row_brier(const double *p, int32_t classes, int32_t label) {
    double sum = 0;
    for (int32_t c = 0; c < classes; c++) {
        double error = p[c] - (c == label ? 1 : 0);
        sum += error * error;
    }
    return sum;
}

static double row_log_loss(const double *p, int32_t label) {
    const double clip = 0x1p-52; /* as scikit-learn clips */
    return -log(fmin(fmax(p[label], clip), 1 - clip));
}

static double row_loss(const metric_state *s, const double *p, int32_t label) {
    switch (s->metric) {
    case CST_GREEDY_TOP1:
        return row_top1_error(p, s->view->classes, label);
    case CST_GREEDY_BRIER:
        return row_brier(p, s->view->classes, label);
    case CST_GREEDY_LOG_LOSS:
        break;
    }
    return row_log_loss(p, label);
}

/* The ensemble with a member's row added, divided by its sum; false where that is not positive. */
static bool mix_row(const metric_state *s, const double *mean, const float *row, double *p) {
    double keep = (double)s->size / (double)(s->size + 1);
    float share = (float)(1.0 / (double)(s->size + 1));
    double sum = 0;
    for (int32_t c = 0; c < s->view->classes; c++) {
        float added = share * row[c];
        p[c] = keep * mean[c] + (double)added;
        sum += p[c];
    }
    for (int32_t c = 0; c < s->view->classes; c++)
        p[c] /= sum;
    return sum > 0 && isfinite(sum);
}

static cst_status loss_block(cst_context *context, void *user, int64_t block, double *sum) {
    const metric_state *s = user;
    const cst_view *view = s->view;
    CST_SCOPE(scope);
    CST_NEW(context, scope, double, p, view->classes);
    cst_rows rows;
    CST_TRY(cst_rows_open(context, scope, view, block, &rows));
    for (int32_t k = 0; k < view->members; k++) {
        CST_TRY(cst_rows_read(context, &rows, k));
        for (int64_t i = 0; i < rows.count; i++) {
            int64_t n = rows.first + i;
            if (!mix_row(s, s->mean + n * view->classes, cst_rows_at(&rows, i), p))
                return cst_fail(context, CST_ERROR_INPUT,
                                "member %d does not sum to a positive number in row %lld, so it "
                                "is not a distribution",
                                k, (long long)n);
            sum[k] += cst_view_weight(view, n) * row_loss(s, p, cst_view_label(view, n));
        }
    }
    return CST_OK;
}

static cst_status losses(cst_context *context, void *user, int32_t size, int32_t last,
                         bool rounding, double *loss) {
    metric_state *s = user;
    int64_t blocks = cst_block_count(s->view->rows);
    s->size = size;
    s->last = last;
    if (size > 0)
        CST_TRY(cst_parallel_own(context, blocks, 1, fold_block, s));
    CST_TRY(cst_reduce_blocks(context, blocks, (size_t)s->view->members, loss_block, s, loss));
    for (int32_t k = 0; k < s->view->members; k++)
        loss[k] = cst_greedy_rounded(loss[k] / s->total, rounding);
    return CST_OK;
}

static cst_status select_by(cst_context *context, const cst_view *view, cst_greedy_metric metric,
                            int32_t rounds, uint32_t seed, cst_greedy *out) {
    if (rounds < 1 || view->members < 1)
        return cst_fail(context, CST_ERROR_ARGUMENT,
                        "greedy selection over %d members in %d rounds: both must be at least 1",
                        view->members, rounds);
    if (view->rows < 1 || !view->labels)
        return cst_fail(context, CST_ERROR_INPUT, "greedy selection needs labelled rows");
    if (metric == CST_GREEDY_LOG_LOSS && !view->weights)
        return cst_greedy_log_loss(context, view, rounds, seed, out);
    size_t cells = 0;
    if (!cst_size_mul((size_t)view->rows, (size_t)view->classes, &cells))
        return cst_fail(context, CST_ERROR_LIMIT, "%lld rows of %d classes are too many",
                        (long long)view->rows, view->classes);
    metric_state s = {.view = view, .metric = metric, .total = cst_view_weight_sum(view)};
    CST_SCOPE(scope);
    CST_TAKE(context, scope, s.mean, cells);
    return cst_greedy_run(context, view->members, rounds, seed, (double)cells * view->members,
                          losses, &s, out);
}

cst_status cst_greedy_select(cst_context *context, const cst_view *view, cst_greedy_metric metric,
                             int32_t rounds, uint32_t seed, cst_greedy *out) {
    *out = (cst_greedy){0};
    cst_status status = select_by(context, view, metric, rounds, seed, out);
    if (status != CST_OK) {
        cst_scope_free(&out->scope);
        *out = (cst_greedy){0};
    }
    return status;
}
