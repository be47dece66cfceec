/* The online adapter predicts and learns by rows. docs/prediction.md#learning-online. */
#include "fit/adapt/online.h"

#include "fit/adapt/state_file.h"
#include "model/kernels.h"

#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <string.h>

/* Share of the uniform distribution mixed in before logarithms: of members, and of what is already
 * an average or a stack. */
static const double MEMBER_MIX = 1e-3;
static const double STACK_MIX = 1e-6;

/* The share of a Newton expert's past left after 100 rows, the precision of its parameters, and
 * that of the average's temperature. */
static const double KEPT[CST_ONLINE_NEWTONS] = {0.98, 0.7, 0.3};
static const double PRECISION = 1;
static const double TEMPERATURE_KEPT = 0.98;
static const double TEMPERATURE_PRECISION = 10;

/* The share of its weight that an expert gives to all in 100 rows, and the start of the stack. */
static const double SHARED = 0.05;
static const double STACK_START = 0.9;

/* The share of labels outside their set, and how far one label moves it. */
static const double ALPHA = 0.1;
static const double SET_STEP = 0.02;

/* One row costs an expert no more weight than this likelihood. */
static const double LEAST_LIKELIHOOD = 1e-7;
static const double LEAST_PROBABILITY = 1e-15; /* in losses, as in all scores */

enum { BIAS_CLASSES = 64, ROWS_BY_HUNDRED = 100, PENDING_DEFAULT = 10000, PENDING_LEAST = 16 };
enum { PENDING_BYTES = 8 << 20, PENDING_MAX = 10000000 };
static const int64_t RECORD_MAX = (int64_t)1 << 26; /* floats */

static double of_one_row(double of_hundred) {
    return pow(of_hundred, 1.0 / ROWS_BY_HUNDRED);
}

/* ---- making one ---- */

static cst_status check_names(cst_context *context, const cst_model *model,
                              const char *const *names, int32_t members) {
    CST_TRY(cst_check_texts(context, "cst_adapter_create", "names", names, members));
    for (int32_t k = 0; k < members; k++)
        for (int32_t j = 0; j < k; j++)
            if (strcmp(names[j], names[k]) == 0)
                return cst_fail(context, CST_ERROR_INPUT, "member '%s' is named twice", names[k]);
    for (int32_t k = 0; k < cst_model_inputs(model); k++) {
        bool found = false;
        for (int32_t j = 0; j < members; j++)
            found = found || strcmp(names[j], cst_model_input_name(model, k)) == 0;
        if (!found)
            return cst_fail(context, CST_ERROR_MISMATCH,
                            "the model needs member '%s', which is not among the %d members of "
                            "the adapter",
                            cst_model_input_name(model, k), (int)members);
    }
    return CST_OK;
}

static cst_status copy_names(cst_context *context, cst_adapter *a, const char *const *names) {
    CST_TAKE(context, &a->scope, a->names, a->members);
    CST_TAKE(context, &a->scope, a->place, cst_model_inputs(a->model));
    for (int32_t k = 0; k < a->members; k++) {
        a->names[k] = cst_take_text(context, &a->scope, names[k]);
        if (!a->names[k])
            return CST_ERROR_MEMORY;
        for (int32_t j = 0; j < cst_model_inputs(a->model); j++)
            if (strcmp(cst_model_input_name(a->model, j), names[k]) == 0)
                a->place[j] = k;
    }
    return CST_OK;
}

static cst_status make_experts(cst_context *context, cst_adapter *a) {
    bool biases = a->classes <= BIAS_CLASSES;
    for (int i = 0; i < CST_ONLINE_NEWTONS; i++)
        CST_TRY(cst_newton_take(context, &a->scope, a->members + 1, a->classes, biases,
                                of_one_row(KEPT[i]), PRECISION, &a->newton[i]));
    CST_TRY(cst_newton_take(context, &a->scope, 1, a->classes, false, of_one_row(TEMPERATURE_KEPT),
                            TEMPERATURE_PRECISION, &a->average));
    a->experts = CST_ONLINE_SINGLES + a->members;
    CST_TAKE(context, &a->scope, a->share, a->experts);
    CST_TAKE(context, &a->scope, a->loss, a->experts);
    CST_TAKE(context, &a->scope, a->likelihood, a->experts);
    for (int32_t e = 0; e < a->experts; e++)
        a->share[e] = 1.0 / a->experts;
    for (int e = 0; e < CST_ONLINE_MIXED; e++)
        a->mixture[e] = e == 0 ? STACK_START : (1 - STACK_START) / (CST_ONLINE_MIXED - 1);
    return CST_OK;
}

