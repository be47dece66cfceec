/* The domain-aware layer of a stack. See the header. */
#include "fit/stages.h"

#include "stats/samples.h"

#include <math.h>
#include <string.h>

/* auto: how many standard errors the held-out loss has to fall by. */
static const double CLEARLY = 2;

bool cst_domain_wanted(const cst_view *view, const cst_settings *settings) {
    if (!view->domains || settings->domain_aware == CST_DOMAIN_AWARE_FALSE || settings->balance > 0)
        return false;
    /* With one domain for all rows there is nothing to tell apart. */
    return view->domains->count >= (settings->domain_aware == CST_DOMAIN_AWARE_TRUE ? 1 : 2);
}

static double loss_of(const cst_view *view, int64_t row, const double *p) {
    return -log(fmax(p[cst_view_label(view, row)], CST_NLL_FLOOR)) * cst_view_weight(view, row);
}

/* One row with the layer of its domain. row: [classes]. */
static void predict_row(const cst_view *view, const cst_domain_map *map, const float *held,
                        int64_t i, double *row) {
    size_t classes = (size_t)view->classes;
    for (size_t c = 0; c < classes; c++)
        row[c] = (double)held[(size_t)i * classes + c];
    if (map)
        cst_domain_rows(map, cst_view_domain(view, i), 1, row);
}

/* The layer fitted without fold f on the rows in it: after [rows] at their places. */
static cst_status score_fold(cst_context *context, const cst_view *view, const int32_t *folds,
                             int32_t fold, const cst_settings *settings, const float *held,
                             double *row, double *after) {
    size_t classes = (size_t)view->classes;
    cst_domain_map *map = NULL;
    cst_view inside;
    cst_view outside;
    int64_t to = 0;
    CST_SCOPE(scope);
    CST_NEW(context, scope, int64_t, index, view->rows);
    CST_NEW(context, scope, float, part, ((size_t)view->rows * classes));
    cst_view_split(view, folds, fold, index, &inside, &outside);
    for (int64_t i = 0; i < view->rows; i++)
        if (folds[i] != fold)
            memcpy(part + (size_t)to++ * classes, held + (size_t)i * classes,
                   classes * sizeof *part);
    CST_TRY(cst_domain_map_fit(context, &inside, part, &settings->domain_priors, &map));
    for (int64_t i = 0; i < view->rows; i++)
        if (folds[i] == fold) {
            predict_row(view, map, held, i, row);
            after[i] = loss_of(view, i, row);
        }
    cst_domain_map_free(context, map);
    return CST_OK;
}

/* Means of the losses, over all rows and by domain. */
static cst_status judge(cst_context *context, const cst_view *view, const double *before,
                        const double *after, cst_domain_layer *out) {
    cst_domain_map *map = out->map;
    double n = (double)view->rows;
    CST_SCOPE(scope);
    CST_NEW(context, scope, double, weight, map->count);
    double square = 0;
    out->before = out->after = 0;
    for (int64_t i = 0; i < view->rows; i++) {
        int32_t d = cst_view_domain(view, i);
        out->before += before[i] / n;
        out->after += after[i] / n;
        if (d < 0)
            continue;
        weight[d] += cst_view_weight(view, i);
        map->before[d] += before[i];
        map->after[d] += after[i];
    }
    out->change = out->after - out->before;
    for (int64_t i = 0; i < view->rows; i++) {
        double off = after[i] - before[i] - out->change;
        square += off * off;
    }
    out->se = view->rows > 1 ? sqrt(square / (n - 1) / n) : 0;
    for (int32_t d = 0; d < map->count; d++) {
        map->before[d] /= fmax(weight[d], CST_NLL_FLOOR);
        map->after[d] /= fmax(weight[d], CST_NLL_FLOOR);
    }
    return CST_OK;
}

static void tell(cst_context *context, const cst_settings *settings, const cst_domain_layer *l) {
    if (!l->used)
        cst_notice(context,
                   "domain.aware=auto: scales and biases of the %d domains do not clearly lower "
                   "the held-out NLL (%.4f with them, %.4f without, standard error of the "
                   "difference %.4f), so the stack has none",
                   (int)l->map->count, l->after, l->before, l->se);
    else if (settings->domain_aware == CST_DOMAIN_AWARE_TRUE && l->map->count == 1)
        cst_notice(context,
                   "every row is of domain '%.60s': its scale and biases are a calibration of the "
                   "stack, and other domains get none",
                   l->map->names[0]);
}

cst_status cst_domain_layer_fit(cst_context *context, const cst_view *view, const int32_t *folds,
                                int32_t fold_count, const cst_settings *settings, const float *held,
                                cst_domain_layer *out) {
    *out = (cst_domain_layer){.tried = true};
    CST_SCOPE(scope);
    CST_NEW(context, scope, double, before, view->rows);
    CST_NEW(context, scope, double, after, view->rows);
    CST_NEW(context, scope, double, row, view->classes);
    CST_TRY(cst_domain_map_fit(context, view, held, &settings->domain_priors, &out->map));
    for (int64_t i = 0; i < view->rows; i++) {
        predict_row(view, NULL, held, i, row);
        before[i] = loss_of(view, i, row);
    }
    for (int32_t f = 0; f < fold_count; f++)
        CST_TRY(score_fold(context, view, folds, f, settings, held, row, after));
    CST_TRY(judge(context, view, before, after, out));
    out->used = settings->domain_aware == CST_DOMAIN_AWARE_TRUE || out->change < -CLEARLY * out->se;
    tell(context, settings, out);
    return CST_OK;
}

void cst_domain_layer_free(cst_context *context, cst_domain_layer *layer) {
    cst_domain_map_free(context, layer->map);
    *layer = (cst_domain_layer){0};
}
