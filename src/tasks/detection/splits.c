/* Opens a split of a detection pool, its clusters as rows. docs/detection.md#the-stack. */
#include "tasks/detection/detection.h"

#include "data/pool/pool.h"
#include "data/pool/state.h"
#include "model/fit_rows.h"

#include <corestack/folds.h>
#include <math.h>
#include <string.h>

void cst_detect_options_read(const cst_options *options, cst_detect_options *out) {
    bool given = cst_option_given(options, CST_OPT_DETECT_PRIOR_WEIGHTS);
    bool weights = !given && cst_option_given(options, CST_OPT_LOGLINEAR_PRIOR_WEIGHTS);
    *out = (cst_detect_options){
        .clusters = {.iou = cst_option_real(options, CST_OPT_DETECT_IOU),
                     .min_score = cst_option_real(options, CST_OPT_DETECT_MIN_SCORE),
                     .max_boxes = (int32_t)cst_option_integer(options, CST_OPT_DETECT_MAX_BOXES)},
        .prior_general = !given && cst_option_given(options, CST_OPT_LOGLINEAR_PRIOR),
        .prior_weights = cst_option_real(options, weights ? CST_OPT_LOGLINEAR_PRIOR_WEIGHTS
                                                          : CST_OPT_DETECT_PRIOR_WEIGHTS),
        .iou_given = cst_option_given(options, CST_OPT_DETECT_IOU),
        .target_iou = cst_option_real(options, CST_OPT_DETECT_TARGET_IOU),
        .sample = cst_option_integer(options, CST_OPT_DETECT_SAMPLE),
        .box_weights = (cst_box_weights)cst_option_choice(options, CST_OPT_DETECT_BOX_WEIGHTS)};
}

void cst_detect_adapt(const cst_detect_options *options, const char *preset,
                      cst_settings *settings) {
    if (strcmp(preset, "paper") == 0 || strcmp(preset, "prototype") == 0)
        return;
    /* The blend and a share chosen by held-out loss were no better, and took twice the time. */
    cst_settings_pool_only(settings);
    settings->share_cv = false;
    if (strcmp(preset, "compact") == 0 && settings->selection.rule == CST_SELECT_DISTIL)
        settings->selection.rule = CST_SELECT_TOLERANCE;
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
    CST_TRY(cst_manifest_confine(context, m, path));
    CST_TRY(cst_coco_read(context, out, path, pool->zip_limit, labelled));
    if (m->classes > 0 && m->classes != (*out)->categories)
        return cst_fail(context, CST_ERROR_MISMATCH,
                        "%s: 'classes' is %d, but %s has %d categories; remove 'classes'", m->path,
                        (int)m->classes, path, (int)(*out)->categories);
    return CST_OK;
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
    CST_TRY(cst_manifest_confine(context, m, path));
    CST_TRY(cst_coco_read_boxes(context, out, path, pool->zip_limit, coco, true));
    if ((*out)->count == 0)
        cst_notice(context,
                   "%s: has no boxes, so member '%s' finds nothing in any image of split '%s': is "
                   "it the right file?",
                   path, m->members[member].name, name);
    return CST_OK;
}

/* ---- a part of the images ---- */

/* Moves the records of the images of a part together; place [all]: position of each image in it, or
 * -1. Returns how many are left; first then is of the part's images. */
static int64_t take_records(void *records, size_t size, size_t image_at, int64_t *first,
                            const int32_t *place, int32_t all, int32_t images) {
    char *list = records;
    int64_t to = 0;
    for (int32_t i = 0; i < all; i++) {
        int64_t from = first[i];
        int64_t count = first[i + 1] - from;
        if (place[i] < 0)
            continue;
        first[place[i]] = to;
        memmove(list + (size_t)to * size, list + (size_t)from * size, (size_t)count * size);
        for (int64_t end = to + count; to < end; to++)
            memcpy(list + (size_t)to * size + image_at, &place[i], sizeof place[i]);
    }
    first[images] = to;
    return to;
}

static void take_truth(cst_coco *coco, const int32_t *place, int32_t images) {
    for (int32_t i = 0; i < coco->images; i++) {
        if (place[i] < 0)
            continue;
        coco->image_id[place[i]] = coco->image_id[i];
        coco->width[place[i]] = coco->width[i];
        coco->height[place[i]] = coco->height[i];
    }
    coco->count = take_records(coco->box, sizeof *coco->box, offsetof(cst_coco_true, image),
                               coco->first, place, coco->images, images);
    coco->images = images;
}

/* Leaves the images of `split` of a divided pool with their boxes. */
static cst_status take_part(cst_context *context, const cst_pool *pool, int32_t split,
                            cst_box_split *files) {
    cst_division *division = cst_pool_division(pool);
    int32_t all = files->coco->images;
    int32_t images = 0;
    if (!division || (split != division->split && split != division->held))
        return CST_OK;
    const cst_units units = {
        .split = pool->manifest->splits[division->split].name, .unit = "images", .count = all};
    CST_SCOPE(scope);
    CST_NEW(context, scope, bool, held, all);
    CST_NEW(context, scope, int32_t, place, all);
    CST_TRY(cst_divide(context, &units, division->share, division->seed, held));
    for (int32_t i = 0; i < all; i++)
        place[i] = held[i] == (split == division->held) ? images++ : -1;
    CST_TRY(cst_division_note(context, division, held, files->coco->image_id, all));
    take_truth(files->coco, place, images);
    for (int32_t k = 0; k < files->members; k++) {
        cst_coco_boxes *boxes = files->boxes[k];
        boxes->count = take_records(boxes->box, sizeof *boxes->box, offsetof(cst_coco_box, image),
                                    boxes->first, place, all, images);
    }
    return CST_OK;
}

