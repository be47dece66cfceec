/*
 * Extreme regressions through every computation: inspect, fit, prediction with variances,
 * evaluation, comparison, model files. Results are finite, or the refusal is one line.
 */
#include "pool_case.h"

#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

/* ---- how pools are made -----------------------------------------------------------------------
 */

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
static pool_case constant_targets(void) {
    pool_case c = plain();
    for (int64_t i = 0; i < c.rows; i++)
        c.targets[i] = 3;
    return c;
}
static pool_case targets_of_zero(void) {
    pool_case c = plain();
    memset(c.targets, 0, case_cells(&c) * sizeof *c.targets);
    return c;
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
static pool_case a_perfect_member(void) {
    pool_case c = plain();
    for (int64_t i = 0; i < c.rows; i++)
        c.targets[i] = case_row(&c, 1, i)[0] = (double)(float)c.targets[i];
    return c;
}
static pool_case perfect_members(void) {
    pool_case c = a_perfect_member();
    for (int32_t k = 0; k < 4; k++)
        memcpy(case_row(&c, k, 0), c.targets, case_cells(&c) * sizeof *c.targets);
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

/* Who refuses a pool: every fit and comparison, or what has linear meta-learners: the presets paper
 * and prototype, and comparisons with them. */
typedef enum refusal { NOBODY, EVERYBODY, LINEAR } refusal;

typedef struct edge {
    const char *name;
    pool_case (*make)(void);
    refusal refusal;
    const char *why; /* part of the refusal */
    bool compared;   /* also where the first argument is not "long" */
} edge;

#define EDGE(pool)                                                                                 \
    { .name = #pool, .make = (pool) }
#define COMPARED(pool)                                                                             \
    { .name = #pool, .make = (pool), .compared = true }
#define REFUSED(pool, by, text)                                                                    \
    { .name = #pool, .make = (pool), .refusal = (by), .why = (text), .compared = true }
static const edge EDGES[] = {
    EDGE(plain),
    EDGE(small_values),
    EDGE(large_values),
    EDGE(far_from_zero),
    COMPARED(outputs_of_every_size),
    REFUSED(tiny_values, EVERYBODY, "in another unit"),
    REFUSED(denormal_values, EVERYBODY, "in another unit"),
    REFUSED(huge_values, EVERYBODY, "in another unit"),
    REFUSED(too_far_from_zero, EVERYBODY, "float32 do not resolve"),
    REFUSED(targets_beyond_float32, EVERYBODY, "in another unit"),
    REFUSED(one_target_beyond_float32, EVERYBODY, "in another unit"),
    REFUSED(members_of_other_units, EVERYBODY, "member 3 (counting from 0)"),
    EDGE(constant_targets),
    EDGE(targets_of_zero),
    REFUSED(everything_constant, LINEAR, "nothing to fit"),
    EDGE(a_constant_output),
    REFUSED(constant_members, LINEAR, "nothing to fit"),
    EDGE(a_constant_member),
    COMPARED(a_perfect_member),
    EDGE(perfect_members),
    EDGE(identical_members),
    EDGE(opposite_members),
    EDGE(more_members_than_rows),
    COMPARED(one_member),
    REFUSED(two_rows, EVERYBODY, "2 rows cannot be spread over 5 folds"),
    EDGE(six_rows),
    REFUSED(equal_rows, LINEAR, "nothing to fit"),
    EDGE(duplicated_rows),
    COMPARED(weights_of_every_size),
};
enum { EDGE_COUNT = sizeof EDGES / sizeof EDGES[0] };

/* ---- tests --------------------------------------------------------------------------------------
 */

static void expect(bool ok, const char *what, const verdict *v) {
    if (!ok)
        print_error("%s: %s\n", what, v->text);
    assert_true(ok);
}

static void expect_end(const cst_context *context, cst_status status, bool refused,
                       const char *why) {
    if (status != (refused ? CST_ERROR_INPUT : CST_OK))
        print_error("%s: %s\n", cst_status_name(status), cst_last_error(context));
    assert_int_equal(status, refused ? CST_ERROR_INPUT : CST_OK);
    if (refused)
        assert_non_null(strstr(cst_last_error(context), why));
}

/* Under sanitizers, and with valgrind: nested fits, which have the others in them. */
static int is_short(void) {
    return getenv("CST_SHORT_TESTS") != NULL;
}

static void fits(void **state) {
    static const char *const presets[] = {"default", "paper", "prototype"};
    const edge *e = *state;
    cst_context *context = NULL;
    cst_pool *pool = NULL;
    pool_case c = e->make();
    verdict v = {""};
    assert_int_equal(cst_context_create(&context), CST_OK);
    assert_int_equal(make_pool(context, &c, &pool), CST_OK);
    for (int p = 0; p < 3; p++)
        for (int nested = is_short(); nested < 2; nested++) {
            cst_status status = CST_OK;
            bool ok =
                fit_is_sound(context, &c, pool, presets[p], nested ? "true" : "false", &status, &v);
            expect(ok, presets[p], &v);
            expect_end(context, status, e->refusal == EVERYBODY || (e->refusal == LINEAR && p > 0),
                       e->why);
        }
    cst_pool_free(context, pool);
    free_case(&c);
    cst_context_free(context);
}

static void compares(void **state) {
    static const char *const methods[] = {"all"};
    const edge *e = *state;
    cst_context *context = NULL;
    cst_pool *pool = NULL;
    pool_case c = e->make();
    verdict v = {""};
    cst_status status = CST_OK;
    assert_int_equal(cst_context_create(&context), CST_OK);
    assert_int_equal(make_pool(context, &c, &pool), CST_OK);
    expect(compare_is_sound(context, pool, methods, 1, &status, &v), e->name, &v);
    expect_end(context, status, e->refusal != NOBODY, e->why);
    cst_pool_free(context, pool);
    free_case(&c);
    cst_context_free(context);
}

int main(int argc, char **argv) {
    bool all = argc > 1 && strcmp(argv[1], "long") == 0;
    struct CMUnitTest tests[2 * EDGE_COUNT];
    size_t count = 0;
    for (size_t i = 0; i < EDGE_COUNT; i++) {
        void *state = (void *)(uintptr_t)&EDGES[i];
        tests[count++] = (struct CMUnitTest){EDGES[i].name, fits, NULL, NULL, state};
        if (all || (EDGES[i].compared && !is_short()))
            tests[count++] = (struct CMUnitTest){EDGES[i].name, compares, NULL, NULL, state};
    }
    return _cmocka_run_group_tests("numbers of regressions", tests, count, NULL, NULL);
}
