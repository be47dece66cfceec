/* Compares the rows of a split with those of a fit. docs/bounds.md#rows-of-the-fit. */
#include "model/seen_rows.h"

#include "model/patterns.h"

#include "data/pool/subset.h"
#include "stats/binomial.h"

#include <math.h>
#include <string.h>

/* A refusal is for what chance does not make: coarse predictions repeat, and repeat elsewhere. */
#define SURE 1e-6
#define UNLIKELY 0.001
enum { FEWEST = 4 }; /* of which a refusal is made */

cst_seen cst_seen_judge(const cst_row_match *match, cst_fit_repeats repeats) {
    int64_t found = match->contents_found;
    int64_t counted = repeats.none ? match->contents : match->single;
    if (found == 0)
        return CST_SEEN_NONE;
    double chance = cst_binomial_upper(repeats.repeated, repeats.rows, SURE);
    if (found == match->contents && counted >= FEWEST && (double)counted * log(chance) < log(SURE))
        return CST_SEEN_ALL;
    if (repeats.none)
        return CST_SEEN_SOME;
    chance = cst_binomial_upper(repeats.repeated, repeats.rows, UNLIKELY);
    return cst_binomial_at_least(found, match->contents, chance) < UNLIKELY ? CST_SEEN_SOME
                                                                            : CST_SEEN_NONE;
}

/* ---- by the model's file ---- */

/* By name and labels where the file has no sketch. */
static cst_seen by_sketch(const cst_fit_rows *fit, const char *split, const uint64_t *sorted,
                          int64_t rows, cst_row_match *match) {
    const cst_row_sketch *sketch = &fit->sketch;
    bool same_name = !strcmp(fit->split, split);
    *match = (cst_row_match){0};
    if (!fit->sketched)
        return cst_fit_rows_named(fit, split) ? CST_SEEN_ALL : CST_SEEN_NONE;
    *match = cst_row_sketch_match(sketch, sorted, rows);
    bool all = match->found > 0 && match->found == match->looked_at;
    if (all && fit->same_labels && (same_name || sketch->repeated == 0))
        return CST_SEEN_ALL;
    /* Contents that are common in the fit are not known here, so its rows speak for them. */
    return cst_seen_judge(match,
                          (cst_fit_repeats){sketch->repeated, sketch->rows, sketch->repeated == 0});
}

/* ---- by the fit's split ---- */

void cst_known_rows_free(cst_context *context, cst_known_rows *known) {
    cst_free(context, known->hashes);
    *known = (cst_known_rows){0};
}

/* A row left out and drawn again: it is common, equals the one other row of its content, or none;
 * the share of the second among the last two. */
static cst_fit_repeats repeats_of(const uint64_t *sorted, int64_t rows) {
    int64_t once = 0;
    int64_t twice = 0; /* rows, two of each content */
    for (int64_t i = 0; i < rows;) {
        int64_t end = i + 1;
        while (end < rows && sorted[end] == sorted[i])
            end++;
        once += end - i == 1;
        twice += end - i == 2 ? 2 : 0;
        i = end;
    }
    return (cst_fit_repeats){twice, once + twice, once == rows};
}

/* The rows that the fit counted, if they are the split's. */
static cst_status read_known(cst_context *context, const cst_model *model, const cst_pool *pool,
                             const cst_fit_rows *fit, cst_known_rows *out) {
    cst_counted counted = {0};
    int32_t *positions = cst_alloc(context, (size_t)model->members, sizeof *positions);
    if (!positions)
        return CST_ERROR_MEMORY;
    for (int32_t k = 0; k < model->members; k++)
        positions[k] = cst_pool_member_index(pool, cst_model_member_name(model, k));
    cst_status status =
        cst_counted_open(context, pool, fit->split, positions, model->members, &counted);
    const cst_view *view = &counted.view;
    if (status == CST_OK && view->labels && !cst_view_has_absent(view) &&
        (!fit->labelled || cst_fit_rows_of(model, view->labels, view->rows).same_labels)) {
        out->rows = view->rows;
        status = cst_row_hashes(context, view, &out->hashes);
    }
    cst_counted_close(context, &counted);
    cst_free(context, positions);
    if (out->hashes)
        out->repeats = repeats_of(out->hashes, out->rows);
    return status;
}

/* Files of the fit's split may be gone, and nothing else here needs them. */
static cst_status or_say(cst_context *context, cst_status status, const char *split) {
    if (status != CST_ERROR_INPUT && status != CST_ERROR_FORMAT && status != CST_ERROR_IO &&
        status != CST_ERROR_MISMATCH)
        return status;
    cst_notice(context, "could not check split '%s' for rows that the model was fitted on: %s",
               split, cst_last_error(context));
    return CST_OK;
}

static cst_status ask(cst_context *context, const cst_model *model, cst_pool *pool,
                      const cst_fit_rows *fit, cst_known_rows *known) {
    if (known->asked || !cst_pool_has_split(pool, fit->split) ||
        cst_pool_conditions(pool, fit->split) > 0)
        return CST_OK;
    const float **pointers = NULL;
    cst_view view = {0};
    cst_status status = cst_model_view(context, model, pool, fit->split, &pointers, &view);
    cst_free(context, pointers); /* loaded, which is what is needed */
    CST_THEN(read_known(context, model, pool, fit, known));
    known->asked = true;
    return or_say(context, status, fit->split);
}

cst_status cst_rows_seen(cst_context *context, const cst_model *model, cst_pool *pool,
                         const cst_fit_rows *fit, const char *split, const cst_view *view,
                         cst_known_rows *known, cst_row_match *match, cst_seen *seen) {
    bool other_name = strcmp(fit->split, split) != 0;
    *match = (cst_row_match){0};
    *seen = CST_SEEN_NONE;
    uint64_t *hashes = NULL;
    cst_view kept = *view;
    kept.members = model->members; /* without those that came back when it was adapted */
    if (cst_view_has_absent(view)) /* what was filled in is not what the fit saw */
        return CST_OK;
    cst_status status = cst_row_hashes(context, &kept, &hashes);
    if (status == CST_OK)
        *seen = by_sketch(fit, split, hashes, view->rows, match);
    bool look = status == CST_OK && other_name && *seen != CST_SEEN_ALL;
    if (look)
        status = ask(context, model, pool, fit, known);
    if (look && status == CST_OK && known->hashes) {
        *match = cst_row_hashes_match(known->hashes, known->rows, UINT64_MAX, hashes, view->rows);
        *seen = cst_seen_judge(match, known->repeats);
    }
    cst_free(context, hashes);
    return status;
}
