/*
 * Pools with own rows: the rows of this rank are loaded as a separate pool. Labels, folds, ids and
 * the like are then joined, and predictions are served to the other ranks. When a pool is opened,
 * and when a split is loaded. Paper: P_oof on several machines.
 */
#include "pool/own.h"

#include "base/ranks.h"
#include "comm/rows.h"
#include "pool/room.h"

#include <inttypes.h>
#include <string.h>

/* ---- opening ---- */

cst_status cst_own_create(cst_context *context, cst_pool *pool) {
    int32_t count = pool->manifest->split_count;
    cst_status status = CST_OK;
    if (pool->task != CST_TASK_CLASSIFICATION && pool->task != CST_TASK_REGRESSION)
        status = cst_fail(context, CST_ERROR_UNSUPPORTED,
                          "%s: --own-rows supports classification and regression, but the task is "
                          "%s; put the files where every rank can read them, and omit the option",
                          pool->manifest->path, cst_task_name(pool->task));
    struct cst_own *own = status == CST_OK ? cst_alloc(context, 1, sizeof *own) : NULL;
    if (status == CST_OK && !own)
        status = CST_ERROR_MEMORY;
    if (status == CST_OK) {
        pool->own = own;
        own->splits = cst_alloc(context, (size_t)count, sizeof *own->splits);
        status = own->splits ? cst_pool_make_splits(context, pool->manifest, &own->local.splits)
                             : CST_ERROR_MEMORY;
    }
    for (int32_t s = 0; status == CST_OK && s < count; s++) {
        int32_t conditions = pool->manifest->splits[s].condition_count;
        own->splits[s] = (cst_own_split){.local = &own->local.splits[s],
                                         .rank = cst_context_rank(context),
                                         .ranks = cst_context_ranks(context),
                                         .conditions = conditions > 0 ? conditions : 1};
        own->local.splits[s].part = true;
        pool->splits[s].own = &own->splits[s];
    }
    return status == CST_OK ? cst_own_alike(context, pool) : status;
}

cst_pool *cst_own_local(cst_pool *pool) {
    cst_pool *local = &pool->own->local;
    cst_pool_split *splits = local->splits;
    *local = *pool;
    local->splits = splits;
    local->own = NULL;
    local->said = NULL;
    return local;
}

/* ---- labels, folds, ids and the like ---- */

/* A rank's part of a split. */
typedef struct summary {
    int64_t rows;
    bool ids;
    bool row_numbers; /* the ids are 0, 1, 2, ... as a data frame writes its index */
    bool domains;
    cst_own_files files;
} summary;

static bool are_row_numbers(const cst_strings *ids) {
    for (int64_t i = 0; i < ids->count; i++) {
        char number[24];
        (void)cst_snprintf(number, sizeof number, "%" PRId64, i);
        if (strcmp(cst_strings_at(ids, i), number) != 0)
            return false;
    }
    return true;
}

/* Compares the summaries of all ranks, and counts their rows. *ids: the ids are not row numbers. */
static cst_status take_summaries(cst_context *context, const summary *all, const char *name,
                                 cst_own_split *own, bool *ids) {
    int ranks = cst_context_ranks(context);
    int64_t rows = 0;
    int first = -1; /* the first rank with rows */
    own->bounds = cst_alloc(context, (size_t)ranks + 1, sizeof *own->bounds);
    if (!own->bounds)
        return CST_ERROR_MEMORY;
    bool numbers = true;
    for (int r = 0; r < ranks; r++) {
        own->bounds[r] = rows;
        rows += all[r].rows;
        if (all[r].rows == 0)
            continue;
        first = first < 0 ? r : first;
        numbers = numbers && all[r].row_numbers;
        if (all[r].ids != all[first].ids || all[r].domains != all[first].domains)
            return cst_fail(context, CST_ERROR_MISMATCH,
                            "split '%s': rank %d has %s, unlike rank %d; give them on all ranks "
                            "or on none",
                            name, r,
                            all[r].ids != all[first].ids
                                ? (all[r].ids ? "sample ids" : "no sample ids")
                                : (all[r].domains ? "domains" : "no domains"),
                            first);
    }
    own->bounds[ranks] = rows;
    if (rows < 1)
        return cst_fail(context, CST_ERROR_INPUT, "split '%s': no rank has any rows of it", name);
    *ids = all[first].ids && !numbers;
    return CST_OK;
}

