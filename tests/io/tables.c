/*
 * Tables: which column is the ids, the labels and the predictions, names of columns, and compressed
 * files.
 */
#include "io_files.h"

#include "data/files/bytes.h"
#include "data/readers/row_file.h"

#include <zlib.h>

/* ---- names ---- */

static void names_say_what_a_column_is(void **state) {
    (void)state;
    static const struct {
        const char *name;
        cst_column_hint hint;
    } cases[] = {
        {"id", CST_COLUMN_ID},
        {"ID", CST_COLUMN_ID},
        {"Row ID", CST_COLUMN_ID},
        {"sampleId", CST_COLUMN_ID},
        {"image-id", CST_COLUMN_ID},
        {"PassengerId", CST_COLUMN_ID_LIKELY},
        {"customer_id", CST_COLUMN_ID_LIKELY},
        {"userID", CST_COLUMN_ID_LIKELY},
        {"id_code", CST_COLUMN_ID_LIKELY},
        {"uuid", CST_COLUMN_ID_LIKELY},
        {"filename", CST_COLUMN_ID_TEXT},
        {"grid", CST_COLUMN_UNKNOWN},
        {"paid", CST_COLUMN_UNKNOWN},
        {"android", CST_COLUMN_UNKNOWN},
        {"covid", CST_COLUMN_UNKNOWN},
        {"", CST_COLUMN_INDEX},
        {"Unnamed: 0", CST_COLUMN_INDEX},
        {"y", CST_COLUMN_TRUTH},
        {"yTrue", CST_COLUMN_TRUTH},
        {"Ground Truth", CST_COLUMN_TRUTH},
        {"fold_id", CST_COLUMN_FOLD},
        {"group_id", CST_COLUMN_GROUP},
        {"sample_weight", CST_COLUMN_WEIGHT},
        {"y_pred", CST_COLUMN_PREDICTION},
        {"Prediction", CST_COLUMN_PREDICTION},
        {"a_name_that_is_much_longer_than_any_that_says_what_a_column_is_for_id",
         CST_COLUMN_UNKNOWN},
        {"--", CST_COLUMN_UNKNOWN},
    };
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++)
        if (cst_column_hint_of(cases[k].name) != cases[k].hint)
            fail_msg("%s: %d", cases[k].name, (int)cst_column_hint_of(cases[k].name));
}

static cst_strings *strings_of(fixture *f, const char *const *texts) {
    cst_strings *strings = NULL;
    expect_ok(f, cst_strings_take(f->context, &f->scope, &strings));
    for (; *texts; texts++)
        expect_ok(f, cst_strings_add(f->context, strings, *texts, strlen(*texts)));
    return strings;
}

typedef cst_status cut_fn(cst_context *context, cst_scope *scope, const cst_strings *names,
                          cst_strings **out);

static void expect_cut(fixture *f, cut_fn *cut, const char *const *names, const char *expected) {
    char list[CST_LISTED_CHARS];
    CST_SCOPE(scope);
    cst_strings *given = strings_of(f, names);
    cst_strings *found = NULL;
    expect_ok(f, cut(f->context, scope, given, &found));
    assert_string_equal(cst_column_list(found, list), expected);
}

