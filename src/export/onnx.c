/* A model as a graph of ONNX: what model/predict.c computes, step by step, in double precision, and
 * rounded to float32 where that rounds. docs/serving.md#onnx. */
#include "export/formats.h"
#include "export/onnx_graph.h"
#include "model/absent.h"
#include "model/transform.h"
#include "stats/samples.h"

#include <math.h>
#include <string.h>

enum {
    FLOAT = CST_PB__TENSOR_PROTO__DATA_TYPE__FLOAT,
    DOUBLE = CST_PB__TENSOR_PROTO__DATA_TYPE__DOUBLE,
    INT64 = CST_PB__TENSOR_PROTO__DATA_TYPE__INT64
};

/* Axes of members' predictions [rows][classes][members]; others have the first two. */
enum { CLASSES = 1, MEMBERS = 2 };

/* In graph g. */
#define NODE(...) CST_NODE(g, __VA_ARGS__)
#define NUMBER(value) cst_onnx_number(g, value)
#define TENSOR(values, rows, columns) cst_onnx_tensor(g, values, rows, columns)
#define SINGLES(values, count) cst_onnx_singles(g, values, count)
#define INDICES(values, count) cst_onnx_indices(g, values, count)

#define LETTERS "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_"

typedef struct walk {
    cst_onnx *g;
    const cst_model *model;
    cst_edge members; /* [rows][classes][members], float32 as double */
    cst_edge design;  /* [rows][classes][gated columns]; NULL: none is read */
} walk;

/* ---- small steps ---- */

/* Memory of the graph's; NULL after a failure. */
static void *take(cst_onnx *g, size_t count, size_t size) {
    void *made = g->status == CST_OK ? cst_take(g->context, g->scope, count, size) : NULL;
    if (!made && g->status == CST_OK)
        g->status = CST_ERROR_MEMORY;
    return made;
}

static cst_edge cast(cst_onnx *g, cst_edge x, int32_t type) {
    cst_edge to = NODE("Cast", x);
    cst_onnx_integer(g, "to", type);
    return to;
}

static cst_edge rounded(cst_onnx *g, cst_edge x) {
    return cast(g, cast(g, x, FLOAT), DOUBLE);
}

static cst_edge least(cst_onnx *g, cst_edge x, double bound) {
    return NODE("Max", x, NUMBER(bound));
}

static cst_edge most(cst_onnx *g, cst_edge x, double bound) {
    return NODE("Min", x, NUMBER(bound));
}

static cst_edge scaled(cst_onnx *g, cst_edge x, double factor) {
    return NODE("Mul", x, NUMBER(factor));
}

static cst_edge shifted(cst_onnx *g, cst_edge x, double by) {
    return NODE("Add", x, NUMBER(by));
}

static cst_edge sum(cst_onnx *g, cst_edge x, int64_t axis, bool keep) {
    cst_edge total = NODE("ReduceSum", x, INDICES(&axis, 1));
    cst_onnx_integer(g, "keepdims", keep);
    return total;
}

static cst_edge largest(cst_onnx *g, cst_edge x, int64_t axis) {
    cst_edge top = NODE("ReduceMax", x);
    cst_onnx_integers(g, "axes", &axis, 1);
    return top;
}

static cst_edge softmax(cst_onnx *g, cst_edge x) {
    cst_edge p = NODE("Softmax", x);
    cst_onnx_integer(g, "axis", CLASSES);
    return p;
}

static cst_edge widened(cst_onnx *g, cst_edge x) {
    static const int64_t axis = MEMBERS;
    return NODE("Unsqueeze", x, INDICES(&axis, 1));
}

static cst_edge joined(cst_onnx *g, const cst_edge *parts, size_t count) {
    cst_edge all = cst_onnx_node(g, "Concat", parts, count);
    cst_onnx_integer(g, "axis", MEMBERS);
    return all;
}

/* Sorted along an axis. */
static cst_edge sorted(cst_onnx *g, cst_edge x, int64_t axis, int64_t count, bool descending) {
    cst_edge to = NODE("TopK", x, INDICES(&count, 1));
    cst_onnx_spare(g);
    cst_onnx_integer(g, "axis", axis);
    cst_onnx_integer(g, "largest", descending);
    return to;
}

/* One of the last axis, which is gone then. */
static cst_edge picked(cst_onnx *g, cst_edge x, int64_t place) {
    static const int64_t axis = MEMBERS;
    cst_edge at = NODE("Gather", x, INDICES(&place, 1));
    cst_onnx_integer(g, "axis", MEMBERS);
    return NODE("Squeeze", at, INDICES(&axis, 1));
}

