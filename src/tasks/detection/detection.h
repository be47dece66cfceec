/* Inside of detection: figures, clusters, splits, methods. docs/detection.md#the-stack. */
#pragma once

#include "core/options.h"
#include "core/scope.h"
#include "data/checks/checks.h"
#include "data/pool/pool.h"
#include "data/readers/coco.h"
#include "fit/method.h"
#include "fit/settings.h"
#include "fit/task.h"
#include "fit/training.h"
#include "model/stack.h"

#include <corestack/detection.h>

/* ---- average precision ---- */

enum {
    CST_AP_THRESHOLDS = 10, /* of IoU: 0.50, 0.55, ..., 0.95 */
    CST_AP_RECALLS = 101,   /* 0, 0.01, ..., 1 */
    CST_AP_AREAS = 4,       /* all, small, medium, large */
    CST_AP_BOXES_MAX = 100  /* best boxes of an image and category that count */
};

/* Something with a score; `place` breaks ties as a stable sort does. */
typedef struct cst_ranked {
    double score;
    int64_t place;
} cst_ranked;

int cst_by_score(const void *a, const void *b);

/* Outcome of one box: a bit for each threshold. */
typedef struct cst_ap_outcome {
    uint16_t right[CST_AP_AREAS];   /* matched to a true box that counts */
    uint16_t ignored[CST_AP_AREAS]; /* neither right nor wrong */
} cst_ap_outcome;

/* One box that takes part, in the order of its category's precision-recall curve. */
typedef struct cst_ap_box {
    cst_ap_outcome outcome;
    int32_t image;
    int32_t rank; /* among those of its image and category, from 0 */
} cst_ap_box;

/* Every box matched: what the curves are made from. */
typedef struct cst_ap_matches {
    int32_t images;
    int32_t categories;
    int64_t count;
    cst_ap_box *box; /* by category, then falling score, ties as the reference breaks them */
    int64_t *first;  /* [categories + 1] */
    struct cst_ap_true {
        int32_t image;
        int32_t count[CST_AP_AREAS]; /* true boxes that count */
    } * truth;                       /* by category */
    int64_t *true_first;             /* [categories + 1] */
} cst_ap_matches;

/* IoU of two boxes; over the area of `box` alone where the true box is a crowd. */
double cst_box_iou(double ax, double ay, double aw, double ah, double bx, double by, double bw,
                   double bh);
double cst_box_true_iou(const cst_coco_box *box, const cst_coco_true *truth);

/* areas: for figures of small, medium and large boxes too. */
cst_status cst_ap_match(cst_context *context, cst_scope *scope, const cst_coco *truth,
                        const cst_coco_boxes *boxes, bool areas, cst_ap_matches *out);

/* All figures. times [images] >= 0, or NULL: once. by_category: [categories], or NULL. */
cst_status cst_ap_scores(cst_context *context, const cst_ap_matches *matches, const int32_t *times,
                         cst_detection_scores *out, cst_detection_scores *by_category);

/* AP, AP50, AP75 and AR100 (others NaN) on this thread; scratch: cst_ap_scratch doubles. */
size_t cst_ap_scratch(const cst_ap_matches *matches);
void cst_ap_main_scores(const cst_ap_matches *matches, const int32_t *times, double *scratch,
                        cst_detection_scores *out);

/* ---- clusters ---- */

typedef struct cst_cluster_options {
    double iou;              /* boxes overlap at least so much with the cluster they join */
    double min_score;        /* boxes below are left out */
    int32_t max_boxes;       /* best boxes of a member in an image and category that take part */
    const cst_isotonic *map; /* [members]: scores take these values; NULL: as they are */
} cst_cluster_options;

/* One member's box in a cluster, cut to its image. */
typedef struct cst_cluster_box {
    double x, y, w, h;
    double score;
    int32_t member;
} cst_cluster_box;

typedef struct cst_box_clusters {
    int32_t members; /* K */
    int32_t images;
    int32_t categories;
    int64_t rows;
    int32_t *image;       /* [rows], ascending: positions in the annotation file's order */
    int32_t *category;    /* [rows] */
    int64_t *first;       /* [rows + 1]: where each cluster's boxes begin */
    cst_cluster_box *box; /* by cluster, then falling score; a member at most once in a cluster */
} cst_box_clusters;

