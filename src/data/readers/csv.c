/* Records of delimited text, read in chunks. Under cst_table. */
#include "data/readers/csv.h"
#include "data/files/bytes.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

enum { CHUNK_BYTES = 1 << 16, CELLS_MAX = 1 << 24, END = -1 };
#define RECORD_BYTES_MAX ((size_t)1 << 28)

static cst_status fill(cst_context *context, cst_csv *csv) {
    uint64_t left = cst_bytes_size(csv->source) - csv->offset;
    size_t bytes = left < CHUNK_BYTES ? (size_t)left : CHUNK_BYTES;
    CST_TRY(cst_bytes_read(context, csv->source, csv->offset, csv->chunk, bytes));
    csv->offset += bytes;
    csv->chunk_used = bytes;
    csv->chunk_at = 0;
    return CST_OK;
}

/* The next byte without taking it, or END. A NUL is an error: text has none. */
static cst_status peek(cst_context *context, cst_csv *csv, int *byte) {
    *byte = END;
    if (csv->chunk_at == csv->chunk_used) {
        if (csv->offset == cst_bytes_size(csv->source))
            return CST_OK;
        CST_TRY(fill(context, csv));
    }
    *byte = csv->chunk[csv->chunk_at];
    if (*byte == 0)
        return cst_fail(context, CST_ERROR_FORMAT,
                        "%s: line %" PRId64 ", column %d: a NUL byte; this is not a text file",
                        cst_bytes_name(csv->source), csv->line, csv->cell_count + 1);
    return CST_OK;
}

/* Adds bytes to the text of the record. */
static cst_status put(cst_context *context, cst_csv *csv, const void *bytes, size_t count) {
    while (csv->text_room - csv->text_used < count) {
        size_t room = csv->text_room ? csv->text_room * 2 : 1024;
        if (room > RECORD_BYTES_MAX)
            return cst_fail(context, CST_ERROR_LIMIT,
                            "%s: line %" PRId64
                            " is longer than %zu bytes; is a closing quote missing?",
                            cst_bytes_name(csv->source), csv->record_line, RECORD_BYTES_MAX);
        char *text = cst_grow(context, csv->text, csv->text_used, room, 1);
        if (!text)
            return CST_ERROR_MEMORY;
        csv->text = text;
        csv->text_room = room;
    }
    memcpy(csv->text + csv->text_used, bytes, count);
    csv->text_used += count;
    return CST_OK;
}

/* Takes the bytes of the chunk up to one that may end an unquoted cell, or is an error. */
static cst_status put_plain(cst_context *context, cst_csv *csv) {
    const unsigned char *from = csv->chunk + csv->chunk_at;
    size_t most = csv->chunk_used - csv->chunk_at;
    size_t count = 0;
    while (count < most && from[count] != (unsigned char)csv->delimiter && from[count] != '\n' &&
           from[count] != '\r' && from[count] != 0)
        count++;
    csv->chunk_at += count;
    return put(context, csv, from, count);
}

static cst_status start_cell(cst_context *context, cst_csv *csv) {
    if (csv->cell_count == csv->cell_room) {
        int32_t room = csv->cell_room ? csv->cell_room * 2 : 64;
        if (room > CELLS_MAX)
            return cst_fail(context, CST_ERROR_LIMIT, "%s: line %" PRId64 " has more than %d cells",
                            cst_bytes_name(csv->source), csv->record_line, CELLS_MAX);
        size_t *cells =
            cst_grow(context, csv->cells, (size_t)csv->cell_room, (size_t)room, sizeof *cells);
        if (!cells)
            return CST_ERROR_MEMORY;
        csv->cells = cells;
        csv->cell_room = room;
    }
    csv->cells[csv->cell_count] = csv->text_used;
    return CST_OK;
}

/* Closes the current cell; spaces around an unquoted one are dropped, and so is the apostrophe that
 * keeps a text from being a formula. */
static cst_status end_cell(cst_context *context, cst_csv *csv, bool quoted) {
    size_t start = csv->cells[csv->cell_count];
    while (!quoted && !csv->raw && csv->text_used > start &&
           (csv->text[csv->text_used - 1] == ' ' || csv->text[csv->text_used - 1] == '\t'))
        csv->text_used--;
    CST_TRY(put(context, csv, "", 1));
    char *cell = csv->text + start;
    if (*cell == '\'' && !csv->raw && cst_csv_is_formula(cell))
        memmove(cell, cell + 1, --csv->text_used - start);
    csv->cell_count++;
    return CST_OK;
}

