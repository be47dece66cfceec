/*
 * Pools that are not usable: each problem ends in one line that names the file, the place and what
 * to do. docs/method.md#s0-rows-folds-ids.
 */
#include "io_files.h"

#include "data/pool/pool.h"

#include <math.h>

enum { ROWS = 4, CLASSES = 3 };

static const float good[ROWS * CLASSES] = {0.5f, 0.25f, 0.25f, 0.125f, 0.5f,  0.375f,
                                           1,    0,     0,     0.25f,  0.25f, 0.5f};

/* A pool of members a and b with labels; `split` and `a` are JSON put into their places. */
static void put_pool(fixture *f, const char *head, const char *split, const char *a) {
    static const int32_t labels[ROWS] = {0, 1, 2, 0};
    char text[2048];
    (void)snprintf(
        text, sizeof text,
        "{\"corestack_pool\": 1, %s \"splits\": {\"oof\": {\"labels\": \"y.npy\"%s}}, "
        "\"models\": [{\"name\": \"a\", \"predictions\": {\"oof\": %s}}, {\"name\": \"b\", "
        "\"predictions\": {\"oof\": \"b.npy\"}}]}",
        head, split, a);
    put_text(f, "pool.json", text);
    put_i32(f, "y.npy", labels, ROWS);
    put_f32(f, "a.npy", good, ROWS, CLASSES);
    put_f32(f, "b.npy", good, ROWS, CLASSES);
}

/* Opens and loads the pool in the folder; nothing of it may stay loaded after a failure. */
static cst_status load(fixture *f) {
    cst_pool *pool = NULL;
    cst_status status = cst_pool_open(f->context, &pool, at(f, "pool.json"), NULL);
    if (status == CST_OK) {
        status = cst_pool_load(f->context, pool, "oof");
        if (status != CST_OK) {
            assert_int_equal(cst_pool_rows(pool, "oof"), -1);
            assert_null(cst_pool_predictions(pool, "oof", 0));
            assert_null(cst_pool_predictions(pool, "oof", 1));
            assert_null(cst_pool_labels(pool, "oof"));
        }
    }
    cst_pool_free(f->context, pool);
    return status;
}

static void shapes_that_do_not_go_together(void **state) {
    fixture *f = *state;
    put_pool(f, "\"classes\": 3,", "", "\"a.npy\"");
    expect_ok(f, load(f));
    put_f32(f, "b.npy", good, 3, 3);
    expect_error(f, load(f), CST_ERROR_MISMATCH, "b.npy", "(3, 3)", "a.npy", "(4, 3)", NULL);
    put_f32(f, "b.npy", good, 4, 2);
    expect_error(f, load(f), CST_ERROR_MISMATCH, "b.npy", "(4, 2)", "a.npy", "(4, 3)", NULL);
    put_f32(f, "a.npy", good, 3, 3);
    expect_error(f, load(f), CST_ERROR_MISMATCH, "a.npy", "(3, 3)", "y.npy", "4", NULL);
    /* a table, whose rows are counted when it is read, is not compared with itself */
    put_pool(f, "\"classes\": 3,", "", "\"a.csv\"");
    put_text(f, "a.csv", "0.5,0.25,0.25\n0.5,0.25,0.25\n0.5,0.25,0.25\n");
    expect_error(f, load(f), CST_ERROR_MISMATCH, "a.csv: shape (", ") has 3 rows, but ",
                 "y.npy has 4", NULL);
    put_f32(f, "b.npy", good, 2, 3);
    expect_error(f, load(f), CST_ERROR_MISMATCH, "b.npy: shape (2, 3) has 2 rows, but ",
                 "y.npy has 4", NULL);
    put_pool(f, "\"classes\": 3,", "", "\"a.npy\"");
    put_f32(f, "a.npy", good, 4, 2);
    expect_error(f, load(f), CST_ERROR_MISMATCH, "a.npy", "(4, 2)", "2 classes", "3 classes", NULL);
    put_npy(f, "a.npy", "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 2, 3)}", good,
            sizeof good);
    expect_error(f, load(f), CST_ERROR_INPUT, "a.npy", "(2, 2, 3)", "[rows, classes]", NULL);
    put_f32(f, "a.npy", good, 0, 3);
    expect_error(f, load(f), CST_ERROR_MISMATCH, "a.npy", "(0, 3)", NULL);
    put_pool(f, "", "", "\"a.npy\"");
    put_f32(f, "a.npy", good, 4, 0);
    expect_error(f, load(f), CST_ERROR_INPUT, "a.npy", "(4, 0)", "at least 2 classes", NULL);
    put_i32(f, "y.npy", NULL, 0);
    put_f32(f, "a.npy", good, 4, 3);
    expect_error(f, load(f), CST_ERROR_INPUT, "y.npy", "no rows", NULL);
}

