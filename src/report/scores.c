/* The columns that tables of methods share, and the rows of a document. */
#include "report/scores.h"

#include "report/report.h"

#include <math.h>
#include <string.h>

/* key, label, decimals, scale, higher is better, has interval, in table, interval in table, in
 * summary, negative is none */
static const cst_score_spec CLASSIFICATION[] = {
    {"top1", "top-1 %", 2, 100, true, true, true, true, true, false},
    {"ece", "ECE", 4, 1, false, true, true, true, true, false},
    {"nll", "NLL", 4, 1, false, true, true, true, true, false},
    {"brier", "Brier", 4, 1, false, true, true, true, false, false},
    {"ece_mass", "ECE mass", 4, 1, false, true, false, true, false, false},
    {"ece_classwise", "ECE class-wise", 4, 1, false, true, false, true, false, false},
    {"ece_debiased", "ECE debiased", 4, 1, false, true, false, true, false, false},
    {"corp", "CORP", 4, 1, false, true, false, true, false, false},
};

static const cst_score_spec REGRESSION[] = {
    {"rmse", "RMSE", 5, 1, false, true, true, true, true, false},
    {"mae", "MAE", 5, 1, false, true, true, false, false, false},
    {"median_ae", "median AE", 5, 1, false, false, false, false, false, false},
    {"r2", "R^2", 4, 1, true, true, true, false, true, false},
    {"nll", "NLL", 4, 1, false, true, true, false, true, false},
};

static const cst_score_spec SEGMENTATION[] = {
    {"miou", "mIoU %", 2, 100, true, true, true, true, true, false},
    {"pixel_accuracy", "pixel %", 2, 100, true, true, true, false, false, false},
    {"mean_accuracy", "mean accuracy %", 2, 100, true, true, false, false, false, false},
    {"dice", "Dice %", 2, 100, true, true, false, true, false, false},
    {"fwiou", "fwIoU %", 2, 100, true, true, false, false, false, false},
    {"boundary_error", "edge %", 2, 100, false, true, true, false, false, false},
    {"boundary_iou", "boundary IoU %", 2, 100, true, true, false, false, false, false},
    {"ece", "ECE", 4, 1, false, true, true, false, true, false},
    {"nll", "NLL", 4, 1, false, true, true, false, true, false},
    {"brier", "Brier", 4, 1, false, true, false, false, false, false},
};

/* COCO's twelve; -1 where there is nothing to score. */
static const cst_score_spec DETECTION[] = {
    {"AP", "AP %", 2, 100, true, true, true, true, true, true},
    {"AP50", "AP50 %", 2, 100, true, true, true, false, true, true},
    {"AP75", "AP75 %", 2, 100, true, true, true, false, false, true},
    {"APs", "APs %", 2, 100, true, false, true, false, false, true},
    {"APm", "APm %", 2, 100, true, false, true, false, false, true},
    {"APl", "APl %", 2, 100, true, false, true, false, false, true},
    {"AR1", "AR1 %", 2, 100, true, false, false, false, false, true},
    {"AR10", "AR10 %", 2, 100, true, false, false, false, false, true},
    {"AR100", "AR100 %", 2, 100, true, true, false, true, false, true},
    {"ARs", "ARs %", 2, 100, true, false, false, false, false, true},
    {"ARm", "ARm %", 2, 100, true, false, false, false, false, true},
    {"ARl", "ARl %", 2, 100, true, false, false, false, false, true},
};

static const cst_score_spec MULTILABEL[] = {
    {"log_loss", "log-loss", 5, 1, false, true, true, true, true, false},
    {"macro_auc", "macro AUC", 4, 1, true, true, true, true, true, false},
    {"micro_auc", "micro AUC", 4, 1, true, false, true, false, false, false},
    {"map", "mAP", 4, 1, true, false, true, false, true, false},
    {"macro_f1", "macro F1", 4, 1, true, false, true, false, true, false},
    {"micro_f1", "micro F1", 4, 1, true, false, false, false, false, false},
    {"lrap", "LRAP", 4, 1, true, false, true, false, false, false},
    {"hamming", "Hamming", 4, 1, false, false, true, false, false, false},
    {"ece", "ECE", 4, 1, false, false, true, false, true, false},
};

