/*
 * TCP between ranks: non-blocking sockets with time limits, and the addresses of this machine.
 * Under rows.h. Paper: none.
 */
#ifndef CST_COMM_SOCKETS_H
#define CST_COMM_SOCKETS_H

#include "base/base.h"

/* Random tokens, drawn by rank 0, by which two ranks of a run recognise each other. The called rank
 * sends the first, the calling rank the second. */
enum { CST_TOKEN_BYTES = 16, CST_ADDRESS_CHARS = 64 };
typedef struct cst_tokens {
    unsigned char called[CST_TOKEN_BYTES];
    unsigned char caller[CST_TOKEN_BYTES];
} cst_tokens;

/* The first message of a connection, sent by the called rank, and the answer to it. */
typedef struct cst_greeting {
    unsigned char token[CST_TOKEN_BYTES];
    int32_t rank;
    int32_t version;
} cst_greeting;

enum { CST_ROWS_VERSION = 1 };

/* A request for rows, and the head of a reply: rows follow, or the message of a failure. */
typedef struct cst_request {
    int64_t first;
    int32_t count;
    int32_t member;
} cst_request;

typedef struct cst_reply {
    int32_t status;
    uint32_t bytes;
} cst_reply;

/* Most bytes of rows in one reply, unless it is a single row. */
enum { CST_PIECE_BYTES = 1 << 18 };

/* Seconds after which the other side counts as lost: without an answer of its system, or with a
 * full buffer that it does not empty. */
enum { CST_PATIENCE = 8 };

/* Fills `bytes` with random bytes from the system. */
cst_status cst_draw(cst_context *context, void *bytes, size_t count);

/* Compares two tokens in constant time. */
bool cst_same_token(const unsigned char *a, const unsigned char *b);

/* A text that is equal for processes on the same running system, whatever their containers. */
void cst_kernel(char *out, size_t room);

/* A text that is equal for processes that share a loopback interface. */
void cst_machine(char *out, size_t room);

/* Listens on a free port of the loopback interface only, or of all interfaces. */
cst_status cst_listen(cst_context *context, bool loopback, int *out, int *port);

/* Addresses of this machine that others may reach, such as "192.168.1.7 10.0.0.7 fd00::7". The
 * caller frees *out (cst_free). */
cst_status cst_addresses(cst_context *context, bool loopback, char **out);

/* Makes a connection non-blocking and without delay, and lets it notice a lost machine. */
bool cst_prepare(int fd);

/* How many connections may be kept: the process's limit of open files divided by `share`, from 4
 * to 4096. */
int cst_most_connections(int share);

/* Connects to an address within `seconds`. Returns the socket, or -1 with errno. */
int cst_connect(const char *address, int port, double seconds);

/* Sends or receives all bytes. False with errno if the connection ended, or nothing moved for
 * `seconds`. *status: CST_ERROR_CANCELLED if the caller asked to stop meanwhile. */
bool cst_send_all(cst_context *context, int fd, const void *bytes, size_t count, double seconds,
                  cst_status *status);
bool cst_receive_all(cst_context *context, int fd, void *bytes, size_t count, double seconds,
                     cst_status *status);

#endif
