/*
 * Pools that are as they should be: opened in every way, joined by id, converted, viewed; the same
 * bytes whatever the number of threads.
 */
#include "io_files.h"

#include "data/pool/pool.h"

#include <math.h>

enum { ROWS = 6, CLASSES = 3 };

static const int32_t labels[ROWS] = {0, 1, 2, 2, 1, 0};

/* Probabilities that tell row and member apart: class 0 has (row + 1 + member) / 20. */
static void fill(float *out, int member, int rows) {
    for (int i = 0; i < rows; i++) {
        out[3 * i] = (float)(i + 1 + member) / 20;
        out[3 * i + 1] = 0.25f;
        out[3 * i + 2] = 0.75f - out[3 * i];
    }
}

static void put_member(fixture *f, const char *name, int member) {
    float values[ROWS * CLASSES];
    fill(values, member, ROWS);
    put_f32(f, name, values, ROWS, CLASSES);
}

/* Whether a loaded member is what fill() made. */
static void expect_member(const cst_pool *pool, const char *split, int32_t position, int member) {
    float values[ROWS * CLASSES];
    fill(values, member, ROWS);
    const float *found = cst_pool_predictions(pool, split, position);
    assert_non_null(found);
    for (int i = 0; i < ROWS * CLASSES; i++)
        assert_true(fabs((double)found[i] - (double)values[i]) < 1e-7);
}

static void put_pool(fixture *f, const char *extra) {
    char text[2048];
    (void)snprintf(text, sizeof text,
                   "{\"corestack_pool\": 1, \"classes\": [\"cat\", \"dog\", \"bird\"], \"splits\": "
                   "{\"oof\": {\"labels\": \"y.npy\"%s}}, \"models\": [{\"name\": \"a\", "
                   "\"predictions\": {\"oof\": \"a.npy\"}}, {\"name\": \"b\", \"flops\": 7, "
                   "\"ensemble\": {\"kind\": \"snapshot\", \"of\": \"run\", \"passes\": 4}, "
                   "\"predictions\": {\"oof\": \"b.npy\"}}]}",
                   extra);
    put_text(f, "pool.json", text);
    put_i32(f, "y.npy", labels, ROWS);
    put_member(f, "a.npy", 1);
    put_member(f, "b.npy", 2);
}

static void a_manifest_pool(void **state) {
    fixture *f = *state;
    cst_pool *pool = NULL;
    static const int32_t folds[ROWS] = {7, 3, 100, 7, 100, 3};
    static const int32_t renumbered[ROWS] = {1, 0, 2, 1, 2, 0};
    put_pool(f, ", \"folds\": \"f.npy\", \"groups\": \"g.csv\"");
    put_i32(f, "f.npy", folds, ROWS);
    put_text(f, "g.csv", "group\nx\ny\nx\nz\ny\nx\n");
    expect_ok(f, cst_pool_open(f->context, &pool, at(f, "pool.json"), NULL));
    assert_int_equal(cst_pool_members(pool), 2);
    assert_int_equal(cst_pool_classes(pool), 3);
    assert_string_equal(cst_pool_class_name(pool, 2), "bird");
    assert_null(cst_pool_class_name(pool, 3));
    assert_string_equal(cst_pool_member_name(pool, 1), "b");
    assert_int_equal(cst_pool_takes_name(pool, "oof_c.npy"), 0);
    assert_null(cst_pool_member_name(pool, 2));
    assert_null(cst_pool_member_family(pool, 0));
    assert_true(isnan(cst_pool_member_flops(pool, 0)) && cst_pool_member_flops(pool, 1) == 7);
    cst_member_ensemble tag = cst_pool_member_ensemble(pool, 1);
    assert_true(tag.kind == CST_ENSEMBLE_SNAPSHOT && tag.passes == 4);
    assert_string_equal(tag.of, "run");
    tag = cst_pool_member_ensemble(pool, 0);
    assert_true(tag.kind == CST_ENSEMBLE_NONE && tag.passes == 1 && !tag.of);
    assert_int_equal(cst_pool_member_index(pool, "b"), 1);
    assert_int_equal(cst_pool_member_index(pool, "c"), -1);
    assert_true(cst_pool_has_split(pool, "oof") && !cst_pool_has_split(pool, "test"));
    assert_int_equal(cst_pool_rows(pool, "oof"), -1);
    assert_null(cst_pool_labels(pool, "oof"));
    cst_view view;
    expect_error(f, cst_pool_view(f->context, pool, "oof", &view), CST_ERROR_ARGUMENT, "'oof'",
                 "not loaded", NULL);
    expect_ok(f, cst_pool_load(f->context, pool, "oof"));
    expect_ok(f, cst_pool_load(f->context, pool, "oof"));
    assert_int_equal(cst_pool_rows(pool, "oof"), ROWS);
    assert_memory_equal(cst_pool_labels(pool, "oof"), labels, sizeof labels);
    assert_memory_equal(cst_pool_folds(pool, "oof"), renumbered, sizeof renumbered);
    static const int64_t groups[ROWS] = {0, 1, 0, 2, 1, 0};
    assert_memory_equal(cst_pool_groups(pool, "oof"), groups, sizeof groups);
    assert_null(cst_pool_id(pool, "oof", 0));
    expect_member(pool, "oof", 0, 1);
    expect_member(pool, "oof", 1, 2);
    expect_ok(f, cst_pool_view(f->context, pool, "oof", &view));
    assert_int_equal(view.rows, ROWS);
    assert_int_equal(view.members, 2);
    assert_ptr_equal(view.data[1], cst_pool_predictions(pool, "oof", 1));
    assert_ptr_equal(view.labels, cst_pool_labels(pool, "oof"));
    cst_pool_free(f->context, pool);
}

