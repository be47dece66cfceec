/* Rows that splits share, and fits to permuted labels. docs/bounds.md#leaks. */
#include "fit/bounds/leakage.h"

#include "core/options.h"
#include "fit/family.h"
#include "model/fit_rows.h"
#include "report/report.h"
#include "stats/statistics.h"

#include <math.h>
#include <string.h>

/* Sizes of contents that several rows have, and rows of the second view shared with the first. */
typedef struct deal {
    int64_t *size; /* [contents] */
    int64_t contents;
    int64_t rows;   /* of both views */
    int64_t second; /* of the second one */
    int64_t shared; /* in these contents */
} deal;

/* Rows with repeated contents in a deal (the first by their hash), deals at most, and deals that
 * shared as much after which they end. */
enum { DEALT_ROWS = 1 << 16, DEALS = 1999, ENOUGH = 20 };

/* Merges the sorted hashes a [n] and b [m]. */
static void gather_contents(const uint64_t *a, int64_t n, const uint64_t *b, int64_t m, deal *d,
                            cst_shared_rows *out) {
    int64_t dealt = 0;
    for (int64_t i = 0, j = 0; i < n || j < m;) {
        uint64_t hash = j == m || (i < n && a[i] < b[j]) ? a[i] : b[j];
        int64_t in_a = i;
        int64_t in_b = j;
        while (i < n && a[i] == hash)
            i++;
        while (j < m && b[j] == hash)
            j++;
        in_a = i - in_a;
        in_b = j - in_b;
        out->repeated += in_a > 1 ? in_a : 0;
        out->shared += in_a > 0 ? in_b : 0;
        if (in_a + in_b > 1 && dealt + in_a + in_b <= DEALT_ROWS) {
            dealt += in_a + in_b;
            d->size[d->contents++] = in_a + in_b;
            d->shared += in_a > 0 ? in_b : 0;
        }
    }
}

/* Whether a random choice of the second view's rows shares as many repeated contents. */
static bool deals_as_many(const deal *d, cst_rng *rng) {
    int64_t left = d->second;
    int64_t rows = d->rows;
    int64_t shared = 0;
    for (int64_t c = 0; c < d->contents && shared < d->shared; c++) {
        int64_t chosen = 0;
        for (int64_t r = 0; r < d->size[c]; r++, rows--)
            if (cst_rng_uniform(rng) * (double)rows < (double)left) {
                chosen++;
                left--;
            }
        if (chosen < d->size[c])
            shared += chosen;
    }
    return shared >= d->shared;
}

/* Besag and Clifford 1991: valid though it ends early where nothing is to be seen. */
static double deal_p(const deal *d, uint64_t seed) {
    cst_rng rng;
    int64_t as_many = 0;
    cst_rng_init(&rng, seed, CST_STREAM_PLANTED, 101);
    for (int64_t i = 1; i <= DEALS; i++) {
        as_many += deals_as_many(d, &rng);
        if (as_many == ENOUGH)
            return (double)as_many / (double)i;
    }
    return (double)(as_many + 1) / (DEALS + 1);
}

cst_status cst_shared_rows_of(cst_context *context, const cst_view *first, const cst_view *second,
                              uint64_t seed, cst_shared_rows *out) {
    *out = (cst_shared_rows){.p = NAN};
    int64_t n = first->rows;
    int64_t m = second->rows;
    deal d = {.rows = n + m, .second = m};
    uint64_t *hashes[2];
    CST_SCOPE(scope);
    CST_TAKE(context, scope, d.size, DEALT_ROWS / 2);
    CST_TRY(cst_row_hashes(context, scope, first, &hashes[0]));
    CST_TRY(cst_row_hashes(context, scope, second, &hashes[1]));
    gather_contents(hashes[0], n, hashes[1], m, &d, out);
    out->p = deal_p(&d, seed);
    return CST_OK;
}

/* Terms of the distribution in units of the largest one, from its place upwards and downwards. */
double cst_lower_error_p(const int64_t *errors, const int64_t *rows) {
    int64_t n = rows[0];
    int64_t m = rows[1];
    int64_t all = errors[0] + errors[1];
    int64_t least = all > n ? all - n : 0;
    int64_t most = all < m ? all : m;
    int64_t mode = (int64_t)((double)(all + 1) * (double)(m + 1) / (double)(n + m + 2));
    mode = mode < least ? least : mode > most ? most : mode;
    double sum = 0;
    double tail = 0;
    double term = 1;
    for (int64_t k = mode; k <= most && term > 0; k++) {
        sum += term;
        tail += k >= errors[1] ? term : 0;
        term *= (double)(all - k) / (double)(k + 1) * (double)(m - k) / (double)(n - all + k + 1);
    }
    term = 1;
    for (int64_t k = mode - 1; k >= least && term > 0; k--) {
        term *= (double)(k + 1) / (double)(all - k) * (double)(n - all + k + 1) / (double)(m - k);
        sum += term;
        tail += k >= errors[1] ? term : 0;
    }
    return tail / sum;
}

typedef struct trial {
    float *p;             /* [members][rows][classes] */
    const float **arrays; /* [members] */
    int32_t *labels;      /* [rows], permuted */
    int64_t *positions;   /* [rows] of the view, ascending */
    int64_t *order;       /* [rows] */
    int64_t *counts;      /* [classes] */
} trial;

