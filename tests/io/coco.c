/*
 * COCO files: what is read, in any order of keys, what is skipped, and the error of every fault
 * with file and byte.
 */
#include "io_files.h"

#include "data/readers/coco.h"
#include "data/readers/coco_scan.h"

#include <math.h>

static const char TRUTH[] =
    "{\"info\": {\"year\": 2024, \"deep\": [[{\"id\": [1]}]]}, \"photos\": [{\"id\": 1}], "
    "\"more\": [[null, true, \"text\"], false], \"end\": \"none\",\n"
    " \"annotations\": [\n"
    "  {\"bbox\": [10, 20.5, 30, 40], \"id\": 3, \"category_id\": 9, \"iscrowd\": 0,\n"
    "   \"segmentation\": [[10, 20, 40, 20, 40, 60]], \"image_id\": 7, \"area\": 600.5},\n"
    "  {\"image_id\": 5, \"category_id\": 2, \"id\": 1, \"iscrowd\": true, \"bbox\": [0, 0, 5, "
    "5],\n"
    "   \"segmentation\": {\"counts\": \"abc\\\"]}\", \"size\": [100, 200]}},\n"
    "  {\"image_id\": 7, \"category_id\": 2, \"bbox\": [-3, -4, 10, 10], \"note\": null}],\n"
    " \"categories\": [{\"name\": \"a \\u00e4\", \"id\": 9, \"supercategory\": \"x\"}, {\"id\": "
    "2}],\n"
    " \"images\": [{\"height\": 100, \"id\": 7, \"width\": 200, \"file_name\": \"7.jpg\"}, "
    "{\"id\": "
    "5}]}\n";

static cst_coco *truth_of(fixture *f) {
    cst_coco *coco = NULL;
    put_text(f, "gt.json", TRUTH);
    assert_int_equal(cst_coco_read(f->context, &coco, at(f, "gt.json"), 0, true), CST_OK);
    return coco;
}

static void annotations_are_read_in_any_order(void **state) {
    fixture *f = *state;
    cst_coco *coco = truth_of(f);
    assert_int_equal(coco->images, 2);
    assert_int_equal(coco->image_id[0], 5);
    assert_int_equal(coco->image_id[1], 7);
    assert_true(isnan(coco->width[0]) && coco->width[1] == 200 && coco->height[1] == 100);
    assert_int_equal(coco->categories, 2);
    assert_int_equal(coco->category_id[0], 2);
    assert_null(coco->category_name[0]);
    assert_string_equal(coco->category_name[1], "a \xc3\xa4");
    assert_int_equal(coco->count, 3);
    assert_int_equal(coco->first[1], 1);
    assert_true(coco->box[0].crowd && coco->box[0].area == 25);
    assert_true(coco->box[1].x == -3 && coco->box[1].category == 0); /* by category */
    assert_true(coco->box[2].y == 20.5 && coco->box[2].area == 600.5);
    assert_int_equal(cst_coco_image(coco, 6), -1);
    assert_int_equal(cst_coco_category(coco, 9), 1);
    cst_coco_free(f->context, coco);
}