static void only_the_members_asked_for_are_read(void **state) {
    fixture *f = *state;
    cst_pool *pool = NULL;
    static const int32_t second[] = {1};
    const float *pointers[2];
    cst_view view;
    put_pool(f, "");
    assert_int_equal(unlink(at(f, "a.npy")), 0);
    expect_ok(f, cst_pool_open(f->context, &pool, at(f, "pool.json"), NULL));
    expect_ok(f, cst_pool_load_members(f->context, pool, "oof", second, 1));
    assert_null(cst_pool_predictions(pool, "oof", 0));
    expect_member(pool, "oof", 1, 2);
    expect_ok(f, cst_pool_view_members(f->context, pool, "oof", second, 1, pointers, &view));
    assert_int_equal(view.members, 1);
    assert_int_equal(view.rows, ROWS);
    expect_error(f, cst_pool_view(f->context, pool, "oof", &view), CST_ERROR_ARGUMENT, "'a'", NULL);
    expect_error(f, cst_pool_load(f->context, pool, "oof"), CST_ERROR_IO, "a.npy", NULL);
    expect_member(pool, "oof", 1, 2); /* what was loaded before stays */
    put_member(f, "a.npy", 1);
    expect_ok(f, cst_pool_load(f->context, pool, "oof"));
    expect_member(pool, "oof", 0, 1);
    cst_pool_free(f->context, pool);
}

/* ---- ids ---- */

