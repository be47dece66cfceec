/* A pool's lifetime, what it answers, and views of its loaded splits. After reading, before every
 * statistic. Paper: P_oof and y. */
#include "data/pool/state.h"

#include <math.h>
#include <string.h>

/* Names of the classes, or of the outputs of a regression; NULL where they have none. */
static char *const *names_of(const cst_pool *pool) {
    return cst_task_has_outputs(pool->task) ? pool->manifest->output_names
                                            : pool->manifest->class_names;
}

/* What the caller says goes before the manifest's word. A manifest was read for the caller's task
 * already: its keys belong to it. */
static cst_status apply_config(cst_context *context, cst_pool *pool,
                               const cst_pool_config *config) {
    const cst_manifest *m = pool->manifest;
    if (config->task_given)
        pool->task = config->task;
    if (config->classes > 0 && pool->classes > 0 && config->classes != pool->classes)
        return cst_fail(context, CST_ERROR_INPUT, "%s: it has %d classes, but %lld were requested",
                        m->path, pool->classes, (long long)config->classes);
    if (config->classes == 1 &&
        (pool->task == CST_TASK_CLASSIFICATION || pool->task == CST_TASK_SEGMENTATION))
        return cst_fail(context, CST_ERROR_ARGUMENT,
                        "%s: 1 class was requested, but a %s has at least 2", m->path,
                        cst_task_name(pool->task));
    if (config->classes > 0)
        pool->classes = (int32_t)config->classes;
    if (config->output_given && pool->task == CST_TASK_REGRESSION)
        return cst_fail(context, CST_ERROR_INPUT,
                        "%s: probability and logit are for classification, and the task is "
                        "regression, whose values are read unchanged: remove --values",
                        m->path);
    if (config->output_given)
        pool->logits = config->output == CST_OUTPUT_LOGIT;
    if (config->layout != CST_LAYOUT_AUTO)
        pool->layout = config->layout;
    if (config->ignore_given) {
        int64_t count = config->ignored_also;
        if (count < 0 || count >= CST_IGNORED_MAX || (count > 0 && !config->ignore_also))
            return cst_fail(context, CST_ERROR_ARGUMENT,
                            "%s: %lld further labels to ignore were given; at most %d are possible",
                            m->path, (long long)count, CST_IGNORED_MAX - 1);
        pool->ignore = config->ignore;
        pool->manifest->ignored_also = (int32_t)count;
        for (int64_t i = 0; i < count; i++)
            pool->manifest->ignore_also[i] = config->ignore_also[i];
    }
    pool->missing = config->missing != 0;
    pool->unlabelled = config->unlabelled == 1;
    pool->needless = config->unlabelled == 2;
    pool->zip_limit = config->zip_limit;
    const char *const given[] = {config->id_column, config->label_column, config->positive};
    const char **const places[] = {&pool->id_column, &pool->label_column, &pool->positive};
    for (int i = 0; i < 3; i++)
        if (given[i] && !(*places[i] = cst_take_text(context, &pool->scope, given[i])))
            return CST_ERROR_MEMORY;
    return CST_OK;
}

/* Row weights are of tasks whose samples are rows, domains of a classification. */
static cst_status check_weighted(cst_context *context, const cst_pool *pool) {
    const cst_manifest *manifest = pool->manifest;
    for (int32_t s = 0; s < manifest->split_count; s++)
        if (manifest->splits[s].domains && pool->task != CST_TASK_CLASSIFICATION)
            return cst_fail(context, CST_ERROR_UNSUPPORTED,
                            "%s: domains are for classification, and the task is %s; remove the "
                            "domains",
                            manifest->splits[s].domains, cst_task_name(pool->task));
    for (int32_t s = 0; s < manifest->split_count; s++)
        if (manifest->splits[s].weights && !cst_pool_of_rows(pool))
            return cst_fail(context, CST_ERROR_UNSUPPORTED,
                            "%s: row weights are for classification and regression, and the task "
                            "is %s; remove the weights",
                            manifest->splits[s].weights, cst_task_name(pool->task));
    return CST_OK;
}

enum { SPLIT_PATHS = 8 };

