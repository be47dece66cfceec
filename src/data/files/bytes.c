/* Sources: plain files read by offset with pread, zip members handed to zip.c. */
#include "data/files/bytes.h"

#include "core/retry.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

struct cst_bytes {
    cst_scope scope;
    char *name;
    int fd;             /* of the file or archive; -1 if it is closed already */
    struct stat opened; /* the file as it was then */
    cst_packed packed;  /* a zip member or gzip file */
    uint64_t size;
    unsigned char *memory; /* the whole content, where it was slurped */
    void *mapped;          /* the file, where it was mapped */
};

static const char TENSORS[] = ".safetensors";

static bool has_suffix(const char *text, const char *suffix) {
    size_t length = strlen(text);
    size_t tail = strlen(suffix);
    return length >= tail && strcmp(text + length - tail, suffix) == 0;
}

bool cst_path_ends(const char *path, const char *extension) {
    size_t length = strlen(path);
    size_t tail = strlen(extension);
    if (length < tail)
        return false;
    for (size_t i = 0; i < tail; i++)
        if ((path[length - tail + i] | 0x20) != (extension[i] | 0x20))
            return false;
    return true;
}

static const char *const TEXTS[] = {".csv", ".tsv", ".txt", ".csv.gz", ".tsv.gz", ".txt.gz"};

bool cst_path_is_text(const char *path) {
    for (size_t i = 0; i < sizeof TEXTS / sizeof *TEXTS; i++)
        if (cst_path_ends(path, TEXTS[i]))
            return true;
    return false;
}

size_t cst_path_column(const char *path) {
    for (const char *mark = strchr(path, '#'); mark; mark = strchr(mark + 1, '#')) {
        size_t length = (size_t)(mark - path);
        for (size_t i = 0; mark[1] && i < sizeof TEXTS / sizeof *TEXTS; i++) {
            size_t tail = strlen(TEXTS[i]);
            size_t k = 0;
            while (length > tail && k < tail &&
                   (path[length - tail + k] | 0x20) == (TEXTS[i][k] | 0x20))
                k++;
            if (k == tail)
                return length;
        }
    }
    return 0;
}

/* As cst_path_member, of a file of tensors: splits at the first separator. */
static size_t tensor_separator(const char *path) {
    size_t length = sizeof TENSORS - 1;
    for (const char *p = path; (p = strstr(p, TENSORS)) != NULL; p += length)
        if (p[length] == '#' || p[length] == ':')
            return (size_t)(p - path) + length;
    return 0;
}

size_t cst_path_member(const char *path) {
    size_t found = tensor_separator(path);
    if (!found)
        found = cst_path_column(path);
    if (found)
        return found;
    for (const char *p = path; (p = strstr(p, ".npz")) != NULL; p += 4)
        if (p[4] == '#' || p[4] == ':')
            found = (size_t)(p - path) + 4;
    return found;
}

bool cst_path_is_safetensors(const char *path) {
    return tensor_separator(path) > 0 || (!cst_path_member(path) && has_suffix(path, TENSORS));
}

/* A source without bytes yet. */
static cst_status make(cst_context *context, const char *name, cst_bytes **out) {
    cst_bytes *source = cst_alloc(context, 1, sizeof *source);
    *out = source;
    if (!source)
        return CST_ERROR_MEMORY;
    source->fd = -1;
    source->name = cst_take_text(context, &source->scope, name);
    return source->name ? CST_OK : CST_ERROR_MEMORY;
}

static cst_status made(cst_context *context, cst_bytes **out, cst_status status) {
    if (status == CST_OK)
        return CST_OK;
    cst_bytes_close(context, *out);
    *out = NULL;
    return status;
}

static cst_status open_plain(cst_context *context, cst_bytes *source, const char *path) {
    CST_TRY(cst_open_plain(context, path, &source->fd, &source->opened));
    source->size = (uint64_t)source->opened.st_size;
    return CST_OK;
}

static cst_status open_any(cst_context *context, cst_bytes *source, uint64_t limit) {
    const char *path = source->name;
    const size_t separator = cst_path_member(path);
    char *file = cst_take_text(context, &source->scope, path);
    if (!file)
        return CST_ERROR_MEMORY;
    if (separator)
        file[separator] = '\0';
    limit = limit ? limit : CST_ZIP_LIMIT_DEFAULT;
    if (!tensor_separator(path) && (separator || has_suffix(path, ".npz")))
        CST_TRY(cst_zip_open(context, &source->scope, &source->packed, file,
                             separator ? path + separator + 1 : NULL, limit, &source->fd,
                             &source->opened));
    else if (!separator && cst_path_ends(path, ".gz"))
        CST_TRY(cst_gz_open(context, &source->scope, &source->packed, file, limit, &source->fd,
                            &source->opened));
    else
        return open_plain(context, source, file);
    source->size = source->packed.size;
    return CST_OK;
}

