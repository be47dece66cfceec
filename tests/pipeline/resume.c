/*
 * A fit and its checkpoint: parts whose bytes are changed or cut off never change the model, and
 * another pool or other options never take them.
 */
#include "io_files.h"

#include "io/checkpoint.h"

#include <corestack/corestack.h>

#include <dirent.h>

/* STEP: bytes between two that are changed; with CORESTACK_LONG every one is. */
enum { ROWS = 90, CLASSES = 3, MEMBERS = 4, FOLDS = 3, PARTS_MAX = 32, STEP = 499 };

/* What a fit depends on, to be changed in one place. */
typedef struct inputs {
    float predictions[MEMBERS][ROWS * CLASSES];
    const char *names[MEMBERS];
    int32_t labels[ROWS];
    int64_t folds[ROWS];
    int64_t groups[ROWS];
    double weights[ROWS];
    const char *domains[ROWS];
    double flops[MEMBERS];
    cst_array arrays[MEMBERS];
    cst_pool_arrays pool;
    const char *key; /* an option, or NULL */
    const char *value;
    const char *method; /* NULL: the preset */
} inputs;

static void draw(inputs *in) {
    static const char *const names[MEMBERS] = {"a", "b", "c", "d"};
    cst_rng rng;
    cst_rng_init(&rng, 11, CST_STREAM_TEST, 1);
    memset(in, 0, sizeof *in);
    for (int i = 0; i < ROWS; i++) {
        in->labels[i] = i % CLASSES;
        in->folds[i] = i / CLASSES % FOLDS;
        in->groups[i] = i;
        in->weights[i] = 1 + i % 2;
        in->domains[i] = i % 7 < 3 ? "x" : "y";
        for (int k = 0; k < MEMBERS; k++) {
            double p[CLASSES];
            double sum = 0;
            for (int c = 0; c < CLASSES; c++)
                sum += p[c] = 0.05 + cst_rng_uniform(&rng) + (c == i % CLASSES ? 0.3 * k : 0);
            for (int c = 0; c < CLASSES; c++)
                in->predictions[k][i * CLASSES + c] = (float)(p[c] / sum);
        }
    }
    for (int k = 0; k < MEMBERS; k++) {
        in->names[k] = names[k];
        in->flops[k] = 1e9 * (k + 1);
        in->arrays[k] =
            (cst_array){in->predictions[k], CST_NUMBER_FLOAT32, CLASSES * sizeof(float), 4};
    }
    in->pool = (cst_pool_arrays){.members = MEMBERS,
                                 .rows = ROWS,
                                 .classes = CLASSES,
                                 .predictions = in->arrays,
                                 .names = in->names,
                                 .flops = in->flops,
                                 .labels = in->labels,
                                 .folds = in->folds};
}

/* Fits and saves the model as `model`, with parts in the folder. */
static cst_status fit(fixture *f, const inputs *in, const char *model) {
    cst_pool *pool = NULL;
    cst_options *options = NULL;
    cst_model *made = NULL;
    const char *split = in->pool.split ? in->pool.split : "oof";
    assert_int_equal(cst_context_set_checkpoint(f->context, at(f, "parts")), CST_OK);
    cst_checkpoint_least(f->context, 0);
    expect_ok(f, cst_pool_from_arrays(f->context, &pool, &in->pool));
    expect_ok(f, cst_options_create(f->context, &options));
    if (in->key)
        expect_ok(f, cst_options_set(f->context, options, in->key, in->value));
    cst_status status =
        in->method ? cst_fit_method(f->context, pool, split, in->method, options, &made, NULL)
                   : cst_fit(f->context, pool, split, options, &made, NULL);
    if (status == CST_OK)
        expect_ok(f, cst_model_save(f->context, made, at(f, model)));
    cst_model_free(f->context, made);
    cst_options_free(f->context, options);
    cst_pool_free(f->context, pool);
    return status;
}

/* The bytes of a file, for free. */
static unsigned char *bytes_of(fixture *f, const char *name, size_t *count) {
    struct stat info;
    assert_int_equal(stat(at(f, name), &info), 0);
    *count = (size_t)info.st_size;
    unsigned char *bytes = malloc(*count + 1);
    FILE *file = fopen(at(f, name), "rb");
    assert_non_null(bytes);
    assert_non_null(file);
    assert_int_equal(fread(bytes, 1, *count, file), *count);
    assert_int_equal(fclose(file), 0);
    return bytes;
}

