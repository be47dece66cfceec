/* Resamples, figures of them and percentile intervals. See the header. */
#include "stats/resample.h"

#include <corestack/metrics.h>

#include <Random123/philox.h>
#include <math.h>

enum { METHODS_MAX = 1000000 };

/* Partially sorts [first, end) so that values[rank] is the one of that rank. */
static void select_rank(double *values, int32_t first, int32_t end, int32_t rank) {
    while (end - first > 1) {
        double a = values[first];
        double b = values[first + (end - first) / 2];
        double c = values[end - 1];
        double pivot = fmax(fmin(a, b), fmin(fmax(a, b), c)); /* the median */
        int32_t less = first;
        int32_t more = end;
        for (int32_t i = first; i < more;) { /* three ways: less, equal, more */
            double value = values[i];
            if (value < pivot) {
                values[i++] = values[less];
                values[less++] = value;
            } else if (value > pivot) {
                values[i] = values[--more];
                values[more] = value;
            } else {
                i++;
            }
        }
        if (rank < less)
            end = less;
        else if (rank >= more)
            first = more;
        else
            return;
    }
}

double cst_percentile(double *values, int32_t count, double level) {
    double at = level * (double)(count - 1);
    int32_t below = (int32_t)at;
    select_rank(values, 0, count, below);
    if (below >= count - 1)
        return values[count - 1];
    select_rank(values, below + 1, count, below + 1);
    return values[below] + (at - below) * (values[below + 1] - values[below]);
}

cst_interval cst_interval_of(double *draws, int32_t count, double value) {
    double low = cst_percentile(draws, count, 0.025);
    return (cst_interval){value, low, cst_percentile(draws, count, 0.975)};
}

cst_status cst_resample_make(cst_context *context, cst_scope *scope, int64_t rows,
                             cst_resample *out) {
    int64_t padded = (rows + CST_LANES - 1) / CST_LANES * CST_LANES;
    *out = (cst_resample){.rows = rows, .padded = padded};
    CST_TAKE(context, scope, out->lane, padded * CST_LANES);
    CST_TAKE(context, scope, out->count, padded * CST_LANES);
    return CST_OK;
}

/* Blocks of four words that are drawn side by side. */
enum { BLOCKS = 32 };

/* Rows for the words of BLOCKS blocks: row [4][BLOCKS]. True: a word must be refused as biased. */
CST_VECTOR_CLONES
static uint32_t draw_rows(uint64_t seed, uint32_t resample, uint64_t block, uint32_t range,
                          uint32_t refuse, uint32_t *row) {
    uint32_t x[4][BLOCKS];
    uint32_t key0 = (uint32_t)seed;
    uint32_t key1 = (uint32_t)(seed >> 32);
    for (uint32_t b = 0; b < BLOCKS; b++) {
        x[0][b] = (uint32_t)(block + b);
        x[1][b] = (uint32_t)((block + b) >> 32);
        x[2][b] = (uint32_t)CST_STREAM_BOOTSTRAP;
        x[3][b] = resample;
    }
    for (int round = 0; round < 10; round++) { /* philox4x32-10 */
        for (int b = 0; b < BLOCKS; b++) {
            uint64_t first = (uint64_t)PHILOX_M4x32_0 * x[0][b];
            uint64_t second = (uint64_t)PHILOX_M4x32_1 * x[2][b];
            x[0][b] = (uint32_t)(second >> 32) ^ x[1][b] ^ key0;
            x[1][b] = (uint32_t)second;
            x[2][b] = (uint32_t)(first >> 32) ^ x[3][b] ^ key1;
            x[3][b] = (uint32_t)first;
        }
        key0 += PHILOX_W32_0;
        key1 += PHILOX_W32_1;
    }
    uint32_t refused = 0;
    for (int w = 0; w < 4; w++) { /* Lemire's multiply and shift */
        for (int b = 0; b < BLOCKS; b++) {
            uint64_t product = (uint64_t)x[w][b] * range;
            row[w * BLOCKS + b] = (uint32_t)(product >> 32);
            refused |= (uint32_t)product < refuse;
        }
    }
    return refused;
}

/* Row for draw `j` whose word was refused, from an otherwise unread part of the stream. */
static int64_t draw_again(uint64_t seed, uint32_t resample, int64_t j, int64_t rows) {
    cst_rng rng;
    cst_rng_init(&rng, seed, CST_STREAM_BOOTSTRAP, resample);
    rng.counter[0] = (uint32_t)j;
    rng.counter[1] = 0x80000000U | (uint32_t)(j >> 32);
    return cst_rng_below(&rng, rows);
}

