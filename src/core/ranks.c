/* Sums in a fixed binary tree, and exchanges between ranks. One kind of message carries all: its
 * purpose, whether its ranks failed, and the bytes. */
#include "core/ranks.h"

#include "core/context.h"
#include "core/scope.h"

#include <string.h>

/* ---- the tree ---- */

static void add_numbers(const double *from, size_t width, double *to) {
    for (size_t j = 0; j < width; j++)
        to[j] += from[j];
}

void cst_tree_push(cst_context *context, cst_tree *tree, int32_t level, int64_t index,
                   double *sum) {
    tree->node[tree->count++] = (cst_tree_node){.index = index, .level = level, .sum = sum};
    while (tree->count > 1) {
        cst_tree_node *left = &tree->node[tree->count - 2];
        const cst_tree_node *right = left + 1;
        if (left->level != right->level || left->index % 2 != 0 || right->index != left->index + 1)
            return;
        add_numbers(right->sum, tree->width, left->sum);
        if (right->owned)
            cst_free(context, right->sum);
        left->level++;
        left->index /= 2;
        tree->count--;
    }
}

cst_status cst_tree_keep(cst_context *context, cst_tree *tree) {
    for (int32_t i = 0; i < tree->count; i++) {
        cst_tree_node *node = &tree->node[i];
        if (node->owned)
            continue;
        double *copy = cst_alloc(context, tree->width, sizeof *copy);
        if (!copy)
            return CST_ERROR_MEMORY;
        memcpy(copy, node->sum, tree->width * sizeof *copy);
        node->sum = copy;
        node->owned = true;
    }
    return CST_OK;
}

/* The sum of all nodes, which cover every term, into `total` [width]; zeros where there are none.
 */
static void tree_total(const cst_tree *tree, double *total) {
    memset(total, 0, tree->width * sizeof *total);
    for (int32_t i = tree->count - 1; i >= 0; i--)
        for (size_t j = 0; j < tree->width; j++)
            total[j] =
                i == tree->count - 1 ? tree->node[i].sum[j] : tree->node[i].sum[j] + total[j];
}

void cst_tree_free(cst_context *context, cst_tree *tree) {
    for (int32_t i = 0; i < tree->count; i++)
        if (tree->node[i].owned)
            cst_free(context, tree->node[i].sum);
    tree->count = 0;
}

/* ---- parts ---- */

typedef enum exchange_kind {
    EXCHANGE_AGREE = 1,
    EXCHANGE_SUM,
    EXCHANGE_FILL,
    EXCHANGE_GATHER
} exchange_kind;

/* Before the bytes of a message. */
typedef struct head {
    uint32_t kind;
    int32_t status; /* CST_OK, or that of the failure that follows: the host's name and the text */
    int32_t first;  /* ranks that it comes from: first to last */
    int32_t last;
    int32_t failed;     /* of a failure: the lowest rank that failed */
    int32_t alike;      /* how many ranks failed with the same text */
    uint64_t exchanges; /* so far */
    uint64_t what;      /* of what size: must be the same on every rank */
} head;

/* Room for the message of a failure in every buffer. */
enum { HOST_BYTES = 256, MESSAGE_BYTES = HOST_BYTES + CST_ERROR_CHARS };
static const size_t LEAST = sizeof(head) + MESSAGE_BYTES;

/* Up to this many bytes are sent with the head, for few and for many arrays; more follow in
 * separate rounds. */
static const size_t SMALL = (size_t)1 << 16;
static const size_t SMALL_OF_MANY = (size_t)1 << 22;

bool cst_ranks_share(const cst_context *context) {
    return context->ranks.calls.size > 1 && context->ranks.alone == 0;
}

void cst_ranks_alone(cst_context *context, bool on) {
    context->ranks.alone += on ? 1 : -1;
}

/* A pass takes about 1 ns per number; an exchange takes about 20 us on one machine and 1 ms between
 * two. */
bool cst_ranks_worth(const cst_context *context, double numbers) {
    const double seconds_of_one = 1e-9;
    const double least = 1 << 20; /* numbers; passes over fewer are not worth dividing */
    int size = context->ranks.calls.size;
    double saved = seconds_of_one * numbers * (1 - 1.0 / (double)size);
    return cst_ranks_share(context) && numbers >= least && saved > context->ranks.latency;
}

