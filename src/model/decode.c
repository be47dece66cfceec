/*
 * Reads the bytes of a model file into a fitted stack, trusting nothing: every count is held
 * against the bytes that are left before memory is taken, every number and name is checked.
 * Before prediction. docs/model-format.md.
 */
#include "method/gate/design.h"
#include "model/crc32c.h"
#include "model/format.h"
#include "model/reader.h"
#include "model/stack.h"
#include "model/values.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

/* ---- sections ---- */

/* What prediction holds for one sample. */
static void check_cells(cst_reader *r, size_t at, const char *what, int64_t count,
                        int64_t classes) {
    if (r->status == CST_OK && count * classes > CST_MODEL_CELLS_MAX) /* at most 2^31 * 2^31 */
        cst_reader_refuse(r, at,
                          "%" PRId64 " %s of %" PRId64 " classes are more than %" PRId64 " numbers",
                          count, what, classes, CST_MODEL_CELLS_MAX);
}

/* Whether what prediction takes is in proportion to the file, of `size` bytes. */
static void check_sample(cst_reader *r, size_t size, const cst_model *model) {
    size_t bytes = r->status == CST_OK ? cst_stack_sample_bytes(model) : 0;
    size_t most = CST_MODEL_SAMPLE_BYTES + CST_MODEL_SAMPLE_RATIO * size;
    if (bytes > most)
        cst_reader_refuse(
            r, CST_MODEL_HEADER_BYTES,
            "a sample of %" PRId32 " members, %" PRId32 " classes and %" PRId32
            " meta-learners takes %zu bytes to predict, more than the %zu allowed for a file of "
            "%zu bytes: the file is damaged, or made to exhaust memory",
            model->members, model->classes, model->learners, bytes, most, size);
}

static void get_task(cst_reader *r, cst_model *model) {
    size_t at = r->at;
    model->task = (cst_task)cst_reader_int(r, "the task", 0, CST_TASK_DETECTION);
    int32_t least = model->task == CST_TASK_REGRESSION ? 1 : 2;
    int32_t classes = cst_reader_int(r, "the number of classes", least, CST_MODEL_CLASSES_MAX);
    int32_t members = cst_reader_int(r, "the number of members", 1, CST_MODEL_MEMBERS_MAX);
    check_cells(r, at, "members", members, classes);
    if (r->status != CST_OK)
        return;
    model->classes = classes;
    model->members = members;
}

static void get_members(cst_reader *r, cst_model *model) {
    size_t at = r->at;
    size_t count = (size_t)model->members;
    model->member_names = cst_reader_room(r, count, sizeof *model->member_names, 13, "members");
    model->mix = cst_reader_room(r, count, sizeof *model->mix, 13, "members");
    for (size_t k = 0; k < count && r->status == CST_OK; k++) {
        model->member_names[k] = cst_reader_string(r, "member name", k);
        model->mix[k] = cst_reader_f64(r, "a member's share of the uniform distribution", 0, 1);
    }
    cst_reader_different(r, at, model->member_names, count, "member name");
}

/* Class names may repeat (two of ImageNet's are "crane"): nothing is looked up by them. */
static void get_classes(cst_reader *r, cst_model *model) {
    size_t count = (size_t)model->classes;
    model->class_names = cst_reader_room(r, count, sizeof *model->class_names, 5, "class names");
    for (size_t c = 0; c < count && r->status == CST_OK; c++)
        model->class_names[c] = cst_reader_string(r, "class name", c);
}

static void get_gate(cst_reader *r, cst_model *model) {
    cst_gate *gate = &model->gate;
    gate->inputs = model->members;
    gate->mode = (cst_gate_mode)cst_reader_int(r, "the gate's mode", 0, CST_GATE_LEARNED);
    bool learned = gate->mode == CST_GATE_LEARNED;
    int32_t last = gate->mode == CST_GATE_NONE ? 0 : model->members - 1;
    gate->best = cst_reader_int(r, "the position of the best member", 0, last);
    gate->hidden = cst_reader_int(r, "the number of hidden units", learned ? 1 : 0,
                                  learned ? CST_MODEL_HIDDEN_MAX : 0);
    if (!learned || r->status != CST_OK)
        return;
    size_t inputs = (size_t)gate->inputs;
    size_t hidden = (size_t)gate->hidden; /* no product overflows: at most 2^20 * 2^16 */
    static const char what[] = "a weight of the gate";
    gate->w1 = cst_reader_f32s(r, hidden * inputs, what, CST_MODEL_GATE_MAX);
    gate->b1 = cst_reader_f32s(r, hidden, what, CST_MODEL_GATE_MAX);
    gate->w2 = cst_reader_f32s(r, CST_AGGREGATORS * hidden, what, CST_MODEL_GATE_MAX);
    gate->b2 = cst_reader_f32s(r, CST_AGGREGATORS, what, CST_MODEL_GATE_MAX);
}

