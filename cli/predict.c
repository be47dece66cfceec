/* corestack predict: a model and a pool in, probabilities out. */
#include "cli.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

typedef struct prediction {
    cli_outfile *outfile;
    cli_outfile *variance; /* of a regression, where asked for */
    cli_outfile *intervals;
    double level; /* of the intervals */
    cst_task task;
    int64_t classes;
    const char *split;
    float *probabilities; /* [rows][classes] */
    int64_t rows;
    int64_t cases; /* of a segmentation; else 0 */
    int64_t detections;
    int64_t most_boxes; /* of an image */
    double least_score;
    cst_guard guard; /* call->guard is what it found; NULL: nothing was tested */
    cst_label_method label_shift;
    int32_t *ran;        /* [rows] members that ran for each, by a cascade; or NULL */
    const char *columns; /* what the columns of a table are, in words; or NULL */
} prediction;

/* Whether columns are outputs, or labels, and no classes. */
static bool has_outputs(const prediction *p) {
    return p->task == CST_TASK_REGRESSION || p->task == CST_TASK_MULTILABEL;
}

static int report(cli_call *call, const prediction *p) {
    const char *format = cli_value(call, "format");
    bool boxes = p->task == CST_TASK_DETECTION;
    CLI_TRY(cli_report(call, "predict"));
    CLI_TRY(cli_put(call, "model", call->arguments[0]));
    if (has_outputs(p))
        CLI_TRY(cli_put(call, "task", cst_task_name(p->task)));
    CLI_TRY(cli_put(call, "split", p->split));
    CLI_TRY(cli_put(call, "out", p->outfile->path));
    CLI_TRY(cli_put_integer(call, "samples", p->rows));
    if (!boxes)
        CLI_TRY(cli_put_integer(call, "classes", p->classes));
    if (p->columns)
        CLI_TRY(cli_put(call, "columns", p->columns));
    if (boxes)
        CLI_TRY(cli_put_integer(call, "images", p->rows));
    if (boxes)
        CLI_TRY(cli_put_integer(call, "detections", p->detections));
    if (p->cases > 0)
        CLI_TRY(cli_put_integer(call, "cases", p->cases));
    if (p->cases > 0)
        CLI_TRY(cli_put(call, "format", format ? format : "maps"));
    if ((p->task == CST_TASK_CLASSIFICATION || p->task == CST_TASK_SEGMENTATION) &&
        p->guard.mode != CST_GUARD_OFF)
        CLI_DO(cst_report_set_guard(call->context, call->report, p->guard.mode, call->guard));
    if (p->ran)
        CLI_DO(cst_report_set_cascade(call->context, call->report, call->model, p->ran, p->rows));
    if (call->shares)
        CLI_DO(cst_report_set_label_shift(call->context, call->report, call->model, call->shares));
    return CLI_OK;
}

static bool as_csv(const prediction *p) {
    return cli_outfile_ends(p->outfile, ".csv");
}

static bool as_json(const prediction *p) {
    return cli_outfile_ends(p->outfile, ".json");
}

static int check_kind(cli_call *call, const prediction *p) {
    const char *tables[] = {"like", "column"};
    for (size_t i = 0; i < 2; i++)
        if (cli_value(call, tables[i]) && !as_csv(p))
            return cli_fail(call, "option --%s is for tables: give -o a name that ends in .csv",
                            tables[i]);
    if (as_csv(p) || as_json(p) || cli_outfile_is_npy(p->outfile) || p->task == CST_TASK_TOPK)
        return CLI_OK;
    return cli_fail(call,
                    "-o %s: predictions are written as .npy or .csv, detections as .json; use one "
                    "of these extensions",
                    p->outfile->path);
}

