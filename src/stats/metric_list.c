/* The list of metrics, and one of them on rows. See the header. */
#include "stats/metric_list.h"

#include "core/context.h"
#include "core/number.h"
#include "data/files/bytes.h"
#include "stats/decide.h"
#include "stats/row_weights.h"
#include "stats/samples.h"
#include "stats/statistics.h"

#include <corestack/files.h>
#include <ctype.h>
#include <math.h>
#include <string.h>

#define SHOWN(key, label, decimals, scale, higher)                                                 \
    { key, label, decimals, scale, higher, true, true, true, true, false }
#define CLASSES(name, aliases, key, label, decimals, scale, higher, definition)                    \
    {                                                                                              \
        name, aliases, SHOWN(key, label, decimals, scale, higher), definition,                     \
            CST_TASK_CLASSIFICATION, false, NULL, 0, 0, 0, NULL, NULL, 0, NULL                     \
    }
#define RANKS(name, aliases, key, label, binary, argument, least, most, usual, compute,            \
              definition)                                                                          \
    {                                                                                              \
        name, aliases, SHOWN(key, label, 4, 1, true), definition, CST_TASK_CLASSIFICATION, binary, \
            argument, least, most, usual, compute, NULL, 1, NULL                                   \
    }
#define DECISIONS(name, aliases, key, label, binary, counts, definition)                           \
    {                                                                                              \
        name, aliases, SHOWN(key, label, 4, 1, true), definition, CST_TASK_CLASSIFICATION, binary, \
            NULL, 0, 0, 0, NULL, counts, 0, NULL                                                   \
    }
#define VALUES(name, aliases, key, label, decimals, higher, argument, least, most, usual, compute, \
               orders, definition)                                                                 \
    {                                                                                              \
        name, aliases, SHOWN(key, label, decimals, 1, higher), definition, CST_TASK_REGRESSION,    \
            false, argument, least, most, usual, compute, NULL, orders, NULL                       \
    }

