/*
 * Files that ask for more than they hold: counts, names and texts beyond what is read, refused
 * before memory or time is spent on them. Under the pool and the model. docs/reliability.md,
 * "Caps".
 */
#include "io_files.h"

#include "data/readers/coco.h"
#include "data/readers/manifest.h"
#include "data/readers/npy.h"
#include "data/readers/row_file.h"
#include "data/readers/strings.h"
#include "model/codec.h"
#include "model/stack.h"
#include "report/report.h"

/* ---- sizes that files claim or have ---- */

static unsigned char *put_number(unsigned char *to, uint64_t value, int bytes) {
    for (int i = 0; i < bytes; i++)
        *to++ = (unsigned char)(value >> (8 * i));
    return to;
}

/* Names of eight characters, one after another. */
static void number_name(char name[33], int i) {
    (void)snprintf(name, 33, "%08d", i);
}

/* Names that times 33 plus the next byte, as libzip hashes, sends to one place: "Az" and "BY" in
 * 16 places are all the same to it. */
static void colliding_name(char name[33], int i) {
    for (int bit = 0; bit < 16; bit++)
        memcpy(name + 2 * bit, i >> bit & 1 ? "BY" : "Az", 2);
    name[32] = '\0';
}

/* An archive (of zip64, for the count) of so many empty members. */
static void put_members(fixture *f, const char *name, int count, void (*name_of)(char *, int)) {
    enum { LOCAL = 30, CENTRAL = 46, ENDS = 98 };
    char text[33];
    name_of(text, 0);
    size_t length = strlen(text);
    size_t directory = (size_t)count * (LOCAL + length);
    size_t bytes = (size_t)count * (CENTRAL + length);
    unsigned char *all = calloc(directory + bytes + ENDS, 1);
    assert_non_null(all);
    for (int i = 0; i < count; i++) {
        unsigned char *local = all + (size_t)i * (LOCAL + length);
        unsigned char *central = all + directory + (size_t)i * (CENTRAL + length);
        name_of(text, i);
        (void)put_number(local, 0x04034b50, 4);
        (void)put_number(local + 26, length, 2);
        memcpy(local + LOCAL, text, length);
        (void)put_number(central, 0x02014b50, 4);
        (void)put_number(central + 28, length, 2);
        (void)put_number(central + 42, (uint64_t)i * (LOCAL + length), 4);
        memcpy(central + CENTRAL, text, length);
    }
    unsigned char *end = all + directory + bytes;
    end = put_number(put_number(end, 0x06064b50, 4), 44, 8);
    end = put_number(put_number(end, 45, 4), 0, 8); /* versions; disks */
    end = put_number(put_number(end, (uint64_t)count, 8), (uint64_t)count, 8);
    end = put_number(put_number(end, bytes, 8), directory, 8);
    end = put_number(put_number(end, 0x07064b50, 4), 0, 4);
    end = put_number(put_number(end, directory + bytes, 8), 1, 4);
    end = put_number(put_number(end, 0x06054b50, 4), 0, 4);
    end = put_number(put_number(end, 0xffffffff, 4), 0xffffffff, 4); /* all of them above */
    (void)put_number(put_number(end, 0xffffffff, 4), 0, 2);
    put_bytes(f, name, all, directory + bytes + ENDS);
    free(all);
}

static void members_of_archives_are_bounded(void **state) {
    enum { MEMBERS_MAX = 10000 };
    fixture *f = *state;
    cst_npy *npy = NULL;
    put_members(f, "a.npz", MEMBERS_MAX, number_name);
    expect_error(f, cst_npy_open(f->context, &f->scope, &npy, at(f, "a.npz#none"), 0),
                 CST_ERROR_INPUT, "a.npz: has no array 'none'; it holds 00000000, 00000001, ",
                 NULL);
    put_members(f, "a.npz", MEMBERS_MAX + 1, number_name);
    expect_error(f, cst_npy_open(f->context, &f->scope, &npy, at(f, "a.npz#00000000"), 0),
                 CST_ERROR_LIMIT, "a.npz: has 10001 members; the limit is 10000", NULL);
}

