/*
 * Rows that ranks fetch from each other: right ones, by any number of threads; strangers get
 * nothing; a rank that has ended is named.
 */
#define _DEFAULT_SOURCE /* usleep */
#include "comm/rows.h"
#include "base/context.h"
#include "base/ranks.h"
#include "check.h"
#include "comm/serve.h"
#include "meeting.h"
#include "short_tests.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { ROWS = 3001, WIDTH = 70, MEMBERS = 3, TASKS = 40, KNOWS = -2, SLOW = -3, STUCK = -4 };

static float value_at(int rank, int32_t member, int64_t row, int column) {
    return (float)(rank * 1000000 + member * 100000) + (float)row + (float)column / 128;
}

typedef struct work {
    seat seat;
    void (*run)(struct work *w);
    cst_context *context;
    cst_rows *rows;
    cst_status status;
    char message[512];
    double seconds;
    int32_t members; /* served; of more than MEMBERS the memory is too small to fetch ahead */
    int bad; /* the rank whose file cannot be read; -1: none; KNOWS: rank 1 fails by itself; SLOW:
                every file is read slowly; STUCK: very slowly */
} work;

static cst_status read_own(cst_context *context, const void *user, int32_t member, int64_t first,
                           int64_t count, float *out) {
    const work *w = user;
    if (w->bad == SLOW)
        (void)usleep(20000);
    if (w->bad == w->seat.rank)
        return cst_fail(context, CST_ERROR_FORMAT, "members/a.npy: row %d is bad", (int)first);
    if (w->bad == STUCK)
        (void)sleep(CST_PATIENCE + 1);
    for (int64_t i = 0; i < count; i++)
        for (int c = 0; c < WIDTH; c++)
            out[i * WIDTH + c] = value_at(w->seat.rank, member, first + i, c);
    return CST_OK;
}

static cst_status open_rows(work *w) {
    const cst_rows_served served = {read_own, w, w->members, ROWS, WIDTH};
    return cst_rows_open(w->context, &served, &w->rows);
}

/* Rows of a rank, as many as fill several pieces or only one. */
static cst_status fetch_some(cst_context *context, void *user, int64_t task) {
    const work *w = user;
    int rank = (int)(task % w->seat.at->size);
    int32_t member = (int32_t)(task / 3 % MEMBERS);
    int64_t first = task * 7 % 11;
    int64_t count = task % 4 == 0 ? ROWS - first : 1 + task;
    if (rank == w->seat.rank)
        return CST_OK;
    float *out = malloc((size_t)count * WIDTH * sizeof *out);
    cst_status status = out ? CST_OK : CST_ERROR_MEMORY;
    CST_TRY(cst_rows_fetch(context, w->rows, rank, member, first, count, out));
    for (int64_t i = 0; status == CST_OK && i < count; i++)
        for (int c = 0; c < WIDTH; c++)
            if (out[i * WIDTH + c] != value_at(rank, member, first + i, c))
                status = cst_fail(context, CST_ERROR_INTERNAL, "row %d is another one", (int)i);
    free(out);
    return status;
}

static void fetch_all(work *w) {
    w->status = open_rows(w);
    if (w->status == CST_OK)
        w->status = cst_parallel_for(w->context, TASKS, fetch_some, w);
    w->status = cst_context_agree(w->context, w->status, NULL);
    cst_rows_close(w->context, w->rows);
}

/* A block of rows of every rank and member, in order. */
static cst_status fetch_block(cst_context *context, void *user, int64_t block) {
    const work *w = user;
    static _Thread_local float out[CST_BLOCK_ROWS * WIDTH];
    int64_t first = cst_block_first(block);
    int64_t count = cst_block_size(ROWS, block);
    cst_status status = CST_OK;
    for (int rank = 0; rank < w->seat.at->size; rank++)
        for (int32_t k = 0; rank != w->seat.rank && status == CST_OK && k < MEMBERS; k++) {
            status = cst_rows_fetch(context, w->rows, rank, k, first, count, out);
            for (int64_t i = 0; status == CST_OK && i < count; i++)
                if (out[i * WIDTH + 3] != value_at(rank, k, first + i, 3))
                    status = cst_fail(context, CST_ERROR_INTERNAL, "row %d is another", (int)i);
        }
    return status;
}

static void fetch_in_order(work *w) {
    w->status = open_rows(w);
    for (int pass = 0; pass < 2; pass++)
        if (w->status == CST_OK)
            w->status = cst_parallel_for(w->context, cst_block_count(ROWS), fetch_block, w);
    w->status = cst_context_agree(w->context, w->status, NULL);
    cst_rows_close(w->context, w->rows);
}

