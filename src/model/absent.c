/* A model without some of its members: weights solved again. docs/prediction.md#absent-members. */
#include "model/absent.h"

#include "model/values.h"

#include <float.h>
#include <math.h>
#include <string.h>

/* ---- memory ---- */

/* Arrays of the room's own, for as many members as the whole model has; names and calibration maps
 * are borrowed, as every pointer of room->model that is not made here. */
static cst_status make_learner(cst_context *context, cst_scope *scope, const cst_model *whole,
                               const cst_learner *from, cst_learner *to) {
    int64_t outputs = cst_task_has_outputs(whole->task) ? whole->classes : 1;
    *to = (cst_learner){.kind = from->kind, .blend = from->blend, .biases = from->biases};
    CST_TAKE(context, scope, to->weights, outputs * whole->members);
    CST_TAKE(context, scope, to->bias, from->biases);
    if (!from->own)
        return CST_OK;
    CST_TAKE(context, scope, to->own, 1);
    *to->own = *from->own;
    if (from->own->mix)
        CST_TAKE(context, scope, to->own->mix, whole->members);
    if (from->own->scaling)
        CST_TAKE(context, scope, to->own->scaling, whole->members);
    return CST_OK;
}

/* Of a method that is no preset: the variance is its noise alone. */
static bool is_noise(const cst_model *whole) {
    return !whole->refits && !(whole->values->offset[0] > 0);
}

cst_status cst_room_make(cst_context *context, const cst_model *whole, cst_room *out) {
    size_t k = (size_t)whole->members;
    int32_t inputs = cst_model_inputs(whole);
    size_t columns = whole->values ? (size_t)whole->values->columns : 0;
    size_t width = !whole->refits || columns > k ? columns : k; /* in proportion to the file */
    size_t cells = 0;
    *out = (cst_room){.whole = whole};
    cst_model *model = &out->model;
    *model = (cst_model){.task = whole->task,
                         .classes = whole->classes,
                         .class_names = whole->class_names,
                         .map = whole->map,
                         .calibrator = whole->calibrator, /* borrowed */
                         .domains = whole->domains,       /* borrowed */
                         .learners = whole->learners,
                         .range = whole->range,
                         .transform = whole->transform, /* borrowed */
                         .settings = whole->settings,
                         .setting = whole->setting};
    if (!cst_size_mul(width, width, &cells) || !cst_size_add(cells, 2 * width, &cells))
        return cst_fail(context, CST_ERROR_LIMIT, "%d members are too many", (int)whole->members);
    cst_scope *scope = &out->scope;
    CST_TAKE(context, scope, out->present, inputs);
    CST_TAKE(context, scope, out->place, inputs);
    CST_TAKE(context, scope, out->work, cells);
    CST_TAKE(context, scope, model->member_names, k);
    CST_TAKE(context, scope, model->mix, k);
    CST_TAKE(context, scope, out->learner, whole->learners);
    for (int32_t l = 0; l < whole->learners; l++)
        CST_TRY(make_learner(context, scope, whole, &whole->learner[l], &out->learner[l]));
    if (whole->values && (whole->refits || is_noise(whole))) { /* else nobody knows the noise */
        CST_TRY(cst_values_take(context, scope, whole->classes, whole->members, &out->values));
        out->values->conformal = whole->values->conformal;
    }
    if (whole->fusion) {
        CST_TAKE(context, scope, model->fusion, 1);
        *model->fusion = *whole->fusion;
        CST_TAKE(context, scope, model->fusion->weights,
                 (size_t)whole->fusion->categories * (size_t)whole->members);
        if (whole->fusion->scoring) {
            CST_TAKE(context, scope, model->fusion->scoring, 1);
            *model->fusion->scoring = *whole->fusion->scoring;
            CST_TAKE(context, scope, model->fusion->scoring->map, whole->members);
            CST_TAKE(context, scope, model->fusion->scoring->absent, whole->members);
            CST_TAKE(context, scope, model->fusion->scoring->share, whole->members);
        }
    }
    if (!whole->adapted)
        return CST_OK;
    return cst_adapted_take(context, scope, whole->adapted->members, whole->adapted->extra,
                            whole->classes, &out->adapted);
}