static cst_status trial_make(cst_context *context, cst_scope *scope, const cst_view *view,
                             int64_t rows, uint64_t seed, trial *t, cst_permuted *out) {
    size_t n = (size_t)rows;
    size_t members = (size_t)view->members;
    size_t page = n * (size_t)view->classes;
    size_t cells = 0;
    if (!cst_size_mul(page, members, &cells))
        return cst_fail(context, CST_ERROR_LIMIT, "the pool is too large for permuted labels");
    CST_TAKE(context, scope, t->p, cells);
    CST_TAKE(context, scope, t->arrays, members);
    CST_TAKE(context, scope, t->labels, n);
    CST_TAKE(context, scope, t->positions, n);
    CST_TAKE(context, scope, t->order, n);
    CST_TAKE(context, scope, t->counts, view->classes);
    cst_rng rng;
    for (int64_t i = 0; i < rows; i++) {
        t->positions[i] = view->rows / rows * i + view->rows % rows * i / rows;
        t->order[i] = t->positions[i];
    }
    cst_rng_init(&rng, seed, CST_STREAM_PLANTED, 100);
    cst_rng_shuffle(&rng, t->order, rows);
    int64_t most = 0;
    for (size_t i = 0; i < n; i++) {
        t->labels[i] = cst_view_label(view, t->order[i]);
        int64_t count = ++t->counts[t->labels[i]];
        most = count > most ? count : most;
    }
    out->samples = rows;
    out->chance = (double)most / (double)rows;
    for (size_t k = 0; k < members; k++) {
        t->arrays[k] = t->p + k * page;
        CST_TRY(cst_view_gather(context, view, (int32_t)k, t->positions, rows, t->p + k * page));
    }
    return CST_OK;
}

CST_OWNED(cst_model)
CST_OWNED(cst_options)
CST_OWNED(cst_pool)
CST_OWNED(cst_report)

/* The stack's options, with nested scores. Its other settings are left out. */
static cst_status options_of(cst_context *context, cst_scope *scope, const char *const *settings,
                             size_t count, cst_options **options) {
    char key[64];
    CST_TRY(cst_options_create(context, options));
    CST_OWN(context, scope, cst_options, *options);
    for (size_t i = 0; i < count; i++) {
        const char *value = strchr(settings[i], '=');
        size_t length = value ? (size_t)(value - settings[i]) : sizeof key;
        if (length >= sizeof key)
            continue;
        memcpy(key, settings[i], length);
        key[length] = 0;
        if (cst_options_get(*options, key))
            CST_TRY(cst_options_restore(context, *options, key, value + 1));
    }
    CST_TRY(cst_options_set(context, *options, "evaluate.nested", "true"));
    /* Permuted labels are not the user's. */
    return cst_options_set(context, *options, "checks", "false");
}

static cst_status fit(cst_context *context, const trial *t, const cst_view *view,
                      const char *const *names, const char *const *settings, size_t count,
                      cst_permuted *out) {
    cst_options *options = NULL;
    cst_pool *pool = NULL;
    cst_model *model = NULL;
    cst_report *report = NULL;
    float *p = NULL;
    int64_t rows = 0;
    int64_t right = 0;
    CST_SCOPE(scope);
    CST_TRY(options_of(context, scope, settings, count, &options));
    CST_TRY(cst_pool_from_memory(context, &pool, "oof", t->arrays, names, view->members,
                                 out->samples, view->classes, t->labels, CST_OUTPUT_PROBABILITY));
    CST_OWN(context, scope, cst_pool, pool);
    cst_status status = cst_fit_family(context, &cst_classification_family, pool, "oof", options,
                                       NULL, &model, &report);
    CST_OWN(context, scope, cst_report, report);
    CST_TRY(status);
    CST_OWN(context, scope, cst_model, model);
    CST_TRY(cst_model_predict_pool(context, model, pool, "oof", &p, &rows));
    CST_TRY(cst_scope_own(context, scope, cst_free, p));
    const json_t *oof = json_object_get(cst_report_root(report), "oof");
    out->top1 = json_number_value(json_object_get(oof, "top1"));
    for (int64_t i = 0; i < rows; i++)
        right += cst_largest(p + i * view->classes, view->classes) == t->labels[i];
    out->seen_top1 = (double)right / (double)rows;
    out->p = cst_binomial_at_least(llround(out->top1 * (double)rows), rows, out->chance);
    out->seen_p = cst_binomial_at_least(llround(out->seen_top1 * (double)rows), rows, out->chance);
    return CST_OK;
}

cst_status cst_permuted_fit(cst_context *context, const cst_view *view, const char *const *names,
                            const char *const *settings, size_t count, int64_t most, uint64_t seed,
                            cst_permuted *out) {
    *out = (cst_permuted){0};
    trial t = {0};
    cst_context *own = NULL; /* notices and progress of the fit are not the caller's */
    CST_SCOPE(scope);
    CST_TRY(trial_make(context, scope, view, view->rows < most ? view->rows : most, seed, &t, out));
    cst_status status = cst_context_child(&own, context, true);
    CST_THEN(cst_context_set_threads(own, cst_context_threads(context)));
    if (status == CST_OK) {
        status = fit(own, &t, view, names, settings, count, out);
        if (status != CST_OK)
            status = cst_adopt_error(context, own, status);
    }
    cst_context_free(own);
    return status;
}
