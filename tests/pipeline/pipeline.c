/*
 * The pipeline: held-out rows cannot reach what is predicted for them, a planted leak is seen,
 * stages agree with their parts, same bytes for any number of threads.
 */
#include "core/la.h"
#include "fit/family.h"
#include "fit/learners.h"
#include "model/predict.h"
#include "short_tests.h"
#include "stats/samples.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static const cst_costs NO_COSTS;

enum { ROWS = 180, CLASSES = 3, MEMBERS = 6, FOLDS = 4, TWIN = 4, NOISE = 5 };

typedef struct fixture {
    cst_context *context;
    float predictions[MEMBERS][ROWS * CLASSES];
    const float *data[MEMBERS];
    int32_t labels[ROWS];
    int32_t folds[ROWS];
    double unknown[MEMBERS];
    cst_view view;
    cst_options *options;
} fixture;

static fixture shared;

/* Softmax of noise plus signal: member k knows the label through its own noise. */
static void make_member(cst_rng *rng, const int32_t *labels, double signal, float *out) {
    for (int i = 0; i < ROWS; i++) {
        double p[CLASSES];
        double sum = 0;
        for (int c = 0; c < CLASSES; c++)
            sum += p[c] = exp(cst_rng_normal(rng) + signal * (labels[i] == c));
        for (int c = 0; c < CLASSES; c++)
            out[i * CLASSES + c] = (float)(p[c] / sum);
    }
}

static int setup(void **state) {
    fixture *f = &shared;
    memset(f, 0, sizeof *f);
    cst_la_enter();
    if (cst_context_create(&f->context) != CST_OK ||
        cst_options_create(f->context, &f->options) != CST_OK)
        return 1;
    cst_rng rng;
    cst_rng_init(&rng, 3, CST_STREAM_TEST, 1);
    for (int i = 0; i < ROWS; i++) {
        f->labels[i] = (int32_t)cst_rng_below(&rng, CLASSES);
        f->folds[i] = i % FOLDS;
    }
    for (int k = 0; k < MEMBERS; k++) {
        f->unknown[k] = NAN;
        f->data[k] = f->predictions[k];
        make_member(&rng, f->labels, k == NOISE ? 0 : 1.5, f->predictions[k]);
    }
    memcpy(f->predictions[TWIN], f->predictions[1], sizeof f->predictions[1]);
    f->view = (cst_view){
        .rows = ROWS, .classes = CLASSES, .members = MEMBERS, .data = f->data, .labels = f->labels};
    *state = f;
    return 0;
}

static int teardown(void **state) {
    fixture *f = *state;
    cst_options_free(f->context, f->options);
    cst_context_free(f->context);
    cst_la_leave();
    return 0;
}

static cst_settings settings_of(fixture *f, const char *preset) {
    cst_settings settings;
    assert_int_equal(cst_options_preset(f->context, f->options, preset), CST_OK);
    assert_int_equal(cst_options_set(f->context, f->options, "gate.epochs", "5"), CST_OK);
    cst_settings_read(f->options, &settings);
    return settings;
}

static cst_status run_stages(cst_context *context, const cst_view *view, const int32_t *folds,
                             const cst_settings *settings, const cst_costs *costs,
                             cst_stages *out) {
    const cst_run run = cst_run_of(&cst_classification_family, view, folds, FOLDS, settings, costs);
    return cst_stages_run(context, &run, out);
}

static void nested(fixture *f, const cst_settings *settings, float *out) {
    const cst_run run =
        cst_run_of(&cst_classification_family, &f->view, f->folds, FOLDS, settings, &NO_COSTS);
    const cst_fold_result held = {out, CLASSES};
    cst_status status = cst_stages_nested(f->context, &run, NULL, &held, 1);
    if (status != CST_OK)
        fail_msg("%s", cst_last_error(f->context));
}

/* What is predicted for a fold must not change by a single bit when the fold's labels change. The
 * other folds' predictions must, or the test would see nothing. */
