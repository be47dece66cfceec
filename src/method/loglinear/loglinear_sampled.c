/*
 * Passes over a table that is a sample of the classes: logs and curvature in float32, scores and
 * gradient in float64. Under the Newton fits of stage S4 and of selection.
 *
 * In float32 probabilities are good to 1e-6 and the Hessian to 1e-5: less than what the sample
 * leaves open, and the optimum is set by the gradient.
 */
#include "method/loglinear/loglinear_pass.h"

#include "core/la.h"
#include "core/wide.h"

#include <math.h>
#include <string.h>

/* Entries whose curvature is summed in float32, but for rows that have more; classes below
 * NEGLIGIBLE add nothing to that of biases. */
enum { CHUNK = 1024, WIDTH = CST_COMPACT_PAD };

/* Sampled rows lie apart: each may bring 64 KiB of a mapped table into memory. */
enum { ROWS_A_TRIM = 16 };
static const float NEGLIGIBLE = 1e-6F;

typedef float cst_eight __attribute__((vector_size(32)));
typedef float cst_four __attribute__((vector_size(16)));
typedef double cst_wide __attribute__((vector_size(32)));
typedef double cst_wide_eight __attribute__((vector_size(64)));

/* ---- kernels of one row; count: a multiple of WIDTH ---- */

CST_WIDE_BODY widen(const float *x, cst_wide *out) {
    cst_four four;
    memcpy(&four, x, sizeof four);
    *out = __builtin_convertvector(four, cst_wide);
}

CST_WIDE_INLINE float eight_sum(const cst_eight *a) {
    const cst_eight s = *a;
    return ((s[0] + s[4]) + (s[1] + s[5])) + ((s[2] + s[6]) + (s[3] + s[7]));
}

CST_KERNEL(logs,
           (const float *restrict p, int64_t count, float keep, float floor, float *restrict out),
           (p, count, keep, floor, out)) {
    for (int64_t e = 0; e < count; e++)
        out[e] = cst_log_one_f32(keep * p[e] + floor);
}

void cst_pass_logs_f32(const float *p, int64_t count, double mix, int32_t classes, float *out) {
    logs(p, count, (float)(1 - mix), (float)(mix / (double)classes), out);
}

/* z[e] += sum_j weights[j] x[j][e], added in the order of j; `members` is a constant */
CST_WIDE_INLINE void add_scores(const float *const *x, const double *weights, int32_t members,
                                int64_t count, double *restrict z) {
    for (int64_t e = 0; e < count; e += WIDTH) {
        cst_wide_eight sum;
        memcpy(&sum, z + e, sizeof sum);
        for (int32_t j = 0; j < members; j++) {
            cst_eight narrow;
            memcpy(&narrow, x[j] + e, sizeof narrow);
            sum += weights[j] * __builtin_convertvector(narrow, cst_wide_eight);
        }
        memcpy(z + e, &sum, sizeof sum);
    }
}
CST_KERNEL(scores,
           (const float *const *x, const double *weights, int32_t members, int64_t count,
            double *restrict z),
           (x, weights, members, count, z)) {
    enum { TOGETHER = 4 };
    int32_t j = 0;
    for (; j + TOGETHER <= members; j += TOGETHER)
        add_scores(x + j, weights + j, TOGETHER, count, z);
    for (; j < members; j++)
        add_scores(x + j, weights + j, 1, count, z);
}

/* root = exp((z - top) / 2), and the sum of the squares. */
CST_KERNEL(exponentials,
           (const double *restrict z, double top, int64_t count, float *restrict root,
            double *total),
           (z, top, count, root, total)) {
    for (int64_t e = 0; e < count; e++)
        root[e] = cst_exp_one_f32((float)(0.5 * (z[e] - top)));
    cst_eight sum = {0};
    for (int64_t e = 0; e < count; e += WIDTH) {
        cst_eight next;
        memcpy(&next, root + e, sizeof next);
        sum += next * next;
    }
    *total = (double)eight_sum(&sum);
}

/* The largest of z, in four lanes. */
CST_KERNEL(largest, (const double *restrict z, int64_t count, double *top), (z, count, top)) {
    double lane[4] = {-INFINITY, -INFINITY, -INFINITY, -INFINITY};
    for (int64_t e = 0; e < count; e += 4)
        for (int l = 0; l < 4; l++)
            lane[l] = z[e + l] > lane[l] ? z[e + l] : lane[l];
    *top = fmax(fmax(lane[0], lane[1]), fmax(lane[2], lane[3]));
}

