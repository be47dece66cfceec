/* Builds a graph of ONNX as messages of protobuf-c. See the header. */
#include "export/onnx_graph.h"

#include "data/files/output.h"

#include <string.h>

/* Of 2020: with every operator that is used, and known to what runs graphs today. */
enum { IR_VERSION = 7, OPSET = 13 };

/* A message from the scope, ready for use. */
static void *take(cst_onnx *g, size_t count, size_t size) {
    void *made = g->status == CST_OK ? cst_take(g->context, g->scope, count, size) : NULL;
    if (!made && g->status == CST_OK)
        g->status = CST_ERROR_MEMORY;
    return made;
}
#define MESSAGE(g, type, made, init)                                                               \
    type *made = take(g, 1, sizeof(type));                                                         \
    if (made)                                                                                      \
    init(made)

static char *text(cst_onnx *g, const char *from) {
    char *made = take(g, strlen(from) + 1, 1);
    return made ? memcpy(made, from, strlen(from) + 1) : NULL;
}

/* A list of pointers to messages; the lists themselves are freed at the end. */
#define APPEND(g, list, count, item)                                                               \
    do {                                                                                           \
        void *grown = (item) ? cst_grow_list((g)->context, list, count, sizeof *(list)) : NULL;    \
        if (grown) {                                                                               \
            (list) = grown;                                                                        \
            (list)[(count)++] = (item);                                                            \
        } else if ((g)->status == CST_OK) {                                                        \
            (g)->status = CST_ERROR_MEMORY;                                                        \
        }                                                                                          \
    } while (0)

void cst_onnx_begin(cst_onnx *g, cst_context *context, cst_scope *scope) {
    *g = (cst_onnx){.context = context, .scope = scope};
    cst_pb__graph_proto__init(&g->graph);
    cst_pb__model_proto__init(&g->model);
}

/* ---- nodes ---- */

cst_edge cst_onnx_node(cst_onnx *g, const char *op, const cst_edge *inputs, size_t count) {
    MESSAGE(g, CstPb__NodeProto, node, cst_pb__node_proto__init);
    char **in = take(g, count, sizeof *in);
    char **out = take(g, 2, sizeof *out);
    if (!node || !in || !out)
        return "";
    for (size_t i = 0; i < count; i++)
        in[i] = text(g, inputs[i]);
    out[0] = cst_take_format(g->context, g->scope, "corestack/%zu", g->graph.n_node);
    node->op_type = text(g, op);
    node->input = in;
    node->n_input = count;
    node->output = out;
    node->n_output = 1;
    if (!out[0])
        g->status = CST_ERROR_MEMORY;
    APPEND(g, g->graph.node, g->graph.n_node, node);
    return g->status == CST_OK ? out[0] : "";
}

static CstPb__AttributeProto *attribute(cst_onnx *g, const char *name) {
    MESSAGE(g, CstPb__AttributeProto, made, cst_pb__attribute_proto__init);
    CstPb__NodeProto *node = made ? g->graph.node[g->graph.n_node - 1] : NULL;
    CstPb__AttributeProto **list = take(g, node ? node->n_attribute + 1 : 0, sizeof *list);
    if (!node || !list)
        return NULL;
    if (node->n_attribute > 0)
        memcpy(list, node->attribute, node->n_attribute * sizeof *list);
    list[node->n_attribute++] = made;
    node->attribute = list;
    made->name = text(g, name);
    made->has_type = 1;
    return made;
}

void cst_onnx_integer(cst_onnx *g, const char *name, int64_t value) {
    CstPb__AttributeProto *made = attribute(g, name);
    if (!made)
        return;
    made->type = CST_PB__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__INT;
    made->has_i = 1;
    made->i = value;
}

void cst_onnx_integers(cst_onnx *g, const char *name, const int64_t *values, size_t count) {
    CstPb__AttributeProto *made = attribute(g, name);
    int64_t *copy = take(g, count, sizeof *copy);
    if (!made || !copy)
        return;
    memcpy(copy, values, count * sizeof *copy);
    made->type = CST_PB__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__INTS;
    made->ints = copy;
    made->n_ints = count;
}