static void results_are_read_and_written(void **state) {
    fixture *f = *state;
    cst_coco *coco = truth_of(f);
    cst_coco_boxes *boxes = NULL;
    cst_coco_boxes *again = NULL;
    char copy[600];
    put_text(
        f, "dt.json",
        "[{\"score\": 1e-1, \"bbox\": [1.5,2,3.25,4e0], \"category_id\": 9, \"image_id\": 7},\n"
        " {\"image_id\": 5, \"category_id\": 2.0, \"bbox\": [0.1,0,1,1], \"score\": 0.125,\n"
        "  \"segmentation\": [], \"other\": {\"counts\": [[1, {}]]}, \"id\": \"no matter\"},\n"
        " {\"image_id\": 7, \"category_id\": 9, \"bbox\": [1,2,3,4], \"score\":\n"
        "0.300001}]");
    assert_int_equal(cst_coco_read_boxes(f->context, &boxes, at(f, "dt.json"), 0, coco, true),
                     CST_OK);
    assert_int_equal(boxes->count, 3);
    assert_int_equal(boxes->first[1], 1);
    assert_true(boxes->box[0].score == 0.125 && boxes->box[0].x == 0.1);
    assert_true(boxes->box[1].score == 0.1 && boxes->box[1].w == 3.25 && boxes->box[1].h == 4);
    assert_true(boxes->box[2].score == 0.300001);

    (void)snprintf(copy, sizeof copy, "%s", at(f, "out.json"));
    assert_int_equal(cst_coco_write(f->context, copy, coco, boxes), CST_OK);
    assert_int_equal(cst_coco_read_boxes(f->context, &again, copy, 0, coco, true), CST_OK);
    assert_int_equal(again->count, 3);
    assert_memory_equal(again->box, boxes->box, 3 * sizeof *boxes->box);
    cst_coco_boxes_free(f->context, again);

    /* To the hundredth, or a thousandth of the shorter side. */
    static const double written[][3] = {{12.3456, 12.35, 7.01},
                                        {9.98765, 9.988, 7.006},
                                        {0.123456, 0.1235, 7.0057},
                                        {10, 10, 7.01}};
    for (size_t i = 0; i < sizeof written / sizeof written[0]; i++) {
        boxes->box[1].x = 7.005672;
        boxes->box[1].w = boxes->box[1].h = written[i][0];
        boxes->box[1].score = 0.000123456789;
        assert_int_equal(cst_coco_write(f->context, copy, coco, boxes), CST_OK);
        assert_int_equal(cst_coco_read_boxes(f->context, &again, copy, 0, coco, true), CST_OK);
        assert_true(again->box[1].w == written[i][1] && again->box[1].x == written[i][2]);
        assert_true(again->box[1].score == 0.000123457);
        cst_coco_boxes_free(f->context, again);
    }

    assert_int_equal(cst_coco_write(f->context, copy, coco, &(cst_coco_boxes){0}), CST_OK);
    assert_int_equal(cst_coco_read_boxes(f->context, &again, copy, 0, coco, true), CST_OK);
    assert_int_equal(again->count, 0);
    assert_int_equal(again->first[2], 0);
    cst_coco_boxes_free(f->context, again);

    double *const parts[] = {&boxes->box[1].x, &boxes->box[1].y, &boxes->box[1].w, &boxes->box[1].h,
                             &boxes->box[1].score};
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        double before = *parts[i];
        *parts[i] = i % 2 ? NAN : INFINITY;
        assert_int_equal(cst_coco_write(f->context, copy, coco, boxes), CST_ERROR_NUMERIC);
        assert_non_null(strstr(cst_last_error(f->context), "not finite"));
        *parts[i] = before;
    }
    assert_int_equal(cst_coco_read_boxes(f->context, &again, copy, 0, coco, true), CST_OK);
    assert_int_equal(again->count, 0); /* the file is as it was */
    cst_coco_boxes_free(f->context, again);
    cst_coco_boxes_free(f->context, boxes);
    cst_coco_free(f->context, coco);
}

static void numbers_are_what_strtod_gives(void **state) {
    (void)state;
    static const char *const texts[] = {"0",
                                        "-0",
                                        "7",
                                        "-12.25",
                                        "0.1",
                                        "123456789012345",
                                        "1234567890123456789",
                                        "0.1234567890123456789",
                                        "5e-324",
                                        "1.7976931348623157e308",
                                        "0.000000000000000000000000000001",
                                        "99999999999999.9",
                                        "3.14159E+2"};
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        double expected = strtod(texts[i], NULL);
        double got = cst_coco_number(texts[i], strlen(texts[i]));
        assert_memory_equal(&expected, &got, sizeof got);
    }
}

