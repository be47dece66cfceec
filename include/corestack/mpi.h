/* Collectives over MPI: libcorestack-mpi, which is built where an MPI library is found. No other
 * part of corestack needs MPI. */
#ifndef CORESTACK_MPI_H
#define CORESTACK_MPI_H

#include <corestack/collectives.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Fills in the collectives of a communicator, for cst_context_set_collectives. communicator: an
 * MPI_Comm, given by its address so that this header does not need mpi.h; it is duplicated. MPI
 * must be initialised, at least with MPI_THREAD_FUNNELED, and the context be used by the thread
 * that did so. CST_ERROR_IO if MPI fails, CST_ERROR_MEMORY if memory runs out. Free it with
 * cst_mpi_free before MPI_Finalize, when no context uses it any more. */
CST_API cst_status cst_mpi_create(const void *communicator, cst_collectives *out);
CST_API void cst_mpi_free(cst_collectives *collectives);

#ifdef __cplusplus
}
#endif
#endif
