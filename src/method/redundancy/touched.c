/*
 * Tiles of many sparse members at once: the kernel is an outer product but for the pairs of rows
 * that share classes. Stage S1, under the sum over pairs of rows. Paper: equation (1);
 * docs/redundancy.md.
 */
#include "method/redundancy/touched.h"

#include "core/la.h"
#include "core/wide.h"
#include "method/redundancy/hsic.h"

#include <string.h>

/* Pairs whose values are held at a time; a register's floats; members are padded to PAD. */
enum { PIECE = 512, LANES = 8, PAD = 16, TILE = CST_STRIP_ROWS * CST_STRIP_ROWS };

bool cst_touched_suits(const cst_packed *packed) {
    int32_t members = packed->kernels->view->members;
    for (int32_t k = 0; k < members; k++)
        if (!packed->kernels->constant[k] && packed->member[k].packing != CST_PACKED_SPARSE)
            return false;
    return members <= CST_TOUCHED_MEMBERS;
}

cst_status cst_touched_create(cst_context *context, const cst_packed *packed, cst_touched *out) {
    int32_t members = packed->kernels->view->members;
    *out = (cst_touched){.packed = packed, .width = (members + PAD - 1) / PAD * PAD};
    size_t width = (size_t)out->width;
    size_t rows = (size_t)packed->rows;
    out->u = cst_alloc(context, rows, width * sizeof *out->u);
    out->w = cst_alloc(context, rows, width * sizeof *out->w);
    out->means = cst_alloc(context, width, sizeof *out->means);
    if (!out->u || !out->w || !out->means)
        return CST_ERROR_MEMORY;
    for (size_t k = 0; k < (size_t)members; k++) {
        if (packed->kernels->constant[k])
            continue;
        double sum = 0;
        for (size_t i = 0; i < rows; i++) {
            const cst_strip *strip = &packed->member[k].strips[i / CST_STRIP_ROWS];
            float u = cst_exp_one_f32(strip->exponents[i % CST_STRIP_ROWS]);
            out->u[i * width + k] = u;
            sum += (double)u;
        }
        out->means[k] = sum / (double)rows;
        for (size_t i = 0; i < rows; i++)
            out->w[i * width + k] = (float)((double)out->u[i * width + k] - out->means[k]);
    }
    return CST_OK;
}

void cst_touched_free(cst_context *context, cst_touched *touched) {
    cst_free(context, touched->u);
    cst_free(context, touched->w);
    cst_free(context, touched->means);
    memset(touched, 0, sizeof *touched);
}

cst_status cst_touched_scratch_create(cst_context *context, const cst_touched *touched,
                                      cst_touched_scratch *out) {
    size_t width = (size_t)touched->width;
    out->dots = cst_alloc(context, TILE, width * sizeof *out->dots);
    out->marks = cst_alloc(context, TILE, sizeof *out->marks);
    out->list = cst_alloc(context, TILE, sizeof *out->list);
    out->values = cst_alloc(context, PIECE, width * sizeof *out->values);
    out->outer = cst_alloc(context, PIECE, width * sizeof *out->outer);
    out->rows = cst_alloc(context, CST_STRIP_ROWS, width * sizeof *out->rows);
    out->columns = cst_alloc(context, CST_STRIP_ROWS, width * sizeof *out->columns);
    out->gram = cst_alloc(context, width, width * sizeof *out->gram);
    out->shared = cst_alloc(context, width, width * sizeof *out->shared);
    bool made = out->dots && out->marks && out->list && out->values && out->outer && out->rows &&
                out->columns && out->gram && out->shared;
    return made ? CST_OK : CST_ERROR_MEMORY;
}

void cst_touched_scratch_free(cst_context *context, cst_touched_scratch *scratch) {
    cst_free(context, scratch->dots);
    cst_free(context, scratch->marks);
    cst_free(context, scratch->list);
    cst_free(context, scratch->values);
    cst_free(context, scratch->outer);
    cst_free(context, scratch->rows);
    cst_free(context, scratch->columns);
    cst_free(context, scratch->gram);
    cst_free(context, scratch->shared);
    memset(scratch, 0, sizeof *scratch);
}

/* ---- one tile ---- */

/* Products of at least `cut` of the entries that two strips have in classes first..last-1, added to
 * every width-th of dots, and where that was. Entries descend: a product too small ends its list.
 */
static void scatter(const cst_strip *a, const cst_strip *b, int32_t first, int32_t last, float cut,
                    int64_t width, float *dots, uint8_t *marks) {
    for (int32_t c = first; c < last; c++) {
        uint32_t end_a = a->starts[c + 1];
        uint32_t first_b = b->starts[c];
        uint32_t end_b = b->starts[c + 1];
        for (uint32_t x = a->starts[c]; x < end_a && first_b < end_b; x++) {
            float value = a->values[x];
            int64_t row = (int64_t)a->places[x] * CST_STRIP_ROWS;
            uint32_t y = first_b;
            for (; y < end_b; y++) {
                float product = value * b->values[y];
                if (product < cut)
                    break;
                int64_t at = row + b->places[y];
                dots[at * width] += product;
                marks[at] = 1;
            }
            if (y == first_b)
                break;
        }
    }
}