/* The path in place `place` of all there may be; NULL where none is given. */
static const char *path_at(const cst_manifest *m, size_t place) {
    size_t splits = (size_t)m->split_count;
    if (place < SPLIT_PATHS * splits) {
        const cst_manifest_split *split = &m->splits[place / SPLIT_PATHS];
        const char *const paths[SPLIT_PATHS] = {split->labels,  split->annotations, split->ids,
                                                split->folds,   split->groups,      split->weights,
                                                split->domains, split->order};
        return paths[place % SPLIT_PATHS];
    }
    place -= SPLIT_PATHS * splits;
    const cst_manifest_member *member = &m->members[place / (2 * splits)];
    place %= 2 * splits;
    return place < splits ? member->paths[place] : member->ids[place - splits];
}

/* The files that a path (NULL: none) stands for, and how many they are; out may be NULL. */
static size_t files_of(const cst_manifest *m, const char *path, const char **out) {
    const cst_file_parts *parts = path ? cst_manifest_parts(m, path) : NULL;
    size_t count = parts ? (size_t)parts->count : path != NULL;
    for (size_t k = 0; out && k < count; k++)
        out[k] = parts ? parts->paths[k] : path;
    return count;
}

/* The paths that there are, once for all: a caller asks for one after another. */
static cst_status list_files(cst_context *context, cst_pool *pool) {
    const cst_manifest *m = pool->manifest;
    size_t places = (size_t)m->split_count * (SPLIT_PATHS + 2 * (size_t)m->member_count);
    size_t count = m->training_counts_file ? 1 : 0;
    for (size_t place = 0; place < places; place++)
        count += files_of(m, path_at(m, place), NULL);
    CST_TAKE(context, &pool->scope, pool->files, count);
    for (size_t place = 0; place < places; place++)
        pool->file_count += files_of(m, path_at(m, place), pool->files + pool->file_count);
    if (m->training_counts_file)
        pool->files[pool->file_count++] = m->training_counts_file;
    return CST_OK;
}

cst_status cst_pool_split_create(cst_context *context, cst_scope *scope, int32_t members,
                                 cst_pool_split *out) {
    *out = (cst_pool_split){.rows = -1, .claim.rows = -1};
    CST_TAKE(context, scope, out->data, members);
    CST_TAKE(context, scope, out->present, members);
    CST_TAKE(context, scope, out->own, members);
    out->presence = (cst_presence){.count = members, .data = out->data, .present = out->present};
    return CST_OK;
}

cst_status cst_pool_index_classes(cst_context *context, cst_pool *pool) {
    const cst_manifest *m = pool->manifest;
    char *const *names = cst_task_has_outputs(pool->task) ? m->output_names : m->class_names;
    if (!names)
        return CST_OK;
    CST_TRY(cst_strings_take(context, &pool->scope, &pool->class_names));
    for (int32_t c = 0; c < pool->classes; c++)
        CST_TRY(cst_strings_put(context, pool->class_names, names[c]));
    return cst_id_index_take(context, &pool->scope, &pool->class_index, pool->class_names, m->path);
}

static cst_status fill_pool(cst_context *context, cst_pool *pool, const cst_pool_config *config) {
    const cst_manifest *m = pool->manifest;
    pool->task = m->task;
    pool->classes = cst_task_has_outputs(pool->task) ? m->outputs : m->classes;
    pool->logits = m->output_given && m->logits;
    pool->layout = m->layout;
    pool->ignore = m->ignore_given ? m->ignore : CST_IGNORE_LABEL;
    if (config)
        CST_TRY(apply_config(context, pool, config));
    CST_TRY(check_weighted(context, pool));
    CST_TRY(list_files(context, pool));
    CST_TAKE(context, &pool->scope, pool->splits, m->split_count);
    for (int32_t s = 0; s < m->split_count; s++)
        CST_TRY(cst_pool_split_create(context, &pool->scope, m->member_count, &pool->splits[s]));
    return cst_pool_index_classes(context, pool);
}

cst_status cst_pool_create(cst_context *context, cst_pool **out, cst_manifest *manifest,
                           const cst_pool_config *config) {
    *out = NULL;
    cst_pool *pool = cst_alloc(context, 1, sizeof *pool);
    if (!pool) {
        cst_manifest_free(context, manifest);
        return CST_ERROR_MEMORY;
    }
    pool->manifest = manifest;
    cst_status status = fill_pool(context, pool, config);
    if (status == CST_OK)
        *out = pool;
    else
        cst_pool_free(context, pool);
    return status;
}

