/*
 * Timings of the library's kernels on one input file, printed as JSON: what bench/run.py sets
 * beside its peers, and with `rates` how fast this machine reads memory and computes. Input: int32
 * K, N, C; float32 predictions[K][N][C]; int32 labels[N]; `rates` reads none. Argument 2: threads.
 */
#include "core/la.h"
#include "core/wide.h"
#include "fit/family.h"
#include "method/blend/blend.h"
#include "method/loglinear/loglinear.h"
#include "method/redundancy/redundancy.h"
#include "model/stack.h"
#include "stats/row_weights.h"

#include <corestack/metrics.h>

#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct input {
    int32_t members, rows, classes;
    float *predictions;
    int32_t *labels;
    const float **data;
    cst_view view;
} input;

static void need(bool ok, const char *what) {
    if (ok)
        return;
    fprintf(stderr, "bench: %s\n", what);
    exit(1);
}

static void read_input(const char *path, input *in) {
    FILE *file = fopen(path, "rb");
    need(file != NULL, "input file");
    int32_t head[3];
    need(fread(head, sizeof *head, 3, file) == 3, "header");
    in->members = head[0];
    in->rows = head[1];
    in->classes = head[2];
    size_t cells = (size_t)in->members * (size_t)in->rows * (size_t)in->classes;
    in->predictions = malloc(cells * sizeof(float));
    in->labels = malloc((size_t)in->rows * sizeof(int32_t));
    in->data = malloc((size_t)in->members * sizeof *in->data);
    need(in->predictions && in->labels && in->data, "memory");
    need(fread(in->predictions, sizeof(float), cells, file) == cells, "predictions");
    need(fread(in->labels, sizeof(int32_t), (size_t)in->rows, file) == (size_t)in->rows, "labels");
    fclose(file);
    for (int32_t k = 0; k < in->members; k++)
        in->data[k] = in->predictions + (size_t)k * (size_t)in->rows * (size_t)in->classes;
    in->view = (cst_view){.rows = in->rows,
                          .classes = in->classes,
                          .members = in->members,
                          .data = in->data,
                          .labels = in->labels};
}

/* Seconds of one all-pairs CKA, and the matrix. */
static double cka(cst_context *context, const input *in, cst_cka_estimator estimator,
                  cst_cka_precision precision, double *out) {
    cst_cka_options options = {.estimator = estimator, .precision = precision};
    cst_cka_result result;
    double start = cst_seconds();
    need(cst_cka(context, &in->view, &options, &result) == CST_OK, "cka");
    double seconds = cst_seconds() - start;
    memcpy(out, result.cka, (size_t)in->members * (size_t)in->members * sizeof *out);
    cst_cka_result_free(context, &result);
    return seconds;
}

static void bench_cka(cst_context *context, const input *in) {
    size_t cells = (size_t)in->members * (size_t)in->members;
    double *exact = calloc(cells, sizeof *exact);
    double *fast = calloc(cells, sizeof *fast);
    need(exact && fast, "memory");
    bool small = in->rows <= 8000; /* double precision would take many minutes beyond */
    double seconds_exact =
        cka(context, in, CST_CKA_EXACT, small ? CST_CKA_DOUBLE : CST_CKA_SINGLE, exact);
    double seconds_fast = cka(context, in, CST_CKA_AUTO, CST_CKA_PRECISION_AUTO, fast);
    double worst = 0;
    for (size_t i = 0; i < cells; i++)
        worst = fmax(worst, fabs(exact[i] - fast[i]));
    printf("\"cka_exact\": %.6f, \"cka_auto\": %.6f, \"cka_error\": %.3g, \"cka\": [",
           seconds_exact, seconds_fast, worst);
    for (size_t i = 0; i < cells; i++)
        printf("%s%.12g", i ? ", " : "", exact[i]);
    printf("]");
    free(exact);
    free(fast);
}

