/* The `mlp` baseline, trained by Adam: a minibatch is cut into SLOTS chunks with a dropout stream
 * each, whose gradients are added in order. Wide pools visit a seeded draw of the rows in each
 * epoch. */
#include "fit/baselines/mlp.h"
#include "core/la.h"
#include "fit/baselines/baselines.h"
#include "model/patterns.h"

#include <math.h>
#include <string.h>

/* Chunks of a minibatch; parameters updated by a task. */
enum { SLOTS = 4, UPDATE = 8192 };
/* Standardised inputs are kept where there are at most this many (128 MiB). */
static const size_t TABLE_CELLS = (size_t)1 << 24;

/* Short tasks run on this thread. `operations`: multiplications of all tasks together. */
static cst_status spread(cst_context *context, double operations, int64_t count, cst_task_fn task,
                         void *user) {
    if (operations >= 2e7)
        return cst_parallel_for(context, count, task, user);
    for (int64_t i = 0; i < count; i++)
        CST_TRY(task(context, user, i));
    return CST_OK;
}

/* Where the parts of the parameter vector begin. */
typedef struct layout {
    size_t b1;
    size_t w2;
    size_t b2;
    size_t w3;
    size_t b3;
    size_t count;
} layout;

static layout layout_of(const cst_network *net) {
    size_t h = (size_t)net->hidden;
    layout at;
    at.b1 = h * (size_t)net->members * (size_t)net->classes;
    at.w2 = at.b1 + h;
    at.b2 = at.w2 + h * h;
    at.w3 = at.b2 + h;
    at.b3 = at.w3 + h * (size_t)net->classes;
    at.count = at.b3 + (size_t)net->classes;
    return at;
}

cst_mlp_options cst_mlp_defaults(int64_t rows) {
    return (cst_mlp_options){.hidden = 64,
                             .epochs = 75,
                             .patience = 8,
                             .batch_rows = rows < 16384 ? 64 : 256,
                             .rate = 1e-3,
                             .decay = 0.01,
                             .dropout = 0.5,
                             .work = 1e10};
}

/* ---- a chunk of rows ---- */

/* Storage of one chunk, each [chunk rows][...]. */
typedef struct slot {
    double *x;        /* [inputs] */
    double *h1;       /* [hidden] */
    double *h2;       /* [hidden] */
    double *d1;       /* [hidden]: gradient before the ReLU */
    double *d2;       /* [hidden] */
    double *z;        /* [classes]: scores, then probabilities, then their gradient */
    double *gradient; /* [parameters] */
    float *row;       /* [classes] */
    double loss;
} slot;

typedef struct pass {
    const cst_network *net;
    const cst_view *view;
    const int64_t *rows; /* [count] */
    int64_t count;
    int64_t chunk_rows;
    layout at;
    const double *table; /* [view->rows][inputs], standardised; NULL: computed when needed */
    double dropout;
    uint64_t seed;
    uint32_t step;
    slot *slots;
    int64_t first_chunk; /* of the wave at work: chunk first_chunk + s is in slot s */
    bool loss_only;
} pass;

static cst_status make_slots(cst_context *context, cst_scope *scope, const cst_network *net,
                             int64_t rows, slot *slots) {
    int64_t inputs = (int64_t)net->members * net->classes;
    for (int s = 0; s < SLOTS; s++) {
        CST_TAKE(context, scope, slots[s].x, (rows * inputs));
        CST_TAKE(context, scope, slots[s].h1, (rows * net->hidden));
        CST_TAKE(context, scope, slots[s].h2, (rows * net->hidden));
        CST_TAKE(context, scope, slots[s].d1, (rows * net->hidden));
        CST_TAKE(context, scope, slots[s].d2, (rows * net->hidden));
        CST_TAKE(context, scope, slots[s].z, (rows * net->classes));
        CST_TAKE(context, scope, slots[s].gradient, layout_of(net).count);
        CST_TAKE(context, scope, slots[s].row, net->classes);
    }
    return CST_OK;
}

