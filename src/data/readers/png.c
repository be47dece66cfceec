/* Label maps as PNG, through libpng. docs/segmentation.md#files. */
#include "data/readers/cases.h"

#include "core/scope.h"
#include "data/files/bytes.h"
#include "data/files/output.h"

#include <inttypes.h>
#include <png.h>
#include <setjmp.h>
#include <string.h>

enum {
    SIDE_MAX = 1000000,
    CHUNK_MAX = 1 << 20,  /* bytes of a chunk other than the pixels */
    DEFLATE_RATIO = 1100, /* bytes that one compressed byte can stand for, and some more */
    POLL_PIXELS = 1 << 18,
    KIND_AT = 25 /* byte of the file that says grey, palette or colours */
};

/* An image read or written. libpng longjmps: nothing needed afterwards may be a local. */
typedef struct image {
    cst_context *context;
    const char *path;
    png_structp png;
    png_infop info;
    cst_bytes *source;
    uint64_t at; /* bytes read so far */
    cst_output_file *output;
    cst_status below; /* what failed under libpng and has a message of its own */
    png_uint_32 width, height;
    int bits, kind;
    int passes; /* over the rows: 1, or 7 of an interlaced image */
    size_t row_bytes;
    int32_t *labels;                   /* [height][width] */
    const unsigned char (*palette)[3]; /* [256] to write, or NULL */
    const int32_t *given;
    unsigned char *raw; /* [row_bytes] to be written */
} image;

static void on_error(png_structp png, png_const_charp message) {
    image *m = png_get_error_ptr(png);
    if (m->below == CST_OK)
        m->below = m->output ? cst_fail(m->context, CST_ERROR_INTERNAL,
                                        "%s: cannot be written as PNG: %s", m->path, message)
                             : cst_fail(m->context, CST_ERROR_FORMAT,
                                        "%s: not a readable PNG, near byte %" PRIu64 ": %s",
                                        m->path, m->at, message);
    png_longjmp(png, 1);
}

static void on_warning(png_structp png, png_const_charp message) {
    (void)png;
    (void)message; /* about colour profiles and text, which labels have no use for */
}

static png_voidp on_malloc(png_structp png, png_alloc_size_t bytes) {
    image *m = png_get_mem_ptr(png);
    void *pointer = cst_alloc(m->context, bytes, 1);
    if (!pointer)
        m->below = CST_ERROR_MEMORY;
    return pointer;
}

static void on_free(png_structp png, png_voidp pointer) {
    const image *m = png_get_mem_ptr(png);
    cst_free(m->context, pointer);
}

static void on_read(png_structp png, png_bytep out, size_t bytes) {
    image *m = png_get_io_ptr(png);
    if (m->below == CST_OK)
        m->below = cst_bytes_read(m->context, m->source, m->at, out, bytes);
    if (m->below != CST_OK)
        png_error(png, "reading failed");
    m->at += bytes;
}

static void on_write(png_structp png, png_bytep data, size_t bytes) {
    image *m = png_get_io_ptr(png);
    if (m->below == CST_OK)
        m->below = cst_output_write(m->context, m->output, data, bytes);
    if (m->below != CST_OK)
        png_error(png, "writing failed");
}

static void on_flush(png_structp png) {
    (void)png; /* the output is flushed when it is committed */
}

static cst_status guard(image *m, void (*step)(image *)) {
    if (setjmp(png_jmpbuf(m->png)))
        return m->below == CST_OK ? CST_ERROR_INTERNAL : m->below;
    step(m);
    return CST_OK;
}

static void read_header(image *m) {
    int interlace = 0;
    png_set_user_limits(m->png, SIDE_MAX, SIDE_MAX);
    /* Colour profiles and texts are skipped: a compressed text may be a bomb of its own. */
    png_set_keep_unknown_chunks(m->png, PNG_HANDLE_CHUNK_NEVER, NULL, -1);
    png_set_chunk_malloc_max(m->png, CHUNK_MAX);
    png_set_read_fn(m->png, m, on_read);
    png_read_info(m->png, m->info);
    (void)png_get_IHDR(m->png, m->info, &m->width, &m->height, &m->bits, &m->kind, &interlace, NULL,
                       NULL);
}

/* libpng makes its buffers of rows here, so that this comes after the checks. */
static void begin_rows(image *m) {
    png_set_packing(m->png); /* 1, 2 and 4 bits to bytes, not scaled */
    m->passes = png_set_interlace_handling(m->png);
    png_read_update_info(m->png, m->info);
    m->row_bytes = png_get_rowbytes(m->png, m->info);
}

/* A row's bytes, at the end of its own labels so that the image is in memory once. */
static unsigned char *row_of(image *m, size_t y) {
    unsigned char *labels = (unsigned char *)(m->labels + y * m->width);
    return labels + m->width * sizeof *m->labels - m->row_bytes;
}