/* The lower triangles of the covariances. */
static void get_covariance(cst_reader *r, size_t columns, double *covariance) {
    for (size_t i = 0; i < columns && r->status == CST_OK; i++)
        for (size_t j = 0; j <= i; j++) {
            double least = i == j ? 0 : -CST_MODEL_COEFFICIENT_MAX;
            double value = cst_reader_f64(r, "a covariance", least, CST_MODEL_COEFFICIENT_MAX);
            covariance[i * columns + j] = value;
            covariance[j * columns + i] = value;
        }
}

static void get_output(cst_reader *r, cst_values *v, size_t d) {
    static const double most = 1e300;
    size_t columns = (size_t)v->columns;
    v->scaling.location[d] =
        cst_reader_f64(r, "the location of an output", -CST_MODEL_TARGET_MAX, CST_MODEL_TARGET_MAX);
    v->scaling.scale[d] =
        cst_reader_f64(r, "the scale of an output", 1 / CST_MODEL_TARGET_MAX, CST_MODEL_TARGET_MAX);
    v->noise[d] = cst_reader_f64(r, "the noise of an output", 0, most);
    v->share[d] = cst_reader_f64(r, "the share of the disagreement", 0, 1);
    v->mean_spread[d] = cst_reader_f64(r, "the members' mean variance", 1e-300, most);
    v->offset[d] = cst_reader_f64(r, "the variance of an intercept", 0, 1);
    for (size_t j = 0; j < columns; j++)
        v->center[d * columns + j] = cst_reader_f64(
            r, "a column's mean", -CST_MODEL_COEFFICIENT_MAX, CST_MODEL_COEFFICIENT_MAX);
    get_covariance(r, columns, v->covariance + d * columns * columns);
    for (size_t q = 0; q < CST_VALUE_LEVELS; q++)
        v->quantile[d * CST_VALUE_LEVELS + q] = cst_reader_f64(r, "a quantile", 0, most);
}

static void get_values(cst_reader *r, cst_model *model) {
    size_t at = r->at;
    size_t outputs = (size_t)model->classes;
    int32_t columns = cst_design_columns(&model->gate);
    int32_t given = cst_reader_int(r, "the number of columns", 1, INT32_MAX);
    bool conformal = cst_reader_int(r, "the kind of intervals", 0, 1) == 1;
    if (r->status == CST_OK && model->task != CST_TASK_REGRESSION)
        cst_reader_refuse(r, at, "section REGR is in a model that is not a regression");
    if (r->status == CST_OK && given != columns)
        cst_reader_refuse(r, at, "the design has %" PRId32 " columns instead of %" PRId32, given,
                          columns);
    size_t d = (size_t)columns;
    /* No product overflows: the bytes that are left bound all of them. */
    size_t left = (r->end - r->at) / 8;
    if (r->status == CST_OK &&
        (outputs > left / (d + 6 + CST_VALUE_LEVELS) || d > 2 * (left / outputs) / (d + 1)))
        cst_reader_refuse(r, at, "%zu outputs are declared, but %zu bytes are left", outputs,
                          r->end - r->at);
    if (r->status != CST_OK)
        return;
    cst_values *v = cst_alloc(r->context, 1, sizeof *v);
    model->values = v;
    if (v) {
        *v = (cst_values){.columns = columns, .conformal = conformal};
        v->scaling = (cst_scaling){.outputs = model->classes,
                                   .location = cst_alloc(r->context, outputs, sizeof(double)),
                                   .scale = cst_alloc(r->context, outputs, sizeof(double))};
        r->status = v->scaling.location && v->scaling.scale
                        ? cst_values_alloc(r->context, (int32_t)outputs, columns, v)
                        : CST_ERROR_MEMORY;
    } else {
        r->status = CST_ERROR_MEMORY;
    }
    for (size_t o = 0; o < outputs && r->status == CST_OK; o++)
        get_output(r, v, o);
}

/* ---- what follows the blend ---- */

/* Numbers in ascending order (strictly or not) within [-bound, bound]. */
static double *get_knots(cst_reader *r, size_t count, const char *what, bool strictly, double least,
                         double most) {
    size_t at = r->at;
    double *values = cst_reader_f64s(r, count, what, most);
    for (size_t i = 0; i < count && r->status == CST_OK; i++)
        if (values[i] < least ||
            (i > 0 && (strictly ? !(values[i] > values[i - 1]) : values[i] < values[i - 1])))
            cst_reader_refuse(r, at + 8 * i,
                              "%s is %g, which is below %g or not in ascending order", what,
                              values[i], least);
    return values;
}

