/*
 * Probability maps of the members of a segmentation split: one array, or a file for each case;
 * classes last or first. After the masks, before everything statistical.
 * docs/segmentation.md#files.
 */
#include "data/pool/spatial.h"
#include "data/pool/stream.h"
#include "data/readers/cases.h"

#include <inttypes.h>
#include <string.h>

enum { PIECE_VALUES = 1 << 16 };

static const char *const MAPS[] = {".npz", ".npy", NULL};

/* Where one member's maps come from and go to. */
typedef struct destination {
    float *memory; /* [rows][classes], or NULL: */
    const cst_store_entry *entry;
} destination;

/* ---- shapes ---- */

/* The order of the axes of `npy`, whose first `lead` axes count cases. */
static cst_status find_layout(cst_context *context, const cst_pool *pool, const cst_npy *npy,
                              const char *path, int lead, bool *last) {
    char shape[CST_NPY_SHAPE_CHARS];
    const char *const cases = lead ? "cases, " : "";
    int spatial = npy->dims - lead - 1;
    (void)cst_npy_shape_text(npy, shape);
    if (cst_npy_is_text(npy) || spatial < 2 || spatial > 3)
        return cst_fail(context, CST_ERROR_INPUT,
                        "%s: has shape %s; maps must be [%sheight, width, classes] or [%sclasses, "
                        "height, width], with or without depth before height",
                        path, shape, cases, cases);
    bool can_last = npy->shape[npy->dims - 1] == pool->classes;
    bool can_first = npy->shape[lead] == pool->classes;
    if (pool->layout != CST_LAYOUT_AUTO) {
        can_last = can_last && pool->layout == CST_LAYOUT_CHANNELS_LAST;
        can_first = can_first && pool->layout == CST_LAYOUT_CHANNELS_FIRST;
    }
    if (can_last && can_first)
        return cst_fail(context, CST_ERROR_INPUT,
                        "%s: in shape %s the %d classes may be the last or the first length; "
                        "specify \"layout\" (--layout): channels-last or channels-first",
                        path, shape, pool->classes);
    if (!can_last && !can_first)
        return cst_fail(context, CST_ERROR_MISMATCH,
                        "%s: has shape %s, but %s has %d classes, which should be its %s", path,
                        shape, pool->manifest->path, pool->classes,
                        pool->layout == CST_LAYOUT_CHANNELS_LAST    ? "last length"
                        : pool->layout == CST_LAYOUT_CHANNELS_FIRST ? "first length after the cases"
                                                                    : "last length or the first "
                                                                      "after the cases");
    *last = can_last;
    return CST_OK;
}

/* Depth, height and width. */
static void spatial_shape(const cst_npy *npy, int lead, bool last, int64_t shape[3]) {
    int begin = lead + (last ? 0 : 1);
    int end = npy->dims - (last ? 1 : 0);
    shape[0] = end - begin == 3 ? npy->shape[begin] : 1;
    shape[1] = npy->shape[end - 2];
    shape[2] = npy->shape[end - 1];
}

static cst_status check_shape(cst_context *context, const cst_cases *cases, int64_t index,
                              const char *path, const int64_t shape[3]) {
    const int64_t *expected = cases->shape[index];
    char name[CST_CASE_CHARS];
    char depths[2][32] = {"", ""};
    if (memcmp(shape, expected, 3 * sizeof *shape) == 0)
        return CST_OK;
    if (shape[0] != 1 || expected[0] != 1) {
        (void)cst_snprintf(depths[0], sizeof depths[0], "%" PRId64 " x ", shape[0]);
        (void)cst_snprintf(depths[1], sizeof depths[1], "%" PRId64 " x ", expected[0]);
    }
    return cst_fail(context, CST_ERROR_MISMATCH,
                    "%s: case %s is %s%" PRId64 " x %" PRId64 " pixels, and %s%" PRId64
                    " x %" PRId64 " in %s; maps and masks must have the same size",
                    path, cst_case_name(cases, index, name), depths[0], shape[1], shape[2],
                    depths[1], expected[1], expected[2], cases->where);
}

/* ---- files ---- */

