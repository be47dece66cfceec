/*
 * Writes a fitted stack as the bytes of a model file: little-endian, IEEE-754, no time, no machine.
 * After stage S4. docs/model-format.md.
 */
#include "core/buffer.h"
#include "model/absent.h"
#include "model/crc32c.h"
#include "model/format.h"
#include "model/stack.h"
#include "model/values.h"

#include <math.h>
#include <string.h>

static void store_u32(uint8_t *to, uint32_t value) {
    for (int i = 0; i < 4; i++)
        to[i] = (uint8_t)(value >> (8 * i));
}

static void store_u64(uint8_t *to, uint64_t value) {
    for (int i = 0; i < 8; i++)
        to[i] = (uint8_t)(value >> (8 * i));
}

static void put_u32(cst_buffer *w, uint32_t value) {
    uint8_t bytes[4];
    store_u32(bytes, value);
    cst_buffer_add(w, bytes, sizeof bytes);
}

static void put_u64(cst_buffer *w, uint64_t value) {
    uint8_t bytes[8];
    store_u64(bytes, value);
    cst_buffer_add(w, bytes, sizeof bytes);
}

static void put_f64(cst_buffer *w, double value) {
    uint64_t bits = 0;
    memcpy(&bits, &value, sizeof bits);
    put_u64(w, bits);
}

static void put_f32s(cst_buffer *w, const float *values, size_t count) {
    for (size_t i = 0; i < count; i++) {
        uint32_t bits = 0;
        memcpy(&bits, &values[i], sizeof bits);
        put_u32(w, bits);
    }
}

/* Far below 4 GiB; were it not, what is written would not be read back (cst_stack_encode). */
static void put_string(cst_buffer *w, const char *text) {
    size_t length = strlen(text);
    put_u32(w, (uint32_t)length);
    cst_buffer_add(w, text, length);
}

/* ---- sections ---- */

static void put_task(cst_buffer *w, const cst_model *model) {
    put_u32(w, (uint32_t)model->task);
    put_u32(w, (uint32_t)model->classes);
    put_u32(w, (uint32_t)model->members);
}

static void put_members(cst_buffer *w, const cst_model *model) {
    for (int32_t k = 0; k < model->members; k++) {
        put_string(w, model->member_names[k]);
        put_f64(w, model->mix[k]);
    }
}

static void put_classes(cst_buffer *w, const cst_model *model) {
    for (int32_t c = 0; c < model->classes; c++)
        put_string(w, model->class_names[c]);
}

static void put_gate(cst_buffer *w, const cst_model *model) {
    const cst_gate *gate = &model->gate;
    bool learned = gate->mode == CST_GATE_LEARNED;
    size_t hidden = learned ? (size_t)gate->hidden : 0;
    put_u32(w, (uint32_t)gate->mode);
    put_u32(w, gate->mode == CST_GATE_NONE ? 0 : (uint32_t)gate->best);
    put_u32(w, (uint32_t)hidden);
    if (!learned)
        return;
    put_f32s(w, gate->w1, hidden * (size_t)gate->inputs);
    put_f32s(w, gate->b1, hidden);
    put_f32s(w, gate->w2, CST_AGGREGATORS * hidden);
    put_f32s(w, gate->b2, CST_AGGREGATORS);
}

/* Location, scale and variance of each output; of a covariance the lower triangle. */
static void put_values(cst_buffer *w, const cst_model *model) {
    const cst_values *v = model->values;
    size_t columns = (size_t)v->columns;
    put_u32(w, (uint32_t)v->columns);
    put_u32(w, v->conformal ? 1 : 0);
    for (size_t d = 0; d < (size_t)model->classes; d++) {
        put_f64(w, v->scaling.location[d]);
        put_f64(w, v->scaling.scale[d]);
        put_f64(w, v->noise[d]);
        put_f64(w, v->share[d]);
        put_f64(w, v->mean_spread[d]);
        put_f64(w, v->offset[d]);
        for (size_t j = 0; j < columns; j++)
            put_f64(w, v->center[d * columns + j]);
        for (size_t i = 0; i < columns; i++)
            for (size_t j = 0; j <= i; j++)
                put_f64(w, v->covariance[(d * columns + i) * columns + j]);
        for (size_t q = 0; q < CST_VALUE_LEVELS; q++)
            put_f64(w, v->quantile[d * CST_VALUE_LEVELS + q]);
    }
}

