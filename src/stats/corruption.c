/* Corruption errors as linear functions of the errors under each condition. See the header. */
#include "stats/corruption.h"

#include "data/readers/strings.h"

#include <math.h>
#include <string.h>

/* The kind that a condition counts as; "all" where it says nothing of itself. */
static const char *corruption_kind(const cst_corruption *condition) {
    if (condition->kind)
        return condition->kind;
    return condition->family ? condition->family : "all";
}

/* Kinds, families and severities of the conditions, by position. */
typedef struct kinds {
    const cst_corruption *conditions;
    int32_t count;     /* of conditions */
    int32_t *kind;     /* [count]: 0..kinds-1, by first appearance */
    int32_t *family;   /* [kinds]: 0..families-1; -1: none */
    int32_t *size;     /* [kinds]: conditions of it */
    int32_t *members;  /* [families]: kinds of it */
    const char **name; /* [kinds], then [families] */
    int32_t kinds, families;
} kinds;

static int32_t find_name(const char **names, int32_t count, const char *name) {
    for (int32_t i = 0; i < count; i++)
        if (strcmp(names[i], name) == 0)
            return i;
    return -1;
}

static cst_status group(cst_context *context, cst_scope *scope, const cst_corruption *conditions,
                        int32_t count, kinds *out) {
    *out = (kinds){.conditions = conditions, .count = count};
    CST_TAKE(context, scope, out->kind, count);
    CST_TAKE(context, scope, out->family, count);
    CST_TAKE(context, scope, out->size, count);
    CST_TAKE(context, scope, out->members, count);
    CST_TAKE(context, scope, out->name, 2 * count);
    const char **families = out->name + count;
    for (int32_t c = 0; c < count; c++) {
        const char *name = corruption_kind(&conditions[c]);
        int32_t k = find_name(out->name, out->kinds, name);
        if (k < 0) {
            const char *family = conditions[c].family;
            int32_t f = family ? find_name(families, out->families, family) : -1;
            if (family && f < 0) {
                f = out->families++;
                families[f] = family;
            }
            k = out->kinds++;
            out->name[k] = name;
            out->family[k] = f;
            if (f >= 0)
                out->members[f]++;
        }
        out->kind[c] = k;
        out->size[k]++;
    }
    return CST_OK;
}

/* Sum over the severities of a kind of the reference's errors. */
static cst_status reference_sum(cst_context *context, const kinds *k, int32_t kind,
                                const cst_reference_errors *reference, double *out) {
    const cst_reference_error *found = cst_reference_errors_find(reference, k->name[kind]);
    if (!found)
        return cst_fail(context, CST_ERROR_INPUT,
                        "the reference errors (%s) have none for '%s'; give one for each "
                        "corruption of the split",
                        reference->source, k->name[kind]);
    if (found->count != 1 && found->count != k->size[kind])
        return cst_fail(context, CST_ERROR_INPUT,
                        "the reference errors (%s) have %d severities for '%s', but the split has "
                        "%d; give one for each severity, or their mean",
                        reference->source, (int)found->count, k->name[kind], (int)k->size[kind]);
    *out = 0;
    for (int32_t i = 0; i < found->count; i++)
        *out += found->errors[i] * (found->count == 1 ? (double)k->size[kind] : 1);
    return CST_OK;
}

/* The reference's clean error; NaN where there is none, or with a notice where a kind's excess over
 * it is nothing to divide by. */
static double usable_clean(cst_context *context, const kinds *k, const double *sums,
                           const cst_reference_errors *reference) {
    for (int32_t i = 0; !isnan(reference->clean) && i < k->kinds; i++) {
        if (sums[i] > (double)k->size[i] * reference->clean)
            continue;
        cst_notice(context,
                   "mce_relative is left out: it divides by the difference between the reference "
                   "errors (%s) of '%s' and the clean reference error, which is not positive",
                   reference->source, k->name[i]);
        return NAN;
    }
    return reference->clean;
}

/* A notice of kinds that the split lacks: misspelt, perhaps. */
static void tell_unused(cst_context *context, const kinds *k,
                        const cst_reference_errors *reference) {
    int32_t unused = 0;
    const char *first = NULL;
    for (int32_t i = 0; !reference->published && i < reference->count; i++) {
        const char *kind = reference->kinds[i].kind;
        if (find_name(k->name, k->kinds, kind) >= 0)
            continue;
        first = unused++ ? first : kind;
    }
    char quoted[CST_QUOTE_CHARS];
    if (unused == 1)
        cst_notice(context,
                   "the reference error (%s) of '%s' is not used: the split has no such corruption",
                   reference->source, cst_quote(quoted, first));
    else if (unused > 1)
        cst_notice(context,
                   "the reference errors (%s) of %d corruptions, the first of them '%s', are not "
                   "used: the split has no such corruptions",
                   reference->source, (int)unused, cst_quote(quoted, first));
}

