/*
 * Log tables: which rows of a compact table a fit reads, and the mixing with the uniform
 * distribution. Stage S4 and the space of loss-aware selection.
 * Section: "Laplace-Approximate Bayesian Blender" of the paper.
 */
#include "method/loglinear/loglinear.h"

#include "core/wide.h"

#include <math.h>
#include <string.h>

float cst_mixed_log(float probability, double mix, int32_t classes) {
    return (float)log((1 - mix) * (double)probability + mix / (double)classes);
}

/* ---- rows and columns of a compact table ---- */

void cst_logtable_free(cst_context *context, cst_logtable *table) {
    cst_free(context, table->mix);
    cst_free(context, table->columns);
    cst_free(context, table->row);
    cst_free(context, table->position);
    cst_free(context, table->row_weights);
    if (table->own)
        cst_compact_free(context, table->own);
    cst_free(context, table->own);
    *table = (cst_logtable){0};
}

static cst_status table_alloc(cst_context *context, int64_t rows, cst_logtable *table) {
    table->mix = cst_alloc(context, (size_t)table->members, sizeof *table->mix);
    table->columns = cst_alloc(context, (size_t)table->members, sizeof *table->columns);
    table->row = cst_alloc(context, (size_t)rows, sizeof *table->row);
    table->position = cst_alloc(context, (size_t)rows, sizeof *table->position);
    return table->mix && table->columns && table->row && table->position ? CST_OK
                                                                         : CST_ERROR_MEMORY;
}

/* Member by member of the view: which of the compact table's it is. False where one is missing. */
static bool find_columns(const cst_view *view, const cst_compact *compact, int32_t *columns) {
    for (int32_t k = 0; k < view->members; k++) {
        int32_t at = 0;
        while (at < compact->members && compact->data[at] != view->data[k])
            at++;
        if (at == compact->members)
            return false;
        columns[k] = at;
    }
    return true;
}

/* The rows of the view that the compact table has, both in ascending order of the split's rows.
 * False where the view's rows are not ascending, or where the table has not all of them, unless
 * they would be thinned all the same, and it has half of as many. */
static bool find_rows(const cst_view *view, const cst_compact *compact, int64_t max_rows,
                      cst_logtable *table) {
    int64_t at = 0;
    int64_t before = -1;
    table->rows = 0;
    for (int64_t i = 0; i < view->rows; i++) {
        int64_t row = view->index ? view->index[i] : i;
        if (row <= before)
            return false;
        before = row;
        while (at < compact->rows && compact->split_row[at] < row)
            at++;
        if (at == compact->rows || compact->split_row[at] != row)
            continue;
        table->row[table->rows] = at;
        table->position[table->rows++] = i;
    }
    bool thinned = max_rows > 0 && max_rows < view->rows;
    return table->rows == view->rows || (thinned && table->rows >= max_rows / 2);
}

/* Keeps of the rows found about max_rows. */
static cst_status thin(cst_context *context, const cst_view *view, const int32_t *folds,
                       int32_t fold_count, int64_t max_rows, cst_logtable *table) {
    if (max_rows <= 0 || table->rows <= max_rows)
        return CST_OK;
    (void)view;
    int64_t *chosen = NULL;
    int64_t count = 0;
    int32_t *part = cst_alloc(context, (size_t)table->rows, sizeof *part);
    if (!part)
        return CST_ERROR_MEMORY;
    for (int64_t i = 0; folds && i < table->rows; i++)
        part[i] = folds[table->position[i]];
    cst_status status = cst_thin_rows(context, table->rows, part, folds ? fold_count : 1, max_rows,
                                      &chosen, &count);
    for (int64_t i = 0; status == CST_OK && i < count; i++) {
        table->row[i] = table->row[chosen[i]];
        table->position[i] = table->position[chosen[i]];
    }
    if (status == CST_OK)
        table->rows = count;
    cst_free(context, chosen);
    cst_free(context, part);
    return status;
}

/* A compact table of the view's own, of the rows that are wanted. */
static cst_status build_own(cst_context *context, const cst_view *view, const int32_t *folds,
                            int32_t fold_count, const cst_compact_options *options,
                            cst_logtable *table) {
    int64_t *chosen = NULL;
    int64_t count = 0;
    table->own = cst_alloc(context, 1, sizeof *table->own);
    if (!table->own)
        return CST_ERROR_MEMORY;
    cst_status status =
        cst_thin_rows(context, view->rows, folds, fold_count, options->max_rows, &chosen, &count);
    CST_THEN(cst_compact_build(context, view, chosen, count, options->cut, table->own));
    table->compact = table->own;
    table->rows = count;
    for (int64_t i = 0; status == CST_OK && i < count; i++) {
        table->row[i] = i;
        table->position[i] = chosen[i];
    }
    for (int32_t k = 0; k < view->members; k++)
        table->columns[k] = k;
    cst_free(context, chosen);
    return status;
}

