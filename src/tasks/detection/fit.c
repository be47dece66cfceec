/* Fit and inspection of a pool of detections by clusters as rows. docs/detection.md. */
#include "core/la.h"
#include "fit/document.h"
#include "fit/family.h"
#include "fit/label.h"
#include "tasks/detection/detection.h"

#include <math.h>
#include <string.h>

cst_status cst_detection_labels(cst_context *context, cst_scope *scope, const cst_coco *coco,
                                int32_t **out) {
    CST_TAKE(context, scope, *out, coco->count);
    for (int64_t g = 0; g < coco->count; g++)
        (*out)[g] = coco->box[g].category;
    return CST_OK;
}

typedef struct fitting {
    const cst_pool *whole; /* with the members that are left out */
    cst_pool *pool;
    const char *split;
    const cst_options *options;
    cst_settings settings;
    cst_box_split files;
    cst_box_training training;
    cst_detect_method method;
    cst_detect_fit fit;
    cst_detection_scores oof;
    cst_findings findings;
    double seconds_nested;
} fitting;

static cst_status copy_map(cst_context *context, cst_scope *scope, const cst_isotonic *from,
                           cst_isotonic *to) {
    CST_TAKE(context, scope, to->x, from->count);
    CST_TAKE(context, scope, to->y, from->count);
    memcpy(to->x, from->x, (size_t)from->count * sizeof *to->x);
    memcpy(to->y, from->y, (size_t)from->count * sizeof *to->y);
    to->count = from->count;
    return CST_OK;
}

static cst_status add_scoring(cst_context *context, cst_scope *scope, const cst_box_scoring *from,
                              int32_t kept, const int32_t *positions, cst_box_scoring **out) {
    CST_NEW(context, scope, cst_box_scoring, to, 1);
    *to = *from;
    CST_TAKE(context, scope, to->map, kept);
    CST_TAKE(context, scope, to->absent, kept);
    CST_TAKE(context, scope, to->share, kept);
    to->members = kept;
    for (int32_t j = 0; j < kept; j++) {
        to->absent[j] = from->absent[positions[j]];
        to->share[j] = from->share[positions[j]];
        CST_TRY(copy_map(context, scope, &from->map[positions[j]], &to->map[j]));
    }
    *out = to;
    return CST_OK;
}

/* The fusion of the kept members, for the model. */
static cst_status add_fusion(cst_context *context, const cst_box_split *files,
                             const cst_fused *fused, const int32_t *positions, cst_model *model) {
    const cst_coco *coco = files->coco;
    int32_t members = files->members;
    size_t categories = (size_t)coco->categories;
    size_t kept = (size_t)model->members;
    cst_scope *scope = &model->scope;
    CST_NEW(context, scope, cst_fusion, fusion, 1);
    model->fusion = fusion;
    model->task = CST_TASK_DETECTION;
    fusion->rule = fused->rule;
    fusion->iou = fused->options->iou;
    fusion->min_score = fused->options->min_score;
    fusion->max_boxes = fused->options->max_boxes;
    CST_TAKE(context, scope, fusion->category_id, categories);
    CST_TAKE(context, scope, fusion->category_name, categories);
    CST_TAKE(context, scope, fusion->weights, categories * kept);
    fusion->categories = coco->categories;
    for (size_t c = 0; c < categories; c++) {
        const char *name = coco->category_name[c];
        fusion->category_id[c] = coco->category_id[c];
        if (name && *name && !(fusion->category_name[c] = cst_take_text(context, scope, name)))
            return CST_ERROR_MEMORY;
        for (size_t j = 0; j < kept; j++)
            fusion->weights[c * kept + j] =
                fused->weights ? fused->weights[c * (size_t)members + (size_t)positions[j]] : 1;
    }
    CST_TRY(cst_box_agreement_make(context, scope, files, positions, model->members,
                                   &fusion->agreement));
    return fused->scoring ? add_scoring(context, scope, fused->scoring, model->members, positions,
                                        &fusion->scoring)
                          : CST_OK;
}

cst_status cst_detect_label(cst_context *context, const cst_pool *pool, const char *split,
                            const cst_box_split *files, const cst_box_training *training,
                            const cst_options *options, const char *method, const cst_fused *fused,
                            const int32_t *kept, cst_model *model) {
    CST_SCOPE(scope);
    int32_t *labels;
    CST_TRY(cst_detection_labels(context, scope, files->coco, &labels));
    cst_fit_origin origin = {.pool = pool,
                             .split = split,
                             .options = options,
                             .method = method,
                             .labels = labels,
                             .label_count = files->coco->count,
                             .kept = kept,
                             .source = &training->source,
                             .samples = files->coco->images,
                             .hash =
                                 training->hash ? training->hash : cst_box_split_hash(pool, files)};
    CST_TRY(cst_fit_label(context, &origin, model));
    return add_fusion(context, files, fused, kept, model);
}

