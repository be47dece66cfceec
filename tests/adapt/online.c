/*
 * The online adapter: against NumPy (tests/oracles/online.py), labels that are late, missing or
 * wrong, its state as a file, a split as a stream, and memory that runs out.
 */
#include "fit/adapt/online.h"

#include "data/online.h"
#include "data/pool/pool.h"
#include "model/codec.h"
#include "model_fixture.h"
#include "report/report.h"
#include "temporary.h"

#include <stdio.h>
#include <unistd.h>

#include "check.h"

enum { WIDTH = ONLINE_CLASSES, CELLS = ONLINE_ROWS * ONLINE_CLASSES };

static const char *const NAMES[] = {"resnet50", "extra", "vit-b/16", "καλημέρα"};

static cst_adapter *adapter_of(cst_context *context, const cst_model *model, int64_t pending) {
    cst_adapter *adapter = NULL;
    const cst_adapter_options options = {.pending = pending};
    assert_int_equal(cst_adapter_create(context, &adapter, model, NAMES, ONLINE_MEMBERS, &options),
                     CST_OK);
    return adapter;
}

static cst_status observe(cst_context *context, cst_adapter *adapter, int row, int64_t rows,
                          float *out, int64_t *ticket) {
    const float *members[ONLINE_MEMBERS];
    for (int k = 0; k < ONLINE_MEMBERS; k++)
        members[k] = online_input + (size_t)k * CELLS + (size_t)row * WIDTH;
    return cst_adapter_observe(context, adapter, members, rows, out, ticket);
}

/* Rows first to end - 1 of the fixture with the labels that come after each. */
static void stream(cst_context *context, cst_adapter *adapter, int first, int end, float *out) {
    for (int i = first; i < end; i++) {
        int64_t ticket = -1;
        assert_int_equal(observe(context, adapter, i, 1, out + (size_t)i * WIDTH, &ticket), CST_OK);
        assert_int_equal(ticket, i);
        for (int l = 0; l < ONLINE_LABELS; l++)
            if (online_after[l] == i)
                assert_int_equal(
                    cst_adapter_label(context, adapter, online_ticket[l], online_label[l]), CST_OK);
    }
}

static void as_in_numpy(void **state) {
    cst_context *context = *state;
    static const double *const shifts[] = {online_shift_0, online_shift_1, online_shift_2,
                                           online_shift_3};
    cst_model *model = build_stack(context, 0);
    cst_adapter *adapter = adapter_of(context, model, 8);
    float out[CELLS];
    cst_adapter_state found;
    stream(context, adapter, 0, ONLINE_ROWS, out);
    for (int i = 0; i < CELLS; i++)
        assert_close((double)out[i], online_expected[i], 2e-5);
    for (int e = 0; e < CST_ONLINE_MIXED; e++)
        assert_close(adapter->mixture[e], online_mixture[e], 1e-5);
    for (int e = 0; e < adapter->experts; e++)
        assert_close(adapter->share[e], online_share[e], 1e-5);
    for (int n = 0; n <= CST_ONLINE_NEWTONS; n++) {
        const cst_newton *newton = n < CST_ONLINE_NEWTONS ? &adapter->newton[n] : &adapter->average;
        for (int j = 0; j < newton->size; j++)
            assert_relative(newton->shift[j], shifts[n][j], 1e-4, 0.1);
    }
    assert_int_equal(cst_adapter_get_state(context, adapter, &found), CST_OK);
    assert_true(found.observed == ONLINE_ROWS && found.labelled == ONLINE_LABELS);
    assert_true(found.dropped + found.waiting == ONLINE_ROWS - ONLINE_LABELS && found.dropped > 9);
    assert_close(found.stack_share + found.newton_share + found.average_share + found.members_share,
                 1, 1e-9);
    assert_true(found.loss < found.stack_loss);
    assert_string_equal(cst_adapter_member_name(adapter, 1), "extra");
    assert_null(cst_adapter_member_name(adapter, 4));
    cst_adapter_free(context, adapter);
    cst_model_free(context, model);
}

/* Without labels nothing moves. */
static void nothing_is_learned_without_labels(void **state) {
    cst_context *context = *state;
    cst_model *model = build_stack(context, 0);
    cst_adapter *adapter = adapter_of(context, model, 0);
    float out[CELLS];
    float again[WIDTH];
    int64_t ticket = 0;
    assert_int_equal(observe(context, adapter, 0, ONLINE_ROWS, out, &ticket), CST_OK);
    assert_int_equal(observe(context, adapter, 0, 1, again, &ticket), CST_OK);
    assert_int_equal(ticket, ONLINE_ROWS);
    assert_memory_equal(again, out, sizeof again);
    cst_adapter_free(context, adapter);
    cst_model_free(context, model);
}

