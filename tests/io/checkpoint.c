/*
 * Parts of a fit that are kept: taken again as they were, not taken where they are damaged or of
 * something else; folders that are refused, full disks.
 */
#include "io_files.h"

#include "io/checkpoint.h"

#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>

/* What a part of the tests holds. */
typedef struct thing {
    int32_t count;
    double *numbers; /* [count] */
    char *name;
    int32_t *none;
} thing;

static void pack_thing(cst_pack *pack, void *object) {
    thing *t = object;
    CST_PACK(pack, t->count);
    CST_PACK_ARRAY(pack, t->numbers, t->count);
    t->name = cst_pack_text(pack, t->name);
    CST_PACK_ARRAY(pack, t->none, 3);
}

static void pack_less(cst_pack *pack, void *object) {
    CST_PACK(pack, *(int32_t *)object);
}

static void pack_more(cst_pack *pack, void *object) {
    for (int i = 0; i < 1000; i++)
        CST_PACK(pack, *(int32_t *)object);
}

static void begin(fixture *f, const char *run) {
    assert_int_equal(cst_context_set_checkpoint(f->context, at(f, "parts")), CST_OK);
    assert_true(cst_checkpoint_wanted(f->context));
    assert_int_equal(cst_checkpoint_start(f->context, run), CST_OK);
    assert_true(cst_checkpoint_on(f->context));
    cst_checkpoint_least(f->context, 0);
}

/* Keeps a part, or fills `out` from the one that is there. */
static bool keep_or_take(fixture *f, const char *name, uint64_t of, thing *out) {
    double numbers[] = {1.5, -0.0, 1e-310};
    char text[] = "a name";
    thing made = {3, numbers, text, NULL};
    cst_checkpoint_part part = {.name = name, .of = of, .pack = pack_thing, .object = out};
    assert_int_equal(cst_checkpoint_take(f->context, &part), CST_OK);
    if (part.taken)
        return true;
    part.object = &made;
    cst_notice(f->context, "a notice of %s", name);
    cst_checkpoint_keep(f->context, &part);
    return false;
}

static void free_thing(fixture *f, thing *t) {
    cst_free(f->context, t->numbers);
    cst_free(f->context, t->name);
    *t = (thing){0};
}

static void parts_are_taken_as_they_were_kept(void **state) {
    fixture *f = *state;
    const double numbers[] = {1.5, -0.0, 1e-310};
    thing got = {0};
    begin(f, "seed=1\n");
    assert_false(keep_or_take(f, "stage", 7, &got));
    size_t before = cst_checkpoint_enter(f->context, "fold %d", 2);
    assert_false(keep_or_take(f, "stage", 7, &got)); /* another scope */
    cst_checkpoint_leave(f->context, before);
    assert_string_equal(cst_context_checkpoint_note(f->context), "");
    begin(f, "seed=1\n");
    cst_notices_clear(f->context);
    cst_notice(f->context, "before");
    assert_true(keep_or_take(f, "stage", 7, &got));
    assert_int_equal(got.count, 3);
    assert_memory_equal(got.numbers, numbers, sizeof numbers);
    assert_string_equal(got.name, "a name");
    assert_null(got.none);
    assert_int_equal(cst_notice_count(f->context), 2);
    assert_string_equal(cst_notice_at(f->context, 1), "a notice of stage");
    free_thing(f, &got);
    assert_false(keep_or_take(f, "stage", 8, &got)); /* a result of something else */
    char says[700];
    (void)snprintf(says, sizeof says, "continued with 1 finished part from %s", at(f, "parts"));
    assert_string_equal(cst_context_checkpoint_note(f->context), says);
    assert_int_equal(cst_context_end_checkpoint(f->context), CST_OK);
    assert_int_equal(access(at(f, "parts"), F_OK), -1); /* it was made by a run */
}

static void short_parts_and_finished_scopes_go(void **state) {
    fixture *f = *state;
    thing got = {0};
    begin(f, "seed=1\n");
    cst_checkpoint_least(f->context, 1000);
    assert_false(keep_or_take(f, "stage", 7, &got));
    cst_checkpoint_least(f->context, 0);
    assert_false(keep_or_take(f, "stage", 7, &got)); /* the first was not worth it */
    size_t before = cst_checkpoint_enter(f->context, "fold 1");
    assert_false(keep_or_take(f, "stage", 7, &got));
    cst_checkpoint_inside_done(f->context);
    assert_false(keep_or_take(f, "stage", 7, &got));
    cst_checkpoint_leave(f->context, before);
    assert_true(keep_or_take(f, "stage", 7, &got));
    free_thing(f, &got);
    cst_checkpoint_stop(f->context);
    assert_false(keep_or_take(f, "stage", 7, &got));
}

