/* Compact tables: which classes of a row are kept, and the pass that keeps them. Paper: section
 * "Computational Complexity". */
#include "method/loglinear/loglinear.h"

#include "core/ranks.h"
#include "core/wide.h"

#include <math.h>
#include <string.h>

/* Sizes are told apart by their exponent and the first two bits after it. */
enum { SIZE_SHIFT = 21, SIZE_COUNT = 1 << (31 - SIZE_SHIFT) };
/* Classes of a row that are kept at least, and in a table of diffuse rows at most, on average. */
static const double ENTRIES = 32;
static const double MOST_ENTRIES = 128;
/* Rows that tell whether a table's are diffuse. */
enum { LOOK_ROWS = 128 };
/* Floats of a member that are read at a time. */
enum { PIECE_FLOATS = 1 << 17 };
/* Blocks that are built and laid together: as many as may take this part of the memory there may
 * be, at most so many. */
enum { SEGMENT_SHARE = 8, SEGMENT_MOST = 16 };
/* A table that every rank has takes at most this part of it. */
enum { WHOLE_SHARE = 16 };
/* Logs are held where they take at most this part of the memory there may be. */
enum { LOGS_SHARE = 4 };

/* ---- logs of mixed probabilities ---- */

CST_KERNEL(mixed,
           (const float *restrict p, int64_t count, double keep, double floor,
            double *restrict out),
           (p, count, keep, floor, out)) {
    for (int64_t i = 0; i < count; i++)
        out[i] = cst_log_one_f64(keep * (double)p[i] + floor);
}

void cst_pass_logs(const float *p, int64_t count, double mix, int32_t classes, double *out) {
    mixed(p, count, 1 - mix, mix / (double)classes, out);
}

CST_KERNEL(mixed_f32,
           (const float *restrict p, int64_t count, float keep, float floor, float *restrict out),
           (p, count, keep, floor, out)) {
    for (int64_t e = 0; e < count; e++)
        out[e] = cst_log_one_f32(keep * p[e] + floor);
}

void cst_pass_logs_f32(const float *p, int64_t count, double mix, int32_t classes, float *out) {
    mixed_f32(p, count, (float)(1 - mix), (float)(mix / (double)classes), out);
}

cst_compact_options cst_compact_defaults(void) {
    return (cst_compact_options){.cut = 1e-3, .max_rows = 100000};
}

/* ---- one row ---- */

/* A worker's piece of rows. */
typedef struct piece {
    const float **rows; /* [members] */
    float *scratch;     /* [members][piece][classes]; empty where the view does not copy */
    float *mean;        /* [rows of a piece][classes]: sums over members, then q */
    int32_t *order;     /* [classes]: of a row, classes below the cut, by size */
    bool *kept;         /* [classes] */
    float *chance;      /* [classes]: of those kept, pi_c */
    int32_t *count;     /* [SIZE_COUNT]: classes of a size */
    double *sum;        /* [SIZE_COUNT]: of their q */
} piece;

/* A number in [0, 1) from a row's number (the finaliser of splitmix64). */
static double row_uniform(int64_t row) {
    uint64_t x = (uint64_t)row + UINT64_C(0x9e3779b97f4a7c15);
    x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
    return (double)((x ^ (x >> 31)) >> 11) * 0x1p-53;
}

static uint32_t size_of(float q) {
    uint32_t bits = 0;
    memcpy(&bits, &q, sizeof bits);
    return bits >> SIZE_SHIFT;
}

/* Classes that are kept at a cut, on average. */
static double kept_at(const float *q, int32_t classes, double cut) {
    double above = 0;
    double below = 0;
    for (int32_t c = 0; c < classes; c++) {
        bool over = (double)q[c] >= cut;
        above += over ? 1 : 0;
        below += over ? 0 : (double)q[c];
    }
    return above + below / cut;
}

/* The row's own cut: lower than asked for where that would keep fewer than ENTRIES classes, and
 * higher where it would keep more than `most`. The number that is kept at a cut is that of the
 * classes above it and the sum of the others over it. */
