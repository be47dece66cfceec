/* A split of a detection pool: boxes, clusters as rows, folds. docs/detection.md#the-stack. */
#ifndef CST_DETECTION_SPLITS_H
#define CST_DETECTION_SPLITS_H

#include "core/options.h"
#include "data/checks/checks.h"
#include "data/pool/pool.h"
#include "fit/settings.h"
#include "fit/training.h"
#include "tasks/detection/clusters.h"

typedef enum cst_box_weights { /* order of the option's choices */
                               CST_BOX_WEIGHTS_PRECISION = 0,
                               CST_BOX_WEIGHTS_STACK = 1,
                               CST_BOX_WEIGHTS_EQUAL = 2
} cst_box_weights;

typedef struct cst_detect_options {
    cst_cluster_options clusters;
    bool select; /* this and the next two: of the presets "default", "compact" and "best" */
    double keep_fraction;
    double prior_weights; /* 0: what the options of the log-linear pool say */
    bool keep_general;    /* keep.fraction was set, and detect.keep_fraction was not */
    bool prior_general;   /* the same of loglinear.prior */
    double target_iou;
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
    cst_training source;  /* of the rows with a target */
} cst_box_training;

/* One number for annotations and members' boxes, whatever the order of members. */
uint64_t cst_box_split_hash(const cst_pool *pool, const cst_box_split *split);
/* The same of a split that is read for it. */
cst_status cst_box_pool_hash(cst_context *context, cst_pool *pool, const char *split,
                             uint64_t *out);

/* Clusters, targets and grouped folds. CST_ERROR_INPUT without boxes or true boxes. */
cst_status cst_box_training_open(cst_context *context, cst_scope *scope, const cst_pool *pool,
                                 const char *name, const cst_box_split *split,
                                 const cst_detect_options *options, int32_t folds, uint64_t seed,
                                 cst_box_training *out);
/* The same of a split with members [count] of all's (NULL: all of them) in their order, with the
 * folds of `all`, its name of the split and its costs. uses: [members], whose boxes are clustered,
 * while all columns are there; NULL: all. */
cst_status cst_box_training_part(cst_context *context, cst_scope *scope,
                                 const cst_box_training *all, const cst_box_split *split,
                                 const bool *uses, const int32_t *members, int32_t count,
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

#endif
