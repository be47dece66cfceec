/* A fit's summary of its rows for the monitor: thresholds of statistics by the predicted class,
 * cuts of the confidence, entropies, classes and disagreement of the members. */
#include "model/shift/gauge.h"

#include "model/shift/parts.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Members that cst_novelty_measure gives the entropies of at a time; probabilities that are added
 * up at a time. */
enum { LOGS = 32, TILE_CELLS = 4096 };

const double cst_gauge_level[CST_GAUGE_BINS] = {0.005, 0.01, 0.02, 0.04, 0.08, 0.15,
                                                0.25,  0.4,  0.6,  0.8,  1};

cst_status cst_gauge_alloc(cst_context *context, cst_scope *scope, const cst_gauge *sizes,
                           cst_gauge **out) {
    int32_t tables = sizes->tables;
    int32_t groups = sizes->groups;
    int32_t members = sizes->members;
    *out = NULL;
    CST_NEW(context, scope, cst_gauge, gauge, 1);
    *gauge = (cst_gauge){
        .classes = sizes->classes, .members = members, .tables = tables, .groups = groups};
    CST_TAKE(context, scope, gauge->table_class, tables - 1);
    CST_TAKE(context, scope, gauge->table_rows, tables);
    CST_TAKE(context, scope, gauge->edge, tables * CST_GAUGE_STATISTICS * CST_GAUGE_EDGES);
    CST_TAKE(context, scope, gauge->group_class, groups - 1);
    CST_TAKE(context, scope, gauge->entropy, members + 1);
    CST_TAKE(context, scope, gauge->deviation, members + 1);
    CST_TAKE(context, scope, gauge->predicted, members);
    CST_TAKE(context, scope, gauge->apart, members);
    CST_TAKE(context, scope, gauge->share, ((int64_t)members + 1) * groups);
    *out = gauge;
    return CST_OK;
}

void cst_gauge_place(const cst_gauge *gauge, int32_t *table_of, int32_t *group_of) {
    for (int32_t c = 0; c < gauge->classes; c++) {
        table_of[c] = 0;
        group_of[c] = gauge->groups - 1;
    }
    for (int32_t t = 1; t < gauge->tables; t++)
        table_of[gauge->table_class[t - 1]] = t;
    for (int32_t g = 0; g < gauge->groups - 1; g++)
        group_of[gauge->group_class[g]] = g;
}

int cst_gauge_bin(const cst_gauge *gauge, int32_t table, int statistic, float value) {
    const float *edge =
        gauge->edge + ((size_t)table * CST_GAUGE_STATISTICS + (size_t)statistic) * CST_GAUGE_EDGES;
    int bin = 0;
    while (bin < CST_GAUGE_EDGES && !(value > edge[bin]))
        bin++;
    return bin;
}

double cst_gauge_above(const cst_gauge_cut *cut, const float *confidence, int64_t rows) {
    double above = 0;
    for (int64_t i = 0; i < rows; i++)
        above += (double)confidence[i] > cut->threshold    ? 1
                 : (double)confidence[i] == cut->threshold ? cut->share
                                                           : 0;
    return rows > 0 ? above / (double)rows : 0;
}

/* ---- what is measured of rows ---- */

