/*
 * A pool from arrays in memory: small ones are converted once, large ones are read where they lie,
 * block by block. The first call of programs that bring no files. docs/method.md#s0-rows-folds-ids.
 */
#include "core/ranks.h"
#include "core/utf8.h"
#include "data/pool/topk.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

/* One member as the caller has it. */
typedef struct source {
    cst_array array;
    cst_npy element; /* says how an element is decoded; nothing else of it is used */
    cst_convert convert;
    const cst_pool_split *split; /* where rows may be absent; else NULL */
} source;

static size_t item_of(cst_number type) {
    return type == CST_NUMBER_FLOAT64 ? 8 : type == CST_NUMBER_FLOAT16 ? 2 : 4;
}

/* Numbers of a row of a member, and of one that is converted. */
static int32_t width_of(const cst_pool_arrays *a, int64_t member) {
    if (a->task == CST_TASK_TOPK)
        return (int32_t)(2 * a->listed[member] + 1);
    return (int32_t)(a->columns > 0 ? a->columns : a->classes);
}

static int64_t converted_width(const cst_pool_arrays *a) {
    int64_t most = a->task == CST_TASK_TOPK ? 0 : a->classes;
    for (int64_t k = 0; a->task == CST_TASK_TOPK && k < a->members; k++)
        most = 2 * a->listed[k] > most ? 2 * a->listed[k] : most;
    return most;
}

static const unsigned char *element_at(const source *s, int64_t row, int64_t column) {
    return (const unsigned char *)s->array.data + row * s->array.row_step +
           column * s->array.column_step;
}

/* Whether rows are float32 that can be used where they are. */
static bool is_plain(const source *s) {
    return s->array.type == CST_NUMBER_FLOAT32 && s->array.column_step == (int64_t)sizeof(float) &&
           s->array.row_step % (int64_t)sizeof(float) == 0 &&
           (uintptr_t)s->array.data % sizeof(float) == 0;
}

static cst_status gather(cst_context *context, const void *user, int64_t first, int64_t count,
                         unsigned char *raw) {
    const source *s = user;
    (void)context;
    size_t item = s->element.item;
    size_t width = (size_t)s->convert.width;
    for (int64_t i = 0; i < count; i++) {
        const unsigned char *from = element_at(s, first + i, 0);
        unsigned char *to = raw + (size_t)i * width * item;
        if (s->array.column_step == (int64_t)item) {
            memcpy(to, from, width * item);
            continue;
        }
        for (size_t j = 0; j < width; j++, from += s->array.column_step, to += item)
            switch (item) {
            case 2:
                memcpy(to, from, 2);
                break;
            case 8:
                memcpy(to, from, 8);
                break;
            default:
                memcpy(to, from, 4);
            }
    }
    return CST_OK;
}

static const float *plain_row(const void *user, int64_t row) {
    return (const float *)(const void *)element_at(user, row, 0);
}

static cst_pieces pieces_of(const source *s) {
    return (cst_pieces){.element = &s->element,
                        .narrow = cst_npy_is_f32(&s->element),
                        .convert = s->convert,
                        .source = s,
                        .fetch = gather,
                        .plain = is_plain(s) ? plain_row : NULL,
                        .split = s->split};
}

/* An entry's read: any rows, from any thread. */
static cst_status read_source(cst_context *context, const void *user, int64_t first, int64_t count,
                              float *out) {
    cst_pieces pieces = pieces_of(user);
    return cst_pieces_read(context, &pieces, first, count, out);
}

/* ---- members ---- */

typedef struct take_job {
    cst_pool *pool;
    const cst_pool_arrays *arrays;
} take_job;