/* libzip compares such names one by one: their number is bounded, not their time. */
static void names_that_collide(void **state) {
    fixture *f = *state;
    cst_npy *npy = NULL;
    put_members(f, "a.npz", 1 << 12, colliding_name);
    expect_error(f, cst_npy_open(f->context, &f->scope, &npy, at(f, "a.npz#none"), 0),
                 CST_ERROR_INPUT, "a.npz: has no array 'none'; it holds AzAz", NULL);
}

/* Long names that differ at their ends: the directory is bounded, and not only its count. */
static void directories_of_archives_are_bounded(void **state) {
    enum { RECORD = 46, NAME = 65000, RECORDS = 520 };
    fixture *f = *state;
    cst_npy *npy = NULL;
    size_t bytes = (size_t)RECORDS * (RECORD + NAME);
    unsigned char *all = calloc(bytes + 22, 1);
    assert_non_null(all);
    for (int i = 0; i < RECORDS; i++) {
        unsigned char *record = all + (size_t)i * (RECORD + NAME);
        char name[33];
        (void)snprintf(name, sizeof name, "%032d", i);
        (void)put_number(record, 0x02014b50, 4);
        (void)put_number(record + 28, NAME, 2);
        memset(record + RECORD, 'a', NAME);
        memcpy(record + RECORD + NAME - 32, name, 32);
    }
    for (int records = RECORDS - 10; records <= RECORDS; records += 10) {
        size_t used = (size_t)records * (RECORD + NAME);
        unsigned char *end = all + used;
        memset(end, 0, 22);
        (void)put_number(end, 0x06054b50, 4);
        (void)put_number(put_number(end + 8, (uint64_t)records, 2), (uint64_t)records, 2);
        (void)put_number(end + 12, used, 4);
        put_bytes(f, "a.npz", all, used + 22);
        if (records < RECORDS)
            expect_error(f, cst_npy_open(f->context, &f->scope, &npy, at(f, "a.npz#none"), 0),
                         CST_ERROR_INPUT, "a.npz: has no array 'none'", NULL);
        else
            expect_error(f, cst_npy_open(f->context, &f->scope, &npy, at(f, "a.npz#none"), 0),
                         CST_ERROR_LIMIT,
                         "a.npz: its directory has 33823920 bytes; the limit is 33554432", NULL);
    }
    free(all);
}

/* One member of 64 GiB and a byte, as far as deflate could pack them: into a hole of the file. */
static void sizes_of_members_are_bounded(void **state) {
    enum { PACKED = 63000000, CENTRAL = 46 + 1 + 12 };
    fixture *f = *state;
    cst_npy *npy = NULL;
    unsigned char tail[CENTRAL + 22] = {0};
    (void)put_number(tail, 0x02014b50, 4);
    (void)put_number(tail + 10, 8, 2); /* deflated */
    (void)put_number(tail + 20, PACKED, 4);
    (void)put_number(tail + 24, 0xffffffff, 4); /* what follows the name */
    (void)put_number(put_number(tail + 28, 1, 2), 12, 2);
    tail[46] = 'a';
    (void)put_number(put_number(tail + 47, 1, 2), 8, 2);
    (void)put_number(tail + 51, ((uint64_t)64 << 30) + 1, 8);
    unsigned char *end = put_number(put_number(tail + CENTRAL, 0x06054b50, 4), 0, 4);
    end = put_number(put_number(end, 1, 2), 1, 2);
    (void)put_number(put_number(end, CENTRAL, 4), PACKED, 4);
    unsigned char local[31] = {0};
    (void)put_number(local, 0x04034b50, 4);
    (void)put_number(local + 26, 1, 2);
    local[30] = 'a';
    put_bytes(f, "a.npz", local, sizeof local);
    FILE *file = fopen(at(f, "a.npz"), "r+b");
    assert_non_null(file);
    assert_int_equal(fseek(file, PACKED, SEEK_SET), 0);
    assert_int_equal(fwrite(tail, sizeof tail, 1, file), 1);
    assert_int_equal(fclose(file), 0);
    expect_error(f, cst_npy_open(f->context, &f->scope, &npy, at(f, "a.npz"), 0), CST_ERROR_LIMIT,
                 "a.npz#a: declares 68719476737 bytes; the limit for an archive member is "
                 "68719476736 ",
                 NULL);
}

