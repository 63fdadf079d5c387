/* SPDX-License-Identifier: Apache-2.0 */
/* boxspec.c: see boxspec.h. */
#include "cli/boxspec.h"

#include <errno.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/mounts.h"
#include "cli/terminal.h"
#include "cli/transfer.h"
#include "cli/values.h"

#define ENV_FILE_LINE_MAX (128u * 1024u)
#define DAY_MS 86400000u

struct cli_process cli_process;
struct cli_box cli_box = {.network = "none",
                          .pull = "missing",
                          .engine = "auto",
                          .cpus = 1,
                          .memory = 512u << 20,
                          .disk = 10ull << 30};

const struct cli_option cli_process_options[] = {
    {"interactive", 'i', CLI_FLAG, &cli_process.interactive, NULL,
     "give the command our standard input"},
    {"tty", 't', CLI_FLAG, &cli_process.tty, NULL, "give the command a terminal"},
    {"env", 'e', CLI_LIST, &cli_process.env, "NAME[=VALUE]",
     "set an environment variable; without a value, the one it has here"},
    {"env-file", 0, CLI_LIST, &cli_process.env_files, "FILE",
     "variables from a file, one NAME=VALUE a line", .words = CLI_W_FILE},
    {"workdir", 'w', CLI_TEXT, &cli_process.workdir, "DIR",
     "working directory (default: the image's)"},
    {"user", 'u', CLI_TEXT, &cli_process.user, "USER[:GROUP]",
     "name or number (default: the image's)"},
    {"timeout", 0, CLI_TIME, &cli_process.timeout_ms, "TIME",
     "kill it after so long: seconds, or like 5m, 1h30m, 250ms (default: never); exit status 124",
     .max = 3650ull * DAY_MS},
    {0},
};

const struct cli_option cli_box_options[] = {
    {"name", 0, CLI_TEXT, &cli_box.name, "NAME", "name of the box (default: made up)"},
    {"hostname", 0, CLI_TEXT, &cli_box.hostname, "NAME", "host name inside (default: the name)"},
    {"label", 'l', CLI_LIST, &cli_box.labels, "NAME[=VALUE]", "attach a label"},
    {"cpus", 0, CLI_NUMBER, &cli_box.cpus, "N", "virtual CPUs, 1 to 64 (default: 1)", .min = 1,
     .max = 64},
    {"memory", 'm', CLI_SIZE, &cli_box.memory, "SIZE",
     "memory, 128M or more, like 512M or 2G (default: 512M)", .min = 128ull << 20,
     .max = 4ull << 40},
    {"disk", 0, CLI_SIZE, &cli_box.disk, "SIZE",
     "how much it may write, 64M or more (default: 10G)", .min = 64ull << 20, .max = 16ull << 40},
    {"network", 0, CLI_CHOICE, &cli_box.network, "none|user",
     "none (default), or user: out through this user's network", .choices = "none user"},
    {"volume", 'v', CLI_LIST, &cli_box.volumes, "HOST:PATH[:ro]",
     "share a folder or file of this machine, at PATH in the box", .words = CLI_W_FILE},
    {"mount", 0, CLI_LIST, &cli_box.mounts, "KEY=VALUE,...",
     "the same, spelt out: type=bind,source=HOST,target=PATH[,readonly][,create]"},
    {"workspace", 0, CLI_LIST, &cli_box.workspaces, "DIR[:PATH]",
     "give it a folder to work in that it cannot change: what it writes stays in the box",
     .words = CLI_W_FILE},
    {"entrypoint", 0, CLI_TEXT, &cli_box.entrypoint, "PROGRAM",
     "replace the image's entrypoint and drop its command; \"\" removes it"},
    {"pull", 0, CLI_CHOICE, &cli_box.pull, "missing|always|never",
     "when to fetch the image from its registry (default: if it is not here)",
     .choices = "missing always never"},
    {"rm", 0, CLI_FLAG, &cli_box.remove, NULL, "remove the box when it stops"},
    {"idle", 0, CLI_FLAG, &cli_box.idle, NULL,
     "run no command: the box waits for exec until it is stopped"},
    {"engine", 0, CLI_CHOICE, &cli_box.engine, "NAME",
     "auto (default), kvm, qemu, qemu-kvm or qemu-tcg",
     .choices = "auto kvm qemu qemu-kvm qemu-tcg"},
    {"kernel", 0, CLI_TEXT, &cli_box.kernel, "NAME", "guest kernel (default: default)",
     .words = CLI_W_KERNEL},
    {0},
};

