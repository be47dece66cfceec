/* The `mlp` baseline. Wide pools visit a seeded draw of the rows in each epoch. */
#include "fit/baselines/mlp.h"
#include "core/la.h"
#include "fit/baselines/baselines.h"
#include "model/patterns.h"

#include <math.h>
#include <string.h>

/* ---- standardisation ---- */

/* sum: for each input, the sum of logs less `centre` ([inputs]; NULL: 0), then of its squares. */
typedef struct spread_job {
    const cst_view *view;
    const double *centre;
} spread_job;

static cst_status spread_block(cst_context *worker, void *user, int64_t block, double *sum) {
    const spread_job *job = user;
    size_t classes = (size_t)job->view->classes;
    size_t inputs = (size_t)job->view->members * classes;
    CST_SCOPE(scope);
    cst_rows rows;
    CST_TRY(cst_rows_open(worker, scope, job->view, block, &rows));
    for (int32_t k = 0; k < job->view->members; k++) {
        CST_TRY(cst_rows_read(worker, &rows, k));
        double *own = sum + (size_t)k * classes;
        const double *centre = job->centre ? job->centre + (size_t)k * classes : NULL;
        for (int64_t i = 0; i < rows.count; i++)
            for (size_t c = 0; c < classes; c++) {
                double x = log(fmax((double)cst_rows_at(&rows, i)[c], CST_NETWORK_FLOOR));
                x -= centre ? centre[c] : 0;
                own[c] += x;
                own[inputs + c] += x * x;
            }
    }
    return CST_OK;
}

/* Mean and standard deviation of every input over all rows; constant inputs keep scale 1. */
static cst_status standardise(cst_context *context, const cst_view *view, cst_network *net) {
    size_t inputs = (size_t)view->members * (size_t)view->classes;
    double rows = (double)view->rows;
    CST_SCOPE(scope);
    CST_NEW(context, scope, double, sum, 2 * inputs);
    spread_job job = {.view = view};
    for (int pass = 0; pass < 2; pass++) {
        job.centre = pass == 1 ? net->mean : NULL;
        CST_TRY(cst_reduce_blocks(context, cst_block_count(view->rows), 2 * inputs, spread_block,
                                  &job, sum));
        for (size_t j = 0; j < inputs; j++) {
            double deviation = sqrt(sum[inputs + j] / rows);
            if (pass == 0)
                net->mean[j] = sum[j] / rows;
            else
                net->scale[j] = deviation > 1e-9 ? deviation : 1;
        }
    }
    return CST_OK;
}

/* ---- fit ---- */

/* Every tenth row of a seeded shuffle sorted by class is held out, so that each class gives a tenth
 * to within one row; the others are trained on. Fewer than ten rows: all are both. `order`:
 * [2 * rows]. */
static cst_status split(cst_context *context, const cst_view *view, uint64_t seed, int64_t *order,
                        cst_mlp_rows *out) {
    int64_t rows = view->rows;
    int64_t *shuffled = order + rows;
    int64_t *begin = cst_alloc(context, (size_t)view->classes + 1, sizeof *begin);
    if (!begin)
        return CST_ERROR_MEMORY;
    cst_rng rng;
    cst_rng_init(&rng, seed, CST_STREAM_GATE_ROWS, CST_MLP_SUBSTREAM);
    for (int64_t i = 0; i < rows; i++) {
        shuffled[i] = i;
        begin[cst_view_label(view, i) + 1]++;
    }
    cst_rng_shuffle(&rng, shuffled, rows);
    for (int32_t c = 0; c < view->classes; c++)
        begin[c + 1] += begin[c];
    int64_t held = rows / 10;
    *out = (cst_mlp_rows){
        .train = order + held, .train_count = rows - held, .held = order, .held_count = held};
    for (int64_t i = 0; i < rows; i++) {
        int64_t rank = begin[cst_view_label(view, shuffled[i])]++; /* among all, by class */
        order[rank % 10 == 9 ? rank / 10 : held + rank - rank / 10] = shuffled[i];
    }
    if (held == 0) {
        out->held = shuffled;
        out->held_count = rows;
    }
    cst_free(context, begin);
    return CST_OK;
}

