/*
 * Delimited text, id joins and the pool manifest: what is understood, and what is refused with file
 * and position.
 */
#include "io_files.h"

#include "comma_locale.h"
#include "data/readers/manifest.h"
#include "data/readers/row_file.h"

#include <math.h>

/* ---- delimited text ---- */

/* Reads a whole matrix; *ids may be NULL. */
static cst_status read_matrix(fixture *f, cst_scope *scope, const char *name, double *out,
                              int64_t *rows, int64_t *width, cst_strings **ids) {
    cst_row_file *r = NULL;
    cst_strings *found = NULL;
    cst_status status = rows_of(f, scope, &r, at(f, name), 0);
    if (status == CST_OK)
        status = cst_row_file_scan(f->context, scope, r, NULL, &found);
    if (status == CST_OK)
        status = cst_row_file_read(f->context, r, r->row_count, out);
    if (status == CST_OK) {
        *rows = r->row_count;
        *width = r->width;
    }
    if (ids)
        *ids = found;
    return status;
}

static void tables_of_many_shapes(void **state) {
    fixture *f = *state;
    CST_SCOPE(scope);
    static const struct {
        const char *text;
        const char *first_id; /* NULL: no ids */
    } cases[] = {
        {"1,2,3\n4,5,6\n", NULL},
        {"1;2;3\r\n4;5;6\r\n", NULL},
        {"1\t2\t3\r4\t5\t6", NULL},
        {"a,b,c\n1,2,3\n4,5,6\n\n\n", NULL},
        {"\xef\xbb\xbf\"a\",\"b,b\",\"c\"\"\nc\"\n\"1\", 2 ,\"3\" \n4,5,6", NULL},
        {"0,1,2\n1,2,3\n4,5,6\n", NULL},
        {"id,0,1,2\n7,1,2,3\n8,4,5,6\n", "7"},
        {",0,1,2\n7,1,2,3\n8,4,5,6\n", "7"},
        {"cat,dog,Image_ID,bird\n1,2,7,3\n4,5,8,6\n", "7"},
        {"img 7,1,2,3\nimg 8,4,5,6\n", "img 7"},
        {"file,0,1,2\nimg 7,1,2,3\nimg 8,4,5,6\n", "img 7"},
        {"file,cat,dog,bird\n\"img,7\",1,2,3\nx,4,5,6\n", "img,7"},
        {"+1.0e0,.2e1,3.\n4,5E0,6\n", NULL},
        {"+1.0e+0,20e-01,300E-2\n4e-0,5,6\n", NULL},
        {"1\t ,2 , 3\n4,\t5,\"6\"\t \n", NULL},
        {"cat,dog,bird,id\n1,2,3,7\n4,5,6,8\n", "7"},
        {"1,2,3\n4,5,6\n \t\n", NULL},
    };
    for (size_t k = 0; k < sizeof cases / sizeof cases[0]; k++) {
        double values[16];
        int64_t rows = 0;
        int64_t width = 0;
        cst_strings *ids = NULL;
        put_text(f, "t.csv", cases[k].text);
        expect_ok(f, read_matrix(f, scope, "t.csv", values, &rows, &width, &ids));
        assert_int_equal(rows, 2);
        assert_int_equal(width, 3);
        for (int i = 0; i < 6; i++)
            assert_true(values[i] == i + 1);
        assert_int_equal(ids != NULL, cases[k].first_id != NULL);
        if (ids)
            assert_string_equal(cst_strings_at(ids, 0), cases[k].first_id);
    }
}

