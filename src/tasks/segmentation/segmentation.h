/* Inside of segmentation: tallies, samples, fits, documents. Paper: section "Dense Prediction". */
#pragma once

#include "core/base.h"
#include "core/options.h"
#include "core/scope.h"
#include "data/pool/spatial.h"
#include "fit/method.h"
#include "fit/task.h"
#include "fit/training.h"
#include "model/stack.h"

#include <corestack/metrics.h>
#include <corestack/segmentation.h>

/* ---- tallies ---- */

/* Doubles of a tally. Counts are whole numbers below 2^53, so their sums are exact in any order. */
size_t cst_tally_width(int32_t classes);

/* Adds `count` pixels: their predicted labels [count] (0..classes-1) against labels [count] (-1
 * does not count). confusion: [classes][classes], label by prediction, or NULL. */
void cst_tally_labels(double *tally, int32_t classes, const int32_t *predicted,
                      const int32_t *labels, int64_t count, int64_t *confusion);

/* Adds NLL, Brier score and calibration bins of probabilities [count][classes]. */
void cst_tally_probabilities(double *tally, int32_t classes, const float *probabilities,
                             const int32_t *labels, int64_t count);

/* Adds what lies near label boundaries of one image, [height][width]. */
cst_status cst_tally_boundary(cst_context *context, double *tally, int32_t classes,
                              const int32_t *predicted, const int32_t *labels, int64_t height,
                              int64_t width, int64_t distance);

/* Scores of a sum of tallies; without `probabilities` nll, brier and ece are NaN. */
void cst_tally_scores(const double *tally, int32_t classes, bool probabilities,
                      cst_segmentation_scores *out);

void cst_tally_class(const double *tally, int32_t classes, int32_t c, double found[4]);

/* Pixels of a calibration bin, those that are right, and the sum of their confidence. */
void cst_tally_bin(const double *tally, int32_t classes, int32_t b, double found[3]);

/* Pixels of each class in labels, [classes]. */
const double *cst_tally_labelled(const double *tally, int32_t classes);

/* The label of the largest of each row's `classes` numbers, the lowest of equal ones. */
void cst_label_rows(const float *probabilities, int64_t count, int32_t classes, int32_t *out);

/* A map read row by row; rows are known `distance` rows later, in little memory. */
typedef struct cst_near {
    int64_t height, width, distance;
    bool contour;     /* -1 and what is outside the image count as another label too */
    int32_t *windows; /* [width]: what the windows over the last row hold */
    int32_t *label;   /* [width]: the only label of the window that was read last */
    int64_t *last;    /* [width]: its row; -1: none yet */
    int64_t *change;  /* [width]: the last row at which the label changes, or that mixes several */
} cst_near;

cst_status cst_near_begin(cst_context *context, cst_scope *scope, cst_near *near, int64_t height,
                          int64_t width, int64_t distance, bool contour);

/* Reads row `y` (0, 1, ...) of the map: labels are -1 (none) or more. */
void cst_near_enter(cst_near *near, int64_t y, const int32_t *row);

/* out[x] = 1 where another label lies within `distance` of pixel x of row `y` in |dx| and |dy|,
 * once rows up to `y` + distance or the last were read. */
void cst_near_leave(const cst_near *near, int64_t y, unsigned char *out);

/* Distance of `boundary`: pixels from 1 on, else a rounded share of the diagonal, >= 1. */
int64_t cst_boundary_distance(double boundary, int64_t height, int64_t width);

/* ---- label maps ---- */

/* Class of each row [count][classes]: largest log p_c + offsets[c] (NULL: 0), lowest of ties. */
void cst_decide_rows(const float *probabilities, int64_t count, int32_t classes,
                     const double *offsets, int32_t *out);

/* Offsets [classes] that raise the mIoU of probabilities [rows][classes] against labels [rows],
 * pixels weighed from class shares `prior` to `share`. Each in turn takes the best of a grid until
 * none changes; the largest class keeps 0. */
cst_status cst_offsets_choose(cst_context *context, const float *probabilities,
                              const int32_t *labels, int64_t rows, int32_t classes,
                              const double *prior, const double *share, double *out);

/* mIoU of counts [3][classes]: true positives, labels, predictions. */
double cst_counts_miou(const double *counts, int32_t classes);