static const cst_metric METRICS[] = {
    /* ---- classification ---- */
    CLASSES("log-loss", "nll|logloss|neg-log-loss|cross-entropy", "nll", "NLL", 4, 1, false,
            "mean of -log p(label) in nats, with p clipped to at least 1e-15"),
    CLASSES("brier", "brier-score", "brier", "Brier", 4, 1, false,
            "mean over rows of the sum over classes of (p - y)^2; of two classes twice the binary "
            "Brier score"),
    CLASSES("accuracy", "top1|top-1", "top1", "top-1 %", 2, 100, true,
            "fraction of rows whose most probable class is the label"),
    {"top-k", "", SHOWN("top_k", "top-k %", 2, 100, true),
     "fraction of rows whose label is among the k most probable classes; ties go to lower classes",
     CST_TASK_CLASSIFICATION, false, "k", 1, 1e9, 5, cst_metric_top_k, NULL, 0, NULL},
    CLASSES("ece", "", "ece", "ECE", 4, 1, false,
            "top-label expected calibration error with 15 bins of equal width"),
    CLASSES("ece-classwise", "classwise-ece", "ece_classwise", "ECE class-wise", 4, 1, false,
            "mean over classes of the calibration error of the class's probability"),
    {"ece-smooth", "smooth-ece|smece", SHOWN("ece_smooth", "smooth ECE", 4, 1, false),
     "top-label calibration error smoothed by a normal kernel whose width equals the error "
     "(Blasiok and Nakkiran 2023)",
     CST_TASK_CLASSIFICATION, false, NULL, 0, 0, 0, cst_metric_smooth_ece, NULL, 0, NULL},
    RANKS("auc", "roc-auc|auroc|auc-ovr|roc-auc-ovr|roc-auc-ovr-macro", "auc", "AUC", false, NULL,
          0, 0, 0, cst_metric_auc_mean,
          "area under the ROC curve of the second of two classes; with more classes the mean of "
          "one class against the rest"),
    RANKS("auc-ovo", "roc-auc-ovo|roc-auc-ovo-macro", "auc_ovo", "AUC ovo", false, NULL, 0, 0, 0,
          cst_metric_auc_pairs,
          "area under the ROC curve, mean over pairs of classes (Hand and Till 2001)"),
    RANKS("gini", "", "gini", "Gini", false, NULL, 0, 0, 0, cst_metric_gini, "2 AUC - 1"),
    RANKS("pr-auc", "average-precision|auprc|ap", "pr_auc", "PR AUC", false, NULL, 0, 0, 0,
          cst_metric_precision,
          "average precision of the second of two classes; with more classes the mean of one class "
          "against the rest"),
    RANKS("ks", "", "ks", "KS", false, NULL, 0, 0, 0, cst_metric_ks,
          "largest difference between true and false positive rate (Kolmogorov-Smirnov)"),
    RANKS("precision-at-recall", "", "precision_at_recall", "precision at recall", true, "recall",
          0, 1, NAN, cst_metric_precision_at,
          "highest precision of a threshold with at least that recall"),
    RANKS("recall-at-precision", "", "recall_at_precision", "recall at precision", true,
          "precision", 0, 1, NAN, cst_metric_recall_at,
          "highest recall of a threshold with at least that precision"),
    DECISIONS("balanced-accuracy", "", "balanced_accuracy", "balanced acc.", false,
              cst_metric_balanced,
              "mean over the classes that occur of the share of their rows that is right"),
    DECISIONS("f1", "f1-binary", "f1", "F1", true, cst_metric_f1, "F1 score of the second class"),
    DECISIONS("f1-macro", "", "f1_macro", "F1 macro", false, cst_metric_f1_macro,
              "mean F1 score of the classes that are decided for or occur"),
    DECISIONS("f1-micro", "", "f1_micro", "F1 micro", false, cst_metric_f1_micro,
              "F1 score of all decisions together, which is the accuracy"),
    DECISIONS("f1-weighted", "", "f1_weighted", "F1 weighted", false, cst_metric_f1_weighted,
              "mean F1 score of the classes by their number of rows"),
    DECISIONS("mcc", "matthews|matthews-corrcoef", "mcc", "MCC", false, cst_metric_mcc,
              "Matthews correlation coefficient, with more classes as by Gorodkin (2004)"),
    DECISIONS("kappa", "cohen-kappa", "kappa", "kappa", false, cst_metric_kappa,
              "Cohen's kappa: agreement beyond chance"),
    DECISIONS("kappa-quadratic", "quadratic-kappa|qwk", "kappa_quadratic", "quadratic kappa", false,
              cst_metric_kappa_quadratic,
              "Cohen's kappa with the squared distance of the classes' numbers as its weights"),
    {"cost", "cost-matrix", SHOWN("cost", "cost", 5, 1, false),
     "mean cost of the decisions, each for the class with the lowest expected cost",
     CST_TASK_CLASSIFICATION, false, "file", 0, 0, NAN, cst_metric_cost, NULL, 0, NULL},
    /* ---- regression ---- */
    VALUES("rmse", "root-mean-squared-error|neg-root-mean-squared-error", "rmse", "RMSE", 5, false,
           NULL, 0, 0, 0, NULL, 0, "root mean squared error"),
    VALUES("mae", "mean-absolute-error|neg-mean-absolute-error", "mae", "MAE", 5, false, NULL, 0, 0,
           0, NULL, 0, "mean absolute error"),
    VALUES("median-ae", "median-absolute-error", "median_ae", "median AE", 5, false, NULL, 0, 0, 0,
           NULL, 0, "median absolute error"),
    VALUES("r2", "", "r2", "R^2", 4, true, NULL, 0, 0, 0, NULL, 0,
           "1 - sum of squared errors / sum of squared deviations of the targets"),
    VALUES("nll", "", "nll", "NLL", 4, false, NULL, 0, 0, 0, NULL, 0,
           "mean of -log of the predicted normal density at the target, in nats"),
    VALUES("rmsle", "root-mean-squared-log-error", "rmsle", "RMSLE", 5, false, NULL, 0, 0, 0,
           cst_metric_rmsle, 0, "root mean squared difference of log(1 + value)"),
    VALUES("mape", "mean-absolute-percentage-error", "mape", "MAPE", 5, false, NULL, 0, 0, 0,
           cst_metric_mape, 0, "mean of |error| / |target|, as a fraction"),
    VALUES("smape", "symmetric-mean-absolute-percentage-error", "smape", "SMAPE", 5, false, NULL, 0,
           0, 0, cst_metric_smape, 0,
           "mean of 2 |error| / (|target| + |prediction|), as a fraction"),
    VALUES("pinball", "pinball-loss|quantile-loss", "pinball", "pinball loss", 5, false, "level", 0,
           1, 0.5, cst_metric_pinball, 0, "mean pinball loss of a quantile"),
    VALUES("poisson", "poisson-deviance", "poisson", "Poisson deviance", 5, false, NULL, 0, 0, 0,
           cst_metric_poisson, 0, "mean deviance of a Poisson distribution"),
    VALUES("gamma", "gamma-deviance", "gamma", "gamma deviance", 5, false, NULL, 0, 0, 0,
           cst_metric_gamma, 0, "mean deviance of a gamma distribution"),
    VALUES("tweedie", "tweedie-deviance", "tweedie", "Tweedie deviance", 5, false, "power", -100,
           100, 1.5, cst_metric_tweedie, 0,
           "mean deviance of a Tweedie distribution of that power"),
    VALUES("spearman", "spearmanr", "spearman", "Spearman", 4, true, NULL, 0, 0, 0,
           cst_metric_spearman, 2, "rank correlation of predictions and targets"),
    VALUES("concordance", "c-index|concordance-index", "concordance", "concordance", 4, true, NULL,
           0, 0, 0, cst_metric_concordance, 2,
           "share of the pairs with different targets that are predicted in their order"),
};
enum { METRICS_COUNT = sizeof METRICS / sizeof METRICS[0] };

