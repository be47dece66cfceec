/* CKA of all pairs of members: estimator, landmarks, normalisation. Paper: equation (2). */
#include "core/la.h"
#include "method/redundancy/hsic.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { PROBES_DEFAULT = 256, LANDMARKS_USUAL = 512, LANDMARKS_MAX = 2048 };

/* Share of |H K H| that compression may drop: at most twice that in a CKA. */
#define COMPRESSION_TAIL 1e-3

/* Up to this many floating-point operations exact CKA in double precision takes about a second. */
#define EXACT_OPERATIONS 2e10

/* Standard error of the worst pair that is enough, and the rounds it usually takes. */
#define ERROR_ENOUGH 0.0025
#define ROUNDS_USUAL 6.0

/* Seconds on one core for all pairs of rows in `auto`, and of an operation of the features. */
#define SECONDS_EXACT 1.0
#define SECONDS_FEATURE 2.5e-11

/* Pairs this close to the threshold are looked at with other landmarks too. */
#define NEAR_THRESHOLD 0.1

/* Substreams of the landmarks of further draws begin here. */
enum { DRAW_SUBSTREAM = 16 };

/* Random signs replace cross-Grams if this much cheaper, with a relative error this small. */
#define PROBES_CHEAPER 3.0
#define PROBES_ERROR 0.003

typedef struct cka_job {
    const cst_kernels *kernels;
    const cst_cka_options *options;
    int64_t *uniform; /* [floor] landmarks of every member; NULL for `residual` */
    int32_t draw;     /* of uniform landmarks: 0, 1, ... */
    int64_t floor;
    int64_t cap;
    cst_features *features; /* [K] */
    bool *converged;        /* [K] */
} cka_job;

static int64_t ceil_root(int64_t rows) {
    int64_t root = (int64_t)ceil(sqrt((double)rows));
    return root < 1 ? 1 : root;
}

static int64_t least(int64_t a, int64_t b) {
    return a < b ? a : b;
}

static int64_t most(int64_t a, int64_t b) {
    return a > b ? a : b;
}

static cst_status fit_member(cst_context *worker, void *user, int64_t task) {
    const cka_job *job = user;
    int32_t k = (int32_t)task;
    job->converged[k] = true;
    if (job->kernels->constant[k])
        return CST_OK;
    if (job->uniform)
        return cst_features_fit(worker, job->kernels, k, job->uniform, job->floor, 0,
                                &job->features[k]);
    CST_SCOPE(scope);
    CST_NEW(worker, scope, int64_t, landmarks, job->cap);
    int64_t count = 0;
    CST_TRY(cst_landmarks_residual(worker, job->kernels, k, job->floor, job->cap,
                                   job->options->seed, landmarks, &count, &job->converged[k]));
    return cst_features_fit(worker, job->kernels, k, landmarks, count, COMPRESSION_TAIL,
                            &job->features[k]);
}

/* About C groups of predictions need a landmark each. */
static int64_t landmarks_cap(const cst_view *view) {
    int64_t wanted = most(LANDMARKS_USUAL, 4 * ceil_root(view->rows));
    wanted = most(wanted, least(2 * (int64_t)view->classes, LANDMARKS_MAX));
    return least(wanted, view->rows);
}

static void notice_residual(cst_context *context, const cka_job *job) {
    int32_t short_of = 0;
    double worst = 0;
    for (int32_t k = 0; k < job->kernels->view->members; k++) {
        short_of += !job->converged[k];
        if (!job->converged[k])
            worst = fmax(worst, job->features[k].residual);
    }
    if (short_of > 0)
        cst_notice(context,
                   "CKA is approximate: the landmarks of %d of %d members miss up to %.3g of the "
                   "trace of the kernel; use more landmarks (cka.landmarks) or cka.estimator=exact",
                   (int)short_of, (int)job->kernels->view->members, worst);
}

