/* A model as a package of npm: the library for prediction as WebAssembly, which `make wasm` builds,
 * and the model. docs/serving.md#node-and-browsers. */
#define _GNU_SOURCE /* dladdr */
#include "core/number.h"
#include "data/files/bytes.h"
#include "data/files/output.h"
#include "export/formats.h"

#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static bool is_package(const char *folder) {
    char path[PATH_MAX + 32];
    int length = cst_snprintf(path, sizeof path, "%s/corestack.wasm", folder);
    return length > 0 && (size_t)length < sizeof path && access(path, R_OK) == 0;
}

/* $CORESTACK_WASM, or a folder beside the library, or beside the program that it is linked into. */
static cst_status find_package(cst_context *context, char folder[static PATH_MAX]) {
    static const char *const places[] = {"/wasm", "/../share/corestack/wasm",
                                         "/../../share/corestack/wasm"};
    const char *given = getenv("CORESTACK_WASM");
    char self[PATH_MAX];
    Dl_info info;
    /* Of a program, dladdr gives the word that it was called with. */
    bool known = (!given || !*given) && dladdr(places, &info) != 0 &&
                 realpath(strstr(info.dli_fname, ".so") ? info.dli_fname : "/proc/self/exe", self);
    char *slash = known ? strrchr(self, '/') : NULL;
    if (slash)
        *slash = '\0';
    for (size_t i = 0; slash && i < sizeof places / sizeof *places; i++)
        if (cst_snprintf(folder, PATH_MAX, "%s%s", self, places[i]) < PATH_MAX &&
            is_package(folder))
            return CST_OK;
    if (given && *given && cst_snprintf(folder, PATH_MAX, "%s", given) < PATH_MAX &&
        is_package(folder))
        return CST_OK;
    return cst_fail(context, CST_ERROR_UNSUPPORTED,
                    "there is no corestack.wasm %s%s: type `make wasm` in the sources of corestack "
                    "(it needs emscripten), and set CORESTACK_WASM to the folder that it makes",
                    given && *given ? "in CORESTACK_WASM, " : "beside corestack",
                    given && *given ? given : "");
}

static cst_status copy(cst_context *context, const char *from, const char *to) {
    cst_bytes *source = NULL;
    cst_output_file *output = NULL;
    const unsigned char *bytes = NULL;
    cst_status status = cst_bytes_open_file(context, &source, from);
    CST_THEN(cst_bytes_slurp(context, source, &bytes));
    CST_THEN(cst_output_open(context, &output, to));
    CST_THEN(cst_output_write(context, output, bytes, (size_t)cst_bytes_size(source)));
    status = cst_output_end(context, output, status);
    cst_bytes_close(context, source);
    return status;
}

cst_status cst_export_wasm(cst_context *context, const cst_model *model, const cst_export *how,
                           const char *path) {
    static const char *const files[][2] = {
        {"package", ".json"}, {"index", ".js"}, {"index", ".d.ts"}, {"corestack", ".wasm"}};
    char package[PATH_MAX];
    char from[PATH_MAX + 32];
    char *to = NULL;
    cst_output_folder *folder = NULL;
    if (how->output == CST_OUTPUT_LOGIT)
        return cst_fail(context, CST_ERROR_UNSUPPORTED, "format wasm takes probabilities");
    cst_status status = find_package(context, package);
    CST_THEN(cst_output_folder_open(context, &folder, path));
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        (void)cst_snprintf(from, sizeof from, "%s/%s%s", package, files[i][0], files[i][1]);
        CST_THEN(cst_output_folder_file(context, folder, files[i][0], files[i][1], &to));
        CST_THEN(copy(context, from, to));
        cst_free(context, to);
        to = NULL;
    }
    CST_THEN(cst_output_folder_file(context, folder, "model", ".cstack", &to));
    CST_THEN(cst_model_save(context, model, to));
    cst_free(context, to);
    if (status == CST_OK)
        return cst_output_folder_commit(context, folder);
    cst_output_folder_abort(context, folder);
    return status;
}
