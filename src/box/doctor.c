/* SPDX-License-Identifier: Apache-2.0 */
/*
 * doctor.c: looks at the host. Each check is a function that adds one or more lines to the report.
 * FAIL is what keeps boxes from running at all; WARN is what makes them slower, fewer or poorer.
 */
#include "box/doctor.h"
#include "share/jail.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>

#include "base/error.h"
#include "base/path.h"
#include "base/spawn.h"
#include "base/str.h"
#include "boot/kernel.h"
#include "box/shimproc.h"
#include "vmm/kvm/launch.h"
#include "vmm/probe.h"
#include "vmm/vmm.h"

#define SPACE_LOW (2ull << 30)
#define SPACE_NONE (256ull << 20)
#define FILES_LOW 1024
#define PROCESSES_LOW 512

/* advice may be NULL. A line without memory for it is left out. */
static void __attribute__((format(printf, 5, 6)))
add(boxlite_report *report, const char *name, int status, const char *advice, const char *fmt, ...)
{
    char detail[512];
    va_list ap;

    va_start(ap, fmt);
    (void)vsnprintf(detail, sizeof(detail), fmt, ap);
    va_end(ap);
    if (report->n == BX_CHECKS_MAX) {
        return;
    }
    struct bx_check check = {name, status, bx_escape(detail, strlen(detail), sizeof(detail)),
                             advice ? strdup(advice) : NULL};
    if (!check.detail) {
        free(check.advice);
        return;
    }
    report->checks[report->n++] = check;
}

static void add_error(boxlite_report *report, const char *name, int status,
                      const boxlite_error *error)
{
    add(report, name, status, boxlite_error_hint(error), "%s", boxlite_error_message(error));
}

static void check_kvm(boxlite_runtime *rt, boxlite_report *report)
{
    static const char *const advice[] = {
        [BX_KVM_USABLE] = NULL,
        [BX_KVM_ABSENT] =
            "boxes run without KVM, several times slower; for KVM turn virtualisation "
            "on in the firmware (or in the host of this VM) and load kvm_intel or kvm_amd",
        [BX_KVM_DENIED] =
            "add this user to the group kvm: sudo usermod -aG kvm $USER, then log in again",
        [BX_KVM_BROKEN] =
            "boxes run without KVM, several times slower; see the kernel log (dmesg) for kvm",
        [BX_KVM_EMULATED] =
            "boxes run without KVM, several times slower; this host's KVM emulates "
            "guest code in software: use a host with nested virtualisation or bare metal",
    };
    struct bx_kvm_verdict v;
    bx_kvm_probe(rt->home->fd, true, &v);
    add(report, "kvm", v.state == BX_KVM_USABLE ? BOXLITE_CHECK_OK : BOXLITE_CHECK_WARN,
        v.state < BX_ARRAY_SIZE(advice) ? advice[v.state] : NULL, "%s", v.detail);
}

static void check_engines(boxlite_runtime *rt, boxlite_report *report)
{
    static const struct {
        const char *asked, *name;
    } engines[] = {{"auto", "engine"},
                   {"qemu-tcg", "engine qemu-tcg"},
                   {"qemu-kvm", "engine qemu-kvm"},
                   {"kvm", "engine kvm"}};

    for (size_t i = 0; i < BX_ARRAY_SIZE(engines); i++) {
        _cleanup_error_ boxlite_error *error = NULL;
        const struct bx_vmm_ops *ops;
        if (bx_engine_choose(engines[i].asked, rt->home->fd, &ops, &error) < 0) {
            add_error(report, engines[i].name, i == 0 ? BOXLITE_CHECK_FAIL : BOXLITE_CHECK_WARN,
                      error);
        } else {
            add(report, engines[i].name, BOXLITE_CHECK_OK, NULL,
                i == 0 ? "boxes run with %s" : "%s is available", ops->name);
        }
    }
}

/* What our own VMM's process gives up on this host, beside the rights that it never has. */
static void check_confinement(boxlite_runtime *rt, boxlite_report *report)
{
    _cleanup_error_ boxlite_error *error = NULL;
    _cleanup_buf_ struct bx_buf on = BX_BUF_INIT(4096), off = BX_BUF_INIT(4096);

    (void)rt;
    if (bx_kvm_stages(&on, &off, &error) < 0) {
        add_error(report, "confinement", BOXLITE_CHECK_WARN, error);
    } else if (off.len > 0) {
        add(report, "confinement", BOXLITE_CHECK_OK, NULL, "the VMM has: %s; not allowed here: %s",
            bx_buf_str(&on), bx_buf_str(&off));
    } else {
        add(report, "confinement", BOXLITE_CHECK_OK, NULL, "the VMM has: %s", bx_buf_str(&on));
    }
}

static void check_programs(boxlite_runtime *rt, boxlite_report *report)
{
    _cleanup_error_ boxlite_error *error = NULL;
    _cleanup_free_ char *dir = NULL, *passt = bx_find_program("passt"),
                        *mke2fs = bx_find_program("mke2fs");

    if (bx_libexec_find(rt->libexec_asked, &dir, &error) < 0) {
        add_error(report, "shim", BOXLITE_CHECK_FAIL, error);
    } else {
        _cleanup_free_ char *agent = bx_path_join(dir, BX_AGENT_PROGRAM);
        bool there = agent && access(agent, R_OK) == 0;
        add(report, "shim", there ? BOXLITE_CHECK_OK : BOXLITE_CHECK_FAIL,
            there ? NULL : "install BoxLite completely", there ? "%s" : "no boxlite-agent in %s",
            dir);
    }
    add(report, "network", passt ? BOXLITE_CHECK_OK : BOXLITE_CHECK_WARN,
        passt ? NULL : "for boxes with a network install the package passt",
        passt ? "%s" : "the program passt was not found", passt);
    add(report, "mke2fs", mke2fs ? BOXLITE_CHECK_OK : BOXLITE_CHECK_FAIL,
        mke2fs ? NULL : "install the package e2fsprogs",
        mke2fs ? "%s" : "the program mke2fs was not found", mke2fs);
}