void cst_onnx_spare(cst_onnx *g) {
    CstPb__NodeProto *node = g->status == CST_OK ? g->graph.node[g->graph.n_node - 1] : NULL;
    if (!node)
        return;
    node->output[1] = cst_take_format(g->context, g->scope, "%s_spare", node->output[0]);
    node->n_output = 2;
    if (!node->output[1])
        g->status = CST_ERROR_MEMORY;
}

/* ---- constants ---- */

/* values: those of the type, copied. */
static cst_edge constant(cst_onnx *g, int32_t type, const void *values, const int64_t *dims,
                         size_t rank) {
    bool single = type == CST_PB__TENSOR_PROTO__DATA_TYPE__FLOAT;
    size_t size = single ? sizeof(float) : sizeof(int64_t); /* doubles are as long */
    size_t count = 1;
    for (size_t d = 0; d < rank; d++)
        count *= (size_t)dims[d];
    MESSAGE(g, CstPb__TensorProto, made, cst_pb__tensor_proto__init);
    int64_t *shape = take(g, rank, sizeof *shape);
    void *copy = take(g, count, size);
    if (!made || !shape || !copy)
        return "";
    if (rank > 0)
        memcpy(shape, dims, rank * sizeof *shape);
    memcpy(copy, values, count * size);
    made->dims = shape;
    made->n_dims = rank;
    made->has_data_type = 1;
    made->data_type = type;
    bool wide = type == CST_PB__TENSOR_PROTO__DATA_TYPE__DOUBLE;
    made->float_data = single ? copy : NULL;
    made->n_float_data = single ? count : 0;
    made->double_data = wide ? copy : NULL;
    made->n_double_data = wide ? count : 0;
    made->int64_data = single || wide ? NULL : copy;
    made->n_int64_data = single || wide ? 0 : count;
    made->name =
        cst_take_format(g->context, g->scope, "corestack/constant/%zu", g->graph.n_initializer);
    if (!made->name)
        g->status = CST_ERROR_MEMORY;
    APPEND(g, g->graph.initializer, g->graph.n_initializer, made);
    return g->status == CST_OK ? made->name : "";
}

cst_edge cst_onnx_tensor(cst_onnx *g, const double *values, size_t rows, size_t columns) {
    const int64_t dims[] = {(int64_t)rows, (int64_t)columns};
    return constant(g, CST_PB__TENSOR_PROTO__DATA_TYPE__DOUBLE, values, dims, columns > 0 ? 2 : 1);
}

cst_edge cst_onnx_number(cst_onnx *g, double value) {
    return constant(g, CST_PB__TENSOR_PROTO__DATA_TYPE__DOUBLE, &value, NULL, 0);
}

cst_edge cst_onnx_singles(cst_onnx *g, const float *values, size_t count) {
    const int64_t dims[] = {(int64_t)count};
    return constant(g, CST_PB__TENSOR_PROTO__DATA_TYPE__FLOAT, values, dims, 1);
}

cst_edge cst_onnx_indices(cst_onnx *g, const int64_t *values, size_t count) {
    const int64_t dims[] = {(int64_t)count};
    return constant(g, CST_PB__TENSOR_PROTO__DATA_TYPE__INT64, values, dims, 1);
}

/* ---- inputs and outputs ---- */

