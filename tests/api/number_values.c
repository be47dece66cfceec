/*
 * Extreme regressions through every computation: inspect, fit, prediction with variances,
 * evaluation, comparison, model files. Results are finite, or the refusal is one line.
 */
#include "edge_case.h"

/* ---- how pools are made ---- */

/* Targets of mean `origin` and deviation `unit`; member k is off by 0.2, 0.4, ... of it. */
static pool_case scaled(int32_t members, int64_t rows, int32_t outputs, double origin,
                        double unit) {
    cst_rng rng;
    pool_case c = new_case(members, rows, outputs);
    cst_rng_init(&rng, 2, CST_STREAM_TEST, 0);
    c.task = CST_TASK_REGRESSION;
    c.targets = allocate(case_cells(&c), sizeof *c.targets);
    for (size_t i = 0; i < case_cells(&c); i++)
        c.targets[i] = origin + unit * cst_rng_normal(&rng);
    for (int32_t k = 0; k < members; k++)
        for (int64_t i = 0; i < rows; i++)
            for (int32_t j = 0; j < outputs; j++)
                case_row(&c, k, i)[j] =
                    c.targets[i * outputs + j] + 0.2 * (k + 1) * unit * cst_rng_normal(&rng);
    return c;
}

static pool_case plain(void) {
    return scaled(4, 40, 1, 0, 1);
}
static pool_case small_values(void) {
    return scaled(4, 40, 1, 0, 1e-14);
}
static pool_case large_values(void) {
    return scaled(4, 40, 1, 0, 1e14);
}
static pool_case tiny_values(void) {
    return scaled(4, 40, 1, 0, 1e-37);
}
static pool_case denormal_values(void) {
    return scaled(4, 40, 1, 0, 1e-43);
}
static pool_case huge_values(void) {
    return scaled(4, 40, 1, 0, 1e37);
}
static pool_case far_from_zero(void) {
    return scaled(4, 40, 1, 1e5, 1);
}
static pool_case too_far_from_zero(void) {
    return scaled(4, 40, 1, 2e6, 1);
}
static pool_case outputs_of_every_size(void) {
    pool_case c = scaled(4, 40, 3, 0, 1);
    static const double units[] = {1e-14, 1, 1e14};
    for (int64_t i = 0; i < c.rows; i++)
        for (int32_t j = 0; j < 3; j++) {
            c.targets[i * 3 + j] *= units[j];
            for (int32_t k = 0; k < 4; k++)
                case_row(&c, k, i)[j] *= units[j];
        }
    return c;
}
static pool_case targets_beyond_float32(void) {
    pool_case c = plain();
    for (int64_t i = 0; i < c.rows; i++)
        c.targets[i] *= 1e300;
    return c;
}
static pool_case one_target_beyond_float32(void) {
    pool_case c = plain();
    c.targets[3] = 1e200;
    return c;
}
static pool_case members_of_other_units(void) {
    pool_case c = plain();
    for (int32_t k = 0; k < 4; k++)
        for (int64_t i = 0; i < c.rows; i++)
            case_row(&c, k, i)[0] *= pow(10, 12 * k - 18);
    return c;
}
static pool_case equal_targets(double value) {
    pool_case c = plain();
    for (int64_t i = 0; i < c.rows; i++)
        c.targets[i] = value;
    return c;
}
static pool_case constant_targets(void) {
    return equal_targets(3);
}
/* 40 of which sum to more than 4. */
static pool_case targets_of_a_tenth(void) {
    return equal_targets(0.1);
}
static pool_case targets_of_zero(void) {
    return equal_targets(0);
}
static void make_constant(pool_case *c, int32_t k, double value) {
    for (size_t i = 0; i < case_cells(c); i++)
        case_row(c, k, 0)[i] = value;
}
static pool_case everything_constant(void) {
    pool_case c = constant_targets();
    for (int32_t k = 0; k < 4; k++)
        make_constant(&c, k, 3);
    return c;
}
static pool_case a_constant_output(void) {
    pool_case c = scaled(4, 40, 2, 0, 1);
    for (int64_t i = 0; i < c.rows; i++)
        c.targets[2 * i] = -7;
    return c;
}
static pool_case constant_members(void) {
    pool_case c = plain();
    for (int32_t k = 0; k < 4; k++)
        make_constant(&c, k, k);
    return c;
}
static pool_case a_constant_member(void) {
    pool_case c = plain();
    make_constant(&c, 0, 1e9);
    return c;
}
static pool_case the_target_itself(void) {
    pool_case c = plain();
    for (int64_t i = 0; i < c.rows; i++)
        c.targets[i] = case_row(&c, 1, i)[0] = (double)(float)c.targets[i];
    return c;
}
/* But for one row, or the checks would refuse it. */
static pool_case a_perfect_member(void) {
    pool_case c = the_target_itself();
    case_row(&c, 1, 7)[0] += 1e-3;
    return c;
}
static pool_case perfect_members(void) {
    pool_case c = a_perfect_member();
    for (int32_t k = 0; k < 4; k++)
        memmove(case_row(&c, k, 0), case_row(&c, 1, 0), case_cells(&c) * sizeof *c.targets);
    return c;
}
static pool_case identical_members(void) {
    pool_case c = scaled(30, 30, 1, 0, 1);
    for (int32_t k = 1; k < 30; k++)
        memcpy(case_row(&c, k, 0), case_row(&c, 0, 0), case_cells(&c) * sizeof *c.values);
    return c;
}
static pool_case opposite_members(void) {
    pool_case c = scaled(2, 40, 1, 0, 1);
    for (int64_t i = 0; i < c.rows; i++)
        case_row(&c, 1, i)[0] = -case_row(&c, 0, i)[0];
    return c;
}
static pool_case more_members_than_rows(void) {
    return scaled(16, 8, 1, 0, 1);
}
static pool_case one_member(void) {
    return scaled(1, 40, 1, 0, 1);
}
static pool_case two_rows(void) {
    return scaled(3, 2, 1, 0, 1);
}
static pool_case six_rows(void) {
    return scaled(3, 6, 1, 0, 1);
}
static pool_case equal_rows(void) {
    pool_case c = scaled(3, 300, 1, 0, 1);
    for (int32_t k = 0; k < 3; k++)
        make_constant(&c, k, case_row(&c, k, 0)[0]);
    return c;
}
static pool_case duplicated_rows(void) {
    pool_case c = plain();
    for (int64_t i = 3; i < c.rows; i++) {
        c.targets[i] = c.targets[i % 3];
        for (int32_t k = 0; k < 4; k++)
            case_row(&c, k, i)[0] = case_row(&c, k, i % 3)[0];
    }
    return c;
}
static pool_case weights_of_every_size(void) {
    pool_case c = plain();
    c.weights = allocate((size_t)c.rows, sizeof *c.weights);
    for (int64_t i = 0; i < c.rows; i++)
        c.weights[i] = i % 2 ? 1e-300 : 1e300;
    return c;
}

