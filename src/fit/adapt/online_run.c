/* A split of a pool as a stream for the online adapter, and its cost next to the stack, the
 * average, the best member, and the best choice in every block. docs/json.md#online. */
#include "fit/adapt/online.h"

#include "data/checks/checks.h"
#include "data/pool/pool.h"
#include "report/report.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

enum { BLOCK_DEFAULT = 100, POINTS_MAX = 10000, ROWS_READ = 256 };

typedef struct run {
    cst_adapter *adapter;
    cst_pool *pool;
    const char *split;
    int64_t delay;
    int64_t block;
    cst_view view;        /* of the adapter's members */
    float *scratch;       /* [members][ROWS_READ][classes] */
    const float **rows;   /* [members] */
    const float **row;    /* [members] */
    double adapter_start; /* the adapter's sums before the run */
    double *start;        /* [experts] */
    double *block_start;  /* [experts]: at the end of the last block */
    int64_t labelled_start;
    int64_t dropped_start;
    int64_t errors_start[CST_ONLINE_SCORED];
    int64_t block_labelled; /* labels up to the end of the last block */
    int64_t missed_start;   /* labels outside their set */
    int64_t set_size_start;
    int64_t unlabelled;
    double switching;
    json_t *series[7];
    float *predictions; /* [rows][classes], or NULL */
} run;

static const char *const SERIES[] = {"rows",    "labelled",    "adapter",  "stack",
                                     "average", "best_member", "switching"};

/* ---- the rows ---- */

/* The adapter's members in the pool, loaded, with its labels. */
static cst_status open_rows(cst_context *context, cst_scope *made, run *r) {
    cst_adapter *a = r->adapter;
    cst_view of_model;
    CST_SCOPE(scope);
    CST_NEW(context, scope, int32_t, positions, a->members);
    CST_NEW(context, made, const float *, pointers, a->members);
    CST_TRY(cst_model_view(context, scope, a->model, r->pool, r->split, &of_model));
    for (int32_t k = 0; k < a->members; k++) {
        positions[k] = cst_pool_member_index(r->pool, a->names[k]);
        if (positions[k] < 0 || !cst_pool_member_has_split(r->pool, positions[k], r->split))
            return cst_fail(context, CST_ERROR_MISMATCH,
                            "the adapter needs member '%s', but the pool has no predictions of "
                            "it for split '%s'; start again without it",
                            a->names[k], r->split);
    }
    CST_TRY(cst_pool_load_members(context, r->pool, r->split, positions, a->members));
    CST_TRY(cst_pool_view_members(context, r->pool, r->split, positions, a->members, pointers,
                                  &r->view));
    return cst_check_scored(
        context, &(cst_check_source){
                     .pool = r->pool, .split = r->split, .view = &r->view, .members = positions});
}

static cst_status make_room(cst_context *context, cst_scope *scope, run *r) {
    cst_adapter *a = r->adapter;
    size_t experts = (size_t)a->experts;
    CST_TAKE(context, scope, r->scratch, (int64_t)a->members * ROWS_READ * a->classes);
    CST_TAKE(context, scope, r->rows, a->members);
    CST_TAKE(context, scope, r->row, a->members);
    CST_TAKE(context, scope, r->start, experts);
    CST_TAKE(context, scope, r->block_start, experts);
    memcpy(r->start, a->loss, experts * sizeof *a->loss);
    memcpy(r->block_start, a->loss, experts * sizeof *a->loss);
    memcpy(r->errors_start, a->errors, sizeof a->errors);
    r->adapter_start = a->adapter_loss;
    r->labelled_start = a->labelled;
    r->block_labelled = a->labelled;
    r->dropped_start = a->dropped;
    r->missed_start = a->sets.missed;
    r->set_size_start = a->set_size;
    return CST_OK;
}

/* The loss of expert e, or of the adapter (-1), in this run. */
static double lost(const run *r, int32_t e) {
    const cst_adapter *a = r->adapter;
    return e < 0 ? a->adapter_loss - r->adapter_start : a->loss[e] - r->start[e];
}

/* The best member of this run. */
static int32_t best_member(const run *r) {
    int32_t best = 0;
    for (int32_t k = 1; k < r->adapter->members; k++)
        if (lost(r, CST_ONLINE_SINGLES + k) < lost(r, CST_ONLINE_SINGLES + best))
            best = k;
    return best;
}