/* Of any length, rounded as strtod rounds all digits. */
static void long_numbers_are_read(void **state) {
    (void)state;
    enum { ROOM = 3000, MAX = 2000 };
    static const struct {
        const char *begin, *digit, *end;
    } parts[] = {{"0.", "1", ""},      {"-", "7", ""},
                 {"-3.", "0", "1e-5"}, {"0.", "0", "12"},
                 {"1", "0", "e-1500"}, {"0.", "9", ""},
                 {"", "4", "E+2"},     {"0.", "0", ""},
                 {"-0.", "0", "e7"},   {"9007199254740993.", "0", "1"}};
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++)
        for (int digits = 126; digits < MAX; digits += 97) {
            char text[ROOM];
            size_t length = strlen(strcpy(text, parts[i].begin));
            for (int d = 0; d < digits; d++)
                text[length++] = *parts[i].digit;
            strcpy(text + length, parts[i].end);
            length += strlen(parts[i].end);
            double expected = strtod(text, NULL);
            double got = cst_coco_number(text, length);
            assert_memory_equal(&expected, &got, sizeof got);
        }
}

/* Boxes cross the chunks in which a file is read. */
static void long_files_are_read_whole(void **state) {
    enum { BOXES = 20000, LINE = 160 };
    fixture *f = *state;
    cst_coco *coco = truth_of(f);
    cst_coco_boxes *boxes = NULL;
    char *text = malloc((size_t)BOXES * LINE);
    assert_non_null(text);
    size_t used = 0;
    for (int i = 0; i < BOXES; i++)
        used += (size_t)snprintf(
            text + used, LINE,
            "%s{\"image_id\":%d,\"category_id\":%d,\"bbox\":[%d.5,1,2,3],\"score\":%.9f}",
            i ? ",\n" : "[", i % 3 ? 7 : 5, i % 2 ? 2 : 9, i % 150, i / (double)BOXES);
    text[used++] = ']';
    put_bytes(f, "dt.json", text, used);
    free(text);
    assert_int_equal(cst_coco_read_boxes(f->context, &boxes, at(f, "dt.json"), 0, coco, true),
                     CST_OK);
    assert_int_equal(boxes->count, BOXES);
    for (int64_t i = 1; i < boxes->count; i++) {
        const cst_coco_box *a = &boxes->box[i - 1];
        const cst_coco_box *b = &boxes->box[i];
        assert_true(a->image < b->image || a->category < b->category ||
                    (a->category == b->category && a->score < b->score));
        int origin = (int)lround(b->score * BOXES);
        assert_true(b->x == origin % 150 + 0.5);
        assert_int_equal(b->image, origin % 3 ? 1 : 0);
        assert_int_equal(b->category, origin % 2 ? 0 : 1);
    }
    cst_coco_boxes_free(f->context, boxes);
    cst_coco_free(f->context, coco);
}

typedef struct fault {
    const char *text;
    cst_status code;
    const char *says[2];
} fault;

#define ZEROS "0000000000000000000000000000000000000000000000000000000000000000"
#define ONE(rest) "[{\"image_id\": 7, \"category_id\": 9, " rest "}]"