static void shapes_with_conditions(void **state) {
    fixture *f = *state;
    put_pool(f, "\"classes\": 3,", ", \"conditions\": [{}, {}]", "\"a.npy\"");
    expect_error(f, load(f), CST_ERROR_MISMATCH, "a.npy", "(4, 3)", "'oof'", "2 conditions", NULL);
    put_npy(f, "a.npy", "{'descr': '<f4', 'fortran_order': False, 'shape': (3, 1, 3)}", good, 36);
    expect_error(f, load(f), CST_ERROR_MISMATCH, "a.npy", "(3, 1, 3)", "2 conditions", NULL);
    put_npy(f, "a.npy", "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 2, 3)}", good, 48);
    expect_error(f, load(f), CST_ERROR_MISMATCH, "a.npy", "(2, 2, 3)", "y.npy", NULL);
    put_pool(f, "\"classes\": 3,", ", \"conditions\": [{}, {}]", "\"a.csv\"");
    put_text(f, "a.csv", "0.5,0.25,0.25\n0.5,0.25,0.25\n");
    expect_error(f, load(f), CST_ERROR_INPUT, "a.csv", "table", "conditions", NULL);
}

static void labels_out_of_range(void **state) {
    fixture *f = *state;
    int32_t labels[ROWS] = {0, 1, 7, 0};
    put_pool(f, "\"classes\": 3,", "", "\"a.npy\"");
    put_i32(f, "y.npy", labels, ROWS);
    expect_error(f, load(f), CST_ERROR_INPUT, "y.npy", "row 2", "label 7", "0 to 2", NULL);
    labels[2] = -1;
    put_i32(f, "y.npy", labels, ROWS);
    expect_error(f, load(f), CST_ERROR_INPUT, "y.npy", "row 2", "label -1", NULL);
    static const int32_t from_one[ROWS] = {1, 3, 2, 1};
    put_i32(f, "y.npy", from_one, ROWS);
    expect_error(f, load(f), CST_ERROR_INPUT, "y.npy", "row 1", "label 3", "start at 1", NULL);
    static const double fractions[ROWS] = {0, 1, 0.5, 2};
    put_npy(f, "y.npy", "{'descr': '<f8', 'fortran_order': False, 'shape': (4,)}", fractions,
            sizeof fractions);
    expect_error(f, load(f), CST_ERROR_INPUT, "y.npy", "row 2", "0.5", "not an integer", NULL);
}

static void label_names(void **state) {
    fixture *f = *state;
    static const char names[] = "cat\0dog\0birdcow";
    put_pool(f, "\"classes\": [\"cat\", \"dog\", \"bird\"],", "", "\"a.npy\"");
    put_npy(f, "y.npy", "{'descr': '|S4', 'fortran_order': False, 'shape': (4,)}", names, 16);
    expect_error(f, load(f), CST_ERROR_INPUT, "y.npy", "row 3", "'cow'", "class name", "pool.json",
                 NULL);
    put_npy(f, "y.npy", "{'descr': '|S4', 'fortran_order': False, 'shape': (4,)}",
            "cat\0dog\0birddog", 16);
    expect_ok(f, load(f));
    put_pool(f, "\"classes\": 3,", "", "\"a.npy\"");
    put_npy(f, "y.npy", "{'descr': '|S4', 'fortran_order': False, 'shape': (4,)}", names, 16);
    expect_error(f, load(f), CST_ERROR_INPUT, "y.npy", "bird, cat, cow, dog", "3 classes",
                 "--class-names", NULL);
}

static void values_that_are_not_finite(void **state) {
    fixture *f = *state;
    static const struct {
        float value;
        const char *text;
    } cases[] = {{NAN, "NaN"}, {INFINITY, "is infinity"}, {-INFINITY, "-infinity"}};
    static const char *const heads[] = {"\"classes\": 3,",
                                        "\"classes\": 3, \"output\": \"logit\","};
    for (int h = 0; h < 2; h++)
        for (int k = 0; k < 3 - h; k++) { /* -infinity is a logit */
            float bad[ROWS * CLASSES];
            memcpy(bad, good, sizeof bad);
            bad[2] = h ? -4 : 0.25f;
            bad[7] = cases[k].value;
            put_pool(f, heads[h], "", "\"a.npy\"");
            put_f32(f, "b.npy", bad, ROWS, CLASSES);
            if (h) { /* a alone would look like probabilities */
                bad[7] = 5;
                put_f32(f, "a.npy", bad, ROWS, CLASSES);
            }
            expect_error(f, load(f), CST_ERROR_INPUT, "b.npy", "row 2, column 1", cases[k].text,
                         NULL);
        }
    put_pool(f, "\"classes\": 3,", "", "\"a.csv\"");
    put_text(f, "a.csv", "x,id,y,z\n1,0,0,0\n0,1,1,0\n0,2,nan,1\n0,3,0,1\n");
    expect_error(f, load(f), CST_ERROR_INPUT, "a.csv", "row 2 (line 4, column 3)", "NaN", NULL);
}

