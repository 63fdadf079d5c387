/* SPDX-License-Identifier: Apache-2.0 */
/*
 * merge.c: three-way merge of text by `git merge-file`, which works on plain files without a repository. It runs in a
 * folder of its own with nothing of the user's git configuration, so what it does depends on the three texts alone.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "base/io.h"
#include "base/path.h"
#include "base/spawn.h"
#include "base/timeutil.h"
#include "workspace/workspace.h"

#define MERGE_MS 30000
#define GIT_ERROR 128 /* and above: not a count of conflicts */

static int run_git(const char *git, const char *dir, struct bx_buf *ret, boxlite_error **err)
{
    _cleanup_free_ char *mine = bx_path_join(dir, "ours"), *base = bx_path_join(dir, "base"),
                        *other = bx_path_join(dir, "theirs");
    const char *const argv[] = {"git", "merge-file", "-p", "-q", mine, base, other, NULL};
    const char *const envp[] = {"PATH=/usr/bin:/bin",   "LC_ALL=C",
                                "HOME=/nonexistent",    "GIT_CONFIG_NOSYSTEM=1",
                                "GIT_DIR=/nonexistent", NULL};
    _cleanup_buf_ struct bx_buf errout = BX_BUF_INIT(4096);
    struct bx_spawn spec = {.path = git, .argv = argv, .envp = envp};
    int status;
    if (!mine || !base || !other) {
        return bx_fail_oom(err);
    }
    int r = bx_run(&spec, ret, &errout, bx_deadline_ms(MERGE_MS), &status, err);
    if (r < 0) {
        return r;
    }
    if (status >= GIT_ERROR) {
        return bx_fail(err, BOXLITE_E_IO, "git merge-file ended with %d", status);
    }
    return status == 0;
}

int bx_ws_merge(const struct bx_buf *base, const struct bx_buf *ours, const struct bx_buf *theirs,
                struct bx_buf *ret, boxlite_error **err)
{
    _cleanup_free_ char *git = bx_find_program("git");
    char dir[] = "/tmp/boxlite-merge-XXXXXX";
    if (!git) {
        int r = bx_fail(err, BOXLITE_E_UNSUPPORTED, "merging needs git, which is not installed");
        bx_hint(err, "install git, or apply without --merge");
        return r;
    }
    if (!mkdtemp(dir)) {
        return bx_fail_errno(err, BOXLITE_E_IO, errno, "making a folder to merge in");
    }
    _cleanup_close_ int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int r = fd < 0 ? -errno : bx_write_file(fd, "base", bx_buf_data(base), base->len, 0600);
    r = r < 0 ? r : bx_write_file(fd, "ours", bx_buf_data(ours), ours->len, 0600);
    r = r < 0 ? r : bx_write_file(fd, "theirs", bx_buf_data(theirs), theirs->len, 0600);
    r = r < 0 ? bx_fail_errno(err, BOXLITE_E_IO, r, "merging") : run_git(git, dir, ret, err);
    (void)bx_rm_rf(AT_FDCWD, dir);
    return r;
}
