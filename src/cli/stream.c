/* SPDX-License-Identifier: Apache-2.0 */
/*
 * stream.c: one poll loop over five descriptors: the library's, the signal pipe, standard input, output and error.
 *
 * Invariants
 * - Nothing is lost: a stream is read from the library only into an empty buffer, and the loop ends only when the command
 *   has ended, both its streams are at their end, and both buffers are written.
 * - Nobody waits for the wrong one: a reader of our standard output that is slow stops that stream only. Signals and input
 *   go on. For that, a write must not block; but O_NONBLOCK belongs to the open file, which we share with other
 *   programs (a shell would find its terminal non-blocking), so it is never set. Instead: a socket is written with
 *   MSG_DONTWAIT; a regular file never blocks for long; anything else (pipe, terminal) is written only when poll() says
 *   so and then at most PIPE_BUF bytes, which a pipe that is writable takes without blocking.
 * - Standard input is read only when what was read before has been taken.
 */
#include "cli/stream.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include "cli/boxrun.h"
#include "cli/cli.h"
#include "cli/signals.h"
#include "cli/terminal.h"
#include "cli/values.h"

#define OUT_SIZE (256u * 1024u)
#define IN_SIZE (64u * 1024u)
#define SECOND_US 1000000u

enum { P_LIBRARY, P_SIGNALS, P_IN, P_OUT, P_ERR, P_COUNT };

struct sink {
    int fd, stream;
    mode_t kind;     /* S_IFREG, S_IFSOCK, … */
    bool drop;       /* nobody wants it */
    uint64_t skip;   /* bytes that are not wanted */
    bool end;        /* the stream is at its end */
    size_t from, to; /* what of data is to be written */
    char *data;
};

struct pump {
    const struct cli_stream *s;
    struct sink sinks[2];
    bool in_open;  /* the command's input is to be fed */
    bool in_ended; /* ours is at its end */
    size_t in_from, in_to;
    char *in;
    int last_signal;
    uint64_t last_signal_us;
    int status; /* >= 0: end now with that exit status */
};

static void pump_done(struct pump *p)
{
    free(p->in);
    free(p->sinks[0].data);
    free(p->sinks[1].data);
}

static void sink_init(struct sink *k, int fd, int stream, bool drop, uint64_t skip)
{
    struct stat st;

    *k = (struct sink){
        .fd = fd, .stream = stream, .drop = drop, .skip = skip, .data = cli_alloc(OUT_SIZE)};
    k->kind = fstat(fd, &st) == 0 ? st.st_mode & S_IFMT : 0;
}

static void pump_fail(struct pump *p, boxlite_error **err, const char *context)
{
    p->status = cli_fail(err, context);
}

/* Takes from the library what fits. */
static void fill(struct pump *p, struct sink *k)
{
    boxlite_error *err = NULL;

    while (!k->end && k->from == k->to) {
        ssize_t n = boxlite_exec_read(p->s->exec, k->stream, k->data, OUT_SIZE, &err);

        if (n > 0) {
            size_t skip = k->skip < (size_t)n ? (size_t)k->skip : (size_t)n;

            k->skip -= skip;
            k->from = skip;
            k->to = k->drop ? skip : (size_t)n;
        } else if (n == 0) {
            k->end = true;
        } else if (n == BOXLITE_E_AGAIN) {
            boxlite_error_free(err);
            return;
        } else {
            pump_fail(p, &err, "reading output");
            return;
        }
    }
}

static ssize_t write_some(const struct sink *k)
{
    const char *data = k->data + k->from;
    size_t size = k->to - k->from;

    switch (k->kind) {
    case S_IFSOCK:
        return send(k->fd, data, size, MSG_DONTWAIT | MSG_NOSIGNAL);
    case S_IFREG:
        return write(k->fd, data, size);
    default:
        return write(k->fd, data, size < PIPE_BUF ? size : PIPE_BUF);
    }
}

static void sink_failed(struct pump *p, struct sink *k, int error)
{
    k->from = k->to = 0;
    k->drop = true;
    if (k->stream == BOXLITE_STDERR) {
        return; /* there is nowhere to tell it */
    }
    p->status = error == EPIPE ? CLI_EXIT_SIGNAL(SIGPIPE)
                               : cli_error("writing output: %s", strerror(error));
}

