/*
 * Masks of a segmentation: their sizes settle the cases of a split, their pixels are its labels.
 * After the cases, before the maps of members. docs/segmentation.md#files.
 */
#include "data/pool/spatial.h"
#include "data/readers/cases.h"

#include <string.h>

static const char *const MASKS[] = {".png", ".npy", ".npz", NULL};

/* Checks the labels of a case and puts -1 for those that do not count. */
static cst_status take_labels(cst_context *context, const cst_pool *pool, const char *path,
                              const cst_cases *cases, int64_t index, int32_t *labels) {
    int64_t pixels = cases->first[index + 1] - cases->first[index];
    char name[CST_CASE_CHARS];
    char place[CST_WHERE_CHARS];
    for (int64_t i = 0; i < pixels; i++) {
        cst_trim_item(context, i);
        if (labels[i] == pool->ignore) {
            labels[i] = -1;
            continue;
        }
        if (labels[i] >= 0 && labels[i] < pool->classes)
            continue;
        const char *name_of = cst_case_name(cases, index, name);
        (void)cst_pixel_in_case(cases->shape[index], i, place);
        if (pool->ignore == CST_NOTHING_IGNORED)
            return cst_fail(context, CST_ERROR_INPUT,
                            "%s: case %s, %s is %d; predicted labels must be 0 to %d (%d classes)",
                            path, name_of, place, labels[i], pool->classes - 1, pool->classes);
        return cst_fail(context, CST_ERROR_INPUT,
                        "%s: case %s, %s is label %d; labels must be 0 to %d (%d classes), or %d "
                        "for pixels to ignore; correct the mask, the classes or \"ignore\"",
                        path, name_of, place, labels[i], pool->classes - 1, pool->classes,
                        pool->ignore);
    }
    return CST_OK;
}

typedef struct mask_job {
    const cst_pool *pool;
    const cst_case_files *files;
    const cst_cases *cases;
    int32_t *labels;
} mask_job;

static cst_status read_mask(cst_context *worker, void *user, int64_t task) {
    const mask_job *job = user;
    const char *path = job->files->paths[task];
    int64_t first = job->cases->first[task];
    cst_status status = cst_manifest_confine(worker, job->pool->manifest, path);
    CST_THEN(cst_mask_read(worker, path, job->pool->zip_limit, job->cases->shape[task],
                           job->labels + first));
    return status == CST_OK
               ? take_labels(worker, job->pool, path, job->cases, task, job->labels + first)
               : status;
}

/* The masks of a split: a file for each case, or one array. */
typedef struct mask_files {
    cst_case_files files;
    cst_npy *npy; /* NULL for a folder */
} mask_files;

static void close_masks(cst_context *context, mask_files *masks) {
    cst_case_files_clear(context, &masks->files);
    cst_npy_close(context, masks->npy);
}

/* The cases found become those of the split. Where masks were surveyed before, they must still be
 * the same. */
static cst_status settle(cst_context *context, cst_pool *pool, int32_t split, const char *path,
                         int64_t count, const int64_t (*shapes)[3], bool volumes,
                         cst_strings **names) {
    const cst_cases *cases = pool->splits[split].cases;
    if (!cases)
        return cst_cases_adopt(context, pool, split, path, count, shapes, volumes, names);
    bool same = count == cases->count && !*names == !cases->names;
    for (int64_t i = 0; same && i < count; i++)
        same = memcmp(shapes[i], cases->shape[i], sizeof shapes[i]) == 0 &&
               (!*names || strcmp(cst_strings_at(*names, i), cst_strings_at(cases->names, i)) == 0);
    if (same)
        return CST_OK;
    return cst_fail(context, CST_ERROR_IO,
                    "%s: its masks have changed since they were first opened; run the command "
                    "again when nothing writes to them",
                    path);
}

/* One mask for each case: all of them are looked at. */
static cst_status open_folder(cst_context *context, cst_pool *pool, int32_t split, const char *path,
                              cst_case_files *files) {
    int64_t(*shapes)[3] = NULL;
    bool volumes = false;
    cst_status status = cst_case_files_list(context, path, MASKS, files);
    if (status == CST_OK) {
        shapes = cst_alloc(context, (size_t)files->count, sizeof *shapes);
        status = shapes ? CST_OK : CST_ERROR_MEMORY;
    }
    for (int64_t i = 0; status == CST_OK && i < files->count; i++) {
        int axes = 0;
        status = cst_manifest_confine(context, pool->manifest, files->paths[i]);
        CST_THEN(cst_mask_shape(context, files->paths[i], pool->zip_limit, shapes[i], &axes));
        volumes = volumes || axes == 3;
    }
    CST_THEN(settle(context, pool, split, path, files->count, (const int64_t(*)[3])shapes, volumes,
                    &files->names));
    cst_free(context, shapes);
    return status;
}