/* The class or output of --column, by number without names; -1 after a message. */
static int64_t column_class(cli_call *call, const prediction *p, const char *const *names) {
    const char *column = cli_value(call, "column");
    bool values = has_outputs(p);
    char number[24];
    for (int64_t c = 0; c < p->classes; c++) {
        (void)snprintf(number, sizeof number, "%lld", (long long)c);
        if (strcmp(names ? names[c] : number, column) == 0)
            return c;
    }
    if (values ? p->classes == 1 : p->classes == 2)
        return p->classes - 1;
    (void)cli_fail(call,
                   "option --column %s: the model has %lld %s%s, of which none is called that; "
                   "name one of them, or use --like",
                   column, (long long)p->classes, values ? "outputs" : "classes",
                   names ? "" : ", numbered from 0");
    return -1;
}

/* One column of the predictions under the name of --column. */
static int write_column(cli_call *call, prediction *p, const char *const *ids,
                        const char *const *names) {
    const char *column = cli_value(call, "column");
    int64_t c = column_class(call, p, names);
    char number[24];
    float *values = NULL;
    char *said = NULL;
    if (c < 0)
        return CLI_BAD_INPUT;
    (void)snprintf(number, sizeof number, "%lld", (long long)c);
    const char *class = names ? names[c] : number;
    size_t size = strlen(column) + strlen(class) + 64;
    CLI_TAKE(values, p->rows);
    CLI_TAKE(said, size);
    for (int64_t i = 0; i < p->rows; i++)
        values[i] = p->probabilities[i * p->classes + c];
    (void)snprintf(said, size,
                   p->task == CST_TASK_REGRESSION ? "column '%s': the predicted value"
                                                  : "column '%s': probability of class '%s'",
                   column, class);
    p->columns = said;
    return cli_check(call, cst_write_predictions_csv(call->context, p->outfile->final, values,
                                                     p->rows, 1, ids, &column));
}

/* Says of members of one column what the only column of the result is. */
static int say_single(cli_call *call, prediction *p) {
    const char *class = cst_model_class_name(call->model, 1);
    char *said = NULL;
    size_t size = 64;
    if (!cst_pool_single(call->pool, p->split) || p->classes != 2)
        return CLI_OK;
    size += class ? strlen(class) : 0;
    CLI_TAKE(said, size);
    (void)snprintf(said, size, "one column: probability of class '%s'", class ? class : "1");
    p->columns = said;
    return CLI_OK;
}

/* Ids and class names where the pool and the model have them. */
static int write_some(cli_call *call, prediction *p) {
    const char **ids = NULL;
    const char **names = NULL;
    char *said = NULL;
    CLI_TRY(cli_table_names(call, p->split, p->rows, &ids, &names));
    if (!cli_value(call, "like"))
        return write_column(call, p, ids, names);
    CLI_DO(cst_write_predictions_like(call->context, p->outfile->final, cli_value(call, "like"),
                                      cli_value(call, "column"), has_outputs(p), p->probabilities,
                                      p->rows, p->classes, ids, names, &said));
    cli_keep(call, said);
    p->columns = said;
    return CLI_OK;
}

static int open_inputs(cli_call *call, prediction *p) {
    CLI_TRY(cli_open_both(call));
    p->split = cli_split(call, "test");
    p->task = cst_model_task(call->model);
    p->classes = cst_model_classes(call->model);
    return CLI_OK;
}

/* --max-detections and --min-score, before any work. */
static int read_limits(cli_call *call, prediction *p) {
    const char *text = cli_value(call, "min-score");
    char *end = NULL;
    p->most_boxes = 100;
    CLI_TRY(cli_integer(call, "max-detections", 1, CLI_WHOLE_MAX, &p->most_boxes));
    p->least_score = text ? strtod(text, &end) : 0.001;
    if (text && (end == text || *end || !(p->least_score >= 0 && p->least_score <= 1)))
        return cli_fail(call, "option --min-score: '%s' is not a number from 0 to 1", text);
    return CLI_OK;
}