static cst_status make_rows(cst_context *context, cst_adapter *a) {
    size_t width = cst_online_width(a);
    size_t floats = 0;
    if (!cst_size_mul((size_t)a->capacity, width, &floats))
        return cst_fail(context, CST_ERROR_LIMIT,
                        "%lld rows of %d members and %d classes are too "
                        "many to keep",
                        (long long)a->capacity, (int)a->members, (int)a->classes);
    CST_TAKE(context, &a->scope, a->slot, a->capacity);
    CST_TAKE(context, &a->scope, a->record, floats);
    CST_TAKE(context, &a->scope, a->row, width);
    CST_TAKE(context, &a->scope, a->given, cst_model_inputs(a->model));
    CST_TAKE(context, &a->scope, a->logs, (int64_t)(a->members + 1) * a->classes);
    CST_TAKE(context, &a->scope, a->mean, a->classes);
    CST_TAKE(context, &a->scope, a->mean_log, a->classes);
    CST_TAKE(context, &a->scope, a->mixed, a->classes);
    return CST_OK;
}

CST_OWNED(cst_predictor)

static cst_status adapter_fill(cst_context *context, const char *const *names, double alpha,
                               cst_adapter *a) {
    CST_TRY(cst_aci_start(context, alpha, SET_STEP, &a->sets));
    CST_TRY(cst_stack_hash(context, a->model, &a->model_hash));
    CST_TRY(cst_predictor_create(context, &a->predictor, a->model));
    CST_OWN(context, &a->scope, cst_predictor, a->predictor);
    CST_TRY(copy_names(context, a, names));
    CST_TRY(make_experts(context, a));
    return make_rows(context, a);
}

/* An adapter of `members` names (borrowed) without anything learned. */
static cst_status adapter_make(cst_context *context, const cst_model *model,
                               const char *const *names, int32_t members, int64_t capacity,
                               double alpha, cst_adapter **out) {
    int64_t width = ((int64_t)members + CST_ONLINE_EXTRA) * model->classes;
    if (members > CST_ONLINE_MEMBERS_MAX || width > RECORD_MAX)
        return cst_fail(context, CST_ERROR_LIMIT,
                        "%d members and %d classes are too many for online adaptation; it takes "
                        "%d members, and %lld numbers per row",
                        (int)members, (int)model->classes, CST_ONLINE_MEMBERS_MAX,
                        (long long)RECORD_MAX);
    CST_TRY(check_names(context, model, names, members));
    if (capacity == 0) {
        capacity = PENDING_BYTES / (width * (int64_t)sizeof(float));
        capacity = capacity < PENDING_LEAST     ? PENDING_LEAST
                   : capacity > PENDING_DEFAULT ? PENDING_DEFAULT
                                                : capacity;
    }
    cst_adapter *a = cst_alloc(context, 1, sizeof *a);
    if (!a)
        return CST_ERROR_MEMORY;
    a->model = model;
    a->members = members;
    a->classes = model->classes;
    a->capacity = capacity;
    cst_status status = adapter_fill(context, names, alpha, a);
    if (status == CST_OK)
        *out = a;
    else
        cst_adapter_free(context, a);
    return status;
}

/* An adapter of all members of the model. */
static cst_status adapter_of_all(cst_context *context, const cst_model *model, int64_t capacity,
                                 double alpha, cst_adapter **out) {
    int32_t members = cst_model_inputs(model);
    const char **names;
    CST_SCOPE(scope);
    CST_TAKE(context, scope, names, members);
    for (int32_t k = 0; k < members; k++)
        names[k] = cst_model_input_name(model, k);
    return adapter_make(context, model, names, members, capacity, alpha, out);
}

