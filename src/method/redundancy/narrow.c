/*
 * Kernels of rows with landmarks in single precision where the error of a row's features, measured
 * on the landmarks, stays small: it grows where landmarks nearly coincide. Stage S1. Paper: section
 * "Scalability"; docs/redundancy.md.
 */
#include "method/redundancy/narrow.h"

#include "core/la.h"
#include "core/wide.h"

#include <math.h>
#include <string.h>

/* Classes from which it is worth it, and the error of features that is let pass. */
enum { NARROW_CLASSES = 128, PAD = 16, SPAN = 32 };
#define NARROW_ERROR 5e-3

/* How far a kernel's exponent may move for entries of a row that are left out, the cheapest that
 * will do, and 0. Rows are taken by their entries where fewer than this share is left. */
static const double LEFT_OUT[] = {1e-3, 1e-4, 1e-5, 0};
enum { LEFT_OUT_COUNT = 4 };
#define SPARSE_SHARE 0.25

/* out [width] = sum of entries times rows of `columns` [C][width], width in whole spans. */
CST_WIDE_BODY add_entries_body(int64_t count, const int32_t *restrict classes,
                               const float *restrict entries, int64_t width,
                               const float *restrict columns, float *restrict out) {
    for (int64_t first = 0; first < width; first += SPAN) {
        float sum[SPAN] = {0};
        for (int64_t e = 0; e < count; e++) {
            const float *restrict column = columns + classes[e] * width + first;
            for (int64_t l = 0; l < SPAN; l++)
                sum[l] += entries[e] * column[l];
        }
        for (int64_t l = 0; l < SPAN; l++)
            out[first + l] = sum[l];
    }
}
CST_WIDE(add_entries,
         (int64_t count, const int32_t *restrict classes, const float *restrict entries,
          int64_t width, const float *restrict columns, float *restrict out),
         (count, classes, entries, width, columns, out))

/* Products into kernels, in place. */
CST_WIDE_BODY to_kernels_body(int64_t width, float own, const float *restrict exponents,
                              float *restrict x) {
    for (int64_t l = 0; l < width; l++) {
        float exponent = x[l] + (own + exponents[l]);
        uint32_t bits = cst_bits_f32(exponent);
        bits &= 0 - (bits >> 31); /* a distance is not below 0 */
        x[l] = cst_exp_one_f32(cst_f32_of(bits));
    }
}
CST_WIDE(to_kernels, (int64_t width, float own, const float *restrict exponents, float *restrict x),
         (width, own, exponents, x))

CST_WIDE_BODY square_body(int64_t classes, const float *restrict row, double *sum) {
    double lane[PAD] = {0};
    int64_t whole = classes - classes % PAD;
    for (int64_t c = 0; c < whole; c += PAD)
        for (int64_t l = 0; l < PAD; l++)
            lane[l] += (double)row[c + l] * (double)row[c + l];
    for (int64_t c = whole; c < classes; c++)
        lane[c - whole] += (double)row[c] * (double)row[c];
    *sum = 0;
    for (int64_t l = 0; l < PAD; l++)
        *sum += lane[l];
}
CST_WIDE(square, (int64_t classes, const float *restrict row, double *sum), (classes, row, sum))

/* The entries that count, and their number. */
static int64_t entries_of(const float *row, int64_t count, float least, int32_t *classes,
                          float *entries) {
    int64_t kept = 0;
    for (int64_t c = 0; c < count; c++) {
        classes[kept] = (int32_t)c;
        entries[kept] = row[c];
        kept += (row[c] >= least) | (row[c] <= -least);
    }
    return kept;
}

/* Kernels [count][width] of rows [count][C]; lists have room for C entries. */
static cst_status kernels_of(cst_context *context, const cst_narrow *narrow, const float *rows,
                             int64_t count, int32_t *classes, float *entries, float *out) {
    int64_t width = narrow->width;
    cst_status status = CST_OK;
    if (!narrow->sparse)
        status = cst_gemm_f32(context, false, false, count, width, narrow->classes, 1, rows,
                              narrow->classes, narrow->columns, width, 0, out, width);
    for (int64_t i = 0; status == CST_OK && i < count; i++) {
        const float *row = rows + i * narrow->classes;
        double norm = 0;
        square(narrow->classes, row, &norm);
        if (narrow->sparse) {
            int64_t kept = entries_of(row, narrow->classes, narrow->least, classes, entries);
            add_entries(kept, classes, entries, width, narrow->columns, out + i * width);
        }
        to_kernels(width, (float)(norm * narrow->scale), narrow->exponents, out + i * width);
    }
    return status;
}

/* Landmarks [m][C] as columns, and whether rows like them are sparse. */
static cst_status fill(cst_context *context, const float *landmarks, int64_t m, double sigma,
                       double *most, cst_narrow *out) {
    int64_t classes = out->classes;
    int64_t width = out->width;
    double inverse = 1 / (sigma * sigma);
    double mass = 0;
    out->scale = -0.5 * inverse;
    out->columns = cst_alloc(context, (size_t)classes, (size_t)width * sizeof *out->columns);
    out->exponents = cst_alloc(context, (size_t)width, sizeof *out->exponents);
    if (!out->columns || !out->exponents)
        return CST_ERROR_MEMORY;
    for (int64_t l = 0; l < m; l++) {
        double norm = 0;
        double sum = 0;
        square(classes, landmarks + l * classes, &norm);
        out->exponents[l] = (float)(norm * out->scale);
        for (int64_t c = 0; c < classes; c++) {
            double x = (double)landmarks[l * classes + c];
            sum += fabs(x);
            out->columns[c * width + l] = (float)(x * inverse);
        }
        mass = fmax(mass, sum);
    }
    *most = inverse * mass;
    return CST_OK;
}