/* Shapes of all cases of an array [cases, (depth,) height, width]; *out is the caller's. */
static cst_status array_shapes(cst_context *context, const cst_npy *npy, int64_t (**out)[3]) {
    bool volumes = npy->dims == 4;
    *out = NULL;
    cst_status status = cst_cases_check_axes(context, npy);
    if (status != CST_OK)
        return status;
    int64_t(*shapes)[3] = cst_alloc(context, (size_t)npy->shape[0], sizeof *shapes);
    *out = shapes;
    for (int64_t i = 0; shapes && i < npy->shape[0]; i++) {
        shapes[i][0] = volumes ? npy->shape[1] : 1;
        shapes[i][1] = npy->shape[npy->dims - 2];
        shapes[i][2] = npy->shape[npy->dims - 1];
    }
    return shapes ? CST_OK : CST_ERROR_MEMORY;
}

/* One array for all cases. */
static cst_status open_array(cst_context *context, cst_pool *pool, int32_t split,
                             const cst_manifest_split *spec, cst_npy **out) {
    int64_t(*shapes)[3] = NULL;
    cst_strings *names = NULL;
    char shape[CST_NPY_SHAPE_CHARS];
    if (cst_is_png(spec->labels))
        return cst_fail(context, CST_ERROR_INPUT,
                        "%s: is a single image; label maps must be a folder with one file per "
                        "case, or an array [cases, height, width]",
                        spec->labels);
    cst_status status = cst_npy_open(context, out, spec->labels, pool->zip_limit);
    if (status != CST_OK)
        return status;
    const cst_npy *npy = *out;
    if (npy->dims != 3 && npy->dims != 4)
        status = cst_fail(context, CST_ERROR_INPUT,
                          "%s: has shape %s; masks must be [cases, height, width] or [cases, "
                          "depth, height, width], or a folder with one file per case",
                          spec->labels, cst_npy_shape_text(npy, shape));
    CST_THEN(array_shapes(context, npy, &shapes));
    CST_THEN(cst_cases_read_names(context, pool, spec, spec->labels, npy->shape[0], &names));
    CST_THEN(settle(context, pool, split, spec->labels, npy->shape[0], (const int64_t(*)[3])shapes,
                    npy->dims == 4, &names));
    cst_strings_free(context, names);
    cst_free(context, shapes);
    return status;
}

/* Opens masks as far as their sizes, which the split has from here on. */
static cst_status open_masks(cst_context *context, cst_pool *pool, int32_t split,
                             mask_files *masks) {
    const cst_manifest_split *spec = &pool->manifest->splits[split];
    *masks = (mask_files){0};
    cst_status status = cst_manifest_confine(context, pool->manifest, spec->labels);
    if (status != CST_OK)
        return status;
    if (!cst_is_folder(spec->labels))
        return open_array(context, pool, split, spec, &masks->npy);
    status = cst_cases_refuse_ids(context, spec, spec->labels);
    return status == CST_OK ? open_folder(context, pool, split, spec->labels, &masks->files)
                            : status;
}

cst_status cst_masks_survey(cst_context *context, cst_pool *pool, int32_t split) {
    mask_files masks;
    cst_status status = open_masks(context, pool, split, &masks);
    close_masks(context, &masks);
    return status;
}

static cst_status read_masks(cst_context *context, const cst_pool *pool, int32_t split,
                             const mask_files *masks) {
    cst_pool_split *state = &pool->splits[split];
    const char *path = pool->manifest->splits[split].labels;
    state->labels = cst_alloc(context, (size_t)state->rows, sizeof *state->labels);
    if (!state->labels)
        return CST_ERROR_MEMORY;
    if (!masks->npy) {
        mask_job job = {pool, &masks->files, state->cases, state->labels};
        return cst_parallel_for(context, masks->files.count, read_mask, &job);
    }
    cst_status status = cst_npy_read_all_i32(context, masks->npy, state->labels);
    for (int64_t i = 0; status == CST_OK && i < state->cases->count; i++)
        status = take_labels(context, pool, path, state->cases, i,
                             state->labels + state->cases->first[i]);
    return status;
}

cst_status cst_masks_read(cst_context *context, cst_pool *pool, int32_t split,
                          const int32_t *members, int32_t count) {
    cst_pool_split *state = &pool->splits[split];
    const cst_manifest_split *spec = &pool->manifest->splits[split];
    if (state->described || !spec->labels)
        return CST_OK;
    mask_files masks;
    cst_status status = open_masks(context, pool, split, &masks);
    if (status == CST_OK) /* maps of other sizes are refused before the masks are read */
        status = cst_maps_survey(context, pool, split, members, count);
    CST_THEN(read_masks(context, pool, split, &masks));
    close_masks(context, &masks);
    CST_THEN(cst_cases_read_beside(context, pool, spec, state->cases));
    if (status == CST_OK)
        state->labels_path = spec->labels;
    return status;
}
