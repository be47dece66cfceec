/* Members that list the likeliest classes of each row: which files are such, and their rows as
 * views have them. Between the readers and a pool's members. docs/topk.md#files. */
#include "data/pool/topk.h"
#include "core/wide.h"

#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <string.h>
#include <unistd.h>

enum { CLASSES_MAX = 1 << 24, MARKS = 1 << 15 }; /* numbers of classes are exact as float32 */

/* What the listed probabilities may exceed 1 by; with the rest, whose type may be coarse. */
static const double SUM_TOLERANCE = 1e-3;
static const double REST_TOLERANCE = 1e-2;
/* All classes that are not listed have at least this probability together. */
static const double REST_LEAST = 1e-7;

static const char INDICES[] = "indices";
static const char *const ARRAYS[CST_TOPK_ARRAYS] = {INDICES, "logprobs", "rest"};

/* ---- files ---- */

/* The last "indices" of a path; NULL where it does not end so. */
static const char *find_indices(const char *path) {
    size_t length = strlen(path);
    size_t word = sizeof INDICES - 1;
    size_t tail = length > 4 && strcmp(path + length - 4, ".npy") == 0 ? 4 : 0;
    if (length < word + tail + 1)
        return NULL;
    const char *at = path + length - tail - word;
    bool named = memcmp(at, INDICES, word) == 0 && strchr("#:.", at[-1]);
    return named && (tail > 0) == (at[-1] == '.') ? at : NULL;
}

/* The path of another array beside that of the indices. */
static char *beside(cst_context *context, cst_scope *scope, const char *path, int array) {
    const char *at = find_indices(path);
    return cst_take_format(context, scope, "%.*s%s%s", (int)(at - path), path, ARRAYS[array],
                           at + sizeof INDICES - 1);
}

bool cst_topk_is_beside(const char *path) {
    for (int a = 1; a < CST_TOPK_ARRAYS; a++) {
        char indices[4096];
        size_t length = strlen(path);
        size_t word = strlen(ARRAYS[a]);
        if (length < word + 5 || length >= sizeof indices - sizeof INDICES ||
            strcmp(path + length - 4, ".npy") != 0 || path[length - word - 5] != '.' ||
            memcmp(path + length - word - 4, ARRAYS[a], word) != 0)
            continue;
        (void)cst_snprintf(indices, sizeof indices, "%.*s%s.npy", (int)(length - word - 4), path,
                           INDICES);
        if (access(indices, F_OK) == 0)
            return true;
    }
    return false;
}

/* Whether a file lists classes, by its name or, of an archive, by its arrays: *path is then that of
 * the indices. */
static cst_status look(cst_context *context, const cst_pool *pool, char **path, bool *listed) {
    bool archive = cst_path_ends(*path, ".npz") || cst_path_ends(*path, ".safetensors");
    cst_npy *npy;
    CST_SCOPE(scope);
    *listed = find_indices(*path) != NULL;
    if (*listed || !archive || cst_manifest_parts(pool->manifest, *path))
        return CST_OK;
    char *inner = cst_take_format(context, scope, "%s#%s", *path, INDICES);
    if (!inner)
        return CST_ERROR_MEMORY;
    CST_TRY(cst_manifest_confine(context, pool->manifest, *path));
    cst_status status = cst_npy_open(context, scope, &npy, inner, pool->zip_limit);
    if (status == CST_ERROR_MEMORY || status == CST_ERROR_CANCELLED)
        return status;
    *listed = status == CST_OK;
    if (*listed && !(*path = cst_take_text(context, &pool->manifest->scope, inner)))
        return CST_ERROR_MEMORY;
    return CST_OK;
}

/* The most classes that a file lists; one that cannot be opened is said when it is read. */
static cst_status measure(cst_context *context, cst_pool *pool, const char *path) {
    cst_npy *npy;
    CST_SCOPE(scope);
    CST_TRY(cst_manifest_confine(context, pool->manifest, path));
    cst_status status = cst_npy_open(context, scope, &npy, path, pool->zip_limit);
    if (status == CST_ERROR_MEMORY || status == CST_ERROR_CANCELLED)
        return status;
    int64_t width = status == CST_OK && npy->dims > 0 && npy->dims < 3 ? cst_npy_width(npy) : 0;
    if (width > CST_TOPK_MAX)
        return cst_fail(context, CST_ERROR_LIMIT,
                        "%s: lists %" PRId64 " classes a row; at most %d are possible", path, width,
                        CST_TOPK_MAX);
    pool->listed = width > pool->listed ? (int32_t)width : pool->listed;
    return CST_OK;
}

