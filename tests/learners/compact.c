/*
 * Compact tables: what is kept and with which offsets; the sum over what is kept against the sum
 * over all classes; fits on a sample of classes or rows, polished, against fits on everything and
 * against gradients written out once more; folds of a shared table; same bytes for any threads.
 */
#include "core/la.h"
#include "loglinear_oracle.h"
#include "method/loglinear/loglinear.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static const cst_loglinear_cv no_cv;

enum { ROWS = 1500, CLASSES = 150, MEMBERS = 4, FEATURES = 12, FOLDS = 3 };

typedef struct fixture {
    cst_context *context;
    float pool[MEMBERS][ROWS * CLASSES];
    const float *data[MEMBERS];
    int32_t labels[ROWS];
    int32_t folds[ROWS];
    int32_t active[MEMBERS];
    cst_view view;
} fixture;

static fixture shared;

/* Member k: softmax of scale_k times the products of noisy features with the classes' embeddings.
 */
static void make_pool(fixture *f) {
    static double embedding[CLASSES][FEATURES];
    static const double scales[MEMBERS] = {3, 2, 4, 2.5};
    cst_rng rng;
    cst_rng_init(&rng, 11, CST_STREAM_TEST, 0);
    for (int c = 0; c < CLASSES; c++)
        for (int d = 0; d < FEATURES; d++)
            embedding[c][d] = cst_rng_normal(&rng) / sqrt(FEATURES);
    for (int i = 0; i < ROWS; i++) {
        double feature[FEATURES];
        f->labels[i] = (int32_t)cst_rng_below(&rng, CLASSES);
        f->folds[i] = i % FOLDS;
        for (int d = 0; d < FEATURES; d++)
            feature[d] = embedding[f->labels[i]][d] + 0.15 * cst_rng_normal(&rng);
        for (int k = 0; k < MEMBERS; k++) {
            double noisy[FEATURES];
            double score[CLASSES];
            double sum = 0;
            for (int d = 0; d < FEATURES; d++)
                noisy[d] = feature[d] + 0.1 * cst_rng_normal(&rng);
            for (int c = 0; c < CLASSES; c++) {
                double z = 0;
                for (int d = 0; d < FEATURES; d++)
                    z += noisy[d] * embedding[c][d];
                sum += score[c] = exp(3 * scales[k] * z);
            }
            for (int c = 0; c < CLASSES; c++)
                f->pool[k][i * CLASSES + c] = (float)(score[c] / sum);
        }
    }
}

static int setup(void **state) {
    fixture *f = &shared;
    memset(f, 0, sizeof *f);
    cst_la_enter();
    if (cst_context_create(&f->context) != CST_OK)
        return 1;
    make_pool(f);
    for (int32_t k = 0; k < MEMBERS; k++) {
        f->data[k] = f->pool[k];
        f->active[k] = k;
    }
    f->view = (cst_view){
        .rows = ROWS, .classes = CLASSES, .members = MEMBERS, .data = f->data, .labels = f->labels};
    *state = f;
    return 0;
}

static int teardown(void **state) {
    fixture *f = *state;
    cst_context_free(f->context);
    cst_la_leave();
    return 0;
}

