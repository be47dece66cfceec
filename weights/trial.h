/* Candidates of a soup: averaged, predicted with by the caller's hook, scored. */
#ifndef CST_WEIGHTS_TRIAL_H
#define CST_WEIGHTS_TRIAL_H

#include "report/report.h"
#include "weights/checkpoints.h"

#include <corestack/soup.h>

typedef struct cst_soup_metric {
    const char *name;
    cst_task task;
    bool more; /* more is better */
} cst_soup_metric;

/* A soup whose files are chosen by scores. */
typedef struct cst_soup {
    const cst_soup_config *config;
    const cst_soup_metric *metric;
    const char *const *paths; /* [count] */
    int32_t count;
    cst_checkpoints *all;
    char *folder; /* of the candidate and its predictions */
    int64_t samples, evaluations;
    int64_t planned; /* evaluations at most, for progress */
    cst_report *report;
    json_t *steps; /* of the report */
} cst_soup;

/* Checks the configuration, opens the files, makes the folder beside `out`, begins the report. */
cst_status cst_soup_open(cst_context *context, cst_soup *soup, const char *const *paths,
                         int32_t count, const cst_soup_config *config, const char *out);
void cst_soup_close(cst_context *context, cst_soup *soup);

/* Scores the mean of members [count], ascending. *step: its object in the report. */
cst_status cst_soup_try(cst_context *context, cst_soup *soup, const int32_t *members, int32_t count,
                        const char *kind, int32_t file, double *score, json_t **step);

/* Writes the mean of members [count] of files. */
cst_status cst_soup_mix(cst_context *context, const cst_checkpoints *all, const int32_t *members,
                        int32_t count, const char *path);

/* Begins the report of a soup. */
cst_status cst_soup_report(cst_context *context, const char *kind,
                           const cst_checkpoints *checkpoints, cst_report **out);

#endif