static void rows_are_joined_by_id(void **state) {
    fixture *f = *state;
    cst_pool *pool = NULL;
    static const int32_t ids[ROWS] = {30, 10, 20, 60, 50, 40};
    static const int order[ROWS] = {5, 3, 0,
                                    1, 4, 2}; /* row of the reference in each line of a.csv */
    float values[ROWS * CLASSES];
    FILE *file = NULL;
    fill(values, 1, ROWS);
    put_text(
        f, "pool.json",
        "{\"corestack_pool\": 1, \"classes\": [\"cat\", \"dog\", \"bird\"], \"splits\": {\"oof\": "
        "{\"labels\": \"y.csv\", \"ids\": \"ids.npy\", \"folds\": \"f.csv\", \"groups\": "
        "\"g.csv\"}}, \"models\": [{\"name\": \"a\", \"predictions\": {\"oof\": \"a.csv\"}}, "
        "{\"name\": \"b\", \"predictions\": {\"oof\": {\"path\": \"b.npy\", \"ids\": "
        "\"b_ids.csv\"}}}, {\"name\": \"c\", \"predictions\": {\"oof\": \"c.npy\"}}]}");
    put_i32(f, "ids.npy", ids, ROWS);
    put_text(f, "y.csv", "id,label\n10,dog\n20,bird\n30,cat\n40,cat\n50,dog\n60,bird\n");
    put_text(f, "f.csv", "id,fold\n60,4\n50,4\n40,4\n30,1\n20,1\n10,1\n");
    put_text(f, "g.csv", "id,group\n40,5\n50,6\n60,7\n20,8\n10,9\n30,10\n");
    /* columns named after the classes, in another order than the manifest's */
    file = fopen(at(f, "a.csv"), "w");
    (void)fputs("bird,sample_id,cat,dog\n", file);
    for (int i = 0; i < ROWS; i++) {
        const float *row = values + 3 * order[i];
        (void)fprintf(file, "%.9g,%d,%.9g,%.9g\n", (double)row[2], ids[order[i]], (double)row[0],
                      (double)row[1]);
    }
    (void)fclose(file);
    float shuffled[ROWS * CLASSES];
    char text[256] = "id\n";
    fill(values, 2, ROWS);
    for (int i = 0; i < ROWS; i++) {
        memcpy(shuffled + (size_t)i * 3, values + (size_t)(ROWS - 1 - i) * 3, 3 * sizeof *values);
        (void)snprintf(text + strlen(text), sizeof text - strlen(text), "%d\n", ids[ROWS - 1 - i]);
    }
    put_f32(f, "b.npy", shuffled, ROWS, CLASSES);
    put_text(f, "b_ids.csv", text);
    put_member(f, "c.npy", 3);
    expect_ok(f, cst_pool_open(f->context, &pool, at(f, "pool.json"), NULL));
    expect_ok(f, cst_pool_load(f->context, pool, "oof"));
    static const int32_t joined[ROWS] = {0, 1, 2, 2, 1, 0};
    static const int32_t folds[ROWS] = {0, 0, 0, 1, 1, 1};
    static const int64_t groups[ROWS] = {10, 9, 8, 7, 6, 5};
    assert_memory_equal(cst_pool_labels(pool, "oof"), joined, sizeof joined);
    assert_memory_equal(cst_pool_folds(pool, "oof"), folds, sizeof folds);
    assert_memory_equal(cst_pool_groups(pool, "oof"), groups, sizeof groups);
    assert_string_equal(cst_pool_id(pool, "oof", 3), "60");
    assert_null(cst_pool_id(pool, "oof", 6));
    for (int k = 0; k < 3; k++)
        expect_member(pool, "oof", k, k + 1);
    cst_pool_free(f->context, pool);
}

/* Labels with ids of their own are the order; where there are no labels, members must agree among
 * themselves; labels without ids go with no ids at all. */
static void the_order_is_that_of_the_labels(void **state) {
    fixture *f = *state;
    cst_pool *pool = NULL;
    const char *one[1];
    char paths[2][256];
    cst_pool_config config = {0};
    put_text(f, "y.csv", "id,label\nu,1\nv,0\n");
    put_text(f, "a.csv", "id,p0,p1\nv,0.75,0.25\nu,0.5,0.5\n");
    put_text(f, "b.csv", "id,p0,p1\nu,0.5,0.5\nv,0.75,0.25\n");
    put_text(f, "plain.csv", "1\n0\n");
    config.labels = strcpy(paths[0], at(f, "y.csv"));
    one[0] = strcpy(paths[1], at(f, "a.csv"));
    expect_ok(f, cst_pool_open_files(f->context, &pool, one, 1, &config));
    expect_ok(f, cst_pool_load(f->context, pool, "oof"));
    assert_true(cst_pool_predictions(pool, "oof", 0)[0] == 0.5f);
    assert_int_equal(cst_pool_labels(pool, "oof")[0], 1);
    assert_string_equal(cst_pool_id(pool, "oof", 0), "u");
    cst_pool_free(f->context, pool);

    char second[256];
    const char *both[2] = {paths[1], strcpy(second, at(f, "b.csv"))};
    config.labels = NULL;
    expect_ok(f, cst_pool_open_files(f->context, &pool, both, 2, &config));
    expect_error(f, cst_pool_load(f->context, pool, "oof"), CST_ERROR_MISMATCH, "b.csv", "'u'",
                 "row 0", "row 1 of ", "a.csv", "ids file", NULL);
    assert_int_equal(cst_pool_rows(pool, "oof"), -1);
    cst_pool_free(f->context, pool);

    config.labels = strcpy(paths[0], at(f, "plain.csv"));
    expect_ok(f, cst_pool_open_files(f->context, &pool, both + 1, 1, &config));
    expect_error(f, cst_pool_load(f->context, pool, "oof"), CST_ERROR_MISMATCH, "b.csv",
                 "plain.csv", "have no ids", NULL);
    cst_pool_free(f->context, pool);
    /* The index of a data frame says no more than the order does. */
    put_text(f, "b.csv", ",p0,p1\n0,0.5,0.5\n1,0.75,0.25\n");
    expect_ok(f, cst_pool_open_files(f->context, &pool, both + 1, 1, &config));
    expect_ok(f, cst_pool_load(f->context, pool, "oof"));
    assert_null(cst_pool_id(pool, "oof", 0));
    assert_true(cst_pool_predictions(pool, "oof", 0)[2] == 0.75f);
    cst_pool_free(f->context, pool);
    put_text(f, "b.csv", ",p0,p1\n1,0.5,0.5\n0,0.75,0.25\n");
    expect_ok(f, cst_pool_open_files(f->context, &pool, both + 1, 1, &config));
    expect_error(f, cst_pool_load(f->context, pool, "oof"), CST_ERROR_MISMATCH, "b.csv", NULL);
    cst_pool_free(f->context, pool);
}

