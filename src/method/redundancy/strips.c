/* Members packed by strips of rows, for tiles of their kernels in single precision, except where
 * rows lie too far apart for their sigma. Small products are left out. Both are measured on a
 * sample. */
#include "method/redundancy/hsic.h"

#include "core/la.h"
#include "core/ranks.h"
#include "core/wide.h"

#include <math.h>
#include <string.h>

/* Error of a packing: at most twice that in a CKA, by Cauchy-Schwarz. */
#define PACKING_ERROR 5e-3

/* Products in a b / sigma^2 that may be left out, from the cheapest down. */
static const float CUTS[] = {1e-2F, 3e-3F, 1e-3F, 3e-4F, 1e-4F, 3e-5F, 1e-5F, 1e-6F};
enum { CUT_COUNT = 8 };

/* Seconds of a sparse product, a class of it, a dense multiply-add, a pair; ratios matter. */
#define SECONDS_PRODUCT 4e-9
#define SECONDS_CLASS 1.2e-8
#define SECONDS_ADD 1.6e-11
#define SECONDS_PAIR 0.8e-9

/* ---- tiles ---- */

/* exp(x), x <= 0, within 3e-7; 0 above 0 and exp(-87) below -87. */
CST_WIDE_INLINE float exp_negative(float x) {
    uint32_t bits = cst_bits_f32(x);
    bits &= 0 - (bits >> 31);
    x = -cst_f32_of(cst_least_u32(bits & UINT32_C(0x7fffffff), cst_bits_f32(87.0F)));
    float shifted = x * 1.44269504F + 0x1.8p23F;
    float n = shifted - 0x1.8p23F;
    float power = cst_f32_of((cst_bits_f32(shifted) + 127) << 23);
    float r = x - n * 0.693147181F;
    float series = 0x1.6d117cp-10F;
    series = series * r + 0x1.120be2p-7F;
    series = series * r + 0x1.555518p-5F;
    series = series * r + 0x1.5554dcp-3F;
    series = series * r + 0.5F;
    return (1.0F + (r + r * r * series)) * power;
}

enum { LANES = 16 };

/* Turns products a b / sigma^2 into kernels less levels, in place, [na][nb]. */
CST_KERNEL(kernels_in_place,
           (int64_t na, int64_t nb, const float *restrict ea, const float *restrict eb,
            const float *restrict la, const float *restrict lb, float *restrict g),
           (na, nb, ea, eb, la, lb, g)) {
    for (int64_t x = 0; x < na; x++) {
        float *restrict row = g + x * nb;
        float exponent = ea[x];
        float level = la[x];
        for (int64_t y = 0; y < nb; y++)
            row[y] = exp_negative(row[y] + (exponent + eb[y])) - (level + lb[y]);
    }
}

/* Adds the sums of rows and columns of a tile. */
CST_KERNEL(margins,
           (int64_t na, int64_t nb, const float *restrict g, double *restrict row_sums,
            float *restrict columns),
           (na, nb, g, row_sums, columns)) {
    int64_t whole = nb - nb % LANES;
    for (int64_t x = 0; x < na; x++) {
        const float *restrict row = g + x * nb;
        float lane[LANES] = {0};
        for (int64_t y = 0; y < whole; y += LANES)
            for (int64_t l = 0; l < LANES; l++)
                lane[l] += row[y + l];
        for (int64_t y = whole; y < nb; y++)
            lane[y - whole] += row[y];
        double sum = 0;
        for (int64_t l = 0; l < LANES; l++)
            sum += (double)lane[l];
        row_sums[x] += cst_on_grid(sum);
        for (int64_t y = 0; y < nb; y++)
            columns[y] += row[y];
    }
}

/* Products of at least `cut` of two strips' entries in a class; returns their number. */
static int64_t sparse_products(const cst_strip *a, const cst_strip *b, int32_t classes, float cut,
                               float *g) {
    int64_t done = 0;
    memset(g, 0, (size_t)(a->rows * b->rows) * sizeof *g);
    for (int32_t c = 0; c < classes; c++) {
        uint32_t end_a = a->starts[c + 1];
        uint32_t first_b = b->starts[c];
        uint32_t end_b = b->starts[c + 1];
        for (uint32_t x = a->starts[c]; x < end_a && first_b < end_b; x++) {
            float value = a->values[x];
            float *row = g + (int64_t)a->places[x] * b->rows;
            uint32_t y = first_b;
            for (; y < end_b; y++) {
                float product = value * b->values[y];
                if (product < cut)
                    break;
                row[b->places[y]] += product;
            }
            done += y - first_b;
            if (y == first_b)
                break;
        }
    }
    return done;
}

