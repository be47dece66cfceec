/* Folders of cases and label masks. docs/segmentation.md#files. */
#include "data/readers/cases.h"

#include "core/scope.h"
#include "data/readers/file_parts.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

enum { PIECE_VALUES = 1 << 16 };

bool cst_is_folder(const char *path) {
    struct stat info;
    return stat(path, &info) == 0 && S_ISDIR(info.st_mode);
}

static const char *case_name(const char *path, const char *const *extensions, size_t *length) {
    const char *base = strrchr(path, '/');
    base = base ? base + 1 : path;
    *length = cst_stem_length(base, extensions);
    return base;
}

static int by_case(const char *a, const char *b, const char *const *extensions) {
    size_t lengths[2];
    const char *first = case_name(a, extensions, &lengths[0]);
    const char *second = case_name(b, extensions, &lengths[1]);
    size_t common = lengths[0] < lengths[1] ? lengths[0] : lengths[1];
    int order = memcmp(first, second, common);
    return order != 0 ? order : (lengths[0] > lengths[1]) - (lengths[0] < lengths[1]);
}

/* Length of the end that all names share, from a '_' before a letter on, such as
 * "_gtFine_labelTrainIds": it says what the files are, not which case. */
static size_t shared_end(const cst_case_files *files, const char *const *extensions) {
    size_t shared = 0;
    size_t length = 0;
    const char *first = case_name(files->paths[0], extensions, &length);
    for (size_t end = 1; files->count > 1 && end < length; end++) {
        bool all = true;
        for (int64_t i = 1; all && i < files->count; i++) {
            size_t other = 0;
            const char *name = case_name(files->paths[i], extensions, &other);
            all = end < other && memcmp(name + other - end, first + length - end, end) == 0;
        }
        if (!all)
            break;
        const char *at = first + length - end;
        bool letter = (at[1] >= 'a' && at[1] <= 'z') || (at[1] >= 'A' && at[1] <= 'Z');
        shared = at[0] == '_' && letter ? end : shared;
    }
    return shared;
}

cst_status cst_case_files_list(cst_context *context, cst_scope *scope, const char *folder,
                               const char *const *extensions, cst_case_files *out) {
    cst_file_parts found;
    *out = (cst_case_files){0};
    CST_TRY(cst_folder_list(context, scope, folder, extensions, cst_by_text, &found));
    *out = (cst_case_files){.count = found.count, .paths = found.paths};
    if (out->count == 0)
        return cst_fail(context, CST_ERROR_INPUT, "%s: the folder has no case files (NAME%s)",
                        folder, extensions[0]);
    CST_TRY(cst_strings_take(context, scope, &out->names));
    /* Sorted with extensions, "a.b.npy" may stand before "a.npy": an insertion puts few right. */
    for (int64_t i = 1; i < out->count; i++)
        for (int64_t j = i; j > 0 && by_case(out->paths[j - 1], out->paths[j], extensions) > 0;
             j--) {
            char *path = out->paths[j];
            out->paths[j] = out->paths[j - 1];
            out->paths[j - 1] = path;
        }
    size_t end = shared_end(out, extensions);
    for (int64_t i = 0; i < out->count; i++) {
        size_t length = 0;
        const char *name = case_name(out->paths[i], extensions, &length);
        if (i > 0 && by_case(out->paths[i - 1], out->paths[i], extensions) == 0)
            return cst_fail(context, CST_ERROR_INPUT,
                            "%s and %s are both files of case '%.*s'; keep one of them",
                            out->paths[i - 1], out->paths[i], (int)length, name);
        CST_TRY(cst_strings_add(context, out->names, name, length - end));
    }
    return CST_OK;
}

bool cst_is_png(const char *path) {
    size_t length = strlen(path);
    return length > 4 && strcasecmp(path + length - 4, ".png") == 0;
}

static cst_status open_mask(cst_context *context, cst_scope *scope, const char *path,
                            uint64_t zip_limit, cst_npy **out) {
    char shape[CST_NPY_SHAPE_CHARS];
    CST_TRY(cst_npy_open(context, scope, out, path, zip_limit));
    if ((*out)->dims == 2 || (*out)->dims == 3)
        return CST_OK;
    return cst_fail(
        context, CST_ERROR_INPUT,
        "%s: has shape %s; the mask of a case must be [height, width] or [depth, height, width]",
        path, cst_npy_shape_text(*out, shape));
}

static void mask_shape(const cst_npy *npy, int64_t shape[3]) {
    shape[0] = 1;
    for (int i = 0; i < npy->dims; i++)
        shape[3 - npy->dims + i] = npy->shape[i];
}

cst_status cst_mask_shape(cst_context *context, const char *path, uint64_t zip_limit,
                          int64_t shape[3], int *axes) {
    CST_SCOPE(scope);
    cst_npy *npy = NULL;
    shape[0] = 1;
    *axes = 2;
    if (cst_is_png(path))
        return cst_png_size(context, path, zip_limit, &shape[1], &shape[2]);
    CST_TRY(open_mask(context, scope, path, zip_limit, &npy));
    *axes = npy->dims;
    mask_shape(npy, shape);
    return CST_OK;
}

/* The mask that was opened must have the shape that was found before. */
static cst_status check_mask(cst_context *context, const char *path, const int64_t found[3],
                             const int64_t shape[3]) {
    if (memcmp(found, shape, 3 * sizeof *shape) == 0)
        return CST_OK;
    return cst_fail(context, CST_ERROR_IO,
                    "%s: its size has changed since it was first opened; run the command again "
                    "when nothing writes to the file",
                    path);
}

cst_status cst_mask_read(cst_context *context, const char *path, uint64_t zip_limit,
                         const int64_t shape[3], int32_t *out) {
    CST_SCOPE(scope);
    cst_npy *npy = NULL;
    int64_t found[3] = {1, 0, 0};
    if (cst_is_png(path))
        return shape[0] == 1 ? cst_png_read_into(context, path, zip_limit, shape[1], shape[2], out)
                             : check_mask(context, path, found, shape);
    CST_TRY(open_mask(context, scope, path, zip_limit, &npy));
    mask_shape(npy, found);
    CST_TRY(check_mask(context, path, found, shape));
    return cst_npy_read_all_i32(context, npy, out);
}

cst_status cst_npy_read_all_i32(cst_context *context, cst_npy *npy, int32_t *out) {
    CST_SCOPE(scope);
    const char *path = cst_bytes_name(npy->source);
    npy->row_axes = npy->dims > 1 ? npy->dims - 1 : 1;
    int64_t rows = cst_npy_rows(npy);
    int64_t width = cst_npy_width(npy);
    int64_t piece = PIECE_VALUES / (width > 0 ? width : 1) + 1;
    size_t cells = 0;
    if (!cst_size_mul((size_t)piece, (size_t)width, &cells))
        return cst_fail_size(context, path, piece, width);
    CST_NEW(context, scope, double, values, cells);
    for (int64_t first = 0; first < rows; first += piece) {
        int64_t count = rows - first < piece ? rows - first : piece;
        CST_TRY(cst_npy_read_rows_f64(context, npy, first, count, values));
        for (int64_t i = 0; i < count * width; i++) {
            double v = values[i];
            if (!(v >= INT32_MIN && v <= INT32_MAX) || v < floor(v) || v > floor(v))
                return cst_fail(context, CST_ERROR_INPUT,
                                "%s: element %" PRId64 " is %g, not a class number", path,
                                first * width + i, v);
            out[first * width + i] = (int32_t)v;
        }
    }
    return CST_OK;
}
