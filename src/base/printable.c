/*
 * Text of files and callers in messages and pages: nothing in it may steer a terminal or turn the
 * order of what is read. Under every message, page and the tool's own lines. Paper: none.
 */
#include "base/utf8.h"

#include <corestack/context.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

static bool steers(uint32_t c) {
    return c < 0x20 || (c >= 0x7F && c < 0xA0) || c == 0x061C || c == 0x200E || c == 0x200F ||
           (c >= 0x2028 && c <= 0x202E) || (c >= 0x2066 && c <= 0x2069);
}

/* The character of a well-formed sequence. */
static uint32_t character_of(const unsigned char *at, size_t bytes) {
    uint32_t character = bytes < 2 ? *at : *at & (0xFFu >> (bytes + 1));
    for (size_t i = 1; i < bytes; i++)
        character = character << 6 | (at[i] & 0x3Fu);
    return character;
}

void cst_make_printable(char *text, char keep) {
    unsigned char *at = (unsigned char *)text;
    for (size_t left = text ? strlen(text) : 0; left > 0;) {
        size_t bytes = cst_utf8_length(at, left);
        if (bytes == 0 || (steers(character_of(at, bytes)) && *at != (unsigned char)keep))
            memset(at, '?', bytes > 0 ? bytes : 1);
        bytes = bytes > 0 ? bytes : 1;
        at += bytes;
        left -= bytes;
    }
}