static void get_steps(cst_reader *r, cst_calibrator *map) {
    for (int32_t c = 0; c < map->classes && r->status == CST_OK; c++) {
        cst_isotonic *step = &map->steps[c];
        size_t at = r->at;
        uint32_t count = cst_reader_u32(r);
        if (r->status == CST_OK && count == 0)
            cst_reader_refuse(r, at, "the isotonic map of class %" PRId32 " has no knots", c);
        step->x = get_knots(r, count, "a knot of an isotonic map", true, -CST_MODEL_SLOPE_MAX,
                            CST_MODEL_SLOPE_MAX);
        step->y = get_knots(r, count, "a value of an isotonic map", false, 0, 1);
        step->count = count;
    }
}

static void get_calibrator(cst_reader *r, const cst_model *model, cst_calibrator *map) {
    cst_calibrator_kind kind = (cst_calibrator_kind)cst_reader_int(r, "the kind of calibration map",
                                                                   0, CST_CALIBRATOR_PLATT);
    /* What the map takes is bounded by the bytes that are left. */
    size_t least = kind == CST_CALIBRATOR_VECTOR || kind == CST_CALIBRATOR_PLATT ? 16
                   : kind == CST_CALIBRATOR_ISOTONIC                             ? 20
                                                                                 : 0;
    if (r->status == CST_OK && least > 0 && (size_t)model->classes > (r->end - r->at) / least)
        cst_reader_refuse(r, r->at,
                          "a map of %" PRId32 " classes is declared, but %zu bytes are left",
                          model->classes, r->end - r->at);
    if (r->status != CST_OK)
        return;
    size_t classes = (size_t)model->classes;
    if (kind == CST_CALIBRATOR_TEMPERATURE)
        map->temperature =
            cst_reader_f64(r, "the temperature", CST_TEMPERATURE_LOW, CST_TEMPERATURE_HIGH);
    if (kind == CST_CALIBRATOR_VECTOR || kind == CST_CALIBRATOR_PLATT) {
        map->slopes =
            cst_reader_f64s(r, classes, "a slope of a calibration map", CST_MODEL_SLOPE_MAX);
        map->intercepts =
            cst_reader_f64s(r, classes, "an intercept of a calibration map", CST_MODEL_SLOPE_MAX);
    }
    map->kind = kind;
    map->classes = model->classes;
    if (kind == CST_CALIBRATOR_ISOTONIC) {
        map->steps = cst_alloc(r->context, classes, sizeof *map->steps);
        r->status = map->steps ? r->status : CST_ERROR_MEMORY;
        get_steps(r, map);
    }
    if (r->status == CST_OK)
        cst_calibrator_describe(map);
}

static void refuse_values(cst_reader *r, const cst_model *model, const char *section) {
    if (model->task == CST_TASK_REGRESSION)
        cst_reader_refuse(r, r->at, "section %s is in a model of a regression", section);
}

static void get_calibration(cst_reader *r, cst_model *model) {
    refuse_values(r, model, "CALI");
    get_calibrator(r, model, &model->calibrator);
    r->mapped = true;
}

static void get_own(cst_reader *r, const cst_model *model, size_t index, cst_learner *learner) {
    size_t at = r->at;
    if (cst_reader_int(r, "whether a meta-learner has parts of its own", 0, 1) == 0)
        return;
    cst_learner_own *own = r->status == CST_OK ? cst_alloc(r->context, 1, sizeof *own) : NULL;
    learner->own = own;
    if (!own) {
        r->status = r->status == CST_OK ? CST_ERROR_MEMORY : r->status;
        return;
    }
    own->name = cst_reader_string(r, "name of a meta-learner", index);
    if (r->status == CST_OK && strlen(own->name) > CST_MODEL_TITLE_MAX)
        cst_reader_refuse(r, at, "the name of meta-learner %zu has more than %zu bytes", index,
                          CST_MODEL_TITLE_MAX);
    own->map = (cst_probability_map)cst_reader_int(r, "the map from scores to probabilities", 0,
                                                   CST_PROBABILITY_FINE);
    if (cst_reader_int(r, "whether a meta-learner has a mixing", 0, 1) == 1) {
        at = r->at;
        own->mix =
            cst_reader_f64s(r, (size_t)model->members, "a share of the uniform distribution", 1);
        for (int32_t k = 0; k < model->members && r->status == CST_OK; k++)
            if (!(own->mix[k] >= CST_MODEL_MIX_MIN && own->mix[k] < 1))
                cst_reader_refuse(
                    r, at + 8 * (size_t)k,
                    "a share of the uniform distribution is %g, which is not from %g to 1",
                    own->mix[k], CST_MODEL_MIX_MIN);
    }
    own->linear = cst_reader_f64(r, "the factor of probabilities", 0, CST_MODEL_SLOPE_MAX);
    at = r->at;
    if (cst_reader_int(r, "whether members are scaled", 0, 1) == 1) {
        own->scaling =
            cst_reader_room(r, (size_t)model->members, sizeof *own->scaling, 4, "scalings");
        own->scaled = own->scaling ? model->members : 0;
    }
    for (int32_t k = 0; k < own->scaled && r->status == CST_OK; k++) {
        get_calibrator(r, model, &own->scaling[k]);
        cst_calibrator_kind kind = own->scaling[k].kind;
        if (r->status == CST_OK && kind != CST_CALIBRATOR_VECTOR &&
            kind != CST_CALIBRATOR_TEMPERATURE)
            cst_reader_refuse(
                r, at, "the scaling of a member is neither a temperature nor vector scaling");
    }
    get_calibrator(r, model, &own->calibrator);
}

