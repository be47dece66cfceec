/* Cells of delimited text as they are written. Under predictions as tables. */
#ifndef CST_IO_CSV_WRITE_H
#define CST_IO_CSV_WRITE_H

#include "data/files/output.h"

cst_status cst_csv_put_text(cst_context *context, cst_output_file *output, const char *text);
/* A cell; in quotes where a reader would take it for something else. mark: what stands in front, or
 * "". */
cst_status cst_csv_put_cell(cst_context *context, cst_output_file *output, const char *mark,
                            const char *text);
/* Digits enough to read the same float32. */
cst_status cst_csv_put_number(cst_context *context, cst_output_file *output, float value);

#endif