static void put(fixture *f, const char *name, const unsigned char *bytes, size_t count) {
    FILE *file = fopen(at(f, name), "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, count, file), count);
    assert_int_equal(fclose(file), 0);
}

static void expect_same(fixture *f, const char *a, const char *b) {
    size_t sizes[2];
    unsigned char *first = bytes_of(f, a, &sizes[0]);
    unsigned char *second = bytes_of(f, b, &sizes[1]);
    assert_int_equal(sizes[0], sizes[1]);
    assert_memory_equal(first, second, sizes[0]);
    free(first);
    free(second);
}

/* The names of what the folder holds, with "parts/". */
static int list(fixture *f, char names[PARTS_MAX][128]) {
    int count = 0;
    DIR *folder = opendir(at(f, "parts"));
    assert_non_null(folder);
    for (const struct dirent *entry; (entry = readdir(folder)) != NULL;)
        if (entry->d_name[0] != '.') {
            assert_in_range(count, 0, PARTS_MAX - 1);
            (void)snprintf(names[count++], 128, "parts/%.100s", entry->d_name);
        }
    (void)closedir(folder);
    return count;
}

/* With the file as it is now, the fit makes the same model or refuses the folder. */
static void try_damaged(fixture *f, const inputs *in) {
    (void)remove(at(f, "again"));
    cst_status status = fit(f, in, "again");
    if (status == CST_OK)
        expect_same(f, "model", "again");
    else
        expect_error(f, status, CST_ERROR_INPUT, "checkpoint folder ", NULL);
}

static void damaged_files_change_no_model(void **state) {
    fixture *f = *state;
    static inputs in;
    static char names[PARTS_MAX][128];
    size_t step = getenv("CORESTACK_LONG") ? 1 : STEP;
    draw(&in);
    expect_ok(f, fit(f, &in, "model"));
    int count = list(f, names);
    assert_in_range(count, 4, PARTS_MAX);
    for (int i = 0; i < count; i++) {
        size_t size = 0;
        unsigned char *good = bytes_of(f, names[i], &size);
        for (size_t byte = (size_t)i % step; byte < size; byte += step) {
            unsigned char kept = good[byte];
            good[byte] ^= (unsigned char)(1U << byte % 8);
            put(f, names[i], good, size);
            good[byte] = kept;
            try_damaged(f, &in);
            put(f, names[i], good, byte);
            try_damaged(f, &in);
            put(f, names[i], good, size);
        }
        free(good);
    }
    expect_ok(f, fit(f, &in, "again"));
    assert_non_null(strstr(cst_context_checkpoint_note(f->context), "continued with "));
    expect_same(f, "model", "again");
}

enum { OF_POOL = 16 };

/* Every change of what the model depends on: of the pool or the method, then of each option. */
static void change(inputs *in, int what) {
    static const char *const other[MEMBERS] = {"a", "c", "b", "d"};
    cst_pool_arrays *pool = &in->pool;
    switch (what) {
    case 0:
        in->predictions[1][4] *= 1.0001F;
        break;
    case 1:
        in->labels[5] = (in->labels[5] + 1) % CLASSES;
        break;
    case 2:
        in->folds[7] = (in->folds[7] + 1) % FOLDS;
        break;
    case 3:
        pool->folds = NULL;
        break;
    case 4:
        pool->groups = in->groups;
        break;
    case 5:
        pool->weights = in->weights;
        break;
    case 6:
        pool->domains = in->domains;
        break;
    case 7:
        pool->names = other;
        break;
    case 8:
        in->flops[2] *= 2;
        break;
    case 9:
        pool->latency_ms = in->flops;
        break;
    case 10:
        pool->params = in->flops;
        break;
    case 11:
        pool->members--;
        break;
    case 12:
        pool->rows -= FOLDS;
        break;
    case 13:
        pool->split = "other";
        break;
    case 14:
        in->method = "hill-climbing";
        break;
    case 15:
        in->method = "paper";
        break;
    default:
        in->key = cst_option_at((size_t)(what - OF_POOL))->key;
        break;
    }
}

/* Another allowed value of an option; false if there is none that is known. */
static bool other_value(fixture *f, const char *key, const char **out) {
    static const char *const values[] = {"0.25", "2", "3", "7", "100", "true", "false", "none"};
    cst_options *options = NULL;
    expect_ok(f, cst_options_create(f->context, &options));
    *out = NULL;
    for (size_t i = 0; i < sizeof values / sizeof *values && !*out; i++)
        if (strcmp(cst_options_get(options, key), values[i]) != 0 &&
            cst_options_set(f->context, options, key, values[i]) == CST_OK)
            *out = values[i];
    cst_options_free(f->context, options);
    return *out != NULL;
}

static void other_inputs_take_no_parts(void **state) {
    fixture *f = *state;
    static inputs in;
    int options = 0;
    draw(&in);
    expect_ok(f, fit(f, &in, "model"));
    for (int what = 0; what < OF_POOL + (int)cst_option_count(); what++) {
        draw(&in);
        change(&in, what);
        if (in.key && !other_value(f, in.key, &in.value))
            continue;
        cst_status status = fit(f, &in, "other");
        if (status == CST_OK)
            fail_msg("change %d (%s) took parts", what, in.key ? in.key : "the pool");
        if (in.key && !strstr(cst_last_error(f->context), "checkpoint"))
            continue; /* a value that this pool does not allow */
        options += in.key != NULL;
        expect_error(f, status, CST_ERROR_INPUT, "it holds parts of another fit", NULL);
    }
    assert_in_range(options, 20, (int)cst_option_count());
    draw(&in);
    expect_ok(f, fit(f, &in, "again"));
    expect_same(f, "model", "again");
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, files_setup, files_teardown)

int suite_resume(void) {
    const struct CMUnitTest tests[] = {TEST(damaged_files_change_no_model),
                                       TEST(other_inputs_take_no_parts)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
