/*
 * Soups against NumPy's greedy choice, on linear softmax models that a hook in this program
 * predicts with; what a hook that fails leaves behind.
 */
#include "data/soup.h"
#include "core/base.h"
#include "data/readers/safetensors.h"
#include "tensor_file.h"

#include <corestack/files.h>
#include <corestack/more.h>

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "check.h"
#include "temporary.h"

enum { PATH_CHARS = 256 };

typedef struct kitchen {
    cst_context *context;
    char folder[64];
    char paths[SOUP_MODELS][PATH_CHARS];
    const char *list[SOUP_MODELS];
    char labels[PATH_CHARS];
    char out[PATH_CHARS];
    int calls;
    int fail_at; /* the call that fails; 0: none does */
    cst_status fail_with;
    int change_at; /* the call at which the files change; 0: they do not */
    int nan_at;    /* the call that predicts NaN; 0: none does */
    bool replace;  /* by others of their names; else the bytes in them */
    cst_soup_config config;
} kitchen;

static void change_files(const kitchen *k);

/* ---- the hook ---- */

static void load(cst_context *context, const cst_safetensors *file, const char *name,
                 int64_t elements, double *out) {
    int64_t tensor = cst_safetensors_find(file, name);
    assert_int_equal(cst_safetensors_elements(file, tensor), elements);
    assert_int_equal(cst_safetensors_read_f64(context, file, tensor, 0, elements, out), CST_OK);
}

static cst_status predict(cst_context *context, void *user, const char *candidate,
                          const char *predictions) {
    kitchen *k = user;
    double weight[SOUP_CLASSES * SOUP_COLUMNS];
    double bias[SOUP_CLASSES];
    float out[SOUP_ROWS * SOUP_CLASSES];
    cst_safetensors *file = NULL;
    cst_context *entered = NULL;
    assert_int_equal(cst_context_enter(context, &entered), CST_OK);
    cst_notice(entered, "said by the hook");
    cst_context_leave(&entered);
    if (k->calls + 1 == k->change_at)
        change_files(k);
    if (++k->calls == k->fail_at)
        return k->fail_with == CST_ERROR_INTERNAL
                   ? k->fail_with
                   : cst_soup_fail(context, k->fail_with, "the oven is cold");
    assert_int_equal(cst_safetensors_open(context, &file, candidate), CST_OK);
    load(context, file, "weight", SOUP_CLASSES * SOUP_COLUMNS, weight);
    load(context, file, "bias", SOUP_CLASSES, bias);
    cst_safetensors_close(context, file);
    for (int i = 0; i < SOUP_ROWS; i++) {
        double scores[SOUP_CLASSES];
        double sum = 0;
        for (int c = 0; c < SOUP_CLASSES; c++) {
            scores[c] = bias[c];
            for (int j = 0; j < SOUP_COLUMNS; j++)
                scores[c] += weight[c * SOUP_COLUMNS + j] * SOUP_X[i * SOUP_COLUMNS + j];
            sum += exp(scores[c]);
        }
        for (int c = 0; c < SOUP_CLASSES; c++)
            out[i * SOUP_CLASSES + c] = (float)(exp(scores[c]) / sum);
    }
    if (k->calls == k->nan_at)
        out[SOUP_CLASSES] = NAN;
    return cst_write_predictions(context, predictions, out, SOUP_ROWS, SOUP_CLASSES);
}

/* ---- the kitchen ---- */

static void write_model(const char *path, int model) {
    const int64_t shape[2] = {SOUP_CLASSES, SOUP_COLUMNS};
    tensor_file *file = tensor_file_new();
    tensor_file_doubles(file, tensor_file_add(file, "weight", CST_DTYPE_F32, shape, 2),
                        SOUP_WEIGHT + model * SOUP_CLASSES * SOUP_COLUMNS,
                        SOUP_CLASSES * SOUP_COLUMNS);
    tensor_file_doubles(file, tensor_file_add(file, "bias", CST_DTYPE_F32, shape, 1),
                        SOUP_BIAS + model * SOUP_CLASSES, SOUP_CLASSES);
    tensor_file_write(file, path);
}

