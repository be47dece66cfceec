/*
 * Passes over a log table with every class (of a sample: loglinear_sampled.c), a few rows at a time
 * so that they stay in the cache, with loops along the entries of several rows. Under the Newton
 * fits of stage S4 and of selection.
 */
#include "method/loglinear/loglinear_pass.h"

#include "core/la.h"
#include "core/wide.h"

#include <math.h>
#include <string.h>

/* Wide sums (with biases, d*d doubles) are taken over several blocks at a time, so that they are
 * added up less often. */
enum { WIDE_PARAMETERS = 256 };

/* ---- kernels ---- */

enum { PIECE = 512, LANES = CST_PASS_LANES };

CST_KERNEL(mixed,
           (const float *restrict p, int64_t count, double keep, double floor,
            double *restrict out),
           (p, count, keep, floor, out)) {
    for (int64_t i = 0; i < count; i++)
        out[i] = cst_log_one_f64(keep * (double)p[i] + floor);
}

CST_KERNEL(mixed_f32,
           (const float *restrict p, int64_t count, float keep, float floor, double *restrict out),
           (p, count, keep, floor, out)) {
    for (int64_t i = 0; i < count; i++)
        out[i] = (double)cst_log_one_f32(keep * p[i] + floor);
}

void cst_pass_logs(const float *p, int64_t count, double mix, int32_t classes, bool exact,
                   double *out) {
    if (exact)
        mixed(p, count, 1 - mix, mix / (double)classes, out);
    else
        mixed_f32(p, count, (float)(1 - mix), (float)(mix / (double)classes), out);
}

CST_KERNEL(add, (const double *restrict x, int64_t count, double weight, double *restrict z),
           (x, count, weight, z)) {
    for (int64_t i = 0; i < count; i++)
        z[i] += weight * x[i];
}

void cst_pass_add(const double *x, int64_t count, double weight, double *z) {
    add(x, count, weight, z);
}

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

/* Four products of one row of `a` with rows of `b` ([4][stride]); count: a multiple of LANES. */
CST_KERNEL(dots,
           (const double *restrict a, const double *restrict b, int64_t stride, int64_t count,
            double *restrict out),
           (a, b, stride, count, out)) {
    double lane[4][LANES] = {{0}};
    for (int64_t i = 0; i < count; i += LANES) {
        for (int l = 0; l < LANES; l++)
            lane[0][l] += a[i + l] * b[i + l];
        for (int l = 0; l < LANES; l++)
            lane[1][l] += a[i + l] * b[stride + i + l];
        for (int l = 0; l < LANES; l++)
            lane[2][l] += a[i + l] * b[2 * stride + i + l];
        for (int l = 0; l < LANES; l++)
            lane[3][l] += a[i + l] * b[3 * stride + i + l];
    }
    for (int r = 0; r < 4; r++)
        out[r] = lanes_sum(lane[r]);
}

/* ---- a few rows of a table ---- */

