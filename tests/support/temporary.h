/*
 * Names of files and folders that a test makes for a moment: in TMPDIR, as those of the library.
 */
#ifndef CST_TEST_TEMPORARY_H
#define CST_TEST_TEMPORARY_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TEMPORARY_CHARS = 80 };

/* TMPDIR, unless its name leaves little room for those of files or a shell would not take it. */
static inline const char *temporary_folder(void) {
    const char *given = getenv("TMPDIR");
    return given && *given && strlen(given) <= 40 && !strchr(given, '\'') ? given : "/tmp";
}

/* TMPDIR/corestack-NAME-XXXXXX, for mkstemp and mkdtemp. It fits into TEMPORARY_CHARS, with a NAME
 * of up to 20. */
static inline void temporary_path(char *path, size_t room, const char *name) {
    (void)snprintf(path, room, "%s/corestack-%s-XXXXXX", temporary_folder(), name);
}

#endif
