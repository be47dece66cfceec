/*
 * Timings of the library's kernels on one input file, printed as JSON: what bench/run.py sets
 * beside NumPy. Input: int32 K, N, C; float32 predictions[K][N][C]; int32 labels[N]. Argument 2:
 * threads.
 */
#include "blend/greedy.h"
#include "la/la.h"
#include "model/stack.h"
#include "pipeline/stages.h"
#include "redundancy/redundancy.h"

#include <corestack/metrics.h>

#include <math.h>
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
    need(cst_greedy_select(context, &in->view, CST_GREEDY_ROUNDS, 0, &greedy) == CST_OK, "greedy");
    printf("\"greedy\": %.6f, \"weights\": [", cst_seconds() - start);
    for (int32_t k = 0; k < in->members; k++)
        printf("%s%.12g", k ? ", " : "", greedy.weights[k]);
    printf("]");
    cst_greedy_free(context, &greedy);
}

static void bench_bootstrap(cst_context *context, const input *in) {
    cst_metric_intervals *intervals = malloc((size_t)in->members * sizeof *intervals);
    need(intervals != NULL, "memory");
    double start = cst_seconds();
    need(cst_bootstrap_methods(context, in->data, in->members, in->rows, in->classes, in->labels, 0,
                               5000, 0, intervals) == CST_OK,
         "bootstrap");
    printf("\"bootstrap\": %.6f, \"nll_low\": %.9g", cst_seconds() - start, intervals[0].nll.low);
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
    double *unknown = malloc((size_t)in->members * sizeof *unknown);
    int32_t *folds = malloc((size_t)in->rows * sizeof *folds);
    float *out = malloc((size_t)in->rows * (size_t)in->classes * sizeof *out);
    need(unknown && folds && out, "memory");
    for (int32_t k = 0; k < in->members; k++)
        unknown[k] = NAN;
    for (int32_t i = 0; i < in->rows; i++)
        folds[i] = i % 2;
    cst_view some = in->view;
    some.rows = in->rows < 500 ? in->rows : 500;
    need(cst_stages_run(context, &some, folds, 2, &settings, unknown, unknown, &stages) == CST_OK,
         "fit");
    double best = INFINITY;
    for (int repeat = 0; repeat < 9; repeat++) {
        double start = cst_seconds();
        need(cst_stack_predict(context, stages.fit.model, &in->view, out) == CST_OK, "predict");
        best = fmin(best, cst_seconds() - start);
    }
    printf("\"predict_us\": %.3f, \"learners\": %d, \"gated\": %d", 1e6 * best / in->rows,
           (int)stages.fit.model->learners, stages.fit.model->gate.mode == CST_GATE_LEARNED);
    latencies(context, stages.fit.model, in, out);
    free(unknown);
    free(folds);
    free(out);
    cst_stages_free(context, &stages);
    cst_options_free(context, options);
}

int main(int argc, char **argv) {
    need(argc == 4, "usage: kernels INPUT THREADS cka|auto|greedy|bootstrap|predict");
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
