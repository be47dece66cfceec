/* Loading the members of a split: headers compared first, then every member read, joined and
 * converted in parallel, block by block. Before redundancy. docs/method.md#s0-rows-folds-ids. */

#include "core/ranks.h"
#include "core/retry.h"
#include "data/files/bytes.h"
#include "data/pool/pool.h"
#include "data/pool/spatial.h"
#include "data/pool/topk.h"

#include <fcntl.h>
#include <inttypes.h>
#include <math.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* One member's file as it is opened and joined. */
typedef struct member_file {
    const char *path;
    cst_row_file *rows;
    int64_t count;         /* rows of each condition in the file */
    int64_t rows_of_split; /* of each condition */
    int32_t width;         /* values of a row: classes, or 1 */
    int64_t *places;       /* row of the split of each row in the file; NULL: the same */
    int32_t *column_class; /* class of each column where a header names them; NULL: the same */
    bool narrow;           /* it is read as float32 */
    cst_topk_file listed;  /* of top-k: the arrays; else empty */
    cst_scope *scope;      /* of all this */
} member_file;

/* What a parallel task needs. */
typedef struct load_job {
    cst_pool *pool;
    int32_t split;
    const int32_t *members; /* positions in the pool of those to load */
    bool stream;            /* they stay on disk */
    cst_convert *looked;    /* [members]: counts of the rows that were checked in place */
    bool divided;           /* each rank checks a part of the rows */
    int64_t look_first;     /* rows to check in place */
    int64_t look_end;
    int64_t kept_first; /* rows of all of them that this rank keeps in memory */
    int64_t kept_end;
} load_job;

enum { HINT_CHARS = 512 };

/* What a width counts. */
static const char *noun(const cst_pool *pool, int64_t width) {
    if (cst_task_has_outputs(pool->task))
        return width == 1 ? "output" : "outputs";
    return width == 1 ? "class" : "classes";
}

static const char *needed_shape(const cst_pool *pool, int32_t conditions) {
    if (cst_task_has_outputs(pool->task))
        return conditions > 0 ? "[conditions, rows] or [conditions, rows, outputs]"
                              : "[rows] or [rows, outputs]";
    return conditions > 0 ? "[conditions, rows, classes]" : "[rows, classes]";
}

/* The column of a table that is most likely the ids, as the end of a message: whole numbers, all
 * different, first or last. Empty where there is none. */
static cst_status say_ids(cst_context *context, const cst_pool *pool, const char *path,
                          char out[HINT_CHARS]) {
    cst_sheet sheet;
    char column[CST_COLUMN_CHARS];
    char quoted[CST_QUOTE_CHARS];
    CST_SCOPE(scope);
    if (cst_path_column(path) || pool->id_column || cst_manifest_parts(pool->manifest, path))
        return CST_OK;
    CST_TRY(cst_sheet_look(context, scope, &sheet, path, pool->zip_limit));
    if (sheet.columns == 0 || sheet.rows < 3 || cst_sheet_ids(&sheet) >= 0)
        return CST_OK;
    const int32_t places[] = {0, sheet.columns - 1};
    for (int k = 0; k < 2 && !*out; k++)
        if (cst_sheet_may_be_ids(&sheet, places[k])) {
            const char *name = cst_sheet_name(&sheet, places[k]);
            const char *shown = cst_sheet_column_name(&sheet, places[k], column);
            (void)cst_snprintf(out, HINT_CHARS,
                               *name ? "; %s of %s looks like sample ids (all different): name it "
                                       "with --id-column \"%s\""
                                     : "; %s of %s looks like sample ids (all different): remove "
                                       "it, or give every file a column of ids",
                               shown, path, cst_quote(quoted, name));
        }
    return CST_OK;
}

/* What class `c` is called: its name, or its number. */
static const char *class_text(const cst_pool *pool, int32_t c, char number[16]) {
    (void)cst_snprintf(number, 16, "%d", (int)c);
    return pool->class_names ? cst_strings_at(pool->class_names, c) : number;
}