/* Parts of many grains begin at a multiple of a power of two of them, so that few nodes of a sum's
 * tree are left of each; a part has at least so many of these. */
enum { GRAINS_LEAST = 64 };

static int64_t boundary(int64_t count, int64_t grain, int rank, int size) {
    int64_t grains = (count + grain - 1) / grain;
    for (; grains / 2 >= (int64_t)GRAINS_LEAST * size; grain *= 2)
        grains = (grains + 1) / 2;
    int64_t at = (grains / size * rank + grains % size * rank / size) * grain;
    return at < count ? at : count;
}

void cst_ranks_part(const cst_context *context, int64_t count, int64_t grain, int64_t *first,
                    int64_t *last) {
    const cst_collectives *calls = &context->ranks.calls;
    bool share = cst_ranks_share(context);
    *first = share ? boundary(count, grain, calls->rank, calls->size) : 0;
    *last = share ? boundary(count, grain, calls->rank + 1, calls->size) : count;
}

int64_t cst_ranks_boundary(const cst_context *context, int64_t count, int64_t grain, int rank) {
    return boundary(count, grain, rank, context->ranks.calls.size);
}

/* ---- messages ---- */

/* A message that says what went wrong, in place of another. */
static size_t fail_message(head *message, cst_status status, int rank, const char *host,
                           const char *text) {
    char *to = (char *)(message + 1);
    message->status = (int32_t)status;
    message->failed = rank;
    message->alike = 1;
    (void)cst_snprintf(to, HOST_BYTES, "%s", host ? host : "this machine");
    size_t length = strlen(to) + 1;
    (void)cst_snprintf(to + length, MESSAGE_BYTES - HOST_BYTES, "%s", text);
    return sizeof *message + length + strlen(to + length) + 1;
}

static const char *text_of(const head *message) {
    const char *host = (const char *)(message + 1);
    return host + strlen(host) + 1;
}

static size_t fail_different(head *left, const head *right) {
    char text[512];
    (void)cst_snprintf(text, sizeof text,
                       "ranks %d and %d are not at the same place of the same work (exchanges %llu "
                       "and %llu, kinds %u and %u, sizes %llu and %llu): they were given other "
                       "data or options, or their machines compute differently",
                       left->last, right->first, (unsigned long long)left->exchanges,
                       (unsigned long long)right->exchanges, left->kind, right->kind,
                       (unsigned long long)left->what, (unsigned long long)right->what);
    size_t bytes = fail_message(left, CST_ERROR_ARGUMENT, left->last, NULL, text);
    left->alike = right->last - left->first + 1; /* nobody's in particular */
    left->last = right->last;
    return bytes;
}

/* Bytes of a node of a tree in a message. */
typedef struct packed_node {
    int64_t index;
    int64_t level;
} packed_node;

static size_t node_bytes(size_t width) {
    return sizeof(packed_node) + width * sizeof(double);
}

static void unpack(cst_context *context, cst_tree *tree, const unsigned char *bytes, size_t count) {
    for (size_t at = 0; at < count; at += node_bytes(tree->width)) {
        packed_node node;
        memcpy(&node, bytes + at, sizeof node);
        cst_tree_push(context, tree, (int32_t)node.level, node.index,
                      (double *)(uintptr_t)(bytes + at + sizeof node));
    }
}

/* How many numbers of a sum are sent. */
static size_t packed_width(const cst_tree *tree) {
    size_t square = tree->square;
    return tree->width - square * square + square * (square + 1) / 2;
}

static size_t pack(const cst_tree *tree, unsigned char *bytes) {
    size_t at = 0;
    size_t square = tree->square;
    size_t before = tree->width - square * square;
    for (int32_t i = 0; i < tree->count; i++) {
        packed_node node = {tree->node[i].index, tree->node[i].level};
        const double *sum = tree->node[i].sum;
        memcpy(bytes + at, &node, sizeof node);
        at += sizeof node;
        memmove(bytes + at, sum, before * sizeof *sum);
        at += before * sizeof *sum;
        for (size_t row = 0; row < square; row++) {
            memcpy(bytes + at, sum + before + row * square, (row + 1) * sizeof *sum);
            at += (row + 1) * sizeof *sum;
        }
    }
    return at;
}