int cli_split_env(const char *text, char **ret_name, char **ret_value)
{
    const char *equals = strchr(text, '=');
    size_t length = equals ? (size_t)(equals - text) : strlen(text);
    char *name;
    const char *value;

    if (length == 0) {
        (void)cli_error("'%s' is not NAME=VALUE", text);
        return -1;
    }
    name = cli_copy(text, length);
    value = equals ? equals + 1 : getenv(name);
    if (!value) {
        free(name);
        return 1;
    }
    *ret_name = name;
    *ret_value = cli_text("%s", value);
    return 0;
}

static int give(const char *text, cli_env_fn fn, void *to)
{
    _cleanup_error_ boxlite_error *err = NULL;
    _cleanup_free_ char *name = NULL;
    _cleanup_free_ char *value = NULL;
    int r = cli_split_env(text, &name, &value);

    if (r != 0) {
        return r < 0 ? CLI_EXIT_ERROR : 0;
    }
    return fn(to, name, value, &err) < 0 ? cli_fail(&err, text) : 0;
}

static int env_file(const char *path, cli_env_fn fn, void *to)
{
    _cleanup_fclose_ FILE *f = fopen(path, "re");
    _cleanup_free_ char *line = NULL;
    size_t size = 0;
    ssize_t n;

    if (!f) {
        return cli_error("--env-file %s: %s", path, strerror(errno));
    }
    while ((n = getline(&line, &size, f)) >= 0) {
        if (n > 0 && line[n - 1] == '\n') {
            line[--n] = 0;
        }
        if (n > 0 && line[n - 1] == '\r') {
            line[--n] = 0;
        }
        if ((size_t)n != strlen(line) || n > (ssize_t)ENV_FILE_LINE_MAX) {
            return cli_error("--env-file %s: not a text file of NAME=VALUE lines", path);
        }
        if (n > 0 && line[0] != '#' && give(line, fn, to)) {
            return CLI_EXIT_ERROR;
        }
    }
    return ferror(f) ? cli_error("--env-file %s: %s", path, strerror(errno)) : 0;
}

int cli_each_env(const struct cli_process *process, cli_env_fn fn, void *to)
{
    int status = 0;

    for (size_t i = 0; !status && i < process->env_files.count; i++) {
        status = env_file(process->env_files.items[i], fn, to);
    }
    for (size_t i = 0; !status && i < process->env.count; i++) {
        status = give(process->env.items[i], fn, to);
    }
    return status;
}

int cli_each_label(const struct cli_list *labels, cli_env_fn fn, void *to)
{
    for (size_t i = 0; i < labels->count; i++) {
        _cleanup_error_ boxlite_error *err = NULL;
        const char *text = labels->items[i], *equals = strchr(text, '=');
        _cleanup_free_ char *name = cli_copy(text, equals ? (size_t)(equals - text) : strlen(text));

        if (fn(to, name, equals ? equals + 1 : "", &err) < 0) {
            return cli_fail(&err, NULL);
        }
    }
    return 0;
}

static int add_env(void *to, const char *name, const char *value, boxlite_error **err)
{
    return boxlite_box_options_add_env(to, name, value, err);
}

static int add_label(void *to, const char *name, const char *value, boxlite_error **err)
{
    return boxlite_box_options_add_label(to, name, value, err);
}

typedef int (*set_text_fn)(boxlite_box_options *o, const char *text, boxlite_error **err);

static int set_texts(boxlite_box_options *o, boxlite_error **err)
{
    const struct {
        const char *text;
        set_text_fn set;
    } texts[] = {
        {cli_box.name, boxlite_box_options_set_name},
        {cli_box.hostname, boxlite_box_options_set_hostname},
        {cli_box.engine, boxlite_box_options_set_engine},
        {cli_box.kernel, boxlite_box_options_set_kernel},
        {cli_process.user, boxlite_box_options_set_user},
        {cli_process.workdir, boxlite_box_options_set_workdir},
    };

    for (size_t i = 0; i < CLI_COUNT(texts); i++) {
        int r = texts[i].text ? texts[i].set(o, texts[i].text, err) : 0;

        if (r < 0) {
            return r;
        }
    }
    return 0;
}

