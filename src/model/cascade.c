/* A cascade at prediction: pools of the members that have run, and rows in flight of a service.
 * docs/cascades.md. */
#include "model/cascade.h"

#include "model/kernels.h"
#include "model/predict.h"

#include <math.h>
#include <string.h>

cst_status cst_cascade_plan_take(cst_context *context, cst_scope *scope, int32_t members,
                                 int32_t classes, int32_t stages, cst_cascade_plan *out) {
    *out = (cst_cascade_plan){.members = members, .classes = classes, .stages = stages};
    CST_TAKE(context, scope, out->order, members);
    CST_TAKE(context, scope, out->cost, members);
    CST_TAKE(context, scope, out->mix, members);
    CST_TAKE(context, scope, out->size, stages);
    CST_TAKE(context, scope, out->threshold, stages);
    CST_TAKE(context, scope, out->stopped, stages);
    CST_TAKE(context, scope, out->weights, (size_t)stages * (size_t)members);
    CST_TAKE(context, scope, out->bias, (size_t)stages * (size_t)classes);
    return CST_OK;
}

double cst_cascade_pool(const cst_cascade_plan *plan, int32_t stage, const float *const *rows,
                        double *out) {
    int32_t classes = plan->classes;
    const double *weights = plan->weights + (size_t)stage * (size_t)plan->members;
    double most = 0;
    memcpy(out, plan->bias + (size_t)stage * (size_t)classes, (size_t)classes * sizeof *out);
    for (int32_t j = 0; j < plan->size[stage]; j++)
        cst_add_mixed_logs(rows[plan->order[j]], classes, plan->mix[plan->order[j]], classes,
                           weights[j], out);
    cst_softmax(classes, out);
    for (int32_t c = 0; c < classes; c++)
        most = out[c] > most ? out[c] : most;
    return most;
}

double cst_cascade_cost(const cst_cascade_plan *plan, int32_t ran) {
    double sum = 0;
    for (int32_t j = 0; j < ran; j++)
        sum += plan->cost[plan->order[j]];
    return sum;
}

int cst_model_has_cascade(const cst_model *model) {
    return model && model->cascade;
}

/* ---- in a file ---- */

static void code_stage(cst_codec *c, cst_cascade_plan *p, int32_t s) {
    static const double far = CST_MODEL_COEFFICIENT_MAX;
    size_t at = c->at;
    size_t room = (size_t)p->members;
    CST_CODE_INT(c, p->size[s], "the members of a stage", 1, p->members - 1);
    if (cst_codec_reads(c) && s > 0 && p->size[s] <= p->size[s - 1])
        cst_refuse(c, at, "the stages of the cascade are not in ascending order");
    cst_code_f64(c, &p->threshold[s], "a threshold of the cascade", 0, CST_CASCADE_NEVER);
    cst_code_f64(c, &p->stopped[s], "a share of rows", 0, 1);
    cst_code_f64s(c, p->weights + (size_t)s * room, room, "a weight", -far, far);
    cst_code_f64s(c, p->bias + (size_t)s * (size_t)p->classes, (size_t)p->classes, "a bias", -far,
                  far);
}

static void code_order(cst_codec *c, const cst_cascade_plan *p) {
    uint8_t *seen = c->to ? NULL : cst_codec_alloc(c, (size_t)p->members, 1);
    for (int32_t j = 0; c->status == CST_OK && j < p->members; j++) {
        size_t at = c->at;
        CST_CODE_INT(c, p->order[j], "a member of the cascade", 0, p->members - 1);
        if (seen && cst_codec_reads(c) && seen[p->order[j]]++)
            cst_refuse(c, at, "member %d is twice in the cascade", (int)p->order[j]);
    }
}

