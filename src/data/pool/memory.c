/*
 * A pool from arrays in memory: small ones are converted once, large ones are read where they lie,
 * block by block. The first call of programs that bring no files. docs/method.md#s0-rows-folds-ids.
 */
#include "core/ranks.h"
#include "core/utf8.h"
#include "data/pool/pieces.h"
#include "data/pool/stream.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

/* One member as the caller has it. */
typedef struct source {
    cst_array array;
    cst_npy element; /* says how an element is decoded; nothing else of it is used */
    cst_convert convert;
    int64_t rows;
    const cst_pool_split *split; /* where rows may be absent; else NULL */
} source;

static size_t item_of(cst_number type) {
    return type == CST_NUMBER_FLOAT64 ? 8 : type == CST_NUMBER_FLOAT16 ? 2 : 4;
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

static void close_source(cst_context *context, void *user) {
    cst_free(context, user);
}

static cst_status convert_all(cst_context *context, const source *s, float *out, uint8_t *present,
                              int64_t *absent) {
    cst_pieces pieces = pieces_of(s);
    return cst_pieces_all(context, &pieces, s->rows, out, present, present ? absent : NULL);
}

/* A member of which rows are absent, in a temporary file, where they can be filled in. */
static cst_status copy_rows(cst_context *context, const source *s, const char *name,
                            cst_store_entry *entry) {
    size_t classes = (size_t)s->convert.classes;
    float *rows = cst_alloc(context, CST_BLOCK_ROWS * classes, sizeof *rows);
    cst_status status = rows ? cst_stream_create(context, name, s->rows, s->convert.classes, entry)
                             : CST_ERROR_MEMORY;
    for (int64_t first = 0; status == CST_OK && first < s->rows; first += CST_BLOCK_ROWS) {
        int64_t count = s->rows - first < CST_BLOCK_ROWS ? s->rows - first : CST_BLOCK_ROWS;
        status = read_source(context, s, first, count, rows);
        CST_THEN(cst_stream_write(context, entry, first, count, rows));
    }
    cst_free(context, rows);
    return status;
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
                               .classes = pool->classes,
                               .width = job->arrays->columns == 1 ? 1 : pool->classes,
                               .values = pool->task == CST_TASK_REGRESSION,
                               .missing = pool->missing,
                               .logits = pool->logits},
                   .rows = split->rows,
                   .split = pool->missing ? split : NULL};
    size_t values = 0;
    if (!cst_size_mul((size_t)split->rows, (size_t)pool->classes, &values))
        return cst_fail(worker, CST_ERROR_LIMIT, "%s: too many values", from.convert.where);
    int64_t absent = 0;
    uint8_t *present = pool->missing ? cst_alloc(worker, (size_t)split->rows, 1) : NULL;
    split->present[task] = present; /* freed with the pool, also after a failure */
    if (pool->missing && !present)
        return CST_ERROR_MEMORY;
    cst_status status = CST_OK;
    if (!split->store) {
        float *data = cst_alloc(worker, values, sizeof *data);
        split->data[task] = data; /* the same */
        status = data ? convert_all(worker, &from, data, present, &absent) : CST_ERROR_MEMORY;
        if (status == CST_OK)
            cst_pool_settle_present(worker, split, (int32_t)task, (size_t)split->rows);
        return status;
    }
    source *kept = cst_alloc(worker, 1, sizeof *kept);
    if (!kept)
        return CST_ERROR_MEMORY;
    *kept = from;
    cst_store_entry *entry = &split->store->entries[task];
    *entry = (cst_store_entry){.source = kept, .read = read_source, .close = close_source};
    split->data[task] = cst_store_place(split->store, (int32_t)task);
    status = convert_all(worker, kept, NULL, present, &absent);
    if (status == CST_OK)
        cst_pool_settle_present(worker, split, (int32_t)task, (size_t)split->rows);
    if (status == CST_OK && absent > 0) {
        cst_store_entry copy = {0};
        status = copy_rows(worker, kept, from.convert.where, &copy);
        close_source(worker, kept);
        *entry = copy;
    }
    return status;
}

/* ---- what stands beside them ---- */

