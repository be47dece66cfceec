/* A growing array of bytes, for model files, safetensors headers and the text of reports. */
#include "core/buffer.h"

#include <string.h>

void cst_buffer_add(cst_buffer *buffer, const void *bytes, size_t count) {
    if (buffer->status != CST_OK)
        return;
    if (count >= buffer->room - buffer->used) { /* also the first time, so that there is a NUL */
        size_t room = 2 * (buffer->used + count + 1); /* both are in memory: no overflow */
        char *grown = cst_grow(buffer->context, buffer->bytes, buffer->used, room, 1);
        if (!grown) {
            buffer->status = CST_ERROR_MEMORY;
            return;
        }
        buffer->bytes = grown;
        buffer->room = room;
    }
    memcpy(buffer->bytes + buffer->used, bytes, count);
    buffer->used += count;
    buffer->bytes[buffer->used] = '\0';
}

void cst_buffer_add_text(cst_buffer *buffer, const char *text) {
    cst_buffer_add(buffer, text, strlen(text));
}
