/* The order of classes in which a member's columns fit its confusion matrix, by shortest augmenting
 * paths (Kuhn 1955; Munkres 1957; Jonker and Volgenant 1987). */
#include "data/checks/parts.h"

#include <math.h>
#include <string.h>

/* One more row is assigned. Arrays are counted from 1, with 0 for what is free. */
static void add_row(const double *value, int32_t n, int32_t row, double *u, double *v,
                    double *least, int32_t *row_of, int32_t *way, bool *used) {
    int32_t column = 0;
    row_of[0] = row;
    for (int32_t j = 0; j <= n; j++) {
        least[j] = INFINITY;
        used[j] = false;
    }
    do {
        used[column] = true;
        int32_t i = row_of[column];
        int32_t next = 0;
        double step = INFINITY;
        for (int32_t j = 1; j <= n; j++) {
            if (used[j])
                continue;
            double cost = -value[(size_t)(i - 1) * (size_t)n + (size_t)(j - 1)] - u[i] - v[j];
            if (cost < least[j]) {
                least[j] = cost;
                way[j] = column;
            }
            if (least[j] < step) {
                step = least[j];
                next = j;
            }
        }
        for (int32_t j = 0; j <= n; j++) {
            if (used[j]) {
                u[row_of[j]] += step;
                v[j] -= step;
            } else {
                least[j] -= step;
            }
        }
        column = next;
    } while (row_of[column] != 0);
    while (column != 0) {
        int32_t before = way[column];
        row_of[column] = row_of[before];
        column = before;
    }
}

cst_status cst_assignment(cst_context *context, const double *value, int32_t count, int32_t *to) {
    size_t n = (size_t)count + 1;
    CST_SCOPE(scope);
    CST_NEW(context, scope, double, numbers, 3 * n);
    CST_NEW(context, scope, int32_t, places, 2 * n);
    CST_NEW(context, scope, bool, used, n);
    for (int32_t i = 1; i <= count; i++)
        add_row(value, count, i, numbers, numbers + n, numbers + 2 * n, places, places + n, used);
    for (int32_t j = 1; j <= count; j++)
        to[places[j] - 1] = j - 1;
    return CST_OK;
}

enum { CLASSES_MAX = 1024, FEWEST_PREDICTED = 5, MENTIONED = 3 };

/* Standard errors by which the order has to be better. */
static const double CLEAR = 6;
/* Share of the predictions in columns that would move without being clear by themselves. */
static const double UNCLEAR = 0.2;
/* Top-1 in the other order, relative to that of the best member. */
static const double LIKE_OTHERS = 0.6;

typedef struct order_of_columns {
    int32_t *to;     /* [classes]: the class that each column behaves as */
    bool *clear;     /* [classes]: it does by itself */
    int32_t moved;   /* columns that are another's; 0: none is, or it is not clear */
    double accuracy; /* as it is, and with the order */
    double accuracy_then;
} order_of_columns;

typedef struct search {
    cst_check *check;
    int32_t *confusion; /* [classes][classes]: column, label */
    int32_t *list;      /* [classes]: columns in question */
    bool *listed;       /* [classes] */
    double *value;
    int32_t *assigned;
    order_of_columns *order; /* [members] */
} search;

static int32_t *row_of(const search *s, int32_t column) {
    return s->confusion + (size_t)column * (size_t)s->check->view->classes;
}

/* The label that a column goes with much more than with its own, or -1. */
static int32_t other_label(const search *s, int32_t column) {
    const int32_t *row = row_of(s, column);
    int32_t best = 0;
    for (int32_t l = 1; l < s->check->view->classes; l++)
        if (row[l] > row[best])
            best = l;
    double own = row[column];
    double other = row[best];
    return other >= FEWEST_PREDICTED && other > 2 * own + 3 * sqrt(other) ? best : -1;
}

static int32_t list_columns(search *s) {
    int32_t count = 0;
    memset(s->listed, 0, (size_t)s->check->view->classes * sizeof *s->listed);
    for (int32_t c = 0; c < s->check->view->classes; c++) {
        int32_t other = other_label(s, c);
        for (int32_t i = 0; other >= 0 && i < 2; i++) {
            int32_t which = i == 0 ? c : other;
            if (!s->listed[which])
                s->list[count++] = which;
            s->listed[which] = true;
        }
    }
    return count;
}

/* Whether the assignment of the listed columns is clearly better than the order as it is. */
static void judge(const search *s, int32_t count, order_of_columns *out) {
    int32_t classes = s->check->view->classes;
    double gain = 0;
    double seen = 0;
    double rows = (double)s->check->rows;
    int32_t supported = 0;
    int64_t against = 0;
    int64_t moved = 0;
    for (int32_t c = 0; c < classes; c++)
        out->to[c] = c;
    for (int32_t i = 0; i < count; i++) {
        int32_t c = s->list[i];
        int32_t to = s->list[s->assigned[i]];
        const int32_t *row = row_of(s, c);
        if (to == c)
            continue;
        out->to[c] = to;
        out->moved++;
        gain += row[to] - row[c];
        seen += row[to] + row[c];
        double most = row[to];
        bool clear = most >= FEWEST_PREDICTED && most > 2.0 * row[c] + 3 * sqrt(most);
        int64_t predicted = 0;
        for (int32_t l = 0; l < classes; l++)
            predicted += row[l];
        out->clear[c] = clear;
        supported += clear;
        moved += predicted;
        against += clear ? 0 : predicted;
    }
    out->accuracy_then = out->accuracy + gain / rows;
    bool enough = supported >= (classes == 2 ? 1 : 2) && (double)against <= UNCLEAR * (double)moved;
    if (!enough || gain < CLEAR * sqrt(seen) || out->accuracy_then < 1.5 / classes)
        out->moved = 0;
}

