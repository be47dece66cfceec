/*
 * Greedy selection: orders, weights and losses of AutoGluon's class and of its arithmetic in NumPy.
 * Arguments name other folders of cases.
 */
#include "method/blend/blend.h"

#include "data/greedy_metric.h"

#include <dirent.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* What NumPy computed, and what AutoGluon's class gave. */
static const char *const known[] = {CST_TEST_DATA "/greedy", CST_TEST_DATA "/../reference/greedy"};
static const char *const *folders = known;
static int folder_count = 2;

/* A fixture of tests/oracles/greedy_numpy.py. */
typedef struct expected {
    int32_t members;
    int32_t rows;
    int32_t classes;
    int32_t rounds;
    int32_t *order;
    double loss;
    int32_t *labels;
    float *predictions;
} expected;

static void read_exactly(FILE *file, void *to, size_t size, size_t count) {
    assert_int_equal(fread(to, size, count, file), count);
}

static expected read_case(const char *folder, const char *name) {
    char path[1024];
    (void)snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    expected e = {0};
    int32_t head[4];
    read_exactly(file, head, sizeof *head, 4);
    e.members = head[0];
    e.rows = head[1];
    e.classes = head[2];
    e.rounds = head[3];
    size_t cells = (size_t)e.members * (size_t)e.rows * (size_t)e.classes;
    e.order = calloc((size_t)e.rounds, sizeof *e.order);
    e.labels = calloc((size_t)e.rows, sizeof *e.labels);
    e.predictions = calloc(cells, sizeof *e.predictions);
    assert_true(e.order && e.labels && e.predictions);
    read_exactly(file, e.order, sizeof *e.order, (size_t)e.rounds);
    read_exactly(file, &e.loss, sizeof e.loss, 1);
    read_exactly(file, e.labels, sizeof *e.labels, (size_t)e.rows);
    read_exactly(file, e.predictions, sizeof *e.predictions, cells);
    (void)fclose(file);
    return e;
}

static void free_case(expected *e) {
    free(e->order);
    free(e->labels);
    free(e->predictions);
}

static void check_case(cst_context *context, const expected *e) {
    const float **data = calloc((size_t)e->members, sizeof *data);
    assert_non_null(data);
    for (int32_t k = 0; k < e->members; k++)
        data[k] = e->predictions + (size_t)k * (size_t)e->rows * (size_t)e->classes;
    cst_view view = {.rows = e->rows,
                     .classes = e->classes,
                     .members = e->members,
                     .data = data,
                     .labels = e->labels};
    cst_greedy got;
    assert_int_equal(
        cst_greedy_select(context, &view, CST_GREEDY_LOG_LOSS, CST_GREEDY_ROUNDS, 0, &got), CST_OK);
    assert_int_equal(got.rounds, e->rounds);
    assert_memory_equal(got.order, e->order, (size_t)e->rounds * sizeof *e->order);
    assert_true(fabs(got.loss[got.rounds - 1] - e->loss) <= 2e-12);
    for (int32_t k = 0; k < e->members; k++) {
        int32_t times = 0;
        for (int32_t i = 0; i < e->rounds; i++)
            times += e->order[i] == k;
        assert_true(fabs(got.weights[k] - (double)times / e->rounds) < 1e-15);
    }
    cst_scope_free(&got.scope);
    free(data);
}

static int check_folder(cst_context *context, const char *folder) {
    DIR *cases = opendir(folder);
    assert_non_null(cases);
    int seen = 0;
    for (struct dirent *entry = readdir(cases); entry; entry = readdir(cases)) {
        size_t length = strlen(entry->d_name);
        if (length < 4 || strcmp(entry->d_name + length - 4, ".bin") != 0)
            continue;
        expected e = read_case(folder, entry->d_name);
        for (int threads = 1; threads <= 4; threads *= 2) {
            assert_int_equal(cst_context_set_threads(context, threads), CST_OK);
            check_case(context, &e);
        }
        free_case(&e);
        seen++;
    }
    (void)closedir(cases);
    return seen;
}

static void every_case_agrees(void **state) {
    (void)state;
    cst_context *context = NULL;
    assert_int_equal(cst_context_create(&context), CST_OK);
    int seen = 0;
    for (int i = 0; i < folder_count; i++)
        seen += check_folder(context, folders[i]);
    assert_true(seen >= 18);
    cst_context_free(context);
}

