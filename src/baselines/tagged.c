/*
 * Averages over members that the manifest tags as parts of an ensemble: deep ensembles, snapshots,
 * MC dropout, model soups and SWAG. Baselines beside the stack, which apply where such members are
 * in the pool. Paper: section "Experimental Setup"; method.md section 8.
 */
#include "baselines/baselines.h"

#include "metrics/risk.h"

#include <math.h>
#include <string.h>

enum { NAME_BYTES = 63 }; /* of a group's name in the detail */

/* What of a kind is averaged. */
typedef struct tagged_rule {
    cst_ensemble_kind kind;
    bool group;    /* members of one `of` are averaged; otherwise each stands alone */
    bool passes;   /* weighted by forward passes: one average over all passes */
    int32_t least; /* members that a group must have */
} tagged_rule;

static const tagged_rule DEEP = {CST_ENSEMBLE_DEEP, true, false, 2};
static const tagged_rule SNAPSHOT = {CST_ENSEMBLE_SNAPSHOT, true, false, 2};
static const tagged_rule MC_DROPOUT = {CST_ENSEMBLE_MC_DROPOUT, true, true, 1};
static const tagged_rule SOUP = {CST_ENSEMBLE_SOUP, false, false, 1};
static const tagged_rule SWAG = {CST_ENSEMBLE_SWAG, false, false, 1};

static bool together(const tagged_rule *rule, const cst_member_ensemble *tags, int32_t a,
                     int32_t b) {
    if (tags[a].kind != rule->kind || tags[b].kind != rule->kind)
        return false;
    if (a == b)
        return true;
    return rule->group && tags[a].of && tags[b].of && strcmp(tags[a].of, tags[b].of) == 0;
}

/* Weights [members] of the group whose first member is `first`, and its size; 0 where `first` is
 * not the first of a group, or the group is too small. weights may be NULL. */
static int32_t group_of(const tagged_rule *rule, const cst_member_ensemble *tags, int32_t members,
                        int32_t first, double *weights) {
    int32_t size = 0;
    double total = 0;
    for (int32_t k = 0; k < members; k++) {
        bool in = together(rule, tags, first, k);
        if (in && k < first)
            return 0;
        double weight = !in ? 0 : rule->passes && tags[k].passes > 0 ? (double)tags[k].passes : 1;
        size += in;
        total += weight;
        if (weights)
            weights[k] = weight;
    }
    for (int32_t k = 0; weights && size > 0 && k < members; k++)
        weights[k] /= total;
    return size >= rule->least ? size : 0;
}

static bool applies(const tagged_rule *rule, const cst_baseline_data *data) {
    for (int32_t k = 0; data->ensembles && k < data->view->members; k++)
        if (group_of(rule, data->ensembles, data->view->members, k, NULL) > 0)
            return true;
    return false;
}

typedef struct loss_job {
    const cst_view *view;
    const double *weights;
} loss_job;

static cst_status loss_block(cst_context *context, void *user, int64_t block, double *sum) {
    const loss_job *job = user;
    const cst_view *view = job->view;
    int64_t first = cst_block_first(block);
    int64_t count = cst_block_size(view->rows, block);
    size_t classes = (size_t)view->classes;
    size_t cells = (size_t)count * classes;
    float *scratch = cst_alloc(context, cst_view_copies(view) ? cells : 0, sizeof *scratch);
    double *mixture = cst_alloc(context, cells, sizeof *mixture);
    cst_status status = scratch && mixture ? CST_OK : CST_ERROR_MEMORY;
    if (status == CST_OK)
        status = cst_mixture_rows(context, view, job->weights, first, count, scratch, mixture);
    for (int64_t i = 0; status == CST_OK && i < count; i++) {
        double p = mixture[(size_t)i * classes + (size_t)cst_view_label(view, first + i)];
        *sum -= cst_view_weight(view, first + i) * log(fmax(p, CST_NLL_FLOOR));
    }
    cst_free(context, scratch);
    cst_free(context, mixture);
    return status;
}

/* Which group, how many members of it, how many groups there were. The name is cut between
 * characters of UTF-8. */
static void describe(const cst_member_ensemble *tag, int32_t size, int32_t groups, char *detail,
                     size_t room) {
    const char *name = tag->of ? tag->of : "";
    size_t length = strlen(name);
    if (length > NAME_BYTES) {
        length = NAME_BYTES;
        while (length > 0 && ((unsigned char)name[length] & 0xC0U) == 0x80U)
            length--;
    }
    (void)cst_snprintf(detail, room, "of '%.*s', %d member%s; %d candidate%s", (int)length, name,
                       (int)size, size == 1 ? "" : "s", (int)groups, groups == 1 ? "" : "s");
}

static cst_status fit(cst_context *context, const tagged_rule *rule, const cst_baseline_data *data,
                      cst_baseline_fit *out) {
    const cst_member_ensemble *tags = data->ensembles;
    size_t bytes = (size_t)out->members * sizeof *out->weights;
    double *weights = cst_alloc(context, (size_t)out->members, sizeof *weights);
    cst_status status = weights ? CST_OK : CST_ERROR_MEMORY;
    double least = INFINITY;
    int32_t groups = 0;
    int32_t best = 0;
    int32_t best_size = 0;
    for (int32_t k = 0; status == CST_OK && k < out->members; k++) {
        int32_t size = group_of(rule, tags, out->members, k, weights);
        if (size == 0)
            continue;
        loss_job job = {data->view, weights};
        double loss = 0;
        status = cst_reduce_blocks(context, cst_block_count(data->view->rows), 1, loss_block, &job,
                                   &loss);
        if (groups++ > 0 && !(loss < least))
            continue;
        least = loss;
        best = k;
        best_size = size;
        memcpy(out->weights, weights, bytes);
    }
    if (status == CST_OK)
        describe(&tags[best], best_size, groups, out->detail, sizeof out->detail);
    cst_free(context, weights);
    return status;
}

/* One baseline for each kind: its two functions hand the rule on. */
#define TAGGED(identifier, rule, title, text)                                                      \
    static bool identifier##_applies(const cst_baseline_data *data) {                              \
        return applies(&(rule), data);                                                             \
    }                                                                                              \
    static cst_status identifier##_fit(cst_context *context, const cst_baseline_data *data,        \
                                       cst_baseline_fit *out) {                                    \
        return fit(context, &(rule), data, out);                                                   \
    }                                                                                              \
    const cst_baseline cst_baseline_##identifier = {                                               \
        .name = (title),                                                                           \
        .definition = (text),                                                                      \
        .applies = identifier##_applies,                                                           \
        .fit = identifier##_fit,                                                                   \
    }

TAGGED(deep_ensemble, DEEP, "deep-ensemble",
       "the mean of the members tagged as one deep ensemble (at least two); of several, the one "
       "whose mean has the least NLL on the out-of-fold rows");
TAGGED(snapshot, SNAPSHOT, "snapshot",
       "the mean of the members tagged as snapshots of one run (at least two); of several runs, "
       "the one whose mean has the least NLL on the out-of-fold rows");
TAGGED(mc_dropout, MC_DROPOUT, "mc-dropout",
       "the mean over the dropout passes of one network, members weighted by their passes; of "
       "several networks, the one whose mean has the least NLL on the out-of-fold rows");
TAGGED(soup, SOUP, "soup",
       "the member tagged as a soup of averaged weights; of several, the one with the least NLL "
       "on the out-of-fold rows");
TAGGED(swag, SWAG, "swag",
       "the member tagged as an average over SWAG samples; of several, the one with the least NLL "
       "on the out-of-fold rows");