static void bad_tables_name_line_and_column(void **state) {
    fixture *f = *state;
    CST_SCOPE(scope);
    static const struct {
        const char *text;
        const char *where;
        const char *what;
    } cases[] = {
        {"1,2,3\n4,x,6\n", "line 2, column 2", "'x' is not a number"},
        {"a,b,c\n1,2,3\n4,,6\n", "line 3, column 2", "empty"},
        {"1,2,3\n4,5\n", "line 2", "2 cells, but the first line has 3"},
        {"1,2,3\n4,5,6,7\n", "line 2", "4 cells"},
        {"1,2,3\n\n4,5,6\n", "line 2", "empty, but data follow"},
        {"1,2,3\n4,\"5,6\n", "line 2, column 2", "the closing quote of a cell is missing"},
        {"1,2,3\n4,\"5\"5,6\n", "line 2, column 2", "after a closing quote"},
        {"1;2;3\n4;0,5;6\n", "line 2, column 2", "decimal point"},
        {"1,2,3\n4,0x10,6\n", "line 2, column 2", "'0x10'"},
        {"\"multi\nline\",b,c\n1,2,3\n1,y,3\n", "line 4, column 2", "'y'"},
        {"\xff\xfe"
         "1,2",
         "line 1, column 1", "UTF-16"},
        {"a,b,c\n1,2,3\n4,5\xc3\n6,6\n", "line 3", "2 cells"},
        {"\n\n", "line 1", "no data"},
        {"id,a,b\n,1,2\n", "line 2, column 1", "empty"},
        {"\xfe\xff"
         "1,2",
         "line 1, column 1", "UTF-16"},
        {"a,b\n1,2\n1,1e\n", "line 3, column 2", "'1e' is not a number"},
        {"a,b\n1,2\n1,1ex\n", "line 3, column 2", "'1ex' is not a number"},
        {"a,b\n1,2\n1,1e+5x\n", "line 3, column 2", "'1e+5x' is not a number"},
        {"a,b\n1,2\n1,1e+\n", "line 3, column 2", "'1e+' is not a number"},
        {"a,b\n1,2\n1,nanny\n", "line 3, column 2", "'nanny' is not a number"},
        {"a,b\n1,2\n1,-infinite\n", "line 3, column 2", "'-infinite' is not a number"},
        {"a,b\n1,2\n1,.\n", "line 3, column 2", "'.' is not a number"},
        {"id,a,b,a\n1,2,3,4\n", "line 1", "two columns are called 'a'"},
        {"id,id,b\n1,2,3\n", "line 1", "two columns are called 'id'"},
    };
    for (size_t k = 0; k < sizeof cases / sizeof cases[0]; k++) {
        double values[64];
        int64_t rows = 0;
        int64_t width = 0;
        put_text(f, "bad.csv", cases[k].text);
        cst_status status = read_matrix(f, scope, "bad.csv", values, &rows, &width, NULL);
        assert_int_not_equal(status, CST_OK);
        expect_error(f, status, status, "bad.csv", cases[k].where, cases[k].what, NULL);
    }
    double values[4];
    int64_t count = 0;
    put_bytes(f, "nul.csv", "1,2\n3,\0004\n", 9);
    expect_error(f, read_matrix(f, scope, "nul.csv", values, &count, &count, NULL),
                 CST_ERROR_FORMAT, "nul.csv", "line 2, column 2", "NUL", NULL);
    static const struct {
        const char *text;
        size_t bytes;
        const char *where;
    } nuls[] = {{"1,2\n3,\"\0\"\n", 9, "line 2, column 2"},
                {"1,2\n3,\"4\"\0\n", 10, "line 2, column 2"},
                {"1,2\r\0", 5, "line 2, column 2"},
                {"1,2\n\n\0", 6, "line 3"},
                {"\0", 1, "line 1, column 1"}};
    for (size_t k = 0; k < sizeof nuls / sizeof nuls[0]; k++) {
        put_bytes(f, "nul.csv", nuls[k].text, nuls[k].bytes);
        expect_error(f, read_matrix(f, scope, "nul.csv", values, &count, &count, NULL),
                     CST_ERROR_FORMAT, "nul.csv", nuls[k].where, "NUL", NULL);
    }
    put_text(f, "empty.csv", "");
    expect_error(f, read_matrix(f, scope, "empty.csv", values, &count, &count, NULL),
                 CST_ERROR_FORMAT, "empty.csv", "the file is empty", NULL);
}

/* A program that set a locale with a decimal comma reads the same numbers. */
static void numbers_do_not_depend_on_the_locale(void **state) {
    fixture *f = *state;
    CST_SCOPE(scope);
    double values[2];
    int64_t rows = 0;
    int64_t width = 0;
    (void)comma_locale(); /* where there is none, it says so and this is the plain reading */
    put_text(f, "n.csv", "0.5,-1.25e-3\n");
    cst_status status = read_matrix(f, scope, "n.csv", values, &rows, &width, NULL);
    (void)setlocale(LC_NUMERIC, "C");
    assert_int_equal(status, CST_OK);
    assert_true(values[0] == 0.5 && values[1] == -1.25e-3);
}

