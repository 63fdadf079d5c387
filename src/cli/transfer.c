/* SPDX-License-Identifier: Apache-2.0 */
/*
 * transfer.c: see transfer.h. All progress goes to standard error. The bars are a block of lines that is drawn over
 * itself at most ten times a second; it holds only the parts that move, so it fits the terminal however many layers an
 * image has, and the sum below them.
 *
 * A signal that means "end" cancels the transfer, and its end is waited for: then nothing unfinished is left.
 */
#include "cli/transfer.h"

#include <string.h>

#include "cli/cli.h"
#include "cli/output.h"
#include "cli/progress.h"
#include "cli/signals.h"
#include "cli/terminal.h"
#include "cli/values.h"

#define INTERVAL_US 100000u
#define BARS_MAX 8
#define BAR_WIDTH 28
#define NAME_SIZE 80

struct cli_transfer cli_transfer;
const struct cli_option cli_transfer_file_options[] = {
    {"auth-file", 0, CLI_TEXT, &cli_transfer.auth_file, "FILE",
     "credentials (default: $REGISTRY_AUTH_FILE, then those of Docker and Podman)",
     .words = CLI_W_FILE},
    {0},
};
const struct cli_option cli_transfer_options[] = {
    {"auth-file", 0, CLI_TEXT, &cli_transfer.auth_file, "FILE",
     "credentials (default: $REGISTRY_AUTH_FILE, then those of Docker and Podman)",
     .words = CLI_W_FILE},
    {"ca-file", 0, CLI_TEXT, &cli_transfer.ca_file, "FILE",
     "authorities to trust (PEM), instead of the system's", .words = CLI_W_FILE},
    {"plain-http", 0, CLI_FLAG, &cli_transfer.plain_http, NULL,
     "speak to the registry without TLS"},
    {0},
};

struct cli_transfer_output cli_transfer_output;
const struct cli_option cli_transfer_output_options[] = {
    {"quiet", 'q', CLI_FLAG, &cli_transfer_output.quiet, NULL,
     "show no progress, print only the digest"},
    {"json", 0, CLI_FLAG, &cli_transfer_output.json, NULL,
     "print events as JSON objects, one a line"},
    {0},
};

struct part {
    char kind[16], digest[NAME_SIZE];
    int state;
    uint64_t done, total;
};

static struct {
    bool over;
    int result;
    const char *title;
    struct part *parts;
    size_t count;
    uint64_t drawn;
    unsigned lines; /* of the block that stands there */
} now;

static const char *const states[] = {"waiting", "running", "retrying", "present", "done"};

/* ---- Showing --------------------------------------------------------------------------------- */

static void erase(void)
{
    if (now.lines) {
        fprintf(stderr, "\r\033[%uA\033[J", now.lines);
        now.lines = 0;
    }
}

static bool moves(const struct part *p)
{
    return p->state != BOXLITE_TRANSFER_DONE && p->state != BOXLITE_TRANSFER_PRESENT;
}

/* "layer 1a2b3c4d5e6f" */
static void part_name(const struct part *p, char *ret, size_t size)
{
    const char *colon = strchr(p->digest, ':');

    if (strcmp(p->kind, "root") == 0) {
        (void)snprintf(ret, size, "root image");
    } else {
        (void)snprintf(ret, size, "%s %.12s", p->kind, colon ? colon + 1 : p->digest);
    }
}

static void draw_bar(const struct part *p, uint16_t columns)
{
    char name[NAME_SIZE], done[CLI_VALUE_TEXT], total[CLI_VALUE_TEXT], bar[BAR_WIDTH + 1];
    unsigned full = p->total ? (unsigned)((double)p->done * BAR_WIDTH / (double)p->total) : 0;
    char line[256];

    memset(bar, ' ', BAR_WIDTH);
    memset(bar, '=', full < BAR_WIDTH ? full : BAR_WIDTH);
    bar[BAR_WIDTH] = '\0';
    part_name(p, name, sizeof(name));
    cli_size_text(p->done, done);
    cli_size_text(p->total, total);
    if (p->total) {
        (void)snprintf(line, sizeof(line), "%-18s [%s] %s of %s%s%s", name, bar, done, total,
                       p->state == BOXLITE_TRANSFER_RUNNING ? "" : ", ",
                       p->state == BOXLITE_TRANSFER_RUNNING ? "" : states[p->state]);
    } else {
        (void)snprintf(line, sizeof(line), "%-18s %s", name, states[p->state]);
    }
    fprintf(stderr, "%.*s\033[K\n", columns > 1 ? columns - 1 : 1, line);
    now.lines++;
}

