/* More of a context (corestack/corestack.h): an allocator of its own, formulas in csv files, the
 * width of text, printable text. */
#ifndef CORESTACK_CONTEXT_H
#define CORESTACK_CONTEXT_H

#include <corestack/corestack.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Whether texts in csv files of predictions that a spreadsheet would take for a formula are written
 * as they are (keep: not 0), or with an apostrophe in front and a notice (0, the default). */
CST_API void cst_context_set_formulas(cst_context *context, int keep);

/* Sets the columns that reports as text may take: those of a terminal, or 0 for 100 (the default).
 * Tables that are wider leave out what is read least (cst_report_text_full: nothing) and continue
 * below; a single word may be longer. */
CST_API void cst_context_set_width(cst_context *context, int columns);

/* Replaces bytes of `text` in place with '?' so that the text cannot control a terminal: control
 * characters (C0 except `keep`, DEL, C1), line separators and bidirectional formatting characters
 * (U+061C, U+200E, U+200F, U+2028 to U+202E, U+2066 to U+206F), U+FEFF, U+FFF9 to U+FFFB, tags
 * (U+E0000 to U+E007F), and bytes that are not valid UTF-8. `keep` is '\n', or ' ' to replace all
 * control characters. Messages of the library are already printable. */
CST_API void cst_make_printable(char *text, char keep);

#ifdef __cplusplus
}
#endif
#endif
