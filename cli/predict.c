/* corestack predict: a model and a pool in, probabilities out. */
#include "cli.h"

#include <corestack/detection.h>
#include <corestack/files.h>
#include <corestack/guard.h>
#include <corestack/label_shift.h>
#include <corestack/regression.h>
#include <corestack/report.h>
#include <corestack/segmentation.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* What one prediction works with. */
typedef struct prediction {
    cli_outfile outfile;
    cli_outfile variance; /* of a regression, where asked for */
    cli_outfile intervals;
    double level; /* of the intervals */
    cst_model *model;
    cst_pool *pool;
    const char *split;
    float *probabilities; /* [rows][classes] */
    int64_t rows;
    int64_t cases; /* of a segmentation; else 0 */
    bool boxes;    /* of detection: images are in `rows` */
    int64_t detections;
    cst_guard guard;
    cst_guard_report *found; /* what the guard found; NULL: nothing was tested */
    cst_label_method label_shift;
    cst_label_report *shares; /* what was found of label shift; NULL: not asked for */
    char *columns;            /* what the columns of a table are, in words; or NULL */
} prediction;

static int report(cli_call *call, const prediction *p) {
    cst_context *context = call->context;
    cst_report *document = NULL;
    const char *format = cli_value(call, "format");
    cst_status status = cst_report_new(context, "predict", &document);
    CST_THEN(cst_report_set_string(context, document, "model", call->arguments[0]));
    if (status == CST_OK && cst_model_task(p->model) == CST_TASK_REGRESSION)
        status = cst_report_set_string(context, document, "task", "regression");
    CST_THEN(cst_report_set_string(context, document, "split", p->split));
    CST_THEN(cst_report_set_string(context, document, "out", p->outfile.path));
    CST_THEN(cst_report_set_integer(context, document, "samples", p->rows));
    if (status == CST_OK && !p->boxes)
        status = cst_report_set_integer(context, document, "classes", cst_model_classes(p->model));
    if (status == CST_OK && p->columns)
        status = cst_report_set_string(context, document, "columns", p->columns);
    if (status == CST_OK && p->boxes)
        status = cst_report_set_integer(context, document, "images", p->rows);
    if (status == CST_OK && p->boxes)
        status = cst_report_set_integer(context, document, "detections", p->detections);
    if (status == CST_OK && p->cases > 0)
        status = cst_report_set_integer(context, document, "cases", p->cases);
    if (status == CST_OK && p->cases > 0)
        status = cst_report_set_string(context, document, "format", format ? format : "maps");
    cst_task task = cst_model_task(p->model);
    if (status == CST_OK && (task == CST_TASK_CLASSIFICATION || task == CST_TASK_SEGMENTATION) &&
        p->guard.mode != CST_GUARD_OFF)
        status = cst_report_set_guard(context, document, p->guard.mode, p->found);
    if (status == CST_OK && p->shares)
        status = cst_report_set_label_shift(context, document, p->model, p->shares);
    return cli_end_report(call, document, cli_check(call, status));
}

static bool as_csv(const prediction *p) {
    return cli_outfile_ends(&p->outfile, ".csv");
}

static bool as_json(const prediction *p) {
    return cli_outfile_ends(&p->outfile, ".json");
}

static int check_kind(cli_call *call, const prediction *p) {
    const char *tables[] = {"like", "column"};
    for (size_t i = 0; i < 2; i++)
        if (cli_value(call, tables[i]) && !as_csv(p))
            return cli_fail(call, "option --%s is for tables: give -o a name that ends in .csv",
                            tables[i]);
    if (as_csv(p) || as_json(p) || cli_outfile_is_npy(&p->outfile))
        return CLI_OK;
    return cli_fail(call,
                    "-o %s: predictions are written as .npy or .csv, detections as .json; use one "
                    "of these extensions",
                    p->outfile.path);
}

/* The class, or output, that --column is about, by its number where classes have no names; -1 after
 * a message. */
static int32_t column_class(cli_call *call, const prediction *p, const char *const *names) {
    const char *column = cli_value(call, "column");
    int32_t classes = cst_model_classes(p->model);
    bool values = cst_model_task(p->model) == CST_TASK_REGRESSION;
    char number[16];
    for (int32_t c = 0; c < classes; c++) {
        (void)snprintf(number, sizeof number, "%d", (int)c);
        if (strcmp(names ? names[c] : number, column) == 0)
            return c;
    }
    if (values ? classes == 1 : classes == 2)
        return classes - 1;
    (void)cli_fail(call,
                   "option --column %s: the model has %d %s%s, of which none is called that; name "
                   "one of them, or use --like",
                   column, (int)classes, values ? "outputs" : "classes",
                   names ? "" : ", numbered from 0");
    return -1;
}

