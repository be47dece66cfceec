/*
 * The paper's cumulative ablation: the prototype, then its stages replaced by those of CoRe-Stack+
 * one after the other, and last our own drop-and-refit. Paper: section "Component Ablation".
 */
#include "fit/ablate.h"

#include "core/la.h"
#include "fit/harness.h"

#include <string.h>

enum { STAGES = CST_ABLATION_STAGES, OURS = STAGES - 1, KEY_CHARS = 64 };

static const char *const NAME[STAGES] = {"prototype",   "+S1 CKA",     "+S2 gate",
                                         "+S3 lambda*", "+S4 Laplace", "+S5 refit"};

/* Which stage an option belongs to, by the start of its key. */
static const struct option_stage {
    const char *start;
    int stage;
} STAGE_OF[] = {{"redundancy.", 1}, {"cka.", 1},      {"pearson.", 1}, {"gate.", 2},
                {"lambda.", 3},     {"spectrum.", 3}, {"domain.", 0}};

/* Every option in which presets prototype and paper differ belongs to a stage, what is not listed
 * to the blend, so that row S4 is preset paper. The domain-aware layer belongs to no stage of the
 * paper's ablation. */
enum { STAGE_OF_REST = 4 };

/* What a stage after S4 sets. */
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

/* Visits "key=value" of the stages from..to, in the order of the option table. */
typedef cst_status visit_fn(cst_context *context, void *user, const char *key, const char *value);

static cst_status visit(cst_context *context, int from, int to, visit_fn *fn, void *user) {
    cst_options *prototype = NULL;
    cst_options *paper = NULL;
    cst_status status = cst_method_options(context, "prototype", 0, NULL, 0, &prototype);
    CST_THEN(cst_method_options(context, "paper", 0, NULL, 0, &paper));
    for (size_t i = 0; status == CST_OK && i < cst_option_count(); i++) {
        const char *value = NULL;
        const char *key = cst_option_at(i)->key;
        int stage = changed_by(prototype, paper, key, &value);
        if (stage >= from && stage <= to)
            status = fn(context, user, key, value);
    }
    cst_options_free(context, prototype);
    cst_options_free(context, paper);
    return status;
}

/* ---- settings of a row ---- */

/* "key=value" strings: those of the stages are owned, the caller's borrowed. */
typedef struct setting_list {
    const char **text;
    int32_t count;
    int32_t owned;
} setting_list;

static void list_free(cst_context *context, setting_list *list) {
    for (int32_t i = 0; i < list->owned; i++)
        cst_free(context, (void *)(uintptr_t)list->text[i]);
    cst_free(context, (void *)list->text);
    *list = (setting_list){0};
}

static cst_status add_setting(cst_context *context, void *user, const char *key,
                              const char *value) {
    setting_list *list = user;
    char *text = cst_format(context, "%s=%s", key, value);
    if (!text)
        return CST_ERROR_MEMORY;
    list->text[list->count++] = text;
    list->owned++;
    return CST_OK;
}

/* What stages 1 to `stage` set, and then what the caller sets, which wins. */
static cst_status list_settings(cst_context *context, const cst_evaluation *e, int stage,
                                setting_list *out) {
    const cst_compare_options *given = e->options;
    *out = (setting_list){0};
    out->text = cst_alloc(context, cst_option_count() + 1 + (size_t)given->setting_count,
                          sizeof *out->text);
    cst_status status = out->text ? CST_OK : CST_ERROR_MEMORY;
    CST_THEN(visit(context, 1, stage, add_setting, out));
    for (int32_t i = 0; status == CST_OK && i < given->setting_count; i++)
        out->text[out->count++] = given->settings[i];
    return status;
}

cst_status cst_ablation_options(cst_context *context, const cst_evaluation *e, int stage,
                                cst_options **out) {
    setting_list list;
    cst_status status = list_settings(context, e, stage, &list);
    *out = NULL;
    CST_THEN(
        cst_method_options(context, "prototype", e->options->seed, list.text, list.count, out));
    list_free(context, &list);
    return status;
}

/* The prototype with the settings of a row. */
static cst_status make_stage(cst_context *context, const cst_evaluation *e, int stage,
                             cst_entry *out) {
    setting_list list;
    cst_status status = list_settings(context, e, stage, &list);
    CST_THEN(cst_entry_make(context, e, "prototype", list.text, list.count, out));
    CST_THEN(cst_entry_check(context, e, out));
    (void)cst_snprintf(out->name, sizeof out->name, "%s", NAME[stage]);
    list_free(context, &list);
    return status;
}

