/*
 * What the parts of a fit depend on. See the header.
 */
#include "pipeline/resume.h"

#include "base/buffer.h"
#include "base/number.h"
#include "io/cases.h"
#include "io/checkpoint.h"
#include "la/la.h"
#include "pipeline/label.h"

#include <corestack/options.h>
#include <string.h>

/* Adds a line. Line ends in the value become spaces. */
static void add(cst_buffer *text, const char *key, const char *value) {
    cst_buffer_add_text(text, key);
    cst_buffer_add_text(text, "=");
    for (; *value; value++)
        cst_buffer_add(text, *value == '\n' ? " " : value, 1);
    cst_buffer_add_text(text, "\n");
}

/* Members in their order, with costs and tags, which are not in the hash of a pool. */
static void add_members(cst_buffer *text, const cst_pool *pool) {
    for (int32_t k = 0; k < cst_pool_members(pool); k++) {
        char key[32];
        char costs[160];
        cst_member_ensemble tag = cst_pool_member_ensemble(pool, k);
        (void)cst_snprintf(key, sizeof key, "member %d", (int)k);
        (void)cst_snprintf(costs, sizeof costs,
                           " (%.17g FLOPs, %.17g ms, %.17g parameters, %d x %d ",
                           cst_pool_member_flops(pool, k), cst_pool_member_latency_ms(pool, k),
                           cst_pool_member_params(pool, k), (int)tag.kind, (int)tag.passes);
        cst_buffer_add_text(text, key);
        cst_buffer_add_text(text, "=");
        cst_buffer_add_text(text, cst_pool_member_name(pool, k));
        cst_buffer_add_text(text, costs);
        add(text, "of", tag.of ? tag.of : "-");
    }
}

/* Where the cases of a segmentation are, and how they are divided. */
static void add_cases(cst_buffer *text, const cst_pool *pool, const char *split) {
    const cst_cases *cases =
        cst_pool_task(pool) == CST_TASK_SEGMENTATION ? cst_pool_cases(pool, split) : NULL;
    char number[CST_HASH_CHARS];
    if (!cases)
        return;
    size_t count = (size_t)cases->count;
    uint64_t of = cst_checkpoint_of(0, cases->first, (count + 1) * sizeof *cases->first);
    of = cst_checkpoint_of(of, cases->shape, count * sizeof *cases->shape);
    if (cases->folds)
        of = cst_checkpoint_of(of, cases->folds, count * sizeof *cases->folds);
    if (cases->groups)
        of = cst_checkpoint_of(of, cases->groups, count * sizeof *cases->groups);
    cst_hash_text(of, number);
    add(text, "cases", number);
}

cst_status cst_fit_resume(cst_context *context, const cst_resume *fit) {
    char number[CST_HASH_CHARS];
    uint64_t hash = 0;
    cst_buffer text = {.context = context};
    if (!cst_checkpoint_wanted(context))
        return CST_OK;
    cst_status status = fit->hash(context, fit->pool, fit->split, &hash);
    if (status != CST_OK)
        return status;
    cst_hash_text(hash, number);
    add(&text, "version", cst_version());
    add(&text, "processor", cst_la_core());
    add(&text, "task", cst_task_name(cst_pool_task(fit->pool)));
    add(&text, "split", fit->split);
    add(&text, "method", fit->method ? fit->method : "-");
    add(&text, "preset", cst_options_preset_name(fit->options));
    for (size_t i = 0; i < cst_option_count(); i++) {
        const char *key = cst_option_at(i)->key;
        add(&text, key, cst_options_get(fit->options, key));
    }
    add(&text, "content of the pool", number);
    add_cases(&text, fit->pool, fit->split);
    add_members(&text, fit->pool);
    status = text.status;
    CST_TRY(cst_checkpoint_start(context, text.bytes));
    cst_free(context, text.bytes);
    return status;
}
