/* Soups: the mean of all files, and of those that a greedy choice keeps, whose candidates are
 * averaged, predicted with by the caller's hook and scored. Wortsman et al. 2022. */
#include "core/retry.h"
#include "report/report.h"
#include "weights/checkpoints.h"

#include <corestack/files.h>
#include <corestack/metrics.h>
#include <corestack/regression.h>
#include <corestack/soup.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

typedef struct soup_metric {
    const char *name;
    cst_task task;
    bool more; /* more is better */
} soup_metric;

/* A soup whose files are chosen by scores. */
typedef struct soup {
    const cst_soup_config *config;
    const soup_metric *metric;
    const char *const *paths; /* [count] */
    int32_t count;
    cst_checkpoints all;
    char *folder; /* of the candidate and its predictions */
    int64_t samples, evaluations;
    int64_t planned; /* evaluations at most, for progress */
    cst_report *report;
    json_t *steps; /* of the report */
} soup;

static const char CANDIDATE[] = "candidate.safetensors";

static const soup_metric METRICS[] = {
    {"top1", CST_TASK_CLASSIFICATION, true},   {"nll", CST_TASK_CLASSIFICATION, false},
    {"brier", CST_TASK_CLASSIFICATION, false}, {"ece", CST_TASK_CLASSIFICATION, false},
    {"rmse", CST_TASK_REGRESSION, false},      {"mae", CST_TASK_REGRESSION, false},
};

static cst_status check_config(cst_context *context, const cst_soup_config *config) {
    if (!config || !config->hook)
        return cst_fail(context, CST_ERROR_ARGUMENT,
                        "a soup that is chosen by scores needs a hook that predicts");
    if (!config->labels || !*config->labels)
        return cst_fail(context, CST_ERROR_ARGUMENT, "a soup needs labels to score the candidates");
    if (config->task != CST_TASK_CLASSIFICATION && config->task != CST_TASK_REGRESSION)
        return cst_fail(context, CST_ERROR_UNSUPPORTED,
                        "soups can be scored for classification and regression, not for %s",
                        cst_task_name(config->task) ? cst_task_name(config->task) : "this task");
    if (config->output != CST_OUTPUT_PROBABILITY && config->output != CST_OUTPUT_LOGIT)
        return cst_fail(context, CST_ERROR_ARGUMENT,
                        "predictions of a soup must be probabilities or logits");
    return CST_OK;
}

static cst_status choose_metric(cst_context *context, soup *s) {
    cst_task task = s->config->task;
    const char *name = s->config->metric;
    for (size_t i = 0; i < sizeof METRICS / sizeof *METRICS && !s->metric; i++)
        if (METRICS[i].task == task && (!name || strcmp(METRICS[i].name, name) == 0))
            s->metric = &METRICS[i];
    if (s->metric)
        return CST_OK;
    return cst_fail(context, CST_ERROR_ARGUMENT,
                    "unknown metric '%s' for soups of this task; use %s", name,
                    task == CST_TASK_CLASSIFICATION ? "top1, nll, brier or ece" : "rmse or mae");
}

/* Reads the labels before any program runs, so that a mistake in them is not blamed on it. */
static cst_status check_labels(cst_context *context, const cst_soup_config *config) {
    int32_t *labels = NULL;
    double *targets = NULL;
    int64_t rows = 0;
    int32_t outputs = 0;
    cst_status status = config->task == CST_TASK_REGRESSION
                            ? cst_read_targets(context, config->labels, &targets, &rows, &outputs)
                            : cst_read_labels(context, config->labels, &labels, &rows);
    cst_free(context, labels);
    cst_free(context, targets);
    return status;
}

/* Removes the folder and the files that the hook left there; a folder that it made stays. */
static void remove_folder(cst_context *context, void *path) {
    (void)context;
    DIR *entries = cst_open_entries(AT_FDCWD, path, O_NOFOLLOW);
    for (const struct dirent *entry; entries && (entry = cst_next_entry(entries)) != NULL;)
        (void)cst_remove_at(dirfd(entries), entry->d_name, 0);
    if (entries)
        (void)closedir(entries);
    (void)cst_remove_folder(path);
}