static cst_status fit_features(cst_context *context, cka_job *job) {
    const cst_view *view = job->kernels->view;
    int64_t given = least(job->options->landmarks, view->rows);
    job->floor = given > 0 ? given : ceil_root(view->rows);
    job->cap = given > 0 ? given : landmarks_cap(view);
    CST_SCOPE(scope);
    if (job->options->landmark_rule == CST_LANDMARKS_UNIFORM) {
        CST_TAKE(context, scope, job->uniform, job->floor);
        CST_TRY(cst_sample_rows(
            context, view->rows, job->floor, job->options->seed, CST_STREAM_LANDMARKS,
            job->draw > 0 ? DRAW_SUBSTREAM + (uint32_t)job->draw : 0, job->uniform));
    }
    CST_TRY(cst_parallel_for(context, view->members, fit_member, job));
    notice_residual(context, job);
    return CST_OK;
}

/* Random signs estimate tr(A^2) with relative variance 2 tr(A^4)/(s tr(A^2)^2). */
static bool probes_are_better(const cka_job *job, int64_t probes) {
    double direct = 0;
    double columns = 0;
    double members = job->kernels->view->members;
    for (int32_t k = 0; k < job->kernels->view->members; k++) {
        const cst_features *f = &job->features[k];
        double second = 0;
        double fourth = 0;
        for (int64_t j = 0; j < f->rank; j++) {
            double square = f->spectrum[j] * f->spectrum[j];
            second += square;
            fourth += square * square;
        }
        double variance = 2 * fourth / ((double)probes * second * second);
        if (f->rank > 0 && variance > PROBES_ERROR * PROBES_ERROR)
            return false;
        columns += (double)f->rank;
        direct += (double)f->rank * (double)f->rank;
    }
    direct = (columns * columns + direct) / 2;
    double probed = (double)probes * (2 * columns + members * members);
    return probed * PROBES_CHEAPER < direct;
}

static double exact_operations(const cst_view *view) {
    double rows = (double)view->rows;
    double members = view->members;
    double kernel = 2.0 * view->classes + 50; /* an exponential is about 50 operations */
    return rows * rows * members * (kernel / 2 + members);
}

/* With m landmarks and about as many features: kernel twice, projection twice, Gram, pairs. */
static double lowrank_operations(const cst_view *view, int64_t landmarks, int64_t probes) {
    double m = (double)landmarks;
    double members = view->members;
    double sample = (double)least(view->rows, 8192);
    double pairs = fmin(members * m * m, 4 * m * (double)probes);
    double row = m * (4.0 * view->classes + 100) + 5 * m * m + pairs;
    return members * ((double)view->rows * row + sample * m * (2.0 * view->classes + m));
}

static double packed_seconds(const cst_packed *packed, double rows) {
    int32_t members = packed->kernels->view->members;
    double pair = CST_SECONDS_MEMBER_ADD * (double)members * (double)members;
    for (int32_t k = 0; k < members; k++)
        pair += packed->member[k].seconds;
    return rows * rows / 2 * pair;
}

/* Bytes of a packed row of all members, with its sums and diagonals. */
static double packed_bytes(const cst_packed *packed) {
    int32_t members = packed->kernels->view->members;
    double bytes = 32.0 * members;
    for (int32_t k = 0; k < members; k++)
        bytes += packed->member[k].bytes;
    return bytes;
}

/* Rows within the bytes and CST_SECONDS_MAX: whole strips, unless it is all. */
static int64_t packed_rows(const cst_packed *packed) {
    double rows = CST_SECONDS_MAX / (2 * CST_STRIP_ROWS * packed_seconds(packed, 1));
    rows = fmin(rows, CST_PACKED_BYTES / packed_bytes(packed));
    rows = fmax(rows, CST_SAMPLE_MIN);
    rows = fmin(rows, (double)packed->kernels->view->rows);
    int64_t strips = (int64_t)rows / CST_STRIP_ROWS;
    return strips > 0 ? strips * CST_STRIP_ROWS : (int64_t)rows;
}

/* Of `rows` rows, as many as take CST_SECONDS_MAX. */
static int64_t rounds_most(const cst_packed *packed, int64_t rows) {
    double round = 2 * CST_STRIP_ROWS * (double)rows * packed_seconds(packed, 1);
    return (int64_t)fmax(1, CST_SECONDS_MAX / round);
}

