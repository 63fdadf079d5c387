/* SPDX-License-Identifier: Apache-2.0 */
/*
 * options.c: what the server is told, as one table. A setting comes from its flag, else its variable BOXLITE_MCP_*, else
 * its general variable (BOXLITE_DEFAULT_IMAGE and so on), else config.toml in the home directory (config.c), else its
 * default. A wrong value, an unknown key or flag ends the start with one line that says where it stands.
 */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "mcp/mcp.h"

#define CONFIG_MAX (1u << 20)

enum { TEXT, NUMBER, NETWORK };
static const struct setting {
    const char *flag, *variable, *general, *value, *fallback, *help;
    int kind;
    uint64_t min, max;
} settings[] = {
    {"home", "BOXLITE_HOME", NULL, "DIR", NULL, "home directory (default ~/.boxlite)", TEXT, 0, 0},
    {"image", "BOXLITE_MCP_IMAGE", "BOXLITE_DEFAULT_IMAGE", "NAME:TAG", "boxlite/base:bookworm",
     "image of the default environment", TEXT, 0, 0},
    {"cpus", "BOXLITE_MCP_CPUS", "BOXLITE_CPUS", "N", "1", "virtual CPUs of an environment", NUMBER, 1, 64},
    {"memory", "BOXLITE_MCP_MEMORY", "BOXLITE_MEMORY", "MIB", "512", "memory of an environment in MiB", NUMBER, 128, 1 << 20},
    {"disk", "BOXLITE_MCP_DISK", "BOXLITE_DISK", "MIB", "10240", "what an environment may write, in MiB", NUMBER, 64,
     1 << 24},
    {"network", "BOXLITE_MCP_NETWORK", "BOXLITE_NETWORK", "none|user", "none", "network of an environment", NETWORK, 0, 0},
    {"engine", "BOXLITE_MCP_ENGINE", "BOXLITE_ENGINE", "NAME", "auto", "engine: auto, qemu, qemu-tcg, qemu-kvm, kvm", TEXT, 0,
     0},
    {"timeout", "BOXLITE_MCP_TIMEOUT", NULL, "SECONDS", "120", "time limit of a command that names none", NUMBER, 1, 86400},
    {"max-timeout", "BOXLITE_MCP_MAX_TIMEOUT", NULL, "SECONDS", "3600", "highest time limit that a call may ask for", NUMBER,
     1, 86400},
    {"yield-after", "BOXLITE_MCP_YIELD_AFTER", NULL, "SECONDS", "0",
     "a call that takes longer returns, its command goes on; 0: what the client is known to wait for, else 25", NUMBER, 0, 86400},
    {"idle-after", "BOXLITE_MCP_IDLE_AFTER", NULL, "SECONDS", "600",
     "an environment that nobody uses so long is paused until it is used; 0: never", NUMBER, 0, 1 << 20},
    {"stop-idle", "BOXLITE_MCP_STOP_IDLE", NULL, "SECONDS", "1800",
     "an environment that nobody uses so long is stopped: its disk stays, its next use starts it again; 0: never", NUMBER, 0, 1 << 20},
    {"max-result-bytes", "BOXLITE_MCP_MAX_RESULT_BYTES", NULL, "BYTES", "0",
     "size of a result as JSON; 0: what the client is known to take, else 10000", NUMBER, 0, 4 << 20},
    {"allow-image", "BOXLITE_MCP_ALLOW_IMAGE", NULL, "PATTERNS", "*",
     "images that may be used: shell patterns, separated by commas", TEXT, 0, 0},
    {"allow-pull", "BOXLITE_MCP_ALLOW_PULL", NULL, "PATTERNS", MCP_ALLOW_PULL,
     "images that may be pulled if they are not here: shell patterns of full names, separated by commas; none: nothing", TEXT, 0, 0},
    {"allow-folder", "BOXLITE_MCP_ALLOW_FOLDER", NULL, "DIRS", NULL,
     "host folders that environments may be given: absolute, separated by commas, with :ro if not to be written", TEXT, 0, 0},
    {"workspace", "BOXLITE_MCP_WORKSPACE", NULL, "DIR", NULL,
     "host folder that the default environment works on a copy of", TEXT, 0, 0},
    {"max-cpus", "BOXLITE_MCP_MAX_CPUS", NULL, "N", "64", "most virtual CPUs that a call may ask for", NUMBER, 1, 64},
    {"max-memory", "BOXLITE_MCP_MAX_MEMORY", NULL, "MIB", "65536", "most memory that a call may ask for", NUMBER, 128, 1 << 20},
    {"max-environments", "BOXLITE_MCP_MAX_ENVIRONMENTS", NULL, "N", "16", "most environments at once", NUMBER, 1, 64},
    {"audit-log", "BOXLITE_MCP_AUDIT_LOG", NULL, "FILE", NULL, "append one JSON line for each call to this file", TEXT, 0, 0},
    {"http", "BOXLITE_MCP_HTTP", NULL, "ADDR:PORT", NULL, "serve Streamable HTTP there instead of standard input and output",
     TEXT, 0, 0},
    {"http-token", "BOXLITE_MCP_HTTP_TOKEN", NULL, "TOKEN", NULL,
     "bearer token that HTTP clients must send; needed for addresses that are not loopback", TEXT, 0, 0},
};
enum {
    S_HOME, S_IMAGE, S_CPUS, S_MEMORY, S_DISK, S_NETWORK, S_ENGINE, S_TIMEOUT, S_MAX_TIMEOUT, S_YIELD, S_IDLE, S_STOP_IDLE, S_RESULT, S_ALLOW_IMAGE, S_ALLOW_PULL,
    S_ALLOW_FOLDER, S_WORKSPACE,
    S_MAX_CPUS, S_MAX_MEMORY, S_MAX_ENVIRONMENTS, S_AUDIT, S_HTTP, S_HTTP_TOKEN, S_COUNT
};
_Static_assert(BX_ARRAY_SIZE(settings) == S_COUNT, "the table and its names");