/* Detections: a COCO results file. */
static int write_boxes(cli_call *call, prediction *p) {
    if (cli_value(call, "format"))
        return cli_fail(call, "option --format is for segmentation: remove it");
    bool named = as_csv(p) || cli_outfile_ends(p->outfile, ".npy");
    if (!as_json(p) && (named || !p->outfile->direct))
        return cli_fail(call,
                        "-o %s: detections are written as COCO results; use the extension .json",
                        p->outfile->path);
    return cli_check(call, cst_model_predict_detections(call->context, call->model, call->pool,
                                                        p->split, p->outfile->final, p->most_boxes,
                                                        p->least_score, &p->rows, &p->detections));
}

/* The guard's mode, with a notice where it was named and the model has no reference. */
static cst_guard asked(cli_call *call, const prediction *p) {
    cst_guard guard = p->guard;
    if (!cli_value(call, "guard") && !cli_value(call, "batch") && !cst_model_has_guard(call->model))
        guard.mode = CST_GUARD_OFF;
    return guard;
}

/* What the model decides for, alone or, for --like, as probabilities of 0 and 1. */
static int write_decided(cli_call *call, prediction *p) {
    const char **ids = NULL;
    const char **names = NULL;
    int32_t *labels = NULL;
    CLI_TAKE(labels, p->rows);
    CLI_DO(cst_model_decide(call->context, call->model, p->probabilities, p->rows, labels));
    for (int64_t i = 0; i < p->rows * p->classes; i++)
        p->probabilities[i] = labels[i / p->classes] == i % p->classes;
    if (cli_value(call, "like"))
        return write_some(call, p);
    CLI_TRY(cli_table_names(call, p->split, p->rows, &ids, &names));
    p->columns = as_csv(p) ? "column 'label': the class that is decided for"
                           : "the class of each row that is decided for, int32";
    return cli_check(call, cst_write_labels(call->context, p->outfile->final, labels, p->rows,
                                            p->classes, ids, names));
}

static int write_rows(cli_call *call, prediction *p) {
    cst_context *context = call->context;
    if (as_json(p))
        return cli_fail(call,
                        "-o %s: probabilities are written as .npy or .csv; .json is for detections",
                        p->outfile->path);
    if (cli_value(call, "format"))
        return cli_fail(call, "option --format is for segmentation: remove it");
    CLI_TRY(cli_check_table(call, p->outfile, p->split));
    const cst_guard guard = asked(call, p);
    CLI_DO(cst_model_predict_guarded(context, call->model, call->pool, p->split, &guard,
                                     &p->probabilities, &p->rows, &call->guard));
    cli_keep(call, p->probabilities);
    if (cli_flag(call, "cascade")) {
        CLI_TAKE(p->ran, p->rows);
        CLI_DO(cst_model_cascade(context, call->model, call->pool, p->split, call->guard, p->rows,
                                 p->probabilities, p->ran));
    }
    if (p->label_shift != CST_LABEL_OFF)
        CLI_DO(cst_model_label_shift(context, call->model, p->label_shift, call->guard, p->rows,
                                     p->probabilities, &call->shares));
    if (cli_flag(call, "decide") && p->task == CST_TASK_CLASSIFICATION)
        return write_decided(call, p);
    if (cli_flag(call, "decide")) {
        CLI_DO(cst_model_decide_values_pool(context, call->model, call->pool, p->split,
                                            &p->probabilities, &p->rows));
        cli_keep(call, p->probabilities);
        p->columns = "values for the metric of the fit";
    }
    if (cli_value(call, "like") || cli_value(call, "column"))
        return write_some(call, p);
    CLI_TRY(say_single(call, p));
    return cli_write_rows(call, p->outfile, p->split, p->probabilities, p->rows);
}

/* ---- lists of the likeliest classes ---- */

