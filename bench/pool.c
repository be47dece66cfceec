/*
 * Writes a realistic pool of any size, block by block: what the benchmarks of fits run on. Not part
 * of the product. Logits of member k on a sample of class y are scale_k times the products of the
 * class embeddings with embedding[y] + shared noise + noise of the member.
 *
 *   bench-pool OUTDIR N C K [f16|f32] [seed] [threads] [test rows] [peaked|diffuse|NATS]
 *
 * Classes come in groups of ten that resemble each other, so that most mass lies on 5 to 30 of
 * them; the noise is set so that members are right on about 75% of the samples. Members differ in
 * noise and temperature, and every fifth is a near-duplicate of the one before it.
 *
 * Diffuse members are independent: softmax of standard normal noise plus 4 + 3 z on the true class,
 * z normal for each row and shared by the members. With a number, the 4 is replaced by what gives
 * the members' mean this entropy: the larger, the fewer classes have mass.
 *
 * The same seed
 * gives the same files on one kind of machine whatever the number of threads (the rounding of BLAS
 * depends on the machine).
 */
#include <cblas.h>

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <math.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#ifdef __F16C__
#include <immintrin.h>
#endif

void openblas_set_num_threads(int threads);

enum { D = 48, ROWS = 256, TRIAL_ROWS = 1024, GROUP = 10, HEADER = 128 };

typedef struct member {
    float noise;       /* length of its noise against that of its siblings, about 1 */
    float temperature; /* > 1: too sure of itself */
    int parent;        /* the member that it resembles, or itself */
} member;

typedef struct pool {
    int threads;
    const char *folder;
    int64_t rows, test_rows;
    int classes, members;
    bool half;
    bool diffuse;
    float truth; /* diffuse: mean logit of the true class */
    double nats; /* diffuse: entropy of the members' mean that sets it; 0: it is 4 */
    uint64_t seed;
    float *embedding; /* [classes][D] */
    member *member;   /* [members] */
    float noise;      /* length of the noise of an average member */
    float scale;      /* of logits, for a calibrated average member */
} pool;

static void need(bool ok, const char *what) {
    if (ok)
        return;
    fprintf(stderr, "bench-pool: %s: %s\n", what, errno ? strerror(errno) : "wrong");
    exit(1);
}

static void *array(size_t count, size_t size) {
    void *memory = NULL;
    need(size == 0 || count <= SIZE_MAX / 2 / size, "size");
    need(posix_memalign(&memory, 64, count * size + 64) == 0, "memory");
    memset(memory, 0, count * size);
    return memory;
}

/* ---- random numbers: a hash of (seed, stream, place), so that blocks may come in any order ----
 */

static inline uint64_t mix(uint64_t x) {
    x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
    return x ^ (x >> 31);
}

static uint64_t stream_key(uint64_t seed, uint64_t stream) {
    return mix(mix(seed + UINT64_C(0x9e3779b97f4a7c15)) ^ (stream * UINT64_C(0xd1342543de82ef95)));
}

/* A sum of four uniforms, scaled to variance 1: near enough to normal, and it vectorises. */
static inline float near_normal(uint64_t key, uint64_t place) {
    uint64_t x = mix(key + place * UINT64_C(0x9e3779b97f4a7c15));
    int32_t sum = (int32_t)(x & 0xffff) + (int32_t)((x >> 16) & 0xffff) +
                  (int32_t)((x >> 32) & 0xffff) + (int32_t)(x >> 48);
    return (float)(sum - 131070) * (1.0F / 37837.2F);
}

enum { EMBEDDING = 1, LABELS = 2, QUALITY = 3, SHARED = 4, TRUTH = 5, OWN = 1000 };

/* The test split counts its rows from here. */
static const int64_t TEST_FIRST = INT64_C(1) << 40;

static int label_of(const pool *p, int64_t row) {
    uint64_t x = mix(stream_key(p->seed, LABELS) + (uint64_t)row * UINT64_C(0x9e3779b97f4a7c15));
    return (int)((x >> 32) * (uint64_t)p->classes >> 32);
}

/* ---- the world and its members ---- */

