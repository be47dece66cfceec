/*
 * The network between hosts that are network namespaces: a switch in user space, for kernels
 * without netem. Each host has a link of a limited rate in both directions and a delay.
 *
 *   delayed_links DELAY_US RATE_BITS HOST...    (0: no delay, no limit)
 *
 * Makes the network interface eth0, a TAP device, in each namespace HOST, says "ready" and carries
 * frames until its input ends. The last byte of a MAC address is the host's number, from 1. Lines
 * of input: "cut NUMBER" and "mend NUMBER" (frames from and to that host are lost, as those of a
 * machine without power), and "count", answered by the bytes that each host has sent.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/if_tun.h>
#include <linux/virtio_net.h>
#include <net/if.h>
#include <poll.h>
#include <sched.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

enum { MOST_HOSTS = 16, AT_ONCE = 32, FRAME = 1 << 17, TCP_HEADERS = 66, BETWEEN_FRAMES = 24 };
enum { BEFORE = (int)sizeof(struct virtio_net_hdr) }; /* before each frame */
static const size_t QUEUE_BYTES = (size_t)256 << 20;  /* of a direction; frames beyond are lost */
static const uint64_t SECOND = 1000000000;

typedef struct packet {
    struct packet *next;
    uint64_t due; /* nanoseconds */
    size_t size;
    size_t wire_bytes;
    int to; /* host; -1: all others */
    unsigned char bytes[];
} packet;

typedef struct queue {
    packet *first;
    packet *last;
    size_t bytes;
    uint64_t free_at; /* when the wire has sent what is in the queue */
} queue;

typedef struct host {
    int tap;
    bool cut;
    queue out; /* on the way from the host; due at the other end of the wire */
    queue in;  /* due at the host */
    uint64_t sent;
} host;

static host hosts[MOST_HOSTS];
static int count;
static uint64_t delay;
static uint64_t rate;

static uint64_t now_ns(void) {
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * SECOND + (uint64_t)now.tv_nsec;
}

static uint64_t time_of(size_t bytes) {
    return rate ? (uint64_t)bytes * 8 * SECOND / rate : 0;
}

static void put(queue *q, packet *p) {
    p->next = NULL;
    *(q->first ? &q->last->next : &q->first) = p;
    q->last = p;
    q->bytes += p->size;
}

static packet *take(queue *q) {
    packet *p = q->first;
    q->first = p->next;
    q->bytes -= p->size;
    return p;
}

/* Bytes on the wire: a packet that the card would have cut into frames has their headers. */
static size_t wire_bytes(const unsigned char *bytes, size_t size) {
    struct virtio_net_hdr before;
    memcpy(&before, bytes, sizeof before);
    size_t frame = size - BEFORE;
    if (before.gso_type == VIRTIO_NET_HDR_GSO_NONE || before.gso_size == 0 || frame <= TCP_HEADERS)
        return frame + BETWEEN_FRAMES;
    size_t frames = (frame - TCP_HEADERS + before.gso_size - 1) / before.gso_size;
    return frame + (frames - 1) * TCP_HEADERS + frames * BETWEEN_FRAMES;
}

static void take_from(host *h, unsigned char *room) {
    for (int i = 0; i < AT_ONCE; i++) {
        ssize_t got = read(h->tap, room, FRAME);
        if (got < BEFORE + 12)
            return;
        size_t size = (size_t)got;
        int to = room[BEFORE] & 1 ? -1 : room[BEFORE + 5] - 1;
        if (h->cut || to >= count || h->out.bytes + size > QUEUE_BYTES)
            continue;
        packet *p = malloc(sizeof *p + size);
        if (!p)
            continue;
        uint64_t now = now_ns();
        p->size = size;
        p->to = to;
        p->wire_bytes = wire_bytes(room, size);
        memcpy(p->bytes, room, size);
        h->out.free_at = (h->out.free_at > now ? h->out.free_at : now) + time_of(p->wire_bytes);
        p->due = h->out.free_at + delay;
        h->sent += p->wire_bytes;
        put(&h->out, p);
    }
}

/* A frame has come to the link of a host, which takes one at a time. The first bytes go on while
 * the last ones come in. */
static void arrive(host *h, packet *p) {
    uint64_t earliest = h->in.free_at + time_of(p->wire_bytes);
    if (h->cut || h->in.bytes + p->size > QUEUE_BYTES) {
        free(p);
        return;
    }
    p->due = p->due > earliest ? p->due : earliest;
    h->in.free_at = p->due;
    put(&h->in, p);
}

static void pass_on(int from, packet *p) {
    if (p->to >= 0) {
        arrive(&hosts[p->to], p);
        return;
    }
    for (int i = 0; i < count; i++) {
        packet *copy = i == from ? NULL : malloc(sizeof *copy + p->size);
        if (!copy)
            continue;
        memcpy(copy, p, sizeof *copy + p->size);
        arrive(&hosts[i], copy);
    }
    free(p);
}

