/* The projection of members by risk and similarity, and its threshold. */
#include "method/redundancy/redundancy.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* NaN (a risk that is not known) goes behind every number. */
static bool riskier(double a, double b) {
    if (isnan(b))
        return false;
    return isnan(a) || a > b;
}

/* Insertion sort, stable: equal risks stay in index order. */
static void order_by_risk(const double *risk, int32_t members, int32_t *order) {
    for (int32_t k = 0; k < members; k++) {
        int32_t at = k;
        while (at > 0 && riskier(risk[order[at - 1]], risk[k])) {
            order[at] = order[at - 1];
            at--;
        }
        order[at] = k;
    }
}

static bool is_constant(const cst_projection_rule *rule, int32_t member) {
    return rule->constant && rule->constant[member];
}

/* Whether member and the first `count` kept are within the limits; writes it behind them. */
static bool affordable(const cst_projection_rule *rule, int32_t *kept, int32_t count,
                       int32_t member) {
    kept[count] = member;
    return cst_costs_within(&rule->costs, &rule->limits, kept, count + 1);
}

/* Rounding of a similarity, and of a risk relative to it, of members that say the same. */
static const double ALIKE = 1e-6;
static const double SAME_RISK = 1e-4;

static bool equal(double similarity, double a, double b) {
    return similarity >= 1 - ALIKE && fabs(a - b) <= SAME_RISK * fmax(fabs(a), fabs(b));
}

/* `member` is kept instead of `other`, which it is equal to. */
static void take_place(cst_projection *out, int32_t member, int32_t other) {
    for (int32_t i = 0; i < out->kept_count; i++)
        if (out->kept[i] == other)
            out->kept[i] = member;
    for (int32_t k = 0; k < out->members; k++)
        if (out->reason[k] == CST_DROPPED_REDUNDANT && out->partner[k] == other)
            out->partner[k] = member;
    out->reason[member] = CST_KEPT;
    out->reason[other] = CST_DROPPED_REDUNDANT;
    out->partner[other] = member;
    out->similarity[other] = out->similarity[member];
}

static bool redundant(const cst_projection *out, const cst_projection_rule *rule,
                      const double *risk, int32_t member) {
    int32_t partner = out->partner[member];
    if (partner < 0 || !(out->similarity[member] > rule->tau))
        return false;
    bool dominated = cst_cheaper(&rule->costs, member, partner) ||
                     !cst_costs_less(&rule->costs, member, partner);
    return !rule->equal_only ||
           (dominated && equal(out->similarity[member], risk[member], risk[partner]));
}

/* The most similar kept member that can make `member` redundant; ties: lower risk. */
static void find_partner(const double *similarity, int32_t members, int32_t member,
                         const double *risk, const cst_projection_rule *rule, cst_projection *out) {
    const double *row = similarity + (size_t)member * (size_t)members;
    out->partner[member] = -1;
    out->similarity[member] = NAN;
    for (int32_t i = 0; i < out->kept_count; i++) {
        double value = row[out->kept[i]];
        if (rule->keep_ties && !riskier(risk[member], risk[out->kept[i]]))
            continue;
        if (out->partner[member] < 0 || value > out->similarity[member]) {
            out->partner[member] = out->kept[i];
            out->similarity[member] = value;
        }
    }
}

static void project_ordered(const double *similarity, int32_t members, const double *risk,
                            const int32_t *order, const cst_projection_rule *rule,
                            cst_projection *out) {
    int32_t single[1];
    out->kept_count = 0;
    for (int32_t i = 0; i < members; i++) {
        int32_t k = order[i];
        find_partner(similarity, members, k, risk, rule, out);
        if (is_constant(rule, k)) {
            out->reason[k] = CST_DROPPED_CONSTANT;
        } else if (!affordable(rule, single, 0, k)) { /* NOLINT(bugprone-branch-clone) */
            out->reason[k] = CST_DROPPED_COST; /* must not stand in for one that can be kept */
        } else if (redundant(out, rule, risk, k)) {
            int32_t partner = out->partner[k];
            out->reason[k] = CST_DROPPED_REDUNDANT;
            if (!rule->keep_ties && equal(out->similarity[k], risk[k], risk[partner]) &&
                cst_cheaper(&rule->costs, k, partner))
                take_place(out, k, partner);
        } else if (rule->cap_count > 0 && out->kept_count >= rule->cap_count) {
            out->reason[k] = CST_DROPPED_COUNT;
        } else if (!affordable(rule, out->kept, out->kept_count, k)) {
            out->reason[k] = CST_DROPPED_COST;
        } else {
            out->reason[k] = CST_KEPT;
            out->kept[out->kept_count++] = k;
        }
    }
}

