/* Rows of members that list their likeliest classes. See the header. */
#include "model/topk.h"

#include "core/wide.h"
#include "data/pool/pool.h"
#include "data/readers/npz_write.h"
#include "model/predict.h"

#include <corestack/topk.h>

#include <math.h>
#include <string.h>

struct slot {
    uint32_t stamp; /* that of the row: what others left counts as free */
    int32_t class;
    int32_t place;
};

static size_t listed_by(const cst_view *view) {
    return (size_t)view->classes / 2;
}

cst_status cst_topk_reader_take(cst_context *context, cst_scope *scope, const cst_view *view,
                                cst_topk_reader *out) {
    size_t members = (size_t)view->members;
    size_t entries = members * listed_by(view);
    size_t size = 16;
    while (size < 2 * entries)
        size *= 2;
    *out = (cst_topk_reader){.view = view, .classes = view->listed_of, .mask = (uint32_t)size - 1};
    CST_TAKE(context, scope, out->rows, members);
    CST_TAKE(context, scope, out->scratch, members);
    for (size_t k = 0; cst_view_copies(view) && k < members; k++)
        CST_TAKE(context, scope, out->scratch[k], CST_BLOCK_ROWS * (size_t)view->classes);
    CST_TAKE(context, scope, out->slot, size);
    CST_TAKE(context, scope, out->place, entries);
    CST_TAKE(context, scope, out->score, entries);
    CST_TAKE(context, scope, out->p, entries);
    CST_TAKE(context, scope, out->share, members);
    CST_TAKE(context, scope, out->above, entries);
    CST_TAKE(context, scope, out->norm, members);
    CST_TAKE(context, scope, out->row.class, entries);
    CST_TAKE(context, scope, out->row.first, entries + 2);
    CST_TAKE(context, scope, out->row.member, entries);
    CST_TAKE(context, scope, out->row.excess, entries);
    return CST_OK;
}

cst_status cst_topk_reader_block(cst_context *context, cst_topk_reader *r, int64_t block) {
    r->first = cst_block_first(block);
    r->count = cst_block_size(r->view->rows, block);
    for (int32_t k = 0; k < r->view->members; k++)
        CST_TRY(cst_view_rows(context, r->view, k, r->first, r->count, r->scratch[k], &r->rows[k]));
    return CST_OK;
}

/* The slot of a class, free or its own. */
static struct slot *find_slot(const cst_topk_reader *r, int32_t class) {
    uint32_t at = (uint32_t) class * UINT32_C(2654435769);
    at = (at ^ at >> 15) & r->mask;
    while (r->slot[at].stamp == r->stamp && r->slot[at].class != class)
        at = (at + 1) & r->mask;
    return &r->slot[at];
}

void cst_topk_reader_row(cst_topk_reader *r, int64_t i) {
    size_t listed = listed_by(r->view);
    cst_topk_row *row = &r->row;
    int32_t *first = row->first + 1; /* counts, then beginnings, then ends of the classes before */
    row->count = row->entries = 0;
    r->has_above = false;
    if (++r->stamp == 0) {
        memset(r->slot, 0, ((size_t)r->mask + 1) * sizeof *r->slot);
        r->stamp = 1;
    }
    for (int32_t k = 0; k < r->view->members; k++) {
        const float *classes = r->rows[k] + (size_t)i * 2 * listed;
        for (size_t j = 0; j < listed && classes[j] >= 0; j++) {
            struct slot *slot = find_slot(r, (int32_t)classes[j]);
            if (slot->stamp != r->stamp) {
                *slot = (struct slot){r->stamp, (int32_t)classes[j], row->count};
                first[row->count] = 0;
                row->class[row->count++] = slot->class;
            }
            first[slot->place]++;
            r->place[row->entries++] = slot->place;
        }
    }
    for (int32_t u = 0, at = 0; u < row->count; u++) {
        int32_t here = first[u];
        first[u] = at;
        at += here;
    }
    for (int32_t k = 0, e = 0; k < r->view->members; k++) {
        const float *classes = r->rows[k] + (size_t)i * 2 * listed;
        for (size_t j = 0; j < listed && classes[j] >= 0; j++, e++) {
            int32_t at = first[r->place[e]]++;
            row->member[at] = k;
            row->excess[at] = (double)classes[listed + j];
        }
    }
    row->first[0] = 0;
    row->label = -1;
    if (r->view->labels) {
        int32_t label = cst_view_label(r->view, r->first + i);
        const struct slot *slot = find_slot(r, label);
        row->label = slot->stamp == r->stamp ? slot->place : -1;
    }
}