/* One column of the predictions under the name of --column. */
static int write_column(cli_call *call, prediction *p, const char *const *ids,
                        const char *const *names) {
    const char *column = cli_value(call, "column");
    int32_t classes = cst_model_classes(p->model);
    int32_t c = column_class(call, p, names);
    float *values = calloc((size_t)p->rows + 1, sizeof *values);
    char number[16];
    (void)snprintf(number, sizeof number, "%d", (int)c);
    if (!values || c < 0) {
        free(values);
        return c < 0 ? CLI_BAD_INPUT : cli_check(call, CST_ERROR_MEMORY);
    }
    for (int64_t i = 0; i < p->rows; i++)
        values[i] = p->probabilities[i * classes + c];
    int code = cli_check(call, cst_write_predictions_csv(call->context, p->outfile.final, values,
                                                         p->rows, 1, ids, &column));
    free(values);
    bool output = cst_model_task(p->model) == CST_TASK_REGRESSION;
    const char *parts[] = {"column '", column,
                           output ? "': the predicted value"
                                  : "': probability "
                                    "of class '",
                           output  ? ""
                           : names ? names[c]
                                   : number,
                           output ? "" : "'"};
    size_t length = 1;
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++)
        length += strlen(parts[i]);
    p->columns = calloc(length, 1);
    size_t used = 0;
    for (size_t i = 0; p->columns && i < sizeof parts / sizeof parts[0]; i++) {
        memcpy(p->columns + used, parts[i], strlen(parts[i]));
        used += strlen(parts[i]);
    }
    return code;
}

static int write_like(cli_call *call, prediction *p, const char *const *ids,
                      const char *const *names) {
    char *said = NULL;
    cst_status status = cst_write_predictions_like(
        call->context, p->outfile.final, cli_value(call, "like"), cli_value(call, "column"),
        cst_model_task(p->model) == CST_TASK_REGRESSION, p->probabilities, p->rows,
        cst_model_classes(p->model), ids, names, &said);
    int code = cli_check(call, status);
    p->columns = said ? strdup(said) : NULL;
    cst_free(call->context, said);
    return code;
}

/* Ids and class names where the pool and the model have them. */
static int write_csv(cli_call *call, prediction *p) {
    int32_t classes = cst_model_classes(p->model);
    bool has_ids = cst_pool_id(p->pool, p->split, 0) != NULL;
    bool named = cst_model_class_name(p->model, 0) || cst_pool_class_name(p->pool, 0);
    const char **ids = calloc((size_t)p->rows + 1, sizeof *ids);
    const char **names = calloc((size_t)classes + 1, sizeof *names);
    int code = CLI_INTERNAL;
    if (!ids || !names) {
        code = cli_check(call, CST_ERROR_MEMORY);
        goto cleanup;
    }
    for (int64_t i = 0; has_ids && i < p->rows; i++)
        ids[i] = cst_pool_id(p->pool, p->split, i);
    for (int32_t c = 0; named && c < classes; c++) {
        const char *name = cst_model_class_name(p->model, c);
        names[c] = name ? name : cst_pool_class_name(p->pool, c);
    }
    const char *const *given_ids = has_ids ? ids : NULL;
    const char *const *given_names = named ? names : NULL;
    if (cli_value(call, "like"))
        code = write_like(call, p, given_ids, given_names);
    else if (cli_value(call, "column"))
        code = write_column(call, p, given_ids, given_names);
    else
        code = cli_check(call, cst_write_predictions_csv(call->context, p->outfile.final,
                                                         p->probabilities, p->rows, classes,
                                                         given_ids, given_names));
cleanup:
    free(ids);
    free(names);
    return code;
}

/* [samples, classes], or [conditions, samples, classes]; conditions: 0: none. */
static int write_array(cli_call *call, const cli_outfile *outfile, const float *values,
                       int32_t conditions, int64_t rows, int32_t classes) {
    cst_status status =
        conditions > 0
            ? cst_write_predictions_conditions(call->context, outfile->final, values, conditions,
                                               rows, classes)
            : cst_write_predictions(call->context, outfile->final, values, rows, classes);
    return cli_check(call, status);
}

/* In the form of the members' own files. */
static int write_npy(cli_call *call, const prediction *p) {
    int32_t conditions = cst_pool_conditions(p->pool, p->split);
    return write_array(call, &p->outfile, p->probabilities, conditions,
                       conditions > 0 ? p->rows / conditions : p->rows,
                       cst_model_classes(p->model));
}

