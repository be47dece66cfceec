/* Calibrated scores of members' boxes and of clusters. docs/detection.md#the-stack. */
#include "core/la.h"
#include "tasks/detection/detection.h"

#include <math.h>
#include <string.h>

/* ---- a map for each member ---- */

enum { BINS = 20, BIN_BOXES = 30 }; /* at most so many, of at least so many boxes */

/* Neighbouring scores with one value. */
typedef struct bin {
    double score, right, boxes;
} bin;

typedef struct told {
    double score;
    int64_t place;
    bool right;
} told;

CST_BY(by_score, told, CST_UP(score), CST_UP(place), 0)

/* Knots at the means of bins, pooled until shares rise; ends half way to "never" and "always", so
 * that no two scores become equal. */
static void make_map(const told *boxes, int64_t count, cst_isotonic *out) {
    bin list[BINS + 1] = {{0, 0, 0}};
    int64_t wanted = count / BIN_BOXES < 1 ? 1 : count / BIN_BOXES;
    int32_t bins = 0;
    wanted = wanted > BINS ? BINS : wanted;
    for (int64_t b = 0; count > 0 && b < wanted; b++) {
        bin next = {0};
        for (int64_t i = b * count / wanted; i < (b + 1) * count / wanted; i++) {
            next.score += boxes[i].score;
            next.right += boxes[i].right;
            next.boxes++;
        }
        list[bins++] = next;
        while (bins > 1 && list[bins - 2].right * list[bins - 1].boxes >=
                               list[bins - 1].right * list[bins - 2].boxes) {
            bins--;
            list[bins - 1].score += list[bins].score;
            list[bins - 1].right += list[bins].right;
            list[bins - 1].boxes += list[bins].boxes;
        }
    }
    out->count = 1;
    for (int32_t b = 0; b < bins; b++) {
        double x = list[b].score / list[b].boxes;
        double y = list[b].right / list[b].boxes;
        if (b == 0)
            out->y[0] = y / 2;
        if (x <= out->x[out->count - 1] || x >= 1)
            continue;
        out->x[out->count] = x;
        out->y[out->count++] = y;
    }
    out->x[out->count] = 1;
    out->y[out->count] = bins > 0 ? (1 + out->y[out->count - 1]) / 2 : 1;
    out->count++;
}

typedef struct map_job {
    const cst_box_split *split;
    const bool *images;
    double iou;
    cst_isotonic *out; /* [members] */
} map_job;

/* A member's boxes are clusters of their own, so targets are theirs. */
static cst_status map_member(cst_context *context, void *user, int64_t member) {
    const map_job *job = user;
    const cst_cluster_options options = {.iou = 1, .max_boxes = INT32_MAX};
    cst_box_clusters c;
    int64_t count = 0;
    CST_SCOPE(scope);
    CST_NEW(context, scope, bool, uses, job->split->members);
    uses[member] = true;
    CST_TRY(cst_box_clusters_make(context, scope, job->split->coco,
                                  (const cst_coco_boxes *const *)job->split->boxes,
                                  job->split->members, &options, uses, job->images, &c));
    CST_NEW(context, scope, int32_t, targets, c.rows);
    CST_NEW(context, scope, int64_t, taken, c.rows);
    CST_NEW(context, scope, told, boxes, c.rows);
    CST_TRY(cst_cluster_targets(context, &c, job->split->coco, job->iou, targets, taken));
    for (int64_t i = 0; i < c.rows; i++)
        if (targets[i] != CST_CLUSTER_UNUSED)
            boxes[count++] = (told){c.box[c.first[i]].score, i, targets[i] == CST_CLUSTER_RIGHT};
    CST_TRY(cst_sort(context, boxes, (size_t)count, sizeof *boxes, by_score));
    make_map(boxes, count, &job->out[member]);
    return CST_OK;
}

void cst_box_scoring_plain(cst_box_scoring *scoring, int32_t members) {
    scoring->members = members;
    scoring->slope[1] = 1; /* until it is learned */
    for (int32_t k = 0; k < members; k++) {
        scoring->map[k].count = 2;
        scoring->map[k].x[0] = scoring->map[k].y[0] = 0;
        scoring->map[k].x[1] = scoring->map[k].y[1] = 1;
    }
}

cst_status cst_box_scoring_fit(cst_context *context, cst_scope *scope, const cst_box_split *split,
                               const bool *images, double iou, cst_box_scoring **out) {
    int32_t members = split->members;
    map_job job = {.split = split, .images = images, .iou = iou};
    CST_NEW(context, scope, cst_box_scoring, scoring, 1);
    CST_TAKE(context, scope, scoring->map, members);
    CST_TAKE(context, scope, scoring->absent, members);
    CST_TAKE(context, scope, scoring->share, members);
    for (int32_t k = 0; k < members; k++) {
        scoring->share[k] = 1;
        CST_TAKE(context, scope, scoring->map[k].x, BINS + 2);
        CST_TAKE(context, scope, scoring->map[k].y, BINS + 2);
    }
    scoring->members = members;
    job.out = scoring->map;
    CST_TRY(cst_parallel_for(context, members, map_member, &job));
    *out = scoring;
    return CST_OK;
}

/* ---- scores of clusters ---- */

static const double LOW = 1e-4; /* log-odds are of probabilities between this and 1 less this */

static double log_odds(double p) {
    p = fmin(fmax(p, LOW), 1 - LOW);
    return log(p / (1 - p));
}

