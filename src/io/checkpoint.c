/*
 * Parts of a fit in a folder. See the header. A part is a file: a head, the notices, the object.
 */
#include "io/checkpoint.h"

#include "base/context.h"
#include "base/retry.h"
#include "io/checkpoint_folder.h"
#include "io/output.h"

#include <string.h>

enum { NOTE_CHARS = 1024, NAME_CHARS = 256 };

static const double LEAST_SECONDS = 0.1;

/* The checkpoint state of a context. */
typedef struct store {
    cst_attached attached;
    char *wanted; /* the folder that the caller named */
    cst_checkpoint_folder folder;
    bool on;        /* a fit has begun */
    bool reads;     /* this rank reads and writes */
    double least;   /* seconds that a part must have taken to be written */
    uint64_t run;   /* hash of the description of the run */
    int64_t taken;  /* parts that were used; atomic */
    int64_t broken; /* parts that could not be used; atomic */
    int failed;     /* a part could not be written: no more are; atomic */
    char failure[CST_ERROR_CHARS];
    char note[NOTE_CHARS];
} store;

/* Before the bytes of a part. */
typedef struct head {
    char magic[8];
    uint64_t run;
    uint64_t name;
    uint64_t of;
    uint64_t bytes;
    uint64_t hash;
} head;

_Static_assert(sizeof CST_CHECKPOINT_MAGIC == sizeof((head *)0)->magic + 1, "fills the field");

static store *store_of(const cst_context *context) {
    const cst_context *root = context->root ? context->root : context;
    return (store *)(void *)root->checkpoint;
}

/* Eight bytes at a time, for speed on large parts. */
uint64_t cst_checkpoint_of(uint64_t of, const void *bytes, size_t count) {
    const unsigned char *at = bytes;
    uint64_t hash = of ^ (UINT64_C(0x9e3779b97f4a7c15) * (count + 1));
    while (count > 0) {
        uint64_t word = 0;
        size_t size = count < sizeof word ? count : sizeof word;
        memcpy(&word, at, size);
        hash = (hash ^ word) * UINT64_C(0xff51afd7ed558ccd);
        hash ^= hash >> 32;
        at += size;
        count -= size;
    }
    return hash;
}

static uint64_t hash_text(const char *text) {
    return cst_checkpoint_of(0, text, strlen(text));
}

/* ---- scopes ---- */

size_t cst_checkpoint_enter(cst_context *context, const char *format, ...) {
    size_t before = strlen(context->scope);
    va_list args;
    va_start(args, format);
    (void)cst_vsnprintf(context->scope + before, sizeof context->scope - before, format, args);
    va_end(args);
    size_t now = strlen(context->scope);
    (void)cst_snprintf(context->scope + now, sizeof context->scope - now, "/");
    return before;
}

void cst_checkpoint_leave(cst_context *context, size_t before) {
    context->scope[before] = '\0';
}

static void full_name(const cst_context *context, const char *name, char out[NAME_CHARS]) {
    (void)cst_snprintf(out, NAME_CHARS, "%s%s", context->scope, name);
}

/* ---- the run ---- */

static void release(cst_context *context, cst_attached *attached) {
    store *s = (store *)(void *)attached;
    cst_checkpoint_folder_close(context, &s->folder);
    cst_free(context, s->wanted);
    cst_free(context, s);
}

cst_status cst_context_set_checkpoint(cst_context *context, const char *folder) {
    CST_ENTER(context);
    if (folder && !*folder)
        return cst_fail(context, CST_ERROR_ARGUMENT,
                        "the name of the checkpoint folder is empty; name a folder");
    if (context->checkpoint)
        release(context, context->checkpoint);
    context->checkpoint = NULL;
    if (!folder)
        return CST_OK;
    store *made = cst_alloc(context, 1, sizeof *made);
    char *wanted = cst_strdup(context, folder);
    if (!made || !wanted) {
        cst_free(context, made);
        cst_free(context, wanted);
        return cst_why(context, CST_ERROR_MEMORY);
    }
    *made = (store){.attached = {release}, .wanted = wanted, .least = LEAST_SECONDS};
    context->checkpoint = &made->attached;
    return CST_OK;
}

cst_status cst_checkpoint_start(cst_context *context, const char *run) {
    store *s = store_of(context);
    if (!s || s->on)
        return CST_OK;
    bool share = cst_ranks_share(context);
    cst_status status = CST_OK;
    cst_checkpoint_folder_close(context, &s->folder);
    s->taken = s->broken = s->failed = 0;
    s->run = hash_text(run);
    s->reads = context->ranks.calls.size <= 1 || context->ranks.calls.rank == 0;
    if (s->reads)
        status = cst_checkpoint_folder_open(context, s->wanted, run, &s->folder);
    if (share) {
        void *all = NULL;
        size_t bytes = 0;
        status = cst_ranks_gather(context, status, "", 0, &all, &bytes);
        cst_free(context, all);
    }
    s->on = status == CST_OK;
    if (s->on && s->folder.parts > 0)
        cst_log(context, CST_LOG_INFO, "checkpoint folder %s has %lld finished parts", s->wanted,
                (long long)s->folder.parts);
    return status;
}

