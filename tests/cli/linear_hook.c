/*
 * A program that predicts, for tests of soups: linear_hook INPUTS.f64 CANDIDATE PREDICTIONS.npy.
 * INPUTS.f64: rows and columns as int64, then the inputs x [rows][columns] as float64. With more
 * than one output the prediction is softmax(x W^T + b), with one the value itself. CANDIDATE has
 * "weight" [outputs, columns] and "bias" [outputs].
 */
#include <corestack/files.h>
#include <corestack/more.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

static cst_context *context;

static _Noreturn void stop(const char *what) {
    (void)fprintf(stderr, "linear_hook: %s: %s\n", what, cst_last_error(context));
    exit(9);
}

/* A tensor of the candidate; the caller's. */
static double *load(const cst_safetensors *file, const char *name, int64_t *elements) {
    int64_t tensor = cst_safetensors_find(file, name);
    *elements = cst_safetensors_bytes(file, tensor) * 8 /
                cst_dtype_bits(cst_safetensors_dtype(file, tensor));
    double *values = *elements > 0 ? malloc((size_t)*elements * sizeof *values) : NULL;
    if (!values || cst_safetensors_read_f64(context, file, tensor, 0, *elements, values) != CST_OK)
        stop(name);
    return values;
}

static double *load_inputs(const char *path, int64_t size[2]) {
    FILE *file = fopen(path, "rb");
    if (!file || fread(size, sizeof *size, 2, file) != 2)
        stop(path);
    size_t cells = (size_t)(size[0] * size[1]);
    double *inputs = malloc((cells + 1) * sizeof *inputs);
    if (!inputs || fread(inputs, sizeof *inputs, cells, file) != cells)
        stop(path);
    (void)fclose(file);
    return inputs;
}

static void predict(const double *x, int64_t columns, const double *weight, const double *bias,
                    int64_t outputs, float *out) {
    double scores[16];
    double most = -INFINITY;
    double sum = 0;
    for (int64_t o = 0; o < outputs; o++) {
        scores[o] = bias[o];
        for (int64_t j = 0; j < columns; j++)
            scores[o] += weight[o * columns + j] * x[j];
        most = fmax(most, scores[o]);
    }
    if (outputs == 1) {
        out[0] = (float)scores[0];
        return;
    }
    for (int64_t o = 0; o < outputs; o++)
        sum += scores[o] = exp(scores[o] - most);
    for (int64_t o = 0; o < outputs; o++)
        out[o] = (float)(scores[o] / sum);
}

int main(int argc, char **argv) {
    cst_safetensors *file = NULL;
    int64_t size[2] = {0};
    int64_t elements = 0;
    int64_t outputs = 0;
    if (argc != 4)
        return 8;
    if (cst_context_create(&context) != CST_OK ||
        cst_safetensors_open(context, &file, argv[2]) != CST_OK)
        stop("opening the candidate");
    double *inputs = load_inputs(argv[1], size);
    double *weight = load(file, "weight", &elements);
    double *bias = load(file, "bias", &outputs);
    if (outputs > 16 || elements != outputs * size[1])
        stop("sizes");
    float *out = malloc((size_t)(size[0] * outputs) * sizeof *out);
    for (int64_t i = 0; out && i < size[0]; i++)
        predict(inputs + i * size[1], size[1], weight, bias, outputs, out + i * outputs);
    if (!out || cst_write_predictions(context, argv[3], out, size[0], (int32_t)outputs) != CST_OK)
        stop("writing");
    free(out);
    free(bias);
    free(weight);
    free(inputs);
    cst_safetensors_close(context, file);
    cst_context_free(context);
    return 0;
}
