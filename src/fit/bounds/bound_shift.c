/* Prediction sets for rows of another distribution. docs/bounds.md#under-shift. */
#include "data/pool/pool.h"
#include "data/readers/npy.h"
#include "fit/bounds/bound.h"
#include "fit/document.h"
#include "stats/conformal.h"
#include "stats/statistics.h"

#include <math.h>
#include <string.h>

typedef struct rows_of {
    cst_view view; /* of the kept members */
    float *p;      /* [rows][classes] */
    double *level; /* [rows]; NULL: the model has no reference */
} rows_of;

/* Rows of a batch in one part. */
typedef struct part_tally {
    int64_t rows;
    double covered[2];
    double size[2];
} part_tally;

typedef struct batch {
    cst_scope scope; /* of `label` */
    int64_t first;
    int64_t rows;
    cst_novelty_found found;
    cst_label_shift label;
    bool labelled;
    bool weighted;
    double effective;
    double covered[2]; /* rows; plain, weighted */
    double size[2];    /* classes in all sets */
    double cost[2];    /* of rows whose sets miss the label */
    int64_t full;      /* weighted sets with every class */
    part_tally *parts; /* [parts of the work] */
} batch;

typedef struct shift_job {
    const cst_bound_work *work;
    rows_of known; /* calibration */
    rows_of fresh;
    double *score;   /* [rows of calibration], of the labels */
    double *weight;  /* [rows of calibration] */
    double *density; /* [rows of the batch], at their levels */
    double *lambda;  /* the same */
    double *sorted_level;
    double *sorted_density;
    cst_rank_item *ranked;
    double *own;            /* [classes]: weights of the candidates, where those are labels */
    int32_t parts;          /* classes or domains; 0: sets are calibrated together, without costs */
    const cst_domains *of;  /* of calibration, where parts are domains */
    double *part_threshold; /* [parts] */
    int64_t *part_samples;  /* [parts], of calibration */
    float *sets;            /* [rows of the split][classes]; NULL: not wanted */
} shift_job;

static cst_status load_rows(cst_context *context, cst_scope *scope, const cst_bound_work *work,
                            const char *split, rows_of *out) {
    int64_t rows = 0;
    CST_TRY(cst_stack_predict_pool(context, work->model, work->pool, split, true, &out->p, &rows));
    CST_TRY(cst_scope_own(context, scope, cst_free, out->p));
    CST_TRY(cst_bound_view(context, scope, work, split, &out->view));
    if (!work->model->reference.novelty)
        return CST_OK;
    cst_view kept = out->view; /* members that came back are not in the reference */
    kept.members = work->model->members;
    CST_TAKE(context, scope, out->level, rows);
    return cst_novelty_levels(context, work->model->reference.novelty, &kept, out->level);
}

/* Weights of the rows of calibration, and of the batch's rows (job->density). */
static cst_status weigh_by_level(cst_context *context, shift_job *job, batch *b) {
    const double *level = job->fresh.level + b->first;
    for (int64_t i = 0; i < b->rows; i++)
        job->sorted_level[i] = level[i];
    CST_TRY(cst_rank_sort_rows(context, job->sorted_level, b->rows, job->ranked));
    for (int64_t i = 0; i < b->rows; i++) {
        job->sorted_level[i] = job->ranked[i].value;
        job->sorted_density[i] = job->density[job->ranked[i].index];
    }
    for (int64_t i = 0; i < job->work->rows; i++)
        job->weight[i] =
            cst_density_at(job->sorted_level, job->sorted_density, b->rows, job->known.level[i]);
    b->weighted = true;
    return CST_OK;
}

static cst_status weigh_by_class(cst_context *context, shift_job *job, batch *b) {
    const cst_bound_work *work = job->work;
    const float *p = job->fresh.p + b->first * work->classes;
    CST_TRY(cst_label_shift_estimate(context, &b->scope, work->model->reference.confusion,
                                     CST_LABEL_EM, p, b->rows, &b->label));
    if (b->found.fired)
        b->label.verdict = CST_LABEL_GUARDED;
    b->weighted = b->label.verdict == CST_LABEL_APPLIED;
    memcpy(job->own, b->label.ratio, (size_t)work->classes * sizeof *job->own);
    for (int64_t i = 0; b->weighted && i < work->rows; i++)
        job->weight[i] = job->own[work->labels[i]];
    return CST_OK;
}

