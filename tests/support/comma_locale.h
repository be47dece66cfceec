/*
 * A locale whose decimal sign is a comma, for tests of what must not depend on it: an installed
 * one, or one that localedef makes (Debian: package locales) in a folder of its own.
 */
#ifndef COMMA_LOCALE_H
#define COMMA_LOCALE_H

#include "temporary.h"

#include <locale.h>
#include <stdbool.h>
#include <unistd.h>

static char comma_folder[TEMPORARY_CHARS];

static inline void comma_remove(void) {
    char command[128];
    (void)snprintf(command, sizeof command, "rm -rf '%s'", comma_folder);
    (void)!system(command);
}

static inline bool comma_set(const char *name) {
    return setlocale(LC_NUMERIC, name) && strcmp(localeconv()->decimal_point, ",") == 0;
}

/* One that localedef makes: numbers alone, which takes it some milliseconds. */
static inline void comma_make(void) {
    char text[256];
    (void)atexit(comma_remove);
    (void)setenv("LOCPATH", comma_folder, 1);
    (void)snprintf(text, sizeof text, "%s/source", comma_folder);
    FILE *source = fopen(text, "w");
    if (!source)
        return;
    (void)fputs("comment_char %\nescape_char /\nLC_NUMERIC\ndecimal_point \",\"\n"
                "thousands_sep \".\"\ngrouping 3;3\nEND LC_NUMERIC\n",
                source);
    (void)fclose(source);
    (void)snprintf(text, sizeof text, "cd '%s' && localedef -c -i source ./comma >/dev/null 2>&1",
                   comma_folder);
    (void)!system(text);
}

/* Sets it for the process, numbers only. False, with the C locale set, where there is none. */
static inline bool comma_locale(void) {
    static const char *const NAMES[] = {"comma", "de_DE.UTF-8", "fr_FR.UTF-8", "de_DE"};
    static bool tried = false;
    for (int go = 0; go < 2; go++) {
        for (size_t i = 0; i < sizeof NAMES / sizeof NAMES[0]; i++)
            if (comma_set(NAMES[i]))
                return true;
        if (tried)
            break;
        temporary_path(comma_folder, sizeof comma_folder, "locale");
        if (!mkdtemp(comma_folder))
            break;
        tried = true;
        comma_make();
    }
    (void)setlocale(LC_NUMERIC, "C");
    (void)fprintf(stderr, "no locale with a decimal comma: install the package locales\n");
    return false;
}

#endif