/* The inside of a quoted cell and its closing quote. */
static cst_status read_quoted(cst_context *context, cst_csv *csv) {
    int64_t opened = csv->line;
    for (;;) {
        int byte = 0;
        CST_TRY(peek(context, csv, &byte));
        if (byte == END)
            return cst_fail(context, CST_ERROR_FORMAT,
                            "%s: line %" PRId64
                            ", column %d: the closing quote of a cell is missing",
                            cst_bytes_name(csv->source), opened, csv->cell_count + 1);
        csv->chunk_at++;
        csv->line += byte == '\n';
        if (byte == '"') {
            if (csv->raw)
                CST_TRY(put(context, csv, "\"", 1));
            CST_TRY(peek(context, csv, &byte));
            if (byte != '"')
                return CST_OK;
            csv->chunk_at++;
        }
        CST_TRY(put(context, csv, &(char){(char)byte}, 1));
    }
}

/* Takes the line end that `byte` begins. */
static cst_status take_line_end(cst_context *context, cst_csv *csv, int byte) {
    csv->chunk_at++;
    csv->line++;
    if (byte != '\r')
        return CST_OK;
    CST_TRY(peek(context, csv, &byte));
    csv->chunk_at += byte == '\n';
    return CST_OK;
}

/* One cell. *last is set when the record ends with it; *blank when nothing at all was there. */
static cst_status read_cell(cst_context *context, cst_csv *csv, bool *last, bool *blank) {
    bool quoted = false;
    bool started = false; /* something other than a space was seen */
    *last = false;
    CST_TRY(start_cell(context, csv));
    for (;;) {
        int byte = 0;
        CST_TRY(peek(context, csv, &byte));
        if (byte == END || byte == '\n' || byte == '\r' || byte == csv->delimiter) {
            *last = byte != csv->delimiter;
            *blank = *last && !started;
            if (!*last)
                csv->chunk_at++;
            else if (byte != END)
                CST_TRY(take_line_end(context, csv, byte));
            return end_cell(context, csv, quoted);
        }
        bool space = byte == ' ' || byte == '\t';
        if (!quoted && (started || (!space && byte != '"'))) {
            started = true;
            CST_TRY(put_plain(context, csv));
            continue;
        }
        csv->chunk_at++;
        if (csv->raw)
            CST_TRY(put(context, csv, &(char){(char)byte}, 1));
        if (!started && !space) {
            quoted = true;
            started = true;
            CST_TRY(read_quoted(context, csv));
        } else if (!space) {
            return cst_fail(context, CST_ERROR_FORMAT,
                            "%s: line %" PRId64 ", column %d: text after a closing quote",
                            cst_bytes_name(csv->source), csv->line, csv->cell_count + 1);
        }
    }
}

static cst_status read_record(cst_context *context, cst_csv *csv, bool *end, bool *blank) {
    int byte = 0;
    csv->cell_count = 0;
    csv->text_used = 0;
    csv->record_line = csv->line;
    *blank = false;
    CST_TRY(peek(context, csv, &byte));
    *end = byte == END;
    for (bool last = *end; !last;) {
        bool nothing = false;
        CST_TRY(read_cell(context, csv, &last, &nothing));
        *blank = nothing && csv->cell_count == 1;
    }
    return CST_OK;
}

/* Takes line ends that follow each other in the chunk; there may be millions at the end of a file.
 */
static void skip_empty_lines(cst_csv *csv) {
    size_t at = csv->chunk_at;
    for (size_t pair = 0; at < csv->chunk_used; at += 1 + pair) {
        pair = csv->chunk[at] == '\r' && at + 1 < csv->chunk_used && csv->chunk[at + 1] == '\n';
        if (csv->chunk[at] != '\n' && !pair)
            break;
        csv->line++;
    }
    csv->chunk_at = at;
}

