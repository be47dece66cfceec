/*
 * Scores of label maps in memory and of a confusion matrix. The public end of the tally.
 * docs/segmentation.md#scores.
 */
#include "tasks/segmentation/boundary.h"
#include "tasks/segmentation/tally.h"

#include <string.h>

static const struct definition {
    const char *name;
    const char *text;
} DEFINITIONS[] = {
    {"miou", "mean of TP / (TP + FP + FN) over the classes in labels or predictions, counted "
             "over all pixels of the split"},
    {"pixel_accuracy", "fraction of pixels classified correctly"},
    {"mean_accuracy", "mean over the classes in the labels of the fraction of their pixels "
                      "classified correctly"},
    {"dice", "mean of 2 TP / (2 TP + FP + FN) over the classes in labels or predictions"},
    {"fwiou", "mean of the classes' IoU weighted by their fraction of the labelled pixels"},
    {"boundary_error", "error rate on the pixels within d pixels (in rows and columns) of a "
                       "pixel with another label"},
    {"boundary_iou", "Boundary IoU (Cheng et al. 2021): mean over classes of the IoU between "
                     "labels and predictions, restricted to the pixels of the class within d "
                     "pixels of its contour"},
    {"nll", "mean of -log p(label) in nats"},
    {"brier", "mean over pixels of the sum over classes of (p - y)^2, from 0 to 2"},
    {"ece", "top-label expected calibration error with 15 equal-width bins [lo, hi), the last "
            "one closed"},
};

const char *cst_segmentation_definition(const char *name) {
    for (size_t i = 0; name && i < sizeof DEFINITIONS / sizeof DEFINITIONS[0]; i++)
        if (strcmp(DEFINITIONS[i].name, name) == 0)
            return DEFINITIONS[i].text;
    return NULL;
}

/* Labels as the tally takes them, checked: -1 for those that do not count. */
static cst_status take_labels(cst_context *context, const int32_t *predicted, const int32_t *labels,
                              size_t pixels, int64_t width, int32_t classes, int32_t ignore,
                              int32_t *out) {
    for (size_t i = 0; i < pixels; i++) {
        out[i] = labels[i] == ignore ? -1 : labels[i];
        bool bad_label = out[i] < -1 || out[i] >= classes || (out[i] == -1 && ignore != labels[i]);
        bool bad_guess = out[i] >= 0 && (predicted[i] < 0 || predicted[i] >= classes);
        if (bad_label || bad_guess)
            return cst_fail(context, CST_ERROR_INPUT,
                            "pixel %zu (column %zu of a row) is %s %d, but there are %d classes; "
                            "only labels may be the ignored label (%d)",
                            i, i % (size_t)width, bad_label ? "label" : "predicted",
                            bad_label ? labels[i] : predicted[i], classes, ignore);
    }
    return CST_OK;
}

cst_status cst_segmentation_evaluate_labels(cst_context *context, const int32_t *predicted,
                                            const int32_t *labels, int64_t images, int64_t height,
                                            int64_t width, int32_t classes, int32_t ignore,
                                            double boundary, cst_segmentation_scores *out,
                                            int64_t *confusion) {
    size_t pixels = 0;
    CST_ENTER(context);
    if (!predicted || !labels || !out || images < 1 || height < 1 || width < 1 || classes < 1 ||
        !(boundary >= 0) || boundary > 1e6)
        return cst_fail(
            context, CST_ERROR_ARGUMENT,
            "cst_segmentation_evaluate_labels: label maps, their size and scores are required");
    if (!cst_size_mul((size_t)images, (size_t)height, &pixels) ||
        !cst_size_mul(pixels, (size_t)width, &pixels) || pixels >= CST_ARRAY_BYTES / sizeof *labels)
        return cst_fail(context, CST_ERROR_LIMIT, "too many pixels");
    double *tally = cst_alloc(context, cst_tally_width(classes), sizeof *tally);
    int32_t *inside = cst_alloc(context, pixels, sizeof *inside);
    cst_status status = tally && inside ? CST_OK : CST_ERROR_MEMORY;
    CST_THEN(take_labels(context, predicted, labels, pixels, width, classes, ignore, inside));
    if (status == CST_OK && confusion)
        memset(confusion, 0, (size_t)classes * (size_t)classes * sizeof *confusion);
    if (status == CST_OK)
        cst_tally_labels(tally, classes, predicted, inside, (int64_t)pixels, confusion);
    int64_t distance =
        cst_boundary_distance(boundary > 0 ? boundary : CST_SEGMENTATION_BOUNDARY, height, width);
    for (int64_t n = 0; status == CST_OK && n < images; n++)
        status = cst_tally_boundary(context, tally, classes, predicted + n * height * width,
                                    inside + n * height * width, height, width, distance);
    if (status == CST_OK)
        cst_tally_scores(tally, classes, false, out);
    cst_free(context, inside);
    cst_free(context, tally);
    return cst_why(context, status);
}
