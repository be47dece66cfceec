/*
 * The watcher of each rank of corestack-mpi, and the connections between watchers. Paper: none.
 */
#include "watch.h"

#include "cli.h"

#include <arpa/inet.h>
#include <errno.h>
#include <ifaddrs.h>
#include <mpi.h>
#include <net/if.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum {
    TICK = 1000,    /* milliseconds between signs of life */
    SILENT = 5,     /* ticks without one, after which a rank counts as lost */
    STUBBORN = 2,   /* ticks before the process that computes is killed */
    PAUSE = 3000,   /* milliseconds between ticks: the machine slept, or the job was suspended */
    ANSWER = 1000,  /* milliseconds to wait for an answer of rank 0 */
    ADDRESSES = 8,  /* at most, of a machine */
    SAYING = 320,   /* bytes of a message for the user */
    LISTENING = 1024
};

/* Where the watcher of rank 0 listens. Sent to all ranks through MPI. */
typedef struct invitation {
    uint64_t token; /* a secret of this run */
    int32_t rank;   /* of the receiver */
    int32_t size;
    uint16_t port; /* in network byte order, as the addresses */
    uint16_t count;
    uint32_t address[ADDRESSES];
} invitation;

typedef enum what { ALIVE = 1, SAYS, FAILED, LEAVES } what;

typedef struct message {
    uint64_t token;
    int32_t what;
    int32_t rank;
    char host[64];
    char line[SAYING];
} message;

typedef struct peer {
    int socket; /* -1: none */
    int rank;   /* -1: not known yet */
    int silent; /* ticks */
    size_t have;
    message coming; /* [have] bytes of it have arrived */
    char host[64];
} peer;

/* In memory shared by both processes. */
typedef struct shared {
    volatile int said;
} shared;

static volatile sig_atomic_t computing; /* the process that computes */
static volatile sig_atomic_t asked;     /* a signal asked to stop */
static shared *both;
static int listener = -1;
static int from_child = -1;
static int to_parent = -1;
static invitation invited; /* size 0: none yet */
static char this_host[64] = "?";
static peer *peers; /* [peer_count]; other ranks than 0 have one, rank 0 */
static int peer_count;
static struct pollfd *polled;
static int ending; /* ticks since the process that computes was asked to end; 0: it was not */

