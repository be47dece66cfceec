/* Pairs of many members that may be similar, by hashing, and their CKA.
 * docs/method.md#hundreds-of-members. */

#include "core/la.h"
#include "method/redundancy/hsic.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Rows whose kernels are sketched at most, numbers of a sketch (a power of two), members at a time.
 */
enum { SKETCH_ROWS = 512, SKETCH_WIDTH = 2048, PROJECTED_MEMBERS = 64 };
enum { SUBSTREAM_FOLDS = 1 << 30, SUBSTREAM_SIGNS };

/* Side of a block of pairs; pairs drawn to judge recall: pursued ones, nearly, all others. */
enum { BLOCK_SIDE = 32, STRATA = 3, DRAWN_MAX = 24 };
static const int32_t DRAWN[STRATA] = {24, 24, 16};

typedef enum pair_state { PAIR_OPEN = 0, PAIR_PROPOSED = 1, PAIR_COMPUTED = 2 } pair_state;

typedef struct stratum {
    int64_t size;
    int64_t pairs[DRAWN_MAX]; /* a K + b */
    int32_t drawn;
} stratum;

typedef struct lsh_job {
    cst_scope *scope;
    const cst_kernels *kernels;
    const cst_cka_options *options;
    cst_lsh_products products; /* NULL: pairs of packed rows */
    void *user;
    cst_lsh_tables tables;
    size_t members;  /* K */
    double *cosines; /* [K*K], above the diagonal */
    float *sketches; /* [K][SKETCH_WIDTH] */
    int64_t *sample; /* [n], rows that are sketched */
    int64_t rows;    /* n */
    uint16_t *folds; /* [n (n + 1) / 2], place of a pair of rows in the sketch; top bit: sign */
    float *signs;    /* [SKETCH_WIDTH][L b], 1 or -1 */
    uint32_t *keys;  /* [L][K] */
    uint8_t *state;  /* [K*K], symmetric pair_state */
    int32_t *order;  /* [K + drawn pairs], members as the blocks number them; may come twice */
    int32_t count;   /* of order */
    int32_t placed;  /* of order, without those of drawn pairs */
    cst_pair_blocks blocks; /* by position in order */
    stratum strata[STRATA];
} lsh_job;

/* ---- sketches: centred kernels on some rows, folded with random signs ---- */

/* H K H, or for the unbiased statistic the U-centred kernel: what is left on the diagonal is 0. */
static void centre(double *kernel, int64_t n, cst_cka_statistic statistic, double *sums) {
    bool biased = statistic == CST_CKA_BIASED;
    double count = (double)n;
    double total = 0;
    for (int64_t i = 0; i < n; i++) {
        double *row = kernel + i * n;
        row[i] = biased ? row[i] : 0;
        sums[i] = 0;
        for (int64_t j = 0; j < n; j++)
            sums[i] += row[j];
        total += sums[i];
    }
    double margin = biased ? count : count - 2;
    double whole = total / (biased ? count * count : (count - 1) * (count - 2));
    for (int64_t i = 0; i < n; i++) {
        double *row = kernel + i * n;
        for (int64_t j = 0; j < n; j++)
            row[j] += whole - (sums[i] + sums[j]) / margin;
        row[i] = biased ? row[i] : 0;
    }
}

/* In all rows a smaller share of pairs, n / N, is on the diagonal than in the sample. */
static void fold(const lsh_job *job, const double *kernel, double *places, float *sketch) {
    int64_t n = job->rows;
    double diagonal = sqrt(0.5 * (double)n / (double)job->kernels->view->rows);
    const uint16_t *at = job->folds;
    memset(places, 0, SKETCH_WIDTH * sizeof *places);
    for (int64_t i = 0; i < n; i++) {
        const double *row = kernel + i * n;
        for (int64_t j = i; j < n; j++, at++) {
            double value = j == i ? diagonal * row[j] : row[j];
            places[*at & (SKETCH_WIDTH - 1)] += *at >> 15 ? value : -value;
        }
    }
    double squares = 0;
    for (int64_t d = 0; d < SKETCH_WIDTH; d++)
        squares += places[d] * places[d];
    double scale = squares > 0 ? 1 / sqrt(squares) : 0;
    for (int64_t d = 0; d < SKETCH_WIDTH; d++)
        sketch[d] = (float)(scale * places[d]);
}