static void check_metric(cst_context *context, const expected *e, size_t i) {
    size_t cells = (size_t)e->rows * (size_t)e->classes;
    const float **data = calloc((size_t)e->members, sizeof *data);
    int64_t *index = calloc((size_t)e->rows, sizeof *index);
    assert_true(data && index);
    for (int32_t k = 0; k < e->members; k++)
        data[k] = e->predictions + (size_t)k * cells;
    for (int32_t r = 0; r < e->rows; r++)
        index[r] = r;
    cst_view view = {.rows = e->rows,
                     .classes = e->classes,
                     .members = e->members,
                     .data = data,
                     .labels = e->labels};
    for (int threads = 1; threads <= 4; threads++) {
        cst_greedy got;
        view.index = threads % 2 ? NULL : index;
        assert_int_equal(cst_context_set_threads(context, threads), CST_OK);
        assert_int_equal(
            cst_greedy_select(context, &view, greedy_metric[i].metric, CST_GREEDY_ROUNDS, 0, &got),
            CST_OK);
        assert_int_equal(got.rounds, greedy_metric[i].rounds);
        assert_memory_equal(got.order, greedy_metric[i].order,
                            (size_t)got.rounds * sizeof *got.order);
        assert_true(fabs(got.loss[got.rounds - 1] - greedy_metric[i].loss) <= 2e-12);
        double total = 0;
        for (int32_t k = 0; k < e->members; k++)
            total += got.weights[k];
        assert_true(fabs(total - 1) < 1e-14);
        cst_scope_free(&got.scope);
    }
    free(index);
    free(data);
}

/* Top-1 and Brier on the cases of both folders. */
static void other_losses_agree(void **state) {
    (void)state;
    cst_context *context = NULL;
    assert_int_equal(cst_context_create(&context), CST_OK);
    for (size_t i = 0; i < sizeof greedy_metric / sizeof greedy_metric[0]; i++) {
        expected e = read_case(CST_TEST_DATA "/..", greedy_metric[i].path);
        check_metric(context, &e, i);
        free_case(&e);
    }
    /* the log loss by the same door, and what cannot be selected on */
    expected e = read_case(known[0], "plain.bin");
    const float *data[6];
    for (int k = 0; k < 6; k++)
        data[k] = e.predictions + (size_t)k * (size_t)e.rows * (size_t)e.classes;
    cst_view view = {
        .rows = e.rows, .classes = e.classes, .members = 6, .data = data, .labels = e.labels};
    cst_greedy a;
    cst_greedy b;
    assert_int_equal(cst_greedy_select(context, &view, CST_GREEDY_LOG_LOSS, 25, 0, &a), CST_OK);
    assert_int_equal(cst_greedy_select(context, &view, CST_GREEDY_LOG_LOSS, 25, 0, &b), CST_OK);
    assert_int_equal(a.rounds, b.rounds);
    assert_memory_equal(a.weights, b.weights, 6 * sizeof *a.weights);
    cst_scope_free(&a.scope);
    cst_scope_free(&b.scope);
    e.predictions[3] = NAN;
    assert_int_equal(cst_greedy_select(context, &view, CST_GREEDY_BRIER, 25, 0, &a),
                     CST_ERROR_INPUT);
    assert_non_null(strstr(cst_last_error(context), "row 1"));
    view.labels = NULL;
    assert_int_equal(cst_greedy_select(context, &view, CST_GREEDY_BRIER, 25, 0, &a),
                     CST_ERROR_INPUT);
    assert_int_equal(cst_greedy_select(context, &view, CST_GREEDY_TOP1, 0, 0, &a),
                     CST_ERROR_ARGUMENT);
    free_case(&e);
    cst_context_free(context);
}