static void logits_declared_as_probabilities(void **state) {
    fixture *f = *state;
    float bad[ROWS * CLASSES];
    memcpy(bad, good, sizeof bad);
    bad[3] = 4;
    bad[4] = -1.5f;
    bad[5] = 0.75f;
    put_pool(f, "\"classes\": 3,", "", "\"a.npy\"");
    put_f32(f, "b.npy", bad, ROWS, CLASSES);
    expect_error(f, load(f), CST_ERROR_INPUT, "b.npy", "row 1", "sums to 3.25", "4 in column 0",
                 "if these are logits", "\"logit\"", NULL);
    memcpy(bad, good, sizeof bad);
    bad[3] = 0.25f;
    put_f32(f, "b.npy", bad, ROWS, CLASSES);
    expect_error(f, load(f), CST_ERROR_INPUT, "b.npy", "row 1", "sums to 1.125", "0.001", NULL);
    for (int i = 0; i < ROWS * CLASSES; i++)
        bad[i] = 100 * good[i];
    put_f32(f, "b.npy", bad, ROWS, CLASSES);
    expect_error(f, load(f), CST_ERROR_INPUT, "b.npy", "row 0", "percentages", "100", NULL);
    put_pool(f, "\"classes\": 2,", "", "\"a.npy\"");
    put_npy(f, "a.npy", "{'descr': '<f4', 'fortran_order': False, 'shape': (4,)}", bad, 16);
    put_npy(f, "b.npy", "{'descr': '<f4', 'fortran_order': False, 'shape': (4,)}", bad, 16);
    static const int32_t labels[ROWS] = {0, 1, 1, 0};
    put_i32(f, "y.npy", labels, ROWS);
    expect_error(f, load(f), CST_ERROR_INPUT, "a.npy", "row 0", "50", "percentages", NULL);
}

static void probabilities_declared_as_logits(void **state) {
    fixture *f = *state;
    float mixed[ROWS * CLASSES];
    memcpy(mixed, good, sizeof mixed);
    mixed[11] = 0.75f; /* one row that does not sum to 1 is enough to be logits */
    put_pool(f, "\"classes\": 3, \"output\": \"logit\",", "", "\"a.npy\"");
    put_f32(f, "a.npy", mixed, ROWS, CLASSES);
    expect_error(f, load(f), CST_ERROR_INPUT, "b.npy", "every row (0 to 3)",
                 "if these are probabilities", "\"probability\"", NULL);
    put_f32(f, "b.npy", mixed, ROWS, CLASSES);
    expect_ok(f, load(f));
}

static void ids_that_do_not_join(void **state) {
    fixture *f = *state;
    static const int32_t ids[ROWS] = {10, 20, 30, 40};
    static const struct {
        int32_t ids[5];
        int count;
        cst_status code;
        const char *what[3];
    } cases[] = {
        {{10, 20, 30}, 3, CST_ERROR_MISMATCH, {"id '40'", "missing", "row 3 of"}},
        {{10, 20, 20, 40}, 4, CST_ERROR_INPUT, {"id '20'", "twice", "rows 1 and 2"}},
        {{10, 20, 30, 40, 50}, 5, CST_ERROR_MISMATCH, {"id '50'", "extra", "row 4"}},
        {{10, 20, 31, 40}, 4, CST_ERROR_MISMATCH, {"id '31'", "extra", "row 2"}},
    };
    float five[5 * CLASSES] = {0};
    for (int i = 0; i < 5; i++)
        five[i * CLASSES] = 1;
    put_pool(f, "\"classes\": 3,", ", \"ids\": \"ids.npy\"",
             "{\"path\": \"a.npy\", \"ids\": \"a_ids.npy\"}");
    put_i32(f, "ids.npy", ids, ROWS);
    for (int k = 0; k < 4; k++) {
        put_i32(f, "a_ids.npy", cases[k].ids, cases[k].count);
        put_f32(f, "a.npy", five, cases[k].count, CLASSES);
        expect_error(f, load(f), cases[k].code, "a_ids.npy", cases[k].what[0], cases[k].what[1],
                     cases[k].what[2], NULL);
    }
    put_f32(f, "a.npy", five, 3, CLASSES);
    expect_error(f, load(f), CST_ERROR_MISMATCH, "a_ids.npy", "4 ids", "a.npy", "3 rows", NULL);
    put_i32(f, "a_ids.npy", ids, ROWS);
    put_f32(f, "a.npy", five, ROWS, CLASSES);
    expect_ok(f, load(f));
    put_i32(f, "ids.npy", cases[1].ids, ROWS);
    expect_error(f, load(f), CST_ERROR_INPUT, "/ids.npy", "id '20'", "rows 1 and 2", NULL);
    put_i32(f, "ids.npy", ids, 3);
    expect_error(f, load(f), CST_ERROR_MISMATCH, "y.npy", "4 rows", "ids.npy", "3", NULL);
    put_pool(f, "\"classes\": 3,", ", \"ids\": \"ids.csv\"", "\"a.csv\"");
    put_text(f, "ids.csv", "id\np\nq\nr\ns\n");
    put_text(f, "a.csv", "id,x,y,z\ns,1,0,0\nq,1,0,0\np,1,0,0\n");
    expect_error(f, load(f), CST_ERROR_MISMATCH, "a.csv", "'r'", "row 2 of", "ids.csv", "missing",
                 NULL);
}

