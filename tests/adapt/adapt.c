/*
 * Adaptation to a few labelled rows: the optimum against SciPy (tests/oracles/adapt.py), adapted
 * models in files and in every way of prediction, rows that cannot be learnt from, rows to label,
 * and memory that runs out.
 */
#include "fit/adapt/adapt.h"
#include "model/fit_rows.h"

#include "data/adapt.h"
#include "model_fixture.h"

#include <corestack/more.h>
#include <stdio.h>

#include "check.h"
#include "data/pool/pool.h"
#include "predict_present.h"

static cst_scope scope; /* of what a test makes */

/* ---- the fit ---- */

static void as_in_scipy(void **state) {
    cst_context *context = *state;
    enum { PARAMETERS = 1 + ADAPT_MEMBERS + ADAPT_CLASSES, CANDIDATES = CST_ADAPT_CANDIDATES };
    double ones[ADAPT_ROWS];
    float x[ADAPT_ROWS * ADAPT_CLASSES * (ADAPT_MEMBERS + 1)];
    int32_t labels[ADAPT_ROWS];
    memcpy(x, adapt_x, sizeof x);
    for (int i = 0; i < ADAPT_ROWS; i++)
        ones[i] = 1;
    for (int t = 0; t < ADAPT_CASES; t++) {
        cst_adapt_choice choice;
        memcpy(labels, adapt_labels + (size_t)t * ADAPT_ROWS, sizeof labels);
        const cst_adapt_table table = {.rows = adapt_rows[t],
                                       .classes = ADAPT_CLASSES,
                                       .columns = ADAPT_MEMBERS + 1,
                                       .x = x,
                                       .labels = labels,
                                       .weights = ones};
        assert_int_equal(cst_adapt_choose(context, &scope, &table, NULL, NULL, false, &choice),
                         CST_OK);
        for (int c = 0; c < CANDIDATES; c++) {
            const cst_adapt_candidate *candidate = &choice.candidate[c];
            assert_close(candidate->loss, adapt_losses[t * CANDIDATES + c], 1e-7);
            assert_close(candidate->evidence, adapt_evidences[t * CANDIDATES + c], 1e-6);
            assert_close(candidate->share, adapt_shares[t * CANDIDATES + c], 1e-6);
        }
        assert_close(choice.evidence, adapt_ratio[t], 1e-6);
        assert_close(choice.step, adapt_step[t], 1e-6);
        assert_close(choice.stack_loss, adapt_stack[t], 1e-9);
        assert_int_equal(choice.adapted, adapt_changed[t]);
        for (int j = 0; j < PARAMETERS; j++)
            assert_close(choice.theta[j], adapt_theta[t * PARAMETERS + j], 1e-6);
        cst_scope_free(&scope);
    }
}

static void rows_without_labels_as_in_scipy(void **state) {
    cst_context *context = *state;
    enum { PARAMETERS = 1 + ADAPT_MEMBERS + ADAPT_CLASSES };
    double ones[ADAPT_ROWS];
    float x[ADAPT_ROWS * ADAPT_CLASSES * (ADAPT_MEMBERS + 1)];
    int32_t labels[ADAPT_ROWS];
    const double center[PARAMETERS] = {1};
    memcpy(x, adapt_x, sizeof x);
    memcpy(labels, adapt_labels, sizeof labels);
    for (int i = 0; i < ADAPT_ROWS; i++)
        ones[i] = 1;
    const cst_adapt_table all = {.rows = ADAPT_ROWS,
                                 .classes = ADAPT_CLASSES,
                                 .columns = ADAPT_MEMBERS + 1,
                                 .x = x,
                                 .labels = labels,
                                 .weights = ones};
    cst_adapt_table few = all;
    few.rows = 14;
    const cst_adapt_balance balance = {&all, adapt_known};
    for (int i = 0; i < 2; i++) {
        double theta[PARAMETERS] = {1};
        const double precision = i == 0 ? 3 : 100;
        const cst_adapt_prior prior = {center, precision, 0.1 * precision, &balance};
        assert_int_equal(cst_adapt_fit(context, &few, NULL, 0, &prior, theta, NULL), CST_OK);
        for (int j = 0; j < PARAMETERS; j++)
            assert_close(theta[j], adapt_balanced[i * PARAMETERS + j], 1e-6);
    }
    /* Both ways are tried, and the one with the lower cross-validated loss is kept. */
    cst_adapt_choice choice;
    assert_int_equal(cst_adapt_choose(context, &scope, &few, NULL, &balance, false, &choice),
                     CST_OK);
    assert_true(choice.balanced == (choice.loss < choice.labels_loss));
    assert_close(choice.evidence, adapt_ratio[1], 1e-6);
    cst_scope_free(&scope);
}

