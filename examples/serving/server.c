/*
 * Serves a model over HTTP with sockets alone, and takes up a new model file while it runs. The
 * same as server.py: POST /predict with {"member": [numbers], ...}, one row or a list of rows.
 *
 *     cc server.c -o server -pthread $(pkg-config --cflags --libs corestack-predict)
 *     ./server ensemble.cstack 8000
 *
 * Each worker has a predictor. The model is shared: the worker that finds a new file loads it, and
 * the old model is freed when the last predictor of it is.
 */
#define _POSIX_C_SOURCE 200809L
#include <corestack/predict.h>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <unistd.h>

enum { WORKERS = 4, REQUEST_MAX = 1 << 20, ROWS_MAX = 256, NAME_MAX_BYTES = 256 };

/* The model file, and the model that is served. */
static struct {
    pthread_mutex_t lock;
    const char *path;
    struct stat seen; /* of the file that was last tried */
    cst_context *context;
    cst_model *model;
} served = {.lock = PTHREAD_MUTEX_INITIALIZER};

typedef struct worker {
    int listening;
    cst_context *context;
    cst_model *model; /* of the predictor, which has a reference */
    cst_predictor *predictor;
    const float **members; /* [members], into `numbers` */
    float *numbers;        /* [members + 1][room]; the last is the result */
    size_t room;           /* numbers of one member */
    char *request;         /* [REQUEST_MAX + 1] */
} worker;

/* ---- the model ---- */

/* Loads a file that has changed. One that cannot be read is said once, and the old model stays. */
static void look_at_file(void) {
    struct stat now;
    cst_model *model = NULL;
    if (stat(served.path, &now) != 0 ||
        (now.st_mtim.tv_sec == served.seen.st_mtim.tv_sec &&
         now.st_mtim.tv_nsec == served.seen.st_mtim.tv_nsec && now.st_size == served.seen.st_size &&
         now.st_ino == served.seen.st_ino))
        return;
    served.seen = now;
    if (cst_model_load(served.context, &model, served.path) != CST_OK) {
        fprintf(stderr, "server: %s\n", cst_last_error(served.context));
        return;
    }
    fprintf(stderr, "%s: loaded\n", served.path);
    cst_model_free(served.context, served.model);
    served.model = model;
}

/* Makes a predictor of a model that the worker has not seen; under the lock. */
static void take_up(worker *w) {
    cst_predictor *predictor = NULL;
    size_t count = (size_t)cst_model_members(served.model);
    size_t room = ROWS_MAX * (size_t)cst_model_classes(served.model);
    const float **members = malloc(count * sizeof *members);
    float *numbers = malloc((count + 1) * room * sizeof *numbers);
    if (!members || !numbers ||
        cst_predictor_create(w->context, &predictor, served.model) != CST_OK) {
        fprintf(stderr, "server: out of memory, the old model stays\n");
        free(members);
        free(numbers);
        return;
    }
    cst_predictor_free(w->context, w->predictor);
    free(w->members);
    free(w->numbers);
    w->model = served.model;
    w->predictor = predictor;
    w->members = members;
    w->numbers = numbers;
    w->room = room;
}

/* Whether there is a model to predict with. */
static int refresh(worker *w) {
    pthread_mutex_lock(&served.lock);
    look_at_file();
    if (served.model && w->model != served.model)
        take_up(w);
    pthread_mutex_unlock(&served.lock);
    return w->model != NULL;
}

/* ---- JSON ---- */

static const char *skip_space(const char *at) {
    return at + strspn(at, " \t\r\n");
}

/* Reads "name" without escapes into `name`; NULL for anything else. */
static const char *read_name(const char *at, char *name) {
    size_t length = 0;
    if (*at != '"' || (length = strcspn(at + 1, "\"\\")) >= NAME_MAX_BYTES || at[1 + length] != '"')
        return NULL;
    memcpy(name, at + 1, length);
    name[length] = '\0';
    return at + length + 2;
}

