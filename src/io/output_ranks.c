/*
 * One file of several ranks: rank 0 creates it, the others open it, and all write. On one machine
 * it has no name meanwhile, so that killed ranks leave nothing behind. Paper: none.
 */
#include "io/output_ranks.h"

#include "base/context.h"
#include "base/ranks.h"

#include <string.h>

/* Whether every rank has the file; else `where` names the first that does not. */
static cst_status have_all(cst_context *context, cst_status status, bool have, bool *all,
                           char where[320]) {
    char mine[288] = "";
    void *texts = NULL;
    size_t bytes = 0;
    const char *host = context->ranks.calls.host;
    if (!have)
        (void)cst_snprintf(mine, sizeof mine, "%.255s", host ? host : "this machine");
    status = cst_ranks_gather(context, status, mine, strlen(mine) + 1, &texts, &bytes);
    *all = status == CST_OK;
    const char *at = texts;
    for (int rank = 0; *all && at < (const char *)texts + bytes; rank++, at += strlen(at) + 1)
        if (*at) {
            *all = false;
            (void)cst_snprintf(where, 320, "rank %d on %s", rank, at);
        }
    cst_free(context, texts);
    return status;
}

typedef struct shared {
    cst_output_mark mark;
    bool file;
} shared;

/* Ranks without an output try to open that of rank 0. */
static cst_status join(cst_context *context, cst_status status, cst_output_file **out,
                       const char *path, shared *what, bool *all, char where[320]) {
    status = cst_ranks_from_first(context, status, what, sizeof *what);
    if (status != CST_OK || !what->file)
        return status;
    if (!*out)
        status = cst_output_join(context, out, path, &what->mark);
    return have_all(context, status, *out != NULL, all, where);
}

cst_status cst_output_open_ranks(cst_context *context, cst_status status, cst_output_file **out,
                                 const char *path, uint64_t bytes, bool *all) {
    char where[320] = "";
    bool first = cst_context_rank(context) == 0;
    shared *what = cst_alloc(context, 1, sizeof *what);
    *out = NULL;
    *all = false;
    shared none = {0};
    if (!what && status == CST_OK)
        status = CST_ERROR_MEMORY;
    if (status == CST_OK && what && first) {
        status = cst_output_open(context, out, path);
        what->file = status == CST_OK && cst_output_is_file(*out);
        if (what->file)
            status = cst_output_share(context, *out, bytes, &what->mark);
    }
    status = join(context, status, out, path, what ? what : &none, all, where);
    if (status == CST_OK && what && what->file && !*all) {
        if (first)
            status = cst_output_share_name(context, *out, &what->mark);
        status = join(context, status, out, path, what, all, where);
    }
    if (status == CST_OK && what && what->file && !*all) {
        cst_notice(context,
                   "%s cannot open the output file of rank 0; rank 0 writes the predictions "
                   "of all ranks",
                   where);
        if (!first && *out) {
            status = cst_output_leave(context, *out);
            *out = NULL;
        }
    }
    if (status != CST_OK) {
        cst_output_abort(context, *out);
        *out = NULL;
    }
    cst_free(context, what);
    return status;
}

cst_status cst_output_end_ranks(cst_context *context, cst_status status, cst_output_file *output) {
    bool first = cst_context_rank(context) == 0;
    if (!first && output && status == CST_OK) {
        status = cst_output_leave(context, output);
        output = NULL;
    }
    status = cst_ranks_meet(context, status);
    if (status == CST_OK && first) {
        status = cst_output_commit(context, output);
        output = NULL;
    }
    cst_output_abort(context, output);
    return cst_ranks_meet(context, status);
}
