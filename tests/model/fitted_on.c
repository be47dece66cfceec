/*
 * The rows a model says it was fitted on: by name, labels and a sketch of the rows; files that do
 * not say mean "oof".
 */
#include "model/fit_rows.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "check.h"

static const int32_t labels[4] = {2, 0, 1, 1};
static const int32_t others[4] = {2, 0, 1, 0};

static void a_model_knows_its_rows(void **state) {
    (void)state;
    cst_context *context = NULL;
    char *setting[CST_FITTED_ON_SETTINGS] = {NULL};
    size_t count = 0;
    cst_scope scope = {0};
    assert_int_equal(cst_context_create(&context), CST_OK);
    assert_int_equal(cst_fitted_on_note(context, &scope, CST_FITTED_KEY, "half", labels, 4, NULL,
                                        setting, &count),
                     CST_OK);
    assert_int_equal(count, 2);
    assert_string_equal(setting[0], "split=half");
    /* FNV-1a of 2, 0, 1, 1, computed by hand in Python. */
    assert_string_equal(setting[1], "split.labels=4:8d1769904a36aba1");
    struct cst_model model = {.settings = 2, .setting = setting};
    assert_true(cst_fitted_on(&model, "half", labels, 4));
    assert_false(cst_fitted_on(&model, "half", others, 4));
    assert_false(cst_fitted_on(&model, "half", labels, 3));
    assert_false(cst_fitted_on(&model, "oof", labels, 4));
    cst_fit_rows fit = cst_fit_rows_of(&model, labels, 4);
    assert_string_equal(fit.split, "half");
    assert_true(fit.labelled && fit.same_labels && !fit.sketched);
    assert_false(cst_fit_rows_of(&model, others, 4).same_labels);
    cst_scope_free(&scope);
    cst_context_free(context);
}

static void an_older_model_was_fitted_on_oof(void **state) {
    (void)state;
    char text[] = "seed=0";
    char *setting[1] = {text};
    struct cst_model model = {.settings = 1, .setting = setting};
    assert_true(cst_fitted_on(&model, "oof", labels, 4));
    assert_true(cst_fitted_on(&model, "oof", NULL, 4));
    assert_false(cst_fitted_on(&model, "test", labels, 4));
    cst_fit_rows fit = cst_fit_rows_of(&model, labels, 4);
    assert_string_equal(fit.split, "oof");
    assert_false(fit.labelled || fit.same_labels || fit.sketched);
}

/* ---- sketches of rows ---- */

enum { ROWS = 1300, CLASSES = 3, MEMBERS = 2 }; /* three blocks */

typedef struct world {
    float p[MEMBERS][ROWS * CLASSES];
    const float *data[MEMBERS];
    int32_t labels[ROWS];
    int64_t order[ROWS];
    cst_view view;
} world;

static void make_world(world *w) {
    cst_rng rng;
    cst_rng_init(&rng, 7, CST_STREAM_TEST, 0);
    for (int k = 0; k < MEMBERS; k++) {
        for (int i = 0; i < ROWS * CLASSES; i++)
            w->p[k][i] = (float)cst_rng_uniform(&rng);
        w->data[k] = w->p[k];
    }
    for (int i = 0; i < ROWS; i++) {
        w->labels[i] = (int32_t)cst_rng_below(&rng, CLASSES);
        w->order[i] = i;
    }
    cst_rng_shuffle(&rng, w->order, ROWS);
    w->view = (cst_view){
        .rows = ROWS, .classes = CLASSES, .members = MEMBERS, .data = w->data, .labels = w->labels};
}

static cst_row_match match_of(cst_context *context, const cst_row_sketch *sketch,
                              const cst_view *view) {
    uint64_t *hashes = NULL;
    cst_scope scope = {0};
    assert_int_equal(cst_row_hashes(context, &scope, view, &hashes), CST_OK);
    cst_row_match match = cst_row_sketch_match(sketch, hashes, view->rows);
    cst_scope_free(&scope);
    return match;
}

