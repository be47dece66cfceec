/* A fitted stack: everything prediction needs and nothing more. Immutable once made; any number of
 * threads may predict with one model at the same time, each with its own context. File format:
 * docs/model-format.md. */
#ifndef CORESTACK_MODEL_H
#define CORESTACK_MODEL_H

#include <corestack/context.h>
#include <corestack/pool.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Writes the model to memory, for programs that do not store models in files: the same bytes as
 * cst_model_save. *bytes [*size] belongs to the caller (cst_free). */
CST_API cst_status cst_model_save_memory(cst_context *context, const cst_model *model, void **bytes,
                                         size_t *size);

/* Reads a model from memory, like cst_model_load. `bytes` [size] is read during the call only. *out
 * belongs to the caller (cst_model_free). */
CST_API cst_status cst_model_load_memory(cst_context *context, cst_model **out, const void *bytes,
                                         size_t size);

/* Returns the task that the model was fitted for. */
CST_API cst_task cst_model_task(const cst_model *model);

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

/* ---- prediction without allocation, for a service ---- */

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

/* Predicts like cst_predictor_predict from arrays [members] of any layout and type, which are
 * converted a block of rows at a time. The first call allocates about 1 MiB, and may return
 * CST_ERROR_MEMORY. Rows of one member are predictions[k], elements by its steps. For programs
 * whose arrays are float16, float64 or strided. */
CST_API cst_status cst_predictor_predict_arrays(cst_predictor *predictor,
                                                const cst_array *predictions, int64_t rows,
                                                float *out);

/* Sets the domain of the rows of later predictions, until it is set again: its scale and biases are
 * used. A domain that the model does not know, and NULL, the start: the common ones. */
CST_API cst_status cst_predictor_set_domain(cst_predictor *predictor, const char *domain);

#ifdef __cplusplus
}
#endif
#endif