static double row_cut(const float *q, int32_t classes, double cut, double most, piece *s) {
    memset(s->count, 0, SIZE_COUNT * sizeof *s->count);
    memset(s->sum, 0, SIZE_COUNT * sizeof *s->sum);
    double below = 0;
    for (int32_t c = 0; c < classes; c++) {
        uint32_t size = size_of(q[c]);
        s->count[size]++;
        s->sum[size] += (double)q[c];
        below += (double)q[c];
    }
    bool high = kept_at(q, classes, cut) > most;
    double limit = high ? most : ENTRIES;
    double above = 0;
    double best = cut;
    for (int32_t b = SIZE_COUNT - 1; b > 0 && above < limit; b--) {
        uint32_t bits = (uint32_t)b << SIZE_SHIFT;
        float edge = 0;
        memcpy(&edge, &bits, sizeof edge);
        above += s->count[b];
        below -= s->sum[b];
        bool better = high ? (double)edge > cut : (double)edge < cut;
        if (better && above + below / (double)edge <= limit)
            best = (double)edge;
    }
    return best;
}

/* Marks what is kept of a row and its chances; returns how many. Classes below the cut are laid
 * along a line, by size and then by number, each as long as its chance; those on which the points
 * u, u + 1, ... fall are kept. */
static int32_t keep_classes(const float *q, int32_t classes, int32_t label, double cut, double u,
                            piece *s) {
    int32_t start[SIZE_COUNT + 1] = {0};
    int32_t count = 0;
    int32_t below = 0;
    for (int32_t c = 0; c < classes; c++) {
        s->kept[c] = c == label || (double)q[c] >= cut;
        s->chance[c] = 1;
        count += s->kept[c];
        below += !s->kept[c];
        start[s->kept[c] ? 0 : size_of(q[c]) + 1] += !s->kept[c];
    }
    for (int32_t b = 0; b < SIZE_COUNT; b++)
        start[b + 1] += start[b];
    for (int32_t c = 0; c < classes; c++)
        if (!s->kept[c])
            s->order[start[size_of(q[c])]++] = c;
    double at = 0;
    for (int32_t i = 0; i < below; i++) {
        int32_t c = s->order[i];
        double chance = (double)q[c] / cut;
        at += chance;
        if (at <= u)
            continue;
        u += 1;
        s->kept[c] = true;
        s->chance[c] = (float)chance;
        count++;
    }
    return count;
}

/* ---- a block of rows ---- */

typedef struct build_job {
    const cst_view *view;
    double cut;
    double most; /* entries of a row, on average */
    cst_compact *table;
    int64_t piece; /* rows that are read at a time */
    int64_t first; /* block of task 0 */
} build_job;

static cst_status piece_open(cst_context *context, cst_scope *scope, const build_job *job,
                             piece *p) {
    size_t classes = (size_t)job->view->classes;
    size_t members = (size_t)job->view->members;
    size_t cells = (size_t)job->piece * classes;
    CST_TAKE(context, scope, p->rows, members);
    CST_TAKE(context, scope, p->scratch, cst_view_copies(job->view) ? members * cells : 0);
    CST_TAKE(context, scope, p->mean, cells);
    CST_TAKE(context, scope, p->order, classes);
    CST_TAKE(context, scope, p->kept, classes);
    CST_TAKE(context, scope, p->chance, classes);
    CST_TAKE(context, scope, p->count, SIZE_COUNT);
    CST_TAKE(context, scope, p->sum, SIZE_COUNT);
    return CST_OK;
}

/* The members' rows, and q of each. */
static cst_status piece_read(cst_context *context, const build_job *job, int64_t first,
                             int64_t count, piece *p) {
    const cst_view *view = job->view;
    size_t cells = (size_t)count * (size_t)view->classes;
    float *scratch = p->scratch;
    memset(p->mean, 0, cells * sizeof *p->mean);
    for (int32_t k = 0; k < view->members; k++) {
        CST_TRY(cst_view_rows(context, view, k, first, count, scratch, &p->rows[k]));
        if (cst_view_copies(view))
            scratch += (size_t)job->piece * (size_t)view->classes;
        for (size_t i = 0; i < cells; i++)
            p->mean[i] += p->rows[k][i];
    }
    float share = 1 / (float)view->members;
    float least = (float)(job->cut / (double)view->classes);
    for (size_t i = 0; i < cells; i++)
        p->mean[i] = fmaxf(p->mean[i] * share, least);
    return CST_OK;
}

/* Room for `more` entries of all members. */
static cst_status grow(cst_context *context, const cst_compact *table, cst_compact_block *block,
                       int64_t used, int64_t more, int64_t *room) {
    if (used + more <= *room)
        return CST_OK;
    size_t old = (size_t)*room;
    size_t next = old + old / 2 + (size_t)more * 8;
    size_t members = (size_t)table->members;
    float *p = cst_grow(context, block->p, old * members, next * members, sizeof *p);
    if (!p)
        return CST_ERROR_MEMORY;
    block->p = p;
    *room = (int64_t)next;
    if (table->every_class)
        return CST_OK;
    int32_t *classes = cst_grow(context, block->classes, old, next, sizeof *classes);
    block->classes = classes ? classes : block->classes;
    float *offset = classes ? cst_grow(context, block->offset, old, next, sizeof *offset) : NULL;
    block->offset = offset ? offset : block->offset;
    return offset ? CST_OK : CST_ERROR_MEMORY;
}

