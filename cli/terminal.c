/*
 * What the user sees: messages and progress on stderr, reports on stdout.
 * Around every command. Paper: none.
 */
#include "cli.h"

#include <corestack/report.h>
#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* ---- signals ---- */

/* The first signal asks the call of the library to stop, and what it left unfinished is removed.
 * More of them come with it where a key is held down, or a process group and its leader are both
 * told: they change nothing. Whoever still sends one after INSIST seconds has a run that hangs.
 */

static const int64_t AGAIN = 250;   /* milliseconds: not the same stroke */
static const int64_t INSIST = 5000; /* milliseconds */

/* The things a signal handler may touch, in whatever thread it runs. */
static volatile sig_atomic_t interrupted_by;
static volatile sig_atomic_t again;
static volatile sig_atomic_t held;
static int64_t first_came; /* milliseconds; 0: none yet */
static int ending;

static int64_t now_milliseconds(void) {
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000 + 1; /* never 0 */
}

/* Ends the program by the signal, wherever it is blocked. */
static void end_by(int number) {
    sigset_t it;
    (void)signal(number, SIG_DFL);
    (void)sigemptyset(&it);
    (void)sigaddset(&it, number);
    (void)raise(number);
    (void)pthread_sigmask(SIG_UNBLOCK, &it, NULL);
}

static void on_signal(int number) {
    int reason = errno;
    int64_t none = 0;
    int64_t now = now_milliseconds();
    if (__atomic_compare_exchange_n(&first_came, &none, now, false, __ATOMIC_SEQ_CST,
                                    __ATOMIC_SEQ_CST))
        interrupted_by = number;
    else if (now - none >= AGAIN)
        again = 1;
    if (none && now - none >= INSIST && !held &&
        !__atomic_exchange_n(&ending, 1, __ATOMIC_SEQ_CST)) {
        cli_unfinished_remove();
        end_by(number);
    }
    errno = reason;
}

int cli_interrupted(void) {
    return (int)interrupted_by;
}

bool cli_interrupted_again(void) {
    return again != 0;
}

void cli_hold_signals(bool on) {
    held = on;
}

/* More than the longest message of the library. */
enum { LINE_CHARS = 4096 };

/* ---- messages ---- */

void cli_clear_progress(cli_call *call) {
    if (!call->progress_on)
        return;
    (void)fputs("\r\033[K", stderr);
    call->progress_on = false;
}

/* File names may hold anything; a message stays one line and cannot drive the terminal. The
 * library's messages are so already. */
static void print_line(cli_call *call, const char *kind, const char *message) {
    char line[LINE_CHARS];
    char whole[LINE_CHARS + 64];
    cli_clear_progress(call);
    (void)snprintf(line, sizeof line, "%s", message);
    cst_make_printable(line, ' ');
    (void)snprintf(whole, sizeof whole, "corestack%s%s: %s%s\n", call->command ? " " : "",
                   call->command ? call->command->name : "", kind, line);
    cli_say(whole);
}

int cli_fail(cli_call *call, const char *format, ...) {
    char message[1024];
    va_list args;
    va_start(args, format);
    (void)vsnprintf(message, sizeof message, format, args);
    va_end(args);
    print_line(call, "", message);
    return CLI_BAD_INPUT;
}

int cli_check(cli_call *call, cst_status status) {
    if (status == CST_OK)
        return CLI_OK;
    const char *message = call->context ? cst_last_error(call->context) : "";
    print_line(call, "", *message ? message : cst_status_text(status));
    switch (status) {
    case CST_ERROR_MEMORY:
    case CST_ERROR_NUMERIC:
    case CST_ERROR_INTERNAL:
        return CLI_INTERNAL;
    case CST_ERROR_CANCELLED:
        call->cancelled = true;
        return CLI_INTERNAL;
    default:
        return CLI_BAD_INPUT;
    }
}

int cli_go_on(cli_call *call) {
    if (!interrupted_by)
        return CLI_OK;
    call->cancelled = true;
    (void)cli_fail(call, "stopped on request");
    return CLI_INTERNAL;
}

