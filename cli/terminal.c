/* Notices and progress on stderr, the report on stdout. */
#include "cli.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

void cli_follow_signal(const cli_call *call) {
    if (!(call->cancelled || cli_output_stopped()) || !cli_interrupted())
        return;
    cli_end_by_signal(cli_interrupted());
}

/* Seconds after which a run is worth a notice about the machine. */
static const double LONG = 5;

/* Without memory the notice is shown at once instead. */
static bool hold_notice(cli_call *call, const char *message) {
    for (int i = 0; i < call->notice_count; i++)
        if (strcmp(call->notices[i], message) == 0)
            return true;
    const char *copy = cli_copy(call, message);
    const char **grown = cli_take(call, (size_t)call->notice_count + 1, sizeof *grown);
    if (!grown || !copy)
        return false;
    for (int i = 0; i < call->notice_count; i++)
        grown[i] = call->notices[i];
    grown[call->notice_count++] = copy;
    call->notices = grown;
    return true;
}

int cli_report(cli_call *call, const char *command) {
    return cli_check(call, cst_report_create(call->context, &call->report, command));
}

int cli_put(cli_call *call, const char *key, const char *text) {
    return cli_check(call, cst_report_set_string(call->context, call->report, key, text));
}

int cli_put_integer(cli_call *call, const char *key, int64_t value) {
    return cli_check(call, cst_report_set_integer(call->context, call->report, key, value));
}

int cli_put_notices(cli_call *call) {
    return cli_check(call, cst_report_set_strings(call->context, call->report, "notices",
                                                  call->notices, call->notice_count));
}

static void on_log(void *user, cst_log_level level, const char *message) {
    cli_call *call = user;
    if (level == CST_LOG_WARNING && call->starting) {
        (void)snprintf(call->machine, sizeof call->machine, "%s", message);
    } else if (level == CST_LOG_WARNING) {
        if (!(call->notices_held && hold_notice(call, message)) && !call->quiet)
            cli_print_line(call, "notice: ", message);
    } else if (call->verbose) {
        cli_print_line(call, "", message);
    }
}

double cli_now(void) {
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static void show_progress(cli_call *call, const char *stage, int64_t done, int64_t total) {
    double now = cli_now();
    if (strncmp(call->stage, stage, sizeof call->stage - 1) != 0) {
        (void)snprintf(call->stage, sizeof call->stage, "%s", stage);
    } else if (now - call->stage_shown < 0.1) {
        return;
    }
    enum { BAR = 24 };
    static const char full[] = "========================";
    int part = call->parts && call->report ? 1 + call->more_count : 0;
    double share = (part + cst_context_progress(call->context)) / (call->parts ? call->parts : 1);
    double elapsed = now - call->began;
    share = call->told = share > call->told ? share : call->told;
    call->stage_shown = now;
    call->progress_on = true;
    (void)fprintf(stderr, "\r\033[K[%-*.*s] %3.0f %%  %s", BAR, (int)(BAR * share), full,
                  100 * share, call->stage);
    if (total > 1)
        (void)fprintf(stderr, " %lld/%lld", (long long)done, (long long)total);
    if (elapsed > 2)
        (void)fprintf(stderr, "  %.0f s", elapsed);
    (void)fflush(stderr);
}

void cli_say_machine(cli_call *call) {
    if (*call->machine && !call->quiet)
        cli_print_line(call, "notice: ", call->machine);
    *call->machine = '\0';
}

static int on_progress(void *user, const char *stage, int64_t done, int64_t total) {
    cli_call *call = user;
    if (*call->machine && cli_now() - call->began > LONG)
        cli_say_machine(call);
    if (call->progress)
        show_progress(call, stage, done, total);
    return cli_interrupted() != 0;
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

int cli_attach(cli_call *call) {
    call->quiet = cli_flag(call, "quiet");
    call->verbose = cli_flag(call, "verbose");
    call->notices_held = call->command->reports_notices;
    call->progress = !call->quiet && isatty(STDERR_FILENO);
    int color = 0;
    int64_t threads = 0;
    CLI_TRY(cli_choice(call, "color", "auto|always|never", &color));
    cst_context_set_log(call->context, on_log, call);
    CLI_TRY(cli_integer(call, "threads", 0, 1024, &threads));
    CLI_DO(cst_context_set_threads(call->context, (int)threads));
    CLI_TRY(set_memory(call));
    cst_context_set_progress(call->context, on_progress, call);
    call->began = cli_now();
    cli_heed_signals();
    return CLI_OK;
}

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
    static const char *const forms[] = {"json", "csv", "markdown", "latex"};
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

/* Prints the report on stdout: as text (all of it with --verbose), or as JSON, CSV or Markdown. */
static int print_report(cli_call *call, const cst_report *report) {
    cst_context *context = call->context;
    char *text = NULL;
    cst_context_set_width(context, cli_page_width());
    int code = cli_check(
        call, cli_flag(call, "json")       ? cst_report_json(context, report, &text)
              : cli_flag(call, "csv")      ? cst_report_csv(context, report, &text)
              : cli_flag(call, "markdown") ? cst_report_markdown(context, report, &text)
              : cli_flag(call, "latex")    ? cst_report_latex(context, report, &text)
              : call->verbose ? cst_report_text_full(context, report, use_color(call), &text)
                              : cst_report_text(context, report, use_color(call), &text));
    if (code == CLI_OK) {
        cli_clear_progress(call);
        cli_out("%s%s", text, cli_flag(call, "json") ? "\n" : "");
    }
    cst_free(call->context, text);
    return code;
}

int cli_end_report(cli_call *call, int code) {
    cst_report *report = call->report;
    call->report = NULL;
    if (!report)
        return code;
    if (code == CLI_OK && call->quiet && !cli_flag(call, "json")) /* documents keep their notices */
        code = cli_check(call, cst_report_set_strings(call->context, report, "notices", NULL, 0));
    bool page = strcmp(call->command->name, "report") == 0; /* its scores are of evaluate */
    if (code == CLI_OK && page && !cli_flag(call, "json"))
        code = cli_check(call, cst_report_set_string(call->context, report, "command", "report"));
    if (code == CLI_OK)
        code = print_report(call, report);
    cst_report_free(call->context, report);
    return code;
}
