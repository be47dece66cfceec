/* Probability maps of the members of a segmentation split: one array, or a file for each case;
 * classes last or first. After the masks, before everything statistical.
 * docs/segmentation.md#files. */
#include "data/pool/spatial.h"

#include <inttypes.h>
#include <string.h>

static const char *const MAPS[] = {".npz", ".npy", NULL};

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
static cst_status open_case(cst_context *context, cst_scope *scope, const cst_pool *pool,
                            const cst_cases *cases, int64_t index, const char *path, cst_npy **out,
                            bool *last) {
    /* nnU-Net's archives hold the maps as "probabilities"; any archive may hold one array. */
    size_t length = strlen(path);
    bool archive = length > 4 && strcmp(path + length - 4, ".npz") == 0;
    int64_t shape[3];
    CST_TRY(cst_manifest_confine(context, pool->manifest, path));
    CST_TRY(cst_npy_open_default(context, scope, out, path, archive ? "probabilities" : NULL,
                                 pool->zip_limit));
    CST_TRY(find_layout(context, pool, *out, path, 0, last));
    if (!cases)
        return CST_OK;
    spatial_shape(*out, 0, *last, shape);
    return check_shape(context, cases, index, path, shape);
}

/* The same of one array for all cases. */
static cst_status open_array(cst_context *context, cst_scope *scope, const cst_pool *pool,
                             const cst_cases *cases, const char *path, cst_row_file **out,
                             bool *last) {
    cst_row_source source;
    int64_t shape[3];
    CST_TRY(cst_pool_source(context, pool, path, &source));
    CST_TRY(cst_row_file_open(context, scope, out, &source, NULL));
    const cst_npy *npy = (*out)->npy;
    if (!npy)
        return cst_fail(context, CST_ERROR_INPUT,
                        "%s: is a table; maps must be npy or npz arrays, or folders of them", path);
    CST_TRY(find_layout(context, pool, npy, path, 1, last));
    if (!cases)
        return CST_OK;
    if (npy->shape[0] != cases->count)
        return cst_fail(context, CST_ERROR_MISMATCH,
                        "%s: has %" PRId64 " cases, but %s has %" PRId64, path, npy->shape[0],
                        cases->where, cases->count);
    spatial_shape(npy, 1, *last, shape);
    for (int64_t i = 0; i < cases->count; i++)
        CST_TRY(check_shape(context, cases, i, path, shape));
    return CST_OK;
}

/* Files of a member's folder in the order of the split's cases, each of which must have one. */
static cst_status match_cases(cst_context *context, const cst_cases *cases, const char *path,
                              cst_case_files *files) {
    cst_id_index *index;
    char quoted[CST_QUOTE_CHARS];
    const char *extra = NULL;
    CST_SCOPE(scope);
    CST_NEW(context, scope, char *, ordered, cases->count);
    CST_TRY(cst_id_index_take(context, scope, &index, cases->names, cases->where));
    for (int64_t i = 0; i < files->count; i++) {
        const char *name = cst_strings_at(files->names, i);
        int64_t row = cst_id_index_find(index, name);
        if (row >= 0)
            ordered[row] = files->paths[i];
        else if (!extra)
            extra = name;
    }
    for (int64_t i = 0; i < cases->count; i++)
        if (!ordered[i])
            return cst_fail(context, CST_ERROR_MISMATCH, "%s: has no file for case '%s' of %s",
                            path, cst_quote(quoted, cst_strings_at(cases->names, i)), cases->where);
    if (extra)
        return cst_fail(context, CST_ERROR_MISMATCH,
                        "%s: has a file for case '%s', which is not in %s", path,
                        cst_quote(quoted, extra), cases->where);
    /* as many as there are cases: names in a folder differ */
    memcpy(files->paths, ordered, (size_t)cases->count * sizeof *ordered);
    return CST_OK;
}

/* Lists a member's folder; its cases must be the split's, in whose order the paths then are, and
 * which they become where there are none yet or only numbers. */
static cst_status list_member(cst_context *context, cst_scope *scope, const cst_pool *pool,
                              int32_t split, const char *path, cst_case_files *files) {
    const cst_cases *cases = pool->splits[split].cases;
    CST_TRY(cst_case_files_list(context, scope, path, MAPS, files));
    if (!cases)
        return CST_OK;
    if (!cases->names && files->count != cases->count)
        return cst_fail(context, CST_ERROR_MISMATCH,
                        "%s: has %" PRId64 " cases, but %s has %" PRId64, path, files->count,
                        cases->where, cases->count);
    return cases->names ? match_cases(context, cases, path, files) : CST_OK;
}

