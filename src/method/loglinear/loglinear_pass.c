/* Newton's pass over a log table: loss, gradient and Hessian. A table with every class is read a
 * few rows at a time in float64, in the caches; of a sample of classes logs and curvature are
 * float32 (probabilities good to 1e-6, the Hessian to 1e-5; the gradient sets the optimum). */
#include "method/loglinear/loglinear.h"

#include "core/la.h"
#include "core/scope.h"
#include "core/wide.h"

#include <math.h>
#include <string.h>

/* Wide sums (with biases, d*d doubles) are taken over several blocks at a time, so that they are
 * added up less often. From MANY members on BLAS computes the weights' part of the Hessian. */
enum { WIDE_PARAMETERS = 256, MANY = 24 };

/* ---- kernels of every class; each row is padded to a multiple of LANES ---- */

enum { LANES = CST_PASS_LANES, ENTRIES = 2048 };
static const double NO_MASS = -1e30; /* score of padding */

/* Partial sums of LANES interleaved terms, added in a fixed order: it vectorises, and gives the
 * same bytes whatever the registers. */
CST_WIDE_INLINE double lanes_sum(const double *lane) {
    return (lane[0] + lane[1]) + (lane[2] + lane[3]);
}

CST_KERNEL(exp_sum, (int64_t count, double top, double *restrict z, double *total),
           (count, top, z, total)) {
    for (int64_t i = 0; i < count; i++)
        z[i] = cst_exp_one_f64(z[i] - top);
    double lane[LANES] = {0};
    int64_t i = 0;
    for (; i + LANES <= count; i += LANES)
        for (int l = 0; l < LANES; l++)
            lane[l] += z[i + l];
    for (; i < count; i++)
        lane[i % LANES] += z[i];
    *total = lanes_sum(lane);
    double scale = 1 / *total;
    for (i = 0; i < count; i++)
        z[i] *= scale;
}

double cst_pass_softmax(int64_t count, double *z) {
    double lane[LANES] = {-INFINITY, -INFINITY, -INFINITY, -INFINITY};
    for (int64_t i = 0; i < count; i++)
        lane[i % LANES] = z[i] > lane[i % LANES] ? z[i] : lane[i % LANES];
    double top = fmax(fmax(lane[0], lane[1]), fmax(lane[2], lane[3]));
    double total = 0;
    exp_sum(count, top, z, &total);
    return top + log(total);
}

CST_KERNEL(dot, (const double *restrict a, const double *restrict b, int64_t count, double *out),
           (a, b, count, out)) {
    double lane[LANES] = {0};
    int64_t i = 0;
    for (; i + LANES <= count; i += LANES)
        for (int l = 0; l < LANES; l++)
            lane[l] += a[i + l] * b[i + l];
    for (; i < count; i++)
        lane[i % LANES] += a[i] * b[i];
    *out = lanes_sum(lane);
}

double cst_pass_dot(const double *p, const double *x, int64_t count) {
    double sum = 0;
    dot(p, x, count, &sum);
    return sum;
}

/* x -= shift, scaled = p * x. */
CST_KERNEL(centre,
           (const double *restrict p, int64_t count, double shift, double *restrict x,
            double *restrict scaled),
           (p, count, shift, x, scaled)) {
    for (int64_t i = 0; i < count; i++) {
        x[i] -= shift;
        scaled[i] = p[i] * x[i];
    }
}

/* x = root * (x - shift). */
CST_KERNEL(multiply, (const double *restrict root, int64_t count, double shift, double *restrict x),
           (root, count, shift, x)) {
    for (int64_t i = 0; i < count; i++)
        x[i] = root[i] * (x[i] - shift);
}

CST_KERNEL(add_products,
           (const double *restrict a, const double *restrict b, int64_t count,
            double *restrict out),
           (a, b, count, out)) {
    for (int64_t i = 0; i < count; i++)
        out[i] += a[i] * b[i];
}

typedef double cst_wide __attribute__((vector_size(32)));

