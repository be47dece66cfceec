/*
 * Stages as bytes. See the header.
 */
#include "pipeline/parts.h"

#include "base/number.h"
#include "model/pack.h"
#include "pipeline/whole.h"

#include <inttypes.h>
#include <string.h>

uint64_t cst_parts_of(cst_context *context, const cst_view *view, const int32_t *folds,
                      int32_t fold_count, const cst_settings *settings) {
    if (!cst_checkpoint_on(context))
        return 0;
    const int64_t shape[] = {view->rows,         view->members,           view->classes,
                             fold_count,         (int64_t)settings->seed, settings->measure,
                             settings->keep_max, settings->select,        settings->front,
                             settings->learners, settings->drop,          settings->domain_aware};
    uint64_t of = cst_checkpoint_of(0, shape, sizeof shape);
    of = cst_checkpoint_of(of, &settings->keep_fraction, sizeof settings->keep_fraction);
    of = cst_checkpoint_of(of, &settings->limits, sizeof settings->limits);
    if (view->index)
        of = cst_checkpoint_of(of, view->index, (size_t)view->rows * sizeof *view->index);
    return cst_checkpoint_of(of, folds, (size_t)view->rows * sizeof *folds);
}

void cst_part_name(const char *what, const int32_t *all, int32_t count, const int32_t *left,
                   int32_t left_count, char name[CST_PART_NAME_CHARS]) {
    uint64_t of = cst_checkpoint_of(0, all, (size_t)count * sizeof *all);
    of = cst_checkpoint_of(of, left, (size_t)left_count * sizeof *left);
    (void)cst_snprintf(name, CST_PART_NAME_CHARS, "%s %016" PRIx64, what, of);
}

/* ---- S1 and selection ---- */

static void pack_cka(cst_pack *pack, cst_cka_result *cka) {
    CST_PACK(pack, cka->members);
    size_t k = (size_t)cka->members;
    CST_PACK_ARRAY(pack, cka->cka, k * k);
    CST_PACK_ARRAY(pack, cka->sigma, k);
    CST_PACK_ARRAY(pack, cka->constant, k);
    CST_PACK_ARRAY(pack, cka->landmarks, k);
    CST_PACK_ARRAY(pack, cka->rank, k);
    CST_PACK_ARRAY(pack, cka->residual, k);
    CST_PACK_ARRAY(pack, cka->estimated, k * k);
    CST_PACK(pack, cka->estimator);
    CST_PACK(pack, cka->probes);
    CST_PACK(pack, cka->rows);
    CST_PACK(pack, cka->partners);
    CST_PACK(pack, cka->standard_error);
    CST_PACK(pack, cka->lsh_tables);
    CST_PACK(pack, cka->lsh_bits);
    CST_PACK(pack, cka->proposed);
    CST_PACK(pack, cka->computed);
    CST_PACK(pack, cka->recall);
    CST_PACK(pack, cka->checked);
    CST_PACK(pack, cka->sketch_error);
}

static void pack_kept(cst_pack *pack, cst_stages *s) {
    size_t k = (size_t)s->members;
    CST_PACK(pack, s->kept_count);
    cst_pack_raw(pack, s->kept, k * sizeof *s->kept);
    cst_pack_raw(pack, s->reason, k * sizeof *s->reason);
}

void cst_pack_redundancy(cst_pack *pack, void *object) {
    cst_stages *s = object;
    size_t k = (size_t)s->members;
    pack_kept(pack, s);
    cst_pack_raw(pack, s->risk, k * sizeof *s->risk);
    cst_pack_raw(pack, s->similarity, k * k * sizeof *s->similarity);
    cst_pack_raw(pack, s->pearson, k * k * sizeof *s->pearson);
    CST_PACK(pack, s->threshold);
    cst_pack_raw(pack, s->closest, k * sizeof *s->closest);
    cst_pack_raw(pack, s->closest_value, k * sizeof *s->closest_value);
    pack_cka(pack, &s->cka);
}

static void pack_step(cst_pack *pack, cst_select_step *step) {
    CST_PACK(pack, step->size);
    CST_PACK_ARRAY(pack, step->members, step->size);
    CST_PACK(pack, step->loss);
    CST_PACK(pack, step->excess);
    CST_PACK(pack, step->excess_se);
    CST_PACK(pack, step->against_all);
    CST_PACK(pack, step->against_all_se);
    CST_PACK(pack, step->cost);
    CST_PACK(pack, step->allowed);
}

