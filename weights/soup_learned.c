/*
 * Soups whose mixing weights are searched by their score alone. After the mean and the single files
 * were scored. Wortsman et al. 2022, section "Learned soup", without gradients: the evolution
 * strategy of search.c.
 */
#include "weights/search.h"
#include "weights/soup_trial.h"

#include <math.h>
#include <string.h>

/* Standard deviation of the first points: of log weights, or of weights of any sign times the
 * number of files; and the reach at which the search has converged. */
static const double START_SIGMA = 0.5;
static const double CONVERGED = 1e-6;

typedef struct learned {
    cst_soup soup;
    int64_t tensors;   /* weights of each file: 1, or one for each tensor */
    int64_t dimension; /* of the search: files x tensors */
    double *point;     /* [dimension], as the weights: a file's first */
    double *normals;   /* [dimension] */
    double *weights;   /* [dimension], of the candidate */
    double *best;      /* [dimension], of the best candidate */
    int32_t single;    /* the best candidate is this file; -1: a mix of all */
    bool searched;     /* the best candidate has weights in `best` */
    double score;      /* of the best candidate */
    uint64_t hash[2];  /* and of its file */
    const char *found; /* kind of the best candidate */
    int64_t generations;
} learned;

/* Mixing weights of a point: for each tensor a softmax over the files, or the point moved so that
 * they sum to 1. The origin is the mean of the files. */
static void weigh(learned *l) {
    int32_t files = l->soup.count;
    bool any_sign = l->soup.config->any_sign != 0;
    for (int64_t t = 0; t < l->tensors; t++) {
        double most = -INFINITY;
        double sum = 0;
        for (int32_t i = 0; i < files; i++)
            most = fmax(most, l->point[i * l->tensors + t]);
        for (int32_t i = 0; i < files; i++) {
            double x = l->point[i * l->tensors + t];
            l->weights[i * l->tensors + t] = any_sign ? x : exp(x - most);
            sum += l->weights[i * l->tensors + t];
        }
        for (int32_t i = 0; i < files; i++) {
            double *weight = &l->weights[i * l->tensors + t];
            *weight = any_sign ? *weight + (1 - sum) / files : *weight / sum;
        }
    }
}

/* Scores a candidate and remembers it if it is the best so far. */
static cst_status try_one(cst_context *context, learned *l, const cst_candidate *candidate,
                          const char *kind, int32_t file, double *score) {
    json_t *step = NULL;
    cst_soup *soup = &l->soup;
    cst_status status = cst_soup_try(context, soup, candidate, kind, file, score, &step);
    if (status != CST_OK)
        return status;
    bool best = !l->found || cst_soup_better(soup, *score, l->score);
    if (best) {
        l->score = *score;
        memcpy(l->hash, soup->tried, sizeof l->hash);
        l->single = file;
        l->found = kind;
        l->searched = candidate->weights != NULL;
        if (l->searched)
            memcpy(l->best, candidate->weights, (size_t)l->dimension * sizeof *l->best);
    }
    cst_report_flag(soup->report, step, "kept", best);
    if (candidate->weights && l->tensors == 1)
        cst_report_numbers(soup->report, step, "weights", candidate->weights, l->dimension);
    return cst_soup_log(context, soup, step);
}

/* The mean of all files, then each by itself. */
static cst_status try_corners(cst_context *context, learned *l) {
    cst_candidate mean = {0};
    double score = 0;
    cst_status status = try_one(context, l, &mean, "uniform", -1, &score);
    for (int32_t i = 0; status == CST_OK && l->soup.count > 1 && i < l->soup.count; i++) {
        cst_candidate single = {.members = &i, .count = 1};
        status = try_one(context, l, &single, "single", i, &score);
    }
    return status;
}

/* The points of one generation as far as the evaluations go; values [population]. */
static cst_status try_generation(cst_context *context, learned *l, cst_search *search,
                                 double *values, int32_t *tried) {
    const cst_soup_config *config = l->soup.config;
    int32_t population = cst_search_population(search);
    cst_status status = CST_OK;
    *tried = 0;
    while (status == CST_OK && *tried < population && l->soup.evaluations < l->soup.planned) {
        cst_rng rng;
        cst_rng_init(&rng, config->seed, CST_STREAM_SEARCH,
                     (uint32_t)(l->generations * population + *tried));
        for (int64_t i = 0; i < l->dimension; i++)
            l->normals[i] = cst_rng_normal(&rng);
        cst_search_point(search, *tried, l->normals, l->point);
        weigh(l);
        cst_candidate mix = {.weights = l->weights, .scope = config->scope};
        double *value = &values[(*tried)++];
        status = try_one(context, l, &mix, "search", -1, value);
        *value = isnan(*value) ? INFINITY : l->soup.metric->more ? -*value : *value;
    }
    return status;
}

