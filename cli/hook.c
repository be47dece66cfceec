/*
 * The user's program that predicts with a candidate of a soup: started with two paths, waited for,
 * stopped when the tool is. Between mixing and scoring. Paper: none.
 */
#define _GNU_SOURCE /* realpath, environ */
#include "cli.h"

#include <corestack/soup.h>

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static const double GRACE = 3; /* seconds a program has to end by itself, twice */

/* All that the child needs, made before it is there: between fork and exec nothing may allocate. */
typedef struct start {
    char candidate[CLI_PATH_CHARS];
    char predictions[CLI_PATH_CHARS];
    char *script;
    char *variables[2];
    char **environment;
    int *descriptors; /* open ones beyond the standard streams, which the child closes */
    int descriptor_count;
} start;

/* ---- before the start ------------------------------------------------------------------------ */

/* The path from the root, for programs that change the folder. The folder must be there. */
static bool make_absolute(const char *path, char out[CLI_PATH_CHARS]) {
    char folder[CLI_PATH_CHARS];
    const char *slash = strrchr(path, '/');
    int length = slash ? (int)(slash - path) + 1 : 0;
    if ((size_t)length + 2 > sizeof folder)
        return false;
    (void)snprintf(folder, sizeof folder, "%.*s.", length, path);
    char *real = realpath(folder, NULL);
    int wrote = real ? snprintf(out, CLI_PATH_CHARS, "%s/%s", strcmp(real, "/") == 0 ? "" : real,
                                slash ? slash + 1 : path)
                     : -1;
    free(real);
    return wrote > 0 && wrote < CLI_PATH_CHARS;
}

/* NAME=VALUE, for free. */
static char *assign(const char *name, const char *value) {
    size_t size = strlen(name) + strlen(value) + 2;
    char *text = malloc(size);
    if (text)
        (void)snprintf(text, size, "%s=%s", name, value);
    return text;
}

static bool names_variable(const char *entry, const char *assignment) {
    size_t length = strcspn(assignment, "=") + 1;
    return strncmp(entry, assignment, length) == 0;
}

static bool make_environment(start *s) {
    size_t count = 0;
    s->variables[0] = assign("CORESTACK_CANDIDATE", s->candidate);
    s->variables[1] = assign("CORESTACK_PREDICTIONS", s->predictions);
    while (environ[count])
        count++;
    s->environment = calloc(count + 3, sizeof *s->environment);
    if (!s->variables[0] || !s->variables[1] || !s->environment)
        return false;
    size_t to = 0;
    for (size_t i = 0; i < count; i++)
        if (!names_variable(environ[i], s->variables[0]) &&
            !names_variable(environ[i], s->variables[1]))
            s->environment[to++] = environ[i];
    s->environment[to++] = s->variables[0];
    s->environment[to] = s->variables[1];
    return true;
}

/* Which descriptors are open: what the tool or its caller opened is not the program's. */
static bool list_descriptors(start *s) {
    DIR *folder = opendir("/proc/self/fd");
    bool fits = true;
    for (const struct dirent *entry; folder && fits && (entry = readdir(folder)) != NULL;) {
        long number = strtol(entry->d_name, NULL, 10);
        if (number <= STDERR_FILENO || number == dirfd(folder))
            continue;
        int *grown =
            realloc(s->descriptors, (size_t)(s->descriptor_count + 1) * sizeof *s->descriptors);
        fits = grown != NULL;
        if (grown) {
            s->descriptors = grown;
            s->descriptors[s->descriptor_count++] = (int)number;
        }
    }
    if (folder)
        (void)closedir(folder);
    return fits;
}

static void release(start *s) {
    free(s->script);
    free(s->variables[0]);
    free(s->variables[1]);
    free(s->environment);
    free(s->descriptors);
}

static bool prepare(start *s, const cli_hook *hook) {
    static const char arguments[] = " \"$1\" \"$2\"";
    size_t size = strlen(hook->program) + sizeof arguments;
    s->script = malloc(size);
    if (!s->script)
        return false;
    (void)snprintf(s->script, size, "%s%s", hook->program, arguments);
    return make_environment(s) && list_descriptors(s);
}

/* ---- the program ----------------------------------------------------------------------------- */

