/*
 * The option table as code reads it: one identifier per key.
 */
#ifndef CST_BASE_OPTIONS_H
#define CST_BASE_OPTIONS_H

#include "base/base.h"

#include <corestack/options.h>

/* X(identifier, key, type, default, least, most, choices, help) */
#define CST_OPTION_LIST_ALL(X)                                                                     \
    X(SEED, "seed", INTEGER, "0", 0, 9007199254740992.0, "", "Seed of every random choice.")       \
    X(FOLDS_COUNT, "folds.count", INTEGER, "5", 2, 100, "",                                        \
      "Folds to make where the pool brings none.")                                                 \
    X(EVALUATE_NESTED, "evaluate.nested", BOOLEAN, "true", 0, 1, "",                               \
      "Score the whole procedure on out-of-fold rows by refitting everything inside each fold.")   \
    X(FIT_BALANCE, "fit.balance", REAL, "0", 0, 1, "",                                             \
      "Weight of a row in the losses of log-linear pool and selection: (rows / (classes rows of "  \
      "its class)) to this power. 0: all alike; 1: all classes alike.")                            \
    X(REDUNDANCY_MEASURE, "redundancy.measure", CHOICE, "cka", 0, 0, "cka|pearson|none",           \
      "Similarity by which redundant members are found (S1).")                                     \
    X(CKA_RULE, "cka.rule", CHOICE, "threshold", 0, 0, "threshold|elbow|cv",                       \
      "How the CKA threshold is set: given, the largest gap, or cross-validated loss.")            \
    X(CKA_THRESHOLD, "cka.threshold", REAL, "0.995", 0, 1, "",                                     \
      "A member whose CKA with a better kept one exceeds this is redundant.")                      \
    X(CKA_ESTIMATOR, "cka.estimator", CHOICE, "auto", 0, 0, "auto|exact|nystrom|probes|sample",    \
      "How CKA is computed; auto takes what is cheap (docs/redundancy.md).")                       \
    X(CKA_STATISTIC, "cka.statistic", CHOICE, "biased", 0, 0, "biased|unbiased",                   \
      "HSIC as the V-statistic of the paper or the unbiased U-statistic.")                         \
    X(CKA_LANDMARK_RULE, "cka.landmark_rule", CHOICE, "residual", 0, 0, "residual|uniform",        \
      "Nystrom landmarks by residual trace or uniformly at random (the paper).")                   \
    X(CKA_LANDMARKS, "cka.landmarks", INTEGER, "0", 0, 65536, "", "Nystrom landmarks; 0 chooses.") \
    X(CKA_PROBES, "cka.probes", INTEGER, "0", 0, 65536, "", "Random probes; 0 chooses.")           \
    X(CKA_ROWS, "cka.rows", INTEGER, "0", 0, 1000000, "",                                          \
      "Rows whose pairs cka.estimator=sample takes; 0: what takes a few seconds.")                 \
    X(CKA_LSH, "cka.lsh", CHOICE, "auto", 0, 0, "auto|on|off",                                     \
      "Whether only pairs that hashing proposes are compared; auto: from 200 members.")            \
    X(PEARSON_THRESHOLD, "pearson.threshold", REAL, "0.95", 0, 1, "",                              \
      "The same threshold for Pearson correlation of the flattened predictions.")                  \
    X(KEEP_MAX, "keep.max", INTEGER, "0", 0, 1000000, "",                                          \
      "Keep at most this many members; 0: no cap.")                                                \
    X(KEEP_FRACTION, "keep.fraction", REAL, "0.6", 0, 1, "",                                       \
      "Keep at most this share of the members, and at least three; 0 or 1: no cap.")               \
    X(KEEP_MAX_FLOPS, "keep.max_flops", REAL, "0", 0, 1e30, "",                                    \
      "Keep members of at most this many FLOPs in total; 0: no cap.")                              \
    X(KEEP_MAX_LATENCY, "keep.max_latency", REAL, "0", 0, 1e30, "",                                \
      "Keep members of at most this many milliseconds in total; 0: no cap.")                       \
    X(SELECT_DIRECTION, "select.direction", CHOICE, "backward", 0, 0,                              \
      "none|forward|backward|both", "Loss-aware selection in log-linear space.")                   \
    X(SELECT_RULE, "select.rule", CHOICE, "non-inferior", 0, 0,                                    \
      "best|one-se|tolerance|non-inferior",                                                        \
      "Which size on the path: least held-out loss; smallest within one standard error of it; "    \
      "smallest within the tolerance of it; smallest that is within the tolerance of all members " \
      "with confidence.")                                                                          \
    X(SELECT_TOLERANCE, "select.tolerance", REAL, "0.005", 0, 1, "",                               \
      "Relative excess of held-out NLL that a smaller set may have.")                              \
    X(SELECT_PRIOR, "select.prior", REAL, "10", 1e-6, 1e12, "",                                    \
      "Precision of the log-linear weights during selection, total scale.")                        \
    X(SELECT_MAX_ROWS, "select.max_rows", INTEGER, "100000", 0, 9007199254740992.0, "",            \
      "Most samples that selection and the prior's cross-validation look at, thinned evenly in "   \
      "each fold; fits use all of them. 0: no limit.")                                             \
    X(META_LEARNERS, "meta.learners", LIST, "log-linear", 0, 0,                                    \
      "ridge|elastic-net|lasso|log-linear", "Meta-learners to fit and blend (S3).")                \
    X(GATE_MODE, "gate.mode", CHOICE, "learned", 0, 0, "learned|prototype|none",                   \
      "Meta-features of the linear meta-learners: learned gate, the prototype's six, or none "     \
      "(S2).")                                                                                     \
    X(GATE_HIDDEN, "gate.hidden", INTEGER, "32", 1, 4096, "", "Hidden units of the gate.")         \
    X(GATE_EPOCHS, "gate.epochs", INTEGER, "30", 1, 100000, "",                                    \
      "Most passes over the gate's rows.")                                                         \
    X(GATE_LEARNING_RATE, "gate.learning_rate", REAL, "0.001", 1e-9, 1, "", "Adam's step size.")   \
    X(GATE_BATCH, "gate.batch", INTEGER, "256", 1, 1048576, "", "Rows of a mini-batch.")           \
    X(GATE_VALIDATION, "gate.validation", REAL, "0.1", 0, 0.9, "",                                 \
      "Share of the samples held out for early stopping.")                                         \
    X(GATE_PATIENCE, "gate.patience", INTEGER, "5", 1, 100000, "",                                 \
      "Epochs without improvement before the gate's training stops.")                              \
    X(GATE_MAX_ROWS, "gate.max_rows", INTEGER, "20000", 1, 1e9, "",                                \
      "Most (sample, class) rows the gate is trained on; beyond it, an importance sample.")        \
    X(LAMBDA_RULE, "lambda.rule", CHOICE, "cv", 0, 0, "star|cv|gcv|evidence",                      \
      "How the penalty of the linear meta-learners is set (S3).")                                  \
    X(LAMBDA_NOISE, "lambda.noise", CHOICE, "median", 0, 0, "median|mp",                           \
      "Noise level of the spectrum: median of its lower half, or Marchenko-Pastur bulk.")          \
    X(ELASTIC_NET_L1_RATIO, "elastic_net.l1_ratio", REAL, "0.5", 0, 1, "",                         \
      "Share of the l1 norm in the elastic net's penalty.")                                        \
    X(LOGLINEAR_BIAS, "loglinear.bias", BOOLEAN, "true", 0, 1, "",                                 \
      "One bias per class in the log-linear pool.")                                                \
    X(LOGLINEAR_NONNEGATIVE, "loglinear.nonnegative", BOOLEAN, "false", 0, 1, "",                  \
      "Weights of the log-linear pool, also during selection, at or above 0: no member's vote is " \
      "turned around.")                                                                            \
    X(LOGLINEAR_PRIOR, "loglinear.prior", CHOICE, "cv", 0, 0, "cv|evidence|fixed",                 \
      "Prior precisions of the log-linear pool: weights by held-out loss, both by the evidence, "  \
      "or the two below.")                                                                         \
    X(LOGLINEAR_PRIOR_WEIGHTS, "loglinear.prior_weights", REAL, "10", 1e-6, 1e12, "",              \
      "Prior precision of the log-linear weights around 1/K, total scale.")                        \
    X(LOGLINEAR_PRIOR_BIAS, "loglinear.prior_bias", REAL, "30", 1e-6, 1e12, "",                    \
      "Prior precision of the class biases around 0, total scale.")                                \
    X(LOGLINEAR_CUT, "loglinear.cut", REAL, "0.001", 0, 0.1, "",                                   \
      "Above 64 classes, a class whose mean probability in a sample is below this stands for "     \
      "others like it while the log-linear pool is fitted; the last steps are on every class. "    \
      "0: every class all the time.")                                                              \
    X(BLEND_RULE, "blend.rule", CHOICE, "laplace", 0, 0,                                           \
      "laplace|inverse-rmse|minimum-variance|greedy|stacking|uniform",                             \
      "How the meta-learners are blended (S4).")                                                   \
    X(BLEND_TEMPERATURE, "blend.temperature", REAL, "1", 1e-6, 1e12, "",                           \
      "Temperature of the Laplace weights; 1 is the paper.")                                       \
    X(BLEND_LOSS, "blend.loss", CHOICE, "total", 0, 0, "total|mean",                               \
      "Scale of loss and curvature in the Laplace weights.")                                       \
    X(PROBABILITY_MAP, "probability.map", CHOICE, "clip", 0, 0, "clip|simplex",                    \
      "How linear scores become probabilities.")                                                   \
    X(DETECT_IOU, "detect.iou", REAL, "0.55", 0.05, 1, "",                                         \
      "Detection: IoU from which boxes of several members are one object.")                        \
    X(DETECT_MIN_SCORE, "detect.min_score", REAL, "0", 0, 1, "",                                   \
      "Detection: members' boxes with a lower score are left out.")                                \
    X(DETECT_MAX_BOXES, "detect.max_boxes", INTEGER, "100", 1, 1000000, "",                        \
      "Detection: most boxes of a member in an image and category, best first.")                   \
    X(DETECT_SELECT, "detect.select", BOOLEAN, "false", 0, 1, "",                                  \
      "Detection: whether the preset default selects members on held-out loss; setting a key of "  \
      "select.* turns it on.")                                                                     \
    X(DETECT_KEEP_FRACTION, "detect.keep_fraction", REAL, "1", 1e-9, 1, "",                        \
      "Detection: what keep.fraction is in the preset default, unless that is set.")               \
    X(DETECT_PRIOR_WEIGHTS, "detect.prior_weights", REAL, "1000", 0, 1e12, "",                     \
      "Detection: what loglinear.prior_weights is in the preset default, with loglinear.prior "    \
      "fixed, unless one of the two is set; 0: what they say.")                                    \
    X(DETECT_TARGET_IOU, "detect.target_iou", REAL, "0.5", 0.05, 1, "",                            \
      "Detection: IoU with a true box from which a fused box counts as right while fitting.")      \
    X(DETECT_BOX_WEIGHTS, "detect.box_weights", CHOICE, "precision", 0, 0,                         \
      "precision|stack|equal",                                                                     \
      "Detection: weights of the members in fused boxes, beside the scores: by the measured "      \
      "error of their edges in each category, those of the stack, or all alike.")                  \
    X(REFIT_DROP, "refit.drop", BOOLEAN, "false", 0, 1, "",                                        \
      "Drop a kept member whose removal changes the nested loss by less than its standard error, " \
      "and refit.")                                                                                \
    X(SEGMENT_PIXELS, "segment.pixels", INTEGER, "50000", 100, 1e9, "",                            \
      "Segmentation: pixels that a fit is made on, sampled from those that count.")                \
    X(SEGMENT_BALANCE, "segment.balance", REAL, "0", 0, 1, "",                                     \
      "Segmentation: 0 samples classes as they occur, 1 equal numbers of each; the biases of the " \
      "log-linear pool undo it.")                                                                  \
    X(SEGMENT_BOUNDARY, "segment.boundary", REAL, "0.0075", 0.0001, 10000, "",                     \
      "Segmentation: width of the band of the boundary scores, in pixels where at least 1, else "  \
      "as a share of the image's diagonal.")                                                       \
    X(SEGMENT_DECISION, "segment.decision", CHOICE, "miou", 0, 0, "argmax|miou",                   \
      "Segmentation: label maps by the largest probability, or by offsets of the classes that "    \
      "raise the out-of-fold mIoU.")                                                               \
    X(LINEAR_POOL_PRIOR, "linear_pool.prior", CHOICE, "evidence", 0, 0, "cv|evidence|fixed",       \
      "Regression: prior precision of the linear pool's weights, by held-out error, by the "       \
      "evidence, or loglinear.prior_weights.")                                                     \
    X(LINEAR_POOL_CENTER, "linear_pool.center", REAL, "4", 0, 16, "",                              \
      "Regression: what the linear pool's weights are drawn to: 1 / (mean squared error) to this " \
      "power, divided by their sum. 0: the average.")                                              \
    X(LINEAR_POOL_NONNEGATIVE, "linear_pool.nonnegative", BOOLEAN, "false", 0, 1, "",              \
      "Regression: weights of the linear pool at or above 0.")                                     \
    X(VARIANCE_RULE, "variance.rule", CHOICE, "auto", 0, 0, "auto|constant|disagreement",          \
      "Regression: noise the same for every sample, growing with the members' disagreement, or "   \
      "whichever of the two has the lower held-out NLL.")                                          \
    X(INTERVAL_RULE, "interval.rule", CHOICE, "conformal", 0, 0, "conformal|gaussian",             \
      "Regression: intervals by quantiles of cross-fitted residuals or of the normal "             \
      "distribution.")

#define CST_OPTION_ENUM(id, key, type, initial, least, most, choices, help) CST_OPT_##id,
typedef enum cst_option_id { CST_OPTION_LIST_ALL(CST_OPTION_ENUM) CST_OPT_COUNT } cst_option_id;
#undef CST_OPTION_ENUM

/* As cst_options_set, from what a model holds: whole numbers of earlier fits may be spelled 5.0. */
cst_status cst_options_restore(cst_context *context, cst_options *options, const char *key,
                               const char *value);

double cst_option_real(const cst_options *options, cst_option_id id);
int64_t cst_option_integer(const cst_options *options, cst_option_id id);
bool cst_option_flag(const cst_options *options, cst_option_id id);

/* Whether the option was set by itself after the preset was applied. */
bool cst_option_given(const cst_options *options, cst_option_id id);

/* Position of a choice's value in its list of choices. */
int cst_option_choice(const cst_options *options, cst_option_id id);

/* Bit c is set when choice c is in a list's value. */
unsigned cst_option_set_of(const cst_options *options, cst_option_id id);

#endif
