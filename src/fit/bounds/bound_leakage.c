/*
 * Looks for leaks between the rows of the fit and the split. A part of cst_bound that is made where
 * it is asked for. Paper: "Leakage-Freeness of the Nested OOF Construction".
 */
#include "data/pool/pool.h"
#include "fit/bounds/bound.h"
#include "fit/bounds/leakage.h"
#include "stats/samples.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { PERMUTED_ROWS = 4096 };

/* Of p: for shared rows, for all members together (Bonferroni), and for the permuted fit. */
#define LEVEL 0.001

static int64_t errors_of(const cst_samples *samples, int64_t rows) {
    int64_t errors = 0;
    for (int64_t i = 0; i < rows; i++)
        errors += samples->correct[i] == 0;
    return errors;
}

/* Each member's errors on both splits. *least: the smallest p times the members. */
static cst_status compare_members(cst_context *context, const cst_bound_work *work,
                                  const cst_view *fitted, cst_report *report, json_t *object,
                                  double *least) {
    json_t *list = cst_report_list(report, object, "members");
    cst_status status = CST_OK;
    *least = 1;
    for (int32_t k = 0; status == CST_OK && k < fitted->members; k++) {
        int64_t errors[2] = {0, 0};
        const int64_t rows[2] = {fitted->rows, work->rows};
        const cst_view *views[2] = {fitted, &work->view};
        for (int v = 0; status == CST_OK && v < 2; v++) {
            cst_samples samples = {0};
            status = cst_samples_of(context, views[v], k, &samples);
            if (status == CST_OK)
                errors[v] = errors_of(&samples, rows[v]);
            cst_samples_free(context, &samples);
        }
        if (status != CST_OK)
            break;
        double p = cst_lower_error_p(errors, rows);
        *least = fmin(*least, p * fitted->members);
        json_t *item = cst_report_add_object(report, list);
        cst_report_string(report, item, "member", cst_pool_member_name(work->pool, k));
        cst_report_number(report, item, "oof_error", (double)errors[0] / (double)rows[0]);
        cst_report_number(report, item, "error", (double)errors[1] / (double)rows[1]);
        cst_report_number(report, item, "p", p);
    }
    return status;
}

static int by_name(const void *a, const void *b) {
    const char *const *x = a;
    const char *const *y = b;
    return strcmp(*x, *y);
}

/* Ids that both splits have; -1 where one has none. */
static cst_status shared_ids(cst_context *context, const cst_bound_work *work, int64_t fitted,
                             int64_t *shared) {
    *shared = -1;
    if (!cst_pool_id(work->pool, "oof", 0) || !cst_pool_id(work->pool, work->split, 0))
        return CST_OK;
    char **ids = cst_alloc(context, (size_t)fitted, sizeof *ids);
    cst_status status = ids ? CST_OK : CST_ERROR_MEMORY;
    int64_t known = 0;
    for (; status == CST_OK && known < fitted; known++)
        if (!(ids[known] = cst_strdup(context, cst_pool_id(work->pool, "oof", known))))
            status = CST_ERROR_MEMORY;
    if (status == CST_OK) {
        *shared = 0;
        qsort(ids, (size_t)fitted, sizeof *ids, by_name);
        for (int64_t i = 0; i < work->rows; i++) {
            const char *id = cst_pool_id(work->pool, work->split, i);
            *shared += bsearch(&id, ids, (size_t)fitted, sizeof *ids, by_name) != NULL;
        }
    }
    for (int64_t i = 0; ids && i < known; i++)
        cst_free(context, ids[i]);
    cst_free(context, ids);
    return status;
}

