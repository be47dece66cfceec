/* Corruption errors of every method; an image is drawn under all conditions together.
 * docs/robustness.md#corruption. */
#include "tasks/classification/classification.h"

#include "stats/corruption.h"

#include <math.h>
#include <string.h>

/* After the plan's own: scores that are means over conditions. */
static const char *const SCORES[] = {"top1", "nll", "brier"};
enum { SCORE_COUNT = sizeof SCORES / sizeof SCORES[0] };

/* The clean split's draws where its samples are not those of the corrupted one. */
static const uint64_t CLEAN_SEED = UINT64_C(0xd1b54a32d192ed03);

typedef struct corruption {
    const cst_shift *shift;
    const cst_target *target;
    const cst_target *clean; /* NULL: none */
    bool paired;             /* the clean samples are the same ones */
    cst_corruption *conditions;
    cst_corruption_plan plan;
    const char **names;  /* [drawn + SCORE_COUNT] */
    double *clean_drawn; /* [1 + resamples]: errors on the clean split */
    double *rows;        /* [drawn + SCORE_COUNT][samples]: sums over conditions for each image */
    double *wrong;       /* [clean samples] */
} corruption;

/* Whether two splits hold the same samples in the same order, as far as labels and ids say. */
static bool same_samples(const cst_pool *pool, const cst_target *a, const cst_target *b) {
    if (a->samples != b->samples ||
        memcmp(a->labels, b->labels, (size_t)a->samples * sizeof *a->labels) != 0)
        return false;
    for (int64_t i = 0; i < a->samples; i++) {
        const char *one = cst_pool_id(pool, a->split, i);
        const char *two = cst_pool_id(pool, b->split, i);
        if (one && two && strcmp(one, two) != 0)
            return false;
    }
    return true;
}

static cst_status make_plan(cst_context *context, cst_scope *scope, corruption *c,
                            const cst_reference_errors *reference) {
    const cst_pool *pool = c->shift->pool;
    const char *split = c->target->split;
    cst_report *report = c->shift->report;
    CST_TAKE(context, scope, c->conditions, c->target->conditions);
    for (int32_t k = 0; k < c->target->conditions; k++)
        c->conditions[k] =
            (cst_corruption){.family = cst_pool_condition_shift(pool, split, k),
                             .kind = cst_pool_condition_kind(pool, split, k),
                             .severity = cst_pool_condition_severity(pool, split, k)};
    CST_TRY(cst_corruption_plan_make(context, scope, c->conditions, c->target->conditions,
                                     c->clean != NULL, reference, &c->plan));
    json_t *at = cst_report_object(report, cst_report_root(report), "corruption");
    CST_PUT(
        report, at, CST_I("kinds", c->plan.kinds),
        CST_S("clean", c->clean ? c->clean->split : NULL),
        CST_S("normalised_by", reference ? reference->source : NULL),
        CST_S("units", reference ? "normalised" : "plain"),
        CST_S("resampled", !c->clean || c->paired
                               ? "images, each under all conditions together"
                               : "images, each under all conditions together; those of the clean "
                                 "split, which are others, by themselves"));
    return CST_OK;
}

static cst_status open_plan(cst_context *context, cst_scope *scope, corruption *c) {
    const char *given = c->shift->reference_errors;
    cst_reference_errors own = {0};
    cst_status status = given ? cst_reference_errors_read(context, given, &own) : CST_OK;
    CST_THEN(
        make_plan(context, scope, c, given ? &own : cst_pool_reference_errors(c->shift->pool)));
    cst_reference_errors_free(context, &own);
    return status;
}

