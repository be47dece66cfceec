/*
 * What the monitor measures of rows: entropies, disagreement, confidence, classes.
 * After a fit; also of the rows of the fit. model/shift/watch.h.
 */
#include "model/shift/parts.h"
#include "model/shift/watch.h"

#include <math.h>

/* Members that cst_novelty_measure gives the entropies of at a time; probabilities that are added
 * up at a time. */
enum { LOGS = 32, TILE_CELLS = 4096 };

typedef struct job {
    const cst_view *view;
    int32_t groups;
    const int32_t *group_of;
    cst_watch_rows *out;
} job;

/* Room of one block. */
typedef struct scratch {
    int64_t tile;   /* rows that are added up at a time */
    float *copy;    /* [tile][classes], where rows have to be copied */
    double *sum;    /* [tile][classes] */
    int32_t *count; /* [rows]: members that predicted the row */
    double *log;    /* [rows]: sums over the members of log(H + 1e-3) */
    double *log2;   /* [rows]: of its square */
    cst_novelty_rows novelty;
} scratch;

static void scratch_free(cst_context *worker, scratch *s) {
    cst_free(worker, s->copy);
    cst_free(worker, s->sum);
    cst_free(worker, s->count);
    cst_free(worker, s->log);
    cst_free(worker, s->log2);
    cst_novelty_rows_free(worker, &s->novelty);
}

static cst_status scratch_alloc(cst_context *worker, const cst_view *view, int64_t rows,
                                scratch *s) {
    int64_t most = TILE_CELLS / view->classes;
    s->tile = most < 1 ? 1 : most < rows ? most : rows;
    size_t cells = (size_t)s->tile * (size_t)view->classes;
    s->copy = cst_alloc(worker, cst_view_copies(view) ? cells : 0, sizeof *s->copy);
    s->sum = cst_alloc(worker, cells, sizeof *s->sum);
    s->count = cst_alloc(worker, (size_t)rows, sizeof *s->count);
    s->log = cst_alloc(worker, (size_t)rows, sizeof *s->log);
    s->log2 = cst_alloc(worker, (size_t)rows, sizeof *s->log2);
    if (!s->copy || !s->sum || !s->count || !s->log || !s->log2)
        return CST_ERROR_MEMORY;
    return cst_novelty_rows_alloc(worker, rows, view->members < LOGS ? view->members : LOGS,
                                  &s->novelty);
}

static int32_t largest(const float *row, int32_t classes) {
    int32_t best = 0;
    for (int32_t c = 1; c < classes; c++)
        if (row[c] > row[best])
            best = c;
    return best;
}

void cst_watch_stack(cst_watch_rows *rows, const float *stack, int64_t first, int64_t count,
                     int32_t classes) {
    for (int64_t i = first; i < first + count; i++, stack += classes) {
        double entropy = 0;
        for (int32_t c = 0; c < classes; c++)
            if (stack[c] > 0)
                entropy -= (double)stack[c] * log((double)stack[c]);
        rows->class[i] = largest(stack, classes);
        rows->confidence[i] = stack[rows->class[i]];
        rows->doubt[i] = entropy;
    }
}

/* Sums of what the stack predicts of a block. */
static void sum_stack(const job *j, int64_t first, int64_t count, double *sum) {
    int32_t members = j->view->members;
    for (int64_t i = first; i < first + count; i++) {
        double entropy = j->out->doubt[i];
        j->out->statistic[i * CST_WATCH_STATISTICS + CST_WATCH_DOUBT] = (float)entropy;
        sum[members] += entropy;
        sum[2 * members + 1] += entropy * entropy;
    }
}

