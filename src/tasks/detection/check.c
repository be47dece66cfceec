/* Checks of detections by the share of true boxes that a member's boxes hit. See the header. */
#include "tasks/detection/check.h"

#include "tasks/detection/ap.h"

#include <math.h>

enum { IMAGES_MAX = 500 };

static const double HIT = 0.5;     /* IoU */
static const double GOOD = 0.2;    /* share of true boxes hit */
static const double FEW = 0.35;    /* of what the best member hits: other readings are tried */
static const double BAD = 0.1;     /* the same: said without another reading */
static const double FEWEST = 20.0; /* hits of the best member, or by another reading */

typedef enum reading {
    AS_THEY_ARE,
    NORMALISED,
    NORMALISED_CORNERS,
    NORMALISED_CENTRES,
    CORNERS,
    CENTRES,
    SWAPPED,
    SCALED,
    ANY_CATEGORY,
    NEXT_IMAGE,
    PREVIOUS_IMAGE,
    READINGS
} reading;

static const char *const WORDS[READINGS] = {
    [NORMALISED] = "its coordinates are fractions of the image: multiply x and width by the width "
                   "of the image, y and height by its height",
    [NORMALISED_CORNERS] = "its coordinates are corners as fractions of the image: give left, top, "
                           "width and height in pixels",
    [NORMALISED_CENTRES] = "its coordinates are centres and sizes as fractions of the image (as of "
                           "YOLO): give left, top, width and height in pixels",
    [CORNERS] = "its coordinates are corners (x1, y1, x2, y2): give left, top, width and height",
    [CENTRES] = "its coordinates are centres and sizes: give left, top, width and height",
    [SWAPPED] = "x and y are exchanged",
    [SCALED] = "its coordinates are of images of another size: scale them back",
    [ANY_CATEGORY] = "categories are ignored: its category ids are probably numbered in another "
                     "way than those of the annotations",
    [NEXT_IMAGE] = "its boxes are taken for the image before: its image ids are one too high",
    [PREVIOUS_IMAGE] = "its boxes are taken for the next image: its image ids are one too low"};

typedef struct box_check {
    const cst_pool *pool;
    const cst_box_split *files;
    double *scale; /* [members][2]: extent of the true boxes over that of the member's */
    double *hits;  /* [members][READINGS] */
    double truth;  /* boxes looked at */
} box_check;

/* Right and lower ends. */
static double extent(double most, double at, double size) {
    return at + size > most ? at + size : most;
}

static cst_coco_box read_as(const box_check *c, int32_t member, const cst_coco_box *box,
                            reading how) {
    cst_coco_box b = *box;
    const cst_coco *coco = c->files->coco;
    bool fractions = how == NORMALISED || how == NORMALISED_CORNERS || how == NORMALISED_CENTRES;
    double wide = fractions ? coco->width[box->image] : how == SCALED ? c->scale[2 * member] : 1;
    double high = fractions       ? coco->height[box->image]
                  : how == SCALED ? c->scale[2 * member + 1]
                                  : 1;
    b.x *= wide;
    b.w *= wide;
    b.y *= high;
    b.h *= high;
    if (how == CORNERS || how == NORMALISED_CORNERS) {
        b.w -= b.x;
        b.h -= b.y;
    } else if (how == CENTRES || how == NORMALISED_CENTRES) {
        b.x -= b.w / 2;
        b.y -= b.h / 2;
    } else if (how == SWAPPED) {
        b = (cst_coco_box){.x = b.y, .y = b.x, .w = b.h, .h = b.w};
    }
    b.category = box->category;
    return b;
}

/* True boxes of an image that the member hits, in one reading. */
static double hits_in(const box_check *c, int32_t member, int32_t image, reading how) {
    const cst_coco *coco = c->files->coco;
    const cst_coco_boxes *boxes = c->files->boxes[member];
    int32_t from = how == NEXT_IMAGE ? image + 1 : how == PREVIOUS_IMAGE ? image - 1 : image;
    double hits = 0;
    if (from < 0 || from >= coco->images)
        return 0;
    for (int64_t t = coco->first[image]; t < coco->first[image + 1]; t++) {
        const cst_coco_true *truth = &coco->box[t];
        bool hit = false;
        for (int64_t i = boxes->first[from]; !truth->crowd && !hit && i < boxes->first[from + 1];
             i++) {
            if (how != ANY_CATEGORY && boxes->box[i].category != truth->category)
                continue;
            cst_coco_box b = read_as(c, member, &boxes->box[i], how);
            hit = b.w > 0 && b.h > 0 &&
                  cst_box_iou(b.x, b.y, b.w, b.h, truth->x, truth->y, truth->w, truth->h) >= HIT;
        }
        hits += hit;
    }
    return hits;
}