/* The first class without a column in a table of which every column is one of a class; -1: none. */
static cst_status find_lacking(cst_context *context, const cst_pool *pool, const cst_table *table,
                               int32_t *out) {
    cst_strings *plain;
    char number[16];
    CST_SCOPE(scope);
    *out = -1;
    if (!table || !table->value_names || pool->task != CST_TASK_CLASSIFICATION)
        return CST_OK;
    CST_TRY(cst_column_plain_names(context, scope, table->value_names, &plain));
    const cst_strings *forms[] = {table->value_names, plain};
    for (int f = 0; *out < 0 && f < 2; f++) {
        int32_t lacking = -1;
        int64_t found = 0;
        for (int32_t c = 0; c < pool->classes; c++) {
            bool there = false;
            for (int64_t j = 0; !there && j < forms[f]->count; j++)
                there = cst_column_same(cst_strings_at(forms[f], j), class_text(pool, c, number));
            found += there;
            lacking = there || lacking >= 0 ? lacking : c;
        }
        *out = found == forms[f]->count ? lacking : -1;
    }
    return CST_OK;
}

/* What to do about a file of `width` columns in a pool of others: the end of a message. */
static cst_status width_hint(cst_context *context, const cst_pool *pool,
                             const cst_pool_split *state, const char *path, int64_t width,
                             int32_t lacking, char out[HINT_CHARS]) {
    char quoted[CST_QUOTE_CHARS];
    char number[16];
    out[0] = '\0';
    if (pool->task == CST_TASK_CLASSIFICATION && width == 1)
        (void)cst_snprintf(out, HINT_CHARS,
                           "; one column looks like predicted classes: save the probabilities of "
                           "all classes (predict_proba)");
    else if (width == pool->classes + 1)
        return say_ids(context, pool, path, out);
    if (width == pool->classes - 1 && state->first_path)
        CST_TRY(say_ids(context, pool, state->first_path, out));
    if (lacking >= 0 && !*out)
        (void)cst_snprintf(out, HINT_CHARS,
                           "; there is no column of class '%s': add it, with probability 0 where "
                           "the member does not know the class",
                           cst_quote(quoted, class_text(pool, lacking, number)));
    if (!*out && !state->first_path && width < pool->classes &&
        pool->task == CST_TASK_CLASSIFICATION)
        (void)cst_snprintf(out, HINT_CHARS,
                           "; members that list only their likeliest classes are npz or "
                           "safetensors files of \"indices\" and \"logprobs\"");
    return CST_OK;
}

/* The shape of a file as rows and values, or an error that names a file it does not go with. */
static cst_status check_shape(cst_context *context, const cst_pool *pool, int32_t split,
                              member_file *file) {
    const cst_pool_split *state = &pool->splits[split];
    int32_t conditions = pool->manifest->splits[split].condition_count;
    cst_row_file *rows = file->rows;
    int dims = cst_row_file_dims(rows);
    int lead = conditions > 0 ? 2 : 1; /* axes that count rows */
    char shape[CST_NPY_SHAPE_CHARS];
    (void)cst_row_file_shape_text(rows, shape);
    if (dims != lead && dims != lead + 1)
        return cst_fail(context, CST_ERROR_INPUT, "%s: has shape %s; split '%s' needs %s",
                        file->path, shape, pool->manifest->splits[split].name,
                        needed_shape(pool, conditions));
    if (conditions > 0 && !rows->npy)
        return cst_fail(context, CST_ERROR_INPUT,
                        "%s: is a table, but split '%s' has conditions, which need an npy of "
                        "[conditions, rows, classes]",
                        file->path, pool->manifest->splits[split].name);
    if (conditions > 0 && rows->npy->parts)
        return cst_fail(context, CST_ERROR_INPUT,
                        "%s: is in parts, but split '%s' has conditions, which need one npy of "
                        "[conditions, rows, classes]",
                        file->path, pool->manifest->splits[split].name);
    if (conditions > 0 && rows->npy->shape[0] != conditions)
        return cst_fail(context, CST_ERROR_MISMATCH,
                        "%s: has shape %s; split '%s' has %d conditions, which must be the first "
                        "length",
                        file->path, shape, pool->manifest->splits[split].name, conditions);
    if (rows->npy)
        rows->npy->row_axes = lead;
    int64_t width = rows->npy ? cst_npy_width(rows->npy) : rows->width;
    rows->width = width;
    bool binary = width == 1 && pool->classes == 2 && pool->task == CST_TASK_CLASSIFICATION;
    bool listed = pool->task == CST_TASK_TOPK;
    if (listed && (!rows->npy || width > pool->listed))
        return cst_file_changed(context, file->path);
    if (width != pool->classes && !binary && !listed) {
        char hint[HINT_CHARS];
        int32_t lacking = -1;
        CST_TRY(find_lacking(context, pool, rows->table, &lacking));
        CST_TRY(width_hint(context, pool, state, file->path, width, lacking, hint));
        if (state->first_path)
            return cst_fail(context, CST_ERROR_MISMATCH,
                            "%s: shape %s does not match shape %s of %s: %" PRId64
                            " %s instead of %d%s",
                            file->path, shape, state->first_shape, state->first_path, width,
                            noun(pool, width), pool->classes, hint);
        return cst_fail(context, CST_ERROR_MISMATCH,
                        "%s: has shape %s, %" PRId64 " %s, but %s has %d %s%s", file->path, shape,
                        width, noun(pool, width), pool->manifest->path, pool->classes,
                        noun(pool, pool->classes), hint);
    }
    file->width = (int32_t)width;
    file->count = !rows->npy ? rows->row_count : rows->npy->shape[lead - 1];
    if (rows->npy)
        rows->row_count = cst_npy_rows(rows->npy);
    return CST_OK;
}