static const fault RESULT_FAULTS[] = {
    {"[{\"image_id\": 8, \"category_id\": 9, \"bbox\": [0,0,1,1], \"score\": 1}]",
     CST_ERROR_INPUT,
     {"dt.json: byte 1: detection 0", "image_id 8, but"}},
    {"[{\"image_id\": 7, \"category_id\": 1, \"bbox\": [0,0,1,1], \"score\": 1}]",
     CST_ERROR_INPUT,
     {"category_id 1, but", "gt.json has"}},
    {ONE("\"bbox\": [0,0,-1,1], \"score\": 1"), CST_ERROR_INPUT, {"negative size", "-1 x 1"}},
    {ONE("\"bbox\": [0,0,1e999,1], \"score\": 1"), CST_ERROR_INPUT, {"not finite", "bbox"}},
    {ONE("\"bbox\": [201,0,10,10], \"score\": 1"),
     CST_ERROR_INPUT,
     {"outside its image of 200 x 100", "[201, 0, 10, 10]"}},
    {ONE("\"bbox\": [0,-30,10,10], \"score\": 1"), CST_ERROR_INPUT, {"outside its image", ""}},
    {ONE("\"bbox\": [0,0,1,1], \"score\": 1e400"), CST_ERROR_INPUT, {"score", "not finite"}},
    {ONE("\"bbox\": [0,0,1,1], \"score\": NaN"),
     CST_ERROR_FORMAT,
     {"byte 63: not valid JSON", "NaN and Infinity"}},
    {ONE("\"bbox\": [0,0,1,1], \"score\": 1.5"), CST_ERROR_INPUT, {"score 1.5", "from 0 to 1"}},
    {ONE("\"bbox\": [0,0,1,1], \"score\": -0.5"), CST_ERROR_INPUT, {"score -0.5", ""}},
    {ONE("\"bbox\": [0,0,1,1]"), CST_ERROR_FORMAT, {"has no 'score'", ""}},
    {ONE("\"bbox\": [0,0,1,1], \"score\": null"), CST_ERROR_FORMAT, {"has no 'score'", ""}},
    {ONE("\"score\": 1"), CST_ERROR_FORMAT, {"has no 'bbox'", ""}},
    {ONE("\"bbox\": [0,0,1], \"score\": 1"), CST_ERROR_FORMAT, {"fewer than four", ""}},
    {ONE("\"bbox\": [0,0,1,1,1], \"score\": 1"), CST_ERROR_FORMAT, {"more than four", "rotated"}},
    {ONE("\"segmentation\": [[1,2,1,9,7,9,5,2]]"),
     CST_ERROR_FORMAT,
     {"dt.json: byte", "would be lost"}},
    {ONE("\"segmentation\": [[1,2,1,9,7,9]]"), CST_ERROR_FORMAT, {"detection 0", "would be lost"}},
    {ONE("\"segmentation\": [[1,2,1,9,7,9,7,2],[1]]"),
     CST_ERROR_FORMAT,
     {"would be lost", "Remove"}},
    {ONE("\"segmentation\": {\"counts\": \"a\"}"), CST_ERROR_FORMAT, {"would be lost", "Remove"}},
    {ONE("\"segmentation\": \"a\""), CST_ERROR_FORMAT, {"would be lost", "Remove the key"}},
    {ONE("\"segmentation\": [[1,2,1,9,7,9,7,2]]"), CST_ERROR_FORMAT, {"has no 'bbox'", ""}},
    {ONE("\"keypoints\": [1,2,2]"), CST_ERROR_FORMAT, {"would be lost", "'keypoints'"}},
    {ONE("\"bbox\": [0,0,\"1\",1], \"score\": 1"), CST_ERROR_FORMAT, {"not a list of numbers", ""}},
    {ONE("\"bbox\": [0,0,[1],1], \"score\": 1"), CST_ERROR_FORMAT, {"not a list of numbers", ""}},
    {ONE("\"bbox\": {\"x\": 1}, \"score\": 1"), CST_ERROR_FORMAT, {"'bbox'", "an object"}},
    {ONE("\"bbox\": 5, \"score\": 1"), CST_ERROR_FORMAT, {"not a list of four", ""}},
    {ONE("\"bbox\": [0,0,null,1], \"score\": 1"), CST_ERROR_FORMAT, {"not a list of numbers", ""}},
    {ONE("\"bbox\": [true,0,1,1], \"score\": 1"), CST_ERROR_FORMAT, {"not a list of numbers", ""}},
    {ONE("\"bbox\": [0,0,1,{}], \"score\": 1"), CST_ERROR_FORMAT, {"not a list of numbers", ""}},
    {ONE("\"bbox\": [1e999,0,1,1], \"score\": 1"), CST_ERROR_INPUT, {"not finite", "bbox"}},
    {ONE("\"bbox\": [0,-1e999,1,1], \"score\": 1"), CST_ERROR_INPUT, {"not finite", "bbox"}},
    {ONE("\"bbox\": [0,0,1,1e999], \"score\": 1"), CST_ERROR_INPUT, {"not finite", "bbox"}},
    {ONE("\"bbox\": [0,0,1,-1], \"score\": 1"), CST_ERROR_INPUT, {"negative size", "1 x -1"}},
    {ONE("\"bbox\": [0,2e7,1,1], \"score\": 1"), CST_ERROR_INPUT, {"10000000 pixels", ""}},
    {ONE("\"bbox\": [0,0,2e7,1], \"score\": 1"), CST_ERROR_INPUT, {"10000000 pixels", ""}},
    {ONE("\"bbox\": [0,0,1,2e7], \"score\": 1"), CST_ERROR_INPUT, {"10000000 pixels", ""}},
    {ONE("\"bbox\": [-11,0,10,10], \"score\": 1"), CST_ERROR_INPUT, {"outside its image", ""}},
    {ONE("\"bbox\": [0,101,10,10], \"score\": 1"), CST_ERROR_INPUT, {"outside its image", ""}},
    {ONE("\"bbox\": [0,0,1,1], \"score\": 1" ZEROS ZEROS ".0"), /* of 129 characters */
     CST_ERROR_INPUT,
     {"score 1e+128", "from 0 to 1"}},
    {ONE("\"bbox\": [0,0,1,1], \"score\": true"), CST_ERROR_FORMAT, {"'score'", "true or false"}},
    {ONE("\"bbox\": [0,0,1,1], \"score\": Infinity"),
     CST_ERROR_FORMAT,
     {"not valid JSON", "NaN and Infinity"}},
    {"[{\"image_id\": 1e300}]", CST_ERROR_FORMAT, {"'image_id'", "not an integer"}},
    {"[{\"image_id\": -1e17}]", CST_ERROR_FORMAT, {"'image_id'", "not an integer"}},
    {"[null]", CST_ERROR_FORMAT, {"detection 0", "null, not an object"}},
    {"[{}, false]", CST_ERROR_FORMAT, {"detection 0", "has no 'image_id'"}},
    {"[\"a\"]", CST_ERROR_FORMAT, {"detection 0", "a string, not an object"}},
    {"true", CST_ERROR_FORMAT, {"contains true or false, not a list of detections", ""}},
    {ONE("\"bbox\": [0,0,1,1], \"score\": \"1\""),
     CST_ERROR_FORMAT,
     {"a string, not a number", ""}},
    {ONE("\"bbox\": [0,0,1,1], \"score\": [1]"), CST_ERROR_FORMAT, {"'score'", "a list"}},
    {"[{\"image_id\": \"7\", \"category_id\": 9}]", CST_ERROR_FORMAT, {"image_id", "a string"}},
    {"[{\"image_id\": 7.5, \"category_id\": 9}]", CST_ERROR_FORMAT, {"not an integer", ""}},
    {"[{\"image_id\": 99999999999999999999}]", CST_ERROR_FORMAT, {"not an integer", ""}},
    {"[3]", CST_ERROR_FORMAT, {"detection 0", "a number, not an object"}},
    {"[[]]", CST_ERROR_FORMAT, {"a list, not an object", ""}},
    {"{\"images\": []}", CST_ERROR_FORMAT, {"an object, not a list", "annotation file"}},
    {"3", CST_ERROR_FORMAT, {"contains a number", ""}},
    {"[", CST_ERROR_FORMAT, {"byte 1: not valid JSON", "written to the end?"}},
    {"[{\"image_id\": 7, \"bbox\": [1, 2", CST_ERROR_FORMAT, {"not valid JSON", "to the end?"}},
    {"[{\"image_id\" 7}]", CST_ERROR_FORMAT, {"byte 13: not valid JSON", ""}},
    {"[] []", CST_ERROR_FORMAT, {"not valid JSON", "trailing"}},
    {"", CST_ERROR_FORMAT, {"empty", ""}},
};