static void columns_half_named_after_classes(void **state) {
    fixture *f = *state;
    put_pool(f, "\"classes\": [\"cat\", \"dog\", \"bird\"],", "", "\"a.csv\"");
    put_text(f, "a.csv", "cat,bird,dgo\n1,0,0\n1,0,0\n1,0,0\n1,0,0\n");
    expect_error(f, load(f), CST_ERROR_MISMATCH, "a.csv", "line 1", "'dgo'", "name all of them",
                 NULL);
    put_text(f, "a.csv", "p0,p1,p2\n1,0,0\n1,0,0\n1,0,0\n1,0,0\n");
    expect_ok(f, load(f));
}

static void folds_and_groups_of_the_wrong_kind(void **state) {
    fixture *f = *state;
    static const int32_t three[3] = {0, 1, 0};
    put_pool(f, "\"classes\": 3,", ", \"folds\": \"f.npy\"", "\"a.npy\"");
    put_i32(f, "f.npy", three, 3);
    expect_error(f, load(f), CST_ERROR_MISMATCH, "f.npy", "3 rows", "y.npy", "4", NULL);
    put_pool(f, "\"classes\": 3,", ", \"folds\": \"f.csv\"", "\"a.npy\"");
    put_text(f, "f.csv", "fold\n0\n1\nx\n1\n");
    expect_error(f, load(f), CST_ERROR_INPUT, "f.csv", "row 2", "'x'", "integers", NULL);
    static const int32_t negative[4] = {0, 1, -1, 1};
    put_pool(f, "\"classes\": 3,", ", \"folds\": \"f.npy\"", "\"a.npy\"");
    put_i32(f, "f.npy", negative, 4);
    expect_error(f, load(f), CST_ERROR_INPUT, "f.npy", "row 2", "fold -1", NULL);
    put_pool(f, "\"classes\": 3,", ", \"groups\": \"g.csv\"", "\"a.npy\"");
    put_text(f, "g.csv", "group\n0\n1\nx\n");
    expect_error(f, load(f), CST_ERROR_MISMATCH, "g.csv", "3 rows", "y.npy", "4", NULL);
}

static void broken_and_missing_files(void **state) {
    fixture *f = *state;
    put_pool(f, "\"classes\": 3,", "", "\"a.npy\"");
    put_text(f, "b.npy", "");
    expect_error(f, load(f), CST_ERROR_FORMAT, "b.npy", "empty", NULL);
    put_npy(f, "b.npy", "{'descr': '<f4', 'fortran_order': False, 'shape': (4, 3)}", good, 40);
    expect_error(f, load(f), CST_ERROR_FORMAT, "b.npy", "truncated", "48", "40", NULL);
    assert_int_equal(unlink(at(f, "b.npy")), 0);
    expect_error(f, load(f), CST_ERROR_IO, "b.npy", NULL);
    put_f32(f, "b.npy", good, ROWS, CLASSES);
    /* after opening, a file becomes a link out of the folder */
    cst_pool *pool = NULL;
    expect_ok(f, cst_pool_open(f->context, &pool, at(f, "pool.json"), NULL));
    assert_int_equal(unlink(at(f, "b.npy")), 0);
    assert_int_equal(symlink("/etc/passwd", at(f, "b.npy")), 0);
    expect_error(f, cst_pool_load(f->context, pool, "oof"), CST_ERROR_INPUT, "b.npy",
                 "is outside the folder", NULL);
    expect_error(f, cst_pool_load(f->context, pool, "tset"), CST_ERROR_ARGUMENT, "'tset'", NULL);
    cst_pool_free(f->context, pool);
    put_text(f, "pool.json",
             "{\"corestack_pool\": 1, \"classes\": 3, \"splits\": {\"oof\": {}, \"test\": {}}, "
             "\"models\": [{\"name\": \"m\", \"predictions\": {\"test\": \"a.npy\"}}]}");
    expect_error(f, load(f), CST_ERROR_INPUT, "pool.json", "'m'", "'oof'", NULL);
}

/* What lies in a folder without a manifest may not lead out of it either, whatever the link is
 * called; what the caller names may be anywhere. */