/* The likeliest class of each row. */
static int write_likeliest(cli_call *call, prediction *p, const cst_topk *topk) {
    const char **ids = NULL;
    const char **names = NULL;
    int32_t *labels = NULL;
    if (!as_csv(p) && !cli_outfile_is_npy(p->outfile))
        return cli_fail(call, "-o %s: decided classes are written as .npy or .csv",
                        p->outfile->path);
    CLI_TRY(cli_check_table(call, p->outfile, p->split));
    CLI_TRY(cli_table_names(call, p->split, p->rows, &ids, &names));
    CLI_TAKE(labels, p->rows);
    for (int64_t i = 0; i < p->rows; i++)
        labels[i] = topk->indices[i * topk->top] < 0 ? 0 : topk->indices[i * topk->top];
    return cli_check(call, cst_write_labels(call->context, p->outfile->final, labels, p->rows,
                                            p->classes, ids, names));
}

static int write_lists(cli_call *call, prediction *p) {
    cst_topk *topk = NULL;
    int64_t top = 0;
    int code = CLI_OK;
    const char *const foreign[] = {"like", "column", "format"};
    for (size_t i = 0; i < sizeof foreign / sizeof foreign[0]; i++)
        if (cli_value(call, foreign[i]))
            return cli_fail(call,
                            "option --%s is not for lists of the likeliest classes: remove it",
                            foreign[i]);
    CLI_TRY(cli_integer(call, "top", 1, CLI_WHOLE_MAX, &top));
    if (cli_flag(call, "decide")) {
        p->columns = "the likeliest class of each row";
        CLI_DO(cst_model_predict_topk(call->context, call->model, call->pool, p->split, 1, &topk));
        p->rows = topk->rows;
        code = write_likeliest(call, p, topk);
        cst_topk_free(call->context, topk);
        return code;
    }
    if (p->outfile->direct && cli_writes())
        return cli_fail(
            call,
            "-o %s: lists of the likeliest classes are written to a file, not to a pipe "
            "or a device: name a file that ends in .npz",
            p->outfile->path);
    if (!cli_outfile_ends(p->outfile, ".npz"))
        return cli_fail(call,
                        "-o %s: lists of the likeliest classes are written as .npz; use that "
                        "extension, or --decide for the likeliest class of each row",
                        p->outfile->path);
    p->columns = "indices, logprobs and rest";
    return cli_check(call,
                     cst_model_write_topk(call->context, call->model, call->pool, p->split, top,
                                          cli_writes() ? p->outfile->final : NULL, &p->rows));
}

/* ---- values of a regression ---- */

/* Looks at --variance and --intervals, before any work. */
static int open_doubt(cli_call *call, prediction *p) {
    const char *variances = cli_value(call, "variance");
    const char *intervals = cli_value(call, "intervals");
    if (cli_value(call, "level") && !intervals)
        return cli_fail(call, "option --level requires --intervals");
    p->level = 0.9;
    CLI_TRY(cli_share_of(call, "level", &p->level));
    if (variances)
        CLI_TRY(cli_open_outfile_of(call, "variance", "the variance", p->variance));
    if (intervals)
        CLI_TRY(cli_open_outfile_of(call, "intervals", "the array of intervals", p->intervals));
    if ((variances && !cli_outfile_is_npy(p->variance)) ||
        (intervals && !cli_outfile_is_npy(p->intervals)))
        return cli_fail(call, "variances and intervals are written as .npy; use that extension");
    return CLI_OK;
}

/* Beside the values: their variances, and both ends of the intervals, [2, samples, outputs]. */
static int write_doubt(cli_call *call, const prediction *p) {
    float *mean = NULL;
    float *variance = NULL;
    float *ends = NULL;
    int64_t rows = 0;
    if (!p->variance->path && !p->intervals->path)
        return CLI_OK;
    CLI_DO(cst_model_predict_values_pool(call->context, call->model, call->pool, p->split, &mean,
                                         &variance, &rows));
    cli_keep(call, mean);
    cli_keep(call, variance);
    if (p->variance->path)
        CLI_TRY(cli_write_array(call, p->variance->final, variance, 0, rows, p->classes));
    if (!p->intervals->path)
        return CLI_OK;
    CLI_TAKE(ends, 2 * rows * p->classes);
    CLI_DO(cst_model_intervals(call->context, call->model, p->level, mean, variance, rows, ends,
                               ends + rows * p->classes));
    return cli_write_array(call, p->intervals->final, ends, 2, 2 * rows, p->classes);
}

