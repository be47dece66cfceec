/* What the name of a column says: ids, labels, folds, predictions, or the class that a column is
 * for. Under the tables. */
#include "data/readers/column_names.h"

#include <stdlib.h>
#include <string.h>

enum { WORDS_CHARS = 64 };

static char lower(char c) {
    return c >= 'A' && c <= 'Z' ? (char)(c + 32) : c;
}

static bool is_letter(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (unsigned char)c >= 0x80;
}

static bool is_digit(char c) {
    return c >= '0' && c <= '9';
}

/* "PassengerId", "Row ID" and "row-id" as "passenger_id", "row_id" and "row_id". A name that is too
 * long is "": it means nothing. */
static void to_words(const char *name, char out[WORDS_CHARS]) {
    size_t used = 0;
    bool mark = false;
    char before = '\0';
    for (const char *at = name; *at; before = *at++) {
        bool part = is_letter(*at) || is_digit(*at);
        bool hump = *at >= 'A' && *at <= 'Z' && before >= 'a' && before <= 'z';
        mark = mark || (used > 0 && (!part || hump));
        if (!part)
            continue;
        if (used + 3 > WORDS_CHARS) {
            used = 0;
            break;
        }
        if (mark)
            out[used++] = '_';
        mark = false;
        out[used++] = lower(*at);
    }
    out[used] = '\0';
}

bool cst_word_in(const char *words, const char *list) {
    size_t length = strlen(words);
    for (const char *at = list;
         length > 0 && !strchr(words, ' ') && (at = strstr(at, words)) != NULL; at += length)
        if ((at == list || at[-1] == ' ') && (at[length] == ' ' || at[length] == '\0'))
            return true;
    return false;
}

cst_column_hint cst_column_hint_of(const char *name) {
    static const struct {
        cst_column_hint hint;
        const char *words;
    } hints[] = {
        {CST_COLUMN_INDEX, "unnamed_0"},
        {CST_COLUMN_ID, "id sample_id image_id row_id"},
        {CST_COLUMN_FOLD, "fold folds fold_id kfold k_fold split cv_fold foldid cv fold_number"},
        {CST_COLUMN_GROUP, "group groups group_id groupid"},
        {CST_COLUMN_WEIGHT, "weight weights sample_weight sample_weights"},
        {CST_COLUMN_DOMAIN, "domain domains domain_id"},
        {CST_COLUMN_TRUTH,
         "y y_true ytrue true_y true truth target targets label labels true_label true_class "
         "true_value actual actuals gt ground_truth groundtruth observed y_test y_val y_valid "
         "y_train"},
        {CST_COLUMN_PREDICTION,
         "y_pred ypred pred preds prediction predictions predicted y_hat yhat oof oof_pred "
         "oof_preds oof_prediction oof_predictions score scores proba probas prob probs "
         "probability probabilities p value values y_prob y_proba y_score test_pred "
         "predicted_value"},
        {CST_COLUMN_ID_LIKELY,
         "ids index idx uuid guid key row row_index row_number rownames pk rowid sampleid imageid"},
        {CST_COLUMN_ID_TEXT,
         "name filename file_name file path file_path filepath image img image_name sample url "
         "case title"},
    };
    char words[WORDS_CHARS];
    if (!*name)
        return CST_COLUMN_INDEX;
    to_words(name, words);
    size_t length = strlen(words);
    bool likely =
        strncmp(words, "id_", 3) == 0 || (length > 3 && strcmp(words + length - 3, "_id") == 0);
    for (size_t i = 0; i < sizeof hints / sizeof *hints; i++)
        if (cst_word_in(words, hints[i].words) || (likely && hints[i].hint == CST_COLUMN_ID_LIKELY))
            return hints[i].hint;
    return CST_COLUMN_UNKNOWN;
}

const char *cst_column_noun(cst_column_hint hint) {
    static const char *const nouns[CST_COLUMN_PREDICTION + 1] = {[CST_COLUMN_TRUTH] = "labels",
                                                                 [CST_COLUMN_FOLD] = "folds",
                                                                 [CST_COLUMN_GROUP] = "groups",
                                                                 [CST_COLUMN_WEIGHT] = "weights",
                                                                 [CST_COLUMN_DOMAIN] = "domains"};
    return nouns[hint] ? nouns[hint] : "values";
}

bool cst_column_same(const char *a, const char *b) {
    while (*a && lower(*a) == lower(*b)) {
        a++;
        b++;
    }
    return !*a && !*b;
}

/* ---- classes ---- */

/* Bytes of the known word that `name` begins with (with the mark after it, or before a number), or
 * 0. */
static size_t known_start(const char *name) {
    static const char *const words[] = {
        "probability", "predicted", "prediction", "predict", "proba",  "prob",  "preds",  "pred",
        "class",       "cls",       "label",      "target",  "logits", "logit", "scores", "score",
        "oof",         "y",         "p",          "v",       "c",      "x",     NULL};
    for (const char *const *word = words; *word; word++) {
        size_t length = strlen(*word);
        size_t i = 0;
        while (i < length && lower(name[i]) == (*word)[i])
            i++;
        if (i < length)
            continue;
        if (name[i] && strchr("_-. :=", name[i]) && name[i + 1])
            return i + 1;
        if (is_digit(name[i]))
            return i;
    }
    return 0;
}

