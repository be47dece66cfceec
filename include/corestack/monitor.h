/* A monitor of a fitted stack: whether batches of rows without labels look like the rows of the
 * fit, how its members drift, and what accuracy can be expected. Classification only.
 * docs/prediction.md#monitor. */
#ifndef CORESTACK_MONITOR_H
#define CORESTACK_MONITOR_H

#include <corestack/fit.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct cst_monitor cst_monitor;

/* Options of cst_monitor_create. Zero-initialise, then set the fields that should differ from the
 * default. */
typedef struct cst_monitor_options {
    size_t struct_size; /* sizeof(cst_monitor_options), or 0 for the fields of version 0.1 */
    double alpha; /* probability of a false alarm over the whole life of the monitor; 0: 0.01; below
                     1 */
    int in_order; /* non-zero: rows of a batch are in time order; else they are tested in a fixed
                     random order, so that files sorted by class are no cause of an alarm */
    const char *metric; /* of labelled rows, as option "metric" of a fit; NULL: that of the fit */
} cst_monitor_options;

/* Creates a monitor. The model is not copied and must outlive it. options: NULL for the defaults.
 * CST_ERROR_UNSUPPORTED for a model of another task, an adapted or restricted model, and a model
 * without section MONI (written by an older version, or fitted on fewer than 50 rows that every
 * member predicted). *out belongs to the caller (cst_monitor_free). */
CST_API cst_status cst_monitor_create(cst_context *context, cst_monitor **out,
                                      const cst_model *model, const cst_monitor_options *options);

/* Adds the rows of a split as a batch; with conditions, each condition as one, in their order. The
 * evidence against "like the fit rows" is a test martingale (docs/prediction.md#monitor):
 * with rows like the fit rows, the probability that it ever reaches 1 / alpha, over any number
 * of batches, is at most alpha. An alarm stays until a new monitor is created. name: what reports
 * call the batch; NULL: the name of the split. *alarm (may be NULL): 1 after an alarm in this or an
 * earlier batch, else 0. Labels are used for the observed accuracy alone. One thread at a time.
 * After an error the monitor is as it was before the call. */
CST_API cst_status cst_monitor_batch(cst_context *context, cst_monitor *monitor, cst_pool *pool,
                                     const char *split, const char *name, int *alarm);

/* Returns 1 after an alarm, else 0. */
CST_API int cst_monitor_alarm(const cst_monitor *monitor);

/* Returns the evidence after the last row, 1 at the start; values above 1e12 are given as 1e12. */
CST_API double cst_monitor_evidence(const cst_monitor *monitor);

/* Returns the number of rows tested so far. */
CST_API int64_t cst_monitor_rows(const cst_monitor *monitor);

/* A report of the batches added since the monitor was created or loaded, with the notices of adding
 * them. Keys: docs/json.md. *report belongs to the caller. */
CST_API cst_status cst_monitor_report(cst_context *context, const cst_monitor *monitor,
                                      cst_report **report);

/* Writes the state of the test to a file: to a temporary name in the same folder, synced, then
 * renamed. At most 0.1 MB, however many rows there were. */
CST_API cst_status cst_monitor_save(cst_context *context, const cst_monitor *monitor,
                                    const char *path);

/* Continues from a state. options: NULL for those of the state; CST_ERROR_INPUT for another alpha.
 * CST_ERROR_FORMAT for a file that is damaged or not a state, CST_ERROR_MISMATCH for the state of
 * another model, CST_ERROR_UNSUPPORTED for a newer version. *out belongs to the caller. */
CST_API cst_status cst_monitor_load(cst_context *context, cst_monitor **out, const cst_model *model,
                                    const char *path, const cst_monitor_options *options);

/* Frees a monitor; NULL is accepted. */
CST_API void cst_monitor_free(cst_context *context, cst_monitor *monitor);

#ifdef __cplusplus
}
#endif
#endif