/* Clusters boxes by falling score within image and category: each joins the cluster that overlaps
 * it most, by at least options->iou and without a box of its member, or begins one. uses:
 * [members] that take part; images: [images] or NULL: all. */
cst_status cst_box_clusters_make(cst_context *context, cst_scope *scope, const cst_coco *coco,
                                 const cst_coco_boxes *const *boxes, int32_t members,
                                 const cst_cluster_options *options, const bool *uses,
                                 const bool *images, cst_box_clusters *out);

/* Mean score of a cluster over all members; one without a box there counts as 0. */
double cst_cluster_mean(const cst_box_clusters *clusters, int64_t row);

/* The same with weights [members] of the members used (NULL: all). */
double cst_cluster_share(const cst_box_clusters *clusters, int64_t row, const double *share,
                         const bool *uses);

/* What a fused box is: */
enum {
    CST_CLUSTER_WRONG = 0,
    CST_CLUSTER_RIGHT = 1,
    CST_CLUSTER_UNUSED = -1 /* in a crowd: neither, so nothing is learned from it */
};

/* Targets [rows] by COCO's rules at one IoU, by falling mean score of fused boxes. taken: [rows],
 * the true box's position in coco->box or -1. */
cst_status cst_cluster_targets(cst_context *context, const cst_box_clusters *clusters,
                               const cst_coco *coco, double iou, int32_t *targets, int64_t *taken);

/* Fused boxes with the given scores [rows][stride], as of one detector. */
cst_status cst_cluster_boxes(cst_context *context, const cst_box_clusters *clusters,
                             const cst_coco *coco, const double *weights, const float *scores,
                             int32_t stride, cst_coco_boxes **out);

/* Defaults of the papers. */
#define CST_WBF_IOU 0.55
#define CST_NMS_IOU 0.5
#define CST_SOFT_NMS_SIGMA 0.5
#define CST_SOFT_NMS_IOU 0.3
#define CST_SOFT_NMS_MIN 0.001 /* boxes whose score falls below are left out */

/* Boxes of `members` files [members] of one annotation file as one detector's, by a rule that needs
 * no scores of clusters. Ties: by member, then order. images: [images] that are wanted, or NULL. */
cst_status cst_suppress(cst_context *context, const cst_coco *coco,
                        const cst_coco_boxes *const *boxes, int32_t members, cst_box_rule rule,
                        const bool *images, cst_coco_boxes **out);

/* ---- splits ---- */

typedef enum cst_box_weights { /* order of the option's choices */
                               CST_BOX_WEIGHTS_PRECISION = 0,
                               CST_BOX_WEIGHTS_STACK = 1,
                               CST_BOX_WEIGHTS_EQUAL = 2
} cst_box_weights;

typedef struct cst_detect_options {
    cst_cluster_options clusters;
    double prior_weights; /* of the log-linear pool; 0: what its options say */
    bool prior_general;   /* loglinear.prior was set, and detect.prior_weights was not */
    bool iou_given;       /* the preset does not choose it */
    double target_iou;
    int64_t sample; /* boxes to fit on */
    cst_box_weights box_weights;
} cst_detect_options;

void cst_detect_options_read(const cst_options *options, cst_detect_options *out);
/* Detection's changes to the settings of a preset; explicit ones stay. */
void cst_detect_adapt(const cst_detect_options *options, const char *preset,
                      cst_settings *settings);

typedef struct cst_box_split {
    cst_coco *coco;
    int32_t members;        /* of the pool */
    cst_coco_boxes **boxes; /* [members]; without a box for members that were not asked for */
    double seconds;         /* reading */
} cst_box_split;

/* Reads annotations and boxes of members [count] (NULL: all). Scores are probabilities. Unless
 * `labelled` the file may lack its list of annotations. Close *out also after a failure. */
cst_status cst_box_split_open(cst_context *context, const cst_pool *pool, const char *split,
                              const int32_t *members, int32_t count, bool labelled,
                              cst_box_split *out);
void cst_box_split_close(cst_context *context, cst_box_split *split);
CST_RELEASED(cst_box_split, cst_box_split_close)

/* Clusters as rows of two classes: class 1 is what the score speaks for. */
typedef struct cst_box_rows {
    cst_box_clusters clusters;
    float **data; /* [members] -> [rows][2]: 1 - score, score; 1, 0 where the member has no box */
    int32_t members;
} cst_box_rows;