/* The end of a block of rows with a label. */
static void end_block(run *r, cst_report *report, int64_t rows) {
    const cst_adapter *a = r->adapter;
    double least = INFINITY;
    if (a->labelled == r->block_labelled)
        return;
    for (int32_t e = 0; e < a->experts; e++) {
        double mine = a->loss[e] - r->block_start[e];
        least = e != 2 && mine < least ? mine : least; /* without the learned temperature */
        r->block_start[e] = a->loss[e];
    }
    r->switching += least;
    r->block_labelled = a->labelled;
    if (!report)
        return;
    const double values[] = {
        (double)rows, (double)(a->labelled - r->labelled_start),    lost(r, -1), lost(r, 0),
        lost(r, 1),   lost(r, CST_ONLINE_SINGLES + best_member(r)), r->switching};
    for (size_t i = 0; i < 2; i++)
        cst_report_add_integer(report, r->series[i], (int64_t)values[i]);
    for (size_t i = 2; i < sizeof r->series / sizeof *r->series; i++)
        cst_report_add_number(report, r->series[i], values[i]);
}

/* One row comes, and the label of the row `delay` before it. */
static cst_status one_row(cst_context *context, run *r, int64_t place) {
    cst_adapter *a = r->adapter;
    CST_TRY(cst_online_observe(context, a, r->row, place));
    size_t classes = (size_t)a->classes;
    if (r->predictions)
        memcpy(r->predictions + (size_t)place * classes, a->row + cst_online_width(a) - classes,
               classes * sizeof *r->predictions);
    int32_t label = r->view.labels ? cst_view_label(&r->view, place) : -1;
    r->unlabelled += label < 0;
    cst_online_find(a, a->next - 1)->label = label;
    int64_t due = a->next - 1 - r->delay;
    const cst_online_slot *slot = cst_online_find(a, due);
    if (slot && slot->label >= 0)
        cst_online_learn(a, due, slot->label);
    return CST_OK;
}

static cst_status all_rows(cst_context *context, run *r, cst_report *report) {
    cst_adapter *a = r->adapter;
    size_t classes = (size_t)a->classes;
    cst_stage_share(context, 1);
    for (int64_t first = 0; first < r->view.rows; first += ROWS_READ) {
        int64_t left = r->view.rows - first;
        int64_t count = left < ROWS_READ ? left : ROWS_READ;
        CST_TRY(cst_progress(context, "online", first, r->view.rows));
        for (int32_t k = 0; k < a->members; k++)
            CST_TRY(cst_view_rows(context, &r->view, k, first, count,
                                  r->scratch + (size_t)k * ROWS_READ * classes, &r->rows[k]));
        for (int64_t i = 0; i < count; i++) {
            for (int32_t k = 0; k < a->members; k++)
                r->row[k] = r->rows[k] + (size_t)i * classes;
            CST_TRY(one_row(context, r, first + i));
            if ((first + i + 1) % r->block == 0 || first + i + 1 == r->view.rows)
                end_block(r, report, first + i + 1);
        }
    }
    return cst_progress(context, "online", r->view.rows, r->view.rows);
}

/* ---- the report ---- */

static void begin_series(cst_report *report, run *r) {
    json_t *series = cst_report_object(report, cst_report_root(report), "series");
    for (size_t i = 0; i < sizeof SERIES / sizeof *SERIES; i++)
        r->series[i] = cst_report_list(report, series, SERIES[i]);
}

static void write_losses(cst_report *report, const run *r) {
    const cst_adapter *a = r->adapter;
    json_t *root = cst_report_root(report);
    int64_t labelled = a->labelled - r->labelled_start;
    double rows = labelled > 0 ? (double)labelled : NAN;
    int32_t best = best_member(r);
    double member = lost(r, CST_ONLINE_SINGLES + best);
    cst_report_string(report, root, "best_member", labelled > 0 ? a->names[best] : NULL);
    json_t *nll = cst_report_object(report, root, "nll");
    CST_PUT(report, nll, CST_N("adapter", lost(r, -1) / rows), CST_N("stack", lost(r, 0) / rows),
            CST_N("average", lost(r, 1) / rows), CST_N("best_member", member / rows),
            CST_N("switching", r->switching / rows));
    static const char *const scored[] = {"adapter", "stack", "average"};
    json_t *error = cst_report_object(report, root, "error");
    for (int i = 0; i < CST_ONLINE_SCORED; i++)
        cst_report_number(report, error, scored[i],
                          (double)(a->errors[i] - r->errors_start[i]) / rows);
    json_t *regret = cst_report_object(report, root, "regret");
    double none = labelled > 0 ? 0 : NAN;
    CST_PUT(report, regret, CST_N("stack", lost(r, -1) - lost(r, 0) + none),
            CST_N("average", lost(r, -1) - lost(r, 1) + none),
            CST_N("best_member", lost(r, -1) - member + none),
            CST_N("switching", lost(r, -1) - r->switching + none));
}

static void write_sets(cst_report *report, const run *r) {
    const cst_adapter *a = r->adapter;
    double rows = a->labelled > r->labelled_start ? (double)(a->labelled - r->labelled_start) : NAN;
    json_t *sets = cst_report_object(report, cst_report_root(report), "sets");
    CST_PUT(report, sets, CST_N("alpha", a->sets.alpha),
            CST_N("coverage", 1 - (double)(a->sets.missed - r->missed_start) / rows),
            CST_N("size", (double)(a->set_size - r->set_size_start) / rows));
}