static int open_inputs(cli_call *call, prediction *p) {
    int code = cli_check(call, cst_model_load(call->context, &p->model, call->arguments[0]));
    if (code == CLI_OK)
        code = cli_open_pool_of(call, 1, p->model, &p->pool);
    p->split = cli_split(call, p->pool, "test");
    return code;
}

/* Detections: a COCO results file. */
static int write_boxes(cli_call *call, prediction *p) {
    p->boxes = true;
    if (cli_value(call, "format"))
        return cli_fail(call, "option --format is for segmentation: remove it");
    bool named = as_csv(p) || cli_outfile_ends(&p->outfile, ".npy");
    if (!as_json(p) && (named || !p->outfile.direct))
        return cli_fail(call,
                        "-o %s: detections are written as COCO results; use the extension .json",
                        p->outfile.path);
    return cli_check(call,
                     cst_model_predict_detections(call->context, p->model, p->pool, p->split,
                                                  p->outfile.final, &p->rows, &p->detections));
}

/* The mode that the user named, with a notice where a model has nothing to compare with. As the
 * default, the guard of a model without a reference says nothing. */
static cst_guard asked(cli_call *call, const prediction *p) {
    cst_guard guard = p->guard;
    if (!cli_value(call, "guard") && !cli_value(call, "batch") && !cst_model_has_guard(p->model))
        guard.mode = CST_GUARD_OFF;
    return guard;
}

static int write_rows(cli_call *call, prediction *p) {
    int code = CLI_OK;
    if (as_json(p))
        return cli_fail(call,
                        "-o %s: probabilities are written as .npy or .csv; .json is for detections",
                        p->outfile.path);
    if (cli_value(call, "format"))
        return cli_fail(call, "option --format is for segmentation: remove it");
    if (as_csv(p) && cst_pool_conditions(p->pool, p->split) > 0)
        return cli_fail(call,
                        "-o %s: split '%s' has several conditions, which do not fit into a table; "
                        "write a .npy file",
                        p->outfile.path, p->split);
    const cst_guard guard = asked(call, p);
    code =
        cli_check(call, cst_model_predict_guarded(call->context, p->model, p->pool, p->split,
                                                  &guard, &p->probabilities, &p->rows, &p->found));
    if (code == CLI_OK && p->label_shift != CST_LABEL_OFF)
        code =
            cli_check(call, cst_model_label_shift(call->context, p->model, p->label_shift, p->found,
                                                  p->rows, p->probabilities, &p->shares));
    if (code == CLI_OK && as_csv(p))
        return write_csv(call, p);
    return code == CLI_OK ? write_npy(call, p) : code;
}

/* ---- values of a regression ---- */

/* --level; 0.9 where it is not given. */
static int read_level(cli_call *call, double *level) {
    const char *text = cli_value(call, "level");
    char *end = NULL;
    *level = text ? strtod(text, &end) : 0.9;
    if ((text && (end == text || *end)) || !(*level > 0 && *level < 1))
        return cli_fail(call, "option --level: '%s' is not a number between 0 and 1", text);
    return CLI_OK;
}

/* Looks at --variance and --intervals, before any work. */
static int open_doubt(cli_call *call, prediction *p) {
    const char *variances = cli_value(call, "variance");
    const char *intervals = cli_value(call, "intervals");
    if (cli_value(call, "level") && !intervals)
        return cli_fail(call, "option --level requires --intervals");
    int code = read_level(call, &p->level);
    if (code == CLI_OK && variances)
        code = cli_open_outfile_of(call, "variance", "the variance", &p->variance);
    if (code == CLI_OK && intervals)
        code = cli_open_outfile_of(call, "intervals", "the array of intervals", &p->intervals);
    if (code == CLI_OK && ((variances && !cli_outfile_is_npy(&p->variance)) ||
                           (intervals && !cli_outfile_is_npy(&p->intervals))))
        code = cli_fail(call, "variances and intervals are written as .npy; use that extension");
    return code;
}

/* Only values have them. */
static int check_doubt(cli_call *call, const prediction *p) {
    if ((p->variance.path || p->intervals.path) && cst_model_task(p->model) != CST_TASK_REGRESSION)
        return cli_fail(call, "options --variance and --intervals are for regression");
    return CLI_OK;
}

/* Writes both ends of the intervals, [2, samples, outputs]. */
static int write_intervals(cli_call *call, const prediction *p, const float *variance) {
    size_t cells = (size_t)p->rows * (size_t)cst_model_classes(p->model);
    float *ends = calloc(2 * cells + 1, sizeof *ends);
    if (!ends)
        return cli_check(call, CST_ERROR_MEMORY);
    cst_status status = cst_model_intervals(call->context, p->model, p->level, p->probabilities,
                                            variance, p->rows, ends, ends + cells);
    int code = cli_check(call, status);
    if (code == CLI_OK)
        code = write_array(call, &p->intervals, ends, 2, p->rows, cst_model_classes(p->model));
    free(ends);
    return code;
}