/* Seconds of the features: from the fewest landmarks or, where worth it, those of a member. */
static cst_status features_seconds(cst_context *context, const cka_job *job, int64_t probes,
                                   double worth, double *seconds) {
    const cst_view *view = job->kernels->view;
    int64_t count = most(ceil_root(view->rows), least(view->classes / 2, landmarks_cap(view)));
    *seconds = SECONDS_FEATURE * lowrank_operations(view, count, probes);
    int32_t k = 0;
    while (k < view->members && job->kernels->constant[k])
        k++;
    if (k == view->members || *seconds > worth)
        return CST_OK;
    int64_t cap = landmarks_cap(view);
    bool converged = false;
    CST_SCOPE(scope);
    CST_NEW(context, scope, int64_t, landmarks, cap);
    CST_TRY(cst_landmarks_residual(context, job->kernels, k, ceil_root(view->rows), cap,
                                   job->options->seed, landmarks, &count, &converged));
    *seconds = SECONDS_FEATURE * lowrank_operations(view, count, probes);
    return CST_OK;
}

static cst_status choose(cst_context *context, const cka_job *job, int64_t probes,
                         const cst_packed *packed, cst_cka_estimator *chosen) {
    const cst_view *view = job->kernels->view;
    *chosen = CST_CKA_NYSTROM;
    if (job->options->landmarks > 0 || job->options->landmark_rule != CST_LANDMARKS_RESIDUAL)
        return CST_OK;
    double all = packed_seconds(packed, (double)view->rows);
    bool fit = packed_bytes(packed) * (double)view->rows <= CST_PACKED_BYTES;
    bool exact = fit && all <= SECONDS_EXACT;
    double pairs = all;
    if (!exact)
        pairs = fmin(CST_SECONDS_MAX, packed_seconds(packed, 1) * ROUNDS_USUAL * 2 *
                                          CST_STRIP_ROWS * (double)packed_rows(packed));
    double features = 0;
    CST_TRY(features_seconds(context, job, probes, pairs, &features));
    if (pairs <= features)
        *chosen = exact ? CST_CKA_EXACT : CST_CKA_SAMPLE;
    return CST_OK;
}

/* `count` rows in random strips, each of ascending rows. */
static cst_status draw_strips(cst_context *context, cst_scope *scope, const cka_job *job,
                              int64_t count, int64_t **rows) {
    CST_TAKE(context, scope, *rows, count);
    CST_TRY(cst_sample_rows(context, job->kernels->view->rows, count, job->options->seed,
                            CST_STREAM_LANDMARKS, 3, *rows));
    cst_rng rng;
    cst_rng_init(&rng, job->options->seed, CST_STREAM_LANDMARKS, 4);
    cst_rng_shuffle(&rng, *rows, count);
    for (int64_t first = 0; first < count; first += CST_STRIP_ROWS)
        qsort(*rows + first, (size_t)least(count - first, CST_STRIP_ROWS), sizeof **rows,
              cst_by_i64);
    return CST_OK;
}

/* Over pairs of packed rows, all or a sample of them. */
static cst_status over_packed(cst_context *context, const cka_job *job, cst_packed *packed,
                              double *hsic, cst_cka_result *out) {
    const cst_view *view = job->kernels->view;
    int64_t *drawn = NULL;
    cst_pairs pairs = {0};
    bool some = out->estimator == CST_CKA_SAMPLE && job->options->rows == 0;
    if (out->estimator == CST_CKA_SAMPLE)
        out->rows = some ? packed_rows(packed) : least(job->options->rows, view->rows);
    out->rows = most(out->rows, job->options->statistic == CST_CKA_UNBIASED ? 4 : 2);
    bool sampled = some || out->rows < view->rows;
    CST_SCOPE(scope);
    if (sampled) {
        CST_TRY(draw_strips(context, scope, job, out->rows, &drawn));
        CST_TRY(cst_pairs_create(context, scope, job->kernels, out->rows, some ? ERROR_ENOUGH : 0,
                                 some ? rounds_most(packed, out->rows) : 0, &pairs));
    }
    CST_TRY(cst_packed_fill(context, packed, drawn, out->rows, true));
    CST_TRY(cst_hsic_packed(context, packed, sampled ? &pairs : NULL, NULL, job->options->statistic,
                            hsic));
    out->partners = sampled ? pairs.partners : view->rows - 1;
    out->standard_error = sampled ? pairs.error : 0;
    return CST_OK;
}

