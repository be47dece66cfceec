/*
 * Moments of the meta-design per fold, in one pass, and the standardised Gram made from them.
 * First half of stage S3; every penalised fit starts here.
 * Paper: "Spectrum-Adaptive Regularization", normalisation; method.md sections 1 and 4.
 */
#include "meta/moments.h"
#include "la/la.h"

#include <math.h>
#include <string.h>

/* (sample, class) pairs handed to BLAS at a time (more where one sample has more classes), and
 * samples that the shift is taken from. */
enum { CHUNK_PAIRS = 512, SHIFT_SAMPLES = 64 };

/* Standard deviation over root mean square at or below which a column is constant. */
static const double constant_tolerance = 1e-10;

static size_t moment_width(int32_t columns) {
    return (size_t)columns + 2;
}

void cst_moments_free(cst_context *context, cst_moments *moments) {
    if (!moments)
        return;
    cst_free(context, moments->shift);
    cst_free(context, moments->sums);
    memset(moments, 0, sizeof *moments);
}

static cst_status check_folds(cst_context *context, const int32_t *folds, int32_t fold_count,
                              int64_t rows) {
    if (fold_count < 1)
        return cst_fail(context, CST_ERROR_ARGUMENT, "%d folds: give at least one",
                        (int)fold_count);
    for (int64_t i = 0; folds && i < rows; i++)
        if (folds[i] < 0 || folds[i] >= fold_count)
            return cst_fail(context, CST_ERROR_ARGUMENT, "fold %d of row %lld is not in 0..%d",
                            (int)folds[i], (long long)i, (int)fold_count - 1);
    return CST_OK;
}

static cst_status allocate(cst_context *context, int32_t columns, int32_t folds, cst_moments *out) {
    memset(out, 0, sizeof *out);
    size_t width = moment_width(columns);
    size_t square = 0;
    size_t total = 0;
    if (!cst_size_mul(width, width, &square) || !cst_size_mul(square, (size_t)folds, &total))
        return cst_fail(context, CST_ERROR_LIMIT, "moments of %d columns in %d folds are too many",
                        (int)columns, (int)folds);
    out->columns = columns;
    out->folds = folds;
    out->shift = cst_alloc(context, (size_t)columns, sizeof(double));
    out->sums = cst_alloc(context, total, sizeof(double));
    return out->shift && out->sums ? CST_OK : CST_ERROR_MEMORY;
}

/* Both triangles of Z Z' come from one multiplication and may differ in the last bit; the lower one
 * counts. */
static void symmetrise(cst_moments *moments) {
    size_t width = moment_width(moments->columns);
    for (int32_t f = 0; f < moments->folds; f++) {
        double *sum = moments->sums + (size_t)f * width * width;
        for (size_t i = 0; i < width; i++)
            for (size_t j = 0; j < i; j++)
                sum[j * width + i] = sum[i * width + j];
    }
}

/* ---- from a view --------------------------------------------------------------------------- */

typedef struct pass {
    const cst_view *view;
    const cst_gate *gate;
    const int32_t *folds;
    int32_t fold_count;
    int32_t columns;
    int64_t chunk; /* samples per chunk */
    const double *shift;
} pass;

typedef struct buffers {
    float *gathered;       /* [members][chunk * classes] */
    const float **members; /* [members] */
    double *z;             /* [columns + 2][chunk * classes] */
    double *scratch;
} buffers;

static void free_buffers(cst_context *context, buffers *b) {
    cst_free(context, b->gathered);
    cst_free(context, b->members);
    cst_free(context, b->z);
    cst_free(context, b->scratch);
}

static cst_status make_buffers(cst_context *context, const pass *p, buffers *b) {
    memset(b, 0, sizeof *b);
    size_t pairs = (size_t)p->chunk * (size_t)p->view->classes;
    b->gathered = cst_alloc(context, (size_t)p->view->members * pairs, sizeof(float));
    b->members = cst_alloc(context, (size_t)p->view->members, sizeof *b->members);
    b->z = cst_alloc(context, moment_width(p->columns) * pairs, sizeof(double));
    b->scratch = cst_alloc(context, cst_design_scratch(p->gate, p->chunk), sizeof(double));
    return b->gathered && b->members && b->z && b->scratch ? CST_OK : CST_ERROR_MEMORY;
}

/* Points b->members at `count` rows of the view, copied together where they are apart. */
static cst_status gather(cst_context *context, const cst_view *view, const int64_t *rows,
                         int64_t count, buffers *b) {
    cst_status status = CST_OK;
    size_t width = (size_t)view->classes;
    size_t stride = (size_t)count * width;
    bool together = rows[count - 1] - rows[0] == count - 1; /* rows ascend */
    for (int32_t k = 0; status == CST_OK && k < view->members; k++) {
        float *place = b->gathered + (size_t)k * stride;
        b->members[k] = place;
        if (together) {
            status = cst_view_rows(context, view, k, rows[0], count, place, &b->members[k]);
            continue;
        }
        status = cst_view_gather(context, view, k, rows, count, place);
    }
    return status;
}

