/* Repetitions of a comparison, one after the other. See the header. */
#include "fit/repeat.h"

#include "data/pool/division.h"
#include "data/pool/spatial.h"
#include "report/means.h"

#include <string.h>

static const char OOF[] = "oof";

typedef struct repeated {
    const cst_task_ops *ops;
    cst_pool *pool;
    const cst_compare_options *options;
    cst_once_fn *once;
    int32_t count;
    cst_report **reports; /* [count] */
    cst_findings findings;
} repeated;

static cst_status check_options(cst_context *context, const cst_compare_options *o) {
    if (o->splits < 0 || o->splits > CST_SPLITS_MAX)
        return cst_fail(context, CST_ERROR_ARGUMENT, "splits must be 1 to %d, got %d",
                        CST_SPLITS_MAX, (int)o->splits);
    if (!(o->holdout >= 0 && o->holdout < 1))
        return cst_fail(context, CST_ERROR_ARGUMENT,
                        "holdout must be above 0 and below 1, got %g: 0.2 holds out a fifth of the "
                        "rows",
                        o->holdout);
    if (o->splits > 1 && o->seed + (uint64_t)o->splits - 1 > CST_SEED_MAX)
        return cst_fail(context, CST_ERROR_ARGUMENT,
                        "%d repetitions from seed %llu go beyond the largest seed, 2^53",
                        (int)o->splits, (unsigned long long)o->seed);
    if (o->holdout > 0 && o->split && strcmp(o->split, OOF) != 0)
        return cst_fail(context, CST_ERROR_ARGUMENT,
                        "a holdout scores rows of split 'oof', so split '%.100s' cannot be scored "
                        "with it; leave one of them out",
                        o->split);
    if (o->predicted && (o->splits > 1 || o->holdout > 0))
        return cst_fail(context, CST_ERROR_UNSUPPORTED,
                        "predictions are saved of one comparison without a holdout; leave out "
                        "--save, or --splits and --holdout");
    return CST_OK;
}

/* What is named is there, and the rows are checked as a whole, not those that happen to be in a
 * part. */
static cst_status check_whole(cst_context *context, repeated *r) {
    cst_compare_options options = *r->options;
    cst_evaluation e = {0};
    options.split = OOF;
    cst_status status = cst_evaluation_open(context, r->ops, r->pool, &options, true, &e);
    r->findings = e.findings;
    e.findings = (cst_findings){0};
    cst_evaluation_close(context, &e);
    return status;
}

static cst_status run_part(cst_context *context, repeated *r, const cst_compare_options *options,
                           cst_report *report) {
    cst_compare_options own = *options;
    cst_pool_parts *parts = NULL;
    cst_status status =
        cst_pool_divide(context, r->pool, OOF, options->holdout, options->seed, &parts);
    if (status != CST_OK)
        return status;
    own.split = cst_parts_held(parts);
    status = r->once(context, r->ops, cst_parts_pool(parts), &own, true, &r->findings, report);
    if (status == CST_OK) {
        const cst_division *division = cst_pool_division(cst_parts_pool(parts));
        json_t *root = cst_report_root(report);
        cst_report_string(report, root, "split", OOF);
        cst_report_number(report, root, "holdout", options->holdout);
        cst_report_integers(report, root, "held_out", division->held_units, division->held_count);
    }
    cst_pool_parts_free(context, parts);
    return status;
}

static cst_status run_one(cst_context *context, repeated *r, int32_t repetition,
                          cst_report *report) {
    cst_compare_options own = *r->options;
    own.seed += (uint64_t)repetition;
    if (own.holdout > 0)
        return run_part(context, r, &own, report);
    return r->once(context, r->ops, r->pool, &own, repetition > 0, NULL, report);
}

/* Where the folds are given, and where all repetitions are equal. */
static void tell(cst_context *context, const repeated *r, bool equal) {
    const cst_cases *cases = cst_pool_cases(r->pool, OOF);
    bool folds = cst_pool_folds(r->pool, OOF) || (cases && cases->folds);
    if (r->options->holdout > 0)
        return;
    if (equal)
        cst_notice(context,
                   "all %d repetitions are equal, because nothing in them depends on the seed%s; "
                   "--holdout 0.2 repeats the fits on other rows",
                   (int)r->count, folds ? " (split 'oof' has its own folds)" : "");
    else if (folds)
        cst_notice(context,
                   "split 'oof' has its own folds, so the repetitions differ only in what the "
                   "methods draw at random; --holdout 0.2 repeats the fits on other rows");
}

static cst_status run_all(cst_context *context, repeated *r, cst_report *report) {
    cst_status status = CST_OK;
    bool equal = false;
    for (int32_t i = 0; status == CST_OK && i < r->count; i++) {
        status = cst_report_create(context, report->kind, &r->reports[i]);
        CST_THEN(run_one(context, r, i, r->reports[i]));
        CST_THEN(cst_report_finish(context, r->reports[i]));
    }
    CST_THEN(
        cst_report_means(context, report, (const cst_report *const *)r->reports, r->count, &equal));
    if (status == CST_OK)
        tell(context, r, equal);
    return status;
}

cst_status cst_run_repeated(cst_context *context, const cst_task_ops *ops, cst_pool *pool,
                            const cst_compare_options *options, cst_once_fn *once,
                            cst_report *report) {
    repeated r = {.ops = ops, .pool = pool, .options = options, .once = once, .count = 1};
    cst_status status = check_options(context, options);
    r.count = options->splits > 1 ? options->splits : 1;
    if (status == CST_OK && options->holdout > 0)
        status = check_whole(context, &r);
    if (status == CST_OK && r.count == 1)
        status = run_one(context, &r, 0, report);
    if (status == CST_OK && r.count > 1) {
        r.reports = cst_alloc(context, (size_t)r.count, sizeof(cst_report *));
        status = r.reports ? run_all(context, &r, report) : CST_ERROR_MEMORY;
    }
    for (int32_t i = 0; r.reports && i < r.count; i++)
        cst_report_free(context, r.reports[i]);
    cst_free(context, (void *)r.reports);
    cst_findings_free(context, &r.findings);
    return status;
}
