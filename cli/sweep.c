/* corestack sweep: presets over the values of an option, or any method over the size of the pool.
 * Paper: sections "CKA Threshold Sensitivity" and "Scaling behavior". */
#include "cli.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char POOL_SIZE[] = "pool.size";

enum { VALUES_MAX = 10000, DIGITS_MAX = 15, NUMBER_CHARS = 24 };

/* A decimal as it is written: digits * 10^-places. */
typedef struct decimal {
    long long digits;
    int places;
} decimal;

static bool read_decimal(const char *text, decimal *out) {
    bool negative = *text == '-';
    int count = 0;
    bool point = false;
    *out = (decimal){0};
    for (text += *text == '-' || *text == '+'; *text; text++) {
        if (*text == '.' && !point) {
            point = true;
            continue;
        }
        if (*text < '0' || *text > '9' || ++count > DIGITS_MAX)
            return false;
        out->digits = out->digits * 10 + (*text - '0');
        out->places += point;
    }
    out->digits = negative ? -out->digits : out->digits;
    return count > 0;
}

/* Brings a decimal to `places`; false where it gets too long. */
static bool align_places(decimal *number, int places) {
    while (number->places < places) {
        if (llabs(number->digits) >= 100000000000000000LL)
            return false;
        number->digits *= 10;
        number->places++;
    }
    return true;
}

/* digits * 10^-places as text. */
static void print_decimal(long long digits, int places, char out[NUMBER_CHARS]) {
    char text[NUMBER_CHARS];
    int length = snprintf(text, sizeof text, "%0*lld", places + 1, llabs(digits));
    int whole = length - places;
    (void)snprintf(out, NUMBER_CHARS, "%s%.*s%s%s", digits < 0 ? "-" : "", whole, text,
                   places ? "." : "", text + whole);
}

static bool takes_whole_numbers(const char *key) {
    for (int64_t i = 0; cst_option_at(i); i++)
        if (strcmp(cst_option_at(i)->key, key) == 0)
            return cst_option_at(i)->type == CST_OPTION_INTEGER;
    return strcmp(key, POOL_SIZE) == 0;
}

/* LO:HI:STEP, counted in units of the last decimal place, so that nothing drifts. */
static int read_range(cli_call *call, const char *given, const char *const parts[3],
                      cst_sweep_options *out) {
    decimal ends[3];
    int places = 0;
    bool fits = true;
    for (int i = 0; i < 3; i++) {
        if (!read_decimal(parts[i], &ends[i]))
            return cli_fail(call,
                            "option --over: '%s' in '%s' is not a decimal number of at most %d "
                            "digits",
                            parts[i], given, DIGITS_MAX);
        places = ends[i].places > places ? ends[i].places : places;
    }
    for (int i = 0; i < 3; i++)
        fits = fits && align_places(&ends[i], places);
    long long low = ends[0].digits;
    long long high = ends[1].digits;
    long long step = ends[2].digits;
    if (!fits)
        return cli_fail(call, "option --over: the range '%s' has too many digits", given);
    if (step == 0 || (step > 0 ? low > high : low < high))
        return cli_fail(call,
                        "option --over: the range '%s' is empty: LO:HI:STEP goes from LO to "
                        "HI in steps of STEP",
                        given);
    long long count = (high - low) / step + 1;
    if (count > VALUES_MAX)
        return cli_fail(call, "option --over: the range '%s' has %lld values, more than %d", given,
                        count, VALUES_MAX);
    char(*numbers)[NUMBER_CHARS] = NULL;
    const char **values = NULL;
    CLI_TAKE(numbers, count);
    CLI_TAKE(values, count);
    bool whole = takes_whole_numbers(out->key);
    for (long long i = 0; i < count; i++) {
        long long digits = low + i * step;
        int kept = places;
        for (; whole && kept > 0 && digits % 10 == 0; kept--)
            digits /= 10;
        print_decimal(digits, kept, numbers[i]);
        values[i] = numbers[i];
    }
    out->values = values;
    out->value_count = count;
    return CLI_OK;
}

/* Values between commas, or between semicolons where there is one (values with commas in them). */
static int read_list(cli_call *call, const char *given, const char *text, cst_sweep_options *out) {
    const char **values = cli_cut(call, text, strchr(text, ';') ? ';' : ',', &out->value_count);
    if (!values)
        return CLI_INTERNAL;
    for (int64_t i = 0; i < out->value_count; i++)
        if (!*values[i])
            return cli_fail(call, "option --over: '%s' contains an empty value", given);
    if (out->value_count > VALUES_MAX)
        return cli_fail(call, "option --over: more than %d values", VALUES_MAX);
    out->values = values;
    return CLI_OK;
}

