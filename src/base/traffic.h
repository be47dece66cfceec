/*
 * What went through the collectives of a context, and how long that took, stage by stage. Under
 * ranks.c. Paper: none.
 */
#ifndef CST_BASE_TRAFFIC_H
#define CST_BASE_TRAFFIC_H

#include "base/base.h"

enum { CST_STAGE_CHARS = 64, CST_TRAFFIC_STAGES = 24 };

typedef struct cst_traffic_part {
    char stage[CST_STAGE_CHARS]; /* as progress callbacks are told; "other": outside of stages */
    uint64_t sent;               /* bytes that this rank gave */
    uint64_t received;           /* bytes that it got */
    uint64_t rounds;
    double seconds; /* in all */
    double waiting; /* of these: for other ranks, and while bytes were under way */
} cst_traffic_part;

/* Starts as zeros. */
typedef struct cst_traffic {
    int32_t count;
    int32_t now;
    double since; /* when the present stage went on */
    cst_traffic_part part[CST_TRAFFIC_STAGES];
} cst_traffic;

/* What follows belongs to this stage; NULL: to none. Stages beyond the last place are "other". */
void cst_traffic_stage(cst_traffic *traffic, const char *stage);

/* A round of communication: what this rank gave and got, and how long it took. */
void cst_traffic_round(cst_traffic *traffic, uint64_t sent, uint64_t received, double seconds);

/* Adds the time of the present stage to it. */
void cst_traffic_settle(cst_traffic *traffic);

#endif
