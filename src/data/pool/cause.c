/* Guesses from a block of rows what numbers that are not probabilities may be: ids, labels,
 * percentages, logits. For error messages. docs/method.md#s0-rows-folds-ids. */
#include "data/pool/convert.h"

#include <math.h>
#include <stdlib.h>

enum { SEEN_MAX = 512, CLASSES_LIKELY = 20, ENOUGH = 16 };

static double at(const cst_convert *c, int64_t row, int32_t column) {
    int64_t place = row * c->width + column;
    return c->block_wide ? c->block_wide[place] : (double)c->block_narrow[place];
}

static int64_t seen_rows(const cst_convert *c) {
    if (!c->block_wide && !c->block_narrow)
        return 0;
    return c->block_rows < SEEN_MAX ? c->block_rows : SEEN_MAX;
}

/* ---- what the block shows ---- */

/* What is true of all rows without gaps. */
typedef struct sights {
    int64_t rows;
    int64_t fit;      /* that are probabilities */
    bool whole;       /* integers only */
    bool negative;    /* some value is below 0 */
    bool positive;    /* some value is above 0 */
    bool hundreds;    /* rows sum to 100, and none is negative */
    bool exponential; /* exponentials of rows sum to 1 */
    bool constant;    /* rows sum to the same */
    double high;
} sights;

static sights look(const cst_convert *c) {
    sights s = {
        .whole = true, .hundreds = true, .exponential = true, .constant = true, .high = -INFINITY};
    double first = NAN;
    for (int64_t row = 0; row < seen_rows(c); row++) {
        double sum = 0;
        double low = INFINITY;
        double exponentials = 0;
        double high = -INFINITY;
        bool whole = true;
        for (int32_t j = 0; j < c->width; j++) {
            double v = at(c, row, j);
            sum += v;
            low = fmin(low, v);
            high = fmax(high, v);
            exponentials += exp(v);
            whole = whole && v == floor(v);
        }
        if (!isfinite(sum))
            continue;
        first = s.rows == 0 ? sum : first;
        s.rows++;
        s.fit += low >= -1e-6 && high <= 1 + 1e-6 && fabs(sum - 1) <= 1e-2;
        s.whole = s.whole && whole;
        s.negative = s.negative || low < 0;
        s.positive = s.positive || high > 0;
        s.hundreds = s.hundreds && low >= 0 && fabs(sum - 100) <= 0.5;
        s.exponential = s.exponential && fabs(exponentials - 1) <= 1e-2;
        s.constant = s.constant && fabs(sum - first) <= 1e-3 * fmax(1, fabs(first));
        s.high = fmax(s.high, high);
    }
    return s;
}

/* How many different values a column has, all of them integers; 0 where one is none. */
static int64_t distinct_integers(const cst_convert *c, int32_t column) {
    double values[SEEN_MAX];
    int64_t rows = seen_rows(c);
    int64_t count = 0;
    for (int64_t row = 0; row < rows; row++) {
        values[row] = at(c, row, column);
        if (!(values[row] == floor(values[row])))
            return 0;
    }
    qsort(values, (size_t)rows, sizeof *values, cst_by_f64);
    for (int64_t row = 0; row < rows; row++)
        count += row == 0 || values[row] > values[row - 1];
    return count;
}

static bool has_fractions(const cst_convert *c, int32_t column) {
    for (int64_t row = 0; row < seen_rows(c); row++) {
        double v = at(c, row, column);
        if (isfinite(v) && v != floor(v))
            return true;
    }
    return false;
}

/* Whether the other columns are probabilities that sum to 1. */
static bool others_sum_to_one(const cst_convert *c, int32_t column) {
    for (int64_t row = 0; row < seen_rows(c); row++) {
        double sum = 0;
        for (int32_t j = 0; j < c->width; j++) {
            double v = at(c, row, j);
            if (j != column && !(v >= -1e-6 && v <= 1 + 1e-6))
                return false;
            sum += j == column ? 0 : v;
        }
        if (fabs(sum - 1) > 1e-2)
            return false;
    }
    return c->width > 2;
}

/* The first or last column, where it is that of ids: integers, no two of them the same, next to
 * columns of fractions. */
static int32_t id_column(const cst_convert *c) {
    int64_t rows = seen_rows(c);
    const int32_t places[] = {0, c->width - 1};
    for (int k = 0; rows > 2 && c->width > 1 && k < 2; k++) {
        bool fractions = false;
        if (distinct_integers(c, places[k]) != rows)
            continue;
        for (int32_t j = 0; !fractions && j < c->width; j++)
            fractions = j != places[k] && has_fractions(c, j);
        if (fractions)
            return places[k];
    }
    return -1;
}

/* The column of labels or folds next to probabilities. */
static int32_t label_column(const cst_convert *c) {
    const int32_t places[] = {0, c->width - 1};
    for (int k = 0; seen_rows(c) > 2 && k < 2; k++)
        if (distinct_integers(c, places[k]) > 0 && others_sum_to_one(c, places[k]))
            return places[k];
    return -1;
}

