/* The fitted stack as the code sees it: kept members, gate, meta-learners, blend weights. Paper:
 * the blended prediction of "Laplace-Approximate Bayesian Blender". */
#pragma once

#include "core/base.h"
#include "data/pool/view.h"
#include "method/calibration/calibration.h"
#include "method/gate/gate.h"
#include "model/shift/cases.h"
#include "model/shift/gauge.h"
#include "model/shift/label_shift.h"
#include "model/shift/mixing.h"
#include "model/shift/novelty.h"
#include "stats/decide.h"

#include <corestack/model.h>
#include <math.h>

typedef enum cst_learner_kind { /* values are stored in files: pinned */
                                CST_LEARNER_RIDGE = 0,
                                CST_LEARNER_ELASTIC_NET = 1,
                                CST_LEARNER_LASSO = 2,
                                CST_LEARNER_LOGLINEAR = 3,
                                CST_LEARNER_LINEAR = 4, /* regression: all of them in one; else a
                                                           mixture of the members */
                                CST_LEARNER_NETWORK = 5 /* the model's network */
} cst_learner_kind;

/* "ridge", "elastic-net", "lasso", "log-linear", "linear", "network". */
const char *cst_learner_name(cst_learner_kind kind);

/* Whether it scores rows of the meta-design. */
static inline bool cst_learner_is_linear(cst_learner_kind kind) {
    return kind != CST_LEARNER_LOGLINEAR && kind != CST_LEARNER_NETWORK;
}

/* Parts of a meta-learner that the other learners of its model do not share. */
typedef struct cst_learner_own {
    char *name; /* as in a report, such as "greedy+temperature" */
    cst_probability_map map;
    double *mix;               /* [members] of a log-linear pool; NULL: the model's */
    cst_calibrator *scaling;   /* [members] of a log-linear pool: temperature or vector scaling of
                                  each member before its logarithm is taken; NULL: none */
    int32_t scaled;            /* length of `scaling` */
    double linear;             /* of a log-linear pool: its scores are sums of the members'
                                  probabilities times this, not of logarithms; 0: of logarithms */
    cst_calibrator calibrator; /* of its probabilities; mostly none */
} cst_learner_own;

/* One meta-learner. Linear: coefficients [design columns] in raw units and one intercept in
 * bias[0]; in a regression [outputs][design columns] and bias [outputs], likewise of a multilabel
 * model, where they weigh log-odds, or by map CST_PROBABILITY_MIXTURE probabilities. Log-linear
 * pool: weights [members] and bias [classes], or none. A network has neither. */
typedef struct cst_learner {
    cst_scope scope; /* of the arrays of a fit; of a file they are the model's */
    cst_learner_kind kind;
    double blend;         /* weight >= 0 in the mixture of probabilities; all sum to 1 */
    int32_t coefficients; /* length of `weights` */
    int32_t biases;       /* length of `bias` */
    double *weights;
    double *bias;
    cst_learner_own *own; /* NULL: all as the model has it */
} cst_learner;

/* Room for the coefficients and biases that are counted in it. */
cst_status cst_learner_take(cst_context *context, cst_learner *learner);
/* Room for parts of its own, which are all zero, with a name. */
cst_status cst_learner_own_take(cst_context *context, cst_learner *learner, const char *name);
/* Frees what a learner of a fit holds and empties it. */
void cst_learner_free(cst_learner *learner);

/* A probability below this counts as this in the inputs. */
#define CST_NETWORK_FLOOR 1e-6

/* A network as a meta-learner: two hidden layers of ReLU units, softmax; input k * classes + c is
 * (log(max(p_kc, 1e-6)) - mean) / scale. Parameters: [hidden][inputs], [hidden]; [hidden][hidden],
 * [hidden]; [classes][hidden], [classes]. docs/model-format.md#netw. */
typedef struct cst_network {
    int32_t members;
    int32_t classes;
    int32_t hidden;
    double *mean;  /* [members * classes] */
    double *scale; /* [members * classes], positive */
    double *theta; /* [cst_network_size] */
} cst_network;

/* Number of parameters; 0 if it overflows. */
size_t cst_network_size(int32_t members, int32_t classes, int32_t hidden);
/* All zero, of a shape whose size does not overflow. */
cst_status cst_network_take(cst_context *context, cst_scope *scope, int32_t members,
                            int32_t classes, int32_t hidden, cst_network **out);

/* Doubles of scratch that a sample takes. */
size_t cst_network_scratch(const cst_network *network);

/* Probabilities of sample `row` of rows members[k], each [...][classes]. scratch: doubles
 * [cst_network_scratch]. out: [classes]. */
