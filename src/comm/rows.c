/*
 * Fetching rows from other ranks, and the exchange of addresses and a token before. A thread that
 * fetches takes a connection and gives it back, so a rank has as many connections as threads fetch
 * from it at once. Paper: none.
 */
#define _DEFAULT_SOURCE
#include "comm/rows.h"

#include "base/context.h"
#include "comm/serve.h"

#include <errno.h>
#include <math.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { IDLE_MAX = 16, IDLE_SHARE = 4, AHEAD = 4, STREAK = 2 };
/* Rows that are fetched ahead: their share of the memory budget, and most bytes of one member. */
enum { AHEAD_SHARE = 32, AHEAD_BYTES = 4 * CST_PIECE_BYTES };
static const double CONNECT_SECONDS = 1.5; /* an address that does not answer */
static const double SETUP_SECONDS = 4;     /* an answer of the rank itself */
static const double BUSY_SECONDS = 2;      /* in which it may close new connections */

/* Another rank. */
typedef struct peer {
    const char *host;      /* for messages */
    const char *addresses; /* "127.0.0.1 10.0.0.7" */
    int port;
    int64_t rows;         /* that it serves */
    bool near;            /* the same machine */
    pthread_mutex_t lock; /* over what follows */
    int idle[IDLE_MAX];   /* connections that nobody uses */
    int idle_count;
    int good; /* the address that worked, from 1; 0: not known */
} peer;

/* Rows of one member that were fetched ahead. */
typedef struct window {
    pthread_mutex_t lock;
    int rank;
    int64_t first;
    int64_t end;
    float *rows;   /* [ahead]; NULL until they are wanted */
    int64_t used;  /* rows that were taken out of it */
    int last_rank; /* of the last request, and where it ended */
    int64_t last_end;
    int streak; /* consecutive requests so far */
    int needed; /* consecutive requests before rows are fetched ahead; more after misses */
} window;

struct cst_rows {
    int rank;
    int ranks;
    size_t width;
    int32_t members;
    int64_t ahead;   /* rows of a window; 0: there are none */
    window *windows; /* [members] */
    cst_tokens tokens;
    cst_server *server;
    peer *peers; /* [ranks] */
    char *hosts; /* texts of the ranks, to which peers point */
    char *places;
    int idle_most; /* connections that nobody uses, of all peers */
    int idle_count;
    unsigned hand; /* the peer that is next to lose one */
    cst_context *root;
};

/* ---- addresses and token ---- */

/* Gathers the texts of all ranks, each ended by a NUL. */
static cst_status tell(cst_context *context, const char *text, char **all) {
    size_t bytes = 0;
    void *got = NULL;
    cst_status status = text ? CST_OK : CST_ERROR_MEMORY;
    CST_TRY(cst_ranks_gather(context, CST_OK, text, strlen(text) + 1, &got, &bytes));
    *all = got;
    return status;
}

static cst_status share_tokens(cst_context *context, cst_rows *rows) {
    cst_tokens own = {{0}, {0}};
    void *all = NULL;
    size_t bytes = 0;
    cst_status status = rows->rank == 0 ? cst_draw(context, &own, sizeof own) : CST_OK;
    CST_TRY(
        cst_ranks_gather(context, CST_OK, &own, rows->rank == 0 ? sizeof own : 0, &all, &bytes));
    if (status == CST_OK && bytes != sizeof own)
        status = cst_fail(context, CST_ERROR_INTERNAL, "rank 0 sent no token");
    if (status == CST_OK)
        memcpy(&rows->tokens, all, sizeof own);
    cst_free(context, all);
    return status;
}

/* Finds which ranks run on this machine. *near: all of them. */
static cst_status find_hosts(cst_context *context, cst_rows *rows, bool *near) {
    char machine[512];
    const char *host = context->ranks.calls.host;
    cst_machine(machine, sizeof machine);
    char *text = cst_format(context, "%s\n%s", host ? host : "another host", machine);
    cst_status status = tell(context, text, &rows->hosts);
    cst_free(context, text);
    *near = true;
    char *at = rows->hosts;
    for (int r = 0; status == CST_OK && r < rows->ranks; r++) {
        size_t length = strlen(at);
        char *end = strchr(at, '\n');
        rows->peers[r].host = at;
        rows->peers[r].near = end && strcmp(end + 1, machine) == 0;
        *near = *near && rows->peers[r].near;
        if (end)
            *end = '\0';
        at += length + 1;
    }
    return status;
}

