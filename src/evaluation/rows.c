/*
 * Scores, intervals, differences and costs as parts of a document.
 */
#include "evaluation/rows.h"

#include "base/calling.h"

#include <stddef.h>

/* Every score: its key and where it stands. */
static const struct score_field {
    const char *key;
    size_t value;
    size_t interval;
} FIELDS[] = {
    {"top1", offsetof(cst_metrics, top1), offsetof(cst_metric_intervals, top1)},
    {"ece", offsetof(cst_metrics, ece), offsetof(cst_metric_intervals, ece)},
    {"nll", offsetof(cst_metrics, nll), offsetof(cst_metric_intervals, nll)},
    {"brier", offsetof(cst_metrics, brier), offsetof(cst_metric_intervals, brier)},
    {"ece_mass", offsetof(cst_metrics, ece_mass), offsetof(cst_metric_intervals, ece_mass)},
    {"ece_classwise", offsetof(cst_metrics, ece_classwise),
     offsetof(cst_metric_intervals, ece_classwise)},
    {"ece_debiased", offsetof(cst_metrics, ece_debiased),
     offsetof(cst_metric_intervals, ece_debiased)},
    {"corp", offsetof(cst_metrics, corp), offsetof(cst_metric_intervals, corp)},
};

enum { FIELD_COUNT = sizeof FIELDS / sizeof FIELDS[0] };

void cst_rows_header(cst_report *report, const cst_scene *scene) {
    json_t *root = cst_report_root(report);
    cst_report_string(report, root, "split", scene->split);
    cst_report_string(report, root, "scored", scene->nested ? "nested" : "held-out");
    int64_t samples = 0;
    for (int32_t t = 0; t < scene->targets.scored; t++)
        samples += scene->targets.list[t].samples;
    cst_report_integer(report, root, "samples", samples);
    cst_report_integer(report, root, "classes", scene->classes);
    cst_report_integer(report, root, "models_in", scene->source.view.members);
    if (scene->conditions > 0) {
        cst_report_integer(report, root, "conditions", scene->conditions);
        cst_report_string(report, root, "aggregate", "mean over conditions");
    }
    if (scene->targets.scored > 1) {
        json_t *list = cst_report_list(report, root, "splits");
        for (int32_t t = 0; t < scene->targets.scored; t++)
            cst_report_add_string(report, list, scene->targets.list[t].split);
        cst_report_string(report, root, "aggregate", "mean over splits");
    }
    cst_report_integer(report, root, "seed", (int64_t)scene->seed);
}

static void put_interval(cst_report *report, json_t *object, const char *key,
                         const cst_interval *interval) {
    char name[32];
    double ends[2] = {interval->low, interval->high};
    (void)cst_snprintf(name, sizeof name, "%s_ci", key);
    cst_report_numbers(report, object, name, ends, 2);
}

void cst_rows_scores(cst_report *report, json_t *object, const cst_metrics *scores,
                     const cst_metric_intervals *intervals) {
    for (int f = 0; f < FIELD_COUNT; f++) {
        const double *value = (const void *)((const char *)scores + FIELDS[f].value);
        cst_report_number(report, object, FIELDS[f].key, *value);
        if (intervals)
            put_interval(report, object, FIELDS[f].key,
                         (const void *)((const char *)intervals + FIELDS[f].interval));
    }
}

void cst_rows_difference(cst_report *report, json_t *object,
                         const cst_metric_intervals *difference) {
    json_t *part = cst_report_object(report, object, "difference");
    for (int f = 0; f < FIELD_COUNT; f++) {
        const cst_interval *interval =
            (const void *)((const char *)difference + FIELDS[f].interval);
        cst_report_number(report, part, FIELDS[f].key, interval->value);
        put_interval(report, part, FIELDS[f].key, interval);
    }
}

void cst_rows_cost(cst_report *report, json_t *object, const cst_entry *entry) {
    cst_report_integer(report, object, "models", entry->models);
    cst_report_number(report, object, "kappa", entry->kappa);
    cst_report_number(report, object, "flops_rel", entry->flops_rel);
    cst_report_number(report, object, "seconds", entry->seconds);
}

cst_status cst_rows_finish(cst_context *context, cst_status status, cst_report **report) {
    if (status == CST_OK) {
        cst_report_notices(*report, context);
        status = cst_report_finish(context, *report);
    }
    return cst_report_settle(context, status, report);
}

cst_status cst_rows_tell(cst_context *context, const cst_compare_options *options,
                         const char *method, const char *split, const float *predictions,
                         int64_t rows, int32_t columns) {
    if (!options->predicted)
        return CST_OK;
    cst_run *run = cst_calling_begin(context);
    cst_status status =
        options->predicted(options->user, method, split, predictions, rows, columns);
    cst_calling_end(context, run);
    return status;
}

cst_compare_options cst_rows_options(const cst_compare_options *options) {
    return options ? *options : (cst_compare_options){.resamples = 5000};
}