/* Changes byte `at_byte` of the only part, or cuts it off there. */
static void damage(fixture *f, long at_byte, bool cut) {
    const char *path = at(f, "parts/stage.part");
    if (cut) {
        assert_int_equal(truncate(path, at_byte), 0);
        return;
    }
    FILE *file = fopen(path, "r+b");
    assert_non_null(file);
    assert_int_equal(fseek(file, at_byte, SEEK_SET), 0);
    int byte = fgetc(file);
    assert_int_equal(fseek(file, at_byte, SEEK_SET), 0);
    assert_int_not_equal(fputc(byte ^ 4, file), EOF);
    assert_int_equal(fclose(file), 0);
}

static void damaged_parts_are_not_taken(void **state) {
    fixture *f = *state;
    struct stat info;
    thing got = {0};
    begin(f, "seed=1\n");
    assert_false(keep_or_take(f, "stage", 7, &got));
    assert_int_equal(stat(at(f, "parts/stage.part"), &info), 0);
    for (long byte = 0; byte < (long)info.st_size; byte++)
        for (int cut = 0; cut < 2; cut++) {
            begin(f, "seed=1\n");
            damage(f, byte, cut != 0);
            cst_notices_clear(f->context);                   /* a notice is kept with each part */
            assert_false(keep_or_take(f, "stage", 7, &got)); /* which keeps it again */
            begin(f, "seed=1\n");
            assert_true(keep_or_take(f, "stage", 7, &got));
            free_thing(f, &got);
        }
    damage(f, (long)info.st_size - 1, false);
    assert_false(keep_or_take(f, "stage", 7, &got));
    assert_non_null(strstr(cst_context_checkpoint_note(f->context), "1 part in "));
    assert_non_null(strstr(cst_context_checkpoint_note(f->context),
                           "could not be read and was computed again"));
}

static void folders_of_others_are_refused(void **state) {
    fixture *f = *state;
    thing got = {0};
    begin(f, "seed=1\nsplit=oof\n");
    assert_false(keep_or_take(f, "stage", 7, &got));
    cst_checkpoint_stop(f->context);
    assert_int_equal(cst_context_set_checkpoint(f->context, at(f, "parts")), CST_OK);
    expect_error(f, cst_checkpoint_start(f->context, "seed=2\nsplit=oof\n"), CST_ERROR_INPUT,
                 "its seed is '1', here it is '2'", NULL);
    expect_error(f, cst_checkpoint_start(f->context, "seed=1\nsplit=oof\nmore=1\n"),
                 CST_ERROR_INPUT, "its more is '', here it is '1'", NULL);
    assert_int_equal(mkdir(at(f, "full"), 0777), 0);
    (void)fclose(fopen(at(f, "full/letter.txt"), "w"));
    assert_int_equal(cst_context_set_checkpoint(f->context, at(f, "full")), CST_OK);
    expect_error(f, cst_checkpoint_start(f->context, "seed=1\n"), CST_ERROR_INPUT,
                 "it holds other files, such as 'letter.txt'", NULL);
    assert_int_equal(access(at(f, "full/lock"), F_OK), -1);
    assert_int_equal(cst_context_set_checkpoint(f->context, at(f, "full/letter.txt")), CST_OK);
    expect_error(f, cst_checkpoint_start(f->context, "seed=1\n"), CST_ERROR_INPUT,
                 "it is not a folder", NULL);
    expect_error(f, cst_context_set_checkpoint(f->context, ""), CST_ERROR_ARGUMENT,
                 "the name of the checkpoint folder is empty", NULL);
    assert_int_equal(cst_context_set_checkpoint(f->context, at(f, "no/parts")), CST_OK);
    expect_error(f, cst_checkpoint_start(f->context, "seed=1\n"), CST_ERROR_INPUT,
                 "does not exist; create it first", NULL);
    begin(f, "seed=1\nsplit=oof\n"); /* nothing of it was touched */
    assert_true(keep_or_take(f, "stage", 7, &got));
    free_thing(f, &got);
}

static void write_text(fixture *f, const char *name, const char *text) {
    FILE *file = fopen(at(f, name), "w");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
}

static void expect_text(fixture *f, const char *name, const char *text) {
    char got[64] = "";
    FILE *file = fopen(at(f, name), "r");
    assert_non_null(file);
    got[fread(got, 1, sizeof got - 1, file)] = '\0';
    assert_int_equal(fclose(file), 0);
    assert_string_equal(got, text);
}

