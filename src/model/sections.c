/* The sections of a model file, each described once for writing and for reading: every count is
 * held against the bytes that are left before memory is taken, every number and name is checked.
 * docs/model-format.md. */
#include "method/gate/gate.h"
#include "model/absent.h"
#include "model/cascade.h"
#include "model/codec.h"
#include "model/transform.h"
#include "model/values.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

/* Bounds prediction's memory for one sample. */
static void check_cells(cst_codec *c, size_t at, const char *what, int64_t count, int64_t classes) {
    if (count * classes > CST_MODEL_CELLS_MAX) /* at most 2^31 * 2^31 */
        cst_refuse(c, at, "%" PRId64 " %s of %" PRId64 " classes are more than %" PRId64 " numbers",
                   count, what, classes, CST_MODEL_CELLS_MAX);
}

/* ---- what every model has ---- */

static void code_task(cst_codec *c, cst_model *model) {
    size_t at = c->at;
    CST_CODE_INT(c, model->task, "the task", 0, CST_TASK_TOPK);
    int32_t least = cst_task_has_outputs(model->task) ? 1 : 2;
    CST_CODE_INT(c, model->classes, "the number of classes", least, CST_MODEL_CLASSES_MAX);
    CST_CODE_INT(c, model->members, "the number of members", 1, CST_MODEL_MEMBERS_MAX);
    check_cells(c, at, "members", model->members, model->classes);
}

static void code_members(cst_codec *c, cst_model *model) {
    size_t at = c->at;
    size_t count = (size_t)model->members;
    if (!CST_CODE_ROOM(c, model->member_names, count, 13, "members") ||
        !CST_CODE_ROOM(c, model->mix, count, 13, "members"))
        return;
    for (size_t k = 0; c->status == CST_OK && k < count; k++) {
        cst_code_string(c, &model->member_names[k], "member name", k);
        cst_code_f64(c, &model->mix[k], "a member's share of the uniform distribution", 0, 1);
    }
    cst_codec_different(c, at, model->member_names, count, "", "member name");
}

/* Class names may repeat (two of ImageNet's are "crane"): nothing is looked up by them. */
static void code_classes(cst_codec *c, cst_model *model) {
    size_t count = (size_t)model->classes;
    if (CST_CODE_ROOM(c, model->class_names, count, 5, "class names"))
        cst_code_strings(c, model->class_names, count, "class name");
}

static void code_gate(cst_codec *c, cst_model *model) {
    static const char what[] = "a weight of the gate";
    cst_gate *gate = &model->gate;
    if (!c->to)
        gate->inputs = model->members;
    CST_CODE_INT(c, gate->mode, "the gate's mode", 0, CST_GATE_LEARNED);
    bool learned = gate->mode == CST_GATE_LEARNED;
    bool none = gate->mode == CST_GATE_NONE;
    int32_t best = cst_code_int(c, none ? 0 : gate->best, "the position of the best member", 0,
                                none ? 0 : model->members - 1);
    int32_t units = cst_code_int(c, learned ? gate->hidden : 0, "the number of hidden units",
                                 learned ? 1 : 0, learned ? CST_MODEL_HIDDEN_MAX : 0);
    CST_CODE_FIELD(c, gate->best, best);
    CST_CODE_FIELD(c, gate->hidden, units);
    if (!learned || c->status != CST_OK)
        return;
    size_t inputs = (size_t)gate->inputs;
    size_t hidden = (size_t)gate->hidden; /* no product overflows: at most 2^20 * 2^16 */
    cst_code_new_f32s(c, &gate->w1, hidden * inputs, what, CST_MODEL_GATE_MAX);
    cst_code_new_f32s(c, &gate->b1, hidden, what, CST_MODEL_GATE_MAX);
    cst_code_new_f32s(c, &gate->w2, CST_AGGREGATORS * hidden, what, CST_MODEL_GATE_MAX);
    cst_code_new_f32s(c, &gate->b2, CST_AGGREGATORS, what, CST_MODEL_GATE_MAX);
}

static void code_settings(cst_codec *c, cst_model *model) {
    size_t first = c->at;
    size_t count = cst_code_u32(c, (uint32_t)model->settings);
    if (!CST_CODE_ROOM(c, model->setting, count, 5, "settings"))
        return;
    if (c->to) {
        cst_code_strings(c, model->setting, count, "setting");
        return;
    }
    model->settings = count;
    for (size_t i = 0; c->status == CST_OK && i < count; i++) {
        size_t at = c->at;
        cst_code_string(c, &model->setting[i], "setting", i);
        const char *equals = model->setting[i] ? strchr(model->setting[i], '=') : NULL;
        if (!equals || equals == model->setting[i])
            cst_refuse(c, at, "setting %zu is not in the form key=value", i);
    }
    cst_codec_different(c, first, model->setting, count, "=", "setting");
}

/* ---- regression ---- */

static void code_output(cst_codec *c, cst_values *v, size_t d) {
    static const double most = 1e300;
    static const double far = CST_MODEL_TARGET_MAX;
    size_t columns = (size_t)v->columns;
    cst_code_f64(c, &v->scaling.location[d], "the location of an output", -far, far);
    cst_code_f64(c, &v->scaling.scale[d], "the scale of an output", 1 / far, far);
    cst_code_f64(c, &v->noise[d], "the noise of an output", 0, most);
    cst_code_f64(c, &v->share[d], "the share of the disagreement", 0, 1);
    cst_code_f64(c, &v->mean_spread[d], "the members' mean variance", 1e-300, most);
    cst_code_f64(c, &v->offset[d], "the variance of an intercept", 0, 1);
    cst_code_f64s(c, v->center + d * columns, columns, "a column's mean",
                  -CST_MODEL_COEFFICIENT_MAX, CST_MODEL_COEFFICIENT_MAX);
    cst_code_symmetric(c, v->covariance + d * columns * columns, columns, "a covariance",
                       CST_MODEL_COEFFICIENT_MAX);
    cst_code_f64s(c, v->quantile + d * CST_VALUE_LEVELS, CST_VALUE_LEVELS, "a quantile", 0, most);
}