static int64_t now_ms(void) {
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* The rank, from the variables of the launcher; "?" if none of them is set. */
static const char *launched_rank(void) {
    static const char *const names[] = {"OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK",
                                        "SLURM_PROCID"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (getenv(names[i]))
            return getenv(names[i]);
    return "?";
}

/* Makes the launcher end the other ranks. Open MPI's does so when a rank fails; MPICH's needs a PMI
 * command. */
static int end_all(int code) {
    const char *to = getenv("PMI_FD");
    char line[64];
    int length = snprintf(line, sizeof line, "cmd=abort exitcode=%d\n", code);
    if (to) /* the launcher must forward the message before it ends */
        (void)nanosleep(&(struct timespec){.tv_nsec = 300000000}, NULL);
    if (to && write(atoi(to), line, (size_t)length) != length)
        return code;
    return code;
}

/* ---- messages ---- */

static void hang_up(peer *p) {
    if (p->socket >= 0)
        (void)close(p->socket);
    p->socket = -1;
}

static void send_to(peer *p, what kind, const char *line) {
    message m = {.token = invited.token, .what = (int32_t)kind, .rank = invited.rank};
    if (p->socket < 0)
        return;
    (void)snprintf(m.host, sizeof m.host, "%s", this_host);
    (void)snprintf(m.line, sizeof m.line, "%s", line ? line : "");
    /* If the socket is full, the network is stuck: the message is dropped, as if it were lost. */
    ssize_t sent = send(p->socket, &m, sizeof m, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (sent > 0 && (size_t)sent < sizeof m)
        (void)shutdown(p->socket, SHUT_WR);
}

static void send_all(what kind) {
    for (int i = 0; i < peer_count; i++)
        send_to(&peers[i], kind, NULL);
}

/* 1: p->coming is complete; 0: not yet; -1: the connection ended. */
static int receive(peer *p) {
    ssize_t got = recv(p->socket, (unsigned char *)&p->coming + p->have,
                       sizeof p->coming - p->have, MSG_DONTWAIT);
    if (got < 0)
        return errno == EAGAIN || errno == EINTR ? 0 : -1;
    if (got == 0)
        return -1;
    p->have += (size_t)got;
    if (p->have < sizeof p->coming)
        return 0;
    p->have = 0;
    p->coming.host[sizeof p->coming.host - 1] = '\0';
    p->coming.line[sizeof p->coming.line - 1] = '\0';
    return p->coming.token == invited.token ? 1 : -1;
}

static void say(const char *line) {
    (void)fprintf(stderr, "corestack-mpi: %s\n", line);
}

/* Ends the process that computes, without a message of its own. */
static void end_child(void) {
    both->said = 1;
    if (!ending && computing > 0)
        (void)kill((pid_t)computing, SIGTERM);
    ending = ending ? ending : 1;
}

/* Reports what happened to this rank: through rank 0 if it can be reached, and not at all if the
 * run was interrupted. Waits for the answer to a failure, because the launcher ends rank 0 soon. */
static void tell(what kind, const char *line) {
    struct pollfd wait = {.fd = peer_count == 1 ? peers[0].socket : -1, .events = POLLIN};
    if (asked && kind == FAILED)
        return;
    if (invited.rank == 0 || wait.fd < 0) {
        if (!both->said)
            say(line);
        return;
    }
    send_to(&peers[0], kind, line);
    int64_t until = now_ms() + ANSWER;
    for (int64_t left = ANSWER; kind == FAILED && left > 0; left = until - now_ms()) {
        if (poll(&wait, 1, (int)left) > 0) {
            int got = receive(&peers[0]);
            if (got < 0 || (got > 0 && peers[0].coming.what == FAILED))
                return;
        }
    }
}

static void lost(const peer *p, const char *why) {
    char line[SAYING];
    if (!asked && !both->said && (invited.rank <= 1 || p->rank != 0)) {
        (void)snprintf(line, sizeof line, "rank %d on %s %s", p->rank, p->host, why);
        say(line);
    }
    end_child();
}

/* ---- connections ---- */

/* Connects to rank 0, by the first of its addresses that answers. */
static void connect_to_first(void) {
    for (int i = 0; i < invited.count; i++) {
        struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = invited.port};
        at.sin_addr.s_addr = invited.address[i];
        peer p = {.socket = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0)};
        struct pollfd wait = {.fd = p.socket, .events = POLLOUT};
        if (p.socket < 0)
            return;
        if ((connect(p.socket, (struct sockaddr *)&at, sizeof at) == 0 || errno == EINPROGRESS) &&
            poll(&wait, 1, ANSWER) == 1) {
            send_to(&p, ALIVE, NULL);
            wait.events = POLLIN;
            if (poll(&wait, 1, ANSWER) == 1 && receive(&p) == 1 && p.coming.rank == 0) {
                (void)snprintf(p.host, sizeof p.host, "%s", p.coming.host);
                peers[0] = p;
                peer_count = 1;
                return;
            }
        }
        hang_up(&p);
    }
}

static void accept_one(void) {
    int from = accept(listener, NULL, NULL);
    if (from < 0)
        return;
    int at = 0;
    for (; at < peer_count && peers[at].socket >= 0; at++) {
    }
    if (at == invited.size + LISTENING) {
        (void)close(from);
        return;
    }
    peers[at] = (peer){.socket = from, .rank = -1};
    peer_count = at < peer_count ? peer_count : at + 1;
}

/* The process that computes has sent the invitation. */
static void take_invitation(void) {
    if (read(from_child, &invited, sizeof invited) != (ssize_t)sizeof invited)
        invited = (invitation){0};
    (void)close(from_child);
    from_child = -1;
    size_t room = invited.rank == 0 ? (size_t)invited.size + LISTENING : 1;
    peers = calloc(room, sizeof *peers);
    struct pollfd *more = calloc(room + 2, sizeof *more);
    if (!peers || !more || invited.size < 2) {
        free(more);
        return;
    }
    polled = more;
    if (invited.rank > 0) {
        (void)close(listener);
        connect_to_first();
    }
}

/* ---- messages of peers ---- */

static void heed(peer *p) {
    const message *m = &p->coming;
    p->silent = 0;
    if (p->rank < 0)
        send_to(p, ALIVE, NULL);
    p->rank = m->rank;
    (void)snprintf(p->host, sizeof p->host, "%s", m->host);
    if (m->what == LEAVES) {
        hang_up(p);
    } else if (m->what == SAYS) {
        say(m->line);
    } else if (m->what == FAILED && invited.rank == 0) {
        if (!asked && !both->said)
            say(m->line);
        end_child();
        send_to(p, FAILED, NULL);
    }
}

static void hear(peer *p) {
    int got = receive(p);
    if (got > 0)
        heed(p);
    if (got >= 0)
        return;
    hang_up(p);
    if (p->rank >= 0 && !ending)
        lost(p, "ended unexpectedly: it was killed, or its machine went down");
}

static void tick(void) {
    static int64_t before;
    int64_t now = now_ms();
    bool slept = before && now - before > PAUSE;
    before = now;
    send_all(ALIVE);
    if (ending && ending++ > STUBBORN)
        (void)kill((pid_t)computing, SIGKILL);
    for (int i = 0; i < peer_count; i++) {
        peer *p = &peers[i];
        p->silent = slept ? 0 : p->silent + 1;
        /* Other ranks wait one tick longer, so that rank 0 reports first if it is alive. */
        if (p->socket < 0 || p->silent <= SILENT + (invited.rank > 0 ? 1 : 0))
            continue;
        hang_up(p);
        if (p->rank >= 0 && !ending)
            lost(p, "has shown no sign of life for 5 seconds: its machine or network is down");
    }
}

/* ---- the loop ---- */

static void pass_on(int number) {
    asked = 1;
    if (computing > 0)
        (void)kill((pid_t)computing, number);
}

static void wake(int number) {
    (void)number;
}

static void stopped(int number) {
    char line[SAYING];
    (void)snprintf(line, sizeof line,
                   "rank %s on %s was stopped by signal %d; the other ranks wait until it "
                   "continues (kill -CONT %d)",
                   launched_rank(), this_host, number, (int)computing);
    tell(SAYS, line);
}

/* The exit code of a process that has ended. Reports a signal that ended it. */
static int code_of(int status) {
    char line[SAYING];
    if (WIFEXITED(status))
        return ending ? end_all(CLI_INTERNAL) : WEXITSTATUS(status);
    int number = WTERMSIG(status);
    if (!ending && number != SIGINT && number != SIGTERM && number != SIGHUP) {
        (void)snprintf(line, sizeof line, "rank %s on %s was ended by signal %d (%s)%s",
                       launched_rank(), this_host, number, strsignal(number),
                       number == SIGKILL ? "; if nobody killed it, the machine ran out of memory"
                                         : "");
        tell(FAILED, line);
    }
    return end_all(CLI_INTERNAL);
}

static void wait_for_events(int64_t due, const sigset_t *mask) {
    static struct pollfd few[2];
    struct pollfd *at = polled ? polled : few;
    int64_t left = due - now_ms();
    left = left < 0 ? 0 : left;
    struct timespec until = {(time_t)(left / 1000), (long)(left % 1000) * 1000000};
    int watched = peer_count;
    at[0] = (struct pollfd){.fd = from_child, .events = POLLIN};
    at[1] = (struct pollfd){.fd = polled && invited.rank == 0 ? listener : -1, .events = POLLIN};
    for (int i = 0; i < watched; i++)
        at[2 + i] = (struct pollfd){.fd = peers[i].socket, .events = POLLIN};
    if (ppoll(at, (nfds_t)watched + 2, &until, mask) <= 0)
        return;
    for (int i = 0; i < watched; i++)
        if (at[2 + i].revents && peers[i].socket >= 0)
            hear(&peers[i]);
    if (at[1].revents)
        accept_one();
    if (at[0].revents)
        take_invitation();
}

static int watch(const sigset_t *mask) {
    int64_t due = now_ms() + TICK;
    for (;;) {
        int status = 0;
        pid_t ended = waitpid((pid_t)computing, &status, WNOHANG | WUNTRACED);
        if (ended > 0 && WIFSTOPPED(status)) {
            stopped(WSTOPSIG(status));
        } else if (ended > 0) {
            int code = code_of(status);
            send_all(LEAVES);
            return code;
        } else if (ended < 0 && errno != EINTR) {
            return CLI_INTERNAL;
        }
        wait_for_events(due, mask);
        if (now_ms() >= due) {
            tick();
            due = now_ms() + TICK;
        }
    }
}

/* Listens on any port, in case this is rank 0. Allows one connection per rank. */
static void listen_anywhere(void) {
    struct rlimit files;
    listener = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (listener >= 0 && listen(listener, LISTENING) != 0) {
        (void)close(listener);
        listener = -1;
    }
    if (getrlimit(RLIMIT_NOFILE, &files) == 0 && files.rlim_cur < files.rlim_max) {
        files.rlim_cur = files.rlim_max;
        (void)setrlimit(RLIMIT_NOFILE, &files);
    }
}

void watch_begin(void) {
    static const int passed[] = {SIGINT, SIGTERM, SIGHUP};
    static shared alone;
    sigset_t set;
    sigset_t before;
    int ends[2] = {-1, -1};
    (void)gethostname(this_host, sizeof this_host - 1);
    void *page = mmap(NULL, sizeof *both, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    both = page == MAP_FAILED ? &alone : page;
    listen_anywhere();
    if (pipe(ends) != 0)
        ends[0] = ends[1] = -1;
    (void)sigemptyset(&set);
    for (size_t i = 0; i < sizeof passed / sizeof *passed; i++)
        (void)sigaddset(&set, passed[i]);
    (void)sigaddset(&set, SIGCHLD);
    (void)sigprocmask(SIG_BLOCK, &set, &before);
    pid_t parent = getpid();
    pid_t process = fork();
    from_child = ends[0];
    to_parent = ends[1];
    if (process <= 0) {
        (void)sigprocmask(SIG_SETMASK, &before, NULL);
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (process == 0 && getppid() != parent)
            _exit(CLI_INTERNAL);
        return;
    }
    (void)close(to_parent);
    computing = (sig_atomic_t)process;
    struct sigaction action = {.sa_handler = pass_on};
    for (size_t i = 0; i < sizeof passed / sizeof *passed; i++)
        (void)sigaction(passed[i], &action, NULL);
    action.sa_handler = wake;
    (void)sigaction(SIGCHLD, &action, NULL);
    _exit(watch(&before));
}

/* ---- in the process that computes ---- */

static void invite(invitation *to) {
    struct sockaddr_in at = {0};
    socklen_t length = sizeof at;
    struct ifaddrs *all = NULL;
    if (listener < 0 || getsockname(listener, (struct sockaddr *)&at, &length) != 0 ||
        getrandom(&to->token, sizeof to->token, 0) != (ssize_t)sizeof to->token ||
        getifaddrs(&all) != 0)
        return;
    to->port = at.sin_port;
    for (int loopback = 0; loopback < 2; loopback++) { /* loopback addresses last */
        for (const struct ifaddrs *one = all; one && to->count < ADDRESSES; one = one->ifa_next) {
            bool here = (one->ifa_flags & IFF_LOOPBACK) != 0;
            if (!one->ifa_addr || one->ifa_addr->sa_family != AF_INET || here != (loopback == 1))
                continue;
            memcpy(&at, one->ifa_addr, sizeof at);
            to->address[to->count++] = at.sin_addr.s_addr;
        }
    }
    freeifaddrs(all);
}

void watch_connect(void) {
    invitation it = {0};
    int rank = 0;
    int size = 0;
    (void)MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    (void)MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (rank == 0)
        invite(&it);
    (void)MPI_Bcast(&it, (int)sizeof it, MPI_BYTE, 0, MPI_COMM_WORLD);
    it.rank = rank;
    it.size = size;
    if (to_parent >= 0 && write(to_parent, &it, sizeof it) != (ssize_t)sizeof it)
        it.size = 0;
    (void)close(to_parent);
    (void)close(from_child);
    (void)close(listener);
}

bool watch_said(void) {
    return both && both->said;
}
