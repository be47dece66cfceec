/* A score as a column of tables. */
#pragma once

#include <stdbool.h>

typedef struct cst_score_spec {
    const char *key;   /* in documents; the 95% interval is KEY_ci, if there is one */
    const char *label; /* heading of the column */
    int decimals;      /* of value * scale, in tables */
    double scale;
    bool higher_is_better;
    bool has_interval;      /* a bootstrap interval is computed in comparisons */
    bool in_table;          /* a column of the methods' table; others are further scores */
    bool interval_in_table; /* the table that shows it has room for its interval */
    bool in_summary;        /* mean and standard deviation over the draws of a sweep */
    bool negative_is_none;  /* a negative value means that there is nothing to score */
} cst_score_spec;
