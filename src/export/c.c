/* A model as one file of C99: the sources that predict (scripts/runtime_c.py) and the model as
 * constants of their structs. docs/serving.md#one-file-of-c. */
#include "core/scope.h"
#include "data/files/output.h"
#include "export/formats.h"
#include "model/predict.h"
#include "model/transform.h"

#include <ctype.h>
#include <math.h>
#include <string.h>

#ifdef CST_EXPORT_C
extern const unsigned char cst_runtime_text[];
extern const size_t cst_runtime_size;
#else
static const unsigned char cst_runtime_text[1];
static const size_t cst_runtime_size = 0;
#endif

/* Of the file's scratch, which is on the stack: chunks of rows are made smaller for it. */
enum { STACK_BYTES = 128 << 10, SAMPLE_BYTES_MAX = 1 << 20, NUMBERS_A_LINE = 6 };

typedef struct text {
    cst_buffer arrays; /* what the structs point at, before them */
    cst_buffer out;
    int count; /* of arrays */
} text;

static void put(cst_buffer *to, const char *format, ...) CST_PRINTF(2, 3);
static void put(cst_buffer *to, const char *format, ...) {
    char line[512];
    va_list args;
    va_start(args, format);
    (void)cst_vsnprintf(line, sizeof line, format, args);
    va_end(args);
    cst_buffer_add_text(to, line);
}

static void put_number(cst_buffer *to, double value, bool single) {
    if (isnan(value) || isinf(value))
        put(to, "%s", isnan(value) ? "NAN" : value < 0 ? "-INFINITY" : "INFINITY");
    else
        put(to, "%a%s", value, single ? "F" : "");
}

/* An array of `count` doubles or floats, and ".NAME = it, " in the struct; nothing for NULL. */
static void put_array(text *t, const char *name, const double *wide, const float *single,
                      size_t count) {
    if ((!wide && !single) || count == 0)
        return;
    put(&t->arrays, "static %s a%d[] = {", wide ? "double" : "float", t->count);
    for (size_t i = 0; i < count; i++) {
        put(&t->arrays, "%s", i == 0 ? "" : i % NUMBERS_A_LINE ? ", " : ",\n    ");
        put_number(&t->arrays, wide ? wide[i] : (double)single[i], !wide);
    }
    put(&t->arrays, "};\n");
    put(&t->out, ".%s = a%d, ", name, t->count++);
}

/* A text as a literal of C; any byte but plain ASCII, and what a trigraph needs, as its number. */
static void put_text(cst_buffer *to, const char *string) {
    put(to, "\"");
    for (const char *at = string; *at; at++) {
        unsigned char byte = (unsigned char)*at;
        if (isalnum(byte) || (byte != '\0' && strchr(" _-.:,;/()+=[]{}<>@#*'&!%", byte)))
            put(to, "%c", byte);
        else
            put(to, "\\%03o", byte);
    }
    put(to, "\"");
}

static void put_names(text *t, const char *what, char *const *names, int32_t count) {
    put(&t->arrays, "static char *%s[] = {", what);
    for (int32_t i = 0; i < count; i++) {
        put_text(&t->arrays, names[i]);
        put(&t->arrays, i + 1 < count ? ",\n    " : "};\n");
    }
}

/* Steps of isotonic maps become an array of structs; the rest goes into the struct at hand. */
static void put_calibrator(text *t, const cst_calibrator *calibrator) {
    size_t classes = (size_t)calibrator->classes;
    put(&t->out,
        ".kind = (cst_calibrator_kind)%d, .classes = %d, .temperature = ", (int)calibrator->kind,
        (int)calibrator->classes);
    put_number(&t->out, calibrator->temperature, false);
    put(&t->out, ", ");
    put_array(t, "slopes", calibrator->slopes, NULL, classes);
    put_array(t, "intercepts", calibrator->intercepts, NULL, classes);
    if (!calibrator->steps)
        return;
    text steps = {.arrays = t->arrays, .out.context = t->out.context, .count = t->count};
    for (size_t c = 0; c < classes; c++) {
        const cst_isotonic *map = &calibrator->steps[c];
        put(&steps.out, "    {.count = %lld, ", (long long)map->count);
        put_array(&steps, "x", map->x, NULL, (size_t)map->count);
        put_array(&steps, "y", map->y, NULL, (size_t)map->count);
        put(&steps.out, "},\n");
    }
    t->arrays = steps.arrays;
    t->count = steps.count;
    put(&t->arrays, "static cst_isotonic a%d[] = {\n", t->count);
    cst_buffer_add(&t->arrays, steps.out.bytes, steps.out.used);
    put(&t->arrays, "};\n");
    put(&t->out, ".steps = a%d, ", t->count++);
    if (steps.out.status != CST_OK)
        t->out.status = steps.out.status;
    cst_free(t->out.context, steps.out.bytes);
}