/* Files of others that have names as those of runs: the folder is refused, or they stay. */
static void files_of_others_stay(void **state) {
    fixture *f = *state;
    thing got = {0};
    static const char *const names[] = {"lock", "run", "a.part", "run.tmp.1.0", "b.part.tmp.1.0"};
    assert_int_equal(mkdir(at(f, "parts"), 0777), 0);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char name[64];
        char says[64];
        (void)snprintf(name, sizeof name, "parts/%s", names[i]);
        (void)snprintf(says, sizeof says, "it holds other files, such as '%s'", names[i]);
        write_text(f, name, "mine");
        assert_int_equal(cst_context_set_checkpoint(f->context, at(f, "parts")), CST_OK);
        expect_error(f, cst_checkpoint_start(f->context, "seed=1\n"), CST_ERROR_INPUT, says, NULL);
        expect_text(f, name, "mine");
        assert_int_equal(remove(at(f, name)), 0);
    }
    write_text(f, "parts/a.part", "");
    expect_error(f, cst_checkpoint_start(f->context, "seed=1\n"), CST_ERROR_INPUT,
                 "such as 'a.part'", NULL);
    assert_int_equal(remove(at(f, "parts/a.part")), 0);
    assert_int_equal(mkdir(at(f, "parts/run"), 0777), 0);
    expect_error(f, cst_checkpoint_start(f->context, "seed=1\n"), CST_ERROR_INPUT, "such as 'run'",
                 NULL);
    assert_int_equal(rmdir(at(f, "parts/run")), 0);
    assert_int_equal(rmdir(at(f, "parts")), 0); /* nothing was left in it */
    begin(f, "seed=1\n");
    assert_false(keep_or_take(f, "stage", 7, &got));
    write_text(f, "parts/a.part", "mine");
    assert_int_equal(cst_context_end_checkpoint(f->context), CST_OK);
    expect_text(f, "parts/a.part", "mine");
    assert_int_equal(access(at(f, "parts/stage.part"), F_OK), -1);
    assert_int_equal(access(at(f, "parts/run"), F_OK), -1);
    assert_int_equal(remove(at(f, "parts/a.part")), 0);
    begin(f, "seed=1\n");
    write_text(f, "parts/run", "a model"); /* the output of the fit */
    write_text(f, "parts/lock", "another");
    assert_int_equal(cst_context_end_checkpoint(f->context), CST_OK);
    expect_text(f, "parts/run", "a model");
    expect_text(f, "parts/lock", "another");
}

/* What differs is said in words, with what to do. */
static void what_differs_is_said(void **state) {
    fixture *f = *state;
    static const char *const other[][3] = {
        {"version=2", "it ran with corestack 1, this is 2; continue it with that version", NULL},
        {"processor=B", "it ran on a processor of type A, this is B; continue it on such", NULL},
        {"content of the pool=8", "(predictions, labels, folds, groups, weights or domains) had",
         "continue it with the pool as it was"},
        {"member 0=b", "the members of the pool, their order, their costs or their ensembles were",
         "continue it with the pool as it was"},
        {"cases=8", "the cases of the pool, their folds or their groups were others",
         "continue it with the pool as it was"},
        {"measure=x", "its measure is 'cka', here it is 'x'; repeat the command", NULL}};
    enum { LINES = 6 };
    static const char *const same[] = {"version=1",  "processor=A", "content of the pool=7",
                                       "member 0=a", "cases=7",     "measure=cka"};
    char run[256];
    begin(f, "version=1\nprocessor=A\ncontent of the pool=7\nmember 0=a\ncases=7\n"
             "measure=cka\n");
    cst_checkpoint_stop(f->context);
    for (size_t i = 0; i < LINES; i++) {
        run[0] = '\0';
        for (size_t k = 0; k < LINES; k++) {
            size_t used = strlen(run);
            (void)snprintf(run + used, sizeof run - used, "%s\n", k == i ? other[i][0] : same[k]);
        }
        expect_error(f, cst_checkpoint_start(f->context, run), CST_ERROR_INPUT, other[i][1],
                     other[i][2] ? other[i][2] : "give another folder", NULL);
    }
}

/* A part that is whole, but as another program would write it. */
static void parts_of_another_build_are_errors(void **state) {
    fixture *f = *state;
    thing got = {0};
    begin(f, "seed=1\n");
    assert_false(keep_or_take(f, "stage", 7, &got));
    begin(f, "seed=1\n");
    int32_t count = 0;
    for (int less = 0; less < 2; less++) {
        cst_checkpoint_part part = {
            .name = "stage", .of = 7, .pack = less ? pack_less : pack_more, .object = &count};
        expect_error(f, cst_checkpoint_take(f->context, &part), CST_ERROR_INPUT,
                     "the part 'stage' is of another build of corestack", NULL);
        assert_false(part.taken);
    }
}