cst_status cst_adapter_create(cst_context *context, cst_adapter **out, const cst_model *model,
                              const char *const *names, int64_t named_given,
                              const cst_adapter_options *options_given) {
    CST_CLEAR(out);
    CST_ENTER(context);
    CST_STRUCT(context, cst_adapter_options, options, options_given);
    CST_COUNT(context, named, named_given);
    int32_t members = named;
    int64_t pending = options ? options->pending : 0;
    double alpha = options && options->alpha != 0 ? options->alpha : ALPHA;
    if (!out || !model || members < 0 || (members > 0 && !names))
        return cst_fail(context, CST_ERROR_ARGUMENT,
                        "cst_adapter_create: model, names of the members, and the result are "
                        "required");
    if (pending < 0 || pending > PENDING_MAX)
        return cst_fail(context, CST_ERROR_ARGUMENT,
                        "cst_adapter_create: pending is %lld, which is not from 1 to %d (0: "
                        "automatic)",
                        (long long)pending, PENDING_MAX);
    if (!(alpha > 0 && alpha < 1))
        return cst_fail(context, CST_ERROR_ARGUMENT,
                        "cst_adapter_create: alpha is %g, which is not between 0 and 1", alpha);
    if (model->task != CST_TASK_CLASSIFICATION)
        return cst_fail(context, CST_ERROR_UNSUPPORTED, "online adaptation is not supported for %s",
                        cst_task_text(model->task));
    return cst_why(context, names
                                ? adapter_make(context, model, names, members, pending, alpha, out)
                                : adapter_of_all(context, model, pending, alpha, out));
}

void cst_adapter_free(cst_context *context, cst_adapter *a) {
    if (!a)
        return;
    cst_scope_free(&a->scope);
    cst_free(context, a);
}

/* ---- a row ---- */

/* Copies a member's row, clipped and divided by its sum as the model's prediction does. */
static cst_status take_row(cst_context *context, const cst_adapter *a, int32_t k, const float *from,
                           int64_t place, float *to) {
    cst_row_check found = cst_check_row(from, a->classes);
    if (found.outside || !(fabs(found.sum - 1) <= 1e-3)) {
        for (int32_t c = 0; c < a->classes; c++)
            if (!((double)from[c] >= -CST_ROW_MARGIN && (double)from[c] <= 1 + CST_ROW_MARGIN))
                return cst_fail(context, CST_ERROR_INPUT,
                                "member '%s', row %lld, class %d: %g is not a probability; remove "
                                "or correct the sample, and apply the softmax to logits",
                                a->names[k], (long long)place, (int)c, (double)from[c]);
        return cst_fail(context, CST_ERROR_INPUT,
                        "member '%s', row %lld: the probabilities sum to %g instead of 1",
                        a->names[k], (long long)place, found.sum);
    }
    bool repair = found.beyond || fabs(found.sum - 1) > 1e-6;
    double sum = 0;
    for (int32_t c = 0; c < a->classes; c++) {
        to[c] = !repair ? from[c] : from[c] < 0.0F ? 0.0F : from[c] > 1.0F ? 1.0F : from[c];
        sum += (double)to[c];
    }
    for (int32_t c = 0; repair && c < a->classes; c++)
        to[c] = (float)((double)to[c] / sum);
    return CST_OK;
}

/* Logarithms of the stack, the members and their average, from a record. */
static void take_logs(cst_adapter *a, const float *record) {
    size_t classes = (size_t)a->classes;
    size_t members = (size_t)a->members;
    double even = 1.0 / a->classes;
    memset(a->mean, 0, classes * sizeof *a->mean);
    for (size_t k = 0; k < members; k++)
        for (size_t c = 0; c < classes; c++) {
            double p = (double)record[k * classes + c];
            a->mean[c] += p;
            a->logs[(k + 1) * classes + c] = log((1 - MEMBER_MIX) * p + MEMBER_MIX * even);
        }
    for (size_t c = 0; c < classes; c++) {
        double p = (double)record[members * classes + c];
        a->mean[c] /= (double)members;
        a->logs[c] = log((1 - STACK_MIX) * p + STACK_MIX * even);
        a->mean_log[c] = log((1 - STACK_MIX) * a->mean[c] + STACK_MIX * even);
    }
}

static void store(const double *from, size_t classes, float *to) {
    for (size_t c = 0; c < classes; c++)
        to[c] = (float)from[c];
}

