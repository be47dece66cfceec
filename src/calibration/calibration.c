/*
 * The table of calibration maps and their application block by block. After any method. method.md
 * section 8.
 */
#include "calibration/calibration.h"

#include <stdio.h>
#include <string.h>

typedef struct calibrator_text {
    cst_calibrator_kind kind;
    const char *name;
    const char *definition;
} calibrator_text;

static const calibrator_text TEXTS[] = {
    {CST_CALIBRATOR_TEMPERATURE, "temperature", "softmax(log p / T), T of least NLL"},
};

enum { TEXT_COUNT = sizeof TEXTS / sizeof TEXTS[0] };

const char *cst_calibrator_name(cst_calibrator_kind kind) {
    for (int i = 0; i < TEXT_COUNT; i++)
        if (TEXTS[i].kind == kind)
            return TEXTS[i].name;
    return NULL;
}

const char *cst_calibrator_definition(cst_calibrator_kind kind) {
    for (int i = 0; i < TEXT_COUNT; i++)
        if (TEXTS[i].kind == kind)
            return TEXTS[i].definition;
    return NULL;
}

cst_calibrator_kind cst_calibrator_find(const char *name) {
    for (int i = 0; i < TEXT_COUNT; i++)
        if (strcmp(TEXTS[i].name, name) == 0)
            return TEXTS[i].kind;
    return CST_CALIBRATOR_NONE;
}

cst_status cst_calibrator_fit(cst_context *context, cst_calibrator_kind kind,
                              const float *probabilities, int64_t rows, int32_t classes,
                              const int32_t *labels, cst_calibrator *out) {
    *out = (cst_calibrator){.kind = kind, .classes = classes, .temperature = 1};
    cst_status status = CST_OK;
    switch (kind) {
    case CST_CALIBRATOR_NONE:
        break;
    case CST_CALIBRATOR_TEMPERATURE:
        status = cst_temperature_fit(context, probabilities, rows, classes, labels,
                                     &out->temperature, NULL);
        (void)snprintf(out->detail, sizeof out->detail, "T = %.4g", out->temperature);
        break;
    }
    return status;
}

typedef struct apply_job {
    const cst_calibrator *calibrator;
    float *probabilities;
    int64_t rows;
} apply_job;

static cst_status apply_block(cst_context *context, void *user, int64_t block) {
    const apply_job *job = user;
    int32_t classes = job->calibrator->classes;
    int64_t count = cst_block_size(job->rows, block);
    size_t cells = (size_t)count * (size_t)classes;
    float *rows = job->probabilities + (size_t)cst_block_first(block) * (size_t)classes;
    double *wide = cst_alloc(context, cells, sizeof *wide);
    if (!wide)
        return CST_ERROR_MEMORY;
    for (size_t j = 0; j < cells; j++)
        wide[j] = (double)rows[j];
    cst_temperature_rows(job->calibrator->temperature, count, classes, wide);
    for (size_t j = 0; j < cells; j++)
        rows[j] = (float)wide[j];
    cst_free(context, wide);
    return CST_OK;
}

cst_status cst_calibrator_apply(cst_context *context, const cst_calibrator *calibrator,
                                float *probabilities, int64_t rows) {
    if (calibrator->kind == CST_CALIBRATOR_NONE)
        return CST_OK;
    apply_job job = {calibrator, probabilities, rows};
    return cst_parallel_for(context, cst_block_count(rows), apply_block, &job);
}

void cst_calibrator_free(cst_context *context, cst_calibrator *calibrator) {
    (void)context;
    if (calibrator)
        *calibrator = (cst_calibrator){0};
}
