/* Options decoded once, in the types the stages take. */
#pragma once

#include "core/options.h"
#include "data/pool/costs.h"
#include "data/pool/pool.h"
#include "method/blend/blend.h"
#include "method/calibration/calibration.h"
#include "method/gate/gate.h"
#include "method/linear/penalty.h"
#include "method/loglinear/loglinear.h"
#include "method/noise/noise.h"
#include "method/redundancy/redundancy.h"
#include "method/select/select.h"

typedef enum cst_measure {
    CST_MEASURE_CKA = 0,
    CST_MEASURE_PEARSON = 1,
    CST_MEASURE_NONE = 2
} cst_measure;

typedef enum cst_threshold_rule {
    CST_THRESHOLD_GIVEN = 0,
    CST_THRESHOLD_ELBOW = 1,
    CST_THRESHOLD_CV = 2
} cst_threshold_rule;

typedef enum cst_domain_aware {
    CST_DOMAIN_AWARE_AUTO = 0,
    CST_DOMAIN_AWARE_TRUE = 1,
    CST_DOMAIN_AWARE_FALSE = 2
} cst_domain_aware;

/* The log-linear pool among cst_settings.learners; in a regression, the linear pool. */
#define CST_META_LOGLINEAR (1U << 3)
/* That with weights of each class: of these two alone one is chosen, not a blend. */
#define CST_META_CLASS_WISE (1U << 17)
#define CST_META_POOLS (CST_META_LOGLINEAR | CST_META_CLASS_WISE)

enum { CST_METRIC_CHARS = 64 };

typedef struct cst_cascade_options {
    bool on;
    double alpha;      /* most rows, as a share, with the risk */
    double confidence; /* of a bound of that */
    double loss;       /* most mean divergence from the stack, as a share of its NLL */
    int risk;          /* cst_cascade_risk */
} cst_cascade_options;

typedef struct cst_settings {
    char metric[CST_METRIC_CHARS]; /* as it was given; empty: none */
    uint64_t seed;
    cst_fold_plan folds;
    bool nested;
    bool checks;
    cst_cascade_options cascade;
    cst_noise_options labels;
    double balance; /* of the classes, in losses: 0 none, 1 full */
    cst_measure measure;
    cst_threshold_rule threshold_rule;
    double threshold; /* of the measure */
    double pearson_threshold;
    bool keep_ties; /* a redundant member stays unless the kept one has strictly lower risk */
    cst_cka_options cka;
    int32_t keep_max;
    double keep_fraction;
    cst_limits limits; /* on what the kept members cost */
    bool front;        /* find the front of loss against cost, for a report */
    bool select;
    cst_select_options selection; /* limits and costs are set for each view */
    unsigned learners;            /* bit i: choice i of meta.learners */
    cst_gate_options gate;
    cst_penalty_rule penalty_rule;
    cst_penalty_scale penalty_scale;
    cst_noise_rule noise_rule;
    cst_spectrum_of spectrum_of;
    double l1_ratio;
    cst_loglinear_options loglinear;
    int prior;     /* choice of loglinear.prior */
    int mixing;    /* choice of loglinear.mixing */
    bool prior_cv; /* precision of the log-linear weights by held-out loss */
    bool share_cv; /* mixing of the log-linear pool by held-out loss */
    cst_blend_options blend;
    cst_probability_map map;
    bool drop;
    cst_domain_aware domain_aware;
    cst_domain_priors domain_priors;
    int pool_prior;        /* regression: choice of linear_pool.prior */
    double pool_power;     /* regression: what the linear pool's weights are drawn to */
    bool pool_nonnegative; /* regression: weights of the linear pool */
    int variance_rule;     /* regression: choice of variance.rule */
    int target_range;      /* regression: choice of target.range */
    int target_transform;  /* regression: 0: auto; else one more than the kind */
    bool conformal;        /* regression: intervals by quantiles of residuals */
    bool learners_chosen;  /* the learners are not those of preset default */
    int elsewhere;         /* options that a task reads itself: nothing */
    int64_t judged_pairs;  /* (sample, class) pairs up to which removals are judged on every row */
} cst_settings;

void cst_settings_read(const cst_options *options, cst_settings *out);

/* How they choose the penalty of linear meta-learners. */
cst_penalty_options cst_settings_penalty(const cst_settings *settings);

/* Leaves of a preset's meta-learners the log-linear pool alone, where it is among them and
 * meta.learners was not set; or, unless classes are balanced, both pools to choose from. */
void cst_settings_pool_only(cst_settings *settings);
void cst_settings_pools_only(cst_settings *settings, bool balanced);