const cst_metric *cst_metric_at(size_t index) {
    return index < METRICS_COUNT ? &METRICS[index] : NULL;
}

const cst_metric *cst_metric_of_key(cst_task task, const char *key) {
    for (size_t i = 0; key && i < METRICS_COUNT; i++)
        if (METRICS[i].task == task && strcmp(METRICS[i].shown.key, key) == 0)
            return &METRICS[i];
    return NULL;
}

/* ---- names ---- */

static int plain(int c) {
    return c == '_' ? '-' : tolower(c);
}

bool cst_metric_named(const char *names, const char *text, size_t length) {
    while (*names) {
        size_t size = strcspn(names, "|");
        size_t same = 0;
        while (same < size && same < length &&
               plain((unsigned char)text[same]) == plain((unsigned char)names[same]))
            same++;
        if (same == size && same == length)
            return true;
        names += size + (names[size] == '|');
    }
    return false;
}

/* A name with everything that a task has, for messages. */
static cst_status unknown(cst_context *context, cst_task task, const char *text) {
    char list[1024] = "";
    size_t used = 0;
    for (size_t i = 0; i < METRICS_COUNT; i++) {
        if (METRICS[i].task != task || used + strlen(METRICS[i].name) + 16 > sizeof list)
            continue;
        used += (size_t)cst_snprintf(list + used, sizeof list - used, "%s%s%s%s", used ? ", " : "",
                                     METRICS[i].name, METRICS[i].argument ? "=" : "",
                                     METRICS[i].argument ? METRICS[i].argument : "");
    }
    return cst_fail(context, CST_ERROR_ARGUMENT, "unknown metric '%.60s' for %s; choose one of: %s",
                    text, cst_task_name(task),
                    *list ? list : "none, its own scores are always reported");
}