static void draw_sum(uint16_t columns)
{
    char done[CLI_VALUE_TEXT], total[CLI_VALUE_TEXT], line[512];
    uint64_t bytes = 0, all = 0;
    size_t finished = 0, layers = 0;

    for (size_t i = 0; i < now.count; i++) {
        if (strcmp(now.parts[i].kind, "layer") == 0) {
            layers++;
            finished += moves(&now.parts[i]) ? 0 : 1;
            bytes += now.parts[i].done;
            all += now.parts[i].total;
        }
    }
    cli_size_text(bytes, done);
    cli_size_text(all, total);
    (void)snprintf(line, sizeof(line), "%s: %zu of %zu layers, %s of %s", now.title, finished,
                   layers, done, total);
    fprintf(stderr, "%.*s\033[K\n", columns > 1 ? columns - 1 : 1, line);
    now.lines++;
}

static void draw(void)
{
    uint16_t rows, columns;
    size_t bars = 0;

    now.drawn = cli_now_us();
    cli_terminal_size(&rows, &columns);
    erase();
    for (size_t i = 0; i < now.count && bars < BARS_MAX && bars + 2 < rows; i++) {
        if (moves(&now.parts[i])) {
            draw_bar(&now.parts[i], columns);
            bars++;
        }
    }
    draw_sum(columns);
    fflush(stderr);
}

static void tell_line(const struct part *p, const char *note)
{
    char name[NAME_SIZE], total[CLI_VALUE_TEXT];

    part_name(p, name, sizeof(name));
    cli_size_text(p->total, total);
    if (!moves(p)) {
        fprintf(stderr, "%s: %s (%s)\n", name, states[p->state], total);
    } else if (p->state == BOXLITE_TRANSFER_RETRYING) {
        fprintf(stderr, "%s: again: %s\n", name, note ? note : "it failed");
    }
}

/* ---- Events ---------------------------------------------------------------------------------- */

static struct part *note_part(const boxlite_transfer_event *e, bool *ret_changed)
{
    struct part *p = NULL;

    for (size_t i = 0; i < now.count && !p; i++) {
        if (strcmp(now.parts[i].digest, e->digest) == 0 &&
            strcmp(now.parts[i].kind, e->kind) == 0) {
            p = &now.parts[i];
        }
    }
    *ret_changed = !p || p->state != e->state;
    if (!p) {
        now.parts = cli_grow(now.parts, (now.count + 1) * sizeof(*now.parts));
        p = &now.parts[now.count++];
        (void)snprintf(p->kind, sizeof(p->kind), "%s", e->kind);
        (void)snprintf(p->digest, sizeof(p->digest), "%s", e->digest);
    }
    p->state = e->state;
    p->done = e->done;
    p->total = e->total;
    return p;
}

static void on_event(void *data, const boxlite_transfer_event *e)
{
    bool changed;
    const struct part *p;

    if (cli_transfer.show == CLI_SHOW_NOTHING || e->state < 0 ||
        (size_t)e->state >= CLI_COUNT(states)) {
        return;
    }
    if (cli_transfer.show == CLI_SHOW_JSON) {
        cli_json_event(e->kind, e->digest, states[e->state], e->done, e->total, e->note);
        return;
    }
    p = note_part(e, &changed);
    if (!cli_progress_shown_here()) {
        if (changed) {
            tell_line(p, e->note);
        }
    } else if (changed || cli_now_us() - now.drawn >= INTERVAL_US) {
        draw();
    }
}

static void on_done(void *data, int result, const boxlite_error *error)
{
    now.over = true;
    now.result = result;
    if (result < 0) {
        erase();
        if (cli_transfer.show == CLI_SHOW_JSON) {
            cli_json_failure(boxlite_error_name(result), boxlite_error_message(error));
        }
        if (result != BOXLITE_E_CANCELLED) {
            (void)cli_error_hint(boxlite_error_hint(error), "%s", boxlite_error_message(error));
        }
    }
}

/* ---- Running --------------------------------------------------------------------------------- */