static cst_edge normalised(cst_onnx *g, cst_edge x) {
    return NODE("Div", x, sum(g, x, CLASSES, true));
}

/* log(p / (1 - p)) within bounds. */
static cst_edge log_odds(cst_onnx *g, cst_edge p, double bound) {
    cst_edge q = most(g, least(g, p, bound), 1 - bound);
    cst_edge rest = NODE("Sub", NUMBER(1), q);
    return NODE("Sub", NODE("Log", q), NODE("Log", rest));
}

/* Shares of members, [members], as (1 - share) p + share / parts. */
static cst_edge mixed(cst_onnx *g, cst_edge x, const double *shares, int32_t members,
                      double parts) {
    double *both = take(g, 2 * (size_t)members, sizeof *both);
    for (int32_t k = 0; both && k < members; k++) {
        both[k] = 1 - shares[k];
        both[members + k] = shares[k] / parts;
    }
    size_t count = both ? (size_t)members : 0;
    cst_edge kept = NODE("Mul", x, TENSOR(both, count, 0));
    return NODE("Add", kept, TENSOR(both + count, count, 0));
}

/* sum over the last axis with weights [count]. */
static cst_edge weighed(cst_onnx *g, cst_edge x, const double *weights, int32_t count) {
    return NODE("MatMul", x, TENSOR(weights, (size_t)count, 0));
}

/* ---- maps of probabilities ---- */

/* Knots of all classes, as many in each: x, distances, changes of y [classes][segments], and the
 * first y [classes]. Those that a class lacks change nothing. */
static cst_edge isotonic(cst_onnx *g, const cst_calibrator *map, cst_edge p) {
    size_t classes = (size_t)map->classes;
    size_t segments = 1;
    for (size_t c = 0; c < classes; c++)
        segments = (size_t)map->steps[c].count > segments ? (size_t)map->steps[c].count : segments;
    double *knots = take(g, classes * (3 * segments + 1), sizeof *knots);
    if (!knots)
        return "";
    double *width = knots + classes * segments;
    double *change = width + classes * segments;
    double *first = change + classes * segments;
    for (size_t c = 0; c < classes; c++) {
        const cst_isotonic *step = &map->steps[c];
        first[c] = step->y[0];
        for (size_t i = 0; i < segments; i++) {
            bool there = i + 1 < (size_t)step->count;
            knots[c * segments + i] = there ? step->x[i] : 0;
            width[c * segments + i] = there ? step->x[i + 1] - step->x[i] : 1;
            change[c * segments + i] = there ? step->y[i + 1] - step->y[i] : 0;
        }
    }
    cst_edge off = NODE("Sub", widened(g, p), TENSOR(knots, classes, segments));
    cst_edge share = NODE("Div", off, TENSOR(width, classes, segments));
    share = most(g, least(g, share, 0), 1);
    cst_edge rise = NODE("Mul", share, TENSOR(change, classes, segments));
    cst_edge y = NODE("Add", sum(g, rise, MEMBERS, false), TENSOR(first, classes, 0));
    return normalised(g, least(g, y, CST_ISOTONIC_FLOOR));
}

static cst_edge sloped(cst_onnx *g, const cst_calibrator *map, cst_edge x) {
    size_t classes = (size_t)map->classes;
    cst_edge steep = NODE("Mul", x, TENSOR(map->slopes, classes, 0));
    return NODE("Add", steep, TENSOR(map->intercepts, classes, 0));
}

static cst_edge floored_log(cst_onnx *g, cst_edge p, double bound) {
    return NODE("Log", least(g, p, bound));
}

/* cst_calibrator_rows. */
static cst_edge calibrated(cst_onnx *g, const cst_calibrator *map, cst_edge p) {
    switch (map->kind) {
    case CST_CALIBRATOR_TEMPERATURE:
        return softmax(g, scaled(g, floored_log(g, p, CST_NLL_FLOOR), 1 / map->temperature));
    case CST_CALIBRATOR_VECTOR:
        return softmax(g, sloped(g, map, floored_log(g, p, CST_NLL_FLOOR)));
    case CST_CALIBRATOR_ISOTONIC:
        return isotonic(g, map, p);
    case CST_CALIBRATOR_PLATT:
        return normalised(g, NODE("Sigmoid", sloped(g, map, log_odds(g, p, CST_PLATT_FLOOR))));
    default:
        return p;
    }
}

