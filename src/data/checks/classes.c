/* Facts of each member from one pass over its rows; then leaks, columns and scale. */
#include "data/checks/leaks.h"
#include "data/checks/scale.h"

#include <float.h>
#include <math.h>
#include <string.h>

typedef struct reading {
    const cst_check_sample *sample;
    cst_member_facts *facts;
    cst_class_facts *of;
    int32_t *top; /* [members][rows] */
} reading;

typedef struct sums {
    double gain, gain2; /* probability of the label over what it would be by chance */
    double order[CST_CHECK_ORDERS], order2[CST_CHECK_ORDERS];
    int64_t counted[CST_CHECK_ORDERS];
    double *sum; /* [classes], and of squares */
    double *squares;
    float *least;
} sums;

static void add_columns(const float *p, int32_t classes, cst_class_facts *of, cst_member_facts *m,
                        sums *s) {
    for (int32_t c = 0; c < classes; c++) {
        double v = (double)p[c];
        s->sum[c] += v;
        s->squares[c] += v * v;
        of->most[c] = p[c] > of->most[c] ? p[c] : of->most[c];
        s->least[c] = p[c] < s->least[c] ? p[c] : s->least[c];
        of->hash[c] = cst_check_mix(of->hash[c], p[c]);
        m->hash = cst_check_mix(m->hash, p[c]);
    }
}

/* The label of row i of the sample in another order; -1: there is none. */
static int32_t other_label(const cst_check_sample *sample, int32_t o, int64_t i) {
    if (sample->order_label[o])
        return sample->order_label[o][sample->position[i]];
    int64_t row = sample->order[o][i];
    return row < 0 ? -1 : cst_view_label(sample->view, row);
}

static void add_row(const cst_check_sample *sample, int64_t i, const float *p, int32_t *top,
                    cst_class_facts *of, sums *s) {
    const cst_view *view = sample->view;
    int32_t label = cst_view_label(view, sample->position[i]);
    double chance = 0;
    float low = p[0];
    int32_t best = 0;
    for (int32_t c = 0; c < view->classes; c++) {
        chance += sample->label_mean[c] * (double)p[c];
        best = p[c] > p[best] ? c : best;
        low = p[c] < low ? p[c] : low;
    }
    double gain = (double)p[label] - chance;
    double nll = -log(fmax((double)p[label], 1e-15));
    s->gain += gain;
    s->gain2 += gain * gain;
    for (int32_t o = 0; o < sample->orders; o++) {
        int32_t other = other_label(sample, o, i);
        if (other < 0)
            continue;
        double then = (double)p[other] - chance;
        s->order[o] += then;
        s->order2[o] += then * then;
        s->counted[o]++;
    }
    *top = best;
    of->nll += nll;
    of->nll2 += nll * nll;
    of->right += best == label;
    of->confidence += (double)p[best];
    of->hard = of->hard && p[best] >= 1 && (view->classes < 2 || low <= 0);
    of->label_least = i == 0 ? (double)p[label] : fmin(of->label_least, (double)p[label]);
    of->label_most = fmax(of->label_most, (double)p[label]);
    of->zeros += p[label] < 1e-15F;
    of->sure += p[label] >= 1 - 1e-6F;
    double range = low > 0 ? log((double)p[best] / (double)low) : INFINITY;
    of->range = fmax(of->range, range);
}

/* How many standard errors a mean is from 0: by its own spread, or by that of a correlation of 0,
 * whichever says more. */
static double standard_errors(double sum, double squares, double n, double r) {
    double variance = squares / n - sum / n * (sum / n);
    double own = variance > 0 ? sum / n / sqrt(variance / n) : 0;
    double other = r * sqrt(n);
    return fabs(other) > fabs(own) ? other : own;
}

static void finish(const cst_check_sample *sample, cst_class_facts *of, cst_member_facts *m,
                   const sums *s) {
    double n = (double)sample->rows;
    double variance = 0;
    bool varies = false;
    cst_association *a = &m->association;
    for (int32_t c = 0; c < sample->view->classes; c++) {
        m->mean[c] = s->sum[c] / n;
        m->scale[c] = 1;
        variance += fmax(s->squares[c] / n - m->mean[c] * m->mean[c], 0);
        of->varies[c] = of->most[c] > s->least[c];
        varies = varies || of->varies[c];
    }
    a->constant = !varies;
    double scale = sqrt(variance) * sample->label_spread;
    if (!varies || !(scale > 0))
        return;
    a->spread = sqrt(variance) / sample->label_spread;
    a->r = s->gain / n / scale;
    a->z = standard_errors(s->gain, s->gain2, n, a->r);
    for (int32_t o = 0; o < sample->orders; o++) {
        double counted = (double)s->counted[o];
        if (2 * counted < n)
            continue;
        a->order_r[o] = s->order[o] / counted / scale;
        a->order_z[o] = standard_errors(s->order[o], s->order2[o], counted, a->order_r[o]);
    }
}

