/* Shared by the commands: options, messages, progress, output, opening a pool. The tool includes
 * the library's public headers only and computes nothing itself. */
#pragma once

#include <corestack/files.h>
#include <corestack/more.h>
#include <stdbool.h>

/* Exit codes. 1 is kept for commands that answer a question with "no". */
enum { CLI_OK = 0, CLI_NO = 1, CLI_BAD_INPUT = 2, CLI_INTERNAL = 3 };

/* Runs a step, or returns its exit code from the function; of the library after its message. */
#define CLI_TRY(...)                                                                               \
    do {                                                                                           \
        int cli_tried = (__VA_ARGS__);                                                             \
        if (cli_tried != CLI_OK)                                                                   \
            return cli_tried;                                                                      \
    } while (0)
#define CLI_DO(...) CLI_TRY(cli_check(call, __VA_ARGS__))

/* pointer = count zeroed elements that live as long as the call, or returns from the function. */
#define CLI_TAKE(pointer, count)                                                                   \
    do {                                                                                           \
        (pointer) = cli_take(call, (size_t)(count), sizeof *(pointer));                            \
        if (!(pointer))                                                                            \
            return CLI_INTERNAL;                                                                   \
    } while (0)

enum { CLI_MAX_OPTIONS = 64, CLI_PATH_CHARS = 4096 };

typedef struct cli_option {
    const char *name;  /* without the dashes; NULL ends a list */
    char letter;       /* 0: none */
    const char *value; /* what stands after it, for the help; NULL: a flag */
    const char *help;
} cli_option;

/* The options of commands whose report has a table. */
#define CLI_TABLE_OPTIONS                                                                          \
    {"csv", 0, NULL, "print the full table as CSV"},                                               \
        {"markdown", 0, NULL, "print the table in Markdown"}, {                                    \
        "latex", 0, NULL, "print the tables in LaTeX, for package booktabs"                        \
    }

/* Of commands that score predictions. */
#define CLI_METRIC_OPTION                                                                          \
    {                                                                                              \
        "metric", 0, "NAME",                                                                       \
            "what counts: auc, f1, mcc, rmsle, ...; it is reported beside the other scores "       \
            "(docs/metrics.md)"                                                                    \
    }
#define CLI_TRANSFORM_OPTION                                                                       \
    {                                                                                              \
        "target-transform", 0, "NAME",                                                             \
            "for a regression: fit after log1p, log, sqrt or logit of targets and predictions, "   \
            "and put the inverse on the result"                                                    \
    }
#define CLI_COST_OPTION                                                                            \
    {"cost-matrix", 0, "FILE",                                                                     \
     "costs of decisions, a row for each true class and a column for each decision: the "          \
     "metric is the mean cost, and decisions are those of lowest expected cost"},                  \
    {                                                                                              \
        "metric-command", 0, "PROGRAM",                                                            \
            "a metric of your own: `PROGRAM predictions.npy labels.npy` prints a number, and "     \
            "higher is better"                                                                     \
    }

/* Of commands whose report can be a page. */
#define CLI_HTML_OPTION                                                                            \
    {                                                                                              \
        "html", 0, "FILE",                                                                         \
            "also write the report as one HTML page, which opens in a browser offline"             \
    }

/* Those of commands that judge labels. */
#define CLI_LABEL_OPTIONS                                                                          \
    {"label-noise", 0, "human|RATE",                                                               \
     "the labels are known to have errors: leave out rows that confident learning finds, with a "  \
     "RATE between 0 and 1 at most that share"},                                                   \
    {                                                                                              \
        "suspects", 0, "FILE", "write the rows whose label is probably wrong, as .csv"             \
    }

