/*
 * Non-blocking sockets with time limits, for rows.h. Paper: none.
 */
#define _DEFAULT_SOURCE /* getifaddrs, getrandom, TCP_USER_TIMEOUT */
#include "comm/sockets.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <math.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

enum { TICK = 100 }; /* milliseconds between looks at whether to stop */

cst_status cst_draw(cst_context *context, void *bytes, size_t count) {
    size_t done = 0;
    while (done < count) {
        ssize_t got = getrandom((unsigned char *)bytes + done, count - done, 0);
        if (got < 0 && errno != EINTR)
            return cst_fail(context, CST_ERROR_IO, "the system gives no random numbers: %s",
                            strerror(errno));
        done += got > 0 ? (size_t)got : 0;
    }
    return CST_OK;
}

bool cst_same_token(const unsigned char *a, const unsigned char *b) {
    unsigned different = 0;
    for (int i = 0; i < CST_TOKEN_BYTES; i++)
        different |= (unsigned)(a[i] ^ b[i]);
    return different == 0;
}

/* ---- addresses ---- */

void cst_kernel(char *out, size_t room) {
    char boot[64] = "";
    int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
    ssize_t got = fd < 0 ? 0 : read(fd, boot, sizeof boot - 1);
    boot[got > 0 ? strcspn(boot, "\n") : 0] = '\0';
    if (fd >= 0)
        (void)close(fd);
    if (!*boot)
        (void)gethostname(boot, sizeof boot - 1);
    (void)cst_snprintf(out, room, "%s", boot);
}

void cst_machine(char *out, size_t room) {
    char kernel[64];
    char host[256] = "";
    struct stat net = {0};
    cst_kernel(kernel, sizeof kernel);
    (void)gethostname(host, sizeof host - 1);
    if (stat("/proc/self/ns/net", &net) != 0)
        net.st_ino = 0;
    (void)cst_snprintf(out, room, "%s %s %llu", host, kernel, (unsigned long long)net.st_ino);
}

/* Listens on one address of a family; -1 with errno. */
static int listen_on(int family, bool loopback) {
    union {
        struct sockaddr any;
        struct sockaddr_in four;
        struct sockaddr_in6 six;
    } at;
    int off = 0;
    memset(&at, 0, sizeof at);
    int fd = socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return -1;
    if (family == AF_INET6) {
        at.six.sin6_family = AF_INET6;
        at.six.sin6_addr = in6addr_any;
        (void)setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
    } else {
        at.four.sin_family = AF_INET;
        at.four.sin_addr.s_addr = htonl(loopback ? INADDR_LOOPBACK : INADDR_ANY);
    }
    socklen_t length = family == AF_INET6 ? sizeof at.six : sizeof at.four;
    if (bind(fd, &at.any, length) == 0 && listen(fd, SOMAXCONN) == 0)
        return fd;
    int why = errno;
    (void)close(fd);
    errno = why;
    return -1;
}

cst_status cst_listen(cst_context *context, bool loopback, int *out, int *port) {
    struct sockaddr_storage at;
    socklen_t length = sizeof at;
    *out = loopback ? -1 : listen_on(AF_INET6, false);
    if (*out < 0)
        *out = listen_on(AF_INET, loopback);
    if (*out < 0 || getsockname(*out, (struct sockaddr *)&at, &length) != 0) {
        cst_status status = cst_fail(
            context, CST_ERROR_IO,
            "rows cannot be served to other ranks: no TCP port can be opened: %s", strerror(errno));
        if (*out >= 0)
            (void)close(*out);
        *out = -1;
        return status;
    }
    *port = ntohs(at.ss_family == AF_INET6 ? ((struct sockaddr_in6 *)&at)->sin6_port
                                           : ((struct sockaddr_in *)&at)->sin_port);
    return CST_OK;
}

/* Whether others may reach the machine at this address. */
static bool is_reachable(const struct ifaddrs *at) {
    if (!at->ifa_addr || !(at->ifa_flags & IFF_UP) || (at->ifa_flags & IFF_LOOPBACK))
        return false;
    if (at->ifa_addr->sa_family == AF_INET6) {
        const struct in6_addr *six = &((const struct sockaddr_in6 *)at->ifa_addr)->sin6_addr;
        return !IN6_IS_ADDR_LINKLOCAL(six);
    }
    return at->ifa_addr->sa_family == AF_INET;
}