/* Offsets [classes] in a model, as its setting "segment.offsets". */
cst_status cst_offsets_store(cst_context *context, const double *offsets, cst_model *model);
/* *out: [classes], NULL without any. CST_ERROR_FORMAT if not finite numbers. */
cst_status cst_offsets_load(cst_context *context, cst_scope *scope, const cst_model *model,
                            double **out);

/* ---- documents ---- */

/* Probabilities [view->rows][classes] of the rows of a view. Called from several threads. */
typedef cst_status (*cst_pixel_predict_fn)(cst_context *context, const void *fit,
                                           const cst_view *view, float *out);

typedef struct cst_scoring {
    const cst_cases *cases;
    cst_view view; /* all rows of the split, with labels, of the members that predictions need */
    double boundary;
    cst_pixel_predict_fn predict;
    const void *const *fits; /* [fits of all cases], or one */
    const int32_t *fit_of;   /* [cases]: which of the fits predicts a case; NULL: the first */
    const double
        *offsets;        /* [classes] for label maps (tasks/segmentation/segmentation.h), or NULL */
    bool offsets_by_fit; /* offsets are [fits][classes] */
    const int32_t *predicted; /* [all rows]: label maps to score instead of predictions, or NULL */
} cst_scoring;

typedef struct cst_map_scores {
    int64_t cases;
    int32_t classes;
    bool probabilities;
    size_t width;
    double *tallies;    /* [cases][width] */
    double *total;      /* [width]: their sum */
    int64_t *confusion; /* [classes][classes], label by prediction */
    double seconds;
} cst_map_scores;

cst_status cst_maps_score(cst_context *context, cst_scope *scope, const cst_scoring *scoring,
                          cst_map_scores *out);

/* Rows to predict at a time: whole blocks of about so many values. */
int64_t cst_piece_rows(int64_t values, int32_t classes);
/* A view of `count` consecutive rows from `first` on. index: storage for `count` numbers. */
cst_view cst_view_range(const cst_view *view, int64_t first, int64_t count, int64_t *index);

/* Scores by name, in the order of reports. */
enum { CST_MAP_SCORES = 10 };

/* Every score of the tallies, [CST_MAP_SCORES]. */
void cst_map_score_values(const cst_map_scores *scores, double *out);

/* Of cst_task_ops: intervals over cases, drawn alike for all methods. */
cst_status cst_map_bootstrap(cst_context *context, const cst_evaluation *e,
                             const void *const *results, int32_t count, int32_t reference,
                             int32_t resamples, cst_intervals *out);

/* "cases", "pixels", "ignored", "classes", "boundary". */
void cst_map_put_size(cst_report *report, const cst_cases *cases, int64_t pixels, int32_t classes,
                      double boundary);
/* "task", "split" (NULL: none), sizes, "definitions". */
void cst_map_put_header(cst_report *report, const char *split, const cst_cases *cases,
                        int64_t pixels, int32_t classes, double boundary);
void cst_map_put_definitions(cst_report *report);

/* Every score, and "classes_present". */
void cst_map_put_scores(cst_report *report, json_t *object, const cst_map_scores *scores);
void cst_map_put_present(cst_report *report, json_t *object, const cst_map_scores *scores);

/* "per_class" and, up to 64 classes, "confusion". pool: for names; NULL: none. */
void cst_map_put_classes(cst_report *report, json_t *object, const cst_pool *pool,
                         const cst_map_scores *scores);

/* ---- samples ---- */

typedef struct cst_segment_settings {
    int64_t pixels;  /* to sample */
    double balance;  /* 0: classes as they occur; 1: equal numbers of each */
    double boundary; /* of the scores */
    bool decide;     /* offsets for label maps are to be chosen */
    int32_t folds;   /* to be made of the cases where the pool brings none */
    uint64_t seed;
} cst_segment_settings;

void cst_segment_settings_read(const cst_options *options, cst_segment_settings *out);

typedef struct cst_pixel_sample {
    cst_pool *pool; /* classification; its one split "oof" has the sampled pixels, in their order */
    int64_t rows;
    int64_t *index;  /* [rows]: rows of the split, ascending */
    int64_t counted; /* pixels of the split that count */
    double *prior;   /* [classes]: share of each class among those */
    double *share;   /* [classes]: share in the sample */
    double seconds;
} cst_pixel_sample;

