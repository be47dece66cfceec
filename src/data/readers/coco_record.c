/* Parts of COCO files: names of fields and lists, errors about a record, numbers, boxes. */
#include "data/readers/coco_scan.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <string.h>

enum { NUMBER_CHARS = 128, MESSAGE_CHARS = 400 };

const char *const cst_coco_field_names[CST_COCO_FIELDS] = {
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
                                   cst_coco_field_names[f]);
    return CST_OK;
}

cst_status cst_coco_check_box(cst_context *context, const char *path, const cst_coco_record *record,
                              double width, double height) {
    const double *b = record->bbox;
    if (!isfinite(b[0]) || !isfinite(b[1]) || !isfinite(b[2]) || !isfinite(b[3]))
        return cst_coco_refuse(context, path, CST_ERROR_INPUT, record,
                               "has a bbox with a number that is not finite");
    if (b[2] < 0 || b[3] < 0)
        return cst_coco_refuse(context, path, CST_ERROR_INPUT, record,
                               "has a bbox of negative size, %g x %g; bbox is [left, top, width, "
                               "height]",
                               b[2], b[3]);
    if (fabs(b[0]) > CST_COCO_PIXELS_MAX || fabs(b[1]) > CST_COCO_PIXELS_MAX ||
        b[2] > CST_COCO_PIXELS_MAX || b[3] > CST_COCO_PIXELS_MAX)
        return cst_coco_refuse(
            context, path, CST_ERROR_INPUT, record,
            "has bbox [%g, %g, %g, %g]; coordinates and sizes are limited to %.0f pixels", b[0],
            b[1], b[2], b[3], CST_COCO_PIXELS_MAX);
    if (b[0] > width || b[1] > height || b[0] + b[2] < 0 || b[1] + b[3] < 0)
        return cst_coco_refuse(context, path, CST_ERROR_INPUT, record,
                               "has bbox [%g, %g, %g, %g], which is outside its image of %g x %g "
                               "pixels; bbox is [left, top, width, height] in pixels",
                               b[0], b[1], b[2], b[3], width, height);
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
