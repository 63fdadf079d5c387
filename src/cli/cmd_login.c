/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cmd_login.c: boxlite login, logout. A secret comes from the terminal, without an echo, or from standard input; never
 * from the command line, which every user of the machine can read.
 */
#include <errno.h>
#include <string.h>
#include <termios.h>

#include "cli/commands.h"
#include "cli/signals.h"
#include "cli/transfer.h"

#define SECRET_MAX (64u << 10)
#define HUB "docker.io"

static struct {
    const char *user;
    bool from_stdin;
} opt;

static const struct cli_option options[] = {
    {"username", 'u', CLI_TEXT, &opt.user, "NAME", "user there (default: asked for)"},
    {"password-stdin", 0, CLI_FLAG, &opt.from_stdin, NULL, "read the secret from standard input"},
    {0},
};

static void forget(char **secret)
{
    if (*secret) {
        explicit_bzero(*secret, strlen(*secret));
        free(*secret);
    }
}
#define _cleanup_secret_ _cleanup_(forget)

/* All of standard input, without the newline at its end: 0 or an exit status. */
static int read_stdin(char **ret)
{
    char *text = cli_alloc(SECRET_MAX + 1);
    size_t n = fread(text, 1, SECRET_MAX + 1, stdin);

    while (n > 0 && n <= SECRET_MAX && strchr("\r\n", text[n - 1])) {
        n--;
    }
    if (n == 0 || n > SECRET_MAX || memchr(text, 0, n)) {
        explicit_bzero(text, SECRET_MAX + 1);
        free(text);
        return cli_error("login: standard input has no secret");
    }
    text[n] = '\0';
    *ret = text;
    return 0;
}

/* A line from the terminal. */
static int ask(const char *what, bool echo, char **ret)
{
    struct termios old, quiet;
    size_t size = 0;
    ssize_t n;

    if (tcgetattr(STDIN_FILENO, &old) < 0) {
        return cli_error_hint("give -u NAME --password-stdin, and the secret on standard input",
                              "login: there is no terminal to ask for the %s", what);
    }
    fprintf(stderr, "%s: ", what);
    fflush(stderr);
    quiet = old;
    quiet.c_lflag &= ~(tcflag_t)(echo ? 0 : ECHO);
    (void)tcsetattr(STDIN_FILENO, TCSAFLUSH, &quiet);
    n = getline(ret, &size, stdin);
    (void)tcsetattr(STDIN_FILENO, TCSAFLUSH, &old);
    if (!echo) {
        fputc('\n', stderr);
    }
    if (n > 0 && (*ret)[n - 1] == '\n') {
        (*ret)[--n] = '\0';
    }
    return n > 0 ? 0 : cli_error("login: no %s was given", what);
}

/* A signal while it is asked must give the echo back: it is caught, and ends the reading. */
static int ask_secret(char **ret)
{
    return opt.from_stdin ? read_stdin(ret) : ask("password", false, ret);
}

static int login(const char *registry, const char *user, const char *secret)
{
    _cleanup_error_ boxlite_error *err = NULL;
    _cleanup_transfer_options_ boxlite_transfer_options *o = NULL;
    int r = cli_transfer_make_options(&o, &err);

    cli_signals_wake(cli.rt);
    r = r < 0 ? r : boxlite_registry_login(cli.rt, registry, user, secret, o, &err);
    cli_signals_wake(NULL);
    if (r < 0) {
        return cli_signals_fatal() ? CLI_EXIT_SIGNAL(cli_signals_fatal()) : cli_fail(&err, NULL);
    }
    printf("logged in to %s\n", registry);
    return 0;
}

static int run_login(const struct cli_list *operands)
{
    const char *registry = operands->count ? operands->items[0] : HUB, *user = opt.user;
    _cleanup_free_ char *asked = NULL;
    _cleanup_secret_ char *secret = NULL;
    int status;

    if (opt.from_stdin && !opt.user) {
        return cli_error("login: --password-stdin needs --username");
    }
    status = cli_open();
    if (status) {
        return status;
    }
    if (cli_signals_catch() < 0) {
        return cli_error("cannot catch signals");
    }
    if (!user) {
        status = ask("user", true, &asked);
        user = asked;
    }
    status = status ? status : ask_secret(&secret);
    if (cli_signals_fatal()) {
        return CLI_EXIT_SIGNAL(cli_signals_fatal());
    }
    return status ? status : login(registry, user, secret);
}

static int run_logout(const struct cli_list *operands)
{
    const char *registry = operands->count ? operands->items[0] : HUB;
    _cleanup_error_ boxlite_error *err = NULL;
    _cleanup_transfer_options_ boxlite_transfer_options *o = NULL;
    int status = cli_open();

    if (status) {
        return status;
    }
    if (cli_transfer_make_options(&o, &err) < 0 ||
        boxlite_registry_logout(cli.rt, registry, o, &err) < 0) {
        return cli_fail(&err, NULL);
    }
    printf("logged out of %s\n", registry);
    return 0;
}

static const struct cli_option *const login_sets[] = {options, cli_transfer_options, NULL};
static const struct cli_option *const logout_sets[] = {cli_transfer_file_options, NULL};

const struct cli_command cli_cmd_login = {
    .name = "login",
    .args = "[REGISTRY]",
    .summary = "keep credentials for a registry",
    .about =
        "Checks a user and a secret with a registry (default: docker.io) and keeps them where Docker and Podman look "
        "too: with the credential helper that the file of credentials names, else in that file, readable by its owner "
        "only. The secret is asked for on the terminal, or read from standard input.",
    .examples = "boxlite login localhost:5000\n"
                "pass show registry | boxlite login -u me --password-stdin localhost:5000",
    .sets = login_sets,
    .max = 1,
    .run = run_login,
};

const struct cli_command cli_cmd_logout = {
    .name = "logout",
    .args = "[REGISTRY]",
    .summary = "forget the credentials for a registry",
    .about = "Removes what login has kept for a registry (default: docker.io).",
    .examples = "boxlite logout localhost:5000",
    .sets = logout_sets,
    .max = 1,
    .run = run_logout,
};