/* Unpacks the lower triangle of a sum into its square matrix, in place. */
static void spread(const cst_tree *tree, double *sum) {
    size_t square = tree->square;
    double *matrix = sum + tree->width - square * square;
    for (size_t row = square; row-- > 0;) {
        memmove(matrix + row * square, matrix + row * (row + 1) / 2, (row + 1) * sizeof *sum);
        memset(matrix + row * square + row + 1, 0, (square - row - 1) * sizeof *sum);
    }
}

/* Adds up all nodes of a sum in a message. */
static size_t add_nodes(size_t width, unsigned char *bytes, size_t count) {
    size_t node = node_bytes(width);
    for (size_t at = count; at > node; at -= node) {
        const double *from =
            (const double *)(const void *)(bytes + at - node + sizeof(packed_node));
        add_numbers(from, width, (double *)(void *)(bytes + at - 2 * node + sizeof(packed_node)));
    }
    return node;
}

/* Sums of neighbouring terms are added up in the left message; the others of the right one, which
 * is not written to, are put behind them. whole: these are the sums of all ranks. */
static size_t merge_sums(cst_context *context, size_t width, unsigned char *left, size_t left_count,
                         size_t room, const unsigned char *right, size_t right_count, bool whole) {
    cst_tree tree = {.width = width};
    unpack(context, &tree, left, left_count);
    unpack(context, &tree, right, right_count);
    if ((size_t)tree.count * node_bytes(width) > room)
        return SIZE_MAX;
    size_t count = pack(&tree, left);
    return whole && count > 0 ? add_nodes(width, left, count) : count;
}

static size_t merge(void *user, void *left_bytes, size_t left_count, size_t capacity,
                    const void *right_bytes, size_t right_count) {
    cst_context *context = user;
    head *left = left_bytes;
    const head *right = right_bytes;
    unsigned char *to = (unsigned char *)(left + 1);
    const unsigned char *from = (const unsigned char *)(right + 1);
    size_t room = capacity - sizeof *left;
    size_t have = left_count - sizeof *left;
    size_t more = right_count - sizeof *right;
    if (left->status != CST_OK) {
        left->last = right->last;
        if (right->status == left->status && strcmp(text_of(left), text_of(right)) == 0)
            left->alike += right->alike;
        return left_count;
    }
    if (right->status != CST_OK) {
        int32_t first = left->first;
        more = more < MESSAGE_BYTES ? more : MESSAGE_BYTES;
        *left = *right;
        left->first = first;
        memcpy(to, from, more);
        return sizeof *left + more;
    }
    if (left->kind != right->kind || left->exchanges != right->exchanges ||
        left->what != right->what)
        return fail_different(left, right);
    left->last = right->last;
    if (left->kind == EXCHANGE_SUM) {
        bool whole = left->first == 0 && left->last == context->ranks.calls.size - 1;
        size_t sums = merge_sums(context, (size_t)left->what, to, have, room, from, more, whole);
        return sums == SIZE_MAX ? fail_different(left, right) : sizeof *left + sums;
    }
    if (more > room - have)
        return fail_different(left, right);
    memcpy(to + have, from, more);
    return sizeof *left + have + more;
}

/* ---- rounds ---- */

