/* Order of numbers, of text and of structs, for cst_sort, qsort and bsearch. In sort.c. */
#ifndef CST_ORDER_H
#define CST_ORDER_H

int cst_by_f64(const void *a, const void *b);
int cst_by_i64(const void *a, const void *b);
int cst_by_u64(const void *a, const void *b);
int cst_by_u32(const void *a, const void *b);
int cst_by_text(const void *a, const void *b);

/* CST_BY(name, type, first, second, third) defines a comparator of structs by up to three fields,
 * each CST_UP(field), CST_DOWN(field) or 0. */
#define CST_UP(key) ((x->key > y->key) - (x->key < y->key))
#define CST_DOWN(key) ((x->key < y->key) - (x->key > y->key))
#define CST_BY(name, type, first, second, third)                                                   \
    static int name(const void *a, const void *b) {                                                \
        const type *x = a;                                                                         \
        const type *y = b;                                                                         \
        int order = (first);                                                                       \
        order = order ? order : (second);                                                          \
        return order ? order : (third);                                                            \
    }

#endif
