/*
 * Pools of which each rank has rows of its own: what stands beside predictions, and predictions,
 * are those of one pool with all rows, whatever a rank alone would make of its part.
 */
#include "check.h"
#include "meeting.h"
#include "pool/pool.h"
#include "temporary.h"

#include <corestack/corestack.h>

#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

enum { ROWS = 1300, CLASSES = 3, MEMBERS = 2, RANKS = 3, NAME_CHARS = 160 };

/* What the files of a part hold besides. */
typedef enum variant {
    PLAIN,
    OTHER_MEMBER, /* rank 1 has another one */
    OTHER_COLUMN, /* rank 2 has no folds */
    TWICE,        /* an id of rank 0 is on rank 1 as well */
    UNREADABLE,   /* a file of rank 1 is no array of predictions */
    SAME_FOLDER,  /* rank 1 reads the folder of rank 0 */
    SAME_LABELS   /* the labels of rank 1 are a link to those of rank 0 */
} variant;

static char folder[TEMPORARY_CHARS];
static const char *const label_names[] = {"cat", "dog", "emu"};
static const int64_t bounds[] = {0, 300, 301, ROWS};

/* The first rank sees two of the classes only, and numbers where others have text. */
static int label_of(int64_t row) {
    return row < bounds[1] ? (int)(row % 2) : (int)(row * 7 % 3);
}

static double probability(int64_t row, int member, int c) {
    double high = 0.5 + (double)((row * 13 + member * 5) % 40) / 100;
    return c == label_of(row + member) ? high : (1 - high) / 2;
}

/* Whether member 1 predicted the row. */
static bool is_there(int64_t row) {
    return row % 50 != 7 && row != bounds[1];
}

static FILE *begin(const char *part, const char *name) {
    char path[NAME_CHARS];
    (void)snprintf(path, sizeof path, "%s/%s/%s", folder, part, name);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    return file;
}

static void write_columns(const char *part, int64_t first, int64_t last, bool folds, bool twice) {
    FILE *file = begin(part, "labels.csv");
    (void)fprintf(file, "id,label\n");
    for (int64_t i = first; i < last; i++)
        (void)fprintf(file, "row%d,%s\n", twice && i == first ? 4 : (int)i,
                      label_names[label_of(i)]);
    (void)fclose(file);
    file = begin(part, "groups.csv");
    (void)fprintf(file, "group\n");
    for (int64_t i = first; i < last; i++) /* numbers only where the first rank is */
        (void)fprintf(file, i < bounds[1] || i % 4 ? "%d\n" : "patient %d\n", (int)(i % 90));
    (void)fclose(file);
    file = begin(part, "weights.csv");
    (void)fprintf(file, "weight\n");
    for (int64_t i = first; i < last; i++)
        (void)fprintf(file, "%d\n", i == bounds[1] ? 0 : 1 + (int)(i % 3));
    (void)fclose(file);
    file = begin(part, "domains.csv");
    (void)fprintf(file, "id,domain\n");
    for (int64_t i = first; i < last; i++)
        (void)fprintf(file, "row%d,%s\n", twice && i == first ? 4 : (int)i,
                      i < 400 ? (i % 2 ? "b" : "")
                      : i % 2 ? "c"
                              : "a");
    (void)fclose(file);
    if (!folds)
        return;
    file = begin(part, "folds.csv");
    (void)fprintf(file, "fold\n");
    for (int64_t i = first; i < last; i++)
        (void)fprintf(file, "%d\n", i < bounds[1] ? 10 + 20 * (int)(i % 2) : 20 + (int)(i % 2));
    (void)fclose(file);
}

/* A folder with rows first..last-1. */
static void write_part(const char *part, int64_t first, int64_t last, variant what, int rank) {
    char path[NAME_CHARS];
    (void)snprintf(path, sizeof path, "%s/%s", folder, part);
    char command[NAME_CHARS + 16];
    (void)snprintf(command, sizeof command, "rm -rf '%s'", path);
    assert_int_equal(system(command), 0);
    assert_int_equal(mkdir(path, 0700), 0);
    write_columns(part, first, last, what != OTHER_COLUMN || rank != 2, what == TWICE && rank == 1);
    for (int k = 0; k < MEMBERS; k++) {
        bool other = what == OTHER_MEMBER && rank == 1 && k == 1;
        FILE *file = begin(part, k == 0 ? "a.csv" : other ? "c.csv" : "b.csv");
        (void)fprintf(file, "id,cat,dog,emu\n");
        for (int64_t i = last - 1; i >= first; i--) { /* in another order, joined by id */
            if (k == 1 && !is_there(i))
                continue;
            (void)fprintf(file, "row%d,%.17g,%.17g,%.17g\n",
                          what == TWICE && rank == 1 && i == first ? 4 : (int)i,
                          probability(i, k, 0), probability(i, k, 1),
                          what == UNREADABLE && rank == 1 ? 7.5 : probability(i, k, 2));
        }
        (void)fclose(file);
    }
}

