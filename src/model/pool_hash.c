/*
 * The hash of a split. Sums of mixed 64-bit numbers, so that neither the order of members nor that
 * of blocks matters. See the header.
 */
#include "model/pool_hash.h"

#include <math.h>
#include <string.h>

static const uint64_t STEP = UINT64_C(0x9e3779b97f4a7c15);

enum { OF_LABELS = 1, OF_TARGETS, OF_FOLDS, OF_GROUPS, OF_WEIGHTS, OF_DOMAINS };

uint64_t cst_hash_mix(uint64_t hash) {
    hash = (hash ^ (hash >> 33)) * UINT64_C(0xff51afd7ed558ccd);
    hash = (hash ^ (hash >> 33)) * UINT64_C(0xc4ceb9fe1a85ec53);
    return hash ^ (hash >> 33);
}

uint64_t cst_hash_bytes(uint64_t hash, const void *bytes, size_t size) {
    const uint8_t *at = bytes;
    for (size_t i = 0; i < size; i++)
        hash = (hash ^ at[i]) * UINT64_C(0x100000001b3);
    return hash;
}

typedef struct hash_job {
    cst_view view;
    const uint32_t *keys;  /* [classes], odd */
    const uint64_t *names; /* [members] */
    const int32_t *folds;
    const int64_t *groups;
    uint64_t *out; /* [blocks] */
} hash_job;

/* Each product is below 2^64, and another number in one place gives another sum. */
static uint64_t hash_row(const float *row, const uint32_t *keys, int32_t classes) {
    uint64_t sum = 0;
    for (int32_t c = 0; c < classes; c++) {
        uint32_t bits = 0;
        float value = row[c] + 0.0F; /* 0 and -0 are one number */
        memcpy(&bits, &value, sizeof bits);
        bits = isnan(value) ? UINT32_C(0x7fc00000) : bits;
        sum += (uint64_t)bits * keys[c];
    }
    return sum;
}

static uint64_t word(uint64_t row, int kind, uint64_t value) {
    return cst_hash_mix(cst_hash_mix(row + (uint64_t)kind * STEP) ^ value);
}

static uint64_t of_double(double value) {
    uint64_t bits = 0;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

/* Everything but the predictions of row `i`. */
static uint64_t hash_beside(const hash_job *job, int64_t i, uint64_t row) {
    const cst_view *view = &job->view;
    uint64_t sum = 0;
    if (view->labels)
        sum += word(row, OF_LABELS, (uint32_t)cst_view_label(view, i));
    for (int32_t d = 0; view->targets && d < view->classes; d++)
        sum += word(row + (uint64_t)d, OF_TARGETS, of_double(cst_view_target(view, i)[d]));
    if (job->folds)
        sum += word(row, OF_FOLDS, (uint32_t)job->folds[i]);
    if (job->groups)
        sum += word(row, OF_GROUPS, (uint64_t)job->groups[i]);
    if (view->domains && view->domains->count > 1) { /* of one, nothing depends on it */
        int32_t of = cst_view_domain(view, i);
        const char *name = of < 0 ? "" : view->domains->names[of];
        sum += word(row, OF_DOMAINS, cst_hash_bytes(CST_HASH_START, name, strlen(name)));
    }
    if (view->weights)
        sum += word(row, OF_WEIGHTS, of_double(cst_view_weight(view, i)));
    return sum;
}

static cst_status hash_block(cst_context *context, void *user, int64_t block) {
    const hash_job *job = user;
    const cst_view *view = &job->view;
    int64_t first = cst_block_first(block);
    int64_t size = cst_block_size(view->rows, block);
    CST_SCOPE(scope);
    float *scratch;
    CST_TAKE(context, scope, scratch, (size_t)size * (size_t)view->classes);
    uint64_t sum = 0;
    for (int32_t k = 0; k < view->members; k++) {
        const float *rows = NULL;
        CST_TRY(cst_view_rows(context, view, k, first, size, scratch, &rows));
        for (int64_t i = 0; i < size; i++)
            sum += cst_hash_mix(cst_hash_mix((uint64_t)(first + i) * STEP ^ job->names[k]) ^
                                hash_row(rows + i * view->classes, job->keys, view->classes));
    }
    for (int64_t i = first; i < first + size; i++)
        sum += hash_beside(job, i, (uint64_t)i * STEP);
    job->out[block] = sum;
    return CST_OK;
}

cst_status cst_pool_hash(cst_context *context, const cst_pool *pool, const char *split,
                         uint64_t *out) {
    cst_counted counted;
    cst_status status = cst_counted_open(context, pool, split, NULL, 0, &counted);
    if (status != CST_OK)
        return status;
    hash_job job = {.view = counted.view, .folds = counted.folds, .groups = counted.groups};
    const cst_view *view = &job.view;
    int64_t blocks = cst_block_count(view->rows);
    uint32_t *keys = cst_alloc(context, (size_t)view->classes, sizeof *keys);
    uint64_t *names = cst_alloc(context, (size_t)view->members, sizeof *names);
    job.out = cst_alloc(context, (size_t)blocks, sizeof *job.out);
    status = keys && names && job.out ? CST_OK : CST_ERROR_MEMORY;
    for (int32_t c = 0; status == CST_OK && c < view->classes; c++)
        keys[c] = (uint32_t)(cst_hash_mix(((uint64_t)c + 1) * STEP) >> 32) | 1U;
    uint64_t sum = (uint64_t)view->rows + (uint64_t)view->classes * STEP;
    for (int32_t k = 0; status == CST_OK && k < view->members; k++) {
        const char *name = cst_pool_member_name(pool, k);
        names[k] = cst_hash_bytes(CST_HASH_START, name, strlen(name));
        sum += cst_hash_mix(names[k]);
    }
    job.keys = keys;
    job.names = names;
    const cst_share filled = cst_share_tasks(job.out, blocks, sizeof *job.out);
    CST_THEN(cst_parallel_fill(context, blocks, hash_block, &job, &filled, 1));
    for (int64_t b = 0; status == CST_OK && b < blocks; b++)
        sum += job.out[b];
    *out = cst_hash_mix(sum);
    cst_free(context, keys);
    cst_free(context, names);
    cst_free(context, job.out);
    cst_counted_close(context, &counted);
    return status;
}
