/*
 * Failing memory: every public call with its 1st, 2nd, ... n-th allocation failing, whoever makes
 * it: this library, jansson, libzip, libpng, yajl, LAPACKE, libc. Each time the call either works
 * with the same result or gives CST_ERROR_MEMORY and a message, leaves its results alone, loses
 * nothing (AddressSanitizer's leak checker sees what the counts here do not), and works when it is
 * made again. Arguments: how many failures to try for each call at most (0: all allocations, each
 * of them alone and with all behind it; "alone": all, each of them alone), and a part of the name
 * of the calls to try. With "locale" in place of the number nothing fails: every call is made in
 * the C locale and in one with a decimal comma, and has to give the same results. With "room"
 * arrays of 1 MiB, then half of that and so on are taken for large ones, for which there are no
 * temporary files: CST_ERROR_IO and a message that names TMPDIR. With "orders", then a seed and a
 * number of calls, the calls come in a random order on contexts of random settings that other calls
 * have used, some of them interrupted by a failed allocation: each has to give the result that it
 * gives in a fresh context.
 */
#include "comma_locale.h"
#include "core/context.h"
#include "public_functions.h"
#include "sweep.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Public functions that allocate nothing: answers, definitions, frees, settings of a context, tests
 * in closed form. */
static const char *const QUIET[] = {
    "cst_dtype_name",
    "cst_dtype_bits",
    "cst_safetensors_close",
    "cst_safetensors_count",
    "cst_safetensors_find",
    "cst_safetensors_name",
    "cst_safetensors_dtype",
    "cst_safetensors_shape",
    "cst_safetensors_bytes",
    "cst_safetensors_metadata_count",
    "cst_safetensors_metadata_key",
    "cst_safetensors_metadata_value",
    "cst_soup_fail",
    "cst_method_name",
    "cst_metric_name",
    "cst_metric_is_of",
    "cst_model_decide",
    "cst_model_has_cascade",
    "cst_cascade_next",
    "cst_cascade_waiting",
    "cst_cascade_answer",
    "cst_cascade_free",
    "cst_method_describe",
    "cst_detection_method_name",
    "cst_detection_method_describe",
    "cst_metric_definition",
    "cst_segmentation_definition",
    "cst_task_name",
    "cst_status_name",
    "cst_status_text",
    "cst_version",
    "cst_make_printable",
    "cst_path_is_descriptor",
    "cst_unlock_file",
    "cst_release_files",
    "cst_drop_files",
    "cst_context_set_formulas",
    "cst_context_set_width",
    "cst_context_progress",
    "cst_option_count",
    "cst_option_at",
    "cst_preset_at",
    "cst_export_format",
    "cst_options_preset",
    "cst_options_set",
    "cst_options_get",
    "cst_context_set_threads",
    "cst_label_report_free",
    "cst_model_has_guard",
    "cst_model_others",
    "cst_model_other_name",
    "cst_guard_report_free",
    "cst_monitor_alarm",
    "cst_monitor_evidence",
    "cst_monitor_rows",
    "cst_monitor_free",
    "cst_context_set_memory",
    "cst_context_set_collectives",
    "cst_context_ranks",
    "cst_context_agree",
    "cst_context_same",
    "cst_context_set_log",
    "cst_context_set_progress",
    "cst_last_error",
    "cst_context_free",
    "cst_free",
    "cst_options_free",
    "cst_pool_free",
    "cst_model_free",
    "cst_report_free",
    "cst_topk_free",
    "cst_report_get_count",
    "cst_report_get_number",
    "cst_report_get_string",
    "cst_predictor_free",
    "cst_adapter_free",
    "cst_adapter_members",
    "cst_adapter_member_name",
    "cst_adapter_get_state",
    "cst_adapter_set",
    "cst_predictor_error",
    "cst_model_task",
    "cst_model_members",
    "cst_model_classes",
    "cst_model_member_name",
    "cst_model_member_weight",
    "cst_model_class_name",
    "cst_model_setting",
    "cst_pool_file",
    "cst_pool_takes_name",
    "cst_pool_task",
    "cst_pool_members",
    "cst_pool_member_index",
    "cst_pool_classes",
    "cst_pool_class_name",
    "cst_pool_member_name",
    "cst_pool_splits",
    "cst_pool_split_name",
    "cst_pool_member_has_split",
    "cst_pool_conditions",
    "cst_pool_single",
    "cst_pool_clean_split",
    "cst_model_retain",
    "cst_predictor_set_domain",
    "cst_pool_has_split",
    "cst_pool_rows",
    "cst_pool_labels",
    "cst_pool_targets",
    "cst_pool_id",
    "cst_pool_predictions",

};

