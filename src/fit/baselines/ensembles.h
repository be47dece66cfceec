/* Members tagged as parts of one ensemble, and what each weighs in their mean. */
#pragma once

#include "data/pool/pool.h"

/* Members averaged per kind. */
typedef struct cst_ensemble_rule {
    cst_ensemble_kind kind;
    bool group;    /* members of one `of` are averaged; otherwise each stands alone */
    bool passes;   /* weighted by forward passes: one average over all passes */
    int32_t least; /* members that a group must have */
} cst_ensemble_rule;

/* The rule of a kind; NULL for CST_ENSEMBLE_NONE. */
const cst_ensemble_rule *cst_ensemble_rule_of(cst_ensemble_kind kind);

/* Size of the group whose first member is `first`, or 0 where it is too small or begins elsewhere.
 * weights [members], or NULL: each member's share of the group's mean. */
int32_t cst_ensemble_group(const cst_ensemble_rule *rule, const cst_member_ensemble *tags,
                           int32_t members, int32_t first, double *weights);

/* Whether there is a group; tags may be NULL. */
bool cst_ensemble_applies(const cst_ensemble_rule *rule, const cst_member_ensemble *tags,
                          int32_t members);

typedef struct cst_ensemble_choice {
    int32_t first;  /* its first member */
    int32_t size;   /* 0: none was chosen */
    int32_t groups; /* there are to choose from */
} cst_ensemble_choice;

/* "of 'NAME', 3 members; 2 candidates", the name cut between characters of UTF-8. */
void cst_ensemble_describe(const cst_member_ensemble *tags, const cst_ensemble_choice *choice,
                           char *detail, size_t room);