static void names_of_classes(void **state) {
    fixture *f = *state;
    static const char *const plain[][4] = {{"p_cat", "p_dog", NULL},
                                           {"prob_class_cat", "prob_class_dog", NULL},
                                           {"cat_proba", "dog_proba", NULL},
                                           {"p_cat_score", "p_dog_score", NULL},
                                           {"class_0", "class_1", NULL},
                                           {"p0", "p1", NULL},
                                           {"V1", "V2", NULL},
                                           {"cat", "dog", NULL},
                                           {"p_cat", "dog", NULL},
                                           {"Iris-setosa", "Iris-virginica", NULL},
                                           {"p_", "p_a", NULL},
                                           {"price", "pride", NULL},
                                           {"p_cat", NULL},
                                           {NULL}};
    static const char *const results[] = {"cat, dog",   "cat, dog",
                                          "cat, dog",   "cat, dog",
                                          "0, 1",       "0, 1",
                                          "1, 2",       "cat, dog",
                                          "p_cat, dog", "Iris-setosa, Iris-virginica",
                                          "p_, p_a",    "price, pride",
                                          "cat",        ""};
    for (size_t k = 0; k < sizeof plain / sizeof *plain; k++)
        expect_cut(f, cst_column_plain_names, plain[k], results[k]);
    static const char *const bare[][4] = {{"resnet_cat", "resnet_dog", NULL},
                                          {"a.cat.p", "a.dog.p", NULL},
                                          {"cats", "cars", NULL},
                                          {"a_", "a_b", NULL},
                                          {"one", NULL},
                                          {NULL}};
    static const char *const ends[] = {"cat, dog", "cat, dog", "cats, cars", "a_, a_b", "one", ""};
    for (size_t k = 0; k < sizeof bare / sizeof *bare; k++)
        expect_cut(f, cst_column_bare_names, bare[k], ends[k]);
}

static void numbers_of_classes(void **state) {
    fixture *f = *state;
    static const struct {
        const char *names[4];
        int64_t first;
        bool numbers;
        int32_t place;
    } cases[] = {{{"2", "0", "1"}, 0, true, 2},      {{"1", "2", "3"}, 0, false, 0},
                 {{"3", "2", "1"}, 1, true, 2},      {{"0", "1", "1"}, 0, false, 0},
                 {{"0.0", "1.00", "2"}, 0, true, 0}, {{"0.5", "1", "2"}, 0, false, 0},
                 {{"0", "1", "x"}, 0, false, 0},     {{"0", "1", "99999999999"}, 0, false, 0},
                 {{"01", "00", "02"}, 0, true, 1},   {{"-0", "1", "2"}, 0, false, 0}};
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        int32_t places[3];
        cst_strings *names = strings_of(f, cases[k].names);
        assert_int_equal(cst_column_numbers(names, cases[k].first, places), cases[k].numbers);
        if (cases[k].numbers)
            assert_int_equal(places[0], cases[k].place);
    }
    cst_strings *many = NULL;
    static int32_t places[100];
    expect_ok(f, cst_strings_take(f->context, &f->scope, &many));
    for (int64_t i = 0; i < 100; i++)
        expect_ok(f, cst_strings_add_int(f->context, many, (i * 37) % 100));
    assert_true(cst_column_numbers(many, 0, places));
    assert_int_equal(places[3], 11);
}

/* ---- columns ---- */

static void expect_choice(fixture *f, const char *text, const cst_table_ask *ask, int32_t ids,
                          int32_t first, int32_t width, const char *said) {
    CST_SCOPE(scope);
    cst_table *table = NULL;
    put_text(f, "t.csv", text);
    expect_ok(f, cst_table_open(f->context, scope, &table,
                                &(cst_row_source){.path = at(f, "t.csv")}, ask));
    if (table->id_column != ids || table->width != width || table->values[0] != first)
        fail_msg("%s: ids %d, first value %d of %d", text, table->id_column, table->values[0],
                 table->width);
    if (!said)
        assert_null(table->said);
    else if (!table->said || !strstr(table->said, said))
        fail_msg("%s: '%s' is not in '%s'", text, said, table->said ? table->said : "");
}