/* Bytes to labels from the left: what is written never reaches what is still to be read. */
static void widen_row(image *m, size_t y) {
    const unsigned char *from = row_of(m, y);
    int32_t *to = m->labels + y * m->width;
    for (size_t x = 0; x < m->width; x++)
        to[x] = m->bits == 16 ? from[2 * x] << 8 | from[2 * x + 1] : from[x];
}

/* Rows come whole with the last pass over them. */
static void read_rows(image *m) {
    size_t every = 1 + POLL_PIXELS / m->width;
    for (int pass = 1; pass <= m->passes; pass++)
        for (size_t y = 0; y < m->height; y++) {
            if (m->below == CST_OK && y % every == 0)
                m->below = cst_poll_reading(m->context);
            if (m->below != CST_OK)
                png_error(m->png, "stopped");
            png_read_row(m->png, row_of(m, y), NULL);
            if (pass == m->passes)
                widen_row(m, y);
        }
    png_read_end(m->png, NULL);
}

/* Refuses more pixels than the bytes of the file can hold. */
static cst_status check_size(cst_context *context, const char *path, uint32_t width,
                             uint32_t height, int bits, uint64_t bytes) {
    uint64_t packed = (1 + ((uint64_t)width * (uint64_t)bits + 7) / 8) * height;
    if (packed / DEFLATE_RATIO > bytes)
        return cst_fail(context, CST_ERROR_FORMAT,
                        "%s: declares %" PRIu32 " x %" PRIu32 " pixels, more than its %" PRIu64
                        " bytes can hold",
                        path, width, height, bytes);
    return CST_OK;
}

/* Whether the image holds one number a pixel. */
static cst_status check_kind(cst_context *context, const char *path, int kind) {
    if (kind == PNG_COLOR_TYPE_GRAY || kind == PNG_COLOR_TYPE_PALETTE)
        return CST_OK;
    return cst_fail(context, CST_ERROR_INPUT,
                    "%s: is %s, not a label map; convert the colours to class numbers and save one "
                    "grey channel with 8 or 16 bits",
                    path,
                    kind == PNG_COLOR_TYPE_GRAY_ALPHA  ? "a grey and alpha image (2 channels)"
                    : kind == PNG_COLOR_TYPE_RGB_ALPHA ? "an RGBA image (4 channels)"
                                                       : "an RGB image (3 channels)");
}

/* Checks the header, and that the image holds no more than its bytes can. */
static cst_status check_header(image *m) {
    CST_TRY(check_kind(m->context, m->path, m->kind));
    return check_size(m->context, m->path, m->width, m->height, m->bits, cst_bytes_size(m->source));
}

/* Reads the size without libpng, which accepts other first chunks. */
static cst_status read_size(cst_context *context, cst_bytes *source, const char *path,
                            int64_t *height, int64_t *width) {
    /* Signature, length and name of the first chunk, then width and height, big-endian, and bits.
     */
    static const unsigned char begin[] = {0x89, 'P', 'N', 'G', '\r', '\n', 0x1a, '\n',
                                          0,    0,   0,   13,  'I',  'H',  'D',  'R'};
    unsigned char head[sizeof begin + 9];
    CST_TRY(cst_bytes_read(context, source, 0, head, sizeof head));
    *width = (int64_t)png_get_uint_32(head + sizeof begin);
    *height = (int64_t)png_get_uint_32(head + sizeof begin + 4);
    int bits = head[sizeof begin + 8];
    bool sound = bits == 1 || bits == 2 || bits == 4 || bits == 8 || bits == 16;
    if (memcmp(head, begin, sizeof begin) != 0 || !sound || *width < 1 || *height < 1 ||
        *width > SIDE_MAX || *height > SIDE_MAX)
        return cst_fail(context, CST_ERROR_FORMAT, "%s: not a readable PNG, near byte 0", path);
    return check_size(context, path, (uint32_t)*width, (uint32_t)*height, bits,
                      cst_bytes_size(source));
}

static cst_status check_same_size(const image *m, int64_t height, int64_t width) {
    if ((int64_t)m->height == height && (int64_t)m->width == width)
        return CST_OK;
    return cst_fail(m->context, CST_ERROR_IO,
                    "%s: its size has changed since it was first opened; run the command again "
                    "when nothing writes to the file",
                    m->path);
}

static void free_reader(cst_context *context, void *user) {
    image *m = user;
    if (m->png)
        png_destroy_read_struct(&m->png, &m->info, NULL);
    cst_bytes_close(context, m->source);
}

static cst_status read_labels(image *m, uint64_t zip_limit, int64_t rows, int64_t columns) {
    CST_SCOPE(scope);
    int64_t height = 0;
    int64_t width = 0;
    CST_TRY(cst_bytes_open(m->context, &m->source, m->path, zip_limit));
    CST_TRY(cst_scope_own(m->context, scope, free_reader, m));
    m->png = png_create_read_struct_2(PNG_LIBPNG_VER_STRING, m, on_error, on_warning, m, on_malloc,
                                      on_free);
    m->info = m->png ? png_create_info_struct(m->png) : NULL;
    if (!m->info)
        return CST_ERROR_MEMORY;
    CST_TRY(guard(m, read_header));
    CST_TRY(check_header(m));
    CST_TRY(read_size(m->context, m->source, m->path, &height, &width));
    CST_TRY(guard(m, begin_rows));
    CST_TRY(check_same_size(m, rows, columns));
    return guard(m, read_rows);
}

