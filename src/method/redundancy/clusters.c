/* Clusters of members by average linkage, for the report and for the cluster assumption of the
 * spectral bounds. Paper: assumption "CKA-cluster redundancy"; method section 2. */
#include "method/redundancy/redundancy.h"

#include <math.h>
#include <string.h>

/* Clusters during agglomeration: a cluster lives at the place of its first member. */
typedef struct agglomeration {
    size_t members;  /* K */
    double *mean;    /* [K*K], mean similarity between the members of two clusters */
    int64_t *size;   /* [K], 0 once merged into another */
    size_t *partner; /* [K], the most similar cluster behind this one */
    double *value;   /* [K], that similarity; -infinity without one */
    int32_t *home;   /* [K], first member of the cluster a member is in */
} agglomeration;

/* The cluster behind i that is most similar to it; ties go to the first. */
static void find_partner(agglomeration *a, size_t i) {
    double largest = -INFINITY;
    a->partner[i] = i;
    for (size_t j = i + 1; a->size[i] && j < a->members; j++) {
        double value = a->mean[i * a->members + j];
        if (a->size[j] && value > largest) {
            largest = value;
            a->partner[i] = j;
        }
    }
    a->value[i] = largest;
}

/* The two clusters with the largest mean similarity; ties go to the first pair. */
static double closest(const agglomeration *a, size_t *first, size_t *second) {
    double largest = -INFINITY;
    for (size_t i = 0; i < a->members; i++) {
        if (a->value[i] > largest) {
            largest = a->value[i];
            *first = i;
            *second = a->partner[i];
        }
    }
    return largest;
}

/* Brings partners up to date after a merge, looking only at what it changed: a step is O(K) but for
 * the clusters whose partner was one of the two. */
static void update_partners(agglomeration *a, size_t into, size_t from) {
    a->value[from] = -INFINITY;
    find_partner(a, into);
    for (size_t i = 0; i < from; i++) {
        if (i == into || !a->size[i])
            continue;
        double value = a->mean[i * a->members + into];
        if (a->partner[i] == into || a->partner[i] == from)
            find_partner(a, i);
        else if (i < into &&
                 (value > a->value[i] || (value >= a->value[i] && into < a->partner[i]))) {
            a->value[i] = value;
            a->partner[i] = into;
        }
    }
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
    update_partners(a, into, from);
}

cst_status cst_clusters(cst_context *context, const double *similarity, int32_t members,
                        double threshold, int32_t *cluster_of) {
    if (members < 1)
        return cst_fail(context, CST_ERROR_ARGUMENT, "clusters need at least one member, got %d",
                        (int)members);
    size_t k = (size_t)members;
    agglomeration a = {.members = k};
    CST_SCOPE(scope);
    CST_TAKE(context, scope, a.mean, k * k);
    CST_TAKE(context, scope, a.size, k);
    CST_TAKE(context, scope, a.home, k);
    CST_TAKE(context, scope, a.partner, k);
    CST_TAKE(context, scope, a.value, k);
    cst_copy(context, a.mean, similarity, k * k * sizeof *a.mean);
    for (size_t i = 0; i < k; i++) {
        a.size[i] = 1;
        a.home[i] = (int32_t)i;
    }
    for (size_t i = 0; i < k; i++) {
        find_partner(&a, i);
        CST_TRY(cst_poll(context));
    }
    size_t first = 0;
    size_t second = 0;
    while (closest(&a, &first, &second) > threshold) {
        merge(&a, first, second);
        CST_TRY(cst_poll(context));
    }
    int32_t next = 0;
    for (size_t i = 0; i < k; i++)
        cluster_of[i] = a.home[i] == (int32_t)i ? next++ : cluster_of[a.home[i]];
    return CST_OK;
}
