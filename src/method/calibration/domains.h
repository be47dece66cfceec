/* The domain-aware layer: for each domain a scale of the log-probabilities and a bias of each
 * class, shrunk to those of all domains, which change nothing. docs/method.md#domains. */
#ifndef CST_CALIBRATION_DOMAINS_H
#define CST_CALIBRATION_DOMAINS_H

#include "core/scope.h"
#include "data/pool/view.h"

enum { CST_DOMAINS_MAX = 1 << 16 };

/* softmax(scale[d] * log(max(p, 1e-15)) + bias[d]) for a row of domain d. */
typedef struct cst_domain_map {
    int32_t classes;
    int32_t count;
    char **names;   /* [count], in the order of their bytes */
    int64_t *rows;  /* [count] that it was fitted on */
    double *scale;  /* [count] */
    double *bias;   /* [count][classes] */
    double *before; /* [count]: mean NLL of held-out predictions without the layer */
    double *after;  /* [count]: with a layer fitted without the row's fold */
} cst_domain_map;

typedef struct cst_domain_priors {
    double scale; /* precision of a scale around 1, against the total NLL */
    double bias;  /* precision of a bias around 0 */
} cst_domain_priors;

/* Fits on probabilities [view->rows][classes] of a labelled view's rows, with their weights; rows
 * without a domain are not used. `before` and `after` stay 0. *out is the caller's. */
cst_status cst_domain_map_fit(cst_context *context, const cst_view *view,
                              const float *probabilities, const cst_domain_priors *priors,
                              cst_domain_map **out);

/* Rows of domain d in place; probabilities: [count][classes]. Nothing where d is negative. */
void cst_domain_rows(const cst_domain_map *map, int32_t d, int64_t count, double *probabilities);

/* Positions in the map of the domains of a view, [domains->count], -1 for those it does not know.
 * The caller frees *out. */
cst_status cst_domain_places(cst_context *context, const cst_domain_map *map,
                             const cst_domains *domains, int32_t **out);

/* The arrays of a map without names. Free with cst_domain_map_free, also after a failure. */
cst_status cst_domain_map_alloc(cst_context *context, int32_t count, int32_t classes,
                                cst_domain_map **out);
void cst_domain_map_free(cst_context *context, cst_domain_map *map);

#endif
