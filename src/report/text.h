/* Text pages of documents: rows of {test, test of, label, template}, interpreted by one
 * function. */
#pragma once

#include "report/table.h"

typedef void cst_text_code(cst_page *page, const json_t *root);

typedef enum cst_row_kind {
    CST_ROW_END = 0,
    CST_ROW_TITLE, /* the command in bold, then the template */
    CST_ROW_HEADING,
    CST_ROW_LINE,
    CST_ROW_TEXT,
    CST_ROW_PARAGRAPH,
    CST_ROW_BULLETS, /* strings of a list, one line each */
    CST_ROW_EACH,    /* the template over each entry of a list */
    CST_ROW_TABLE,
    CST_ROW_GROUP,
    CST_ROW_CODE
} cst_row_kind;

/* Left out unless what is at the path `about` is there, neither null, false nor empty. */
typedef struct cst_text_row {
    cst_row_kind kind;
    const char *about; /* NULL: the document */
    const char *label; /* of EACH: the template */
    const char *text;  /* a template of page.h: of a heading over the document, else over `about` */
    const cst_column *columns;
    cst_shows_fn *shows; /* as in table.h, with the next */
    const char *mark;
    const struct cst_text_row *rows; /* of a group, over the document */
    cst_text_code *code;
    bool full; /* only in full */
} cst_text_row;

#define CST_TITLE(words)                                                                           \
    { .kind = CST_ROW_TITLE, .text = (words) }
#define CST_HEADING(words)                                                                         \
    { .kind = CST_ROW_HEADING, .text = (words) }
#define CST_LINE(of, name, words)                                                                  \
    { .kind = CST_ROW_LINE, .about = (of), .label = (name), .text = (words) }
#define CST_TEXT(of, words)                                                                        \
    { .kind = CST_ROW_TEXT, .about = (of), .text = (words) }
#define CST_PARAGRAPH(of, words)                                                                   \
    { .kind = CST_ROW_PARAGRAPH, .about = (of), .text = (words) }
#define CST_BULLETS(of, words)                                                                     \
    { .kind = CST_ROW_BULLETS, .about = (of), .text = (words) }
/* Under a heading, unless that is NULL. */
#define CST_EACH(of, words, each)                                                                  \
    { .kind = CST_ROW_EACH, .about = (of), .text = (words), .label = (each) }
#define CST_TABLE(of, words, list)                                                                 \
    { .kind = CST_ROW_TABLE, .about = (of), .text = (words), .columns = (list) }
#define CST_MARKED(of, words, list, shown, flag)                                                   \
    {                                                                                              \
        .kind = CST_ROW_TABLE, .about = (of), .text = (words), .columns = (list),                  \
        .shows = (shown), .mark = (flag)                                                           \
    }
#define CST_GROUP(of, list)                                                                        \
    { .kind = CST_ROW_GROUP, .about = (of), .rows = (list) }
#define CST_FULL(list)                                                                             \
    { .kind = CST_ROW_GROUP, .rows = (list), .full = true }
#define CST_CODE(of, function)                                                                     \
    { .kind = CST_ROW_CODE, .about = (of), .code = (function) }
#define CST_SUSPECTS                                                                               \
    CST_EACH("noise.suspects", "Labels that are probably wrong",                                   \
             "  [id {id}|row {row:0}]: label {label}, likely {likely} (the label has probability " \
             "{probability:g3})\n")
#define CST_NOTICES CST_BULLETS("notices", "Notices")
#define CST_ROWS(...)                                                                              \
    {                                                                                              \
        __VA_ARGS__, {                                                                             \
            .kind = CST_ROW_END                                                                    \
        }                                                                                          \
    }

void cst_text_rows(cst_page *page, const json_t *root, const cst_text_row *rows);

/* The key of the members' loss, or their AP; "" where none has one. The best member by it, or
 * NULL. */
const char *cst_text_loss(const json_t *root);
const json_t *cst_text_best_member(const json_t *root);
/* A fit in few lines, in place of its page in full. */
extern const cst_text_row cst_text_screen[];

/* The page of each command. */
extern const cst_text_row cst_text_fit[], cst_text_evaluate[], cst_text_inspect[], cst_text_bound[],
    cst_text_predict[], cst_text_folds[], cst_text_compare[], cst_text_ablate[], cst_text_sweep[],
    cst_text_soup[], cst_text_swa[], cst_text_swag[], cst_text_show[], cst_text_profile[],
    cst_text_online[], cst_text_adapt[], cst_text_suggest[], cst_text_monitor[], cst_text_export[];

/* Of a cascade: what it costs and how sure that is. */
#define CST_CASCADE                                                                                \
    "{cost:%1}% of the {cost_of} of all; of {tested:0} rows that the thresholds were not chosen "  \
    "on, {failed:0} {risk=error?with an error that the stack does not make|decided otherwise "     \
    "than by the stack}[: at most {bound:%g3}% of rows, with {confidence:%g4}% confidence]; NLL "  \
    "changes by [{nll_change:4}|-]"
/* " (effectively 12.5, by their weights)", where the rows of a document have weights. */
#define CST_EFFECTIVE "[ (effectively {effective_samples:1}, by their weights)]"
/* Noise level, edge and signal-to-noise ratio of a spectrum. */
#define CST_SPECTRUM                                                                               \
    "sigma2 {sigma2:g4}, Marchenko-Pastur edge {mp_edge:g4}, SNR {snr:g4}  (of the "               \
    "{spectrum_of=oof?out-of-fold columns|meta-features})"
/* The definition of the ECE of a report. */
#define CST_ECE "ECE: {ece_definition}. NLL: mean over samples, in nats."

/* Notices and seconds at the end. */
cst_text_code cst_text_end;
/* Coverage and width of prediction intervals by level, and the outputs if several. */
void cst_text_coverage(cst_page *page, const json_t *rows);
cst_text_code cst_text_outputs;
cst_text_code cst_text_labels;
