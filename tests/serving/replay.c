/* What the library for prediction gives, for test_serving.py: built against libcorestack and
 * against libcorestack-predict, for other processors too, and as C++.
 *
 *     replay MODEL               made-up rows: every way of prediction, numbers as bits
 *     replay MODEL FILE... OUT   raw float32 rows of each member into raw float32 rows;
 * OUT.present: without the second member */
#include <corestack/predict.h>

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ROWS = 120 };

/* ---- an allocator that counts ---- */

static int64_t allocations;

static void *count_realloc(void *user, void *pointer, size_t bytes) {
    (void)user;
    if (bytes == 0) {
        free(pointer);
        return NULL;
    }
    allocations++;
    return realloc(pointer, bytes);
}

static void *get(size_t count, size_t size) {
    void *memory = calloc(count ? count : 1, size);
    if (!memory)
        exit(2);
    return memory;
}

static void check(cst_status status, const char *error) {
    if (status == CST_OK)
        return;
    printf("error %d: %s\n", (int)status, error);
    exit(1);
}

/* ---- made-up members ---- */

static uint32_t state = 1;

static double uniform(void) {
    state = state * 1664525u + 1013904223u;
    return (double)(state >> 8) / 16777216.0;
}

/* Rows of one member: probabilities, of a regression or several labels single numbers. */
static void make_rows(cst_task task, int64_t rows, int64_t classes, float *out) {
    for (int64_t i = 0; i < rows; i++, out += classes) {
        double sum = 0;
        for (int64_t c = 0; c < classes; c++) {
            double u = uniform();
            out[c] = (float)(task == CST_TASK_REGRESSION ? 40 * u - 5 : u * u * u + 1e-4);
            sum += (double)out[c];
        }
        for (int64_t c = 0;
             task != CST_TASK_REGRESSION && task != CST_TASK_MULTILABEL && c < classes; c++)
            out[c] = (float)((double)out[c] / sum);
    }
}

static void show(const char *what, const float *numbers, int64_t count) {
    printf("%s", what);
    for (int64_t i = 0; i < count; i++) {
        uint32_t bits = 0;
        memcpy(&bits, &numbers[i], sizeof bits);
        printf(" %08" PRIx32, bits);
    }
    printf("\n");
}

/* A half that is near: enough for values of a test. */
static uint16_t half_of(float value) {
    int exponent = 0;
    double share = frexp(fabs((double)value), &exponent); /* in [0.5, 1) */
    if (share == 0 || exponent < -13)
        return 0;
    unsigned bits = (unsigned)((exponent + 14) << 10) + (unsigned)(share * 2048 - 1024);
    return (uint16_t)(bits | (value < 0 ? 0x8000u : 0));
}

/* Every member as doubles in Fortran order, then as halves in reversed rows. */
static void predict_arrays(cst_predictor *predictor, const float *rows, int64_t members,
                           int64_t classes, float *out) {
    int64_t cells = ROWS * classes;
    double *wide = (double *)get((size_t)(members * cells), sizeof *wide);
    uint16_t *half = (uint16_t *)get((size_t)(members * cells), sizeof *half);
    cst_array *array = (cst_array *)get((size_t)members, sizeof *array);
    for (int64_t k = 0; k < members; k++)
        for (int64_t i = 0; i < ROWS; i++)
            for (int64_t c = 0; c < classes; c++) {
                float value = rows[k * cells + i * classes + c];
                wide[k * cells + c * ROWS + i] = (double)value;
                half[k * cells + (ROWS - 1 - i) * classes + c] = half_of(value);
            }
    for (int64_t k = 0; k < members; k++) {
        array[k].data = wide + k * cells;
        array[k].type = CST_NUMBER_FLOAT64;
        array[k].row_step = 8;
        array[k].column_step = 8 * ROWS;
    }
    check(cst_predictor_predict_arrays(predictor, array, ROWS, out),
          cst_predictor_error(predictor));
    show("float64", out, cells);
    for (int64_t k = 0; k < members; k++) {
        array[k].data = half + k * cells + (ROWS - 1) * classes;
        array[k].type = CST_NUMBER_FLOAT16;
        array[k].row_step = -2 * classes;
        array[k].column_step = 2;
    }
    /* Halves of many classes do not sum to 1 within the tolerance: then this is an error. */
    if (cst_predictor_predict_arrays(predictor, array, ROWS, out) == CST_OK)
        show("float16", out, cells);
    else
        printf("float16 %s\n", cst_predictor_error(predictor));
    free(array);
    free(half);
    free(wide);
}

