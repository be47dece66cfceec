/* Classes unknown to a member's model of a fold: one probability in all rows of the fold and not in
 * other folds. docs/pool.md#classes-that-a-fold-did-not-know. */
#include "data/checks/parts.h"
#include "data/pool/pool.h"

#include <float.h>
#include <math.h>
#include <string.h>

/* Rows of a fold from which a constant column says something, and labels of one that is a floor. */
enum { FEWEST = 10, FEWEST_LABELS = 5 };
#define FLOOR 1e-6F
/* Logarithm of the chance that the rows of a fold are the same as some of other folds are. */
static const double CHANCE = -20;

typedef struct unknown {
    const cst_check_source *source;
    int32_t folds;
    int64_t *rows;    /* [folds] */
    int64_t *first;   /* [folds]: a row of the view */
    int64_t *labels;  /* [folds][classes]: rows with that label */
    float *constant;  /* [members][folds][classes]: what the column is in the fold; or one of: */
    int32_t *members; /* [members]: a list */
} unknown;

#define KNOWN (-1.0F)
#define NOT_THERE (-2.0F)

typedef struct columns {
    float *low, *high;  /* [folds][classes] */
    int64_t *there;     /* [folds] */
    int64_t *same;      /* [folds][classes]: rows of other folds with the same */
    int64_t *different; /* [classes]: rows of folds in which the column is not constant */
} columns;

typedef void (*take_row_fn)(const unknown *u, const columns *s, int32_t fold, const float *p,
                            const float *constant);

static void take_range(const unknown *u, const columns *s, int32_t fold, const float *p,
                       const float *constant) {
    size_t classes = (size_t)u->source->view->classes;
    float *low = s->low + (size_t)fold * classes;
    float *high = s->high + (size_t)fold * classes;
    (void)constant;
    s->there[fold]++;
    for (size_t c = 0; c < classes; c++) {
        low[c] = p[c] < low[c] ? p[c] : low[c];
        high[c] = p[c] > high[c] ? p[c] : high[c];
    }
}

/* Floors are scaled with their rows, so that values up to FLOOR count as one. */
static float tolerance(float value) {
    return value <= FLOOR ? FLOOR : 1e-5F * value;
}

static void take_others(const unknown *u, const columns *s, int32_t fold, const float *p,
                        const float *constant) {
    size_t classes = (size_t)u->source->view->classes;
    for (size_t c = 0; c < classes; c++) {
        if (constant[(size_t)fold * classes + c] >= 0)
            continue;
        s->different[c]++;
        for (size_t f = 0; f < (size_t)u->folds; f++) {
            float value = constant[f * classes + c];
            s->same[f * classes + c] += value >= 0 && fabsf(p[c] - value) <= tolerance(value);
        }
    }
}

static cst_status each_row(cst_context *worker, const unknown *u, int32_t member, const columns *s,
                           const float *constant, take_row_fn take) {
    const cst_view *view = u->source->view;
    const uint8_t *present = cst_view_present(view, member);
    for (int64_t block = 0; block < cst_block_count(view->rows); block++) {
        cst_rows rows;
        CST_SCOPE(scope);
        CST_TRY(cst_rows_open(worker, scope, view, block, &rows));
        CST_TRY(cst_rows_read(worker, &rows, member));
        for (int64_t i = 0; i < rows.count; i++)
            if (cst_view_is_there(view, present, rows.first + i))
                take(u, s, u->source->folds[rows.first + i], cst_rows_at(&rows, i), constant);
    }
    return CST_OK;
}

/* Columns that are constant in a fold; false where none is. */
static bool find_constant(const unknown *u, const columns *s, float *constant) {
    size_t classes = (size_t)u->source->view->classes;
    bool any = false;
    for (size_t f = 0; f < (size_t)u->folds; f++)
        for (size_t c = 0; c < classes; c++) {
            size_t at = f * classes + c;
            float high = s->high[at];
            bool same = high - s->low[at] <= 1e-5F * high;
            bool found = s->there[f] >= FEWEST && u->labels[at] >= (same ? 1 : FEWEST_LABELS) &&
                         high - s->low[at] <= tolerance(high) &&
                         high <= (1 + 1e-5F) / (float)classes;
            constant[at] = s->there[f] == 0 ? NOT_THERE : found ? high : KNOWN;
            any = any || found;
        }
    return any;
}