/* Opens the file of case `index`, checked in full whenever it is opened: what was looked at before
 * may be another file by now. cases: NULL where they are not known yet. */
static cst_status open_case(cst_context *context, const cst_pool *pool, const cst_cases *cases,
                            int64_t index, const char *path, cst_npy **out, bool *last) {
    /* nnU-Net's archives hold the maps as "probabilities"; any archive may hold one array. */
    size_t length = strlen(path);
    bool archive = length > 4 && strcmp(path + length - 4, ".npz") == 0;
    int64_t shape[3];
    cst_status status = cst_manifest_confine(context, pool->manifest, path);
    CST_THEN(
        cst_npy_open_usual(context, out, path, archive ? "probabilities" : NULL, pool->zip_limit));
    CST_THEN(find_layout(context, pool, *out, path, 0, last));
    if (status != CST_OK || !cases)
        return status;
    spatial_shape(*out, 0, *last, shape);
    return check_shape(context, cases, index, path, shape);
}

/* The same of one array for all cases. */
static cst_status open_array(cst_context *context, const cst_pool *pool, const cst_cases *cases,
                             const char *path, cst_row_file **out, bool *last) {
    int64_t shape[3];
    cst_status status = cst_manifest_confine(context, pool->manifest, path);
    CST_THEN(cst_row_file_open(context, out, path, pool->zip_limit));
    if (status == CST_OK && !(*out)->npy)
        status =
            cst_fail(context, CST_ERROR_INPUT,
                     "%s: is a table; maps must be npy or npz arrays, or folders of them", path);
    CST_THEN(find_layout(context, pool, (*out)->npy, path, 1, last));
    if (status != CST_OK || !cases)
        return status;
    const cst_npy *npy = (*out)->npy;
    if (npy->shape[0] != cases->count)
        return cst_fail(context, CST_ERROR_MISMATCH,
                        "%s: has %" PRId64 " cases, but %s has %" PRId64, path, npy->shape[0],
                        cases->where, cases->count);
    spatial_shape(npy, 1, *last, shape);
    for (int64_t i = 0; status == CST_OK && i < cases->count; i++)
        status = check_shape(context, cases, i, path, shape);
    return status;
}

/* Files of a member's folder in the order of the split's cases, each of which must have one. */
static cst_status match_cases(cst_context *context, const cst_cases *cases, const char *path,
                              cst_case_files *files) {
    cst_id_index *index = NULL;
    char quoted[CST_QUOTE_CHARS];
    char **ordered = cst_alloc(context, (size_t)cases->count, sizeof *ordered);
    cst_status status = ordered ? cst_id_index_create(context, &index, cases->names, cases->where)
                                : CST_ERROR_MEMORY;
    const char *extra = NULL;
    for (int64_t i = 0; status == CST_OK && i < files->count; i++) {
        const char *name = cst_strings_at(files->names, i);
        int64_t row = cst_id_index_find(index, name);
        if (row >= 0)
            ordered[row] = files->paths[i];
        else if (!extra)
            extra = name;
    }
    for (int64_t i = 0; status == CST_OK && i < cases->count; i++)
        if (!ordered[i])
            status =
                cst_fail(context, CST_ERROR_MISMATCH, "%s: has no file for case '%s' of %s", path,
                         cst_quote(quoted, cst_strings_at(cases->names, i)), cases->where);
    if (status == CST_OK && extra)
        status = cst_fail(context, CST_ERROR_MISMATCH,
                          "%s: has a file for case '%s', which is not in %s", path,
                          cst_quote(quoted, extra), cases->where);
    if (status == CST_OK) /* as many as there are cases: names in a folder differ */
        memcpy(files->paths, ordered, (size_t)cases->count * sizeof *ordered);
    cst_id_index_free(context, index);
    cst_free(context, ordered);
    return status;
}

/* Lists a member's folder; its cases must be the split's, in whose order the paths then are, and
 * which they become where there are none yet or only numbers. */