static cst_status make_folder(cst_context *context, cst_scope *scope, soup *s, const char *out) {
    struct stat info;
    if (stat(out, &info) == 0 && !S_ISREG(info.st_mode))
        return cst_fail(context, CST_ERROR_UNSUPPORTED, "%s: is not a file; name a file", out);
    const char *slash = strrchr(out, '/');
    s->folder =
        cst_take_format(context, scope, "%.*ssoup-XXXXXX", slash ? (int)(slash - out) + 1 : 0, out);
    if (!s->folder)
        return CST_ERROR_MEMORY;
    if (!cst_make_new_folder(s->folder))
        return cst_fail(context, CST_ERROR_IO, "%s: creating a folder beside it failed: %s", out,
                        strerror(errno));
    return cst_scope_own(context, scope, remove_folder, s->folder);
}

static cst_status score_values(cst_context *context, const cst_pool *pool, const float *predictions,
                               const soup_metric *metric, double *score) {
    int64_t rows = cst_pool_rows(pool, "oof");
    int32_t classes = (int32_t)cst_pool_classes(pool);
    if (metric->task == CST_TASK_REGRESSION) {
        cst_predicted_values values = {.rows = rows, .outputs = classes, .mean = predictions};
        cst_value_metrics scores = {0};
        cst_status status = cst_value_metrics_evaluate(
            context, &values, cst_pool_targets(pool, "oof"), &scores, NULL);
        *score = strcmp(metric->name, "rmse") == 0 ? scores.rmse : scores.mae;
        return status;
    }
    cst_metrics scores = {0};
    cst_status status = cst_metrics_evaluate(context, predictions, rows, classes,
                                             cst_pool_labels(pool, "oof"), 0, &scores);
    *score = strcmp(metric->name, "top1") == 0    ? scores.top1
             : strcmp(metric->name, "nll") == 0   ? scores.nll
             : strcmp(metric->name, "brier") == 0 ? scores.brier
                                                  : scores.ece;
    return status;
}

CST_OWNED(cst_pool)

static cst_status score_file(cst_context *context, soup *s, const char *path, double *score) {
    const cst_soup_config *config = s->config;
    cst_pool_config reading = {.outside = 1,
                               .output_given = config->task == CST_TASK_CLASSIFICATION,
                               .output = config->output,
                               .labels = config->labels,
                               .task_given = 1,
                               .task = config->task};
    cst_pool *pool = NULL;
    float *copy = NULL;
    size_t cells = 0;
    CST_SCOPE(scope);
    CST_TRY(cst_pool_open_files(context, &pool, &path, 1, &reading));
    CST_OWN(context, scope, cst_pool, pool);
    CST_TRY(cst_pool_load(context, pool, "oof"));
    s->samples = cst_pool_rows(pool, "oof");
    const float *predictions = cst_pool_predictions(pool, "oof", 0);
    if (!predictions) { /* larger than the memory budget: scored in memory all the same */
        (void)cst_size_mul((size_t)s->samples, (size_t)cst_pool_classes(pool), &cells);
        CST_TAKE(context, scope, copy, cells);
        CST_TRY(cst_pool_read(context, pool, "oof", 0, 0, s->samples, copy));
    }
    return score_values(context, pool, predictions ? predictions : copy, s->metric, score);
}

/* Adds to a failure that predictions are to blame. */
static cst_status blame_predictions(cst_context *context, cst_status status) {
    if (status == CST_OK || status == CST_ERROR_MEMORY || status == CST_ERROR_CANCELLED)
        return status;
    CST_SCOPE(scope);
    char *why = cst_take_text(context, scope, cst_last_error(context));
    if (!why)
        return CST_ERROR_MEMORY;
    return cst_fail(context, status, "the predictions for a candidate cannot be scored: %s", why);
}

