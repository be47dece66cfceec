/* What all files of states have. See the header. */
#include "fit/adapt/state_file.h"

#include "data/files/output.h"
#include "model/crc32c.h"

#include <inttypes.h>
#include <string.h>
#include <sys/stat.h>

enum { CHECKSUM_BYTES = 4, HEAD_BYTES = CST_STATE_MAGIC_BYTES + 4 };

/* ---- writing ---- */

void cst_state_put(cst_buffer *w, uint64_t value, int bytes) {
    uint8_t word[8];
    for (int i = 0; i < bytes; i++)
        word[i] = (uint8_t)(value >> (8 * i));
    cst_buffer_add(w, word, (size_t)bytes);
}

void cst_state_put_numbers(cst_buffer *w, const double *values, size_t count) {
    for (size_t i = 0; i < count; i++) {
        uint64_t bits = 0;
        memcpy(&bits, &values[i], sizeof bits);
        cst_state_put(w, bits, 8);
    }
}

void cst_state_begin(cst_buffer *w, const cst_state_kind *kind, uint64_t model_hash) {
    cst_buffer_add(w, kind->magic, CST_STATE_MAGIC_BYTES);
    cst_state_put(w, kind->version, 4);
    cst_state_put(w, model_hash, 8);
}

cst_status cst_state_save(cst_buffer *w, const char *path) {
    cst_output_file *output = NULL;
    if (w->status == CST_OK)
        cst_state_put(w, cst_crc32c((const uint8_t *)w->bytes, w->used), CHECKSUM_BYTES);
    cst_status status = w->status;
    struct stat info;
    if (status == CST_OK && stat(path, &info) == 0 && S_ISFIFO(info.st_mode))
        status = cst_fail(w->context, CST_ERROR_IO,
                          "%s: is a pipe; the state is read again, so it must be a file", path);
    CST_THEN(cst_output_open(w->context, &output, path));
    CST_THEN(cst_output_write(w->context, output, w->bytes, w->used));
    if (status == CST_OK)
        status = cst_output_commit(w->context, output);
    else
        cst_output_abort(w->context, output);
    cst_free(w->context, w->bytes);
    w->bytes = NULL;
    return status;
}

/* ---- reading ---- */

int64_t cst_state_count(cst_reader *r, const char *what, int64_t most) {
    size_t at = r->at;
    const uint8_t *from = cst_reader_take(r, 8);
    uint64_t value = from ? cst_load_u64(from) : 0;
    if (value > (uint64_t)most)
        cst_reader_refuse(r, at, "%s is %" PRIu64 ", which is not from 0 to %" PRId64, what, value,
                          most);
    return r->status == CST_OK ? (int64_t)value : 0;
}

void cst_state_numbers(cst_reader *r, const char *what, double least, double most, size_t count,
                       double *out) {
    for (size_t i = 0; r->status == CST_OK && i < count; i++)
        out[i] = cst_reader_f64(r, what, least, most);
}

void cst_state_end(cst_reader *r) {
    if (r->status == CST_OK && r->at != r->end)
        cst_reader_refuse(r, r->at, "%zu extra bytes follow the state", r->end - r->at);
}

static cst_status refuse_kind(cst_context *context, const cst_state_kind *kind, const char *path) {
    return cst_fail(context, CST_ERROR_FORMAT,
                    "%s: %s; name another file, or remove this one to start again", path,
                    kind->refusal);
}

/* Whether these are the bytes of a state, as they were written. */
static cst_status check_whole(cst_reader *r, const cst_state_kind *kind) {
    if (r->end < CST_STATE_MAGIC_BYTES || memcmp(r->bytes, kind->magic, CST_STATE_MAGIC_BYTES) != 0)
        return refuse_kind(r->context, kind, r->name);
    if (r->end < HEAD_BYTES + 8 + CHECKSUM_BYTES)
        return cst_fail(r->context, CST_ERROR_FORMAT,
                        "%s: the state is cut off; copy it again, or remove it to start again",
                        r->name);
    uint32_t version = cst_load_u32(r->bytes + CST_STATE_MAGIC_BYTES);
    if (version != kind->version)
        return cst_fail(r->context, CST_ERROR_UNSUPPORTED,
                        "%s: a state of version %" PRIu32 ", but this version of corestack reads "
                        "%" PRIu32 "; %s",
                        r->name, version, kind->version,
                        version > kind->version ? "upgrade corestack" : "remove it to start again");
    r->end -= CHECKSUM_BYTES;
    if (cst_load_u32(r->bytes + r->end) != cst_crc32c(r->bytes, r->end))
        return cst_fail(r->context, CST_ERROR_FORMAT,
                        "%s: wrong checksum: the state was damaged or cut off; copy it again, or "
                        "remove it to start again",
                        r->name);
    return CST_OK;
}

cst_status cst_state_open(cst_context *context, const cst_state_kind *kind, const char *path,
                          cst_state_source *out) {
    const unsigned char *bytes = NULL;
    *out = (cst_state_source){0};
    cst_status status = cst_bytes_open_file(context, &out->file, path);
    if (status == CST_OK && kind->most > 0 && (int64_t)cst_bytes_size(out->file) > kind->most)
        return refuse_kind(context, kind, path);
    CST_THEN(cst_bytes_slurp(context, out->file, &bytes));
    if (status != CST_OK)
        return status;
    out->reader = (cst_reader){
        .context = context, .name = path, .bytes = bytes, .end = (size_t)cst_bytes_size(out->file)};
    status = check_whole(&out->reader, kind);
    if (status == CST_OK) {
        out->model_hash = cst_load_u64(bytes + HEAD_BYTES);
        out->reader.at = HEAD_BYTES + 8;
    }
    return status;
}

void cst_state_close(cst_context *context, cst_state_source *source) {
    cst_bytes_close(context, source->file);
}

cst_status cst_state_check_model(const cst_state_source *source, uint64_t model_hash) {
    const cst_reader *r = &source->reader;
    if (source->model_hash == model_hash)
        return CST_OK;
    return cst_fail(r->context, CST_ERROR_MISMATCH,
                    "%s: the state of another model; use the model that it was made with, or "
                    "another file for this model",
                    r->name);
}