static void change_files(const kitchen *k) {
    for (int i = 0; i < SOUP_MODELS; i++) {
        if (k->replace) {
            (void)unlink(k->paths[i]);
            write_model(k->paths[i], (i + 1) % SOUP_MODELS);
            continue;
        }
        FILE *file = fopen(k->paths[i], "r+b");
        assert_true(file && fseek(file, -4, SEEK_END) == 0);
        int byte = fgetc(file);
        assert_int_equal(fseek(file, -4, SEEK_END), 0);
        assert_true(fputc(byte ^ 1, file) >= 0 && fclose(file) == 0);
    }
}

static int setup(void **state) {
    kitchen *k = calloc(1, sizeof *k);
    if (!k || cst_context_create(&k->context) != CST_OK)
        return 1;
    /* In memory where there is such a folder: candidates are many. */
    (void)snprintf(k->folder, sizeof k->folder, "%s/cst_soup_XXXXXX",
                   access("/dev/shm", W_OK) == 0 ? "/dev/shm" : temporary_folder());
    if (!mkdtemp(k->folder))
        return 1;
    for (int i = 0; i < SOUP_MODELS; i++) {
        (void)snprintf(k->paths[i], PATH_CHARS, "%s/m%d.safetensors", k->folder, i);
        k->list[i] = k->paths[i];
        write_model(k->paths[i], i);
    }
    (void)snprintf(k->labels, PATH_CHARS, "%s/y.npy", k->folder);
    (void)snprintf(k->out, PATH_CHARS, "%s/soup.safetensors", k->folder);
    k->config = (cst_soup_config){.hook = predict, .user = k, .labels = k->labels};
    *state = k;
    return cst_write_folds(k->context, k->labels, SOUP_Y, SOUP_ROWS) != CST_OK;
}

static int teardown(void **state) {
    kitchen *k = *state;
    for (int i = 0; i < SOUP_MODELS; i++)
        (void)unlink(k->paths[i]);
    (void)unlink(k->labels);
    (void)unlink(k->out);
    int left = rmdir(k->folder); /* nothing else may be in it */
    cst_context_free(k->context);
    free(k);
    return left;
}

/* The report as JSON, for cst_free. */
static void take_json(kitchen *k, cst_report *report, char **out) {
    *out = NULL;
    assert_int_equal(cst_report_json(k->context, report, out), CST_OK);
    cst_report_free(k->context, report);
}

/* The number behind `"key": ` at the document's own level. */
static double number_of(const char *text, const char *key) {
    char wanted[64];
    (void)snprintf(wanted, sizeof wanted, "\n  \"%s\": ", key);
    const char *at = strstr(text, wanted);
    assert_non_null(at);
    return cst_strtod(at + strlen(wanted), NULL);
}

/* ---- what is chosen ---- */

static void greedy_is_recipe_1(void **state) {
    kitchen *k = *state;
    const int32_t *const wanted[] = {SOUP_GREEDY_NLL, SOUP_GREEDY_TOP1};
    const double scores[] = {SOUP_GREEDY_NLL_SCORE, SOUP_GREEDY_TOP1_SCORE};
    const char *const metrics[] = {"nll", NULL}; /* top1 is the usual one */
    for (int m = 0; m < 2; m++) {
        cst_report *report = NULL;
        k->config.metric = metrics[m];
        assert_int_equal(
            cst_soup_greedy(k->context, k->list, SOUP_MODELS, &k->config, k->out, &report), CST_OK);
        char *text = NULL;
        take_json(k, report, &text);
        const char *chosen = strstr(text, "\n  \"chosen\"");
        assert_non_null(chosen);
        size_t length = strcspn(chosen, "]");
        for (int i = 0; i < SOUP_MODELS; i++) {
            char name[32];
            (void)snprintf(name, sizeof name, "/m%d.safetensors\"", i);
            const char *at = strstr(chosen, name);
            assert_int_equal(at != NULL && at < chosen + length, wanted[m][i]);
        }
        assert_close(number_of(text, "score"), scores[m], 1e-6);
        assert_null(strstr(text, "said by the hook")); /* its calls have notices of their own */
        cst_free(k->context, text);
    }
    assert_int_equal(k->calls, 2 * (2 * SOUP_MODELS - 1));
}