void cli_follow_signal(const cli_call *call) {
    if (!(call->cancelled || cli_output_stopped()) || !interrupted_by)
        return;
    end_by(interrupted_by);
}

/* ---- log and progress ---- */

/* Without memory the notice is shown at once instead. */
static bool hold_notice(cli_call *call, const char *message) {
    size_t size = strlen(message) + 1;
    char *copy = malloc(size);
    char **grown = realloc(call->notices, (size_t)(call->notice_count + 1) * sizeof *grown);
    if (grown)
        call->notices = grown;
    if (!grown || !copy) {
        free(copy);
        return false;
    }
    memcpy(copy, message, size);
    call->notices[call->notice_count++] = copy;
    return true;
}

int cli_report_notices(cli_call *call, cst_report *report) {
    return cli_check(call, cst_report_set_strings(call->context, report, "notices",
                                                  (const char *const *)call->notices,
                                                  call->notice_count));
}

static void on_log(void *user, cst_log_level level, const char *message) {
    cli_call *call = user;
    if (level == CST_LOG_WARNING) {
        if (!(call->notices_held && hold_notice(call, message)) && !call->quiet)
            print_line(call, "notice: ", message);
    } else if (call->verbose) {
        print_line(call, "", message);
    }
}

static double now_seconds(void) {
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static void show_progress(cli_call *call, const char *stage, int64_t done, int64_t total) {
    double now = now_seconds();
    if (strncmp(call->stage, stage, sizeof call->stage - 1) != 0) {
        (void)snprintf(call->stage, sizeof call->stage, "%s", stage);
        call->stage_start = now;
    } else if (now - call->stage_shown < 0.1) {
        return;
    }
    call->stage_shown = now;
    call->progress_on = true;
    (void)fprintf(stderr, "\r\033[K%s", call->stage);
    double elapsed = now - call->stage_start;
    if (total > 0)
        (void)fprintf(stderr, "  %3.0f %%  (%lld of %lld)", 100 * (double)done / (double)total,
                      (long long)done, (long long)total);
    if (done > 0 && elapsed > 0.2) {
        double rate = (double)done / elapsed;
        (void)fprintf(stderr, "  %.3g/s, %.0f s left", rate, (double)(total - done) / rate);
    }
    (void)fflush(stderr);
}

static int on_progress(void *user, const char *stage, int64_t done, int64_t total) {
    cli_call *call = user;
    if (call->progress)
        show_progress(call, stage, done, total);
    return interrupted_by != 0;
}

/* "2GiB", "500 MB", "1e9": bytes; a suffix with an i counts in 1,024s. */
static bool parse_size(const char *text, size_t *out) {
    static const char units[] = "KMGT";
    char *end = NULL;
    errno = 0;
    double value = strtod(text, &end);
    if (end == text || errno != 0 || !(value >= 0))
        return false;
    while (*end == ' ')
        end++;
    const char *unit = *end ? strchr(units, *end & ~0x20) : NULL;
    if (unit) {
        bool binary = (end[1] | 0x20) == 'i';
        for (const char *u = units; u <= unit; u++)
            value *= binary ? 1024 : 1000;
        end += binary ? 2 : 1;
    }
    if ((*end | 0x20) == 'b')
        end++;
    if (*end || value >= 0x1p62)
        return false;
    *out = (size_t)value;
    return true;
}

static int set_memory(cli_call *call) {
    const char *text = cli_value(call, "memory");
    size_t bytes = 0;
    if (!text)
        return CLI_OK;
    if (!parse_size(text, &bytes))
        return cli_fail(call, "option --memory: '%s' is not a size; write 2GiB, 500MB or bytes",
                        text);
    cst_status status = cst_context_set_memory(call->context, bytes);
    if (status != CST_OK)
        return cli_fail(call, "option --memory: %s", cst_last_error(call->context));
    return CLI_OK;
}

/* What ends a program by a user, a terminal, a job or a limit is an interrupt, so that nothing
 * unfinished stays; but what the caller ignores (nohup, a job in the background of a script) stays
 * ignored. While one is handled the others wait. */
static void heed_signals(void) {
    static const int numbers[] = {SIGINT,  SIGTERM, SIGHUP,  SIGQUIT,
                                  SIGXCPU, SIGALRM, SIGUSR1, SIGUSR2};
    const size_t count = sizeof numbers / sizeof *numbers;
    struct sigaction action;
    struct sigaction before;
    memset(&action, 0, sizeof action);
    action.sa_handler = on_signal;
    (void)sigemptyset(&action.sa_mask);
    for (size_t i = 0; i < count; i++)
        (void)sigaddset(&action.sa_mask, numbers[i]);
    for (size_t i = 0; i < count; i++) {
        if (sigaction(numbers[i], NULL, &before) != 0 || before.sa_handler != SIG_IGN)
            (void)sigaction(numbers[i], &action, NULL);
    }
}

int cli_attach(cli_call *call) {
    call->quiet = cli_flag(call, "quiet");
    call->verbose = cli_flag(call, "verbose");
    call->notices_held = call->command->reports_notices;
    call->progress = !call->quiet && isatty(STDERR_FILENO);
    const char *color = cli_value(call, "color");
    if (color && strcmp(color, "auto") != 0 && strcmp(color, "always") != 0 &&
        strcmp(color, "never") != 0)
        return cli_fail(call, "option --color: '%s' is not auto, always or never", color);
    long long threads = 0;
    int code = cli_integer(call, "threads", 0, 1024, &threads);
    if (code == CLI_OK)
        code = cli_check(call, cst_context_set_threads(call->context, (int)threads));
    if (code == CLI_OK)
        code = set_memory(call);
    if (code != CLI_OK)
        return code;
    cst_context_set_log(call->context, on_log, call);
    cst_context_set_progress(call->context, on_progress, call);
    heed_signals();
    return CLI_OK;
}

/* ---- output ---- */

static bool use_color(const cli_call *call) {
    const char *color = cli_value(call, "color");
    if (color && strcmp(color, "auto") != 0)
        return strcmp(color, "always") == 0;
    const char *off = getenv("NO_COLOR");
    const char *terminal = getenv("TERM");
    if ((off && *off) || (terminal && strcmp(terminal, "dumb") == 0))
        return false;
    return isatty(STDOUT_FILENO) != 0;
}

int cli_check_form(cli_call *call) {
    static const char *const forms[] = {"json", "csv", "markdown"};
    const char *first = NULL;
    for (size_t i = 0; i < sizeof forms / sizeof forms[0]; i++) {
        if (!cli_flag(call, forms[i]))
            continue;
        if (first)
            return cli_fail(call, "--%s and --%s cannot be combined: give one of them", first,
                            forms[i]);
        first = forms[i];
    }
    return CLI_OK;
}

int cli_print_report(cli_call *call, const cst_report *report) {
    char *text = NULL;
    cst_status status = CST_OK;
    if (cli_flag(call, "json"))
        status = cst_report_json(call->context, report, &text);
    else if (cli_flag(call, "csv"))
        status = cst_report_csv(call->context, report, &text);
    else if (cli_flag(call, "markdown"))
        status = cst_report_markdown(call->context, report, &text);
    else if (call->verbose)
        status = cst_report_text_full(call->context, report, use_color(call), &text);
    else
        status = cst_report_text(call->context, report, use_color(call), &text);
    int code = cli_check(call, status);
    if (code == CLI_OK) {
        cli_clear_progress(call);
        cli_out("%s%s", text, cli_flag(call, "json") ? "\n" : "");
    }
    cst_free(call->context, text);
    return code;
}

int cli_end_report(cli_call *call, cst_report *report, int code) {
    if (code == CLI_OK)
        code = cli_print_report(call, report);
    cst_report_free(call->context, report);
    return code;
}