/* Where classes are called by other numbers than their own, the reading of labels is said. */
static void numeric_class_names_are_pointed_out(void **state) {
    fixture *f = *state;
    cst_pool *pool = NULL;
    put_text(f, "pool.json",
             "{\"corestack_pool\": 1, \"classes\": [\"1\", \"2\", \"3\"], \"splits\": {\"oof\": "
             "{\"labels\": \"y.npy\"}}, \"models\": [{\"name\": \"a\", \"predictions\": {\"oof\": "
             "\"a.npy\"}}]}");
    put_i32(f, "y.npy", labels, ROWS);
    put_member(f, "a.npy", 1);
    expect_ok(f, cst_pool_open(f->context, &pool, f->folder, NULL));
    expect_ok(f, cst_pool_load(f->context, pool, "oof"));
    assert_int_equal(cst_notice_count(f->context), 1);
    assert_non_null(strstr(cst_notice_at(f->context, 0), "class 0 is called '1'"));
    assert_memory_equal(cst_pool_labels(pool, "oof"), labels, sizeof labels);
    cst_pool_free(f->context, pool);
}

/* ---- conversion ---- */

static void logits_go_through_a_softmax(void **state) {
    fixture *f = *state;
    cst_pool *pool = NULL;
    static const float logits[] = {1, 2, 4, -1000, 0, 3, 900, 900, -900};
    const float *members[] = {logits};
    const char *names[] = {"m"};
    expect_ok(f, cst_pool_from_memory(f->context, &pool, "oof", members, names, 1, 3, 3, NULL,
                                      CST_OUTPUT_LOGIT));
    const float *p = cst_pool_predictions(pool, "oof", 0);
    for (int i = 0; i < 3; i++) {
        long double sum = 0;
        for (int j = 0; j < 3; j++)
            sum += expl((long double)logits[3 * i + j] - (long double)logits[3 * i + 2 - i % 2]);
        for (int j = 0; i < 2 && j < 3; j++) {
            long double expected =
                expl((long double)logits[3 * i + j] - (long double)logits[3 * i + 2 - i % 2]) / sum;
            assert_true(fabs((double)p[3 * i + j] - (double)expected) <= 1e-7 * (double)expected);
        }
    }
    assert_true(p[6] == 0.5f && p[7] == 0.5f && p[8] == 0);
    assert_null(cst_pool_labels(pool, "oof"));
    cst_pool_free(f->context, pool);
}

static void probabilities_are_divided_by_their_sum(void **state) {
    fixture *f = *state;
    cst_pool *pool = NULL;
    static const float rows[] = {0.3f, 0.3f, 0.4005f, -1e-7f, 0.5f, 0.5f};
    static const int32_t given[] = {2, 0};
    const float *members[] = {rows};
    const char *names[] = {"m"};
    expect_ok(f, cst_pool_from_memory(f->context, &pool, "oof", members, names, 1, 2, 3, given,
                                      CST_OUTPUT_PROBABILITY));
    const float *p = cst_pool_predictions(pool, "oof", 0);
    double sum = (double)rows[0] + (double)rows[1] + (double)rows[2];
    for (int j = 0; j < 3; j++)
        assert_true(p[j] == (float)((double)rows[j] / sum));
    assert_true(p[3] == 0 && p[4] == 0.5f && p[5] == 0.5f);
    cst_pool_free(f->context, pool);
}