enum { SKIPPED = 77 };                       /* exit status of a test that could not be made */
enum { LOCALE = -1, ROOM = -2, ALONE = -3 }; /* in place of a number of failures */
enum { LARGE = 1 << 20, SMALL = 64 };        /* bytes of an array */

/* ---- a context that counts what it holds ---- */

static int64_t live;

static void *counting(void *user, void *pointer, size_t bytes) {
    (void)user;
    if (bytes == 0) {
        if (pointer)
            (void)__atomic_sub_fetch(&live, 1, __ATOMIC_RELAXED);
        free(pointer);
        return NULL;
    }
    void *got = realloc(pointer, bytes);
    if (got && !pointer)
        (void)__atomic_add_fetch(&live, 1, __ATOMIC_RELAXED);
    return got;
}

void trial_begin(trial *t) {
    if (t->least > 0) {
        t->c->large.least = t->least;
        t->c->large.held += SIZE_MAX / 2;
    }
    malloc_fault_arm(t->after < 0 ? INT64_MAX : t->after, t->all);
}

void trial_end(trial *t, cst_status status) {
    t->seen = malloc_fault_disarm(&t->failed);
    if (t->least > 0) {
        t->c->large.least = CST_LARGE_BYTES;
        t->c->large.held -= SIZE_MAX / 2;
    }
    t->status = status;
    (void)snprintf(t->message, sizeof t->message, "%s", cst_last_error(t->c));
}

/* ---- results ---- */

void add_bytes(trial *t, const void *bytes, size_t count) {
    const unsigned char *at = bytes;
    for (size_t i = 0; at && i < count; i++)
        t->digest = (t->digest ^ at[i]) * 1099511628211u;
}

void add_text(trial *t, const char *text) {
    add_bytes(t, text, strlen(text));
}

void add_report(trial *t, const cst_report *report) {
    if (!report)
        return;
    char *text = steady_report(t->w, report);
    add_text(t, text);
    cst_free(t->w->quiet, text);
}

void add_model(trial *t, const cst_model *model) {
    void *bytes = NULL;
    size_t size = 0;
    if (!model)
        return;
    must(t->w->quiet, cst_model_save_memory(t->w->quiet, model, &bytes, &size), "model");
    add_bytes(t, bytes, size);
    cst_free(t->w->quiet, bytes);
}

void add_file(trial *t, const char *path) {
    unsigned char piece[4096];
    FILE *file = fopen(path, "rb");
    if (!file)
        return;
    for (size_t got = 0; (got = fread(piece, 1, sizeof piece, file)) > 0;)
        add_bytes(t, piece, got);
    (void)fclose(file);
}

/* ---- one call ---- */

typedef struct totals {
    int64_t calls;
    int64_t allocations; /* of one go at each call */
    int64_t injected;    /* goes in which something failed */
    int64_t unharmed;    /* of these: the call worked all the same */
    int64_t wrong;
} totals;

static trial go_as(trial t, const sweep_call *call) {
    t.c = t.w->tried;
    t.digest = 14695981039346656037u;
    call->run(&t);
    cst_notices_clear(t.c);
    return t;
}

static trial go(world *w, const sweep_call *call, int64_t after, bool all) {
    return go_as((trial){.w = w, .after = after, .all = all}, call);
}

static void complain(const sweep_call *call, const trial *t, totals *sum, const char *what) {
    if (t->least > 0)
        (void)printf("%s (%s), no room for %zu bytes: ", call->name, call->what, t->least);
    else
        (void)printf("%s (%s), allocation %lld%s of %lld: ", call->name, call->what,
                     (long long)t->after, t->all ? " and on" : "", (long long)t->seen);
    (void)printf("%s; %s: %s\n", what, cst_status_name(t->status), t->message);
    sum->wrong++;
}