void cst_code_cascade(cst_codec *c, cst_model *model) {
    static const double far = CST_MODEL_COEFFICIENT_MAX;
    size_t members = (size_t)model->members;
    cst_cascade_plan *p = model->cascade;
    int32_t most =
        model->members - 1 < CST_CASCADE_STAGES ? model->members - 1 : CST_CASCADE_STAGES;
    int32_t stages = cst_code_int(c, p ? p->stages : 0, "the stages of the cascade", 0, most);
    cst_codec_expect(c, members, 20, "members of the cascade");
    cst_codec_expect(c, (size_t)stages, 20 + 8 * (members + (size_t)model->classes),
                     "stages of the cascade");
    if (cst_codec_reads(c)) {
        p = model->cascade = cst_codec_alloc(c, 1, sizeof *p);
        if (p)
            c->status = cst_cascade_plan_take(c->context, c->scope, model->members, model->classes,
                                              stages, p);
    }
    if (c->status != CST_OK || !p)
        return;
    CST_CODE_INT(c, p->risk, "the risk of the cascade", 0, CST_CASCADE_ERROR);
    CST_CODE_INT(c, p->cost_of, "the cost of the cascade", 0, CST_COST_COUNT);
    CST_CODE_LONG(c, p->tested, "the tested rows", INT64_MAX);
    CST_CODE_LONG(c, p->failed, "the failed rows", INT64_MAX);
    cst_code_f64(c, &p->alpha, "the most risk", 0, 1);
    cst_code_f64(c, &p->confidence, "the confidence", 0, 1);
    cst_code_f64(c, &p->bound, "the bound", 0, 1);
    cst_code_f64(c, &p->share, "the share of the cost", 0, 1 + CST_MODEL_BLEND_TOLERANCE);
    cst_code_f64(c, &p->excess, "the loss of the cascade", -far, far);
    code_order(c, p);
    cst_code_f64s(c, p->cost, members, "a member's cost", 0, 1);
    cst_code_f64s(c, p->mix, members, "a member's share of the uniform distribution",
                  CST_MODEL_MIX_MIN, 1);
    for (int32_t s = 0; c->status == CST_OK && s < stages; s++)
        code_stage(c, p, s);
}

/* ---- rows in flight ---- */

typedef struct flight {
    int32_t ran;      /* members */
    int32_t answered; /* members that the answer is of */
    bool waits;
    bool whole; /* asked for */
} flight;

struct cst_cascade {
    cst_scope scope;
    cst_predictor *predictor;
    const cst_cascade_plan *plan;
    int64_t rows;
    bool fired;           /* the guard */
    flight *flight;       /* [rows] */
    float *given;         /* [rows][members][classes] */
    float *answer;        /* [rows][classes] */
    const float **member; /* [members] of the row at hand */
    double *scores;       /* [classes] */
};

static cst_status fill(cst_context *context, cst_cascade *c, cst_predictor *predictor,
                       int64_t rows) {
    size_t cells = 0;
    c->predictor = predictor;
    c->plan = cst_predictor_model(predictor)->cascade;
    c->rows = rows;
    if (!cst_size_mul((size_t)rows * (size_t)c->plan->members, (size_t)c->plan->classes, &cells))
        return cst_fail(context, CST_ERROR_LIMIT, "%lld rows in flight are too many",
                        (long long)rows);
    CST_TAKE(context, &c->scope, c->flight, rows);
    CST_TAKE(context, &c->scope, c->given, cells);
    CST_TAKE(context, &c->scope, c->answer, (size_t)rows * (size_t)c->plan->classes);
    CST_TAKE(context, &c->scope, c->member, c->plan->members);
    CST_TAKE(context, &c->scope, c->scores, c->plan->classes);
    return CST_OK;
}

cst_status cst_cascade_check(cst_context *context, const cst_model *model) {
    return model->cascade
               ? CST_OK
               : cst_fail(context, CST_ERROR_UNSUPPORTED,
                          "the model has no cascade%s: fit it with --cascade (option cascade)",
                          model->adapted ? ", because it was adapted" : "");
}

cst_status cst_cascade_create(cst_context *context, cst_cascade **out, cst_predictor *predictor,
                              int64_t rows) {
    CST_CLEAR(out);
    CST_ENTER(context);
    if (!out || !predictor || rows < 1 || rows > INT32_MAX)
        return cst_fail(context, CST_ERROR_ARGUMENT,
                        "cst_cascade_create: context, cascade, predictor and 1 to 2^31 - 1 rows "
                        "are required");
    CST_TRY(cst_cascade_check(context, cst_predictor_model(predictor)));
    cst_cascade *made = cst_alloc(context, 1, sizeof *made);
    cst_status status = made ? fill(context, made, predictor, rows) : CST_ERROR_MEMORY;
    if (status == CST_OK)
        *out = made;
    else
        cst_cascade_free(context, made);
    return cst_why(context, status);
}

void cst_cascade_free(cst_context *context, cst_cascade *cascade) {
    if (!cascade)
        return;
    cst_scope_free(&cascade->scope);
    cst_free(context, cascade);
}

static bool has_row(const cst_cascade *c, int64_t row) {
    return c && row >= 0 && row < c->rows;
}