/* The view of the even rows is what selection on a copy of the even rows sees. */
static void rows_are_those_of_the_view(void **state) {
    (void)state;
    cst_context *context = NULL;
    assert_int_equal(cst_context_create(&context), CST_OK);
    enum { ROWS = 60, CLASSES = 2, MEMBERS = 3 };
    float all[MEMBERS][2 * ROWS][CLASSES];
    float even[MEMBERS][ROWS][CLASSES];
    int32_t labels[2 * ROWS];
    int32_t even_labels[ROWS];
    int64_t index[ROWS];
    cst_rng rng;
    cst_rng_init(&rng, 5, CST_STREAM_TEST, 0);
    for (int i = 0; i < 2 * ROWS; i++) {
        labels[i] = (int32_t)cst_rng_below(&rng, 2);
        for (int k = 0; k < MEMBERS; k++) {
            double p = 1 / (1 + exp(cst_rng_normal(&rng) + 2.0 * labels[i] - 1));
            all[k][i][0] = (float)p;
            all[k][i][1] = 1 - (float)p;
            if (i % 2 == 0)
                memcpy(even[k][i / 2], all[k][i], sizeof all[k][i]);
        }
        index[i / 2] = i / 2 * 2;
        even_labels[i / 2] = labels[i / 2 * 2];
    }
    const float *a[] = {all[0][0], all[1][0], all[2][0]};
    const float *b[] = {even[0][0], even[1][0], even[2][0]};
    cst_view part = {.rows = ROWS,
                     .classes = CLASSES,
                     .members = MEMBERS,
                     .data = a,
                     .labels = labels,
                     .index = index};
    cst_view copy = {
        .rows = ROWS, .classes = CLASSES, .members = MEMBERS, .data = b, .labels = even_labels};
    cst_greedy x;
    cst_greedy y;
    assert_int_equal(cst_greedy_select(context, &part, CST_GREEDY_LOG_LOSS, 25, 0, &x), CST_OK);
    assert_int_equal(cst_greedy_select(context, &copy, CST_GREEDY_LOG_LOSS, 25, 0, &y), CST_OK);
    assert_true(x.rounds > 1);
    assert_int_equal(x.rounds, y.rounds);
    assert_memory_equal(x.order, y.order, (size_t)x.rounds * sizeof *x.order);
    assert_memory_equal(x.loss, y.loss, (size_t)x.rounds * sizeof *x.loss);
    cst_scope_free(&x.scope);
    cst_scope_free(&y.scope);
    part.labels = NULL;
    assert_int_equal(cst_greedy_select(context, &part, CST_GREEDY_LOG_LOSS, 25, 0, &x),
                     CST_ERROR_INPUT);
    assert_int_equal(cst_greedy_select(context, &copy, CST_GREEDY_LOG_LOSS, 0, 0, &x),
                     CST_ERROR_ARGUMENT);
    all[1][4][0] = NAN;
    part.labels = labels;
    assert_int_equal(cst_greedy_select(context, &part, CST_GREEDY_LOG_LOSS, 25, 0, &x),
                     CST_ERROR_INPUT);
    assert_non_null(strstr(cst_last_error(context), "row 2"));
    cst_context_free(context);
}

/* Rows over and over, so many that the threads share a round. */
static void threads_do_not_change_a_byte(void **state) {
    (void)state;
    cst_context *context = NULL;
    assert_int_equal(cst_context_create(&context), CST_OK);
    enum { ROWS = 400000, ROUNDS = 4 };
    expected e = read_case(known[0], "plain.bin");
    int64_t *index = malloc(ROWS * sizeof *index);
    const float *data[6];
    assert_true(index && e.members == 6);
    for (int64_t i = 0; i < ROWS; i++)
        index[i] = i % e.rows;
    for (int k = 0; k < 6; k++)
        data[k] = e.predictions + (size_t)k * (size_t)e.rows * (size_t)e.classes;
    cst_view view = {.rows = ROWS,
                     .classes = e.classes,
                     .members = 6,
                     .data = data,
                     .labels = e.labels,
                     .index = index};
    int32_t order[ROUNDS] = {0};
    double loss[ROUNDS] = {0};
    for (int threads = 1; threads <= 4; threads++) {
        cst_greedy got;
        assert_int_equal(cst_context_set_threads(context, threads), CST_OK);
        assert_int_equal(cst_greedy_select(context, &view, CST_GREEDY_LOG_LOSS, ROUNDS, 0, &got),
                         CST_OK);
        assert_int_equal(cst_context_threads(context), threads);
        if (threads == 1) {
            memcpy(order, got.order, (size_t)got.rounds * sizeof *order);
            memcpy(loss, got.loss, (size_t)got.rounds * sizeof *loss);
            assert_true(got.rounds > 1);
        }
        assert_memory_equal(order, got.order, (size_t)got.rounds * sizeof *order);
        assert_memory_equal(loss, got.loss, (size_t)got.rounds * sizeof *loss);
        cst_scope_free(&got.scope);
    }
    free(index);
    free_case(&e);
    cst_context_free(context);
}

/* ---- against the arithmetic written out ---- */

enum { PLAIN_ROWS = 1300, PLAIN_MEMBERS = 5, PLAIN_CLASSES = 7 };

/* Mean log loss of the ensemble `mean` of `size` members with one more, all columns, float32
 * products as NumPy makes them. */
static double plain_loss(const cst_view *view, const double *mean, int32_t size, int32_t k) {
    double loss = 0;
    double keep = (double)size / (double)(size + 1);
    float share = (float)(1.0 / (double)(size + 1));
    for (int64_t i = 0; i < view->rows; i++) {
        double sum = 0;
        double truth = 0;
        for (int32_t c = 0; c < view->classes; c++) {
            float product = share * view->data[k][i * view->classes + c];
            double mixed = keep * mean[i * view->classes + c] + (double)product;
            sum += mixed;
            truth = c == view->labels[i] ? mixed : truth;
        }
        loss -= log(fmin(fmax(truth / sum, 0x1p-52), 1 - 0x1p-52));
    }
    return loss / (double)view->rows;
}