/* A table larger than a chunk of the reader, and a cell larger than that. */
static void long_tables_cross_chunks(void **state) {
    fixture *f = *state;
    CST_SCOPE(scope);
    FILE *file = fopen(at(f, "long.csv"), "w");
    enum { ROWS = 30000 };
    for (int i = 0; i < ROWS; i++)
        (void)fprintf(file, "%d,%d.5\r\n", i, -i);
    (void)fclose(file);
    double *values = malloc(2 * ROWS * sizeof *values);
    int64_t rows = 0;
    int64_t width = 0;
    expect_ok(f, read_matrix(f, scope, "long.csv", values, &rows, &width, NULL));
    assert_int_equal(rows, ROWS);
    for (int i = 0; i < ROWS; i++)
        assert_true(values[2 * i] == i && values[2 * i + 1] == (i ? -i - 0.5 : 0.5));
    free(values);
    file = fopen(at(f, "wide.csv"), "w");
    (void)fputs("id,a\n", file);
    for (int i = 0; i < 200000; i++)
        (void)fputc('x', file);
    (void)fputs(",1\n", file);
    (void)fclose(file);
    cst_strings *ids = NULL;
    double one = 0;
    expect_ok(f, read_matrix(f, scope, "wide.csv", &one, &rows, &width, &ids));
    assert_int_equal(strlen(cst_strings_at(ids, 0)), 200000);
}

static void columns_of_labels(void **state) {
    fixture *f = *state;
    CST_SCOPE(scope);
    static const char *const wanted[] = {"label", NULL};
    static const struct {
        const char *text;
        bool numbers;
        const char *first_id;
    } cases[] = {
        {"3\n1\n", true, NULL},
        {"label\n3\n1\n", true, NULL},
        {"anything\n3.0\n1\n", true, NULL},
        {"cat\ndog\n", false, NULL},
        {"label\ncat\ndog\n", false, NULL},
        {"id,label\na,3\nb,1\n", true, "a"},
        {"label,id\n3,a\n1,b\n", true, "a"},
        {"a,3\nb,1\n", true, "a"},
        {"a,cat\nb,dog\n", false, "a"},
        {"name,fold,Label\na,0,3\nb,0,1\n", true, "a"},
        {"fold,Label,weight\n0,3,1\n0,1,1\n", true, NULL},
        {"fold,id,Label\n0,a,3\n0,b,1\n", true, "a"},
        {"3.00\n1.\n", true, NULL},
        {"99999999999999999999\ndog\n", false, NULL},
        {"3.5\ndog\n", false, NULL},
    };
    for (size_t k = 0; k < sizeof cases / sizeof cases[0]; k++) {
        cst_column column;
        put_text(f, "c.csv", cases[k].text);
        expect_ok(f, column_of(f, scope, &column, at(f, "c.csv"), wanted, 0));
        assert_int_equal(column.count, 2);
        assert_int_equal(column.numbers != NULL, cases[k].numbers);
        if (column.numbers)
            assert_true(column.numbers[0] == 3 && column.numbers[1] == 1);
        else
            assert_string_equal(cst_strings_at(column.texts, 1), "dog");
        assert_int_equal(column.ids != NULL, cases[k].first_id != NULL);
        if (column.ids)
            assert_string_equal(cst_strings_at(column.ids, 0), cases[k].first_id);
    }
    cst_column column;
    put_text(f, "c.csv", "99999999999999999999\n1\n"); /* beyond 64 bits: a name like others */
    expect_ok(f, column_of(f, scope, &column, at(f, "c.csv"), wanted, 0));
    assert_null(column.numbers);
    assert_string_equal(cst_strings_at(column.texts, 0), "99999999999999999999");
    put_text(f, "c.csv", "a,b,label\n");
    expect_ok(f, column_of(f, scope, &column, at(f, "c.csv"), wanted, 0));
    assert_int_equal(column.count, 0);
    put_text(f, "c.csv", "a,b,c\n");
    expect_error(f, column_of(f, scope, &column, at(f, "c.csv"), NULL, 0), CST_ERROR_INPUT, "c.csv",
                 "line 1", "none is known to hold the values", NULL);
    put_text(f, "c.csv", "a,b,c\n1,2,3\n");
    expect_error(f, column_of(f, scope, &column, at(f, "c.csv"), wanted, 0), CST_ERROR_INPUT,
                 "c.csv", "line 1", "none is known to hold the values", NULL);
}

/* ---- ids ---- */