/* Gathers the ports and addresses of the ranks. */
static cst_status find_places(cst_context *context, cst_rows *rows, const char *addresses, int port,
                              int64_t served) {
    char *text = cst_format(context, "%d %lld %s", port, (long long)served, addresses);
    cst_status status = tell(context, text, &rows->places);
    cst_free(context, text);
    char *at = rows->places;
    for (int r = 0; status == CST_OK && r < rows->ranks; r++) {
        size_t length = strlen(at);
        char *rest = NULL;
        rows->peers[r].port = (int)strtol(at, &rest, 10);
        rows->peers[r].rows = strtoll(rest, &rest, 10);
        rows->peers[r].addresses = rest;
        at += length + 1;
    }
    return status;
}

/* Makes windows as large as the memory budget allows; false if memory runs out. */
static bool make_windows(cst_context *context, cst_rows *rows, const cst_rows_served *served) {
    size_t row = served->width * sizeof(float);
    size_t bytes = cst_context_memory(context) / AHEAD_SHARE / (size_t)served->members;
    bytes = bytes < AHEAD_BYTES ? bytes : AHEAD_BYTES;
    rows->members = served->members;
    rows->windows = cst_alloc(context, (size_t)served->members, sizeof *rows->windows);
    rows->ahead = (int64_t)(bytes / row) < 2 * CST_BLOCK_ROWS ? 0 : (int64_t)(bytes / row);
    for (int32_t k = 0; rows->windows && k < rows->members; k++)
        (void)pthread_mutex_init(&rows->windows[k].lock, NULL);
    for (int32_t k = 0; rows->windows && k < rows->members; k++)
        rows->windows[k].needed = STREAK;
    return rows->windows;
}

cst_status cst_rows_open(cst_context *context, const cst_rows_served *served, cst_rows **out) {
    int ranks = cst_context_ranks(context);
    int listening = -1;
    int port = 0;
    bool near = false;
    char *addresses = NULL;
    cst_rows *rows = cst_alloc(context, 1, sizeof *rows);
    *out = NULL;
    if (rows) {
        *rows = (cst_rows){.rank = cst_context_rank(context),
                           .ranks = ranks,
                           .width = served->width,
                           .idle_most = cst_most_connections(IDLE_SHARE),
                           .root = cst_context_root(context)};
        rows->peers = cst_alloc(context, (size_t)ranks, sizeof *rows->peers);
    }
    if (!rows || !rows->peers || !make_windows(context, rows, served)) {
        cst_free(context, rows ? rows->peers : NULL);
        cst_free(context, rows);
        return CST_ERROR_MEMORY; /* the next exchange tells the others */
    }
    for (int r = 0; r < ranks; r++)
        (void)pthread_mutex_init(&rows->peers[r].lock, NULL);
    cst_status status = share_tokens(context, rows);
    CST_TRY(find_hosts(context, rows, &near));
    CST_TRY(cst_addresses(context, near, &addresses));
    CST_TRY(cst_listen(context, near, &listening, &port));
    if (status == CST_OK)
        status = cst_server_start(context, served, &rows->tokens, rows->rank, ranks, listening,
                                  &rows->server);
    CST_TRY(find_places(context, rows, addresses, port, served->rows));
    cst_free(context, addresses);
    if (status != CST_OK) {
        cst_rows_close(context, rows);
        return status;
    }
    *out = rows;
    return CST_OK;
}

void cst_rows_close(cst_context *context, cst_rows *rows) {
    if (!rows)
        return;
    cst_server_stop(context, rows->server);
    for (int r = 0; rows->peers && r < rows->ranks; r++) {
        peer *p = &rows->peers[r];
        for (int i = 0; i < p->idle_count; i++)
            (void)close(p->idle[i]);
        (void)pthread_mutex_destroy(&p->lock);
    }
    for (int32_t k = 0; k < rows->members; k++) {
        cst_free(context, rows->windows[k].rows);
        (void)pthread_mutex_destroy(&rows->windows[k].lock);
    }
    cst_free(context, rows->windows);
    cst_free(context, rows->peers);
    cst_free(context, rows->hosts);
    cst_free(context, rows->places);
    cst_free(context, rows);
}