static cst_status products(cst_context *context, cst_packing packing, const cst_strip *a,
                           const cst_strip *b, int32_t classes, float cut, float *g) {
    if (packing == CST_PACKED_SPARSE) {
        (void)sparse_products(a, b, classes, cut, g);
        return CST_OK;
    }
    return cst_gemm_f32(context, false, true, a->rows, b->rows, classes, 1, a->dense, classes,
                        b->dense, classes, 0, g, b->rows);
}

/* A tile in double precision, from the view: for members that single precision does not suit. */
static cst_status wide_tile(cst_context *context, const cst_packed *packed, int32_t member,
                            int64_t i, int64_t j, float *out) {
    const cst_strip *strips = packed->member[member].strips;
    const int64_t first[2] = {i * CST_STRIP_ROWS, j * CST_STRIP_ROWS};
    const int64_t count[2] = {strips[i].rows, strips[j].rows};
    CST_SCOPE(scope);
    CST_NEW(context, scope, double, tile, (CST_STRIP_ROWS * CST_STRIP_ROWS));
    CST_TRY(cst_kernel_pair(context, packed->kernels, member, packed->sample, first, count, tile));
    for (int64_t x = 0; x < count[0] * count[1]; x++)
        out[x] = (float)tile[x];
    return CST_OK;
}

cst_status cst_packed_tile(cst_context *context, const cst_packed *packed, int32_t member,
                           int64_t i, int64_t j, float *out, double *row_sums,
                           double *column_sums) {
    const cst_packed_member *m = &packed->member[member];
    const cst_strip *a = &m->strips[i];
    const cst_strip *b = &m->strips[j];
    float columns[CST_STRIP_ROWS] = {0};
    if (m->packing == CST_PACKED_NOT) {
        CST_TRY(wide_tile(context, packed, member, i, j, out));
    } else {
        CST_TRY(products(context, m->packing, a, b, packed->kernels->view->classes, m->cut, out));
        kernels_in_place(a->rows, b->rows, a->exponents, b->exponents,
                         m->levels + i * CST_STRIP_ROWS, m->levels + j * CST_STRIP_ROWS, out);
    }
    for (int64_t x = 0; i == j && x < a->rows; x++)
        out[x * b->rows + x] = 0;
    margins(a->rows, b->rows, out, row_sums, columns);
    for (int64_t y = 0; i != j && y < b->rows; y++)
        column_sums[y] += cst_on_grid((double)columns[y]);
    return CST_OK;
}

double cst_packed_diagonal(const cst_packed *packed, int32_t member, int64_t row) {
    const cst_packed_member *m = &packed->member[member];
    return m->packing == CST_PACKED_NOT ? 1 : 1 - 2 * (double)m->levels[row];
}

/* ---- strips ---- */

CST_KERNEL(count_kept,
           (int64_t classes, float least, const float *restrict row, uint32_t *restrict count),
           (classes, least, row, count)) {
    for (int64_t c = 0; c < classes; c++)
        count[c] += row[c] >= least;
}

/* Sum of squares of a row less an origin (NULL: 0), and whether all entries are within 0..1. */
CST_KERNEL(measure,
           (int64_t classes, const float *restrict row, const double *restrict origin,
            double *square, bool *fit),
           (classes, row, origin, square, fit)) {
    double lane[LANES] = {0};
    float low[LANES] = {0};
    float high[LANES] = {0};
    int64_t whole = classes - classes % LANES;
    for (int64_t c = 0; c < whole; c += LANES)
        for (int64_t l = 0; l < LANES; l++) {
            double x = (double)row[c + l] - (origin ? origin[c + l] : 0);
            lane[l] += x * x;
            low[l] = row[c + l] < low[l] ? row[c + l] : low[l];
            high[l] = row[c + l] > high[l] ? row[c + l] : high[l];
        }
    for (int64_t c = whole; c < classes; c++) {
        int64_t l = c - whole;
        double x = (double)row[c] - (origin ? origin[c] : 0);
        lane[l] += x * x;
        low[l] = row[c] < low[l] ? row[c] : low[l];
        high[l] = row[c] > high[l] ? row[c] : high[l];
    }
    *square = 0;
    for (int64_t l = 0; l < LANES; l++) {
        *square += lane[l];
        *fit = *fit && low[l] >= 0 && high[l] <= 1.0001F;
    }
}