static void links_out_of_a_folder(void **state) {
    fixture *f = *state;
    cst_pool *pool = NULL;
    char elsewhere[256];
    char folder[256];
    assert_int_equal(mkdir(at(f, "elsewhere"), 0700), 0);
    assert_int_equal(mkdir(at(f, "preds"), 0700), 0);
    (void)strcpy(elsewhere, at(f, "elsewhere/b.npy"));
    (void)strcpy(folder, at(f, "preds"));
    put_f32(f, "preds/oof_a.npy", good, ROWS, CLASSES);
    put_f32(f, "elsewhere/b.npy", good, ROWS, CLASSES);
    put_text(f, "elsewhere/y.csv", "label\n0\n1\n2\n0\n");
    assert_int_equal(symlink(elsewhere, at(f, "preds/oof_b.npy")), 0);
    expect_error(f, cst_pool_open(f->context, &pool, folder, NULL), CST_ERROR_INPUT, "oof_b.npy",
                 "is outside the folder", elsewhere, NULL);
    cst_pool_config config = {.outside = 1};
    expect_ok(f, cst_pool_open(f->context, &pool, folder, &config));
    assert_int_equal(cst_pool_members(pool), 2);
    cst_pool_free(f->context, pool);
    /* inside, a link is a file like others */
    assert_int_equal(unlink(at(f, "preds/oof_b.npy")), 0);
    assert_int_equal(symlink("oof_a.npy", at(f, "preds/oof_b.npy")), 0);
    char labels[256];
    (void)strcpy(labels, at(f, "elsewhere/y.csv"));
    config = (cst_pool_config){.labels = labels};
    expect_ok(f, cst_pool_open(f->context, &pool, folder, &config));
    expect_ok(f, cst_pool_load(f->context, pool, "oof"));
    cst_pool_free(f->context, pool);
    /* a link that is put there between opening and reading */
    expect_ok(f, cst_pool_open(f->context, &pool, folder, &config));
    assert_int_equal(unlink(at(f, "preds/oof_b.npy")), 0);
    assert_int_equal(symlink(elsewhere, at(f, "preds/oof_b.npy")), 0);
    expect_error(f, cst_pool_load(f->context, pool, "oof"), CST_ERROR_INPUT, "oof_b.npy",
                 "is outside the folder", NULL);
    cst_pool_free(f->context, pool);
}

/* Nor may the manifest that is found in a folder; one that the caller names may be a link. */
static void a_manifest_that_leads_out(void **state) {
    fixture *f = *state;
    cst_pool *pool = NULL;
    char elsewhere[256];
    char folder[256];
    assert_int_equal(mkdir(at(f, "apart"), 0700), 0);
    assert_int_equal(mkdir(at(f, "found"), 0700), 0);
    (void)strcpy(elsewhere, at(f, "apart/secret"));
    (void)strcpy(folder, at(f, "found"));
    put_text(f, "apart/secret", "{\"password-of-the-cellar\": 1}");
    assert_int_equal(symlink(elsewhere, at(f, "found/pool.json")), 0);
    expect_error(f, cst_pool_open(f->context, &pool, folder, NULL), CST_ERROR_INPUT, "pool.json",
                 "is outside the folder", elsewhere, NULL);
    assert_null(strstr(cst_last_error(f->context), "cellar"));
    cst_pool_config config = {.outside = 1};
    expect_error(f, cst_pool_open(f->context, &pool, folder, &config), CST_ERROR_INPUT, "pool.json",
                 "cellar", NULL);
    expect_error(f, cst_pool_open(f->context, &pool, at(f, "found/pool.json"), NULL),
                 CST_ERROR_INPUT, "pool.json", "cellar", NULL);
    /* one that cannot be followed is not passed over for the files beside it */
    put_f32(f, "found/a.npy", good, ROWS, CLASSES);
    assert_int_equal(unlink(at(f, "found/pool.json")), 0);
    assert_int_equal(symlink("gone.json", at(f, "found/pool.json")), 0);
    expect_error(f, cst_pool_open(f->context, &pool, folder, NULL), CST_ERROR_IO,
                 "found/pool.json: cannot open the file", NULL);
    assert_int_equal(unlink(at(f, "found/pool.json")), 0);
    assert_int_equal(symlink("pool.json", at(f, "found/pool.json")), 0);
    expect_error(f, cst_pool_open(f->context, &pool, folder, NULL), CST_ERROR_IO,
                 "found/pool.json: not found", NULL);
    /* inside, a link is a file like others */
    assert_int_equal(unlink(at(f, "found/pool.json")), 0);
    assert_int_equal(symlink("mine.json", at(f, "found/pool.json")), 0);
    put_text(f, "found/mine.json", "{\"password-of-the-cellar\": 1}");
    expect_error(f, cst_pool_open(f->context, &pool, folder, NULL), CST_ERROR_INPUT, "pool.json",
                 "cellar", NULL);
}

