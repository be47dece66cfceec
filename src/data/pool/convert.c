/*
 * Rows of probabilities or logits to float32 probabilities in float64 arithmetic, with the checks
 * that catch one declared as the other. While a member is loaded. docs/method.md#s0-rows-folds-ids.
 */
#include "data/pool/convert.h"
#include "core/wide.h"
#include "data/pool/spatial.h"

#include <inttypes.h>
#include <math.h>

/* A value may leave [0, 1] by this much and is clipped: float32 softmax does. */
static const double RANGE_TOLERANCE = 1e-6;
static const double SUM_TOLERANCE = 1e-3;
/* Beyond this a logit is a probability of 1 in float64. */
static const double SATURATED_LOGIT = 37;

/* Rows whose sums are taken together. */
enum { ROWS_TOGETHER = 4 };

/* What a row is made of, in one pass. */
typedef struct row_facts {
    double sum;  /* of the values, those just below 0 as 0 */
    bool inside; /* every value in [0, 1] within tolerance; false if one is NaN */
} row_facts;

/* Four partial sums let the compiler use vectors; their order is fixed. */
static row_facts look(const double *values, int32_t width) {
    double sums[4] = {0, 0, 0, 0};
    int outside = 0;
    int32_t j = 0;
    for (; j + 4 <= width; j += 4)
        for (int32_t k = 0; k < 4; k++) {
            double v = values[j + k];
            outside |= !(v >= -RANGE_TOLERANCE && v <= 1 + RANGE_TOLERANCE);
            sums[k] += v > 0 ? v : 0;
        }
    for (; j < width; j++) {
        double v = values[j];
        outside |= !(v >= -RANGE_TOLERANCE && v <= 1 + RANGE_TOLERANCE);
        sums[j & 3] += v > 0 ? v : 0;
    }
    return (row_facts){.sum = (sums[0] + sums[1]) + (sums[2] + sums[3]), .inside = !outside};
}

/* Where row `first` + i is, and with `column` >= 0 which of its values. */
static const char *where_is(const cst_convert *c, int64_t first, int64_t i, int64_t column,
                            char place[CST_WHERE_CHARS]) {
    for (int32_t j = 0; c->column_class && column >= 0 && j < c->width; j++)
        if (c->column_class[j] == column) {
            column = j;
            break;
        }
    return c->cases ? cst_pixel_where(c->cases, first + i, column, place)
                    : cst_row_file_where(c->rows, first, i, column, place);
}

/* The file that row `first` + i is in. */
static const char *file_of(const cst_convert *c, int64_t first, int64_t i) {
    return cst_row_file_part(c->rows, c->where, first + i);
}

/* First value that is NaN or infinite, or -1. */
static int32_t find_not_finite(const double *values, int32_t width) {
    for (int32_t j = 0; j < width; j++)
        if (!isfinite(values[j]))
            return j;
    return -1;
}

/* First logit that no softmax takes, or -1: -infinity is a probability of 0 beside a finite one. */
static int32_t find_no_logit(const double *values, int32_t width) {
    int32_t finite = 0;
    for (int32_t j = 0; j < width; j++) {
        finite += isfinite(values[j]) != 0;
        if (isnan(values[j]) || values[j] == INFINITY)
            return j;
    }
    return finite > 0 ? -1 : 0;
}

/* Whether the member did not predict this row, where that is allowed; says what stands for it. */
static bool is_absent(cst_convert *c, const double *values, float *out) {
    for (int32_t j = 0; j < c->width; j++)
        if (!c->missing || !isnan(values[j]))
            return false;
    for (int32_t j = 0; j < c->classes; j++)
        out[j] = c->values ? 0 : (float)(1.0 / (double)c->classes);
    c->normaliser = NAN;
    c->absent = true;
    return true;
}

/* What to do about a row of nothing but NaN, or about infinite logits. */
static const char *absent_hint(const cst_convert *c, const double *values, double v) {
    if (isinf(v) && !c->values && c->width == 1)
        return c->logits ? "; clip probabilities to [1e-7, 1 - 1e-7] before taking logits" : "";
    if (v == -INFINITY && !c->values)
        return c->logits ? "; a row of logits needs a finite one"
               : c->own  ? "; if these are logarithms of probabilities, take their exponentials"
                         : "; if these are logarithms of probabilities, declare output \"logit\" "
                           "(--values logit)";
    for (int32_t j = 0; j < c->width; j++)
        if (!isnan(values[j]))
            return "";
    return c->cases || c->missing || c->own
               ? ""
               : "; if the member did not predict this row, use --missing allow";
}