/* Rank 1 ends while rank 0 wants its rows. */
static void one_ends(work *w) {
    float row[WIDTH];
    w->status = open_rows(w);
    if (w->status == CST_OK && w->seat.rank == 0)
        w->status = cst_rows_fetch(w->context, w->rows, 1, 0, 0, 1, row);
    (void)pthread_barrier_wait(&w->seat.at->barrier);
    if (w->seat.rank == 1) {
        cst_rows_close(w->context, w->rows);
        w->rows = NULL;
    }
    (void)pthread_barrier_wait(&w->seat.at->barrier);
    double start = cst_seconds();
    if (w->status == CST_OK && w->seat.rank == 0)
        w->status = cst_rows_fetch(w->context, w->rows, 1, 0, 0, 1, row);
    w->seconds = cst_seconds() - start;
    if (w->seat.rank == 1 && w->bad == KNOWS)
        w->status = cst_fail(w->context, CST_ERROR_INPUT, "the disk burns");
    w->status = cst_context_agree(w->context, w->status, NULL);
    cst_rows_close(w->context, w->rows);
}

static void fetch_one(work *w) {
    float row[WIDTH];
    w->status = open_rows(w);
    if (w->status == CST_OK && w->seat.rank == 0)
        w->status = cst_rows_fetch(w->context, w->rows, 1, 0, 5, 1, row);
    if (w->status == CST_OK && w->seat.rank == 0 && row[3] != value_at(1, 0, 5, 3))
        w->status = cst_fail(w->context, CST_ERROR_INTERNAL, "the row is another one");
    w->status = cst_context_agree(w->context, w->status, NULL);
    cst_rows_close(w->context, w->rows);
}

static void *sit(void *user) {
    work *w = user;
    const cst_collectives calls = seat_calls(&w->seat);
    w->status = cst_context_set_collectives(w->context, &calls);
    if (w->status == CST_OK)
        w->run(w);
    (void)snprintf(w->message, sizeof w->message, "%s", cst_last_error(w->context));
    return NULL;
}

static void meet_with(int size, void (*run)(work *w), int threads, int bad, int32_t members,
                      work *w) {
    meeting at = {.size = size};
    pthread_t thread[RANKS_MAX];
    assert_int_equal(pthread_barrier_init(&at.barrier, NULL, (unsigned)size), 0);
    for (int r = 0; r < size; r++) {
        w[r] = (work){.seat = {.at = &at, .rank = r}, .run = run, .bad = bad, .members = members};
        assert_int_equal(cst_context_create(&w[r].context), CST_OK);
        assert_int_equal(cst_context_set_threads(w[r].context, threads), CST_OK);
        assert_int_equal(cst_context_set_memory(w[r].context, (size_t)128 << 20), CST_OK);
        assert_int_equal(pthread_create(&thread[r], NULL, sit, &w[r]), 0);
    }
    for (int r = 0; r < size; r++)
        assert_int_equal(pthread_join(thread[r], NULL), 0);
    (void)pthread_barrier_destroy(&at.barrier);
}

static void meet(int size, void (*run)(work *w), int threads, int bad, work *w) {
    meet_with(size, run, threads, bad, MEMBERS, w);
}

static void leave(int size, work *w) {
    for (int r = 0; r < size; r++)
        cst_context_free(w[r].context);
}

static void rows_of_every_rank(void **state) {
    static work w[RANKS_MAX];
    (void)state;
    for (int size = 2; size <= 5; size += 3)
        for (int threads = 1; threads <= 3; threads += 2) {
            uint64_t fetched = 0;
            meet_with(size, fetch_all, threads, -1, 100 * MEMBERS, w);
            for (int r = 0; r < size; r++) {
                assert_string_equal(w[r].message, "");
                assert_int_equal(w[r].status, CST_OK);
                fetched += cst_context_fetched(w[r].context);
            }
            uint64_t expected = 0;
            for (int64_t task = 0; task < TASKS; task++)
                expected += (uint64_t)(size - 1) * WIDTH * sizeof(float) *
                            (uint64_t)(task % 4 == 0 ? ROWS - task * 7 % 11 : 1 + task);
            assert_true(fetched == expected);
            leave(size, w);
        }
}