/* Fails on the rank whose files are those of a rank before it; the next exchange tells the others.
 */
static cst_status check_files(cst_context *context, const cst_pool *pool, int32_t split,
                              const summary *all) {
    int rank = cst_context_rank(context);
    cst_status status = CST_OK;
    for (int r = 0; status == CST_OK && all[rank].rows > 0 && r < rank; r++)
        if (all[r].rows > 0)
            status = cst_own_once(context, pool, split, &all[rank].files, &all[r].files, r);
    return status;
}

static cst_status count_rows(cst_context *context, const cst_pool *pool, int32_t split, bool *ids) {
    cst_own_split *own = pool->splits[split].own;
    const cst_pool_split *local = own->local;
    void *all = NULL;
    size_t bytes = 0;
    summary mine;
    memset(&mine, 0, sizeof mine); /* also between the fields, for it is sent */
    mine.rows = local->rows;
    mine.ids = local->ids != NULL;
    mine.row_numbers = local->ids && are_row_numbers(local->ids);
    mine.domains = local->domains != NULL;
    cst_own_identify(pool, split, &mine.files);
    cst_status status = cst_ranks_gather(context, CST_OK, &mine, sizeof mine, &all, &bytes);
    if (status == CST_OK)
        status = take_summaries(context, all, pool->manifest->splits[split].name, own, ids);
    CST_TRY(check_files(context, pool, split, all));
    cst_free(context, all);
    return status;
}

/* A column of all ranks, elements of `width` bytes; NULL where there is none. */
static cst_status join_column(cst_context *context, cst_status status, const cst_own_split *own,
                              const void *mine, size_t width, void **out) {
    if (status != CST_OK || !mine)
        return status; /* the same on every rank */
    size_t rows = (size_t)own->bounds[own->ranks];
    size_t first = (size_t)own->bounds[own->rank];
    size_t count = (size_t)own->bounds[own->rank + 1] - first;
    *out = cst_alloc(context, rows, width);
    if (!*out)
        status = CST_ERROR_MEMORY;
    else
        memcpy((unsigned char *)*out + first * width, mine, count * width);
    return cst_ranks_fill_parts(context, status, *out, width, own->bounds);
}

/* The names of domains of all ranks, and the domain of each row among them. */
static cst_status join_domains(cst_context *context, cst_status status, const cst_own_split *own,
                               cst_pool_split *state, const char *where) {
    const cst_domains *mine = own->local->domains;
    cst_domains *whole = NULL;
    cst_strings *names = NULL;
    int32_t *of = NULL;
    if (status != CST_OK || !mine)
        return status;
    status = cst_strings_create(context, &names);
    for (int32_t d = 0; status == CST_OK && d < mine->count; d++)
        status = cst_strings_add(context, names, mine->names[d], strlen(mine->names[d]));
    status = cst_own_texts(context, status, &names);
    const char **list = cst_alloc(context, names ? (size_t)names->count : 0, sizeof *list);
    if (status == CST_OK && !list)
        status = CST_ERROR_MEMORY;
    for (int64_t i = 0; status == CST_OK && names && i < names->count; i++)
        list[i] = cst_strings_at(names, i);
    if (status == CST_OK && names)
        status = cst_domains_make(context, list, names->count, where, &whole);
    if (status == CST_OK && !(of = cst_alloc(context, (size_t)mine->rows, sizeof *of)))
        status = CST_ERROR_MEMORY;
    for (int64_t i = 0; status == CST_OK && whole && i < mine->rows; i++)
        of[i] = mine->of[i] < 0
                    ? -1
                    : cst_domain_find(whole->names, whole->count, mine->names[mine->of[i]]);
    void *all = NULL;
    status = join_column(context, status, own, of, sizeof *of, &all);
    if (status == CST_OK && whole) {
        cst_free(context, whole->of);
        whole->of = all;
        whole->rows = own->bounds[own->ranks];
        state->domains = whole;
        whole = NULL;
        all = NULL;
    }
    cst_free(context, all);
    cst_domains_free(context, whole);
    cst_free(context, of);
    cst_free(context, (void *)list);
    cst_strings_free(context, names);
    return status;
}

