/*
 * One candidate of a soup: mixed, predicted with by the caller's hook or taken from what was kept,
 * scored, logged. Under greedy and learned soups. Paper: Wortsman et al. 2022.
 */
#include "weights/soup_trial.h"

#include "base/calling.h"
#include "base/retry.h"
#include "io/bytes.h"
#include "weights/checkpoints.h"
#include "weights/hash.h"

#include <corestack/files.h>
#include <corestack/metrics.h>

#include <inttypes.h>
#include <math.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Raised where what is kept could mean something else than before. */
static const char KEPT_AS[] = "corestack soup 1";

/* ---- opening and closing ---- */

static cst_status check_config(cst_context *context, const cst_soup_config *config) {
    if (!config || !config->hook)
        return cst_fail(context, CST_ERROR_ARGUMENT,
                        "a soup that is chosen by scores needs a hook that predicts");
    if (!config->work || !*config->work)
        return cst_fail(context, CST_ERROR_ARGUMENT, "a soup needs a work folder");
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

static cst_status choose_metric(cst_context *context, cst_soup *soup, const char *usual) {
    cst_task task = soup->config->task;
    const char *name = soup->config->metric;
    if (!name)
        name = task == CST_TASK_CLASSIFICATION ? usual : cst_soup_metric_at(task, 0)->name;
    soup->metric = cst_soup_metric_find(task, name);
    if (soup->metric)
        return CST_OK;
    return cst_fail(context, CST_ERROR_ARGUMENT,
                    "unknown metric '%s' for soups of this task; use %s", name,
                    task == CST_TASK_CLASSIFICATION ? "top1, nll, brier or ece" : "rmse or mae");
}

/* Labels are read before any program runs: a mistake in them is not one of its predictions. */
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

static cst_status hash_labels(cst_context *context, const char *path, uint64_t out[2]) {
    cst_bytes *source = NULL;
    const unsigned char *bytes = NULL;
    cst_status status = cst_bytes_open(context, &source, path, 0);
    CST_TRY(cst_bytes_slurp(context, source, &bytes));
    if (status == CST_OK)
        cst_hash_memory(bytes, (size_t)cst_bytes_size(source), out);
    cst_bytes_close(context, source);
    return status;
}

cst_status cst_soup_open(cst_context *context, cst_soup *soup, const char *kind,
                         const char *const *paths, int32_t count, const cst_soup_config *config,
                         const char *usual) {
    *soup = (cst_soup){.config = config, .paths = paths, .count = count, .started = cst_seconds()};
    cst_status status = check_config(context, config);
    CST_TRY(choose_metric(context, soup, usual));
    CST_TRY(check_labels(context, config));
    CST_TRY(cst_checkpoints_open(context, &soup->all, paths, count));
    CST_TRY(hash_labels(context, config->labels, soup->labels));
    CST_TRY(cst_soup_work_open(context, &soup->work, config->work));
    CST_TRY(cst_soup_report(context, kind, soup->all, &soup->report));
    if (status != CST_OK)
        return status;
    json_t *root = cst_report_root(soup->report);
    cst_report_string(soup->report, root, "task", cst_task_name(config->task));
    cst_report_string(soup->report, root, "metric", soup->metric->name);
    cst_report_string(soup->report, root, "definition", cst_metric_definition(soup->metric->name));
    soup->steps = cst_report_list(soup->report, root, "steps");
    return cst_report_finish(context, soup->report);
}

void cst_soup_close(cst_context *context, cst_soup *soup) {
    cst_soup_work_close(context, soup->work);
    cst_checkpoints_close(context, soup->all);
    cst_report_free(context, soup->report);
    *soup = (cst_soup){0};
}

/* ---- a candidate ---- */

/* Writes the mix to where candidates stand. Of the files that are open: their names may lead to
 * other ones by now. hash: of the file written. */
static cst_status mix(cst_context *context, const cst_soup *soup, const cst_candidate *candidate,
                      uint64_t hash[2]) {
    const char *path = cst_soup_work_candidate(soup->work);
    if (!candidate->members)
        return cst_checkpoints_mix(context, soup->all, candidate->weights, candidate->scope, path,
                                   hash);
    cst_checkpoints some = *soup->all;
    some.count = candidate->count;
    some.files = cst_alloc(context, (size_t)candidate->count, sizeof *some.files);
    if (!some.files)
        return CST_ERROR_MEMORY;
    for (int32_t i = 0; i < candidate->count; i++)
        some.files[i] = soup->all->files[candidate->members[i]];
    cst_status status =
        cst_checkpoints_mix(context, &some, candidate->weights, candidate->scope, path, hash);
    cst_free(context, some.files);
    return status;
}

/* What predictions are kept under: the candidate's bytes, the labels', and what the hook is. */
static cst_status kept_path(cst_context *context, const cst_soup *soup, const uint64_t hash[2],
                            char **out) {
    const cst_soup_config *config = soup->config;
    uint64_t mixed[2];
    size_t member = cst_path_member(config->labels);
    char *text = cst_format(
        context, "%s\n%016" PRIx64 "%016" PRIx64 "\n%016" PRIx64 "%016" PRIx64 "\n%s\n%s\n%s",
        KEPT_AS, hash[0], hash[1], soup->labels[0], soup->labels[1],
        member ? config->labels + member : "", cst_task_name(config->task),
        config->identity ? config->identity : "");
    if (!text)
        return CST_ERROR_MEMORY;
    cst_hash_memory(text, strlen(text), mixed);
    cst_free(context, text);
    *out = cst_soup_work_kept(context, soup->work, mixed);
    return *out ? CST_OK : CST_ERROR_MEMORY;
}

/* Puts what went wrong with predictions into its place. */
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

/* What there is to say of predictions is said once. */
static cst_status score_file(cst_context *context, cst_soup *soup, const char *path,
                             double *score) {
    bool said = soup->evaluations > 1;
    if (said)
        cst_mute(context, true);
    cst_status status =
        cst_soup_score_file(context, soup->config, soup->metric, path, score, &soup->samples);
    if (said)
        cst_mute(context, false);
    return status;
}

/* Asks the hook, and keeps what it predicted if that can be scored. */
static cst_status ask_hook(cst_context *context, cst_soup *soup, const char *kept, double *score) {
    const char *candidate = cst_soup_work_candidate(soup->work);
    const char *predictions = cst_soup_work_predictions(soup->work);
    /* For a hook that says nothing of its failure. */
    (void)cst_fail(context, CST_ERROR_INTERNAL, "the hook of the soup failed and gave no reason");
    cst_run *run = cst_calling_begin(context);
    cst_status status = soup->config->hook(context, soup->config->user, candidate, predictions);
    cst_calling_end(context, run);
    if (status != CST_OK)
        return status;
    struct stat info;
    bool there = stat(predictions, &info) == 0;
    if (!there || !S_ISREG(info.st_mode))
        return cst_fail(context, CST_ERROR_INPUT,
                        "the program wrote no %s to %s; it must write an npy array to the path "
                        "that it is given",
                        there ? "file of predictions" : "predictions", predictions);
    status = blame_predictions(context, score_file(context, soup, predictions, score));
    soup->spoilt = status == CST_ERROR_INPUT || status == CST_ERROR_NUMERIC;
    CST_TRY(cst_soup_work_keep(context, soup->work, kept));
    return status;
}

/* Whether the file is to blame, and not the machine or who wants to stop. */
static bool is_of_file(cst_status status) {
    return status != CST_ERROR_MEMORY && status != CST_ERROR_CANCELLED && status != CST_ERROR_IO;
}

/* Whether the predictions can be read as numbers at all: then it is how they are to be taken that
 * does not fit, and they stay. */
static cst_status try_sound(cst_context *context, const cst_soup *soup, const char *kept,
                            bool *sound) {
    cst_soup_config free = *soup->config;
    double score = 0;
    int64_t rows = 0;
    *sound = false;
    if (free.task != CST_TASK_CLASSIFICATION || free.output == CST_OUTPUT_LOGIT)
        return CST_OK;
    free.output = CST_OUTPUT_LOGIT;
    cst_mute(context, true);
    cst_status status = cst_soup_score_file(context, &free, soup->metric, kept, &score, &rows);
    cst_mute(context, false);
    *sound = status == CST_OK;
    return is_of_file(status) ? CST_OK : status;
}

/* Scores what was kept, if anything was. What is no file of predictions any more is evaluated
 * again. */
static cst_status use_kept(cst_context *context, cst_soup *soup, const char *kept, double *score,
                           bool *found) {
    struct stat info;
    *found = false;
    if (lstat(kept, &info) != 0)
        return CST_OK;
    if (!S_ISREG(info.st_mode)) {
        if ((S_ISDIR(info.st_mode) ? cst_remove_folder(kept) : cst_remove_file(kept)) == 0)
            return CST_OK;
        return cst_fail(context, CST_ERROR_INPUT,
                        "work folder: %s is not a file of predictions; remove it", kept);
    }
    cst_status status = score_file(context, soup, kept, score);
    *found = status == CST_OK;
    if (status == CST_OK || !is_of_file(status))
        return status;
    bool sound = false;
    char *why = cst_strdup(context, cst_last_error(context));
    cst_status tried = why ? try_sound(context, soup, kept, &sound) : CST_ERROR_MEMORY;
    if (tried != CST_OK)
        status = tried;
    else if (sound)
        status = cst_fail(context, status, "the stored predictions cannot be scored: %s", why);
    else
        status = cst_remove_file(kept) == 0 ? CST_OK : status;
    cst_free(context, why);
    return status;
}

/* The score, from what was kept or from the hook. */
static cst_status evaluate(cst_context *context, cst_soup *soup, const cst_candidate *candidate,
                           double *score, bool *cached) {
    char *kept = NULL;
    *cached = false;
    cst_status status = mix(context, soup, candidate, soup->tried);
    soup->spoilt = status == CST_ERROR_NUMERIC;
    CST_TRY(kept_path(context, soup, soup->tried, &kept));
    CST_TRY(use_kept(context, soup, kept, score, cached));
    if (status == CST_OK && !*cached)
        status = ask_hook(context, soup, kept, score);
    cst_soup_work_clean(soup->work);
    cst_free(context, kept);
    return status;
}

cst_status cst_soup_try(cst_context *context, cst_soup *soup, const cst_candidate *candidate,
                        const char *kind, int32_t file, double *score, json_t **step) {
    bool cached = false;
    *score = NAN;
    *step = NULL;
    cst_status status = cst_progress(context, "soup", soup->evaluations, soup->planned);
    soup->evaluations++;
    CST_TRY(evaluate(context, soup, candidate, score, &cached));
    if (status != CST_OK && soup->spoilt && candidate->weights) {
        cst_log(context, CST_LOG_INFO, "%s: no score: %s", kind, cst_last_error(context));
        *score = NAN;
        status = CST_OK;
    }
    if (status != CST_OK)
        return status;
    soup->cached += cached;
    *step = cst_report_add_object(soup->report, soup->steps);
    cst_report_integer(soup->report, *step, "step", soup->evaluations);
    cst_report_string(soup->report, *step, "kind", kind);
    cst_report_string(soup->report, *step, "file", file >= 0 ? soup->paths[file] : NULL);
    cst_report_number(soup->report, *step, "score", *score);
    cst_report_flag(soup->report, *step, "cached", cached);
    cst_log(context, CST_LOG_INFO, "%s %s: %s %.6g%s", kind, file >= 0 ? soup->paths[file] : "",
            soup->metric->name, *score, cached ? " (kept)" : "");
    return cst_report_finish(context, soup->report);
}

cst_status cst_soup_log(cst_context *context, cst_soup *soup, const json_t *step) {
    char *line = NULL;
    cst_status status = cst_report_finish(context, soup->report);
    CST_TRY(cst_report_line(context, step, &line));
    CST_TRY(cst_soup_work_log(context, soup->work, line));
    cst_free(context, line);
    return status;
}

bool cst_soup_better(const cst_soup *soup, double score, double than) {
    if (isnan(score) || isnan(than))
        return isnan(than) && !isnan(score);
    return soup->metric->more ? score > than : score < than;
}

/* ---- the end ---- */

/* Mixes the best candidate once more, and writes it where it belongs if it is what was scored. */
static cst_status serve(cst_context *context, const cst_soup *soup, const cst_candidate *best,
                        const uint64_t tried[2], const char *out) {
    uint64_t hash[2];
    cst_status status = mix(context, soup, best, hash);
    if (status == CST_OK && (hash[0] != tried[0] || hash[1] != tried[1]))
        status =
            cst_fail(context, CST_ERROR_INPUT,
                     "a file of the soup was changed after it was scored; nothing was written; run "
                     "the same command again, and only new candidates are evaluated");
    CST_TRY(cst_soup_work_serve(context, soup->work, out));
    return status;
}

cst_status cst_soup_finish(cst_context *context, cst_soup *soup, const cst_candidate *best,
                           const uint64_t tried[2], double score, const char *out,
                           cst_report **report) {
    json_t *root = cst_report_root(soup->report);
    cst_report_integer(soup->report, root, "samples", soup->samples);
    cst_report_number(soup->report, root, "score", score);
    cst_report_integer(soup->report, root, "evaluations", soup->evaluations);
    cst_report_integer(soup->report, root, "cached", soup->cached);
    cst_report_number(soup->report, root, "seconds", 0);
    cst_report_notices(soup->report, context);
    cst_status status = cst_report_finish(context, soup->report);
    CST_TRY(cst_progress(context, "soup", soup->planned, soup->planned));
    CST_TRY(serve(context, soup, best, tried, out));
    if (status == CST_OK)
        cst_report_change_number(root, "seconds", cst_seconds() - soup->started);
    if (status == CST_OK && report) {
        *report = soup->report;
        soup->report = NULL;
    }
    return status;
}

cst_status cst_soup_report(cst_context *context, const char *kind,
                           const cst_checkpoints *checkpoints, cst_report **out) {
    cst_status status = cst_report_create(context, CST_REPORT_SOUP, out);
    if (status != CST_OK)
        return status;
    json_t *root = cst_report_root(*out);
    cst_report_string(*out, root, "kind", kind);
    json_t *files = cst_report_list(*out, root, "files");
    for (int32_t i = 0; i < cst_checkpoints_count(checkpoints); i++)
        cst_report_add_string(*out, files, cst_checkpoints_path(checkpoints, i));
    cst_report_integer(*out, root, "tensors", cst_checkpoints_tensors(checkpoints));
    cst_report_integer(*out, root, "parameters", cst_checkpoints_parameters(checkpoints));
    cst_report_integer(*out, root, "copied", cst_checkpoints_copied(checkpoints));
    return cst_report_finish(context, *out);
}
