/* A COCO file as a stream of records: yajl's events, kept to the fields that matter. */
#include "data/readers/coco_scan.h"

#include "core/utf8.h"
#include "data/files/bytes.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <string.h>
#include <yajl/yajl_parse.h>

enum {
    CHUNK_BYTES = 1 << 18,
    SILENT_MAX = 4, /* chunks in which no value ends */
    DEPTH_MAX = 64,
    NUMBER_CHARS = 128,
    MESSAGE_CHARS = 400
};

#define BIT(field) (1U << (field))
static const unsigned LIST_FIELDS[] = {
    [CST_COCO_RESULTS] = BIT(CST_COCO_IMAGE_ID) | BIT(CST_COCO_CATEGORY_ID) | BIT(CST_COCO_BBOX) |
                         BIT(CST_COCO_SCORE),
    [CST_COCO_IMAGES] = BIT(CST_COCO_ID) | BIT(CST_COCO_WIDTH) | BIT(CST_COCO_HEIGHT),
    [CST_COCO_ANNOTATIONS] = BIT(CST_COCO_ID) | BIT(CST_COCO_IMAGE_ID) | BIT(CST_COCO_CATEGORY_ID) |
                             BIT(CST_COCO_BBOX) | BIT(CST_COCO_AREA) | BIT(CST_COCO_CROWD),
    [CST_COCO_CATEGORIES] = BIT(CST_COCO_ID) | BIT(CST_COCO_NAME),
    [CST_COCO_OTHER] = 0,
};

static const char *const FIELDS[CST_COCO_FIELDS] = {
    [CST_COCO_ID] = "id",
    [CST_COCO_IMAGE_ID] = "image_id",
    [CST_COCO_CATEGORY_ID] = "category_id",
    [CST_COCO_BBOX] = "bbox",
    [CST_COCO_SCORE] = "score",
    [CST_COCO_AREA] = "area",
    [CST_COCO_WIDTH] = "width",
    [CST_COCO_HEIGHT] = "height",
    [CST_COCO_CROWD] = "iscrowd",
    [CST_COCO_NAME] = "name",
};

static const char *const SHAPES[] = {"segmentation", "keypoints"};

const char *const cst_coco_list_names[] = {"detection", "image", "annotation", "category",
                                           "record"};
const char *const cst_coco_list_plurals[] = {"detections", "images", "annotations", "categories",
                                             "records"};

cst_status cst_coco_refuse(cst_context *context, const char *path, cst_status code,
                           const cst_coco_record *record, const char *format, ...) {
    char text[MESSAGE_CHARS];
    va_list list;
    va_start(list, format);
    (void)cst_vsnprintf(text, sizeof text, format, list);
    va_end(list);
    return cst_fail(context, code, "%s: byte %" PRIu64 ": %s %" PRId64 " (counted from 0) %s", path,
                    record->offset, cst_coco_list_names[record->list], record->index, text);
}

cst_status cst_coco_need(cst_context *context, const char *path, const cst_coco_record *record,
                         unsigned fields) {
    for (int f = 0; f < CST_COCO_FIELDS; f++)
        if ((fields & ~record->seen) & (1U << f))
            return cst_coco_refuse(context, path, CST_ERROR_FORMAT, record, "has no '%s'",
                                   FIELDS[f]);
    return CST_OK;
}

/* The power of ten after the e, cut to the range of doubles. */
static int64_t power_of(const char *at, const char *end) {
    enum { FAR = 100000000 };
    int64_t power = 0;
    bool negative = at < end && *at == '-';
    for (at += at < end && (*at == '-' || *at == '+'); at < end && power < FAR; at++)
        power = power * 10 + (*at - '0');
    return negative ? -power : power;
}

/* Of more digits than decide how a double is rounded, one that is not 0 stands for all others. */
static double long_number(const char *text, size_t length) {
    enum { DECISIVE = 800, ROOM = DECISIVE + 32 };
    char copy[ROOM];
    const char *at = text + (*text == '-');
    const char *end = text + length;
    int kept = 0;
    int64_t scale = 0;
    bool point = false;
    bool rest = false;
    for (; at < end && *at != 'e' && *at != 'E'; at++) {
        if (*at == '.') {
            point = true;
            continue;
        }
        bool taken = kept < DECISIVE;
        if (!taken)
            rest = rest || *at != '0';
        else if (kept > 0 || *at != '0')
            copy[kept++] = *at;
        scale += !taken - point;
    }
    if (kept == 0)
        return *text == '-' ? -0.0 : 0.0;
    if (rest) {
        copy[kept++] = '1';
        scale--;
    }
    scale += at < end ? power_of(at + 1, end) : 0;
    (void)cst_snprintf(copy + kept, ROOM - (size_t)kept, "e%" PRId64, scale);
    double value = cst_strtod(copy, NULL);
    return *text == '-' ? -value : value;
}

