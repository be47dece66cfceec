/* Prediction inside this folder: predict.c computes chunks of rows; predictor.c calls it for a
 * service, predict_view.c for all rows of a view. */
#pragma once

#include "model/absent.h"

typedef struct cst_predict_job {
    const cst_model *model;
    const cst_view *view;
    const double *blend;   /* [learners]; 0: not needed */
    int32_t linear;        /* linear learners with a weight */
    bool gated;            /* some of them reads an aggregator column */
    bool network;          /* the model's network has a weight */
    bool calibrate;        /* the blend goes through the model's calibration map */
    bool adapt;            /* and then through what the model was adapted with */
    const int32_t *places; /* [domains of the view]: their position in the model's layer, or -1;
                              NULL: rows have no domain of their own */
    int32_t domain;        /* of all rows, without `places`: such a position, or -1 */
    bool check;            /* the members' numbers are a caller's, not a pool's */
    bool report;           /* progress is told */
    int64_t chunk;         /* samples worked on at a time */
    int64_t batch;         /* samples whose rows are got at a time, >= chunk */
    int64_t wave;          /* first block of the present wave */
    float *out;            /* [rows][classes] */
} cst_predict_job;

typedef struct cst_predict_scratch {
    float *gathered;       /* [members][batch * classes] where the view's rows have to be copied;
                              [members][chunk * classes] where they may have to be repaired */
    const float **batch;   /* [members] rows of the batch */
    const float **members; /* [members] rows of the chunk, in the batch or in `gathered` */
    double *memory;        /* what the five below are parts of */
    double *mixture;       /* [chunk * classes] */
    double *scores;        /* [learners that are linear, at least 1][chunk * classes] */
    double *columns;       /* [12][CST_TILE] */
    double *samples;       /* [2][chunk]; of a regression [2][chunk * classes], zeros */
    float *scaled;         /* [members][chunk * classes]: values for the aggregators; or NULL */
    const float **inputs;  /* [members], into scaled; or NULL */
    float *transformed;    /* [members][chunk * classes]: of targets' transform; or NULL */
    double *design;        /* scratch of cst_design_tile */
    double *network;       /* of cst_network_row */
    double *work;          /* [chunk * classes], where members are scaled */
    float *rescaled;       /* the same */
} cst_predict_scratch;

/* Checks arguments of cst_model_predict and cst_predictor_predict; `call` is their name. */
cst_status cst_predict_arguments(cst_context *context, const char *call, const cst_model *model,
                                 const float *const *predictions, const uint8_t *present,
                                 int64_t rows, const float *out);

/* The blend weights, or weight 1 for one learner (only >= 0). */
cst_status cst_predict_blend(cst_context *context, cst_scope *scope, const cst_model *model,
                             int32_t only, double **out);

/* Sets which scores the weights need, and how many samples are worked on at a time. */
void cst_predict_plan(cst_predict_job *job);

/* Memory of one thread's work. */
cst_status cst_predict_scratch_take(cst_context *worker, cst_scope *scope,
                                    const cst_predict_job *job, cst_predict_scratch *s);

/* Rows first to first + count of a batch. */
cst_status cst_predict_chunks(cst_context *worker, const cst_predict_job *job,
                              const cst_predict_scratch *s, const float *const *rows, int64_t first,
                              int64_t count);

/* All rows of the view; check: its numbers are a caller's; report: progress is told. */
cst_status cst_predict_with(cst_context *context, const cst_model *model, int32_t only,
                            const cst_view *view, bool check, bool report, float *out);

/* Of a predictor: its model, the context that keeps its errors, and whether it has a guard. */
const cst_model *cst_predictor_model(const cst_predictor *predictor);
cst_context *cst_predictor_own(const cst_predictor *predictor);
bool cst_predictor_is_guarded(const cst_predictor *predictor);
