/* Splits that the names of files and columns speak of. See the header. */
#include "data/pool/marks.h"

#include <string.h>

/* Removes `mark` with its separator from the start or the end of stem. */
static bool strip(char *stem, const char *mark) {
    size_t bytes = strlen(mark);
    size_t length = strlen(stem);
    if (length <= bytes + 1)
        return false;
    if (strncmp(stem, mark, bytes) == 0 && strchr("_.", stem[bytes])) {
        memmove(stem, stem + bytes + 1, length - bytes);
        return true;
    }
    if (strcmp(stem + length - bytes, mark) != 0 || !strchr("_.", stem[length - bytes - 1]))
        return false;
    stem[length - bytes - 1] = '\0';
    return true;
}

const char *cst_take_mark(char *stem) {
    return strip(stem, "oof") ? "oof" : strip(stem, "test") ? "test" : NULL;
}

bool cst_take_loose_mark(char *stem) {
    static const char *const marks[] = {"submission", "sub", "predictions", "preds", "pred"};
    for (size_t m = 0; m < sizeof marks / sizeof *marks; m++)
        if (strncmp(stem, "sample", 6) != 0 && strip(stem, marks[m]))
            return true;
    return false;
}
