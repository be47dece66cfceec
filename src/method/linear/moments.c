/* Moments of the meta-design per fold, of several designs in one pass, and the standardised Gram
 * made from them. */
#include "method/linear/moments.h"
#include "core/la.h"
#include "core/wide.h"

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
    (void)context;
    cst_scope_free(&moments->scope);
    *moments = (cst_moments){0};
}

static cst_status check_folds(cst_context *context, const int32_t *folds, int32_t fold_count,
                              int64_t rows) {
    if (fold_count < 1)
        return cst_fail(context, CST_ERROR_ARGUMENT, "%d folds: at least one is needed",
                        (int)fold_count);
    for (int64_t i = 0; folds && i < rows; i++)
        if (folds[i] < 0 || folds[i] >= fold_count)
            return cst_fail(context, CST_ERROR_ARGUMENT, "fold %d of row %lld is not in 0..%d",
                            (int)folds[i], (long long)i, (int)fold_count - 1);
    return CST_OK;
}

static cst_status allocate(cst_context *context, int32_t columns, int32_t folds, cst_moments *out) {
    size_t width = moment_width(columns);
    size_t square = 0;
    size_t total = 0;
    if (!cst_size_mul(width, width, &square) || !cst_size_mul(square, (size_t)folds, &total))
        return cst_fail(context, CST_ERROR_LIMIT, "moments of %d columns in %d folds are too many",
                        (int)columns, (int)folds);
    out->columns = columns;
    out->folds = folds;
    CST_TAKE(context, &out->scope, out->shift, columns);
    CST_TAKE(context, &out->scope, out->sums, total);
    return CST_OK;
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

/* ---- slabs of rows ---- */

/* Numbers of all members in a slab: 4 MiB of floats. */
static const int64_t SLAB_CELLS = 1 << 20;

/* Rows of a slab of this view: as many as fit the cache, 1..CST_BLOCK_ROWS. */
static int64_t slab_rows(const cst_view *view) {
    int64_t width = (int64_t)view->classes * view->members;
    int64_t rows = SLAB_CELLS / width;
    return rows < 1 ? 1 : rows > CST_BLOCK_ROWS ? CST_BLOCK_ROWS : rows;
}

cst_status cst_slab_open(cst_context *context, cst_scope *scope, const cst_view *view,
                         int64_t chunk, cst_slab *out) {
    *out = (cst_slab){.view = view, .capacity = slab_rows(view), .chunk = chunk};
    size_t cells = (size_t)view->members * (size_t)view->classes;
    size_t read = cst_view_copies(view) ? (size_t)out->capacity : 0;
    size_t picked = chunk > 1 ? (size_t)chunk : 0;
    if (!cst_size_mul(cells, read, &read) || !cst_size_mul(cells, picked, &picked))
        return cst_fail(context, CST_ERROR_LIMIT, "a row of %d members and %d classes is too large",
                        (int)view->members, (int)view->classes);
    CST_TAKE(context, scope, out->scratch, read);
    CST_TAKE(context, scope, out->gathered, picked);
    CST_TAKE(context, scope, out->rows, view->members);
    CST_TAKE(context, scope, out->members, view->members);
    return CST_OK;
}

cst_status cst_slab_read(cst_context *context, cst_slab *slab, int64_t first, int64_t count) {
    const cst_view *view = slab->view;
    size_t stride = cst_view_copies(view) ? (size_t)slab->capacity * (size_t)view->classes : 0;
    for (int32_t k = 0; k < view->members; k++)
        CST_TRY(cst_view_rows(context, view, k, first, count, slab->scratch + (size_t)k * stride,
                              &slab->rows[k]));
    return CST_OK;
}

void cst_slab_pick(cst_slab *slab, const int64_t *rows, int64_t count) {
    size_t width = (size_t)slab->view->classes;
    bool together = rows[count - 1] - rows[0] == count - 1;
    for (int32_t k = 0; k < slab->view->members; k++) {
        slab->members[k] = slab->rows[k] + (size_t)rows[0] * width;
        if (together)
            continue;
        float *to = slab->gathered + (size_t)k * (size_t)slab->chunk * width;
        for (int64_t i = 0; i < count; i++)
            memcpy(to + (size_t)i * width, slab->rows[k] + (size_t)rows[i] * width,
                   width * sizeof *to);
        slab->members[k] = to;
    }
}

/* ---- from a view ---- */

/* A pass computes the moments of several designs on the same rows. Members, target and 1 are the
 * same columns in all of them: their products are taken once, and for each design those of its
 * gated columns with everything. */
typedef struct pass {
    const cst_view *view;
    const cst_moments_job *jobs;
    int32_t count;  /* jobs */
    int32_t gated;  /* most gated columns of a job */
    int32_t shared; /* K + 2: members, target, 1 */
    int64_t chunk;  /* samples per chunk */
    size_t *begin;  /* [count]: where a job's sums begin in the sum of a block */
    size_t width;   /* of that sum */
} pass;

typedef struct buffers {
    cst_slab slab;
    double *z;         /* [shared + gated][chunk * classes] */
    double *aggregate; /* [tiles of a chunk][12][CST_TILE] */
    float *gate;       /* [12][CST_TILE] */
    double *samples;   /* [count][2][chunk]: entropy and divergence for each job */
    double *scratch;
    double *product;  /* [shared][shared] */
    double *products; /* [count][gated][shared + gated] */
    int32_t *group;   /* [CST_BLOCK_ROWS]: first row of the slab in the same folds of every job */
} buffers;

static int32_t gated_columns(const cst_gate *gate) {
    return cst_design_columns(gate) - gate->inputs;
}

static cst_status open_buffers(cst_context *context, cst_scope *scope, const pass *p, buffers *b) {
    size_t pairs = (size_t)p->chunk * (size_t)p->view->classes;
    size_t tiles = pairs / CST_TILE + (pairs % CST_TILE != 0);
    size_t all = (size_t)p->shared + (size_t)p->gated;
    size_t scratch = cst_aggregate_scratch(p->view->members);
    for (int32_t j = 0; j < p->count; j++) {
        size_t needed = cst_gate_scratch(p->jobs[j].gate);
        scratch = needed > scratch ? needed : scratch;
    }
    CST_TRY(cst_slab_open(context, scope, p->view, p->chunk, &b->slab));
    CST_TAKE(context, scope, b->z, all * pairs);
    CST_TAKE(context, scope, b->aggregate, tiles * CST_AGGREGATORS * CST_TILE);
    CST_TAKE(context, scope, b->gate, CST_AGGREGATORS * CST_TILE);
    CST_TAKE(context, scope, b->samples, 2 * (size_t)p->count * (size_t)p->chunk);
    CST_TAKE(context, scope, b->scratch, scratch);
    CST_TAKE(context, scope, b->product, (size_t)p->shared * (size_t)p->shared);
    CST_TAKE(context, scope, b->products, (size_t)p->count * (size_t)p->gated * all);
    CST_TAKE(context, scope, b->group, CST_BLOCK_ROWS);
    return CST_OK;
}

/* Fold of a row in a job; negative where the job leaves it out. */
static int32_t fold_of(const cst_moments_job *job, int64_t row) {
    return job->folds ? job->folds[row] : 0;
}

CST_KERNEL(shifted_member,
           (const float *restrict x, double shift, int64_t size, double *restrict out),
           (x, shift, size, out)) {
    for (int64_t e = 0; e < size; e++)
        out[e] = (double)x[e] - shift;
}

CST_KERNEL(shifted_gated,
           (const double *restrict x, const float *restrict gate, double shift, int64_t size,
            double *restrict out),
           (x, gate, shift, size, out)) {
    for (int64_t e = 0; e < size; e++)
        out[e] = x[e] * (double)gate[e] - shift;
}

/* Rows of the design times the root of how much their samples count: products of columns then have
 * the weights once. z: [columns][count * classes]. */
static void weigh(const cst_view *view, const int64_t *rows, int64_t count, int32_t columns,
                  double *z) {
    int64_t pairs = count * view->classes;
    for (int64_t i = 0; view->weights && i < count; i++) {
        double root = sqrt(cst_view_weight(view, rows[i]));
        for (int32_t j = 0; j < columns; j++)
            for (int64_t e = i * view->classes; e < (i + 1) * view->classes; e++)
                z[j * pairs + e] *= root;
    }
}

/* Members (shifted by 1/C, their mean), target and 1 of the picked rows, and their products. */
static cst_status add_shared(cst_context *context, const pass *p, buffers *b, const int64_t *rows,
                             int64_t count) {
    int32_t classes = p->view->classes;
    int32_t inputs = p->view->members;
    int64_t pairs = count * classes;
    for (int32_t k = 0; k < inputs; k++)
        shifted_member(b->slab.members[k], 1 / (double)classes, pairs, b->z + k * pairs);
    double *target = b->z + inputs * pairs;
    double *one = target + pairs;
    for (int64_t i = 0; i < count; i++)
        for (int32_t c = 0; c < classes; c++)
            target[i * classes + c] = cst_design_target(p->view, rows[i], c);
    for (int64_t e = 0; e < pairs; e++)
        one[e] = 1;
    weigh(p->view, rows, count, p->shared, b->z);
    return cst_gemm_f64(context, false, true, p->shared, p->shared, pairs, 1, b->z, pairs, b->z,
                        pairs, 1, b->product, p->shared);
}

/* Entropy and divergence of the picked rows for a job; those of an earlier job with the same best
 * member are used again. Position of the job whose they are. */
static int32_t make_samples(const pass *p, buffers *b, int32_t job, int64_t row, int64_t count) {
    const cst_gate *gate = p->jobs[job].gate;
    for (int32_t j = 0; j < job; j++)
        if (p->jobs[j].gate->mode == CST_GATE_LEARNED && p->jobs[j].gate->best == gate->best &&
            fold_of(&p->jobs[j], row) >= 0)
            return j;
    double *samples = b->samples + 2 * (int64_t)job * p->chunk;
    cst_aggregate_samples(b->slab.members, gate->inputs, gate->best, count, p->view->classes,
                          samples, samples + p->chunk, b->scratch);
    return job;
}

/* The gated columns of one job, shifted, into their place in z. */
static void fill_gated(const pass *p, buffers *b, int32_t job, int64_t row, int64_t count) {
    const cst_gate *gate = p->jobs[job].gate;
    const double *shift = p->jobs[job].out->shift + gate->inputs;
    int32_t classes = p->view->classes;
    int64_t pairs = count * classes;
    bool learned = gate->mode == CST_GATE_LEARNED;
    int32_t columns = gated_columns(gate);
    const double *samples = NULL;
    if (learned)
        samples = b->samples + 2 * (int64_t)make_samples(p, b, job, row, count) * p->chunk;
    else
        for (size_t e = 0; e < (size_t)CST_AGGREGATORS * CST_TILE; e++)
            b->gate[e] = 1;
    for (int64_t first = 0; first < pairs; first += CST_TILE) {
        int64_t size = pairs - first < CST_TILE ? pairs - first : CST_TILE;
        double *tile = b->aggregate + first * CST_AGGREGATORS;
        double *z = b->z + p->shared * pairs + first;
        if (learned) {
            cst_aggregate_broadcast(classes, first, size, samples, samples + p->chunk, tile);
            cst_gate_tile(gate, b->slab.members, first, size, b->gate, b->scratch);
        }
        for (int32_t a = 0; a < columns; a++) {
            size_t from = (size_t)cst_design_aggregate(gate->mode, a) * CST_TILE;
            shifted_gated(tile + from, b->gate + from, shift[a], size, z + a * pairs);
        }
    }
}

/* Adds the pairs of `count` rows of the slab (positions in it), all in the same folds. */
static cst_status add_chunk(cst_context *context, const pass *p, buffers *b, int64_t first_row,
                            const int64_t *picked, int64_t count) {
    int32_t classes = p->view->classes;
    int64_t pairs = count * classes;
    int64_t all = p->shared + p->gated;
    int64_t lead = first_row + picked[0];
    int64_t rows[CST_BLOCK_ROWS];
    for (int64_t i = 0; i < count; i++)
        rows[i] = first_row + picked[i];
    cst_slab_pick(&b->slab, picked, count);
    CST_TRY(add_shared(context, p, b, rows, count));
    for (int64_t first = 0; p->gated > 0 && first < pairs; first += CST_TILE)
        cst_aggregate_tile(b->slab.members, p->view->members, classes, first,
                           pairs - first < CST_TILE ? pairs - first : CST_TILE, NULL, NULL,
                           b->aggregate + first * CST_AGGREGATORS, b->scratch);
    for (int32_t j = 0; j < p->count; j++) {
        int32_t columns = gated_columns(p->jobs[j].gate);
        if (columns == 0 || fold_of(&p->jobs[j], lead) < 0)
            continue;
        fill_gated(p, b, j, lead, count);
        weigh(p->view, rows, count, columns, b->z + p->shared * pairs);
        CST_TRY(cst_gemm_f64(context, false, true, columns, p->shared + columns, pairs, 1,
                             b->z + p->shared * pairs, pairs, b->z, pairs, 1,
                             b->products + (int64_t)j * p->gated * all, all));
    }
    return CST_OK;
}

/* Adds the products of one group of rows to the sums of the jobs: from the order members, target,
 * 1, gated to members, gated, target, 1; lower triangles. */
static void scatter(const pass *p, const buffers *b, int64_t row, double *sum) {
    int32_t inputs = p->view->members;
    size_t shared = (size_t)p->shared;
    size_t all = shared + (size_t)p->gated;
    for (int32_t j = 0; j < p->count; j++) {
        const cst_moments_job *job = &p->jobs[j];
        int32_t fold = fold_of(job, row);
        if (fold < 0)
            continue;
        size_t gated = (size_t)gated_columns(job->gate);
        size_t width = shared + gated;
        double *to = sum + p->begin[j] + (size_t)fold * width * width;
        for (size_t i = 0; i < shared; i++)
            for (size_t k = 0; k <= i; k++)
                to[(i < (size_t)inputs ? i : i + gated) * width +
                   (k < (size_t)inputs ? k : k + gated)] += b->product[i * shared + k];
        for (size_t a = 0; a < gated; a++) {
            const double *from = b->products + ((size_t)j * (size_t)p->gated + a) * all;
            double *own = to + ((size_t)inputs + a) * width;
            for (size_t k = 0; k < (size_t)inputs; k++)
                own[k] += from[k];
            for (size_t k = (size_t)inputs; k < shared; k++)
                to[(k + gated) * width + (size_t)inputs + a] += from[k];
            for (size_t k = 0; k <= a; k++)
                own[(size_t)inputs + k] += from[shared + k];
        }
    }
}

/* Adds the rows of the slab that are in the same folds as row `lead` of it in every job. */
static cst_status add_group(cst_context *context, const pass *p, buffers *b, int64_t first_row,
                            int64_t lead, int64_t count, double *sum) {
    size_t all = (size_t)p->shared + (size_t)p->gated;
    int64_t picked[CST_BLOCK_ROWS];
    int64_t held = 0;
    memset(b->product, 0, (size_t)p->shared * (size_t)p->shared * sizeof *b->product);
    memset(b->products, 0, (size_t)p->count * (size_t)p->gated * all * sizeof *b->products);
    for (int64_t i = lead; i < count; i++) {
        if (b->group[i] != lead)
            continue;
        picked[held++] = i;
        if (held == p->chunk) {
            CST_TRY(add_chunk(context, p, b, first_row, picked, held));
            held = 0;
        }
    }
    if (held > 0)
        CST_TRY(add_chunk(context, p, b, first_row, picked, held));
    scatter(p, b, first_row + lead, sum);
    return CST_OK;
}

/* For each row of a slab the first row of it that is in the same folds; -1 where no job takes it.
 */
static void find_groups(const pass *p, int64_t first_row, int64_t count, int32_t *group) {
    for (int64_t i = 0; i < count; i++) {
        bool taken = false;
        for (int32_t j = 0; j < p->count; j++)
            taken = taken || fold_of(&p->jobs[j], first_row + i) >= 0;
        group[i] = taken ? (int32_t)i : -1;
        for (int64_t lead = 0; taken && lead < i; lead++) {
            bool same = group[lead] == lead;
            for (int32_t j = 0; same && j < p->count; j++)
                same =
                    fold_of(&p->jobs[j], first_row + i) == fold_of(&p->jobs[j], first_row + lead);
            if (same) {
                group[i] = (int32_t)lead;
                break;
            }
        }
    }
}

static cst_status add_block(cst_context *worker, void *user, int64_t block, double *sum) {
    const pass *p = user;
    int64_t first = cst_block_first(block);
    int64_t end = first + cst_block_size(p->view->rows, block);
    buffers b;
    CST_SCOPE(scope);
    CST_TRY(open_buffers(worker, scope, p, &b));
    for (; first < end; first += b.slab.capacity) {
        int64_t count = end - first < b.slab.capacity ? end - first : b.slab.capacity;
        CST_TRY(cst_slab_read(worker, &b.slab, first, count));
        find_groups(p, first, count, b.group);
        for (int64_t i = 0; i < count; i++)
            if (b.group[i] == i)
                CST_TRY(add_group(worker, p, &b, first, i, count, sum));
    }
    return CST_OK;
}

/* The rows that a job's rough means are taken from: up to SHIFT_SAMPLES of those that it takes,
 * spread evenly over the view; a row may come twice. Returns how many. */
static int64_t spread_rows(const cst_view *view, const cst_moments_job *job,
                           int64_t rows[SHIFT_SAMPLES]) {
    int64_t samples = view->rows < SHIFT_SAMPLES ? view->rows : SHIFT_SAMPLES;
    int64_t used = 0;
    for (int64_t s = 0; s < samples; s++) {
        /* s * rows / samples without the product overflowing */
        int64_t row = view->rows / samples * s + view->rows % samples * s / samples;
        while (row < view->rows && fold_of(job, row) < 0)
            row++;
        if (row == view->rows)
            break;
        rows[used++] = row;
    }
    return used;
}

/* Means of a job's gated columns over a few of its samples, so many at a time that tiles are full.
 * The members' is 1/C. */
static cst_status rough_means(cst_context *context, const cst_view *view,
                              const cst_moments_job *job) {
    int64_t rows[SHIFT_SAMPLES];
    int32_t columns = cst_design_columns(job->gate);
    int64_t most = CST_TILE > view->classes ? CST_TILE / view->classes : 1;
    size_t room = (size_t)most * (size_t)view->classes;
    double *shift = job->out->shift;
    for (int32_t k = 0; k < view->members; k++)
        shift[k] = 1 / (double)view->classes;
    if (columns == view->members)
        return CST_OK;
    int64_t used = spread_rows(view, job, rows);
    CST_SCOPE(scope);
    CST_NEW(context, scope, float, copies, (size_t)view->members *room);
    CST_NEW(context, scope, const float *, from, view->members);
    CST_NEW(context, scope, double, z, (size_t)columns *room);
    CST_NEW(context, scope, double, scratch, cst_design_scratch(job->gate, most));
    for (int32_t k = 0; k < view->members; k++)
        from[k] = copies + (size_t)k * room;
    for (int64_t first = 0; first < used; first += most) {
        int64_t count = used - first < most ? used - first : most;
        int64_t pairs = count * view->classes;
        for (int64_t i = 0; i < count * view->members; i++) /* one by one: a row may come twice */
            CST_TRY(cst_view_gather(
                context, view, (int32_t)(i / count), rows + first + i % count, 1,
                copies + (size_t)(i / count) * room + (size_t)(i % count) * (size_t)view->classes));
        cst_design_fill(job->gate, from, count, view->classes, z, pairs, scratch);
        for (int32_t j = view->members; j < columns; j++)
            for (int64_t e = 0; e < pairs; e++)
                shift[j] += z[j * pairs + e];
    }
    for (int32_t j = view->members; used > 0 && j < columns; j++)
        shift[j] /= (double)used * (double)view->classes;
    return CST_OK;
}

static cst_status check_job(cst_context *context, const cst_view *view,
                            const cst_moments_job *job) {
    if (!view->labels || view->classes < 2 || view->rows < 1 || view->members < 1)
        return cst_fail(context, CST_ERROR_INPUT,
                        "%lld rows of %d classes from %d members %s labels: the meta-design needs "
                        "at least one row, two classes and one member, and labels",
                        (long long)view->rows, (int)view->classes, (int)view->members,
                        view->labels ? "with" : "without");
    if (job->gate->inputs != view->members)
        return cst_fail(context, CST_ERROR_MISMATCH,
                        "the gate was fitted on %d members, but the data have %d",
                        (int)job->gate->inputs, (int)view->members);
    return CST_OK;
}

cst_status cst_moments_compute_all(cst_context *context, const cst_view *view,
                                   const cst_moments_job *jobs, int32_t count) {
    for (int32_t j = 0; j < count; j++)
        *jobs[j].out = (cst_moments){0};
    pass p = {.view = view,
              .jobs = jobs,
              .count = count,
              .shared = view->members + 2,
              .chunk = CHUNK_PAIRS > view->classes && view->classes > 0
                           ? CHUNK_PAIRS / view->classes
                           : 1};
    CST_SCOPE(scope);
    CST_TAKE(context, scope, p.begin, count);
    for (int32_t j = 0; j < count; j++) {
        const cst_moments_job *job = &jobs[j];
        CST_TRY(check_job(context, view, job));
        CST_TRY(allocate(context, cst_design_columns(job->gate), job->folds ? job->fold_count : 1,
                         job->out));
        size_t width = moment_width(job->out->columns);
        job->out->mode = job->gate->mode;
        job->out->inputs = job->gate->inputs;
        p.begin[j] = p.width;
        p.width += width * width * (size_t)job->out->folds;
        p.gated = gated_columns(job->gate) > p.gated ? gated_columns(job->gate) : p.gated;
        CST_TRY(rough_means(context, view, job));
    }
    int64_t blocks = cst_block_count(p.view->rows);
    CST_NEW(context, scope, double, total, p.width);
    CST_TRY(cst_poll(context));
    CST_LA();
    if (blocks == 1) /* what is 0 plus its sums, and less to move */
        CST_TRY(add_block(context, &p, 0, total));
    else
        CST_TRY(cst_reduce_blocks(context, blocks, p.width, add_block, &p, total));
    for (int32_t j = 0; j < p.count; j++) {
        cst_moments *out = p.jobs[j].out;
        size_t width = moment_width(out->columns);
        memcpy(out->sums, total + p.begin[j], width * width * (size_t)out->folds * sizeof *total);
        symmetrise(out);
    }
    return CST_OK;
}

cst_status cst_moments_compute(cst_context *context, const cst_view *view, const cst_gate *gate,
                               const int32_t *folds, int32_t fold_count, cst_moments *out) {
    *out = (cst_moments){0};
    cst_moments_job job = {.gate = gate, .folds = folds, .fold_count = fold_count, .out = out};
    if (folds)
        CST_TRY(check_folds(context, folds, fold_count, view->rows));
    return cst_moments_compute_all(context, view, &job, 1);
}

/* ---- sums of folds ---- */

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

/* ---- standardised ---- */

void cst_standardised_free(cst_context *context, cst_standardised *standardised) {
    (void)context;
    cst_scope_free(&standardised->scope);
    *standardised = (cst_standardised){0};
}

/* Finds the columns that are not constant: index, mean and scale. */
static void keep_columns(const cst_moments *moments, const double *sum, cst_standardised *out) {
    int32_t d = moments->columns;
    size_t width = moment_width(d);
    double n = out->rows;
    for (int32_t j = 0; j < d; j++) {
        size_t row = (size_t)j * width;
        double shifted = sum[row + (size_t)d + 1] / n;
        double variance = sum[row + (size_t)j] / n - shifted * shifted;
        double mean = moments->shift[j] + shifted;
        double bound = constant_tolerance * constant_tolerance * (variance + mean * mean);
        /* Rounding leaves a variance of some 1e-16 of the shifted second moment, and more in sums
         * of many rows. */
        double rounding = 1e-14 * sum[row + (size_t)j] / n;
        if (variance > bound && variance > rounding) {
            out->index[out->kept] = j;
            out->mean[out->kept] = mean;
            out->scale[out->kept] = sqrt(variance);
            out->kept++;
        }
    }
}

cst_status cst_moments_check(cst_context *context, double rows, int32_t without) {
    if (rows > 0)
        return CST_OK;
    if (without < 0)
        return cst_fail(context, CST_ERROR_INPUT,
                        "all row weights are too close to 0: there is nothing to fit");
    return cst_fail(
        context, CST_ERROR_INPUT,
        "without fold %d no rows with a weight are left: use fewer folds or more samples",
        (int)without);
}

cst_status cst_standardise_in(cst_context *context, cst_scope *scope, const cst_moments *moments,
                              int32_t without, cst_standardised *out) {
    int32_t d = moments->columns;
    size_t width = moment_width(d);
    CST_SCOPE(temporary);
    *out = (cst_standardised){.columns = d};
    CST_NEW(context, temporary, double, sum, (width * width));
    CST_TAKE(context, scope, out->index, d);
    CST_TAKE(context, scope, out->mean, d);
    CST_TAKE(context, scope, out->scale, d);
    CST_TAKE(context, scope, out->gram, (size_t)d * (size_t)d);
    CST_TAKE(context, scope, out->cross, d);
    cst_moments_without(moments, without, sum);
    double n = sum[width * width - 1];
    CST_TRY(cst_moments_check(context, n, without));
    out->rows = n;
    keep_columns(moments, sum, out);
    if (out->kept == 0)
        return cst_fail(context, CST_ERROR_INPUT,
                        "all %d columns of the meta-design are constant: there is nothing to fit",
                        (int)d);
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
    return CST_OK;
}

cst_status cst_standardise(cst_context *context, const cst_moments *moments, int32_t without,
                           cst_standardised *out) {
    cst_scope scope = {0};
    cst_status status = cst_standardise_in(context, &scope, moments, without, out);
    out->scope = scope;
    if (status != CST_OK)
        cst_standardised_free(context, out);
    return status;
}