cst_status cst_pool_source(cst_context *context, const cst_pool *pool, const char *path,
                           cst_row_source *out) {
    *out = (cst_row_source){.path = path,
                            .parts = cst_manifest_parts(pool->manifest, path),
                            .zip_limit = pool->zip_limit};
    if (!out->parts)
        out->shared = cst_shared_find(pool->shared, path);
    return cst_manifest_confine(context, pool->manifest, path);
}

void cst_pool_drop_member(cst_context *context, cst_pool_split *split, int32_t member) {
    if (split->store)
        cst_store_close(context, split->store, member);
    cst_scope_free(&split->own[member]);
    split->data[member] = NULL;
    cst_free(context, split->present[member]);
    split->present[member] = NULL;
}

cst_status cst_pool_start_present(cst_context *context, cst_pool_split *split, int32_t member,
                                  int64_t rows) {
    cst_free(context, split->present[member]);
    split->present[member] = cst_alloc(context, (size_t)rows, 1);
    return split->present[member] ? CST_OK : CST_ERROR_MEMORY;
}

void cst_pool_settle_present(cst_context *context, cst_pool_split *split, int32_t member,
                             int64_t rows) {
    if (!split->present[member] || memchr(split->present[member], 0, (size_t)rows))
        return;
    cst_free(context, split->present[member]);
    split->present[member] = NULL;
}

size_t cst_pool_resident(const cst_pool *pool) {
    size_t bytes = 0;
    for (int32_t s = 0; s < pool->manifest->split_count; s++) {
        const cst_pool_split *split = &pool->splits[s];
        size_t each = (size_t)(split->rows > 0 ? cst_pool_all_rows(pool, s) : 0) *
                      (size_t)cst_pool_width(pool) * sizeof(float);
        for (int32_t k = 0; k < pool->manifest->member_count; k++)
            if (split->data[k] && cst_store_find(split->store, split->data[k]) < 0)
                bytes += each;
    }
    return bytes;
}

void cst_pool_split_clear(cst_context *context, cst_pool_split *split) {
    for (int32_t k = 0; split->own && k < split->presence.count; k++)
        cst_pool_drop_member(context, split, k);
    cst_scope_free(&split->scope);
    *split = (cst_pool_split){.rows = -1,
                              .claim.rows = -1,
                              .data = split->data,
                              .present = split->present,
                              .own = split->own,
                              .presence = split->presence};
}

void cst_pool_free(cst_context *context, cst_pool *pool) {
    if (!pool)
        return;
    for (int32_t s = 0; pool->splits && s < pool->manifest->split_count; s++)
        cst_pool_split_clear(context, &pool->splits[s]);
    cst_scope_free(&pool->scope);
    cst_manifest_free(context, pool->manifest);
    cst_free(context, pool);
}

/* ---- answers ---- */

static int32_t find_split(const cst_pool *pool, const char *name) {
    return pool && name ? cst_manifest_find_split(pool->manifest, name) : -1;
}

/* The state of a loaded split, or NULL. */
static const cst_pool_split *find_loaded(const cst_pool *pool, const char *name) {
    int32_t s = find_split(pool, name);
    return s >= 0 && pool->splits[s].described && pool->splits[s].rows >= 0 ? &pool->splits[s]
                                                                            : NULL;
}

static const cst_manifest_member *find_member(const cst_pool *pool, int32_t member) {
    return pool && member >= 0 && member < pool->manifest->member_count
               ? &pool->manifest->members[member]
               : NULL;
}

static const cst_manifest_condition *find_condition(const cst_pool *pool, const char *split,
                                                    int32_t condition) {
    int32_t s = find_split(pool, split);
    return s >= 0 && condition >= 0 && condition < pool->manifest->splits[s].condition_count
               ? &pool->manifest->splits[s].conditions[condition]
               : NULL;
}

const char *cst_pool_file(const cst_pool *pool, size_t index) {
    return pool && index < pool->file_count ? pool->files[index] : NULL;
}