/* A file without ids must have the rows of the split; the message names another member where one
 * was read, since its shape is what the user will compare; delimited text, whose rows are counted
 * later, has no shape yet. */
static cst_status check_count(cst_context *context, cst_pool_split *state,
                              const member_file *file) {
    char shape[CST_NPY_SHAPE_CHARS];
    (void)cst_row_file_shape_text(file->rows, shape);
    bool shaped = state->first_shape && !strchr(state->first_shape, '?');
    if (state->rows >= 0 && file->count != state->rows && shaped &&
        strcmp(state->first_path, file->path) != 0)
        return cst_fail(context, CST_ERROR_MISMATCH,
                        "%s: shape %s does not match shape %s of %s: %" PRId64
                        " rows instead of %" PRId64 "; give sample ids if some are missing",
                        file->path, shape, state->first_shape, state->first_path, file->count,
                        state->rows);
    if (state->rows >= 0 && file->count != state->rows)
        return cst_fail(context, CST_ERROR_MISMATCH,
                        "%s: shape %s has %" PRId64 " rows, but %s has %" PRId64
                        "; give sample ids if some are missing",
                        file->path, shape, file->count, state->rows_source, state->rows);
    return cst_pool_set_rows(context, state, file->count, file->path);
}

/* Opens a member's file, of the scope, and checks its shape. */
static cst_status open_member(cst_context *context, cst_scope *scope, const cst_pool *pool,
                              int32_t split, int32_t member, member_file *file) {
    const cst_manifest_member *spec = &pool->manifest->members[member];
    const cst_table_ask ask = cst_pool_ask(pool, CST_TABLE_PREDICTIONS);
    cst_row_source source;
    *file = (member_file){.path = spec->paths[split], .scope = scope};
    if (!file->path)
        return cst_fail(context, CST_ERROR_INPUT,
                        "%s: member '%s' has no predictions for split '%s'; add its file or remove "
                        "the member (predict works without it with --missing allow)",
                        pool->manifest->path, spec->name, pool->manifest->splits[split].name);
    CST_TRY(cst_pool_source(context, pool, file->path, &source));
    CST_TRY(cst_row_file_open(context, scope, &file->rows, &source, &ask));
    return check_shape(context, pool, split, file);
}

/* The member's own ids: an ids file, or the id column of delimited text; NULL where it has none.
 * Counts the rows of delimited text. */
