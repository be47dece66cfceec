/* Reads the command line: options by name or letter, values, suggestions for mistyped words. */
#include "cli.h"

#include <errno.h>
#include <limits.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const cli_option CLI_COMMON_OPTIONS[] = {
    {"json", 'j', NULL, "print one JSON document to standard output"},
    {"threads", 't', "N", "number of threads (0 = one per core); results do not depend on it"},
    {"memory", 0, "SIZE",
     "memory limit, e.g. 2GiB or 500MB (a quarter of the machine's memory); results do not depend "
     "on it"},
    {"color", 0, "WHEN", "auto, always or never; NO_COLOR is respected"},
    {"quiet", 'q', NULL, "show neither progress nor notices"},
    {"verbose", 'v', NULL, "show what is being done"},
    {"help", 'h', NULL, "show help; --help all describes every option"},
    {NULL, 0, NULL, NULL},
};

const cli_option CLI_POOL_OPTIONS[] = {
    {"labels", 'l', "Y.npy", "labels, if the pool is a list of files or a folder without labels"},
    {"ids", 0, "IDS.npy", "sample ids of the rows"},
    {"folds", 0, "F.npy|time",
     "fold of every row (made from the seed if not given); time: folds in time, each scored by a "
     "fit on the rows before it"},
    {"order", 0, "T.csv#COLUMN",
     "with --folds time: times of the rows, numbers or dates (the order of the rows)"},
    {"groups", 0, "G.npy", "group of every row; no group is split between folds"},
    {"weights", 0, "W.npy", "weight of every row in losses and scores; 0 leaves a row out"},
    {"domains", 0, "D.csv", "domain of every row, a name or a number (domain.aware)"},
    {"id-column", 0, "COLUMN", "csv: column of the sample ids, by name or by number from 1"},
    {"label-column", 0, "COLUMN", "csv: column of the labels or targets, by name or by number"},
    {"class-names", 0, "A,B,...",
     "names of the classes in the order of the columns; csv columns are matched by name"},
    {"positive", 0, "NAME",
     "two classes in one column: the label whose probability it is (1, true, yes, pos)"},
    {"values", 0, "KIND", "what the predictions are: probability (default) or logit"},
    {"task", 0, "TASK",
     "task of a pool without a manifest: classification (default), regression, segmentation, "
     "detection or multilabel"},
    {"ignore", 0, "LABEL,...", "segmentation: labels of pixels to ignore (255)"},
    {"layout", 0, "ORDER",
     "segmentation: channels-last or channels-first, if the shape allows both"},
    {"classes", 0, "C", "number of classes, if the files do not determine it"},
    {"missing", 0, "WHAT",
     "allow: members may lack rows (NaN, absent ids, folds of -1) or, in a prediction, their "
     "files; "
     "error (default)"},
    {"allow-outside", 0, NULL, "allow a manifest or folder to refer to files outside it"},
    {NULL, 0, NULL, NULL},
};

static int collect(const cli_command *command, const cli_option **out) {
    const cli_option *const lists[] = {
        command->options, command->takes_pool ? CLI_POOL_OPTIONS : NULL, CLI_COMMON_OPTIONS};
    int count = 0;
    for (size_t i = 0; i < sizeof lists / sizeof lists[0]; i++)
        for (const cli_option *option = lists[i]; option && option->name; option++)
            if (count < CLI_MAX_OPTIONS)
                out[count++] = option;
    return count;
}

enum { WORD_CHARS = 48 };

/* Edits (insert, delete, replace, swap neighbours) from a to b. */
static int edit_distance(const char *a, const char *b) {
    int table[WORD_CHARS + 1][WORD_CHARS + 1];
    int rows = (int)strlen(a);
    int columns = (int)strlen(b);
    if (rows > WORD_CHARS || columns > WORD_CHARS)
        return INT_MAX; /* nobody mistypes that */
    for (int i = 0; i <= rows; i++)
        for (int j = 0; j <= columns; j++) {
            if (i == 0 || j == 0) {
                table[i][j] = i + j;
                continue;
            }
            int best = table[i - 1][j - 1] + (a[i - 1] != b[j - 1]);
            if (table[i - 1][j] + 1 < best)
                best = table[i - 1][j] + 1;
            if (table[i][j - 1] + 1 < best)
                best = table[i][j - 1] + 1;
            bool swapped = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
            if (swapped && table[i - 2][j - 2] + 1 < best)
                best = table[i - 2][j - 2] + 1;
            table[i][j] = best;
        }
    return table[rows][columns];
}

const char *cli_nearest(const char *word, const char *const *words, int count) {
    const char *nearest = NULL;
    int least = (int)strlen(word) / 3 + 1;
    for (int i = 0; i < count; i++) {
        bool begins = strlen(word) >= 3 && strncmp(words[i], word, strlen(word)) == 0;
        int distance = begins ? 0 : edit_distance(word, words[i]);
        if (distance < least || (distance == least && !nearest)) {
            least = distance;
            nearest = words[i];
        }
    }
    return nearest;
}