static cst_status take_member(cst_context *worker, void *user, int64_t task) {
    const take_job *job = user;
    cst_pool *pool = job->pool;
    cst_pool_split *split = &pool->splits[0];
    const cst_array *array = &job->arrays->predictions[task];
    source from = {.array = *array,
                   .element = {.kind = CST_NPY_FLOAT, .item = item_of(array->type)},
                   .convert = {.where = pool->manifest->members[task].name,
                               .classes = cst_pool_width(pool),
                               .width = width_of(job->arrays, task),
                               .listed_of = pool->listed > 0 ? pool->classes : 0,
                               .values = cst_task_has_outputs(pool->task),
                               .independent = pool->task == CST_TASK_MULTILABEL,
                               .missing = pool->missing,
                               .logits = pool->logits},
                   .split = pool->missing ? split : NULL};
    size_t values = 0;
    cst_scope *own = &split->own[task];
    if (!cst_size_mul((size_t)split->rows, (size_t)cst_pool_width(pool), &values))
        return cst_fail(worker, CST_ERROR_LIMIT, "%s: too many values", from.convert.where);
    if (pool->missing)
        CST_TRY(cst_pool_start_present(worker, split, (int32_t)task, split->rows));
    float *data = NULL;
    source *kept = &from;
    if (!split->store) {
        CST_TAKE(worker, own, data, values);
        split->data[task] = data;
    } else {
        CST_TAKE(worker, own, kept, 1);
        *kept = from;
        split->store->entries[task] = (cst_store_entry){.source = kept, .read = read_source};
        split->data[task] = cst_store_place(split->store, (int32_t)task);
    }
    cst_pieces pieces = pieces_of(kept);
    const cst_pieces_out to = {.memory = data, .present = split->present[task]};
    CST_TRY(cst_pieces_all(worker, &pieces, split->rows, &to));
    cst_pool_settle_present(worker, split, (int32_t)task, split->rows);
    return split->store && split->present[task] /* they can be filled in there */
               ? cst_store_copy(worker, own, split->store, (int32_t)task, from.convert.where,
                                split->rows)
               : CST_OK;
}

/* ---- what stands beside them ---- */

/* A copy of values [count], of the split's scope; NULL stays NULL. */
static cst_status copy_values(cst_context *context, cst_pool_split *split, const void *values,
                              size_t count, size_t each, const void **out) {
    void *copy = values ? cst_take(context, &split->scope, count, each) : NULL;
    *out = copy;
    if (!values)
        return CST_OK;
    if (!copy)
        return CST_ERROR_MEMORY;
    memcpy(copy, values, count * each);
    return CST_OK;
}

static cst_status check_labels(cst_context *context, const int32_t *labels, int64_t rows,
                               int32_t classes, bool single) {
    int32_t lowest = INT32_MAX;
    int32_t highest = INT32_MIN;
    for (int64_t i = 0; i < rows; i++) {
        lowest = labels[i] < lowest ? labels[i] : lowest;
        highest = labels[i] > highest ? labels[i] : highest;
    }
    for (int64_t i = 0; i < rows; i++)
        if (labels[i] < 0 || labels[i] >= classes)
            return cst_fail(
                context, CST_ERROR_INPUT,
                "labels: row %" PRId64 " is label %d; labels must be 0 to %d (%d classes)%s", i,
                labels[i], classes - 1, classes,
                single && lowest == 0 ? "; the predictions are one column, which is the "
                                        "probability of class 1 of two"
                                      : cst_pool_label_hint(lowest, highest, classes));
    return CST_OK;
}

/* Labels [cells] of 0 and 1, or unknown: -1 becomes NaN. */
static cst_status take_known(cst_context *context, double *labels, size_t cells, size_t outputs) {
    for (size_t i = 0; i < cells; i++)
        if (!cst_take_label(&labels[i]))
            return cst_fail(context, CST_ERROR_INPUT,
                            "labels: row %zu, label %zu is %g; labels must be 0 or 1, or -1 or NaN "
                            "where not known",
                            i / outputs, i % outputs, labels[i]);
    return CST_OK;
}

static cst_status check_targets(cst_context *context, const double *targets, size_t cells,
                                size_t outputs) {
    for (size_t i = 0; i < cells; i++)
        if (!isfinite(targets[i]))
            return cst_fail(context, CST_ERROR_INPUT,
                            "targets: row %zu, output %zu is %g; every target must be a finite "
                            "number",
                            i / outputs, i % outputs, targets[i]);
    return CST_OK;
}

static cst_status take_folds(cst_context *context, const cst_pool *pool, cst_pool_split *split,
                             const int64_t *given) {
    int32_t *folds;
    for (int64_t i = 0; i < split->rows; i++)
        if (given[i] < 0 && !pool->missing)
            return cst_fail(context, CST_ERROR_INPUT,
                            "folds: row %" PRId64 " is fold %" PRId64
                            "; folds are numbered from 0, and every row needs one; rows without a "
                            "fold are left "
                            "out of a fit with missing=\"allow\"",
                            i, given[i]);
    if (split->rows > INT32_MAX)
        return cst_fail(context, CST_ERROR_LIMIT, "folds: more than 2^31 rows with folds");
    CST_TAKE(context, &split->scope, folds, split->rows);
    split->beside.folds = folds;
    return cst_pool_renumber(context, given, NULL, split->rows, folds);
}