static cst_status weigh(cst_context *context, shift_job *job, batch *b) {
    for (int64_t i = 0; i < job->work->rows; i++)
        job->weight[i] = 1;
    if (job->fresh.level)
        CST_TRY(cst_novelty_batch(context, job->fresh.level + b->first, b->rows, job->density,
                                  job->lambda, &b->found));
    if (job->work->shift == CST_BOUND_LABEL)
        return weigh_by_class(context, job, b);
    if (job->work->shift == CST_BOUND_COVARIATE && b->found.fired)
        return weigh_by_level(context, job, b);
    return CST_OK;
}

/* The part of a row of the batch; -1: none, also of an unlabelled row where parts are classes. */
static int32_t part_of(const shift_job *job, const batch *b, int64_t row, int32_t label) {
    const cst_view *view = &job->fresh.view;
    if (job->work->by == CST_BOUND_BY_CLASS || job->parts == 0)
        return b->labelled && job->parts > 0 ? label : -1;
    if (!job->of)
        return 0;
    int32_t domain = cst_view_domain(view, row);
    return domain < 0
               ? -1
               : cst_domain_find(job->of->names, job->of->count, view->domains->names[domain]);
}

static void put_part(const shift_job *job, batch *b, int32_t part, const int64_t size[2],
                     const bool covered[2]) {
    if (part < 0 || part >= job->parts)
        return;
    b->parts[part].rows++;
    for (int k = 0; k < 2; k++) {
        b->parts[part].size[k] += (double)size[k];
        b->parts[part].covered[k] += covered[k];
    }
}

/* A row's plain set counts for place 0, the weighted one for place 1. */
static void put_sets(shift_job *job, batch *b, int64_t i, double plain, const double *threshold) {
    int32_t classes = job->work->classes;
    const cst_view *view = &job->fresh.view;
    const float *row = job->fresh.p + (b->first + i) * classes;
    int32_t label = b->labelled ? cst_view_label(view, b->first + i) : -1;
    int64_t size[2] = {0, 0};
    bool covered[2] = {false, false};
    for (int32_t c = 0; c < classes; c++) {
        double score = 1 - (double)row[c];
        const bool in[2] = {score <= plain, score <= threshold[c]};
        for (int k = 0; k < 2; k++) {
            size[k] += in[k];
            covered[k] = covered[k] || (in[k] && c == label);
        }
        if (job->sets)
            job->sets[(b->first + i) * classes + c] = in[1];
    }
    for (int k = 0; k < 2; k++) {
        b->size[k] += (double)size[k];
        b->covered[k] += covered[k];
        b->cost[k] +=
            b->labelled && job->work->miss_costs && !covered[k] ? job->work->miss_costs[label] : 0;
    }
    b->full += size[1] == classes;
    put_part(job, b, part_of(job, b, b->first + i, label), size, covered);
}

/* The thresholds of the classes for a row, where sets are calibrated by parts or costs. */
static void thresholds_of(const shift_job *job, const batch *b, int64_t row, double *threshold) {
    int32_t classes = job->work->classes;
    bool by_class = job->work->by == CST_BOUND_BY_CLASS;
    int32_t part = by_class ? -1 : part_of(job, b, row, -1);
    for (int32_t c = 0; c < classes; c++)
        threshold[c] = by_class   ? job->part_threshold[c]
                       : part < 0 ? INFINITY
                                  : job->part_threshold[part];
}

static cst_status fill_sets(cst_context *context, shift_job *job, batch *b) {
    const cst_bound_work *work = job->work;
    CST_SCOPE(scope);
    cst_weighted_scores plain;
    cst_weighted_scores scores;
    CST_NEW(context, scope, double, ones, work->rows);
    CST_NEW(context, scope, double, threshold, work->classes);
    for (int64_t i = 0; i < work->rows; i++)
        ones[i] = 1;
    CST_TRY(cst_weighted_scores_make(context, scope, job->score, ones, work->rows, &plain));
    CST_TRY(cst_weighted_scores_make(context, scope, job->score, job->weight, work->rows, &scores));
    b->effective = scores.effective;
    cst_conformal_tell(context, work->rows, work->alpha);
    bool by_class = b->weighted && work->shift == CST_BOUND_LABEL;
    for (int32_t c = 0; c < work->classes; c++)
        threshold[c] = cst_weighted_threshold(&scores, work->alpha, by_class ? job->own[c] : 1);
    double ordinary = cst_weighted_threshold(&plain, work->alpha, 1);
    for (int64_t i = 0; i < b->rows; i++) {
        if (b->weighted && !by_class) {
            double found = cst_weighted_threshold(&scores, work->alpha, job->density[i]);
            for (int32_t c = 0; c < work->classes; c++)
                threshold[c] = found;
        }
        if (job->parts > 0)
            thresholds_of(job, b, b->first + i, threshold);
        put_sets(job, b, i, ordinary, threshold);
    }
    return CST_OK;
}

