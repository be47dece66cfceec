/* Split conformal sets: scores, quantiles, sets and their figures. docs/bounds.md#the-bounds. */
#include "stats/conformal.h"

#include "stats/samples.h"
#include "stats/statistics.h"

#include <corestack/bound.h>
#include <float.h>
#include <math.h>

cst_conformal_options cst_conformal_defaults(void) {
    return (cst_conformal_options){.method = CST_CONFORMAL_LAC,
                                   .alpha = 0.1,
                                   .randomised = true,
                                   .penalty = 0.01,
                                   .free_classes = 5};
}

void cst_conformal_row(const cst_conformal_options *options, const float *row, int32_t classes,
                       double u, double *values, cst_rank_item *scratch, double *scores) {
    if (options->method == CST_CONFORMAL_LAC) {
        for (int32_t c = 0; c < classes; c++)
            scores[c] = 1 - (double)row[c];
        return;
    }
    for (int32_t c = 0; c < classes; c++)
        values[c] = -(double)row[c];
    cst_rank_sort(values, classes, scratch);
    double before = 0;
    for (int32_t place = 0; place < classes; place++) {
        double p = -scratch[place].value;
        double score = before + u * p;
        if (options->method == CST_CONFORMAL_RAPS && place + 1 > options->free_classes)
            score += options->penalty * (place + 1 - options->free_classes);
        scores[scratch[place].index] = score;
        before += p;
    }
}

/* u of the rows of a block: a stream for each, and others for calibration than for sets. */
enum { OF_CALIBRATION = 0, OF_SETS = 1, ROLES = 2 };

static void start_draws(const cst_conformal_options *options, int64_t block, int role,
                        cst_rng *rng) {
    uint64_t stream = (uint64_t)block * ROLES + (uint64_t)role;
    cst_rng_init(rng, options->seed + (stream >> 32), CST_STREAM_CONFORMAL, (uint32_t)stream);
}

/* A pass; results that it does not need are NULL. */
typedef struct pass {
    const cst_conformal_options *options;
    const cst_conformal *conformal; /* sets and figures */
    const float *probabilities;
    int64_t rows;
    int32_t classes;
    const int32_t *labels;
    int role;
    double *scores; /* [rows], of the labels */
} pass;

enum { COVERED, SIZE, EMPTY, SINGLE, FIGURES };

static void put_set(const pass *p, int64_t i, const double *scores, double *figures) {
    int32_t size = 0;
    for (int32_t c = 0; c < p->classes; c++) {
        bool in = scores[c] <= p->conformal->threshold;
        size += in;
        if (in && p->labels && p->labels[i] == c)
            figures[COVERED] += 1;
    }
    figures[SIZE] += size;
    figures[EMPTY] += size == 0;
    figures[SINGLE] += size == 1;
}

static cst_status check_row(cst_context *context, const pass *p, int64_t i) {
    if (p->labels && (p->labels[i] < 0 || p->labels[i] >= p->classes))
        return cst_fail(context, CST_ERROR_INPUT,
                        "conformal sets: the label of row %lld is %d; classes are 0 to %d",
                        (long long)i, p->labels[i], p->classes - 1);
    return cst_distribution_check(context, p->probabilities + i * p->classes, p->classes, i);
}

static cst_status pass_block(cst_context *context, void *user, int64_t block, double *figures) {
    const pass *p = user;
    size_t classes = (size_t)p->classes;
    CST_SCOPE(scope);
    CST_NEW(context, scope, double, values, classes);
    CST_NEW(context, scope, double, scores, classes);
    CST_NEW(context, scope, cst_rank_item, ranked, classes);
    int64_t first = cst_block_first(block);
    int64_t end = first + cst_block_size(p->rows, block);
    cst_rng rng;
    start_draws(p->options, block, p->role, &rng);
    for (int64_t i = first; i < end; i++) {
        double u = p->options->randomised ? cst_rng_uniform(&rng) : 1;
        CST_TRY(check_row(context, p, i));
        cst_conformal_row(p->options, p->probabilities + i * p->classes, p->classes, u, values,
                          ranked, scores);
        if (p->scores)
            p->scores[i] = scores[p->labels[i]];
        else
            put_set(p, i, scores, figures);
    }
    return CST_OK;
}