/* Weights of the table's rows, where the view has some. */
static cst_status take_weights(cst_context *context, const cst_view *view, cst_logtable *table) {
    if (!view->weights)
        return CST_OK;
    table->row_weights = cst_alloc(context, (size_t)table->rows, sizeof *table->row_weights);
    if (!table->row_weights)
        return CST_ERROR_MEMORY;
    for (int64_t i = 0; i < table->rows; i++)
        table->row_weights[i] = cst_view_weight(view, table->position[i]);
    return CST_OK;
}

cst_status cst_logtable_open(cst_context *context, const cst_view *view, const int32_t *folds,
                             int32_t fold_count, const cst_compact_options *options,
                             cst_logtable *out) {
    const cst_compact_options defaults = cst_compact_defaults();
    if (!options)
        options = &defaults;
    *out = (cst_logtable){.classes = view->classes,
                          .members = view->members,
                          .share = options->share,
                          .class_weights = options->class_weights};
    cst_status status = table_alloc(context, view->rows, out);
    if (status == CST_OK) {
        const cst_compact *attached = cst_compact_of(view);
        bool shared = attached && attached->cut == options->cut &&
                      find_columns(view, attached, out->columns) &&
                      find_rows(view, attached, options->max_rows, out);
        out->compact = shared ? attached : NULL;
        status = shared ? thin(context, view, folds, fold_count, options->max_rows, out)
                        : build_own(context, view, folds, fold_count, options, out);
    }
    CST_THEN(take_weights(context, view, out));
    if (status == CST_OK)
        out->weight = out->rows > 0 ? (double)view->rows / (double)out->rows : 1;
    else
        cst_logtable_free(context, out);
    return status;
}

static cst_status take_rows(cst_context *context, const cst_logtable *whole, const int32_t *folds,
                            int32_t fold, bool inside, cst_logtable *out) {
    *out = (cst_logtable){.classes = whole->classes,
                          .members = whole->members,
                          .weight = whole->weight,
                          .share = whole->share,
                          .compact = whole->compact,
                          .class_weights = whole->class_weights};
    cst_status status = table_alloc(context, whole->rows, out);
    if (status != CST_OK)
        return status;
    if (whole->row_weights) {
        out->row_weights = cst_alloc(context, (size_t)whole->rows, sizeof *out->row_weights);
        if (!out->row_weights)
            return CST_ERROR_MEMORY;
    }
    memcpy(out->columns, whole->columns, (size_t)whole->members * sizeof *out->columns);
    for (int64_t i = 0; i < whole->rows; i++) {
        if ((folds[whole->position[i]] != fold) != inside)
            continue;
        if (whole->row_weights)
            out->row_weights[out->rows] = whole->row_weights[i];
        out->row[out->rows] = whole->row[i];
        out->position[out->rows++] = whole->position[i];
    }
    return CST_OK;
}

cst_status cst_logtable_split(cst_context *context, const cst_logtable *whole, const int32_t *folds,
                              int32_t fold, cst_logtable *in, cst_logtable *held) {
    *held = (cst_logtable){0};
    cst_status status = take_rows(context, whole, folds, fold, true, in);
    CST_THEN(take_rows(context, whole, folds, fold, false, held));
    CST_THEN(cst_logtable_mix(context, in));
    if (status == CST_OK) {
        memcpy(held->mix, in->mix, (size_t)whole->members * sizeof *in->mix);
    } else {
        cst_logtable_free(context, in);
        cst_logtable_free(context, held);
    }
    return status;
}

cst_status cst_logtable_pair(cst_context *context, const cst_view *fit, const cst_view *judge,
                             cst_logtable *table, cst_logtable *held) {
    *held = (cst_logtable){0};
    cst_status status = cst_logtable_open(context, fit, NULL, 1, NULL, table);
    CST_THEN(cst_logtable_mix(context, table));
    CST_THEN(cst_logtable_open(context, judge, NULL, 1, NULL, held));
    if (status == CST_OK)
        memcpy(held->mix, table->mix, (size_t)fit->members * sizeof *held->mix);
    else
        cst_logtable_free(context, table);
    return status;
}