static void labels_of_a_fold_do_not_reach_its_predictions(void **state) {
    static const char *const presets[] = {"default", "compact", "best", "paper", "prototype"};
    fixture *f = *state;
    int32_t keep[ROWS];
    memcpy(keep, f->labels, sizeof keep);
    for (size_t p = 0; p < sizeof presets / sizeof presets[0]; p++) {
        float before[ROWS * CLASSES];
        float after[ROWS * CLASSES];
        cst_settings settings = settings_of(f, presets[p]);
        nested(f, &settings, before);
        for (int i = 0; i < ROWS; i++)
            if (f->folds[i] == 2)
                f->labels[i] = (keep[i] + 1) % CLASSES;
        nested(f, &settings, after);
        memcpy(f->labels, keep, sizeof keep);
        bool elsewhere = false;
        for (int i = 0; i < ROWS; i++) {
            int differ =
                memcmp(before + i * CLASSES, after + i * CLASSES, CLASSES * sizeof *before);
            if (f->folds[i] == 2)
                assert_int_equal(differ, 0);
            else
                elsewhere |= differ != 0;
        }
        assert_true(elsewhere);
    }
}

static double mean_nll(const fixture *f, const float *probabilities) {
    double sum = 0;
    for (int i = 0; i < ROWS; i++)
        sum -= log((double)probabilities[i * CLASSES + f->labels[i]]);
    return sum / ROWS;
}

/* Labels that no member knows: in-sample scores look better than chance, nested ones must not. */
static void a_planted_leak_is_seen(void **state) {
    fixture *f = *state;
    int32_t keep[ROWS];
    float held[ROWS * CLASSES];
    float leaky[ROWS * CLASSES];
    const float *pointers[MEMBERS];
    memcpy(keep, f->labels, sizeof keep);
    cst_rng rng;
    cst_rng_init(&rng, 99, CST_STREAM_TEST, 2);
    for (int i = 0; i < ROWS; i++)
        f->labels[i] = (int32_t)cst_rng_below(&rng, CLASSES);
    cst_settings settings = settings_of(f, "default");
    settings.loglinear.prior_weights = 0.01; /* free to fit noise, so that a leak would pay */
    settings.prior_cv = settings.share_cv = false;
    settings.loglinear.evidence = false;
    nested(f, &settings, held);
    cst_stages stages;
    assert_int_equal(run_stages(f->context, &f->view, f->folds, &settings, &NO_COSTS, &stages),
                     CST_OK);
    cst_view kept = cst_view_members(&f->view, stages.kept, stages.kept_count, pointers);
    assert_int_equal(cst_stack_predict(f->context, stages.fit.model, &kept, leaky), CST_OK);
    double chance = log(CLASSES);
    assert_true(mean_nll(f, held) > chance - 0.005);
    assert_true(mean_nll(f, leaky) < chance - 0.005);
    cst_stages_free(f->context, &stages);
    memcpy(f->labels, keep, sizeof keep);
}

static void twins_and_noise_go(void **state) {
    static const char *const presets[] = {"default", "compact"};
    fixture *f = *state;
    for (int i = 0; i < 2; i++) {
        cst_settings settings = settings_of(f, presets[i]);
        cst_stages stages;
        settings.keep_fraction = i == 0 ? 0 : 0.6;
        assert_int_equal(run_stages(f->context, &f->view, f->folds, &settings, &NO_COSTS, &stages),
                         CST_OK);
        assert_int_equal(stages.reason[TWIN], CST_REASON_REDUNDANT);
        assert_int_equal(stages.closest[TWIN], 1);
        assert_true(stages.closest_value[TWIN] > 1 - 1e-6);
        if (i == 1) /* within 60% of six there is no place for it */
            assert_int_equal(stages.reason[NOISE], CST_REASON_CAP);
        assert_int_equal(stages.kept_count, i == 0 ? 5 : 3);
        cst_stages_free(f->context, &stages);
    }
}

