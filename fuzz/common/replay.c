/*
 * A main for a fuzz target without a fuzzing engine: gives it every file named, and every file of
 * every folder named, in the order of the names. What ctest runs. docs/reliability.md, "Fuzzing".
 */
#include "common/fuzz.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static long replayed;

static void replay_file(const char *path) {
    FILE *file = fopen(path, "rb");
    struct stat info;
    if (!file || stat(path, &info) != 0) {
        perror(path);
        exit(2);
    }
    size_t size = (size_t)info.st_size;
    /* Exactly as many bytes, so that reading one more is seen. */
    uint8_t *data = malloc(size > 0 ? size : 1);
    if (!data || fread(data, 1, size, file) != size) {
        perror(path);
        exit(2);
    }
    (void)fclose(file);
    if (getenv("FUZZ_VERBOSE"))
        (void)fprintf(stderr, "%s\n", path);
    (void)LLVMFuzzerTestOneInput(data, size);
    free(data);
    replayed++;
}

static int visible(const struct dirent *entry) {
    return entry->d_name[0] != '.';
}

static void replay(const char *path) {
    struct stat info;
    struct dirent **entries = NULL;
    if (stat(path, &info) != 0 || !S_ISDIR(info.st_mode)) {
        replay_file(path);
        return;
    }
    int count = scandir(path, &entries, visible, alphasort);
    for (int i = 0; i < count; i++) {
        char inner[4096];
        (void)snprintf(inner, sizeof inner, "%s/%s", path, entries[i]->d_name);
        replay(inner);
        free(entries[i]);
    }
    free(entries);
}

int main(int argc, char **argv) {
    for (int i = 1; i < argc; i++)
        replay(argv[i]);
    (void)printf("%ld inputs\n", replayed);
    return replayed > 0 ? 0 : 2;
}