static cst_status list_member(cst_context *context, const cst_pool *pool, int32_t split,
                              const char *path, cst_case_files *files) {
    const cst_cases *cases = pool->splits[split].cases;
    cst_status status = cst_case_files_list(context, path, MAPS, files);
    if (status != CST_OK || !cases)
        return status;
    if (!cases->names && files->count != cases->count)
        return cst_fail(context, CST_ERROR_MISMATCH,
                        "%s: has %" PRId64 " cases, but %s has %" PRId64, path, files->count,
                        cases->where, cases->count);
    return cases->names ? match_cases(context, cases, path, files) : CST_OK;
}

static cst_status survey_folder(cst_context *context, cst_pool *pool, int32_t split,
                                const char *path) {
    cst_case_files files = {0};
    int64_t(*shapes)[3] = NULL;
    bool volumes = false;
    const cst_cases *cases = pool->splits[split].cases;
    cst_status status =
        cases ? CST_OK : cst_cases_refuse_ids(context, &pool->manifest->splits[split], path);
    CST_THEN(list_member(context, pool, split, path, &files));
    if (status == CST_OK && !cases) {
        shapes = cst_alloc(context, (size_t)files.count, sizeof *shapes);
        status = shapes ? CST_OK : CST_ERROR_MEMORY;
    }
    for (int64_t i = 0; status == CST_OK && i < files.count; i++) {
        cst_npy *npy = NULL;
        bool last = false;
        status = open_case(context, pool, cases, i, files.paths[i], &npy, &last);
        if (status == CST_OK && !cases)
            spatial_shape(npy, 0, last, shapes[i]);
        volumes = volumes || (npy && npy->dims == 4);
        cst_npy_close(context, npy);
    }
    if (status == CST_OK && !cases)
        status = cst_cases_adopt(context, pool, split, path, files.count,
                                 (const int64_t(*)[3])shapes, volumes, &files.names);
    cst_case_files_clear(context, &files);
    cst_free(context, shapes);
    return status;
}

static cst_status survey_array(cst_context *context, cst_pool *pool, int32_t split,
                               const char *path) {
    const cst_cases *cases = pool->splits[split].cases;
    cst_row_file *rows = NULL;
    int64_t(*shapes)[3] = NULL;
    cst_strings *names = NULL;
    bool last = false;
    cst_status status = open_array(context, pool, cases, path, &rows, &last);
    if (status != CST_OK || cases) {
        cst_row_file_close(context, rows);
        return status;
    }
    int64_t count = rows->npy->shape[0];
    status = cst_cases_check_axes(context, rows->npy);
    CST_THEN(
        cst_cases_read_names(context, pool, &pool->manifest->splits[split], path, count, &names));
    if (status == CST_OK) {
        shapes = cst_alloc(context, (size_t)count, sizeof *shapes);
        status = shapes ? CST_OK : CST_ERROR_MEMORY;
    }
    for (int64_t i = 0; status == CST_OK && i < count; i++)
        spatial_shape(rows->npy, 1, last, shapes[i]);
    CST_THEN(cst_cases_adopt(context, pool, split, path, count, (const int64_t(*)[3])shapes,
                             rows->npy->dims == 5, &names));
    cst_strings_free(context, names);
    cst_free(context, shapes);
    cst_row_file_close(context, rows);
    return status;
}

cst_status cst_maps_survey(cst_context *context, cst_pool *pool, int32_t split,
                           const int32_t *members, int32_t count) {
    cst_status status = CST_OK;
    bool known = pool->splits[split].cases != NULL;
    for (int32_t i = 0; status == CST_OK && i < count; i++) {
        const cst_manifest_member *spec = &pool->manifest->members[members[i]];
        const char *path = spec->paths[split];
        if (!path)
            return cst_fail(context, CST_ERROR_INPUT,
                            "%s: member '%s' has no predictions for split '%s'; add its file or "
                            "remove the member",
                            pool->manifest->path, spec->name, pool->manifest->splits[split].name);
        status = cst_manifest_confine(context, pool->manifest, path);
        CST_THEN(cst_is_folder(path) ? survey_folder(context, pool, split, path)
                                     : survey_array(context, pool, split, path));
        if (status == CST_OK && !known)
            status = cst_cases_read_beside(context, pool, &pool->manifest->splits[split],
                                           pool->splits[split].cases);
        known = true;
    }
    return status;
}

/* ---- reading ---- */