/* Comparisons refuse what the pool itself is refused for; methods that fail are left out. */
static const edge EDGES[] = {
    EDGE(plain),
    EDGE(small_values),
    EDGE(large_values),
    EDGE(far_from_zero),
    COMPARED(outputs_of_every_size),
    REFUSED_COMPARED(tiny_values, EVERYBODY, "use another unit"),
    REFUSED_COMPARED(denormal_values, EVERYBODY, "use another unit"),
    REFUSED_COMPARED(huge_values, EVERYBODY, "use another unit"),
    REFUSED_COMPARED(too_far_from_zero, EVERYBODY, "too little for predictions in float32"),
    REFUSED_COMPARED(targets_beyond_float32, EVERYBODY, "use another unit"),
    REFUSED_COMPARED(one_target_beyond_float32, EVERYBODY, "use another unit"),
    LEFT_OUT(members_of_other_units, EVERYBODY, "member 3 (counting from 0)"),
    EDGE(constant_targets),
    EDGE(targets_of_a_tenth),
    EDGE(targets_of_zero),
    LEFT_OUT(everything_constant, LINEAR, "nothing to fit"),
    EDGE(a_constant_output),
    LEFT_OUT(constant_members, LINEAR, "nothing to fit"),
    EDGE(a_constant_member),
    REFUSED_COMPARED(the_target_itself, EVERYBODY, "'m1' is the target itself"),
    COMPARED(a_perfect_member),
    EDGE(perfect_members),
    EDGE(identical_members),
    EDGE(opposite_members),
    EDGE(more_members_than_rows),
    COMPARED(one_member),
    REFUSED_COMPARED(two_rows, EVERYBODY, "2 rows cannot be divided into 5 folds"),
    EDGE(six_rows),
    LEFT_OUT(equal_rows, LINEAR, "nothing to fit"),
    EDGE(duplicated_rows),
    COMPARED(weights_of_every_size),
};
enum { EDGE_COUNT = sizeof EDGES / sizeof EDGES[0] };

/* ---- tests ---- */

static void compares(void **state) {
    static const char *const methods[] = {"all"};
    const edge *e = *state;
    compare_methods(e, methods, 1, e->refusal != NOBODY && !e->left_out);
}

int main(int argc, char **argv) {
    bool all = argc > 1 && strcmp(argv[1], "long") == 0;
    struct CMUnitTest tests[2 * EDGE_COUNT];
    size_t count = edge_tests(EDGES, EDGE_COUNT, compares, all, tests);
    return _cmocka_run_group_tests("numbers of regressions", tests, count, NULL, NULL);
}
