/*
 * Properties of fits on random pools: the order of members, rows and classes, copies of a member,
 * the number of threads, the type of the numbers and constants added to logits do not matter.
 *
 *     test_api_properties              pools for some seconds
 *     test_api_properties SEED         one pool
 *     test_api_properties FIRST COUNT  so many pools from a seed on; every failure is listed
 */
#include "random_case.h"

/* Wall clock without arguments, with CST_SHORT_TESTS, and the fewest pools looked at. */
static const double SECONDS = 12;
static const double SHORT_SECONDS = 4;
enum { FEWEST = 8 };

/* Differences of two predictions of one pool that rounding explains. */
static const double TOLERANCE = 2e-4;

/* Of the true class: below it one row may cost more than the bound on a mean of few rows. */
static const double CONFIDENTLY_WRONG = 1e-3;

typedef struct fitted {
    float *out; /* [rows][classes] */
    char *json; /* of the fit */
    void *bytes;
    size_t size;
    int32_t members; /* kept */
    char (*names)[16];
    double *weights; /* [members] */
} fitted;

typedef struct trial {
    cst_context *context;
    uint64_t seed;
    const char *preset;
    const char *keep_fraction; /* NULL: the preset's */
    const char *ties;          /* the same */
    const char *estimator;     /* the same */
    const char *gate;          /* NULL: the preset's */
    verdict *verdict;
} trial;

static void free_fitted(const trial *t, fitted *f) {
    cst_free(t->context, f->out);
    cst_free(t->context, f->json);
    cst_free(t->context, f->bytes);
    free(f->names);
    free(f->weights);
    *f = (fitted){0};
}

static void describe_members(const cst_model *model, fitted *f) {
    f->members = (int32_t)cst_model_members(model);
    f->names = allocate((size_t)f->members, sizeof *f->names);
    f->weights = allocate((size_t)f->members, sizeof *f->weights);
    for (int32_t k = 0; k < f->members; k++) {
        (void)snprintf(f->names[k], sizeof f->names[k], "%s", cst_model_member_name(model, k));
        f->weights[k] = cst_model_member_weight(model, k);
    }
}

/* Rows one by one, of the members in the model's order, give the bytes of all rows together. */
static bool rows_stand_alone(const trial *t, cst_pool *pool, const pool_case *c,
                             const cst_model *model, const float *out) {
    int32_t members = (int32_t)cst_model_members(model);
    const float **rows = allocate((size_t)members, sizeof *rows);
    float *one = allocate((size_t)c->classes, sizeof *one);
    bool ok = true;
    for (int64_t i = 0; ok && i < c->rows; i += 1 + c->rows / 5) {
        for (int32_t k = 0; k < members; k++)
            rows[k] =
                cst_pool_predictions(pool, "oof",
                                     cst_pool_member_index(pool, cst_model_member_name(model, k))) +
                i * c->classes;
        if (cst_model_predict(t->context, model, rows, 1, one) != CST_OK)
            ok = wrong(t->verdict, "one row: %s", cst_last_error(t->context));
        else if (memcmp(one, out + i * c->classes, (size_t)c->classes * sizeof *one) != 0)
            ok = wrong(t->verdict, "row %lld alone: other bytes", (long long)i);
    }
    free(rows);
    free(one);
    return ok;
}

/* Fits the case's pool. False with a verdict where anything is not as it must be; a refusal leaves
 * `out` empty and is told by *refused. `whole`: everything is checked, not the fit alone. */
