/*
 * Fuzz target: model files. What loads is written as the same bytes, and predicts finite numbers,
 * the same by both calls. Lengths and checksum are made to fit after a mutation.
 * src/model/sections.c, docs/model-format.md.
 */
#include "common/fuzz.h"
#include "model/codec.h"
#include "tasks/segmentation/segmentation.h"

#include <corestack/model.h>
#include <corestack/regression.h>
#include <math.h>
#include <string.h>

enum { ROWS = 3, CELLS_MAX = 1 << 14 };

/* Rows of every member: probabilities that lean to other classes, or values. */
static void make_rows(float *rows, cst_task task, int32_t member, int32_t classes) {
    for (int32_t i = 0; i < ROWS; i++) {
        float sum = 0;
        for (int32_t c = 0; c < classes; c++) {
            float value = (float)(1 + (i * 7 + member * 5 + c * 3) % 11);
            /* One class takes all in the last row: logarithms of 0. */
            if (task != CST_TASK_REGRESSION && i == ROWS - 1)
                value = c == member % classes ? 1.0F : 0.0F;
            rows[i * classes + c] = value;
            sum += value;
        }
        for (int32_t c = 0; task != CST_TASK_REGRESSION && c < classes; c++)
            rows[i * classes + c] /= sum;
    }
}

static void check_output(const cst_model *model, const float *out) {
    int32_t classes = (int32_t)cst_model_classes(model);
    for (int32_t i = 0; i < ROWS; i++) {
        double sum = 0;
        for (int32_t c = 0; c < classes; c++) {
            float value = out[i * classes + c];
            if (cst_model_task(model) == CST_TASK_REGRESSION)
                continue; /* coefficients of 1e30 may overflow a float */
            FUZZ_CHECK(value >= 0 && value <= 1, "probabilities are from 0 to 1");
            sum += (double)value;
        }
        FUZZ_CHECK(cst_model_task(model) == CST_TASK_REGRESSION || fabs(sum - 1) < 1e-5,
                   "probabilities sum to 1");
    }
}

/* Variances are positive and ends of intervals in order, whatever covariances a file has. */
static void predict_values(cst_context *context, const cst_model *model,
                           const float *const *inputs) {
    size_t cells = (size_t)cst_model_classes(model) * ROWS;
    float *mean = cst_alloc(context, 4 * cells, sizeof *mean);
    FUZZ_CHECK(mean != NULL, "room for three rows");
    float *variance = mean + cells;
    float *ends = mean + 2 * cells;
    cst_status status = cst_model_predict_values(context, model, inputs, ROWS, mean, variance);
    for (size_t i = 0; status == CST_OK && i < cells; i++)
        FUZZ_CHECK(variance[i] >= 0, "variances are not negative");
    if (status == CST_OK)
        status = cst_model_intervals(context, model, 0.9, mean, variance, ROWS, ends, ends + cells);
    if (fuzz_good(context, status, false))
        for (size_t i = 0; i < cells; i++)
            FUZZ_CHECK(!(ends[i] > ends[cells + i]), "the lower end is below the upper one");
    cst_free(context, mean);
}

/* Every second member alone. out: [rows * classes]. */
static void predict_present(cst_context *context, const cst_model *model, cst_predictor *predictor,
                            const float *const *inputs, float *out) {
    size_t members = (size_t)cst_model_members(model);
    uint8_t *present = cst_alloc(context, members, sizeof *present);
    FUZZ_CHECK(present != NULL, "room for a byte a member");
    for (size_t k = 0; k < members; k += 2)
        present[k] = 1;
    if (cst_predictor_predict_present(predictor, inputs, present, ROWS, out) == CST_OK)
        check_output(model, out);
    else
        FUZZ_CHECK(*cst_predictor_error(predictor), "an error has a message");
    cst_free(context, present);
}

