/*
 * Greedy ensemble selection on the log loss, reproducing AutoGluon's float32 arithmetic where it
 * can decide. A blend rule of stage S4 and a baseline. method.md section 5; Caruana et al. (2004).
 *
 * Only the true-class column and the row sum of the renormalised average enter the loss, so that a
 * round costs rows x members. AutoGluon multiplies float32 predictions by 1/(s+1) in float32; the
 * true-class column does so here too, and a row sum takes the rounding of its terms into account
 * only when a loss is so near a rounding boundary that it matters: then it is recomputed from all
 * columns.
 */
#include "blend/greedy.h"

#include <math.h>
#include <string.h>

/* Rows whose likelihoods are multiplied before one logarithm is taken: a product of so many
 * factors >= 2^-52 does not underflow. */
enum { CHAIN = 16, LANES = 16 };

static const double CLIP = 0x1p-52;       /* float64 epsilon, as scikit-learn clips */
static const double HALF_ULP = 0x1p-24;   /* relative rounding error of a float32 product */
static const double ROUNDING_FROM = 1e-4; /* losses are rounded if the first best exceeds this */
static const double TIE = 1e-12;          /* relative */

/* Cells read in a round from which on threads share it: below, starting them costs more. */
static const double SHARED_FROM = 8e6;

typedef struct greedy_state {
    const cst_view *view;
    float *truth;       /* [members][rows] true-class probabilities */
    double *row_sum;    /* [members][rows] */
    double *mean_truth; /* [rows] of the ensemble so far */
    double *mean_sum;   /* [rows] */
    double sum_ratio;   /* largest row sum over the smallest */
    int32_t size;       /* s: members in the ensemble */
    int32_t last;       /* the member to be folded into the mean before the next round */
    const bool *exact;  /* [members] evaluate these from all columns; NULL: all fast */
    bool rounding;
} greedy_state;

/* ---- NumPy's legacy generator, for the draws among ties
 * -------------------------------------------- */

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

/* ---- what is kept of the predictions
 * ----------------------------------------------------------------- */

static cst_status gather_block(cst_context *context, void *user, int64_t block) {
    greedy_state *s = user;
    const cst_view *view = s->view;
    int64_t first = cst_block_first(block);
    int64_t count = cst_block_size(view->rows, block);
    size_t width = (size_t)view->classes;
    float *scratch = cst_alloc(context, view->index ? (size_t)count * width : 0, sizeof *scratch);
    if (!scratch)
        return CST_ERROR_MEMORY;
    cst_status status = CST_OK;
    for (int32_t k = 0; status == CST_OK && k < view->members; k++) {
        const float *rows = cst_view_rows(view, k, first, count, scratch);
        size_t at = (size_t)k * (size_t)view->rows + (size_t)first;
        for (int64_t i = 0; i < count; i++) {
            const float *row = rows + (size_t)i * width;
            double sum = 0;
            for (size_t c = 0; c < width; c++)
                sum += (double)row[c];
            if (!(sum > 0) || !isfinite(sum))
                status = cst_fail(context, CST_ERROR_INPUT,
                                  "member %d sums to %g in row %lld: not a distribution", k, sum,
                                  (long long)(first + i));
            s->row_sum[at + (size_t)i] = sum;
            s->truth[at + (size_t)i] = row[cst_view_label(view, first + i)];
        }
    }
    cst_free(context, scratch);
    return status;
}

static void sum_range(greedy_state *s) {
    size_t cells = (size_t)s->view->members * (size_t)s->view->rows;
    double least = s->row_sum[0];
    double most = s->row_sum[0];
    for (size_t j = 1; j < cells; j++) {
        least = fmin(least, s->row_sum[j]);
        most = fmax(most, s->row_sum[j]);
    }
    s->sum_ratio = most / least;
}

/* Row sum of fl32(scale * p), each product rounded to float32 first. */
static double scaled_sum(const float *row, size_t width, float scale) {
    double sum = 0;
    for (size_t c = 0; c < width; c++) {
        float product = scale * row[c];
        sum += (double)product;
    }
    return sum;
}

/* mean = mean (s - 1)/s + last/s, the second quotient in float32. */
static cst_status fold_block(cst_context *context, void *user, int64_t block) {
    greedy_state *s = user;
    const cst_view *view = s->view;
    int64_t first = cst_block_first(block);
    int64_t count = cst_block_size(view->rows, block);
    size_t width = (size_t)view->classes;
    float *scratch = cst_alloc(context, view->index ? (size_t)count * width : 0, sizeof *scratch);
    if (!scratch)
        return CST_ERROR_MEMORY;
    const float *rows = cst_view_rows(view, s->last, first, count, scratch);
    double keep = (double)(s->size - 1) / (double)s->size;
    float size = (float)s->size;
    const float *truth = s->truth + (size_t)s->last * (size_t)view->rows + first;
    for (int64_t i = 0; i < count; i++) {
        double sum = 0;
        for (size_t c = 0; c < width; c++) {
            float quotient = rows[(size_t)i * width + c] / size;
            sum += (double)quotient;
        }
        float own = truth[i] / size;
        s->mean_truth[first + i] = s->mean_truth[first + i] * keep + (double)own;
        s->mean_sum[first + i] = s->mean_sum[first + i] * keep + sum;
    }
    cst_free(context, scratch);
    return CST_OK;
}