/* Whatever comes, the adapter loses little more than the stack: -ln 0.9, and what fixed share gives
 * away in each row. */
static void never_much_worse_than_the_stack(void **state) {
    cst_context *context = *state;
    enum { ROUNDS = 30 };
    cst_model *model = build_stack(context, 0);
    cst_adapter *adapter = adapter_of(context, model, 0);
    float out[WIDTH];
    cst_adapter_state found;
    for (int i = 0; i < ROUNDS * ONLINE_ROWS; i++) {
        int64_t ticket = -1;
        assert_int_equal(observe(context, adapter, i % ONLINE_ROWS, 1, out, &ticket), CST_OK);
        /* the stack is right, and every other expert's lesson of the last row misleads */
        const float *stack = adapter->row + ONLINE_MEMBERS * WIDTH;
        int label = 0;
        for (int c = 1; c < WIDTH; c++)
            label = stack[c] > stack[label] ? c : label;
        assert_int_equal(cst_adapter_label(context, adapter, ticket, label), CST_OK);
    }
    assert_int_equal(cst_adapter_get_state(context, adapter, &found), CST_OK);
    double part = 1 - pow(0.95, 0.01);
    double rows = (double)found.labelled;
    assert_true((found.loss - found.stack_loss) * rows <=
                -log(0.9) - rows * log(1 - part / 10) + 1e-3);
    cst_adapter_free(context, adapter);
    cst_model_free(context, model);
}

/* Prediction sets, by the definition: of the label's score so far, with a level that moves. */
static void sets_as_defined(void **state) {
    cst_context *context = *state;
    enum { ROUNDS = 6, ALL = ROUNDS * ONLINE_ROWS };
    static double scores[ALL];
    cst_model *model = build_stack(context, 0);
    cst_adapter *adapter = adapter_of(context, model, 8);
    double level = 0.1;
    int64_t missed = 0;
    int64_t sizes = 0;
    cst_adapter_state found;
    for (int i = 0; i < ALL; i++) {
        float out[WIDTH];
        unsigned char set[WIDTH];
        int32_t size = 0;
        int64_t ticket = 0;
        int label = i * 7 % 11 % WIDTH;
        assert_int_equal(observe(context, adapter, i % ONLINE_ROWS, 1, out, &ticket), CST_OK);
        assert_int_equal(cst_adapter_set(context, adapter, ticket, set, &size), CST_OK);
        int n = i < CST_ACI_WINDOW ? i : CST_ACI_WINDOW;
        int counted = 0;
        for (int c = 0; c < WIDTH; c++) { /* in the set: not above too many of the scores */
            int below = 0;
            for (int k = i - n; k < i; k++)
                below += scores[k] < 1 - (double)out[c];
            bool in = level < 1 && (double)below < ceil((n + 1) * (1 - level) * (1 - 1e-15));
            assert_int_equal(set[c], in);
            counted += in;
        }
        assert_int_equal(size, counted);
        assert_int_equal(cst_adapter_label(context, adapter, ticket, label), CST_OK);
        scores[i] = 1 - (double)out[label];
        sizes += size;
        missed += !set[label];
        level += 0.02 * (0.1 - !set[label]);
    }
    assert_int_equal(cst_adapter_get_state(context, adapter, &found), CST_OK);
    assert_close(found.coverage, 1 - (double)missed / ALL, 1e-12);
    assert_close(found.set_size, (double)sizes / ALL, 1e-12);
    assert_close(found.coverage, 0.9, 0.1); /* whatever the labels are */
    cst_adapter_free(context, adapter);
    cst_model_free(context, model);
}

static void expect(cst_context *context, cst_status status, cst_status code, const char *fragment) {
    if (status != code || !strstr(cst_last_error(context), fragment))
        fail_msg("expected %s with '%s', got %s: %s", cst_status_name(code), fragment,
                 cst_status_name(status), cst_last_error(context));
}

