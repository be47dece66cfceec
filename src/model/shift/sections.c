/* Sections of a model file on the rows of the fit, for the guard, label shift and the monitor.
 * docs/model-format.md. */
#include "model/codec.h"

#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <string.h>

static const double MOMENT_MAX = 1e6; /* of logarithms from log(1e-3) to log(log C) */
static const double DEVIATION_MIN = 1e-9;
static const double NATS_MAX = 1e6; /* of entropies, which are at most log C */

/* ---- levels of rows ---- */

static void code_others(cst_codec *c, const cst_model *model, cst_novelty *novelty) {
    CST_CODE_INT(c, novelty->others, "the number of other members", 0, INT32_MAX);
    if (CST_CODE_ROOM(c, novelty->other_names, (size_t)novelty->others, 5, "other members"))
        cst_code_others(c, model, novelty->other_names, novelty->others);
}

/* Members of the distance, and their moments. */
static void code_moments(cst_codec *c, cst_novelty *novelty) {
    int32_t most =
        novelty->members < CST_NOVELTY_MEMBERS_MAX ? novelty->members : CST_NOVELTY_MEMBERS_MAX;
    CST_CODE_INT(c, novelty->size, "the number of members of the distance", most, most);
    size_t size = (size_t)novelty->size;
    if (!CST_CODE_ROOM(c, novelty->place, size, 12, "members"))
        return;
    for (size_t j = 0; j < size; j++)
        CST_CODE_INT(c, novelty->place[j], "a member of the distance",
                     j > 0 ? novelty->place[j - 1] + 1 : 0, novelty->members - 1);
    cst_code_new_f64s(c, &novelty->mean, size, "a mean of logarithms", MOMENT_MAX);
    if (!c->to) {
        novelty->covariance = cst_codec_alloc(c, size * size, sizeof *novelty->covariance);
        novelty->factor = cst_codec_alloc(c, size * size, sizeof *novelty->factor);
    }
    size_t at = c->at;
    cst_code_symmetric(c, novelty->covariance, size, "a covariance", MOMENT_MAX);
    if (!cst_codec_reads(c))
        return;
    cst_status status = cst_novelty_factor(c->context, novelty);
    if (status == CST_ERROR_NUMERIC)
        cst_refuse(c, at, "the covariance of logarithms is not positive definite");
    else
        c->status = status;
}

static void code_table(cst_codec *c, const cst_novelty *novelty, cst_novelty_table *table) {
    int64_t rows =
        cst_code_int(c, (int32_t)table->rows, "the rows of a table", 1, (int32_t)novelty->rows);
    int32_t fine =
        cst_code_int(c, table->fine, "how finely ranks are kept", 1, CST_NOVELTY_ROWS_MAX);
    if (cst_codec_reads(c))
        cst_codec_expect(c, (size_t)cst_novelty_knots(rows, fine), 1, "knots of a table");
    if (cst_codec_reads(c))
        c->status = cst_novelty_table_alloc(c->context, c->scope, rows, fine, table);
    for (int32_t j = 0; c->status == CST_OK && j < table->knots; j++) {
        uint32_t before = j > 0 ? table->key[j - 1] : 0;
        CST_CODE_FIELD(c, table->key[j],
                       before + cst_code_count(c, table->key[j] - before, "the distance of a key",
                                               UINT32_MAX - before));
    }
}

void cst_code_novelty(cst_codec *c, cst_model *model) {
    if (!c->to) {
        model->reference.novelty = cst_codec_alloc(c, 1, sizeof *model->reference.novelty);
        if (!model->reference.novelty)
            return;
        *model->reference.novelty =
            (cst_novelty){.classes = model->classes, .members = model->members};
    }
    cst_novelty *novelty = model->reference.novelty;
    CST_CODE_INT(c, novelty->rows, "the number of reference rows", 1, CST_NOVELTY_ROWS_MAX);
    code_others(c, model, novelty);
    code_moments(c, novelty);
    code_table(c, novelty, &novelty->spread);
    code_table(c, novelty, &novelty->distance);
    size_t tables =
        (size_t)cst_code_int(c, novelty->tables, "the number of tables", 1, CST_NOVELTY_ROWS_MAX);
    if (CST_CODE_ROOM(c, novelty->score, tables, 9, "tables"))
        CST_CODE_FIELD(c, novelty->tables, tables);
    for (int32_t t = 0; c->status == CST_OK && t < novelty->tables; t++)
        code_table(c, novelty, &novelty->score[t]);
    size_t classes = (size_t)model->classes;
    if (CST_CODE_ROOM(c, novelty->table_of, classes, 1, "classes"))
        for (size_t k = 0; k < classes; k++)
            CST_CODE_COUNT(c, novelty->table_of[k], "the table of a class", novelty->tables - 1);
}

