/*
 * The domain-aware layer of a stack: fitted on predictions of rows by stacks that have not seen
 * them, and kept where it lowers the held-out loss. After stage S4. docs/method.md#domains; paper:
 * "Domain Shift".
 */
#ifndef CST_PIPELINE_DOMAIN_H
#define CST_PIPELINE_DOMAIN_H

#include "fit/settings.h"
#include "method/calibration/domains.h"

/* What came of it; all 0 where it was not tried. */
typedef struct cst_domain_layer {
    bool tried;
    bool used;
    double before; /* mean NLL of held-out predictions */
    double after;  /* with a layer that was fitted without the row's fold */
    double change; /* of the mean, negative where the layer helps */
    double se;     /* of the change */
    cst_domain_map *map;
} cst_domain_layer;

/* Whether a layer is to be tried on these rows. */
bool cst_domain_wanted(const cst_view *view, const cst_settings *settings);

/* held: [view->rows][classes], each row predicted by a stack fitted without its fold. */
cst_status cst_domain_layer_fit(cst_context *context, const cst_view *view, const int32_t *folds,
                                int32_t fold_count, const cst_settings *settings, const float *held,
                                cst_domain_layer *out);
void cst_domain_layer_free(cst_context *context, cst_domain_layer *layer);

#endif
