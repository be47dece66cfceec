/* Shared by compare, ablate and sweep: options, method names, the folder behind --save. */
#ifndef CLI_COMPARISON_H
#define CLI_COMPARISON_H

#include "cli.h"

#include <corestack/compare.h>

/* The files behind --save: written beside their names and given them at the end, all or none. */
typedef struct cli_save {
    cli_call *call;
    const cst_pool *pool;
    const char *folder; /* as given; NULL: nothing is saved */
    bool made;          /* the folder is ours */
    bool said;          /* why a file has no place stands on stderr already */
} cli_save;

typedef struct cli_comparison {
    cst_compare_options options;
    const char **methods;  /* [options.method_count], pieces of `list` */
    char *list;            /* --methods with zeros for its commas */
    const char **settings; /* [options.setting_count], of the command line */
    cli_save save;
} cli_comparison;

/* Reads the options, opens the pool, compares, prints the report and names saved files. over:
 * sweeps over it. */
typedef cst_status (*cli_compare_fn)(cst_context *context, cst_pool *pool,
                                     const cst_compare_options *options, cst_report **report);
int cli_run_comparison(cli_call *call, int32_t usual, cli_compare_fn compare,
                       const cst_sweep_options *over);

/* Reads --methods and --set. none: that word stands for an empty list. */
int cli_read_methods(cli_call *call, bool none, cli_comparison *c);
void cli_free_methods(cli_comparison *c);

/* Fails, with the nearest name, for no method; `all` is allowed in lists. */
int cli_check_method(cli_call *call, const char *option, const char *name);

/* Whether the methods are to be listed, and the list: --list-methods, or --methods help. */
bool cli_wants_methods(const cli_call *call);
int cli_list_methods(cli_call *call);

/* ---- save.c ---- */

/* Checks --save before any work: the folder can be used, holds no input, and each file can have its
 * own name. */
int cli_open_save(cli_call *call, const cst_pool *pool, const cst_compare_options *options,
                  cli_save *save);

/* cst_compare_options.predicted; user: the cli_save. */
cst_status cli_save_predictions(void *user, const char *method, const char *split,
                                const float *probabilities, int64_t rows, int32_t classes);

/* Removes what was written, and the folder where it is ours. */
void cli_drop_save(cli_save *save);

int cli_close_save(cli_call *call, cli_save *save, int code);

#endif
