/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libexec.c: see libexec.h. Looked for in $BOXLITE_LIBEXEC, relative to this program (../libexec/boxlite when
 * installed; the folders of a build tree, whose scripts lie in the source tree that a link beside the program names),
 * and in the installed place.
 */
#include "cli/libexec.h"

#include <errno.h>
#include <signal.h>
#include <spawn.h>
#include <string.h>
#include <sys/wait.h>

#include "cli/errors.h"
#include "config.h"

extern char **environ;

/* The folder of this program; caller frees. */
static char *own_folder(void)
{
    char path[4096];
    ssize_t n = readlink("/proc/self/exe", path, sizeof(path) - 1);

    if (n <= 0) {
        return cli_text("/");
    }
    path[n] = 0;
    char *slash = strrchr(path, '/');
    return cli_copy(path, slash ? (size_t)(slash - path) : 0);
}

static char *find(const char *name)
{
    static const char *const below[] = {
        "../libexec/boxlite", "../lib/libexec", "../../libexec", ".", "..", "../..",
        "../tools",           "../../../tools"};
    _cleanup_free_ char *folder = own_folder();
    const char *set = getenv("BOXLITE_LIBEXEC");
    char *path = set ? cli_text("%s/%s", set, name) : cli_text(BX_LIBEXECDIR "/%s", name);

    for (size_t i = 0; i < CLI_COUNT(below) && access(path, X_OK) < 0; i++) {
        free(path);
        path = cli_text("%s/%s/%s", folder, below[i], name);
    }
    if (access(path, X_OK) == 0) {
        return path;
    }
    free(path);
    return NULL;
}

static int spawn(const char *path, char *const *argv, pid_t *ret)
{
    posix_spawnattr_t attr;
    sigset_t defaults;
    int r = posix_spawnattr_init(&attr);

    if (r != 0) {
        return r;
    }
    sigemptyset(&defaults);
    sigaddset(&defaults, SIGPIPE); /* main() ignores it; the helper shall not */
    (void)posix_spawnattr_setsigdefault(&attr, &defaults);
    (void)posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETSIGDEF);
    r = posix_spawn(ret, path, NULL, &attr, argv, environ);
    (void)posix_spawnattr_destroy(&attr);
    return r;
}

int cli_libexec_run(char *const *argv)
{
    _cleanup_free_ char *path = find(argv[0]);
    pid_t pid;
    int r, status;

    if (!path) {
        (void)cli_error_hint("set BOXLITE_LIBEXEC to the folder that holds it",
                             "the helper %s is not installed", argv[0]);
        return 127;
    }
    r = spawn(path, argv, &pid);
    if (r != 0) {
        return cli_error("%s: %s", path, strerror(r));
    }
    while (waitpid(pid, &status, 0) < 0) {
        if (errno != EINTR) {
            return cli_error("waiting for %s: %s", path, strerror(errno));
        }
    }
    return WIFEXITED(status) ? WEXITSTATUS(status) : CLI_EXIT_SIGNAL(WTERMSIG(status));
}