static void put_own(text *t, const cst_model *model, int32_t l) {
    const cst_learner_own *own = model->learner[l].own;
    size_t members = (size_t)model->members;
    if (own->scaling) {
        put(&t->out, "static cst_calibrator own_%d_scaling[] = {\n", (int)l);
        for (int32_t k = 0; k < own->scaled; k++) {
            put(&t->out, "    {");
            put_calibrator(t, &own->scaling[k]);
            put(&t->out, "},\n");
        }
        put(&t->out, "};\n");
    }
    put(&t->out,
        "static cst_learner_own own_%d = {.map = (cst_probability_map)%d, .linear = ", (int)l,
        (int)own->map);
    put_number(&t->out, own->linear, false);
    put(&t->out, ", .scaled = %d, ", (int)own->scaled);
    if (own->scaling)
        put(&t->out, ".scaling = own_%d_scaling, ", (int)l);
    put_array(t, "mix", own->mix, NULL, members);
    put(&t->out, ".calibrator = {");
    put_calibrator(t, &own->calibrator);
    put(&t->out, "}};\n");
}

static void put_learners(text *t, const cst_model *model) {
    for (int32_t l = 0; l < model->learners; l++)
        if (model->learner[l].own)
            put_own(t, model, l);
    put(&t->out, "static cst_learner learners[] = {\n");
    for (int32_t l = 0; l < model->learners; l++) {
        const cst_learner *learner = &model->learner[l];
        put(&t->out, "    {.kind = (cst_learner_kind)%d, .coefficients = %d, .biases = %d, ",
            (int)learner->kind, (int)learner->coefficients, (int)learner->biases);
        put_array(t, "weights", learner->weights, NULL, (size_t)learner->coefficients);
        put_array(t, "bias", learner->bias, NULL, (size_t)learner->biases);
        if (learner->own)
            put(&t->out, ".own = &own_%d, ", (int)l);
        put(&t->out, "},\n");
    }
    put(&t->out, "};\n");
}

static void put_gate(text *t, const cst_gate *gate) {
    size_t hidden = (size_t)gate->hidden;
    put(&t->out, "    .gate = {.mode = (cst_gate_mode)%d, .inputs = %d, .hidden = %d, .best = %d, ",
        (int)gate->mode, (int)gate->inputs, (int)gate->hidden, (int)gate->best);
    put_array(t, "w1", NULL, gate->w1, hidden * (size_t)gate->inputs);
    put_array(t, "b1", NULL, gate->b1, hidden);
    put_array(t, "w2", NULL, gate->w2, CST_AGGREGATORS * hidden);
    put_array(t, "b2", NULL, gate->b2, gate->b2 ? CST_AGGREGATORS : 0);
    put(&t->out, "},\n");
}