static void columns_of_predictions(void **state) {
    fixture *f = *state;
    CST_SCOPE(scope);
    static const cst_table_ask classes = {.use = CST_TABLE_PREDICTIONS};
    static const cst_table_ask value = {.use = CST_TABLE_PREDICTIONS, .one = true};
    expect_choice(f, "id,a,b\n1,.5,.5\n2,.5,.5\n3,0,1\n", &classes, 0, 1, 2, NULL);
    expect_choice(f, "customer_id,a,b\n1,.5,.5\n2,.5,.5\n", &classes, 0, 1, 2,
                  "holds the sample ids");
    expect_choice(f, "a,b,store_id\n.5,.5,7\n.5,.5,7\n", &classes, -1, 0, 3,
                  NULL); /* occurs twice */
    expect_choice(f, "fold,y_true,y_pred\n0,1.5,2\n1,2.5,2\n", &value, -1, 2, 1,
                  "not used: y_true");
    expect_choice(f, "id,target\n7,2.5\n8,1.5\n", &value, 0, 1, 1, NULL);
    expect_choice(f, "false,true\n.5,.5\n.25,.75\n", &classes, -1, 0, 2, NULL); /* they sum to 1 */
    expect_choice(f, "Unnamed: 0,id,p\n0,7,.5\n1,8,.5\n", &value, 1, 2, 1, "not used: Unnamed: 0");
    expect_choice(f, "p,std\n.5,.1\n.5,.2\n", &value, -1, 0, 1, "not used: std");
    expect_choice(f, "0,2,1\n.5,.25,.25\n", &classes, -1, 0, 3, NULL);
    expect_choice(f, "a,b,\n.5,.5,\n.25,.75,\n", &classes, -1, 0, 2, NULL);
    static const cst_table_ask named = {
        .use = CST_TABLE_PREDICTIONS, .id_column = "2", .one = true};
    expect_choice(f, "1,10\n2,11\n3,12\n", &named, 1, 0, 1, NULL);
    cst_table *table = NULL;
    put_text(f, "t.csv", "house,p\n70,.5\n80,.5\n90,.25\n");
    expect_error(f,
                 cst_table_open(f->context, scope, &table,
                                &(cst_row_source){.path = at(f, "t.csv")}, &value),
                 CST_ERROR_INPUT, "t.csv", "house, p", "looks like sample ids",
                 "--id-column \"house\"", NULL);
    put_text(f, "t.csv", "a,b\n.5,.5\n.25,.5\n");
    expect_error(f,
                 cst_table_open(f->context, scope, &table,
                                &(cst_row_source){.path = at(f, "t.csv")}, &value),
                 CST_ERROR_INPUT, "t.csv", "2 columns (a, b)", "predictions", NULL);
    assert_null(table);
}

static void columns_that_a_path_names(void **state) {
    fixture *f = *state;
    CST_SCOPE(scope);
    static const cst_table_ask ask = {.use = CST_TABLE_PREDICTIONS};
    static const struct {
        const char *column;
        int32_t first, width;
        const char *name;
    } cases[] = {{"m", 2, 1, "m"}, {"net", 3, 2, "dog"},
                 {"M", 2, 1, "m"}, {"net:dog", 3, 1, "net:dog"},
                 {"3", 2, 1, "m"}, {"old", 5, 1, "cat"}};
    put_text(f, "t.csv", "id,y,m,net:dog,net:cat,old__cat\n7,1,.5,.25,.75,1\n8,0,.5,.5,.5,0\n");
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        char path[4096];
        cst_table *table = NULL;
        (void)snprintf(path, sizeof path, "%s#%s", at(f, "t.csv"), cases[k].column);
        expect_ok(f,
                  cst_table_open(f->context, scope, &table, &(cst_row_source){.path = path}, &ask));
        assert_int_equal(table->values[0], cases[k].first);
        assert_int_equal(table->width, cases[k].width);
        assert_int_equal(table->id_column, 0);
        assert_string_equal(cst_strings_at(table->value_names, 0), cases[k].name);
    }
    cst_table *table = NULL;
    char path[4096];
    (void)snprintf(path, sizeof path, "%s#nothing", at(f, "t.csv"));
    expect_error(f,
                 cst_table_open(f->context, scope, &table, &(cst_row_source){.path = path}, &ask),
                 CST_ERROR_INPUT, "t.csv", "'nothing'", "net:dog", NULL);
    assert_int_equal(cst_path_column("a.csv#b"), 5);
    assert_int_equal(cst_path_column("a.CSV.gz#b#c"), 8);
    assert_int_equal(cst_path_column("a#1/b.tsv#c"), 9);
    assert_int_equal(cst_path_column("a.csv#"), 0);
    assert_int_equal(cst_path_column("a.npy#b"), 0);
    assert_int_equal(cst_path_column(".csv#b"), 0);
}