/* cst_simplex_project: the threshold is the largest of (sum of the j largest - 1) / j. */
static cst_edge projected(cst_onnx *g, cst_edge x, int32_t classes) {
    static const int64_t axis = CLASSES;
    double *ranks = take(g, (size_t)classes, sizeof *ranks);
    for (int32_t c = 0; ranks && c < classes; c++)
        ranks[c] = c + 1;
    cst_edge sums = NODE("CumSum", sorted(g, x, CLASSES, classes, true), INDICES(&axis, 1));
    cst_edge each =
        NODE("Div", shifted(g, sums, -1), TENSOR(ranks, ranks ? (size_t)classes : 0, 0));
    return least(g, NODE("Sub", x, largest(g, each, CLASSES)), 0);
}

/* cst_probability_rows. */
static cst_edge as_probabilities(cst_onnx *g, cst_probability_map map, int32_t classes,
                                 cst_edge x) {
    if (classes < 2 || map == CST_PROBABILITY_MIXTURE)
        return x;
    if (map == CST_PROBABILITY_SIMPLEX)
        x = projected(g, x, classes);
    bool fine = map == CST_PROBABILITY_FINE;
    x = least(g, x, fine ? CST_PROBABILITY_FINE_FLOOR : CST_PROBABILITY_FLOOR);
    return normalised(g, most(g, x, fine ? 1 - CST_PROBABILITY_FINE_FLOOR : 1));
}

/* ---- what comes in ---- */

/* A member's name with all but letters, digits and underscores replaced, unlike all before it. */
static char *legal_name(cst_onnx *g, const char *name, char *const *before, int32_t count) {
    static const char *const taken[] = {"probabilities", "values", "decisions", "domain"};
    for (int again = 1;; again++) {
        char *made = again == 1 ? cst_take_format(g->context, g->scope, "%s", name)
                                : cst_take_format(g->context, g->scope, "%s_%d", name, again);
        if (!made) {
            g->status = CST_ERROR_MEMORY;
            return NULL;
        }
        bool free = true;
        for (char *c = made; *c; c++)
            if (!strchr(c == made ? LETTERS : LETTERS "0123456789", *c))
                *c = '_';
        for (size_t i = 0; i < sizeof taken / sizeof *taken; i++)
            free = free && strcmp(made, taken[i]) != 0;
        for (int32_t k = 0; k < count; k++)
            free = free && strcmp(made, before[k]) != 0;
        if (free)
            return made;
    }
}

/* Probabilities of a caller's, as check_rows repairs them: those beyond [0, 1], and rows whose sum
 * is off. */
static cst_edge repaired(cst_onnx *g, const cst_model *model, cst_edge p) {
    cst_edge within = most(g, least(g, p, 0), 1);
    if (model->task == CST_TASK_MULTILABEL)
        return within;
    cst_edge off = NODE("Abs", shifted(g, sum(g, p, CLASSES, true), -1));
    cst_edge beyond = NODE("Abs", NODE("Sub", p, within));
    cst_edge bad = NODE("Greater", off, NUMBER(1e-6));
    bad = NODE("Or", bad, NODE("Greater", largest(g, beyond, CLASSES), NUMBER(0)));
    return NODE("Where", bad, rounded(g, normalised(g, within)), p);
}

/* Inputs of all members, side by side. */
static cst_edge take_members(cst_onnx *g, const cst_model *model, bool logits) {
    int32_t count = cst_model_inputs(model);
    char **names = take(g, (size_t)count, sizeof *names);
    cst_edge *parts = take(g, (size_t)count, sizeof *parts);
    for (int32_t k = 0; g->status == CST_OK && k < count; k++) {
        const char *name = cst_model_input_name(model, k);
        names[k] = legal_name(g, name, names, k);
        if (!names[k])
            return "";
        cst_onnx_input(g, names[k], FLOAT, model->classes, name);
        parts[k] = widened(g, names[k]);
    }
    if (g->status != CST_OK)
        return "";
    cst_edge all = cast(g, joined(g, parts, (size_t)count), DOUBLE);
    if (logits)
        return rounded(g,
                       model->task == CST_TASK_MULTILABEL ? NODE("Sigmoid", all) : softmax(g, all));
    return model->task == CST_TASK_REGRESSION ? all : repaired(g, model, all);
}

/* cst_transform_of, cst_transform_inverse. */
static cst_edge transformed(cst_onnx *g, cst_transform_kind kind, cst_edge x) {
    switch (kind) {
    case CST_TRANSFORM_LOG1P:
        return NODE("Log", shifted(g, x, 1));
    case CST_TRANSFORM_LOG:
        return NODE("Log", x);
    case CST_TRANSFORM_SQRT:
        return NODE("Sqrt", x);
    case CST_TRANSFORM_LOGIT:
        return log_odds(g, x, 0);
    default:
        return x;
    }
}

