/* Prediction of arrays in one call, and on a split of a pool: members matched by name, classes
 * compared, only the members that the model needs loaded. */
#include "data/pool/pool.h"

#include "data/readers/strings.h"
#include "model/absent.h"
#include "model/guard.h"
#include "model/predict.h"
#include "model/stack.h"

#include <string.h>

static cst_status check_classes(cst_context *context, const cst_model *model,
                                const cst_pool *pool) {
    bool values = cst_task_has_outputs(model->task);
    if ((values || cst_task_has_outputs(cst_pool_task(pool))) && model->task != cst_pool_task(pool))
        return cst_fail(context, CST_ERROR_MISMATCH,
                        "the model was fitted for %s, but the task of the pool is %s",
                        cst_task_text(model->task), cst_task_text(cst_pool_task(pool)));
    if (cst_pool_classes(pool) != model->classes)
        return cst_fail(context, CST_ERROR_MISMATCH, "the model has %d %s, but the pool has %d",
                        (int)model->classes, values ? "outputs" : "classes",
                        (int)cst_pool_classes(pool));
    for (int32_t c = 0; c < model->classes; c++) {
        const char *ours = cst_model_class_name(model, c);
        const char *theirs = cst_pool_class_name(pool, c);
        if (ours && theirs && strcmp(ours, theirs) != 0)
            return cst_fail(context, CST_ERROR_MISMATCH,
                            "%s %d (counted from 0) is '%s' in the model, but '%s' in the pool; "
                            "both must list the same %s in the same order",
                            values ? "output" : "class", (int)c, ours, theirs,
                            values ? "outputs" : "classes");
    }
    return CST_OK;
}

cst_status cst_model_check_names(cst_context *context, const cst_model *model, const cst_pool *pool,
                                 const char *split) {
    const char *other = cst_pool_member_name(pool, 0);
    bool named = false;
    if (!cst_pool_has_split(pool, split))
        return CST_OK; /* said by who reads it */
    for (int32_t k = 0; k < cst_model_inputs(model); k++) {
        int32_t at = cst_pool_member_index(pool, cst_model_input_name(model, k));
        if (at >= 0 && cst_pool_member_has_split(pool, at, split))
            return CST_OK;
        named = named || at >= 0;
    }
    if (named)
        return cst_fail(context, CST_ERROR_MISMATCH,
                        "the pool has predictions of no member of the model for split '%s': add "
                        "their files for that split, or choose another one with --split",
                        split);
    return cst_fail(context, CST_ERROR_MISMATCH,
                    "the pool has predictions of no member of the model for split '%s': the model "
                    "needs '%.100s'%s, and the pool has '%.100s'%s; members are matched by name, "
                    "so give the files (or columns) the names that they had in the fit",
                    split, cst_model_input_name(model, 0),
                    cst_model_inputs(model) > 1 ? " etc." : "", other ? other : "",
                    cst_pool_members(pool) > 1 ? " etc." : "");
}

/* Positions of the model's members in the pool. */
static cst_status match_members(cst_context *context, const cst_model *model, const cst_pool *pool,
                                const char *split, int32_t *positions) {
    const char *hint =
        model->task == CST_TASK_TOPK ? "" : "; predict without it with --missing allow";
    for (int32_t k = 0; k < cst_model_inputs(model); k++) {
        const char *name = cst_model_input_name(model, k);
        positions[k] = cst_pool_member_index(pool, name);
        if (cst_pool_misses(pool))
            continue;
        if (positions[k] < 0)
            return cst_fail(context, CST_ERROR_MISMATCH,
                            "the model needs member '%s', which is not in the pool%s", name, hint);
        if (!cst_pool_member_has_split(pool, positions[k], split))
            return cst_fail(context, CST_ERROR_MISMATCH,
                            "the model needs member '%s', but the pool has no predictions of it "
                            "for split '%s'%s",
                            name, split, hint);
    }
    return CST_OK;
}

/* Loads the members that are in the pool. */
static cst_status load_there(cst_context *context, cst_pool *pool, const char *split,
                             const int32_t *positions, int32_t count) {
    CST_SCOPE(scope);
    CST_NEW(context, scope, int32_t, there, count);
    int32_t found = 0;
    for (int32_t k = 0; k < count; k++)
        if (positions[k] >= 0 && cst_pool_member_has_split(pool, positions[k], split))
            there[found++] = positions[k];
    return cst_pool_load_members(context, pool, split, there, found);
}

