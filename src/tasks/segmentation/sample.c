/* Sampling of pixels for a fit, and the correction of the prior that it changes. */
#include "tasks/segmentation/segmentation.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

void cst_segment_settings_read(const cst_options *options, cst_segment_settings *out) {
    *out =
        (cst_segment_settings){.pixels = cst_option_integer(options, CST_OPT_SEGMENT_PIXELS),
                               .balance = cst_option_real(options, CST_OPT_SEGMENT_BALANCE),
                               .boundary = cst_option_real(options, CST_OPT_SEGMENT_BOUNDARY),
                               .decide = cst_option_choice(options, CST_OPT_SEGMENT_DECISION) == 1,
                               .folds = (int32_t)cst_option_integer(options, CST_OPT_FOLDS_COUNT),
                               .seed = (uint64_t)cst_option_integer(options, CST_OPT_SEED)};
}

/* Real-valued sizes: a share in proportion to the class, the rest in equal parts. */
static void fill(const int64_t *counts, int32_t classes, double pixels, double balance,
                 double *size) {
    double total = 0;
    int32_t present = 0;
    for (int32_t c = 0; c < classes; c++) {
        total += (double)counts[c];
        present += counts[c] > 0;
        size[c] = 0;
    }
    for (int32_t round = 0; round <= classes; round++) {
        double left = pixels;
        double open = 0;
        for (int32_t c = 0; c < classes; c++) {
            double share =
                counts[c] > 0 ? (1 - balance) * (double)counts[c] / total + balance / present : 0;
            bool full = size[c] >= (double)counts[c];
            left -= full ? size[c] : 0;
            open += full ? 0 : share;
        }
        bool changed = false;
        for (int32_t c = 0; c < classes; c++) {
            if (size[c] >= (double)counts[c])
                continue;
            double share = (1 - balance) * (double)counts[c] / total + balance / present;
            size[c] = open > 0 ? left * share / open : 0;
            if (size[c] >= (double)counts[c]) {
                size[c] = (double)counts[c];
                changed = true;
            }
        }
        if (!changed)
            return;
    }
}

cst_status cst_sample_sizes(cst_context *context, const int64_t *counts, int32_t classes,
                            int64_t pixels, double balance, int64_t *out) {
    CST_SCOPE(scope);
    CST_NEW(context, scope, double, size, classes);
    int64_t total = 0;
    for (int32_t c = 0; c < classes; c++)
        total += counts[c];
    pixels = pixels < total ? pixels : total;
    fill(counts, classes, (double)pixels, balance, size);
    int64_t given = 0;
    for (int32_t c = 0; c < classes; c++) {
        out[c] = (int64_t)floor(size[c] + 1e-9);
        out[c] = out[c] < counts[c] ? out[c] : counts[c];
        given += out[c];
    }
    while (given < pixels) { /* the largest remainders, the lowest of equal classes */
        int32_t best = -1;
        for (int32_t c = 0; c < classes; c++)
            if (out[c] < counts[c] &&
                (best < 0 || size[c] - (double)out[c] > size[best] - (double)out[best]))
                best = c;
        if (best < 0)
            break;
        out[best]++;
        given++;
    }
    return CST_OK;
}

/* One pass: a pixel is taken with the chance of those needed among those to come, so that numbers
 * are met exactly. needed, coming: [classes], used up. */
static int64_t draw(const int32_t *labels, int64_t rows, uint64_t seed, int64_t *needed,
                    int64_t *coming, int64_t *index) {
    cst_rng rng;
    int64_t count = 0;
    cst_rng_init(&rng, seed, CST_STREAM_PIXELS, 0);
    for (int64_t i = 0; i < rows; i++) {
        int32_t c = labels[i];
        if (c < 0)
            continue;
        if (needed[c] > 0 && cst_rng_below(&rng, coming[c]) < needed[c]) {
            index[count++] = i;
            needed[c]--;
        }
        coming[c]--;
    }
    return count;
}