/* Those of commands that score more than a split alone. */
#define CLI_SCORE_OPTIONS                                                                          \
    {"ood", 0, "NAME,...", "splits with out-of-distribution rows, for scores of OOD detection"},   \
        {"clean", 0, "NAME",                                                                       \
         "clean split that a split with conditions is compared with (from the manifest)"},         \
        {"reference-errors", 0, "FILE",                                                            \
         "JSON file with the errors per corruption that mCE is divided by, or `alexnet` for the "  \
         "ImageNet-C reference (from the manifest)"},                                              \
        {"head", 0, "N", "classes with more training samples than this are head classes (100)"}, { \
        "tail", 0, "N", "classes with fewer training samples than this are tail classes (20)"      \
    }

typedef struct cli_call cli_call;

typedef struct cli_command {
    const char *name;           /* of a part: "soup greedy" */
    const char *summary;        /* a sentence without its full stop */
    const char *usage;          /* lines of what follows "corestack " */
    const char *details;        /* paragraphs, one a line, or NULL */
    const char *example;        /* lines */
    const cli_option *options;  /* its own */
    const char *needs;          /* "model": what the first argument is, where one must be */
    bool takes_pool;            /* has the options that describe a POOL as well */
    int unlabelled;             /* as in cst_pool_config */
    bool lists_options;         /* its help shows options for --set */
    bool classification;        /* of no other task: its help offers no option of another */
    bool reports_notices;       /* its report holds the notices, so they are not logged */
    int (*run)(cli_call *call); /* returns an exit code */
    const struct cli_command *const
        *parts; /* a command of several: NULL ends them; it has no run */
} cli_command;

typedef struct cli_given {
    const cli_option *option;
    const char *value; /* NULL for a flag */
} cli_given;

/* The file or folder behind -o; cli_close_outfiles gives it the name `final`. */
typedef struct cli_outfile {
    const char *option;         /* "-o", for messages */
    const char *path;           /* as given */
    char final[CLI_PATH_CHARS]; /* what it leads to, links followed */
    bool direct;                /* a device, a pipe or a descriptor */
    bool folder;
} cli_outfile;

enum { CLI_OUTFILES = 7 }; /* options that name a file to write, of one command at most */

/* The files behind --save: written beside their names and given them at the end, all or none. */
typedef struct cli_save {
    const char *folder;  /* as given; NULL: nothing is saved */
    const char **inputs; /* what the command reads; NULL ends it */
    bool made;           /* the folder is ours */
    bool said;           /* why a file has no place stands on stderr already */
} cli_save;

/* One run of one command. */
struct cli_call {
    const cli_command *command;
    cst_context *context;
    const char **arguments; /* those that are not options */
    int argument_count;
    cli_given *given; /* options in the order given */
    int given_count;
    bool quiet, verbose;
    bool notices_held;        /* the report will show them */
    const char **class_names; /* of --class-names */
    const char **notices;     /* those held, in their order */
    int notice_count;
    bool starting;      /* what is logged now is about the machine */
    char machine[1024]; /* a notice of that: said at the end, or when the run takes long */
    double began;       /* seconds */
    bool metric_known;  /* --metric-command is one of the context's metrics */
    bool progress;      /* progress is shown: stderr is a terminal */
    bool progress_on;   /* a progress line stands there */
    bool cancelled;     /* a call of the library ended by an interrupt */
    bool disagreed;     /* a rank failed, and all know */
    bool unsaid;        /* a failure that is printed once the ranks know whose it is */
    cst_status status;  /* of the failure */
    bool said;          /* a failure was told, on this rank */
    char failure[1024]; /* the first */
    char stage[48];     /* of the progress line */
    double stage_shown; /* seconds */
    double told;        /* share of the command that is done, as shown */
    int parts;          /* calls of the library that are one bar; 0: one */
    /* What the command opened. When it ends the report is printed, then the outfiles get their
     * names, then all is freed. */
    cst_model *model;
    cst_pool *pool;
    cst_options *options;
    cst_report *report;
    cst_report *more[4]; /* of a page, beside it */
    int more_count;
    cli_outfile *html; /* NULL: none is wanted */
    cst_monitor *monitor;
    cst_adapter *adapter;
    cst_guard_report *guard;
    cst_label_report *shares;
    void *results[8]; /* other memory of the library, see cli_keep */
    int result_count;
    struct cli_memory *memory; /* see cli_take */
    cli_save save;
    cli_outfile outfiles[CLI_OUTFILES]; /* those that are not opened are zero */
    int outfile_count;
    cst_lock *lock;
    bool no; /* the answer of a command that succeeds is "no" */
};

