/* Visibility of the public functions: everything else in the library is hidden. */
#ifndef CORESTACK_EXPORT_H
#define CORESTACK_EXPORT_H

#if defined(__GNUC__)
#define CST_API __attribute__((visibility("default")))
#else
#define CST_API
#endif

#endif
