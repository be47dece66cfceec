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
#ifdef __linux__
#include <sys/prctl.h>
#endif

/* Bytes of a command and of a path that a message shows: together less than a message holds. */
enum { SHOWN_CHARS = 400, QUOTED_CHARS = 1200 };

static const double GRACE = 3; /* seconds a program has to end by itself, twice */

/* All that the child needs, made before it is there: between fork and exec nothing may allocate. */
typedef struct start {
    char candidate[CLI_PATH_CHARS];
    char predictions[CLI_PATH_CHARS];
    char *script;
    pid_t parent;
    char *variables[2];
    char **environment;
    int *descriptors; /* open ones beyond the standard streams, which the child closes */
    int descriptor_count;
} start;

/* ---- before the start ---- */

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

/* Length of a command without the blanks and line ends behind it: after a line end the shell would
 * take the paths for a command of their own. */
static size_t trimmed(const char *program) {
    size_t length = strlen(program);
    while (length > 0 && strchr(" \t\r\n", program[length - 1]))
        length--;
    return length;
}

static bool prepare(start *s, const cli_hook *hook) {
    static const char arguments[] = " \"$1\" \"$2\"";
    size_t length = trimmed(hook->program);
    size_t size = length + sizeof arguments;
    s->script = malloc(size);
    s->parent = getpid();
    if (!s->script)
        return false;
    (void)snprintf(s->script, size, "%.*s%s", (int)length, hook->program, arguments);
    return make_environment(s) && list_descriptors(s);
}

/* ---- the program ---- */

/* In the child: only calls that are safe between fork and exec. The session of its own has no
 * terminal: opening /dev/tty fails at once, where a group in the background would be stopped. */