/* ---- cases of a segmentation ---- */

void cst_code_cases(cst_codec *c, cst_model *model) {
    if (!model->reference.novelty)
        cst_refuse(c, c->at, "section NOVI is without section NOVE");
    if (!c->to)
        model->reference.cases = cst_codec_alloc(c, 1, sizeof *model->reference.cases);
    cst_novelty_cases *cases = model->reference.cases;
    if (!cases)
        return;
    CST_CODE_INT(c, cases->cases, "the number of cases", CST_CASES_MIN, INT32_MAX);
    for (int p = 0; c->status == CST_OK && p < CST_CASE_PARTS; p++) {
        cst_case_part *part = &cases->part[p];
        CST_CODE_FIELD(c, part->size, cst_case_part_size(model->reference.novelty, p));
        size_t size = (size_t)part->size;
        cst_code_f64(c, &part->center, "a mean distance", -MOMENT_MAX, MOMENT_MAX);
        cst_code_f64(c, &part->spread, "a deviation of distances", DEVIATION_MIN, MOMENT_MAX);
        cst_code_f64(c, &part->limit, "a limit of distances", -MOMENT_MAX, MOMENT_MAX);
        cst_code_new_f64s(c, &part->mean, size, "a mean of cases", MOMENT_MAX);
        size_t at = c->at;
        cst_code_new_f64s(c, &part->scale, size, "a scale of cases", MOMENT_MAX);
        for (size_t j = 0; cst_codec_reads(c) && j < size; j++)
            if (part->scale[j] < DEVIATION_MIN)
                cst_refuse(c, at + 8 * j, "a scale of cases is not positive");
    }
}

/* ---- predictions by the true class ---- */

static void code_edges(cst_codec *c, cst_confusion *confusion) {
    size_t at = c->at;
    cst_code_f32s(c, confusion->edge, CST_CONFUSION_BINS - 1, "an edge of confidences", 1);
    for (int b = 0; b < CST_CONFUSION_BINS - 1; b++)
        if (confusion->edge[b] < (b > 0 ? confusion->edge[b - 1] : 0))
            cst_refuse(c, at, "the edges of confidences are not in ascending order");
}

/* The rows of each class by confidence; their number in all is bounded. */
static void code_bins(cst_codec *c, cst_confusion *confusion) {
    size_t at = c->at;
    int64_t rows = 0;
    for (size_t i = 0; i < (size_t)confusion->classes * CST_CONFUSION_BINS; i++) {
        CST_CODE_COUNT(c, confusion->bin[i], "a number of rows", INT32_MAX);
        rows += confusion->bin[i];
    }
    if (rows < 1 || rows > INT32_MAX)
        cst_refuse(c, at, "the classes have %" PRId64 " rows", rows);
}

/* Shares of the classes, unless they are those of the counted rows. */
static void code_shares(cst_codec *c, cst_confusion *confusion) {
    size_t at = c->at;
    double sum = 0;
    int64_t rows = cst_confusion_all_rows(confusion);
    bool own = false;
    for (int32_t k = 0; c->status == CST_OK && k < confusion->classes; k++) {
        float counted = cst_confusion_counted_share(confusion, k, rows);
        own = own || confusion->share[k] != counted;
        CST_CODE_FIELD(c, confusion->share[k], counted);
    }
    if (cst_code_count(c, own, "whether shares follow", 1) == 0)
        return;
    cst_code_f32s(c, confusion->share, (size_t)confusion->classes, "the share of a class", 1);
    for (int32_t k = 0; k < confusion->classes; k++) {
        sum += (double)confusion->share[k];
        if (confusion->share[k] < 0)
            cst_refuse(c, at, "the share of class %d is below 0", k);
    }
    if (!(sum > 0.999 && sum < 1.001))
        cst_refuse(c, at, "the shares of the classes sum to %g instead of 1", sum);
}