static CstPb__ValueInfoProto *value(cst_onnx *g, const char *name, int32_t type, int64_t columns) {
    size_t rank = columns > 0 ? 2 : 1;
    MESSAGE(g, CstPb__ValueInfoProto, made, cst_pb__value_info_proto__init);
    MESSAGE(g, CstPb__TypeProto, kind, cst_pb__type_proto__init);
    MESSAGE(g, CstPb__TypeProto__Tensor, tensor, cst_pb__type_proto__tensor__init);
    MESSAGE(g, CstPb__TensorShapeProto, shape, cst_pb__tensor_shape_proto__init);
    CstPb__TensorShapeProto__Dimension *dim = take(g, 2, sizeof *dim);
    CstPb__TensorShapeProto__Dimension **list = take(g, 2, sizeof *list);
    if (!made || !kind || !tensor || !shape || !dim || !list)
        return NULL;
    for (size_t d = 0; d < rank; d++) {
        cst_pb__tensor_shape_proto__dimension__init(&dim[d]);
        list[d] = &dim[d];
    }
    dim[0].value_case = CST_PB__TENSOR_SHAPE_PROTO__DIMENSION__VALUE_DIM_PARAM;
    dim[0].dim_param = text(g, "rows");
    dim[1].value_case = CST_PB__TENSOR_SHAPE_PROTO__DIMENSION__VALUE_DIM_VALUE;
    dim[1].dim_value = columns;
    shape->dim = list;
    shape->n_dim = rank;
    tensor->has_elem_type = 1;
    tensor->elem_type = type;
    tensor->shape = shape;
    kind->value_case = CST_PB__TYPE_PROTO__VALUE_TENSOR_TYPE;
    kind->tensor_type = tensor;
    made->name = text(g, name);
    made->type = kind;
    return made;
}

void cst_onnx_input(cst_onnx *g, const char *name, int32_t type, int64_t columns, const char *doc) {
    CstPb__ValueInfoProto *made = value(g, name, type, columns);
    if (made)
        made->doc_string = text(g, doc);
    APPEND(g, g->graph.input, g->graph.n_input, made);
}

void cst_onnx_output(cst_onnx *g, cst_edge from, const char *name, int32_t type, int64_t columns) {
    (void)CST_NODE(g, "Identity", from);
    if (g->status == CST_OK)
        g->graph.node[g->graph.n_node - 1]->output[0] = text(g, name);
    CstPb__ValueInfoProto *made = value(g, name, type, columns);
    APPEND(g, g->graph.output, g->graph.n_output, made);
}

void cst_onnx_property(cst_onnx *g, const char *key, const char *of) {
    MESSAGE(g, CstPb__StringStringEntryProto, made, cst_pb__string_string_entry_proto__init);
    if (!made)
        return;
    made->key = text(g, key);
    made->value = text(g, of);
    APPEND(g, g->model.metadata_props, g->model.n_metadata_props, made);
}

/* ---- the file ---- */

static cst_status write_file(cst_onnx *g, const char *path) {
    size_t size = cst_pb__model_proto__get_packed_size(&g->model);
    if (size > INT32_MAX)
        return cst_fail(g->context, CST_ERROR_LIMIT,
                        "%s: the graph would have %zu bytes, and ONNX allows 2 GiB", path, size);
    CST_NEW(g->context, g->scope, uint8_t, bytes, size);
    cst_output_file *output = NULL;
    (void)cst_pb__model_proto__pack(&g->model, bytes);
    cst_status status = cst_output_open(g->context, &output, path);
    CST_THEN(cst_output_write(g->context, output, bytes, size));
    return cst_output_end(g->context, output, status);
}

cst_status cst_onnx_end(cst_onnx *g, const char *path) {
    CstPb__OperatorSetIdProto opset = CST_PB__OPERATOR_SET_ID_PROTO__INIT;
    CstPb__OperatorSetIdProto *opsets[] = {&opset};
    char producer[] = "corestack";
    char domain[] = "";
    opset.domain = domain;
    opset.has_version = 1;
    opset.version = OPSET;
    g->graph.name = producer;
    g->model.has_ir_version = 1;
    g->model.ir_version = IR_VERSION;
    g->model.producer_name = producer;
    g->model.producer_version = text(g, cst_version());
    g->model.opset_import = opsets;
    g->model.n_opset_import = 1;
    g->model.graph = &g->graph;
    if (g->status == CST_OK)
        g->status = write_file(g, path);
    cst_free(g->context, g->graph.node);
    cst_free(g->context, g->graph.initializer);
    cst_free(g->context, g->graph.input);
    cst_free(g->context, g->graph.output);
    cst_free(g->context, g->model.metadata_props);
    return g->status;
}
