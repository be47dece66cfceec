/* The pool manifest (pool.json), or a description made from a folder or a list of files. */
#pragma once

#include "data/readers/file_parts.h"
#include "data/readers/reference_errors.h"

#include <corestack/pool.h>

/* More is refused before memory is taken for it. */
enum {
    CST_MANIFEST_GIVEN_MAX = 8, /* more than a configuration has paths */
    CST_MANIFEST_SPLITS_MAX = 10000,
    CST_MANIFEST_MEMBERS_MAX = 10000,
    CST_MANIFEST_FILES_MAX = 1 << 22 /* splits times members */
};

/* Ensembles whose parts may be members of a pool, as the manifest tags them. */
enum { CST_IGNORED_MAX = 16 }; /* labels of pixels that do not count */

typedef enum cst_ensemble_kind {
    CST_ENSEMBLE_NONE = 0,
    CST_ENSEMBLE_DEEP = 1,       /* "deep-ensemble": one architecture, several seeds */
    CST_ENSEMBLE_SNAPSHOT = 2,   /* "snapshot": checkpoints of one run */
    CST_ENSEMBLE_MC_DROPOUT = 3, /* "mc-dropout": stochastic passes of one network */
    CST_ENSEMBLE_SWAG = 4,       /* "swag": samples around averaged weights */
    CST_ENSEMBLE_SOUP = 5        /* "soup": averaged weights */
} cst_ensemble_kind;

typedef struct cst_manifest_condition {
    char *shift;     /* family of the corruption, or NULL */
    char *kind;      /* or NULL */
    double severity; /* NaN if not given */
} cst_manifest_condition;

typedef struct cst_manifest_split {
    char *name;
    char *labels; /* paths as they are opened, NULL if not given; targets of a regression */
    char *ids, *folds, *groups, *weights;
    char *order;       /* of the rows in time */
    char *domains;     /* of each row; all rows are of `domain` without */
    char *annotations; /* detection: COCO annotations */
    char *clean;       /* the split of the same task without the conditions, or NULL */
    char *domain;      /* what the inputs are (sketches, another hospital), or NULL */
    cst_manifest_condition *conditions;
    int32_t condition_count;
    double bytes; /* of the text that the rows are the tokens of; NaN if not given */
    bool ood;     /* out-of-distribution inputs: no labels */
} cst_manifest_split;

/* Kinds of ensemble a member may be part of, by name; NULL-terminated. Order as cst_ensemble_kind.
 */
extern const char *const cst_ensemble_kinds[];

typedef struct cst_manifest_member {
    char *name;
    char *family; /* or NULL */
    double flops; /* of one prediction; NaN if not given, like the next three */
    double params, latency_ms, memory_bytes;
    int32_t ensemble;  /* kind, in the order of cst_ensemble_kinds; 0: none */
    char *ensemble_of; /* what the group is called; NULL without ensemble */
    int32_t ensemble_passes;
    char **paths; /* [splits], NULL where the member has no file for a split */
    char **ids;   /* [splits], the member's own ids file, or NULL */
} cst_manifest_member;

/* Names in order, each with its position in another list. */
typedef struct cst_name_list {
    int32_t count;
    struct cst_name_place {
        const char *name;
        int32_t place;
    } * list;
} cst_name_list;

typedef struct cst_manifest {
    cst_scope scope; /* of all that follows, which whoever sets it takes from here */
    char *path;      /* of the manifest or folder, for messages */
    char *folder;    /* real path that files must stay in; NULL: they may be anywhere */
    char *given[CST_MANIFEST_GIVEN_MAX]; /* paths that the caller named: they may be anywhere */
    int32_t given_count;
    bool by_names;    /* made of the files of a folder, by their names */
    bool marked;      /* where by_names: those of members say their split */
    bool loose;       /* where by_names: sub_NAME and the like are of split test */
    char *own_labels; /* the column of labels in the tables of members, which is none of theirs; or
                         NULL */
    bool task_given;
    cst_task task;
    char **class_names;  /* [classes], or NULL */
    int32_t classes;     /* 0: not said */
    char **output_names; /* regression: [outputs], or NULL */
    int32_t outputs;     /* 0: not said */
    cst_layout layout;   /* segmentation */
    bool ignore_given;
    int32_t ignore; /* where ignore_given: label of pixels that do not count */
    int32_t ignore_also[CST_IGNORED_MAX]; /* further ones */
    int32_t ignored_also;                 /* how many */
    bool output_given;
    bool logits; /* where output_given */
    int64_t
        *training_counts; /* [training_count_classes]: training samples of each class, or NULL */
    int32_t training_count_classes;
    char *training_counts_file;            /* where they are in a file instead */
    cst_reference_errors reference_errors; /* no kinds: not given */
    cst_manifest_split *splits;
    int32_t split_count;
    cst_manifest_member *members;
    int32_t member_count;
    cst_file_parts **parts; /* paths that are several files */
    int64_t parts_files;    /* in all of them */
    cst_name_list split_names, member_names, part_names;
} cst_manifest;

/* With the caller's task (or NULL), which decides the keys; CST_ERROR_INPUT where the manifest has
 * another one. */
cst_status cst_manifest_read_as(cst_context *context, cst_manifest **out, const char *path,
                                bool outside, const cst_task *task);

/* An empty description to be filled with the next two. */
cst_status cst_manifest_create(cst_context *context, cst_manifest **out, const char *path);
/* Whether a text is a name: UTF-8, short, without steering characters. */
bool cst_manifest_is_name(const char *name);
/* The fault of a text that is no name, and advice: "is empty: ..."; else NULL. */
const char *cst_manifest_name_fault(const char *name);
/* Adds a split, or finds it where it is there already; *out is its position. */
cst_status cst_manifest_add_split(cst_context *context, cst_manifest *manifest, const char *name,
                                  int32_t *out);
/* Adds a member, after the splits. */
cst_status cst_manifest_add_member(cst_context *context, cst_manifest *manifest, const char *name,
                                   int32_t *out);
/* A copy, of the scope, with a last split like `like`, named `name`; all else is borrowed. */
cst_status cst_manifest_with_split(cst_context *context, cst_scope *scope,
                                   const cst_manifest *manifest, int32_t like, char *name,
                                   cst_manifest *out);

/* Takes two or more parts of a scope of the manifest. *name stands for them; folder: theirs or
 * NULL. */
cst_status cst_manifest_add_parts(cst_context *context, cst_manifest *manifest,
                                  cst_file_parts *parts, const char *folder, char **name);
/* The parts that a path stands for; NULL if it is one file. */
const cst_file_parts *cst_manifest_parts(const cst_manifest *manifest, const char *path);

/* Position by name, or -1. */
int32_t cst_manifest_find_split(const cst_manifest *manifest, const char *name);
int32_t cst_manifest_find_member(const cst_manifest *manifest, const char *name);

/* The same without some of the members [member_count]; all is borrowed or of the scope. */
cst_status cst_manifest_without(cst_context *context, cst_scope *scope, const cst_manifest *whole,
                                const bool *without, cst_manifest *out);

/* From now on files must stay in `folder` or below those of cst_manifest_allow. */
cst_status cst_manifest_stay_in(cst_context *context, cst_manifest *manifest, const char *folder);
cst_status cst_manifest_allow(cst_context *context, cst_manifest *manifest, const char *path);

/* Refuses a path with a file outside the folder, also through links. Again before each opening. */
cst_status cst_manifest_confine(cst_context *context, const cst_manifest *manifest,
                                const char *path);

void cst_manifest_free(cst_context *context, cst_manifest *manifest);
