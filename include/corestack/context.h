/* More of a context (corestack/corestack.h): an allocator of its own, formulas in csv files,
 * printable text. */
#ifndef CORESTACK_CONTEXT_H
#define CORESTACK_CONTEXT_H

#include <corestack/corestack.h>

#ifdef __cplusplus
extern "C" {
#endif

/* realloc_fn(user, NULL, n) allocates, realloc_fn(user, p, 0) frees and returns NULL. Called from
 * several threads at once. */
typedef void *(*cst_realloc_fn)(void *user, void *pointer, size_t bytes);

/* Creates a context like cst_context_create that allocates with `realloc_fn` (NULL: the C
 * allocator), which is called with `user`. For programs with an allocator of their own. */
CST_API cst_status cst_context_create_with(cst_context **out, cst_realloc_fn realloc_fn,
                                           void *user);

/* Whether texts in csv files of predictions that a spreadsheet would take for a formula are written
 * as they are (keep: not 0), or with an apostrophe in front and a notice (0, the default). */
CST_API void cst_context_set_formulas(cst_context *context, int keep);

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