static cst_status put(cst_context *context, const destination *to, int64_t first, int64_t count,
                      const float *rows) {
    return to->memory ? CST_OK : cst_stream_write(context, to->entry, first, count, rows);
}

/* Pixels of one case, classes first: all of the case in memory, then turned piece by piece. planes:
 * [classes][pixels]. */
static cst_status turn(cst_context *context, cst_convert *convert, const float *planes,
                       int64_t pixels, int64_t first, const destination *to) {
    size_t classes = (size_t)convert->classes;
    int64_t piece = PIECE_VALUES / convert->classes + 1;
    float *row = cst_alloc(context, classes, sizeof *row);
    double *wide = cst_alloc(context, classes, sizeof *wide);
    float *copy = cst_alloc(context, to->memory ? 0 : (size_t)piece * classes, sizeof *copy);
    cst_status status = row && wide && copy ? CST_OK : CST_ERROR_MEMORY;
    for (int64_t at = 0; status == CST_OK && at < pixels; at += piece) {
        int64_t count = pixels - at < piece ? pixels - at : piece;
        float *out = to->memory ? to->memory + (size_t)(first + at) * classes : copy;
        status = cst_poll(context);
        for (int64_t i = 0; status == CST_OK && i < count; i++) {
            for (size_t c = 0; c < classes; c++)
                row[c] = planes[c * (size_t)pixels + (size_t)(at + i)];
            status = cst_convert_row_f32(context, convert, first + at, i, row, wide,
                                         out + (size_t)i * classes);
        }
        CST_THEN(put(context, to, first + at, count, out));
    }
    cst_free(context, row);
    cst_free(context, wide);
    cst_free(context, copy);
    return status;
}

/* Classes first: the planes of `cases` cases lie one after another. */
static cst_status read_first(cst_context *context, cst_convert *convert, cst_npy *npy, int lead,
                             const cst_cases *cases, int64_t index, int64_t count,
                             const destination *to) {
    cst_status status = CST_OK;
    float *planes = NULL;
    npy->row_axes = lead + 1;
    for (int64_t n = 0; status == CST_OK && n < count; n++) {
        int64_t first = cases->first[index + n];
        int64_t pixels = cases->first[index + n + 1] - first;
        if (!planes) /* several cases of one array are of one size */
            planes = cst_alloc(context, (size_t)pixels, (size_t)convert->classes * sizeof *planes);
        if (!planes)
            return CST_ERROR_MEMORY;
        status =
            cst_npy_read_rows_f32(context, npy, n * convert->classes, convert->classes, planes);
        CST_THEN(turn(context, convert, planes, pixels, first, to));
    }
    cst_free(context, planes);
    return status;
}

/* Classes last: `count` pixels from row `first` of the split on, as they lie. */
static cst_status read_last(cst_context *context, cst_convert *convert, cst_npy *npy, int64_t first,
                            int64_t count, const destination *to) {
    size_t classes = (size_t)convert->classes;
    int64_t piece = PIECE_VALUES / convert->classes + 1;
    piece = piece < count ? piece : count;
    npy->row_axes = npy->dims - 1;
    float *values = cst_alloc(context, (size_t)piece * classes, sizeof *values);
    double *wide = cst_alloc(context, classes, sizeof *wide);
    float *copy = cst_alloc(context, to->memory ? 0 : (size_t)piece * classes, sizeof *copy);
    cst_status status = values && wide && copy ? CST_OK : CST_ERROR_MEMORY;
    for (int64_t at = 0; status == CST_OK && at < count; at += piece) {
        int64_t part = count - at < piece ? count - at : piece;
        float *out = to->memory ? to->memory + (size_t)(first + at) * classes : copy;
        status = cst_poll(context);
        CST_THEN(cst_npy_read_rows_f32(context, npy, at, part, values));
        for (int64_t i = 0; status == CST_OK && i < part; i++)
            status =
                cst_convert_row_f32(context, convert, first + at, i, values + (size_t)i * classes,
                                    wide, out + (size_t)i * classes);
        CST_THEN(put(context, to, first + at, part, out));
    }
    cst_free(context, values);
    cst_free(context, wide);
    cst_free(context, copy);
    return status;
}