/* Labels, folds, weights and the like. */
static cst_status take_beside(cst_context *context, const cst_pool *pool, cst_pool_split *split,
                              const cst_pool_arrays *a) {
    size_t rows = (size_t)a->rows;
    size_t cells = 0;
    const void *labels;
    const void *targets;
    const void *groups;
    const void *order;
    const void *weights;
    CST_TRY(copy_values(context, split, a->labels, rows, sizeof *a->labels, &labels));
    if (labels)
        CST_TRY(check_labels(context, labels, a->rows, pool->classes, split->single));
    if (a->targets && !cst_size_mul(rows, (size_t)pool->classes, &cells))
        return cst_fail(context, CST_ERROR_LIMIT, "too many targets");
    CST_TRY(copy_values(context, split, a->targets, cells, sizeof *a->targets, &targets));
    if (targets && pool->task == CST_TASK_MULTILABEL)
        CST_TRY(take_known(context, (double *)(uintptr_t)targets, cells, (size_t)pool->classes));
    else if (targets)
        CST_TRY(check_targets(context, targets, cells, (size_t)pool->classes));
    if (a->folds)
        CST_TRY(take_folds(context, pool, split, a->folds));
    CST_TRY(copy_values(context, split, a->groups, rows, sizeof *a->groups, &groups));
    CST_TRY(copy_values(context, split, a->order, rows, sizeof *a->order, &order));
    if (a->weights)
        CST_TRY(cst_pool_check_weights(context, a->weights, a->rows, "weights"));
    CST_TRY(copy_values(context, split, a->weights, rows, sizeof *a->weights, &weights));
    split->beside.labels = labels;
    split->beside.targets = targets;
    split->beside.groups = groups;
    split->beside.order = order;
    split->beside.weights = weights;
    if (!a->domains)
        return CST_OK;
    cst_domains *domains;
    CST_TRY(cst_domains_make(context, &split->scope, a->domains, a->rows, "domains", &domains));
    split->beside.domains = domains;
    return CST_OK;
}

/* ---- the pool ---- */

/* Names of classes, or of outputs, into the description. */
static cst_status describe_classes(cst_context *context, cst_manifest *manifest,
                                   const cst_pool_arrays *a) {
    bool values = cst_task_has_outputs(a->task);
    *(values ? &manifest->outputs : &manifest->classes) = (int32_t)a->classes;
    for (int32_t c = 0; a->class_names && c < a->classes; c++) {
        const char *name = a->class_names[c];
        if (!name)
            return cst_fail(context, CST_ERROR_ARGUMENT, "class_names[%d] is NULL", c);
        if (cst_utf8_name((const uint8_t *)name, strlen(name)) < strlen(name))
            return cst_fail(context, CST_ERROR_INPUT,
                            "class_names[%d] is not valid UTF-8, or has control characters or "
                            "bidirectional formatting characters; rename it",
                            c);
    }
    return a->class_names ? cst_pool_name_classes(context, manifest, values, a->class_names,
                                                  (int32_t)a->classes)
                          : CST_OK;
}

/* The description of a pool from memory. */
static cst_status describe(cst_context *context, cst_manifest *m, const char *call,
                           const cst_pool_arrays *a) {
    int32_t index = 0;
    CST_TRY(cst_manifest_add_split(context, m, a->split ? a->split : "oof", &index));
    for (int32_t k = 0; k < a->members; k++) {
        if (!a->names[k] || cst_manifest_find_member(m, a->names[k]) >= 0)
            return cst_fail(context, CST_ERROR_ARGUMENT,
                            "%s: name %d ('%s') is missing or a duplicate", call, k,
                            a->names[k] ? a->names[k] : "");
        CST_TRY(cst_manifest_add_member(context, m, a->names[k], &index));
        cst_manifest_member *member = &m->members[index];
        const double *const costs[] = {a->flops, a->latency_ms, a->params, a->memory_bytes};
        double *const places[] = {&member->flops, &member->latency_ms, &member->params,
                                  &member->memory_bytes};
        for (int c = 0; c < 4; c++)
            if (costs[c])
                *places[c] = costs[c][k];
    }
    CST_TRY(describe_classes(context, m, a));
    m->task = a->task;
    m->task_given = true;
    m->output_given = a->task != CST_TASK_REGRESSION && a->task != CST_TASK_TOPK;
    m->logits = a->output == CST_OUTPUT_LOGIT;
    return CST_OK;
}