static int32_t image_at(const box_check *c, int32_t i, int32_t count) {
    return (int32_t)((int64_t)i * c->files->coco->images / count);
}

static int32_t images_of(const box_check *c) {
    return c->files->coco->images < IMAGES_MAX ? c->files->coco->images : IMAGES_MAX;
}

static double count_hits(const box_check *c, int32_t member, reading how) {
    double hits = 0;
    int32_t images = images_of(c);
    for (int32_t i = 0; i < images; i++)
        hits += hits_in(c, member, image_at(c, i, images), how);
    return hits;
}

static cst_status count_plain(cst_context *worker, void *user, int64_t member) {
    const box_check *c = user;
    (void)worker;
    c->hits[member * READINGS] = count_hits(c, (int32_t)member, AS_THEY_ARE);
    return CST_OK;
}

/* What makes the boxes of a member extend as far as the true ones. */
static void find_scale(const box_check *c, int32_t member) {
    const cst_coco *coco = c->files->coco;
    const cst_coco_boxes *boxes = c->files->boxes[member];
    double truth[2] = {0};
    double own[2] = {0};
    for (int64_t t = 0; t < coco->count; t++) {
        truth[0] = extent(truth[0], coco->box[t].x, coco->box[t].w);
        truth[1] = extent(truth[1], coco->box[t].y, coco->box[t].h);
    }
    for (int64_t i = 0; i < boxes->count; i++) {
        own[0] = extent(own[0], boxes->box[i].x, boxes->box[i].w);
        own[1] = extent(own[1], boxes->box[i].y, boxes->box[i].h);
    }
    for (int a = 0; a < 2; a++)
        c->scale[2 * member + a] = own[a] > 0 ? truth[a] / own[a] : 1;
}

/* The reading in which a member hits most, of at least a fifth of the true boxes; AS_THEY_ARE:
 * none. */
static reading best_reading(const box_check *c, int32_t member) {
    const double *hits = c->hits + (size_t)member * READINGS;
    reading best = AS_THEY_ARE;
    for (int how = 1; how < READINGS; how++)
        if (hits[how] > hits[best])
            best = (reading)how;
    bool clear =
        hits[best] >= FEWEST && hits[best] >= GOOD * c->truth && hits[best] > 3 * hits[AS_THEY_ARE];
    return clear ? best : AS_THEY_ARE;
}

static cst_status tell(cst_context *context, const box_check *c, const char *split, reading how,
                       const int32_t *list, int32_t count, double best, cst_findings *findings) {
    char who[256];
    const double *hits = c->hits + (size_t)list[0] * READINGS;
    bool most = 2 * count > c->files->members;
    char of[80] = "";
    (void)cst_names_of(c->pool, list, count, who, sizeof who);
    if (split)
        (void)cst_snprintf(of, sizeof of, " of split '%.60s'", split);
    if (how == AS_THEY_ARE)
        return cst_findings_add(
            context, findings, "boxes", false, list, count,
            "%s hit%s %.0f of %.0f true boxes%s (the best member %.0f): check "
            "coordinates (left, top, width, height in pixels), category ids and image ids",
            who, count == 1 ? "s" : "", hits[0], c->truth, of, best);
    return cst_findings_add(context, findings, "boxes", most, list, count,
                            "%s hit%s %.0f of %.0f true boxes%s, but %.0f if %s", who,
                            count == 1 ? "s" : "", hits[0], c->truth, of, hits[how], WORDS[how]);
}

/* Whether other readings of a member are tried. best: hits of the best member as it is. */
static bool in_question(const box_check *c, int32_t member, double best) {
    double hits = c->hits[(size_t)member * READINGS];
    double few = best >= GOOD * c->truth ? FEW * best : GOOD * c->truth;
    return c->files->boxes[member]->count > 0 && hits <= few;
}

static cst_status look(cst_context *context, const box_check *c, const char *split, int32_t *list,
                       cst_findings *findings) {
    int32_t members = c->files->members;
    double best = 0;
    for (int32_t k = 0; k < members; k++)
        best = fmax(best, c->hits[(size_t)k * READINGS]);
    bool some = best >= FEWEST && best >= GOOD * c->truth;
    for (int32_t k = 0; k < members; k++) {
        if (!in_question(c, k, best))
            continue;
        find_scale(c, k);
        for (int how = 1; how < READINGS; how++)
            c->hits[(size_t)k * READINGS + (size_t)how] = count_hits(c, k, (reading)how);
    }
    for (int how = 0; how < READINGS; how++) {
        int32_t count = 0;
        for (int32_t k = 0; k < members; k++) {
            bool bad = some && c->hits[(size_t)k * READINGS] <= BAD * best;
            if (in_question(c, k, best) && (int)best_reading(c, k) == how &&
                (bad || how != AS_THEY_ARE))
                list[count++] = k;
        }
        if (count > 0)
            CST_TRY(tell(context, c, split, (reading)how, list, count, best, findings));
    }
    return CST_OK;
}

