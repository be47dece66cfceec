/*
 * UTF-8: which bytes are characters, and which of them may stand in a name. Under the
 * readers of model files and of tensors, the report and every message. docs/model-format.md,
 * "Strings".
 */
#ifndef CST_BASE_UTF8_H
#define CST_BASE_UTF8_H

#include <stddef.h>
#include <stdint.h>

/* Length of the well-formed sequence at bytes[0..left-1], control characters among them; 0 when
 * there is none. left >= 1. */
size_t cst_utf8_length(const uint8_t *bytes, size_t left);

/* Length of the longest prefix that is text without control characters, so that a message that
 * quotes it stays one line; `size` when all of it is. */
size_t cst_utf8_text(const uint8_t *bytes, size_t size);

#endif