/* `draws` single draws from number `first` on: the rest of a resample, or after a refusal. */
static void draw_few(uint64_t seed, uint32_t resample, int64_t first, int64_t draws, uint32_t range,
                     uint32_t refuse, unsigned char *count) {
    cst_rng rng;
    cst_rng_init(&rng, seed, CST_STREAM_BOOTSTRAP, resample);
    rng.counter[0] = (uint32_t)(first / 4);
    rng.counter[1] = (uint32_t)((uint64_t)first >> 34);
    for (int64_t j = first; j < first + draws; j++) {
        uint64_t product = (uint64_t)cst_rng_u32(&rng) * range;
        size_t row = (size_t)(product >> 32);
        if ((uint32_t)product < refuse)
            row = (size_t)draw_again(seed, resample, j, range);
        count[row]++;
    }
}

static void draw_lane(uint64_t seed, uint32_t resample, uint32_t range, bool every_word,
                      unsigned char *count) {
    enum { CHUNK = 4 * BLOCKS };
    uint32_t refuse = every_word ? 0 : (uint32_t)((UINT64_C(1) << 32) % range);
    uint32_t row[CHUNK];
    int64_t j = 0;
    for (; j + CHUNK <= range; j += CHUNK) {
        if (draw_rows(seed, resample, (uint64_t)j / 4, range, refuse, row))
            draw_few(seed, resample, j, CHUNK, range, refuse, count);
        else
            for (int i = 0; i < CHUNK; i++)
                count[row[i]]++;
    }
    draw_few(seed, resample, j, range - j, range, refuse, count);
}

/* Squares of 16 lanes and 16 rows, turned by four rounds of interleaving. */
static void turn(cst_resample *resample) {
    typedef unsigned char bytes __attribute__((vector_size(CST_LANES)));
    bytes from[CST_LANES];
    bytes to[CST_LANES];
    for (int64_t row = 0; row < resample->padded; row += CST_LANES) {
        for (int l = 0; l < CST_LANES; l++)
            memcpy(&from[l], resample->lane + l * resample->padded + row, sizeof from[l]);
        for (int round = 0; round < 4; round++) {
            for (int l = 0; l < CST_LANES / 2; l++) {
                bytes a = from[l];
                bytes b = from[l + CST_LANES / 2];
                to[2 * l] = __builtin_shufflevector(a, b, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21,
                                                    6, 22, 7, 23);
                to[2 * l + 1] = __builtin_shufflevector(a, b, 8, 24, 9, 25, 10, 26, 11, 27, 12, 28,
                                                        13, 29, 14, 30, 15, 31);
            }
            memcpy(from, to, sizeof from);
        }
        memcpy(resample->count + row * CST_LANES, from, sizeof from);
    }
}

void cst_resample_draw(cst_resample *resample, uint64_t seed, uint32_t first) {
    memset(resample->lane, 0, (size_t)resample->padded * CST_LANES);
    for (uint32_t l = 0; l < CST_LANES; l++)
        draw_lane(seed, first + l, (uint32_t)resample->rows, resample->every_word,
                  resample->lane + l * resample->padded);
    turn(resample);
}

static bool is_skipped(const cst_bootstrap *b, int64_t column) {
    int64_t score = column % b->scores;
    return score < 32 && (b->skipped >> score & 1);
}

/* Batches of lanes that one task runs, so that scratch is not made anew for each. */
enum { BATCHES = 4 };

typedef struct draw_job {
    const cst_bootstrap *bootstrap;
    double *drawn;
} draw_job;

/* One for each kind of samples. */
static cst_status make_resamples(cst_context *context, cst_scope *scope, const cst_bootstrap *b,
                                 cst_resample out[2]) {
    for (int kind = 0; kind < 2; kind++) {
        CST_TRY(cst_resample_make(context, scope, b->samples[kind], &out[kind]));
        out[kind].every_word = b->every_word;
    }
    return CST_OK;
}

static cst_status draw_task(cst_context *context, void *user, int64_t task) {
    const draw_job *job = user;
    const cst_bootstrap *b = job->bootstrap;
    CST_SCOPE(scope);
    cst_resample drawn[2];
    CST_TRY(make_resamples(context, scope, b, drawn));
    CST_NEW(context, scope, char, scratch, b->scratch);
    int64_t first = task * BATCHES * CST_LANES;
    for (int batch = 0; batch < BATCHES && first < b->resamples; batch++, first += CST_LANES) {
        int64_t left = b->resamples - first;
        for (int kind = 0; kind < 2; kind++)
            if (b->samples[kind] > 0)
                cst_resample_draw(&drawn[kind], b->seed[kind], (uint32_t)first);
        b->figures(b, drawn, scratch, left < CST_LANES ? left : CST_LANES, b->resamples,
                   job->drawn + first);
    }
    return CST_OK;
}

/* Every row once: the samples themselves. */
static cst_status score_once(cst_context *context, const cst_bootstrap *b, double *value) {
    CST_SCOPE(scope);
    cst_resample drawn[2];
    CST_TRY(make_resamples(context, scope, b, drawn));
    CST_NEW(context, scope, char, scratch, b->scratch);
    for (int kind = 0; kind < 2; kind++) {
        memset(drawn[kind].lane, 1, (size_t)drawn[kind].padded * CST_LANES);
        memset(drawn[kind].count, 1, (size_t)drawn[kind].padded * CST_LANES);
    }
    b->figures(b, drawn, scratch, 1, 1, value);
    return CST_OK;
}

