/*
 * Samples of keys by rank, and the parts of a reference: made and freed. Under the test of a batch.
 * model/shift/novelty.h.
 */
#include "model/shift/parts.h"

#include <math.h>
#include <string.h>

/* The rank after `rank`. */
static int64_t next_rank(int64_t rank, int64_t rows, int32_t fine) {
    int64_t step = rank / fine > 1 ? rank / fine : 1;
    return rank + step < rows || rank == rows ? rank + step : rows;
}

int32_t cst_novelty_knots(int64_t rows, int32_t fine) {
    int32_t knots = 0;
    for (int64_t rank = 1; rank <= rows; rank = next_rank(rank, rows, fine))
        knots++;
    return knots;
}

cst_status cst_novelty_table_alloc(cst_context *context, int64_t rows, int32_t fine,
                                   cst_novelty_table *table) {
    *table =
        (cst_novelty_table){.rows = rows, .fine = fine, .knots = cst_novelty_knots(rows, fine)};
    table->key = cst_alloc(context, (size_t)table->knots, sizeof *table->key);
    table->rank = cst_alloc(context, (size_t)table->knots, sizeof *table->rank);
    if (!table->key || !table->rank)
        return CST_ERROR_MEMORY;
    int64_t rank = 1;
    for (int32_t j = 0; j < table->knots; j++, rank = next_rank(rank, rows, fine))
        table->rank[j] = (int32_t)rank;
    return CST_OK;
}

static int by_key(const void *a, const void *b) {
    uint32_t x = *(const uint32_t *)a;
    uint32_t y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

cst_status cst_novelty_table_make(cst_context *context, uint32_t *keys, int64_t rows, int32_t fine,
                                  cst_novelty_table *table) {
    cst_status status = cst_novelty_table_alloc(context, rows, fine, table);
    CST_THEN(cst_sort(context, keys, (size_t)rows, sizeof *keys, by_key));
    for (int32_t j = 0; status == CST_OK && j < table->knots; j++)
        table->key[j] = keys[table->rank[j] - 1];
    return status;
}

int64_t cst_novelty_count(const cst_novelty_table *table, uint32_t key) {
    const uint32_t *at = table->key; /* knots before `at` are at or below the key */
    for (int32_t left = table->knots; left > 0;) {
        int32_t half = (left + 1) / 2;
        at += at[half - 1] <= key ? half : 0;
        left -= half;
    }
    int64_t below = at - table->key;
    return below < table->knots ? table->rank[below] - 1 : table->rows;
}

/* In place, in plain loops: a model is also loaded, and predicts, where there is no room for the
 * buffers of OpenBLAS. */
static bool factorise(size_t d, double *a) {
    for (size_t i = 0; i < d; i++)
        for (size_t j = 0; j <= i; j++) {
            double sum = a[i * d + j];
            for (size_t m = 0; m < j; m++)
                sum -= a[i * d + m] * a[j * d + m];
            if (i == j && !(sum > 0))
                return false;
            a[i * d + j] = i == j ? sqrt(sum) : sum / a[j * d + j];
        }
    return true;
}

cst_status cst_novelty_invert(cst_context *context, int32_t size, double *covariance,
                              double *inverse) {
    size_t d = (size_t)size;
    double *factor = cst_alloc(context, d * d, sizeof *factor);
    if (!factor)
        return CST_ERROR_MEMORY;
    memcpy(factor, covariance, d * d * sizeof *factor);
    bool positive = factorise(d, factor);
    for (size_t j = 0; positive && j < d; j++) /* column j of the inverse, from its top */
        for (size_t i = 0; i < d; i++) {
            double sum = i == j ? 1 : 0;
            for (size_t m = j; m < i; m++)
                sum -= factor[i * d + m] * inverse[m * d + j];
            inverse[i * d + j] = i < j ? 0 : sum / factor[i * d + i];
        }
    cst_free(context, factor);
    return positive ? CST_OK
                    : cst_fail(context, CST_ERROR_NUMERIC,
                               "the covariance of the members' entropies is not positive definite");
}

cst_status cst_novelty_factor(cst_context *context, cst_novelty *novelty) {
    return cst_novelty_invert(context, novelty->size, novelty->covariance, novelty->factor);
}

static void free_table(cst_context *context, cst_novelty_table *table) {
    cst_free(context, table->key);
    cst_free(context, table->rank);
}

void cst_novelty_free(cst_context *context, cst_novelty *novelty) {
    if (!novelty)
        return;
    for (int32_t k = 0; novelty->other_names && k < novelty->others; k++)
        cst_free(context, novelty->other_names[k]);
    cst_free(context, novelty->other_names);
    cst_free(context, novelty->place);
    cst_free(context, novelty->mean);
    cst_free(context, novelty->covariance);
    cst_free(context, novelty->factor);
    free_table(context, &novelty->spread);
    free_table(context, &novelty->distance);
    for (int32_t t = 0; novelty->score && t < novelty->tables; t++)
        free_table(context, &novelty->score[t]);
    cst_free(context, novelty->score);
    cst_free(context, novelty->table_of);
    cst_free(context, novelty);
}