int cli_transfer_make_options(boxlite_transfer_options **ret, boxlite_error **err)
{
    const struct {
        const char *value;
        int (*set)(boxlite_transfer_options *o, const char *value, boxlite_error **err);
    } texts[] = {
        {cli_transfer.platform, boxlite_transfer_options_set_platform},
        {cli_transfer.auth_file, boxlite_transfer_options_set_auth_file},
        {cli_transfer.ca_file, boxlite_transfer_options_set_ca_file},
    };
    _cleanup_transfer_options_ boxlite_transfer_options *o = NULL;
    int r = boxlite_transfer_options_new(&o, err);

    for (size_t i = 0; r == 0 && i < CLI_COUNT(texts); i++) {
        r = texts[i].value ? texts[i].set(o, texts[i].value, err) : 0;
    }
    r = r < 0 ? r : boxlite_transfer_options_set_plain_http(o, cli_transfer.plain_http, err);
    r = r < 0 ? r : boxlite_transfer_options_set_progress(o, on_event, NULL, err);
    if (r == 0) {
        *ret = o;
        o = NULL;
    }
    return r;
}

/* Until the end has been told: 0 or an exit status. */
static int follow(boxlite_transfer *transfer)
{
    _cleanup_error_ boxlite_error *err = NULL;
    bool cancelled = false;

    cli_signals_wake(cli.rt);
    while (!now.over) {
        if (boxlite_runtime_dispatch(cli.rt, -1, &err) < 0) {
            cli_signals_wake(NULL);
            return cli_fail(&err, NULL);
        }
        if (cli_signals_fatal() && !cancelled) {
            boxlite_transfer_cancel(transfer);
            cancelled = true;
        }
    }
    cli_signals_wake(NULL);
    erase();
    if (now.result < 0) {
        return cli_signals_fatal() ? CLI_EXIT_SIGNAL(cli_signals_fatal()) : CLI_EXIT_ERROR;
    }
    return 0;
}

/* Starts a transfer: boxlite_image_pull_async() or its like. */
struct request {
    bool push;
    const char *name, *to;
};

static int start(const struct request *q, const boxlite_transfer_options *o, boxlite_transfer **ret,
                 boxlite_error **err)
{
    return q->push ? boxlite_image_push_async(cli.rt, q->name, q->to, o, on_done, NULL, ret, err)
                   : boxlite_image_pull_async(cli.rt, q->name, o, on_done, NULL, ret, err);
}

static int transfer(const struct request *q, char **ret_name, char **ret_digest)
{
    _cleanup_error_ boxlite_error *err = NULL;
    _cleanup_transfer_options_ boxlite_transfer_options *o = NULL;
    _cleanup_transfer_ boxlite_transfer *t = NULL;
    _cleanup_free_ char *title = cli_text("%s %s", q->push ? "pushing" : "pulling", q->name);
    int status;

    memset(&now, 0, sizeof(now));
    now.title = title;
    if (cli_signals_catch() < 0) {
        return cli_error("cannot catch signals");
    }
    if (cli_transfer_make_options(&o, &err) < 0 || start(q, o, &t, &err) < 0) {
        return cli_fail(&err, NULL);
    }
    status = follow(t);
    free(now.parts);
    if (!status && ret_name) {
        *ret_name = cli_text("%s", boxlite_transfer_name(t));
    }
    if (!status && ret_digest) {
        *ret_digest = cli_text("%s", boxlite_transfer_digest(t));
    }
    return status;
}

int cli_pull(const char *name, char **ret_name, char **ret_digest)
{
    const struct request q = {.name = name};

    return transfer(&q, ret_name, ret_digest);
}

int cli_push(const char *name, const char *to, char **ret_name, char **ret_digest)
{
    const struct request q = {.push = true, .name = name, .to = to};

    return transfer(&q, ret_name, ret_digest);
}

void cli_transfer_end(const char *name, const char *digest)
{
    if (cli_transfer.show == CLI_SHOW_JSON) {
        cli_json_end(name, digest);
    } else if (cli_transfer.show == CLI_SHOW_NOTHING) {
        puts(digest);
    } else {
        printf("%s %s\n", cli_image_familiar(name), digest);
    }
}

int cli_transfer_choose_output(const char *command)
{
    if (cli_transfer_output.quiet && cli_transfer_output.json) {
        return cli_error_hint("leave one of them out", "%s: --quiet and --json exclude each other",
                              command);
    }
    cli_transfer.show = cli_transfer_output.json    ? CLI_SHOW_JSON
                        : cli_transfer_output.quiet ? CLI_SHOW_NOTHING
                                                    : CLI_SHOW_PROGRESS;
    return 0;
}