/* The standardised inputs of one row of a view; scratch: [classes]. */
static cst_status load_row(cst_context *context, const cst_network *net, const cst_view *view,
                           int64_t row, float *scratch, double *x) {
    size_t classes = (size_t)net->classes;
    const double *mean = net->mean;
    const double *scale = net->scale;
    for (int32_t k = 0; k < net->members; k++) {
        const float *q = NULL;
        CST_TRY(cst_view_rows(context, view, k, row, 1, scratch, &q));
        for (size_t c = 0; c < classes; c++)
            x[c] = (log(fmax((double)q[c], CST_NETWORK_FLOOR)) - mean[c]) / scale[c];
        x += classes;
        mean += classes;
        scale += classes;
    }
    return CST_OK;
}

static cst_status load(cst_context *context, const pass *p, const slot *s, int64_t first,
                       int64_t count) {
    size_t inputs = (size_t)p->net->members * (size_t)p->net->classes;
    for (int64_t i = 0; i < count; i++) {
        int64_t row = p->rows[first + i];
        double *x = s->x + (size_t)i * inputs;
        if (p->table)
            memcpy(x, p->table + (size_t)row * inputs, inputs * sizeof *x);
        else
            CST_TRY(load_row(context, p->net, p->view, row, s->row, x));
    }
    return CST_OK;
}

static void activate(double *h, int64_t count) {
    for (int64_t j = 0; j < count; j++)
        h[j] = h[j] > 0 ? h[j] : 0;
}

/* Sets values to 0 with the probability of dropout, else multiplies by 1 / (1 - dropout). */
static void drop(const pass *p, cst_rng *rng, double *h, int64_t count) {
    uint32_t threshold = (uint32_t)(p->dropout * 65536 + 0.5);
    double factor[] = {0, 1 / (1 - p->dropout)};
    uint32_t bits = 0;
    for (int64_t j = 0; p->dropout > 0 && j < count; j++) {
        bits = j % 2 ? bits >> 16 : cst_rng_u32(rng);
        h[j] *= factor[(bits & 0xFFFF) >= threshold];
    }
}

/* out [rows][units] = in [rows][width] weights' + biases */
static cst_status affine(cst_context *worker, int64_t rows, int64_t width, int64_t units,
                         const double *in, const double *weights, const double *biases,
                         double *out) {
    for (int64_t i = 0; i < rows; i++)
        memcpy(out + i * units, biases, (size_t)units * sizeof *out);
    return cst_gemm_f64(worker, false, true, rows, units, width, 1, in, width, weights, width, 1,
                        out, units);
}

/* Probabilities in s->z. */
static cst_status forward(cst_context *worker, const pass *p, const slot *s, int64_t chunk,
                          int64_t rows) {
    const double *theta = p->net->theta;
    int64_t h = p->net->hidden;
    int64_t classes = p->net->classes;
    cst_rng rng;
    cst_rng_init(&rng, p->seed, CST_STREAM_GATE_ROWS,
                 CST_MLP_SUBSTREAM | (p->step * SLOTS + (uint32_t)chunk));
    cst_status status = affine(worker, rows, (int64_t)p->net->members * classes, h, s->x, theta,
                               theta + p->at.b1, s->h1);
    activate(s->h1, rows * h);
    drop(p, &rng, s->h1, rows * h);
    CST_THEN(affine(worker, rows, h, h, s->h1, theta + p->at.w2, theta + p->at.b2, s->h2));
    activate(s->h2, rows * h);
    drop(p, &rng, s->h2, rows * h);
    CST_THEN(affine(worker, rows, h, classes, s->h2, theta + p->at.w3, theta + p->at.b3, s->z));
    for (int64_t i = 0; i < rows; i++) {
        double *z = s->z + i * classes;
        double top = z[0];
        double total = 0;
        for (int64_t c = 1; c < classes; c++)
            top = fmax(top, z[c]);
        for (int64_t c = 0; c < classes; c++) {
            z[c] = exp(z[c] - top);
            total += z[c];
        }
        for (int64_t c = 0; c < classes; c++)
            z[c] /= total;
    }
    return status;
}