static cst_status look_at_member(cst_context *worker, void *user, int64_t k) {
    const unknown *u = user;
    size_t classes = (size_t)u->source->view->classes;
    size_t cells = (size_t)u->folds * classes;
    float *constant = u->constant + (size_t)k * cells;
    columns s;
    CST_SCOPE(scope);
    CST_TAKE(worker, scope, s.low, cells);
    CST_TAKE(worker, scope, s.high, cells);
    CST_TAKE(worker, scope, s.there, u->folds);
    CST_TAKE(worker, scope, s.same, cells);
    CST_TAKE(worker, scope, s.different, classes);
    for (size_t i = 0; i < cells; i++) {
        s.low[i] = FLT_MAX;
        s.high[i] = -FLT_MAX;
    }
    CST_TRY(each_row(worker, u, (int32_t)k, &s, constant, take_range));
    if (find_constant(u, &s, constant))
        CST_TRY(each_row(worker, u, (int32_t)k, &s, constant, take_others));
    for (size_t i = 0; i < cells; i++) {
        double others = (double)s.different[i % classes];
        double share = ((double)s.same[i] + 1) / (others + 1);
        if (constant[i] >= 0 && (double)s.there[(size_t)(i / classes)] * log(share) > CHANCE)
            constant[i] = KNOWN;
    }
    return CST_OK;
}

typedef struct in_fold {
    int32_t members; /* that do not know some class */
    int32_t classes;
    char text[192]; /* names of the classes */
    float value;
    int64_t rows; /* with such a label */
    int64_t lost; /* of these, with a label that no member knows */
} in_fold;

static const float *columns_of(const unknown *u, int32_t member, int32_t fold) {
    return u->constant +
           ((size_t)member * (size_t)u->folds + (size_t)fold) * (size_t)u->source->view->classes;
}

static bool is_known(const unknown *u, int32_t fold, int32_t c) {
    bool known = false;
    for (int32_t k = 0; k < u->source->view->members; k++) {
        float value = columns_of(u, k, fold)[c];
        known = known || (value < 0 && value > NOT_THERE);
    }
    return known;
}

static void add_class(const unknown *u, int32_t fold, int32_t c, in_fold *in) {
    const cst_check_source *source = u->source;
    int64_t rows = u->labels[(size_t)fold * (size_t)source->view->classes + (size_t)c];
    char name[64];
    bool lacking = false;
    for (int32_t k = 0; k < source->view->members; k++) {
        float value = columns_of(u, k, fold)[c];
        in->value = value >= 0 && in->classes == 0 ? value : in->value;
        lacking = lacking || value >= 0;
    }
    if (!lacking)
        return;
    in->rows += rows;
    in->lost += is_known(u, fold, c) ? 0 : rows;
    size_t used = strlen(in->text);
    if (in->classes++ < 2)
        (void)cst_snprintf(in->text + used, sizeof in->text - used, "%s%s", used ? " and " : "",
                           cst_class_of(source->pool, c, name, sizeof name));
}

static in_fold sum_up(const unknown *u, int32_t fold) {
    const cst_view *view = u->source->view;
    in_fold in = {0};
    for (int32_t k = 0; k < view->members; k++) {
        const float *constant = columns_of(u, k, fold);
        bool lacks = false;
        for (int32_t c = 0; c < view->classes; c++)
            lacks = lacks || constant[c] >= 0;
        if (lacks)
            u->members[in.members++] = k;
    }
    for (int32_t c = 0; in.members > 0 && c < view->classes; c++)
        add_class(u, fold, c, &in);
    size_t used = strlen(in.text);
    if (in.classes > 2)
        (void)cst_snprintf(in.text + used, sizeof in.text - used, " and %d more", in.classes - 2);
    return in;
}

