/* The records of a COCO file, one at a time while the file streams past. */
#pragma once

#include "core/base.h"

typedef enum cst_coco_list {
    CST_COCO_RESULTS,
    CST_COCO_IMAGES,
    CST_COCO_ANNOTATIONS,
    CST_COCO_CATEGORIES,
    CST_COCO_OTHER
} cst_coco_list;

typedef enum cst_coco_field {
    CST_COCO_ID,
    CST_COCO_IMAGE_ID,
    CST_COCO_CATEGORY_ID,
    CST_COCO_BBOX,
    CST_COCO_SCORE,
    CST_COCO_AREA,
    CST_COCO_WIDTH,
    CST_COCO_HEIGHT,
    CST_COCO_CROWD,
    CST_COCO_NAME,
    CST_COCO_FIELDS /* how many; also: a key that is skipped */
} cst_coco_field;

typedef struct cst_coco_record {
    cst_coco_list list;
    int64_t index;   /* in its list, from 0 */
    uint64_t offset; /* byte at which it begins */
    unsigned seen;   /* bit per cst_coco_field */
    int64_t id, image_id, category_id;
    double bbox[4]; /* left, top, width, height */
    double score, area, width, height;
    bool crowd;
    const char *name; /* valid during the call */
} cst_coco_record;

/* One element of each list, and several. */
extern const char *const cst_coco_list_names[];
extern const char *const cst_coco_list_plurals[];

/* Takes a record; a failure stops the scan. share: part of the file read, 0 to 1. */
typedef cst_status (*cst_coco_record_fn)(cst_context *context, void *user,
                                         const cst_coco_record *record, double share);

typedef enum cst_coco_kind {
    CST_COCO_KIND_RESULTS,
    CST_COCO_KIND_ANNOTATIONS,
    CST_COCO_KIND_IMAGES /* annotations, whose list may be absent */
} cst_coco_kind;

/* Scans a list (results) or an object with images, annotations and categories in any order. */
cst_status cst_coco_scan(cst_context *context, const char *path, uint64_t zip_limit,
                         cst_coco_kind kind, cst_coco_record_fn told, void *user);

/* An error about a record: "PATH: byte N: detection 7 (counted from 0): ...". Returns `code`. */
cst_status cst_coco_refuse(cst_context *context, const char *path, cst_status code,
                           const cst_coco_record *record, const char *format, ...) CST_PRINTF(5, 6);

/* The error where a field that the record needs is not there. */
cst_status cst_coco_need(cst_context *context, const char *path, const cst_coco_record *record,
                         unsigned fields);

/* The number of a JSON text (not empty), whatever the locale; infinite where too large. */
double cst_coco_number(const char *text, size_t length);
/* An integer, also one written as 7.0 or 1e3; false for what is none. */
bool cst_coco_integer(const char *text, size_t length, int64_t *out);