/* Reads [numbers] or [[numbers], ...] into out [room]; NULL for anything else. */
static const char *read_numbers(const char *at, float *out, size_t room, size_t *count,
                                int *nested) {
    int depth = 0;
    *nested = 0;
    *count = 0;
    if (*at != '[')
        return NULL;
    do {
        at = skip_space(at);
        if (*at == '[') {
            depth++;
            at++;
        } else if (*at == ']') {
            depth--;
            at++;
        } else if (*at == ',') {
            at++;
        } else {
            char *end = NULL;
            float value = strtof(at, &end);
            if (end == at || *count == room)
                return NULL;
            out[(*count)++] = value;
            at = end;
        }
        if (depth > 2)
            return NULL;
        *nested = *nested || depth == 2;
    } while (depth > 0);
    return at;
}

/* ---- requests ---- */

/* A text that grows. */
typedef struct text {
    char *at;
    size_t used, room;
} text;

static void add(text *t, const char *format, ...) {
    va_list arguments;
    if (t->room - t->used < 4096) {
        char *more = realloc(t->at, t->room * 2 + 8192);
        if (!more)
            return;
        t->at = more;
        t->room = t->room * 2 + 8192;
    }
    va_start(arguments, format);
    int wrote = vsnprintf(t->at + t->used, t->room - t->used, format, arguments);
    va_end(arguments);
    t->used += wrote > 0 && (size_t)wrote < t->room - t->used ? (size_t)wrote : 0;
}

static void add_quoted(text *out, const char *from) {
    for (; *from; from++)
        add(out, *from == '"' || *from == '\\' ? "\\%c" : "%c",
            (unsigned char)*from < ' ' ? ' ' : *from);
}

static int fail(text *out, const char *what, const char *which) {
    out->used = 0;
    add(out, "{\"error\": \"");
    add_quoted(out, what);
    add_quoted(out, which);
    add(out, "\"}\n");
    return 400;
}

/* Reads the rows of every member; the status of the answer, 200 where all are there. */
static int read_rows(worker *w, const char *body, text *out, size_t *numbers, int *nested) {
    size_t members = (size_t)cst_model_members(w->model);
    char name[NAME_MAX_BYTES];
    const char *at = skip_space(body);
    memset(w->members, 0, members * sizeof *w->members);
    *numbers = 0;
    if (*at++ != '{')
        return fail(out, "the request is not a JSON object", "");
    while (*(at = skip_space(at)) != '}') {
        size_t count = 0;
        int rows = 0;
        if (*at == ',')
            at = skip_space(at + 1);
        at = read_name(at, name);
        at = at ? skip_space(at) : NULL;
        if (!at || *at != ':')
            return fail(out, "expected \"member\": [numbers]", "");
        size_t k = 0;
        while (k < members && strcmp(cst_model_member_name(w->model, (int32_t)k), name) != 0)
            k++;
        /* Members that the model does not need go where the result will stand. */
        float *row = w->numbers + k * w->room;
        at = read_numbers(skip_space(at + 1), row, w->room, &count, &rows);
        if (!at)
            return fail(out, "expected a row of numbers, or a list of rows, from ", name);
        if (k == members)
            continue;
        if (count == 0 || (*numbers && count != *numbers))
            return fail(out, "members differ in how many numbers they have: ", name);
        *numbers = count;
        *nested = rows;
        w->members[k] = row;
    }
    for (size_t k = 0; k < members; k++)
        if (!w->members[k])
            return fail(out, "no predictions of ", cst_model_member_name(w->model, (int32_t)k));
    return 200;
}

static int predict(worker *w, const char *body, text *out) {
    size_t numbers = 0;
    int nested = 0;
    size_t classes = (size_t)cst_model_classes(w->model);
    float *result = w->numbers + (size_t)cst_model_members(w->model) * w->room;
    int status = read_rows(w, body, out, &numbers, &nested);
    if (status != 200)
        return status;
    if (numbers % classes != 0 || (!nested && numbers != classes))
        return fail(out, "a row has one number for each class", "");
    if (cst_predictor_predict(w->predictor, w->members, (int64_t)(numbers / classes), result) !=
        CST_OK)
        return fail(out, cst_predictor_error(w->predictor), "");
    add(out, "{\"predictions\": %s", nested ? "[" : "");
    for (size_t i = 0; i < numbers; i++)
        add(out, "%s%.9g%s",
            i == 0             ? "["
            : i % classes == 0 ? ", ["
                               : ", ",
            (double)result[i], (i + 1) % classes == 0 ? "]" : "");
    add(out, "%s}\n", nested ? "]" : "");
    return 200;
}

