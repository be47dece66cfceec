/* A fit without each fold of cases. docs/method.md#what-is-reported-as-out-of-fold. */
#ifndef CST_SEGMENTATION_NESTED_H
#define CST_SEGMENTATION_NESTED_H

#include "fit/method.h"
#include "tasks/segmentation/document.h"
#include "tasks/segmentation/sample.h"

/* Predicts with a cst_method_fit, whose members are those of the view. */
cst_status cst_predict_by_method(cst_context *context, const void *fit, const cst_view *view,
                                 float *out);

/* What is fitted without each fold. */
typedef struct cst_nesting {
    const cst_method *method;
    const cst_training *source; /* of the sample's pool, with folds */
    const cst_pixel_sample *sample;
    const cst_segment_settings *settings;
    const cst_cases *cases; /* of the split that was sampled */
    const int32_t *labels;  /* of all its pixels, -1 for those that do not count */
} cst_nesting;

typedef struct cst_fold_fits {
    int32_t count;
    cst_method_fit *fits; /* [count] */
    const void **places;  /* [count] of the fits, as scoring takes them */
    int32_t *fit_of;      /* [cases]: the fit that has not seen the case */
    double *pixels;       /* [count][classes] that count, in the cases of each fold */
    double *sampled;      /* [count][classes] of them in the sample */
} cst_fold_fits;

/* A fit takes nothing from its fold's labels, nor from their share of the classes. */
cst_status cst_fold_fits_make(cst_context *context, cst_scope *scope, const cst_nesting *nesting,
                              cst_fold_fits *out);

/* Offsets for label maps, *out [count + 1][classes]: the last row is for a model, chosen on
 * out-of-fold predictions; with `scored` row f is for fold f, chosen without its labels by fits
 * without two folds (of more than five, blocks of them), else 0. */
cst_status cst_fold_offsets(cst_context *context, cst_scope *scope, const cst_nesting *nesting,
                            const cst_fold_fits *fits, bool scored, double **out);

/* Corrects a preset's fit from prior to share [classes]; others have balance 0. */
cst_status cst_method_prior_correct(cst_context *context, const double *prior, const double *share,
                                    const cst_segment_settings *settings, cst_method_fit *fit);

/* "best-single" takes the member of highest mIoU outside of fold `fold` (-1: all). */
cst_status cst_method_prefer_miou(cst_context *context, const cst_training *source, int32_t fold,
                                  cst_method_fit *fit);
#define CST_BEST_SINGLE_MIOU                                                                       \
    "the member with the highest mIoU on the sampled out-of-fold pixels; ties go to the first"

/* Whether the method takes balanced samples: a preset with the log-linear pool alone. */
bool cst_method_takes_balance(const cst_method *method);

#endif