/* Gives rank 1 all files of rank 0 as copies, but its labels as a link. */
static void link_labels(void) {
    char command[5 * NAME_CHARS];
    (void)snprintf(command, sizeof command,
                   "cp '%s'/part-0/*.csv '%s/part-1' && ln -f '%s/part-0/labels.csv' '%s/part-1'",
                   folder, folder, folder, folder);
    assert_int_equal(system(command), 0);
}

typedef struct work {
    seat seat;
    variant what;
    cst_context *context;
    cst_pool *pool;
    cst_status status;
    char message[512];
} work;

static void *sit(void *user) {
    work *w = user;
    char path[NAME_CHARS];
    const cst_collectives calls = seat_calls(&w->seat);
    const cst_pool_config config = {.missing = 1, .own_rows = 1};
    (void)snprintf(path, sizeof path, "%s/part-%d", folder,
                   w->what == SAME_FOLDER && w->seat.rank == 1 ? 0 : w->seat.rank);
    w->status = cst_context_set_collectives(w->context, &calls);
    if (w->status == CST_OK)
        w->status = cst_pool_open(w->context, &w->pool, path, &config);
    if (w->status == CST_OK)
        w->status = cst_pool_load(w->context, w->pool, "oof");
    w->status = cst_context_agree(w->context, w->status, NULL);
    (void)snprintf(w->message, sizeof w->message, "%s", cst_last_error(w->context));
    return NULL;
}

static void load(variant what, int threads, work *w) {
    meeting at = {.size = RANKS};
    pthread_t thread[RANKS];
    for (int r = 0; r < RANKS; r++) {
        char part[32];
        (void)snprintf(part, sizeof part, "part-%d", r);
        write_part(part, bounds[r], bounds[r + 1], what, r);
    }
    if (what == SAME_LABELS)
        link_labels();
    assert_int_equal(pthread_barrier_init(&at.barrier, NULL, RANKS), 0);
    for (int r = 0; r < RANKS; r++) {
        w[r] = (work){.seat = {.at = &at, .rank = r}, .what = what};
        assert_int_equal(cst_context_create(&w[r].context), CST_OK);
        assert_int_equal(cst_context_set_threads(w[r].context, threads), CST_OK);
        assert_int_equal(pthread_create(&thread[r], NULL, sit, &w[r]), 0);
    }
    for (int r = 0; r < RANKS; r++)
        assert_int_equal(pthread_join(thread[r], NULL), 0);
    (void)pthread_barrier_destroy(&at.barrier);
}

static void leave(work *w) {
    for (int r = 0; r < RANKS; r++) {
        cst_pool_free(w[r].context, w[r].pool);
        cst_context_free(w[r].context);
    }
}

static void check_columns(const cst_pool *whole, const cst_pool *pool) {
    assert_int_equal(cst_pool_rows(pool, "oof"), ROWS);
    assert_int_equal(cst_pool_classes(pool), CLASSES);
    for (int32_t c = 0; c < CLASSES; c++)
        assert_string_equal(cst_pool_class_name(pool, c), cst_pool_class_name(whole, c));
    assert_memory_equal(cst_pool_labels(pool, "oof"), cst_pool_labels(whole, "oof"),
                        ROWS * sizeof(int32_t));
    assert_memory_equal(cst_pool_folds(pool, "oof"), cst_pool_folds(whole, "oof"),
                        ROWS * sizeof(int32_t));
    assert_memory_equal(cst_pool_groups(pool, "oof"), cst_pool_groups(whole, "oof"),
                        ROWS * sizeof(int64_t));
    assert_memory_equal(cst_pool_weights(pool, "oof"), cst_pool_weights(whole, "oof"),
                        ROWS * sizeof(double));
    for (int64_t i = 0; i < ROWS; i++) {
        const char *domain = cst_pool_row_domain(whole, "oof", i);
        assert_string_equal(cst_pool_id(pool, "oof", i), cst_pool_id(whole, "oof", i));
        if (domain)
            assert_string_equal(cst_pool_row_domain(pool, "oof", i), domain);
        else
            assert_null(cst_pool_row_domain(pool, "oof", i));
    }
}

static void check_predictions(cst_context *context, const cst_pool *whole, work *w) {
    static float expected[ROWS * CLASSES];
    static float got[ROWS * CLASSES];
    for (int32_t k = 0; k < MEMBERS; k++) {
        const uint8_t *present = cst_pool_present(whole, "oof", k);
        assert_int_equal(cst_pool_read(context, whole, "oof", k, 0, ROWS, expected), CST_OK);
        assert_int_equal(cst_pool_read(w->context, w->pool, "oof", k, 0, ROWS, got), CST_OK);
        assert_memory_equal(got, expected, sizeof got);
        assert_int_equal(cst_pool_read(w->context, w->pool, "oof", k, 299, 5, got), CST_OK);
        assert_memory_equal(got, expected + (size_t)299 * CLASSES, 5 * CLASSES * sizeof *got);
        assert_int_equal(present != NULL, k == 1);
        if (present)
            assert_memory_equal(cst_pool_present(w->pool, "oof", k), present, ROWS);
        else
            assert_null(cst_pool_present(w->pool, "oof", k));
    }
}