static cst_status read_argument(cst_context *context, const char *text, const char *value,
                                cst_metric_choice *out) {
    const cst_metric *metric = out->metric;
    if (!metric->argument && value)
        return cst_fail(context, CST_ERROR_ARGUMENT, "metric '%.60s' takes no value", text);
    out->argument = metric->usual;
    if (!value && !isnan(metric->usual))
        return CST_OK;
    char *end = NULL;
    out->argument = value ? cst_strtod(value, &end) : NAN;
    if (value && *value && !*end && out->argument >= metric->least &&
        out->argument <= metric->most &&
        (metric->most > 1 || out->argument * (1 - out->argument) > 0) &&
        !(metric->compute == cst_metric_tweedie && out->argument > 0 && out->argument < 1))
        return CST_OK;
    return cst_fail(context, CST_ERROR_ARGUMENT,
                    metric->most <= 1
                        ? "metric '%.60s' needs a %s between 0 and 1, for example %s=0.9"
                    : metric->compute == cst_metric_tweedie
                        ? "metric '%.60s' needs a %s of at most 0, or 1 or more, for example "
                          "%s=1.5"
                        : "metric '%.60s' needs a number %s of at least 1, for example %s=5",
                    text, metric->argument, metric->name);
}

static const cst_metric *find(cst_task task, const char *text) {
    size_t length = strcspn(text, "=");
    for (size_t i = 0; i < METRICS_COUNT; i++)
        if (METRICS[i].task == task && (cst_metric_named(METRICS[i].name, text, length) ||
                                        cst_metric_named(METRICS[i].aliases, text, length)))
            return &METRICS[i];
    return NULL;
}

static const cst_metric *find_added(cst_context *context, const char *name);

/* An npy file, or numbers separated by commas or blanks. */
static cst_status read_numbers(cst_context *context, cst_scope *scope, const char *path,
                               double **costs, int64_t *count) {
    cst_bytes *file = NULL;
    const unsigned char *bytes = NULL;
    CST_SCOPE(own);
    CST_TRY(cst_bytes_open_file(context, &file, path));
    CST_TRY(cst_scope_own(context, own, cst_bytes_close, file));
    CST_TRY(cst_bytes_slurp(context, file, &bytes));
    size_t size = (size_t)cst_bytes_size(file);
    if (size > 6 && memcmp(bytes, "\x93NUMPY", 6) == 0) {
        int64_t rows = 0;
        int32_t columns = 0;
        double *values = NULL;
        CST_TRY(cst_read_targets(context, path, &values, &rows, &columns));
        *count = rows * columns;
        *costs = cst_take(context, scope, (size_t)*count + 1, sizeof **costs);
        if (*costs)
            memcpy(*costs, values, (size_t)*count * sizeof **costs);
        cst_free(context, values);
        return *costs ? CST_OK : CST_ERROR_MEMORY;
    }
    CST_NEW(context, own, char, text, size + 1);
    CST_TAKE(context, scope, *costs, size / 2 + 1);
    memcpy(text, bytes, size);
    for (char *at = text;;) {
        char *end = NULL;
        at += strspn(at, ", \t\r\n");
        if (!*at)
            break;
        (*costs)[*count] = cst_strtod(at, &end);
        if (end == at || !(fabs((*costs)[*count]) <= 1e12))
            return cst_fail(context, CST_ERROR_INPUT,
                            "%s: byte %zu: '%.20s' is no number; a file of costs has a row for "
                            "each true class and a column for each decision",
                            path, (size_t)(at - text), at);
        ++*count;
        at = end;
    }
    return CST_OK;
}

/* A square: the row is the true class. */
static cst_status read_costs(cst_context *context, cst_scope *scope, const char *path,
                             cst_metric_choice *out) {
    double *costs = NULL;
    int64_t count = 0;
    CST_TRY(read_numbers(context, scope, path, &costs, &count));
    while ((int64_t)out->cost_classes * out->cost_classes < count)
        out->cost_classes++;
    if (count < 4 || (int64_t)out->cost_classes * out->cost_classes != count)
        return cst_fail(context, CST_ERROR_INPUT,
                        "%s: has %lld numbers; the costs of C classes are C rows of C numbers",
                        path, (long long)count);
    out->costs = costs;
    return CST_OK;
}

cst_status cst_metric_parse(cst_context *context, cst_scope *scope, cst_task task, const char *text,
                            cst_metric_choice *out) {
    size_t length = strcspn(text, "=");
    *out = (cst_metric_choice){.metric = find(task, text)};
    if (!out->metric)
        out->metric = find_added(context, text);
    if (!out->metric)
        return unknown(context, task, text);
    if (out->metric->compute == cst_metric_cost && text[length] && text[length + 1])
        return read_costs(context, scope, text + length + 1, out);
    if (out->metric->compute == cst_metric_cost)
        return cst_fail(context, CST_ERROR_ARGUMENT,
                        "metric cost needs a file of costs: --cost-matrix FILE");
    return read_argument(context, text, text[length] ? text + length + 1 : NULL, out);
}

