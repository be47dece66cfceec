/*
 * Largest errors and seconds of the CKA estimators on pools given as npy files, one line a method:
 * where the figures of docs/method.md#s1-redundancy come from. Not part of the product.
 *
 *   cka-study THREADS EXACT FILE.npy ...       EXACT: 1 compares with double precision, 0 does not
 *
 * Files: float32 or float16, C order, [N][C], one for each member.
 */
#include "core/la.h"
#include "method/redundancy/hsic.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static void need(bool ok, const char *what) {
    if (ok)
        return;
    fprintf(stderr, "cka-study: %s\n", what);
    exit(1);
}

static float half_to_float(uint16_t half) {
    int exponent = (half >> 10) & 31;
    float fraction = (float)(half & 1023) / 1024;
    float value = exponent ? ldexpf(1 + fraction, exponent - 15) : ldexpf(fraction, -14);
    return half & 0x8000 ? -value : value;
}

static float *read_member(const char *path, int64_t *rows, int32_t *classes) {
    char header[1024] = {0};
    uint16_t length = 0;
    FILE *file = fopen(path, "rb");
    need(file != NULL, path);
    need(fread(header, 1, 8, file) == 8 && fread(&length, 2, 1, file) == 1, "npy header");
    need(length < sizeof header && fread(header, 1, length, file) == length, "npy header");
    header[length] = 0;
    const char *shape = strstr(header, "'shape': (");
    long n = 0;
    long c = 0;
    need(shape && sscanf(shape, "'shape': (%ld, %ld", &n, &c) == 2, "shape");
    bool half = strstr(header, "f2") != NULL;
    need(half || strstr(header, "<f4"), "float32 or float16");
    size_t count = (size_t)n * (size_t)c;
    float *data = malloc(count * sizeof *data);
    need(data != NULL, "memory");
    if (half) {
        uint16_t *raw = malloc(count * sizeof *raw);
        need(raw && fread(raw, sizeof *raw, count, file) == count, "data");
        for (size_t i = 0; i < count; i++)
            data[i] = half_to_float(raw[i]);
        free(raw);
    } else {
        need(fread(data, sizeof *data, count, file) == count, "data");
    }
    fclose(file);
    *rows = n;
    *classes = (int32_t)c;
    return data;
}

static double cpu_seconds(void) {
    return (double)clock() / CLOCKS_PER_SEC;
}

static cst_cka_result run(cst_context *context, const cst_view *view, const char *name,
                          const cst_cka_options *options, const cst_cka_result *exact) {
    static const char *const used[] = {"auto", "exact", "nystrom", "probes", "sample"};
    cst_cka_result result;
    double wall = cst_seconds();
    double cpu = cpu_seconds();
    need(cst_cka(context, view, options, &result) == CST_OK, cst_last_error(context));
    wall = cst_seconds() - wall;
    cpu = cpu_seconds() - cpu;
    double worst = 0;
    double squares = 0;
    size_t cells = (size_t)view->members * (size_t)view->members;
    for (size_t i = 0; exact && i < cells; i++) {
        double error = fabs(result.cka[i] - exact->cka[i]);
        worst = fmax(worst, error);
        squares += error * error;
    }
    int32_t landmarks = 0;
    int32_t rank = 0;
    for (int32_t k = 0; k < view->members; k++) {
        landmarks = result.landmarks[k] > landmarks ? result.landmarks[k] : landmarks;
        rank = result.rank[k] > rank ? result.rank[k] : rank;
    }
    printf("%-22s %-8s rows %-6lld m %-5d r %-5d wall %8.3f cpu %8.3f", name,
           used[result.estimator], (long long)result.rows, (int)landmarks, (int)rank, wall, cpu);
    if (result.standard_error > 0)
        printf(" partners %lld se %.2g", (long long)result.partners, result.standard_error);
    if (exact)
        printf(" error max %.2g rms %.2g", worst, sqrt(squares / (double)cells));
    printf("\n");
    fflush(stdout);
    return result;
}

int main(int argc, char **argv) {
    need(argc > 4, "usage: cka-study THREADS EXACT FILE.npy ...");
    int32_t members = argc - 3;
    bool compare = atoi(argv[2]) > 0;
    cst_context *context = NULL;
    need(cst_context_create(&context) == CST_OK, "context");
    need(cst_context_set_threads(context, atoi(argv[1])) == CST_OK, "threads");
    const float **data = calloc((size_t)members, sizeof *data);
    need(data != NULL, "memory");
    cst_view view = {.members = members, .data = data};
    for (int32_t k = 0; k < members; k++) {
        int64_t rows = 0;
        int32_t classes = 0;
        data[k] = read_member(argv[3 + k], &rows, &classes);
        need(k == 0 || (rows == view.rows && classes == view.classes), "one shape for all");
        view.rows = rows;
        view.classes = classes;
    }
    cst_cka_result exact = {0};
    cst_cka_options options = {.estimator = CST_CKA_EXACT, .precision = CST_CKA_DOUBLE};
    if (compare)
        exact = run(context, &view, "exact, double", &options, NULL);
    const cst_cka_result *with = compare ? &exact : NULL;
    options.precision = CST_CKA_SINGLE;
    cst_cka_result other = run(context, &view, "exact, single", &options, with);
    if (!compare)
        exact = other;
    with = &exact;
    options = (cst_cka_options){.estimator = CST_CKA_AUTO};
    other = run(context, &view, "auto", &options, with);
    for (uint64_t seed = 0; seed < 4; seed++) {
        options = (cst_cka_options){.estimator = CST_CKA_SAMPLE, .seed = seed};
        other = run(context, &view, "sample of pairs", &options, with);
    }
    for (int32_t rows = 2000; rows < view.rows && rows <= 16000; rows *= 2) {
        char name[64];
        snprintf(name, sizeof name, "sample of %d", (int)rows);
        options = (cst_cka_options){.estimator = CST_CKA_SAMPLE, .rows = rows};
        other = run(context, &view, name, &options, with);
    }
    if (argc > 3 && getenv("CKA_STUDY_NYSTROM")) {
        options = (cst_cka_options){.estimator = CST_CKA_NYSTROM};
        other = run(context, &view, "nystrom", &options, with);
        options.landmark_rule = CST_LANDMARKS_UNIFORM;
        other = run(context, &view, "nystrom, uniform", &options, with);
        options = (cst_cka_options){.estimator = CST_CKA_PROBES};
        other = run(context, &view, "probes", &options, with);
    }
    cst_context_free(context);
    return 0;
}