/* All experts' predictions for a record that has members and stack. */
static void predict(cst_adapter *a, float *record) {
    size_t classes = (size_t)a->classes;
    size_t members = (size_t)a->members;
    const float *stack = record + members * classes;
    float *newton = record + (members + 1) * classes;
    float *tempered = newton + CST_ONLINE_NEWTONS * classes;
    float *shared = tempered + classes;
    take_logs(a, record);
    for (size_t i = 0; i < CST_ONLINE_NEWTONS; i++) {
        cst_newton_predict(&a->newton[i], a->logs, a->mixed);
        store(a->mixed, classes, newton + i * classes);
    }
    cst_newton_predict(&a->average, a->mean_log, a->mixed);
    store(a->mixed, classes, tempered);
    for (size_t c = 0; c < classes; c++) {
        double sum = a->share[0] * (double)stack[c] + a->share[1] * a->mean[c] +
                     a->share[2] * (double)tempered[c];
        for (size_t k = 0; k < members; k++)
            sum += a->share[CST_ONLINE_SINGLES + k] * (double)record[k * classes + c];
        shared[c] = (float)sum;
        sum =
            a->mixture[0] * (double)stack[c] + a->mixture[CST_ONLINE_MIXED - 1] * (double)shared[c];
        for (size_t i = 0; i < CST_ONLINE_NEWTONS; i++)
            sum += a->mixture[1 + i] * (double)newton[i * classes + c];
        shared[classes + c] = (float)sum;
    }
}

cst_status cst_online_observe(cst_context *context, cst_adapter *a, const float *const *predictions,
                              int64_t place) {
    size_t classes = (size_t)a->classes;
    for (int32_t k = 0; k < a->members; k++)
        CST_TRY(take_row(context, a, k, predictions[k], place, a->row + (size_t)k * classes));
    for (int32_t j = 0; j < cst_model_inputs(a->model); j++)
        a->given[j] = a->row + (size_t)a->place[j] * classes;
    cst_status status =
        cst_predictor_predict(a->predictor, a->given, 1, a->row + (size_t)a->members * classes);
    if (status != CST_OK)
        return cst_fail(context, status, "%s", cst_predictor_error(a->predictor));
    predict(a, a->row);
    cst_online_slot *slot = &a->slot[a->next % a->capacity];
    a->dropped += slot->waiting;
    a->waiting += !slot->waiting;
    *slot = (cst_online_slot){
        .waiting = true, .label = -1, .threshold = fmin(fmax(cst_aci_threshold(&a->sets), -1), 2)};
    memcpy(a->record + (size_t)(a->next % a->capacity) * cst_online_width(a), a->row,
           cst_online_width(a) * sizeof *a->row);
    a->next++;
    return CST_OK;
}

cst_status cst_adapter_observe(cst_context *context, cst_adapter *adapter,
                               const float *const *predictions, int64_t rows, float *out,
                               int64_t *ticket) {
    if (ticket)
        *ticket = -1;
    CST_ENTER(context);
    if (!adapter || !predictions || rows < 1 || !out || !ticket)
        return cst_fail(context, CST_ERROR_ARGUMENT,
                        "cst_adapter_observe: adapter, predictions, rows >= 1, an output and the "
                        "ticket are required");
    CST_FITS(context, rows, adapter->classes, sizeof *out);
    if (rows > adapter->capacity)
        return cst_fail(context, CST_ERROR_ARGUMENT,
                        "cst_adapter_observe: %lld rows at once are more than the %lld that the "
                        "adapter keeps for their labels; create it with more `pending`",
                        (long long)rows, (long long)adapter->capacity);
    size_t classes = (size_t)adapter->classes;
    for (int32_t k = 0; k < adapter->members; k++)
        if (!predictions[k])
            return cst_fail(context, CST_ERROR_ARGUMENT,
                            "cst_adapter_observe: the predictions of member %d, '%s', are missing",
                            (int)k, adapter->names[k]);
    for (int64_t i = 0; i < rows; i++) /* all before any is kept */
        for (int32_t k = 0; k < adapter->members; k++)
            CST_TRY(take_row(context, adapter, k, predictions[k] + (size_t)i * classes, i,
                             adapter->row));
    const float *row[CST_ONLINE_MEMBERS_MAX];
    int64_t first = adapter->next;
    for (int64_t i = 0; i < rows; i++) {
        for (int32_t k = 0; k < adapter->members; k++)
            row[k] = predictions[k] + (size_t)i * classes;
        CST_TRY(cst_online_observe(context, adapter, row, i));
        memcpy(out + (size_t)i * classes, adapter->row + cst_online_width(adapter) - classes,
               classes * sizeof *out);
    }
    *ticket = first;
    return CST_OK;
}

/* ---- a label ---- */

cst_online_slot *cst_online_find(const cst_adapter *a, int64_t ticket) {
    if (ticket < 0 || ticket >= a->next || ticket < a->next - a->capacity)
        return NULL;
    cst_online_slot *slot = &a->slot[ticket % a->capacity];
    return slot->waiting ? slot : NULL;
}