static cst_status draw_index(cst_context *context, cst_scope *scope, const int32_t *labels,
                             int64_t rows, int32_t classes, const cst_segment_settings *settings,
                             cst_pixel_sample *out) {
    CST_SCOPE(own);
    CST_NEW(context, own, int64_t, counts, classes);
    CST_NEW(context, own, int64_t, needed, classes);
    CST_TAKE(context, scope, out->prior, classes);
    CST_TAKE(context, scope, out->share, classes);
    for (int64_t i = 0; i < rows; i++)
        if (labels[i] >= 0)
            counts[labels[i]]++;
    CST_TRY(
        cst_sample_sizes(context, counts, classes, settings->pixels, settings->balance, needed));
    for (int32_t c = 0; c < classes; c++) {
        out->counted += counts[c];
        out->rows += needed[c];
    }
    for (int32_t c = 0; c < classes; c++) {
        out->prior[c] = (double)counts[c] / (double)out->counted;
        out->share[c] = (double)needed[c] / (double)out->rows;
    }
    CST_TAKE(context, scope, out->index, out->rows);
    return draw(labels, rows, settings->seed, needed, counts, out->index) == out->rows
               ? CST_OK
               : cst_fail(context, CST_ERROR_INTERNAL, "the sample of pixels has a wrong size");
}

static cst_status copy_member(cst_context *context, const cst_manifest_member *from,
                              cst_manifest *manifest) {
    int32_t index = 0;
    CST_TRY(cst_manifest_add_member(context, manifest, from->name, &index));
    cst_manifest_member *to = &manifest->members[index];
    const cst_manifest_member made = *to;
    *to = *from;
    to->name = made.name;
    to->paths = made.paths;
    to->ids = made.ids;
    if (from->family)
        to->family = cst_take_text(context, &manifest->scope, from->family);
    if (from->ensemble_of)
        to->ensemble_of = cst_take_text(context, &manifest->scope, from->ensemble_of);
    bool all = (!from->family || to->family) && (!from->ensemble_of || to->ensemble_of);
    return all ? CST_OK : CST_ERROR_MEMORY;
}

/* Names, costs and classes of the pool, with one split and no files. */
static cst_status make_pool(cst_context *context, const cst_pool *pool, cst_pool **out) {
    const char *const *names = (const char *const *)pool->manifest->class_names;
    cst_manifest *manifest = NULL;
    int32_t split = 0;
    cst_status status = cst_manifest_create(context, &manifest, pool->manifest->path);
    CST_THEN(cst_manifest_add_split(context, manifest, "oof", &split));
    for (int32_t k = 0; status == CST_OK && k < pool->manifest->member_count; k++)
        status = copy_member(context, &pool->manifest->members[k], manifest);
    if (status == CST_OK)
        manifest->classes = pool->classes;
    if (status == CST_OK && names)
        status = cst_pool_name_classes(context, manifest, false, names, pool->manifest->classes);
    if (status == CST_OK) {
        CST_TRY(cst_pool_create(context, out, manifest, NULL));
        (*out)->whole = pool->whole;
        return CST_OK;
    }
    cst_manifest_free(context, manifest);
    return status;
}

typedef struct gather_job {
    const cst_view *view;
    const cst_pixel_sample *sample;
    cst_pool_split *to;
} gather_job;

static cst_status gather_member(cst_context *worker, void *user, int64_t task) {
    const gather_job *job = user;
    size_t values = 0;
    float *rows;
    if (!cst_size_mul((size_t)job->sample->rows, (size_t)job->view->classes, &values))
        return CST_ERROR_MEMORY;
    CST_TAKE(worker, &job->to->own[task], rows, values);
    job->to->data[task] = rows;
    return cst_view_gather(worker, job->view, (int32_t)task, job->sample->index, job->sample->rows,
                           rows);
}

static cst_status fill_split(cst_context *context, const cst_view *view, const cst_cases *cases,
                             const cst_pixel_sample *sample, cst_pool_split *to) {
    size_t rows = (size_t)sample->rows;
    to->rows = sample->rows;
    to->described = true;
    int32_t *labels;
    int64_t *groups;
    int32_t *folds = NULL;
    CST_TAKE(context, &to->scope, labels, rows);
    CST_TAKE(context, &to->scope, groups, rows);
    if (cases->folds)
        CST_TAKE(context, &to->scope, folds, rows);
    to->beside = (cst_beside){.labels = labels, .groups = groups, .folds = folds};
    int64_t at = 0;
    for (size_t i = 0; i < rows; i++) {
        int64_t row = sample->index[i];
        while (row >= cases->first[at + 1])
            at++;
        labels[i] = view->labels[row];
        groups[i] = cases->groups ? cases->groups[at] : at;
        if (folds)
            folds[i] = cases->folds[at];
    }
    return CST_OK;
}