cst_task cst_pool_task(const cst_pool *pool) {
    return pool ? pool->task : CST_TASK_CLASSIFICATION;
}

int64_t cst_pool_members(const cst_pool *pool) {
    return pool ? pool->manifest->member_count : 0;
}

/* What is loaded of a split, but for some members. */
static cst_status split_without(cst_context *context, cst_scope *scope, const cst_pool_split *whole,
                                const bool *without, int32_t members, cst_pool_split *out) {
    int32_t left = 0;
    *out = *whole;
    CST_TAKE(context, scope, out->data, members);
    CST_TAKE(context, scope, out->present, members);
    for (int32_t k = 0; k < members; k++)
        if (!without[k]) {
            out->data[left] = whole->data[k];
            out->present[left++] = whole->present[k];
        }
    out->presence = (cst_presence){.count = left, .data = out->data, .present = out->present};
    return CST_OK;
}

const cst_pool *cst_pool_whole(const cst_pool *pool) {
    return pool->whole ? pool->whole : pool;
}

cst_status cst_pool_without(cst_context *context, cst_scope *scope, const cst_pool *whole,
                            const bool *without, cst_pool **out) {
    CST_NEW(context, scope, cst_pool, pool, 1);
    CST_NEW(context, scope, cst_manifest, manifest, 1);
    CST_TRY(cst_manifest_without(context, scope, whole->manifest, without, manifest));
    *pool = *whole;
    pool->scope = (cst_scope){0};
    pool->manifest = manifest;
    pool->whole = whole;
    CST_TAKE(context, scope, pool->splits, manifest->split_count);
    for (int32_t s = 0; s < manifest->split_count; s++)
        CST_TRY(split_without(context, scope, &whole->splits[s], without,
                              whole->manifest->member_count, &pool->splits[s]));
    *out = pool;
    return CST_OK;
}

int32_t cst_pool_member_index(const cst_pool *pool, const char *name) {
    return pool && name ? cst_manifest_find_member(pool->manifest, name) : -1;
}

int64_t cst_pool_classes(const cst_pool *pool) {
    return pool ? pool->classes : 0;
}

const char *cst_pool_class_name(const cst_pool *pool, int32_t c) {
    char *const *names = pool ? names_of(pool) : NULL;
    return names && c >= 0 && c < pool->classes ? names[c] : NULL;
}

/* What the manifest says of a member, of a condition, and of the values of a split's rows. */
#define MEMBER_ANSWER(type, field, none)                                                           \
    type cst_pool_member_##field(const cst_pool *pool, int32_t member) {                           \
        const cst_manifest_member *m = find_member(pool, member);                                  \
        return m ? m->field : (none);                                                              \
    }
#define CONDITION_ANSWER(type, field, none)                                                        \
    type cst_pool_condition_##field(const cst_pool *pool, const char *split, int32_t condition) {  \
        const cst_manifest_condition *c = find_condition(pool, split, condition);                  \
        return c ? c->field : (none);                                                              \
    }
#define SPLIT_ANSWER(type, field)                                                                  \
    const type *cst_pool_##field(const cst_pool *pool, const char *split) {                        \
        const cst_pool_split *s = find_loaded(pool, split);                                        \
        return s ? s->beside.field : NULL;                                                         \
    }

MEMBER_ANSWER(const char *, name, NULL)
MEMBER_ANSWER(const char *, family, NULL)
MEMBER_ANSWER(double, flops, NAN)
MEMBER_ANSWER(double, params, NAN)
MEMBER_ANSWER(double, latency_ms, NAN)
MEMBER_ANSWER(double, memory_bytes, NAN)
CONDITION_ANSWER(const char *, shift, NULL)
CONDITION_ANSWER(const char *, kind, NULL)
CONDITION_ANSWER(double, severity, NAN)
SPLIT_ANSWER(int32_t, labels)
SPLIT_ANSWER(double, targets)
SPLIT_ANSWER(int32_t, folds)
SPLIT_ANSWER(int64_t, groups)
SPLIT_ANSWER(double, weights)

const int64_t *cst_pool_order_of(const cst_pool *pool, const char *split) {
    const cst_pool_split *s = find_loaded(pool, split);
    return s ? s->beside.order : NULL;
}