/* What a fit does. */
static void bench_auto(cst_context *context, const input *in) {
    size_t cells = (size_t)in->members * (size_t)in->members;
    double *fast = calloc(cells, sizeof *fast);
    need(fast != NULL, "memory");
    printf("\"cka_auto\": %.6f, \"cka\": [",
           cka(context, in, CST_CKA_AUTO, CST_CKA_PRECISION_AUTO, fast));
    for (size_t i = 0; i < cells; i++)
        printf("%s%.12g", i ? ", " : "", fast[i]);
    printf("]");
    free(fast);
}

static void bench_greedy(cst_context *context, const input *in) {
    cst_greedy greedy;
    double start = cst_seconds();
    need(cst_greedy_select(context, &in->view, CST_GREEDY_LOG_LOSS, CST_GREEDY_ROUNDS, 0,
                           &greedy) == CST_OK,
         "greedy");
    printf("\"greedy\": %.6f, \"weights\": [", cst_seconds() - start);
    for (int32_t k = 0; k < in->members; k++)
        printf("%s%.12g", k ? ", " : "", greedy.weights[k]);
    printf("]");
    cst_scope_free(&greedy.scope);
}

static void bench_bootstrap(cst_context *context, const input *in) {
    enum { SCORES = 8, NLL = 2 };
    cst_interval *intervals = malloc(SCORES * (size_t)in->members * sizeof *intervals);
    need(intervals != NULL, "memory");
    double start = cst_seconds();
    const cst_bootstrap_input bootstrap = {.probabilities = in->data,
                                           .methods = in->members,
                                           .rows = in->rows,
                                           .classes = in->classes,
                                           .labels = in->labels,
                                           .resamples = 5000,
                                           .scores = CST_BOOTSTRAP_BASIC};
    need(cst_bootstrap_weighted(context, &bootstrap, intervals, NULL, NULL) == CST_OK, "bootstrap");
    printf("\"bootstrap\": %.6f, \"nll_low\": %.9g", cst_seconds() - start, intervals[NLL].low);
    free(intervals);
}