/* What rows, ids and groups say of where predictions came from. *found: a leak. */
static cst_status structure(cst_context *context, const cst_bound_work *work,
                            const cst_view *fitted, cst_report *report, json_t *object,
                            bool *found) {
    cst_shared_rows rows;
    int64_t ids = -1;
    int64_t split = 0;
    const int64_t *groups = cst_pool_groups(work->pool, "oof");
    const int32_t *folds = cst_pool_folds(work->pool, "oof");
    bool known = groups && folds;
    CST_TRY(cst_shared_rows_of(context, fitted, &work->view, work->seed, &rows));
    CST_TRY(shared_ids(context, work, fitted->rows, &ids));
    if (known)
        CST_TRY(cst_split_groups(context, groups, folds, fitted->rows, &split));
    cst_report_integer(report, object, "oof_samples", fitted->rows);
    cst_report_integer(report, object, "shared_rows", rows.shared);
    cst_report_integer(report, object, "repeated_rows", rows.repeated);
    cst_report_number(report, object, "shared_p", rows.p);
    if (ids < 0)
        cst_report_number(report, object, "shared_ids", NAN);
    else
        cst_report_integer(report, object, "shared_ids", ids);
    if (known)
        cst_report_integer(report, object, "split_groups", split);
    else
        cst_report_number(report, object, "split_groups", NAN);
    *found = rows.p <= LEVEL || ids > 0 || split > 0;
    return CST_OK;
}

static cst_status permute(cst_context *context, const cst_bound_work *work, const cst_view *fitted,
                          cst_permuted *out) {
    size_t members = (size_t)fitted->members;
    size_t count = 0;
    while (cst_model_setting(work->model, count))
        count++;
    CST_SCOPE(scope);
    CST_NEW(context, scope, const char *, names, members);
    CST_NEW(context, scope, const char *, settings, count + 1);
    for (size_t k = 0; k < members; k++)
        names[k] = cst_pool_member_name(work->pool, (int32_t)k);
    for (size_t i = 0; i < count; i++)
        settings[i] = cst_model_setting(work->model, i);
    return cst_permuted_fit(context, fitted, names, settings, count, PERMUTED_ROWS, work->seed,
                            out);
}

static void put_permuted(cst_report *report, json_t *object, const cst_permuted *permuted) {
    json_t *item = cst_report_object(report, object, "permuted");
    cst_report_integer(report, item, "samples", permuted->samples);
    cst_report_number(report, item, "chance", permuted->chance);
    cst_report_number(report, item, "top1", permuted->top1);
    cst_report_number(report, item, "p", permuted->p);
    cst_report_number(report, item, "seen_top1", permuted->seen_top1);
    cst_report_number(report, item, "seen_p", permuted->seen_p);
}

cst_status cst_bound_leakage(cst_context *context, const cst_bound_work *work, cst_report *report) {
    cst_view fitted;
    cst_permuted permuted;
    bool shared = false;
    double least = 1;
    if (strcmp(work->split, "oof") == 0)
        return cst_fail(context, CST_ERROR_INPUT,
                        "leaks are looked for between split 'oof' and another split, but the "
                        "scored split is 'oof' itself (the rows of a list of files are 'oof'); "
                        "write a manifest with both splits");
    if (!cst_pool_has_split(work->pool, "oof") || cst_pool_conditions(work->pool, "oof") > 0)
        return cst_fail(context, CST_ERROR_INPUT,
                        "leaks are looked for between split '%s' and the out-of-fold rows, but the "
                        "pool has no split 'oof' with a single condition",
                        work->split);
    cst_status status = cst_pool_load(context, work->pool, "oof");
    CST_THEN(cst_pool_view(context, work->pool, "oof", &fitted));
    if (status == CST_OK && !fitted.labels)
        status = cst_fail(context, CST_ERROR_INPUT, "split 'oof' has no labels to permute");
    CST_THEN(permute(context, work, &fitted, &permuted));
    if (status != CST_OK)
        return status;
    json_t *object = cst_report_object(report, cst_report_root(report), "leakage");
    status = structure(context, work, &fitted, report, object, &shared);
    CST_THEN(compare_members(context, work, &fitted, report, object, &least));
    if (status == CST_OK) {
        put_permuted(report, object, &permuted);
        cst_report_flag(report, object, "rows_leak", shared);
        cst_report_flag(report, object, "members_leak", least <= LEVEL);
        cst_report_flag(report, object, "fit_leaks", permuted.p < LEVEL);
        if (shared || least <= LEVEL || permuted.p < LEVEL)
            cst_notice(context, "there are signs of a leak: see 'leakage'");
    }
    return status;
}