static void write_shares(cst_context *context, cst_report *report, const run *r) {
    cst_adapter_state state;
    json_t *share = cst_report_object(report, cst_report_root(report), "share");
    if (cst_adapter_get_state(context, r->adapter, &state) != CST_OK)
        return;
    CST_PUT(report, share, CST_N("stack", state.stack_share), CST_N("newton", state.newton_share),
            CST_N("average", state.average_share), CST_N("members", state.members_share));
}

static void begin_report(cst_report *report, const run *r) {
    const cst_adapter *a = r->adapter;
    json_t *root = cst_report_root(report);
    CST_PUT(report, root, CST_S("split", r->split), CST_I("rows", r->view.rows),
            CST_I("classes", a->classes));
    cst_report_strings(report, root, "members", (const char *const *)a->names, a->members);
    CST_PUT(report, root, CST_I("delay", r->delay), CST_I("block", r->block));
}

static void write_counts(cst_report *report, const run *r) {
    const cst_adapter *a = r->adapter;
    json_t *root = cst_report_root(report);
    CST_PUT(report, root, CST_I("labelled", a->labelled - r->labelled_start),
            CST_I("unlabelled", r->unlabelled), CST_I("waiting", a->waiting),
            CST_I("dropped", a->dropped - r->dropped_start),
            CST_I("rows_before", a->next - r->view.rows));
}

/* ---- the call ---- */

static cst_status check_options(cst_context *context, const run *r) {
    if (r->delay < 0 || r->delay >= r->adapter->capacity)
        return cst_fail(context, CST_ERROR_ARGUMENT,
                        "a delay of %" PRId64 " rows is not from 0 to %" PRId64
                        ": the adapter keeps the last %" PRId64 " rows for their labels; start "
                        "one that keeps more (--pending)",
                        r->delay, r->adapter->capacity - 1, r->adapter->capacity);
    if (r->block < 1)
        return cst_fail(context, CST_ERROR_ARGUMENT, "a block of %" PRId64 " rows is not positive",
                        r->block);
    return CST_OK;
}

static cst_status work(cst_context *context, run *r, bool wanted, cst_report *report) {
    CST_SCOPE(scope);
    size_t cells = 0;
    CST_TRY(check_options(context, r));
    CST_TRY(open_rows(context, scope, r));
    CST_TRY(make_room(context, scope, r));
    if (wanted && !cst_size_mul((size_t)r->view.rows, (size_t)r->view.classes, &cells))
        return cst_fail(context, CST_ERROR_LIMIT, "%" PRId64 " rows of %d classes are too many",
                        r->view.rows, (int)r->view.classes);
    if (wanted && !(r->predictions = cst_alloc(context, cells, sizeof *r->predictions)))
        return CST_ERROR_MEMORY;
    if (!r->view.labels)
        cst_notice(context,
                   "split '%s' has no labels: its rows are predicted, and nothing is "
                   "learned",
                   r->split);
    /* A series of a long stream has longer blocks. */
    int64_t least = r->view.rows / POINTS_MAX + 1;
    r->block = r->block * ((least + r->block - 1) / r->block);
    begin_report(report, r);
    begin_series(report, r);
    CST_TRY(all_rows(context, r, report));
    write_counts(report, r);
    write_losses(report, r);
    write_sets(report, r);
    write_shares(context, report, r);
    cst_report_notices(report, context);
    return cst_report_finish(context, report);
}

cst_status cst_online(cst_context *context, cst_adapter *adapter, cst_pool *pool,
                      const cst_online_options *options_given, float **predictions, int64_t *rows,
                      cst_report **report) {
    CST_CLEAR(predictions);
    CST_CLEAR(rows);
    CST_CLEAR(report);
    CST_ENTER(context);
    CST_STRUCT(context, cst_online_options, options, options_given);
    if (!adapter || !pool)
        return cst_fail(context, CST_ERROR_ARGUMENT, "cst_online: adapter and pool are required");
    run r = {.adapter = adapter,
             .pool = pool,
             .split = options && options->split ? options->split : "test",
             .delay = options ? options->delay : 0,
             .block = options && options->block != 0 ? options->block : BLOCK_DEFAULT};
    cst_report *made = NULL;
    cst_notices_clear(context);
    cst_status status = cst_report_begin(context, CST_REPORT_ONLINE, &made);
    CST_THEN(work(context, &r, predictions != NULL, made));
    if (status == CST_OK && predictions) {
        *predictions = r.predictions;
        r.predictions = NULL;
    }
    if (status == CST_OK && rows)
        *rows = r.view.rows;
    if (status == CST_OK && report) {
        *report = made;
        made = NULL;
    }
    cst_report_free(context, made);
    cst_free(context, r.predictions);
    return cst_why(context, status);
}