cst_status cst_bootstrap_draw(cst_context *context, const cst_bootstrap *b, double *value,
                              double *drawn) {
    enum { BATCH = BATCHES * CST_LANES };
    draw_job job = {b, drawn};
    int32_t columns = b->methods * b->scores;
    int32_t count = 0;
    CST_SCOPE(scope);
    CST_TRY(score_once(context, b, value));
    if (b->resamples < 1 || columns < 1)
        return CST_OK;
    CST_NEW(context, scope, cst_share, filled, columns);
    for (int64_t c = 0; c < columns; c++)
        if (!is_skipped(b, c))
            filled[count++] = (cst_share){drawn + c * b->resamples, BATCH * sizeof *drawn,
                                          (size_t)b->resamples * sizeof *drawn, NULL};
    return cst_parallel_fill(context, (b->resamples + BATCH - 1) / BATCH, draw_task, &job, filled,
                             count);
}

/* Interval of the defined draws, less those of `base`. p, or NULL: of no difference from 0. */
static cst_interval summarise(const double *draws, const double *base, int32_t resamples,
                              double value, double *part, double *p) {
    int32_t count = 0;
    int32_t low = 0;
    int32_t high = 0;
    for (int32_t r = 0; r < resamples; r++) {
        double drawn = draws[r] - (base ? base[r] : 0);
        if (isnan(drawn))
            continue;
        part[count++] = drawn;
        low += drawn <= 0;
        high += drawn >= 0;
    }
    if (count == 0)
        return (cst_interval){value, NAN, NAN};
    if (p)
        *p = fmin(1, fmax(2.0 * (low < high ? low : high) / count, 2.0 / count));
    return cst_interval_of(part, count, value);
}

typedef struct summary {
    const cst_bootstrap *bootstrap;
    const double *value, *drawn;
    int32_t reference;
    cst_interval *interval, *difference;
    double *p;
} summary;

static cst_status summary_task(cst_context *context, void *user, int64_t task) {
    const summary *s = user;
    const cst_bootstrap *b = s->bootstrap;
    int64_t other = (int64_t)s->reference * b->scores + task % b->scores;
    int32_t n = b->resamples;
    const double *own = s->drawn + task * n;
    double p = NAN;
    CST_SCOPE(scope);
    CST_NEW(context, scope, double, part, n);
    bool there = !isnan(s->value[task]) || !is_skipped(b, task);
    int32_t count = there ? n : 0;
    if (s->interval)
        s->interval[task] = summarise(own, NULL, count, s->value[task], part, NULL);
    if (s->difference)
        s->difference[task] =
            summarise(own, s->drawn + other * n, count, s->value[task] - s->value[other], part, &p);
    if (s->p)
        s->p[task] = task == other ? NAN : p;
    return CST_OK;
}

static cst_status check(cst_context *context, const cst_bootstrap *b, int32_t reference) {
    int32_t least = b->samples[1] > 0 ? 0 : 1; /* values alone of what is out of distribution */
    if (b->resamples < least || b->resamples > CST_RESAMPLES_MAX || b->methods < 1 ||
        b->methods > METHODS_MAX)
        return cst_fail(context, CST_ERROR_ARGUMENT,
                        "%d resamples of %d methods: use 1 to %d resamples of 1 to %d methods",
                        b->resamples, b->methods, CST_RESAMPLES_MAX, METHODS_MAX);
    if (reference < 0 || reference >= b->methods)
        return cst_fail(context, CST_ERROR_ARGUMENT,
                        "the reference is method %d of %d: use 0 to %d", reference, b->methods,
                        b->methods - 1);
    for (int kind = 0; kind < 2; kind++)
        if (b->samples[kind] > UINT32_MAX)
            return cst_fail(context, CST_ERROR_LIMIT, "%lld rows are too many to resample",
                            (long long)b->samples[kind]);
    return CST_OK;
}

cst_status cst_bootstrap_intervals(cst_context *context, const cst_bootstrap *b, int32_t reference,
                                   cst_interval *interval, cst_interval *difference, double *p) {
    CST_SCOPE(scope);
    reference = difference ? reference : 0;
    CST_TRY(check(context, b, reference));
    if (b->resamples > 0)
        CST_TRY(cst_stage(context, "intervals"));
    size_t columns = (size_t)b->methods * (size_t)b->scores;
    CST_NEW(context, scope, double, value, columns);
    CST_NEW(context, scope, double, drawn, (columns * (size_t)b->resamples));
    for (size_t c = 0; c < columns; c++)
        if (is_skipped(b, (int64_t)c))
            value[c] = NAN;
    CST_TRY(cst_bootstrap_draw(context, b, value, drawn));
    if (b->more)
        CST_TRY(b->more(context, b, value, drawn));
    summary s = {b, value, drawn, reference, interval, difference, p};
    return cst_parallel_for(context, (int64_t)columns, summary_task, &s);
}