/* Scores by weights of logarithms. */
static void add_logs(cst_topk_reader *r, const double *weights) {
    const cst_topk_row *row = &r->row;
    for (int32_t u = 0; u < row->count; u++) {
        double sum = 0;
        for (int32_t e = row->first[u]; e < row->first[u + 1]; e++)
            sum += weights[row->member[e]] * row->excess[e];
        r->score[u] = sum;
    }
}

/* Made once for all mixes of a row. */
static void make_above(cst_topk_reader *r) {
    const cst_topk_row *row = &r->row;
    for (int32_t k = 0; k < r->view->members; k++)
        r->norm[k] = r->classes;
    cst_exp_f64(row->entries, row->excess, r->above);
    for (int32_t e = 0; e < row->entries; e++) {
        r->above[e] -= 1;
        r->norm[row->member[e]] += r->above[e];
    }
    r->has_above = true;
}

/* Scores by weights of probabilities: logarithms of how many times that of another class. Of a
 * member, other classes have 1/Z, Z the sum of exp(excess) and 1 for each other class. */
static void add_probabilities(cst_topk_reader *r, const cst_topk_mix *mix) {
    const cst_topk_row *row = &r->row;
    double other = 0;
    if (!r->has_above)
        make_above(r);
    for (int32_t k = 0; k < r->view->members; k++) {
        r->share[k] = mix->weights[k] / r->norm[k];
        other += r->share[k];
    }
    for (int32_t u = 0; u < row->count; u++) {
        r->score[u] = 0;
        for (int32_t e = row->first[u]; e < row->first[u + 1]; e++)
            r->score[u] += r->share[row->member[e]] * r->above[e];
        r->score[u] = mix->power * log1p(r->score[u] / other);
    }
}

double cst_topk_mixed(cst_topk_reader *r, const cst_topk_mix *mix, double *log_other) {
    const cst_topk_row *row = &r->row;
    double top = 0;
    if (mix->linear)
        add_probabilities(r, mix);
    else
        add_logs(r, mix->weights);
    for (int32_t u = 0; u < row->count; u++)
        top = r->score[u] > top ? r->score[u] : top;
    for (int32_t u = 0; u < row->count; u++)
        r->p[u] = r->score[u] - top;
    cst_exp_f64(row->count, r->p, r->p);
    double sum = (r->classes - row->count) * exp(-top);
    for (int32_t u = 0; u < row->count; u++)
        sum += r->p[u];
    for (int32_t u = 0; u < row->count; u++)
        r->p[u] /= sum;
    *log_other = -top - log(sum);
    return *log_other + (row->label < 0 ? 0 : r->score[row->label]);
}

cst_topk_mix cst_topk_mix_of(const cst_model *model) {
    const cst_learner *learner = &model->learner[0];
    bool scaled = model->calibrator.kind == CST_CALIBRATOR_TEMPERATURE;
    return (cst_topk_mix){.weights = learner->weights,
                          .linear = learner->kind == CST_LEARNER_LINEAR,
                          .power = scaled ? 1 / model->calibrator.temperature : 1};
}

/* ---- outcomes ---- */

typedef struct outcomes_job {
    const cst_view *view;
    const cst_topk_mix *mix;
    const int32_t *folds;
    float *out;
} outcomes_job;