/* Landmarks and features of all members, and what the result says of them. */
static cst_status prepare_features(cst_context *context, cka_job *job, cst_cka_result *out) {
    CST_TRY(fit_features(context, job));
    for (int32_t k = 0; k < job->kernels->view->members; k++) {
        out->landmarks[k] = (int32_t)job->features[k].landmarks;
        out->rank[k] = (int32_t)job->features[k].rank;
        out->residual[k] = job->features[k].residual;
    }
    return CST_OK;
}

static cst_status over_features(cst_context *context, cka_job *job, int64_t probes, double *hsic,
                                cst_cka_result *out) {
    const cst_cka_options *options = job->options;
    CST_TRY(prepare_features(context, job, out));
    if (options->estimator == CST_CKA_AUTO && probes_are_better(job, probes))
        out->estimator = CST_CKA_PROBES;
    if (out->estimator == CST_CKA_NYSTROM)
        CST_TRY(cst_hsic_features(context, job->kernels, job->features, options->statistic, hsic));
    if (out->estimator == CST_CKA_PROBES) {
        out->probes = (int32_t)probes;
        CST_TRY(cst_hsic_probes(context, job->kernels, job->features, probes, options->seed,
                                options->statistic, hsic));
    }
    return CST_OK;
}

static cst_status estimate(cst_context *context, cka_job *job, double *hsic, cst_cka_result *out) {
    const cst_view *view = job->kernels->view;
    const cst_cka_options *options = job->options;
    int64_t probes = options->probes > 0 ? options->probes : PROBES_DEFAULT;
    bool cheap = exact_operations(view) <= EXACT_OPERATIONS;
    bool single = options->precision == CST_CKA_SINGLE ||
                  (options->precision == CST_CKA_PRECISION_AUTO && !cheap);
    out->estimator = options->estimator;
    out->rows = view->rows;
    if (options->estimator == CST_CKA_AUTO && cheap)
        out->estimator = CST_CKA_EXACT;
    CST_SCOPE(scope);
    CST_NEW(context, scope, cst_packed, packed, 1);
    CST_TRY(cst_scope_own(context, scope, cst_packed_free, packed));
    if (out->estimator == CST_CKA_AUTO || out->estimator == CST_CKA_SAMPLE ||
        (out->estimator == CST_CKA_EXACT && single))
        CST_TRY(cst_packed_plan(context, job->kernels, packed));
    if (out->estimator == CST_CKA_AUTO)
        CST_TRY(choose(context, job, probes, packed, &out->estimator));
    if (out->estimator == CST_CKA_EXACT && !single) {
        out->partners = view->rows - 1;
        return cst_hsic_exact(context, job->kernels, options->statistic, hsic);
    }
    if (out->estimator == CST_CKA_EXACT || out->estimator == CST_CKA_SAMPLE)
        return over_packed(context, job, packed, hsic, out);
    return over_features(context, job, probes, hsic, out);
}

/* For hashing: from the features of the members, which `user` has of the whole pool. */
static cst_status group_products(cst_context *context, void *user, const cst_kernels *group,
                                 const int32_t *members, double *hsic) {
    const cka_job *job = user;
    size_t count = (size_t)group->view->members;
    CST_SCOPE(scope);
    CST_NEW(context, scope, cst_features, features, count);
    for (size_t i = 0; i < count; i++)
        features[i] = job->features[members[i]];
    return cst_hsic_features(context, group, features, job->options->statistic, hsic);
}

