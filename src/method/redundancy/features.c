/* Nystrom features: each member's kernel as an inner product of a few columns. */
#include "method/redundancy/hsic.h"

#include "core/la.h"
#include "core/wide.h"

#include <math.h>
#include <string.h>

/* Eigenvalues of the features' Gram below this share of the largest are zero to rounding. */
#define RANK_CUTOFF 1e-13

/* Classes from which single precision is worth it, and the error of features let pass. */
enum { SINGLE_CLASSES = 128, LANES = 16 };
#define SINGLE_ERROR 5e-3

/* Kernel of rows first..first+count-1 with the landmarks, out [count][m]. */
static cst_status against_landmarks(cst_context *context, const cst_kernels *kernels,
                                    int32_t member, const cst_features *f, int64_t first,
                                    int64_t count, double *out) {
    CST_SCOPE(scope);
    CST_NEW(context, scope, float, scratch, (count * kernels->view->classes));
    CST_NEW(context, scope, double, rows, (count * kernels->view->classes));
    CST_NEW(context, scope, double, norms, count);
    CST_TRY(cst_kernel_rows(context, kernels, member, NULL, first, count, scratch, rows, norms));
    return cst_kernel_tile(context, kernels, member, (cst_kernel_points){rows, norms, count},
                           (cst_kernel_points){f->points, f->norms, f->landmarks}, out);
}

/* Products into kernels, in place. */
CST_KERNEL(to_kernels,
           (int64_t width, float own, const float *restrict exponents, float *restrict x),
           (width, own, exponents, x)) {
    for (int64_t l = 0; l < width; l++) {
        float exponent = x[l] + (own + exponents[l]);
        uint32_t bits = cst_bits_f32(exponent);
        bits &= 0 - (bits >> 31); /* a distance is not below 0 */
        x[l] = cst_exp_one_f32(cst_f32_of(bits));
    }
}

CST_KERNEL(square, (int64_t classes, const float *restrict row, double *sum), (classes, row, sum)) {
    double lane[LANES] = {0};
    int64_t whole = classes - classes % LANES;
    for (int64_t c = 0; c < whole; c += LANES)
        for (int64_t l = 0; l < LANES; l++)
            lane[l] += (double)row[c + l] * (double)row[c + l];
    for (int64_t c = whole; c < classes; c++)
        lane[c - whole] += (double)row[c] * (double)row[c];
    *sum = 0;
    for (int64_t l = 0; l < LANES; l++)
        *sum += lane[l];
}

/* Kernels [count][m] of rows [count][C] in single precision. */
static cst_status single_kernels(cst_context *context, const cst_features *f, int32_t classes,
                                 const float *rows, int64_t count, float *out) {
    int64_t m = f->landmarks;
    CST_TRY(cst_gemm_f32(context, false, false, count, m, classes, 1, rows, classes, f->columns, m,
                         0, out, m));
    for (int64_t i = 0; i < count; i++) {
        double norm = 0;
        square(classes, rows + i * classes, &norm);
        to_kernels(m, (float)(norm * f->scale), f->exponents, out + i * m);
    }
    return CST_OK;
}

/* As against_landmarks, in single precision. */
static cst_status against_singles(cst_context *context, const cst_kernels *kernels, int32_t member,
                                  const cst_features *f, int64_t first, int64_t count, float *out) {
    const cst_view *view = kernels->view;
    const float *rows = NULL;
    CST_SCOPE(scope);
    CST_NEW(context, scope, float, scratch, (cst_view_copies(view) ? count * view->classes : 0));
    CST_TRY(cst_view_rows(context, view, member, first, count, scratch, &rows));
    return single_kernels(context, f, view->classes, rows, count, out);
}

/* Root mean square error of landmarks' features in single precision; kernel [m][m]. */
static cst_status single_error(cst_context *context, const cst_features *f, int32_t classes,
                               const float *rows, const double *kernel, const double *root,
                               int64_t kept, double *error) {
    int64_t m = f->landmarks;
    double squares = 0;
    CST_SCOPE(scope);
    CST_NEW(context, scope, float, single, (m * m));
    CST_NEW(context, scope, double, e, (m * m));
    CST_NEW(context, scope, double, moved, (m * kept));
    CST_TRY(single_kernels(context, f, classes, rows, m, single));
    for (int64_t x = 0; x < m * m; x++)
        e[x] = (double)single[x] - kernel[x];
    CST_TRY(cst_gemm_f64(context, false, false, m, kept, m, 1, e, m, root, kept, 0, moved, kept));
    for (int64_t x = 0; x < m * kept; x++)
        squares += moved[x] * moved[x];
    *error = sqrt(squares / (double)m);
    return CST_OK;
}

