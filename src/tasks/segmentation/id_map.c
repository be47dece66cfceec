/* Ids of a data set in place of class numbers in label maps. docs/segmentation.md#label-maps. */
#include "data/files/bytes.h"
#include "tasks/segmentation/segmentation.h"

#include <string.h>

enum { TRAIN_IDS = 19, ID_MAX = 65535, FILE_MAX = 1 << 20 };

/* Cityscapes' ids and colours by train id. */
static const unsigned char CITYSCAPES[TRAIN_IDS][4] = {
    {7, 128, 64, 128},   {8, 244, 35, 232},   {11, 70, 70, 70},   {12, 102, 102, 156},
    {13, 190, 153, 153}, {17, 153, 153, 153}, {19, 250, 170, 30}, {20, 220, 220, 0},
    {21, 107, 142, 35},  {22, 152, 251, 152}, {23, 70, 130, 180}, {24, 220, 20, 60},
    {25, 255, 0, 0},     {26, 0, 0, 142},     {27, 0, 0, 70},     {28, 0, 60, 100},
    {31, 0, 80, 100},    {32, 0, 0, 230},     {33, 119, 11, 32}};

static cst_status cityscapes(cst_context *context, int32_t classes, cst_id_map *out) {
    if (classes != TRAIN_IDS)
        return cst_fail(context, CST_ERROR_INPUT,
                        "the id map cityscapes is of %d classes, but the model has %d; give the "
                        "ids of its classes in a file",
                        TRAIN_IDS, classes);
    for (int32_t c = 0; c < TRAIN_IDS; c++) {
        out->ids[c] = CITYSCAPES[c][0];
        memcpy(out->palette[CITYSCAPES[c][0]], CITYSCAPES[c] + 1, sizeof out->palette[0]);
    }
    out->coloured = true;
    return CST_OK;
}

/* The next number of the text, at most ID_MAX + 1; -1 at its end or at another character. */
static int32_t take_number(const char **at) {
    int32_t value = 0;
    *at += strspn(*at, " \t\r\n,;[]");
    if (**at < '0' || **at > '9')
        return -1;
    for (; **at >= '0' && **at <= '9'; ++*at)
        value = value > ID_MAX ? value : 10 * value + (**at - '0');
    return value > ID_MAX ? ID_MAX + 1 : value;
}

/* Of a list, or of lines with a class and its id. Returns the place of a mistake; NULL: none. */
static const char *parse(const char *text, int32_t classes, int32_t *ids) {
    const char *at = text + strspn(text, " \t\r\n");
    bool list = *at == '[';
    int32_t known = 0;
    if (!list && strncmp(at, "class", strlen("class")) == 0)
        at += strcspn(at, "\n"); /* a header */
    for (int32_t c = 0; c < classes; c++)
        ids[c] = -1;
    for (;;) {
        const char *begin = at;
        int32_t first = take_number(&at);
        if (first < 0)
            return *at || known < classes ? at : NULL;
        int32_t label = list ? known : first;
        int32_t id = list ? first : take_number(&at);
        if (label >= classes || ids[label] >= 0 || id < 0 || id > ID_MAX)
            return begin;
        ids[label] = id;
        known++;
    }
}

static cst_status read_file(cst_context *context, const char *path, int32_t classes, int32_t *ids) {
    cst_bytes *source = NULL;
    CST_SCOPE(scope);
    CST_TRY(cst_bytes_open_file(context, &source, path));
    CST_TRY(cst_scope_own(context, scope, cst_bytes_close, source));
    size_t size = cst_bytes_size(source) < FILE_MAX ? (size_t)cst_bytes_size(source) : FILE_MAX;
    CST_NEW(context, scope, char, text, size + 1);
    CST_TRY(cst_bytes_read(context, source, 0, text, size));
    const char *mistake = parse(text, classes, ids);
    return mistake ? cst_fail(context, CST_ERROR_INPUT,
                              "%s: near byte %lld: an id map is a JSON list of %d ids, or a line "
                              "class,id for each class from 0 to %d; ids are 0 to %d",
                              path, (long long)(mistake - text), classes, classes - 1, ID_MAX)
                   : CST_OK;
}

cst_status cst_id_map_read(cst_context *context, cst_scope *scope, const char *given,
                           int32_t classes, cst_id_map *out) {
    *out = (cst_id_map){.largest = classes - 1};
    if (!given)
        return CST_OK;
    CST_TAKE(context, scope, out->ids, classes);
    CST_TRY(strcmp(given, "cityscapes") == 0 ? cityscapes(context, classes, out)
                                             : read_file(context, given, classes, out->ids));
    out->largest = 0;
    for (int32_t c = 0; c < classes; c++)
        out->largest = out->ids[c] > out->largest ? out->ids[c] : out->largest;
    return CST_OK;
}
