/*
 * Whether -o means an open descriptor (/dev/stdout, /dev/fd/N): then no file is renamed over what
 * it leads to, and the library writes to it as it is.
 * First step of the commands that write a file. Paper: none.
 */
#define _XOPEN_SOURCE 700 /* realpath */
#include "cli.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MOST_LINKS = 40 };

/* Of a folder without links in its path. */
static bool holds_descriptors(const char *folder) {
    size_t length = strlen(folder);
    return strcmp(folder, "/dev/fd") == 0 || (length > 8 && strncmp(folder, "/proc/", 6) == 0 &&
                                              strcmp(folder + length - 3, "/fd") == 0);
}

bool cli_names_descriptor(const char *path) {
    char at[CLI_PATH_CHARS];
    char next[CLI_PATH_CHARS];
    char link[CLI_PATH_CHARS];
    if (snprintf(at, sizeof at, "%s", path) >= (int)sizeof at)
        return false;
    for (int hop = 0; hop < MOST_LINKS; hop++) {
        const char *slash = strrchr(at, '/');
        const char *base = slash ? slash + 1 : at;
        (void)snprintf(next, sizeof next, "%.*s.", (int)(base - at), at);
        char *folder = realpath(next, NULL);
        bool found =
            folder && *base && !base[strspn(base, "0123456789")] && holds_descriptors(folder);
        free(folder);
        if (found)
            return true;
        ssize_t length = readlink(at, link, sizeof link - 1);
        if (length <= 0)
            return false;
        link[length] = '\0';
        int fits = *link == '/' ? snprintf(next, sizeof next, "%s", link)
                                : snprintf(next, sizeof next, "%.*s%s", (int)(base - at), at, link);
        if (fits < 0 || (size_t)fits >= sizeof next)
            return false;
        memcpy(at, next, (size_t)fits + 1);
    }
    return false;
}