/* allreduce of allgather: sizes, then messages, merged by every rank in the order of ranks. */
static int reduce_gathered(cst_context *context, void *bytes, size_t *count, size_t capacity) {
    const cst_collectives *calls = &context->ranks.calls;
    size_t ranks = (size_t)calls->size;
    size_t all = 0;
    CST_SCOPE(scope);
    size_t *sizes = cst_take(context, scope, 2 * ranks, sizeof *sizes);
    if (!sizes)
        return 1;
    size_t *given = sizes + ranks;
    for (size_t r = 0; r < ranks; r++)
        sizes[r] = sizeof *sizes;
    if (calls->allgather(calls->self, count, sizeof *count, given, sizes))
        return 1;
    for (size_t r = 0; r < ranks; r++)
        all += given[r];
    unsigned char *messages = cst_take(context, scope, all, 1);
    if (!messages || calls->allgather(calls->self, bytes, *count, messages, given))
        return 1;
    /* A rank that failed has little room itself, and all that the others sent is to be merged. Each
     * message is put where a head may stand. */
    size_t room = all > capacity ? all : capacity;
    head *merged = cst_take(context, scope, room, 1);
    head *next = cst_take(context, scope, all, 1);
    if (!merged || !next)
        return 1;
    size_t have = given[0];
    size_t at = have;
    memcpy(merged, messages, have);
    for (size_t r = 1; r < ranks; at += given[r++]) {
        memcpy(next, messages + at, given[r]);
        have = merge(context, merged, have, room, next, given[r]);
    }
    if (have > capacity)
        have = fail_different(merged, merged);
    memcpy(bytes, merged, *count = have);
    return 0;
}

static cst_status broken(cst_context *context) {
    const cst_collectives *calls = &context->ranks.calls;
    return cst_fail(context, CST_ERROR_IO,
                    "rank %d on %s cannot reach the other ranks: one of them ended, or the network "
                    "failed",
                    calls->rank, calls->host ? calls->host : "this machine");
}

/* One exchange: `message` [capacity] has `count` bytes behind its head; *count is what it has in
 * the end. `status` is what became of this rank's work before it. Returns the failure of the lowest
 * rank that failed. */
static cst_status exchange(cst_context *context, cst_status status, exchange_kind kind,
                           uint64_t what, head *message, size_t capacity, size_t *count) {
    cst_ranks *ranks = &context->ranks;
    const cst_collectives *calls = &ranks->calls;
    size_t bytes = sizeof *message + *count;
    *message = (head){.kind = kind,
                      .status = CST_OK,
                      .first = calls->rank,
                      .last = calls->rank,
                      .exchanges = ranks->exchanges++,
                      .what = what};
    if (ranks->over)
        return status != CST_OK ? status : cst_fail(context, CST_ERROR_IO, "%s", context->error);
    if (status != CST_OK)
        bytes = fail_message(message, status, calls->rank, calls->host, context->error);
    int failed = calls->allreduce
                     ? calls->allreduce(calls->self, message, &bytes, capacity, merge, context)
                     : reduce_gathered(context, message, &bytes, capacity);
    if (failed)
        return broken(context);
    *count = bytes - sizeof *message;
    if (message->status == CST_OK)
        return CST_OK;
    ranks->over = kind != EXCHANGE_AGREE;
    status = (cst_status)message->status;
    if (message->alike == calls->size)
        return cst_fail(context, status, "%s", text_of(message));
    return cst_fail(context, status, "rank %d on %s: %s", message->failed,
                    (const char *)(message + 1), text_of(message));
}

/* An exchange of heads alone. */
static cst_status agree(cst_context *context, cst_status status, exchange_kind kind,
                        uint64_t what) {
    union {
        head message;
        char room[sizeof(head) + MESSAGE_BYTES];
    } buffer;
    size_t count = 0;
    return exchange(context, status, kind, what, &buffer.message, sizeof buffer, &count);
}

/* Gives all ranks each one's part of an array; sizes are known. */
static cst_status gather(cst_context *context, const void *part, void *all, const size_t *counts) {
    const cst_collectives *calls = &context->ranks.calls;
    return calls->allgather(calls->self, part, counts[calls->rank], all, counts) ? broken(context)
                                                                                 : CST_OK;
}

/* ---- sums ---- */

void cst_ranks_clear(cst_context *context) {
    cst_free(context, context->ranks.room);
    context->ranks = (cst_ranks){0};
}

/* Room for a message, which need not be zeroed. */
static head *room_for(cst_context *context, size_t bytes) {
    cst_ranks *ranks = &context->ranks;
    if (bytes > ranks->room_bytes) {
        cst_free(context, ranks->room);
        ranks->room = cst_alloc(context, bytes, 1);
        ranks->room_bytes = ranks->room ? bytes : 0;
    }
    return ranks->room;
}

