/* Predicts with an exported file of C99, for test_serving.py: raw float32 rows of each member into
 * raw float32 rows, in one call and then row by row, which has to give the same.
 *
 *     exported CLASSES FILE... OUT */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

int stack_predict(const float *const *members, int64_t rows, float *out);

static double seconds(clock_t from) {
    return (double)(clock() - from) / CLOCKS_PER_SEC;
}

int main(int argc, char **argv) {
    size_t members = (size_t)(argc - 3);
    int64_t classes = argc > 3 ? atoll(argv[1]) : 0;
    int64_t rows = 0;
    const float **at = malloc(members * sizeof *at);
    const float **row = malloc(members * sizeof *row);
    if (classes < 1 || !at || !row)
        return 2;
    for (size_t k = 0; k < members; k++) {
        FILE *file = fopen(argv[2 + k], "rb");
        if (!file || fseek(file, 0, SEEK_END) != 0)
            return 2;
        size_t bytes = (size_t)ftell(file);
        float *numbers = malloc(bytes);
        rewind(file);
        if (!numbers || fread(numbers, 1, bytes, file) != bytes)
            return 2;
        (void)fclose(file);
        at[k] = numbers;
        rows = (int64_t)(bytes / sizeof(float)) / classes;
    }
    size_t cells = (size_t)(rows * classes);
    float *out = malloc(cells * sizeof *out);
    float *again = malloc(cells * sizeof *again);
    if (!out || !again)
        return 2;
    clock_t start = clock();
    int status = stack_predict(at, rows, out);
    double batch = seconds(start);
    if (status != 0)
        return 10 + status;
    start = clock();
    for (int64_t i = 0; i < rows; i++) {
        for (size_t k = 0; k < members; k++)
            row[k] = at[k] + i * classes;
        if (stack_predict(row, 1, again + i * classes) != 0)
            return 3;
    }
    printf("%.3f us a row, %.3f us one by one\n", 1e6 * batch / (double)rows,
           1e6 * seconds(start) / (double)rows);
    if (memcmp(out, again, cells * sizeof *out) != 0)
        return 4;
    if (stack_predict(NULL, 1, out) != 1 || stack_predict(at, -1, out) != 1)
        return 5;
    FILE *to = fopen(argv[argc - 1], "wb");
    return !to || fwrite(out, sizeof *out, cells, to) != cells || fclose(to) != 0 ? 6 : 0;
}