cst_status cst_topk_settle(cst_context *context, cst_pool *pool) {
    const char *where = pool->manifest->path;
    if (pool->classes < 2 || pool->classes > CLASSES_MAX)
        return cst_fail(context, CST_ERROR_INPUT,
                        "%s: the members list the likeliest classes only, so that the number of "
                        "all classes, 2 to %d, must be given: \"classes\" in a manifest, or "
                        "--classes",
                        where, CLASSES_MAX);
    if (pool->missing || pool->logits)
        return cst_fail(context, CST_ERROR_UNSUPPORTED,
                        "%s: %s not supported for lists of the likeliest classes; remove %s", where,
                        pool->missing ? "missing predictions are" : "logits are",
                        pool->missing ? "--missing" : "--values (\"output\")");
    pool->task = CST_TASK_TOPK;
    pool->listed = pool->listed > 0 ? pool->listed : 1;
    return CST_OK;
}

cst_status cst_topk_find(cst_context *context, cst_pool *pool) {
    cst_manifest *m = pool->manifest;
    bool may = pool->task == CST_TASK_CLASSIFICATION || pool->task == CST_TASK_TOPK;
    bool dense = pool->task == CST_TASK_MULTILABEL; /* or else the first file is no list */
    char *first = NULL;
    for (int32_t k = 0; (may || dense) && k < m->member_count; k++)
        for (int32_t s = 0; s < m->split_count; s++) {
            char **path = &m->members[k].paths[s];
            bool listed = *path && find_indices(*path) != NULL;
            if (!*path)
                continue;
            if (!dense)
                CST_TRY(look(context, pool, path, &listed));
            dense = dense || (!first && !listed && pool->task == CST_TASK_CLASSIFICATION);
            if (dense ? listed : !listed)
                return cst_fail(context, CST_ERROR_INPUT,
                                "%s: holds %s%s%s; in a pool of task classification all members "
                                "list their likeliest classes, or none",
                                *path,
                                dense ? "lists of the likeliest classes"
                                      : "no arrays \"indices\" and \"logprobs\"",
                                first ? ", unlike " : "", first ? first : "");
            first = first ? first : *path;
            if (dense)
                continue;
            if (m->splits[s].condition_count > 0)
                return cst_fail(context, CST_ERROR_UNSUPPORTED,
                                "%s: split '%s' has conditions, which lists of classes cannot have",
                                m->path, m->splits[s].name);
            CST_TRY(measure(context, pool, *path));
        }
    return first && !dense ? cst_topk_settle(context, pool) : CST_OK;
}

/* ---- arrays ---- */

static cst_status check_array(cst_context *context, const cst_npy *indices, const cst_npy *npy,
                              const char *path, const char *first, int array) {
    char shapes[2][CST_NPY_SHAPE_CHARS];
    int64_t width = array == 2 ? 1 : cst_npy_width(indices);
    if (!cst_npy_is_text(npy) && npy->dims > 0 && npy->dims < 3 &&
        cst_npy_rows(npy) == cst_npy_rows(indices) && cst_npy_width(npy) == width)
        return CST_OK;
    return cst_fail(context, CST_ERROR_MISMATCH,
                    "%s: shape %s does not go with shape %s of %s: it must have the same rows and "
                    "%s",
                    path, cst_npy_shape_text(npy, shapes[0]),
                    cst_npy_shape_text(indices, shapes[1]), first,
                    array == 2 ? "one number in each" : "columns");
}