void cst_checkpoint_stop(cst_context *context) {
    store *s = store_of(context);
    if (s)
        s->on = false;
}

bool cst_checkpoint_wanted(const cst_context *context) {
    const store *s = store_of(context);
    return s && !s->on;
}

bool cst_checkpoint_on(const cst_context *context) {
    const store *s = store_of(context);
    return s && s->on;
}

void cst_checkpoint_least(cst_context *context, double seconds) {
    store *s = store_of(context);
    if (s)
        s->least = seconds;
}

cst_status cst_context_end_checkpoint(cst_context *context) {
    CST_ENTER(context);
    store *s = store_of(context);
    if (s)
        cst_checkpoint_folder_end(context, &s->folder);
    return CST_OK;
}

const char *cst_context_checkpoint_note(const cst_context *context) {
    if (!CST_ALIVE(context, CONTEXT) || !context->checkpoint)
        return "";
    store *s = store_of(context);
    s->note[0] = '\0';
    char *to = s->note;
    size_t room = sizeof s->note;
    if (s->taken > 0) {
        (void)cst_snprintf(to, room, "continued with %lld finished part%s from %.300s",
                           (long long)s->taken, s->taken == 1 ? "" : "s", s->wanted);
        room -= strlen(to);
        to += strlen(to);
    }
    if (s->broken > 0) {
        (void)cst_snprintf(to, room,
                           "%s%lld part%s in %.300s could not be read and %s computed "
                           "again",
                           *s->note ? "; " : "", (long long)s->broken, s->broken == 1 ? "" : "s",
                           s->wanted, s->broken == 1 ? "was" : "were");
        room -= strlen(to);
        to += strlen(to);
    }
    if (s->failed)
        (void)cst_snprintf(to, room, "%sfurther parts were not kept: %.300s", *s->note ? "; " : "",
                           s->failure);
    return s->note;
}

/* ---- reading ---- */

static bool read_all(int fd, void *out, size_t bytes, off_t from) {
    size_t done = 0;
    ssize_t got = 1;
    while (got > 0 && done < bytes) {
        got = cst_pread(fd, (unsigned char *)out + done, bytes - done, from + (off_t)done);
        done += got > 0 ? (size_t)got : 0;
    }
    return done == bytes;
}

/* Reads the bytes behind the head of an open file, for cst_free; NULL if it is another part, of
 * another run, or damaged. */
static cst_status read_part(cst_context *context, const store *s, int fd, uint64_t name,
                            uint64_t of, bool *damaged, unsigned char **bytes, size_t *count) {
    head h;
    struct stat info;
    *damaged = true;
    if (!read_all(fd, &h, sizeof h, 0) ||
        memcmp(h.magic, CST_CHECKPOINT_MAGIC, sizeof h.magic) != 0 || fstat(fd, &info) != 0 ||
        (uint64_t)info.st_size != h.bytes + sizeof h)
        return CST_OK;
    *damaged = false;
    if (h.run != s->run || h.name != name || h.of != of)
        return CST_OK;
    unsigned char *read = cst_alloc(context, (size_t)h.bytes, 1);
    if (!read)
        return CST_ERROR_MEMORY;
    *damaged = !read_all(fd, read, (size_t)h.bytes, sizeof h) ||
               cst_checkpoint_of(h.run, read, (size_t)h.bytes) != h.hash;
    if (*damaged) {
        cst_free(context, read);
        return CST_OK;
    }
    *bytes = read;
    *count = (size_t)h.bytes;
    return CST_OK;
}

static cst_status find_part(cst_context *context, store *s, const cst_checkpoint_part *part,
                            unsigned char **bytes, size_t *count) {
    char name[NAME_CHARS];
    full_name(context, part->name, name);
    char *path = cst_checkpoint_path(context, &s->folder, name);
    if (!path)
        return CST_ERROR_MEMORY;
    int fd = cst_open_file(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC, 0);
    cst_free(context, path);
    if (fd < 0)
        return CST_OK;
    bool damaged = false;
    cst_status status =
        read_part(context, s, fd, hash_text(name), part->of, &damaged, bytes, count);
    (void)close(fd);
    if (damaged)
        (void)__atomic_add_fetch(&s->broken, 1, __ATOMIC_RELAXED);
    return status;
}

