/*
 * The watcher of a rank: a second process that waits for the one that computes. The watcher of
 * every rank is connected to that of rank 0, and both send signs of life. So ranks that were killed
 * or suspended and machines that went down are reported, although the rank cannot report anything
 * and the others wait for it. Paper: none.
 */
#ifndef CST_MPI_WATCH_H
#define CST_MPI_WATCH_H

#include <stdbool.h>

/* Forks. Returns in the process that computes; the watcher exits with that one's exit code. */
void watch_begin(void);

/* Connects the watchers: a collective call, after MPI_Init. Watchers that cannot reach each other
 * outside MPI, for example because of a firewall, stay unconnected. */
void watch_connect(void);

/* Whether the watcher has already reported why this rank ends. */
bool watch_said(void);

#endif