static double slow_number(const char *text, size_t length) {
    char copy[NUMBER_CHARS];
    if (length >= sizeof copy)
        return long_number(text, length);
    memcpy(copy, text, length);
    copy[length] = '\0';
    return cst_strtod(copy, NULL);
}

double cst_coco_number(const char *text, size_t length) {
    /* Powers of ten that a double holds exactly: a product or quotient of two exact numbers is
     * rounded once, so it is what strtod gives. */
    static const double TEN[] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,
                                 1e8,  1e9,  1e10, 1e11, 1e12, 1e13, 1e14, 1e15,
                                 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};
    enum { EXACT_DIGITS = 15, POWER_MAX = 22 };
    const char *p = text;
    const char *end = text + length;
    bool negative = *p == '-';
    p += negative;
    uint64_t digits = 0;
    int count = 0;
    int after = 0;
    bool point = false;
    for (; p < end && *p <= '9';
         p++) { /* a digit or the point; the sign of a power is after an e */
        if (*p == '.') {
            point = true;
            continue;
        }
        if (digits > 0 || *p != '0')
            count++;
        if (count > EXACT_DIGITS)
            return slow_number(text, length);
        digits = digits * 10 + (uint64_t)(*p - '0');
        after += point;
    }
    if (p < end || after > POWER_MAX)
        return slow_number(text, length);
    double value = (double)digits / TEN[after];
    return negative ? -value : value;
}

bool cst_coco_integer(const char *text, size_t length, int64_t *out) {
    int64_t value = 0;
    bool negative = *text == '-';
    size_t i = negative;
    for (; i < length && text[i] >= '0' && text[i] <= '9'; i++) {
        int digit = text[i] - '0';
        if (value > (INT64_MAX - digit) / 10)
            return false;
        value = value * 10 + digit;
    }
    if (i < length) {
        double real = cst_coco_number(text, length);
        if (!(fabs(real) <= 9007199254740992.0) || real > floor(real))
            return false;
        *out = (int64_t)real;
        return true;
    }
    *out = negative ? -value : value;
    return true;
}

/* ---- the scan ---- */

typedef struct scan {
    cst_context *context;
    const char *path;
    yajl_handle parser;
    uint64_t chunk_at; /* byte at which the chunk that is parsed begins */
    uint64_t size;
    bool results;
    bool unlabelled;  /* the list of annotations may be absent */
    int record_depth; /* containers that are open inside a record */
    int depth;        /* containers that are open */
    cst_coco_list list;
    bool lists_seen[CST_COCO_OTHER + 1];
    int64_t counts[CST_COCO_OTHER + 1];
    bool in_record;
    cst_coco_field field;
    unsigned keys;     /* bit per field whose key the record had */
    int corner;        /* numbers of the bbox so far; -1 outside one: nothing is open inside it */
    int silent;        /* chunks since the last event */
    const char *shape; /* a key of what is no box, whose value may still be empty or a rectangle */
    double outline[8]; /* of it */
    int points;
    char *name; /* storage of record.name */
    cst_coco_record record;
    cst_coco_record_fn told;
    void *user;
    cst_status status;
} scan;

/* The last byte of what the parser looks at. */
static uint64_t here(const scan *s) {
    size_t used = yajl_get_bytes_consumed(s->parser);
    return s->chunk_at + used - (used > 0);
}

/* Records the error, and returns 0, which stops yajl. */
static int stop(scan *s, const char *format, ...) CST_PRINTF(2, 3);
static int stop(scan *s, const char *format, ...) {
    char text[MESSAGE_CHARS];
    va_list list;
    va_start(list, format);
    (void)cst_vsnprintf(text, sizeof text, format, list);
    va_end(list);
    s->status =
        cst_fail(s->context, CST_ERROR_FORMAT, "%s: byte %" PRIu64 ": %s", s->path, here(s), text);
    return 0;
}

/* Every event begins with it: what came has an end. */
static scan *heard(void *user) {
    scan *s = user;
    s->silent = 0;
    return s;
}

/* Whether the value that comes now is a field of a record that is kept. */
static bool wanted(const scan *s) {
    return s->in_record && s->depth == s->record_depth && s->field != CST_COCO_FIELDS;
}

static int wrong_kind(scan *s, const char *what) {
    return stop(s, "'%s' of %s %" PRId64 " (counted from 0) is %s", FIELDS[s->field],
                cst_coco_list_names[s->list], s->record.index, what);
}