static cst_status read_ids(cst_context *context, const cst_pool *pool, int32_t split,
                           int32_t member, member_file *file, cst_strings **ids,
                           const char **where) {
    const char *path = pool->manifest->members[member].ids[split];
    const cst_pool_split *state = &pool->splits[split];
    cst_row_claim claim = {.rows = state->rows, .where = state->rows_source};
    cst_row_source source;
    *where = file->path;
    CST_TRY(cst_row_file_scan(context, file->scope, file->rows, &claim, ids));
    if (file->rows->table)
        file->count = file->rows->row_count;
    if (!path)
        return CST_OK;
    *where = path;
    claim = (cst_row_claim){file->count, file->path};
    CST_TRY(cst_pool_source(context, pool, path, &source));
    CST_TRY(cst_ids_read(context, file->scope, ids, &source, NULL, &claim));
    if ((*ids)->count == file->count)
        return CST_OK;
    return cst_fail(context, CST_ERROR_MISMATCH,
                    "%s: has %" PRId64 " ids, but %s has %" PRId64 " rows", path, (*ids)->count,
                    file->path, file->count);
}

/* Joins a member to the split: by its ids, or row by row. */
static cst_status join(cst_context *context, const cst_pool *pool, int32_t split, int32_t member,
                       bool surveyed, member_file *file) {
    cst_pool_split *state = &pool->splits[split];
    cst_joining joining = cst_pool_partial(pool) ? CST_JOIN_PARTIAL : CST_JOIN_BESIDE;
    cst_strings *ids = NULL;
    const char *where = NULL;
    CST_TRY(read_ids(context, pool, split, member, file, &ids, &where));
    if (!ids)
        return check_count(context, state, file);
    if (surveyed && !state->order.index && !state->labels_path)
        return cst_file_changed(context, where); /* the survey found none in it */
    return cst_pool_order(context, file->scope, state, ids, where, joining, &file->places);
}

/* Compares the header of a member with the others', and settles the split's rows and order where
 * labels and ids have not. */
static cst_status survey_member(cst_context *context, cst_pool *pool, int32_t split, int32_t member,
                                cst_file_notes *notes) {
    cst_pool_split *state = &pool->splits[split];
    member_file file;
    CST_SCOPE(scope);
    CST_TRY(open_member(context, scope, pool, split, member, &file));
    bool own_ids = pool->manifest->members[member].ids[split] || cst_row_file_has_ids(file.rows);
    if (own_ids ? !state->order.index : state->rows < 0)
        CST_TRY(join(context, pool, split, member, false, &file));
    else if (!own_ids && file.count >= 0)
        CST_TRY(check_count(context, state, &file));
    if (!state->first_path) {
        state->single = file.width == 1 && pool->task == CST_TASK_CLASSIFICATION;
        char shape[CST_NPY_SHAPE_CHARS];
        state->first_path = cst_take_text(context, &state->scope, file.path);
        state->first_shape =
            cst_take_text(context, &state->scope, cst_row_file_shape_text(file.rows, shape));
        if (!state->first_path || !state->first_shape)
            return CST_ERROR_MEMORY;
    }
    return cst_pool_note_file(context, &state->scope, pool, file.rows, notes);
}

static cst_status survey(cst_context *context, cst_pool *pool, int32_t split,
                         const int32_t *members, int32_t count) {
    cst_file_notes notes = {0};
    for (int32_t i = 0; i < count; i++)
        CST_TRY(survey_member(context, pool, split, members[i], &notes));
    cst_pool_say_notes(context, pool, &pool->splits[split], &notes);
    return CST_OK;
}

static cst_convert conversion(const cst_pool *pool, const member_file *file) {
    return (cst_convert){.where = file->path,
                         .rows = file->rows,
                         .classes = cst_pool_width(pool),
                         .width = pool->listed > 0 ? 2 * file->width + 1 : file->width,
                         .listed_of = pool->listed > 0 ? pool->classes : 0,
                         .listed_rest = file->listed.npy[2] != NULL,
                         .values = cst_task_has_outputs(pool->task),
                         .independent = pool->task == CST_TASK_MULTILABEL,
                         .logits = pool->logits,
                         .missing = cst_pool_partial(pool),
                         .column_class = file->column_class,
                         .rounding = file->rows->npy ? cst_npy_rounding(file->rows->npy) : 0};
}