/* Reads a request; its body, or NULL where it is too long, not whole or not POST /predict. */
static const char *read_request(worker *w, int client) {
    size_t used = 0;
    for (;;) {
        ssize_t got = recv(client, w->request + used, REQUEST_MAX - used, 0);
        if (got <= 0)
            return NULL;
        used += (size_t)got;
        w->request[used] = '\0';
        char *body = strstr(w->request, "\r\n\r\n");
        if (!body)
            continue;
        const char *length = NULL;
        for (char *line = w->request; line < body; line = strstr(line, "\r\n") + 2)
            if (strncasecmp(line, "Content-Length:", 15) == 0)
                length = line + 15;
        if (!length || strncmp(w->request, "POST /predict ", 14) != 0)
            return NULL;
        body += 4;
        if (used - (size_t)(body - w->request) >= strtoul(length, NULL, 10))
            return body;
    }
}

static void send_all(int client, const char *from, size_t bytes) {
    while (bytes > 0) {
        ssize_t sent = send(client, from, bytes, MSG_NOSIGNAL);
        if (sent <= 0)
            return;
        from += sent;
        bytes -= (size_t)sent;
    }
}

static void *work(void *user) {
    worker *w = user;
    struct timeval patience = {.tv_sec = 10};
    text out = {0};
    for (;;) {
        int client = accept(w->listening, NULL, NULL);
        if (client < 0)
            continue;
        setsockopt(client, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
        setsockopt(client, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
        const char *body = read_request(w, client);
        out.used = 0;
        int ready = refresh(w);
        int status = !ready ? fail(&out, "there is no model", "")
                     : body ? predict(w, body, &out)
                            : fail(&out, "send POST /predict", "");
        char head[160];
        int length = snprintf(head, sizeof head,
                              "HTTP/1.1 %d %s\r\nContent-Type: application/json\r\n"
                              "Content-Length: %zu\r\nConnection: close\r\n\r\n",
                              status, status == 200 ? "OK" : "Bad Request", out.used);
        send_all(client, head, (size_t)length);
        send_all(client, out.at, out.used);
        close(client);
    }
    return NULL;
}

int main(int argc, char **argv) {
    static worker workers[WORKERS];
    pthread_t thread;
    if (argc != 2 && argc != 3) {
        fprintf(stderr, "usage: server MODEL [PORT]\n");
        return 1;
    }
    struct sockaddr_in here = {.sin_family = AF_INET,
                               .sin_port =
                                   htons((uint16_t)(argc == 3 ? strtol(argv[2], NULL, 10) : 0)),
                               .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof here;
    int listening = socket(AF_INET, SOCK_STREAM, 0), yes = 1;
    setsockopt(listening, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
    if (listening < 0 || bind(listening, (struct sockaddr *)&here, size) != 0 ||
        listen(listening, 64) != 0 ||
        getsockname(listening, (struct sockaddr *)&here, &size) != 0) {
        perror("server");
        return 1;
    }
    served.path = argv[1];
    if (cst_context_create(&served.context) != CST_OK)
        return 1;
    for (int i = 0; i < WORKERS; i++) {
        worker *w = &workers[i];
        w->listening = listening;
        w->request = malloc(REQUEST_MAX + 1);
        if (!w->request || cst_context_create(&w->context) != CST_OK || !refresh(w)) {
            fprintf(stderr, "server: cannot start with %s\n", argv[1]);
            return 1;
        }
    }
    printf("http://127.0.0.1:%d\n", ntohs(here.sin_port));
    fflush(stdout);
    for (int i = 1; i < WORKERS; i++)
        if (pthread_create(&thread, NULL, work, &workers[i]) != 0)
            fprintf(stderr, "server: one thread fewer\n");
    work(&workers[0]);
    return 0;
}