/* ---- opening ---- */

cst_status cst_box_split_open(cst_context *context, const cst_pool *pool, const char *split,
                              const int32_t *members, int32_t count, bool labelled,
                              cst_box_split *out) {
    double start = cst_seconds();
    int32_t at = 0;
    *out = (cst_box_split){.members = (int32_t)cst_pool_members(pool)};
    CST_TRY(open_annotations(context, pool, split, labelled, &at, &out->coco));
    out->boxes = cst_alloc(context, (size_t)out->members, sizeof *out->boxes);
    if (!out->boxes)
        return CST_ERROR_MEMORY;
    count = members ? count : out->members;
    for (int32_t j = 0; j < count; j++) {
        int32_t k = members ? members[j] : j;
        CST_TRY(open_member(context, pool, split, at, k, out->coco, &out->boxes[k]));
    }
    for (int32_t k = 0; k < out->members; k++) {
        if (out->boxes[k])
            continue;
        cst_coco_box *none = cst_alloc(context, 1, sizeof *none);
        if (!none)
            return CST_ERROR_MEMORY;
        CST_TRY(cst_coco_boxes_take(context, &out->boxes[k], none, 0, out->coco->images,
                                    out->coco->categories));
    }
    CST_TRY(take_part(context, pool, at, out));
    out->seconds = cst_seconds() - start;
    return CST_OK;
}

void cst_box_split_close(cst_context *context, cst_box_split *split) {
    for (int32_t k = 0; split->boxes && k < split->members; k++)
        cst_coco_boxes_free(context, split->boxes[k]);
    cst_free(context, split->boxes);
    cst_coco_free(context, split->coco);
    *split = (cst_box_split){0};
}

/* ---- rows ---- */

cst_status cst_box_rows_make(cst_context *context, cst_scope *scope, const cst_box_split *split,
                             const cst_cluster_options *options, const bool *uses,
                             const bool *images, cst_box_rows *out) {
    const cst_box_clusters *c = &out->clusters;
    *out = (cst_box_rows){.members = split->members};
    CST_TRY(cst_box_clusters_make(context, scope, split->coco,
                                  (const cst_coco_boxes *const *)split->boxes, split->members,
                                  options, uses, images, &out->clusters));
    CST_TAKE(context, scope, out->data, out->members);
    for (int32_t k = 0; k < out->members; k++)
        CST_TAKE(context, scope, out->data[k], 2 * c->rows);
    cst_box_rows_absent(out, NULL);
    return CST_OK;
}

void cst_box_rows_absent(const cst_box_rows *rows, const double *absent) {
    const cst_box_clusters *c = &rows->clusters;
    for (int32_t k = 0; k < rows->members; k++)
        for (int64_t i = 0; i < c->rows; i++) {
            rows->data[k][2 * i + 1] = absent ? (float)absent[k] : 0;
            rows->data[k][2 * i] = 1 - rows->data[k][2 * i + 1];
        }
    for (int64_t row = 0; row < c->rows; row++)
        for (int64_t i = c->first[row]; i < c->first[row + 1]; i++) {
            float *cell = rows->data[c->box[i].member] + 2 * row;
            cell[1] = (float)c->box[i].score;
            cell[0] = 1 - cell[1];
        }
}

