/* Options: one table of keys, types, defaults, bounds and help. The setters
 * (corestack/corestack.h), --set on the command line, the generated documentation and the report
 * all read it. */
#ifndef CORESTACK_OPTIONS_H
#define CORESTACK_OPTIONS_H

#include <corestack/context.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum cst_option_type {
    CST_OPTION_INTEGER = 0,
    CST_OPTION_REAL = 1,
    CST_OPTION_BOOLEAN = 2, /* true|false, 1|0, yes|no, on|off */
    CST_OPTION_CHOICE = 3,  /* one of `choices`, separated by '|' */
    CST_OPTION_LIST = 4,    /* some of `choices`, separated by ',' */
    CST_OPTION_TEXT = 5     /* a text that what uses it checks */
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

/* Returns the number of options in the table. */
CST_API int64_t cst_option_count(void);

/* Returns option `index` of the table, 0..cst_option_count()-1, or NULL beyond. All strings are
 * static. */
CST_API const cst_option_spec *cst_option_at(int64_t index);

/* Returns the name of preset `index`: "default", "compact", "best", "paper", "prototype";
 * NULL beyond. Static. */
CST_API const char *cst_preset_at(size_t index);

/* Returns the current value of an option as text, or NULL for an unknown key. Borrowed: valid until
 * the option is set or the set is freed. */
CST_API const char *cst_options_get(const cst_options *options, const char *key);

#ifdef __cplusplus
}
#endif
#endif