/* Folds never split a case. */
static cst_status check_folds(cst_context *context, const cst_cases *cases, const char *split,
                              int32_t folds) {
    if (cases->folds || cases->groups || cases->count >= folds)
        return CST_OK;
    if (cases->count < 2)
        return cst_fail(context, CST_ERROR_INPUT,
                        "split '%s' has one case, but a fit needs at least two, because a case is "
                        "never split between folds: give it more cases",
                        split);
    return cst_fail(context, CST_ERROR_INPUT,
                    "split '%s' has %" PRId64
                    " cases, but %d folds need at least as many, because a case is never split "
                    "between folds: set folds.count to at most %" PRId64,
                    split, cases->count, folds, cases->count);
}

CST_OWNED(cst_pool)

cst_status cst_pixel_sample_make(cst_context *context, cst_scope *scope, cst_pool *pool,
                                 const char *split, const cst_segment_settings *settings,
                                 cst_pixel_sample *out) {
    double start = cst_seconds();
    cst_view view = {0};
    *out = (cst_pixel_sample){0};
    CST_TRY(cst_pool_load(context, pool, split));
    CST_TRY(cst_pool_view(context, pool, split, &view));
    if (!view.labels)
        return cst_fail(
            context, CST_ERROR_INPUT,
            "split '%s' has no masks (\"labels\"); a stack is fitted on pixels of known class",
            split);
    CST_TRY(cst_cases_check_counted(context, pool, split));
    CST_TRY(check_folds(context, cst_pool_cases(pool, split), split, settings->folds));
    CST_TRY(draw_index(context, scope, view.labels, view.rows, view.classes, settings, out));
    CST_TRY(make_pool(context, pool, &out->pool));
    CST_OWN(context, scope, cst_pool, out->pool);
    CST_TRY(fill_split(context, &view, cst_pool_cases(pool, split), out, &out->pool->splits[0]));
    CST_TRY(cst_stage(context, "sample"));
    gather_job job = {&view, out, &out->pool->splits[0]};
    CST_TRY(cst_parallel_for(context, view.members, gather_member, &job));
    out->seconds = cst_seconds() - start;
    return CST_OK;
}

cst_status cst_prior_correct(cst_context *context, const double *prior, const double *share,
                             const cst_segment_settings *settings, cst_model *model) {
    if (settings->balance <= 0)
        return CST_OK;
    if (model->learners != 1 || model->learner[0].kind != CST_LEARNER_LOGLINEAR ||
        model->learner[0].biases != model->classes)
        return cst_fail(context, CST_ERROR_UNSUPPORTED,
                        "segment.balance above 0 changes the class frequencies, which only a "
                        "log-linear pool with biases can correct; set segment.balance=0, or "
                        "meta.learners=log-linear and loglinear.bias=true");
    for (int32_t c = 0; c < model->classes; c++)
        if (share[c] > 0)
            model->learner[0].bias[c] += log(prior[c] / share[c]);
    return CST_OK;
}

static const char *const WORDS[CST_MAP_ORDERS] = {"transposed (height and width exchanged)",
                                                  "upside down",
                                                  "flipped left to right",
                                                  "turned by 180 degrees",
                                                  "read column by column instead of row by row",
                                                  "those of the next case",
                                                  "those of the case before"};

