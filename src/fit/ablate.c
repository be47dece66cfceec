/* The paper's cumulative ablation, and our drop-and-refit last. */
#include "fit/harness.h"

#include <string.h>

enum { STAGES = 6, OURS = STAGES - 1, KEY_CHARS = 64 };

static const char *const NAME[STAGES] = {"prototype",   "+S1 CKA",     "+S2 gate",
                                         "+S3 lambda*", "+S4 Laplace", "+S5 refit"};

static const struct option_stage {
    const char *start;
    int stage;
} STAGE_OF[] = {{"redundancy.", 1}, {"cka.", 1},      {"pearson.", 1}, {"gate.", 2},
                {"lambda.", 3},     {"spectrum.", 3}, {"domain.", 0}};

/* The stage of options not listed: row S4 is then preset paper. The domain-aware layer belongs to
 * no stage. */
enum { STAGE_OF_REST = 4 };

static const char *const OUR_SETTING[2] = {"refit.drop", "true"};

static int stage_of(const char *key) {
    for (size_t i = 0; i < sizeof STAGE_OF / sizeof STAGE_OF[0]; i++)
        if (strncmp(key, STAGE_OF[i].start, strlen(STAGE_OF[i].start)) == 0)
            return STAGE_OF[i].stage;
    return STAGE_OF_REST;
}

/* The stage that changes an option, and its value from there on; 0: no stage does. */
static int changed_by(const cst_options *prototype, const cst_options *paper, const char *key,
                      const char **value) {
    *value = cst_options_get(paper, key);
    if (strcmp(cst_options_get(prototype, key), *value) != 0)
        return stage_of(key);
    *value = OUR_SETTING[1];
    return strcmp(key, OUR_SETTING[0]) == 0 ? OURS : 0;
}

CST_OWNED(cst_options)

/* Options of a preset that live as long as the scope. */
static cst_status options_of(cst_context *context, cst_scope *scope, const char *preset,
                             cst_options **out) {
    CST_TRY(cst_method_options(context, preset, 0, NULL, 0, out));
    return cst_scope_own(context, scope, cst_options_release, *out);
}

/* Visits "key=value" of the stages from..to, in the order of the option table. */
typedef cst_status visit_fn(cst_context *context, void *user, const char *key, const char *value);

static cst_status visit(cst_context *context, int from, int to, visit_fn *fn, void *user) {
    cst_options *prototype;
    cst_options *paper;
    CST_SCOPE(scope);
    CST_TRY(options_of(context, scope, "prototype", &prototype));
    CST_TRY(options_of(context, scope, "paper", &paper));
    for (int64_t i = 0; i < cst_option_count(); i++) {
        const char *value = NULL;
        const char *key = cst_option_at(i)->key;
        int stage = changed_by(prototype, paper, key, &value);
        if (stage >= from && stage <= to)
            CST_TRY(fn(context, user, key, value));
    }
    return CST_OK;
}

/* "key=value" strings: those of the stages are in the scope, the caller's borrowed. */
typedef struct setting_list {
    cst_scope *scope;
    const char **text;
    int32_t count;
} setting_list;

static cst_status add_setting(cst_context *context, void *user, const char *key,
                              const char *value) {
    setting_list *list = user;
    const char *text = cst_take_format(context, list->scope, "%s=%s", key, value);
    list->text[list->count++] = text;
    return text ? CST_OK : CST_ERROR_MEMORY;
}

/* What stages 1 to `stage` set, and then what the caller sets, which wins. */
static cst_status list_settings(cst_context *context, cst_scope *scope, const cst_evaluation *e,
                                int stage, setting_list *out) {
    const cst_compare_options *given = e->options;
    *out = (setting_list){.scope = scope};
    CST_TAKE(context, scope, out->text, cst_option_count() + 1 + (int32_t)given->setting_count);
    CST_TRY(visit(context, 1, stage, add_setting, out));
    for (int32_t i = 0; i < (int32_t)given->setting_count; i++)
        out->text[out->count++] = given->settings[i];
    return CST_OK;
}

/* The prototype with the settings of a row. */
static cst_status make_stage(cst_context *context, const cst_evaluation *e, int stage,
                             cst_entry *out) {
    setting_list list;
    CST_SCOPE(scope);
    CST_TRY(list_settings(context, scope, e, stage, &list));
    CST_TRY(cst_entry_make(context, e, "prototype", list.text, list.count, out));
    CST_TRY(cst_entry_check(context, e, out));
    (void)cst_snprintf(out->name, sizeof out->name, "%s", NAME[stage]);
    return CST_OK;
}

typedef struct row_settings {
    cst_report *report;
    json_t *list;
    const cst_options *options; /* what is in force */
} row_settings;