static cst_status sketch_member(cst_context *worker, void *user, int64_t task) {
    const lsh_job *job = user;
    const cst_kernels *kernels = job->kernels;
    if (kernels->constant[task])
        return CST_OK;
    size_t n = (size_t)job->rows;
    size_t classes = (size_t)kernels->view->classes;
    CST_SCOPE(scope);
    CST_NEW(worker, scope, float, scratch, (n * classes));
    CST_NEW(worker, scope, double, rows, (n * classes));
    CST_NEW(worker, scope, double, norms, n);
    CST_NEW(worker, scope, double, kernel, (n * n));
    CST_NEW(worker, scope, double, places, SKETCH_WIDTH);
    CST_TRY(cst_kernel_rows(worker, kernels, (int32_t)task, job->sample, 0, job->rows, scratch,
                            rows, norms));
    const cst_kernel_points all = {rows, norms, job->rows};
    CST_TRY(cst_kernel_tile(worker, kernels, (int32_t)task, all, all, kernel));
    centre(kernel, job->rows, job->options->statistic, norms);
    fold(job, kernel, places, job->sketches + task * SKETCH_WIDTH);
    return CST_OK;
}

/* Sketches of length 1 of all members; 0 for constant ones. */
static cst_status make_sketches(cst_context *context, lsh_job *job) {
    int64_t all = job->kernels->view->rows;
    uint64_t seed = job->options->seed;
    job->rows = all < SKETCH_ROWS ? all : SKETCH_ROWS;
    size_t pairs = (size_t)job->rows * (size_t)(job->rows + 1) / 2;
    CST_SCOPE(scope);
    CST_TAKE(context, scope, job->sample, job->rows);
    CST_TAKE(context, scope, job->folds, pairs);
    CST_TRY(cst_sample_rows(context, all, job->rows, seed, CST_STREAM_PROBES, SUBSTREAM_FOLDS,
                            job->sample));
    cst_rng rng;
    cst_rng_init(&rng, seed, CST_STREAM_PROBES, SUBSTREAM_FOLDS + 1);
    for (size_t i = 0; i < pairs; i++)
        job->folds[i] = (uint16_t)(cst_rng_u32(&rng) >> 16);
    return cst_parallel_for(context, (int64_t)job->members, sketch_member, job);
}

/* ---- products of sketches ---- */

static int32_t batch_size(const lsh_job *job, int64_t task) {
    int64_t left = (int64_t)job->members - task * PROJECTED_MEMBERS;
    return (int32_t)(left < PROJECTED_MEMBERS ? left : PROJECTED_MEMBERS);
}

static cst_status in_batches(cst_context *context, lsh_job *job, cst_task_fn batch) {
    int64_t members = (int64_t)job->members;
    return cst_parallel_for(context, (members + PROJECTED_MEMBERS - 1) / PROJECTED_MEMBERS, batch,
                            job);
}

static cst_status hash_batch(cst_context *worker, void *user, int64_t task) {
    const lsh_job *job = user;
    int64_t bits = job->tables.bits;
    int64_t width = bits * job->tables.tables;
    int32_t count = batch_size(job, task);
    int64_t first = task * PROJECTED_MEMBERS;
    CST_SCOPE(scope);
    CST_NEW(worker, scope, float, sides, ((size_t)count * (size_t)width));
    CST_TRY(cst_gemm_f32(worker, false, false, count, width, SKETCH_WIDTH, 1,
                         job->sketches + first * SKETCH_WIDTH, SKETCH_WIDTH, job->signs, width, 0,
                         sides, width));
    for (int32_t m = 0; m < count; m++)
        for (int32_t t = 0; t < job->tables.tables; t++) {
            const float *side = sides + m * width + t * bits;
            uint32_t key = 0;
            for (int64_t b = 0; b < bits; b++)
                key |= (uint32_t)(side[b] > 0) << b;
            job->keys[t * (int64_t)job->members + first + m] = key;
        }
    return CST_OK;
}

