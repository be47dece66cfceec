/*
 * The assignment of columns to classes with the largest sum, by shortest augmenting paths (Kuhn
 * 1955; Munkres 1957; in the form of Jonker and Volgenant 1987).
 */
#include "data/checks/parts.h"

#include <math.h>

/* One more row is assigned. Arrays are counted from 1, with 0 for what is free. */
static void add_row(const double *value, int32_t n, int32_t row, double *u, double *v,
                    double *least, int32_t *row_of, int32_t *way, bool *used) {
    int32_t column = 0;
    row_of[0] = row;
    for (int32_t j = 0; j <= n; j++) {
        least[j] = INFINITY;
        used[j] = false;
    }
    do {
        used[column] = true;
        int32_t i = row_of[column];
        int32_t next = 0;
        double step = INFINITY;
        for (int32_t j = 1; j <= n; j++) {
            if (used[j])
                continue;
            double cost = -value[(size_t)(i - 1) * (size_t)n + (size_t)(j - 1)] - u[i] - v[j];
            if (cost < least[j]) {
                least[j] = cost;
                way[j] = column;
            }
            if (least[j] < step) {
                step = least[j];
                next = j;
            }
        }
        for (int32_t j = 0; j <= n; j++) {
            if (used[j]) {
                u[row_of[j]] += step;
                v[j] -= step;
            } else {
                least[j] -= step;
            }
        }
        column = next;
    } while (row_of[column] != 0);
    while (column != 0) {
        int32_t before = way[column];
        row_of[column] = row_of[before];
        column = before;
    }
}

cst_status cst_assignment(cst_context *context, const double *value, int32_t count, int32_t *to) {
    size_t n = (size_t)count + 1;
    double *numbers = cst_alloc(context, 3 * n, sizeof *numbers);
    int32_t *places = cst_alloc(context, 2 * n, sizeof *places);
    bool *used = cst_alloc(context, n, sizeof *used);
    cst_status status = numbers && places && used ? CST_OK : CST_ERROR_MEMORY;
    for (int32_t i = 1; status == CST_OK && i <= count; i++)
        add_row(value, count, i, numbers, numbers + n, numbers + 2 * n, places, places + n, used);
    for (int32_t j = 1; status == CST_OK && j <= count; j++)
        to[places[j] - 1] = j - 1;
    cst_free(context, numbers);
    cst_free(context, places);
    cst_free(context, used);
    return status;
}