static cst_status read_file(cst_context *context, const void *source, int64_t first, int64_t count,
                            float *narrow, double *wide) {
    const member_file *file = source;
    if (file->narrow)
        return cst_npy_read_rows_f32(context, file->rows->npy, first, count, narrow);
    return cst_row_file_read(context, file->rows, count, wide);
}

static cst_status read_listed(cst_context *context, const void *source, int64_t first,
                              int64_t count, float *narrow, double *wide) {
    const member_file *file = source;
    return cst_topk_read(context, &file->listed, first, count, narrow, wide);
}

/* The row of the split that row `row` of the file is. */
static int64_t place_of(const void *source, int64_t row) {
    const member_file *file = source;
    return row / file->count * file->rows_of_split + file->places[row % file->count];
}

/* Reads all rows of a joined member. */
static cst_status read_all(cst_context *context, const cst_pool *pool, const cst_pool_split *split,
                           member_file *file, const cst_pieces_out *to) {
    const cst_npy *npy = file->rows->npy;
    bool listed = pool->listed > 0;
    file->narrow = npy && cst_npy_is_f32(npy) && !file->column_class && !listed;
    const cst_pieces pieces = {.convert = conversion(pool, file),
                               .narrow = file->narrow,
                               .source = file,
                               .read = listed ? read_listed : read_file,
                               .place = file->places ? place_of : NULL,
                               .split = to->present ? split : NULL};
    return cst_pieces_all(context, &pieces, file->rows->row_count, to);
}

/* Checks that need all rows of a file, after every rank has checked its part of them. */
static cst_status finish_looking(cst_context *context, cst_status status, const load_job *job,
                                 int32_t count) {
    enum { NUMBERS = 4 };
    double *seen = cst_alloc(context, (size_t)count, NUMBERS * sizeof *seen);
    if (status == CST_OK && !seen)
        status = CST_ERROR_MEMORY;
    for (int32_t i = 0; status == CST_OK && i < count; i++) {
        const cst_convert *c = &job->looked[i];
        const double numbers[NUMBERS] = {(double)c->total, (double)c->like_probabilities,
                                         (double)c->like_percentages,
                                         cst_convert_saturated(c) ? 1 : 0};
        memcpy(seen + (size_t)i * NUMBERS, numbers, sizeof numbers);
    }
    if (job->divided)
        status = cst_ranks_add(context, status, seen, (size_t)count * NUMBERS);
    for (int32_t i = 0; status == CST_OK && i < count; i++) {
        cst_convert all = job->looked[i];
        const double *numbers = seen + (size_t)i * NUMBERS;
        /* NOLINTNEXTLINE(clang-analyzer-core.NullDereference) */
        all.total = (int64_t)numbers[0];
        all.like_probabilities = (int64_t)numbers[1];
        all.like_percentages = (int64_t)numbers[2];
        all.high = numbers[3] > 0 ? INFINITY : 0;
        status = cst_convert_finish(context, &all);
    }
    cst_free(context, seen);
    return status;
}

/* Opens a member and joins it with the split, whose reference exists by now, so that it is only
 * read. */
static cst_status join_member(cst_context *worker, cst_scope *scope, cst_pool *pool, int32_t split,
                              int32_t member, member_file *file) {
    cst_pool_split *state = &pool->splits[split];
    CST_TRY(open_member(worker, scope, pool, split, member, file));
    CST_TRY(join(worker, pool, split, member, true, file));
    file->rows_of_split = state->rows;
    if (pool->listed > 0)
        CST_TRY(cst_topk_open(worker, scope, pool, file->path, file->rows->npy, &file->listed));
    CST_TRY(cst_pool_match_columns(worker, scope, pool, file->rows->table, file->width, file->path,
                                   &file->column_class));
    return cst_pool_check_truth(worker, pool, state, file->rows, file->places);
}

/* Whether a member that stays on disk is read in its own file: at any place of it. */
static bool is_direct(const member_file *file, const uint8_t *present) {
    bool streams = file->listed.width > 0 ? cst_topk_streams(&file->listed)
                                          : file->rows->npy && cst_npy_streams(file->rows->npy);
    return streams && !file->places && !file->column_class && !present;
}

