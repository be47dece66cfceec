/*
 * Bytes that the ranks of a fit exchanged, and their computing and waiting times, by stage. Under
 * src/tasks. Keys: docs/json.md. Paper: none.
 */
#include "base/ranks.h"
#include "report/report.h"

#include <math.h>
#include <string.h>

enum { STAGES = CST_TRAFFIC_STAGES };

/* Over the ranks; `part` has those of all, rank by rank. */
static void put_stage(cst_report *report, json_t *list, const cst_stage_traffic *part, int ranks,
                      int count, int stage) {
    uint64_t sent = 0;
    uint64_t most = 0;
    double computing[2] = {0, 0};
    double waiting[2] = {0, INFINITY};
    for (int r = 0; r < ranks; r++) {
        const cst_stage_traffic *p = &part[(size_t)r * (size_t)count + (size_t)stage];
        double worked = fmax(p->seconds - p->waiting, 0);
        sent += p->sent;
        most = p->sent > most ? p->sent : most;
        computing[0] += worked / ranks;
        computing[1] = fmax(computing[1], worked);
        waiting[0] += p->waiting / ranks;
        waiting[1] = fmin(waiting[1], p->waiting);
    }
    json_t *object = cst_report_add_object(report, list);
    cst_report_string(report, object, "stage", part[stage].stage);
    cst_report_integer(report, object, "rounds", (int64_t)part[stage].rounds);
    cst_report_integer(report, object, "sent_bytes", (int64_t)sent);
    cst_report_integer(report, object, "sent_bytes_most", (int64_t)most);
    cst_report_integer(report, object, "received_bytes", (int64_t)part[stage].received);
    cst_report_number(report, object, "seconds_computing", computing[0]);
    cst_report_number(report, object, "seconds_computing_most", computing[1]);
    cst_report_number(report, object, "seconds_waiting", waiting[0]);
    cst_report_number(report, object, "seconds_waiting_least", waiting[1]);
}

cst_status cst_report_ranks(cst_context *context, cst_report *report) {
    cst_stage_traffic own[STAGES];
    void *all = NULL;
    size_t bytes = 0;
    int ranks = cst_context_ranks(context);
    int count = cst_context_stage_traffic(context, own, STAGES);
    if (!report || count == 0)
        return CST_OK;
    size_t size = (size_t)count * sizeof *own;
    cst_status status = cst_ranks_gather(context, CST_OK, own, size, &all, &bytes);
    if (status == CST_OK && bytes != (size_t)ranks * size)
        status = cst_fail(context, CST_ERROR_INTERNAL,
                          "ranks went through different stages; please report this");
    cst_stage_traffic *part = all;
    for (int i = 0; status == CST_OK && i < ranks * count; i++)
        part[i].stage = own[i % count].stage; /* a pointer of another process */
    if (status == CST_OK) {
        json_t *object = cst_report_object(report, cst_report_root(report), "ranks");
        cst_report_integer(report, object, "count", ranks);
        json_t *list = cst_report_list(report, object, "stages");
        for (int i = 0; i < count; i++)
            put_stage(report, list, part, ranks, count, i);
        status = cst_report_finish(context, report);
    }
    cst_free(context, all);
    return status;
}