static void one_column_is_class_one_of_two(void **state) {
    fixture *f = *state;
    cst_pool *pool = NULL;
    static const float p[] = {0.25f, 1, 0};
    static const float z[] = {0, 3, -800};
    cst_pool_config config = {0};
    char path[256];
    const char *paths[] = {path};
    for (int columns = 0; columns < 2; columns++) {
        const char *dict = columns ? "{'descr': '<f4', 'fortran_order': False, 'shape': (3, 1)}"
                                   : "{'descr': '<f4', 'fortran_order': False, 'shape': (3,)}";
        put_npy(f, "p.npy", dict, p, sizeof p);
        put_npy(f, "z.npy", dict, z, sizeof z);
        config.output_given = 0;
        (void)strcpy(path, at(f, "p.npy"));
        expect_ok(f, cst_pool_open_files(f->context, &pool, paths, 1, &config));
        assert_int_equal(cst_pool_classes(pool), 2);
        expect_ok(f, cst_pool_load(f->context, pool, "oof"));
        static const float two[] = {0.75f, 0.25f, 0, 1, 1, 0};
        assert_memory_equal(cst_pool_predictions(pool, "oof", 0), two, sizeof two);
        cst_pool_free(f->context, pool);
        config.output_given = 1;
        config.output = CST_OUTPUT_LOGIT;
        (void)strcpy(path, at(f, "z.npy"));
        expect_ok(f, cst_pool_open_files(f->context, &pool, paths, 1, &config));
        expect_ok(f, cst_pool_load(f->context, pool, "oof"));
        const float *q = cst_pool_predictions(pool, "oof", 0);
        assert_true(q[0] == 0.5f && q[1] == 0.5f);
        assert_true(q[3] == (float)(1 / (1 + exp(-3))) && q[2] == (float)(1 / (1 + exp(3))));
        assert_true(q[4] == 1 && q[5] == 0);
        cst_pool_free(f->context, pool);
    }
}

/* ---- conditions ---- */

static void splits_with_conditions(void **state) {
    fixture *f = *state;
    cst_pool *pool = NULL;
    float values[2 * ROWS * CLASSES];
    float ood[CLASSES * 2];
    fill(values, 1, ROWS);
    fill(values + ROWS * CLASSES, 2, ROWS);
    fill(ood, 5, 2);
    put_npy(f, "c.npy", "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 6, 3)}", values,
            sizeof values);
    put_f32(f, "o.npy", ood, 2, CLASSES);
    put_i32(f, "y.npy", labels, ROWS);
    put_text(
        f, "pool.json",
        "{\"corestack_pool\": 1, \"splits\": {\"bad\": {\"labels\": \"y.npy\", \"conditions\": "
        "[{\"shift\": \"noise\", \"kind\": \"shot\", \"severity\": 1}, {\"shift\": \"blur\"}]}, "
        "\"svhn\": {\"ood\": true}}, \"models\": [{\"name\": \"m\", \"predictions\": {\"bad\": "
        "\"c.npy\", \"svhn\": \"o.npy\"}}]}");
    expect_ok(f, cst_pool_open(f->context, &pool, f->folder, NULL));
    assert_int_equal(cst_pool_classes(pool), 3);
    assert_int_equal(cst_pool_conditions(pool, "bad"), 2);
    assert_int_equal(cst_pool_conditions(pool, "svhn"), 0);
    assert_string_equal(cst_pool_condition_shift(pool, "bad", 1), "blur");
    assert_string_equal(cst_pool_condition_kind(pool, "bad", 0), "shot");
    assert_true(cst_pool_condition_severity(pool, "bad", 0) == 1);
    assert_null(cst_pool_condition_kind(pool, "bad", 1));
    assert_null(cst_pool_condition_kind(pool, "bad", 2));
    assert_true(cst_pool_is_ood(pool, "svhn") && !cst_pool_is_ood(pool, "bad"));
    expect_ok(f, cst_pool_load(f->context, pool, "bad"));
    expect_ok(f, cst_pool_load(f->context, pool, "svhn"));
    assert_int_equal(cst_pool_rows(pool, "bad"), ROWS);
    assert_int_equal(cst_pool_rows(pool, "svhn"), 2);
    assert_null(cst_pool_labels(pool, "svhn"));
    const float *p = cst_pool_predictions(pool, "bad", 0);
    for (int i = 0; i < 2 * ROWS * CLASSES; i++)
        assert_true(fabs((double)p[i] - (double)values[i]) < 1e-7);
    cst_view view;
    expect_ok(f, cst_pool_view(f->context, pool, "bad", &view));
    assert_int_equal(view.rows, 2 * ROWS);
    for (int i = 0; i < 2 * ROWS; i++)
        assert_int_equal(cst_view_label(&view, i), labels[i % ROWS]);
    cst_pool_free(f->context, pool);
}