void cst_room_free(cst_room *room) {
    cst_scope_free(&room->scope);
    *room = (cst_room){0};
}

/* ---- one minimum ---- */

/* Lower Cholesky factor in place, and the solution of a x = b in b. A matrix that rounding left
 * indefinite has its diagonal raised. Plain loops: a service calls this without locks or memory. */
static bool factor(size_t n, double *a) {
    for (size_t i = 0; i < n; i++)
        for (size_t j = 0; j <= i; j++) {
            double sum = a[i * n + j];
            for (size_t m = 0; m < j; m++)
                sum -= a[i * n + m] * a[j * n + m];
            if (i == j && !(sum > 0))
                return false;
            a[i * n + j] = i == j ? sqrt(sum) : sum / a[j * n + j];
        }
    return true;
}

static void substitute(size_t n, const double *a, double *b) {
    for (size_t i = 0; i < n; i++) {
        for (size_t m = 0; m < i; m++)
            b[i] -= a[i * n + m] * b[m];
        b[i] /= a[i * n + i];
    }
    for (size_t i = n; i-- > 0;) {
        for (size_t m = i + 1; m < n; m++)
            b[i] -= a[m * n + i] * b[m];
        b[i] /= a[i * n + i];
    }
}

/* The problem on those present: matrix [n][n] with `raise` on the diagonal, right-hand side [n]. */
static void set_up(const cst_refit *refit, const cst_room *room, double raise, double *matrix,
                   double *b) {
    size_t k = (size_t)room->whole->members;
    size_t n = (size_t)room->model.members;
    double centers = 0;
    for (size_t i = 0; i < n; i++)
        centers += refit->center[room->place[i]];
    for (size_t i = 0; i < n; i++) {
        size_t at = (size_t)room->place[i];
        b[i] = refit->slope[at];
        if (refit->pull != 0)
            b[i] += refit->pull * (centers > 0 ? refit->center[at] / centers : 1 / (double)n);
        for (size_t j = 0; j < n; j++)
            matrix[i * n + j] = refit->curvature[at * k + (size_t)room->place[j]] +
                                refit->pair / (double)n + (i == j ? refit->ridge[at] + raise : 0);
    }
}

enum { RAISES = 24, SWEEPS = 20000, FEW_SWEEPS = 100, SWEEP_PRODUCTS = 100000000 };

static bool is_smooth(const cst_refit *refit, const cst_room *room) {
    for (int32_t i = 0; i < room->model.members; i++)
        if (refit->l1[room->place[i]] > 0)
            return false;
    return !refit->nonnegative;
}

static double shrink(double x, double threshold) {
    return x > threshold ? x - threshold : x < -threshold ? x + threshold : 0;
}

/* Coordinate descent from w = 0; b becomes what is left of it. */
static void descend(const cst_refit *refit, const cst_room *room, const double *matrix, double *b,
                    double *w) {
    size_t n = (size_t)room->model.members;
    size_t most = SWEEP_PRODUCTS / (n * n) + FEW_SWEEPS; /* a service must not be kept waiting */
    most = most < SWEEPS ? most : SWEEPS;
    for (size_t sweep = 0; sweep < most; sweep++) {
        double moved = 0;
        double largest = 0;
        for (size_t i = 0; i < n; i++) {
            const double *row = matrix + i * n;
            double goal = shrink(b[i] + row[i] * w[i], refit->l1[room->place[i]]);
            double next = row[i] > 0 ? goal / row[i] : 0;
            next = refit->nonnegative && !(next > 0) ? 0 : next;
            double step = next - w[i];
            for (size_t j = 0; step != 0 && j < n; j++)
                b[j] -= row[j] * step;
            w[i] = next;
            moved = fabs(step) > moved ? fabs(step) : moved;
            largest = fabs(next) > largest ? fabs(next) : largest;
        }
        if (!(moved > 1e-13 * largest))
            return;
    }
}