static void cells_of_a_record_are_bounded(void **state) {
    enum { CELLS_MAX = 1 << 24 };
    fixture *f = *state;
    CST_SCOPE(scope);
    cst_row_file *rows = NULL;
    char *text = malloc(CELLS_MAX);
    assert_non_null(text);
    memset(text, ',', CELLS_MAX);
    put_bytes(f, "a.csv", text, CELLS_MAX);
    free(text);
    expect_error(f, rows_of(f, scope, &rows, at(f, "a.csv"), 0), CST_ERROR_LIMIT,
                 "a.csv: line 1 has more than 16777216 cells", NULL);
}

/* The size is believed where the file has it: a file of holes. */
static void bytes_of_models_are_bounded(void **state) {
    fixture *f = *state;
    cst_model *model = NULL;
    unsigned char header[CST_MODEL_HEADER_BYTES] = {0};
    memcpy(header, CST_MODEL_MAGIC, CST_MODEL_MAGIC_BYTES);
    (void)put_number(header + 16, CST_MODEL_BYTES_MAX + 1, 8);
    put_bytes(f, "a.cstack", header, sizeof header);
    assert_int_equal(truncate(at(f, "a.cstack"), (off_t)CST_MODEL_BYTES_MAX + 1), 0);
    expect_error(
        f, cst_model_load(f->context, &model, at(f, "a.cstack")), CST_ERROR_LIMIT,
        "a.cstack: byte 16: declares 1073741825 bytes; corestack models have at most 1073741824",
        NULL);
}

/* ---- counts and texts ---- */

/* A manifest of so many splits and models, each a name. */
static void put_manifest(fixture *f, int splits, int models) {
    FILE *file = fopen(at(f, "pool.json"), "w");
    assert_non_null(file);
    (void)fprintf(file, "{\"corestack_pool\": 1, \"classes\": 2, \"splits\": {");
    for (int s = 0; s < splits; s++)
        (void)fprintf(file, "%s\"s%d\": {}", s ? ", " : "", s);
    (void)fprintf(file, "}, \"models\": [");
    for (int k = 0; k < models; k++)
        (void)fprintf(file, "%s{\"name\": \"m%d\", \"predictions\": {}}", k ? ", " : "", k);
    (void)fprintf(file, "]}\n");
    assert_int_equal(fclose(file), 0);
}

static void counts_in_manifests_are_bounded(void **state) {
    static const struct {
        int splits, models;
        bool good;
    } cases[] = {{1, CST_MANIFEST_MEMBERS_MAX, true},
                 {1, CST_MANIFEST_MEMBERS_MAX + 1, false},
                 {CST_MANIFEST_SPLITS_MAX, 1, true},
                 {CST_MANIFEST_SPLITS_MAX + 1, 1, false},
                 {2048, 2049, false}};
    fixture *f = *state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        cst_manifest *manifest = NULL;
        put_manifest(f, cases[i].splits, cases[i].models);
        cst_status status =
            cst_manifest_read_as(f->context, &manifest, at(f, "pool.json"), false, NULL);
        if (cases[i].good) {
            assert_int_equal(status, CST_OK);
            assert_int_equal(manifest->member_count, cases[i].models);
            assert_int_equal(manifest->split_count, cases[i].splits);
        } else {
            expect_error(f, status, CST_ERROR_LIMIT, "pool.json", "split it into several pools",
                         NULL);
            assert_null(manifest);
        }
        cst_manifest_free(f->context, manifest);
    }
}

