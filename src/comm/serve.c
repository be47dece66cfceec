/*
 * Serving rows to other ranks: one thread waits for all connections and answers one request of each
 * at a time. The memory for unsent answers and the number of connections are limited. Connections
 * without the token are closed. Paper: none.
 */
#define _GNU_SOURCE /* accept4, pipe2 */
#include "comm/serve.h"

#include "base/context.h"
#include "base/threads.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <poll.h>
#include <pthread.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
    FILES_SHARE = 2,                   /* connections at a time: of the files that may be open */
    UNSENT_MAX = 16 * CST_PIECE_BYTES, /* bytes of unsent answers beyond which no more are made */
    HANDSHAKE_SECONDS = 5,
    TAKEN_MAX = 256, /* connections accepted before others are attended */
    TICK_MS = 1000,  /* a wait, at most */
    PAUSE_MS = 100,  /* without accepting, when no file can be opened */
    TEXT_MAX = 1024  /* bytes of a message */
};

/* One connection. */
typedef struct call {
    int fd;
    bool known;   /* it has shown the token */
    bool over;    /* to be closed */
    double since; /* of the last byte, or of its begin until it is known; by the server's clock */
    unsigned char in[sizeof(cst_greeting)];
    size_t have;
    unsigned char *out; /* [out_bytes]: what is being sent; NULL: nothing */
    size_t out_bytes;
    size_t sent;
} call;

struct cst_server {
    cst_rows_served served;
    cst_tokens tokens;
    int rank;
    int ranks;
    int listening;
    int wake[2];          /* a pipe: a byte in it ends the thread */
    cst_context *context; /* the thread's own */
    pthread_t thread;
    unsigned generation; /* of the process that has the thread */
    bool started;
    call *calls; /* [room] */
    struct pollfd *polls;
    int count;
    int room;
    int most; /* connections */
    int turn; /* the connection that is first in the next round */
    bool paused;
    size_t unsent;
    double clock; /* seconds, without those in which the process was suspended */
    double seen;  /* cst_seconds at the last round */
};

/* ---- answers ---- */

static void drop_answer(cst_server *s, call *c) {
    s->unsent -= c->out ? c->out_bytes : 0;
    cst_free(s->context, c->out);
    c->out = NULL;
    c->out_bytes = 0;
    c->sent = 0;
}

/* Allocates an answer; NULL if memory runs out. */
static unsigned char *begin_answer(cst_server *s, call *c, size_t bytes) {
    c->out = cst_alloc(s->context, bytes, 1);
    c->out_bytes = c->out ? bytes : 0;
    s->unsent += c->out_bytes;
    return c->out;
}

static bool answer_text(cst_server *s, call *c, cst_status status) {
    size_t bytes = strlen(s->context->error);
    bytes = bytes < TEXT_MAX ? bytes : TEXT_MAX;
    const cst_reply reply = {(int32_t)status, (uint32_t)bytes};
    drop_answer(s, c);
    unsigned char *to = begin_answer(s, c, sizeof reply + bytes);
    if (!to)
        return false;
    memcpy(to, &reply, sizeof reply);
    memcpy(to + sizeof reply, s->context->error, bytes);
    return true;
}

/* Whether the request is for existing rows, and not too many. */
static bool is_sound(const cst_server *s, const cst_request *r) {
    size_t row = s->served.width * sizeof(float);
    return r->member >= 0 && r->member < s->served.members && r->count > 0 && r->first >= 0 &&
           r->count <= s->served.rows && r->first <= s->served.rows - r->count &&
           (r->count == 1 || (size_t)r->count <= CST_PIECE_BYTES / row);
}

/* Reads the rows of a request into an answer; false: close the connection. */
static bool answer(cst_server *s, call *c) {
    cst_request r;
    memcpy(&r, c->in, sizeof r);
    c->have = 0;
    if (!is_sound(s, &r))
        return false;
    size_t bytes = (size_t)r.count * s->served.width * sizeof(float);
    const cst_reply reply = {CST_OK, (uint32_t)bytes};
    unsigned char *to = begin_answer(s, c, sizeof reply + bytes);
    cst_status status = to ? CST_OK : CST_ERROR_MEMORY;
    if (status == CST_OK) {
        memcpy(to, &reply, sizeof reply);
        status = s->served.read(s->context, s->served.user, r.member, r.first, r.count,
                                (float *)(void *)(to + sizeof reply));
    }
    return status == CST_OK || answer_text(s, c, status);
}

/* ---- connections ---- */