/* Location, scale and variance of each output; of a covariance the lower triangle. */
static void code_values(cst_codec *c, cst_model *model) {
    size_t at = c->at;
    size_t outputs = (size_t)model->classes;
    const cst_values *known = model->values;
    int32_t columns = cst_design_columns(&model->gate);
    int32_t given =
        cst_code_int(c, known ? known->columns : 0, "the number of columns", 1, INT32_MAX);
    bool conformal =
        cst_code_int(c, known ? known->conformal : 0, "the kind of intervals", 0, 1) == 1;
    if (given != columns)
        cst_refuse(c, at, "the design has %d columns instead of %d", given, columns);
    size_t d = (size_t)columns;
    cst_codec_expect(c, outputs, 8 * (d + 6 + CST_VALUE_LEVELS + d * (d + 1) / 2), "outputs");
    if (cst_codec_reads(c))
        c->status = cst_values_take(c->context, c->scope, model->classes, columns, &model->values);
    if (cst_codec_reads(c) && model->values)
        model->values->conformal = conformal;
    for (size_t o = 0; c->status == CST_OK && model->values && o < outputs; o++)
        code_output(c, model->values, o);
}

static void code_range(cst_codec *c, cst_model *model) {
    size_t outputs = (size_t)model->classes;
    if (!CST_CODE_ROOM(c, model->range, outputs, 4, "ranges"))
        return;
    for (size_t d = 0; c->status == CST_OK && d < outputs; d++)
        CST_CODE_INT(c, model->range[d], "the range of an output", 0,
                     CST_RANGE_LOW + CST_RANGE_HIGH);
}

static void code_transform(cst_codec *c, cst_model *model) {
    static const double far = CST_MODEL_TARGET_MAX;
    size_t outputs = (size_t)model->classes;
    if (!CST_CODE_ROOM(c, model->transform, 1, 4 + 16 * outputs, "transforms"))
        return;
    cst_transform *t = model->transform;
    CST_CODE_INT(c, t->kind, "the transform of the targets", CST_TRANSFORM_LOG1P,
                 CST_TRANSFORM_LOGIT);
    size_t at = c->at;
    cst_code_new_f64s(c, &t->low, outputs, "a smallest target", far);
    cst_code_new_f64s(c, &t->high, outputs, "a largest target", far);
    for (size_t d = 0; cst_codec_reads(c) && d < outputs; d++)
        if (!cst_transform_takes(t->kind, t->low[d]) || !cst_transform_takes(t->kind, t->high[d]))
            cst_refuse(c, at, "targets of output %zu are not %s", d, cst_transform_domain(t->kind));
}

static void code_aim(cst_codec *c, cst_model *model) {
    static const double far = CST_MODEL_SLOPE_MAX;
    size_t outputs = (size_t)model->classes;
    if (!model->values)
        cst_refuse(c, c->at, "section AIMS is in a model without section REGR");
    if (!CST_CODE_ROOM(c, model->aim, 1, 4 + 24 * outputs, "aims"))
        return;
    cst_aim *aim = model->aim;
    int32_t many = cst_code_int(c, aim->residuals > 0, "whether residuals follow", 0, 1);
    aim->residuals = many * CST_AIM_RESIDUALS;
    cst_code_new_f64s(c, &aim->numbers, outputs * (size_t)(CST_AIM_COLUMNS + aim->residuals),
                      "a number of an aim", far);
}

/* ---- what follows the blend ---- */

/* Numbers in ascending order, strictly or not, from `least` to `most`. */
static void code_knots(cst_codec *c, double **values, size_t count, const char *what, bool strictly,
                       double least, double most) {
    size_t at = c->at;
    cst_code_new_f64s(c, values, count, what, most);
    const double *v = *values;
    for (size_t i = 0; cst_codec_reads(c) && i < count; i++)
        if (v[i] < least || (i > 0 && (strictly ? !(v[i] > v[i - 1]) : v[i] < v[i - 1])))
            cst_refuse(c, at + 8 * i, "%s is %g, which is below %g or not in ascending order", what,
                       v[i], least);
}

static void code_step(cst_codec *c, cst_isotonic *step, int32_t k) {
    size_t at = c->at;
    uint32_t count = cst_code_u32(c, (uint32_t)step->count);
    if (count == 0)
        cst_refuse(c, at, "isotonic map %d has no knots", k);
    code_knots(c, &step->x, count, "a knot of an isotonic map", true, -CST_MODEL_SLOPE_MAX,
               CST_MODEL_SLOPE_MAX);
    code_knots(c, &step->y, count, "a value of an isotonic map", false, 0, 1);
    CST_CODE_FIELD(c, step->count, count);
}

static void code_steps(cst_codec *c, cst_calibrator *map) {
    for (int32_t k = 0; c->status == CST_OK && k < map->classes; k++)
        code_step(c, &map->steps[k], k);
}

static void code_calibrator(cst_codec *c, const cst_model *model, cst_calibrator *map) {
    size_t classes = (size_t)model->classes;
    cst_calibrator_kind kind = (cst_calibrator_kind)cst_code_int(
        c, (int32_t)map->kind, "the kind of calibration map", 0, CST_CALIBRATOR_PLATT);
    bool sloped = kind == CST_CALIBRATOR_VECTOR || kind == CST_CALIBRATOR_PLATT;
    bool isotonic = kind == CST_CALIBRATOR_ISOTONIC;
    if (sloped || isotonic)
        cst_codec_expect(c, classes, sloped ? 16 : 20, "classes of a map");
    if (c->status != CST_OK)
        return;
    if (c->to && (sloped || isotonic) && map->classes != model->classes)
        cst_codec_given(c, NULL, 1);
    if (kind == CST_CALIBRATOR_TEMPERATURE)
        cst_code_f64(c, &map->temperature, "the temperature", CST_TEMPERATURE_LOW,
                     CST_TEMPERATURE_HIGH);
    if (sloped) {
        cst_code_new_f64s(c, &map->slopes, classes, "a slope of a calibration map",
                          CST_MODEL_SLOPE_MAX);
        cst_code_new_f64s(c, &map->intercepts, classes, "an intercept of a calibration map",
                          CST_MODEL_SLOPE_MAX);
    }
    CST_CODE_FIELD(c, map->kind, kind);
    CST_CODE_FIELD(c, map->classes, model->classes);
    if (isotonic && CST_CODE_ROOM(c, map->steps, classes, 20, "maps"))
        code_steps(c, map);
    if (cst_codec_reads(c))
        cst_calibrator_describe(map);
}

