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
#include "blend/greedy_rounds.h"

#include <math.h>

/* Rows whose likelihoods are multiplied before one logarithm is taken: a product of so many
 * factors >= 2^-52 does not underflow. */
enum { CHAIN = 16, LANES = 16 };

static const double CLIP = 0x1p-52;     /* float64 epsilon, as scikit-learn clips */
static const double HALF_ULP = 0x1p-24; /* relative rounding error of a float32 product */

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
    double *again;  /* [members] scratch */
    bool *doubtful; /* [members] */
} greedy_state;

/* ---- what is kept of the predictions
 * ----------------------------------------------------------------- */

static cst_status gather_block(cst_context *context, void *user, int64_t block) {
    greedy_state *s = user;
    const cst_view *view = s->view;
    int64_t first = cst_block_first(block);
    int64_t count = cst_block_size(view->rows, block);
    size_t width = (size_t)view->classes;
    float *scratch =
        cst_alloc(context, cst_view_copies(view) ? (size_t)count * width : 0, sizeof *scratch);
    if (!scratch)
        return CST_ERROR_MEMORY;
    cst_status status = CST_OK;
    for (int32_t k = 0; status == CST_OK && k < view->members; k++) {
        const float *rows = NULL;
        status = cst_view_rows(context, view, k, first, count, scratch, &rows);
        size_t at = (size_t)k * (size_t)view->rows + (size_t)first;
        for (int64_t i = 0; status == CST_OK && i < count; i++) {
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
    float *scratch =
        cst_alloc(context, cst_view_copies(view) ? (size_t)count * width : 0, sizeof *scratch);
    if (!scratch)
        return CST_ERROR_MEMORY;
    const float *rows = NULL;
    cst_status status = cst_view_rows(context, view, s->last, first, count, scratch, &rows);
    double keep = (double)(s->size - 1) / (double)s->size;
    float size = (float)s->size;
    const float *truth = s->truth + (size_t)s->last * (size_t)view->rows + first;
    for (int64_t i = 0; status == CST_OK && i < count; i++) {
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
    return status;
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
    size_t copied = s->exact && cst_view_copies(view) ? (size_t)count * width : 0;
    float *scratch = cst_alloc(context, copied, sizeof *scratch);
    if (!scratch)
        return CST_ERROR_MEMORY;
    double keep = (double)s->size / (double)(s->size + 1);
    float share = (float)(1.0 / (double)(s->size + 1));
    cst_status status = CST_OK;
    for (int32_t k = 0; status == CST_OK && k < view->members; k++) {
        if (s->exact && !s->exact[k])
            continue;
        size_t at = (size_t)k * (size_t)view->rows + (size_t)first;
        const float *truth = s->truth + at;
        const double *row_sum = s->row_sum + at;
        const float *rows = NULL;
        if (s->exact)
            status = cst_view_rows(context, view, k, first, count, scratch, &rows);
        for (int64_t i = 0; status == CST_OK && i < count; i++) {
            float own = share * truth[i];
            double added = rows ? scaled_sum(rows + (size_t)i * width, width, share)
                                : (double)share * row_sum[i];
            ratio[i] = clip((keep * s->mean_truth[first + i] + (double)own) /
                            (keep * s->mean_sum[first + i] + added));
        }
        sum[k] = chained_log(ratio, count);
    }
    cst_free(context, scratch);
    return status;
}

/* Marks the candidates whose fast loss, known up to `slack`, could be the least and could take more
 * than one value. */
static bool mark_doubtful(const greedy_state *s, const double *loss, double slack, bool *doubtful) {
    double least = INFINITY;
    bool any = false;
    for (int32_t k = 0; k < s->view->members; k++)
        least = fmin(least, cst_greedy_rounded(loss[k] + slack, s->rounding));
    least += CST_GREEDY_TIE * fabs(least);
    for (int32_t k = 0; k < s->view->members; k++) {
        double low = cst_greedy_rounded(loss[k] - slack, s->rounding);
        doubtful[k] = low <= least && low != cst_greedy_rounded(loss[k] + slack, s->rounding);
        any = any || doubtful[k];
    }
    return any;
}

/* A cst_greedy_losses_fn: losses of all candidates, those in doubt from all columns. */
static cst_status losses(cst_context *context, void *user, int32_t size, int32_t last,
                         bool rounding, double *loss) {
    greedy_state *s = user;
    int64_t blocks = cst_block_count(s->view->rows);
    size_t members = (size_t)s->view->members;
    double rows = (double)s->view->rows;
    cst_status status = CST_OK;
    s->size = size;
    s->last = last;
    s->rounding = rounding;
    s->exact = NULL;
    if (size > 0)
        status = cst_parallel_for(context, blocks, fold_block, s);
    if (status == CST_OK)
        status = cst_reduce_blocks(context, blocks, members, loss_block, s, loss);
    for (size_t k = 0; k < members; k++)
        loss[k] /= rows;
    int32_t parts = size + 1;
    bool products_exact = (parts & (parts - 1)) == 0;
    double slack = HALF_ULP * fmin(s->sum_ratio / (double)parts, 1) + 1e-15;
    if (status == CST_OK && !products_exact && mark_doubtful(s, loss, slack, s->doubtful)) {
        s->exact = s->doubtful;
        status = cst_reduce_blocks(context, blocks, members, loss_block, s, s->again);
        for (size_t k = 0; k < members; k++)
            if (s->doubtful[k])
                loss[k] = s->again[k] / rows;
    }
    for (size_t k = 0; k < members; k++)
        loss[k] = cst_greedy_rounded(loss[k], rounding);
    return status;
}

cst_status cst_greedy_select(cst_context *context, const cst_view *view, int32_t rounds,
                             uint32_t seed, cst_greedy *out) {
    *out = (cst_greedy){0};
    cst_status status = cst_greedy_check(context, view, rounds);
    if (status != CST_OK)
        return status;
    size_t rows = (size_t)view->rows;
    size_t members = (size_t)view->members;
    size_t cells = 0;
    if (!cst_size_mul(members, rows, &cells))
        return cst_fail(context, CST_ERROR_LIMIT, "%zu rows of %d members are too many", rows,
                        view->members);
    greedy_state s = {.view = view};
    s.truth = cst_alloc(context, cells, sizeof *s.truth);
    s.row_sum = cst_alloc(context, cells, sizeof *s.row_sum);
    s.mean_truth = cst_alloc(context, rows, sizeof *s.mean_truth);
    s.mean_sum = cst_alloc(context, rows, sizeof *s.mean_sum);
    s.again = cst_alloc(context, members, sizeof *s.again);
    s.doubtful = cst_alloc(context, members, sizeof *s.doubtful);
    bool complete = s.truth && s.row_sum && s.mean_truth && s.mean_sum && s.again && s.doubtful;
    status = complete ? cst_parallel_for(context, cst_block_count(view->rows), gather_block, &s)
                      : CST_ERROR_MEMORY;
    if (status == CST_OK) {
        sum_range(&s);
        double work = (double)rows * (view->classes + 4.0 * view->members);
        status = cst_greedy_run(context, view, rounds, seed, work, losses, &s, out);
    }
    cst_free(context, s.truth);
    cst_free(context, s.row_sum);
    cst_free(context, s.mean_truth);
    cst_free(context, s.mean_sum);
    cst_free(context, s.again);
    cst_free(context, s.doubtful);
    return status;
}