/* The learners themselves follow in LEAR. */
static void get_owns(cst_reader *r, cst_model *model) {
    refuse_values(r, model, "OWNS");
    size_t at = r->at;
    int32_t count = cst_reader_int(r, "the number of meta-learners", 1, INT32_MAX);
    model->learner = cst_reader_room(r, (size_t)count, sizeof *model->learner, 4, "meta-learners");
    check_cells(r, at, "meta-learners", count, model->classes);
    model->learners = model->learner ? count : 0;
    for (int32_t l = 0; l < model->learners && r->status == CST_OK; l++)
        get_own(r, model, (size_t)l, &model->learner[l]);
}

static void get_network(cst_reader *r, cst_model *model) {
    size_t at = r->at;
    int32_t hidden = cst_reader_int(r, "the number of hidden units", 1, CST_MODEL_HIDDEN_MAX);
    if (r->status == CST_OK && model->task == CST_TASK_REGRESSION)
        cst_reader_refuse(r, at, "section NETW is in a model of a regression");
    size_t size = cst_network_size(model->members, model->classes, hidden);
    size_t left = (r->end - r->at) / 8;
    if (r->status == CST_OK && (size == 0 || size > left))
        cst_reader_refuse(
            r, at, "a network of %" PRId32 " hidden units is declared, but %zu bytes are left",
            hidden, r->end - r->at);
    if (r->status != CST_OK)
        return;
    cst_network *net = cst_alloc(r->context, 1, sizeof *net);
    if (!net) {
        r->status = CST_ERROR_MEMORY;
        return;
    }
    model->network = net;
    *net = (cst_network){.members = model->members, .classes = model->classes, .hidden = hidden};
    size_t inputs = (size_t)model->members * (size_t)model->classes; /* at most 2^27 */
    net->mean = cst_reader_f64s(r, inputs, "the mean of an input", CST_MODEL_SLOPE_MAX);
    at = r->at;
    net->scale = cst_reader_f64s(r, inputs, "the scale of an input", CST_MODEL_SLOPE_MAX);
    for (size_t i = 0; i < inputs && r->status == CST_OK; i++)
        if (!(net->scale[i] >= 1 / CST_MODEL_SLOPE_MAX))
            cst_reader_refuse(r, at + 8 * i,
                              "the scale of an input is %g, which is not from %g to %g",
                              net->scale[i], 1 / CST_MODEL_SLOPE_MAX, CST_MODEL_SLOPE_MAX);
    net->theta = cst_reader_f64s(r, size, "a weight of the network", CST_MODEL_SLOPE_MAX);
}

static void get_rule(cst_reader *r, cst_model *model) {
    size_t at = r->at;
    int32_t rule = cst_reader_int(r, "the rule for boxes", CST_BOX_RULE_LEARNERS + 1,
                                  CST_BOX_RULE_SOFT_NMS_LINEAR);
    if (r->status == CST_OK && model->task != CST_TASK_DETECTION)
        cst_reader_refuse(r, at, "section RULE is only for detection models");
    if (r->status == CST_OK && rule == CST_BOX_RULE_BEST && model->members != 1)
        cst_reader_refuse(r, at, "the boxes of the best member are of %" PRId32 " members",
                          model->members);
    r->rule = (cst_box_rule)rule;
}

/* How many coefficients and biases a learner of this kind has. */
static void check_lengths(cst_reader *r, size_t at, const cst_model *model,
                          const cst_learner *learner, int32_t index) {
    bool linear = cst_learner_is_linear(learner->kind);
    bool network = learner->kind == CST_LEARNER_NETWORK;
    int32_t coefficients = network ? 0 : linear ? cst_design_columns(&model->gate) : model->members;
    int32_t biases = network ? 0 : linear ? 1 : model->classes;
    if (model->task == CST_TASK_REGRESSION && linear) { /* a linear function for each output */
        if (coefficients > INT32_MAX / model->classes)
            cst_reader_refuse(r, at, "%" PRId32 " outputs and %" PRId32 " columns are too many",
                              model->classes, coefficients);
        else
            coefficients *= model->classes;
        biases = model->classes;
    }
    if (learner->coefficients != coefficients)
        cst_reader_refuse(
            r, at, "meta-learner %" PRId32 " has %" PRId32 " coefficients instead of %" PRId32,
            index, learner->coefficients, coefficients);
    if (learner->biases != biases && (linear || learner->biases != 0))
        cst_reader_refuse(r, at,
                          "meta-learner %" PRId32 " has %" PRId32 " biases instead of %" PRId32,
                          index, learner->biases, biases);
}

