/*
 * Fuzz target: lines "key=value", as --set takes them, names of methods and of presets. What an
 * option was set to can be set again and stays the same. src/core/options.h,
 * src/fit/method.h.
 */
#include "core/options.h"
#include "common/fuzz.h"
#include "fit/method.h"

#include <string.h>

static void set_pair(cst_context *context, cst_options *options, const char *key,
                     const char *value) {
    char first[256];
    if (!fuzz_good(context, cst_options_set(context, options, key, value), true))
        return;
    const char *now = cst_options_get(options, key);
    FUZZ_CHECK(now && strlen(now) < sizeof first, "a key that was set has a value");
    (void)strcpy(first, now);
    FUZZ_CHECK(cst_options_set(context, options, key, first) == CST_OK, "a value can be set again");
    FUZZ_CHECK(strcmp(cst_options_get(options, key), first) == 0, "and stays the same");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    cst_context *context = fuzz_begin(size, 16);
    cst_options *options = NULL;
    FUZZ_CHECK(cst_options_create(context, &options) == CST_OK, "options");
    char *text = cst_alloc(context, size + 1, 1);
    FUZZ_CHECK(text != NULL, "room for the input");
    memcpy(text, data, size);
    for (char *line = text; line < text + size;) {
        char *end = line + strcspn(line, "\n");
        char *next = end + 1;
        *end = '\0';
        char *equals = strchr(line, '=');
        cst_method method = {0};
        if (equals) {
            *equals = '\0';
            set_pair(context, options, line, equals + 1);
        } else if (fuzz_good(context, cst_method_parse(context, line, 1, NULL, 0, &method), true)) {
            FUZZ_CHECK(cst_method_definition(&method) != NULL, "a method is defined");
        } else {
            (void)fuzz_good(context, cst_options_preset(context, options, line), true);
        }
        line = next;
    }
    cst_free(context, text);
    cst_options_free(context, options);
    fuzz_end(context);
    return 0;
}