/* w [n] of those present, in room->work, whose first n * n numbers are the matrix. */
static double *solve(const cst_refit *refit, const cst_room *room) {
    size_t n = (size_t)room->model.members;
    double *matrix = room->work;
    double *b = matrix + n * n;
    double *w = b + n;
    double trace = 0;
    double raise = 0;
    set_up(refit, room, 0, matrix, b);
    for (size_t i = 0; i < n; i++)
        trace += fabs(matrix[i * n + i]) / (double)n;
    if (is_smooth(refit, room)) {
        for (int attempt = 0; attempt < RAISES; attempt++) {
            if (factor(n, matrix)) {
                substitute(n, matrix, b);
                return b;
            }
            raise = fmax(10 * raise, 1e-13 * trace + DBL_MIN);
            set_up(refit, room, raise, matrix, b);
        }
    }
    memset(w, 0, n * sizeof *w);
    descend(refit, room, matrix, b, w);
    return w;
}

/* Mean squared error of weights [n] of those present, by the moments of a refit. */
static double squared_error(const cst_refit *refit, const cst_room *room, const double *w) {
    size_t k = (size_t)room->whole->members;
    double sum = refit->loss;
    for (int32_t i = 0; i < room->model.members; i++) {
        size_t at = (size_t)room->place[i];
        double row = -2 * refit->slope[at];
        for (int32_t j = 0; j < room->model.members; j++)
            row += refit->curvature[at * k + (size_t)room->place[j]] * w[j];
        sum += w[i] * row;
    }
    return sum;
}

/* Adds its share of one minimum to the learner it is about. */
static void add_refit(cst_room *room, const cst_refit *refit) {
    size_t n = (size_t)room->model.members;
    size_t k = (size_t)room->whole->members;
    cst_learner *learner = &room->model.learner[refit->learner];
    bool values = cst_task_has_outputs(room->whole->task);
    double *weights = learner->weights + (values ? (size_t)refit->output * n : 0);
    double *bias = learner->bias + (values ? refit->output : 0);
    const double *w = solve(refit, room);
    for (size_t i = 0; i < n; i++)
        weights[i] += refit->share * w[i];
    for (int32_t c = 0; c < refit->biases; c++) {
        double value = refit->rest[c];
        for (size_t i = 0; i < n; i++)
            value -= refit->tilt[(size_t)c * k + (size_t)room->place[i]] * w[i];
        bias[c] += refit->share * value;
    }
}

/* ---- without what a fit keeps ---- */

/* Weights [n] of those present, scaled to the sum that all had: 1 for a mixture. Where
 * weights of opposite signs would be magnified far, the negative ones are left out. */
static void rescale(const cst_room *room, bool mixture, const double *all, double *weights) {
    double total = 0;
    double size = 0;
    double left = 0;
    double left_size = 0;
    for (int32_t k = 0; k < room->whole->members; k++) {
        total += all[k];
        size += fabs(all[k]);
    }
    for (int32_t i = 0; i < room->model.members; i++) {
        left += all[room->place[i]];
        left_size += fabs(all[room->place[i]]);
    }
    if (mixture)
        total = 1;
    bool magnified = left_size * total > 1.5 * left * size; /* also where left <= 0 */
    left = magnified ? (left + left_size) / 2 : left;
    bool some = left / total > 1e-3;
    for (int32_t i = 0; i < room->model.members; i++) {
        double weight = magnified ? fmax(all[room->place[i]], 0) : all[room->place[i]];
        weights[i] = some ? weight * (total / left) : total / room->model.members;
    }
}