static void code_calibration(cst_codec *c, cst_model *model) {
    code_calibrator(c, model, &model->calibrator);
    c->mapped = true;
}

/* Bytes of a domain without a name or biases. */
enum { DOMAIN_BYTES = 4 + 8 + 8 + 8 + 8 };

static void code_domains(cst_codec *c, cst_model *model) {
    static const double far = CST_MODEL_SLOPE_MAX;
    size_t classes = (size_t)model->classes;
    int32_t count = cst_code_int(c, model->domains ? model->domains->count : 0,
                                 "the number of domains", 1, CST_DOMAINS_MAX);
    cst_codec_expect(c, (size_t)count, DOMAIN_BYTES + 8 * classes, "domains");
    if (cst_codec_reads(c))
        c->status = cst_domain_map_alloc(c->context, count, model->classes, &model->domains);
    cst_domain_map *map = model->domains;
    cst_scope *outer = c->scope;
    for (int32_t d = 0; c->status == CST_OK && map && d < count; d++) {
        size_t at = c->at;
        c->scope = &map->scope;
        cst_code_string(c, &map->names[d], "domain", (size_t)d);
        c->scope = outer;
        if (cst_codec_reads(c) && d > 0 && strcmp(map->names[d - 1], map->names[d]) >= 0)
            cst_refuse(c, at, "the domains are not in ascending order, or one is there twice");
        at = c->at;
        CST_CODE_FIELD(c, map->rows[d], cst_code_u64(c, (uint64_t)map->rows[d]));
        if (map->rows[d] < 0)
            cst_refuse(c, at, "the number of rows of a domain is beyond 2^63");
        cst_code_f64(c, &map->before[d], "a domain's NLL", 0, CST_MODEL_COEFFICIENT_MAX);
        cst_code_f64(c, &map->after[d], "a domain's NLL", 0, CST_MODEL_COEFFICIENT_MAX);
        cst_code_f64(c, &map->scale[d], "a domain's scale", -far, far);
        cst_code_f64s(c, map->bias + (size_t)d * classes, classes, "a domain's bias", -far, far);
    }
}

void cst_code_others(cst_codec *c, const cst_model *model, char **names, int32_t count) {
    static const char what[] = "name of a member beside the stack's";
    size_t at = c->at;
    cst_code_strings(c, names, (size_t)count, what);
    cst_codec_different(c, at, names, (size_t)count, "", what);
    for (int32_t i = 0; cst_codec_reads(c) && i < count; i++)
        for (int32_t k = 0; k < model->members; k++)
            if (strcmp(names[i], model->member_names[k]) == 0)
                cst_refuse(c, at, "member '%s' is one of the stack and beside it", names[i]);
}

static void code_adapted(cst_codec *c, cst_model *model) {
    static const double far = CST_MODEL_SLOPE_MAX;
    const cst_adapted *known = model->adapted;
    size_t first = c->at;
    uint64_t rows = cst_code_u64(c, known ? (uint64_t)known->rows : 0);
    size_t at = c->at;
    int32_t extra =
        cst_code_int(c, known ? known->extra : 0, "the number of members that came back", 0,
                     CST_MODEL_MEMBERS_MAX - model->members);
    if (rows == 0 || rows > INT64_MAX)
        cst_refuse(c, first, "the number of rows of an adaptation is %" PRIu64, rows);
    size_t members = (size_t)model->members + (size_t)extra;
    check_cells(c, at, "members", (int64_t)members, model->classes);
    cst_codec_expect(c, members, 16, "members");
    cst_codec_expect(c, (size_t)model->classes, 8, "classes");
    if (cst_codec_reads(c))
        c->status = cst_adapted_take(c->context, c->scope, (int32_t)members, extra, model->classes,
                                     &model->adapted);
    cst_adapted *adapted = model->adapted;
    if (c->status != CST_OK || !adapted)
        return;
    CST_CODE_FIELD(c, adapted->rows, rows);
    cst_code_others(c, model, adapted->names, extra);
    cst_code_f64s(c, adapted->mix, members, "a member's share of the uniform distribution",
                  CST_MODEL_MIX_MIN, 1);
    cst_code_f64(c, &adapted->scale, "the stack's scale", -far, far);
    cst_code_f64s(c, adapted->weights, members, "a weight", -far, far);
    cst_code_f64s(c, adapted->bias, (size_t)model->classes, "a bias", -far, far);
}

/* ---- meta-learners ---- */

static void code_own(cst_codec *c, const cst_model *model, size_t index, cst_learner *learner) {
    size_t at = c->at;
    if (cst_code_int(c, learner->own != NULL, "whether a meta-learner has parts of its own", 0,
                     1) == 0)
        return;
    if (!c->to)
        learner->own = cst_codec_alloc(c, 1, sizeof *learner->own);
    cst_learner_own *own = learner->own;
    if (!own)
        return;
    cst_code_string(c, &own->name, "name of a meta-learner", index);
    if (cst_codec_reads(c) && strlen(own->name) > CST_MODEL_TITLE_MAX)
        cst_refuse(c, at, "the name of meta-learner %zu has more than %zu bytes", index,
                   CST_MODEL_TITLE_MAX);
    CST_CODE_INT(c, own->map, "the map from scores to probabilities", 0, CST_PROBABILITY_FINE);
    if (cst_code_int(c, own->mix != NULL, "whether a meta-learner has a mixing", 0, 1) == 1) {
        at = c->at;
        cst_code_new_f64s(c, &own->mix, (size_t)model->members,
                          "a share of the uniform distribution", 1);
        for (int32_t k = 0; cst_codec_reads(c) && k < model->members; k++)
            if (!(own->mix[k] >= CST_MODEL_MIX_MIN && own->mix[k] < 1))
                cst_refuse(c, at + 8 * (size_t)k,
                           "a share of the uniform distribution is %g, which is not from %g to 1",
                           own->mix[k], CST_MODEL_MIX_MIN);
    }
    cst_code_f64(c, &own->linear, "the factor of probabilities", 0, CST_MODEL_SLOPE_MAX);
    at = c->at;
    if (cst_code_int(c, own->scaling != NULL, "whether members are scaled", 0, 1) == 1 &&
        CST_CODE_ROOM(c, own->scaling, (size_t)model->members, 4, "scalings"))
        CST_CODE_FIELD(c, own->scaled, model->members);
    for (int32_t k = 0; c->status == CST_OK && own->scaling && k < own->scaled; k++) {
        code_calibrator(c, model, &own->scaling[k]);
        cst_calibrator_kind kind = own->scaling[k].kind;
        if (kind != CST_CALIBRATOR_VECTOR && kind != CST_CALIBRATOR_TEMPERATURE)
            cst_refuse(c, at,
                       "the scaling of a member is neither a temperature nor vector scaling");
    }
    code_calibrator(c, model, &own->calibrator);
}

