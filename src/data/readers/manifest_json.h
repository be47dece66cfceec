/* Reads keys, texts, numbers and paths of a manifest; each error says where. */
#pragma once

#include "data/readers/manifest.h"

#include <jansson.h>

enum { CST_MANIFEST_PLACE_CHARS = 160 };

typedef struct cst_manifest_reader {
    cst_context *context;
    cst_manifest *manifest;
    const char *path; /* of the manifest */
    size_t folder;    /* length of the folder part of `path`, with its slash */
    bool outside;
    const cst_task *task; /* what the caller says, or NULL */
} cst_manifest_reader;

typedef enum cst_manifest_object {
    CST_MANIFEST_TOP,
    CST_MANIFEST_SPLIT,
    CST_MANIFEST_CONDITION,
    CST_MANIFEST_MODEL,
    CST_MANIFEST_ENSEMBLE,
    CST_MANIFEST_FILE
} cst_manifest_object;

/* `place` is the object that is read, as messages call it: "splits.oof"; "" is the manifest. */

/* The error "PATH: place.key must be EXPECTED". */
cst_status cst_manifest_wrong(const cst_manifest_reader *r, const char *place, const char *key,
                              const char *expected);
/* Whether `object` is one, and its keys are those that such an object may have, */
cst_status cst_manifest_check_keys(const cst_manifest_reader *r, const char *place,
                                   const json_t *object, cst_manifest_object kind);
/* and has in a pool of this task. */
cst_status cst_manifest_check_task_keys(const cst_manifest_reader *r, const char *place,
                                        const json_t *object, cst_manifest_object kind);
/* Whether a value is a text that may go into reports and model files. */
bool cst_manifest_is_text(const json_t *value);
/* Text of object[key], of the manifest; NULL where it is not there. */
cst_status cst_manifest_read_text(const cst_manifest_reader *r, const char *place,
                                  const json_t *object, const char *key, char **out);
/* A finite number, not negative; NaN where it is not there. */
cst_status cst_manifest_read_number(const cst_manifest_reader *r, const char *place,
                                    const json_t *object, const char *key, double *out);
/* A path relative to the manifest, as it will be opened; it must not leave the folder. */
cst_status cst_manifest_resolve(const cst_manifest_reader *r, const char *place, const char *key,
                                const json_t *value, char **out);

/* A path, or rows in parts: a list of paths or a folder. Maps and boxes have one path. */
cst_status cst_manifest_resolve_rows(const cst_manifest_reader *r, const char *place,
                                     const char *key, const json_t *value, char **out);
cst_status cst_manifest_read_rows(const cst_manifest_reader *r, const char *place,
                                  const json_t *object, const char *key, char **out);