cst_view cst_box_rows_view(const cst_box_rows *rows) {
    return (cst_view){.rows = rows->clusters.rows,
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
    cst_box_split files = {0};
    CST_SCOPE(scope);
    CST_OWN(context, scope, cst_box_split, &files);
    CST_TRY(cst_box_split_open(context, pool, split, NULL, 0, true, &files));
    *out = cst_box_split_hash(pool, &files);
    return CST_OK;
}

/* ---- folds ---- */

/* Too few images with clusters for the folds; said in terms of the files. */
static cst_status check_images(cst_context *context, const cst_box_training *t, int32_t folds) {
    int64_t images = 0;
    int64_t last = -1;
    for (int64_t i = 0; i < t->source.view.rows; i++) {
        images += t->groups[t->index[i]] != last;
        last = t->groups[t->index[i]];
    }
    if (images >= folds)
        return CST_OK;
    return cst_fail(
        context, CST_ERROR_INPUT,
        "%s: split '%s' has %lld image%s with boxes to learn from, but each of %d folds "
        "needs one; reduce folds.count or fit on more images",
        t->split->coco->path, t->name, (long long)images, images == 1 ? "" : "s", (int)folds);
}

/* Grouped folds of rows with a target, then of images; images without are dealt. */
static cst_status make_folds(cst_context *context, cst_scope *scope, cst_box_training *t,
                             int32_t folds, uint64_t seed) {
    int64_t used = t->source.view.rows;
    int32_t images = t->split->coco->images;
    CST_SCOPE(own);
    CST_NEW(context, own, int32_t, labels, used);
    CST_NEW(context, own, int64_t, groups, used);
    CST_TAKE(context, scope, t->source.folds, used);
    CST_TAKE(context, scope, t->image_folds, images);
    for (int64_t i = 0; i < used; i++) {
        labels[i] = t->targets[t->index[i]];
        groups[i] = t->groups[t->index[i]];
    }
    CST_TRY(cst_folds_grouped(context, labels, groups, used, folds, seed, t->source.folds));
    for (int32_t i = 0; i < images; i++)
        t->image_folds[i] = i % folds;
    for (int64_t i = 0; i < used; i++)
        t->image_folds[groups[i]] = t->source.folds[i];
    t->source.fold_count = folds;
    return CST_OK;
}

/* ---- opening ---- */

static cst_status make_targets(cst_context *context, cst_scope *scope, cst_box_training *t) {
    const cst_box_clusters *c = &t->rows.clusters;
    int64_t right = 0;
    int64_t used = 0;
    CST_TAKE(context, scope, t->targets, c->rows);
    CST_TAKE(context, scope, t->taken, c->rows);
    CST_TAKE(context, scope, t->groups, c->rows);
    CST_TAKE(context, scope, t->index, c->rows);
    CST_TRY(cst_cluster_targets(context, c, t->split->coco, t->options.target_iou, t->targets,
                                t->taken));
    for (int64_t i = 0; i < c->rows; i++) {
        t->groups[i] = c->image[i];
        if (t->targets[i] == CST_CLUSTER_UNUSED)
            continue;
        t->index[used++] = i;
        right += t->targets[i];
    }
    if (right == 0 || right == used)
        return cst_fail(context, CST_ERROR_INPUT,
                        "split '%s': of %lld clusters of boxes %lld match a true box; a fit needs "
                        "both clusters that match and clusters that do not",
                        t->name, (long long)used, (long long)right);
    t->source.view = cst_box_rows_view(&t->rows);
    t->source.view.rows = used;
    t->source.view.labels = t->targets;
    t->source.view.index = t->index;
    t->source.view.groups = t->groups;
    return CST_OK;
}

/* Images evenly spread over the split, with about so many boxes as are asked for. */
static cst_status take_sample(cst_context *context, cst_scope *scope, cst_box_training *t) {
    double boxes = 0;
    CST_TAKE(context, scope, t->sample, t->split->coco->images);
    for (int32_t k = 0; k < t->split->members; k++)
        boxes += (double)t->split->boxes[k]->count;
    double share = fmin((double)t->options.sample / fmax(boxes, 1), 1);
    for (int32_t i = 0; i < t->split->coco->images; i++)
        t->sample[i] = floor((i + 1) * share) > floor(i * share);
    return CST_OK;
}

static cst_status make_training(cst_context *context, cst_scope *scope, const cst_pool *pool,
                                const cst_options *options, cst_box_training *out) {
    int32_t folds = (int32_t)cst_option_integer(options, CST_OPT_FOLDS_COUNT);
    CST_TRY(cst_training_no_time(context, options, "detection"));
    CST_TRY(take_sample(context, scope, out));
    CST_TRY(cst_box_rows_make(context, scope, out->split, &out->options.clusters, NULL, out->sample,
                              &out->rows));
    CST_TRY(make_targets(context, scope, out));
    CST_TRY(check_images(context, out, folds));
    CST_TRY(make_folds(context, scope, out, folds,
                       (uint64_t)cst_option_integer(options, CST_OPT_SEED)));
    CST_TRY(cst_training_read_costs(context, scope, pool, &out->source));
    out->source.seconds_read = out->split->seconds;
    return CST_OK;
}

/* Members that cannot be used as they are: without boxes, or with boxes that are wrong. */
static int32_t find_broken(const cst_box_split *files, const cst_findings *findings, bool *broken) {
    int32_t count = 0;
    for (int32_t k = 0; k < files->members; k++)
        broken[k] = files->boxes[k]->count == 0;
    for (size_t i = 0; i < findings->count; i++)
        for (int32_t j = 0;
             strcmp(findings->list[i].kind, "boxes") == 0 && j < findings->list[i].count; j++)
            broken[findings->list[i].members[j]] = true;
    for (int32_t k = 0; k < files->members; k++)
        count += broken[k];
    return count;
}

/* Leaves out members as if they were not in the pool. */
static cst_status leave_out(cst_context *context, cst_scope *scope, const bool *broken, bool tell,
                            cst_box_split *files, cst_box_training *out, cst_pool **pool) {
    int32_t count = 0;
    int32_t left = 0;
    CST_SCOPE(own);
    CST_NEW(context, own, int32_t, list, files->members);
    out->hash = cst_box_split_hash(*pool, files);
    for (int32_t k = 0; k < files->members; k++) {
        if (broken[k]) {
            list[count++] = k;
            cst_coco_boxes_free(context, files->boxes[k]);
        } else {
            files->boxes[left++] = files->boxes[k];
        }
    }
    files->members = left;
    if (tell)
        cst_findings_tell_left_out(context, *pool, list, count);
    return cst_pool_without(context, scope, *pool, broken, pool);
}

CST_OWNED(cst_findings)

cst_status cst_box_training_open(cst_context *context, cst_scope *scope, cst_pool **pool,
                                 const char *name, const cst_options *options,
                                 cst_findings *findings, bool look, cst_box_split *files,
                                 cst_box_training *out) {
    cst_findings own = {0};
    cst_findings *found = findings ? findings : &own;
    bool checks = cst_option_flag(options, CST_OPT_CHECKS);
    CST_SCOPE(here);
    CST_OWN(context, here, cst_findings, &own);
    *out = (cst_box_training){.split = files, .name = name};
    cst_detect_options_read(options, &out->options);
    CST_TRY(cst_box_split_open(context, *pool, name, NULL, 0, true, files));
    CST_NEW(context, here, bool, broken, files->members);
    if (checks)
        CST_TRY(cst_box_check(context, *pool, name, files, found));
    if (findings && !look)
        CST_TRY(cst_findings_tell(context, findings));
    int32_t count = checks && !look ? find_broken(files, found, broken) : 0;
    if (count > 0 && count < files->members)
        CST_TRY(leave_out(context, scope, broken, findings != NULL, files, out, pool));
    cst_status status = make_training(context, scope, *pool, options, out);
    return status == CST_ERROR_INPUT && findings && cst_findings_fatal(findings)
               ? cst_findings_tell(context, findings) /* why no cluster is right */
               : status;
}

static cst_status take_folds(cst_context *context, cst_scope *scope, const cst_box_training *all,
                             cst_box_training *out) {
    out->image_folds = all->image_folds;
    out->source.fold_count = all->source.fold_count;
    CST_TAKE(context, scope, out->source.folds, out->source.view.rows);
    for (int64_t i = 0; i < out->source.view.rows; i++)
        out->source.folds[i] = out->image_folds[out->groups[out->index[i]]];
    return CST_OK;
}

cst_status cst_box_training_part(cst_context *context, cst_scope *scope,
                                 const cst_box_training *all, const cst_box_split *split,
                                 const int32_t *members, int32_t count, cst_box_training *out) {
    *out = (cst_box_training){
        .split = split, .name = all->name, .options = all->options, .sample = all->sample};
    CST_TRY(cst_box_rows_make(context, scope, split, &all->options.clusters, NULL, all->sample,
                              &out->rows));
    CST_TRY(make_targets(context, scope, out));
    CST_TRY(take_folds(context, scope, all, out));
    return cst_training_take_costs(context, scope, &all->source, members, count, &out->source);
}

cst_status cst_box_training_again(cst_context *context, cst_scope *scope,
                                  const cst_box_training *all, const cst_cluster_options *options,
                                  const bool *uses, const bool *images, uint64_t seed,
                                  cst_box_training *out) {
    *out = (cst_box_training){
        .split = all->split, .name = all->name, .options = all->options, .sample = all->sample};
    out->options.clusters = *options;
    CST_TRY(cst_box_rows_make(context, scope, all->split, options, uses,
                              images ? images : all->sample, &out->rows));
    CST_TRY(make_targets(context, scope, out));
    if (images) {
        CST_TRY(check_images(context, out, all->source.fold_count));
        CST_TRY(make_folds(context, scope, out, all->source.fold_count, seed));
    } else {
        CST_TRY(take_folds(context, scope, all, out));
    }
    return cst_training_take_costs(context, scope, &all->source, NULL, all->split->members,
                                   &out->source);
}

/* ---- weights of boxes ---- */

/* Mean squared error of a box's four edges, relative to the true box's sides. */
static double edge_error(const cst_cluster_box *box, const cst_coco_true *truth) {
    double left = (box->x - truth->x) / truth->w;
    double top = (box->y - truth->y) / truth->h;
    double right = left + (box->w - truth->w) / truth->w;
    double bottom = top + (box->h - truth->h) / truth->h;
    return (left * left + top * top + right * right + bottom * bottom) / 4;
}

/* Sums of squared errors and counts, [categories + 1][members], the last for all categories. */
static void add_errors(const cst_box_training *t, int32_t fold, double *errors, double *counts) {
    const cst_box_clusters *c = &t->rows.clusters;
    size_t members = (size_t)c->members;
    size_t all = (size_t)c->categories * members;
    for (int64_t row = 0; row < c->rows; row++) {
        if (t->taken[row] < 0 || (fold >= 0 && t->image_folds[c->image[row]] == fold))
            continue;
        const cst_coco_true *truth = &t->split->coco->box[t->taken[row]];
        if (!(truth->w > 0 && truth->h > 0))
            continue;
        for (int64_t i = c->first[row]; i < c->first[row + 1]; i++) {
            size_t k = (size_t)c->box[i].member;
            size_t at = (size_t)c->category[row] * members + k;
            double error = edge_error(&c->box[i], truth);
            errors[at] += error;
            errors[all + k] += error;
            counts[at]++;
            counts[all + k]++;
        }
    }
}

cst_status cst_box_weights_fit(cst_context *context, const cst_box_training *training, int32_t fold,
                               cst_box_weights rule, const bool *uses, const double *stack,
                               double *out) {
    /* Boxes whose error is taken for granted: a category with few of its own leans on all. */
    static const double BORROWED = 10;
    static const double SMALLEST = 1e-6; /* a thousandth of a side */
    size_t members = (size_t)training->rows.members;
    size_t categories = (size_t)training->rows.clusters.categories;
    CST_SCOPE(scope);
    CST_NEW(context, scope, double, errors, (categories + 1) * members);
    CST_NEW(context, scope, double, counts, (categories + 1) * members);
    if (rule == CST_BOX_WEIGHTS_PRECISION)
        add_errors(training, fold, errors, counts);
    for (size_t c = 0; c < categories; c++)
        for (size_t k = 0; k < members; k++) {
            size_t at = c * members + k;
            size_t all = categories * members + k;
            double mean = counts[all] > 0 ? errors[all] / counts[all] : 1;
            double error = (errors[at] + BORROWED * mean) / (counts[at] + BORROWED);
            out[at] = !uses[k]                                 ? 0
                      : rule == CST_BOX_WEIGHTS_PRECISION      ? 1 / fmax(error, SMALLEST)
                      : rule == CST_BOX_WEIGHTS_STACK && stack ? fmax(stack[k], 0)
                                                               : 1;
        }
    return CST_OK;
}

/* ---- checks ---- */

enum { IMAGES_MAX = 500 };

static const double HIT = 0.5;     /* IoU */
static const double GOOD = 0.2;    /* share of true boxes hit */
static const double FEW = 0.35;    /* of what the best member hits: other readings are tried */
static const double BAD = 0.1;     /* the same: said without another reading */
static const double FEWEST = 20.0; /* hits of the best member, or by another reading */

typedef enum reading {
    AS_THEY_ARE,
    NORMALISED,
    NORMALISED_CORNERS,
    NORMALISED_CENTRES,
    CORNERS,
    CENTRES,
    SWAPPED,
    SCALED,
    ANY_CATEGORY,
    NEXT_IMAGE,
    PREVIOUS_IMAGE,
    READINGS
} reading;

static const char *const WORDS[READINGS] = {
    [NORMALISED] = "its coordinates are fractions of the image: multiply x and width by the width "
                   "of the image, y and height by its height",
    [NORMALISED_CORNERS] = "its coordinates are corners as fractions of the image: give left, top, "
                           "width and height in pixels",
    [NORMALISED_CENTRES] = "its coordinates are centres and sizes as fractions of the image (as of "
                           "YOLO): give left, top, width and height in pixels",
    [CORNERS] = "its coordinates are corners (x1, y1, x2, y2): give left, top, width and height",
    [CENTRES] = "its coordinates are centres and sizes: give left, top, width and height",
    [SWAPPED] = "x and y are exchanged",
    [SCALED] = "its coordinates are of images of another size: scale them back",
    [ANY_CATEGORY] = "categories are ignored: its category ids are probably numbered in another "
                     "way than those of the annotations",
    [NEXT_IMAGE] = "its boxes are taken for the image before: its image ids are one too high",
    [PREVIOUS_IMAGE] = "its boxes are taken for the next image: its image ids are one too low"};

typedef struct box_check {
    const cst_pool *pool;
    const cst_box_split *files;
    double *scale; /* [members][2]: extent of the true boxes over that of the member's */
    double *hits;  /* [members][READINGS] */
    double truth;  /* boxes looked at */
} box_check;

static double extent(double most, double at, double size) {
    return at + size > most ? at + size : most;
}

static cst_coco_box read_as(const box_check *c, int32_t member, const cst_coco_box *box,
                            reading how) {
    cst_coco_box b = *box;
    const cst_coco *coco = c->files->coco;
    bool fractions = how == NORMALISED || how == NORMALISED_CORNERS || how == NORMALISED_CENTRES;
    double wide = fractions ? coco->width[box->image] : how == SCALED ? c->scale[2 * member] : 1;
    double high = fractions       ? coco->height[box->image]
                  : how == SCALED ? c->scale[2 * member + 1]
                                  : 1;
    b.x *= wide;
    b.w *= wide;
    b.y *= high;
    b.h *= high;
    if (how == CORNERS || how == NORMALISED_CORNERS) {
        b.w -= b.x;
        b.h -= b.y;
    } else if (how == CENTRES || how == NORMALISED_CENTRES) {
        b.x -= b.w / 2;
        b.y -= b.h / 2;
    } else if (how == SWAPPED) {
        b = (cst_coco_box){.x = b.y, .y = b.x, .w = b.h, .h = b.w};
    }
    b.category = box->category;
    return b;
}

/* True boxes of an image that the member hits, in one reading. */
static double hits_in(const box_check *c, int32_t member, int32_t image, reading how) {
    const cst_coco *coco = c->files->coco;
    const cst_coco_boxes *boxes = c->files->boxes[member];
    int32_t from = how == NEXT_IMAGE ? image + 1 : how == PREVIOUS_IMAGE ? image - 1 : image;
    double hits = 0;
    if (from < 0 || from >= coco->images)
        return 0;
    for (int64_t t = coco->first[image]; t < coco->first[image + 1]; t++) {
        const cst_coco_true *truth = &coco->box[t];
        bool hit = false;
        for (int64_t i = boxes->first[from]; !truth->crowd && !hit && i < boxes->first[from + 1];
             i++) {
            if (how != ANY_CATEGORY && boxes->box[i].category != truth->category)
                continue;
            cst_coco_box b = read_as(c, member, &boxes->box[i], how);
            hit = b.w > 0 && b.h > 0 &&
                  cst_box_iou(b.x, b.y, b.w, b.h, truth->x, truth->y, truth->w, truth->h) >= HIT;
        }
        hits += hit;
    }
    return hits;
}

static int32_t image_at(const box_check *c, int32_t i, int32_t count) {
    return (int32_t)((int64_t)i * c->files->coco->images / count);
}

static int32_t images_of(const box_check *c) {
    return c->files->coco->images < IMAGES_MAX ? c->files->coco->images : IMAGES_MAX;
}

static double count_hits(const box_check *c, int32_t member, reading how) {
    double hits = 0;
    int32_t images = images_of(c);
    for (int32_t i = 0; i < images; i++)
        hits += hits_in(c, member, image_at(c, i, images), how);
    return hits;
}

static cst_status count_plain(cst_context *worker, void *user, int64_t member) {
    const box_check *c = user;
    (void)worker;
    c->hits[member * READINGS] = count_hits(c, (int32_t)member, AS_THEY_ARE);
    return CST_OK;
}

static void find_scale(const box_check *c, int32_t member) {
    const cst_coco *coco = c->files->coco;
    const cst_coco_boxes *boxes = c->files->boxes[member];
    double truth[2] = {0};
    double own[2] = {0};
    for (int64_t t = 0; t < coco->count; t++) {
        truth[0] = extent(truth[0], coco->box[t].x, coco->box[t].w);
        truth[1] = extent(truth[1], coco->box[t].y, coco->box[t].h);
    }
    for (int64_t i = 0; i < boxes->count; i++) {
        own[0] = extent(own[0], boxes->box[i].x, boxes->box[i].w);
        own[1] = extent(own[1], boxes->box[i].y, boxes->box[i].h);
    }
    for (int a = 0; a < 2; a++)
        c->scale[2 * member + a] = own[a] > 0 ? truth[a] / own[a] : 1;
}

/* The reading with most hits, of at least a fifth of the true boxes; or AS_THEY_ARE. */
static reading best_reading(const box_check *c, int32_t member) {
    const double *hits = c->hits + (size_t)member * READINGS;
    reading best = AS_THEY_ARE;
    for (int how = 1; how < READINGS; how++)
        if (hits[how] > hits[best])
            best = (reading)how;
    bool clear =
        hits[best] >= FEWEST && hits[best] >= GOOD * c->truth && hits[best] > 3 * hits[AS_THEY_ARE];
    return clear ? best : AS_THEY_ARE;
}

static cst_status tell(cst_context *context, const box_check *c, const char *split, reading how,
                       const int32_t *list, int32_t count, double best, cst_findings *findings) {
    char who[256];
    const double *hits = c->hits + (size_t)list[0] * READINGS;
    bool most = 2 * count > c->files->members;
    char of[80] = "";
    (void)cst_names_of(c->pool, list, count, who, sizeof who);
    if (split)
        (void)cst_snprintf(of, sizeof of, " of split '%.60s'", split);
    if (how == AS_THEY_ARE)
        return cst_findings_add(
            context, findings, "boxes", false, list, count,
            "%s hit%s %.0f of %.0f true boxes%s (the best member %.0f): check "
            "coordinates (left, top, width, height in pixels), category ids and image ids",
            who, count == 1 ? "s" : "", hits[0], c->truth, of, best);
    return cst_findings_add(context, findings, "boxes", most, list, count,
                            "%s hit%s %.0f of %.0f true boxes%s, but %.0f if %s", who,
                            count == 1 ? "s" : "", hits[0], c->truth, of, hits[how], WORDS[how]);
}

/* Share of the true boxes whose category the member has boxes of. */
static double share_of_own(const box_check *c, int32_t member) {
    const cst_coco *coco = c->files->coco;
    const cst_coco_boxes *boxes = c->files->boxes[member];
    double mine = 0;
    for (int32_t k = 0; k < coco->categories; k++) {
        bool own = false;
        for (int64_t i = 0; !own && i < boxes->count; i++)
            own = boxes->box[i].category == k;
        for (int64_t t = 0; own && t < coco->count; t++)
            mine += coco->box[t].category == k;
    }
    return mine / (double)coco->count;
}

/* Whether other readings of a member are tried. best: hits of the best member as it is. */
static bool in_question(const box_check *c, int32_t member, double best) {
    double hits = c->hits[(size_t)member * READINGS];
    double few = best >= GOOD * c->truth ? FEW * best : GOOD * c->truth;
    return c->files->boxes[member]->count > 0 && hits <= few;
}

static cst_status look(cst_context *context, const box_check *c, const char *split, int32_t *list,
                       cst_findings *findings) {
    int32_t members = c->files->members;
    double best = 0;
    for (int32_t k = 0; k < members; k++)
        best = fmax(best, c->hits[(size_t)k * READINGS]);
    bool some = best >= FEWEST && best >= GOOD * c->truth;
    for (int32_t k = 0; k < members; k++) {
        if (!in_question(c, k, best))
            continue;
        find_scale(c, k);
        for (int how = 1; how < READINGS; how++)
            c->hits[(size_t)k * READINGS + (size_t)how] = count_hits(c, k, (reading)how);
    }
    for (int how = 0; how < READINGS; how++) {
        int32_t count = 0;
        for (int32_t k = 0; k < members; k++) {
            double hits = c->hits[(size_t)k * READINGS];
            if (in_question(c, k, best) && (int)best_reading(c, k) == how &&
                (how != AS_THEY_ARE ||
                 (some && hits <= BAD * best && hits <= BAD * best * share_of_own(c, k))))
                list[count++] = k;
        }
        if (count > 0)
            CST_TRY(tell(context, c, split, (reading)how, list, count, best, findings));
    }
    return CST_OK;
}

/* ---- copies ---- */

/* Whether every true box of an image is one of the member's, edge by edge. */
static bool holds_truth(const box_check *c, int32_t member, int32_t image) {
    const cst_coco *coco = c->files->coco;
    const cst_coco_boxes *boxes = c->files->boxes[member];
    for (int64_t t = coco->first[image]; t < coco->first[image + 1]; t++) {
        const cst_coco_true *truth = &coco->box[t];
        bool found = truth->crowd;
        for (int64_t i = boxes->first[image]; !found && i < boxes->first[image + 1]; i++) {
            const cst_coco_box *b = &boxes->box[i];
            found = b->category == truth->category &&
                    cst_box_iou(b->x, b->y, b->w, b->h, truth->x, truth->y, truth->w, truth->h) >
                        1 - 1e-6;
        }
        if (!found)
            return false;
    }
    return true;
}

static bool same_boxes(const cst_coco_boxes *a, const cst_coco_boxes *b) {
    for (int64_t i = 0; a->count == b->count && i < a->count; i++) {
        const cst_coco_box *x = &a->box[i];
        const cst_coco_box *y = &b->box[i];
        const double off[] = {x->x - y->x, x->y - y->y, x->w - y->w, x->h - y->h,
                              x->score - y->score};
        for (size_t d = 0; d < sizeof off / sizeof off[0]; d++)
            if (fabs(off[d]) > 0)
                return false;
        if (x->image != y->image || x->category != y->category)
            return false;
    }
    return a->count == b->count && a->count > 0;
}

static cst_status check_copies(cst_context *context, const box_check *c, int32_t *list,
                               cst_findings *findings) {
    int32_t images = images_of(c);
    for (int32_t k = 0; k < c->files->members; k++) {
        int32_t count = 0;
        bool earlier = false;
        char who[256];
        bool truth = c->hits[(size_t)k * READINGS] >= c->truth;
        for (int32_t i = 0; truth && i < images; i++)
            truth = holds_truth(c, k, image_at(c, i, images));
        if (truth)
            CST_TRY(cst_findings_add(context, findings, "leak", true, &k, 1,
                                     "%s has every one of %.0f true boxes, edge by edge: it "
                                     "is the annotations, not a prediction; remove it from the "
                                     "pool",
                                     cst_names_of(c->pool, &k, 1, who, sizeof who), c->truth));
        for (int32_t j = 0; j < c->files->members; j++)
            if (j == k || same_boxes(c->files->boxes[k], c->files->boxes[j])) {
                earlier = earlier || j < k;
                list[count++] = j;
            }
        if (count > 1 && !earlier)
            CST_TRY(
                cst_findings_add(context, findings, "identical", false, list, count,
                                 "%s are the same boxes under %d names: was one file saved twice?",
                                 cst_names_of(c->pool, list, count, who, sizeof who), (int)count));
    }
    return CST_OK;
}

cst_status cst_box_check(cst_context *context, const cst_pool *pool, const char *split,
                         const cst_box_split *files, cst_findings *findings) {
    box_check c = {.pool = pool, .files = files};
    CST_SCOPE(scope);
    CST_TAKE(context, scope, c.scale, 2 * files->members);
    CST_TAKE(context, scope, c.hits, files->members * READINGS);
    CST_NEW(context, scope, int32_t, list, files->members);
    int32_t images = images_of(&c);
    for (int32_t i = 0; i < images; i++) {
        int32_t image = image_at(&c, i, images);
        for (int64_t t = files->coco->first[image]; t < files->coco->first[image + 1]; t++)
            c.truth += !files->coco->box[t].crowd;
    }
    CST_TRY(cst_parallel_for(context, files->members, count_plain, &c));
    if (c.truth < FEWEST)
        return CST_OK;
    CST_TRY(look(context, &c, split, list, findings));
    return check_copies(context, &c, list, findings);
}

cst_status cst_box_check_scored(cst_context *context, const cst_pool *pool, const char *split,
                                const cst_box_split *files) {
    cst_findings findings = {0};
    CST_SCOPE(scope);
    CST_OWN(context, scope, cst_findings, &findings);
    CST_TRY(cst_box_check(context, pool, split, files, &findings));
    cst_check_tell(context, NULL, &findings);
    return CST_OK;
}

/* ---- agreement ---- */

/* The others' boxes of scores that count, as true boxes that member `k` of `members` may hit. */
static cst_status others(cst_context *context, cst_scope *scope, const cst_box_split *files,
                         const int32_t *members, int32_t count, int32_t k, const double *least,
                         box_check *c) {
    int64_t most = 0;
    const cst_coco *coco = files->coco;
    CST_NEW(context, scope, cst_coco, truth, 1);
    CST_NEW(context, scope, cst_box_split, split, 1);
    for (int32_t j = 0; j < count; j++)
        most += j == k ? 0 : files->boxes[members[j]]->count;
    *truth = *coco;
    truth->count = 0;
    CST_TAKE(context, scope, truth->box, most);
    CST_TAKE(context, scope, truth->first, coco->images + 1);
    for (int32_t i = 0; i < coco->images; i++) {
        for (int32_t j = 0; j < count; j++) {
            const cst_coco_boxes *boxes = files->boxes[members[j]];
            for (int64_t b = boxes->first[i]; j != k && b < boxes->first[i + 1]; b++) {
                const cst_coco_box *box = &boxes->box[b];
                if (box->score >= least[j])
                    truth->box[truth->count++] = (cst_coco_true){.x = box->x,
                                                                 .y = box->y,
                                                                 .w = box->w,
                                                                 .h = box->h,
                                                                 .image = i,
                                                                 .category = box->category};
            }
        }
        truth->first[i + 1] = truth->count;
    }
    *split = *files;
    split->coco = truth;
    c->files = split;
    CST_TAKE(context, scope, c->scale, 2 * files->members);
    CST_TAKE(context, scope, c->hits, files->members * READINGS);
    int32_t images = images_of(c);
    for (int32_t i = 0; i < images; i++)
        c->truth += (double)(truth->first[image_at(c, i, images) + 1] -
                             truth->first[image_at(c, i, images)]);
    return count_plain(context, c, members[k]);
}

/* The score from which on a member has as many boxes as there are true ones. */
static cst_status least_score(cst_context *context, const cst_coco_boxes *boxes, int64_t wanted,
                              double *out) {
    CST_SCOPE(scope);
    CST_NEW(context, scope, cst_ranked, list, boxes->count);
    for (int64_t i = 0; i < boxes->count; i++)
        list[i] = (cst_ranked){boxes->box[i].score, i};
    CST_TRY(cst_sort(context, list, (size_t)boxes->count, sizeof *list, cst_by_score));
    *out = boxes->count > 0 ? list[(wanted < boxes->count ? wanted : boxes->count) - 1].score : 0;
    return CST_OK;
}

cst_status cst_box_agreement_make(cst_context *context, cst_scope *scope,
                                  const cst_box_split *files, const int32_t *members, int32_t count,
                                  cst_box_agreement **out) {
    *out = NULL;
    if (count < 2 || (double)files->coco->count < FEWEST)
        return CST_OK;
    CST_NEW(context, scope, cst_box_agreement, made, 1);
    CST_TAKE(context, scope, made->least, count);
    CST_TAKE(context, scope, made->share, count);
    made->members = count;
    for (int32_t j = 0; j < count; j++)
        CST_TRY(
            least_score(context, files->boxes[members[j]], files->coco->count, &made->least[j]));
    for (int32_t k = 0; k < count; k++) {
        box_check c = {0};
        CST_SCOPE(own);
        CST_TRY(others(context, own, files, members, count, k, made->least, &c));
        made->share[k] = c.truth >= FEWEST ? c.hits[(size_t)members[k] * READINGS] / c.truth : 0;
    }
    *out = made;
    return CST_OK;
}

static void tell_agreement(cst_context *context, const box_check *c, const char *split,
                           int32_t member, double fitted) {
    char who[256];
    const double *hits = c->hits + (size_t)member * READINGS;
    reading how = best_reading(c, member);
    (void)cst_names_of(c->pool, &member, 1, who, sizeof who);
    if (how != AS_THEY_ARE)
        cst_notice(context,
                   "%s hits %.0f of %.0f boxes that the other members are sure of in split '%.60s' "
                   "(%.0f%% in the fit), but %.0f if %s",
                   who, hits[0], c->truth, split, 100 * fitted, hits[how], WORDS[how]);
    else if (hits[0] <= BAD * fitted * c->truth)
        cst_notice(context,
                   "%s hits %.0f of %.0f boxes that the other members are sure of in split '%.60s' "
                   "(%.0f%% in the fit): check coordinates (left, top, width, height in pixels), "
                   "category ids and image ids, or predict without it (--missing allow)",
                   who, hits[0], c->truth, split, 100 * fitted);
}

cst_status cst_box_check_agreement(cst_context *context, const cst_pool *pool, const char *split,
                                   const cst_box_agreement *fitted, const cst_box_split *files,
                                   const int32_t *members) {
    for (int32_t k = 0; k < fitted->members; k++) {
        box_check c = {.pool = pool};
        CST_SCOPE(scope);
        CST_TRY(others(context, scope, files, members, fitted->members, k, fitted->least, &c));
        double hits = c.hits[(size_t)members[k] * READINGS];
        double expected = fitted->share[k] * c.truth;
        if (expected < FEWEST || hits > FEW * expected || files->boxes[members[k]]->count == 0)
            continue;
        find_scale(&c, members[k]);
        for (int how = 1; how < READINGS; how++)
            c.hits[(size_t)members[k] * READINGS + (size_t)how] =
                count_hits(&c, members[k], (reading)how);
        tell_agreement(context, &c, split, members[k], fitted->share[k]);
    }
    return CST_OK;
}