/* Loads the split and draws exact numbers of pixels of each class; groups: cases' or cases. */
cst_status cst_pixel_sample_make(cst_context *context, cst_scope *scope, cst_pool *pool,
                                 const char *split, const cst_segment_settings *settings,
                                 cst_pixel_sample *out);

/* out [classes] <= counts [classes], with the sum min(pixels, sum of counts). */
cst_status cst_sample_sizes(cst_context *context, const int64_t *counts, int32_t classes,
                            int64_t pixels, double balance, int64_t *out);

/* Undoes the sample's share of the classes in a fitted model: the bias of class c rises by
 * log(prior / share), both [classes]. CST_ERROR_UNSUPPORTED without biases. Nothing to do at
 * balance 0. */
cst_status cst_prior_correct(cst_context *context, const double *prior, const double *share,
                             const cst_segment_settings *settings, cst_model *model);

enum { CST_MAP_ORDERS = 7 };

typedef struct cst_map_orders {
    cst_check_order_of list[CST_MAP_ORDERS];
    cst_training_hints hints; /* with these orders, for a split of that name */
} cst_map_orders;

/* labels: of all rows of the split; those beyond `classes` do not count. split: borrowed. */
cst_status cst_map_orders_make(cst_context *context, cst_scope *scope, const char *split,
                               const cst_cases *cases, const int32_t *labels, int32_t classes,
                               const cst_pixel_sample *sample, cst_map_orders *out);

/* Checks the sample of a split, with notices. CST_ERROR_INPUT: no honest fit is possible. Where
 * some members have maps in another order of pixels or classes, *pool becomes one without them for
 * the time of the scope. findings: NULL: nothing is told. */
cst_status cst_map_check(cst_context *context, cst_scope *scope, cst_pool **pool, const char *split,
                         const cst_pixel_sample *sample, const cst_training *source,
                         cst_findings *findings);

/* ---- fits without folds ---- */

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

/* What offsets change of the mIoU of pixels that they were chosen without. */
typedef struct cst_offset_gain {
    bool used; /* more than one standard error */
    double change;
    double se; /* jackknife over cases or groups */
} cst_offset_gain;

/* Offsets for label maps, *out [count + 1][classes], 0 where they gain too little. The last row is
 * for a model, chosen on out-of-fold predictions; with `scored` row f is for fold f, chosen and
 * judged without its labels by fits without two folds (of more than five, blocks of them). */
cst_status cst_fold_offsets(cst_context *context, cst_scope *scope, const cst_nesting *nesting,
                            const cst_fold_fits *fits, bool scored, double **out,
                            cst_offset_gain *gain);

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

/* Notices of members whose maps go much better with the average of all in another order of pixels
 * or classes, by some cases without labels. view: all rows of the members of the model. */
cst_status cst_maps_check_guessed(cst_context *context, const cst_model *model,
                                  const cst_pool *pool, const char *split, const cst_view *view);

/* ---- ids of a data set ---- */

typedef struct cst_id_map {
    int32_t *ids;    /* [classes]; NULL: class numbers as they are */
    int32_t largest; /* of the numbers written */
    bool coloured;   /* by: */
    unsigned char palette[256][3];
} cst_id_map;

/* given: a file, "cityscapes", or NULL. */
cst_status cst_id_map_read(cst_context *context, cst_scope *scope, const char *given,
                           int32_t classes, cst_id_map *out);

/* ---- the table ---- */

extern const cst_task_ops cst_segmentation_ops;
extern const cst_profile_ops cst_profile_maps;

cst_status cst_segmentation_fit(cst_context *context, cst_pool *pool, const char *split,
                                const cst_options *options, cst_model **model, cst_report **report);
/* A model fitted on a sample of the pixels becomes one of the split itself. */
cst_status cst_map_relabel(cst_context *context, cst_pool *pool, const char *split,
                           const cst_options *options, cst_model *model);
cst_status cst_segmentation_inspect(cst_context *context, cst_pool *pool, const char *split,
                                    const cst_options *options, cst_report **report);
