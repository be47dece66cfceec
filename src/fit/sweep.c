/* Sweeps: methods while one option or the number of members varies. */
#include "fit/harness.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const char POOL_SIZE[] = "pool.size";
static const char FOLDS[] = "folds.";
static const char SEED[] = "seed";

/* Keys that do not change a method: a sweep over them would show nothing. */
static const char *const NOT_SWEPT[] = {"evaluate.nested"};

enum { METHODS_MAX = 64, DRAWS_MAX = 10000 };

typedef struct sweep {
    const cst_task_ops *ops;
    cst_pool *pool;
    const cst_sweep_options *sweep;
    const cst_compare_options *options;
    cst_evaluation e;
    cst_compare_options reopened; /* of `e`, where the sweep is over the folds */
    cst_scope *scope;             /* of the settings of that */
    bool sizes;                   /* the key is pool.size */
    bool seeds; /* the key is seed: of the evaluation, so that any method takes it */
    int32_t draws;
    const char *methods[METHODS_MAX];
    int32_t method_count;
    int32_t *members; /* [all] of the present draw */
    json_t *rows;
    json_t *summary;
    bool has_intervals;
} sweep;

/* The caller's settings, and then the one of the sweep, where it is an option of methods. */
static cst_status list_settings(cst_context *context, cst_scope *scope, const sweep *s,
                                const char *value, cst_compare_options *out) {
    int64_t count = s->options->setting_count;
    *out = *s->options;
    if (s->sizes || s->seeds)
        return CST_OK;
    CST_NEW(context, scope, const char *, settings, count + 1);
    for (int64_t i = 0; i < count; i++)
        settings[i] = s->options->settings[i];
    settings[count] = cst_take_format(context, scope, "%s=%s", s->sweep->key, value);
    out->settings = settings;
    out->setting_count++;
    return settings[count] ? CST_OK : CST_ERROR_MEMORY;
}

static cst_status make_method(cst_context *context, const sweep *s, const char *name,
                              const char *value, cst_entry *out) {
    cst_compare_options options;
    CST_SCOPE(scope);
    *out = (cst_entry){0};
    CST_TRY(list_settings(context, scope, s, value, &options));
    CST_TRY(cst_entry_make(context, &s->e, name, options.settings, (int32_t)options.setting_count,
                           out));
    if (!s->sizes && !s->seeds && !out->preset)
        return cst_fail(context, CST_ERROR_ARGUMENT,
                        "method %s has no options; sweep %s over presets (prototype, paper, "
                        "compact, best, default), or pool.size or seed over any method",
                        name, s->sweep->key);
    return CST_OK;
}

/* The start of a draw's random order of all members, for every size. Ascending. */
static void draw_members(const sweep *s, int32_t draw, int32_t size) {
    int32_t all = s->e.members;
    cst_rng rng;
    cst_rng_init(&rng, s->options->seed, CST_STREAM_SUBSETS, (uint32_t)draw);
    for (int32_t k = 0; k < all; k++)
        s->members[k] = k;
    for (int32_t k = 0; k < all - 1; k++) {
        int32_t other = k + (int32_t)cst_rng_below(&rng, all - k);
        int32_t moved = s->members[k];
        s->members[k] = s->members[other];
        s->members[other] = moved;
    }
    for (int32_t i = 1; i < size; i++) {
        int32_t moved = s->members[i];
        int32_t at = i;
        while (at > 0 && s->members[at - 1] > moved) {
            s->members[at] = s->members[at - 1];
            at--;
        }
        s->members[at] = moved;
    }
}

/* -1 for what is no whole number, or one of more than 16 digits. */
static int64_t whole_number(const char *value) {
    size_t length = strlen(value);
    bool digits = length > 0 && length < 17 && strspn(value, "0123456789") == length;
    return digits ? strtoll(value, NULL, 10) : -1;
}

static cst_status size_of(cst_context *context, const sweep *s, const char *value, int32_t *size) {
    int64_t parsed = *value == '0' ? -1 : whole_number(value);
    if (parsed < 1 || parsed > s->e.members)
        return cst_fail(context, CST_ERROR_ARGUMENT,
                        "pool.size '%.40s' is not a whole number from 1 to %d, the number of "
                        "members of the pool",
                        value, (int)s->e.members);
    *size = (int32_t)parsed;
    return CST_OK;
}

