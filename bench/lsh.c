/*
 * How the time of CKA grows with the number of members, with and without hashing, and which pairs
 * above the threshold hashing misses: where the figures of docs/method.md#hundreds-of-members
 * come from. Not part of the product.
 *
 *   lsh-study ROWS CLASSES THRESHOLD MEMBERS...
 *
 * Members are noisy copies of a tenth as many base members, which share a teacher.
 */
#include "core/la.h"
#include "method/redundancy/redundancy.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static void need(bool ok, const char *what) {
    if (ok)
        return;
    fprintf(stderr, "lsh-study: %s\n", what);
    exit(1);
}

/* The sum of four uniform numbers less its mean, standard deviation 1: fast enough. */
static float noise(cst_rng *rng) {
    uint64_t word = cst_rng_u64(rng);
    double sum = (double)(word & 65535) + (double)(word >> 16 & 65535) +
                 (double)(word >> 32 & 65535) + (double)(word >> 48);
    return (float)((sum / 65536 - 2) * 1.7320508);
}

/* Logits of the teacher, plus those of the base member, plus a copy's own noise of 2 to 40 % of the
 * base member's. */
static void make_member(const float *teacher, int32_t member, int32_t bases, int64_t rows,
                        int32_t classes, float *out) {
    cst_rng base;
    cst_rng own;
    cst_rng_init(&base, 1, CST_STREAM_TEST, (uint32_t)(member % bases) + 1);
    cst_rng_init(&own, 2, CST_STREAM_TEST, (uint32_t)member);
    float spread = 0.6F + 1.8F * (float)cst_rng_uniform(&base);
    float share = 0.02F * expf(3 * (float)cst_rng_uniform(&own));
    for (int64_t i = 0; i < rows; i++) {
        float *row = out + i * classes;
        float total = 0;
        for (int32_t c = 0; c < classes; c++) {
            row[c] = expf(teacher[i * classes + c] + spread * (noise(&base) + share * noise(&own)));
            total += row[c];
        }
        for (int32_t c = 0; c < classes; c++)
            row[c] /= total;
    }
}

static double user_seconds(void) {
    return (double)clock() / CLOCKS_PER_SEC;
}

static double run(cst_context *context, const cst_view *view, const cst_cka_options *options,
                  cst_cka_result *out) {
    double seconds = user_seconds();
    need(cst_cka(context, view, options, out) == CST_OK, cst_last_error(context));
    return user_seconds() - seconds;
}

static double slope(const double *x, const double *y, int count) {
    double mx = 0;
    double my = 0;
    double xx = 0;
    double xy = 0;
    for (int i = 0; i < count; i++) {
        mx += log(x[i]) / count;
        my += log(y[i]) / count;
    }
    for (int i = 0; i < count; i++) {
        xx += (log(x[i]) - mx) * (log(x[i]) - mx);
        xy += (log(x[i]) - mx) * (log(y[i]) - my);
    }
    return xy / xx;
}

int main(int argc, char **argv) {
    need(argc > 4 && argc < 20, "usage: lsh-study ROWS CLASSES THRESHOLD MEMBERS...");
    int64_t rows = atol(argv[1]);
    int32_t classes = atoi(argv[2]);
    double threshold = atof(argv[3]);
    double sizes[16];
    double with[16];
    double without[16];
    cst_context *context = NULL;
    need(cst_context_create(&context) == CST_OK, "context");
    need(cst_context_set_threads(context, 1) == CST_OK, "threads");
    float *teacher = malloc((size_t)rows * (size_t)classes * sizeof *teacher);
    need(teacher != NULL, "memory");
    cst_rng rng;
    cst_rng_init(&rng, 3, CST_STREAM_TEST, 0);
    for (int64_t i = 0; i < rows * classes; i++)
        teacher[i] = 1.5F * noise(&rng);
    for (int n = 0; n < argc - 4; n++) {
        int32_t members = atoi(argv[4 + n]);
        float **data = calloc((size_t)members, sizeof *data);
        need(data != NULL, "memory");
        for (int32_t k = 0; k < members; k++) {
            data[k] = malloc((size_t)rows * (size_t)classes * sizeof **data);
            need(data[k] != NULL, "memory");
            make_member(teacher, k, members / 10, rows, classes, data[k]);
        }
        cst_view view = {.rows = rows,
                         .classes = classes,
                         .members = members,
                         .data = (const float *const *)data};
        cst_cka_options options = {.precision = CST_CKA_SINGLE,
                                   .estimator = CST_CKA_EXACT,
                                   .threshold = threshold,
                                   .lsh = CST_LSH_ON};
        cst_cka_result hashed;
        cst_cka_result all;
        sizes[n] = members;
        with[n] = run(context, &view, &options, &hashed);
        options.lsh = CST_LSH_OFF;
        without[n] = run(context, &view, &options, &all);
        size_t k = (size_t)members;
        int64_t above = 0;
        int64_t found = 0;
        double worst = 0;
        double estimate = 0;
        for (size_t a = 0; a < k; a++)
            for (size_t b = a + 1; b < k; b++) {
                bool over = all.cka[a * k + b] > threshold;
                double error = fabs(all.cka[a * k + b] - hashed.cka[a * k + b]);
                above += over;
                found += over && !hashed.estimated[a * k + b];
                if (hashed.estimated[a * k + b])
                    estimate = fmax(estimate, error);
                else
                    worst = fmax(worst, error);
            }
        double seconds = user_seconds();
        double *pearson = malloc(k * k * sizeof *pearson);
        need(pearson && cst_pearson(context, &view, pearson) == CST_OK, "pearson");
        double pearson_seconds = user_seconds() - seconds;
        int32_t *cluster = malloc(k * sizeof *cluster);
        seconds = user_seconds();
        need(cluster && cst_clusters(context, all.cka, members, threshold, cluster) == CST_OK,
             "clusters");
        double cluster_seconds = user_seconds() - seconds;
        printf("K %5d  with %7.2f  without %7.2f s  b %d L %d  above %lld of %zu  proposed %lld  "
               "computed %lld  recall %.5f (own estimate %.5f from %d)  error: computed %.2g, "
               "sketches %.2g (rms of proposed %.2g)  pearson %.2f clusters %.2f s\n",
               members, with[n], without[n], hashed.lsh_bits, hashed.lsh_tables, (long long)above,
               k * (k - 1) / 2, (long long)hashed.proposed, (long long)hashed.computed,
               above > 0 ? (double)found / (double)above : 1, hashed.recall, hashed.checked, worst,
               estimate, hashed.sketch_error, pearson_seconds, cluster_seconds);
        fflush(stdout);
        free(pearson);
        free(cluster);
        cst_cka_result_free(context, &hashed);
        cst_cka_result_free(context, &all);
        for (int32_t m = 0; m < members; m++)
            free(data[m]);
        free(data);
    }
    printf("exponent: with %.2f, without %.2f\n", slope(sizes, with, argc - 4),
           slope(sizes, without, argc - 4));
    free(teacher);
    cst_context_free(context);
    return 0;
}
