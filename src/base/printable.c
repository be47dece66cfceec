/*
 * Text of files and callers in messages and pages: nothing in it may steer a terminal or turn the
 * order of what is read. Under every message, page and the tool's own lines. Paper: none.
 */
#include "base/printable.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

/* The character at `at` and its bytes; 0 bytes: no UTF-8. The end of the text ends a character. */
static int decode(const unsigned char *at, uint32_t *character) {
    static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
    int bytes = *at < 0x80   ? 1
                : *at < 0xC2 ? 0
                : *at < 0xE0 ? 2
                : *at < 0xF0 ? 3
                : *at < 0xF5 ? 4
                             : 0;
    *character = bytes < 2 ? *at : *at & (0xFFu >> (bytes + 1));
    for (int i = 1; i < bytes; i++) {
        if ((at[i] & 0xC0) != 0x80)
            return 0;
        *character = *character << 6 | (at[i] & 0x3Fu);
    }
    bool surrogate = *character >= 0xD800 && *character < 0xE000;
    return bytes > 0 && (*character < least[bytes] || *character > 0x10FFFF || surrogate) ? 0
                                                                                          : bytes;
}

static bool steers(uint32_t c) {
    return c < 0x20 || (c >= 0x7F && c < 0xA0) || c == 0x061C || c == 0x200E || c == 0x200F ||
           (c >= 0x2028 && c <= 0x202E) || (c >= 0x2066 && c <= 0x2069);
}

void cst_make_printable(char *text, char keep) {
    for (unsigned char *at = (unsigned char *)text; *at;) {
        uint32_t character = 0;
        int bytes = decode(at, &character);
        if (bytes == 0 || (steers(character) && *at != (unsigned char)keep))
            memset(at, '?', bytes > 0 ? (size_t)bytes : 1);
        at += bytes > 0 ? bytes : 1;
    }
}