static bool fit(const trial *t, pool_case *c, bool whole, fitted *out, bool *refused) {
    cst_pool *pool = NULL;
    cst_options *options = NULL;
    cst_report *report = NULL;
    cst_model *model = NULL;
    int64_t rows = 0;
    *out = (fitted){0};
    cst_status status = make_pool(t->context, c, &pool);
    if (status != CST_OK || cst_options_create(t->context, &options) != CST_OK ||
        cst_options_preset(t->context, options, t->preset) != CST_OK ||
        cst_options_set(t->context, options, "gate.epochs", "3") != CST_OK ||
        (t->gate && cst_options_set(t->context, options, "gate.mode", t->gate) != CST_OK) ||
        (t->ties && cst_options_set(t->context, options, "redundancy.ties", t->ties) != CST_OK) ||
        (t->estimator &&
         cst_options_set(t->context, options, "cka.estimator", t->estimator) != CST_OK) ||
        (t->keep_fraction &&
         cst_options_set(t->context, options, "keep.fraction", t->keep_fraction) != CST_OK))
        status = status ? status : CST_ERROR_INTERNAL;
    if (status == CST_OK)
        status = cst_fit(t->context, pool, "oof", options, &model, whole ? &report : NULL);
    *refused = status != CST_OK;
    bool ok = !*refused || refused_well(t->context, status, t->verdict);
    if (ok && !*refused) {
        if (cst_model_predict_pool(t->context, model, pool, "oof", &out->out, &rows) != CST_OK ||
            cst_model_save_memory(t->context, model, &out->bytes, &out->size) != CST_OK ||
            (whole && cst_report_json(t->context, report, &out->json) != CST_OK))
            ok = wrong(t->verdict, "%s", cst_last_error(t->context));
        ok = ok && rows_are_sound(c, out->out, t->verdict);
        if (ok && whole)
            ok = model_survives(t->context, c, pool, model, t->verdict) &&
                 report_is_sound(t->context, report, false, t->verdict) &&
                 rows_stand_alone(t, pool, c, model, out->out);
        describe_members(model, out);
    }
    cst_report_free(t->context, report);
    cst_model_free(t->context, model);
    cst_options_free(t->context, options);
    cst_pool_free(t->context, pool);
    return ok;
}

/* ---- properties ---- */

static bool scores_in_range(const trial *t, const pool_case *c, const fitted *f) {
    cst_metrics m;
    if (c->task == CST_TASK_REGRESSION)
        return true;
    if (cst_metrics_evaluate(t->context, f->out, c->rows, c->classes, c->labels, 0, &m) != CST_OK)
        return wrong(t->verdict, "scores: %s", cst_last_error(t->context));
    if (!(m.top1 >= 0 && m.top1 <= 1 && m.nll >= 0 && m.brier >= 0 && m.brier <= 2 && m.ece >= 0 &&
          m.ece <= 1 && m.ece_mass >= 0 && m.ece_mass <= 1 && m.ece_classwise >= 0 &&
          m.ece_classwise <= 1 && m.ece_debiased <= 1 && m.corp >= -1e-12 && m.corp <= 1))
        return wrong(t->verdict, "scores: top1 %g nll %g brier %g ece %g %g %g %g corp %g", m.top1,
                     m.nll, m.brier, m.ece, m.ece_mass, m.ece_classwise, m.ece_debiased, m.corp);
    return true;
}

/* Largest difference of predictions; of a regression in standard deviations of the target. b's row
 * i is a's row rows[i], and so for classes (NULL: the same). */
static double difference(const pool_case *c, const fitted *a, const fitted *b, const int64_t *rows,
                         const int64_t *classes) {
    double most = 0;
    for (int32_t j = 0; j < c->classes; j++) {
        int64_t column = classes ? classes[j] : j;
        double unit = 1;
        double mean = 0;
        if (c->targets) {
            double square = 0;
            for (int64_t i = 0; i < c->rows; i++)
                mean += c->targets[i * c->classes + column] / (double)c->rows;
            for (int64_t i = 0; i < c->rows; i++)
                square += pow(c->targets[i * c->classes + column] - mean, 2) / (double)c->rows;
            unit = fmax(sqrt(square), 1e-3 * fabs(mean));
            unit = unit > 0 ? unit : 1;
        }
        for (int64_t i = 0; i < c->rows; i++)
            most = fmax(most, fabs((double)b->out[i * c->classes + j] -
                                   (double)a->out[(rows ? rows[i] : i) * c->classes + column]) /
                                  unit);
    }
    return most;
}