/* A new statistic; NULL without memory. */
static double *add_statistic(cst_context *context, cst_scope *scope, cst_corruption_plan *plan,
                             const char *prefix, const char *name) {
    int32_t s = plan->statistics;
    size_t bytes = strlen(prefix) + strlen(name) + 1;
    plan->names[s] = cst_take(context, scope, bytes, 1);
    if (!plan->names[s])
        return NULL;
    (void)cst_snprintf(plan->names[s], bytes, "%s%s", prefix, name);
    plan->statistics++;
    return plan->weights + (size_t)s * (size_t)plan->conditions;
}

/* The divisor of a kind's summed error: the reference's sum, or the severities. */
static double divisor(const kinds *k, const double *sums, int32_t kind) {
    return sums ? sums[kind] : (double)k->size[kind];
}

/* The four that are over all kinds. sums: [kinds] of the reference, NULL without. */
static cst_status add_totals(cst_context *context, cst_scope *scope, const kinds *k, bool clean,
                             const double *sums, double reference_clean,
                             cst_corruption_plan *plan) {
    double share = 1 / (double)k->kinds;
    double *w = add_statistic(context, scope, plan, "mce", "");
    for (int32_t c = 0; w && c < k->count; c++)
        w[c] = share / (double)k->size[k->kind[c]];
    if (w && sums) {
        w = add_statistic(context, scope, plan, "mce_normalised", "");
        for (int32_t c = 0; w && c < k->count; c++)
            w[c] = share / sums[k->kind[c]];
    }
    if (w && clean) {
        plan->clean[plan->statistics] = -1;
        w = add_statistic(context, scope, plan, "mce_delta", "");
        for (int32_t c = 0; w && c < k->count; c++)
            w[c] = share / divisor(k, sums, k->kind[c]);
    }
    if (w && clean && sums && !isnan(reference_clean)) {
        double *at = &plan->clean[plan->statistics];
        w = add_statistic(context, scope, plan, "mce_relative", "");
        for (int32_t c = 0; w && c < k->count; c++) {
            int32_t kind = k->kind[c];
            double excess = sums[kind] - (double)k->size[kind] * reference_clean;
            w[c] = share / excess;
            *at -= share / excess; /* once for each severity */
        }
    }
    return w ? CST_OK : CST_ERROR_MEMORY;
}

/* Means over the kinds of a family and the severities of a kind. sums: as add_totals. */
static cst_status add_parts(cst_context *context, cst_scope *scope, const kinds *k,
                            const double *sums, cst_corruption_plan *plan) {
    for (int32_t f = 0; f < k->families; f++) {
        double *w =
            add_statistic(context, scope, plan, "families.", k->name[(size_t)k->count + (size_t)f]);
        if (!w)
            return CST_ERROR_MEMORY;
        for (int32_t c = 0; c < k->count; c++)
            if (k->family[k->kind[c]] == f)
                w[c] = 1 / ((double)k->members[f] * divisor(k, sums, k->kind[c]));
    }
    plan->drawn = plan->statistics;
    for (int32_t i = 0; i < k->kinds; i++) {
        double *w = add_statistic(context, scope, plan, "kinds.", k->name[i]);
        if (!w)
            return CST_ERROR_MEMORY;
        for (int32_t c = 0; c < k->count; c++)
            if (k->kind[c] == i)
                w[c] = 1 / divisor(k, sums, i);
    }
    return CST_OK;
}

cst_status cst_corruption_plan_make(cst_context *context, cst_scope *scope,
                                    const cst_corruption *conditions, int32_t count, bool clean,
                                    const cst_reference_errors *reference,
                                    cst_corruption_plan *out) {
    CST_SCOPE(own);
    kinds k;
    double *sums = NULL;
    double reference_clean = NAN;
    *out = (cst_corruption_plan){.conditions = count, .normalised = reference != NULL};
    CST_TRY(group(context, own, conditions, count, &k));
    int32_t most = 4 + k.families + k.kinds;
    out->kinds = k.kinds;
    CST_TAKE(context, scope, out->names, most);
    CST_TAKE(context, scope, out->weights, (size_t)most * (size_t)count);
    CST_TAKE(context, scope, out->clean, most);
    if (reference) {
        CST_TAKE(context, own, sums, k.kinds);
        for (int32_t i = 0; i < k.kinds; i++)
            CST_TRY(reference_sum(context, &k, i, reference, &sums[i]));
        reference_clean = clean ? usable_clean(context, &k, sums, reference) : NAN;
        tell_unused(context, &k, reference);
    }
    CST_TRY(add_totals(context, scope, &k, clean, sums, reference_clean, out));
    return add_parts(context, scope, &k, sums, out);
}
