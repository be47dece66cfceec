/* Scores of files and of label maps against masks, without a model. docs/segmentation.md. */
#include "data/readers/cases.h"
#include "tasks/segmentation/document.h"
#include "tasks/segmentation/segmentation.h"
#include "tasks/segmentation/tally.h"

#include <inttypes.h>
#include <string.h>

static const char *const MAPS[] = {".png", ".npy", ".npz", NULL};

/* Whether the file, or the folder's first, holds labels: a PNG or whole numbers. */
static cst_status find_kind(cst_context *context, const char *path, uint64_t zip_limit,
                            bool *labels) {
    const char *first = path;
    bool folder = cst_is_folder(path);
    cst_npy *npy;
    CST_SCOPE(scope);
    *labels = false;
    if (folder) {
        cst_case_files files;
        CST_TRY(cst_case_files_list(context, scope, path, MAPS, &files));
        first = files.paths[0];
    }
    if (cst_is_png(first)) {
        *labels = true;
        return CST_OK;
    }
    cst_status status = cst_npy_open(context, scope, &npy, first, zip_limit);
    if (status != CST_OK) /* an archive of several arrays: the reader of maps says what is wrong */
        return folder ? CST_OK : status;
    *labels = npy->kind == CST_NPY_INT || npy->kind == CST_NPY_UINT;
    return CST_OK;
}

/* A pool of one split "oof" with masks and no members, of which only the sizes are looked at. */
static cst_status open_masks(cst_context *context, const char *path, const cst_pool_config *config,
                             bool predicted, cst_pool **out) {
    cst_manifest *manifest = NULL;
    int32_t split = 0;
    cst_status status = cst_manifest_create(context, &manifest, path);
    CST_THEN(cst_manifest_add_split(context, manifest, "oof", &split));
    if (status == CST_OK) {
        manifest->splits[split].labels = cst_take_text(context, &manifest->scope, path);
        status = manifest->splits[split].labels ? CST_OK : CST_ERROR_MEMORY;
    }
    if (status != CST_OK) {
        cst_manifest_free(context, manifest);
        return status;
    }
    manifest->task = CST_TASK_SEGMENTATION;
    status = cst_pool_create(context, out, manifest, config);
    if (status == CST_OK && predicted)
        (*out)->ignore = CST_NOTHING_IGNORED;
    if (status == CST_OK && (*out)->classes < 2)
        status = cst_fail(context, CST_ERROR_ARGUMENT,
                          "%s: scoring label maps needs the number of classes (--classes)", path);
    return status == CST_OK ? cst_masks_survey(context, *out, split) : status;
}

/* Predicted maps must be of the cases of the masks. */
static cst_status check_cases(cst_context *context, const cst_cases *masks, const cst_cases *maps) {
    if (masks->count != maps->count)
        return cst_fail(context, CST_ERROR_MISMATCH,
                        "%s: has %" PRId64 " cases, but %s has %" PRId64, maps->where, maps->count,
                        masks->where, masks->count);
    for (int64_t n = 0; n < masks->count; n++) {
        char name[CST_CASE_CHARS];
        if (masks->names && maps->names &&
            strcmp(cst_strings_at(masks->names, n), cst_strings_at(maps->names, n)) != 0)
            return cst_fail(context, CST_ERROR_MISMATCH, "%s: has no map for case '%s' of %s",
                            maps->where, cst_strings_at(masks->names, n), masks->where);
        if (memcmp(masks->shape[n], maps->shape[n], sizeof masks->shape[n]) != 0)
            return cst_fail(context, CST_ERROR_MISMATCH,
                            "%s: case %s is %" PRId64 " x %" PRId64 " pixels, but %" PRId64
                            " x %" PRId64 " in %s; maps and masks must have the same size",
                            maps->where, cst_case_name(masks, n, name), maps->shape[n][1],
                            maps->shape[n][2], masks->shape[n][1], masks->shape[n][2],
                            masks->where);
    }
    return CST_OK;
}

static cst_status score_labels(cst_context *context, const char *path,
                               const cst_pool_config *config, double boundary, int32_t resamples,
                               uint64_t seed, cst_report **report) {
    cst_pool *masks = NULL;
    cst_pool *maps = NULL;
    cst_status status = open_masks(context, config->labels, config, false, &masks);
    CST_THEN(open_masks(context, path, config, true, &maps));
    CST_THEN(check_cases(context, cst_pool_cases(masks, "oof"), cst_pool_cases(maps, "oof")));
    CST_THEN(cst_pool_describe(context, masks, 0, NULL, 0));
    CST_THEN(cst_pool_describe(context, maps, 0, NULL, 0));
    CST_THEN(cst_segmentation_score_labels(context, &cst_segmentation_ops, masks,
                                           cst_pool_labels(maps, "oof"), boundary, resamples, seed,
                                           report));
    cst_pool_free(context, masks);
    cst_pool_free(context, maps);
    return status;
}