static void dropping_is_by_cross_fitted_loss(void **state) {
    fixture *f = *state;
    cst_settings settings = settings_of(f, "default");
    settings.select = false;
    settings.keep_fraction = 0;
    settings.drop = true;
    settings.learners = CST_META_LOGLINEAR;
    cst_stages stages;
    assert_int_equal(run_stages(f->context, &f->view, f->folds, &settings, &NO_COSTS, &stages),
                     CST_OK);
    assert_int_equal(stages.reason[NOISE], CST_REASON_REFIT);
    for (int k = 0; k < MEMBERS; k++)
        assert_true((stages.reason[k] == CST_REASON_REFIT) == !isnan(stages.refit_change[k]));
    cst_stages_free(f->context, &stages);
}

/* With more rows than removals are judged on: noise still goes, the pass says what it read, and
 * what is left is fitted on all rows. */
static void dropping_on_a_sample_says_so(void **state) {
    fixture *f = *state;
    cst_settings settings = settings_of(f, "paper");
    enum { TIMES = 4 };
    int64_t index[ROWS * TIMES]; /* the rows several times over: more than are judged on */
    int32_t folds[ROWS * TIMES];
    cst_view view = f->view;
    for (int i = 0; i < ROWS * TIMES; i++) {
        index[i] = i % ROWS;
        folds[i] = f->folds[i % ROWS];
    }
    view.index = index;
    view.rows = ROWS * TIMES;
    settings.drop = true;
    settings.measure = CST_MEASURE_NONE;
    settings.judged_pairs = 600 * CLASSES;
    assert_true(view.rows > 600);
    cst_stages sampled;
    cst_stages again;
    cst_notices_clear(f->context);
    for (int threads = 1; threads <= 2; threads++) {
        cst_stages *stages = threads == 1 ? &sampled : &again;
        assert_int_equal(cst_context_set_threads(f->context, threads), CST_OK);
        assert_int_equal(run_stages(f->context, &view, folds, &settings, &NO_COSTS, stages),
                         CST_OK);
    }
    bool told = false;
    for (size_t i = 0; i < cst_notice_count(f->context); i++)
        told = told || strstr(cst_notice_at(f->context, i), "judges removals on 600 of the");
    assert_true(told);
    assert_int_equal(sampled.reason[NOISE], CST_REASON_REFIT);
    assert_int_equal(sampled.kept_count, again.kept_count);
    assert_memory_equal(sampled.kept, again.kept,
                        (size_t)sampled.kept_count * sizeof *sampled.kept);
    /* The fit on all rows that would have been made with those members alone. */
    const float *pointers[MEMBERS];
    cst_view kept = cst_view_members(&view, sampled.kept, sampled.kept_count, pointers);
    cst_meta_fit alone;
    assert_int_equal(cst_meta_fit_run(f->context, &kept, folds, FOLDS, &settings, true, &alone),
                     CST_OK);
    assert_true(sampled.fit.lambda == alone.lambda && sampled.fit.learners == alone.learners);
    for (int32_t m = 0; m < alone.learners; m++) {
        assert_true(sampled.fit.weight[m] == alone.weight[m]);
        assert_true(sampled.fit.nll[m] == alone.nll[m]);
    }
    cst_meta_fit_free(f->context, &alone);
    cst_stages_free(f->context, &sampled);
    cst_stages_free(f->context, &again);
}

