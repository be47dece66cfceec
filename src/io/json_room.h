/*
 * How much memory JSON takes once it is parsed, judged by its text alone: the parser's memory is
 * not the context's. Before every parse of a whole document. docs/security.md, "Caps".
 */
#ifndef CST_IO_JSON_ROOM_H
#define CST_IO_JSON_ROOM_H

#include "base/base.h"

/* More is refused whatever the context's budget. */
#define CST_JSON_ROOM_MAX ((size_t)512 << 20)

/* CST_ERROR_LIMIT where the document at `path`, text [size], would take more than half of the
 * context's memory, or more than CST_JSON_ROOM_MAX. */
cst_status cst_json_check_room(cst_context *context, const char *path, const unsigned char *text,
                               size_t size);

#endif