/* The same members; weights within the tolerance. Weights of copies may go from one to another, so
 * names are compared by what they predict: `same` [members of the case] is the first copy. */
static bool same_fit(const trial *t, const char *what, const pool_case *c, const fitted *a,
                     const fitted *b, const int64_t *rows, const int64_t *classes) {
    double d = difference(c, a, b, rows, classes);
    if (!(d <= TOLERANCE))
        return wrong(t->verdict, "%s: predictions differ by %g (%d and %d members kept)", what, d,
                     (int)a->members, (int)b->members);
    if (a->members != b->members)
        return wrong(t->verdict, "%s: %d and %d members kept", what, (int)a->members,
                     (int)b->members);
    return true;
}

/* Fits `other` as `t` says and compares; frees `other`. */
static bool fits_alike(const trial *t, const char *what, const pool_case *c, const fitted *a,
                       pool_case other, const int64_t *rows, const int64_t *classes) {
    fitted b = {0};
    bool refused = false;
    bool ok = fit(t, &other, false, &b, &refused);
    if (ok && refused)
        ok = wrong(t->verdict, "%s: refused: %s", what, cst_last_error(t->context));
    ok = ok && same_fit(t, what, c, a, &b, rows, classes);
    free_fitted(t, &b);
    free_case(&other);
    return ok;
}

/* Another number of threads: the same bytes. */
static bool threads_do_not_matter(const trial *t, pool_case *c, const fitted *a) {
    bool ok = true;
    for (int threads = 2; ok && threads <= 3; threads++) {
        fitted b = {0};
        bool refused = false;
        (void)cst_context_set_threads(t->context, threads);
        ok = fit(t, c, true, &b, &refused);
        if (ok && (refused || a->size != b.size || memcmp(a->bytes, b.bytes, a->size) != 0 ||
                   memcmp(a->out, b.out, case_cells(c) * sizeof *a->out) != 0))
            ok = wrong(t->verdict, "%d threads: other bytes", threads);
        free_fitted(t, &b);
    }
    (void)cst_context_set_threads(t->context, 1);
    return ok;
}

/* Numbers that both types hold: the same bytes from either, in any layout. */
static bool types_do_not_matter(const trial *t, const pool_case *c, const fitted *a) {
    pool_case other = rearranged(c, NULL, c->members, NULL, NULL);
    fitted b = {0};
    bool refused = false;
    other.type = c->type == CST_NUMBER_FLOAT32 ? CST_NUMBER_FLOAT64 : CST_NUMBER_FLOAT32;
    other.fortran = !c->fortran;
    bool ok = fit(t, &other, true, &b, &refused);
    if (ok && (refused || a->size != b.size || memcmp(a->bytes, b.bytes, a->size) != 0))
        ok = wrong(t->verdict, "another type: other bytes");
    free_fitted(t, &b);
    free_case(&other);
    return ok;
}

/* All weights in another unit. */
static bool scale_of_weights_does_not_matter(const trial *t, const pool_case *c, const fitted *a) {
    pool_case other = rearranged(c, NULL, c->members, NULL, NULL);
    for (int64_t i = 0; i < c->rows; i++)
        other.weights[i] *= 3e-7;
    return fits_alike(t, "weights in another unit", c, a, other, NULL, NULL);
}

/* A number of the report's nested evaluation. */
static double nested_score(const fitted *f, const char *key) {
    const char *oof = strstr(f->json, "\"oof\"");
    const char *at = oof ? strstr(oof, key) : NULL;
    return at ? strtod(at + strlen(key), NULL) : NAN;
}