static void code_entries(cst_codec *c, cst_confusion *confusion, int32_t entries) {
    int32_t used = 0;
    for (int32_t k = 0; c->status == CST_OK && k < confusion->classes; k++) {
        size_t at = c->at;
        int32_t before = -1;
        int64_t left = cst_confusion_rows(confusion, k);
        int32_t count =
            (int32_t)cst_code_count(c, (uint32_t)(confusion->first[k + 1] - confusion->first[k]),
                                    "the number of predicted classes", (uint32_t)(entries - used));
        for (int32_t e = 0; c->status == CST_OK && e < count; e++, used++) {
            if (before + 1 >= confusion->classes) {
                cst_refuse(c, c->at, "a predicted class is beyond the last one");
                break;
            }
            before +=
                1 + (int32_t)cst_code_count(c, (uint32_t)(confusion->predicted[used] - before - 1),
                                            "the distance of a predicted class",
                                            (uint32_t)(confusion->classes - before - 2));
            CST_CODE_FIELD(c, confusion->predicted[used], before);
            CST_CODE_COUNT(c, confusion->count[used], "a number of rows", INT32_MAX);
            left -= confusion->count[used];
            if (confusion->count[used] < 1 || left < 0)
                cst_refuse(c, at, "predictions of class %d are not those of its rows", k);
        }
        if (left > 0 && count == confusion->classes)
            cst_refuse(c, at, "rows of class %d have no prediction", k);
        CST_CODE_FIELD(c, confusion->first[k + 1], used);
    }
    if (used != entries)
        cst_refuse(c, c->at, "%d predicted classes are declared, but there are %d", entries, used);
}

void cst_code_confusion(cst_codec *c, cst_model *model) {
    size_t classes = (size_t)model->classes;
    if (model->classes > CST_CONFUSION_SHARES_MAX)
        cst_refuse(c, c->at, "section CONF is in a model of more than %d classes",
                   (int)CST_CONFUSION_SHARES_MAX);
    cst_codec_expect(c, classes, CST_CONFUSION_BINS, "classes");
    if (cst_codec_reads(c))
        c->status = cst_confusion_alloc(c->context, c->scope, model->classes, 0,
                                        &model->reference.confusion);
    if (c->status != CST_OK)
        return;
    cst_confusion *confusion = model->reference.confusion;
    code_edges(c, confusion);
    code_bins(c, confusion);
    code_shares(c, confusion);
    uint32_t entries = cst_code_count(c, (uint32_t)confusion->first[classes],
                                      "the number of predicted classes", INT32_MAX);
    if (CST_CODE_ROOM(c, confusion->predicted, entries, 2, "predicted classes") &&
        CST_CODE_ROOM(c, confusion->count, entries, 2, "predicted classes"))
        code_entries(c, confusion, (int32_t)entries);
}

/* ---- stack and average ---- */

/* How often each class is predicted: `rows` times in all. */
static void code_counts(cst_codec *c, const cst_mixing *mixing, int32_t *count) {
    size_t at = c->at;
    int64_t left = mixing->rows;
    for (int32_t k = 0; k < mixing->classes; k++) {
        CST_CODE_COUNT(c, count[k], "the rows of a predicted class", left);
        left -= count[k];
    }
    if (left > 0)
        cst_refuse(c, at, "%" PRId64 " of %" PRId64 " rows have no predicted class", left,
                   mixing->rows);
}

static double code_unit(cst_codec *c, double value, const char *what) {
    return (double)cst_code_count(c, (uint32_t)lround(value * CST_MIXING_UNITS), what,
                                  CST_MIXING_UNITS) /
           CST_MIXING_UNITS;
}

void cst_code_mixing(cst_codec *c, cst_model *model) {
    size_t classes = (size_t)model->classes;
    cst_codec_expect(c, classes, CST_MIXING_SIDES + 2, "classes");
    if (cst_codec_reads(c))
        c->status =
            cst_mixing_alloc(c->context, c->scope, model->classes, &model->reference.mixing);
    if (c->status != CST_OK)
        return;
    cst_mixing *mixing = model->reference.mixing;
    CST_CODE_INT(c, mixing->rows, "the number of rows", 1, INT32_MAX);
    cst_code_f64s(c, mixing->accuracy, CST_MIXING_SIDES, "an accuracy", 0, 1);
    cst_code_f64(c, &mixing->sharpest, "the largest temperature", 1, 4);
    for (int side = 0; side < CST_MIXING_SIDES; side++)
        code_counts(c, mixing, mixing->count[side]);
    for (size_t k = 0; k < classes; k++)
        CST_CODE_FIELD(c, mixing->mean[k],
                       code_unit(c, (double)mixing->mean[k], "a mean confidence"));
    for (size_t k = 0; k < classes; k++) {
        double deviation =
            code_unit(c, sqrt((double)mixing->variance[k]), "a deviation of confidences");
        CST_CODE_FIELD(c, mixing->variance[k], deviation * deviation);
    }
}