cst_status cst_model_view(cst_context *context, cst_scope *made, const cst_model *model,
                          cst_pool *pool, const char *split, cst_view *out) {
    if (!cst_pool_has_split(pool, split))
        return cst_fail_split(context, CST_ERROR_MISMATCH, pool, split);
    if (model->class_names && cst_pool_classes(pool) == model->classes)
        CST_TRY(cst_pool_order_classes(context, pool, (const char *const *)model->class_names));
    CST_TRY(check_classes(context, model, pool));
    CST_TRY(cst_model_check_names(context, model, pool, split));
    int32_t members = cst_model_inputs(model);
    CST_SCOPE(scope);
    CST_NEW(context, scope, int32_t, positions, members);
    CST_NEW(context, made, const float *, pointers, members);
    CST_TRY(match_members(context, model, pool, split, positions));
    CST_TRY(load_there(context, pool, split, positions, members));
    return cst_pool_view_there(context, pool, split, positions, members, pointers, out);
}

cst_status cst_model_view_tell(cst_context *context, const cst_model *model, const char *split,
                               const cst_view *view) {
    size_t members = (size_t)view->members;
    CST_SCOPE(scope);
    CST_NEW(context, scope, uint8_t, there, members);
    CST_NEW(context, scope, const uint8_t *, present, members);
    int64_t rows = 0;
    for (int32_t k = 0; k < view->members; k++) {
        there[k] = view->data[k] != NULL;
        present[k] = there[k] ? cst_view_present(view, k) : NULL;
    }
    for (int64_t i = 0; view->presence && i < view->rows; i++) {
        bool whole = true;
        for (int32_t k = 0; k < view->members; k++)
            whole = whole && cst_view_is_there(view, present[k], i);
        rows += !whole;
    }
    cst_absent_tell(context, model, split, there);
    if (rows > 0)
        cst_notice(context, "split '%s': %lld of %lld rows were not predicted by every member%s",
                   split, (long long)rows, (long long)view->rows,
                   model->refits ? "; for them the weights of the others were computed again" : "");
    return CST_OK;
}

/* guard: NULL: no guard; report: NULL: it is not asked for. */
static cst_status predict_split(cst_context *context, const cst_model *model, cst_pool *pool,
                                const char *split, bool strict, const cst_guard *guard, float **out,
                                int64_t *rows, cst_guard_report **report) {
    CST_SCOPE(scope);
    if (model->task == CST_TASK_TOPK)
        return cst_fail(context, CST_ERROR_UNSUPPORTED,
                        "the model predicts lists of the likeliest classes, not rows of "
                        "probabilities: use cst_model_predict_topk");
    cst_guard_report *found = NULL;
    cst_view view = {0};
    float *result = NULL;
    size_t cells = 0;
    cst_status status = cst_model_view(context, scope, model, pool, split, &view);
    if (status == CST_OK) {
        if (!cst_size_mul((size_t)view.rows, (size_t)view.classes, &cells))
            status = cst_fail(context, CST_ERROR_LIMIT, "%lld rows of %d classes are too many",
                              (long long)view.rows, (int)view.classes);
        else if (!(result = cst_alloc(context, cells, sizeof *result)))
            status = CST_ERROR_MEMORY;
        else
            status = strict ? cst_stack_predict_reported(context, model, &view, result)
                            : cst_stack_predict(context, model, &view, result);
    }
    CST_THEN(cst_model_view_tell(context, model, split, &view));
    if (status == CST_OK)
        cst_model_domains_tell(context, model, split, &view);
    if (status == CST_OK && guard)
        status = cst_guard_split(context, model, pool, split, &view, guard, result, &found);
    if (status == CST_OK) {
        *out = result;
        *rows = view.rows;
        result = NULL;
    }
    if (status == CST_OK && report) {
        *report = found;
        found = NULL;
    }
    cst_guard_report_free(context, found);
    cst_free(context, result);
    return status;
}

cst_status cst_stack_predict_pool(cst_context *context, const cst_model *model, cst_pool *pool,
                                  const char *split, bool strict, float **out, int64_t *rows) {
    return predict_split(context, model, pool, split, strict, NULL, out, rows, NULL);
}

static const cst_guard DEFAULT_GUARD = {.mode = CST_GUARD_WARN, .batch = 0};

