/*
 * Compares the numbers of rows in the headers of a split's files before any rows are read, since a
 * small file can claim many. docs/security.md.
 */
#include "data/pool/state.h"
#include "data/readers/cases.h"

/* The length that `path` (NULL: none) says it has along `axis`. */
static cst_status compare(cst_context *context, const cst_pool *pool, cst_pool_split *split,
                          const char *path, int axis) {
    int64_t rows = -1;
    if (!path)
        return CST_OK;
    cst_status status = cst_manifest_confine(context, pool->manifest, path);
    if (status != CST_OK || (cst_is_folder(path) && !cst_manifest_parts(pool->manifest, path)))
        return status;
    cst_row_source source = cst_pool_source(pool, path);
    status = cst_row_claim_read(context, &source, axis, &rows);
    CST_THEN(cst_row_claim_check(context, path, rows, &split->claim));
    if (status == CST_OK && split->claim.rows < 0 && rows >= 0)
        split->claim = (cst_row_claim){.rows = rows, .where = path};
    return status;
}

cst_status cst_pool_compare_claims(cst_context *context, cst_pool *pool, int32_t split,
                                   const int32_t *members, int32_t count) {
    cst_pool_split *state = &pool->splits[split];
    const cst_manifest_split *spec = &pool->manifest->splits[split];
    const char *const paths[] = {spec->labels, spec->ids,     spec->folds,
                                 spec->groups, spec->weights, spec->domains};
    cst_status status = CST_OK;
    for (size_t i = 0; status == CST_OK && i < sizeof paths / sizeof *paths; i++)
        status = compare(context, pool, state, paths[i], 0);
    for (int32_t i = 0; status == CST_OK && i < count; i++) {
        const cst_manifest_member *member = &pool->manifest->members[members[i]];
        status = compare(context, pool, state, member->paths[split], spec->condition_count > 0);
        CST_THEN(compare(context, pool, state, member->ids[split], 0));
    }
    return status;
}