/* uses: [members] whose boxes take part; images: [images] clustered; NULL: all. */
cst_status cst_box_rows_make(cst_context *context, cst_scope *scope, const cst_box_split *split,
                             const cst_cluster_options *options, const bool *uses,
                             const bool *images, cst_box_rows *out);
/* Puts absent [members] where a member has no box, in place of 0. */
void cst_box_rows_absent(const cst_box_rows *rows, const double *absent);
/* All rows, no labels. */
cst_view cst_box_rows_view(const cst_box_rows *rows);

typedef struct cst_box_training {
    const cst_box_split *split;
    const char *name; /* of the split */
    cst_detect_options options;
    cst_box_rows rows;
    int32_t *targets;     /* [rows]: CST_CLUSTER_... */
    int64_t *taken;       /* [rows]: true box taken, or -1 */
    int64_t *groups;      /* [rows]: the image */
    int64_t *index;       /* rows with a target */
    int32_t *image_folds; /* [images] */
    bool *sample;         /* [images] whose clusters are rows */
    cst_training source;  /* of the rows with a target */
    uint64_t hash;        /* of the split with the members that were left out; 0: none were */
} cst_box_training;

/* One number for annotations and members' boxes, whatever the order of members. */
uint64_t cst_box_split_hash(const cst_pool *pool, const cst_box_split *split);
/* The same of a split that is read for it. */
cst_status cst_box_pool_hash(cst_context *context, cst_pool *pool, const char *split,
                             uint64_t *out);

/* Reads the split with every member; checks, where the options want it, which are told where
 * findings are given (of the whole pool); clusters, targets and grouped folds. *pool becomes one
 * without broken members; look: it stays, and fatal findings are refused only where a fit fails.
 * CST_ERROR_INPUT without boxes or true boxes. Close *files also after a failure. */
cst_status cst_box_training_open(cst_context *context, cst_scope *scope, cst_pool **pool,
                                 const char *name, const cst_options *options,
                                 cst_findings *findings, bool look, cst_box_split *files,
                                 cst_box_training *out);
/* The same of a split with members [count] of all's (NULL: all of them) in their order, with the
 * folds of `all`, its name of the split and its costs. */
cst_status cst_box_training_part(cst_context *context, cst_scope *scope,
                                 const cst_box_training *all, const cst_box_split *split,
                                 const int32_t *members, int32_t count, cst_box_training *out);
/* The same members on clusters made otherwise. uses: [members], whose boxes are clustered, while
 * all columns are there (NULL: all); images: [images], with folds of their own (NULL: as `all`). */
cst_status cst_box_training_again(cst_context *context, cst_scope *scope,
                                  const cst_box_training *all, const cst_cluster_options *options,
                                  const bool *uses, const bool *images, uint64_t seed,
                                  cst_box_training *out);

/* Weights of the members' boxes in fused ones, out [categories][members], by the rule, from the
 * images whose fold is not `fold` (-1: all). uses, stack: [members]; stack holds the weights of
 * the members in the stack, of which the negative ones count as 0 (NULL: there are none such). */
cst_status cst_box_weights_fit(cst_context *context, const cst_box_training *training, int32_t fold,
                               cst_box_weights rule, const bool *uses, const double *stack,
                               double *out);

/* Looks at up to 500 evenly spread images. Where most members are wrong in one way, that is fatal.
 * Free findings with cst_findings_free, also after a failure. */
cst_status cst_box_check(cst_context *context, const cst_pool *pool, const char *split,
                         const cst_box_split *files, cst_findings *findings);
/* Of boxes that are only scored: findings are notices. pool, split: NULL for a file. */
cst_status cst_box_check_scored(cst_context *context, const cst_pool *pool, const char *split,
                                const cst_box_split *files);

/* How members [count] (positions in the split) agree; *out NULL where that says nothing. */
cst_status cst_box_agreement_make(cst_context *context, cst_scope *scope,
                                  const cst_box_split *files, const int32_t *members, int32_t count,
                                  cst_box_agreement **out);
/* Says which members of the model agree far less with the others than in the fit, and why. */
cst_status cst_box_check_agreement(cst_context *context, const cst_pool *pool, const char *split,
                                   const cst_box_agreement *fitted, const cst_box_split *files,
                                   const int32_t *members);

/* ---- calibrated scores ---- */