/* A member's classes in rows at..at+count-1. there: [count]. */
static cst_status add_classes(cst_context *worker, const job *j, int32_t k, int64_t at,
                              int64_t count, int32_t *there, scratch *s, double *sum) {
    const cst_view *view = j->view;
    const uint8_t *present = cst_view_present(view, k);
    const float *rows = NULL;
    double *predicted = sum + 2 * (size_t)view->members + 2;
    double *apart = predicted + view->members;
    double *shares = apart + view->members;
    if (!view->data[k])
        return CST_OK;
    cst_status status = cst_view_rows(worker, view, k, at, count, s->copy, &rows);
    if (status != CST_OK)
        return status;
    for (int64_t i = 0; i < count; i++) {
        if (!cst_view_is_there(view, present, at + i))
            continue;
        const float *row = rows + i * view->classes;
        int32_t class = largest(row, view->classes);
        for (int32_t c = 0; c < view->classes; c++)
            s->sum[i * view->classes + c] += (double)row[c];
        there[i]++;
        predicted[k]++;
        apart[k] += class != j->out->class[at + i];
        shares[k * j->groups + j->group_of[class]]++;
    }
    return CST_OK;
}

/* The members' classes, and the confidence of their average. */
static cst_status measure_classes(cst_context *worker, const job *j, int64_t first, int64_t count,
                                  scratch *s, double *sum) {
    int32_t classes = j->view->classes;
    cst_status status = CST_OK;
    for (int64_t at = 0; status == CST_OK && at < count; at += s->tile) {
        int64_t rows = count - at < s->tile ? count - at : s->tile;
        memset(s->sum, 0, (size_t)(rows * classes) * sizeof *s->sum);
        for (int32_t k = 0; status == CST_OK && k < j->view->members; k++)
            status = add_classes(worker, j, k, first + at, rows, s->count + at, s, sum);
        for (int64_t i = 0; status == CST_OK && i < rows; i++) {
            double best = 0;
            for (int32_t c = 0; c < classes; c++)
                best = s->sum[i * classes + c] > best ? s->sum[i * classes + c] : best;
            int32_t there = s->count[at + i];
            j->out->average[first + at + i] = there > 0 ? (float)(best / there) : 0;
        }
    }
    return status;
}

/* Entropies of the members from..from+size-1, and the spread of all. */
static cst_status measure_entropies(cst_context *worker, const job *j, int32_t from, int32_t size,
                                    int64_t first, int64_t count, scratch *s, double *sum) {
    const cst_view *view = j->view;
    int32_t place[LOGS];
    for (int32_t l = 0; l < size; l++)
        place[l] = from + l;
    cst_status status = cst_novelty_measure(worker, view, place, size, first, count, &s->novelty);
    for (int64_t i = 0; status == CST_OK && i < count; i++)
        for (int32_t l = 0; l < size; l++) {
            double value = (double)s->novelty.logs[i * size + l];
            double entropy = exp(value) - 1e-3;
            if (!(s->novelty.there[i] >> l & 1))
                continue;
            entropy = entropy > 0 ? entropy : 0;
            sum[from + l] += entropy;
            sum[view->members + 1 + from + l] += entropy * entropy;
            s->log[i] += value;
            s->log2[i] += value * value;
        }
    return status;
}

static void finish_rows(const job *j, int64_t first, int64_t count, const scratch *s, double *sum) {
    int32_t members = j->view->members;
    double *shares = sum + 4 * (size_t)members + 2 + (size_t)members * (size_t)j->groups;
    for (int64_t i = 0; i < count; i++) {
        float *statistic = j->out->statistic + (first + i) * CST_WATCH_STATISTICS;
        double mean = s->log[i] / members;
        double variance = s->log2[i] / members - mean * mean;
        j->out->usable[first + i] = s->count[i] == members;
        if (s->count[i] == members)
            shares[j->group_of[j->out->class[first + i]]]++;
        statistic[CST_WATCH_SPREAD] = s->novelty.spread[i];
        statistic[CST_WATCH_ALIKE] = variance > 1e-12 ? (float)-sqrt(variance) : 0;
    }
}

static cst_status measure_block(cst_context *worker, void *user, int64_t block, double *sum) {
    const job *j = user;
    const cst_view *view = j->view;
    int64_t first = cst_block_first(block);
    int64_t count = cst_block_size(view->rows, block);
    scratch s = {0};
    cst_status status = scratch_alloc(worker, view, count, &s);
    if (status == CST_OK)
        sum_stack(j, first, count, sum);
    CST_THEN(measure_classes(worker, j, first, count, &s, sum));
    for (int32_t k = 0; status == CST_OK && k < view->members; k += LOGS)
        status =
            measure_entropies(worker, j, k, view->members - k < LOGS ? view->members - k : LOGS,
                              first, count, &s, sum);
    if (status == CST_OK)
        finish_rows(j, first, count, &s, sum);
    scratch_free(worker, &s);
    return status;
}

