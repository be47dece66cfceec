/* The list of findings: notices, errors, part of a document. See the header. */
#include "data/checks/parts.h"

#include <string.h>

cst_status cst_findings_add(cst_context *context, cst_findings *findings, const char *kind,
                            bool fatal, const int32_t *members, int32_t count, const char *format,
                            ...) {
    char text[1536];
    va_list args;
    va_start(args, format);
    (void)cst_vsnprintf(text, sizeof text, format, args);
    va_end(args);
    size_t have = findings->count;
    if (!(have & (have - 1))) { /* the room doubles */
        CST_NEW(context, &findings->scope, cst_finding, grown, have ? 2 * have : 1);
        if (have > 0)
            memcpy(grown, findings->list, have * sizeof *grown);
        findings->list = grown;
    }
    cst_finding *finding = &findings->list[have];
    *finding = (cst_finding){.kind = kind,
                             .fatal = fatal,
                             .count = count,
                             .text = cst_take_text(context, &findings->scope, text)};
    CST_TAKE(context, &findings->scope, finding->members, count);
    if (!finding->text)
        return CST_ERROR_MEMORY;
    if (count > 0)
        memcpy(finding->members, members, (size_t)count * sizeof *members);
    findings->count++;
    return CST_OK;
}

cst_status cst_findings_tell(cst_context *context, const cst_findings *findings) {
    const cst_finding *fatal = NULL;
    for (size_t i = 0; i < findings->count; i++) {
        if (!findings->list[i].fatal && !findings->list[i].quiet)
            cst_notice(context, "%s", findings->list[i].text);
        else if (findings->list[i].fatal && !fatal)
            fatal = &findings->list[i];
    }
    return fatal
               ? cst_fail(context, CST_ERROR_INPUT, "%s (checks=off skips this check)", fatal->text)
               : CST_OK;
}

void cst_findings_tell_left_out(cst_context *context, const cst_pool *pool, const int32_t *members,
                                int32_t count) {
    char who[256];
    cst_notice(context,
               "%s take%s no part in the fit: correct the file%s, or remove the member%s from "
               "the pool (checks=off keeps %s)",
               cst_names_of(pool, members, count, who, sizeof who), count == 1 ? "s" : "",
               count == 1 ? "" : "s", count == 1 ? "" : "s", count == 1 ? "it" : "them");
}

bool cst_findings_fatal(const cst_findings *findings) {
    for (size_t i = 0; i < findings->count; i++)
        if (findings->list[i].fatal)
            return true;
    return false;
}

void cst_findings_free(cst_context *context, cst_findings *findings) {
    (void)context;
    cst_scope_free(&findings->scope);
    *findings = (cst_findings){0};
}

/* which: positions in the pool of what `members` are positions in; NULL: the same. */
static const char *names_of(const cst_pool *pool, const int32_t *which, const int32_t *members,
                            int32_t count, char *text, size_t size) {
    enum { NAMED = 3 };
    size_t used = 0;
    if (!pool) {
        (void)cst_snprintf(text, size, "the file");
        return text;
    }
    int32_t named = count <= NAMED + 1 ? count : NAMED;
    *text = '\0';
    for (int32_t i = 0; i < named && used < size; i++) {
        bool last = i + 1 == count;
        (void)cst_snprintf(text + used, size - used, "%s'%.60s'",
                           i == 0 ? ""
                           : last ? " and "
                                  : ", ",
                           cst_pool_member_name(pool, which ? which[members[i]] : members[i]));
        used += strlen(text + used);
    }
    if (count > named && used < size)
        (void)cst_snprintf(text + used, size - used, " and %d more", (int)(count - named));
    return text;
}

const char *cst_names_of(const cst_pool *pool, const int32_t *members, int32_t count, char *text,
                         size_t size) {
    return names_of(pool, NULL, members, count, text, size);
}

const char *cst_check_who(cst_check *check, int32_t count) {
    const cst_check_source *source = check->source;
    return names_of(source->pool, source->members, check->list, count, check->who,
                    sizeof check->who);
}

const char *cst_class_of(const cst_pool *pool, int32_t c, char *text, size_t size) {
    const char *name = cst_pool_class_name(pool, c);
    if (name)
        (void)cst_snprintf(text, size, "class '%.40s'", name);
    else
        (void)cst_snprintf(text, size, "class %d", (int)c);
    return text;
}