/* Nested scores of preset default are not far above those of the best member, although that one is
 * known only afterwards: the Brier score always; the NLL unless a member is confidently wrong
 * somewhere, where one held-out row costs more than any such bound. */
static bool no_worse_than_best_member(const trial *t, const pool_case *c, const fitted *f) {
    double nll = nested_score(f, "\"nll\":");
    double brier = nested_score(f, "\"brier\":");
    double rows = (double)c->rows;
    double best_nll = INFINITY;
    double best_brier = INFINITY;
    double least = 1;
    for (int32_t k = 0; k < c->members; k++) {
        double loss = 0;
        double square = 0;
        for (int64_t i = 0; i < c->rows; i++) {
            const double *row = case_row(c, k, i);
            double p = row[c->labels[i]];
            least = fmin(least, p);
            loss -= log(fmax(p, 1e-15));
            for (int32_t class = 0; class < c->classes; class ++)
                square += pow(row[class] - (class == c->labels[i]), 2);
        }
        best_nll = fmin(best_nll, loss / rows);
        best_brier = fmin(best_brier, square / rows);
    }
    if (!(brier <= best_brier + 0.1 + 3 / rows))
        return wrong(t->verdict, "nested Brier score %g, best member %g", brier, best_brier);
    if (least >= CONFIDENTLY_WRONG && !(nll <= best_nll + 0.1 + 10 / rows))
        return wrong(t->verdict, "nested NLL %g, best member %g", nll, best_nll);
    return true;
}

/* Logarithms of the probabilities plus a constant a row, as logits. */
static bool constants_do_not_matter(const trial *t, cst_rng *rng, const pool_case *c,
                                    const fitted *a) {
    pool_case other = rearranged(c, NULL, c->members, NULL, NULL);
    other.output = CST_OUTPUT_LOGIT;
    other.type = CST_NUMBER_FLOAT64;
    for (int32_t k = 0; k < c->members; k++)
        for (int64_t i = 0; i < c->rows; i++) {
            double shift = between(rng, -50, 50);
            for (int32_t j = 0; j < c->classes; j++) {
                double *x = &case_row(&other, k, i)[j];
                *x = (*x > 0 ? log(*x) : -800) + shift;
            }
        }
    return fits_alike(t, "logits", c, a, other, NULL, NULL);
}

/* Landmarks are drawn by position. A learned gate starts from numbers that the seed gives to
 * positions, and its training makes differences of rounding larger; of two folds one is left to
 * make inner folds of, by position and class: those two are no part of what is promised. */
static bool order_and_units_do_not_matter(const trial *t, cst_rng *rng, pool_case *c) {
    int64_t *members = random_order(rng, c->members);
    int64_t *rows = random_order(rng, c->rows);
    int64_t *classes = random_order(rng, c->classes);
    trial fixed = *t;
    fitted a = {0};
    bool refused = false;
    if (strcmp(t->preset, "paper") == 0) {
        fixed.gate = "prototype";
        fixed.estimator = "exact";
    }
    bool ok = fit(&fixed, c, false, &a, &refused);
    if (ok && !refused)
        ok = (!c->weights || scale_of_weights_does_not_matter(&fixed, c, &a)) &&
             (c->targets || constants_do_not_matter(&fixed, rng, c, &a)) &&
             fits_alike(&fixed, "members in another order", c, &a,
                        rearranged(c, members, c->members, NULL, NULL), NULL, NULL) &&
             (fold_count(c) < 3 ||
              (fits_alike(&fixed, "rows in another order", c, &a,
                          rearranged(c, NULL, c->members, rows, NULL), rows, NULL) &&
               fits_alike(&fixed, "classes in another order", c, &a,
                          rearranged(c, NULL, c->members, NULL, classes), NULL, classes)));
    free_fitted(&fixed, &a);
    free(members);
    free(rows);
    free(classes);
    return ok;
}