static const cst_score_spec OOD[] = {
    {"ood_auroc", "AUROC", 4, 1, true, true, true, true, false, false},
    {"ood_aupr", "AUPR", 4, 1, true, true, true, true, false, false},
    {"ood_fpr95", "FPR@95", 4, 1, false, true, true, true, false, false},
    {"ood_auroc_entropy", "AUROC entropy", 4, 1, true, true, true, true, false, false},
    {"ood_aupr_entropy", "AUPR entropy", 4, 1, true, true, true, true, false, false},
    {"ood_fpr95_entropy", "FPR@95 entropy", 4, 1, false, true, true, true, false, false},
    {"ood_auroc_energy", "AUROC energy", 4, 1, true, true, true, true, false, false},
    {"ood_auroc_disagreement", "AUROC disagreement", 4, 1, true, true, true, true, false, false},
    {"ood_auroc_mutual_information", "AUROC mutual information", 4, 1, true, true, true, true,
     false, false},
};

static const cst_score_spec CORRUPTION[] = {
    {"mce", "mCE %", 2, 100, false, true, true, true, false, false},
    {"mce_normalised", "normalised mCE %", 2, 100, false, true, true, true, false, false},
    {"mce_delta", "to clean %", 2, 100, false, true, true, true, false, false},
    {"mce_relative", "relative mCE %", 2, 100, false, true, true, true, false, false},
};

static const cst_score_spec PARTS[] = {
    {"accuracy_head", "head %", 2, 100, true, true, true, true, false, false},
    {"accuracy_mid", "mid %", 2, 100, true, true, true, true, false, false},
    {"accuracy_tail", "tail %", 2, 100, true, true, true, true, false, false},
    {"balanced_accuracy", "balanced %", 2, 100, true, true, true, true, false, false},
    {"worst_group_accuracy", "worst group %", 2, 100, true, true, true, true, false, false},
    {"worst_top1", "worst split %", 2, 100, true, true, true, true, false, false},
};

static const cst_score_spec TOPK[] = {
    {"nll", "NLL", 4, 1, false, true, true, true, true, false},
    {"perplexity", "perplexity", 3, 1, false, true, true, true, true, false},
    {"top1", "top-1 %", 2, 100, true, true, true, true, true, false},
    {"top5", "top-5 %", 2, 100, true, true, true, false, true, false},
    {"ece", "ECE", 4, 1, false, true, true, false, true, false},
    {"brier", "Brier", 4, 1, false, true, true, false, false, false},
    {"bits_per_byte", "bits/byte", 4, 1, false, true, true, true, true, false},
};

#define LIST(list)                                                                                 \
    { list, sizeof(list) / sizeof(list)[0] }

typedef struct score_list {
    const cst_score_spec *scores;
    int32_t count;
} score_list;

static const score_list TASKS[] = {
    [CST_TASK_CLASSIFICATION] = LIST(CLASSIFICATION), [CST_TASK_REGRESSION] = LIST(REGRESSION),
    [CST_TASK_SEGMENTATION] = LIST(SEGMENTATION),     [CST_TASK_DETECTION] = LIST(DETECTION),
    [CST_TASK_MULTILABEL] = LIST(MULTILABEL),         [CST_TASK_TOPK] = LIST(TOPK)};
static const score_list GROUPS[] = {[CST_SCORES_OOD] = LIST(OOD),
                                    [CST_SCORES_CORRUPTION] = LIST(CORRUPTION),
                                    [CST_SCORES_PARTS] = LIST(PARTS)};

const cst_score_spec *cst_task_scores(cst_task task, int32_t *count) {
    *count = TASKS[task].count;
    return TASKS[task].scores;
}

static bool same(const char *a, const char *b) {
    return a && b && strcmp(a, b) == 0;
}

cst_task cst_document_task(const json_t *root) {
    const char *task = cst_json_string(root, "task");
    for (int t = CST_TASK_TOPK; t > CST_TASK_CLASSIFICATION; t--)
        if (same(task, cst_task_name((cst_task)t)))
            return (cst_task)t;
    return CST_TASK_CLASSIFICATION;
}

/* The document's metric and then the task's scores, where it is none of these. */
static const cst_score_spec *with_metric(const json_t *root, const cst_score_spec *scores,
                                         int32_t *count) {
    static _Thread_local cst_score_spec all[CST_TASK_SCORES_MAX + 1];
    const json_t *metric = json_object_get(root, CST_METRIC_KEY);
    const char *key = cst_json_string(metric, "key");
    for (int32_t s = 0; key && s < *count; s++)
        if (same(scores[s].key, key))
            key = NULL;
    if (!key)
        return scores;
    all[0] = (cst_score_spec){.key = key,
                              .label = cst_json_text(metric, "label"),
                              .decimals = (int)cst_json_number(metric, "decimals"),
                              .scale = cst_json_number(metric, "scale"),
                              .higher_is_better = cst_json_flag(metric, "higher_is_better"),
                              .has_interval = true,
                              .in_table = true,
                              .interval_in_table = true,
                              .in_summary = true};
    memcpy(all + 1, scores, (size_t)*count * sizeof *scores);
    (*count)++;
    return all;
}

