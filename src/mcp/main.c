/* SPDX-License-Identifier: Apache-2.0 */
/*
 * main.c: boxlite-mcp-server over stdio. Options from flags, then BOXLITE_MCP_* variables, then defaults.
 *
 * Standard output is moved to a descriptor of our own at once and descriptor 1 becomes stderr, so that nothing else, no
 * library and no child, can ever write between the JSON-RPC lines. The loop waits for stdin, stdout when answers are
 * queued, the library and signals. At end of input, SIGTERM, SIGINT or SIGHUP it ends at once; the boxes are attached
 * and end with it even if it is killed half-way.
 */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "mcp/mcp.h"

static const struct setting {
    const char *flag, *variable, *value, *fallback, *help;
} settings[] = {
    {"home", "BOXLITE_HOME", "DIR", NULL, "home directory (default ~/.boxlite)"},
    {"image", "BOXLITE_MCP_IMAGE", "NAME:TAG", "boxlite/base:bookworm", "image of the default environment"},
    {"cpus", "BOXLITE_MCP_CPUS", "N", "1", "virtual CPUs of an environment"},
    {"memory", "BOXLITE_MCP_MEMORY", "MIB", "512", "memory of an environment in MiB"},
    {"disk", "BOXLITE_MCP_DISK", "MIB", "10240", "what an environment may write, in MiB"},
    {"network", "BOXLITE_MCP_NETWORK", "none|user", "none", "network of an environment"},
    {"engine", "BOXLITE_MCP_ENGINE", "NAME", "auto", "engine: auto, qemu, qemu-tcg, qemu-kvm, kvm"},
    {"timeout", "BOXLITE_MCP_TIMEOUT", "SECONDS", "120", "time limit of a command that names none"},
    {"max-timeout", "BOXLITE_MCP_MAX_TIMEOUT", "SECONDS", "3600", "highest time limit that a call may ask for"},
    {"yield-after", "BOXLITE_MCP_YIELD_AFTER", "SECONDS", "25", "a call that takes longer returns, its command goes on"},
    {"output-limit", "BOXLITE_MCP_OUTPUT_LIMIT", "BYTES", "6000", "stdout that a result shows (stderr: half of it)"},
};
enum { S_HOME, S_IMAGE, S_CPUS, S_MEMORY, S_DISK, S_NETWORK, S_ENGINE, S_TIMEOUT, S_MAX_TIMEOUT, S_YIELD, S_OUTPUT, S_COUNT };
_Static_assert(BX_ARRAY_SIZE(settings) == S_COUNT, "the table and its names");

static void print_help(void)
{
    printf("Usage: boxlite-mcp-server [OPTIONS]\n\n"
           "An MCP server on standard input and output through which coding agents run code and commands in\n"
           "hardware-isolated micro-VMs instead of on this machine. It is started by the agent, for example:\n\n"
           "  codex mcp add boxlite -- boxlite-mcp-server --memory 1024\n\n"
           "Options (each has an environment variable, which the option overrides):\n");
    for (size_t i = 0; i < S_COUNT; i++) {
        char left[40];
        snprintf(left, sizeof(left), "--%s %s", settings[i].flag, settings[i].value);
        printf("  %-26s %s", left, settings[i].help);
        printf(settings[i].fallback ? " (default %s)\n" : "\n", settings[i].fallback);
        printf("  %-26s $%s\n", "", settings[i].variable);
    }
    printf("  %-26s what the library does, on standard error\n  %-26s this text\n  %-26s version\n", "--verbose",
           "--help", "--version");
}

static int usage_error(const char *what, const char *value)
{
    fprintf(stderr, "boxlite-mcp-server: %s%s%s\nhint: boxlite-mcp-server --help\n", what, value ? ": " : "",
            value ? value : "");
    return 125;
}

static bool parse_number(const char *text, uint64_t min, uint64_t max, uint64_t *ret)
{
    char *end = NULL;
    unsigned long long v;
    errno = 0;
    v = strtoull(text, &end, 10);
    if (text[0] < '0' || text[0] > '9' || *end != '\0' || errno != 0 || v < min || v > max) {
        return false;
    }
    *ret = v;
    return true;
}

/* Numbers of the table: which setting, its bounds. */
static const struct number {
    int setting;
    uint64_t min, max;
} numbers[] = {
    {S_CPUS, 1, 64},          {S_MEMORY, 128, 1 << 20},       {S_DISK, 64, 1 << 24},
    {S_TIMEOUT, 1, 86400},    {S_MAX_TIMEOUT, 1, 86400},      {S_OUTPUT, 256, 4 << 20},
    {S_YIELD, 1, 86400},
};

