/* COCO detection files: annotations (images, categories, true boxes) and results (scored boxes),
 * read as a stream. docs/detection.md. */
#pragma once

#include "core/scope.h"

/* A true box: left, top, width, height and area in pixels. */
typedef struct cst_coco_true {
    double x, y, w, h;
    double area;      /* as the file says (of the object's outline), else w * h */
    int32_t image;    /* positions in cst_coco, not ids */
    int32_t category; /* position */
    bool crowd;       /* a region of many objects: what lies in it is neither right nor wrong */
} cst_coco_true;

/* An annotation file. Images and categories are ordered by id, as the reference evaluator does. */
typedef struct cst_coco {
    cst_scope scope;
    char *path;
    int32_t images;
    int64_t *image_id; /* [images], ascending */
    double *width;     /* [images] in pixels; NaN where the file does not say */
    double *height;
    int32_t categories;
    int64_t *category_id;       /* [categories], ascending */
    const char **category_name; /* [categories]; NULL where the file does not say */
    int64_t count;
    cst_coco_true *box; /* [count] by image, then category, then order in the file */
    int64_t *first;     /* [images + 1]: where each image's boxes begin */
} cst_coco;

typedef struct cst_coco_box {
    double x, y, w, h;
    double score;
    int32_t image; /* positions in the cst_coco they were read for */
    int32_t category;
} cst_coco_box;

typedef struct cst_coco_boxes {
    cst_scope scope; /* of `first` */
    int64_t count;
    cst_coco_box *box; /* [count] by image, then category, then order in the file */
    int64_t *first;    /* [images + 1] */
} cst_coco_boxes;

/* Reads annotations; unknown keys, polygons and masks are skipped. Errors name file and byte.
 * labelled: false where annotations may be missing (image_info_test). zip_limit: of cst_bytes_open.
 */
cst_status cst_coco_read(cst_context *context, cst_coco **out, const char *path, uint64_t zip_limit,
                         bool labelled);
void cst_coco_free(cst_context *context, cst_coco *coco);

/* Positions by id, or -1. */
int32_t cst_coco_image(const cst_coco *coco, int64_t id);
int32_t cst_coco_category(const cst_coco *coco, int64_t id);

/* Checks that categories (ids, and names if both have them) are equal; names the first that is
 * not. */
cst_status cst_coco_same_categories(cst_context *context, const cst_coco *a, const cst_coco *b);

/* Reads results, {image_id, category_id, bbox, score}, for `coco`: 48 bytes a box, 8 more while
 * sorting. probabilities: a score outside [0, 1] is an error. */
cst_status cst_coco_read_boxes(cst_context *context, cst_coco_boxes **out, const char *path,
                               uint64_t zip_limit, const cst_coco *coco, bool probabilities);
/* Boxes made in memory ([count], any order), which are taken or, on failure, freed. */
cst_status cst_coco_boxes_take(cst_context *context, cst_coco_boxes **out, cst_coco_box *box,
                               int64_t count, int32_t images, int32_t categories);
/* Leaves of each image the `most` boxes with the highest scores (ties by place) of `least` or more.
 */
cst_status cst_coco_boxes_best(cst_context *context, cst_coco_boxes *boxes, int32_t images,
                               int64_t most, double least);
void cst_coco_boxes_free(cst_context *context, cst_coco_boxes *boxes);

/* Writes a results file, whole or not at all: scores to six digits, pixels to the hundredth, of
 * boxes below ten pixels to a thousandth of the shorter side. */
cst_status cst_coco_write(cst_context *context, const char *path, const cst_coco *coco,
                          const cst_coco_boxes *boxes);
