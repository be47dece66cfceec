/*
 * Minimises a function of which only values are known: the evolution strategy with a diagonal
 * covariance (sep-CMA-ES). Under learned soups, whose function is a user's program. Ros and Hansen
 * 2008, "A Simple Modification in CMA-ES Achieving Linear Time and Space Complexity";
 * docs/weights.md.
 */
#ifndef CST_WEIGHTS_SEARCH_H
#define CST_WEIGHTS_SEARCH_H

#include "base/base.h"

typedef struct cst_search cst_search;

/* A search in `dimension` (1 or more) dimensions that starts around `start` [dimension] (NULL: the
 * origin) with standard deviation `sigma` > 0 in each of them. */
cst_status cst_search_create(cst_context *context, cst_search **out, int64_t dimension,
                             const double *start, double sigma);
void cst_search_free(cst_context *context, cst_search *search);

/* Points of a generation: 4 + floor(3 ln dimension). */
int32_t cst_search_population(const cst_search *search);

/* Point `index` (below the population) of this generation, made of `normals` [dimension], draws of
 * the standard normal distribution that are the caller's; x [dimension]. */
void cst_search_point(cst_search *search, int32_t index, const double *normals, double *x);

/* Ends the generation: what the function is at each of its points, [population]. Only their order
 * matters; of equal values the first is the better, and one that is no number is the worst. */
void cst_search_update(cst_search *search, const double *values);

/* Where the next generation is around, [dimension], borrowed, and how far it reaches: the largest
 * standard deviation of any dimension. */
const double *cst_search_mean(const cst_search *search);
double cst_search_reach(const cst_search *search);

#endif