static void rows_in_order_are_fetched_ahead(void **state) {
    static work w[RANKS_MAX];
    const uint64_t once = (uint64_t)MEMBERS * ROWS * WIDTH * sizeof(float);
    (void)state;
    for (int size = 2; size <= 3; size++)
        for (int threads = 1; threads <= 3; threads += 2) {
            meet(size, fetch_in_order, threads, -1, w);
            for (int r = 0; r < size; r++) {
                assert_string_equal(w[r].message, "");
                assert_int_equal(w[r].status, CST_OK);
                if (size == 2 && threads == 1) /* the first blocks again, and all is there */
                    assert_true(cst_context_fetched(w[r].context) < once + once / 2);
            }
            leave(size, w);
        }
}

static void a_bad_file_is_named_by_its_rank(void **state) {
    static work w[RANKS_MAX];
    (void)state;
    meet(2, fetch_all, 1, 1, w);
    for (int r = 0; r < 2; r++) {
        assert_int_equal(w[r].status, CST_ERROR_FORMAT);
        assert_string_equal(w[r].message,
                            "rank 0 on here: rows of rank 1 on here: members/a.npy: row 7 is bad");
    }
    leave(2, w);
}

static void a_slow_disk_is_waited_for(void **state) {
    static work w[RANKS_MAX];
    (void)state;
    if (short_tests())
        return;
    meet(2, fetch_one, 1, STUCK, w);
    for (int r = 0; r < 2; r++) {
        assert_string_equal(w[r].message, "");
        assert_int_equal(w[r].status, CST_OK);
    }
    leave(2, w);
}

static void a_rank_that_ended_is_named(void **state) {
    static work w[RANKS_MAX];
    (void)state;
    meet(2, one_ends, 1, -1, w);
    for (int r = 0; r < 2; r++) {
        assert_int_equal(w[r].status, CST_ERROR_IO);
        assert_non_null(strstr(w[r].message, "the rows of rank 1 on here cannot be fetched"));
        assert_true(w[r].seconds < 5);
    }
    leave(2, w);
    meet(2, one_ends, 1, KNOWS, w); /* where rank 1 knows why, that is what both are told */
    for (int r = 0; r < 2; r++)
        assert_string_equal(w[r].message, "rank 1 on here: the disk burns");
    leave(2, w);
}

/* ---- strangers ---- */

/* A server of rank 1 of 2, and its port. */
static cst_server *start(cst_context *context, work *w, cst_tokens *tokens, int *port) {
    const cst_rows_served served = {read_own, w, MEMBERS, ROWS, WIDTH};
    cst_server *server = NULL;
    int listening = -1;
    assert_int_equal(cst_draw(context, tokens, sizeof *tokens), CST_OK);
    assert_int_equal(cst_listen(context, true, &listening, port), CST_OK);
    assert_int_equal(cst_server_start(context, &served, tokens, 1, 2, listening, &server), CST_OK);
    return server;
}

/* Calls, and says the token, of which the byte `wrong` is another one; -1: none. */
static int call_with(const cst_tokens *tokens, int port, int wrong) {
    cst_status status = CST_OK;
    cst_greeting hello;
    int fd = cst_connect("127.0.0.1", port, 2);
    assert_true(fd >= 0);
    assert_true(cst_receive_all(NULL, fd, &hello, sizeof hello, 2, &status));
    assert_memory_equal(hello.token, tokens->called, sizeof hello.token);
    assert_int_equal(hello.rank, 1);
    hello = (cst_greeting){.rank = 0, .version = CST_ROWS_VERSION};
    memcpy(hello.token, tokens->caller, sizeof hello.token);
    if (wrong >= 0)
        hello.token[wrong] ^= 1;
    assert_true(cst_send_all(NULL, fd, &hello, sizeof hello, 2, &status));
    return fd;
}

/* Whether rows of a request come. */
static bool answers(int fd, const cst_request *request) {
    cst_status status = CST_OK;
    cst_reply reply = {0};
    float row[2 * WIDTH];
    size_t bytes = (size_t)request->count * WIDTH * sizeof *row;
    if (!cst_send_all(NULL, fd, request, sizeof *request, 2, &status) ||
        !cst_receive_all(NULL, fd, &reply, sizeof reply, 2, &status))
        return false;
    assert_int_equal(reply.status, CST_OK);
    assert_int_equal(reply.bytes, bytes);
    assert_true(bytes <= sizeof row && cst_receive_all(NULL, fd, row, bytes, 2, &status));
    return row[0] == value_at(1, request->member, request->first, 0);
}