static void judge(const sweep_call *call, const trial *t, const trial *good, int64_t held,
                  totals *sum) {
    sum->injected += t->failed > 0;
    sum->unharmed += t->failed > 0 && t->status == CST_OK;
    if (live != held) {
        (void)printf("%lld more blocks: ", (long long)(live - held));
        complain(call, t, sum, "memory is left behind");
        live = held;
    }
    if (t->digest != good->digest)
        complain(call, t, sum, "the result differs");
    if (t->status == CST_OK)
        return;
    if (t->status != (t->least > 0 ? CST_ERROR_IO : CST_ERROR_MEMORY))
        complain(call, t, sum, "the status is wrong");
    bool makes_context = strncmp(call->name, "cst_context_create", 18) == 0;
    bool says =
        strstr(t->message, t->least > 0 ? "set TMPDIR" : "memory") && !strchr(t->message, '\n');
    if (!makes_context && !says && strncmp(call->name, "cst_predictor_predict", 21) != 0)
        complain(call, t, sum, "the message does not say so");
    if (!t->untouched)
        complain(call, t, sum, "results were touched");
    if (t->again != CST_OK)
        complain(call, t, sum, "the same call fails afterwards");
}

/* Allocation `after` fails; every second time those behind it as well. */
static void sweep_call_all(world *w, const sweep_call *call, int64_t most, totals *sum) {
    (void)go(w, call, -1, false); /* what is made once in a process or context is made here */
    int64_t held = live;
    trial good = go(w, call, -1, false);
    if (good.status != CST_OK) {
        complain(call, &good, sum, "does not work at all");
        return;
    }
    sum->calls++;
    sum->allocations += good.seen;
    /* The first call with arrays of any layout makes room to convert them. */
    if (strncmp(call->name, "cst_predictor_predict", 21) == 0 && good.seen > 0 &&
        strcmp(call->name, "cst_predictor_predict_arrays") != 0)
        complain(call, &good, sum, "allocates");
    /* The ends are tried one by one, the middle in strides. */
    int64_t stride = most > 0 && good.seen > most ? good.seen / most + 1 : 1;
    for (int64_t n = 0; n < good.seen; n += stride) {
        int64_t at = stride > 1 && n > 0 ? n - (n * 7919 + sum->calls * 31) % stride : n;
        for (int all = 0; all < (most == 0 ? 2 : 1); all++) {
            trial t = go(w, call, at, all != 0 || (most > 0 && (n / stride) % 2 == 1));
            judge(call, &t, &good, held, sum);
        }
    }
}

/* Arrays of fewer and fewer bytes find no room on disk; from 64 on, since the path of the temporary
 * file takes some itself. */
static void without_room(world *w, const sweep_call *call, totals *sum) {
    int64_t held = live;
    trial good = go(w, call, -1, false);
    if (good.status != CST_OK)
        complain(call, &good, sum, "does not work at all");
    sum->calls++;
    sum->allocations += good.seen;
    for (size_t least = LARGE; good.status == CST_OK && least >= SMALL; least /= 2) {
        trial t = go_as((trial){.w = w, .after = -1, .least = least}, call);
        t.failed = t.status != CST_OK;
        judge(call, &t, &good, held, sum);
    }
}

/* The same call in a program with a decimal comma: the same results. */
static void in_both_locales(world *w, const sweep_call *call, totals *sum) {
    (void)setlocale(LC_NUMERIC, "C");
    trial good = go(w, call, -1, false);
    (void)comma_locale();
    trial t = go(w, call, -1, false);
    (void)setlocale(LC_NUMERIC, "C");
    sum->calls++;
    if (good.status != CST_OK || t.status != CST_OK)
        complain(call, &t, sum, "does not work");
    else if (t.digest != good.digest)
        complain(call, &t, sum, "the result depends on the locale");
}

/* What is called in the sweep of another: write_tensors and read_tensors of sweep_files.c. */
static const char *const TOGETHER[][2] = {
    {"cst_safetensors_read_f32", "cst_safetensors_read"},
    {"cst_safetensors_read_f64", "cst_safetensors_read"},
    {"cst_safetensors_map", "cst_safetensors_read"},
};

/* ---- random orders ---- */