/* Writes while it does not block. */
static void drain(struct pump *p, struct sink *k)
{
    struct pollfd pfd = {.fd = k->fd, .events = POLLOUT};

    while (k->from < k->to && poll(&pfd, 1, 0) > 0) {
        ssize_t n = write_some(k);

        if (n > 0) {
            k->from += (size_t)n;
        } else if (n < 0 && errno == EAGAIN) {
            return;
        } else if (n < 0 && errno != EINTR) {
            sink_failed(p, k, errno);
        }
    }
}

/* Moves output until there is none or it cannot be written. */
static void move_output(struct pump *p, struct sink *k)
{
    do {
        fill(p, k);
        if (k->from == k->to) {
            return;
        }
        drain(p, k);
    } while (p->status < 0 && k->from == k->to);
}

static void close_input(struct pump *p)
{
    boxlite_error *err = NULL;

    p->in_open = false;
    if (boxlite_exec_close_stdin(p->s->exec, &err) < 0) {
        boxlite_error_free(err); /* the command has ended: what it read is its own affair */
    }
}

/* Gives the command what was read; it may have ended or closed its input, which is no failure. */
static void feed(struct pump *p)
{
    boxlite_error *err = NULL;

    while (p->in_open && p->in_from < p->in_to) {
        ssize_t n = boxlite_exec_write(p->s->exec, p->in + p->in_from, p->in_to - p->in_from, &err);

        if (n > 0) {
            p->in_from += (size_t)n;
            continue;
        }
        boxlite_error_free(err);
        if (n != BOXLITE_E_AGAIN) {
            p->in_open = false;
        }
        return;
    }
    if (p->in_open && p->in_ended) {
        close_input(p);
    }
}

static void read_input(struct pump *p)
{
    ssize_t n = read(STDIN_FILENO, p->in, IN_SIZE);

    if (n > 0) {
        p->in_from = 0;
        p->in_to = (size_t)n;
    } else if (n == 0 || (errno != EINTR && errno != EAGAIN)) {
        p->in_ended = true;
    }
    feed(p);
}

static void resize(struct pump *p)
{
    boxlite_error *err = NULL;
    uint16_t rows, cols;

    cli_terminal_size(&rows, &cols);
    if (boxlite_exec_resize(p->s->exec, rows, cols, &err) < 0) {
        boxlite_error_free(err); /* it has just ended */
    }
}

static void forward(struct pump *p, int signo)
{
    boxlite_error *err = NULL;
    uint64_t now = cli_now_us();
    bool again = signo == p->last_signal && now - p->last_signal_us < SECOND_US;

    p->last_signal = signo;
    p->last_signal_us = now;
    if (p->s->output_only || (again && (signo == SIGINT || signo == SIGTERM))) {
        p->status = CLI_EXIT_SIGNAL(signo);
        return;
    }
    if (boxlite_exec_signal(p->s->exec, signo, &err) < 0) {
        boxlite_error_free(err); /* it has just ended */
    }
}

static void handle_signals(struct pump *p)
{
    int signo;

    while (p->status < 0 && (signo = cli_signals_take()) != 0) {
        if (signo == SIGWINCH || signo == SIGCONT) {
            if (p->s->tty && p->s->input && signo == SIGCONT) {
                (void)cli_terminal_raw();
            }
            if (p->s->tty) {
                resize(p);
            }
        } else {
            forward(p, signo);
        }
    }
}

static void dispatch(struct pump *p)
{
    boxlite_error *err = NULL;

    if (boxlite_runtime_dispatch(cli.rt, 0, &err) < 0) {
        pump_fail(p, &err, NULL);
    }
}

static short wants(bool yes, short events)
{
    return yes ? events : 0;
}

static void wait_and_handle(struct pump *p)
{
    const struct sink *out = &p->sinks[0], *errors = &p->sinks[1];
    bool in = p->in_open && !p->in_ended && p->in_from == p->in_to;
    struct pollfd fds[P_COUNT] = {
        [P_LIBRARY] = {boxlite_runtime_fd(cli.rt), POLLIN},
        [P_SIGNALS] = {cli_signals_fd(), POLLIN},
        [P_IN] = {in ? STDIN_FILENO : -1, wants(in, POLLIN)},
        [P_OUT] = {out->from < out->to ? out->fd : -1, POLLOUT},
        [P_ERR] = {errors->from < errors->to ? errors->fd : -1, POLLOUT},
    };

    if (poll(fds, P_COUNT, -1) < 0) {
        if (errno != EINTR) {
            p->status = cli_error("waiting: %s", strerror(errno));
        }
        return;
    }
    if (fds[P_SIGNALS].revents) {
        handle_signals(p);
    }
    if (fds[P_LIBRARY].revents && p->status < 0) {
        dispatch(p);
        feed(p);
    }
    if (fds[P_IN].revents && p->status < 0) {
        read_input(p);
    }
}