/* Insertion sort, descending: a class has few entries in a strip. */
static void sort_entries(float *values, uint8_t *places, uint32_t count) {
    for (uint32_t i = 1; i < count; i++) {
        float value = values[i];
        uint8_t place = places[i];
        uint32_t at = i;
        for (; at > 0 && values[at - 1] < value; at--) {
            values[at] = values[at - 1];
            places[at] = places[at - 1];
        }
        values[at] = value;
        places[at] = place;
    }
}

/* Entries that can be part of a product of at least `cut`, the other factor being at most 1. */
static cst_status pack_sparse(cst_context *context, cst_scope *owner, const float *rows,
                              int64_t count, int32_t classes, double sigma, float cut,
                              cst_strip *out) {
    float least = cut * (float)(sigma * sigma);
    float scale = (float)(1 / sigma);
    size_t width = (size_t)classes;
    CST_SCOPE(scope);
    CST_NEW(context, scope, uint32_t, next, width);
    CST_TAKE(context, owner, out->starts, width + 1);
    for (int64_t i = 0; i < count; i++)
        count_kept(classes, least, rows + (size_t)i * width, next);
    for (size_t c = 0; c < width; c++) {
        out->starts[c + 1] = out->starts[c] + next[c];
        next[c] = out->starts[c];
    }
    CST_TAKE(context, owner, out->values, out->starts[width]);
    CST_TAKE(context, owner, out->places, out->starts[width]);
    for (int64_t i = 0; i < count; i++) {
        const float *row = rows + (size_t)i * width;
        for (size_t c = 0; c < width; c++) {
            if (!(row[c] >= least))
                continue;
            out->values[next[c]] = row[c] * scale;
            out->places[next[c]++] = (uint8_t)i;
        }
    }
    for (size_t c = 0; c < width; c++)
        sort_entries(out->values + out->starts[c], out->places + out->starts[c],
                     out->starts[c + 1] - out->starts[c]);
    return CST_OK;
}

/* Packs rows [count] into a strip. *fit: whether they may be packed so. */
static cst_status pack_strip(cst_context *context, const cst_kernels *kernels, int32_t member,
                             cst_packed_member *how, const float *rows, int64_t count,
                             cst_strip *out, bool *fit) {
    int32_t classes = kernels->view->classes;
    double sigma = kernels->sigma[member];
    const double *origin = kernels->origin + (size_t)member * (size_t)classes;
    bool sparse = how->packing == CST_PACKED_SPARSE;
    bool within = true;
    out->rows = count;
    for (int64_t i = 0; i < count; i++) {
        double square = 0;
        measure(classes, rows + (size_t)i * (size_t)classes, sparse ? NULL : origin, &square,
                &within);
        out->exponents[i] = (float)(-0.5 * square / (sigma * sigma));
    }
    *fit = !sparse || within;
    if (sparse && *fit)
        return pack_sparse(context, &how->scope, rows, count, classes, sigma, how->cut, out);
    for (int64_t i = 0; !sparse && i < count; i++)
        for (int32_t c = 0; c < classes; c++)
            out->dense[i * classes + c] =
                (float)(((double)rows[i * classes + c] - origin[c]) / sigma);
    return CST_OK;
}

/* ---- the plan ---- */

/* |H E H| (Frobenius) of a symmetric matrix whose diagonal is not counted. */
static double centred_norm(const double *e, int64_t n, double *sums) {
    double total = 0;
    double squares = 0;
    for (int64_t i = 0; i < n; i++) {
        sums[i] = 0;
        for (int64_t j = 0; j < n; j++)
            sums[i] += i == j ? 0 : e[i * n + j];
        total += sums[i];
    }
    double pairs = (double)n - 1;
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j < n; j++) {
            double x = e[i * n + j] - (sums[i] + sums[j]) / pairs + total / ((double)n * pairs);
            squares += i == j ? 0 : x * x;
        }
    return sqrt(squares);
}