static const sweep_call *const *all_calls(size_t *count) {
    static const sweep_call *list[512];
    const sweep_call *const tables[] = {SWEEP_SMALL,   SWEEP_FILES, SWEEP_TASKS,
                                        SWEEP_WEIGHTS, SWEEP_SOUPS, SWEEP_SHIFT};
    const size_t counts[] = {SWEEP_SMALL_COUNT,   SWEEP_FILES_COUNT, SWEEP_TASKS_COUNT,
                             SWEEP_WEIGHTS_COUNT, SWEEP_SOUPS_COUNT, SWEEP_SHIFT_COUNT};
    *count = 0;
    for (size_t t = 0; t < sizeof counts / sizeof counts[0]; t++)
        for (size_t i = 0; i < counts[t] && *count < sizeof list / sizeof list[0]; i++)
            list[(*count)++] = &tables[t][i];
    return list;
}

/* A context for the calls: the one there is with other settings, or a new one. */
static void change_context(world *w, cst_rng *rng) {
    if (cst_rng_below(rng, 16) == 0) {
        cst_context_free(w->tried);
        if (live != 0) {
            (void)printf("%lld blocks stay behind a freed context\n", (long long)live);
            exit(1);
        }
        must(NULL, cst_context_create_with(&w->tried, counting, NULL), "context");
    }
    int threads = 1 + (int)cst_rng_below(rng, 4);
    size_t memory = (size_t)(64 + cst_rng_below(rng, 512)) << 20;
    must(w->tried, cst_context_set_threads(w->tried, threads), "threads");
    must(w->tried, cst_context_set_memory(w->tried, memory), "memory");
}

/* The call with a random allocation failing, on one thread: what it leaves must not matter to the
 * calls behind it. */
static void disturb(world *w, cst_rng *rng, const sweep_call *call, int64_t allocations) {
    must(w->tried, cst_context_set_threads(w->tried, 1), "threads");
    (void)go(w, call, cst_rng_below(rng, allocations), cst_rng_below(rng, 2) == 0);
}

static void in_random_orders(world *w, uint64_t seed, int64_t steps, totals *sum) {
    static uint64_t wanted[512];
    static int64_t allocations[512];
    size_t count = 0;
    cst_rng rng;
    const sweep_call *const *calls = all_calls(&count);
    for (size_t i = 0; i < count; i++) {
        trial good = go(w, calls[i], -1, false);
        wanted[i] = good.digest;
        allocations[i] = good.seen;
        if (good.status != CST_OK)
            complain(calls[i], &good, sum, "does not work at all");
    }
    cst_rng_init(&rng, seed, CST_STREAM_TEST, 0);
    for (int64_t n = 0; n < steps && sum->wrong == 0; n++) {
        size_t i = (size_t)cst_rng_below(&rng, (int64_t)count);
        change_context(w, &rng);
        if (allocations[i] > 0 && cst_rng_below(&rng, 4) == 0) {
            disturb(w, &rng, calls[i], allocations[i]);
            sum->injected++;
            change_context(w, &rng);
        }
        trial t = go(w, calls[i], -1, false);
        sum->calls++;
        sum->allocations += t.seen;
        if (t.status != CST_OK)
            complain(calls[i], &t, sum, "fails behind other calls");
        else if (t.digest != wanted[i])
            complain(calls[i], &t, sum, "the result depends on the calls before it");
        if (sum->wrong > 0)
            (void)printf("seed %llu, call %lld\n", (unsigned long long)seed, (long long)n);
    }
}

/* ---- every public function ---- */

static bool swept(const char *name, const sweep_call *calls, size_t count) {
    for (size_t i = 0; i < sizeof TOGETHER / sizeof TOGETHER[0]; i++)
        if (strcmp(name, TOGETHER[i][0]) == 0)
            name = TOGETHER[i][1];
    for (size_t i = 0; i < count; i++)
        if (strcmp(calls[i].name, name) == 0)
            return true;
    return false;
}

static bool exists(const char *name) {
    for (size_t i = 0; i < PUBLIC_COUNT; i++)
        if (strcmp(PUBLIC[i].name, name) == 0)
            return true;
    return false;
}