/* The row of the split that pixel (z, y, x) of case `at` is in another order; -1: there is none. */
static int64_t other_pixel(const cst_cases *cases, int64_t at, int order, int64_t z, int64_t y,
                           int64_t x) {
    const int64_t *shape = cases->shape[at];
    int64_t height = shape[1];
    int64_t width = shape[2];
    int64_t plane = height * width;
    int64_t first = cases->first[at] + z * plane;
    int64_t in_plane = y * width + x;
    switch (order) {
    case 0:
        return height == width ? first + x * width + y : -1;
    case 1:
        return first + (height - 1 - y) * width + x;
    case 2:
        return first + y * width + (width - 1 - x);
    case 3:
        return first + plane - 1 - in_plane;
    case 4:
        return height == width ? -1 : first + in_plane % height * width + in_plane / height;
    default:
        break;
    }
    int64_t other = order == 5 ? at - 1 : at + 1;
    if (other < 0 || other >= cases->count || cases->shape[other][0] != shape[0] ||
        cases->shape[other][1] != height || cases->shape[other][2] != width)
        return -1;
    return cases->first[other] + z * plane + in_plane;
}

cst_status cst_map_orders_make(cst_context *context, cst_scope *scope, const char *split,
                               const cst_cases *cases, const int32_t *labels, int32_t classes,
                               const cst_pixel_sample *sample, cst_map_orders *out) {
    size_t pixels = (size_t)sample->rows;
    CST_NEW(context, scope, int32_t, turned,
            CST_MAP_ORDERS * pixels); /* [CST_MAP_ORDERS][pixels] */
    int64_t at = 0;
    for (size_t i = 0; i < pixels; i++) {
        while (sample->index[i] >= cases->first[at + 1])
            at++;
        int64_t pixel = sample->index[i] - cases->first[at];
        int64_t plane = cases->shape[at][1] * cases->shape[at][2];
        int64_t width = cases->shape[at][2];
        for (int o = 0; o < CST_MAP_ORDERS; o++) {
            int64_t row =
                other_pixel(cases, at, o, pixel / plane, pixel % plane / width, pixel % width);
            int32_t label = row < 0 ? -1 : labels[row];
            turned[(size_t)o * pixels + i] = label < classes ? label : -1;
        }
    }
    for (int o = 0; o < CST_MAP_ORDERS; o++)
        out->list[o] =
            (cst_check_order_of){.words = WORDS[o], .labels = turned + (size_t)o * pixels};
    out->hints =
        (cst_training_hints){.split = split, .orders = out->list, .order_count = CST_MAP_ORDERS};
    return CST_OK;
}

CST_OWNED(cst_findings)

/* Members with such a finding cannot be used as they are. */
static bool is_broken(const cst_finding *finding, int64_t members) {
    static const char *const kinds[] = {"order", "classes", "inverted"};
    bool found = false;
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++)
        found = found || strcmp(finding->kind, kinds[i]) == 0;
    return found && !finding->fatal && 2 * finding->count <= members;
}

static cst_status leave_out(cst_context *context, cst_scope *scope, const cst_findings *findings,
                            bool tell, cst_pool **pool) {
    int32_t members = (int32_t)cst_pool_members(*pool);
    int32_t count = 0;
    CST_SCOPE(own);
    CST_NEW(context, own, bool, broken, members);
    CST_NEW(context, own, int32_t, list, members);
    for (size_t i = 0; i < findings->count; i++)
        for (int32_t j = 0; is_broken(&findings->list[i], members) && j < findings->list[i].count;
             j++)
            broken[findings->list[i].members[j]] = true;
    for (int32_t k = 0; k < members; k++)
        if (broken[k])
            list[count++] = k;
    if (count == 0 || count == members)
        return CST_OK;
    if (tell)
        cst_findings_tell_left_out(context, *pool, list, count);
    return cst_pool_without(context, scope, *pool, broken, pool);
}

cst_status cst_map_check(cst_context *context, cst_scope *scope, cst_pool **pool, const char *split,
                         const cst_pixel_sample *sample, const cst_training *source,
                         cst_findings *findings) {
    cst_map_orders orders;
    cst_view view = {0};
    cst_findings own = {0};
    CST_SCOPE(here);
    CST_OWN(context, here, cst_findings, &own);
    CST_TRY(cst_pool_view(context, *pool, split, &view));
    CST_TRY(cst_map_orders_make(context, here, split, cst_pool_cases(*pool, split), view.labels,
                                view.classes, sample, &orders));
    CST_TRY((findings ? cst_training_check : cst_training_find)(
        context, sample->pool, "oof", source, &orders.hints, findings ? findings : &own));
    return leave_out(context, scope, findings ? findings : &own, findings != NULL, pool);
}