void cst_watch_rows_free(cst_context *context, cst_watch_rows *rows) {
    cst_free(context, rows->usable);
    cst_free(context, rows->class);
    cst_free(context, rows->doubt);
    cst_free(context, rows->statistic);
    cst_free(context, rows->confidence);
    cst_free(context, rows->average);
    cst_free(context, rows->entropy);
    cst_free(context, rows->squares);
    cst_free(context, rows->predicted);
    cst_free(context, rows->apart);
    cst_free(context, rows->share);
    *rows = (cst_watch_rows){0};
}

cst_status cst_watch_rows_alloc(cst_context *context, const cst_view *kept, cst_watch_rows *out) {
    size_t rows = (size_t)kept->rows;
    size_t members = (size_t)kept->members;
    *out = (cst_watch_rows){.rows = kept->rows};
    out->usable = cst_alloc(context, rows, sizeof *out->usable);
    out->class = cst_alloc(context, rows, sizeof *out->class);
    out->doubt = cst_alloc(context, rows, sizeof *out->doubt);
    out->statistic = cst_alloc(context, rows * CST_WATCH_STATISTICS, sizeof *out->statistic);
    out->confidence = cst_alloc(context, rows, sizeof *out->confidence);
    out->average = cst_alloc(context, rows, sizeof *out->average);
    out->entropy = cst_alloc(context, members + 1, sizeof *out->entropy);
    out->squares = cst_alloc(context, members + 1, sizeof *out->squares);
    out->predicted = cst_alloc(context, members, sizeof *out->predicted);
    out->apart = cst_alloc(context, members, sizeof *out->apart);
    return out->usable && out->class && out->doubt && out->statistic && out->confidence &&
                   out->average && out->entropy && out->squares && out->predicted && out->apart
               ? CST_OK
               : CST_ERROR_MEMORY;
}

cst_status cst_watch_measure(cst_context *context, const cst_view *kept, int32_t groups,
                             const int32_t *group_of, cst_watch_rows *rows) {
    size_t members = (size_t)kept->members;
    size_t shares = (members + 1) * (size_t)groups;
    size_t width = 4 * members + 2 + shares;
    job j = {.view = kept, .groups = groups, .group_of = group_of, .out = rows};
    double *sum = cst_alloc(context, width, sizeof *sum);
    rows->share = cst_alloc(context, shares, sizeof *rows->share);
    cst_status status = sum && rows->share ? CST_OK : CST_ERROR_MEMORY;
    const cst_share filled[] = {
        cst_share_rows(rows->usable, kept->rows, sizeof *rows->usable),
        cst_share_rows(rows->class, kept->rows, sizeof *rows->class),
        cst_share_rows(rows->doubt, kept->rows, sizeof *rows->doubt),
        cst_share_rows(rows->statistic, kept->rows, CST_WATCH_STATISTICS * sizeof(float)),
        cst_share_rows(rows->confidence, kept->rows, sizeof *rows->confidence),
        cst_share_rows(rows->average, kept->rows, sizeof *rows->average)};
    CST_THEN(cst_reduce_fill(context, cst_block_count(kept->rows), width, measure_block, &j, sum,
                             filled, (int32_t)(sizeof filled / sizeof *filled)));
    if (status == CST_OK) {
        const double *counts = sum + 2 * members + 2;
        memcpy(rows->entropy, sum, (members + 1) * sizeof *sum);
        memcpy(rows->squares, sum + members + 1, (members + 1) * sizeof *sum);
        for (size_t k = 0; k < members; k++) {
            rows->predicted[k] = (int64_t)counts[k];
            rows->apart[k] = (int64_t)counts[members + k];
        }
        for (size_t e = 0; e < shares; e++)
            rows->share[e] = (int64_t)counts[2 * members + e];
        for (int64_t i = 0; i < kept->rows; i++)
            rows->whole += rows->usable[i];
    }
    cst_free(context, sum);
    return status;
}