/* Of the pairs that hashing proposes: by landmarks where they are asked for. */
static cst_status estimate_hashed(cst_context *context, cka_job *job, cst_cka_result *out) {
    const cst_cka_options *options = job->options;
    bool landmarks = options->estimator == CST_CKA_NYSTROM ||
                     (options->estimator == CST_CKA_AUTO &&
                      (options->landmarks > 0 || options->landmark_rule != CST_LANDMARKS_RESIDUAL));
    CST_TRY(landmarks ? prepare_features(context, job, out) : CST_OK);
    return cst_cka_hashed(context, job->kernels, options, landmarks ? group_products : NULL, job,
                          out);
}

static void normalise(const double *hsic, cst_cka_statistic statistic, cst_cka_result *out) {
    size_t k = (size_t)out->members;
    double lowest = statistic == CST_CKA_UNBIASED ? -1 : 0;
    for (size_t a = 0; a < k; a++) {
        out->cka[a * k + a] = 1;
        for (size_t b = a + 1; b < k; b++) {
            double self_a = hsic[a * k + a];
            double self_b = hsic[b * k + b];
            bool defined = !out->constant[a] && !out->constant[b] && self_a > 0 && self_b > 0;
            double value = defined ? hsic[a * k + b] / (sqrt(self_a) * sqrt(self_b)) : 0;
            value = value > 1 ? 1 : value < lowest ? lowest : value;
            out->cka[a * k + b] = value;
            out->cka[b * k + a] = value;
        }
    }
}

static cst_status check(cst_context *context, const cst_view *view,
                        const cst_cka_options *options) {
    int64_t rows = options->statistic == CST_CKA_UNBIASED ? 4 : 2;
    if (view->rows < rows || view->members < 1 || view->classes < 1)
        return cst_fail(context, CST_ERROR_ARGUMENT,
                        "CKA needs at least %lld rows, a member and a class, got %lld, %d and %d",
                        (long long)rows, (long long)view->rows, (int)view->members,
                        (int)view->classes);
    if (options->landmarks < 0 || options->probes < 0 || options->rows < 0)
        return cst_fail(context, CST_ERROR_ARGUMENT,
                        "the numbers of landmarks, probes and rows must be 0 (automatic) or more, "
                        "got %d, %d and %d",
                        (int)options->landmarks, (int)options->probes, (int)options->rows);
    return CST_OK;
}

static cst_status make_result(cst_context *context, const cst_kernels *kernels,
                              cst_cka_result *out) {
    size_t k = (size_t)kernels->view->members;
    out->members = kernels->view->members;
    CST_TAKE(context, &out->scope, out->cka, k * k);
    CST_TAKE(context, &out->scope, out->sigma, k);
    CST_TAKE(context, &out->scope, out->constant, k);
    CST_TAKE(context, &out->scope, out->landmarks, k);
    CST_TAKE(context, &out->scope, out->rank, k);
    CST_TAKE(context, &out->scope, out->residual, k);
    memcpy(out->sigma, kernels->sigma, k * sizeof *out->sigma);
    memcpy(out->constant, kernels->constant, k * sizeof *out->constant);
    return CST_OK;
}

static void free_features(cst_context *context, void *object) {
    const cka_job *job = object;
    (void)context;
    for (int32_t k = 0; k < job->kernels->view->members; k++)
        cst_scope_free(&job->features[k].scope);
}

/* One draw of landmarks, or the only estimate. */
static cst_status compute_draw(cst_context *context, const cst_kernels *kernels,
                               const cst_cka_options *options, int32_t draw, cst_cka_result *out) {
    cka_job job = {.kernels = kernels, .options = options, .draw = draw};
    size_t k = (size_t)kernels->view->members;
    CST_SCOPE(scope);
    CST_TAKE(context, scope, job.features, k);
    CST_TAKE(context, scope, job.converged, k);
    CST_TRY(cst_scope_own(context, scope, free_features, &job));
    if (cst_lsh_wanted(kernels->view, options))
        return estimate_hashed(context, &job, out);
    CST_NEW(context, scope, double, hsic, (k * k));
    CST_TRY(estimate(context, &job, hsic, out));
    normalise(hsic, options->statistic, out);
    return CST_OK;
}

