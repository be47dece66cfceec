/* The common parts of all files of states. */
#include "fit/adapt/state_file.h"

#include "data/files/bytes.h"
#include "data/files/output.h"

#include <inttypes.h>
#include <string.h>
#include <sys/stat.h>

enum { MAGIC_BYTES = 8, CHECKSUM_BYTES = 4, HEAD_BYTES = MAGIC_BYTES + 4 };

static cst_status write_whole(cst_context *context, const cst_buffer *bytes, const char *path) {
    cst_output_file *output = NULL;
    struct stat info;
    if (stat(path, &info) == 0 && S_ISFIFO(info.st_mode))
        return cst_fail(context, CST_ERROR_IO,
                        "%s: is a pipe; the state is read again, so it must be a file", path);
    cst_status status = cst_output_open(context, &output, path);
    CST_THEN(cst_output_write(context, output, bytes->bytes, bytes->used));
    if (status == CST_OK)
        return cst_output_commit(context, output);
    cst_output_abort(context, output);
    return status;
}

cst_status cst_state_save(cst_context *context, const cst_state_kind *kind, uint64_t model_hash,
                          const void *state, const char *path) {
    cst_buffer to = {.context = context};
    cst_codec c = {.context = context, .to = &to};
    cst_buffer_add(&to, kind->magic, MAGIC_BYTES);
    cst_put_word(&to, kind->version, 4);
    cst_put_word(&to, model_hash, 8);
    kind->code(&c, (void *)state); /* which writing does not change */
    if (to.status == CST_OK)
        cst_put_word(&to, cst_crc32c((const uint8_t *)to.bytes, to.used), CHECKSUM_BYTES);
    cst_status status = c.status == CST_OK ? to.status : c.status;
    CST_THEN(write_whole(context, &to, path));
    cst_free(context, to.bytes);
    return status;
}

void cst_state_end(cst_codec *c) {
    if (c->at != c->end)
        cst_refuse(c, c->at, "%zu extra bytes follow the state", c->end - c->at);
}

static cst_status refuse_kind(cst_context *context, const cst_state_kind *kind, const char *path) {
    return cst_fail(context, CST_ERROR_FORMAT,
                    "%s: %s; name another file, or remove this one to start again", path,
                    kind->refusal);
}

/* Whether these are the bytes of a state, as they were written. */
static cst_status check_whole(cst_codec *c, const cst_state_kind *kind) {
    if (c->end < MAGIC_BYTES || memcmp(c->bytes, kind->magic, MAGIC_BYTES) != 0)
        return refuse_kind(c->context, kind, c->name);
    if (c->end < HEAD_BYTES + 8 + CHECKSUM_BYTES)
        return cst_fail(c->context, CST_ERROR_FORMAT,
                        "%s: the state is cut off; copy it again, or remove it to start again",
                        c->name);
    uint32_t version = cst_load_u32(c->bytes + MAGIC_BYTES);
    if (version != kind->version)
        return cst_fail(c->context, CST_ERROR_UNSUPPORTED,
                        "%s: a state of version %" PRIu32 ", but this version of corestack reads "
                        "%" PRIu32 "; %s",
                        c->name, version, kind->version,
                        version > kind->version ? "upgrade corestack" : "remove it to start again");
    c->end -= CHECKSUM_BYTES;
    if (cst_load_u32(c->bytes + c->end) != cst_crc32c(c->bytes, c->end))
        return cst_fail(c->context, CST_ERROR_FORMAT,
                        "%s: wrong checksum: the state was damaged or cut off; copy it again, or "
                        "remove it to start again",
                        c->name);
    return CST_OK;
}

static void close_file(cst_context *context, void *file) {
    cst_bytes_close(context, file);
}

cst_status cst_state_open(cst_context *context, cst_scope *scope, const cst_state_kind *kind,
                          const char *path, cst_codec *c, uint64_t *model_hash) {
    cst_bytes *file = NULL;
    const unsigned char *bytes = NULL;
    CST_TRY(cst_bytes_open_file(context, &file, path));
    CST_TRY(cst_scope_own(context, scope, close_file, file));
    if (kind->most > 0 && (int64_t)cst_bytes_size(file) > kind->most)
        return refuse_kind(context, kind, path);
    CST_TRY(cst_bytes_slurp(context, file, &bytes));
    *c = (cst_codec){
        .context = context, .name = path, .bytes = bytes, .end = (size_t)cst_bytes_size(file)};
    CST_TRY(check_whole(c, kind));
    *model_hash = cst_load_u64(bytes + HEAD_BYTES);
    c->at = HEAD_BYTES + 8;
    return CST_OK;
}

cst_status cst_state_check_model(const cst_codec *c, uint64_t hash, uint64_t model_hash) {
    if (hash == model_hash)
        return CST_OK;
    return cst_fail(c->context, CST_ERROR_MISMATCH,
                    "%s: the state of another model; use the model that it was made with, or "
                    "another file for this model",
                    c->name);
}