static cst_status not_finite(cst_context *context, const cst_convert *c, int64_t first, int64_t i,
                             const double *values, int32_t column) {
    char place[CST_WHERE_CHARS];
    double v = values[column];
    return cst_fail(context, CST_ERROR_INPUT, "%s: %s is %s; predictions must be finite numbers%s",
                    file_of(c, first, i), where_is(c, first, i, column, place),
                    isnan(v) ? "NaN"
                    : v > 0  ? "infinity"
                             : "-infinity",
                    c->missing && isnan(v)
                        ? "; a row that the member did not predict must be NaN in every column"
                        : absent_hint(c, values, v));
}

/* Why a row is not one of probabilities. */
static cst_status not_probabilities(cst_context *context, const cst_convert *c, int64_t first,
                                    int64_t i, const double *values) {
    char place[CST_WHERE_CHARS];
    int32_t column = find_not_finite(values, c->width);
    if (column >= 0)
        return not_finite(context, c, first, i, values, column);
    double sum = 0;
    for (int32_t j = c->width - 1; j >= 0; j--) {
        sum += values[j];
        if (values[j] < -RANGE_TOLERANCE || values[j] > 1 + RANGE_TOLERANCE)
            column = j;
    }
    char cause[CST_CAUSE_CHARS];
    if (c->width == 1)
        return cst_fail(context, CST_ERROR_INPUT,
                        "%s: %s is %.6g, not a probability of class 1 in [0, 1]; %s",
                        file_of(c, first, i), where_is(c, first, i, column, place),
                        values[column < 0 ? 0 : column], cst_cause(c, values, cause));
    const char *row = where_is(c, first, i, -1, place);
    if (column >= 0)
        return cst_fail(context, CST_ERROR_INPUT,
                        "%s: %s sums to %.6g and has %.6g in %s %d, outside [0, 1]; %s",
                        file_of(c, first, i), row, sum, values[column],
                        c->cases ? "class" : "column", column, cst_cause(c, values, cause));
    if (cst_cause_of_columns(c, cause))
        return cst_fail(context, CST_ERROR_INPUT, "%s: %s sums to %.6g, not to 1; %s",
                        file_of(c, first, i), row, sum, cause);
    const char *more = cst_cause_of_sum(c, sum);
    if (more)
        return cst_fail(context, CST_ERROR_INPUT, "%s: %s sums to %.6g, not to 1; %s",
                        file_of(c, first, i), row, sum, more);
    return cst_fail(
        context, CST_ERROR_INPUT,
        "%s: %s sums to %.6g, which differs from 1 by more than %g; are these independent scores, "
        "or is a class missing? If the scores are meant to be relative, divide each row by its sum",
        file_of(c, first, i), row, sum, SUM_TOLERANCE + c->rounding);
}

/* Overwrites the values with their exponentials; returns the logarithm of the exponentials' sum. */
static double softmax(double *values, int32_t width, float *out) {
    double top = values[0];
    for (int32_t j = 1; j < width; j++)
        top = values[j] > top ? values[j] : top;
    double sum = 0;
    for (int32_t j = 0; j < width; j++)
        values[j] -= top;
    cst_exp_f64(width, values, values);
    for (int32_t j = 0; j < width; j++)
        sum += values[j];
    double share = 1 / sum;
    for (int32_t j = 0; j < width; j++)
        out[j] = (float)(values[j] * share);
    return top + log(sum);
}

/* ---- float32 in the file ---- */

/* Bits of x, or those of 0 where its sign is set: an integer operation, so that the loop stays one
 * of wide registers (a comparison of floats might trap, and keeps a branch). */
CST_WIDE_INLINE float not_below_zero(float x) {
    uint32_t bits = cst_bits_f32(x);
    return cst_f32_of(bits & ~(0 - (bits >> 31)));
}

/* As `look` for ROWS_TOGETHER rows: the same sums in the same order, for what is inside. A sum
 * waits for its last addition, so several rows take as long as one. A number is outside when its
 * magnitude exceeds the largest float within the tolerance of its sign's limit; NaN exceeds both.
 */