static void put_learners(cst_buffer *w, const cst_model *model) {
    put_u32(w, (uint32_t)model->map);
    put_u32(w, (uint32_t)model->learners);
    for (int32_t l = 0; l < model->learners; l++) {
        const cst_learner *learner = &model->learner[l];
        put_u32(w, (uint32_t)learner->kind);
        put_u32(w, (uint32_t)learner->coefficients);
        put_u32(w, (uint32_t)learner->biases);
        put_f64(w, learner->blend);
        for (int32_t j = 0; j < learner->coefficients; j++)
            put_f64(w, learner->weights[j]);
        for (int32_t j = 0; j < learner->biases; j++)
            put_f64(w, learner->bias[j]);
    }
}

static void put_f64s(cst_buffer *w, const double *values, size_t count) {
    for (size_t i = 0; i < count; i++)
        put_f64(w, values[i]);
}

static void put_calibrator(cst_buffer *w, const cst_model *model, const cst_calibrator *map) {
    size_t classes = (size_t)model->classes;
    put_u32(w, (uint32_t)map->kind);
    if (map->kind == CST_CALIBRATOR_TEMPERATURE)
        put_f64(w, map->temperature);
    if (map->kind == CST_CALIBRATOR_VECTOR || map->kind == CST_CALIBRATOR_PLATT) {
        put_f64s(w, map->slopes, classes);
        put_f64s(w, map->intercepts, classes);
    }
    for (size_t c = 0; map->kind == CST_CALIBRATOR_ISOTONIC && c < classes; c++) {
        put_u32(w, (uint32_t)map->steps[c].count);
        put_f64s(w, map->steps[c].x, (size_t)map->steps[c].count);
        put_f64s(w, map->steps[c].y, (size_t)map->steps[c].count);
    }
}

static void put_calibration(cst_buffer *w, const cst_model *model) {
    put_calibrator(w, model, &model->calibrator);
}

static void put_own(cst_buffer *w, const cst_model *model) {
    put_u32(w, (uint32_t)model->learners);
    for (int32_t l = 0; l < model->learners; l++) {
        const cst_learner_own *own = model->learner[l].own;
        put_u32(w, own != NULL);
        if (!own)
            continue;
        put_string(w, own->name);
        put_u32(w, (uint32_t)own->map);
        put_u32(w, own->mix != NULL);
        if (own->mix)
            put_f64s(w, own->mix, (size_t)model->members);
        put_f64(w, own->linear);
        put_u32(w, own->scaling != NULL);
        for (int32_t k = 0; own->scaling && k < model->members; k++)
            put_calibrator(w, model, &own->scaling[k]);
        put_calibrator(w, model, &own->calibrator);
    }
}

static void put_network(cst_buffer *w, const cst_model *model) {
    const cst_network *net = model->network;
    size_t inputs = (size_t)net->members * (size_t)net->classes;
    put_u32(w, (uint32_t)net->hidden);
    put_f64s(w, net->mean, inputs);
    put_f64s(w, net->scale, inputs);
    put_f64s(w, net->theta, cst_network_size(net->members, net->classes, net->hidden));
}

static void put_rule(cst_buffer *w, const cst_model *model) {
    put_u32(w, (uint32_t)model->fusion->rule);
}

static void put_fusion(cst_buffer *w, const cst_model *model) {
    const cst_fusion *fusion = model->fusion;
    put_f64(w, fusion->iou);
    put_f64(w, fusion->min_score);
    put_u32(w, (uint32_t)fusion->max_boxes);
    put_u32(w, (uint32_t)fusion->categories);
    for (int32_t c = 0; c < fusion->categories; c++) {
        put_u64(w, (uint64_t)fusion->category_id[c]);
        put_u32(w, fusion->category_name[c] != NULL);
        if (fusion->category_name[c])
            put_string(w, fusion->category_name[c]);
    }
    for (int64_t i = 0; i < (int64_t)fusion->categories * model->members; i++)
        put_f64(w, fusion->weights[i]);
}

static void put_domains(cst_buffer *w, const cst_model *model) {
    const cst_domain_map *map = model->domains;
    size_t classes = (size_t)model->classes;
    put_u32(w, (uint32_t)map->count);
    for (size_t d = 0; d < (size_t)map->count; d++) {
        put_string(w, map->names[d]);
        put_u64(w, (uint64_t)map->rows[d]);
        put_f64(w, map->before[d]);
        put_f64(w, map->after[d]);
        put_f64(w, map->scale[d]);
        put_f64s(w, map->bias + d * classes, classes);
    }
}

