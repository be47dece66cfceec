/* A context that counts its bytes; the processor's name. See the header. */
#include "core/measurement.h"

#include "core/context.h"
#include "core/retry.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/utsname.h>
#include <unistd.h>

enum { HEAD_BYTES = 64, TEXT_CHARS = 4096, NUMBER_CHARS = 32 };

static void add(cst_measured *measured, size_t bytes) {
    size_t live = __atomic_add_fetch(&measured->live, bytes, __ATOMIC_RELAXED);
    size_t peak = __atomic_load_n(&measured->peak, __ATOMIC_RELAXED);
    while (live > peak && !__atomic_compare_exchange_n(&measured->peak, &peak, live, true,
                                                       __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
    }
}

/* Each array has its size before it. */
static void *counted_realloc(void *user, void *pointer, size_t bytes) {
    cst_measured *measured = user;
    char *raw = pointer ? (char *)pointer - HEAD_BYTES : NULL;
    size_t before = 0;
    if (raw)
        memcpy(&before, raw, sizeof before);
    if (bytes == 0) {
        if (raw)
            (void)measured->realloc_fn(measured->realloc_user, raw, 0);
        (void)__atomic_sub_fetch(&measured->live, before, __ATOMIC_RELAXED);
        return NULL;
    }
    size_t padded = 0;
    char *made = cst_size_add(bytes, HEAD_BYTES, &padded)
                     ? measured->realloc_fn(measured->realloc_user, raw, padded)
                     : NULL;
    if (!made)
        return NULL;
    memcpy(made, &bytes, sizeof bytes);
    add(measured, bytes);
    (void)__atomic_sub_fetch(&measured->live, before, __ATOMIC_RELAXED);
    return made + HEAD_BYTES;
}

cst_status cst_measured_open(cst_context *context, cst_measured *out) {
    *out = (cst_measured){.realloc_fn = context->realloc_fn, .realloc_user = context->realloc_user};
    cst_status status = cst_context_create_with(&out->context, counted_realloc, out);
    if (status != CST_OK)
        return cst_fail(context, status, "out of memory for a context to measure with");
    out->context->threads = context->threads;
    out->context->memory = context->memory;
    return CST_OK;
}

void cst_measured_close(cst_measured *measured) {
    cst_context_free(measured->context);
    measured->context = NULL;
}

void cst_measured_reset(cst_measured *measured) {
    size_t live = __atomic_load_n(&measured->live, __ATOMIC_RELAXED);
    __atomic_store_n(&measured->peak, live, __ATOMIC_RELAXED);
}

size_t cst_measured_peak(const cst_measured *measured) {
    return __atomic_load_n(&measured->peak, __ATOMIC_RELAXED);
}

/* The value after "key<blanks>:" in the first line that begins with the key. */
static bool find_value(const char *text, const char *key, char *out, size_t size) {
    const char *line = strstr(text, key);
    const char *colon = line ? strchr(line, ':') : NULL;
    if (!colon || colon > line + strcspn(line, "\n"))
        return false;
    colon += 1 + strspn(colon + 1, " \t");
    (void)cst_snprintf(out, size, "%.*s", (int)strcspn(colon, "\n"), colon);
    return *out != '\0';
}

/* Looks in the beginning of a file of the system. */
static bool find_in_file(const char *path, const char *key, char *out, size_t size) {
    char text[TEXT_CHARS];
    return cst_read_text(path, text, sizeof text) && find_value(text, key, out, size);
}

int64_t cst_peak_resident(void) {
    char value[NUMBER_CHARS];
    struct rusage usage = {0};
    int64_t kib = 0;
    if (find_in_file("/proc/self/status", "VmHWM", value, sizeof value))
        kib = strtoll(value, NULL, 10);
    else if (getrusage(RUSAGE_SELF, &usage) == 0)
        kib = usage.ru_maxrss;
    return kib * 1024;
}

void cst_cpu_name(char *out, size_t size) {
    struct utsname system;
    if (find_in_file("/proc/cpuinfo", "model name", out, size))
        return;
    (void)cst_snprintf(out, size, "%s", uname(&system) == 0 ? system.machine : "unknown");
}