/* What the mixed row says of its label. */
static void outcome_of(const cst_topk_reader *r, int64_t at, double log_label, double log_other,
                       float *out) {
    const cst_topk_row *row = &r->row;
    int32_t others = r->classes - row->count;
    double score = row->label < 0 ? 0 : r->score[row->label];
    double other = exp(log_other);
    double confidence = others > 0 ? other : 0;
    double squares = 1 - 2 * exp(log_label) + others * other * other;
    int32_t label = cst_view_label(r->view, at);
    double rank = score < 0 ? others : 0;
    bool tied = score >= 0 && score <= 0; /* with the others */
    rank += tied ? label : 0;
    for (int32_t u = 0; u < row->count; u++) {
        bool before = row->class[u] < label;
        bool tie = r->score[u] >= score && r->score[u] <= score;
        rank += (tie ? before : r->score[u] > score) - (tied && before);
        confidence = fmax(confidence, r->p[u]);
        squares += r->p[u] * r->p[u];
    }
    out[CST_TOPK_NLL] = (float)-log_label;
    out[CST_TOPK_CONFIDENCE] = (float)confidence;
    out[CST_TOPK_RANK] = (float)rank;
    out[CST_TOPK_SQUARES] = (float)squares;
}

static cst_status outcomes_block(cst_context *context, void *user, int64_t block) {
    const outcomes_job *job = user;
    cst_topk_reader r;
    CST_SCOPE(scope);
    CST_TRY(cst_topk_reader_take(context, scope, job->view, &r));
    CST_TRY(cst_topk_reader_block(context, &r, block));
    for (int64_t i = 0; i < r.count; i++) {
        double other = 0;
        const cst_topk_mix *mix = job->mix + (job->folds ? job->folds[r.first + i] : 0);
        cst_topk_reader_row(&r, i);
        double label = cst_topk_mixed(&r, mix, &other);
        outcome_of(&r, r.first + i, label, other,
                   job->out + (size_t)(r.first + i) * CST_TOPK_OUTCOME);
    }
    return CST_OK;
}

cst_status cst_topk_outcomes(cst_context *context, const cst_view *view, const cst_topk_mix *mix,
                             const int32_t *folds, float *out) {
    outcomes_job job = {view, mix, folds, out};
    const cst_share filled = cst_share_rows(out, view->rows, CST_TOPK_OUTCOME * sizeof *out);
    return cst_parallel_fill(context, cst_block_count(view->rows), outcomes_block, &job, &filled,
                             1);
}

/* ---- prediction ---- */

typedef struct found {
    double score;
    int32_t class;
    int32_t place;
} found;

typedef struct predict_job {
    const cst_view *view;
    cst_topk_mix mix;
    size_t top;
    int64_t together; /* blocks of a task */
    int64_t first;    /* block: that of the first row of `out` */
    const cst_topk *out;
} predict_job;

static bool is_behind(const found *a, const found *b) {
    return a->score < b->score || (!(a->score > b->score) && a->class > b->class);
}

/* Puts what is at a place of a heap, whose first is behind all others, further down. */
static void sink(found *heap, size_t at, size_t count) {
    found moved = heap[at];
    for (size_t next = 2 * at + 1; next < count; next = 2 * at + 1) {
        next += next + 1 < count && is_behind(&heap[next + 1], &heap[next]);
        if (!is_behind(&heap[next], &moved))
            break;
        heap[at] = heap[next];
        at = next;
    }
    heap[at] = moved;
}

/* The likeliest `top` of the row's classes, the first before all others; returns how many. */
static size_t take_top(const cst_topk_reader *r, size_t top, found *heap) {
    size_t count = (size_t)r->row.count < top ? (size_t)r->row.count : top;
    for (size_t u = 0; u < count; u++)
        heap[u] = (found){r->score[u], r->row.class[u], (int32_t)u};
    for (size_t u = count / 2; u-- > 0;)
        sink(heap, u, count);
    for (size_t u = count; u < (size_t)r->row.count; u++) {
        const found one = {r->score[u], r->row.class[u], (int32_t)u};
        if (is_behind(heap, &one)) {
            heap[0] = one;
            sink(heap, 0, count);
        }
    }
    for (size_t left = count; left > 1; left--) {
        const found last = heap[0];
        heap[0] = heap[left - 1];
        heap[left - 1] = last;
        sink(heap, 0, left - 1);
    }
    return count;
}