/* The join permutes the rows of every condition, in a Fortran-order file as well. */
static void conditions_are_joined_too(void **state) {
    fixture *f = *state;
    cst_pool *pool = NULL;
    float values[2 * ROWS * CLASSES];
    float fortran[2 * ROWS * CLASSES];
    static const int32_t ids[ROWS] = {0, 1, 2, 3, 4, 5};
    static const int32_t mixed[ROWS] = {4, 2, 0, 5, 1, 3};
    fill(values, 1, ROWS);
    fill(values + ROWS * CLASSES, 2, ROWS);
    for (int c = 0; c < 2; c++)
        for (int i = 0; i < ROWS; i++)
            for (int j = 0; j < CLASSES; j++)
                fortran[c + 2 * (i + ROWS * j)] = values[(c * ROWS + mixed[i]) * CLASSES + j];
    put_npy(f, "c.npy", "{'descr': '<f4', 'fortran_order': True, 'shape': (2, 6, 3)}", fortran,
            sizeof fortran);
    put_i32(f, "i.npy", ids, ROWS);
    put_i32(f, "m.npy", mixed, ROWS);
    put_text(f, "pool.json",
             "{\"corestack_pool\": 1, \"splits\": {\"bad\": {\"ids\": \"i.npy\", \"conditions\": "
             "[{}, {}]}}, \"models\": [{\"name\": \"m\", \"predictions\": {\"bad\": {\"path\": "
             "\"c.npy\", \"ids\": \"m.npy\"}}}]}");
    expect_ok(f, cst_pool_open(f->context, &pool, f->folder, NULL));
    expect_ok(f, cst_pool_load(f->context, pool, "bad"));
    const float *p = cst_pool_predictions(pool, "bad", 0);
    for (int i = 0; i < 2 * ROWS * CLASSES; i++)
        assert_true(fabs((double)p[i] - (double)values[i]) < 1e-7);
    cst_pool_free(f->context, pool);
}

/* ---- folders and lists ---- */

static void folders_by_naming_convention(void **state) {
    fixture *f = *state;
    cst_pool *pool = NULL;
    put_member(f, "oof_zebra.npy", 3);
    put_member(f, "test_zebra.npy", 4);
    put_member(f, "ant.oof.npy", 1);
    put_member(f, "ant.test.npy", 2);
    put_member(f, "stray.npy", 2);
    put_i32(f, "labels.npy", labels, ROWS);
    put_i32(f, "y_test.npy", labels, ROWS);
    put_text(f, "oof_folds.csv", "0\n1\n0\n1\n0\n1\n");
    put_text(f, "weight.oof.csv", "1\n2\n3\n4\n5\n6\n");
    put_text(f, "notes.txt", "not a prediction");
    expect_ok(f, cst_pool_open(f->context, &pool, f->folder, NULL));
    assert_int_equal(cst_pool_members(pool), 2);
    assert_string_equal(cst_pool_member_name(pool, 0), "ant");
    assert_string_equal(cst_pool_member_name(pool, 1), "zebra");
    assert_int_equal(cst_pool_splits(pool), 2);
    assert_string_equal(cst_pool_split_name(pool, 0), "oof");
    expect_ok(f, cst_pool_load(f->context, pool, "oof"));
    expect_ok(f, cst_pool_load(f->context, pool, "test"));
    expect_member(pool, "oof", 0, 1);
    expect_member(pool, "oof", 1, 3);
    expect_member(pool, "test", 0, 2);
    expect_member(pool, "test", 1, 4);
    assert_memory_equal(cst_pool_labels(pool, "oof"), labels, sizeof labels);
    assert_memory_equal(cst_pool_labels(pool, "test"), labels, sizeof labels);
    assert_int_equal(cst_pool_folds(pool, "oof")[1], 1);
    assert_null(cst_pool_folds(pool, "test"));
    assert_true(cst_pool_weights(pool, "oof")[5] == 6);
    assert_int_equal(cst_notice_count(f->context), 1);
    assert_non_null(strstr(cst_notice_at(f->context, 0), "stray.npy"));
    static const char *const taken[] = {"new.oof.npy",        "test_new.csv", "oof.new.npz",
                                        "groups.npy",         "weights.csv",  "y.test.tsv",
                                        "ant_oof.safetensors"};
    static const char *const left[] = {"new.npy",   "oof_.npy", ".oof_new.npy", "oof_new.txt",
                                       "pool.json", "oof_new",  ".npy",         ""};
    for (size_t i = 0; i < sizeof taken / sizeof taken[0]; i++)
        assert_int_equal(cst_pool_takes_name(pool, taken[i]), 1);
    for (size_t i = 0; i < sizeof left / sizeof left[0]; i++)
        assert_int_equal(cst_pool_takes_name(pool, left[i]), 0);
    cst_pool_free(f->context, pool);
}