/* In the child: only calls that are safe between fork and exec. */
static void become(const start *s, int nothing) {
    static const int usual[] = {SIGINT, SIGTERM, SIGPIPE, SIGXFSZ};
    char *const arguments[] = {
        "/bin/sh", "-c", s->script, "sh", (char *)s->candidate, (char *)s->predictions, NULL};
    (void)setpgid(0, 0);
    for (size_t i = 0; i < sizeof usual / sizeof *usual; i++)
        (void)signal(usual[i], SIG_DFL);
    if (dup2(nothing, STDIN_FILENO) < 0 || dup2(STDERR_FILENO, STDOUT_FILENO) < 0)
        _exit(126);
    for (int i = 0; i < s->descriptor_count; i++)
        (void)close(s->descriptors[i]);
    (void)execve(arguments[0], arguments, s->environment);
    _exit(127);
}

static double now_seconds(void) {
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* Waits for the program; when the tool is asked to stop, the program's whole group is, and after
 * a while told to. */
static int wait_for(pid_t child, int *how) {
    static const int signals[] = {0, SIGTERM, SIGKILL}; /* the first is the one we got */
    const int most = (int)(sizeof signals / sizeof *signals);
    int sent = 0;
    double told = 0;
    long pause = 200000; /* nanoseconds */
    for (;;) {
        pid_t ended = waitpid(child, how, WNOHANG);
        if (ended == child)
            return 0;
        if (ended < 0 && errno != EINTR)
            return errno;
        bool again = sent > 0 && sent < most && now_seconds() - told > GRACE;
        if (cli_interrupted() && (sent == 0 || again)) {
            (void)kill(-child, sent == 0 ? cli_interrupted() : signals[sent]);
            told = now_seconds();
            sent++;
        }
        struct timespec rest = {.tv_nsec = pause};
        (void)nanosleep(&rest, NULL); /* a signal ends it early */
        pause = pause < 20000000 ? pause + pause / 4 : pause;
    }
}

/* What became of the program, as a status with a message. */
static cst_status judge(cst_context *context, const cli_hook *hook, int how) {
    char message[1024];
    if (cli_interrupted())
        return cst_soup_fail(context, CST_ERROR_CANCELLED,
                             "stopped on request; the same command goes on from here");
    if (WIFEXITED(how) && WEXITSTATUS(how) == 0)
        return CST_OK;
    if (WIFEXITED(how))
        (void)snprintf(message, sizeof message,
                       "--eval: the program ended with exit status %d%s; try it by hand: %s %s "
                       "predictions.npy",
                       WEXITSTATUS(how),
                       WEXITSTATUS(how) == 127   ? " (not found)"
                       : WEXITSTATUS(how) == 126 ? " (not executable)"
                                                 : "",
                       hook->program, hook->example);
    else
        (void)snprintf(message, sizeof message,
                       "--eval: the program was ended by signal %d (%s); try it by hand: %s %s "
                       "predictions.npy",
                       WTERMSIG(how), strsignal(WTERMSIG(how)), hook->program, hook->example);
    return cst_soup_fail(context, CST_ERROR_INPUT, message);
}

static cst_status fail_start(cst_context *context, int reason) {
    char message[256];
    (void)snprintf(message, sizeof message, "--eval: no program could be started: %s",
                   strerror(reason));
    return cst_soup_fail(context, CST_ERROR_IO, message);
}

/* Starts the program and waits for it. */
static cst_status execute(cst_context *context, const cli_hook *hook, const start *s) {
    int how = 0;
    int nothing = open("/dev/null", O_RDONLY | O_CLOEXEC);
    if (nothing < 0)
        return fail_start(context, errno);
    (void)fflush(stderr);
    (void)fflush(stdout);
    pid_t child = fork();
    if (child == 0)
        become(s, nothing);
    int reason = child < 0 ? errno : 0;
    (void)close(nothing);
    if (child > 0) {
        (void)setpgid(child, child); /* whoever of the two is first */
        reason = wait_for(child, &how);
    }
    return reason ? fail_start(context, reason) : judge(context, hook, how);
}

cst_status cli_run_hook(cst_context *context, void *user, const char *candidate,
                        const char *predictions) {
    const cli_hook *hook = user;
    start s = {.script = NULL};
    cst_status status = CST_OK;
    cli_clear_progress(hook->call);
    if (!make_absolute(candidate, s.candidate) || !make_absolute(predictions, s.predictions))
        status = cst_soup_fail(context, CST_ERROR_IO,
                               "--work: the path of the folder is too long or leads nowhere");
    else if (!prepare(&s, hook))
        status = cst_soup_fail(context, CST_ERROR_MEMORY, "out of memory");
    else
        status = execute(context, hook, &s);
    release(&s);
    return status;
}
