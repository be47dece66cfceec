/*
 * Stage S0: loading a split, checking or making its folds.
 */
#include "pipeline/training.h"

#include "pool/folds.h"

#include <math.h>
#include <string.h>

static cst_status prepare_folds(cst_context *context, int32_t folds, uint64_t seed,
                                cst_training *out) {
    const int32_t *labels = out->view.labels;
    const double *targets = out->view.targets;
    const int32_t *given = out->counted.folds;
    const int64_t *groups = out->view.groups;
    int64_t rows = out->view.rows;
    out->folds_given = given != NULL;
    if (given) {
        cst_status status = cst_folds_check(context, given, labels, rows);
        if (status != CST_OK)
            return status;
        memcpy(out->folds, given, (size_t)rows * sizeof *given);
        out->fold_count = cst_folds_count(given, rows);
        return CST_OK;
    }
    out->fold_count = folds;
    if (targets)
        return cst_folds_quantile(context, targets, out->view.classes, groups, rows, folds, seed,
                                  out->folds);
    if (groups)
        return cst_folds_grouped(context, labels, groups, rows, folds, seed, out->folds);
    return cst_folds_stratified(context, labels, rows, folds, seed, out->folds);
}

cst_status cst_training_open(cst_context *context, cst_pool *pool, const char *split, int32_t folds,
                             uint64_t seed, cst_training *out) {
    *out = (cst_training){0};
    double start = cst_seconds();
    cst_status status = cst_pool_load(context, pool, split);
    if (status != CST_OK)
        return status;
    out->seconds_read = cst_seconds() - start;
    bool values = cst_pool_task(pool) == CST_TASK_REGRESSION;
    if (values ? !cst_pool_targets(pool, split) : !cst_pool_labels(pool, split))
        return cst_fail(context, CST_ERROR_INPUT,
                        "split '%s' has no %s; a stack is fitted on rows with a known %s", split,
                        values ? "targets" : "labels", values ? "target" : "class");
    if (cst_pool_conditions(pool, split) > 0)
        return cst_fail(context, CST_ERROR_INPUT,
                        "split '%s' has several conditions of the same samples; fit on a split "
                        "without conditions",
                        split);
    size_t members = (size_t)cst_pool_members(pool);
    status = cst_counted_open(context, pool, split, NULL, 0, &out->counted);
    if (status != CST_OK)
        return status;
    const cst_view *all = &out->counted.view;
    out->data = cst_alloc(context, members, sizeof *out->data);
    out->folds = cst_alloc(context, (size_t)all->rows, sizeof *out->folds);
    out->flops = cst_alloc(context, members, sizeof *out->flops);
    out->latency = cst_alloc(context, members, sizeof *out->latency);
    out->ensembles = cst_alloc(context, members, sizeof *out->ensembles);
    status = out->data && out->folds && out->flops && out->latency && out->ensembles
                 ? CST_OK
                 : CST_ERROR_MEMORY;
    for (size_t k = 0; status == CST_OK && k < members; k++) {
        out->data[k] = all->data[k];
        out->ensembles[k] = cst_pool_member_ensemble(pool, (int32_t)k);
        /* A prediction averaged over several passes costs them all. */
        out->flops[k] = out->ensembles[k].passes * cst_pool_member_flops(pool, (int32_t)k);
        out->latency[k] = out->ensembles[k].passes * cst_pool_member_latency_ms(pool, (int32_t)k);
    }
    out->view = *all;
    out->view.data = out->data;
    out->view.groups = out->counted.groups;
    CST_TRY(prepare_folds(context, folds, seed, out));
    if (status != CST_OK)
        cst_training_close(context, out);
    return status;
}

static cst_status check_cost(cst_context *context, const cst_pool *pool, const double *cost,
                             const char *key, const char *option) {
    for (int32_t k = 0; k < cst_pool_members(pool); k++)
        if (isnan(cost[k]))
            return cst_fail(context, CST_ERROR_INPUT,
                            "member '%.100s' has no %s, which %s needs for every member; add it to "
                            "the manifest or remove the limit",
                            cst_pool_member_name(pool, k), key, option);
    return CST_OK;
}

cst_status cst_training_check_costs(cst_context *context, const cst_pool *pool,
                                    const cst_training *source, double keep_flops,
                                    double keep_latency) {
    cst_status status = CST_OK;
    if (keep_flops > 0)
        status = check_cost(context, pool, source->flops, "flops", "keep.max_flops");
    if (status == CST_OK && keep_latency > 0)
        status = check_cost(context, pool, source->latency, "latency_ms", "keep.max_latency");
    return status;
}

cst_status cst_training_find(cst_context *context, const cst_pool *pool, const char *split,
                             const cst_training *source, const cst_training_hints *hints,
                             cst_findings *findings) {
    const cst_check_source check = {.pool = pool,
                                    .split = hints && hints->split ? hints->split : split,
                                    .view = &source->view,
                                    .rows = source->counted.rows,
                                    .folds = source->folds_given ? source->folds : NULL,
                                    .groups = source->view.groups,
                                    .orders = hints ? hints->orders : NULL,
                                    .order_count = hints ? hints->order_count : 0};
    return cst_check_run(context, &check, findings);
}

cst_status cst_training_check(cst_context *context, const cst_pool *pool, const char *split,
                              const cst_training *source, const cst_training_hints *hints,
                              cst_findings *findings) {
    cst_status status = cst_training_find(context, pool, split, source, hints, findings);
    return status == CST_OK ? cst_findings_tell(context, findings) : status;
}

void cst_training_close(cst_context *context, cst_training *source) {
    cst_counted_close(context, &source->counted);
    cst_free(context, source->data);
    cst_free(context, source->folds);
    cst_free(context, source->flops);
    cst_free(context, source->latency);
    cst_free(context, source->ensembles);
    *source = (cst_training){0};
}

/* ---- some members ---- */

cst_status cst_training_part_make(cst_context *context, const cst_training *all,
                                  const int32_t *members, int32_t count, cst_training_part *out) {
    size_t n = (size_t)count;
    *out = (cst_training_part){.source = *all,
                               .pointers = cst_alloc(context, n, sizeof *out->pointers)};
    cst_training *source = &out->source;
    source->flops = cst_alloc(context, n, sizeof *source->flops);
    source->latency = cst_alloc(context, n, sizeof *source->latency);
    source->ensembles = cst_alloc(context, n, sizeof *source->ensembles);
    if (!out->pointers || !source->flops || !source->latency || !source->ensembles)
        return CST_ERROR_MEMORY;
    source->view = cst_view_members(&all->view, members, count, out->pointers);
    for (size_t j = 0; j < n; j++) {
        source->flops[j] = all->flops[members[j]];
        source->latency[j] = all->latency[members[j]];
        source->ensembles[j] = all->ensembles[members[j]];
    }
    return CST_OK;
}

void cst_training_part_free(cst_context *context, cst_training_part *part) {
    cst_free(context, part->pointers);
    cst_free(context, part->source.flops);
    cst_free(context, part->source.latency);
    cst_free(context, part->source.ensembles);
    *part = (cst_training_part){0};
}