static const char *reason(const cst_bound_work *work, const batch *b) {
    if (work->shift == CST_BOUND_LABEL)
        return cst_label_verdict_text(b->label.verdict, b->label.method);
    return work->by != CST_BOUND_TOGETHER    ? "calibrated by parts"
           : work->miss_costs                ? "calibrated by costs"
           : b->weighted                     ? "rows look unlike the fit rows"
           : !work->model->reference.novelty ? "the model has no reference"
           : !b->found.judged                ? "the batch has too few rows"
                                             : "rows look like the fit rows";
}

/* Classes or domains, what each has of calibration and what its rows got. */
static void put_parts(const shift_job *job, const batch *b, cst_report *report, json_t *object) {
    const cst_bound_work *work = job->work;
    double worst[2] = {NAN, NAN};
    if (work->miss_costs)
        CST_PUT(report, object, CST_N("cost", b->labelled ? b->cost[1] / (double)b->rows : NAN),
                CST_N("plain_cost", b->labelled ? b->cost[0] / (double)b->rows : NAN));
    if (work->by == CST_BOUND_TOGETHER)
        return;
    json_t *list = cst_report_list(report, object, "parts");
    for (int32_t p = 0; p < job->parts; p++) {
        const part_tally *tally = &b->parts[p];
        double rows = (double)tally->rows;
        bool some = b->labelled && tally->rows > 0;
        json_t *part = cst_report_add_object(report, list);
        const char *name = job->of ? job->of->names[p] : cst_model_class_name(work->model, p);
        CST_PUT(report, part, CST_I("part", p), CST_S("name", name),
                CST_I("calibration_samples", job->part_samples[p]),
                CST_N("threshold", job->part_threshold[p]), CST_I("samples", tally->rows),
                CST_N("coverage", some ? tally->covered[1] / rows : NAN),
                CST_N("mean_size", tally->rows > 0 ? tally->size[1] / rows : NAN),
                CST_N("plain_coverage", some ? tally->covered[0] / rows : NAN));
        for (int k = 0; k < 2 && some; k++)
            worst[k] = fmin(tally->covered[k] / rows, isnan(worst[k]) ? 1 : worst[k]);
    }
    CST_PUT(report, object, CST_N("worst_coverage", worst[1]),
            CST_N("plain_worst_coverage", worst[0]));
}

static void put_batch(const shift_job *job, const batch *b, int32_t condition, cst_report *report,
                      json_t *list) {
    const cst_bound_work *work = job->work;
    json_t *object = cst_report_add_object(report, list);
    double rows = (double)b->rows;
    if (condition >= 0) {
        const char *shift = cst_pool_condition_shift(work->pool, work->batch_split, condition);
        const char *kind = cst_pool_condition_kind(work->pool, work->batch_split, condition);
        CST_PUT(report, object, CST_S("shift", shift ? shift : ""), CST_S("kind", kind ? kind : ""),
                CST_N("severity",
                      cst_pool_condition_severity(work->pool, work->batch_split, condition)));
    }
    CST_PUT(report, object, CST_I("samples", b->rows), CST_N("unlike", b->found.unlike));
    cst_report_flag(report, object, "weighted", b->weighted);
    CST_PUT(report, object, CST_S("reason", reason(work, b)),
            CST_N("effective_samples", b->effective),
            CST_N("coverage", b->labelled ? b->covered[1] / rows : NAN),
            CST_N("mean_size", b->size[1] / rows), CST_I("full", b->full),
            CST_N("plain_coverage", b->labelled ? b->covered[0] / rows : NAN),
            CST_N("plain_mean_size", b->size[0] / rows));
    put_parts(job, b, report, object);
    if (work->shift != CST_BOUND_LABEL)
        return;
    json_t *shares = cst_report_list(report, object, "shares");
    for (int32_t c = 0; c < work->classes; c++)
        cst_document_share(report, shares, work->model, c,
                           work->model->reference.confusion->share[c], &b->label);
}

