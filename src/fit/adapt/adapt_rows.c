/* Members by name, and the rows of a split that were asked for. See the header. */
#include "fit/adapt/adapt_rows.h"
#include "data/pool/pool.h"

static cst_status check(cst_context *context, const cst_model *model, const cst_pool *pool,
                        const char *split) {
    if (model->task != CST_TASK_CLASSIFICATION || cst_pool_task(pool) != CST_TASK_CLASSIFICATION)
        return cst_fail(context, CST_ERROR_UNSUPPORTED,
                        "adaptation is for classification only: the model's task is %s, the pool's "
                        "task is %s",
                        cst_task_name(model->task), cst_task_name(cst_pool_task(pool)));
    if (model->adapted)
        return cst_fail(context, CST_ERROR_UNSUPPORTED,
                        "the model was adapted to %lld rows before; adapt the model that it was "
                        "made from, to all labelled rows together",
                        (long long)model->adapted->rows);
    if (!cst_pool_has_split(pool, split))
        return cst_fail_split(context, CST_ERROR_INPUT, pool, split);
    if (cst_pool_misses(pool))
        return cst_fail(context, CST_ERROR_UNSUPPORTED,
                        "adaptation is not supported with --missing allow: it needs rows that "
                        "every member predicted");
    for (int32_t k = 0; k < cst_model_inputs(model); k++) {
        int32_t at = cst_pool_member_index(pool, cst_model_input_name(model, k));
        if (at < 0 || !cst_pool_member_has_split(pool, at, split))
            return cst_fail(context, CST_ERROR_MISMATCH,
                            "the model needs member '%s', which the pool does not have for split "
                            "'%s'; adaptation needs every member of the model",
                            cst_model_input_name(model, k), split);
    }
    if (cst_pool_conditions(pool, split) > 0)
        return cst_fail(context, CST_ERROR_UNSUPPORTED,
                        "split '%s' has several conditions; name a split without conditions",
                        split);
    return CST_OK;
}

/* The model's members, then the others that have the split. */
static cst_status find_members(cst_context *context, const cst_model *model, cst_pool *pool,
                               const char *split, int32_t **position, int32_t *count) {
    int32_t members = cst_pool_members(pool);
    int32_t *list = cst_alloc(context, (size_t)members + (size_t)model->members, sizeof *list);
    bool *taken = cst_alloc(context, (size_t)members, sizeof *taken);
    *position = list;
    *count = 0;
    cst_status status = list && taken ? CST_OK : CST_ERROR_MEMORY;
    for (int32_t k = 0; status == CST_OK && k < model->members; k++) {
        list[(*count)++] = cst_pool_member_index(pool, model->member_names[k]);
        taken[list[k]] = true; /* cst_model_view has seen that it is there */
    }
    for (int32_t k = 0; status == CST_OK && k < members; k++)
        if (!taken[k] && cst_pool_member_has_split(pool, k, split))
            list[(*count)++] = k;
    cst_free(context, taken);
    CST_THEN(cst_pool_load_members(context, pool, split, list, *count));
    return status;
}

static cst_status check_label(cst_context *context, const cst_model *model, int64_t row,
                              int32_t label) {
    if (label >= 0 && label < model->classes)
        return CST_OK;
    return cst_fail(context, CST_ERROR_INPUT,
                    "the label %d of row %lld is no class: there are %d, numbered from 0",
                    (int)label, (long long)row, (int)model->classes);
}

/* rows [count] of the split as a view with an index. */
static cst_status pick(cst_context *context, const cst_model *model, const cst_pool *pool,
                       const char *split, const int64_t *rows, const int32_t *labels, int64_t count,
                       cst_adapt_rows *out) {
    int64_t all = out->view.rows;
    const int64_t *groups = cst_pool_groups(pool, split);
    bool *taken = cst_alloc(context, (size_t)all, sizeof *taken);
    out->index = cst_alloc(context, (size_t)count, sizeof *out->index);
    out->labels = cst_alloc(context, labels ? (size_t)all : 0, sizeof *out->labels);
    out->own_groups = cst_alloc(context, groups ? (size_t)count : 0, sizeof *out->own_groups);
    cst_status status =
        taken && out->index && out->labels && out->own_groups ? CST_OK : CST_ERROR_MEMORY;
    for (int64_t i = 0; status == CST_OK && i < count; i++) {
        if (rows[i] < 0 || rows[i] >= all)
            status = cst_fail(context, CST_ERROR_INPUT,
                              "row %lld is not in split '%s', which has %lld rows, numbered from 0",
                              (long long)rows[i], split, (long long)all);
        else if (taken[rows[i]])
            status = cst_fail(context, CST_ERROR_INPUT, "row %lld of split '%s' is named twice",
                              (long long)rows[i], split);
        if (status == CST_OK && labels)
            status = check_label(context, model, rows[i], labels[i]);
        if (status != CST_OK)
            break;
        taken[rows[i]] = true;
        out->index[i] = rows[i];
        if (labels)
            out->labels[rows[i]] = labels[i];
        if (groups)
            out->own_groups[i] = groups[rows[i]];
    }
    cst_free(context, taken);
    out->view.rows = count;
    out->view.index = out->index;
    out->view.weights = NULL; /* rows that were named count alike */
    out->groups = groups ? out->own_groups : NULL;
    if (labels)
        out->view.labels = out->labels;
    return status;
}

cst_status cst_adapt_rows_open(cst_context *context, const cst_model *model, cst_pool *pool,
                               const char *split, const int64_t *rows, const int32_t *labels,
                               int64_t count, bool labelled, cst_adapt_rows *out) {
    *out = (cst_adapt_rows){0};
    cst_view view = {0};
    int32_t members = 0;
    cst_status status = check(context, model, pool, split);
    if (status == CST_OK) /* compares classes, and refuses where a member is not there */
        status = cst_model_view(context, model, pool, split, &out->pointers, &view);
    cst_free(context, out->pointers);
    out->pointers = NULL;
    CST_THEN(find_members(context, model, pool, split, &out->position, &members));
    if (status == CST_OK && labelled && !rows) {
        status = cst_counted_open(context, pool, split, out->position, members, &out->counted);
        out->view = out->counted.view;
        out->groups = out->counted.groups;
    } else if (status == CST_OK) {
        out->pointers = cst_alloc(context, (size_t)members, sizeof *out->pointers);
        status = out->pointers ? cst_pool_view_members(context, pool, split, out->position, members,
                                                       out->pointers, &out->view)
                               : CST_ERROR_MEMORY;
        if (rows)
            CST_THEN(pick(context, model, pool, split, rows, labels, count, out));
    }
    if (status == CST_OK && labelled && !out->view.labels)
        status = cst_fail(context, CST_ERROR_INPUT,
                          "split '%s' has no labels, which an adaptation learns from", split);
    return status;
}

void cst_adapt_rows_close(cst_context *context, cst_adapt_rows *rows) {
    cst_counted_close(context, &rows->counted);
    cst_free(context, rows->position);
    cst_free(context, (void *)rows->pointers);
    cst_free(context, rows->labels);
    cst_free(context, rows->index);
    cst_free(context, rows->own_groups);
    *rows = (cst_adapt_rows){0};
}
