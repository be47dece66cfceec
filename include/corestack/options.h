/*
 * Options: one table of keys, types, defaults, bounds and help. The setters here, --set on the
 * command line, the generated documentation and the report all read it.
 */
#ifndef CORESTACK_OPTIONS_H
#define CORESTACK_OPTIONS_H

#include <corestack/context.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct cst_options cst_options;

typedef enum cst_option_type {
    CST_OPTION_INTEGER = 0,
    CST_OPTION_REAL = 1,
    CST_OPTION_BOOLEAN = 2, /* true|false, 1|0, yes|no, on|off */
    CST_OPTION_CHOICE = 3,  /* one of `choices`, separated by '|' */
    CST_OPTION_LIST = 4     /* some of `choices`, separated by ',' */
} cst_option_type;

typedef struct cst_option_spec {
    const char *key;
    cst_option_type type;
    const char *initial; /* the value under preset "default" */
    double least;        /* bounds of numbers, inclusive */
    double most;
    const char *choices; /* of a choice or a list; "" otherwise */
    const char *help;    /* one sentence */
} cst_option_spec;

/* The table. `index` is 0..cst_option_count()-1; NULL beyond. All strings are static. */
CST_API size_t cst_option_count(void);
CST_API const cst_option_spec *cst_option_at(size_t index);

/* The names of the presets: "default", "paper", "prototype"; NULL beyond. */
CST_API const char *cst_preset_at(size_t index);

/* A set of options at preset "default". Free with cst_options_free. */
CST_API cst_status cst_options_create(cst_context *context, cst_options **out);
CST_API void cst_options_free(cst_context *context, cst_options *options);

/* Puts every option to the preset's value. CST_ERROR_ARGUMENT for a name that is not a preset. */
CST_API cst_status cst_options_preset(cst_context *context, cst_options *options,
                                      const char *preset);

/* Sets one option from text. CST_ERROR_ARGUMENT, saying what is allowed, for an unknown key or a
 * bad value. */
CST_API cst_status cst_options_set(cst_context *context, cst_options *options, const char *key,
                                   const char *value);

/* The present value as text, or NULL for an unknown key. Valid until the option is set or freed. */
CST_API const char *cst_options_get(const cst_options *options, const char *key);

/* The preset last applied. */
CST_API const char *cst_options_preset_name(const cst_options *options);

#ifdef __cplusplus
}
#endif
#endif