static cst_status check_parts(cst_context *context, const cst_bound_work *work) {
    bool costs = work->miss_costs != NULL;
    if (!costs && work->by == CST_BOUND_TOGETHER)
        return CST_OK;
    if (work->shift != CST_BOUND_UNWEIGHTED)
        return cst_fail(context, CST_ERROR_UNSUPPORTED,
                        "sets by class, by domain or by costs are not supported with weights; "
                        "leave out --shift, or --by and --miss-cost");
    if (costs && work->by == CST_BOUND_BY_CLASS)
        return cst_fail(context, CST_ERROR_UNSUPPORTED,
                        "costs of a miss weigh the classes already: leave out --by class, or "
                        "--miss-cost");
    for (int64_t c = 0; costs && c < work->miss_cost_count; c++)
        if (!(work->miss_costs[c] >= 0 && isfinite(work->miss_costs[c])))
            return cst_fail(context, CST_ERROR_INPUT,
                            "the cost of a miss of class %lld is %g; give a number of 0 or more "
                            "for each class",
                            (long long)c, work->miss_costs[c]);
    if (costs && (work->miss_cost_count != work->classes || !(work->risk > 0)))
        return cst_fail(context, CST_ERROR_INPUT,
                        "there are %lld costs of a miss and %d classes, and the risk is %g; give "
                        "one cost for each class (--miss-cost), and an expected cost above 0 "
                        "(--risk)",
                        (long long)work->miss_cost_count, (int)work->classes, work->risk);
    return CST_OK;
}

static cst_status check(cst_context *context, const cst_bound_work *work) {
    const char *split = work->batch_split;
    if (!cst_pool_has_split(work->pool, split))
        return cst_fail_split(context, CST_ERROR_INPUT, work->pool, split);
    if (strcmp(split, work->split) == 0)
        return cst_fail(context, CST_ERROR_INPUT,
                        "the batch is split '%s' itself, on which the sets are calibrated; name "
                        "the split of the new rows",
                        split);
    CST_TRY(check_parts(context, work));
    if (work->shift == CST_BOUND_LABEL)
        return cst_labels_check(context, work->model);
    if (work->shift == CST_BOUND_COVARIATE && work->model->adapted)
        return cst_fail(context, CST_ERROR_UNSUPPORTED,
                        "covariate shift is not supported for adapted models, which are not "
                        "compared with the rows of their fit; use the model before it was adapted");
    if (work->shift == CST_BOUND_COVARIATE && !work->model->reference.novelty)
        return cst_fail(context, CST_ERROR_UNSUPPORTED,
                        "the model stores nothing of its rows to compare a batch with (it was "
                        "written by an older corestack, or fitted on fewer than 200 rows); fit it "
                        "again");
    return CST_OK;
}

static void tell_small(cst_context *context, const shift_job *job) {
    int32_t small = 0;
    for (int32_t p = 0; p < job->parts; p++)
        small += isinf(job->part_threshold[p]) && job->part_threshold[p] > 0;
    if (small > 0 && job->work->by != CST_BOUND_TOGETHER)
        cst_notice(context,
                   "%d of %d %s have too few rows of calibration for sets of their own (alpha %g "
                   "needs %.0f): %s",
                   (int)small, (int)job->parts, job->of ? "domains" : "classes", job->work->alpha,
                   ceil((1 - job->work->alpha) / job->work->alpha * (1 - 1e-9)),
                   job->of ? "their rows get every class" : "they are in every set");
}

/* Thresholds of the classes or domains, or of all rows by their costs. */
static cst_status find_parts(cst_context *context, cst_scope *scope, shift_job *job) {
    const cst_bound_work *work = job->work;
    const cst_view *view = &job->known.view;
    if (work->by == CST_BOUND_TOGETHER && !work->miss_costs)
        return CST_OK;
    job->of = work->by == CST_BOUND_BY_DOMAIN ? view->domains : NULL;
    if (work->by == CST_BOUND_BY_DOMAIN && (!job->of || !job->fresh.view.domains))
        return cst_fail(context, CST_ERROR_INPUT,
                        "split '%s' has no domains to calibrate sets by; give both splits some "
                        "(key 'domains' of the manifest), or leave out --by domain",
                        job->of ? work->batch_split : work->split);
    job->parts = work->by == CST_BOUND_BY_CLASS ? work->classes : job->of ? job->of->count : 1;
    CST_NEW(context, scope, int32_t, parts, work->rows);
    CST_NEW(context, scope, double, costs, work->rows);
    CST_TAKE(context, scope, job->part_threshold, job->parts);
    CST_TAKE(context, scope, job->part_samples, job->parts);
    cst_conformal_rows rows = {.rows = work->rows,
                               .scores = job->score,
                               .costs = work->miss_costs ? costs : NULL,
                               .most = work->miss_costs ? 0 : 1,
                               .parts = parts,
                               .part_count = job->parts};
    for (int64_t c = 0; work->miss_costs && c < work->classes; c++)
        rows.most = fmax(rows.most, work->miss_costs[c]);
    for (int64_t i = 0; i < work->rows; i++) {
        parts[i] = work->by == CST_BOUND_BY_CLASS ? work->labels[i]
                   : job->of                      ? cst_view_domain(view, i)
                                                  : 0;
        costs[i] = work->miss_costs ? work->miss_costs[work->labels[i]] : 1;
        if (parts[i] >= 0)
            job->part_samples[parts[i]]++;
    }
    CST_TRY(cst_conformal_by_parts(context, &rows, work->miss_costs ? work->risk : work->alpha,
                                   job->part_threshold));
    tell_small(context, job);
    return CST_OK;
}