static cst_edge inverted(cst_onnx *g, cst_transform_kind kind, cst_edge x) {
    switch (kind) {
    case CST_TRANSFORM_LOG1P:
        return shifted(g, NODE("Exp", x), -1);
    case CST_TRANSFORM_LOG:
        return NODE("Exp", x);
    case CST_TRANSFORM_SQRT:
        x = least(g, x, 0);
        return NODE("Mul", x, x);
    case CST_TRANSFORM_LOGIT:
        return NODE("Sigmoid", x);
    default:
        return x;
    }
}

/* cst_transform_member. */
static cst_edge transform_members(cst_onnx *g, const cst_model *model, cst_edge x) {
    const cst_transform *t = model->transform;
    size_t outputs = (size_t)model->classes;
    cst_edge inside;
    if (!t)
        return x;
    cst_edge low = TENSOR(t->low, outputs, 1);
    cst_edge high = TENSOR(t->high, outputs, 1);
    cst_edge end = NODE("Where", NODE("Greater", x, NUMBER(0.5)), high, low);
    if (t->kind == CST_TRANSFORM_SQRT)
        inside = NODE("Not", NODE("Less", x, NUMBER(0)));
    else
        inside = NODE("Greater", x, NUMBER(t->kind == CST_TRANSFORM_LOG1P ? -1 : 0));
    if (t->kind == CST_TRANSFORM_LOGIT)
        inside = NODE("And", inside, NODE("Less", x, NUMBER(1)));
    x = NODE("Where", inside, x, end);
    return rounded(g, transformed(g, t->kind, x));
}

/* ---- the gate ---- */

static cst_edge quantile(cst_onnx *g, cst_edge in_order, int32_t members, double level) {
    double position = level * (double)(members - 1);
    int32_t below = (int32_t)position;
    cst_edge low = picked(g, in_order, below);
    if (below + 1 >= members)
        return low;
    cst_edge step = NODE("Sub", picked(g, in_order, below + 1), low);
    return NODE("Add", low, scaled(g, step, position - below));
}

/* -sum m log m, or sum q log(q / m), for every class of a row; of values 0. */
static cst_edge of_row(cst_onnx *g, cst_edge mean, cst_edge q, bool values) {
    static const double tiny = 1e-300;
    cst_edge none = scaled(g, mean, 0);
    if (values)
        return none;
    cst_edge log_mean = floored_log(g, mean, tiny);
    cst_edge term = q ? NODE("Mul", q, NODE("Sub", floored_log(g, q, tiny), log_mean))
                      : scaled(g, NODE("Mul", mean, log_mean), -1);
    return NODE("Add", none, sum(g, term, CLASSES, true));
}

/* All aggregators of members x. */
static void aggregate(cst_onnx *g, const cst_model *model, cst_edge x,
                      cst_edge columns[CST_AGGREGATORS]) {
    const cst_gate *gate = &model->gate;
    bool values = cst_task_has_outputs(model->task);
    int32_t members = gate->inputs;
    cst_edge *c = columns;
    cst_edge in_order = sorted(g, x, MEMBERS, members, false);
    c[CST_AGGREGATE_MEAN] = NODE("Div", sum(g, x, MEMBERS, false), NUMBER(members));
    cst_edge off = NODE("Sub", x, widened(g, c[CST_AGGREGATE_MEAN]));
    c[CST_AGGREGATE_SD_SQUARED] =
        NODE("Div", sum(g, NODE("Mul", off, off), MEMBERS, false), NUMBER(members));
    c[CST_AGGREGATE_SD] = NODE("Sqrt", c[CST_AGGREGATE_SD_SQUARED]);
    c[CST_AGGREGATE_MEDIAN] = quantile(g, in_order, members, 0.5);
    c[CST_AGGREGATE_Q25] = quantile(g, in_order, members, 0.25);
    c[CST_AGGREGATE_Q75] = quantile(g, in_order, members, 0.75);
    c[CST_AGGREGATE_RANGE] = NODE("Sub", picked(g, in_order, members - 1), picked(g, in_order, 0));
    c[CST_AGGREGATE_MEAN_SD] = NODE("Mul", c[CST_AGGREGATE_MEAN], c[CST_AGGREGATE_SD]);
    c[CST_AGGREGATE_MEAN_SQUARED] = NODE("Mul", c[CST_AGGREGATE_MEAN], c[CST_AGGREGATE_MEAN]);
    c[CST_AGGREGATE_RANGE_SD] = NODE("Mul", c[CST_AGGREGATE_RANGE], c[CST_AGGREGATE_SD]);
    c[CST_AGGREGATE_ENTROPY] = of_row(g, c[CST_AGGREGATE_MEAN], NULL, values);
    c[CST_AGGREGATE_DIVERGENCE] =
        of_row(g, c[CST_AGGREGATE_MEAN], values ? NULL : picked(g, x, gate->best), values);
}

