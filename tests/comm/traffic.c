/*
 * What ranks send in each stage: of a Newton step one vector of gradient and packed Hessian, never
 * rows; of CKA two numbers for each member and row; the same rounds on any number of ranks.
 */
#include "base/context.h"
#include "learners/loglinear.h"
#include "meeting.h"
#include "redundancy/redundancy.h"
#include "select/select.h"

/* Bytes before the numbers of a message, and before those of a node of a sum's tree. */
enum { HEAD = 48, NODE = 16 };

enum { MEMBERS = 8, CLASSES = 32, PARAMETERS = MEMBERS + CLASSES, STAGES = 8 };

typedef struct predictions {
    float *data; /* [MEMBERS][rows][CLASSES] */
    const float *pointers[MEMBERS];
    int32_t *labels;
    cst_view view;
} predictions;

static void make(int64_t rows, predictions *out) {
    cst_rng rng;
    size_t cells = (size_t)rows * CLASSES;
    cst_rng_init(&rng, 3, CST_STREAM_TEST, (uint32_t)rows);
    out->data = calloc(MEMBERS * cells, sizeof *out->data);
    out->labels = calloc((size_t)rows, sizeof *out->labels);
    assert_non_null(out->data);
    assert_non_null(out->labels);
    for (int64_t i = 0; i < rows; i++) {
        out->labels[i] = (int32_t)cst_rng_below(&rng, CLASSES);
        for (size_t k = 0; k < MEMBERS; k++) {
            float *row = out->data + k * cells + (size_t)i * CLASSES;
            float total = 0;
            for (int32_t c = 0; c < CLASSES; c++) {
                row[c] = 0.1F + (float)cst_rng_uniform(&rng) + (c == out->labels[i] ? 3 : 0);
                total += row[c];
            }
            for (int32_t c = 0; c < CLASSES; c++)
                row[c] /= total;
        }
    }
    for (size_t k = 0; k < MEMBERS; k++)
        out->pointers[k] = out->data + k * cells;
    out->view = (cst_view){.rows = rows,
                           .classes = CLASSES,
                           .members = MEMBERS,
                           .data = out->pointers,
                           .labels = out->labels};
}

static void forget(predictions *p) {
    free(p->data);
    free(p->labels);
}

typedef struct work {
    const cst_view *view;
    cst_status status;
    cst_stage_traffic traffic; /* of the stage */
    double weights[MEMBERS];
    bool cuts_off; /* an array of stages that is too short is filled as far as it goes */
} work;

static void find_stage(cst_context *context, const char *name, work *w) {
    cst_stage_traffic stage[STAGES];
    int count = cst_context_stage_traffic(context, stage, STAGES);
    w->traffic = (cst_stage_traffic){0};
    for (int i = 0; i < count; i++)
        if (strcmp(stage[i].stage, name) == 0)
            w->traffic = stage[i];
    cst_stage_traffic one[2] = {{.rounds = 77}, {.rounds = 77}};
    w->cuts_off = count > 1 && cst_context_stage_traffic(context, one, 1) == count &&
                  one[0].rounds != 77 && one[1].rounds == 77;
}

static void newton(seat *rank, void *user) {
    work *w = user;
    cst_logtable table = {0};
    cst_loglinear fit = {0};
    cst_loglinear_options options = cst_loglinear_defaults();
    double mix[MEMBERS];
    int32_t active[MEMBERS];
    for (int32_t k = 0; k < MEMBERS; k++) {
        active[k] = k;
        mix[k] = 0.01;
    }
    options.evidence = false;
    rank->context->ranks.latency =
        0; /* so that ranks divide the passes, however busy the machine */
    cst_status status = rank->status;
    CST_TRY(cst_logtable_build(rank->context, w->view, mix, &table));
    CST_TRY(cst_stage(rank->context, "newton"));
    CST_TRY(cst_loglinear_fit(rank->context, &table, active, MEMBERS, &options, NULL, &fit));
    CST_TRY(cst_stage(rank->context, "after"));
    if (status == CST_OK)
        memcpy(w->weights, fit.weights, sizeof w->weights);
    cst_loglinear_free(rank->context, &fit);
    cst_logtable_free(rank->context, &table);
    find_stage(rank->context, "newton", w);
    w->status = status;
}

/* Two ranks, each of whose parts is one node of the tree. */
static void a_newton_step_sends_gradient_and_packed_hessian(void **state) {
    enum { HESSIAN = PARAMETERS * (PARAMETERS + 1) / 2 };
    const uint64_t step = HEAD + NODE + sizeof(double) * (1 + PARAMETERS + HESSIAN);
    (void)state;
    for (int64_t rows = 4096; rows <= 4 * 4096; rows *= 4) {
        predictions p;
        work w[2] = {{0}};
        work alone[1] = {{0}};
        make(rows, &p);
        w[0].view = w[1].view = alone[0].view = &p.view;
        meeting_hold(2, 1, newton, w, sizeof *w);
        meeting_hold(1, 1, newton, alone, sizeof *alone);
        for (int r = 0; r < 2; r++) {
            assert_int_equal(w[r].status, CST_OK);
            assert_true(w[r].cuts_off);
            assert_true(w[r].traffic.rounds >= 3);
            assert_int_equal(w[r].traffic.sent, w[r].traffic.rounds * step);
            assert_int_equal(w[r].traffic.received, w[r].traffic.rounds * step);
            assert_true(w[r].traffic.waiting > 0 && w[r].traffic.seconds > w[r].traffic.waiting);
            assert_memory_equal(w[r].weights, alone[0].weights, sizeof w[r].weights);
        }
        assert_int_equal(alone[0].status, CST_OK);
        assert_int_equal(alone[0].traffic.sent, 0);
        forget(&p);
    }
}