struct origin {
    char *value; /* NULL: not set */
    char *where; /* "--cpus", "BOXLITE_CPUS", "/home/u/.boxlite/config.toml:3" */
};

static void print_help(void)
{
    printf("Usage: boxlite-mcp-server [OPTIONS]\n\n"
           "An MCP server on standard input and output through which coding agents run code and commands in\n"
           "hardware-isolated micro-VMs instead of on this machine. It is started by the agent, for example:\n\n"
           "  codex mcp add boxlite -- boxlite-mcp-server --memory 1024\n\n"
           "Options; each comes from its flag, else its variables, else config.toml in the home directory:\n");
    for (size_t i = 0; i < S_COUNT; i++) {
        char left[40];
        snprintf(left, sizeof(left), "--%s %s", settings[i].flag, settings[i].value);
        printf("  %-26s %s", left, settings[i].help);
        printf(settings[i].fallback ? " (default %s)\n" : "\n", settings[i].fallback);
        printf("  %-26s $%s%s%s\n", "", settings[i].variable, settings[i].general ? ", $" : "",
               settings[i].general ? settings[i].general : "");
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

/* Keeps what is set already: sources come in the order of their weight. */
static void offer(struct origin *o, const char *value, const char *where)
{
    if (!o->value && value && value[0]) {
        o->value = strdup(value);
        o->where = strdup(where);
    }
}

static void offer_variables(struct origin origins[S_COUNT])
{
    for (size_t i = 0; i < S_COUNT; i++) {
        offer(&origins[i], getenv(settings[i].variable), settings[i].variable);
        if (settings[i].general) {
            offer(&origins[i], getenv(settings[i].general), settings[i].general);
        }
    }
}

/* ---- config.toml */

/* Keys of the file: the flags with _ for -, in the table [mcp]; the general ones at the top too. */
static bool key_is(const struct setting *setting, const char *section, const char *key)
{
    bool general = setting->general && section[0] == '\0';
    const char *flag = setting->flag;

    if (general && strcmp(flag, "image") == 0 && strcmp(key, "default_image") == 0) {
        return true;
    }
    if (!general && strcmp(section, "mcp") != 0) {
        return false;
    }
    while (*flag && (*flag == '-' ? '_' : *flag) == *key) {
        flag++;
        key++;
    }
    return *flag == '\0' && *key == '\0';
}

static const char *nearest(const char *key)
{
    const char *flags[S_COUNT + 1] = {NULL};
    for (size_t i = 0; i < S_COUNT; i++) {
        flags[i] = settings[i].flag;
    }
    return mcp_nearest(key, flags);
}

struct file {
    const char *path;
    struct origin *origins;
    struct mcp_languages *languages;
};

static char *on_entry(void *data, unsigned line, const char *section, const char *key, const char *value)
{
    struct file *f = data;
    const char *near;
    char where[512];

    snprintf(where, sizeof(where), "%s:%u: %s", f->path, line, key);
    for (size_t i = S_HOME + 1; i < S_COUNT; i++) {
        if (key_is(&settings[i], section, key)) {
            offer(&f->origins[i], value, where);
            return NULL;
        }
    }
    if (strncmp(section, "languages.", 10) == 0) {
        return mcp_languages_set(f->languages, section + 10, key, value);
    }
    if (section[0] != '\0' && strcmp(section, "mcp") != 0) {
        return NULL; /* another program's table */
    }
    near = nearest(key);
    return mcp_printf("unknown key %s%s%s%s", key, near ? " (did you mean " : "", near ? near : "", near ? "?)" : "");
}

static int read_config(struct origin origins[S_COUNT], struct mcp_languages *languages)
{
    const char *home = origins[S_HOME].value, *user = getenv("HOME");
    _cleanup_free_ char *path = home ? mcp_printf("%s/config.toml", home) : mcp_printf("%s/.boxlite/config.toml", user ? user : "");
    _cleanup_free_ char *text = malloc(CONFIG_MAX + 1), *wrong = NULL;
    struct file f = {.path = path, .origins = origins, .languages = languages};
    ssize_t n;
    int fd;

    if (!path || !text || (!home && !user)) {
        return 0;
    }
    fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        return errno == ENOENT || errno == ENOTDIR ? 0 : usage_error(path, strerror(errno));
    }
    n = read(fd, text, CONFIG_MAX + 1);
    close(fd);
    if (n < 0 || n > (ssize_t)CONFIG_MAX) {
        return usage_error(path, n < 0 ? strerror(errno) : "larger than 1 MiB");
    }
    wrong = mcp_config_parse(text, (size_t)n, on_entry, &f);
    wrong = wrong ? wrong : mcp_languages_wrong(languages);
    return wrong ? usage_error(path, wrong) : 0;
}

/* ---- All together */

static int check(const struct origin origins[S_COUNT], uint64_t n[S_COUNT])
{
    for (size_t i = 0; i < S_COUNT; i++) {
        const char *value = origins[i].value, *where = origins[i].where;
        if (settings[i].kind == NUMBER && !parse_number(value, settings[i].min, settings[i].max, &n[i])) {
            _cleanup_free_ char *what = mcp_printf("%s: not a number from %llu to %llu", where,
                                                   (unsigned long long)settings[i].min,
                                                   (unsigned long long)settings[i].max);
            return usage_error(what, value);
        }
        if (settings[i].kind == NETWORK && strcmp(value, "none") != 0 && strcmp(value, "user") != 0) {
            _cleanup_free_ char *what = mcp_printf("%s: neither none nor user", where);
            return usage_error(what, value);
        }
    }
    return 0;
}

static int fill(struct origin origins[S_COUNT], struct mcp_options *o)
{
    uint64_t n[S_COUNT] = {0};
    int r;

    for (size_t i = 0; i < S_COUNT; i++) {
        _cleanup_free_ char *where = mcp_printf("--%s", settings[i].flag);
        offer(&origins[i], settings[i].fallback, where ? where : "");
    }
    r = check(origins, n);
    if (r != 0) {
        return r;
    }
    if (origins[S_WORKSPACE].value) {
        char *real = realpath(origins[S_WORKSPACE].value, NULL);
        if (!real) {
            return usage_error(origins[S_WORKSPACE].where, strerror(errno));
        }
        free(origins[S_WORKSPACE].value);
        origins[S_WORKSPACE].value = real;
    }
    *o = (struct mcp_options){
        .home = steal_ptr(&origins[S_HOME].value),
        .image = steal_ptr(&origins[S_IMAGE].value),
        .engine = steal_ptr(&origins[S_ENGINE].value),
        .allow_image = steal_ptr(&origins[S_ALLOW_IMAGE].value),
        .allow_folder = steal_ptr(&origins[S_ALLOW_FOLDER].value),
        .workspace = steal_ptr(&origins[S_WORKSPACE].value),
        .allow_pull = steal_ptr(&origins[S_ALLOW_PULL].value),
        .audit_log = steal_ptr(&origins[S_AUDIT].value),
        .http = steal_ptr(&origins[S_HTTP].value),
        .http_token = steal_ptr(&origins[S_HTTP_TOKEN].value),
        .cpus = (uint32_t)n[S_CPUS],
        .memory = n[S_MEMORY] << 20,
        .disk = n[S_DISK] << 20,
        .network = strcmp(origins[S_NETWORK].value, "user") == 0 ? BOXLITE_NETWORK_USER : BOXLITE_NETWORK_NONE,
        .timeout_s = (uint32_t)n[S_TIMEOUT],
        .max_timeout_s = (uint32_t)n[S_MAX_TIMEOUT],
        .yield_s = (uint32_t)n[S_YIELD],
        .idle_s = (uint32_t)n[S_IDLE],
        .stop_idle_s = (uint32_t)n[S_STOP_IDLE],
        .max_result = (size_t)n[S_RESULT],
        .max_cpus = (uint32_t)n[S_MAX_CPUS],
        .max_memory = n[S_MAX_MEMORY] << 20,
        .max_environments = (unsigned)n[S_MAX_ENVIRONMENTS],
        .languages = o->languages,
        .verbose = o->verbose,
    };
    return 0;
}

/* 0: go on; 1: all was said; 125. */
static int read_flags(int argc, char **argv, struct origin origins[S_COUNT], struct mcp_options *o)
{
    struct option longopts[S_COUNT + 4] = {{0}};
    int c, index = 0;

    for (int i = 0; i < S_COUNT; i++) {
        longopts[i] = (struct option){settings[i].flag, required_argument, NULL, 's'};
    }
    longopts[S_COUNT] = (struct option){"verbose", no_argument, NULL, 'v'};
    longopts[S_COUNT + 1] = (struct option){"help", no_argument, NULL, 'h'};
    longopts[S_COUNT + 2] = (struct option){"version", no_argument, NULL, 'V'};
    opterr = 0;
    while ((c = getopt_long(argc, argv, ":h", longopts, &index)) != -1) {
        _cleanup_free_ char *where = c == 's' ? mcp_printf("--%s", settings[index].flag) : NULL;
        switch (c) {
        case 's':
            free(steal_ptr(&origins[index].value)); /* the last one counts */
            free(steal_ptr(&origins[index].where));
            offer(&origins[index], optarg, where ? where : "");
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
    return optind < argc ? usage_error("unexpected argument", argv[optind]) : 0;
}

int mcp_options_parse(int argc, char **argv, struct mcp_options *o)
{
    struct origin origins[S_COUNT] = {{0}};
    int r = read_flags(argc, argv, origins, o);

    if (r == 0 && mcp_languages_new(&o->languages) < 0) {
        r = usage_error("out of memory", NULL);
    }
    if (r == 0) {
        offer_variables(origins);
        r = read_config(origins, o->languages);
    }
    r = r == 0 ? fill(origins, o) : r;
    for (size_t i = 0; i < S_COUNT; i++) {
        free(origins[i].value);
        free(origins[i].where);
    }
    return r;
}

void mcp_options_done(struct mcp_options *o)
{
    mcp_languages_free(o->languages);
    char *texts[] = {o->home, o->image, o->engine, o->allow_image, o->allow_pull, o->allow_folder, o->workspace, o->audit_log, o->http, o->http_token};
    for (size_t i = 0; i < BX_ARRAY_SIZE(texts); i++) {
        free(texts[i]);
    }
}