static void groups_stay_in_one_fold(void **state) {
    cst_context *context = *state;
    double ones[ADAPT_ROWS];
    int64_t groups[ADAPT_ROWS];
    float x[ADAPT_ROWS * ADAPT_CLASSES * (ADAPT_MEMBERS + 1)];
    int32_t labels[ADAPT_ROWS];
    cst_adapt_choice choice;
    memcpy(x, adapt_x, sizeof x);
    memcpy(labels, adapt_labels, sizeof labels);
    for (int i = 0; i < ADAPT_ROWS; i++) {
        ones[i] = 1;
        groups[i] = i % 7;
    }
    const cst_adapt_table table = {.rows = ADAPT_ROWS,
                                   .classes = ADAPT_CLASSES,
                                   .columns = ADAPT_MEMBERS + 1,
                                   .x = x,
                                   .labels = labels,
                                   .weights = ones};
    assert_int_equal(cst_adapt_choose(context, &scope, &table, groups, NULL, false, &choice),
                     CST_OK);
    assert_int_equal(choice.folds, 7);
    cst_scope_free(&scope);
    memset(groups, 0, sizeof groups);
    assert_int_equal(cst_adapt_choose(context, &scope, &table, groups, NULL, false, &choice),
                     CST_ERROR_INPUT);
    assert_non_null(strstr(cst_last_error(context), "one group"));
    cst_scope_free(&scope);
}

/* ---- adapted models ---- */

enum { INPUTS = MODEL_MEMBERS + 1, CELLS = MODEL_ROWS * MODEL_CLASSES };

static const double WEIGHTS[INPUTS] = {0.4, -0.2, 0, 0.7};

/* Stack s of the fixture, adapted, with one member that it left out. */
static cst_model *adapted_stack(cst_context *context, int s) {
    cst_model *model = build_stack(context, s);
    if (!model ||
        cst_adapted_take(context, &model->scope, INPUTS, 1, MODEL_CLASSES, &model->adapted) !=
            CST_OK ||
        !(model->adapted->names[0] = cst_take_text(context, &model->scope, "back"))) {
        cst_model_free(context, model);
        return NULL;
    }
    cst_adapted *adapted = model->adapted;
    adapted->scale = 0.8;
    adapted->rows = 20;
    for (int k = 0; k < INPUTS; k++) {
        adapted->mix[k] = 1e-3;
        adapted->weights[k] = WEIGHTS[k];
    }
    for (int c = 0; c < MODEL_CLASSES; c++)
        adapted->bias[c] = 0.1 * c;
    return model;
}

/* Members' rows: those of the fixture, and for the fourth the first member's in another order. */
static void fill_inputs(float *back, const float *members[INPUTS]) {
    for (int k = 0; k < MODEL_MEMBERS; k++)
        members[k] = model_input + (size_t)k * CELLS;
    for (int i = 0; i < MODEL_ROWS; i++)
        for (int c = 0; c < MODEL_CLASSES; c++)
            back[i * MODEL_CLASSES + c] =
                model_input[(size_t)i * MODEL_CLASSES + (size_t)((c + 1) % MODEL_CLASSES)];
    members[MODEL_MEMBERS] = back;
}

