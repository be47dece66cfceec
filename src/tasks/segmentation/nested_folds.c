/* One fit for each fold of cases, and what is chosen by them. See the header. */
#include "tasks/segmentation/segmentation.h"

#include "data/pool/state.h"
#include "fit/training.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

cst_status cst_predict_by_method(cst_context *context, const void *fit, const cst_view *view,
                                 float *out) {
    return cst_method_fit_predict(context, fit, view, out);
}

bool cst_method_takes_balance(const cst_method *method) {
    return method->preset && method->settings.learners == CST_META_LOGLINEAR &&
           method->calibrator == CST_CALIBRATOR_NONE;
}

cst_status cst_method_prior_correct(cst_context *context, const double *prior, const double *share,
                                    const cst_segment_settings *settings, cst_method_fit *fit) {
    return cst_method_takes_balance(&fit->method)
               ? cst_prior_correct(context, prior, share, settings, fit->stages.fit.model)
               : CST_OK;
}

/* Adds the rows outside of fold `fold` (-1: all) as member `member` labels them. */
static cst_status tally_member(cst_context *context, const cst_training *source, int32_t fold,
                               int32_t member, double *tally) {
    const cst_view *view = &source->view;
    CST_SCOPE(scope);
    CST_NEW(context, scope, int32_t, predicted, 2 * CST_BLOCK_ROWS);
    int32_t *labels = predicted + CST_BLOCK_ROWS;
    for (int64_t block = 0; block < cst_block_count(view->rows); block++) {
        CST_SCOPE(own);
        cst_rows rows;
        CST_TRY(cst_rows_open(context, own, view, block, &rows));
        CST_TRY(cst_rows_read(context, &rows, member));
        cst_label_rows(cst_rows_at(&rows, 0), rows.count, view->classes, predicted);
        for (int64_t i = 0; i < rows.count; i++)
            labels[i] =
                source->folds[rows.first + i] == fold ? -1 : cst_view_label(view, rows.first + i);
        cst_tally_labels(tally, view->classes, predicted, labels, rows.count, NULL);
    }
    return CST_OK;
}

cst_status cst_method_prefer_miou(cst_context *context, const cst_training *source, int32_t fold,
                                  cst_method_fit *fit) {
    if (strcmp(fit->method.name, "best-single") != 0)
        return CST_OK;
    size_t width = cst_tally_width(fit->classes);
    CST_SCOPE(scope);
    CST_NEW(context, scope, double, tally, width);
    int32_t best = 0;
    double most = -1;
    for (int32_t k = 0; k < fit->members; k++) {
        cst_segmentation_scores scores;
        memset(tally, 0, width * sizeof *tally);
        CST_TRY(tally_member(context, source, fold, k, tally));
        cst_tally_scores(tally, fit->classes, false, &scores);
        if (scores.miou > most) {
            most = scores.miou;
            best = k;
        }
    }
    for (int32_t k = 0; k < fit->members; k++) {
        fit->baseline.weights[k] = k == best;
        fit->baseline.uses[k] = k == best;
        fit->uses[k] = k == best;
        if (fit->weights)
            fit->weights[k] = k == best;
    }
    return CST_OK;
}

typedef struct group_fold {
    int64_t group;
    int32_t fold;
} group_fold;

CST_BY(by_group, group_fold, CST_UP(group), 0, 0)

/* Cases without a sampled pixel take the fold of their group, where that has any. */
static cst_status place_by_group(cst_context *context, const cst_cases *cases, int32_t *fit_of) {
    CST_SCOPE(scope);
    size_t count = 0;
    CST_NEW(context, scope, group_fold, known, cases->count);
    for (int64_t n = 0; n < cases->count; n++)
        if (fit_of[n] >= 0)
            known[count++] = (group_fold){cases->groups[n], fit_of[n]};
    if (count > 0)
        qsort(known, count, sizeof *known, by_group);
    for (int64_t n = 0; count > 0 && n < cases->count; n++) {
        group_fold wanted = {.group = cases->groups[n]};
        const group_fold *found =
            fit_of[n] < 0 ? bsearch(&wanted, known, count, sizeof *known, by_group) : NULL;
        fit_of[n] = found ? found->fold : fit_of[n];
    }
    return CST_OK;
}

