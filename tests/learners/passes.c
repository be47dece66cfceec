/*
 * Passes of the log-linear pool against the same sums written out in plain double precision: one,
 * few and many members; few and many classes; peaked rows, whose biases have few entries, and
 * diffuse ones, which have many; weights of rows; logs that are held. How many classes of diffuse
 * rows are kept. Rough cross-validation against exact fits.
 */
#include "core/la.h"
#include "loglinear_oracle.h"
#include "method/loglinear/loglinear.h"
#include "short_tests.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { ROWS = 700 };

typedef struct made {
    int32_t members;
    int32_t classes;
    float *pool;
    const float **data;
    int32_t *labels;
    int32_t *active;
    double *weights; /* of rows */
    cst_view view;
} made;

static void *room(size_t count, size_t size) {
    void *p = calloc(count, size);
    assert_non_null(p);
    return p;
}

/* Softmax of noise, and of `lead` more for the label. */
static void make(made *m, int32_t members, int32_t classes, double lead, bool weighted) {
    cst_rng rng;
    cst_rng_init(&rng, 5, CST_STREAM_TEST, 0);
    size_t cells = (size_t)ROWS * (size_t)classes;
    *m = (made){.members = members, .classes = classes};
    m->pool = room((size_t)members * cells, sizeof *m->pool);
    m->data = room((size_t)members, sizeof *m->data);
    m->labels = room(ROWS, sizeof *m->labels);
    m->active = room((size_t)members, sizeof *m->active);
    m->weights = room(ROWS, sizeof *m->weights);
    for (int i = 0; i < ROWS; i++) {
        m->labels[i] = (int32_t)cst_rng_below(&rng, classes);
        m->weights[i] = i % 7 == 0 ? 0 : 0.25 + cst_rng_uniform(&rng);
    }
    for (int32_t k = 0; k < members; k++) {
        m->data[k] = m->pool + (size_t)k * cells;
        m->active[k] = members - 1 - k;
        for (size_t i = 0; i < ROWS; i++) {
            float *row = m->pool + (size_t)k * cells + i * (size_t)classes;
            double sum = 0;
            for (int32_t c = 0; c < classes; c++) {
                double z = cst_rng_normal(&rng) + (c == m->labels[i] ? lead : 0);
                row[c] = (float)exp(z);
                sum += (double)row[c];
            }
            for (int32_t c = 0; c < classes; c++)
                row[c] = (float)((double)row[c] / sum);
        }
    }
    m->view = (cst_view){.rows = ROWS,
                         .classes = classes,
                         .members = members,
                         .data = m->data,
                         .labels = m->labels,
                         .weights = weighted ? m->weights : NULL};
}

static void drop(made *m) {
    free(m->pool);
    free(m->data);
    free(m->labels);
    free(m->active);
    free(m->weights);
}

/* One row: its entries' classes (-1: none), offsets, and its members' probabilities. */
static void plain_row(const cst_pass *pass, int64_t i, double *sum) {
    const cst_logtable *table = pass->table;
    int64_t at = 0;
    const cst_compact_block *block = cst_compact_at(table->compact, table->row[i], &at);
    int64_t first = block->first[at];
    int64_t count = block->first[at + 1] - first;
    int32_t k = pass->count;
    int32_t d = pass->parameters;
    double *x = room((size_t)(count * d), sizeof *x);
    double *p = room((size_t)count, sizeof *p);
    double *mean = room((size_t)d, sizeof *mean);
    double total = 0;
    double weight = table->row_weights ? table->row_weights[i] : 1;
    for (int64_t e = 0; e < count; e++) {
        int32_t class = block->classes ? block->classes[first + e] : (int32_t)e;
        if (class < 0)
            continue;
        double z = block->offset ? (double)block->offset[first + e] : 0;
        for (int32_t j = 0; j < k; j++) {
            int32_t member = pass->active[j];
            double q = (double)block->p[first * table->compact->members + count * member + e];
            double mix = table->mix[member];
            x[e * d + j] = log((1 - mix) * q + mix / table->classes);
            z += pass->weights[j] * x[e * d + j];
        }
        if (d > k)
            x[e * d + k + class] = 1;
        z += pass->bias ? pass->bias[class] : 0;
        if (e == block->label[at])
            sum[0] -= weight * z;
        total += p[e] = exp(z);
    }
    sum[0] += weight * log(total);
    for (int64_t e = 0; e < count; e++)
        for (int32_t j = 0; j < d; j++)
            mean[j] += p[e] / total * x[e * d + j];
    for (int32_t j = 0; j < d; j++)
        sum[1 + j] += weight * (mean[j] - x[block->label[at] * d + j]);
    for (int64_t e = 0; e < count; e++)
        for (int32_t j = 0; j < d && p[e] > 0; j++) {
            double pull = weight * p[e] / total * (x[e * d + j] - mean[j]);
            for (int32_t l = 0; l <= j; l++)
                sum[1 + d + j * d + l] += pull * (x[e * d + l] - mean[l]);
        }
    free(x);
    free(p);
    free(mean);
}