static void make_embedding(pool *p) {
    uint64_t key = stream_key(p->seed, EMBEDDING);
    for (int c = 0; c < p->classes; c++) {
        double norm = 0;
        float *row = p->embedding + (size_t)c * D;
        for (int d = 0; d < D; d++) {
            uint64_t group = (uint64_t)(c / GROUP) * D + (uint64_t)d;
            uint64_t own = ((uint64_t)c + (UINT64_C(1) << 32)) * D + (uint64_t)d;
            row[d] = 0.75F * near_normal(key, group) + 0.66F * near_normal(key, own);
            norm += (double)row[d] * (double)row[d];
        }
        for (int d = 0; d < D; d++)
            row[d] /= (float)sqrt(norm);
    }
}

static void make_members(pool *p) {
    uint64_t key = stream_key(p->seed, QUALITY);
    for (int k = 0; k < p->members; k++) {
        member *m = &p->member[k];
        m->noise = 1 + 0.06F * near_normal(key, 2 * (uint64_t)k);
        m->temperature = expf(0.25F * near_normal(key, 2 * (uint64_t)k + 1));
        m->parent = k % 5 == 4 ? k - 1 : k;
    }
}

/* Features of rows first..: [count][D]. Of the variance of the noise 85% are shared. */
static void make_features(const pool *p, int k, int64_t first, int count, float *x) {
    const member *m = &p->member[k];
    uint64_t shared = stream_key(p->seed, SHARED);
    uint64_t parent = stream_key(p->seed, OWN + (uint64_t)m->parent);
    uint64_t own = stream_key(p->seed, OWN + (uint64_t)k);
    float length = p->noise * m->noise / sqrtf((float)D);
    float of_own = m->parent == k ? 0 : 0.2F;
    float of_parent = m->parent == k ? 1 : 0.98F;
    for (int i = 0; i < count; i++) {
        const float *truth = p->embedding + (size_t)label_of(p, first + i) * D;
        uint64_t place = (uint64_t)(first + i) * D;
        for (int d = 0; d < D; d++) {
            float of_member = of_parent * near_normal(parent, place + (uint64_t)d);
            if (of_own > 0)
                of_member += of_own * near_normal(own, place + (uint64_t)d);
            x[(size_t)i * D + (size_t)d] =
                truth[d] +
                length * (0.9220F * near_normal(shared, place + (uint64_t)d) + 0.3873F * of_member);
        }
    }
}

/* exp of x <= 0, to a few 1e-7; below -80 as -80. */
static inline float exp_negative(float x) {
    x = x < -80.0F ? -80.0F : x;
    float t = x * 1.44269504F;
    float whole = (float)(int32_t)(t - 0.5F);
    float r = (t - whole) * 0.693147181F;
    float e =
        1 + r * (1 + r * (0.5F + r * (0.166666667F + r * (0.0416666667F + r * 0.00833333333F))));
    int32_t bits = ((int32_t)whole + 127) * (1 << 23);
    float power = 0;
    memcpy(&power, &bits, sizeof power);
    return e * power;
}

static void softmax_rows(float *z, int64_t count, int classes) {
    for (int64_t i = 0; i < count; i++) {
        float *row = z + i * classes;
        float top = row[0];
        for (int c = 1; c < classes; c++)
            top = row[c] > top ? row[c] : top;
        float sum = 0;
        for (int c = 0; c < classes; c++)
            row[c] = exp_negative(row[c] - top);
        for (int c = 0; c < classes; c++)
            sum += row[c];
        float scale = 1 / sum;
        for (int c = 0; c < classes; c++)
            row[c] *= scale;
    }
}

static void make_logits(const pool *p, int count, float scale, const float *x, float *z) {
    cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, count, p->classes, D, scale, x, D,
                p->embedding, D, 0, z, p->classes);
}

/* Logits of diffuse members. */
static void make_diffuse(const pool *p, int k, int64_t first, int count, float *z) {
    uint64_t own = stream_key(p->seed, OWN + (uint64_t)k);
    uint64_t truth = stream_key(p->seed, TRUTH);
    for (int i = 0; i < count; i++) {
        float *row = z + (size_t)i * (size_t)p->classes;
        uint64_t place = (uint64_t)(first + i) * (uint64_t)p->classes;
        for (int c = 0; c < p->classes; c++)
            row[c] = near_normal(own, place + (uint64_t)c);
        row[label_of(p, first + i)] += p->truth + 3 * near_normal(truth, (uint64_t)(first + i));
    }
}

/* ---- noise and scale ---- */