/* What a file holds is seen from its name, and where that says nothing from what it begins with. */
static void files_of_any_name(void **state) {
    fixture *f = *state;
    CST_SCOPE(scope);
    static const int32_t numbers[2] = {3, 1};
    static const char *const texts[] = {"c.txt", "c.TSV", "labels", "y", "c.label.old"};
    static const char *const arrays[] = {"labels", "y", "d.numpy"};
    char before[4096];
    cst_column column;
    cst_strings *ids = NULL;
    assert_non_null(getcwd(before, sizeof before));
    assert_int_equal(chdir(f->folder), 0); /* so that a path may be one character */
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        put_text(f, texts[i], i % 2 ? "label\tid\n3\ta\n1\tb\n" : "3\r1\r");
        expect_ok(f, column_of(f, scope, &column, texts[i], NULL, 0));
        assert_true(column.count == 2 && column.numbers[0] == 3 && column.numbers[1] == 1);
        assert_int_equal(column.ids != NULL, i % 2);
    }
    for (size_t i = 0; i < sizeof arrays / sizeof arrays[0]; i++) {
        put_i32(f, arrays[i], numbers, 2);
        expect_ok(f, column_of(f, scope, &column, arrays[i], NULL, 0));
        assert_true(column.count == 2 && column.numbers[0] == 3);
        expect_ok(f, ids_of(f, scope, &ids, arrays[i], 0));
        assert_string_equal(cst_strings_at(ids, 1), "1");
    }
    put_text(f, "labels", "3\n\x01\n");
    cst_status status = column_of(f, scope, &column, "labels", NULL, 0);
    assert_int_equal(chdir(before), 0);
    expect_error(f, status, CST_ERROR_FORMAT, "labels", "npy", NULL);
    expect_error(f, column_of(f, scope, &column, at(f, "nothing"), NULL, 0), CST_ERROR_IO,
                 "nothing", NULL);
    put_text(f, "ids.csv", "1,2\n3,4\n");
    expect_error(f, ids_of(f, scope, &ids, at(f, "ids.csv"), 0), CST_ERROR_INPUT, "ids.csv",
                 "2 columns, but none is called id", NULL);
    put_text(f, "empty", "");
    expect_error(f, ids_of(f, scope, &ids, at(f, "empty"), 0), CST_ERROR_FORMAT, "empty", NULL);
    assert_null(ids);
}

/* Where a number stands in a table, with the ids before it, behind it or nowhere. */
static void places_in_tables(void **state) {
    fixture *f = *state;
    CST_SCOPE(scope);
    static const struct {
        const char *text;
        const char *first, *second; /* of the last row */
    } cases[] = {
        {"id,x,y\na,1,2\nb,3,4\n", "row 1 (line 3, column 2)", "row 1 (line 3, column 3)"},
        {"x,y,id\n1,2,a\n3,4,b\n", "row 1 (line 3, column 1)", "row 1 (line 3, column 2)"},
        {"x,id,y\n1,a,2\n3,b,4\n", "row 1 (line 3, column 1)", "row 1 (line 3, column 3)"},
        {"1,2\n3,4\n", "row 1 (line 2, column 1)", "row 1 (line 2, column 2)"},
    };
    for (size_t k = 0; k < sizeof cases / sizeof cases[0]; k++) {
        cst_row_file *rows = NULL;
        cst_strings *ids = NULL;
        double values[4];
        char where[CST_WHERE_CHARS];
        char shape[CST_NPY_SHAPE_CHARS];
        put_text(f, "t.csv", cases[k].text);
        expect_ok(f, rows_of(f, scope, &rows, at(f, "t.csv"), 0));
        assert_string_equal(cst_row_file_shape_text(rows, shape), "(?, 2)");
        expect_ok(f, cst_row_file_scan(f->context, scope, rows, NULL, &ids));
        assert_string_equal(cst_row_file_shape_text(rows, shape), "(2, 2)");
        expect_ok(f, cst_row_file_read(f->context, rows, 2, values));
        assert_true(values[2] == 3 && values[3] == 4);
        assert_string_equal(cst_row_file_where(rows, 0, 1, 0, where), cases[k].first);
        assert_string_equal(cst_row_file_where(rows, 0, 1, 1, where), cases[k].second);
        assert_string_equal(cst_row_file_where(rows, 0, 0, -1, where),
                            k == 3 ? "row 0 (line 1)" : "row 0 (line 2)");
    }
}

/* More cells in a line, and a first line longer, than there is room for at first. */
static void wide_tables(void **state) {
    enum { COLUMNS = 300, NAME = 400 };
    fixture *f = *state;
    CST_SCOPE(scope);
    char *text = malloc((size_t)COLUMNS * (NAME + 8));
    assert_non_null(text);
    size_t used = 0;
    for (int c = 0; c < COLUMNS; c++)
        used += (size_t)sprintf(text + used, "%sc%0*d", c ? "," : "", NAME, c);
    for (int c = 0; c < COLUMNS; c++)
        used += (size_t)sprintf(text + used, "%s%d", c ? "," : "\n", c);
    put_bytes(f, "t.csv", text, used);
    free(text);
    cst_row_file *rows = NULL;
    cst_strings *ids = NULL;
    double values[COLUMNS];
    expect_ok(f, rows_of(f, scope, &rows, at(f, "t.csv"), 0));
    assert_int_equal(rows->width, COLUMNS);
    expect_ok(f, cst_row_file_scan(f->context, scope, rows, NULL, &ids));
    assert_int_equal(rows->row_count, 1);
    expect_ok(f, cst_row_file_read(f->context, rows, 1, values));
    for (int c = 0; c < COLUMNS; c++)
        assert_true(values[c] == c);
    assert_null(ids);
}