static cst_status nothing_kept(cst_context *context, const int32_t *order, int32_t members,
                               const cst_projection_rule *rule, cst_projection *out) {
    int32_t varying = 0; /* kept is scratch for them */
    for (int32_t i = 0; i < members; i++)
        if (!is_constant(rule, order[i]))
            out->kept[varying++] = order[i];
    if (varying > 0)
        return cst_costs_too_dear(context, &rule->costs, &rule->limits, out->kept, varying);
    out->reason[order[0]] = CST_KEPT;
    out->kept[out->kept_count++] = order[0];
    return CST_OK;
}

static cst_status check_members(cst_context *context, int32_t members) {
    if (members < 1)
        return cst_fail(context, CST_ERROR_ARGUMENT,
                        "a similarity matrix needs at least one member, got %d", (int)members);
    return CST_OK;
}

cst_status cst_project(cst_context *context, const double *similarity, int32_t members,
                       const double *risk, const cst_projection_rule *rule, cst_projection *out) {
    *out = (cst_projection){.members = members};
    CST_TRY(check_members(context, members));
    CST_SCOPE(scope);
    CST_NEW(context, scope, int32_t, order, members);
    CST_TAKE(context, &out->scope, out->kept, members);
    CST_TAKE(context, &out->scope, out->reason, members);
    CST_TAKE(context, &out->scope, out->partner, members);
    CST_TAKE(context, &out->scope, out->similarity, members);
    order_by_risk(risk, members, order);
    project_ordered(similarity, members, risk, order, rule, out);
    return out->kept_count > 0 ? CST_OK : nothing_kept(context, order, members, rule, out);
}

void cst_projection_free(cst_context *context, cst_projection *projection) {
    (void)context;
    cst_scope_free(&projection->scope);
    *projection = (cst_projection){0};
}

/* The off-diagonal values, ascending, with room for one more. */
static cst_status sorted_pairs(cst_context *context, cst_scope *scope, const double *similarity,
                               int32_t members, double **values, int64_t *count) {
    size_t k = (size_t)members;
    size_t pairs = k * (k - 1) / 2;
    CST_TAKE(context, scope, *values, pairs + 1);
    size_t at = 0;
    for (size_t a = 0; a < k; a++)
        for (size_t b = a + 1; b < k; b++) {
            double value = similarity[a * k + b];
            if (!isfinite(value))
                return cst_fail(context, CST_ERROR_NUMERIC,
                                "the similarity of members %zu and %zu is not a number; look for "
                                "NaN or infinity in their predictions",
                                a, b);
            (*values)[at++] = value;
        }
    qsort(*values, pairs, sizeof **values, cst_by_f64);
    *count = (int64_t)pairs;
    return CST_OK;
}

cst_status cst_elbow_threshold(cst_context *context, const double *similarity, int32_t members,
                               double *tau, bool *found) {
    double *values = NULL;
    int64_t count = 0;
    double widest = 0;
    *tau = 1;
    *found = false;
    CST_SCOPE(scope);
    CST_TRY(check_members(context, members));
    CST_TRY(sorted_pairs(context, scope, similarity, members, &values, &count));
    for (int64_t i = 0; members >= 3 && i + 1 < count; i++) {
        double gap = values[i + 1] - values[i];
        if (gap > 0 && gap >= widest) {
            widest = gap;
            *tau = values[i] + gap / 2;
            *found = true;
        }
    }
    return CST_OK;
}

/* Thresholds below, between and above the different values, into `values` [count + 1]. */
static int64_t thresholds_between(double *values, int64_t count) {
    if (count == 0) {
        values[0] = 1;
        return 1;
    }
    int64_t made = 0;
    double before = values[0];
    double highest = values[count - 1];
    values[made++] = before > 0 ? before / 2 : before - 1;
    for (int64_t i = 1; i < count; i++) {
        double value = values[i]; /* made <= i, and values[i] is read before it is overwritten */
        if (value > before)
            values[made++] = before + (value - before) / 2;
        before = value;
    }
    values[made++] = highest < 1 ? 1 : highest;
    return made;
}

/* Keeps `capacity` of `count` values, evenly spaced in rank, with both ends. */
static int64_t thin(double *values, int64_t count, int64_t capacity) {
    if (count <= capacity)
        return count;
    if (capacity == 1) {
        values[0] = values[count - 1];
        return 1;
    }
    for (int64_t i = 0; i < capacity; i++)
        values[i] = values[i * (count - 1) / (capacity - 1)];
    return capacity;
}