static cst_status put_setting(cst_context *context, void *user, const char *key,
                              const char *value) {
    row_settings *row = user;
    CST_SCOPE(scope);
    (void)value; /* the caller may have set another one */
    char *text = cst_take_format(context, scope, "%s=%s", key, cst_options_get(row->options, key));
    if (!text)
        return CST_ERROR_MEMORY;
    cst_report_add_string(row->report, row->list, text);
    return CST_OK;
}

/* "settings": what the row adds, with the values in force; of the first row what the caller set. */
static cst_status put_settings(cst_context *context, cst_report *report, json_t *row,
                               const cst_evaluation *e, int stage) {
    row_settings put = {.report = report, .list = cst_report_list(report, row, "settings")};
    setting_list list;
    cst_options *options;
    CST_SCOPE(scope);
    CST_TRY(list_settings(context, scope, e, stage, &list));
    CST_TRY(cst_method_options(context, "prototype", e->options->seed, list.text, list.count,
                               &options));
    CST_OWN(context, scope, cst_options, options);
    put.options = options;
    if (stage > 0)
        return visit(context, stage, stage, put_setting, &put);
    for (int32_t i = 0; i < (int32_t)e->options->setting_count; i++) {
        char key[KEY_CHARS];
        const char *setting = e->options->settings[i];
        (void)cst_snprintf(key, sizeof key, "%.*s", (int)strcspn(setting, "="), setting);
        CST_TRY(put_setting(context, &put, key, NULL));
    }
    return CST_OK;
}

static cst_status put_rows(cst_context *context, cst_report *report, const cst_evaluation *e,
                           const cst_entry *entries, const cst_intervals *intervals) {
    json_t *list = cst_report_list(report, cst_report_root(report), "rows");
    for (int s = 0; s < STAGES; s++) {
        json_t *row = cst_report_add_object(report, list);
        CST_PUT(report, row, CST_S("stage", NAME[s]), CST_B("in_paper", s != OURS));
        CST_TRY(put_settings(context, report, row, e, s));
        CST_TRY(cst_put_scores(context, report, row, e, &entries[s], intervals, s));
        if (s > 0)
            cst_put_difference(report, row, e, intervals, s);
        cst_put_cost(report, row, &entries[s]);
    }
    return CST_OK;
}

typedef struct ablation {
    const cst_task_ops *ops;
    cst_pool *pool;
    cst_compare_options options;
    cst_evaluation e;
    cst_entry *entries; /* [STAGES] */
} ablation;

static cst_status run_stage(cst_context *context, ablation *a, int s) {
    cst_status status = make_stage(context, &a->e, s, &a->entries[s]);
    CST_THEN(cst_entry_run(context, &a->e, NULL, &a->entries[s]));
    return status == CST_OK ? cst_entry_tell(context, &a->e, &a->entries[s])
                            : cst_fail_row(context, status, NAME[s], NULL, NULL);
}

static cst_status run(cst_context *context, void *user, cst_report *report) {
    ablation *a = user;
    json_t *root = cst_report_root(report);
    cst_intervals intervals;
    CST_SCOPE(scope);
    CST_OWN(context, scope, cst_evaluation, &a->e);
    CST_TRY(cst_entries_take(context, scope, STAGES, &a->entries));
    CST_TRY(cst_evaluation_open(context, a->ops, a->pool, &a->options, false, &a->e));
    double start = cst_seconds();
    for (int s = 0; s < STAGES; s++) {
        double end = cst_part_begin(context, 1.0 / (STAGES - s));
        CST_TRY(cst_progress(context, NAME[s], s, STAGES));
        CST_TRY(run_stage(context, a, s));
        cst_part_end(context, end);
    }
    CST_TRY(cst_intervals_make(context, scope, &a->e, a->entries, STAGES, -1,
                               (int32_t)a->options.resamples, &intervals));
    cst_put_header(report, &a->e);
    if (intervals.done)
        cst_report_integer(report, root, "resamples", (int32_t)a->options.resamples);
    CST_TRY(put_rows(context, report, &a->e, a->entries, &intervals));
    json_t *seconds = cst_report_object(report, root, "seconds");
    CST_PUT(report, seconds, CST_N("read", a->e.seconds_read),
            CST_N("total", cst_seconds() - start + a->e.seconds_read));
    return CST_OK;
}

cst_status cst_run_ablate(cst_context *context, const cst_task_ops *ops, cst_pool *pool,
                          const cst_compare_options *given, cst_report **report) {
    ablation a = {.ops = ops, .pool = pool, .options = *given};
    a.options.ood = NULL;
    return cst_run_call(context, CST_REPORT_ABLATE, run, &a, report);
}