/* ---- connections ---- */

/* A connection for one thread. */
typedef struct line {
    int fd;
    bool used; /* it worked before; if it fails now, a new connection may work */
} line;

/* Whether the other side is the expected rank and accepts this one. */
static bool shake_hands(cst_context *context, const cst_rows *rows, int rank, int fd,
                        cst_status *status) {
    cst_greeting hello;
    if (!cst_receive_all(context, fd, &hello, sizeof hello, SETUP_SECONDS, status))
        return false;
    if (!cst_same_token(hello.token, rows->tokens.called) || hello.rank != rank) {
        errno = ECONNREFUSED; /* the address belongs to another process here */
        return false;
    }
    hello = (cst_greeting){.rank = rows->rank, .version = CST_ROWS_VERSION};
    memcpy(hello.token, rows->tokens.caller, sizeof hello.token);
    return cst_send_all(context, fd, &hello, sizeof hello, SETUP_SECONDS, status);
}

/* Connects to one address; -1 with errno. */
static int try_address(cst_context *context, const cst_rows *rows, int rank, const char *address,
                       cst_status *status) {
    int fd = cst_connect(address, rows->peers[rank].port, CONNECT_SECONDS);
    if (fd < 0)
        return -1;
    if (shake_hands(context, rows, rank, fd, status))
        return fd;
    int why = errno;
    (void)close(fd);
    errno = why;
    return -1;
}

/* Address number `wanted` of a rank, from 1. For a rank on this machine the first is the loopback
 * address. False beyond the last. */
static bool address_of(const peer *p, int wanted, char out[CST_ADDRESS_CHARS]) {
    const char *at = p->addresses;
    int number = 0;
    if (p->near && ++number == wanted) {
        (void)cst_snprintf(out, CST_ADDRESS_CHARS, "127.0.0.1");
        return true;
    }
    for (;;) {
        at += strspn(at, " ");
        size_t length = strcspn(at, " ");
        if (length == 0)
            return false;
        if (++number == wanted && length < CST_ADDRESS_CHARS) {
            memcpy(out, at, length);
            out[length] = '\0';
            return true;
        }
        at += length;
    }
}

/* A new connection to a rank, by whichever of its addresses works; -1 with errno. */
static int dial(cst_context *context, const cst_rows *rows, int rank, cst_status *status) {
    peer *p = &rows->peers[rank];
    char address[CST_ADDRESS_CHARS];
    double start = cst_seconds();
    (void)pthread_mutex_lock(&p->lock);
    int good = p->good;
    (void)pthread_mutex_unlock(&p->lock);
    errno = EADDRNOTAVAIL; /* if the rank has none */
    int fd = good > 0 && address_of(p, good, address)
                 ? try_address(context, rows, rank, address, status)
                 : -1;
    for (int a = 1; fd < 0 && *status == CST_OK && address_of(p, a, address); a++) {
        if (a == good)
            continue;
        if (cst_seconds() - start > SETUP_SECONDS)
            break;
        fd = try_address(context, rows, rank, address, status);
        good = fd >= 0 ? a : good;
    }
    if (fd >= 0) {
        (void)pthread_mutex_lock(&p->lock);
        p->good = good;
        (void)pthread_mutex_unlock(&p->lock);
    }
    return fd;
}

static line take_line(cst_rows *rows, peer *p) {
    line l = {-1, false};
    (void)pthread_mutex_lock(&p->lock);
    if (p->idle_count > 0)
        l = (line){p->idle[--p->idle_count], true};
    (void)pthread_mutex_unlock(&p->lock);
    if (l.used)
        (void)__atomic_fetch_sub(&rows->idle_count, 1, __ATOMIC_RELAXED);
    return l;
}

/* Closes a connection that nobody uses, of each peer in turn. False: there is none. */
static bool drop_line(cst_rows *rows) {
    line l = {-1, false};
    for (int i = 0; l.fd < 0 && i < rows->ranks; i++) {
        unsigned at = __atomic_fetch_add(&rows->hand, 1, __ATOMIC_RELAXED);
        l = take_line(rows, &rows->peers[at % (unsigned)rows->ranks]);
    }
    if (l.fd >= 0)
        (void)close(l.fd);
    return l.fd >= 0;
}