/* Adds the pairs of `count` rows of the view to one fold's sums. */
static cst_status add_rows(cst_context *context, const pass *p, const int64_t *rows, int64_t count,
                           buffers *b, double *sums) {
    int32_t classes = p->view->classes;
    int64_t pairs = count * classes;
    int64_t width = (int64_t)moment_width(p->columns);
    cst_status status = gather(context, p->view, rows, count, b);
    if (status != CST_OK)
        return status;
    cst_design_fill(p->gate, b->members, count, classes, b->z, pairs, b->scratch);
    for (int32_t j = 0; j < p->columns; j++) {
        double *column = b->z + j * pairs;
        double shift = p->shift[j];
        for (int64_t e = 0; e < pairs; e++)
            column[e] -= shift;
    }
    double *target = b->z + p->columns * pairs;
    double *one = target + pairs;
    for (int64_t i = 0; i < count; i++)
        for (int32_t c = 0; c < classes; c++)
            target[i * classes + c] = cst_meta_target(p->view, rows[i], c);
    for (int64_t e = 0; e < pairs; e++)
        one[e] = 1;
    return cst_gemm_f64(context, false, true, width, width, pairs, 1, b->z, pairs, b->z, pairs, 1,
                        sums, width);
}

static cst_status add_block(cst_context *worker, void *user, int64_t block, double *sum) {
    const pass *p = user;
    size_t square = moment_width(p->columns) * moment_width(p->columns);
    int64_t first = cst_block_first(block);
    int64_t size = cst_block_size(p->view->rows, block);
    int64_t rows[CST_BLOCK_ROWS];
    buffers b;
    cst_status status = make_buffers(worker, p, &b);
    for (int32_t f = 0; status == CST_OK && f < p->fold_count; f++) {
        int64_t count = 0;
        for (int64_t i = first; i < first + size; i++)
            if (!p->folds || p->folds[i] == f)
                rows[count++] = i;
        for (int64_t i = 0; status == CST_OK && i < count; i += p->chunk) {
            int64_t part = count - i < p->chunk ? count - i : p->chunk;
            status = add_rows(worker, p, rows + i, part, &b, sum + (size_t)f * square);
        }
    }
    free_buffers(worker, &b);
    return status;
}

/* Means of the columns over a few samples spread evenly over the view. */
static cst_status rough_means(cst_context *context, const pass *p, double *shift) {
    int64_t samples = p->view->rows < SHIFT_SAMPLES ? p->view->rows : SHIFT_SAMPLES;
    int32_t classes = p->view->classes;
    pass one = *p;
    one.chunk = 1;
    buffers b;
    cst_status status = make_buffers(context, &one, &b);
    if (status == CST_OK) {
        for (int64_t s = 0; status == CST_OK && s < samples; s++) {
            /* s * rows / samples without the product overflowing */
            int64_t row = p->view->rows / samples * s + p->view->rows % samples * s / samples;
            status = gather(context, p->view, &row, 1, &b);
            if (status != CST_OK)
                break;
            cst_design_fill(p->gate, b.members, 1, classes, b.z, classes, b.scratch);
            for (int32_t j = 0; j < p->columns; j++)
                for (int32_t c = 0; c < classes; c++)
                    shift[j] += b.z[(int64_t)j * classes + c];
        }
        for (int32_t j = 0; j < p->columns; j++)
            shift[j] /= (double)samples * (double)classes;
    }
    free_buffers(context, &b);
    return status;
}

cst_status cst_moments_compute(cst_context *context, const cst_view *view, const cst_gate *gate,
                               const int32_t *folds, int32_t fold_count, cst_moments *out) {
    memset(out, 0, sizeof *out);
    if (!view->labels || view->classes < 2 || view->rows < 1 || view->members < 1)
        return cst_fail(context, CST_ERROR_INPUT,
                        "%lld rows of %d classes from %d members %s labels: the meta-design needs "
                        "at least one row, two classes and one member, and labels",
                        (long long)view->rows, (int)view->classes, (int)view->members,
                        view->labels ? "with" : "without");
    if (gate->inputs != view->members)
        return cst_fail(context, CST_ERROR_MISMATCH,
                        "the gate was fitted on %d members and the view has %d", (int)gate->inputs,
                        (int)view->members);
    if (!folds)
        fold_count = 1;
    cst_status status = check_folds(context, folds, fold_count, view->rows);
    if (status == CST_OK)
        status = allocate(context, cst_design_columns(gate), fold_count, out);
    if (status == CST_OK) {
        out->mode = gate->mode;
        out->inputs = gate->inputs;
        pass p = {.view = view,
                  .gate = gate,
                  .folds = folds,
                  .fold_count = fold_count,
                  .columns = out->columns,
                  .shift = out->shift};
        p.chunk = CHUNK_PAIRS / view->classes > 1 ? CHUNK_PAIRS / view->classes : 1;
        size_t width = moment_width(out->columns);
        cst_la_enter();
        status = rough_means(context, &p, out->shift);
        if (status == CST_OK)
            status =
                cst_reduce_blocks(context, cst_block_count(view->rows),
                                  width * width * (size_t)fold_count, add_block, &p, out->sums);
        cst_la_leave();
        symmetrise(out);
    }
    if (status != CST_OK)
        cst_moments_free(context, out);
    return status;
}

