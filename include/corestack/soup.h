/* Soups: one network whose weights are the mean of several fine-tuned ones. The library averages
 * and scores; predicting is a program of the caller's. docs/weights.md. Paper: Related Work
 * (weight-space fusion); Wortsman et al. 2022, "Model soups". */
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

/* How candidates are scored. Zero-initialise, then set the fields that should differ from the
 * default. */
typedef struct cst_soup_config {
    size_t struct_size; /* sizeof(cst_soup_config), or 0 for the fields of version 0.1 */
    cst_soup_hook hook;
    void *user;
    const char *labels; /* a file with the class, or regression targets, of each row */
    cst_task task;      /* CST_TASK_CLASSIFICATION or CST_TASK_REGRESSION */
    cst_output output;  /* what the hook writes; not read for a regression */
    const char *metric; /* "top1", "nll", "brier", "ece"; for regression "rmse", "mae"; NULL: top1
                           or rmse */
} cst_soup_config;

/* Writes the mean of the files to `out` ("uniform soup" of Wortsman et al. 2022): an exact sum
 * divided once and rounded once, except for F64. *report belongs to the caller; NULL if not wanted.
 */
CST_API cst_status cst_soup_uniform(cst_context *context, const char *const *paths, int64_t count,
                                    const char *out, cst_report **report);

/* Scores each file, then goes through them from best to worst and keeps a file if the average of
 * the kept files does not score worse with it ("greedy soup", Recipe 1 of Wortsman et al. 2022).
 * Ties are taken in the order of `paths`. Writes the average of the kept files to `out`, equal to
 * cst_soup_uniform of these files in the order of `paths`. Candidates and predictions are in a
 * folder soup-XXXXXX beside `out`, which is removed at the end. The report contains every step; it
 * belongs to the caller. */
CST_API cst_status cst_soup_greedy(cst_context *context, const char *const *paths, int64_t count,
                                   const cst_soup_config *config, const char *out,
                                   cst_report **report);

#ifdef __cplusplus
}
#endif
#endif