cst_status cst_topk_open(cst_context *context, cst_scope *scope, const cst_pool *pool,
                         const char *path, cst_npy *indices, cst_topk_file *out) {
    *out = (cst_topk_file){.npy = {indices}, .width = (int32_t)cst_npy_width(indices)};
    CST_TRY(check_array(context, indices, indices, path, path, 0));
    for (int a = 1; a < CST_TOPK_ARRAYS; a++) {
        const char *other = beside(context, scope, path, a);
        if (!other)
            return CST_ERROR_MEMORY;
        bool file = cst_path_member(other) == 0;
        if (a == 2 && file && access(other, F_OK) != 0)
            continue;
        CST_TRY(cst_manifest_confine(context, pool->manifest, other));
        cst_status status = cst_npy_open(context, scope, &out->npy[a], other, pool->zip_limit);
        if (a == 2 && !file && status == CST_ERROR_INPUT) {
            out->npy[a] = NULL; /* the archive has none */
            continue;
        }
        CST_TRY(status);
        CST_TRY(check_array(context, indices, out->npy[a], other, path, a));
    }
    return CST_OK;
}

bool cst_topk_streams(const cst_topk_file *file) {
    for (int a = 0; a < CST_TOPK_ARRAYS; a++)
        if (file->npy[a] && !cst_npy_streams(file->npy[a]))
            return false;
    return true;
}

cst_status cst_topk_read(cst_context *context, const void *source, int64_t first, int64_t count,
                         float *narrow, double *wide) {
    const cst_topk_file *file = source;
    size_t columns = 2 * (size_t)file->width + 1;
    (void)narrow;
    CST_SCOPE(scope);
    CST_NEW(context, scope, double, values, count * file->width);
    CST_NEW(context, scope, unsigned char, raw, 8 * (size_t)(count * file->width));
    for (int a = 0; a < CST_TOPK_ARRAYS; a++) {
        cst_npy *npy = file->npy[a];
        size_t width = a == 2 ? 1 : (size_t)file->width;
        for (int64_t i = 0; !npy && i < count; i++)
            wide[(size_t)i * columns + columns - 1] = NAN;
        if (!npy)
            continue;
        if (cst_npy_streams(npy)) {
            CST_TRY(cst_npy_fetch(context, npy, first, count, raw));
            cst_npy_decode_f64(npy, raw, (size_t)count * width, values);
        } else {
            CST_TRY(cst_npy_read_rows_f64(context, npy, first, count, values));
        }
        for (size_t i = 0; i < (size_t)count; i++)
            memcpy(wide + i * columns + (size_t)a * (size_t)file->width, values + i * width,
                   width * sizeof *wide);
    }
    return CST_OK;
}

/* ---- rows ---- */

static cst_status wrong(cst_context *context, const cst_convert *c, int64_t first, int64_t i,
                        int64_t column, const char *what) {
    char place[CST_WHERE_CHARS];
    return cst_fail(context, CST_ERROR_INPUT, "%s: %s: %s",
                    cst_row_file_part(c->rows, c->where, first + i),
                    cst_row_file_where(c->rows, first, i, column, place), what);
}

/* The first place of a class that is listed twice, or -1. */
static int32_t find_twice(const float *classes, int32_t count) {
    uint64_t marks[MARKS / 64] = {0};
    for (int32_t j = 0; j < count; j++) {
        uint32_t at = (uint32_t)classes[j] % MARKS;
        bool met = marks[at / 64] >> at % 64 & 1;
        for (int32_t l = 0; met && l < j; l++)
            if (classes[l] >= classes[j] && classes[l] <= classes[j])
                return j;
        marks[at / 64] |= UINT64_C(1) << at % 64;
    }
    return -1;
}

/* Whether all entries of a row are as they should be; their classes to out. */
CST_KERNEL(look_entries,
           (int64_t width, int64_t classes, const double *values, float *out, bool *whole),
           (width, classes, values, out, whole)) {
    const double whole_numbers = 0x1p52; /* added, they alone remain */
    int64_t fine = 0;
    for (int64_t j = 0; j < width; j++) {
        double class = values[j];
        double x = values[width + j];
        double rounded = (class + whole_numbers) - whole_numbers;
        fine += (class >= 0) & (class < (double)classes) & (rounded >= class) & (rounded <= class) &
                (x <= 0) & (x >= -DBL_MAX);
        out[j] = (float)class;
    }
    *whole = fine == width;
}

