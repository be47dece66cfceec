/* Everything that a service needs: a model is loaded, predictors of it predict. This part of the
 * interface is also a library of its own, libcorestack-predict, which needs libc and libm alone.
 * docs/serving.md. */
#ifndef CORESTACK_PREDICT_H
#define CORESTACK_PREDICT_H

#include <corestack/export.h>
#include <corestack/status.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- context ---- */

#define CST_VERSION_MAJOR 0
#define CST_VERSION_MINOR 1
#define CST_VERSION_PATCH 0
#define CST_VERSION_STRING "0.1.0"
/* For comparisons: major * 1,000,000 + minor * 1,000 + patch. */
#define CST_VERSION_NUMBER                                                                         \
    (CST_VERSION_MAJOR * 1000000 + CST_VERSION_MINOR * 1000 + CST_VERSION_PATCH)

typedef struct cst_context cst_context;

typedef enum cst_log_level {
    CST_LOG_DEBUG = 0,
    CST_LOG_INFO = 1,
    CST_LOG_WARNING = 2
} cst_log_level;

/* Called for each message; `message` is valid during the call only. */
typedef void (*cst_log_fn)(void *user, cst_log_level level, const char *message);

/* Creates a context with the C allocator, no logger, no progress callback and one thread per core
 * that the process may use. *out belongs to the caller (cst_context_free) and is NULL on failure.
 * CST_ERROR_MEMORY if memory runs out. */
CST_API cst_status cst_context_create(cst_context **out);

/* Frees a context; NULL is accepted. Objects created with the context must be freed first. */
CST_API void cst_context_free(cst_context *context);

/* Sets the function that receives notices and log messages, called with `user`; NULL removes it. */
CST_API void cst_context_set_log(cst_context *context, cst_log_fn log, void *user);

/* Returns the message of the last call that failed on this context: what is wrong, where, and what
 * to do; "" if none failed. Borrowed: valid until the next call on the context. */
CST_API const char *cst_last_error(const cst_context *context);

/* Returns the version of the library, "major.minor.patch". Static. */
CST_API const char *cst_version(void);

/* Frees a string or array that the library returned to the caller; NULL is accepted. */
CST_API void cst_free(cst_context *context, void *pointer);

/* realloc_fn(user, NULL, n) allocates, realloc_fn(user, p, 0) frees and returns NULL. Called from
 * several threads at once. */
typedef void *(*cst_realloc_fn)(void *user, void *pointer, size_t bytes);

/* Creates a context like cst_context_create that allocates with `realloc_fn` (NULL: the C
 * allocator), which is called with `user`. For programs with an allocator of their own. */
CST_API cst_status cst_context_create_with(cst_context **out, cst_realloc_fn realloc_fn,
                                           void *user);

/* ---- model ---- */

/* What the members predict. Values are stored in model files. */
typedef enum cst_task {
    CST_TASK_CLASSIFICATION = 0, /* a distribution over classes for each sample */
    CST_TASK_REGRESSION = 1,     /* one or more values for each sample */
    CST_TASK_SEGMENTATION = 2,   /* a distribution over classes for each pixel of an image */
    CST_TASK_DETECTION = 3,      /* boxes with a category and a score for each image */
    CST_TASK_MULTILABEL = 4,     /* an independent probability for each label of a sample */
    CST_TASK_TOPK = 5 /* the likeliest classes of each sample with their log-probabilities */
} cst_task;

typedef struct cst_model cst_model;

/* Reads a model file; a pipe is read to its end. CST_ERROR_FORMAT, with the byte offset, for a file
 * that is not a model, is truncated, or has a wrong checksum or impossible sizes;
 * CST_ERROR_UNSUPPORTED for a newer format version. *out belongs to the caller (cst_model_free). */
CST_API cst_status cst_model_load(cst_context *context, cst_model **out, const char *path);

/* Reads a model from memory, like cst_model_load. `bytes` [size] is read during the call only. *out
 * belongs to the caller (cst_model_free). */
CST_API cst_status cst_model_load_memory(cst_context *context, cst_model **out, const void *bytes,
                                         size_t size);

/* Takes a further reference to a model, which stays until cst_model_free has been called for each,
 * and returns it. For programs that replace a model while other threads use it: a thread takes a
 * reference under the lock that guards the pointer. Any thread; NULL is accepted. */
CST_API cst_model *cst_model_retain(cst_model *model);

/* Gives a reference back, and frees the model with the last one, in whatever thread that is; NULL
 * is accepted. A predictor has a reference of its own. The context that the model was made with is
 * freed after it. */
CST_API void cst_model_free(cst_context *context, cst_model *model);

/* Returns the task that the model was fitted for. */
CST_API cst_task cst_model_task(const cst_model *model);

/* Returns the number of members that prediction needs. */
CST_API int64_t cst_model_members(const cst_model *model);