/* weights [count] times likelihoods, made to sum to 1, of which a part is shared out as `rest`
 * says: evenly where that is negative, else `rest` to the first and the others alike. */
static void fixed_share(double *weights, const double *likelihood, int32_t count, double rest) {
    double part = 1 - of_one_row(1 - SHARED);
    double sum = 0;
    for (int32_t e = 0; e < count; e++) {
        weights[e] *= fmax(likelihood[e], LEAST_LIKELIHOOD);
        sum += weights[e];
    }
    for (int32_t e = 0; e < count; e++) {
        double home = rest < 0 ? 1.0 / count : e == 0 ? rest : (1 - rest) / (count - 1);
        weights[e] = (1 - part) * (weights[e] / sum) + part * home;
    }
}

static double loss_of(double probability) {
    return -log(fmax(probability, LEAST_PROBABILITY));
}

static bool errs(const float *row, int32_t classes, int32_t label) {
    int32_t best = 0;
    for (int32_t c = 1; c < classes; c++)
        best = row[c] > row[best] ? c : best;
    return best != label;
}

/* The set of a record; set: [classes] or NULL. */
static int32_t set_of(const cst_adapter *a, const float *record, double threshold,
                      unsigned char *set) {
    const float *row = record + cst_online_width(a) - (size_t)a->classes;
    int32_t size = 0;
    for (int32_t c = 0; c < a->classes; c++) {
        bool in = cst_aci_score(row, c) <= threshold;
        size += in;
        if (set)
            set[c] = in;
    }
    return size;
}

static void count_row(cst_adapter *a, const float *record, int32_t label) {
    size_t classes = (size_t)a->classes;
    size_t members = (size_t)a->members;
    const float *adapter = record + cst_online_width(a) - classes;
    for (int32_t e = 0; e < a->experts; e++)
        a->loss[e] += loss_of(a->likelihood[e]);
    a->adapter_loss += loss_of((double)adapter[label]);
    a->errors[CST_ONLINE_ADAPTER] += errs(adapter, a->classes, label);
    a->errors[CST_ONLINE_STACK] += errs(record + members * classes, a->classes, label);
    int32_t best = 0;
    for (int32_t c = 1; c < a->classes; c++)
        best = a->mean[c] > a->mean[best] ? c : best;
    a->errors[CST_ONLINE_AVERAGE] += best != label;
    a->labelled++;
}

void cst_online_learn(cst_adapter *a, int64_t ticket, int32_t label) {
    size_t classes = (size_t)a->classes;
    size_t members = (size_t)a->members;
    size_t y = (size_t)label;
    const float *record = a->record + (size_t)(ticket % a->capacity) * cst_online_width(a);
    const float *stack = record + members * classes;
    const float *newton = stack + classes;
    const float *tempered = newton + CST_ONLINE_NEWTONS * classes;
    double mixed[CST_ONLINE_MIXED];
    take_logs(a, record);
    a->likelihood[0] = (double)stack[y];
    a->likelihood[1] = a->mean[y];
    a->likelihood[2] = (double)tempered[y];
    for (size_t k = 0; k < members; k++)
        a->likelihood[CST_ONLINE_SINGLES + k] = (double)record[k * classes + y];
    count_row(a, record, label);
    double threshold = a->slot[ticket % a->capacity].threshold;
    double score = cst_aci_score(record + cst_online_width(a) - classes, label);
    a->set_size += set_of(a, record, threshold, NULL);
    cst_aci_update(&a->sets, score <= threshold, score);
    mixed[0] = (double)stack[y];
    for (size_t i = 0; i < CST_ONLINE_NEWTONS; i++)
        mixed[1 + i] = (double)newton[i * classes + y];
    mixed[CST_ONLINE_MIXED - 1] = (double)tempered[classes + y];
    fixed_share(a->share, a->likelihood, a->experts, -1);
    fixed_share(a->mixture, mixed, CST_ONLINE_MIXED, STACK_START);
    for (int i = 0; i < CST_ONLINE_NEWTONS; i++)
        cst_newton_learn(&a->newton[i], a->logs, label);
    cst_newton_learn(&a->average, a->mean_log, label);
    a->slot[ticket % a->capacity].waiting = false;
    a->waiting--;
}