/* weights [units][width] = d' in, biases [units] = column sums of d, both overwritten. */
static cst_status outer(cst_context *worker, int64_t rows, int64_t units, int64_t width,
                        const double *d, const double *in, double *weights, double *biases) {
    memset(biases, 0, (size_t)units * sizeof *biases);
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < units; j++)
            biases[j] += d[i * units + j];
    return cst_gemm_f64(worker, true, false, units, width, rows, 1, d, units, in, width, 0, weights,
                        width);
}

/* back [rows][width] = d [rows][units] weights, where h > 0, times the factor of dropout; else 0 */
static cst_status through(cst_context *worker, const pass *p, int64_t rows, int64_t units,
                          const double *d, const double *weights, const double *h, double *back) {
    int64_t width = p->net->hidden;
    double keep = 1 / (1 - p->dropout);
    CST_TRY(cst_gemm_f64(worker, false, false, rows, width, units, 1, d, units, weights, width, 0,
                         back, width));
    for (int64_t j = 0; j < rows * width; j++)
        back[j] = h[j] > 0 ? back[j] * keep : 0;
    return CST_OK;
}

/* s->gradient from s->z, which holds d loss / d score. */
static cst_status backward(cst_context *worker, const pass *p, const slot *s, int64_t rows) {
    const layout *at = &p->at;
    const double *theta = p->net->theta;
    double *g = s->gradient;
    int64_t h = p->net->hidden;
    int64_t classes = p->net->classes;
    CST_TRY(outer(worker, rows, classes, h, s->z, s->h2, g + at->w3, g + at->b3));
    CST_TRY(through(worker, p, rows, classes, s->z, theta + at->w3, s->h2, s->d2));
    CST_TRY(outer(worker, rows, h, h, s->d2, s->h1, g + at->w2, g + at->b2));
    CST_TRY(through(worker, p, rows, h, s->d2, theta + at->w2, s->h1, s->d1));
    return outer(worker, rows, h, p->net->members * classes, s->d1, s->x, g, g + at->b1);
}

static cst_status run_chunk(cst_context *worker, void *user, int64_t task) {
    const pass *p = user;
    slot *s = &p->slots[task];
    int64_t chunk = p->first_chunk + task;
    int64_t first = chunk * p->chunk_rows;
    int64_t rows = p->count - first < p->chunk_rows ? p->count - first : p->chunk_rows;
    cst_status status = load(worker, p, s, first, rows);
    CST_THEN(forward(worker, p, s, chunk, rows));
    s->loss = 0;
    for (int64_t i = 0; status == CST_OK && i < rows; i++) {
        double *z = s->z + i * p->net->classes;
        int32_t label = cst_view_label(p->view, p->rows[first + i]);
        s->loss -= log(fmax(z[label], 1e-300)) / (double)p->count;
        z[label] -= 1;
        for (int32_t c = 0; c < p->net->classes; c++)
            z[c] /= (double)p->count;
    }
    return status == CST_OK && !p->loss_only ? backward(worker, p, s, rows) : status;
}

/* Runs all chunks, SLOTS at a time, and adds up the loss in their order. */
static cst_status run_pass(cst_context *context, pass *p, double *loss) {
    int64_t chunks = p->count / p->chunk_rows + (p->count % p->chunk_rows != 0);
    *loss = 0;
    for (int64_t first = 0; first < chunks; first += SLOTS) {
        int64_t wave = chunks - first < SLOTS ? chunks - first : SLOTS;
        p->first_chunk = first;
        double rows = (double)(wave * p->chunk_rows);
        CST_TRY(spread(context, rows * (double)p->at.count, wave, run_chunk, p));
        for (int64_t s = 0; s < wave; s++)
            *loss += p->slots[s].loss;
    }
    return CST_OK;
}

/* ---- Adam ---- */

typedef struct adam {
    const pass *pass;
    double *theta;
    double *first;  /* [parameters] */
    double *second; /* [parameters] */
    double rate;
    double decay;
    double decay1; /* product of beta1 so far */
    double decay2;
    int64_t chunks; /* slots whose gradients make up the step */
} adam;

