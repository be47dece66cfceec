/* Reads section ADPT of a model file. Used by decode.c. docs/model-format.md#adpt. */
#include "model/format.h"
#include "model/reader.h"

#include <inttypes.h>
#include <string.h>

/* No member that came back is one of the stack's. */
static void check_names(cst_reader *r, size_t at, const cst_model *model) {
    const cst_adapted *adapted = model->adapted;
    cst_reader_different(r, at, adapted->names, (size_t)adapted->extra, "member name");
    for (int32_t i = 0; i < adapted->extra && r->status == CST_OK; i++)
        for (int32_t k = 0; k < model->members; k++)
            if (strcmp(adapted->names[i], model->member_names[k]) == 0)
                cst_reader_refuse(r, at, "a member that came back is one of the stack's");
}

void cst_adapted_get(cst_reader *r, cst_model *model) {
    size_t first = r->at;
    const uint8_t *bytes = cst_reader_take(r, 8);
    uint64_t rows = bytes ? cst_load_u64(bytes) : 0;
    size_t at = r->at;
    int32_t extra = cst_reader_int(r, "the number of members that came back", 0,
                                   CST_MODEL_MEMBERS_MAX - model->members);
    if (r->status == CST_OK && model->task != CST_TASK_CLASSIFICATION)
        cst_reader_refuse(r, first, "section ADPT is only for classification models");
    if (r->status == CST_OK && (rows == 0 || rows > INT64_MAX))
        cst_reader_refuse(r, first, "the number of rows of an adaptation is %" PRIu64, rows);
    int64_t cells = ((int64_t)model->members + extra) * model->classes;
    if (r->status == CST_OK && cells > CST_MODEL_CELLS_MAX)
        cst_reader_refuse(r, at, "%" PRId32 " members with %" PRId32 " classes are too many",
                          model->members + extra, model->classes);
    /* A name of 5 bytes and two numbers for each that came back, three for each class and member.
     */
    size_t members = (size_t)model->members + (size_t)extra;
    size_t numbers = 2 * members + 1 + (size_t)model->classes;
    if (r->status == CST_OK && 5 * (size_t)extra + 8 * numbers > r->end - r->at)
        cst_reader_refuse(r, at,
                          "%" PRId32 " members that came back are declared, but %zu bytes are left",
                          extra, r->end - r->at);
    if (r->status == CST_OK)
        r->status =
            cst_adapted_alloc(r->context, (int32_t)members, extra, model->classes, &model->adapted);
    if (r->status != CST_OK)
        return;
    cst_adapted *adapted = model->adapted;
    adapted->rows = (int64_t)rows;
    at = r->at;
    for (int32_t i = 0; i < extra && r->status == CST_OK; i++)
        adapted->names[i] = cst_reader_string(r, "member name", (size_t)i);
    if (r->status == CST_OK)
        check_names(r, at, model);
    for (size_t k = 0; k < members && r->status == CST_OK; k++)
        adapted->mix[k] =
            cst_reader_f64(r, "a member's share of the uniform distribution", CST_MODEL_MIX_MIN, 1);
    adapted->scale =
        cst_reader_f64(r, "the stack's scale", -CST_MODEL_SLOPE_MAX, CST_MODEL_SLOPE_MAX);
    for (size_t k = 0; k < members && r->status == CST_OK; k++)
        adapted->weights[k] =
            cst_reader_f64(r, "a weight", -CST_MODEL_SLOPE_MAX, CST_MODEL_SLOPE_MAX);
    for (int32_t c = 0; c < model->classes && r->status == CST_OK; c++)
        adapted->bias[c] = cst_reader_f64(r, "a bias", -CST_MODEL_SLOPE_MAX, CST_MODEL_SLOPE_MAX);
}
