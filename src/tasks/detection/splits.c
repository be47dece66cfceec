/* Opens a split of a detection pool, its clusters as rows. docs/detection.md#the-stack. */
#include "tasks/detection/part.h"

#include "data/pool/state.h"
#include "model/fit_rows.h"

#include <string.h>

/* Whether one of the options was set, and the one of detection that stands for them was not. */
static bool general(const cst_options *options, cst_option_id ours, const cst_option_id *theirs,
                    size_t count) {
    bool given = false;
    for (size_t i = 0; i < count; i++)
        given = given || cst_option_given(options, theirs[i]);
    return given && !cst_option_given(options, ours);
}

void cst_detect_options_read(const cst_options *options, cst_detect_options *out) {
    static const cst_option_id selection[] = {CST_OPT_SELECT_DIRECTION, CST_OPT_SELECT_RULE,
                                              CST_OPT_SELECT_TOLERANCE, CST_OPT_SELECT_PRIOR,
                                              CST_OPT_SELECT_MAX_ROWS};
    static const cst_option_id keep[] = {CST_OPT_KEEP_FRACTION};
    static const cst_option_id prior[] = {CST_OPT_LOGLINEAR_PRIOR};
    static const cst_option_id weights[] = {CST_OPT_LOGLINEAR_PRIOR_WEIGHTS};
    cst_option_id precision = general(options, CST_OPT_DETECT_PRIOR_WEIGHTS, weights, 1)
                                  ? CST_OPT_LOGLINEAR_PRIOR_WEIGHTS
                                  : CST_OPT_DETECT_PRIOR_WEIGHTS;
    *out = (cst_detect_options){
        .clusters = {.iou = cst_option_real(options, CST_OPT_DETECT_IOU),
                     .min_score = cst_option_real(options, CST_OPT_DETECT_MIN_SCORE),
                     .max_boxes = (int32_t)cst_option_integer(options, CST_OPT_DETECT_MAX_BOXES)},
        .select = cst_option_flag(options, CST_OPT_DETECT_SELECT) ||
                  general(options, CST_OPT_DETECT_SELECT, selection,
                          sizeof selection / sizeof selection[0]),
        .keep_general = general(options, CST_OPT_DETECT_KEEP_FRACTION, keep, 1),
        .prior_general = general(options, CST_OPT_DETECT_PRIOR_WEIGHTS, prior, 1),
        .prior_weights = cst_option_real(options, precision),
        .keep_fraction = cst_option_real(options, CST_OPT_DETECT_KEEP_FRACTION),
        .target_iou = cst_option_real(options, CST_OPT_DETECT_TARGET_IOU),
        .box_weights = (cst_box_weights)cst_option_choice(options, CST_OPT_DETECT_BOX_WEIGHTS)};
}

void cst_detect_adapt(const cst_detect_options *options, const char *preset,
                      cst_settings *settings) {
    if (strcmp(preset, "paper") == 0 || strcmp(preset, "prototype") == 0)
        return;
    settings->select = settings->select && options->select;
    if (!options->keep_general)
        settings->keep_fraction = options->keep_fraction;
    if (options->prior_weights > 0 && !options->prior_general) {
        settings->prior_cv = false;
        settings->loglinear.evidence = false;
        settings->loglinear.prior_weights = options->prior_weights;
    }
}

/* ---- files ---- */

static cst_status open_annotations(cst_context *context, const cst_pool *pool, const char *name,
                                   bool labelled, int32_t *split, cst_coco **out) {
    const cst_manifest *m = pool->manifest;
    *split = cst_manifest_find_split(m, name);
    if (*split < 0)
        return cst_fail_split(context, CST_ERROR_ARGUMENT, pool, name);
    const char *path = m->splits[*split].annotations;
    if (!path)
        return cst_fail(context, CST_ERROR_INPUT,
                        "%s: split '%s' has no annotations; name a COCO annotation file in its key "
                        "'annotations'",
                        m->path, name);
    cst_status status = cst_manifest_confine(context, m, path);
    CST_THEN(labelled ? cst_coco_read(context, out, path, pool->zip_limit)
                      : cst_coco_read_images(context, out, path, pool->zip_limit));
    if (status == CST_OK && m->classes > 0 && m->classes != (*out)->categories)
        status = cst_fail(context, CST_ERROR_MISMATCH,
                          "%s: 'classes' is %d, but %s has %d categories; remove 'classes'",
                          m->path, (int)m->classes, path, (int)(*out)->categories);
    return status;
}