/* A value where a record, a list or the whole file should stand. */
static int check_place(scan *s, const char *what) {
    if (s->corner >= 0)
        return wrong_kind(s, "not a list of numbers");
    if (s->depth == 0)
        return stop(s, "the file contains %s, not %s", what,
                    s->results ? "a list of detections" : "COCO annotations");
    if (!s->in_record && s->depth == s->record_depth - 1 && s->list != CST_COCO_OTHER)
        return stop(s, "%s %" PRId64 " (counted from 0) is %s, not an object",
                    cst_coco_list_names[s->list], s->counts[s->list], what);
    if (!s->results && s->depth == 1 && s->list != CST_COCO_OTHER)
        return stop(s, "the list of %s is %s, not a list", cst_coco_list_plurals[s->list], what);
    return 1;
}

/* What the reference evaluator adds to boxes itself: corners x1 y1, x1 y2, x2 y2, x2 y1. */
static bool is_rectangle(const scan *s) {
    const double off[] = {s->outline[0] - s->outline[2], s->outline[4] - s->outline[6],
                          s->outline[1] - s->outline[7], s->outline[3] - s->outline[5]};
    bool same = s->points == 8;
    for (int i = 0; i < 4; i++)
        same = same && !(off[i] > 0 || off[i] < 0);
    return same;
}

/* Masks and keypoints would be lost in silence. */
static int refuse_shape(scan *s) {
    return stop(s,
                "%s %" PRId64 " (counted from 0) has '%s', which would be lost: only boxes are "
                "fused. Remove the key '%s' to fuse the boxes",
                cst_coco_list_names[s->list], s->record.index, s->shape, s->shape);
}

static int got_number(void *user, const char *text, size_t length) {
    scan *s = heard(user);
    cst_coco_record *r = &s->record;
    if (s->shape) {
        if (s->shape != SHAPES[0] || s->points == 8)
            return refuse_shape(s);
        s->outline[s->points++] = cst_coco_number(text, length);
        return 1;
    }
    if (s->corner >= 0) {
        if (s->corner == 4)
            return wrong_kind(s, "a list of more than four numbers; bbox is [left, top, width, "
                                 "height] (rotated boxes cannot be fused)");
        r->bbox[s->corner++] = cst_coco_number(text, length);
        return 1;
    }
    if (!wanted(s))
        return check_place(s, "a number");
    r->seen |= BIT(s->field);
    int64_t whole = 0;
    switch (s->field) {
    case CST_COCO_ID:
    case CST_COCO_IMAGE_ID:
    case CST_COCO_CATEGORY_ID:
        if (!cst_coco_integer(text, length, &whole))
            return wrong_kind(s, "not an integer");
        *(s->field == CST_COCO_ID         ? &r->id
          : s->field == CST_COCO_IMAGE_ID ? &r->image_id
                                          : &r->category_id) = whole;
        return 1;
    case CST_COCO_CROWD:
        if (!cst_coco_integer(text, length, &whole) || whole < 0 || whole > 1)
            return wrong_kind(s, "neither 0 nor 1");
        r->crowd = whole == 1;
        return 1;
    case CST_COCO_SCORE:
    case CST_COCO_AREA:
    case CST_COCO_WIDTH:
    case CST_COCO_HEIGHT:
        *(s->field == CST_COCO_SCORE   ? &r->score
          : s->field == CST_COCO_AREA  ? &r->area
          : s->field == CST_COCO_WIDTH ? &r->width
                                       : &r->height) = cst_coco_number(text, length);
        return 1;
    default:
        return wrong_kind(s, s->field == CST_COCO_BBOX ? "a number, not a list of four"
                                                       : "a number, not a string");
    }
}

static int got_null(void *user) {
    scan *s = heard(user);
    s->shape = NULL;
    return wanted(s) ? 1 : check_place(s, "null"); /* as if the key were not there */
}

static int got_boolean(void *user, int value) {
    scan *s = heard(user);
    if (!wanted(s))
        return check_place(s, "true or false");
    if (s->field != CST_COCO_CROWD)
        return wrong_kind(s, "true or false");
    s->record.seen |= BIT(CST_COCO_CROWD);
    s->record.crowd = value != 0;
    return 1;
}

