/*
 * What the rows of a batch tell about stack and average, the temperatures that follow, and the
 * mixture of a row. Before prediction mixes. model/shift/lean.h.
 */
#include "model/shift/lean.h"

#include "core/wide.h"

#include <math.h>
#include <string.h>

/* The lowest temperature of the stack; what a skew may be without meaning less accuracy. */
static const double FLATTEST = 0.3;
static const double SLACK = 0.05;
static const float LEAST_PROBABILITY = 1e-12F;

/* Logarithms of a row less the largest. */
static void logs_of(const float *p, int32_t classes, float *log_p) {
    float most = LEAST_PROBABILITY;
    for (int32_t c = 0; c < classes; c++) {
        log_p[c] = p[c] > LEAST_PROBABILITY ? p[c] : LEAST_PROBABILITY;
        most = log_p[c] > most ? log_p[c] : most;
    }
    cst_log_f32(classes, log_p, log_p);
    cst_log_f32(1, &most, &most);
    for (int32_t c = 0; c < classes; c++)
        log_p[c] -= most;
}

void cst_lean_measure(const float *p, int64_t rows, int32_t classes, const double *temperature,
                      int32_t points, float *work, cst_lean_row *row, float *at) {
    float *power = work + classes;
    for (int64_t i = 0; i < rows; i++, p += classes) {
        cst_confusion_row top = cst_confusion_row_of(p, classes, 0);
        row[i] = (cst_lean_row){.predicted = top.predicted, .confidence = top.confidence};
        if (points > 0)
            logs_of(p, classes, work);
        for (int32_t t = 0; t < points; t++) {
            double sum = 0;
            for (int32_t c = 0; c < classes; c++)
                power[c] = (float)temperature[t] * work[c];
            cst_exp_f32(classes, power, power);
            for (int32_t c = 0; c < classes; c++)
                sum += (double)power[c];
            at[i * points + t] = (float)(1 / sum);
        }
    }
}

void cst_lean_temperatures(const cst_lean *lean, int side, double *temperature) {
    double low = side == CST_LEAN_STACK ? FLATTEST : 1;
    double high = side == CST_LEAN_STACK ? 1 : lean->sharpest;
    for (int t = 0; t < CST_LEAN_POINTS; t++)
        temperature[t] = low + (high - low) * t / (CST_LEAN_POINTS - 1);
}

/* Half of the mean distance between two shares of a class, both of q, of as many rows as `rows`
 * stands for: what chance leaves (normal, or where the class is mostly absent exactly). */
static double chance_of(double q, double rows) {
    const double pi = 3.14159265358979323846;
    return rows * q < 1 ? q * pow(1 - q, rows) : 0.5 * sqrt(2 * q * (1 - q) / (pi * rows));
}

cst_lean_side cst_lean_look(const cst_lean *lean, int side, const cst_lean_row *row, int64_t rows,
                            int32_t *work) {
    cst_lean_side found = {0};
    double n = (double)rows;
    double variance = 0;
    memset(work, 0, (size_t)lean->classes * sizeof *work);
    for (int64_t i = 0; i < rows; i++) {
        int32_t c = row[i].predicted;
        work[c]++;
        found.confidence += (double)row[i].confidence / n;
        found.expected += (double)lean->mean[c] / n;
        variance += (double)lean->variance[c];
    }
    double deviation = sqrt(variance * (1 + n / (double)lean->rows)) / n;
    if (side == CST_LEAN_STACK && deviation > 0)
        found.z = (found.confidence - found.expected) / deviation;
    double same = 1 / (1 / n + 1 / (double)lean->rows);
    double distance = 0;
    double chance = 0;
    for (int32_t c = 0; c < lean->classes; c++) {
        double q = (double)lean->count[side][c] / (double)lean->rows;
        distance += 0.5 * fabs((double)work[c] / n - q);
        chance += chance_of(q, same);
    }
    if (distance > chance)
        found.skew = sqrt(distance * distance - chance * chance);
    found.accuracy = lean->accuracy[side] - found.skew;
    return found;
}

double cst_lean_temperature(const cst_lean *lean, int side, const cst_lean_side *found,
                            const double *mean) {
    double temperature[CST_LEAN_POINTS];
    double least = found->skew > SLACK ? found->skew - SLACK : 0;
    double target = lean->accuracy[side] - least;
    cst_lean_temperatures(lean, side, temperature);
    if (side == CST_LEAN_STACK) {
        double fallen = found->expected - found->confidence;
        double lowest = found->confidence - (fallen > 0 ? fallen : 0);
        target = target > lowest ? target : lowest;
    }
    if (target <= mean[0])
        return temperature[0];
    for (int t = 1; t < CST_LEAN_POINTS; t++)
        if (target < mean[t])
            return temperature[t - 1] + (temperature[t] - temperature[t - 1]) *
                                            (target - mean[t - 1]) / (mean[t] - mean[t - 1]);
    return temperature[CST_LEAN_POINTS - 1];
}

void cst_lean_mix(const float *stack, const float *average, int32_t classes, double flat,
                  double sharp, double weight, float *work, float *out) {
    float *other = work + classes;
    float stack_power = (float)((1 - weight) * flat);
    float average_power = (float)(weight * sharp);
    logs_of(stack, classes, work);
    logs_of(average, classes, other);
    float most = stack_power * work[0] + average_power * other[0];
    for (int32_t c = 0; c < classes; c++) {
        work[c] = stack_power * work[c] + average_power * other[c];
        most = work[c] > most ? work[c] : most;
    }
    for (int32_t c = 0; c < classes; c++)
        work[c] -= most;
    cst_exp_f32(classes, work, work);
    double sum = 0;
    for (int32_t c = 0; c < classes; c++)
        sum += (double)work[c];
    for (int32_t c = 0; c < classes; c++)
        out[c] = (float)((double)work[c] / sum);
}
