/* One candidate of a soup: averaged, predicted with by the caller's hook, scored. */
#include "weights/trial.h"

#include "core/retry.h"

#include <corestack/files.h>
#include <corestack/metrics.h>
#include <corestack/regression.h>

#include <errno.h>
#include <string.h>
#include <sys/stat.h>

static const char CANDIDATE[] = "candidate.safetensors";

static const cst_soup_metric METRICS[] = {
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

static cst_status choose_metric(cst_context *context, cst_soup *soup) {
    cst_task task = soup->config->task;
    const char *name = soup->config->metric;
    for (size_t i = 0; i < sizeof METRICS / sizeof *METRICS && !soup->metric; i++)
        if (METRICS[i].task == task && (!name || strcmp(METRICS[i].name, name) == 0))
            soup->metric = &METRICS[i];
    if (soup->metric)
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

/* Makes a folder beside `out`, on the same file system. */
static cst_status make_folder(cst_context *context, cst_soup *soup, const char *out) {
    struct stat info;
    if (stat(out, &info) == 0 && !S_ISREG(info.st_mode))
        return cst_fail(context, CST_ERROR_UNSUPPORTED, "%s: is not a file; name a file", out);
    const char *slash = strrchr(out, '/');
    char *folder = cst_format(context, "%.*ssoup-XXXXXX", slash ? (int)(slash - out) + 1 : 0, out);
    if (!folder)
        return CST_ERROR_MEMORY;
    if (cst_make_new_folder(folder)) {
        soup->folder = folder;
        return CST_OK;
    }
    cst_status status = cst_fail(
        context, CST_ERROR_IO, "%s: creating a folder beside it failed: %s", out, strerror(errno));
    cst_free(context, folder);
    return status;
}

cst_status cst_soup_open(cst_context *context, cst_soup *soup, const char *const *paths,
                         int32_t count, const cst_soup_config *config, const char *out) {
    *soup = (cst_soup){.config = config, .paths = paths, .count = count};
    CST_TRY(check_config(context, config));
    CST_TRY(choose_metric(context, soup));
    CST_TRY(check_labels(context, config));
    CST_TRY(cst_checkpoints_open(context, &soup->all, paths, count));
    CST_TRY(make_folder(context, soup, out));
    CST_TRY(cst_soup_report(context, "greedy", soup->all, &soup->report));
    json_t *root = cst_report_root(soup->report);
    CST_PUT(soup->report, root, CST_S("task", cst_task_name(config->task)),
            CST_S("metric", soup->metric->name),
            CST_S("definition", cst_metric_definition(soup->metric->name)));
    soup->steps = cst_report_list(soup->report, root, "steps");
    return cst_report_finish(context, soup->report);
}

/* Removes the folder and the files that the hook left there; a folder that it made stays. */
static void remove_folder(const char *path) {
    DIR *entries = cst_open_entries(AT_FDCWD, path, O_NOFOLLOW);
    for (const struct dirent *entry; entries && (entry = cst_next_entry(entries)) != NULL;)
        (void)cst_remove_at(dirfd(entries), entry->d_name, 0);
    if (entries)
        (void)closedir(entries);
    (void)cst_remove_folder(path);
}

void cst_soup_close(cst_context *context, cst_soup *soup) {
    if (soup->folder)
        remove_folder(soup->folder);
    cst_free(context, soup->folder);
    cst_checkpoints_close(context, soup->all);
    cst_report_free(context, soup->report);
    *soup = (cst_soup){0};
}

static cst_status score_values(cst_context *context, const cst_pool *pool, const float *predictions,
                               const cst_soup_metric *metric, double *score) {
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

/* Scores a file of predictions, read and checked as a pool of one member. */
static cst_status score_file(cst_context *context, cst_soup *soup, const char *path,
                             double *score) {
    const cst_soup_config *config = soup->config;
    cst_pool_config reading = {.outside = 1,
                               .output_given = config->task == CST_TASK_CLASSIFICATION,
                               .output = config->output,
                               .labels = config->labels,
                               .task_given = 1,
                               .task = config->task};
    cst_pool *pool = NULL;
    float *copy = NULL;
    size_t cells = 0;
    cst_status status = cst_pool_open_files(context, &pool, &path, 1, &reading);
    CST_THEN(cst_pool_load(context, pool, "oof"));
    if (status == CST_OK) {
        soup->samples = cst_pool_rows(pool, "oof");
        const float *predictions = cst_pool_predictions(pool, "oof", 0);
        if (!predictions) { /* larger than the memory budget: scored in memory all the same */
            (void)cst_size_mul((size_t)soup->samples, (size_t)cst_pool_classes(pool), &cells);
            predictions = copy = cst_alloc(context, cells, sizeof *copy);
            status = copy ? cst_pool_read(context, pool, "oof", 0, 0, soup->samples, copy)
                          : CST_ERROR_MEMORY;
        }
        CST_THEN(score_values(context, pool, predictions, soup->metric, score));
    }
    cst_free(context, copy);
    cst_pool_free(context, pool);
    return status;
}

/* Adds to a failure that predictions are to blame. */
static cst_status blame_predictions(cst_context *context, cst_status status) {
    if (status == CST_OK || status == CST_ERROR_MEMORY || status == CST_ERROR_CANCELLED)
        return status;
    char *why = cst_strdup(context, cst_last_error(context));
    if (!why)
        return CST_ERROR_MEMORY;
    status = cst_fail(context, status, "the predictions for a candidate cannot be scored: %s", why);
    cst_free(context, why);
    return status;
}

cst_status cst_soup_mix(cst_context *context, const cst_checkpoints *all, const int32_t *members,
                        int32_t count, const char *path) {
    cst_checkpoints some = *all;
    some.count = count;
    CST_SCOPE(scope);
    CST_TAKE(context, scope, some.files, count);
    for (int32_t i = 0; i < count; i++)
        some.files[i] = all->files[members[i]];
    return cst_mix_mean(context, &some, path);
}

static cst_status ask_hook(cst_context *context, cst_soup *soup, const char *candidate,
                           const char *predictions, double *score) {
    /* For a hook that gives no reason of its own. */
    (void)cst_fail(context, CST_ERROR_INTERNAL, "the hook of the soup failed and gave no reason");
    cst_run *run = cst_calling_begin(context);
    cst_status status = soup->config->hook(context, soup->config->user, candidate, predictions);
    cst_calling_end(context, run);
    CST_TRY(status);
    struct stat info;
    bool there = stat(predictions, &info) == 0;
    if (!there || !S_ISREG(info.st_mode))
        return cst_fail(context, CST_ERROR_INPUT,
                        "the program wrote no %s to %s; it must write an npy array to the path "
                        "that it is given",
                        there ? "file of predictions" : "predictions", predictions);
    bool said = soup->evaluations > 1; /* notices of predictions are given once */
    if (said)
        cst_mute(context, true);
    status = blame_predictions(context, score_file(context, soup, predictions, score));
    if (said)
        cst_mute(context, false);
    return status;
}

cst_status cst_soup_try(cst_context *context, cst_soup *soup, const int32_t *members, int32_t count,
                        const char *kind, int32_t file, double *score, json_t **step) {
    CST_TRY(cst_progress(context, "soup", soup->evaluations, soup->planned));
    soup->evaluations++;
    char *candidate = cst_format(context, "%s/%s", soup->folder, CANDIDATE);
    char *predictions =
        cst_format(context, "%s/predictions_%lld.npy", soup->folder, (long long)soup->evaluations);
    cst_status status = candidate && predictions ? CST_OK : CST_ERROR_MEMORY;
    CST_THEN(cst_soup_mix(context, soup->all, members, count, candidate));
    CST_THEN(ask_hook(context, soup, candidate, predictions, score));
    if (candidate)
        (void)cst_remove_file(candidate);
    if (predictions)
        (void)cst_remove_file(predictions);
    cst_free(context, predictions);
    cst_free(context, candidate);
    CST_TRY(status);
    *step = cst_report_add_object(soup->report, soup->steps);
    CST_PUT(soup->report, *step, CST_I("step", soup->evaluations), CST_S("kind", kind),
            CST_S("file", soup->paths[file]), CST_N("score", *score));
    cst_log(context, CST_LOG_INFO, "%s %s: %s %.6g", kind, soup->paths[file], soup->metric->name,
            *score);
    return cst_report_finish(context, soup->report);
}

cst_status cst_soup_report(cst_context *context, const char *kind,
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