CST_OWNED(cst_projection)

/* Projections tried at most; more pairs than that are thinned first. */
enum { PROJECTIONS_MAX = 1024 };

/* Leaves of each run of thresholds with the same kept set the first. */
static cst_status distinct_sets(cst_context *context, const double *similarity, int32_t members,
                                const double *risk, const cst_projection_rule *rule, double *values,
                                int64_t *count) {
    int32_t before = -1; /* members of the last set */
    int64_t made = 0;
    cst_projection_rule at = *rule;
    CST_SCOPE(scope);
    CST_NEW(context, scope, int32_t, kept, members);
    for (int64_t i = 0; i < *count; i++) {
        cst_projection next = {0};
        CST_SCOPE(one);
        CST_OWN(context, one, cst_projection, &next);
        at.tau = values[i];
        CST_TRY(cst_project(context, similarity, members, risk, &at, &next));
        size_t bytes = (size_t)next.kept_count * sizeof *kept;
        if (next.kept_count == before && memcmp(kept, next.kept, bytes) == 0)
            continue;
        before = next.kept_count;
        memcpy(kept, next.kept, bytes);
        values[made++] = at.tau;
    }
    *count = made;
    return CST_OK;
}

cst_status cst_threshold_candidates(cst_context *context, const double *similarity, int32_t members,
                                    const double *risk, const cst_projection_rule *rule,
                                    int32_t capacity, double *taus, int32_t *count) {
    double *values = NULL;
    int64_t pairs = 0;
    *count = 0;
    if (capacity < 1)
        return cst_fail(context, CST_ERROR_ARGUMENT, "at least one threshold is needed, got %d",
                        (int)capacity);
    CST_SCOPE(scope);
    CST_TRY(check_members(context, members));
    CST_TRY(sorted_pairs(context, scope, similarity, members, &values, &pairs));
    int64_t made = thin(values, thresholds_between(values, pairs), PROJECTIONS_MAX);
    CST_TRY(distinct_sets(context, similarity, members, risk, rule, values, &made));
    made = thin(values, made, capacity);
    memcpy(taus, values, (size_t)made * sizeof *taus);
    *count = (int32_t)made;
    return CST_OK;
}

static double mean_of(const double *values, int32_t count) {
    double sum = 0;
    for (int32_t i = 0; i < count; i++)
        sum += values[i];
    return sum / count;
}

cst_status cst_threshold_cv(cst_context *context, const double *loss, int32_t count, int32_t folds,
                            int32_t *chosen, int32_t *best) {
    *chosen = *best = -1;
    if (count < 1 || folds < 2)
        return cst_fail(context, CST_ERROR_ARGUMENT,
                        "the one-standard-error rule needs a candidate and two folds, got %d and "
                        "%d",
                        (int)count, (int)folds);
    double lowest = INFINITY;
    for (int32_t i = 0; i < count; i++) {
        double mean = mean_of(loss + (size_t)i * (size_t)folds, folds);
        if (isfinite(mean) && mean < lowest) {
            lowest = mean;
            *best = i;
        }
    }
    if (*best < 0)
        return cst_fail(context, CST_ERROR_NUMERIC,
                        "no candidate threshold has a finite loss; look for NaN or infinity in "
                        "the predictions");
    const double *row = loss + (size_t)*best * (size_t)folds;
    double squares = 0;
    for (int32_t f = 0; f < folds; f++)
        squares += (row[f] - lowest) * (row[f] - lowest);
    double error = sqrt(squares / (folds - 1) / folds);
    for (int32_t i = 0; i < count && *chosen < 0; i++)
        if (mean_of(loss + (size_t)i * (size_t)folds, folds) <= lowest + error)
            *chosen = i;
    return CST_OK;
}

/* ---- clusters of members by average linkage ---- */

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
static void find_nearest(agglomeration *a, size_t i) {
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

/* Updates partners after a merge: O(K) but for clusters whose partner was merged. */
static void update_partners(agglomeration *a, size_t into, size_t from) {
    a->value[from] = -INFINITY;
    find_nearest(a, into);
    for (size_t i = 0; i < from; i++) {
        if (i == into || !a->size[i])
            continue;
        double value = a->mean[i * a->members + into];
        if (a->partner[i] == into || a->partner[i] == from)
            find_nearest(a, i);
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
        find_nearest(&a, i);
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