static void pack_point(cst_pack *pack, cst_front_point *point) {
    CST_PACK(pack, point->size);
    CST_PACK_ARRAY(pack, point->members, point->size);
    CST_PACK(pack, point->loss);
    CST_PACK(pack, point->cost);
    CST_PACK(pack, point->best);
    CST_PACK(pack, point->chosen);
}

/* Allocates elements that contain arrays, when reading. */
static void *make(cst_pack *pack, int32_t count, size_t size) {
    void *made = pack->status == CST_OK ? cst_alloc(pack->context, (size_t)count, size) : NULL;
    if (!made && pack->status == CST_OK)
        pack->status = CST_ERROR_MEMORY;
    return made;
}

void cst_pack_selection(cst_pack *pack, void *object) {
    cst_stages *s = object;
    cst_selection *selection = &s->selection;
    cst_front *front = &s->front;
    pack_kept(pack, s);
    CST_PACK(pack, s->candidate_count);
    cst_pack_raw(pack, s->candidates, (size_t)s->members * sizeof *s->candidates);
    CST_PACK(pack, selection->members);
    CST_PACK(pack, selection->rows);
    CST_PACK(pack, selection->chosen);
    CST_PACK(pack, selection->best);
    if (pack->reading)
        selection->path = make(pack, selection->members, sizeof *selection->path);
    for (int32_t i = 0; pack->status == CST_OK && selection->path && i < selection->members; i++)
        pack_step(pack, &selection->path[i]);
    int32_t points = front->count;
    CST_PACK(pack, points);
    if (pack->reading && points > 0)
        front->point = make(pack, points, sizeof *front->point);
    if (pack->reading)
        front->count = front->point ? points : 0;
    for (int32_t i = 0; pack->status == CST_OK && front->point && i < points; i++)
        pack_point(pack, &front->point[i]);
}

/* ---- the fit ---- */

void cst_pack_removals(cst_pack *pack, void *object) {
    cst_stages *s = object;
    size_t k = (size_t)s->members;
    pack_kept(pack, s);
    cst_pack_raw(pack, s->refit_change, k * sizeof *s->refit_change);
    cst_pack_raw(pack, s->refit_together, k * sizeof *s->refit_together);
}

/* The name of a learner; when reading, the library's constant of that name. */
static void pack_name(cst_pack *pack, const char **name) {
    char text[64] = "";
    if (!pack->reading)
        (void)cst_snprintf(text, sizeof text, "%s", *name);
    CST_PACK(pack, text);
    if (!pack->reading || pack->status != CST_OK)
        return;
    text[sizeof text - 1] = '\0';
    *name = NULL;
    for (int i = 0; cst_meta_spec_at(i); i++)
        if (strcmp(cst_meta_spec_at(i)->name, text) == 0)
            *name = cst_meta_spec_at(i)->name;
    for (int i = 0; i <= (int)CST_LEARNER_NETWORK && !*name; i++)
        if (strcmp(cst_learner_name((cst_learner_kind)i), text) == 0)
            *name = cst_learner_name((cst_learner_kind)i);
    if (!*name)
        pack->status = cst_fail(pack->context, CST_ERROR_INPUT,
                                "a checkpoint part names an unknown learner: '%s'", text);
}

void cst_meta_fit_pack(cst_pack *pack, cst_meta_fit *fit, int64_t rows) {
    cst_model_pack(pack, &fit->model);
    CST_PACK(pack, fit->refits);
    CST_PACK(pack, fit->learners);
    for (int32_t m = 0; pack->status == CST_OK && m < fit->learners && m < CST_LEARNERS_MAX; m++)
        pack_name(pack, &fit->name[m]);
    CST_PACK(pack, fit->weight);
    CST_PACK(pack, fit->nll);
    CST_PACK(pack, fit->loss);
    CST_PACK(pack, fit->half_logdet);
    CST_PACK(pack, fit->active);
    CST_PACK_ARRAY(pack, fit->row_loss, rows);
    CST_PACK(pack, fit->share);
    CST_PACK(pack, fit->precision);
    CST_PACK(pack, fit->lambda);
    CST_PACK(pack, fit->sigma2);
    CST_PACK(pack, fit->mp_edge);
    CST_PACK(pack, fit->snr);
    CST_PACK(pack, fit->seconds_gate);
    CST_PACK(pack, fit->seconds_ridge);
    CST_PACK(pack, fit->seconds_blend);
}