static cst_strings *strings_of(fixture *f, const char *const *texts) {
    cst_strings *strings = NULL;
    expect_ok(f, cst_strings_take(f->context, &f->scope, &strings));
    for (; *texts; texts++)
        expect_ok(f, cst_strings_add(f->context, strings, *texts, strlen(*texts)));
    return strings;
}

static void joins_of_many_ids(void **state) {
    fixture *f = *state;
    enum { COUNT = 5000 };
    cst_strings *reference = NULL;
    cst_strings *other = NULL;
    cst_id_index *index = NULL;
    static int64_t target[COUNT];
    expect_ok(f, cst_strings_take(f->context, &f->scope, &reference));
    expect_ok(f, cst_strings_take(f->context, &f->scope, &other));
    for (int64_t i = 0; i < COUNT; i++) {
        expect_ok(f, cst_strings_add_int(f->context, reference, i * i - 100));
        int64_t j = i * 1777 % COUNT;
        expect_ok(f, cst_strings_add_int(f->context, other, j * j - 100));
    }
    expect_ok(f, cst_id_index_take(f->context, &f->scope, &index, reference, "reference"));
    expect_ok(f, cst_id_join(f->context, index, other, "other", false, target));
    for (int64_t i = 0; i < COUNT; i++)
        assert_true(target[i] == i * 1777 % COUNT);
    assert_int_equal(cst_id_index_find(index, "-96"), 2);
    assert_int_equal(cst_id_index_find(index, "-95"), -1);
}

/* The reader of CSV takes the apostrophe before a formula away; other files have it or not. */
static void joins_pass_over_the_mark_of_formulas(void **state) {
    fixture *f = *state;
    static const char *const kept[] = {"'=x", "-y", "'z", "''=x", NULL};
    static const char *const taken[] = {"'z", "=x", "'-y", "''=x", NULL};
    static const char *const both[] = {"=x", "'=x", NULL};
    static const int64_t expected[] = {2, 0, 1, 3};
    int64_t target[4];
    cst_strings *left = strings_of(f, kept);
    cst_strings *right = strings_of(f, taken);
    cst_strings *twice = strings_of(f, both);
    cst_id_index *index = NULL;
    expect_ok(f, cst_id_index_take(f->context, &f->scope, &index, left, "ids.npy"));
    expect_ok(f, cst_id_join(f->context, index, right, "a.csv", false, target));
    assert_memory_equal(target, expected, sizeof target);
    expect_error(f, cst_id_index_take(f->context, &f->scope, &index, twice, "ids.npy"),
                 CST_ERROR_INPUT, "twice (rows 0 and 1)", NULL);
}

static void joins_name_the_first_offending_id(void **state) {
    fixture *f = *state;
    static const char *const reference[] = {"a", "b", "c", NULL};
    static const struct {
        const char *ids[5];
        cst_status code;
        const char *what[3];
    } cases[] = {
        {{"c", "a", NULL}, CST_ERROR_MISMATCH, {"'b'", "row 1 of ref.csv", "missing"}},
        {{"c", "a", "b", "x", NULL}, CST_ERROR_MISMATCH, {"'x'", "row 3", "extra"}},
        {{"c", "a", "c", NULL}, CST_ERROR_INPUT, {"'c'", "rows 0 and 2", "twice"}},
    };
    cst_strings *left = strings_of(f, reference);
    cst_id_index *index = NULL;
    expect_ok(f, cst_id_index_take(f->context, &f->scope, &index, left, "ref.csv"));
    for (int k = 0; k < 3; k++) {
        int64_t target[8];
        cst_strings *right = strings_of(f, cases[k].ids);
        expect_error(f, cst_id_join(f->context, index, right, "member.csv", false, target),
                     cases[k].code, "member.csv", cases[k].what[0], cases[k].what[1],
                     cases[k].what[2], NULL);
    }
    left = strings_of(f, (const char *const[]){"a", "b\nb", "b\nb", NULL});
    expect_error(f, cst_id_index_take(f->context, &f->scope, &index, left, "ref.csv"),
                 CST_ERROR_INPUT, "ref.csv", "'b?b'", "rows 1 and 2", NULL);
}