static cst_status start(cst_context *context, cst_scope *scope, shift_job *job) {
    const cst_bound_work *work = job->work;
    CST_TRY(load_rows(context, scope, work, work->split, &job->known));
    CST_TRY(load_rows(context, scope, work, work->batch_split, &job->fresh));
    size_t known = (size_t)work->rows;
    size_t fresh = (size_t)job->fresh.view.rows;
    CST_TAKE(context, scope, job->score, known);
    CST_TAKE(context, scope, job->weight, known);
    CST_TAKE(context, scope, job->density, fresh);
    CST_TAKE(context, scope, job->lambda, fresh);
    CST_TAKE(context, scope, job->sorted_level, fresh);
    CST_TAKE(context, scope, job->sorted_density, fresh);
    CST_TAKE(context, scope, job->ranked, fresh);
    CST_TAKE(context, scope, job->own, work->classes);
    if (work->sets) {
        size_t cells = 0;
        if (!cst_size_mul(fresh, (size_t)work->classes, &cells))
            return cst_fail(context, CST_ERROR_LIMIT, "the sets of %zu rows are too many", fresh);
        CST_TAKE(context, scope, job->sets, cells);
    }
    for (int64_t i = 0; i < work->rows; i++)
        job->score[i] = 1 - (double)job->known.p[i * work->classes + work->labels[i]];
    return find_parts(context, scope, job);
}

static cst_status write_sets(cst_context *context, const shift_job *job, int32_t conditions) {
    const cst_bound_work *work = job->work;
    int64_t rows = job->fresh.view.rows;
    return conditions > 0 ? cst_npy_write_pages_f32(context, work->sets, job->sets, conditions,
                                                    rows / conditions, work->classes)
                          : cst_npy_write_f32(context, work->sets, job->sets, rows, work->classes);
}

cst_status cst_bound_under_shift(cst_context *context, const cst_bound_work *work,
                                 cst_report *report) {
    static const char *const kinds[] = {"none", "covariate", "label"};
    shift_job job = {.work = work};
    CST_SCOPE(scope);
    CST_TRY(check(context, work));
    CST_TRY(start(context, scope, &job));
    int32_t conditions = (int32_t)cst_pool_conditions(work->pool, work->batch_split);
    int32_t count = conditions > 0 ? conditions : 1;
    json_t *object = cst_report_object(report, cst_report_root(report), "under_shift");
    CST_PUT(report, object, CST_S("split", work->batch_split), CST_S("weights", kinds[work->shift]),
            CST_S("method", "lac"), CST_I("calibration_samples", work->rows));
    if (work->by != CST_BOUND_TOGETHER)
        cst_report_string(report, object, "by",
                          work->by == CST_BOUND_BY_CLASS ? "class" : "domain");
    if (work->miss_costs)
        cst_report_number(report, object, "risk", work->risk);
    json_t *list = cst_report_list(report, object, "batches");
    for (int32_t c = 0; c < count; c++) {
        int64_t rows = job.fresh.view.rows / count;
        batch b = {.first = c * rows, .rows = rows, .labelled = job.fresh.view.labels != NULL};
        b.parts = cst_take(context, &b.scope, (size_t)job.parts, sizeof *b.parts);
        cst_status status = b.parts ? weigh(context, &job, &b) : CST_ERROR_MEMORY;
        CST_THEN(fill_sets(context, &job, &b));
        if (status == CST_OK)
            put_batch(&job, &b, conditions > 0 ? c : -1, report, list);
        cst_scope_free(&b.scope);
        CST_TRY(status);
    }
    CST_TRY(cst_report_finish(context, report)); /* no sets without their report */
    return work->sets ? write_sets(context, &job, conditions) : CST_OK;
}
