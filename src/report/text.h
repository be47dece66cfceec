/*
 * Text renderings of a document, one function for each command, and what they share. Last stage of
 * a command without --json.
 */
#ifndef CST_REPORT_TEXT_H
#define CST_REPORT_TEXT_H

#include "report/page.h"

/* `full`: every score and test, the draws of a sweep one by one, every candidate of a soup. */
typedef void cst_text_renderer(cst_page *page, const json_t *root, bool full);
cst_text_renderer cst_text_fit, cst_text_evaluate, cst_text_inspect, cst_text_bound,
    cst_text_predict, cst_text_folds, cst_text_compare, cst_text_ablate, cst_text_sweep,
    cst_text_soup, cst_text_averages, cst_text_show, cst_text_profile, cst_text_online,
    cst_text_adapt, cst_text_suggest, cst_text_monitor;

/* The rows of a document as comma-separated values, and as tables in Markdown and LaTeX. */
typedef void cst_rows_renderer(cst_page *page, const json_t *root, const json_t *rows);
cst_rows_renderer cst_rows_csv, cst_rows_markdown, cst_rows_latex;

/* A line "  label   value", the label padded to a common width. Follow with the value and "\n". */
void cst_text_label(cst_page *page, const char *label);

/* "a 0.42, b 0.31": the numbers of an object by decreasing value, wrapped and indented to the
 * labels' width; "-" when empty. */
void cst_text_weights(cst_page *page, const json_t *object);

/* "a 0.7, b 0.3" from a list of meta-learners, in their order, wrapped alike; no end of line. */
void cst_text_blend(cst_page *page, const json_t *learners);

/* "a, b, c" from a list of strings, wrapped like cst_text_weights. */
void cst_text_names(cst_page *page, const json_t *list);

/* A line with noise level, edge and signal-to-noise ratio of a spectrum. */
void cst_text_noise(cst_page *page, const json_t *object, const char *label);

/* What the ECE of a report means; nothing for NULL. */
void cst_text_definition(cst_page *page, const char *ece);

/* Places in the order of a value: ascending, NaN last, equal values by place. */
typedef struct cst_ranked {
    double value;
    size_t place;
} cst_ranked;

/* [count], each with its own place and no value yet; NULL, which the page notes, without memory.
 * Freed with cst_free. */
cst_ranked *cst_text_ranks(cst_page *page, size_t count);
void cst_text_rank(cst_ranked *ranks, size_t count);

/* Strings of the list at `key`, one line each under the heading; nothing when the list is empty. */
void cst_text_bullets(cst_page *page, const json_t *root, const char *key, const char *heading);

#endif