CST_WIDE_INLINE void look_rows(const float *restrict values, int32_t width, int rows,
                               row_facts *found) {
    const uint32_t low = cst_bits_f32(0x1.0c6f7ap-20F); /* the last float up to 1e-6 */
    const uint32_t high = cst_bits_f32(0x1.000010p+0F); /* the last float up to 1 + 1e-6 */
    double sums[ROWS_TOGETHER][4] = {{0}};
    uint32_t outside[ROWS_TOGETHER] = {0};
    for (int r = 0; r < rows; r++) {
        const float *row = values + (ptrdiff_t)r * width;
        uint32_t beyond[8] = {0};
        int32_t j = 0;
        for (; j + 8 <= width; j += 8)
            for (int32_t k = 0; k < 8; k++) {
                uint32_t bits = cst_bits_f32(row[j + k]);
                uint32_t negative = 0 - (bits >> 31);
                uint32_t most = (low & negative) | (high & ~negative);
                beyond[k] |= most - (bits & 0x7fffffffU);
            }
        for (; j < width; j++) {
            uint32_t bits = cst_bits_f32(row[j]);
            beyond[0] |= (bits >> 31 ? low : high) - (bits & 0x7fffffffU);
        }
        for (int32_t k = 0; k < 8; k++)
            outside[r] |= beyond[k];
    }
    int32_t j = 0;
    for (; j + 4 <= width; j += 4)
        for (int r = 0; r < rows; r++)
            for (int32_t k = 0; k < 4; k++)
                sums[r][k] += (double)not_below_zero(values[(ptrdiff_t)r * width + j + k]);
    for (; j < width; j++)
        for (int r = 0; r < rows; r++)
            sums[r][j & 3] += (double)not_below_zero(values[(ptrdiff_t)r * width + j]);
    for (int r = 0; r < rows; r++)
        found[r] = (row_facts){.sum = (sums[r][0] + sums[r][1]) + (sums[r][2] + sums[r][3]),
                               .inside = outside[r] >> 31 == 0};
}

CST_WIDE_BODY look_f32_body(const float *restrict values, int32_t width, row_facts *found) {
    look_rows(values, width, 1, found);
}
CST_WIDE(look_f32, (const float *restrict values, int32_t width, row_facts *found),
         (values, width, found))

CST_WIDE_BODY look_together_body(const float *restrict values, int32_t width, row_facts *found) {
    look_rows(values, width, ROWS_TOGETHER, found);
}
CST_WIDE(look_together, (const float *restrict values, int32_t width, row_facts *found),
         (values, width, found))

CST_WIDE_BODY share_f32_body(const float *restrict values, int32_t width, double share,
                             float *restrict out) {
    for (int32_t j = 0; j < width; j++)
        out[j] = (float)((double)not_below_zero(values[j]) * share);
}
CST_WIDE(share_f32,
         (const float *restrict values, int32_t width, double share, float *restrict out),
         (values, width, share, out))

/* Values of a regression, which must be finite also as float32, or independent probabilities. */
static cst_status convert_values(cst_context *context, cst_convert *c, int64_t first, int64_t i,
                                 const double *values, float *out) {
    c->total++;
    for (int32_t j = 0; j < c->width; j++) {
        out[j] = (float)values[j];
        if (!isfinite(values[j]))
            return not_finite(context, c, first, i, values, j);
        if (c->independent && c->logits) {
            out[j] = (float)(1 / (1 + exp(-values[j])));
        } else if (c->independent) {
            char place[CST_WHERE_CHARS];
            if (values[j] < -RANGE_TOLERANCE || values[j] > 1 + RANGE_TOLERANCE)
                return cst_fail(context, CST_ERROR_INPUT,
                                "%s: %s is %.6g, not a probability in [0, 1]; if these are logits, "
                                "declare output \"logit\" (--values logit)",
                                file_of(c, first, i), where_is(c, first, i, j, place), values[j]);
            out[j] = (float)fmin(fmax(values[j], 0), 1);
        }
        if (!isfinite(out[j])) {
            char place[CST_WHERE_CHARS];
            return cst_fail(context, CST_ERROR_INPUT,
                            "%s: %s is %g, too large for float32; use another unit",
                            file_of(c, first, i), where_is(c, first, i, j, place), values[j]);
        }
    }
    return CST_OK;
}

cst_status cst_convert_row_f32(cst_context *context, cst_convert *c, int64_t first, int64_t i,
                               const float *values, double *wide, float *out) {
    row_facts facts = {0};
    c->absent = false;
    if (!c->values && !c->logits && c->width > 1) {
        look_f32(values, c->width, &facts);
        if (facts.inside && fabs(facts.sum - 1) <= SUM_TOLERANCE + c->rounding) {
            share_f32(values, c->width, 1 / facts.sum, out);
            c->total++;
            return CST_OK;
        }
    }
    for (int32_t j = 0; j < c->width; j++)
        wide[j] = (double)values[j];
    return cst_convert_row(context, c, first, i, wide, out);
}

