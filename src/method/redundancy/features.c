/*
 * Nystrom features: each member's kernel as an inner product of a few columns. Stage S1, between
 * the landmarks and the HSIC of pairs. Paper: section "Scalability"; method section 2.
 */
#include "method/redundancy/hsic.h"

#include "core/la.h"

#include <math.h>
#include <string.h>

/* Eigenvalues of the features' Gram below this share of the largest are zero to rounding. */
#define RANK_CUTOFF 1e-13

/* Kernel of rows first..first+count-1 with the landmarks, out [count][m]. */
static cst_status against_landmarks(cst_context *context, const cst_kernels *kernels,
                                    int32_t member, const cst_features *f, int64_t first,
                                    int64_t count, double *out) {
    size_t entries = (size_t)count * (size_t)kernels->view->classes;
    float *scratch = cst_alloc(context, entries, sizeof *scratch);
    double *rows = cst_alloc(context, entries, sizeof *rows);
    double *norms = cst_alloc(context, (size_t)count, sizeof *norms);
    cst_status status = scratch && rows && norms ? CST_OK : CST_ERROR_MEMORY;
    if (status == CST_OK) {
        status =
            cst_kernel_rows(context, kernels, member, NULL, first, count, scratch, rows, norms);
        CST_THEN(cst_kernel_tile(context, kernels, member, (cst_kernel_points){rows, norms, count},
                                 (cst_kernel_points){f->points, f->norms, f->landmarks}, out));
    }
    cst_free(context, scratch);
    cst_free(context, rows);
    cst_free(context, norms);
    return status;
}

/* Columns of a [n][n] matrix of eigenvectors from the largest eigenvalue down, each scaled, into
 * out [n][keep]. */
static void top_columns(const double *vectors, int64_t n, int64_t keep, const double *scale,
                        double *out) {
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j < keep; j++)
            out[i * keep + j] = vectors[i * n + (n - 1 - j)] * (scale ? scale[n - 1 - j] : 1);
}

/* W^(-1/2) up to a rotation: eigenvectors over roots of eigenvalues, root [m][*kept]. Kernels with
 * the landmarks are in single precision from here on where that does. */
static cst_status inverse_root(cst_context *context, const cst_kernels *kernels, int32_t member,
                               const int64_t *landmarks, cst_features *f, double *root,
                               int64_t *kept) {
    int64_t m = f->landmarks;
    double *kernel = cst_alloc(context, (size_t)m, (size_t)m * sizeof *kernel);
    double *w = cst_alloc(context, (size_t)m, (size_t)m * sizeof *w);
    double *values = cst_alloc(context, (size_t)m, sizeof *values);
    cst_status status = kernel && w && values ? CST_OK : CST_ERROR_MEMORY;
    const cst_kernel_points points = {f->points, f->norms, m};
    CST_THEN(cst_kernel_tile(context, kernels, member, points, points, w));
    for (int64_t i = 0; status == CST_OK && i < m; i++)
        w[i * m + i] = 1;
    if (status == CST_OK) {
        memcpy(kernel, w, (size_t)(m * m) * sizeof *kernel);
        status = cst_eigh(context, m, w, values);
    }
    *kept = 0;
    double cutoff = status == CST_OK ? CST_LANDMARK_CUTOFF * values[m - 1] : 0;
    for (int64_t i = m - 1; status == CST_OK && i >= 0; i--) {
        if (!(values[i] > cutoff))
            break;
        values[i] = 1 / sqrt(values[i]);
        ++*kept;
    }
    if (status == CST_OK) {
        top_columns(w, m, *kept, values, root);
        status = cst_narrow_create(context, kernels, member, landmarks, m, kernel, root, *kept,
                                   &f->narrow);
    }
    cst_free(context, kernel);
    cst_free(context, w);
    cst_free(context, values);
    return status;
}

/* Sum over rows of z z' (lower triangle of [q][q]) and of z ([q]), where z = k' root is a row's
 * features before rotation. Summing k k' instead would be cheaper, but 1/eigenvalue of W would then
 * multiply its rounding errors, where here only the root of that does. */
static cst_status sum_rows(cst_context *context, const cst_kernels *kernels, int32_t member,
                           const cst_features *f, const double *root, int64_t q, double *gram,
                           double *sums) {
    int64_t m = f->landmarks;
    int64_t rows = kernels->view->rows;
    double *block = cst_alloc(context, CST_BLOCK_ROWS, (size_t)m * sizeof *block);
    double *z = cst_alloc(context, CST_BLOCK_ROWS, (size_t)q * sizeof *z);
    cst_status status = block && z ? CST_OK : CST_ERROR_MEMORY;
    for (int64_t b = 0; status == CST_OK && b < cst_block_count(rows); b++) {
        int64_t count = cst_block_size(rows, b);
        status = against_landmarks(context, kernels, member, f, cst_block_first(b), count, block);
        CST_THEN(cst_gemm_f64(context, false, false, count, q, m, 1, block, m, root, q, 0, z, q));
        CST_THEN(cst_syrk_f64(context, q, count, 1, z, q, 1, gram, q));
        for (int64_t i = 0; status == CST_OK && i < count; i++)
            for (int64_t j = 0; j < q; j++)
                sums[j] += z[i * q + j];
    }
    cst_free(context, block);
    cst_free(context, z);
    return status;
}

