/*
 * A program from outside that uses both libraries: writes a tensor (libcorestack-weights) and reads
 * it again (libcorestack), with one context.
 */
#include <corestack/safetensors.h>
#include <stdio.h>

int main(void) {
    static const char path[] = "weights.safetensors";
    const int64_t shape[1] = {3};
    const float given[3] = {1.0F, -2.5F, 4.0F};
    float found[3] = {0, 0, 0};
    cst_context *context = NULL;
    cst_safetensors_writer *writer = NULL;
    cst_safetensors *file = NULL;
    int failed = cst_context_create(&context) ||
                 cst_safetensors_writer_open(context, &writer, path, CST_TENSOR_ORDER_SORTED) ||
                 cst_safetensors_writer_add(context, writer, "w", CST_DTYPE_F32, shape, 1) ||
                 cst_safetensors_writer_start(context, writer) ||
                 cst_safetensors_writer_put_f32(context, writer, 0, given, 3);
    if (failed)
        cst_safetensors_writer_abandon(context, writer);
    else
        failed = cst_safetensors_writer_finish(context, writer) ||
                 cst_safetensors_open(context, &file, path) ||
                 cst_safetensors_read_f32(context, file, 0, 0, 3, found) || found[0] != given[0] ||
                 found[1] != given[1] || found[2] != given[2];
    if (failed)
        fprintf(stderr, "failed: %s\n", context ? cst_last_error(context) : "no context");
    cst_safetensors_close(context, file);
    cst_context_free(context);
    (void)remove(path);
    return failed;
}