cst_status cst_segmentation_evaluate_file(cst_context *context, const char *path,
                                          const cst_pool_config *config_given, double boundary,
                                          int64_t resamples_given, uint64_t seed,
                                          cst_report **report) {
    bool labels = false;
    cst_pool *pool = NULL;
    CST_CLEAR(report);
    CST_ENTER(context);
    CST_STRUCT(context, cst_pool_config, config, config_given);
    CST_COUNT(context, resamples, resamples_given);
    CST_SEED(context, seed);
    CST_RESAMPLES(context, resamples);
    if (!path || !config || !config->labels || !report || !(boundary >= 0) || boundary > 1e4)
        return cst_fail(
            context, CST_ERROR_ARGUMENT,
            "cst_segmentation_evaluate_file: maps, masks, boundary width and report are required");
    cst_notices_clear(context);
    cst_pool_config own = *config;
    own.task_given = 1;
    own.task = CST_TASK_SEGMENTATION;
    cst_status status = find_kind(context, path, own.zip_limit, &labels);
    if (status == CST_OK && labels)
        return cst_why(context,
                       score_labels(context, path, &own, boundary, resamples, seed, report));
    CST_THEN(cst_pool_open_files(context, &pool, &path, 1, &own));
    CST_THEN(cst_pool_load(context, pool, "oof"));
    CST_THEN(cst_segmentation_score_member(context, &cst_segmentation_ops, pool, "oof", 0, boundary,
                                           resamples, seed, report));
    cst_pool_free(context, pool);
    return cst_why(context, status);
}

/* Labels as the tally takes them, checked: -1 for those that do not count. */
static cst_status take_labels(cst_context *context, const int32_t *predicted, const int32_t *labels,
                              size_t pixels, int64_t width, int32_t classes, int32_t ignore,
                              int32_t *out) {
    for (size_t i = 0; i < pixels; i++) {
        out[i] = labels[i] == ignore ? -1 : labels[i];
        bool bad_label = out[i] < -1 || out[i] >= classes || (out[i] == -1 && ignore != labels[i]);
        bool bad_guess = out[i] >= 0 && (predicted[i] < 0 || predicted[i] >= classes);
        if (bad_label || bad_guess)
            return cst_fail(context, CST_ERROR_INPUT,
                            "pixel %zu (column %zu of a row) is %s %d, but there are %d classes; "
                            "only labels may be the ignored label (%d)",
                            i, i % (size_t)width, bad_label ? "label" : "predicted",
                            bad_label ? labels[i] : predicted[i], classes, ignore);
    }
    return CST_OK;
}

typedef struct label_maps {
    const int32_t *predicted;
    const int32_t *labels;
    int64_t images;
    int64_t height;
    int64_t width;
    int32_t classes;
    int32_t ignore;
    double boundary;
} label_maps;

static cst_status tally_maps(cst_context *context, const label_maps *m,
                             cst_segmentation_scores *out, int64_t *confusion) {
    int64_t size = m->height * m->width;
    int64_t pixels = m->images * size;
    double *tally;
    int32_t *inside;
    CST_SCOPE(scope);
    CST_TAKE(context, scope, tally, cst_tally_width(m->classes));
    CST_TAKE(context, scope, inside, pixels);
    CST_TRY(take_labels(context, m->predicted, m->labels, (size_t)pixels, m->width, m->classes,
                        m->ignore, inside));
    if (confusion)
        memset(confusion, 0, (size_t)m->classes * (size_t)m->classes * sizeof *confusion);
    cst_tally_labels(tally, m->classes, m->predicted, inside, pixels, confusion);
    int64_t distance = cst_boundary_distance(
        m->boundary > 0 ? m->boundary : CST_SEGMENTATION_BOUNDARY, m->height, m->width);
    for (int64_t n = 0; n < m->images; n++)
        CST_TRY(cst_tally_boundary(context, tally, m->classes, m->predicted + n * size,
                                   inside + n * size, m->height, m->width, distance));
    cst_tally_scores(tally, m->classes, false, out);
    return CST_OK;
}

cst_status cst_segmentation_evaluate_labels(cst_context *context, const int32_t *predicted,
                                            const int32_t *labels, int64_t images, int64_t height,
                                            int64_t width, int64_t classes_given, int32_t ignore,
                                            double boundary, cst_segmentation_scores *out,
                                            int64_t *confusion) {
    size_t pixels = 0;
    CST_ENTER(context);
    CST_COUNT(context, classes, classes_given);
    if (!predicted || !labels || !out || images < 1 || height < 1 || width < 1 || classes < 1 ||
        !(boundary >= 0) || boundary > 1e6)
        return cst_fail(
            context, CST_ERROR_ARGUMENT,
            "cst_segmentation_evaluate_labels: label maps, their size and scores are required");
    if (!cst_size_mul((size_t)images, (size_t)height, &pixels) ||
        !cst_size_mul(pixels, (size_t)width, &pixels) || pixels >= CST_ARRAY_BYTES / sizeof *labels)
        return cst_fail(context, CST_ERROR_LIMIT, "too many pixels");
    const label_maps maps = {predicted, labels, images, height, width, classes, ignore, boundary};
    return cst_why(context, tally_maps(context, &maps, out, confusion));
}