static cst_status run_search(cst_context *context, learned *l) {
    cst_search *search = NULL;
    double *values = NULL;
    double sigma = l->soup.config->any_sign ? START_SIGMA / l->soup.count : START_SIGMA;
    cst_status status = cst_search_create(context, &search, l->dimension, NULL, sigma);
    if (status == CST_OK) {
        values = cst_alloc(context, (size_t)cst_search_population(search), sizeof *values);
        status = values ? CST_OK : CST_ERROR_MEMORY;
    }
    while (status == CST_OK && l->soup.evaluations < l->soup.planned &&
           cst_search_reach(search) > CONVERGED) {
        int32_t tried = 0;
        status = try_generation(context, l, search, values, &tried);
        if (status == CST_OK && tried == cst_search_population(search)) {
            cst_search_update(search, values);
            l->generations++;
        }
    }
    cst_free(context, values);
    cst_search_free(context, search);
    return status;
}

/* ---- the call ---- */

static int64_t evaluations_of(const cst_soup_config *config) {
    return config->evaluations ? config->evaluations : CST_SOUP_EVALUATIONS;
}

/* Before a folder is made. */
static cst_status check_search(cst_context *context, const cst_soup_config *config, int32_t count) {
    int64_t evaluations = evaluations_of(config);
    if (config->scope != CST_MIX_MODEL && config->scope != CST_MIX_TENSOR)
        return cst_fail(context, CST_ERROR_ARGUMENT,
                        "a learned soup has one weight per model or per tensor");
    if (evaluations <= count && count > 1)
        return cst_fail(context, CST_ERROR_ARGUMENT,
                        "%lld evaluations are too few for %d files: the average and each single "
                        "file come first; give more than %d",
                        (long long)evaluations, (int)count, (int)count);
    return CST_OK;
}

static cst_status prepare(cst_context *context, learned *l) {
    const cst_soup_config *config = l->soup.config;
    l->soup.planned = l->soup.count > 1 ? evaluations_of(config) : 1;
    l->tensors = config->scope == CST_MIX_TENSOR ? cst_checkpoints_tensors(l->soup.all) : 1;
    l->dimension = l->tensors * l->soup.count;
    size_t n = (size_t)l->dimension;
    l->point = cst_alloc(context, n, sizeof *l->point);
    l->normals = cst_alloc(context, n, sizeof *l->normals);
    l->weights = cst_alloc(context, n, sizeof *l->weights);
    l->best = cst_alloc(context, n, sizeof *l->best);
    return l->point && l->normals && l->weights && l->best ? CST_OK : CST_ERROR_MEMORY;
}

/* What was found, and the weights of each file, or of each file for each tensor. */
static void put_weights(learned *l) {
    cst_report *report = l->soup.report;
    json_t *root = cst_report_root(report);
    int32_t files = l->soup.count;
    cst_report_string(report, root, "per", l->tensors == 1 ? "model" : "tensor");
    cst_report_string(report, root, "best", l->found);
    cst_report_integer(report, root, "generations", l->generations);
    cst_report_integer(report, root, "seed", (int64_t)l->soup.config->seed);
    for (int64_t i = 0; i < l->dimension && !l->searched; i++)
        l->best[i] = l->single < 0 ? 1.0 / files : (double)(i / l->tensors == l->single);
    if (l->tensors == 1) {
        cst_report_numbers(report, root, "weights", l->best, files);
        return;
    }
    json_t *list = cst_report_list(report, root, "tensor_weights");
    for (int64_t t = 0; t < l->tensors; t++) {
        json_t *object = cst_report_add_object(report, list);
        const char *name = cst_checkpoints_tensor_name(l->soup.all, t);
        cst_report_string(report, object, "name", name);
        json_t *weights = cst_report_list(report, object, "weights");
        for (int32_t i = 0; i < files; i++)
            cst_report_add_number(report, weights, l->best[i * l->tensors + t]);
    }
}

static cst_status finish(cst_context *context, learned *l, const char *out, cst_report **report) {
    cst_candidate best = {.scope = l->soup.config->scope};
    if (l->searched)
        best.weights = l->best;
    if (l->single >= 0) {
        best.members = &l->single;
        best.count = 1;
        best.scope = CST_MIX_MODEL;
    }
    put_weights(l);
    return cst_soup_finish(context, &l->soup, &best, l->hash, l->score, out, report);
}

cst_status cst_soup_learned(cst_context *context, const char *const *paths, int32_t count,
                            const cst_soup_config *config, const char *out, cst_report **report) {
    if (report)
        *report = NULL;
    CST_ENTER(context);
    CST_SEED(context, config ? config->seed : 0);
    learned l = {.single = -1};
    cst_notices_clear(context);
    cst_status status = cst_soup_check_call(context, __func__, paths, count, out);
    if (status == CST_OK && config)
        status = check_search(context, config, count);
    CST_TRY(cst_soup_open(context, &l.soup, "learned", paths, count, config, "nll"));
    CST_TRY(prepare(context, &l));
    CST_TRY(try_corners(context, &l));
    if (status == CST_OK && count > 1)
        status = run_search(context, &l);
    CST_TRY(finish(context, &l, out, report));
    cst_free(context, l.best);
    cst_free(context, l.weights);
    cst_free(context, l.normals);
    cst_free(context, l.point);
    cst_soup_close(context, &l.soup);
    return cst_why(context, status);
}
