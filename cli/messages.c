/* Messages on stderr, one line each, and the exit codes that go with them. Under every command. */
#include "cli.h"

#include <stdarg.h>
#include <stdio.h>

/* More than the longest message of the library. */
enum { LINE_CHARS = 4096 };

void cli_clear_progress(cli_call *call) {
    if (!call->progress_on)
        return;
    (void)fputs("\r\033[K", stderr);
    call->progress_on = false;
}

void cli_print_line(cli_call *call, const char *kind, const char *message) {
    char line[LINE_CHARS];
    char whole[LINE_CHARS + 64];
    cli_clear_progress(call);
    (void)snprintf(line, sizeof line, "%s", message);
    cst_make_printable(line, ' ');
    (void)snprintf(whole, sizeof whole, "corestack%s%s: %s%s\n", call->command ? " " : "",
                   call->command ? call->command->name : "", kind, line);
    cli_say(whole);
}

/* The first failure, for the other ranks. */
static void keep_failure(cli_call *call, cst_status status, const char *message) {
    if (!call->said)
        (void)snprintf(call->failure, sizeof call->failure, "%s", message);
    if (!call->said)
        call->status = status;
    call->said = true;
}

/* With several ranks, rank 0 prints it once they know which of them failed. */
static void say_failure(cli_call *call, cst_status status, const char *message) {
    if (status != CST_ERROR_CANCELLED && cli_shares(call))
        call->unsaid = true;
    else
        cli_print_line(call, "", message);
}

int cli_fail(cli_call *call, const char *format, ...) {
    char message[1024];
    va_list args;
    va_start(args, format);
    (void)vsnprintf(message, sizeof message, format, args);
    va_end(args);
    keep_failure(call, CST_ERROR_ARGUMENT, message);
    say_failure(call, CST_ERROR_ARGUMENT, message);
    return CLI_BAD_INPUT;
}

int cli_check(cli_call *call, cst_status status) {
    if (status == CST_OK)
        return CLI_OK;
    const char *message = call->context ? cst_last_error(call->context) : "";
    message = *message ? message : cst_status_text(status);
    keep_failure(call, status, message);
    say_failure(call, status, message);
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
    if (!cli_interrupted())
        return CLI_OK;
    call->cancelled = true;
    (void)cli_fail(call, "stopped on request");
    return CLI_INTERNAL;
}
