/*
 * The finished stages of a fit as checkpoint parts (io/checkpoint.h): the results that each stage
 * adds. Under stages.c and the stages of a regression.
 */
#ifndef CST_PIPELINE_PARTS_H
#define CST_PIPELINE_PARTS_H

#include "io/checkpoint.h"
#include "pipeline/stages.h"

/* A hash of what stages depend on besides the pool and the options of the fit: the rows, their
 * folds, and settings that a run changes for inner fits. 0 without checkpoints. */
uint64_t cst_parts_of(cst_context *context, const cst_view *view, const int32_t *folds,
                      int32_t fold_count, const cst_settings *settings);

/* For cst_checkpoint_part: object is a cst_stages with its arrays. */
void cst_pack_redundancy(cst_pack *pack, void *object); /* all of S1 */
void cst_pack_selection(cst_pack *pack, void *object);
void cst_pack_removals(cst_pack *pack, void *object); /* kept, reasons, changes; not the fit */

/* The fit of a set of members on `rows` rows. */
void cst_meta_fit_pack(cst_pack *pack, cst_meta_fit *fit, int64_t rows);

/* A name, such as "with 0f3a...", for the members that are left of a set. */
enum { CST_PART_NAME_CHARS = 48 };
void cst_part_name(const char *what, const int32_t *all, int32_t count, const int32_t *left,
                   int32_t left_count, char name[CST_PART_NAME_CHARS]);

#endif
