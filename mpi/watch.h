/*
 * What stays awake beside a rank that computes: a process of its own that waits for it, and a
 * connection from that of every rank to that of rank 0, over which they show that they live. So a
 * rank that was killed or stopped, and a machine that went down, are named although the rank itself
 * can no longer speak and the others wait for it.
 */
#ifndef CST_MPI_WATCH_H
#define CST_MPI_WATCH_H

#include <stdbool.h>

/* Splits this process in two. Returns in the one that computes; the other ends with its exit code.
 */
void watch_begin(void);

/* Connects the ranks: a collective call, after MPI_Init. Ranks that cannot reach each other outside
 * MPI, behind a firewall for example, go on without. */
void watch_connect(void);

/* Whether somebody has already said why this rank is ended. */
bool watch_said(void);

#endif