static cst_status check_ticket(cst_context *context, const cst_adapter *adapter, int64_t ticket) {
    if (ticket < 0 || ticket >= adapter->next)
        return cst_fail(context, CST_ERROR_INPUT,
                        "ticket %lld was not given out: the adapter has observed %lld rows, "
                        "counted from 0",
                        (long long)ticket, (long long)adapter->next);
    if (ticket < adapter->next - adapter->capacity)
        return cst_fail(context, CST_ERROR_INPUT,
                        "ticket %lld is too old: the adapter keeps the last %lld rows; create it "
                        "with more `pending` for labels that come later",
                        (long long)ticket, (long long)adapter->capacity);
    if (!cst_online_find(adapter, ticket))
        return cst_fail(context, CST_ERROR_INPUT, "ticket %lld has its label already",
                        (long long)ticket);
    return CST_OK;
}

cst_status cst_adapter_label(cst_context *context, cst_adapter *adapter, int64_t ticket,
                             int32_t label) {
    CST_ENTER(context);
    if (!adapter)
        return cst_fail(context, CST_ERROR_ARGUMENT,
                        "cst_adapter_label: context and adapter are required");
    CST_TRY(check_ticket(context, adapter, ticket));
    if (label < 0 || label >= adapter->classes)
        return cst_fail(context, CST_ERROR_INPUT,
                        "ticket %lld: label %d is no class; labels must be 0 to %d (%d classes)",
                        (long long)ticket, (int)label, (int)adapter->classes - 1,
                        (int)adapter->classes);
    cst_online_learn(adapter, ticket, label);
    return CST_OK;
}

cst_status cst_adapter_set(cst_context *context, cst_adapter *adapter, int64_t ticket, uint8_t *set,
                           int32_t *size) {
    CST_ENTER(context);
    if (!adapter || !set)
        return cst_fail(context, CST_ERROR_ARGUMENT,
                        "cst_adapter_set: adapter and the set are required");
    CST_TRY(check_ticket(context, adapter, ticket));
    int64_t place = ticket % adapter->capacity;
    int32_t found = set_of(adapter, adapter->record + (size_t)place * cst_online_width(adapter),
                           adapter->slot[place].threshold, set);
    if (size)
        *size = found;
    return CST_OK;
}

/* ---- what it has seen ---- */

static int32_t online_best(const cst_adapter *a) {
    int32_t best = a->labelled > 0 ? 0 : -1;
    for (int32_t k = 1; best >= 0 && k < a->members; k++)
        if (a->loss[CST_ONLINE_SINGLES + k] < a->loss[CST_ONLINE_SINGLES + best])
            best = k;
    return best;
}

cst_status cst_adapter_get_state(cst_context *context, const cst_adapter *adapter,
                                 cst_adapter_state *out) {
    CST_ENTER(context);
    if (!adapter || !out)
        return cst_fail(context, CST_ERROR_ARGUMENT,
                        "cst_adapter_get_state: adapter and the result are required");
    double rows = adapter->labelled > 0 ? (double)adapter->labelled : NAN;
    int32_t best = online_best(adapter);
    double shared = adapter->mixture[CST_ONLINE_MIXED - 1];
    *out = (cst_adapter_state){.observed = adapter->next,
                               .labelled = adapter->labelled,
                               .waiting = adapter->waiting,
                               .dropped = adapter->dropped,
                               .loss = adapter->adapter_loss / rows,
                               .stack_loss = adapter->loss[0] / rows,
                               .average_loss = adapter->loss[1] / rows,
                               .best_member_loss =
                                   best < 0 ? NAN : adapter->loss[CST_ONLINE_SINGLES + best] / rows,
                               .best_member = best,
                               .coverage = 1 - (double)adapter->sets.missed / rows,
                               .set_size = (double)adapter->set_size / rows,
                               .stack_share = adapter->mixture[0] + shared * adapter->share[0],
                               .average_share = shared * (adapter->share[1] + adapter->share[2])};
    for (int i = 0; i < CST_ONLINE_NEWTONS; i++)
        out->newton_share += adapter->mixture[1 + i];
    for (int32_t k = 0; k < adapter->members; k++)
        out->members_share += shared * adapter->share[CST_ONLINE_SINGLES + k];
    return CST_OK;
}

int64_t cst_adapter_members(const cst_adapter *adapter) {
    return adapter ? adapter->members : 0;
}

const char *cst_adapter_member_name(const cst_adapter *adapter, int32_t member) {
    if (!adapter || member < 0 || member >= adapter->members)
        return NULL;
    return adapter->names[member];
}