/* The structs that the model points at, each under the name of its field. */
static void put_parts(text *t, const cst_model *model) {
    size_t classes = (size_t)model->classes;
    put_learners(t, model);
    if (model->values) {
        put(&t->out, "static cst_values values = {.scaling = {.outputs = %d, ", (int)classes);
        put_array(t, "location", model->values->scaling.location, NULL, classes);
        put_array(t, "scale", model->values->scaling.scale, NULL, classes);
        put(&t->out, "}};\n");
    }
    if (model->transform) {
        put(&t->out, "static cst_transform transform = {.kind = (cst_transform_kind)%d, ",
            (int)model->transform->kind);
        put_array(t, "low", model->transform->low, NULL, classes);
        put_array(t, "high", model->transform->high, NULL, classes);
        put(&t->out, "};\n");
    }
    if (model->network) {
        const cst_network *network = model->network;
        size_t inputs = (size_t)network->members * (size_t)network->classes;
        put(&t->out, "static cst_network network = {.members = %d, .classes = %d, .hidden = %d, ",
            (int)network->members, (int)network->classes, (int)network->hidden);
        put_array(t, "mean", network->mean, NULL, inputs);
        put_array(t, "scale", network->scale, NULL, inputs);
        put_array(t, "theta", network->theta, NULL,
                  cst_network_size(network->members, network->classes, network->hidden));
        put(&t->out, "};\n");
    }
    if (model->adapted) {
        const cst_adapted *adapted = model->adapted;
        if (adapted->extra > 0)
            put_names(t, "further_names", adapted->names, adapted->extra);
        put(&t->out, "static cst_adapted adapted = {.members = %d, .extra = %d, .classes = %d, ",
            (int)adapted->members, (int)adapted->extra, (int)adapted->classes);
        put(&t->out, "%s.scale = ", adapted->extra > 0 ? ".names = further_names, " : "");
        put_number(&t->out, adapted->scale, false);
        put(&t->out, ", ");
        put_array(t, "mix", adapted->mix, NULL, (size_t)adapted->members);
        put_array(t, "weights", adapted->weights, NULL, (size_t)adapted->members);
        put_array(t, "bias", adapted->bias, NULL, classes);
        put(&t->out, "};\n");
    }
    if (model->range) {
        put(&t->arrays, "static int32_t range[] = {");
        for (size_t c = 0; c < classes; c++)
            put(&t->arrays, "%d%s", (int)model->range[c], c + 1 < classes ? ", " : "};\n");
    }
}

static void put_model(text *t, const cst_model *model, const cst_predict_job *job) {
    put_names(t, "member_names", model->member_names, model->members);
    put_parts(t, model);
    put(&t->out,
        "static cst_model model = {\n    .task = (cst_task)%d, .classes = %d, .members = %d,\n",
        (int)model->task, (int)model->classes, (int)model->members);
    put(&t->out,
        "    .member_names = member_names, .map = (cst_probability_map)%d, .learners = %d, ",
        (int)model->map, (int)model->learners);
    put(&t->out, ".learner = learners, ");
    put_array(t, "mix", model->mix, NULL, (size_t)model->members);
    put(&t->out, "\n");
    put_gate(t, &model->gate);
    put(&t->out, "%s%s%s%s%s", model->values ? "    .values = &values,\n" : "",
        model->range ? "    .range = range,\n" : "",
        model->transform ? "    .transform = &transform,\n" : "",
        model->adapted ? "    .adapted = &adapted,\n" : "",
        model->network ? "    .network = &network,\n" : "");
    put(&t->out, "    .calibrator = {");
    put_calibrator(t, &model->calibrator);
    put(&t->out, "},\n};\n");
    put(&t->out, "static const double blend[] = {");
    for (int32_t l = 0; l < model->learners; l++) {
        put(&t->out, "%s", l ? ", " : "");
        put_number(&t->out, job->blend[l], false);
    }
    put(&t->out, "};\n\n");
}

/* The function that predicts, with its scratch on the stack: as cst_predict_scratch_take gives it.
 */