/* The learners themselves follow in LEAR. */
static void code_owns(cst_codec *c, cst_model *model) {
    size_t at = c->at;
    int32_t count = cst_code_int(c, model->learners, "the number of meta-learners", 1, INT32_MAX);
    if (!CST_CODE_ROOM(c, model->learner, (size_t)count, 4, "meta-learners"))
        return;
    check_cells(c, at, "meta-learners", count, model->classes);
    CST_CODE_FIELD(c, model->learners, count);
    for (int32_t l = 0; c->status == CST_OK && l < count; l++)
        code_own(c, model, (size_t)l, &model->learner[l]);
}

static void code_network(cst_codec *c, cst_model *model) {
    int32_t hidden = cst_code_int(c, model->network ? model->network->hidden : 0,
                                  "the number of hidden units", 1, CST_MODEL_HIDDEN_MAX);
    size_t size = cst_network_size(model->members, model->classes, hidden);
    cst_codec_expect(c, size > 0 ? size : SIZE_MAX, 8, "numbers of a network");
    if (cst_codec_reads(c))
        c->status = cst_network_take(c->context, c->scope, model->members, model->classes, hidden,
                                     &model->network);
    static const double most = CST_MODEL_SLOPE_MAX;
    cst_network *net = model->network;
    if (c->status != CST_OK || !net)
        return;
    size_t inputs = (size_t)model->members * (size_t)model->classes; /* at most 2^27 */
    cst_code_f64s(c, net->mean, inputs, "the mean of an input", -most, most);
    cst_code_f64s(c, net->scale, inputs, "the scale of an input", 1 / most, most);
    cst_code_f64s(c, net->theta, size, "a weight of the network", -most, most);
}

/* How many coefficients and biases a learner of this kind has. */
static void check_lengths(cst_codec *c, size_t at, const cst_model *model,
                          const cst_learner *learner, int32_t index) {
    bool linear = cst_learner_is_linear(learner->kind);
    bool network = learner->kind == CST_LEARNER_NETWORK;
    int32_t coefficients = network ? 0 : linear ? cst_design_columns(&model->gate) : model->members;
    int32_t biases = network ? 0 : linear ? 1 : model->classes;
    if (cst_task_has_outputs(model->task) && linear) { /* a linear function for each output */
        if (coefficients > INT32_MAX / model->classes)
            cst_refuse(c, at, "%d outputs and %d columns are too many", model->classes,
                       coefficients);
        else
            coefficients *= model->classes;
        biases = model->classes;
    }
    if (learner->coefficients != coefficients)
        cst_refuse(c, at, "meta-learner %d has %d coefficients instead of %d", index,
                   learner->coefficients, coefficients);
    if (learner->biases != biases && (linear || learner->biases != 0))
        cst_refuse(c, at, "meta-learner %d has %d biases instead of %d", index, learner->biases,
                   biases);
}

/* A mixture of probabilities is one as it is. */
static void check_mixture(cst_codec *c, size_t at, const cst_model *model,
                          const cst_learner *learner, int32_t index) {
    if (!cst_codec_reads(c) || cst_learner_map(model, learner) != CST_PROBABILITY_MIXTURE ||
        !cst_learner_is_linear(learner->kind))
        return;
    int32_t functions = cst_task_has_outputs(model->task) ? model->classes : 1;
    int32_t columns = learner->coefficients / functions;
    bool good = columns >= model->members;
    for (int32_t d = 0; good && d < functions; d++) {
        const double *weights = learner->weights + (size_t)d * (size_t)columns;
        double sum = 0;
        good = learner->bias[d] == 0;
        for (int32_t k = 0; good && k < columns; k++) {
            good = k < model->members ? weights[k] >= 0 : weights[k] == 0;
            sum += weights[k];
        }
        good = good && fabs(sum - 1) <= CST_MODEL_MIXTURE_TOLERANCE;
    }
    if (!good)
        cst_refuse(c, at,
                   "meta-learner %d is no mixture: its weights are to be 0 or more with sum 1, "
                   "without a bias or a gate",
                   index);
}

/* Whether the model has what a learner of this kind reads. */
static void check_kind(cst_codec *c, size_t at, const cst_model *model, const cst_learner *learner,
                       int32_t index) {
    if (learner->kind == CST_LEARNER_LOGLINEAR && cst_task_has_outputs(model->task))
        cst_refuse(c, at, "meta-learner %d is a log-linear pool, but the task is %s", index,
                   cst_task_name(model->task));
    if (learner->kind == CST_LEARNER_LINEAR && !cst_task_has_outputs(model->task) &&
        cst_learner_map(model, learner) <= CST_PROBABILITY_SIMPLEX)
        cst_refuse(c, at, "meta-learner %d is of a kind for regression only", index);
    if (learner->kind == CST_LEARNER_NETWORK && !model->network)
        cst_refuse(c, at, "meta-learner %d is a network, but section NETW is missing", index);
}