/* The fold of each case: the pool's, that of its pixels, or its group's; else any fit will do. */
static cst_status place_cases(cst_context *context, const cst_nesting *nesting, int32_t *fit_of) {
    const cst_cases *cases = nesting->cases;
    const cst_training *source = nesting->source;
    for (int64_t n = 0; n < cases->count; n++)
        fit_of[n] = cases->folds && cases->folds[n] < source->fold_count ? cases->folds[n] : -1;
    int64_t at = 0;
    for (int64_t i = 0; !cases->folds && i < nesting->sample->rows; i++) {
        while (nesting->sample->index[i] >= cases->first[at + 1])
            at++;
        fit_of[at] = source->folds[i];
    }
    if (!cases->folds && cases->groups)
        CST_TRY(place_by_group(context, cases, fit_of));
    for (int64_t n = 0; n < cases->count; n++)
        fit_of[n] = fit_of[n] < 0 ? 0 : fit_of[n];
    return CST_OK;
}

/* Pixels of each class by fold, of all that count and of the sampled ones. */
static void count_classes(const cst_nesting *nesting, cst_fold_fits *out) {
    const cst_cases *cases = nesting->cases;
    size_t classes = (size_t)nesting->source->view.classes;
    for (int64_t n = 0; n < cases->count; n++)
        for (int64_t i = cases->first[n]; i < cases->first[n + 1]; i++)
            if (nesting->labels[i] >= 0)
                out->pixels[(size_t)out->fit_of[n] * classes + (size_t)nesting->labels[i]] += 1;
    for (int64_t i = 0; i < nesting->sample->rows; i++)
        out->sampled[(size_t)nesting->source->folds[i] * classes +
                     (size_t)nesting->source->view.labels[i]] += 1;
}

/* Shares of classes outside folds f with f % blocks = a or b, of pixels and sample. */
static void fold_shares(const cst_fold_fits *fits, int32_t classes, int32_t blocks, int32_t a,
                        int32_t b, double *prior, double *share) {
    double total = 0;
    double rows = 0;
    for (int32_t c = 0; c < classes; c++) {
        prior[c] = 0;
        share[c] = 0;
        for (int32_t f = 0; f < fits->count; f++) {
            if (f % blocks == a || f % blocks == b)
                continue;
            prior[c] += fits->pixels[(size_t)f * (size_t)classes + (size_t)c];
            share[c] += fits->sampled[(size_t)f * (size_t)classes + (size_t)c];
        }
        total += prior[c];
        rows += share[c];
    }
    for (int32_t c = 0; c < classes; c++) {
        prior[c] = total > 0 ? prior[c] / total : 0;
        share[c] = rows > 0 ? share[c] / rows : 0;
    }
}

typedef struct fold_job {
    const cst_nesting *nesting;
    const cst_training *source; /* with the table that all fits share */
    cst_fold_fits *out;
} fold_job;

static cst_status fit_fold(cst_context *worker, void *user, const cst_fold_rows *rows) {
    const fold_job *job = user;
    int32_t fold = rows->fold;
    cst_method_fit *fit = &job->out->fits[fold];
    const cst_segment_settings *settings = job->nesting->settings;
    int32_t classes = job->source->view.classes;
    CST_SCOPE(scope);
    CST_NEW(worker, scope, double, prior, 2 * (size_t)classes);
    CST_TRY(cst_method_fit_run(worker, job->nesting->method, &rows->inside, settings->seed, fit));
    CST_TRY(cst_method_prefer_miou(worker, job->source, fold, fit));
    fold_shares(job->out, classes, job->out->count, fold, fold, prior, prior + classes);
    return cst_method_prior_correct(worker, prior, prior + classes, settings, fit);
}

CST_OWNED(cst_method_fit)