static void become(const start *s, int nothing) {
    static const int usual[] = {SIGINT, SIGTERM, SIGPIPE, SIGXFSZ, SIGCHLD};
    char *const arguments[] = {
        "/bin/sh", "-c", s->script, "sh", (char *)s->candidate, (char *)s->predictions, NULL};
    sigset_t none;
    (void)setsid();
#ifdef __linux__
    (void)prctl(PR_SET_PDEATHSIG, SIGTERM); /* a tool that is killed cannot stop it */
    if (getppid() != s->parent)
        _exit(126);
#endif
    for (size_t i = 0; i < sizeof usual / sizeof *usual; i++)
        (void)signal(usual[i], SIG_DFL);
    (void)sigemptyset(&none);
    (void)sigprocmask(SIG_SETMASK, &none, NULL);
    cli_usual_permissions();
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

/* How far a program is that has been asked to end. */
typedef struct ending {
    int sent; /* signals so far; the last one is SIGKILL */
    double told;
} ending;

enum { LAST = 3 };

/* Sends the program's whole group the next signal when it is time: that which the tool got, then
 * SIGTERM, then SIGKILL, which an impatient user has at once. */
static void press(pid_t child, ending *e) {
    bool at_once = cli_interrupted_again();
    if (e->sent == LAST || (e->sent > 0 && !at_once && now_seconds() - e->told <= GRACE))
        return;
#ifdef __linux__
    (void)prctl(PR_SET_CHILD_SUBREAPER, 1); /* what the shell leaves behind is ours to wait for */
#endif
    int next = at_once ? LAST : e->sent + 1;
    int number = next == LAST ? SIGKILL : next == 1 ? cli_interrupted() : SIGTERM;
    if (kill(-child, number) != 0) /* no session of its own yet: asked again in a moment */
        return;
    e->sent = next;
    e->told = now_seconds();
}

/* Whether nothing of the group is left, or nothing that could be helped. */
static bool is_over(pid_t child, const ending *e) {
    while (waitpid(-child, NULL, WNOHANG) > 0) {
    }
    return kill(-child, 0) != 0 || (e->sent == LAST && now_seconds() - e->told > GRACE);
}

/* Waits for the shell; when the tool is asked to stop, for all that runs in its group. */
static int wait_for(pid_t child, int *how) {
    ending e = {0};
    bool ended = false;
    long pause = 200000; /* nanoseconds */
    for (;;) {
        pid_t found = ended ? 0 : waitpid(child, how, WNOHANG);
        if (found < 0 && errno != EINTR)
            return errno;
        ended = ended || found == child;
        if (ended && (!cli_interrupted() || is_over(child, &e)))
            return 0;
        if (cli_interrupted())
            press(child, &e);
        struct timespec rest = {.tv_nsec = pause};
        (void)nanosleep(&rest, NULL); /* a signal ends it early */
        pause = pause < 20000000 ? pause + pause / 4 : pause;
    }
}

/* A path as a shell takes it; one that is too long is only described. */
static void quote(const char *path, char out[QUOTED_CHARS]) {
    static const char safe[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                               "_./-+=:,@%";
    size_t at = 0;
    if (strlen(path) < QUOTED_CHARS && path[strspn(path, safe)] == '\0') {
        (void)snprintf(out, QUOTED_CHARS, "%s", path);
        return;
    }
    out[at++] = '\'';
    for (; *path && at + 6 < QUOTED_CHARS; path++) {
        for (const char *c = "'\\'"; *path == '\'' && *c; c++)
            out[at++] = *c;
        out[at++] = *path;
    }
    (void)snprintf(out + at, QUOTED_CHARS - at, "'");
    if (*path)
        (void)snprintf(out, QUOTED_CHARS, "CANDIDATE.safetensors");
}

/* The failure of the program, and how to see it by hand: a command of many letters or lines goes by
 * the name that the help has for it. */
static cst_status fail_program(cst_context *context, const cli_hook *hook, const char *what) {
    char message[SHOWN_CHARS + QUOTED_CHARS + 256];
    char file[QUOTED_CHARS];
    size_t length = trimmed(hook->program);
    bool shown = length <= SHOWN_CHARS && strcspn(hook->program, "\t\r\n") >= length;
    quote(hook->example, file);
    (void)snprintf(message, sizeof message,
                   "--eval: the program %s; to see why, run: %.*s %s predictions.npy", what,
                   shown ? (int)length : 3, shown ? hook->program : "CMD", file);
    return cst_soup_fail(context, CST_ERROR_INPUT, message);
}

/* What became of the program, as a status with a message. */
static cst_status judge(cst_context *context, const cli_hook *hook, int how) {
    char what[128];
    if (cli_interrupted())
        return cst_soup_fail(context, CST_ERROR_CANCELLED,
                             "stopped on request; run the same command again to continue");
    if (WIFEXITED(how) && WEXITSTATUS(how) == 0)
        return CST_OK;
    if (WIFEXITED(how))
        (void)snprintf(what, sizeof what, "ended with exit status %d%s", WEXITSTATUS(how),
                       WEXITSTATUS(how) == 127   ? " (not found)"
                       : WEXITSTATUS(how) == 126 ? " (not executable)"
                                                 : "");
    else
        (void)snprintf(what, sizeof what, "was killed by signal %d (%s)", WTERMSIG(how),
                       strsignal(WTERMSIG(how)));
    return fail_program(context, hook, what);
}

static cst_status fail_start(cst_context *context, int reason) {
    char message[256];
    (void)snprintf(message, sizeof message, "--eval: the program could not be started: %s",
                   strerror(reason));
    return cst_soup_fail(context, CST_ERROR_IO, message);
}

/* Starts the program and waits for it. No signal is handled twice, here and in the child, and none
 * is missed. Where a caller ignores SIGCHLD, nobody could wait for anything. */
static cst_status execute(cst_context *context, const cli_hook *hook, const start *s) {
    int how = 0;
    sigset_t all;
    sigset_t before;
    int nothing = open("/dev/null", O_RDONLY | O_CLOEXEC);
    if (nothing < 0)
        return fail_start(context, errno);
    (void)fflush(stderr);
    (void)signal(SIGCHLD, SIG_DFL);
    (void)sigfillset(&all);
    (void)sigprocmask(SIG_SETMASK, &all, &before);
    pid_t child = fork();
    if (child == 0)
        become(s, nothing);
    int reason = child < 0 ? errno : 0;
    cli_hold_signals(true);
    (void)sigprocmask(SIG_SETMASK, &before, NULL);
    (void)close(nothing);
    if (child > 0)
        reason = wait_for(child, &how);
    cli_hold_signals(false);
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
                               "--work: the path of the folder is too long or does not exist");
    else if (!prepare(&s, hook))
        status = cst_soup_fail(context, CST_ERROR_MEMORY, "out of memory");
    else
        status = execute(context, hook, &s);
    release(&s);
    return status;
}
