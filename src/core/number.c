/* Numbers as text in the C locale, thread by thread. docs/architecture.md#numbers-as-text. */
#define _XOPEN_SOURCE 700 /* newlocale, uselocale */

#include "core/number.h"

#include <locale.h>
#include <stdio.h>
#include <stdlib.h>

/* All categories, for then newlocale gives a constant and allocates nothing: it costs some
 * nanoseconds and does not fail. */
cst_c_locale cst_c_locale_enter(void) {
    cst_c_locale locale = {.own = (void *)newlocale(LC_ALL_MASK, "C", (locale_t)0)};
    if (locale.own)
        locale.before = (void *)uselocale((locale_t)locale.own);
    return locale;
}

void cst_c_locale_leave(cst_c_locale locale) {
    if (!locale.own)
        return;
    (void)uselocale((locale_t)locale.before);
    freelocale((locale_t)locale.own);
}

double cst_strtod(const char *text, char **end) {
    cst_c_locale locale = cst_c_locale_enter();
    double value = strtod(text, end);
    cst_c_locale_leave(locale);
    return value;
}

int cst_vsnprintf(char *out, size_t size, const char *format, va_list args) {
    cst_c_locale locale = cst_c_locale_enter();
    int length = vsnprintf(out, size, format, args);
    cst_c_locale_leave(locale);
    return length;
}

int cst_snprintf(char *out, size_t size, const char *format, ...) {
    va_list args;
    va_start(args, format);
    int length = cst_vsnprintf(out, size, format, args);
    va_end(args);
    return length;
}
