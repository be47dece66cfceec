/* Classes that the model of one fold did not know: a column that is constant throughout the fold
 * and varies elsewhere, although rows of the fold have the class. */
#include "checks/parts.h"

#include <float.h>

enum { FEWEST = 5, MENTIONED = 3 };

static const double CONSTANT = 1e-6; /* spread of a column relative to its largest value; a floor */

typedef struct fold_columns {
    const cst_check_sample *sample;
    int32_t folds;
    int64_t *labelled; /* [folds][classes]: rows of the sample */
    int64_t *rows;     /* [folds] */
    int64_t *example;  /* [folds]: a row of the split */
    float *least;      /* [folds][classes] of the member looked at, and the largest */
    float *most;
    int64_t *lost; /* [members]: rows whose own class is such a column */
} fold_columns;

static int32_t fold_of(const fold_columns *f, int64_t i) {
    return f->sample->source->folds[f->sample->position[i]];
}

static void count_rows(const fold_columns *f) {
    const cst_check_source *source = f->sample->source;
    for (int64_t i = f->sample->rows - 1; i >= 0; i--) {
        int64_t at = f->sample->position[i];
        int32_t fold = fold_of(f, i);
        f->rows[fold]++;
        f->labelled[fold * f->sample->view->classes + cst_view_label(f->sample->view, at)]++;
        f->example[fold] = source->rows ? source->rows[at] : at;
    }
}

static cst_status read_member(cst_context *context, const fold_columns *f, int32_t k, float *rows) {
    int32_t classes = f->sample->view->classes;
    cst_status status = CST_OK;
    for (int64_t j = 0; j < (int64_t)f->folds * classes; j++) {
        f->least[j] = FLT_MAX;
        f->most[j] = 0;
    }
    for (int64_t at = 0; status == CST_OK && at < f->sample->rows; at += CST_BLOCK_ROWS) {
        int64_t count = cst_block_size(f->sample->rows, at / CST_BLOCK_ROWS);
        status = cst_check_read(context, f->sample, k, at, count, rows);
        for (int64_t i = 0; status == CST_OK && i < count; i++) {
            float *least = f->least + (int64_t)fold_of(f, at + i) * classes;
            float *most = f->most + (int64_t)fold_of(f, at + i) * classes;
            for (int32_t c = 0; c < classes; c++) {
                float p = rows[i * classes + c];
                least[c] = p < least[c] ? p : least[c];
                most[c] = p > most[c] ? p : most[c];
            }
        }
    }
    return status;
}

static bool constant_in(const fold_columns *f, int32_t fold, int32_t c) {
    size_t at = (size_t)fold * (size_t)f->sample->view->classes + (size_t)c;
    if (f->labelled[at] >= FEWEST && (double)f->most[at] <= CONSTANT) /* a floor, scaled to sum 1 */
        return true;
    return (double)f->most[at] - (double)f->least[at] <= CONSTANT * (double)f->most[at];
}

/* Whether a column is constant in the fold, and larger somewhere where it is not. */
static bool lacks(const fold_columns *f, int32_t fold, int32_t c) {
    size_t classes = (size_t)f->sample->view->classes;
    size_t at = (size_t)fold * classes + (size_t)c;
    bool elsewhere = false;
    if (f->rows[fold] < FEWEST || f->labelled[at] < 1 || !constant_in(f, fold, c))
        return false;
    for (int32_t other = 0; other < f->folds; other++)
        elsewhere = elsewhere || (f->rows[other] > 0 && !constant_in(f, other, c) &&
                                  f->most[(size_t)other * classes + (size_t)c] > 10 * f->most[at]);
    return elsewhere;
}

