/* What a model knows for the guard, of a batch and of a stream. */
#include "model/guard.h"

#include <math.h>
#include <string.h>

cst_guard_batch cst_guard_batch_of(int64_t first, int64_t rows) {
    return (cst_guard_batch){
        .first = first, .rows = rows, .z = NAN, .accuracy = NAN, .flatten = 1, .sharpen = 1};
}

const cst_mixing *cst_guard_mixing(const cst_model *model) {
    return model->adapted ? NULL : model->reference.mixing;
}

static bool is_known(const cst_model *model) {
    return model->reference.novelty &&
           (model->task != CST_TASK_SEGMENTATION || model->reference.cases);
}

bool cst_guard_is_input(const cst_model *model, int32_t other) {
    for (int32_t k = model->members; k < cst_model_members(model); k++)
        if (strcmp(model->reference.novelty->other_names[other], cst_model_member_name(model, k)) ==
            0)
            return true;
    return false;
}

int cst_model_has_guard(const cst_model *model) {
    return model && is_known(model);
}

int64_t cst_model_others(const cst_model *model) {
    return model && model->reference.novelty ? model->reference.novelty->others : 0;
}

const char *cst_model_other_name(const cst_model *model, int32_t other) {
    return other >= 0 && other < cst_model_others(model)
               ? model->reference.novelty->other_names[other]
               : NULL;
}
