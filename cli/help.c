/* Help pages: of the tool and of each command, wrapped to the width of the page. */
#include "cli.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

const char *cli_part_word(const cli_command *command, const cli_command *part) {
    return part->name + strlen(command->name) + 1;
}

enum { WIDTH_MAX = 100, WIDTH_MIN = 40, HELP_COLUMN = 31 };

int cli_page_width(void) {
    const char *set = getenv("COLUMNS");
    struct winsize size = {0};
    long width = 0;
    if (!isatty(STDOUT_FILENO))
        return WIDTH_MAX;
    if (set)
        width = strtol(set, NULL, 10);
    if (width <= 0 && ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0)
        width = size.ws_col;
    if (width <= 0 || width > WIDTH_MAX)
        return WIDTH_MAX;
    return width < WIDTH_MIN ? WIDTH_MIN : (int)width;
}

/* Length of the next word. A quoted command, as `corestack options`, counts as one word. */
static size_t word_length(const char *text) {
    size_t length = 0;
    bool quoted = false;
    while (text[length] && text[length] != '\n' && (quoted || text[length] != ' ')) {
        quoted ^= text[length] == '`';
        length++;
    }
    return length;
}

/* Of a word longer than a line only what fits on it up to a comma, where it has one. */
static size_t cut_word(const char *text, size_t length, int room) {
    size_t end = length;
    for (int i = 0; (int)length > room && i < room; i++)
        end = text[i] == ',' ? (size_t)i + 1 : end;
    return end;
}

void cli_out_wrapped(int column, int indent, const char *text) {
    int width = cli_page_width();
    bool fresh = true; /* nothing but the margin is on the line */
    while (*text) {
        size_t length = word_length(text);
        bool fits = column + !fresh + (int)length <= width;
        if (length > 0 && !fits && !fresh) {
            cli_out("\n%*s", indent, "");
            column = indent;
            fresh = true;
        }
        length = fresh ? cut_word(text, length, width - column) : length;
        if (length > 0) {
            cli_out("%s%.*s", fresh ? "" : " ", (int)length, text);
            column += !fresh + (int)length;
            fresh = false;
        }
        text += length;
        bool cut = *text && *text != '\n' && *text != ' ';
        if (*text == '\n' || cut) {
            cli_out("\n%*s", indent, "");
            column = indent;
            fresh = true;
        }
        text += *text && !cut;
    }
    cli_out("\n");
}

void cli_out_entry(int margin, const char *name, int column, const char *help) {
    int used = margin + (int)strlen(name);
    bool below = used + 1 > column;
    if (column > cli_page_width() / 2) {
        column = margin + 4;
        below = true;
    }
    cli_out("%*s%s", margin, "", name);
    cli_out(below ? "\n%*s" : "%*s", below ? column : column - used, "");
    cli_out_wrapped(column, column, help);
}

/* Each line after `margin` columns: wrapped, with the rest of a long line further in. */
static void print_lines(int margin, const char *prefix, const char *lines) {
    char line[512];
    while (*lines) {
        size_t length = strcspn(lines, "\n");
        (void)snprintf(line, sizeof line, "%s%.*s", prefix, (int)length, lines);
        cli_out("%*s", margin, "");
        cli_out_wrapped(margin, margin + 4, line);
        lines += length;
        lines += *lines == '\n';
    }
}

/* The options of --set that most users change, in the order of the help. */
static const char *const COMMON_KEYS[] = {
    "keep.max",         "keep.fraction", "keep.max_flops", "cka.threshold", "select.rule",
    "select.tolerance", "meta.learners", "fit.balance",    "folds.count",   "evaluate.nested",
};

int cli_help_all(const cli_command *const *commands) {
    char line[160];
    (void)snprintf(line, sizeof line, "corestack %s: %s", cst_version(),
                   "turn the saved predictions of many models into one small, calibrated ensemble");
    cli_out_wrapped(0, 0, line);
    cli_out("\nUsage: corestack COMMAND [arguments] [options]\n\nCommands:\n");
    for (size_t i = 0; commands[i]; i++)
        cli_out_entry(2, commands[i]->name, 13, commands[i]->summary);
    cli_out("\n");
    cli_out_wrapped(0, 0,
                    "POOL is a pool.json, a folder of prediction files, one csv with a column for "
                    "each member, or --labels y.npy a.npy b.npy ...\n"
                    "`corestack COMMAND --help` shows the options of a command, with an example; "
                    "`corestack COMMAND --help all` also those that many commands have.");
    cli_out("\n");
    cli_out_wrapped(0, 0,
                    "Results go to standard output, everything else to standard error. Exit "
                    "status: 0 = success, 2 = wrong usage or invalid "
                    "input, 3 = internal error.");
    cli_out("\nTo get started:\n  corestack fit examples/digits/pool.json -o digits.cstack\n");
    return CLI_OK;
}

/* Whether a command takes the option, and so offers it: one of classification has no other task. */
static bool is_offered(const cli_command *command, const cli_option *option) {
    static const char *const tasks[] = {"task", "ignore", "layout"};
    bool offered = true;
    for (size_t i = 0; i < sizeof tasks / sizeof tasks[0]; i++)
        offered = offered && !(command->classification && strcmp(option->name, tasks[i]) == 0);
    return offered;
}