/* Sides of `bits` (at most 32) random hyperplanes per table. */
static cst_status hash_sketches(cst_context *context, lsh_job *job) {
    size_t width = (size_t)job->tables.bits * (size_t)job->tables.tables;
    CST_SCOPE(scope);
    CST_TAKE(context, scope, job->signs, width * SKETCH_WIDTH);
    cst_rng rng;
    cst_rng_init(&rng, job->options->seed, CST_STREAM_PROBES, SUBSTREAM_SIGNS + 1);
    for (size_t i = 0; i < width * SKETCH_WIDTH; i += 32) {
        uint32_t word = cst_rng_u32(&rng);
        for (size_t b = 0; b < 32; b++)
            job->signs[i + b] = word >> b & 1 ? 1.0F : -1.0F;
    }
    return in_batches(context, job, hash_batch);
}

/* Rows of the upper triangle, from the batch's first member on. */
static cst_status cosine_batch(cst_context *worker, void *user, int64_t task) {
    const lsh_job *job = user;
    int32_t count = batch_size(job, task);
    int64_t first = task * PROJECTED_MEMBERS;
    int64_t width = (int64_t)job->members - first;
    const float *from = job->sketches + first * SKETCH_WIDTH;
    CST_SCOPE(scope);
    CST_NEW(worker, scope, float, out, ((size_t)count * (size_t)width));
    CST_TRY(cst_gemm_f32(worker, false, true, count, width, SKETCH_WIDTH, 1, from, SKETCH_WIDTH,
                         from, SKETCH_WIDTH, 0, out, width));
    for (int64_t a = 0; a < count; a++)
        for (int64_t b = a + 1; b < width; b++)
            job->cosines[(first + a) * (int64_t)job->members + first + b] =
                (double)out[a * width + b];
    return CST_OK;
}

/* ---- pairs ---- */

/* Collision probability at the threshold; growth of 1 - CKA in a sketch; far off. */
#define COLLISION 0.995
#define SEEMING 1.2
#define PURSUED 1.5
#define CLEAR 2.5
#define ROUNDING 1e-4

/* Of a member's sketch, and of what else hashing adds. */
#define SECONDS_SKETCH 6e-3

cst_lsh_tables cst_lsh_choose(double threshold) {
    double distance = 1 - threshold;
    cst_lsh_tables chosen = {.level = 1 - PURSUED * distance - ROUNDING};
    double cosine = fmax(1 - SEEMING * distance - ROUNDING, 0);
    double same = 1 - acos(cosine) / acos(-1.0);
    for (int32_t bits = 1; bits <= 32; bits++) {
        double tables = ceil(log(1 - COLLISION) / log1p(-pow(same, bits)));
        if (tables * bits > CST_LSH_BITS)
            break;
        chosen.bits = bits;
        chosen.tables = (int32_t)tables;
    }
    return chosen;
}

bool cst_lsh_wanted(const cst_view *view, const cst_cka_options *o) {
    if (o->lsh == CST_LSH_OFF || !(o->threshold > 0) || o->estimator == CST_CKA_PROBES ||
        o->precision == CST_CKA_DOUBLE)
        return false;
    double members = view->members;
    double rows = (double)view->rows;
    double saved = CST_SECONDS_MEMBER_ADD * members * members * rows * rows / 2;
    return o->lsh == CST_LSH_ON ||
           (view->members >= CST_LSH_MEMBERS && saved > SECONDS_SKETCH * members);
}

/* ---- proposals ---- */

typedef struct entry {
    uint32_t key;
    int32_t member;
} entry;

CST_BY(compare_entries, entry, CST_UP(key), CST_UP(member), 0)

/* Pairs of members in one bucket, entries [count] in ascending order of members. */
static void propose_bucket(lsh_job *job, const entry *entries, size_t count) {
    size_t k = job->members;
    for (size_t i = 0; i < count; i++)
        for (size_t j = i + 1; j < count; j++) {
            size_t a = (size_t)entries[i].member;
            size_t b = (size_t)entries[j].member;
            if (job->cosines[a * k + b] >= job->tables.level)
                job->state[a * k + b] = job->state[b * k + a] = PAIR_PROPOSED;
        }
}

