/* Memory that JSON takes once it is parsed, judged by its text: the parser's memory is not the
 * context's. docs/reliability.md#caps. */
#pragma once

#include "core/base.h"

#include <jansson.h>

/* More is refused whatever the context's budget. */
#define CST_JSON_ROOM_MAX ((size_t)512 << 20)

/* Parses text [size]. *root is NULL, with CST_OK, where `error` says what is wrong. CST_ERROR_LIMIT
 * beyond half of the context's memory or CST_JSON_ROOM_MAX. */
cst_status cst_json_parse(cst_context *context, const char *path, const unsigned char *text,
                          size_t size, json_t **root, json_error_t *error);
/* The same of a file of at most `most` bytes. */
cst_status cst_json_read(cst_context *context, const char *path, size_t most, json_t **root,
                         json_error_t *error);
