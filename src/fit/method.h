/* A baseline or preset by name, perhaps calibrated. docs/json.md#compare. */
#pragma once

#include "fit/added.h"
#include "fit/baselines/baselines.h"
#include "fit/settings.h"
#include "fit/stages.h"
#include "fit/training.h"
#include "method/calibration/calibration.h"

enum { CST_METHOD_NAME_CHARS = 64 };

typedef struct cst_method {
    char name[CST_METHOD_NAME_CHARS]; /* as given: "greedy+temperature", "autogluon", "paper" */
    const cst_baseline *baseline;     /* this, */
    const char *preset;               /* a preset of the stack */
    const cst_method_ops *added;      /* or a method of the caller's own; the others are NULL */
    cst_settings settings;            /* of a preset */
    cst_calibrator_kind calibrator;
} cst_method;

/* NAME or NAME+CALIBRATOR; "autogluon" is greedy+temperature. Presets take the seed and then
 * `settings` [setting_count] of "key=value". CST_ERROR_ARGUMENT names the possible methods, or what
 * is wrong with a setting. */
cst_status cst_method_parse(cst_context *context, const char *text, uint64_t seed,
                            const char *const *settings, int32_t setting_count, cst_method *out);

/* Options at a preset with seed and settings [setting_count]. *out is the caller's. */
cst_status cst_method_options(cst_context *context, const char *preset, uint64_t seed,
                              const char *const *settings, int32_t setting_count,
                              cst_options **out);

/* The settings of such options, which `check` (NULL: none) may refuse. */
typedef cst_status (*cst_check_options_fn)(cst_context *context, const cst_options *options);
cst_status cst_method_settings(cst_context *context, const char *preset, uint64_t seed,
                               const char *const *settings, int32_t setting_count,
                               cst_check_options_fn check, cst_settings *out);

/* Presets in the order of reports, NULL past the end; one's meaning in a regression. */
const char *cst_preset_name(size_t index);
const char *cst_preset_of_values(const char *name);
/* Names in one line, for messages. */
enum { CST_METHOD_LIST_CHARS = 512 };
void cst_method_names(const char *(*name)(size_t index), char list[CST_METHOD_LIST_CHARS]);

/* Whether a name without calibrator is a preset of the stack. */
bool cst_method_is_preset(const char *name);

/* A preset compared only by its name or as one of "all". */
bool cst_method_is_extra(const char *name);

/* One sentence: what the method computes. Borrowed. */
const char *cst_method_definition(const cst_method *method);

typedef struct cst_method_fit {
    cst_method method;
    int32_t members; /* K of the pool */
    int32_t classes;
    int32_t used;    /* members that prediction reads */
    bool *uses;      /* [members] */
    double *weights; /* [members] of a linear or log-linear mix; NULL where there is none */
    cst_mix_kind mix;
    cst_baseline_fit baseline;
    cst_added_fit added;
    cst_stages stages;
    cst_calibrator calibrator;
    double seconds;  /* of the fit */
    cst_scope scope; /* of uses and weights */
} cst_method_fit;

/* Fits on the rows of `source` alone. The calibrator is fitted on the method's predictions of the
 * same rows where it is a mix of members, else on its cross-fitted ones. Free with
 * cst_method_fit_free, also after a failure. */
cst_status cst_method_fit_run(cst_context *context, const cst_method *method,
                              const cst_training *source, uint64_t seed, cst_method_fit *out);

/* Probabilities [view->rows][classes] of rows of the same members. */
cst_status cst_method_fit_predict(cst_context *context, const cst_method_fit *fit,
                                  const cst_view *view, float *out);
void cst_method_fit_free(cst_context *context, cst_method_fit *fit);

/* A fitted method as a model without names and settings. Starts as zeros. */
typedef struct cst_made_model {
    cst_model *model;
    int32_t *kept; /* [model->members] positions among the members of the fit, ascending */
} cst_made_model;

/* The fit as a model; takes its stack and map. Free with cst_made_model_free, also after a failure.
 */
cst_status cst_method_fit_model(cst_context *context, cst_method_fit *fit, cst_made_model *out);
cst_status cst_stages_take_model(cst_context *context, cst_stages *stages, cst_made_model *out);
void cst_made_model_free(cst_context *context, cst_made_model *made);

/* The same on the rows of `source` that are not in fold `fold`. */
cst_status cst_method_fit_without(cst_context *context, const cst_method *method,
                                  const cst_training *source, int32_t fold, uint64_t seed,
                                  cst_method_fit *out);

/* Probabilities [source->view.rows][classes] by fits without each row's fold. */
cst_status cst_method_nested(cst_context *context, const cst_method *method,
                             const cst_training *source, uint64_t seed, float *out);
