/*
 * The domain of each row of a split (sketches, another hospital), from npy, npz or delimited text
 * or from memory, joined by id and checked. Beside groups and weights. Paper: "Domain Shift".
 */
#include "data/pool/state.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { DOMAINS_MAX = 1 << 16 };

void cst_domains_free(cst_context *context, cst_domains *domains) {
    if (!domains)
        return;
    for (int32_t d = 0; domains->names && d < domains->count; d++)
        cst_free(context, domains->names[d]);
    cst_free(context, domains->names);
    cst_free(context, domains->of);
    cst_free(context, domains);
}

int32_t cst_domain_find(char *const *names, int32_t count, const char *name) {
    int32_t first = 0;
    int32_t end = count;
    while (first < end) {
        int32_t middle = first + (end - first) / 2;
        int order = strcmp(names[middle], name);
        if (order == 0)
            return middle;
        if (order < 0)
            first = middle + 1;
        else
            end = middle;
    }
    return -1;
}

static bool is_named(const char *name) {
    return name && *name;
}

static int by_name(const void *a, const void *b) {
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* The names [count], sorted, each once, into the list. */
static cst_status add_names(cst_context *context, const char **sorted, int64_t count,
                            const char *where, cst_domains *out) {
    int64_t different = 0;
    for (int64_t i = 0; i < count; i++)
        if (i == 0 || strcmp(sorted[i], sorted[i - 1]) != 0)
            sorted[different++] = sorted[i];
    if (different > DOMAINS_MAX)
        return cst_fail(context, CST_ERROR_LIMIT,
                        "%s: %" PRId64 " different domains, more than %d; is this a column of ids?",
                        where, different, DOMAINS_MAX);
    out->names = cst_alloc(context, (size_t)different, sizeof *out->names);
    if (!out->names)
        return CST_ERROR_MEMORY;
    for (out->count = 0; out->count < different; out->count++) {
        const char *name = sorted[out->count];
        char quoted[CST_QUOTE_CHARS];
        if (!cst_manifest_is_name(name))
            return cst_fail(context, CST_ERROR_INPUT, "%s: the domain '%s' %s", where,
                            cst_quote(quoted, name), cst_manifest_name_fault(name));
        out->names[out->count] = cst_strdup(context, name);
        if (!out->names[out->count])
            return CST_ERROR_MEMORY;
    }
    return CST_OK;
}

/* The domains of rows names [rows], each a text or NULL (or ""): no domain. `where` and `what`
 * open messages: CST_ERROR_INPUT for a name that cannot be one. *out is the caller's. */
static cst_status domains_make(cst_context *context, const char *const *names, int64_t rows,
                               const char *where, cst_domains **out) {
    *out = NULL;
    cst_domains *domains = cst_alloc(context, 1, sizeof *domains);
    if (!domains)
        return CST_ERROR_MEMORY;
    const char **sorted = cst_alloc(context, (size_t)rows, sizeof *sorted);
    domains->rows = rows;
    domains->of = cst_alloc(context, (size_t)rows, sizeof *domains->of);
    cst_status status = sorted && domains->of ? CST_OK : CST_ERROR_MEMORY;
    int64_t count = 0;
    for (int64_t i = 0; status == CST_OK && i < rows; i++)
        if (is_named(names[i]))
            sorted[count++] = names[i];
    if (status == CST_OK && count > 0)
        qsort((void *)sorted, (size_t)count, sizeof *sorted, by_name);
    CST_THEN(add_names(context, sorted, count, where, domains));
    for (int64_t i = 0; status == CST_OK && i < rows; i++) {
        domains->of[i] =
            is_named(names[i]) ? cst_domain_find(domains->names, domains->count, names[i]) : -1;
        cst_trim_item(context, i);
    }
    cst_free(context, (void *)sorted);
    if (status == CST_OK)
        *out = domains;
    else
        cst_domains_free(context, domains);
    return status;
}

cst_status cst_domains_take(cst_context *context, const cst_domains *all, const int64_t *index,
                            int64_t count, cst_domains **out) {
    const char **names = cst_alloc(context, (size_t)count, sizeof *names);
    *out = NULL;
    if (!names)
        return CST_ERROR_MEMORY;
    for (int64_t i = 0; i < count; i++) {
        int32_t of = all->of[index[i] % all->rows];
        names[i] = of < 0 ? NULL : all->names[of];
    }
    cst_status status = domains_make(context, names, count, "domains", out);
    cst_free(context, (void *)names);
    return status;
}

cst_status cst_pool_copy_domains(cst_context *context, cst_pool_split *split,
                                 const char *const *names, int64_t rows) {
    return domains_make(context, names, rows, "domains", &split->domains);
}

/* All rows are of one domain. */
static cst_status repeat_domain(cst_context *context, cst_pool_split *split, const char *name,
                                const char *where) {
    const char **names = cst_alloc(context, (size_t)split->rows, sizeof *names);
    if (!names)
        return CST_ERROR_MEMORY;
    for (int64_t i = 0; i < split->rows; i++)
        names[i] = name;
    cst_status status = domains_make(context, names, split->rows, where, &split->domains);
    cst_free(context, (void *)names);
    return status;
}

/* Numbers are names as well. */
static cst_status name_numbers(cst_context *context, cst_column *column) {
    cst_status status = column->texts ? CST_OK : cst_strings_create(context, &column->texts);
    for (int64_t i = 0; status == CST_OK && column->numbers && i < column->count; i++) {
        status = cst_strings_add_int(context, column->texts, column->numbers[i]);
        cst_trim_item(context, i);
    }
    return status;
}

static cst_status read_column(cst_context *context, const cst_pool *pool, cst_pool_split *split,
                              const char *path) {
    static const char *const wanted[] = {"domain", "domains", NULL};
    cst_table_ask ask = {.use = CST_TABLE_COLUMN,
                         .kind = CST_COLUMN_DOMAIN,
                         .wanted = wanted,
                         .id_column = pool->id_column};
    cst_column column;
    int64_t *places = NULL;
    cst_status status =
        cst_pool_read_ordered(context, pool, split, path, &ask, false, &column, &places);
    if (status != CST_OK)
        return status;
    const char **names = cst_alloc(context, (size_t)column.count, sizeof *names);
    status = names ? name_numbers(context, &column) : CST_ERROR_MEMORY;
    for (int64_t i = 0; status == CST_OK && i < column.count; i++)
        names[places ? places[i] : i] = cst_strings_at(column.texts, i);
    CST_THEN(domains_make(context, names, column.count, path, &split->domains));
    cst_free(context, (void *)names);
    cst_free(context, places);
    cst_column_clear(context, &column);
    return status;
}

cst_status cst_pool_read_domains(cst_context *context, const cst_pool *pool, cst_pool_split *split,
                                 const cst_manifest_split *spec) {
    return spec->domains ? read_column(context, pool, split, spec->domains) : CST_OK;
}

cst_status cst_pool_settle_domains(cst_context *context, const cst_pool *pool,
                                   cst_pool_split *split, const cst_manifest_split *spec) {
    /* A description that cannot be a name is none. */
    return spec->domain && !split->domains && cst_manifest_is_name(spec->domain)
               ? repeat_domain(context, split, spec->domain, pool->manifest->path)
               : CST_OK;
}