static cst_status take_fits(cst_context *context, cst_scope *scope, int32_t count,
                            cst_method_fit **out) {
    CST_TAKE(context, scope, *out, count);
    for (int32_t f = 0; f < count; f++)
        CST_OWN(context, scope, cst_method_fit, &(*out)[f]);
    return CST_OK;
}

/* The training, whose rows share one table of logarithms. */
static cst_status share_table(cst_context *context, cst_scope *scope, const cst_nesting *nesting,
                              cst_training *out) {
    *out = *nesting->source;
    return nesting->method->baseline ? CST_OK
                                     : cst_stages_attach(context, scope, nesting->source,
                                                         &nesting->method->settings, &out->view);
}

cst_status cst_fold_fits_make(cst_context *context, cst_scope *scope, const cst_nesting *nesting,
                              cst_fold_fits *out) {
    const cst_training *source = nesting->source;
    int32_t folds = source->fold_count;
    size_t cells = (size_t)folds * (size_t)source->view.classes;
    *out = (cst_fold_fits){.count = folds};
    CST_TAKE(context, scope, out->places, folds);
    CST_TAKE(context, scope, out->fit_of, nesting->cases->count);
    CST_TAKE(context, scope, out->pixels, cells);
    CST_TAKE(context, scope, out->sampled, cells);
    CST_TRY(take_fits(context, scope, folds, &out->fits));
    CST_TRY(place_cases(context, nesting, out->fit_of));
    count_classes(nesting, out);
    cst_training shared;
    CST_SCOPE(own);
    CST_TRY(share_table(context, own, nesting, &shared));
    fold_job job = {.nesting = nesting, .source = &shared, .out = out};
    CST_TRY(cst_nested_run(context, &shared, nesting->settings->seed, fit_fold, &job, NULL, 0));
    for (int32_t f = 0; f < folds; f++)
        out->places[f] = &out->fits[f];
    return CST_OK;
}

/* Folds are put together to at most this many blocks, of which every two are left out once. */
enum { BLOCKS_MAX = 5 };

/* Offsets are judged on each part of the cases by those chosen on the other parts; the jackknife
 * leaves out one case, of more cases than units one unit of them. */
enum { PARTS = 5, UNITS_MAX = 100 };

typedef struct offset_search {
    const cst_nesting *nesting;
    const cst_training *source; /* with the table that all fits share */
    const cst_fold_fits *fits;
    int32_t blocks;
    cst_method_fit *pairs; /* [blocks][blocks]: at [a][b] the fit without these two */
    int32_t *block;        /* [rows] of the sample */
    int32_t *unit;         /* [rows]: number of its case or group */
    float *held;           /* [rows][classes] */
    float *part;           /* [rows][classes] */
    int32_t *labels;       /* [rows] */
    int64_t *index;        /* [rows] */
    double *prior;         /* [2][classes] */
    double *tallies;       /* [UNITS_MAX][2][3][classes]: without and with offsets */
} offset_search;

/* Folds with blocks a and b as fold 0 and the others in their order. Returns how many. */
static int32_t merge_folds(const offset_search *s, int32_t a, int32_t b, int32_t *folds) {
    int32_t count = 1;
    for (int32_t f = 0; f < s->fits->count; f++) {
        int32_t block = f % s->blocks;
        int32_t number = block == a || block == b ? 0 : count++;
        for (int64_t i = 0; i < s->source->view.rows; i++)
            folds[i] = s->source->folds[i] == f ? number : folds[i];
    }
    return count;
}

/* Whether fits without two folds take members, mixing and learner as chosen without the first. */
static bool takes_choices(const offset_search *s) {
    return s->fits->count == s->blocks && !s->nesting->method->baseline &&
           (s->nesting->method->settings.learners & ~CST_META_POOLS) == 0;
}