/* ---- maps of a segmentation ---- */

/* Endings of files that are neither a folder of maps nor one array of them. */
static bool names_other_file(const cli_outfile *outfile) {
    static const char *const others[] = {".png", ".jpg", ".jpeg", ".tif", ".tiff", ".json",  ".npz",
                                         ".csv", ".txt", ".gz",   ".nii", ".zip",  ".cstack"};
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++)
        if (cli_outfile_ends(outfile, others[i]))
            return true;
    return false;
}

static int write_maps(cli_call *call, prediction *p) {
    cli_outfile *outfile = p->outfile;
    int format = CST_MAP_FLOAT32;
    CLI_TRY(cli_choice(call, "format", "maps|maps-float16|labels|png", &format));
    if (names_other_file(outfile))
        return cli_fail(call,
                        "-o %s: maps are written to one .npy file, or to a folder with one file "
                        "per case; use a name without this extension",
                        outfile->path);
    if (format == CST_MAP_PNG && !outfile->folder)
        return cli_fail(
            call, "-o %s: PNG label maps are written to a folder, one file per case; name a folder",
            outfile->path);
    /* a link says what kind of file it is, whatever it leads to */
    const char *at = outfile->folder || outfile->direct ? outfile->final : outfile->path;
    const cst_guard guard = asked(call, p);
    cst_status status = cst_segmentation_predict_guarded(
        call->context, call->model, call->pool, p->split, &guard, (cst_map_format)format,
        cli_value(call, "id-map"), at, &p->cases, &p->rows, &call->guard);
    return cli_check(call, status);
}

/* Whether -o names no file of ours, so that only the task says what it may be. */
static bool names_folder(const cli_call *call) {
    const char *path = cli_value(call, "output");
    const cli_outfile named = {.path = path};
    struct stat info;
    if (!path || !*path || strcmp(path, "-") == 0 || cst_path_is_descriptor(path))
        return false;
    if (stat(path, &info) == 0 && !S_ISREG(info.st_mode) && !S_ISDIR(info.st_mode))
        return false;
    return !cli_outfile_ends(&named, ".npy") && !cli_outfile_ends(&named, ".csv") &&
           !cli_outfile_ends(&named, ".json");
}

/* The targets and what is read, looked at before any work. */
static int open_all(cli_call *call, prediction *p) {
    bool late = names_folder(call);
    if (late)
        CLI_TRY(open_inputs(call, p));
    if (late && cst_pool_task(call->pool) == CST_TASK_SEGMENTATION) {
        CLI_TRY(cli_open_out_folder(call, "one file per case",
                                    ", or a name that ends in .npy for a single array",
                                    p->outfile));
    } else {
        CLI_TRY(cli_open_outfile(call, "the prediction", p->outfile));
        CLI_TRY(check_kind(call, p));
    }
    CLI_TRY(open_doubt(call, p));
    if (!late)
        CLI_TRY(open_inputs(call, p));
    if ((p->variance->path || p->intervals->path) && p->task != CST_TASK_REGRESSION)
        return cli_fail(call, "options --variance and --intervals are for regression");
    return CLI_OK;
}

static int read_guard(cli_call *call, prediction *p) {
    static const cst_guard_mode modes[] = {CST_GUARD_AUTO, CST_GUARD_WARN, CST_GUARD_OFF};
    int mode = 0;
    int label_shift = CST_LABEL_OFF;
    CLI_TRY(cli_choice(call, "guard", "auto|warn|off", &mode));
    CLI_TRY(cli_integer(call, "batch", 1, CLI_WHOLE_MAX, &p->guard.batch));
    p->guard.mode = modes[mode];
    if (p->guard.batch > 0 && p->guard.mode == CST_GUARD_OFF)
        return cli_fail(call, "option --batch is for the guard, which is off: remove one of them");
    CLI_TRY(cli_choice(call, "label-shift", "off|em|bbse|fixed", &label_shift));
    p->label_shift = (cst_label_method)label_shift;
    if (p->label_shift != CST_LABEL_OFF && p->guard.mode == CST_GUARD_OFF)
        return cli_fail(call, "option --label-shift needs the guard, which is off: use --guard "
                              "auto or warn");
    return CLI_OK;
}