static cst_status copy_labels(cst_context *context, cst_pool *pool, int64_t rows,
                              const int32_t *labels) {
    if (!labels)
        return CST_OK;
    int32_t *copy = cst_alloc(context, (size_t)rows, sizeof *copy);
    if (!copy)
        return CST_ERROR_MEMORY;
    pool->splits[0].labels = copy;
    int32_t lowest = INT32_MAX;
    int32_t highest = INT32_MIN;
    for (int64_t i = 0; i < rows; i++) {
        lowest = labels[i] < lowest ? labels[i] : lowest;
        highest = labels[i] > highest ? labels[i] : highest;
    }
    for (int64_t i = 0; i < rows; i++) {
        if (labels[i] < 0 || labels[i] >= pool->classes)
            return cst_fail(context, CST_ERROR_INPUT,
                            "labels: row %" PRId64
                            " is label %d; labels must be 0 to %d (%d classes)%s",
                            i, labels[i], pool->classes - 1, pool->classes,
                            cst_pool_label_hint(lowest, highest, pool->classes));
        copy[i] = labels[i];
    }
    return CST_OK;
}

static cst_status copy_targets(cst_context *context, cst_pool *pool, int64_t rows,
                               const double *targets) {
    size_t cells = 0;
    if (!targets)
        return CST_OK;
    if (!cst_size_mul((size_t)rows, (size_t)pool->classes, &cells))
        return cst_fail(context, CST_ERROR_LIMIT, "too many targets");
    double *copy = cst_alloc(context, cells, sizeof *copy);
    if (!copy)
        return CST_ERROR_MEMORY;
    pool->splits[0].targets = copy;
    for (size_t i = 0; i < cells; i++) {
        if (!isfinite(targets[i]))
            return cst_fail(context, CST_ERROR_INPUT,
                            "targets: row %zu, output %zu is %g; every target must be a finite "
                            "number",
                            i / (size_t)pool->classes, i % (size_t)pool->classes, targets[i]);
        copy[i] = targets[i];
    }
    return CST_OK;
}

static cst_status copy_folds(cst_context *context, cst_pool *pool, int64_t rows,
                             const int64_t *folds) {
    if (!folds)
        return CST_OK;
    for (int64_t i = 0; i < rows; i++)
        if (folds[i] < 0 && !pool->missing)
            return cst_fail(context, CST_ERROR_INPUT,
                            "folds: row %" PRId64 " is fold %" PRId64
                            "; folds are numbered from 0, and every row needs one; rows without a "
                            "fold are left "
                            "out of a fit with missing=\"allow\"",
                            i, folds[i]);
    if (rows > INT32_MAX)
        return cst_fail(context, CST_ERROR_LIMIT, "folds: more than 2^31 rows with folds");
    pool->splits[0].folds = cst_alloc(context, (size_t)rows, sizeof *pool->splits[0].folds);
    return pool->splits[0].folds
               ? cst_pool_renumber(context, folds, NULL, rows, pool->splits[0].folds)
               : CST_ERROR_MEMORY;
}

static cst_status copy_groups(cst_context *context, cst_pool *pool, int64_t rows,
                              const int64_t *groups) {
    if (!groups)
        return CST_OK;
    int64_t *copy = cst_alloc(context, (size_t)rows, sizeof *copy);
    if (!copy)
        return CST_ERROR_MEMORY;
    memcpy(copy, groups, (size_t)rows * sizeof *copy);
    pool->splits[0].groups = copy;
    return CST_OK;
}

static cst_status copy_weights(cst_context *context, cst_pool *pool, int64_t rows,
                               const double *weights) {
    if (!weights)
        return CST_OK;
    cst_status status = cst_pool_check_weights(context, weights, rows, "weights");
    if (status != CST_OK)
        return status;
    double *copy = cst_alloc(context, (size_t)rows, sizeof *copy);
    if (!copy)
        return CST_ERROR_MEMORY;
    memcpy(copy, weights, (size_t)rows * sizeof *copy);
    pool->splits[0].weights = copy;
    return CST_OK;
}

/* ---- the pool ---- */