typedef struct job {
    const cst_view *view;
    int32_t groups;
    const int32_t *group_of;
    cst_gauge_rows *out;
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

static cst_status scratch_take(cst_context *worker, cst_scope *scope, const cst_view *view,
                               int64_t rows, scratch *s) {
    int64_t most = TILE_CELLS / view->classes;
    *s = (scratch){.tile = most < 1 ? 1 : most < rows ? most : rows};
    int64_t cells = s->tile * view->classes;
    CST_TAKE(worker, scope, s->copy, cst_view_copies(view) ? cells : 0);
    CST_TAKE(worker, scope, s->sum, cells);
    CST_TAKE(worker, scope, s->count, rows);
    CST_TAKE(worker, scope, s->log, rows);
    CST_TAKE(worker, scope, s->log2, rows);
    return cst_novelty_rows_take(worker, scope, rows, view->members < LOGS ? view->members : LOGS,
                                 &s->novelty);
}

void cst_gauge_stack(cst_gauge_rows *rows, const float *stack, int64_t first, int64_t count,
                     int32_t classes) {
    for (int64_t i = first; i < first + count; i++, stack += classes) {
        double entropy = 0;
        for (int32_t c = 0; c < classes; c++)
            if (stack[c] > 0)
                entropy -= (double)stack[c] * log((double)stack[c]);
        rows->class[i] = cst_largest(stack, classes);
        rows->confidence[i] = stack[rows->class[i]];
        rows->doubt[i] = entropy;
    }
}

/* Sums of what the stack predicts of a block. */
static void sum_stack(const job *j, int64_t first, int64_t count, double *sum) {
    int32_t members = j->view->members;
    for (int64_t i = first; i < first + count; i++) {
        double entropy = j->out->doubt[i];
        j->out->statistic[i * CST_GAUGE_STATISTICS + CST_GAUGE_DOUBT] = (float)entropy;
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
    CST_TRY(cst_view_rows(worker, view, k, at, count, s->copy, &rows));
    for (int64_t i = 0; i < count; i++) {
        if (!cst_view_is_there(view, present, at + i))
            continue;
        const float *row = rows + i * view->classes;
        int32_t class = cst_largest(row, view->classes);
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
    for (int64_t at = 0; at < count; at += s->tile) {
        int64_t rows = count - at < s->tile ? count - at : s->tile;
        memset(s->sum, 0, (size_t)(rows * classes) * sizeof *s->sum);
        for (int32_t k = 0; k < j->view->members; k++)
            CST_TRY(add_classes(worker, j, k, first + at, rows, s->count + at, s, sum));
        for (int64_t i = 0; i < rows; i++) {
            double best = 0;
            for (int32_t c = 0; c < classes; c++)
                best = s->sum[i * classes + c] > best ? s->sum[i * classes + c] : best;
            int32_t there = s->count[at + i];
            j->out->average[first + at + i] = there > 0 ? (float)(best / there) : 0;
        }
    }
    return CST_OK;
}

/* Entropies of the members from..from+size-1, and the spread of all. */
static cst_status measure_entropies(cst_context *worker, const job *j, int32_t from, int32_t size,
                                    int64_t first, int64_t count, scratch *s, double *sum) {
    const cst_view *view = j->view;
    int32_t place[LOGS];
    for (int32_t l = 0; l < size; l++)
        place[l] = from + l;
    CST_TRY(cst_novelty_measure(worker, view, place, size, first, count, &s->novelty));
    for (int64_t i = 0; i < count; i++)
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
    return CST_OK;
}

static void finish_rows(const job *j, int64_t first, int64_t count, const scratch *s, double *sum) {
    int32_t members = j->view->members;
    double *shares = sum + 4 * (size_t)members + 2 + (size_t)members * (size_t)j->groups;
    for (int64_t i = 0; i < count; i++) {
        float *statistic = j->out->statistic + (first + i) * CST_GAUGE_STATISTICS;
        double mean = s->log[i] / members;
        double variance = s->log2[i] / members - mean * mean;
        j->out->usable[first + i] = s->count[i] == members;
        if (s->count[i] == members)
            shares[j->group_of[j->out->class[first + i]]]++;
        statistic[CST_GAUGE_SPREAD] = s->novelty.spread[i];
        statistic[CST_GAUGE_ALIKE] = variance > 1e-12 ? (float)-sqrt(variance) : 0;
    }
}

static cst_status measure_block(cst_context *worker, void *user, int64_t block, double *sum) {
    const job *j = user;
    const cst_view *view = j->view;
    int64_t first = cst_block_first(block);
    int64_t count = cst_block_size(view->rows, block);
    CST_SCOPE(scope);
    scratch s;
    CST_TRY(scratch_take(worker, scope, view, count, &s));
    sum_stack(j, first, count, sum);
    CST_TRY(measure_classes(worker, j, first, count, &s, sum));
    for (int32_t k = 0; k < view->members; k += LOGS)
        CST_TRY(measure_entropies(worker, j, k, view->members - k < LOGS ? view->members - k : LOGS,
                                  first, count, &s, sum));
    finish_rows(j, first, count, &s, sum);
    return CST_OK;
}

cst_status cst_gauge_rows_take(cst_context *context, cst_scope *scope, const cst_view *kept,
                               cst_gauge_rows *out) {
    int64_t rows = kept->rows;
    *out = (cst_gauge_rows){.rows = rows};
    CST_TAKE(context, scope, out->usable, rows);
    CST_TAKE(context, scope, out->class, rows);
    CST_TAKE(context, scope, out->doubt, rows);
    CST_TAKE(context, scope, out->statistic, rows * CST_GAUGE_STATISTICS);
    CST_TAKE(context, scope, out->confidence, rows);
    CST_TAKE(context, scope, out->average, rows);
    CST_TAKE(context, scope, out->entropy, kept->members + 1);
    CST_TAKE(context, scope, out->squares, kept->members + 1);
    CST_TAKE(context, scope, out->predicted, kept->members);
    CST_TAKE(context, scope, out->apart, kept->members);
    return CST_OK;
}

cst_status cst_gauge_measure(cst_context *context, cst_scope *made, const cst_view *kept,
                             int32_t groups, const int32_t *group_of, cst_gauge_rows *rows) {
    size_t members = (size_t)kept->members;
    size_t shares = (members + 1) * (size_t)groups;
    size_t width = 4 * members + 2 + shares;
    job j = {.view = kept, .groups = groups, .group_of = group_of, .out = rows};
    CST_SCOPE(scope);
    CST_NEW(context, scope, double, sum, width);
    CST_TAKE(context, made, rows->share, shares);
    const cst_share filled[] = {
        cst_share_rows(rows->usable, kept->rows, sizeof *rows->usable),
        cst_share_rows(rows->class, kept->rows, sizeof *rows->class),
        cst_share_rows(rows->doubt, kept->rows, sizeof *rows->doubt),
        cst_share_rows(rows->statistic, kept->rows, CST_GAUGE_STATISTICS * sizeof(float)),
        cst_share_rows(rows->confidence, kept->rows, sizeof *rows->confidence),
        cst_share_rows(rows->average, kept->rows, sizeof *rows->average)};
    CST_TRY(cst_reduce_fill(context, cst_block_count(kept->rows), width, measure_block, &j, sum,
                            filled, (int32_t)(sizeof filled / sizeof *filled)));
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
    return CST_OK;
}

/* ---- the fit ---- */

static int descending(const void *a, const void *b) {
    float x = *(const float *)a;
    float y = *(const float *)b;
    return (x < y) - (x > y);
}

/* The cut that as many rows are above as are right. sorted: descending. */
static void choose_cut(const float *sorted, int64_t rows, int64_t right, cst_gauge_cut *cut) {
    *cut = (cst_gauge_cut){.threshold = 2, .share = 0};
    if (right <= 0)
        return;
    float at = sorted[right - 1];
    int64_t above = 0;
    int64_t equal = 0;
    for (int64_t i = 0; i < rows; i++) {
        above += sorted[i] > at;
        equal += sorted[i] == at;
    }
    cut->threshold = (double)at;
    cut->share = (double)(right - above) / (double)equal;
}

/* Accuracy, confidence and cuts, on whole rows. values: [rows] of room. */
static void fit_accuracy(const cst_view *view, const cst_gauge_rows *rows, float *values,
                         cst_gauge *gauge) {
    int64_t right = 0;
    int64_t used = 0;
    double confidence = 0;
    for (int64_t i = 0; i < rows->rows; i++)
        if (rows->usable[i]) {
            right += rows->class[i] == cst_view_label(view, i);
            confidence += (double)rows->confidence[i];
            values[used++] = rows->confidence[i];
        }
    qsort(values, (size_t)used, sizeof *values, descending);
    choose_cut(values, used, right, &gauge->stack);
    used = 0;
    for (int64_t i = 0; i < rows->rows; i++)
        if (rows->usable[i])
            values[used++] = rows->average[i];
    qsort(values, (size_t)used, sizeof *values, descending);
    choose_cut(values, used, right, &gauge->average);
    gauge->accuracy = (double)right / (double)used;
    gauge->confidence = confidence / (double)used;
}

/* Which classes have something of their own: those with at least `least` of the counts [classes],
 * at most `most` of them, the largest first, lower classes before. own: [classes], ascending. */
static int32_t choose_classes(const int64_t *count, int32_t classes, int64_t least, int32_t most,
                              bool *chosen, int32_t *own) {
    int32_t found = 0;
    memset(chosen, 0, (size_t)classes * sizeof *chosen);
    while (found < most) {
        int32_t best = -1;
        for (int32_t c = 0; c < classes; c++)
            if (!chosen[c] && count[c] >= least && (best < 0 || count[c] > count[best]))
                best = c;
        if (best < 0)
            break;
        chosen[best] = true;
        found++;
    }
    found = 0;
    for (int32_t c = 0; c < classes; c++)
        if (chosen[c])
            own[found++] = c;
    return found;
}

/* The thresholds of one table from values [rows], which are sorted here. */
static void fit_edges(float *values, int64_t rows, float *edge) {
    qsort(values, (size_t)rows, sizeof *values, descending);
    for (int b = 0; b < CST_GAUGE_EDGES; b++) {
        int64_t rank = (int64_t)floor(cst_gauge_level[b] * (double)(rows + 1) + 1e-9);
        edge[b] = rank < 1 ? FLT_MAX : values[(rank < rows ? rank : rows) - 1];
    }
}

static void fit_tables(const cst_gauge_rows *rows, const int32_t *table_of, bool all, float *values,
                       cst_gauge *gauge) {
    for (int32_t t = 0; t < gauge->tables; t++)
        for (int s = 0; s < CST_GAUGE_STATISTICS; s++) {
            int64_t used = 0;
            for (int64_t i = 0; i < rows->rows; i++)
                if (rows->usable[i] && (table_of[rows->class[i]] == t || (t == 0 && all)))
                    values[used++] = rows->statistic[i * CST_GAUGE_STATISTICS + s];
            gauge->table_rows[t] = used;
            fit_edges(values, used,
                      gauge->edge +
                          ((size_t)t * CST_GAUGE_STATISTICS + (size_t)s) * CST_GAUGE_EDGES);
        }
}

static void fit_members(const cst_gauge_rows *rows, cst_gauge *gauge) {
    for (int32_t k = 0; k <= gauge->members; k++) {
        int64_t count = k < gauge->members ? rows->predicted[k] : rows->rows;
        double n = count > 0 ? (double)count : 1;
        double mean = rows->entropy[k] / n;
        double variance = rows->squares[k] / n - mean * mean;
        gauge->entropy[k] = mean;
        gauge->deviation[k] = variance > 0 ? sqrt(variance) : 0;
        if (k < gauge->members) {
            gauge->predicted[k] = rows->predicted[k];
            gauge->apart[k] = rows->apart[k];
        }
    }
    memcpy(gauge->share, rows->share,
           (size_t)(gauge->members + 1) * (size_t)gauge->groups * sizeof *gauge->share);
}

cst_status cst_gauge_fit(cst_context *context, cst_scope *made, const cst_view *chosen,
                         cst_gauge_rows *rows, double ece, cst_gauge **out) {
    int32_t classes = chosen->classes;
    cst_gauge sizes = {.classes = classes, .members = chosen->members};
    CST_SCOPE(scope);
    CST_NEW(context, scope, int64_t, count, classes);
    CST_NEW(context, scope, bool, taken, classes);
    CST_NEW(context, scope, int32_t, tables, classes); /* classes with a table of their own */
    CST_NEW(context, scope, int32_t, groups, classes); /* classes that are counted by themselves */
    CST_NEW(context, scope, int32_t, table_of, classes);
    CST_NEW(context, scope, int32_t, group_of, classes);
    CST_NEW(context, scope, float, values, chosen->rows);
    *out = NULL;
    for (int64_t i = 0; i < chosen->rows; i++)
        count[rows->class[i]]++;
    sizes.tables = 1 + choose_classes(count, classes, CST_GAUGE_CLASS_MIN, CST_GAUGE_TABLES_MAX - 1,
                                      taken, tables);
    sizes.groups = 1 + choose_classes(count, classes, 0, CST_GAUGE_GROUPS_MAX - 1, taken, groups);
    sizes.table_class = tables;
    sizes.group_class = groups;
    cst_gauge_place(&sizes, table_of, group_of);
    CST_TRY(cst_gauge_measure(context, scope, chosen, sizes.groups, group_of, rows));
    if (rows->whole < CST_GAUGE_ROWS_MIN)
        return CST_OK;
    cst_gauge *gauge;
    CST_TRY(cst_gauge_alloc(context, made, &sizes, &gauge));
    memcpy(gauge->table_class, tables, (size_t)(sizes.tables - 1) * sizeof *tables);
    memcpy(gauge->group_class, groups, (size_t)(sizes.groups - 1) * sizeof *groups);
    int64_t few = 0;
    gauge->rows = rows->rows;
    gauge->whole = rows->whole;
    gauge->ece = ece;
    for (int64_t i = 0; i < rows->rows; i++)
        few += rows->usable[i] && table_of[rows->class[i]] == 0;
    fit_accuracy(chosen, rows, values, gauge);
    fit_tables(rows, table_of, few < CST_GAUGE_CLASS_MIN, values, gauge);
    fit_members(rows, gauge);
    *out = gauge;
    return CST_OK;
}