static int set_numbers(boxlite_box_options *o, boxlite_error **err)
{
    int network =
        strcmp(cli_box.network, "user") == 0 ? BOXLITE_NETWORK_USER : BOXLITE_NETWORK_NONE;
    int r = boxlite_box_options_set_cpus(o, (uint32_t)cli_box.cpus, err);

    if (r == 0) {
        r = boxlite_box_options_set_memory(o, cli_box.memory, err);
    }
    if (r == 0) {
        r = boxlite_box_options_set_disk(o, cli_box.disk, err);
    }
    if (r == 0) {
        r = boxlite_box_options_set_network(o, network, err);
    }
    if (r == 0) {
        r = boxlite_box_options_set_timeout(o, cli_process.timeout_ms, err);
    }
    return r;
}

/* The main command: entrypoint, arguments, terminal, input. */
static int set_main(boxlite_box_options *o, const struct cli_list *operands, boxlite_error **err)
{
    uint16_t rows, cols;
    int r = boxlite_box_options_set_main(o, !cli_box.idle, err);

    if (r == 0 && cli_box.entrypoint) {
        r = boxlite_box_options_set_entrypoint(o, &cli_box.entrypoint, *cli_box.entrypoint ? 1 : 0,
                                               err);
    }
    if (r == 0 && operands->count > 1) {
        r = boxlite_box_options_set_command(o, operands->items + 1, operands->count - 1, err);
    }
    if (r == 0 && cli_process.tty) {
        cli_terminal_size(&rows, &cols);
        r = boxlite_box_options_set_tty(o, rows, cols, err);
    }
    if (r == 0 && cli_process.tty) {
        r = boxlite_box_options_add_env(o, "TERM", cli_terminal_type(), err);
    }
    if (r == 0) {
        r = boxlite_box_options_set_stdin(o, cli_process.interactive, err);
    }
    return r;
}

static int set_all(boxlite_box_options *o, const struct cli_list *operands, bool detached,
                   boxlite_error **err)
{
    int r = set_texts(o, err);

    r = r < 0 ? r : set_numbers(o, err);
    r = r < 0 ? r : set_main(o, operands, err);
    r = r < 0 ? r : boxlite_box_options_set_auto_remove(o, cli_box.remove, err);
    r = r < 0 ? r : boxlite_box_options_set_detached(o, detached, err);
    return r;
}

int cli_box_image(const struct cli_list *operands)
{
    _cleanup_error_ boxlite_error *err = NULL;
    _cleanup_image_ boxlite_image *image = NULL;
    char *full = NULL; /* lives as long as the operands: to the end of the program */
    int r = 0, status;

    if (strcmp(cli_box.pull, "never") == 0) {
        return 0;
    }
    if (strcmp(cli_box.pull, "always") != 0) {
        r = boxlite_image_open(cli.rt, operands->items[0], &image, &err);
        if (r == 0 || r != BOXLITE_E_NOT_FOUND) {
            return r < 0 ? cli_fail(&err, NULL) : 0;
        }
    }
    status = cli_pull(operands->items[0], &full, NULL);
    boxlite_error_free(err);
    err = NULL;
    if (!status && !image && boxlite_image_open(cli.rt, operands->items[0], &image, &err) < 0) {
        operands->items[0] = full; /* found by a search, elsewhere than the name alone says */
    } else {
        free(full);
    }
    return status;
}

int cli_box_spec(const struct cli_list *operands, bool detached, boxlite_box_options **ret)
{
    _cleanup_error_ boxlite_error *err = NULL;
    _cleanup_box_options_ boxlite_box_options *o = NULL;
    int status;

    if (cli_box.idle && operands->count > 1) {
        return cli_error_hint("leave one of them out", "--idle and a command exclude each other");
    }
    if (boxlite_box_options_new(operands->items[0], &o, &err) < 0 ||
        set_all(o, operands, detached, &err) < 0) {
        return cli_fail(&err, NULL);
    }
    status = cli_each_env(&cli_process, add_env, o);
    if (!status) {
        status = cli_add_mounts(o, &cli_box);
    }
    if (!status) {
        status = cli_each_label(&cli_box.labels, add_label, o);
    }
    if (!status) {
        *ret = o;
        o = NULL;
    }
    return status;
}