/* Names of classes, or of outputs, into the description. */
static cst_status describe_classes(cst_context *context, cst_manifest *manifest,
                                   const cst_pool_arrays *a) {
    bool values = a->task == CST_TASK_REGRESSION;
    *(values ? &manifest->outputs : &manifest->classes) = (int32_t)a->classes;
    if (!a->class_names)
        return CST_OK;
    char **names = cst_alloc(context, (size_t)a->classes, sizeof *names);
    *(values ? &manifest->output_names : &manifest->class_names) = names;
    for (int32_t c = 0; names && c < a->classes; c++) {
        if (!a->class_names[c])
            return cst_fail(context, CST_ERROR_ARGUMENT, "class_names[%d] is NULL", c);
        size_t length = strlen(a->class_names[c]);
        if (cst_utf8_name((const uint8_t *)a->class_names[c], length) < length)
            return cst_fail(context, CST_ERROR_INPUT,
                            "class_names[%d] is not valid UTF-8, or has control characters or "
                            "bidirectional formatting characters; rename it",
                            c);
        names[c] = cst_strdup(context, a->class_names[c]);
        if (!names[c])
            return CST_ERROR_MEMORY;
    }
    return names ? CST_OK : CST_ERROR_MEMORY;
}

/* The description of a pool from memory. */
static cst_status describe(cst_context *context, cst_manifest **out, const char *call,
                           const cst_pool_arrays *a) {
    int32_t index = 0;
    cst_status status = cst_manifest_create(context, out, "the pool in memory");
    CST_THEN(cst_manifest_add_split(context, *out, a->split ? a->split : "oof", &index));
    for (int32_t k = 0; status == CST_OK && k < a->members; k++) {
        status = !a->names[k] || cst_manifest_find_member(*out, a->names[k]) >= 0
                     ? cst_fail(context, CST_ERROR_ARGUMENT,
                                "%s: name %d ('%s') is missing or a duplicate", call, k,
                                a->names[k] ? a->names[k] : "")
                     : cst_manifest_add_member(context, *out, a->names[k], &index);
        if (status == CST_OK && a->flops)
            (*out)->members[index].flops = a->flops[k];
        if (status == CST_OK && a->latency_ms)
            (*out)->members[index].latency_ms = a->latency_ms[k];
        if (status == CST_OK && a->params)
            (*out)->members[index].params = a->params[k];
        if (status == CST_OK && a->memory_bytes)
            (*out)->members[index].memory_bytes = a->memory_bytes[k];
    }
    CST_THEN(describe_classes(context, *out, a));
    if (status != CST_OK) {
        cst_manifest_free(context, *out);
        *out = NULL;
        return status;
    }
    (*out)->task = a->task;
    (*out)->task_given = true;
    (*out)->output_given = a->task != CST_TASK_REGRESSION;
    (*out)->logits = a->output == CST_OUTPUT_LOGIT;
    return CST_OK;
}

static cst_status check(cst_context *context, const char *call, const cst_pool_arrays *a) {
    bool values = a->task == CST_TASK_REGRESSION;
    if (!values && a->task != CST_TASK_CLASSIFICATION)
        return cst_fail(
            context, CST_ERROR_UNSUPPORTED,
            "%s: arrays must be predictions for classification or regression, not for task '%s'",
            call, cst_task_name(a->task) ? cst_task_name(a->task) : "?");
    if (a->classes < (values ? 1 : 2) || a->rows < 1)
        return cst_fail(context, CST_ERROR_ARGUMENT,
                        "%s: %" PRId64 " rows and %lld %s; at least 1 row and %d %s are required",
                        call, a->rows, (long long)a->classes, values ? "outputs" : "classes",
                        values ? 1 : 2, values ? "output" : "classes");
    if (a->classes > INT32_MAX || a->members > INT32_MAX)
        return cst_fail_count(context, call, "classes or members",
                              a->classes > a->members ? a->classes : a->members);
    if (!cst_size_fits(a->rows, a->classes, values ? sizeof(double) : sizeof(float)))
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
           cst_size_mul(bytes, (size_t)a->classes, &bytes) && bytes <= CST_ARRAYS_COPIED;
}

/* Labels, folds, weights and the like. */
static cst_status copy_columns(cst_context *context, cst_pool *pool, const cst_pool_arrays *a) {
    cst_status status = copy_labels(context, pool, a->rows, a->labels);
    CST_THEN(copy_targets(context, pool, a->rows, a->targets));
    CST_THEN(copy_folds(context, pool, a->rows, a->folds));
    CST_THEN(copy_groups(context, pool, a->rows, a->groups));
    CST_THEN(copy_weights(context, pool, a->rows, a->weights));
    if (status == CST_OK && a->domains)
        status = cst_pool_copy_domains(context, &pool->splits[0], a->domains, a->rows);
    return status;
}

