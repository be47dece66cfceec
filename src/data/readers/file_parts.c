/* Parts of files: lists and folders. See the header. Under the manifest. */
#include "data/readers/file_parts.h"

#include "core/retry.h"
#include "core/scope.h"
#include "data/files/bytes.h"
#include "data/readers/strings.h"

#include <dirent.h>
#include <inttypes.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

static bool is_digit(char c) {
    return c >= '0' && c <= '9';
}

static int natural_order(const char *a, const char *b) {
    const char *x = a;
    const char *y = b;
    while (*x && *y) {
        if (is_digit(*x) && is_digit(*y)) {
            x += strspn(x, "0");
            y += strspn(y, "0");
            size_t digits = strspn(x, "0123456789");
            size_t others = strspn(y, "0123456789");
            int order =
                digits != others ? (digits > others) - (digits < others) : strncmp(x, y, digits);
            if (order != 0)
                return order;
            x += digits;
            y += others;
        } else if (*x != *y) {
            return (unsigned char)*x < (unsigned char)*y ? -1 : 1;
        } else {
            x++;
            y++;
        }
    }
    return *x || *y ? (*x != 0) - (*y != 0) : strcmp(a, b);
}

static int by_number(const void *a, const void *b) {
    return natural_order(*(char *const *)a, *(char *const *)b);
}

static const char *const ENDINGS[] = {".npy",    ".npz",         ".csv",    ".tsv",
                                      ".txt",    ".safetensors", ".csv.gz", ".tsv.gz",
                                      ".txt.gz", ".npy.gz",      NULL};

size_t cst_stem_length(const char *name, const char *const *endings) {
    size_t length = strlen(name);
    for (size_t e = 0; endings[e]; e++) {
        size_t tail = strlen(endings[e]);
        if (length > tail && strcasecmp(name + length - tail, endings[e]) == 0)
            return length - tail;
    }
    return 0;
}

static cst_status check_endings(cst_context *context, const char *folder,
                                const cst_file_parts *parts) {
    const char *first = NULL;
    if (parts->count == 0)
        return cst_fail(context, CST_ERROR_INPUT,
                        "%s: the folder has no parts (files such as part-000.npy)", folder);
    for (int64_t i = 0; i < parts->count; i++) {
        size_t stem = cst_stem_length(parts->paths[i], ENDINGS);
        const char *ending = parts->paths[i] + stem;
        if (stem == 0)
            return cst_fail(context, CST_ERROR_INPUT,
                            "%s: is not a file of rows; move it out of %s, or list the parts in "
                            "the manifest",
                            parts->paths[i], folder);
        first = first ? first : ending;
        if (strcasecmp(first, ending) != 0)
            return cst_fail(context, CST_ERROR_INPUT,
                            "%s: the parts %s and %s have different endings; keep files of one "
                            "format, or list the parts in the manifest",
                            folder, parts->paths[0], parts->paths[i]);
    }
    return CST_OK;
}

static void close_folder(cst_context *context, void *folder) {
    (void)context;
    (void)closedir(folder);
}

cst_status cst_folder_list(cst_context *context, cst_scope *scope, const char *folder,
                           const char *const *endings, int (*order)(const void *, const void *),
                           cst_file_parts *out) {
    size_t length = strlen(folder);
    const char *slash = length > 0 && folder[length - 1] == '/' ? "" : "/";
    DIR *open = cst_open_entries(AT_FDCWD, folder, 0);
    CST_SCOPE(own);
    *out = (cst_file_parts){0};
    if (!open)
        return cst_fail(context, CST_ERROR_IO, "%s: cannot list the folder: %s", folder,
                        strerror(errno));
    CST_TRY(cst_scope_own(context, own, close_folder, open));
    for (const struct dirent *entry; (entry = cst_next_entry(open)) != NULL;) {
        CST_TRY(cst_poll_reading(context));
        if (entry->d_name[0] == '.' || (endings && cst_stem_length(entry->d_name, endings) == 0))
            continue;
        if (!endings && out->count == CST_PARTS_MAX)
            return cst_fail(context, CST_ERROR_LIMIT, "%s: has more than %d parts", folder,
                            CST_PARTS_MAX);
        char **paths = cst_take_more(context, scope, out->paths, out->count, sizeof *paths);
        char *path = cst_take_format(context, scope, "%s%s%s", folder, slash, entry->d_name);
        if (!paths || !path)
            return CST_ERROR_MEMORY;
        out->paths = paths;
        paths[out->count++] = path;
    }
    if (errno != 0)
        return cst_fail(context, CST_ERROR_IO, "%s: cannot list the folder: %s", folder,
                        strerror(errno));
    if (out->count > 1)
        qsort(out->paths, (size_t)out->count, sizeof *out->paths, order);
    return CST_OK;
}