extern const cli_command CLI_FIT, CLI_PREDICT, CLI_ADAPT, CLI_EVALUATE, CLI_COMPARE, CLI_ABLATE,
    CLI_SWEEP, CLI_INSPECT, CLI_SHOW, CLI_PROFILE, CLI_BOUND, CLI_FOLDS, CLI_SOUP, CLI_SWA,
    CLI_SWAG, CLI_ONLINE, CLI_MONITOR, CLI_EXPORT, CLI_OPTIONS, CLI_REPORT;

/* ---- ranks.c ---- */

/* Whether this process writes files and standard output: rank 0 does. */
bool cli_writes(void);

/* Makes this process one of several ranks. Others than rank 0 are silent from here on. */
void cli_join_ranks(const cst_collectives *ranks);

/* Gives the context of a command its ranks, and sees that all of them run the same command. */
int cli_share(cli_call *call, int argc, char **argv);

/* Whether there are other ranks that do not know of a failure yet. */
bool cli_shares(const cli_call *call);

/* With --verbose: prints the number of ranks. */
void cli_say_ranks(const cli_call *call);

/* Ends a step of all ranks: returns `code`, or that of a failed rank, whose message is said
 * once. */
int cli_agree(cli_call *call, int code);

/* ---- main.c ---- */

/* The tool; ranks: NULL, or of this process. Returns the exit code. */
int cli_main(int argc, char **argv, const cst_collectives *ranks);

/* ---- start.c ---- */

/* Gives programs that the tool starts the environment that the user gave the tool. */
void cli_restore_environment(void);

/* ---- args.c ---- */

/* Options of every command, and of those that take a POOL. */
extern const cli_option CLI_COMMON_OPTIONS[];
extern const cli_option CLI_POOL_OPTIONS[];

/* Reads argv (after the command's name) into `call`; an exit code other than 0 after a message. */
int cli_parse(cli_call *call, int argc, char **argv);

/* count * size zeroed bytes, or a copy of a text, that live as long as the call; NULL after a
 * message. */
void *cli_take(cli_call *call, size_t count, size_t size);
char *cli_copy(cli_call *call, const char *text);
/* The parts of a text between separators, `count` of them; NULL after a message. */
const char **cli_cut(cli_call *call, const char *text, char separator, int64_t *count);
/* The call frees it with cst_free. */
void cli_keep(cli_call *call, void *result);
void cli_release(cli_call *call);

/* The value given for an option, or NULL; whether a flag was given. */
const char *cli_value(const cli_call *call, const char *name);
bool cli_flag(const cli_call *call, const char *name);

/* Seeds and counts go to 2^53, exact in documents. */
#define CLI_WHOLE_MAX (1LL << 53)

/* A whole number from `least` to `most`; *out is left alone when the option was not given. */
/* Decimal digits, with a minus where negative numbers are allowed. */
bool cli_whole(const char *text, int64_t least, int64_t most, int64_t *out);
int cli_integer(cli_call *call, const char *name, int64_t least, int64_t most, int64_t *out);
int cli_seed(cli_call *call, uint64_t *out);
/* --resamples. */
int cli_resamples(cli_call *call, int64_t *out);

/* One of the words "a|b|c"; *out is its place, left alone without the option. */
int cli_choice(cli_call *call, const char *name, const char *words, int *out);

/* A number between 0 and 1. */
int cli_share_of(cli_call *call, const char *name, double *out);

