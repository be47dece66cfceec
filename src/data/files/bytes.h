/* A source: the bytes of a plain file or of a member of a zip archive (npz), read by offset and
 * never beyond a known size. Under every reader of predictions. */
#pragma once

#include "core/scope.h"

#include <sys/stat.h>

/* Largest uncompressed size of a zip member that is accepted when the caller gives 0. */
#define CST_ZIP_LIMIT_DEFAULT ((uint64_t)64 << 30)

/* Bytes read or inflated at most between two questions whether to stop. */
#define CST_PIECE_BYTES ((size_t)1 << 22)

typedef struct cst_bytes cst_bytes;

/* Opens `path`: ".gz" is inflated; "a.npz#name" or ":name" is a member, "a.npz" its only one
 * (CST_ERROR_INPUT without it); "a.safetensors#name" and "a.csv#column" the whole file. zip_limit
 * caps a member's size (0: CST_ZIP_LIMIT_DEFAULT). One thread at a time. */
cst_status cst_bytes_open(cst_context *context, cst_bytes **out, const char *path,
                          uint64_t zip_limit);
/* Opens a plain file, whatever its name. */
cst_status cst_bytes_open_file(cst_context *context, cst_bytes **out, const char *path);
void cst_bytes_close(cst_context *context, void *source); /* NULL is fine */

/* Bytes in all: the file's size, or what the archive declares for the member. */
uint64_t cst_bytes_size(const cst_bytes *source);

/* The status of the file, or of the archive of a member, when it was opened. Borrowed. */
const struct stat *cst_bytes_info(const cst_bytes *source);
/* The descriptor of the file or archive, which stays the source's; -1 if it has none. */
int cst_bytes_descriptor(const cst_bytes *source);
/* Makes a plain file that is open a source called `name`. fd: taken over, also after a failure. */
cst_status cst_bytes_of_descriptor(cst_context *context, cst_bytes **out, const char *name, int fd,
                                   const struct stat *info);

/* Whether size and modification time are the same. */
bool cst_file_unchanged(const struct stat *before, const struct stat *now);
/* CST_ERROR_IO: the file was replaced or changed while it was being read. */
cst_status cst_file_changed(cst_context *context, const char *path);

/* The path for messages. Borrowed. */
const char *cst_bytes_name(const cst_bytes *source);

/* Reads exactly `bytes` bytes at `offset`, or fails with the number found. Asks whether to stop.
 * Going back in a zip member inflates again. */
cst_status cst_bytes_read(cst_context *context, cst_bytes *source, uint64_t offset, void *out,
                          size_t bytes);

/* Reads the rest into memory: *out, borrowed, holds cst_bytes_size bytes. */
cst_status cst_bytes_slurp(cst_context *context, cst_bytes *source, const unsigned char **out);

/* True where reading at any offset is cheap (a plain file, or slurped already). */
bool cst_bytes_seekable(const cst_bytes *source);

/* Maps a plain file until it is closed (*out borrowed); nobody may shorten it meanwhile. */
cst_status cst_bytes_map(cst_context *context, cst_bytes *source, const unsigned char **out);

/* Position of the separator in "a.npz#name", "a.safetensors:name", "a.csv#column"; else 0. */
size_t cst_path_member(const char *path);
/* That of "a.csv#column" alone (also .tsv and .txt, each also with .gz). */
size_t cst_path_column(const char *path);
/* Whether the name of a file ends so, whatever the case. */
bool cst_path_ends(const char *path, const char *extension);
/* Whether it is the name of delimited text. */
bool cst_path_is_text(const char *path);
/* Whether the file that `path` names, or a tensor in it, is called .safetensors. */
bool cst_path_is_safetensors(const char *path);

/* Reads exactly `bytes` bytes at `offset` of an open file that had `size` bytes when it was opened.
 * Asks on the way whether to stop. name: for messages. */
cst_status cst_read_plain(cst_context *context, int fd, const char *name, uint64_t size,
                          uint64_t offset, void *out, size_t bytes);

/* Opens a regular file that is not empty. *info: its status. */
cst_status cst_open_plain(cst_context *context, const char *path, int *fd, struct stat *info);

/* The formats that can be read, for messages. */
#define CST_FORMATS "npy, npz, safetensors, csv, tsv and txt (also .csv.gz)"

/* In foreign.c: CST_ERROR_FORMAT, with advice, for a known format that cannot be read. */
cst_status cst_refuse_format(cst_context *context, const char *path, const unsigned char *begin,
                             size_t bytes);

/* ---- packed files, in zip.c and gz.c ---- */

typedef struct cst_packed {
    uint64_t size; /* of the content */
    void *state;   /* lives as long as the scope that it was opened with */
    cst_status (*read)(cst_context *context, void *state, uint64_t offset, void *out, size_t bytes);
} cst_packed;

/* name: NULL for the only member. *fd: open or -1; the caller closes it, also after a failure.
 * `archive` outlives the scope. */
cst_status cst_zip_open(cst_context *context, cst_scope *scope, cst_packed *out,
                        const char *archive, const char *name, uint64_t limit, int *fd,
                        struct stat *info);

/* Reads the file to its end, which checks it, once in a call; more than `limit` bytes of content
 * are CST_ERROR_LIMIT. The rest as above. */
cst_status cst_gz_open(cst_context *context, cst_scope *scope, cst_packed *out, const char *path,
                       uint64_t limit, int *fd, struct stat *info);