static cst_status run(cst_context *context, pass *p, double *figures) {
    if (p->rows < 1 || p->classes < 1)
        return cst_fail(context, CST_ERROR_ARGUMENT,
                        "conformal sets need at least one row and one class");
    cst_share filled = {0};
    if (p->scores)
        filled = cst_share_rows(p->scores, p->rows, sizeof *p->scores);
    return cst_reduce_fill(context, cst_block_count(p->rows), FIGURES, pass_block, p, figures,
                           &filled, p->scores != NULL);
}

int64_t cst_conformal_order(int64_t samples, double alpha) {
    /* n + 1 - floor((n + 1) alpha); alpha is a decimal that was rounded */
    double misses = floor(((double)samples + 1) * alpha * (1 + 4 * DBL_EPSILON));
    int64_t order = samples + 1 - (int64_t)misses;
    return order < 1 ? 1 : order; /* alpha next to 1: (n + 1) alpha is rounded to n + 1 */
}

void cst_conformal_tell(cst_context *context, int64_t samples, double alpha) {
    if (cst_conformal_order(samples, alpha) > samples)
        cst_notice(
            context,
            "prediction sets with alpha %g need at least %.0f rows for their calibration, and "
            "there are %lld, so every set holds every class",
            alpha, ceil((1 - alpha) / alpha * (1 - 1e-9)), (long long)samples);
}

cst_status cst_conformal_calibrate(cst_context *context, const cst_conformal_options *options,
                                   const float *probabilities, int64_t rows, int32_t classes,
                                   const int32_t *labels, cst_conformal *out) {
    double figures[FIGURES];
    *out = (cst_conformal){.options = *options, .samples = rows, .threshold = INFINITY};
    CST_SCOPE(scope);
    CST_NEW(context, scope, double, scores, rows > 0 ? rows : 0);
    CST_NEW(context, scope, cst_rank_item, sorted, rows > 0 ? rows : 0);
    pass p = {.options = options,
              .probabilities = probabilities,
              .rows = rows,
              .classes = classes,
              .labels = labels,
              .role = OF_CALIBRATION,
              .scores = scores};
    CST_TRY(run(context, &p, figures));
    out->order = cst_conformal_order(rows, options->alpha);
    CST_TRY(cst_rank_sort_rows(context, scores, rows, sorted));
    if (out->order <= rows)
        out->threshold = sorted[out->order - 1].value;
    return CST_OK;
}

double cst_conformal_assured(const cst_conformal *conformal, double delta) {
    return conformal->order > conformal->samples
               ? 1
               : cst_binomial_lower(conformal->order, conformal->samples, delta);
}

cst_status cst_conformal_evaluate(cst_context *context, const cst_conformal *conformal,
                                  const float *probabilities, int64_t rows, int32_t classes,
                                  const int32_t *labels, cst_conformal_result *out) {
    double figures[FIGURES] = {0};
    pass p = {.options = &conformal->options,
              .conformal = conformal,
              .probabilities = probabilities,
              .rows = rows,
              .classes = classes,
              .labels = labels,
              .role = OF_SETS};
    cst_status status = run(context, &p, figures);
    double n = (double)rows;
    *out = (cst_conformal_result){.coverage = figures[COVERED] / n,
                                  .mean_size = figures[SIZE] / n,
                                  .covered = (int64_t)figures[COVERED],
                                  .empty = (int64_t)figures[EMPTY],
                                  .single = (int64_t)figures[SINGLE]};
    return status;
}

/* Of a part's scores [count], sorted: costs by their index. */
static double least_threshold(const cst_conformal_rows *rows, const cst_rank_item *sorted,
                              int64_t count, double level) {
    /* level is a decimal that was rounded, as in cst_conformal_order */
    double allowed = ((double)count + 1) * level * (1 + 4 * DBL_EPSILON);
    double spent = rows->most;
    double threshold = INFINITY;
    for (int64_t i = count - 1; spent <= allowed; i--) {
        threshold = i < 0 ? -INFINITY : sorted[i].value;
        if (i < 0)
            break;
        spent += rows->costs ? rows->costs[sorted[i].index] : 1;
        for (; i > 0 && sorted[i - 1].value >= threshold;
             i--) /* equal scores are missed together */
            spent += rows->costs ? rows->costs[sorted[i - 1].index] : 1;
    }
    return threshold;
}

