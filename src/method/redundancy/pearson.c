/* Pearson correlation of flattened predictions and the condition number of its matrix. */
#include "core/la.h"
#include "method/redundancy/redundancy.h"

#include <math.h>
#include <string.h>

/* Doubles of centred predictions at a time (4 MiB); members taken together in products. */
enum { PIECE_DOUBLES = 1 << 19, SIDE = 64 };

/* Members that are few, and of more the numbers of each that correlations look at. */
enum { FEW = 256 };
static const double NUMBERS = 0x1p16;

typedef struct columns {
    const cst_view *view;
    const double *shift; /* [K], subtracted from every entry of a member */
} columns;

/* The members' first entries. Subtracted first, they make a constant column exactly zero. */
static cst_status find_origins(cst_context *context, const cst_view *view, double *shift) {
    const float *row = NULL;
    CST_SCOPE(scope);
    CST_NEW(context, scope, float, scratch, view->classes);
    for (int32_t k = 0; k < view->members; k++) {
        CST_TRY(cst_view_rows(context, view, k, 0, 1, scratch, &row));
        shift[k] = (double)row[0];
    }
    return CST_OK;
}

static cst_status add_sums(cst_context *worker, void *user, int64_t block, double *sum) {
    const columns *job = user;
    CST_SCOPE(scope);
    cst_rows rows;
    CST_TRY(cst_rows_open(worker, scope, job->view, block, &rows));
    for (int32_t k = 0; k < job->view->members; k++) {
        CST_TRY(cst_rows_read(worker, &rows, k));
        for (int64_t i = 0; i < rows.count * job->view->classes; i++)
            sum[k] += (double)rows.data[i] - job->shift[k];
    }
    return CST_OK;
}

/* Adds products of centred [K][length] on and above the diagonal to sum [K*K]. */
static cst_status add_upper(cst_context *worker, int64_t members, const double *centred,
                            int64_t length, double *sum) {
    for (int64_t a = 0; a < members; a += SIDE) {
        int64_t side = members - a < SIDE ? members - a : SIDE;
        const double *from = centred + a * length;
        CST_TRY(cst_gemm_f64(worker, false, true, side, members - a, length, 1, from, length, from,
                             length, 1, sum + a * members + a, members));
    }
    return CST_OK;
}

static cst_status add_products(cst_context *worker, void *user, int64_t block, double *sum) {
    const columns *job = user;
    const cst_view *view = job->view;
    int64_t rows = cst_block_size(view->rows, block);
    size_t members = (size_t)view->members;
    int64_t piece = PIECE_DOUBLES / ((int64_t)view->members * view->classes);
    piece = piece < 1 ? 1 : piece > rows ? rows : piece;
    size_t entries = (size_t)piece * (size_t)view->classes;
    CST_SCOPE(scope);
    CST_NEW(worker, scope, float, scratch, entries);
    CST_NEW(worker, scope, double, centred, (entries * members));
    for (int64_t at = 0; at < rows; at += piece) {
        int64_t count = rows - at < piece ? rows - at : piece;
        size_t length = (size_t)count * (size_t)view->classes;
        for (int32_t k = 0; k < view->members; k++) {
            const float *p = NULL;
            CST_TRY(
                cst_view_rows(worker, view, k, cst_block_first(block) + at, count, scratch, &p));
            for (size_t i = 0; i < length; i++)
                centred[(size_t)k * length + i] = (double)p[i] - job->shift[k];
        }
        CST_TRY(add_upper(worker, view->members, centred, (int64_t)length, sum));
    }
    return CST_OK;
}

static void normalise(double *pearson, size_t members, const double *products) {
    for (size_t a = 0; a < members; a++) {
        pearson[a * members + a] = 1;
        for (size_t b = a + 1; b < members; b++) {
            double scale = sqrt(products[a * members + a]) * sqrt(products[b * members + b]);
            double r = scale > 0 ? products[a * members + b] / scale : 0;
            r = r > 1 ? 1 : r < -1 ? -1 : r;
            pearson[a * members + b] = pearson[b * members + a] = r;
        }
    }
}

cst_status cst_pearson(cst_context *context, const cst_view *view, double *pearson) {
    if (view->rows < 1 || view->members < 1 || view->classes < 1)
        return cst_fail(context, CST_ERROR_ARGUMENT,
                        "a correlation needs rows, classes and members, got %lld, %d and %d",
                        (long long)view->rows, (int)view->classes, (int)view->members);
    size_t members = (size_t)view->members;
    columns job = {.view = view};
    int64_t blocks = cst_block_count(view->rows);
    CST_SCOPE(scope);
    CST_NEW(context, scope, double, sums, members);
    CST_NEW(context, scope, double, products, (members * members));
    CST_NEW(context, scope, double, shift, members);
    job.shift = shift;
    CST_TRY(find_origins(context, view, shift));
    CST_LA();
    CST_TRY(cst_reduce_blocks(context, blocks, members, add_sums, &job, sums));
    for (size_t k = 0; k < members; k++)
        shift[k] += sums[k] / ((double)view->rows * (double)view->classes);
    CST_TRY(cst_reduce_blocks(context, blocks, members * members, add_products, &job, products));
    normalise(pearson, members, products);
    return CST_OK;
}

cst_status cst_pearson_about(cst_context *context, const cst_view *view, double *pearson) {
    double all = (double)view->rows * (double)view->classes;
    int64_t step = view->members > FEW ? (int64_t)ceil(all / NUMBERS) : 1;
    cst_view some = *view;
    CST_SCOPE(scope);
    if (step > 1) {
        some.rows = (view->rows + step - 1) / step;
        CST_NEW(context, scope, int64_t, index, some.rows);
        for (int64_t i = 0; i < some.rows; i++)
            index[i] = view->index ? view->index[i * step] : i * step;
        some.index = index;
    }
    return cst_pearson(context, &some, pearson);
}

cst_status cst_gram_kappa(cst_context *context, const double *correlation, int32_t members,
                          const int32_t *subset, int32_t count, double *kappa) {
    int32_t size = subset ? count : members;
    *kappa = NAN;
    if (size < 1)
        return CST_OK; /* of a method that uses no member */
    size_t n = (size_t)size;
    CST_SCOPE(scope);
    CST_NEW(context, scope, double, matrix, (n * n));
    CST_NEW(context, scope, double, values, n);
    for (size_t a = 0; a < n; a++)
        for (size_t b = 0; b < n; b++) {
            size_t i = subset ? (size_t)subset[a] : a;
            size_t j = subset ? (size_t)subset[b] : b;
            matrix[a * n + b] = correlation[i * (size_t)members + j];
        }
    CST_LA();
    CST_TRY(cst_eigh(context, size, matrix, values));
    size_t least = 0;
    while (least < n && !(values[least] >= 1e-10 * values[n - 1]))
        least++;
    if (least < n)
        *kappa = values[n - 1] / values[least];
    return CST_OK;
}

cst_status cst_cka_kappa(cst_context *context, const cst_cka_result *cka, const int32_t *subset,
                         int32_t count, double *kappa) {
    size_t members = (size_t)cka->members;
    int32_t size = subset ? count : cka->members;
    *kappa = NAN;
    for (int32_t a = 0; cka->estimated && a < size; a++)
        for (int32_t b = 0; b < a; b++) {
            size_t i = (size_t)(subset ? subset[a] : a);
            size_t j = (size_t)(subset ? subset[b] : b);
            if (cka->estimated[i * members + j])
                return CST_OK;
        }
    return cka->cka ? cst_gram_kappa(context, cka->cka, cka->members, subset, count, kappa)
                    : CST_OK;
}