static cst_status propose(cst_context *context, lsh_job *job) {
    size_t k = job->members;
    size_t tables = (size_t)job->tables.tables;
    CST_SCOPE(scope);
    CST_NEW(context, scope, entry, entries, k);
    CST_TAKE(context, scope, job->keys, tables * k);
    CST_TRY(hash_sketches(context, job));
    for (size_t t = 0; t < tables; t++) {
        size_t count = 0;
        for (size_t m = 0; m < k; m++)
            if (!job->kernels->constant[m])
                entries[count++] = (entry){job->keys[t * k + m], (int32_t)m};
        qsort(entries, count, sizeof *entries, compare_entries);
        for (size_t first = 0, end = 0; first < count; first = end) {
            while (end < count && entries[end].key == entries[first].key)
                end++;
            propose_bucket(job, entries + first, end - first);
        }
    }
    return CST_OK;
}

/* ---- blocks ---- */

/* Appends a component of proposed pairs to `order`, nearer ones first; not of one member. */
static void append_component(lsh_job *job, int32_t member, bool *seen) {
    int32_t first = job->count;
    job->order[job->count++] = member;
    seen[member] = true;
    for (int32_t at = first; at < job->count; at++) {
        const uint8_t *row = job->state + (size_t)job->order[at] * job->members;
        for (size_t m = 0; m < job->members; m++)
            if (row[m] == PAIR_PROPOSED && !seen[m]) {
                seen[m] = true;
                job->order[job->count++] = (int32_t)m;
            }
    }
    if (job->count == first + 1)
        job->count = first;
}

static bool any_proposed(const lsh_job *job, int32_t a, int32_t count_a, int32_t b,
                         int32_t count_b) {
    for (int32_t i = a; i < a + count_a; i++)
        for (int32_t j = b; j < b + count_b; j++)
            if (job->state[(size_t)job->order[i] * job->members + (size_t)job->order[j]])
                return true;
    return false;
}

static cst_status add_block(cst_context *context, lsh_job *job, cst_pair_block block) {
    cst_pair_blocks *blocks = &job->blocks;
    if ((blocks->blocks & (blocks->blocks - 1)) == 0) { /* doubled at powers of two */
        size_t room = (size_t)blocks->blocks;
        CST_NEW(context, job->scope, cst_pair_block, grown, (room > 0 ? 2 * room : 1));
        if (room > 0)
            memcpy(grown, blocks->block, room * sizeof *grown);
        blocks->block = grown;
    }
    block.at = blocks->products;
    blocks->products += (size_t)block.count_a * (size_t)block.count_b;
    blocks->block[blocks->blocks++] = block;
    return CST_OK;
}

/* The group of positions first..end-1: blocks of BLOCK_SIDE members that hold proposed pairs. */
static cst_status add_group(cst_context *context, lsh_job *job, int32_t first, int32_t end) {
    cst_pair_blocks *blocks = &job->blocks;
    cst_pair_group *group = &blocks->group[blocks->groups];
    *group = (cst_pair_group){first, end - first, blocks->blocks, 0};
    for (int32_t a = first; a < end; a += BLOCK_SIDE)
        for (int32_t b = a; b < end; b += BLOCK_SIDE) {
            cst_pair_block block = {.first_a = a, .first_b = b};
            block.count_a = end - a < BLOCK_SIDE ? end - a : BLOCK_SIDE;
            block.count_b = end - b < BLOCK_SIDE ? end - b : BLOCK_SIDE;
            if (a == b || any_proposed(job, a, block.count_a, b, block.count_b))
                CST_TRY(add_block(context, job, block));
        }
    group->blocks = blocks->blocks - group->first_block;
    blocks->groups++;
    return CST_OK;
}

/* Members by components of the graph of proposed pairs; small components share a block. */
static cst_status arrange(cst_context *context, lsh_job *job) {
    int32_t members = (int32_t)job->members;
    CST_SCOPE(scope);
    CST_NEW(context, scope, bool, seen, job->members);
    int32_t first = 0; /* of the group that is being filled */
    for (int32_t m = 0; m < members; m++) {
        if (seen[m])
            continue;
        int32_t before = job->count;
        append_component(job, m, seen);
        if (job->count - first > BLOCK_SIDE && before > first) {
            CST_TRY(add_group(context, job, first, before));
            first = before;
        }
        if (job->count - first > BLOCK_SIDE) {
            CST_TRY(add_group(context, job, first, job->count));
            first = job->count;
        }
    }
    if (job->count > first)
        CST_TRY(add_group(context, job, first, job->count));
    job->placed = job->count;
    return CST_OK;
}