/* Beside the values: their variances and intervals. */
static int write_doubt(cli_call *call, const prediction *p) {
    float *mean = NULL;
    float *variance = NULL;
    int64_t rows = 0;
    if (!p->variance.path && !p->intervals.path)
        return CLI_OK;
    int code = cli_check(call, cst_model_predict_values_pool(call->context, p->model, p->pool,
                                                             p->split, &mean, &variance, &rows));
    if (code == CLI_OK && p->variance.path)
        code = write_array(call, &p->variance, variance, 0, rows, cst_model_classes(p->model));
    if (code == CLI_OK && p->intervals.path)
        code = write_intervals(call, p, variance);
    cst_free(call->context, mean);
    cst_free(call->context, variance);
    return code;
}

/* ---- maps of a segmentation ---- */

static int read_format(cli_call *call, cst_map_format *out) {
    static const char *const names[] = {"maps", "maps-float16", "labels", "png"};
    const char *given = cli_value(call, "format");
    *out = CST_MAP_FLOAT32;
    for (int f = 0; given && f < 4; f++)
        if (strcmp(given, names[f]) == 0) {
            *out = (cst_map_format)f;
            return CLI_OK;
        }
    return given ? cli_fail(call, "option --format: '%s' is not maps, maps-float16, labels or png",
                            given)
                 : CLI_OK;
}

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
    cst_map_format format = CST_MAP_FLOAT32;
    int code = read_format(call, &format);
    if (code == CLI_OK && names_other_file(&p->outfile))
        code = cli_fail(call,
                        "-o %s: maps are written to one .npy file, or to a folder with one file "
                        "per case; use a name without this extension",
                        p->outfile.path);
    if (code != CLI_OK)
        return code;
    if (format == CST_MAP_PNG && !p->outfile.folder)
        return cli_fail(
            call, "-o %s: PNG label maps are written to a folder, one file per case; name a folder",
            p->outfile.path);
    /* a link says what kind of file it is, whatever it leads to */
    const char *at = p->outfile.folder || p->outfile.direct ? p->outfile.final : p->outfile.path;
    const cst_guard guard = asked(call, p);
    cst_status status =
        cst_segmentation_predict_guarded(call->context, p->model, p->pool, p->split, &guard, format,
                                         at, &p->cases, &p->rows, &p->found);
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
    int code = late ? open_inputs(call, p) : CLI_OK;
    bool folder = p->pool && cst_pool_task(p->pool) == CST_TASK_SEGMENTATION;
    if (code == CLI_OK)
        code = folder ? cli_open_out_folder(call, "one file per case",
                                            ", or a name that ends in .npy for a single array",
                                            &p->outfile)
                      : cli_open_outfile(call, "the prediction", &p->outfile);
    if (code == CLI_OK && !folder)
        code = check_kind(call, p);
    if (code == CLI_OK)
        code = open_doubt(call, p);
    if (code == CLI_OK && !late)
        code = open_inputs(call, p);
    return code == CLI_OK ? check_doubt(call, p) : code;
}

/* --guard and --batch. */
static int read_guard(cli_call *call, cst_guard *out) {
    static const char *const names[] = {"off", "warn", "auto"};
    const char *given = cli_value(call, "guard");
    long long batch = 0;
    *out = (cst_guard){.mode = CST_GUARD_AUTO};
    for (int m = 0; given && m <= CST_GUARD_AUTO; m++)
        if (strcmp(given, names[m]) == 0) {
            out->mode = (cst_guard_mode)m;
            given = NULL;
        }
    if (given)
        return cli_fail(call, "option --guard: '%s' is not auto, warn or off", given);
    int code = cli_integer(call, "batch", 1, CLI_WHOLE_MAX, &batch);
    if (code == CLI_OK && batch > 0 && out->mode == CST_GUARD_OFF)
        return cli_fail(call, "option --batch is for the guard, which is off: remove one of them");
    out->batch = batch;
    return code;
}