/* Lists the pairs that were marked and clears the marks. */
static int64_t collect(uint8_t *marks, uint16_t *list) {
    int64_t count = 0;
    for (int64_t at = 0; at < TILE; at += 8) {
        uint64_t eight = 0;
        memcpy(&eight, marks + at, sizeof eight);
        if (eight == 0)
            continue;
        for (int64_t l = 0; l < 8; l++) {
            list[count] = (uint16_t)(at + l);
            count += marks[at + l];
        }
        memset(marks + at, 0, 8);
    }
    return count;
}

/* For listed pairs: values = u_i u_j (exp(dot) - 1), added to rows and columns, and outer = w_i
 * w_j. Takes the dots away. */
CST_WIDE_BODY take_pairs_body(const uint16_t *list, int64_t count, int64_t width,
                              const float *restrict ua, const float *restrict ub,
                              const float *restrict wa, const float *restrict wb,
                              float *restrict dots, float *restrict values, float *restrict outer,
                              float *restrict rows, float *restrict columns) {
    for (int64_t t = 0; t < count; t++) {
        float *restrict from = dots + (int64_t)list[t] * width;
        float *restrict to = values + t * width;
        for (int64_t k = 0; k < width; k++) {
            to[k] = from[k];
            from[k] = 0;
        }
    }
    for (int64_t e = 0; e < count * width; e++)
        values[e] = cst_exp_one_f32(values[e]) - 1.0F;
    for (int64_t t = 0; t < count; t++) {
        int64_t x = list[t] / CST_STRIP_ROWS * width;
        int64_t y = list[t] % CST_STRIP_ROWS * width;
        float *restrict value = values + t * width;
        float *restrict product = outer + t * width;
        for (int64_t k = 0; k < width; k++) {
            float s = ua[x + k] * ub[y + k] * value[k];
            float w = wa[x + k] * wb[y + k];
            rows[x + k] += s;
            columns[y + k] += s;
            product[k] = w;
            value[k] = s;
        }
    }
}
CST_WIDE(take_pairs,
         (const uint16_t *list, int64_t count, int64_t width, const float *restrict ua,
          const float *restrict ub, const float *restrict wa, const float *restrict wb,
          float *restrict dots, float *restrict values, float *restrict outer, float *restrict rows,
          float *restrict columns),
         (list, count, width, ua, ub, wa, wb, dots, values, outer, rows, columns))

CST_WIDE_BODY add_to_body(int64_t count, const float *restrict x, float *restrict to) {
    for (int64_t e = 0; e < count; e++)
        to[e] += x[e];
}
CST_WIDE(add_to, (int64_t count, const float *restrict x, float *restrict to), (count, x, to))

/* gram [width][width] += sign v'v for v [count][width], at and below the diagonal: four rows by two
 * registers at a time, which stay in registers over the pairs. */
#if defined(__GNUC__)
typedef float register8 __attribute__((vector_size(4 * LANES)));
CST_WIDE_BODY add_gram_body(const float *v, int64_t count, int64_t width, float sign, float *gram) {
    for (int64_t r = 0; r < width; r += 4) {
        for (int64_t c = 0; c <= r; c += PAD) {
            register8 sums[4][2] = {{{0}}};
            for (int64_t t = 0; t < count; t++) {
                const float *row = v + t * width;
                register8 low;
                register8 high;
                memcpy(&low, row + c, sizeof low);
                memcpy(&high, row + c + LANES, sizeof high);
                for (int q = 0; q < 4; q++) {
                    sums[q][0] += row[r + q] * low;
                    sums[q][1] += row[r + q] * high;
                }
            }
            for (int q = 0; q < 4; q++)
                for (int64_t l = 0; l < LANES; l++) {
                    gram[(r + q) * width + c + l] += sign * sums[q][0][l];
                    gram[(r + q) * width + c + LANES + l] += sign * sums[q][1][l];
                }
        }
    }
}
#else
CST_WIDE_BODY add_gram_body(const float *v, int64_t count, int64_t width, float sign, float *gram) {
    for (int64_t r = 0; r < width; r++)
        for (int64_t c = 0; c <= r; c++) {
            float sum = 0;
            for (int64_t t = 0; t < count; t++)
                sum += v[t * width + r] * v[t * width + c];
            gram[r * width + c] += sign * sum;
        }
}
#endif
CST_WIDE(add_gram, (const float *v, int64_t count, int64_t width, float sign, float *gram),
         (v, count, width, sign, gram))

static void scatter_all(const cst_touched *touched, int64_t i, int64_t j, cst_touched_scratch *s) {
    /* A few classes of every member, so that pairs that several members touch stay in the cache. */
    enum { CLASSES = 32 };
    const cst_packed *packed = touched->packed;
    int32_t classes = packed->kernels->view->classes;
    for (int32_t first = 0; first < classes; first += CLASSES) {
        int32_t last = classes - first < CLASSES ? classes : first + CLASSES;
        for (int32_t k = 0; k < packed->kernels->view->members; k++) {
            const cst_packed_member *m = &packed->member[k];
            if (!packed->kernels->constant[k])
                scatter(&m->strips[i], &m->strips[j], first, last, m->cut, touched->width,
                        s->dots + k, s->marks);
        }
    }
}