/* A member's reference rows and their exact kernel, for its plan. */
typedef struct trial {
    int64_t rows;
    float *raw;     /* [rows][C] */
    double *kernel; /* [rows][rows] */
    double *error;  /* [rows][rows] */
    double *sums;   /* [rows] */
    float *tile;    /* [rows][rows] */
    double norm;    /* of the centred kernel */
} trial;

/* Packs the reference rows by m->packing and m->cut and measures the error, in m->scope. */
static cst_status try_packing(cst_context *context, const cst_kernels *kernels, int32_t member,
                              const trial *t, cst_packed_member *m, bool *good) {
    bool fit = true;
    int32_t classes = kernels->view->classes;
    float zero[CST_REFERENCE_ROWS] = {0};
    bool sparse = m->packing == CST_PACKED_SPARSE;
    double sparse_count = 0;
    *good = false;
    cst_scope_free(&m->scope);
    m->sample = (cst_strip){0};
    CST_TAKE(context, &m->scope, m->sample.exponents, t->rows);
    if (!sparse)
        CST_TAKE(context, &m->scope, m->sample.dense, (t->rows * classes));
    CST_TRY(pack_strip(context, kernels, member, m, t->raw, t->rows, &m->sample, &fit));
    if (!fit)
        return CST_OK;
    if (sparse)
        sparse_count = (double)sparse_products(&m->sample, &m->sample, classes, m->cut, t->tile);
    else
        CST_TRY(products(context, m->packing, &m->sample, &m->sample, classes, 0, t->tile));
    int64_t pairs = t->rows * t->rows;
    kernels_in_place(t->rows, t->rows, m->sample.exponents, m->sample.exponents, zero, zero,
                     t->tile);
    for (int64_t i = 0; i < pairs; i++)
        t->error[i] = (double)t->tile[i] - t->kernel[i];
    m->error = centred_norm(t->error, t->rows, t->sums) / t->norm;
    *good = m->error <= PACKING_ERROR;
    m->seconds =
        SECONDS_PAIR + (sparse ? sparse_count / (double)pairs * SECONDS_PRODUCT +
                                     SECONDS_CLASS * classes / (CST_STRIP_ROWS * CST_STRIP_ROWS)
                               : SECONDS_ADD * classes);
    m->bytes = sparse ? 8 + 5.0 * m->sample.starts[classes] / (double)t->rows +
                            4.0 * classes / CST_STRIP_ROWS
                      : 8 + 4.0 * classes;
    return CST_OK;
}

static cst_status start_trial(cst_context *context, cst_scope *scope, const cst_kernels *kernels,
                              int32_t member, trial *t) {
    const cst_view *view = kernels->view;
    int64_t positions[CST_REFERENCE_ROWS];
    double norms[CST_REFERENCE_ROWS];
    t->rows = view->rows < CST_REFERENCE_ROWS ? view->rows : CST_REFERENCE_ROWS;
    int64_t n = t->rows;
    for (int64_t i = 0; i < n; i++) /* evenly, as rows may come class by class */
        positions[i] = (int64_t)((double)i * (double)view->rows / (double)n);
    CST_NEW(context, scope, double, rows, (n * view->classes));
    CST_TAKE(context, scope, t->raw, (n * view->classes));
    CST_TAKE(context, scope, t->kernel, (n * n));
    CST_TAKE(context, scope, t->error, (n * n));
    CST_TAKE(context, scope, t->tile, (n * n));
    CST_TAKE(context, scope, t->sums, n);
    CST_TRY(cst_kernel_rows(context, kernels, member, positions, 0, n, t->raw, rows, norms));
    const cst_kernel_points all = {rows, norms, n};
    CST_TRY(cst_kernel_tile(context, kernels, member, all, all, t->kernel));
    CST_TRY(cst_view_gather(context, view, member, positions, n, t->raw));
    t->norm = centred_norm(t->kernel, n, t->sums);
    return CST_OK;
}

