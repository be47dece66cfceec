/*
 * How much memory JSON takes once it is parsed, judged by its text alone: the parser's memory is
 * not the context's. Before every parse of a whole document. docs/security.md, "Caps".
 */
#include "io/json_room.h"

/* What Jansson 2.14 was measured to take on 64 bits, rounded up: `{}` 235 bytes, `[]` 139, the text
 * or number after a comma at most 91 and a key 91, beside the bytes of texts. */
enum { OBJECT_BYTES = 240, LIST_BYTES = 144, VALUE_BYTES = 96 };

/* Beyond the first error of the text, where parsing ends, this counts more than there is. */
static size_t room(const unsigned char *text, size_t size) {
    size_t bytes = size;
    bool quoted = false;
    for (size_t i = 0; i < size; i++) {
        if (text[i] == '"')
            quoted = !quoted;
        else if (quoted)
            i += text[i] == '\\';
        else if (text[i] == '{')
            bytes += OBJECT_BYTES;
        else if (text[i] == '[')
            bytes += LIST_BYTES;
        else if (text[i] == ',' || text[i] == ':')
            bytes += VALUE_BYTES;
    }
    return bytes;
}

cst_status cst_json_check_room(cst_context *context, const char *path, const unsigned char *text,
                               size_t size) {
    size_t most = cst_context_memory(context) / 2;
    size_t needed = room(text, size);
    if (most > CST_JSON_ROOM_MAX)
        most = CST_JSON_ROOM_MAX;
    if (needed <= most)
        return CST_OK;
    return cst_fail(context, CST_ERROR_LIMIT,
                    "%s: its objects, lists and values take %zu MiB to read; at most %zu are taken "
                    "(half of the memory budget, and never more than %zu)",
                    path, needed >> 20, most >> 20, CST_JSON_ROOM_MAX >> 20);
}
