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

void cst_settings_pools_only(cst_settings *settings, bool balanced) {
    cst_settings_pool_only(settings);
    if (!settings->learners_chosen && settings->learners == CST_META_LOGLINEAR && !balanced &&
        settings->balance <= 0)
        settings->learners = CST_META_POOLS;
}

cst_penalty_options cst_settings_penalty(const cst_settings *settings) {
    return (cst_penalty_options){.rule = settings->penalty_rule,
                                 .scale = settings->penalty_scale,
                                 .noise = settings->noise_rule,
                                 .of = settings->spectrum_of,
                                 .grid = cst_penalty_grid_default()};
}

void cst_settings_read(const cst_options *o, cst_settings *out) {
    *out = (cst_settings){.gate = cst_gate_options_default(),
                          .loglinear = cst_loglinear_defaults(),
                          .blend = cst_blend_defaults(),
                          .judged_pairs = JUDGED_PAIRS};
#define CST_OPTION_READ(id, field, key, type, initial, least, most, choices, help)                 \
    out->field = (__typeof__(out->field))cst_option_real(o, CST_OPT_##id);
    CST_OPTION_LIST_ALL(CST_OPTION_READ)
#undef CST_OPTION_READ
    (void)cst_snprintf(out->metric, sizeof out->metric, "%s", cst_options_get(o, "metric"));
    /* A threshold that is yet to be found may be anywhere: every pair is computed. */
    if (out->threshold_rule == CST_THRESHOLD_GIVEN)
        out->cka.threshold = out->threshold;
    if (out->measure == CST_MEASURE_PEARSON)
        out->threshold = out->pearson_threshold;
    out->cka.seed = out->seed;
    out->gate.seed = out->seed;
    out->gate.mode = (cst_gate_mode)(CST_GATE_LEARNED - (int)out->gate.mode); /* the other order */
    int direction = (int)out->selection.direction;                            /* 0: none */
    out->select = direction > 0;
    out->selection.direction = (cst_select_direction)(direction > 0 ? direction - 1 : 0);
    out->learners_chosen = cst_option_given(o, CST_OPT_META_LEARNERS) ||
                           strcmp(cst_options_get(o, cst_option_at(CST_OPT_META_LEARNERS)->key),
                                  cst_option_at(CST_OPT_META_LEARNERS)->initial) != 0;
    if (out->balance > 0)
        cst_settings_pool_only(out);
    out->prior_cv = out->prior == 0;
    out->share_cv = out->mixing == 0;
    if (out->mixing != 2)
        out->selection.compact.share = 0;
    out->loglinear.compact = out->selection.compact;
    out->loglinear.nonnegative = out->selection.nonnegative;
    out->loglinear.evidence = out->prior == 1;
    out->conformal = !out->conformal; /* its first choice */
}
