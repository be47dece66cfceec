/*
 * What a fit keeps of its rows for the monitor: thresholds of statistics by the predicted class,
 * cuts of the confidence, entropies, classes and disagreement of the members. After stage S4.
 * model/shift/watch.h.
 */
#include "model/shift/watch.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

const double cst_watch_level[CST_WATCH_BINS] = {0.005, 0.01, 0.02, 0.04, 0.08, 0.15,
                                                0.25,  0.4,  0.6,  0.8,  1};

void cst_watch_free(cst_context *context, cst_watch *watch) {
    if (!watch)
        return;
    cst_free(context, watch->table_class);
    cst_free(context, watch->table_rows);
    cst_free(context, watch->edge);
    cst_free(context, watch->group_class);
    cst_free(context, watch->entropy);
    cst_free(context, watch->deviation);
    cst_free(context, watch->predicted);
    cst_free(context, watch->apart);
    cst_free(context, watch->share);
    cst_free(context, watch);
}

cst_status cst_watch_alloc(cst_context *context, const cst_watch *sizes, cst_watch **out) {
    size_t tables = (size_t)sizes->tables;
    size_t groups = (size_t)sizes->groups;
    size_t members = (size_t)sizes->members;
    cst_watch *watch = cst_alloc(context, 1, sizeof *watch);
    *out = watch;
    if (!watch)
        return CST_ERROR_MEMORY;
    *watch = (cst_watch){.classes = sizes->classes,
                         .members = sizes->members,
                         .tables = sizes->tables,
                         .groups = sizes->groups};
    watch->table_class = cst_alloc(context, tables - 1, sizeof *watch->table_class);
    watch->table_rows = cst_alloc(context, tables, sizeof *watch->table_rows);
    watch->edge =
        cst_alloc(context, tables * CST_WATCH_STATISTICS * CST_WATCH_EDGES, sizeof *watch->edge);
    watch->group_class = cst_alloc(context, groups - 1, sizeof *watch->group_class);
    watch->entropy = cst_alloc(context, members + 1, sizeof *watch->entropy);
    watch->deviation = cst_alloc(context, members + 1, sizeof *watch->deviation);
    watch->predicted = cst_alloc(context, members, sizeof *watch->predicted);
    watch->apart = cst_alloc(context, members, sizeof *watch->apart);
    watch->share = cst_alloc(context, (members + 1) * groups, sizeof *watch->share);
    return watch->table_class && watch->table_rows && watch->edge && watch->group_class &&
                   watch->entropy && watch->deviation && watch->predicted && watch->apart &&
                   watch->share
               ? CST_OK
               : CST_ERROR_MEMORY;
}

void cst_watch_place(const cst_watch *watch, int32_t *table_of, int32_t *group_of) {
    for (int32_t c = 0; c < watch->classes; c++) {
        table_of[c] = 0;
        group_of[c] = watch->groups - 1;
    }
    for (int32_t t = 1; t < watch->tables; t++)
        table_of[watch->table_class[t - 1]] = t;
    for (int32_t g = 0; g < watch->groups - 1; g++)
        group_of[watch->group_class[g]] = g;
}

int cst_watch_bin(const cst_watch *watch, int32_t table, int statistic, float value) {
    const float *edge =
        watch->edge + ((size_t)table * CST_WATCH_STATISTICS + (size_t)statistic) * CST_WATCH_EDGES;
    int bin = 0;
    while (bin < CST_WATCH_EDGES && !(value > edge[bin]))
        bin++;
    return bin;
}

double cst_watch_above(const cst_watch_cut *cut, const float *confidence, int64_t rows) {
    double above = 0;
    for (int64_t i = 0; i < rows; i++)
        above += (double)confidence[i] > cut->threshold    ? 1
                 : (double)confidence[i] == cut->threshold ? cut->share
                                                           : 0;
    return rows > 0 ? above / (double)rows : 0;
}

/* ---- the fit ---- */

static int descending(const void *a, const void *b) {
    float x = *(const float *)a;
    float y = *(const float *)b;
    return (x < y) - (x > y);
}

void cst_watch_choose(int64_t rows, int64_t count, int64_t *chosen) {
    cst_rng rng;
    cst_rng_init(&rng, 0, CST_STREAM_NOVELTY, 1);
    for (int64_t i = 0; i < count; i++) {
        int64_t from = rows / count * i + rows % count * i / count;
        int64_t to = rows / count * (i + 1) + rows % count * (i + 1) / count;
        chosen[i] = from + (to - from > 1 ? cst_rng_below(&rng, to - from) : 0);
    }
}

