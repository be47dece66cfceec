/*
 * The thread that serves rows to other ranks. Part of rows.h. Paper: none.
 */
#ifndef CST_COMM_SERVE_H
#define CST_COMM_SERVE_H

#include "comm/rows.h"
#include "comm/sockets.h"

typedef struct cst_server cst_server;

/* Starts the thread, which accepts connections on `listening` and closes it in the end. rank,
 * ranks: this rank, and how many there are. */
cst_status cst_server_start(cst_context *context, const cst_rows_served *served,
                            const cst_tokens *tokens, int rank, int ranks, int listening,
                            cst_server **out);
/* NULL is accepted. */
void cst_server_stop(cst_context *context, cst_server *server);

#endif