/* Kingma and Ba's constants; decay as Loshchilov and Hutter's. */
static cst_status update_range(cst_context *worker, void *user, int64_t task) {
    (void)worker;
    const double beta1 = 0.9;
    const double beta2 = 0.999;
    const double epsilon = 1e-8;
    const adam *a = user;
    const layout *at = &a->pass->at;
    double rate = a->rate / (1 - a->decay1);
    double spread = 1 / sqrt(1 - a->decay2);
    size_t from = (size_t)task * UPDATE;
    size_t to = from + UPDATE < at->count ? from + UPDATE : at->count;
    for (size_t j = from; j < to; j++) {
        double g = 0;
        for (int64_t s = 0; s < a->chunks; s++)
            g += a->pass->slots[s].gradient[j];
        bool bias = (j >= at->b1 && j < at->w2) || (j >= at->b2 && j < at->w3) || j >= at->b3;
        a->first[j] = beta1 * a->first[j] + (1 - beta1) * g;
        a->second[j] = beta2 * a->second[j] + (1 - beta2) * g * g;
        a->theta[j] -= bias ? 0 : a->rate * a->decay * a->theta[j];
        a->theta[j] -= rate * a->first[j] / (sqrt(a->second[j]) * spread + epsilon);
    }
    return CST_OK;
}

static cst_status adam_step(cst_context *context, adam *a, int64_t chunks) {
    size_t count = a->pass->at.count;
    a->decay1 *= 0.9;
    a->decay2 *= 0.999;
    a->chunks = chunks;
    int64_t tasks = (int64_t)(count / UPDATE + (count % UPDATE != 0));
    return spread(context, 40 * (double)count, tasks, update_range, a);
}

/* One epoch: the first `visits` rows of a new shuffle, minibatch by minibatch. */
static cst_status run_epoch(cst_context *context, pass *p, adam *a, const cst_mlp_rows *rows,
                            const cst_mlp_options *options, int32_t epoch, int64_t visits) {
    cst_rng rng;
    cst_rng_init(&rng, options->seed, CST_STREAM_GATE_SHUFFLE, CST_MLP_SUBSTREAM | (uint32_t)epoch);
    cst_rng_shuffle(&rng, rows->train, rows->train_count);
    p->dropout = options->dropout;
    p->loss_only = false;
    for (int64_t i = 0; i < visits; i += options->batch_rows) {
        double loss = 0;
        p->rows = rows->train + i;
        p->count = visits - i < options->batch_rows ? visits - i : options->batch_rows;
        CST_TRY(run_pass(context, p, &loss));
        p->step++;
        CST_TRY(adam_step(context, a, p->count / p->chunk_rows + (p->count % p->chunk_rows != 0)));
    }
    return CST_OK;
}

static cst_status held_loss_of(cst_context *context, pass *p, const cst_mlp_rows *rows,
                               double *loss) {
    p->rows = rows->held;
    p->count = rows->held_count;
    p->dropout = 0;
    p->loss_only = true;
    return run_pass(context, p, loss);
}

static cst_status run_epochs(cst_context *context, pass *p, adam *a, const cst_mlp_rows *rows,
                             const cst_mlp_options *options, double *best, int32_t *best_epoch,
                             double *held_loss) {
    size_t bytes = p->at.count * sizeof *best;
    double visits = fmax(options->work / (double)p->at.count, (double)options->batch_rows);
    int64_t most = visits < (double)rows->train_count ? (int64_t)visits : rows->train_count;
    CST_TRY(held_loss_of(context, p, rows, held_loss));
    *best_epoch = 0;
    memcpy(best, a->theta, bytes);
    for (int32_t e = 0; e < options->epochs; e++) {
        double loss = 0;
        CST_TRY(run_epoch(context, p, a, rows, options, e, most));
        CST_TRY(held_loss_of(context, p, rows, &loss));
        CST_TRY(cst_progress(context, "mlp", e + 1, options->epochs));
        if (loss < *held_loss) {
            *held_loss = loss;
            *best_epoch = e + 1;
            memcpy(best, a->theta, bytes);
        }
        if (e + 1 - *best_epoch >= options->patience)
            break;
    }
    memcpy(a->theta, best, bytes);
    return CST_OK;
}

typedef struct table_job {
    const cst_network *net;
    const cst_view *view;
    double *table;
} table_job;