static void faults_of_results_are_named(void **state) {
    fixture *f = *state;
    cst_coco *coco = truth_of(f);
    cst_coco_boxes *boxes = NULL;
    for (size_t i = 0; i < sizeof RESULT_FAULTS / sizeof RESULT_FAULTS[0]; i++) {
        const fault *one = &RESULT_FAULTS[i];
        put_text(f, "dt.json", one->text);
        cst_status status =
            cst_coco_read_boxes(f->context, &boxes, at(f, "dt.json"), 0, coco, true);
        expect_error(f, status, one->code, "dt.json", one->says[0], one->says[1], NULL);
        assert_null(boxes);
    }
    /* Scores of an evaluation need only be finite. */
    put_text(f, "dt.json", ONE("\"bbox\": [0,0,1,1], \"score\": -7.5"));
    assert_int_equal(cst_coco_read_boxes(f->context, &boxes, at(f, "dt.json"), 0, coco, false),
                     CST_OK);
    assert_true(boxes->box[0].score == -7.5);
    cst_coco_boxes_free(f->context, boxes);
    assert_int_equal(cst_coco_read_boxes(f->context, &boxes, at(f, "none.json"), 0, coco, false),
                     CST_ERROR_IO);
    cst_coco_free(f->context, coco);
}

#define FILE_OF(images, categories, annotations)                                                   \
    "{\"images\": [" images "], \"categories\": [" categories "], \"annotations\": [" annotations  \
    "]}"
