/* Rows in time: keys of their order, dates among ids, and blocks of neighbouring rows, of which
 * each is predicted from those before it. Stage S0. docs/method.md#folds-in-time. */
#include "data/pool/state.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

/* ---- dates ---- */

static int digits(const char *text, int count) {
    int value = 0;
    for (int i = 0; i < count; i++) {
        if (text[i] < '0' || text[i] > '9')
            return -1;
        value = 10 * value + text[i] - '0';
    }
    return value;
}

/* Length of the date that a text begins with, 2021-03-14 or 20210314; 0: none. */
static size_t date_length(const char *text) {
    int year = digits(text, 4);
    bool dashes = year > 0 && text[4] == '-';
    int month = year > 0 ? digits(text + 4 + dashes, 2) : -1;
    if (month < 1 || month > 12 || (dashes && text[7] != '-'))
        return 0;
    int day = digits(text + (dashes ? 8 : 6), 2);
    return year < 1900 || year > 2100 || day < 1 || day > 31 ? 0 : dashes ? 10 : 8;
}

bool cst_is_date(const char *text) {
    size_t length = date_length(text);
    return length > 0 && (text[length] < '0' || text[length] > '9');
}

bool cst_pool_ids_are_dates(const cst_pool *pool, const char *split, int64_t rows) {
    int64_t dates = 0;
    for (int64_t i = 0; i < rows; i++) {
        const char *id = cst_pool_id(pool, split, i);
        if (!id)
            return false;
        dates += cst_is_date(id);
    }
    return dates > 0 && (double)dates >= 0.95 * (double)rows;
}

/* ---- the order ---- */

const char *const cst_order_names[] = {"order", "time", "date", "timestamp", "datetime", NULL};

typedef struct dated {
    const char *text;
    double number;
    int64_t row;
} dated;

static int by_time(const void *a, const void *b) {
    const dated *x = a;
    const dated *y = b;
    if (x->number < y->number || x->number > y->number)
        return x->number < y->number ? -1 : 1;
    return strcmp(x->text, y->text);
}

/* Numbers, or texts that begin with a date, as keys [count] in their order. */
static cst_status order_texts(cst_context *context, const cst_column *column, const char *path,
                              int64_t *keys) {
    char quoted[CST_QUOTE_CHARS];
    bool dates = column->count > 0 && cst_is_date(cst_strings_at(column->texts, 0));
    int64_t key = 0;
    CST_SCOPE(scope);
    CST_NEW(context, scope, dated, sorted, column->count);
    for (int64_t i = 0; i < column->count; i++) {
        const char *text = cst_strings_at(column->texts, i);
        int64_t row = i;
        cst_trim_item(context, i);
        if (dates ? !cst_is_date(text) : !cst_csv_is_number(text) || isnan(cst_strtod(text, NULL)))
            return cst_fail(
                context, CST_ERROR_INPUT,
                "%s: row %" PRId64 " is '%s'; the order of the rows must be numbers, or dates like "
                "2021-03-14 or 2021-03-14T10:00",
                cst_row_parts_find(&column->parts, path, &row), row, cst_quote(quoted, text));
        sorted[i] = (dated){
            .text = dates ? text : "", .number = dates ? 0 : cst_strtod(text, NULL), .row = i};
    }
    CST_TRY(cst_sort(context, sorted, (size_t)column->count, sizeof *sorted, by_time));
    for (int64_t i = 0; i < column->count; i++) {
        key += i > 0 && by_time(&sorted[i - 1], &sorted[i]) != 0;
        keys[sorted[i].row] = key;
    }
    return CST_OK;
}

cst_status cst_order_keys(cst_context *context, const cst_column *column, const char *path,
                          int64_t *keys) {
    if (!column->numbers)
        return order_texts(context, column, path, keys);
    memcpy(keys, column->numbers, (size_t)column->count * sizeof *keys);
    return CST_OK;
}

/* ---- blocks ---- */

typedef struct timed {
    int64_t key;
    int64_t row;
} timed;

CST_BY(by_key, timed, CST_UP(key), CST_UP(row), 0)

cst_status cst_time_blocks(cst_context *context, const int64_t *keys, int64_t rows, int32_t most,
                           int32_t *blocks, int64_t *time, int32_t *count) {
    int64_t times = 0;
    int32_t block = 0;
    CST_SCOPE(scope);
    CST_NEW(context, scope, timed, sorted, rows);
    for (int64_t i = 0; i < rows; i++) {
        cst_trim_item(context, i);
        sorted[i] = (timed){keys ? keys[i] : i, i};
    }
    CST_TRY(cst_sort(context, sorted, (size_t)rows, sizeof *sorted, by_key));
    for (int64_t i = 0; i < rows; i++)
        times += i == 0 || sorted[i].key != sorted[i - 1].key;
    *count = times < most ? (int32_t)times : most;
    for (int64_t first = 0, end = 0; first < rows; first = end, times--) {
        for (end = first + 1; end < rows && sorted[end].key == sorted[first].key;)
            end++;
        bool full = first * *count >= rows * (block + 1);
        if (first > 0 && block < *count - 1 && (full || times < *count - block))
            block++;
        for (int64_t i = first; i < end; i++) {
            cst_trim_item(context, i);
            blocks[sorted[i].row] = block;
            if (time)
                time[sorted[i].row] = end;
        }
    }
    return CST_OK;
}

static cst_status make_time(cst_context *context, const int64_t *order, int64_t rows, int32_t folds,
                            int32_t *out) {
    int32_t made = 0;
    if (folds < 2)
        return cst_fail(context, CST_ERROR_ARGUMENT, "%d folds requested: at least 2 are needed",
                        folds);
    if (rows > 0 && folds < INT32_MAX)
        CST_TRY(cst_time_blocks(context, order, rows, folds + 1, out, NULL, &made));
    return made - 1 == folds
               ? CST_OK
               : cst_fail(context, CST_ERROR_INPUT,
                          "%d different times cannot be divided into a first block and %d folds: "
                          "use fewer folds",
                          (int)made, (int)folds);
}

cst_status cst_folds_time(cst_context *context, const int64_t *order, int64_t rows, int32_t folds,
                          int32_t *out) {
    CST_ENTER(context);
    CST_FITS(context, rows, 1, sizeof(*order));
    CST_NEED(context, out, "folds are required");
    return cst_why(context, make_time(context, order, rows, folds, out));
}
