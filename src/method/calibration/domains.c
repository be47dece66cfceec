/* The domain-aware layer: fit of each domain's scale and biases, application. See the header. */

#include "method/calibration/calibration.h"
#include "stats/samples.h"

#include <math.h>
#include <string.h>

static const double TOLERANCE = 1e-16;
/* Of rows without labels; that of option domain.prior_bias. */
static const double BIAS_PRECISION = 10;

cst_status cst_domain_map_alloc(cst_context *context, int32_t count, int32_t classes,
                                cst_domain_map **out) {
    size_t n = (size_t)count;
    size_t cells = 0;
    *out = NULL;
    if (!cst_size_mul(n, (size_t)classes, &cells))
        return cst_fail(context, CST_ERROR_LIMIT, "%d domains of %d classes are too many",
                        (int)count, (int)classes);
    cst_domain_map *map = cst_alloc(context, 1, sizeof *map);
    if (!map)
        return CST_ERROR_MEMORY;
    *out = map;
    *map = (cst_domain_map){.classes = classes, .count = count};
    CST_TAKE(context, &map->scope, map->names, n);
    CST_TAKE(context, &map->scope, map->rows, n);
    CST_TAKE(context, &map->scope, map->scale, n);
    CST_TAKE(context, &map->scope, map->bias, cells);
    CST_TAKE(context, &map->scope, map->before, n);
    CST_TAKE(context, &map->scope, map->after, n);
    return CST_OK;
}

void cst_domain_map_free(cst_context *context, cst_domain_map *map) {
    if (map)
        cst_scope_free(&map->scope);
    cst_free(context, map);
}

/* The rows of one domain. Points are [1 + C]: the scale, then the biases. */
typedef struct domain_job {
    float *logs;          /* [rows][classes], each row less its largest */
    int32_t *labels;      /* NULL: `shares` instead, and the scale stays 1 */
    const double *shares; /* [classes] */
    double *weights;
    int64_t rows;
    int32_t classes;
    const cst_domain_priors *priors;
    const double *theta;
} domain_job;

/* softmax of a row's scores in place; returns the log of the normaliser. */
static double softmax_row(size_t classes, double *q) {
    double top = -INFINITY;
    double total = 0;
    for (size_t c = 0; c < classes; c++)
        top = fmax(top, q[c]);
    for (size_t c = 0; c < classes; c++) {
        q[c] = exp(q[c] - top);
        total += q[c];
    }
    for (size_t c = 0; c < classes; c++)
        q[c] /= total;
    return total > 0 ? top + log(total) : top;
}

/* sum: loss, gradient [1 + C], the Hessian's diagonal [1 + C]. */
static cst_status loss_block(cst_context *worker, void *user, int64_t block, double *sum) {
    const domain_job *job = user;
    size_t classes = (size_t)job->classes;
    int64_t first = cst_block_first(block);
    int64_t end = first + cst_block_size(job->rows, block);
    CST_SCOPE(scope);
    CST_NEW(worker, scope, double, q, classes);
    double *gradient = sum + 1;
    double *curvature = gradient + 1 + classes;
    for (int64_t i = first; i < end; i++) {
        const float *row = job->logs + (size_t)i * classes;
        double weight = job->weights ? job->weights[i] : 1;
        double mean = 0;
        double square = 0;
        for (size_t c = 0; c < classes; c++)
            q[c] = job->theta[0] * (double)row[c] + job->theta[1 + c];
        sum[0] += weight * softmax_row(classes, q);
        for (size_t c = 0; c < classes; c++) {
            double x = (double)row[c];
            mean += q[c] * x;
            square += q[c] * x * x;
            gradient[1 + c] += weight * q[c];
            curvature[1 + c] += weight * q[c] * (1 - q[c]);
        }
        for (size_t c = 0; job->shares && c < classes; c++) {
            sum[0] -= weight * job->shares[c] * ((double)row[c] + job->theta[1 + c]);
            gradient[1 + c] -= weight * job->shares[c];
        }
        if (job->shares)
            continue;
        size_t label = (size_t)job->labels[i];
        sum[0] -= weight * (job->theta[0] * (double)row[label] + job->theta[1 + label]);
        gradient[0] += weight * (mean - (double)row[label]);
        gradient[1 + label] -= weight;
        curvature[0] += weight * (square - mean * mean);
    }
    return CST_OK;
}

static cst_status evaluate(cst_context *context, void *user, const double *theta, double *sums) {
    domain_job *job = user;
    size_t size = 1 + (size_t)job->classes;
    job->theta = theta;
    cst_status status =
        cst_reduce_blocks(context, cst_block_count(job->rows), 1 + 2 * size, loss_block, job, sums);
    for (size_t j = 0; j < size; j++) {
        double precision = j == 0 ? job->priors->scale : job->priors->bias;
        double offset = theta[j] - (j == 0 ? 1 : 0);
        sums[0] += 0.5 * precision * offset * offset;
        sums[1 + j] += precision * offset;
        sums[1 + size + j] = fmax(sums[1 + size + j], 0) + precision;
    }
    return status;
}

static void solve_diagonal(const void *user, const double *sums, double *v) {
    const domain_job *job = user;
    size_t size = 1 + (size_t)job->classes;
    for (size_t j = 0; j < size; j++)
        v[j] /= sums[1 + size + j];
}