/* What is kept of held-out rows is what prediction says of them, learner by learner. */
static void heldout_rows_are_predicted_rows(void **state) {
    fixture *f = *state;
    enum { LEARNERS = 4 };
    for (int mode = CST_GATE_NONE; mode <= CST_GATE_LEARNED; mode++) {
        static float truth[LEARNERS * ROWS];
        static float whole[LEARNERS][ROWS * CLASSES];
        double moments[LEARNERS * LEARNERS];
        double expected[LEARNERS * LEARNERS];
        cst_settings settings = settings_of(f, "paper");
        settings.learners = 15;
        settings.gate.mode = (cst_gate_mode)mode;
        cst_meta_fit fits[FOLDS];
        const cst_model *models[FOLDS];
        for (int32_t fold = 0; fold < FOLDS; fold++) {
            int64_t index[ROWS];
            int32_t *inside = NULL;
            int32_t count = 0;
            float part[ROWS * CLASSES];
            cst_view in;
            cst_view out;
            cst_view_split(&f->view, f->folds, fold, index, &in, &out);
            assert_int_equal(
                cst_folds_inside(f->context, &in, f->folds, ROWS, FOLDS, fold, 0, &inside, &count),
                CST_OK);
            assert_int_equal(
                cst_meta_fit_run(f->context, &in, inside, count, &settings, false, &fits[fold]),
                CST_OK);
            models[fold] = fits[fold].model;
            for (int32_t m = 0; m < LEARNERS; m++) {
                int64_t from = 0;
                assert_int_equal(
                    cst_predict_with(f->context, models[fold], m, &out, false, false, part),
                    CST_OK);
                for (int64_t i = 0; i < ROWS; i++)
                    if (f->folds[i] == fold)
                        memcpy(whole[m] + i * CLASSES, part + CLASSES * from++,
                               CLASSES * sizeof *part);
            }
            cst_free(f->context, inside);
        }
        cst_heldout heldout = {.view = &f->view,
                               .folds = f->folds,
                               .fold_count = FOLDS,
                               .models = models,
                               .learners = LEARNERS,
                               .truth = truth,
                               .moments = moments};
        assert_int_equal(cst_heldout_run(f->context, &heldout), CST_OK);
        const float *data[LEARNERS] = {whole[0], whole[1], whole[2], whole[3]};
        cst_view all = f->view;
        all.members = LEARNERS;
        all.data = data;
        assert_int_equal(cst_residual_moments(f->context, &all, expected), CST_OK);
        for (int i = 0; i < LEARNERS * LEARNERS; i++)
            assert_true(fabs(moments[i] - expected[i]) <= 1e-7 * fabs(expected[i]));
        for (int m = 0; m < LEARNERS; m++)
            for (int i = 0; i < ROWS; i++)
                assert_true(fabsf(truth[m * ROWS + i] - whole[m][i * CLASSES + f->labels[i]]) <=
                            1e-6F);
        for (int fold = 0; fold < FOLDS; fold++)
            cst_meta_fit_free(f->context, &fits[fold]);
    }
}

/* Every blend rule and learner set gives distributions and weights that sum to 1. */
static void every_rule_blends(void **state) {
    static const char *const rules[] = {"laplace", "inverse-rmse", "minimum-variance",
                                        "greedy",  "stacking",     "uniform"};
    fixture *f = *state;
    for (size_t r = 0; r < 6; r++) {
        cst_settings settings = settings_of(f, "paper");
        settings.drop = false;
        settings.learners = 15;
        assert_int_equal(cst_options_set(f->context, f->options, "blend.rule", rules[r]), CST_OK);
        settings.blend.rule = (cst_blend_rule)cst_option_choice(f->options, CST_OPT_BLEND_RULE);
        float out[ROWS * CLASSES];
        const float *pointers[MEMBERS];
        cst_stages stages;
        assert_int_equal(run_stages(f->context, &f->view, f->folds, &settings, &NO_COSTS, &stages),
                         CST_OK);
        double sum = 0;
        for (int32_t m = 0; m < stages.fit.learners; m++) {
            bool curved = settings.blend.rule != CST_BLEND_STACKING; /* else nobody reads it */
            assert_true(isfinite(stages.fit.nll[m]));
            assert_true(isfinite(stages.fit.half_logdet[m]) || !curved);
            sum += stages.fit.weight[m];
        }
        assert_int_equal(stages.fit.learners, 4);
        assert_true(fabs(sum - 1) < 1e-9);
        cst_view kept = cst_view_members(&f->view, stages.kept, stages.kept_count, pointers);
        assert_int_equal(cst_stack_predict(f->context, stages.fit.model, &kept, out), CST_OK);
        for (int i = 0; i < ROWS; i++)
            assert_true(fabs((double)out[i * CLASSES] + (double)out[i * CLASSES + 1] +
                             (double)out[i * CLASSES + 2] - 1) < 1e-5);
        assert_true(mean_nll(f, out) < log(CLASSES));
        cst_stages_free(f->context, &stages);
    }
}