/* ---- what a metric reads ---- */

static cst_status refuse(cst_context *context, const cst_metric *metric, const char *what,
                         int64_t row, double value, const char *rule) {
    return cst_fail(context, CST_ERROR_INPUT, "%s: the %s of row %lld is %g; %s",
                    metric->shown.label, what, (long long)row, value, rule);
}

/* What logarithms and powers need. */
static cst_status check_range(cst_context *context, cst_metric_choice choice,
                              const cst_metric_rows *rows) {
    const cst_metric *metric = choice.metric;
    bool logs = metric->compute == cst_metric_rmsle;
    double power = metric->compute == cst_metric_poisson ? 1
                   : metric->compute == cst_metric_gamma ? 2
                                                         : choice.argument;
    bool deviance = metric->compute == cst_metric_poisson || metric->compute == cst_metric_gamma ||
                    (metric->compute == cst_metric_tweedie && power != 0);
    if (!logs && !deviance)
        return CST_OK;
    for (int64_t i = 0; i < rows->rows * rows->columns; i++) {
        double y = rows->targets[i];
        double f = (double)rows->values[i];
        int64_t row = i / rows->columns;
        if (rows->weights && !(rows->weights[row] > 0))
            continue;
        if (logs && !(f > -1))
            return refuse(context, metric, "prediction", row, f, "it must be above -1");
        if (logs && !(y > -1))
            return refuse(context, metric, "target", row, y, "it must be above -1");
        if (deviance && !(f > 0))
            return refuse(context, metric, "prediction", row, f, "it must be above 0");
        if (deviance && power >= 1 && !(power < 2 ? y >= 0 : y > 0))
            return refuse(context, metric, "target", row, y,
                          power < 2 ? "it must be 0 or more" : "it must be above 0");
    }
    return CST_OK;
}

/* The class with the largest probability, or with the lowest expected cost. */
static cst_status decide(cst_context *context, cst_scope *scope, const double *costs,
                         cst_metric_rows *rows) {
    CST_NEW(context, scope, int32_t, decided, rows->rows);
    const cst_decision decision = {.classes = rows->columns, .costs = costs};
    cst_decision_apply(&decision, rows->values, rows->rows, rows->columns, decided);
    rows->decided = decided;
    return CST_OK;
}

cst_metric_aim cst_metric_aim_of(cst_metric_choice choice, bool transformed, double *level) {
    static const char *const medians[] = {"mae", "median_ae", "mape", "smape"};
    static const char *const means[] = {"rmse", "r2", "poisson", "gamma", "tweedie"};
    const cst_metric *metric = choice.metric;
    bool pinball = metric && metric->compute == cst_metric_pinball;
    if (level)
        *level = pinball ? choice.argument : 0.5;
    if (!metric || metric->own || metric->task != CST_TASK_REGRESSION)
        return CST_METRIC_AS_IT_IS;
    for (size_t i = 0; i < sizeof medians / sizeof *medians; i++)
        if (pinball || strcmp(metric->shown.key, medians[i]) == 0)
            return CST_METRIC_QUANTILE;
    for (size_t i = 0; transformed && i < sizeof means / sizeof *means; i++)
        if (strcmp(metric->shown.key, means[i]) == 0)
            return CST_METRIC_MEAN;
    return CST_METRIC_AS_IT_IS;
}

static cst_status order_one(cst_context *context, const cst_metric_rows *rows, int32_t column,
                            bool targets, uint32_t *out) {
    CST_SCOPE(scope);
    CST_NEW(context, scope, double, values, rows->rows);
    CST_NEW(context, scope, cst_rank_item, sorted, rows->rows);
    for (int64_t i = 0; i < rows->rows; i++) {
        int64_t at = i * rows->columns + column;
        values[i] = targets ? rows->targets[at] : (double)rows->values[at];
    }
    CST_TRY(cst_rank_sort_rows(context, values, rows->rows, sorted));
    for (int64_t i = 0; i < rows->rows; i++)
        out[i] = (uint32_t)sorted[i].index;
    return CST_OK;
}

