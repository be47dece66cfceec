/* Folders of cases and label masks. docs/segmentation.md#files. */
#include "data/readers/cases.h"

#include "core/order.h"
#include "core/retry.h"
#include "core/scope.h"
#include "data/readers/png.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
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

/* Length of the name without one of the extensions; 0 where it has none of them. */
static size_t stem_length(const char *name, const char *const *extensions) {
    size_t length = strlen(name);
    for (size_t e = 0; extensions[e]; e++) {
        size_t tail = strlen(extensions[e]);
        if (length > tail && strcasecmp(name + length - tail, extensions[e]) == 0)
            return length - tail;
    }
    return 0;
}

/* Paths of the files that count, sorted. */
static cst_status collect(cst_context *context, const char *folder, const char *const *extensions,
                          cst_case_files *out) {
    DIR *open = cst_open_entries(AT_FDCWD, folder, 0);
    if (!open)
        return cst_fail(context, CST_ERROR_IO, "%s: cannot list the folder: %s", folder,
                        strerror(errno));
    cst_status status = CST_OK;
    int64_t room = 0;
    size_t length = strlen(folder);
    const char *slash = length > 0 && folder[length - 1] == '/' ? "" : "/";
    for (const struct dirent *entry; status == CST_OK && (entry = cst_next_entry(open)) != NULL;) {
        if (entry->d_name[0] == '.' || stem_length(entry->d_name, extensions) == 0)
            continue;
        if (out->count == room) {
            room = 2 * room + 64;
            char **grown =
                cst_grow(context, out->paths, (size_t)out->count, (size_t)room, sizeof *grown);
            status = grown ? CST_OK : CST_ERROR_MEMORY;
            out->paths = grown ? grown : out->paths;
        }
        if (status != CST_OK)
            break;
        out->paths[out->count] = cst_format(context, "%s%s%s", folder, slash, entry->d_name);
        status = out->paths[out->count] ? CST_OK : CST_ERROR_MEMORY;
        out->count += status == CST_OK;
    }
    if (status == CST_OK && errno != 0)
        status = cst_fail(context, CST_ERROR_IO, "%s: cannot list the folder: %s", folder,
                          strerror(errno));
    (void)closedir(open);
    if (out->count > 1)
        qsort(out->paths, (size_t)out->count, sizeof *out->paths, cst_by_text);
    return status;
}

/* The part of a path that names its case. */
static const char *case_name(const char *path, const char *const *extensions, size_t *length) {
    const char *base = strrchr(path, '/');
    base = base ? base + 1 : path;
    *length = stem_length(base, extensions);
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

cst_status cst_case_files_list(cst_context *context, const char *folder,
                               const char *const *extensions, cst_case_files *out) {
    *out = (cst_case_files){0};
    CST_TRY(collect(context, folder, extensions, out));
    if (out->count == 0)
        return cst_fail(context, CST_ERROR_INPUT, "%s: the folder has no case files (NAME%s)",
                        folder, extensions[0]);
    CST_TRY(cst_strings_create(context, &out->names));
    /* Sorted with extensions, "a.b.npy" may stand before "a.npy": an insertion puts few right. */
    for (int64_t i = 1; i < out->count; i++)
        for (int64_t j = i; j > 0 && by_case(out->paths[j - 1], out->paths[j], extensions) > 0;
             j--) {
            char *path = out->paths[j];
            out->paths[j] = out->paths[j - 1];
            out->paths[j - 1] = path;
        }
    for (int64_t i = 0; i < out->count; i++) {
        size_t length = 0;
        const char *name = case_name(out->paths[i], extensions, &length);
        if (i > 0 && by_case(out->paths[i - 1], out->paths[i], extensions) == 0)
            return cst_fail(context, CST_ERROR_INPUT,
                            "%s and %s are both files of case '%.*s'; keep one of them",
                            out->paths[i - 1], out->paths[i], (int)length, name);
        else
            CST_TRY(cst_strings_add(context, out->names, name, length));
    }
    return CST_OK;
}

void cst_case_files_clear(cst_context *context, cst_case_files *files) {
    for (int64_t i = 0; i < files->count; i++)
        cst_free(context, files->paths[i]);
    cst_free(context, files->paths);
    cst_strings_free(context, files->names);
    *files = (cst_case_files){0};
}

bool cst_is_png(const char *path) {
    size_t length = strlen(path);
    return length > 4 && strcasecmp(path + length - 4, ".png") == 0;
}

static cst_status open_mask(cst_context *context, cst_scope *scope, const char *path,
                            uint64_t zip_limit, cst_npy **out) {
    char shape[CST_NPY_SHAPE_CHARS];
    CST_TRY(cst_npy_open(context, out, path, zip_limit));
    CST_TRY(cst_scope_own(context, scope, cst_npy_close, *out));
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