const cst_score_spec *cst_scores_of(const json_t *root, cst_score_group group, int32_t *count) {
    if (group == CST_SCORES_OF_TASK)
        return with_metric(root, cst_task_scores(cst_document_task(root), count), count);
    *count = GROUPS[group].count;
    return GROUPS[group].scores;
}

const cst_score_spec *cst_score_find(const json_t *root, const char *key) {
    for (int group = 0; group < CST_SCORE_GROUPS; group++) {
        int32_t count = 0;
        const cst_score_spec *scores = cst_scores_of(root, (cst_score_group)group, &count);
        for (int32_t s = 0; s < count; s++)
            if (same(scores[s].key, key))
                return &scores[s];
    }
    return NULL;
}

const char *cst_score_label(const json_t *root, const char *key) {
    const cst_score_spec *score = cst_score_find(root, key);
    return score ? score->label : same(key, "squared_error") ? "squared error" : key ? key : "-";
}

double cst_score_value(const json_t *row, const cst_score_spec *score) {
    double value = cst_json_number(row, score->key);
    return score->negative_is_none && value < 0 ? NAN : value;
}

/* The key of the interval of a score. */
typedef struct interval_key {
    char text[64];
} interval_key;

static interval_key key_of_interval(const cst_score_spec *score) {
    interval_key key;
    (void)cst_snprintf(key.text, sizeof key.text, "%.60s_ci", score->key);
    return key;
}

cst_ends cst_score_interval(const json_t *row, const cst_score_spec *score) {
    const json_t *interval = json_object_get(row, key_of_interval(score).text);
    cst_ends ends = {score->scale * cst_json_number_at(interval, 0),
                     score->scale * cst_json_number_at(interval, 1)};
    return isnan(ends.low) || isnan(ends.high) ? (cst_ends){NAN, NAN} : ends;
}

double cst_score_error(const json_t *row, const char *object, const cst_score_spec *score) {
    return cst_score_spread(cst_json_at(row, object), score, "se");
}

double cst_score_spread(const json_t *row, const cst_score_spec *score, const char *what) {
    char key[64];
    (void)cst_snprintf(key, sizeof key, "%.50s_%s", score->key, what);
    return score->scale * cst_json_number(row, key);
}

bool cst_is_error(const json_t *object, const char *key) {
    char base[256];
    size_t length = strlen(key);
    if (length < 4 || length >= sizeof base || strcmp(key + length - 3, "_se") != 0)
        return false;
    (void)cst_snprintf(base, sizeof base, "%.*s", (int)length - 3, key);
    return json_object_get(object, base) != NULL;
}

size_t cst_repetitions(const json_t *root) {
    return json_array_size(json_object_get(root, "repetitions"));
}

double cst_shown(double value, int decimals) {
    char text[400];
    if (isnan(value))
        return NAN;
    (void)cst_snprintf(text, sizeof text, "%.*f", decimals, value);
    return cst_strtod(text, NULL);
}

static bool better(bool higher_is_better, double a, double b) {
    return isnan(b) || (higher_is_better ? a > b : a < b);
}

void cst_places_add(cst_places *places, bool higher_is_better, double shown) {
    if (isnan(shown))
        return;
    if (better(higher_is_better, shown, places->best)) {
        places->second = places->best;
        places->best = shown;
    } else if (better(higher_is_better, places->best, shown) &&
               better(higher_is_better, shown, places->second)) {
        places->second = shown;
    }
}

static double shown_score(const cst_score_spec *score, double value) {
    return cst_shown(score->scale * value, score->decimals);
}

cst_places cst_score_places(const json_t *rows, const cst_score_spec *score) {
    cst_places places = {NAN, NAN};
    size_t count = json_array_size(rows);
    for (size_t i = 0; count > 1 && i < count; i++)
        cst_places_add(&places, score->higher_is_better,
                       shown_score(score, cst_score_value(json_array_get(rows, i), score)));
    return places;
}

cst_style cst_places_style(const cst_places *places, double shown) {
    if (shown >= places->best && shown <= places->best)
        return CST_BOLD;
    return shown >= places->second && shown <= places->second ? CST_UNDERLINE : CST_PLAIN;
}