/* Whether fits without folds a and b would be the same for both. */
static bool same_choices(const offset_search *s, int32_t a, int32_t b) {
    const cst_stages *x = &s->fits->fits[a].stages;
    const cst_stages *y = &s->fits->fits[b].stages;
    bool other = (x->fit.prior > y->fit.prior || x->fit.prior < y->fit.prior) ||
                 (x->fit.share > y->fit.share || x->fit.share < y->fit.share) ||
                 x->kept_count != y->kept_count ||
                 memcmp(x->kept, y->kept, (size_t)x->kept_count * sizeof *x->kept) != 0;
    return !other && !x->fit.model->learner[0].own == !y->fit.model->learner[0].own;
}

/* Place of the fit without blocks a and b, for offsets that are chosen without a. */
static int32_t pair_of(const offset_search *s, int32_t a, int32_t b) {
    bool turned = a > b && (!takes_choices(s) || same_choices(s, a, b));
    return turned ? b * s->blocks + a : a * s->blocks + b;
}

static cst_status fit_pair(cst_context *worker, void *user, int64_t task) {
    const offset_search *s = user;
    int32_t a = (int32_t)(task / s->blocks);
    int32_t b = (int32_t)(task % s->blocks);
    bool chosen = takes_choices(s);
    if (a == b || pair_of(s, a, b) != task)
        return CST_OK;
    const cst_segment_settings *settings = s->nesting->settings;
    const cst_stages *stages = &s->fits->fits[a].stages;
    int32_t classes = s->source->view.classes;
    cst_method_fit *fit = &s->pairs[task];
    cst_method method = *s->nesting->method;
    cst_training merged = *s->source;
    CST_SCOPE(scope);
    if (chosen) {
        CST_TRY(
            cst_training_part(worker, scope, s->source, stages->kept, stages->kept_count, &merged));
        method.settings.measure = CST_MEASURE_NONE;
        method.settings.select = method.settings.drop = false;
        method.settings.learners =
            stages->fit.model->learner[0].own ? CST_META_CLASS_WISE : CST_META_LOGLINEAR;
        method.settings.prior_cv = method.settings.share_cv = false;
        method.settings.loglinear.compact.share = stages->fit.share;
        method.settings.loglinear.evidence = stages->fit.prior <= 0;
        if (stages->fit.prior > 0)
            method.settings.loglinear.prior_weights = stages->fit.prior;
    }
    CST_NEW(worker, scope, double, prior, 2 * (size_t)classes);
    CST_TAKE(worker, scope, merged.folds, s->source->view.rows);
    merged.fold_count = merge_folds(s, a, b, merged.folds);
    fold_shares(s->fits, classes, s->blocks, a, b, prior, prior + classes);
    CST_TRY(cst_method_fit_without(worker, &method, &merged, 0, settings->seed, fit));
    return cst_method_prior_correct(worker, prior, prior + classes, settings, fit);
}

/* Probabilities of the rows whose key is `key` by a fit, to their places in `held`. stages: whose
 * kept members the fit reads; NULL: it reads all. */
static cst_status predict_rows(cst_context *context, offset_search *s, const cst_method_fit *fit,
                               const cst_stages *stages, const int32_t *keys, int32_t key) {
    size_t classes = (size_t)s->source->view.classes;
    const float *from = s->part;
    cst_view inside;
    cst_view rows;
    CST_SCOPE(scope);
    CST_NEW(context, scope, const float *, pointers, s->source->view.members);
    cst_view_split(&s->source->view, keys, key, s->index, &inside, &rows);
    if (stages)
        rows = cst_view_members(&rows, stages->kept, stages->kept_count, pointers);
    CST_TRY(cst_method_fit_predict(context, fit, &rows, s->part));
    for (int64_t i = 0; i < s->source->view.rows; i++) {
        if (keys[i] != key)
            continue;
        memcpy(s->held + (size_t)i * classes, from, classes * sizeof *from);
        from += classes;
    }
    return CST_OK;
}

/* The rows of block b by the fit without blocks a and b. With two folds there is no third to fit
 * on: each fold's own fit stands for the pair. */