static cst_status rescale_learner(cst_context *context, cst_room *room, int32_t index) {
    const cst_model *whole = room->whole;
    const cst_learner *from = &whole->learner[index];
    cst_learner *to = &room->model.learner[index];
    int32_t outputs = cst_task_has_outputs(whole->task) ? whole->classes : 1;
    int32_t width = from->coefficients / outputs;
    bool mixture = cst_learner_is_linear(from->kind) &&
                   cst_learner_map(whole, from) == CST_PROBABILITY_MIXTURE;
    int32_t absent = 0;
    while (room->present[absent])
        absent++;
    for (int32_t j = 0; j < from->coefficients; j++)
        if (j % width >= whole->members && from->weights[j] != 0)
            return cst_fail(context, CST_ERROR_UNSUPPORTED,
                            "the model cannot predict without member '%s': it has a gate, and was "
                            "fitted by a version that kept nothing to solve it again; fit it again",
                            whole->member_names ? whole->member_names[absent] : "(none)");
    for (int32_t d = 0; d < outputs; d++)
        rescale(room, mixture, from->weights + d * width, to->weights + d * room->model.members);
    memcpy(to->bias, from->bias, (size_t)from->biases * sizeof *to->bias);
    /* Scaling is all there is to do for a mixture; it is told of a model that is nothing else,
     * unless a blend chose that. */
    room->rescaled = room->rescaled || !mixture || (!whole->refits && !from->own);
    return CST_OK;
}

/* ---- the rest of a model ---- */

/* Takes rows and columns of a covariance out as if these coefficients were known to be 0. */
static void eliminate(size_t width, size_t out, double *matrix) {
    double pivot = matrix[out * width + out];
    if (!(pivot > 0))
        return;
    for (size_t i = 0; i < width; i++) {
        double share = i == out ? 0 : matrix[i * width + out] / pivot;
        for (size_t j = 0; share != 0 && j < width; j++)
            if (j != out)
                matrix[i * width + j] -= share * matrix[out * width + j];
    }
    for (size_t i = 0; i < width; i++)
        matrix[i * width + out] = matrix[out * width + i] = 0;
}

/* Noise grows by what the weights lose on the rows of the fit, where that is kept. Members that are
 * fewer disagree in another measure, so that the noise is the same for all rows. */
static void fill_values(cst_room *room) {
    const cst_values *from = room->whole->values;
    cst_values *to = room->values;
    size_t n = (size_t)room->model.members;
    size_t width = (size_t)from->columns;
    size_t k = (size_t)room->whole->members;
    to->columns = room->model.members;
    to->scaling = from->scaling;
    for (size_t d = 0; d < (size_t)room->whole->classes; d++) {
        double *matrix = room->work;
        to->share[d] = 0;
        to->mean_spread[d] = from->mean_spread[d];
        to->offset[d] = from->offset[d];
        memcpy(to->quantile + d * CST_VALUE_LEVELS, from->quantile + d * CST_VALUE_LEVELS,
               CST_VALUE_LEVELS * sizeof *to->quantile);
        memcpy(matrix, from->covariance + d * width * width, width * width * sizeof *matrix);
        for (size_t j = 0; j < width; j++)
            if (j >= k || !room->present[j])
                eliminate(width, j, matrix);
        for (size_t i = 0; i < n; i++) {
            size_t at = (size_t)room->place[i];
            to->center[d * n + i] = from->center[d * width + at];
            for (size_t j = 0; j < n; j++)
                to->covariance[(d * n + i) * n + j] =
                    fmax(matrix[at * width + (size_t)room->place[j]], i == j ? 0 : -HUGE_VAL);
        }
    }
}

static void fill_noise(cst_room *room, int32_t output) {
    const cst_refits *refits = room->whole->refits;
    const cst_values *from = room->whole->values;
    double scale = from->scaling.scale[output];
    double added = 0;
    for (int32_t i = 0; refits && i < refits->count; i++) {
        const cst_refit *refit = &refits->refit[i];
        const double *w = room->model.learner[refit->learner].weights +
                          (size_t)output * (size_t)room->model.members;
        if (refit->output == output)
            added += refit->share * (squared_error(refit, room, w) - refit->least);
    }
    room->values->noise[output] = from->noise[output] + scale * scale * fmax(added, 0);
}

