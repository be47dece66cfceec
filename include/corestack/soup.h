/*
 * Soups: one network whose weights are a mix of several fine-tuned ones,
 * chosen by what the mixes predict. The library mixes and scores; predicting is a program of the
 * caller's. docs/weights.md. Paper: Related Work (weight-space fusion); Wortsman et al. 2022,
 * "Model soups".
 */
#ifndef CORESTACK_SOUP_H
#define CORESTACK_SOUP_H

#include <corestack/fit.h>
#include <corestack/weights.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Predicts with a network: reads the safetensors file `candidate` and writes its predictions for
 * every row of the labels to `predictions`, a path that ends in .npy where nothing is yet. Called
 * on the thread that called the library. What is not CST_OK ends the soup: cst_soup_fail says why.
 */
typedef cst_status (*cst_soup_hook)(cst_context *context, void *user, const char *candidate,
                                    const char *predictions);

/* Sets the last error of the context to `message` and returns `status` (CST_ERROR_INTERNAL for
 * CST_OK and for unknown values). For hooks. */
CST_API cst_status cst_soup_fail(cst_context *context, cst_status status, const char *message);

/* Evaluations of cst_soup_learned where 0 is given. */
#define CST_SOUP_EVALUATIONS 200

/* How candidates are scored and searched. Zero-initialise, then set the fields that should differ
 * from the default. */
typedef struct cst_soup_config {
    cst_soup_hook hook;
    void *user;
    const char *identity; /* what the hook computes, such as its command line: predictions are kept
                             under it. NULL: "" */
    const char *work;     /* a folder, made where it is missing: predictions are kept in it, so that
                             the same call again goes on where it was stopped; one run at a time */
    const char *labels;   /* a file with the class, or the targets of a regression, of each row */
    cst_task task;        /* CST_TASK_CLASSIFICATION or CST_TASK_REGRESSION */
    cst_output output;    /* what the hook writes; not read for a regression */
    const char *metric; /* "top1", "nll", "brier", "ece"; of a regression "rmse", "mae"; NULL: top1
                           for greedy, nll for learned soups, rmse for a regression */
    /* Of cst_soup_learned alone. */
    cst_mix_scope scope; /* a weight for each file, or for each tensor of each file */
    int any_sign;        /* non-zero: weights sum to 1 and may be negative; else 0 or more */
    int64_t evaluations; /* candidates that are scored, more than there are files; 0:
                            CST_SOUP_EVALUATIONS */
    uint64_t seed;       /* of the search; at most 2^53 */
} cst_soup_config;

/* Writes the average of the files to `out` (cst_checkpoints_mix with equal weights; "uniform soup"
 * of Wortsman et al. 2022). *report belongs to the caller; NULL if not wanted. */
CST_API cst_status cst_soup_uniform(cst_context *context, const char *const *paths, int32_t count,
                                    const char *out, cst_report **report);

/* Scores each file, then goes through them from best to worst and keeps a file if the average of
 * the kept files does not score worse with it ("greedy soup", Recipe 1 of Wortsman et al. 2022).
 * Ties are taken in the order of `paths`. Writes the average of the kept files to `out`, equal to
 * cst_soup_uniform of these files in the order of `paths`. The report contains every step; it
 * belongs to the caller. */
CST_API cst_status cst_soup_greedy(cst_context *context, const char *const *paths, int32_t count,
                                   const cst_soup_config *config, const char *out,
                                   cst_report **report);

/* Searches mixing weights. The average of all files and each single file are scored first; the
 * remaining evaluations go to a search around the average with sep-CMA-ES (Ros and Hansen 2008).
 * Writes the best candidate to `out`, the first one in case of ties. The same files, labels, seed
 * and predictions give the same bytes. *report belongs to the caller. */
CST_API cst_status cst_soup_learned(cst_context *context, const char *const *paths, int32_t count,
                                    const cst_soup_config *config, const char *out,
                                    cst_report **report);

/* Removes the files that soups store in a work folder, and the folder itself if it is then empty.
 */
CST_API cst_status cst_soup_clear(cst_context *context, const char *work);

#ifdef __cplusplus
}
#endif
#endif