static cst_status predict_without(cst_context *context, offset_search *s, int32_t a, int32_t b) {
    const cst_method_fit *own = &s->fits->fits[a];
    return s->blocks < 3 ? predict_rows(context, s, own, NULL, s->block, b)
                         : predict_rows(context, s, &s->pairs[pair_of(s, a, b)],
                                        takes_choices(s) ? &own->stages : NULL, s->block, b);
}

/* Offsets for rows not in block `block` (-1: all) nor in part `part` (-1: all) of the cases, from
 * `held`, prior and share. */
static cst_status choose(cst_context *context, offset_search *s, int32_t block, int32_t part,
                         const double *prior, const double *share, double *out) {
    size_t classes = (size_t)s->source->view.classes;
    int64_t count = 0;
    for (int64_t i = 0; i < s->source->view.rows; i++) {
        if (s->block[i] == block || s->unit[i] % PARTS == part)
            continue;
        memcpy(s->part + (size_t)count * classes, s->held + (size_t)i * classes,
               classes * sizeof *s->part);
        s->labels[count++] = s->source->view.labels[i];
    }
    return cst_offsets_choose(context, s->part, s->labels, count, (int32_t)classes, prior, share,
                              out);
}

/* Adds a pixel as it is decided with some offsets to counts [3][classes]. */
static void count_pixel(const offset_search *s, int64_t row, const double *offsets, double weight,
                        double *counts) {
    int32_t classes = s->source->view.classes;
    int32_t label = s->source->view.labels[row];
    int32_t predicted = 0;
    cst_decide_rows(s->held + (ptrdiff_t)row * classes, 1, classes, offsets, &predicted);
    counts[label] += predicted == label ? weight : 0;
    counts[classes + label] += weight;
    counts[2 * classes + predicted] += weight;
}

/* What offsets change of the mIoU of all counted pixels but those of unit `unit` (-1: none). */
static double change_without(const offset_search *s, int32_t unit, double *sum) {
    int32_t classes = s->source->view.classes;
    size_t width = 6 * (size_t)classes;
    memset(sum, 0, width * sizeof *sum);
    for (int32_t u = 0; u < UNITS_MAX; u++)
        for (size_t i = 0; u != unit && i < width; i++)
            sum[i] += s->tallies[(size_t)u * width + i];
    return cst_counts_miou(sum + width / 2, classes) - cst_counts_miou(sum, classes);
}

static double jackknife(const offset_search *s, double *sum) {
    size_t width = 6 * (size_t)s->source->view.classes;
    double change[UNITS_MAX] = {0};
    double mean = 0;
    double spread = 0;
    int32_t units = 0;
    for (int32_t u = 0; u < UNITS_MAX; u++) {
        double pixels = 0;
        for (size_t i = 0; i < width; i++)
            pixels += s->tallies[(size_t)u * width + i];
        if (pixels > 0)
            change[units++] = change_without(s, u, sum);
    }
    for (int32_t u = 0; u < units; u++)
        mean += change[u] / units;
    for (int32_t u = 0; u < units; u++)
        spread += (change[u] - mean) * (change[u] - mean);
    return units > 1 ? sqrt(spread * (units - 1) / units) : INFINITY;
}

/* Offsets for rows not in a block, and whether they are worth it: else they are 0. */
static cst_status choose_gaining(cst_context *context, offset_search *s, int32_t block,
                                 const double *prior, const double *share, double *out,
                                 cst_offset_gain *gain) {
    size_t classes = (size_t)s->source->view.classes;
    CST_SCOPE(scope);
    CST_NEW(context, scope, double, sum, 6 * classes);
    memset(s->tallies, 0, UNITS_MAX * 6 * classes * sizeof *s->tallies);
    for (int32_t part = 0; part < PARTS; part++) {
        CST_TRY(choose(context, s, block, part, prior, share, out));
        for (int64_t i = 0; i < s->source->view.rows; i++) {
            int32_t label = s->source->view.labels[i];
            double *counts = s->tallies + (size_t)(s->unit[i] % UNITS_MAX) * 6 * classes;
            if (s->block[i] == block || s->unit[i] % PARTS != part)
                continue;
            double weight = share[label] > 0 ? prior[label] / share[label] : 0;
            count_pixel(s, i, NULL, weight, counts);
            count_pixel(s, i, out, weight, counts + 3 * classes);
        }
    }
    gain->change = change_without(s, -1, sum);
    gain->se = jackknife(s, sum);
    gain->used = gain->change > gain->se;
    if (gain->used)
        return choose(context, s, block, -1, prior, share, out);
    memset(out, 0, classes * sizeof *out);
    return CST_OK;
}