static void rows_keep_what_matters(void **state) {
    fixture *f = *state;
    cst_compact table;
    assert_int_equal(cst_compact_build(f->context, &f->view, NULL, 0, 0.01, &table), CST_OK);
    assert_false(table.every_class);
    int64_t entries = 0;
    for (int64_t i = 0; i < ROWS; i++) {
        int64_t at = 0;
        const cst_compact_block *block = cst_compact_at(&table, i, &at);
        int64_t first = block->first[at];
        int64_t count = block->first[at + 1] - first;
        const float *p = block->p + first * MEMBERS;
        bool kept[CLASSES] = {false};
        entries += count;
        assert_int_equal(block->classes[first + block->label[at]], f->labels[i]);
        assert_true(block->offset[first + block->label[at]] == 0);
        for (int64_t e = 0; e < count; e++) {
            assert_int_equal(count % CST_COMPACT_PAD, 0);
            int32_t c = block->classes[first + e];
            if (c < 0) { /* padding, behind all others */
                assert_true(e > count - CST_COMPACT_PAD);
                assert_true(block->offset[first + e] == CST_COMPACT_NO_MASS);
                continue;
            }
            assert_true(e == 0 || c > block->classes[first + e - 1]);
            assert_true(block->offset[first + e] >= 0);
            kept[c] = true;
            for (int k = 0; k < MEMBERS; k++)
                assert_true(p[k * count + e] == f->pool[k][i * CLASSES + c]);
        }
        for (int c = 0; c < CLASSES; c++) {
            double mean = 0;
            for (int k = 0; k < MEMBERS; k++)
                mean += (double)f->pool[k][i * CLASSES + c] / MEMBERS;
            assert_true(mean < 0.01 * (1 + 1e-6) || kept[c]);
        }
    }
    assert_true(entries < (int64_t)ROWS * CLASSES / 2);
    assert_true(entries > (int64_t)ROWS * 20);
    assert_int_equal(cst_compact_bytes(&table), (size_t)entries * (MEMBERS + 2) * 4);
    cst_compact_free(f->context, &table);
    assert_int_equal(cst_compact_build(f->context, &f->view, NULL, 0, 0, &table), CST_OK);
    assert_true(table.every_class);
    assert_int_equal(cst_compact_bytes(&table), sizeof(f->pool));
    cst_compact_free(f->context, &table);
}

/* Sum of exp(offset) prod p^w over what is kept, minus the sum over all classes: without bias. */
static void sums_have_the_right_mean(void **state) {
    static const double weights[3][MEMBERS] = {
        {0.25, 0.25, 0.25, 0.25}, {1, 0, 0, 0}, {0.9, -0.3, 0.5, 0.1}};
    fixture *f = *state;
    cst_compact table;
    assert_int_equal(cst_compact_build(f->context, &f->view, NULL, 0, 0.02, &table), CST_OK);
    for (int t = 0; t < 3; t++) {
        double sum = 0;
        double square = 0;
        for (int64_t i = 0; i < ROWS; i++) {
            int64_t at = 0;
            const cst_compact_block *block = cst_compact_at(&table, i, &at);
            int64_t first = block->first[at];
            int64_t count = block->first[at + 1] - first;
            double kept = 0;
            double all = 0;
            for (int64_t e = 0; e < count; e++) {
                double z = (double)block->offset[first + e];
                for (int k = 0; k < MEMBERS; k++)
                    z += weights[t][k] *
                         log((double)block->p[first * MEMBERS + k * count + e] + 1e-9);
                kept += exp(z);
            }
            for (int c = 0; c < CLASSES; c++) {
                double z = 0;
                for (int k = 0; k < MEMBERS; k++)
                    z += weights[t][k] * log((double)f->pool[k][i * CLASSES + c] + 1e-9);
                all += exp(z);
            }
            double error = kept / all - 1;
            sum += error;
            square += error * error;
        }
        double mean = sum / ROWS;
        double sd = sqrt(square / ROWS - mean * mean);
        assert_true(sd > 0 && sd < 0.05);
        assert_true(fabs(mean) < 4 * sd / sqrt(ROWS));
    }
    cst_compact_free(f->context, &table);
}

/* Largest entry of the penalised gradient over every class of every row, from the definition. */
static double steepest(const fixture *f, const cst_loglinear *fit, const double *mix,
                       const cst_loglinear_options *options) {
    static double gradient[MEMBERS + CLASSES];
    double common = 0;
    memset(gradient, 0, sizeof gradient);
    for (int i = 0; i < ROWS; i++) {
        double logs[MEMBERS][CLASSES];
        double p[CLASSES];
        double sum = 0;
        for (int c = 0; c < CLASSES; c++) {
            double z = fit->bias[c];
            for (int k = 0; k < MEMBERS; k++) {
                logs[k][c] =
                    log((1 - mix[k]) * (double)f->pool[k][i * CLASSES + c] + mix[k] / CLASSES);
                z += fit->weights[k] * logs[k][c];
            }
            sum += p[c] = exp(z);
        }
        for (int c = 0; c < CLASSES; c++) {
            double residual = p[c] / sum - (c == f->labels[i]);
            gradient[MEMBERS + c] += residual;
            for (int k = 0; k < MEMBERS; k++)
                gradient[k] += residual * logs[k][c];
        }
    }
    for (int k = 0; k < MEMBERS; k++)
        common += (fit->weights[k] - 1.0 / MEMBERS) / MEMBERS;
    double most = 0;
    for (int k = 0; k < MEMBERS; k++) {
        gradient[k] += fit->prior_weights * (fit->weights[k] - 1.0 / MEMBERS - common) +
                       options->prior_scale * common;
        most = fmax(most, fabs(gradient[k]));
    }
    for (int c = 0; c < CLASSES; c++) {
        gradient[MEMBERS + c] += fit->prior_bias * fit->bias[c];
        most = fmax(most, options->bias ? fabs(gradient[MEMBERS + c]) : 0);
    }
    return most;
}