static void wrong_labels_and_tickets(void **state) {
    cst_context *context = *state;
    cst_model *model = build_stack(context, 0);
    cst_adapter *adapter = adapter_of(context, model, 4);
    float out[CELLS];
    int64_t ticket = 0;
    for (int i = 0; i < 6; i++)
        assert_int_equal(observe(context, adapter, i, 1, out, &ticket), CST_OK);
    expect(context, cst_adapter_label(context, adapter, 6, 0), CST_ERROR_INPUT, "not given out");
    expect(context, cst_adapter_label(context, adapter, -1, 0), CST_ERROR_INPUT, "not given out");
    expect(context, cst_adapter_label(context, adapter, 1, 0), CST_ERROR_INPUT, "too old");
    expect(context, cst_adapter_label(context, adapter, 2, 5), CST_ERROR_INPUT, "0 to 4");
    expect(context, cst_adapter_label(context, adapter, 2, -1), CST_ERROR_INPUT, "no class");
    assert_int_equal(cst_adapter_label(context, adapter, 2, 4), CST_OK);
    expect(context, cst_adapter_label(context, adapter, 2, 4), CST_ERROR_INPUT, "already");
    expect(context, observe(context, adapter, 0, 5, out, &ticket), CST_ERROR_ARGUMENT, "5 rows");
    assert_int_equal(ticket, -1);
    assert_int_equal(adapter->next, 6);
    cst_adapter_free(context, adapter);
    cst_model_free(context, model);
}

/* A bad row among several: none of them is observed. */
static void wrong_rows(void **state) {
    cst_context *context = *state;
    cst_model *model = build_stack(context, 0);
    cst_adapter *adapter = adapter_of(context, model, 8);
    float rows[ONLINE_MEMBERS][3 * WIDTH];
    const float *members[ONLINE_MEMBERS];
    float out[3 * WIDTH];
    int64_t ticket = 0;
    for (int k = 0; k < ONLINE_MEMBERS; k++) {
        memcpy(rows[k], online_input + (size_t)k * CELLS, sizeof rows[k]);
        members[k] = rows[k];
    }
    rows[1][2 * WIDTH + 3] = NAN;
    expect(context, cst_adapter_observe(context, adapter, members, 3, out, &ticket),
           CST_ERROR_INPUT, "member 'extra', row 2, class 3: nan is not a probability");
    rows[1][2 * WIDTH + 3] = 0.5F;
    expect(context, cst_adapter_observe(context, adapter, members, 3, out, &ticket),
           CST_ERROR_INPUT, "instead of 1");
    members[2] = NULL;
    expect(context, cst_adapter_observe(context, adapter, members, 3, out, &ticket),
           CST_ERROR_ARGUMENT, "'vit-b/16', are missing");
    assert_true(adapter->next == 0 && adapter->waiting == 0);
    cst_adapter_free(context, adapter);
    cst_model_free(context, model);
}

static void wrong_adapters(void **state) {
    cst_context *context = *state;
    static const char *const twice[] = {"resnet50", "vit-b/16", "καλημέρα", "vit-b/16"};
    cst_model *model = build_stack(context, 0);
    cst_model *values = build_stack(context, 3);
    cst_adapter *adapter = NULL;
    cst_adapter_options options = {.pending = -1};
    expect(context, cst_adapter_create(context, &adapter, values, NULL, 0, NULL),
           CST_ERROR_UNSUPPORTED, "not supported for regression");
    expect(context, cst_adapter_create(context, &adapter, model, NAMES, 3, NULL),
           CST_ERROR_MISMATCH, "needs member 'καλημέρα'");
    expect(context, cst_adapter_create(context, &adapter, model, twice, 4, NULL), CST_ERROR_INPUT,
           "'vit-b/16' is named twice");
    expect(context, cst_adapter_create(context, &adapter, model, NULL, 0, &options),
           CST_ERROR_ARGUMENT, "pending is -1");
    assert_null(adapter);
    assert_int_equal(cst_adapter_create(context, &adapter, model, NULL, 0, NULL), CST_OK);
    assert_int_equal(cst_adapter_members(adapter), 3);
    assert_int_equal(adapter->capacity, 10000);
    cst_adapter_free(context, adapter);
    cst_model_free(context, values);
    cst_model_free(context, model);
}

/* ---- the state as a file ---- */

static size_t read_all(const char *path, unsigned char *bytes, size_t room) {
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    size_t size = fread(bytes, 1, room, file);
    (void)fclose(file);
    return size;
}

static void write_all(const char *path, const unsigned char *bytes, size_t size) {
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, size, file), size);
    (void)fclose(file);
}

enum { FILE_ROOM = 1 << 17 };