static cst_status open_member(cst_context *context, const cst_pool *pool, const char *name,
                              int32_t split, int32_t member, const cst_coco *coco,
                              cst_coco_boxes **out) {
    const cst_manifest *m = pool->manifest;
    const char *path = m->members[member].paths[split];
    if (!path)
        return cst_fail(context, CST_ERROR_INPUT,
                        "%s: member '%s' has no detections for split '%s'; add its "
                        "file or remove the member (predict works without it with --missing allow)",
                        m->path, m->members[member].name, name);
    cst_status status = cst_manifest_confine(context, m, path);
    CST_THEN(cst_coco_read_boxes(context, out, path, pool->zip_limit, coco, true));
    if (status == CST_OK && (*out)->count == 0)
        cst_notice(context,
                   "%s: has no boxes, so member '%s' finds nothing in any image of split '%s': is "
                   "it the right file?",
                   path, m->members[member].name, name);
    return status;
}

static cst_status open_split(cst_context *context, const cst_pool *pool, const char *split,
                             const int32_t *members, int32_t count, bool labelled,
                             cst_box_split *out) {
    double start = cst_seconds();
    int32_t at = 0;
    *out = (cst_box_split){.members = cst_pool_members(pool)};
    cst_status status = open_annotations(context, pool, split, labelled, &at, &out->coco);
    if (status == CST_OK) {
        out->boxes = cst_alloc(context, (size_t)out->members, sizeof *out->boxes);
        status = out->boxes ? CST_OK : CST_ERROR_MEMORY;
    }
    count = members ? count : out->members;
    for (int32_t j = 0; status == CST_OK && j < count; j++) {
        int32_t k = members ? members[j] : j;
        status = open_member(context, pool, split, at, k, out->coco, &out->boxes[k]);
    }
    for (int32_t k = 0; status == CST_OK && k < out->members; k++) {
        if (out->boxes[k])
            continue;
        cst_coco_box *none = cst_alloc(context, 1, sizeof *none);
        status = none ? cst_coco_boxes_take(context, &out->boxes[k], none, 0, out->coco->images,
                                            out->coco->categories)
                      : CST_ERROR_MEMORY;
        if (status != CST_OK)
            cst_free(context, none);
    }
    CST_THEN(cst_box_split_take_part(context, pool, at, out));
    out->seconds = cst_seconds() - start;
    if (status != CST_OK)
        cst_box_split_close(context, out);
    return status;
}

cst_status cst_box_split_open(cst_context *context, const cst_pool *pool, const char *split,
                              const int32_t *members, int32_t count, cst_box_split *out) {
    return open_split(context, pool, split, members, count, true, out);
}

cst_status cst_box_split_open_images(cst_context *context, const cst_pool *pool, const char *split,
                                     const int32_t *members, int32_t count, cst_box_split *out) {
    return open_split(context, pool, split, members, count, false, out);
}

void cst_box_split_close(cst_context *context, cst_box_split *split) {
    for (int32_t k = 0; split->boxes && k < split->members; k++)
        cst_coco_boxes_free(context, split->boxes[k]);
    cst_free(context, split->boxes);
    cst_coco_free(context, split->coco);
    *split = (cst_box_split){0};
}

/* ---- rows ---- */