/* ---- from rows in memory ------------------------------------------------------------------- */

typedef struct row_pass {
    int64_t rows;
    const double *x;
    const double *y;
    const int32_t *folds;
    cst_moments *moments;
} row_pass;

static cst_status add_row_block(cst_context *worker, void *user, int64_t block, double *sum) {
    (void)worker;
    const row_pass *p = user;
    int32_t d = p->moments->columns;
    size_t width = moment_width(d);
    int64_t first = cst_block_first(block);
    int64_t size = cst_block_size(p->rows, block);
    for (int64_t i = first; i < first + size; i++) {
        const double *x = p->x + i * d;
        const double *shift = p->moments->shift;
        double *fold = sum + (p->folds ? (size_t)p->folds[i] * width * width : 0);
        for (int32_t a = 0; a < d; a++)
            for (int32_t b = 0; b <= a; b++)
                fold[(size_t)a * width + (size_t)b] += (x[a] - shift[a]) * (x[b] - shift[b]);
        double *target = fold + (size_t)d * width;
        double *one = target + width;
        for (int32_t a = 0; a < d; a++) {
            target[a] += p->y[i] * (x[a] - shift[a]);
            one[a] += x[a] - shift[a];
        }
        target[d] += p->y[i] * p->y[i];
        one[d] += p->y[i];
        one[d + 1] += 1;
    }
    return CST_OK;
}

cst_status cst_moments_from_rows(cst_context *context, int64_t rows, int32_t columns,
                                 const double *x, const double *y, const int32_t *folds,
                                 int32_t fold_count, cst_moments *out) {
    memset(out, 0, sizeof *out);
    if (rows < 1 || columns < 1)
        return cst_fail(context, CST_ERROR_INPUT, "a design of %lld rows and %d columns is empty",
                        (long long)rows, (int)columns);
    if (!folds)
        fold_count = 1;
    cst_status status = check_folds(context, folds, fold_count, rows);
    if (status == CST_OK)
        status = allocate(context, columns, fold_count, out);
    if (status == CST_OK) {
        out->inputs = columns;
        int64_t samples = rows < SHIFT_SAMPLES ? rows : SHIFT_SAMPLES;
        for (int64_t s = 0; s < samples; s++)
            for (int32_t j = 0; j < columns; j++)
                out->shift[j] += x[(rows / samples * s) * columns + j] / (double)samples;
        row_pass p = {.rows = rows, .x = x, .y = y, .folds = folds, .moments = out};
        size_t width = moment_width(columns);
        status =
            cst_reduce_blocks(context, cst_block_count(rows), width * width * (size_t)fold_count,
                              add_row_block, &p, out->sums);
        symmetrise(out);
    }
    if (status != CST_OK)
        cst_moments_free(context, out);
    return status;
}

/* ---- sums of folds ------------------------------------------------------------------------- */

void cst_moments_without(const cst_moments *moments, int32_t fold, double *out) {
    size_t square = moment_width(moments->columns) * moment_width(moments->columns);
    memset(out, 0, square * sizeof *out);
    for (int32_t f = 0; f < moments->folds; f++) {
        if (f == fold)
            continue;
        const double *sum = moments->sums + (size_t)f * square;
        for (size_t i = 0; i < square; i++)
            out[i] += sum[i];
    }
}

void cst_moments_total(const cst_moments *moments, double *out) {
    cst_moments_without(moments, -1, out);
}

/* The form u' M u with u = (-w, 1, -b), b the intercept against the shifted columns. */
double cst_moments_loss(const cst_moments *moments, int32_t fold, const double *coefficients,
                        double intercept, double *rows) {
    int32_t d = moments->columns;
    size_t width = moment_width(d);
    double shifted = intercept;
    for (int32_t j = 0; j < d; j++)
        shifted += coefficients[j] * moments->shift[j];
    double loss = 0;
    double count = 0;
    for (int32_t f = fold < 0 ? 0 : fold; f < (fold < 0 ? moments->folds : fold + 1); f++) {
        const double *sum = moments->sums + (size_t)f * width * width;
        for (size_t i = 0; i < width; i++) {
            double product = 0;
            for (int32_t j = 0; j < d; j++)
                product -= sum[i * width + (size_t)j] * coefficients[j];
            product += sum[i * width + (size_t)d];
            product -= sum[i * width + (size_t)d + 1] * shifted;
            double u = i < (size_t)d ? -coefficients[i] : i == (size_t)d ? 1.0 : -shifted;
            loss += u * product;
        }
        count += sum[width * width - 1];
    }
    if (rows)
        *rows = count;
    return loss;
}

