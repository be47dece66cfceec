/* Standard output and error. Output is held until the command has done its work, then written as
 * far as there is room, so that an interrupt is never missed in a blocking call. */
#include "cli.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { WAIT_MS = 100 };

/* Waits for room for PIPE_BUF bytes, or an error; false: interrupted. */
static bool wait_for_room(int descriptor) {
    struct pollfd room = {.fd = descriptor, .events = POLLOUT};
    for (;;) {
        int ready = poll(&room, 1, WAIT_MS);
        if (ready > 0 || (ready < 0 && errno != EINTR))
            return true;
        if (cli_interrupted())
            return false;
    }
}

/* 0, or errno of the write that failed; EINTR where an interrupt came before the end. */
static int put(int descriptor, const char *text, size_t bytes) {
    while (bytes > 0) {
        if (!wait_for_room(descriptor))
            return EINTR;
        ssize_t wrote = write(descriptor, text, bytes < PIPE_BUF ? bytes : PIPE_BUF);
        if (wrote < 0 && errno != EINTR && errno != EAGAIN)
            return errno;
        text += wrote > 0 ? wrote : 0;
        bytes -= wrote > 0 ? (size_t)wrote : 0;
    }
    return 0;
}

void cli_say(const char *line) {
    (void)put(STDERR_FILENO, line, strlen(line));
}

/* Printed and not yet written. */
static FILE *printed;
static char *held;
static size_t held_bytes;

static int output_error;     /* errno of what failed first */
static bool output_reported; /* the user was told */
static bool output_stopped;  /* by an interrupt */

void cli_out(const char *format, ...) {
    va_list args;
    if (!printed && !output_error)
        printed = open_memstream(&held, &held_bytes);
    va_start(args, format);
    if ((!printed || vfprintf(printed, format, args) < 0) && !output_error)
        output_error = errno;
    va_end(args);
}

void cli_out_json_string(const char *value) {
    cli_out("\"");
    for (; *value; value++) {
        if (*value == '"' || *value == '\\')
            cli_out("\\%c", *value);
        else
            cli_out("%c", *value);
    }
    cli_out("\"");
}

bool cli_output_stopped(void) {
    return output_stopped;
}

/* Writes what was printed; whoever asked to stop gets none of it. */
static void write_printed(void) {
    if (!printed)
        return;
    if (fclose(printed) != 0 && !output_error)
        output_error = errno;
    printed = NULL;
    if (!output_error)
        output_error = cli_interrupted() ? EINTR : put(STDOUT_FILENO, held, held_bytes);
    output_stopped = output_error == EINTR;
    free(held);
    held = NULL;
}

int cli_finish_output(const char *command, int code) {
    char line[256];
    write_printed();
    /* Whoever closed the pipe (head, a pager) has read what they wanted. */
    if (!output_error || output_error == EPIPE)
        return code;
    if (!output_reported && !output_stopped) {
        (void)snprintf(line, sizeof line,
                       "corestack%s%s: the result could not be written to standard output: %s\n",
                       command ? " " : "", command ? command : "", strerror(output_error));
        cli_say(line);
    }
    output_reported = true;
    return code == CLI_OK ? CLI_BAD_INPUT : code;
}