/* Isotonic maps of the members' scores from the targets of their boxes in `images` [images] at this
 * IoU, 20 knots at most; shares 1, nothing else. */
cst_status cst_box_scoring_fit(cst_context *context, cst_scope *scope, const cst_box_split *split,
                               const bool *images, double iou, cst_box_scoring **out);
/* Scores as they are, in place of the maps. */
void cst_box_scoring_plain(cst_box_scoring *scoring, int32_t members);
/* Fills `absent` from rows; slopes and biases, of the mean alone or with the stack's scores of rows
 * [rows][2]. */
void cst_box_scoring_absent(const cst_box_training *t, cst_box_scoring *scoring);
cst_status cst_box_scoring_learn(cst_context *context, const cst_box_training *t, const bool *uses,
                                 const float *stack, cst_box_scoring *scoring);
/* Scores [rows][2] of clusters from those of the stack, if it counts, of the members used. */
void cst_box_scoring_rows(const cst_box_scoring *scoring, const cst_box_rows *rows,
                          const bool *uses, float *scores);

/* ---- choice by average precision ---- */

/* What sets of members and weights are judged by: the AP of their clusters with the mean score. */
typedef struct cst_box_judge {
    const cst_box_split *split;
    const bool *images; /* [images] judged on */
    cst_cluster_options options;
    const double *fusion; /* [categories][members], or NULL */
} cst_box_judge;

enum { CST_AP_PARTS = 20 }; /* of the images, for the error of a difference */

/* 1 - AP of boxes as numbers with this mean, [CST_AP_PARTS]. Where it is below `most` they spread
 * as jackknife pseudo-values do, otherwise not at all. */
cst_status cst_box_judge_boxes(cst_context *context, const cst_box_judge *judge,
                               const cst_coco_boxes *boxes, double most, double *loss);
/* Whether the first has less by more than the error of the paired difference. */
bool cst_box_is_better(const double *loss, const double *other);
/* Selects members by it; user: a cst_box_judge. Of cst_select_options. */
cst_status cst_box_choose(cst_context *context, const void *user, const int32_t *members,
                          int32_t count, const cst_select_options *options, cst_selection *out,
                          cst_front *front);
/* Keeps maps of scores, and takes another IoU, where that is better by more than the error. */
cst_status cst_box_choose_maps(cst_context *context, cst_box_judge *judge, const bool *uses,
                               cst_box_scoring *scoring);
cst_status cst_box_choose_iou(cst_context *context, cst_box_judge *judge, const bool *uses);
/* Weights, multiplied by 0, 1/2 or 2 where that is better by more than its error: of boxes alone,
 * fusion [categories][members], with scores [rows][2]; or, without scores, `share` [members] of the
 * mean, with which fusion changes alike. */
cst_status cst_box_choose_weights(cst_context *context, const cst_box_judge *judge,
                                  const cst_box_rows *rows, const bool *uses, const float *scores,
                                  double *share, double *fusion);

/* ---- methods ---- */

enum { CST_BEST_BOXES = 100 }; /* of an image, that predictions have unless asked for more */

typedef struct cst_detect_method {
    cst_box_rule rule;
    bool tuned;             /* calibrated scores, IoU and weights by AP */
    cst_method rows;        /* that scores the clusters, of CST_BOX_RULE_LEARNERS */
    const char *definition; /* one sentence, of the other rules */
} cst_detect_method;

/* Names in the order of reports; NULL past the end. */
const char *cst_detect_method_name(size_t index);
/* One of these, with "+temperature" and the like behind a method of rows. */
cst_status cst_detect_method_parse(cst_context *context, const char *text, uint64_t seed,
                                   const char *const *settings, int32_t setting_count,
                                   cst_detect_method *out);

typedef struct cst_detect_fit {
    cst_detect_method method;
    cst_scope scope;          /* of the arrays */
    bool *uses;               /* [members] */
    double *weights;          /* [members] of a mix of scores; NULL where there is none */
    double *fusion;           /* [categories][members]: weights of boxes; NULL: all alike */
    int32_t best;             /* of CST_BOX_RULE_BEST */
    cst_box_rule rule;        /* a preset may take another one than the method's */
    cst_box_scoring *scoring; /* NULL: scores as they are */
    cst_cluster_options options;
    double ap[3];        /* of a preset, by fits on half of the images: of the stack, of equal
                            weights, of tuned ones; NaN: not compared */
    cst_method_fit rows; /* of CST_BOX_RULE_LEARNERS */
    double seconds;
} cst_detect_fit;

