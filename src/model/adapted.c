/*
 * The last step of an adapted model: the stack's and the members' logarithms, weighted, and biases
 * of the classes. After the stack's own prediction. docs/model-format.md#adpt.
 */
#include "model/adapted.h"
#include "model/kernels.h"

#include <string.h>

cst_status cst_adapted_take(cst_context *context, cst_scope *scope, int32_t members, int32_t extra,
                            int32_t classes, cst_adapted **out) {
    cst_adapted *made;
    *out = NULL;
    CST_TAKE(context, scope, made, 1);
    made->members = members;
    made->extra = extra;
    made->classes = classes;
    CST_TAKE(context, scope, made->names, extra);
    CST_TAKE(context, scope, made->mix, members);
    CST_TAKE(context, scope, made->weights, members);
    CST_TAKE(context, scope, made->bias, classes);
    *out = made;
    return CST_OK;
}

void cst_adapted_rows(const cst_adapted *adapted, const float *const *members, int64_t count,
                      double *scores, float *probabilities) {
    size_t classes = (size_t)adapted->classes;
    int64_t cells = count * adapted->classes;
    for (int64_t i = 0; i < count; i++)
        memcpy(scores + (size_t)i * classes, adapted->bias, classes * sizeof *scores);
    cst_add_mixed_logs(probabilities, cells, CST_ADAPTED_STACK_MIX, adapted->classes,
                       adapted->scale, scores);
    for (int32_t k = 0; k < adapted->members; k++)
        if (adapted->weights[k] != 0)
            cst_add_mixed_logs(members[k], cells, adapted->mix[k], adapted->classes,
                               adapted->weights[k], scores);
    for (int64_t i = 0; i < count; i++)
        cst_softmax(adapted->classes, scores + (size_t)i * classes);
    for (int64_t e = 0; e < cells; e++)
        probabilities[e] = (float)scores[e];
}

void cst_adapted_restrict(const cst_adapted *from, const uint8_t *present, cst_adapted *to) {
    int32_t kept = from->members - from->extra;
    int32_t count = 0;
    to->extra = 0;
    to->classes = from->classes;
    to->scale = from->scale;
    to->rows = from->rows;
    for (int32_t k = 0; k < from->members; k++) {
        if (!present[k]) {
            to->scale += from->weights[k];
            continue;
        }
        if (k >= kept)
            to->names[to->extra++] = from->names[k - kept];
        to->mix[count] = from->mix[k];
        to->weights[count++] = from->weights[k];
    }
    to->members = count;
    memcpy(to->bias, from->bias, (size_t)from->classes * sizeof *to->bias);
}
