/* Written by tests/oracles/greedy_numpy.py. */
// clang-format off
static const struct {
    const char *path;
    cst_greedy_metric metric;
    int32_t rounds;
    int32_t order[25];
    double loss;
} greedy_metric[] = {
    {"data/greedy/close.bin", CST_GREEDY_TOP1, 1, {4}, 0.24444399999999999},
    {"data/greedy/close.bin", CST_GREEDY_BRIER, 1, {5}, 0.34787699999999999},
    {"data/greedy/hard.bin", CST_GREEDY_TOP1, 1, {3}, 0.28749999999999998},
    {"data/greedy/hard.bin", CST_GREEDY_BRIER, 25, {3, 0, 4, 1, 3, 5, 4, 0, 2, 3, 4, 0, 3, 1, 4, 0, 3, 5, 4, 0, 3, 1, 4, 0, 3}, 0.38495299999999999},
    {"data/greedy/one.bin", CST_GREEDY_TOP1, 1, {0}, 0.3125},
    {"data/greedy/one.bin", CST_GREEDY_BRIER, 1, {0}, 0.52556599999999998},
    {"data/greedy/plain.bin", CST_GREEDY_TOP1, 6, {4, 3, 4, 0, 3, 4}, 0.25},
    {"data/greedy/plain.bin", CST_GREEDY_BRIER, 22, {3, 1, 0, 4, 3, 0, 4, 1, 3, 0, 5, 4, 1, 3, 0, 4, 3, 0, 1, 4, 3, 0}, 0.38189400000000001},
    {"data/greedy/random0.bin", CST_GREEDY_TOP1, 2, {3, 6}, 0.21951200000000001},
    {"data/greedy/random0.bin", CST_GREEDY_BRIER, 16, {5, 3, 5, 5, 3, 5, 5, 3, 5, 5, 5, 3, 5, 5, 3, 5}, 0.38794699999999999},
    {"data/greedy/random1.bin", CST_GREEDY_TOP1, 5, {1, 7, 7, 4, 7}, 0.121951},
    {"data/greedy/random1.bin", CST_GREEDY_BRIER, 25, {3, 1, 7, 1, 3, 5, 1, 3, 7, 1, 3, 1, 5, 3, 1, 3, 7, 1, 3, 5, 1, 3, 7, 1, 3}, 0.28907500000000003},
    {"data/greedy/random2.bin", CST_GREEDY_TOP1, 16, {3, 0, 4, 1, 3, 0, 3, 4, 0, 3, 0, 1, 3, 3, 4, 2}, 0.26250000000000001},
    {"data/greedy/random2.bin", CST_GREEDY_BRIER, 24, {1, 3, 0, 1, 4, 3, 1, 0, 1, 3, 1, 4, 0, 1, 3, 1, 0, 1, 3, 4, 1, 0, 3, 1}, 0.504332},
    {"data/greedy/random3.bin", CST_GREEDY_TOP1, 6, {5, 2, 1, 2, 5, 4}, 0.183673},
    {"data/greedy/random3.bin", CST_GREEDY_BRIER, 23, {5, 1, 2, 1, 5, 2, 4, 1, 5, 2, 1, 5, 1, 2, 5, 1, 2, 5, 1, 4, 2, 5, 1}, 0.340422},
    {"data/greedy/random4.bin", CST_GREEDY_TOP1, 1, {3}, 0.296296},
    {"data/greedy/random4.bin", CST_GREEDY_BRIER, 24, {6, 3, 7, 3, 6, 8, 6, 3, 6, 3, 7, 6, 3, 6, 3, 7, 8, 6, 3, 6, 3, 7, 6, 3}, 0.457204},
    {"data/greedy/random5.bin", CST_GREEDY_TOP1, 5, {0, 4, 6, 0, 6}, 0.28888900000000001},
    {"data/greedy/random5.bin", CST_GREEDY_BRIER, 25, {2, 5, 0, 6, 2, 5, 0, 2, 5, 6, 0, 2, 5, 0, 2, 5, 6, 0, 2, 5, 2, 0, 6, 5, 2}, 0.49921100000000002},
    {"data/greedy/random6.bin", CST_GREEDY_TOP1, 5, {2, 0, 2, 2, 0}, 0.14893600000000001},
    {"data/greedy/random6.bin", CST_GREEDY_BRIER, 22, {2, 5, 2, 3, 2, 2, 5, 2, 3, 2, 2, 5, 2, 3, 2, 2, 5, 2, 5, 2, 3, 2}, 0.33251900000000001},
    {"data/greedy/random7.bin", CST_GREEDY_TOP1, 9, {2, 2, 2, 3, 2, 7, 3, 7, 7}, 0.32727299999999998},
    {"data/greedy/random7.bin", CST_GREEDY_BRIER, 17, {0, 1, 7, 3, 0, 1, 7, 0, 6, 1, 0, 7, 3, 0, 1, 7, 0}, 0.44183899999999998},
    {"data/greedy/random8.bin", CST_GREEDY_TOP1, 7, {7, 5, 4, 7, 4, 4, 6}, 0.282609},
    {"data/greedy/random8.bin", CST_GREEDY_BRIER, 25, {2, 7, 4, 2, 7, 4, 2, 5, 7, 2, 4, 2, 7, 2, 4, 1, 7, 2, 4, 2, 7, 5, 2, 7, 4}, 0.42390899999999998},
    {"data/greedy/random9.bin", CST_GREEDY_TOP1, 8, {1, 0, 2, 3, 2, 1, 3, 2}, 0.32558100000000001},
    {"data/greedy/random9.bin", CST_GREEDY_BRIER, 25, {1, 2, 3, 1, 2, 1, 3, 1, 2, 3, 1, 1, 2, 3, 1, 2, 1, 3, 1, 2, 0, 1, 3, 1, 2}, 0.53056899999999996},
    {"data/greedy/sure.bin", CST_GREEDY_TOP1, 1, {0}, 0},
    {"data/greedy/sure.bin", CST_GREEDY_BRIER, 3, {0, 0, 0}, 6.0005355992269998e-12},
    {"data/greedy/twins.bin", CST_GREEDY_TOP1, 5, {1, 1, 1, 1, 0}, 0.28749999999999998},
    {"data/greedy/twins.bin", CST_GREEDY_BRIER, 18, {1, 0, 5, 0, 1, 2, 0, 1, 5, 0, 1, 0, 1, 0, 1, 5, 0, 1}, 0.40706799999999999},
    {"reference/greedy/autogluon0.bin", CST_GREEDY_TOP1, 8, {1, 3, 4, 4, 3, 0, 1, 1}, 0.040000000000000001},
    {"reference/greedy/autogluon0.bin", CST_GREEDY_BRIER, 14, {3, 1, 3, 0, 1, 3, 1, 3, 3, 1, 0, 3, 1, 3}, 0.120952},
    {"reference/greedy/autogluon4.bin", CST_GREEDY_TOP1, 10, {6, 1, 8, 6, 8, 6, 6, 1, 3, 1}, 0.01},
    {"reference/greedy/autogluon4.bin", CST_GREEDY_BRIER, 25, {6, 6, 3, 6, 6, 6, 8, 6, 6, 6, 3, 6, 6, 6, 1, 6, 6, 6, 3, 6, 6, 6, 8, 6, 6}, 0.096536999999999998},
};
