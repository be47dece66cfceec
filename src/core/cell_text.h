/* Kinds of cells of delimited text: a number, a formula of a spreadsheet, bare text. */
#pragma once

#include <stdbool.h>

/* Whether a text is a number with a decimal point, "nan" or "inf"; blank is not. */
bool cst_csv_is_number(const char *text);
/* Whether a text is a number in another form, or several: "0,5", "50%", "1 2", "$3". */
bool cst_csv_is_odd_number(const char *text);
/* Whether a cell says that its value is missing, as other programs write it; an empty one does. */
bool cst_csv_is_missing(const char *text);

/* Whether a spreadsheet would take a text for a formula: it begins with = + - @, a tab or a line
 * end, and is no number; apostrophes and spaces before that are passed over. Writers put an
 * apostrophe before such a text, and the reader takes one away, so that it reads back as it was. */
bool cst_csv_is_formula(const char *text);
/* Whether a text reads back as it is without quotes, whatever of , ; and tab is the delimiter. */
bool cst_csv_is_bare(const char *text);