/* ---- document ---- */

typedef struct row_settings {
    cst_report *report;
    json_t *list;
    const cst_options *options; /* what is in force */
} row_settings;

static cst_status put_setting(cst_context *context, void *user, const char *key,
                              const char *value) {
    row_settings *row = user;
    (void)value; /* the caller may have set another one */
    char *text = cst_format(context, "%s=%s", key, cst_options_get(row->options, key));
    if (!text)
        return CST_ERROR_MEMORY;
    cst_report_add_string(row->report, row->list, text);
    cst_free(context, text);
    return CST_OK;
}

/* "settings": what the row adds, with the values in force; of the first row what the caller set. */
static cst_status put_settings(cst_context *context, cst_report *report, json_t *row,
                               const cst_evaluation *e, int stage) {
    row_settings put = {.report = report, .list = cst_report_list(report, row, "settings")};
    cst_options *options = NULL;
    cst_status status = cst_ablation_options(context, e, stage, &options);
    put.options = options;
    if (stage > 0)
        CST_THEN(visit(context, stage, stage, put_setting, &put));
    for (int32_t i = 0; status == CST_OK && stage == 0 && i < e->options->setting_count; i++) {
        char key[KEY_CHARS];
        const char *setting = e->options->settings[i];
        (void)cst_snprintf(key, sizeof key, "%.*s", (int)strcspn(setting, "="), setting);
        status = put_setting(context, &put, key, NULL);
    }
    cst_options_free(context, options);
    return status;
}

static cst_status put_rows(cst_context *context, cst_report *report, const cst_evaluation *e,
                           const cst_entry *entries, const cst_intervals *intervals) {
    json_t *list = cst_report_list(report, cst_report_root(report), "rows");
    cst_status status = CST_OK;
    for (int s = 0; status == CST_OK && s < STAGES; s++) {
        json_t *row = cst_report_add_object(report, list);
        cst_report_string(report, row, "stage", NAME[s]);
        cst_report_flag(report, row, "in_paper", s != OURS);
        status = put_settings(context, report, row, e, s);
        CST_THEN(cst_put_scores(context, report, row, e, &entries[s], intervals, s));
        if (s > 0)
            cst_put_difference(report, row, e, intervals, s);
        cst_put_cost(report, row, &entries[s]);
    }
    return status;
}

static cst_status run(cst_context *context, const cst_evaluation *e, cst_report *report) {
    double start = cst_seconds();
    cst_entry entries[STAGES];
    cst_intervals intervals = {0};
    memset(entries, 0, sizeof entries);
    cst_status status = CST_OK;
    for (int s = 0; status == CST_OK && s < STAGES; s++) {
        status = cst_progress(context, NAME[s], s, STAGES);
        CST_THEN(make_stage(context, e, s, &entries[s]));
        CST_THEN(cst_entry_run(context, e, NULL, &entries[s]));
        if (status != CST_OK)
            status = cst_fail_row(context, status, NAME[s], NULL, NULL);
        CST_THEN(cst_entry_tell(context, e, &entries[s]));
    }
    CST_THEN(
        cst_intervals_make(context, e, entries, STAGES, -1, e->options->resamples, &intervals));
    if (status == CST_OK) {
        json_t *root = cst_report_root(report);
        cst_put_header(report, e);
        if (intervals.done)
            cst_report_integer(report, root, "resamples", e->options->resamples);
        status = put_rows(context, report, e, entries, &intervals);
        json_t *seconds = cst_report_object(report, root, "seconds");
        cst_report_number(report, seconds, "read", e->seconds_read);
        cst_report_number(report, seconds, "total", cst_seconds() - start + e->seconds_read);
    }
    for (int s = 0; s < STAGES; s++)
        cst_entry_free(context, e, &entries[s]);
    cst_intervals_free(context, &intervals);
    return status;
}

cst_status cst_run_ablate(cst_context *context, const cst_task_ops *ops, cst_pool *pool,
                          const cst_compare_options *given, cst_report **report) {
    cst_compare_options options = cst_options_or_default(given);
    cst_evaluation e = {0};
    options.ood = NULL;
    cst_notices_clear(context);
    cst_la_enter();
    cst_status status = cst_report_create(context, CST_REPORT_ABLATE, report);
    CST_THEN(cst_evaluation_open(context, ops, pool, &options, false, &e));
    CST_THEN(run(context, &e, *report));
    cst_evaluation_close(context, &e);
    cst_la_leave();
    return cst_finish_report(context, status, report);
}
