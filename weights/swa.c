/*
 * Stochastic weight averaging: the mean over checkpoints of a training run, which can be continued.
 * Paper: Related Work (weight-space fusion); Izmailov et al. 2018.
 */
#include "weights/mix.h"
#include "weights/swag_model.h"

#include <string.h>

static cst_status average(cst_context *context, const cst_checkpoints *c, bool continued,
                          const char *path) {
    int64_t all = c->count;
    double *counts = cst_alloc(context, (size_t)c->count, sizeof *counts);
    cst_status status = counts ? CST_OK : CST_ERROR_MEMORY;
    for (int32_t k = 0; status == CST_OK && k < c->count; k++)
        counts[k] = 1;
    if (status == CST_OK && continued) {
        int64_t before = 0;
        status = cst_swa_count_of(context, c->files[0], &before);
        counts[0] = (double)before;
        all += before - 1;
    }
    char text[24];
    (void)cst_snprintf(text, sizeof text, "%lld", (long long)all);
    const cst_weights_entry entries[] = {{"corestack.kind", "swa"}, {CST_SWA_COUNT, text}};
    CST_THEN(cst_mix_write(context, c, counts, entries, sizeof entries / sizeof *entries, path));
    cst_free(context, counts);
    return status;
}

cst_status cst_swa_average(cst_context *context, const char *const *paths, int32_t count,
                           const char *from, const char *path) {
    CST_ENTER(context);
    if (!paths || count < 1 || !path)
        return cst_fail(
            context, CST_ERROR_ARGUMENT,
            "averaging checkpoints: at least one path, and a path for the average, are required");
    int32_t first = from ? 1 : 0;
    CST_FITS(context, count, 1, sizeof *paths);
    const char **all = cst_alloc(context, (size_t)count + 1, sizeof *all);
    if (!all)
        return cst_why(context, CST_ERROR_MEMORY);
    all[0] = from;
    memcpy(all + first, paths, (size_t)count * sizeof *paths);
    cst_checkpoints *c = NULL;
    cst_status status = count < INT32_MAX
                            ? cst_checkpoints_open(context, &c, all, count + first)
                            : cst_fail(context, CST_ERROR_LIMIT, "too many checkpoints");
    CST_THEN(average(context, c, from != NULL, path));
    cst_checkpoints_close(context, c);
    cst_free(context, all);
    return cst_why(context, status);
}