/* ---- the loss of every candidate
 * ------------------------------------------------------------------------ */

/* -sum log of `count` likelihoods in `ratio`, clipped. ratio has room up to a multiple of
 * CHAIN * LANES and is overwritten. */
static double chained_log(double *ratio, int64_t count) {
    double loss = 0;
    for (int64_t first = 0; first < count; first += CHAIN * LANES) {
        double product[LANES];
        for (int l = 0; l < LANES; l++)
            product[l] = 1;
        for (int64_t i = count; i < first + CHAIN * LANES; i++)
            ratio[i] = 1;
        for (int i = 0; i < CHAIN; i++)
            for (int l = 0; l < LANES; l++)
                product[l] *= ratio[first + i * LANES + l];
        for (int l = 0; l < LANES; l++)
            loss -= log(product[l]);
    }
    return loss;
}

static double clip(double ratio) {
    ratio = ratio < CLIP ? CLIP : ratio;
    return ratio > 1 - CLIP ? 1 - CLIP : ratio;
}

static cst_status loss_block(cst_context *context, void *user, int64_t block, double *sum) {
    const greedy_state *s = user;
    const cst_view *view = s->view;
    int64_t first = cst_block_first(block);
    int64_t count = cst_block_size(view->rows, block);
    size_t width = (size_t)view->classes;
    double ratio[CST_BLOCK_ROWS + CHAIN * LANES];
    size_t copied = s->exact && view->index ? (size_t)count * width : 0;
    float *scratch = cst_alloc(context, copied, sizeof *scratch);
    if (!scratch)
        return CST_ERROR_MEMORY;
    double keep = (double)s->size / (double)(s->size + 1);
    float share = (float)(1.0 / (double)(s->size + 1));
    for (int32_t k = 0; k < view->members; k++) {
        if (s->exact && !s->exact[k])
            continue;
        size_t at = (size_t)k * (size_t)view->rows + (size_t)first;
        const float *truth = s->truth + at;
        const double *row_sum = s->row_sum + at;
        const float *rows = s->exact ? cst_view_rows(view, k, first, count, scratch) : NULL;
        for (int64_t i = 0; i < count; i++) {
            float own = share * truth[i];
            double added = rows ? scaled_sum(rows + (size_t)i * width, width, share)
                                : (double)share * row_sum[i];
            ratio[i] = clip((keep * s->mean_truth[first + i] + (double)own) /
                            (keep * s->mean_sum[first + i] + added));
        }
        sum[k] = chained_log(ratio, count);
    }
    cst_free(context, scratch);
    return CST_OK;
}

static double rounded(double loss, bool rounding) {
    return rounding ? rint(loss * 1e6) / 1e6 : loss;
}

/* Marks the candidates whose fast loss, known up to `slack`, could be the least and could take more
 * than one value. */
static bool mark_doubtful(const greedy_state *s, const double *loss, double slack, bool *doubtful) {
    double least = INFINITY;
    bool any = false;
    for (int32_t k = 0; k < s->view->members; k++)
        least = fmin(least, rounded(loss[k] + slack, s->rounding));
    least += TIE * fabs(least);
    for (int32_t k = 0; k < s->view->members; k++) {
        double low = rounded(loss[k] - slack, s->rounding);
        doubtful[k] = low <= least && low != rounded(loss[k] + slack, s->rounding);
        any = any || doubtful[k];
    }
    return any;
}

/* loss: [members], rounded; scratch: [members] each. */
static cst_status losses(cst_context *context, greedy_state *s, double *loss, double *again,
                         bool *doubtful) {
    int64_t blocks = cst_block_count(s->view->rows);
    size_t members = (size_t)s->view->members;
    double rows = (double)s->view->rows;
    s->exact = NULL;
    cst_status status = cst_reduce_blocks(context, blocks, members, loss_block, s, loss);
    for (size_t k = 0; k < members; k++)
        loss[k] /= rows;
    int32_t parts = s->size + 1;
    bool products_exact = (parts & (parts - 1)) == 0;
    double slack = HALF_ULP * fmin(s->sum_ratio / (double)parts, 1) + 1e-15;
    if (status == CST_OK && !products_exact && mark_doubtful(s, loss, slack, doubtful)) {
        s->exact = doubtful;
        status = cst_reduce_blocks(context, blocks, members, loss_block, s, again);
        for (size_t k = 0; k < members; k++)
            if (doubtful[k])
                loss[k] = again[k] / rows;
    }
    for (size_t k = 0; k < members; k++)
        loss[k] = rounded(loss[k], s->rounding);
    return status;
}