/* As sum_rows, in single precision but for sums over blocks; all of gram. */
static cst_status sum_rows_f32(cst_context *context, const cst_kernels *kernels, int32_t member,
                               const cst_features *f, const double *root, int64_t q, double *gram,
                               double *sums) {
    int64_t m = f->landmarks;
    int64_t width = f->narrow.width;
    int64_t rows = kernels->view->rows;
    float *block = cst_alloc(context, CST_BLOCK_ROWS, (size_t)width * sizeof *block);
    float *z = cst_alloc(context, CST_BLOCK_ROWS, (size_t)q * sizeof *z);
    float *single = cst_alloc(context, (size_t)m, (size_t)q * sizeof *single);
    float *part = cst_alloc(context, (size_t)q, (size_t)q * sizeof *part);
    cst_status status = block && z && single && part ? CST_OK : CST_ERROR_MEMORY;
    for (int64_t x = 0; status == CST_OK && x < m * q; x++)
        single[x] = (float)root[x];
    for (int64_t b = 0; status == CST_OK && b < cst_block_count(rows); b++) {
        int64_t count = cst_block_size(rows, b);
        status =
            cst_narrow_rows(context, kernels, member, &f->narrow, cst_block_first(b), count, block);
        CST_THEN(
            cst_gemm_f32(context, false, false, count, q, m, 1, block, width, single, q, 0, z, q));
        CST_THEN(cst_gemm_f32(context, true, false, q, q, count, 1, z, q, z, q, 0, part, q));
        for (int64_t x = 0; status == CST_OK && x < q * q; x++)
            gram[x] += (double)part[x];
        for (int64_t i = 0; status == CST_OK && i < count; i++)
            for (int64_t j = 0; j < q; j++)
                sums[j] += (double)z[i * q + j];
    }
    cst_free(context, block);
    cst_free(context, z);
    cst_free(context, single);
    cst_free(context, part);
    return status;
}

/* How many of the `n` ascending eigenvalues to keep from the top. */
static int64_t numerical_rank(const double *values, int64_t n, double tail) {
    double squares = 0;
    for (int64_t i = 0; i < n; i++)
        squares += values[i] > 0 ? values[i] * values[i] : 0;
    int64_t dropped = 0;
    double lost = 0;
    while (dropped < n) {
        double value = values[dropped];
        lost += value > 0 ? value * value : 0;
        if (value > RANK_CUTOFF * values[n - 1] && lost > tail * tail * squares)
            break;
        dropped++;
    }
    return n - dropped;
}

/* From the sums over rows and W^(-1/2) [m][q]: the axes of the features' centred Gram. `gram` is
 * overwritten. */
static cst_status rotate(cst_context *context, double rows, const double *root, int64_t q,
                         double *gram, const double *sums, double tail, cst_features *out) {
    int64_t m = out->landmarks;
    double *mean = cst_alloc(context, (size_t)q, sizeof *mean);
    double *values = cst_alloc(context, (size_t)q, sizeof *values);
    double *axes = cst_alloc(context, (size_t)q, (size_t)q * sizeof *axes);
    cst_status status = mean && values && axes ? CST_OK : CST_ERROR_MEMORY;
    double trace = 0;
    for (int64_t i = 0; status == CST_OK && i < q; i++) {
        mean[i] = sums[i] / rows;
        trace += gram[i * q + i];
        for (int64_t j = 0; j <= i; j++)
            gram[i * q + j] -= rows * mean[i] * mean[j];
    }
    double residual = 1 - trace / rows;
    out->residual = residual < 0 ? 0 : residual;
    CST_THEN(cst_eigh(context, q, gram, values));
    if (status != CST_OK)
        goto cleanup;
    out->rank = numerical_rank(values, q, tail);
    size_t r = (size_t)out->rank;
    out->projection = cst_alloc(context, (size_t)m, r * sizeof *out->projection);
    out->mean = cst_alloc(context, r, sizeof *out->mean);
    out->spectrum = cst_alloc(context, r, sizeof *out->spectrum);
    if (!out->projection || !out->mean || !out->spectrum) {
        status = CST_ERROR_MEMORY;
        goto cleanup;
    }
    for (size_t j = 0; j < r; j++)
        out->spectrum[j] = values[(size_t)q - 1 - j];
    top_columns(gram, q, out->rank, NULL, axes);
    status = cst_gemm_f64(context, false, false, m, out->rank, q, 1, root, q, axes, out->rank, 0,
                          out->projection, out->rank);
    CST_THEN(cst_gemm_f64(context, true, false, out->rank, 1, q, 1, axes, out->rank, mean, 1, 0,
                          out->mean, 1));

cleanup:
    cst_free(context, mean);
    cst_free(context, values);
    cst_free(context, axes);
    return status;
}

