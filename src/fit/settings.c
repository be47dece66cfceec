/* Decodes options once. Choices in the table are in the order of their enumerations. */
#include "fit/settings.h"

#include <string.h>

/* Removals cost a refit for each fold and member: on more rows than these (10,000 samples of 100
 * classes, 1,000 of 1,000) they are judged on a sample. */
static const int64_t JUDGED_PAIRS = 1 << 20;

void cst_settings_pool_only(cst_settings *settings) {
    if (!settings->learners_chosen && (settings->learners & CST_META_LOGLINEAR))
        settings->learners = CST_META_LOGLINEAR;
}

cst_penalty_options cst_settings_penalty(const cst_settings *settings) {
    return (cst_penalty_options){.rule = settings->penalty_rule,
                                 .noise = settings->noise_rule,
                                 .of = settings->spectrum_of,
                                 .grid = cst_penalty_grid_default()};
}

void cst_settings_read(const cst_options *o, cst_settings *out) {
    *out = (cst_settings){.seed = (uint64_t)cst_option_integer(o, CST_OPT_SEED)};
    out->folds = (int32_t)cst_option_integer(o, CST_OPT_FOLDS_COUNT);
    out->nested = cst_option_flag(o, CST_OPT_EVALUATE_NESTED);
    out->checks = cst_option_flag(o, CST_OPT_CHECKS);
    out->measure = (cst_measure)cst_option_choice(o, CST_OPT_REDUNDANCY_MEASURE);
    out->threshold_rule = (cst_threshold_rule)cst_option_choice(o, CST_OPT_CKA_RULE);
    out->threshold = cst_option_real(
        o, out->measure == CST_MEASURE_PEARSON ? CST_OPT_PEARSON_THRESHOLD : CST_OPT_CKA_THRESHOLD);
    out->keep_ties = cst_option_choice(o, CST_OPT_REDUNDANCY_TIES) == 1;
    out->cka = (cst_cka_options){
        .estimator = (cst_cka_estimator)cst_option_choice(o, CST_OPT_CKA_ESTIMATOR),
        .statistic = (cst_cka_statistic)cst_option_choice(o, CST_OPT_CKA_STATISTIC),
        .landmark_rule = (cst_landmark_rule)cst_option_choice(o, CST_OPT_CKA_LANDMARK_RULE),
        .landmarks = (int32_t)cst_option_integer(o, CST_OPT_CKA_LANDMARKS),
        .probes = (int32_t)cst_option_integer(o, CST_OPT_CKA_PROBES),
        .rows = (int32_t)cst_option_integer(o, CST_OPT_CKA_ROWS),
        .lsh = (cst_cka_lsh)cst_option_choice(o, CST_OPT_CKA_LSH),
        .seed = out->seed};
    /* A threshold that is yet to be found may be anywhere: every pair is computed. */
    if (out->threshold_rule == CST_THRESHOLD_GIVEN)
        out->cka.threshold = cst_option_real(o, CST_OPT_CKA_THRESHOLD);
    out->keep_max = (int32_t)cst_option_integer(o, CST_OPT_KEEP_MAX);
    out->keep_fraction = cst_option_real(o, CST_OPT_KEEP_FRACTION);
    out->limits =
        (cst_limits){.most = {[CST_COST_FLOPS] = cst_option_real(o, CST_OPT_KEEP_MAX_FLOPS),
                              [CST_COST_LATENCY] = cst_option_real(o, CST_OPT_KEEP_MAX_LATENCY),
                              [CST_COST_PARAMS] = cst_option_real(o, CST_OPT_KEEP_MAX_PARAMS)},
                     .parallel = cst_option_choice(o, CST_OPT_KEEP_LATENCY) == 1};
    int direction = cst_option_choice(o, CST_OPT_SELECT_DIRECTION);
    out->select = direction > 0;
    out->selection =
        (cst_select_options){.direction = (cst_select_direction)(direction > 0 ? direction - 1 : 0),
                             .rule = (cst_select_rule)cst_option_choice(o, CST_OPT_SELECT_RULE),
                             .tolerance = cst_option_real(o, CST_OPT_SELECT_TOLERANCE),
                             .prior = cst_option_real(o, CST_OPT_SELECT_PRIOR)};
    out->selection.compact =
        (cst_compact_options){.cut = cst_option_real(o, CST_OPT_LOGLINEAR_CUT),
                              .max_rows = cst_option_integer(o, CST_OPT_SELECT_MAX_ROWS)};
    out->learners = cst_option_set_of(o, CST_OPT_META_LEARNERS);
    out->learners_chosen = cst_option_given(o, CST_OPT_META_LEARNERS) ||
                           strcmp(cst_options_get(o, cst_option_at(CST_OPT_META_LEARNERS)->key),
                                  cst_option_at(CST_OPT_META_LEARNERS)->initial) != 0;
    static const cst_gate_mode gates[] = {CST_GATE_LEARNED, CST_GATE_PROTOTYPE, CST_GATE_NONE};
    out->gate = cst_gate_options_default();
    out->gate.mode = gates[cst_option_choice(o, CST_OPT_GATE_MODE)];
    out->gate.hidden = (int32_t)cst_option_integer(o, CST_OPT_GATE_HIDDEN);
    out->gate.epochs = (int32_t)cst_option_integer(o, CST_OPT_GATE_EPOCHS);
    out->gate.batch_rows = (int32_t)cst_option_integer(o, CST_OPT_GATE_BATCH);
    out->gate.learning_rate = cst_option_real(o, CST_OPT_GATE_LEARNING_RATE);
    out->gate.validation_fraction = cst_option_real(o, CST_OPT_GATE_VALIDATION);
    out->gate.patience = (int32_t)cst_option_integer(o, CST_OPT_GATE_PATIENCE);
    out->gate.max_rows = cst_option_integer(o, CST_OPT_GATE_MAX_ROWS);
    out->gate.seed = out->seed;
    out->penalty_rule = (cst_penalty_rule)cst_option_choice(o, CST_OPT_LAMBDA_RULE);
    out->noise_rule = (cst_noise_rule)cst_option_choice(o, CST_OPT_LAMBDA_NOISE);
    out->spectrum_of = (cst_spectrum_of)cst_option_choice(o, CST_OPT_SPECTRUM_OF);
    out->l1_ratio = cst_option_real(o, CST_OPT_ELASTIC_NET_L1_RATIO);
    out->balance = cst_option_real(o, CST_OPT_FIT_BALANCE);
    if (out->balance > 0)
        cst_settings_pool_only(out);
    out->selection.nonnegative = cst_option_flag(o, CST_OPT_LOGLINEAR_NONNEGATIVE);
    int prior = cst_option_choice(o, CST_OPT_LOGLINEAR_PRIOR);
    out->prior_cv = prior == 0;
    int mixing = cst_option_choice(o, CST_OPT_LOGLINEAR_MIXING);
    out->share_cv = mixing == 0;
    if (mixing == 2)
        out->selection.compact.share = cst_option_real(o, CST_OPT_LOGLINEAR_SHARE);
    out->loglinear = cst_loglinear_defaults();
    out->loglinear.compact = out->selection.compact;
    out->loglinear.bias = cst_option_flag(o, CST_OPT_LOGLINEAR_BIAS);
    out->loglinear.nonnegative = out->selection.nonnegative;
    out->loglinear.evidence = prior == 1;
    out->loglinear.prior_weights = cst_option_real(o, CST_OPT_LOGLINEAR_PRIOR_WEIGHTS);
    out->loglinear.prior_bias = cst_option_real(o, CST_OPT_LOGLINEAR_PRIOR_BIAS);
    out->blend = cst_blend_defaults();
    out->blend.rule = (cst_blend_rule)cst_option_choice(o, CST_OPT_BLEND_RULE);
    out->blend.same_loss = cst_option_choice(o, CST_OPT_BLEND_EVIDENCE) == 1;
    out->blend.prior = cst_option_real(o, CST_OPT_BLEND_PRIOR);
    out->blend.least = cst_option_real(o, CST_OPT_BLEND_LEAST);
    out->blend.temperature = cst_option_real(o, CST_OPT_BLEND_TEMPERATURE);
    out->blend.mean_loss = cst_option_choice(o, CST_OPT_BLEND_LOSS) == 1;
    out->map = (cst_probability_map)cst_option_choice(o, CST_OPT_PROBABILITY_MAP);
    out->drop = cst_option_flag(o, CST_OPT_REFIT_DROP);
    out->domain_aware = (cst_domain_aware)cst_option_choice(o, CST_OPT_DOMAIN_AWARE);
    out->domain_priors =
        (cst_domain_priors){.scale = cst_option_real(o, CST_OPT_DOMAIN_PRIOR_SCALE),
                            .bias = cst_option_real(o, CST_OPT_DOMAIN_PRIOR_BIAS)};
    out->pool_prior = cst_option_choice(o, CST_OPT_LINEAR_POOL_PRIOR);
    out->pool_power = cst_option_real(o, CST_OPT_LINEAR_POOL_CENTER);
    out->pool_nonnegative = cst_option_flag(o, CST_OPT_LINEAR_POOL_NONNEGATIVE);
    out->variance_rule = cst_option_choice(o, CST_OPT_VARIANCE_RULE);
    out->conformal = cst_option_choice(o, CST_OPT_INTERVAL_RULE) == 0;
    out->judged_pairs = JUDGED_PAIRS;
}
