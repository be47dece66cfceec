/* Rows of the user's own in a comparison: predictions, or a fitted model, which is scored as an
 * evaluation scores it. docs/baselines.md. */
#include "core/retry.h"
#include "data/pool/pool.h"
#include "fit/harness.h"
#include "model/codec.h"

#include <math.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static bool is_model_file(const char *path) {
    char head[CST_MODEL_MAGIC_BYTES];
    struct stat info;
    int fd = path ? cst_open_file(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK, 0) : -1;
    bool is = fd >= 0 && fstat(fd, &info) == 0 && S_ISREG(info.st_mode) &&
              read(fd, head, sizeof head) == (ssize_t)sizeof head &&
              memcmp(head, CST_MODEL_MAGIC, sizeof head) == 0;
    if (fd >= 0)
        (void)close(fd);
    return is;
}

static cst_status check(cst_context *context, const cst_evaluation *e, const cst_model *model,
                        const char *name) {
    if (model->task != e->ops->task)
        return cst_fail(context, CST_ERROR_INPUT,
                        "'%s' is a model of %s, but the task of the pool is %s", name,
                        cst_task_text(model->task), cst_task_text(e->ops->task));
    if (e->nested)
        return cst_fail(context, CST_ERROR_INPUT,
                        "'%s' is a fitted model, and the rows of split '%s' are scored by fits "
                        "that did not see them; score the model on another split (--split test)",
                        name, e->split);
    if (cst_pool_misses(e->pool))
        return cst_fail(context, CST_ERROR_UNSUPPORTED,
                        "'%s': a fitted model is not compared where predictions of rows are "
                        "missing; evaluate scores it beside baselines",
                        name);
    return CST_OK;
}

/* Which members of the pool it reads, with their weights where it is one pool. */
static cst_status take_members(cst_context *context, const cst_evaluation *e,
                               const cst_model *model, cst_entry *entry) {
    bool mix = entry->weights != NULL; /* so far in the model's order */
    CST_TAKE(context, &entry->scope, entry->weights, e->members);
    for (int32_t k = 0; k < e->members; k++) {
        const char *name = cst_pool_member_name(e->pool, k);
        int32_t j = 0;
        while (j < cst_model_inputs(model) && strcmp(cst_model_input_name(model, j), name) != 0)
            j++;
        bool used = entry->uses[k] = j < cst_model_inputs(model);
        entry->models += used;
        entry->weights[k] = used && mix ? cst_model_member_weight(model, j) : 0;
    }
    entry->mix = mix ? CST_MIX_LOGLINEAR : CST_MIX_OTHER;
    entry->weights = mix ? entry->weights : NULL;
    entry->flops_rel = cst_training_flops_rel(e->source, entry->uses);
    entry->kappa_gram = entry->kappa_cka = NAN;
    return CST_OK;
}

CST_OWNED(cst_model)

static cst_status add(cst_context *context, const cst_evaluation *e, const cst_model *model,
                      cst_evaluation *rows, cst_entry *entry) {
    const char *method = cst_model_value(model, "method");
    const char *preset = cst_model_value(model, "preset");
    bool seen = false;
    CST_TRY(check(context, e, model, entry->name));
    *rows = *e;
    rows->findings = (cst_findings){0};
    rows->scope = (cst_scope){0};
    rows->pearson = rows->cka = NULL;
    rows->data = NULL;
    rows->source = NULL;
    CST_TRY(cst_evaluation_begin(context, rows, model));
    CST_TRY(cst_entry_predict(context, rows, model, entry));
    CST_TRY(e->ops->seen(context, rows, model, &seen));
    if (seen)
        return cst_fail(context, CST_ERROR_INPUT,
                        "'%s' was fitted on the rows of split '%s', so its scores there say "
                        "nothing beside those of others; name a split that it has not seen",
                        entry->name, e->split);
    entry->definition = cst_take_format(context, &entry->scope, "a fitted model (%s %s)",
                                        method ? "method" : "preset",
                                        method   ? method
                                        : preset ? preset
                                                 : "default");
    return entry->definition ? take_members(context, e, model, entry) : CST_ERROR_MEMORY;
}

static cst_status take_model(cst_context *context, const cst_evaluation *e, const char *path,
                             cst_entry *entry) {
    cst_model *model = NULL;
    cst_evaluation *rows = cst_take(context, &entry->scope, 1, sizeof *rows);
    CST_SCOPE(scope);
    if (!rows)
        return CST_ERROR_MEMORY;
    CST_TRY(cst_model_load(context, &model, path));
    CST_OWN(context, scope, cst_model, model);
    CST_OWN(context, &entry->scope, cst_evaluation, rows); /* which the result may borrow from */
    return add(context, e, model, rows, entry);
}

/* Rows of a table have different names, and none of them is that of a method. */
static cst_status check_name(cst_context *context, const cst_task_ops *ops,
                             const cst_entry *entries, int32_t count, const char *name) {
    size_t length = strlen(name);
    bool known =
        strcmp(name, "all") == 0 || cst_method_describe(name) || cst_added_find(context, name);
    if (length == 0 || length >= CST_METHOD_NAME_CHARS)
        return cst_fail(context, CST_ERROR_ARGUMENT,
                        "'%.80s': a name of predictions of your own must have 1 to %d characters",
                        name, CST_METHOD_NAME_CHARS - 1);
    for (size_t i = 0; !known && ops->method_name(i); i++)
        known = strcmp(name, ops->method_name(i)) == 0;
    if (!known && cst_entries_find(entries, count, name) < 0)
        return CST_OK;
    return cst_fail(context, CST_ERROR_ARGUMENT,
                    "'%s' cannot be the name of predictions of your own: it is that of %s; give "
                    "them another (--with NAME=FILE)",
                    name, known ? "a method" : "another row");
}

cst_own_predictions cst_own_file(const char *path, char name[CST_METHOD_NAME_CHARS]) {
    size_t end = path ? strlen(path) : 0;
    while (end > 1 && path[end - 1] == '/')
        end--;
    size_t first = end;
    while (first > 0 && path[first - 1] != '/')
        first--;
    size_t most = end - first < CST_METHOD_NAME_CHARS ? end - first : CST_METHOD_NAME_CHARS - 1;
    (void)cst_snprintf(name, CST_METHOD_NAME_CHARS, "%.*s", (int)most, path ? path + first : "");
    return (cst_own_predictions){.name = name, .path = path};
}

cst_status cst_entries_add_own(cst_context *context, const cst_evaluation *e, cst_entry *entries,
                               int32_t *count) {
    for (int64_t i = 0; i < e->options->own_count; i++) {
        const cst_own_predictions *given = &e->options->own[i];
        cst_entry *entry = &entries[*count];
        CST_TRY(check_name(context, e->ops, entries, *count, given->name));
        cst_entry_begin(given->name, entry);
        *count += 1;
        entry->own = true;
        entry->seconds = NAN;
        CST_TAKE(context, &entry->scope, entry->uses, e->members);
        if (is_model_file(given->path)) {
            CST_TRY(take_model(context, e, given->path, entry));
            continue;
        }
        entry->definition =
            cst_take_format(context, &entry->scope, "predictions of your own%s%s",
                            given->path ? ": " : "", given->path ? given->path : "");
        entry->result = cst_take(context, &entry->scope, 1, e->ops->result_bytes);
        if (!entry->definition || !entry->result)
            return CST_ERROR_MEMORY;
        CST_TRY(e->ops->own(context, e, given, entry));
        CST_TRY(cst_entry_metric(context, e, entry));
    }
    return CST_OK;
}