static void folders_without_marks(void **state) {
    fixture *f = *state;
    cst_pool *pool = NULL;
    put_member(f, "b.npy", 2);
    put_member(f, "a.npy", 1);
    put_i32(f, "y.npy", labels, ROWS);
    expect_ok(f, cst_pool_open(f->context, &pool, f->folder, NULL));
    assert_int_equal(cst_pool_members(pool), 2);
    assert_int_equal(cst_pool_splits(pool), 1);
    expect_ok(f, cst_pool_load(f->context, pool, "oof"));
    expect_member(pool, "oof", 1, 2);
    assert_non_null(cst_pool_labels(pool, "oof"));
    assert_int_equal(cst_pool_takes_name(pool, "new.npy"), 1);
    assert_int_equal(cst_pool_takes_name(pool, "new.test.npy"), 1);
    assert_int_equal(cst_pool_takes_name(pool, "groups.oof.npy"), 1);
    assert_int_equal(cst_pool_takes_name(pool, "groups.test.npy"), 0);
    assert_int_equal(cst_pool_takes_name(pool, "new.txt"), 0);
    cst_pool_free(f->context, pool);
}

static void lists_of_files_keep_their_order(void **state) {
    fixture *f = *state;
    cst_pool *pool = NULL;
    char paths[3][256];
    put_member(f, "oof_b.npy", 2);
    put_member(f, "a.npy", 1);
    put_i32(f, "y.npy", labels, ROWS);
    const char *list[] = {strcpy(paths[0], at(f, "oof_b.npy")), strcpy(paths[1], at(f, "a.npy"))};
    cst_pool_config config = {.labels = strcpy(paths[2], at(f, "y.npy"))};
    expect_ok(f, cst_pool_open_files(f->context, &pool, list, 2, &config));
    assert_string_equal(cst_pool_member_name(pool, 0), "b");
    assert_string_equal(cst_pool_member_name(pool, 1), "a");
    expect_ok(f, cst_pool_load(f->context, pool, "oof"));
    expect_member(pool, "oof", 0, 2);
    expect_member(pool, "oof", 1, 1);
    assert_int_equal(cst_pool_takes_name(pool, "oof_b.npy"), 0);
    cst_pool_free(f->context, pool);
    const char *archive[] = {CST_TEST_DATA "/io/deflated.npz#first"};
    config = (cst_pool_config){.output_given = 1, .output = CST_OUTPUT_LOGIT};
    expect_ok(f, cst_pool_open_files(f->context, &pool, archive, 1, &config));
    assert_string_equal(cst_pool_member_name(pool, 0), "first");
    expect_ok(f, cst_pool_load(f->context, pool, "oof"));
    assert_int_equal(cst_pool_rows(pool, "oof"), 3);
    cst_pool_free(f->context, pool);
}

/* ---- threads ---- */

/* Many blocks of several members: the same bytes with one thread and with four, and right. */
static void bytes_do_not_depend_on_threads(void **state) {
    fixture *f = *state;
    enum { MEMBERS = 5, MANY = 30000, WIDE = 7 };
    static float values[MANY * WIDE];
    static float first[MANY * WIDE];
    char paths[MEMBERS][256];
    const char *list[MEMBERS];
    cst_rng rng;
    cst_rng_init(&rng, 1, CST_STREAM_TEST, 0);
    cst_pool_config config = {.output_given = 1, .output = CST_OUTPUT_LOGIT};
    for (int k = 0; k < MEMBERS; k++) {
        char name[32];
        (void)snprintf(name, sizeof name, "m%d.npy", k);
        for (int i = 0; i < MANY * WIDE; i++)
            values[i] = (float)(3 * cst_rng_normal(&rng));
        put_f32(f, name, values, MANY, WIDE);
        list[k] = strcpy(paths[k], at(f, name));
    }
    for (int threads = 1; threads <= 4; threads += 3) {
        cst_pool *pool = NULL;
        expect_ok(f, cst_context_set_threads(f->context, threads));
        expect_ok(f, cst_pool_open_files(f->context, &pool, list, MEMBERS, &config));
        expect_ok(f, cst_pool_load(f->context, pool, "oof"));
        const float *p = cst_pool_predictions(pool, "oof", MEMBERS - 1);
        if (threads == 1)
            memcpy(first, p, sizeof first);
        assert_memory_equal(first, p, sizeof first);
        for (int i = 0; i < MANY; i++) {
            double sum = 0;
            for (int j = 0; j < WIDE; j++)
                sum += exp((double)values[i * WIDE + j]);
            for (int j = 0; j < WIDE; j++) {
                double expected = exp((double)values[i * WIDE + j]) / sum;
                assert_true(fabs((double)p[i * WIDE + j] - expected) <= 1e-7 * expected);
            }
        }
        cst_pool_free(f->context, pool);
    }
}