static void give_line(cst_rows *rows, peer *p, int fd) {
    if (__atomic_add_fetch(&rows->idle_count, 1, __ATOMIC_RELAXED) > rows->idle_most)
        (void)drop_line(rows);
    (void)pthread_mutex_lock(&p->lock);
    bool kept = p->idle_count < IDLE_MAX;
    if (kept)
        p->idle[p->idle_count++] = fd;
    (void)pthread_mutex_unlock(&p->lock);
    if (kept)
        return;
    (void)__atomic_fetch_sub(&rows->idle_count, 1, __ATOMIC_RELAXED);
    (void)close(fd);
}

/* ---- fetching ---- */

typedef struct fetch {
    const cst_rows *rows;
    int rank;
    int32_t member;
    int64_t first;
    int64_t count;
    float *out;
    int64_t piece; /* rows of a request */
} fetch;

static int64_t rows_of_piece(const fetch *f, int64_t at) {
    return f->count - at < f->piece ? f->count - at : f->piece;
}

/* Receives the error of the other rank. */
static cst_status told(cst_context *context, const fetch *f, int fd, const cst_reply *reply) {
    char text[2048];
    cst_status status = CST_OK;
    size_t bytes = reply->bytes < sizeof text ? reply->bytes : sizeof text - 1;
    if (!cst_receive_all(context, fd, text, bytes, INFINITY, &status))
        bytes = 0;
    text[bytes] = '\0';
    if (status == CST_OK)
        status = cst_fail(context, (cst_status)reply->status, "rows of rank %d on %s: %s", f->rank,
                          f->rows->peers[f->rank].host, text);
    return status;
}

/* Receives one reply. False with *status CST_OK: the connection failed. Waits as long as the system
 * of the other rank answers (cst_prepare): its disk may be slow, or the rank may be suspended. */
static bool take_reply(cst_context *context, const fetch *f, int fd, int64_t at,
                       cst_status *status) {
    cst_reply reply;
    size_t bytes = (size_t)rows_of_piece(f, at) * f->rows->width * sizeof *f->out;
    if (!cst_receive_all(context, fd, &reply, sizeof reply, INFINITY, status))
        return false;
    if (reply.status != CST_OK) {
        *status = told(context, f, fd, &reply);
        return false;
    }
    if (reply.bytes != bytes) {
        *status =
            cst_fail(context, CST_ERROR_INTERNAL, "rank %d sent rows of another size", f->rank);
        return false;
    }
    return cst_receive_all(context, fd, f->out + (size_t)at * f->rows->width, bytes, INFINITY,
                           status);
}

/* Fetches all pieces over one connection, with requests sent ahead. *done: rows received. */
static bool fetch_all(cst_context *context, const fetch *f, int fd, int64_t *done,
                      cst_status *status) {
    int64_t asked = *done;
    while (*done < f->count) {
        for (; asked < f->count && asked - *done < AHEAD * f->piece; asked += f->piece) {
            const cst_request one = {f->first + asked, (int32_t)rows_of_piece(f, asked), f->member};
            if (!cst_send_all(context, fd, &one, sizeof one, CST_PATIENCE, status))
                return false;
        }
        if (!take_reply(context, f, fd, *done, status))
            return false;
        *done += rows_of_piece(f, *done);
    }
    return true;
}

static bool no_files(int why) {
    return why == EMFILE || why == ENFILE;
}

static cst_status lost(cst_context *context, const cst_rows *rows, int rank) {
    const char *why =
        errno == ETIMEDOUT || errno == EAGAIN ? "it does not answer" : strerror(errno);
    if (no_files(errno))
        return cst_fail(context, CST_ERROR_IO,
                        "the rows of rank %d on %s cannot be fetched: %s; raise the limit of open "
                        "files (ulimit -n)",
                        rank, rows->peers[rank].host, why);
    __atomic_store_n(&rows->root->ranks.lost, true, __ATOMIC_RELAXED);
    return cst_fail(context, CST_ERROR_IO,
                    "the rows of rank %d on %s cannot be fetched: %s; that rank has ended, or its "
                    "host cannot be reached over TCP",
                    rank, rows->peers[rank].host, why);
}

/* Whether another connection may work after one failed with `errno`. A rank with too many of them
 * closes some; if it has ended, the next is refused. */