/* The landmarks in single precision where that does; else f->columns stays NULL. */
static cst_status take_singles(cst_context *context, const cst_kernels *kernels, int32_t member,
                               const int64_t *landmarks, const double *kernel, const double *root,
                               int64_t kept, cst_features *f) {
    int64_t m = f->landmarks;
    int32_t classes = kernels->view->classes;
    double sigma = kernels->sigma[member];
    double inverse = 1 / (sigma * sigma);
    double error = 0;
    if (classes < SINGLE_CLASSES || kept == 0)
        return CST_OK;
    CST_SCOPE(scope);
    CST_NEW(context, scope, float, rows, (m * classes));
    CST_TRY(cst_view_gather(context, kernels->view, member, landmarks, m, rows));
    CST_TAKE(context, &f->scope, f->columns, (m * classes));
    CST_TAKE(context, &f->scope, f->exponents, m);
    f->scale = -0.5 * inverse;
    for (int64_t l = 0; l < m; l++) {
        double norm = 0;
        square(classes, rows + l * classes, &norm);
        f->exponents[l] = (float)(norm * f->scale);
        for (int64_t c = 0; c < classes; c++)
            f->columns[c * m + l] = (float)((double)rows[l * classes + c] * inverse);
    }
    CST_TRY(single_error(context, f, classes, rows, kernel, root, kept, &error));
    if (!(error <= SINGLE_ERROR))
        f->columns = NULL;
    return CST_OK;
}

/* Scaled eigenvectors [n][n] from the largest eigenvalue down into out [n][keep]. */
static void top_columns(const double *vectors, int64_t n, int64_t keep, const double *scale,
                        double *out) {
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j < keep; j++)
            out[i * keep + j] = vectors[i * n + (n - 1 - j)] * (scale ? scale[n - 1 - j] : 1);
}

/* W^(-1/2) up to a rotation, root [m][*kept]; then single precision where that does. */
static cst_status inverse_root(cst_context *context, const cst_kernels *kernels, int32_t member,
                               const int64_t *landmarks, cst_features *f, double *root,
                               int64_t *kept) {
    int64_t m = f->landmarks;
    const cst_kernel_points points = {f->points, f->norms, m};
    CST_SCOPE(scope);
    CST_NEW(context, scope, double, kernel, (m * m));
    CST_NEW(context, scope, double, w, (m * m));
    CST_NEW(context, scope, double, values, m);
    CST_TRY(cst_kernel_tile(context, kernels, member, points, points, w));
    for (int64_t i = 0; i < m; i++)
        w[i * m + i] = 1;
    memcpy(kernel, w, (size_t)(m * m) * sizeof *kernel);
    CST_TRY(cst_eigh(context, m, w, values));
    double cutoff = CST_LANDMARK_CUTOFF * values[m - 1];
    *kept = 0;
    for (int64_t i = m - 1; i >= 0 && values[i] > cutoff; i--, ++*kept)
        values[i] = 1 / sqrt(values[i]);
    top_columns(w, m, *kept, values, root);
    return take_singles(context, kernels, member, landmarks, kernel, root, *kept, f);
}

/* Sum over rows of z z' (lower triangle of [q][q]) and of z [q], z = k' root. Sums of k k' would
 * multiply rounding errors by 1/eigenvalue of W instead of its root. */
static cst_status sum_rows(cst_context *context, const cst_kernels *kernels, int32_t member,
                           const cst_features *f, const double *root, int64_t q, double *gram,
                           double *sums) {
    int64_t m = f->landmarks;
    int64_t rows = kernels->view->rows;
    CST_SCOPE(scope);
    CST_NEW(context, scope, double, block, (CST_BLOCK_ROWS * m));
    CST_NEW(context, scope, double, z, (CST_BLOCK_ROWS * q));
    for (int64_t b = 0; b < cst_block_count(rows); b++) {
        int64_t count = cst_block_size(rows, b);
        CST_TRY(against_landmarks(context, kernels, member, f, cst_block_first(b), count, block));
        CST_TRY(cst_gemm_f64(context, false, false, count, q, m, 1, block, m, root, q, 0, z, q));
        CST_TRY(cst_syrk_f64(context, q, count, 1, z, q, 1, gram, q));
        for (int64_t i = 0; i < count; i++)
            for (int64_t j = 0; j < q; j++)
                sums[j] += z[i * q + j];
    }
    return CST_OK;
}

