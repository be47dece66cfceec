/* How each member goes with the mean of the others, in one pass over the rows of all of them. */
#include "data/checks/parts.h"

#include <math.h>
#include <string.h>

enum { TERMS = 4, CELLS_OF_BLOCK = 1 << 19, ROWS_OF_BLOCK = 512, FEWEST_OF_BLOCK = 8 };

typedef struct pass {
    const cst_check_sample *sample;
    const cst_member_facts *facts;
    const int32_t *members;
    int32_t count;
    bool residuals;
    int64_t block;
} pass;

/* The member's row as it is compared: centred and scaled, or what it leaves of the labels. */
static void prepare(const pass *p, int32_t member, int64_t position, const float *row, double *to) {
    const cst_check_sample *s = p->sample;
    const cst_member_facts *facts = &p->facts[member];
    const double *target = p->residuals ? cst_view_target(s->view, position) : NULL;
    for (int32_t c = 0; c < s->view->classes; c++) {
        to[c] = ((double)row[c] - facts->mean[c]) * facts->scale[c];
        if (target)
            to[c] = (target[c] - s->label_mean[c]) * s->label_scale[c] - facts->slope[c] * to[c];
    }
}

/* The class that the others of `row` predict. */
static int32_t others_top(const double *sum, const float *row, int32_t classes) {
    int32_t top = 0;
    double most = sum[0] - (double)row[0];
    for (int32_t c = 1; c < classes; c++) {
        double now = sum[c] - (double)row[c];
        if (now > most) {
            most = now;
            top = c;
        }
    }
    return top;
}

static int32_t own_top(const float *row, int32_t classes) {
    int32_t top = 0;
    for (int32_t c = 1; c < classes; c++)
        if (row[c] > row[top])
            top = c;
    return top;
}

static void add_hard(const pass *p, int32_t label, const double *raw, const float *row,
                     double *sum) {
    int32_t classes = p->sample->view->classes;
    if (others_top(raw, row, classes) == label)
        return;
    sum[2] += 1;
    sum[3] += own_top(row, classes) != label;
}

static cst_status add_block(cst_context *worker, void *user, int64_t block, double *sum) {
    const pass *p = user;
    const cst_view *view = p->sample->view;
    size_t classes = (size_t)view->classes;
    size_t count = (size_t)p->count;
    int64_t first = block * p->block;
    int64_t left = p->sample->rows - first;
    size_t rows = (size_t)(left < p->block ? left : p->block);
    float *data = cst_alloc(worker, count * rows * classes, sizeof *data);
    double *mean = cst_alloc(worker, (count + 2) * classes, sizeof *mean);
    cst_status status = data && mean ? CST_OK : CST_ERROR_MEMORY;
    for (size_t k = 0; status == CST_OK && k < count; k++)
        status = cst_check_read(worker, p->sample, p->members[k], first, (int64_t)rows,
                                data + k * rows * classes);
    for (size_t i = 0; status == CST_OK && i < rows; i++) {
        double *raw = mean + classes;
        double *each = raw + classes;
        int64_t position = p->sample->position[first + (int64_t)i];
        memset(mean, 0, 2 * classes * sizeof *mean);
        for (size_t k = 0; k < count; k++) {
            const float *row = data + (k * rows + i) * classes;
            prepare(p, p->members[k], position, row, each + k * classes);
            for (size_t c = 0; c < classes; c++) {
                mean[c] += each[k * classes + c];
                raw[c] += (double)row[c];
            }
        }
        for (size_t k = 0; k < count; k++) {
            for (size_t c = 0; c < classes; c++) {
                double own = each[k * classes + c];
                sum[k * TERMS] += own * mean[c];
                sum[k * TERMS + 1] += own * own;
            }
            if (view->labels && count > 1)
                add_hard(p, cst_view_label(view, position), raw, data + (k * rows + i) * classes,
                         sum + k * TERMS);
        }
    }
    cst_free(worker, data);
    cst_free(worker, mean);
    return status;
}

cst_status cst_check_together(cst_context *context, const cst_check_sample *sample,
                              const cst_member_facts *facts, const int32_t *members, int32_t count,
                              bool residuals, cst_together *out) {
    int64_t cells = (int64_t)count * sample->view->classes;
    int64_t block = cells > 0 ? CELLS_OF_BLOCK / cells : ROWS_OF_BLOCK;
    block = block > ROWS_OF_BLOCK     ? ROWS_OF_BLOCK
            : block < FEWEST_OF_BLOCK ? FEWEST_OF_BLOCK
                                      : block;
    pass p = {sample, facts, members, count, residuals, block};
    size_t width = (size_t)count * TERMS;
    double *total = cst_alloc(context, width, sizeof *total);
    if (!total)
        return CST_ERROR_MEMORY;
    cst_status status =
        cst_reduce_blocks(context, (sample->rows + block - 1) / block, width, add_block, &p, total);
    double all = 0;
    for (int32_t k = 0; k < count; k++)
        all += total[k * TERMS];
    for (int32_t k = 0; status == CST_OK && k < count; k++) {
        const double *t = total + (size_t)k * TERMS;
        double others = all - 2 * t[0] + t[1];
        double scale = sqrt(fmax(others, 0) * t[1]);
        out[k] = (cst_together){
            .agreement = scale > 0 ? (t[0] - t[1]) / scale : 0, .hard = t[2], .hard_wrong = t[3]};
    }
    cst_free(context, total);
    return status;
}

int32_t cst_check_good(const cst_check_sample *sample, const cst_member_facts *facts,
                       int32_t *out) {
    int32_t count = 0;
    for (int32_t k = 0; k < sample->view->members; k++) {
        const cst_association *a = &facts[k].association;
        if (!a->constant && !a->copy && !a->explained && a->z >= 4)
            out[count++] = k;
    }
    return count;
}