/* ---- selection
 * --------------------------------------------------------------------------------------------- */

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

static cst_status select_rounds(cst_context *context, greedy_state *s, int32_t rounds,
                                uint32_t seed, cst_greedy *out) {
    int32_t members = s->view->members;
    int threads = cst_context_threads(context);
    double cells = (double)s->view->rows * (s->view->classes + 4.0 * members);
    cst_status status = CST_OK;
    double *loss = cst_alloc(context, (size_t)members, sizeof *loss);
    double *again = cst_alloc(context, (size_t)members, sizeof *again);
    bool *doubtful = cst_alloc(context, (size_t)members, sizeof *doubtful);
    bool *used = cst_alloc(context, (size_t)members, sizeof *used);
    int32_t *tied = cst_alloc(context, (size_t)members, sizeof *tied);
    mersenne *random = cst_alloc(context, 1, sizeof *random);
    if (!loss || !again || !doubtful || !used || !tied || !random) {
        status = CST_ERROR_MEMORY;
        goto cleanup;
    }
    mersenne_seed(random, seed);
    if (cells < SHARED_FROM)
        status = cst_context_set_threads(context, 1);
    if (members == 1)
        rounds = 1;
    for (int32_t i = 0; status == CST_OK && i < rounds; i++) {
        s->size = i;
        if (i > 0)
            status = cst_parallel_for(context, cst_block_count(s->view->rows), fold_block, s);
        if (status == CST_OK)
            status = losses(context, s, loss, again, doubtful);
        if (status != CST_OK)
            break;
        int32_t best = choose(loss, used, members, random, tied);
        if (i == 0)
            s->rounding = loss[best] > ROUNDING_FROM;
        out->order[i] = best;
        out->loss[i] = rounded(loss[best], s->rounding);
        used[best] = true;
        s->last = best;
    }
    if (status == CST_OK)
        cut(out, rounds, members);
    (void)cst_context_set_threads(context, threads); /* was valid before */
cleanup:
    cst_free(context, loss);
    cst_free(context, again);
    cst_free(context, doubtful);
    cst_free(context, used);
    cst_free(context, tied);
    cst_free(context, random);
    return status;
}

cst_status cst_greedy_select(cst_context *context, const cst_view *view, int32_t rounds,
                             uint32_t seed, cst_greedy *out) {
    *out = (cst_greedy){0};
    if (rounds < 1 || view->members < 1)
        return cst_fail(context, CST_ERROR_ARGUMENT,
                        "greedy selection over %d members in %d rounds: both must be at least 1",
                        view->members, rounds);
    if (view->rows < 1 || !view->labels)
        return cst_fail(context, CST_ERROR_INPUT, "greedy selection needs labelled rows");
    size_t rows = (size_t)view->rows;
    size_t cells = 0;
    if (!cst_size_mul((size_t)view->members, rows, &cells))
        return cst_fail(context, CST_ERROR_LIMIT, "%zu rows of %d members are too many", rows,
                        view->members);
    greedy_state s = {.view = view};
    s.truth = cst_alloc(context, cells, sizeof *s.truth);
    s.row_sum = cst_alloc(context, cells, sizeof *s.row_sum);
    s.mean_truth = cst_alloc(context, rows, sizeof *s.mean_truth);
    s.mean_sum = cst_alloc(context, rows, sizeof *s.mean_sum);
    out->order = cst_alloc(context, (size_t)rounds, sizeof *out->order);
    out->loss = cst_alloc(context, (size_t)rounds, sizeof *out->loss);
    out->weights = cst_alloc(context, (size_t)view->members, sizeof *out->weights);
    bool complete = s.truth && s.row_sum && s.mean_truth && s.mean_sum && out->order && out->loss &&
                    out->weights;
    cst_status status = complete ? CST_OK : CST_ERROR_MEMORY;
    if (status == CST_OK)
        status = cst_parallel_for(context, cst_block_count(view->rows), gather_block, &s);
    if (status == CST_OK) {
        sum_range(&s);
        status = select_rounds(context, &s, rounds, seed, out);
    }
    cst_free(context, s.truth);
    cst_free(context, s.row_sum);
    cst_free(context, s.mean_truth);
    cst_free(context, s.mean_sum);
    if (status != CST_OK)
        cst_greedy_free(context, out);
    return status;
}

void cst_greedy_free(cst_context *context, cst_greedy *greedy) {
    cst_free(context, greedy->order);
    cst_free(context, greedy->loss);
    cst_free(context, greedy->weights);
    *greedy = (cst_greedy){0};
}