static cst_status survey_folder(cst_context *context, cst_pool *pool, int32_t split,
                                const char *path) {
    cst_case_files files;
    int64_t(*shapes)[3];
    bool volumes = false;
    const cst_cases *cases = pool->splits[split].cases;
    CST_SCOPE(scope);
    if (!cases)
        CST_TRY(cst_cases_refuse_ids(context, &pool->manifest->splits[split], path));
    CST_TRY(list_member(context, scope, pool, split, path, &files));
    CST_TAKE(context, scope, shapes, files.count);
    for (int64_t i = 0; i < files.count; i++) {
        cst_npy *npy;
        bool last = false;
        CST_SCOPE(own);
        CST_TRY(open_case(context, own, pool, cases, i, files.paths[i], &npy, &last));
        spatial_shape(npy, 0, last, shapes[i]);
        volumes = volumes || npy->dims == 4;
    }
    return cases ? CST_OK
                 : cst_cases_adopt(context, pool, split, path, files.count,
                                   (const int64_t(*)[3])shapes, volumes, files.names);
}

static cst_status survey_array(cst_context *context, cst_pool *pool, int32_t split,
                               const char *path) {
    const cst_cases *cases = pool->splits[split].cases;
    cst_row_file *rows;
    int64_t(*shapes)[3];
    cst_strings *names;
    bool last = false;
    CST_SCOPE(scope);
    CST_TRY(open_array(context, scope, pool, cases, path, &rows, &last));
    if (cases)
        return CST_OK;
    int64_t count = rows->npy->shape[0];
    CST_TRY(cst_cases_check_axes(context, rows->npy));
    CST_TRY(cst_cases_read_names(context, scope, pool, &pool->manifest->splits[split], path, count,
                                 &names));
    CST_TAKE(context, scope, shapes, count);
    for (int64_t i = 0; i < count; i++)
        spatial_shape(rows->npy, 1, last, shapes[i]);
    return cst_cases_adopt(context, pool, split, path, count, (const int64_t(*)[3])shapes,
                           rows->npy->dims == 5, names);
}

cst_status cst_maps_survey(cst_context *context, cst_pool *pool, int32_t split,
                           const int32_t *members, int32_t count) {
    bool known = pool->splits[split].cases != NULL;
    for (int32_t i = 0; i < count; i++) {
        const cst_manifest_member *spec = &pool->manifest->members[members[i]];
        const char *path = spec->paths[split];
        if (!path)
            return cst_fail(context, CST_ERROR_INPUT,
                            "%s: member '%s' has no predictions for split '%s'; add its file or "
                            "remove the member",
                            pool->manifest->path, spec->name, pool->manifest->splits[split].name);
        CST_TRY(cst_manifest_confine(context, pool->manifest, path));
        CST_TRY((cst_is_folder(path) ? survey_folder : survey_array)(context, pool, split, path));
        if (!known)
            CST_TRY(cst_cases_read_beside(context, pool, split));
        known = true;
    }
    return CST_OK;
}

/* ---- reading ---- */

/* Pixels from row `first` of the split on: as they lie in `npy`, or in the planes of a case,
 * [classes][pixels]. */
typedef struct pixel_source {
    cst_npy *npy;
    const float *planes;
    int64_t first, count;
    size_t classes;
} pixel_source;

static cst_status read_some(cst_context *context, const void *source, int64_t first, int64_t count,
                            float *values, double *wide) {
    const pixel_source *p = source;
    (void)wide;
    first -= p->first;
    if (!p->planes)
        return cst_npy_read_rows_f32(context, p->npy, first, count, values);
    for (int64_t i = 0; i < count; i++)
        for (size_t c = 0; c < p->classes; c++)
            values[(size_t)i * p->classes + c] =
                p->planes[c * (size_t)p->count + (size_t)(first + i)];
    return CST_OK;
}

static cst_status read_pixels(cst_context *context, cst_convert *convert, cst_npy *npy,
                              const float *planes, int64_t first, int64_t count,
                              const cst_pieces_out *to) {
    const pixel_source source = {npy, planes, first, count, (size_t)convert->classes};
    const cst_pieces pieces = {
        .convert = *convert, .narrow = true, .source = &source, .read = read_some};
    return cst_pieces_run(context, &pieces, convert, first, count, to);
}

/* Maps of cases index..index+count-1, which the first `lead` axes count. Classes first: all of a
 * case in memory, and the planes of several cases lie one after another. */