/* A pass and what it should find: differences of at most `close`, of the Hessian in units of its
 * diagonal. */
static void compare(cst_context *context, const made *m, const cst_logtable *table, bool biases,
                    double close) {
    int32_t d = m->members + (biases ? m->classes : 0);
    size_t width = 1 + (size_t)d + (size_t)d * (size_t)d;
    double *found = room(width, sizeof *found);
    double *plain = room(width, sizeof *plain);
    double *weights = room((size_t)m->members, sizeof *weights);
    double *bias = room((size_t)m->classes, sizeof *bias);
    for (int32_t k = 0; k < m->members; k++)
        weights[k] = (1.5 + (k % 5 == 3 ? -2.0 : 0.1 * (k % 3))) / m->members;
    for (int32_t c = 0; c < m->classes; c++)
        bias[c] = 0.3 * sin(c);
    cst_pass pass = {.table = table,
                     .active = m->active,
                     .count = m->members,
                     .parameters = d,
                     .weights = weights,
                     .bias = biases ? bias : NULL,
                     .derivatives = true};
    assert_int_equal(cst_pass_run(context, &pass, found), CST_OK);
    for (int64_t i = 0; i < table->rows; i++)
        plain_row(&pass, i, plain);
    assert_true(fabs(found[0] - plain[0]) <= close * plain[0]);
    const double *hessian = plain + 1 + d;
    for (int32_t j = 0; j < d; j++) {
        double size = sqrt(ROWS * hessian[j * d + j]);
        assert_true(fabs(found[1 + j] - plain[1 + j]) <= close * size);
        for (int32_t l = 0; l <= j; l++) {
            double of = sqrt(hessian[j * d + j] * hessian[l * d + l]);
            assert_true(fabs(found[1 + d + j * d + l] - hessian[j * d + l]) <= 10 * close * of);
        }
    }
    free(found);
    free(plain);
    free(weights);
    free(bias);
}

static void passes_are_those_written_out(void **state) {
    static const struct {
        int32_t members;
        int32_t classes;
        double lead;
        bool weighted;
    } cases[] = {{1, 2, 1, false},   {3, 10, 2, true},   {5, 61, 2, false},  {30, 7, 2, true},
                 {26, 23, 1, false}, {1, 70, 2, false},  {3, 90, 30, true},  {4, 90, 2, true},
                 {4, 203, 1, false}, {26, 77, 2, false}, {25, 80, 30, true}, {2, 1200, 9, false}};
    cst_context *context = NULL;
    (void)state;
    cst_la_enter();
    assert_int_equal(cst_context_create(&context), CST_OK);
    size_t last =
        sizeof cases / sizeof *cases - (short_tests() ? 1 : 0); /* 1200 classes take long */
    for (size_t i = 0; i < last; i++) {
        made m;
        cst_logtable table;
        make(&m, cases[i].members, cases[i].classes, cases[i].lead, cases[i].weighted);
        assert_int_equal(cst_logtable_open(context, &m.view, NULL, 1, NULL, &table), CST_OK);
        assert_int_equal(cst_logtable_mix(context, &table), CST_OK);
        assert_non_null(table.compact->log_mix);
        double close = table.compact->every_class ? 1e-12 : 1e-6;
        if (m.classes < 1000)
            compare(context, &m, &table, true, close);
        compare(context, &m, &table, false, close);
        table.mix[0] *= 2; /* its logs are not those that are held */
        compare(context, &m, &table, false, close);
        cst_logtable_free(context, &table);
        drop(&m);
    }
    cst_context_free(context);
    cst_la_leave();
}

