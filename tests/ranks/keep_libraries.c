/*
 * In the corestack-mpi of builds with AddressSanitizer: the plug-ins of MPI stay loaded, so that
 * reports of leaks name them (scripts/lsan.supp).
 */
#include <dlfcn.h>

__attribute__((visibility("default"))) int dlclose(void *library) {
    (void)library;
    return 0;
}