/* Bytes of the known word that `name` ends in, with the mark before it, or 0. */
static size_t known_end(const char *name) {
    static const char *const words[] = {"probability", "proba",  "prob",   "prediction",
                                        "preds",       "pred",   "logits", "logit",
                                        "score",       "scores", "p",      NULL};
    size_t length = strlen(name);
    for (const char *const *word = words; *word; word++) {
        size_t tail = strlen(*word);
        if (length > tail + 1 && strchr("_-. :", name[length - tail - 1]) &&
            cst_column_same(name + length - tail, *word))
            return tail + 1;
    }
    return 0;
}

/* Names [count] less `start` bytes in front and `end` bytes at the end. */
static cst_status cut(cst_context *context, cst_scope *scope, const cst_strings *names,
                      size_t start, size_t end, cst_strings **out) {
    CST_TRY(cst_strings_take(context, scope, out));
    for (int64_t i = 0; i < names->count; i++) {
        const char *name = cst_strings_at(names, i);
        CST_TRY(cst_strings_add(context, *out, name + start, strlen(name) - start - end));
    }
    return CST_OK;
}

size_t cst_column_shared(const cst_strings *names, bool at_end) {
    const char *first = names->count > 0 ? cst_strings_at(names, 0) : "";
    size_t length = strlen(first);
    size_t most = length;
    for (int64_t i = 1; i < names->count; i++) {
        const char *name = cst_strings_at(names, i);
        size_t other = strlen(name);
        size_t same = 0;
        while (same < most && same < other &&
               (at_end ? name[other - 1 - same] == first[length - 1 - same]
                       : name[same] == first[same]))
            same++;
        most = same;
    }
    return most;
}

/* Whether every name keeps something when so much is cut off. */
static bool leaves_all(const cst_strings *names, size_t start, size_t end) {
    for (int64_t i = 0; i < names->count; i++)
        if (strlen(cst_strings_at(names, i)) <= start + end)
            return false;
    return true;
}

cst_status cst_column_plain_names(cst_context *context, cst_scope *scope, const cst_strings *names,
                                  cst_strings **out) {
    size_t start = 0;
    size_t end = 0;
    size_t head = cst_column_shared(names, false);
    size_t tail = cst_column_shared(names, true);
    for (size_t more = 1; names->count > 0 && more > 0; start += more) {
        more = known_start(cst_strings_at(names, 0) + start);
        if (more > 0 && (start + more > head || !leaves_all(names, start + more, 0)))
            more = 0;
    }
    if (names->count > 0)
        end = known_end(cst_strings_at(names, 0) + start);
    if (end > tail || !leaves_all(names, start, end))
        end = 0;
    return cut(context, scope, names, start, end, out);
}

cst_status cst_column_bare_names(cst_context *context, cst_scope *scope, const cst_strings *names,
                                 cst_strings **out) {
    size_t start = 0;
    size_t end = 0;
    if (names->count > 1) {
        const char *first = cst_strings_at(names, 0);
        size_t length = strlen(first);
        start = cst_column_shared(names, false);
        while (start > 0 && !strchr("_-. :=", first[start - 1]))
            start--;
        end = cst_column_shared(names, true);
        while (end > 0 && !strchr("_-. :=", first[length - end]))
            end--;
        if (!leaves_all(names, start, end))
            start = end = 0;
    }
    return cut(context, scope, names, start, end, out);
}

bool cst_column_numbers(const cst_strings *names, int64_t first, int32_t *places) {
    for (int64_t i = 0; i < names->count; i++) {
        const char *name = cst_strings_at(names, i);
        size_t digits = strspn(name, "0123456789");
        size_t zeros = strspn(name, "0");
        bool fraction = name[digits] == '.' && strspn(name + digits + 1, "0") > 0 &&
                        name[digits + 1 + strspn(name + digits + 1, "0")] == '\0';
        if (digits == 0 || digits > zeros + 9 || (name[digits] && !fraction))
            return false;
        int64_t number = strtoll(name, NULL, 10) - first;
        if (number < 0 || number >= names->count)
            return false;
        places[i] = (int32_t)number;
        for (int64_t j = 0; j < i && names->count <= 64; j++)
            if (places[j] == places[i])
                return false;
    }
    if (names->count <= 64)
        return names->count > 0;
    int64_t sum = 0; /* of very many names: each once, or the sums differ */
    int64_t squares = 0;
    for (int64_t i = 0; i < names->count; i++) {
        sum += places[i] - i;
        squares += (int64_t)places[i] * places[i] - i * i;
    }
    return sum == 0 && squares == 0;
}

const char *cst_column_list(const cst_strings *names, char buffer[CST_LISTED_CHARS]) {
    enum { SHOWN = 12, NAME_CHARS = 40 };
    size_t used = 0;
    buffer[0] = '\0';
    for (int64_t i = 0; i < names->count; i++) {
        char quoted[CST_QUOTE_CHARS];
        const char *name = cst_quote(quoted, cst_strings_at(names, i));
        if (i == SHOWN || used + NAME_CHARS + 8 > CST_LISTED_CHARS) {
            (void)cst_snprintf(buffer + used, CST_LISTED_CHARS - used, ", ...");
            break;
        }
        size_t cut = strnlen(name, NAME_CHARS);
        while (name[cut] && cut > 0 && ((unsigned char)name[cut] & 0xc0) == 0x80)
            cut--; /* not inside a character */
        int wrote = *name ? cst_snprintf(buffer + used, CST_LISTED_CHARS - used, "%s%.*s%s",
                                         i > 0 ? ", " : "", (int)cut, name, name[cut] ? "..." : "")
                          : cst_snprintf(buffer + used, CST_LISTED_CHARS - used, "%s(no name)",
                                         i > 0 ? ", " : "");
        used += wrote > 0 ? (size_t)wrote : 0;
    }
    return buffer;
}