static cst_status read_member(cst_context *worker, void *user, int64_t k) {
    const reading *r = user;
    const cst_check_sample *sample = r->sample;
    size_t classes = (size_t)sample->view->classes;
    cst_class_facts *of = &r->of[k];
    cst_member_facts *m = &r->facts[k];
    float *rows = cst_alloc(worker, CST_BLOCK_ROWS * classes, sizeof *rows);
    sums s = {.sum = cst_alloc(worker, 2 * classes, sizeof *s.sum),
              .least = cst_alloc(worker, classes, sizeof *s.least)};
    double *pairs =
        classes == 2 ? cst_alloc(worker, 2 * (size_t)sample->rows, sizeof *pairs) : NULL;
    cst_status status =
        rows && s.sum && s.least && (pairs || classes != 2) ? CST_OK : CST_ERROR_MEMORY;
    m->filled.far_row = -1;
    of->hard = true;
    if (status == CST_OK) {
        s.squares = s.sum + classes;
        for (size_t c = 0; c < classes; c++)
            s.least[c] = FLT_MAX;
    }
    for (int64_t at = 0; status == CST_OK && at < sample->rows; at += CST_BLOCK_ROWS) {
        int64_t count = cst_block_size(sample->rows, at / CST_BLOCK_ROWS);
        status = cst_check_read(worker, sample, (int32_t)k, at, count, rows);
        for (int64_t i = 0; status == CST_OK && i < count; i++) {
            const float *p = rows + (size_t)i * classes;
            if (pairs) {
                int32_t label = cst_view_label(sample->view, sample->position[at + i]);
                pairs[at + i] = (double)p[1];
                pairs[sample->rows + at + i] = label;
            }
            add_columns(p, sample->view->classes, of, m, &s);
            add_row(sample, at + i, p, r->top + (size_t)k * (size_t)sample->rows + at + i, of, &s);
        }
    }
    if (status == CST_OK)
        finish(sample, of, m, &s);
    if (status == CST_OK && pairs)
        status =
            cst_check_filled(worker, pairs, pairs + sample->rows, sample->rows, false, &m->filled);
    cst_free(worker, pairs);
    cst_free(worker, rows);
    cst_free(worker, s.sum);
    cst_free(worker, s.least);
    return status;
}

/* ---- columns ---- */

/* Columns that are 0 in every row although the class has rows. */
static cst_status empty_columns(cst_context *context, const cst_check_sample *sample,
                                const cst_class_facts *of, int32_t *list, cst_findings *findings) {
    enum { FEWEST = 5 };
    const cst_pool *pool = sample->source->pool;
    for (int32_t c = 0; c < sample->view->classes; c++) {
        double rows = sample->label_mean[c] * (double)sample->rows;
        int32_t count = 0;
        for (int32_t k = 0; k < sample->view->members; k++)
            if (!(of[k].most[c] > 0))
                list[count++] = k;
        if (count == 0 || rows < FEWEST - 0.5)
            continue;
        char who[256];
        char class[64];
        cst_status status = cst_findings_add(
            context, findings, "columns", false, list, count,
            "%s %s %s probability 0 in every row, although %.0f rows have that class: was it "
            "missing in training?",
            cst_check_names(sample->source, list, count, who, sizeof who),
            count == 1 ? "gives" : "give", cst_class_of(pool, c, class, sizeof class), rows);
        if (status != CST_OK)
            return status;
    }
    return CST_OK;
}

static cst_status equal_columns(cst_context *context, const cst_check_sample *sample,
                                const cst_member_facts *facts, const cst_class_facts *of,
                                cst_findings *findings) {
    int32_t classes = sample->view->classes;
    for (int32_t k = 0; k < sample->view->members; k++) {
        int32_t first = -1;
        int32_t second = -1;
        for (int32_t c = 1; c < classes && !facts[k].association.constant && first < 0; c++)
            for (int32_t b = 0; b < c && first < 0; b++)
                if (of[k].varies[c] && of[k].hash[b] == of[k].hash[c]) {
                    first = b;
                    second = c;
                }
        if (first < 0 || classes < 3)
            continue;
        cst_status status =
            cst_findings_add(context, findings, "columns", false, &k, 1,
                             "columns %d and %d of '%.60s' are the same numbers in every row",
                             (int)first, (int)second, cst_check_name(sample->source, k));
        if (status != CST_OK)
            return status;
    }
    return CST_OK;
}

/* ---- all ---- */

static cst_status together(cst_context *context, const cst_check_sample *sample,
                           cst_member_facts *facts, int32_t *list) {
    int32_t count = 0;
    cst_together *found = cst_alloc(context, (size_t)sample->view->members, sizeof *found);
    if (!found)
        return CST_ERROR_MEMORY;
    for (int32_t k = 0; k < sample->view->members; k++)
        if (!facts[k].association.constant && !facts[k].association.copy)
            list[count++] = k;
    cst_status status = cst_check_together(context, sample, facts, list, count, false, found);
    for (int32_t i = 0; status == CST_OK && i < count; i++)
        facts[list[i]].association.agreement = found[i].agreement;
    cst_free(context, found);
    return status;
}