static void put_adapted(cst_buffer *w, const cst_model *model) {
    const cst_adapted *adapted = model->adapted;
    put_u64(w, (uint64_t)adapted->rows);
    put_u32(w, (uint32_t)adapted->extra);
    for (int32_t k = 0; k < adapted->extra; k++)
        put_string(w, adapted->names[k]);
    put_f64s(w, adapted->mix, (size_t)adapted->members);
    put_f64(w, adapted->scale);
    put_f64s(w, adapted->weights, (size_t)adapted->members);
    put_f64s(w, adapted->bias, (size_t)model->classes);
}

/* Every `stride`th of values [count] as its steps, two in five bytes. */
static void put_column(cst_buffer *w, const double *values, size_t count, size_t stride) {
    double step = cst_refit_step(values, count, stride);
    put_f64(w, step);
    for (size_t i = 0; i < count; i += 2) {
        uint64_t bits = (uint32_t)cst_refit_steps(values[i * stride], step) & 0xFFFFF;
        if (i + 1 < count)
            bits |= (uint64_t)((uint32_t)cst_refit_steps(values[(i + 1) * stride], step) & 0xFFFFF)
                    << CST_REFIT_BITS;
        uint8_t bytes[8];
        store_u64(bytes, bits);
        cst_buffer_add(w, bytes, i + 1 < count ? 5 : 3);
    }
}

static void put_refits(cst_buffer *w, const cst_model *model) {
    size_t k = (size_t)model->members;
    put_u32(w, (uint32_t)model->refits->count);
    for (int32_t r = 0; r < model->refits->count; r++) {
        const cst_refit *refit = &model->refits->refit[r];
        put_u32(w, (uint32_t)refit->learner);
        put_u32(w, (uint32_t)refit->output);
        put_u32(w, (uint32_t)refit->biases);
        put_u32(w, refit->nonnegative ? 1 : 0);
        put_f64(w, refit->share);
        put_f64(w, refit->pair);
        put_f64(w, refit->pull);
        put_f64(w, refit->loss);
        put_f64(w, refit->least);
        for (size_t i = 0; i < k; i++)
            put_f64s(w, refit->curvature + i * k, i + 1);
        put_f64s(w, refit->slope, k);
        put_f64s(w, refit->ridge, k);
        put_f64s(w, refit->l1, k);
        put_f64s(w, refit->center, k);
        if (refit->biases > CST_REFIT_PLAIN) { /* only in ABSP */
            put_column(w, refit->rest, (size_t)refit->biases, 1);
            for (size_t j = 0; j < k; j++)
                put_column(w, refit->tilt + j, (size_t)refit->biases, k);
            continue;
        }
        put_f64s(w, refit->rest, (size_t)refit->biases);
        put_f64s(w, refit->tilt, (size_t)refit->biases * k);
    }
}

/* Seven bits in each byte, the low ones first; the top bit says that more follow. */
static void put_count(cst_buffer *w, int32_t count) {
    uint32_t left = (uint32_t)count;
    do {
        uint8_t byte = (uint8_t)(left & 0x7F);
        left >>= 7;
        byte |= left > 0 ? 0x80 : 0;
        cst_buffer_add(w, &byte, 1);
    } while (left > 0);
}

static void put_table(cst_buffer *w, const cst_novelty_table *table) {
    put_u32(w, (uint32_t)table->rows);
    put_u32(w, (uint32_t)table->fine);
    for (int32_t j = 0; j < table->knots; j++)
        put_count(w, (int32_t)(table->key[j] - (j > 0 ? table->key[j - 1] : 0)));
}

static void put_novelty(cst_buffer *w, const cst_model *model) {
    const cst_novelty *novelty = model->novelty;
    size_t size = (size_t)novelty->size;
    put_u32(w, (uint32_t)novelty->rows);
    put_u32(w, (uint32_t)novelty->others);
    for (int32_t k = 0; k < novelty->others; k++)
        put_string(w, novelty->other_names[k]);
    put_u32(w, (uint32_t)size);
    for (size_t j = 0; j < size; j++)
        put_u32(w, (uint32_t)novelty->place[j]);
    put_f64s(w, novelty->mean, size);
    for (size_t i = 0; i < size; i++)
        put_f64s(w, novelty->covariance + i * size, i + 1);
    put_table(w, &novelty->spread);
    put_table(w, &novelty->distance);
    put_u32(w, (uint32_t)novelty->tables);
    for (int32_t t = 0; t < novelty->tables; t++)
        put_table(w, &novelty->score[t]);
    for (int32_t c = 0; c < novelty->classes; c++)
        put_count(w, novelty->table_of[c]);
}