static void fill_fusion(cst_room *room) {
    size_t n = (size_t)room->model.members;
    size_t k = (size_t)room->whole->members;
    for (size_t c = 0; c < (size_t)room->whole->fusion->categories; c++)
        for (size_t i = 0; i < n; i++)
            room->model.fusion->weights[c * n + i] =
                room->whole->fusion->weights[c * k + (size_t)room->place[i]];
    const cst_box_scoring *from = room->whole->fusion->scoring;
    cst_box_scoring *to = room->model.fusion->scoring;
    for (size_t i = 0; from && i < n; i++) {
        to->map[i] = from->map[room->place[i]];
        to->absent[i] = from->absent[room->place[i]];
        to->share[i] = from->share[room->place[i]];
    }
}

static void fill_own(const cst_room *room, const cst_learner_own *from, cst_learner_own *to) {
    for (int32_t i = 0; to && to->mix && i < room->model.members; i++)
        to->mix[i] = from->mix[room->place[i]];
    for (int32_t i = 0; to && to->scaling && i < room->model.members; i++)
        to->scaling[i] = from->scaling[room->place[i]];
    if (to && to->scaling)
        to->scaled = room->model.members;
}

/* Every learner from its refits, or scaled where it has none. */
static cst_status fill_learners(cst_context *context, cst_room *room) {
    const cst_refits *refits = room->whole->refits;
    int32_t outputs = cst_task_has_outputs(room->whole->task) ? room->whole->classes : 1;
    for (int32_t l = 0; l < room->model.learners; l++) {
        cst_learner *learner = &room->model.learner[l];
        bool known = false;
        if (learner->kind == CST_LEARNER_NETWORK)
            return cst_fail(context, CST_ERROR_UNSUPPORTED,
                            "the model is a neural network of all members, which cannot predict "
                            "without some of them");
        learner->coefficients = outputs * room->model.members;
        fill_own(room, room->whole->learner[l].own, learner->own);
        memset(learner->weights, 0, (size_t)learner->coefficients * sizeof *learner->weights);
        memset(learner->bias, 0, (size_t)learner->biases * sizeof *learner->bias);
        for (int32_t i = 0; refits && i < refits->count; i++)
            if (refits->refit[i].learner == l) {
                add_refit(room, &refits->refit[i]);
                known = true;
            }
        if (!known)
            CST_TRY(rescale_learner(context, room, l));
        bool sound = true; /* as those of a file must be */
        for (int32_t j = 0; j < learner->coefficients; j++)
            sound = sound && fabs(learner->weights[j]) <= CST_MODEL_COEFFICIENT_MAX;
        for (int32_t j = 0; j < learner->biases; j++)
            sound = sound && fabs(learner->bias[j]) <= CST_MODEL_COEFFICIENT_MAX;
        if (!sound)
            return cst_fail(context, CST_ERROR_NUMERIC,
                            "the weights without the absent members cannot be solved");
    }
    return CST_OK;
}

cst_status cst_room_fill(cst_context *context, cst_room *room, const uint8_t *present) {
    const cst_model *whole = room->whole;
    cst_model *model = &room->model;
    bool same = model->members > 0;
    int32_t count = 0;
    for (int32_t k = 0; k < cst_model_inputs(whole); k++) {
        same = same && room->present[k] == (present[k] != 0);
        count += k < whole->members && present[k] != 0;
    }
    if (same)
        return CST_OK;
    model->members = 0; /* until it is done */
    if (count == 0)
        return cst_fail(context, CST_ERROR_INPUT,
                        "every member of the %s is absent; at least one is needed",
                        whole->adapted ? "stack that was adapted" : "model");
    room->rescaled = false;
    count = 0;
    for (int32_t k = 0; k < whole->members; k++) {
        room->present[k] = present[k] != 0;
        if (!room->present[k])
            continue;
        room->place[count] = k;
        if (whole->member_names) /* a model inside a nested evaluation has none */
            model->member_names[count] = whole->member_names[k];
        model->mix[count++] = whole->mix[k];
    }
    model->members = count;
    for (int32_t k = whole->members; k < cst_model_inputs(whole); k++) {
        room->present[k] = present[k] != 0;
        if (room->present[k])
            room->place[count++] = k;
    }
    if (whole->adapted)
        cst_adapted_restrict(whole->adapted, room->present, room->adapted);
    model->adapted = room->adapted;
    count = model->members;
    room->stack_whole = count == whole->members;
    model->learner = room->stack_whole ? whole->learner : room->learner;
    model->network = room->stack_whole ? whole->network : NULL;
    model->gate =
        room->stack_whole ? whole->gate : (cst_gate){.mode = CST_GATE_NONE, .inputs = count};
    cst_status status = room->stack_whole ? CST_OK : fill_learners(context, room);
    if (status == CST_OK && model->fusion)
        fill_fusion(room);
    model->values = room->rescaled && whole->refits ? NULL : room->values;
    if (status == CST_OK && model->values) {
        fill_values(room);
        for (int32_t d = 0; d < whole->classes; d++)
            fill_noise(room, d);
    }
    if (status != CST_OK)
        model->members = 0;
    return status;
}