cst_status cst_ranks_sum(cst_context *context, cst_status status, int64_t terms, cst_tree *tree,
                         double *total) {
    if (status == CST_OK && !cst_ranks_share(context))
        tree_total(tree, total);
    if (!cst_ranks_share(context))
        return status;
    size_t nodes = 2; /* of a range of terms: at most two of each level */
    size_t capacity = 0;
    for (int64_t left = terms; left > 0; left /= 2)
        nodes += 2;
    if (nodes > (size_t)terms)
        nodes = (size_t)terms;
    size_t width = packed_width(tree);
    if (!cst_size_mul(node_bytes(width), nodes, &capacity) ||
        !cst_size_add(capacity, LEAST, &capacity))
        return agree(context, cst_fail(context, CST_ERROR_LIMIT, "a sum is too wide"), EXCHANGE_SUM,
                     width);
    head *message = room_for(context, capacity);
    if (!message)
        return agree(context, CST_ERROR_MEMORY, EXCHANGE_SUM, width);
    size_t count = status == CST_OK ? pack(tree, (unsigned char *)(message + 1)) : 0;
    CST_TRY(exchange(context, status, EXCHANGE_SUM, width, message, capacity, &count));
    cst_tree whole = {.width = width};
    unpack(context, &whole, (unsigned char *)(message + 1), count);
    tree_total(&whole, total);
    spread(tree, total);
    return CST_OK;
}

cst_status cst_ranks_add(cst_context *context, cst_status status, double *numbers, size_t count) {
    if (!cst_ranks_share(context))
        return status;
    const cst_collectives *calls = &context->ranks.calls;
    cst_tree tree = {.width = count};
    cst_tree_push(context, &tree, 0, calls->rank, numbers);
    return cst_ranks_sum(context, status, calls->size, &tree, numbers);
}

/* ---- arrays ---- */

/* Where the part of a rank of array `f` begins, which `count` tasks fill. */
static size_t part_of(const cst_context *context, const cst_share *f, int64_t count, int rank) {
    if (f->bounds)
        return (size_t)f->bounds[rank] * f->bytes;
    size_t before = (size_t)boundary(count, 1, rank, context->ranks.calls.size) * f->bytes;
    return before < f->total ? before : f->total;
}

/* Copies the part of a rank of every array into a message, or out of it; returns its bytes. */
static size_t copy_parts(const cst_context *context, int64_t count, const cst_share *filled,
                         int32_t arrays, int rank, bool in, unsigned char *bytes) {
    size_t at = 0;
    for (int32_t a = 0; a < arrays; a++) {
        size_t from = part_of(context, &filled[a], count, rank);
        size_t size = part_of(context, &filled[a], count, rank + 1) - from;
        unsigned char *base = (unsigned char *)filled[a].base + from;
        memcpy(in ? bytes + at : base, in ? base : bytes + at, size);
        at += size;
    }
    return at;
}

/* Small arrays: all of them in one message. */
static cst_status fill_small(cst_context *context, cst_status status, int64_t count,
                             const cst_share *filled, int32_t arrays, size_t total) {
    const cst_collectives *calls = &context->ranks.calls;
    CST_SCOPE(scope);
    head *message = cst_take(context, scope, LEAST + total, 1);
    if (!message)
        return agree(context, CST_ERROR_MEMORY, EXCHANGE_FILL, total);
    unsigned char *bytes = (unsigned char *)(message + 1);
    size_t have = 0;
    if (status == CST_OK)
        have = copy_parts(context, count, filled, arrays, calls->rank, true, bytes);
    CST_TRY(exchange(context, status, EXCHANGE_FILL, total, message, LEAST + total, &have));
    for (int r = 0; r < calls->size; r++)
        bytes += copy_parts(context, count, filled, arrays, r, false, bytes);
    return CST_OK;
}