/* Tells `visit` of every pair of positions in the blocks, with the place of its product. */
typedef void (*pair_fn)(lsh_job *job, int32_t i, int32_t j, size_t at, void *user);
static void each_pair(lsh_job *job, pair_fn visit, void *user) {
    for (int32_t n = 0; n < job->blocks.blocks; n++) {
        const cst_pair_block *block = &job->blocks.block[n];
        for (int32_t a = 0; a < block->count_a; a++)
            for (int32_t b = 0; b < block->count_b; b++)
                if (block->first_a + a < block->first_b + b)
                    visit(job, block->first_a + a, block->first_b + b,
                          block->at + (size_t)(a * block->count_b + b), user);
    }
}

static void mark(lsh_job *job, int32_t i, int32_t j, size_t at, void *user) {
    (void)at;
    (void)user;
    size_t a = (size_t)job->order[i];
    size_t b = (size_t)job->order[j];
    uint8_t *state = &job->state[a * job->members + b];
    *state = *state == PAIR_PROPOSED ? PAIR_PROPOSED : PAIR_COMPUTED;
    job->state[b * job->members + a] = *state;
}

/* ---- what hashing missed ---- */

/* Draws pairs in no block by stratum (reservoir sampling), each a group of its own. */
static cst_status draw_pairs(cst_context *context, lsh_job *job) {
    size_t k = job->members;
    if (k < 2)
        return CST_OK;
    double clear = 1 - CLEAR * (1 - job->options->threshold) - ROUNDING;
    cst_rng rng;
    cst_rng_init(&rng, job->options->seed, CST_STREAM_PROBES, UINT32_MAX);
    for (size_t a = 0; a < k; a++)
        for (size_t b = a + 1; b < k; b++) {
            bool constant = job->kernels->constant[a] || job->kernels->constant[b];
            if (constant || job->state[a * k + b] != PAIR_OPEN)
                continue;
            double cosine = job->cosines[a * k + b];
            int which = cosine >= job->tables.level ? 0 : cosine >= clear ? 1 : 2;
            stratum *s = &job->strata[which];
            int64_t at = s->size++;
            if (at >= DRAWN[which])
                at = cst_rng_below(&rng, s->size);
            if (at < DRAWN[which])
                s->pairs[at] = (int64_t)(a * k + b);
        }
    for (int s = 0; s < STRATA; s++) {
        stratum *from = &job->strata[s];
        from->drawn = from->size < DRAWN[s] ? (int32_t)from->size : DRAWN[s];
        for (int32_t i = 0; i < from->drawn; i++) {
            job->order[job->count++] = (int32_t)(from->pairs[i] / (int64_t)k);
            job->order[job->count++] = (int32_t)(from->pairs[i] % (int64_t)k);
            CST_TRY(add_group(context, job, job->count - 2, job->count));
        }
    }
    return CST_OK;
}

/* Pairs above the threshold among those not computed, by the share in each stratum's draw. */
static double missed_pairs(const lsh_job *job, const double *cka) {
    double missed = 0;
    for (int s = 0; s < STRATA; s++) {
        const stratum *from = &job->strata[s];
        int32_t above = 0;
        for (int32_t i = 0; i < from->drawn; i++)
            above += cka[from->pairs[i]] > job->options->threshold;
        if (from->drawn > 0)
            missed += (double)from->size * above / from->drawn;
    }
    return missed;
}

/* ---- the CKA of the pairs in blocks ---- */

/* The kernels of `number` members, on a view of them. */
static cst_status restrict_kernels(cst_context *context, cst_scope *scope, const lsh_job *job,
                                   const int32_t *members, int32_t number, cst_kernels *out) {
    size_t classes = (size_t)job->kernels->view->classes;
    CST_NEW(context, scope, const float *, pointers, number);
    CST_NEW(context, scope, cst_view, view, 1);
    CST_TAKE(context, scope, out->sigma, number);
    CST_TAKE(context, scope, out->constant, number);
    CST_TAKE(context, scope, out->origin, ((size_t)number * classes));
    *view = cst_view_members(job->kernels->view, members, number, pointers);
    out->view = view;
    for (int32_t i = 0; i < number; i++) {
        out->sigma[i] = job->kernels->sigma[members[i]];
        memcpy(out->origin + (size_t)i * classes,
               job->kernels->origin + (size_t)members[i] * classes, classes * sizeof *out->origin);
    }
    return CST_OK;
}