/* ---- mixing with the uniform distribution ---- */

static const double MIX_GRID[] = {1e-6, 1e-5, 1e-4, 1e-3, 3e-3, 1e-2, 3e-2, 1e-1};
enum { MIX_COUNT = sizeof MIX_GRID / sizeof MIX_GRID[0] };

/* Adds the losses of labels' probabilities p [count] of one member, mixed each way, to sum
 * [MIX_COUNT]. weight: [count], how much each counts, or NULL. logs: [count]. */
static void mix_losses(const double *p, int64_t count, int32_t classes, const double *weight,
                       double *logs, double *sum) {
    for (int g = 0; g < MIX_COUNT; g++) {
        for (int64_t i = 0; i < count; i++)
            logs[i] = (1 - MIX_GRID[g]) * p[i] + MIX_GRID[g] / (double)classes;
        cst_log_f64(count, logs, logs);
        for (int64_t i = 0; i < count; i++)
            sum[g] -= weight ? weight[i] * logs[i] : logs[i];
    }
}

static void best_mix(const double *loss, int32_t members, double *mix) {
    for (int32_t k = 0; k < members; k++) {
        int best = 0;
        for (int g = 1; g < MIX_COUNT; g++)
            if (loss[k * MIX_COUNT + g] < loss[k * MIX_COUNT + best])
                best = g;
        mix[k] = MIX_GRID[best];
    }
}

static cst_status table_mix_block(cst_context *worker, const void *user, int64_t first, int64_t end,
                                  double *sum) {
    (void)worker;
    const cst_logtable *table = user;
    int64_t count = end - first;
    double p[CST_BLOCK_ROWS];
    double logs[CST_BLOCK_ROWS];
    double weight[CST_BLOCK_ROWS];
    bool weighted = cst_logtable_weighted(table);
    for (int64_t i = 0; weighted && i < count; i++) {
        int64_t at = 0;
        const cst_compact_block *from = cst_compact_at(table->compact, table->row[first + i], &at);
        int32_t label = from->label[at];
        weight[i] = cst_logtable_weight(
            table, first + i, from->classes ? from->classes[from->first[at] + label] : label);
    }
    for (int32_t k = 0; k < table->members; k++) {
        for (int64_t i = 0; i < count; i++) {
            int64_t at = 0;
            const cst_compact_block *from =
                cst_compact_at(table->compact, table->row[first + i], &at);
            int64_t entries = from->first[at + 1] - from->first[at];
            p[i] = (double)from->p[from->first[at] * table->compact->members +
                                   entries * table->columns[k] + from->label[at]];
        }
        mix_losses(p, count, table->classes, weighted ? weight : NULL, logs,
                   sum + (size_t)k * MIX_COUNT);
    }
    return CST_OK;
}

cst_status cst_logtable_mix(cst_context *context, cst_logtable *table) {
    size_t width = (size_t)table->members * MIX_COUNT;
    bool own = table->share <= 0;
    double *loss = cst_alloc(context, width, sizeof *loss);
    cst_status status = loss ? CST_OK : CST_ERROR_MEMORY;
    if (status == CST_OK && own)
        status = cst_logtable_sum(context, table, 1, width, 0, table_mix_block, table, loss, NULL);
    if (status == CST_OK && own)
        best_mix(loss, table->members, table->mix);
    for (int32_t k = 0; !own && k < table->members; k++)
        table->mix[k] = table->share;
    if (status == CST_OK && table->own)
        status = cst_compact_logs(context, table->mix, table->own);
    cst_free(context, loss);
    return status;
}

cst_status cst_logtable_share(cst_context *context, const cst_view *view, const int32_t *folds,
                              int32_t fold_count, const cst_compact_options *options,
                              cst_compact **out) {
    cst_logtable table = {0};
    cst_view fresh = *view;
    fresh.attached = NULL;
    cst_status status = cst_logtable_open(context, &fresh, folds, fold_count, options, &table);
    CST_THEN(cst_logtable_mix(context, &table));
    *out = NULL;
    if (status == CST_OK) {
        *out = table.own;
        table.own = NULL;
    }
    cst_logtable_free(context, &table);
    return status;
}

void cst_logtable_unshare(cst_context *context, cst_compact *shared) {
    if (shared)
        cst_compact_free(context, shared);
    cst_free(context, shared);
}