static void a_sketch_knows_its_rows(void **state) {
    cst_context *context = *state;
    static world w;
    cst_row_sketch sketch;
    make_world(&w);
    assert_int_equal(cst_row_sketch_of(context, &w.view, &sketch), CST_OK);
    assert_int_equal(sketch.rows, ROWS);
    assert_int_equal(sketch.repeated, 0);
    assert_int_equal(sketch.count, CST_SKETCH_ROWS);
    /* In any order, and half of them. */
    cst_view some = w.view;
    some.index = w.order;
    cst_row_match match = match_of(context, &sketch, &some);
    assert_true(match.looked_at == CST_SKETCH_ROWS && match.found == CST_SKETCH_ROWS);
    some.rows = ROWS / 2;
    match = match_of(context, &sketch, &some);
    assert_true(match.found == match.looked_at && match.found > 6 && match.found < 26);
    /* Other labels, or one member with other predictions: other rows. */
    for (int i = 0; i < ROWS; i++)
        w.labels[i] = (w.labels[i] + 1) % CLASSES;
    match = match_of(context, &sketch, &w.view);
    assert_true(match.found == 0 && match.looked_at > 6);
    for (int i = 0; i < ROWS; i++)
        w.labels[i] = (w.labels[i] + CLASSES - 1) % CLASSES;
    assert_int_equal(match_of(context, &sketch, &w.view).found, CST_SKETCH_ROWS);
    for (int i = 0; i < ROWS; i++)
        w.p[1][i * CLASSES] += 0.125F;
    assert_int_equal(match_of(context, &sketch, &w.view).found, 0);
}

static void few_rows_are_all_in_the_sketch(void **state) {
    cst_context *context = *state;
    static world w;
    cst_row_sketch sketch;
    make_world(&w);
    const int64_t twice[5] = {3, 8, 3, 100, 3};
    cst_view few = w.view;
    few.index = twice;
    few.rows = 5;
    assert_int_equal(cst_row_sketch_of(context, &few, &sketch), CST_OK);
    assert_true(sketch.rows == 5 && sketch.repeated == 3 && sketch.count == 3);
    cst_row_match match = match_of(context, &sketch, &w.view);
    assert_true(match.looked_at == ROWS && match.found == 3);
}

/* ---- what chance makes ---- */

static void a_repeated_content_counts_once(void **state) {
    (void)state;
    const uint64_t known[6] = {1, 1, 2, 3, 7, 9};
    const uint64_t rows[8] = {0, 1, 1, 1, 2, 2, 4, 9};
    /* The 1 is common among the known rows and says nothing; the 9 is not looked at. */
    cst_row_match match = cst_row_hashes_match(known, 6, 8, rows, 8);
    assert_true(match.looked_at == 7 && match.found == 5);
    assert_true(match.contents == 3 && match.contents_found == 1 && match.single == 2);
    match = cst_row_hashes_match(known, 6, UINT64_MAX, rows, 8);
    assert_true(match.looked_at == 8 && match.found == 6);
    assert_true(match.contents == 4 && match.contents_found == 2 && match.single == 3);
    match = cst_row_hashes_match(known, 0, UINT64_MAX, rows, 8);
    assert_true(match.found == 0 && match.contents == 5 && match.contents_found == 0);
    cst_row_sketch sketch = {.rows = 9, .repeated = 8, .count = 2, .least = {1, 4}};
    match = cst_row_sketch_match(&sketch, rows, 8);
    assert_true(match.looked_at == 8 && match.found == 4);
    assert_true(match.contents == 5 && match.contents_found == 2);
}

static cst_seen judged(int64_t found, int64_t contents, int64_t single, cst_fit_repeats repeats) {
    const cst_row_match match = {.contents = contents, .contents_found = found, .single = single};
    return cst_seen_judge(&match, repeats);
}