/* A number within bounds. */
int cli_number(cli_call *call, const char *name, double least, double most, double *out);

/* The nearest of `count` words to a mistyped one, or NULL when none is near. */
const char *cli_nearest(const char *word, const char *const *words, int count);

/* ---- help.c ---- */

/* commands: those to list; NULL ends them. */
int cli_help_all(const cli_command *const *commands);
int cli_help_command(const cli_command *command, bool all);

/* The part's own word in its name. */
const char *cli_part_word(const cli_command *command, const cli_command *part);

/* Columns to fill: 100, or those of the terminal if it is narrower. */
int cli_page_width(void);

/* Prints text wrapped at 100 columns or the terminal's width, and a line end. column: the cursor;
 * indent: of further lines. */
void cli_out_wrapped(int column, int indent, const char *text);

/* Prints `name` after a margin and `help` wrapped from `column`, below where it does not fit. */
void cli_out_entry(int margin, const char *name, int column, const char *help);

/* ---- signals.c ---- */

/* Turns ending signals into interrupts, but for those that the caller ignores (nohup). While one is
 * handled the others wait. */
void cli_heed_signals(void);

/* The signal that asked the tool to stop; 0: none did. */
int cli_interrupted(void);

/* Ends the program by the signal, wherever it is blocked. */
void cli_end_by_signal(int number);

/* Note the prefix of temporary names, and a folder that the run made: a late signal removes what
 * begins so, and the folder when it is empty. */
void cli_unfinished_name(const char *prefix);
void cli_unfinished_folder(const char *path);

/* ---- messages.c ---- */