static cst_status seed_of(cst_context *context, const char *value, uint64_t *seed) {
    int64_t parsed = whole_number(value);
    if (parsed < 0 || (uint64_t)parsed > CST_SEED_MAX)
        return cst_fail(context, CST_ERROR_ARGUMENT,
                        "seed '%.40s' is not a whole number from 0 to 2^53", value);
    *seed = (uint64_t)parsed;
    return CST_OK;
}

static cst_status put_row(cst_context *context, cst_report *report, const sweep *s,
                          const char *value, int32_t draw, int32_t size, const cst_entry *entry,
                          const cst_intervals *intervals) {
    json_t *row = cst_report_add_object(report, s->rows);
    CST_PUT(report, row, CST_S("method", entry->name), CST_S("value", value));
    if (s->sizes) {
        cst_report_integer(report, row, "draw", draw);
        json_t *names = cst_report_list(report, row, "members");
        for (int32_t j = 0; j < size; j++)
            cst_report_add_string(report, names, cst_pool_member_name(s->pool, s->members[j]));
    }
    CST_TRY(cst_put_scores(context, report, row, &s->e, entry, intervals, 0));
    cst_put_cost(report, row, entry);
    return CST_OK;
}

typedef struct spread {
    double count;
    double mean;
    double square; /* sum of squared deviations from the mean (Welford) */
} spread;

static void add(spread *s, double value) {
    double before = value - s->mean;
    s->count += 1;
    s->mean += before / s->count;
    s->square += before * (value - s->mean);
}

static void put_moment(cst_report *report, json_t *object, const char *name, const char *what,
                       double value) {
    char key[32];
    (void)cst_snprintf(key, sizeof key, "%s_%s", name, what);
    cst_report_number(report, object, key, value);
}

/* error: and the standard error of the mean. */
static void put_spread(cst_report *report, json_t *object, const char *name, const spread *s,
                       bool error) {
    double variance = s->count > 1 ? s->square / (s->count - 1) : NAN;
    put_moment(report, object, name, "mean", s->count > 0 ? s->mean : NAN);
    put_moment(report, object, name, "sd", sqrt(variance));
    if (error)
        put_moment(report, object, name, "se", sqrt(variance / s->count));
}

typedef struct sums {
    spread score[CST_TASK_SCORES_MAX];
    spread models;
} sums;

/* One method at a value; for a draw, of the members drawn. */
static cst_status run_entry(cst_context *context, cst_report *report, sweep *s, const char *name,
                            const char *value, int32_t draw, int32_t size, sums *total) {
    int32_t scores = 0;
    const cst_score_spec *specs = cst_evaluation_scores(&s->e, &scores);
    cst_entry entry = {0};
    cst_evaluation part = {0};
    cst_intervals intervals;
    const cst_evaluation *used = s->sizes ? &part : &s->e;
    CST_SCOPE(scope);
    if (s->sizes) {
        CST_OWN(context, scope, cst_evaluation, &part);
        CST_TRY(cst_evaluation_subset(context, &s->e, size, s->members, &part));
    }
    CST_OWN(context, scope, cst_entry, &entry);
    CST_TRY(make_method(context, s, name, value, &entry));
    if (!cst_entry_applies(used, &entry))
        return CST_OK;
    CST_TRY(cst_entry_check_settings(context, &s->e, &entry));
    CST_TRY(cst_entry_run(context, &s->e, used, &entry));
    CST_TRY(cst_intervals_make(context, scope, &s->e, &entry, 1, 0, (int32_t)s->options->resamples,
                               &intervals));
    CST_TRY(put_row(context, report, s, value, draw, size, &entry, &intervals));
    s->has_intervals = intervals.done;
    for (int32_t i = 0; i < scores; i++)
        if (!isnan(entry.scores[i]) && !(specs[i].negative_is_none && entry.scores[i] < 0))
            add(&total->score[i], entry.scores[i]);
    add(&total->models, entry.models);
    return CST_OK;
}

/* Means over draws of a size (value), or over all seeds (value NULL). */
static void put_summary(cst_report *report, const sweep *s, const char *method, const char *value,
                        const sums *total) {
    int32_t count = 0;
    const cst_score_spec *specs = cst_evaluation_scores(&s->e, &count);
    if (total->models.count < 1)
        return;
    json_t *object = cst_report_add_object(report, s->summary);
    cst_report_string(report, object, "method", method);
    if (value)
        cst_report_string(report, object, "value", value);
    cst_report_integer(report, object, value ? "draws" : "seeds", (int64_t)total->models.count);
    for (int32_t i = 0; i < count; i++) {
        if (specs[i].in_summary || (!value && specs[i].in_table))
            put_spread(report, object, specs[i].key, &total->score[i], !value);
    }
    cst_report_number(report, object, "models_mean", total->models.mean);
}