cst_style cst_score_style(const cst_places *places, const cst_score_spec *score, double value) {
    return cst_places_style(places, shown_score(score, value));
}

int cst_models_decimals(const json_t *rows) {
    for (size_t i = 0; i < json_array_size(rows); i++)
        if (json_is_real(json_object_get(json_array_get(rows, i), "models")))
            return 1;
    return 0;
}

const char *cst_score_tested(const json_t *root) {
    const json_t *tests = json_object_get(root, "tests");
    const char *ranking = cst_json_string(root, "ranked_by");
    for (size_t i = 0; i < json_array_size(tests); i++)
        if (cst_json_is(json_array_get(tests, i), "metric", ranking))
            return ranking;
    return cst_json_string(json_array_get(tests, 0), "metric");
}

const json_t *cst_score_test(const json_t *root, const char *method) {
    const json_t *tests = json_object_get(root, "tests");
    const char *reference = cst_json_string(root, "reference");
    for (size_t i = 0; i < json_array_size(tests); i++) {
        const json_t *test = json_array_get(tests, i);
        const char *a = cst_json_string(test, "a");
        const char *b = cst_json_string(test, "b");
        bool pair =
            (same(a, reference) && same(b, method)) || (same(b, reference) && same(a, method));
        if (pair && same(cst_json_string(test, "metric"), cst_score_tested(root)))
            return test;
    }
    return NULL;
}

double cst_score_adjusted_p(const json_t *root, const char *method) {
    return cst_json_number(cst_score_test(root, method), "p_adjusted");
}

void cst_report_rank(cst_report *report) {
    const json_t *root = report->root;
    const json_t *rows = json_object_get(root, "rows");
    const cst_score_spec *score = cst_score_find(root, cst_json_string(root, "ranked_by"));
    for (size_t i = 0; score && i < json_array_size(rows); i++) {
        double value = cst_score_value(json_array_get(rows, i), score);
        int64_t rank = 1;
        for (size_t j = 0; j < json_array_size(rows); j++) {
            double other = cst_score_value(json_array_get(rows, j), score);
            bool first = better(score->higher_is_better, other, value);
            rank += !isnan(other) && (first || (j < i && other >= value && other <= value));
        }
        if (!isnan(value))
            cst_report_integer(report, json_array_get(rows, i), "rank", rank);
    }
}

/* Sets a key of `row` to what `root` has there; false without memory. */
static bool copy_key(json_t *row, const json_t *root, const char *key) {
    const json_t *value = json_object_get(root, key);
    return !value || json_object_set_new(row, key, cst_json_share(value)) == 0;
}

/* An evaluation's own scores as a row, like those of its baselines; a new reference. */
static json_t *row_of_evaluation(const json_t *root) {
    static const char *const more[] = {
        "detections", "models", "clean_error", "families",    "kinds",
        "severities", "on",     "worst_split", "worst_group", "worst_group_samples",
        "ood_scores", "levels", "coverage",    "width",       "top1_in",
        "nll_in"};
    const char *name = cst_json_string(root, "split") ? "corestack" : "predictions";
    json_t *row = json_pack("{s:s}", "method", name);
    bool kept = row != NULL;
    for (int group = 0; group < CST_SCORE_GROUPS; group++) {
        int32_t count = 0;
        const cst_score_spec *scores = cst_scores_of(root, (cst_score_group)group, &count);
        for (int32_t s = 0; kept && s < count; s++)
            kept = copy_key(row, root, scores[s].key) &&
                   copy_key(row, root, key_of_interval(&scores[s]).text);
    }
    for (size_t i = 0; kept && i < sizeof more / sizeof more[0]; i++)
        kept = copy_key(row, root, more[i]);
    if (kept)
        return row;
    json_decref(row);
    return NULL;
}

static json_t *rows_of_evaluation(const json_t *root) {
    json_t *rows = json_array();
    const json_t *baselines = json_object_get(root, "baselines");
    bool failed = !rows || json_array_append_new(rows, row_of_evaluation(root)) != 0;
    for (size_t i = 0; !failed && i < json_array_size(baselines); i++)
        failed = json_array_append_new(rows, cst_json_share(json_array_get(baselines, i))) != 0;
    if (failed) {
        json_decref(rows);
        return NULL;
    }
    return rows;
}

json_t *cst_document_rows(const json_t *root) {
    const json_t *rows = json_object_get(root, "rows");
    if (rows)
        return cst_json_share(rows);
    const char *command = cst_json_string(root, "command");
    return same(command, "evaluate") || same(command, "report") ? rows_of_evaluation(root)
                                                                : json_array();
}