/* root *= scale, and p, its square. */
CST_KERNEL(squares, (float scale, int64_t count, float *restrict root, float *restrict p),
           (scale, count, root, p)) {
    for (int64_t e = 0; e < count; e++) {
        root[e] *= scale;
        p[e] = root[e] * root[e];
    }
}

/* Of each member the mean log under p, gradient += mean - the label's log, and
 * y = sqrt(p) (log - mean), [members][width]. */
CST_KERNEL(slopes,
           (const float *const *x, int32_t members, int64_t count, int64_t label,
            const float *restrict p, const float *restrict root, int64_t width,
            double *restrict gradient, float *restrict y),
           (x, members, count, label, p, root, width, gradient, y)) {
    for (int32_t j = 0; j < members; j++) {
        cst_wide a = {0};
        cst_wide b = {0};
        for (int64_t e = 0; e < count; e += WIDTH) {
            cst_wide left;
            cst_wide right;
            widen(p + e, &left);
            widen(x[j] + e, &right);
            a += left * right;
            widen(p + e + 4, &left);
            widen(x[j] + e + 4, &right);
            b += left * right;
        }
        a += b;
        double mean = (a[0] + a[1]) + (a[2] + a[3]);
        float centre = (float)mean;
        gradient[j] += mean - (double)x[j][label];
        float *to = y + (int64_t)j * width;
        for (int64_t e = 0; e < count; e++)
            to[e] = root[e] * (x[j][e] - centre);
    }
}

/* hessian [members][stride] += y y' (y [members][width]), lower triangle, two rows by four columns
 * at a time. */
CST_KERNEL(products,
           (const float *restrict y, int32_t members, int64_t count, int64_t width, size_t stride,
            double *restrict hessian),
           (y, members, count, width, stride, hessian)) {
    for (int32_t j = 0; j < members; j += 2)
        for (int32_t l = 0; l <= j + 1 && l < members; l += 4) {
            const float *row[2];
            const float *column[4];
            cst_eight sum[2][4] = {{{0}}};
            for (int32_t r = 0; r < 2; r++)
                row[r] = y + (int64_t)(j + r < members ? j + r : j) * width;
            for (int32_t c = 0; c < 4; c++)
                column[c] = y + (int64_t)(l + c < members ? l + c : l) * width;
            for (int64_t e = 0; e < count; e += WIDTH) {
                cst_eight a[2];
                memcpy(&a[0], row[0] + e, sizeof a[0]);
                memcpy(&a[1], row[1] + e, sizeof a[1]);
                for (int32_t c = 0; c < 4; c++) {
                    cst_eight b;
                    memcpy(&b, column[c] + e, sizeof b);
                    sum[0][c] += a[0] * b;
                    sum[1][c] += a[1] * b;
                }
            }
            for (int32_t r = 0; r < 2 && j + r < members; r++)
                for (int32_t c = 0; c < 4 && l + c <= j + r; c++)
                    hessian[(size_t)(j + r) * stride + (size_t)(l + c)] +=
                        (double)eight_sum(&sum[r][c]);
        }
}

/* ---- rows ---- */

typedef struct scratch {
    int64_t most;    /* entries of the longest row */
    int64_t width;   /* entries of a chunk */
    const float **x; /* [K_eff]: the members' logs of a row */
    float *own;      /* [K_eff][entries of a row]: those that the table does not have */
    double *z;       /* [entries of a row] */
    float *p;        /* [entries of a row] */
    float *root;     /* [entries of a row]: square roots of p */
    float *y;        /* [K_eff][width] */
    double *slope;   /* [K_eff]: gradient of one row, where rows count differently */
    int32_t *heavy;  /* [entries of a row]: those that count for the biases' curvature */
    float *gram;     /* [K_eff][K_eff], of many members */
    cst_dense dense;
} scratch;

static void scratch_free(cst_context *context, scratch *s) {
    cst_free(context, s->x);
    cst_free(context, s->own);
    cst_free(context, s->z);
    cst_free(context, s->p);
    cst_free(context, s->root);
    cst_free(context, s->y);
    cst_free(context, s->slope);
    cst_free(context, s->heavy);
    cst_free(context, s->gram);
    cst_dense_free(context, &s->dense);
}

