/*
 * Writing structures as bytes and reading them back, by one function for both. Numbers keep their
 * bits. The bytes are valid on this kind of machine and for this version only. Paper: none.
 */
#ifndef CST_BASE_PACK_H
#define CST_BASE_PACK_H

#include "base/buffer.h"

typedef struct cst_pack {
    cst_context *context;
    bool reading;
    cst_buffer out;          /* writing */
    const unsigned char *at; /* reading */
    size_t left;
    cst_status status; /* of the first failure, after which every call does nothing */
} cst_pack;

/* Writes or reads an object. Before reading, its arrays and texts are NULL. */
typedef void (*cst_pack_fn)(cst_pack *pack, void *object);

void cst_pack_raw(cst_pack *pack, void *bytes, size_t count);
#define CST_PACK(pack, field) cst_pack_raw((pack), &(field), sizeof(field))

/* An array [count], or NULL. Returns it, or when reading a new one from cst_alloc. */
void *cst_pack_array(cst_pack *pack, void *array, size_t count, size_t size);
#define CST_PACK_ARRAY(pack, array, count)                                                         \
    ((array) = cst_pack_array((pack), (array), (size_t)(count), sizeof *(array)))

/* A text, or NULL. Returns it, or when reading a new one. */
char *cst_pack_text(cst_pack *pack, char *text);

/* A structure without its contents, or NULL. Returns it, or when reading a new one, zeroed. */
void *cst_pack_one(cst_pack *pack, void *pointer, size_t size);
#define CST_PACK_ONE(pack, pointer) ((pointer) = cst_pack_one((pack), (pointer), sizeof *(pointer)))

#endif
