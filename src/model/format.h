/* Layout and bounds of a model file (sections.c). docs/model-format.md. */
#ifndef CST_MODEL_FORMAT_H
#define CST_MODEL_FORMAT_H

#include <stddef.h>
#include <stdint.h>

/* As in PNG: a byte that is not ASCII, a name, and line ends that a transfer as text would spoil.
 */
#define CST_MODEL_MAGIC "\211CST\r\n\032\n"

enum {
    CST_MODEL_VERSION = 1,
    CST_MODEL_MAGIC_BYTES = 8,
    CST_MODEL_HEADER_BYTES = 24,  /* magic, version, number of sections, total length */
    CST_MODEL_SECTION_BYTES = 16, /* tag, flags, length of the payload */
    CST_MODEL_CHECKSUM_BYTES = 4,
    CST_MODEL_REQUIRED = 1 /* section flag: who does not know the tag must not use the model */
};

/* Bounds beyond which a file is taken as damaged or hostile rather than large. */
static const size_t CST_MODEL_BYTES_MAX = (size_t)1 << 30;
static const int32_t CST_MODEL_CLASSES_MAX = 1 << 24;
static const int32_t CST_MODEL_MEMBERS_MAX = 1 << 20;
/* Of members times classes, and of meta-learners times classes. */
static const int64_t CST_MODEL_CELLS_MAX = (int64_t)1 << 27;
/* A file can say in a few bytes that it has many classes, and prediction takes memory for each of
 * them. For one sample (cst_stack_sample_bytes) it may take this many bytes, and this many times
 * the size of the file; a thread takes no more than CHUNK_BYTES (predict.c) or one sample. */
static const size_t CST_MODEL_SAMPLE_BYTES = (size_t)128 << 20;
static const size_t CST_MODEL_SAMPLE_RATIO = 8;
static const int32_t CST_MODEL_HIDDEN_MAX = 1 << 16;
static const double CST_MODEL_TARGET_MAX = 1e300;     /* location and scale of an output */
static const size_t CST_MODEL_TITLE_MAX = 64;         /* bytes of a meta-learner's name */
static const double CST_MODEL_COEFFICIENT_MAX = 1e30; /* scores stay finite */
static const double CST_MODEL_REFIT_MAX = 1e30;       /* sums of products stay finite */
static const double CST_MODEL_GATE_MAX = 1e12;        /* two layers of floats stay finite */
static const double CST_MODEL_MIX_MIN = 1e-12;        /* logarithms stay finite */
static const double CST_MODEL_BLEND_TOLERANCE = 1e-9;
static const double CST_MODEL_MIXTURE_TOLERANCE = 1e-6; /* of the weights of a mixture */
static const double CST_MODEL_SLOPE_MAX = 1e12; /* calibration maps and networks stay finite */

#endif
