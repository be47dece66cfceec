/* How well methods tell rows out of distribution. docs/robustness.md#out-of-distribution. */
#include "tasks/classification/classification.h"

#include "stats/ood.h"

#include <math.h>
#include <string.h>

/* Sweeps over all samples are dear: intervals are of at most so many resamples. */
enum { RESAMPLES_MAX = 1000 };

enum { MAX_PROBABILITY, ENTROPY, ENERGY, DISAGREEMENT, MUTUAL_INFORMATION, OOD_SCORES };

static const char *const SCORE_NAMES[OOD_SCORES] = {"max_probability", "predictive_entropy",
                                                    "energy", "disagreement", "mutual_information"};
/* Behind "ood_auroc" and the others in a row. */
static const char *const SUFFIXES[OOD_SCORES] = {"", "_entropy", "_energy", "_disagreement",
                                                 "_mutual_information"};

typedef struct ood_job {
    const cst_shift *shift;
    double **normalisers[2]; /* of rows in and of those out, [members]; NULL: not read */
    bool logits;
    bool from_memory; /* logits, but no files of them */
} ood_job;

static bool is_used(const cst_shift_method *method, int32_t j) {
    return !method->uses || method->uses[j];
}

/* Of every member that some method uses. */
static cst_status read_normalisers(cst_context *context, cst_scope *scope, const cst_shift *shift,
                                   int32_t t, double ***out) {
    const cst_target *target = &shift->targets->list[t];
    CST_NEW(context, scope, double *, all, cst_pool_members(shift->pool));
    for (int32_t m = 0; m < shift->count; m++) {
        const cst_shift_method *method = &shift->methods[m];
        for (int32_t j = 0; j < method->views[t].members; j++) {
            int32_t k = method->members ? method->members[j] : j;
            if (!is_used(method, j) || all[k])
                continue;
            CST_TAKE(context, scope, all[k], target->samples);
            CST_TRY(cst_pool_normalisers(context, shift->pool, target->split, k, all[k]));
        }
    }
    *out = all;
    return CST_OK;
}

/* Shares of the members: the method's weights, negative ones as 0; alike where it has none. */
static void shares(const cst_shift_method *method, int32_t members, double *out) {
    double total = 0;
    for (int32_t j = 0; j < members; j++) {
        out[j] = !is_used(method, j) ? 0 : method->weights ? fmax(method->weights[j], 0) : 1;
        total += out[j];
    }
    double count = 0;
    for (int32_t j = 0; j < members; j++)
        count += is_used(method, j);
    for (int32_t j = 0; j < members; j++)
        out[j] = total > 0 ? out[j] / total : is_used(method, j) ? 1 / count : 0;
}

/* scores: [OOD_SCORES][samples] of a target; energy only where there are normalisers. */
static cst_status score_target(cst_context *context, const ood_job *job,
                               const cst_shift_method *method, int32_t t,
                               double *const *normalisers, double *weights, double *scores) {
    const cst_target *target = &job->shift->targets->list[t];
    const cst_view *view = &method->views[t];
    size_t n = (size_t)target->samples;
    cst_ood_member_scores members = {scores + DISAGREEMENT * n, scores + MUTUAL_INFORMATION * n};
    CST_TRY(cst_ood_scores(context, method->predicted[t], target->samples, job->shift->classes,
                           CST_OOD_MAX_PROBABILITY, scores + MAX_PROBABILITY * n));
    CST_TRY(cst_ood_scores(context, method->predicted[t], target->samples, job->shift->classes,
                           CST_OOD_PREDICTIVE_ENTROPY, scores + ENTROPY * n));
    CST_TRY(cst_ood_members(context, view, weights, method->predicted[t], &members));
    memset(scores + ENERGY * n, 0, n * sizeof *scores);
    for (int32_t j = 0; normalisers && j < view->members; j++) {
        const double *own = normalisers[method->members ? method->members[j] : j];
        for (size_t i = 0; weights[j] > 0 && i < n; i++)
            scores[ENERGY * n + i] -= weights[j] * own[i];
    }
    return CST_OK;
}

static void put_interval(cst_report *report, json_t *object, const char *prefix, const char *suffix,
                         const cst_interval *interval) {
    char key[96];
    double ends[2] = {interval->low, interval->high};
    (void)cst_snprintf(key, sizeof key, "%s%s", prefix, suffix);
    cst_report_number(report, object, key, interval->value);
    (void)cst_snprintf(key, sizeof key, "%s%s_ci", prefix, suffix);
    if (!isnan(interval->low))
        cst_report_numbers(report, object, key, ends, 2);
}

