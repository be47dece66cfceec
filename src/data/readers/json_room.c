/* Memory that JSON takes once it is parsed, judged by its text; and the parse itself. */
#include "data/readers/json_room.h"

#include "core/scope.h"
#include "data/files/bytes.h"

#include <inttypes.h>
#include <string.h>

/* Bytes that Jansson 2.14 takes on 64 bits, rounded up, beside the bytes of texts. */
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

static cst_status check_room(cst_context *context, const char *path, const unsigned char *text,
                             size_t size) {
    size_t most = cst_context_memory(context) / 2;
    size_t needed = room(text, size);
    if (most > CST_JSON_ROOM_MAX)
        most = CST_JSON_ROOM_MAX;
    if (needed <= most)
        return CST_OK;
    return cst_fail(context, CST_ERROR_LIMIT,
                    "%s: reading its objects, lists and values takes %zu MiB; the limit is %zu "
                    "(half of the memory budget, and never more than %zu)",
                    path, needed >> 20, most >> 20, CST_JSON_ROOM_MAX >> 20);
}

typedef struct source {
    cst_context *context;
    const unsigned char *text;
    size_t left;
    int64_t pieces;
    cst_status status;
    cst_c_locale locale;
} source;

/* The next piece for the parser; (size_t)-1 ends it. */
static size_t next_piece(void *buffer, size_t room, void *user) {
    source *from = user;
    size_t bytes = from->left < room ? from->left : room;
    if (from->pieces++ % 64 == 0) {
        cst_c_locale_leave(from->locale); /* not of the function that is asked */
        from->status = cst_poll_reading(from->context);
        from->locale = cst_c_locale_enter();
    }
    if (from->status != CST_OK)
        return (size_t)-1;
    memcpy(buffer, from->text, bytes);
    from->text += bytes;
    from->left -= bytes;
    return bytes;
}

cst_status cst_json_parse(cst_context *context, const char *path, const unsigned char *text,
                          size_t size, json_t **root, json_error_t *error) {
    source from = {.context = context, .text = text, .left = size};
    *root = NULL;
    CST_TRY(check_room(context, path, text, size));
    from.locale = cst_c_locale_enter();
    *root = json_load_callback(next_piece, &from, JSON_REJECT_DUPLICATES, error);
    cst_c_locale_leave(from.locale);
    if (from.status == CST_OK)
        return CST_OK;
    json_decref(*root);
    *root = NULL;
    return from.status;
}

cst_status cst_json_read(cst_context *context, const char *path, size_t most, json_t **root,
                         json_error_t *error) {
    CST_SCOPE(scope);
    cst_bytes *file = NULL;
    const unsigned char *text = NULL;
    *root = NULL;
    CST_TRY(cst_bytes_open(context, &file, path, 0));
    CST_TRY(cst_scope_own(context, scope, cst_bytes_close, file));
    if (cst_bytes_size(file) > most)
        return cst_fail(context, CST_ERROR_LIMIT, "%s: has %" PRIu64 " bytes; the limit is %zu",
                        path, cst_bytes_size(file), most);
    CST_TRY(cst_bytes_slurp(context, file, &text));
    return cst_json_parse(context, path, text, (size_t)cst_bytes_size(file), root, error);
}