static void rounds_do_not_depend_on_the_number_of_ranks(void **state) {
    predictions p;
    uint64_t rounds = 0;
    (void)state;
    make(4096, &p);
    for (int ranks = 2; ranks <= 4; ranks++) {
        work w[RANKS_MAX] = {{0}};
        for (int r = 0; r < ranks; r++)
            w[r].view = &p.view;
        meeting_hold(ranks, 1, newton, w, sizeof *w);
        rounds = rounds ? rounds : w[0].traffic.rounds;
        for (int r = 0; r < ranks; r++)
            assert_int_equal(w[r].traffic.rounds, rounds);
    }
    forget(&p);
}

static void cka(seat *rank, void *user) {
    work *w = user;
    cst_cka_options options = {.estimator = CST_CKA_SAMPLE, .rows = (int32_t)w->view->rows};
    cst_cka_result result = {0};
    cst_status status = rank->status;
    CST_TRY(cst_stage(rank->context, "cka"));
    CST_TRY(cst_cka(rank->context, w->view, &options, &result));
    cst_cka_result_free(rank->context, &result);
    find_stage(rank->context, "cka", w);
    w->status = status;
}

/* Sums of the kernels' rows and columns; sums for pairs of members are fewer. */
static void cka_sends_two_numbers_for_each_member_and_row(void **state) {
    (void)state;
    for (int64_t rows = 512; rows <= 1024; rows *= 2)
        for (int32_t members = MEMBERS / 2; members <= MEMBERS; members *= 2) {
            predictions p;
            work w[2] = {{0}};
            make(rows, &p);
            p.view.members = members;
            w[0].view = w[1].view = &p.view;
            meeting_hold(2, 1, cka, w, sizeof *w);
            for (int r = 0; r < 2; r++) {
                const uint64_t margins = 2 * sizeof(double) * (uint64_t)(members * rows);
                assert_int_equal(w[r].status, CST_OK);
                assert_true(w[r].traffic.sent > margins);
                assert_true(w[r].traffic.sent < margins + margins * 2 / 5);
            }
            forget(&p);
        }
}

/* On a sample of 4,096 of the rows: Newton steps and the losses of its rows, no more of more rows.
 */
static void select_members(seat *rank, void *user) {
    enum { FOLDS = 2, SAMPLE = 4096 };
    work *w = user;
    cst_selection selection = {0};
    cst_compact_options compact = cst_compact_defaults();
    compact.cut = 0;
    compact.max_rows = SAMPLE;
    const cst_select_options options = {.direction = CST_SELECT_BACKWARD,
                                        .rule = CST_SELECT_BEST,
                                        .tolerance = 0.01,
                                        .prior = 10,
                                        .compact = compact};
    int32_t *folds = calloc((size_t)w->view->rows, sizeof *folds);
    assert_non_null(folds);
    for (int64_t i = 0; i < w->view->rows; i++)
        folds[i] = (int32_t)(i / 2 % FOLDS);
    rank->context->ranks.latency = 0;
    cst_status status = rank->status;
    CST_TRY(cst_stage(rank->context, "selection"));
    CST_TRY(cst_select(rank->context, w->view, folds, FOLDS, &options, &selection));
    find_stage(rank->context, "selection", w);
    cst_selection_free(rank->context, &selection);
    free(folds);
    w->status = status;
}

static void selection_sends_no_more_of_more_rows(void **state) {
    double sent[2] = {0, 0};
    (void)state;
    for (int i = 0; i < 2; i++) {
        predictions p;
        work w[2] = {{0}};
        make(i == 0 ? 4096 : 16384, &p);
        w[0].view = w[1].view = &p.view;
        meeting_hold(2, 1, select_members, w, sizeof *w);
        for (int r = 0; r < 2; r++) {
            assert_int_equal(w[r].status, CST_OK);
            assert_true(w[r].traffic.rounds > 10);
        }
        sent[i] = (double)w[0].traffic.sent / (double)w[0].traffic.rounds;
        forget(&p);
    }
    assert_true(fabs(sent[1] / sent[0] - 1) < 0.1);
}

int suite_traffic(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_newton_step_sends_gradient_and_packed_hessian),
        cmocka_unit_test(rounds_do_not_depend_on_the_number_of_ranks),
        cmocka_unit_test(cka_sends_two_numbers_for_each_member_and_row),
        cmocka_unit_test(selection_sends_no_more_of_more_rows),
    };
    cst_la_enter();
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    cst_la_leave();
    return failed;
}
