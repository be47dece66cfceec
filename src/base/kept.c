/*
 * The list of what a call keeps of files. Part of the context. Paper: none.
 */
#include "base/kept.h"

#include "base/context.h"

#define BYTES_MAX ((size_t)64 << 20)

typedef struct cst_kept_value {
    struct cst_kept_value *next;
    struct stat info;
    void *value;
    cst_kept_free_fn release;
} cst_kept_value;

const void *cst_kept_find(cst_context *context, const struct stat *info, cst_kept_free_fn release) {
    cst_context *root = cst_context_root(context);
    const void *found = NULL;
    (void)pthread_mutex_lock(&root->seen_lock);
    const cst_kept_value *v = cst_context_told(context)->kept.first;
    for (; v && !found; v = v->next)
        if (v->release == release && v->info.st_dev == info->st_dev &&
            v->info.st_ino == info->st_ino && cst_seen_unchanged(&v->info, info))
            found = v->value;
    (void)pthread_mutex_unlock(&root->seen_lock);
    return found;
}

bool cst_kept_add(cst_context *context, const struct stat *info, void *value, size_t bytes,
                  cst_kept_free_fn release) {
    cst_context *root = cst_context_root(context);
    cst_kept *kept = &cst_context_told(context)->kept;
    size_t most = root->memory / 4 < BYTES_MAX ? root->memory / 4 : BYTES_MAX;
    if (root->depth == 0) /* no call is at work, whose end would free it */
        return false;
    cst_kept_value *made = cst_alloc(context, 1, sizeof *made);
    if (!made)
        return false;
    *made = (cst_kept_value){.info = *info, .value = value, .release = release};
    bytes += sizeof *made;
    (void)pthread_mutex_lock(&root->seen_lock);
    bool fits = bytes <= most && kept->bytes <= most - bytes;
    if (fits) {
        made->next = kept->first;
        kept->first = made;
        kept->bytes += bytes;
    }
    (void)pthread_mutex_unlock(&root->seen_lock);
    if (!fits)
        cst_free(context, made);
    return fits;
}

void cst_kept_clear(cst_context *context, cst_kept *kept) {
    while (kept->first) {
        cst_kept_value *v = kept->first;
        kept->first = v->next;
        v->release(context, v->value);
        cst_free(context, v);
    }
    *kept = (cst_kept){0};
}