static void chance_is_judged_by_contents(void **state) {
    (void)state;
    const cst_fit_repeats none = {0, 1000, true};
    const cst_fit_repeats few = {0, 1000, false};
    const cst_fit_repeats half = {500, 1000, false};
    assert_int_equal(judged(0, 9, 9, none), CST_SEEN_NONE);
    assert_int_equal(judged(1, 9, 9, none), CST_SEEN_SOME);
    assert_int_equal(judged(3, 3, 3, none), CST_SEEN_SOME);
    assert_int_equal(judged(4, 4, 4, none), CST_SEEN_ALL);
    assert_int_equal(judged(4, 5, 5, none), CST_SEEN_SOME);
    assert_int_equal(judged(4, 4, 4, half), CST_SEEN_NONE);
    assert_int_equal(judged(15, 15, 15, half), CST_SEEN_SOME);
    assert_int_equal(judged(30, 30, 30, half), CST_SEEN_ALL);
    /* Contents that repeat in the split. */
    assert_int_equal(judged(4, 4, 0, none), CST_SEEN_ALL);
    assert_int_equal(judged(4, 4, 4, few), CST_SEEN_ALL);
    assert_int_equal(judged(9, 9, 3, few), CST_SEEN_SOME);
    /* Where every row has a twin nothing is known of fresh ones. */
    assert_int_equal(judged(30, 30, 30, (cst_fit_repeats){9, 9, false}), CST_SEEN_NONE);
    assert_int_equal(judged(0, 0, 0, (cst_fit_repeats){0, 0, false}), CST_SEEN_NONE);
}

static void a_sketch_as_text(void **state) {
    cst_context *context = *state;
    cst_row_sketch sketch = {.rows = 5, .repeated = 2, .count = 2, .least = {1, UINT64_MAX}};
    cst_row_sketch again;
    cst_scope scope = {0};
    char *text = cst_row_sketch_print(context, &scope, CST_FITTED_KEY, &sketch);
    assert_string_equal(text, "split.rows=5:2:0000000000000001,ffffffffffffffff");
    assert_true(cst_row_sketch_read(strchr(text, '=') + 1, &again));
    assert_true(again.rows == 5 && again.repeated == 2 && again.count == 2);
    assert_true(again.least[0] == 1 && again.least[1] == UINT64_MAX);
    cst_scope_free(&scope);
    static const char *const BAD[] = {"",
                                      "5",
                                      "5:2",
                                      "5:2:",
                                      "5:2:1",
                                      "x:2:0000000000000001",
                                      "5:-1:0000000000000001",
                                      "5:2:0000000000000001,",
                                      "5:2:0000000000000001;0000000000000002",
                                      "5:2:0000000000000002,0000000000000001",
                                      "5:2:0000000000000001,0000000000000001",
                                      "1:0:0000000000000001,0000000000000002",
                                      "5:6:0000000000000001",
                                      "5:2:00000000000000010"};
    for (size_t i = 0; i < sizeof BAD / sizeof BAD[0]; i++)
        assert_false(cst_row_sketch_read(BAD[i], &again));
    /* One more than there is room for. */
    char many[64 + (CST_SKETCH_ROWS + 1) * 17] = "99:0";
    for (int i = 0; i <= CST_SKETCH_ROWS; i++)
        (void)cst_snprintf(many + strlen(many), 18, "%c%016x", i ? ',' : ':', i + 1);
    assert_false(cst_row_sketch_read(many, &again));
}

int suite_fitted_on(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_model_knows_its_rows),
        cmocka_unit_test(an_older_model_was_fitted_on_oof),
        cmocka_unit_test_setup_teardown(a_sketch_knows_its_rows, context_setup, context_teardown),
        cmocka_unit_test_setup_teardown(few_rows_are_all_in_the_sketch, context_setup,
                                        context_teardown),
        cmocka_unit_test(a_repeated_content_counts_once),
        cmocka_unit_test(chance_is_judged_by_contents),
        cmocka_unit_test_setup_teardown(a_sketch_as_text, context_setup, context_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