/* Sums over conditions for each image, and the figures of each severity. */
static cst_status sum_conditions(cst_context *context, corruption *c,
                                 const cst_shift_method *method) {
    const cst_target *target = c->target;
    size_t n = (size_t)target->samples;
    size_t cells = n * (size_t)c->shift->classes;
    int32_t size = c->plan.drawn + SCORE_COUNT;
    json_t *list = cst_report_list(c->shift->report, method->row, "by_condition");
    memset(c->rows, 0, (size_t)size * n * sizeof *c->rows);
    for (int32_t k = 0; k < target->conditions; k++) {
        CST_SCOPE(scope);
        cst_samples s;
        CST_TRY(cst_samples_make(context, scope, method->predicted[0] + (size_t)k * cells,
                                 target->samples, c->shift->classes, target->labels, &s));
        double share = 1 / (double)target->conditions;
        double wrong = 0;
        for (size_t i = 0; i < n; i++) {
            double error = s.correct[i] ? 0 : 1;
            wrong += error;
            for (int32_t t = 0; t < c->plan.drawn; t++)
                c->rows[(size_t)t * n + i] +=
                    error * c->plan.weights[(size_t)t * (size_t)target->conditions + (size_t)k];
            double *scores = c->rows + (size_t)c->plan.drawn * n + i;
            scores[0] += share * (1 - error);
            scores[n] += share * s.nll[i];
            scores[2 * n] += share * s.brier[i];
        }
        cst_report_add_number(c->shift->report, list, wrong / (double)n);
    }
    return CST_OK;
}

/* Errors of the method on the clean split, or NULL. */
static cst_status clean_errors(cst_context *context, corruption *c,
                               const cst_shift_method *method) {
    CST_SCOPE(scope);
    cst_samples s;
    if (!c->clean)
        return CST_OK;
    CST_TRY(cst_samples_make(context, scope, method->predicted[c->clean - c->shift->targets->list],
                             c->clean->samples, c->shift->classes, c->clean->labels, &s));
    for (int64_t i = 0; i < c->clean->samples; i++)
        c->wrong[i] = s.correct[i] ? 0 : 1;
    return CST_OK;
}

/* Draws of the sums, to which those of the clean errors are added. */
static cst_status draw(cst_context *context, corruption *c, int32_t m, double *value,
                       double *drawn) {
    const cst_shift *shift = c->shift;
    int32_t size = c->plan.drawn + SCORE_COUNT;
    double *clean = c->clean_drawn;
    CST_SCOPE(scope);
    CST_NEW(context, scope, cst_ratio, ratios, size);
    for (int32_t s = 0; s < size; s++)
        ratios[s].numerator = c->rows + (size_t)s * (size_t)c->target->samples;
    CST_TRY(cst_ratios_bootstrap(context, ratios, size, c->target->samples, shift->resamples,
                                 shift->seed, value, drawn));
    if (!c->clean)
        return CST_OK;
    const cst_ratio error = {.numerator = c->wrong};
    CST_TRY(cst_ratios_bootstrap(context, &error, 1, c->clean->samples, shift->resamples,
                                 c->paired ? shift->seed : shift->seed ^ CLEAN_SEED, clean,
                                 clean + 1));
    for (int32_t s = 0; s < c->plan.drawn; s++) {
        value[s] += c->plan.clean[s] * clean[0];
        for (int32_t r = 0; r < shift->resamples; r++)
            drawn[(size_t)s * (size_t)shift->resamples + (size_t)r] +=
                c->plan.clean[s] * clean[1 + r];
    }
    cst_report_number(shift->report, shift->methods[m].row, "clean_error", clean[0]);
    return CST_OK;
}

/* The plan's statistics that have no interval: the kinds. */
static void put_kinds(const corruption *c, json_t *row) {
    cst_report *report = c->shift->report;
    json_t *errors = json_object_get(row, "by_condition");
    json_t *object = cst_report_object(report, row, "kinds");
    for (int32_t s = c->plan.drawn; s < c->plan.statistics; s++) {
        const double *w = c->plan.weights + (size_t)s * (size_t)c->target->conditions;
        double value = 0;
        for (int32_t k = 0; k < c->target->conditions; k++)
            value += w[k] * json_number_value(json_array_get(errors, (size_t)k));
        cst_report_number(report, object, strchr(c->plan.names[s], '.') + 1, value);
    }
}

