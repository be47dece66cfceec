/*
 * Sources: plain files read by offset with pread, zip members handed to zip.c. Under every reader.
 */
#include "data/files/bytes.h"

#include "core/retry.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

struct cst_bytes {
    char *name;
    int fd;             /* -1 for a zip member */
    struct stat opened; /* the file as it was then */
    cst_zip_member *member;
    cst_gz *gz;
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

/* As cst_path_member, of a file of tensors. The first separator counts: names of tensors may hold
 * anything. */
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

/* A whole file. */
static cst_status open_source(cst_context *context, cst_bytes *source, const char *path) {
    cst_status status = cst_open_plain(context, path, &source->fd, &source->opened);
    if (status == CST_OK)
        source->size = (uint64_t)source->opened.st_size;
    return status;
}

/* The file of a tensor. */
static cst_status open_container(cst_context *context, cst_bytes *source, const char *path,
                                 size_t separator) {
    char *file = cst_strdup(context, path);
    if (!file)
        return CST_ERROR_MEMORY;
    file[separator] = '\0';
    cst_status status = open_source(context, source, file);
    cst_free(context, file);
    return status;
}

static cst_status open_member(cst_context *context, cst_bytes *source, const char *path,
                              size_t separator, uint64_t zip_limit) {
    char *archive = cst_strdup(context, path);
    if (!archive)
        return CST_ERROR_MEMORY;
    if (separator)
        archive[separator] = '\0';
    cst_status status = cst_zip_open(context, &source->member, archive, &source->opened,
                                     separator ? path + separator + 1 : NULL,
                                     zip_limit ? zip_limit : CST_ZIP_LIMIT_DEFAULT);
    if (status == CST_OK)
        source->size = cst_zip_size(source->member);
    cst_free(context, archive);
    return status;
}

static cst_status open_gz(cst_context *context, cst_bytes *source, const char *path,
                          uint64_t limit) {
    cst_status status = cst_gz_open(context, &source->gz, path, &source->opened,
                                    limit ? limit : CST_ZIP_LIMIT_DEFAULT);
    if (status == CST_OK)
        source->size = cst_gz_size(source->gz);
    return status;
}

/* A source without bytes yet. */
static cst_bytes *make(cst_context *context, const char *name) {
    cst_bytes *source = cst_alloc(context, 1, sizeof *source);
    if (!source)
        return NULL;
    source->fd = -1;
    source->name = cst_strdup(context, name);
    if (source->name)
        return source;
    cst_bytes_close(context, source);
    return NULL;
}

static cst_status made(cst_context *context, cst_bytes **out, cst_bytes *source,
                       cst_status status) {
    if (status == CST_OK)
        *out = source;
    else
        cst_bytes_close(context, source);
    return status;
}

/* The file of a column, which keeps the name of the column. */
static cst_status open_columns(cst_context *context, cst_bytes **out, const char *path,
                               size_t separator, uint64_t zip_limit) {
    char *file = cst_strdup(context, path);
    if (!file)
        return CST_ERROR_MEMORY;
    file[separator] = '\0';
    cst_status status = cst_bytes_open(context, out, file, zip_limit);
    cst_free(context, file);
    return status;
}

cst_status cst_bytes_open(cst_context *context, cst_bytes **out, const char *path,
                          uint64_t zip_limit) {
    *out = NULL;
    size_t column = cst_path_column(path);
    if (column)
        return open_columns(context, out, path, column, zip_limit);
    cst_bytes *source = make(context, path);
    if (!source)
        return CST_ERROR_MEMORY;
    size_t separator = cst_path_member(path);
    cst_status status = CST_OK;
    if (tensor_separator(path))
        status = open_container(context, source, path, separator);
    else if (separator || has_suffix(path, ".npz"))
        status = open_member(context, source, path, separator, zip_limit);
    else if (cst_path_ends(path, ".gz"))
        status = open_gz(context, source, path, zip_limit);
    else
        status = open_source(context, source, path);
    return made(context, out, source, status);
}

cst_status cst_bytes_open_file(cst_context *context, cst_bytes **out, const char *path) {
    *out = NULL;
    cst_bytes *source = make(context, path);
    if (!source)
        return CST_ERROR_MEMORY;
    return made(context, out, source, open_source(context, source, path));
}

cst_status cst_bytes_of_descriptor(cst_context *context, cst_bytes **out, const char *name, int fd,
                                   const struct stat *info) {
    *out = make(context, name);
    if (!*out) {
        (void)close(fd);
        return CST_ERROR_MEMORY;
    }
    (*out)->fd = fd;
    (*out)->opened = *info;
    (*out)->size = (uint64_t)info->st_size;
    return CST_OK;
}

void cst_bytes_close(cst_context *context, cst_bytes *source) {
    if (!source)
        return;
    if (source->fd >= 0)
        (void)close(source->fd);
    cst_zip_close(context, source->member);
    cst_gz_close(context, source->gz);
    if (source->mapped)
        (void)munmap(source->mapped, (size_t)source->size);
    cst_free(context, source->memory);
    cst_free(context, source->name);
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
    return source->fd >= 0 || source->memory;
}

int cst_bytes_descriptor(const cst_bytes *source) {
    return source->member ? cst_zip_descriptor(source->member)
           : source->gz   ? cst_gz_descriptor(source->gz)
                          : source->fd;
}

bool cst_file_unchanged(const struct stat *before, const struct stat *now) {
    return before->st_size == now->st_size && before->st_mtim.tv_sec == now->st_mtim.tv_sec &&
           before->st_mtim.tv_nsec == now->st_mtim.tv_nsec;
}

cst_status cst_file_changed(cst_context *context, const char *path) {
    return cst_fail(context, CST_ERROR_IO,
                    "%s: the file was replaced or changed while it was being read; run the command "
                    "again when nothing writes to it",
                    path);
}

/* After each read, the file must be as it was when it was opened. */
static cst_status check_unchanged(cst_context *context, const cst_bytes *source) {
    struct stat now;
    int fd = cst_bytes_descriptor(source);
    return fstat(fd, &now) != 0 || cst_file_unchanged(&source->opened, &now)
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
    cst_status status = source->member ? cst_zip_read(context, source->member, offset, out, bytes)
                        : source->gz   ? cst_gz_read(context, source->gz, offset, out, bytes)
                                       : cst_read_plain(context, source->fd, source->name,
                                                        source->size, offset, out, bytes);
    return status == CST_OK ? check_unchanged(context, source) : status;
}

cst_status cst_bytes_slurp(cst_context *context, cst_bytes *source, const unsigned char **out) {
    if (!source->memory) {
        unsigned char *memory = cst_alloc(context, (size_t)source->size, 1);
        if (!memory)
            return CST_ERROR_MEMORY;
        cst_status status = cst_bytes_read(context, source, 0, memory, (size_t)source->size);
        if (status != CST_OK) {
            cst_free(context, memory);
            return status;
        }
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
    if (source->fd < 0)
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
