/* Hashes of splits and of rows, and what a model says of the rows of its fit. See the header. */
#include "model/fit_rows.h"

#include "data/pool/pool.h"
#include "model/patterns.h"
#include "stats/statistics.h"

#include <ctype.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- a split: sums of mixed numbers, so that neither the order of members nor that of blocks
 * matters ---- */

static const uint64_t STEP = UINT64_C(0x9e3779b97f4a7c15);

enum { OF_LABELS = 1, OF_TARGETS, OF_FOLDS, OF_GROUPS, OF_WEIGHTS, OF_DOMAINS };

uint64_t cst_hash_mix(uint64_t hash) {
    hash = (hash ^ (hash >> 33)) * UINT64_C(0xff51afd7ed558ccd);
    hash = (hash ^ (hash >> 33)) * UINT64_C(0xc4ceb9fe1a85ec53);
    return hash ^ (hash >> 33);
}

uint64_t cst_hash_bytes(uint64_t hash, const void *bytes, size_t size) {
    const uint8_t *at = bytes;
    for (size_t i = 0; i < size; i++)
        hash = (hash ^ at[i]) * UINT64_C(0x100000001b3);
    return hash;
}

typedef struct hash_job {
    cst_view view;
    const uint32_t *keys;  /* [classes], odd */
    const uint64_t *names; /* [members] */
    const int32_t *folds;
    const int64_t *groups;
    uint64_t *out; /* [blocks] */
} hash_job;

/* Each product is below 2^64, and another number in one place gives another sum. */
static uint64_t hash_row(const float *row, const uint32_t *keys, int32_t classes) {
    uint64_t sum = 0;
    for (int32_t c = 0; c < classes; c++) {
        uint32_t bits = 0;
        float value = row[c] + 0.0F; /* 0 and -0 are one number */
        memcpy(&bits, &value, sizeof bits);
        bits = isnan(value) ? UINT32_C(0x7fc00000) : bits;
        sum += (uint64_t)bits * keys[c];
    }
    return sum;
}

static uint64_t word(uint64_t row, int kind, uint64_t value) {
    return cst_hash_mix(cst_hash_mix(row + (uint64_t)kind * STEP) ^ value);
}

