/* A growing array of bytes, for model files, safetensors headers and the text of reports. */
#ifndef CST_BASE_BUFFER_H
#define CST_BASE_BUFFER_H

#include "core/base.h"

/* Zero-initialise but for the context. After a failure every call does nothing. */
typedef struct cst_buffer {
    cst_context *context;
    char *bytes; /* [used] and a NUL behind them, freed with cst_free; NULL before the first call */
    size_t used;
    size_t room;
    cst_status status; /* of the first failure; others may set it too */
} cst_buffer;

void cst_buffer_add(cst_buffer *buffer, const void *bytes, size_t count);
void cst_buffer_add_text(cst_buffer *buffer, const char *text);

#endif