cst_status cst_file_parts_list(cst_context *context, cst_scope *scope, const char *folder,
                               cst_file_parts *out) {
    CST_TRY(cst_folder_list(context, scope, folder, NULL, by_number, out));
    return check_endings(context, folder, out);
}

cst_status cst_file_parts_check(cst_context *context, const char *where,
                                const cst_file_parts *parts) {
    cst_strings *paths;
    cst_id_index *index;
    int64_t twice[2];
    CST_SCOPE(scope);
    CST_TRY(cst_strings_take(context, scope, &paths));
    for (int64_t i = 0; i < parts->count; i++)
        CST_TRY(cst_strings_put(context, paths, parts->paths[i]));
    CST_TRY(cst_id_index_build(context, scope, &index, paths, where, twice));
    if (twice[0] < 0)
        return CST_OK;
    return cst_fail(context, CST_ERROR_INPUT,
                    "%s: part %" PRId64 " and part %" PRId64
                    " are the same file %s; list each part once",
                    where, twice[0], twice[1], parts->paths[twice[0]]);
}

typedef struct part_file {
    struct stat info;
    const char *member; /* "#name" of an archive, or "" */
    int64_t part;
} part_file;

static int by_file(const void *a, const void *b) {
    const part_file *x = a;
    const part_file *y = b;
    if (x->info.st_dev != y->info.st_dev)
        return x->info.st_dev < y->info.st_dev ? -1 : 1;
    if (x->info.st_ino != y->info.st_ino)
        return x->info.st_ino < y->info.st_ino ? -1 : 1;
    int order = strcmp(x->member, y->member);
    return order != 0 ? order : (x->part > y->part) - (x->part < y->part);
}

/* With size and time, as not every file system numbers its files well. */
static bool same_file(const part_file *a, const part_file *b) {
    return a->info.st_dev == b->info.st_dev && a->info.st_ino == b->info.st_ino &&
           cst_file_unchanged(&a->info, &b->info) && strcmp(a->member, b->member) == 0;
}

cst_status cst_file_parts_distinct(cst_context *context, const cst_file_parts *parts) {
    CST_SCOPE(scope);
    size_t found = 0;
    CST_NEW(context, scope, part_file, files, parts->count);
    for (int64_t k = 0; k < parts->count; k++) {
        struct stat info;
        size_t length = cst_path_member(parts->paths[k]);
        const char *member = length > 0 ? parts->paths[k] + length : "";
        char *path = cst_take_text(context, scope, parts->paths[k]);
        if (!path)
            return CST_ERROR_MEMORY;
        path[length > 0 ? length : strlen(path)] = '\0';
        if (stat(path, &info) == 0 && info.st_ino != 0) /* else opening it says what is wrong */
            files[found++] = (part_file){info, member, k};
    }
    qsort(files, found, sizeof *files, by_file);
    for (size_t i = 1; i < found; i++)
        if (same_file(&files[i - 1], &files[i]))
            return cst_fail(context, CST_ERROR_INPUT,
                            "%s and %s are the same file by two names; list each part once",
                            parts->paths[files[i - 1].part], parts->paths[files[i].part]);
    return CST_OK;
}

int64_t cst_row_parts_index(const cst_row_parts *parts, int64_t row) {
    int64_t low = 0;
    int64_t high = parts->files->count;
    while (high - low > 1) {
        int64_t middle = low + (high - low) / 2;
        if (parts->first[middle] <= row)
            low = middle;
        else
            high = middle;
    }
    return low;
}

const char *cst_row_parts_find(const cst_row_parts *parts, const char *path, int64_t *row) {
    if (!parts || !parts->first)
        return path;
    int64_t k = cst_row_parts_index(parts, *row);
    *row -= parts->first[k];
    return parts->files->paths[k];
}