/* Whether more than three commands have the same option, besides those of pools and of all. */
static bool is_shared(const cli_command *command, const cli_option *option) {
    static const char *const names[] = {"metric",           "cost-matrix", "metric-command",
                                        "target-transform", "html",        "csv",
                                        "markdown",         "latex"};
    bool shared = false;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        shared = shared || strcmp(option->name, names[i]) == 0;
    return shared && command->takes_pool;
}

/* Options with what each does; without `all` only those that the command alone has. */
static void print_options(const char *heading, const cli_command *command,
                          const cli_option *options, bool all) {
    if (!options || !options->name)
        return;
    cli_out("\n");
    cli_out_wrapped(0, 0, heading);
    for (const cli_option *option = options; option->name; option++) {
        char names[64];
        char letter[8] = "";
        if (!is_offered(command, option) || (!all && is_shared(command, option)))
            continue;
        if (option->letter)
            (void)snprintf(letter, sizeof letter, "-%c, ", option->letter);
        (void)snprintf(names, sizeof names, "%s--%s%s%s", letter, option->name,
                       option->value ? " " : "", option->value ? option->value : "");
        cli_out_entry(option->letter ? 2 : 6, names, HELP_COLUMN, option->help);
    }
}

/* The names of options alone; shared: of those that other commands have too. */
static void name_options(const char *word, const cli_command *command, const cli_option *options,
                         bool shared) {
    char names[512] = "";
    size_t length = 0;
    for (const cli_option *option = options; option && option->name; option++)
        if (is_offered(command, option) && (!shared || is_shared(command, option)))
            length += (size_t)snprintf(names + length, sizeof names - length, "%s--%s",
                                       length ? " " : "", option->name);
    if (length > 0)
        cli_out_entry(2, word, 13, names);
}

static const cst_option_spec *find_key(const char *key) {
    for (int64_t i = 0; cst_option_at(i); i++)
        if (strcmp(cst_option_at(i)->key, key) == 0)
            return cst_option_at(i);
    return NULL;
}

/* The common options of the method, and where all of them are listed. */
static void print_method_options(void) {
    char text[512];
    cli_out("\nOften changed with --set KEY=VALUE:\n");
    for (size_t i = 0; i < sizeof COMMON_KEYS / sizeof COMMON_KEYS[0]; i++) {
        const cst_option_spec *spec = find_key(COMMON_KEYS[i]);
        if (!spec)
            continue;
        (void)snprintf(text, sizeof text, "%s Default: %s.", spec->help, spec->initial);
        cli_out_entry(2, spec->key, HELP_COLUMN, text);
    }
    cli_out("`corestack options` lists all %zu options of --set.\n", cst_option_count());
}

/* What many commands have: options of a POOL, general ones and those of the method. */
static void print_shared(const cli_command *command) {
    if (command->takes_pool) {
        print_options("Pool options (POOL is a pool.json, a folder, one csv with a column for each "
                      "member, or a list of prediction files):",
                      command, CLI_POOL_OPTIONS, true);
        cli_out("\n");
        cli_out_wrapped(0, 0,
                        "Formats that can be read: npy, npz, safetensors, csv, tsv and txt (also "
                        ".csv.gz). a.npz#NAME, a.safetensors#NAME and a.csv#COLUMN choose one "
                        "array or column.");
    }
    print_options("General options:", command, CLI_COMMON_OPTIONS, true);
    if (command->lists_options)
        print_method_options();
}

static void name_shared(const cli_command *command) {
    char text[160];
    (void)snprintf(text, sizeof text,
                   "More options; `corestack %s --help all` says what each does:", command->name);
    cli_out("\n");
    cli_out_wrapped(0, 0, text);
    if (command->takes_pool) {
        name_options("reports", command, command->options, true);
        name_options("POOL", command, CLI_POOL_OPTIONS, false);
    }
    name_options("general", command, CLI_COMMON_OPTIONS, false);
    if (command->lists_options)
        cli_out("`corestack options` lists all %zu options of --set.\n", cst_option_count());
}

int cli_help_command(const cli_command *command, bool all) {
    char title[160];
    (void)snprintf(title, sizeof title, "corestack %s: %s", command->name, command->summary);
    cli_out_wrapped(0, 0, title);
    cli_out("\nUsage:\n");
    print_lines(2, "corestack ", command->usage);
    if (command->details) {
        cli_out("\n");
        cli_out_wrapped(0, 0, command->details);
    }
    for (size_t i = 0; command->parts && command->parts[i]; i++) {
        if (i == 0)
            cli_out("\nSubcommands:\n");
        cli_out_entry(2, cli_part_word(command, command->parts[i]), 13, command->parts[i]->summary);
    }
    print_options("Options (defaults in parentheses):", command, command->options, all);
    (all ? print_shared : name_shared)(command);
    cli_out("\nExample:\n");
    for (const char *at = command->example; *at; at += strcspn(at, "\n"), at += *at == '\n')
        cli_out("  %.*s\n", (int)strcspn(at, "\n"), at);
    return CLI_OK;
}