static cst_status check(cst_context *context, const char *call, const cst_pool_arrays *a) {
    bool values = cst_task_has_outputs(a->task);
    bool listed = a->task == CST_TASK_TOPK;
    if (!values && !listed && a->task != CST_TASK_CLASSIFICATION)
        return cst_fail(
            context, CST_ERROR_UNSUPPORTED,
            "%s: arrays must be predictions for classification, regression or multilabel, not for "
            "task '%s'",
            call, cst_task_name(a->task) ? cst_task_name(a->task) : "?");
    if (listed && (a->missing || a->output == CST_OUTPUT_LOGIT))
        return cst_fail(context, CST_ERROR_UNSUPPORTED,
                        "%s: lists of the likeliest classes have no missing rows or logits", call);
    for (int64_t k = 0; listed && k < a->members; k++)
        if (!a->listed || a->listed[k] < 1 || a->listed[k] > CST_TOPK_MAX)
            return cst_fail(context, CST_ERROR_ARGUMENT,
                            "%s: every member must list 1 to %d classes", call, CST_TOPK_MAX);
    if (a->classes < (values ? 1 : 2) || a->rows < 1)
        return cst_fail(context, CST_ERROR_ARGUMENT,
                        "%s: %" PRId64 " rows and %lld %s; at least 1 row and %d %s are required",
                        call, a->rows, (long long)a->classes, values ? "outputs" : "classes",
                        values ? 1 : 2, values ? "output" : "classes");
    if (a->classes > INT32_MAX || a->members > INT32_MAX)
        return cst_fail_count(context, call, "classes or members",
                              a->classes > a->members ? a->classes : a->members);
    if (!cst_size_fits(a->rows, converted_width(a), values ? sizeof(double) : sizeof(float)))
        return cst_fail_size(context, call, a->rows, a->classes);
    if (a->columns != 0 && a->columns != a->classes &&
        (a->columns != 1 || a->classes != 2 || values))
        return cst_fail(context, CST_ERROR_ARGUMENT, "%s: %lld columns for %lld %s", call,
                        (long long)a->columns, (long long)a->classes,
                        values ? "outputs" : "classes");
    if (!values && a->output != CST_OUTPUT_PROBABILITY && a->output != CST_OUTPUT_LOGIT)
        return cst_fail(
            context, CST_ERROR_ARGUMENT,
            "%s: %d is not a valid output of members: use 0 (probabilities) or 1 (logits)", call,
            (int)a->output);
    for (int32_t k = 0; k < a->members; k++)
        if (!a->predictions[k].data || (unsigned)a->predictions[k].type > CST_NUMBER_FLOAT16)
            return cst_fail(context, CST_ERROR_ARGUMENT, "%s: predictions[%d] is %s", call, k,
                            a->predictions[k].data ? "of an unknown data type" : "NULL");
    const double *const costs[] = {a->flops, a->latency_ms, a->params, a->memory_bytes};
    static const char *const names[] = {"flops", "latency_ms", "params", "memory_bytes"};
    for (int c = 0; c < 4; c++)
        for (int32_t k = 0; costs[c] && k < a->members; k++)
            if (!isnan(costs[c][k]) && !(costs[c][k] >= 0 && costs[c][k] <= 1e30))
                return cst_fail(context, CST_ERROR_ARGUMENT,
                                "%s: %s[%d] is %g; it must be 0 to 1e30, or NaN if unknown", call,
                                names[c], k, costs[c][k]);
    return CST_OK;
}

/* Whether the members are copied rather than read where they lie. */
static bool is_small(const cst_pool_arrays *a) {
    size_t bytes = sizeof(float) * (size_t)a->members;
    return cst_size_mul(bytes, (size_t)a->rows, &bytes) &&
           cst_size_mul(bytes, (size_t)converted_width(a), &bytes) && bytes <= CST_ARRAYS_COPIED;
}

/* A hash of an array's first and last row, of its elements alone. */
static uint64_t glance(const cst_pool_arrays *a, int32_t member, uint64_t sum) {
    const cst_array *array = &a->predictions[member];
    int32_t width = width_of(a, member);
    for (int end = 0; end < 2; end++)
        for (int32_t j = 0; j < width; j++) {
            const unsigned char *at = (const unsigned char *)array->data +
                                      (end ? a->rows - 1 : 0) * array->row_step +
                                      j * array->column_step;
            sum = cst_fnv(sum, at, item_of(array->type));
        }
    return sum;
}