/* ---- a table of several members ---- */

/* What was parsed is read although the file is gone. */
static void tables_are_parsed_once(void **state) {
    fixture *f = *state;
    static const cst_table_ask members = {.use = CST_TABLE_PREDICTIONS};
    static const cst_table_ask labels = {.use = CST_TABLE_COLUMN, .kind = CST_COLUMN_TRUTH};
    CST_SCOPE(scope);
    char paths[3][4096];
    static const char *const columns[] = {"a", "b", "y"};
    cst_shared_table *list = NULL;
    put_text(f, "t.csv", "id,y,a:0,a:1,b:0,b:1\nx,2,.25,.75,,.5\n\"z\nz\",0,1,0,0,1\n");
    for (int k = 0; k < 3; k++) {
        (void)snprintf(paths[k], sizeof paths[k], "%s#%s", at(f, "t.csv"), columns[k]);
        expect_ok(f, cst_shared_add(f->context, scope, &list, paths[k], 0));
        assert_ptr_equal(cst_shared_find(list, paths[k]), list);
    }
    expect_ok(f, cst_shared_parse(f->context, list));
    assert_int_equal(remove(at(f, "t.csv")), 0);
    double values[4];
    cst_strings *ids = NULL;
    cst_row_file *rows = NULL;
    cst_column column;
    char where[CST_WHERE_CHARS];
    cst_row_source source = {.path = paths[0], .shared = list};
    expect_ok(f, cst_row_file_open(f->context, scope, &rows, &source, &members));
    expect_ok(f, cst_row_file_scan(f->context, scope, rows, NULL, &ids));
    expect_ok(f, cst_row_file_read(f->context, rows, 2, values));
    assert_true(values[0] == 0.25 && values[1] == 0.75 && values[2] == 1 && values[3] == 0);
    assert_string_equal(cst_strings_at(ids, 1), "z\nz");
    assert_string_equal(cst_row_file_where(rows, 0, 1, 1, where), "row 1 (line 3, column 4)");
    source.path = paths[2];
    expect_ok(f, cst_column_read(f->context, scope, &column, &source, &labels, NULL));
    assert_true(column.count == 2 && column.numbers[0] == 2 && column.numbers[1] == 0);
    source.path = paths[1]; /* a cell is empty: the file says where */
    expect_error(f, cst_row_file_open(f->context, scope, &rows, &source, &members), CST_ERROR_IO,
                 "t.csv", NULL);
    cst_shared_forget(list);
    put_text(f, "t.csv", "id,y,a:0,a:1,b:0,b:1\nx,2,.25,.75,word,.5\n");
    expect_ok(f, cst_shared_parse(f->context, list));
    assert_false(list->parsed);
    source.path = paths[0];
    expect_ok(f, cst_row_file_open(f->context, scope, &rows, &source, &members));
    expect_ok(f, cst_row_file_scan(f->context, scope, rows, NULL, &ids));
    expect_ok(f, cst_row_file_read(f->context, rows, 1, values));
    assert_true(values[0] == 0.25 && values[1] == 0.75);
}

/* ---- compressed files ---- */

static void put_gz(fixture *f, const char *name, const char *text, size_t bytes) {
    gzFile file = gzopen(at(f, name), "wb6");
    assert_non_null(file);
    assert_int_equal(gzwrite(file, text, (unsigned)bytes), (int)bytes);
    assert_int_equal(gzclose(file), Z_OK);
}

