/*
 * Paths that mean an open descriptor: /dev/stdout, /dev/fd/N, /proc/self/fd/N, and links to them.
 * For output, which must not rename a file over what such a path leads to.
 */
#ifndef CST_IO_DESCRIPTOR_H
#define CST_IO_DESCRIPTOR_H

#include "core/base.h"

/* Whether `path` means an open descriptor. *fd is its number in this process, or -1 for one of
 * another process (/proc/<process>/fd/N), which can only be opened by the path. */
bool cst_names_descriptor(const char *path, int *fd);

#endif