void cst_touched_tile(const cst_touched *touched, int64_t i, int64_t j, cst_touched_scratch *s,
                      double *sum, double *shared, double *row_sums, double *column_sums) {
    const cst_packed *packed = touched->packed;
    size_t members = (size_t)packed->kernels->view->members;
    int64_t width = touched->width;
    int64_t at_i = i * CST_STRIP_ROWS;
    int64_t at_j = j * CST_STRIP_ROWS;
    scatter_all(touched, i, j, s);
    for (int64_t x = 0; i == j && x < CST_STRIP_ROWS; x++) {
        s->marks[x * (CST_STRIP_ROWS + 1)] = 0;
        memset(s->dots + x * (CST_STRIP_ROWS + 1) * width, 0, (size_t)width * sizeof *s->dots);
    }
    int64_t count = collect(s->marks, s->list);
    size_t strip = (size_t)(CST_STRIP_ROWS * width);
    memset(s->rows, 0, strip * sizeof *s->rows);
    memset(s->columns, 0, strip * sizeof *s->columns);
    double times = i == j ? 1 : 2;
    for (int64_t first = 0; first < count; first += PIECE) {
        int64_t part = count - first < PIECE ? count - first : PIECE;
        memset(s->gram, 0, (size_t)(width * width) * sizeof *s->gram);
        memset(s->shared, 0, (size_t)(width * width) * sizeof *s->shared);
        take_pairs(s->list + first, part, width, touched->u + at_i * width,
                   touched->u + at_j * width, touched->w + at_i * width, touched->w + at_j * width,
                   s->dots, s->values, s->outer, s->rows, s->columns);
        if (shared)
            add_gram(s->values, part, width, 1, s->shared);
        add_to(part * width, s->outer, s->values);
        add_gram(s->values, part, width, 1, s->gram);
        add_gram(s->outer, part, width, -1, s->gram);
        for (size_t a = 0; a < members; a++)
            for (size_t b = 0; b <= a; b++) {
                sum[a * members + b] += times * (double)s->gram[a * (size_t)width + b];
                if (shared)
                    shared[a * members + b] += times * (double)s->shared[a * (size_t)width + b];
            }
    }
    for (size_t k = 0; k < members; k++) {
        double *row = row_sums + (int64_t)k * packed->rows + at_i;
        double *column = column_sums + (int64_t)k * packed->rows + at_j;
        int64_t na = packed->rows - at_i < CST_STRIP_ROWS ? packed->rows - at_i : CST_STRIP_ROWS;
        int64_t nb = packed->rows - at_j < CST_STRIP_ROWS ? packed->rows - at_j : CST_STRIP_ROWS;
        for (int64_t x = 0; x < na; x++)
            row[x] += cst_on_grid((double)s->rows[x * width + (int64_t)k]);
        for (int64_t y = 0; i != j && y < nb; y++)
            column[y] += cst_on_grid((double)s->columns[y * width + (int64_t)k]);
    }
}

/* ---- what is left ---- */

cst_status cst_touched_finish(cst_context *context, const cst_touched *touched, double *sum,
                              double *row_sums) {
    const cst_packed *packed = touched->packed;
    int64_t members = packed->kernels->view->members;
    int64_t rows = packed->rows;
    int64_t width = touched->width;
    size_t cells = (size_t)(members * members);
    double *w = cst_alloc(context, (size_t)members, (size_t)rows * sizeof *w);
    double *products = cst_alloc(context, cells, sizeof *products);
    double *squares = cst_alloc(context, cells, sizeof *squares);
    cst_status status = w && products && squares ? CST_OK : CST_ERROR_MEMORY;
    for (int64_t k = 0; status == CST_OK && k < members; k++, cst_trim(context)) {
        double total = 0;
        for (int64_t i = 0; i < rows; i++) {
            w[k * rows + i] = (double)touched->w[i * width + k];
            total += w[k * rows + i];
        }
        for (int64_t i = 0; i < rows; i++)
            row_sums[k * rows + i] += w[k * rows + i] * (total - w[k * rows + i]);
    }
    CST_THEN(cst_gram_long(context, members, rows, 1, w, 0, products));
    for (int64_t i = 0; status == CST_OK && i < members * rows; i++)
        w[i] *= w[i];
    CST_THEN(cst_gram_long(context, members, rows, 1, w, 0, squares));
    for (int64_t a = 0; status == CST_OK && a < members; a++)
        for (int64_t b = 0; b <= a; b++) {
            int64_t at = a * members + b;
            sum[at] += products[at] * products[at] - squares[at];
            sum[b * members + a] = sum[at];
        }
    cst_free(context, w);
    cst_free(context, products);
    cst_free(context, squares);
    return status;
}

double cst_touched_diagonal(const cst_touched *touched, int32_t member, int64_t row) {
    double u = (double)touched->u[row * touched->width + member];
    double mean = touched->means[member];
    return 1 - 2 * mean * u + mean * mean;
}