static void strangers_get_nothing(void **state) {
    static work w = {.seat = {.rank = 1}, .bad = -1};
    const cst_request good = {5, 2, 1};
    cst_context *context = NULL;
    cst_tokens tokens;
    int port = 0;
    (void)state;
    assert_int_equal(cst_context_create(&context), CST_OK);
    cst_server *server = start(context, &w, &tokens, &port);
    for (int wrong = 0; wrong < CST_TOKEN_BYTES; wrong += 5) {
        int fd = call_with(&tokens, port, wrong);
        assert_false(answers(fd, &good));
        (void)close(fd);
    }
    int silent = cst_connect("127.0.0.1", port, 2);
    assert_true(silent >= 0);
    const cst_request bad[] = {{-1, 1, 0},        {ROWS, 1, 0},     {0, 0, 0},    {0, -1, 0},
                               {0, 1, -1},        {0, 1, MEMBERS},  {0, ROWS, 0}, {ROWS - 1, 2, 0},
                               {INT64_MAX, 1, 0}, {0, INT32_MAX, 0}};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        int fd = call_with(&tokens, port, -1);
        assert_true(answers(fd, &good));
        assert_false(answers(fd, &bad[i]));
        (void)close(fd);
    }
    (void)close(silent);
    cst_server_stop(context, server);
    assert_true(cst_connect("127.0.0.1", port, 2) < 0);
    cst_context_free(context);
}

/* Sets the limit of open files, and returns what it was. */
static rlim_t limit_files(rlim_t most) {
    struct rlimit limit;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
    rlim_t was = limit.rlim_cur;
    limit.rlim_cur = most;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
    return was;
}

/* Of more connections than the server may have, those that were idle longest are closed. */
static void many_connections(void **state) {
    enum { MOST = 32, MORE = 8 };
    static work w = {.seat = {.rank = 1}, .bad = -1};
    const cst_request good = {5, 2, 1};
    cst_context *context = NULL;
    cst_tokens tokens;
    int port = 0;
    int fd[MOST + MORE];
    (void)state;
    assert_int_equal(cst_context_create(&context), CST_OK);
    rlim_t was = limit_files(2 * MOST);
    cst_server *server = start(context, &w, &tokens, &port);
    (void)limit_files(was);
    for (int i = 0; i < MOST + MORE; i++) {
        fd[i] = call_with(&tokens, port, -1);
        assert_true(answers(fd[i], &good));
    }
    for (int i = 0; i < MOST + MORE; i++) {
        assert_int_equal(answers(fd[i], &good), i >= MORE);
        (void)close(fd[i]);
    }
    cst_server_stop(context, server);
    cst_context_free(context);
}

/* Those who call at once are all greeted soon, although the server has much to do. */
static void many_call_at_once(void **state) {
    enum { CALLS = 30, REQUESTS = 60 };
    static work w = {.seat = {.rank = 1}, .bad = SLOW};
    const cst_request good = {5, 2, 1};
    cst_context *context = NULL;
    cst_status status = CST_OK;
    cst_greeting hello;
    cst_tokens tokens;
    int port = 0;
    int fd[CALLS];
    (void)state;
    assert_int_equal(cst_context_create(&context), CST_OK);
    cst_server *server = start(context, &w, &tokens, &port);
    int busy = call_with(&tokens, port, -1);
    assert_true(answers(busy, &good));
    double begin = cst_seconds();
    for (int i = 0; i < REQUESTS; i++)
        assert_true(cst_send_all(NULL, busy, &good, sizeof good, 2, &status));
    for (int i = 0; i < CALLS; i++)
        fd[i] = cst_connect("127.0.0.1", port, 2);
    for (int i = 0; i < CALLS; i++) {
        assert_true(fd[i] >= 0 && cst_receive_all(NULL, fd[i], &hello, sizeof hello, 2, &status));
        (void)close(fd[i]);
    }
    assert_true(cst_seconds() - begin < 0.4);
    (void)close(busy);
    cst_server_stop(context, server);
    cst_context_free(context);
}

static double processor_seconds(void) {
    struct timespec used;
    assert_int_equal(clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used), 0);
    return (double)used.tv_sec + 1e-9 * (double)used.tv_nsec;
}