#define IMAGE "{\"id\": 1, \"width\": 20, \"height\": 10}"
#define KIND "{\"id\": 4, \"name\": \"k\"}"
#define BOX(rest) "{\"image_id\": 1, \"category_id\": 4, " rest "}"

static const fault TRUTH_FAULTS[] = {
    {FILE_OF(IMAGE "," IMAGE, KIND, ""),
     CST_ERROR_INPUT,
     {"image", "id 1, which is also the id of another image"}},
    {FILE_OF(IMAGE, KIND "," KIND, ""),
     CST_ERROR_INPUT,
     {"id 4, which is also the id of another category", ""}},
    {FILE_OF(IMAGE, KIND,
             BOX("\"id\": 6, \"bbox\": [0,0,1,1]") "," BOX("\"id\": 6, \"bbox\": [0,0,1,1]")),
     CST_ERROR_INPUT,
     {"id 6, which is also the id of another annotation", ""}},
    {FILE_OF(IMAGE, KIND, "{\"image_id\": 2, \"category_id\": 4, \"bbox\": [0,0,1,1]}"),
     CST_ERROR_INPUT,
     {"annotation 0", "image_id 2, but"}},
    {FILE_OF(IMAGE, KIND, "{\"image_id\": 1, \"category_id\": 5, \"bbox\": [0,0,1,1]}"),
     CST_ERROR_INPUT,
     {"category_id 5, but", ""}},
    {FILE_OF(IMAGE, KIND, BOX("\"bbox\": [0,0,1,-1]")), CST_ERROR_INPUT, {"negative size", ""}},
    {FILE_OF(IMAGE, KIND, BOX("\"bbox\": [30,0,1,1]")), CST_ERROR_INPUT, {"outside its image", ""}},
    {FILE_OF("{\"id\": 1}", KIND, BOX("\"bbox\": [1,2,1e308,1e308]")),
     CST_ERROR_INPUT,
     {"10000000 pixels", ""}},
    {FILE_OF("{\"id\": 1}", KIND, BOX("\"bbox\": [-1e308,2,1.7e308,10]")),
     CST_ERROR_INPUT,
     {"10000000 pixels", ""}},
    {FILE_OF(IMAGE, KIND, BOX("\"bbox\": [0,0,1,1], \"area\": -1")),
     CST_ERROR_INPUT,
     {"area -1", ""}},
    {FILE_OF(IMAGE, KIND, BOX("\"bbox\": [0,0,1,1], \"iscrowd\": 2")),
     CST_ERROR_FORMAT,
     {"neither 0 nor 1", ""}},
    {FILE_OF(IMAGE, KIND, BOX("\"bbox\": [0,0,1,1], \"iscrowd\": -1")),
     CST_ERROR_FORMAT,
     {"neither 0 nor 1", ""}},
    {FILE_OF(IMAGE, KIND, BOX("\"bbox\": [0,0,1,1], \"iscrowd\": 0.5")),
     CST_ERROR_FORMAT,
     {"neither 0 nor 1", ""}},
    {FILE_OF(IMAGE, KIND, BOX("\"bbox\": [0,0,1,1], \"area\": 1e999")),
     CST_ERROR_INPUT,
     {"area inf", ""}},
    {FILE_OF(IMAGE, "{\"id\": 1, \"name\": 3}", ""),
     CST_ERROR_FORMAT,
     {"'name' of category 0", "a number, not a string"}},
    {FILE_OF(IMAGE, "{\"id\": 1, \"name\": \"a\\u0000b\"}", ""),
     CST_ERROR_FORMAT,
     {"'name' of category 0",
      "a string with control characters or bidirectional formatting characters"}},
    {FILE_OF(IMAGE, "{\"id\": 1, \"name\": \"a\\u0007b\"}", ""),
     CST_ERROR_FORMAT,
     {"'name' of category 0",
      "a string with control characters or bidirectional formatting characters"}},
    {FILE_OF("{\"id\": 1, \"width\": 1e300}", KIND, ""), CST_ERROR_INPUT, {"image 0", "1e+300"}},
    {FILE_OF("{\"id\": 1, \"height\": 10000001}", KIND, ""),
     CST_ERROR_INPUT,
     {"the limit is 10000000 pixels", ""}},
    {FILE_OF("{\"id\": 1, \"id\": 1}", KIND, ""), CST_ERROR_FORMAT, {"'id' of image 0", "twice"}},
    {FILE_OF(IMAGE, KIND, BOX("\"bbox\": [0,0,1,1], \"bbox\": [0,0,1,1]")),
     CST_ERROR_FORMAT,
     {"'bbox' of annotation 0", "given twice"}},
    {FILE_OF("{\"id\": 1, \"width\": 1e999}", KIND, ""), CST_ERROR_INPUT, {"size inf x 0", ""}},
    {FILE_OF("{\"id\": 1, \"height\": -1}", KIND, ""), CST_ERROR_INPUT, {"size 0 x -1", ""}},
    {FILE_OF("{\"id\": 1, \"height\": 1e999}", KIND, ""), CST_ERROR_INPUT, {"size 0 x inf", ""}},
    {FILE_OF("", "{\"name\": \"k\"}", ""), CST_ERROR_FORMAT, {"category 0", "has no 'id'"}},
    {FILE_OF("3", KIND, ""), CST_ERROR_FORMAT, {"image 0", "a number, not an object"}},
    {"3", CST_ERROR_FORMAT, {"contains a number, not COCO annotations", ""}},
    {"{\"images\": null}", CST_ERROR_FORMAT, {"the list of images is null, not a list", ""}},
    {"{\"annotations\": [], \"categories\": []}", CST_ERROR_FORMAT, {"no list of images", ""}},
    {"{\"images\": [], \"categories\": []}", CST_ERROR_FORMAT, {"no list of annotations", ""}},
    {FILE_OF(IMAGE, KIND, BOX("\"id\": 1")), CST_ERROR_FORMAT, {"has no 'bbox'", ""}},
    {FILE_OF("{\"id\": 1, \"width\": 0, \"height\": 10}", KIND, ""),
     CST_ERROR_INPUT,
     {"size 0 x 10", ""}},
    {FILE_OF("{\"width\": 5}", KIND, ""), CST_ERROR_FORMAT, {"image 0", "has no 'id'"}},
    {"{\"images\": [], \"annotations\": []}", CST_ERROR_FORMAT, {"no list of categories", ""}},
    {"{\"images\": {}, \"annotations\": []}", CST_ERROR_FORMAT, {"an object, not a list", ""}},
    {"{\"images\": [], \"images\": []}", CST_ERROR_FORMAT, {"occurs twice", ""}},
    {"[]", CST_ERROR_FORMAT, {"is it a file of detections?", ""}},
};

