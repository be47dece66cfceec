/*
 * Text of files and callers in messages and pages: nothing in it may steer a terminal or turn the
 * order of what is read. Under every message, page and the tool's own lines. Paper: none.
 */
#ifndef CST_BASE_PRINTABLE_H
#define CST_BASE_PRINTABLE_H

/* Puts '?' in place, byte for byte, of control characters (C0 but `keep`, DEL, C1), of the marks
 * that break lines or turn their direction (U+061C, U+200E, U+200F, U+2028 to U+202E, U+2066 to
 * U+2069) and of bytes that are no UTF-8. keep: '\n', or ' ' for none. */
void cst_make_printable(char *text, char keep);

#endif