static cst_status scratch_alloc(cst_context *context, const cst_pass *pass, int64_t longest,
                                scratch *s) {
    size_t members = (size_t)pass->count;
    size_t most = (size_t)longest;
    *s = (scratch){.most = longest, .width = longest > CHUNK ? longest : CHUNK};
    s->x = cst_alloc(context, members, sizeof *s->x);
    s->own = cst_alloc(context, members * most, sizeof *s->own);
    s->z = cst_alloc(context, most, sizeof *s->z);
    s->p = cst_alloc(context, most, sizeof *s->p);
    s->root = cst_alloc(context, most, sizeof *s->root);
    s->y = cst_alloc(context, pass->derivatives ? members * (size_t)s->width : 0, sizeof *s->y);
    s->slope = cst_alloc(context, members, sizeof *s->slope);
    s->heavy = cst_alloc(context, most, sizeof *s->heavy);
    s->gram = cst_alloc(context, members >= CST_PASS_MANY ? members * members : 0, sizeof *s->gram);
    s->dense = (cst_dense){
        .count = pass->count, .classes = pass->table->classes, .parameters = pass->parameters};
    if (s->x && s->own && s->z && s->p && s->root && s->y && s->slope && s->heavy && s->gram)
        return CST_OK;
    scratch_free(context, s);
    return CST_ERROR_MEMORY;
}

/* A row of a compact table. */
typedef struct row {
    const cst_compact_block *block;
    int64_t from; /* its first entry */
    int64_t count;
    int64_t label;
} row;

static row row_at(const cst_logtable *table, int64_t i) {
    int64_t within = 0;
    row r = {.block = cst_compact_at(table->compact, table->row[i], &within)};
    r.from = r.block->first[within];
    r.count = r.block->first[within + 1] - r.from;
    r.label = r.block->label[within];
    return r;
}

/* Logs of the active members, from the table where it has them under the same mixing. */
static void row_logs(const cst_pass *pass, const row *r, scratch *s) {
    const cst_logtable *table = pass->table;
    const cst_compact *compact = table->compact;
    for (int32_t j = 0; j < pass->count; j++) {
        int32_t member = pass->active[j];
        int32_t column = table->columns[member];
        double mix = table->mix[member];
        int64_t at = r->from * compact->members + r->count * column;
        if (compact->log_mix && compact->log_mix[column] == mix) {
            s->x[j] = r->block->logs + at;
            continue;
        }
        float *own = s->own + j * s->most;
        cst_pass_logs_f32(r->block->p + at, r->count, mix, table->classes, own);
        s->x[j] = own;
    }
}

/* Asks for the logs of a row that comes next: the table is larger than the caches. */
static void row_ahead(const cst_pass *pass, const row *r) {
    enum { LINE_FLOATS = 16 };
    const cst_compact *compact = pass->table->compact;
    const float *from = compact->log_mix ? r->block->logs : r->block->p;
    from += r->from * compact->members;
    for (int32_t j = 0; j < pass->count; j++) {
        const float *at = from + r->count * pass->table->columns[pass->active[j]];
        for (int64_t e = 0; e < r->count; e += LINE_FLOATS)
            __builtin_prefetch(at + e);
    }
}

/* Probabilities of a row to s->p; returns its loss. */
static double row_loss(const cst_pass *pass, const row *r, scratch *s) {
    const float *offset = r->block->offset + r->from;
    const int32_t *classes = r->block->classes + r->from;
    for (int64_t e = 0; e < r->count; e++)
        s->z[e] = (double)offset[e];
    for (int64_t e = 0; pass->bias && e < r->count; e++)
        s->z[e] += classes[e] >= 0 ? pass->bias[classes[e]] : 0;
    scores(s->x, pass->weights, pass->count, r->count, s->z);
    double top = 0;
    largest(s->z, r->count, &top);
    double total = 0;
    exponentials(s->z, top, r->count, s->root, &total);
    squares((float)(1 / sqrt(total)), r->count, s->root, s->p);
    return top + log(total) - s->z[r->label];
}

/* How much row `i` counts. */
static double row_weight(const cst_pass *pass, int64_t i, const row *r) {
    return cst_logtable_weight(pass->table, i, r->block->classes[r->from + r->label]);
}

/* The row's slopes, each `weight` times; square roots of probabilities are scaled for the curvature
 * that they are in. y: of this row. */
static void weighted_slopes(const cst_pass *pass, const row *r, double weight, float *y, scratch *s,
                            double *gradient) {
    float root = (float)sqrt(weight);
    memset(s->slope, 0, (size_t)pass->count * sizeof *s->slope);
    for (int64_t e = 0; e < r->count; e++)
        s->root[e] *= root;
    slopes(s->x, pass->count, r->count, r->label, s->p, s->root, s->width, s->slope, y);
    for (int32_t j = 0; j < pass->count; j++)
        gradient[j] += weight * s->slope[j];
}

/* What biases add where few classes count: their gradient, and their rows of the Hessian. y: of
 * this row. */