static cst_status read_cases(cst_context *context, cst_convert *convert, cst_npy *npy, bool last,
                             int lead, const cst_cases *cases, int64_t index, int64_t count,
                             const cst_pieces_out *to) {
    int64_t begin = cases->first[index];
    npy->row_axes = last ? npy->dims - 1 : lead + 1;
    if (last)
        return read_pixels(context, convert, npy, NULL, begin, cases->first[index + count] - begin,
                           to);
    for (int64_t n = 0; n < count; n++) {
        int64_t first = cases->first[index + n];
        int64_t pixels = cases->first[index + n + 1] - first;
        CST_SCOPE(scope);
        CST_NEW(context, scope, float, planes, pixels * convert->classes);
        CST_TRY(
            cst_npy_read_rows_f32(context, npy, n * convert->classes, convert->classes, planes));
        CST_TRY(read_pixels(context, convert, npy, planes, first, pixels, to));
    }
    return CST_OK;
}

static cst_convert conversion(const cst_pool *pool, int32_t split, const char *path) {
    return (cst_convert){.where = path,
                         .cases = pool->splits[split].cases,
                         .classes = pool->classes,
                         .width = pool->classes,
                         .logits = pool->logits};
}

static cst_status load_folder(cst_context *context, const cst_pool *pool, int32_t split,
                              const char *path, const cst_pieces_out *to) {
    const cst_cases *cases = pool->splits[split].cases;
    cst_convert all = conversion(pool, split, path);
    cst_case_files files;
    CST_SCOPE(scope);
    CST_TRY(list_member(context, scope, pool, split, path, &files));
    for (int64_t i = 0; i < files.count; i++) {
        cst_npy *npy;
        bool last = false;
        cst_convert convert = conversion(pool, split, files.paths[i]);
        CST_SCOPE(own);
        CST_TRY(open_case(context, own, pool, cases, i, files.paths[i], &npy, &last));
        CST_TRY(read_cases(context, &convert, npy, last, 0, cases, i, 1, to));
        all.like_probabilities += convert.like_probabilities;
        all.total += convert.total;
    }
    return cst_convert_finish(context, &all);
}

/* own: the scope of an entry of a store, which may go on reading the file. */
static cst_status load_array(cst_context *context, cst_scope *own, const cst_pool *pool,
                             int32_t split, const char *path, cst_store_entry *entry,
                             cst_pieces_out *to) {
    const cst_pool_split *state = &pool->splits[split];
    cst_convert convert = conversion(pool, split, path);
    cst_row_file *rows;
    cst_scope *scope;
    bool last = false;
    CST_TRY(cst_scope_take(context, own, &scope));
    CST_TRY(open_array(context, scope, pool, state->cases, path, &rows, &last));
    convert.rounding = cst_npy_rounding(rows->npy);
    if (entry && last && cst_npy_streams(rows->npy)) {
        cst_convert looked;
        rows->npy->row_axes = rows->npy->dims - 1;
        rows->width = pool->classes;
        rows->row_count = state->rows;
        convert.rows = rows;
        CST_TRY(cst_pieces_entry(context, scope, &convert, 0, state->rows, &looked, entry));
        return cst_convert_finish(context, &looked);
    }
    if (entry) {
        CST_TRY(cst_store_file(context, own, path, state->rows, pool->classes, entry));
        to->entry = entry;
    }
    CST_TRY(read_cases(context, &convert, rows->npy, last, 1, state->cases, 0, state->cases->count,
                       to));
    cst_scope_free(scope);
    return cst_convert_finish(context, &convert);
}

cst_status cst_maps_load(cst_context *context, cst_pool *pool, int32_t split, int32_t member,
                         bool stream) {
    cst_pool_split *state = &pool->splits[split];
    cst_scope *own = &state->own[member];
    const char *path = pool->manifest->members[member].paths[split];
    cst_store_entry *entry = stream ? &state->store->entries[member] : NULL;
    cst_pieces_out to = {0};
    size_t values = 0;
    if (!cst_size_mul((size_t)state->rows, (size_t)pool->classes, &values))
        return cst_fail(context, CST_ERROR_LIMIT, "%s: too many values", path);
    if (!stream)
        CST_TAKE(context, own, to.memory, values);
    if (!cst_is_folder(path)) {
        CST_TRY(load_array(context, own, pool, split, path, entry, &to));
    } else {
        if (stream) {
            CST_TRY(cst_store_file(context, own, path, state->rows, pool->classes, entry));
            to.entry = entry;
        }
        CST_TRY(load_folder(context, pool, split, path, &to));
    }
    state->data[member] = stream ? cst_store_place(state->store, member) : to.memory;
    return CST_OK;
}
