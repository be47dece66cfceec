/* Which rows of a new distribution to label: farthest-first in the space of the members' log
 * probabilities, distances weighted by the entropy of the members' average. */
#include "fit/adapt/adapt.h"
#include "model/kernels.h"

#include <corestack/adapt.h>
#include <math.h>
#include <string.h>

/* Mixed into each member, so that the smallest probabilities do not make up the distance. */
static const double MIX = 1e-2;

enum { MEMBERS_MAX = 32 }; /* that distances are measured with: more are thinned out evenly */

typedef struct space {
    const cst_view *view;
    int32_t members;
    size_t width;    /* members * classes */
    float *x;        /* [rows][width]: logs, those of a member around their mean */
    double *entropy; /* [rows] of the members' average */
    double *nearest; /* [rows]: squared distance to the nearest row picked */
    int64_t picked;
} space;

static int32_t member_at(const space *s, int32_t j) {
    return (int32_t)((int64_t)j * s->view->members / s->members);
}

static cst_status fill_block(cst_context *worker, void *user, int64_t block) {
    const space *s = user;
    size_t classes = (size_t)s->view->classes;
    int64_t first = cst_block_first(block);
    int64_t count = cst_block_size(s->view->rows, block);
    size_t cells = (size_t)count * classes;
    CST_SCOPE(scope);
    CST_NEW(worker, scope, float, scratch, cells);
    CST_NEW(worker, scope, double, z, cells);
    CST_NEW(worker, scope, double, average, cells);
    for (int32_t j = 0; j < s->members; j++) {
        const float *p = NULL;
        CST_TRY(cst_view_rows(worker, s->view, member_at(s, j), first, count, scratch, &p));
        memset(z, 0, cells * sizeof *z);
        cst_add_mixed_logs(p, (int64_t)cells, MIX, s->view->classes, 1, z);
        for (size_t i = 0; i < (size_t)count; i++) {
            float *to = s->x + ((size_t)first + i) * s->width + (size_t)j * classes;
            double mean = 0;
            for (size_t c = 0; c < classes; c++)
                mean += z[i * classes + c] / (double)classes;
            for (size_t c = 0; c < classes; c++) {
                to[c] = (float)(z[i * classes + c] - mean);
                average[i * classes + c] += (double)p[i * classes + c] / s->members;
            }
        }
    }
    for (size_t e = 0; e < cells; e++)
        s->entropy[(size_t)first + e / classes] -=
            average[e] > 0 ? average[e] * log(average[e]) : 0;
    return CST_OK;
}

/* Distances to the row that was picked last. */
static cst_status approach_block(cst_context *worker, void *user, int64_t block) {
    const space *s = user;
    int64_t first = cst_block_first(block);
    int64_t end = first + cst_block_size(s->view->rows, block);
    const float *to = s->x + (size_t)s->picked * s->width;
    (void)worker;
    for (int64_t i = first; i < end; i++) {
        const float *x = s->x + (size_t)i * s->width;
        double sum = 0;
        for (size_t j = 0; j < s->width; j++) {
            double off = (double)x[j] - (double)to[j];
            sum += off * off;
        }
        s->nearest[i] = i == s->picked ? -1 : fmin(s->nearest[i], sum);
    }
    return CST_OK;
}

/* The best row that was not picked; of equal ones the first. */
static int64_t best_of(const space *s, bool start) {
    int64_t best = -1;
    double most = -HUGE_VAL;
    for (int64_t i = 0; i < s->view->rows; i++) {
        /* Rows of no entropy come last, by distance. */
        double value = start ? s->entropy[i] : (fmax(s->entropy[i], 0) + 1e-12) * s->nearest[i];
        if (s->nearest[i] >= 0 && value > most) {
            most = value;
            best = i;
        }
    }
    return best;
}

static cst_status pick(cst_context *context, space *s, int64_t count, int64_t *rows) {
    for (int64_t n = 0; n < count; n++) {
        s->picked = best_of(s, n == 0);
        rows[n] = s->picked;
        CST_TRY(cst_parallel_for(context, cst_block_count(s->view->rows), approach_block, s));
    }
    return CST_OK;
}

static cst_status suggest(cst_context *context, const cst_model *model, cst_pool *pool,
                          const char *split, int64_t count, int64_t *rows) {
    cst_adapt_rows from;
    size_t cells = 0;
    CST_SCOPE(scope);
    CST_TRY(cst_adapt_rows_open(context, scope, model, pool, split, NULL, NULL, 0, false, &from));
    int64_t all = from.view.rows;
    space s = {.view = &from.view};
    s.members = from.view.members < MEMBERS_MAX ? from.view.members : MEMBERS_MAX;
    s.width = (size_t)s.members * (size_t)from.view.classes;
    if (count > all)
        return cst_fail(context, CST_ERROR_INPUT,
                        "split '%s' has %lld rows, so %lld cannot be picked", split, (long long)all,
                        (long long)count);
    if (!cst_size_mul((size_t)all, s.width, &cells))
        return cst_fail(context, CST_ERROR_LIMIT, "split '%s': %lld rows are too many", split,
                        (long long)all);
    CST_TAKE(context, scope, s.x, cells);
    CST_TAKE(context, scope, s.entropy, all);
    CST_TAKE(context, scope, s.nearest, all);
    for (int64_t i = 0; i < all; i++)
        s.nearest[i] = HUGE_VAL;
    CST_TRY(cst_parallel_for(context, cst_block_count(all), fill_block, &s));
    return pick(context, &s, count, rows);
}

cst_status cst_adapt_suggest(cst_context *context, const cst_model *model, cst_pool *pool,
                             const char *split, int64_t count, int64_t *rows) {
    CST_ENTER(context);
    if (!model || !pool || count < 1 || !rows)
        return cst_fail(context, CST_ERROR_ARGUMENT,
                        "cst_adapt_suggest: model, pool, count >= 1 and rows are required");
    return cst_why(context, suggest(context, model, pool, split ? split : "new", count, rows));
}