static void texts_of_manifests_are_printable(void **state) {
    static const struct {
        const char *text, *message;
    } cases[] = {
        {"{\"corestack_pool\": 1, \"classes\": [\"a\", \"b\\u001b[31m\"], \"splits\": {\"oof\": "
         "{}}, "
         "\"models\": [{\"name\": \"m\", \"predictions\": {}}]}",
         "classes[1] must be a non-empty name without control characters"},
        {"{\"corestack_pool\": 1, \"classes\": 2, \"splits\": {\"oof\": {\"domain\": \"a\\nb\"}}, "
         "\"models\": [{\"name\": \"m\", \"predictions\": {}}]}",
         "splits.oof.domain must be a non-empty string without control characters"}};
    fixture *f = *state;
    for (size_t i = 0; i < 2; i++) {
        cst_manifest *manifest = NULL;
        put_text(f, "pool.json", cases[i].text);
        expect_error(f,
                     cst_manifest_read_as(f->context, &manifest, at(f, "pool.json"), false, NULL),
                     CST_ERROR_INPUT, cases[i].message, NULL);
    }
}

/* What a caller put into a report may come from anywhere: as JSON it steers no terminal, and reads
 * back as it was. */
static void reports_are_printable(void **state) {
    fixture *f = *state;
    static const char text[] =
        "a\xC2\x9B"
        "31m\xE2\x80\xAE\x7F\xE2\x80\xA8\n\xF3\xA0\x81\x81\xC3\xA9\xE2\x80\x8C";
    cst_report *report = NULL;
    char *json = NULL;
    json_error_t error;
    expect_ok(f, cst_report_begin(f->context, CST_REPORT_FIT, &report));
    expect_ok(f, cst_report_set_string(f->context, report, "key", text));
    expect_ok(f, cst_report_json(f->context, report, &json));
    assert_non_null(
        strstr(json, "\"a\\u009b31m\\u202e\\u007f\\u2028\\n\\udb40\\udc41\xC3\xA9\xE2\x80\x8C\""));
    json_t *root = json_loads(json, 0, &error);
    assert_string_equal(json_string_value(json_object_get(root, "key")), text);
    json_decref(root);
    cst_free(f->context, json);
    cst_report_free(f->context, report);
}

static void messages_are_one_printable_line(void **state) {
    fixture *f = *state;
    (void)cst_fail(f->context, CST_ERROR_INPUT, "%s", "a\nb\x1b[31m\x7fé");
    assert_string_equal(cst_last_error(f->context), "a?b?[31m?é");
    /* C1, the turns of direction, breaks of lines, and what is no UTF-8 */
    (void)cst_fail(f->context, CST_ERROR_INPUT, "%s",
                   "a\xC2\x9B"
                   "31m\xE2\x80\xAE\xE2\x80\xA8\xE2\x81\xA6\xD8\x9Cz\x9B\xC2\xED\xA0\x80\xF0\x9F"
                   "\x98\x80\xE2\x80");
    assert_string_equal(cst_last_error(f->context), "a??31m???????????z?????\xF0\x9F\x98\x80??");
    char quoted[CST_QUOTE_CHARS];
    assert_string_equal(cst_quote(quoted, "a\xC2\x9B\xE2\x80\xAE\tb\xC3\xA9"), "a??????b\xC3\xA9");
    char name[2 * CST_QUOTE_CHARS] = "";
    for (int i = 0; i + 1 < CST_QUOTE_CHARS; i++)
        (void)strcat(name, "\xC3\xA9");
    assert_string_equal(cst_quote(quoted, name) + CST_QUOTE_CHARS - 4 - 2, "\xC3\xA9...");
    cst_notices_clear(f->context);
    cst_notice(f->context, "%s", "c\rd");
    assert_string_equal(cst_notice_at(f->context, 0), "c?d");
}

/* A text that goes on for ever costs no more than its first mebibyte. */
static void endless_texts_of_coco_files_are_refused(void **state) {
    static const struct {
        const char *begin;
        char fill;
    } cases[] = {{"{\"images\": [{\"file_name\": \"", 'x'},
                 {"{\"images\": [{\"id\": 1", '0'},
                 {"{\"images\": ", ' '}};
    enum { BYTES = 3 << 20 };
    fixture *f = *state;
    char *text = malloc(BYTES);
    assert_non_null(text);
    for (size_t i = 0; i < 3; i++) {
        cst_coco *coco = NULL;
        memset(text, cases[i].fill, BYTES);
        memcpy(text, cases[i].begin, strlen(cases[i].begin));
        put_bytes(f, "gt.json", text, BYTES);
        expect_error(f, cst_coco_read(f->context, &coco, at(f, "gt.json"), 0, true),
                     CST_ERROR_LIMIT, "gt.json: byte ", "more than 1048576 bytes", NULL);
    }
    free(text);
}