/* Position of a condition's severity among those before it; itself where it is the first. */
static int32_t first_of_severity(const corruption *c, int32_t k) {
    for (int32_t j = 0; j < k; j++)
        if (c->conditions[j].severity == c->conditions[k].severity)
            return j;
    return k;
}

/* Error and calibration at each severity, means over its conditions. */
static cst_status put_severities(cst_context *context, const corruption *c,
                                 const cst_shift_method *method) {
    const cst_target *target = c->target;
    cst_report *report = c->shift->report;
    size_t cells = (size_t)target->samples * (size_t)c->shift->classes;
    json_t *list = cst_report_list(report, method->row, "severities");
    for (int32_t k = 0; k < target->conditions; k++) {
        cst_metrics sum = {0};
        int32_t count = 0;
        if (isnan(c->conditions[k].severity) || first_of_severity(c, k) != k)
            continue;
        for (int32_t j = k; j < target->conditions; j++) {
            cst_metrics one;
            const float *from = method->predicted[0] + (size_t)j * cells;
            cst_view view = {.rows = target->samples,
                             .classes = c->shift->classes,
                             .members = 1,
                             .data = &from,
                             .labels = target->labels};
            if (!(c->conditions[j].severity == c->conditions[k].severity))
                continue;
            CST_TRY(cst_metrics_of(context, &view, 0, 0, false, &one));
            count++;
            sum.top1 += one.top1;
            sum.nll += one.nll;
            sum.ece += one.ece;
        }
        json_t *at = cst_report_add_object(report, list);
        CST_PUT(report, at, CST_N("severity", c->conditions[k].severity),
                CST_I("conditions", count), CST_N("error", 1 - sum.top1 / count),
                CST_N("nll", sum.nll / count), CST_N("ece", sum.ece / count));
    }
    return CST_OK;
}

static cst_status make_room(cst_context *context, cst_scope *scope, corruption *c) {
    int32_t size = c->plan.drawn + SCORE_COUNT;
    CST_TAKE(context, scope, c->names, size);
    CST_TAKE(context, scope, c->rows, size * c->target->samples);
    CST_TAKE(context, scope, c->clean_drawn, 1 + c->shift->resamples);
    CST_TAKE(context, scope, c->wrong, c->clean ? c->clean->samples : 0);
    for (int32_t s = 0; s < c->plan.drawn; s++)
        c->names[s] = c->plan.names[s];
    for (int s = 0; s < SCORE_COUNT; s++)
        c->names[c->plan.drawn + s] = SCORES[s];
    return CST_OK;
}

static cst_status run_method(cst_context *context, void *user, int32_t m, double *value,
                             double *drawn) {
    corruption *c = user;
    CST_TRY(sum_conditions(context, c, &c->shift->methods[m]));
    CST_TRY(clean_errors(context, c, &c->shift->methods[m]));
    return draw(context, c, m, value, drawn);
}

cst_status cst_shift_corruption(cst_context *context, const cst_shift *shift) {
    CST_SCOPE(scope);
    corruption c = {.shift = shift, .target = &shift->targets->list[0]};
    for (int32_t t = 0; t < shift->targets->count; t++)
        if (shift->targets->list[t].role == CST_TARGET_CLEAN)
            c.clean = &shift->targets->list[t];
    c.paired = c.clean && same_samples(shift->pool, c.target, c.clean);
    CST_TRY(open_plan(context, scope, &c));
    CST_TRY(make_room(context, scope, &c));
    CST_TRY(
        cst_shift_statistics(context, shift, c.plan.drawn + SCORE_COUNT, c.names, run_method, &c));
    for (int32_t m = 0; m < shift->count; m++) {
        put_kinds(&c, shift->methods[m].row);
        CST_TRY(put_severities(context, &c, &shift->methods[m]));
    }
    return CST_OK;
}