static void predict(cst_context *context, const cst_model *model) {
    int32_t members = (int32_t)cst_model_members(model);
    int32_t classes = (int32_t)cst_model_classes(model);
    FUZZ_CHECK((int64_t)members * classes <= CST_MODEL_CELLS_MAX, "one sample fits into memory");
    if ((int64_t)members * classes > CELLS_MAX)
        return;
    size_t cells = (size_t)classes * ROWS;
    float *rows = cst_alloc(context, (size_t)members * cells, sizeof *rows);
    const float **inputs = cst_alloc(context, (size_t)members, sizeof *inputs);
    float *out = cst_alloc(context, 2 * cells, sizeof *out);
    cst_predictor *predictor = NULL;
    FUZZ_CHECK(rows && inputs && out, "room for three rows");
    for (int32_t k = 0; k < members; k++) {
        make_rows(rows + (size_t)k * cells, cst_model_task(model), k, classes);
        inputs[k] = rows + (size_t)k * cells;
    }
    cst_status status = cst_model_predict(context, model, inputs, ROWS, out);
    if (fuzz_good(context, status, false))
        check_output(model, out);
    if (cst_model_task(model) == CST_TASK_REGRESSION)
        predict_values(context, model, inputs);
    if (fuzz_good(context, cst_predictor_create(context, &predictor, model), false)) {
        cst_status same = cst_predictor_predict(predictor, inputs, ROWS, out + cells);
        FUZZ_CHECK(same == status, "both calls agree");
        FUZZ_CHECK(same != CST_OK || memcmp(out, out + cells, cells * sizeof *out) == 0,
                   "both calls give the same bytes");
        predict_present(context, model, predictor, inputs, out);
    }
    cst_predictor_free(context, predictor);
    cst_free(context, out);
    cst_free(context, inputs);
    cst_free(context, rows);
}

/* Sections that this corestack does not know, or that are empty, are not written again. */
static void write_back(cst_context *context, const cst_model *model) {
    cst_model *again = NULL;
    void *first = NULL;
    void *second = NULL;
    size_t sizes[2] = {0, 0};
    FUZZ_CHECK(cst_model_save_memory(context, model, &first, &sizes[0]) == CST_OK,
               "what was loaded can be saved");
    FUZZ_CHECK(cst_model_load_memory(context, &again, first, sizes[0]) == CST_OK,
               "what was saved can be loaded");
    FUZZ_CHECK(cst_model_save_memory(context, again, &second, &sizes[1]) == CST_OK &&
                   sizes[0] == sizes[1] && memcmp(first, second, sizes[0]) == 0,
               "a model is saved as the same bytes");
    cst_free(context, first);
    cst_free(context, second);
    cst_model_free(context, again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    cst_context *context = fuzz_begin(size, 128);
    cst_model *model = NULL;
    cst_model *from_file = NULL;
    cst_status status = cst_model_load_memory(context, &model, data, size);
    if (fuzz_good(context, status, false)) {
        FUZZ_CHECK(cst_model_load(context, &from_file, fuzz_file("m.cst", data, size)) == CST_OK,
                   "a file is what memory is");
        CST_SCOPE(scope);
        double *offsets = NULL;
        write_back(context, model);
        predict(context, model);
        if (cst_model_task(model) == CST_TASK_SEGMENTATION && cst_model_classes(model) <= CELLS_MAX)
            (void)fuzz_good(context, cst_offsets_load(context, scope, model, &offsets), false);
    }
    cst_model_free(context, from_file);
    cst_model_free(context, model);
    fuzz_end(context);
    return 0;
}

/* ---- lengths and checksum ---- */

/* The last section takes what there is, the header's length is that of the file, and the checksum
 * that of its bytes. */
size_t fuzz_repair(uint8_t *data, size_t size, size_t room) {
    size_t least = CST_MODEL_HEADER_BYTES + CST_MODEL_CHECKSUM_BYTES;
    (void)room;
    if (size < least)
        return size;
    size_t end = size - CST_MODEL_CHECKSUM_BYTES;
    uint32_t sections = 0;
    size_t at = CST_MODEL_HEADER_BYTES;
    memcpy(data, CST_MODEL_MAGIC, CST_MODEL_MAGIC_BYTES);
    while (at < end && end - at >= CST_MODEL_SECTION_BYTES) {
        size_t left = end - at - CST_MODEL_SECTION_BYTES;
        uint32_t length = fuzz_le(data + at + 8, 4);
        if (length > left) {
            length = (uint32_t)left;
            fuzz_put_le(data + at + 8, 4, length);
            fuzz_put_le(data + at + 12, 4, 0);
        }
        at += CST_MODEL_SECTION_BYTES + length;
        sections++;
    }
    fuzz_put_le(data + 12, 4, sections);
    fuzz_put_le(data + 16, 4, (uint32_t)size);
    fuzz_put_le(data + 20, 4, 0);
    fuzz_put_le(data + end, 4, cst_crc32c(data, end));
    return size;
}
