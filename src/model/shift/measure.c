/* Measures of a row: entropies of the members and of their average, in float32 with a short
 * logarithm, which is as good for ranks as an exact one. */
#include "model/shift/parts.h"

#include "core/wide.h"

enum { LANES = 8, TILE_CELLS = 4096 };

/* Of positive normal numbers, within 4e-7: x = 2^e m, m in [sqrt(1/2), sqrt(2)), f = m - 1. */
CST_WIDE_INLINE float log_short(float x) {
    const uint32_t to_one = UINT32_C(0x3f800000) - UINT32_C(0x3f3504f3);
    uint32_t bits = cst_bits_f32(x);
    uint32_t power = (bits + to_one) >> 23;
    float f = cst_f32_of(bits - (power << 23) + UINT32_C(0x3f800000)) - 1.0F;
    float e = cst_f32_of(power | UINT32_C(0x4b000000)) - (0x1p23F + 127.0F);
    float series = 0.11986405402421951F;
    series = series * f - 0.18761718273162842F;
    series = series * f + 0.20492568612098694F;
    series = series * f - 0.2489776611328125F;
    series = series * f + 0.33315545320510864F;
    series = series * f - 0.5000148415565491F;
    return e * 0.69314718F + (f + f * f * series);
}

/* -p log p of each number; 0 for 0. A number below 0, which rounding can leave, counts as its size.
 */
CST_WIDE_INLINE float term_of(float p) {
    float x = cst_f32_of(cst_bits_f32(p) & UINT32_C(0x7fffffff)) + 1e-30F;
    return -x * log_short(x);
}

CST_KERNEL(terms,
           (const float *restrict p, int64_t count, float *restrict term, float *restrict sum),
           (p, count, term, sum)) {
    for (int64_t e = 0; e < count; e++) {
        term[e] = term_of(p[e]);
        sum[e] += p[e];
    }
}

/* The average, in place, and its terms. */
CST_KERNEL(mean_terms, (float *restrict sum, int64_t count, float share, float *restrict term),
           (sum, count, share, term)) {
    for (int64_t e = 0; e < count; e++) {
        sum[e] *= share;
        term[e] = term_of(sum[e]);
    }
}

CST_KERNEL(row_sums, (const float *term, int64_t rows, int32_t classes, float *restrict out),
           (term, rows, classes, out)) {
    int32_t whole = classes - classes % LANES;
    for (int64_t i = 0; i < rows; i++, term += classes) {
        float lane[LANES] = {0};
        for (int32_t c = 0; c < whole; c += LANES)
            for (int32_t l = 0; l < LANES; l++)
                lane[l] += term[c + l];
        for (int32_t c = whole; c < classes; c++)
            lane[c - whole] += term[c];
        out[i] = ((lane[0] + lane[1]) + (lane[2] + lane[3])) +
                 ((lane[4] + lane[5]) + (lane[6] + lane[7]));
    }
}

CST_KERNEL(logs,
           (const float *restrict entropy, int64_t count, int32_t stride, float *restrict out),
           (entropy, count, stride, out)) {
    for (int64_t i = 0; i < count; i++)
        out[i * stride] = log_short(entropy[i] + 1e-3F);
}

/* ---- some rows of a view ---- */

typedef struct tile {
    int64_t most;     /* rows */
    float *term;      /* [most * classes] */
    float *sum;       /* the same: of the members, then their average */
    float *copy;      /* the same, where rows have to be copied; else NULL */
    float *entropy;   /* [most] */
    float *entropies; /* [most]: sum over the members */
    int32_t *count;   /* [most]: members that are there */
} tile;

static cst_status tile_take(cst_context *worker, cst_scope *scope, const cst_view *view,
                            int64_t rows, tile *t) {
    int64_t most = TILE_CELLS / view->classes;
    most = most < 1 ? 1 : most;
    *t = (tile){.most = most < rows ? most : rows};
    int64_t cells = t->most * view->classes;
    CST_TAKE(worker, scope, t->term, cells);
    CST_TAKE(worker, scope, t->sum, cells);
    CST_TAKE(worker, scope, t->copy, cst_view_copies(view) ? cells : 0);
    CST_TAKE(worker, scope, t->entropy, t->most);
    CST_TAKE(worker, scope, t->entropies, t->most);
    CST_TAKE(worker, scope, t->count, t->most);
    return CST_OK;
}

/* Adds a member that predicted only some of the rows. */
static void add_some(const cst_view *view, const uint8_t *present, int64_t first, int64_t count,
                     const float *rows, tile *t) {
    size_t classes = (size_t)view->classes;
    for (int64_t i = 0; i < count; i++) {
        if (!cst_view_is_there(view, present, first + i))
            continue;
        size_t from = (size_t)i * classes;
        terms(rows + from, view->classes, t->term + from, t->sum + from);
    }
}

