/*
 * A library before libc, for tests of the tool: a system that starts few threads and has no memory
 * for large mappings, as where a container limits processes or where overcommit is strict. From the
 * environment: CORESTACK_THREADS_LEFT, threads that may still be created; CORESTACK_MAPPING_LIMIT,
 * bytes of one mapping from which on there is no memory for it.
 */
#define _GNU_SOURCE /* RTLD_NEXT */
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

typedef int create_fn(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);
typedef void *map_fn(void *, size_t, int, int, int, off_t);

/* What the variable says, or -1. */
static long long number(const char *name) {
    const char *text = getenv(name);
    return text ? strtoll(text, NULL, 10) : -1;
}

int pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*start)(void *),
                   void *user) {
    static long long started;
    static create_fn *real;
    long long most = number("CORESTACK_THREADS_LEFT");
    if (most >= 0 && started >= most)
        return EAGAIN;
    started++;
    if (!real) {
        void *found = dlsym(RTLD_NEXT, "pthread_create");
        memcpy(&real, &found, sizeof real);
    }
    return real(thread, attributes, start, user);
}

void *mmap(void *at, size_t bytes, int protection, int flags, int fd, off_t offset) {
    static map_fn *real;
    long long limit = number("CORESTACK_MAPPING_LIMIT");
    if (limit >= 0 && bytes >= (unsigned long long)limit) {
        errno = ENOMEM;
        return MAP_FAILED;
    }
    if (!real) {
        void *found = dlsym(RTLD_NEXT, "mmap");
        memcpy(&real, &found, sizeof real);
    }
    return real(at, bytes, protection, flags, fd, offset);
}
