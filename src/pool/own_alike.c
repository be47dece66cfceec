/*
 * Checks that the pools of all ranks agree, with own rows: descriptions of the pools are compared
 * line by line with that of rank 0. When a pool is opened. Paper: none.
 */
#include "base/ranks.h"
#include "pool/own.h"

#include <stdarg.h>
#include <string.h>

enum { LINE_CHARS = 1024 };

static cst_status add(cst_context *context, cst_strings *lines, const char *format, ...)
    CST_PRINTF(3, 4);

static cst_status add(cst_context *context, cst_strings *lines, const char *format, ...) {
    char line[LINE_CHARS];
    va_list args;
    va_start(args, format);
    (void)cst_vsnprintf(line, sizeof line, format, args);
    va_end(args);
    return cst_strings_add(context, lines, line, strlen(line));
}

static const char *or_none(const char *text) {
    return text ? text : "none";
}

static cst_status describe_members(cst_context *context, const cst_manifest *m,
                                   cst_strings *lines) {
    cst_status status = add(context, lines, "%d members", (int)m->member_count);
    for (int32_t k = 0; status == CST_OK && k < m->member_count; k++)
        status = add(context, lines, "member %d is %s", (int)k + 1, m->members[k].name);
    for (int32_t k = 0; status == CST_OK && k < m->member_count; k++) {
        const cst_manifest_member *a = &m->members[k];
        status =
            add(context, lines,
                "member %s: family %s, flops %.17g, latency_ms %.17g, params %.17g, "
                "memory_bytes %.17g, ensemble %d of %s with %d passes",
                a->name, or_none(a->family), a->flops, a->latency_ms, a->params, a->memory_bytes,
                (int)a->ensemble, or_none(a->ensemble_of), (int)a->ensemble_passes);
    }
    return status;
}

static cst_status describe_split(cst_context *context, const cst_manifest *m, int32_t s,
                                 cst_strings *lines) {
    const cst_manifest_split *split = &m->splits[s];
    cst_status status = add(
        context, lines, "split %s has%s%s%s%s%s%s, clean %s, domain %s, ood %d, %d conditions",
        split->name, split->labels ? " labels" : " no labels", split->ids ? " ids" : "",
        split->folds ? " folds" : "", split->groups ? " groups" : "",
        split->weights ? " weights" : "", split->domains ? " domains" : "", or_none(split->clean),
        or_none(split->domain), (int)split->ood, (int)split->condition_count);
    for (int32_t c = 0; status == CST_OK && c < split->condition_count; c++)
        status = add(context, lines, "split %s: condition %d is %s, %s, severity %.17g",
                     split->name, (int)c, or_none(split->conditions[c].shift),
                     or_none(split->conditions[c].kind), split->conditions[c].severity);
    for (int32_t k = 0; status == CST_OK && k < m->member_count; k++)
        if (!m->members[k].paths[s])
            status = add(context, lines, "member %s has no predictions for split %s",
                         m->members[k].name, split->name);
    return status;
}

static cst_status describe_classes(cst_context *context, const cst_pool *pool, cst_strings *lines) {
    const char *noun = pool->task == CST_TASK_REGRESSION ? "output" : "class";
    cst_status status = add(context, lines, "%d %s", (int)pool->classes,
                            pool->task == CST_TASK_REGRESSION ? "outputs" : "classes");
    for (int32_t c = 0; status == CST_OK && pool->class_names && c < pool->class_names->count; c++)
        status =
            add(context, lines, "%s %d is %s", noun, (int)c, cst_strings_at(pool->class_names, c));
    return status;
}

static cst_status describe(cst_context *context, const cst_pool *pool, cst_strings *lines) {
    const cst_manifest *m = pool->manifest;
    cst_status status =
        add(context, lines, "task %s%s%s", cst_task_name(pool->task),
            pool->logits ? ", logits" : "", pool->missing ? ", missing predictions allowed" : "");
    CST_TRY(describe_members(context, m, lines));
    CST_TRY(describe_classes(context, pool, lines));
    CST_TRY(add(context, lines, "%d splits", (int)m->split_count));
    for (int32_t s = 0; status == CST_OK && s < m->split_count; s++)
        status = describe_split(context, m, s, lines);
    for (int32_t c = 0; status == CST_OK && m->training_counts && c < m->training_count_classes;
         c++)
        status = add(context, lines, "training count of class %d is %lld", (int)c,
                     (long long)m->training_counts[c]);
    CST_TRY(add(context, lines, "%d reference errors from %s", (int)m->reference_errors.count,
                or_none(m->reference_errors.source)));
    return status;
}

/* The line after this one; NULL after the last. */
static const char *next_line(const char *line, const char *end) {
    const char *next = line + strlen(line) + 1;
    return next < end ? next : NULL;
}

static cst_status compare(cst_context *context, const char *first, const char *other,
                          const char *end, int rank) {
    char quoted[2][CST_QUOTE_CHARS];
    const char *a = first;
    const char *b = other;
    while (a && b && strcmp(a, b) == 0 && *a) {
        a = next_line(a, end);
        b = next_line(b, end);
    }
    if (!a || !b || strcmp(a, b) == 0)
        return CST_OK;
    return cst_fail(context, CST_ERROR_MISMATCH,
                    "the pool of rank %d differs from that of rank 0: '%s' and '%s'; all "
                    "ranks need the same task, members in the same order, classes, splits and "
                    "columns",
                    rank, cst_quote(quoted[0], *b ? b : "nothing more"),
                    cst_quote(quoted[1], *a ? a : "nothing more"));
}

cst_status cst_own_alike(cst_context *context, const cst_pool *pool) {
    cst_strings *lines = NULL;
    void *all = NULL;
    size_t bytes = 0;
    cst_status status = cst_strings_create(context, &lines);
    CST_TRY(describe(context, pool, lines));
    CST_TRY(add(context, lines, "%s", "")); /* ends them */
    status = cst_ranks_gather(context, status, lines ? lines->bytes : NULL,
                              status == CST_OK && lines ? lines->used : 0, &all, &bytes);
    const char *end = (const char *)all + bytes;
    const char *at = all;
    for (int r = 0; status == CST_OK && at && r < cst_context_ranks(context); r++) {
        status = compare(context, all, at, end, r);
        while (status == CST_OK && at && *at)
            at = next_line(at, end);
        at = status == CST_OK && at ? next_line(at, end) : NULL;
    }
    cst_free(context, all);
    cst_strings_free(context, lines);
    return status;
}
