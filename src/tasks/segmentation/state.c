/* Sampled pixels and counted rows of an evaluation of a segmentation. See the header. */
#include "tasks/segmentation/state.h"

typedef cst_map_state state;
typedef cst_sampled_pixels sampled;

cst_status cst_sampled_open(cst_context *context, const cst_evaluation *e,
                            const cst_segment_settings *settings, double balance, int32_t folds,
                            sampled *out) {
    out->settings = *settings;
    out->settings.balance = balance;
    cst_status status = cst_pixel_sample_make(context, e->pool, cst_evaluation_fitted(e),
                                              &out->settings, &out->sample);
    CST_THEN(
        cst_training_open(context, out->sample.pool, "oof", folds, e->options->seed, &out->source));
    return status;
}

cst_status cst_map_state_rows(cst_context *context, const cst_pool *pool, const char *split,
                              state *s) {
    s->cases = cst_pool_cases(pool, split);
    s->pixels = 0;
    if (!s->view.labels)
        return cst_fail(context, CST_ERROR_INPUT,
                        "split '%s' has no masks (\"labels\") to score against", split);
    cst_status status = CST_OK;
    for (int64_t i = 0; status == CST_OK && i < s->view.rows; i++) {
        status = cst_poll_item(context, i);
        s->pixels += s->view.labels[i] >= 0;
    }
    CST_THEN(cst_cases_check_counted(context, pool, split));
    return status;
}