/* Row `at` of `out` from row `i` of what was read. */
static void predict_row(const predict_job *job, cst_topk_reader *r, int64_t i, size_t at,
                        found *heap) {
    const cst_topk *out = job->out;
    double other = 0;
    double rest = 0;
    cst_topk_reader_row(r, i);
    (void)cst_topk_mixed(r, &job->mix, &other);
    size_t count = take_top(r, job->top, heap);
    for (size_t j = 0; j < job->top; j++) {
        out->indices[at * job->top + j] = j < count ? heap[j].class : -1;
        out->logprobs[at * job->top + j] = j < count ? (float)(other + heap[j].score) : -INFINITY;
    }
    for (size_t j = 0; j < count; j++)
        r->p[heap[j].place] = 0;
    for (int32_t u = 0; u < r->row.count; u++)
        rest += r->p[u];
    out->rest[at] = (float)log(rest + (r->classes - r->row.count) * exp(other));
}

/* Some blocks, for which the memory is taken once. */
static cst_status predict_blocks(cst_context *context, void *user, int64_t task) {
    const predict_job *job = user;
    cst_topk_reader r;
    CST_SCOPE(scope);
    CST_TRY(cst_topk_reader_take(context, scope, job->view, &r));
    CST_NEW(context, scope, found, heap, job->top);
    for (int64_t b = task * job->together; b < (task + 1) * job->together; b++) {
        if (cst_block_first(b) >= job->out->rows)
            break;
        CST_TRY(cst_topk_reader_block(context, &r, job->first + b));
        for (int64_t i = 0; i < r.count; i++)
            predict_row(job, &r, i, (size_t)(cst_block_first(b) + i), heap);
    }
    return CST_OK;
}

/* The view of a split, and how many classes of each row are asked for. */
static cst_status open_split(cst_context *context, cst_scope *scope, const cst_model *model,
                             cst_pool *pool, const char *split, int64_t top, cst_view *view,
                             predict_job *job) {
    if (model->task != CST_TASK_TOPK || cst_pool_task(pool) != CST_TASK_TOPK)
        return cst_fail(context, CST_ERROR_UNSUPPORTED,
                        "lists of the likeliest classes are predicted by a model of such members "
                        "from such members; the model is of %s, the pool of %s",
                        cst_task_text(model->task), cst_task_text(cst_pool_task(pool)));
    CST_TRY(cst_model_view(context, scope, model, pool, split, view));
    int64_t most = (int64_t)listed_by(view) * (top > 0 ? view->members : 1);
    most = top > 0 && top < most ? top : most;
    most = most < model->classes ? most : model->classes;
    *job = (predict_job){
        .view = view, .mix = cst_topk_mix_of(model), .top = (size_t)most, .together = 1};
    return CST_OK;
}

/* Arrays for `rows` rows, which the caller frees also after a failure. */
static cst_status take_arrays(cst_context *context, int64_t rows, size_t top, cst_topk *out) {
    size_t cells = 0;
    *out = (cst_topk){.rows = rows, .top = (int64_t)top};
    if (!cst_size_mul((size_t)rows, top, &cells))
        return cst_fail(context, CST_ERROR_LIMIT, "too many rows to predict");
    out->indices = cst_alloc(context, cells, sizeof *out->indices);
    out->logprobs = cst_alloc(context, cells, sizeof *out->logprobs);
    out->rest = cst_alloc(context, (size_t)rows, sizeof *out->rest);
    return out->indices && out->logprobs && out->rest ? CST_OK : CST_ERROR_MEMORY;
}

static void free_arrays(cst_context *context, cst_topk *topk) {
    cst_free(context, topk->indices);
    cst_free(context, topk->logprobs);
    cst_free(context, topk->rest);
}

/* Predicts the rows of `out`, the first of which begins a block. */
static cst_status predict_rows(cst_context *context, predict_job *job, int64_t first,
                               const cst_topk *out) {
    const size_t width = job->top * sizeof *out->indices;
    cst_share filled[] = {cst_share_rows(out->indices, out->rows, width),
                          cst_share_rows(out->logprobs, out->rows, width),
                          cst_share_rows(out->rest, out->rows, sizeof *out->rest)};
    for (int i = 0; i < 3; i++)
        filled[i].bytes *= (size_t)job->together;
    job->first = first / CST_BLOCK_ROWS;
    job->out = out;
    int64_t tasks = (cst_block_count(out->rows) + job->together - 1) / job->together;
    return cst_parallel_fill(context, tasks, predict_blocks, job, filled, 3);
}

