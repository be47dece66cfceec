/*
 * Fuzz target: delimited text as a matrix, as a column and as ids. src/data/readers/csv.h,
 * src/data/readers/row_file.h.
 */
#include "common/fuzz.h"
#include "data/readers/row_file.h"

#include <corestack/files.h>
#include <math.h>

static void read_matrix(cst_context *context, const char *path) {
    cst_row_file *rows = NULL;
    cst_strings *ids = NULL;
    const cst_row_source source = cst_one_file(path, 0);
    CST_SCOPE(scope);
    cst_status status = cst_row_file_open(context, scope, &rows, &source, NULL);
    if (status == CST_OK)
        status = cst_row_file_scan(context, scope, rows, NULL, &ids);
    if (fuzz_good(context, status, false)) {
        FUZZ_CHECK(!ids || ids->count == rows->row_count, "as many ids as rows");
        int64_t count = rows->row_count < 3 ? rows->row_count : 3;
        double *values = cst_alloc(context, (size_t)(count * rows->width), sizeof *values);
        FUZZ_CHECK(values != NULL, "room for three rows");
        for (int64_t first = 0; status == CST_OK && first < rows->row_count; first += count) {
            int64_t left = rows->row_count - first;
            status = cst_row_file_read(context, rows, left < count ? left : count, values);
        }
        (void)fuzz_good(context, status, false);
        cst_free(context, values);
    }
}

/* What the command line reads beside pools. */
static void read_files(cst_context *context, const char *path) {
    int32_t *labels = NULL;
    int64_t *groups = NULL;
    double *targets = NULL;
    int64_t rows = 0;
    int32_t outputs = 0;
    if (fuzz_good(context, cst_read_labels(context, path, &labels, &rows), false))
        for (int64_t i = 0; i < rows; i++)
            FUZZ_CHECK(labels[i] >= 0, "labels are class numbers");
    if (fuzz_good(context, cst_read_targets(context, path, &targets, &rows, &outputs), false))
        for (int64_t i = 0; i < rows * outputs; i++)
            FUZZ_CHECK(isfinite(targets[i]), "targets are finite");
    (void)fuzz_good(context, cst_read_groups(context, path, &groups, &rows), false);
    cst_free(context, labels);
    cst_free(context, targets);
    cst_free(context, groups);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static const char *const wanted[] = {"label", "fold", NULL};
    const char *path = fuzz_file(size > 0 && data[size - 1] % 2 ? "a.csv" : "a.tsv", data, size);
    cst_context *context = fuzz_begin(size, 128);
    cst_column column = {0};
    const cst_table_ask ask = {.use = CST_TABLE_COLUMN, .wanted = wanted};
    const cst_row_source source = cst_one_file(path, 0);
    cst_strings *ids = NULL;
    cst_scope scope = {0};
    read_matrix(context, path);
    if (fuzz_good(context, cst_column_read(context, &scope, &column, &source, &ask, NULL), false))
        FUZZ_CHECK((column.numbers == NULL) != (column.texts == NULL), "numbers or texts");
    (void)fuzz_good(context, cst_ids_read(context, &scope, &ids, &source, NULL, NULL), false);
    cst_scope_free(&scope);
    read_files(context, path);
    fuzz_end(context);
    fuzz_clear();
    return 0;
}