static void goes_on_where_it_stopped(void **state) {
    cst_context *context = *state;
    static unsigned char files[2][FILE_ROOM];
    cst_model *model = build_stack(context, 0);
    float whole[CELLS];
    float parts[CELLS];
    char path[TEMPORARY_CHARS];
    size_t sizes[2];
    temporary_path(path, sizeof path, "adapter");
    (void)close(mkstemp(path));
    cst_adapter *adapter = adapter_of(context, model, 8);
    stream(context, adapter, 0, ONLINE_ROWS, whole);
    assert_int_equal(cst_adapter_save(context, adapter, path), CST_OK);
    sizes[0] = read_all(path, files[0], FILE_ROOM);
    cst_adapter_free(context, adapter);
    adapter = adapter_of(context, model, 8);
    for (int i = 0; i < ONLINE_ROWS; i++) {
        stream(context, adapter, i, i + 1, parts);
        assert_int_equal(cst_adapter_save(context, adapter, path), CST_OK);
        cst_adapter_free(context, adapter);
        assert_int_equal(cst_adapter_load(context, &adapter, model, path), CST_OK);
    }
    sizes[1] = read_all(path, files[1], FILE_ROOM);
    assert_memory_equal(parts, whole, sizeof whole);
    assert_true(sizes[0] < FILE_ROOM && sizes[0] == sizes[1]);
    assert_memory_equal(files[0], files[1], sizes[0]);
    cst_adapter_free(context, adapter);
    (void)unlink(path);
    cst_model_free(context, model);
}

static void damaged_states(void **state) {
    cst_context *context = *state;
    static unsigned char bytes[FILE_ROOM];
    cst_model *model = build_stack(context, 0);
    cst_model *other = build_stack(context, 1);
    float out[CELLS];
    char path[TEMPORARY_CHARS];
    temporary_path(path, sizeof path, "adapter");
    (void)close(mkstemp(path));
    cst_adapter *adapter = adapter_of(context, model, 8);
    stream(context, adapter, 0, 10, out);
    assert_int_equal(cst_adapter_save(context, adapter, path), CST_OK);
    cst_adapter_free(context, adapter);
    size_t size = read_all(path, bytes, FILE_ROOM);
    expect(context, cst_adapter_load(context, &adapter, other, path), CST_ERROR_MISMATCH,
           "another model");
    for (size_t cut = 0; cut < size; cut += cut < 64 || cut + 16 > size ? 1 : 97) {
        write_all(path, bytes, cut);
        cst_status status = cst_adapter_load(context, &adapter, model, path);
        if ((status != CST_ERROR_FORMAT && status != CST_ERROR_IO) || adapter)
            fail_msg("cut to %zu bytes: %s", cut, cst_last_error(context));
    }
    for (size_t at = 0; at < size; at += 61) {
        bytes[at] ^= 0x10;
        write_all(path, bytes, size);
        cst_status status = cst_adapter_load(context, &adapter, model, path);
        if (status == CST_OK || adapter)
            fail_msg("byte %zu changed, and nothing was said", at);
        bytes[at] ^= 0x10;
    }
    bytes[8] = 2;
    write_all(path, bytes, size);
    expect(context, cst_adapter_load(context, &adapter, model, path), CST_ERROR_UNSUPPORTED,
           "version 2");
    (void)unlink(path);
    cst_model_free(context, other);
    cst_model_free(context, model);
}

/* A checksum that fits does not make numbers possible: every word becomes huge, negative, NaN. */
static void hostile_states(void **state) {
    cst_context *context = *state;
    static unsigned char bytes[FILE_ROOM];
    static unsigned char changed[FILE_ROOM];
    cst_model *model = build_stack(context, 0);
    float out[CELLS];
    int64_t ticket = 0;
    char path[TEMPORARY_CHARS];
    temporary_path(path, sizeof path, "adapter");
    (void)close(mkstemp(path));
    cst_adapter *adapter = adapter_of(context, model, 8);
    stream(context, adapter, 0, 10, out);
    assert_int_equal(cst_adapter_save(context, adapter, path), CST_OK);
    cst_adapter_free(context, adapter);
    size_t size = read_all(path, bytes, FILE_ROOM);
    for (size_t at = 12; at + 12 <= size; at += at < 300 ? 1 : 51) {
        memcpy(changed, bytes, size);
        memset(changed + at, at % 3 == 0 ? 0xff : at % 3 == 1 ? 0x7f : 0, 8);
        uint32_t sum = cst_crc32c(changed, size - 4);
        for (int i = 0; i < 4; i++)
            changed[size - 4 + (size_t)i] = (unsigned char)(sum >> (8 * i));
        write_all(path, changed, size);
        if (cst_adapter_load(context, &adapter, model, path) != CST_OK)
            continue;
        assert_int_equal(observe(context, adapter, 10, 1, out, &ticket), CST_OK);
        assert_int_equal(cst_adapter_label(context, adapter, ticket, 1), CST_OK);
        assert_int_equal(observe(context, adapter, 11, 1, out, &ticket), CST_OK);
        for (int c = 0; c < WIDTH; c++)
            assert_true(out[c] >= 0 && out[c] <= 1.01F);
        cst_adapter_free(context, adapter);
    }
    (void)unlink(path);
    cst_model_free(context, model);
}

