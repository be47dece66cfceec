/*
 * The list of methods that a comparison or a profile runs: by name, those of a default, or all that
 * apply. Before any of them is fitted. Paper: section "Experimental Setup".
 */
#include "fit/harness.h"

#include <string.h>

enum { METHODS_MAX = 512 };

typedef struct method_list {
    const cst_evaluation *e;
    cst_entry *entries; /* [METHODS_MAX] */
    int32_t count;
} method_list;

int32_t cst_entries_find(const cst_entry *entries, int32_t count, const char *name) {
    for (int32_t m = 0; m < count; m++)
        if (strcmp(entries[m].name, name) == 0)
            return m;
    return -1;
}

static cst_status add_method(cst_context *context, method_list *l, const char *name, bool asked) {
    const cst_compare_options *o = l->e->options;
    int32_t found = cst_entries_find(l->entries, l->count, name);
    if (found >= 0) {
        l->entries[found].asked = l->entries[found].asked || asked;
        return CST_OK;
    }
    if (l->count == METHODS_MAX)
        return cst_fail(context, CST_ERROR_LIMIT, "more than %d methods", METHODS_MAX);
    cst_entry *entry = &l->entries[l->count];
    cst_status status = cst_entry_make(context, l->e, name, o->settings, o->setting_count, entry);
    entry->asked = asked;
    bool runs = status == CST_OK;
    if (runs && !asked && !cst_entry_applies(l->e, entry)) {
        runs = false; /* one of all: without a word */
    } else if (runs) {
        status = cst_entry_check(context, l->e, entry);
        runs = status == CST_OK;
        if (!runs)
            status = cst_entry_leave_out(context, entry, false, status);
    }
    if (runs)
        l->count++;
    else
        cst_entry_free(context, l->e, entry);
    return status;
}

static cst_status add_all(cst_context *context, method_list *l, bool extras) {
    const cst_task_ops *ops = l->e->ops;
    cst_status status = CST_OK;
    for (size_t i = 0; status == CST_OK && ops->method_name(i); i++)
        if (extras || !cst_method_is_extra(ops->method_name(i)))
            status = add_method(context, l, ops->method_name(i), false);
    return status;
}

/* Whether the task has the method, before a calibration map. */
static bool is_of_task(const cst_task_ops *ops, const char *name) {
    size_t length = strcspn(name, "+");
    bool found = false;
    for (size_t i = 0; !found && ops->method_name(i); i++)
        found = strncmp(ops->method_name(i), name, length) == 0 &&
                strcspn(ops->method_name(i), "+") == length;
    return found;
}

static cst_status add_defaults(cst_context *context, method_list *l, const char *const *names) {
    cst_status status = names ? CST_OK : add_all(context, l, false);
    for (; status == CST_OK && names && *names; names++)
        if (is_of_task(l->e->ops, *names))
            status = add_method(context, l, *names, false);
    return status;
}

cst_status cst_entries_list(cst_context *context, const cst_evaluation *e,
                            const char *const *defaults, cst_entry **entries, int32_t *count) {
    const cst_compare_options *o = e->options;
    method_list l = {.e = e, .entries = cst_alloc(context, METHODS_MAX, sizeof *l.entries)};
    *entries = l.entries;
    *count = 0;
    if (!l.entries)
        return CST_ERROR_MEMORY;
    cst_status status = o->method_count < 1 ? add_defaults(context, &l, defaults) : CST_OK;
    for (int32_t m = 0; status == CST_OK && m < o->method_count; m++)
        status = strcmp(o->methods[m], "all") == 0 ? add_all(context, &l, true)
                                                   : add_method(context, &l, o->methods[m], true);
    *count = l.count;
    return status;
}

void cst_entries_remove(cst_context *context, const cst_evaluation *e, cst_entry *entries,
                        int32_t *count, int32_t place) {
    cst_entry_free(context, e, &entries[place]);
    memmove(entries + place, entries + place + 1, (size_t)(*count - place - 1) * sizeof *entries);
    entries[--*count] = (cst_entry){0};
}

void cst_entries_free(cst_context *context, const cst_evaluation *e, cst_entry *entries,
                      int32_t count) {
    for (int32_t m = 0; entries && m < count; m++)
        cst_entry_free(context, e, &entries[m]);
    cst_free(context, entries);
}