/* What the formula gives for the stack's rows. present: the members that are there. */
static void expect(const float *stack, const float *const members[INPUTS], const bool *present,
                   const float *got) {
    for (int i = 0; i < MODEL_ROWS; i++) {
        double z[MODEL_CLASSES];
        double sum = 0;
        double scale = 0.8;
        for (int k = 0; k < INPUTS; k++)
            scale += present[k] ? 0 : WEIGHTS[k];
        for (int c = 0; c < MODEL_CLASSES; c++) {
            int at = i * MODEL_CLASSES + c;
            z[c] = 0.1 * c + scale * log((double)stack[at] * (1 - 1e-9) + 1e-9 / MODEL_CLASSES);
            for (int k = 0; k < INPUTS; k++)
                if (present[k])
                    z[c] += WEIGHTS[k] *
                            log((double)members[k][at] * (1 - 1e-3) + 1e-3 / MODEL_CLASSES);
            sum += exp(z[c]);
        }
        for (int c = 0; c < MODEL_CLASSES; c++)
            assert_close((double)got[i * MODEL_CLASSES + c], exp(z[c]) / sum, 2e-6);
    }
}

static void predicts_in_every_way(void **state) {
    cst_context *context = *state;
    static const bool all[INPUTS] = {true, true, true, true};
    for (int s = 0; s < 3; s++) {
        float back[CELLS];
        float plain[CELLS];
        float out[CELLS];
        float row[MODEL_CLASSES];
        const float *members[INPUTS];
        void *bytes = NULL;
        size_t size = 0;
        cst_model *stack = build_stack(context, s);
        cst_model *made = adapted_stack(context, s);
        cst_model *model = NULL;
        cst_predictor *predictor = NULL;
        fill_inputs(back, members);
        assert_int_equal(cst_model_predict(context, stack, members, MODEL_ROWS, plain), CST_OK);
        assert_int_equal(cst_model_save_memory(context, made, &bytes, &size), CST_OK);
        assert_int_equal(cst_model_load_memory(context, &model, bytes, size), CST_OK);
        assert_int_equal(cst_model_members(model), INPUTS);
        assert_string_equal(cst_model_member_name(model, MODEL_MEMBERS), "back");
        assert_int_equal(model->adapted->rows, 20);
        assert_int_equal(cst_model_predict(context, model, members, MODEL_ROWS, out), CST_OK);
        expect(plain, members, all, out);
        assert_int_equal(cst_predictor_create(context, &predictor, model), CST_OK);
        for (size_t i = 0; i < MODEL_ROWS; i++) {
            const float *one[INPUTS];
            for (int k = 0; k < INPUTS; k++)
                one[k] = members[k] + i * MODEL_CLASSES;
            assert_int_equal(cst_predictor_predict(predictor, one, 1, row), CST_OK);
            assert_memory_equal(row, out + i * MODEL_CLASSES, sizeof row);
        }
        cst_predictor_free(context, predictor);
        cst_free(context, bytes);
        cst_model_free(context, model);
        cst_model_free(context, made);
        cst_model_free(context, stack);
    }
}

/* Without the member that came back the stack is as it was, with its gate; without one of its own
 * it is the stack of the others. */
static void predicts_without_members(void **state) {
    cst_context *context = *state;
    for (int s = 0; s < 3; s++)
        for (int gone = 0; gone < INPUTS; gone++) {
            float back[CELLS];
            float plain[CELLS];
            float out[CELLS];
            float streamed[CELLS];
            const float *members[INPUTS];
            bool there[INPUTS];
            uint8_t present[INPUTS];
            cst_model *stack = build_stack(context, s);
            cst_model *made = adapted_stack(context, s);
            cst_predictor *predictor = NULL;
            fill_inputs(back, members);
            for (int k = 0; k < INPUTS; k++)
                present[k] = there[k] = k != gone;
            cst_status status =
                predict_present(context, stack, members, present, MODEL_ROWS, plain);
            assert_int_equal(predict_present(context, made, members, present, MODEL_ROWS, out),
                             status); /* the fixture's gates cannot do without a member */
            if (status == CST_OK) {
                expect(plain, members, there, out);
                assert_int_equal(cst_predictor_create(context, &predictor, made), CST_OK);
                assert_int_equal(cst_predictor_predict_present(predictor, members, present,
                                                               MODEL_ROWS, streamed),
                                 CST_OK);
                assert_memory_equal(streamed, out, sizeof out);
            }
            cst_predictor_free(context, predictor);
            cst_model_free(context, made);
            cst_model_free(context, stack);
        }
}

