/*
 * Probabilities as CSV that this library, a spreadsheet and a data frame read back: a header, the
 * sample ids where there are any, nine digits (enough for every float32). The last step of predict.
 */
#include "data/files/bytes.h"
#include "data/readers/csv.h"
#include "data/readers/npy.h"

#include <corestack/files.h>
#include <string.h>

cst_status cst_csv_put_text(cst_context *context, cst_output_file *output, const char *text) {
    return cst_output_write(context, output, text, strlen(text));
}

cst_status cst_csv_check_texts(cst_context *context, const char *call, const char *const *ids,
                               int64_t rows, const char *const *class_names, int32_t classes) {
    for (int64_t i = 0; ids && i < rows; i++)
        if (!ids[i])
            return cst_fail(context, CST_ERROR_ARGUMENT, "%s: the id of row %lld is missing", call,
                            (long long)i);
    for (int32_t c = 0; class_names && c < classes; c++)
        if (!class_names[c])
            return cst_fail(context, CST_ERROR_ARGUMENT, "%s: the name of class %d is missing",
                            call, (int)c);
    return CST_OK;
}

/* Quotes are doubled inside. */
cst_status cst_csv_put_cell(cst_context *context, cst_output_file *output, const char *mark,
                            const char *text) {
    bool bare = cst_csv_is_bare(text);
    CST_TRY(cst_csv_put_text(context, output, bare ? mark : "\""));
    if (bare)
        return cst_csv_put_text(context, output, text);
    CST_TRY(cst_csv_put_text(context, output, mark));
    for (const char *at = text; *at; at++)
        CST_TRY(cst_output_write(context, output, *at == '"' ? "\"\"" : at, *at == '"' ? 2 : 1));
    return cst_csv_put_text(context, output, "\"");
}

cst_status cst_csv_put_number(cst_context *context, cst_output_file *output, float value) {
    char number[32];
    int length = cst_snprintf(number, sizeof number, "%.9g", (double)value);
    return cst_output_write(context, output, number, (size_t)length);
}

/* Whether a first line of these names alone might pass for numbers, or an id and its numbers. */
static bool has_number(const char *const *names, int32_t classes) {
    for (int32_t c = 0; names && c < classes; c++)
        if (cst_csv_is_number(names[c]))
            return true;
    return !names;
}

cst_status cst_csv_put_name(cst_context *context, cst_output_file *output, const char *text) {
    bool marked = !cst_context_keeps_formulas(context) && cst_csv_is_formula(text);
    return cst_csv_put_cell(context, output, marked ? "'" : "", text);
}

/* How many of the texts are marked; *first: NULL, or one that was found before. */
static int64_t count_marks(const char *const *texts, int64_t count, const char **first) {
    int64_t marked = 0;
    for (int64_t i = 0; texts && i < count; i++) {
        bool formula = cst_csv_is_formula(texts[i]);
        *first = formula && !*first ? texts[i] : *first;
        marked += formula;
    }
    return marked;
}

/* Other programs take a marked text for another one. */
static void tell_of_marks(cst_context *context, const char *const *ids, int64_t rows,
                          const char *const *class_names, int32_t classes) {
    char quoted[CST_QUOTE_CHARS];
    const char *first = NULL;
    if (cst_context_keeps_formulas(context))
        return;
    int64_t marked = count_marks(ids, rows, &first);
    marked += count_marks(class_names, classes, &first);
    if (marked > 0)
        cst_notice(context,
                   "texts of the csv that a spreadsheet would compute have an apostrophe in front "
                   "(%lld, such as '%s'): corestack takes it away again, other programs do not; "
                   "--formulas keep writes them as they are",
                   (long long)marked, cst_quote(quoted, first));
}

static cst_status put_header(cst_context *context, cst_output_file *output, int32_t classes,
                             const char *const *names, bool ids) {
    /* Numbers as names need a word before them where no column "id" shows the line as a header. */
    const char *before = !ids && has_number(names, classes) ? "class_" : "";
    if (ids)
        CST_TRY(cst_csv_put_text(context, output, "id"));
    for (int32_t c = 0; c < classes; c++) {
        CST_SCOPE(scope);
        const char *name = names ? cst_take_format(context, scope, "%s%s", before, names[c])
                                 : cst_take_format(context, scope, "%s%d", before, (int)c);
        if (!name)
            return CST_ERROR_MEMORY;
        CST_TRY(cst_csv_put_text(context, output, ids || c > 0 ? "," : ""));
        CST_TRY(cst_csv_put_name(context, output, name));
    }
    return cst_csv_put_text(context, output, "\n");
}