/* Returns the number of classes; for regression, of outputs. */
CST_API int64_t cst_model_classes(const cst_model *model);

/* Returns the name of member `member` (0..members-1), in the order in which prediction expects the
 * members; NULL beyond. Borrowed. */
CST_API const char *cst_model_member_name(const cst_model *model, int32_t member);

/* Returns the weight of a member in the log-linear pool of the model (of a blend of several the
 * first), i.e. the exponent of its probabilities; in a model that is linear in its members its
 * coefficient, for a regression the mean over the outputs. NaN for other models. */
CST_API double cst_model_member_weight(const cst_model *model, int32_t member);

/* Returns the name of class `c`, or NULL if the pool had no names. Borrowed. */
CST_API const char *cst_model_class_name(const cst_model *model, int32_t c);

/* Decides for a class in rows of probabilities [rows][classes] of the model: as its metric is best
 * (option "metric"), else for the largest; equal ones go to the lowest class. out: [rows]. */
CST_API cst_status cst_model_decide(cst_context *context, const cst_model *model,
                                    const float *probabilities, int64_t rows, int32_t *out);

/* Returns setting `index` that the model was fitted with, as "key=value"; NULL beyond. Borrowed. */
CST_API const char *cst_model_setting(const cst_model *model, size_t index);

/* ---- prediction without allocation ---- */

/* The memory that one thread needs to predict with one model. */
typedef struct cst_predictor cst_predictor;

/* Creates a predictor, which takes a reference to the model. Any number of predictors, one per
 * thread, may share a model. *out belongs to the caller (cst_predictor_free, before the context
 * is freed); predictions do not use the context. */
CST_API cst_status cst_predictor_create(cst_context *context, cst_predictor **out,
                                        const cst_model *model);

/* Predicts like cst_model_predict (corestack/corestack.h), with an identical result and the
 * same errors, for one or more samples on the calling thread. Nothing is allocated, no lock is
 * taken, and only the predictor and `out` are written. One thread at a time may use a predictor. */
CST_API cst_status cst_predictor_predict(cst_predictor *predictor, const float *const *predictions,
                                         int64_t rows, float *out);

/* Predicts when some members are absent, with the same guarantees as cst_predictor_predict.
 * present: [members], 0 for an absent member, whose predictions[k] is not read and may be NULL;
 * NULL: all are present. The weights of the others are computed again for this set of members from
 * what the fit stored about its loss: the same as a fit without the absent members for linear
 * learners with the same penalty, and close to it for the log-linear pool. A gate is left out. For
 * models without this information (older files) weights are only scaled. CST_ERROR_INPUT if every
 * member is absent. The weights for one set of members are computed when it first occurs (a few
 * microseconds for a dozen members) and kept until another set occurs. */
CST_API cst_status cst_predictor_predict_present(cst_predictor *predictor,
                                                 const float *const *predictions,
                                                 const uint8_t *present, int64_t rows, float *out);

/* Data type of the elements of an array, in native byte order. */
typedef enum cst_number {
    CST_NUMBER_FLOAT32 = 0,
    CST_NUMBER_FLOAT64 = 1,
    CST_NUMBER_FLOAT16 = 2
} cst_number;

/* A matrix in memory. Steps are in bytes and may be negative: C order, Fortran order,
 * every second row, rows backwards. `data` is the element of row 0 and column 0. */
typedef struct cst_array {
    const void *data;
    cst_number type;
    int64_t row_step;
    int64_t column_step;
} cst_array;

/* Predicts like cst_predictor_predict from arrays [members] of any layout and type, which are
 * converted a block of rows at a time. Rows of one member are predictions[k], elements by its
 * steps. For programs whose arrays are float16, float64 or strided. */
CST_API cst_status cst_predictor_predict_arrays(cst_predictor *predictor,
                                                const cst_array *predictions, int64_t rows,
                                                float *out);

/* Sets the domain of the rows of later predictions, until it is set again: its scale and biases are
 * used. A domain that the model does not know, and NULL, the start: the common ones. */
CST_API cst_status cst_predictor_set_domain(cst_predictor *predictor, const char *domain);

/* Returns the message of the last call of the predictor that failed, in one line; "" if none
 * failed. Borrowed: valid until the next call. */
CST_API const char *cst_predictor_error(const cst_predictor *predictor);

/* Frees a predictor; NULL is accepted. context: the one it was created with. */
CST_API void cst_predictor_free(cst_context *context, cst_predictor *predictor);

/* ---- the guard of a stream: docs/prediction.md#guard ---- */