/* Accuracy of member 0, as it stands, on the trial rows, and their logits at scale 1 in z. */
static double trial(const pool *p, float *x, float *z) {
    int right = 0;
    make_features(p, 0, 0, TRIAL_ROWS, x);
    make_logits(p, TRIAL_ROWS, 1, x, z);
    for (int i = 0; i < TRIAL_ROWS; i++) {
        const float *row = z + (size_t)i * (size_t)p->classes;
        int best = 0;
        for (int c = 1; c < p->classes; c++)
            best = row[c] > row[best] ? c : best;
        right += best == label_of(p, i);
    }
    return (double)right / TRIAL_ROWS;
}

static double loss_at(const pool *p, const float *z, float *work, float scale) {
    double loss = 0;
    size_t cells = (size_t)TRIAL_ROWS * (size_t)p->classes;
    for (size_t j = 0; j < cells; j++)
        work[j] = scale * z[j];
    softmax_rows(work, TRIAL_ROWS, p->classes);
    for (int i = 0; i < TRIAL_ROWS; i++)
        loss -= log((double)work[(size_t)i * (size_t)p->classes + (size_t)label_of(p, i)] + 1e-30);
    return loss;
}

/* Noise for 73% accuracy by bisection, then the scale of least log loss by golden section. */
static void calibrate(pool *p) {
    size_t cells = (size_t)TRIAL_ROWS * (size_t)p->classes;
    float *x = array((size_t)TRIAL_ROWS * D, sizeof *x);
    float *z = array(cells, sizeof *z);
    float *work = array(cells, sizeof *work);
    member kept = p->member[0];
    p->member[0].noise = 1;
    float low = 0.05F;
    float high = 20;
    for (int step = 0; step < 16; step++) {
        p->noise = sqrtf(low * high);
        if (trial(p, x, z) > 0.73)
            low = p->noise;
        else
            high = p->noise;
    }
    double accuracy = trial(p, x, z);
    float left = 0.5F;
    float right = 100;
    for (int step = 0; step < 16; step++) {
        float ratio = powf(right / left, 0.382F);
        if (loss_at(p, z, work, left * ratio) < loss_at(p, z, work, right / ratio))
            right /= ratio;
        else
            left *= ratio;
    }
    p->scale = sqrtf(left * right);
    fprintf(
        stderr, "bench-pool: noise %.3g, scale %.3g; member 0 alike: top-1 %.3f, log loss %.3f\n",
        (double)p->noise, (double)p->scale, accuracy, loss_at(p, z, work, p->scale) / TRIAL_ROWS);
    p->member[0] = kept;
    free(x);
    free(z);
    free(work);
}

/* Mean entropy of the mean of the first rows' members. */
static double mean_entropy(const pool *p, int rows, float *z, float *mean) {
    size_t cells = (size_t)rows * (size_t)p->classes;
    double entropy = 0;
    memset(mean, 0, cells * sizeof *mean);
    for (int k = 0; k < p->members; k++) {
        make_diffuse(p, k, 0, rows, z);
        softmax_rows(z, rows, p->classes);
        for (size_t j = 0; j < cells; j++)
            mean[j] += z[j] / (float)p->members;
    }
    for (size_t j = 0; j < cells; j++)
        entropy -= (double)mean[j] * log((double)mean[j] + 1e-30);
    return entropy / rows;
}

/* The mean logit of the true class by bisection. */
static void set_entropy(pool *p) {
    size_t cells = (size_t)TRIAL_ROWS * (size_t)p->classes;
    float *z = array(cells, sizeof *z);
    float *mean = array(cells, sizeof *mean);
    float low = -20;
    float high = 60;
    for (int step = 0; step < 20; step++) {
        p->truth = (low + high) / 2;
        if (mean_entropy(p, TRIAL_ROWS, z, mean) > p->nats)
            low = p->truth;
        else
            high = p->truth;
    }
    double reached = mean_entropy(p, TRIAL_ROWS, z, mean);
    fprintf(stderr, "bench-pool: entropy of the mean %.3f nats, logit of the true class %.2f\n",
            reached, (double)p->truth);
    need(fabs(reached - p->nats) < 0.02 * p->nats + 0.01, "no members have this entropy");
    free(z);
    free(mean);
}

/* ---- files ---- */