static void damaged_sections(void **state) {
    cst_context *context = *state;
    for (int damage = 0; damage < 6; damage++) {
        cst_model *made = adapted_stack(context, 0);
        void *bytes = NULL;
        size_t size = 0;
        cst_adapted *adapted = made->adapted;
        if (damage == 0)
            adapted->rows = 0;
        if (damage == 1)
            adapted->mix[1] = 0;
        if (damage == 2)
            adapted->weights[2] = NAN;
        if (damage == 3)
            adapted->scale = INFINITY;
        if (damage == 4)
            adapted->bias[0] = 1e20;
        if (damage == 5)
            adapted->names[0] = made->member_names[1];
        assert_int_equal(cst_model_save_memory(context, made, &bytes, &size), CST_ERROR_ARGUMENT);
        assert_null(bytes);
        cst_model_free(context, made);
    }
}

/* ---- from a pool ---- */

enum { ROWS = 60, CLASSES = 3, MEMBERS = 4 };

typedef struct world {
    float p[MEMBERS][ROWS * CLASSES];
    const float *data[MEMBERS];
    int32_t labels[ROWS];
} world;

static const char *const NAMES[MEMBERS] = {"a", "b", "c", "d"};

/* Rows whose labels the last member knows best, with shares that go by a hash. */
static void fill_world(world *w, uint64_t seed, const double *skill) {
    cst_rng rng;
    cst_rng_init(&rng, seed, CST_STREAM_TEST, 0);
    for (int i = 0; i < ROWS; i++) {
        w->labels[i] = (int32_t)cst_rng_below(&rng, CLASSES);
        for (int k = 0; k < MEMBERS; k++) {
            double z[CLASSES];
            double sum = 0;
            for (int c = 0; c < CLASSES; c++) {
                z[c] = exp(skill[k] * (c == w->labels[i]) + cst_rng_normal(&rng));
                sum += z[c];
            }
            for (int c = 0; c < CLASSES; c++)
                w->p[k][i * CLASSES + c] = (float)(z[c] / sum);
        }
    }
    for (int k = 0; k < MEMBERS; k++)
        w->data[k] = w->p[k];
}

static cst_pool *pool_of(cst_context *context, const world *w, const char *split) {
    cst_pool *pool = NULL;
    assert_int_equal(cst_pool_from_memory(context, &pool, split, w->data, NAMES, MEMBERS, ROWS,
                                          CLASSES, w->labels, CST_OUTPUT_PROBABILITY),
                     CST_OK);
    return pool;
}

typedef struct learnt {
    world old;
    world new;
    cst_pool *fitted;
    cst_pool *pool;
    cst_model *model;
} learnt;

static void learn(cst_context *context, learnt *l) {
    static const double before[MEMBERS] = {2.5, 2, 0.5, 0};
    static const double after[MEMBERS] = {0, 0, 1, 3};
    fill_world(&l->old, 1, before);
    fill_world(&l->new, 2, after);
    l->fitted = pool_of(context, &l->old, "oof");
    l->pool = pool_of(context, &l->new, "new");
    assert_int_equal(cst_fit(context, l->fitted, "oof", NULL, &l->model, NULL), CST_OK);
}

static void forget(cst_context *context, learnt *l) {
    cst_pool_free(context, l->fitted);
    cst_pool_free(context, l->pool);
    cst_model_free(context, l->model);
}