static int check_values(cli_call *call, const cst_sweep_options *out) {
    CLI_DO(cst_options_create(call->context, &call->options));
    for (int64_t i = 0; i < out->value_count; i++)
        CLI_DO(cst_options_set(call->context, call->options, out->key, out->values[i]));
    cst_options_free(call->context, call->options);
    call->options = NULL;
    return CLI_OK;
}

static int read_over(cli_call *call, cst_sweep_options *out) {
    const char *given = cli_value(call, "over");
    int64_t count = 0;
    if (!given)
        return cli_fail(call,
                        "--over is required: KEY=LO:HI:STEP, KEY=A,B,C or pool.size=LO:HI:STEP");
    char *key = cli_copy(call, given);
    if (!key)
        return CLI_INTERNAL;
    char *equals = strchr(key, '=');
    if (!equals || equals == key)
        return cli_fail(call, "option --over: '%s' is not KEY=LO:HI:STEP or KEY=A,B,C", given);
    *equals = '\0';
    *out = (cst_sweep_options){.key = key, .draws = 5};
    CLI_TRY(cli_check_key(call, "over", key, POOL_SIZE));
    CLI_TRY(cli_integer(call, "draws", 1, VALUES_MAX, &out->draws));
    bool sizes = strcmp(key, POOL_SIZE) == 0;
    if (cli_flag(call, "seed") && strcmp(key, "seed") == 0)
        return cli_fail(call, "options --seed and --over seed=... cannot be combined");
    if (cli_flag(call, "draws") && !sizes)
        return cli_fail(call, "option --draws requires --over pool.size=...");
    const char **parts = cli_cut(call, equals + 1, ':', &count);
    if (!parts)
        return CLI_INTERNAL;
    if (count == 2)
        return cli_fail(call, "option --over: '%s' needs a step: LO:HI:STEP", given);
    if (count > 3) /* the last part has the others in it */
        parts[2] = given + (equals + 1 - key) + (parts[2] - parts[0]);
    CLI_TRY(count == 1 ? read_list(call, given, parts[0], out)
                       : read_range(call, given, parts, out));
    return sizes ? CLI_OK : check_values(call, out);
}

static int run(cli_call *call) {
    cst_sweep_options over;
    CLI_TRY(read_over(call, &over));
    return cli_run_comparison(call, 0, NULL, &over);
}

static const cli_option OPTIONS[] = {
    {"over", 0, "KEY=VALUES",
     "what to vary: KEY=LO:HI:STEP or KEY=A,B,C, where KEY is an option, seed or pool.size"},
    {"draws", 0, "D", "random subsets of the members for each pool.size (5)"},
    {"split", 0, "NAME",
     "split to score: oof (default; nested scores), or another split, scored by fits on oof"},
    {"methods", 'm', "A,B,...",
     "presets to compare, or any methods with pool.size and seed (default); `help` lists them"},
    {"resamples", 'r', "N", "bootstrap resamples for 95% intervals (0 = no intervals)"},
    {"seed", 0, "S", "seed for folds, fits, subsets and resamples (0)"},
    CLI_METRIC_OPTION,
    CLI_COST_OPTION,
    CLI_TRANSFORM_OPTION,
    {"set", 's', "KEY=VALUE", "change one option in every preset; may be repeated"},
    CLI_HTML_OPTION,
    CLI_TABLE_OPTIONS,
    {NULL, 0, NULL, NULL},
};

const cli_command CLI_SWEEP = {
    .name = "sweep",
    .summary = "score methods over the values of an option or the size of the pool",
    .usage = "sweep POOL --over KEY=LO:HI:STEP [options]\n"
             "sweep POOL --over KEY=A,B,C [options]\n"
             "sweep POOL --over pool.size=LO:HI:STEP [--draws D] [options]",
    .details = "A range includes both ends. Separate values with semicolons if they contain "
               "commas. For pool.size, random subsets of the members are drawn; within one draw, a "
               "larger pool contains the smaller ones. Over seed, the folds and all other random "
               "choices change; the mean and standard error over the seeds are given.",
    .example = "corestack sweep examples/digits/pool.json --methods paper \\\n"
               "    --over cka.threshold=0.70:0.95:0.05\n"
               "corestack sweep pool.json --methods default,ridge --over pool.size=4:16:4\n"
               "corestack sweep pool.json --methods default,ridge --over seed=0,1,2",
    .options = OPTIONS,
    .takes_pool = true,
    .lists_options = true,
    .reports_notices = true,
    .run = run,
};
