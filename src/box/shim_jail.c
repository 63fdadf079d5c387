/* SPDX-License-Identifier: Apache-2.0 */
/*
 * shim_jail.c: what the shim gives up, in stages, each with its reason. A kernel that does not allow a stage is
 * no failure: the stages are depth, the boundary is the VM.
 *
 * early (first thing in main):
 *   not dumpable        no ptrace, no core, /proc/PID of this process closed to others: it holds the streams of
 *                       every command in the box
 *   no core, descriptors  a crash leaves no copy of them on disk; and enough descriptors for 64 clients and
 *                       the spools of 256 commands
 *   no new privileges   what the shim starts (engine, passt) gains nothing by set-uid files
 */
#include <errno.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>

#include "box/shim.h"

#define NOFILE_WANTED 4096u

static int no_dump(void)
{
    return prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
}

static int no_core(void)
{
    const struct rlimit none = {0, 0};
    return setrlimit(RLIMIT_CORE, &none);
}

static int more_files(void)
{
    struct rlimit l;
    if (getrlimit(RLIMIT_NOFILE, &l) < 0 || l.rlim_cur >= NOFILE_WANTED) {
        return 0;
    }
    l.rlim_cur = l.rlim_max < NOFILE_WANTED ? l.rlim_max : NOFILE_WANTED;
    return setrlimit(RLIMIT_NOFILE, &l);
}

static int no_new_privileges(void)
{
    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
}

void bx_shim_jail_early(const struct bx_log *log)
{
    static const struct {
        const char *name;
        int (*fn)(void);
    } stages[] = {
        {"not dumpable", no_dump},
        {"no core", no_core},
        {"descriptors", more_files},
        {"no new privileges", no_new_privileges},
    };
    for (size_t i = 0; i < BX_ARRAY_SIZE(stages); i++) {
        if (stages[i].fn() < 0) {
            bx_info(log, "jail", "%s: %s", stages[i].name, strerror(errno));
        }
    }
}
