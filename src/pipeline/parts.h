/*
 * The finished stages of a fit as parts that are kept (io/checkpoint.h): what each of them has
 * added to what the run found. Under stages.c and the stages of a regression.
 */
#ifndef CST_PIPELINE_PARTS_H
#define CST_PIPELINE_PARTS_H

#include "io/checkpoint.h"
#include "pipeline/stages.h"

/* What stages depend on besides the pool and the options of the fit: the rows and their folds, and
 * settings that a run changes for fits inside. 0 where nothing is kept. */
uint64_t cst_parts_of(cst_context *context, const cst_view *view, const int32_t *folds,
                      int32_t fold_count, const cst_settings *settings);

/* For cst_checkpoint_part: object is a cst_stages with its arrays. */
void cst_pack_redundancy(cst_pack *pack, void *object); /* all of S1 */
void cst_pack_selection(cst_pack *pack, void *object);
void cst_pack_removals(cst_pack *pack, void *object); /* kept, reasons, changes; not the fit */

/* The fit of a set of members on `rows` rows. */
void cst_meta_fit_pack(cst_pack *pack, cst_meta_fit *fit, int64_t rows);

/* What is left of a set of members when some of it go, as a name such as "with 0f3a...". */
enum { CST_PART_NAME_CHARS = 48 };
void cst_part_name(const char *what, const int32_t *all, int32_t count, const int32_t *left,
                   int32_t left_count, char name[CST_PART_NAME_CHARS]);

#endif