static uint64_t of_double(double value) {
    uint64_t bits = 0;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

/* Everything but the predictions of row `i`. */
static uint64_t hash_beside(const hash_job *job, int64_t i, uint64_t row) {
    const cst_view *view = &job->view;
    uint64_t sum = 0;
    if (view->labels)
        sum += word(row, OF_LABELS, (uint32_t)cst_view_label(view, i));
    for (int32_t d = 0; view->targets && d < view->classes; d++)
        sum += word(row + (uint64_t)d, OF_TARGETS, of_double(cst_view_target(view, i)[d]));
    if (job->folds)
        sum += word(row, OF_FOLDS, (uint32_t)job->folds[i]);
    if (job->groups)
        sum += word(row, OF_GROUPS, (uint64_t)job->groups[i]);
    if (view->domains && view->domains->count > 1) { /* of one, nothing depends on it */
        int32_t of = cst_view_domain(view, i);
        const char *name = of < 0 ? "" : view->domains->names[of];
        sum += word(row, OF_DOMAINS, cst_hash_bytes(CST_HASH_START, name, strlen(name)));
    }
    if (view->weights)
        sum += word(row, OF_WEIGHTS, of_double(cst_view_weight(view, i)));
    return sum;
}

static cst_status hash_block(cst_context *context, void *user, int64_t block) {
    const hash_job *job = user;
    uint64_t sum = 0;
    CST_SCOPE(scope);
    cst_rows rows;
    CST_TRY(cst_rows_open(context, scope, &job->view, block, &rows));
    for (int32_t k = 0; k < job->view.members; k++) {
        CST_TRY(cst_rows_read(context, &rows, k));
        for (int64_t i = 0; i < rows.count; i++)
            sum += cst_hash_mix(cst_hash_mix((uint64_t)(rows.first + i) * STEP ^ job->names[k]) ^
                                hash_row(cst_rows_at(&rows, i), job->keys, job->view.classes));
    }
    for (int64_t i = rows.first; i < rows.first + rows.count; i++)
        sum += hash_beside(job, i, (uint64_t)i * STEP);
    job->out[block] = sum;
    return CST_OK;
}

static cst_status hash_view(cst_context *context, const cst_pool *pool, hash_job *job,
                            uint64_t *out) {
    const cst_view *view = &job->view;
    int64_t blocks = cst_block_count(view->rows);
    CST_SCOPE(scope);
    CST_NEW(context, scope, uint32_t, keys, view->classes);
    CST_NEW(context, scope, uint64_t, names, view->members);
    CST_TAKE(context, scope, job->out, blocks);
    for (int32_t c = 0; c < view->classes; c++)
        keys[c] = (uint32_t)(cst_hash_mix(((uint64_t)c + 1) * STEP) >> 32) | 1U;
    uint64_t sum = (uint64_t)view->rows + (uint64_t)view->classes * STEP;
    for (int32_t k = 0; k < view->members; k++) {
        const char *name = cst_pool_member_name(pool, k);
        names[k] = cst_hash_bytes(CST_HASH_START, name, strlen(name));
        sum += cst_hash_mix(names[k]);
    }
    job->keys = keys;
    job->names = names;
    const cst_share filled = cst_share_tasks(job->out, blocks, sizeof *job->out);
    CST_TRY(cst_parallel_fill(context, blocks, hash_block, job, &filled, 1));
    for (int64_t b = 0; b < blocks; b++)
        sum += job->out[b];
    *out = cst_hash_mix(sum);
    return CST_OK;
}

cst_status cst_pool_hash(cst_context *context, const cst_pool *pool, const char *split,
                         uint64_t *out) {
    cst_counted counted;
    CST_TRY(cst_counted_open(context, pool, split, NULL, 0, &counted));
    hash_job job = {.view = counted.view, .folds = counted.folds, .groups = counted.groups};
    cst_status status = hash_view(context, pool, &job, out);
    cst_counted_close(context, &counted);
    return status;
}

/* ---- rows ---- */

typedef struct row_job {
    const cst_view *view;
    uint64_t *out;
} row_job;

/* FNV-1a by words of 32 bits. */
static uint64_t add_word(uint64_t hash, uint32_t word) {
    return (hash ^ word) * UINT64_C(0x100000001b3);
}

static cst_status row_block(cst_context *context, void *user, int64_t block) {
    const row_job *job = user;
    const cst_view *view = job->view;
    CST_SCOPE(scope);
    cst_rows rows;
    CST_TRY(cst_rows_open(context, scope, view, block, &rows));
    uint64_t *out = job->out + rows.first;
    for (int64_t i = 0; i < rows.count; i++)
        out[i] = add_word(CST_HASH_START, (uint32_t)cst_view_label(view, rows.first + i));
    for (int32_t k = 0; k < view->members; k++) {
        CST_TRY(cst_rows_read(context, &rows, k));
        for (int64_t i = 0; i < rows.count; i++)
            for (int32_t c = 0; c < view->classes; c++) {
                uint32_t bits = 0;
                memcpy(&bits, &cst_rows_at(&rows, i)[c], sizeof bits);
                out[i] = add_word(out[i], bits);
            }
    }
    for (int64_t i = 0; i < rows.count; i++) /* so that the smallest are a fair sample */
        out[i] = cst_hash_mix(out[i]);
    return CST_OK;
}

cst_status cst_row_hashes(cst_context *context, cst_scope *scope, const cst_view *view,
                          uint64_t **out) {
    CST_NEW(context, scope, uint64_t, hashes, view->rows);
    row_job job = {view, hashes};
    const cst_share filled = cst_share_rows(hashes, view->rows, sizeof *hashes);
    CST_TRY(cst_parallel_fill(context, cst_block_count(view->rows), row_block, &job, &filled, 1));
    *out = hashes;
    return cst_sort(context, hashes, (size_t)view->rows, sizeof *hashes, cst_by_u64);
}

/* How many of sorted hashes [rows] another one equals. */
static int64_t count_repeated(const uint64_t *hashes, int64_t rows) {
    int64_t repeated = 0;
    for (int64_t i = 0; i < rows; i++)
        repeated +=
            (i > 0 && hashes[i] == hashes[i - 1]) || (i + 1 < rows && hashes[i] == hashes[i + 1]);
    return repeated;
}

/* How many of sorted [count] from `at` on are `hash`. */
static int64_t times(const uint64_t *sorted, int64_t count, int64_t at, uint64_t hash) {
    int64_t end = at;
    while (end < count && sorted[end] == hash)
        end++;
    return end - at;
}

cst_row_match cst_row_hashes_match(const uint64_t *known, int64_t count, uint64_t largest,
                                   const uint64_t *hashes, int64_t rows) {
    cst_row_match match = {0};
    int64_t at = 0;
    for (int64_t i = 0; i < rows && hashes[i] <= largest;) {
        int64_t size = times(hashes, rows, i, hashes[i]);
        while (at < count && known[at] < hashes[i])
            at++;
        int64_t there = times(known, count, at, hashes[i]);
        match.looked_at += size;
        match.found += there > 0 ? size : 0;
        match.contents += there <= 1;
        match.contents_found += there == 1;
        match.single += there <= 1 && size == 1;
        i += size;
    }
    return match;
}

/* ---- sketches ---- */

cst_status cst_row_sketch_of(cst_context *context, const cst_view *view, cst_row_sketch *out) {
    *out = (cst_row_sketch){.rows = view->rows};
    uint64_t *hashes;
    CST_SCOPE(scope);
    CST_TRY(cst_row_hashes(context, scope, view, &hashes));
    out->repeated = count_repeated(hashes, view->rows);
    for (int64_t i = 0; i < view->rows && out->count < CST_SKETCH_ROWS; i++)
        if (i == 0 || hashes[i] != hashes[i - 1])
            out->least[out->count++] = hashes[i];
    return CST_OK;
}

cst_row_match cst_row_sketch_match(const cst_row_sketch *sketch, const uint64_t *hashes,
                                   int64_t rows) {
    /* A sketch that is not full has every row there was. */
    bool full = sketch->count == CST_SKETCH_ROWS;
    uint64_t largest = full ? sketch->least[sketch->count - 1] : UINT64_MAX;
    return cst_row_hashes_match(sketch->least, sketch->count, largest, hashes, rows);
}

/* ---- as text ---- */

enum { HEX = 16, HEAD_CHARS = 64 };

char *cst_row_sketch_print(cst_context *context, cst_scope *scope, const char *key,
                           const cst_row_sketch *sketch) {
    char text[HEAD_CHARS + CST_SKETCH_ROWS * (HEX + 1)];
    size_t length = (size_t)cst_snprintf(text, HEAD_CHARS, "%.16s.rows=%" PRId64 ":%" PRId64, key,
                                         sketch->rows, sketch->repeated);
    for (int32_t i = 0; i < sketch->count; i++)
        length += (size_t)cst_snprintf(text + length, HEX + 2, "%c%016" PRIx64, i ? ',' : ':',
                                       sketch->least[i]);
    return cst_take_text(context, scope, text);
}

/* A count and the colon behind it; NULL where it is none. */
static const char *read_count(const char *text, int64_t *out) {
    if (!text || !isdigit((unsigned char)*text))
        return NULL;
    char *end = NULL;
    *out = strtoll(text, &end, 10);
    return *end == ':' ? end + 1 : NULL;
}

bool cst_row_sketch_read(const char *text, cst_row_sketch *out) {
    *out = (cst_row_sketch){0};
    text = read_count(read_count(text, &out->rows), &out->repeated);
    while (text && out->count < CST_SKETCH_ROWS) {
        if (strspn(text, "0123456789abcdef") != HEX)
            return false;
        uint64_t hash = strtoull(text, NULL, 16);
        if (out->count > 0 && hash <= out->least[out->count - 1])
            return false;
        out->least[out->count++] = hash;
        text += HEX;
        if (!*text)
            return out->count <= out->rows && out->repeated <= out->rows;
        text = *text == ',' ? text + 1 : NULL;
    }
    return false;
}

/* ---- in a model's settings ---- */

enum { PRINT_CHARS = 48 };

/* "120:9ae16a3b2f90404f": rows and the FNV-1a hash of the labels, by value, so the same anywhere.
 */
static void label_print(const int32_t *labels, int64_t rows, char print[PRINT_CHARS]) {
    uint64_t hash = CST_HASH_START;
    for (int64_t i = 0; i < rows; i++)
        hash = add_word(hash, (uint32_t)labels[i]);
    (void)cst_snprintf(print, PRINT_CHARS, "%" PRId64 ":%016" PRIx64, rows, hash);
}

void cst_target_words(const double *targets, size_t count, int32_t *words) {
    for (size_t i = 0; i < count; i++) {
        uint64_t bits = 0;
        memcpy(&bits, &targets[i], sizeof bits);
        uint32_t halves[2] = {(uint32_t)bits, (uint32_t)(bits >> 32)};
        memcpy(words + 2 * i, halves, sizeof halves);
    }
}

cst_status cst_fitted_on_note(cst_context *context, cst_scope *scope, const char *key,
                              const char *split, const int32_t *labels, int64_t rows,
                              const cst_view *kept, char **setting, size_t *count) {
    char print[PRINT_CHARS];
    cst_row_sketch sketch;
    label_print(labels, rows, print);
    setting[0] = cst_take_format(context, scope, "%s=%s", key, split);
    setting[1] = cst_take_format(context, scope, "%s.labels=%s", key, print);
    if (kept) {
        CST_TRY(cst_row_sketch_of(context, kept, &sketch));
        setting[2] = cst_row_sketch_print(context, scope, key, &sketch);
    }
    *count = kept ? 3 : 2;
    return setting[0] && setting[1] && (!kept || setting[2]) ? CST_OK : CST_ERROR_MEMORY;
}

bool cst_fit_rows_under(const cst_model *model, const char *key, const int32_t *labels,
                        int64_t rows, cst_fit_rows *out) {
    char name[32];
    const char *split = cst_model_value(model, key);
    (void)cst_snprintf(name, sizeof name, "%.16s.labels", key);
    const char *known = cst_model_value(model, name);
    (void)cst_snprintf(name, sizeof name, "%.16s.rows", key);
    const char *sketch = cst_model_value(model, name);
    *out = (cst_fit_rows){.split = split ? split : "oof", .labelled = known != NULL};
    out->same_labels = known != NULL;
    if (known && labels) {
        char print[PRINT_CHARS];
        label_print(labels, rows, print);
        out->same_labels = strcmp(known, print) == 0;
    }
    out->sketched = sketch && cst_row_sketch_read(sketch, &out->sketch);
    return split != NULL;
}

cst_fit_rows cst_fit_rows_of(const cst_model *model, const int32_t *labels, int64_t rows) {
    cst_fit_rows out;
    (void)cst_fit_rows_under(model, CST_FITTED_KEY, labels, rows, &out);
    return out;
}

bool cst_fit_rows_named(const cst_fit_rows *fit, const char *split) {
    return !strcmp(fit->split, split) && (fit->same_labels || !fit->labelled);
}

bool cst_fitted_on(const cst_model *model, const char *split, const int32_t *labels, int64_t rows) {
    cst_fit_rows fit = cst_fit_rows_of(model, labels, rows);
    return cst_fit_rows_named(&fit, split);
}

/* ---- compared with a split ---- */

/* A refusal is for what chance does not make: coarse predictions repeat, and repeat elsewhere. */
#define SURE 1e-6
#define UNLIKELY 0.001
enum { FEWEST = 4 }; /* of which a refusal is made */

cst_seen cst_seen_judge(const cst_row_match *match, cst_fit_repeats repeats) {
    int64_t found = match->contents_found;
    int64_t counted = repeats.none ? match->contents : match->single;
    if (found == 0)
        return CST_SEEN_NONE;
    double chance = cst_binomial_upper(repeats.repeated, repeats.rows, SURE);
    if (found == match->contents && counted >= FEWEST && (double)counted * log(chance) < log(SURE))
        return CST_SEEN_ALL;
    if (repeats.none)
        return CST_SEEN_SOME;
    chance = cst_binomial_upper(repeats.repeated, repeats.rows, UNLIKELY);
    return cst_binomial_at_least(found, match->contents, chance) < UNLIKELY ? CST_SEEN_SOME
                                                                            : CST_SEEN_NONE;
}

/* ---- by the model's file ---- */

/* By name and labels where the file has no sketch. */
static cst_seen by_sketch(const cst_fit_rows *fit, const char *split, const uint64_t *sorted,
                          int64_t rows, cst_row_match *match) {
    const cst_row_sketch *sketch = &fit->sketch;
    bool same_name = !strcmp(fit->split, split);
    *match = (cst_row_match){0};
    if (!fit->sketched)
        return cst_fit_rows_named(fit, split) ? CST_SEEN_ALL : CST_SEEN_NONE;
    *match = cst_row_sketch_match(sketch, sorted, rows);
    bool all = match->found > 0 && match->found == match->looked_at;
    if (all && fit->same_labels && (same_name || sketch->repeated == 0))
        return CST_SEEN_ALL;
    /* Contents that are common in the fit are not known here, so its rows speak for them. */
    return cst_seen_judge(match,
                          (cst_fit_repeats){sketch->repeated, sketch->rows, sketch->repeated == 0});
}

/* ---- by the fit's split ---- */

/* A row left out and drawn again: it is common, equals the one other row of its content, or none;
 * the share of the second among the last two. */
static cst_fit_repeats repeats_of(const uint64_t *sorted, int64_t rows) {
    int64_t once = 0;
    int64_t twice = 0; /* rows, two of each content */
    for (int64_t i = 0; i < rows;) {
        int64_t end = i + 1;
        while (end < rows && sorted[end] == sorted[i])
            end++;
        once += end - i == 1;
        twice += end - i == 2 ? 2 : 0;
        i = end;
    }
    return (cst_fit_repeats){twice, once + twice, once == rows};
}

/* The rows that the fit counted, if they are the split's. */
CST_RELEASED(cst_counted, cst_counted_close)

static cst_status read_known(cst_context *context, const cst_model *model, const cst_pool *pool,
                             const cst_fit_rows *fit, cst_known_rows *out) {
    cst_counted counted = {0};
    CST_SCOPE(scope);
    CST_NEW(context, scope, int32_t, positions, model->members);
    for (int32_t k = 0; k < model->members; k++)
        positions[k] = cst_pool_member_index(pool, cst_model_member_name(model, k));
    CST_OWN(context, scope, cst_counted, &counted);
    CST_TRY(cst_counted_open(context, pool, fit->split, positions, model->members, &counted));
    const cst_view *view = &counted.view;
    if (view->labels && !cst_view_has_absent(view) &&
        (!fit->labelled || cst_fit_rows_of(model, view->labels, view->rows).same_labels)) {
        out->rows = view->rows;
        CST_TRY(cst_row_hashes(context, &out->scope, view, &out->hashes));
        out->repeats = repeats_of(out->hashes, out->rows);
    }
    return CST_OK;
}

/* Files of the fit's split may be gone, and nothing else here needs them. */
static cst_status or_say(cst_context *context, cst_status status, const char *split) {
    if (status != CST_ERROR_INPUT && status != CST_ERROR_FORMAT && status != CST_ERROR_IO &&
        status != CST_ERROR_MISMATCH)
        return status;
    cst_notice(context, "could not check split '%s' for rows that the model was fitted on: %s",
               split, cst_last_error(context));
    return CST_OK;
}

static cst_status ask(cst_context *context, const cst_model *model, cst_pool *pool,
                      const cst_fit_rows *fit, cst_known_rows *known) {
    if (known->asked || !cst_pool_has_split(pool, fit->split) ||
        cst_pool_conditions(pool, fit->split) > 0)
        return CST_OK;
    CST_SCOPE(scope);
    cst_view view = {0};
    cst_status status = cst_model_view(context, scope, model, pool, fit->split, &view); /* loads */
    CST_THEN(read_known(context, model, pool, fit, known));
    known->asked = true;
    return or_say(context, status, fit->split);
}

cst_status cst_rows_seen(cst_context *context, const cst_model *model, cst_pool *pool,
                         const cst_fit_rows *fit, const char *split, const cst_view *view,
                         cst_known_rows *known, cst_row_match *match, cst_seen *seen) {
    *match = (cst_row_match){0};
    *seen = CST_SEEN_NONE;
    uint64_t *hashes;
    cst_view kept = *view;
    kept.members = model->members; /* without those that came back when it was adapted */
    if (cst_view_has_absent(view)) /* what was filled in is not what the fit saw */
        return CST_OK;
    CST_SCOPE(scope);
    CST_TRY(cst_row_hashes(context, scope, &kept, &hashes));
    *seen = by_sketch(fit, split, hashes, view->rows, match);
    if (*seen == CST_SEEN_ALL || strcmp(fit->split, split) == 0)
        return CST_OK;
    CST_TRY(ask(context, model, pool, fit, known));
    if (known->hashes) {
        *match = cst_row_hashes_match(known->hashes, known->rows, UINT64_MAX, hashes, view->rows);
        *seen = cst_seen_judge(match, known->repeats);
    }
    return CST_OK;
}

cst_status cst_stack_hash(cst_context *context, const cst_model *model, uint64_t *out) {
    uint8_t *bytes = NULL;
    size_t size = 0;
    CST_TRY(cst_stack_encode(context, model, &bytes, &size));
    *out = cst_hash_mix(cst_hash_bytes(CST_HASH_START, bytes, size));
    cst_free(context, bytes);
    return CST_OK;
}