static bool near_threshold(const cst_cka_result *cka, double threshold) {
    for (int32_t a = 0; threshold > 0 && a < cka->members; a++)
        for (int32_t b = a + 1; b < cka->members; b++)
            if (fabs(cka->cka[(size_t)a * (size_t)cka->members + (size_t)b] - threshold) <=
                NEAR_THRESHOLD)
                return true;
    return false;
}

/* Further draws of uniform landmarks: their mean replaces the first where it is asked for, and
 * their deviation says for how many pairs the side of the threshold depends on the draw. */
static cst_status over_draws(cst_context *context, const cst_kernels *kernels,
                             const cst_cka_options *options, cst_cka_result *out) {
    size_t cells = (size_t)out->members * (size_t)out->members;
    int32_t draws = options->draws > 1 ? options->draws : 1;
    int32_t looked = draws > 1                                                    ? draws
                     : !options->quiet && near_threshold(out, options->threshold) ? 2
                                                                                  : 1;
    bool drawn = !out->estimated && out->estimator == CST_CKA_NYSTROM &&
                 options->landmark_rule == CST_LANDMARKS_UNIFORM;
    if (draws > 1 && !drawn && !options->quiet)
        cst_notice(context,
                   "cka.draws=%d has no effect, because no landmarks were drawn uniformly: set "
                   "cka.estimator=nystrom, cka.landmark_rule=uniform and cka.lsh=off, or leave "
                   "cka.draws out",
                   (int)draws);
    if (looked == 1 || !drawn)
        return CST_OK;
    int32_t unsure = 0;
    CST_SCOPE(scope);
    CST_NEW(context, scope, double, sum, cells);
    CST_NEW(context, scope, double, square, cells);
    CST_NEW(context, scope, double, value, cells);
    cst_cka_result other = *out;
    other.cka = value;
    for (int32_t d = 0; d < looked; d++) {
        if (d == 0)
            memcpy(value, out->cka, cells * sizeof *value);
        else
            CST_TRY(compute_draw(context, kernels, options, d, &other));
        for (size_t i = 0; i < cells; i++) {
            sum[i] += value[i];
            square[i] += value[i] * value[i];
        }
    }
    for (size_t i = 0; i < cells; i++) {
        double mean = sum[i] / looked;
        double variance = fmax(square[i] / looked - mean * mean, 0) * looked / (looked - 1);
        double error = sqrt(variance / draws);
        out->cka[i] = draws > 1 ? mean : out->cka[i];
        out->standard_error = draws > 1 ? fmax(out->standard_error, error) : 0;
        if (i / (size_t)out->members < i % (size_t)out->members)
            unsure += error > 0 && fabs(out->cka[i] - options->threshold) <= error;
    }
    if (unsure > 0 && options->threshold > 0 && !options->quiet)
        cst_notice(context,
                   "the CKA of %d %s is within its landmark error of the threshold %.4g: other "
                   "landmarks (another seed) may keep other members; cka.draws=%d averages over "
                   "%s, cka.estimator=exact needs none",
                   (int)unsure, unsure == 1 ? "pair" : "pairs", options->threshold,
                   draws > 1 ? (int)least(4 * (int64_t)draws, 10000) : 10,
                   draws > 1 ? "more draws" : "ten draws");
    return CST_OK;
}

static cst_status compute(cst_context *context, const cst_view *view,
                          const cst_cka_options *options, cst_cka_result *out) {
    cst_kernels kernels = {0};
    CST_SCOPE(scope);
    CST_TRY(cst_kernels_create(context, scope, view, options->seed, &kernels));
    CST_TRY(make_result(context, &kernels, out));
    CST_TRY(compute_draw(context, &kernels, options, 0, out));
    return over_draws(context, &kernels, options, out);
}

cst_status cst_cka(cst_context *context, const cst_view *view, const cst_cka_options *options,
                   cst_cka_result *out) {
    *out = (cst_cka_result){0};
    CST_TRY(check(context, view, options));
    CST_LA();
    cst_status status = compute(context, view, options, out);
    if (status != CST_OK)
        cst_cka_result_free(context, out);
    return status;
}

void cst_cka_result_free(cst_context *context, cst_cka_result *result) {
    (void)context;
    cst_scope_free(&result->scope);
    *result = (cst_cka_result){0};
}