static void hang_up(cst_server *s, int i) {
    drop_answer(s, &s->calls[i]);
    (void)close(s->calls[i].fd);
    s->calls[i] = s->calls[--s->count];
}

static bool make_room(cst_server *s) {
    if (s->count < s->room)
        return true;
    int room = s->room ? 2 * s->room : 16;
    call *calls = cst_grow(s->context, s->calls, (size_t)s->room, (size_t)room, sizeof *calls);
    if (!calls)
        return false;
    s->calls = calls;
    struct pollfd *polls =
        cst_grow(s->context, s->polls, (size_t)s->room + 2, (size_t)room + 2, sizeof *polls);
    if (!polls)
        return false;
    s->polls = polls;
    s->room = room;
    return true;
}

/* Whether a connection with nothing to send has brought no request either. */
static bool is_idle(const call *c) {
    char byte;
    return !c->out && c->have == 0 && recv(c->fd, &byte, 1, MSG_PEEK) < 0 &&
           (errno == EAGAIN || errno == EWOULDBLOCK);
}

/* Closes the connection that has been idle longest, of strangers first; a rank connects again when
 * it needs to. False: all of them are in use. */
static bool make_place(cst_server *s) {
    int oldest = -1;
    for (int i = 0; i < s->count; i++) {
        const call *c = &s->calls[i];
        const call *o = oldest < 0 ? NULL : &s->calls[oldest];
        if ((c->known || s->clock - c->since > 1) &&
            (!o || (c->known == o->known ? c->since < o->since : o->known)) &&
            (!c->known || is_idle(c)))
            oldest = i;
    }
    if (oldest >= 0)
        hang_up(s, oldest);
    return oldest >= 0;
}

static bool is_one_of_us(const cst_server *s, call *c) {
    cst_greeting hello;
    memcpy(&hello, c->in, sizeof hello);
    c->have = 0;
    c->known = cst_same_token(hello.token, s->tokens.caller) && hello.rank >= 0 &&
               hello.rank < s->ranks && hello.version == CST_ROWS_VERSION;
    c->since = s->clock;
    return c->known;
}

/* Receives; false: close the connection. */
static bool hear(cst_server *s, call *c) {
    size_t wanted = c->known ? sizeof(cst_request) : sizeof(cst_greeting);
    ssize_t got = recv(c->fd, c->in + c->have, wanted - c->have, 0);
    if (got <= 0)
        return got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR);
    c->have += (size_t)got;
    if (c->have == wanted && !c->known)
        return is_one_of_us(s, c);
    if (c->known)
        c->since = s->clock;
    return c->have < wanted || answer(s, c);
}

/* Sends; false: close the connection. */
static bool say(cst_server *s, call *c) {
    ssize_t put = send(c->fd, c->out + c->sent, c->out_bytes - c->sent, MSG_NOSIGNAL);
    if (put < 0)
        return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR;
    c->since = s->clock;
    c->sent += (size_t)put;
    if (c->sent == c->out_bytes)
        drop_answer(s, c);
    return true;
}

/* Accepts and greets a connection. */
static void take_call(cst_server *s) {
    bool place = s->count < s->most || make_place(s);
    int fd = place ? accept4(s->listening, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK) : -1;
    if (fd < 0) {
        bool full = errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM;
        s->paused = !place || (full && !make_place(s)); /* it would be told again at once */
        return;
    }
    if (!make_room(s) || !cst_prepare(fd)) {
        (void)close(fd);
        return;
    }
    call *c = &s->calls[s->count++];
    *c = (call){.fd = fd, .since = s->clock};
    cst_greeting hello = {.rank = s->rank, .version = CST_ROWS_VERSION};
    memcpy(hello.token, s->tokens.called, sizeof hello.token);
    unsigned char *to = begin_answer(s, c, sizeof hello);
    if (to)
        memcpy(to, &hello, sizeof hello);
    if (!to || !say(s, c)) /* at once: attending others may take long */
        hang_up(s, s->count - 1);
}

static bool is_late(const call *c, double now) {
    return c->out ? now - c->since > CST_PATIENCE : !c->known && now - c->since > HANDSHAKE_SECONDS;
}

/* One connection after a wait. */
static bool attend(cst_server *s, call *c, short events) {
    if (events & (POLLERR | POLLNVAL))
        return false;
    if (c->out && (events & (POLLOUT | POLLHUP)))
        return say(s, c);
    bool waits = c->known && s->unsent >= UNSENT_MAX; /* others of this round filled the memory */
    if (!c->out && !waits && (events & (POLLIN | POLLHUP)) && !hear(s, c))
        return false;
    return (!c->out || say(s, c)) && !is_late(c, s->clock);
}