static void predict_all(cst_context *context, cst_model *model) {
    int64_t members = cst_model_members(model);
    int64_t classes = cst_model_classes(model);
    int64_t cells = ROWS * classes;
    cst_predictor *predictor = NULL;
    float *rows = (float *)get((size_t)(members * cells), sizeof *rows);
    float *out = (float *)get((size_t)cells, sizeof *out);
    const float **row = (const float **)get((size_t)members, sizeof *row);
    uint8_t *present = (uint8_t *)get((size_t)members, 1);
    for (int64_t k = 0; k < members; k++) {
        row[k] = rows + k * cells;
        make_rows(cst_model_task(model), ROWS, classes, rows + k * cells);
        printf("member %s\n", cst_model_member_name(model, (int32_t)k));
        present[k] = k != members / 2 || members == 1;
    }
    check(cst_predictor_create(context, &predictor, model), cst_last_error(context));
    cst_model_free(context, model); /* the predictor has a reference of its own */
    int guarded = cst_model_has_guard(model);
    if (guarded)
        check(cst_predictor_set_guard(predictor, 60), cst_predictor_error(predictor));
    int64_t before = allocations;
    check(cst_predictor_predict(predictor, row, ROWS, out), cst_predictor_error(predictor));
    show("rows", out, cells);
    check(cst_predictor_predict_present(predictor, row, present, ROWS, out),
          cst_predictor_error(predictor));
    show("present", out, cells);
    predict_arrays(predictor, rows, members, classes, out);
    if (guarded) {
        cst_guard_batch found;
        check(cst_predictor_predict_guarded(predictor, row, NULL, ROWS, out, &found),
              cst_predictor_error(predictor));
        show("guarded", out, cells);
        printf("fired %d\n", found.fired);
    }
    rows[0] = NAN;
    if (cst_predictor_predict(predictor, row, ROWS, out) != CST_ERROR_INPUT)
        exit(1);
    printf("%s\n", cst_predictor_error(predictor));
    printf("allocations %d\n", (int)(allocations - before));
    cst_predictor_free(context, predictor);
    free(present);
    free(row);
    free(out);
    free(rows);
}

static int write_rows(const char *path, const char *end, const float *rows, size_t count) {
    char name[4096];
    (void)snprintf(name, sizeof name, "%s%s", path, end);
    FILE *to = fopen(name, "wb");
    return !to || fwrite(rows, sizeof *rows, count, to) != count || fclose(to) != 0 ? 2 : 0;
}

static int predict_files(cst_context *context, cst_model *model, char **files) {
    int64_t members = cst_model_members(model);
    int64_t classes = cst_model_classes(model);
    int64_t rows = 0;
    cst_predictor *predictor = NULL;
    float **row = (float **)get((size_t)members, sizeof *row);
    for (int64_t k = 0; k < members; k++) {
        FILE *file = fopen(files[k], "rb");
        if (!file || fseek(file, 0, SEEK_END) != 0)
            return 2;
        size_t bytes = (size_t)ftell(file);
        rewind(file);
        row[k] = (float *)get(bytes, 1);
        if (fread(row[k], 1, bytes, file) != bytes)
            return 2;
        (void)fclose(file);
        rows = (int64_t)(bytes / sizeof(float)) / classes;
    }
    float *out = (float *)get((size_t)(rows * classes), sizeof *out);
    check(cst_predictor_create(context, &predictor, model), cst_last_error(context));
    check(cst_predictor_predict(predictor, (const float *const *)row, rows, out),
          cst_predictor_error(predictor));
    int failed = write_rows(files[members], "", out, (size_t)(rows * classes));
    uint8_t *present = (uint8_t *)get((size_t)members, 1);
    for (int64_t k = 0; k < members; k++)
        present[k] = k != 1;
    cst_status without =
        cst_predictor_predict_present(predictor, (const float *const *)row, present, rows, out);
    if (without != CST_ERROR_UNSUPPORTED) /* a network needs every member */
        check(without, cst_predictor_error(predictor));
    if (without == CST_OK)
        failed |= write_rows(files[members], ".present", out, (size_t)(rows * classes));
    free(present);
    cst_predictor_free(context, predictor);
    for (int64_t k = 0; k < members; k++)
        free(row[k]);
    free(row);
    free(out);
    return failed;
}

int main(int argc, char **argv) {
    cst_context *context = NULL;
    cst_model *model = NULL;
    int failed = 0;
    if (argc < 2)
        return 2;
    check(cst_context_create_with(&context, count_realloc, NULL), "no context");
    check(cst_model_load(context, &model, argv[1]), cst_last_error(context));
    if (argc == 2) {
        predict_all(context, cst_model_retain(model));
    } else {
        failed = argc - 3 == cst_model_members(model) ? predict_files(context, model, argv + 2) : 2;
    }
    cst_model_free(context, model);
    cst_context_free(context);
    return failed;
}