static cst_status order(cst_context *context, cst_scope *scope, int orders, cst_metric_rows *rows) {
    int32_t first = rows->labels && rows->columns == 2; /* of two classes the second */
    size_t columns = (size_t)(rows->columns - first);
    size_t n = (size_t)rows->rows;
    CST_NEW(context, scope, uint32_t, all, ((size_t)orders * columns * n));
    for (size_t c = 0; c < (size_t)orders * columns; c++)
        CST_TRY(
            order_one(context, rows, first + (int32_t)(c % columns), c >= columns, all + c * n));
    rows->order = all;
    return CST_OK;
}

cst_status cst_metric_check_classes(cst_context *context, cst_metric_choice choice,
                                    int32_t classes) {
    const cst_metric *metric = choice.metric;
    if (metric && metric->binary && classes != 2)
        return cst_fail(context, CST_ERROR_UNSUPPORTED,
                        "metric %s is for two classes, and there are %d; with more classes choose "
                        "for example f1-macro, auc or pr-auc",
                        metric->name, (int)classes);
    if (choice.costs && choice.cost_classes != classes)
        return cst_fail(context, CST_ERROR_MISMATCH,
                        "the costs are of %d classes, but there are %d", (int)choice.cost_classes,
                        (int)classes);
    return CST_OK;
}

cst_status cst_metric_rows_make(cst_context *context, cst_scope *scope, cst_metric_choice choice,
                                const cst_metric_rows *given, cst_metric_rows *out) {
    const cst_metric *metric = choice.metric;
    *out = *given;
    out->argument = choice.argument;
    CST_TRY(cst_metric_check_classes(context, choice, given->columns));
    if (given->rows > UINT32_MAX)
        return cst_fail(context, CST_ERROR_LIMIT, "a metric takes at most 2^32 rows");
    out->costs = choice.costs;
    CST_TRY(check_range(context, choice, given));
    if (!given->weights) {
        CST_NEW(context, scope, double, ones, given->rows);
        for (int64_t i = 0; i < given->rows; i++)
            ones[i] = 1;
        out->weights = ones;
    }
    bool decides = metric->counts || metric->compute == cst_metric_smooth_ece;
    if (given->labels && (choice.costs || (decides && !given->decided)))
        CST_TRY(decide(context, scope, choice.costs, out));
    return metric->orders > 0 ? order(context, scope, metric->orders, out) : CST_OK;
}

/* ---- the metric ---- */

enum { SCRATCH_LEAST = 1024 };

size_t cst_metric_scratch(const cst_metric_rows *rows) {
    size_t columns = 4 * (size_t)rows->columns;
    size_t rank = rows->targets ? 2 * (size_t)rows->rows : 0;
    return SCRATCH_LEAST + (rank > columns ? rank : columns);
}

static double count(const cst_metric *metric, const cst_metric_rows *rows, const double *weights,
                    double *scratch) {
    size_t classes = (size_t)rows->columns;
    cst_decision_counts n = {.classes = rows->columns,
                             .right = scratch,
                             .told = scratch + classes,
                             .given = scratch + 2 * classes};
    memset(scratch, 0, 3 * classes * sizeof *scratch);
    for (int64_t i = 0; i < rows->rows; i++) {
        int32_t y = rows->labels[i];
        int32_t t = rows->decided[i];
        double apart = (double)y - t;
        n.right[y] += y == t ? weights[i] : 0;
        n.told[t] += weights[i];
        n.given[y] += weights[i];
        n.total += weights[i];
        n.squares += weights[i] * apart * apart;
    }
    return metric->counts(&n);
}

double cst_metric_compute(cst_metric_choice choice, const cst_metric_rows *rows,
                          const double *weights, double *scratch) {
    return choice.metric->counts ? count(choice.metric, rows, weights, scratch)
                                 : choice.metric->compute(rows, weights, scratch);
}

