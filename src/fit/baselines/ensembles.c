/* Averages over members tagged as parts of an ensemble. docs/baselines.md#definitions. */
#include "fit/baselines/ensembles.h"

#include "fit/baselines/baselines.h"
#include "stats/samples.h"

#include <math.h>
#include <string.h>

cst_status cst_mixture_rows(cst_context *context, const cst_view *view, const double *weights,
                            int64_t block, double *out) {
    cst_rows rows;
    CST_SCOPE(scope);
    CST_TRY(cst_rows_open(context, scope, view, block, &rows));
    int64_t cells = rows.count * view->classes;
    memset(out, 0, (size_t)cells * sizeof *out);
    for (int32_t k = 0; k < view->members; k++) {
        if (weights[k] == 0)
            continue;
        CST_TRY(cst_rows_read(context, &rows, k));
        for (int64_t j = 0; j < cells; j++)
            out[j] += weights[k] * (double)rows.data[j];
    }
    return CST_OK;
}

enum { NAME_BYTES = 63 }; /* of a group's name in the detail */

/* In the order of cst_ensemble_kind, which starts at 1. */
static const cst_ensemble_rule RULES[] = {
    {CST_ENSEMBLE_DEEP, true, false, 2},      {CST_ENSEMBLE_SNAPSHOT, true, false, 2},
    {CST_ENSEMBLE_MC_DROPOUT, true, true, 1}, {CST_ENSEMBLE_SWAG, true, true, 1},
    {CST_ENSEMBLE_SOUP, false, false, 1},
};

const cst_ensemble_rule *cst_ensemble_rule_of(cst_ensemble_kind kind) {
    for (size_t i = 0; i < sizeof RULES / sizeof RULES[0]; i++)
        if (RULES[i].kind == kind)
            return &RULES[i];
    return NULL;
}

static bool together(const cst_ensemble_rule *rule, const cst_member_ensemble *tags, int32_t a,
                     int32_t b) {
    if (tags[a].kind != rule->kind || tags[b].kind != rule->kind)
        return false;
    if (a == b)
        return true;
    return rule->group && tags[a].of && tags[b].of && strcmp(tags[a].of, tags[b].of) == 0;
}

int32_t cst_ensemble_group(const cst_ensemble_rule *rule, const cst_member_ensemble *tags,
                           int32_t members, int32_t first, double *weights) {
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

bool cst_ensemble_applies(const cst_ensemble_rule *rule, const cst_member_ensemble *tags,
                          int32_t members) {
    for (int32_t k = 0; tags && k < members; k++)
        if (cst_ensemble_group(rule, tags, members, k, NULL) > 0)
            return true;
    return false;
}

void cst_ensemble_describe(const cst_member_ensemble *tags, const cst_ensemble_choice *choice,
                           char *detail, size_t room) {
    const char *of = tags[choice->first].of;
    const char *name = of ? of : "";
    size_t length = strlen(name);
    if (length > NAME_BYTES) {
        length = NAME_BYTES;
        while (length > 0 && ((unsigned char)name[length] & 0xC0U) == 0x80U)
            length--;
    }
    (void)cst_snprintf(detail, room, "of '%.*s', %d member%s; %d candidate%s", (int)length, name,
                       (int)choice->size, choice->size == 1 ? "" : "s", (int)choice->groups,
                       choice->groups == 1 ? "" : "s");
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
    CST_SCOPE(scope);
    CST_NEW(context, scope, double, mixture, (size_t)count *classes);
    CST_TRY(cst_mixture_rows(context, view, job->weights, block, mixture));
    for (int64_t i = 0; i < count; i++) {
        double p = mixture[(size_t)i * classes + (size_t)cst_view_label(view, first + i)];
        *sum -= cst_view_weight(view, first + i) * log(fmax(p, CST_NLL_FLOOR));
    }
    return CST_OK;
}

cst_status cst_fit_ensemble(cst_context *context, const cst_baseline_data *data,
                            cst_baseline_fit *out) {
    const cst_ensemble_rule *rule = cst_ensemble_rule_of(out->baseline->ensemble);
    const cst_member_ensemble *tags = data->ensembles;
    double least = INFINITY;
    cst_ensemble_choice best = {0};
    CST_SCOPE(scope);
    CST_NEW(context, scope, double, weights, out->members);
    for (int32_t k = 0; k < out->members; k++) {
        int32_t size = cst_ensemble_group(rule, tags, out->members, k, weights);
        if (size == 0)
            continue;
        loss_job job = {data->view, weights};
        double loss = 0;
        CST_TRY(cst_reduce_blocks(context, cst_block_count(data->view->rows), 1, loss_block, &job,
                                  &loss));
        if (best.groups++ > 0 && !(loss < least))
            continue;
        least = loss;
        best.first = k;
        best.size = size;
        memcpy(out->weights, weights, (size_t)out->members * sizeof *weights);
    }
    cst_ensemble_describe(tags, &best, out->detail, sizeof out->detail);
    return CST_OK;
}