/* Texts of up to half of that are read, wherever they begin. */
static void long_texts_of_coco_files_are_read(void **state) {
    enum { LONG = 1 << 19 };
    fixture *f = *state;
    char *text = malloc(2 * LONG + 256);
    assert_non_null(text);
    size_t used = (size_t)sprintf(text, "{\"images\": [{\"id\": 1, \"file_name\": \"");
    memset(text + used, 'x', LONG);
    used += LONG;
    used += (size_t)sprintf(text + used, "\", \"more\": \"");
    memset(text + used, 'y', LONG);
    used += LONG;
    used += (size_t)sprintf(text + used, "\"}], \"categories\": [], \"annotations\": []}");
    put_bytes(f, "gt.json", text, used);
    cst_coco *coco = NULL;
    expect_ok(f, cst_coco_read(f->context, &coco, at(f, "gt.json"), 0, true));
    assert_int_equal(coco->images, 1);
    cst_coco_free(f->context, coco);
    free(text);
}

/* A log-linear pool of members without biases: its file has no bytes for the classes. */
static cst_model *pool_of_members(const fixture *f, int32_t members, int32_t classes) {
    cst_model *model = NULL;
    expect_ok(f, cst_stack_create(f->context, &model));
    model->task = CST_TASK_CLASSIFICATION;
    model->classes = classes;
    model->members = members;
    model->member_names =
        cst_take(f->context, &model->scope, (size_t)members, sizeof *model->member_names);
    model->mix = cst_take(f->context, &model->scope, (size_t)members, sizeof *model->mix);
    for (int k = 0; k < members; k++) {
        model->member_names[k] = cst_take_format(f->context, &model->scope, "m%d", k);
        model->mix[k] = 0.001;
    }
    model->learners = 1;
    model->learner = cst_take(f->context, &model->scope, 1, sizeof *model->learner);
    model->learner->kind = CST_LEARNER_LOGLINEAR;
    model->learner->blend = 1;
    model->learner->coefficients = members;
    model->learner->weights = cst_take(f->context, &model->scope, (size_t)members, sizeof(double));
    model->learner->bias = cst_take(f->context, &model->scope, 0, sizeof(double));
    return model;
}

/* Bytes that were asked for in all, none of them given back before the end. */
static void *counted_blocks(void *user, void *pointer, size_t bytes) {
    *(size_t *)user += bytes;
    if (bytes > 0)
        return realloc(pointer, bytes);
    free(pointer);
    return NULL;
}

/* Bytes that a model's file, itself of *size bytes, asks for until it can predict. */
static size_t bytes_of_predictor(const fixture *f, const cst_model *model, size_t *size) {
    uint8_t *bytes = NULL;
    cst_context *counting = NULL;
    cst_model *loaded = NULL;
    cst_predictor *predictor = NULL;
    size_t asked = 0;
    expect_ok(f, cst_stack_encode(f->context, model, &bytes, size));
    assert_int_equal(cst_context_create_with(&counting, counted_blocks, &asked), CST_OK);
    assert_int_equal(cst_model_load_memory(counting, &loaded, bytes, *size), CST_OK);
    assert_int_equal(cst_predictor_create(counting, &predictor, loaded), CST_OK);
    cst_predictor_free(counting, predictor);
    cst_model_free(counting, loaded);
    cst_context_free(counting);
    cst_free(f->context, bytes);
    return asked;
}