static cst_status look(search *s, const int32_t *top, order_of_columns *out) {
    size_t classes = (size_t)s->check->view->classes;
    memset(s->confusion, 0, classes * classes * sizeof *s->confusion);
    for (int64_t i = 0; i < s->check->rows; i++)
        row_of(s, top[i])[cst_view_label(s->check->view, s->check->position[i])]++;
    for (size_t c = 0; c < classes; c++)
        out->accuracy += row_of(s, (int32_t)c)[c] / (double)s->check->rows;
    int32_t count = list_columns(s);
    if (count < 2)
        return CST_OK;
    for (int32_t i = 0; i < count; i++)
        for (int32_t j = 0; j < count; j++)
            s->value[(size_t)i * (size_t)count + (size_t)j] = row_of(s, s->list[i])[s->list[j]];
    CST_TRY(cst_assignment(s->check->context, s->value, count, s->assigned));
    judge(s, count, out);
    return CST_OK;
}

/* "its column 2 behaves as class 5, column 5 as class 2 and 3 more". */
static void describe(const search *s, const order_of_columns *order, char *text, size_t size) {
    size_t used = 0;
    int32_t said = 0;
    *text = '\0';
    for (int32_t c = 0; c < s->check->view->classes && said < MENTIONED; c++) {
        char class[64];
        if (order->to[c] == c)
            continue;
        (void)cst_snprintf(text + used, size - used, "%scolumn %d behaves as %s", said ? ", " : "",
                           (int)c,
                           cst_class_of(s->check->source->pool, order->to[c], class, sizeof class));
        used += strlen(text + used);
        said++;
    }
    if (order->moved > said)
        (void)cst_snprintf(text + used, size - used, " and %d more", (int)(order->moved - said));
}

/* Whether the clear columns of two members are in one order. */
static bool same(const search *s, int32_t a, int32_t b) {
    const order_of_columns *x = &s->order[a];
    const order_of_columns *y = &s->order[b];
    int32_t both = 0;
    int32_t one = 0;
    for (int32_t c = 0; x->moved > 0 && y->moved > 0 && c < s->check->view->classes; c++) {
        if (x->clear[c] && y->clear[c] && x->to[c] != y->to[c])
            return false;
        both += x->clear[c] && y->clear[c];
        one += x->clear[c] != y->clear[c];
    }
    return both > 0 && both >= one;
}

/* The members whose columns are in the same order as those of `first`. */
static cst_status tell(const search *s, int32_t first) {
    char what[320];
    int32_t count = 0;
    int32_t members = s->check->members;
    const order_of_columns *order = &s->order[first];
    for (int32_t k = 0; k < members; k++) {
        if (!same(s, first, k))
            continue;
        if (k < first)
            return CST_OK; /* said with that one */
        s->check->facts[k].association.explained = true;
        s->check->list[count++] = k;
    }
    describe(s, order, what, sizeof what);
    if (2 * count > members)
        return CST_SAY(
            s->check, "classes", true, count,
            "split '%.60s': the labels number the classes in another order than the columns of the "
            "predictions: in %d of %d members %s; with that order top-1 of '%.60s' would be %.1f%% "
            "instead of %.1f%%. Number the labels as the columns are, or name the classes in both",
            s->check->source->split, (int)count, (int)members, what,
            cst_check_name(s->check, first), 100 * order->accuracy_then, 100 * order->accuracy);
    return CST_SAY(
        s->check, "classes", false, count,
        "the columns of %s are probably in another order than the classes: %s; with that order "
        "top-1 %swould be %.1f%% instead of %.1f%%. Save them in the order of the classes, or name "
        "them in the file",
        cst_check_who(s->check, count), what, count > 1 ? "of the first " : "",
        100 * order->accuracy_then, 100 * order->accuracy);
}

cst_status cst_check_permutations(cst_check *check) {
    size_t classes = (size_t)check->view->classes;
    if (classes < 2 || classes > CLASSES_MAX)
        return CST_OK;
    search s = {.check = check};
    double best = 0;
    CST_SCOPE(scope);
    CST_TAKE(check->context, scope, s.confusion, classes * classes);
    CST_TAKE(check->context, scope, s.list, 2 * classes);
    CST_TAKE(check->context, scope, s.listed, classes);
    CST_TAKE(check->context, scope, s.value, classes * classes);
    CST_TAKE(check->context, scope, s.assigned, classes);
    CST_TAKE(check->context, scope, s.order, check->members);
    for (int32_t k = 0; k < check->members; k++) {
        order_of_columns *order = &s.order[k];
        CST_TAKE(check->context, scope, order->to, classes);
        CST_TAKE(check->context, scope, order->clear, classes);
        if (cst_check_open(check, k))
            CST_TRY(look(&s, check->top + (size_t)k * (size_t)check->rows, order));
        best = fmax(best, fmax(order->accuracy, order->accuracy_then));
    }
    for (int32_t k = 0; k < check->members; k++)
        if (s.order[k].accuracy_then < LIKE_OTHERS * best)
            s.order[k].moved = 0;
    for (int32_t k = 0; k < check->members; k++)
        if (s.order[k].moved > 0)
            CST_TRY(tell(&s, k));
    return CST_OK;
}