static cst_status predict(cst_context *context, const cst_model *model, cst_pool *pool,
                          const char *split, int64_t top, cst_topk *out) {
    cst_view view = {0};
    predict_job job;
    CST_SCOPE(scope);
    CST_TRY(open_split(context, scope, model, pool, split, top, &view, &job));
    CST_TRY(take_arrays(context, view.rows, job.top, out));
    CST_TRY(cst_stage(context, "predict"));
    return predict_rows(context, &job, 0, out);
}

void cst_topk_free(cst_context *context, cst_topk *topk) {
    if (!topk)
        return;
    free_arrays(context, topk);
    cst_free(context, topk);
}

cst_status cst_model_predict_topk(cst_context *context, const cst_model *model, cst_pool *pool,
                                  const char *split, int64_t top, cst_topk **out) {
    CST_CLEAR(out);
    CST_ENTER(context);
    if (!model || !pool || !split || !out || top < 0)
        return cst_fail(context, CST_ERROR_ARGUMENT,
                        "cst_model_predict_topk: model, pool, split, a number of classes and an "
                        "output are required");
    cst_topk *made = cst_alloc(context, 1, sizeof *made);
    cst_status status = made ? predict(context, model, pool, split, top, made) : CST_ERROR_MEMORY;
    if (status != CST_OK)
        cst_topk_free(context, made);
    else
        *out = made;
    return cst_why(context, status);
}

/* Blocks that are held in memory while a split is written. */
static int64_t piece_blocks(const predict_job *job) {
    enum { PIECE_BYTES = 1 << 25 };
    size_t blocks = PIECE_BYTES / (CST_BLOCK_ROWS * (2 * job->top + 1) * sizeof(float));
    return blocks > 1 ? (int64_t)blocks : 1;
}

static cst_status write_split(cst_context *context, const cst_model *model, cst_pool *pool,
                              const char *split, int64_t top, const char *path, int64_t *rows) {
    cst_view view = {0};
    predict_job job;
    cst_topk_file *file = NULL;
    CST_SCOPE(scope);
    CST_TRY(open_split(context, scope, model, pool, split, top, &view, &job));
    int64_t most = piece_blocks(&job);
    job.together = most < 16 ? 1 : most < 128 ? most / 16 : 8; /* 16 tasks, for as many threads */
    most = most < cst_block_count(view.rows) ? most * CST_BLOCK_ROWS : view.rows;
    if (path)
        CST_TRY(cst_topk_file_open(context, scope, path, view.rows, (int64_t)job.top, &file));
    cst_topk piece;
    cst_status status = take_arrays(context, most, job.top, &piece);
    for (int64_t first = 0; status == CST_OK && first < view.rows; first += piece.rows) {
        piece.rows = most < view.rows - first ? most : view.rows - first;
        status = cst_progress(context, "predict", first, view.rows);
        CST_THEN(predict_rows(context, &job, first, &piece));
        if (file)
            CST_THEN(cst_topk_file_put(context, file, first, &piece));
    }
    free_arrays(context, &piece);
    CST_THEN(cst_progress(context, "predict", view.rows, view.rows));
    if (file)
        status = cst_topk_file_end(context, file, status);
    *rows = status == CST_OK ? view.rows : 0;
    return status;
}

cst_status cst_model_write_topk(cst_context *context, const cst_model *model, cst_pool *pool,
                                const char *split, int64_t top, const char *path, int64_t *rows) {
    CST_CLEAR(rows);
    CST_ENTER(context);
    if (!model || !pool || !split || top < 0 || !rows)
        return cst_fail(context, CST_ERROR_ARGUMENT,
                        "cst_model_write_topk: model, pool, split, a number of classes and an "
                        "output are required");
    return cst_why(context, write_split(context, model, pool, split, top, path, rows));
}