/* Products of two rows of `a` with four of `b`, each of them `stride` long, a multiple of LANES. */
CST_KERNEL(dots,
           (const double *restrict a, const double *restrict b, int64_t stride,
            double *restrict out),
           (a, b, stride, out)) {
    cst_wide sum[2][4] = {{{0}}};
    for (int64_t i = 0; i < stride; i += LANES) {
        cst_wide left[2];
        for (int s = 0; s < 2; s++)
            memcpy(&left[s], a + s * stride + i, sizeof left[s]);
        for (int r = 0; r < 4; r++) {
            cst_wide right;
            memcpy(&right, b + r * stride + i, sizeof right);
            sum[0][r] += left[0] * right;
            sum[1][r] += left[1] * right;
        }
    }
    for (int x = 0; x < 8; x++)
        out[x] = (sum[x / 4][x % 4][0] + sum[x / 4][x % 4][1]) +
                 (sum[x / 4][x % 4][2] + sum[x / 4][x % 4][3]);
}

/* ---- kernels of one row of a sample; count: a multiple of WIDTH ---- */

/* Entries whose curvature is summed in float32, but for rows that have more; classes below
 * NEGLIGIBLE add nothing to that of biases. */
enum { CHUNK = 1024, WIDTH = CST_COMPACT_PAD };
static const float NEGLIGIBLE = 1e-6F;

/* Sampled rows lie apart: each may bring 64 KiB of a mapped table into memory. */
enum { ROWS_A_TRIM = 16 };

typedef float cst_eight __attribute__((vector_size(32)));
typedef float cst_four __attribute__((vector_size(16)));
typedef double cst_wide_eight __attribute__((vector_size(64)));

CST_WIDE_BODY widen(const float *x, cst_wide *out) {
    cst_four four;
    memcpy(&four, x, sizeof four);
    *out = __builtin_convertvector(four, cst_wide);
}

