/*
 * What the checks of a pool found: a list of findings, each one sentence about some members or
 * about the data. Before a fit; docs/method.md#checks.
 */
#ifndef CST_CHECKS_FINDINGS_H
#define CST_CHECKS_FINDINGS_H

#include "data/pool/pool.h"

typedef struct cst_finding {
    const char *kind; /* static: "labels", "order", "classes", "chance", "leak", ... */
    bool fatal;       /* no honest fit is possible */
    bool quiet;       /* for who looks at the pool: no notice of a fit */
    int32_t *members; /* [count] positions in the pool */
    int32_t count;
    char *text;
} cst_finding;

typedef struct cst_findings {
    cst_finding *list;
    size_t count;
} cst_findings;

/* Adds a finding about members [count] (positions in the pool; may be none), whose kind is static.
 */
cst_status cst_findings_add(cst_context *context, cst_findings *findings, const char *kind,
                            bool fatal, const int32_t *members, int32_t count, const char *format,
                            ...) CST_PRINTF(7, 8);

/* Each finding that is not quiet as a notice; the first fatal one as CST_ERROR_INPUT instead, after
 * the notices. */
cst_status cst_findings_tell(cst_context *context, const cst_findings *findings);

bool cst_findings_fatal(const cst_findings *findings);

void cst_findings_free(cst_context *context, cst_findings *findings);

/* "'a'", "'a' and 'b'", "'a', 'b' and 3 more" of members [count], cut to `size`. pool: NULL for a
 * file alone. */
const char *cst_names_of(const cst_pool *pool, const int32_t *members, int32_t count, char *text,
                         size_t size);
/* "class 3", or "class 'cat'" where the pool names its classes. */
const char *cst_class_of(const cst_pool *pool, int32_t c, char *text, size_t size);

#endif