static void fit_with(fixture *f, double cut, int64_t max_rows, double polish, double *mix,
                     cst_loglinear *fit, double *logdet) {
    cst_loglinear_options options = cst_loglinear_defaults();
    options.evidence = false;
    options.polish = polish;
    options.compact = (cst_compact_options){.cut = cut, .max_rows = max_rows};
    assert_int_equal(cst_loglinear_pool(f->context, &f->view, f->folds, FOLDS, &no_cv, &options,
                                        mix, fit, logdet),
                     CST_OK);
}

/* The gap before and after polishing, for a sample of classes and for one of rows as well. */
static void polished_fits_are_those_of_everything(void **state) {
    static const int64_t max_rows[2] = {0, 500};
    fixture *f = *state;
    cst_loglinear_options options = cst_loglinear_defaults();
    for (int t = 0; t < 2; t++) {
        cst_loglinear all;
        cst_loglinear rough;
        cst_loglinear fine;
        double mix[3][MEMBERS];
        double logdet[3];
        fit_with(f, 0, 0, 1e-6, mix[0], &all, &logdet[0]);
        fit_with(f, 1e-2, max_rows[t], 1e9, mix[1], &rough, &logdet[1]);
        fit_with(f, 1e-2, max_rows[t], 1e-6, mix[2], &fine, &logdet[2]);
        for (int k = 0; k < MEMBERS; k++)
            assert_true(mix[0][k] == mix[2][k]);
        assert_true(steepest(f, &all, mix[0], &options) < 1e-3);
        assert_true(steepest(f, &fine, mix[2], &options) < 0.1);
        assert_true(steepest(f, &fine, mix[2], &options) <
                    steepest(f, &rough, mix[1], &options) / 10);
        assert_true(fine.decrement < 1e-6);
        assert_true(rough.decrement < (t ? 40 : 1)); /* nats of 1,500 rows: the gap */
        assert_true(fabs(fine.nll / all.nll - 1) < 1e-5);
        for (int k = 0; k < MEMBERS; k++)
            assert_true(fabs(fine.weights[k] - all.weights[k]) < 1e-4);
        for (int c = 0; c < CLASSES; c++)
            assert_true(fabs(fine.bias[c] - all.bias[c]) < 1e-3);
        assert_true(fabs(logdet[2] - logdet[0]) < (t ? 0.02 : 0.005) * fabs(logdet[0]));
        cst_loglinear_free(f->context, &all);
        cst_loglinear_free(f->context, &rough);
        cst_loglinear_free(f->context, &fine);
    }
}

/* A table that the view brings serves its folds and some of its members, with the same result as a
 * table of the fold's own. */
static void folds_share_a_table(void **state) {
    fixture *f = *state;
    static int64_t index[ROWS];
    static const int32_t members[2] = {3, 1};
    const float *pointers[2];
    double losses[2] = {0, 0};
    cst_compact table;
    assert_int_equal(cst_compact_build(f->context, &f->view, NULL, 0, 0, &table), CST_OK);
    for (int t = 0; t < 2; t++) {
        cst_view in;
        cst_view out;
        cst_logtable rows;
        cst_loglinear fit;
        cst_loglinear_options options = cst_loglinear_defaults();
        cst_view_split(&f->view, f->folds, 1, index, &in, &out);
        cst_compact_attach(&in, t ? &table : NULL);
        cst_view two = cst_view_members(&in, members, 2, pointers);
        options.bias = false;
        options.evidence = false;
        options.compact.cut = 0;
        assert_int_equal(cst_logtable_open(f->context, &two, NULL, 1, &options.compact, &rows),
                         CST_OK);
        assert_true((rows.own == NULL) == (t == 1));
        assert_int_equal(rows.rows, in.rows);
        assert_int_equal(cst_logtable_mix(f->context, &rows), CST_OK);
        assert_int_equal(cst_loglinear_fit(f->context, &rows, f->active, 2, &options, NULL, &fit),
                         CST_OK);
        losses[t] = fit.nll;
        cst_loglinear_free(f->context, &fit);
        cst_logtable_free(f->context, &rows);
    }
    assert_true(fabs(losses[0] - losses[1]) <
                1e-12 * losses[0]); /* blocks are those of each table */
    cst_compact_free(f->context, &table);
}