static void faults_of_annotations_are_named(void **state) {
    fixture *f = *state;
    cst_coco *coco = NULL;
    for (size_t i = 0; i < sizeof TRUTH_FAULTS / sizeof TRUTH_FAULTS[0]; i++) {
        const fault *one = &TRUTH_FAULTS[i];
        put_text(f, "gt.json", one->text);
        cst_status status = cst_coco_read(f->context, &coco, at(f, "gt.json"), 0, true);
        expect_error(f, status, one->code, "gt.json", one->says[0], one->says[1], NULL);
        assert_null(coco);
    }
}

/* Of images alone the annotations may be left out, and nothing else. */
static void images_without_annotations(void **state) {
    fixture *f = *state;
    cst_coco *coco = NULL;
    put_text(f, "gt.json", "{\"images\": [" IMAGE "], \"categories\": [" KIND "]}");
    expect_ok(f, cst_coco_read(f->context, &coco, at(f, "gt.json"), 0, false));
    assert_true(coco->images == 1 && coco->categories == 1 && coco->count == 0);
    cst_coco_free(f->context, coco);
    put_text(f, "gt.json", "{\"images\": [" IMAGE "]}");
    expect_error(f, cst_coco_read(f->context, &coco, at(f, "gt.json"), 0, false), CST_ERROR_FORMAT,
                 "gt.json", "it has no list of categories", NULL);
    /* ids of powers of ten, and crowds as true and false */
    put_text(f, "gt.json",
             FILE_OF("{\"id\": 1e3}", "{\"id\": -20.0e-1}",
                     "{\"image_id\": 1000, \"category_id\": -2, \"bbox\": [0,0,1,1], \"iscrowd\": "
                     "false}"));
    expect_ok(f, cst_coco_read(f->context, &coco, at(f, "gt.json"), 0, true));
    assert_true(coco->image_id[0] == 1000 && coco->category_id[0] == -2 && !coco->box[0].crowd);
    cst_coco_free(f->context, coco);
}