bool cst_pool_folds_adopted(const cst_pool *pool, const char *split) {
    const cst_pool_split *s = find_loaded(pool, split);
    return s && s->adopted;
}

cst_member_ensemble cst_pool_member_ensemble(const cst_pool *pool, int32_t member) {
    const cst_manifest_member *m = find_member(pool, member);
    if (!m || m->ensemble == 0)
        return (cst_member_ensemble){.passes = 1};
    return (cst_member_ensemble){
        .kind = (cst_ensemble_kind)m->ensemble, .of = m->ensemble_of, .passes = m->ensemble_passes};
}

int64_t cst_pool_splits(const cst_pool *pool) {
    return pool ? pool->manifest->split_count : 0;
}

const char *cst_pool_split_name(const cst_pool *pool, int32_t index) {
    return index >= 0 && index < cst_pool_splits(pool) ? pool->manifest->splits[index].name : NULL;
}

int cst_pool_has_split(const cst_pool *pool, const char *split) {
    return find_split(pool, split) >= 0;
}

int cst_pool_is_ood(const cst_pool *pool, const char *split) {
    int32_t s = find_split(pool, split);
    return s >= 0 && pool->manifest->splits[s].ood;
}

int cst_pool_member_has_split(const cst_pool *pool, int32_t member, const char *split) {
    const cst_manifest_member *m = find_member(pool, member);
    int32_t s = find_split(pool, split);
    return m && s >= 0 && (m->paths[s] || pool->splits[s].data[member]);
}

int64_t cst_pool_conditions(const cst_pool *pool, const char *split) {
    int32_t s = find_split(pool, split);
    return s >= 0 ? pool->manifest->splits[s].condition_count : 0;
}

int cst_pool_single(const cst_pool *pool, const char *split) {
    const cst_pool_split *state = find_loaded(pool, split);
    return state && state->single;
}

const char *cst_pool_clean_split(const cst_pool *pool, const char *split) {
    int32_t s = find_split(pool, split);
    return s >= 0 ? pool->manifest->splits[s].clean : NULL;
}

const char *cst_pool_domain(const cst_pool *pool, const char *split) {
    int32_t s = find_split(pool, split);
    return s >= 0 ? pool->manifest->splits[s].domain : NULL;
}

const int64_t *cst_pool_training_counts(const cst_pool *pool) {
    return pool ? pool->manifest->training_counts : NULL;
}

const cst_reference_errors *cst_pool_reference_errors(const cst_pool *pool) {
    return pool->manifest->reference_errors.count > 0 ? &pool->manifest->reference_errors : NULL;
}

bool cst_pool_has_logits(const cst_pool *pool) {
    return pool->logits;
}

int64_t cst_pool_rows(const cst_pool *pool, const char *split) {
    const cst_pool_split *s = find_loaded(pool, split);
    return s ? s->rows : -1;
}

const char *cst_pool_id(const cst_pool *pool, const char *split, int64_t row) {
    const cst_pool_split *s = find_loaded(pool, split);
    const cst_strings *ids = s ? s->order.ids : NULL;
    return ids && row >= 0 && row < ids->count ? cst_strings_at(ids, row) : NULL;
}

const float *cst_pool_predictions(const cst_pool *pool, const char *split, int32_t member) {
    const cst_pool_split *s = find_loaded(pool, split);
    if (!s || pool->listed > 0 || !find_member(pool, member) ||
        cst_store_find(s->store, s->data[member]) >= 0)
        return NULL;
    return s->data[member];
}

/* ---- views ---- */

/* The loaded split, or an error that says what to do. */
static cst_status need_loaded(cst_context *context, const cst_pool *pool, const char *split,
                              const cst_pool_split **out) {
    *out = find_loaded(pool, split);
    if (*out)
        return CST_OK;
    return cst_fail(context, CST_ERROR_ARGUMENT, "split '%s' is not loaded; call cst_pool_load",
                    split ? split : "(none)");
}

static bool has_no_file(const cst_pool *pool, const char *split, int32_t member) {
    return pool->missing && (member < 0 || !cst_pool_member_has_split(pool, member, split));
}