/* ---- the manifest ---- */

static cst_status read_manifest(fixture *f, const char *text, bool outside) {
    cst_manifest *manifest = NULL;
    put_text(f, "pool.json", text);
    cst_status status =
        cst_manifest_read_as(f->context, &manifest, at(f, "pool.json"), outside, NULL);
    cst_manifest_free(f->context, manifest);
    return status;
}

#define HEAD "{\"corestack_pool\": 1, \"classes\": 2, "
#define SPLITS "\"splits\": {\"oof\": {\"labels\": \"y.npy\"}}, "
#define MODELS "\"models\": [{\"name\": \"a\", \"predictions\": {\"oof\": \"a.npy\"}}]}"

static void a_whole_manifest(void **state) {
    fixture *f = *state;
    cst_manifest *m = NULL;
    put_text(
        f, "pool.json",
        "{\"corestack_pool\": 1, \"task\": \"classification\", \"classes\": [\"cat\", \"dog\"],"
        "\"output\": \"logit\", \"splits\": {"
        "\"oof\": {\"labels\": \"y.npy\", \"ids\": \"i.npy\", \"folds\": \"f.npy\","
        " \"groups\": \"sub/./g.npy\"},"
        "\"bad\": {\"labels\": \"y.npy\", \"conditions\": [{\"shift\": \"noise\", \"kind\":"
        " \"gaussian_noise\", \"severity\": 3}, {}]}, \"svhn\": {\"ood\": true}},"
        "\"models\": [{\"name\": \"r\", \"family\": \"cnn\", \"flops\": 4.1e9, \"params\": 25,"
        "\"latency_ms\": 3.2, \"ensemble\": {\"kind\": \"snapshot\", \"of\": \"x\"}, "
        "\"predictions\": {"
        "\"oof\": {\"path\": \"r.npy\", \"ids\": \"r_ids.npy\"}, \"svhn\": \"s.npz#r\"}}]}");
    assert_int_equal(mkdir(at(f, "sub"), 0700), 0);
    expect_ok(f, cst_manifest_read_as(f->context, &m, at(f, "pool.json"), false, NULL));
    assert_int_equal(m->classes, 2);
    assert_string_equal(m->class_names[1], "dog");
    assert_true(m->output_given && m->logits);
    assert_int_equal(m->split_count, 3);
    assert_string_equal(m->splits[0].name, "oof");
    assert_string_equal(m->splits[0].labels, at(f, "y.npy"));
    assert_string_equal(m->splits[0].groups, at(f, "sub/./g.npy"));
    assert_int_equal(m->splits[1].condition_count, 2);
    assert_string_equal(m->splits[1].conditions[0].kind, "gaussian_noise");
    assert_true(m->splits[1].conditions[0].severity == 3);
    assert_null(m->splits[1].conditions[1].shift);
    assert_true(isnan(m->splits[1].conditions[1].severity));
    assert_true(m->splits[2].ood);
    assert_int_equal(m->member_count, 1);
    assert_true(m->members[0].flops == 4.1e9 && m->members[0].latency_ms == 3.2);
    assert_int_equal(m->members[0].ensemble, 2);
    assert_string_equal(m->members[0].ensemble_of, "x");
    assert_int_equal(m->members[0].ensemble_passes, 1);
    assert_string_equal(m->members[0].paths[0], at(f, "r.npy"));
    assert_string_equal(m->members[0].ids[0], at(f, "r_ids.npy"));
    assert_null(m->members[0].paths[1]);
    assert_string_equal(m->members[0].paths[2], at(f, "s.npz#r"));
    cst_manifest_free(f->context, m);
    expect_ok(f, read_manifest(f, HEAD SPLITS MODELS, false));
}