static unsigned char *slurp(const char *path, size_t *bytes) {
    FILE *file = fopen(path, "rb");
    unsigned char *data = malloc(1 << 16);
    assert_true(file && data);
    *bytes = fread(data, 1, 1 << 16, file);
    (void)fclose(file);
    return data;
}

static void one_file_is_a_soup(void **state) {
    kitchen *k = *state;
    size_t bytes[2];
    assert_int_equal(cst_soup_greedy(k->context, k->list, 1, &k->config, k->out, NULL), CST_OK);
    unsigned char *greedy = slurp(k->out, &bytes[0]);
    assert_int_equal(cst_soup_uniform(k->context, k->list, 1, k->out, NULL), CST_OK);
    unsigned char *uniform = slurp(k->out, &bytes[1]);
    assert_int_equal(bytes[0], bytes[1]);
    assert_memory_equal(greedy, uniform, bytes[0]);
    free(greedy);
    free(uniform);
}

/* ---- what fails ---- */

static void hooks_that_fail(void **state) {
    kitchen *k = *state;
    cst_report *report = NULL;
    k->fail_at = 3;
    k->fail_with = CST_ERROR_LIMIT;
    assert_int_equal(cst_soup_greedy(k->context, k->list, SOUP_MODELS, &k->config, k->out, &report),
                     CST_ERROR_LIMIT);
    assert_string_equal(cst_last_error(k->context), "the oven is cold");
    assert_null(report);
    assert_int_equal(access(k->out, F_OK), -1);
    k->calls = 0;
    k->fail_at = 1;
    k->fail_with = CST_ERROR_INTERNAL; /* without a word */
    assert_int_equal(cst_soup_greedy(k->context, k->list, SOUP_MODELS, &k->config, k->out, NULL),
                     CST_ERROR_INTERNAL);
    assert_non_null(strstr(cst_last_error(k->context), "gave no reason"));
    k->calls = 0;
    k->fail_at = 0;
    assert_int_equal(cst_soup_greedy(k->context, k->list, SOUP_MODELS, &k->config, k->out, NULL),
                     CST_OK);
    assert_int_equal(k->calls, 2 * SOUP_MODELS - 1);
    assert_int_equal(cst_soup_fail(k->context, CST_OK, "x"), CST_ERROR_INTERNAL);
    assert_int_equal(cst_soup_fail(k->context, (cst_status)99, "x"), CST_ERROR_INTERNAL);
}

typedef struct pantry {
    int64_t given;
    int64_t fail_at; /* the allocation that fails; -1: none does */
} pantry;

static void *give(void *user, void *pointer, size_t bytes) {
    pantry *p = user;
    if (bytes == 0) {
        free(pointer);
        return NULL;
    }
    return p->given++ == p->fail_at ? NULL : realloc(pointer, bytes);
}

static cst_status refuse(cst_context *context, void *user, const char *candidate,
                         const char *predictions) {
    (void)user;
    (void)candidate;
    (void)predictions;
    return cst_soup_fail(context, CST_ERROR_LIMIT, "no gas");
}

/* The folder of candidates goes, also where memory runs out (see teardown). */
static void no_folder_is_left(void **state) {
    kitchen *k = *state;
    pantry p = {.fail_at = -1};
    k->config.hook = refuse;
    int64_t all = 0; /* allocations of a call in which none fails */
    for (int64_t n = -1; n < all; n++) {
        cst_context *context = NULL;
        p.fail_at = -1;
        assert_int_equal(cst_context_create_with(&context, give, &p), CST_OK);
        assert_int_equal(cst_context_set_threads(context, 1), CST_OK);
        p = (pantry){.fail_at = n};
        cst_status status = cst_soup_greedy(context, k->list, 2, &k->config, k->out, NULL);
        assert_true(status == CST_ERROR_LIMIT || (n >= 0 && status == CST_ERROR_MEMORY));
        all = n < 0 ? p.given : all;
        cst_context_free(context);
    }
    assert_true(all > 20);
}