static int stop(void *user, const char *stage, int64_t done, int64_t total) {
    (void)done;
    (void)total;
    *(const char **)user = stage;
    return 1;
}

static void loading_can_be_stopped(void **state) {
    fixture *f = *state;
    cst_pool *pool = NULL;
    const char *stage = NULL;
    put_pool(f, "");
    expect_ok(f, cst_pool_open(f->context, &pool, f->folder, NULL));
    cst_context_set_progress(f->context, stop, &stage);
    expect_error(f, cst_pool_load(f->context, pool, "oof"), CST_ERROR_CANCELLED, "read", NULL);
    assert_string_equal(stage, "read");
    assert_int_equal(cst_pool_rows(pool, "oof"), -1);
    cst_context_set_progress(f->context, NULL, NULL);
    expect_ok(f, cst_pool_load(f->context, pool, "oof"));
    expect_member(pool, "oof", 0, 1);
    cst_pool_free(f->context, pool);
}

/* ---- memory that runs out ---- */

typedef struct scarce {
    int64_t left; /* allocations until one fails */
    int64_t live; /* blocks that are allocated */
} scarce;

static void *scarce_realloc(void *user, void *pointer, size_t bytes) {
    scarce *s = user;
    if (bytes == 0) {
        s->live -= pointer != NULL;
        free(pointer);
        return NULL;
    }
    if (!pointer && s->left-- <= 0)
        return NULL;
    s->live += pointer == NULL;
    return realloc(pointer, bytes);
}

/* The 1st, 2nd, ... allocation fails until all succeed: an error each time, and nothing leaks. */
static void every_allocation_may_fail(void **state) {
    fixture *f = *state;
    int failures = 0;
    put_pool(f, ", \"ids\": \"i.csv\", \"groups\": \"g.csv\"");
    put_text(f, "i.csv", "id\na\nb\nc\nd\ne\nf\n");
    put_text(f, "g.csv", "id,group\nf,x\ne,x\nd,y\nc,y\nb,z\na,z\n");
    for (bool done = false; !done; failures++) {
        scarce s = {.left = failures};
        cst_context *context = NULL;
        cst_pool *pool = NULL;
        cst_status status = cst_context_create_with(&context, scarce_realloc, &s);
        if (status == CST_OK)
            status = cst_context_set_threads(context, 1);
        if (status == CST_OK)
            status = cst_pool_open(context, &pool, at(f, "pool.json"), NULL);
        assert_int_equal(status == CST_OK, pool != NULL);
        if (status == CST_OK)
            status = cst_pool_load(context, pool, "oof");
        done = status == CST_OK;
        if (!done)
            assert_int_equal(status, CST_ERROR_MEMORY);
        cst_pool_free(context, pool);
        cst_context_free(context);
        assert_int_equal(s.live, 0);
        assert_true(failures < 10000);
    }
    assert_true(failures > 100);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, files_setup, files_teardown)

int suite_pool(void) {
    const struct CMUnitTest tests[] = {
        TEST(a_manifest_pool),
        TEST(only_the_members_asked_for_are_read),
        TEST(rows_are_joined_by_id),
        TEST(the_order_is_that_of_the_labels),
        TEST(numeric_class_names_are_pointed_out),
        TEST(logits_go_through_a_softmax),
        TEST(probabilities_are_divided_by_their_sum),
        TEST(one_column_is_class_one_of_two),
        TEST(splits_with_conditions),
        TEST(conditions_are_joined_too),
        TEST(folders_by_naming_convention),
        TEST(folders_without_marks),
        TEST(lists_of_files_keep_their_order),
        TEST(bytes_do_not_depend_on_threads),
        TEST(loading_can_be_stopped),
        TEST(every_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