/* A hash of an array's first and last row, of its elements alone. */
static uint64_t glance(const cst_pool_arrays *a, int32_t member, uint64_t sum) {
    const cst_array *array = &a->predictions[member];
    int32_t width = (int32_t)(a->columns > 0 ? a->columns : a->classes);
    for (int end = 0; end < 2; end++)
        for (int32_t j = 0; j < width; j++) {
            const unsigned char *at = (const unsigned char *)array->data +
                                      (end ? a->rows - 1 : 0) * array->row_step +
                                      j * array->column_step;
            for (size_t i = 0; i < item_of(array->type); i++)
                sum = (sum ^ at[i]) * 1099511628211U;
        }
    return sum;
}

/* Compares the arrays of all ranks: their sizes, names, and a few rows. Each rank must have all
 * rows, and one that has only some of them would spoil the results. */
static cst_status check_same(cst_context *context, const cst_pool_arrays *a) {
    if (!cst_ranks_share(context))
        return CST_OK;
    uint64_t sum = 14695981039346656037U;
    for (int32_t k = 0; k < a->members; k++) {
        for (const char *name = a->names[k]; *name; name++)
            sum = (sum ^ (unsigned char)*name) * 1099511628211U;
        sum = glance(a, k, sum);
    }
    char *text =
        cst_format(context, "%lld rows, %d members, %d classes, contents %016llx",
                   (long long)a->rows, (int)a->members, (int)a->classes, (unsigned long long)sum);
    cst_status status = text ? cst_context_same(context, "the arrays", text)
                             : cst_context_agree(context, CST_ERROR_MEMORY, NULL);
    cst_free(context, text);
    return status;
}

/* Takes all rows. copy: members are copied whatever their size. */
static cst_status take(cst_context *context, cst_pool *pool, const cst_pool_arrays *a, bool copy) {
    cst_pool_split *split = &pool->splits[0];
    take_job job = {.pool = pool, .arrays = a};
    split->described = true;
    cst_status status = cst_pool_set_rows(context, split, a->rows, pool->manifest->path);
    if (status == CST_OK && !copy && !is_small(a))
        status = cst_store_create(context, (int32_t)a->members, pool->classes, &split->store);
    CST_THEN(copy_columns(context, pool, a));
    CST_THEN(cst_stage(context, "read"));
    CST_THEN(cst_parallel_for(context, a->members, take_member, &job));
    return status == CST_OK && pool->missing ? cst_pool_fill(context, pool, 0) : status;
}

/* `call` names the function in messages; `copy`: members are copied whatever their size. */
static cst_status from_arrays(cst_context *context, cst_pool **out, const char *call,
                              const cst_pool_arrays *a, bool copy) {
    cst_manifest *manifest = NULL;
    cst_pool *pool = NULL;
    cst_status status = check(context, call, a);
    CST_THEN(describe(context, &manifest, call, a));
    CST_THEN(cst_pool_create(context, &pool, manifest, NULL));
    if (status == CST_OK)
        pool->missing = a->missing != 0;
    CST_THEN(check_same(context, a));
    CST_THEN(take(context, pool, a, copy));
    CST_THEN(cst_progress(context, "read", a->members, a->members));
    if (status != CST_OK) {
        cst_pool_free(context, pool);
        return status;
    }
    *out = pool;
    return CST_OK;
}

cst_status cst_pool_from_arrays(cst_context *context, cst_pool **out,
                                const cst_pool_arrays *arrays_given) {
    if (out)
        *out = NULL;
    CST_ENTER(context);
    CST_STRUCT(context, cst_pool_arrays, arrays, arrays_given);
    if (!out || !arrays || !arrays->predictions || !arrays->names || arrays->members < 1)
        return cst_fail(context, CST_ERROR_ARGUMENT,
                        "cst_pool_from_arrays: the predictions and names of at least one member, "
                        "and the pool, are required");
    return cst_why(context, from_arrays(context, out, "cst_pool_from_arrays", arrays, false));
}

/* ---- float32 in C order ---- */

cst_status cst_pool_from_memory(cst_context *context, cst_pool **out, const char *split,
                                const float *const *predictions, const char *const *names,
                                int32_t members, int64_t rows, int32_t classes,
                                const int32_t *labels, cst_output output) {
    cst_array *arrays = cst_alloc(context, (size_t)members, sizeof *arrays);
    *out = NULL;
    if (!arrays)
        return CST_ERROR_MEMORY;
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
    cst_status status = from_arrays(context, out, "cst_pool_from_memory", &given, true);
    cst_free(context, arrays);
    return status;
}