/* Appends what is kept of row `i` of the piece. */
static void append(const cst_compact *table, const piece *p, int64_t i, int64_t used, int32_t count,
                   int32_t label, cst_compact_block *block, int32_t *label_at) {
    size_t classes = (size_t)table->classes;
    float *to = block->p + used * table->members;
    if (table->every_class) {
        *label_at = label;
        for (int32_t k = 0; k < table->members; k++)
            memcpy(to + (size_t)k * classes, p->rows[k] + (size_t)i * classes,
                   classes * sizeof *to);
        return;
    }
    int32_t *which = block->classes + used;
    int32_t at = 0;
    for (int32_t c = 0; c < table->classes; c++) {
        if (!p->kept[c])
            continue;
        if (c == label)
            *label_at = at;
        which[at] = c;
        block->offset[used + at++] = -logf(p->chance[c]);
    }
    for (; at < count; at++) {
        which[at] = -1;
        block->offset[used + at] = CST_COMPACT_NO_MASS;
    }
    for (int32_t k = 0; k < table->members; k++)
        for (int32_t e = 0; e < count; e++)
            *to++ = which[e] < 0 ? 1 : p->rows[k][(size_t)i * classes + (size_t)which[e]];
}

static cst_status build_block(cst_context *context, void *user, int64_t task) {
    const build_job *job = user;
    int64_t b = job->first + task;
    const cst_view *view = job->view;
    cst_compact *table = job->table;
    cst_compact_block *block = &table->block[b];
    int64_t first = cst_block_first(b);
    int64_t rows = cst_block_size(table->rows, b);
    int64_t room = 0;
    piece p;
    CST_SCOPE(scope);
    CST_TRY(piece_open(context, scope, job, &p));
    for (int64_t i = 0; i < rows; i++) {
        int64_t within = i % job->piece;
        if (within == 0)
            CST_TRY(piece_read(context, job, first + i,
                               rows - i < job->piece ? rows - i : job->piece, &p));
        int32_t label = cst_view_label(view, first + i);
        const float *q = p.mean + (size_t)within * (size_t)view->classes;
        int32_t kept = view->classes;
        if (!table->every_class) {
            double cut = row_cut(q, view->classes, job->cut, job->most, &p);
            kept = keep_classes(q, view->classes, label, cut,
                                row_uniform(table->split_row[first + i]), &p);
            kept = (kept + CST_COMPACT_PAD - 1) / CST_COMPACT_PAD * CST_COMPACT_PAD;
        }
        int64_t used = block->first[i];
        CST_TRY(grow(context, table, block, used, kept, &room));
        append(table, &p, within, used, kept, label, block, &block->label[i]);
        block->first[i + 1] = used + kept;
    }
    return CST_OK;
}

/* ---- a table ---- */

/* Rows that are read at a time: a few hundred kilobytes of each member. */
static int64_t piece_rows(int32_t classes) {
    int64_t rows = PIECE_FLOATS / classes;
    return rows < 8 ? 8 : rows > CST_BLOCK_ROWS ? CST_BLOCK_ROWS : rows;
}

/* Sets the most entries of a row: no limit where few rows are diffuse, so that their tables lose
 * nothing. */
static cst_status look_at_rows(cst_context *context, build_job *job) {
    int64_t rows = job->view->rows;
    int64_t count = rows < LOOK_ROWS ? rows : LOOK_ROWS;
    build_job one = *job;
    piece p;
    job->most = INFINITY;
    if (job->table->every_class || count == 0)
        return CST_OK;
    one.piece = 1;
    CST_SCOPE(scope);
    CST_TRY(piece_open(context, scope, &one, &p));
    double sum = 0;
    for (int64_t i = 0; i < count; i++) {
        CST_TRY(piece_read(context, &one, i * rows / count, 1, &p));
        sum += kept_at(p.mean, job->view->classes, job->cut);
    }
    if (sum > MOST_ENTRIES * (double)count)
        job->most = MOST_ENTRIES;
    return CST_OK;
}