CST_OWNED(cst_coco_boxes)

static cst_status nested(cst_context *context, fitting *f) {
    double start = cst_seconds();
    CST_SCOPE(scope);
    cst_coco_boxes *boxes = NULL;
    cst_ap_matches matches;
    cst_stage_share(context, 0.95);
    CST_TRY(cst_stage(context, "nested evaluation"));
    CST_TRY(cst_detect_nested(context, &f->method, &f->training, f->settings.seed, &boxes));
    CST_OWN(context, scope, cst_coco_boxes, boxes);
    CST_TRY(cst_ap_match(context, scope, f->files.coco, boxes, true, &matches));
    CST_TRY(cst_ap_scores(context, &matches, NULL, &f->oof, NULL));
    f->seconds_nested = cst_seconds() - start;
    return CST_OK;
}

static cst_status put_members(cst_context *context, cst_report *report, const fitting *f) {
    json_t *list = json_object_get(cst_report_root(report), "members");
    for (int32_t k = 0; k < f->files.members; k++) {
        CST_SCOPE(scope);
        cst_ap_matches matches;
        cst_detection_scores scores;
        CST_TRY(cst_ap_match(context, scope, f->files.coco, f->files.boxes[k], true, &matches));
        CST_TRY(cst_ap_scores(context, &matches, NULL, &scores, NULL));
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
    const char *rule = f->fit.rule == CST_BOX_RULE_LEARNERS ? "stack"
                       : f->fit.fusion                      ? "tuned weights"
                                                            : "equal weights";
    CST_PUT(report, object, CST_S("rule", rule), CST_N("iou", f->fit.options.iou),
            CST_N("target_iou", f->training.options.target_iou),
            CST_S("box_weights", rules[f->training.options.box_weights]));
    if (!isnan(f->fit.ap[0])) {
        json_t *halves = cst_report_object(report, object, "ap_of_halves");
        CST_PUT(report, halves, CST_N("stack", f->fit.ap[0]), CST_N("equal", f->fit.ap[1]),
                CST_N("tuned", f->fit.ap[2]));
    }
    json_t *list = cst_report_list(report, object, "categories");
    for (int32_t c = 0; c < f->files.coco->categories; c++) {
        double sum = 0;
        const double *mine =
            f->fit.fusion ? f->fit.fusion + (size_t)c * (size_t)f->files.members : NULL;
        for (int32_t j = 0; j < stages->kept_count; j++)
            sum += mine ? mine[stages->kept[j]] : 1;
        json_t *row = cst_report_add_object(report, list);
        CST_PUT(report, row, CST_I("id", f->files.coco->category_id[c]),
                CST_S("name", f->files.coco->category_name[c]));
        json_t *weights = cst_report_object(report, row, "weights");
        for (int32_t j = 0; j < stages->kept_count; j++)
            cst_report_number(report, weights, cst_pool_member_name(f->pool, stages->kept[j]),
                              sum > 0 ? (mine ? mine[stages->kept[j]] : 1) / sum : 0);
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
    CST_SCOPE(scope);
    CST_NEW(context, scope, cst_metrics, members, source->view.members);
    CST_TRY(cst_member_metrics(context, &source->view, members));
    cst_fit_facts facts = {.family = &cst_classification_family,
                           .pool = f->pool,
                           .options = f->options,
                           .settings = &f->settings,
                           .source = source,
                           .stages = &f->fit.rows.stages,
                           .members = members,
                           .seconds_nested = f->seconds_nested,
                           .seconds_total = seconds};
    CST_TRY(cst_fit_document(context, &facts, report));
    json_t *root = cst_report_root(*report);
    CST_PUT(*report, root, CST_S("task", cst_task_name(CST_TASK_DETECTION)),
            CST_I("classes", f->files.coco->categories), CST_I("images", f->files.coco->images),
            CST_I("annotations", f->files.coco->count));
    put_oof(*report, f);
    put_fusion(*report, f);
    cst_findings_put(*report, f->pool, &f->findings, false);
    CST_TRY(put_members(context, *report, f));
    return cst_report_finish(context, *report);
}

cst_status cst_detection_fit(cst_context *context, cst_pool *pool, const char *split,
                             const cst_options *options, cst_model **model, cst_report **report) {
    fitting f = {.whole = pool, .pool = pool, .split = split, .options = options};
    cst_notices_clear(context);
    CST_LA();
    double start = cst_seconds();
    CST_SCOPE(scope);
    CST_OWN(context, scope, cst_findings, &f.findings);
    CST_OWN(context, scope, cst_box_split, &f.files);
    CST_OWN(context, scope, cst_detect_fit, &f.fit);
    cst_settings_read(f.options, &f.settings);
    CST_TRY(cst_box_training_open(context, scope, &f.pool, f.split, f.options, &f.findings, false,
                                  &f.files, &f.training));
    cst_detect_adapt(&f.training.options, cst_options_preset_name(f.options), &f.settings);
    CST_TRY(cst_training_check_costs(context, f.pool, &f.training.source, &f.settings.limits));
    const char *preset = cst_options_preset_name(f.options);
    f.method = (cst_detect_method){.rule = CST_BOX_RULE_LEARNERS,
                                   .rows = {.preset = preset, .settings = f.settings}};
    f.method.rows.settings.front = report != NULL;
    double end = cst_part_begin(context, report && f.settings.nested ? 0.2 : 0.9);
    CST_TRY(cst_detect_fit_run(context, &f.method, &f.training, -1, f.settings.seed, &f.fit));
    cst_part_end(context, end);
    f.method.rows.settings.front = false; /* not in every fold */
    const cst_fused fused = {&f.fit.options, f.fit.rule, f.fit.fusion, f.fit.scoring};
    CST_TRY(cst_detect_label(context, f.pool, f.split, &f.files, &f.training, f.options, NULL,
                             &fused, f.fit.rows.stages.kept, f.fit.rows.stages.fit.model));
    if (report && f.settings.nested)
        CST_TRY(nested(context, &f));
    if (report)
        CST_TRY(write_report(context, &f, cst_seconds() - start, report));
    CST_TRY(cst_progress_end(context, "fit"));
    if (model) {
        *model = f.fit.rows.stages.fit.model;
        f.fit.rows.stages.fit.model = NULL;
    }
    return CST_OK;
}

/* The rows with a target as a pool of two classes in memory. */
static cst_status pool_of_rows(cst_context *context, const cst_pool *pool,
                               const cst_box_training *training, cst_pool **out) {
    const cst_view *view = &training->source.view;
    CST_SCOPE(scope);
    CST_NEW(context, scope, float *, data, view->members);
    CST_NEW(context, scope, const char *, names, view->members);
    CST_NEW(context, scope, int32_t, labels, view->rows);
    for (int32_t k = 0; k < view->members; k++) {
        names[k] = cst_pool_member_name(pool, k);
        CST_TAKE(context, scope, data[k], 2 * view->rows);
        for (int64_t i = 0; i < view->rows; i++) {
            memcpy(data[k] + 2 * i, training->rows.data[k] + 2 * view->index[i], 2 * sizeof **data);
            labels[i] = training->targets[view->index[i]];
        }
    }
    return cst_pool_from_memory(context, out, "oof", (const float *const *)data, names,
                                view->members, view->rows, 2, labels, CST_OUTPUT_PROBABILITY);
}

CST_OWNED(cst_pool)

cst_status cst_detection_inspect(cst_context *context, cst_pool *pool, const char *split,
                                 const cst_options *options, cst_report **report) {
    cst_box_split files = {0};
    cst_box_training training;
    cst_pool *rows = NULL;
    cst_findings findings = {0};
    CST_SCOPE(scope);
    CST_OWN(context, scope, cst_findings, &findings);
    CST_OWN(context, scope, cst_box_split, &files);
    CST_TRY(cst_box_training_open(context, scope, &pool, split, options, &findings, true, &files,
                                  &training));
    for (int32_t k = 0; k < files.members; k++) /* inspecting rows clears the notice of it */
        if (files.boxes[k]->count == 0)
            CST_TRY(cst_findings_add(context, &findings, "boxes", false, &k, 1,
                                     "'%s' has no boxes in split '%s': is it the right file?",
                                     cst_pool_member_name(pool, k), split));
    CST_TRY(pool_of_rows(context, pool, &training, &rows));
    CST_OWN(context, scope, cst_pool, rows);
    CST_TRY(cst_inspect_family(context, &cst_classification_family, rows, "oof", options,
                               &(cst_training_hints){.findings = &findings}, report));
    json_t *root = cst_report_root(*report);
    CST_PUT(*report, root, CST_S("task", cst_task_name(CST_TASK_DETECTION)), CST_S("split", split),
            CST_I("images", files.coco->images));
    return cst_report_finish(context, *report);
}