/* Classes have it, and pixels, where a case is a batch. */
static int check_guard(cli_call *call, const prediction *p) {
    if (p->task == CST_TASK_SEGMENTATION && cli_value(call, "batch"))
        return cli_fail(call, "option --batch is not supported for segmentation: the guard tests "
                              "each case (image or volume)");
    if (p->task != CST_TASK_CLASSIFICATION && p->task != CST_TASK_SEGMENTATION &&
        (cli_value(call, "guard") || cli_value(call, "batch")))
        return cli_fail(call, "options --guard and --batch are not supported for %s",
                        cst_task_name(p->task));
    if (p->task != CST_TASK_CLASSIFICATION && cli_value(call, "label-shift"))
        return cli_fail(call, "option --label-shift is not supported for %s",
                        cst_task_name(p->task));
    return CLI_OK;
}

static int run(cli_call *call) {
    prediction p = {.variance = cli_new_outfile(call)};
    p.intervals = cli_new_outfile(call);
    p.outfile = cli_new_outfile(call);
    CLI_TRY(read_guard(call, &p));
    CLI_TRY(read_limits(call, &p));
    CLI_TRY(cli_formulas(call));
    CLI_TRY(open_all(call, &p));
    CLI_TRY(check_guard(call, &p));
    bool maps = p.task == CST_TASK_SEGMENTATION;
    bool boxes = p.task == CST_TASK_DETECTION;
    if ((maps || boxes) && (cli_value(call, "like") || cli_value(call, "column")))
        return cli_fail(call, "options --like and --column are not supported for %s",
                        cst_task_name(p.task));
    bool values = p.task == CST_TASK_REGRESSION;
    bool lists = p.task == CST_TASK_TOPK;
    if (cli_value(call, "top") && !lists)
        return cli_fail(call, "option --top is for lists of the likeliest classes: remove it");
    if (cli_flag(call, "decide") && !values && !lists && p.task != CST_TASK_CLASSIFICATION)
        return cli_fail(call, "option --decide is for classification and regression%s",
                        maps ? ": --format labels or png writes decided maps" : "");
    if (cli_flag(call, "cascade") && p.task != CST_TASK_CLASSIFICATION)
        return cli_fail(call, "option --cascade is for classification: remove it");
    if (cli_flag(call, "cascade") && p.label_shift != CST_LABEL_OFF)
        return cli_fail(call, "options --cascade and --label-shift: give one of them");
    if (!maps && cli_value(call, "id-map"))
        return cli_fail(call, "option --id-map is for segmentation: remove it");
    if (cli_flag(call, "decide") && !values && cli_value(call, "column") &&
        !cli_value(call, "like"))
        return cli_fail(call, "option --decide writes a column 'label': remove --column, or give "
                              "the form of the file with --like SAMPLE.csv");
    if (!boxes && (cli_value(call, "max-detections") || cli_value(call, "min-score")))
        return cli_fail(call, "options --max-detections and --min-score are for detection");
    CLI_TRY((maps ? write_maps : boxes ? write_boxes : lists ? write_lists : write_rows)(call, &p));
    CLI_TRY(write_doubt(call, &p));
    return report(call, &p);
}

