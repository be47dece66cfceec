/*
 * Minimises a function of which only values are known: the evolution strategy with a diagonal
 * covariance (sep-CMA-ES). Under learned soups, whose function is a user's program.
 * Ros and Hansen 2008; constants of Hansen's tutorial (arXiv 1604.00772v1, table 1; the second
 * version has a larger c_mu) without negative weights, rates of the covariance times (n + 2) / 3.
 */
#include "weights/search.h"

#include <math.h>
#include <stdlib.h>

/* Standard deviations are held in these bounds, so that a flat or steep function cannot end them.
 */
static const double MIN_SIGMA = 1e-150;
static const double MAX_SIGMA = 1e150;

typedef struct ranked {
    double value;
    int32_t index;
} ranked;

struct cst_search {
    int64_t dimension;  /* n */
    int32_t population; /* lambda */
    int32_t parents;    /* mu */
    int64_t generation;
    double sigma;
    double parent_mass; /* mu_eff */
    double rate_sigma;  /* c_sigma */
    double damping;     /* d_sigma */
    double rate_path;   /* c_c */
    double rate_one;    /* c_1 */
    double rate_mu;     /* c_mu */
    double length;      /* E|N(0, I)| */
    double *weight;     /* [mu], sum 1 */
    double *mean;       /* m [n] */
    double *variance;   /* diagonal of C [n] */
    double *path_sigma; /* [n] */
    double *path;       /* p_c [n] */
    double *step;       /* y = sqrt(C) z of each point, [lambda][n] */
    ranked *order;      /* [lambda] */
};

static void set_rates(cst_search *s) {
    double n = (double)s->dimension;
    double sum = 0;
    double squares = 0;
    for (int32_t i = 0; i < s->parents; i++) {
        s->weight[i] = log(0.5 * ((double)s->population + 1)) - log((double)i + 1);
        sum += s->weight[i];
    }
    for (int32_t i = 0; i < s->parents; i++) {
        s->weight[i] /= sum;
        squares += s->weight[i] * s->weight[i];
    }
    double mass = 1 / squares;
    double faster = (n + 2) / 3; /* a diagonal has n entries to learn, not n (n + 1) / 2 */
    s->parent_mass = mass;
    s->rate_sigma = (mass + 2) / (n + mass + 5);
    s->damping = 1 + 2 * fmax(0, sqrt((mass - 1) / (n + 1)) - 1) + s->rate_sigma;
    s->rate_path = (4 + mass / n) / (n + 4 + 2 * mass / n);
    s->rate_one = fmin(1, faster * 2 / ((n + 1.3) * (n + 1.3) + mass));
    s->rate_mu =
        fmin(1 - s->rate_one, faster * 2 * (mass - 2 + 1 / mass) / ((n + 2) * (n + 2) + mass));
    s->length = sqrt(n) * (1 - 1 / (4 * n) + 1 / (21 * n * n));
}

cst_status cst_search_create(cst_context *context, cst_search **out, int64_t dimension,
                             const double *start, double sigma) {
    *out = NULL;
    cst_search *s = cst_alloc(context, 1, sizeof *s);
    if (!s)
        return CST_ERROR_MEMORY;
    size_t n = (size_t)dimension;
    size_t steps = 0;
    s->dimension = dimension;
    s->population = 4 + (int32_t)floor(3 * log((double)dimension));
    s->parents = s->population / 2;
    s->sigma = sigma;
    if (cst_size_mul(n, (size_t)s->population, &steps)) {
        s->weight = cst_alloc(context, (size_t)s->parents, sizeof *s->weight);
        s->mean = cst_alloc(context, n, sizeof *s->mean);
        s->variance = cst_alloc(context, n, sizeof *s->variance);
        s->path_sigma = cst_alloc(context, n, sizeof *s->path_sigma);
        s->path = cst_alloc(context, n, sizeof *s->path);
        s->step = cst_alloc(context, steps, sizeof *s->step);
        s->order = cst_alloc(context, (size_t)s->population, sizeof *s->order);
    }
    if (!s->weight || !s->mean || !s->variance || !s->path_sigma || !s->path || !s->step ||
        !s->order) {
        cst_search_free(context, s);
        return CST_ERROR_MEMORY;
    }
    for (size_t i = 0; i < n; i++) {
        s->mean[i] = start ? start[i] : 0;
        s->variance[i] = 1;
    }
    set_rates(s);
    *out = s;
    return CST_OK;
}

