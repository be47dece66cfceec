/*
 * Reads the section of a model file with what the stack predicts of each class, trusting nothing.
 * Before prediction. docs/model-format.md.
 */
#include "model/reader.h"

#include <inttypes.h>

uint32_t cst_reader_count_u32(cst_reader *r, const char *what, uint32_t most) {
    size_t at = r->at;
    uint64_t value = 0;
    for (int shift = 0; shift < 35; shift += 7) {
        const uint8_t *byte = cst_reader_take(r, 1);
        if (!byte)
            return 0;
        value |= (uint64_t)(*byte & 0x7F) << shift;
        if (*byte < 0x80) {
            if (value > most || (shift > 0 && *byte == 0))
                cst_reader_refuse(r, at, "%s is not a count from 0 to %" PRIu32, what, most);
            return r->status == CST_OK ? (uint32_t)value : 0;
        }
    }
    cst_reader_refuse(r, at, "%s takes more than five bytes", what);
    return 0;
}

int32_t cst_reader_count(cst_reader *r, const char *what, int32_t most) {
    return (int32_t)cst_reader_count_u32(r, what, (uint32_t)most);
}

static void get_edges(cst_reader *r, cst_confusion *confusion) {
    size_t at = r->at;
    float *edges = cst_reader_f32s(r, CST_CONFUSION_BINS - 1, "an edge of confidences", 1);
    for (int b = 0; edges && b < CST_CONFUSION_BINS - 1; b++) {
        confusion->edge[b] = edges[b];
        if (edges[b] < (b > 0 ? edges[b - 1] : 0))
            cst_reader_refuse(r, at, "the edges of confidences are not in ascending order");
    }
    cst_free(r->context, edges);
}

/* The rows of each class by confidence; their number in all is bounded. */
static void get_bins(cst_reader *r, cst_confusion *confusion) {
    size_t at = r->at;
    int64_t rows = 0;
    for (size_t i = 0; r->status == CST_OK && i < (size_t)confusion->classes * CST_CONFUSION_BINS;
         i++) {
        confusion->bin[i] = cst_reader_count(r, "a number of rows", INT32_MAX);
        rows += confusion->bin[i];
    }
    if (r->status == CST_OK && (rows < 1 || rows > INT32_MAX))
        cst_reader_refuse(r, at, "the classes have %" PRId64 " rows", rows);
}

static void get_shares(cst_reader *r, cst_confusion *confusion) {
    size_t at = r->at;
    double sum = 0;
    int64_t rows = cst_confusion_all_rows(confusion);
    if (cst_reader_count(r, "whether shares follow", 1) == 0) {
        for (int32_t c = 0; r->status == CST_OK && c < confusion->classes; c++)
            confusion->share[c] = cst_confusion_counted_share(confusion, c, rows);
        return;
    }
    float *share = cst_reader_f32s(r, (size_t)confusion->classes, "the share of a class", 1);
    for (int32_t c = 0; share && c < confusion->classes; c++) {
        confusion->share[c] = share[c];
        sum += (double)share[c];
        if (share[c] < 0)
            cst_reader_refuse(r, at, "the share of class %" PRId32 " is below 0", c);
    }
    if (r->status == CST_OK && !(sum > 0.999 && sum < 1.001))
        cst_reader_refuse(r, at, "the shares of the classes sum to %g instead of 1", sum);
    cst_free(r->context, share);
}

static void get_entries(cst_reader *r, cst_confusion *confusion, int32_t entries) {
    int32_t used = 0;
    for (int32_t c = 0; r->status == CST_OK && c < confusion->classes; c++) {
        size_t at = r->at;
        int32_t before = -1;
        int64_t left = cst_confusion_rows(confusion, c);
        int32_t count = cst_reader_count(r, "the number of predicted classes", entries - used);
        for (int32_t e = 0; r->status == CST_OK && e < count; e++) {
            if (before + 1 >= confusion->classes) {
                cst_reader_refuse(r, r->at, "a predicted class is beyond the last one");
                break;
            }
            int32_t most = confusion->classes - before - 2;
            before += 1 + cst_reader_count(r, "the distance of a predicted class", most);
            confusion->predicted[used] = before;
            confusion->count[used] = cst_reader_count(r, "a number of rows", INT32_MAX);
            left -= confusion->count[used];
            if (r->status == CST_OK && (confusion->count[used] < 1 || left < 0))
                cst_reader_refuse(r, at,
                                  "predictions of class %" PRId32 " are not those of its rows", c);
            used++;
        }
        if (r->status == CST_OK && left > 0 && count == confusion->classes)
            cst_reader_refuse(r, at, "rows of class %" PRId32 " have no prediction", c);
        confusion->first[c + 1] = used;
    }
    if (r->status == CST_OK && used != entries)
        cst_reader_refuse(r, r->at,
                          "%" PRId32 " predicted classes are declared, but there are "
                          "%" PRId32,
                          entries, used);
}

void cst_confusion_get(cst_reader *r, cst_model *model) {
    size_t classes = (size_t)model->classes;
    if (model->task != CST_TASK_CLASSIFICATION)
        cst_reader_refuse(r, r->at, "section CONF is in a model of %s", cst_task_name(model->task));
    else if (model->classes > CST_CONFUSION_SHARES_MAX)
        cst_reader_refuse(r, r->at, "section CONF is in a model of more than %d classes",
                          (int)CST_CONFUSION_SHARES_MAX);
    else if (classes * CST_CONFUSION_BINS > r->end - r->at)
        cst_reader_refuse(r, r->at, "%zu classes are declared, but %zu bytes are left", classes,
                          r->end - r->at);
    if (r->status == CST_OK)
        r->status = cst_confusion_alloc(r->context, model->classes, 0, &model->confusion);
    if (r->status != CST_OK)
        return;
    cst_confusion *confusion = model->confusion;
    get_edges(r, confusion);
    get_bins(r, confusion);
    get_shares(r, confusion);
    int32_t entries = cst_reader_count(r, "the number of predicted classes", INT32_MAX);
    cst_free(r->context, confusion->predicted);
    cst_free(r->context, confusion->count);
    confusion->predicted =
        cst_reader_room(r, (size_t)entries, sizeof *confusion->predicted, 2, "predicted classes");
    confusion->count =
        cst_reader_room(r, (size_t)entries, sizeof *confusion->count, 2, "predicted classes");
    get_entries(r, confusion, entries);
}