/* "class 2 in fold 0 (that of row 4; 60 rows, 20 of the class)". Returns how many there are. */
static int32_t describe(const fold_columns *f, int32_t k, char *text, size_t size) {
    size_t used = 0;
    int32_t found = 0;
    int32_t classes = f->sample->view->classes;
    *text = '\0';
    for (int32_t fold = 0; fold < f->folds; fold++)
        for (int32_t c = 0; c < classes; c++) {
            char class[64];
            if (!lacks(f, fold, c))
                continue;
            int64_t own = f->labelled[(int64_t)fold * classes + c];
            f->lost[k] += own;
            if (++found > MENTIONED)
                continue;
            (void)cst_snprintf(text + used, size - used,
                               "%s%s in fold %d (that of row %lld; %lld rows, %lld of the class)",
                               found > 1 ? ", " : "",
                               cst_class_of(f->sample->source->pool, c, class, sizeof class),
                               (int)fold, (long long)f->example[fold], (long long)f->rows[fold],
                               (long long)own);
            used += strlen(text + used);
        }
    if (found > MENTIONED)
        (void)cst_snprintf(text + used, size - used, " and %d more", (int)(found - MENTIONED));
    return found;
}

static cst_status tell(cst_context *context, const fold_columns *f, cst_member_facts *facts,
                       float *rows, cst_findings *findings) {
    cst_status status = CST_OK;
    int32_t members = f->sample->view->members;
    int32_t useless = 0;
    size_t first = findings->count;
    for (int32_t k = 0; status == CST_OK && k < members; k++) {
        char what[512];
        status = read_member(context, f, k, rows);
        if (status != CST_OK || facts[k].association.constant ||
            describe(f, k, what, sizeof what) == 0)
            continue;
        bool most = 2 * f->lost[k] > f->sample->rows;
        useless += most;
        facts[k].association.explained = true;
        status = cst_findings_add(
            context, findings, "folds", false, &k, 1,
            "'%.60s' has one probability throughout a fold, and others elsewhere, for %s: its "
            "model of that fold was trained without rows of the class. %s",
            cst_check_name(f->sample->source, k), what,
            most ? "Make folds that share out every class (`corestack folds`, StratifiedKFold) and "
                   "predict out-of-fold again"
                 : "Write NaN in every column of its rows of that fold and use --missing allow, or "
                   "make folds that share out every class and predict out-of-fold again");
    }
    for (size_t i = first; i < findings->count; i++) /* what is left is no fit */
        findings->list[i].fatal = 2 * useless > members;
    return status;
}

cst_status cst_check_fold_columns(cst_context *context, const cst_check_sample *sample,
                                  cst_member_facts *facts, cst_findings *findings) {
    fold_columns f = {.sample = sample};
    const int32_t *folds = sample->source->folds;
    size_t classes = (size_t)sample->view->classes;
    for (int64_t i = 0; folds && i < sample->view->rows; i++)
        f.folds = folds[i] >= f.folds ? folds[i] + 1 : f.folds;
    if (f.folds < 2 || (size_t)f.folds * classes > 4000000)
        return CST_OK;
    size_t cells = (size_t)f.folds * classes;
    f.labelled = cst_alloc(context, cells, sizeof *f.labelled);
    f.rows = cst_alloc(context, (size_t)f.folds, sizeof *f.rows);
    f.example = cst_alloc(context, (size_t)f.folds, sizeof *f.example);
    f.least = cst_alloc(context, cells, sizeof *f.least);
    f.most = cst_alloc(context, cells, sizeof *f.most);
    f.lost = cst_alloc(context, (size_t)sample->view->members, sizeof *f.lost);
    float *rows = cst_alloc(context, CST_BLOCK_ROWS * classes, sizeof *rows);
    cst_status status = f.labelled && f.rows && f.example && f.least && f.most && f.lost && rows
                            ? CST_OK
                            : CST_ERROR_MEMORY;
    if (status == CST_OK) {
        count_rows(&f);
        status = tell(context, &f, facts, rows, findings);
    }
    cst_free(context, f.labelled);
    cst_free(context, f.rows);
    cst_free(context, f.example);
    cst_free(context, f.least);
    cst_free(context, f.most);
    cst_free(context, f.lost);
    cst_free(context, rows);
    return status;
}