cst_status cst_ranks_fill(cst_context *context, cst_status status, int64_t count,
                          const cst_share *filled, int32_t arrays) {
    if (!cst_ranks_share(context))
        return status;
    const cst_collectives *calls = &context->ranks.calls;
    size_t total = 0;
    CST_SCOPE(scope);
    for (int32_t a = 0; a < arrays; a++)
        total += filled[a].total;
    if (total <= (arrays > 2 ? SMALL_OF_MANY : SMALL))
        return fill_small(context, status, count, filled, arrays, total);
    size_t *counts = cst_take(context, scope, (size_t)calls->size, sizeof *counts);
    CST_TRY(agree(context, status == CST_OK && !counts ? CST_ERROR_MEMORY : status, EXCHANGE_FILL,
                  total));
    for (int32_t a = 0; counts && a < arrays; a++) {
        const cst_share *f = &filled[a];
        for (int r = 0; r < calls->size; r++)
            counts[r] = part_of(context, f, count, r + 1) - part_of(context, f, count, r);
        size_t own = part_of(context, f, count, calls->rank);
        CST_TRY(gather(context, (const unsigned char *)f->base + own, f->base, counts));
    }
    return CST_OK;
}

cst_status cst_ranks_gather(cst_context *context, cst_status status, const void *part, size_t count,
                            void **all, size_t *bytes) {
    bool share = cst_ranks_share(context);
    size_t ranks = share ? (size_t)context->ranks.calls.size : 1;
    CST_SCOPE(scope);
    *all = NULL;
    *bytes = 0;
    size_t *counts = cst_take(context, scope, ranks, sizeof *counts);
    if (counts)
        counts[share ? context->ranks.calls.rank : 0] = count;
    else if (status == CST_OK)
        status = CST_ERROR_MEMORY;
    const cst_share sizes = {counts, sizeof *counts, ranks * sizeof *counts, NULL};
    status = cst_ranks_fill(context, status, (int64_t)ranks, &sizes, 1);
    for (size_t r = 0; status == CST_OK && counts && r < ranks; r++)
        *bytes += counts[r];
    *all = status == CST_OK ? cst_alloc(context, *bytes, 1) : NULL;
    if (status == CST_OK && !*all)
        status = CST_ERROR_MEMORY;
    if (share) {
        status = agree(context, status, EXCHANGE_GATHER, 0);
        CST_THEN(gather(context, part, *all, counts));
    } else if (status == CST_OK) {
        memcpy(*all, part, count);
    }
    if (status != CST_OK) {
        cst_free(context, *all);
        *all = NULL;
    }
    return status;
}

/* ---- for callers of the library ---- */

cst_status cst_context_agree(cst_context *context, cst_status status, const char *message) {
    CST_ENTER(context);
    if (context->ranks.calls.size <= 1)
        return status;
    if (status != CST_OK && message)
        (void)cst_fail(context, status, "%s", message);
    if (context->ranks.over && status != CST_OK) {
        context->ranks.over = false; /* every rank has been told */
        return status;
    }
    return agree(context, status, EXCHANGE_AGREE, 0);
}

cst_status cst_context_same(cst_context *context, const char *what, const char *text) {
    CST_ENTER(context);
    CST_NEED(context, what && text, "a text is missing");
    if (context->ranks.calls.size <= 1)
        return CST_OK;
    CST_SCOPE(scope);
    void *all = NULL;
    size_t bytes = 0;
    const char *host = context->ranks.calls.host ? context->ranks.calls.host : "this machine";
    char *given = cst_take_format(context, scope, "%s%c%s", text, '\0', host);
    CST_TRY(cst_ranks_gather(context, given ? CST_OK : CST_ERROR_MEMORY, given,
                             strlen(text) + strlen(host) + 2, &all, &bytes));
    CST_TRY(cst_scope_own(context, scope, cst_free, all));
    const char *at = all; /* of each rank: the text, the host */
    for (int r = 0; r < context->ranks.calls.size; r++) {
        const char *where = at + strlen(at) + 1;
        if (strcmp(at, all) != 0)
            return cst_fail(context, CST_ERROR_ARGUMENT,
                            "rank %d on %s differs from rank 0 in %s: '%.300s' and '%.300s'; "
                            "start every rank with the same program and arguments",
                            r, where, what, at, (const char *)all);
        at = where + strlen(where) + 1;
    }
    return CST_OK;
}

int cst_context_rank(const cst_context *context) {
    return context ? context->ranks.calls.rank : 0;
}

int cst_context_ranks(const cst_context *context) {
    return context && context->ranks.calls.size > 1 ? context->ranks.calls.size : 1;
}
