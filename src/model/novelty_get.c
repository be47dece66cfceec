/*
 * Reads the sections of a model file with the references of the guard, trusting nothing. Before
 * prediction. docs/model-format.md.
 */
#include "model/reader.h"

#include <inttypes.h>
#include <string.h>

static const double MOMENT_MAX = 1e6; /* of logarithms from log(1e-3) to log(log C) */
static const double DEVIATION_MIN = 1e-9;

static void get_names(cst_reader *r, const cst_model *model, cst_novelty *novelty) {
    size_t at = r->at;
    size_t count = (size_t)cst_reader_int(r, "the number of other members", 0, INT32_MAX);
    char **names = cst_reader_room(r, count, sizeof *names, 5, "other members");
    if (!names)
        return;
    novelty->other_names = names;
    novelty->others = (int32_t)count;
    for (size_t k = 0; k < count && r->status == CST_OK; k++)
        names[k] = cst_reader_string(r, "name of another member", k);
    cst_reader_different(r, at, names, count, "name of another member");
    for (size_t k = 0; k < count && r->status == CST_OK; k++)
        for (int32_t m = 0; m < model->members; m++)
            if (strcmp(names[k], model->member_names[m]) == 0)
                cst_reader_refuse(r, at, "member '%s' is one of the stack and one it leaves out",
                                  names[k]);
}

/* Members of the distance, and their moments. */
static void get_moments(cst_reader *r, cst_novelty *novelty) {
    int32_t most =
        novelty->members < CST_NOVELTY_MEMBERS_MAX ? novelty->members : CST_NOVELTY_MEMBERS_MAX;
    novelty->size = cst_reader_int(r, "the number of members of the distance", most, most);
    size_t size = (size_t)novelty->size;
    novelty->place = cst_reader_room(r, size, sizeof *novelty->place, 12, "members");
    for (size_t j = 0; j < size && r->status == CST_OK; j++)
        novelty->place[j] =
            cst_reader_int(r, "a member of the distance", j > 0 ? novelty->place[j - 1] + 1 : 0,
                           novelty->members - 1);
    novelty->mean = cst_reader_f64s(r, size, "a mean of logarithms", MOMENT_MAX);
    if (r->status != CST_OK)
        return;
    novelty->covariance = cst_alloc(r->context, size * size, sizeof *novelty->covariance);
    novelty->factor = cst_alloc(r->context, size * size, sizeof *novelty->factor);
    if (!novelty->covariance || !novelty->factor) {
        r->status = CST_ERROR_MEMORY;
        return;
    }
    size_t at = r->at;
    for (size_t i = 0; i < size && r->status == CST_OK; i++)
        for (size_t j = 0; j <= i; j++)
            novelty->covariance[i * size + j] = novelty->covariance[j * size + i] =
                cst_reader_f64(r, "a covariance", i == j ? 0 : -MOMENT_MAX, MOMENT_MAX);
    if (r->status != CST_OK)
        return;
    cst_status status = cst_novelty_factor(r->context, novelty);
    if (status == CST_ERROR_NUMERIC)
        cst_reader_refuse(r, at, "the covariance of logarithms is not positive definite");
    else
        r->status = status;
}

static void get_table(cst_reader *r, const cst_novelty *novelty, cst_novelty_table *table) {
    int64_t rows = cst_reader_int(r, "the rows of a table", 1, (int32_t)novelty->rows);
    int32_t fine = cst_reader_int(r, "how finely ranks are kept", 1, CST_NOVELTY_ROWS_MAX);
    if (r->status == CST_OK && (size_t)cst_novelty_knots(rows, fine) > r->end - r->at)
        cst_reader_refuse(r, r->at,
                          "a table of %" PRId64 " rows is declared, but %zu bytes are left", rows,
                          r->end - r->at);
    if (r->status == CST_OK)
        r->status = cst_novelty_table_alloc(r->context, rows, fine, table);
    for (int32_t j = 0; j < table->knots && r->status == CST_OK; j++) {
        uint32_t before = j > 0 ? table->key[j - 1] : 0;
        table->key[j] =
            before + cst_reader_count_u32(r, "the distance of a key", UINT32_MAX - before);
    }
}

void cst_novelty_get(cst_reader *r, cst_model *model) {
    if (model->task != CST_TASK_CLASSIFICATION && model->task != CST_TASK_SEGMENTATION)
        cst_reader_refuse(r, r->at, "section NOVE is in a model of %s", cst_task_name(model->task));
    cst_novelty *novelty = r->status == CST_OK ? cst_alloc(r->context, 1, sizeof *novelty) : NULL;
    model->novelty = novelty;
    if (!novelty) {
        r->status = r->status == CST_OK ? CST_ERROR_MEMORY : r->status;
        return;
    }
    *novelty = (cst_novelty){.classes = model->classes, .members = model->members};
    novelty->rows = cst_reader_int(r, "the number of reference rows", 1, CST_NOVELTY_ROWS_MAX);
    get_names(r, model, novelty);
    get_moments(r, novelty);
    get_table(r, novelty, &novelty->spread);
    get_table(r, novelty, &novelty->distance);
    size_t tables = (size_t)cst_reader_int(r, "the number of tables", 1, CST_NOVELTY_ROWS_MAX);
    novelty->score = cst_reader_room(r, tables, sizeof *novelty->score, 9, "tables");
    novelty->tables = novelty->score ? (int32_t)tables : 0;
    for (int32_t t = 0; t < novelty->tables && r->status == CST_OK; t++)
        get_table(r, novelty, &novelty->score[t]);
    size_t classes = (size_t)model->classes;
    novelty->table_of = cst_reader_room(r, classes, sizeof *novelty->table_of, 1, "classes");
    for (size_t c = 0; c < classes && r->status == CST_OK; c++)
        novelty->table_of[c] = cst_reader_count(r, "the table of a class", novelty->tables - 1);
}

void cst_cases_get(cst_reader *r, cst_model *model) {
    if (model->task != CST_TASK_SEGMENTATION || !model->novelty)
        cst_reader_refuse(r, r->at, "section NOVI is in a model of %s, or without section NOVE",
                          cst_task_name(model->task));
    cst_novelty_cases *cases = r->status == CST_OK ? cst_alloc(r->context, 1, sizeof *cases) : NULL;
    model->cases = cases;
    if (!cases) {
        r->status = r->status == CST_OK ? CST_ERROR_MEMORY : r->status;
        return;
    }
    *cases = (cst_novelty_cases){
        .cases = cst_reader_int(r, "the number of cases", CST_CASES_MIN, INT32_MAX)};
    for (int p = 0; p < CST_CASE_PARTS && r->status == CST_OK; p++) {
        cst_case_part *part = &cases->part[p];
        part->size = cst_case_part_size(model->novelty, p);
        part->center = cst_reader_f64(r, "a mean distance", -MOMENT_MAX, MOMENT_MAX);
        part->spread = cst_reader_f64(r, "a deviation of distances", DEVIATION_MIN, MOMENT_MAX);
        part->limit = cst_reader_f64(r, "a limit of distances", -MOMENT_MAX, MOMENT_MAX);
        part->mean = cst_reader_f64s(r, (size_t)part->size, "a mean of cases", MOMENT_MAX);
        size_t at = r->at;
        part->scale = cst_reader_f64s(r, (size_t)part->size, "a scale of cases", MOMENT_MAX);
        for (int32_t j = 0; j < part->size && r->status == CST_OK; j++)
            if (part->scale[j] < DEVIATION_MIN)
                cst_reader_refuse(r, at + 8 * (size_t)j, "a scale of cases is not positive");
    }
}