/* The notices of a part, then its object. */
static cst_status unpack(cst_context *context, cst_checkpoint_part *part,
                         const unsigned char *bytes, size_t count) {
    cst_pack pack = {.context = context, .reading = true, .at = bytes, .left = count};
    size_t notices = 0;
    CST_PACK(&pack, notices);
    for (size_t i = 0; pack.status == CST_OK && i < notices; i++) {
        char *text = cst_pack_text(&pack, NULL);
        if (text)
            cst_notice_again(context, text);
        cst_free(context, text);
    }
    if (pack.status == CST_OK)
        part->pack(&pack, part->object);
    if (pack.status == CST_ERROR_INPUT || (pack.status == CST_OK && pack.left > 0))
        return cst_fail(context, CST_ERROR_INPUT,
                        "checkpoint folder %s: the part '%s' is of another build of corestack; "
                        "continue with that build, give another folder, or remove this one",
                        store_of(context)->wanted, part->name);
    part->taken = pack.status == CST_OK;
    return pack.status;
}

cst_status cst_checkpoint_take(cst_context *context, cst_checkpoint_part *part) {
    store *s = store_of(context);
    part->taken = false;
    part->start = cst_seconds();
    part->notices = cst_notice_count(context);
    if (!s || !s->on)
        return CST_OK;
    bool share = cst_ranks_share(context);
    unsigned char *bytes = NULL;
    size_t count = 0;
    cst_status status = s->reads ? find_part(context, s, part, &bytes, &count) : CST_OK;
    if (share) {
        void *all = NULL;
        status = cst_ranks_gather(context, status, bytes ? (void *)bytes : "", count, &all, &count);
        cst_free(context, bytes);
        bytes = all;
    }
    if (status == CST_OK && count > 0)
        status = unpack(context, part, bytes, count);
    cst_free(context, bytes);
    if (part->taken)
        (void)__atomic_add_fetch(&s->taken, 1, __ATOMIC_RELAXED);
    return status;
}

/* ---- writing ---- */

static cst_status write_part(cst_context *context, const store *s, const char *name, uint64_t of,
                             const cst_buffer *content) {
    head h = {.run = s->run,
              .name = hash_text(name),
              .of = of,
              .bytes = content->used,
              .hash = cst_checkpoint_of(s->run, content->bytes, content->used)};
    memcpy(h.magic, CST_CHECKPOINT_MAGIC, sizeof h.magic);
    cst_output_file *output = NULL;
    char *path = cst_checkpoint_path(context, &s->folder, name);
    cst_status status = path ? cst_output_open(context, &output, path) : CST_ERROR_MEMORY;
    CST_TRY(cst_output_write(context, output, &h, sizeof h));
    CST_TRY(cst_output_write(context, output, content->bytes, content->used));
    if (status == CST_OK)
        status = cst_output_commit(context, output);
    else
        cst_output_abort(context, output);
    cst_free(context, path);
    return status;
}

/* own: a context for errors, so that the fit does not get them. */
static cst_status pack_and_write(cst_context *own, const cst_context *context, const store *s,
                                 const cst_checkpoint_part *part) {
    char name[NAME_CHARS];
    cst_pack pack = {.context = own, .out = {.context = own}};
    size_t all = context->root ? 0 : cst_notice_count(context);
    size_t first = part->notices < all ? part->notices : all;
    size_t notices = all - first;
    CST_PACK(&pack, notices);
    for (size_t i = first; i < all; i++) {
        char *text = cst_strdup(own, cst_notice_at(context, i));
        if (!text)
            pack.status = CST_ERROR_MEMORY;
        (void)cst_pack_text(&pack, text);
        cst_free(own, text);
    }
    part->pack(&pack, part->object);
    full_name(context, part->name, name);
    cst_status status = pack.status;
    CST_TRY(write_part(own, s, name, part->of, &pack.out));
    cst_free(own, pack.out.bytes);
    return status;
}

void cst_checkpoint_keep(cst_context *context, const cst_checkpoint_part *part) {
    store *s = store_of(context);
    cst_context *own = NULL;
    if (!s || !s->on || !s->reads || part->taken ||
        __atomic_load_n(&s->failed, __ATOMIC_ACQUIRE) != 0 ||
        cst_seconds() - part->start < s->least)
        return;
    cst_status status = cst_context_child(&own, context, false);
    CST_TRY(pack_and_write(own, context, s, part));
    if (status != CST_OK && own) {
        static const int never = 0;
        int none = never;
        if (__atomic_compare_exchange_n(&s->failed, &none, 1, false, __ATOMIC_ACQ_REL,
                                        __ATOMIC_RELAXED))
            (void)cst_snprintf(s->failure, sizeof s->failure, "%s", cst_last_error(own));
    }
    cst_context_free(own);
}

void cst_checkpoint_inside_done(cst_context *context) {
    store *s = store_of(context);
    bool kept = s && __atomic_load_n(&s->failed, __ATOMIC_ACQUIRE) == 0; /* what stands for them */
    if (kept && s->on && s->reads)
        cst_checkpoint_folder_remove(&s->folder, context->scope);
}