static cst_status fill_rows(cst_context *context, cst_box_rows *rows) {
    const cst_box_clusters *c = rows->clusters;
    size_t cells = 2 * (size_t)c->rows;
    rows->data = cst_alloc(context, (size_t)rows->members, sizeof *rows->data);
    if (!rows->data)
        return CST_ERROR_MEMORY;
    for (int32_t k = 0; k < rows->members; k++) {
        rows->data[k] = cst_alloc(context, cells, sizeof **rows->data);
        if (!rows->data[k])
            return CST_ERROR_MEMORY;
        for (size_t i = 0; i < cells; i += 2)
            rows->data[k][i] = 1;
    }
    for (int64_t row = 0; row < c->rows; row++)
        for (int64_t i = c->first[row]; i < c->first[row + 1]; i++) {
            float *cell = rows->data[c->box[i].member] + 2 * row;
            cell[1] = (float)c->box[i].score;
            cell[0] = 1 - cell[1];
        }
    return CST_OK;
}

cst_status cst_box_rows_make(cst_context *context, const cst_box_split *split,
                             const cst_cluster_options *options, const bool *uses,
                             const bool *images, cst_box_rows *out) {
    *out = (cst_box_rows){.members = split->members};
    cst_status status =
        cst_box_clusters_make(context, split->coco, (const cst_coco_boxes *const *)split->boxes,
                              split->members, options, uses, images, &out->clusters);
    CST_THEN(fill_rows(context, out));
    if (status != CST_OK)
        cst_box_rows_free(context, out);
    return status;
}

void cst_box_rows_free(cst_context *context, cst_box_rows *rows) {
    for (int32_t k = 0; rows->data && k < rows->members; k++)
        cst_free(context, rows->data[k]);
    cst_free(context, rows->data);
    cst_box_clusters_free(context, rows->clusters);
    *rows = (cst_box_rows){0};
}

cst_view cst_box_rows_view(const cst_box_rows *rows) {
    return (cst_view){.rows = rows->clusters->rows,
                      .classes = 2,
                      .members = rows->members,
                      .data = (const float *const *)rows->data};
}

/* ---- hash ---- */

static uint64_t hash_box(uint64_t hash, int64_t image, int64_t category, const double numbers[5]) {
    int64_t ids[2] = {image, category};
    return cst_hash_bytes(cst_hash_bytes(hash, ids, sizeof ids), numbers, 5 * sizeof *numbers);
}

uint64_t cst_box_split_hash(const cst_pool *pool, const cst_box_split *split) {
    const cst_coco *coco = split->coco;
    uint64_t hash = CST_HASH_START;
    for (int32_t i = 0; i < coco->images; i++)
        hash = cst_hash_bytes(hash, &coco->image_id[i], sizeof coco->image_id[i]);
    for (int64_t g = 0; g < coco->count; g++) {
        const cst_coco_true *b = &coco->box[g];
        hash = hash_box(hash, coco->image_id[b->image], coco->category_id[b->category],
                        (const double[5]){b->x, b->y, b->w, b->h, b->crowd});
    }
    uint64_t sum = cst_hash_mix(hash);
    for (int32_t k = 0; k < split->members; k++) {
        const char *name = cst_pool_member_name(pool, k);
        hash = cst_hash_bytes(CST_HASH_START, name, strlen(name) + 1);
        for (int64_t i = 0; i < split->boxes[k]->count; i++) {
            const cst_coco_box *b = &split->boxes[k]->box[i];
            hash = hash_box(hash, coco->image_id[b->image], coco->category_id[b->category],
                            (const double[5]){b->x, b->y, b->w, b->h, b->score});
        }
        sum += cst_hash_mix(hash);
    }
    return cst_hash_mix(sum);
}

cst_status cst_box_pool_hash(cst_context *context, cst_pool *pool, const char *split,
                             uint64_t *out) {
    cst_box_split files;
    cst_status status = cst_box_split_open(context, pool, split, NULL, 0, &files);
    if (status == CST_OK)
        *out = cst_box_split_hash(pool, &files);
    cst_box_split_close(context, &files);
    return status;
}