/* A mixture of probabilities is one as it is. */
static void check_mixture(cst_reader *r, size_t at, const cst_model *model,
                          const cst_learner *learner, int32_t index) {
    double sum = 0;
    bool good =
        r->status == CST_OK && learner->coefficients >= model->members && learner->bias[0] == 0;
    for (int32_t k = 0; good && k < learner->coefficients; k++) {
        good = k < model->members ? learner->weights[k] >= 0 : learner->weights[k] == 0;
        sum += learner->weights[k];
    }
    if (r->status == CST_OK && !(good && fabs(sum - 1) <= CST_MODEL_MIXTURE_TOLERANCE))
        cst_reader_refuse(r, at,
                          "meta-learner %" PRId32
                          " is no mixture: its weights are to be 0 or more with sum "
                          "1, without a bias or a gate",
                          index);
}

static void get_learner(cst_reader *r, const cst_model *model, cst_learner *learner,
                        int32_t index) {
    size_t at = r->at;
    uint32_t kind = cst_reader_u32(r);
    if (r->status == CST_OK && kind > CST_LEARNER_NETWORK)
        cst_reader_refuse(r, at, "meta-learner %" PRId32 " is of unknown kind %" PRIu32, index,
                          kind);
    learner->kind = r->status == CST_OK ? (cst_learner_kind)kind : CST_LEARNER_RIDGE;
    if (learner->kind == CST_LEARNER_LOGLINEAR && model->task == CST_TASK_REGRESSION)
        cst_reader_refuse(
            r, at, "meta-learner %" PRId32 " is a log-linear pool, but the task is regression",
            index);
    if (learner->kind == CST_LEARNER_LINEAR && model->task != CST_TASK_REGRESSION &&
        cst_learner_map(model, learner) <= CST_PROBABILITY_SIMPLEX)
        cst_reader_refuse(r, at, "meta-learner %" PRId32 " is of a kind for regression only",
                          index);
    if (learner->kind == CST_LEARNER_NETWORK && !model->network)
        cst_reader_refuse(
            r, at, "meta-learner %" PRId32 " is a network, but section NETW is missing", index);
    learner->coefficients = cst_reader_int(r, "the number of coefficients", 0, INT32_MAX);
    learner->biases = cst_reader_int(r, "the number of biases", 0, INT32_MAX);
    learner->blend = cst_reader_f64(r, "a blend weight", 0, 1 + CST_MODEL_BLEND_TOLERANCE);
    check_lengths(r, at, model, learner, index);
    bool mixes = learner->own && learner->own->mix;
    for (int32_t k = 0; learner->kind == CST_LEARNER_LOGLINEAR && !mixes && k < model->members; k++)
        if (!(model->mix[k] >= CST_MODEL_MIX_MIN && model->mix[k] < 1))
            cst_reader_refuse(
                r, at,
                "meta-learner %" PRId32
                " takes logarithms, but member '%s' is mixed with a share %g of the uniform "
                "distribution, which is not from %g to 1",
                index, model->member_names[k], model->mix[k], CST_MODEL_MIX_MIN);
    if (r->status != CST_OK)
        return;
    learner->weights = cst_reader_f64s(r, (size_t)learner->coefficients, "a coefficient",
                                       CST_MODEL_COEFFICIENT_MAX);
    learner->bias =
        cst_reader_f64s(r, (size_t)learner->biases, "a bias", CST_MODEL_COEFFICIENT_MAX);
    if (cst_learner_map(model, learner) == CST_PROBABILITY_MIXTURE &&
        cst_learner_is_linear(learner->kind))
        check_mixture(r, at, model, learner, index);
}

static void get_learners(cst_reader *r, cst_model *model) {
    model->map = (cst_probability_map)cst_reader_int(r, "the map from scores to probabilities", 0,
                                                     r->mapped ? CST_PROBABILITY_FINE
                                                               : CST_PROBABILITY_SIMPLEX);
    size_t at = r->at;
    int32_t count = cst_reader_int(r, "the number of meta-learners", 1, INT32_MAX);
    if (model->learner && r->status == CST_OK && count != model->learners)
        cst_reader_refuse(r, at,
                          "there are %" PRId32 " meta-learners, but %" PRId32 " in section OWNS",
                          count, model->learners);
    if (!model->learner)
        model->learner =
            cst_reader_room(r, (size_t)count, sizeof *model->learner, 20, "meta-learners");
    check_cells(r, at, "meta-learners", count, model->classes);
    if (!model->learner || r->status != CST_OK)
        return;
    model->learners = count;
    double sum = 0;
    for (int32_t l = 0; l < count && r->status == CST_OK; l++) {
        get_learner(r, model, &model->learner[l], l);
        sum += model->learner[l].blend;
    }
    if (r->status == CST_OK && !(fabs(sum - 1) <= CST_MODEL_BLEND_TOLERANCE))
        cst_reader_refuse(r, at, "the blend weights sum to %.12g instead of 1", sum);
    bool network = false;
    for (int32_t l = 0; l < count; l++)
        network = network || model->learner[l].kind == CST_LEARNER_NETWORK;
    if (r->status == CST_OK && model->network && !network)
        cst_reader_refuse(r, at, "section NETW is in a model without such a meta-learner");
}

