/*
 * Clusters of members by average linkage, for the report and for the cluster assumption of the
 * spectral bounds. Stage S1, beside the projection. Paper: assumption "CKA-cluster redundancy";
 * method section 2.
 */
#include "redundancy/redundancy.h"

#include <math.h>
#include <string.h>

/* Clusters during agglomeration: a cluster lives at the place of its first member. */
typedef struct agglomeration {
    size_t members; /* K */
    double *mean;   /* [K*K], mean similarity between the members of two clusters */
    int64_t *size;  /* [K], 0 once merged into another */
    int32_t *home;  /* [K], first member of the cluster a member is in */
} agglomeration;

/* The two clusters with the largest mean similarity; ties go to the first pair. */
static double closest(const agglomeration *a, size_t *first, size_t *second) {
    double largest = -INFINITY;
    for (size_t i = 0; i < a->members; i++) {
        for (size_t j = i + 1; a->size[i] && j < a->members; j++) {
            double value = a->mean[i * a->members + j];
            if (a->size[j] && value > largest) {
                largest = value;
                *first = i;
                *second = j;
            }
        }
    }
    return largest;
}

static void merge(agglomeration *a, size_t into, size_t from) {
    size_t k = a->members;
    double p = (double)a->size[into];
    double q = (double)a->size[from];
    for (size_t j = 0; j < k; j++) {
        double mean = (p * a->mean[into * k + j] + q * a->mean[from * k + j]) / (p + q);
        a->mean[into * k + j] = mean;
        a->mean[j * k + into] = mean;
    }
    a->size[into] += a->size[from];
    a->size[from] = 0;
    for (size_t j = 0; j < k; j++)
        if (a->home[j] == (int32_t)from)
            a->home[j] = (int32_t)into;
}

cst_status cst_clusters(cst_context *context, const double *similarity, int32_t members,
                        double threshold, int32_t *cluster_of) {
    if (members < 1)
        return cst_fail(context, CST_ERROR_ARGUMENT, "clusters need at least one member, got %d",
                        (int)members);
    size_t k = (size_t)members;
    cst_status status = CST_OK;
    agglomeration a = {.members = k};
    a.mean = cst_alloc(context, k * k, sizeof *a.mean);
    a.size = cst_alloc(context, k, sizeof *a.size);
    a.home = cst_alloc(context, k, sizeof *a.home);
    if (!a.mean || !a.size || !a.home) {
        status = CST_ERROR_MEMORY;
        goto cleanup;
    }
    memcpy(a.mean, similarity, k * k * sizeof *a.mean);
    for (size_t i = 0; i < k; i++) {
        a.size[i] = 1;
        a.home[i] = (int32_t)i;
    }
    size_t first = 0;
    size_t second = 0;
    while (closest(&a, &first, &second) > threshold)
        merge(&a, first, second);
    int32_t next = 0;
    for (size_t i = 0; i < k; i++)
        cluster_of[i] = a.home[i] == (int32_t)i ? next++ : cluster_of[a.home[i]];

cleanup:
    cst_free(context, a.mean);
    cst_free(context, a.size);
    cst_free(context, a.home);
    return status;
}
