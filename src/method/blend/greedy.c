/* Greedy selection (Caruana et al., 2004): rounds, and losses. Of the log loss the mean of log S -
 * log T, T the average's true-class probability and S its row sum to first order; near a rounding
 * boundary of float32 (AutoGluon) all columns are read. docs/method.md#s4-blend. */
#include "core/wide.h"
#include "method/blend/blend.h"

#include <math.h>

/* ---- rounds ---- */

/* Losses that differ by less are equal; relative. */
static const double TIE = 1e-12;
/* Cells read in a round from which on threads share it: below, starting them costs more. */
static const double SHARED_FROM = 8e6;
static const double ROUNDING_FROM = 1e-4; /* losses are rounded if the first best exceeds this */

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

/* To 6 decimals where `rounding`, half to even. */
static double rounded(double loss, bool rounding) {
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
        if (fabs(loss[k] - least) > TIE * fabs(least))
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

/* Mean loss [members] of an ensemble of `size` members with each added, rounded if `rounding`.
 * Sizes ascend from 0; `last` joined since the call before (-1 for size 0). */
typedef cst_status (*losses_fn)(cst_context *context, void *user, int32_t size, int32_t last,
                                bool rounding, double *loss);

static cst_status run_rounds(cst_context *context, int32_t members, int32_t rounds, uint32_t seed,
                             losses_fn losses, void *user, cst_greedy *out) {
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
        out->loss[i] = rounded(loss[best], rounding);
        used[best] = true;
    }
    cut(out, rounds, members);
    return CST_OK;
}