static void get_fusion(cst_reader *r, cst_model *model) {
    cst_fusion *fusion = cst_alloc(r->context, 1, sizeof *fusion);
    if (!fusion) {
        r->status = CST_ERROR_MEMORY;
        return;
    }
    model->fusion = fusion;
    fusion->rule = r->rule;
    fusion->iou = cst_reader_f64(r, "the overlap of boxes that are one object", 0, 1);
    fusion->min_score = cst_reader_f64(r, "the least score of a box", 0, 1);
    fusion->max_boxes = cst_reader_int(r, "the maximum number of boxes of a member", 1, INT32_MAX);
    size_t count = (size_t)cst_reader_int(r, "the number of categories", 1, CST_MODEL_CLASSES_MAX);
    fusion->category_id = cst_reader_room(r, count, sizeof *fusion->category_id, 12, "categories");
    fusion->category_name =
        cst_reader_room(r, count, sizeof *fusion->category_name, 12, "categories");
    fusion->categories = fusion->category_name ? (int32_t)count : 0;
    for (size_t c = 0; c < (size_t)fusion->categories && r->status == CST_OK; c++) {
        size_t at = r->at;
        const uint8_t *id = cst_reader_take(r, 8);
        fusion->category_id[c] = id ? (int64_t)cst_load_u64(id) : 0;
        if (id && c > 0 && fusion->category_id[c] <= fusion->category_id[c - 1])
            cst_reader_refuse(r, at, "the ids of the categories are not in ascending order");
        if (cst_reader_int(r, "whether a category has a name", 0, 1) == 1)
            fusion->category_name[c] = cst_reader_string(r, "category name", c);
    }
    if (r->status != CST_OK)
        return;
    size_t at = r->at;
    size_t weights = count * (size_t)model->members; /* at most 2^24 * 2^20 */
    fusion->weights = cst_reader_f64s(r, weights, "a weight of a box", CST_MODEL_COEFFICIENT_MAX);
    for (size_t i = 0; i < weights && r->status == CST_OK; i++)
        if (fusion->weights[i] < 0)
            cst_reader_refuse(r, at + 8 * i, "a weight of a box is %g, which is negative",
                              fusion->weights[i]);
}

/* Bytes of a domain without a name or biases. */
enum { DOMAIN_BYTES = 4 + 8 + 8 + 8 + 8 };

static void get_domains(cst_reader *r, cst_model *model) {
    size_t first = r->at;
    size_t classes = (size_t)model->classes;
    int32_t count = cst_reader_int(r, "the number of domains", 1, CST_DOMAINS_MAX);
    size_t each = DOMAIN_BYTES + 8 * classes;
    if (r->status == CST_OK && model->task != CST_TASK_CLASSIFICATION)
        cst_reader_refuse(r, first, "section DOMA is only for classification models");
    if (r->status == CST_OK && (size_t)count > (r->end - r->at) / each)
        cst_reader_refuse(r, first, "%" PRId32 " domains are declared, but %zu bytes are left",
                          count, r->end - r->at);
    if (r->status == CST_OK)
        r->status = cst_domain_map_alloc(r->context, count, model->classes, &model->domains);
    for (int32_t d = 0; d < count && r->status == CST_OK; d++) {
        cst_domain_map *map = model->domains;
        size_t at = r->at;
        map->names[d] = cst_reader_string(r, "domain", (size_t)d);
        if (r->status == CST_OK && d > 0 && strcmp(map->names[d - 1], map->names[d]) >= 0)
            cst_reader_refuse(r, at,
                              "the domains are not in ascending order, or one is there twice");
        at = r->at;
        const uint8_t *rows = cst_reader_take(r, 8);
        map->rows[d] = rows ? (int64_t)cst_load_u64(rows) : 0;
        if (map->rows[d] < 0)
            cst_reader_refuse(r, at, "the number of rows of a domain is beyond 2^63");
        map->before[d] = cst_reader_f64(r, "a domain's NLL", 0, CST_MODEL_COEFFICIENT_MAX);
        map->after[d] = cst_reader_f64(r, "a domain's NLL", 0, CST_MODEL_COEFFICIENT_MAX);
        map->scale[d] =
            cst_reader_f64(r, "a domain's scale", -CST_MODEL_SLOPE_MAX, CST_MODEL_SLOPE_MAX);
        for (size_t c = 0; c < classes && r->status == CST_OK; c++)
            map->bias[(size_t)d * classes + c] =
                cst_reader_f64(r, "a domain's bias", -CST_MODEL_SLOPE_MAX, CST_MODEL_SLOPE_MAX);
    }
}