static void manifests_that_are_refused(void **state) {
    fixture *f = *state;
    static const struct {
        const char *text;
        const char *what[2];
    } cases[] = {
        {"", {"empty", ""}},
        {"{\"corestack_pool\": 1,\n \"classes\": }", {"line 2, column", "byte"}},
        {"{\"corestack_pool\": 1, \"corestack_pool\": 1}", {"line 1", "duplicate"}},
        {HEAD "\"splits\": {\"oof\": {}, \"oof\": {}}, " MODELS, {"duplicate", "oof"}},
        {"[]", {"the manifest must be an object", ""}},
        {"{\"classes\": 2}", {"corestack_pool", "missing"}},
        {"{\"corestack_pool\": 2}", {"corestack_pool", "must be 1"}},
        {HEAD "\"model\": []}", {"unknown key 'model'", "models"}},
        {HEAD "\"a\\nb\": 1}", {"unknown key 'a?b'", ""}},
        {HEAD "\"splits\": {\"oof\": {\"label\": \"y\"}}, " MODELS,
         {"unknown key 'label' in splits.oof", "labels"}},
        {HEAD SPLITS "\"models\": [{\"nam\": \"a\"}]}", {"unknown key 'nam' in models[0]", "name"}},
        {HEAD SPLITS "\"models\": [{\"name\": \"a\", \"predictions\": {\"oof\": {\"file\": 1}}}]}",
         {"unknown key 'file' in models[0].predictions.oof", "path"}},
        {HEAD "\"splits\": {\"c\": {\"conditions\": [{\"kin\": 1}]}}, " MODELS,
         {"unknown key 'kin' in splits.c.conditions[0]", "kind"}},
        {HEAD SPLITS "\"models\": [{\"name\": \"a\", \"predictions\": {}}, {\"name\": \"a\", "
                     "\"predictions\": {}}]}",
         {"models[1]", "names must be unique"}},
        {HEAD SPLITS "\"models\": []}", {"models", "at least one"}},
        {HEAD SPLITS "\"models\": [{\"name\": \"\", \"predictions\": {}}]}",
         {"model name", "empty"}},
        {HEAD SPLITS "\"models\": [{\"name\": \"a\", \"predictions\": {\"tset\": \"a.npy\"}}]}",
         {"models[0].predictions.tset", "no split 'tset'"}},
        {HEAD SPLITS "\"models\": [{\"name\": \"a\", \"flops\": -1, \"predictions\": {}}]}",
         {"models[0].flops", "non-negative number"}},
        {HEAD SPLITS
         "\"models\": [{\"name\": \"a\", \"ensemble\": {\"kind\": \"x\"}, \"predictions\": {}}]}",
         {"models[0].ensemble.kind", "deep-ensemble"}},
        {HEAD SPLITS "\"models\": [{\"name\": \"a\", \"ensemble\": {\"kind\": \"soup\"}, "
                     "\"predictions\": {}}]}",
         {"models[0].ensemble.of", "name"}},
        {HEAD SPLITS "\"models\": [{\"name\": \"a\", \"ensemble\": {\"kind\": \"soup\", \"of\": "
                     "\"b\", \"passes\": 0}, \"predictions\": {}}]}",
         {"models[0].ensemble.passes", "whole number"}},
        {HEAD SPLITS "\"models\": [{\"name\": \"a\"}]}", {"models[0].predictions", "object"}},
        {HEAD "\"splits\": {}, " MODELS, {"splits", "at least one"}},
        {HEAD
         "\"splits\": {\"o\": {\"conditions\": [{\"kind\": \"fog\"}, {\"severity\": 1}, {}, {}, "
         "{\"shift\": \"fog\"}, {\"severity\": 1}]}}, " MODELS,
         {"splits.o.conditions[1] and [5]", "same shift"}},
        {HEAD "\"splits\": {\"o\": {\"ood\": 1}}, " MODELS, {"splits.o.ood", "true or false"}},
        {HEAD "\"splits\": {\"o\": {\"ood\": true, \"labels\": \"y\"}}, " MODELS,
         {"splits.o", "has labels"}},
        {HEAD "\"output\": \"softmax\"}", {"output", "\"logit\""}},
        {"{\"corestack_pool\": 1, \"classes\": 1}", {"classes", "it must be between 2"}},
        {"{\"corestack_pool\": 1, \"classes\": [\"a\"]}", {"classes", "it must be between 2"}},
        {"{\"corestack_pool\": 1, \"classes\": \"two\"}", {"classes", "number"}},
        {"{\"corestack_pool\": 1, \"classes\": [\"a\", 1]}", {"classes[1]", "name"}},
        {"{\"corestack_pool\": 1, \"classes\": [\"a\", \"b\", \"a\"]}",
         {"classes[0] and classes[2]", "'a'"}},
        {"{\"corestack_pool\": 1, \"task\": \"ranking\"}", {"task", "\"classification\""}},
        {"{\"corestack_pool\": 1, \"task\": \"regression\", \"classes\": 3}",
         {"classes is not supported in pools", "'regression'"}},
        {HEAD "\"outputs\": 2}", {"outputs is not supported in pools", "'classification'"}},
        {"{\"corestack_pool\": 1, \"task\": \"regression\", \"outputs\": 0}",
         {"outputs", "it must be between 1"}},
        {"{\"corestack_pool\": 1, \"task\": \"regression\", \"outputs\": [\"a\", \"a\"]}",
         {"outputs[0] and outputs[1]", "'a'"}},
        {"{\"corestack_pool\": 1, \"task\": \"segmentation\", \"layout\": \"NCHW\"}",
         {"layout", "\"channels-first\""}},
        {"{\"corestack_pool\": 1, \"task\": \"segmentation\", \"ignore\": \"void\"}",
         {"ignore", "whole number"}},
        {"{\"corestack_pool\": 1, \"task\": \"detection\", \"splits\": {\"o\": {\"labels\": "
         "\"y\"}}, " MODELS,
         {"splits.o.labels is not supported in pools", "'detection'"}},
        {"{\"corestack_pool\": 1, \"task\": \"regression\", \"splits\": {\"o\": {\"labels\": "
         "\"y\", "
         "\"targets\": \"y\"}}, " MODELS,
         {"splits.o.targets", "absent if"}},
        {HEAD "\"splits\": {\"oof\": {\"labels\": \"\"}}, " MODELS,
         {"splits.oof.labels", "file name"}},
        {HEAD "\"splits\": {\"oof\": {\"labels\": \"a\\u0000b\"}}, " MODELS, {"line 1", "u0000"}},
    };
    for (size_t k = 0; k < sizeof cases / sizeof cases[0]; k++) {
        cst_status status = read_manifest(f, cases[k].text, false);
        if (status == CST_OK)
            fail_msg("accepted: %s", cases[k].text);
        expect_error(f, status, status, "pool.json", cases[k].what[0], cases[k].what[1], NULL);
    }
    put_bytes(f, "pool.json", "{\"corestack_pool\0\": 1}", 22);
    cst_manifest *manifest = NULL;
    expect_error(f, cst_manifest_read_as(f->context, &manifest, at(f, "pool.json"), false, NULL),
                 CST_ERROR_FORMAT, "pool.json", "line 1", NULL);
}