static void write_at(int file, const void *data, size_t bytes, int64_t offset) {
    const char *from = data;
    while (bytes > 0) {
        ssize_t wrote = pwrite(file, from, bytes, (off_t)offset);
        need(wrote > 0, "write");
        from += wrote;
        offset += wrote;
        bytes -= (size_t)wrote;
    }
}

static int create(const pool *p, const char *name, const char *descr, const char *shape) {
    char path[4096];
    char header[HEADER];
    char dict[HEADER - 10];
    need(snprintf(path, sizeof path, "%s/%s", p->folder, name) < (int)sizeof path, "path");
    int file = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0666);
    need(file >= 0, path);
    memset(header, ' ', sizeof header);
    memcpy(header, "\x93NUMPY\x01\x00\x76\x00", 10);
    int length = snprintf(dict, sizeof dict,
                          "{'descr': '%s', 'fortran_order': False, 'shape': (%s), }", descr, shape);
    memcpy(header + 10, dict, (size_t)length);
    header[HEADER - 1] = '\n';
    write_at(file, header, sizeof header, 0);
    return file;
}

static void write_labels(const pool *p, const char *split, int64_t first, int64_t rows) {
    char name[64];
    char shape[64];
    int32_t *labels = array((size_t)rows, sizeof *labels);
    (void)snprintf(name, sizeof name, "%s_labels.npy", split);
    (void)snprintf(shape, sizeof shape, "%" PRId64 ",", rows);
    for (int64_t i = 0; i < rows; i++)
        labels[i] = label_of(p, first + i);
    int file = create(p, name, "<i4", shape);
    write_at(file, labels, (size_t)rows * sizeof *labels, HEADER);
    need(close(file) == 0, "close");
    free(labels);
}

static void to_half(const float *from, uint16_t *to, size_t count) {
    size_t j = 0;
#ifdef __F16C__
    for (; j + 8 <= count; j += 8)
        _mm_storeu_si128((__m128i *)(to + j), _mm256_cvtps_ph(_mm256_loadu_ps(from + j), 0));
#endif
    for (; j < count; j++) { /* 0 <= from <= 1, rounded to nearest, ties to even */
        uint32_t bits = 0;
        memcpy(&bits, from + j, sizeof bits);
        if (from[j] < 0x1p-14F)
            to[j] = (uint16_t)lrintf(from[j] * 0x1p24F);
        else
            to[j] = (uint16_t)((bits - 0x38000000U + 0xfffU + ((bits >> 13) & 1)) >> 13);
    }
}

/* One block of one member: features, logits, softmax, file. */
static void write_block(const pool *p, int k, int file, int64_t first, int64_t at, int count,
                        float *x, float *z) {
    size_t cells = (size_t)count * (size_t)p->classes;
    if (p->diffuse) {
        make_diffuse(p, k, first + at, count, z);
    } else {
        make_features(p, k, first + at, count, x);
        make_logits(p, count, p->scale * p->member[k].temperature, x, z);
    }
    softmax_rows(z, count, p->classes);
    size_t item = p->half ? sizeof(uint16_t) : sizeof(float);
    if (p->half)
        to_half(z, (uint16_t *)z, cells); /* in place: what is written lies behind what is read */
    write_at(file, z, cells * item, HEADER + at * (int64_t)item * p->classes);
}

/* What the threads of a split share. */
typedef struct split_work {
    const pool *p;
    const int *file;
    int64_t first;
    int64_t rows;
    int64_t next; /* the first block that nobody has taken; atomic */
} split_work;

static void *write_blocks(void *user) {
    split_work *w = user;
    float *x = array((size_t)ROWS * D, sizeof *x);
    float *z = array((size_t)ROWS * (size_t)w->p->classes, sizeof *z);
    for (;;) {
        int64_t at = __atomic_fetch_add(&w->next, 1, __ATOMIC_RELAXED) * ROWS;
        if (at >= w->rows)
            break;
        int64_t left = w->rows - at;
        for (int k = 0; k < w->p->members; k++)
            write_block(w->p, k, w->file[k], w->first, at, left < ROWS ? (int)left : ROWS, x, z);
    }
    free(x);
    free(z);
    return NULL;
}