/* --label-shift, after --guard. */
static int read_label_shift(cli_call *call, prediction *p) {
    static const char *const names[] = {"off", "em", "bbse"};
    const char *given = cli_value(call, "label-shift");
    for (int m = 0; given && m <= CST_LABEL_BBSE; m++)
        if (strcmp(given, names[m]) == 0) {
            p->label_shift = (cst_label_method)m;
            given = NULL;
        }
    if (given)
        return cli_fail(call, "option --label-shift: '%s' is not off, em or bbse", given);
    if (p->label_shift != CST_LABEL_OFF && p->guard.mode == CST_GUARD_OFF)
        return cli_fail(call, "option --label-shift needs the guard, which is off: use --guard "
                              "auto or warn");
    return CLI_OK;
}

/* Classes have it, and pixels, where a case is a batch. */
static int check_guard(cli_call *call, const prediction *p) {
    cst_task task = cst_model_task(p->model);
    if (task == CST_TASK_SEGMENTATION && cli_value(call, "batch"))
        return cli_fail(call, "option --batch is not supported for segmentation: the guard tests "
                              "each case (image or volume)");
    if (task != CST_TASK_CLASSIFICATION && task != CST_TASK_SEGMENTATION &&
        (cli_value(call, "guard") || cli_value(call, "batch")))
        return cli_fail(call, "options --guard and --batch are not supported for %s",
                        cst_task_name(task));
    if (task != CST_TASK_CLASSIFICATION && cli_value(call, "label-shift"))
        return cli_fail(call, "option --label-shift is not supported for %s", cst_task_name(task));
    return CLI_OK;
}

static int run(cli_call *call) {
    prediction p = {0};
    if (call->argument_count < 1)
        return cli_fail(call, "no model given; see `corestack predict --help`");
    int code = read_guard(call, &p.guard);
    if (code == CLI_OK)
        code = read_label_shift(call, &p);
    if (code == CLI_OK)
        code = cli_formulas(call);
    if (code == CLI_OK)
        code = open_all(call, &p);
    if (code == CLI_OK)
        code = check_guard(call, &p);
    bool maps = p.pool && cst_pool_task(p.pool) == CST_TASK_SEGMENTATION;
    bool boxes = p.pool && cst_pool_task(p.pool) == CST_TASK_DETECTION;
    if (code == CLI_OK && (maps || boxes) && (cli_value(call, "like") || cli_value(call, "column")))
        code = cli_fail(call, "options --like and --column are not supported for %s",
                        cst_task_name(cst_pool_task(p.pool)));
    if (code == CLI_OK)
        code = maps ? write_maps(call, &p) : boxes ? write_boxes(call, &p) : write_rows(call, &p);
    if (code == CLI_OK)
        code = write_doubt(call, &p);
    if (code == CLI_OK)
        code = report(call, &p);
    code = cli_close_outfiles(call, code);
    free(p.columns);
    cst_guard_report_free(call->context, p.found);
    cst_label_report_free(call->context, p.shares);
    cst_free(call->context, p.probabilities);
    cst_pool_free(call->context, p.pool);
    cst_model_free(call->context, p.model);
    return code;
}

static const cli_option OPTIONS[] = {
    {"output", 'o', "OUT.npy",
     "file to write. Classification and regression: .npy or .csv with probabilities [samples, "
     "classes] or values [samples] or [samples, outputs]. Segmentation: .npy, or a new folder with "
     "one file per case. Detection: COCO results, .json"},
    {"format", 0, "KIND",
     "segmentation: maps (probabilities; default), maps-float16, labels (class numbers) or png "
     "(class numbers as images)"},
    {"variance", 0, "FILE.npy", "regression: also write the variance of each value"},
    {"intervals", 0, "FILE.npy",
     "regression: also write both ends of the intervals, [2, samples, outputs]"},
    {"level", 0, "P", "regression: coverage of the intervals (0.9)"},
    {"like", 0, "SAMPLE.csv",
     "classification and regression: write a .csv with the columns of this sample submission, its "
     "ids and their order"},
    {"column", 0, "NAME",
     "with .csv: write one column of this name; with --like: fill this column and copy the others"},
    {"formulas", 0, "HOW",
     "with .csv: texts such as -abc or =x, which a spreadsheet would compute, are written with an "
     "apostrophe in front (mark; default) or as they are (keep)"},
    {"guard", 0, "MODE",
     "classification, segmentation: what to do with batches of rows, or cases, that look unlike "
     "those of the fit: auto (the average of all members takes part; default), warn or off"},
    {"batch", 0, "N",
     "classification: rows of a batch of the guard, in the order of the file (all rows, or each "
     "condition of the "
     "split)"},
    {"label-shift", 0, "METHOD",
     "classification: estimate the class shares of each batch without labels, by em or bbse, and "
     "correct the probabilities where tests find that only these have changed (off)"},
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
    .takes_pool = true,
    .unlabelled = 2,
    .run = run,
};
