/* A graph of ONNX while it is built: nodes and constants, one call each. */
#pragma once

#include "core/scope.h"

#include <onnx/onnx.pb-c.h>

/* After a failure every call does nothing, and edges are "". */
typedef struct cst_onnx {
    cst_context *context;
    cst_scope *scope; /* of what the messages hold */
    cst_status status;
    CstPb__GraphProto graph;
    CstPb__ModelProto model;
} cst_onnx;

/* The name of a value. */
typedef const char *cst_edge;

void cst_onnx_begin(cst_onnx *g, cst_context *context, cst_scope *scope);

/* A node with one output, after those that its inputs come from. */
cst_edge cst_onnx_node(cst_onnx *g, const char *op, const cst_edge *inputs, size_t count);
#define CST_NODE(g, op, ...)                                                                       \
    cst_onnx_node(g, op, (const cst_edge[]){__VA_ARGS__},                                          \
                  sizeof((const cst_edge[]){__VA_ARGS__}) / sizeof(cst_edge))

/* An attribute of the last node. */
void cst_onnx_integer(cst_onnx *g, const char *name, int64_t value);
void cst_onnx_integers(cst_onnx *g, const char *name, const int64_t *values, size_t count);

/* Gives the last node a second output, which nothing reads. */
void cst_onnx_spare(cst_onnx *g);

/* Constants: a tensor [rows][columns], without the second where columns is 0; a number. */
cst_edge cst_onnx_tensor(cst_onnx *g, const double *values, size_t rows, size_t columns);
cst_edge cst_onnx_number(cst_onnx *g, double value);
cst_edge cst_onnx_singles(cst_onnx *g, const float *values, size_t count); /* float32 */
cst_edge cst_onnx_indices(cst_onnx *g, const int64_t *values, size_t count);

/* Inputs and outputs [rows, columns], or [rows] where columns is 0. doc: a text beside the name. */
void cst_onnx_input(cst_onnx *g, const char *name, int32_t type, int64_t columns, const char *doc);
void cst_onnx_output(cst_onnx *g, cst_edge from, const char *name, int32_t type, int64_t columns);
void cst_onnx_property(cst_onnx *g, const char *key, const char *value);

/* Writes the file whole or not at all, and frees the graph. */
cst_status cst_onnx_end(cst_onnx *g, const char *path);