/* Writes the mean of members [count] of files. */
static cst_status mix_members(cst_context *context, const cst_checkpoints *all,
                              const int32_t *members, int32_t count, const char *path) {
    cst_checkpoints some = *all;
    some.count = count;
    CST_SCOPE(scope);
    CST_TAKE(context, scope, some.files, count);
    for (int32_t i = 0; i < count; i++)
        some.files[i] = all->files[members[i]];
    return cst_mix_mean(context, &some, path);
}

static cst_status ask_hook(cst_context *context, soup *s, const char *candidate,
                           const char *predictions, double *score) {
    /* For a hook that gives no reason of its own. */
    (void)cst_fail(context, CST_ERROR_INTERNAL, "the hook of the soup failed and gave no reason");
    cst_run *run = cst_calling_begin(context);
    cst_status status = s->config->hook(context, s->config->user, candidate, predictions);
    cst_calling_end(context, run);
    CST_TRY(status);
    struct stat info;
    bool there = stat(predictions, &info) == 0;
    if (!there || !S_ISREG(info.st_mode))
        return cst_fail(context, CST_ERROR_INPUT,
                        "the program wrote no %s to %s; it must write an npy array to the path "
                        "that it is given",
                        there ? "file of predictions" : "predictions", predictions);
    bool said = s->evaluations > 1; /* notices of predictions are given once */
    if (said)
        cst_mute(context, true);
    status = blame_predictions(context, score_file(context, s, predictions, score));
    if (said)
        cst_mute(context, false);
    return status;
}

static void remove_path(cst_context *context, void *path) {
    (void)context;
    (void)cst_remove_file(path);
}

/* The score of a candidate, whose files are removed again. */
static cst_status evaluate(cst_context *context, soup *s, const int32_t *members, int32_t count,
                           double *score) {
    CST_SCOPE(scope);
    char *candidate = cst_take_format(context, scope, "%s/%s", s->folder, CANDIDATE);
    char *predictions = cst_take_format(context, scope, "%s/predictions_%lld.npy", s->folder,
                                        (long long)s->evaluations);
    if (!candidate || !predictions)
        return CST_ERROR_MEMORY;
    CST_TRY(cst_scope_own(context, scope, remove_path, candidate));
    CST_TRY(cst_scope_own(context, scope, remove_path, predictions));
    CST_TRY(mix_members(context, &s->all, members, count, candidate));
    return ask_hook(context, s, candidate, predictions, score);
}

/* Scores the mean of members [count], ascending. *step: its object in the report. */
static cst_status try_members(cst_context *context, soup *s, const int32_t *members, int32_t count,
                              const char *kind, int32_t file, double *score, json_t **step) {
    CST_TRY(cst_progress(context, "soup", s->evaluations, s->planned));
    s->evaluations++;
    CST_TRY(evaluate(context, s, members, count, score));
    *step = cst_report_add_object(s->report, s->steps);
    CST_PUT(s->report, *step, CST_I("step", s->evaluations), CST_S("kind", kind),
            CST_S("file", s->paths[file]), CST_N("score", *score));
    cst_log(context, CST_LOG_INFO, "%s %s: %s %.6g", kind, s->paths[file], s->metric->name, *score);
    return cst_report_finish(context, s->report);
}

static cst_status begin_report(cst_context *context, const char *kind,
                               const cst_checkpoints *checkpoints, cst_report **out) {
    CST_TRY(cst_report_begin(context, CST_REPORT_SOUP, out));
    json_t *root = cst_report_root(*out);
    cst_report_string(*out, root, "kind", kind);
    json_t *files = cst_report_list(*out, root, "files");
    for (int32_t i = 0; i < checkpoints->count; i++)
        cst_report_add_string(*out, files, cst_checkpoints_path(checkpoints, i));
    int64_t tensors = 0;
    int64_t parameters = 0;
    for (int64_t p = 0; p < checkpoints->total; p++) {
        tensors += checkpoints->mixed[p];
        parameters += checkpoints->mixed[p] ? checkpoints->elements[p] : 0;
    }
    CST_PUT(*out, root, CST_I("tensors", tensors), CST_I("parameters", parameters),
            CST_I("copied", checkpoints->total - tensors));
    return cst_report_finish(context, *out);
}