static void get_settings(cst_reader *r, cst_model *model) {
    size_t first = r->at;
    size_t count = cst_reader_u32(r);
    model->setting = cst_reader_room(r, count, sizeof *model->setting, 5, "settings");
    if (!model->setting)
        return;
    model->settings = count;
    char **keys = cst_reader_room(r, count, sizeof *keys, 5, "settings");
    for (size_t i = 0; i < count && r->status == CST_OK; i++) {
        size_t at = r->at;
        model->setting[i] = cst_reader_string(r, "setting", i);
        const char *equals = model->setting[i] ? strchr(model->setting[i], '=') : NULL;
        if (r->status == CST_OK && (!equals || equals == model->setting[i]))
            cst_reader_refuse(r, at, "setting %zu is not in the form key=value", i);
        if (r->status != CST_OK)
            break;
        keys[i] = cst_strdup(r->context, model->setting[i]);
        if (keys[i])
            keys[i][equals - model->setting[i]] = 0;
        else
            r->status = CST_ERROR_MEMORY;
    }
    cst_reader_different(r, first, keys, count, "setting");
    for (size_t i = 0; keys && i < count; i++)
        cst_free(r->context, keys[i]);
    cst_free(r->context, keys);
}

/* ---- the file ---- */

/* Magic, version, length and checksum: whether these are the bytes that were written. */
static uint32_t check_envelope(cst_reader *r) {
    static const char unlike[] = "this is not a corestack model";
    size_t size = r->end;
    size_t known = size < CST_MODEL_MAGIC_BYTES ? size : CST_MODEL_MAGIC_BYTES;
    if (size == 0)
        cst_reader_refuse(r, 0, "%s: it is empty", unlike);
    else if (memcmp(r->bytes, CST_MODEL_MAGIC, known) != 0)
        cst_reader_refuse(r, 0, "%s", unlike);
    if (r->status == CST_OK && size >= 12) {
        uint32_t version = cst_load_u32(r->bytes + 8);
        if (version > CST_MODEL_VERSION)
            r->status = cst_fail(r->context, CST_ERROR_UNSUPPORTED,
                                 "%s: byte 8: written by a newer corestack (format %" PRIu32
                                 ", but this program reads up to %d); upgrade corestack",
                                 r->name, version, (int)CST_MODEL_VERSION);
        else if (version == 0)
            cst_reader_refuse(r, 8, "the format version is 0, but the first version is 1");
    }
    size_t least = CST_MODEL_HEADER_BYTES + CST_MODEL_CHECKSUM_BYTES;
    if (size < least)
        cst_reader_refuse(
            r, size, "truncated: the smallest model has %zu bytes; copy the file again", least);
    if (r->status != CST_OK)
        return 0;
    uint64_t length = cst_load_u64(r->bytes + 16);
    if (length > size)
        cst_reader_refuse(r, size,
                          "truncated: it had %" PRIu64 " bytes when written; copy the file again",
                          length);
    else if (length < size)
        cst_reader_refuse(r, (size_t)length, "extra bytes follow the end of the model");
    r->end = size - CST_MODEL_CHECKSUM_BYTES;
    uint32_t stored = cst_load_u32(r->bytes + r->end);
    if (r->status == CST_OK && stored != cst_crc32c(r->bytes, r->end))
        cst_reader_refuse(
            r, r->end, "wrong checksum: the file was damaged after it was written; copy it again");
    r->at = CST_MODEL_HEADER_BYTES;
    return cst_load_u32(r->bytes + 12);
}

typedef void (*section_fn)(cst_reader *r, cst_model *model);

