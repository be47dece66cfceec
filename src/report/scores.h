/* Scores as columns of tables, the best two values of a column, the rows of a document. */
#pragma once

#include "core/score_spec.h"
#include "report/page.h"

#include <corestack/pool.h>

enum { CST_TASK_SCORES_MAX = 16 };

/* "metric": {name, key, label, definition, decimals, scale, higher_is_better} of a document whose
 * rows have that metric beside the task's scores. */
#define CST_METRIC_KEY "metric"

/* The scores of a task, static; *count of them. */
const cst_score_spec *cst_task_scores(cst_task task, int32_t *count);

typedef enum cst_score_group {
    CST_SCORES_OF_TASK = 0,
    CST_SCORES_OOD = 1, /* telling out-of-distribution rows from the others */
    CST_SCORES_CORRUPTION = 2,
    CST_SCORES_PARTS = 3 /* of a split: classes by training count, groups, splits */
} cst_score_group;
enum { CST_SCORE_GROUPS = 4 };

/* The task of a document; classification without "task". */
cst_task cst_document_task(const json_t *root);

/* The scores of a group in the order of the columns, static; *count of them. */
const cst_score_spec *cst_scores_of(const json_t *root, cst_score_group group, int32_t *count);

/* The score of the document with this key, or NULL. */
const cst_score_spec *cst_score_find(const json_t *root, const char *key);

/* The heading of a score or of a tested loss; the key itself where it has none. */
const char *cst_score_label(const json_t *root, const char *key);

/* Its value in a row; NaN where the row has none or it is not defined. */
double cst_score_value(const json_t *row, const cst_score_spec *score);

/* Its interval in a row, scaled; both ends NaN where there is none. */
typedef struct cst_ends {
    double low, high;
} cst_ends;

cst_ends cst_score_interval(const json_t *row, const cst_score_spec *score);

/* Its scaled standard error over repetitions, in a row or an object of it; NaN without one. */
double cst_score_error(const json_t *row, const char *object, const cst_score_spec *score);

/* Its "mean", "sd" or "se" in a row of a summary, scaled. */
double cst_score_spread(const json_t *row, const cst_score_spec *score, const char *what);

/* Whether a key of an object is that of the standard error of another one. */
bool cst_is_error(const json_t *object, const char *key);

/* The two best different values of a column as shown; NaN where there are fewer, or one row. */
typedef struct cst_places {
    double best, second;
} cst_places;

/* A value rounded to decimals. */
double cst_shown(double value, int decimals);

/* Enters a shown value, of places that began as {NAN, NAN}. */
void cst_places_add(cst_places *places, bool higher_is_better, double shown);

cst_places cst_score_places(const json_t *rows, const cst_score_spec *score);

/* Bold for the best, underlined for the second best, of a shown value or of a score. */
cst_style cst_places_style(const cst_places *places, double shown);
cst_style cst_score_style(const cst_places *places, const cst_score_spec *score, double value);

/* Decimals of the numbers of members: 1 where they are means, else 0. */
int cst_models_decimals(const json_t *rows);

/* Number of repetitions that scores are means over; 0: none. */
size_t cst_repetitions(const json_t *root);

/* The score that rows are ranked by where it is tested, else that of the first test; NULL without
 * tests. */
const char *cst_score_tested(const json_t *root);

/* The test of that metric of a method against the reference; NULL without one. */
const json_t *cst_score_test(const json_t *root, const char *method);
/* Its adjusted p; NaN without one. */
double cst_score_adjusted_p(const json_t *root, const char *method);

/* The rows of a comparison, or of an evaluation the model or file and then the baselines: a new
 * reference, NULL without memory. */
json_t *cst_document_rows(const json_t *root);