cst_status cst_convert_rows_f32(cst_context *context, cst_convert *c, int64_t first, int64_t count,
                                const float *values, double *wide, float *out) {
    bool together = !c->values && !c->logits && c->width > 1;
    double most = SUM_TOLERANCE + c->rounding;
    for (int64_t i = 0; i < count;) {
        row_facts facts[ROWS_TOGETHER] = {{0}};
        int rows = together && count - i >= ROWS_TOGETHER ? ROWS_TOGETHER : 1;
        if (rows == ROWS_TOGETHER)
            look_together(values + i * c->width, c->width, facts);
        for (int r = 0; r < rows; r++, i++) {
            const float *row = values + i * c->width;
            float *to = out + i * c->classes;
            if (rows == 1 || !facts[r].inside || !(fabs(facts[r].sum - 1) <= most)) {
                CST_TRY(cst_convert_row_f32(context, c, first, i, row, wide, to));
                continue;
            }
            share_f32(row, c->width, 1 / facts[r].sum, to);
            c->absent = false;
            c->total++;
        }
    }
    return CST_OK;
}

/* Whether a row is not negative and sums to 100. */
static bool is_percentage(const double *values, int32_t width) {
    double sum = 0;
    for (int32_t j = 0; j < width; j++) {
        if (!(values[j] >= 0 && values[j] <= 100.5))
            return false;
        sum += values[j];
    }
    return fabs(sum - 100) <= 0.5;
}

cst_status cst_convert_row(cst_context *context, cst_convert *c, int64_t first, int64_t i,
                           double *values, float *out) {
    c->absent = false;
    if (c->listed_of > 0)
        return cst_topk_convert(context, c, first, i, values, out);
    if (c->missing && isnan(values[0]) && is_absent(c, values, out))
        return CST_OK;
    if (c->values)
        return convert_values(context, c, first, i, values, out);
    row_facts facts = look(values, c->width);
    bool binary = c->width == 1;
    bool fits = facts.inside && (binary || fabs(facts.sum - 1) <= SUM_TOLERANCE + c->rounding);
    c->total++;
    if (!c->logits) {
        if (!fits)
            return not_probabilities(context, c, first, i, values);
        if (binary) {
            double p = fmin(fmax(values[0], 0), 1);
            out[0] = (float)(1 - p);
            out[1] = (float)p;
            return CST_OK;
        }
        double share = 1 / facts.sum;
        for (int32_t j = 0; j < c->width; j++)
            out[j] = (float)((values[j] > 0 ? values[j] : 0) * share);
        return CST_OK;
    }
    c->like_probabilities += fits;
    c->high = c->total == 1 ? values[0] : fmax(c->high, values[0]);
    c->like_percentages +=
        binary ? values[0] >= 0 && values[0] <= 100 : is_percentage(values, c->width);
    if (!facts.inside) { /* only then can one of them not be finite */
        int32_t column = find_no_logit(values, c->width);
        if (column >= 0)
            return not_finite(context, c, first, i, values, column);
    }
    if (binary) {
        out[0] = (float)(1 / (1 + exp(values[0])));
        out[1] = (float)(1 / (1 + exp(-values[0])));
        c->normaliser = fmax(values[0], 0) + log1p(exp(-fabs(values[0])));
    } else
        c->normaliser = softmax(values, c->width, out);
    return CST_OK;
}

bool cst_convert_saturated(const cst_convert *c) {
    return c->width > 1 || c->high > SATURATED_LOGIT;
}

cst_status cst_convert_finish(cst_context *context, const cst_convert *c) {
    bool saturated = cst_convert_saturated(c);
    if (c->logits && c->total > 0 && c->like_percentages == c->total && saturated)
        return cst_fail(context, CST_ERROR_INPUT,
                        "%s: declared as logits, but every row (0 to %" PRId64
                        ") is %s; if these are percentages, divide by 100 and declare output "
                        "\"probability\"",
                        c->where, c->total - 1,
                        c->width > 1 ? "not negative and sums to 100" : "from 0 to 100");
    if (c->logits && c->total > 0 && c->like_probabilities == c->total)
        return cst_fail(context, CST_ERROR_INPUT,
                        "%s: declared as logits, but every row (0 to %" PRId64
                        ") is in [0, 1] and sums to 1; if these are probabilities, declare output "
                        "\"probability\"",
                        c->where, c->total - 1);
    return CST_OK;
}