/* ---- its state as a file: docs/model-format.md#adapter-states ---- */

enum { CAPACITY_MAX = 10000000 };
static const double SUM_MAX = 1e30;
static const double COUNT_MAX = 9007199254740992.0; /* 2^53 */

/* Weights that sum to 1. */
static void code_weights(cst_codec *c, double *weights, size_t count) {
    size_t at = c->at;
    double sum = 0;
    cst_code_f64s(c, weights, count, "weight", DBL_MIN, 1);
    for (size_t i = 0; i < count; i++)
        sum += weights[i];
    if (!(sum > 1 - 1e-6 && sum < 1 + 1e-6))
        cst_refuse(c, at, "weights sum to %g instead of 1", sum);
}

static void code_newton(cst_codec *c, cst_newton *n) {
    size_t size = (size_t)n->size;
    CST_CODE_INT(c, n->since, "labels since the last solution", 0, n->period - 1);
    for (size_t i = 0; i < size; i++)
        cst_code_f64s(c, n->curvature + i * size, i + 1, "curvature", -SUM_MAX, SUM_MAX);
    cst_code_f64s(c, n->pull, size, "pull", -SUM_MAX, SUM_MAX);
    cst_code_f64s(c, n->shift, size, "parameter", -CST_NEWTON_MAX, CST_NEWTON_MAX);
}

static void code_sets(cst_codec *c, cst_adapter *a) {
    size_t at = c->at;
    cst_aci *sets = &a->sets;
    cst_code_f64(c, &sets->alpha, "alpha", 0, 1);
    cst_code_f64(c, &sets->step, "a step", 0, 1);
    cst_code_f64(c, &sets->level, "a level", -SUM_MAX, SUM_MAX);
    CST_CODE_LONG(c, sets->rows, "the number of sets", a->labelled);
    CST_CODE_LONG(c, sets->missed, "the number of misses", a->labelled);
    CST_CODE_LONG(c, a->set_size, "the size of all sets", (int64_t)COUNT_MAX);
    CST_CODE_INT(c, sets->count, "the number of scores", 0, CST_ACI_WINDOW);
    CST_CODE_INT(c, sets->next, "the place of a score", 0, CST_ACI_WINDOW);
    cst_code_f64s(c, sets->scores, (size_t)sets->count, "a score", 0, 1);
    if (cst_codec_reads(c) && !cst_aci_restore(sets))
        cst_refuse(c, at, "these are no prediction sets of %" PRId64 " labels", a->labelled);
}

static void code_record(cst_codec *c, float *record, size_t width) {
    if (c->to)
        cst_code_f32s(c, record, width, "a probability", 1);
    const uint8_t *from = cst_codec_take(c, width * 4);
    for (size_t j = 0; from && j < width; j++) {
        uint32_t bits = cst_load_u32(from + 4 * j);
        memcpy(&record[j], &bits, sizeof bits);
        if (!(record[j] >= 0.0F && record[j] <= 1.0001F))
            cst_refuse(c, c->at - width * 4 + 4 * j, "%g is not a probability", (double)record[j]);
    }
}

/* The rows that wait for their label. */
static void code_waiting(cst_codec *c, cst_adapter *a) {
    size_t width = cst_online_width(a);
    int64_t least = a->next > a->capacity ? a->next - a->capacity : 0;
    int64_t ticket = least - 1;
    CST_CODE_LONG(c, a->waiting, "the number of rows that wait", a->capacity);
    for (int64_t i = 0; c->status == CST_OK && i < a->waiting; i++) {
        size_t at = c->at;
        do
            ticket++;
        while (c->to && !cst_online_find(a, ticket));
        ticket = cst_code_long(c, ticket, "a ticket", INT64_MAX);
        if (ticket < least || ticket >= a->next)
            cst_refuse(c, at, "ticket %" PRId64 " is not from %" PRId64 " to %" PRId64, ticket,
                       least, a->next - 1);
        if (c->status != CST_OK)
            return;
        cst_online_slot *slot = &a->slot[ticket % a->capacity];
        int32_t label = cst_code_int(c, slot->label + 1, "a label", 0, a->classes);
        CST_CODE_FIELD(c, slot->label, label - 1);
        CST_CODE_FIELD(c, slot->waiting, true);
        cst_code_f64(c, &slot->threshold, "a threshold", -1, 2);
        code_record(c, a->record + (size_t)(ticket % a->capacity) * width, width);
        least = ticket + 1;
    }
}

