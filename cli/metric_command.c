/* --metric-command: a program of the user's that scores predictions. docs/metrics.md#your-own. */
#define _GNU_SOURCE /* popen, mkdtemp */
#include "cli.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { PATH_CHARS = 256, ANSWER_CHARS = 128 };

/* Predictions and labels or targets, as files in a new folder. */
typedef struct exchange {
    char folder[PATH_CHARS], predictions[PATH_CHARS + 32], labels[PATH_CHARS + 32];
} exchange;

static cst_status write_files(cst_context *context, const cst_scored_rows *rows, exchange *x) {
    const char *base = getenv("TMPDIR");
    (void)snprintf(x->folder, sizeof x->folder, "%.200s/corestack-XXXXXX",
                   base && *base ? base : "/tmp");
    if (!mkdtemp(x->folder)) {
        x->folder[0] = '\0';
        return CST_ERROR_IO;
    }
    (void)snprintf(x->predictions, sizeof x->predictions, "%s/predictions.npy", x->folder);
    (void)snprintf(x->labels, sizeof x->labels, "%s/labels.npy", x->folder);
    cst_status status =
        cst_write_predictions(context, x->predictions, rows->values, rows->rows, rows->columns);
    if (status != CST_OK)
        return status;
    if (rows->labels)
        return cst_write_folds(context, x->labels, rows->labels, rows->rows);
    int64_t count = rows->rows * rows->columns;
    float *targets = malloc((size_t)count * sizeof *targets);
    for (int64_t i = 0; targets && i < count; i++)
        targets[i] = (float)rows->targets[i];
    status = targets ? cst_write_predictions(context, x->labels, targets, rows->rows, rows->columns)
                     : CST_ERROR_MEMORY;
    free(targets);
    return status;
}

static void remove_files(const exchange *x) {
    if (!x->folder[0])
        return;
    (void)unlink(x->predictions);
    (void)unlink(x->labels);
    (void)rmdir(x->folder);
}

static cst_status score(void *user, const cst_scored_rows *rows, double *out) {
    cli_call *call = user;
    char answer[ANSWER_CHARS] = "";
    char script[2 * PATH_CHARS + 4096];
    exchange x = {.folder = ""};
    char *end = answer;
    cst_status status = write_files(call->context, rows, &x);
    (void)snprintf(script, sizeof script, "%.4000s '%s' '%s'", cli_value(call, "metric-command"),
                   x.predictions, x.labels);
    /* NOLINTNEXTLINE(cert-env33-c): a command of the user's */
    FILE *program = status == CST_OK ? popen(script, "r") : NULL;
    if (program && !fgets(answer, sizeof answer, program))
        answer[0] = '\0';
    int how = program ? pclose(program) : -1;
    *out = strtod(answer, &end);
    remove_files(&x);
    if (status == CST_OK && how == 0 && end != answer)
        return CST_OK;
    return CST_ERROR_ARGUMENT;
}

int cli_add_metric_command(cli_call *call) {
    const cst_metric_ops ops = {.struct_size = sizeof ops,
                                .name = "command",
                                .higher_is_better = 1,
                                .score = score,
                                .user = call};
    return cli_check(call, cst_context_add_metric(call->context, &ops));
}