static void sparse_biases(const cst_pass *pass, const row *r, double weight, const float *y,
                          int32_t heavy, const scratch *s, double *gradient, double *hessian) {
    size_t k = (size_t)pass->count;
    size_t d = (size_t)pass->parameters;
    const int32_t *classes = r->block->classes + r->from;
    for (int64_t e = 0; e < r->count && classes[e] >= 0; e++)
        gradient[k + (size_t)classes[e]] += weight * (double)s->p[e];
    for (int32_t i = 0; i < heavy; i++) {
        int32_t e = s->heavy[i];
        size_t class = (size_t)classes[e];
        double p = weight * (double)s->p[e];
        double *to = hessian + (k + class) * d;
        for (size_t j = 0; j < k; j++)
            to[j] += (double)s->root[e] * (double)y[(int64_t)j * s->width + e];
        to += k;
        to[class] += p;
        for (int32_t h = 0; h <= i; h++)
            to[classes[s->heavy[h]]] -= p * (double)s->p[s->heavy[h]];
    }
}

/* What biases add. */
static cst_status row_biases(cst_context *context, const cst_pass *pass, const row *r,
                             double weight, const float *y, scratch *s, double *gradient,
                             double *hessian) {
    const int32_t *classes = r->block->classes + r->from;
    int32_t heavy = 0;
    int64_t count = 0;
    gradient[pass->count + classes[r->label]] -= weight;
    for (; count < r->count && classes[count] >= 0; count++)
        if (s->p[count] >= NEGLIGIBLE || count == r->label)
            s->heavy[heavy++] = (int32_t)count;
    if ((int64_t)heavy * CST_DENSE_SHARE < pass->table->classes) {
        sparse_biases(pass, r, weight, y, heavy, s, gradient, hessian);
        return CST_OK;
    }
    cst_dense_row dense = {.weight = weight,
                           .classes = classes,
                           .p = s->p,
                           .root = s->root,
                           .y = y,
                           .width = s->width,
                           .count = count};
    return cst_dense_add(context, &s->dense, &dense, hessian);
}

/* The weights' part of the Hessian, of the first `used` entries of the chunk. */
static cst_status chunk_products(cst_context *context, const cst_pass *pass, const scratch *s,
                                 int64_t used, double *hessian) {
    if (pass->count >= CST_PASS_MANY)
        return cst_outer_f32(context, pass->count, used, s->y, s->width, s->gram, hessian,
                             pass->parameters);
    products(s->y, pass->count, used, s->width, (size_t)pass->parameters, hessian);
    return CST_OK;
}

/* Entries of the longest of the rows. */
static int64_t longest(const cst_logtable *table, int64_t first, int64_t end) {
    int64_t most = WIDTH;
    for (int64_t i = first; i < end; i++) {
        int64_t count = row_at(table, i).count;
        most = count > most ? count : most;
    }
    return most;
}

cst_status cst_pass_sampled(cst_context *context, const cst_pass *pass, int64_t first, int64_t end,
                            double *sum) {
    double *gradient = sum + 1;
    double *hessian = gradient + pass->parameters;
    int64_t used = 0; /* entries of the chunk */
    scratch s;
    cst_status status = scratch_alloc(context, pass, longest(pass->table, first, end), &s);
    if (status != CST_OK)
        return status;
    for (int64_t i = first; status == CST_OK && i < end; i++) {
        row r = row_at(pass->table, i);
        if (i + 1 < end) {
            row next = row_at(pass->table, i + 1);
            row_ahead(pass, &next);
        }
        if (i % ROWS_A_TRIM == 0)
            cst_trim(context);
        row_logs(pass, &r, &s);
        double weight = row_weight(pass, i, &r);
        double loss = weight * row_loss(pass, &r, &s);
        sum[0] += loss;
        if (pass->per_row)
            pass->per_row[i] = loss;
        if (!pass->derivatives)
            continue;
        if (used + r.count > s.width) {
            status = chunk_products(context, pass, &s, used, hessian);
            used = 0;
        }
        if (cst_logtable_weighted(pass->table))
            weighted_slopes(pass, &r, weight, s.y + used, &s, gradient);
        else
            slopes(s.x, pass->count, r.count, r.label, s.p, s.root, s.width, gradient, s.y + used);
        if (pass->parameters > pass->count)
            CST_THEN(row_biases(context, pass, &r, weight, s.y + used, &s, gradient, hessian));
        used += r.count;
    }
    if (pass->derivatives)
        CST_THEN(chunk_products(context, pass, &s, used, hessian));
    CST_THEN(cst_dense_end(context, &s.dense, gradient, hessian));
    scratch_free(context, &s);
    return status;
}
