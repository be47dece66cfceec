/* Ascending order of numbers and of text, for cst_sort, qsort and bsearch. In sort.c. */
#ifndef CST_ORDER_H
#define CST_ORDER_H

int cst_by_f64(const void *a, const void *b);
int cst_by_i64(const void *a, const void *b);
int cst_by_u64(const void *a, const void *b);
int cst_by_u32(const void *a, const void *b);
int cst_by_text(const void *a, const void *b);

#endif