void cst_room_tell(cst_context *context, const cst_room *room) {
    bool refitted = !cst_model_value(room->whole, "method") && /* would help */
                    room->whole->task != CST_TASK_MULTILABEL;
    for (int32_t l = 0; l < room->whole->learners; l++)
        refitted = refitted && !room->whole->learner[l].own;
    if (room->rescaled)
        cst_notice(context,
                   "the weights of the members that are present were only scaled to the sum of all "
                   "weights: the model keeps nothing to solve them again%s",
                   refitted ? "; fit it again with this version" : "");
}

void cst_absent_tell(cst_context *context, const cst_model *model, const char *split,
                     const uint8_t *present) {
    enum { NAMED = 3 };
    char names[NAMED * 80] = "";
    int32_t absent = 0;
    for (int32_t k = 0; k < cst_model_inputs(model); k++) {
        size_t used = strlen(names);
        if (present[k])
            continue;
        if (absent++ < NAMED)
            (void)cst_snprintf(names + used, sizeof names - used, "%s'%.60s'", used ? ", " : "",
                               cst_model_input_name(model, k));
    }
    if (absent == 0)
        return;
    cst_notice(context, "split '%s': %d of the model's %d members %s absent (%s%s)%s", split,
               (int)absent, (int)cst_model_inputs(model), absent == 1 ? "is" : "are", names,
               absent > NAMED ? ", ..." : "",
               model->refits ? "; the weights of the others were computed again" : "");
}

/* ---- in a file ---- */

/* Every `stride`th of values [count] as its steps, two in five bytes. */
static void code_column(cst_codec *c, double *values, size_t count, size_t stride,
                        const char *what) {
    double step = c->to ? cst_refit_step(values, count, stride) : 0;
    cst_code_f64(c, &step, "the step of a column of biases", 0,
                 ldexp(CST_MODEL_REFIT_MAX, 2 - CST_REFIT_BITS));
    for (size_t i = 0; c->to && i < count; i += 2) {
        uint64_t bits = (uint32_t)cst_refit_steps(values[i * stride], step) & 0xFFFFF;
        if (i + 1 < count)
            bits |= (uint64_t)((uint32_t)cst_refit_steps(values[(i + 1) * stride], step) & 0xFFFFF)
                    << CST_REFIT_BITS;
        cst_put_word(c->to, bits, i + 1 < count ? 5 : 3);
    }
    const uint8_t *bytes = cst_codec_take(c, cst_refit_column_bytes(count));
    for (size_t i = 0; bytes && i < count; i++) {
        const uint8_t *from = bytes + i / 2 * 5 + (i % 2 ? 2 : 0);
        uint32_t bits = from[0] | (uint32_t)from[1] << 8 | (uint32_t)from[2] << 16;
        bits = i % 2 ? bits >> 4 : bits & 0xFFFFF;
        int32_t steps = (int32_t)bits - (bits & 0x80000 ? 1 << CST_REFIT_BITS : 0);
        values[i * stride] = steps * step;
    }
    if (bytes && count % 2 && bytes[count / 2 * 5 + 2] >> 4 != 0)
        cst_refuse(c, c->at - 1, "the last bits after %s are not 0", what);
}