static bool may_go_on(cst_rows *rows, bool used, double start) {
    int why = errno;
    if (used || (no_files(why) && drop_line(rows)))
        return true;
    errno = why;
    if ((why != ECONNRESET && why != EPIPE) || cst_seconds() - start > BUSY_SECONDS)
        return false;
    (void)poll(NULL, 0, 20);
    return true;
}

static cst_status fetch_now(cst_context *context, cst_rows *rows, int rank, int32_t member,
                            int64_t first, int64_t count, float *out) {
    size_t row = rows->width * sizeof *out;
    int64_t piece = (int64_t)(CST_PIECE_BYTES / row) > 1 ? (int64_t)(CST_PIECE_BYTES / row) : 1;
    const fetch f = {rows, rank, member, first, count, out, piece};
    peer *p = &rows->peers[rank];
    int64_t done = 0;
    double start = cst_seconds();
    cst_status status = CST_OK;
    for (int attempt = 0; status == CST_OK && done < count; attempt++) {
        line l = attempt == 0 ? take_line(rows, p) : (line){-1, false};
        int64_t before = done;
        if (l.fd < 0)
            l.fd = dial(context, rows, rank, &status);
        if (l.fd >= 0 && fetch_all(context, &f, l.fd, &done, &status)) {
            give_line(rows, p, l.fd);
            break;
        }
        int why = errno;
        if (l.fd >= 0)
            (void)close(l.fd);
        errno = why;
        if (status == CST_OK && !may_go_on(rows, l.used || done > before, start))
            status = lost(context, rows, rank);
    }
    (void)__atomic_fetch_add(&rows->root->ranks.fetched, (uint64_t)done * row, __ATOMIC_RELAXED);
    return status;
}

/* ---- ahead ---- */

/* Counts consecutive requests, whose order may vary a little between threads. Whether to fetch
 * ahead. */
static bool goes_on(window *w, int rank, int64_t first, int64_t count) {
    int64_t slack = 2 * (int64_t)CST_BLOCK_ROWS;
    int64_t end = first + count;
    bool near = w->last_rank == rank && w->last_end > 0 && first >= w->last_end - slack &&
                first <= w->last_end + slack;
    w->streak = !near ? 0 : w->streak + (end > w->last_end);
    w->last_end = !near || end > w->last_end ? end : w->last_end;
    w->last_rank = rank;
    return w->streak >= w->needed;
}

/* Fills the window from row `first` on. */
static cst_status look_ahead(cst_context *context, cst_rows *rows, window *w, int rank,
                             int32_t member, int64_t first) {
    int64_t left = rows->peers[rank].rows - first;
    int64_t count = rows->ahead < left ? rows->ahead : left;
    if (!w->rows)
        w->rows = cst_alloc(context, (size_t)rows->ahead * rows->width, sizeof *w->rows);
    bool in_vain = w->used < (w->end - w->first) / 2;
    w->needed = !in_vain ? STREAK : w->needed < 64 * STREAK ? 2 * w->needed : w->needed;
    w->used = 0;
    w->end = w->first;
    cst_status status =
        w->rows ? fetch_now(context, rows, rank, member, first, count, w->rows) : CST_ERROR_MEMORY;
    if (status == CST_OK) {
        w->rank = rank;
        w->first = first;
        w->end = first + count;
    }
    return status;
}

cst_status cst_rows_fetch(cst_context *context, cst_rows *rows, int rank, int32_t member,
                          int64_t first, int64_t count, float *out) {
    window *w = &rows->windows[member];
    int64_t end = first + count;
    if (count > rows->ahead / 2)
        return fetch_now(context, rows, rank, member, first, count, out);
    (void)pthread_mutex_lock(&w->lock);
    bool there = w->rank == rank && first >= w->first && end <= w->end;
    bool ahead = goes_on(w, rank, first, count) && !there;
    cst_status status = ahead ? look_ahead(context, rows, w, rank, member, first) : CST_OK;
    if (status == CST_OK && (there || ahead)) {
        memcpy(out, w->rows + (size_t)(first - w->first) * rows->width,
               (size_t)count * rows->width * sizeof *out);
        w->used += count;
    }
    (void)pthread_mutex_unlock(&w->lock);
    return there || ahead ? status : fetch_now(context, rows, rank, member, first, count, out);
}

void cst_rows_forget(cst_rows *rows) {
    for (int32_t k = 0; k < rows->members; k++)
        rows->windows[k].end = rows->windows[k].first;
}