/* ---- a split as a stream ---- */

static cst_pool *pool_of(cst_context *context, int first, int rows, bool gaps) {
    const float *members[ONLINE_MEMBERS];
    int32_t labels[ONLINE_ROWS] = {0};
    cst_pool *pool = NULL;
    for (int k = 0; k < ONLINE_MEMBERS; k++)
        members[k] = online_input + (size_t)k * CELLS + (size_t)first * WIDTH;
    for (int i = 0; i < rows; i++)
        labels[i] = (first + i) * 3 % 5;
    assert_int_equal(cst_pool_from_memory(context, &pool, "test", members, NAMES, ONLINE_MEMBERS,
                                          rows, ONLINE_CLASSES, labels, CST_OUTPUT_PROBABILITY),
                     CST_OK);
    for (int i = 0; gaps && i < rows; i++) /* as a pool of files with missing labels has them */
        if ((first + i) % 4 == 1)
            ((int32_t *)(uintptr_t)cst_pool_labels(pool, "test"))[i] = -1;
    return pool;
}

/* In one go, in two pools with a file between them, and by hand. */
static void a_split_is_a_stream(void **state) {
    cst_context *context = *state;
    enum { DELAY = 3, CUT = 41 };
    const cst_online_options options = {.split = "test", .delay = DELAY, .block = 20};
    cst_model *model = build_stack(context, 0);
    char path[TEMPORARY_CHARS];
    float *found[3] = {NULL};
    float by_hand[CELLS];
    int64_t rows = 0;
    cst_report *report = NULL;
    temporary_path(path, sizeof path, "adapter");
    (void)close(mkstemp(path));
    cst_pool *pools[] = {pool_of(context, 0, ONLINE_ROWS, true), pool_of(context, 0, CUT, true),
                         pool_of(context, CUT, ONLINE_ROWS - CUT, true)};
    cst_adapter *adapter = adapter_of(context, model, 8);
    assert_int_equal(cst_online(context, adapter, pools[0], &options, &found[0], &rows, &report),
                     CST_OK);
    assert_int_equal(rows, ONLINE_ROWS);
    const json_t *root = report->root;
    assert_int_equal(json_integer_value(json_object_get(root, "labelled")), 65);
    assert_int_equal(json_integer_value(json_object_get(root, "unlabelled")), 23);
    assert_int_equal(json_array_size(json_object_get(json_object_get(root, "series"), "stack")), 5);
    cst_report_free(context, report);
    cst_adapter_free(context, adapter);

    adapter = adapter_of(context, model, 8);
    assert_int_equal(cst_online(context, adapter, pools[1], &options, &found[1], NULL, NULL),
                     CST_OK);
    assert_int_equal(cst_adapter_save(context, adapter, path), CST_OK);
    cst_adapter_free(context, adapter);
    assert_int_equal(cst_adapter_load(context, &adapter, model, path), CST_OK);
    assert_int_equal(cst_online(context, adapter, pools[2], &options, &found[2], NULL, NULL),
                     CST_OK);
    assert_memory_equal(found[1], found[0], (size_t)CUT * WIDTH * sizeof(float));
    assert_memory_equal(found[2], found[0] + (size_t)CUT * WIDTH,
                        (size_t)(ONLINE_ROWS - CUT) * WIDTH * sizeof(float));
    cst_adapter_free(context, adapter);

    adapter = adapter_of(context, model, 8);
    for (int i = 0; i < ONLINE_ROWS; i++) {
        int64_t ticket = 0;
        assert_int_equal(observe(context, adapter, i, 1, by_hand + (size_t)i * WIDTH, &ticket),
                         CST_OK);
        int due = i - DELAY;
        if (due >= 0 && due % 4 != 1)
            assert_int_equal(cst_adapter_label(context, adapter, due, due * 3 % 5), CST_OK);
    }
    for (int i = 0; i < CELLS; i++) /* a pool divides every row by its sum */
        assert_close((double)found[0][i], (double)by_hand[i], 1e-6);
    cst_adapter_free(context, adapter);
    for (int i = 0; i < 3; i++) {
        cst_free(context, found[i]);
        cst_pool_free(context, pools[i]);
    }
    (void)unlink(path);
    cst_model_free(context, model);
}

