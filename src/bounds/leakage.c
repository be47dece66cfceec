/*
 * Rows and groups that splits or folds have in common, and what a fit makes of permuted labels.
 * Beside the certificates. method.md section 6.
 */
#include "bounds/leakage.h"

#include "bounds/binomial.h"
#include "report/report.h"

#include <corestack/fit.h>
#include <corestack/statistics.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- rows --------------------------------------------------------------------------------------
 */

static uint64_t mix(uint64_t hash, uint64_t word) {
    hash = (hash ^ word) * UINT64_C(0x9e3779b97f4a7c15);
    return hash ^ (hash >> 29);
}

static int by_value(const void *a, const void *b) {
    uint64_t x = *(const uint64_t *)a;
    uint64_t y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

/* A number for the label and all predictions of each row. out: [rows]. */
static cst_status hash_rows(cst_context *context, const cst_view *view, uint64_t *out) {
    size_t classes = (size_t)view->classes;
    float *scratch = cst_alloc(context, (size_t)CST_BLOCK_ROWS * classes, sizeof *scratch);
    cst_status status = scratch ? CST_OK : CST_ERROR_MEMORY;
    for (int64_t i = 0; i < view->rows; i++)
        out[i] = mix(1, (uint64_t)cst_view_label(view, i));
    for (int64_t block = 0; status == CST_OK && block < cst_block_count(view->rows); block++) {
        int64_t first = cst_block_first(block);
        int64_t size = cst_block_size(view->rows, block);
        for (int32_t k = 0; status == CST_OK && k < view->members; k++) {
            const float *p = NULL;
            status = cst_view_rows(context, view, k, first, size, scratch, &p);
            for (size_t j = 0; status == CST_OK && j < (size_t)size * classes; j++) {
                uint32_t bits = 0;
                memcpy(&bits, &p[j], sizeof bits);
                uint64_t *hash = &out[(size_t)first + j / classes];
                *hash = mix(*hash, bits);
            }
        }
    }
    cst_free(context, scratch);
    return status;
}

static int64_t count_shared(const uint64_t *sorted, int64_t count, const uint64_t *others,
                            int64_t rows) {
    int64_t shared = 0;
    for (int64_t i = 0; i < rows; i++)
        shared += bsearch(&others[i], sorted, (size_t)count, sizeof *sorted, by_value) != NULL;
    return shared;
}

cst_status cst_shared_rows_of(cst_context *context, const cst_view *first, const cst_view *second,
                              cst_shared_rows *out) {
    *out = (cst_shared_rows){0};
    uint64_t *a = cst_alloc(context, (size_t)first->rows, sizeof *a);
    uint64_t *b = cst_alloc(context, (size_t)second->rows, sizeof *b);
    cst_status status = a && b ? CST_OK : CST_ERROR_MEMORY;
    if (status == CST_OK)
        status = hash_rows(context, first, a);
    if (status == CST_OK)
        status = hash_rows(context, second, b);
    if (status == CST_OK) {
        qsort(a, (size_t)first->rows, sizeof *a, by_value);
        out->shared = count_shared(a, first->rows, b, second->rows);
        for (int64_t i = 0; i < first->rows; i++)
            out->repeated +=
                (i > 0 && a[i] == a[i - 1]) || (i + 1 < first->rows && a[i] == a[i + 1]);
    }
    cst_free(context, a);
    cst_free(context, b);
    return status;
}

/* ---- groups ------------------------------------------------------------------------------------
 */

typedef struct placed {
    int64_t group;
    int32_t fold;
} placed;

static int by_group(const void *a, const void *b) {
    const placed *x = a;
    const placed *y = b;
    if (x->group != y->group)
        return (x->group > y->group) - (x->group < y->group);
    return (x->fold > y->fold) - (x->fold < y->fold);
}

cst_status cst_split_groups(cst_context *context, const int64_t *groups, const int32_t *folds,
                            int64_t rows, int64_t *count) {
    *count = 0;
    placed *sorted = cst_alloc(context, (size_t)rows, sizeof *sorted);
    if (!sorted)
        return CST_ERROR_MEMORY;
    for (int64_t i = 0; i < rows; i++)
        sorted[i] = (placed){groups[i], folds[i]};
    qsort(sorted, (size_t)rows, sizeof *sorted, by_group);
    int64_t start = 0; /* of the group at hand */
    for (int64_t i = 1; i <= rows; i++) {
        if (i < rows && sorted[i].group == sorted[start].group)
            continue;
        *count += sorted[i - 1].fold != sorted[start].fold;
        start = i;
    }
    cst_free(context, sorted);
    return CST_OK;
}

/* ---- members -----------------------------------------------------------------------------------
 */

double cst_lower_error_p(const int64_t *errors, const int64_t *rows) {
    double n = (double)rows[0];
    double m = (double)rows[1];
    double both = (double)(errors[0] + errors[1]) / (n + m);
    double variance = both * (1 - both) * (1 / n + 1 / m);
    if (!(variance > 0))
        return 1;
    return cst_normal_upper(((double)errors[1] / m - (double)errors[0] / n) / sqrt(variance));
}

/* ---- permuted labels ---------------------------------------------------------------------------
 */

typedef struct trial {
    float *p;             /* [members][rows][classes] */
    const float **arrays; /* [members] */
    int32_t *labels;      /* [rows], permuted */
    int64_t *positions;   /* [rows] of the view, ascending */
    int64_t *order;       /* [rows] */
    int64_t *counts;      /* [classes] */
} trial;

static void trial_free(cst_context *context, trial *t) {
    cst_free(context, t->p);
    cst_free(context, t->arrays);
    cst_free(context, t->labels);
    cst_free(context, t->positions);
    cst_free(context, t->order);
    cst_free(context, t->counts);
}

static cst_status trial_make(cst_context *context, const cst_view *view, int64_t rows,
                             uint64_t seed, trial *t, cst_permuted *out) {
    size_t n = (size_t)rows;
    size_t members = (size_t)view->members;
    size_t page = n * (size_t)view->classes;
    size_t cells = 0;
    if (!cst_size_mul(page, members, &cells))
        return cst_fail(context, CST_ERROR_LIMIT, "the pool is too large for permuted labels");
    *t = (trial){.p = cst_alloc(context, cells, sizeof *t->p),
                 .arrays = cst_alloc(context, members, sizeof *t->arrays),
                 .labels = cst_alloc(context, n, sizeof *t->labels),
                 .positions = cst_alloc(context, n, sizeof *t->positions),
                 .order = cst_alloc(context, n, sizeof *t->order),
                 .counts = cst_alloc(context, (size_t)view->classes, sizeof *t->counts)};
    if (!t->p || !t->arrays || !t->labels || !t->positions || !t->order || !t->counts)
        return CST_ERROR_MEMORY;
    cst_rng rng;
    for (int64_t i = 0; i < rows; i++) {
        t->positions[i] = view->rows / rows * i + view->rows % rows * i / rows;
        t->order[i] = t->positions[i];
    }
    cst_rng_init(&rng, seed, CST_STREAM_PLANTED, 100);
    cst_rng_shuffle(&rng, t->order, rows);
    int64_t most = 0;
    memset(t->counts, 0, (size_t)view->classes * sizeof *t->counts);
    for (size_t i = 0; i < n; i++) {
        t->labels[i] = cst_view_label(view, t->order[i]);
        int64_t count = ++t->counts[t->labels[i]];
        most = count > most ? count : most;
    }
    out->samples = rows;
    out->chance = (double)most / (double)rows;
    cst_status status = CST_OK;
    for (size_t k = 0; status == CST_OK && k < members; k++) {
        t->arrays[k] = t->p + k * page;
        status = cst_view_gather(context, view, (int32_t)k, t->positions, rows, t->p + k * page);
    }
    return status;
}

/* The stack's options, with nested scores. Its other settings are left out. */
static cst_status options_of(cst_context *context, const char *const *settings, size_t count,
                             cst_options **options) {
    char key[64];
    cst_status status = cst_options_create(context, options);
    for (size_t i = 0; status == CST_OK && i < count; i++) {
        const char *value = strchr(settings[i], '=');
        size_t length = value ? (size_t)(value - settings[i]) : sizeof key;
        if (length >= sizeof key)
            continue;
        memcpy(key, settings[i], length);
        key[length] = 0;
        if (cst_options_get(*options, key))
            status = cst_options_set(context, *options, key, value + 1);
    }
    return status == CST_OK ? cst_options_set(context, *options, "evaluate.nested", "true")
                            : status;
}

/* Top-1 of probabilities on the trial's labels; the first of equal classes counts. */
static double top1_of(const float *p, const int32_t *labels, int64_t rows, int32_t classes) {
    int64_t right = 0;
    for (int64_t i = 0; i < rows; i++) {
        int32_t top = 0;
        for (int32_t c = 1; c < classes; c++)
            top = p[i * classes + c] > p[i * classes + top] ? c : top;
        right += top == labels[i];
    }
    return (double)right / (double)rows;
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
    cst_status status = options_of(context, settings, count, &options);
    if (status == CST_OK)
        status =
            cst_pool_from_memory(context, &pool, "oof", t->arrays, names, view->members,
                                 out->samples, view->classes, t->labels, CST_OUTPUT_PROBABILITY);
    if (status == CST_OK)
        status = cst_fit(context, pool, "oof", options, &model, &report);
    if (status == CST_OK)
        status = cst_model_predict_pool(context, model, pool, "oof", &p, &rows);
    if (status == CST_OK) {
        const json_t *oof = json_object_get(cst_report_root(report), "oof");
        out->top1 = json_number_value(json_object_get(oof, "top1"));
        out->seen_top1 = top1_of(p, t->labels, rows, view->classes);
        out->p = cst_binomial_at_least(llround(out->top1 * (double)rows), rows, out->chance);
        out->seen_p =
            cst_binomial_at_least(llround(out->seen_top1 * (double)rows), rows, out->chance);
    }
    cst_free(context, p);
    cst_report_free(context, report);
    cst_model_free(context, model);
    cst_pool_free(context, pool);
    cst_options_free(context, options);
    return status;
}

cst_status cst_permuted_fit(cst_context *context, const cst_view *view, const char *const *names,
                            const char *const *settings, size_t count, int64_t most, uint64_t seed,
                            cst_permuted *out) {
    *out = (cst_permuted){0};
    trial t = {0};
    cst_context *own = NULL; /* notices and progress of the fit are not the caller's */
    cst_status status =
        trial_make(context, view, view->rows < most ? view->rows : most, seed, &t, out);
    if (status == CST_OK)
        status = cst_context_child(&own, context, true);
    if (status == CST_OK)
        status = cst_context_set_threads(own, cst_context_threads(context));
    if (status == CST_OK) {
        status = fit(own, &t, view, names, settings, count, out);
        if (status != CST_OK)
            status = cst_adopt_error(context, own, status);
    }
    cst_context_free(own);
    trial_free(context, &t);
    return status;
}