/* ---- the thread ---- */

/* Whether a connection can be accepted now. */
static bool is_called(const cst_server *s) {
    struct pollfd one = {.fd = s->listening, .events = POLLIN};
    return !s->paused && poll(&one, 1, 0) > 0;
}

/* Fills in what to wait for. */
static void expect(cst_server *s) {
    bool full = s->unsent >= UNSENT_MAX;
    s->polls[0] = (struct pollfd){.fd = s->wake[0], .events = POLLIN};
    s->polls[1] = (struct pollfd){.fd = s->paused ? -1 : s->listening, .events = POLLIN};
    for (int i = 0; i < s->count; i++) {
        const call *c = &s->calls[i];
        bool waits = full && c->known && !c->out;
        s->polls[i + 2] =
            (struct pollfd){.fd = waits ? -1 : c->fd, .events = c->out ? POLLOUT : POLLIN};
    }
}

static void pass_time(cst_server *s) {
    double now = cst_seconds();
    s->clock += fmin(now - s->seen, 2e-3 * TICK_MS);
    s->seen = now;
}

static void *serve(void *user) {
    cst_server *s = user;
    for (;;) {
        int count = s->count;
        expect(s);
        int ready = poll(s->polls, (nfds_t)count + 2, s->paused ? PAUSE_MS : TICK_MS);
        if (ready > 0 && s->polls[0].revents)
            return NULL;
        pass_time(s);
        s->paused = false;
        s->turn = count > 0 ? (s->turn + 1) % count : 0;
        for (int j = 0; j < count; j++) { /* each is first at times, and gets memory */
            int i = (s->turn + j) % count;
            s->calls[i].over = !attend(s, &s->calls[i], ready > 0 ? s->polls[i + 2].revents : 0);
        }
        for (int i = count - 1; i >= 0; i--) /* the last one replaces a closed one */
            if (s->calls[i].over)
                hang_up(s, i);
        for (int i = 0; i < TAKEN_MAX && is_called(s); i++)
            take_call(s);
    }
}

cst_status cst_server_start(cst_context *context, const cst_rows_served *served,
                            const cst_tokens *tokens, int rank, int ranks, int listening,
                            cst_server **out) {
    cst_server *s = cst_alloc(context, 1, sizeof *s);
    *out = s;
    if (!s) {
        (void)close(listening);
        return CST_ERROR_MEMORY;
    }
    *s = (cst_server){.served = *served,
                      .tokens = *tokens,
                      .rank = rank,
                      .ranks = ranks,
                      .listening = listening,
                      .wake = {-1, -1},
                      .seen = cst_seconds(),
                      .most = cst_most_connections(FILES_SHARE),
                      .generation = cst_process_generation()};
    cst_status status = cst_context_child(&s->context, context, false);
    if (status == CST_OK)
        s->context->told = NULL; /* the thread does not ask whether to stop */
    if (status == CST_OK && !make_room(s))
        status = cst_adopt_error(context, s->context, CST_ERROR_MEMORY);
    if (status == CST_OK && pipe2(s->wake, O_CLOEXEC) != 0)
        status = cst_fail(context, CST_ERROR_IO, "rows cannot be served to other ranks: %s",
                          strerror(errno));
    int failed = status == CST_OK ? cst_thread_start(&s->thread, serve, s) : 0;
    if (failed)
        status = cst_fail(context, CST_ERROR_IO,
                          "rows cannot be served to other ranks: no thread can be started: %s",
                          strerror(failed));
    s->started = status == CST_OK;
    if (status != CST_OK) {
        cst_server_stop(context, s);
        *out = NULL;
    }
    return status;
}

void cst_server_stop(cst_context *context, cst_server *server) {
    if (!server)
        return;
    if (server->started && server->generation == cst_process_generation()) {
        while (write(server->wake[1], "", 1) < 0 && errno == EINTR) {
        }
        (void)pthread_join(server->thread, NULL);
    }
    while (server->count > 0)
        hang_up(server, server->count - 1);
    for (int end = 0; end < 2; end++)
        if (server->wake[end] >= 0)
            (void)close(server->wake[end]);
    (void)close(server->listening);
    if (server->context) {
        cst_free(server->context, server->calls);
        cst_free(server->context, server->polls);
        cst_context_free(server->context);
    }
    cst_free(context, server);
}