static void thresholds_are_found(void **state) {
    static const char *const rules[] = {"elbow", "cv"};
    fixture *f = *state;
    for (size_t r = 0; r < 2; r++) {
        cst_settings settings = settings_of(f, "default");
        settings.threshold_rule = r == 0 ? CST_THRESHOLD_ELBOW : CST_THRESHOLD_CV;
        cst_stages stages;
        assert_int_equal(cst_options_set(f->context, f->options, "cka.rule", rules[r]), CST_OK);
        assert_int_equal(run_stages(f->context, &f->view, f->folds, &settings, &NO_COSTS, &stages),
                         CST_OK);
        assert_true(stages.threshold >= -1 && stages.threshold <= 1);
        /* Two copies may have a lower held-out loss than one, by rounding, so that cv keeps both.
         */
        bool kept = r == 1 && stages.threshold >= 1;
        assert_int_equal(stages.reason[TWIN], kept ? CST_REASON_KEPT : CST_REASON_REDUNDANT);
        cst_stages_free(f->context, &stages);
    }
}

static void same_bytes_for_any_threads(void **state) {
    static const char *const presets[] = {"default", "compact", "best", "paper", "prototype"};
    fixture *f = *state;
    for (size_t p = 0; p < sizeof presets / sizeof presets[0]; p++) {
        float first[ROWS * CLASSES];
        cst_settings settings = settings_of(f, presets[p]);
        assert_int_equal(cst_context_set_threads(f->context, 1), CST_OK);
        nested(f, &settings, first);
        for (int threads = short_tests() ? 4 : 2; threads <= 4; threads += 2) {
            float again[ROWS * CLASSES];
            assert_int_equal(cst_context_set_threads(f->context, threads), CST_OK);
            nested(f, &settings, again);
            assert_memory_equal(first, again, sizeof first);
        }
    }
}

/* Of a pool that knows half of the rows: one that knows the other half stays, a copy and one that
 * knows nothing leave. */
static void learners_that_add_nothing_leave(void **state) {
    enum { MANY = 600, COPY = 1, NOTHING, POOL, LEARNERS };
    static float truth[LEARNERS * MANY];
    fixture *f = *state;
    unsigned without = 0;
    static cst_learner learner[LEARNERS];
    cst_model model = {.learner = learner};
    const cst_meta_fit fit = {.model = &model, .learners = LEARNERS};
    const cst_view view = {.rows = MANY, .classes = CLASSES, .members = LEARNERS};
    const cst_blend_options options = {.rule = CST_BLEND_STACKING, .least = 0.01};
    for (int i = 0; i < MANY; i++) {
        truth[i] = i % 2 ? 0.9F : 0.3F;
        truth[COPY * MANY + i] = i % 2 ? 0.3F : 0.9F;
        truth[NOTHING * MANY + i] = 0.05F;
        truth[POOL * MANY + i] = i % 2 ? 0.3F : 0.9F;
    }
    assert_int_equal(cst_unneeded_learners(f->context, &view, &options, truth, &fit,
                                           1U << 0 | 1U << COPY, &without),
                     CST_OK);
    assert_int_equal(without, 1U << COPY | 1U << NOTHING);
}

/* A penalty so large that lasso and elastic net lose every coefficient: they must not win the blend
 * for want of a determinant. */
static void empty_learners_take_no_part(void **state) {
    fixture *f = *state;
    cst_settings settings = settings_of(f, "paper");
    cst_meta_fit fit;
    settings.penalty_scale = CST_SCALE_MEAN;
    /* Few rows, many members: lambda* is far above where the l1 fits become zero. */
    enum { MANY = 40 };
    static float noise[MANY][ROWS * CLASSES];
    const float *data[MANY];
    cst_rng rng;
    cst_rng_init(&rng, 4, CST_STREAM_TEST, 2);
    for (int k = 0; k < MANY; k++) {
        data[k] = noise[k];
        make_member(&rng, f->labels, 1.2, noise[k]);
    }
    cst_view view = f->view;
    view.data = data;
    view.members = MANY;
    view.rows = 100;
    cst_notices_clear(f->context);
    assert_int_equal(cst_meta_fit_run(f->context, &view, f->folds, FOLDS, &settings, false, &fit),
                     CST_OK);
    bool any_empty = false;
    for (int32_t m = 0; m < fit.learners; m++) {
        bool empty = true;
        for (int32_t j = 0; j < fit.model->learner[m].coefficients; j++)
            empty = empty && fit.model->learner[m].weights[j] == 0;
        any_empty = any_empty || empty;
        assert_true(!empty || fit.weight[m] == 0);
    }
    assert_true(any_empty);
    assert_true(cst_notice_count(f->context) > 0);
    cst_meta_fit_free(f->context, &fit);
}