/* Rows whose pairs are taken: all, those asked for, or those that take CST_SECONDS_MAX. */
static int64_t choose_rows(const lsh_job *job, const cst_packed *packed) {
    const cst_cka_options *options = job->options;
    int64_t all = job->kernels->view->rows;
    if (options->estimator == CST_CKA_EXACT)
        return all;
    double bytes = 24.0 * job->count;
    double pair = CST_SECONDS_MEMBER_ADD * (double)job->blocks.products;
    for (int32_t k = 0; k < job->count; k++) {
        bytes += packed->member[k].bytes;
        pair += packed->member[k].seconds;
    }
    double rows = fmin(sqrt(2 * CST_SECONDS_MAX / pair), CST_PACKED_BYTES / bytes);
    rows = fmax(rows, CST_SAMPLE_MIN);
    if (options->estimator == CST_CKA_SAMPLE && options->rows > 0)
        rows = options->rows;
    if (options->statistic == CST_CKA_UNBIASED)
        rows = fmax(rows, 4);
    return (int64_t)fmin(rows, (double)all);
}

static cst_status compute_packed(cst_context *context, lsh_job *job, double *hsic,
                                 cst_cka_result *out) {
    cst_kernels kernels = {0};
    int64_t all = job->kernels->view->rows;
    int64_t *sample = NULL;
    CST_SCOPE(scope);
    CST_TRY(restrict_kernels(context, scope, job, job->order, job->count, &kernels));
    CST_NEW(context, scope, cst_packed, packed, 1);
    packed->kernels = &kernels;
    CST_TRY(cst_scope_own(context, scope, cst_packed_free, packed));
    CST_TRY(cst_packed_plan(context, &kernels, packed));
    out->rows = choose_rows(job, packed);
    out->estimator = out->rows < all || job->options->estimator == CST_CKA_SAMPLE ? CST_CKA_SAMPLE
                                                                                  : CST_CKA_EXACT;
    if (out->rows < all) {
        CST_TAKE(context, scope, sample, out->rows);
        CST_TRY(cst_sample_rows(context, all, out->rows, job->options->seed, CST_STREAM_LANDMARKS,
                                3, sample));
    }
    CST_TRY(cst_packed_fill(context, packed, sample, out->rows, false));
    return cst_hsic_packed(context, packed, NULL, &job->blocks, job->options->statistic, hsic);
}

/* The pairs of one group, of which those in its blocks are kept. */
static cst_status compute_group(cst_context *context, const lsh_job *job,
                                const cst_pair_group *group, double *hsic) {
    cst_kernels kernels = {0};
    size_t width = (size_t)group->count;
    const int32_t *members = job->order + group->first;
    CST_SCOPE(scope);
    CST_NEW(context, scope, double, all, (width * width));
    CST_TRY(restrict_kernels(context, scope, job, members, group->count, &kernels));
    CST_TRY(job->products(context, job->user, &kernels, members, all));
    for (int32_t n = 0; n < group->blocks; n++) {
        const cst_pair_block *block = &job->blocks.block[group->first_block + n];
        const double *from =
            all + (size_t)(block->first_a - group->first) * width + (block->first_b - group->first);
        for (int32_t a = 0; a < block->count_a; a++)
            memcpy(hsic + block->at + (size_t)(a * block->count_b), from + (size_t)a * width,
                   (size_t)block->count_b * sizeof *hsic);
    }
    return CST_OK;
}

typedef struct pair_values {
    const double *hsic;
    double *self; /* [order], HSIC of a member with itself */
    double squares;
    int64_t found;
    cst_cka_result *out;
} pair_values;

static void set_pair(lsh_job *job, int32_t i, int32_t j, size_t at, void *user) {
    pair_values *values = user;
    cst_cka_result *out = values->out;
    size_t k = job->members;
    size_t a = (size_t)job->order[i];
    size_t b = (size_t)job->order[j];
    double lowest = job->options->statistic == CST_CKA_UNBIASED ? -1 : 0;
    double scale = values->self[i] > 0 && values->self[j] > 0
                       ? sqrt(values->self[i]) * sqrt(values->self[j])
                       : INFINITY;
    double value = fmin(fmax(values->hsic[at] / scale, lowest), 1);
    double sketched = out->cka[a < b ? a * k + b : b * k + a];
    if (job->state[a * k + b] == PAIR_PROPOSED) {
        values->squares += (sketched - value) * (sketched - value);
        out->proposed++;
    }
    if (i < job->placed) {
        values->found += value > job->options->threshold;
        out->computed++;
    }
    out->estimated[a * k + b] = out->estimated[b * k + a] = false;
    out->cka[a * k + b] = out->cka[b * k + a] = value;
}