static void learns_and_keeps(void **state) {
    cst_context *context = *state;
    learnt l = {0};
    cst_model *made = NULL;
    cst_model *again = NULL;
    cst_report *report = NULL;
    char *json = NULL;
    learn(context, &l);
    assert_int_equal(cst_adapt(context, l.model, l.pool, NULL, &made, &report), CST_OK);
    assert_int_equal(made->adapted->rows, ROWS);
    assert_null(made->reference.novelty);
    assert_int_equal(cst_report_json(context, report, &json), CST_OK);
    assert_non_null(strstr(json, "\"adapted\": true"));
    cst_free(context, json);
    cst_report_free(context, report);
    /* The member that was of no use before came back. */
    bool back = false;
    for (int32_t k = 0; k < cst_model_members(made); k++)
        back = back || (strcmp(cst_model_member_name(made, k), "d") == 0 &&
                        made->adapted->weights[k] > 0.2);
    assert_true(back);
    assert_int_equal(cst_adapt(context, made, l.pool, NULL, &again, NULL), CST_ERROR_UNSUPPORTED);
    assert_non_null(strstr(cst_last_error(context), "adapted to 60 rows before"));
    cst_fit_rows rows;
    assert_true(cst_fit_rows_under(made, CST_ADAPTED_KEY, l.new.labels, ROWS, &rows));
    assert_true(rows.same_labels && rows.sketched && strcmp(rows.split, "new") == 0);
    cst_model_free(context, made);
    /* The same bytes with more threads. */
    void *one = NULL;
    void *two = NULL;
    size_t size = 0;
    size_t same = 0;
    for (int threads = 1; threads <= 3; threads += 2) {
        assert_int_equal(cst_context_set_threads(context, threads), CST_OK);
        assert_int_equal(cst_adapt(context, l.model, l.pool, NULL, &made, NULL), CST_OK);
        assert_int_equal(cst_model_save_memory(context, made, threads == 1 ? &one : &two,
                                               threads == 1 ? &size : &same),
                         CST_OK);
        cst_model_free(context, made);
    }
    assert_true(size == same);
    assert_memory_equal(one, two, size);
    cst_free(context, one);
    cst_free(context, two);
    forget(context, &l);
}

static void keeps_a_stack_that_is_right(void **state) {
    cst_context *context = *state;
    static const double before[MEMBERS] = {2.5, 2, 0.5, 0};
    learnt l = {0};
    cst_model *made = NULL;
    void *was = NULL;
    void *is = NULL;
    size_t size = 0;
    size_t same = 0;
    learn(context, &l);
    fill_world(&l.new, 5, before);
    cst_pool *alike = pool_of(context, &l.new, "new");
    assert_int_equal(cst_adapt(context, l.model, alike, NULL, &made, NULL), CST_OK);
    assert_null(made->adapted);
    assert_int_equal(cst_model_save_memory(context, l.model, &was, &size), CST_OK);
    assert_int_equal(cst_model_save_memory(context, made, &is, &same), CST_OK);
    assert_true(size == same);
    assert_memory_equal(was, is, size);
    cst_free(context, was);
    cst_free(context, is);
    cst_model_free(context, made);
    cst_pool_free(context, alike);
    forget(context, &l);
}

static void says(cst_context *context, const learnt *l, const cst_adapt_options *options,
                 const char *words) {
    cst_model *made = NULL;
    cst_report *report = NULL;
    assert_int_equal(cst_adapt(context, l->model, l->pool, options, &made, &report),
                     CST_ERROR_INPUT);
    if (!strstr(cst_last_error(context), words))
        fail_msg("'%s' is not in: %s", words, cst_last_error(context));
    assert_null(made);
    assert_null(report);
}

static void rows_that_cannot_be_learnt_from(void **state) {
    cst_context *context = *state;
    learnt l = {0};
    int64_t rows[ROWS];
    int32_t labels[ROWS] = {0};
    learn(context, &l);
    for (int i = 0; i < ROWS; i++)
        rows[i] = i;
    says(context, &l, &(cst_adapt_options){.rows = rows, .row_count = 9}, "too few");
    says(context, &l, &(cst_adapt_options){.rows = rows, .row_count = 0}, "too few");
    says(context, &l, &(cst_adapt_options){.rows = rows, .labels = labels, .row_count = 20},
         "all 20 labelled rows are of class 0");
    says(context, &l, &(cst_adapt_options){.split = "neu"}, "neu");
    labels[3] = CLASSES;
    says(context, &l, &(cst_adapt_options){.rows = rows, .labels = labels, .row_count = 20},
         "the label 3 of row 3 is no class");
    rows[4] = 3;
    says(context, &l, &(cst_adapt_options){.rows = rows, .row_count = 20},
         "row 3 of split 'new' is "
         "named twice");
    rows[4] = ROWS;
    says(context, &l, &(cst_adapt_options){.rows = rows, .row_count = 20},
         "row 60 is not in split");
    /* The rows of the fit, under their name and under another. */
    cst_pool *other = l.pool;
    l.pool = l.fitted;
    says(context, &l, &(cst_adapt_options){.split = "oof"},
         "was fitted on the rows of split 'oof'");
    l.pool = pool_of(context, &l.old, "new");
    says(context, &l, NULL, "was fitted on the rows of split 'new'");
    cst_pool_free(context, l.pool);
    l.pool = other;
    forget(context, &l);
}

