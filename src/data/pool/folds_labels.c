/* Folds for rows with several labels each: iterative stratification, groups undivided. Stage S0.
 * Sechidis, Tsoumakas and Vlahavas (2011); docs/multilabel.md. */
#include "data/pool/pool.h"

#include <math.h>
#include <string.h>

/* A row with its group, to be sorted. */
typedef struct keyed {
    int64_t key;
    int64_t row;
} keyed;

CST_BY(by_key, keyed, CST_UP(key), CST_UP(row), 0)

/* Items are rows, or groups of them. */
typedef struct dealing {
    int64_t items;
    int64_t rows;
    int32_t labels;
    int32_t folds;
    int64_t *item_of;  /* [rows] */
    int64_t *order;    /* [items] shuffled */
    int64_t *size;     /* [items] rows */
    int32_t *positive; /* [items][labels] rows with the label */
    int64_t *left;     /* [labels]: those of items without a fold */
    double *want;      /* [labels][folds] */
    double *room;      /* [folds] rows */
    int32_t *fold;     /* [items]; -1: none yet */
    cst_rng rng;
} dealing;

static cst_status number_items(cst_context *context, const int64_t *groups, dealing *d) {
    CST_SCOPE(scope);
    d->items = d->rows;
    for (int64_t i = 0; i < d->rows; i++)
        d->item_of[i] = i;
    if (!groups)
        return CST_OK;
    CST_NEW(context, scope, keyed, sorted, d->rows);
    for (int64_t i = 0; i < d->rows; i++)
        sorted[i] = (keyed){groups[i], i};
    CST_TRY(cst_sort(context, sorted, (size_t)d->rows, sizeof *sorted, by_key));
    d->items = 0;
    for (int64_t i = 0; i < d->rows; i++) {
        d->items += i == 0 || sorted[i].key != sorted[i - 1].key;
        d->item_of[sorted[i].row] = d->items - 1;
    }
    return CST_OK;
}

static cst_status take_dealing(cst_context *context, cst_scope *scope, const double *targets,
                               uint64_t seed, dealing *d) {
    size_t labels = (size_t)d->labels;
    size_t cells = 0;
    if (!cst_size_mul((size_t)d->items, labels, &cells))
        return cst_fail(context, CST_ERROR_LIMIT, "too many labels");
    CST_TAKE(context, scope, d->order, d->items);
    CST_TAKE(context, scope, d->size, d->items);
    CST_TAKE(context, scope, d->fold, d->items);
    CST_TAKE(context, scope, d->positive, cells);
    CST_TAKE(context, scope, d->left, labels);
    CST_TAKE(context, scope, d->want, labels * (size_t)d->folds);
    CST_TAKE(context, scope, d->room, d->folds);
    for (int64_t i = 0; i < d->rows; i++) {
        int64_t item = d->item_of[i];
        d->size[item]++;
        for (size_t l = 0; l < labels; l++)
            if (targets[(size_t)i * labels + l] > 0.5) {
                d->positive[(size_t)item * labels + l]++;
                d->left[l]++;
            }
    }
    for (int64_t i = 0; i < d->items; i++) {
        d->order[i] = i;
        d->fold[i] = -1;
    }
    cst_rng_init(&d->rng, seed, CST_STREAM_FOLDS, 2);
    cst_rng_shuffle(&d->rng, d->order, d->items);
    for (int32_t f = 0; f < d->folds; f++) {
        d->room[f] = (double)d->rows / d->folds;
        for (size_t l = 0; l < labels; l++)
            d->want[l * (size_t)d->folds + (size_t)f] = (double)d->left[l] / d->folds;
    }
    return CST_OK;
}

/* The fold that wants most of a label (negative: of rows); of equal ones that with most room, then
 * the first from a drawn one on. */
static int32_t best_fold(dealing *d, int32_t label) {
    const double *want = label < 0 ? d->room : d->want + (size_t)label * (size_t)d->folds;
    int32_t first = (int32_t)cst_rng_below(&d->rng, d->folds);
    int32_t best = first;
    for (int32_t i = 1; i < d->folds; i++) {
        int32_t f = (first + i) % d->folds;
        double more = want[f] - want[best];
        if (more > 1e-9 || (more > -1e-9 && d->room[f] > d->room[best] + 1e-9))
            best = f;
    }
    return best;
}

static void place(dealing *d, int64_t item, int32_t fold) {
    d->fold[item] = fold;
    d->room[fold] -= (double)d->size[item];
    for (int32_t l = 0; l < d->labels; l++) {
        int32_t count = d->positive[item * d->labels + l];
        d->left[l] -= count;
        d->want[l * d->folds + fold] -= count;
    }
}

/* The label with the fewest rows left goes first; rows without any label come last. */
static void deal(dealing *d) {
    for (int32_t label = 0; label >= 0;) {
        label = -1;
        for (int32_t l = 0; l < d->labels; l++)
            if (d->left[l] > 0 && (label < 0 || d->left[l] < d->left[label]))
                label = l;
        for (int64_t i = 0; i < d->items; i++) {
            int64_t item = d->order[i];
            if (d->fold[item] < 0 && (label < 0 || d->positive[item * d->labels + label] > 0))
                place(d, item, best_fold(d, label));
        }
    }
}

cst_status cst_folds_labels(cst_context *context, const double *targets, int32_t labels,
                            const int64_t *groups, int64_t rows, int32_t folds, uint64_t seed,
                            int32_t *out) {
    dealing d = {.rows = rows, .labels = labels, .folds = folds};
    CST_SCOPE(scope);
    CST_TAKE(context, scope, d.item_of, rows);
    CST_TRY(number_items(context, groups, &d));
    if (folds < 2 || d.items < folds)
        return cst_fail(context, CST_ERROR_INPUT,
                        "%lld %s cannot be divided into %d folds: use fewer folds%s",
                        (long long)d.items, groups ? "groups" : "rows", folds,
                        groups ? " or smaller groups" : "");
    CST_TRY(take_dealing(context, scope, targets, seed, &d));
    deal(&d);
    for (int64_t i = 0; i < rows; i++)
        out[i] = d.fold[d.item_of[i]];
    return CST_OK;
}