/* What the guard found in one batch. */
typedef struct cst_guard_batch {
    int64_t condition; /* of the split; 0 without conditions */
    int64_t first;     /* first row, counted over all conditions */
    int64_t rows;
    int tested;    /* 0: it has fewer than 50 rows, which does not matter for a case */
    int fired;     /* 1: it looks unlike the fit rows */
    double pi;     /* upper bound of the share of rows that are like the fit rows; 1: no sign of
                      others. Of a case 0 for one that is surely unlike the fit */
    double unlike; /* 1 - pi */
    double lambda; /* mean weight of the average in its rows */
    double z;      /* mean confidence of the stack against the fit's for the classes it predicts, in
                      standard errors; below -4 the batch has fired. NaN: not tested, or a
                      segmentation */
    double accuracy; /* probable accuracy of the stack, unless class shares have changed; NaN */
    double flatten;  /* temperature of the stack where the average is mixed in, 0.3 to 1 */
    double sharpen;  /* temperature of the average, 1 to 4 */
} cst_guard_batch;

/* Returns 1 if the model stores what the guard compares batches with: models of classification and
 * segmentation that were fitted on 200 rows or more (and for segmentation on 8 cases or more) by a
 * version that has the guard. */
CST_API int cst_model_has_guard(const cst_model *model);

/* Returns the number of members that the fit left out of the model. For programs that size arrays
 * of them. */
CST_API int64_t cst_model_others(const cst_model *model);

/* Returns the name of a member that was left out (0..others-1); NULL beyond. Borrowed. */
CST_API const char *cst_model_other_name(const cst_model *model, int32_t other);

#define CST_GUARD_WINDOW_MAX 65536

/* Lets cst_predictor_predict_guarded keep the last `window` rows, 50 to CST_GUARD_WINDOW_MAX (100
 * is good), and forgets earlier ones; 0 ends guarding and frees the memory, a few hundred bytes a
 * row. CST_ERROR_UNSUPPORTED if the model has no guard (cst_model_has_guard), as adapted models. */
CST_API cst_status cst_predictor_set_guard(cst_predictor *predictor, int64_t window);

/* Predicts like cst_predictor_predict, row after row: each is mixed as the guard does in a batch of
 * the last `window` rows up to it, so a result depends on the rows before. others: NULL,
 * or [others] of [rows][classes], NULL for those that are not there. found: NULL, or what the
 * window looks like after the last row (`first` counts all rows of the predictor): when `fired`
 * turns 1, it is time to run the other members. Rows are taken in only when all of the call are
 * right. Allocates nothing. */
CST_API cst_status cst_predictor_predict_guarded(cst_predictor *predictor,
                                                 const float *const *predictions,
                                                 const float *const *others, int64_t rows,
                                                 float *out, cst_guard_batch *found);

/* ---- cascades: rows in flight, without allocation. docs/cascades.md ---- */

/* Returns 1 if the model has a cascade. For programs that run one where there is one. */
CST_API int cst_model_has_cascade(const cst_model *model);

typedef struct cst_cascade cst_cascade;

/* Makes room for `rows` rows in flight. *out belongs to the caller (cst_cascade_free), before the
 * predictor is freed, which it uses. CST_ERROR_UNSUPPORTED for models without a cascade. */
CST_API cst_status cst_cascade_create(cst_context *context, cst_cascade **out,
                                      cst_predictor *predictor, int64_t rows);

/* Begins a row in place `row` (0..rows-1) and forgets the one before. whole: 1 to run all members
 * whatever they say; such rows are what the predictor's guard is fed with
 * (cst_predictor_set_guard), so with a guard make one row in ten whole. While the guard sees a
 * shift, every row is whole. */
CST_API cst_status cst_cascade_start(cst_cascade *cascade, int64_t row, int whole);

/* Returns the member that a row waits for, a position in the model; -1 if it has its answer, or was
 * not begun. */
CST_API int32_t cst_cascade_next(const cst_cascade *cascade, int64_t row);

/* Lists the rows that wait for a member, to run it on them together: rows has room for all in
 * flight. Returns their number. */
CST_API int64_t cst_cascade_waiting(const cst_cascade *cascade, int32_t member, int64_t *rows);

/* Takes the probabilities [classes] of the member that the row waits for. CST_ERROR_INPUT if they
 * are none (cst_predictor_error says why); the row then still waits. */
CST_API cst_status cst_cascade_give(cst_cascade *cascade, int64_t row, const float *probabilities);

/* Copies the answer of a row, or, before that, the best so far: the pool of the last stage whose
 * members have all run, which is calibrated for them. Returns how many members it is of; 0: none
 * has run, and classes are equally likely; -1: there is no such row. out: [classes]. */
CST_API int32_t cst_cascade_answer(const cst_cascade *cascade, int64_t row, float *out);

/* Frees a cascade; NULL is accepted. */
CST_API void cst_cascade_free(cst_context *context, cst_cascade *cascade);

#ifdef __cplusplus
}
#endif
#endif
