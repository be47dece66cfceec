/* The splits that an evaluation predicts, and statistics with draws as keys of rows. */
#include "tasks/classification/classification.h"

#include <math.h>
#include <string.h>

enum { KEY_CHARS = 320 };

typedef struct statistics {
    int32_t size;
    double *value; /* [methods][size] */
    double *drawn; /* [methods][size][resamples], or NULL */
} statistics;

static double *value_of(const statistics *s, int32_t m) {
    return s->value + (size_t)m * (size_t)s->size;
}

static double *drawn_of(const cst_shift *shift, const statistics *s, int32_t m) {
    return s->drawn ? s->drawn + (size_t)m * (size_t)s->size * (size_t)shift->resamples : NULL;
}

/* The object that "a.b" belongs to, made where it is not there; *key becomes "b". */
static json_t *place(cst_report *report, json_t *object, const char **key) {
    char part[KEY_CHARS];
    const char *dot = strchr(*key, '.');
    if (!dot)
        return object;
    (void)cst_snprintf(part, sizeof part, "%.*s", (int)(dot - *key), *key);
    *key = dot + 1;
    json_t *found = json_object_get(object, part);
    return found ? found : cst_report_object(report, object, part);
}

/* A value, and its interval where all draws are numbers. draws [resamples] are reordered. */
static void put(const cst_shift *shift, json_t *object, const char *name, double value,
                double *draws) {
    char key[KEY_CHARS];
    bool known = draws != NULL;
    json_t *at = place(shift->report, object, &name);
    cst_report_number(shift->report, at, name, value);
    for (int32_t r = 0; known && r < shift->resamples; r++)
        known = isfinite(draws[r]);
    if (!known)
        return;
    cst_interval interval = cst_interval_of(draws, shift->resamples, value);
    double ends[2] = {interval.low, interval.high};
    (void)cst_snprintf(key, sizeof key, "%s_ci", name);
    cst_report_numbers(shift->report, at, key, ends, 2);
}

/* Of one method and, but for the reference, its differences to that. copy: [resamples]. */
static void put_method(const cst_shift *shift, const statistics *s, const char *const *names,
                       int32_t m, double *copy) {
    size_t n = (size_t)shift->resamples;
    json_t *row = shift->methods[m].row;
    const double *value = value_of(s, m);
    const double *draws = drawn_of(shift, s, m);
    for (int32_t i = 0; i < s->size; i++) {
        if (draws)
            memcpy(copy, draws + (size_t)i * n, n * sizeof *copy);
        put(shift, row, names[i], value[i], draws ? copy : NULL);
    }
    if (shift->reference < 0 || m == shift->reference || !draws)
        return;
    json_t *difference = json_object_get(row, "difference");
    if (!difference)
        difference = cst_report_object(shift->report, row, "difference");
    const double *other = value_of(s, shift->reference);
    const double *others = drawn_of(shift, s, shift->reference);
    for (int32_t i = 0; i < s->size; i++) {
        for (size_t r = 0; r < n; r++)
            copy[r] = draws[(size_t)i * n + r] - others[(size_t)i * n + r];
        put(shift, difference, names[i], value[i] - other[i], copy);
    }
}

cst_status cst_shift_statistics(cst_context *context, const cst_shift *shift, int32_t size,
                                const char *const *names, cst_statistics_fn compute, void *user) {
    size_t count = (size_t)shift->count * (size_t)size;
    statistics s = {.size = size};
    CST_SCOPE(scope);
    CST_NEW(context, scope, double, copy, shift->resamples);
    CST_TAKE(context, scope, s.value, count);
    if (shift->resamples > 0 && size > 0)
        CST_TAKE(context, scope, s.drawn, count * (size_t)shift->resamples);
    for (int32_t m = 0; m < shift->count; m++)
        CST_TRY(compute(context, user, m, value_of(&s, m), drawn_of(shift, &s, m)));
    for (int32_t m = 0; m < shift->count; m++)
        put_method(shift, &s, names, m, copy);
    return CST_OK;
}

enum { TARGETS_MAX = 64 };

static cst_status add(cst_context *context, const cst_pool *pool, const char *split,
                      cst_target_role role, cst_targets *out) {
    for (int32_t t = 0; t < out->count; t++)
        if (strcmp(out->list[t].split, split) == 0)
            return cst_fail(context, CST_ERROR_ARGUMENT,
                            "split '%.100s' is named twice among the scored, clean and "
                            "out-of-distribution splits",
                            split);
    if (out->count == TARGETS_MAX)
        return cst_fail(context, CST_ERROR_LIMIT, "more than %d splits", TARGETS_MAX);
    if (!cst_pool_has_split(pool, split))
        return cst_fail_split(context, CST_ERROR_MISMATCH, pool, split);
    int32_t conditions = (int32_t)cst_pool_conditions(pool, split);
    if (role != CST_TARGET_SCORED && conditions > 0)
        return cst_fail(context, CST_ERROR_UNSUPPORTED,
                        "split '%.100s' has %d conditions; a split that is %s must have none",
                        split, (int)conditions,
                        role == CST_TARGET_CLEAN ? "clean" : "out of distribution");
    out->list[out->count++] = (cst_target){.split = split, .role = role, .conditions = conditions};
    out->scored += role == CST_TARGET_SCORED;
    return CST_OK;
}