static int check_complete(void) {
    int wrong = 0;
    size_t quiet = sizeof QUIET / sizeof QUIET[0];
    for (size_t i = 0; i < PUBLIC_COUNT; i++) {
        const char *name = PUBLIC[i].name;
        bool listed = false;
        for (size_t q = 0; q < quiet; q++)
            listed = listed || strcmp(QUIET[q], name) == 0;
        if (!listed && !swept(name, SWEEP_SMALL, SWEEP_SMALL_COUNT) &&
            !swept(name, SWEEP_FILES, SWEEP_FILES_COUNT) &&
            !swept(name, SWEEP_TASKS, SWEEP_TASKS_COUNT) &&
            !swept(name, SWEEP_WEIGHTS, SWEEP_WEIGHTS_COUNT) &&
            !swept(name, SWEEP_SOUPS, SWEEP_SOUPS_COUNT) &&
            !swept(name, SWEEP_SHIFT, SWEEP_SHIFT_COUNT)) {
            (void)printf("%s is in no sweep (tests/faults/sweep_*.c) and not among those that "
                         "allocate nothing\n",
                         name);
            wrong++;
        }
    }
    for (size_t q = 0; q < quiet; q++)
        if (!exists(QUIET[q])) {
            (void)printf("%s is no public function\n", QUIET[q]);
            wrong++;
        }
    return wrong;
}

static void sweep_list(world *w, const sweep_call *calls, size_t count, int64_t most,
                       const char *part, totals *sum) { /* most: a number, or LOCALE, ROOM, ALONE */
    for (size_t i = 0; i < count; i++) {
        if (part && !strstr(calls[i].name, part) && !strstr(calls[i].what, part))
            continue;
        if (most == LOCALE)
            in_both_locales(w, &calls[i], sum);
        else if (most == ROOM)
            without_room(w, &calls[i], sum);
        else
            sweep_call_all(w, &calls[i], most, sum);
    }
}

int main(int argc, char **argv) {
    static world w;
    totals sum = {0};
    int64_t most = argc > 1 ? strtoll(argv[1], NULL, 10) : 12;
    const char *part = argc > 2 ? argv[2] : NULL;
    bool orders = argc > 3 && strcmp(argv[1], "orders") == 0;
    if (argc > 1 && strcmp(argv[1], "locale") == 0) {
        if (!comma_locale())
            return SKIPPED;
        most = LOCALE;
        (void)setlocale(LC_NUMERIC, "C");
    }
    if (argc > 1 && strcmp(argv[1], "room") == 0)
        most = ROOM;
    if (argc > 1 && strcmp(argv[1], "alone") == 0)
        most = ALONE;
    (void)setvbuf(stdout, NULL, _IOLBF, 4096);
    sum.wrong = check_complete();
    world_make(&w);
    shift_make(&w);
    /* With an allocator of the caller's no array is a file. */
    must(NULL, cst_context_create_with(&w.tried, most == ROOM ? NULL : counting, NULL), "context");
    if (most == ROOM && setenv("TMPDIR", "/nonexistent", 1) != 0)
        return 1;
    must(w.tried, cst_context_set_threads(w.tried, 1), "threads");
    if (orders) {
        in_random_orders(&w, strtoull(argv[2], NULL, 10), strtoll(argv[3], NULL, 10), &sum);
    } else {
        sweep_list(&w, SWEEP_SMALL, SWEEP_SMALL_COUNT, most, part, &sum);
        sweep_list(&w, SWEEP_FILES, SWEEP_FILES_COUNT, most, part, &sum);
        sweep_list(&w, SWEEP_TASKS, SWEEP_TASKS_COUNT, most, part, &sum);
        sweep_list(&w, SWEEP_WEIGHTS, SWEEP_WEIGHTS_COUNT, most, part, &sum);
        sweep_list(&w, SWEEP_SOUPS, SWEEP_SOUPS_COUNT, most, part, &sum);
        sweep_list(&w, SWEEP_SHIFT, SWEEP_SHIFT_COUNT, most, part, &sum);
    }
    cst_context_free(w.tried);
    shift_free(&w);
    world_free(&w);
    (void)printf("%lld calls with %lld allocations: %lld failures injected, %lld of them without "
                 "harm, %lld wrong\n",
                 (long long)sum.calls, (long long)sum.allocations, (long long)sum.injected,
                 (long long)sum.unharmed, (long long)sum.wrong);
    return sum.wrong ? 1 : 0;
}