/* `work`: cells read in a round. */
static cst_status run(cst_context *context, int32_t members, int32_t rounds, uint32_t seed,
                      double work, losses_fn losses, void *user, cst_greedy *out) {
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

/* ---- the log loss ---- */

/* Likelihoods multiplied before one logarithm is taken: factors >= 2^-52 do not underflow. */
enum { CHAIN = 16, LANES = 16 };

static const double CLIP = 0x1p-52;     /* float64 epsilon, as scikit-learn clips */
static const double HALF_ULP = 0x1p-24; /* relative rounding error of a float32 product */
static const double NOISE = 2e-15;      /* of float64 arithmetic in a mean loss */

typedef struct greedy_state {
    const cst_view *view;
    float *truth;       /* [members][rows] true-class probabilities */
    double *excess;     /* [members] mean of the row sums less 1, and the share of rows at risk */
    double *off;        /* [blocks] largest distance of a row sum from 1; then [0] of all blocks */
    double *mean_truth; /* [rows] of the ensemble so far */
    double *mean_sum;   /* [rows], by the exact arithmetic, of the first `summed` members */
    int32_t *joined;    /* [rounds] the members in the ensemble, in order */
    int32_t rounds;
    int32_t size;   /* s: members in the ensemble */
    int32_t summed; /* how many of them are in mean_sum */
    bool rounding;
    bool *doubtful; /* [members] those to be evaluated from all columns */
    double *again;  /* [members] their losses */
} greedy_state;

static bool power_of_two(int32_t n) {
    return (n & (n - 1)) == 0;
}

/* sums[i] = sum_c fl32(row[c] / by), or where `times` fl32(by * row[c]), in eight fixed lanes. */
CST_WIDE_INLINE void row_sums(const float *rows, int64_t count, int64_t width, float by, bool times,
                              double *sums) {
    for (int64_t i = 0; i < count; i++) {
        const float *row = rows + i * width;
        double lane[8] = {0};
        int64_t c = 0;
        for (; c + 8 <= width; c += 8)
            for (int l = 0; l < 8; l++) {
                float part = times ? by * row[c + l] : row[c + l] / by;
                lane[l] += (double)part;
            }
        for (int l = 0; c < width; c++, l++) {
            float part = times ? by * row[c] : row[c] / by;
            lane[l] += (double)part;
        }
        sums[i] = cst_lanes_total(lane);
    }
}
CST_KERNEL(product_sums,
           (const float *rows, int64_t count, int64_t width, float scale, double *sums),
           (rows, count, width, scale, sums)) {
    row_sums(rows, count, width, scale, true, sums);
}
CST_KERNEL(quotient_sums,
           (const float *rows, int64_t count, int64_t width, float size, double *sums),
           (rows, count, width, size, sums)) {
    row_sums(rows, count, width, size, false, sums);
}

/* mean = mean (s - 1)/s + last/s, the second quotient in float32. */
CST_KERNEL(fold_truth,
           (const float *restrict truth, int64_t count, int32_t size, double *restrict mean),
           (truth, count, size, mean)) {
    double keep = (double)(size - 1) / (double)size;
    float divisor = (float)size;
    for (int64_t i = 0; i < count; i++) {
        float own = truth[i] / divisor;
        mean[i] = mean[i] * keep + (double)own;
    }
}

/* sum of log max(T, CLIP) over `count` rows, T = keep mean + fl32(share truth). */
CST_WIDE_INLINE double log_chain(const float *restrict truth, const double *restrict mean,
                                 int64_t count, double keep, float share) {
    double sum = 0;
    for (int64_t first = 0; first < count; first += CHAIN * LANES) {
        double product[LANES];
        for (int l = 0; l < LANES; l++)
            product[l] = 1;
        int64_t i = first;
        int64_t end = count - first < CHAIN * LANES ? count : first + CHAIN * LANES;
        for (; i + LANES <= end; i += LANES)
            for (int l = 0; l < LANES; l++) {
                float own = share * truth[i + l];
                double mixed = keep * mean[i + l] + (double)own;
                product[l] *= mixed < CLIP ? CLIP : mixed;
            }
        for (int l = 0; i < end; i++, l++) {
            float own = share * truth[i];
            double mixed = keep * mean[i] + (double)own;
            product[l] *= mixed < CLIP ? CLIP : mixed;
        }
        for (int l = 0; l < LANES; l++)
            product[l] = cst_log_one_f64(product[l]);
        for (int l = 0; l < LANES; l++)
            sum += product[l];
    }
    return sum;
}

/* loss[k] = -sum of log T of every candidate k. */
CST_KERNEL(truth_losses,
           (const float *truth, int64_t stride, int32_t members, const double *mean, int64_t count,
            double keep, float share, double *loss),
           (truth, stride, members, mean, count, keep, share, loss)) {
    for (int32_t k = 0; k < members; k++)
        loss[k] = -log_chain(truth + k * stride, mean, count, keep, share);
}

/* sum: [members] row sums less 1; then rows where a member may need clipping. */
static cst_status gather_block(cst_context *context, void *user, int64_t block, double *sum) {
    greedy_state *s = user;
    const cst_view *view = s->view;
    double sums[CST_BLOCK_ROWS];
    unsigned char risky[CST_BLOCK_ROWS] = {0};
    float least = (float)(2 * CLIP * (double)(s->rounds + 1));
    double off = 0;
    CST_SCOPE(scope);
    cst_rows rows;
    CST_TRY(cst_rows_open(context, scope, view, block, &rows));
    for (int32_t k = 0; k < view->members; k++) {
        CST_TRY(cst_rows_read(context, &rows, k));
        float *truth = s->truth + (size_t)k * (size_t)view->rows + rows.first;
        product_sums(rows.data, rows.count, view->classes, 1, sums);
        for (int64_t i = 0; i < rows.count; i++) {
            if (!(sums[i] > 0) || !isfinite(sums[i]))
                return cst_fail(context, CST_ERROR_INPUT,
                                "member %d sums to %g in row %lld, so it is not a distribution", k,
                                sums[i], (long long)(rows.first + i));
            sum[k] += sums[i] - 1;
            off = fmax(off, fabs(sums[i] - 1));
            truth[i] = cst_rows_at(&rows, i)[cst_view_label(view, rows.first + i)];
            risky[i] |= truth[i] < least;
        }
    }
    for (int64_t i = 0; i < rows.count; i++)
        sum[view->members] += risky[i];
    s->off[block] = off;
    return CST_OK;
}

static cst_status gather(cst_context *context, greedy_state *s) {
    const cst_view *view = s->view;
    int64_t blocks = cst_block_count(view->rows);
    const cst_share off = cst_share_tasks(s->off, blocks, sizeof *s->off);
    cst_status status = cst_reduce_fill(context, blocks, (size_t)view->members + 1, gather_block, s,
                                        s->excess, &off, 1);
    for (int32_t k = 0; k <= view->members; k++)
        s->excess[k] /= (double)view->rows;
    for (int64_t b = 1; b < blocks; b++)
        s->off[0] = fmax(s->off[0], s->off[b]);
    return status;
}

/* Lets the last member join the mean, and adds up -log T. */
static cst_status fast_block(cst_context *context, void *user, int64_t block, double *sum) {
    const greedy_state *s = user;
    const cst_view *view = s->view;
    int64_t first = cst_block_first(block);
    int64_t count = cst_block_size(view->rows, block);
    double *mean = s->mean_truth + first;
    (void)context;
    if (s->size > 0)
        fold_truth(s->truth + (size_t)s->joined[s->size - 1] * (size_t)view->rows + first, count,
                   s->size, mean);
    truth_losses(s->truth + first, view->rows, view->members, mean, count,
                 (double)s->size / (double)(s->size + 1), (float)(1.0 / (double)(s->size + 1)),
                 sum);
    return CST_OK;
}

/* Adds the mean of log S to first order: S - 1 is the mean of the row sums less 1. */
static void add_row_sums(const greedy_state *s, double *loss) {
    double inside = 0;
    for (int32_t j = 0; j < s->size; j++)
        inside += s->excess[s->joined[j]];
    for (int32_t k = 0; k < s->view->members; k++)
        loss[k] = loss[k] / (double)s->view->rows + (inside + s->excess[k]) / (double)(s->size + 1);
}

/* Bound of the fast loss's error. Parts of S divided by a power of two are exact. */
static double slack_of(const greedy_state *s) {
    int32_t inexact = !power_of_two(s->size + 1);
    for (int32_t size = 1; size <= s->size; size++)
        inexact += !power_of_two(size);
    double off = s->off[0];
    double parts = (double)inexact / (double)(s->size + 1);
    if (!(off < 0.01)) /* no expansion of the logarithm */
        return INFINITY;
    return 1.03 * (HALF_ULP * parts + off * off + off * s->excess[s->view->members]) + NOISE;
}

/* Marks candidates that could be the least and round to more than one value within `slack`. */
static bool mark_doubtful(greedy_state *s, const double *loss, double slack) {
    double least = INFINITY;
    bool any = false;
    for (int32_t k = 0; k < s->view->members; k++)
        least = fmin(least, rounded(loss[k] + slack, s->rounding));
    least += TIE * fabs(least);
    for (int32_t k = 0; k < s->view->members; k++) {
        double low = rounded(loss[k] - slack, s->rounding);
        double high = rounded(loss[k] + slack, s->rounding);
        s->doubtful[k] = !(low > least) && low != high;
        any = any || s->doubtful[k];
    }
    return any;
}

static double clip(double ratio) {
    ratio = ratio < CLIP ? CLIP : ratio;
    return ratio > 1 - CLIP ? 1 - CLIP : ratio;
}

/* -sum log of `count` likelihoods in `ratio`. */
static double chained_log(const double *ratio, int64_t count) {
    double loss = 0;
    for (int64_t first = 0; first < count; first += CHAIN) {
        double product = 1;
        int64_t end = count - first < CHAIN ? count : first + CHAIN;
        for (int64_t i = first; i < end; i++)
            product *= ratio[i];
        loss -= log(product);
    }
    return loss;
}

/* Brings the mean's row sums up to date; then losses of doubtful candidates from all columns. */
static cst_status exact_block(cst_context *context, void *user, int64_t block, double *sum) {
    const greedy_state *s = user;
    const cst_view *view = s->view;
    double keep = (double)s->size / (double)(s->size + 1);
    float share = (float)(1.0 / (double)(s->size + 1));
    double sums[CST_BLOCK_ROWS];
    CST_SCOPE(scope);
    cst_rows rows;
    CST_TRY(cst_rows_open(context, scope, view, block, &rows));
    double *mean = s->mean_sum + rows.first;
    for (int32_t t = s->summed; t < s->size; t++) {
        CST_TRY(cst_rows_read(context, &rows, s->joined[t]));
        quotient_sums(rows.data, rows.count, view->classes, (float)(t + 1), sums);
        for (int64_t i = 0; i < rows.count; i++)
            mean[i] = mean[i] * ((double)t / (double)(t + 1)) + sums[i];
    }
    for (int32_t k = 0; k < view->members; k++) {
        if (!s->doubtful[k])
            continue;
        CST_TRY(cst_rows_read(context, &rows, k));
        product_sums(rows.data, rows.count, view->classes, share, sums);
        const float *truth = s->truth + (size_t)k * (size_t)view->rows + rows.first;
        for (int64_t i = 0; i < rows.count; i++) {
            float own = share * truth[i];
            sums[i] = clip((keep * s->mean_truth[rows.first + i] + (double)own) /
                           (keep * mean[i] + sums[i]));
        }
        sum[k] = chained_log(sums, rows.count);
    }
    return CST_OK;
}

/* A losses_fn: losses of all candidates, those in doubt from all columns. */
static cst_status losses(cst_context *context, void *user, int32_t size, int32_t last,
                         bool rounding, double *loss) {
    greedy_state *s = user;
    int64_t blocks = cst_block_count(s->view->rows);
    size_t members = (size_t)s->view->members;
    s->size = size;
    s->rounding = rounding;
    if (size > 0)
        s->joined[size - 1] = last;
    CST_TRY(cst_reduce_blocks(context, blocks, members, fast_block, s, loss));
    add_row_sums(s, loss);
    if (mark_doubtful(s, loss, slack_of(s))) {
        CST_TRY(cst_reduce_blocks(context, blocks, members, exact_block, s, s->again));
        s->summed = size;
        for (size_t k = 0; k < members; k++)
            if (s->doubtful[k])
                loss[k] = s->again[k] / (double)s->view->rows;
    }
    for (size_t k = 0; k < members; k++)
        loss[k] = rounded(loss[k], rounding);
    return CST_OK;
}

/* Cells read in a round: the true-class columns, and now and then all columns of a few members. */
static cst_status select_log_loss(cst_context *context, const cst_view *view, int32_t rounds,
                                  uint32_t seed, cst_greedy *out) {
    size_t rows = (size_t)view->rows;
    size_t members = (size_t)view->members;
    size_t cells = 0;
    if (!cst_size_mul(members, rows, &cells))
        return cst_fail(context, CST_ERROR_LIMIT, "%zu rows of %d members are too many", rows,
                        view->members);
    greedy_state s = {.view = view, .rounds = rounds};
    CST_SCOPE(scope);
    CST_TAKE(context, scope, s.truth, cells);
    CST_TAKE(context, scope, s.excess, members + 1);
    CST_TAKE(context, scope, s.off, cst_block_count(view->rows));
    CST_TAKE(context, scope, s.mean_truth, rows);
    CST_TAKE(context, scope, s.mean_sum, rows);
    CST_TAKE(context, scope, s.joined, rounds);
    CST_TAKE(context, scope, s.again, members);
    CST_TAKE(context, scope, s.doubtful, members);
    CST_TRY(gather(context, &s));
    return run(context, view->members, rounds, seed,
               (double)view->rows * (view->classes + (double)view->members), losses, &s, out);
}

/* ---- the other losses, in float32 as AutoGluon computes them ---- */

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

static double row_loss(const metric_state *s, const double *p, int32_t label) {
    switch (s->metric) {
    case CST_GREEDY_TOP1:
        return row_top1_error(p, s->view->classes, label);
    case CST_GREEDY_BRIER:
        return row_brier(p, s->view->classes, label);
    case CST_GREEDY_LOG_LOSS:
        break;
    }
    return -log(fmin(fmax(p[label], CLIP), 1 - CLIP));
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

static cst_status metric_losses(cst_context *context, void *user, int32_t size, int32_t last,
                                bool rounding, double *loss) {
    metric_state *s = user;
    int64_t blocks = cst_block_count(s->view->rows);
    s->size = size;
    s->last = last;
    if (size > 0)
        CST_TRY(cst_parallel_own(context, blocks, 1, fold_block, s));
    CST_TRY(cst_reduce_blocks(context, blocks, (size_t)s->view->members, loss_block, s, loss));
    for (int32_t k = 0; k < s->view->members; k++)
        loss[k] = rounded(loss[k] / s->total, rounding);
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
        return select_log_loss(context, view, rounds, seed, out);
    size_t cells = 0;
    if (!cst_size_mul((size_t)view->rows, (size_t)view->classes, &cells))
        return cst_fail(context, CST_ERROR_LIMIT, "%lld rows of %d classes are too many",
                        (long long)view->rows, view->classes);
    metric_state s = {.view = view, .metric = metric, .total = cst_view_weight_sum(view)};
    CST_SCOPE(scope);
    CST_TAKE(context, scope, s.mean, cells);
    return run(context, view->members, rounds, seed, (double)cells * view->members, metric_losses,
               &s, out);
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