static void code_learner(cst_codec *c, const cst_model *model, cst_learner *learner,
                         int32_t index) {
    size_t at = c->at;
    uint32_t kind = cst_code_u32(c, (uint32_t)learner->kind);
    if (kind > CST_LEARNER_NETWORK)
        cst_refuse(c, at, "meta-learner %d is of unknown kind %u", index, kind);
    CST_CODE_FIELD(c, learner->kind, c->status == CST_OK ? kind : CST_LEARNER_RIDGE);
    check_kind(c, at, model, learner, index);
    CST_CODE_INT(c, learner->coefficients, "the number of coefficients", 0, INT32_MAX);
    CST_CODE_INT(c, learner->biases, "the number of biases", 0, INT32_MAX);
    cst_code_f64(c, &learner->blend, "a blend weight", 0, 1 + CST_MODEL_BLEND_TOLERANCE);
    check_lengths(c, at, model, learner, index);
    bool mixes = learner->own && learner->own->mix;
    mixes = mixes || model->task == CST_TASK_TOPK; /* or needs none */
    for (int32_t k = 0; learner->kind == CST_LEARNER_LOGLINEAR && !mixes && k < model->members; k++)
        if (!(model->mix[k] >= CST_MODEL_MIX_MIN && model->mix[k] < 1))
            cst_refuse(c, at,
                       "meta-learner %d takes logarithms, but member '%s' is mixed with a share %g "
                       "of the uniform distribution, which is not from %g to 1",
                       index, model->member_names[k], model->mix[k], CST_MODEL_MIX_MIN);
    if (c->status != CST_OK)
        return;
    cst_code_new_f64s(c, &learner->weights, (size_t)learner->coefficients, "a coefficient",
                      CST_MODEL_COEFFICIENT_MAX);
    cst_code_new_f64s(c, &learner->bias, (size_t)learner->biases, "a bias",
                      CST_MODEL_COEFFICIENT_MAX);
    check_mixture(c, at, model, learner, index);
}

static void code_learners(cst_codec *c, cst_model *model) {
    CST_CODE_INT(c, model->map, "the map from scores to probabilities", 0,
                 c->mapped ? CST_PROBABILITY_FINE : CST_PROBABILITY_SIMPLEX);
    size_t at = c->at;
    int32_t count = cst_code_int(c, model->learners, "the number of meta-learners", 1, INT32_MAX);
    if (model->learner && count != model->learners)
        cst_refuse(c, at, "there are %d meta-learners, but %d in section OWNS", count,
                   model->learners);
    if (!model->learner && !CST_CODE_ROOM(c, model->learner, (size_t)count, 20, "meta-learners"))
        return;
    check_cells(c, at, "meta-learners", count, model->classes);
    if (c->status != CST_OK)
        return;
    CST_CODE_FIELD(c, model->learners, count);
    double sum = 0;
    bool network = false;
    for (int32_t l = 0; c->status == CST_OK && model->learner && l < count; l++) {
        code_learner(c, model, &model->learner[l], l);
        sum += model->learner[l].blend;
        network = network || model->learner[l].kind == CST_LEARNER_NETWORK;
    }
    if (!(fabs(sum - 1) <= CST_MODEL_BLEND_TOLERANCE))
        cst_refuse(c, at, "the blend weights sum to %.12g instead of 1", sum);
    if (model->network && !network)
        cst_refuse(c, at, "section NETW is in a model without such a meta-learner");
}

/* ---- detection ---- */

static void code_rule(cst_codec *c, cst_model *model) {
    size_t at = c->at;
    int32_t rule =
        cst_code_int(c, model->fusion ? (int32_t)model->fusion->rule : 0, "the rule for boxes",
                     CST_BOX_RULE_LEARNERS + 1, CST_BOX_RULE_SOFT_NMS_LINEAR);
    if (rule == CST_BOX_RULE_BEST && model->members != 1)
        cst_refuse(c, at, "the boxes of the best member are of %d members", model->members);
    c->rule = (cst_box_rule)rule;
}

static void code_categories(cst_codec *c, cst_fusion *fusion, size_t count) {
    for (size_t k = 0; c->status == CST_OK && k < count; k++) {
        size_t at = c->at;
        CST_CODE_FIELD(c, fusion->category_id[k],
                       cst_code_u64(c, (uint64_t)fusion->category_id[k]));
        if (k > 0 && fusion->category_id[k] <= fusion->category_id[k - 1])
            cst_refuse(c, at, "the ids of the categories are not in ascending order");
        if (cst_code_int(c, fusion->category_name[k] != NULL, "whether a category has a name", 0,
                         1) == 1)
            cst_code_string(c, &fusion->category_name[k], "category name", k);
    }
}

static void code_fusion(cst_codec *c, cst_model *model) {
    if (!c->to) {
        model->fusion = cst_codec_alloc(c, 1, sizeof *model->fusion);
        if (!model->fusion)
            return;
        model->fusion->rule = c->rule;
    }
    cst_fusion *fusion = model->fusion;
    cst_code_f64(c, &fusion->iou, "the overlap of boxes that are one object", 0, 1);
    cst_code_f64(c, &fusion->min_score, "the lowest score of a box", 0, 1);
    CST_CODE_INT(c, fusion->max_boxes, "the maximum number of boxes of a member", 1, INT32_MAX);
    size_t count = (size_t)cst_code_int(c, fusion->categories, "the number of categories", 1,
                                        CST_MODEL_CLASSES_MAX);
    if (!CST_CODE_ROOM(c, fusion->category_id, count, 12, "categories") ||
        !CST_CODE_ROOM(c, fusion->category_name, count, 12, "categories"))
        return;
    CST_CODE_FIELD(c, fusion->categories, count);
    code_categories(c, fusion, count);
    if (c->status != CST_OK)
        return;
    size_t at = c->at;
    size_t weights = count * (size_t)model->members; /* at most 2^24 * 2^20 */
    cst_code_new_f64s(c, &fusion->weights, weights, "a weight of a box", CST_MODEL_COEFFICIENT_MAX);
    for (size_t i = 0; cst_codec_reads(c) && i < weights; i++)
        if (fusion->weights[i] < 0)
            cst_refuse(c, at + 8 * i, "a weight of a box is %g, which is negative",
                       fusion->weights[i]);
}

static void code_scoring(cst_codec *c, cst_model *model) {
    size_t members = (size_t)model->members;
    if (!model->fusion) {
        cst_refuse(c, c->at, "scores of boxes without %s", "their fusion");
        return;
    }
    if (!c->to) {
        model->fusion->scoring = cst_codec_alloc(c, 1, sizeof *model->fusion->scoring);
        if (!model->fusion->scoring ||
            !CST_CODE_ROOM(c, model->fusion->scoring->map, members, 48, "maps of scores"))
            return;
    }
    cst_box_scoring *s = model->fusion->scoring;
    for (size_t k = 0; c->status == CST_OK && k < members; k++)
        code_step(c, &s->map[k], (int32_t)k);
    cst_code_new_f64s(c, &s->absent, members, "the score of an absent box", 1);
    cst_code_new_f64s(c, &s->share, members, "a weight of a score", CST_MODEL_COEFFICIENT_MAX);
    for (size_t k = 0; cst_codec_reads(c) && k < members; k++)
        if (s->share[k] < 0 || s->absent[k] < 0)
            cst_refuse(c, c->at, "a weight of a score is %g, which is negative", s->share[k]);
    CST_CODE_INT(c, s->members, "the members of the fit", 1, INT32_MAX);
    cst_code_f64s(c, s->slope, 2, "a slope of a score", -CST_MODEL_SLOPE_MAX, CST_MODEL_SLOPE_MAX);
    cst_code_f64s(c, s->bias, CST_BOX_COUNTS + 1, "a bias of a score", -CST_MODEL_SLOPE_MAX,
                  CST_MODEL_SLOPE_MAX);
}