/* Names with commas between, in `at`, which is cut up; a split's own commas count. */
static cst_status add_list(cst_context *context, const cst_pool *pool, char *at,
                           cst_target_role role, cst_targets *out) {
    if (cst_pool_has_split(pool, at))
        return add(context, pool, at, role, out);
    while (at) {
        char *comma = strchr(at, ',');
        if (comma)
            *comma = '\0';
        CST_TRY(add(context, pool, at, role, out));
        at = comma ? comma + 1 : NULL;
    }
    return CST_OK;
}

/* Which options go together. */
static cst_status check(cst_context *context, const cst_targets *targets, bool clean, bool ood) {
    const cst_target *first = &targets->list[0];
    for (int32_t t = 0; t < targets->scored; t++) {
        const cst_target *target = &targets->list[t];
        if (targets->scored > 1 && strcmp(target->split, "oof") == 0)
            return cst_fail(context, CST_ERROR_UNSUPPORTED, "fits use split 'oof'; score it alone");
        if (targets->scored > 1 && target->conditions > 0)
            return cst_fail(context, CST_ERROR_UNSUPPORTED,
                            "split '%.100s' has %d conditions; score it alone", target->split,
                            (int)target->conditions);
    }
    if (ood && targets->scored > 1)
        return cst_fail(context, CST_ERROR_UNSUPPORTED,
                        "out-of-distribution rows are compared with those of one split; name a "
                        "single split to score");
    if (ood && first->conditions > 0)
        return cst_fail(
            context, CST_ERROR_UNSUPPORTED,
            "split '%s' has several conditions; compare split '%s' with a split without conditions",
            first->split, targets->list[targets->count - 1].split);
    if (clean && first->conditions == 0)
        return cst_fail(context, CST_ERROR_ARGUMENT,
                        "a clean split is for a split with conditions, and '%s' has none",
                        first->split);
    return CST_OK;
}

cst_status cst_targets_make(cst_context *context, const cst_pool *pool, const char *split,
                            const char *clean, const char *ood, cst_targets *out) {
    *out = (cst_targets){0};
    size_t a = strlen(split) + 1;
    size_t b = strlen(ood ? ood : "") + 1;
    const char *given = clean && *clean ? clean : NULL;
    char *text; /* zeros between the names */
    CST_TAKE(context, &out->scope, out->list, TARGETS_MAX);
    CST_TAKE(context, &out->scope, text, a + b);
    memcpy(text, split, a);
    memcpy(text + a, ood ? ood : "", b);
    CST_TRY(add_list(context, pool, text, CST_TARGET_SCORED, out));
    if (!clean && out->list[0].conditions > 0)
        clean = cst_pool_clean_split(pool, out->list[0].split);
    clean = clean && *clean ? clean : NULL;
    if (clean && strcmp(clean, "oof") == 0)
        return cst_fail(context, CST_ERROR_UNSUPPORTED,
                        "fits use split 'oof', so it cannot be the clean split; name another");
    if (clean)
        CST_TRY(add(context, pool, clean, CST_TARGET_CLEAN, out));
    if (ood)
        CST_TRY(add_list(context, pool, text + a, CST_TARGET_OOD, out));
    return check(context, out, given != NULL, ood != NULL);
}

void cst_targets_free(cst_context *context, cst_targets *targets) {
    for (int32_t t = 0; targets->list && t < targets->count; t++)
        cst_counted_close(context, &targets->list[t].counted);
    cst_scope_free(&targets->scope);
    *targets = (cst_targets){0};
}

void cst_target_take(cst_target *target) {
    target->view = target->counted.view;
    target->samples = target->counted.samples;
    target->groups = target->counted.groups;
    target->weights = target->view.weights;
    target->domains = target->view.domains;
    if (target->role != CST_TARGET_OOD)
        target->labels = target->counted.labels;
}

cst_status cst_target_fill(cst_context *context, const cst_pool *pool, const int32_t *members,
                           int32_t count, cst_target *target) {
    cst_counted_close(context, &target->counted);
    cst_status status =
        cst_counted_open(context, pool, target->split, members, count, &target->counted);
    if (status != CST_OK)
        return status;
    cst_target_take(target);
    if (target->role == CST_TARGET_OOD)
        return CST_OK;
    if (!target->labels)
        return cst_fail(context, CST_ERROR_INPUT,
                        "split '%s' has no labels to score against; name it with --ood, next to a "
                        "split with labels",
                        target->split);
    return CST_OK;
}

cst_status cst_target_load(cst_context *context, cst_pool *pool, cst_target *target) {
    CST_TRY(cst_pool_load(context, pool, target->split));
    return cst_target_fill(context, pool, NULL, 0, target);
}

cst_status cst_targets_check_weights(cst_context *context, const cst_pool *pool,
                                     const cst_targets *targets) {
    for (int32_t t = 0; t < targets->count; t++) {
        const cst_target *target = &targets->list[t];
        if (cst_pool_weights(pool, target->split) && (targets->count > 1 || target->conditions > 0))
            return cst_fail(context, CST_ERROR_UNSUPPORTED,
                            "split '%.100s' has row weights, but %s all rows equally: score it "
                            "alone, or remove the weights",
                            target->split,
                            target->conditions > 0 ? "conditions count"
                                                   : "several splits together count");
    }
    return CST_OK;
}