static int fill_options(const char *const v[S_COUNT], struct mcp_options *o)
{
    uint64_t n[S_COUNT] = {0};
    for (size_t i = 0; i < BX_ARRAY_SIZE(numbers); i++) {
        int s = numbers[i].setting;
        if (!parse_number(v[s], numbers[i].min, numbers[i].max, &n[s])) {
            _cleanup_free_ char *what =
                mcp_printf("--%s (or $%s): not a number from %llu to %llu", settings[s].flag, settings[s].variable,
                           (unsigned long long)numbers[i].min, (unsigned long long)numbers[i].max);
            return usage_error(what, v[s]);
        }
    }
    if (strcmp(v[S_NETWORK], "none") != 0 && strcmp(v[S_NETWORK], "user") != 0) {
        return usage_error("--network: neither none nor user", v[S_NETWORK]);
    }
    *o = (struct mcp_options){
        .home = v[S_HOME],
        .image = v[S_IMAGE],
        .engine = v[S_ENGINE],
        .cpus = (uint32_t)n[S_CPUS],
        .memory = n[S_MEMORY] << 20,
        .disk = n[S_DISK] << 20,
        .network = strcmp(v[S_NETWORK], "user") == 0 ? BOXLITE_NETWORK_USER : BOXLITE_NETWORK_NONE,
        .timeout_s = (uint32_t)n[S_TIMEOUT],
        .max_timeout_s = (uint32_t)n[S_MAX_TIMEOUT],
        .yield_s = (uint32_t)n[S_YIELD],
        .output_limit = (size_t)n[S_OUTPUT],
        .verbose = o->verbose,
    };
    return 0;
}

/* 0: go on; 1: all was said; 125. */
static int parse_options(int argc, char **argv, struct mcp_options *o)
{
    const char *values[S_COUNT];
    struct option longopts[S_COUNT + 4] = {{0}};
    int c, index = 0;

    for (int i = 0; i < S_COUNT; i++) {
        const char *v = getenv(settings[i].variable);
        values[i] = v && v[0] ? v : settings[i].fallback;
        longopts[i] = (struct option){settings[i].flag, required_argument, NULL, 's'};
    }
    longopts[S_COUNT] = (struct option){"verbose", no_argument, NULL, 'v'};
    longopts[S_COUNT + 1] = (struct option){"help", no_argument, NULL, 'h'};
    longopts[S_COUNT + 2] = (struct option){"version", no_argument, NULL, 'V'};
    opterr = 0;
    while ((c = getopt_long(argc, argv, ":h", longopts, &index)) != -1) {
        switch (c) {
        case 's':
            values[index] = optarg;
            break;
        case 'v':
            o->verbose = true;
            break;
        case 'h':
            print_help();
            return 1;
        case 'V':
            printf("boxlite-mcp-server %s\n", boxlite_version());
            return 1;
        case ':':
            return usage_error("an option needs a value", argv[optind - 1]);
        default:
            return usage_error("unknown option", argv[optind - 1]);
        }
    }
    if (optind < argc) {
        return usage_error("unexpected argument", argv[optind]);
    }
    return fill_options(values, o);
}

/* fd 1 becomes stderr; the JSON-RPC stream gets a descriptor of its own. */
static int take_stdout(void)
{
    int out = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 3);
    if (out >= 0 && dup2(STDERR_FILENO, STDOUT_FILENO) < 0) {
        close(out);
        return -1;
    }
    return out;
}

static int open_signals(void)
{
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGHUP);
    sigprocmask(SIG_BLOCK, &set, NULL);
    signal(SIGPIPE, SIG_IGN);
    return signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
}

enum { P_IN, P_OUT, P_LIB, P_SIGNAL, P_COUNT };

/* One turn: true while the session goes on. */
static bool turn(struct mcp_server *s, struct pollfd p[P_COUNT])
{
    struct mcp_transport *t = mcp_server_transport(s);

    p[P_OUT].events = mcp_transport_pending(t) ? POLLOUT : 0;
    p[P_LIB].fd = mcp_server_fd(s);
    if (poll(p, P_COUNT, mcp_timers_wait_ms(s)) < 0) {
        return errno == EINTR;
    }
    if (p[P_SIGNAL].revents || p[P_OUT].revents & (POLLERR | POLLHUP)) {
        return false;
    }
    if (p[P_LIB].revents) {
        mcp_server_dispatch(s);
    }
    mcp_timers_run(s);
    if (p[P_IN].revents && mcp_transport_read(t) <= 0) {
        (void)mcp_transport_flush(t);
        return false;
    }
    return mcp_transport_flush(t) == 0;
}

int main(int argc, char **argv)
{
    struct mcp_options options = {0};
    struct mcp_server *server = NULL;
    int r = parse_options(argc, argv, &options);
    int out, signals;

    if (r != 0) {
        return r == 1 ? 0 : r;
    }
    signals = open_signals();
    out = take_stdout();
    if (signals < 0 || out < 0 || mcp_server_new(&options, STDIN_FILENO, out, &server) < 0) {
        fprintf(stderr, "boxlite-mcp-server: cannot start: %s\n", strerror(errno));
        return 125;
    }
    if (!isatty(out)) { /* a terminal is shared with others, who would be surprised */
        (void)fcntl(out, F_SETFL, fcntl(out, F_GETFL) | O_NONBLOCK);
    }
    struct pollfd p[P_COUNT] = {
        [P_IN] = {.fd = STDIN_FILENO, .events = POLLIN},
        [P_OUT] = {.fd = out},
        [P_LIB] = {.fd = -1, .events = POLLIN},
        [P_SIGNAL] = {.fd = signals, .events = POLLIN},
    };
    while (turn(server, p)) {
    }
    mcp_server_free(server);
    return 0;
}
