/*
 * One fit for each fold of cases, so that every case is predicted by a fit that has not seen it.
 * Under every out-of-fold score of a segmentation. method.md section 6.
 */
#ifndef CST_SEGMENTATION_NESTED_H
#define CST_SEGMENTATION_NESTED_H

#include "protocol/method.h"
#include "segmentation/sample.h"
#include "segmentation/score.h"

/* Predicts with a cst_method_fit, whose members are those of the view. */
cst_status cst_predict_by_method(cst_context *context, const void *fit, const cst_view *view,
                                 float *out);

typedef struct cst_fold_fits {
    int32_t count;
    cst_method_fit *fits; /* [count] */
    const void **places;  /* [count] of the fits, as scoring takes them */
    int32_t *fit_of;      /* [cases]: the fit that has not seen the case */
} cst_fold_fits;

/* source: of the sample's pool, with folds. Free also after a failure. */
cst_status cst_fold_fits_make(cst_context *context, const cst_method *method,
                              const cst_training *source, const cst_pixel_sample *sample,
                              const cst_segment_settings *settings, const cst_cases *cases,
                              cst_fold_fits *out);
void cst_fold_fits_free(cst_context *context, cst_fold_fits *fits);

/* Offsets for label maps, chosen on the sampled pixels as those fits predict them: *out, the
 * caller's, is [count + 1][classes], row f without the pixels of fold f, for its scores, and the
 * last on all of them, for a model. */
cst_status cst_fold_offsets(cst_context *context, const cst_fold_fits *fits,
                            const cst_training *source, const cst_pixel_sample *sample,
                            double **out);

/* Undoes the sample's share of the classes in a fit of a preset; nothing to do for others, which
 * take samples of balance 0. */
cst_status cst_method_prior_correct(cst_context *context, const cst_pixel_sample *sample,
                                    const cst_segment_settings *settings, cst_method_fit *fit);

/* "best-single" takes the member of highest mIoU on the sampled pixels outside of fold `fold` (-1:
 * all); other methods stay as they are. */
cst_status cst_method_prefer_miou(cst_context *context, const cst_training *source, int32_t fold,
                                  cst_method_fit *fit);
#define CST_BEST_SINGLE_MIOU                                                                       \
    "the member with the highest mIoU on the sampled out-of-fold pixels; the first of equals"

/* Whether the method takes balanced samples: a preset with the log-linear pool alone. */
bool cst_method_takes_balance(const cst_method *method);

#endif