static cst_status put_row(cst_context *context, cst_output_file *output, const float *row,
                          int32_t classes, const char *id) {
    if (id)
        CST_TRY(cst_csv_put_name(context, output, id));
    for (int32_t c = 0; c < classes; c++) {
        CST_TRY(cst_csv_put_text(context, output, id || c > 0 ? "," : ""));
        CST_TRY(cst_csv_put_number(context, output, row[c]));
    }
    return cst_csv_put_text(context, output, "\n");
}

cst_status cst_write_predictions_csv(cst_context *context, const char *path,
                                     const float *probabilities, int64_t rows,
                                     int64_t classes_given, const char *const *ids,
                                     const char *const *class_names) {
    CST_ENTER(context);
    CST_COUNT(context, classes, classes_given);
    CST_FITS(context, rows, classes, sizeof(*probabilities));
    if (!path || (!probabilities && rows > 0) || rows < 0 || classes < 1)
        return cst_fail(context, CST_ERROR_ARGUMENT,
                        "cst_write_predictions_csv: path, data and shape are required");
    CST_TRY(
        cst_csv_check_texts(context, "cst_write_predictions_csv", ids, rows, class_names, classes));
    cst_output_file *output = NULL;
    tell_of_marks(context, ids, rows, class_names, classes);
    cst_status status = cst_output_open(context, &output, path);
    CST_THEN(put_header(context, output, classes, class_names, ids != NULL));
    for (int64_t i = 0; status == CST_OK && i < rows; i++)
        status = put_row(context, output, probabilities + (size_t)i * (size_t)classes, classes,
                         ids ? ids[i] : NULL);
    return cst_why(context, cst_output_end(context, output, status));
}

static cst_status put_label(cst_context *context, cst_output_file *output, int32_t label,
                            const char *id, const char *name) {
    char number[16];
    (void)cst_snprintf(number, sizeof number, "%d", (int)label);
    if (id)
        CST_TRY(cst_csv_put_name(context, output, id));
    CST_TRY(cst_csv_put_text(context, output, id ? "," : ""));
    CST_TRY(cst_csv_put_name(context, output, name ? name : number));
    return cst_csv_put_text(context, output, "\n");
}

cst_status cst_write_labels(cst_context *context, const char *path, const int32_t *labels,
                            int64_t rows, int64_t classes_given, const char *const *ids,
                            const char *const *class_names) {
    CST_ENTER(context);
    CST_COUNT(context, classes, classes_given);
    CST_FITS(context, rows, 1, sizeof(*labels));
    if (!path || (!labels && rows > 0) || rows < 0 || classes < 1)
        return cst_fail(context, CST_ERROR_ARGUMENT,
                        "cst_write_labels: path, labels and shape are required");
    for (int64_t i = 0; i < rows; i++)
        if (labels[i] < 0 || labels[i] >= classes)
            return cst_fail(context, CST_ERROR_ARGUMENT,
                            "cst_write_labels: label %d of row %lld is not in 0..%d",
                            (int)labels[i], (long long)i, (int)classes - 1);
    CST_TRY(cst_csv_check_texts(context, "cst_write_labels", ids, rows, class_names, classes));
    if (!cst_path_ends(path, ".csv"))
        return cst_why(context, cst_npy_write_i32(context, path, labels, rows));
    cst_output_file *output = NULL;
    tell_of_marks(context, ids, rows, class_names, classes);
    cst_status status = cst_output_open(context, &output, path);
    CST_THEN(cst_csv_put_text(context, output, ids ? "id,label\n" : "label\n"));
    for (int64_t i = 0; status == CST_OK && i < rows; i++)
        status = put_label(context, output, labels[i], ids ? ids[i] : NULL,
                           class_names ? class_names[labels[i]] : NULL);
    return cst_why(context, cst_output_end(context, output, status));
}