static void get_payload(cst_reader *r, cst_model *model, cst_section section, size_t length) {
    static const section_fn payloads[CST_SECTIONS] = {
        [CST_SECTION_TASK] = get_task,
        [CST_SECTION_MEMBERS] = get_members,
        [CST_SECTION_CLASSES] = get_classes,
        [CST_SECTION_GATE] = get_gate,
        [CST_SECTION_VALUES] = get_values,
        [CST_SECTION_CALIBRATION] = get_calibration,
        [CST_SECTION_NETWORK] = get_network,
        [CST_SECTION_RULE] = get_rule,
        [CST_SECTION_OWN] = get_owns,
        [CST_SECTION_LEARNERS] = get_learners,
        [CST_SECTION_FUSION] = get_fusion,
        [CST_SECTION_DOMAINS] = get_domains,
        [CST_SECTION_ADAPTED] = cst_adapted_get,
        [CST_SECTION_REFITS] = cst_refits_get,
        [CST_SECTION_PACKED] = cst_refits_get_packed,
        [CST_SECTION_NOVELTY] = cst_novelty_get,
        [CST_SECTION_CASES] = cst_cases_get,
        [CST_SECTION_CONFUSION] = cst_confusion_get,
        [CST_SECTION_LEAN] = cst_lean_get,
        [CST_SECTION_WATCH] = cst_watch_get,
        [CST_SECTION_SETTINGS] = get_settings,
    };
    size_t end = r->end;
    r->end = r->at + length;
    payloads[section](r, model);
    if (r->status == CST_OK && r->at != r->end)
        cst_reader_refuse(r, r->at, "%zu bytes are left over in section %s", r->end - r->at,
                          cst_section_info[section].tag);
    r->end = end;
}

/* Refuses when one of the sections from..to-1 has to be there. */
static void check_skipped(cst_reader *r, int from, int to) {
    for (int s = from; s < to; s++)
        if (cst_section_info[s].present)
            cst_reader_refuse(r, r->at, "section %s is missing here", cst_section_info[s].tag);
}

/* Reads one section. *next: the first known section that may still come. */
static void get_section(cst_reader *r, cst_model *model, int *next) {
    size_t at = r->at;
    const uint8_t *head = cst_reader_take(r, CST_MODEL_SECTION_BYTES);
    if (!head)
        return;
    uint32_t flags = cst_load_u32(head + 4);
    uint64_t length = cst_load_u64(head + 8);
    if (length > r->end - r->at) {
        cst_reader_refuse(r, at + 8, "a section of %" PRIu64 " bytes is declared, but %zu are left",
                          length, r->end - r->at);
        return;
    }
    int found = 0;
    while (found < CST_SECTIONS && memcmp(head, cst_section_info[found].tag, 4) != 0)
        found++;
    if (found < CST_SECTIONS) {
        if (found < *next)
            cst_reader_refuse(r, at, "section %s is a duplicate or out of order",
                              cst_section_info[found].tag);
        if (flags != cst_section_info[found].flags)
            cst_reader_refuse(r, at + 4, "section %s has flags 0x%" PRIx32 " instead of 0x%" PRIx32,
                              cst_section_info[found].tag, flags, cst_section_info[found].flags);
        r->at = at; /* where a section before this one is missed */
        check_skipped(r, *next, found);
        r->at = at + CST_MODEL_SECTION_BYTES;
        *next = found + 1;
        if (r->status == CST_OK)
            get_payload(r, model, (cst_section)found, (size_t)length);
    } else if (flags & CST_MODEL_REQUIRED) {
        r->status =
            cst_fail(r->context, CST_ERROR_UNSUPPORTED,
                     "%s: byte %zu: prediction needs the section with tag 0x%08" PRIx32
                     ", which this version of corestack does not support; upgrade corestack",
                     r->name, at, cst_load_u32(head));
    } else {
        (void)cst_reader_take(r, (size_t)length);
    }
}

cst_status cst_stack_decode(cst_context *context, const char *name, const uint8_t *bytes,
                            size_t size, cst_model **out) {
    *out = NULL;
    if (size > CST_MODEL_BYTES_MAX)
        return cst_fail(context, CST_ERROR_LIMIT,
                        "%s: %zu bytes; corestack models have at most %zu", name, size,
                        CST_MODEL_BYTES_MAX);
    cst_reader r = {.context = context, .name = name, .bytes = bytes, .end = size};
    cst_model *model = NULL;
    uint32_t sections = check_envelope(&r);
    if (r.status == CST_OK)
        r.status = cst_stack_create(context, &model);
    int next = 0;
    for (uint32_t s = 0; s < sections && r.status == CST_OK; s++)
        get_section(&r, model, &next);
    if (r.status == CST_OK)
        check_skipped(&r, next, CST_SECTIONS);
    if (r.status == CST_OK && (model->task == CST_TASK_DETECTION) != (model->fusion != NULL))
        cst_reader_refuse(&r, r.at, "section FUSE %s",
                          model->fusion ? "is only for detection models"
                                        : "is missing from a detection model");
    if (r.status == CST_OK && model->fusion && model->classes != 2)
        cst_reader_refuse(&r, r.at, "a detection model has %" PRId32 " classes instead of 2",
                          model->classes);
    if (r.status == CST_OK && r.at != r.end)
        cst_reader_refuse(&r, r.at, "%zu extra bytes follow the last section", r.end - r.at);
    check_sample(&r, size, model);
    if (r.status == CST_OK)
        *out = model;
    else
        cst_model_free(context, model);
    return r.status;
}