/* Checks the configuration, opens the files, makes the folder beside `out`, begins the report. */
static cst_status open_soup(cst_context *context, cst_scope *scope, soup *s, const char *out) {
    CST_TRY(check_config(context, s->config));
    CST_TRY(choose_metric(context, s));
    CST_TRY(check_labels(context, s->config));
    CST_TRY(cst_checkpoints_open(context, scope, &s->all, s->paths, s->count));
    CST_TRY(make_folder(context, scope, s, out));
    CST_TRY(begin_report(context, "greedy", &s->all, &s->report));
    json_t *root = cst_report_root(s->report);
    CST_PUT(s->report, root, CST_S("task", cst_task_name(s->config->task)),
            CST_S("metric", s->metric->name),
            CST_S("definition", cst_metric_definition(s->metric->name)));
    s->steps = cst_report_list(s->report, root, "steps");
    return cst_report_finish(context, s->report);
}

cst_status cst_soup_fail(cst_context *context, cst_status status, const char *message) {
    CST_ENTER(context);
    if (!message)
        return cst_fail(context, CST_ERROR_ARGUMENT, "cst_soup_fail: a message is required");
    if (status < CST_ERROR_ARGUMENT || status > CST_ERROR_INTERNAL)
        status = CST_ERROR_INTERNAL;
    return cst_fail(context, status, "%s", message);
}

static cst_status check_call(cst_context *context, const char *call, const char *const *paths,
                             int32_t count, const char *out) {
    if (!paths || count < 1 || !out || !*out)
        return cst_fail(context, CST_ERROR_ARGUMENT,
                        "%s: input files and an output path are required", call);
    for (int32_t i = 0; i < count; i++)
        if (!paths[i])
            return cst_fail(context, CST_ERROR_ARGUMENT, "%s: path %d is NULL", call, (int)i);
    return CST_OK;
}

static cst_status mix_all(cst_context *context, const char *const *paths, int32_t count,
                          const char *out, cst_report **made) {
    cst_checkpoints all;
    CST_SCOPE(scope);
    CST_TRY(check_call(context, "cst_soup_uniform", paths, count, out));
    CST_TRY(cst_checkpoints_open(context, scope, &all, paths, count));
    double started = cst_seconds();
    CST_TRY(begin_report(context, "uniform", &all, made));
    cst_report_number(*made, cst_report_root(*made), "seconds", 0);
    cst_report_notices(*made, context);
    CST_TRY(cst_report_finish(context, *made));
    CST_TRY(cst_mix_mean(context, &all, out));
    cst_report_change_number(cst_report_root(*made), "seconds", cst_seconds() - started);
    return CST_OK;
}

/* The result of a public call: the report where all went well and it is wanted. */
static cst_status end_soup(cst_context *context, cst_status status, cst_report *made,
                           cst_report **report) {
    if (status == CST_OK && report)
        *report = made;
    else
        cst_report_free(context, made);
    return cst_why(context, status);
}

cst_status cst_soup_uniform(cst_context *context, const char *const *paths, int64_t count_given,
                            const char *out, cst_report **report) {
    if (report)
        *report = NULL;
    CST_ENTER(context);
    CST_COUNT(context, count, count_given);
    cst_report *made = NULL;
    cst_notices_clear(context);
    cst_status status = mix_all(context, paths, count, out, &made);
    return end_soup(context, status, made, report);
}

typedef struct ranked {
    double score; /* the smaller the better */
    int32_t file;
} ranked;

CST_BY(by_score, ranked, CST_UP(score), CST_UP(file), 0)