static int unknown_option(cli_call *call, const char *text, const cli_option *const *options,
                          int count) {
    const char *names[CLI_MAX_OPTIONS];
    char word[WORD_CHARS + 1];
    const char *start = text + strspn(text, "-");
    (void)snprintf(word, sizeof word, "%.*s", (int)strcspn(start, "="), start);
    for (int i = 0; i < count; i++)
        names[i] = options[i]->name;
    const char *nearest = text[1] == '-' ? cli_nearest(word, names, count) : NULL;
    if (nearest)
        return cli_fail(call, "unknown option %.*s; did you mean --%s?", (int)strcspn(text, "="),
                        text, nearest);
    return cli_fail(call, "unknown option %.*s; `corestack %s --help` lists the options",
                    (int)strcspn(text, "="), text, call->command->name);
}

/* An option has one value; only --set and --with, which name what they give, may come again. */
static int remember(cli_call *call, const cli_option *option, const char *value) {
    bool named = strcmp(option->name, "set") == 0 || strcmp(option->name, "with") == 0;
    bool again = option->value && !named && cli_value(call, option->name);
    if (again && option->letter)
        return cli_fail(call, "option -%c (--%s) is given twice: '%s' and '%s'", option->letter,
                        option->name, cli_value(call, option->name), value);
    if (again)
        return cli_fail(call, "option --%s is given twice: '%s' and '%s'", option->name,
                        cli_value(call, option->name), value);
    call->given[call->given_count++] = (cli_given){option, value};
    return CLI_OK;
}

/* "--name", "--name value", "--name=value". Moves *at past the value. */
static int parse_long(cli_call *call, const cli_option *const *options, int count, char **argv,
                      int argc, int *at) {
    const char *text = argv[*at];
    size_t length = strcspn(text + 2, "=");
    const char *value = text[2 + length] == '=' ? text + 3 + length : NULL;
    const cli_option *option = NULL;
    for (int i = 0; i < count; i++)
        if (strlen(options[i]->name) == length && strncmp(options[i]->name, text + 2, length) == 0)
            option = options[i];
    if (!option)
        return unknown_option(call, text, options, count);
    if (!option->value && value)
        return cli_fail(call, "option --%s takes no value", option->name);
    if (option->value && !value) {
        if (*at + 1 >= argc)
            return cli_fail(call, "option --%s needs a value: --%s %s", option->name, option->name,
                            option->value);
        value = argv[++*at];
    }
    return remember(call, option, value);
}

/* "-q", "-o value", "-ovalue", "-qo value". */
static int parse_letters(cli_call *call, const cli_option *const *options, int count, char **argv,
                         int argc, int *at) {
    const char *text = argv[*at];
    for (const char *letter = text + 1; *letter; letter++) {
        const cli_option *option = NULL;
        for (int i = 0; i < count; i++)
            if (options[i]->letter == *letter)
                option = options[i];
        if (!option)
            return unknown_option(call, text, options, count);
        if (option->value && letter[1])
            return remember(call, option, letter + 1);
        if (option->value && *at + 1 < argc)
            return remember(call, option, argv[++*at]);
        if (option->value)
            return cli_fail(call, "option -%c needs a value: -%c %s", *letter, *letter,
                            option->value);
        (void)remember(call, option, NULL);
    }
    return CLI_OK;
}

int cli_parse(cli_call *call, int argc, char **argv) {
    const cli_option *options[CLI_MAX_OPTIONS];
    int count = collect(call->command, options);
    size_t letters = 1;
    for (int i = 0; i < argc; i++)
        letters += strlen(argv[i]) + 1; /* at most this many options */
    CLI_TAKE(call->arguments, argc + 1);
    CLI_TAKE(call->given, letters);
    bool only_arguments = false;
    for (int at = 0; at < argc; at++) {
        const char *text = argv[at];
        int code = CLI_OK;
        if (only_arguments || text[0] != '-' || text[1] == '\0')
            call->arguments[call->argument_count++] = text;
        else if (strcmp(text, "--") == 0)
            only_arguments = true;
        else if (text[1] == '-')
            code = parse_long(call, options, count, argv, argc, &at);
        else
            code = parse_letters(call, options, count, argv, argc, &at);
        if (code != CLI_OK)
            return code;
    }
    return CLI_OK;
}

/* A block of cli_take. */
typedef struct cli_memory {
    struct cli_memory *next;
    max_align_t bytes[];
} cli_memory;