static void code_refit(cst_codec *c, const cst_model *model, bool packed, cst_refit *refit) {
    static const double most = CST_MODEL_REFIT_MAX;
    static const double far = CST_MODEL_COEFFICIENT_MAX;
    size_t at = c->at;
    size_t k = (size_t)model->members;
    bool values = cst_task_has_outputs(model->task);
    cst_refit head = *refit;
    CST_CODE_INT(c, head.learner, "the meta-learner of a refit", 0, model->learners - 1);
    CST_CODE_INT(c, head.output, "the output of a refit", 0, values ? model->classes - 1 : 0);
    CST_CODE_INT(c, head.biases, "the number of biases of a refit", 0, INT32_MAX);
    CST_CODE_INT(c, head.nonnegative, "whether weights are bounded", 0, 1);
    if (head.biases != (values ? 1 : model->learner[head.learner].biases))
        cst_refuse(c, at, "a refit has %d biases, which its meta-learner has not", head.biases);
    size_t biases = (size_t)head.biases;
    /* No product overflows: at most 2^20 members, and of members and classes 2^27. */
    packed = packed && head.biases > CST_REFIT_PLAIN;
    size_t each = packed ? 8 + cst_refit_column_bytes(biases) : 8 * biases;
    size_t bytes = 8 * (5 + k * (k + 1) / 2 + 4 * k) + each * (k + 1);
    cst_codec_expect(c, bytes, 1, "bytes of a refit");
    cst_refit *made = refit;
    if (cst_codec_reads(c))
        c->status = cst_refits_add(c->context, model->refits, model->members, head.biases, &made);
    if (c->status != CST_OK)
        return;
    refit = made;
    CST_CODE_FIELD(c, refit->learner, head.learner);
    CST_CODE_FIELD(c, refit->output, head.output);
    CST_CODE_FIELD(c, refit->nonnegative, head.nonnegative);
    cst_code_f64(c, &refit->share, "the share of a refit", 0, 1 + CST_MODEL_BLEND_TOLERANCE);
    cst_code_f64(c, &refit->pair, "a refit's precision of the common scale", -most, most);
    cst_code_f64(c, &refit->pull, "a refit's pull", 0, most);
    cst_code_f64(c, &refit->loss, "a refit's loss", 0, most);
    cst_code_f64(c, &refit->least, "a refit's lowest loss", 0, most);
    cst_code_symmetric(c, refit->curvature, k, "a curvature", most);
    cst_code_f64s(c, refit->slope, k, "a slope", -most, far);
    cst_code_f64s(c, refit->ridge, k, "a ridge", 0, far);
    cst_code_f64s(c, refit->l1, k, "an l1 penalty", 0, far);
    cst_code_f64s(c, refit->center, k, "a center", 0, far);
    if (packed) {
        code_column(c, refit->rest, biases, 1, "the biases without members");
        for (size_t j = 0; j < k; j++)
            code_column(c, refit->tilt + j, biases, k, "the slopes of the biases");
        return;
    }
    cst_code_f64s(c, refit->rest, biases, "a bias without members", -most, far);
    cst_code_f64s(c, refit->tilt, biases * k, "a bias's slope", -most, far);
}

static void code_all_refits(cst_codec *c, cst_model *model, bool packed) {
    if (model->refits)
        cst_refuse(c, c->at, "sections ABSE and ABSP are in one model");
    int32_t count = cst_code_int(c, model->refits ? model->refits->count : 0,
                                 "the number of refits", 1, INT32_MAX);
    cst_codec_expect(c, (size_t)count, 56, "refits");
    if (cst_codec_reads(c))
        c->status = cst_refits_take(c->context, c->scope, count, &model->refits);
    for (int32_t i = 0; c->status == CST_OK && model->refits && i < count; i++)
        code_refit(c, model, packed, &model->refits->refit[i]);
}

void cst_code_refits(cst_codec *c, cst_model *model) {
    code_all_refits(c, model, false);
}

void cst_code_packed(cst_codec *c, cst_model *model) {
    code_all_refits(c, model, true);
}