/* Root mean square over rows of |e root|, e [m][m]. */
static cst_status features_error(cst_context *context, const double *e, int64_t m,
                                 const double *root, int64_t kept, double *error) {
    double squares = 0;
    double *moved = cst_alloc(context, (size_t)m, (size_t)kept * sizeof *moved);
    cst_status status = moved ? CST_OK : CST_ERROR_MEMORY;
    CST_THEN(cst_gemm_f64(context, false, false, m, kept, m, 1, e, m, root, kept, 0, moved, kept));
    for (int64_t x = 0; status == CST_OK && x < m * kept; x++)
        squares += moved[x] * moved[x];
    *error = sqrt(squares / (double)m);
    cst_free(context, moved);
    return status;
}

/* What is left out of rows: error is that of the landmarks' features. `kernel` stays. */
static cst_status try_narrow(cst_context *context, cst_narrow *narrow, const float *rows, int64_t m,
                             const double *kernel, const double *root, int64_t kept,
                             double *error) {
    int64_t width = narrow->width;
    size_t classes = (size_t)narrow->classes;
    double count = 0;
    float *single = cst_alloc(context, (size_t)m, (size_t)width * sizeof *single);
    double *e = cst_alloc(context, (size_t)m, (size_t)m * sizeof *e);
    int32_t *list = cst_alloc(context, classes, sizeof *list);
    float *entries = cst_alloc(context, classes, sizeof *entries);
    cst_status status = single && e && list && entries ? CST_OK : CST_ERROR_MEMORY;
    for (int64_t x = 0; x < m * narrow->classes; x++)
        count += fabsf(rows[x]) >= narrow->least;
    narrow->sparse = count < SPARSE_SHARE * (double)m * (double)classes;
    CST_THEN(kernels_of(context, narrow, rows, m, list, entries, single));
    for (int64_t i = 0; status == CST_OK && i < m; i++)
        for (int64_t j = 0; j < m; j++)
            e[i * m + j] = (double)single[i * width + j] - kernel[i * m + j];
    CST_THEN(features_error(context, e, m, root, kept, error));
    cst_free(context, single);
    cst_free(context, e);
    cst_free(context, list);
    cst_free(context, entries);
    return status;
}

cst_status cst_narrow_create(cst_context *context, const cst_kernels *kernels, int32_t member,
                             const int64_t *landmarks, int64_t count, const double *kernel,
                             const double *root, int64_t kept, cst_narrow *out) {
    int32_t classes = kernels->view->classes;
    double error = 0;
    double most = 0; /* a kernel's exponent moves by for an entry of 1 that is left out */
    memset(out, 0, sizeof *out);
    if (classes < NARROW_CLASSES || kept == 0)
        return CST_OK;
    int64_t width = (count + SPAN - 1) / SPAN * SPAN;
    *out = (cst_narrow){.classes = classes, .width = width};
    float *rows = cst_alloc(context, (size_t)count, (size_t)classes * sizeof *rows);
    cst_status status = rows ? CST_OK : CST_ERROR_MEMORY;
    CST_THEN(cst_view_gather(context, kernels->view, member, landmarks, count, rows));
    CST_THEN(fill(context, rows, count, kernels->sigma[member], &most, out));
    for (int t = 0; status == CST_OK && t < LEFT_OUT_COUNT; t++) {
        out->least = most > 0 ? (float)(LEFT_OUT[t] / most) : 0;
        status = try_narrow(context, out, rows, count, kernel, root, kept, &error);
        if (error <= NARROW_ERROR)
            break;
    }
    cst_free(context, rows);
    if (status != CST_OK || !(error <= NARROW_ERROR))
        cst_narrow_free(context, out);
    return status;
}

void cst_narrow_free(cst_context *context, cst_narrow *narrow) {
    cst_free(context, narrow->columns);
    cst_free(context, narrow->exponents);
    memset(narrow, 0, sizeof *narrow);
}

cst_status cst_narrow_rows(cst_context *context, const cst_kernels *kernels, int32_t member,
                           const cst_narrow *narrow, int64_t first, int64_t count, float *out) {
    size_t classes = (size_t)narrow->classes;
    const float *rows = NULL;
    bool copies = cst_view_copies(kernels->view);
    float *scratch = cst_alloc(context, copies ? (size_t)count : 0, classes * sizeof *scratch);
    int32_t *list = cst_alloc(context, classes, sizeof *list);
    float *entries = cst_alloc(context, classes, sizeof *entries);
    cst_status status = scratch && list && entries ? CST_OK : CST_ERROR_MEMORY;
    CST_THEN(cst_view_rows(context, kernels->view, member, first, count, scratch, &rows));
    CST_THEN(kernels_of(context, narrow, rows, count, list, entries, out));
    cst_free(context, scratch);
    cst_free(context, list);
    cst_free(context, entries);
    return status;
}