cst_status cst_addresses(cst_context *context, bool loopback, char **out) {
    struct ifaddrs *all = NULL;
    if (!loopback && getifaddrs(&all) != 0)
        return cst_fail(context, CST_ERROR_IO, "the addresses of this machine are not known: %s",
                        strerror(errno));
    *out = cst_strdup(context, loopback ? "127.0.0.1" : "");
    for (int six = 0; six < 2; six++) /* IPv4 first */
        for (const struct ifaddrs *at = all; *out && at; at = at->ifa_next) {
            char text[CST_ADDRESS_CHARS];
            bool wanted = is_reachable(at) && (at->ifa_addr->sa_family == AF_INET6) == six;
            if (!wanted ||
                getnameinfo(at->ifa_addr,
                            six ? sizeof(struct sockaddr_in6) : sizeof(struct sockaddr_in), text,
                            sizeof text, NULL, 0, NI_NUMERICHOST) != 0)
                continue;
            char *more = cst_format(context, "%s%s%s", *out, **out ? " " : "", text);
            cst_free(context, *out);
            *out = more;
        }
    if (all)
        freeifaddrs(all);
    return *out ? CST_OK : CST_ERROR_MEMORY;
}

/* ---- connections ---- */

int cst_most_connections(int share) {
    enum { LEAST = 4, MOST = 4096 };
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur / (rlim_t)share > MOST)
        return MOST;
    int most = (int)(limit.rlim_cur / (rlim_t)share);
    return most > LEAST ? most : LEAST;
}

bool cst_prepare(int fd) {
    int on = 1;
    int idle = 2;
    int interval = 1;
    int count = CST_PATIENCE - 3;
    unsigned patience = 1000U * (CST_PATIENCE - 1);
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    (void)setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
    (void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle, sizeof idle);
    (void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &interval, sizeof interval);
    (void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &count, sizeof count);
    (void)setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &patience, sizeof patience);
    int flags = fcntl(fd, F_GETFL);
    int kept = fcntl(fd, F_GETFD);
    return flags >= 0 && kept >= 0 && fcntl(fd, F_SETFL, flags | O_NONBLOCK) == 0 &&
           fcntl(fd, F_SETFD, kept | FD_CLOEXEC) == 0;
}

/* Waits until the socket can be read or written; false with errno. Counts its own waits: time in
 * which the process was suspended does not count. */
static bool wait_for(cst_context *context, int fd, short events, double seconds,
                     cst_status *status) {
    double waited = 0;
    for (;;) {
        struct pollfd one = {.fd = fd, .events = events};
        double before = cst_seconds();
        int ready = poll(&one, 1, TICK);
        if (ready > 0)
            return true;
        if (ready < 0 && errno != EINTR)
            return false;
        *status = context ? cst_poll(context) : CST_OK;
        if (*status != CST_OK)
            return false;
        waited += fmin(cst_seconds() - before, 2e-3 * TICK);
        if (waited > seconds) {
            errno = ETIMEDOUT;
            return false;
        }
    }
}

int cst_connect(const char *address, int port, double seconds) {
    char service[16];
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICHOST};
    struct addrinfo *found = NULL;
    (void)cst_snprintf(service, sizeof service, "%d", port);
    if (getaddrinfo(address, service, &hints, &found) != 0) {
        errno = EADDRNOTAVAIL;
        return -1;
    }
    int error = 0;
    socklen_t length = sizeof error;
    cst_status status = CST_OK;
    int fd = socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    bool connected = fd >= 0 && cst_prepare(fd);
    if (connected && connect(fd, found->ai_addr, found->ai_addrlen) != 0) {
        connected = errno == EINPROGRESS && wait_for(NULL, fd, POLLOUT, seconds, &status) &&
                    getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &length) == 0;
        if (error) {
            errno = error;
            connected = false;
        }
    }
    int why = errno;
    freeaddrinfo(found);
    if (!connected && fd >= 0)
        (void)close(fd);
    errno = why;
    return connected ? fd : -1;
}

bool cst_send_all(cst_context *context, int fd, const void *bytes, size_t count, double seconds,
                  cst_status *status) {
    const unsigned char *at = bytes;
    while (count > 0) {
        ssize_t put = send(fd, at, count, MSG_NOSIGNAL);
        if (put > 0) {
            at += put;
            count -= (size_t)put;
        } else if (errno != EINTR && ((errno != EAGAIN && errno != EWOULDBLOCK) ||
                                      !wait_for(context, fd, POLLOUT, seconds, status))) {
            return false;
        }
    }
    return true;
}

bool cst_receive_all(cst_context *context, int fd, void *bytes, size_t count, double seconds,
                     cst_status *status) {
    unsigned char *at = bytes;
    while (count > 0) {
        ssize_t got = recv(fd, at, count, 0);
        if (got > 0) {
            at += got;
            count -= (size_t)got;
        } else if (got == 0) {
            errno = ECONNRESET;
            return false;
        } else if (errno != EINTR && ((errno != EAGAIN && errno != EWOULDBLOCK) ||
                                      !wait_for(context, fd, POLLIN, seconds, status))) {
            return false;
        }
    }
    return true;
}
