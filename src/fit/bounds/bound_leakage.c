/* Looks for leaks between the rows of the fit and the split. */
#include "data/checks/checks.h"
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

/* Rows of a view that a member gets wrong. */
static cst_status errors_of(cst_context *context, const cst_view *view, int32_t member,
                            int64_t *errors) {
    cst_samples samples;
    CST_SCOPE(scope);
    CST_TRY(cst_samples_of(context, scope, view, member, false, &samples));
    *errors = 0;
    for (int64_t i = 0; i < view->rows; i++)
        *errors += samples.correct[i] == 0;
    return CST_OK;
}

/* Each member's errors on both splits. *least: the smallest p times the members. */
static cst_status compare_members(cst_context *context, const cst_bound_work *work,
                                  const cst_view *fitted, cst_report *report, json_t *object,
                                  double *least) {
    json_t *list = cst_report_list(report, object, "members");
    const int64_t rows[2] = {fitted->rows, work->rows};
    *least = 1;
    for (int32_t k = 0; k < fitted->members; k++) {
        int64_t errors[2];
        CST_TRY(errors_of(context, fitted, k, &errors[0]));
        CST_TRY(errors_of(context, &work->view, k, &errors[1]));
        double p = cst_lower_error_p(errors, rows);
        *least = fmin(*least, p * fitted->members);
        json_t *item = cst_report_add_object(report, list);
        CST_PUT(report, item, CST_S("member", cst_pool_member_name(work->pool, k)),
                CST_N("oof_error", (double)errors[0] / (double)rows[0]),
                CST_N("error", (double)errors[1] / (double)rows[1]), CST_N("p", p));
    }
    return CST_OK;
}

/* Ids that both splits have; -1 where one has none. */
static cst_status shared_ids(cst_context *context, const cst_bound_work *work, int64_t fitted,
                             int64_t *shared) {
    *shared = -1;
    if (!cst_pool_id(work->pool, "oof", 0) || !cst_pool_id(work->pool, work->split, 0))
        return CST_OK;
    CST_SCOPE(scope);
    CST_NEW(context, scope, char *, ids, fitted);
    for (int64_t i = 0; i < fitted; i++)
        if (!(ids[i] = cst_take_text(context, scope, cst_pool_id(work->pool, "oof", i))))
            return CST_ERROR_MEMORY;
    *shared = 0;
    qsort(ids, (size_t)fitted, sizeof *ids, cst_by_text);
    for (int64_t i = 0; i < work->rows; i++) {
        const char *id = cst_pool_id(work->pool, work->split, i);
        *shared += bsearch(&id, ids, (size_t)fitted, sizeof *ids, cst_by_text) != NULL;
    }
    return CST_OK;
}

static void put_where(cst_report *report, json_t *object, const char *key, bool known,
                      int64_t value) {
    cst_report_value(report, object, key, known ? json_integer(value) : json_null());
}

/* What rows, ids and groups say of where predictions came from. *found: a leak. */
static cst_status structure(cst_context *context, const cst_bound_work *work,
                            const cst_view *fitted, cst_report *report, json_t *object,
                            bool *found) {
    cst_shared_rows rows;
    int64_t ids = -1;
    cst_split_groups split = {0};
    const int64_t *groups = cst_pool_groups(work->pool, "oof");
    const int32_t *folds = cst_pool_folds(work->pool, "oof");
    bool known = groups && folds;
    CST_TRY(cst_shared_rows_of(context, fitted, &work->view, work->seed, &rows));
    CST_TRY(shared_ids(context, work, fitted->rows, &ids));
    if (known)
        CST_TRY(cst_split_groups_of(context, groups, NULL, folds, fitted->rows, &split));
    CST_PUT(report, object, CST_I("oof_samples", fitted->rows), CST_I("shared_rows", rows.shared),
            CST_I("repeated_rows", rows.repeated), CST_N("shared_p", rows.p));
    put_where(report, object, "shared_ids", ids >= 0, ids);
    put_where(report, object, "split_groups", known, split.split);
    *found = rows.p <= LEVEL || ids > 0 || split.split > 0;
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
    CST_PUT(report, item, CST_I("samples", permuted->samples), CST_N("chance", permuted->chance),
            CST_N("top1", permuted->top1), CST_N("p", permuted->p),
            CST_N("seen_top1", permuted->seen_top1), CST_N("seen_p", permuted->seen_p));
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
    CST_TRY(cst_pool_load(context, work->pool, "oof"));
    CST_TRY(cst_pool_view(context, work->pool, "oof", &fitted));
    if (!fitted.labels)
        return cst_fail(context, CST_ERROR_INPUT, "split 'oof' has no labels to permute");
    CST_TRY(permute(context, work, &fitted, &permuted));
    json_t *object = cst_report_object(report, cst_report_root(report), "leakage");
    CST_TRY(structure(context, work, &fitted, report, object, &shared));
    CST_TRY(compare_members(context, work, &fitted, report, object, &least));
    put_permuted(report, object, &permuted);
    CST_PUT(report, object, CST_B("rows_leak", shared), CST_B("members_leak", least <= LEVEL),
            CST_B("fit_leaks", permuted.p < LEVEL));
    if (shared || least <= LEVEL || permuted.p < LEVEL)
        cst_notice(context, "there are signs of a leak: see 'leakage'");
    return CST_OK;
}