static int got_string(void *user, const unsigned char *text, size_t length) {
    scan *s = heard(user);
    if (s->shape)
        return refuse_shape(s);
    if (!wanted(s))
        return check_place(s, "a string");
    if (s->field != CST_COCO_NAME)
        return wrong_kind(s, "a string, not a number");
    if (cst_utf8_name(text, length) < length)
        return wrong_kind(
            s, "a string with control characters or bidirectional formatting characters");
    cst_free(s->context, s->name);
    s->name = cst_alloc(s->context, length + 1, 1);
    if (!s->name) {
        s->status = CST_ERROR_MEMORY;
        return 0;
    }
    memcpy(s->name, text, length);
    s->record.name = s->name;
    s->record.seen |= BIT(CST_COCO_NAME);
    return 1;
}

static int got_key(void *user, const unsigned char *text, size_t length) {
    static const struct {
        const char *name;
        cst_coco_list list;
    } lists[] = {{"images", CST_COCO_IMAGES},
                 {"annotations", CST_COCO_ANNOTATIONS},
                 {"categories", CST_COCO_CATEGORIES}};
    scan *s = heard(user);
    if (s->in_record && s->depth == s->record_depth) {
        s->field = CST_COCO_FIELDS;
        s->shape = NULL;
        s->points = 0;
        for (size_t i = 0; s->results && i < sizeof SHAPES / sizeof SHAPES[0]; i++)
            if (strlen(SHAPES[i]) == length && memcmp(SHAPES[i], text, length) == 0)
                s->shape = SHAPES[i];
        for (int f = 0; f < CST_COCO_FIELDS; f++)
            if ((LIST_FIELDS[s->list] & BIT(f)) && strlen(FIELDS[f]) == length &&
                memcmp(FIELDS[f], text, length) == 0)
                s->field = (cst_coco_field)f;
        if (s->field != CST_COCO_FIELDS && (s->keys & BIT(s->field)))
            return wrong_kind(s, "given twice");
        s->keys |= s->field != CST_COCO_FIELDS ? BIT(s->field) : 0;
    } else if (!s->results && s->depth == 1) {
        s->list = CST_COCO_OTHER;
        for (size_t i = 0; i < sizeof lists / sizeof lists[0]; i++)
            if (strlen(lists[i].name) == length && memcmp(lists[i].name, text, length) == 0)
                s->list = lists[i].list;
        if (s->list != CST_COCO_OTHER && s->lists_seen[s->list])
            return stop(s, "the list of %s occurs twice", cst_coco_list_plurals[s->list]);
        s->lists_seen[s->list] = true;
    }
    return 1;
}

static int deeper(scan *s) {
    if (s->depth == DEPTH_MAX)
        return stop(s, "lists and objects are nested more than %d levels deep", (int)DEPTH_MAX);
    s->depth++;
    return 1;
}

static int open_map(void *user) {
    scan *s = heard(user);
    if (s->shape)
        return refuse_shape(s);
    if (wanted(s))
        return wrong_kind(s, "an object");
    if (s->depth == 0 && s->results)
        return stop(
            s, "the file contains an object, not a list of detections; is it an annotation file?");
    if (!s->in_record && s->depth == s->record_depth - 1 && s->list != CST_COCO_OTHER) {
        s->in_record = true;
        s->field = CST_COCO_FIELDS;
        s->keys = 0;
        s->record =
            (cst_coco_record){.list = s->list, .index = s->counts[s->list]++, .offset = here(s)};
    } else if (s->depth > 0 && !check_place(s, "an object")) {
        return 0;
    }
    return deeper(s);
}

static int close_map(void *user) {
    scan *s = heard(user);
    s->depth--;
    if (s->in_record && s->depth < s->record_depth) {
        s->in_record = false;
        s->status = s->told(s->context, s->user, &s->record, (double)here(s) / (double)s->size);
        return s->status == CST_OK;
    }
    return 1;
}

static int open_array(void *user) {
    scan *s = heard(user);
    if (s->shape && s->depth > s->record_depth + 1)
        return refuse_shape(s);
    if (wanted(s)) {
        if (s->field != CST_COCO_BBOX)
            return wrong_kind(s, "a list");
        s->corner = 0;
    } else if (s->depth == 0 && !s->results) {
        return stop(s, "the file contains a list, not an object with images, annotations and "
                       "categories; is it a file of detections?");
    } else if (s->corner >= 0 ||
               (!s->in_record && s->depth == s->record_depth - 1 && s->list != CST_COCO_OTHER)) {
        return check_place(s, "a list");
    }
    return deeper(s);
}

static int close_array(void *user) {
    scan *s = heard(user);
    s->depth--;
    if (s->shape && s->depth == s->record_depth) {
        if (s->points > 0 && !is_rectangle(s))
            return refuse_shape(s);
        s->shape = NULL;
    }
    if (s->corner >= 0) {
        if (s->corner != 4)
            return wrong_kind(s, "a list of fewer than four numbers");
        s->corner = -1;
        s->record.seen |= BIT(CST_COCO_BBOX);
    }
    return 1;
}

