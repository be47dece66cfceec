/* The option table as code reads it: one identifier per key. */
#pragma once

#include "core/base.h"

#include <corestack/options.h>

/* X(identifier, field, key, type, default, least, most, choices, help). field: of cst_settings,
 * which src/fit/settings.c fills from this table; `elsewhere` for those that one task reads itself.
 */
#define CST_OPTION_LIST_ALL(X)                                                                     \
    X(SEED, seed, "seed", INTEGER, "0", 0, 9007199254740992.0, "", "Seed of all random choices.")  \
    X(FOLDS_COUNT, folds.count, "folds.count", INTEGER, "5", 2, 100, "",                           \
      "Number of folds, if the pool does not define folds.")                                       \
    X(FOLDS_KIND, folds.kind, "folds.kind", CHOICE, "random", 0, 0, "random|time",                 \
      "Folds made at random, or in time: rows are cut into folds.count + 1 blocks of "             \
      "neighbouring "                                                                              \
      "rows, and each block but the first is scored by a fit on the rows before it.")              \
    X(FOLDS_GAP, folds.gap, "folds.gap", INTEGER, "0", 0, 1000000000, "",                          \
      "With folds.kind=time: so many of the last rows before a block are left out of its fit.")    \
    X(EVALUATE_NESTED, nested, "evaluate.nested", BOOLEAN, "true", 0, 1, "",                       \
      "Score the whole procedure on out-of-fold rows by refitting everything within each fold.")   \
    X(METRIC, elsewhere, "metric", TEXT, "", 0, 0, "",                                             \
      "Metric that is reported beside the scores, and that decisions are made for: auc, f1, mcc, " \
      "rmsle, ... (docs/metrics.md); empty = none.")                                               \
    X(CASCADE, cascade.on, "cascade", BOOLEAN, "false", 0, 1, "",                                  \
      "Classification: find where rows may stop before all members have run "                      \
      "(docs/cascades.md).")                                                                       \
    X(CASCADE_ALPHA, cascade.alpha, "cascade.alpha", REAL, "0.005", 1e-9, 1, "",                   \
      "With cascade: most rows, as a share, with the risk.")                                       \
    X(CASCADE_CONFIDENCE, cascade.confidence, "cascade.confidence", REAL, "0.95", 0.5, 0.999999,   \
      "", "With cascade: probability that this holds, tested on rows of their own.")               \
    X(CASCADE_RISK, cascade.risk, "cascade.risk", CHOICE, "disagreement", 0, 0,                    \
      "disagreement|error",                                                                        \
      "With cascade: the risk: that another class than the stack's is decided for, or that this "  \
      "is an error which the stack does not make.")                                                \
    X(CASCADE_LOSS, cascade.loss, "cascade.loss", REAL, "0.0075", 0, 1000, "",                     \
      "With cascade: the mean divergence from the stack's probabilities is at most this share of " \
      "its NLL.")                                                                                  \
    X(CHECKS, checks, "checks", BOOLEAN, "true", 0, 1, "",                                         \
      "Check the predictions before a fit: rows or columns in another order, leaks, copies, "      \
      "folds that split groups, values on another scale.")                                         \
    X(NOISE, labels.rule, "noise", CHOICE, "auto", 0, 0, "auto|off|human",                         \
      "Classification: leave rows out of the fit whose label is probably wrong: auto = where a "   \
      "model of the errors clearly predicts the labels better; human = those that confident "      \
      "learning finds, for labels that are known to have errors.")                                 \
    X(NOISE_RATE, labels.most, "noise.rate", REAL, "0", 0, 0.95, "",                               \
      "With noise=human: at most this share of the rows is left out; 0 = no limit.")               \
    X(FIT_BALANCE, balance, "fit.balance", REAL, "0", 0, 1, "",                                    \
      "Class weighting in the losses of the log-linear pool and of selection: 0 = none, 1 = "      \
      "every class counts the same. A row has the weight (rows / (classes * rows of its class)) "  \
      "^ value.")                                                                                  \
    X(REDUNDANCY_MEASURE, measure, "redundancy.measure", CHOICE, "cka", 0, 0, "cka|pearson|none",  \
      "Similarity measure used to find redundant members (S1).")                                   \
    X(CKA_RULE, threshold_rule, "cka.rule", CHOICE, "threshold", 0, 0, "threshold|elbow|cv",       \
      "How the CKA threshold is chosen: cka.threshold, the largest gap, or cross-validated loss.") \
    X(CKA_THRESHOLD, threshold, "cka.threshold", REAL, "0.995", 0, 1, "",                          \
      "A member is redundant if its CKA with a better member that is kept exceeds this "           \
      "threshold.")                                                                                \
    X(CKA_ESTIMATOR, cka.estimator, "cka.estimator", CHOICE, "auto", 0, 0,                         \
      "auto|exact|nystrom|probes|sample",                                                          \
      "How CKA is computed; auto picks a fast estimator (docs/method.md).")                        \
    X(CKA_STATISTIC, cka.statistic, "cka.statistic", CHOICE, "biased", 0, 0, "biased|unbiased",    \
      "HSIC estimate: the V-statistic of the paper (biased) or the U-statistic (unbiased).")       \
    X(CKA_LANDMARK_RULE, cka.landmark_rule, "cka.landmark_rule", CHOICE, "residual", 0, 0,         \
      "residual|uniform",                                                                          \
      "How Nystrom landmarks are chosen: by residual trace, or uniformly at random as in the "     \
      "paper.")                                                                                    \
    X(CKA_LANDMARKS, cka.landmarks, "cka.landmarks", INTEGER, "0", 0, 65536, "",                   \
      "Number of Nystrom landmarks; 0 = automatic.")                                               \
    X(CKA_DRAWS, cka.draws, "cka.draws", INTEGER, "1", 1, 10000, "",                               \
      "Number of draws of uniform landmarks whose CKAs are averaged.")                             \
    X(CKA_PROBES, cka.probes, "cka.probes", INTEGER, "0", 0, 65536, "",                            \
      "Number of random probes; 0 = automatic.")                                                   \
    X(CKA_ROWS, cka.rows, "cka.rows", INTEGER, "0", 0, 1000000, "",                                \
      "Number of rows that cka.estimator=sample compares in pairs; 0 = as many as take a few "     \
      "seconds.")                                                                                  \
    X(CKA_LSH, cka.lsh, "cka.lsh", CHOICE, "auto", 0, 0, "auto|on|off",                            \
      "Compare only the pairs that locality-sensitive hashing proposes; auto = with 200 or more "  \
      "members, where that takes less time than all pairs; never with cka.estimator=probes.")      \
    X(PEARSON_THRESHOLD, pearson_threshold, "pearson.threshold", REAL, "0.95", 0, 1, "",           \
      "The same threshold for the Pearson correlation of the flattened predictions; 0.95 is "      \
      "ours, the paper gives none.")                                                               \
    X(REDUNDANCY_TIES, keep_ties, "redundancy.ties", CHOICE, "drop", 0, 0, "drop|keep",            \
      "A redundant member whose risk equals that of the kept one: drop it, or keep both as in "    \
      "the paper, where a removal needs a kept member of strictly lower risk.")                    \
    X(KEEP_MAX, keep_max, "keep.max", INTEGER, "0", 0, 1000000, "",                                \
      "Maximum number of members to keep; 0 = no limit.")                                          \
    X(KEEP_FRACTION, keep_fraction, "keep.fraction", REAL, "0", 0, 1, "",                          \
      "Maximum fraction of the members to keep; the limit is never below three members. 0 or 1 = " \
      "no limit.")                                                                                 \
    X(KEEP_MAX_FLOPS, limits.most[CST_COST_FLOPS], "keep.max_flops", REAL, "0", 0, 1e30, "",       \
      "Maximum total FLOPs of the kept members; 0 = no limit.")                                    \
    X(KEEP_MAX_LATENCY, limits.most[CST_COST_LATENCY], "keep.max_latency", REAL, "0", 0, 1e30, "", \
      "Maximum latency of the kept members, in milliseconds; 0 = no limit.")                       \
    X(KEEP_LATENCY, limits.parallel, "keep.latency", CHOICE, "sum", 0, 0, "sum|max",               \
      "Latency of several members: their sum, or the largest if they run in parallel.")            \
    X(KEEP_MAX_PARAMS, limits.most[CST_COST_PARAMS], "keep.max_params", REAL, "0", 0, 1e30, "",    \
      "Maximum total number of parameters of the kept members; 0 = no limit.")                     \
    X(SELECT_DIRECTION, selection.direction, "select.direction", CHOICE, "backward", 0, 0,         \
      "none|forward|backward|both",                                                                \
      "Direction of the search for members, in log-linear space; none = keep all. distil always "  \
      "goes backward.")                                                                            \
    X(SELECT_RULE, selection.rule, "select.rule", CHOICE, "distil", 0, 0,                          \
      "best|one-se|tolerance|non-inferior|distil",                                                 \
      "Which set on the search path is kept: best = lowest held-out loss; one-se or tolerance = "  \
      "smallest set within one standard error, or within select.tolerance, of it; non-inferior = " \
      "smallest set that is, with confidence, within select.tolerance of all members, and a "      \
      "smaller one that is better with confidence; distil = smallest set whose pool can say what " \
      "the blend of all members says, within select.tolerance of its loss.")                       \
    X(SELECT_TOLERANCE, selection.tolerance, "select.tolerance", REAL, "0.0015", 0, 1, "",         \
      "Relative increase of the loss that is accepted for a smaller set; with distil, of N "       \
      "samples, "                                                                                  \
      "N / (N + 500) of it.")                                                                      \
    X(SELECT_PRIOR, selection.prior, "select.prior", REAL, "10", 1e-6, 1e12, "",                   \
      "Prior precision of the log-linear weights during selection, for the total loss.")           \
    X(SELECT_MAX_ROWS, selection.compact.max_rows, "select.max_rows", INTEGER, "100000", 0,        \
      9007199254740992.0, "",                                                                      \
      "Maximum number of samples for selection and for cross-validating the prior, thinned "       \
      "evenly within each fold; fits use all samples. 0 = no limit.")                              \
    X(META_LEARNERS, learners, "meta.learners", LIST,                                              \
      "log-linear,temperature+log-linear,vector+log-linear,logistic,best-single+temperature,"      \
      "average+temperature,average+vector,greedy+temperature",                                     \
      0, 0,                                                                                        \
      "ridge|elastic-net|lasso|log-linear|log-linear:nonnegative|log-linear:mix=1e-6|log-linear:"  \
      "mix=1e-3|temperature+log-linear|vector+log-linear|logistic|best-single+temperature|"        \
      "average+temperature|average+vector|greedy+temperature|greedy+vector|ridge+temperature|"     \
      "hill-climbing+temperature|class-wise",                                                      \
      "Meta-learners to fit and blend (S3, S4).")                                                  \
    X(GATE_MODE, gate.mode, "gate.mode", CHOICE, "learned", 0, 0, "learned|prototype|none",        \
      "Meta-features for the linear meta-learners: the learned gate, the six features of the "     \
      "prototype, or none (S2).")                                                                  \
    X(GATE_HIDDEN, gate.hidden, "gate.hidden", INTEGER, "32", 1, 4096, "",                         \
      "Number of hidden units of the gate.")                                                       \
    X(GATE_EPOCHS, gate.epochs, "gate.epochs", INTEGER, "30", 1, 100000, "",                       \
      "Maximum number of passes over the gate's training rows.")                                   \
    X(GATE_LEARNING_RATE, gate.learning_rate, "gate.learning_rate", REAL, "0.001", 1e-9, 1, "",    \
      "Step size of Adam.")                                                                        \
    X(GATE_BATCH, gate.batch_rows, "gate.batch", INTEGER, "256", 1, 1048576, "",                   \
      "Rows in a mini-batch.")                                                                     \
    X(GATE_VALIDATION, gate.validation_fraction, "gate.validation", REAL, "0.1", 0, 0.9, "",       \
      "Fraction of the samples held out for early stopping.")                                      \
    X(GATE_PATIENCE, gate.patience, "gate.patience", INTEGER, "5", 1, 100000, "",                  \
      "Number of epochs without improvement after which training of the gate stops.")              \
    X(GATE_MAX_ROWS, gate.max_rows, "gate.max_rows", INTEGER, "20000", 1, 1e9, "",                 \
      "Maximum number of (sample, class) rows to train the gate on; larger sets are importance "   \
      "sampled.")                                                                                  \
    X(LAMBDA_RULE, penalty_rule, "lambda.rule", CHOICE, "cv", 0, 0, "star|cv|gcv|evidence",        \
      "How the penalty of the linear meta-learners is chosen (S3).")                               \
    X(LAMBDA_SCALE, penalty_scale, "lambda.scale", CHOICE, "mean", 0, 0, "mean|sum",               \
      "What lambda* is added to: X'X/n, the unit of the paper's proof, or X'X, as in its formula " \
      "of the ridge.")                                                                             \
    X(SPECTRUM_OF, spectrum_of, "spectrum.of", CHOICE, "meta", 0, 0, "meta|oof",                   \
      "Whose Gram matrix lambda* comes from: the meta-features with gamma = columns / rows, or, "  \
      "as in the paper, the kept members' out-of-fold columns with gamma = members / samples.")    \
    X(LAMBDA_NOISE, noise_rule, "lambda.noise", CHOICE, "median", 0, 0, "median|mp",               \
      "Noise level of the spectrum: the median of its lower half, or a fit of the "                \
      "Marchenko-Pastur bulk.")                                                                    \
    X(ELASTIC_NET_L1_RATIO, l1_ratio, "elastic_net.l1_ratio", REAL, "0.5", 0, 1, "",               \
      "Share of the L1 norm in the elastic-net penalty.")                                          \
    X(LOGLINEAR_BIAS, loglinear.bias, "loglinear.bias", BOOLEAN, "true", 0, 1, "",                 \
      "Fit one bias per class in the log-linear pool.")                                            \
    X(LOGLINEAR_NONNEGATIVE, selection.nonnegative, "loglinear.nonnegative", BOOLEAN, "false", 0,  \
      1, "", "Restrict the log-linear pool, and selection, to non-negative weights.")              \
    X(LOGLINEAR_MIXING, mixing, "loglinear.mixing", CHOICE, "cv", 0, 0, "cv|member|fixed",         \
      "Share of the uniform distribution that is mixed into each member before its logarithm: by " \
      "the held-out loss of the pool (cv), by that of each member, or loglinear.share.")           \
    X(LOGLINEAR_SHARE, selection.compact.share, "loglinear.share", REAL, "1e-6", 1e-12, 0.5, "",   \
      "That share for all members, with loglinear.mixing=fixed.")                                  \
    X(LOGLINEAR_PRIOR, prior, "loglinear.prior", CHOICE, "cv", 0, 0, "cv|evidence|fixed",          \
      "How the prior precisions of the log-linear pool are chosen: the one of the weights by "     \
      "held-out loss (cv), both by maximum evidence, or both fixed at the next two options.")      \
    X(LOGLINEAR_PRIOR_WEIGHTS, loglinear.prior_weights, "loglinear.prior_weights", REAL, "10",     \
      1e-6, 1e12, "", "Prior precision of the log-linear weights around 1/K, for the total loss.") \
    X(LOGLINEAR_PRIOR_BIAS, loglinear.prior_bias, "loglinear.prior_bias", REAL, "30", 1e-6, 1e12,  \
      "", "Prior precision of the class biases around 0, for the total loss.")                     \
    X(LOGLINEAR_CUT, selection.compact.cut, "loglinear.cut", REAL, "0.001", 0, 0.1, "",            \
      "With more than 64 classes, classes whose mean probability in a sample is below this value " \
      "are grouped while the log-linear pool is fitted; the last steps use every class. 0 = "      \
      "never group.")                                                                              \
    X(BLEND_RULE, blend.rule, "blend.rule", CHOICE, "stacking", 0, 0,                              \
      "laplace|inverse-rmse|minimum-variance|greedy|stacking|uniform",                             \
      "How the meta-learners are blended (S4).")                                                   \
    X(BLEND_EVIDENCE, blend.same_loss, "blend.evidence", CHOICE, "nll", 0, 0, "nll|same-loss",     \
      "Loss in the Laplace weights: the held-out NLL, or the held-out squared error, which is "    \
      "what the linear meta-learners minimise and whose curvature the weights use. A regression "  \
      "always uses the latter.")                                                                   \
    X(BLEND_TEMPERATURE, blend.temperature, "blend.temperature", REAL, "1", 1e-6, 1e12, "",        \
      "Temperature of the Laplace weights; 1 as in the paper.")                                    \
    X(BLEND_PRIOR, blend.prior, "blend.prior", REAL, "2", 0, 1e9, "",                              \
      "Stacking: strength of the prior on each log-linear pool of scaled members, in samples.")    \
    X(BLEND_LEAST, blend.least, "blend.least", REAL, "0.01", 0, 0.5, "",                           \
      "Stacking: meta-learners with a lower weight are left out.")                                 \
    X(BLEND_LOSS, blend.mean_loss, "blend.loss", CHOICE, "total", 0, 0, "total|mean",              \
      "Use the total or the mean loss and curvature in the Laplace weights.")                      \
    X(PROBABILITY_MAP, map, "probability.map", CHOICE, "clip", 0, 0, "clip|simplex",               \
      "How linear scores are turned into probabilities.")                                          \
    X(DOMAIN_AWARE, domain_aware, "domain.aware", CHOICE, "auto", 0, 0, "auto|true|false",         \
      "Classification: after the blend, fit a scale and biases for each domain of the rows; auto " \
      "= if they lower the held-out NLL by more than two standard errors.")                        \
    X(DOMAIN_PRIOR_SCALE, domain_priors.scale, "domain.prior_scale", REAL, "100", 1e-6, 1e12, "",  \
      "Prior precision of a domain's scale around 1, for the total loss.")                         \
    X(DOMAIN_PRIOR_BIAS, domain_priors.bias, "domain.prior_bias", REAL, "10", 1e-6, 1e12, "",      \
      "Prior precision of a domain's class biases around 0, for the total loss.")                  \
    X(DETECT_IOU, elsewhere, "detect.iou", REAL, "0.55", 0.05, 1, "",                              \
      "Detection: minimum IoU for boxes of different members to count as one object.")             \
    X(DETECT_MIN_SCORE, elsewhere, "detect.min_score", REAL, "0", 0, 1, "",                        \
      "Detection: boxes of members with a lower score are ignored.")                               \
    X(DETECT_MAX_BOXES, elsewhere, "detect.max_boxes", INTEGER, "100", 1, 1000000, "",             \
      "Detection: maximum number of boxes per member, image and category; the highest scores are " \
      "kept.")                                                                                     \
    X(DETECT_PRIOR_WEIGHTS, elsewhere, "detect.prior_weights", REAL, "1000", 0, 1e12, "",          \
      "Detection: replaces loglinear.prior_weights in presets default, compact and best, with "    \
      "loglinear.prior=fixed, unless one of those two is set; 0 = do not replace.")                \
    X(DETECT_SAMPLE, elsewhere, "detect.sample", INTEGER, "200000", 1000, 1e12, "",                \
      "Detection: a fit takes images evenly spread over the split, until they have about so many " \
      "boxes of all members.")                                                                     \
    X(DETECT_TARGET_IOU, elsewhere, "detect.target_iou", REAL, "0.5", 0.05, 1, "",                 \
      "Detection: minimum IoU with a true box for a fused box to count as correct during "         \
      "fitting.")                                                                                  \
    X(DETECT_BOX_WEIGHTS, elsewhere, "detect.box_weights", CHOICE, "precision", 0, 0,              \
      "precision|stack|equal",                                                                     \
      "Detection: weights of the members when boxes are averaged: from the measured error of "     \
      "their box edges in each category (precision), those of the stack, or equal.")               \
    X(REFIT_DROP, drop, "refit.drop", BOOLEAN, "false", 0, 1, "",                                  \
      "Drop a kept member if removing it changes the nested loss by less than its standard "       \
      "error, and refit; not in the paper.")                                                       \
    X(SEGMENT_PIXELS, elsewhere, "segment.pixels", INTEGER, "50000", 100, 1e9, "",                 \
      "Segmentation: number of pixels to fit on, sampled from those that are not ignored.")        \
    X(SEGMENT_BALANCE, elsewhere, "segment.balance", REAL, "0", 0, 1, "",                          \
      "Segmentation: 0 samples classes as they occur, 1 samples the same number of pixels from "   \
      "each; the class biases of the log-linear pool correct for it.")                             \
    X(SEGMENT_BOUNDARY, elsewhere, "segment.boundary", REAL, "0.0075", 0.0001, 10000, "",          \
      "Segmentation: width of the band for boundary scores, in pixels if at least 1, else as a "   \
      "fraction of the image diagonal.")                                                           \
    X(SEGMENT_DECISION, elsewhere, "segment.decision", CHOICE, "miou", 0, 0, "argmax|miou",        \
      "Segmentation: how label maps are decided: by the largest probability (argmax), or with "    \
      "class offsets that maximise out-of-fold mIoU.")                                             \
    X(LINEAR_POOL_PRIOR, pool_prior, "linear_pool.prior", CHOICE, "evidence", 0, 0,                \
      "cv|evidence|fixed",                                                                         \
      "Regression: how the prior precision of the linear pool's weights is chosen: by held-out "   \
      "error (cv), by maximum evidence, or fixed at loglinear.prior_weights.")                     \
    X(LINEAR_POOL_CENTER, pool_power, "linear_pool.center", REAL, "4", 0, 16, "",                  \
      "Regression: prior mean of the linear pool's weights: (1 / mean squared error) ^ value, "    \
      "normalised to sum 1. 0 = equal weights.")                                                   \
    X(LINEAR_POOL_NONNEGATIVE, pool_nonnegative, "linear_pool.nonnegative", BOOLEAN, "false", 0,   \
      1, "", "Regression: restrict the linear pool to non-negative weights.")                      \
    X(VARIANCE_RULE, variance_rule, "variance.rule", CHOICE, "auto", 0, 0,                         \
      "auto|constant|disagreement",                                                                \
      "Regression: noise variance that is constant, or that grows with the members' "              \
      "disagreement; auto = whichever has the lower held-out NLL.")                                \
    X(INTERVAL_RULE, conformal, "interval.rule", CHOICE, "conformal", 0, 0, "conformal|gaussian",  \
      "Regression: intervals from quantiles of cross-fitted residuals (conformal) or from the "    \
      "normal distribution.")                                                                      \
    X(TARGET_RANGE, target_range, "target.range", CHOICE, "auto", 0, 0, "auto|none",               \
      "Regression: keep predictions and intervals where targets can be: auto = at 0 or more if "   \
      "no "                                                                                        \
      "target of the fit and no prediction of some kept member is below 0, and then at 1 or less " \
      "if the largest target is exactly 1 and no prediction of some kept member is above it.")     \
    X(TARGET_TRANSFORM, target_transform, "target.transform", CHOICE, "auto", 0, 0,                \
      "auto|none|log1p|log|sqrt|logit",                                                            \
      "Regression: fit targets and predictions of members after this transform, and put its "      \
      "inverse on the result; auto = log1p where the metric is rmsle and every target is above "   \
      "-1, else none.")

#define CST_OPTION_ENUM(id, field, key, type, initial, least, most, choices, help) CST_OPT_##id,
typedef enum cst_option_id { CST_OPTION_LIST_ALL(CST_OPTION_ENUM) CST_OPT_COUNT } cst_option_id;
#undef CST_OPTION_ENUM

/* As cst_options_set, from what a model holds: whole numbers of earlier fits may be spelled 5.0. */
cst_status cst_options_restore(cst_context *context, cst_options *options, const char *key,
                               const char *value);

/* Of a list: bit c is set when choice c is in it. */
double cst_option_real(const cst_options *options, cst_option_id id);
int64_t cst_option_integer(const cst_options *options, cst_option_id id);
bool cst_option_flag(const cst_options *options, cst_option_id id);

/* Whether the option was set by itself after the preset was applied. */
bool cst_option_given(const cst_options *options, cst_option_id id);

/* Position of a choice's value in its list of choices. */
int cst_option_choice(const cst_options *options, cst_option_id id);

/* Returns the name of the preset that was applied last. Static. */
const char *cst_options_preset_name(const cst_options *options);