/* Logs of every class that are held, and those that a pass takes: the same bytes. */
static void held_logs_of_every_class(void **state) {
    enum { MEMBERS = 6, CLASSES = 13, WIDTH = 1 + MEMBERS + MEMBERS * MEMBERS };
    static const double weights[MEMBERS] = {0.4, 0.2, -0.1, 0.6, 0.1, 0};
    cst_context *context = NULL;
    made m;
    double sums[2][WIDTH];
    (void)state;
    cst_la_enter();
    assert_int_equal(cst_context_create(&context), CST_OK);
    make(&m, MEMBERS, CLASSES, 2, false);
    for (int held = 0; held < 2; held++) {
        cst_logtable table;
        cst_compact bare;
        cst_view view = m.view;
        assert_int_equal(cst_compact_build(context, &m.view, NULL, 0, 1e-3, &bare), CST_OK);
        cst_compact_attach(&view, held ? NULL : &bare);
        assert_int_equal(cst_logtable_open(context, &view, NULL, 1, NULL, &table), CST_OK);
        assert_int_equal(cst_logtable_mix(context, &table), CST_OK);
        assert_true((table.compact->log_mix != NULL) == (held == 1));
        cst_pass pass = {.table = &table,
                         .active = m.active,
                         .count = MEMBERS,
                         .parameters = MEMBERS,
                         .weights = weights,
                         .derivatives = true};
        assert_int_equal(cst_pass_run(context, &pass, sums[held]), CST_OK);
        cst_logtable_free(context, &table);
        cst_compact_free(context, &bare);
    }
    assert_memory_equal(sums[0], sums[1], sizeof sums[0]);
    drop(&m);
    cst_context_free(context);
    cst_la_leave();
}

/* Of diffuse rows with many classes about 128 are kept, of others what the cut says. Offsets leave
 * the rows' masses as they are, on average. */
static void diffuse_rows_are_limited(void **state) {
    static const struct {
        int32_t classes;
        double lead;
        int64_t least;
        int64_t most;
    } cases[] = {{100, 2, 99, 104}, {500, 2, 95, 136}, {500, 12, 30, 60}};
    cst_context *context = NULL;
    (void)state;
    cst_la_enter();
    assert_int_equal(cst_context_create(&context), CST_OK);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        made m;
        cst_compact table;
        int64_t entries = 0;
        double sum = 0;
        double square = 0;
        make(&m, 4, cases[i].classes, cases[i].lead, false);
        assert_int_equal(cst_compact_build(context, &m.view, NULL, 0, 1e-3, &table), CST_OK);
        for (int64_t r = 0; r < ROWS; r++) {
            int64_t at = 0;
            const cst_compact_block *block = cst_compact_at(&table, r, &at);
            int64_t first = block->first[at];
            int64_t count = block->first[at + 1] - first;
            double mass = -1;
            entries += count;
            for (int64_t e = 0; e < count; e++)
                mass +=
                    (double)block->p[first * 4 + count + e] * exp((double)block->offset[first + e]);
            sum += mass;
            square += mass * mass;
        }
        assert_in_range(entries / ROWS, cases[i].least, cases[i].most);
        double sd = sqrt(square / ROWS);
        assert_true(sd < 0.15);
        assert_true(fabs(sum / ROWS) < 4 * sd / sqrt(ROWS) + 1e-3);
        cst_compact_free(context, &table);
        drop(&m);
    }
    cst_context_free(context);
    cst_la_leave();
}

/* Classes are left out here, so that cross-validation is rough: its held-out losses are those of
 * exact fits of each fold, and the same bytes whether logs are held or not. */
