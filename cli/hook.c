/* Runs the user's program that predicts with a soup's candidate; stops it with the tool. */
#define _GNU_SOURCE /* realpath, setenv */
#include "cli.h"

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

static const double GRACE = 3; /* seconds that a program has to end by itself */

/* Data of the child, which may not allocate between fork and exec. */
typedef struct start {
    char candidate[CLI_PATH_CHARS], predictions[CLI_PATH_CHARS], *script;
    pid_t parent;
} start;

/* Makes the path absolute, for programs that change the folder. The folder must exist. */
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

/* The script for the shell, trimmed so that paths stay arguments of the program. */
static char *make_script(cli_call *call, const char *program) {
    static const char arguments[] = " \"$1\" \"$2\"";
    size_t length = strlen(program);
    while (length > 0 && strchr(" \t\r\n", program[length - 1]))
        length--;
    size_t size = length + sizeof arguments;
    char *script = cli_take(call, size, 1);
    if (script)
        (void)snprintf(script, size, "%.*s%s", (int)length, program, arguments);
    return script;
}

/* In the child. The session of its own has no terminal: opening /dev/tty fails at once. */
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
    if (dup2(nothing, STDIN_FILENO) < 0 || dup2(STDERR_FILENO, STDOUT_FILENO) < 0)
        _exit(126);
    (void)execv(arguments[0], arguments);
    _exit(127);
}

/* Waits for the program; an interrupt is passed to its group, SIGKILL after the grace. */
static int wait_for(pid_t child, int *how) {
    double told = 0;
    long pause = 200000; /* nanoseconds */
    for (;;) {
        pid_t found = waitpid(child, how, WNOHANG);
        if (found < 0 && errno != EINTR)
            return errno;
        if (found == child)
            break;
        if (cli_interrupted() && told == 0 && kill(-child, cli_interrupted()) == 0)
            told = cli_now();
        if (told > 0 && cli_now() - told > GRACE)
            (void)kill(-child, SIGKILL);
        struct timespec rest = {.tv_nsec = pause};
        (void)nanosleep(&rest, NULL); /* a signal ends it early */
        pause = pause < 20000000 ? pause + pause / 4 : pause;
    }
    if (cli_interrupted())
        (void)kill(-child, SIGKILL); /* what the shell left behind */
    return 0;
}

/* Turns the exit status of the program into a status with a message. */
static cst_status judge(cst_context *context, const cli_hook *hook, int how) {
    char message[CLI_PATH_CHARS + 256];
    char what[128];
    if (cli_interrupted())
        return cst_soup_fail(context, CST_ERROR_CANCELLED, "stopped on request");
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
    (void)snprintf(message, sizeof message,
                   "--eval: the program %s; to see why, run: CMD %.*s predictions.npy", what,
                   CLI_PATH_CHARS, hook->example);
    return cst_soup_fail(context, CST_ERROR_INPUT, message);
}

static cst_status fail_start(cst_context *context, int reason) {
    char message[256];
    (void)snprintf(message, sizeof message, "--eval: the program could not be started: %s",
                   strerror(reason));
    return cst_soup_fail(context, CST_ERROR_IO, message);
}

/* Runs the program with signals blocked. A caller that ignores SIGCHLD cannot wait. */
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
    (void)sigprocmask(SIG_SETMASK, &before, NULL);
    (void)close(nothing);
    if (child > 0)
        reason = wait_for(child, &how);
    return reason ? fail_start(context, reason) : judge(context, hook, how);
}

cst_status cli_run_hook(cst_context *context, void *user, const char *candidate,
                        const char *predictions) {
    const cli_hook *hook = user;
    start s = {.script = make_script(hook->call, hook->program), .parent = getpid()};
    cli_clear_progress(hook->call);
    if (!make_absolute(candidate, s.candidate) || !make_absolute(predictions, s.predictions))
        return cst_soup_fail(context, CST_ERROR_IO, "-o: the path is too long");
    if (!s.script || setenv("CORESTACK_CANDIDATE", s.candidate, 1) != 0 ||
        setenv("CORESTACK_PREDICTIONS", s.predictions, 1) != 0)
        return cst_soup_fail(context, CST_ERROR_MEMORY, "out of memory");
    return execute(context, hook, &s);
}