static void code_agreement(cst_codec *c, cst_model *model) {
    size_t members = (size_t)model->members;
    if (!model->fusion) {
        cst_refuse(c, c->at, "agreement of boxes without %s", "their fusion");
        return;
    }
    if (!c->to) {
        model->fusion->agreement = cst_codec_alloc(c, 1, sizeof *model->fusion->agreement);
        if (!model->fusion->agreement)
            return;
        model->fusion->agreement->members = model->members;
    }
    cst_box_agreement *a = model->fusion->agreement;
    cst_code_new_f64s(c, &a->least, members, "a score that counts", 1);
    cst_code_new_f64s(c, &a->share, members, "a share of boxes", 1);
    for (size_t k = 0; cst_codec_reads(c) && k < members; k++)
        if (a->least[k] < 0 || a->share[k] < 0)
            cst_refuse(c, c->at, "a share of boxes is %g, which is negative",
                       fmin(a->least[k], a->share[k]));
}

/* ---- which sections there are ---- */

static bool has_calibration(const cst_model *model) {
    return model->calibrator.kind != CST_CALIBRATOR_NONE || model->map > CST_PROBABILITY_SIMPLEX;
}

static void code_decision(cst_codec *c, cst_model *model) {
    static const double far = CST_MODEL_SLOPE_MAX;
    size_t classes = (size_t)model->classes;
    if (!c->to)
        model->decision = cst_codec_alloc(c, 1, sizeof *model->decision);
    cst_decision *d = model->decision;
    if (!d)
        return;
    d->classes = model->classes;
    bool costs = cst_code_int(c, d->costs != NULL, "the kind of decisions", 0, 1) == 1;
    double *numbers = (double *)(uintptr_t)(costs ? d->costs : d->offsets); /* only read, or new */
    cst_code_new_f64s(c, &numbers, costs ? classes * classes : classes, "a number of a decision",
                      far);
    *(costs ? &d->costs : &d->offsets) = numbers;
}

static bool has_rule(const cst_model *model) {
    return model->fusion && model->fusion->rule != CST_BOX_RULE_LEARNERS;
}

static bool has_scoring(const cst_model *model) {
    return model->fusion && model->fusion->scoring;
}

static bool has_agreement(const cst_model *model) {
    return model->fusion && model->fusion->agreement;
}

static bool has_own(const cst_model *model) {
    for (int32_t l = 0; l < model->learners; l++)
        if (model->learner[l].own)
            return true;
    return false;
}

static bool has_refits(const cst_model *model) {
    return model->refits && !cst_refits_packed(model->refits);
}

static bool has_packed(const cst_model *model) {
    return cst_refits_packed(model->refits);
}

enum {
    NEEDED = CST_MODEL_REQUIRED,
    CLASSES = 1 << CST_TASK_CLASSIFICATION,
    MAPS = 1 << CST_TASK_SEGMENTATION,
    VALUES = 1 << CST_TASK_REGRESSION,
    BOXES = 1 << CST_TASK_DETECTION,
    LABELS = 1 << CST_TASK_MULTILABEL,
    LISTS = 1 << CST_TASK_TOPK,
    ONE_OF = CLASSES | MAPS | BOXES, /* distributions over classes */
    ANY = ONE_OF | VALUES | LABELS | LISTS
};

/* In the order of the file. A section without `has` is there if the model's pointer at `part` is;
 * one that is `always` there is missed. */
static const struct {
    char tag[5];
    uint32_t flags;
    uint32_t tasks; /* of models that may have it */
    bool always;
    void (*code)(cst_codec *c, cst_model *model);
    size_t part;
    bool (*has)(const cst_model *model);
} SECTIONS[] = {
    {"TASK", NEEDED, ANY, true, code_task, 0, NULL},
    {"MEMB", NEEDED, ANY, true, code_members, 0, NULL},
    {"CLAS", 0, ANY, false, code_classes, offsetof(cst_model, class_names), NULL},
    {"GATE", NEEDED, ANY, true, code_gate, 0, NULL},
    {"REGR", NEEDED, VALUES, false, code_values, offsetof(cst_model, values), NULL},
    {"RANG", NEEDED, VALUES, false, code_range, offsetof(cst_model, range), NULL},
    {"TRAN", NEEDED, VALUES, false, code_transform, offsetof(cst_model, transform), NULL},
    {"AIMS", 0, VALUES, false, code_aim, offsetof(cst_model, aim), NULL},
    {"CALI", NEEDED, ANY & ~VALUES, false, code_calibration, 0, has_calibration},
    {"NETW", NEEDED, ONE_OF, false, code_network, offsetof(cst_model, network), NULL},
    {"RULE", NEEDED, BOXES, false, code_rule, 0, has_rule},
    {"OWNS", NEEDED, ONE_OF, false, code_owns, 0, has_own},
    {"LEAR", NEEDED, ANY, true, code_learners, 0, NULL},
    {"FUSE", NEEDED, BOXES, false, code_fusion, offsetof(cst_model, fusion), NULL},
    {"SCOR", NEEDED, BOXES, false, code_scoring, 0, has_scoring},
    {"AGRE", 0, BOXES, false, code_agreement, 0, has_agreement},
    {"DOMA", NEEDED, CLASSES, false, code_domains, offsetof(cst_model, domains), NULL},
    {"ADPT", NEEDED, CLASSES, false, code_adapted, offsetof(cst_model, adapted), NULL},
    {"DECI", 0, CLASSES, false, code_decision, offsetof(cst_model, decision), NULL},
    {"CASC", 0, CLASSES, false, cst_code_cascade, offsetof(cst_model, cascade), NULL},
    {"ABSE", 0, ANY, false, cst_code_refits, 0, has_refits},
    {"ABSP", 0, ANY, false, cst_code_packed, 0, has_packed},
    {"NOVE", 0, CLASSES | MAPS, false, cst_code_novelty, offsetof(cst_model, reference.novelty),
     NULL},
    {"NOVI", 0, MAPS, false, cst_code_cases, offsetof(cst_model, reference.cases), NULL},
    {"CONF", 0, CLASSES, false, cst_code_confusion, offsetof(cst_model, reference.confusion), NULL},
    {"LEAN", 0, CLASSES, false, cst_code_mixing, offsetof(cst_model, reference.mixing), NULL},
    {"MONI", 0, CLASSES, false, cst_code_gauge, offsetof(cst_model, reference.gauge), NULL},
    {"SETT", 0, ANY, true, code_settings, 0, NULL},
#ifndef CST_SMALL /* the library for prediction alone */
    {"HIST", 0, ANY, false, cst_code_history, offsetof(cst_model, history), NULL},
#endif
};
enum { COUNT = sizeof SECTIONS / sizeof *SECTIONS };