static void rough_cross_validation(void **state) {
    enum { FOLDS = 5, CUT_CLASSES = 150, FEW = 6 };
    cst_context *context = NULL;
    made m;
    int32_t folds[ROWS];
    double *loss[2];
    (void)state;
    cst_la_enter();
    make(&m, FEW, CUT_CLASSES, 2, false);
    for (int i = 0; i < ROWS; i++)
        folds[i] = i % FOLDS;
    for (int t = 0; t < 2; t++) {
        cst_logtable table;
        cst_compact bare;
        cst_view view = m.view;
        cst_loglinear_cv cv = {.share = true};
        cst_loglinear_options options = cst_loglinear_defaults();
        options.evidence = false;
        options.compact.cut = 1e-2;
        loss[t] = room(ROWS, sizeof *loss[t]);
        assert_int_equal(cst_context_create(&context), CST_OK);
        assert_int_equal(cst_context_set_threads(context, 1 + t), CST_OK);
        assert_int_equal(cst_compact_build(context, &m.view, NULL, 0, options.compact.cut, &bare),
                         CST_OK);
        cst_compact_attach(&view, t ? &bare : NULL); /* which has no logs */
        assert_int_equal(cst_logtable_open(context, &view, NULL, 1, &options.compact, &table),
                         CST_OK);
        assert_int_equal(cst_logtable_mix(context, &table), CST_OK);
        assert_false(table.compact->every_class);
        assert_true((table.compact->log_mix != NULL) == (t == 0));
        assert_int_equal(
            cst_loglinear_cv_run(context, &table, folds, FOLDS, &cv, &options, loss[t]), CST_OK);
        table.share = options.compact.share;
        for (int32_t fold = 0; t == 0 && fold < FOLDS; fold++) {
            cst_logtable in;
            cst_logtable held;
            cst_loglinear fit;
            double mean = 0;
            double rough = 0;
            assert_int_equal(cst_logtable_split(context, &table, folds, fold, &in, &held), CST_OK);
            assert_int_equal(cst_loglinear_fit(context, &in, m.active, FEW, &options, NULL, &fit),
                             CST_OK);
            assert_int_equal(cst_loglinear_loss(context, &held, m.active, FEW, fit.weights,
                                                fit.bias, &mean, NULL),
                             CST_OK);
            for (int i = fold; i < ROWS; i += FOLDS)
                rough += loss[t][i] / (double)held.rows;
            assert_true(fabs(rough - mean) < 1e-3 * mean);
            cst_loglinear_free(context, &fit);
            cst_logtable_free(context, &in);
            cst_logtable_free(context, &held);
        }
        cst_logtable_free(context, &table);
        cst_compact_free(context, &bare);
        cst_context_free(context);
    }
    assert_memory_equal(loss[0], loss[1], ROWS * sizeof *loss[0]);
    free(loss[0]);
    free(loss[1]);
    drop(&m);
    cst_la_leave();
}

/* A fit under another prior that begins with the sums of the last one ends where one from nothing
 * does. */
static void fits_begin_from_what_was_seen(void **state) {
    enum { CUT_CLASSES = 150, FEW = 6 };
    cst_context *context = NULL;
    made m;
    cst_logtable table;
    cst_loglinear first;
    cst_loglinear on;
    cst_loglinear fresh;
    cst_loglinear_options options = cst_loglinear_defaults();
    (void)state;
    cst_la_enter();
    make(&m, FEW, CUT_CLASSES, 2, false);
    assert_int_equal(cst_context_create(&context), CST_OK);
    assert_int_equal(cst_logtable_open(context, &m.view, NULL, 1, NULL, &table), CST_OK);
    assert_int_equal(cst_logtable_mix(context, &table), CST_OK);
    options.evidence = false;
    options.keep_seen = true;
    options.trusted = 0.1; /* so that its end is not what was seen */
    assert_int_equal(cst_loglinear_fit(context, &table, m.active, FEW, &options, NULL, &first),
                     CST_OK);
    assert_memory_not_equal(first.seen, first.weights, FEW * sizeof *first.seen);
    options.trusted = 0;
    options.prior_weights = 100;
    options.keep_seen = false;
    assert_int_equal(cst_loglinear_fit(context, &table, m.active, FEW, &options, NULL, &fresh),
                     CST_OK);
    options.seen = first.seen;
    assert_int_equal(
        cst_loglinear_fit(context, &table, m.active, FEW, &options, first.weights, &on), CST_OK);
    assert_null(on.seen);
    assert_true(on.iterations > 0 && on.iterations < fresh.iterations);
    double moved = 0;
    for (int32_t k = 0; k < FEW; k++) {
        moved = fmax(moved, fabs(first.weights[k] - fresh.weights[k]));
        assert_true(fabs(on.weights[k] - fresh.weights[k]) < 1e-4); /* curvature is in float32 */
    }
    assert_true(moved > 1e-3);
    cst_loglinear_free(context, &first);
    cst_loglinear_free(context, &on);
    cst_loglinear_free(context, &fresh);
    cst_logtable_free(context, &table);
    cst_context_free(context);
    drop(&m);
    cst_la_leave();
}

int suite_passes(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(passes_are_those_written_out),  cmocka_unit_test(held_logs_of_every_class),
        cmocka_unit_test(diffuse_rows_are_limited),      cmocka_unit_test(rough_cross_validation),
        cmocka_unit_test(fits_begin_from_what_was_seen),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