/* Logs that are held and logs that each pass takes give the same. */
static void logs_are_the_same_held_or_taken(void **state) {
    fixture *f = *state;
    static double sums[2][1 + MEMBERS + CLASSES + (MEMBERS + CLASSES) * (MEMBERS + CLASSES)];
    static double bias[CLASSES];
    static const double weights[MEMBERS] = {0.4, -0.1, 0.5, 0.3};
    cst_compact bare;
    bias[5] = 0.3;
    assert_int_equal(cst_compact_build(f->context, &f->view, NULL, 0, 5e-3, &bare), CST_OK);
    for (int held = 0; held < 2; held++) {
        cst_logtable table;
        cst_compact_options options = {.cut = 5e-3};
        cst_view view = f->view;
        cst_compact_attach(&view, held ? NULL : &bare);
        assert_int_equal(cst_logtable_open(f->context, &view, NULL, 1, &options, &table), CST_OK);
        assert_int_equal(cst_logtable_mix(f->context, &table), CST_OK);
        assert_true((table.compact->log_mix != NULL) == (held == 1));
        table.mix[2] = 0.05; /* not the table's: these are taken */
        cst_pass pass = {.table = &table,
                         .active = f->active,
                         .count = MEMBERS,
                         .parameters = MEMBERS + CLASSES,
                         .weights = weights,
                         .bias = bias,
                         .derivatives = true};
        assert_int_equal(cst_pass_run(f->context, &pass, sums[held]), CST_OK);
        cst_logtable_free(f->context, &table);
    }
    assert_memory_equal(sums[0], sums[1], sizeof sums[0]);
    cst_compact_free(f->context, &bare);
}

/* A pass over a sample of the classes against loss, gradient and Hessian written out once more. */
static void sampled_passes_are_right(void **state) {
    enum { D = MEMBERS + CLASSES };
    fixture *f = *state;
    static double sum[1 + D + D * D];
    static double right[1 + D + D * D];
    static double bias[CLASSES];
    static const double weights[MEMBERS] = {0.4, -0.1, 0.5, 0.3};
    cst_logtable table;
    cst_compact_options options = {.cut = 5e-3};
    bias[5] = 0.3;
    memset(right, 0, sizeof right);
    assert_int_equal(cst_logtable_open(f->context, &f->view, NULL, 1, &options, &table), CST_OK);
    assert_int_equal(cst_logtable_mix(f->context, &table), CST_OK);
    cst_pass pass = {.table = &table,
                     .active = f->active,
                     .count = MEMBERS,
                     .parameters = D,
                     .weights = weights,
                     .bias = bias,
                     .derivatives = true};
    assert_int_equal(cst_pass_run(f->context, &pass, sum), CST_OK);
    for (int64_t i = 0; i < ROWS; i++) {
        int64_t at = 0;
        const cst_compact_block *block = cst_compact_at(table.compact, i, &at);
        int64_t first = block->first[at];
        int64_t count = block->first[at + 1] - first;
        static double design[CLASSES + CST_COMPACT_PAD][D];
        double p[CLASSES + CST_COMPACT_PAD] = {0};
        double mean[D] = {0};
        double total = 0;
        memset(design, 0, sizeof design);
        for (int64_t e = 0; e < count; e++) {
            int32_t c = block->classes[first + e];
            double z = (double)block->offset[first + e];
            if (c >= 0) {
                design[e][MEMBERS + c] = 1;
                z += bias[c];
            }
            for (int k = 0; k < MEMBERS && c >= 0; k++) {
                design[e][k] = log((1 - table.mix[k]) * (double)f->pool[k][i * CLASSES + c] +
                                   table.mix[k] / CLASSES);
                z += weights[k] * design[e][k];
            }
            total += p[e] = exp(z);
        }
        right[0] += -log(p[block->label[at]] / total);
        for (int64_t e = 0; e < count; e++)
            for (int j = 0; j < D; j++)
                mean[j] += p[e] / total * design[e][j];
        for (int j = 0; j < D; j++)
            right[1 + j] += mean[j] - design[block->label[at]][j];
        /* The covariance of the design: few of its columns are not 0. */
        for (int64_t e = 0; e < count; e++)
            for (int j = 0; j < D; j++)
                for (int l = 0; l <= j && design[e][j] != 0; l++)
                    right[1 + D + j * D + l] += p[e] / total * design[e][j] * design[e][l];
        for (int j = 0; j < D; j++)
            for (int l = 0; l <= j; l++)
                right[1 + D + j * D + l] -= mean[j] * mean[l];
    }
    assert_true(fabs(sum[0] / right[0] - 1) < 1e-7);
    for (int j = 0; j < D; j++)
        assert_true(fabs(sum[1 + j] - right[1 + j]) < 2e-4);
    for (int j = 0; j < D; j++)
        for (int l = 0; l <= j; l++) {
            const double *h = right + 1 + D;
            double size = sqrt(h[j * D + j] * h[l * D + l]);
            assert_true(fabs(sum[1 + D + j * D + l] - h[j * D + l]) < 3e-4 * size);
        }
    cst_logtable_free(f->context, &table);
}