static cst_status narrow_projection(cst_context *context, cst_features *out) {
    int64_t count = out->landmarks * out->rank;
    out->single = cst_alloc(context, (size_t)count, sizeof *out->single);
    for (int64_t x = 0; out->single && x < count; x++)
        out->single[x] = (float)out->projection[x];
    return out->single ? CST_OK : CST_ERROR_MEMORY;
}

cst_status cst_features_fit(cst_context *context, const cst_kernels *kernels, int32_t member,
                            const int64_t *landmarks, int64_t count, double tail,
                            cst_features *out) {
    memset(out, 0, sizeof *out);
    size_t m = (size_t)count;
    size_t classes = (size_t)kernels->view->classes;
    int64_t kept = 0;
    float *scratch = cst_alloc(context, CST_BLOCK_ROWS, classes * sizeof *scratch);
    double *root = cst_alloc(context, m, m * sizeof *root);
    double *gram = cst_alloc(context, m, m * sizeof *gram);
    double *sums = cst_alloc(context, m, sizeof *sums);
    out->landmarks = count;
    out->points = cst_alloc(context, m, classes * sizeof *out->points);
    out->norms = cst_alloc(context, m, sizeof *out->norms);
    cst_status status = CST_OK;
    if (!scratch || !root || !gram || !sums || !out->points || !out->norms) {
        status = CST_ERROR_MEMORY;
        goto cleanup;
    }
    status = cst_kernel_rows(context, kernels, member, landmarks, 0, count, scratch, out->points,
                             out->norms);
    CST_THEN(inverse_root(context, kernels, member, landmarks, out, root, &kept));
    CST_THEN((out->narrow.columns ? sum_rows_f32 : sum_rows)(context, kernels, member, out, root,
                                                             kept, gram, sums));
    CST_THEN(rotate(context, (double)kernels->view->rows, root, kept, gram, sums, tail, out));
    if (status == CST_OK && out->narrow.columns)
        status = narrow_projection(context, out);

cleanup:
    cst_free(context, scratch);
    cst_free(context, root);
    cst_free(context, gram);
    cst_free(context, sums);
    if (status != CST_OK)
        cst_features_free(context, out);
    return status;
}

void cst_features_free(cst_context *context, cst_features *features) {
    cst_free(context, features->points);
    cst_free(context, features->norms);
    cst_free(context, features->projection);
    cst_free(context, features->mean);
    cst_free(context, features->spectrum);
    cst_free(context, features->single);
    cst_narrow_free(context, &features->narrow);
    memset(features, 0, sizeof *features);
}

cst_status cst_features_rows_f32(cst_context *context, const cst_kernels *kernels, int32_t member,
                                 const cst_features *features, int64_t first, int64_t count,
                                 float *out) {
    int64_t r = features->rank;
    int64_t width = features->narrow.width;
    float *block = cst_alloc(context, (size_t)count, (size_t)width * sizeof *block);
    cst_status status = block ? CST_OK : CST_ERROR_MEMORY;
    CST_THEN(cst_narrow_rows(context, kernels, member, &features->narrow, first, count, block));
    for (int64_t i = 0; status == CST_OK && i < count; i++)
        for (int64_t j = 0; j < r; j++)
            out[i * r + j] = (float)-features->mean[j];
    if (status == CST_OK && r > 0)
        status = cst_gemm_f32(context, false, false, count, r, features->landmarks, 1, block, width,
                              features->single, r, 1, out, r);
    cst_free(context, block);
    return status;
}

/* Single precision, widened. */
static cst_status narrow_features(cst_context *context, const cst_kernels *kernels, int32_t member,
                                  const cst_features *features, int64_t first, int64_t count,
                                  double *out) {
    int64_t entries = count * features->rank;
    float *single = cst_alloc(context, (size_t)entries, sizeof *single);
    cst_status status = single ? CST_OK : CST_ERROR_MEMORY;
    CST_THEN(cst_features_rows_f32(context, kernels, member, features, first, count, single));
    for (int64_t x = 0; status == CST_OK && x < entries; x++)
        out[x] = (double)single[x];
    cst_free(context, single);
    return status;
}

cst_status cst_features_rows(cst_context *context, const cst_kernels *kernels, int32_t member,
                             const cst_features *features, int64_t first, int64_t count,
                             double *out) {
    if (features->rank == 0)
        return CST_OK;
    if (features->single)
        return narrow_features(context, kernels, member, features, first, count, out);
    int64_t m = features->landmarks;
    int64_t r = features->rank;
    double *block = cst_alloc(context, (size_t)count, (size_t)m * sizeof *block);
    cst_status status = block ? CST_OK : CST_ERROR_MEMORY;
    CST_THEN(against_landmarks(context, kernels, member, features, first, count, block));
    for (int64_t i = 0; status == CST_OK && i < count; i++)
        for (int64_t j = 0; j < r; j++)
            out[i * r + j] = -features->mean[j];
    CST_THEN(cst_gemm_f64(context, false, false, count, r, m, 1, block, m, features->projection, r,
                          1, out, r));
    cst_free(context, block);
    return status;
}