/* In float32, and a product and a sum at a time: the gate's output is multiplied by coefficients
 * that may be large, so its last bit counts. */
static cst_edge single(cst_onnx *g, const char *op, cst_edge x, float y) {
    return NODE(op, x, SINGLES(&y, 1));
}

static cst_edge gate_layer(cst_onnx *g, cst_edge x, const float *weights, const float *biases,
                           size_t inputs, size_t units) {
    cst_edge total = SINGLES(biases, units);
    float *column = take(g, units, sizeof *column);
    for (size_t i = 0; column && i < inputs; i++) {
        const int64_t place = (int64_t)i;
        for (size_t u = 0; u < units; u++)
            column[u] = weights[u * inputs + i];
        cst_edge at = NODE("Gather", x, INDICES(&place, 1));
        cst_onnx_integer(g, "axis", MEMBERS);
        total = NODE("Add", total, NODE("Mul", at, SINGLES(column, units)));
    }
    return total;
}

/* The sigmoid of method/gate/gate.c, with its exponential. */
static cst_edge gate_sigmoid(cst_onnx *g, cst_edge z) {
    enum { REACH = 64 };
    static const float series[] = {1.9875691500e-4F, 1.3981999507e-3F, 8.3334519073e-3F,
                                   4.1665795894e-2F, 1.6666665459e-1F, 5.0000001201e-1F};
    const int64_t reach = REACH;
    float powers[2 * REACH];
    for (int i = 0; i < 2 * REACH; i++)
        powers[i] = ldexpf(1, i - REACH);
    cst_edge x = single(g, "Mul", single(g, "Max", single(g, "Min", z, 30), -30), -1);
    cst_edge n = single(g, "Add", single(g, "Mul", x, 1.44269504F), 12582912.0F);
    n = single(g, "Sub", n, 12582912.0F);
    cst_edge r = NODE("Sub", x, single(g, "Mul", n, 0.693359375F));
    r = NODE("Sub", r, single(g, "Mul", n, -2.12194440e-4F));
    cst_edge y = single(g, "Add", single(g, "Mul", r, series[0]), series[1]);
    for (size_t i = 2; i < sizeof series / sizeof *series; i++)
        y = single(g, "Add", NODE("Mul", y, r), series[i]);
    y = NODE("Add", NODE("Mul", y, NODE("Mul", r, r)), r);
    y = single(g, "Add", y, 1);
    cst_edge place = NODE("Add", cast(g, n, INT64), INDICES(&reach, 1));
    cst_edge power = NODE("Gather", SINGLES(powers, 2 * REACH), place);
    y = single(g, "Add", NODE("Mul", y, power), 1);
    const float one = 1;
    return NODE("Div", SINGLES(&one, 1), y);
}

/* The gated columns of the design. */
static cst_edge make_design(cst_onnx *g, const cst_model *model, cst_edge x) {
    const cst_gate *gate = &model->gate;
    size_t hidden = (size_t)gate->hidden;
    size_t count = (size_t)(cst_design_columns(gate) - gate->inputs);
    cst_edge columns[CST_AGGREGATORS];
    cst_edge parts[CST_AGGREGATORS];
    if (cst_task_has_outputs(model->task) && model->values) {
        const cst_scaling *units = &model->values->scaling;
        x = NODE("Sub", x, TENSOR(units->location, (size_t)units->outputs, 1));
        x = NODE("Div", x, TENSOR(units->scale, (size_t)units->outputs, 1));
        x = rounded(g, x);
    }
    aggregate(g, model, x, columns);
    for (size_t j = 0; j < count; j++)
        parts[j] = widened(g, columns[cst_design_aggregate(gate->mode, (int32_t)j)]);
    cst_edge all = joined(g, parts, count);
    if (gate->mode != CST_GATE_LEARNED)
        return all;
    cst_edge h = gate_layer(g, cast(g, x, FLOAT), gate->w1, gate->b1, (size_t)gate->inputs, hidden);
    h = gate_layer(g, NODE("Relu", h), gate->w2, gate->b2, hidden, CST_AGGREGATORS);
    return NODE("Mul", all, cast(g, gate_sigmoid(g, h), DOUBLE));
}

/* ---- meta-learners ---- */

