/* SPDX-License-Identifier: Apache-2.0 */
/*
 * share_main.c: boxlite-share, the file server of a box's shared folders, a process of its own.
 *
 *     boxlite-share HIDE KIND...
 * Descriptor 3 is the stream to the shim (server.h), 4 the folder that is not to be entered (HIDE is 1,
 * or 0: there is none); from 5 on there is one O_PATH descriptor for each KIND: "rw", "ro", or "ws" for
 * the lower layer of a workspace. It ends when the stream does, and with the shim.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>

#include "base/fd.h"
#include "base/io.h"
#include "base/str.h"
#include "share/jail.h"
#include "share/server.h"
#include "share/shareproc.h"
#include "share/watch.h"

static void say(const char *what, int error)
{
    char line[200];
    int n = snprintf(line, sizeof(line), "boxlite-share: %s%s%s\n", what, error ? ": " : "",
                     error ? strerror(-error) : "");
    if (n > 0) {
        (void)bx_write_full(STDERR_FILENO, line, strnlen(line, sizeof(line)));
    }
}

static bool parse(int argc, char **argv, struct bx_export_options *trees, size_t n)
{
    struct stat hidden = {0};
    if (bx_streq(argv[1], "1") && fstat(BX_SHARE_FD_HIDE, &hidden) < 0) {
        return false;
    }
    for (size_t i = 0; i < n; i++) {
        const char *kind = argv[2 + i];
        trees[i] = (struct bx_export_options){
            .root_fd = BX_SHARE_FD_TREES + (int)i,
            .read_only = !bx_streq(kind, BX_SHARE_RW),
            .fixed_owner = bx_streq(kind, BX_SHARE_WS),
            .hidden = hidden,
        };
        if (bx_set_cloexec(trees[i].root_fd, true) < 0) {
            return false;
        }
    }
    return true;
}

int main(int argc, char **argv)
{
    static struct bx_export_options trees[BX_SHARE_TREES_MAX];
    const char *missing;
    size_t n = argc > 2 ? (size_t)argc - 2 : 0;
    if (bx_fix_stdio() < 0 || n == 0 || n > BX_SHARE_TREES_MAX || !parse(argc, argv, trees, n)) {
        say("started with wrong arguments", 0);
        return 125;
    }
    (void)prctl(PR_SET_NAME, "boxlite-share", 0, 0, 0);
    (void)signal(SIGPIPE, SIG_IGN);
    (void)signal(SIGXFSZ, SIG_IGN); /* a size limit is an error of write, not our death */
    (void)umask(0);                 /* the guest has its own */
    unsigned files = bx_share_jail_files();
    int proc = open("/proc/self/fd", O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (proc < 0) {
        say("opening /proc/self/fd", -errno);
        return 125;
    }
    for (size_t i = 0; i < n; i++) {
        trees[i].proc_fd = proc;
        trees[i].max_fds = files / 2 / (unsigned)n;
        trees[i].max_handles = files / 4 / (unsigned)n;
    }
    struct bx_watch *watch = NULL;
    if (bx_watch_new(&watch) < 0) {
        say("the host's changes cannot be watched: they are looked for", 0);
    }
    int r = bx_share_jail(trees, n, &missing);
    if (r == 0 && missing) {
        say("not possible here", 0);
        say(missing, 0);
    }
    r = r < 0 ? r : bx_share_serve(BX_SHARE_FD_STREAM, trees, n, watch);
    bx_watch_free(watch);
    if (r < 0) {
        say("serving", r);
    }
    return r < 0 ? 1 : 0;
}