/* Classes without names take no bytes of a model file, and prediction takes memory for them. */
static void classes_of_models_are_bounded(void **state) {
    enum { MEMBERS = 9, CLASSES = 1400000 };
    const size_t mebibyte = (size_t)1 << 20;
    fixture *f = *state;
    uint8_t *bytes = NULL;
    size_t size = 0;
    cst_model *model = pool_of_members(f, MEMBERS, CST_MODEL_CLASSES_MAX);
    expect_error(f, cst_stack_encode(f->context, model, &bytes, &size), CST_ERROR_ARGUMENT,
                 "9 members of 16777216 classes are more than 134217728 numbers", NULL);
    model->classes = CST_MODEL_CLASSES_MAX / 2;
    expect_error(f, cst_stack_encode(f->context, model, &bytes, &size), CST_ERROR_ARGUMENT,
                 "a sample of 9 members, 8388608 classes and 1 meta-learners takes 771751936 bytes",
                 "the file is damaged, or made to exhaust memory", NULL);
    model->classes = CLASSES;
    size_t asked = bytes_of_predictor(f, model, &size);
    assert_true(size < 1000);
    assert_in_range(asked, 30 * mebibyte, CST_MODEL_SAMPLE_BYTES + mebibyte);
    cst_model_free(f->context, model);
}

/* Members take few bytes of a file, and a row of each is worked on at a time. */
static void members_of_models_take_little(void **state) {
    enum { MEMBERS = 100000 };
    fixture *f = *state;
    size_t size = 0;
    cst_model *model = pool_of_members(f, MEMBERS, 2);
    size_t asked = bytes_of_predictor(f, model, &size);
    assert_in_range(asked, size, 64 * size);
    cst_model_free(f->context, model);
}

/* ---- memory by what is claimed ---- */

enum { MAX = 1 << 20 };

/* Refuses blocks of more than MOST bytes. */
static void *small_blocks(void *user, void *pointer, size_t bytes) {
    (void)user;
    if (bytes == 0) {
        free(pointer);
        return NULL;
    }
    return bytes > MAX ? NULL : realloc(pointer, bytes);
}

/* What loading "oof" of the pool in the folder gives where large blocks are refused. */
static void expect_small(fixture *f, cst_status code, const char *says, const char *more) {
    cst_context *all = f->context;
    cst_pool *pool = NULL;
    assert_int_equal(cst_context_create_with(&f->context, small_blocks, NULL), CST_OK);
    cst_status status = cst_pool_open(f->context, &pool, at(f, "pool.json"), NULL);
    if (status == CST_OK)
        status = cst_pool_load(f->context, pool, "oof");
    cst_pool_free(f->context, pool);
    expect_error(f, status, code, says, more, NULL);
    cst_context_free(f->context);
    f->context = all;
}

static void arrays_without_pixels_take_no_memory(void **state) {
    fixture *f = *state;
    static const char *const splits[] = {"{\"labels\": \"masks.npy\"}", "{}"};
    put_npy(f, "masks.npy",
            "{'descr': '|u1', 'fortran_order': False, 'shape': (10000000000000, 0, 5)}", "", 0);
    put_npy(f, "a.npy",
            "{'descr': '<f4', 'fortran_order': False, 'shape': (10000000000000, 0, 5, 2)}", "", 0);
    for (int i = 0; i < 2; i++) {
        char text[256];
        (void)snprintf(text, sizeof text,
                       "{\"corestack_pool\": 1, \"task\": \"segmentation\", \"classes\": 2, "
                       "\"splits\": {\"oof\": %s}, \"models\": [{\"name\": \"a\", "
                       "\"predictions\": {\"oof\": \"a.npy\"}}]}",
                       splits[i]);
        put_text(f, "pool.json", text);
        expect_small(f, CST_ERROR_INPUT, i ? "a.npy: has shape" : "masks.npy: has shape",
                     "which has no pixels");
    }
}

/* Labels are repeated for conditions that a member has, not for those that a manifest claims. */
static void conditions_without_predictions_take_no_memory(void **state) {
    enum { ROWS = 4000, CONDITIONS = 2000 };
    fixture *f = *state;
    static int32_t labels[ROWS];
    static char text[256 + 4 * CONDITIONS];
    size_t used = (size_t)sprintf(text, "{\"corestack_pool\": 1, \"classes\": 2, \"splits\": "
                                        "{\"oof\": {\"labels\": \"y.npy\", \"conditions\": [{}");
    for (int i = 1; i < CONDITIONS; i++)
        used += (size_t)sprintf(text + used, ", {}");
    (void)sprintf(text + used, "]}}, \"models\": [{\"name\": \"a\", \"predictions\": "
                               "{\"oof\": \"a.npy\"}}]}");
    put_text(f, "pool.json", text);
    put_i32(f, "y.npy", labels, ROWS);
    put_f32(f, "a.npy", (const float[]){0.5f, 0.5f}, 1, 2);
    expect_small(f, CST_ERROR_MISMATCH, "a.npy: has shape (1, 2)", "2000 conditions");
}