/* ---- copies ---- */

/* Whether every true box of an image is one of the member's, edge by edge. */
static bool holds_truth(const box_check *c, int32_t member, int32_t image) {
    const cst_coco *coco = c->files->coco;
    const cst_coco_boxes *boxes = c->files->boxes[member];
    for (int64_t t = coco->first[image]; t < coco->first[image + 1]; t++) {
        const cst_coco_true *truth = &coco->box[t];
        bool found = truth->crowd;
        for (int64_t i = boxes->first[image]; !found && i < boxes->first[image + 1]; i++) {
            const cst_coco_box *b = &boxes->box[i];
            found = b->category == truth->category &&
                    cst_box_iou(b->x, b->y, b->w, b->h, truth->x, truth->y, truth->w, truth->h) >
                        1 - 1e-6;
        }
        if (!found)
            return false;
    }
    return true;
}

static bool same_boxes(const cst_coco_boxes *a, const cst_coco_boxes *b) {
    for (int64_t i = 0; a->count == b->count && i < a->count; i++) {
        const cst_coco_box *x = &a->box[i];
        const cst_coco_box *y = &b->box[i];
        const double off[] = {x->x - y->x, x->y - y->y, x->w - y->w, x->h - y->h,
                              x->score - y->score};
        for (size_t d = 0; d < sizeof off / sizeof off[0]; d++)
            if (fabs(off[d]) > 0)
                return false;
        if (x->image != y->image || x->category != y->category)
            return false;
    }
    return a->count == b->count && a->count > 0;
}

static cst_status check_copies(cst_context *context, const box_check *c, int32_t *list,
                               cst_findings *findings) {
    int32_t images = images_of(c);
    for (int32_t k = 0; k < c->files->members; k++) {
        int32_t count = 0;
        bool earlier = false;
        char who[256];
        bool truth = c->hits[(size_t)k * READINGS] >= c->truth;
        for (int32_t i = 0; truth && i < images; i++)
            truth = holds_truth(c, k, image_at(c, i, images));
        if (truth)
            CST_TRY(cst_findings_add(context, findings, "leak", true, &k, 1,
                                     "%s has every one of %.0f true boxes, edge by edge: it "
                                     "is the annotations, not a prediction; remove it from the "
                                     "pool",
                                     cst_names_of(c->pool, &k, 1, who, sizeof who), c->truth));
        for (int32_t j = 0; j < c->files->members; j++)
            if (j == k || same_boxes(c->files->boxes[k], c->files->boxes[j])) {
                earlier = earlier || j < k;
                list[count++] = j;
            }
        if (count > 1 && !earlier)
            CST_TRY(
                cst_findings_add(context, findings, "identical", false, list, count,
                                 "%s are the same boxes under %d names: was one file saved twice?",
                                 cst_names_of(c->pool, list, count, who, sizeof who), (int)count));
    }
    return CST_OK;
}

cst_status cst_box_check(cst_context *context, const cst_pool *pool, const char *split,
                         const cst_box_split *files, cst_findings *findings) {
    box_check c = {.pool = pool, .files = files};
    CST_SCOPE(scope);
    int32_t *list;
    CST_TAKE(context, scope, c.scale, 2 * files->members);
    CST_TAKE(context, scope, c.hits, files->members * READINGS);
    CST_TAKE(context, scope, list, files->members);
    int32_t images = images_of(&c);
    for (int32_t i = 0; i < images; i++) {
        int32_t image = image_at(&c, i, images);
        for (int64_t t = files->coco->first[image]; t < files->coco->first[image + 1]; t++)
            c.truth += !files->coco->box[t].crowd;
    }
    CST_TRY(cst_parallel_for(context, files->members, count_plain, &c));
    if (c.truth < FEWEST)
        return CST_OK;
    CST_TRY(look(context, &c, split, list, findings));
    return check_copies(context, &c, list, findings);
}

cst_status cst_box_check_scored(cst_context *context, const cst_pool *pool, const char *split,
                                const cst_box_split *files) {
    cst_findings findings = {0};
    cst_status status = cst_box_check(context, pool, split, files, &findings);
    if (status == CST_OK)
        cst_check_tell(context, NULL, &findings);
    cst_findings_free(context, &findings);
    return status;
}