static void put_function(text *t, const char *name, const cst_model *model,
                         const cst_predict_job *job, const cst_predict_scratch *s) {
    size_t cells = (size_t)job->chunk * (size_t)model->classes;
    size_t inputs = (size_t)cst_model_inputs(model);
    size_t members = (size_t)model->members;
    size_t scaled = cst_model_scales(model) ? cells : 0;
    cst_buffer *out = &t->out;
    put(out, "int %s_predict(const float *const *members, int64_t rows, float *out) {\n", name);
    put(out, "    float gathered[%zu];\n    const float *chunk[%zu];\n    double memory[%zu];\n",
        cells * inputs, inputs, (size_t)(s->work - s->memory) + scaled + 1);
    if (scaled)
        put(out, "    float rescaled[%zu];\n", scaled);
    if (s->scaled)
        put(out, "    float scaled[%zu];\n    const float *inputs[%zu];\n", cells * members,
            members);
    if (s->transformed)
        put(out, "    float transformed[%zu];\n", cells * members);
    put(out,
        "    cst_view view;\n    cst_predict_job job;\n    cst_predict_scratch s;\n"
        "    if (rows < 0 || (rows > 0 && (!members || !out)))\n        return %d;\n",
        (int)CST_ERROR_ARGUMENT);
    put(out,
        "    for (int k = 0; rows > 0 && k < %zu; k++)\n        if (!members[k])\n"
        "            return %d;\n",
        inputs, (int)CST_ERROR_ARGUMENT);
    put(out, "    memset(&view, 0, sizeof view);\n    memset(&job, 0, sizeof job);\n"
             "    memset(&s, 0, sizeof s);\n");
    put(out,
        "    job.model = &model;\n    job.view = &view;\n    job.blend = blend;\n"
        "    job.linear = %d;\n    job.gated = %d;\n    job.network = %d;\n",
        (int)job->linear, job->gated, job->network);
    put(out,
        "    job.calibrate = %d;\n    job.adapt = %d;\n    job.domain = -1;\n"
        "    job.check = 1;\n    job.chunk = %lld;\n    job.out = out;\n",
        job->calibrate, job->adapt, (long long)job->chunk);
    put(out,
        "    s.gathered = gathered;\n    s.members = chunk;\n    s.mixture = memory;\n"
        "    s.scores = memory + %td;\n    s.columns = memory + %td;\n",
        s->scores - s->memory, s->columns - s->memory);
    put(out,
        "    s.samples = memory + %td;\n    s.design = memory + %td;\n"
        "    s.network = memory + %td;\n    s.work = memory + %td;\n",
        s->samples - s->memory, s->design - s->memory, s->network - s->memory, s->work - s->memory);
    /* Samples of a regression are zeros. */
    put(out, "    memset(s.samples, 0, %zu * sizeof *memory);\n", (size_t)(s->design - s->samples));
    put(out, "%s%s%s", scaled ? "    s.rescaled = rescaled;\n" : "",
        s->scaled ? "    s.scaled = scaled;\n    s.inputs = inputs;\n" : "",
        s->transformed ? "    s.transformed = transformed;\n" : "");
    put(out, "    return (int)cst_predict_chunks(NULL, &job, &s, members, 0, rows);\n}\n");
}

/* What the file says of itself, and its declarations. */
static void put_head(cst_buffer *out, const char *name, const cst_model *model) {
    int32_t inputs = cst_model_inputs(model);
    put(out,
        "/* Made by corestack %s: a fitted stack as one file of C99. It needs libc and libm.\n *\n",
        CST_VERSION_STRING);
    put(out, " *     int %s_predict(const float *const *members, int64_t rows, float *out);\n *\n",
        name);
    put(out,
        " * members[k] [rows][%d] are the predictions of %s_names[k], out is [rows][%d]. Returns "
        "0; %d "
        "for a missing\n * argument, %d for numbers that are not right. Allocates nothing; any "
        "number of threads "
        "may call it.\n * Compile with -std=c99 or -ffp-contract=off for the same bits as "
        "corestack. */\n",
        (int)model->classes, name, (int)model->classes, (int)CST_ERROR_ARGUMENT,
        (int)CST_ERROR_INPUT);
    put(out, "#include <stdint.h>\n\n");
    put(out, "enum { %s_members = %d, %s_classes = %d };\n", name, (int)inputs, name,
        (int)model->classes);
    put(out, "extern const char *const %s_names[%d];\n", name, (int)inputs);
    put(out, "int %s_predict(const float *const *members, int64_t rows, float *out);\n\n", name);
    put(out, "const char *const %s_names[%d] = {", name, (int)inputs);
    for (int32_t k = 0; k < inputs; k++) {
        put_text(out, cst_model_input_name(model, k));
        put(out, k + 1 < inputs ? ",\n    " : "};\n\n");
    }
}