static void write_split(const pool *p, const char *split, int64_t first, int64_t rows) {
    int *file = array((size_t)p->members, sizeof *file);
    char name[64];
    char shape[64];
    (void)snprintf(shape, sizeof shape, "%" PRId64 ", %d", rows, p->classes);
    write_labels(p, split, first, rows);
    for (int k = 0; k < p->members; k++) {
        (void)snprintf(name, sizeof name, "m%02d.%s.npy", k, split);
        file[k] = create(p, name, p->half ? "<f2" : "<f4", shape);
    }
    split_work work = {.p = p, .file = file, .first = first, .rows = rows};
    pthread_t *others = array((size_t)p->threads, sizeof *others);
    for (int t = 1; t < p->threads; t++)
        need(pthread_create(&others[t], NULL, write_blocks, &work) == 0, "pthread_create");
    (void)write_blocks(&work);
    for (int t = 1; t < p->threads; t++)
        (void)pthread_join(others[t], NULL);
    free(others);
    for (int k = 0; k < p->members; k++)
        need(close(file[k]) == 0, "close");
    free(file);
}

static void write_manifest(const pool *p) {
    char path[4096];
    need(snprintf(path, sizeof path, "%s/pool.json", p->folder) < (int)sizeof path, "path");
    FILE *file = fopen(path, "w");
    need(file != NULL, path);
    fprintf(file,
            "{\"corestack_pool\": 1, \"task\": \"classification\", \"classes\": %d, \"output\": "
            "\"probability\",\n \"splits\": {\"oof\": {\"labels\": \"oof_labels.npy\"}",
            p->classes);
    if (p->test_rows > 0)
        fprintf(file, ", \"test\": {\"labels\": \"test_labels.npy\"}");
    fprintf(file, "},\n \"models\": [");
    for (int k = 0; k < p->members; k++) {
        fprintf(file,
                "%s\n  {\"name\": \"m%02d\", \"flops\": %de9, \"predictions\": {\"oof\": "
                "\"m%02d.oof.npy\"",
                k ? "," : "", k, 1 + k % 7, k);
        if (p->test_rows > 0)
            fprintf(file, ", \"test\": \"m%02d.test.npy\"", k);
        fprintf(file, "}}");
    }
    fprintf(file, "\n ]}\n");
    need(fclose(file) == 0, path);
}

static long long number(const char *text, long long low, long long high) {
    char *end = NULL;
    errno = 0;
    long long value = strtoll(text, &end, 10);
    need(errno == 0 && end != text && *end == 0 && value >= low && value <= high, text);
    return value;
}

int main(int argc, char **argv) {
    if (argc < 5 || argc > 10) {
        fprintf(stderr, "usage: bench-pool OUTDIR N C K [f16|f32] [seed] [threads] [test rows] "
                        "[peaked|diffuse|NATS]\n");
        return 2;
    }
    pool p = {.folder = argv[1],
              .rows = number(argv[2], 1, 1LL << 32),
              .classes = (int)number(argv[3], 2, 100000),
              .members = (int)number(argv[4], 1, 10000),
              .half = argc > 5 && strcmp(argv[5], "f16") == 0,
              .seed = argc > 6 ? (uint64_t)number(argv[6], 0, INT64_MAX) : 0,
              .threads = (int)(argc > 7 ? number(argv[7], 1, 1024) : sysconf(_SC_NPROCESSORS_ONLN)),
              .test_rows = argc > 8 ? number(argv[8], 0, 1LL << 32) : 0,
              .diffuse = argc > 9 && strcmp(argv[9], "peaked") != 0,
              .truth = 4};
    if (p.diffuse && strcmp(argv[9], "diffuse") != 0) {
        char *end = NULL;
        p.nats = strtod(argv[9], &end);
        need(end != argv[9] && *end == 0 && p.nats > 0 && p.nats < log(p.classes), argv[9]);
    }
    need(argc <= 5 || p.half || strcmp(argv[5], "f32") == 0, "neither f16 nor f32");
    need(mkdir(p.folder, 0777) == 0 || errno == EEXIST, p.folder);
    openblas_set_num_threads(1);
    p.embedding = array((size_t)p.classes * D, sizeof *p.embedding);
    p.member = array((size_t)p.members, sizeof *p.member);
    make_embedding(&p);
    make_members(&p);
    if (!p.diffuse)
        calibrate(&p);
    else if (p.nats > 0)
        set_entropy(&p);
    write_split(&p, "oof", 0, p.rows);
    if (p.test_rows > 0)
        write_split(&p, "test", TEST_FIRST, p.test_rows);
    write_manifest(&p);
    free(p.embedding);
    free(p.member);
    return 0;
}