/* A table of two rows takes two rows' memory, however many columns it has. */
static void columns_of_weights_take_what_they_hold(void **state) {
    enum { COLUMNS = 5000 };
    fixture *f = *state;
    static char text[12 * COLUMNS + 64];
    size_t used = (size_t)sprintf(text, "weight");
    for (int i = 1; i < COLUMNS; i++)
        used += (size_t)sprintf(text + used, ",w%d", i);
    for (int row = 0; row < 2; row++) {
        used += (size_t)sprintf(text + used, "\n1");
        for (int i = 1; i < COLUMNS; i++)
            used += (size_t)sprintf(text + used, ",1");
    }
    put_text(f, "w.csv", text);
    put_text(f, "pool.json",
             "{\"corestack_pool\": 1, \"classes\": 2, \"splits\": {\"oof\": {\"weights\": "
             "\"w.csv\"}}, \"models\": [{\"name\": \"a\", \"predictions\": {\"oof\": "
             "\"gone.npy\"}}]}");
    expect_small(f, CST_ERROR_IO, "gone.npy", "cannot open the file");
}

/* The parser's memory is not the context's: documents of too many values are not parsed. */
static void values_of_manifests_are_bounded(void **state) {
    enum { OBJECTS = 150000 };
    fixture *f = *state;
    char *text = malloc(3 * OBJECTS + 64);
    assert_non_null(text);
    for (int quoted = 0; quoted < 2; quoted++) {
        cst_manifest *manifest = NULL;
        size_t used = (size_t)sprintf(text, "{\"many\": %s", quoted ? "\"\\\"" : "[{}");
        for (int i = 1; i < OBJECTS; i++) {
            memcpy(text + used, ",{}", 3);
            used += 3;
        }
        (void)strcpy(text + used, quoted ? "\"}" : "]}");
        put_text(f, "pool.json", text);
        expect_ok(f, cst_context_set_memory(f->context, (size_t)64 << 20));
        cst_status status =
            cst_manifest_read_as(f->context, &manifest, at(f, "pool.json"), false, NULL);
        if (quoted)
            expect_error(f, status, CST_ERROR_INPUT, "unknown key 'many'", NULL);
        else
            expect_error(f, status, CST_ERROR_LIMIT, "pool.json", "takes 48 MiB; the limit is",
                         "MiB; the limit is 32", NULL);
        assert_null(manifest);
    }
    free(text);
}

int suite_hostile(void) {
#define FILES_TEST(name) cmocka_unit_test_setup_teardown(name, files_setup, files_teardown)
    const struct CMUnitTest tests[] = {
        FILES_TEST(members_of_archives_are_bounded),
        FILES_TEST(names_that_collide),
        FILES_TEST(directories_of_archives_are_bounded),
        FILES_TEST(sizes_of_members_are_bounded),
        FILES_TEST(cells_of_a_record_are_bounded),
        FILES_TEST(bytes_of_models_are_bounded),
        FILES_TEST(counts_in_manifests_are_bounded),
        FILES_TEST(texts_of_manifests_are_printable),
        FILES_TEST(reports_are_printable),
        FILES_TEST(messages_are_one_printable_line),
        FILES_TEST(endless_texts_of_coco_files_are_refused),
        FILES_TEST(long_texts_of_coco_files_are_read),
        FILES_TEST(classes_of_models_are_bounded),
        FILES_TEST(members_of_models_take_little),
        FILES_TEST(arrays_without_pixels_take_no_memory),
        FILES_TEST(conditions_without_predictions_take_no_memory),
        FILES_TEST(columns_of_weights_take_what_they_hold),
        FILES_TEST(values_of_manifests_are_bounded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
