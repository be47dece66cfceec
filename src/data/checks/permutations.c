/* Finds the order of classes in which a member's columns fit its confusion matrix. */
#include "data/checks/parts.h"

#include <math.h>
#include <string.h>

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
    const cst_check_sample *sample;
    cst_member_facts *facts;
    cst_findings *findings;
    int32_t *confusion; /* [classes][classes]: column, label */
    int32_t *list;      /* [classes]: columns in question */
    bool *listed;       /* [classes] */
    double *value;
    int32_t *assigned;
    order_of_columns *order; /* [members] */
} search;

static int32_t *row_of(const search *s, int32_t column) {
    return s->confusion + (size_t)column * (size_t)s->sample->view->classes;
}

/* The label that a column goes with much more than with its own, or -1. */
static int32_t other_label(const search *s, int32_t column) {
    const int32_t *row = row_of(s, column);
    int32_t best = 0;
    for (int32_t l = 1; l < s->sample->view->classes; l++)
        if (row[l] > row[best])
            best = l;
    double own = row[column];
    double other = row[best];
    return other >= FEWEST_PREDICTED && other > 2 * own + 3 * sqrt(other) ? best : -1;
}

static int32_t list_columns(search *s) {
    int32_t count = 0;
    memset(s->listed, 0, (size_t)s->sample->view->classes * sizeof *s->listed);
    for (int32_t c = 0; c < s->sample->view->classes; c++) {
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
    int32_t classes = s->sample->view->classes;
    double gain = 0;
    double seen = 0;
    double rows = (double)s->sample->rows;
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

static cst_status look(cst_context *context, search *s, const int32_t *top, order_of_columns *out) {
    size_t classes = (size_t)s->sample->view->classes;
    memset(s->confusion, 0, classes * classes * sizeof *s->confusion);
    for (int64_t i = 0; i < s->sample->rows; i++)
        row_of(s, top[i])[cst_view_label(s->sample->view, s->sample->position[i])]++;
    for (size_t c = 0; c < classes; c++)
        out->accuracy += row_of(s, (int32_t)c)[c] / (double)s->sample->rows;
    int32_t count = list_columns(s);
    if (count < 2)
        return CST_OK;
    for (int32_t i = 0; i < count; i++)
        for (int32_t j = 0; j < count; j++)
            s->value[(size_t)i * (size_t)count + (size_t)j] = row_of(s, s->list[i])[s->list[j]];
    cst_status status = cst_assignment(context, s->value, count, s->assigned);
    if (status == CST_OK)
        judge(s, count, out);
    return status;
}

/* "its column 2 behaves as class 5, column 5 as class 2 and 3 more". */
static void describe(const search *s, const order_of_columns *order, char *text, size_t size) {
    size_t used = 0;
    int32_t said = 0;
    *text = '\0';
    for (int32_t c = 0; c < s->sample->view->classes && said < MENTIONED; c++) {
        char class[64];
        if (order->to[c] == c)
            continue;
        (void)cst_snprintf(
            text + used, size - used, "%scolumn %d behaves as %s", said ? ", " : "", (int)c,
            cst_class_of(s->sample->source->pool, order->to[c], class, sizeof class));
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
    for (int32_t c = 0; x->moved > 0 && y->moved > 0 && c < s->sample->view->classes; c++) {
        if (x->clear[c] && y->clear[c] && x->to[c] != y->to[c])
            return false;
        both += x->clear[c] && y->clear[c];
        one += x->clear[c] != y->clear[c];
    }
    return both > 0 && both >= one;
}

/* The members whose columns are in the same order as those of `first`. */
static cst_status tell(cst_context *context, const search *s, int32_t first, int32_t *list) {
    char who[256];
    char what[320];
    int32_t count = 0;
    int32_t members = s->sample->view->members;
    const order_of_columns *order = &s->order[first];
    for (int32_t k = 0; k < members; k++) {
        if (!same(s, first, k))
            continue;
        if (k < first)
            return CST_OK; /* said with that one */
        s->facts[k].association.explained = true;
        list[count++] = k;
    }
    describe(s, order, what, sizeof what);
    (void)cst_check_names(s->sample->source, list, count, who, sizeof who);
    if (2 * count > members)
        return cst_findings_add(
            context, s->findings, "classes", true, list, count,
            "split '%.60s': the labels number the classes in another order than the columns of the "
            "predictions: in %d of %d members %s; with that order top-1 of '%.60s' would be %.1f%% "
            "instead of %.1f%%. Number the labels as the columns are, or name the classes in both",
            s->sample->source->split, (int)count, (int)members, what,
            cst_check_name(s->sample->source, first), 100 * order->accuracy_then,
            100 * order->accuracy);
    return cst_findings_add(
        context, s->findings, "classes", false, list, count,
        "the columns of %s are probably in another order than the classes: %s; with that order "
        "top-1 %swould be %.1f%% instead of %.1f%%. Save them in the order of the classes, or name "
        "them in the file",
        who, what, count > 1 ? "of the first " : "", 100 * order->accuracy_then,
        100 * order->accuracy);
}

static cst_status run(cst_context *context, search *s, const int32_t *top) {
    int32_t members = s->sample->view->members;
    size_t classes = (size_t)s->sample->view->classes;
    size_t rows = (size_t)s->sample->rows;
    cst_status status = CST_OK;
    for (int32_t k = 0; status == CST_OK && k < members; k++) {
        s->order[k].to = cst_alloc(context, classes, sizeof *s->order[k].to);
        s->order[k].clear = cst_alloc(context, classes, sizeof *s->order[k].clear);
        status = s->order[k].to && s->order[k].clear ? CST_OK : CST_ERROR_MEMORY;
        if (status == CST_OK && !s->facts[k].association.constant &&
            !s->facts[k].association.explained)
            status = look(context, s, top + (size_t)k * rows, &s->order[k]);
    }
    double best = 0;
    for (int32_t k = 0; k < members; k++)
        best = fmax(best, fmax(s->order[k].accuracy, s->order[k].accuracy_then));
    for (int32_t k = 0; k < members; k++)
        if (s->order[k].accuracy_then < LIKE_OTHERS * best)
            s->order[k].moved = 0;
    int32_t *list = cst_alloc(context, (size_t)members, sizeof *list);
    if (!list)
        return CST_ERROR_MEMORY;
    for (int32_t k = 0; status == CST_OK && k < members; k++)
        if (s->order[k].moved > 0)
            status = tell(context, s, k, list);
    cst_free(context, list);
    return status;
}

cst_status cst_check_permutations(cst_context *context, const cst_check_sample *sample,
                                  const int32_t *top, cst_member_facts *facts,
                                  cst_findings *findings) {
    size_t classes = (size_t)sample->view->classes;
    size_t members = (size_t)sample->view->members;
    if (classes < 2 || classes > CLASSES_MAX)
        return CST_OK;
    search s = {.sample = sample, .facts = facts, .findings = findings};
    s.confusion = cst_alloc(context, classes * classes, sizeof *s.confusion);
    s.list = cst_alloc(context, 2 * classes, sizeof *s.list);
    s.listed = cst_alloc(context, classes, sizeof *s.listed);
    s.value = cst_alloc(context, classes * classes, sizeof *s.value);
    s.assigned = cst_alloc(context, classes, sizeof *s.assigned);
    s.order = cst_alloc(context, members, sizeof *s.order);
    cst_status status = s.confusion && s.list && s.listed && s.value && s.assigned && s.order
                            ? CST_OK
                            : CST_ERROR_MEMORY;
    CST_THEN(run(context, &s, top));
    for (size_t k = 0; s.order && k < members; k++) {
        cst_free(context, s.order[k].to);
        cst_free(context, s.order[k].clear);
    }
    cst_free(context, s.confusion);
    cst_free(context, s.list);
    cst_free(context, s.listed);
    cst_free(context, s.value);
    cst_free(context, s.assigned);
    cst_free(context, s.order);
    return status;
}