static int ascending(const void *a, const void *b) {
    double x = *(const double *)a;
    double y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Percentiles of calls of a predictor for one sample each, in microseconds, over all samples. */
static void latencies(cst_context *context, const cst_model *model, const input *in, float *out) {
    static const double levels[] = {0.5, 0.9, 0.99, 0.999};
    static const char *const names[] = {"p50", "p90", "p99", "p99.9"};
    enum { PASSES = 5 };
    cst_predictor *predictor = NULL;
    size_t calls = PASSES * (size_t)in->rows;
    double *seconds = malloc(calls * sizeof *seconds);
    const float **at = malloc((size_t)in->members * sizeof *at);
    need(seconds && at, "memory");
    need(cst_predictor_create(context, &predictor, model) == CST_OK, "predictor");
    for (size_t call = 0; call < calls; call++) {
        size_t row = call % (size_t)in->rows * (size_t)in->classes;
        for (int32_t k = 0; k < in->members; k++)
            at[k] = in->data[k] + row;
        double start = cst_seconds();
        need(cst_predictor_predict(predictor, at, 1, out) == CST_OK, "predictor");
        seconds[call] = cst_seconds() - start;
    }
    qsort(seconds, calls, sizeof *seconds, ascending);
    for (int l = 0; l < 4; l++)
        printf(", \"%s\": %.3f", names[l], 1e6 * seconds[(size_t)(levels[l] * (double)calls)]);
    cst_predictor_free(context, predictor);
    free(at);
    free(seconds);
}

/* The paper's preset on a few rows gives a stack with gate; predicting is timed on all rows. */
static void bench_predict(cst_context *context, const input *in) {
    cst_options *options = NULL;
    cst_settings settings;
    cst_stages stages;
    need(cst_options_create(context, &options) == CST_OK, "options");
    need(cst_options_preset(context, options, "paper") == CST_OK, "preset");
    cst_settings_read(options, &settings);
    settings.threshold = 1;
    settings.drop = false;
    settings.blend.rule = CST_BLEND_UNIFORM;
    const cst_costs unknown = {0};
    int32_t *folds = malloc((size_t)in->rows * sizeof *folds);
    float *out = malloc((size_t)in->rows * (size_t)in->classes * sizeof *out);
    need(folds && out, "memory");
    for (int32_t i = 0; i < in->rows; i++)
        folds[i] = i % 2;
    cst_view some = in->view;
    some.rows = in->rows < 500 ? in->rows : 500;
    const cst_run run =
        cst_run_of(&cst_classification_family, &some, folds, 2, &settings, &unknown);
    need(cst_stages_run(context, &run, &stages) == CST_OK, "fit");
    double best = INFINITY;
    for (int repeat = 0; repeat < 9; repeat++) {
        double start = cst_seconds();
        need(cst_stack_predict(context, stages.fit.model, &in->view, out) == CST_OK, "predict");
        best = fmin(best, cst_seconds() - start);
    }
    printf("\"predict_us\": %.3f, \"learners\": %d, \"gated\": %d", 1e6 * best / in->rows,
           (int)stages.fit.model->learners, stages.fit.model->gate.mode == CST_GATE_LEARNED);
    latencies(context, stages.fit.model, in, out);
    free(folds);
    free(out);
    cst_stages_free(context, &stages);
    cst_options_free(context, options);
}

/* ---- one log-linear pool ---- */

static void list(const char *name, const double *values, int32_t count) {
    printf(", \"%s\": [", name);
    for (int32_t i = 0; i < count; i++)
        printf("%s%.17g", i ? ", " : "", values[i]);
    printf("]");
}

/* All members, weights and biases, at the default priors and one share of the uniform distribution,
 * on probabilities in memory. */
static void bench_loglinear(cst_context *context, const input *in) {
    const double share = 1e-6;
    cst_loglinear_cv nothing = {0};
    cst_loglinear pool;
    double best = INFINITY;
    double *mix = malloc((size_t)in->members * sizeof *mix);
    need(mix != NULL, "memory");
    for (int repeat = 0; repeat < 3; repeat++) {
        cst_loglinear_options options = cst_loglinear_defaults();
        options.evidence = false;
        options.compact.share = share;
        double start = cst_seconds();
        need(cst_loglinear_pool(context, &in->view, NULL, 1, &nothing, &options, mix, &pool,
                                NULL) == CST_OK,
             "log-linear pool");
        best = fmin(best, cst_seconds() - start);
        if (repeat < 2)
            cst_loglinear_free(context, &pool);
    }
    printf("\"loglinear\": %.6f, \"share\": %g, \"prior_weights\": %g, \"prior_bias\": %g", best,
           share, pool.prior_weights, pool.prior_bias);
    list("weights", pool.weights, in->members);
    list("bias", pool.bias, in->classes);
    cst_loglinear_free(context, &pool);
    free(mix);
}

/* ---- rates of the machine ---- */

enum { FAR = 1 << 25, NEAR = 4096, NEAR_ROUNDS = 8192 };

typedef struct rate {
    const char *name;
    double (*work)(float *from, float *to); /* numbers that it went through */
} rate;

static double read_memory(float *from, float *to) {
    uint64_t sum[8] = {0};
    for (size_t i = 0; i < FAR; i += 16)
        for (size_t j = 0; j < 8; j++) {
            uint64_t word = 0;
            memcpy(&word, from + i + 2 * j, sizeof word);
            sum[j] += word;
        }
    for (size_t j = 1; j < 8; j++)
        sum[0] += sum[j];
    memcpy(to, sum, sizeof sum[0]);
    return FAR;
}

static double copy_memory(float *from, float *to) {
    memcpy(to, from, FAR * sizeof *to);
    return FAR;
}

static double exponentials(float *from, float *to) {
    for (int round = 0; round < NEAR_ROUNDS; round++)
        cst_exp_f32(NEAR, from, to);
    return (double)NEAR * NEAR_ROUNDS;
}

static double logarithms(float *from, float *to) {
    for (int round = 0; round < NEAR_ROUNDS; round++)
        cst_log_f32(NEAR, from, to);
    return (double)NEAR * NEAR_ROUNDS;
}

typedef struct rate_work {
    const rate *rate;
    pthread_barrier_t *barrier;
    double *seconds; /* of all of them together, by the first thread */
    bool first;
    double done;
} rate_work;

enum { RATE_ROUNDS = 5 };

static void *measure_rate(void *user) {
    rate_work *w = user;
    float *from = malloc(FAR * sizeof *from);
    float *to = malloc(FAR * sizeof *to);
    need(from && to, "memory");
    for (size_t i = 0; i < FAR; i++)
        from[i] = 1.0F / (float)(1 + i % 1000);
    memset(to, 1, FAR * sizeof *to);
    for (int round = 0; round < RATE_ROUNDS; round++) {
        (void)pthread_barrier_wait(w->barrier);
        double start = cst_seconds();
        w->done = w->rate->work(from, to);
        (void)pthread_barrier_wait(w->barrier);
        if (w->first)
            *w->seconds = fmin(*w->seconds, cst_seconds() - start);
    }
    free(from);
    free(to);
    return NULL;
}

/* Numbers a second by all threads together. */
static void bench_rates(int threads) {
    static const rate rates[] = {
        {"read", read_memory}, {"copy", copy_memory}, {"exp", exponentials}, {"log", logarithms}};
    enum { MOST = 64 };
    need(threads >= 1 && threads <= MOST, "threads");
    for (size_t r = 0; r < sizeof rates / sizeof rates[0]; r++) {
        pthread_barrier_t barrier;
        pthread_t thread[MOST];
        rate_work work[MOST];
        double seconds = INFINITY;
        need(pthread_barrier_init(&barrier, NULL, (unsigned)threads) == 0, "barrier");
        for (int t = 0; t < threads; t++) {
            work[t] = (rate_work){&rates[r], &barrier, &seconds, t == 0, 0};
            need(pthread_create(&thread[t], NULL, measure_rate, &work[t]) == 0, "thread");
        }
        for (int t = 0; t < threads; t++)
            (void)pthread_join(thread[t], NULL);
        (void)pthread_barrier_destroy(&barrier);
        printf("%s\"%s\": %.6g", r ? ", " : "", rates[r].name, threads * work[0].done / seconds);
    }
}

int main(int argc, char **argv) {
    need(argc == 4, "usage: kernels INPUT THREADS "
                    "cka|auto|greedy|bootstrap|predict|loglinear or kernels - THREADS rates");
    if (strcmp(argv[3], "rates") == 0) {
        printf("{");
        bench_rates(atoi(argv[2]));
        printf("}\n");
        return 0;
    }
    input in;
    cst_context *context = NULL;
    read_input(argv[1], &in);
    need(cst_context_create(&context) == CST_OK, "context");
    need(cst_context_set_threads(context, atoi(argv[2])) == CST_OK, "threads");
    cst_la_enter();
    printf("{");
    if (strcmp(argv[3], "cka") == 0)
        bench_cka(context, &in);
    else if (strcmp(argv[3], "auto") == 0)
        bench_auto(context, &in);
    else if (strcmp(argv[3], "greedy") == 0)
        bench_greedy(context, &in);
    else if (strcmp(argv[3], "bootstrap") == 0)
        bench_bootstrap(context, &in);
    else if (strcmp(argv[3], "loglinear") == 0)
        bench_loglinear(context, &in);
    else
        bench_predict(context, &in);
    printf("}\n");
    cst_la_leave();
    cst_context_free(context);
    free(in.predictions);
    free(in.labels);
    free(in.data);
    return 0;
}
