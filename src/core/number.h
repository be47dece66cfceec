/* Numbers read and printed with a decimal point whatever locale the program has set. All numbers of
 * the library go through here. docs/architecture.md#numbers-as-text. */
#pragma once

#include <stdarg.h>
#include <stddef.h>

#define CST_PRINTF(fmt, args) __attribute__((format(printf, fmt, args)))

/* strtod, snprintf and vsnprintf of the C locale. Thread-safe: the process's locale is not touched,
 * that of the calling thread is as it was when they return. */
double cst_strtod(const char *text, char **end);
int cst_snprintf(char *out, size_t size, const char *format, ...) CST_PRINTF(3, 4);
int cst_vsnprintf(char *out, size_t size, const char *format, va_list args) CST_PRINTF(3, 0);

/* The C locale for the calling thread, around calls of libraries that read or write numbers. Pass
 * what enter gave to leave; calls nest. */
typedef struct cst_c_locale {
    void *own;    /* the C locale; NULL: there is none */
    void *before; /* what the thread had */
} cst_c_locale;
cst_c_locale cst_c_locale_enter(void);
void cst_c_locale_leave(cst_c_locale locale);