/* The next record of the open file. */
static cst_status next_record(cst_context *context, cst_csv *csv, bool *end) {
    bool blank = false;
    CST_TRY(read_record(context, csv, end, &blank));
    int64_t empty_line = csv->record_line;
    while (blank && !*end) {
        skip_empty_lines(csv);
        CST_TRY(read_record(context, csv, end, &blank));
        if (!*end && !blank)
            return cst_fail(context, CST_ERROR_FORMAT,
                            "%s: line %" PRId64 " is empty, but data follow; remove it",
                            cst_bytes_name(csv->source), empty_line);
    }
    if (*end)
        return CST_OK;
    csv->records++;
    if (csv->columns == 0)
        csv->columns = csv->cell_count;
    if (csv->cell_count != csv->columns)
        return cst_fail(
            context, CST_ERROR_FORMAT,
            "%s: line %" PRId64
            " has %d cells, but the first line has %d; the last one read is column %d%s",
            cst_bytes_name(csv->source), csv->record_line, csv->cell_count, csv->columns,
            csv->cell_count,
            csv->records == 2 && csv->cell_count > csv->columns
                ? "; is line 1 a comment, or does it lack the name of a column?"
                : "");
    return CST_OK;
}

/* Skips a byte order mark; UTF-16 is named as such. */
static cst_status skip_mark(cst_context *context, cst_csv *csv) {
    const unsigned char *b = csv->chunk;
    CST_TRY(fill(context, csv));
    CST_TRY(cst_refuse_format(context, cst_bytes_name(csv->source), b, csv->chunk_used));
    if (csv->chunk_used < 2)
        return CST_OK;
    if ((b[0] == 0xff && b[1] == 0xfe) || (b[0] == 0xfe && b[1] == 0xff))
        return cst_fail(context, CST_ERROR_FORMAT,
                        "%s: line 1, column 1: this is UTF-16 text; save it as UTF-8",
                        cst_bytes_name(csv->source));
    if (csv->chunk_used >= 3 && b[0] == 0xef && b[1] == 0xbb && b[2] == 0xbf)
        csv->chunk_at = 3;
    return CST_OK;
}

/* From the first byte of the open file. */
static cst_status start(cst_context *context, cst_csv *csv) {
    csv->offset = 0;
    csv->chunk_used = 0;
    csv->chunk_at = 0;
    csv->line = 1;
    return skip_mark(context, csv);
}

/* ---- parts ---- */

static cst_status open_part(cst_context *context, cst_csv *csv, int64_t part) {
    cst_bytes_close(context, csv->source);
    csv->source = NULL;
    csv->part = part;
    CST_TRY(cst_bytes_open(context, &csv->source, csv->files->paths[part], csv->zip_limit));
    return start(context, csv);
}

/* Remembers the first record of the first part. */
static cst_status keep_head(cst_context *context, cst_csv *csv) {
    csv->head = cst_alloc(context, csv->text_used, 1);
    if (!csv->head)
        return CST_ERROR_MEMORY;
    memcpy(csv->head, csv->text, csv->text_used);
    csv->head_used = csv->text_used;
    return CST_OK;
}

static cst_status no_rows(cst_context *context, const cst_csv *csv) {
    return cst_fail(context, CST_ERROR_INPUT, "%s: has no rows; remove it from the parts",
                    cst_bytes_name(csv->source));
}

/* The first record of data of the next part. */
static cst_status next_part(cst_context *context, cst_csv *csv, bool *end) {
    CST_TRY(open_part(context, csv, csv->part + 1));
    CST_TRY(next_record(context, csv, end));
    bool same = !*end && csv->text_used == csv->head_used &&
                memcmp(csv->text, csv->head, csv->head_used) == 0;
    if (csv->header && !*end && !same)
        return cst_fail(
            context, CST_ERROR_MISMATCH,
            "%s: line 1 differs from that of %s; parts need the same columns in the same "
            "order",
            cst_bytes_name(csv->source), csv->files->paths[0]);
    if (same && csv->header)
        CST_TRY(next_record(context, csv, end));
    return *end ? no_rows(context, csv) : CST_OK;
}

cst_status cst_csv_next(cst_context *context, cst_csv *csv, bool *end) {
    bool first = csv->records == 0;
    CST_TRY(next_record(context, csv, end));
    if (!csv->files)
        return CST_OK;
    if (first && !*end && !csv->head)
        return keep_head(context, csv);
    if (!*end || !csv->go_on || csv->part + 1 == csv->files->count)
        return CST_OK;
    if (csv->part == 0 && csv->records == (int64_t)csv->header)
        return no_rows(context, csv);
    return next_part(context, csv, end);
}

void cst_csv_go_on(cst_csv *csv, bool header) {
    csv->go_on = true;
    csv->header = header;
}

cst_status cst_csv_rewind(cst_context *context, cst_csv *csv) {
    csv->records = 0;
    return csv->part > 0 ? open_part(context, csv, 0) : start(context, csv);
}