/* One of many parts of what is large together. */
static void *take_part(cst_context *context, cst_scope *scope, size_t count, size_t size) {
    void *part = cst_alloc_counted(context, count, size);
    return part && cst_scope_own(context, scope, cst_free, part) == CST_OK ? part : NULL;
}

/* Moves `bytes` from an array of its own to *to; NULL there: only frees the array. */
static void *lay(cst_context *context, void *from, size_t bytes, unsigned char **to) {
    void *at = *to;
    if (from && at) {
        cst_trim(context); /* a segment is an eighth of the memory */
        memcpy(at, from, bytes);
        *to += bytes;
    }
    cst_free(context, from);
    return from ? at : NULL;
}

static size_t entries_of(const cst_compact *table, int64_t b) {
    return (size_t)table->block[b].first[cst_block_size(table->rows, b)];
}

static size_t entry_bytes(const cst_compact *table) {
    return (size_t)table->members * sizeof(float) +
           (table->every_class ? 0 : sizeof(int32_t) + sizeof(float));
}

/* Builds blocks first..last-1 and lays them together. */
static cst_status build_segment(cst_context *context, build_job *job, int64_t last) {
    cst_compact *table = job->table;
    for (int64_t b = job->first; b < last; b++) {
        int64_t rows = cst_block_size(table->rows, b);
        CST_TAKE(context, &table->scope, table->block[b].first, rows + 1);
        CST_TAKE(context, &table->scope, table->block[b].label, rows);
    }
    cst_status status = cst_parallel_for(context, last - job->first, build_block, job);
    size_t entries = 0;
    for (int64_t b = job->first; status == CST_OK && b < last; b++)
        entries += entries_of(table, b);
    unsigned char *to =
        status == CST_OK ? take_part(context, &table->scope, entries, entry_bytes(table)) : NULL;
    for (int64_t b = job->first; b < last; b++) {
        cst_compact_block *block = &table->block[b];
        size_t count = to ? entries_of(table, b) : 0;
        block->p = lay(context, block->p, count * (size_t)table->members * 4, &to);
        block->classes = lay(context, block->classes, count * 4, &to);
        block->offset = lay(context, block->offset, count * 4, &to);
    }
    return status == CST_OK && !to ? CST_ERROR_MEMORY : status;
}

/* The block after those of the segment that `block` is in. */
static int64_t segment_end(const cst_compact *table, int64_t block) {
    int64_t end = (block / table->together + 1) * table->together;
    return end < table->last ? end : table->last;
}

static int64_t blocks_together(const cst_context *context, const cst_view *view, double cut) {
    double entries = cut > 0 ? fmin(view->classes, MOST_ENTRIES) : view->classes;
    double block = entries * (double)view->members * CST_BLOCK_ROWS * sizeof(float);
    double most = (double)cst_context_memory(context) / SEGMENT_SHARE / block;
    return most < 1 ? 1 : most > SEGMENT_MOST ? SEGMENT_MOST : (int64_t)most;
}

/* Whether ranks should have a part of the table each; otherwise every rank has all of it, and
 * nothing is sent. */
static bool worth_sharing(const cst_context *context, const cst_view *view, int64_t rows,
                          double cut) {
    double entries = cut > 0 ? fmin(view->classes, MOST_ENTRIES) : view->classes;
    double numbers = entries * (double)view->members * (double)rows;
    double most = (double)cst_context_memory(context) / WHOLE_SHARE / sizeof(float);
    return numbers > most || cst_ranks_worth(context, numbers);
}

cst_status cst_compact_build(cst_context *context, const cst_view *view, const int64_t *positions,
                             int64_t count, double cut, cst_compact *out) {
    *out = (cst_compact){.rows = positions ? count : view->rows,
                         .classes = view->classes,
                         .members = view->members,
                         .together = blocks_together(context, view, cut),
                         .cut = cut,
                         .every_class = cut <= 0 || view->classes <= CST_COMPACT_CLASSES};
    int64_t blocks = out->last = cst_block_count(out->rows);
    CST_TAKE(context, &out->scope, out->data, view->members);
    CST_TAKE(context, &out->scope, out->split_row, out->rows);
    CST_TAKE(context, &out->scope, out->block, blocks);
    for (int32_t k = 0; k < view->members; k++)
        out->data[k] = view->data[k];
    for (int64_t i = 0; i < out->rows; i++) {
        int64_t at = positions ? positions[i] : i;
        out->split_row[i] = view->index ? view->index[at] : at;
    }
    cst_view chosen = *view;
    chosen.rows = out->rows;
    if (positions)
        chosen.index = out->split_row;
    build_job job = {.view = &chosen, .cut = cut, .table = out, .piece = piece_rows(view->classes)};
    CST_TRY(look_at_rows(context, &job));
    if (worth_sharing(context, view, out->rows, cut))
        cst_ranks_part(context, blocks, CST_COMPACT_GRAIN, &out->first, &out->last);
    for (job.first = out->first; job.first < out->last;) {
        int64_t last = segment_end(out, job.first);
        CST_TRY(build_segment(context, &job, last));
        job.first = last;
    }
    return CST_OK;
}