/* What is written is what was scored: files under new names do not matter, new bytes do. */
static void files_that_change(void **state) {
    kitchen *k = *state;
    size_t bytes[2];
    k->config.metric = "nll";
    assert_int_equal(cst_soup_greedy(k->context, k->list, SOUP_MODELS, &k->config, k->out, NULL),
                     CST_OK);
    unsigned char *wanted = slurp(k->out, &bytes[0]);
    const int last = k->calls;
    k->calls = 0;
    k->change_at = 1;
    k->replace = true;
    assert_int_equal(cst_soup_greedy(k->context, k->list, SOUP_MODELS, &k->config, k->out, NULL),
                     CST_OK);
    unsigned char *got = slurp(k->out, &bytes[1]);
    assert_int_equal(bytes[0], bytes[1]);
    assert_memory_equal(wanted, got, bytes[0]);
    free(got);
    k->calls = 0;
    k->change_at = last;
    k->replace = false;
    (void)unlink(k->out);
    const struct timespec tick = {.tv_nsec = 20000000}; /* of the clock of files */
    (void)nanosleep(&tick, NULL);
    assert_int_equal(cst_soup_greedy(k->context, k->list, SOUP_MODELS, &k->config, k->out, NULL),
                     CST_ERROR_IO);
    assert_non_null(strstr(cst_last_error(k->context), "changed"));
    assert_int_equal(access(k->out, F_OK), -1);
    free(wanted);
}

static void predictions_without_a_score(void **state) {
    kitchen *k = *state;
    k->nan_at = 2;
    assert_int_equal(cst_soup_greedy(k->context, k->list, SOUP_MODELS, &k->config, k->out, NULL),
                     CST_ERROR_INPUT);
    assert_non_null(strstr(cst_last_error(k->context), "cannot be scored"));
}

/* Each file is open once, whatever is mixed of them. */
static void few_descriptors(void **state) {
    enum { MANY = 48, SPARE = 20 };
    kitchen *k = *state;
    const char *list[MANY];
    struct rlimit before = {0};
    struct rlimit few;
    int lowest = dup(STDIN_FILENO);
    assert_true(lowest >= 0 && close(lowest) == 0 && getrlimit(RLIMIT_NOFILE, &before) == 0);
    few = before;
    few.rlim_cur = (rlim_t)(lowest + MANY + SPARE);
    for (int i = 0; i < MANY; i++)
        list[i] = k->list[0]; /* which all are kept */
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
    cst_status status = cst_soup_greedy(k->context, list, MANY, &k->config, k->out, NULL);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
    if (status != CST_OK)
        fail_msg("%s", cst_last_error(k->context));
}

static int stop_third(void *user, const char *stage, int64_t done, int64_t total) {
    (void)total;
    return *(int *)user && strcmp(stage, "soup") == 0 && done == 3;
}

static void a_run_can_be_stopped(void **state) {
    kitchen *k = *state;
    int on = 1;
    cst_context_set_progress(k->context, stop_third, &on);
    assert_int_equal(cst_soup_greedy(k->context, k->list, SOUP_MODELS, &k->config, k->out, NULL),
                     CST_ERROR_CANCELLED);
    assert_int_equal(k->calls, 3);
}

int suite_soup(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(greedy_is_recipe_1, setup, teardown),
        cmocka_unit_test_setup_teardown(one_file_is_a_soup, setup, teardown),
        cmocka_unit_test_setup_teardown(hooks_that_fail, setup, teardown),
        cmocka_unit_test_setup_teardown(no_folder_is_left, setup, teardown),
        cmocka_unit_test_setup_teardown(files_that_change, setup, teardown),
        cmocka_unit_test_setup_teardown(predictions_without_a_score, setup, teardown),
        cmocka_unit_test_setup_teardown(few_descriptors, setup, teardown),
        cmocka_unit_test_setup_teardown(a_run_can_be_stopped, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