static void put_cases(cst_buffer *w, const cst_model *model) {
    put_u32(w, (uint32_t)model->cases->cases);
    for (int p = 0; p < CST_CASE_PARTS; p++) {
        const cst_case_part *part = &model->cases->part[p];
        put_f64(w, part->center);
        put_f64(w, part->spread);
        put_f64(w, part->limit);
        put_f64s(w, part->mean, (size_t)part->size);
        put_f64s(w, part->scale, (size_t)part->size);
    }
}

static void put_confusion(cst_buffer *w, const cst_model *model) {
    const cst_confusion *confusion = model->confusion;
    size_t classes = (size_t)confusion->classes;
    put_f32s(w, confusion->edge, CST_CONFUSION_BINS - 1);
    for (size_t i = 0; i < classes * CST_CONFUSION_BINS; i++)
        put_count(w, confusion->bin[i]);
    int64_t rows = cst_confusion_all_rows(confusion);
    bool own = false;
    for (int32_t c = 0; c < confusion->classes; c++)
        own = own || confusion->share[c] != cst_confusion_counted_share(confusion, c, rows);
    put_count(w, own);
    if (own)
        put_f32s(w, confusion->share, classes);
    put_count(w, confusion->first[classes]);
    for (size_t c = 0; c < classes; c++) {
        int32_t before = -1;
        put_count(w, confusion->first[c + 1] - confusion->first[c]);
        for (int32_t e = confusion->first[c]; e < confusion->first[c + 1]; e++) {
            put_count(w, confusion->predicted[e] - before - 1);
            put_count(w, confusion->count[e]);
            before = confusion->predicted[e];
        }
    }
}

static void put_lean(cst_buffer *w, const cst_model *model) {
    const cst_lean *lean = model->lean;
    size_t classes = (size_t)lean->classes;
    put_u32(w, (uint32_t)lean->rows);
    put_f64s(w, lean->accuracy, CST_LEAN_SIDES);
    put_f64(w, lean->sharpest);
    for (int side = 0; side < CST_LEAN_SIDES; side++)
        for (size_t c = 0; c < classes; c++)
            put_count(w, lean->count[side][c]);
    for (size_t c = 0; c < classes; c++)
        put_count(w, (int32_t)lround((double)lean->mean[c] * CST_LEAN_UNITS));
    for (size_t c = 0; c < classes; c++)
        put_count(w, (int32_t)lround(sqrt((double)lean->variance[c]) * CST_LEAN_UNITS));
}

static void put_watch(cst_buffer *w, const cst_model *model) {
    const cst_watch *watch = model->watch;
    size_t groups = (size_t)watch->groups;
    const double figures[] = {watch->accuracy,        watch->confidence,  watch->ece,
                              watch->stack.threshold, watch->stack.share, watch->average.threshold,
                              watch->average.share};
    put_u32(w, (uint32_t)watch->rows);
    put_u32(w, (uint32_t)watch->whole);
    put_u32(w, (uint32_t)watch->tables);
    put_u32(w, (uint32_t)groups);
    put_f64s(w, figures, sizeof figures / sizeof figures[0]);
    for (int32_t t = 0; t < watch->tables - 1; t++)
        put_u32(w, (uint32_t)watch->table_class[t]);
    for (int32_t t = 0; t < watch->tables; t++)
        put_u32(w, (uint32_t)watch->table_rows[t]);
    put_f32s(w, watch->edge, (size_t)watch->tables * CST_WATCH_STATISTICS * CST_WATCH_EDGES);
    for (size_t g = 0; g + 1 < groups; g++)
        put_u32(w, (uint32_t)watch->group_class[g]);
    for (int32_t k = 0; k <= watch->members; k++) {
        put_f64(w, watch->entropy[k]);
        put_f64(w, watch->deviation[k]);
        if (k < watch->members) {
            put_u32(w, (uint32_t)watch->predicted[k]);
            put_u32(w, (uint32_t)watch->apart[k]);
        }
        for (size_t g = 0; g < groups; g++)
            put_u32(w, (uint32_t)watch->share[(size_t)k * groups + g]);
    }
}

