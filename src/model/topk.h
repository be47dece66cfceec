/* Rows of members that list their likeliest classes: the union of the lists, on which pools are
 * exact, since all other classes of a row share one score. docs/topk.md#meaning. */
#pragma once

#include "model/stack.h"

/* Classes of one row that some member lists. All others share a score, which is 0 here. */
typedef struct cst_topk_row {
    int32_t count;   /* U: classes in some list */
    int32_t entries; /* of all lists */
    int32_t label;   /* position of the label among them; -1: no member lists it */
    int32_t *class;  /* [U] */
    int32_t *first;  /* [U + 1]: where the entries of a class begin */
    int32_t *member; /* [entries], ascending in a class */
    double *excess;  /* [entries]: log-probability above that of the member's other classes */
} cst_topk_row;

/* Reads blocks of rows of a view. */
typedef struct cst_topk_reader {
    const cst_view *view;
    int32_t classes; /* C */
    int64_t first, count;
    const float **rows; /* [members] -> [count][2 k] */
    float **scratch;    /* [members] */
    cst_topk_row row;
    int32_t *place;    /* [entries]: position of its class */
    struct slot *slot; /* [mask + 1] */
    uint32_t mask, stamp;
    double *score; /* [U] */
    double *p;     /* [U] */
    double *share; /* [members] */
    double *rise;  /* [entries]: of a linear mix exp(excess) - 1 */
} cst_topk_reader;

cst_status cst_topk_reader_take(cst_context *context, cst_scope *scope, const cst_view *view,
                                cst_topk_reader *out);
cst_status cst_topk_reader_block(cst_context *context, cst_topk_reader *reader, int64_t block);
/* Row i of the block, into reader->row. */
void cst_topk_reader_row(cst_topk_reader *reader, int64_t i);

/* What a row is mixed by. */
typedef struct cst_topk_mix {
    const double *weights; /* [members] */
    bool linear;           /* probabilities, each member's divided by their sum; else logarithms */
    double power;          /* what the logarithm of a linear mix is multiplied by, 1/T */
} cst_topk_mix;

/* Scores of the classes of a row above that of the others, and their probabilities, in the reader;
 * log_other: log-probability of each other class. Returns that of the label, where there is one. */
double cst_topk_mixed(cst_topk_reader *reader, const cst_topk_mix *mix, double *log_other);

/* How a model mixes. */
cst_topk_mix cst_topk_mix_of(const cst_model *model);

/* What a prediction says of the label of a row. */
enum { CST_TOPK_NLL, CST_TOPK_CONFIDENCE, CST_TOPK_RANK, CST_TOPK_SQUARES, CST_TOPK_OUTCOME };

/* out: [rows][CST_TOPK_OUTCOME]; the rank of the label counts from 0, of equal classes the first
 * are before. The view has labels.
 * folds: [rows]: the mix is that of the fold, mix[fold]; NULL: one for all. */
cst_status cst_topk_outcomes(cst_context *context, const cst_view *view, const cst_topk_mix *mix,
                             const int32_t *folds, float *out);