/* Cosines above the diagonal to a whole matrix, all of it marked as an estimate. */
static void complete(const lsh_job *job, cst_cka_result *out) {
    size_t k = job->members;
    double lowest = job->options->statistic == CST_CKA_UNBIASED ? -1 : 0;
    for (size_t a = 0; a < k; a++) {
        out->cka[a * k + a] = 1;
        for (size_t b = a + 1; b < k; b++) {
            double value = fmin(fmax(out->cka[a * k + b], lowest), 1);
            bool constant = job->kernels->constant[a] || job->kernels->constant[b];
            out->cka[a * k + b] = out->cka[b * k + a] = constant ? 0 : value;
            out->estimated[a * k + b] = out->estimated[b * k + a] = !constant;
        }
    }
}

static cst_status compute_pairs(cst_context *context, lsh_job *job, cst_cka_result *out) {
    CST_SCOPE(scope);
    CST_NEW(context, scope, double, hsic, job->blocks.products);
    CST_NEW(context, scope, double, self, job->count);
    out->estimator = job->products ? CST_CKA_NYSTROM : CST_CKA_EXACT;
    out->rows = job->kernels->view->rows;
    if (job->count > 0 && !job->products)
        CST_TRY(compute_packed(context, job, hsic, out));
    for (int32_t g = 0; job->count > 0 && job->products && g < job->blocks.groups; g++)
        CST_TRY(compute_group(context, job, &job->blocks.group[g], hsic));
    out->partners = job->products ? 0 : out->rows - 1;
    out->standard_error = out->rows < job->kernels->view->rows ? NAN : 0;
    complete(job, out);
    for (int32_t n = 0; n < job->blocks.blocks; n++) {
        const cst_pair_block *block = &job->blocks.block[n];
        for (int32_t a = 0; block->first_a == block->first_b && a < block->count_a; a++)
            self[block->first_a + a] = hsic[block->at + (size_t)(a * block->count_b + a)];
    }
    pair_values values = {.hsic = hsic, .self = self, .out = out};
    each_pair(job, set_pair, &values);
    double missed = missed_pairs(job, out->cka);
    out->recall =
        values.found > 0 || missed > 0 ? (double)values.found / ((double)values.found + missed) : 1;
    out->sketch_error = out->proposed > 0 ? sqrt(values.squares / (double)out->proposed) : 0;
    for (int s = 0; s < STRATA; s++)
        out->checked += job->strata[s].drawn;
    return CST_OK;
}

cst_status cst_cka_hashed(cst_context *context, const cst_kernels *kernels,
                          const cst_cka_options *options, cst_lsh_products products, void *user,
                          cst_cka_result *out) {
    size_t k = (size_t)kernels->view->members;
    size_t drawn = (size_t)DRAWN[0] + (size_t)DRAWN[1] + (size_t)DRAWN[2];
    lsh_job job = {.kernels = kernels,
                   .options = options,
                   .products = products,
                   .user = user,
                   .members = k,
                   .cosines = out->cka};
    job.tables = cst_lsh_choose(options->threshold);
    out->lsh_bits = job.tables.bits;
    out->lsh_tables = job.tables.tables;
    CST_TAKE(context, &out->scope, out->estimated, k * k);
    CST_SCOPE(scope);
    CST_TAKE(context, scope, job.sketches, k * SKETCH_WIDTH);
    CST_TAKE(context, scope, job.state, k * k);
    CST_TAKE(context, scope, job.order, k + 2 * drawn);
    CST_TAKE(context, scope, job.blocks.group, k + drawn);
    job.scope = scope;
    CST_TRY(make_sketches(context, &job));
    CST_TRY(in_batches(context, &job, cosine_batch));
    CST_TRY(propose(context, &job));
    CST_TRY(arrange(context, &job));
    each_pair(&job, mark, NULL);
    CST_TRY(draw_pairs(context, &job));
    return compute_pairs(context, &job, out);
}