static void put_settings(cst_buffer *w, const cst_model *model) {
    put_u32(w, (uint32_t)model->settings);
    for (size_t i = 0; i < model->settings; i++)
        put_string(w, model->setting[i]);
}

typedef void (*section_fn)(cst_buffer *w, const cst_model *model);

static void put_section(cst_buffer *w, const cst_model *model, const cst_section_spec *spec,
                        section_fn payload) {
    cst_buffer_add(w, spec->tag, 4);
    put_u32(w, spec->flags);
    size_t length_at = w->used;
    put_u64(w, 0);
    size_t first = w->used;
    payload(w, model);
    if (w->status == CST_OK)
        store_u64((uint8_t *)w->bytes + length_at, w->used - first);
}

/* ---- the file ---- */

static bool is_whole(const cst_model *model, const cst_calibrator *map) {
    if (map->kind == CST_CALIBRATOR_VECTOR || map->kind == CST_CALIBRATOR_PLATT)
        return map->classes == model->classes && map->slopes && map->intercepts;
    return map->kind != CST_CALIBRATOR_ISOTONIC || (map->classes == model->classes && map->steps);
}

/* Whether every array the writer reads is there. What the numbers may be is the reader's to say. */
static bool complete(const cst_model *model) {
    const cst_gate *gate = &model->gate;
    bool whole = model->members > 0 && model->classes > 0 && model->learners > 0 &&
                 model->member_names && model->mix && model->learner &&
                 (model->setting || model->settings == 0);
    for (int32_t k = 0; whole && k < model->members; k++)
        whole = model->member_names[k];
    for (int32_t c = 0; whole && model->class_names && c < model->classes; c++)
        whole = model->class_names[c];
    for (size_t i = 0; whole && i < model->settings; i++)
        whole = model->setting[i];
    for (int32_t l = 0; whole && l < model->learners; l++) {
        const cst_learner *learner = &model->learner[l];
        whole = learner->coefficients >= 0 && learner->biases >= 0 &&
                (learner->weights || learner->coefficients == 0) &&
                (learner->bias || learner->biases == 0);
        if (whole && learner->kind != CST_LEARNER_LOGLINEAR)
            whole = gate->inputs == model->members;
        if (whole && learner->own)
            whole = learner->own->name && is_whole(model, &learner->own->calibrator) &&
                    (!learner->own->scaling || learner->own->scaled == model->members);
        for (int32_t k = 0; whole && learner->own && learner->own->scaling && k < model->members;
             k++)
            whole = is_whole(model, &learner->own->scaling[k]);
    }
    if (whole && gate->mode != CST_GATE_NONE)
        whole = gate->inputs == model->members && gate->best >= 0;
    if (whole && gate->mode == CST_GATE_LEARNED)
        whole = gate->hidden > 0 && gate->w1 && gate->b1 && gate->w2 && gate->b2;
    const cst_network *net = model->network;
    if (whole && net)
        whole = net->members == model->members && net->classes == model->classes && net->mean &&
                net->scale && net->theta &&
                cst_network_size(net->members, net->classes, net->hidden) > 0;
    whole = whole && is_whole(model, &model->calibrator);
    if (whole && model->domains)
        whole = model->domains->count > 0 && model->domains->classes == model->classes;
    const cst_adapted *adapted = model->adapted;
    if (whole && adapted)
        whole = adapted->classes == model->classes &&
                adapted->members == model->members + adapted->extra;
    for (int32_t k = 0; whole && adapted && k < adapted->extra; k++)
        whole = adapted->names[k];
    const cst_fusion *fusion = model->fusion;
    if (whole && fusion)
        whole = fusion->categories > 0 && fusion->category_id && fusion->category_name &&
                fusion->weights;
    return whole;
}

static bool has_own(const cst_model *model) {
    for (int32_t l = 0; l < model->learners; l++)
        if (model->learner[l].own)
            return true;
    return false;
}

