/* Means, standard errors and paired differences over repetitions. docs/json.md#compare. */
#include "report/report.h"

#include "report/scores.h"

#include <math.h>
#include <string.h>

/* One value in every document. */
typedef struct several {
    cst_report *report;
    const json_t *root; /* of the first document */
    int32_t count;
    const json_t *items[CST_MEANS_MAX];
} several;

/* Mean and standard error; NaN where a value is missing. */
typedef struct average {
    double mean, error;
    bool equal;
} average;

static average average_of(const double *values, int32_t count) {
    average a = {.equal = true};
    double square = 0;
    for (int32_t i = 0; i < count; i++) { /* Welford: equal values have themselves as their mean */
        double before = values[i] - a.mean;
        a.mean += before / (i + 1);
        square += before * (values[i] - a.mean);
        a.equal = a.equal && values[i] >= values[0] && values[i] <= values[0];
    }
    a.error = sqrt(square / (count - 1) / count);
    return a;
}

/* The value at a key of each document, or without a key at a place of a list. */
static void at(const several *from, const char *key, size_t place, several *to) {
    to->report = from->report;
    to->root = from->root;
    to->count = from->count;
    for (int32_t i = 0; i < from->count; i++)
        to->items[i] =
            key ? json_object_get(from->items[i], key) : json_array_get(from->items[i], place);
}

static bool is_one_of(const char *text, const char *const *list) {
    for (; *list; list++)
        if (strcmp(text, *list) == 0)
            return true;
    return false;
}

static bool all_numbers(const several *s, bool *whole) {
    *whole = true;
    for (int32_t i = 0; i < s->count; i++) {
        if (!json_is_number(s->items[i]))
            return false;
        *whole = *whole && json_is_integer(s->items[i]);
    }
    return true;
}

static bool all_equal(const several *s) {
    for (int32_t i = 1; i < s->count; i++)
        if (!s->items[i] || !json_equal(s->items[0], s->items[i]))
            return false;
    return s->items[0] != NULL;
}

static bool all_alike(const several *s) {
    for (int32_t i = 0; i < s->count; i++)
        if (!s->items[i] || json_typeof(s->items[i]) != json_typeof(s->items[0]) ||
            json_array_size(s->items[i]) != json_array_size(s->items[0]))
            return false;
    return json_is_object(s->items[0]) || json_is_array(s->items[0]);
}

/* Keys whose numbers say which entry it is, or what it cost. */
static bool has_error(const char *key) {
    static const char *const without[] = {"severity", "level", "seconds", "seconds_scored", NULL};
    return !is_one_of(key, without);
}

static average number_of(const several *s, const char *key, bool *whole) {
    double values[CST_MEANS_MAX] = {0};
    const cst_score_spec *score = cst_score_find(s->root, key);
    int32_t none = 0;
    if (!all_numbers(s, whole))
        return (average){NAN, NAN, false};
    for (int32_t i = 0; i < s->count; i++) {
        values[i] = json_number_value(s->items[i]);
        none += score && score->negative_is_none && values[i] < 0;
    }
    average a = average_of(values, s->count);
    if (none > 0) { /* there is nothing to score in some of them */
        a.mean = none == s->count ? a.mean : NAN;
        a.error = NAN;
    }
    return a;
}

static void put_keys(const several *s, json_t *to);

static void put_list(const several *s, json_t *to, const char *key) {
    json_t *list = cst_report_list(s->report, to, key);
    for (size_t i = 0; i < json_array_size(s->items[0]); i++) {
        several one;
        bool whole = false;
        at(s, NULL, i, &one);
        if (all_alike(&one) && json_is_object(one.items[0]))
            put_keys(&one, cst_report_add_object(s->report, list));
        else if (all_equal(&one))
            s->report->failed |= json_array_append_new(list, cst_json_share(one.items[0])) != 0;
        else
            cst_report_add_number(s->report, list, number_of(&one, key, &whole).mean);
    }
}