/* Compares the arrays of all ranks: their sizes, names, and a few rows. Each rank must have all
 * rows, and one that has only some of them would spoil the results. */
static cst_status check_same(cst_context *context, const cst_pool_arrays *a) {
    if (!cst_ranks_share(context))
        return CST_OK;
    uint64_t sum = CST_FNV_START;
    for (int32_t k = 0; k < a->members; k++)
        sum = glance(a, k, cst_fnv(sum, a->names[k], strlen(a->names[k])));
    char text[160];
    (void)cst_snprintf(text, sizeof text, "%lld rows, %d members, %d classes, contents %016llx",
                       (long long)a->rows, (int)a->members, (int)a->classes,
                       (unsigned long long)sum);
    return cst_context_same(context, "the arrays", text);
}

/* Takes all rows. copy: members are copied whatever their size. */
static cst_status take(cst_context *context, cst_pool *pool, const cst_pool_arrays *a, bool copy) {
    cst_pool_split *split = &pool->splits[0];
    take_job job = {.pool = pool, .arrays = a};
    pool->missing = a->missing != 0;
    CST_TRY(check_same(context, a));
    split->described = true;
    split->single = a->columns == 1 && pool->task == CST_TASK_CLASSIFICATION;
    CST_TRY(cst_pool_set_rows(context, split, a->rows, pool->manifest->path));
    if (!copy && !is_small(a))
        CST_TRY(cst_store_take(context, &split->scope, (int32_t)a->members, cst_pool_width(pool),
                               &split->store));
    CST_TRY(take_beside(context, pool, split, a));
    CST_TRY(cst_stage(context, "read"));
    CST_TRY(cst_parallel_for(context, a->members, take_member, &job));
    if (pool->missing)
        CST_TRY(cst_pool_fill(context, pool, 0));
    return cst_progress(context, "read", a->members, a->members);
}

/* `call` names the function in messages; `copy`: members are copied whatever their size. */
static cst_status from_arrays(cst_context *context, cst_pool **out, const char *call,
                              const cst_pool_arrays *a, bool copy) {
    cst_manifest *manifest = NULL;
    cst_pool *pool = NULL;
    CST_TRY(check(context, call, a));
    CST_TRY(cst_manifest_create(context, &manifest, "the pool in memory"));
    cst_status status = describe(context, manifest, call, a);
    if (status != CST_OK) {
        cst_manifest_free(context, manifest);
        return status;
    }
    CST_TRY(cst_pool_create(context, &pool, manifest, NULL));
    if (a->task == CST_TASK_TOPK) {
        pool->listed = (int32_t)(converted_width(a) / 2);
        status = cst_topk_settle(context, pool);
    }
    CST_THEN(take(context, pool, a, copy));
    if (status == CST_OK)
        *out = pool;
    else
        cst_pool_free(context, pool);
    return status;
}

cst_status cst_pool_from_arrays(cst_context *context, cst_pool **out,
                                const cst_pool_arrays *arrays_given) {
    CST_CLEAR(out);
    CST_ENTER(context);
    CST_STRUCT(context, cst_pool_arrays, arrays, arrays_given);
    CST_NEED(context, out && arrays && arrays->predictions && arrays->names && arrays->members > 0,
             "the predictions and names of at least one member, and the pool, are required");
    return cst_why(context, from_arrays(context, out, "cst_pool_from_arrays", arrays, false));
}

/* ---- float32 in C order ---- */

cst_status cst_pool_from_memory(cst_context *context, cst_pool **out, const char *split,
                                const float *const *predictions, const char *const *names,
                                int32_t members, int64_t rows, int32_t classes,
                                const int32_t *labels, cst_output output) {
    CST_SCOPE(scope);
    *out = NULL;
    CST_NEW(context, scope, cst_array, arrays, members);
    for (int32_t k = 0; k < members; k++)
        arrays[k] = (cst_array){.data = predictions[k],
                                .row_step = (int64_t)sizeof(float) * classes,
                                .column_step = (int64_t)sizeof(float)};
    const cst_pool_arrays given = {.split = split,
                                   .output = output,
                                   .members = members,
                                   .rows = rows,
                                   .classes = classes,
                                   .predictions = arrays,
                                   .names = names,
                                   .labels = labels};
    return from_arrays(context, out, "cst_pool_from_memory", &given, true);
}