typedef struct chunk {
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

static void chunk_free(cst_context *context, chunk *c) {
    cst_free(context, c->first);
    cst_free(context, c->label);
    cst_free(context, c->weight);
    cst_free(context, c->p);
    cst_free(context, c->z);
    cst_free(context, c->logs);
    cst_free(context, c->scaled);
    cst_free(context, c->root);
    cst_free(context, c->sums);
}

static cst_status chunk_alloc(cst_context *context, const cst_pass *pass, chunk *c) {
    size_t most = CST_PASS_ENTRIES + (size_t)cst_pass_padded(pass->table->classes);
    size_t count = (size_t)pass->count;
    *c = (chunk){0};
    c->first = cst_alloc(context, CST_BLOCK_ROWS + 1, sizeof *c->first);
    c->label = cst_alloc(context, CST_BLOCK_ROWS, sizeof *c->label);
    c->weight = cst_alloc(context, CST_BLOCK_ROWS, sizeof *c->weight);
    c->p = cst_alloc(context, most, sizeof *c->p);
    c->z = cst_alloc(context, most, sizeof *c->z);
    c->logs = cst_alloc(context, count * most, sizeof *c->logs);
    bool many = pass->count >= CST_PASS_MANY;
    c->scaled =
        cst_alloc(context, pass->derivatives && !many ? count * most : 0, sizeof *c->scaled);
    c->root = cst_alloc(context, pass->derivatives && many ? most : 0, sizeof *c->root);
    c->sums = cst_alloc(context, (size_t)cst_pass_padded(pass->table->classes), sizeof *c->sums);
    if (c->first && c->label && c->weight && c->p && c->z && c->logs && c->scaled && c->root &&
        c->sums)
        return CST_OK;
    chunk_free(context, c);
    return CST_ERROR_MEMORY;
}

/* One row: where it is in its block of the compact table. */
static const cst_compact_block *row_at(const cst_logtable *table, int64_t row, int64_t *within) {
    return cst_compact_at(table->compact, table->row[row], within);
}

/* Rows from `row` on, up to `end`, as many as fit: their layout and biases. */
static int64_t chunk_layout(const cst_pass *pass, int64_t row, int64_t end, chunk *c) {
    const cst_logtable *table = pass->table;
    c->entries = 0;
    c->rows = 0;
    while (row < end && c->entries < CST_PASS_ENTRIES) {
        int64_t within = 0;
        const cst_compact_block *block = row_at(table, row++, &within);
        int64_t from = block->first[within];
        int64_t count = block->first[within + 1] - from;
        int64_t at = c->entries;
        for (int64_t e = 0; e < count; e++) {
            c->z[at + e] = pass->bias ? pass->bias[e] : 0;
        }
        int64_t padded = cst_pass_padded(count);
        for (int64_t e = count; e < padded; e++)
            c->z[at + e] = CST_PASS_NONE;
        c->first[c->rows] = at;
        c->weight[c->rows] = cst_logtable_weight(table, row - 1, block->label[within]);
        c->label[c->rows++] = at + block->label[within];
        c->entries += padded;
    }
    c->first[c->rows] = c->entries;
    return row;
}

/* Copies the members' numbers of the chunk's rows to places of the same length, from p or, where
 * `logs`, from the table's logs; padding is 1 or, of logs, 0. row: the chunk's first. */
static void chunk_gather(const cst_pass *pass, int64_t row, const chunk *c, int32_t column,
                         double *logs) {
    const cst_logtable *table = pass->table;
    for (int64_t i = 0; i < c->rows; i++) {
        int64_t within = 0;
        const cst_compact_block *block = row_at(table, row + i, &within);
        int64_t from = block->first[within];
        int64_t count = block->first[within + 1] - from;
        int64_t padded = c->first[i + 1] - c->first[i];
        int64_t at = from * table->compact->members + count * column;
        if (logs) {
            memcpy(logs + c->first[i], block->exact + at, (size_t)count * sizeof *logs);
            for (int64_t e = count; e < padded; e++)
                logs[c->first[i] + e] = 0;
            continue;
        }
        float *to = c->p + c->first[i];
        memcpy(to, block->p + at, (size_t)count * sizeof *to);
        for (int64_t e = count; e < padded; e++)
            to[e] = 1;
    }
}

/* Logs of the active members, from the table where it has them under the same mixing, and their
 * scores. row: the chunk's first. */
static void chunk_scores(const cst_pass *pass, int64_t row, chunk *c) {
    const cst_logtable *table = pass->table;
    const cst_compact *compact = table->compact;
    for (int32_t j = 0; j < pass->count; j++) {
        int32_t member = pass->active[j];
        int32_t column = table->columns[member];
        double mix = table->mix[member];
        double *logs = c->logs + (size_t)j * (size_t)c->entries;
        bool held = compact->log_mix && compact->log_mix[column] == mix;
        chunk_gather(pass, row, c, column, held ? logs : NULL);
        if (!held)
            cst_pass_logs(c->p, c->entries, mix, table->classes, true, logs);
        add(logs, c->entries, pass->weights[j], c->z);
    }
}

/* Scores to probabilities; adds the rows' losses to *loss and puts them where they are wanted. */
static void chunk_losses(const cst_pass *pass, int64_t row, chunk *c, double *loss) {
    for (int64_t i = 0; i < c->rows; i++) {
        double score = c->z[c->label[i]];
        double value = cst_pass_softmax(c->first[i + 1] - c->first[i], c->z + c->first[i]) - score;
        value *= c->weight[i];
        *loss += value;
        if (pass->per_row)
            pass->per_row[row + i] = value;
    }
}

/* Square roots of probabilities, in place of the probabilities times a row's weight: what many
 * members' logs are multiplied by. */
static void chunk_roots(const chunk *c) {
    for (int64_t i = 0; i < c->rows; i++)
        for (int64_t e = c->first[i]; e < c->first[i + 1]; e++)
            c->root[e] = sqrt(c->weight[i] * c->z[e]);
}

/* The weights' gradient is the mean log under the pool minus the label's; logs are centred, and
 * those of many members multiplied by `root`. */
static void chunk_gradient(const cst_pass *pass, chunk *c, double *gradient) {
    bool weighted = cst_logtable_weighted(pass->table);
    bool many = pass->count >= CST_PASS_MANY;
    if (many)
        chunk_roots(c);
    for (int32_t j = 0; j < pass->count; j++) {
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
static cst_status chunk_hessian(cst_context *context, const cst_pass *pass, const chunk *c,
                                double *hessian) {
    int64_t stride = c->entries;
    if (pass->count >= CST_PASS_MANY)
        return cst_outer_f64(context, pass->count, stride, c->logs, stride, hessian,
                             pass->parameters);
    for (int32_t j = 0; j < pass->count; j++) {
        const double *scaled = c->scaled + (size_t)j * (size_t)stride;
        double *to = hessian + (size_t)j * (size_t)pass->parameters;
        int32_t l = 0;
        for (; l + 4 <= j + 1; l += 4) {
            double four[4];
            dots(scaled, c->logs + (size_t)l * (size_t)stride, stride, stride, four);
            for (int r = 0; r < 4; r++)
                to[l + r] += four[r];
        }
        for (; l <= j; l++)
            to[l] += cst_pass_dot(scaled, c->logs + (size_t)l * (size_t)stride, stride);
    }
    return CST_OK;
}

/* What biases add: their gradient, and their rows of the Hessian. Every row has every class, and so
 * the same length. */
static cst_status chunk_biases(cst_context *context, const cst_pass *pass, chunk *c,
                               double *gradient, double *hessian) {
    int64_t classes = pass->table->classes;
    int64_t width = c->first[1];
    size_t k = (size_t)pass->count;
    size_t d = (size_t)pass->parameters;
    bool many = pass->count >= CST_PASS_MANY;
    memset(c->sums, 0, (size_t)width * sizeof *c->sums);
    for (int64_t i = 0; i < c->rows; i++) {
        gradient[k + (size_t)(c->label[i] - c->first[i])] -= c->weight[i];
        add(c->z + c->first[i], width, c->weight[i], c->sums);
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
                add(from + c->first[i], width, 1, c->sums);
        }
        for (int64_t class = 0; class < classes; class ++)
            hessian[(k + (size_t) class) * d + j] += c->sums[class];
    }
    for (int64_t i = 0; cst_logtable_weighted(pass->table) && i < c->rows; i++)
        for (int64_t e = c->first[i]; e < c->first[i + 1]; e++)
            c->z[e] *= sqrt(c->weight[i]);
    return cst_syrk_f64(context, classes, c->rows, -1, c->z, width, 1, hessian + k * d + k,
                        pass->parameters);
}

/* ---- the pass ---- */

static cst_status pass_task(cst_context *worker, const void *user, int64_t row, int64_t end,
                            double *sum) {
    const cst_pass *pass = user;
    if (!pass->table->compact->every_class)
        return cst_pass_sampled(worker, pass, row, end, sum);
    double *gradient = sum + 1;
    double *hessian = gradient + pass->parameters;
    chunk c;
    cst_status status = chunk_alloc(worker, pass, &c);
    if (status != CST_OK)
        return status;
    while (status == CST_OK && row < end) {
        int64_t most = row + CST_BLOCK_ROWS;
        int64_t next = chunk_layout(pass, row, most < end ? most : end, &c);
        chunk_scores(pass, row, &c);
        chunk_losses(pass, row, &c, sum);
        if (pass->derivatives) {
            chunk_gradient(pass, &c, gradient);
            status = chunk_hessian(worker, pass, &c, hessian);
            if (pass->parameters > pass->count)
                CST_THEN(chunk_biases(worker, pass, &c, gradient, hessian));
        }
        row = next;
    }
    chunk_free(worker, &c);
    return status;
}

cst_status cst_pass_run(cst_context *context, const cst_pass *pass, double *sum) {
    size_t d = (size_t)pass->parameters;
    size_t width = pass->derivatives ? 1 + d + d * d : 1;
    bool wide = pass->derivatives && d > WIDE_PARAMETERS;
    cst_status status =
        cst_logtable_sum(context, pass->table, wide ? CST_COMPACT_GRAIN : 1, width,
                         pass->derivatives ? d : 0, pass_task, pass, sum, pass->per_row);
    for (size_t i = 0; status == CST_OK && pass->table->weight != 1 && i < width; i++)
        sum[i] *= pass->table->weight;
    return status;
}