static void deep_nesting_is_an_error(void **state) {
    fixture *f = *state;
    enum { DEPTH = 100000 };
    char *text = malloc(DEPTH + 1);
    memset(text, '[', DEPTH);
    text[DEPTH] = '\0';
    expect_error(f, read_manifest(f, text, false), CST_ERROR_FORMAT, "pool.json", "depth", NULL);
    free(text);
}

static void paths_stay_in_the_folder(void **state) {
    fixture *f = *state;
    static const char *const paths[] = {"../y.npy",      "sub/../../y.npy", "/etc/passwd",
                                        "out/y.npy",     "link.npy",        "out/none.npy",
                                        "../none.npz#a", "sub/../y.npy",    "sub/.."};
    assert_int_equal(mkdir(at(f, "sub"), 0700), 0);
    assert_int_equal(symlink("/tmp", at(f, "out")), 0);
    assert_int_equal(symlink("/etc/passwd", at(f, "link.npy")), 0);
    assert_int_equal(symlink("sub/y.npy", at(f, "inside.npy")), 0);
    put_text(f, "sub/y.npy", "x");
    for (size_t k = 0; k < sizeof paths / sizeof paths[0]; k++) {
        char text[512];
        (void)snprintf(text, sizeof text,
                       HEAD "\"splits\": {\"oof\": {\"labels\": \"%s\"}}, " MODELS, paths[k]);
        expect_error(f, read_manifest(f, text, false), CST_ERROR_INPUT, "pool.json", paths[k],
                     "outside the folder of", "folder", NULL);
        if (strcmp(paths[k], "sub/..") != 0) /* a folder of parts, which has other files */
            expect_ok(f, read_manifest(f, text, true));
    }
    expect_ok(f,
              read_manifest(f, HEAD "\"splits\": {\"oof\": {\"labels\": \"inside.npy\"}}, " MODELS,
                            false));
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, files_setup, files_teardown)

int suite_text(void) {
    const struct CMUnitTest tests[] = {
        TEST(tables_of_many_shapes),
        TEST(bad_tables_name_line_and_column),
        TEST(numbers_do_not_depend_on_the_locale),
        TEST(long_tables_cross_chunks),
        TEST(columns_of_labels),
        TEST(files_of_any_name),
        TEST(places_in_tables),
        TEST(wide_tables),
        TEST(joins_of_many_ids),
        TEST(joins_pass_over_the_mark_of_formulas),
        TEST(joins_name_the_first_offending_id),
        TEST(a_whole_manifest),
        TEST(manifests_that_are_refused),
        TEST(deep_nesting_is_an_error),
        TEST(paths_stay_in_the_folder),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