CST_WIDE_INLINE float eight_sum(const cst_eight *a) {
    const cst_eight s = *a;
    return ((s[0] + s[4]) + (s[1] + s[5])) + ((s[2] + s[6]) + (s[3] + s[7]));
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
        float middle = (float)mean;
        gradient[j] += mean - (double)x[j][label];
        float *to = y + (int64_t)j * width;
        for (int64_t e = 0; e < count; e++)
            to[e] = root[e] * (x[j][e] - middle);
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

/* ---- curvature of biases where many classes of a row have mass ---- */

/* From this part of the classes on rows are laid side by side, so many at a time, and BLAS adds
 * their products. */
enum { DENSE_SHARE = 8, ROWS_MOST = 128, ROWS_LEAST = 16, DENSE_FLOATS = 1 << 16 };

/* Adds p [count] to mass, `root` times p to `to`, and the weights' part to cross
 * [members][classes]. */
CST_KERNEL(dense,
           (const float *restrict p, const float *restrict root, const float *restrict y,
            int64_t width, int64_t count, int64_t members, int64_t classes, double weight,
            double scale, double *restrict to, double *restrict mass, double *restrict cross),
           (p, root, y, width, count, members, classes, weight, scale, to, mass, cross)) {
    for (int64_t c = 0; c < count; c++)
        mass[c] += weight * (double)p[c];
    for (int64_t c = 0; c < count; c++)
        to[c] = scale * (double)p[c];
    for (int64_t j = 0; j < members; j++) {
        const float *restrict from = y + j * width;
        double *restrict sum = cross + j * classes;
        for (int64_t c = 0; c < count; c++)
            sum[c] += (double)root[c] * (double)from[c];
    }
}

/* ---- a sample of the classes, a row at a time ---- */

typedef struct sampled {
    const cst_pass *pass;
    cst_scope *scope;
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
    double *gradient;
    double *hessian;
    int64_t room;   /* rows that may be held side by side */
    int64_t held;   /* of these */
    double *held_p; /* [room][classes]: probability times the root of the row's weight */
    double *mass;   /* [classes]: sums of weighted probabilities */
    double *cross;  /* [K_eff][classes]: rows of the Hessian that weights and biases share */
} sampled;

static cst_status sampled_open(cst_context *context, sampled *s) {
    size_t members = (size_t)s->pass->count;
    size_t most = (size_t)s->most;
    s->width = s->most > CHUNK ? s->most : CHUNK;
    CST_TAKE(context, s->scope, s->x, members);
    CST_TAKE(context, s->scope, s->own, members * most);
    CST_TAKE(context, s->scope, s->z, most);
    CST_TAKE(context, s->scope, s->p, most);
    CST_TAKE(context, s->scope, s->root, most);
    CST_TAKE(context, s->scope, s->y, s->pass->derivatives ? members * (size_t)s->width : 0);
    CST_TAKE(context, s->scope, s->slope, members);
    CST_TAKE(context, s->scope, s->heavy, most);
    CST_TAKE(context, s->scope, s->gram, members >= MANY ? members * members : 0);
    return CST_OK;
}

static cst_status dense_open(cst_context *context, sampled *s) {
    size_t classes = (size_t)s->pass->table->classes;
    int64_t room = DENSE_FLOATS / (int64_t)classes;
    s->room = room < ROWS_LEAST ? ROWS_LEAST : room > ROWS_MOST ? ROWS_MOST : room;
    CST_TAKE(context, s->scope, s->mass, classes);
    CST_TAKE(context, s->scope, s->cross, (size_t)s->pass->count * classes);
    CST_TAKE(context, s->scope, s->held_p, (size_t)s->room * classes);
    return CST_OK;
}

/* Products of the rows that are held, to the Hessian of the biases. */
static cst_status dense_flush(cst_context *context, sampled *s) {
    int64_t d = s->pass->parameters;
    int64_t k = s->pass->count;
    int64_t classes = s->pass->table->classes;
    int64_t rows = s->held;
    s->held = 0;
    return cst_syrk_f64(context, classes, rows, -1, s->held_p, classes, 1, s->hessian + k * d + k,
                        d);
}

/* Adds a row to those held. count: its entries without padding; y: of this row. */
static cst_status dense_add(cst_context *context, sampled *s, const int32_t *classes, int64_t count,
                            double weight, const float *y) {
    int64_t all = s->pass->table->classes;
    int64_t members = s->pass->count;
    if (!s->held_p)
        CST_TRY(dense_open(context, s));
    if (s->held == s->room)
        CST_TRY(dense_flush(context, s));
    double *to = s->held_p + s->held++ * all;
    double scale = sqrt(weight);
    if (count == all) {
        dense(s->p, s->root, y, s->width, count, members, all, weight, scale, to, s->mass,
              s->cross);
        return CST_OK;
    }
    memset(to, 0, (size_t)all * sizeof *to);
    for (int64_t e = 0; e < count; e++) {
        s->mass[classes[e]] += weight * (double)s->p[e];
        to[classes[e]] = scale * (double)s->p[e];
    }
    for (int64_t j = 0; j < members; j++)
        for (int64_t e = 0; e < count; e++)
            s->cross[j * all + classes[e]] += (double)s->root[e] * (double)y[j * s->width + e];
    return CST_OK;
}

static cst_status dense_end(cst_context *context, sampled *s) {
    size_t k = (size_t)s->pass->count;
    size_t classes = (size_t)s->pass->table->classes;
    if (!s->held_p)
        return CST_OK;
    CST_TRY(dense_flush(context, s));
    for (size_t c = 0; c < classes; c++) {
        double *to = s->hessian + (k + c) * (size_t)s->pass->parameters;
        s->gradient[k + c] += s->mass[c];
        to[k + c] += s->mass[c];
        for (size_t j = 0; j < k; j++)
            to[j] += s->cross[j * classes + c];
    }
    return CST_OK;
}

/* Logs of the active members, from the table where it has them under the same mixing. */
static void row_logs(const cst_logrow *r, sampled *s) {
    const cst_logtable *table = s->pass->table;
    for (int32_t j = 0; j < s->pass->count; j++) {
        int32_t member = s->pass->active[j];
        int64_t at = cst_logrow_of(table, r, member);
        float *own = s->own + j * s->most;
        bool held = cst_logtable_has_logs(table, member);
        s->x[j] = held ? r->block->logs + at : own;
        if (!held)
            cst_pass_logs_f32(r->block->p + at, r->count, table->mix[member], table->classes, own);
    }
}

/* Asks for the logs of a row that comes next: the table is larger than the caches. */
static void row_ahead(const cst_pass *pass, int64_t i) {
    enum { LINE_FLOATS = 16 };
    cst_logrow r = cst_logrow_at(pass->table, i);
    const float *from = pass->table->compact->log_mix ? r.block->logs : r.block->p;
    for (int32_t j = 0; j < pass->count; j++) {
        const float *at = from + cst_logrow_of(pass->table, &r, pass->active[j]);
        for (int64_t e = 0; e < r.count; e += LINE_FLOATS)
            __builtin_prefetch(at + e);
    }
}

/* Probabilities of a row to s->p; returns its loss. */
static double row_loss(const cst_logrow *r, sampled *s) {
    const double *bias = s->pass->bias;
    const float *offset = r->block->offset + r->from;
    const int32_t *classes = r->block->classes + r->from;
    for (int64_t e = 0; e < r->count; e++)
        s->z[e] = (double)offset[e];
    for (int64_t e = 0; bias && e < r->count; e++)
        s->z[e] += classes[e] >= 0 ? bias[classes[e]] : 0;
    scores(s->x, s->pass->weights, s->pass->count, r->count, s->z);
    double top = 0;
    largest(s->z, r->count, &top);
    double total = 0;
    exponentials(s->z, top, r->count, s->root, &total);
    squares((float)(1 / sqrt(total)), r->count, s->root, s->p);
    return top + log(total) - s->z[r->label];
}

/* The row's slopes, each `weight` times; square roots of probabilities are scaled for the curvature
 * that they are in. y: of this row. */
static void weighted_slopes(const cst_logrow *r, double weight, float *y, sampled *s) {
    int32_t members = s->pass->count;
    float root = (float)sqrt(weight);
    memset(s->slope, 0, (size_t)members * sizeof *s->slope);
    for (int64_t e = 0; e < r->count; e++)
        s->root[e] *= root;
    slopes(s->x, members, r->count, r->label, s->p, s->root, s->width, s->slope, y);
    for (int32_t j = 0; j < members; j++)
        s->gradient[j] += weight * s->slope[j];
}

/* Biases where few classes count: their gradient, and their rows of the Hessian. y: of this row. */
static void sparse_biases(const cst_logrow *r, double weight, const float *y, int32_t heavy,
                          const sampled *s) {
    size_t k = (size_t)s->pass->count;
    size_t d = (size_t)s->pass->parameters;
    const int32_t *classes = r->block->classes + r->from;
    for (int64_t e = 0; e < r->count && classes[e] >= 0; e++)
        s->gradient[k + (size_t)classes[e]] += weight * (double)s->p[e];
    for (int32_t i = 0; i < heavy; i++) {
        int32_t e = s->heavy[i];
        size_t class = (size_t)classes[e];
        double p = weight * (double)s->p[e];
        double *to = s->hessian + (k + class) * d;
        for (size_t j = 0; j < k; j++)
            to[j] += (double)s->root[e] * (double)y[(int64_t)j * s->width + e];
        to += k;
        to[class] += p;
        for (int32_t h = 0; h <= i; h++)
            to[classes[s->heavy[h]]] -= p * (double)s->p[s->heavy[h]];
    }
}

static cst_status row_biases(cst_context *context, const cst_logrow *r, double weight,
                             const float *y, sampled *s) {
    const int32_t *classes = r->block->classes + r->from;
    int32_t heavy = 0;
    int64_t count = 0;
    s->gradient[s->pass->count + classes[r->label]] -= weight;
    for (; count < r->count && classes[count] >= 0; count++)
        if (s->p[count] >= NEGLIGIBLE || count == r->label)
            s->heavy[heavy++] = (int32_t)count;
    if ((int64_t)heavy * DENSE_SHARE >= s->pass->table->classes)
        return dense_add(context, s, classes, count, weight, y);
    sparse_biases(r, weight, y, heavy, s);
    return CST_OK;
}

/* The weights' part of the Hessian, of the first `used` entries of the chunk. */
static cst_status sampled_products(cst_context *context, const sampled *s, int64_t used) {
    const cst_pass *pass = s->pass;
    if (pass->count >= MANY)
        return cst_outer_f32(context, pass->count, used, s->y, s->width, s->gram, s->hessian,
                             pass->parameters);
    products(s->y, pass->count, used, s->width, (size_t)pass->parameters, s->hessian);
    return CST_OK;
}

static int64_t longest_row(const cst_logtable *table, int64_t first, int64_t end) {
    int64_t most = WIDTH;
    for (int64_t i = first; i < end; i++) {
        int64_t count = cst_logrow_at(table, i).count;
        most = count > most ? count : most;
    }
    return most;
}

static cst_status pass_sampled(cst_context *context, const cst_pass *pass, int64_t first,
                               int64_t end, double *sum) {
    CST_SCOPE(scope);
    sampled s = {.pass = pass,
                 .scope = scope,
                 .most = longest_row(pass->table, first, end),
                 .gradient = sum + 1,
                 .hessian = sum + 1 + pass->parameters};
    int64_t used = 0; /* entries of the chunk */
    CST_TRY(sampled_open(context, &s));
    for (int64_t i = first; i < end; i++) {
        cst_logrow r = cst_logrow_at(pass->table, i);
        if (i + 1 < end)
            row_ahead(pass, i + 1);
        if (i % ROWS_A_TRIM == 0)
            cst_trim(context);
        row_logs(&r, &s);
        double weight = cst_logtable_weight(pass->table, i, r.class);
        double loss = weight * row_loss(&r, &s);
        sum[0] += loss;
        if (pass->per_row)
            pass->per_row[i] = loss;
        if (!pass->derivatives)
            continue;
        if (used + r.count > s.width) {
            CST_TRY(sampled_products(context, &s, used));
            used = 0;
        }
        if (cst_logtable_weighted(pass->table))
            weighted_slopes(&r, weight, s.y + used, &s);
        else
            slopes(s.x, pass->count, r.count, r.label, s.p, s.root, s.width, s.gradient,
                   s.y + used);
        if (pass->parameters > pass->count)
            CST_TRY(row_biases(context, &r, weight, s.y + used, &s));
        used += r.count;
    }
    if (pass->derivatives)
        CST_TRY(sampled_products(context, &s, used));
    return dense_end(context, &s);
}

/* ---- every class, a few rows at a time ---- */

typedef struct chunk {
    const cst_pass *pass;
    int64_t entries; /* with padding */
    int64_t rows;
    int64_t *first; /* [rows + 1] */
    int64_t *label; /* [rows]: entry of the label */
    double *weight; /* [rows]: how much the row counts */
    float *p;       /* [entries]: of one member */
    double *z;      /* [entries]: scores, then probabilities */
    double *logs;   /* [K_eff][entries] */
    double *scaled; /* [K_eff][entries]: probability times centred log, of few members */
    double *root;   /* [entries]: roots of weighted probabilities, of many members */
    double *sums;   /* [entries of a row] */
} chunk;

static int64_t padded(int64_t entries) {
    return (entries + LANES - 1) / LANES * LANES;
}

static cst_status chunk_open(cst_context *context, cst_scope *scope, chunk *c) {
    const cst_pass *pass = c->pass;
    size_t row = (size_t)padded(pass->table->classes);
    size_t most = ENTRIES + row;
    size_t count = (size_t)pass->count;
    bool many = count >= MANY;
    CST_TAKE(context, scope, c->first, CST_BLOCK_ROWS + 1);
    CST_TAKE(context, scope, c->label, CST_BLOCK_ROWS);
    CST_TAKE(context, scope, c->weight, CST_BLOCK_ROWS);
    CST_TAKE(context, scope, c->p, most);
    CST_TAKE(context, scope, c->z, most);
    CST_TAKE(context, scope, c->logs, count * most);
    CST_TAKE(context, scope, c->scaled, pass->derivatives && !many ? count * most : 0);
    CST_TAKE(context, scope, c->root, pass->derivatives && many ? most : 0);
    CST_TAKE(context, scope, c->sums, row);
    return CST_OK;
}

/* Rows from `row` on, up to `end`, as many as fit: their layout and biases. */
static int64_t chunk_layout(chunk *c, int64_t row, int64_t end) {
    c->entries = 0;
    c->rows = 0;
    while (row < end && c->entries < ENTRIES) {
        cst_logrow r = cst_logrow_at(c->pass->table, row);
        double *z = c->z + c->entries;
        for (int64_t e = 0; e < r.count; e++)
            z[e] = c->pass->bias ? c->pass->bias[e] : 0;
        for (int64_t e = r.count; e < padded(r.count); e++)
            z[e] = NO_MASS;
        c->first[c->rows] = c->entries;
        c->weight[c->rows] = cst_logtable_weight(c->pass->table, row++, r.class);
        c->label[c->rows++] = c->entries + r.label;
        c->entries += padded(r.count);
    }
    c->first[c->rows] = c->entries;
    return row;
}

/* Logs of a member: the table's, or else of its probabilities. Padding has p = 1 or log = 0. */
static void chunk_logs(const chunk *c, int64_t row, int32_t member, double *logs) {
    const cst_logtable *table = c->pass->table;
    bool held = cst_logtable_has_logs(table, member);
    for (int64_t i = 0; i < c->rows; i++) {
        cst_logrow r = cst_logrow_at(table, row + i);
        int64_t at = cst_logrow_of(table, &r, member);
        int64_t to = c->first[i];
        size_t count = (size_t)r.count;
        if (held)
            memcpy(logs + to, r.block->exact + at, count * sizeof *logs);
        else
            memcpy(c->p + to, r.block->p + at, count * sizeof *c->p);
        for (int64_t e = to + r.count; e < c->first[i + 1]; e++) {
            logs[e] = 0;
            c->p[e] = 1;
        }
    }
    if (!held)
        cst_pass_logs(c->p, c->entries, table->mix[member], table->classes, logs);
}

/* Scores to probabilities; adds the rows' losses to *loss and puts them where they are wanted. */
static void chunk_losses(chunk *c, int64_t row, double *loss) {
    for (int64_t i = 0; i < c->rows; i++) {
        double score = c->z[c->label[i]];
        double value = cst_pass_softmax(c->first[i + 1] - c->first[i], c->z + c->first[i]) - score;
        value *= c->weight[i];
        *loss += value;
        if (c->pass->per_row)
            c->pass->per_row[row + i] = value;
    }
}

/* The weights' gradient is the mean log under the pool minus the label's; logs are centred, and
 * those of many members multiplied by `root`, square roots of weighted probabilities. */
static void chunk_gradient(chunk *c, double *gradient) {
    bool weighted = cst_logtable_weighted(c->pass->table);
    bool many = c->pass->count >= MANY;
    for (int64_t i = 0; many && i < c->rows; i++)
        for (int64_t e = c->first[i]; e < c->first[i + 1]; e++)
            c->root[e] = sqrt(c->weight[i] * c->z[e]);
    for (int32_t j = 0; j < c->pass->count; j++) {
        double *logs = c->logs + (size_t)j * (size_t)c->entries;
        double *scaled = many ? NULL : c->scaled + (size_t)j * (size_t)c->entries;
        for (int64_t i = 0; i < c->rows; i++) {
            int64_t first = c->first[i];
            int64_t count = c->first[i + 1] - first;
            double mean = 0;
            dot(c->z + first, logs + first, count, &mean);
            gradient[j] += c->weight[i] * (mean - logs[c->label[i]]);
            if (many) {
                multiply(c->root + first, count, mean, logs + first);
                continue;
            }
            centre(c->z + first, count, mean, logs + first, scaled + first);
            for (int64_t e = first; weighted && e < first + count; e++)
                scaled[e] *= c->weight[i];
        }
    }
}

/* Lower triangle of the weights' part: sums over entries of p (log_j - mean_j)(log_l - mean_l). */
static cst_status chunk_hessian(cst_context *context, const chunk *c, double *hessian) {
    int64_t stride = c->entries;
    int64_t d = c->pass->parameters;
    if (c->pass->count >= MANY)
        return cst_outer_f64(context, c->pass->count, stride, c->logs, stride, hessian, d);
    int32_t count = c->pass->count;
    for (int32_t j = 0; count < 4 && j < count; j++)
        for (int32_t l = 0; l <= j; l++)
            hessian[j * d + l] +=
                cst_pass_dot(c->scaled + j * stride, c->logs + l * stride, stride);
    for (int32_t j = 0; count >= 4 && j < count; j += 2)
        for (int32_t l = 0; l <= j + 1; l += 4) {
            int32_t row = j + 2 <= count ? j : count - 2; /* some twice, and added once */
            int32_t column = l + 4 <= count ? l : count - 4;
            double product[8];
            dots(c->scaled + row * stride, c->logs + column * stride, stride, product);
            for (int32_t x = 0; x < 8; x++)
                if (row + x / 4 >= j && column + x % 4 >= l && column + x % 4 <= row + x / 4)
                    hessian[(row + x / 4) * d + column + x % 4] += product[x];
        }
    return CST_OK;
}

/* Adds the biases: their gradient, and their rows of the Hessian. Every row has the same length. */
static cst_status chunk_biases(cst_context *context, chunk *c, double *gradient, double *hessian) {
    int64_t classes = c->pass->table->classes;
    int64_t width = c->first[1];
    size_t k = (size_t)c->pass->count;
    size_t d = (size_t)c->pass->parameters;
    bool many = c->pass->count >= MANY;
    memset(c->sums, 0, (size_t)width * sizeof *c->sums);
    for (int64_t i = 0; i < c->rows; i++) {
        gradient[k + (size_t)(c->label[i] - c->first[i])] -= c->weight[i];
        cst_add_scaled_f64(c->z + c->first[i], width, c->weight[i], c->sums);
    }
    for (int64_t class = 0; class < classes; class ++) {
        gradient[k + (size_t) class] += c->sums[class];
        hessian[(k + (size_t) class) * d + k + (size_t) class] += c->sums[class];
    }
    for (size_t j = 0; j < k; j++) {
        const double *from = (many ? c->logs : c->scaled) + j * (size_t)c->entries;
        memset(c->sums, 0, (size_t)width * sizeof *c->sums);
        for (int64_t i = 0; i < c->rows; i++) {
            if (many)
                add_products(c->root + c->first[i], from + c->first[i], width, c->sums);
            else
                cst_add_scaled_f64(from + c->first[i], width, 1, c->sums);
        }
        for (int64_t class = 0; class < classes; class ++)
            hessian[(k + (size_t) class) * d + j] += c->sums[class];
    }
    for (int64_t i = 0; cst_logtable_weighted(c->pass->table) && i < c->rows; i++)
        for (int64_t e = c->first[i]; e < c->first[i + 1]; e++)
            c->z[e] *= sqrt(c->weight[i]);
    return cst_syrk_f64(context, classes, c->rows, -1, c->z, width, 1, hessian + k * d + k,
                        c->pass->parameters);
}

/* ---- the pass ---- */

static cst_status pass_task(cst_context *worker, const void *user, int64_t row, int64_t end,
                            double *sum) {
    const cst_pass *pass = user;
    if (!pass->table->compact->every_class)
        return pass_sampled(worker, pass, row, end, sum);
    double *gradient = sum + 1;
    double *hessian = gradient + pass->parameters;
    CST_SCOPE(scope);
    chunk c = {.pass = pass};
    CST_TRY(chunk_open(worker, scope, &c));
    while (row < end) {
        int64_t most = row + CST_BLOCK_ROWS;
        int64_t next = chunk_layout(&c, row, most < end ? most : end);
        for (int32_t j = 0; j < pass->count; j++) {
            double *logs = c.logs + j * c.entries;
            chunk_logs(&c, row, pass->active[j], logs);
            cst_add_scaled_f64(logs, c.entries, pass->weights[j], c.z);
        }
        chunk_losses(&c, row, sum);
        if (pass->derivatives) {
            chunk_gradient(&c, gradient);
            CST_TRY(chunk_hessian(worker, &c, hessian));
            if (pass->parameters > pass->count)
                CST_TRY(chunk_biases(worker, &c, gradient, hessian));
        }
        row = next;
    }
    return CST_OK;
}

cst_status cst_pass_run(cst_context *context, const cst_pass *pass, double *sum) {
    size_t d = (size_t)pass->parameters;
    size_t width = pass->derivatives ? 1 + d + d * d : 1;
    bool wide = pass->derivatives && d > WIDE_PARAMETERS;
    CST_TRY(cst_logtable_sum(context, pass->table, wide ? CST_COMPACT_GRAIN : 1, width,
                             pass->derivatives ? d : 0, pass_task, pass, sum, pass->per_row));
    for (size_t i = 0; pass->table->weight != 1 && i < width; i++)
        sum[i] *= pass->table->weight;
    return CST_OK;
}