/* Members that say 0 or 1 and nothing in between. */
static cst_status hard_classes(cst_context *context, const reading *r, int32_t *list,
                               cst_findings *findings) {
    char who[256];
    int32_t count = 0;
    for (int32_t k = 0; k < r->sample->view->members; k++)
        if (r->of[k].hard && !r->facts[k].association.constant &&
            !r->facts[k].association.explained)
            list[count++] = k;
    if (2 * count <= r->sample->view->members) /* a tree among others */
        return CST_OK;
    return cst_findings_add(
        context, findings, "scale", false, list, count,
        "%s %s only probabilities 0 and 1, as predicted classes are: save the probabilities "
        "(predict_proba) where the model has any",
        cst_check_names(r->sample->source, list, count, who, sizeof who),
        count == 1 ? "gives" : "give");
}

static cst_status judge(cst_context *context, const reading *r, int32_t *list,
                        cst_findings *findings) {
    const cst_check_sample *sample = r->sample;
    cst_status status = cst_check_copies(context, sample, r->facts, findings);
    if (sample->rows >= CST_CHECK_FEWEST && sample->label_spread > 0) {
        CST_THEN(together(context, sample, r->facts, list));
        CST_THEN(cst_check_tell_filled(context, sample, r->facts, findings));
        CST_THEN(cst_check_permutations(context, sample, r->top, r->facts, findings));
        CST_THEN(cst_check_order(context, sample, r->facts, findings));
        CST_THEN(cst_check_leaks(context, sample, r->facts, r->of, findings));
        CST_THEN(hard_classes(context, r, list, findings));
        CST_THEN(cst_check_scale(context, sample, r->facts, r->of, findings));
    }
    CST_THEN(empty_columns(context, sample, r->of, list, findings));
    CST_THEN(equal_columns(context, sample, r->facts, r->of, findings));
    return status;
}

/* Where the columns of member k are kept. */
static void place_facts(const reading *r, size_t k, size_t classes, double *means, size_t cells,
                        uint64_t *hashes, float *most, bool *varies) {
    r->facts[k].mean = means + k * classes;
    r->facts[k].scale = means + cells + k * classes;
    r->of[k].hash = hashes + k * classes;
    r->of[k].most = most + k * classes;
    r->of[k].varies = varies + k * classes;
}

cst_status cst_check_classes(cst_context *context, const cst_check_sample *sample,
                             cst_findings *findings) {
    size_t members = (size_t)sample->view->members;
    size_t classes = (size_t)sample->view->classes;
    size_t cells = members * classes;
    reading r = {.sample = sample};
    r.facts = cst_alloc(context, members, sizeof *r.facts);
    r.of = cst_alloc(context, members, sizeof *r.of);
    r.top = cst_alloc(context, members * (size_t)sample->rows, sizeof *r.top);
    double *means = cst_alloc(context, 2 * cells, sizeof *means);
    uint64_t *hashes = cst_alloc(context, cells, sizeof *hashes);
    float *most = cst_alloc(context, cells, sizeof *most);
    bool *varies = cst_alloc(context, cells, sizeof *varies);
    int32_t *list = cst_alloc(context, members, sizeof *list);
    cst_status status = r.facts && r.of && r.top && means && hashes && most && varies && list
                            ? CST_OK
                            : CST_ERROR_MEMORY;
    const int64_t tasks = (int64_t)members;
    const cst_share filled[] = {
        cst_share_tasks(r.facts, tasks, sizeof *r.facts),
        cst_share_tasks(r.of, tasks, sizeof *r.of),
        cst_share_tasks(r.top, tasks, (size_t)sample->rows * sizeof *r.top),
        cst_share_tasks(means, tasks, classes * sizeof *means),
        cst_share_tasks(means ? means + cells : NULL, tasks, classes * sizeof *means),
        cst_share_tasks(hashes, tasks, classes * sizeof *hashes),
        cst_share_tasks(most, tasks, classes * sizeof *most),
        cst_share_tasks(varies, tasks, classes * sizeof *varies)};
    for (size_t k = 0; status == CST_OK && k < members; k++)
        place_facts(&r, k, classes, means, cells, hashes, most, varies);
    CST_THEN(cst_parallel_fill(context, tasks, read_member, &r, filled, 8));
    for (size_t k = 0; status == CST_OK && k < members; k++) /* another rank's have its own */
        place_facts(&r, k, classes, means, cells, hashes, most, varies);
    CST_THEN(judge(context, &r, list, findings));
    cst_free(context, r.facts);
    cst_free(context, r.of);
    cst_free(context, r.top);
    cst_free(context, means);
    cst_free(context, hashes);
    cst_free(context, most);
    cst_free(context, varies);
    cst_free(context, list);
    return status;
}