/* The cut that as many rows are above as are right. sorted: descending. */
static void choose_cut(const float *sorted, int64_t rows, int64_t right, cst_watch_cut *cut) {
    *cut = (cst_watch_cut){.threshold = 2, .share = 0};
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
static void fit_accuracy(const cst_view *view, const cst_watch_rows *rows, float *values,
                         cst_watch *watch) {
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
    choose_cut(values, used, right, &watch->stack);
    used = 0;
    for (int64_t i = 0; i < rows->rows; i++)
        if (rows->usable[i])
            values[used++] = rows->average[i];
    qsort(values, (size_t)used, sizeof *values, descending);
    choose_cut(values, used, right, &watch->average);
    watch->accuracy = (double)right / (double)used;
    watch->confidence = confidence / (double)used;
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
    for (int b = 0; b < CST_WATCH_EDGES; b++) {
        int64_t rank = (int64_t)floor(cst_watch_level[b] * (double)(rows + 1) + 1e-9);
        edge[b] = rank < 1 ? FLT_MAX : values[(rank < rows ? rank : rows) - 1];
    }
}

static void fit_tables(const cst_watch_rows *rows, const int32_t *table_of, bool all, float *values,
                       cst_watch *watch) {
    for (int32_t t = 0; t < watch->tables; t++)
        for (int s = 0; s < CST_WATCH_STATISTICS; s++) {
            int64_t used = 0;
            for (int64_t i = 0; i < rows->rows; i++)
                if (rows->usable[i] && (table_of[rows->class[i]] == t || (t == 0 && all)))
                    values[used++] = rows->statistic[i * CST_WATCH_STATISTICS + s];
            watch->table_rows[t] = used;
            fit_edges(values, used,
                      watch->edge +
                          ((size_t)t * CST_WATCH_STATISTICS + (size_t)s) * CST_WATCH_EDGES);
        }
}

static void fit_members(const cst_watch_rows *rows, cst_watch *watch) {
    for (int32_t k = 0; k <= watch->members; k++) {
        int64_t count = k < watch->members ? rows->predicted[k] : rows->rows;
        double n = count > 0 ? (double)count : 1;
        double mean = rows->entropy[k] / n;
        double variance = rows->squares[k] / n - mean * mean;
        watch->entropy[k] = mean;
        watch->deviation[k] = variance > 0 ? sqrt(variance) : 0;
        if (k < watch->members) {
            watch->predicted[k] = rows->predicted[k];
            watch->apart[k] = rows->apart[k];
        }
    }
    memcpy(watch->share, rows->share,
           (size_t)(watch->members + 1) * (size_t)watch->groups * sizeof *watch->share);
}

/* Rooms of a fit. */
typedef struct room {
    int64_t *count; /* [classes] */
    bool *chosen;
    int32_t *tables; /* classes with a table of their own */
    int32_t *groups; /* classes that are counted by themselves */
    int32_t *table_of;
    int32_t *group_of;
    float *values; /* [rows] */
} room;

static cst_status plan(cst_context *context, const cst_view *view, const cst_watch_rows *rows,
                       room *r, cst_watch **out) {
    int32_t classes = view->classes;
    for (int64_t i = 0; i < view->rows; i++)
        r->count[rows->class[i]]++;
    cst_watch sizes = {.classes = classes, .members = view->members};
    sizes.tables = 1 + choose_classes(r->count, classes, CST_WATCH_CLASS_MIN,
                                      CST_WATCH_TABLES_MAX - 1, r->chosen, r->tables);
    sizes.groups =
        1 + choose_classes(r->count, classes, 0, CST_WATCH_GROUPS_MAX - 1, r->chosen, r->groups);
    cst_status status = cst_watch_alloc(context, &sizes, out);
    if (status == CST_OK) {
        memcpy((*out)->table_class, r->tables, (size_t)(sizes.tables - 1) * sizeof *r->tables);
        memcpy((*out)->group_class, r->groups, (size_t)(sizes.groups - 1) * sizeof *r->groups);
        cst_watch_place(*out, r->table_of, r->group_of);
    }
    return status;
}

static cst_status fit_rows(cst_context *context, const cst_view *view, cst_watch_rows *rows,
                           room *r, cst_watch **out) {
    cst_status status = plan(context, view, rows, r, out);
    CST_THEN(
        cst_watch_measure(context, view, status == CST_OK ? (*out)->groups : 0, r->group_of, rows));
    if (status == CST_OK && rows->whole < CST_WATCH_ROWS_MIN) {
        cst_watch_free(context, *out);
        *out = NULL;
    } else if (status == CST_OK) {
        int64_t few = 0;
        (*out)->rows = rows->rows;
        (*out)->whole = rows->whole;
        for (int64_t i = 0; i < rows->rows; i++)
            few += rows->usable[i] && r->table_of[rows->class[i]] == 0;
        fit_accuracy(view, rows, r->values, *out);
        fit_tables(rows, r->table_of, few < CST_WATCH_CLASS_MIN, r->values, *out);
        fit_members(rows, *out);
    }
    return status;
}

cst_status cst_watch_fit(cst_context *context, const cst_view *chosen, cst_watch_rows *rows,
                         double ece, cst_watch **out) {
    size_t classes = (size_t)chosen->classes;
    room r = {.count = cst_alloc(context, classes, sizeof *r.count),
              .chosen = cst_alloc(context, classes, sizeof *r.chosen),
              .tables = cst_alloc(context, classes, sizeof *r.tables),
              .groups = cst_alloc(context, classes, sizeof *r.groups),
              .table_of = cst_alloc(context, classes, sizeof *r.table_of),
              .group_of = cst_alloc(context, classes, sizeof *r.group_of),
              .values = cst_alloc(context, (size_t)chosen->rows, sizeof *r.values)};
    cst_status status =
        r.count && r.chosen && r.tables && r.groups && r.table_of && r.group_of && r.values
            ? CST_OK
            : CST_ERROR_MEMORY;
    *out = NULL;
    CST_THEN(fit_rows(context, chosen, rows, &r, out));
    if (status == CST_OK && *out)
        (*out)->ece = ece;
    if (status != CST_OK) {
        cst_watch_free(context, *out);
        *out = NULL;
    }
    cst_free(context, r.count);
    cst_free(context, r.chosen);
    cst_free(context, r.tables);
    cst_free(context, r.groups);
    cst_free(context, r.table_of);
    cst_free(context, r.group_of);
    cst_free(context, r.values);
    return status;
}