static cst_status table_block(cst_context *worker, void *user, int64_t block) {
    const table_job *job = user;
    size_t inputs = (size_t)job->net->members * (size_t)job->net->classes;
    int64_t first = cst_block_first(block);
    int64_t end = first + cst_block_size(job->view->rows, block);
    CST_SCOPE(scope);
    CST_NEW(worker, scope, float, scratch, job->net->classes);
    for (int64_t i = first; i < end; i++)
        CST_TRY(load_row(worker, job->net, job->view, i, scratch, job->table + (size_t)i * inputs));
    return CST_OK;
}

cst_status cst_mlp_train(cst_context *context, cst_network *net, const cst_view *view,
                         const cst_mlp_rows *rows, const cst_mlp_options *options,
                         int32_t *best_epoch, double *held_loss) {
    slot slots[SLOTS];
    pass p = {.net = net,
              .view = view,
              .chunk_rows = (options->batch_rows + SLOTS - 1) / SLOTS,
              .at = layout_of(net),
              .seed = options->seed,
              .step = 1, /* the split of the rows has the substream of step 0 */
              .slots = slots};
    adam a = {.pass = &p,
              .theta = net->theta,
              .rate = options->rate,
              .decay = options->decay,
              .decay1 = 1,
              .decay2 = 1};
    size_t inputs = (size_t)net->members * (size_t)net->classes;
    CST_SCOPE(scope);
    CST_NEW(context, scope, double, best, p.at.count);
    CST_TAKE(context, scope, a.first, p.at.count);
    CST_TAKE(context, scope, a.second, p.at.count);
    CST_TRY(make_slots(context, scope, net, p.chunk_rows, slots));
    if ((size_t)view->rows <= TABLE_CELLS / inputs) {
        table_job job = {.net = net, .view = view};
        CST_TAKE(context, scope, job.table, (size_t)view->rows * inputs);
        CST_TRY(cst_parallel_for(context, cst_block_count(view->rows), table_block, &job));
        p.table = job.table;
    }
    return run_epochs(context, &p, &a, rows, options, best, best_epoch, held_loss);
}

/* ---- standardisation ---- */

/* sum: for each input, the sum of logs less `centre` ([inputs]; NULL: 0), then of its squares. */
typedef struct spread_job {
    const cst_view *view;
    const double *centre;
} spread_job;

static cst_status spread_block(cst_context *worker, void *user, int64_t block, double *sum) {
    const spread_job *job = user;
    size_t classes = (size_t)job->view->classes;
    size_t inputs = (size_t)job->view->members * classes;
    CST_SCOPE(scope);
    cst_rows rows;
    CST_TRY(cst_rows_open(worker, scope, job->view, block, &rows));
    for (int32_t k = 0; k < job->view->members; k++) {
        CST_TRY(cst_rows_read(worker, &rows, k));
        double *own = sum + (size_t)k * classes;
        const double *centre = job->centre ? job->centre + (size_t)k * classes : NULL;
        for (int64_t i = 0; i < rows.count; i++)
            for (size_t c = 0; c < classes; c++) {
                double x = log(fmax((double)cst_rows_at(&rows, i)[c], CST_NETWORK_FLOOR));
                x -= centre ? centre[c] : 0;
                own[c] += x;
                own[inputs + c] += x * x;
            }
    }
    return CST_OK;
}

/* Mean and standard deviation of every input over all rows; constant inputs keep scale 1. */
static cst_status standardise(cst_context *context, const cst_view *view, cst_network *net) {
    size_t inputs = (size_t)view->members * (size_t)view->classes;
    double rows = (double)view->rows;
    CST_SCOPE(scope);
    CST_NEW(context, scope, double, sum, 2 * inputs);
    spread_job job = {.view = view};
    for (int turn = 0; turn < 2; turn++) {
        job.centre = turn == 1 ? net->mean : NULL;
        CST_TRY(cst_reduce_blocks(context, cst_block_count(view->rows), 2 * inputs, spread_block,
                                  &job, sum));
        for (size_t j = 0; j < inputs; j++) {
            double deviation = sqrt(sum[inputs + j] / rows);
            if (turn == 0)
                net->mean[j] = sum[j] / rows;
            else
                net->scale[j] = deviation > 1e-9 ? deviation : 1;
        }
    }
    return CST_OK;
}