cst_status cst_png_read_into(cst_context *context, const char *path, uint64_t zip_limit,
                             int64_t height, int64_t width, int32_t *out) {
    image m = {.context = context, .path = path, .labels = out};
    return read_labels(&m, zip_limit, height, width);
}

cst_status cst_png_size(cst_context *context, const char *path, uint64_t zip_limit, int64_t *height,
                        int64_t *width) {
    CST_SCOPE(scope);
    cst_bytes *source = NULL;
    unsigned char kind = PNG_COLOR_TYPE_GRAY;
    CST_TRY(cst_bytes_open(context, &source, path, zip_limit));
    CST_TRY(cst_scope_own(context, scope, cst_bytes_close, source));
    CST_TRY(read_size(context, source, path, height, width));
    if (cst_bytes_size(source) > KIND_AT)
        CST_TRY(cst_bytes_read(context, source, KIND_AT, &kind, 1));
    return check_kind(context, path, kind);
}

/* Colours of labels as PASCAL VOC has them: three bits of the label at a time, the lowest first,
 * are the highest bits of red, green and blue that are left. */
static void put_palette(image *m) {
    png_color colours[256] = {{0, 0, 0}};
    for (int label = 0; m->palette && label < 256; label++)
        colours[label] =
            (png_color){m->palette[label][0], m->palette[label][1], m->palette[label][2]};
    for (int label = 0; !m->palette && label < 256; label++)
        for (int i = 0; i < 8; i++) {
            int bits = label >> (3 * i);
            colours[label].red |= (png_byte)((bits & 1) << (7 - i));
            colours[label].green |= (png_byte)((bits >> 1 & 1) << (7 - i));
            colours[label].blue |= (png_byte)((bits >> 2 & 1) << (7 - i));
        }
    png_set_PLTE(m->png, m->info, colours, 256);
}

static void write_rows(image *m) {
    png_set_write_fn(m->png, m, on_write, on_flush);
    png_set_user_limits(m->png, SIDE_MAX, SIDE_MAX);
    png_set_IHDR(m->png, m->info, m->width, m->height, m->bits,
                 m->bits == 8 ? PNG_COLOR_TYPE_PALETTE : PNG_COLOR_TYPE_GRAY, PNG_INTERLACE_NONE,
                 PNG_COMPRESSION_TYPE_DEFAULT, PNG_FILTER_TYPE_DEFAULT);
    if (m->bits == 8)
        put_palette(m);
    png_write_info(m->png, m->info);
    for (size_t y = 0; y < m->height; y++) {
        const int32_t *row = m->given + y * m->width;
        for (size_t x = 0; x < m->width; x++)
            if (m->bits == 16) {
                m->raw[2 * x] = (unsigned char)(row[x] >> 8);
                m->raw[2 * x + 1] = (unsigned char)(row[x] & 0xff);
            } else
                m->raw[x] = (unsigned char)row[x];
        png_write_row(m->png, m->raw);
    }
    png_write_end(m->png, NULL);
}

static cst_status check_labels(cst_context *context, const char *path, const int32_t *labels,
                               int64_t height, int64_t width, int bits) {
    if (height < 1 || width < 1 || height > SIDE_MAX || width > SIDE_MAX)
        return cst_fail(context, CST_ERROR_LIMIT,
                        "%s: %" PRId64 " x %" PRId64 " pixels is too large for a PNG", path, height,
                        width);
    for (int64_t i = 0; i < height * width; i++)
        if (labels[i] < 0 || labels[i] >= 1 << bits)
            return cst_fail(context, CST_ERROR_LIMIT,
                            "%s: label %d does not fit into a PNG with %d bits", path, labels[i],
                            bits);
    return CST_OK;
}

cst_status cst_png_write_labels(cst_context *context, const char *path, const int32_t *labels,
                                int64_t height, int64_t width, int bits,
                                const unsigned char (*palette)[3]) {
    CST_SCOPE(scope);
    image m = {.context = context,
               .path = path,
               .given = labels,
               .bits = bits,
               .palette = palette,
               .height = (png_uint_32)height,
               .width = (png_uint_32)width};
    CST_TRY(check_labels(context, path, labels, height, width, bits));
    CST_TAKE(context, scope, m.raw, 2 * width);
    CST_TRY(cst_output_open(context, &m.output, path));
    m.png = png_create_write_struct_2(PNG_LIBPNG_VER_STRING, &m, on_error, on_warning, &m,
                                      on_malloc, on_free);
    m.info = m.png ? png_create_info_struct(m.png) : NULL;
    cst_status status = m.info ? guard(&m, write_rows) : CST_ERROR_MEMORY;
    if (m.png)
        png_destroy_write_struct(&m.png, &m.info);
    return cst_output_end(context, m.output, status);
}
