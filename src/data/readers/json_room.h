/*
 * How much memory JSON takes once it is parsed, judged by its text alone: the parser's memory is
 * not the context's. Before every parse of a whole document. docs/security.md#caps.
 */
#ifndef CST_IO_JSON_ROOM_H
#define CST_IO_JSON_ROOM_H

#include "core/base.h"

#include <jansson.h>

/* More is refused whatever the context's budget. */
#define CST_JSON_ROOM_MAX ((size_t)512 << 20)

/* Parses text [size] of the document at `path`. *root is NULL, with CST_OK, where `error` says what
 * is wrong with it: the caller words that. CST_ERROR_LIMIT where it would take more than half of
 * the context's memory, or more than CST_JSON_ROOM_MAX. Asks on the way whether to stop. */
cst_status cst_json_parse(cst_context *context, const char *path, const unsigned char *text,
                          size_t size, json_t **root, json_error_t *error);

#endif