/* Scores each file by itself; order: [count], the best first. */
static cst_status try_singles(cst_context *context, soup *s, ranked *order) {
    for (int32_t i = 0; i < s->count; i++) {
        json_t *step = NULL;
        double score = 0;
        CST_TRY(try_members(context, s, &i, 1, "single", i, &score, &step));
        order[i] = (ranked){.score = s->metric->more ? -score : score, .file = i};
    }
    qsort(order, (size_t)s->count, sizeof *order, by_score);
    return CST_OK;
}

static void insert(int32_t *members, int32_t count, int32_t file) {
    int32_t at = count;
    for (; at > 0 && members[at - 1] > file; at--)
        members[at] = members[at - 1];
    members[at] = file;
}

static void remove_member(int32_t *members, int32_t count, int32_t file) {
    for (int32_t i = 0, to = 0; i < count; i++)
        if (members[i] != file)
            members[to++] = members[i];
}

/* Members [*chosen] that are kept; there is room for all files. */
static cst_status choose(cst_context *context, soup *s, const ranked *order, int32_t *members,
                         int32_t *chosen, double *best) {
    members[0] = order[0].file;
    *chosen = 1;
    *best = order[0].score;
    for (int32_t i = 1; i < s->count; i++) {
        json_t *step = NULL;
        double score = 0;
        int32_t file = order[i].file;
        insert(members, (*chosen)++, file);
        CST_TRY(try_members(context, s, members, *chosen, "add", file, &score, &step));
        score = s->metric->more ? -score : score;
        bool keep = score <= *best;
        if (keep)
            *best = score;
        else
            remove_member(members, (*chosen)--, file);
        cst_report_flag(s->report, step, "kept", keep);
    }
    return CST_OK;
}

/* Completes the report but for the time. */
static cst_status fill_report(cst_context *context, soup *s, const int32_t *members, int32_t chosen,
                              double best) {
    cst_report *report = s->report;
    json_t *root = cst_report_root(report);
    json_t *list = cst_report_list(report, root, "chosen");
    for (int32_t i = 0; i < chosen; i++)
        cst_report_add_string(report, list, s->paths[members[i]]);
    CST_PUT(report, root, CST_I("samples", s->samples),
            CST_N("score", s->metric->more ? -best : best), CST_I("evaluations", s->evaluations),
            CST_N("seconds", 0));
    cst_report_notices(report, context);
    return cst_report_finish(context, report);
}

static cst_status run_greedy(cst_context *context, soup *s, const char *out) {
    int32_t chosen = 0;
    double best = 0;
    CST_SCOPE(scope);
    CST_TRY(check_call(context, "cst_soup_greedy", s->paths, s->count, out));
    CST_TRY(open_soup(context, scope, s, out));
    double started = cst_seconds();
    CST_NEW(context, scope, ranked, order, s->count);
    CST_NEW(context, scope, int32_t, members, s->count);
    s->planned = 2 * (int64_t)s->count - 1;
    CST_TRY(try_singles(context, s, order));
    CST_TRY(choose(context, s, order, members, &chosen, &best));
    CST_TRY(fill_report(context, s, members, chosen, best));
    CST_TRY(cst_progress(context, "soup", s->planned, s->planned));
    CST_TRY(mix_members(context, &s->all, members, chosen, out));
    cst_report_change_number(cst_report_root(s->report), "seconds", cst_seconds() - started);
    return CST_OK;
}

cst_status cst_soup_greedy(cst_context *context, const char *const *paths, int64_t count_given,
                           const cst_soup_config *config_given, const char *out,
                           cst_report **report) {
    if (report)
        *report = NULL;
    CST_ENTER(context);
    CST_STRUCT(context, cst_soup_config, config, config_given);
    CST_COUNT(context, count, count_given);
    soup s = {.config = config, .paths = paths, .count = count};
    cst_notices_clear(context);
    cst_status status = run_greedy(context, &s, out);
    return end_soup(context, status, s.report, report);
}