/* ---- fit ---- */

/* Every tenth row of a seeded shuffle sorted by class is held out, the others are trained on; of
 * fewer than ten rows all are both. `order`: [2 * rows]. */
static cst_status split(cst_context *context, const cst_view *view, uint64_t seed, int64_t *order,
                        cst_mlp_rows *out) {
    int64_t rows = view->rows;
    int64_t *shuffled = order + rows;
    cst_rng rng;
    CST_SCOPE(scope);
    CST_NEW(context, scope, int64_t, begin, view->classes + 1);
    cst_rng_init(&rng, seed, CST_STREAM_GATE_ROWS, CST_MLP_SUBSTREAM);
    for (int64_t i = 0; i < rows; i++) {
        shuffled[i] = i;
        begin[cst_view_label(view, i) + 1]++;
    }
    cst_rng_shuffle(&rng, shuffled, rows);
    for (int32_t c = 0; c < view->classes; c++)
        begin[c + 1] += begin[c];
    int64_t held = rows / 10;
    *out = (cst_mlp_rows){
        .train = order + held, .train_count = rows - held, .held = order, .held_count = held};
    for (int64_t i = 0; i < rows; i++) {
        int64_t rank = begin[cst_view_label(view, shuffled[i])]++; /* among all, by class */
        order[rank % 10 == 9 ? rank / 10 : held + rank - rank / 10] = shuffled[i];
    }
    if (held == 0) {
        out->held = shuffled;
        out->held_count = rows;
    }
    return CST_OK;
}

/* He's start for the hidden layers, a tenth of it for the output, biases 0. */
static void start(cst_network *net, uint64_t seed) {
    size_t widths[] = {(size_t)net->members * (size_t)net->classes, (size_t)net->hidden,
                       (size_t)net->hidden};
    size_t units[] = {(size_t)net->hidden, (size_t)net->hidden, (size_t)net->classes};
    double *weight = net->theta;
    cst_rng rng;
    cst_rng_init(&rng, seed, CST_STREAM_GATE_INIT, CST_MLP_SUBSTREAM);
    for (int layer = 0; layer < 3; layer++) {
        double scale = sqrt(2 / (double)widths[layer]) * (layer < 2 ? 1 : 0.1);
        for (size_t j = 0; j < widths[layer] * units[layer]; j++)
            weight[j] = scale * cst_rng_normal(&rng);
        weight += (widths[layer] + 1) * units[layer];
    }
}

cst_status cst_fit_mlp(cst_context *context, const cst_baseline_data *data, cst_baseline_fit *out) {
    const cst_view *view = data->view;
    cst_mlp_options options = cst_mlp_defaults(view->rows);
    if (cst_view_has_absent(view))
        return cst_fail(
            context, CST_ERROR_INPUT,
            "mlp is a neural network of all members, which cannot predict without some "
            "of them, and some lack predictions; leave out the method or these members");
    options.seed = data->seed;
    cst_mlp_rows rows;
    int32_t epoch = 0;
    double loss = 0;
    CST_SCOPE(scope);
    CST_NEW(context, scope, int64_t, order, (2 * view->rows));
    size_t size = cst_network_size(view->members, view->classes, options.hidden);
    if (size == 0)
        return cst_fail(context, CST_ERROR_LIMIT, "mlp: %d members of %d classes are too many",
                        view->members, view->classes);
    CST_TRY(cst_network_take(context, &out->scope, view->members, view->classes, options.hidden,
                             &out->network));
    cst_network *net = out->network;
    out->mix = CST_MIX_OTHER;
    CST_LA();
    CST_TRY(standardise(context, view, net));
    CST_TRY(split(context, view, options.seed, order, &rows));
    start(net, options.seed);
    CST_TRY(cst_mlp_train(context, net, view, &rows, &options, &epoch, &loss));
    (void)cst_snprintf(out->detail, sizeof out->detail,
                       "%zu parameters, best epoch %d, held-out NLL %.4f", size, epoch, loss);
    for (int32_t k = 0; k < view->members; k++)
        out->uses[k] = true;
    return CST_OK;
}