void cst_compact_free(cst_context *context, cst_compact *table) {
    (void)context;
    cst_scope_free(&table->scope);
    *table = (cst_compact){0};
}

/* ---- logs ---- */

static cst_status logs_block(cst_context *context, void *user, int64_t task) {
    (void)context;
    const cst_compact *table = user;
    int64_t b = table->first + task;
    const cst_compact_block *block = &table->block[b];
    for (int64_t i = 0; i < cst_block_size(table->rows, b); i++) {
        int64_t count = block->first[i + 1] - block->first[i];
        int64_t at = block->first[i] * table->members;
        for (int32_t k = 0; k < table->members; k++, at += count) {
            if (table->every_class)
                cst_pass_logs(block->p + at, count, table->log_mix[k], table->classes,
                              block->exact + at);
            else
                cst_pass_logs_f32(block->p + at, count, table->log_mix[k], table->classes,
                                  block->logs + at);
        }
    }
    return CST_OK;
}

static size_t log_bytes(const cst_compact *table) {
    return table->every_class ? sizeof(double) : sizeof(float);
}

/* Places for the logs of blocks first..last-1. */
static cst_status place_logs(cst_context *context, cst_compact *table, int64_t first,
                             int64_t last) {
    size_t members = (size_t)table->members;
    size_t entries = 0;
    for (int64_t b = first; b < last; b++)
        entries += entries_of(table, b);
    void *to = take_part(context, &table->scope, entries * members, log_bytes(table));
    float *single = to;
    double *exact = to;
    for (int64_t b = first; to && b < last; b++) {
        if (table->every_class) {
            table->block[b].exact = exact;
            exact += entries_of(table, b) * members;
        } else {
            table->block[b].logs = single;
            single += entries_of(table, b) * members;
        }
    }
    return to ? CST_OK : CST_ERROR_MEMORY;
}

cst_status cst_compact_logs(cst_context *context, const double *mix, cst_compact *table) {
    size_t members = (size_t)table->members;
    size_t bytes = cst_compact_bytes(table) / sizeof(float) * log_bytes(table);
    if (table->log_mix || bytes > cst_context_memory(context) / LOGS_SHARE)
        return CST_OK;
    CST_NEW(context, &table->scope, double, kept, members);
    for (int64_t b = table->first; b < table->last; b = segment_end(table, b))
        CST_TRY(place_logs(context, table, b, segment_end(table, b)));
    table->log_mix = memcpy(kept, mix, members * sizeof *kept);
    return cst_parallel_for(context, table->last - table->first, logs_block, table);
}

cst_status cst_compact_remixed(cst_context *context, const cst_compact *table, const double *mix,
                               cst_compact *out) {
    size_t blocks = (size_t)cst_block_count(table->rows);
    *out = *table;
    out->scope = (cst_scope){0};
    out->log_mix = NULL;
    CST_TAKE(context, &out->scope, out->block, blocks);
    memcpy(out->block, table->block, blocks * sizeof *out->block);
    return cst_compact_logs(context, mix, out);
}

size_t cst_compact_bytes(const cst_compact *table) {
    size_t entries = 0;
    for (int64_t b = table->first; b < table->last; b++)
        entries += entries_of(table, b);
    return entries * entry_bytes(table);
}

cst_status cst_thin_rows(cst_context *context, int64_t rows, const int32_t *folds,
                         int32_t fold_count, int64_t most, int64_t **out, int64_t *count) {
    CST_SCOPE(scope);
    *count = 0;
    *out = NULL;
    CST_NEW(context, scope, int64_t, seen, folds ? fold_count : 1);
    *out = cst_alloc(context, (size_t)rows, sizeof **out);
    double share = most > 0 && most < rows ? (double)most / (double)rows : 1;
    for (int64_t i = 0; *out && i < rows; i++) {
        int64_t n = seen[folds ? folds[i] : 0]++;
        if (share == 1 || floor((double)(n + 1) * share) > floor((double)n * share))
            (*out)[(*count)++] = i;
    }
    return *out ? CST_OK : CST_ERROR_MEMORY;
}
