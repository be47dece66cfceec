/*
 * Counts of the bytes, rounds and seconds of exchanges, by stage. Under ranks.c. Paper: none.
 */
#ifndef CST_BASE_TRAFFIC_H
#define CST_BASE_TRAFFIC_H

#include "base/base.h"

enum { CST_STAGE_CHARS = 64, CST_TRAFFIC_STAGES = 24 };

typedef struct cst_traffic_part {
    char stage[CST_STAGE_CHARS]; /* as progress callbacks are told; "other": outside of stages */
    uint64_t sent;               /* bytes that this rank sent */
    uint64_t received;           /* bytes that it received */
    uint64_t rounds;
    double seconds; /* total */
    double waiting; /* of these, in exchanges with other ranks */
} cst_traffic_part;

/* Starts as zeros. */
typedef struct cst_traffic {
    int32_t count;
    int32_t now;
    double since; /* when the present stage was entered */
    cst_traffic_part part[CST_TRAFFIC_STAGES];
} cst_traffic;

/* Enters a stage; NULL: none. When there is no place left, further stages count as "other". */
void cst_traffic_stage(cst_traffic *traffic, const char *stage);

/* Counts a round of communication. */
void cst_traffic_round(cst_traffic *traffic, uint64_t sent, uint64_t received, double seconds);

/* Adds the time of the present stage to it. */
void cst_traffic_settle(cst_traffic *traffic);

#endif