/* ---- standardised -------------------------------------------------------------------------- */

void cst_standardised_free(cst_context *context, cst_standardised *standardised) {
    if (!standardised)
        return;
    cst_free(context, standardised->index);
    cst_free(context, standardised->mean);
    cst_free(context, standardised->scale);
    cst_free(context, standardised->gram);
    cst_free(context, standardised->cross);
    memset(standardised, 0, sizeof *standardised);
}

/* Finds the columns that are not constant: index, mean and scale. */
static void keep_columns(cst_context *context, const cst_moments *moments, bool announce,
                         const double *sum, cst_standardised *out) {
    int32_t d = moments->columns;
    size_t width = moment_width(d);
    double n = out->rows;
    for (int32_t j = 0; j < d; j++) {
        size_t row = (size_t)j * width;
        double shifted = sum[row + (size_t)d + 1] / n;
        double variance = sum[row + (size_t)j] / n - shifted * shifted;
        double mean = moments->shift[j] + shifted;
        double bound = constant_tolerance * constant_tolerance * (variance + mean * mean);
        /* Rounding leaves a variance of some 1e-16 of the shifted second moment. */
        double rounding = 4e-16 * sum[row + (size_t)j] / n;
        if (variance > bound && variance > rounding) {
            out->index[out->kept] = j;
            out->mean[out->kept] = mean;
            out->scale[out->kept] = sqrt(variance);
            out->kept++;
        } else if (announce) {
            char name[64];
            cst_notice(
                context,
                "column \"%s\" of the meta-design is constant and is left out of the linear "
                "fits",
                cst_design_column_name(moments->mode, moments->inputs, j, name, sizeof name));
        }
    }
}

cst_status cst_standardise(cst_context *context, const cst_moments *moments, int32_t without,
                           cst_standardised *out) {
    memset(out, 0, sizeof *out);
    int32_t d = moments->columns;
    size_t width = moment_width(d);
    cst_status status = CST_ERROR_MEMORY;
    double *sum = cst_alloc(context, width * width, sizeof *sum);
    out->index = cst_alloc(context, (size_t)d, sizeof *out->index);
    out->mean = cst_alloc(context, (size_t)d, sizeof *out->mean);
    out->scale = cst_alloc(context, (size_t)d, sizeof *out->scale);
    out->gram = cst_alloc(context, (size_t)d * (size_t)d, sizeof *out->gram);
    out->cross = cst_alloc(context, (size_t)d, sizeof *out->cross);
    if (!sum || !out->index || !out->mean || !out->scale || !out->gram || !out->cross)
        goto cleanup;
    cst_moments_without(moments, without, sum);
    double n = sum[width * width - 1];
    if (!(n >= 1)) {
        status = cst_fail(context, CST_ERROR_INPUT,
                          "no rows are left without fold %d: use fewer folds or more samples",
                          (int)without);
        goto cleanup;
    }
    out->columns = d;
    out->rows = n;
    keep_columns(context, moments, without < 0, sum, out);
    if (out->kept == 0) {
        status = cst_fail(context, CST_ERROR_INPUT,
                          "all %d columns of the meta-design are constant: there is nothing to fit",
                          (int)d);
        goto cleanup;
    }
    const double *target = sum + (size_t)d * width;
    const double *one = target + width;
    out->target_mean = one[d] / n;
    out->target_square = fmax(target[d] / n - out->target_mean * out->target_mean, 0);
    size_t kept = (size_t)out->kept;
    for (size_t a = 0; a < kept; a++) {
        size_t i = (size_t)out->index[a];
        double mean = one[i] / n;
        out->cross[a] = (target[i] / n - mean * out->target_mean) / out->scale[a];
        for (size_t b = 0; b < a; b++) {
            size_t j = (size_t)out->index[b];
            double covariance = sum[i * width + j] / n - mean * (one[j] / n);
            out->gram[a * kept + b] = covariance / (out->scale[a] * out->scale[b]);
            out->gram[b * kept + a] = out->gram[a * kept + b];
        }
        out->gram[a * kept + a] = 1;
    }
    status = CST_OK;
cleanup:
    cst_free(context, sum);
    if (status != CST_OK)
        cst_standardised_free(context, out);
    return status;
}