/* "column 'x'" with what names it for an option, or "column 0" of an array. */
static void name_column(const cst_convert *c, int32_t column, char name[96], char option[96]) {
    const cst_table *table = c->rows ? c->rows->table : NULL;
    char quoted[CST_QUOTE_CHARS];
    option[0] = '\0';
    if (!table) {
        (void)cst_snprintf(name, 96, "column %d", (int)column);
        return;
    }
    int32_t place = table->values[column];
    const char *text = table->names ? cst_strings_at(table->names, place) : "";
    if (*text) {
        (void)cst_snprintf(name, 96, "column '%.60s'", cst_quote(quoted, text));
        (void)cst_snprintf(option, 96, "'%.60s'", cst_quote(quoted, text));
    } else {
        (void)cst_snprintf(name, 96, "column %d", (int)place + 1);
        (void)cst_snprintf(option, 96, "%d", (int)place + 1);
    }
}

/* ---- the likeliest cause ---- */

static const char LOGITS[] = "if these are logits, declare output \"logit\" (--values logit)";
static const char SOFTMAX[] = "if these are logits, take their softmax";

static const char WHOLE[] = "these are whole numbers, as predicted classes are: save the "
                            "probabilities of all classes (predict_proba)";

static const char *cause_of_rows(const cst_convert *c, const sights *s) {
    if (c->width > 1 && s->rows >= ENOUGH && s->fit > s->rows - s->rows / 8)
        return "the other rows are probabilities: correct this row";
    if (s->hundreds)
        return "if these are percentages, divide by 100";
    if (s->whole && s->high > 100 && s->high <= 255 && !s->negative)
        return c->width == 1
                   ? "these look like 8-bit values from 0 to 255: divide them by 255"
                   : "these look like 8-bit values from 0 to 255: divide each row by its sum";
    if (s->whole && !s->negative && c->width > 1 && !s->constant && s->high < CLASSES_LIKELY)
        return WHOLE;
    if (s->whole && !s->negative && (c->width > 1 || s->high <= CLASSES_LIKELY))
        return c->width == 1
                   ? "these look like class numbers: write the probabilities (predict_proba), not "
                     "the predicted classes"
                   : "these look like counts or votes: divide each row by its sum";
    if (s->exponential && !s->positive && c->own)
        return "these are logarithms of probabilities: take their exponentials";
    if (s->exponential && !s->positive)
        return "these are logarithms of probabilities: declare output \"logit\" (--values logit), "
               "or take their exponentials";
    if (s->negative)
        return c->own ? SOFTMAX : LOGITS;
    if (c->width == 1 && s->high > 1 && s->high <= 100)
        return "if these are percentages, divide by 100";
    if (c->width == 1)
        return c->own ? "if these are logits, take 1 / (1 + exp(-z))" : LOGITS;
    if (s->constant && s->rows > 2)
        return "every row has the same sum: divide each row by its sum";
    if (c->own)
        return SOFTMAX;
    return "if these are logits, declare output \"logit\" (--values logit); if they are scores "
           "that are only relative, divide each row by its sum";
}

bool cst_cause_of_columns(const cst_convert *c, char out[CST_CAUSE_CHARS]) {
    char name[96];
    char option[96];
    int32_t column = c->cases ? -1 : id_column(c);
    int32_t labels = c->cases || column >= 0 ? -1 : label_column(c);
    if (column >= 0 || labels >= 0)
        name_column(c, column >= 0 ? column : labels, name, option);
    if (column >= 0)
        (void)cst_snprintf(out, CST_CAUSE_CHARS,
                           "%s looks like sample ids (whole numbers, all different): %s%s", name,
                           c->own    ? "remove it"
                           : *option ? "name it with --id-column "
                                     : "remove it, and give the ids with "
                                       "--ids",
                           c->own ? "" : option);
    else if (labels >= 0)
        (void)cst_snprintf(out, CST_CAUSE_CHARS,
                           "%s looks like labels or folds next to probabilities: remove it%s", name,
                           c->own ? "" : " (--labels and --folds give these)");
    return column >= 0 || labels >= 0;
}

const char *cst_cause_of_sum(const cst_convert *c, double sum) {
    sights s = look(c);
    if (s.rows > 2 && s.whole && s.fit < s.rows)
        return WHOLE;
    if (sum == 0 && s.fit > 0)
        return c->own ? "was the row not predicted? Every row needs probabilities"
                      : "was the row not predicted? Then write NaN there, and use --missing allow";
    return NULL;
}

const char *cst_cause(const cst_convert *c, const double *row, char out[CST_CAUSE_CHARS]) {
    cst_convert one = *c;
    if (seen_rows(c) == 0) {
        one.block_wide = row;
        one.block_rows = 1;
    }
    if (cst_cause_of_columns(&one, out))
        return out;
    sights s = look(&one);
    (void)cst_snprintf(out, CST_CAUSE_CHARS, "%s", cause_of_rows(&one, &s));
    return out;
}

/* ---- what is declared as logits ---- */

cst_status cst_convert_block(cst_context *context, cst_convert *c, int64_t first, int64_t rows,
                             const double *wide, const float *narrow) {
    char cause[CST_CAUSE_CHARS];
    c->block_wide = wide;
    c->block_narrow = wide ? NULL : narrow;
    c->block_rows = rows;
    if (first > 0 || !c->logits || c->values || c->cases || id_column(c) < 0)
        return CST_OK;
    (void)cst_cause_of_columns(c, cause);
    return cst_fail(context, CST_ERROR_INPUT, "%s: %s", c->where, cause);
}