void cst_network_row(const cst_network *network, const float *const *members, int64_t row,
                     double *scratch, double *out);

/* Mixed into the stack's own probabilities, so that a zero costs a bounded amount. */
#define CST_ADAPTED_STACK_MIX 1e-9

/* A stack adapted to new data: softmax_c(a log p_stack + sum_k w_k log p~_k + b_c), p~_k the
 * members mixed with a share of the uniform distribution. docs/model-format.md#adpt. */
typedef struct cst_adapted {
    int32_t members; /* K + extra: first the stack's, in its order */
    int32_t extra;   /* members that the stack's learners do not read */
    int32_t classes;
    char **names;    /* [extra] */
    double *mix;     /* [members]: share of the uniform distribution */
    double scale;    /* a */
    double *weights; /* [members] */
    double *bias;    /* [classes] */
    int64_t rows;    /* labelled rows that it was fitted on */
} cst_adapted;

/* Arrays of zeros; names are NULL. */
cst_status cst_adapted_take(cst_context *context, cst_scope *scope, int32_t members, int32_t extra,
                            int32_t classes, cst_adapted **out);

/* Takes `count` rows of the stack's probabilities [count][classes] to those of the adapted stack,
 * in place. members: [adapted->members] rows of each. scores: [count * classes] scratch. */
void cst_adapted_rows(const cst_adapted *adapted, const float *const *members, int64_t count,
                      double *scores, float *probabilities);

/* Restricts it to some of the members: an absent one's weight goes to the stack, the best guess of
 * its prediction. present: [members]. `to` has room for all of them and borrows names. */
void cst_adapted_restrict(const cst_adapted *from, const uint8_t *present, cst_adapted *to);

/* How a detection predicts: by its learners on clusters of boxes, or by a rule for boxes alone. */
typedef enum cst_box_rule { /* values are stored in files: pinned */
                            CST_BOX_RULE_LEARNERS = 0,
                            CST_BOX_RULE_BEST = 1, /* the boxes of the one member */
                            CST_BOX_RULE_MEAN = 2, /* clusters with the mean of all scores */
                            CST_BOX_RULE_WBF = 3,
                            CST_BOX_RULE_NMS = 4,
                            CST_BOX_RULE_SOFT_NMS = 5,
                            CST_BOX_RULE_SOFT_NMS_LINEAR = 6
} cst_box_rule;

enum { CST_BOX_COUNTS = 16 }; /* numbers of boxes that a cluster is told apart by */

/* The score of a cluster from its boxes: log-odds slope[0] * stack + slope[1] * mean +
 * bias[boxes], or the mean itself; both are of the members' calibrated scores. */
typedef struct cst_box_scoring {
    cst_isotonic *map; /* [members]: a score -> how often such a box is right */
    double *absent;    /* [members]: stands for the score of a member without a box in the stack */
    double *share;     /* [members] >= 0: weights in the mean, where it counts as 0 */
    double slope[2];
    int32_t members;                 /* of the fit */
    double bias[CST_BOX_COUNTS + 1]; /* by boxes of the cluster */
} cst_box_scoring;

/* How members agreed in the fit, which batches without labels are compared with. */
typedef struct cst_box_agreement {
    int32_t members; /* not in the file: those of the model */
    double *least;   /* [members]: from this score on there are as many boxes as true ones */
    double *share;   /* [members]: of the others' boxes with such scores that the member hits */
} cst_box_agreement;

/* How boxes become rows of two classes (the second: the box is right), and rows boxes again. */
typedef struct cst_fusion {
    double iou;               /* from which boxes are one object */
    double min_score;         /* boxes below are left out */
    int32_t max_boxes;        /* most boxes of a member in an image and category */
    int32_t categories;       /* at least 1 */
    int64_t *category_id;     /* [categories], ascending */
    char **category_name;     /* [categories]; NULL where the annotations gave none */
    double *weights;          /* [categories][members] >= 0, beside the scores, in fused boxes */
    cst_box_rule rule;        /* with `scoring` only LEARNERS or MEAN */
    cst_box_scoring *scoring; /* NULL: scores as they are */
    cst_box_agreement *agreement; /* NULL: of one member, or of few true boxes */
} cst_fusion;

/* Mean and standard deviation of the targets that a regression was fitted on. In these units no
 * output dominates the others, and features that are products do not depend on where 0 is. */
typedef struct cst_scaling {
    int32_t outputs;
    double *location; /* [outputs] */
    double *scale;    /* [outputs], positive; 1 where all targets are equal */
} cst_scaling;

/* Parts of a regression besides its linear function: units of the design's aggregators, and the
 * variance of a prediction, noise * unit (cst_values_unit). Covariances in units of the scaling. */
