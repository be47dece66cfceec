/*
 * TCP between ranks: sockets that are waited for with a limit, and the addresses of this machine.
 * Under the service of rows (rows.h). Paper: none.
 */
#ifndef CST_COMM_SOCKETS_H
#define CST_COMM_SOCKETS_H

#include "base/base.h"

/* What two ranks of one run prove to each other with: random, drawn by rank 0. The one that is
 * called says the first half, the one that calls the second. */
enum { CST_TOKEN_BYTES = 16, CST_ADDRESS_CHARS = 64 };
typedef struct cst_tokens {
    unsigned char called[CST_TOKEN_BYTES];
    unsigned char caller[CST_TOKEN_BYTES];
} cst_tokens;

/* The first message of a connection, of the one that was called; and the answer to it. */
typedef struct cst_greeting {
    unsigned char token[CST_TOKEN_BYTES];
    int32_t rank;
    int32_t version;
} cst_greeting;

enum { CST_ROWS_VERSION = 1 };

/* Rows that are asked for, and what comes before them; of a failure, before its message. */
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

/* Seconds without a byte after which the other side counts as gone. */
enum { CST_PATIENCE = 8 };

/* Fills `bytes` with random numbers of the system. */
cst_status cst_draw(cst_context *context, void *bytes, size_t count);

/* Whether two tokens are the same, in a time that does not depend on where they differ. */
bool cst_same_token(const unsigned char *a, const unsigned char *b);

/* A text that is the same for processes that reach each other over the loopback interface. */
void cst_machine(char *out, size_t room);

/* Listens on a free port: of the loopback interface only, or of all. */
cst_status cst_listen(cst_context *context, bool loopback, int *out, int *port);

/* "192.168.1.7 10.0.0.7 fd00::7": addresses of this machine that others may reach. *out is the
 * caller's (cst_free). */
cst_status cst_addresses(cst_context *context, bool loopback, char **out);

/* A connection is not blocking, sends at once, and notices when the other machine is gone. */
bool cst_prepare(int fd);

/* A socket that is connected to the address; -1: it was not within `seconds`, and errno says why.
 */
int cst_connect(const char *address, int port, double seconds);

/* Sends or receives all of it; false with errno when the other side is gone, or nothing moves for
 * `seconds`. *status: that of a caller who asks to stop meanwhile. */
bool cst_send_all(cst_context *context, int fd, const void *bytes, size_t count, double seconds,
                  cst_status *status);
bool cst_receive_all(cst_context *context, int fd, void *bytes, size_t count, double seconds,
                     cst_status *status);

#endif