static cst_status tell(cst_context *context, const unknown *u, int32_t fold, const in_fold *in,
                       bool fatal, cst_findings *findings) {
    const cst_check_source *source = u->source;
    char who[256];
    bool all = in->members == source->view->members;
    return cst_findings_add(
        context, findings, "folds", fatal, u->members, in->members,
        "%s %s %s the probability %.3g in all %lld rows of fold %d (the first is row %lld), of "
        "which %lld have %s, and not in other folds: the model of that fold did not know the %s. "
        "%s",
        all ? "every member" : cst_names_of(source->pool, u->members, in->members, who, sizeof who),
        all || in->members == 1 ? "gives" : "give", in->text, (double)in->value,
        (long long)u->rows[fold], (int)fold,
        (long long)cst_check_row_number(source, u->first[fold]), (long long)in->rows,
        in->classes == 1 ? "that class" : "such a class", in->classes == 1 ? "class" : "classes",
        in->lost > 0
            ? "Make folds that leave rows of every class to train on (`corestack folds`, "
              "StratifiedKFold, or shuffle=True), and predict out-of-fold again"
            : "A fit takes the probability from the other members there; presets paper and "
              "prototype do not: for these write NaN in the rows of that fold, and use --missing "
              "allow. Best predict them again by a model that was trained on every class");
}

static cst_status tell_all(cst_context *context, const unknown *u, uint8_t *lacks,
                           cst_findings *findings) {
    const cst_view *view = u->source->view;
    int64_t lost = 0;
    for (int32_t f = 0; lacks && f < u->folds; f++)
        for (int32_t c = 0; c < view->classes; c++)
            if (is_known(u, f, c))
                for (int32_t k = 0; k < view->members; k++) {
                    const float *constant = columns_of(u, k, f) + c;
                    lacks[constant - u->constant] = *constant >= 0;
                }
    for (int32_t f = 0; f < u->folds; f++)
        lost += sum_up(u, f).lost;
    for (int32_t f = 0; f < u->folds; f++) {
        in_fold in = sum_up(u, f);
        if (in.members > 0)
            CST_TRY(tell(context, u, f, &in, in.lost > 0 && 2 * lost > view->rows, findings));
    }
    return CST_OK;
}

cst_status cst_check_unknown(cst_context *context, const cst_check_source *source, uint8_t *lacks,
                             cst_findings *findings) {
    const cst_view *view = source->view;
    bool rows = cst_pool_task(source->pool) == CST_TASK_CLASSIFICATION && !source->orders;
    if (!source->folds || !view->labels || !rows) /* pixels have orders */
        return CST_OK;
    unknown u = {.source = source, .folds = cst_folds_count(source->folds, view->rows)};
    if (u.folds < 2 || (int64_t)u.folds * FEWEST > view->rows)
        return CST_OK;
    size_t cells = (size_t)u.folds * (size_t)view->classes;
    int64_t members = view->members;
    CST_SCOPE(scope);
    CST_TAKE(context, scope, u.rows, u.folds);
    CST_TAKE(context, scope, u.first, u.folds);
    CST_TAKE(context, scope, u.labels, cells);
    CST_TAKE(context, scope, u.constant, (size_t)members * cells);
    CST_TAKE(context, scope, u.members, members);
    for (int64_t i = 0; i < view->rows; i++) {
        int32_t f = source->folds[i];
        u.first[f] = u.rows[f]++ == 0 ? i : u.first[f];
        u.labels[f * view->classes + cst_view_label(view, i)]++;
    }
    const cst_share filled = cst_share_tasks(u.constant, members, cells * sizeof *u.constant);
    CST_TRY(cst_parallel_fill(context, members, look_at_member, &u, &filled, 1));
    return tell_all(context, &u, lacks, findings);
}
