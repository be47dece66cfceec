/*
 * Fit of a pool of detections: clusters as rows through stages S1 to S4, weights of boxes, nested
 * AP, the model and the report. docs/detection.md#the-stack.
 */
#include "core/la.h"
#include "fit/document.h"
#include "fit/family.h"
#include "fit/label.h"
#include "tasks/detection/check.h"
#include "tasks/detection/detection.h"
#include "tasks/detection/figures.h"

#include <math.h>
#include <string.h>

cst_status cst_detection_labels(cst_context *context, const cst_coco *coco, int32_t **out) {
    *out = cst_alloc(context, (size_t)coco->count, sizeof **out);
    for (int64_t g = 0; *out && g < coco->count; g++)
        (*out)[g] = coco->box[g].category;
    return *out ? CST_OK : CST_ERROR_MEMORY;
}

typedef struct fitting {
    cst_pool *pool;
    const char *split;
    const cst_options *options;
    cst_settings settings;
    cst_detect_options detect;
    cst_box_split files;
    cst_box_training training;
    cst_detect_method method;
    cst_detect_fit fit;
    cst_detection_scores oof;
    cst_findings findings;
    double seconds_nested;
} fitting;

/* The fusion of the kept members, for the model. weights: [categories][members], or NULL: alike. */
static cst_status add_fusion(cst_context *context, const cst_coco *coco,
                             const cst_cluster_options *options, const double *weights,
                             int32_t members, const int32_t *positions, cst_model *model) {
    size_t categories = (size_t)coco->categories;
    size_t kept = (size_t)model->members;
    cst_fusion *fusion = cst_alloc(context, 1, sizeof *fusion);
    if (!fusion)
        return CST_ERROR_MEMORY;
    model->fusion = fusion;
    model->task = CST_TASK_DETECTION;
    fusion->iou = options->iou;
    fusion->min_score = options->min_score;
    fusion->max_boxes = options->max_boxes;
    fusion->category_id = cst_alloc(context, categories, sizeof *fusion->category_id);
    fusion->category_name = cst_alloc(context, categories, sizeof *fusion->category_name);
    fusion->weights = cst_alloc(context, categories * kept, sizeof *fusion->weights);
    if (!fusion->category_id || !fusion->category_name || !fusion->weights)
        return CST_ERROR_MEMORY;
    fusion->categories = coco->categories;
    for (size_t c = 0; c < categories; c++) {
        const char *name = coco->category_name[c];
        fusion->category_id[c] = coco->category_id[c];
        if (name && *name && !(fusion->category_name[c] = cst_strdup(context, name)))
            return CST_ERROR_MEMORY;
        for (size_t j = 0; j < kept; j++)
            fusion->weights[c * kept + j] =
                weights ? weights[c * (size_t)members + (size_t)positions[j]] : 1;
    }
    return CST_OK;
}

cst_status cst_detect_label(cst_context *context, const cst_pool *pool, const char *split,
                            const cst_box_split *files, const cst_box_training *training,
                            const cst_options *options, const char *method, const double *fusion,
                            const int32_t *kept, cst_model *model) {
    int32_t *labels = NULL;
    cst_status status = cst_detection_labels(context, files->coco, &labels);
    cst_fit_origin origin = {.pool = pool,
                             .split = split,
                             .options = options,
                             .method = method,
                             .labels = labels,
                             .label_count = files->coco->count,
                             .kept = kept,
                             .source = &training->source,
                             .samples = files->coco->images,
                             .hash = cst_box_split_hash(pool, files)};
    CST_THEN(cst_fit_label(context, &origin, model));
    CST_THEN(add_fusion(context, files->coco, &training->options.clusters, fusion, files->members,
                        kept, model));
    cst_free(context, labels);
    return status;
}

static cst_status nested(cst_context *context, fitting *f) {
    double start = cst_seconds();
    cst_coco_boxes *boxes = NULL;
    cst_ap_matches *matches = NULL;
    cst_status status = cst_stage(context, "nested evaluation");
    CST_THEN(cst_detect_nested(context, &f->method, &f->training, f->settings.seed, &boxes));
    CST_THEN(cst_ap_match(context, f->files.coco, boxes, &matches));
    CST_THEN(cst_ap_scores(context, matches, NULL, &f->oof, NULL));
    cst_ap_matches_free(context, matches);
    cst_coco_boxes_free(context, boxes);
    f->seconds_nested = cst_seconds() - start;
    return status;
}

/* AP of every member's own file. */
static cst_status put_members(cst_context *context, cst_report *report, const fitting *f) {
    json_t *list = json_object_get(cst_report_root(report), "members");
    for (int32_t k = 0; k < f->files.members; k++) {
        cst_ap_matches *matches = NULL;
        cst_detection_scores scores;
        cst_status status = cst_ap_match(context, f->files.coco, f->files.boxes[k], &matches);
        CST_THEN(cst_ap_scores(context, matches, NULL, &scores, NULL));
        cst_ap_matches_free(context, matches);
        if (status != CST_OK)
            return status;
        json_t *member = json_array_get(list, (size_t)k);
        cst_report_integer(report, member, "detections", f->files.boxes[k]->count);
        cst_figures_put(report, member, &scores);
    }
    return CST_OK;
}