/* The entry of such a file. */
static cst_status direct_entry(cst_context *worker, cst_scope *own, const cst_pool *pool,
                               const member_file *file, const load_job *job, cst_convert *looked,
                               cst_store_entry *entry) {
    const cst_convert convert = conversion(pool, file);
    int64_t count = job->look_end - job->look_first;
    if (pool->listed == 0)
        return cst_pieces_entry(worker, own, &convert, job->look_first, count, looked, entry);
    CST_NEW(worker, own, cst_topk_file, listed, 1);
    *listed = file->listed;
    const cst_pieces pieces = {.convert = convert, .source = listed, .read = cst_topk_read};
    return cst_pieces_keep(worker, own, &pieces, job->look_first, count, looked, entry);
}

/* One member, on whatever thread: opened, joined, read, stored in a place of its own: in memory, in
 * its own file, or in a copy of it. */
static cst_status load_member(cst_context *worker, void *user, int64_t task) {
    const load_job *job = user;
    cst_pool *pool = job->pool;
    cst_pool_split *state = &pool->splits[job->split];
    int32_t member = job->members[task];
    cst_scope *own = &state->own[member];
    cst_scope *scope;
    member_file file;
    size_t values = 0;
    if (pool->task == CST_TASK_SEGMENTATION)
        return cst_maps_load(worker, pool, job->split, member, job->stream);
    CST_TRY(cst_scope_take(worker, own, &scope));
    CST_TRY(join_member(worker, scope, pool, job->split, member, &file));
    int64_t rows = (file.count > 0 ? file.rows->row_count / file.count : 1) * state->rows;
    if (!cst_size_mul((size_t)rows, (size_t)cst_pool_width(pool), &values))
        return cst_fail(worker, CST_ERROR_LIMIT, "%s: too many values", file.path);
    if (cst_pool_partial(pool))
        CST_TRY(cst_pool_start_present(worker, state, member, rows));
    cst_pieces_out to = {.present = state->present[member]};
    cst_store_entry *entry = job->stream ? &state->store->entries[member] : NULL;
    if (!job->stream) {
        CST_TAKE(worker, own, to.memory, values);
        CST_TRY(read_all(worker, pool, state, &file, &to));
        state->data[member] = to.memory;
    } else {
        if (is_direct(&file, to.present)) {
            CST_TRY(direct_entry(worker, own, pool, &file, job, &job->looked[task], entry));
        } else {
            CST_TRY(cst_store_file(worker, own, file.path, rows, cst_pool_width(pool), entry));
            to.entry = entry;
            CST_TRY(read_all(worker, pool, state, &file, &to));
        }
        CST_TRY(cst_store_keep(worker, state->store, member, job->kept_first, job->kept_end));
        state->data[member] = cst_store_place(state->store, member);
    }
    cst_pool_settle_present(worker, state, member, rows);
    if (!job->stream || to.entry)
        cst_scope_free(scope);
    return CST_OK;
}

/* The same of a part of a divided split, by its rows in the whole. */
static cst_status part_normalisers(cst_context *context, const cst_division *division,
                                   const cst_pool *pool, bool held, int32_t member, double *out) {
    const char *split = pool->manifest->splits[division->split].name;
    cst_pool whole = *division->whole;
    CST_SCOPE(scope);
    CST_NEW(context, scope, double, all, cst_pool_rows(&whole, split));
    CST_TRY(cst_pool_normalisers(context, &whole, split, member, all));
    for (int64_t i = 0; i < division->count[held]; i++)
        out[i] = all[division->rows[held][i]];
    return CST_OK;
}

cst_status cst_pool_normalisers(cst_context *context, cst_pool *pool, const char *split,
                                int32_t member, double *out) {
    const cst_division *division = pool->division;
    int32_t index = cst_manifest_find_split(pool->manifest, split);
    member_file file;
    CST_SCOPE(scope);
    if (index < 0 || !pool->logits || !pool->manifest->members[member].paths[index])
        return cst_fail(context, CST_ERROR_UNSUPPORTED,
                        "member '%.100s' has no file of logits for split '%.100s'",
                        pool->manifest->members[member].name, split);
    if (division && (index == division->split || index == division->held))
        return part_normalisers(context, division, pool, index == division->held, member, out);
    CST_TRY(join_member(context, scope, pool, index, member, &file));
    return read_all(context, pool, NULL, &file, &(cst_pieces_out){.normalisers = out});
}

