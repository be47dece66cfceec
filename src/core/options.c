/* The option table: parsing, bounds, presets. */
#include "core/options.h"

#include <errno.h>
#include <math.h>
#include <string.h>

static const cst_option_spec SPECS[CST_OPT_COUNT] = {
#define CST_OPTION_SPEC(id, field, key, type, initial, least, most, choices, help)                 \
    [CST_OPT_##id] = {key, CST_OPTION_##type, initial, least, most, choices, help},
    CST_OPTION_LIST_ALL(CST_OPTION_SPEC)
#undef CST_OPTION_SPEC
};

static const char *const PRESETS[] = {"default", "compact", "best", "paper", "prototype"};

/* A preset's difference from the table. */
typedef struct preset_value {
    const char *preset;
    cst_option_id id;
    const char *value;
} preset_value;

static const preset_value PRESET_VALUES[] = {
    /* A smaller stack. */
    {"compact", CST_OPT_SELECT_TOLERANCE, "0.005"},
    /* Copies go, and who is proven not to lower the loss. */
    {"best", CST_OPT_CKA_THRESHOLD, "0.9999"},
    {"best", CST_OPT_SELECT_RULE, "non-inferior"},
    {"best", CST_OPT_SELECT_TOLERANCE, "0"},
    /* CoRe-Stack+ to the letter: tau 0.85 on CKA with sqrt(N) uniform landmarks, learned gate,
       lambda* of the out-of-fold Gram, Laplace. */
    {"paper", CST_OPT_NOISE, "off"},
    {"paper", CST_OPT_CKA_THRESHOLD, "0.85"},
    {"paper", CST_OPT_CKA_ESTIMATOR, "nystrom"},
    {"paper", CST_OPT_CKA_LANDMARK_RULE, "uniform"},
    {"paper", CST_OPT_REDUNDANCY_TIES, "keep"},
    {"paper", CST_OPT_SELECT_DIRECTION, "none"},
    {"paper", CST_OPT_META_LEARNERS, "ridge,elastic-net,lasso"},
    {"paper", CST_OPT_BLEND_RULE, "laplace"},
    {"paper", CST_OPT_LAMBDA_RULE, "star"},
    {"paper", CST_OPT_LAMBDA_SCALE, "sum"},
    {"paper", CST_OPT_SPECTRUM_OF, "oof"},
    {"paper", CST_OPT_BLEND_EVIDENCE, "same-loss"},
    {"paper", CST_OPT_SEGMENT_DECISION, "argmax"},
    {"paper", CST_OPT_TARGET_RANGE, "none"},
    {"paper", CST_OPT_TARGET_TRANSFORM, "none"},
    /* CoRe-Stack: Pearson 0.95, hand-crafted features, cross-validated penalty, inverse RMSE. */
    {"prototype", CST_OPT_NOISE, "off"},
    {"prototype", CST_OPT_REDUNDANCY_MEASURE, "pearson"},
    {"prototype", CST_OPT_REDUNDANCY_TIES, "keep"},
    {"prototype", CST_OPT_SELECT_DIRECTION, "none"},
    {"prototype", CST_OPT_META_LEARNERS, "ridge,elastic-net,lasso"},
    {"prototype", CST_OPT_GATE_MODE, "prototype"},
    {"prototype", CST_OPT_SPECTRUM_OF, "oof"},
    {"prototype", CST_OPT_BLEND_EVIDENCE, "same-loss"},
    {"prototype", CST_OPT_BLEND_RULE, "inverse-rmse"},
    {"prototype", CST_OPT_SEGMENT_DECISION, "argmax"},
    {"prototype", CST_OPT_TARGET_RANGE, "none"},
    {"prototype", CST_OPT_TARGET_TRANSFORM, "none"},
    {"prototype", CST_OPT_DOMAIN_AWARE, "false"},
};

enum { VALUE_CHARS = 256 };

struct cst_options {
    char text[CST_OPT_COUNT][VALUE_CHARS];
    double number[CST_OPT_COUNT]; /* number, flag, choice or bits of a list */
    bool given[CST_OPT_COUNT];    /* set since the preset was applied */
    const char *preset;
};

int64_t cst_option_count(void) {
    return CST_OPT_COUNT;
}

const cst_option_spec *cst_option_at(int64_t index) {
    return index >= 0 && index < CST_OPT_COUNT ? &SPECS[index] : NULL;
}

const char *cst_preset_at(size_t index) {
    return index < sizeof PRESETS / sizeof PRESETS[0] ? PRESETS[index] : NULL;
}

/* Position of text[0..length-1] among choices separated by '|'; -1 when absent. */
static int choice_index(const char *choices, const char *text, size_t length) {
    int index = 0;
    for (const char *at = choices; *at; index++) {
        size_t width = strcspn(at, "|");
        if (width == length && strncmp(at, text, length) == 0)
            return index;
        at += width;
        at += *at == '|';
    }
    return -1;
}

static bool parse_flag(const char *text, double *out) {
    static const char *const words[] = {"false", "true", "0", "1", "no", "yes", "off", "on"};
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
        if (strcmp(text, words[i]) == 0) {
            *out = (double)(i % 2);
            return true;
        }
    return false;
}

static bool parse_number(const cst_option_spec *spec, const char *text, double *out) {
    char *end = NULL;
    errno = 0;
    double value = cst_strtod(text, &end);
    if (end == text || *end || errno == ERANGE || !isfinite(value))
        return false;
    *out = value;
    return value >= spec->least && value <= spec->most;
}

/* Decimal digits. Bounds are at most 2^53, so that every whole number within them is held exactly.
 */
static bool parse_integer(const cst_option_spec *spec, const char *text, double *out) {
    uint64_t value = 0;
    if (!*text || strspn(text, "0123456789") != strlen(text))
        return false;
    for (; *text; text++) {
        value = 10 * value + (uint64_t)(*text - '0');
        if (value > (uint64_t)spec->most)
            return false;
    }
    *out = (double)value;
    return *out >= spec->least;
}

static bool parse_list(const cst_option_spec *spec, const char *text, double *out) {
    unsigned bits = 0;
    for (const char *at = text; *at;) {
        size_t width = strcspn(at, ",");
        int index = choice_index(spec->choices, at, width);
        if (index < 0)
            return false;
        bits |= 1U << index;
        at += width;
        at += *at == ',';
    }
    *out = (double)bits;
    return bits != 0;
}

static bool parse_value(const cst_option_spec *spec, const char *text, double *out) {
    switch (spec->type) {
    case CST_OPTION_INTEGER:
        return parse_integer(spec, text, out);
    case CST_OPTION_REAL:
        return parse_number(spec, text, out);
    case CST_OPTION_BOOLEAN:
        return parse_flag(text, out);
    case CST_OPTION_CHOICE:
        *out = (double)choice_index(spec->choices, text, strlen(text));
        return *out >= 0;
    case CST_OPTION_LIST:
        return parse_list(spec, text, out);
    case CST_OPTION_TEXT:
        return strpbrk(text, "\n\r\t") == NULL;
    }
    return false;
}

static cst_status bad_value(cst_context *context, const cst_option_spec *spec, const char *value) {
    switch (spec->type) {
    case CST_OPTION_INTEGER:
        return cst_fail(context, CST_ERROR_ARGUMENT,
                        "option %s: '%s' is not a whole number from %.0f to %.0f", spec->key, value,
                        spec->least, spec->most);
    case CST_OPTION_REAL:
        return cst_fail(context, CST_ERROR_ARGUMENT,
                        "option %s: '%s' is not a number from %.15g to %.15g", spec->key, value,
                        spec->least, spec->most);
    case CST_OPTION_BOOLEAN:
        return cst_fail(context, CST_ERROR_ARGUMENT, "option %s: '%s' is not true or false",
                        spec->key, value);
    case CST_OPTION_TEXT:
        return cst_fail(context, CST_ERROR_ARGUMENT,
                        "option %s: '%.40s' is no single line of at most %d characters", spec->key,
                        value, VALUE_CHARS - 1);
    default:
        return cst_fail(
            context, CST_ERROR_ARGUMENT, "option %s: '%s' is not %s %s", spec->key, value,
            spec->type == CST_OPTION_LIST ? "a comma-separated list of" : "one of", spec->choices);
    }
}

static cst_status set_id(cst_context *context, cst_options *options, cst_option_id id,
                         const char *value) {
    double number = 0;
    if (strlen(value) >= VALUE_CHARS || !parse_value(&SPECS[id], value, &number))
        return bad_value(context, &SPECS[id], value);
    (void)cst_snprintf(options->text[id], VALUE_CHARS, "%s", value);
    options->number[id] = number;
    return CST_OK;
}

static int find_key(const char *key) {
    for (int id = 0; id < CST_OPT_COUNT; id++)
        if (strcmp(SPECS[id].key, key) == 0)
            return id;
    return -1;
}

cst_status cst_options_set(cst_context *context, cst_options *options, const char *key,
                           const char *value) {
    CST_ENTER(context);
    CST_NEED(context, options && key && value, "options, key and value are required");
    int id = find_key(key);
    if (id < 0)
        return cst_fail(context, CST_ERROR_ARGUMENT,
                        "unknown option '%s'; `corestack options` lists them", key);
    CST_TRY(set_id(context, options, (cst_option_id)id, value));
    options->given[id] = true;
    return CST_OK;
}

/* A whole number that is spelled otherwise (5.0, 1e3), in digits; false for what is none. From 2^53
 * on such a number may have been rounded. */
static bool spell_in_digits(const cst_option_spec *spec, const char *value, char out[VALUE_CHARS]) {
    double number = 0;
    if (spec->type != CST_OPTION_INTEGER || !parse_number(spec, value, &number) ||
        number != floor(number) || number >= (double)CST_SEED_MAX)
        return false;
    (void)cst_snprintf(out, VALUE_CHARS, "%lld", (long long)number);
    return true;
}

cst_status cst_options_restore(cst_context *context, cst_options *options, const char *key,
                               const char *value) {
    char digits[VALUE_CHARS];
    int id = find_key(key);
    bool respelled = id >= 0 && spell_in_digits(&SPECS[id], value, digits);
    return cst_options_set(context, options, key, respelled ? digits : value);
}

cst_status cst_options_preset(cst_context *context, cst_options *options, const char *preset) {
    CST_ENTER(context);
    CST_NEED(context, options && preset, "options and preset are required");
    const char *known = NULL;
    for (size_t i = 0; cst_preset_at(i); i++)
        if (strcmp(cst_preset_at(i), preset) == 0)
            known = cst_preset_at(i);
    if (!known)
        return cst_fail(context, CST_ERROR_ARGUMENT,
                        "unknown preset '%s'; use default, compact, best, paper or prototype",
                        preset);
    for (int id = 0; id < CST_OPT_COUNT; id++)
        CST_TRY(set_id(context, options, (cst_option_id)id, SPECS[id].initial));
    for (size_t i = 0; i < sizeof PRESET_VALUES / sizeof PRESET_VALUES[0]; i++)
        if (strcmp(PRESET_VALUES[i].preset, known) == 0)
            CST_TRY(set_id(context, options, PRESET_VALUES[i].id, PRESET_VALUES[i].value));
    memset(options->given, 0, sizeof options->given);
    options->preset = known;
    return CST_OK;
}

cst_status cst_options_create(cst_context *context, cst_options **out) {
    CST_CLEAR(out);
    CST_ENTER(context);
    CST_NEED(context, out, "the options are required");
    *out = cst_alloc(context, 1, sizeof **out);
    if (!*out)
        return cst_why(context, CST_ERROR_MEMORY);
    cst_status status = cst_options_preset(context, *out, "default");
    if (status != CST_OK) {
        cst_options_free(context, *out);
        *out = NULL;
    }
    return cst_why(context, status);
}

void cst_options_free(cst_context *context, cst_options *options) {
    cst_free(context, options);
}

const char *cst_options_get(const cst_options *options, const char *key) {
    int id = options && key ? find_key(key) : -1;
    return id < 0 ? NULL : options->text[id];
}

const char *cst_options_preset_name(const cst_options *options) {
    return options ? options->preset : NULL;
}

double cst_option_real(const cst_options *options, cst_option_id id) {
    return options->number[id];
}

int64_t cst_option_integer(const cst_options *options, cst_option_id id) {
    return (int64_t)options->number[id];
}

bool cst_option_flag(const cst_options *options, cst_option_id id) {
    return options->number[id] != 0;
}

bool cst_option_given(const cst_options *options, cst_option_id id) {
    return options->given[id];
}

int cst_option_choice(const cst_options *options, cst_option_id id) {
    return (int)options->number[id];
}