/* One member's rows; j: its place in the distance, or -1. */
static cst_status add_member(cst_context *worker, const cst_view *view, int32_t k, int32_t j,
                             int32_t size, int64_t first, int64_t count, tile *t,
                             cst_novelty_rows *out) {
    const uint8_t *present = cst_view_present(view, k);
    const float *rows = NULL;
    if (!view->data[k])
        return CST_OK;
    CST_TRY(cst_view_rows(worker, view, k, first, count, t->copy, &rows));
    if (present)
        add_some(view, present, first, count, rows, t);
    else
        terms(rows, count * view->classes, t->term, t->sum);
    row_sums(t->term, count, view->classes, t->entropy);
    if (j >= 0)
        logs(t->entropy, count, size, out->logs + j);
    for (int64_t i = 0; i < count; i++) {
        if (!cst_view_is_there(view, present, first + i))
            continue;
        t->entropies[i] += t->entropy[i];
        t->count[i]++;
        if (j >= 0)
            out->there[i] |= UINT32_C(1) << j;
    }
    return CST_OK;
}

/* J of the rows and the average's class, from sums over the members. With some members absent, J is
 * as much smaller as it has fewer of them to disagree. */
static void finish(const cst_view *view, int64_t count, tile *t, cst_novelty_rows *out) {
    int32_t classes = view->classes;
    int32_t all = view->members;
    for (int64_t i = 0; i < count;) {
        int64_t end = i + 1; /* of rows with as many members */
        while (end < count && t->count[end] == t->count[i])
            end++;
        float share = 1.0F / (float)(t->count[i] > 0 ? t->count[i] : 1);
        mean_terms(t->sum + i * classes, (end - i) * classes, share, t->term + i * classes);
        i = end;
    }
    row_sums(t->term, count, classes, t->entropy);
    for (int64_t i = 0; i < count; i++) {
        int32_t there = t->count[i];
        float spread = there > 0 ? t->entropy[i] - t->entropies[i] / (float)there : 0;
        if (there > 1 && there < all)
            spread *= (1.0F - 1.0F / (float)all) / (1.0F - 1.0F / (float)there);
        out->spread[i] = spread > 0 ? spread : 0;
        out->class[i] = there > 0 ? cst_largest(t->sum + i * classes, classes) : -1;
    }
}

/* Rows first..first+count-1 of the view, which the tile has room for. */
static cst_status measure_tile(cst_context *worker, const cst_view *view, const int32_t *place,
                               int32_t size, int64_t first, int64_t count, tile *t,
                               cst_novelty_rows *out) {
    int32_t next = 0;
    memset(t->sum, 0, (size_t)(count * view->classes) * sizeof *t->sum);
    memset(t->entropies, 0, (size_t)count * sizeof *t->entropies);
    memset(t->count, 0, (size_t)count * sizeof *t->count);
    memset(out->there, 0, (size_t)count * sizeof *out->there);
    for (int32_t k = 0; k < view->members; k++) {
        int32_t j = next < size && place[next] == k ? next++ : -1;
        CST_TRY(add_member(worker, view, k, j, size, first, count, t, out));
    }
    finish(view, count, t, out);
    return CST_OK;
}

void cst_novelty_measure_row(const cst_view *view, const int32_t *place, int32_t size, float *work,
                             cst_novelty_rows *out) {
    float entropy = 0;
    float entropies = 0;
    int32_t count = 0;
    tile t = {.most = 1,
              .term = work,
              .sum = work + view->classes,
              .entropy = &entropy,
              .entropies = &entropies,
              .count = &count};
    (void)measure_tile(NULL, view, place, size, 0, 1, &t, out); /* nothing is read that can fail */
}

cst_status cst_novelty_measure(cst_context *worker, const cst_view *view, const int32_t *place,
                               int32_t size, int64_t first, int64_t count, cst_novelty_rows *out) {
    CST_SCOPE(scope);
    tile t;
    CST_TRY(tile_take(worker, scope, view, count, &t));
    for (int64_t at = 0; at < count; at += t.most) {
        int64_t rows = count - at < t.most ? count - at : t.most;
        cst_novelty_rows part = {.spread = out->spread + at,
                                 .logs = out->logs + at * size,
                                 .class = out->class + at,
                                 .there = out->there + at};
        CST_TRY(measure_tile(worker, view, place, size, first + at, rows, &t, &part));
    }
    return CST_OK;
}

cst_status cst_novelty_rows_take(cst_context *context, cst_scope *scope, int64_t rows, int32_t size,
                                 cst_novelty_rows *out) {
    CST_TAKE(context, scope, out->spread, rows);
    CST_TAKE(context, scope, out->logs, rows * size);
    CST_TAKE(context, scope, out->class, rows);
    CST_TAKE(context, scope, out->there, rows);
    return CST_OK;
}

double cst_novelty_distance(int32_t size, const double *mean, const double *inverse,
                            const float *row) {
    double sum = 0;
    for (int32_t i = 0; i < size; i++) {
        double part = 0;
        for (int32_t j = 0; j <= i; j++)
            part += inverse[i * size + j] * ((double)row[j] - mean[j]);
        sum += part * part;
    }
    return sum;
}
