/*
 * Reads the sections of a model file with what weights are solved from when members are absent,
 * trusting nothing. Before prediction. docs/model-format.md.
 */
#include "model/absent.h"
#include "model/format.h"
#include "model/reader.h"

#include <inttypes.h>
#include <math.h>

/* Numbers from `least` to the bound of coefficients into an array of zeros. */
static void fill_f64s(cst_reader *r, double *values, size_t count, double least, const char *what) {
    for (size_t i = 0; values && i < count && r->status == CST_OK; i++)
        values[i] = cst_reader_f64(r, what, least, CST_MODEL_COEFFICIENT_MAX);
}

/* One column of numbers of 20 bits into every `stride`th of an array of zeros. */
static void fill_column(cst_reader *r, double *values, size_t count, size_t stride,
                        const char *what) {
    double step = cst_reader_f64(r, "the step of a column of biases", 0,
                                 ldexp(CST_MODEL_REFIT_MAX, 2 - CST_REFIT_BITS));
    const uint8_t *bytes = cst_reader_take(r, cst_refit_column_bytes(count));
    for (size_t i = 0; bytes && i < count; i++) {
        const uint8_t *from = bytes + i / 2 * 5 + (i % 2 ? 2 : 0);
        uint32_t bits = from[0] | (uint32_t)from[1] << 8 | (uint32_t)from[2] << 16;
        bits = i % 2 ? bits >> 4 : bits & 0xFFFFF;
        int32_t steps = (int32_t)bits - (bits & 0x80000 ? 1 << CST_REFIT_BITS : 0);
        values[i * stride] = steps * step;
    }
    if (bytes && count % 2 && bytes[count / 2 * 5 + 2] >> 4 != 0)
        cst_reader_refuse(r, r->at - 1, "the last bits after %s are not 0", what);
}

static void get_refit(cst_reader *r, const cst_model *model, bool packed, cst_refit *out) {
    static const double most = CST_MODEL_REFIT_MAX;
    size_t at = r->at;
    size_t k = (size_t)model->members;
    bool values = model->task == CST_TASK_REGRESSION;
    int32_t learner = cst_reader_int(r, "the meta-learner of a refit", 0, model->learners - 1);
    int32_t output = cst_reader_int(r, "the output of a refit", 0, values ? model->classes - 1 : 0);
    int32_t biases = cst_reader_int(r, "the number of biases of a refit", 0, INT32_MAX);
    bool nonnegative = cst_reader_int(r, "whether weights are bounded", 0, 1) == 1;
    if (r->status == CST_OK && biases != (values ? 1 : model->learner[learner].biases))
        cst_reader_refuse(r, at, "a refit has %" PRId32 " biases, which its meta-learner has not",
                          biases);
    /* No product overflows: at most 2^20 members, and of members and classes 2^27. */
    packed = packed && biases > CST_REFIT_PLAIN;
    size_t each = packed ? 8 + cst_refit_column_bytes((size_t)biases) : 8 * (size_t)biases;
    size_t bytes = 8 * (5 + k * (k + 1) / 2 + 4 * k) + each * (k + 1);
    if (r->status == CST_OK && bytes > r->end - r->at)
        cst_reader_refuse(r, r->at, "%zu bytes of a refit are declared, but %zu are left", bytes,
                          r->end - r->at);
    if (r->status != CST_OK)
        return;
    r->status = cst_refit_alloc(r->context, model->members, biases, out);
    if (r->status != CST_OK)
        return;
    out->learner = learner;
    out->output = output;
    out->nonnegative = nonnegative;
    out->share = cst_reader_f64(r, "the share of a refit", 0, 1 + CST_MODEL_BLEND_TOLERANCE);
    out->pair = cst_reader_f64(r, "a refit's precision of the common scale", -most, most);
    out->pull = cst_reader_f64(r, "a refit's pull", 0, most);
    out->loss = cst_reader_f64(r, "a refit's loss", 0, most);
    out->least = cst_reader_f64(r, "a refit's least loss", 0, most);
    for (size_t i = 0; i < k && r->status == CST_OK; i++)
        for (size_t j = 0; j <= i; j++)
            out->curvature[i * k + j] = out->curvature[j * k + i] =
                cst_reader_f64(r, "a curvature", i == j ? 0 : -most, most);
    fill_f64s(r, out->slope, k, -most, "a slope");
    fill_f64s(r, out->ridge, k, 0, "a ridge");
    fill_f64s(r, out->l1, k, 0, "an l1 penalty");
    fill_f64s(r, out->center, k, 0, "a center");
    if (packed) {
        fill_column(r, out->rest, (size_t)biases, 1, "the biases without members");
        for (size_t j = 0; j < k; j++)
            fill_column(r, out->tilt + j, (size_t)biases, k, "the slopes of the biases");
        return;
    }
    fill_f64s(r, out->rest, (size_t)biases, -most, "a bias without members");
    fill_f64s(r, out->tilt, (size_t)biases * k, -most, "a bias's slope");
}

static void get_refits(cst_reader *r, cst_model *model, bool packed) {
    if (model->refits) {
        cst_reader_refuse(r, r->at, "sections ABSE and ABSP are in one model");
        return;
    }
    cst_refits *refits = cst_alloc(r->context, 1, sizeof *refits);
    if (!refits) {
        r->status = CST_ERROR_MEMORY;
        return;
    }
    model->refits = refits;
    size_t count = (size_t)cst_reader_int(r, "the number of refits", 1, INT32_MAX);
    refits->refit = cst_reader_room(r, count, sizeof *refits->refit, 56, "refits");
    refits->count = refits->refit ? (int32_t)count : 0;
    for (int32_t i = 0; i < refits->count && r->status == CST_OK; i++)
        get_refit(r, model, packed, &refits->refit[i]);
}

void cst_refits_get(cst_reader *r, cst_model *model) {
    get_refits(r, model, false);
}

void cst_refits_get_packed(cst_reader *r, cst_model *model) {
    get_refits(r, model, true);
}