typedef struct cst_values {
    int32_t columns;     /* d of the design */
    cst_scaling scaling; /* units of the design */
    bool conformal;      /* intervals by `quantile`, not by the normal distribution */
    double *noise;       /* [outputs], in squared units of the target */
    double *share;       /* [outputs]: of the noise that grows with the members' disagreement */
    double *mean_spread; /* [outputs]: mean variance of the members' predictions */
    double *offset;      /* [outputs]: variance of the intercept over the noise, 1/n */
    double *center;      /* [outputs][columns] */
    double *covariance;  /* [outputs][columns][columns] of the coefficients, over the noise */
    double *quantile;    /* [outputs][CST_VALUE_LEVELS] of |residual| / standard deviation */
} cst_values;

/* What a value becomes for the metric of a fit: location + scale (a + b t + c s), where t is the
 * value after the transform and s its standard deviation, in units of the scaling; then the
 * inverse. With residuals r the mean of the inverse over a + b t + (c + r) s. docs/metrics.md. */
enum { CST_AIM_COLUMNS = 3, CST_AIM_RESIDUALS = 100 };
typedef struct cst_aim {
    int32_t residuals; /* 0 or CST_AIM_RESIDUALS */
    double *numbers;   /* [outputs][CST_AIM_COLUMNS + residuals] */
} cst_aim;

/* All of a fit that rows without labels are compared with. docs/model-format.md. */
/* Each part may be NULL: a fit of few rows or of another task has none. */
typedef struct cst_reference {
    cst_novelty *novelty;     /* what the guard compares batches with; NULL: no guard */
    cst_novelty_cases *cases; /* of a segmentation, beside `novelty`: what it compares cases with */
    cst_confusion *confusion; /* what class shares of a batch are estimated with */
    cst_mixing
        *mixing; /* how a batch that has fired leans on the average; NULL: by its levels alone */
    cst_gauge *gauge; /* what the monitor compares rows with; NULL: no monitor */
} cst_reference;

/* Bounds of what an output can be; values are stored in files: pinned. */
typedef enum cst_range { CST_RANGE_LOW = 1, CST_RANGE_HIGH = 2 } cst_range; /* 0 and 1 */

static inline double cst_range_keep(int32_t range, double value) {
    double low = range & CST_RANGE_LOW && value < 0 ? 0 : value;
    return range & CST_RANGE_HIGH && low > 1 ? 1 : low;
}

struct cst_model {
    cst_context *home; /* that it was made with */
    int references;    /* besides the first; read and written atomically */
    cst_scope scope;   /* of everything but `domains` and what a fit's learners hold */
    cst_task task;
    int32_t classes;     /* of a regression: outputs; of a multilabel model: labels */
    int32_t members;     /* kept ones, K_eff */
    char **class_names;  /* [classes]; NULL where the pool gives only a count */
    char **member_names; /* [members], all different */
    double *mix;   /* [members]: share of the uniform distribution mixed in before logarithms */
    cst_gate gate; /* mode CST_GATE_NONE where no linear meta-learner is in the blend; `inputs` is
                      the number of members wherever there is one */
    cst_values *values; /* regression; NULL elsewhere and in files without */
    int32_t *range;     /* [classes] of a regression: sums of cst_range; NULL: no bounds */
    struct cst_transform *transform; /* of a regression: all else is in transformed values, but for
                                        `range`; NULL: none (model/transform.h) */
    cst_probability_map map;
    int32_t learners;
    cst_learner *learner;
    cst_calibrator calibrator; /* of the blend's probabilities; mostly none */
    cst_domain_map *domains;   /* what rows of a domain go through after that; NULL: nothing */
    cst_adapted *adapted;      /* what the stack goes through last, with members that its learners
                                  do not read after `members`; NULL: nothing */
    cst_network *network;      /* of a learner of that kind; else NULL */
    cst_fusion *fusion;        /* of detection only */
    struct cst_refits *refits; /* model/absent.h: what the weights are solved again from where
                                  members are absent; NULL in files without */
    cst_aim *aim;           /* what values of a regression become for the metric; NULL: they stay */
    cst_decision *decision; /* how classes are decided for; NULL: the largest probability */
    struct cst_cascade_plan *cascade; /* model/cascade.h: NULL: all members run */
    cst_reference reference;          /* what rows are compared with */
    struct json_t *history;           /* model/history.h: NULL: the fit made no report */
    char *blend; /* of a fresh regression: "linear-pool 0.7,average 0.3", which becomes a setting;
                    else NULL */
    char *suppressed; /* of a fresh model with a learned gate: "kl in the fit and 1 of 5 folds", as
                         above */
    size_t settings;
    char **setting; /* "key=value", no key twice */
};