static cst_status run_value(cst_context *context, cst_report *report, sweep *s, const char *method,
                            const char *value, sums *seeds) {
    sums total = {0};
    int32_t size = 0;
    if (s->sizes)
        CST_TRY(size_of(context, s, value, &size));
    for (int32_t draw = 0; draw < s->draws; draw++) {
        if (s->sizes)
            draw_members(s, draw, size);
        cst_status status =
            run_entry(context, report, s, method, value, draw, size, s->seeds ? seeds : &total);
        if (status != CST_OK)
            return cst_fail_row(context, status, method, s->sweep->key, value);
    }
    if (s->sizes)
        put_summary(report, s, method, value, &total);
    return CST_OK;
}

static cst_status check_sweep(cst_context *context, const sweep *s) {
    if (!s->sweep || !s->sweep->key || s->sweep->value_count < 1 || !s->sweep->values)
        return cst_fail(context, CST_ERROR_ARGUMENT, "a sweep needs a key and at least one value");
    if (s->sizes && (s->sweep->draws < 1 || s->sweep->draws > DRAWS_MAX))
        return cst_fail(context, CST_ERROR_ARGUMENT, "draws must be 1 to %d, got %d", DRAWS_MAX,
                        (int)s->sweep->draws);
    bool maps = strncmp(s->sweep->key, "segment.", 8) == 0;
    bool boxes = strncmp(s->sweep->key, "detect.", 7) == 0;
    if ((maps && s->ops->task != CST_TASK_SEGMENTATION) ||
        (boxes && s->ops->task != CST_TASK_DETECTION))
        return cst_fail(context, CST_ERROR_ARGUMENT,
                        "%.60s is an option for %s; it changes nothing in a %s pool", s->sweep->key,
                        maps ? "segmentation" : "detection", cst_task_text(s->ops->task));
    for (size_t i = 0; i < sizeof NOT_SWEPT / sizeof NOT_SWEPT[0]; i++)
        if (strcmp(s->sweep->key, NOT_SWEPT[i]) == 0)
            return cst_fail(context, CST_ERROR_ARGUMENT,
                            "%s does not change a method, so a sweep over it is pointless; run the "
                            "command once for each value",
                            NOT_SWEPT[i]);
    return CST_OK;
}

static cst_status add_name(cst_context *context, sweep *s, const char *name) {
    for (int32_t m = 0; m < s->method_count; m++)
        if (strcmp(s->methods[m], name) == 0)
            return CST_OK;
    if (s->method_count == METHODS_MAX)
        return cst_fail(context, CST_ERROR_LIMIT, "more than %d methods", METHODS_MAX);
    s->methods[s->method_count++] = name;
    return CST_OK;
}

/* "all": every method by pool.size and seed, presets by an option. */
static cst_status add_all(cst_context *context, sweep *s) {
    for (size_t n = 0; s->ops->method_name(n); n++) {
        const char *name = s->ops->method_name(n);
        if (s->sizes || s->seeds || cst_method_is_preset(name))
            CST_TRY(add_name(context, s, name));
    }
    return CST_OK;
}

static cst_status list_methods(cst_context *context, sweep *s) {
    const cst_compare_options *o = s->options;
    if (o->method_count < 1)
        return add_name(context, s, "default");
    for (int32_t i = 0; i < o->method_count; i++)
        CST_TRY(strcmp(o->methods[i], "all") == 0 ? add_all(context, s)
                                                  : add_name(context, s, o->methods[i]));
    return CST_OK;
}

/* Every value and method is read before the first is run. */
static cst_status check_values(cst_context *context, const sweep *s) {
    for (int32_t m = 0; m < s->method_count; m++)
        for (int32_t v = 0; v < s->sweep->value_count; v++) {
            const char *value = s->sweep->values[v];
            cst_entry entry;
            int32_t size = 0;
            uint64_t seed = 0;
            cst_status status = make_method(context, s, s->methods[m], value, &entry);
            cst_entry_free(context, &entry);
            CST_TRY(status);
            if (s->sizes)
                CST_TRY(size_of(context, s, value, &size));
            if (s->seeds)
                CST_TRY(seed_of(context, value, &seed));
        }
    return CST_OK;
}

