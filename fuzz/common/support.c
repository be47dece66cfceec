/*
 * Context, files and checks of the fuzz targets. Under every fuzz/NAME.c. docs/reliability.md,
 * "Fuzzing".
 */
#include "common/fuzz.h"
#include "core/utf8.h"

#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { PATH_CHARS = 512, FILES_MAX = 64, FOLDERS_MAX = 16 };

/* ---- memory ---- */

static struct {
    size_t live;  /* bytes */
    size_t limit; /* bytes */
    size_t input; /* bytes of the input */
} memory;

static void *counted_realloc(void *user, void *pointer, size_t bytes) {
    (void)user;
    memory.live -= malloc_usable_size(pointer);
    if (bytes == 0) {
        free(pointer);
        return NULL;
    }
    if (bytes > memory.limit || memory.live > memory.limit - bytes) {
        (void)fprintf(stderr,
                      "%zu bytes are taken beside %zu for an input of %zu; the limit is %zu\n",
                      bytes, memory.live, memory.input, memory.limit);
        abort();
    }
    void *moved = realloc(pointer, bytes);
    memory.live += malloc_usable_size(moved);
    return moved;
}

cst_context *fuzz_begin(size_t size, size_t factor) {
    cst_context *context = NULL;
    memory.live = 0;
    memory.input = size;
    memory.limit = FUZZ_FLOOR + factor * size;
    FUZZ_CHECK(cst_context_create_with(&context, counted_realloc, NULL) == CST_OK, "a context");
    FUZZ_CHECK(cst_context_set_threads(context, 1) == CST_OK, "one thread");
    return context;
}

void fuzz_end(cst_context *context) {
    cst_context_free(context);
    FUZZ_CHECK(memory.live == 0, "nothing that was allocated is left");
}

/* ---- checks ---- */

_Noreturn void fuzz_broken(const char *file, int line, const char *promise) {
    (void)fprintf(stderr, "%s:%d: broken promise: %s\n", file, line, promise);
    abort();
}

/* As docs/reliability.md has it, written anew: what makes messages printable is under test here. */
static bool may_stand_in_a_line(uint32_t c) {
    bool control = c < 0x20 || (c >= 0x7f && c <= 0x9f);
    bool turns = c == 0x61c || c == 0x200e || c == 0x200f || (c >= 0x202a && c <= 0x202e) ||
                 (c >= 0x2066 && c <= 0x2069);
    return !control && !turns && c != 0x2028 && c != 0x2029;
}

static bool is_printable_line(const char *text) {
    const uint8_t *at = (const uint8_t *)text;
    for (size_t left = strlen(text), step = 0; left > 0; at += step, left -= step) {
        static const uint32_t first[5] = {0, 0x7f, 0x1f, 0x0f, 0x07};
        step = cst_utf8_length(at, left);
        uint32_t c = *at & first[step];
        for (size_t i = 1; i < step; i++)
            c = c << 6 | (at[i] & 0x3f);
        if (step == 0 || !may_stand_in_a_line(c))
            return false;
    }
    return true;
}

bool fuzz_good(cst_context *context, cst_status status, bool argument) {
    if (status == CST_OK)
        return true;
    const char *message = cst_last_error(context);
    bool allowed = status != CST_ERROR_INTERNAL && status != CST_ERROR_MEMORY &&
                   status != CST_ERROR_CANCELLED && (argument || status != CST_ERROR_ARGUMENT);
    if (!allowed)
        (void)fprintf(stderr, "%s: %s\n", cst_status_name(status), message);
    FUZZ_CHECK(allowed, "a hostile file is an error of the input");
    FUZZ_CHECK(message[0] != '\0', "a failure leaves a message");
    FUZZ_CHECK(is_printable_line(message), "a message is one printable line of UTF-8");
    return false;
}

/* ---- files ---- */

static char folder[PATH_CHARS / 2];
static char made[FILES_MAX + FOLDERS_MAX][PATH_CHARS];
static int files;   /* at the front of `made` */
static int folders; /* from FILES_MAX on */

void fuzz_clear(void) {
    for (int i = 0; i < files; i++)
        (void)unlink(made[i]);
    for (int i = folders - 1; i >= 0; i--)
        (void)rmdir(made[FILES_MAX + i]);
    files = 0;
    folders = 0;
}

static void remove_folder(void) {
    fuzz_clear();
    (void)rmdir(folder);
}

const char *fuzz_folder(void) {
    if (folder[0])
        return folder;
    const char *tmp = getenv("TMPDIR");
    const char *root = access("/dev/shm", W_OK) == 0 ? "/dev/shm" : tmp ? tmp : "/tmp";
    (void)snprintf(folder, sizeof folder, "%s/cst_fuzz_XXXXXX", root);
    FUZZ_CHECK(mkdtemp(folder) != NULL, "a temporary folder");
    (void)atexit(remove_folder);
    return folder;
}

static void remember(int *count, int first, int most, const char *path) {
    for (int i = 0; i < *count; i++)
        if (strcmp(made[first + i], path) == 0)
            return;
    FUZZ_CHECK(*count < most, "few files");
    (void)snprintf(made[first + (*count)++], PATH_CHARS, "%s", path);
}

/* The folders on the way to `path`. */
static void make_folders(const char *path) {
    char part[PATH_CHARS];
    size_t root = strlen(fuzz_folder());
    (void)snprintf(part, sizeof part, "%s", path);
    for (char *slash = part + root + 1; (slash = strchr(slash, '/')) != NULL; slash++) {
        *slash = '\0';
        if (mkdir(part, 0700) == 0)
            remember(&folders, FILES_MAX, FOLDERS_MAX, part);
        *slash = '/';
    }
}

const char *fuzz_file(const char *name, const void *data, size_t size) {
    static char paths[4][PATH_CHARS];
    static int turn;
    char *path = paths[turn++ % 4];
    (void)snprintf(path, PATH_CHARS, "%s/%s", fuzz_folder(), name);
    make_folders(path);
    FILE *file = fopen(path, "wb");
    if (!file) /* a name that is a folder as well */
        return path;
    remember(&files, 0, FILES_MAX, path);
    FUZZ_CHECK(size == 0 || fwrite(data, 1, size, file) == size, "a file is written");
    FUZZ_CHECK(fclose(file) == 0, "a file is written");
    return path;
}

/* ---- AFL++ ---- */

#ifdef CST_FUZZ_REPAIR_FIRST
#undef LLVMFuzzerTestOneInput
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    size_t room = size + 64;
    uint8_t *copy = malloc(room);
    FUZZ_CHECK(copy != NULL, "memory for a copy");
    memcpy(copy, data, size);
    int result = fuzz_target(copy, fuzz_repair(copy, size, room));
    free(copy);
    return result;
}
#endif
