/*
 * Bytes, rounds and seconds of exchanges by stage. See the header.
 */
#include "base/traffic.h"

#include <string.h>

static int32_t place_of(cst_traffic *traffic, const char *stage) {
    for (int32_t i = 0; i < traffic->count; i++)
        if (strcmp(traffic->part[i].stage, stage) == 0)
            return i;
    if (traffic->count == CST_TRAFFIC_STAGES)
        return 0;
    cst_traffic_part *part = &traffic->part[traffic->count];
    (void)cst_snprintf(part->stage, sizeof part->stage, "%s", stage);
    return traffic->count++;
}

void cst_traffic_settle(cst_traffic *traffic) {
    double now = cst_seconds();
    if (traffic->count > 0)
        traffic->part[traffic->now].seconds += now - traffic->since;
    traffic->since = now;
}

void cst_traffic_stage(cst_traffic *traffic, const char *stage) {
    cst_traffic_settle(traffic);
    int32_t other = place_of(traffic, "other"); /* the first */
    traffic->now = stage ? place_of(traffic, stage) : other;
}

void cst_traffic_round(cst_traffic *traffic, uint64_t sent, uint64_t received, double seconds) {
    if (traffic->count == 0)
        cst_traffic_stage(traffic, NULL);
    cst_traffic_part *part = &traffic->part[traffic->now];
    part->sent += sent;
    part->received += received;
    part->waiting += seconds;
    part->rounds++;
}