static cst_status plan_member(cst_context *worker, void *user, int64_t task) {
    const cst_packed *packed = user;
    const cst_kernels *kernels = packed->kernels;
    int32_t member = (int32_t)task;
    trial t = {0};
    cst_packed_member *chosen = &packed->member[task];
    cst_packed_member dense = {.packing = CST_PACKED_DENSE};
    bool sparse_good = false;
    bool dense_good = false;
    if (kernels->constant[task])
        return CST_OK;
    CST_SCOPE(scope);
    CST_TRY(start_trial(worker, scope, kernels, member, &t));
    chosen->packing = CST_PACKED_SPARSE;
    for (int c = 0; !sparse_good && c < CUT_COUNT; c++) {
        chosen->cut = CUTS[c];
        CST_TRY(try_packing(worker, kernels, member, &t, chosen, &sparse_good));
    }
    cst_status status = try_packing(worker, kernels, member, &t, &dense, &dense_good);
    if (status == CST_OK && sparse_good && (!dense_good || chosen->seconds <= dense.seconds)) {
        cst_scope_free(&dense.scope);
        return CST_OK;
    }
    cst_scope_free(&chosen->scope);
    *chosen = dense;
    if (status == CST_OK && !dense_good) {
        cst_scope_free(&chosen->scope);
        *chosen =
            (cst_packed_member){.seconds = SECONDS_PAIR + 3 * SECONDS_ADD * kernels->view->classes};
    }
    return status;
}

cst_status cst_packed_plan(cst_context *context, const cst_kernels *kernels, cst_packed *out) {
    *out = (cst_packed){.kernels = kernels};
    CST_TAKE(context, &out->scope, out->member, kernels->view->members);
    return cst_parallel_for(context, kernels->view->members, plan_member, out);
}

/* ---- all rows ---- */

static cst_status read_rows(cst_context *worker, const cst_packed *packed, int32_t member,
                            int64_t first, int64_t count, float *scratch, const float **rows) {
    const cst_view *view = packed->kernels->view;
    if (!packed->sample)
        return cst_view_rows(worker, view, member, first, count, scratch, rows);
    *rows = scratch;
    for (int64_t at = 0; at < count; at += CST_STRIP_ROWS) {
        int64_t part = count - at < CST_STRIP_ROWS ? count - at : CST_STRIP_ROWS;
        CST_TRY(cst_view_gather(worker, view, member, packed->sample + first + at, part,
                                scratch + at * view->classes));
    }
    return CST_OK;
}

/* Means of the kernel of a strip with the reference rows, less `below`; tile: square. */
static cst_status find_levels(cst_context *worker, const cst_kernels *kernels,
                              const cst_packed_member *m, const cst_strip *strip, double below,
                              float *tile, float *levels) {
    static const float zero[CST_REFERENCE_ROWS];
    double sums[CST_REFERENCE_ROWS] = {0};
    float columns[CST_REFERENCE_ROWS] = {0};
    const cst_strip *with = &m->sample;
    CST_TRY(products(worker, m->packing, strip, with, kernels->view->classes, m->cut, tile));
    kernels_in_place(strip->rows, with->rows, strip->exponents, with->exponents, zero, zero, tile);
    margins(strip->rows, with->rows, tile, sums, columns);
    for (int64_t i = 0; i < strip->rows; i++)
        levels[i] = (float)(sums[i] / (double)with->rows - below);
    return CST_OK;
}

/* An array of the member's that counts towards the memory budget where few others do. */
static cst_status take_counted(cst_context *worker, cst_scope *scope, size_t count, float **out) {
    *out = cst_alloc_counted(worker, count, sizeof **out);
    return *out ? cst_scope_own(worker, scope, cst_free, *out) : CST_ERROR_MEMORY;
}

/* The arrays of a member, and the places of its strips in them. */
static cst_status open_strips(cst_context *worker, const cst_packed *packed, cst_packed_member *m) {
    size_t rows = (size_t)packed->rows;
    size_t classes = (size_t)packed->kernels->view->classes;
    CST_TAKE(worker, &m->scope, m->strips, packed->strips);
    CST_TRY(take_counted(worker, &m->scope, rows, &m->levels));
    if (m->packing != CST_PACKED_NOT)
        CST_TRY(take_counted(worker, &m->scope, rows, &m->exponents));
    if (m->packing == CST_PACKED_DENSE)
        CST_TRY(take_counted(worker, &m->scope, rows * classes, &m->dense));
    for (int64_t s = 0; s < packed->strips; s++) {
        int64_t first = s * CST_STRIP_ROWS;
        int64_t left = packed->rows - first;
        m->strips[s].rows = left < CST_STRIP_ROWS ? left : CST_STRIP_ROWS;
        m->strips[s].exponents = m->exponents ? m->exponents + first : NULL;
        m->strips[s].dense = m->dense ? m->dense + (size_t)first * classes : NULL;
    }
    return CST_OK;
}

