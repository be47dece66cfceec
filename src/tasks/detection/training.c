/*
 * What a fit of detections works on: targets of the clusters, folds of whole images, costs; and the
 * weights of the members' boxes in fused ones. Stage S0. docs/detection.md#the-stack.
 */
#include "tasks/detection/splits.h"

#include <corestack/folds.h>
#include <math.h>
#include <string.h>

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

/* Grouped folds of the rows with a target, and from them each image's; images without such a row
 * are dealt in turn. */
static cst_status make_folds(cst_context *context, cst_box_training *t, int32_t folds,
                             uint64_t seed) {
    size_t used = (size_t)t->source.view.rows;
    int32_t *labels = cst_alloc(context, used, sizeof *labels);
    int64_t *groups = cst_alloc(context, used, sizeof *groups);
    t->source.folds = cst_take(context, &t->source.scope, used, sizeof *t->source.folds);
    t->image_folds = cst_alloc(context, (size_t)t->split->coco->images, sizeof *t->image_folds);
    cst_status status =
        labels && groups && t->source.folds && t->image_folds ? CST_OK : CST_ERROR_MEMORY;
    for (size_t i = 0; status == CST_OK && i < used; i++) {
        labels[i] = t->targets[t->index[i]];
        groups[i] = t->groups[t->index[i]];
    }
    CST_THEN(
        cst_folds_grouped(context, labels, groups, (int64_t)used, folds, seed, t->source.folds));
    for (int32_t i = 0; status == CST_OK && i < t->split->coco->images; i++)
        t->image_folds[i] = i % folds;
    for (size_t i = 0; status == CST_OK && i < used; i++)
        t->image_folds[groups[i]] = t->source.folds[i];
    t->source.fold_count = folds;
    cst_free(context, labels);
    cst_free(context, groups);
    return status;
}

/* ---- costs ---- */

static cst_status take_costs(cst_context *context, const cst_pool *pool, cst_training *source) {
    size_t members = (size_t)cst_pool_members(pool);
    cst_status status = cst_training_make_costs(context, members, source);
    if (status == CST_OK)
        cst_training_read_costs(pool, members, source);
    return status;
}

/* ---- opening ---- */

static cst_status make_targets(cst_context *context, cst_box_training *t) {
    const cst_box_clusters *c = t->rows.clusters;
    size_t rows = (size_t)c->rows;
    int64_t right = 0;
    int64_t used = 0;
    t->targets = cst_alloc(context, rows, sizeof *t->targets);
    t->taken = cst_alloc(context, rows, sizeof *t->taken);
    t->groups = cst_alloc(context, rows, sizeof *t->groups);
    t->index = cst_alloc(context, rows, sizeof *t->index);
    if (!t->targets || !t->taken || !t->groups || !t->index)
        return CST_ERROR_MEMORY;
    cst_status status = cst_cluster_targets(context, c, t->split->coco, NULL, t->options.target_iou,
                                            t->targets, t->taken);
    for (int64_t i = 0; status == CST_OK && i < c->rows; i++) {
        t->groups[i] = c->image[i];
        if (t->targets[i] == CST_CLUSTER_UNUSED)
            continue;
        t->index[used++] = i;
        right += t->targets[i];
    }
    if (status == CST_OK && (right == 0 || right == used))
        return cst_fail(context, CST_ERROR_INPUT,
                        "split '%s': of %lld clusters of boxes %lld match a true box; a fit needs "
                        "both clusters that match and clusters that do not",
                        t->name, (long long)used, (long long)right);
    t->source.view = cst_box_rows_view(&t->rows);
    t->source.view.rows = used;
    t->source.view.labels = t->targets;
    t->source.view.index = t->index;
    t->source.view.groups = t->groups;
    return status;
}