static cst_convert conversion(const cst_pool *pool, int32_t split, const char *path) {
    return (cst_convert){.where = path,
                         .cases = pool->splits[split].cases,
                         .classes = pool->classes,
                         .width = pool->classes,
                         .logits = pool->logits};
}

static cst_status load_folder(cst_context *context, const cst_pool *pool, int32_t split,
                              const char *path, const destination *to) {
    const cst_cases *cases = pool->splits[split].cases;
    cst_case_files files = {0};
    int64_t alike = 0;
    int64_t total = 0;
    cst_status status = list_member(context, pool, split, path, &files);
    for (int64_t i = 0; status == CST_OK && i < files.count; i++) {
        cst_npy *npy = NULL;
        bool last = false;
        cst_convert convert = conversion(pool, split, files.paths[i]);
        status = open_case(context, pool, cases, i, files.paths[i], &npy, &last);
        CST_THEN(last ? read_last(context, &convert, npy, cases->first[i],
                                  cases->first[i + 1] - cases->first[i], to)
                      : read_first(context, &convert, npy, 0, cases, i, 1, to));
        alike += convert.like_probabilities;
        total += convert.total;
        cst_npy_close(context, npy);
    }
    cst_convert all = conversion(pool, split, path);
    all.like_probabilities = alike;
    all.total = total;
    cst_case_files_clear(context, &files);
    return status == CST_OK ? cst_convert_finish(context, &all) : status;
}

static cst_status load_array(cst_context *context, const cst_pool *pool, int32_t split,
                             const char *path, bool stream, cst_store_entry *entry, float *memory) {
    const cst_pool_split *state = &pool->splits[split];
    cst_convert convert = conversion(pool, split, path);
    destination to = {memory, entry};
    cst_row_file *rows = NULL;
    bool last = false;
    cst_status status = open_array(context, pool, state->cases, path, &rows, &last);
    if (status == CST_OK)
        convert.rounding = cst_npy_rounding(rows->npy);
    if (status == CST_OK && stream && last && cst_npy_streams(rows->npy)) {
        rows->npy->row_axes = rows->npy->dims - 1;
        rows->width = pool->classes;
        rows->row_count = state->rows;
        cst_convert looked;
        status = cst_stream_open(context, rows, &convert, 0, state->rows, &looked, entry);
        return status == CST_OK ? cst_convert_finish(context, &looked) : status;
    }
    if (status == CST_OK && stream)
        status = cst_stream_create(context, path, state->rows, pool->classes, entry);
    CST_THEN(last ? read_last(context, &convert, rows->npy, 0, state->rows, &to)
                  : read_first(context, &convert, rows->npy, 1, state->cases, 0,
                               state->cases->count, &to));
    cst_row_file_close(context, rows);
    return status == CST_OK ? cst_convert_finish(context, &convert) : status;
}

cst_status cst_maps_load(cst_context *context, cst_pool *pool, int32_t split, int32_t member,
                         bool stream) {
    cst_pool_split *state = &pool->splits[split];
    const char *path = pool->manifest->members[member].paths[split];
    cst_store_entry *entry = stream ? &state->store->entries[member] : NULL;
    float *memory = NULL;
    size_t values = 0;
    cst_status status = CST_OK;
    if (!cst_size_mul((size_t)state->rows, (size_t)pool->classes, &values))
        return cst_fail(context, CST_ERROR_LIMIT, "%s: too many values", path);
    if (!stream) {
        memory = cst_alloc(context, values, sizeof *memory);
        status = memory ? CST_OK : CST_ERROR_MEMORY;
    }
    if (status == CST_OK && cst_is_folder(path)) {
        destination to = {memory, entry};
        if (stream)
            status = cst_stream_create(context, path, state->rows, pool->classes, entry);
        CST_THEN(load_folder(context, pool, split, path, &to));
    } else if (status == CST_OK)
        status = load_array(context, pool, split, path, stream, entry, memory);
    if (status != CST_OK) {
        cst_free(context, memory);
        return status;
    }
    state->data[member] = stream ? cst_store_place(state->store, member) : memory;
    return CST_OK;
}