cst_status cst_conformal_by_parts(cst_context *context, const cst_conformal_rows *rows,
                                  double level, double *threshold) {
    int64_t count = rows->rows > 0 ? rows->rows : 0;
    size_t parts = (size_t)rows->part_count;
    CST_SCOPE(scope);
    CST_NEW(context, scope, cst_rank_item, sorted, count);
    CST_NEW(context, scope, cst_rank_item, dealt, count);
    CST_NEW(context, scope, int64_t, end, parts + 1); /* of the parts before, then of each */
    CST_TRY(cst_rank_sort_rows(context, rows->scores, count, sorted));
    for (int64_t i = 0; i < count; i++)
        if (!rows->parts || rows->parts[i] >= 0)
            end[(rows->parts ? rows->parts[i] : 0) + 1]++;
    for (size_t part = 1; part <= parts; part++)
        end[part] += end[part - 1];
    for (int64_t i = 0; i < count; i++) {
        int32_t part = rows->parts ? rows->parts[sorted[i].index] : 0;
        if (part >= 0)
            dealt[end[part]++] = sorted[i];
    }
    for (size_t part = 0; part < parts; part++) {
        int64_t first = part > 0 ? end[part - 1] : 0;
        threshold[part] = least_threshold(rows, dealt + first, end[part] - first, level);
    }
    return CST_OK;
}

cst_status cst_conformal_thresholds(cst_context *context, const double *scores, const double *costs,
                                    const int32_t *parts, int64_t rows, int64_t part_count,
                                    double level, double most, double *thresholds) {
    CST_ENTER(context);
    CST_NEED(context, scores && thresholds, "scores and thresholds are required");
    CST_FITS(context, rows, 1, sizeof *scores);
    CST_COUNT(context, count, part_count);
    const cst_conformal_rows given = {rows, scores, costs, costs ? most : 1, parts, count};
    if (rows < 1 || count < 1 || !(level > 0) || !(given.most >= 0 && isfinite(given.most)) ||
        (!costs && level >= 1))
        return cst_fail(context, CST_ERROR_ARGUMENT,
                        "cst_conformal_thresholds: needs rows, parts and a level above 0, without "
                        "costs also below 1");
    for (int64_t i = 0; i < rows; i++) {
        if (isnan(scores[i]))
            return cst_fail(context, CST_ERROR_INPUT, "the score of row %lld is NaN", (long long)i);
        if (costs && !(costs[i] >= 0 && costs[i] <= most))
            return cst_fail(context, CST_ERROR_INPUT,
                            "the cost of row %lld is %g, not between 0 and the largest, %g",
                            (long long)i, costs[i], most);
        if (parts && parts[i] >= count)
            return cst_fail(context, CST_ERROR_INPUT, "row %lld is in part %d of %d", (long long)i,
                            (int)parts[i], (int)count);
    }
    return cst_why(context, cst_conformal_by_parts(context, &given, level, thresholds));
}

cst_status cst_weighted_scores_make(cst_context *context, cst_scope *scope, const double *scores,
                                    const double *weights, int64_t samples,
                                    cst_weighted_scores *out) {
    CST_SCOPE(own);
    int64_t count = samples > 0 ? samples : 0;
    *out = (cst_weighted_scores){.samples = samples};
    CST_TAKE(context, scope, out->score, count);
    CST_TAKE(context, scope, out->sum, count);
    CST_NEW(context, own, cst_rank_item, sorted, count);
    CST_TRY(cst_rank_sort_rows(context, scores, samples, sorted));
    double squares = 0;
    for (int64_t i = 0; i < samples; i++) {
        double weight = weights[sorted[i].index];
        out->score[i] = sorted[i].value;
        out->total += weight;
        out->sum[i] = out->total;
        squares += weight * weight;
    }
    out->effective = squares > 0 ? out->total * out->total / squares : 0;
    return CST_OK;
}

double cst_weighted_threshold(const cst_weighted_scores *scores, double alpha, double own) {
    /* alpha is a decimal that was rounded: sums that should be equal are not taken as less */
    double needed = (1 - alpha) * (scores->total + own) * (1 - 64 * DBL_EPSILON);
    int64_t low = 0;
    int64_t high = scores->samples;
    if (!(scores->total > 0))
        return INFINITY;
    while (low < high) {
        int64_t middle = low + (high - low) / 2;
        if (scores->sum[middle] < needed)
            low = middle + 1;
        else
            high = middle;
    }
    return low < scores->samples ? scores->score[low] : INFINITY;
}

double cst_density_at(const double *levels, const double *density, int64_t rows, double level) {
    int64_t low = 0;
    int64_t high = rows;
    while (low < high) {
        int64_t middle = low + (high - low) / 2;
        if (levels[middle] < level)
            low = middle + 1;
        else
            high = middle;
    }
    return low < rows ? density[low] : 0;
}
