/*
 * A fitted stack: everything prediction needs and nothing more. Immutable once made; any number of
 * threads may predict with one model at the same time, each with a context of its own. File format:
 * docs/model-format.md.
 */
#ifndef CORESTACK_MODEL_H
#define CORESTACK_MODEL_H

#include <corestack/context.h>
#include <corestack/pool.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct cst_model cst_model;

/* Writes the model to a file: to a temporary name in the same folder, synced, then renamed. */
CST_API cst_status cst_model_save(cst_context *context, const cst_model *model, const char *path);

/* The bytes that cst_model_save writes, for programs that keep models elsewhere than in files.
 * *bytes
 * [*size] is the caller's, freed with cst_free. */
CST_API cst_status cst_model_save_memory(cst_context *context, const cst_model *model, void **bytes,
                                         size_t *size);

/* Reads a model file. CST_ERROR_FORMAT with the byte offset for a file that is not one, is
 * truncated, has a wrong checksum or impossible sizes; CST_ERROR_UNSUPPORTED for a newer format
 * version. A pipe is waited for. *out is the caller's. */
CST_API cst_status cst_model_load(cst_context *context, cst_model **out, const char *path);

/* The same from memory: `bytes` is read during the call only. */
CST_API cst_status cst_model_load_memory(cst_context *context, cst_model **out, const void *bytes,
                                         size_t size);

CST_API void cst_model_free(cst_context *context, cst_model *model);

CST_API cst_task cst_model_task(const cst_model *model);
CST_API int32_t cst_model_members(const cst_model *model);
/* Number of classes; of a regression: of outputs. */
CST_API int32_t cst_model_classes(const cst_model *model);
/* Name of member `member` (0..members-1), in the order prediction expects; NULL beyond. Borrowed.
 */
CST_API const char *cst_model_member_name(const cst_model *model, int32_t member);
/* Weight of a member in the model's log-linear pool, the exponent of its probabilities; NaN where
 * the model has no such pool. Of a regression that is a linear function of its members: the mean
 * over the outputs of the member's coefficients. */
CST_API double cst_model_member_weight(const cst_model *model, int32_t member);
/* Name of class `c`, or NULL where the pool gave only a count. Borrowed. */
CST_API const char *cst_model_class_name(const cst_model *model, int32_t c);
/* The settings it was fitted with, as "key=value"; NULL beyond. Borrowed. */
CST_API const char *cst_model_setting(const cst_model *model, size_t index);

/* Probabilities for `rows` samples. predictions[k]: [rows][classes] float32 probabilities of member
 * k, C order, in the model's member order. out: [rows][classes], the caller's; each row sums to 1
 * within 1e-6. CST_ERROR_INPUT, naming member and row, for numbers that are not finite, leave
 * [0, 1] by more than 1e-6 or sum to something further than 1e-3 from 1; within that, rows are
 * clipped and divided by their sum as in a pool. For a model of a regression: finite values
 * [rows][outputs], in and out; CST_ERROR_INPUT, naming row and output, for a result that float32
 * does not hold. Their variances are in corestack/regression.h. After an error `out` may be written
 * in part. */
CST_API cst_status cst_model_predict(cst_context *context, const cst_model *model,
                                     const float *const *predictions, int64_t rows, float *out);

/* ---- prediction without allocation, for a service ---- */

/* The memory that one thread needs to predict with one model. */
typedef struct cst_predictor cst_predictor;

/* Makes a predictor. The model is not copied and must outlive it; any number of predictors, one for
 * each thread, may share a model. *out is the caller's, freed before the context, which is not used
 * by predictions. */
CST_API cst_status cst_predictor_create(cst_context *context, cst_predictor **out,
                                        const cst_model *model);

/* As cst_model_predict, with the same result to the byte, for one sample or many, on the calling
 * thread: nothing is allocated, no lock is taken, and only the predictor and `out` are written. A
 * predictor serves one thread at a time: CST_ERROR_BUSY while another is inside. */
CST_API cst_status cst_predictor_predict(cst_predictor *predictor, const float *const *predictions,
                                         int64_t rows, float *out);

/* Why the predictor's last failing call failed, in one line; "" before any did. Borrowed: valid
 * until the next call. */
CST_API const char *cst_predictor_error(const cst_predictor *predictor);

/* `context`: the one it was made with. */
CST_API void cst_predictor_free(cst_context *context, cst_predictor *predictor);

/* Loads what the model needs of a split and predicts. Members are matched by name: others in the
 * pool are ignored, a missing one is an error that names it. Number and, where both give them,
 * names of the classes must agree. *out: [rows][classes], freed with cst_free; *rows counts every
 * condition's rows, condition by condition. */
CST_API cst_status cst_model_predict_pool(cst_context *context, const cst_model *model,
                                          cst_pool *pool, const char *split, float **out,
                                          int64_t *rows);

#ifdef __cplusplus
}
#endif
#endif