/* Strips that are to be packed, of every member. */
typedef struct fill_job {
    const cst_packed *packed;
    const int64_t *strips; /* [count] */
    int64_t count;
    double *misfit; /* [K]: 1 where an entry turned up that a sparse strip may not hold */
} fill_job;

/* Strips that follow one another in the list and in the rows, as many as a block has. */
static int64_t strips_together(const fill_job *job, int64_t at) {
    int64_t n = 1;
    while (at + n < job->count && n < CST_BLOCK_ROWS / CST_STRIP_ROWS &&
           job->strips[at + n] == job->strips[at] + n)
        n++;
    return n;
}

/* Packs one member's strips; *fit is false where an entry does not fit a sparse one. */
static cst_status fill_strips(cst_context *worker, const fill_job *job, int32_t member, bool *fit) {
    const cst_packed *packed = job->packed;
    cst_packed_member *m = &packed->member[member];
    const cst_kernels *kernels = packed->kernels;
    int64_t classes = kernels->view->classes;
    float means[CST_REFERENCE_ROWS];
    double mean = 0;
    CST_SCOPE(scope);
    CST_NEW(worker, scope, float, scratch, (CST_BLOCK_ROWS * (size_t)classes));
    CST_NEW(worker, scope, float, tile, (CST_REFERENCE_ROWS * CST_REFERENCE_ROWS));
    CST_TRY(find_levels(worker, kernels, m, &m->sample, 0, tile, means));
    for (int64_t i = 0; i < m->sample.rows; i++)
        mean += (double)means[i] / (double)m->sample.rows;
    for (int64_t at = 0, n = 0; *fit && at < job->count; at += n) {
        const float *rows = NULL;
        int64_t first = job->strips[at] * CST_STRIP_ROWS;
        n = strips_together(job, at);
        int64_t count = (n - 1) * CST_STRIP_ROWS + m->strips[job->strips[at] + n - 1].rows;
        CST_TRY(read_rows(worker, packed, member, first, count, scratch, &rows));
        for (int64_t s = 0; *fit && s < n; s++) {
            cst_trim(worker);
            cst_strip *strip = &m->strips[job->strips[at + s]];
            CST_TRY(pack_strip(worker, kernels, member, m, rows + s * CST_STRIP_ROWS * classes,
                               strip->rows, strip, fit));
            if (*fit)
                CST_TRY(find_levels(worker, kernels, m, strip, mean / 2, tile,
                                    m->levels + first + s * CST_STRIP_ROWS));
        }
    }
    return CST_OK;
}

static cst_status fill_member(cst_context *worker, void *user, int64_t task) {
    const fill_job *job = user;
    cst_packed_member *m = &job->packed->member[task];
    bool fit = true;
    if (job->packed->kernels->constant[task])
        return CST_OK;
    if (!m->strips)
        CST_TRY(open_strips(worker, job->packed, m));
    if (m->packing != CST_PACKED_NOT)
        CST_TRY(fill_strips(worker, job, (int32_t)task, &fit));
    job->misfit[task] = fit ? 0 : 1;
    return CST_OK;
}

/* Reference rows and dense strips for a member that does not fit sparse ones. */
static cst_status fill_again(cst_context *worker, void *user, int64_t task) {
    const fill_job *job = user;
    const cst_packed *packed = job->packed;
    cst_packed_member *m = &packed->member[task];
    trial t = {0};
    bool good = false;
    bool fit = true;
    if (!(job->misfit[task] > 0))
        return CST_OK;
    CST_SCOPE(scope);
    cst_scope_free(&m->scope);
    *m = (cst_packed_member){.packing = CST_PACKED_DENSE};
    CST_TRY(start_trial(worker, scope, packed->kernels, (int32_t)task, &t));
    CST_TRY(try_packing(worker, packed->kernels, (int32_t)task, &t, m, &good));
    if (!good)
        m->packing = CST_PACKED_NOT;
    CST_TRY(open_strips(worker, packed, m));
    return good ? fill_strips(worker, job, (int32_t)task, &fit) : CST_OK;
}