static void rows_to_label(void **state) {
    cst_context *context = *state;
    learnt l = {0};
    int64_t rows[ROWS + 1];
    int64_t again[ROWS];
    int64_t first[5];
    bool taken[ROWS] = {false};
    learn(context, &l);
    assert_int_equal(cst_adapt_suggest(context, l.model, l.pool, NULL, ROWS, rows), CST_OK);
    for (int i = 0; i < ROWS; i++) {
        assert_in_range(rows[i], 0, ROWS - 1);
        assert_false(taken[rows[i]]);
        taken[rows[i]] = true;
    }
    /* The first of many are those of few, with any number of threads. */
    assert_int_equal(cst_context_set_threads(context, 3), CST_OK);
    assert_int_equal(cst_adapt_suggest(context, l.model, l.pool, "new", 5, first), CST_OK);
    assert_memory_equal(first, rows, sizeof first);
    assert_int_equal(cst_adapt_suggest(context, l.model, l.pool, "new", ROWS, again), CST_OK);
    assert_memory_equal(again, rows, sizeof again);
    /* The first is the most uncertain: the largest entropy of the members' mean. */
    double most = -1;
    int64_t best = -1;
    for (int i = 0; i < ROWS; i++) {
        double entropy = 0;
        for (int c = 0; c < CLASSES; c++) {
            double mean = 0;
            for (int k = 0; k < MEMBERS; k++)
                mean += (double)l.new.p[k][i * CLASSES + c] / MEMBERS;
            entropy -= mean * log(mean);
        }
        if (entropy > most) {
            most = entropy;
            best = i;
        }
    }
    assert_int_equal(rows[0], best);
    assert_int_equal(cst_adapt_suggest(context, l.model, l.pool, "new", ROWS + 1, rows),
                     CST_ERROR_INPUT);
    forget(context, &l);
}

static void without_memory(void **state) {
    (void)state;
    flaky_heap heap = {.left = -1};
    cst_context *context = NULL;
    learnt l = {0};
    int64_t rows[4];
    assert_int_equal(cst_context_create_with(&context, flaky_realloc, &heap), CST_OK);
    assert_int_equal(cst_context_set_threads(context, 1), CST_OK);
    learn(context, &l);
    cst_status status = CST_ERROR_MEMORY;
    for (long left = 0; status != CST_OK; left += left < 300 ? 1 : 37) {
        cst_model *made = NULL;
        cst_report *report = NULL;
        heap.left = left;
        status = cst_adapt(context, l.model, l.pool, NULL, &made, &report);
        CST_THEN(cst_adapt_suggest(context, l.model, l.pool, NULL, 4, rows));
        heap.left = -1;
        assert_true(status == CST_OK || status == CST_ERROR_MEMORY);
        cst_model_free(context, made);
        cst_report_free(context, report);
    }
    forget(context, &l);
    cst_context_free(context);
    assert_int_equal(heap.live, 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, la_setup, la_teardown)

int suite_adapt(void) {
    const struct CMUnitTest tests[] = {
        TEST(as_in_scipy),
        TEST(rows_without_labels_as_in_scipy),
        TEST(groups_stay_in_one_fold),
        TEST(predicts_in_every_way),
        TEST(predicts_without_members),
        TEST(damaged_sections),
        TEST(learns_and_keeps),
        TEST(keeps_a_stack_that_is_right),
        TEST(rows_that_cannot_be_learnt_from),
        TEST(rows_to_label),
        cmocka_unit_test(without_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