/* The rank that has a row, and the row there. */
static int rank_of(const cst_own_split *own, int64_t row, int64_t *there) {
    int rank = 0;
    while (own->bounds[rank + 1] <= row)
        rank++;
    *there = row - own->bounds[rank];
    return rank;
}

/* Ids of all ranks, each once. */
static cst_status join_ids(cst_context *context, cst_status status, const cst_own_split *own,
                           cst_pool_split *state) {
    cst_id_index *index = NULL;
    int64_t twice[2] = {-1, -1};
    int64_t there[2];
    if (status == CST_OK)
        status = own->local->ids ? cst_strings_copy(context, own->local->ids, &state->ids)
                                 : cst_strings_create(context, &state->ids);
    status = cst_own_texts(context, status, &state->ids);
    if (status == CST_OK && state->ids->count != own->bounds[own->ranks])
        return cst_fail(context, CST_ERROR_INTERNAL, "ranks have other ids than rows");
    CST_TRY(cst_id_index_build(context, &index, state->ids, "the rows of all ranks", twice));
    cst_id_index_free(context, index);
    if (twice[0] < 0)
        return status;
    char quoted[CST_QUOTE_CHARS];
    int first = rank_of(own, twice[0], &there[0]);
    int second = rank_of(own, twice[1], &there[1]);
    return cst_fail(context, CST_ERROR_INPUT,
                    "sample id '%s' is in row %" PRId64 " of rank %d and in row %" PRId64
                    " of rank %d; each row may be on one rank only",
                    cst_quote(quoted, cst_strings_at(state->ids, twice[0])), there[0], first,
                    there[1], second);
}

static cst_status check_whole(cst_context *context, const cst_pool_split *state, const char *name) {
    bool any = !state->weights;
    for (int64_t i = 0; !any && i < state->rows; i++)
        any = state->weights[i] > 0;
    if (!any)
        return cst_fail(context, CST_ERROR_INPUT,
                        "split '%s': every weight of every rank is 0, so no row is left; give at "
                        "least one row a positive weight",
                        name);
    if (state->folds && state->rows > INT32_MAX)
        return cst_fail(context, CST_ERROR_LIMIT, "split '%s': more than 2^31 rows with folds",
                        name);
    return CST_OK;
}

static cst_status join_columns(cst_context *context, cst_pool *pool, int32_t split) {
    cst_pool_split *state = &pool->splits[split];
    const cst_own_split *own = state->own;
    const cst_pool_split *local = own->local;
    const char *name = pool->manifest->splits[split].name;
    void *column[5] = {NULL};
    bool ids = false;
    cst_status status = count_rows(context, pool, split, &ids);
    const void *const mine[] = {local->labels, local->targets, local->folds, local->groups,
                                local->weights};
    const size_t width[] = {sizeof *state->labels, (size_t)pool->classes * sizeof *state->targets,
                            sizeof *state->folds, sizeof *state->groups, sizeof *state->weights};
    for (size_t c = 0; c < sizeof mine / sizeof *mine; c++)
        status = join_column(context, status, own, mine[c], width[c], &column[c]);
    state->labels = column[0];
    state->targets = column[1];
    state->folds = column[2];
    state->groups = column[3];
    state->weights = column[4];
    status = join_domains(context, status, own, state, name);
    if (status == CST_OK && ids)
        status = join_ids(context, status, own, state);
    CST_TRY(cst_pool_set_rows(context, state, own->bounds[own->ranks], pool->manifest->path));
    CST_TRY(check_whole(context, state, name));
    state->labels_path = local->labels_path;
    state->described = status == CST_OK;
    return status;
}

/* ---- predictions ---- */