cst_status cst_model_predict_guarded(cst_context *context, const cst_model *model, cst_pool *pool,
                                     const char *split, const cst_guard *guard_given, float **out,
                                     int64_t *rows, cst_guard_report **report) {
    CST_CLEAR(out);
    CST_CLEAR(rows);
    CST_CLEAR(report);
    CST_ENTER(context);
    CST_STRUCT(context, cst_guard, guard, guard_given);
    if (!model || !pool || !split || !out || !rows ||
        (guard &&
         (guard->batch < 0 || guard->mode < CST_GUARD_OFF || guard->mode > CST_GUARD_AUTO)))
        return cst_fail(context, CST_ERROR_ARGUMENT,
                        "cst_model_predict_guarded: model, pool, split, outputs, a mode of the "
                        "guard and a batch >= 0 are required");
    return cst_why(context, predict_split(context, model, pool, split, true,
                                          guard ? guard : &DEFAULT_GUARD, out, rows, report));
}

cst_status cst_model_predict_pool(cst_context *context, const cst_model *model, cst_pool *pool,
                                  const char *split, float **out, int64_t *rows) {
    CST_CLEAR(out);
    CST_CLEAR(rows);
    CST_ENTER(context);
    if (!model || !pool || !split || !out || !rows)
        return cst_fail(context, CST_ERROR_ARGUMENT,
                        "cst_model_predict_pool: model, pool, split and outputs are required");
    return cst_why(
        context, predict_split(context, model, pool, split, true, &DEFAULT_GUARD, out, rows, NULL));
}

/* ---- domains ---- */

/* Says which rows get none of the model's scales and biases of domains. split: NULL for arrays. */
void cst_model_domains_tell(cst_context *context, const cst_model *model, const char *split,
                            const cst_view *view) {
    enum { NAMED = 5 };
    char names[NAMED * 44] = "";
    char where[320] = "";
    const cst_domains *domains = view->domains;
    int64_t rows = 0;
    int32_t unknown = 0;
    if (!model->domains)
        return;
    if (split)
        (void)cst_snprintf(where, sizeof where, "split '%.255s': ", split);
    if (!domains) {
        cst_notice(context,
                   "%sthe rows have no domains, and the model has scales and biases of %d domains: "
                   "all rows get the common ones (give the domains with --domains, or a column "
                   "'domain')",
                   where, (int)model->domains->count);
        return;
    }
    for (int64_t i = 0; i < view->rows; i++) {
        int32_t d = cst_view_domain(view, i);
        rows += d < 0 || cst_domain_find(model->domains->names, model->domains->count,
                                         domains->names[d]) < 0;
    }
    for (int32_t d = 0; d < domains->count; d++) {
        char quoted[CST_QUOTE_CHARS];
        size_t used = strlen(names);
        if (cst_domain_find(model->domains->names, model->domains->count, domains->names[d]) >= 0)
            continue;
        if (unknown++ < NAMED)
            (void)cst_snprintf(names + used, sizeof names - used, "%s'%.40s'", used ? ", " : "",
                               cst_quote(quoted, domains->names[d]));
    }
    if (rows > 0 && unknown == 0)
        cst_notice(context,
                   "%s%lld of %lld rows have no domain: they get the common scale and biases",
                   where, (long long)rows, (long long)view->rows);
    else if (rows > 0)
        cst_notice(
            context,
            "%s%lld of %lld rows get the common scale and biases: the model does not know %s "
            "(%s%s)",
            where, (long long)rows, (long long)view->rows,
            unknown == 1 ? "their domain" : "their domains", names, unknown > NAMED ? ", ..." : "");
}

cst_status cst_model_predict(cst_context *context, const cst_model *model,
                             const float *const *predictions, int64_t rows, float *out) {
    CST_ENTER(context);
    if (!model)
        return cst_fail(context, CST_ERROR_ARGUMENT,
                        "cst_model_predict: context and model are required");
    CST_TRY(cst_predict_arguments(context, __func__, model, predictions, NULL, rows, out));
    cst_view view = {.rows = rows,
                     .classes = model->classes,
                     .members = cst_model_inputs(model),
                     .data = predictions};
    if (rows > 0)
        cst_model_domains_tell(context, model, NULL, &view);
    return cst_why(context, cst_predict_with(context, model, -1, &view, true, true, out));
}