/* The rows of domain d of a view into the job's arrays, which have room for them. */
static void take_rows(const cst_view *view, const float *probabilities, int32_t d,
                      domain_job *job) {
    size_t classes = (size_t)job->classes;
    int64_t to = 0;
    for (int64_t i = 0; i < view->rows; i++) {
        if (cst_view_domain(view, i) != d)
            continue;
        const float *from = probabilities + (size_t)i * classes;
        float *row = job->logs + (size_t)to * classes;
        double top = CST_NLL_FLOOR;
        for (size_t c = 0; c < classes; c++)
            top = fmax(top, (double)from[c]);
        for (size_t c = 0; c < classes; c++)
            row[c] = (float)log(fmax((double)from[c], CST_NLL_FLOOR) / top);
        job->labels[to] = cst_view_label(view, i);
        job->weights[to++] = cst_view_weight(view, i);
    }
    job->rows = to;
}

static cst_status fit_domain(cst_context *context, domain_job *job, double *theta) {
    size_t size = 1 + (size_t)job->classes;
    const cst_descent descent = {.size = size,
                                 .sums = 1 + 2 * size,
                                 .tolerance = TOLERANCE,
                                 .evaluate = evaluate,
                                 .solve = solve_diagonal,
                                 .user = job,
                                 .name = "the layer of a domain"};
    memset(theta, 0, size * sizeof *theta);
    theta[0] = 1;
    return cst_descend(context, &descent, theta);
}

cst_status cst_domain_biases(cst_context *context, const float *probabilities, int64_t rows,
                             int32_t classes, const double *shares, double *bias) {
    const cst_domain_priors priors = {.scale = 1, .bias = BIAS_PRECISION};
    size_t cells = 0;
    if (!cst_size_mul((size_t)rows, (size_t)classes, &cells))
        return cst_fail(context, CST_ERROR_LIMIT, "the rows without labels are too many");
    domain_job job = {.rows = rows, .classes = classes, .priors = &priors, .shares = shares};
    CST_SCOPE(scope);
    CST_NEW(context, scope, double, theta, 1 + (size_t)classes);
    CST_TAKE(context, scope, job.logs, cells);
    for (size_t i = 0; i < cells; i++)
        job.logs[i] = (float)log(fmax((double)probabilities[i], CST_NLL_FLOOR));
    CST_TRY(fit_domain(context, &job, theta));
    memcpy(bias, theta + 1, (size_t)classes * sizeof *bias);
    return CST_OK;
}

/* Fits every domain that has rows; the others keep a scale of 1 and no biases. */
static cst_status fit_all(cst_context *context, const cst_view *view, const float *probabilities,
                          const cst_domain_priors *priors, cst_domain_map *map) {
    size_t classes = (size_t)map->classes;
    int64_t most = 0;
    for (int64_t i = 0; i < view->rows; i++) {
        int32_t d = cst_view_domain(view, i);
        if (d >= 0)
            map->rows[d]++;
    }
    for (int32_t d = 0; d < map->count; d++) {
        most = map->rows[d] > most ? map->rows[d] : most;
        map->names[d] = cst_take_text(context, &map->scope, view->domains->names[d]);
        if (!map->names[d])
            return CST_ERROR_MEMORY;
    }
    size_t cells = 0;
    if (!cst_size_mul((size_t)most, classes, &cells))
        return cst_fail(context, CST_ERROR_LIMIT, "the rows of a domain are too many");
    domain_job job = {.classes = map->classes, .priors = priors};
    CST_SCOPE(scope);
    CST_NEW(context, scope, double, theta, 1 + classes);
    CST_TAKE(context, scope, job.logs, cells);
    CST_TAKE(context, scope, job.labels, most);
    CST_TAKE(context, scope, job.weights, most);
    for (int32_t d = 0; d < map->count; d++) {
        take_rows(view, probabilities, d, &job);
        map->scale[d] = 1;
        if (job.rows == 0)
            continue;
        CST_TRY(fit_domain(context, &job, theta));
        map->scale[d] = theta[0];
        memcpy(map->bias + (size_t)d * classes, theta + 1, classes * sizeof *theta);
    }
    return CST_OK;
}

cst_status cst_domain_map_fit(cst_context *context, const cst_view *view,
                              const float *probabilities, const cst_domain_priors *priors,
                              cst_domain_map **out) {
    cst_status status = cst_domain_map_alloc(context, view->domains->count, view->classes, out);
    CST_THEN(fit_all(context, view, probabilities, priors, *out));
    if (status != CST_OK) {
        cst_domain_map_free(context, *out);
        *out = NULL;
    }
    return status;
}

void cst_domain_rows(const cst_domain_map *map, int32_t d, int64_t count, double *probabilities) {
    size_t classes = (size_t)map->classes;
    if (d < 0)
        return;
    const double *bias = map->bias + (size_t)d * classes;
    for (int64_t i = 0; i < count; i++) {
        double *row = probabilities + (size_t)i * classes;
        for (size_t c = 0; c < classes; c++)
            row[c] = map->scale[d] * log(fmax(row[c], CST_NLL_FLOOR)) + bias[c];
        (void)softmax_row(classes, row);
    }
}

cst_status cst_domain_places(cst_context *context, const cst_domain_map *map,
                             const cst_domains *domains, int32_t **out) {
    int32_t *places = cst_alloc(context, (size_t)domains->count, sizeof *places);
    *out = places;
    for (int32_t d = 0; places && d < domains->count; d++)
        places[d] = cst_domain_find(map->names, map->count, domains->names[d]);
    return places ? CST_OK : CST_ERROR_MEMORY;
}