/* The mean under its key, and the error beside it. */
static void put_number(const several *s, json_t *to, const char *key) {
    char beside[64];
    bool whole = false;
    average a = number_of(s, key, &whole);
    if (whole && a.equal)
        cst_report_value(s->report, to, key, cst_json_share(s->items[0]));
    else
        cst_report_number(s->report, to, key, a.mean);
    (void)cst_snprintf(beside, sizeof beside, "%.48s_se", key);
    if (!whole && has_error(key))
        cst_report_number(s->report, to, beside, a.error);
}

static void put_key(const several *s, json_t *to, const char *key) {
    bool whole = false;
    size_t length = strlen(key);
    if (length >= 3 && strcmp(key + length - 3, "_ci") == 0)
        return;
    if (all_numbers(s, &whole))
        put_number(s, to, key);
    else if (all_alike(s) && json_is_array(s->items[0]))
        put_list(s, to, key);
    else if (all_alike(s))
        put_keys(s, cst_report_object(s->report, to, key));
    else
        cst_report_value(s->report, to, key,
                         all_equal(s) ? cst_json_share(s->items[0]) : json_null());
}

static void put_keys(const several *s, json_t *to) {
    const char *key = NULL;
    json_t *value = NULL;
    json_object_foreach((json_t *)(uintptr_t)s->items[0], key, value) {
        several one;
        at(s, key, 0, &one);
        put_key(&one, to, key);
    }
}

static const json_t *find_row(const json_t *document, const char *name) {
    const json_t *rows = json_object_get(document, "rows");
    for (size_t i = 0; i < json_array_size(rows); i++)
        if (cst_json_is(json_array_get(rows, i), "method", name))
            return json_array_get(rows, i);
    return NULL;
}

/* The row of a method in every document; false where one has none. */
static bool rows_of(const several *documents, const char *name, several *rows) {
    at(documents, "rows", 0, rows);
    for (int32_t i = 0; i < documents->count; i++) {
        rows->items[i] = find_row(documents->items[i], name);
        if (!rows->items[i])
            return false;
    }
    return true;
}

/* Of each score that both have in every document. */
static void put_differences(const several *rows, const several *reference, json_t *row) {
    json_t *to = cst_report_object(rows->report, row, "difference");
    for (int group = 0; group < CST_SCORE_GROUPS; group++) {
        int32_t count = 0;
        const cst_score_spec *scores = cst_scores_of(rows->root, (cst_score_group)group, &count);
        for (int32_t s = 0; s < count; s++) {
            double values[CST_MEANS_MAX];
            char beside[64];
            bool there = true;
            for (int32_t i = 0; i < rows->count; i++) {
                values[i] = cst_score_value(rows->items[i], &scores[s]) -
                            cst_score_value(reference->items[i], &scores[s]);
                there = there && !isnan(values[i]);
            }
            if (!there)
                continue;
            average a = average_of(values, rows->count);
            (void)cst_snprintf(beside, sizeof beside, "%.48s_se", scores[s].key);
            CST_PUT(rows->report, to, CST_N(scores[s].key, a.mean), CST_N(beside, a.error));
        }
    }
}

static void note_equal(const several *rows, bool *equal) {
    int32_t count = 0;
    const cst_score_spec *scores = cst_scores_of(rows->root, CST_SCORES_OF_TASK, &count);
    for (int32_t s = 0; s < count; s++) {
        several one;
        at(rows, scores[s].key, 0, &one);
        *equal = *equal && all_equal(&one);
    }
}

static void put_row(const several *rows, const several *reference, json_t *to) {
    const char *key = NULL;
    json_t *value = NULL;
    const char *second = reference ? "mix" : NULL; /* the key that follows the scores */
    json_object_foreach((json_t *)(uintptr_t)rows->items[0], key, value) {
        several one;
        if (strcmp(key, "difference") == 0)
            continue;
        if (second && strcmp(key, second) == 0) {
            put_differences(rows, reference, to);
            second = NULL;
        }
        at(rows, key, 0, &one);
        put_key(&one, to, key);
    }
}