/* ---- whether all ranks have the same files ---- */

/* A few bytes at the beginning and at the end of a file, and its size. */
static uint64_t glance(const char *path) {
    unsigned char bytes[4096];
    uint64_t sum = CST_FNV_START;
    struct stat info;
    int fd = cst_open_file(path, O_RDONLY | O_CLOEXEC, 0);
    if (fd < 0)
        return 0;
    off_t size = fstat(fd, &info) == 0 && S_ISREG(info.st_mode) ? info.st_size : 0;
    off_t places[] = {0, size > (off_t)sizeof bytes ? size - (off_t)sizeof bytes : 0};
    for (int part = 0; size > 0 && part < 2; part++) {
        ssize_t got = cst_pread(fd, bytes, sizeof bytes, places[part]);
        sum = cst_fnv(sum, bytes, got > 0 ? (size_t)got : 0);
    }
    (void)close(fd);
    return cst_fnv(sum, &size, sizeof size);
}

/* Sees that all ranks were given the same files: their names, sizes and a few bytes of each. */
static cst_status check_same(cst_context *context, const cst_pool *pool, int32_t split,
                             const int32_t *members, int32_t count) {
    if (!cst_ranks_share(context))
        return CST_OK;
    const cst_manifest_split *of = &pool->manifest->splits[split];
    uint64_t sum = (uint64_t)pool->classes;
    for (int32_t i = 0; i < count; i++) {
        const char *path = pool->manifest->members[members[i]].paths[split];
        const char *name = pool->manifest->members[members[i]].name;
        sum = cst_fnv(sum, name, strlen(name));
        const cst_file_parts *parts = path ? cst_manifest_parts(pool->manifest, path) : NULL;
        for (int64_t part = 0; part < (parts ? parts->count : 1); part++) {
            const char *file = parts ? parts->paths[part] : path;
            uint64_t seen = file ? glance(file) : 0;
            sum = cst_fnv(sum, &seen, sizeof seen);
        }
    }
    char text[512];
    (void)cst_snprintf(text, sizeof text, "split %s, %lld rows, %d members, contents %016llx",
                       of->name, (long long)pool->splits[split].rows, (int)count,
                       (unsigned long long)sum);
    return cst_context_same(context, "the pool's files", text);
}

/* ---- all members ---- */

/* Whether one of `parts` parts of the rows of `count` further members exceeds the predictions'
 * share of the memory budget. docs/architecture.md#memory. */
static bool is_too_large(cst_context *context, const cst_pool *pool, int32_t split, int32_t count,
                         int parts) {
    size_t bytes = sizeof(float) * (size_t)count;
    int64_t rows = cst_pool_all_rows(pool, split);
    if (rows < 0)
        return false;
    return !cst_size_mul(bytes, (size_t)rows, &bytes) ||
           !cst_size_mul(bytes, (size_t)cst_pool_width(pool), &bytes) ||
           !cst_size_add(bytes / (size_t)parts, cst_pool_resident(pool), &bytes) ||
           bytes > cst_context_memory(context) / 8 * 3;
}

static cst_status read_members(cst_context *context, load_job *job, int32_t count) {
    int64_t rows = cst_pool_all_rows(job->pool, job->split);
    int64_t last = cst_block_count(rows);
    CST_SCOPE(scope);
    if (job->divided)
        cst_ranks_part(context, cst_block_count(rows), 1, &job->look_first, &last);
    job->look_first *= CST_BLOCK_ROWS;
    job->look_end = last * CST_BLOCK_ROWS < rows ? last * CST_BLOCK_ROWS : rows;
    job->looked = cst_take(context, scope, (size_t)count, sizeof *job->looked);
    cst_status status = /* ranks wait for each other below also after a failure */
        job->looked ? cst_parallel_for(context, count, load_member, job) : CST_ERROR_MEMORY;
    return status == CST_OK || job->divided ? finish_looking(context, status, job, count) : status;
}