/* One member once more, where no cap is a share of the members and ties in risk do not stay. */
static bool copies_do_not_matter(const trial *t, cst_rng *rng, pool_case *c) {
    trial uncapped = *t;
    fitted a = {0};
    bool refused = false;
    int64_t *members = allocate((size_t)c->members + 1, sizeof *members);
    for (int32_t k = 0; k < c->members; k++)
        members[k] = k;
    members[c->members] = cst_rng_below(rng, c->members);
    uncapped.keep_fraction = "0";
    uncapped.ties = "drop";
    bool ok = fit(&uncapped, c, false, &a, &refused);
    pool_case other = rearranged(c, members, c->members + 1, NULL, NULL);
    (void)snprintf(other.names[c->members], sizeof other.names[0], "copy");
    if (ok && !refused)
        ok = fits_alike(&uncapped, "a copy of a member", c, &a, other, NULL, NULL);
    else
        free_case(&other);
    free(members);
    free_fitted(t, &a);
    return ok;
}

/* ---- one pool ---- */

static bool one_pool(cst_context *context, uint64_t seed, verdict *v, char *summary, size_t size) {
    static const char *const presets[] = {"default", "default", "prototype", "paper"};
    cst_rng rng;
    fitted a = {0};
    bool refused = false;
    cst_rng_init(&rng, seed, CST_STREAM_TEST, 1);
    pool_case c = chance(&rng, 0.25) ? random_values(&rng) : random_classes(&rng);
    trial t = {
        .context = context, .seed = seed, .preset = presets[cst_rng_below(&rng, 4)], .verdict = v};
    (void)snprintf(summary, size, "%s%s, preset %s, K %d, N %lld, C %d",
                   c.targets ? "regression" : "classification", c.weights ? " with weights" : "",
                   t.preset, (int)c.members, (long long)c.rows, (int)c.classes);
    bool ok = fit(&t, &c, true, &a, &refused);
    if (refused)
        (void)snprintf(summary + strlen(summary), size - strlen(summary), ", refused: %s",
                       cst_last_error(context));
    ok = ok && (refused || scores_in_range(&t, &c, &a));
    ok = ok && (refused || threads_do_not_matter(&t, &c, &a));
    ok = ok && (refused || types_do_not_matter(&t, &c, &a));
    if (ok && !refused && !c.targets && !c.weights && strcmp(t.preset, "default") == 0)
        ok = no_worse_than_best_member(&t, &c, &a);
    ok = ok && (refused || order_and_units_do_not_matter(&t, &rng, &c));
    ok = ok && (refused || copies_do_not_matter(&t, &rng, &c));
    free_fitted(&t, &a);
    free_case(&c);
    return ok;
}

int main(int argc, char **argv) {
    uint64_t first = argc > 1 ? strtoull(argv[1], NULL, 10) : 1;
    uint64_t count = argc > 2 ? strtoull(argv[2], NULL, 10) : argc > 1 ? 1 : 100000;
    double limit = getenv("CST_SHORT_TESTS") ? SHORT_SECONDS : SECONDS;
    double start = cst_seconds();
    uint64_t failed = 0;
    uint64_t done = 0;
    cst_context *context = NULL;
    if (cst_context_create(&context) != CST_OK)
        return 1;
    (void)cst_context_set_threads(context, 1);
    for (; done < count && (argc > 1 || done < FEWEST || cst_seconds() - start < limit); done++) {
        char summary[600];
        verdict v = {""};
        bool ok = one_pool(context, first + done, &v, summary, sizeof summary);
        if (!ok || argc == 2)
            printf("test_api_properties %llu: %s: %s\n", (unsigned long long)(first + done),
                   summary, ok ? "passed" : v.text);
        failed += !ok;
        (void)fflush(stdout);
    }
    cst_context_free(context);
    printf("%llu pools, %llu failed, %.1f s\n", (unsigned long long)done,
           (unsigned long long)failed, cst_seconds() - start);
    return failed > 0;
}
