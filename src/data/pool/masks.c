/* Masks, whose sizes settle the cases of a split and whose pixels are the labels. First step of
 * loading one. docs/segmentation.md#files. */
#include "data/pool/spatial.h"
#include "data/readers/cases.h"

#include <string.h>

static const char *const MASKS[] = {".png", ".npy", ".npz", NULL};

static bool is_ignored(const cst_pool *pool, int32_t label) {
    const cst_manifest *manifest = pool->manifest;
    bool found = label == pool->ignore;
    for (int32_t i = 0; i < manifest->ignored_also && !found; i++)
        found = label == manifest->ignore_also[i];
    return found;
}

/* Checks the labels of a case and puts -1 for those that do not count. */
static cst_status take_labels(cst_context *context, const cst_pool *pool, const char *path,
                              const cst_cases *cases, int64_t index, int32_t *labels) {
    int64_t pixels = cases->first[index + 1] - cases->first[index];
    char name[CST_CASE_CHARS];
    char place[CST_WHERE_CHARS];
    for (int64_t i = 0; i < pixels; i++) {
        cst_trim_item(context, i);
        if (is_ignored(pool, labels[i])) {
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
    CST_TRY(cst_manifest_confine(worker, job->pool->manifest, path));
    CST_TRY(cst_mask_read(worker, path, job->pool->zip_limit, job->cases->shape[task],
                          job->labels + first));
    return take_labels(worker, job->pool, path, job->cases, task, job->labels + first);
}

/* The masks of a split: a file for each case, or one array. */
typedef struct mask_files {
    cst_case_files files;
    cst_npy *npy; /* NULL for a folder */
} mask_files;

/* The cases found become those of the split. Where masks were surveyed before, they must still be
 * the same. */
static cst_status settle(cst_context *context, cst_pool *pool, int32_t split, const char *path,
                         int64_t count, const int64_t (*shapes)[3], bool volumes,
                         const cst_strings *names) {
    const cst_cases *cases = pool->splits[split].cases;
    if (!cases)
        return cst_cases_adopt(context, pool, split, path, count, shapes, volumes, names);
    bool same = count == cases->count && !names == !cases->names;
    for (int64_t i = 0; same && i < count; i++)
        same = memcmp(shapes[i], cases->shape[i], sizeof shapes[i]) == 0 &&
               (!names || strcmp(cst_strings_at(names, i), cst_strings_at(cases->names, i)) == 0);
    if (same)
        return CST_OK;
    return cst_fail(context, CST_ERROR_IO,
                    "%s: its masks have changed since they were first opened; run the command "
                    "again when nothing writes to them",
                    path);
}

/* One mask for each case: all of them are looked at. */
static cst_status open_folder(cst_context *context, cst_scope *scope, cst_pool *pool, int32_t split,
                              const char *path, cst_case_files *files) {
    int64_t(*shapes)[3];
    bool volumes = false;
    CST_TRY(cst_case_files_list(context, scope, path, MASKS, files));
    CST_TAKE(context, scope, shapes, files->count);
    for (int64_t i = 0; i < files->count; i++) {
        int axes = 0;
        CST_TRY(cst_manifest_confine(context, pool->manifest, files->paths[i]));
        CST_TRY(cst_mask_shape(context, files->paths[i], pool->zip_limit, shapes[i], &axes));
        volumes = volumes || axes == 3;
    }
    return settle(context, pool, split, path, files->count, (const int64_t(*)[3])shapes, volumes,
                  files->names);
}

/* One array for all cases, [cases, (depth,) height, width]. */
static cst_status open_array(cst_context *context, cst_scope *scope, cst_pool *pool, int32_t split,
                             cst_npy **out) {
    const cst_manifest_split *spec = &pool->manifest->splits[split];
    int64_t(*shapes)[3];
    cst_strings *names;
    char shape[CST_NPY_SHAPE_CHARS];
    if (cst_is_png(spec->labels))
        return cst_fail(context, CST_ERROR_INPUT,
                        "%s: is a single image; label maps must be a folder with one file per "
                        "case, or an array [cases, height, width]",
                        spec->labels);
    cst_row_source source = cst_one_file(spec->labels, pool->zip_limit);
    CST_TRY(cst_npy_open_source(context, scope, out, &source));
    const cst_npy *npy = *out;
    bool volumes = npy->dims == 4;
    if (npy->dims != 3 && !volumes)
        return cst_fail(context, CST_ERROR_INPUT,
                        "%s: has shape %s; masks must be [cases, height, width] or [cases, "
                        "depth, height, width], or a folder with one file per case",
                        spec->labels, cst_npy_shape_text(npy, shape));
    CST_TRY(cst_cases_check_axes(context, npy));
    CST_TAKE(context, scope, shapes, npy->shape[0]);
    for (int64_t i = 0; i < npy->shape[0]; i++) {
        shapes[i][0] = volumes ? npy->shape[1] : 1;
        shapes[i][1] = npy->shape[npy->dims - 2];
        shapes[i][2] = npy->shape[npy->dims - 1];
    }
    CST_TRY(cst_cases_read_names(context, scope, pool, spec, spec->labels, npy->shape[0], &names));
    return settle(context, pool, split, spec->labels, npy->shape[0], (const int64_t(*)[3])shapes,
                  volumes, names);
}

/* Opens masks as far as their sizes, which the split has from here on. */
static cst_status open_masks(cst_context *context, cst_scope *scope, cst_pool *pool, int32_t split,
                             mask_files *masks) {
    const cst_manifest_split *spec = &pool->manifest->splits[split];
    *masks = (mask_files){0};
    CST_TRY(cst_manifest_confine(context, pool->manifest, spec->labels));
    if (!cst_is_folder(spec->labels))
        return open_array(context, scope, pool, split, &masks->npy);
    CST_TRY(cst_cases_refuse_ids(context, spec, spec->labels));
    return open_folder(context, scope, pool, split, spec->labels, &masks->files);
}

cst_status cst_masks_survey(cst_context *context, cst_pool *pool, int32_t split) {
    mask_files masks;
    CST_SCOPE(scope);
    return open_masks(context, scope, pool, split, &masks);
}

static cst_status read_masks(cst_context *context, const cst_pool *pool, int32_t split,
                             const mask_files *masks) {
    cst_pool_split *state = &pool->splits[split];
    const cst_cases *cases = state->cases;
    const char *path = pool->manifest->splits[split].labels;
    CST_NEW(context, &state->scope, int32_t, labels, state->rows);
    state->beside.labels = labels;
    if (!masks->npy) {
        mask_job job = {pool, &masks->files, cases, labels};
        return cst_parallel_for(context, masks->files.count, read_mask, &job);
    }
    CST_TRY(cst_npy_read_all_i32(context, masks->npy, labels));
    for (int64_t i = 0; i < cases->count; i++)
        CST_TRY(take_labels(context, pool, path, cases, i, labels + cases->first[i]));
    return CST_OK;
}

static cst_status masks_read(cst_context *context, cst_pool *pool, int32_t split,
                             const int32_t *members, int32_t count) {
    cst_pool_split *state = &pool->splits[split];
    const cst_manifest_split *spec = &pool->manifest->splits[split];
    mask_files masks;
    CST_SCOPE(scope);
    if (state->described || !spec->labels)
        return CST_OK;
    CST_TRY(open_masks(context, scope, pool, split, &masks));
    /* maps of other sizes are refused before the masks are read */
    CST_TRY(cst_maps_survey(context, pool, split, members, count));
    CST_TRY(read_masks(context, pool, split, &masks));
    CST_TRY(cst_cases_read_beside(context, pool, split));
    state->labels_path = spec->labels;
    return CST_OK;
}

cst_status cst_pool_describe(cst_context *context, cst_pool *pool, int32_t split,
                             const int32_t *members, int32_t count) {
    CST_TRY(cst_pool_describe_rows(context, pool, split, members, count));
    if (pool->task == CST_TASK_SEGMENTATION)
        CST_TRY(masks_read(context, pool, split, members, count));
    pool->splits[split].described = true;
    return CST_OK;
}
