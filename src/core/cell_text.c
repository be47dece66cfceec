/* Kinds of cells of delimited text, for the reader and the writer. */
#include "core/cell_text.h"

#include <string.h>

/* "nan", "inf" or "infinity" in any case. */
static bool is_named_number(const char *text) {
    static const char *const names[] = {"nan", "inf", "infinity"};
    for (size_t k = 0; k < 3; k++) {
        size_t i = 0;
        while (names[k][i] && (text[i] | 0x20) == names[k][i])
            i++;
        if (!names[k][i] && !text[i])
            return true;
    }
    return false;
}

bool cst_csv_is_number(const char *text) {
    const char *p = text;
    if (*p == '+' || *p == '-')
        p++;
    if (is_named_number(p))
        return true;
    size_t digits = 0;
    for (; *p >= '0' && *p <= '9'; p++)
        digits++;
    if (*p == '.')
        for (p++; *p >= '0' && *p <= '9'; p++)
            digits++;
    if (digits == 0)
        return false;
    if (*p == 'e' || *p == 'E') {
        p++;
        if (*p == '+' || *p == '-')
            p++;
        if (*p < '0' || *p > '9')
            return false;
        while (*p >= '0' && *p <= '9')
            p++;
    }
    return *p == '\0';
}

bool cst_csv_is_odd_number(const char *text) {
    size_t length = strlen(text);
    return length > 0 && strspn(text, "0123456789.,'%|+-eE $;") == length &&
           strcspn(text, "0123456789") < length && strcspn(text, ",'%| $;") < length;
}

bool cst_csv_is_missing(const char *text) {
    static const char *const words[] = {"",     "NA",   "N/A",     "#N/A", "NULL", "None",
                                        "?",    "-",    ".",       "null", "na",   "n/a",
                                        "none", "<NA>", "missing", "--"};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (strcmp(text, words[i]) == 0)
            return true;
    return false;
}

bool cst_csv_is_formula(const char *text) {
    static const char *const wide[] = {"\xef\xbc\x9d", "\xef\xbc\x8b", "\xef\xbc\x8d",
                                       "\xef\xbc\xa0"}; /* the same four, full width */
    text += strspn(text, "' ");
    for (size_t i = 0; i < sizeof wide / sizeof *wide; i++)
        if (strncmp(text, wide[i], 3) == 0)
            return true;
    if (!*text || !strchr("=+-@\t\r\n", *text))
        return false;
    bool digits = (text[1] >= '0' && text[1] <= '9') || text[1] == '.';
    return !(digits && cst_csv_is_number(text));
}

bool cst_csv_is_bare(const char *text) {
    size_t length = strlen(text);
    return length > 0 && text[0] != ' ' && text[length - 1] != ' ' &&
           strcspn(text, ",;\"\t\r\n") == length;
}