/* A function for each output, weights [outputs][columns] of the members and of gated columns. */
static cst_edge value_scores(const walk *w, const cst_learner *learner) {
    cst_onnx *g = w->g;
    const cst_model *model = w->model;
    size_t outputs = (size_t)model->classes;
    size_t width = (size_t)learner->coefficients / outputs;
    size_t members = (size_t)model->members;
    size_t gated = width - members;
    double *weights = take(g, outputs * width, sizeof *weights);
    if (!weights)
        return "";
    for (size_t d = 0; d < outputs; d++) {
        memcpy(weights + d * members, learner->weights + d * width, members * sizeof *weights);
        memcpy(weights + outputs * members + d * gated, learner->weights + d * width + members,
               gated * sizeof *weights);
    }
    bool odds = model->task == CST_TASK_MULTILABEL && model->map != CST_PROBABILITY_MIXTURE;
    cst_edge x = w->members;
    if (odds)
        x = rounded(g, log_odds(g, mixed(g, x, model->mix, model->members, 2), 1e-7));
    x = NODE("Mul", x, TENSOR(weights, outputs, members));
    cst_edge scores = NODE("Add", sum(g, x, MEMBERS, false), TENSOR(learner->bias, outputs, 0));
    if (w->design && gated > 0) {
        x = NODE("Mul", w->design, TENSOR(weights + outputs * members, outputs, gated));
        scores = NODE("Add", scores, sum(g, x, MEMBERS, false));
    }
    return odds ? NODE("Sigmoid", scores) : scores;
}

static cst_edge linear(const walk *w, const cst_learner *learner) {
    cst_onnx *g = w->g;
    const cst_model *model = w->model;
    if (cst_task_has_outputs(model->task))
        return value_scores(w, learner);
    cst_edge scores =
        shifted(g, weighed(g, w->members, learner->weights, model->members), learner->bias[0]);
    if (w->design)
        scores = NODE("Add", scores,
                      weighed(g, w->design, learner->weights + model->members,
                              learner->coefficients - model->members));
    return as_probabilities(g, cst_learner_map(model, learner), model->classes, scores);
}

/* Temperature or vector scaling of each member, side by side. */
static cst_edge scale_members(cst_onnx *g, const cst_model *model, const cst_calibrator *maps,
                              cst_edge x) {
    size_t members = (size_t)model->members;
    size_t cells = members * (size_t)model->classes;
    double *slopes = take(g, 2 * cells, sizeof *slopes);
    if (!slopes)
        return "";
    for (size_t i = 0; i < cells; i++) {
        const cst_calibrator *map = &maps[i % members];
        bool vector = map->kind == CST_CALIBRATOR_VECTOR;
        slopes[i] = vector ? map->slopes[i / members] : 1 / map->temperature;
        slopes[cells + i] = vector ? map->intercepts[i / members] : 0;
    }
    size_t classes = (size_t)model->classes;
    x = NODE("Mul", floored_log(g, x, CST_NLL_FLOOR), TENSOR(slopes, classes, members));
    x = NODE("Add", x, TENSOR(slopes + cells, classes, members));
    return rounded(g, softmax(g, x));
}

static cst_edge pooled(const walk *w, const cst_learner *learner) {
    cst_onnx *g = w->g;
    const cst_model *model = w->model;
    const cst_learner_own *own = learner->own;
    cst_edge x = w->members;
    if (own && own->linear > 0) {
        x = scaled(g, x, own->linear);
    } else {
        if (own && own->scaling)
            x = scale_members(g, model, own->scaling, x);
        x = mixed(g, x, cst_learner_mix(model, learner), model->members, model->classes);
        x = rounded(g, NODE("Log", x));
    }
    cst_edge scores = weighed(g, x, learner->weights, model->members);
    if (learner->biases > 0)
        scores = NODE("Add", scores, TENSOR(learner->bias, (size_t)model->classes, 0));
    return softmax(g, scores);
}

/* A constant [columns][rows] of weights [rows][columns]. */
static cst_edge transposed(cst_onnx *g, const double *weights, size_t rows, size_t columns) {
    double *turned = take(g, rows * columns, sizeof *turned);
    for (size_t i = 0; turned && i < rows * columns; i++)
        turned[i % columns * rows + i / columns] = weights[i];
    return turned ? TENSOR(turned, columns, rows) : "";
}

