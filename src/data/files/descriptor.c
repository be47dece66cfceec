/*
 * Paths that mean an open descriptor. A link in /proc/<process>/fd looks like any other and leads
 * to a file, yet it stands for what is open, at its offset. Under output.c.
 */
#define _XOPEN_SOURCE 700 /* realpath */
#include "data/files/descriptor.h"

#include <corestack/files.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#ifndef PATH_MAX
#define PATH_MAX 4096
#endif

enum { MAX_LINKS = 40, MAX_DIGITS = 9 };

/* Whether a folder, without links in its path, holds open descriptors; *own: of this process. */
static bool holds_descriptors(const char *folder, bool *own) {
    char self[PATH_MAX];
    size_t length = strlen(folder);
    *own = strcmp(folder, "/dev/fd") == 0; /* a folder itself where there is no /proc */
    if (*own)
        return true;
    if (length < 9 || strncmp(folder, "/proc/", 6) != 0 || strcmp(folder + length - 3, "/fd") != 0)
        return false;
    *own = realpath("/proc/self", self) && strncmp(folder, self, strlen(self)) == 0 &&
           folder[strlen(self)] == '/';
    return true;
}

bool cst_names_descriptor(const char *path, int *fd) {
    char at[PATH_MAX];
    char link[PATH_MAX];
    char folder[PATH_MAX];
    bool own = false;
    *fd = -1;
    if (strlen(path) >= sizeof at)
        return false;
    memcpy(at, path, strlen(path) + 1);
    for (int hop = 0; hop < MAX_LINKS; hop++) {
        char *slash = strrchr(at, '/');
        const char *base = slash ? slash + 1 : at;
        size_t above = (size_t)(base - at);
        size_t digits = strspn(base, "0123456789");
        char first = *base;
        at[above] = '\0';
        const char *found = realpath(above ? at : ".", folder);
        at[above] = first;
        if (!found)
            return false;
        if (digits > 0 && digits <= MAX_DIGITS && !base[digits] &&
            holds_descriptors(folder, &own)) {
            *fd = own ? (int)strtol(base, NULL, 10) : -1;
            return true;
        }
        ssize_t length = readlink(at, link, sizeof link - 1);
        if (length <= 0)
            return false;
        above = *link == '/' ? 0 : above; /* what it says stands beside the link, or alone */
        if (above + (size_t)length >= sizeof at)
            return false;
        memcpy(at + above, link, (size_t)length);
        at[above + (size_t)length] = '\0';
    }
    return false;
}

int cst_path_is_descriptor(const char *path) {
    int fd = -1;
    return path && cst_names_descriptor(path, &fd);
}