/* Whether a section is written. */
static bool wanted(const cst_model *model, int section) {
    switch (section) {
    case CST_SECTION_CLASSES:
        return model->class_names != NULL;
    case CST_SECTION_VALUES:
        return model->values != NULL;
    case CST_SECTION_CALIBRATION:
        return model->calibrator.kind != CST_CALIBRATOR_NONE ||
               model->map > CST_PROBABILITY_SIMPLEX;
    case CST_SECTION_OWN:
        return has_own(model);
    case CST_SECTION_NETWORK:
        return model->network != NULL;
    case CST_SECTION_RULE:
        return model->fusion && model->fusion->rule != CST_BOX_RULE_LEARNERS;
    case CST_SECTION_FUSION:
        return model->fusion != NULL;
    case CST_SECTION_DOMAINS:
        return model->domains != NULL;
    case CST_SECTION_ADAPTED:
        return model->adapted != NULL;
    case CST_SECTION_REFITS:
        return model->refits && !cst_refits_packed(model->refits);
    case CST_SECTION_PACKED:
        return cst_refits_packed(model->refits);
    case CST_SECTION_NOVELTY:
        return model->novelty != NULL;
    case CST_SECTION_CASES:
        return model->cases != NULL;
    case CST_SECTION_CONFUSION:
        return model->confusion != NULL;
    case CST_SECTION_LEAN:
        return model->lean != NULL;
    case CST_SECTION_WATCH:
        return model->watch != NULL;
    default:
        return true;
    }
}

static void write_file(cst_buffer *w, const cst_model *model) {
    static const section_fn payloads[CST_SECTIONS] = {
        [CST_SECTION_TASK] = put_task,         [CST_SECTION_MEMBERS] = put_members,
        [CST_SECTION_CLASSES] = put_classes,   [CST_SECTION_GATE] = put_gate,
        [CST_SECTION_VALUES] = put_values,     [CST_SECTION_CALIBRATION] = put_calibration,
        [CST_SECTION_NETWORK] = put_network,   [CST_SECTION_RULE] = put_rule,
        [CST_SECTION_OWN] = put_own,           [CST_SECTION_LEARNERS] = put_learners,
        [CST_SECTION_FUSION] = put_fusion,     [CST_SECTION_DOMAINS] = put_domains,
        [CST_SECTION_ADAPTED] = put_adapted,   [CST_SECTION_REFITS] = put_refits,
        [CST_SECTION_PACKED] = put_refits,     [CST_SECTION_NOVELTY] = put_novelty,
        [CST_SECTION_CASES] = put_cases,       [CST_SECTION_CONFUSION] = put_confusion,
        [CST_SECTION_LEAN] = put_lean,         [CST_SECTION_WATCH] = put_watch,
        [CST_SECTION_SETTINGS] = put_settings,
    };
    uint32_t sections = 0;
    for (int s = 0; s < CST_SECTIONS; s++)
        sections += wanted(model, s);
    cst_buffer_add(w, CST_MODEL_MAGIC, CST_MODEL_MAGIC_BYTES);
    put_u32(w, CST_MODEL_VERSION);
    put_u32(w, sections);
    size_t length_at = w->used;
    put_u64(w, 0);
    for (int s = 0; s < CST_SECTIONS; s++)
        if (wanted(model, s))
            put_section(w, model, &cst_section_info[s], payloads[s]);
    if (w->status == CST_OK) {
        store_u64((uint8_t *)w->bytes + length_at, w->used + CST_MODEL_CHECKSUM_BYTES);
        put_u32(w, cst_crc32c((const uint8_t *)w->bytes, w->used));
    }
}

cst_status cst_stack_encode(cst_context *context, const cst_model *model, uint8_t **bytes,
                            size_t *size) {
    *bytes = NULL;
    *size = 0;
    if (!complete(model))
        return cst_fail(context, CST_ERROR_ARGUMENT,
                        "the model is incomplete (members, learners or gate are missing), so it "
                        "cannot be saved");
    cst_buffer w = {.context = context};
    cst_model *again = NULL;
    write_file(&w, model);
    cst_status status = w.status;
    if (status == CST_OK) {
        /* What the reader would refuse must not be written. */
        status = cst_stack_decode(context, "the model to be saved", (const uint8_t *)w.bytes,
                                  w.used, &again);
        if (status != CST_OK && status != CST_ERROR_MEMORY && status != CST_ERROR_IO)
            status = CST_ERROR_ARGUMENT;
    }
    cst_model_free(context, again);
    if (status == CST_OK) {
        *bytes = (uint8_t *)w.bytes;
        *size = w.used;
    } else {
        cst_free(context, w.bytes);
    }
    return status;
}