/* Fits without the images of fold `fold` (-1: on all). Free *out also after an error. */
cst_status cst_detect_fit_run(cst_context *context, const cst_detect_method *method,
                              const cst_box_training *training, int32_t fold, uint64_t seed,
                              cst_detect_fit *out);
/* The fit as a model without names, settings and fusion: cst_method_fit_model for clusters. */
cst_status cst_detect_fit_model(cst_context *context, cst_detect_fit *fit, int32_t members,
                                cst_made_model *out);
void cst_detect_fit_free(cst_context *context, cst_detect_fit *fit);
CST_OWNED(cst_detect_fit)

/* Makes the boxes of some images, [images]. */
typedef cst_status (*cst_part_boxes_fn)(cst_context *context, const void *user, const bool *images,
                                        cst_coco_boxes **out);
/* The `most` best ones of at least `least` of every image wanted (NULL: all), made of some images
 * at a time. */
cst_status cst_boxes_by_parts(cst_context *context, const cst_box_split *split, const bool *images,
                              int64_t most, double least, cst_part_boxes_fn make, const void *user,
                              cst_coco_boxes **out);

/* Boxes of a split of the same members; images: [images] that are wanted, or NULL. */
cst_status cst_detect_fit_predict(cst_context *context, const cst_detect_fit *fit,
                                  const cst_box_split *split, const bool *images,
                                  cst_coco_boxes **out);

/* Boxes of every image by the method fitted without the image's fold. */
cst_status cst_detect_nested(cst_context *context, const cst_detect_method *method,
                             const cst_box_training *training, uint64_t seed, cst_coco_boxes **out);

/* ---- figures ---- */

enum { CST_DETECTION_FIGURES = 12 };

/* The twelve figures, AP to ARl, into `object`. */
void cst_figures_put(cst_report *report, json_t *object, const cst_detection_scores *scores);
/* "ap_definition": what the figures mean, in one sentence. */
void cst_figures_definition(cst_report *report, json_t *object);

/* ---- the table ---- */

extern const cst_task_ops cst_detection_ops;
extern const cst_profile_ops cst_profile_boxes;

cst_status cst_detection_fit(cst_context *context, cst_pool *pool, const char *split,
                             const cst_options *options, cst_model **model, cst_report **report);
/* How a fit fuses, [members] of its pool. */
typedef struct cst_fused {
    const cst_cluster_options *options;
    cst_box_rule rule;
    const double *weights;          /* [categories][members] of boxes; NULL: alike */
    const cst_box_scoring *scoring; /* or NULL */
} cst_fused;

/* Names, settings and fusion of a model of clusters. kept: [members of the model]; method: NULL,
 * the preset of the options. */
cst_status cst_detect_label(cst_context *context, const cst_pool *pool, const char *split,
                            const cst_box_split *files, const cst_box_training *training,
                            const cst_options *options, const char *method, const cst_fused *fused,
                            const int32_t *kept, cst_model *model);
cst_status cst_detection_inspect(cst_context *context, cst_pool *pool, const char *split,
                                 const cst_options *options, cst_report **report);

/* A model's boxes for a split, the `most` best of an image of at least `least`; labelled:
 * annotations are needed. *split_out: the caller's. */
cst_status cst_detection_predict(cst_context *context, const cst_model *model, const cst_pool *pool,
                                 const char *split, bool labelled, int64_t most, double least,
                                 cst_box_split *split_out, cst_coco_boxes **out);

/* The same in two steps: files of the split, with the places of the model's members in the pool,
 * [model->members]; and the boxes made of them. */
cst_status cst_detection_open(cst_context *context, const cst_model *model, const cst_pool *pool,
                              const char *split, bool labelled, int32_t *positions,
                              cst_box_split *out);
cst_status cst_detection_fuse(cst_context *context, const cst_model *model,
                              const cst_box_split *split, const int32_t *positions, int64_t most,
                              double least, cst_coco_boxes **out);

/* Categories of true boxes, [count] in the file's order. */
cst_status cst_detection_labels(cst_context *context, cst_scope *scope, const cst_coco *coco,
                                int32_t **out);