static bool all_written(const struct pump *p)
{
    return p->sinks[0].end && p->sinks[1].end && p->sinks[0].from == p->sinks[0].to &&
           p->sinks[1].from == p->sinks[1].to;
}

static bool has_ended(const struct pump *p)
{
    return p->s->output_only || boxlite_exec_events(p->s->exec) & BOXLITE_EXEC_EXITED;
}

static int finish(const struct pump *p)
{
    boxlite_exec_result result = {.struct_size = sizeof(result)};
    boxlite_error *err = NULL;

    if (p->s->output_only) {
        return 0;
    }
    if (boxlite_exec_wait(p->s->exec, -1, &result, &err) < 0) {
        return cli_fail(&err, NULL);
    }
    return cli_stream_status(p->s->box, p->s->exec, &result);
}

static int run_pump(struct pump *p)
{
    if (p->s->tty) {
        resize(p);
    }
    while (p->status < 0) {
        move_output(p, &p->sinks[0]);
        if (p->status < 0) {
            move_output(p, &p->sinks[1]);
        }
        if (p->status < 0 && all_written(p) && has_ended(p)) {
            return -1;
        }
        if (p->status < 0) {
            wait_and_handle(p);
        }
    }
    return p->status;
}

int cli_stream_run(const struct cli_stream *s)
{
    struct pump p = {.s = s, .in_open = s->input, .in = cli_alloc(IN_SIZE), .status = -1};
    int status;

    sink_init(&p.sinks[0], STDOUT_FILENO, BOXLITE_STDOUT, s->no_output, s->skip_output);
    sink_init(&p.sinks[1], STDERR_FILENO, BOXLITE_STDERR, s->no_errors, s->skip_errors);
    if (cli_signals_catch() < 0) {
        p.status = cli_error("cannot catch signals: %s", strerror(errno));
    }
    cli_signals_wake(NULL); /* the loop below sees them itself */
    if (s->tty && s->input) {
        (void)cli_terminal_raw(); /* no terminal: bytes go through as they are */
    }
    status = run_pump(&p);
    cli_terminal_restore();
    if (status < 0) {
        status = finish(&p);
    }
    pump_done(&p);
    return status;
}

static int out_of_memory(boxlite_box *box, int exit_code)
{
    char size[CLI_VALUE_TEXT], limit[CLI_VALUE_TEXT + 4] = "";
    uint64_t bytes = box ? cli_box_memory(box) : 0;

    if (bytes > 0) {
        cli_size_text(bytes, size);
        (void)snprintf(limit, sizeof(limit), " (%s)", size);
    }
    (void)cli_error_hint("give the box more with --memory",
                         "the box ran out of memory%s and the command was killed", limit);
    return exit_code;
}

int cli_stream_status(boxlite_box *box, const boxlite_exec *exec, const boxlite_exec_result *r)
{
    const char *failure = exec ? boxlite_exec_failure(exec) : NULL;

    if (r->flags & BOXLITE_EXIT_BOX_LOST) {
        return cli_error_hint("see shim.log and console.log in the box's folder", "%s",
                              failure ? failure : "the box ended before the command did");
    }
    if (r->flags & BOXLITE_EXIT_NOT_STARTED) {
        (void)cli_error("cannot start the command: %s", failure ? failure : "no reason given");
    } else if (r->flags & BOXLITE_EXIT_TIMED_OUT) {
        (void)cli_error_hint("allow more with --timeout",
                             "the command ran out of its time and was killed");
    } else if (r->flags & BOXLITE_EXIT_OOM_KILLED) {
        return out_of_memory(box, r->exit_code);
    } else if (failure) { /* what was shown is not all: that must not look like success */
        return cli_error_hint("is there space where the home directory is? see: boxlite info",
                              "the command was %s", failure);
    }
    return r->exit_code;
}