/* Entry of a method's list "ood_scores"; of the first split also keys of the row. */
static void put_score(const ood_job *job, const cst_shift_method *method, json_t *list, int32_t t,
                      int s, bool first, const cst_ood_intervals *found) {
    const struct {
        const char *key, *row;
        const cst_interval *found;
    } all[] = {{"auroc", "ood_auroc", &found->auroc},
               {"aupr_out_positive", "ood_aupr", &found->aupr_out},
               {"aupr_in_positive", NULL, &found->aupr_in},
               {"fpr95_out_positive", "ood_fpr95", &found->fpr95_out},
               {"fpr95_in_positive", NULL, &found->fpr95_in},
               {"detection_error", NULL, &found->detection_error}};
    cst_report *report = job->shift->report;
    json_t *at = cst_report_add_object(report, list);
    CST_PUT(report, at, CST_S("split", job->shift->targets->list[t].split),
            CST_S("score", SCORE_NAMES[s]));
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        put_interval(report, at, all[i].key, "", all[i].found);
        if (first && all[i].row)
            put_interval(report, method->row, all[i].row, SUFFIXES[s], all[i].found);
    }
}

static int32_t first_ood(const cst_targets *targets) {
    int32_t t = 0;
    while (targets->list[t].role != CST_TARGET_OOD)
        t++;
    return t;
}

static cst_status compare_split(cst_context *context, const ood_job *job, int32_t m, int32_t t) {
    const cst_shift *shift = job->shift;
    const cst_shift_method *method = &shift->methods[m];
    size_t in = (size_t)shift->targets->list[0].samples;
    size_t out = (size_t)shift->targets->list[t].samples;
    int32_t first = first_ood(shift->targets);
    int32_t resamples = shift->resamples < RESAMPLES_MAX ? shift->resamples : RESAMPLES_MAX;
    CST_SCOPE(scope);
    CST_NEW(context, scope, double, scores, (OOD_SCORES * in));
    CST_NEW(context, scope, double, others, (OOD_SCORES * out));
    CST_NEW(context, scope, double, weights, method->views[0].members);
    json_t *list = t == first ? cst_report_list(shift->report, method->row, "ood_scores")
                              : json_object_get(method->row, "ood_scores");
    shares(method, method->views[0].members, weights);
    CST_TRY(score_target(context, job, method, 0, job->normalisers[0], weights, scores));
    CST_TRY(score_target(context, job, method, t, job->normalisers[1], weights, others));
    int32_t voters = 0;
    for (int32_t j = 0; j < method->views[0].members; j++)
        voters += weights[j] > 0;
    bool several = voters > 1;
    for (int s = 0; s < OOD_SCORES; s++) {
        cst_ood_intervals found;
        if ((s == ENERGY && !job->logits) || (s >= DISAGREEMENT && !several))
            continue; /* a member alone agrees with itself */
        CST_TRY(cst_ood_bootstrap(context, scores + (size_t)s * in, (int64_t)in,
                                  others + (size_t)s * out, (int64_t)out, resamples, shift->seed,
                                  &found));
        put_score(job, method, list, t, s, t == first, &found);
    }
    return CST_OK;
}

static void put_head(const ood_job *job) {
    cst_report *report = job->shift->report;
    json_t *at = cst_report_object(report, cst_report_root(report), "ood_detection");
    CST_PUT(report, at, CST_S("higher_scores", "more out of distribution"),
            CST_S("positive",
                  "out of distribution for AUROC (the same for either), ood_aupr, ood_fpr95 and "
                  "what ends on out_positive; in distribution for what ends on in_positive"));
    if (!job->logits)
        cst_report_string(report, at, "energy",
                          job->from_memory
                              ? "not computed: it needs the raw logits, which are read from files, "
                                "and this pool is from memory"
                              : "not computed: the pool holds probabilities, which do not tell the "
                                "logits' normaliser");
    if (job->shift->resamples > 0)
        cst_report_integer(report, at, "resamples",
                           job->shift->resamples < RESAMPLES_MAX ? job->shift->resamples
                                                                 : RESAMPLES_MAX);
}

cst_status cst_shift_ood(cst_context *context, const cst_shift *shift) {
    CST_SCOPE(scope);
    ood_job job = {.shift = shift, .logits = cst_pool_has_logits(shift->pool)};
    if (job.logits) {
        cst_status status = read_normalisers(context, scope, shift, 0, &job.normalisers[0]);
        job.from_memory = status == CST_ERROR_UNSUPPORTED; /* a pool from memory */
        job.logits = !job.from_memory;
        if (!job.from_memory)
            CST_TRY(status);
    }
    put_head(&job);
    for (int32_t t = 1; t < shift->targets->count; t++) {
        CST_SCOPE(own);
        if (shift->targets->list[t].role != CST_TARGET_OOD)
            continue;
        if (job.logits)
            CST_TRY(read_normalisers(context, own, shift, t, &job.normalisers[1]));
        for (int32_t m = 0; m < shift->count; m++)
            CST_TRY(compare_split(context, &job, m, t));
        job.normalisers[1] = NULL;
    }
    return CST_OK;
}