/* The sum of probabilities and the least logarithm, 0 at most. */
CST_KERNEL(sum_entries,
           (int64_t count, const double *p, const double *logs, double *mass, double *least),
           (count, p, logs, mass, least)) {
    enum { LANES = 8 };
    double sum[LANES] = {0};
    double low[LANES] = {0};
    for (int64_t i = 0; i < count; i += LANES)
        for (int64_t l = 0; l < LANES && i + l < count; l++) {
            sum[l] += p[i + l];
            low[l] = logs[i + l] < low[l] ? logs[i + l] : low[l];
        }
    *mass = cst_lanes_total(sum);
    *least = low[0];
    for (int l = 1; l < LANES; l++)
        *least = low[l] < *least ? low[l] : *least;
}

/* Takes the entries of a row to out, and their logarithms to the front of logs. */
static cst_status take_entries(cst_context *context, const cst_convert *c, int64_t first, int64_t i,
                               const double *values, int32_t width, double *logs, float *out,
                               int32_t *count) {
    char text[160];
    int32_t found = 0;
    bool whole = false;
    look_entries(width, c->listed_of, values, out, &whole);
    found = whole ? width : 0;
    for (int32_t j = found; j < width; j++) {
        double class = values[j];
        double x = values[width + j];
        if (class >= 0 && class < c->listed_of && x <= 0 && x >= -DBL_MAX &&
            !((double)(int32_t) class < class)) { /* as it should be */
            out[found] = (float)class;
            logs[found++] = x;
            continue;
        }
        if (class >= -1 && class <= -1)
            continue;
        if (!(class >= 0 && class < c->listed_of) || (double)(int32_t) class < class) {
            (void)cst_snprintf(text, sizeof text,
                               "class %.10g is not one of 0 to %d; use -1 for no entry", class,
                               c->listed_of - 1);
            return wrong(context, c, first, i, j, text);
        }
        if (isnan(x) || x > SUM_TOLERANCE) {
            (void)cst_snprintf(text, sizeof text, "the log-probability of class %.0f is %s%s",
                               class, isnan(x) ? "NaN" : "above 0",
                               isnan(x) ? "; use class -1 for no entry"
                                        : "; if these are probabilities, take natural logarithms");
            return wrong(context, c, first, i, j, text);
        }
        if (isinf(x)) /* as if it were not listed */
            continue;
        out[found] = (float)class;
        logs[found++] = 0;
    }
    *count = found;
    int32_t twice = find_twice(out, *count);
    if (twice < 0)
        return CST_OK;
    (void)cst_snprintf(text, sizeof text, "class %.0f is listed twice", (double)out[twice]);
    return wrong(context, c, first, i, -1, text);
}

cst_status cst_topk_convert(cst_context *context, cst_convert *c, int64_t first, int64_t i,
                            double *values, float *out) {
    int32_t width = (c->width - 1) / 2;
    int32_t room = c->classes / 2;
    int32_t count = 0;
    double mass = 0;
    double least = 0;
    double *logs = values + width;
    double rest = values[2 * width];
    char text[160];
    c->total++;
    CST_TRY(take_entries(context, c, first, i, values, width, logs, out, &count));
    cst_exp_f64(count, logs, values);
    sum_entries(count, values, logs, &mass, &least);
    bool given = c->listed_rest || !isnan(rest);
    double left = given ? exp(fmin(rest, 1)) : fmax(1 - mass, 0);
    if (given && (isnan(rest) || rest > SUM_TOLERANCE))
        return wrong(context, c, first, i, -1,
                     "\"rest\" is NaN or above 0; it is the logarithm of the probability of all "
                     "classes that are not listed");
    if (mass > 1 + SUM_TOLERANCE || (given && mass + left > 1 + REST_TOLERANCE)) {
        (void)cst_snprintf(text, sizeof text,
                           "the listed probabilities%s sum to %.6g, more than 1; are these natural "
                           "logarithms of probabilities?",
                           mass > 1 + SUM_TOLERANCE ? "" : " and the rest",
                           mass > 1 + SUM_TOLERANCE ? mass : mass + left);
        return wrong(context, c, first, i, -1, text);
    }
    double tail = least;
    if (count < c->listed_of)
        tail = fmin(log(fmax(left, REST_LEAST) / (c->listed_of - count)), least);
    for (int32_t j = 0; j < count; j++)
        out[room + j] = (float)(logs[j] - tail);
    for (int32_t j = count; j < room; j++) {
        out[j] = -1;
        out[room + j] = 0;
    }
    return CST_OK;
}
