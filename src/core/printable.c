/*
 * Text of files and callers in messages and pages: nothing in it may steer a terminal or turn the
 * order of what is read. Under every message, page and the tool's own lines.
 */
#include "core/utf8.h"

#include <corestack/context.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

void cst_make_printable(char *text, char keep) {
    unsigned char *at = (unsigned char *)text;
    for (size_t left = text ? strlen(text) : 0; left > 0;) {
        size_t bytes = cst_utf8_length(at, left);
        if (bytes == 0 ||
            (cst_utf8_steers(cst_utf8_character(at, bytes)) && *at != (unsigned char)keep))
            memset(at, '?', bytes > 0 ? bytes : 1);
        bytes = bytes > 0 ? bytes : 1;
        at += bytes;
        left -= bytes;
    }
}