/* Every place of a manifest that names a file, with every way out. */
static void no_key_of_a_manifest_leads_out(void **state) {
    fixture *f = *state;
    cst_pool *pool = NULL;
    static const char *const ways[] = {"../x.npy",
                                       "/etc/passwd",
                                       "up/x.npy",
                                       "deep/up/x.npy",
                                       "../x.npz#a",
                                       "up/x.npz:a",
                                       "file.npy",
                                       "../x.safetensors#a",
                                       "up/x.safetensors#a",
                                       "deep/../x.npy",
                                       "a.npz#../../up/x.npz:b"};
    static const struct {
        const char *head, *rest;
    } keys[] = {
        {"\"classes\": 3", "\"oof\": {\"labels\": \"%s\"}}"},
        {"\"classes\": 3", "\"oof\": {\"ids\": \"%s\"}}"},
        {"\"classes\": 3", "\"oof\": {\"folds\": \"%s\"}}"},
        {"\"classes\": 3", "\"oof\": {\"groups\": \"%s\"}}"},
        {"\"classes\": 3", "\"oof\": {\"weights\": \"%s\"}}"},
        {"\"task\": \"regression\", \"outputs\": 1", "\"oof\": {\"labels\": \"%s\"}}"},
        {"\"task\": \"regression\", \"outputs\": 1", "\"oof\": {\"targets\": \"%s\"}}"},
        {"\"task\": \"detection\", \"classes\": 1", "\"oof\": {\"annotations\": \"%s\"}}"},
        {"\"classes\": 3", "\"oof\": {}}, \"training_counts\": \"%s\""},
        {"\"classes\": 3",
         "\"oof\": {}}, \"models\": [{\"name\": \"m\", \"predictions\": {\"oof\": \"%s\"}}]"},
        {"\"classes\": 3", "\"oof\": {}}, \"models\": [{\"name\": \"m\", \"predictions\": "
                           "{\"oof\": {\"path\": \"%s\"}}}]"},
        {"\"classes\": 3", "\"oof\": {}}, \"models\": [{\"name\": \"m\", \"predictions\": "
                           "{\"oof\": {\"path\": \"a.npy\", \"ids\": \"%s\"}}}]"}};
    assert_int_equal(mkdir(at(f, "deep"), 0700), 0);
    assert_int_equal(symlink("/etc", at(f, "up")), 0);
    assert_int_equal(symlink("../up", at(f, "deep/up")), 0);
    assert_int_equal(symlink("/etc/passwd", at(f, "file.npy")), 0);
    for (size_t k = 0; k < sizeof keys / sizeof keys[0]; k++)
        for (size_t w = 0; w < sizeof ways / sizeof ways[0]; w++) {
            char inner[512];
            char text[1024];
            (void)snprintf(inner, sizeof inner, keys[k].rest, ways[w]);
            (void)snprintf(text, sizeof text, "{\"corestack_pool\": 1, %s, \"splits\": {%s%s}",
                           keys[k].head, inner,
                           strstr(inner, "models") ? ""
                                                   : ", \"models\": [{\"name\": \"m\", "
                                                     "\"predictions\": {\"oof\": \"a.npy\"}}]");
            put_text(f, "pool.json", text);
            expect_error(f, cst_pool_open(f->context, &pool, at(f, "pool.json"), NULL),
                         CST_ERROR_INPUT, "outside the", "folder", NULL);
            assert_null(pool);
        }
}

/* "x.npz#y" names an array, and may also be what a file or folder is called as a whole. */
static void no_name_of_an_array_leads_out(void **state) {
    static const char *const pools[] = {"\"task\": \"segmentation\", \"classes\": 2, \"splits\": "
                                        "{\"oof\": {\"labels\": \"%s\"}}",
                                        "\"task\": \"detection\", \"splits\": {\"oof\": "
                                        "{\"annotations\": \"%s\"}}"};
    static const char *const ways[] = {"m.npz#d", "m.npz#/../../"};
    fixture *f = *state;
    for (size_t i = 0; i < 4; i++) {
        char text[512];
        char splits[256];
        cst_pool *pool = NULL;
        (void)snprintf(splits, sizeof splits, pools[i % 2], ways[i / 2]);
        (void)snprintf(text, sizeof text,
                       "{\"corestack_pool\": 1, %s, \"models\": [{\"name\": \"m\", "
                       "\"predictions\": {\"oof\": \"a\"}}]}",
                       splits);
        put_text(f, "pool.json", text);
        expect_ok(f, cst_pool_open(f->context, &pool, at(f, "pool.json"), NULL));
        if (i < 2)
            assert_int_equal(symlink("/etc", at(f, "m.npz#d")), 0);
        else
            assert_int_equal(mkdir(at(f, "m.npz#"), 0700), 0);
        if (i % 2 == 0)
            expect_error(f, cst_pool_load(f->context, pool, "oof"), CST_ERROR_INPUT,
                         "is outside the folder", NULL);
        cst_pool_free(f->context, pool);
        expect_error(f, cst_pool_open(f->context, &pool, at(f, "pool.json"), NULL), CST_ERROR_INPUT,
                     "is outside the folder", NULL);
        assert_int_equal(remove(at(f, i < 2 ? "m.npz#d" : "m.npz#")), 0);
    }
}