/* Which rows the members predicted, of all ranks. */
static cst_status join_present(cst_context *context, cst_pool_split *state, const int32_t *members,
                               int32_t count) {
    const cst_own_split *own = state->own;
    cst_status status = CST_OK;
    size_t rows = (size_t)state->rows;
    size_t conditions = (size_t)own->conditions;
    size_t first = (size_t)own->bounds[own->rank];
    size_t here = (size_t)own->bounds[own->rank + 1] - first;
    for (int32_t i = 0; i < count; i++) {
        int32_t k = members[i];
        const uint8_t *mine = own->local->present[k];
        bool whole = !mine;
        status = cst_own_all(context, status, &whole);
        if (status != CST_OK || whole)
            continue;
        cst_free(context, state->present[k]);
        uint8_t *all = cst_alloc(context, conditions * rows, 1);
        state->present[k] = all;
        for (size_t c = 0; all && c < conditions; c++)
            for (size_t r = 0; r < here; r++)
                all[c * rows + first + r] = mine ? mine[c * here + r] : 1;
        status = cst_own_fill(context, all ? CST_OK : CST_ERROR_MEMORY, own, all, 1);
    }
    return status;
}

static cst_status serve(cst_context *context, const cst_pool *pool, cst_own_split *own) {
    if (own->rows) { /* other members are served already, and now all ranks have these too */
        bool yes = true;
        return cst_own_all(context, CST_OK, &yes);
    }
    const cst_rows_served served = {.read = cst_own_serve,
                                    .user = own,
                                    .members = pool->manifest->member_count,
                                    .rows = own->local->rows * own->conditions,
                                    .width = (size_t)pool->classes};
    return cst_rows_open(context, &served, &own->rows);
}

/* Keeping rows of members in memory. */
typedef struct keep_job {
    cst_store *store;
    const int32_t *members;
    int64_t first;
    int64_t end;
} keep_job;

static cst_status keep(cst_context *worker, void *user, int64_t task) {
    const keep_job *job = user;
    return cst_store_keep(worker, job->store, job->members[task], job->first, job->end);
}

/* Makes the entries of members in the store of the whole pool. */
static cst_status make_entries(cst_context *context, const cst_pool *pool, cst_pool_split *state,
                               const int32_t *members, int32_t count) {
    cst_status status = CST_OK;
    if (!state->store)
        status =
            cst_store_create(context, pool->manifest->member_count, pool->classes, &state->store);
    for (int32_t i = 0; status == CST_OK && i < count; i++) {
        int32_t k = members[i];
        status = cst_own_entry(context, state->own, k, &state->store->entries[k]);
        if (status == CST_OK)
            state->data[k] = cst_store_place(state->store, k);
    }
    return status;
}

cst_status cst_own_join(cst_context *context, cst_pool *pool, int32_t split, const int32_t *members,
                        int32_t count) {
    cst_pool_split *state = &pool->splits[split];
    bool yes = true;
    cst_status status = state->own->bounds ? CST_OK : join_columns(context, pool, split);
    if (status == CST_OK && cst_pool_partial(pool))
        status = join_present(context, state, members, count);
    CST_TRY(serve(context, pool, state->own));
    CST_TRY(make_entries(context, pool, state, members, count));
    if (status == CST_OK && cst_pool_partial(pool)) {
        status = cst_pool_fill(context, pool, split);
        CST_TRY(cst_own_all(context, status, &yes)); /* nobody reads what is not filled in */
        cst_rows_forget(state->own->rows);
    }
    if (status == CST_OK &&
        !cst_pool_is_too_large(context, pool, split, count, cst_context_ranks(context))) {
        keep_job job = {.store = state->store, .members = members};
        int32_t conditions = pool->manifest->splits[split].condition_count;
        cst_store_near(context, state->rows * (conditions > 0 ? conditions : 1), &job.first,
                       &job.end);
        status = cst_parallel_for(context, count, keep, &job);
    }
    CST_TRY(cst_pool_repeat_labels(context, state, pool->manifest->splits[split].condition_count));
    return status;
}