static const cli_option OPTIONS[] = {
    {"output", 'o', "OUT.npy",
     "file to write. Classification and regression: .npy or .csv with probabilities [samples, "
     "classes] ([samples] where the members are one column) or values [samples] or [samples, "
     "outputs]. Segmentation: .npy, or a new folder with "
     "one file per case. Detection: COCO results, .json. Lists of the likeliest classes: .npz"},
    {"top", 0, "K",
     "lists of the likeliest classes: how many classes of each row are written (as many as the "
     "widest member lists)"},
    {"format", 0, "KIND",
     "segmentation: maps (probabilities; default), maps-float16, labels (class numbers) or png "
     "(class numbers as images)"},
    {"id-map", 0, "FILE",
     "segmentation, with --format png or labels: write the ids of this file (a JSON list, or lines "
     "class,id) in place of class numbers; cityscapes: those of its 19 train ids, with its "
     "colours"},
    {"variance", 0, "FILE.npy", "regression: also write the variance of each value"},
    {"intervals", 0, "FILE.npy",
     "regression: also write both ends of the intervals, [2, samples, outputs]"},
    {"level", 0, "P", "regression: coverage of the intervals (0.9)"},
    {"like", 0, "SAMPLE.csv",
     "classification and regression: write a .csv with the columns of this sample submission, its "
     "ids and their order"},
    {"column", 0, "NAME",
     "with .csv: write one column of this name; with --like: fill this column and copy the others"},
    {"decide", 0, NULL,
     "classification: write the decided class of each row, by the metric of the fit "
     "(fit --metric, --cost-matrix) or the largest probability; regression: write the values that "
     "this metric is best with, such as medians"},
    {"cascade", 0, NULL,
     "classification: run the members of each row one after another and stop as the cascade of the "
     "model does (fit --cascade); the report says what that saves"},
    {"formulas", 0, "HOW",
     "with .csv: texts such as -abc or =x, which a spreadsheet would compute, are written with an "
     "apostrophe in front (mark; default) or as they are (keep)"},
    {"guard", 0, "MODE",
     "classification, segmentation: what to do with batches of rows, or cases, that differ from "
     "the fit data: auto (mix in the average of all members; default), warn or off"},
    {"batch", 0, "N",
     "classification: rows of a batch of the guard, in the order of the file (all rows, or each "
     "condition of the "
     "split)"},
    {"label-shift", 0, "METHOD",
     "classification: estimate the class shares of each batch without labels, by em or bbse, and "
     "correct the probabilities where tests find that only these have changed; or, for a new "
     "domain with the class shares of the fit rows, correct batches towards these (fixed) (off)"},
    {"max-detections", 0, "N",
     "detection: most boxes of an image, those with the highest scores (100)"},
    {"min-score", 0, "S", "detection: lowest score, the probability that the box is right (0.001)"},
    {"split", 0, "NAME", "split to predict (test, or the only one)"},
    {NULL, 0, NULL, NULL},
};

const cli_command CLI_PREDICT = {
    .name = "predict",
    .summary = "predict a split of a pool with a fitted stack",
    .usage = "predict MODEL POOL -o OUT.npy [--split NAME] [options]\n"
             "predict MODEL a.npy b.npy ... -o OUT.npy [options]\n"
             "predict MODEL wide.csv -o OUT.csv [options]\n"
             "predict MODEL POOL -o FOLDER --format png\n"
             "predict MODEL POOL -o OUT.json",
    .details = "Members are matched to the model by name; only those that the model uses are read. "
               "Rows are in the order of the split. A .csv file has a header and, if the pool has "
               "sample ids, a column of ids.\n"
               "With --like, columns are matched to classes by name. A single column is the "
               "probability of the class of its name, else of the second of two classes, or the "
               "most probable class if the sample has labels; the report says which. An id that "
               "only the sample or only the split has is an error.",
    .example = "corestack predict digits.cstack examples/digits/pool.json --split test -o out.npy\n"
               "corestack predict m.cstack test/ --like sample_submission.csv -o submission.csv",
    .options = OPTIONS,
    .needs = "model",
    .takes_pool = true,
    .unlabelled = 2,
    .run = run,
};