static void one_run_at_a_time(void **state) {
    fixture *f = *state;
    cst_context *other = NULL;
    begin(f, "seed=1\n");
    assert_int_equal(cst_context_create(&other), CST_OK);
    assert_int_equal(cst_context_set_checkpoint(other, at(f, "parts")), CST_OK);
    assert_int_equal(cst_checkpoint_start(other, "seed=1\n"), CST_ERROR_INPUT);
    assert_non_null(strstr(cst_last_error(other), "another run is using it: process "));
    cst_context_free(f->context);
    f->context = other;
    assert_int_equal(cst_checkpoint_start(other, "seed=1\n"), CST_OK);
}

/* Runs that begin as others end, which take away the folder that both use. */
static void runs_follow_each_other(void **state) {
    enum { RUNS = 3, TIMES = 8 };
    fixture *f = *state;
    pid_t child[RUNS];
    for (int i = 0; i < RUNS; i++) {
        child[i] = fork();
        assert_true(child[i] >= 0);
        if (child[i] > 0)
            continue;
        for (int k = 0; k < TIMES; k++)
            if (cst_context_set_checkpoint(f->context, at(f, "parts")) != CST_OK ||
                cst_checkpoint_start(f->context, "seed=1\n") != CST_OK ||
                cst_context_end_checkpoint(f->context) != CST_OK) {
                (void)fprintf(stderr, "%s\n", cst_last_error(f->context));
                _exit(strstr(cst_last_error(f->context), "another run is using it") ? 0 : 1);
            } else
                (void)rmdir(at(f, "parts")); /* where the run that made it was another */
        _exit(0);
    }
    for (int i = 0; i < RUNS; i++) {
        int code = -1;
        assert_int_equal(waitpid(child[i], &code, 0), child[i]);
        assert_int_equal(code, 0);
    }
}

/* A description that is cut off is written again; its parts are still there. */
static void a_damaged_description_is_made_again(void **state) {
    fixture *f = *state;
    thing got = {0};
    begin(f, "seed=1\n");
    assert_false(keep_or_take(f, "stage", 7, &got));
    assert_int_equal(truncate(at(f, "parts/run"), 9), 0);
    begin(f, "seed=1\n");
    assert_true(keep_or_take(f, "stage", 7, &got));
    free_thing(f, &got);
    assert_int_equal(truncate(at(f, "parts/run"), 9), 0);
    begin(f, "seed=2\n"); /* parts of another run have its number */
    assert_false(keep_or_take(f, "stage", 7, &got));
}

/* A process that may write no more, as on a full disk. */
static void a_full_disk_ends_keeping(void **state) {
    fixture *f = *state;
    thing inner = {0};
    begin(f, "seed=1\n");
    size_t before = cst_checkpoint_enter(f->context, "fold %d", 1);
    assert_false(keep_or_take(f, "stage", 7, &inner));
    assert_int_equal(access(at(f, "parts/fold-1.stage.part"), F_OK), 0);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        thing got = {0};
        const struct rlimit none = {16, 16};
        (void)signal(SIGXFSZ, SIG_IGN);
        (void)setrlimit(RLIMIT_FSIZE, &none);
        bool taken = keep_or_take(f, "whole", 7, &got);
        cst_checkpoint_inside_done(f->context); /* nothing stands for what is inside */
        const char *note = cst_context_checkpoint_note(f->context);
        _exit(!taken && strstr(note, "further parts were not kept: ") ? 0 : 1);
    }
    int code = -1;
    assert_int_equal(waitpid(child, &code, 0), child);
    assert_int_equal(code, 0);
    cst_checkpoint_leave(f->context, before);
    assert_int_equal(access(at(f, "parts/fold-1.whole.part"), F_OK), -1);
    assert_int_equal(access(at(f, "parts/fold-1.stage.part"), F_OK), 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, files_setup, files_teardown)

int suite_checkpoint(void) {
    const struct CMUnitTest tests[] = {TEST(parts_are_taken_as_they_were_kept),
                                       TEST(short_parts_and_finished_scopes_go),
                                       TEST(damaged_parts_are_not_taken),
                                       TEST(folders_of_others_are_refused),
                                       TEST(files_of_others_stay),
                                       TEST(what_differs_is_said),
                                       TEST(parts_of_another_build_are_errors),
                                       TEST(one_run_at_a_time),
                                       TEST(runs_follow_each_other),
                                       TEST(a_damaged_description_is_made_again),
                                       TEST(a_full_disk_ends_keeping)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