/* Explains yajl's error in the last chunk. */
static void explain(scan *s, const unsigned char *chunk, size_t length) {
    if (s->status != CST_OK)
        return;
    unsigned char *text = yajl_get_error(s->parser, 0, chunk, length);
    size_t used = yajl_get_bytes_consumed(s->parser);
    size_t good = text ? strcspn((const char *)text, "\n") : 0;
    while (good > 0 && text[good - 1] == '.')
        good--;
    unsigned char at = chunk && used > 0 && used <= length ? chunk[used - 1] : 0;
    (void)stop(s, "not valid JSON: %.*s%s", (int)good, text ? (const char *)text : "",
               at == 'N' || at == 'I'
                   ? " (JSON has no NaN and Infinity; scores and boxes must be finite)"
               : !chunk ? "; was the file written to the end?"
                        : "");
    yajl_free_error(s->parser, text);
}

static cst_status run(scan *s, cst_bytes *source, unsigned char *chunk) {
    uint64_t at = 0;
    size_t length = 0;
    yajl_status parsed = yajl_status_ok;
    while (s->status == CST_OK && parsed == yajl_status_ok && at < s->size) {
        length = s->size - at < CHUNK_BYTES ? (size_t)(s->size - at) : CHUNK_BYTES;
        CST_TRY(cst_bytes_read(s->context, source, at, chunk, length));
        s->chunk_at = at;
        /* yajl begins again with every part of a text that goes on, so that the time would grow
         * with the square of its length. */
        if (s->silent++ == SILENT_MAX)
            return cst_fail(s->context, CST_ERROR_LIMIT,
                            "%s: byte %" PRIu64 ": a string, number or run of white space of more "
                            "than %d bytes; COCO files have none",
                            s->path, at, SILENT_MAX * CHUNK_BYTES);
        parsed = yajl_parse(s->parser, chunk, length);
        at += length;
    }
    if (parsed != yajl_status_ok) {
        explain(s, chunk, length);
    } else if (s->status == CST_OK) {
        s->chunk_at = s->size;
        if (yajl_complete_parse(s->parser) != yajl_status_ok)
            explain(s, NULL, 0);
    }
    static const cst_coco_list lists[] = {CST_COCO_IMAGES, CST_COCO_ANNOTATIONS,
                                          CST_COCO_CATEGORIES};
    for (size_t i = 0; s->status == CST_OK && !s->results && i < 3; i++)
        if (!s->lists_seen[lists[i]] && !(s->unlabelled && lists[i] == CST_COCO_ANNOTATIONS))
            s->status = cst_fail(s->context, CST_ERROR_FORMAT,
                                 "%s: not a COCO annotation file: it has no list of %s", s->path,
                                 i == 0   ? "images"
                                 : i == 1 ? "annotations"
                                          : "categories");
    return s->status;
}

cst_status cst_coco_scan(cst_context *context, const char *path, uint64_t zip_limit,
                         cst_coco_kind kind, cst_coco_record_fn told, void *user) {
    static const yajl_callbacks callbacks = {.yajl_null = got_null,
                                             .yajl_boolean = got_boolean,
                                             .yajl_number = got_number,
                                             .yajl_string = got_string,
                                             .yajl_start_map = open_map,
                                             .yajl_map_key = got_key,
                                             .yajl_end_map = close_map,
                                             .yajl_start_array = open_array,
                                             .yajl_end_array = close_array};
    CST_SCOPE(scope);
    cst_bytes *source = NULL;
    bool results = kind == CST_COCO_KIND_RESULTS;
    scan s = {.context = context,
              .path = path,
              .results = results,
              .unlabelled = kind == CST_COCO_KIND_IMAGES,
              .record_depth = results ? 2 : 3,
              .list = results ? CST_COCO_RESULTS : CST_COCO_OTHER,
              .field = CST_COCO_FIELDS,
              .corner = -1,
              .told = told,
              .user = user};
    CST_TRY(cst_bytes_open(context, &source, path, zip_limit));
    CST_TRY(cst_scope_own(context, scope, cst_bytes_close, source));
    CST_NEW(context, scope, unsigned char, chunk, CHUNK_BYTES);
    s.size = cst_bytes_size(source);
    s.parser = yajl_alloc(&callbacks, NULL, &s);
    if (!s.parser)
        return cst_fail(context, CST_ERROR_MEMORY, "out of memory for the JSON parser");
    cst_status status = run(&s, source, chunk);
    yajl_free(s.parser);
    cst_free(context, s.name);
    return status;
}