static bool is_wanted(const cst_model *model, int section) {
    if (SECTIONS[section].always)
        return true;
    if (SECTIONS[section].has)
        return SECTIONS[section].has(model);
    void *part = NULL; /* all object pointers have one form here */
    memcpy(&part, (const char *)model + SECTIONS[section].part, sizeof part);
    return part != NULL;
}

/* ---- writing ---- */

/* Whether counts that the writer goes by agree. What the numbers may be is the reader's to say. */
static bool is_complete(const cst_model *model) {
    const cst_gate *gate = &model->gate;
    bool whole = model->members > 0 && model->classes > 0 && model->learners > 0 && model->learner;
    for (int32_t l = 0; whole && l < model->learners; l++) {
        const cst_learner *learner = &model->learner[l];
        const cst_learner_own *own = learner->own;
        whole = learner->coefficients >= 0 && learner->biases >= 0 &&
                (learner->kind == CST_LEARNER_LOGLINEAR || gate->inputs == model->members) &&
                !(own && own->scaling && own->scaled != model->members);
    }
    if (whole && gate->mode != CST_GATE_NONE)
        whole = gate->inputs == model->members && gate->best >= 0 &&
                (gate->mode != CST_GATE_LEARNED || gate->hidden > 0);
    return whole && !(model->fusion && model->fusion->categories < 1);
}

/* A length that is known once what it counts is written. */
static void set_length(cst_buffer *to, size_t at, uint64_t length) {
    for (size_t i = 0; to->status == CST_OK && i < 8; i++)
        to->bytes[at + i] = (char)(uint8_t)(length >> (8 * i));
}

static void write_file(cst_codec *c, cst_model *model) {
    cst_buffer *to = c->to;
    uint32_t sections = 0;
    for (int s = 0; s < COUNT; s++)
        sections += is_wanted(model, s);
    cst_buffer_add(to, CST_MODEL_MAGIC, CST_MODEL_MAGIC_BYTES);
    cst_put_word(to, CST_MODEL_VERSION, 4);
    cst_put_word(to, sections, 4);
    size_t length_at = to->used;
    cst_put_word(to, 0, 8);
    for (int s = 0; c->status == CST_OK && s < COUNT; s++) {
        if (!is_wanted(model, s))
            continue;
        cst_buffer_add(to, SECTIONS[s].tag, 4);
        cst_put_word(to, SECTIONS[s].flags, 4);
        cst_put_word(to, 0, 8);
        size_t first = to->used;
        SECTIONS[s].code(c, model);
        set_length(to, first - 8, to->used - first);
    }
    set_length(to, length_at, to->used + CST_MODEL_CHECKSUM_BYTES);
    if (to->status == CST_OK)
        cst_put_word(to, cst_crc32c((const uint8_t *)to->bytes, to->used), 4);
}

cst_status cst_stack_encode(cst_context *context, const cst_model *model, uint8_t **bytes,
                            size_t *size) {
    *bytes = NULL;
    *size = 0;
    cst_buffer to = {.context = context};
    cst_codec c = {.context = context, .to = &to};
    cst_model *again = NULL;
    if (cst_codec_given(&c, is_complete(model) ? model : NULL, 1))
        write_file(&c, (cst_model *)model); /* which writing does not change */
    cst_status status = c.status == CST_OK ? to.status : c.status;
    if (status == CST_OK) {
        /* The reader must accept all that is written. */
        status = cst_stack_decode(context, "the model to be saved", (const uint8_t *)to.bytes,
                                  to.used, &again);
        if (status != CST_OK && status != CST_ERROR_MEMORY && status != CST_ERROR_IO)
            status = CST_ERROR_ARGUMENT;
    }
    cst_model_free(context, again);
    if (status == CST_OK) {
        *bytes = (uint8_t *)to.bytes;
        *size = to.used;
    } else {
        cst_free(context, to.bytes);
    }
    return status;
}

/* ---- reading ---- */

/* Magic, version, length and checksum: whether these are the bytes that were written. */
static uint32_t check_envelope(cst_codec *c) {
    static const char unlike[] = "this is not a corestack model";
    size_t size = c->end;
    size_t known = size < CST_MODEL_MAGIC_BYTES ? size : CST_MODEL_MAGIC_BYTES;
    if (size == 0)
        cst_refuse(c, 0, "%s: it is empty", unlike);
    else if (memcmp(c->bytes, CST_MODEL_MAGIC, known) != 0)
        cst_refuse(c, 0, "%s", unlike);
    if (c->status == CST_OK && size >= 12) {
        uint32_t version = cst_load_u32(c->bytes + 8);
        if (version > CST_MODEL_VERSION)
            c->status = cst_fail(c->context, CST_ERROR_UNSUPPORTED,
                                 "%s: byte 8: written by a newer corestack (format %u, but this "
                                 "program reads up to %d); upgrade corestack",
                                 c->name, version, (int)CST_MODEL_VERSION);
        else if (version == 0)
            cst_refuse(c, 8, "the format version is 0, but the first version is 1");
    }
    size_t least = CST_MODEL_HEADER_BYTES + CST_MODEL_CHECKSUM_BYTES;
    if (size < least)
        cst_refuse(c, size, "truncated: the smallest model has %zu bytes; copy the file again",
                   least);
    if (c->status != CST_OK)
        return 0;
    uint64_t length = cst_load_u64(c->bytes + 16);
    if (length > size)
        cst_refuse(c, size, "truncated: it had %" PRIu64 " bytes when written; copy the file again",
                   length);
    else if (length < size)
        cst_refuse(c, (size_t)length, "extra bytes follow the end of the model");
    c->end = size - CST_MODEL_CHECKSUM_BYTES;
    uint32_t stored = cst_load_u32(c->bytes + c->end);
    if (c->status == CST_OK && stored != cst_crc32c(c->bytes, c->end))
        cst_refuse(c, c->end,
                   "wrong checksum: the file was damaged after it was written; copy it again");
    c->at = CST_MODEL_HEADER_BYTES;
    return cst_load_u32(c->bytes + 12);
}