/* ---- the monitor ---- */

static void code_cut(cst_codec *c, cst_gauge_cut *cut) {
    cst_code_f64(c, &cut->threshold, "a threshold of the confidence", 0, 2);
    cst_code_f64(c, &cut->share, "a share of rows at a threshold", 0, 1);
}

/* [count] classes, ascending. */
static void code_ascending(cst_codec *c, int32_t count, int32_t classes, int32_t *out) {
    for (int32_t i = 0; i < count; i++)
        CST_CODE_INT(c, out[i], "a class", i > 0 ? out[i - 1] + 1 : 0, classes - 1);
}

static void code_rows(cst_codec *c, int64_t *rows, const char *what, int64_t most) {
    CST_CODE_INT(c, *rows, what, 0, (int32_t)most);
}

static void code_thresholds(cst_codec *c, cst_gauge *gauge) {
    size_t at = c->at;
    size_t count = (size_t)gauge->tables * CST_GAUGE_STATISTICS * CST_GAUGE_EDGES;
    cst_code_f32s(c, gauge->edge, count, "a threshold", (double)FLT_MAX);
    for (size_t e = 1; cst_codec_reads(c) && e < count; e++)
        if (e % CST_GAUGE_EDGES && gauge->edge[e] > gauge->edge[e - 1])
            cst_refuse(c, at + 4 * e, "thresholds of a statistic are not in descending order");
}

static void code_gauged(cst_codec *c, cst_gauge *gauge, int32_t k) {
    cst_code_f64(c, &gauge->entropy[k], "a mean entropy", 0, NATS_MAX);
    cst_code_f64(c, &gauge->deviation[k], "a deviation of the entropy", 0, NATS_MAX);
    if (k < gauge->members) {
        code_rows(c, &gauge->predicted[k], "the rows that a member predicted", gauge->rows);
        code_rows(c, &gauge->apart[k], "the rows that a member predicts otherwise",
                  gauge->predicted[k]);
    }
    for (int32_t g = 0; g < gauge->groups; g++)
        code_rows(c, &gauge->share[(size_t)k * (size_t)gauge->groups + (size_t)g],
                  "the rows of a predicted class", gauge->rows);
}

void cst_code_gauge(cst_codec *c, cst_model *model) {
    const cst_gauge *known = model->reference.gauge;
    cst_gauge sizes = {.classes = model->classes, .members = model->members};
    if (known)
        sizes = *known;
    CST_CODE_INT(c, sizes.rows, "the fit rows", 1, CST_GAUGE_ROWS_MAX);
    CST_CODE_INT(c, sizes.whole, "the rows that every member predicted", 1, (int32_t)sizes.rows);
    CST_CODE_INT(c, sizes.tables, "the number of tables", 1, CST_GAUGE_TABLES_MAX);
    CST_CODE_INT(c, sizes.groups, "the number of groups", 1, CST_GAUGE_GROUPS_MAX);
    cst_codec_expect(c, (size_t)sizes.tables, 124, "tables");
    cst_codec_expect(c, (size_t)model->members + 1, 16 + 4 * (size_t)sizes.groups, "groups");
    if (cst_codec_reads(c))
        c->status = cst_gauge_alloc(c->context, c->scope, &sizes, &model->reference.gauge);
    cst_gauge *gauge = model->reference.gauge;
    if (c->status != CST_OK || !gauge)
        return;
    CST_CODE_FIELD(c, gauge->rows, sizes.rows);
    CST_CODE_FIELD(c, gauge->whole, sizes.whole);
    cst_code_f64(c, &gauge->accuracy, "the accuracy of the fit", 0, 1);
    cst_code_f64(c, &gauge->confidence, "the confidence of the fit", 0, 1.001);
    cst_code_f64(c, &gauge->ece, "the ECE of the fit", 0, 1);
    code_cut(c, &gauge->stack);
    code_cut(c, &gauge->average);
    code_ascending(c, gauge->tables - 1, gauge->classes, gauge->table_class);
    for (int32_t t = 0; t < gauge->tables; t++)
        code_rows(c, &gauge->table_rows[t], "the rows of a table", gauge->rows);
    code_thresholds(c, gauge);
    code_ascending(c, gauge->groups - 1, gauge->classes, gauge->group_class);
    for (int32_t k = 0; k <= gauge->members; k++)
        code_gauged(c, gauge, k);
}
