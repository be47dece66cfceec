/* Collectives over MPI. Messages go in pieces, since MPI counts bytes in an int; reductions go up a
 * binomial tree of ranks and come back down. */
#include <corestack/mpi.h>

#include <mpi.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

enum { TAG_SIZE = 1, TAG_BYTES = 2 };
static const size_t PIECE = (size_t)1 << 30;

typedef struct backend {
    MPI_Comm comm;
    int rank, size;
    char host[MPI_MAX_PROCESSOR_NAME];
    void *room; /* [room_bytes]: a buffer for received messages */
    size_t room_bytes;
} backend;

static void *room_for(backend *b, size_t bytes) {
    if (bytes <= b->room_bytes)
        return b->room;
    free(b->room);
    b->room = malloc(bytes);
    b->room_bytes = b->room ? bytes : 0;
    return b->room;
}

static int send_all(const backend *b, const void *bytes, size_t count, int to) {
    const unsigned char *at = bytes;
    uint64_t size = count;
    int failed = MPI_Send(&size, 1, MPI_UINT64_T, to, TAG_SIZE, b->comm);
    while (!failed && count > 0) {
        size_t piece = count < PIECE ? count : PIECE;
        failed = MPI_Send(at, (int)piece, MPI_BYTE, to, TAG_BYTES, b->comm);
        at += piece;
        count -= piece;
    }
    return failed;
}

static int receive_size(const backend *b, size_t *count, int from) {
    uint64_t size = 0;
    int failed = MPI_Recv(&size, 1, MPI_UINT64_T, from, TAG_SIZE, b->comm, MPI_STATUS_IGNORE);
    *count = (size_t)size;
    return failed;
}

static int receive_bytes(const backend *b, void *bytes, size_t count, int from) {
    unsigned char *at = bytes;
    int failed = 0;
    while (!failed && count > 0) {
        size_t piece = count < PIECE ? count : PIECE;
        failed = MPI_Recv(at, (int)piece, MPI_BYTE, from, TAG_BYTES, b->comm, MPI_STATUS_IGNORE);
        at += piece;
        count -= piece;
    }
    return failed;
}

/* Receives a message of any length; of a longer one than the capacity only the first bytes. */
static int receive_into(backend *b, void *bytes, size_t *count, size_t capacity, int from) {
    int failed = receive_size(b, count, from);
    if (failed || *count <= capacity)
        return failed ? failed : receive_bytes(b, bytes, *count, from);
    void *whole = room_for(b, *count);
    failed = !whole || receive_bytes(b, whole, *count, from);
    if (!failed)
        memcpy(bytes, whole, *count = capacity);
    return failed;
}

/* Sends the bytes of rank 0 to all others, down the tree of reductions. */
static int send_down(backend *b, void *bytes, size_t *count, size_t capacity) {
    int failed = 0;
    int step = 1;
    for (; step < b->size && b->rank % (2 * step) == 0; step *= 2) {
    }
    if (b->rank > 0)
        failed = receive_into(b, bytes, count, capacity, b->rank - step);
    for (step /= 2; step > 0 && !failed; step /= 2)
        if (b->rank + step < b->size)
            failed = send_all(b, bytes, *count, b->rank + step);
    return failed;
}

static int mpi_allreduce(void *self, void *bytes, size_t *count, size_t capacity,
                         cst_merge_fn merge, void *user) {
    backend *b = self;
    int failed = 0;
    for (int step = 1; step < b->size && !failed; step *= 2) {
        if (b->rank % (2 * step) != 0) {
            failed = send_all(b, bytes, *count, b->rank - step);
            break;
        }
        if (b->rank + step >= b->size)
            continue;
        size_t more = 0;
        failed = receive_size(b, &more, b->rank + step);
        void *right = failed ? NULL : room_for(b, more);
        failed = failed || !right || receive_bytes(b, right, more, b->rank + step);
        if (!failed)
            *count = merge(user, bytes, *count, capacity, right, more);
    }
    return failed || send_down(b, bytes, count, capacity);
}

static int small_gather(const backend *b, const void *part, size_t count, void *all,
                        const size_t *counts, int *lengths, int *places) {
    size_t at = 0;
    bool in_place = false;
    for (int r = 0; r < b->size; r++) {
        lengths[r] = (int)counts[r];
        places[r] = (int)at;
        in_place |= r == b->rank && part == (const unsigned char *)all + at;
        at += counts[r];
    }
    return MPI_Allgatherv(in_place ? MPI_IN_PLACE : part, in_place ? 0 : (int)count, MPI_BYTE, all,
                          lengths, places, MPI_BYTE, b->comm);
}

static int broadcast(const backend *b, void *bytes, size_t count, int root) {
    unsigned char *at = bytes;
    int failed = 0;
    while (!failed && count > 0) {
        size_t piece = count < PIECE ? count : PIECE;
        failed = MPI_Bcast(at, (int)piece, MPI_BYTE, root, b->comm);
        at += piece;
        count -= piece;
    }
    return failed;
}

static int mpi_allgather(void *self, const void *part, size_t count, void *all,
                         const size_t *counts) {
    const backend *b = self;
    size_t total = 0;
    size_t own = 0;
    for (int r = 0; r < b->size; r++) {
        own += r < b->rank ? counts[r] : 0;
        total += counts[r];
    }
    if (total <= PIECE) {
        int *lengths = malloc(2 * (size_t)b->size * sizeof *lengths);
        int failed =
            !lengths || small_gather(b, part, count, all, counts, lengths, lengths + b->size);
        free(lengths);
        return failed;
    }
    unsigned char *at = all;
    int failed = 0;
    if (part != at + own)
        memmove(at + own, part, count);
    for (int r = 0; r < b->size && !failed; at += counts[r++])
        failed = broadcast(b, at, counts[r], r);
    return failed;
}

cst_status cst_mpi_create(const void *communicator, cst_collectives *out) {
    if (!communicator || !out)
        return CST_ERROR_ARGUMENT;
    *out = (cst_collectives){0};
    MPI_Comm from;
    memcpy(&from, communicator, sizeof from);
    backend *b = calloc(1, sizeof *b);
    int length = 0;
    if (!b)
        return CST_ERROR_MEMORY;
    if (MPI_Comm_dup(from, &b->comm) != MPI_SUCCESS ||
        MPI_Comm_set_errhandler(b->comm, MPI_ERRORS_RETURN) != MPI_SUCCESS ||
        MPI_Comm_rank(b->comm, &b->rank) != MPI_SUCCESS ||
        MPI_Comm_size(b->comm, &b->size) != MPI_SUCCESS ||
        MPI_Get_processor_name(b->host, &length) != MPI_SUCCESS) {
        free(b);
        return CST_ERROR_IO;
    }
    *out = (cst_collectives){.self = b,
                             .rank = b->rank,
                             .size = b->size,
                             .host = b->host,
                             .allgather = mpi_allgather,
                             .allreduce = mpi_allreduce};
    return CST_OK;
}

void cst_mpi_free(cst_collectives *collectives) {
    backend *b = collectives ? collectives->self : NULL;
    if (!b)
        return;
    (void)MPI_Comm_free(&b->comm);
    free(b->room);
    free(b);
    *collectives = (cst_collectives){0};
}
