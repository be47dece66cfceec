/*
 * Scores of a confusion matrix [classes][classes]; iou, dice, accuracy: [classes], or NULL.
 */
#ifndef CONFUSION_H
#define CONFUSION_H

#include "tasks/segmentation/segmentation.h"

#include <stdlib.h>

static inline cst_segmentation_scores scores_of_confusion(const int64_t *confusion, int32_t classes,
                                                          double *iou, double *dice,
                                                          double *accuracy) {
    double *const places[] = {iou, dice, accuracy};
    cst_segmentation_scores scores = {0};
    double *tally = calloc(cst_tally_width(classes), sizeof *tally);
    if (!tally)
        abort();
    for (int32_t a = 0; a < classes; a++)
        for (int32_t b = 0; b < classes; b++)
            for (int64_t i = 0; i < confusion[a * classes + b]; i++)
                cst_tally_labels(tally, classes, &b, &a, 1, NULL);
    cst_tally_scores(tally, classes, false, &scores);
    for (int32_t c = 0; c < classes; c++) {
        double found[4];
        cst_tally_class(tally, classes, c, found);
        for (int i = 0; i < 3; i++)
            if (places[i])
                places[i][c] = found[i];
    }
    free(tally);
    return scores;
}

#endif