void cst_search_free(cst_context *context, cst_search *search) {
    if (!search)
        return;
    cst_free(context, search->weight);
    cst_free(context, search->mean);
    cst_free(context, search->variance);
    cst_free(context, search->path_sigma);
    cst_free(context, search->path);
    cst_free(context, search->step);
    cst_free(context, search->order);
    cst_free(context, search);
}

int32_t cst_search_population(const cst_search *search) {
    return search->population;
}

void cst_search_point(cst_search *search, int32_t index, const double *normals, double *x) {
    double *step = search->step + index * search->dimension;
    for (int64_t i = 0; i < search->dimension; i++) {
        step[i] = sqrt(search->variance[i]) * normals[i];
        x[i] = search->mean[i] + search->sigma * step[i];
    }
}

static int by_value(const void *a, const void *b) {
    const ranked *left = a;
    const ranked *right = b;
    if (isnan(left->value) != isnan(right->value))
        return isnan(left->value) ? 1 : -1;
    if (left->value < right->value || left->value > right->value)
        return left->value < right->value ? -1 : 1;
    return (left->index > right->index) - (left->index < right->index);
}

/* Moves the mean and the path of the step length; returns the square of that path's length. */
static double move_mean(cst_search *s) {
    double keep = 1 - s->rate_sigma;
    double gain = sqrt(s->rate_sigma * (2 - s->rate_sigma) * s->parent_mass);
    double squares = 0;
    for (int64_t i = 0; i < s->dimension; i++) {
        double move = 0;
        for (int32_t k = 0; k < s->parents; k++)
            move += s->weight[k] * s->step[s->order[k].index * s->dimension + i];
        s->mean[i] += s->sigma * move;
        s->path_sigma[i] = keep * s->path_sigma[i] + gain * move / sqrt(s->variance[i]);
        squares += s->path_sigma[i] * s->path_sigma[i];
    }
    return squares;
}

/* The path of the covariance and its diagonal. `stalled`: the step length grows so fast that the
 * path would only follow it. */
static void adapt_variance(cst_search *s, bool stalled) {
    double keep = 1 - s->rate_path;
    double gain = stalled ? 0 : sqrt(s->rate_path * (2 - s->rate_path) * s->parent_mass);
    double made_up = stalled ? s->rate_one * s->rate_path * (2 - s->rate_path) : 0;
    for (int64_t i = 0; i < s->dimension; i++) {
        double move = 0;
        double spread = 0;
        for (int32_t k = 0; k < s->parents; k++) {
            double step = s->step[s->order[k].index * s->dimension + i];
            move += s->weight[k] * step;
            spread += s->weight[k] * step * step;
        }
        s->path[i] = keep * s->path[i] + gain * move;
        s->variance[i] = (1 - s->rate_one - s->rate_mu + made_up) * s->variance[i] +
                         s->rate_one * s->path[i] * s->path[i] + s->rate_mu * spread;
        s->variance[i] = fmin(fmax(s->variance[i], MIN_SIGMA), MAX_SIGMA);
    }
}

void cst_search_update(cst_search *search, const double *values) {
    for (int32_t k = 0; k < search->population; k++)
        search->order[k] = (ranked){values[k], k};
    qsort(search->order, (size_t)search->population, sizeof *search->order, by_value);
    search->generation++;
    double n = (double)search->dimension;
    double length = sqrt(move_mean(search));
    double warm = 1 - pow(1 - search->rate_sigma, 2 * (double)search->generation);
    bool stalled = length / sqrt(warm) >= (1.4 + 2 / (n + 1)) * search->length;
    adapt_variance(search, stalled);
    search->sigma *=
        exp(fmin(1, search->rate_sigma / search->damping * (length / search->length - 1)));
    search->sigma = fmin(fmax(search->sigma, MIN_SIGMA), MAX_SIGMA);
}

const double *cst_search_mean(const cst_search *search) {
    return search->mean;
}

double cst_search_reach(const cst_search *search) {
    double most = 0;
    for (int64_t i = 0; i < search->dimension; i++)
        most = fmax(most, search->variance[i]);
    return search->sigma * sqrt(most);
}