/* As sum_rows, in single precision but for sums over blocks; all of gram. */
static cst_status sum_rows_f32(cst_context *context, const cst_kernels *kernels, int32_t member,
                               const cst_features *f, const double *root, int64_t q, double *gram,
                               double *sums) {
    int64_t m = f->landmarks;
    int64_t rows = kernels->view->rows;
    CST_SCOPE(scope);
    CST_NEW(context, scope, float, block, (CST_BLOCK_ROWS * m));
    CST_NEW(context, scope, float, z, (CST_BLOCK_ROWS * q));
    CST_NEW(context, scope, float, single, (m * q));
    CST_NEW(context, scope, float, part, (q * q));
    for (int64_t x = 0; x < m * q; x++)
        single[x] = (float)root[x];
    for (int64_t b = 0; b < cst_block_count(rows); b++) {
        int64_t count = cst_block_size(rows, b);
        CST_TRY(against_singles(context, kernels, member, f, cst_block_first(b), count, block));
        CST_TRY(cst_gemm_f32(context, false, false, count, q, m, 1, block, m, single, q, 0, z, q));
        CST_TRY(cst_gemm_f32(context, true, false, q, q, count, 1, z, q, z, q, 0, part, q));
        for (int64_t x = 0; x < q * q; x++)
            gram[x] += (double)part[x];
        for (int64_t i = 0; i < count; i++)
            for (int64_t j = 0; j < q; j++)
                sums[j] += (double)z[i * q + j];
    }
    return CST_OK;
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
    double trace = 0;
    CST_SCOPE(scope);
    CST_NEW(context, scope, double, mean, q);
    CST_NEW(context, scope, double, values, q);
    CST_NEW(context, scope, double, axes, (q * q));
    for (int64_t i = 0; i < q; i++) {
        mean[i] = sums[i] / rows;
        trace += gram[i * q + i];
        for (int64_t j = 0; j <= i; j++)
            gram[i * q + j] -= rows * mean[i] * mean[j];
    }
    double residual = 1 - trace / rows;
    out->residual = residual < 0 ? 0 : residual;
    CST_TRY(cst_eigh(context, q, gram, values));
    int64_t r = out->rank = numerical_rank(values, q, tail);
    CST_TAKE(context, &out->scope, out->projection, (m * r));
    CST_TAKE(context, &out->scope, out->mean, r);
    CST_TAKE(context, &out->scope, out->spectrum, r);
    for (int64_t j = 0; j < r; j++)
        out->spectrum[j] = values[q - 1 - j];
    top_columns(gram, q, r, NULL, axes);
    CST_TRY(
        cst_gemm_f64(context, false, false, m, r, q, 1, root, q, axes, r, 0, out->projection, r));
    return cst_gemm_f64(context, true, false, r, 1, q, 1, axes, r, mean, 1, 0, out->mean, 1);
}

cst_status cst_features_fit(cst_context *context, const cst_kernels *kernels, int32_t member,
                            const int64_t *landmarks, int64_t count, double tail,
                            cst_features *out) {
    *out = (cst_features){.landmarks = count};
    int64_t m = count;
    int64_t classes = kernels->view->classes;
    int64_t kept = 0;
    CST_SCOPE(scope);
    CST_NEW(context, scope, float, scratch, (CST_BLOCK_ROWS * classes));
    CST_NEW(context, scope, double, root, (m * m));
    CST_NEW(context, scope, double, gram, (m * m));
    CST_NEW(context, scope, double, sums, m);
    CST_TAKE(context, &out->scope, out->points, (m * classes));
    CST_TAKE(context, &out->scope, out->norms, m);
    CST_TRY(cst_kernel_rows(context, kernels, member, landmarks, 0, m, scratch, out->points,
                            out->norms));
    CST_TRY(inverse_root(context, kernels, member, landmarks, out, root, &kept));
    CST_TRY((out->columns ? sum_rows_f32 : sum_rows)(context, kernels, member, out, root, kept,
                                                     gram, sums));
    CST_TRY(rotate(context, (double)kernels->view->rows, root, kept, gram, sums, tail, out));
    if (!out->columns)
        return CST_OK;
    CST_TAKE(context, &out->scope, out->single, (m * out->rank));
    for (int64_t x = 0; x < m * out->rank; x++)
        out->single[x] = (float)out->projection[x];
    return CST_OK;
}

cst_status cst_features_rows_f32(cst_context *context, const cst_kernels *kernels, int32_t member,
                                 const cst_features *f, int64_t first, int64_t count, float *out) {
    int64_t m = f->landmarks;
    int64_t r = f->rank;
    CST_SCOPE(scope);
    CST_NEW(context, scope, float, block, (count * m));
    CST_TRY(against_singles(context, kernels, member, f, first, count, block));
    for (int64_t i = 0; i < count; i++)
        for (int64_t j = 0; j < r; j++)
            out[i * r + j] = (float)-f->mean[j];
    return r > 0 ? cst_gemm_f32(context, false, false, count, r, m, 1, block, m, f->single, r, 1,
                                out, r)
                 : CST_OK;
}

cst_status cst_features_rows(cst_context *context, const cst_kernels *kernels, int32_t member,
                             const cst_features *f, int64_t first, int64_t count, double *out) {
    int64_t m = f->landmarks;
    int64_t r = f->rank;
    CST_SCOPE(scope);
    if (r == 0)
        return CST_OK;
    if (f->single) {
        CST_NEW(context, scope, float, single, (count * r));
        CST_TRY(cst_features_rows_f32(context, kernels, member, f, first, count, single));
        for (int64_t x = 0; x < count * r; x++)
            out[x] = (double)single[x];
        return CST_OK;
    }
    CST_NEW(context, scope, double, block, (count * m));
    CST_TRY(against_landmarks(context, kernels, member, f, first, count, block));
    for (int64_t i = 0; i < count; i++)
        for (int64_t j = 0; j < r; j++)
            out[i * r + j] = -f->mean[j];
    return cst_gemm_f64(context, false, false, count, r, m, 1, block, m, f->projection, r, 1, out,
                        r);
}
