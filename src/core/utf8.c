/* Checks UTF-8 by the table of well-formed sequences (The Unicode Standard, table 3-7): no overlong
 * forms, no surrogates, nothing beyond U+10FFFF. docs/model-format.md#strings. */
#include "core/utf8.h"

#include <corestack/context.h>
#include <string.h>

size_t cst_utf8_length(const uint8_t *bytes, size_t left) {
    uint8_t lead = bytes[0];
    if (lead < 0x80)
        return 1;
    size_t length = lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : 2;
    if (lead < 0xc2 || lead > 0xf4 || length > left)
        return 0;
    /* The second byte is narrower after four lead bytes; the others are 0x80..0xbf. */
    uint8_t low = lead == 0xe0 ? 0xa0 : lead == 0xf0 ? 0x90 : 0x80;
    uint8_t high = lead == 0xed ? 0x9f : lead == 0xf4 ? 0x8f : 0xbf;
    if (bytes[1] < low || bytes[1] > high)
        return 0;
    for (size_t i = 2; i < length; i++)
        if (bytes[i] < 0x80 || bytes[i] > 0xbf)
            return 0;
    return length;
}

size_t cst_utf8_text(const uint8_t *bytes, size_t size) {
    size_t at = 0;
    while (at < size && bytes[at] >= 0x20 && bytes[at] != 0x7f) {
        size_t length = cst_utf8_length(bytes + at, size - at);
        if (length == 0)
            break;
        at += length;
    }
    return at;
}

bool cst_utf8_steers(uint32_t c) {
    return c < 0x20 || (c >= 0x7F && c < 0xA0) || c == 0x061C || c == 0x200E || c == 0x200F ||
           (c >= 0x2028 && c <= 0x202E) || (c >= 0x2066 && c <= 0x206F) || c == 0xFEFF ||
           (c >= 0xFFF9 && c <= 0xFFFB) || (c >= 0xE0000 && c <= 0xE007F);
}

uint32_t cst_utf8_character(const uint8_t *at, size_t bytes) {
    uint32_t character = bytes < 2 ? *at : *at & (0xFFu >> (bytes + 1));
    for (size_t i = 1; i < bytes; i++)
        character = character << 6 | (at[i] & 0x3Fu);
    return character;
}

size_t cst_utf8_name(const uint8_t *bytes, size_t size) {
    size_t at = 0;
    while (at < size) {
        size_t length = cst_utf8_length(bytes + at, size - at);
        if (length == 0 || cst_utf8_steers(cst_utf8_character(bytes + at, length)))
            break;
        at += length;
    }
    return at;
}

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
