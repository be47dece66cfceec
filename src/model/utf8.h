/*
 * Names in model files are text: valid UTF-8 without control characters, so that an error message
 * that quotes one stays one line. Part of reading a model. docs/model-format.md, "Strings".
 */
#ifndef CST_UTF8_H
#define CST_UTF8_H

#include <stddef.h>
#include <stdint.h>

/* Length of the longest prefix that is text; `size` when all of it is. */
size_t cst_utf8_text(const uint8_t *bytes, size_t size);

#endif