static void put_rows(cst_context *context, const several *documents, bool *equal) {
    const json_t *first = json_object_get(documents->root, "rows");
    const char *reference = cst_json_string(documents->root, "reference");
    json_t *list = cst_report_list(documents->report, cst_report_root(documents->report), "rows");
    several against;
    bool referred = rows_of(documents, reference, &against);
    *equal = true;
    for (size_t i = 0; i < json_array_size(first); i++) {
        const char *name = cst_json_string(json_array_get(first, i), "method");
        bool own = name && reference && strcmp(name, reference) == 0;
        several rows;
        if (rows_of(documents, name, &rows)) {
            note_equal(&rows, equal);
            put_row(&rows, referred && !own ? &against : NULL,
                    cst_report_add_object(documents->report, list));
        } else {
            cst_notice(context, "%s is left out: it could not be fitted in every repetition",
                       name ? name : "-");
        }
    }
}

/* Keys that each repetition has for itself. */
static bool is_own(const char *key) {
    static const char *const keys[] = {"tests", "adjustment", "seconds", "resamples",
                                       "seed",  "held_out",   "rows",    NULL};
    return is_one_of(key, keys) || strncmp(key, "kappa_", 6) == 0;
}

/* Sizes, which differ where groups are held out. */
static bool is_size(const char *key) {
    static const char *const keys[] = {"samples", "effective_samples", "cases", "pixels", "ignored",
                                       "images",  "annotations",       NULL};
    return is_one_of(key, keys);
}

static void put_repetitions(const several *documents) {
    json_t *root = cst_report_root(documents->report);
    json_t *list = cst_report_list(documents->report, root, "repetitions");
    for (int32_t i = 0; i < documents->count; i++) {
        json_t *one = cst_report_add_object(documents->report, list);
        const char *key = NULL;
        json_t *value = NULL;
        json_object_foreach((json_t *)(uintptr_t)documents->items[i], key, value) {
            if (is_own(key) || is_size(key))
                cst_report_value(documents->report, one, key, cst_json_share(value));
        }
    }
}

static void put_seconds(const several *documents) {
    static const char *const keys[] = {"read", "methods", "intervals", "total"};
    json_t *to =
        cst_report_object(documents->report, cst_report_root(documents->report), "seconds");
    for (size_t k = 0; k < sizeof keys / sizeof keys[0]; k++) {
        double sum = 0;
        for (int32_t i = 0; i < documents->count; i++)
            sum += cst_json_number(json_object_get(documents->items[i], "seconds"), keys[k]);
        cst_report_number(documents->report, to, keys[k], sum);
    }
}

cst_status cst_report_means(cst_context *context, cst_report *report,
                            const cst_report *const *documents, int32_t count, bool *equal) {
    several all = {.report = report, .root = documents[0]->root, .count = count};
    json_t *root = cst_report_root(report);
    const char *key = NULL;
    json_t *value = NULL;
    for (int32_t i = 0; i < count; i++)
        all.items[i] = documents[i]->root;
    json_object_foreach(documents[0]->root, key, value) {
        several one;
        if (strcmp(key, "command") == 0)
            continue;
        if (strcmp(key, "seed") == 0)
            cst_report_value(report, root, key, cst_json_share(value));
        if (strcmp(key, "rows") == 0) {
            put_rows(context, &all, equal);
            cst_report_rank(report);
        }
        if (is_own(key))
            continue;
        at(&all, key, 0, &one);
        if (all_equal(&one))
            cst_report_value(report, root, key, cst_json_share(value));
        else
            put_key(&one, root, key);
    }
    put_repetitions(&all);
    put_seconds(&all);
    return cst_report_finish(context, report);
}
