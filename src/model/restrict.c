/*
 * The model of some of the members as a separate model. Between a fit and prediction.
 * docs/prediction.md#absent-members.
 */
#include "model/absent.h"

cst_status cst_model_restrict(cst_context *context, cst_model **out, const cst_model *model,
                              const uint8_t *present) {
    if (out)
        *out = NULL;
    CST_ENTER(context);
    if (!out || !model || !present)
        return cst_fail(context, CST_ERROR_ARGUMENT,
                        "cst_model_restrict: model, who is present, and the result are required");
    cst_room room;
    uint8_t *bytes = NULL;
    size_t size = 0;
    cst_status status = cst_room_make(context, model, &room);
    CST_TRY(cst_room_fill(context, &room, present));
    if (status == CST_OK)
        cst_room_tell(context, &room);
    CST_TRY(cst_stack_encode(context, &room.model, &bytes, &size)); /* a copy of its own */
    CST_TRY(cst_stack_decode(context, "the model of the members present", bytes, size, out));
    cst_free(context, bytes);
    cst_room_free(context, &room);
    return cst_why(context, status);
}