static void check_landlock(boxlite_runtime *rt, boxlite_report *report)
{
    int version = bx_share_landlock_version();
    bool good = version >= 2;
    add(report, "landlock", good ? BOXLITE_CHECK_OK : BOXLITE_CHECK_WARN,
        good ? NULL
             : "shared folders are confined by the file server's own checks alone; for a second wall use "
               "Linux 5.19 or newer with Landlock on (lsm=landlock,...)",
        good ? "version %d: shared folders have a second wall" : "not in this kernel", version);
}

static void check_kernel(boxlite_runtime *rt, boxlite_report *report)
{
    _cleanup_error_ boxlite_error *error = NULL;
    struct bx_kernel **list = NULL;
    size_t n = 0;

    if (bx_kernel_list(rt->home->fd, &list, &n, &error) < 0) {
        add_error(report, "kernel", BOXLITE_CHECK_FAIL, error);
        return;
    }
    size_t i = 0;
    while (i < n && !bx_streq(list[i]->name, BX_KERNEL_DEFAULT)) {
        i++;
    }
    if (i < n) {
        add(report, "kernel", BOXLITE_CHECK_OK, NULL, "%s", list[i]->release);
    } else {
        add(report, "kernel", BOXLITE_CHECK_FAIL,
            "import a kernel package: boxlite kernel import FILE.deb", "there is no kernel \"%s\"",
            BX_KERNEL_DEFAULT);
    }
    bx_kernel_list_free(list);
}

static void check_home(boxlite_runtime *rt, boxlite_report *report)
{
    struct statvfs vfs;
    char size[32];
    const char *path = rt->home->path;

    if (faccessat(rt->home->fd, ".", R_OK | W_OK | X_OK, AT_EACCESS) < 0) {
        add(report, "home", BOXLITE_CHECK_FAIL, "choose another folder with BOXLITE_HOME", "%s: %s",
            path, strerror(errno));
    } else {
        add(report, "home", BOXLITE_CHECK_OK, NULL, "%s", path);
    }
    if (fstatvfs(rt->home->fd, &vfs) < 0) {
        add(report, "space", BOXLITE_CHECK_WARN, NULL, "%s: %s", path, strerror(errno));
        return;
    }
    uint64_t space = (uint64_t)vfs.f_bavail * vfs.f_frsize;
    int status = space < SPACE_NONE  ? BOXLITE_CHECK_FAIL
                 : space < SPACE_LOW ? BOXLITE_CHECK_WARN
                                     : BOXLITE_CHECK_OK;
    add(report, "space", status,
        status ? "free some space, or choose another disk with BOXLITE_HOME" : NULL,
        "%s free for images and boxes", bx_format_size(space, size, sizeof(size)));
}

static void check_limits(boxlite_runtime *rt, boxlite_report *report)
{
    static const struct {
        const char *name, *what;
        int resource;
        rlim_t low;
        const char *advice;
    } limits[] = {
        {"open files", "open files", RLIMIT_NOFILE, FILES_LOW,
         "for many boxes at once raise it: ulimit -n 65536"},
        {"processes", "processes", RLIMIT_NPROC, PROCESSES_LOW,
         "for many boxes at once raise it: ulimit -u 4096"},
    };
    (void)rt;
    for (size_t i = 0; i < BX_ARRAY_SIZE(limits); i++) {
        struct rlimit rl;
        if (getrlimit(limits[i].resource, &rl) < 0) {
            continue;
        }
        bool low = rl.rlim_cur != RLIM_INFINITY && rl.rlim_cur < limits[i].low;
        if (rl.rlim_cur == RLIM_INFINITY) {
            add(report, limits[i].name, BOXLITE_CHECK_OK, NULL, "no limit");
        } else {
            add(report, limits[i].name, low ? BOXLITE_CHECK_WARN : BOXLITE_CHECK_OK,
                low ? limits[i].advice : NULL, "limit of %llu %s", (unsigned long long)rl.rlim_cur,
                limits[i].what);
        }
    }
}

int bx_doctor(boxlite_runtime *rt, boxlite_report **ret, boxlite_error **err)
{
    static void (*const checks[])(boxlite_runtime * rt, boxlite_report * report) = {
        check_home,     check_kvm,      check_engines, check_confinement,
        check_programs, check_landlock, check_kernel,  check_limits,
    };
    boxlite_report *report = calloc(1, sizeof(*report));

    if (!report) {
        return bx_fail_oom(err);
    }
    for (size_t i = 0; i < BX_ARRAY_SIZE(checks); i++) {
        checks[i](rt, report);
    }
    *ret = report;
    return 0;
}

void bx_report_free(boxlite_report *report)
{
    if (!report) {
        return;
    }
    for (size_t i = 0; i < report->n; i++) {
        free(report->checks[i].detail);
        free(report->checks[i].advice);
    }
    free(report);
}
