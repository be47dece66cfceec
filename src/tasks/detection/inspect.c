/* The inspection of a pool of detections: that of its clusters as rows. Stage S0. */
#include "fit/family.h"
#include "report/report.h"
#include "tasks/detection/check.h"
#include "tasks/detection/detection.h"

/* The rows with a target as a pool of two classes in memory. */
static cst_status pool_of_rows(cst_context *context, const cst_pool *pool,
                               const cst_box_training *training, cst_pool **out) {
    const cst_view *view = &training->source.view;
    size_t members = (size_t)view->members;
    size_t rows = (size_t)view->rows;
    float **data = cst_alloc(context, members, sizeof *data);
    const char **names = cst_alloc(context, members, sizeof *names);
    int32_t *labels = cst_alloc(context, rows, sizeof *labels);
    cst_status status = data && names && labels ? CST_OK : CST_ERROR_MEMORY;
    for (size_t k = 0; status == CST_OK && k < members; k++) {
        names[k] = cst_pool_member_name(pool, (int32_t)k);
        data[k] = cst_alloc(context, 2 * rows, sizeof **data);
        if (!data[k])
            status = CST_ERROR_MEMORY;
        for (size_t i = 0; status == CST_OK && i < rows; i++) {
            const float *from = training->rows.data[k] + 2 * view->index[i];
            data[k][2 * i] = from[0];
            data[k][2 * i + 1] = from[1];
            labels[i] = training->targets[view->index[i]];
        }
    }
    CST_THEN(cst_pool_from_memory(context, out, "oof", (const float *const *)data, names,
                                  view->members, view->rows, 2, labels, CST_OUTPUT_PROBABILITY));
    for (size_t k = 0; data && k < members; k++)
        cst_free(context, data[k]);
    cst_free(context, data);
    cst_free(context, names);
    cst_free(context, labels);
    return status;
}

cst_status cst_detection_inspect(cst_context *context, cst_pool *pool, const char *split,
                                 const cst_options *options, cst_report **report) {
    cst_detect_options detect;
    cst_box_split files = {0};
    cst_box_training training = {0};
    cst_pool *rows = NULL;
    cst_findings findings = {0};
    cst_detect_options_read(options, &detect);
    cst_status status = cst_box_split_open(context, pool, split, NULL, 0, &files);
    if (cst_option_flag(options, CST_OPT_CHECKS))
        CST_THEN(cst_box_check(context, pool, split, &files, &findings));
    CST_THEN(cst_box_training_open(context, pool, split, &files, &detect,
                                   (int32_t)cst_option_integer(options, CST_OPT_FOLDS_COUNT),
                                   (uint64_t)cst_option_integer(options, CST_OPT_SEED), &training));
    if (status == CST_ERROR_INPUT && cst_findings_fatal(&findings))
        status = cst_findings_tell(context, &findings); /* why no cluster is right */
    CST_THEN(pool_of_rows(context, pool, &training, &rows));
    CST_THEN(cst_inspect_family(context, &cst_classification_family, rows, "oof", options,
                                &(cst_training_hints){.findings = &findings}, report));
    if (status == CST_OK) {
        json_t *root = cst_report_root(*report);
        cst_report_string(*report, root, "task", cst_task_name(CST_TASK_DETECTION));
        cst_report_string(*report, root, "split", split);
        cst_report_integer(*report, root, "images", files.coco->images);
        status = cst_report_finish(context, *report);
    }
    cst_findings_free(context, &findings);
    cst_pool_free(context, rows);
    cst_box_training_close(context, &training);
    cst_box_split_close(context, &files);
    return status;
}