/* A score of the task's own table. */
static cst_status score_of(cst_context *context, const cst_metric *metric,
                           const cst_metric_rows *rows, double *out) {
    if (metric->task == CST_TASK_REGRESSION) {
        cst_value_metrics found;
        const cst_predicted_values values = {.struct_size = sizeof values,
                                             .mean = rows->values,
                                             .rows = rows->rows,
                                             .outputs = rows->columns};
        CST_TRY(cst_value_metrics_weighted(context, &values, rows->targets, rows->weights, &found,
                                           NULL));
        *out = strcmp(metric->shown.key, "rmse") == 0        ? found.rmse
               : strcmp(metric->shown.key, "mae") == 0       ? found.mae
               : strcmp(metric->shown.key, "median_ae") == 0 ? found.median_ae
               : strcmp(metric->shown.key, "r2") == 0        ? found.r2
                                                             : found.nll;
        return CST_OK;
    }
    cst_metrics found;
    CST_TRY(cst_metrics_weighted(context, rows->values, rows->rows, rows->columns, rows->labels,
                                 rows->weights, 0, &found));
    *out = strcmp(metric->shown.key, "nll") == 0     ? found.nll
           : strcmp(metric->shown.key, "brier") == 0 ? found.brier
           : strcmp(metric->shown.key, "top1") == 0  ? found.top1
           : strcmp(metric->shown.key, "ece") == 0   ? found.ece
                                                     : found.ece_classwise;
    return CST_OK;
}

/* ---- metrics of the caller's own ---- */

struct cst_added_metric {
    cst_metric metric;
    cst_metric_ops ops;
    struct cst_added_metric *next;
};

static const cst_metric *find_added(cst_context *context, const char *name) {
    for (struct cst_added_metric *one = cst_context_root(context)->added_metrics; one;
         one = one->next)
        if (strcmp(one->ops.name, name) == 0)
            return &one->metric;
    return NULL;
}

bool cst_metric_known(cst_context *context, cst_task task, const char *text) {
    return find(task, text) || find_added(context, text);
}

static cst_status call_own(cst_context *context, const cst_metric_ops *ops,
                           const cst_metric_rows *rows, double *out) {
    const cst_scored_rows given = {.struct_size = sizeof given,
                                   .rows = rows->rows,
                                   .columns = rows->columns,
                                   .values = rows->values,
                                   .labels = rows->labels,
                                   .targets = rows->targets,
                                   .weights = rows->weights};
    cst_run *run = cst_calling_begin(context);
    cst_status status = ops->score(ops->user, &given, out);
    cst_calling_end(context, run);
    if (status == CST_OK || status == CST_ERROR_CANCELLED)
        return status;
    return cst_fail(context, CST_ERROR_ARGUMENT,
                    "metric '%s' failed: it must give a number (a program prints it and ends with "
                    "exit status 0)",
                    ops->name);
}

static cst_status keep_added(cst_context *root, const cst_metric_ops *ops) {
    CST_NEW(root, &root->added_scope, struct cst_added_metric, one, 1);
    one->ops = *ops;
    one->ops.name = cst_take_text(root, &root->added_scope, ops->name);
    if (!one->ops.name)
        return CST_ERROR_MEMORY;
    one->metric =
        (cst_metric){.name = one->ops.name,
                     .aliases = "",
                     .shown = SHOWN("custom", one->ops.name, 5, 1, ops->higher_is_better != 0),
                     .definition = "a metric of your own",
                     .own = &one->ops};
    one->next = root->added_metrics; /* the last of a name is found first */
    root->added_metrics = one;
    return CST_OK;
}

cst_status cst_context_add_metric(cst_context *context, const cst_metric_ops *given) {
    CST_ENTER(context);
    CST_STRUCT(context, cst_metric_ops, ops, given);
    if (!ops || !ops->name || !ops->score)
        return cst_fail(context, CST_ERROR_ARGUMENT,
                        "cst_context_add_metric: a name and a function are required");
    size_t length = strlen(ops->name);
    if (length < 1 || length > 40 || strpbrk(ops->name, "=\n\r\t") ||
        find(CST_TASK_CLASSIFICATION, ops->name) || find(CST_TASK_REGRESSION, ops->name))
        return cst_fail(context, CST_ERROR_ARGUMENT,
                        "metric '%.60s': a metric of your own needs a name of 1 to 40 bytes "
                        "without '=' that no other metric has",
                        ops->name);
    return cst_why(context, keep_added(cst_context_root(context), ops));
}