/* Whether an option is the evaluation's: it is then opened anew for each value. */
static bool of_evaluation(const char *key) {
    return strcmp(key, SEED) == 0 || strncmp(key, FOLDS, 6) == 0 ||
           strncmp(key, "segment.", 8) == 0 || strncmp(key, "detect.", 7) == 0;
}

static cst_status reopen(cst_context *context, sweep *s, const char *value) {
    if (strncmp(s->sweep->key, FOLDS, 6) == 0 && cst_pool_folds(s->pool, "oof"))
        return cst_fail(context, CST_ERROR_INPUT,
                        "split 'oof' has its own folds, so %s has no effect", s->sweep->key);
    CST_TRY(list_settings(context, s->scope, s, value, &s->reopened));
    cst_evaluation_close(context, &s->e);
    s->e.checked = s->seeds;
    if (s->seeds)
        CST_TRY(seed_of(context, value, &s->reopened.seed));
    return cst_evaluation_open(context, s->ops, s->pool, &s->reopened, false, &s->e);
}

/* No score of the methods differs from seed to seed. */
static bool is_constant(const sums *of) {
    for (int i = 0; i < CST_TASK_SCORES_MAX; i++)
        if (of->score[i].square > 0)
            return false;
    return true;
}

static cst_status run_all(cst_context *context, sweep *s, cst_report *report) {
    int64_t total = (int64_t)s->method_count * s->sweep->value_count;
    int64_t done = 0;
    bool constant = s->seeds && s->sweep->value_count > 1;
    for (int32_t m = 0; m < s->method_count; m++) {
        sums seeds = {0};
        for (int32_t v = 0; v < s->sweep->value_count; v++) {
            double end = cst_part_begin(context, 1.0 / (double)(total - done));
            CST_TRY(cst_progress(context, "sweep", done++, total));
            if (of_evaluation(s->sweep->key))
                CST_TRY(reopen(context, s, s->sweep->values[v]));
            CST_TRY(run_value(context, report, s, s->methods[m], s->sweep->values[v], &seeds));
            cst_part_end(context, end);
        }
        constant = constant && is_constant(&seeds);
        if (s->seeds)
            put_summary(report, s, s->methods[m], NULL, &seeds);
    }
    if (constant)
        cst_notice(context, "every seed gives the same scores: nothing that was run depends on it");
    return CST_OK;
}

static cst_status run(cst_context *context, void *user, cst_report *report) {
    sweep *s = user;
    double start = cst_seconds();
    json_t *root = cst_report_root(report);
    CST_SCOPE(scope);
    s->scope = scope;
    CST_OWN(context, scope, cst_evaluation, &s->e);
    CST_TRY(check_sweep(context, s));
    CST_TRY(list_methods(context, s));
    CST_TRY(cst_evaluation_open(context, s->ops, s->pool, s->options, false, &s->e));
    CST_TAKE(context, scope, s->members, s->e.members);
    CST_TRY(check_values(context, s));
    cst_report_string(report, root, "key", s->sweep->key);
    cst_put_header(report, &s->e);
    if (s->sizes)
        cst_report_integer(report, root, "draws", s->draws);
    s->rows = cst_report_list(report, root, "rows");
    if (s->seeds)
        cst_report_value(report, root, SEED, json_null());
    s->summary = s->sizes || s->seeds ? cst_report_list(report, root, "summary") : NULL;
    CST_TRY(run_all(context, s, report));
    if (s->has_intervals)
        cst_report_integer(report, root, "resamples", (int32_t)s->options->resamples);
    json_t *seconds = cst_report_object(report, root, "seconds");
    CST_PUT(report, seconds, CST_N("read", s->e.seconds_read),
            CST_N("total", cst_seconds() - start));
    return CST_OK;
}

cst_status cst_run_sweep(cst_context *context, const cst_task_ops *ops, cst_pool *pool,
                         const cst_sweep_options *over, const cst_compare_options *given,
                         cst_report **report) {
    cst_compare_options options = *given;
    options.ood = NULL;
    options.predicted = NULL;
    sweep s = {.ops = ops,
               .pool = pool,
               .sweep = over,
               .options = &options,
               .sizes = over->key && strcmp(over->key, POOL_SIZE) == 0};
    s.seeds = over->key && strcmp(over->key, SEED) == 0;
    s.draws = s.sizes ? (int32_t)over->draws : 1;
    return cst_run_call(context, CST_REPORT_SWEEP, run, &s, report);
}