/* One line "corestack COMMAND: message" on stderr. Returns CLI_BAD_INPUT. */
int cli_fail(cli_call *call, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* 0 for CST_OK; else the library's message on stderr and the exit code that goes with it. */
int cli_check(cli_call *call, cst_status status);

/* For loops of the tool over many files: CLI_INTERNAL, with a message, after an interrupt. */
int cli_go_on(cli_call *call);

/* Prints one line, safe for a terminal, with `kind` before the message. */
void cli_print_line(cli_call *call, const char *kind, const char *message);

/* Takes the progress line away, for others who write to the terminal. */
void cli_clear_progress(cli_call *call);

/* ---- terminal.c ---- */

/* Seconds from an arbitrary origin. */
double cli_now(void);

/* Attaches log and progress to the context, as the options say; stops on the first interrupt. */
int cli_attach(cli_call *call);

/* Prints the notice about the machine, if there is one. */
void cli_say_machine(cli_call *call);

/* Ends an interrupted program by its signal, after all unfinished is removed. */
void cli_follow_signal(const cli_call *call);

/* Begins a report of the tool or adds an entry; NULL text: none. */
int cli_report(cli_call *call, const char *command);
int cli_put(cli_call *call, const char *key, const char *text);
int cli_put_integer(cli_call *call, const char *key, int64_t value);

/* Gives the report the notices that were held; those of the library have theirs. */
int cli_put_notices(cli_call *call);

/* Fails where more than one of --json, --csv, --markdown and --latex is given. */
int cli_check_form(cli_call *call);

/* Prints the report if `code` allows, and frees it. Returns the exit code. */
int cli_end_report(cli_call *call, int code);

/* ---- output.c ---- */

/* Prints to stdout; written, or not, by cli_finish_output. */
void cli_out(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Prints a string of JSON. */
void cli_out_json_string(const char *value);

/* Writes the held output. Not CLI_OK where it did not get there, after a message or interrupt. */
int cli_finish_output(const char *command, int code);

/* Whether an interrupt kept something from stdout. */
bool cli_output_stopped(void);

/* Writes a line to stderr; after an interrupt only where there is room. */
void cli_say(const char *line);

/* ---- files.c ---- */

bool cli_ends(const char *path, const char *end);

/* Opens call->pool, POOL of the arguments from `first` on, none of whose files may be an output.
 * call->model gives a bare pool task and classes; another task is refused. */
int cli_open_pool(cli_call *call, int first);

/* Opens call->model, the first argument. */
int cli_open_model(cli_call *call);

/* Opens the pool, and that of the others. */
int cli_open_both(cli_call *call);

/* The pool options; it borrows from `call`. */
int cli_read_config(cli_call *call, cst_pool_config *config);
/* Whether --folds asks for folds in time, and names no file. */
bool cli_in_time(const cli_call *call);

/* The split to fit on: --split, or "oof". */
const char *cli_fit_split(const cli_call *call);
/* The split to use a model on: --split, or the only one of call->pool, or `fallback`. */
const char *cli_split(const cli_call *call, const char *fallback);

/* Whether it is a pipe or a device, whose bytes come once: only who wants them all may open it. */
bool cli_is_stream(const char *path);

/* Whether the file starts as an npy file does; a pipe is not looked into. */
bool cli_is_npy(const char *path);

/* call->options from --preset, --seed and --set. */
/* What --metric or --cost-matrix says: NULL without them. */
int cli_metric(cli_call *call, const char **metric);
int cli_make_options(cli_call *call);

/* Writes an npy of [rows, classes] to a file, or of [conditions, rows / conditions, classes]. */
int cli_write_array(cli_call *call, const char *path, const float *values, int64_t conditions,
                    int64_t rows, int64_t classes);

/* Where the members of the split are one column, so become values: the probability of class 1. */
int cli_as_members(cli_call *call, const char *split, const float **values, int64_t rows,
                   int64_t *classes);

/* Writes predictions of a split as its name says: npy, or a table that has no room for
 * conditions. */
int cli_write_rows(cli_call *call, const cli_outfile *outfile, const char *split,
                   const float *values, int64_t rows);
int cli_check_table(cli_call *call, const cli_outfile *outfile, const char *split);

/* Names of rows and classes from pool or model, else NULL. */
int cli_table_names(cli_call *call, const char *split, int64_t rows, const char ***ids,
                    const char ***names);

/* Fails, with the nearest key, for no key of an option; more: another allowed one, or NULL. */
int cli_check_key(cli_call *call, const char *option, const char *key, const char *more);

/* --formulas, for the tables that the command writes. */
int cli_formulas(cli_call *call);

/* --head and --tail; 0 where they are not given. */
int cli_class_limits(cli_call *call, int64_t *head_above, int64_t *tail_below);

/* ---- comparison.c ---- */

/* Reads the options, opens the pool, compares and saves. over: sweeps over it. */
typedef cst_status (*cli_compare_fn)(cst_context *context, cst_pool *pool,
                                     const cst_compare_options *options, cst_report **report);
int cli_run_comparison(cli_call *call, int64_t resamples, cli_compare_fn compare,
                       const cst_sweep_options *over);

/* Reads --methods and --set. none: that word stands for an empty list. */
int cli_read_methods(cli_call *call, bool none, cst_compare_options *options);

/* Fails, with the nearest name, for no method; `all` is allowed in lists. */
int cli_check_method(cli_call *call, const char *option, const char *name);

/* Whether the methods are to be listed, and the list: --list-methods, or --methods help. */
bool cli_wants_methods(const cli_call *call);
int cli_list_methods(cli_call *call);

/* ---- save.c ---- */

/* Checks --save before any work: the folder can be used, holds no input, and each file can have its
 * own name. The options get the function that saves. */
int cli_open_save(cli_call *call, cst_compare_options *options);

/* Removes what was written, and the folder where it is ours. */
void cli_drop_save(cli_call *call);

/* ---- metric_command.c ---- */

/* Makes --metric-command the metric "command" of the context. */
int cli_add_metric_command(cli_call *call);

/* ---- hook.c ---- */

/* A program of the user's that predicts with a candidate: a cst_soup_hook. */
typedef struct cli_hook {
    cli_call *call;
    const char *program; /* a line for the shell */
    const char *example; /* a file to try it on, for messages */
} cli_hook;

cst_status cli_run_hook(cst_context *context, void *user, const char *candidate,
                        const char *predictions);

/* ---- inputs.c ---- */

struct stat;

/* How messages name such an option: "-o" for "output". */
const char *cli_output_shown(const char *name);

/* The part after the last slash. */
const char *cli_base_name(const char *path);

/* The folder of a path, "." where none is named; false where it does not fit. */
bool cli_folder_of(const char *path, char folder[CLI_PATH_CHARS]);

/* Whether two paths lead to one file or, not existing yet, are one name in one folder. */
bool cli_same_file(const char *a, const char *b);

bool cli_same_inode(const struct stat *a, const struct stat *b);

/* Whether the path is a name in the folder. */
bool cli_lies_in(const char *path, const struct stat *folder);

/* Whether what is written to one shows up in the other: one file, pipe or device but /dev/null. */
bool cli_same_place(const struct stat *a, const struct stat *b);

/* Position of the separator in "a.npz#name" and the like; else 0. */
size_t cli_member(const char *path);

/* The FILE of "NAME=FILE" or "FILE"; a '=' behind a slash is one of a path. */
const char *cli_file_with(const char *text);
/* The i-th file that an option names which only says more of a pool; NULL past the end. */
const char *cli_option_file(const cli_call *call, size_t i);

/* Refuses outputs that are one file, an argument or its manifest, or an option's file. */
int cli_check_named_inputs(cli_call *call);

/* Refuses outputs that the pool names, or in one of its folders of cases. */
int cli_check_pool_file(cli_call *call, const char *input);

/* Refuses outputs that a pool without a manifest would read as members next time. */
int cli_check_pool_folder(cli_call *call, const char *folder);

/* ---- report.c ---- */

/* Checks --html before any work; after it, writes the call's report and what its model says of
 * itself there. */
int cli_open_html(cli_call *call);
int cli_write_html(cli_call *call);

/* ---- outfile.c ---- */

/* A place for a file or folder to write. */
cli_outfile *cli_new_outfile(cli_call *call);

/* Checks -o before any work: inputs, folders, "-", standard output, dead links, long names and
 * missing folders are refused. what: its content, for messages. */
int cli_open_outfile(cli_call *call, const char *what, cli_outfile *outfile);

/* Checks the file of another option. */
int cli_open_outfile_of(cli_call *call, const char *name, const char *what, cli_outfile *outfile);

/* Checks --state, a file that is read and replaced. */
int cli_open_state(cli_call *call, cli_outfile *outfile);

/* Locks the state until the end of the call. there: outfile->path exists, for all ranks. */
int cli_lock_state(cli_call *call, const cli_outfile *outfile, bool *there);

/* The place of a file that the command names for `option`, links followed; there may be a file or
 * nothing. held: it will be written now. */
int cli_place_outfile(cli_call *call, const char *option, const char *path, bool held,
                      cli_outfile *outfile);

/* Checks a folder of files, new or empty. instead: ", or ..." for the message, or "". */
int cli_open_out_folder(cli_call *call, const char *what, const char *instead,
                        cli_outfile *outfile);

/* Whether the name ends so, in capitals or not. */
bool cli_outfile_ends(const cli_outfile *outfile, const char *extension);

/* Whether an npy goes there: its name says so, or nothing of a pipe, device or descriptor. */
bool cli_outfile_is_npy(const cli_outfile *outfile);

/* Checks --suspects before any work, and writes the report's suspects there after it. */
int cli_open_suspects(cli_call *call, cli_outfile **outfile);
int cli_write_suspects(cli_call *call, const cli_outfile *outfile);

/* Names the files once the report is out, or removes them after a failure. Returns the exit
 * code. */
int cli_close_outfiles(cli_call *call, int code);