/* While no file can be opened, the server waits without computing, and goes on afterwards. */
static void no_file_is_left(void **state) {
    static work w = {.seat = {.rank = 1}, .bad = -1};
    const cst_request good = {5, 2, 1};
    cst_context *context = NULL;
    cst_tokens tokens;
    int port = 0;
    (void)state;
    assert_int_equal(cst_context_create(&context), CST_OK);
    cst_server *server = start(context, &w, &tokens, &port);
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    int free_one = dup(fd);
    assert_true(fd >= 0 && free_one >= 0);
    (void)close(free_one);
    const struct sockaddr_in at = {.sin_family = AF_INET,
                                   .sin_port = htons((uint16_t)port),
                                   .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    rlim_t was = limit_files((rlim_t)free_one);
    double used = processor_seconds();
    int failed = connect(fd, (const struct sockaddr *)&at, sizeof at);
    (void)usleep(500000);
    used = processor_seconds() - used;
    (void)limit_files(was);
    assert_int_equal(failed, 0);
    (void)close(fd); /* valgrind accepts it all the same, and closes it */
    assert_true(used < 0.25);
    fd = call_with(&tokens, port, -1);
    assert_true(answers(fd, &good));
    (void)close(fd);
    cst_server_stop(context, server);
    cst_context_free(context);
}

static int count_files(void) {
    int count = 0;
    for (int fd = 0; fd < 1024; fd++)
        count += fcntl(fd, F_GETFD) >= 0;
    return count;
}

static rlim_t files_before;
static int files_kept;

/* Opens while few files are allowed, and counts how many are open after all have fetched. */
static void fetch_with_few_files(work *w) {
    w->status = open_rows(w);
    (void)pthread_barrier_wait(&w->seat.at->barrier);
    if (w->seat.rank == 0)
        (void)limit_files(files_before);
    (void)pthread_barrier_wait(&w->seat.at->barrier);
    if (w->status == CST_OK)
        w->status = cst_parallel_for(w->context, TASKS, fetch_some, w);
    w->status = cst_context_agree(w->context, w->status, NULL);
    (void)usleep(100000); /* servers notice what was closed */
    if (w->seat.rank == 0)
        files_kept = count_files();
    (void)pthread_barrier_wait(&w->seat.at->barrier);
    cst_rows_close(w->context, w->rows);
}

/* Ranks that may open few files do not keep all connections. */
static void few_files(void **state) {
    enum { SIZE = RANKS_MAX, KEPT = 8, OF_SERVER = 3 };
    static work w[RANKS_MAX];
    (void)state;
    int before = count_files();
    files_before = limit_files((rlim_t)before + 24); /* a quarter is less than KEPT */
    meet(SIZE, fetch_with_few_files, 6, -1, w);
    (void)limit_files(files_before);
    for (int r = 0; r < SIZE; r++) {
        assert_string_equal(w[r].message, "");
        assert_int_equal(w[r].status, CST_OK);
    }
    leave(SIZE, w);
    assert_true(files_kept - before <= SIZE * (2 * KEPT + OF_SERVER));
}

static void addresses_are_those_of_the_machine(void **state) {
    cst_context *context = NULL;
    char machine[2][512];
    char *addresses = NULL;
    int listening = -1;
    int port = 0;
    (void)state;
    assert_int_equal(cst_context_create(&context), CST_OK);
    cst_machine(machine[0], sizeof machine[0]);
    cst_machine(machine[1], sizeof machine[1]);
    assert_string_equal(machine[0], machine[1]);
    assert_int_equal(cst_addresses(context, false, &addresses), CST_OK);
    assert_int_equal(cst_listen(context, false, &listening, &port), CST_OK);
    for (char *at = addresses; *at; at += strspn(at, " ")) { /* each of them is listened at */
        char one[CST_ADDRESS_CHARS];
        size_t length = strcspn(at, " ");
        assert_true(length < sizeof one);
        memcpy(one, at, length);
        one[length] = '\0';
        int fd = cst_connect(one, port, 2);
        assert_true(fd >= 0);
        (void)close(fd);
        at += length;
    }
    (void)close(listening);
    cst_free(context, addresses);
    cst_context_free(context);
}

int suite_rows(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_of_every_rank),
        cmocka_unit_test(rows_in_order_are_fetched_ahead),
        cmocka_unit_test(a_bad_file_is_named_by_its_rank),
        cmocka_unit_test(a_slow_disk_is_waited_for),
        cmocka_unit_test(a_rank_that_ended_is_named),
        cmocka_unit_test(strangers_get_nothing),
        cmocka_unit_test(many_connections),
        cmocka_unit_test(many_call_at_once),
        cmocka_unit_test(no_file_is_left),
        cmocka_unit_test(few_files),
        cmocka_unit_test(addresses_are_those_of_the_machine),
    };
    return cmocka_run_group_tests_name("rows", tests, NULL, NULL);
}