cst_status cst_cascade_start(cst_cascade *c, int64_t row, int whole) {
    if (!c)
        return CST_ERROR_ARGUMENT;
    CST_ENTER(cst_predictor_own(c->predictor));
    if (!has_row(c, row))
        return cst_fail(cst_predictor_own(c->predictor), CST_ERROR_ARGUMENT,
                        "cst_cascade_start: row %lld is not one of %lld", (long long)row,
                        (long long)c->rows);
    c->flight[row] = (flight){.waits = true, .whole = whole || c->fired};
    return CST_OK;
}

int32_t cst_cascade_next(const cst_cascade *c, int64_t row) {
    return has_row(c, row) && c->flight[row].waits ? c->plan->order[c->flight[row].ran] : -1;
}

int64_t cst_cascade_waiting(const cst_cascade *c, int32_t member, int64_t *rows) {
    int64_t count = 0;
    for (int64_t i = 0; c && rows && i < c->rows; i++)
        if (member >= 0 && cst_cascade_next(c, i) == member)
            rows[count++] = i;
    return count;
}

/* The stage of a row whose members have just run; -1: there is none of so many. */
static int32_t stage_of(const cst_cascade_plan *plan, int32_t ran) {
    for (int32_t s = 0; s < plan->stages; s++)
        if (plan->size[s] == ran)
            return s;
    return -1;
}

/* The stack's own prediction; a whole row goes through the guard. */
static cst_status answer_all(cst_cascade *c, flight *f, float *answer) {
    cst_guard_batch found;
    f->waits = false;
    f->answered = f->ran;
    if (!f->whole || !cst_predictor_is_guarded(c->predictor))
        return cst_predictor_predict(c->predictor, c->member, 1, answer);
    CST_TRY(cst_predictor_predict_guarded(c->predictor, c->member, NULL, 1, answer, &found));
    c->fired = found.fired;
    return CST_OK;
}

static cst_status take(cst_cascade *c, int64_t row, const float *probabilities) {
    flight *f = &c->flight[row];
    size_t classes = (size_t)c->plan->classes;
    float *given = c->given + (size_t)row * (size_t)c->plan->members * classes;
    float *answer = c->answer + (size_t)row * classes;
    float *to = given + (size_t)c->plan->order[f->ran] * classes;
    for (size_t e = 0; e < classes; e++)
        to[e] = fminf(fmaxf(probabilities[e], 0), 1);
    for (int32_t k = 0; k < c->plan->members; k++)
        c->member[k] = given + (size_t)k * classes;
    f->ran++;
    if (f->ran == c->plan->members)
        return answer_all(c, f, answer);
    int32_t stage = stage_of(c->plan, f->ran);
    if (stage < 0)
        return CST_OK;
    double most = cst_cascade_pool(c->plan, stage, c->member, c->scores);
    for (size_t e = 0; e < classes; e++)
        answer[e] = (float)c->scores[e];
    f->answered = f->ran;
    f->waits = f->whole || c->fired || most < c->plan->threshold[stage];
    return CST_OK;
}

cst_status cst_cascade_give(cst_cascade *c, int64_t row, const float *probabilities) {
    if (!c)
        return CST_ERROR_ARGUMENT;
    cst_context *own = cst_predictor_own(c->predictor);
    CST_ENTER(own);
    int32_t next = cst_cascade_next(c, row);
    if (next < 0 || !probabilities)
        return cst_fail(own, CST_ERROR_ARGUMENT,
                        "cst_cascade_give: row %lld waits for no member, or there are no "
                        "probabilities",
                        (long long)row);
    cst_row_check found = cst_check_row(probabilities, c->plan->classes);
    if (found.outside || !(fabs(found.sum - 1) <= 1e-3))
        return cst_fail(
            own, CST_ERROR_INPUT,
            "member '%s', row %lld: these are no probabilities (%s; their sum is %g)",
            cst_model_input_name(cst_predictor_model(c->predictor), next), (long long)row,
            found.outside ? "one is below 0 or above 1, or no number" : "each is", found.sum);
    return take(c, row, probabilities);
}

int32_t cst_cascade_answer(const cst_cascade *c, int64_t row, float *out) {
    if (!has_row(c, row) || !out)
        return -1;
    size_t classes = (size_t)c->plan->classes;
    for (size_t e = 0; e < classes; e++)
        out[e] =
            c->flight[row].answered ? c->answer[(size_t)row * classes + e] : 1 / (float)classes;
    return c->flight[row].answered;
}
