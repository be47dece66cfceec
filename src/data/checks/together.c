/* How each member goes with the mean of the others; copies and constants. */
#include "data/checks/parts.h"

#include <math.h>
#include <string.h>

enum { TERMS = 4, CELLS_OF_BLOCK = 1 << 19, ROWS_OF_BLOCK = 512, FEWEST_OF_BLOCK = 8 };

typedef struct pass {
    const cst_check *check;
    const int32_t *members;
    int32_t count;
    bool residuals;
    int64_t block;
} pass;

/* The member's row as it is compared: centred and scaled, or what it leaves of the labels. */
static void prepare(const pass *p, int32_t member, int64_t position, const float *row, double *to) {
    const cst_check *s = p->check;
    const cst_member_facts *facts = &s->facts[member];
    const double *target = p->residuals ? cst_view_target(s->view, position) : NULL;
    for (int32_t c = 0; c < s->view->classes; c++) {
        to[c] = ((double)row[c] - facts->mean[c]) * facts->scale[c];
        if (target)
            to[c] = (target[c] - s->label_mean[c]) * s->label_scale[c] - facts->slope[c] * to[c];
    }
}

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
    int32_t classes = p->check->view->classes;
    if (others_top(raw, row, classes) == label)
        return;
    sum[2] += 1;
    sum[3] += own_top(row, classes) != label;
}

static cst_status add_block(cst_context *worker, void *user, int64_t block, double *sum) {
    const pass *p = user;
    const cst_view *view = p->check->view;
    size_t classes = (size_t)view->classes;
    size_t count = (size_t)p->count;
    int64_t first = block * p->block;
    int64_t left = p->check->rows - first;
    size_t rows = (size_t)(left < p->block ? left : p->block);
    CST_SCOPE(scope);
    CST_NEW(worker, scope, float, data, (count * rows * classes));
    CST_NEW(worker, scope, double, mean, (count + 2) * classes);
    for (size_t k = 0; k < count; k++)
        CST_TRY(cst_check_read(worker, p->check, p->members[k], first, (int64_t)rows,
                               data + k * rows * classes));
    for (size_t i = 0; i < rows; i++) {
        double *raw = mean + classes;
        double *each = raw + classes;
        int64_t position = p->check->position[first + (int64_t)i];
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
    return CST_OK;
}

cst_status cst_check_together(const cst_check *check, const int32_t *members, int32_t count,
                              bool residuals, cst_together *out) {
    int64_t cells = (int64_t)count * check->view->classes;
    int64_t block = cells > 0 ? CELLS_OF_BLOCK / cells : ROWS_OF_BLOCK;
    block = block > ROWS_OF_BLOCK     ? ROWS_OF_BLOCK
            : block < FEWEST_OF_BLOCK ? FEWEST_OF_BLOCK
                                      : block;
    pass p = {check, members, count, residuals, block};
    size_t width = (size_t)count * TERMS;
    double all = 0;
    CST_SCOPE(scope);
    CST_NEW(check->context, scope, double, total, width);
    CST_TRY(cst_reduce_blocks(check->context, (check->rows + block - 1) / block, width, add_block,
                              &p, total));
    for (int32_t k = 0; k < count; k++)
        all += total[k * TERMS];
    for (int32_t k = 0; k < count; k++) {
        const double *t = total + (size_t)k * TERMS;
        double others = all - 2 * t[0] + t[1];
        double scale = sqrt(fmax(others, 0) * t[1]);
        out[k] = (cst_together){
            .agreement = scale > 0 ? (t[0] - t[1]) / scale : 0, .hard = t[2], .hard_wrong = t[3]};
    }
    return CST_OK;
}

cst_status cst_check_agreement(cst_check *check) {
    CST_TAKE(check->context, check->scope, check->agreed, check->members);
    CST_TAKE(check->context, check->scope, check->agreement, check->members);
    for (int32_t k = 0; k < check->members; k++) {
        check->facts[k].association.explained |= check->unknown;
        if (cst_check_open(check, k) && !check->facts[k].association.copy)
            check->agreed[check->agreed_count++] = k;
    }
    CST_TRY(cst_check_together(check, check->agreed, check->agreed_count, false, check->agreement));
    for (int32_t i = 0; i < check->agreed_count; i++)
        check->facts[check->agreed[i]].association.agreement = check->agreement[i].agreement;
    return CST_OK;
}

bool cst_check_any_good(const cst_check *check) {
    for (int32_t k = 0; k < check->members; k++)
        if (check->facts[k].association.z >= 4)
            return true;
    return false;
}

int32_t cst_check_good(const cst_check *check, int32_t *out) {
    int32_t count = 0;
    for (int32_t k = 0; k < check->members; k++) {
        const cst_association *a = &check->facts[k].association;
        if (cst_check_open(check, k) && !a->copy && a->z >= 4)
            out[count++] = k;
    }
    return count;
}

/* Members [first..] that are equal to `first` number by number. */
static cst_status tell_copies(cst_check *check, int32_t first) {
    int32_t count = 0;
    for (int32_t k = 0; k < check->members; k++) {
        cst_member_facts *facts = &check->facts[k];
        if (facts->association.constant || facts->hash != check->facts[first].hash)
            continue;
        if (k < first)
            return CST_OK; /* said with that one */
        facts->association.copy = k > first;
        check->list[count++] = k;
    }
    return count < 2 ? CST_OK
                     : CST_SAY(check, "identical", false, count,
                               "%s are the same predictions under %d names, number by number: was "
                               "one file saved twice?",
                               cst_check_who(check, count), (int)count);
}

cst_status cst_check_copies(cst_check *check) {
    int32_t count = 0;
    for (int32_t k = 0; k < check->members; k++)
        if (check->facts[k].association.constant)
            check->list[count++] = k;
    if (count > 0)
        CST_TRY(CST_SAY(check, "constant", false, count, "%s %s every sample the same prediction",
                        cst_check_who(check, count), count == 1 ? "gives" : "give"));
    for (int32_t k = 0; k < check->members; k++)
        if (!check->facts[k].association.constant)
            CST_TRY(tell_copies(check, k));
    return CST_OK;
}