static cst_status need_member(cst_context *context, const cst_pool *pool, const char *split,
                              const cst_pool_split *state, int32_t member) {
    if (find_member(pool, member) && state->data[member])
        return CST_OK;
    const char *name = cst_pool_member_name(pool, member);
    if (has_no_file(pool, split, member))
        return cst_fail(context, CST_ERROR_INPUT,
                        "member '%s' has no predictions for split '%s'; add its file or remove the "
                        "member (predict and evaluate with a model work without it)",
                        name ? name : "(none)", split);
    return cst_fail(context, CST_ERROR_ARGUMENT, "member '%s' of split '%s' is not loaded",
                    name ? name : "(none)", split);
}

static bool any_absent(const cst_pool *pool, const cst_pool_split *state) {
    for (int32_t k = 0; k < pool->manifest->member_count; k++)
        if (state->present[k])
            return true;
    return false;
}

/* A view of all rows, those of every condition one after another. */
static cst_view whole_view(const cst_pool *pool, const char *split, const cst_pool_split *state) {
    const cst_beside *beside = &state->beside;
    int32_t index = find_split(pool, split);
    int64_t rows = cst_pool_all_rows(pool, index);
    return (cst_view){.rows = rows,
                      .classes = cst_pool_width(pool),
                      .listed_of = pool->listed > 0 ? pool->classes : 0,
                      .bytes = pool->manifest->splits[index].bytes / (double)rows,
                      .labels =
                          cst_pool_conditions(pool, split) > 0 ? state->repeated : beside->labels,
                      .binary = pool->task == CST_TASK_MULTILABEL,
                      .targets = beside->targets,
                      .domains = beside->domains,
                      .presence = any_absent(pool, state) ? &state->presence : NULL,
                      .store = state->store};
}

cst_status cst_pool_view(cst_context *context, const cst_pool *pool, const char *split,
                         cst_view *out) {
    const cst_pool_split *state = NULL;
    CST_TRY(need_loaded(context, pool, split, &state));
    for (int32_t k = 0; k < cst_pool_members(pool); k++)
        CST_TRY(need_member(context, pool, split, state, k));
    *out = whole_view(pool, split, state);
    out->members = (int32_t)cst_pool_members(pool);
    out->data = state->data;
    return CST_OK;
}

cst_status cst_pool_view_members(cst_context *context, const cst_pool *pool, const char *split,
                                 const int32_t *members, int32_t count, const float **pointers,
                                 cst_view *out) {
    const cst_pool_split *state = NULL;
    CST_TRY(need_loaded(context, pool, split, &state));
    for (int32_t k = 0; k < count; k++)
        CST_TRY(need_member(context, pool, split, state, members[k]));
    return cst_pool_view_there(context, pool, split, members, count, pointers, out);
}

cst_status cst_pool_view_there(cst_context *context, const cst_pool *pool, const char *split,
                               const int32_t *members, int32_t count, const float **pointers,
                               cst_view *out) {
    const cst_pool_split *state = NULL;
    CST_TRY(need_loaded(context, pool, split, &state));
    for (int32_t k = 0; k < count; k++) {
        pointers[k] = NULL;
        if (has_no_file(pool, split, members[k]))
            continue;
        CST_TRY(need_member(context, pool, split, state, members[k]));
        pointers[k] = state->data[members[k]];
    }
    *out = whole_view(pool, split, state);
    out->members = count;
    out->data = pointers;
    return CST_OK;
}

bool cst_pool_misses(const cst_pool *pool) {
    return pool->missing;
}

cst_status cst_pool_need_all(cst_context *context, const cst_pool *pool, const char *split) {
    const cst_pool_split *state = find_loaded(pool, split);
    for (int32_t k = 0; state && k < pool->manifest->member_count; k++) {
        size_t rows = (size_t)cst_pool_all_rows(pool, find_split(pool, split));
        bool none = !state->data[k] || (state->present[k] && !memchr(state->present[k], 1, rows));
        if (none)
            return cst_fail(context, CST_ERROR_INPUT,
                            "member '%s' predicted no row of split '%s', so nothing can be fitted "
                            "to it; remove the member",
                            pool->manifest->members[k].name, split);
    }
    return CST_OK;
}

