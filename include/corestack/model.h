/*
 * A fitted stack: everything prediction needs and nothing more. Immutable once made; any number of
 * threads may predict with one model at the same time, each with its own context. File format:
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

/* Writes the model to memory, for programs that do not store models in files: the same bytes as
 * cst_model_save. *bytes [*size] belongs to the caller (cst_free). */
CST_API cst_status cst_model_save_memory(cst_context *context, const cst_model *model, void **bytes,
                                         size_t *size);

/* Reads a model file; a pipe is read to its end. CST_ERROR_FORMAT, with the byte offset, for a file
 * that is not a model, is truncated, or has a wrong checksum or impossible sizes;
 * CST_ERROR_UNSUPPORTED for a newer format version. *out belongs to the caller (cst_model_free). */
CST_API cst_status cst_model_load(cst_context *context, cst_model **out, const char *path);

/* Reads a model from memory, like cst_model_load. `bytes` [size] is read during the call only. *out
 * belongs to the caller (cst_model_free). */
CST_API cst_status cst_model_load_memory(cst_context *context, cst_model **out, const void *bytes,
                                         size_t size);

/* Frees a model; NULL is accepted. */
CST_API void cst_model_free(cst_context *context, cst_model *model);

/* Returns the task that the model was fitted for. */
CST_API cst_task cst_model_task(const cst_model *model);

/* Returns the number of members that prediction needs. */
CST_API int32_t cst_model_members(const cst_model *model);

/* Returns the number of classes; for regression, of outputs. */
CST_API int32_t cst_model_classes(const cst_model *model);

/* Returns the name of member `member` (0..members-1), in the order in which prediction expects the
 * members; NULL beyond. Borrowed. */
CST_API const char *cst_model_member_name(const cst_model *model, int32_t member);

/* Returns the weight of a member in the log-linear pool of the model (of a blend of several the
 * first), i.e. the exponent of its probabilities; in a model that is linear in its members its
 * coefficient, for a regression the mean over the outputs. NaN for other models. */
CST_API double cst_model_member_weight(const cst_model *model, int32_t member);

/* Returns the name of class `c`, or NULL if the pool had no names. Borrowed. */
CST_API const char *cst_model_class_name(const cst_model *model, int32_t c);

/* Returns setting `index` that the model was fitted with, as "key=value"; NULL beyond. Borrowed. */
CST_API const char *cst_model_setting(const cst_model *model, size_t index);

/* Predicts `rows` samples. predictions[k]: [rows][classes] float32 probabilities of member k, C
 * order, in the member order of the model. out: [rows][classes], provided by the caller; each row
 * sums to 1 within 1e-6. CST_ERROR_INPUT, with member and row, for numbers that are not finite,
 * exceed [0, 1] by more than 1e-6, or whose sum differs from 1 by more than 1e-3; within these
 * limits rows are clipped and normalised as in a pool.
 * For a regression model, inputs and outputs are finite values [rows][outputs]; CST_ERROR_INPUT,
 * with row and output, for a result that is too large for float32. For variances see
 * corestack/regression.h. After an error, `out` may be partly written. */
CST_API cst_status cst_model_predict(cst_context *context, const cst_model *model,
                                     const float *const *predictions, int64_t rows, float *out);

/* ---- prediction without allocation, for a service ---- */

/* The memory that one thread needs to predict with one model. */
typedef struct cst_predictor cst_predictor;

/* Creates a predictor. The model is not copied and must outlive it. Any number of predictors, one
 * per thread, may share a model. *out belongs to the caller (cst_predictor_free, before the context
 * is freed); predictions do not use the context. */
CST_API cst_status cst_predictor_create(cst_context *context, cst_predictor **out,
                                        const cst_model *model);

/* Predicts like cst_model_predict, with the same bytes as result, for one or more samples on the
 * calling thread. Nothing is allocated, no lock is taken, and only the predictor and `out` are
 * written. One thread at a time may use a predictor. */
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

/* Sets the domain of the rows of later predictions, until it is set again: its scale and biases are
 * used. A domain that the model does not know, and NULL, the start: the common ones. */
CST_API cst_status cst_predictor_set_domain(cst_predictor *predictor, const char *domain);

/* Returns the message of the last call of the predictor that failed, in one line; "" if none
 * failed. Borrowed: valid until the next call. */
CST_API const char *cst_predictor_error(const cst_predictor *predictor);

/* Frees a predictor; NULL is accepted. context: the one it was created with. */
CST_API void cst_predictor_free(cst_context *context, cst_predictor *predictor);

/* Loads the members that the model needs from a split and predicts. Members are matched by name:
 * other members of the pool are ignored, a missing member is an error that names it. The number of
 * classes, and their names if both have names, must agree. *out: [rows][classes], belongs to the
 * caller (cst_free); *rows counts the rows of all conditions, one condition after the other. A
 * notice tells of rows that look unlike those of the fit; cst_model_predict_guarded
 * (corestack/guard.h) can act on them. */
CST_API cst_status cst_model_predict_pool(cst_context *context, const cst_model *model,
                                          cst_pool *pool, const char *split, float **out,
                                          int64_t *rows);

#ifdef __cplusplus
}
#endif
#endif