/* The rows' exponents and levels of every rank, for what is summed over all rows. */
static cst_status share_levels(cst_context *context, cst_status status, const cst_packed *packed) {
    int32_t members = packed->kernels->view->members;
    size_t all = (size_t)packed->rows * sizeof(float);
    int32_t arrays = 0;
    CST_SCOPE(scope);
    CST_NEW(context, scope, cst_share, filled, (2 * members));
    for (int32_t k = 0; k < members; k++) {
        const cst_packed_member *m = &packed->member[k];
        if (status != CST_OK || packed->kernels->constant[k] || m->packing == CST_PACKED_NOT)
            continue;
        filled[arrays++] = (cst_share){m->exponents, CST_STRIP_ROWS * sizeof(float), all, NULL};
        filled[arrays++] = (cst_share){m->levels, CST_STRIP_ROWS * sizeof(float), all, NULL};
    }
    return cst_ranks_fill(context, status, packed->strips, filled, arrays);
}

cst_status cst_packed_fill(cst_context *context, cst_packed *packed, const int64_t *sample,
                           int64_t rows, bool own) {
    int32_t members = packed->kernels->view->members;
    packed->sample = sample;
    packed->rows = rows;
    packed->strips = (rows + CST_STRIP_ROWS - 1) / CST_STRIP_ROWS;
    packed->partial = own && cst_ranks_share(context);
    int64_t first = 0;
    int64_t last = packed->strips;
    if (packed->partial)
        cst_ranks_part(context, packed->strips, 1, &first, &last);
    CST_SCOPE(scope);
    CST_NEW(context, scope, int64_t, strips, last - first);
    CST_NEW(context, scope, double, misfit, members);
    CST_TAKE(context, &packed->scope, packed->there, packed->strips);
    for (int64_t s = first; s < last; s++) {
        strips[s - first] = s;
        packed->there[s] = true;
    }
    fill_job job = {.packed = packed, .strips = strips, .count = last - first, .misfit = misfit};
    cst_status status = cst_parallel_for(context, members, fill_member, &job);
    if (packed->partial)
        status = cst_ranks_add(context, status, misfit, (size_t)members);
    CST_TRY(status);
    status = cst_parallel_for(context, members, fill_again, &job);
    return packed->partial ? share_levels(context, status, packed) : status;
}

cst_status cst_packed_reach(cst_context *context, cst_packed *packed, int64_t tiles,
                            int64_t shift) {
    int32_t members = packed->kernels->view->members;
    int64_t first = 0;
    int64_t last = 0;
    int64_t count = 0;
    if (!packed->partial)
        return CST_OK;
    cst_ranks_part(context, tiles, 1, &first, &last);
    CST_SCOPE(scope);
    CST_NEW(context, scope, int64_t, strips, (2 * (last - first)));
    CST_NEW(context, scope, double, misfit, members);
    for (int side = 0; side < 2; side++)
        for (int64_t i = first; i < last; i++) {
            int64_t s = (i + side * shift) % packed->strips;
            if (!packed->there[s])
                strips[count++] = s;
            packed->there[s] = true;
        }
    fill_job job = {.packed = packed, .strips = strips, .count = count, .misfit = misfit};
    if (count > 0)
        CST_TRY(cst_parallel_for(context, members, fill_member, &job));
    for (int32_t k = 0; k < members; k++)
        if (misfit[k] > 0) /* its own rank packed the same rows */
            return cst_fail(context, CST_ERROR_INTERNAL,
                            "rows read by two ranks differ; please report this");
    return CST_OK;
}

void cst_packed_free(cst_context *context, void *object) {
    cst_packed *packed = object;
    (void)context;
    for (int32_t k = 0; packed->member && k < packed->kernels->view->members; k++)
        cst_scope_free(&packed->member[k].scope);
    cst_scope_free(&packed->scope);
    *packed = (cst_packed){.kernels = packed->kernels};
}