/* cst_network_row: inputs are members first, then classes. */
static cst_edge network(const walk *w) {
    static const int64_t order[] = {0, MEMBERS, CLASSES};
    const cst_network *net = w->model->network;
    cst_onnx *g = w->g;
    size_t inputs = (size_t)net->members * (size_t)net->classes;
    size_t units[] = {inputs, (size_t)net->hidden, (size_t)net->hidden, (size_t)net->classes};
    const int64_t shape[] = {-1, (int64_t)inputs};
    const double *theta = net->theta;
    cst_edge x = NODE("Transpose", w->members);
    cst_onnx_integers(g, "perm", order, 3);
    x = NODE("Reshape", x, INDICES(shape, 2));
    x = NODE("Sub", floored_log(g, x, CST_NETWORK_FLOOR), TENSOR(net->mean, inputs, 0));
    x = NODE("Div", x, TENSOR(net->scale, inputs, 0));
    for (int l = 0; l < 3; l++) {
        size_t size = units[l] * units[l + 1];
        x = NODE("MatMul", x, transposed(g, theta, units[l + 1], units[l]));
        x = NODE("Add", x, TENSOR(theta + size, units[l + 1], 0));
        if (l < 2)
            x = NODE("Relu", x);
        theta += size + units[l + 1];
    }
    return softmax(g, x);
}

static bool reads_design(const cst_model *model) {
    for (int32_t l = 0; l < model->learners; l++) {
        const cst_learner *learner = &model->learner[l];
        int32_t functions = cst_task_has_outputs(model->task) ? model->classes : 1;
        int32_t width = learner->coefficients / functions;
        for (int32_t j = 0; cst_learner_is_linear(learner->kind) && j < learner->coefficients; j++)
            if (learner->blend != 0 && j % width >= model->members && learner->weights[j] != 0)
                return true;
    }
    return false;
}

/* The blend of all meta-learners. */
static cst_edge mixture(walk *w) {
    cst_onnx *g = w->g;
    const cst_model *model = w->model;
    cst_edge total = NULL;
    if (reads_design(model))
        w->design = make_design(g, model, w->members);
    for (int32_t l = 0; l < model->learners; l++) {
        const cst_learner *learner = &model->learner[l];
        if (learner->blend == 0)
            continue;
        bool is_network = learner->kind == CST_LEARNER_NETWORK;
        cst_edge p = is_network                               ? network(w)
                     : learner->kind == CST_LEARNER_LOGLINEAR ? pooled(w, learner)
                                                              : linear(w, learner);
        if (learner->own && !is_network)
            p = calibrated(g, &learner->own->calibrator, p);
        p = scaled(g, p, learner->blend);
        total = total ? NODE("Add", total, p) : p;
    }
    return total;
}

/* ---- after the blend ---- */

/* Values of a regression, within the ranges of the outputs. */
static cst_edge finish_values(cst_onnx *g, const cst_model *model, cst_edge x) {
    size_t outputs = (size_t)model->classes;
    if (model->transform)
        x = inverted(g, model->transform->kind, x);
    if (!model->range)
        return x;
    double *bounds = take(g, 2 * outputs, sizeof *bounds);
    if (!bounds)
        return "";
    for (size_t d = 0; d < outputs; d++) {
        bounds[d] = model->range[d] & CST_RANGE_LOW ? 0 : -INFINITY;
        bounds[outputs + d] = model->range[d] & CST_RANGE_HIGH ? 1 : INFINITY;
    }
    x = NODE("Max", x, TENSOR(bounds, outputs, 0));
    return NODE("Min", x, TENSOR(bounds + outputs, outputs, 0));
}

/* A property with names, one a line. */
static void put_names(cst_onnx *g, const char *key, char *const *names, int32_t count) {
    cst_buffer lines = {.context = g->context};
    for (int32_t i = 0; i < count; i++) {
        cst_buffer_add_text(&lines, i > 0 ? "\n" : "");
        cst_buffer_add_text(&lines, names[i]);
    }
    if (lines.status == CST_OK)
        cst_onnx_property(g, key, lines.bytes);
    else
        g->status = lines.status;
    cst_free(g->context, lines.bytes);
}

/* Scale and biases of the row's domain, whose position comes in; -1: none. */
static cst_edge of_domain(cst_onnx *g, const cst_model *model, cst_edge p) {
    const cst_domain_map *map = model->domains;
    size_t count = (size_t)map->count + 1; /* the first: no domain */
    size_t classes = (size_t)model->classes;
    double *scale = take(g, count * (classes + 1), sizeof *scale);
    if (!scale)
        return "";
    double *bias = scale + count;
    scale[0] = 1;
    for (size_t d = 1; d < count; d++) {
        scale[d] = map->scale[d - 1];
        memcpy(bias + d * classes, map->bias + (d - 1) * classes, classes * sizeof *bias);
    }
    const int64_t one = 1;
    cst_onnx_input(g, "domain", INT64, 0, "position in corestack.domains; -1: another domain");
    put_names(g, "corestack.domains", map->names, map->count);
    cst_edge place = NODE("Add", "domain", INDICES(&one, 1));
    cst_edge slope = NODE("Gather", TENSOR(scale, count, 1), place);
    cst_edge shift = NODE("Gather", TENSOR(bias, count, classes), place);
    cst_edge x = NODE("Mul", floored_log(g, p, CST_NLL_FLOOR), slope);
    return rounded(g, softmax(g, NODE("Add", x, shift)));
}