/* Rounds as in greedy.h for losses above 1e-4; of equal losses a used member's, then the first. */
static void plain_select(const cst_view *view, int32_t rounds, int32_t *order, double *loss) {
    size_t cells = (size_t)view->rows * (size_t)view->classes;
    double *mean = calloc(cells, sizeof *mean);
    bool used[PLAIN_MEMBERS] = {false};
    assert_non_null(mean);
    for (int32_t size = 0; size < rounds; size++) {
        for (size_t j = 0; size > 0 && j < cells; j++) {
            float quotient = view->data[order[size - 1]][j] / (float)size;
            mean[j] = mean[j] * ((double)(size - 1) / size) + (double)quotient;
        }
        loss[size] = INFINITY;
        for (int32_t k = 0; k < view->members; k++) {
            double value = plain_loss(view, mean, size, k);
            value = size > 0 ? rint(value * 1e6) / 1e6 : value;
            if (value < loss[size] || (value == loss[size] && used[k] && !used[order[size]])) {
                loss[size] = value;
                order[size] = k;
            }
        }
        loss[size] = rint(loss[size] * 1e6) / 1e6;
        used[order[size]] = true;
    }
    free(mean);
}

static void check_plain(cst_context *context, const cst_view *view) {
    int32_t order[CST_GREEDY_ROUNDS];
    double loss[CST_GREEDY_ROUNDS];
    cst_greedy got;
    plain_select(view, CST_GREEDY_ROUNDS, order, loss);
    assert_int_equal(
        cst_greedy_select(context, view, CST_GREEDY_LOG_LOSS, CST_GREEDY_ROUNDS, 0, &got), CST_OK);
    assert_true(got.rounds > 2);
    assert_memory_equal(got.order, order, (size_t)got.rounds * sizeof *order);
    for (int32_t i = 0; i < got.rounds; i++)
        assert_true(fabs(got.loss[i] - loss[i]) <= 1e-12);
    for (int32_t i = 0; i < CST_GREEDY_ROUNDS; i++)
        assert_true(loss[i] >= got.loss[got.rounds - 1]);
    cst_scope_free(&got.scope);
}

/* Rows that sum to 1, nearly, and not at all; true classes of probability 0 and nearly so. */
static void rows_off_one_and_clipped_agree(void **state) {
    (void)state;
    static const double spread[] = {0, 1e-6, 1e-3, 0.05};
    static float p[PLAIN_MEMBERS][PLAIN_ROWS * PLAIN_CLASSES];
    int32_t labels[PLAIN_ROWS];
    const float *data[PLAIN_MEMBERS];
    cst_context *context = NULL;
    cst_rng rng;
    assert_int_equal(cst_context_create(&context), CST_OK);
    cst_rng_init(&rng, 8, CST_STREAM_TEST, 0);
    for (int trial = 0; trial < 12; trial++) {
        for (int i = 0; i < PLAIN_ROWS; i++)
            labels[i] = (int32_t)cst_rng_below(&rng, PLAIN_CLASSES);
        for (int k = 0; k < PLAIN_MEMBERS; k++) {
            data[k] = p[k];
            for (int i = 0; i < PLAIN_ROWS; i++) {
                float *row = p[k] + i * PLAIN_CLASSES;
                double sum = 0;
                double score[PLAIN_CLASSES];
                for (int c = 0; c < PLAIN_CLASSES; c++) {
                    score[c] = exp((c == labels[i] ? 2.5 : 0) + 1.5 * cst_rng_normal(&rng));
                    if (trial % 3 == 1 && c == labels[i] && i % 50 == 0)
                        score[c] = i % 100 == 0 ? 0 : 1e-16 * cst_rng_uniform(&rng);
                    sum += score[c];
                }
                double scale = 1 + spread[trial % 4] * (2 * cst_rng_uniform(&rng) - 1);
                for (int c = 0; c < PLAIN_CLASSES; c++)
                    row[c] = (float)(score[c] / sum * scale);
            }
        }
        cst_view view = {.rows = PLAIN_ROWS,
                         .classes = PLAIN_CLASSES,
                         .members = PLAIN_MEMBERS,
                         .data = data,
                         .labels = labels};
        check_plain(context, &view);
    }
    cst_context_free(context);
}

int main(int argc, char **argv) {
    if (argc > 1) {
        folders = (const char *const *)argv + 1;
        folder_count = argc - 1;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_case_agrees),
        cmocka_unit_test(other_losses_agree),
        cmocka_unit_test(rows_are_those_of_the_view),
        cmocka_unit_test(threads_do_not_change_a_byte),
        cmocka_unit_test(rows_off_one_and_clipped_agree),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