/* Weighted mean of the scores in a cluster over the members used. uses: [members], NULL: all. */
double cst_cluster_share(const cst_box_clusters *c, int64_t row, const double *share,
                         const bool *uses) {
    double sum = 0;
    double all = 0;
    for (int32_t k = 0; k < c->members; k++)
        all += uses && !uses[k] ? 0 : share[k];
    for (int64_t i = c->first[row]; i < c->first[row + 1]; i++)
        sum += share[c->box[i].member] * c->box[i].score;
    return all > 0 ? sum / all : 0;
}

/* Members there may be fewer than in the fit, so a cluster may have fewer boxes than there. */
static int32_t count_of(const cst_box_clusters *c, int64_t row, int32_t used, int32_t fitted) {
    int64_t boxes = ((c->first[row + 1] - c->first[row]) * fitted + used / 2) / used;
    return (int32_t)(boxes < CST_BOX_COUNTS ? boxes : CST_BOX_COUNTS);
}

static int32_t count_uses(const bool *uses, int32_t members) {
    int32_t used = 0;
    for (int32_t k = 0; k < members; k++)
        used += !uses || uses[k];
    return used;
}

void cst_box_scoring_rows(const cst_box_scoring *s, const cst_box_rows *rows, const bool *uses,
                          float *scores) {
    const cst_box_clusters *c = &rows->clusters;
    int32_t used = count_uses(uses, c->members);
    for (int64_t i = 0; i < c->rows; i++) {
        double odds = s->slope[1] * log_odds(cst_cluster_share(c, i, s->share, uses)) +
                      s->bias[count_of(c, i, used, s->members)];
        if (s->slope[0] > 0 || s->slope[0] < 0)
            odds += s->slope[0] * log_odds((double)scores[2 * i + 1]);
        scores[2 * i + 1] = (float)(1 / (1 + exp(-odds)));
        scores[2 * i] = 1 - scores[2 * i + 1];
    }
}

/* How often a cluster is right in which a member has no box. */
void cst_box_scoring_absent(const cst_box_training *t, cst_box_scoring *s) {
    const cst_box_clusters *c = &t->rows.clusters;
    for (int32_t k = 0; k < c->members; k++) {
        double right = 0.1; /* of one more cluster */
        double all = 1;
        for (int64_t i = 0; i < t->source.view.rows; i++) {
            int64_t row = t->index[i];
            bool there = false;
            for (int64_t b = c->first[row]; b < c->first[row + 1]; b++)
                there = there || c->box[b].member == k;
            right += !there && t->targets[row] == CST_CLUSTER_RIGHT;
            all += !there;
        }
        s->absent[k] = right / all;
    }
}

/* ---- the fit of the scores ---- */

enum { STEPS = 30, PARAMETERS = CST_BOX_COUNTS + 3 };

static const double PRECISION = 10; /* of the prior: both slopes 1/2, no biases but one for all */

/* One pass of Newton's method for logistic regression. */
static void add_row(const double *x, double target, const double *w, int32_t n, double *gradient,
                    double *hessian) {
    double odds = 0;
    for (int32_t i = 0; i < n; i++)
        odds += x[i] * w[i];
    double p = 1 / (1 + exp(-odds));
    for (int32_t i = 0; i < n; i++) {
        if (!(x[i] > 0 || x[i] < 0))
            continue;
        gradient[i] += x[i] * (p - target);
        for (int32_t j = 0; j <= i; j++)
            hessian[i * n + j] += p * (1 - p) * x[i] * x[j];
    }
}

cst_status cst_box_scoring_learn(cst_context *context, const cst_box_training *t, const bool *uses,
                                 const float *stack, cst_box_scoring *s) {
    const cst_box_clusters *c = &t->rows.clusters;
    int32_t used = count_uses(uses, c->members);
    int32_t counts = used < CST_BOX_COUNTS ? used : CST_BOX_COUNTS;
    int32_t n = stack ? 3 + counts : 3; /* slopes, a bias for all, one for each number of boxes */
    double w[PARAMETERS] = {stack ? 0.5 : 0, stack ? 0.5 : 1};
    const double prior[PARAMETERS] = {w[0], w[1]};
    s->members = used;
    for (int step = 0; step < STEPS; step++) {
        double gradient[PARAMETERS] = {0};
        double hessian[PARAMETERS * PARAMETERS] = {0};
        double moved = 0;
        for (int32_t j = 0; j < n; j++) {
            double precision = j == 2 ? 1e-6 : PRECISION;
            gradient[j] = precision * (w[j] - prior[j]);
            hessian[j * n + j] = precision;
        }
        for (int64_t i = 0; i < t->source.view.rows; i++) {
            int64_t row = t->index[i];
            double x[PARAMETERS] = {stack ? log_odds((double)stack[2 * row + 1]) : 0,
                                    log_odds(cst_cluster_share(c, row, s->share, uses)), 1};
            if (stack)
                x[2 + count_of(c, row, used, used)] = 1;
            add_row(x, t->targets[row] == CST_CLUSTER_RIGHT, w, n, gradient, hessian);
        }
        CST_TRY(cst_cholesky(context, n, hessian));
        cst_cholesky_solve(n, hessian, gradient);
        for (int32_t j = 0; j < n; j++) {
            w[j] -= gradient[j];
            moved = fmax(moved, fabs(gradient[j]));
        }
        if (moved < 1e-9)
            break;
    }
    memcpy(s->slope, w, sizeof s->slope);
    for (int32_t j = 0; j <= CST_BOX_COUNTS; j++)
        s->bias[j] = w[2] + (stack && j > 0 ? w[2 + (j < counts ? j : counts)] : 0);
    return CST_OK;
}