/* The name of a meta-learner of a model, its map, and the mixing of a log-linear one. Borrowed. */
static inline const char *cst_learner_title(const cst_learner *learner) {
    return learner->own ? learner->own->name : cst_learner_name(learner->kind);
}
static inline cst_probability_map cst_learner_map(const cst_model *model,
                                                  const cst_learner *learner) {
    return learner->own ? learner->own->map : model->map;
}
static inline const double *cst_learner_mix(const cst_model *model, const cst_learner *learner) {
    return learner->own && learner->own->mix ? learner->own->mix : model->mix;
}
/* Members that prediction reads: those of the stack, then those that came back when it was adapted.
 */
static inline int32_t cst_model_inputs(const cst_model *model) {
    return model->adapted ? model->adapted->members : model->members;
}
static inline const char *cst_model_input_name(const cst_model *model, int32_t k) {
    return k < model->members ? model->member_names[k] : model->adapted->names[k - model->members];
}
/* Log-odds of an independent probability, with a share of 1/2 mixed in. */
static inline double cst_mixed_logit(float p, double share) {
    double q = fmin(fmax((1 - share) * (double)p + share / 2, 1e-7), 1 - 1e-7);
    return log(q / (1 - q));
}
/* The log-linear pool of the model, of several the first; NULL: none. */
const cst_learner *cst_model_pool(const cst_model *model);
/* Whether some learner of the model scales members before it reads them. */
bool cst_model_scales(const cst_model *model);
/* Adds `count` rows of member k to the scores z [count * classes] of a log-linear learner. work,
 * scaled: as much room, where the model scales. */
void cst_learner_add(const cst_model *model, const cst_learner *learner, int32_t k,
                     const float *rows, int64_t count, double *work, float *scaled, double *z);
/* Takes `count` rows of a learner's probabilities through its calibration map, in place. */
void cst_learner_calibrate(const cst_learner *learner, int64_t count, double *probabilities);

/* The text after "key=" in the model's settings, or NULL. Borrowed. */
const char *cst_model_value(const cst_model *model, const char *key);

/* An empty model; fill it from its scope and free it with cst_model_free. */
cst_status cst_stack_create(cst_context *context, cst_model **out);

/* The bytes of the model's file, the same for the same model on every machine. A model that the
 * loader would refuse is refused here, with CST_ERROR_ARGUMENT and the reason. *bytes is the
 * caller's, freed with cst_free. */
cst_status cst_stack_encode(cst_context *context, const cst_model *model, uint8_t **bytes,
                            size_t *size);

/* The model in `bytes`; `name` (a path) opens every message. */
cst_status cst_stack_decode(cst_context *context, const char *name, const uint8_t *bytes,
                            size_t size, cst_model **out);

/* A hash of the bytes of the model's file. */
cst_status cst_stack_hash(cst_context *context, const cst_model *model, uint64_t *out);

/* Bytes of scratch that prediction takes for one sample. */
size_t cst_stack_sample_bytes(const cst_model *model);

/* Probabilities of the rows of a view whose members are the model's, in its order. out:
 * [rows][classes]; for a regression, values. Any number of threads, same bytes. The view's
 * numbers are taken as checked. */
cst_status cst_stack_predict(cst_context *context, const cst_model *model, const cst_view *view,
                             float *out);

/* Tells progress (stage "predict") to the context's callback, which may stop it. */
cst_status cst_stack_predict_reported(cst_context *context, const cst_model *model,
                                      const cst_view *view, float *out);

/* An error where the pool has no member of the model: which it has, and which would be needed. */
cst_status cst_model_check_names(cst_context *context, const cst_model *model, const cst_pool *pool,
                                 const char *split);

/* The members of a split that the model needs, loaded and matched by name, in its order. */
cst_status cst_model_view(cst_context *context, cst_scope *scope, const cst_model *model,
                          cst_pool *pool, const char *split, cst_view *out);

/* Of a whole split, read from its pool; *out is the caller's to free. Rows that no member predicted
 * are an error, or, unless `strict`, those filled in. */
cst_status cst_stack_predict_pool(cst_context *context, const cst_model *model, cst_pool *pool,
                                  const char *split, bool strict, float **out, int64_t *rows);

/* Says which members, and how many rows of members, are absent from such a view. */
cst_status cst_model_view_tell(cst_context *context, const cst_model *model, const char *split,
                               const cst_view *view);

/* Says how many rows are of domains that the model's layer does not know, and which these are; a
 * split, or NULL for rows of arrays. */
void cst_model_domains_tell(cst_context *context, const cst_model *model, const char *split,
                            const cst_view *view);