void *cli_take(cli_call *call, size_t count, size_t size) {
    bool fits = size == 0 || count <= (SIZE_MAX - sizeof(cli_memory)) / size;
    cli_memory *block = fits ? calloc(1, sizeof *block + count * size) : NULL;
    if (!block) {
        (void)cli_check(call, CST_ERROR_MEMORY);
        return NULL;
    }
    block->next = call->memory;
    call->memory = block;
    return block->bytes;
}

char *cli_copy(cli_call *call, const char *text) {
    size_t size = strlen(text) + 1;
    char *copy = cli_take(call, size, 1);
    return copy ? memcpy(copy, text, size) : NULL;
}

const char **cli_cut(cli_call *call, const char *text, char separator, int64_t *count) {
    char *at = cli_copy(call, text);
    const char **parts = at ? cli_take(call, strlen(text) + 1, sizeof *parts) : NULL;
    for (*count = 0; parts && at; ++*count) {
        parts[*count] = at;
        at = strchr(at, separator);
        if (at)
            *at++ = '\0';
    }
    return parts;
}

void cli_keep(cli_call *call, void *result) {
    call->results[call->result_count++] = result;
}

void cli_release(cli_call *call) {
    while (call->memory) {
        cli_memory *block = call->memory;
        call->memory = block->next;
        free(block);
    }
}

const char *cli_value(const cli_call *call, const char *name) {
    for (int i = call->given_count - 1; i >= 0; i--)
        if (strcmp(call->given[i].option->name, name) == 0)
            return call->given[i].value;
    return NULL;
}

bool cli_flag(const cli_call *call, const char *name) {
    for (int i = 0; i < call->given_count; i++)
        if (strcmp(call->given[i].option->name, name) == 0)
            return true;
    return false;
}

bool cli_whole(const char *text, int64_t least, int64_t most, int64_t *out) {
    const char *digits = text + (least < 0 && *text == '-');
    if (!*digits || strspn(digits, "0123456789") != strlen(digits))
        return false;
    errno = 0;
    long long value = strtoll(text, NULL, 10);
    if (errno != 0 || value < least || value > most)
        return false;
    *out = value;
    return true;
}

int cli_integer(cli_call *call, const char *name, int64_t least, int64_t most, int64_t *out) {
    const char *text = cli_value(call, name);
    if (text && !cli_whole(text, least, most, out))
        return cli_fail(call, "option --%s: '%s' is not a whole number from %lld to %lld", name,
                        text, (long long)least, (long long)most);
    return CLI_OK;
}

int cli_seed(cli_call *call, uint64_t *out) {
    int64_t seed = 0;
    CLI_TRY(cli_integer(call, "seed", 0, CLI_WHOLE_MAX, &seed));
    *out = (uint64_t)seed;
    return CLI_OK;
}

int cli_resamples(cli_call *call, int64_t *out) {
    return cli_integer(call, "resamples", 0, 10000000, out);
}

int cli_number(cli_call *call, const char *name, double least, double most, double *out) {
    const char *text = cli_value(call, name);
    char *end = NULL;
    double value = text ? strtod(text, &end) : *out;
    if (text && (end == text || *end || !(value >= least && value <= most)))
        return cli_fail(call, "option --%s: '%s' is not a number from %g to %g", name, text, least,
                        most);
    *out = value;
    return CLI_OK;
}

int cli_share_of(cli_call *call, const char *name, double *out) {
    const char *text = cli_value(call, name);
    char *end = NULL;
    double value = text ? strtod(text, &end) : *out;
    if (text && (end == text || *end || !(value > 0 && value < 1)))
        return cli_fail(call, "option --%s: '%s' is not a number between 0 and 1", name, text);
    *out = value;
    return CLI_OK;
}

int cli_choice(cli_call *call, const char *name, const char *words, int *out) {
    const char *text = cli_value(call, name);
    char list[128];
    size_t used = 0;
    int place = 0;
    for (const char *at = words; text && *at; place++) {
        size_t length = strcspn(at, "|");
        const char *next = at + length + (at[length] == '|');
        if (strlen(text) == length && strncmp(text, at, length) == 0) {
            *out = place;
            return CLI_OK;
        }
        const char *between = at == words ? "" : *next ? ", " : " or ";
        used +=
            (size_t)snprintf(list + used, sizeof list - used, "%s%.*s", between, (int)length, at);
        at = next;
    }
    return text ? cli_fail(call, "option --%s: '%s' is not %s", name, text, list) : CLI_OK;
}

int cli_formulas(cli_call *call) {
    int how = 0;
    CLI_TRY(cli_choice(call, "formulas", "mark|keep", &how));
    cst_context_set_formulas(call->context, how == 1);
    return CLI_OK;
}

int cli_class_limits(cli_call *call, int64_t *head_above, int64_t *tail_below) {
    CLI_TRY(cli_integer(call, "head", 1, CLI_WHOLE_MAX, head_above));
    return cli_integer(call, "tail", 1, CLI_WHOLE_MAX, tail_below);
}
