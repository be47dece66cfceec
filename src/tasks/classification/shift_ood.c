/*
 * How well each method tells rows out of distribution from others, by every score that the pool
 * allows. docs/robustness.md#out-of-distribution; paper: "OOD Detection".
 */
#include "tasks/classification/shift.h"

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
    double *
        *normalisers[2]; /* [members of the pool] of the rows in and of those out; NULL: not read */
    bool logits;
    bool from_memory; /* logits, but no files of them */
} ood_job;

/* ---- normalisers ---- */

static void free_normalisers(cst_context *context, const cst_shift *shift, double **normalisers) {
    for (int32_t k = 0; normalisers && k < cst_pool_members(shift->pool); k++)
        cst_free(context, normalisers[k]);
    cst_free(context, normalisers);
}

static bool is_used(const cst_shift_method *method, int32_t j) {
    return !method->uses || method->uses[j];
}

/* Of every member that some method uses. */
static cst_status read_normalisers(cst_context *context, const cst_shift *shift, int32_t t,
                                   double ***out) {
    const cst_target *target = &shift->targets->list[t];
    double **all = cst_alloc(context, (size_t)cst_pool_members(shift->pool), sizeof *all);
    *out = all;
    cst_status status = all ? CST_OK : CST_ERROR_MEMORY;
    for (int32_t m = 0; m < shift->count; m++) {
        const cst_shift_method *method = &shift->methods[m];
        for (int32_t j = 0; status == CST_OK && j < method->views[t].members; j++) {
            int32_t k = method->members ? method->members[j] : j;
            if (!is_used(method, j) || all[k])
                continue;
            all[k] = cst_alloc(context, (size_t)target->samples, sizeof **all);
            status = all[k] ? cst_pool_normalisers(context, shift->pool, target->split, k, all[k])
                            : CST_ERROR_MEMORY;
        }
    }
    return status;
}

/* ---- scores ---- */

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
    cst_status status =
        cst_ood_scores(context, method->predicted[t], target->samples, job->shift->classes,
                       CST_OOD_MAX_PROBABILITY, scores + MAX_PROBABILITY * n);
    CST_THEN(cst_ood_scores(context, method->predicted[t], target->samples, job->shift->classes,
                            CST_OOD_PREDICTIVE_ENTROPY, scores + ENTROPY * n));
    CST_THEN(cst_ood_members(context, view, weights, method->predicted[t], &members));
    memset(scores + ENERGY * n, 0, n * sizeof *scores);
    for (int32_t j = 0; status == CST_OK && normalisers && j < view->members; j++) {
        const double *own = normalisers[method->members ? method->members[j] : j];
        for (size_t i = 0; weights[j] > 0 && i < n; i++)
            scores[ENERGY * n + i] -= weights[j] * own[i];
    }
    return status;
}

/* ---- one pair ---- */

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
    cst_report *report = job->shift->report;
    json_t *at = cst_report_add_object(report, list);
    cst_report_string(report, at, "split", job->shift->targets->list[t].split);
    cst_report_string(report, at, "score", SCORE_NAMES[s]);
    put_interval(report, at, "auroc", "", &found->auroc);
    put_interval(report, at, "aupr_out_positive", "", &found->aupr_out);
    put_interval(report, at, "aupr_in_positive", "", &found->aupr_in);
    put_interval(report, at, "fpr95_out_positive", "", &found->fpr95_out);
    put_interval(report, at, "fpr95_in_positive", "", &found->fpr95_in);
    put_interval(report, at, "detection_error", "", &found->detection_error);
    if (!first)
        return;
    put_interval(report, method->row, "ood_auroc", SUFFIXES[s], &found->auroc);
    put_interval(report, method->row, "ood_aupr", SUFFIXES[s], &found->aupr_out);
    put_interval(report, method->row, "ood_fpr95", SUFFIXES[s], &found->fpr95_out);
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
    double *scores = cst_alloc(context, OOD_SCORES * (in + out), sizeof *scores);
    double *weights = cst_alloc(context, (size_t)method->views[0].members, sizeof *weights);
    cst_status status = scores && weights ? CST_OK : CST_ERROR_MEMORY;
    double *others = scores ? scores + OOD_SCORES * in : NULL;
    json_t *list = t == first ? cst_report_list(shift->report, method->row, "ood_scores")
                              : json_object_get(method->row, "ood_scores");
    if (status == CST_OK) {
        shares(method, method->views[0].members, weights);
        status = score_target(context, job, method, 0, job->normalisers[0], weights, scores);
    }
    CST_THEN(score_target(context, job, method, t, job->normalisers[1], weights, others));
    int32_t voters = 0;
    for (int32_t j = 0; status == CST_OK && j < method->views[0].members; j++)
        voters += weights[j] > 0;
    bool several = voters > 1;
    for (int s = 0; status == CST_OK && s < OOD_SCORES; s++) {
        cst_ood_intervals found;
        if ((s == ENERGY && !job->logits) || (s >= DISAGREEMENT && !several))
            continue; /* a member alone agrees with itself */
        status = cst_ood_bootstrap(context, scores + (size_t)s * in, (int64_t)in,
                                   others + (size_t)s * out, (int64_t)out, resamples, shift->seed,
                                   &found);
        if (status == CST_OK)
            put_score(job, method, list, t, s, t == first, &found);
    }
    cst_free(context, scores);
    cst_free(context, weights);
    return status;
}

/* ---- all ---- */

static void put_head(const ood_job *job) {
    cst_report *report = job->shift->report;
    json_t *at = cst_report_object(report, cst_report_root(report), "ood_detection");
    cst_report_string(report, at, "higher_scores", "more out of distribution");
    cst_report_string(
        report, at, "positive",
        "out of distribution for AUROC (the same for either), ood_aupr, ood_fpr95 and "
        "what ends on out_positive; in distribution for what ends on in_positive");
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
    ood_job job = {.shift = shift, .logits = cst_pool_has_logits(shift->pool)};
    cst_status status = CST_OK;
    if (job.logits)
        status = read_normalisers(context, shift, 0, &job.normalisers[0]);
    if (job.logits && status == CST_ERROR_UNSUPPORTED) { /* a pool from memory */
        free_normalisers(context, shift, job.normalisers[0]);
        job.normalisers[0] = NULL;
        job.logits = false;
        job.from_memory = true;
        status = CST_OK;
    }
    put_head(&job);
    for (int32_t t = 1; status == CST_OK && t < shift->targets->count; t++) {
        if (shift->targets->list[t].role != CST_TARGET_OOD)
            continue;
        if (job.logits)
            status = read_normalisers(context, shift, t, &job.normalisers[1]);
        for (int32_t m = 0; status == CST_OK && m < shift->count; m++)
            status = compare_split(context, &job, m, t);
        free_normalisers(context, shift, job.normalisers[1]);
        job.normalisers[1] = NULL;
    }
    free_normalisers(context, shift, job.normalisers[0]);
    return status;
}