/* Moves what is due. Returns when something is due next, 0 if nothing is on the way. */
static uint64_t move(void) {
    uint64_t next = UINT64_MAX;
    for (;;) { /* frames reach the switch in the order of time, whatever host they come from */
        int from = -1;
        for (int i = 0; i < count; i++)
            if (hosts[i].out.first &&
                (from < 0 || hosts[i].out.first->due < hosts[from].out.first->due))
                from = i;
        if (from < 0)
            break;
        if (hosts[from].out.first->due > now_ns()) {
            next = hosts[from].out.first->due;
            break;
        }
        pass_on(from, take(&hosts[from].out));
    }
    for (int i = 0; i < count; i++) {
        queue *in = &hosts[i].in;
        while (in->first && in->first->due <= now_ns()) {
            packet *p = take(in);
            if (!hosts[i].cut && write(hosts[i].tap, p->bytes, p->size) < 0 && errno == EBADF)
                exit(1);
            free(p);
        }
        if (in->first && in->first->due < next)
            next = in->first->due;
    }
    return next == UINT64_MAX ? 0 : next;
}

/* The interface eth0 of a namespace; -1 where that fails. */
static int interface_of(const char *name) {
    char path[512];
    struct ifreq request = {.ifr_flags = IFF_TAP | IFF_NO_PI | IFF_VNET_HDR};
    (void)snprintf(path, sizeof path, "/run/netns/%s", name);
    (void)snprintf(request.ifr_name, sizeof request.ifr_name, "eth0");
    int space = open(path, O_RDONLY | O_CLOEXEC);
    if (space < 0 || setns(space, CLONE_NEWNET) != 0)
        return -1;
    (void)close(space);
    int tap = open("/dev/net/tun", O_RDWR | O_NONBLOCK | O_CLOEXEC);
    if (tap < 0 || ioctl(tap, TUNSETIFF, &request) != 0 ||
        ioctl(tap, TUNSETOFFLOAD, TUN_F_CSUM | TUN_F_TSO4 | TUN_F_TSO6) != 0)
        return -1;
    return tap;
}

/* One line of input; false at its end. */
static bool obey(void) {
    static char line[64];
    static size_t used;
    int number = 0;
    ssize_t got = read(STDIN_FILENO, line + used, 1);
    if (got <= 0)
        return false;
    if (line[used] != '\n') {
        used = used + 1 < sizeof line - 1 ? used + 1 : 0;
        return true;
    }
    line[used] = '\0';
    used = 0;
    if (sscanf(line, "cut %d", &number) == 1 && number >= 1 && number <= count)
        hosts[number - 1].cut = true;
    else if (sscanf(line, "mend %d", &number) == 1 && number >= 1 && number <= count)
        hosts[number - 1].cut = false;
    else if (strcmp(line, "count") == 0)
        for (int i = 0; i < count; i++)
            (void)printf("%llu%c", (unsigned long long)hosts[i].sent, i + 1 < count ? ' ' : '\n');
    (void)fflush(stdout);
    return true;
}

int main(int argc, char **argv) {
    struct pollfd wait[MOST_HOSTS + 1];
    unsigned char *room = malloc(FRAME);
    if (argc < 4 || argc - 3 > MOST_HOSTS || !room) {
        (void)fprintf(stderr, "usage: delayed_links DELAY_US RATE_BITS HOST... (up to 16)\n");
        return 2;
    }
    delay = strtoull(argv[1], NULL, 10) * 1000;
    rate = strtoull(argv[2], NULL, 10);
    count = argc - 3;
    (void)prctl(PR_SET_PDEATHSIG, 9);
    (void)prctl(PR_SET_TIMERSLACK, 1);
    for (int i = 0; i < count; i++) {
        hosts[i].tap = interface_of(argv[3 + i]);
        if (hosts[i].tap < 0) {
            (void)fprintf(stderr, "delayed_links: %s: %s\n", argv[3 + i], strerror(errno));
            return 1;
        }
        wait[i] = (struct pollfd){.fd = hosts[i].tap, .events = POLLIN};
    }
    wait[count] = (struct pollfd){.fd = STDIN_FILENO, .events = POLLIN};
    (void)puts("ready");
    (void)fflush(stdout);
    for (;;) {
        uint64_t due = move();
        uint64_t now = now_ns();
        uint64_t left = due > now ? due - now : 0;
        struct timespec until = {(time_t)(left / SECOND), (long)(left % SECOND)};
        if (ppoll(wait, (nfds_t)count + 1, due ? &until : NULL, NULL) < 0 && errno != EINTR)
            return 1;
        for (int i = 0; i < count; i++)
            if (wait[i].revents & POLLIN)
                take_from(&hosts[i], room);
        if (wait[count].revents && !obey())
            return 0;
    }
}