static cst_status read_rows(cst_context *context, const cst_pool *pool, const char *split,
                            int32_t member, int64_t first, int64_t count, float *out) {
    const float *pointer = NULL;
    const float *rows = NULL;
    cst_view view = {0};
    if (pool->listed > 0)
        return cst_fail(context, CST_ERROR_UNSUPPORTED,
                        "members that list the likeliest classes have no rows of probabilities");
    CST_TRY(cst_pool_view_members(context, pool, split, &member, 1, &pointer, &view));
    if (first < 0 || count < 0 || count > view.rows || first > view.rows - count)
        return cst_fail(context, CST_ERROR_ARGUMENT,
                        "%lld rows starting at row %lld do not exist: the split has %lld",
                        (long long)count, (long long)first, (long long)view.rows);
    CST_TRY(cst_view_rows(context, &view, 0, first, count, out, &rows));
    if (rows != out && count > 0)
        memcpy(out, rows, (size_t)count * (size_t)view.classes * sizeof *out);
    return CST_OK;
}

cst_status cst_pool_read(cst_context *context, const cst_pool *pool, const char *split,
                         int32_t member, int64_t first, int64_t count, float *out) {
    CST_ENTER(context);
    CST_NEED(context, pool && split && (count <= 0 || out), "pool, split and rows are required");
    return cst_why(context, read_rows(context, pool, split, member, first, count, out));
}

/* ---- the name of a split that a pool does not have ---- */

enum { NAME_CHARS = 64, SHOWN = 12 };

/* Insertions, deletions, changes and swaps of neighbours, of the first characters. */
static int distance(const char *a, const char *b) {
    int rows[3][NAME_CHARS + 1];
    size_t n = strnlen(a, NAME_CHARS);
    size_t m = strnlen(b, NAME_CHARS);
    int *before = rows[0];
    int *last = rows[1];
    int *now = rows[2];
    for (size_t j = 0; j <= m; j++)
        last[j] = before[j] = (int)j;
    for (size_t i = 1; i <= n; i++) {
        now[0] = (int)i;
        for (size_t j = 1; j <= m; j++) {
            int change = last[j - 1] + (a[i - 1] != b[j - 1]);
            int least = last[j] < now[j - 1] ? last[j] + 1 : now[j - 1] + 1;
            least = change < least ? change : least;
            bool swapped = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
            now[j] = swapped && before[j - 2] + 1 < least ? before[j - 2] + 1 : least;
        }
        int *free = before;
        before = last;
        last = now;
        now = free;
    }
    return last[m];
}

static const char *nearest(const cst_pool *pool, const char *split) {
    const char *found = NULL;
    int least = (int)strnlen(split, NAME_CHARS) / 3 + 1;
    for (int32_t s = 0; s < cst_pool_splits(pool); s++) {
        int d = distance(split, cst_pool_split_name(pool, s));
        if (d < least || (d == least && !found)) {
            least = d;
            found = cst_pool_split_name(pool, s);
        }
    }
    return found;
}

cst_status cst_fail_split(cst_context *context, cst_status status, const cst_pool *pool,
                          const char *split) {
    cst_buffer text = {.context = context};
    const char *near = nearest(pool, split);
    int32_t count = (int32_t)cst_pool_splits(pool);
    if (near) {
        cst_buffer_add_text(&text, "; did you mean '");
        cst_buffer_add_text(&text, near);
        cst_buffer_add_text(&text, "'? Its splits are ");
    } else {
        cst_buffer_add_text(&text, count == 1 ? "; its only split is " : "; its splits are ");
    }
    for (int32_t s = 0; s < count && s < SHOWN; s++) {
        cst_buffer_add_text(&text, s ? ", '" : "'");
        cst_buffer_add_text(&text, cst_pool_split_name(pool, s));
        cst_buffer_add_text(&text, "'");
    }
    if (count > SHOWN)
        cst_buffer_add_text(&text, ", ...");
    if (text.status == CST_OK)
        status = cst_fail(context, status, "the pool has no split '%.100s'%.500s", split,
                          count > 0 ? text.bytes : "");
    else
        status = text.status;
    cst_free(context, text.bytes);
    return status;
}