/* What the caller says of the task goes for the manifest's keys too. */
static void keys_that_the_callers_task_lacks(void **state) {
    fixture *f = *state;
    cst_pool *pool = NULL;
    cst_pool_config config = {.task_given = 1, .task = CST_TASK_SEGMENTATION};
    put_pool(f, "\"classes\": 3,", ", \"conditions\": [{}, {}]", "\"a.npy\"");
    expect_error(f, cst_pool_open(f->context, &pool, at(f, "pool.json"), &config), CST_ERROR_INPUT,
                 "splits.oof.conditions is not supported in pools of task 'segmentation'", NULL);
    config.task = CST_TASK_REGRESSION;
    expect_error(f, cst_pool_open(f->context, &pool, at(f, "pool.json"), &config), CST_ERROR_INPUT,
                 "classes is not supported in pools of task 'regression'", NULL);
    assert_null(pool);
}

/* A file of one column holds the probability of class 1 of two, never of one class. */
static void one_class_is_none(void **state) {
    fixture *f = *state;
    cst_pool *pool = NULL;
    char path[256];
    const char *paths[] = {path};
    cst_pool_config config = {.classes = 1};
    put_f32(f, "a.npy", (const float[ROWS]){1, 1, 1, 1}, ROWS, 1);
    (void)strcpy(path, at(f, "a.npy"));
    expect_error(f, cst_pool_open_files(f->context, &pool, paths, 1, &config), CST_ERROR_ARGUMENT,
                 "1 class was requested, but a classification has at least 2", NULL);
    assert_null(pool);
}

/* Before anything is computed: a model file holds names as UTF-8. */
static void names_that_no_model_holds(void **state) {
    fixture *f = *state;
    cst_pool *pool = NULL;
    char path[256];
    const char *paths[] = {path};
    put_f32(f, "a\xff.npy", good, ROWS, CLASSES);
    (void)strcpy(path, at(f, "a\xff.npy"));
    expect_error(f, cst_pool_open(f->context, &pool, f->folder, NULL), CST_ERROR_INPUT,
                 "/a?.npy: members are named after their files", "not valid UTF-8", "rename", NULL);
    expect_error(f, cst_pool_open_files(f->context, &pool, paths, 1, NULL), CST_ERROR_INPUT,
                 "/a?.npy: members are named after their files", NULL);
    static const char *const classes[] = {"cat", "dog", "\xc3"};
    static const char *const names[] = {"a"};
    cst_array array = {.data = good, .row_step = 12, .column_step = 4};
    cst_pool_arrays arrays = {.members = 1,
                              .rows = ROWS,
                              .classes = CLASSES,
                              .predictions = &array,
                              .names = names,
                              .class_names = classes};
    expect_error(f, cst_pool_from_arrays(f->context, &pool, &arrays), CST_ERROR_INPUT,
                 "class_names[2]", "not valid UTF-8", NULL);
    assert_null(pool);
}

static void opening_what_is_no_pool(void **state) {
    fixture *f = *state;
    cst_pool *pool = NULL;
    cst_pool_config config = {.labels = "y.npy"};
    expect_error(f, cst_pool_open(f->context, &pool, at(f, "none"), NULL), CST_ERROR_IO, "none",
                 NULL);
    expect_error(f, cst_pool_open(f->context, &pool, f->folder, NULL), CST_ERROR_INPUT, f->folder,
                 "no pool.json", NULL);
    put_pool(f, "\"classes\": 3,", "", "\"a.npy\"");
    expect_error(f, cst_pool_open(f->context, &pool, f->folder, &config), CST_ERROR_ARGUMENT,
                 "pool.json", "labels", NULL);
    char first[256];
    char second[256];
    const char *paths[] = {strcpy(first, at(f, "a.npy")), strcpy(second, at(f, "oof_a.npy"))};
    expect_error(f, cst_pool_open(f->context, &pool, first, NULL), CST_ERROR_ARGUMENT, "a.npy",
                 "prediction file", NULL);
    put_f32(f, "oof_a.npy", good, ROWS, CLASSES);
    expect_error(f, cst_pool_open_files(f->context, &pool, paths, 2, NULL), CST_ERROR_INPUT, first,
                 second, "member 'a'", NULL);
    assert_int_equal(unlink(at(f, "pool.json")), 0);
    put_f32(f, "a.oof.npy", good, ROWS, CLASSES);
    expect_error(f, cst_pool_open(f->context, &pool, f->folder, NULL), CST_ERROR_INPUT, "a.oof.npy",
                 "oof_a.npy", NULL);
    assert_null(pool);
}

