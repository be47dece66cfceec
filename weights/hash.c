/*
 * Hashes of contents through xxHash, whose header is compiled in: nothing is linked. Paper: none.
 */
#include "weights/hash.h"
#include "io/bytes.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

enum { CHUNK_BYTES = 1 << 18 };

struct cst_hash {
    XXH3_state_t state; /* aligned to 64 bytes, as cst_alloc's memory is */
};

cst_status cst_hash_create(cst_context *context, cst_hash **out) {
    *out = cst_alloc(context, 1, sizeof **out);
    if (!*out)
        return CST_ERROR_MEMORY;
    (void)XXH3_128bits_reset(&(*out)->state);
    return CST_OK;
}

void cst_hash_free(cst_context *context, cst_hash *hash) {
    cst_free(context, hash);
}

void cst_hash_add(cst_hash *hash, const void *data, size_t bytes) {
    if (bytes > 0)
        (void)XXH3_128bits_update(&hash->state, data, bytes);
}

void cst_hash_digest(const cst_hash *hash, uint64_t out[2]) {
    XXH128_hash_t value = XXH3_128bits_digest(&hash->state);
    out[0] = value.high64;
    out[1] = value.low64;
}

void cst_hash_memory(const void *data, size_t bytes, uint64_t out[2]) {
    XXH128_hash_t value = XXH3_128bits(data, bytes);
    out[0] = value.high64;
    out[1] = value.low64;
}

cst_status cst_hash_file(cst_context *context, const char *path, uint64_t out[2]) {
    cst_bytes *source = NULL;
    cst_hash *hash = NULL;
    unsigned char *chunk = NULL;
    cst_status status = cst_bytes_open_file(context, &source, path);
    CST_TRY(cst_hash_create(context, &hash));
    if (status == CST_OK && !(chunk = cst_alloc(context, CHUNK_BYTES, 1)))
        status = CST_ERROR_MEMORY;
    uint64_t size = status == CST_OK ? cst_bytes_size(source) : 0;
    for (uint64_t at = 0; status == CST_OK && at < size; at += CHUNK_BYTES) {
        size_t part = size - at < CHUNK_BYTES ? (size_t)(size - at) : CHUNK_BYTES;
        status = cst_bytes_read(context, source, at, chunk, part);
        if (status == CST_OK)
            cst_hash_add(hash, chunk, part);
    }
    if (status == CST_OK)
        cst_hash_digest(hash, out);
    cst_free(context, chunk);
    cst_hash_free(context, hash);
    cst_bytes_close(context, source);
    return status;
}