static void wrong_streams(void **state) {
    cst_context *context = *state;
    cst_model *model = build_stack(context, 0);
    cst_adapter *adapter = adapter_of(context, model, 8);
    cst_pool *pool = pool_of(context, 0, 10, false);
    cst_online_options options = {.split = "test", .delay = 8};
    expect(context, cst_online(context, adapter, pool, &options, NULL, NULL, NULL),
           CST_ERROR_ARGUMENT, "a delay of 8 rows is not from 0 to 7");
    options = (cst_online_options){.split = "later"};
    expect(context, cst_online(context, adapter, pool, &options, NULL, NULL, NULL),
           CST_ERROR_MISMATCH, "no split 'later'");
    options = (cst_online_options){.split = "test", .block = -1};
    expect(context, cst_online(context, adapter, pool, &options, NULL, NULL, NULL),
           CST_ERROR_ARGUMENT, "block");
    assert_int_equal(adapter->next, 0);
    cst_pool_free(context, pool);
    cst_adapter_free(context, adapter);
    cst_model_free(context, model);
}

/* ---- memory that runs out ---- */

/* Creating, saving and loading with every allocation failing once; the adapter stays as it was. */
static void failing_memory(void **state) {
    (void)state;
    static unsigned char files[2][FILE_ROOM];
    char path[TEMPORARY_CHARS];
    flaky_heap heap = {.left = -1};
    cst_context *context = NULL;
    float out[CELLS];
    temporary_path(path, sizeof path, "adapter");
    (void)close(mkstemp(path));
    assert_int_equal(cst_context_create_with(&context, flaky_realloc, &heap), CST_OK);
    cst_model *model = build_stack(context, 0);
    cst_adapter *adapter = adapter_of(context, model, 8);
    cst_adapter *made = NULL;
    stream(context, adapter, 0, 20, out);
    assert_int_equal(cst_adapter_save(context, adapter, path), CST_OK);
    size_t size = read_all(path, files[0], FILE_ROOM);
    long live = heap.live;
    for (int call = 0; call < 3; call++)
        for (long at = 0;; at++) {
            heap.left = at;
            cst_status status = call == 0
                                    ? cst_adapter_create(context, &made, model, NAMES, 4, NULL)
                                : call == 1 ? cst_adapter_load(context, &made, model, path)
                                            : cst_adapter_save(context, adapter, path);
            heap.left = -1;
            assert_true(status == CST_OK || status == CST_ERROR_MEMORY);
            assert_true(call == 2 || (status == CST_OK) == (made != NULL));
            cst_adapter_free(context, made);
            made = NULL;
            assert_int_equal(read_all(path, files[1], FILE_ROOM), size);
            assert_memory_equal(files[0], files[1], size);
            if (status == CST_OK)
                break;
            assert_true(at < 1000);
        }
    assert_true(heap.live <= live + 4); /* what a context keeps of files */
    heap.left = 0;                      /* a row and a label take no memory */
    int64_t ticket = 0;
    assert_int_equal(observe(context, adapter, 20, 1, out, &ticket), CST_OK);
    assert_int_equal(cst_adapter_label(context, adapter, ticket, 2), CST_OK);
    heap.left = -1;
    cst_adapter_free(context, adapter);
    cst_model_free(context, model);
    cst_context_free(context);
    assert_int_equal(heap.live, 0);
    (void)unlink(path);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, context_setup, context_teardown)

int suite_online(void) {
    const struct CMUnitTest tests[] = {
        TEST(as_in_numpy),
        TEST(nothing_is_learned_without_labels),
        TEST(never_much_worse_than_the_stack),
        TEST(sets_as_defined),
        TEST(wrong_labels_and_tickets),
        TEST(wrong_rows),
        TEST(wrong_adapters),
        TEST(goes_on_where_it_stopped),
        TEST(damaged_states),
        TEST(hostile_states),
        TEST(a_split_is_a_stream),
        TEST(wrong_streams),
        cmocka_unit_test(failing_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