static void memory_that_is_not_usable(void **state) {
    fixture *f = *state;
    cst_pool *pool = NULL;
    float bad[ROWS * CLASSES];
    static const int32_t labels[ROWS] = {0, 1, 3, 0};
    const float *members[] = {good, bad};
    const char *names[] = {"a", "b"};
    const char *same[] = {"a", "a"};
    memcpy(bad, good, sizeof bad);
    bad[4] = NAN;
    expect_error(f,
                 cst_pool_from_memory(f->context, &pool, "oof", members, names, 2, ROWS, CLASSES,
                                      NULL, CST_OUTPUT_PROBABILITY),
                 CST_ERROR_INPUT, "b: row 1, column 1", "NaN", NULL);
    expect_error(f,
                 cst_pool_from_memory(f->context, &pool, "oof", members, names, 1, ROWS, CLASSES,
                                      labels, CST_OUTPUT_PROBABILITY),
                 CST_ERROR_INPUT, "row 2", "label 3", "0 to 2", NULL);
    expect_error(f,
                 cst_pool_from_memory(f->context, &pool, "oof", members, same, 2, ROWS, CLASSES,
                                      NULL, CST_OUTPUT_PROBABILITY),
                 CST_ERROR_ARGUMENT, "name 1", "'a'", NULL);
    expect_error(f,
                 cst_pool_from_memory(f->context, &pool, "oof", members, names, 1, ROWS, CLASSES,
                                      NULL, CST_OUTPUT_LOGIT),
                 CST_ERROR_INPUT, "a: ", "if these are probabilities", NULL);
    expect_error(f,
                 cst_pool_from_memory(f->context, &pool, "oof", members, names, 1, ROWS, 1, NULL,
                                      CST_OUTPUT_LOGIT),
                 CST_ERROR_ARGUMENT, "2 classes", NULL);
    expect_error(f,
                 cst_pool_from_memory(f->context, &pool, "oof", members, names, 1, 0, CLASSES, NULL,
                                      CST_OUTPUT_LOGIT),
                 CST_ERROR_ARGUMENT, "0 rows", NULL);
    assert_null(pool);
}

/* The error is that of the first bad member in pool order, whatever thread meets it first. */
static void the_first_bad_member_is_named(void **state) {
    fixture *f = *state;
    enum { MEMBERS = 12 };
    char paths[MEMBERS][256];
    const char *list[MEMBERS];
    float bad[ROWS * CLASSES];
    memcpy(bad, good, sizeof bad);
    bad[0] = NAN;
    for (int k = 0; k < MEMBERS; k++) {
        char name[32];
        (void)snprintf(name, sizeof name, "m%02d.npy", k);
        put_f32(f, name, k >= 3 ? bad : good, ROWS, CLASSES);
        list[k] = strcpy(paths[k], at(f, name));
    }
    for (int threads = 1; threads <= 4; threads++) {
        cst_pool *pool = NULL;
        expect_ok(f, cst_context_set_threads(f->context, threads));
        expect_ok(f, cst_pool_open_files(f->context, &pool, list, MEMBERS, NULL));
        expect_error(f, cst_pool_load(f->context, pool, "oof"), CST_ERROR_INPUT, "m03.npy",
                     "row 0, column 0", NULL);
        for (int k = 0; k < MEMBERS; k++)
            assert_null(cst_pool_predictions(pool, "oof", k));
        cst_pool_free(f->context, pool);
    }
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, files_setup, files_teardown)

int suite_errors(void) {
    const struct CMUnitTest tests[] = {
        TEST(shapes_that_do_not_go_together),
        TEST(shapes_with_conditions),
        TEST(labels_out_of_range),
        TEST(label_names),
        TEST(values_that_are_not_finite),
        TEST(logits_declared_as_probabilities),
        TEST(probabilities_declared_as_logits),
        TEST(ids_that_do_not_join),
        TEST(columns_half_named_after_classes),
        TEST(folds_and_groups_of_the_wrong_kind),
        TEST(broken_and_missing_files),
        TEST(opening_what_is_no_pool),
        TEST(links_out_of_a_folder),
        TEST(a_manifest_that_leads_out),
        TEST(no_key_of_a_manifest_leads_out),
        TEST(no_name_of_an_array_leads_out),
        TEST(keys_that_the_callers_task_lacks),
        TEST(one_class_is_none),
        TEST(names_that_no_model_holds),
        TEST(memory_that_is_not_usable),
        TEST(the_first_bad_member_is_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