/* Members, classes, names and rows, which an adapter is made of. */
static void code_head(cst_codec *c, int32_t *members, int32_t *classes, char ***names,
                      int64_t *capacity) {
    CST_CODE_INT(c, *members, "the number of members", 1, CST_ONLINE_MEMBERS_MAX);
    CST_CODE_INT(c, *classes, "the number of classes", 1, INT32_MAX);
    if (CST_CODE_ROOM(c, *names, (size_t)*members, 5, "members"))
        cst_code_strings(c, *names, (size_t)*members, "member");
    CST_CODE_LONG(c, *capacity, "the number of rows kept", CAPACITY_MAX);
    if (*capacity == 0)
        cst_refuse(c, c->at - 8, "no rows are kept");
}

static void code_rest(cst_codec *c, cst_adapter *a) {
    CST_CODE_LONG(c, a->next, "the number of rows", (int64_t)COUNT_MAX);
    CST_CODE_LONG(c, a->labelled, "the number of labels", a->next);
    CST_CODE_LONG(c, a->dropped, "the number of dropped rows", a->next);
    for (int i = 0; i < CST_ONLINE_SCORED; i++)
        CST_CODE_LONG(c, a->errors[i], "the number of errors", a->labelled);
    cst_code_f64(c, &a->adapter_loss, "a loss", 0, COUNT_MAX);
    cst_code_f64s(c, a->loss, (size_t)a->experts, "a loss", 0, COUNT_MAX);
    code_weights(c, a->mixture, CST_ONLINE_MIXED);
    code_weights(c, a->share, (size_t)a->experts);
    for (int i = 0; i < CST_ONLINE_NEWTONS; i++)
        code_newton(c, &a->newton[i]);
    code_newton(c, &a->average);
    code_sets(c, a);
    code_waiting(c, a);
}

static void code_state(cst_codec *c, void *state) {
    cst_adapter *a = state;
    code_head(c, &a->members, &a->classes, &a->names, &a->capacity);
    code_rest(c, a);
}

static const cst_state_kind KIND = {.magic = "\211CSO\r\n\032\n",
                                    .version = 1,
                                    .refusal = "this is no state of an online adapter",
                                    .code = code_state};

cst_status cst_adapter_save(cst_context *context, const cst_adapter *adapter, const char *path) {
    CST_ENTER(context);
    if (!adapter || !path)
        return cst_fail(context, CST_ERROR_ARGUMENT,
                        "cst_adapter_save: adapter and path are required");
    return cst_why(context, cst_state_save(context, &KIND, adapter->model_hash, adapter, path));
}

static cst_status load_state(cst_context *context, const char *path, const cst_model *model,
                             cst_adapter **out) {
    CST_SCOPE(scope);
    cst_codec c;
    uint64_t hash = 0;
    int32_t members = 0;
    int32_t classes = 0;
    char **names = NULL;
    int64_t capacity = 0;
    CST_TRY(cst_state_open(context, scope, &KIND, path, &c, &hash));
    c.scope = scope;
    code_head(&c, &members, &classes, &names, &capacity);
    if (c.status == CST_OK && classes != model->classes)
        return cst_fail(context, CST_ERROR_MISMATCH,
                        "%s: is the state of another model, with %d classes instead of %d", path,
                        (int)classes, (int)model->classes);
    CST_TRY(c.status);
    CST_TRY(adapter_make(context, model, (const char *const *)names, members, capacity, 0.5, out));
    CST_TRY(cst_state_check_model(&c, hash, (*out)->model_hash));
    code_rest(&c, *out);
    cst_state_end(&c);
    return c.status;
}

cst_status cst_adapter_load(cst_context *context, cst_adapter **out, const cst_model *model,
                            const char *path) {
    CST_CLEAR(out);
    CST_ENTER(context);
    if (!out || !model || !path)
        return cst_fail(context, CST_ERROR_ARGUMENT,
                        "cst_adapter_load: model, path and the result are required");
    if (model->task != CST_TASK_CLASSIFICATION)
        return cst_fail(context, CST_ERROR_UNSUPPORTED, "online adaptation is not supported for %s",
                        cst_task_text(model->task));
    cst_adapter *made = NULL;
    cst_status status = load_state(context, path, model, &made);
    if (status == CST_OK)
        *out = made;
    else
        cst_adapter_free(context, made);
    return cst_why(context, status);
}
