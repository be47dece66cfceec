/*
 * Fuzz target: errors of a reference on kinds of corruption, a JSON file.
 * src/data/readers/reference_errors.h.
 */
#include "data/readers/reference_errors.h"
#include "common/fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    const char *path = fuzz_file("errors.json", data, size);
    cst_context *context = fuzz_begin(size, 64);
    cst_reference_errors reference = {0};
    if (fuzz_good(context, cst_reference_errors_read(context, path, &reference), false))
        for (int32_t i = 0; i < reference.count; i++) {
            const cst_reference_error *kind = &reference.kinds[i];
            FUZZ_CHECK(cst_reference_errors_find(&reference, kind->kind) == kind, "kinds by name");
            for (int32_t s = 0; s < kind->count; s++)
                FUZZ_CHECK(kind->errors[s] > 0 && kind->errors[s] <= 1, "errors are fractions");
        }
    cst_reference_errors_free(context, &reference);
    fuzz_end(context);
    return 0;
}
