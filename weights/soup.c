/* Soups: the mean of all files, and of those that a greedy choice keeps. Wortsman et al. 2022. */
#include "weights/trial.h"

#include <stdlib.h>

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

static cst_status mix_all(cst_context *context, const cst_checkpoints *all, const char *out,
                          cst_report **made) {
    double started = cst_seconds();
    CST_TRY(cst_soup_report(context, "uniform", all, made));
    cst_report_number(*made, cst_report_root(*made), "seconds", 0);
    cst_report_notices(*made, context);
    CST_TRY(cst_report_finish(context, *made));
    CST_TRY(cst_mix_mean(context, all, out));
    cst_report_change_number(cst_report_root(*made), "seconds", cst_seconds() - started);
    return CST_OK;
}

cst_status cst_soup_uniform(cst_context *context, const char *const *paths, int64_t count_given,
                            const char *out, cst_report **report) {
    if (report)
        *report = NULL;
    CST_ENTER(context);
    CST_COUNT(context, count, count_given);
    cst_checkpoints *all = NULL;
    cst_report *made = NULL;
    cst_notices_clear(context);
    cst_status status = check_call(context, __func__, paths, count, out);
    CST_THEN(cst_checkpoints_open(context, &all, paths, count));
    CST_THEN(mix_all(context, all, out, &made));
    cst_checkpoints_close(context, all);
    if (status == CST_OK && report)
        *report = made;
    else
        cst_report_free(context, made);
    return cst_why(context, status);
}

typedef struct ranked {
    double score; /* the smaller the better */
    int32_t file;
} ranked;

CST_BY(by_score, ranked, CST_UP(score), CST_UP(file), 0)

/* Scores each file by itself; order: [count], the best first. */
static cst_status try_singles(cst_context *context, cst_soup *soup, ranked *order) {
    for (int32_t i = 0; i < soup->count; i++) {
        json_t *step = NULL;
        double score = 0;
        CST_TRY(cst_soup_try(context, soup, &i, 1, "single", i, &score, &step));
        order[i] = (ranked){.score = soup->metric->more ? -score : score, .file = i};
    }
    qsort(order, (size_t)soup->count, sizeof *order, by_score);
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
static cst_status choose(cst_context *context, cst_soup *soup, const ranked *order,
                         int32_t *members, int32_t *chosen, double *best) {
    members[0] = order[0].file;
    *chosen = 1;
    *best = order[0].score;
    for (int32_t i = 1; i < soup->count; i++) {
        json_t *step = NULL;
        double score = 0;
        int32_t file = order[i].file;
        insert(members, (*chosen)++, file);
        CST_TRY(cst_soup_try(context, soup, members, *chosen, "add", file, &score, &step));
        score = soup->metric->more ? -score : score;
        bool keep = score <= *best;
        if (keep)
            *best = score;
        else
            remove_member(members, (*chosen)--, file);
        cst_report_flag(soup->report, step, "kept", keep);
    }
    return CST_OK;
}

/* Completes the report but for the time. */
static cst_status fill_report(cst_context *context, cst_soup *soup, const int32_t *members,
                              int32_t chosen, double best) {
    cst_report *report = soup->report;
    json_t *root = cst_report_root(report);
    json_t *list = cst_report_list(report, root, "chosen");
    for (int32_t i = 0; i < chosen; i++)
        cst_report_add_string(report, list, soup->paths[members[i]]);
    CST_PUT(report, root, CST_I("samples", soup->samples),
            CST_N("score", soup->metric->more ? -best : best),
            CST_I("evaluations", soup->evaluations), CST_N("seconds", 0));
    cst_report_notices(report, context);
    return cst_report_finish(context, report);
}

static cst_status run_greedy(cst_context *context, cst_soup *soup, const char *out) {
    int32_t chosen = 0;
    double best = 0;
    double started = cst_seconds();
    CST_SCOPE(scope);
    CST_NEW(context, scope, ranked, order, soup->count);
    CST_NEW(context, scope, int32_t, members, soup->count);
    soup->planned = 2 * (int64_t)soup->count - 1;
    CST_TRY(try_singles(context, soup, order));
    CST_TRY(choose(context, soup, order, members, &chosen, &best));
    CST_TRY(fill_report(context, soup, members, chosen, best));
    CST_TRY(cst_progress(context, "soup", soup->planned, soup->planned));
    CST_TRY(cst_soup_mix(context, soup->all, members, chosen, out));
    cst_report_change_number(cst_report_root(soup->report), "seconds", cst_seconds() - started);
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
    cst_soup soup = {0};
    cst_notices_clear(context);
    cst_status status = check_call(context, __func__, paths, count, out);
    CST_THEN(cst_soup_open(context, &soup, paths, count, config, out));
    CST_THEN(run_greedy(context, &soup, out));
    if (status == CST_OK && report) {
        *report = soup.report;
        soup.report = NULL;
    }
    cst_soup_close(context, &soup);
    return cst_why(context, status);
}