static cst_status check(cst_context *context, const cst_model *model, const cst_export *how,
                        const char *name) {
    if (cst_runtime_size == 0)
        return cst_fail(context, CST_ERROR_UNSUPPORTED,
                        "this build has no format c, for which it needs python3: install it, and "
                        "build corestack again");
    if (how->output == CST_OUTPUT_LOGIT)
        return cst_fail(context, CST_ERROR_UNSUPPORTED,
                        "format c takes probabilities; apply the softmax before");
    bool right = isalpha((unsigned char)*name) || *name == '_';
    for (const char *at = name; *at; at++)
        right = right && (isalnum((unsigned char)*at) || *at == '_');
    if (!right || strlen(name) > 63)
        return cst_fail(context, CST_ERROR_ARGUMENT,
                        "'%s' is no name in C of at most 63 letters, digits and underscores", name);
    if (cst_stack_sample_bytes(model) > SAMPLE_BYTES_MAX)
        return cst_fail(context, CST_ERROR_UNSUPPORTED,
                        "a row takes %zu bytes of scratch, more than format c puts on the stack: "
                        "use the library (docs/serving.md)",
                        cst_stack_sample_bytes(model));
    return CST_OK;
}

static cst_status write_text(cst_context *context, text *t, const char *name,
                             const cst_model *model, const char *path) {
    cst_buffer head = {.context = context};
    cst_output_file *output = NULL;
    put_head(&head, name, model);
    cst_status status = head.status;
    CST_THEN(t->arrays.status);
    CST_THEN(t->out.status);
    CST_THEN(cst_output_open(context, &output, path));
    CST_THEN(cst_output_write(context, output, head.bytes, head.used));
    CST_THEN(cst_output_write(context, output, cst_runtime_text, cst_runtime_size));
    CST_THEN(cst_output_write(context, output, t->arrays.bytes, t->arrays.used));
    CST_THEN(cst_output_write(context, output, t->out.bytes, t->out.used));
    status = cst_output_end(context, output, status);
    cst_free(context, head.bytes);
    return status;
}

cst_status cst_export_c(cst_context *context, const cst_model *model, const cst_export *how,
                        const char *path) {
    const char *name = how->name ? how->name : "stack";
    cst_view view = {.rows = INT64_MAX, .classes = model->classes, .members = model->members};
    cst_predict_job job = {.model = model, .view = &view, .domain = -1, .check = true};
    cst_predict_scratch scratch;
    double *blend;
    CST_SCOPE(scope);
    CST_TRY(check(context, model, how, name));
    CST_TRY(cst_predict_blend(context, scope, model, -1, &blend));
    job.blend = blend;
    job.calibrate = model->calibrator.kind != CST_CALIBRATOR_NONE;
    job.adapt = model->adapted != NULL;
    cst_predict_plan(&job);
    int64_t fits = STACK_BYTES / (int64_t)cst_stack_sample_bytes(model);
    job.chunk = fits < 1 ? 1 : fits < job.chunk ? fits : job.chunk;
    CST_TRY(cst_predict_scratch_take(context, scope, &job, &scratch));
    text t = {.arrays.context = context, .out.context = context};
    put_model(&t, model, &job);
    put_function(&t, name, model, &job, &scratch);
    cst_status status = write_text(context, &t, name, model, path);
    cst_free(context, t.arrays.bytes);
    cst_free(context, t.out.bytes);
    const char *left[] = {model->domains ? "scales of domains, " : "",
                          model->decision ? "decisions, " : "", model->aim ? "decisions, " : "",
                          model->cascade ? "the cascade, " : "",
                          model->reference.novelty ? "the guard, " : ""};
    if (status == CST_OK && (*left[0] || *left[1] || *left[2] || *left[3] || *left[4]))
        cst_notice(context, "format c only predicts; not in the file: %s%s%s%s%sthe monitor",
                   left[0], left[1], left[2], left[3], left[4]);
    return status;
}
