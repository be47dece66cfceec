/*
 * Columns of several ranks: which of them are text, and all their numbers and texts. Each rank
 * calls these functions for its own rows, in the same order. While a local split is read. Paper:
 * none.
 */
#include "base/ranks.h"
#include "pool/own.h"

#include <string.h>

cst_status cst_own_all(cst_context *context, cst_status status, bool *yes) {
    void *all = NULL;
    size_t bytes = 0;
    unsigned char own = *yes;
    status = cst_ranks_gather(context, status, &own, 1, &all, &bytes);
    for (size_t r = 0; status == CST_OK && r < bytes; r++)
        *yes = *yes && ((const unsigned char *)all)[r];
    cst_free(context, all);
    return status;
}

cst_status cst_own_settle_kind(cst_context *context, cst_status status, cst_column *column) {
    bool numbers = status != CST_OK || column->count == 0 || column->numbers;
    status = cst_own_all(context, status, &numbers);
    if (status != CST_OK || numbers || !column->numbers)
        return status;
    status = cst_strings_create(context, &column->texts);
    for (int64_t i = 0; status == CST_OK && i < column->count; i++) {
        status = cst_strings_add_int(context, column->texts, column->numbers[i]);
        cst_trim_item(context, i);
    }
    if (status == CST_OK) {
        cst_free(context, column->numbers);
        column->numbers = NULL;
    }
    return status;
}

cst_status cst_own_numbers(cst_context *context, cst_status status, int64_t **numbers,
                           size_t *count) {
    void *all = NULL;
    size_t bytes = 0;
    status = cst_ranks_gather(context, status, *numbers,
                              status == CST_OK ? *count * sizeof **numbers : 0, &all, &bytes);
    if (status != CST_OK)
        return status;
    cst_free(context, *numbers);
    *numbers = all;
    *count = bytes / sizeof **numbers;
    return CST_OK;
}

cst_status cst_own_texts(cst_context *context, cst_status status, cst_strings **texts) {
    void *all = NULL;
    size_t bytes = 0;
    cst_strings *whole = NULL;
    status = cst_ranks_gather(context, status, *texts ? (*texts)->bytes : NULL,
                              status == CST_OK && *texts ? (*texts)->used : 0, &all, &bytes);
    CST_TRY(cst_strings_create(context, &whole));
    for (const char *at = all; status == CST_OK && at < (const char *)all + bytes;) {
        size_t length = strlen(at);
        status = cst_strings_add(context, whole, at, length);
        at += length + 1;
    }
    cst_free(context, all);
    if (status != CST_OK) {
        cst_strings_free(context, whole);
        return status;
    }
    cst_strings_free(context, *texts);
    *texts = whole;
    return CST_OK;
}

/* The different texts in the order of their first appearance; numbers: of each text. */
static cst_status different(cst_context *context, const cst_strings *texts, const int64_t *numbers,
                            cst_strings **out) {
    cst_status status = cst_strings_create(context, out);
    for (int64_t i = 0; status == CST_OK && i < texts->count; i++) {
        const char *text = cst_strings_at(texts, i);
        if (numbers[i] == (*out)->count)
            status = cst_strings_add(context, *out, text, strlen(text));
        cst_trim_item(context, i);
    }
    return status;
}

/* How many texts ranks before this one have. */
static cst_status texts_before(cst_context *context, cst_status status, int64_t own,
                               int64_t *before) {
    void *all = NULL;
    size_t bytes = 0;
    *before = 0;
    status = cst_ranks_gather(context, status, &own, sizeof own, &all, &bytes);
    for (int r = 0; status == CST_OK && r < cst_context_rank(context); r++)
        *before += ((const int64_t *)all)[r];
    cst_free(context, all);
    return status;
}

cst_status cst_own_number(cst_context *context, cst_status status, const cst_strings *texts,
                          int64_t *numbers) {
    cst_strings *names = NULL;
    int64_t before = 0;
    CST_TRY(different(context, texts, numbers, &names));
    status = texts_before(context, status, names ? names->count : 0, &before);
    status = cst_own_texts(context, status, &names);
    int64_t *whole =
        status == CST_OK ? cst_alloc(context, (size_t)names->count, sizeof *whole) : NULL;
    if (status == CST_OK)
        status = whole ? cst_strings_number(context, names, whole) : CST_ERROR_MEMORY;
    for (int64_t i = 0; status == CST_OK && i < texts->count; i++) {
        numbers[i] = whole[before + numbers[i]];
        cst_trim_item(context, i);
    }
    cst_free(context, whole);
    cst_strings_free(context, names);
    return status;
}
