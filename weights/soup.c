/*
 * Soups that need no search: the mean of all files, and of those that a greedy choice keeps. The
 * public door of soups. Wortsman et al. 2022, "Model soups: averaging weights of multiple
 * fine-tuned models improves accuracy without increasing inference time", Recipe 1.
 */
#include "weights/soup_trial.h"

#include <stdlib.h>
#include <string.h>

cst_status cst_soup_fail(cst_context *context, cst_status status, const char *message) {
    CST_ENTER(context);
    if (!message)
        return cst_fail(context, CST_ERROR_ARGUMENT, "cst_soup_fail: a message is required");
    if (status < CST_ERROR_ARGUMENT || status > CST_ERROR_INTERNAL)
        status = CST_ERROR_INTERNAL;
    return cst_fail(context, status, "%s", message);
}

cst_status cst_soup_check_call(cst_context *context, const char *call, const char *const *paths,
                               int32_t count, const char *out) {
    if (!paths || count < 1 || !out || !*out)
        return cst_fail(context, CST_ERROR_ARGUMENT,
                        "%s: input files and an output path are required", call);
    for (int32_t i = 0; i < count; i++)
        if (!paths[i])
            return cst_fail(context, CST_ERROR_ARGUMENT, "%s: path %d is NULL", call, (int)i);
    return CST_OK;
}

/* ---- the mean of all ---- */

cst_status cst_soup_uniform(cst_context *context, const char *const *paths, int32_t count,
                            const char *out, cst_report **report) {
    if (report)
        *report = NULL;
    CST_ENTER(context);
    cst_checkpoints *all = NULL;
    cst_report *made = NULL;
    double started = cst_seconds();
    cst_notices_clear(context);
    cst_status status = cst_soup_check_call(context, __func__, paths, count, out);
    CST_TRY(cst_checkpoints_open(context, &all, paths, count));
    CST_TRY(cst_soup_report(context, "uniform", all, &made));
    if (status == CST_OK) {
        cst_report_number(made, cst_report_root(made), "seconds", 0);
        cst_report_notices(made, context);
        status = cst_report_finish(context, made);
    }
    CST_TRY(cst_checkpoints_mix(context, all, NULL, CST_MIX_MODEL, out, NULL));
    if (status == CST_OK)
        cst_report_change_number(cst_report_root(made), "seconds", cst_seconds() - started);
    cst_checkpoints_close(context, all);
    if (status == CST_OK && report)
        *report = made;
    else
        cst_report_free(context, made);
    return cst_why(context, status);
}

/* ---- the greedy choice ---- */

typedef struct ranked {
    double score; /* the smaller the better */
    int32_t file;
    uint64_t hash[2]; /* of the file as a candidate */
} ranked;

static int by_score(const void *a, const void *b) {
    const ranked *left = a;
    const ranked *right = b;
    if (left->score < right->score || left->score > right->score)
        return left->score < right->score ? -1 : 1;
    return (left->file > right->file) - (left->file < right->file);
}

/* Scores each file by itself; order: [count], the best first. */
static cst_status try_singles(cst_context *context, cst_soup *soup, ranked *order) {
    cst_status status = CST_OK;
    for (int32_t i = 0; status == CST_OK && i < soup->count; i++) {
        cst_candidate single = {.members = &i, .count = 1};
        json_t *step = NULL;
        double score = 0;
        status = cst_soup_try(context, soup, &single, "single", i, &score, &step);
        CST_TRY(cst_soup_log(context, soup, step));
        order[i] = (ranked){.score = soup->metric->more ? -score : score,
                            .file = i,
                            .hash = {soup->tried[0], soup->tried[1]}};
    }
    qsort(order, (size_t)soup->count, sizeof *order, by_score);
    return status;
}

/* Puts `file` into ascending members [count]. */
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

typedef struct choice {
    cst_candidate soup;
    uint64_t hash[2];
    double score;
} choice;

/* members: room for all files; those of the choice. */
static cst_status choose(cst_context *context, cst_soup *soup, const ranked *order,
                         int32_t *members, choice *best) {
    cst_status status = CST_OK;
    cst_candidate *chosen = &best->soup;
    members[0] = order[0].file;
    *chosen = (cst_candidate){.members = members, .count = 1};
    best->score = soup->metric->more ? -order[0].score : order[0].score;
    memcpy(best->hash, order[0].hash, sizeof best->hash);
    for (int32_t i = 1; status == CST_OK && i < soup->count; i++) {
        json_t *step = NULL;
        double score = 0;
        insert(members, chosen->count++, order[i].file);
        status = cst_soup_try(context, soup, chosen, "add", order[i].file, &score, &step);
        bool keep = status == CST_OK && !cst_soup_better(soup, best->score, score);
        if (keep) {
            best->score = score;
            memcpy(best->hash, soup->tried, sizeof best->hash);
        } else {
            remove_member(members, chosen->count--, order[i].file);
        }
        if (status == CST_OK) {
            cst_report_flag(soup->report, step, "kept", keep);
            status = cst_soup_log(context, soup, step);
        }
    }
    return status;
}

static void put_chosen(cst_soup *soup, const cst_candidate *chosen) {
    json_t *list = cst_report_list(soup->report, cst_report_root(soup->report), "chosen");
    for (int32_t i = 0; i < chosen->count; i++)
        cst_report_add_string(soup->report, list, soup->paths[chosen->members[i]]);
}

cst_status cst_soup_greedy(cst_context *context, const char *const *paths, int32_t count,
                           const cst_soup_config *config, const char *out, cst_report **report) {
    if (report)
        *report = NULL;
    CST_ENTER(context);
    cst_soup soup = {0};
    choice best = {.score = 0};
    ranked *order = NULL;
    int32_t *members = NULL;
    cst_notices_clear(context);
    cst_status status = cst_soup_check_call(context, __func__, paths, count, out);
    CST_TRY(cst_soup_open(context, &soup, "greedy", paths, count, config, "top1"));
    if (status == CST_OK) {
        soup.planned = 2 * (int64_t)count - 1;
        order = cst_alloc(context, (size_t)count, sizeof *order);
        members = cst_alloc(context, (size_t)count, sizeof *members);
        status = order && members ? try_singles(context, &soup, order) : CST_ERROR_MEMORY;
    }
    CST_TRY(choose(context, &soup, order, members, &best));
    if (status == CST_OK) {
        put_chosen(&soup, &best.soup);
        status = cst_soup_finish(context, &soup, &best.soup, best.hash, best.score, out, report);
    }
    cst_free(context, members);
    cst_free(context, order);
    cst_soup_close(context, &soup);
    return cst_why(context, status);
}
