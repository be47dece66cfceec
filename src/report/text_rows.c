/* The one function that interprets the rows of a text page. See the header. */
#include "report/text.h"

static void show_table(cst_page *page, const json_t *root, const json_t *rows,
                       const cst_text_row *row) {
    cst_table table = {
        .page = page, .root = root, .rows = rows, .shows = row->shows, .mark = row->mark};
    cst_table_add(&table, row->columns);
    cst_table_print(&table);
}

static void print_row(cst_page *page, const json_t *root, const cst_text_row *row) {
    const json_t *about = cst_json_at(root, row->about);
    if ((row->about && !cst_json_is_there(about)) || (row->full && !page->full))
        return;
    bool headed =
        row->kind == CST_ROW_TABLE || row->kind == CST_ROW_BULLETS || row->kind == CST_ROW_EACH;
    if (row->kind == CST_ROW_HEADING || (headed && row->text))
        cst_page_heading(page, root, row->text);
    switch (row->kind) {
    case CST_ROW_TITLE:
        cst_page_styled(page, CST_BOLD, "corestack %s", cst_json_text(root, "command"));
        cst_page_fill(page, root, row->text);
        break;
    case CST_ROW_LINE:
        cst_page_line(page, about, row->label, row->text);
        break;
    case CST_ROW_TEXT:
        cst_page_fill(page, about, row->text);
        break;
    case CST_ROW_PARAGRAPH:
        cst_page_paragraph(page, about, row->text);
        break;
    case CST_ROW_BULLETS:
        for (size_t i = 0; i < json_array_size(about); i++)
            cst_page_fill(page, json_array_get(about, i), "  - [{}]\n");
        break;
    case CST_ROW_EACH:
        for (size_t i = 0; i < json_array_size(about); i++)
            cst_page_fill(page, json_array_get(about, i), row->label);
        break;
    case CST_ROW_TABLE:
        show_table(page, root, about, row);
        break;
    case CST_ROW_GROUP:
        cst_text_rows(page, root, row->rows);
        break;
    case CST_ROW_CODE:
        row->code(page, root);
        break;
    case CST_ROW_HEADING:
    case CST_ROW_END:
        break;
    }
}

void cst_text_rows(cst_page *page, const json_t *root, const cst_text_row *rows) {
    for (; rows->kind != CST_ROW_END; rows++)
        print_row(page, root, rows);
}