static void put_fusion(cst_report *report, const fitting *f) {
    static const char *const rules[] = {"precision", "stack", "equal"};
    json_t *object = cst_report_object(report, cst_report_root(report), "fusion");
    const cst_stages *stages = &f->fit.rows.stages;
    cst_report_number(report, object, "iou", f->detect.clusters.iou);
    cst_report_number(report, object, "target_iou", f->detect.target_iou);
    cst_report_string(report, object, "box_weights", rules[f->detect.box_weights]);
    json_t *list = cst_report_list(report, object, "categories");
    for (int32_t c = 0; c < f->files.coco->categories; c++) {
        double sum = 0;
        const double *mine = f->fit.fusion + (size_t)c * (size_t)f->files.members;
        for (int32_t j = 0; j < stages->kept_count; j++)
            sum += mine[stages->kept[j]];
        json_t *row = cst_report_add_object(report, list);
        cst_report_integer(report, row, "id", f->files.coco->category_id[c]);
        cst_report_string(report, row, "name", f->files.coco->category_name[c]);
        json_t *weights = cst_report_object(report, row, "weights");
        for (int32_t j = 0; j < stages->kept_count; j++)
            cst_report_number(report, weights, cst_pool_member_name(f->pool, stages->kept[j]),
                              sum > 0 ? mine[stages->kept[j]] / sum : 0);
    }
}

static void put_oof(cst_report *report, const fitting *f) {
    static const double nan = NAN;
    const cst_detection_scores unknown = {nan, nan, nan, nan, nan, nan,
                                          nan, nan, nan, nan, nan, nan};
    json_t *oof = cst_report_object(report, cst_report_root(report), "oof");
    cst_figures_put(report, oof, f->settings.nested ? &f->oof : &unknown);
    cst_document_nested(report, oof, f->settings.nested);
    cst_figures_definition(report, cst_report_root(report));
}

/* The document of a fit, with figures of boxes instead of those of rows. */
static cst_status write_report(cst_context *context, const fitting *f, double seconds,
                               cst_report **report) {
    const cst_training *source = &f->training.source;
    cst_metrics *members = cst_alloc(context, (size_t)source->view.members, sizeof *members);
    cst_status status =
        members ? cst_member_metrics(context, &source->view, members) : CST_ERROR_MEMORY;
    cst_fit_facts facts = {.family = &cst_classification_family,
                           .pool = f->pool,
                           .options = f->options,
                           .settings = &f->settings,
                           .source = source,
                           .stages = &f->fit.rows.stages,
                           .members = members,
                           .findings = &f->findings,
                           .seconds_nested = f->seconds_nested,
                           .seconds_total = seconds};
    CST_THEN(cst_fit_document(context, &facts, report));
    if (status == CST_OK) {
        json_t *root = cst_report_root(*report);
        cst_report_string(*report, root, "task", cst_task_name(CST_TASK_DETECTION));
        cst_report_integer(*report, root, "classes", f->files.coco->categories);
        cst_report_integer(*report, root, "images", f->files.coco->images);
        cst_report_integer(*report, root, "annotations", f->files.coco->count);
        put_oof(*report, f);
        put_fusion(*report, f);
        status = put_members(context, *report, f);
    }
    CST_THEN(cst_report_finish(context, *report));
    cst_free(context, members);
    return status;
}

static cst_status run(cst_context *context, fitting *f, cst_model **model, cst_report **report) {
    double start = cst_seconds();
    cst_settings_read(f->options, &f->settings);
    cst_detect_options_read(f->options, &f->detect);
    cst_detect_adapt(&f->detect, cst_options_preset_name(f->options), &f->settings);
    cst_status status = cst_box_split_open(context, f->pool, f->split, NULL, 0, &f->files);
    if (f->settings.checks)
        CST_THEN(cst_box_check(context, f->pool, f->split, &f->files, &f->findings));
    CST_THEN(cst_findings_tell(context, &f->findings));
    CST_THEN(cst_box_training_open(context, f->pool, f->split, &f->files, &f->detect,
                                   f->settings.folds, f->settings.seed, &f->training));
    CST_THEN(cst_training_check_costs(context, f->pool, &f->training.source, &f->settings.limits));
    const char *preset = cst_options_preset_name(f->options);
    f->method = (cst_detect_method){.rule = CST_DETECT_ROWS,
                                    .rows = {.preset = preset, .settings = f->settings}};
    f->method.rows.settings.front = report != NULL;
    CST_THEN(cst_detect_fit_run(context, &f->method, &f->training, -1, f->settings.seed, &f->fit));
    f->method.rows.settings.front = false; /* not in every fold */
    CST_THEN(cst_detect_label(context, f->pool, f->split, &f->files, &f->training, f->options, NULL,
                              f->fit.fusion, f->fit.rows.stages.kept,
                              f->fit.rows.stages.fit.model));
    if (status == CST_OK && report && f->settings.nested)
        status = nested(context, f);
    if (status == CST_OK && report)
        status = write_report(context, f, cst_seconds() - start, report);
    CST_THEN(cst_progress(context, "fit", 1, 1));
    if (status == CST_OK && model) {
        *model = f->fit.rows.stages.fit.model;
        f->fit.rows.stages.fit.model = NULL;
    }
    return status;
}

cst_status cst_detection_fit(cst_context *context, cst_pool *pool, const char *split,
                             const cst_options *options, cst_model **model, cst_report **report) {
    fitting f = {.pool = pool, .split = split, .options = options};
    cst_notices_clear(context);
    cst_la_enter();
    cst_status status = run(context, &f, model, report);
    cst_la_leave();
    cst_findings_free(context, &f.findings);
    cst_detect_fit_free(context, &f.fit);
    cst_box_training_close(context, &f.training);
    cst_box_split_close(context, &f.files);
    return status;
}
