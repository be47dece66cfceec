/*
 * One candidate of a soup: mixed, predicted with by the caller's hook or taken from what was kept,
 * scored, logged. Shared by the soups that are chosen by scores. Paper: Wortsman et al. 2022.
 */
#ifndef CST_WEIGHTS_SOUP_TRIAL_H
#define CST_WEIGHTS_SOUP_TRIAL_H

#include "report/report.h"
#include "weights/soup_work.h"

#include <corestack/soup.h>

typedef struct cst_soup_metric {
    const char *name;
    const char *title;
    cst_task task;
    bool more; /* more is better */
} cst_soup_metric;

/* The metric of that name for the task, or NULL; the k-th of a task, NULL past the end. */
const cst_soup_metric *cst_soup_metric_find(cst_task task, const char *name);
const cst_soup_metric *cst_soup_metric_at(cst_task task, size_t index);

/* The score of a file of predictions, which must be what the configuration says they are. */
cst_status cst_soup_score_file(cst_context *context, const cst_soup_config *config,
                               const cst_soup_metric *metric, const char *path, double *score,
                               int64_t *rows);

/* A soup that is being cooked. */
typedef struct cst_soup {
    const cst_soup_config *config;
    const cst_soup_metric *metric;
    const char *const *paths; /* [count] */
    int32_t count;
    cst_checkpoints *all; /* every file */
    cst_soup_work *work;
    uint64_t labels[2]; /* hash of the labels' file */
    double started;
    uint64_t tried[2]; /* hash of the last candidate */
    int64_t samples;   /* 0 until something was scored */
    int64_t evaluations;
    bool spoilt;     /* this candidate was predicted with, or mixed, without a score */
    int64_t cached;  /* of these: not asked of the hook */
    int64_t planned; /* evaluations at most, for progress */
    cst_report *report;
    json_t *steps; /* of the report */
} cst_soup;

/* Checks the arguments of a public call, opens the files and the work folder, begins the report.
 * `usual`: the metric of a classification where none is given. */
cst_status cst_soup_open(cst_context *context, cst_soup *soup, const char *kind,
                         const char *const *paths, int32_t count, const cst_soup_config *config,
                         const char *usual);
void cst_soup_close(cst_context *context, cst_soup *soup);

typedef struct cst_candidate {
    const int32_t *members; /* [count] files, ascending; NULL: all of them */
    int32_t count;
    const double *weights; /* of the members, as the scope says; NULL: alike */
    cst_mix_scope scope;
} cst_candidate;

/* The candidate's score; *step is its object in the report, which the caller completes and then
 * logs. kind: what is tried; file: the one it is about, or -1. In a search (`weights`) a mix beyond
 * its dtype and predictions that cannot be scored are no error: the score is NaN, the worst. */
cst_status cst_soup_try(cst_context *context, cst_soup *soup, const cst_candidate *candidate,
                        const char *kind, int32_t file, double *score, json_t **step);
cst_status cst_soup_log(cst_context *context, cst_soup *soup, const json_t *step);

/* Whether a score is better than another one; no score, NaN, is the worst. */
bool cst_soup_better(const cst_soup *soup, double score, double than);

/* Ends a soup: writes the best candidate, whose hash was `tried` when it was scored, to `out`,
 * completes the report with its score and the counts, and hands it over (report may be NULL). */
cst_status cst_soup_finish(cst_context *context, cst_soup *soup, const cst_candidate *best,
                           const uint64_t tried[2], double score, const char *out,
                           cst_report **report);

/* Files and the path of the result as a public call gets them; in soup.c. */
cst_status cst_soup_check_call(cst_context *context, const char *call, const char *const *paths,
                               int32_t count, const char *out);

/* What every report of a soup begins with. */
cst_status cst_soup_report(cst_context *context, const char *kind,
                           const cst_checkpoints *checkpoints, cst_report **out);

#endif