/* More than is kept in memory, read from the front, backwards and beyond the end. */
static void large_compressed_files(void **state) {
    fixture *f = *state;
    const size_t bytes = ((size_t)16 << 20) + 12345;
    char *text = malloc(bytes);
    char part[64];
    cst_bytes *source = NULL;
    assert_non_null(text);
    for (size_t i = 0; i < bytes; i++)
        text[i] = (char)('a' + i * i / 7 % 23);
    put_gz(f, "large.txt.gz", text, bytes);
    expect_ok(f, cst_bytes_open(f->context, &source, at(f, "large.txt.gz"), 0));
    assert_true(cst_bytes_size(source) == bytes);
    static const size_t places[] = {0, 1000, 70000, 999, (16 << 20) + 12000, 5};
    for (size_t k = 0; k < sizeof places / sizeof *places; k++) {
        expect_ok(f, cst_bytes_read(f->context, source, places[k], part, sizeof part));
        assert_memory_equal(part, text + places[k], sizeof part);
    }
    expect_error(f, cst_bytes_read(f->context, source, bytes - 5, part, sizeof part),
                 CST_ERROR_FORMAT, "large.txt.gz", "truncated", NULL);
    cst_bytes_close(f->context, source);
    expect_error(f, cst_bytes_open(f->context, &source, at(f, "large.txt.gz"), 1 << 20),
                 CST_ERROR_LIMIT, "large.txt.gz", "1048576 bytes", NULL);
    free(text);
}

static void broken_compressed_files(void **state) {
    fixture *f = *state;
    cst_bytes *source = NULL;
    put_gz(f, "e.csv.gz", "", 0);
    expect_error(f, cst_bytes_open(f->context, &source, at(f, "e.csv.gz"), 0), CST_ERROR_FORMAT,
                 "e.csv.gz", "empty", NULL);
    put_text(f, "t.csv.gz", "1,2\n");
    expect_error(f, cst_bytes_open(f->context, &source, at(f, "t.csv.gz"), 0), CST_ERROR_FORMAT,
                 "t.csv.gz", "not a gzip file", NULL);
    put_bytes(f, "h.csv.gz", "\x1f\x8b", 2);
    expect_error(f, cst_bytes_open(f->context, &source, at(f, "h.csv.gz"), 0), CST_ERROR_FORMAT,
                 "h.csv.gz", "truncated", NULL);
    put_bytes(f, "d.csv.gz", "\x1f\x8b\x08\0\0\0\0\0\0\3garbage", 17);
    expect_error(f, cst_bytes_open(f->context, &source, at(f, "d.csv.gz"), 0), CST_ERROR_FORMAT,
                 "d.csv.gz", "damaged", NULL);
}

static void formats_are_known_by_name_and_by_bytes(void **state) {
    fixture *f = *state;
    static const unsigned char parquet[8] = "PAR1....";
    static const unsigned char text[8] = "1,2,3,4\n";
    static const unsigned char json[8] = "[[1, 2],";
    assert_int_equal(cst_refuse_format(f->context, "a.csv", text, 8), CST_OK);
    assert_int_equal(cst_refuse_format(f->context, "a.csv", json, 8), CST_OK);
    assert_int_equal(cst_refuse_format(f->context, "a", text, 0), CST_OK);
    expect_error(f, cst_refuse_format(f->context, "a", json, 8), CST_ERROR_FORMAT, "JSON", NULL);
    expect_error(f, cst_refuse_format(f->context, "a.csv", parquet, 8), CST_ERROR_FORMAT, "Parquet",
                 CST_FORMATS, NULL);
    expect_error(f, cst_refuse_format(f->context, "a.Pickle", text, 8), CST_ERROR_FORMAT, "pickle",
                 "never read", NULL);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, files_setup, files_teardown)

int suite_tables(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_say_what_a_column_is),
        TEST(names_of_classes),
        TEST(numbers_of_classes),
        TEST(columns_of_predictions),
        TEST(columns_that_a_path_names),
        TEST(tables_are_parsed_once),
        TEST(large_compressed_files),
        TEST(broken_compressed_files),
        TEST(formats_are_known_by_name_and_by_bytes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
