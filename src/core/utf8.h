/* UTF-8: which bytes are characters, which characters may be part of a name, and which are never
 * printed as they are. docs/model-format.md#strings. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Length of the well-formed sequence at bytes[0..left-1], control characters among them; 0 when
 * there is none. left >= 1. */
size_t cst_utf8_length(const uint8_t *bytes, size_t left);

/* Length of the longest prefix that is text without control characters, so that a message that
 * quotes it stays one line; `size` when all of it is. */
size_t cst_utf8_text(const uint8_t *bytes, size_t size);

/* Whether a character steers a terminal, turns the order of text or hides text: controls, line and
 * paragraph separators, marks of direction, deprecated format characters, annotations and tags. The
 * joiners of Arabic and Indic scripts are none of them. */
bool cst_utf8_steers(uint32_t character);

/* The character of a well-formed sequence of `bytes` bytes. */
uint32_t cst_utf8_character(const uint8_t *at, size_t bytes);

/* As cst_utf8_text, without any character that steers: what a name may be. */
size_t cst_utf8_name(const uint8_t *bytes, size_t size);
