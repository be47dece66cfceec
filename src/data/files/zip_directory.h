/* The directory of a zip archive: which members there are and where. Between bytes.c and zip.c. */
#ifndef CST_IO_ZIP_DIRECTORY_H
#define CST_IO_ZIP_DIRECTORY_H

#include "data/files/bytes.h"

/* A plain file that is open. */
typedef struct cst_zip_file {
    const char *path; /* for messages */
    int fd;
    const struct stat *info;
    uint64_t bytes;
    const struct cst_zip_directory *known; /* parsed before in this call; NULL: it has to be */
} cst_zip_file;

/* Opens an archive, or takes the one that this call has parsed before. `path` is borrowed; *info:
 * its status. The caller closes file->fd. */
cst_status cst_zip_open_file(cst_context *context, const char *path, struct stat *info,
                             cst_zip_file *out);

/* What is to follow the archive so that whoever reads it from the end finds one member in it and
 * nothing else: `zeros` bytes of 0, then `record`. */
typedef struct cst_zip_tail {
    size_t zeros;
    size_t bytes; /* of the record */
    unsigned char *record;
} cst_zip_tail;

/* Finds the member called `name` ("x" finds "x.npy"), or the only one where name is NULL: what it
 * is called in the archive, and the tail that shows it alone. The time taken grows as the directory
 * does, whatever the names are, and a call reads it once. Refused are: more members, or a longer
 * directory, than any archive of arrays has; a directory that is not what the end record says; two
 * members that are one array to NumPy; what programs read in different ways. */
cst_status cst_zip_find(cst_context *context, const cst_zip_file *file, const char *name,
                        char **entry, cst_zip_tail *tail);

#endif