/* Loads `count` members that are not loaded yet. */
static cst_status load_missing(cst_context *context, cst_pool *pool, int32_t split,
                               const int32_t *members, int32_t count) {
    cst_pool_split *state = &pool->splits[split];
    load_job job = {.pool = pool, .split = split, .members = members};
    for (int32_t i = 0; pool->shared && i < count; i++) {
        const char *path = pool->manifest->members[members[i]].paths[split];
        cst_shared_table *table = path ? cst_shared_find(pool->shared, path) : NULL;
        if (table)
            CST_TRY(cst_shared_parse(context, table));
    }
    CST_TRY(cst_pool_describe(context, pool, split, members, count));
    CST_TRY(pool->task == CST_TASK_SEGMENTATION
                ? cst_maps_survey(context, pool, split, members, count)
                : survey(context, pool, split, members, count));
    CST_TRY(cst_pool_settle(context, pool, split));
    int ranks = cst_ranks_share(context) ? cst_context_ranks(context) : 1;
    job.divided = ranks > 1;
    job.stream = job.divided || is_too_large(context, pool, split, count, 1);
    if (job.stream && !state->store)
        CST_TRY(cst_store_take(context, &state->scope, pool->manifest->member_count,
                               cst_pool_width(pool), &state->store));
    CST_TRY(check_same(context, pool, split, members, count));
    if (job.divided && !is_too_large(context, pool, split, count, ranks)) {
        job.kept_end = cst_pool_all_rows(pool, split);
        if (is_too_large(context, pool, split, count, 1))
            cst_store_near(context, job.kept_end, &job.kept_first, &job.kept_end);
    }
    CST_TRY(cst_stage(context, "read"));
    CST_TRY(read_members(context, &job, count));
    if (cst_pool_partial(pool))
        CST_TRY(cst_pool_fill(context, pool, split));
    return cst_progress(context, "read", count, count);
}

cst_status cst_pool_load_members(cst_context *context, cst_pool *pool, const char *split,
                                 const int32_t *members, int32_t count) {
    int32_t index = cst_manifest_find_split(pool->manifest, split);
    int32_t all = pool->manifest->member_count;
    CST_SCOPE(scope);
    if (index < 0)
        return cst_fail_split(context, CST_ERROR_ARGUMENT, pool, split);
    if (pool->task == CST_TASK_DETECTION)
        return cst_fail(context, CST_ERROR_UNSUPPORTED,
                        "%s: predictions for task '%s' are not rows of probabilities",
                        pool->manifest->path, cst_task_name(pool->task));
    cst_pool_split *state = &pool->splits[index];
    CST_NEW(context, scope, int32_t, missing, all);
    CST_NEW(context, scope, bool, asked, all);
    int32_t missing_count = 0;
    bool loaded = false;
    for (int32_t i = 0; i < count; i++)
        asked[members[i]] = true;
    for (int32_t k = 0; k < all; k++) {
        loaded = loaded || state->data[k];
        bool there = !pool->missing || pool->manifest->members[k].paths[index];
        if (asked[k] && !state->data[k] && there)
            missing[missing_count++] = k;
    }
    if (missing_count == 0)
        return CST_OK;
    cst_status status = load_missing(context, pool, index, missing, missing_count);
    for (int32_t i = 0; status != CST_OK && i < missing_count; i++)
        cst_pool_drop_member(context, state, missing[i]);
    if (status != CST_OK && !loaded)
        cst_pool_split_clear(context, state);
    for (cst_shared_table *table = pool->shared; table; table = table->next)
        cst_shared_forget(table);
    return status;
}

static cst_status load_all(cst_context *context, cst_pool *pool, const char *split) {
    int32_t count = pool->manifest->member_count;
    CST_SCOPE(scope);
    CST_NEW(context, scope, int32_t, members, count);
    for (int32_t k = 0; k < count; k++)
        members[k] = k;
    return cst_pool_load_members(context, pool, split, members, count);
}

cst_status cst_pool_load(cst_context *context, cst_pool *pool, const char *split) {
    CST_ENTER(context);
    CST_NEED(context, pool && split, "pool and split are required");
    return cst_why(context, load_all(context, pool, split));
}