/* The delimiter is the one that the first line has most of. */
static char find_delimiter(const cst_csv *csv) {
    static const char candidates[] = ",;\t";
    int counts[3] = {0, 0, 0};
    bool quoted = false;
    for (size_t i = csv->chunk_at; i < csv->chunk_used; i++) {
        char byte = (char)csv->chunk[i];
        if (byte == '"')
            quoted = !quoted;
        if (!quoted && (byte == '\n' || byte == '\r'))
            break;
        for (int k = 0; k < 3 && !quoted; k++)
            counts[k] += byte == candidates[k];
    }
    int best = 0;
    for (int k = 1; k < 3; k++)
        if (counts[k] > counts[best])
            best = k;
    return candidates[best];
}

static void close_csv(cst_context *context, void *object) {
    cst_csv *csv = object;
    cst_bytes_close(context, csv->source);
    cst_free(context, csv->text);
    cst_free(context, csv->cells);
    cst_free(context, csv->head);
}

cst_status cst_csv_open(cst_context *context, cst_scope *scope, cst_csv **out,
                        const cst_row_source *source) {
    *out = NULL;
    CST_NEW(context, scope, cst_csv, csv, 1);
    CST_TAKE(context, scope, csv->chunk, CHUNK_BYTES);
    CST_TRY(cst_scope_own(context, scope, close_csv, csv));
    csv->files = source->parts;
    csv->zip_limit = source->zip_limit;
    CST_TRY(cst_bytes_open(context, &csv->source, cst_source_first(source), source->zip_limit));
    CST_TRY(cst_csv_rewind(context, csv));
    csv->delimiter = find_delimiter(csv);
    *out = csv;
    return CST_OK;
}

const char *cst_csv_name(const cst_csv *csv) {
    return csv->source ? cst_bytes_name(csv->source) : csv->files->paths[csv->part];
}

/* Whether a text is digits with a mark before every three of them. */
static bool has_thousands(const char *text) {
    const char *at = text + (*text == '-');
    size_t digits = strspn(at, "0123456789");
    bool groups = digits > 0 && digits <= 3 && (at[digits] == ',' || at[digits] == '\'');
    for (at += digits; groups && (*at == ',' || *at == '\''); at += 1 + digits) {
        digits = strspn(at + 1, "0123456789");
        groups = digits == 3;
    }
    return groups && (*at == '\0' || *at == '.');
}

/* Why a text is no number, as the end of a message. */
static const char *why_no_number(const char *text) {
    size_t length = strlen(text);
    if (cst_csv_is_missing(text))
        return " (a missing value: every row needs a prediction, or see --missing allow)";
    if (has_thousands(text) && (strchr(text, '.') || strchr(text, '\'')))
        return " (remove the marks between thousands)";
    if (has_thousands(text))
        return " (use a decimal point, not a comma, and no marks between thousands)";
    if (strchr(text, ','))
        return " (use a decimal point, not a comma)";
    if (length > 1 && text[length - 1] == '%')
        return " (remove the percent sign and divide by 100)";
    if (strchr("$", *text) || (unsigned char)*text >= 0x80)
        return " (remove the unit)";
    if (text[strcspn(text, " |")] &&
        (*text == '-' || *text == '.' || (*text >= '0' && *text <= '9')))
        return " (are the columns separated by spaces or bars? Write a comma, semicolon or tab "
               "between them)";
    return "";
}

cst_status cst_csv_number(cst_context *context, const cst_csv *csv, int32_t cell, double *out) {
    const char *text = cst_csv_cell(csv, cell);
    char quoted[CST_QUOTE_CHARS];
    if (csv->blank && cst_csv_is_missing(text)) {
        *out = NAN;
        return CST_OK;
    }
    if (!cst_csv_is_number(text)) {
        if (*text == '\0')
            return cst_fail(context, CST_ERROR_INPUT,
                            "%s: line %" PRId64
                            ", column %d is empty; every cell needs a number; if "
                            "the member did not predict this row, leave all of its cells empty and "
                            "use --missing allow",
                            cst_csv_name(csv), csv->record_line, cell + 1);
        return cst_fail(context, CST_ERROR_INPUT,
                        "%s: line %" PRId64 ", column %d: '%s' is not a number%s",
                        cst_csv_name(csv), csv->record_line, cell + 1, cst_quote(quoted, text),
                        why_no_number(text));
    }
    *out = cst_strtod(text, NULL);
    return CST_OK;
}