/* With two folds one is left inside: the new ones must not separate a group either. */
static void groups_stay_together_inside(void **state) {
    fixture *f = *state;
    int64_t groups[ROWS];
    int32_t folds[ROWS];
    int64_t index[ROWS];
    for (int i = 0; i < ROWS; i++) {
        groups[i] = i / 6;
        folds[i] = (int32_t)(groups[i] % 2);
    }
    cst_view view = f->view;
    cst_view in;
    cst_view out;
    view.groups = groups;
    cst_view_split(&view, folds, 0, index, &in, &out);
    int32_t *inside = NULL;
    int32_t count = 0;
    assert_int_equal(cst_folds_inside(f->context, &in, folds, ROWS, 2, 0, 1, &inside, &count),
                     CST_OK);
    assert_int_equal(count, 2);
    for (int64_t i = 1; i < in.rows; i++)
        if (groups[in.index[i]] == groups[in.index[i - 1]])
            assert_int_equal(inside[i], inside[i - 1]);
    cst_free(f->context, inside);
}

/* Budgets: a path that meets neither is replaced by one that keeps to them. */
static void budgets_hold_together(void **state) {
    fixture *f = *state;
    double flops[MEMBERS];
    double latency[MEMBERS];
    for (int k = 0; k < MEMBERS; k++) {
        flops[k] = 1 + k;
        latency[k] = MEMBERS - k;
    }
    const cst_costs costs = {{flops, latency}};
    for (int direction = 0; direction < 2; direction++) {
        cst_settings settings = settings_of(f, "default");
        cst_stages stages;
        settings.select = direction == 1;
        settings.limits.most[CST_COST_FLOPS] = 5;
        settings.limits.most[CST_COST_LATENCY] = MEMBERS + 1;
        assert_int_equal(run_stages(f->context, &f->view, f->folds, &settings, &costs, &stages),
                         CST_OK);
        double total[2] = {0, 0};
        for (int32_t j = 0; j < stages.kept_count; j++) {
            total[0] += flops[stages.kept[j]];
            total[1] += latency[stages.kept[j]];
        }
        assert_true(stages.kept_count > 0 && total[0] <= 5 && total[1] <= MEMBERS + 1);
        cst_stages_free(f->context, &stages);
        settings.limits.most[CST_COST_FLOPS] = 0.5;
        assert_int_equal(run_stages(f->context, &f->view, f->folds, &settings, &costs, &stages),
                         CST_ERROR_INPUT);
        assert_non_null(strstr(cst_last_error(f->context), "cheapest has 1"));
    }
}

int suite_pipeline(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(labels_of_a_fold_do_not_reach_its_predictions),
        cmocka_unit_test(a_planted_leak_is_seen),
        cmocka_unit_test(twins_and_noise_go),
        cmocka_unit_test(dropping_is_by_cross_fitted_loss),
        cmocka_unit_test(dropping_on_a_sample_says_so),
        cmocka_unit_test(heldout_rows_are_predicted_rows),
        cmocka_unit_test(every_rule_blends),
        cmocka_unit_test(thresholds_are_found),
        cmocka_unit_test(same_bytes_for_any_threads),
        cmocka_unit_test(learners_that_add_nothing_leave),
        cmocka_unit_test(empty_learners_take_no_part),
        cmocka_unit_test(groups_stay_together_inside),
        cmocka_unit_test(budgets_hold_together),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