/* Refuses when one of the sections from..to-1 has to be there. */
static void check_skipped(cst_codec *c, int from, int to) {
    for (int s = from; s < to; s++)
        if (SECTIONS[s].always)
            cst_refuse(c, c->at, "section %s is missing here", SECTIONS[s].tag);
}

static void read_payload(cst_codec *c, cst_model *model, int section, size_t length) {
    size_t end = c->end;
    c->end = c->at + length;
    SECTIONS[section].code(c, model);
    if (c->at != c->end)
        cst_refuse(c, c->at, "%zu bytes are left over in section %s", c->end - c->at,
                   SECTIONS[section].tag);
    c->end = end;
}

/* Reads one section. *next: the first known section that may still come. */
static void read_section(cst_codec *c, cst_model *model, int *next) {
    size_t at = c->at;
    const uint8_t *head = cst_codec_take(c, CST_MODEL_SECTION_BYTES);
    if (!head)
        return;
    uint32_t flags = cst_load_u32(head + 4);
    uint64_t length = cst_load_u64(head + 8);
    if (length > c->end - c->at) {
        cst_refuse(c, at + 8, "a section of %" PRIu64 " bytes is declared, but %zu are left",
                   length, c->end - c->at);
        return;
    }
    int found = 0;
    while (found < COUNT && memcmp(head, SECTIONS[found].tag, 4) != 0)
        found++;
    if (found < COUNT) {
        if (found < *next)
            cst_refuse(c, at, "section %s is a duplicate or out of order", SECTIONS[found].tag);
        if (flags != SECTIONS[found].flags)
            cst_refuse(c, at + 4, "section %s has flags 0x%x instead of 0x%x", SECTIONS[found].tag,
                       flags, SECTIONS[found].flags);
        c->at = at; /* where a section before this one is missed */
        check_skipped(c, *next, found);
        if (!(SECTIONS[found].tasks >> model->task & 1))
            cst_refuse(c, at, "section %s is in a model of %s", SECTIONS[found].tag,
                       cst_task_name(model->task));
        c->at = at + CST_MODEL_SECTION_BYTES;
        *next = found + 1;
        if (c->status == CST_OK)
            read_payload(c, model, found, (size_t)length);
    } else if (flags & NEEDED) {
        c->status = cst_fail(c->context, CST_ERROR_UNSUPPORTED,
                             "%s: byte %zu: prediction needs the section with tag 0x%08x, which "
                             "this version of corestack does not support; upgrade corestack",
                             c->name, at, cst_load_u32(head));
    } else {
        (void)cst_codec_take(c, (size_t)length);
    }
}

/* Checks sections against each other, and whether the memory of prediction is in proportion to the
 * file, of `size` bytes. */
static void check_model(cst_codec *c, size_t size, const cst_model *model) {
    if (model->task == CST_TASK_DETECTION && !model->fusion)
        cst_refuse(c, c->at, "section FUSE is missing from a detection model");
    if (model->fusion && model->classes != 2)
        cst_refuse(c, c->at, "a detection model has %d classes instead of 2", model->classes);
    if (model->task == CST_TASK_TOPK &&
        (model->learners != 1 || model->calibrator.kind > CST_CALIBRATOR_TEMPERATURE ||
         (model->learner[0].kind == CST_LEARNER_LOGLINEAR
              ? model->learner[0].biases > 0
              : model->learner[0].kind != CST_LEARNER_LINEAR)))
        cst_refuse(c, c->at, "a model of lists of classes is no pool of all members");
    if (model->task == CST_TASK_MULTILABEL && model->gate.mode != CST_GATE_NONE)
        cst_refuse(c, c->at, "a multilabel model has a gate");
    if (c->at != c->end)
        cst_refuse(c, c->at, "%zu extra bytes follow the last section", c->end - c->at);
    size_t bytes = c->status == CST_OK ? cst_stack_sample_bytes(model) : 0;
    size_t most = CST_MODEL_SAMPLE_BYTES + CST_MODEL_SAMPLE_RATIO * size;
    if (bytes > most)
        cst_refuse(c, CST_MODEL_HEADER_BYTES,
                   "a sample of %d members, %d classes and %d meta-learners takes %zu bytes to "
                   "predict, more than the %zu allowed for a file of %zu bytes: the file is "
                   "damaged, or made to exhaust memory",
                   model->members, model->classes, model->learners, bytes, most, size);
}

cst_status cst_stack_decode(cst_context *context, const char *name, const uint8_t *bytes,
                            size_t size, cst_model **out) {
    *out = NULL;
    if (size > CST_MODEL_BYTES_MAX)
        return cst_fail(context, CST_ERROR_LIMIT,
                        "%s: %zu bytes; corestack models have at most %zu", name, size,
                        CST_MODEL_BYTES_MAX);
    cst_codec c = {.context = context, .name = name, .bytes = bytes, .end = size};
    uint32_t sections = check_envelope(&c);
    cst_model *model = NULL;
    CST_TRY(c.status);
    CST_TRY(cst_stack_create(context, &model));
    c.scope = &model->scope;
    int next = 0;
    for (uint32_t s = 0; c.status == CST_OK && s < sections; s++)
        read_section(&c, model, &next);
    check_skipped(&c, next, COUNT);
    check_model(&c, size, model);
    if (c.status == CST_OK)
        *out = model;
    else
        cst_model_free(context, model);
    return c.status;
}
