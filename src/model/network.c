/* The network of a model: prediction of one sample without memory or threads. See the header. */
#include "model/stack.h"

#include "model/kernels.h"

#include <math.h>

size_t cst_network_size(int32_t members, int32_t classes, int32_t hidden) {
    size_t inputs = 0;
    size_t weights = 0;
    if (members < 1 || classes < 1 || hidden < 1 ||
        !cst_size_mul((size_t)members, (size_t)classes, &inputs) ||
        !cst_size_mul(inputs + (size_t)classes + (size_t)hidden + 3, (size_t)hidden, &weights) ||
        weights > SIZE_MAX / 64)
        return 0;
    size_t h = (size_t)hidden;
    return h * inputs + h + h * h + h + h * (size_t)classes + (size_t)classes;
}

size_t cst_network_scratch(const cst_network *network) {
    return (size_t)network->members * (size_t)network->classes + 2 * (size_t)network->hidden;
}

/* The sum is taken in eight fixed lanes. */
static double dot(const double *restrict a, const double *restrict b, size_t count) {
    double lane[8] = {0};
    size_t whole = count - count % 8;
    for (size_t j = 0; j < whole; j += 8)
        for (size_t l = 0; l < 8; l++)
            lane[l] += a[j + l] * b[j + l];
    for (size_t j = whole; j < count; j++)
        lane[j - whole] += a[j] * b[j];
    return ((lane[0] + lane[1]) + (lane[2] + lane[3])) +
           ((lane[4] + lane[5]) + (lane[6] + lane[7]));
}

/* One layer; returns what follows its parameters. */
static const double *layer(const double *theta, size_t inputs, size_t units, bool relu,
                           const double *in, double *out) {
    const double *biases = theta + inputs * units;
    for (size_t u = 0; u < units; u++) {
        double value = dot(theta + u * inputs, in, inputs) + biases[u];
        out[u] = relu && !(value > 0) ? 0 : value;
    }
    return biases + units;
}

void cst_network_row(const cst_network *network, const float *const *members, int64_t row,
                     double *scratch, double *out) {
    size_t classes = (size_t)network->classes;
    size_t inputs = (size_t)network->members * classes;
    size_t hidden = (size_t)network->hidden;
    double *first = scratch + inputs;
    double *second = first + hidden;
    for (size_t k = 0; k < (size_t)network->members; k++) {
        const float *p = members[k] + row * (int64_t)classes;
        for (size_t c = 0; c < classes; c++) {
            size_t j = k * classes + c;
            double value = log(fmax((double)p[c], CST_NETWORK_FLOOR));
            scratch[j] = (value - network->mean[j]) / network->scale[j];
        }
    }
    const double *theta = layer(network->theta, inputs, hidden, true, scratch, first);
    theta = layer(theta, hidden, hidden, true, first, second);
    (void)layer(theta, hidden, classes, false, second, out);
    cst_softmax(network->classes, out);
}

cst_status cst_network_take(cst_context *context, cst_scope *scope, int32_t members,
                            int32_t classes, int32_t hidden, cst_network **out) {
    size_t inputs = (size_t)members * (size_t)classes;
    CST_TAKE(context, scope, *out, 1);
    **out = (cst_network){.members = members, .classes = classes, .hidden = hidden};
    CST_TAKE(context, scope, (*out)->mean, inputs);
    CST_TAKE(context, scope, (*out)->scale, inputs);
    CST_TAKE(context, scope, (*out)->theta, cst_network_size(members, classes, hidden));
    return CST_OK;
}