static void nesting_is_bounded(void **state) {
    enum { DEEP = 100000 };
    fixture *f = *state;
    cst_coco *coco = truth_of(f);
    cst_coco_boxes *boxes = NULL;
    char *text = malloc(DEEP);
    assert_non_null(text);
    static const char start[] = "[{\"other\": ";
    memset(text, '[', DEEP);
    memcpy(text, start, sizeof start - 1);
    put_bytes(f, "dt.json", text, DEEP);
    free(text);
    cst_status status = cst_coco_read_boxes(f->context, &boxes, at(f, "dt.json"), 0, coco, true);
    expect_error(f, status, CST_ERROR_FORMAT, "dt.json: byte 7", "nested more than 64", NULL);
    cst_coco_free(f->context, coco);
}

static void categories_must_agree(void **state) {
    fixture *f = *state;
    static const char *const others[] = {
        FILE_OF(IMAGE, "{\"id\": 2}, {\"id\": 8}", ""),
        FILE_OF(IMAGE, "{\"id\": 2}, {\"id\": 9, \"name\": \"b\"}", ""),
        FILE_OF(IMAGE, "{\"id\": 2}", ""),
    };
    static const char *const says[] = {"category id 8", "calls it 'a", "1 categories"};
    cst_coco *coco = truth_of(f);
    cst_coco *other = NULL;
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
        put_text(f, "other.json", others[i]);
        assert_int_equal(cst_coco_read(f->context, &other, at(f, "other.json"), 0, true), CST_OK);
        expect_error(f, cst_coco_same_categories(f->context, coco, other), CST_ERROR_MISMATCH,
                     "other.json", says[i], NULL);
        cst_coco_free(f->context, other);
    }
    assert_int_equal(cst_coco_same_categories(f->context, coco, coco), CST_OK);
    cst_coco_free(f->context, coco);
}

int suite_coco(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(annotations_are_read_in_any_order, files_setup,
                                        files_teardown),
        cmocka_unit_test_setup_teardown(results_are_read_and_written, files_setup, files_teardown),
        cmocka_unit_test(numbers_are_what_strtod_gives),
        cmocka_unit_test(long_numbers_are_read),
        cmocka_unit_test_setup_teardown(long_files_are_read_whole, files_setup, files_teardown),
        cmocka_unit_test_setup_teardown(faults_of_results_are_named, files_setup, files_teardown),
        cmocka_unit_test_setup_teardown(faults_of_annotations_are_named, files_setup,
                                        files_teardown),
        cmocka_unit_test_setup_teardown(images_without_annotations, files_setup, files_teardown),
        cmocka_unit_test_setup_teardown(nesting_is_bounded, files_setup, files_teardown),
        cmocka_unit_test_setup_teardown(categories_must_agree, files_setup, files_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