/* He's start for the hidden layers, a tenth of it for the output, biases 0. */
static void start(cst_network *net, uint64_t seed) {
    size_t widths[] = {(size_t)net->members * (size_t)net->classes, (size_t)net->hidden,
                       (size_t)net->hidden};
    size_t units[] = {(size_t)net->hidden, (size_t)net->hidden, (size_t)net->classes};
    double *weight = net->theta;
    cst_rng rng;
    cst_rng_init(&rng, seed, CST_STREAM_GATE_INIT, CST_MLP_SUBSTREAM);
    for (int layer = 0; layer < 3; layer++) {
        double scale = sqrt(2 / (double)widths[layer]) * (layer < 2 ? 1 : 0.1);
        for (size_t j = 0; j < widths[layer] * units[layer]; j++)
            weight[j] = scale * cst_rng_normal(&rng);
        weight += (widths[layer] + 1) * units[layer];
    }
}

void cst_release_mlp(cst_context *context, void *state) {
    cst_network_free(context, state);
}

cst_status cst_fit_mlp(cst_context *context, const cst_baseline_data *data, cst_baseline_fit *out) {
    const cst_view *view = data->view;
    cst_mlp_options options = cst_mlp_defaults(view->rows);
    if (cst_view_has_absent(view))
        return cst_fail(
            context, CST_ERROR_INPUT,
            "mlp is a neural network of all members, which cannot predict without some "
            "of them, and some lack predictions; leave out the method or these members");
    options.seed = data->seed;
    cst_network *net = NULL;
    cst_mlp_rows rows;
    int32_t epoch = 0;
    double loss = 0;
    CST_SCOPE(scope);
    CST_NEW(context, scope, int64_t, order, (2 * view->rows));
    size_t size = cst_network_size(view->members, view->classes, options.hidden);
    if (size == 0)
        return cst_fail(context, CST_ERROR_LIMIT, "mlp: %d members of %d classes are too many",
                        view->members, view->classes);
    cst_status status =
        cst_network_create(context, view->members, view->classes, options.hidden, &net);
    out->state = net;
    out->mix = CST_MIX_OTHER;
    CST_TRY(status);
    CST_LA();
    CST_TRY(standardise(context, view, net));
    CST_TRY(split(context, view, options.seed, order, &rows));
    start(net, options.seed);
    CST_TRY(cst_mlp_train(context, net, view, &rows, &options, &epoch, &loss));
    (void)cst_snprintf(out->detail, sizeof out->detail,
                       "%zu parameters, best epoch %d, held-out NLL %.4f", size, epoch, loss);
    for (int32_t k = 0; k < view->members; k++)
        out->uses[k] = true;
    return CST_OK;
}

cst_status cst_predict_mlp(cst_context *context, const cst_baseline_fit *fit, const cst_view *view,
                           float *out) {
    CST_LA();
    return cst_mlp_predict(context, fit->state, view, out);
}

/* Of all members, which the network reads. */
cst_status cst_model_mlp(cst_context *context, const cst_baseline_fit *fit, const int32_t *kept,
                         cst_model *out) {
    const cst_network *net = fit->state;
    size_t bytes = (size_t)net->members * (size_t)net->classes * sizeof *net->mean;
    size_t size = cst_network_size(net->members, net->classes, net->hidden);
    CST_TRY(cst_network_create(context, net->members, net->classes, net->hidden, &out->network));
    memcpy(out->network->mean, net->mean, bytes);
    memcpy(out->network->scale, net->scale, bytes);
    memcpy(out->network->theta, net->theta, size * sizeof *net->theta);
    return cst_baseline_learner(context, fit, CST_LEARNER_NETWORK, kept, NULL, 0, out);
}