cst_status cst_bytes_open(cst_context *context, cst_bytes **out, const char *path,
                          uint64_t zip_limit) {
    const size_t column = cst_path_column(path);
    cst_status status = make(context, path, out);
    if (status == CST_OK && column)
        (*out)->name[column] = '\0';
    CST_THEN(open_any(context, *out, zip_limit));
    return made(context, out, status);
}

cst_status cst_bytes_open_file(cst_context *context, cst_bytes **out, const char *path) {
    cst_status status = make(context, path, out);
    CST_THEN(open_plain(context, *out, path));
    return made(context, out, status);
}

cst_status cst_bytes_of_descriptor(cst_context *context, cst_bytes **out, const char *name, int fd,
                                   const struct stat *info) {
    cst_status status = make(context, name, out);
    if (status != CST_OK) {
        (void)close(fd);
        return made(context, out, status);
    }
    (*out)->fd = fd;
    (*out)->opened = *info;
    (*out)->size = (uint64_t)info->st_size;
    return CST_OK;
}

void cst_bytes_close(cst_context *context, void *closed) {
    cst_bytes *source = closed;
    if (!source)
        return;
    cst_scope_free(&source->scope);
    if (source->fd >= 0)
        (void)close(source->fd);
    if (source->mapped)
        (void)munmap(source->mapped, (size_t)source->size);
    cst_free(context, source);
}

uint64_t cst_bytes_size(const cst_bytes *source) {
    return source->size;
}

const struct stat *cst_bytes_info(const cst_bytes *source) {
    return &source->opened;
}

const char *cst_bytes_name(const cst_bytes *source) {
    return source->name;
}

bool cst_bytes_seekable(const cst_bytes *source) {
    return !source->packed.read || source->memory;
}

int cst_bytes_descriptor(const cst_bytes *source) {
    return source->fd;
}

/* After each read, the file must be as it was when it was opened. */
static cst_status check_unchanged(cst_context *context, const cst_bytes *source) {
    struct stat now;
    return fstat(source->fd, &now) != 0 || cst_file_unchanged(&source->opened, &now)
               ? CST_OK
               : cst_file_changed(context, source->name);
}

cst_status cst_bytes_read(cst_context *context, cst_bytes *source, uint64_t offset, void *out,
                          size_t bytes) {
    if (offset > source->size || bytes > source->size - offset)
        return cst_fail(
            context, CST_ERROR_FORMAT,
            "%s: truncated: %zu bytes expected at byte %llu, but the file ends at byte %llu",
            source->name, bytes, (unsigned long long)offset, (unsigned long long)source->size);
    if (bytes == 0)
        return CST_OK;
    if (source->memory) {
        memcpy(out, source->memory + offset, bytes);
        return CST_OK;
    }
    if (source->packed.read)
        CST_TRY(source->packed.read(context, source->packed.state, offset, out, bytes));
    else
        CST_TRY(
            cst_read_plain(context, source->fd, source->name, source->size, offset, out, bytes));
    return check_unchanged(context, source);
}

cst_status cst_bytes_slurp(cst_context *context, cst_bytes *source, const unsigned char **out) {
    if (!source->memory) {
        unsigned char *memory;
        CST_TAKE(context, &source->scope, memory, source->size);
        CST_TRY(cst_bytes_read(context, source, 0, memory, (size_t)source->size));
        source->memory = memory;
    }
    *out = source->memory;
    return CST_OK;
}

cst_status cst_bytes_map(cst_context *context, cst_bytes *source, const unsigned char **out) {
    struct stat info;
    *out = source->memory ? source->memory : source->mapped;
    if (*out)
        return CST_OK;
    if (source->packed.read)
        return cst_fail(context, CST_ERROR_UNSUPPORTED,
                        "%s: not a regular file, so it cannot be memory-mapped", source->name);
    if (fstat(source->fd, &info) != 0 || (uint64_t)info.st_size < source->size)
        return cst_fail(context, CST_ERROR_IO,
                        "%s: had %llu bytes when it was opened and is shorter now; did it change "
                        "in the meantime?",
                        source->name, (unsigned long long)source->size);
    void *mapped = mmap(NULL, (size_t)source->size, PROT_READ, MAP_PRIVATE, source->fd, 0);
    if (mapped == MAP_FAILED)
        return cst_fail(context, CST_ERROR_IO, "%s: cannot map the file into memory: %s",
                        source->name, strerror(errno));
    source->mapped = mapped;
    *out = mapped;
    return CST_OK;
}
