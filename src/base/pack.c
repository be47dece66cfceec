/*
 * Structures as bytes and back. See the header.
 */
#include "base/pack.h"

#include <string.h>

static void fail_short(cst_pack *pack) {
    pack->status = cst_fail(pack->context, CST_ERROR_INPUT, "a checkpoint part is too short");
}

void cst_pack_raw(cst_pack *pack, void *bytes, size_t count) {
    if (pack->status != CST_OK)
        return;
    if (!pack->reading) {
        cst_buffer_add(&pack->out, bytes, count);
        pack->status = pack->out.status;
        return;
    }
    if (count > pack->left) {
        fail_short(pack);
        return;
    }
    memcpy(bytes, pack->at, count);
    pack->at += count;
    pack->left -= count;
}

/* Allocates room for bytes to read, which must be there. */
static void *make(cst_pack *pack, size_t count, size_t size) {
    size_t bytes = 0;
    if (!cst_size_mul(count, size, &bytes) || bytes > pack->left) {
        fail_short(pack);
        return NULL;
    }
    void *made = cst_alloc(pack->context, count, size);
    if (!made)
        pack->status = CST_ERROR_MEMORY;
    return made;
}

void *cst_pack_array(cst_pack *pack, void *array, size_t count, size_t size) {
    bool there = array != NULL;
    CST_PACK(pack, there);
    if (pack->status != CST_OK || !there)
        return array;
    if (pack->reading)
        array = make(pack, count, size);
    if (array)
        cst_pack_raw(pack, array, count * size);
    return array;
}

char *cst_pack_text(cst_pack *pack, char *text) {
    size_t size = text ? strlen(text) + 1 : 0;
    CST_PACK(pack, size);
    if (pack->status != CST_OK || size == 0)
        return text;
    if (pack->reading)
        text = make(pack, size, 1);
    if (text)
        cst_pack_raw(pack, text, size);
    if (text && pack->status == CST_OK)
        text[size - 1] = '\0';
    return text;
}

void *cst_pack_one(cst_pack *pack, void *pointer, size_t size) {
    bool there = pointer != NULL;
    CST_PACK(pack, there);
    if (pack->status != CST_OK || !there || !pack->reading)
        return pointer;
    void *made = cst_alloc(pack->context, 1, size);
    if (!made)
        pack->status = CST_ERROR_MEMORY;
    return made;
}
