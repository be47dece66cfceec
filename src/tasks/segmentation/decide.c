/* From probabilities to label maps. After prediction. docs/segmentation.md, "Label maps". */
#include "tasks/segmentation/decide.h"

#include "tasks/segmentation/tally.h"

#include <math.h>

void cst_decide_rows(const float *probabilities, int64_t count, int32_t classes,
                     const double *offsets, int32_t *out) {
    if (!offsets) {
        cst_label_rows(probabilities, count, classes, out);
        return;
    }
    for (int64_t i = 0; i < count; i++) {
        const float *row = probabilities + (size_t)i * (size_t)classes;
        double best = -INFINITY;
        out[i] = 0;
        for (int32_t c = 0; c < classes; c++) {
            double score = row[c] > 0 ? log((double)row[c]) + offsets[c] : -INFINITY;
            out[i] = score > best ? c : out[i];
            best = score > best ? score : best;
        }
    }
}