/* For the scores of block a's folds: the rows of each other block by the fit without it and a. */
static cst_status choose_without(cst_context *context, offset_search *s, int32_t a, double *out) {
    int32_t classes = s->source->view.classes;
    cst_offset_gain gain;
    for (int32_t b = 0; b < s->blocks; b++)
        if (b != a)
            CST_TRY(predict_without(context, s, a, b));
    fold_shares(s->fits, classes, s->blocks, a, a, s->prior, s->prior + classes);
    CST_TRY(choose_gaining(context, s, a, s->prior, s->prior + classes,
                           out + (ptrdiff_t)a * classes, &gain));
    for (int32_t f = a + s->blocks; f < s->fits->count; f += s->blocks)
        memcpy(out + (ptrdiff_t)f * classes, out + (ptrdiff_t)a * classes,
               (size_t)classes * sizeof *out);
    return CST_OK;
}

cst_status cst_fold_offsets(cst_context *context, cst_scope *out_scope, const cst_nesting *nesting,
                            const cst_fold_fits *fits, bool scored, double **out,
                            cst_offset_gain *gain) {
    const cst_training *source = nesting->source;
    size_t classes = (size_t)source->view.classes;
    size_t rows = (size_t)source->view.rows;
    CST_SCOPE(scope);
    offset_search s = {.nesting = nesting,
                       .source = source,
                       .fits = fits,
                       .blocks = fits->count < BLOCKS_MAX ? fits->count : BLOCKS_MAX};
    CST_NEW(context, out_scope, double, offsets, ((size_t)fits->count + 1) * classes);
    CST_TRY(take_fits(context, scope, s.blocks * s.blocks, &s.pairs));
    CST_TAKE(context, scope, s.block, rows);
    CST_TAKE(context, scope, s.unit, rows);
    CST_TAKE(context, scope, s.tallies, UNITS_MAX * 6 * classes);
    CST_TAKE(context, scope, s.held, rows * classes);
    CST_TAKE(context, scope, s.part, rows * classes);
    CST_TAKE(context, scope, s.labels, rows);
    CST_TAKE(context, scope, s.index, rows);
    CST_TAKE(context, scope, s.prior, 2 * classes);
    for (size_t i = 0; i < rows; i++)
        s.block[i] = source->folds[i] % s.blocks;
    CST_TRY(cst_pool_renumber(context, nesting->sample->pool->splits[0].beside.groups, NULL,
                              source->view.rows, s.unit));
    for (size_t i = 0; i < rows; i++)
        s.unit[i] = s.unit[i] > 0 ? s.unit[i] : 0;
    for (int32_t f = 0; f < fits->count; f++)
        CST_TRY(predict_rows(context, &s, &fits->fits[f], NULL, source->folds, f));
    CST_TRY(choose_gaining(context, &s, -1, nesting->sample->prior, nesting->sample->share,
                           offsets + (size_t)fits->count * classes, gain));
    if (scored && s.blocks >= 3) {
        cst_training shared;
        CST_SCOPE(own);
        CST_TRY(share_table(context, own, nesting, &shared));
        s.source = &shared;
        CST_TRY(cst_parallel_turns(context, (int64_t)s.blocks * s.blocks, fit_pair, &s));
        s.source = source;
    }
    for (int32_t a = 0; scored && a < s.blocks; a++)
        CST_TRY(choose_without(context, &s, a, offsets));
    *out = offsets;
    return CST_OK;
}