/* cst_adapted_rows; members: all that come in. */
static cst_edge adapted(cst_onnx *g, const cst_model *model, cst_edge members, cst_edge p) {
    const cst_adapted *a = model->adapted;
    double keep = 1 - CST_ADAPTED_STACK_MIX;
    double floor = CST_ADAPTED_STACK_MIX / (double)a->classes;
    cst_edge own = rounded(g, NODE("Log", shifted(g, scaled(g, p, keep), floor)));
    cst_edge x = mixed(g, members, a->mix, a->members, a->classes);
    x = weighed(g, rounded(g, NODE("Log", x)), a->weights, a->members);
    x = NODE("Add", x, scaled(g, own, a->scale));
    x = NODE("Add", x, TENSOR(a->bias, (size_t)a->classes, 0));
    return rounded(g, softmax(g, x));
}

/* cst_decision_apply. */
static void decide(cst_onnx *g, const cst_model *model, cst_edge p) {
    const cst_decision *d = model->decision;
    size_t classes = (size_t)model->classes;
    cst_edge scores = p;
    if (d->costs)
        scores = scaled(g, NODE("MatMul", p, TENSOR(d->costs, classes, classes)), -1);
    else if (d->offsets)
        scores = NODE("Add", floored_log(g, p, CST_DECISION_LEAST), TENSOR(d->offsets, classes, 0));
    cst_edge best = NODE("ArgMax", scores);
    cst_onnx_integer(g, "axis", CLASSES);
    cst_onnx_integer(g, "keepdims", 0);
    cst_onnx_output(g, best, "decisions", INT64, 0);
}

/* What stays in the model file, a line for each. */
static void tell_rest(cst_context *context, const cst_model *model) {
    const cst_reference *with = &model->reference;
    if (with->novelty || with->gauge || with->confusion)
        cst_notice(context, "onnx: the guard, the monitor and label shift are not in the graph");
    if (model->refits)
        cst_notice(context, "onnx: the graph needs every member; weights without absent ones are "
                            "not in it");
    if (model->values)
        cst_notice(context, "onnx: intervals and variances are not in the graph");
    if (model->cascade)
        cst_notice(context, "onnx: the cascade is not in the graph, which needs every member");
    if (model->domains)
        cst_notice(context, "onnx: input 'domain' takes the position of each row's domain in the "
                            "property corestack.domains, or -1");
}

cst_status cst_export_onnx(cst_context *context, const cst_model *model, const cst_export *how,
                           const char *path) {
    cst_onnx graph;
    cst_onnx *g = &graph;
    bool values = model->task == CST_TASK_REGRESSION;
    CST_SCOPE(scope);
    CST_NEW(context, scope, int64_t, kept, model->members);
    cst_onnx_begin(g, context, scope);
    cst_edge all = take_members(g, model, how->output == CST_OUTPUT_LOGIT);
    walk w = {.g = g, .model = model, .members = all};
    if (model->adapted) {
        for (int32_t k = 0; k < model->members; k++)
            kept[k] = k;
        w.members = NODE("Gather", all, INDICES(kept, (size_t)model->members));
        cst_onnx_integer(g, "axis", MEMBERS);
    }
    w.members = transform_members(g, model, w.members);
    cst_edge p = rounded(g, finish_values(g, model, mixture(&w)));
    if (model->domains)
        p = of_domain(g, model, p);
    if (model->calibrator.kind != CST_CALIBRATOR_NONE)
        p = rounded(g, calibrated(g, &model->calibrator, p));
    if (model->adapted)
        p = adapted(g, model, all, p);
    cst_onnx_output(g, cast(g, p, FLOAT), values ? "values" : "probabilities", FLOAT,
                    model->classes);
    if (model->decision)
        decide(g, model, p);
    cst_onnx_property(g, "corestack.task", cst_task_name(model->task));
    if (model->class_names)
        put_names(g, "corestack.classes", model->class_names, model->classes);
    CST_TRY(cst_onnx_end(g, path));
    tell_rest(context, model);
    return CST_OK;
}