static void the_pool_of_all_rows(void **state) {
    static work w[RANKS];
    const cst_pool_config config = {.missing = 1};
    cst_context *context = *state;
    cst_pool *whole = NULL;
    char path[NAME_CHARS];
    write_part("whole", 0, ROWS, PLAIN, -1);
    (void)snprintf(path, sizeof path, "%s/whole", folder);
    assert_int_equal(cst_pool_open(context, &whole, path, &config), CST_OK);
    assert_int_equal(cst_pool_load(context, whole, "oof"), CST_OK);
    for (int threads = 1; threads <= 2; threads++) {
        load(PLAIN, threads, w);
        for (int r = 0; r < RANKS; r++) {
            assert_string_equal(w[r].message, "");
            assert_int_equal(w[r].status, CST_OK);
            check_columns(whole, w[r].pool);
            check_predictions(context, whole, &w[r]);
        }
        leave(w);
    }
    cst_pool_free(context, whole);
}

static void pools_that_differ_are_told(void **state) {
    static work w[RANKS];
    static const struct {
        variant what;
        cst_status status;
        const char *says;
    } cases[] = {
        {OTHER_MEMBER, CST_ERROR_MISMATCH,
         "the pool of rank 1 differs from that of rank 0: 'member 2 is c' and 'member 2 is b'"},
        {OTHER_COLUMN, CST_ERROR_MISMATCH, "the pool of rank 2 differs from that of rank 0"},
        {TWICE, CST_ERROR_INPUT, "sample id 'row4' is in row 4 of rank 0 and in row 0 of rank 1"},
        {UNREADABLE, CST_ERROR_INPUT, "rank 1 on here: "},
        {SAME_FOLDER, CST_ERROR_INPUT, "part-0: rank 0 on the same machine reads the same file"},
        {SAME_LABELS, CST_ERROR_INPUT,
         "part-1/labels.csv: rank 0 on the same machine reads the same file"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        load(cases[i].what, 1, w);
        for (int r = 0; r < RANKS; r++) {
            if (!strstr(w[r].message, cases[i].says))
                fail_msg("'%s' does not say '%s'", w[r].message, cases[i].says);
            assert_int_equal(w[r].status, cases[i].status);
        }
        leave(w);
    }
}

/* All ranks give the same arrays, which are rows of each. */
static void *give_arrays(void *user) {
    static const float values[] = {0.75F, 0.25F, 0.5F, 0.5F};
    static const int32_t labels[] = {0, 1};
    static const char *const names[] = {"a"};
    const cst_array array = {
        .data = values, .row_step = 2 * sizeof *values, .column_step = sizeof *values};
    const cst_pool_arrays arrays = {.task = CST_TASK_CLASSIFICATION,
                                    .members = 1,
                                    .rows = 2,
                                    .classes = 2,
                                    .predictions = &array,
                                    .names = names,
                                    .labels = labels,
                                    .own_rows = 1};
    work *w = user;
    const cst_collectives calls = seat_calls(&w->seat);
    w->status = cst_context_set_collectives(w->context, &calls);
    if (w->status == CST_OK)
        w->status = cst_pool_from_arrays(w->context, &w->pool, &arrays);
    w->status = cst_context_agree(w->context, w->status, NULL);
    return NULL;
}

static void arrays_may_be_equal(void **state) {
    static work w[RANKS];
    meeting at = {.size = RANKS};
    pthread_t thread[RANKS];
    (void)state;
    assert_int_equal(pthread_barrier_init(&at.barrier, NULL, RANKS), 0);
    for (int r = 0; r < RANKS; r++) {
        w[r] = (work){.seat = {.at = &at, .rank = r}};
        assert_int_equal(cst_context_create(&w[r].context), CST_OK);
        assert_int_equal(pthread_create(&thread[r], NULL, give_arrays, &w[r]), 0);
    }
    for (int r = 0; r < RANKS; r++)
        assert_int_equal(pthread_join(thread[r], NULL), 0);
    (void)pthread_barrier_destroy(&at.barrier);
    for (int r = 0; r < RANKS; r++) {
        assert_string_equal(cst_last_error(w[r].context), "");
        assert_int_equal(w[r].status, CST_OK);
        assert_int_equal(cst_pool_rows(w[r].pool, "oof"), 2 * RANKS);
    }
    leave(w);
}

static int make_folder(void **state) {
    temporary_path(folder, sizeof folder, "own");
    return !mkdtemp(folder) || context_setup(state);
}

static int remove_folder(void **state) {
    char command[NAME_CHARS];
    (void)snprintf(command, sizeof command, "rm -rf '%s'", folder);
    return system(command) != 0 || context_teardown(state);
}

int suite_own(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(the_pool_of_all_rows, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(pools_that_differ_are_told, make_folder, remove_folder),
        cmocka_unit_test(arrays_may_be_equal),
    };
    return cmocka_run_group_tests_name("own", tests, NULL, NULL);
}