cst_status cst_box_training_open(cst_context *context, const cst_pool *pool, const char *name,
                                 const cst_box_split *split, const cst_detect_options *options,
                                 int32_t folds, uint64_t seed, cst_box_training *out) {
    *out = (cst_box_training){.split = split, .name = name, .options = *options};
    cst_status status =
        cst_box_rows_make(context, split, &options->clusters, NULL, NULL, &out->rows);
    CST_THEN(make_targets(context, out));
    CST_THEN(check_images(context, out, folds));
    CST_THEN(make_folds(context, out, folds, seed));
    CST_THEN(take_costs(context, pool, &out->source));
    out->source.seconds_read = split->seconds;
    if (status != CST_OK)
        cst_box_training_close(context, out);
    return status;
}

/* Folds of the images as they are in `all`. */
static cst_status take_folds(cst_context *context, const cst_box_training *all,
                             cst_box_training *t) {
    size_t images = (size_t)t->split->coco->images;
    CST_TAKE(context, &t->source.scope, t->source.folds, t->source.view.rows);
    t->image_folds = cst_alloc(context, images, sizeof *t->image_folds);
    if (!t->image_folds)
        return CST_ERROR_MEMORY;
    memcpy(t->image_folds, all->image_folds, images * sizeof *t->image_folds);
    for (int64_t i = 0; i < t->source.view.rows; i++)
        t->source.folds[i] = t->image_folds[t->groups[t->index[i]]];
    t->source.fold_count = all->source.fold_count;
    return CST_OK;
}

/* Costs and tags of members [count]; NULL: all. */
static cst_status take_members(cst_context *context, const cst_training *all,
                               const int32_t *members, int32_t count, cst_training *out) {
    cst_status status = cst_training_make_costs(context, (size_t)count, out);
    for (int32_t j = 0; status == CST_OK && j < count; j++)
        cst_training_copy_costs(all, members ? members[j] : j, j, out);
    return status;
}

/* Clusters of a split by the options and folds of `all`. */
static cst_status remake(cst_context *context, const cst_box_training *all,
                         const cst_box_split *split, const bool *uses, const int32_t *members,
                         int32_t count, cst_box_training *out) {
    *out = (cst_box_training){.split = split, .name = all->name, .options = all->options};
    cst_status status =
        cst_box_rows_make(context, split, &all->options.clusters, uses, NULL, &out->rows);
    CST_THEN(make_targets(context, out));
    CST_THEN(take_folds(context, all, out));
    CST_THEN(take_members(context, &all->source, members, count, &out->source));
    if (status != CST_OK)
        cst_box_training_close(context, out);
    return status;
}

cst_status cst_box_training_narrow(cst_context *context, const cst_box_training *all,
                                   const bool *uses, cst_box_training *out) {
    return remake(context, all, all->split, uses, NULL, all->source.view.members, out);
}

cst_status cst_box_training_members(cst_context *context, const cst_box_training *all,
                                    const cst_box_split *split, const int32_t *members,
                                    int32_t count, cst_box_training *out) {
    return remake(context, all, split, NULL, members, count, out);
}

void cst_box_training_close(cst_context *context, cst_box_training *training) {
    cst_training_close(context, &training->source);
    cst_box_rows_free(context, &training->rows);
    cst_free(context, training->targets);
    cst_free(context, training->taken);
    cst_free(context, training->groups);
    cst_free(context, training->index);
    cst_free(context, training->image_folds);
    *training = (cst_box_training){0};
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
    const cst_box_clusters *c = t->rows.clusters;
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
    size_t categories = (size_t)training->rows.clusters->categories;
    double *errors = cst_alloc(context, (categories + 1) * members, sizeof *errors);
    double *counts = cst_alloc(context, (categories + 1) * members, sizeof *counts);
    cst_status status = errors && counts ? CST_OK : CST_ERROR_MEMORY;
    if (status == CST_OK && rule == CST_BOX_WEIGHTS_PRECISION)
        add_errors(training, fold, errors, counts);
    for (size_t c = 0; status == CST_OK && c < categories; c++)
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
    cst_free(context, errors);
    cst_free(context, counts);
    return status;
}