cst_status cst_metric_of(cst_context *context, cst_metric_choice choice,
                         const cst_metric_rows *given, double *out) {
    if (choice.metric->own)
        return call_own(context, choice.metric->own, given, out);
    if (!cst_metric_is_more(choice.metric))
        return score_of(context, choice.metric, given, out);
    CST_SCOPE(scope);
    cst_metric_rows rows;
    CST_TRY(cst_metric_rows_make(context, scope, choice, given, &rows));
    CST_NEW(context, scope, double, scratch, cst_metric_scratch(&rows));
    *out = cst_metric_compute(choice, &rows, rows.weights, scratch);
    return CST_OK;
}

/* ---- the public functions ---- */

const char *cst_metric_meaning(const char *name) {
    for (size_t i = 0; i < METRICS_COUNT; i++)
        if (strcmp(METRICS[i].name, name) == 0)
            return METRICS[i].definition;
    return NULL;
}

const char *cst_metric_name(size_t index, cst_task *task) {
    if (index >= METRICS_COUNT)
        return NULL;
    if (task)
        *task = METRICS[index].task;
    return METRICS[index].name;
}

int cst_metric_is_of(const char *metric, cst_task task) {
    return metric && find(task, metric) != NULL;
}

/* Labels and weights of a caller's rows. */
static cst_status check_rows(cst_context *context, const cst_scored_rows *rows) {
    double total = 0;
    for (int64_t i = 0; rows->labels && i < rows->rows; i++)
        if (rows->labels[i] < 0 || rows->labels[i] >= rows->columns)
            return cst_fail(context, CST_ERROR_INPUT, "label %d of row %lld is not in 0..%lld",
                            (int)rows->labels[i], (long long)i, (long long)rows->columns - 1);
    for (int64_t i = 0; i < rows->rows * rows->columns; i++)
        if (!isfinite(rows->values[i]) || (rows->targets && !isfinite(rows->targets[i])))
            return cst_fail(context, CST_ERROR_INPUT, "row %lld has a value that is not finite",
                            (long long)(i / rows->columns));
    for (int64_t i = 0; rows->weights && i < rows->rows; i++) {
        if (!(rows->weights[i] >= 0 && isfinite(rows->weights[i])))
            return cst_fail(context, CST_ERROR_INPUT, "the weight of row %lld is %g", (long long)i,
                            rows->weights[i]);
        total += rows->weights[i];
    }
    return !rows->weights || total > 0 ? CST_OK
                                       : cst_fail(context, CST_ERROR_INPUT, "all weights are 0");
}

cst_status cst_metric_score(cst_context *context, const char *name,
                            const cst_scored_rows *rows_given, double *out) {
    cst_metric_choice choice;
    CST_SCOPE(scope);
    CST_ENTER(context);
    CST_STRUCT(context, cst_scored_rows, rows, rows_given);
    if (!name || !out || !rows || !rows->values || !rows->labels == !rows->targets ||
        rows->rows < 1 || rows->columns < 1)
        return cst_fail(context, CST_ERROR_ARGUMENT,
                        "cst_metric_score: a metric, a result and rows with values and either "
                        "labels or targets are required");
    CST_COUNT(context, columns, rows->columns);
    CST_FITS(context, rows->rows, rows->columns, sizeof(double));
    CST_TRY(cst_metric_parse(context, scope,
                             rows->labels ? CST_TASK_CLASSIFICATION : CST_TASK_REGRESSION, name,
                             &choice));
    CST_TRY(check_rows(context, rows));
    const cst_metric_rows given = {.values = rows->values,
                                   .rows = rows->rows,
                                   .columns = columns,
                                   .labels = rows->labels,
                                   .targets = rows->targets,
                                   .weights = rows->weights};
    return cst_why(context, cst_metric_of(context, choice, &given, out));
}