static void same_bytes_for_any_threads(void **state) {
    fixture *f = *state;
    cst_loglinear first;
    double mix[MEMBERS];
    double logdet[2];
    assert_int_equal(cst_context_set_threads(f->context, 1), CST_OK);
    fit_with(f, 5e-3, 0, 1e-6, mix, &first, &logdet[0]);
    for (int threads = 2; threads <= 3; threads++) {
        cst_loglinear again;
        assert_int_equal(cst_context_set_threads(f->context, threads), CST_OK);
        fit_with(f, 5e-3, 0, 1e-6, mix, &again, &logdet[1]);
        assert_memory_equal(first.weights, again.weights, sizeof(double) * MEMBERS);
        assert_memory_equal(first.bias, again.bias, sizeof(double) * CLASSES);
        assert_true(logdet[0] == logdet[1]);
        cst_loglinear_free(f->context, &again);
    }
    cst_loglinear_free(f->context, &first);
}

static void thinned_rows_are_even(void **state) {
    fixture *f = *state;
    int64_t *chosen = NULL;
    int64_t count = 0;
    int64_t of_fold[FOLDS] = {0};
    assert_int_equal(cst_thin_rows(f->context, ROWS, f->folds, FOLDS, 300, &chosen, &count),
                     CST_OK);
    assert_true(count >= 300 - FOLDS && count <= 300);
    for (int64_t i = 0; i < count; i++) {
        assert_true(i == 0 || (chosen[i] > chosen[i - 1] && chosen[i] - chosen[i - 1] <= 15));
        of_fold[f->folds[chosen[i]]]++;
    }
    for (int fold = 0; fold < FOLDS; fold++)
        assert_true(of_fold[fold] >= 99 && of_fold[fold] <= 101);
    cst_free(f->context, chosen);
    assert_int_equal(cst_thin_rows(f->context, ROWS, NULL, 1, 0, &chosen, &count), CST_OK);
    assert_int_equal(count, ROWS);
    assert_int_equal(chosen[ROWS - 1], ROWS - 1);
    cst_free(f->context, chosen);
}

int suite_compact(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_keep_what_matters),
        cmocka_unit_test(sums_have_the_right_mean),
        cmocka_unit_test(polished_fits_are_those_of_everything),
        cmocka_unit_test(folds_share_a_table),
        cmocka_unit_test(logs_are_the_same_held_or_taken),
        cmocka_unit_test(sampled_passes_are_right),
        cmocka_unit_test(same_bytes_for_any_threads),
        cmocka_unit_test(thinned_rows_are_even),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
