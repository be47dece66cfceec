/* Temperature scaling: Newton's method on log(1/T) inside a bracket that only shrinks. */
#include "method/calibration/calibration.h"

#include "core/wide.h"

#include <math.h>
#include <string.h>

typedef struct temperature_job {
    const int32_t *labels;
    const double *weights; /* [rows], or NULL */
    double total;          /* their sum, or the number of rows */
    int64_t rows;
    int32_t classes;
    float *logs; /* of cst_log_tiles */
    double inverse;
    double prior; /* precision of the inverse temperature around 1, against the total NLL */
} temperature_job;

/* Sums over a tile's classes, with below = log p - top: exp(b below), times below, squared. */
typedef struct tile_sums {
    double top[CST_LOG_ROWS];
    double total[CST_LOG_ROWS];
    double mean[CST_LOG_ROWS];
    double square[CST_LOG_ROWS];
} tile_sums;

CST_KERNEL(run_tile,
           (const float *restrict logs, int32_t classes, double inverse, tile_sums *restrict out),
           (logs, classes, inverse, out)) {
    float top[CST_LOG_ROWS];
    memcpy(top, logs, sizeof top);
    for (int32_t c = 1; c < classes; c++)
        for (int r = 0; r < CST_LOG_ROWS; r++) {
            float x = logs[c * CST_LOG_ROWS + r];
            top[r] = x > top[r] ? x : top[r];
        }
    memset(out, 0, sizeof *out);
    for (int r = 0; r < CST_LOG_ROWS; r++)
        out->top[r] = (double)top[r];
    for (int32_t c = 0; c < classes; c++)
        for (int r = 0; r < CST_LOG_ROWS; r++) {
            double below = (double)logs[c * CST_LOG_ROWS + r] - out->top[r];
            double weight = cst_exp_one_f64(inverse * below);
            double moment = weight * below;
            out->total[r] += weight;
            out->mean[r] += moment;
            out->square[r] += moment * below;
        }
}

/* sum: [0] NLL at the job's inverse temperature b, [1] its derivative in b, [2] the second. */
static cst_status loss_block(cst_context *context, void *user, int64_t block, double *sum) {
    (void)context;
    const temperature_job *job = user;
    int64_t first = cst_block_first(block);
    int64_t end = first + cst_block_size(job->rows, block);
    double log_total[CST_LOG_ROWS];
    tile_sums s;
    for (; first < end; first += CST_LOG_ROWS) {
        const float *logs = job->logs + first * job->classes;
        int64_t count = end - first < CST_LOG_ROWS ? end - first : CST_LOG_ROWS;
        run_tile(logs, job->classes, job->inverse, &s);
        cst_log_f64(count, s.total, log_total);
        for (int64_t r = 0; r < count; r++) {
            double mean = s.mean[r] / s.total[r];
            double own = (double)logs[job->labels[first + r] * CST_LOG_ROWS + r] - s.top[r];
            double counts = job->weights ? job->weights[first + r] : 1;
            sum[0] += counts * (log_total[r] - job->inverse * own);
            sum[1] += counts * (mean - own);
            sum[2] += counts * (s.square[r] / s.total[r] - mean * mean);
        }
    }
    return CST_OK;
}

static cst_status evaluate(cst_context *context, temperature_job *job, double log_inverse,
                           double *sums) {
    job->inverse = exp(log_inverse);
    cst_status status =
        cst_reduce_blocks(context, cst_block_count(job->rows), 3, loss_block, job, sums);
    double offset = job->inverse - 1;
    sums[0] += 0.5 * job->prior * offset * offset;
    sums[1] += job->prior * offset;
    sums[2] += job->prior;
    for (int j = 0; j < 3; j++)
        sums[j] /= job->total;
    return status;
}

/* Newton's point inside the bracket; the bound the first time it is left; else the middle. */
static double next_point(double at, const double *sums, double low, double high, bool *low_seen,
                         bool *high_seen) {
    double slope = sums[1];
    double curvature = sums[2] * exp(at);
    double next = curvature > 0 ? at - slope / curvature : (slope > 0 ? -INFINITY : INFINITY);
    if (next > low && next < high)
        return next;
    if (next >= high && !*high_seen) {
        *high_seen = true;
        return high;
    }
    if (next <= low && !*low_seen) {
        *low_seen = true;
        return low;
    }
    return 0.5 * (low + high);
}

static cst_status search(cst_context *context, temperature_job *job, double start, double tolerance,
                         double *temperature, double *nll) {
    const double least = log(1 / CST_TEMPERATURE_HIGH);
    const double most = log(1 / CST_TEMPERATURE_LOW);
    double low = least;
    double high = most;
    bool low_seen = false;
    bool high_seen = false;
    double at = fmin(fmax(-log(start), least), most);
    double sums[3];
    for (int i = 0; i < 200; i++) {
        CST_TRY(evaluate(context, job, at, sums));
        if (sums[1] == 0 || (sums[1] > 0 && at == least) || (sums[1] < 0 && at == most))
            break;
        if (sums[1] > 0)
            high = at;
        else
            low = at;
        double next = next_point(at, sums, low, high, &low_seen, &high_seen);
        bool near = fabs(next - at) < tolerance || high - low < tolerance;
        at = next;
        if (near)
            break;
    }
    *temperature = at == least ? CST_TEMPERATURE_HIGH : at == most ? CST_TEMPERATURE_LOW : exp(-at);
    *nll = sums[0];
    return CST_OK;
}

cst_status cst_temperature_fit_from(cst_context *context, const float *probabilities, int64_t rows,
                                    int32_t classes, const int32_t *labels, const double *weights,
                                    const cst_temperature_options *options, double *temperature,
                                    double *nll) {
    static const cst_temperature_options plain = {.start = 1, .tolerance = 1e-12};
    if (!options)
        options = &plain;
    if (rows < 1 || !labels)
        return cst_fail(context, CST_ERROR_INPUT, "temperature scaling needs labelled rows");
    temperature_job job = {.labels = labels,
                           .weights = weights,
                           .rows = rows,
                           .classes = classes,
                           .prior = options->prior};
    job.total = weights ? 0 : (double)rows;
    for (int64_t i = 0; weights && i < rows; i++)
        job.total += weights[i];
    double loss = 0;
    cst_status status = cst_log_tiles(context, probabilities, rows, classes, &job.logs);
    CST_THEN(search(context, &job, options->start, options->tolerance, temperature, &loss));
    if (status == CST_OK &&
        (*temperature <= CST_TEMPERATURE_LOW || *temperature >= CST_TEMPERATURE_HIGH))
        cst_notice(context, "temperature scaling stopped at its limit, T = %g: the predictions %s",
                   *temperature,
                   *temperature <= CST_TEMPERATURE_LOW ? "are correct on every row"
                                                       : "say nothing of the class");
    if (nll)
        *nll = loss;
    cst_free(context, job.logs);
    return status;
}

void cst_temperature_rows(double temperature, int64_t count, int32_t classes,
                          double *probabilities) {
    int64_t cells = count * classes;
    double inverse = 1 / temperature;
    cst_floored_logs(cells, probabilities);
    for (int64_t j = 0; j < cells; j++)
        probabilities[j] *= inverse;
    cst_softmax_rows(count, classes, probabilities);
}
