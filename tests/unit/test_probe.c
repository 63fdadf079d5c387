/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The KVM probe: what it says here, how long it takes, and that its cache can be damaged.
 */
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/io.h"
#include "base/str.h"
#include "base/timeutil.h"
#include "harness.h"
#include "vmm/kvm/launch.h"
#include "vmm/probe.h"
#include "vmm/vmm.h"

#define CACHE "kvm-probe"
#define LIMIT_MS 300

/* A probe's verdict, within the time that is promised. */
static struct bx_kvm_verdict probe(bool fresh)
{
    struct bx_kvm_verdict v;
    uint64_t start = bx_now_mono();

    bx_kvm_probe(tmpdir_fd(), fresh, &v);
    ASSERT_LT((bx_now_mono() - start) / BX_MS, (uint64_t)LIMIT_MS * 2 * time_scale());
    ASSERT_NE(v.detail[0], '\0');
    return v;
}

/* A verdict that cost a run. Skips where there was none, or one that is not kept. */
static struct bx_kvm_verdict kept_probe(void)
{
    struct bx_kvm_verdict v = probe(true);

    if (access("/dev/kvm", R_OK | W_OK) < 0) {
        SKIP("no /dev/kvm that may be opened");
    }
    if (faccessat(tmpdir_fd(), CACHE, F_OK, 0) < 0) {
        SKIP("no verdict that is kept: %s", v.detail);
    }
    return v;
}

TEST(says_what_it_saw)
{
    struct bx_kvm_verdict v = probe(true);

    switch (v.state) {
    case BX_KVM_USABLE:
        ASSERT_GT(v.guest_ns, 0);
        ASSERT_CONTAINS(v.detail, "in a guest");
        break;
    case BX_KVM_EMULATED:
        ASSERT_GT(v.guest_ns, v.host_ns);
        ASSERT_CONTAINS(v.detail, "emulated");
        break;
    case BX_KVM_ABSENT:
    case BX_KVM_DENIED:
    case BX_KVM_BROKEN:
        ASSERT_EQ(v.guest_ns, 0);
        break;
    }
}

/* Two runs never take the same number of nanoseconds. */
TEST(second_answer_comes_from_the_cache)
{
    struct bx_kvm_verdict first = kept_probe();
    struct bx_kvm_verdict second = probe(false);

    ASSERT_EQ(second.state, first.state);
    ASSERT_EQ(second.guest_ns, first.guest_ns);
    ASSERT_EQ(second.host_ns, first.host_ns);
    ASSERT_STREQ(second.detail, first.detail);
}

static void plant(const char *text)
{
    ASSERT_OK(bx_write_file(tmpdir_fd(), CACHE, text, strlen(text), 0600));
}

/* Damage, and verdicts of another boot, device or user, are as if they were not there. */
TEST_FOR(damaged_cache_is_ignored, 60)
{
    static const char *const damage[] = {
        "",
        "{",
        "[]",
        "null",
        "{\"version\":1}",
        ("{\"version\":1,\"boot\":\"00000000-0000-0000-0000-000000000000\",\"device\":2792,"
         "\"euid\":0,\"guest_ns\":77,\"host_ns\":77}\n"),
    };
    struct bx_kvm_verdict first = kept_probe();

    for (size_t i = 0; i < BX_ARRAY_SIZE(damage); i++) {
        plant(damage[i]);
        struct bx_kvm_verdict v = probe(false);
        ASSERT_EQ(v.state, first.state);
        ASSERT_NE(v.guest_ns, 77);
    }
}

TEST(cache_that_is_too_large_is_ignored)
{
    _cleanup_buf_ struct bx_buf text = BX_BUF_INIT(1 << 20);
    struct bx_kvm_verdict first = kept_probe();

    while (text.len < 100000) {
        ASSERT_OK(bx_buf_appends(&text, "                                "));
    }
    plant(bx_buf_str(&text));
    ASSERT_EQ(probe(false).state, first.state);
}

/* The numbers are judged anew, so a cache cannot say one thing and mean another. */
TEST(cache_is_a_measurement_not_a_verdict)
{
    _cleanup_buf_ struct bx_buf text = BX_BUF_INIT(4096);
    struct bx_kvm_verdict v = kept_probe();
    const char *old = "\"guest_ns\":";

    ASSERT_OK(bx_read_file(tmpdir_fd(), CACHE, &text));
    char *at = strstr((char *)bx_buf_data(&text), old);
    ASSERT_NOT_NULL(at);
    char changed[1024];
    (void)snprintf(changed, sizeof(changed), "%.*s%s%d,\"host_ns\":%d}\n",
                   (int)(at - bx_buf_str(&text)), bx_buf_str(&text), old, 1000000, 1000000);
    plant(changed);
    v = probe(false);
    ASSERT_EQ(v.state, BX_KVM_USABLE);
    ASSERT_EQ(v.guest_ns, 1000000);
}

TEST(no_cache_is_no_trouble)
{
    struct bx_kvm_verdict v;

    bx_kvm_probe(-1, false, &v);
    ASSERT_NE(v.detail[0], '\0');
    ASSERT_LT(faccessat(tmpdir_fd(), CACHE, F_OK, 0), 0);
}

TEST(absent_device)
{
    struct bx_kvm_verdict v;

    if (unshare(CLONE_NEWNS) < 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ||
        mount("none", "/dev", "tmpfs", 0, NULL) < 0) {
        SKIP("not allowed to make a mount namespace");
    }
    bx_kvm_probe(-1, false, &v);
    ASSERT_EQ(v.state, BX_KVM_ABSENT);
    int fd = open("/dev/kvm", O_WRONLY | O_CREAT | O_CLOEXEC, 0600); /* a file is no KVM */
    ASSERT_GE(fd, 0);
    ASSERT_EQ(close(fd), 0);
    bx_kvm_probe(-1, false, &v);
    ASSERT_EQ(v.state, BX_KVM_BROKEN);
    ASSERT_CONTAINS(v.detail, "KVM_GET_API_VERSION");
}

TEST(denied_device)
{
    struct bx_kvm_verdict v;

    if (access("/dev/kvm", F_OK) < 0) {
        SKIP("no /dev/kvm");
    }
    if (geteuid() != 0) {
        SKIP("not root: cannot become someone else");
    }
    ASSERT_EQ(setegid(12345), 0);
    ASSERT_EQ(seteuid(12345), 0);
    if (access("/dev/kvm", R_OK) == 0 && eaccess("/dev/kvm", R_OK | W_OK) == 0) {
        SKIP("everyone may open /dev/kvm");
    }
    bx_kvm_probe(-1, false, &v);
    ASSERT_EQ(seteuid(0), 0);
    ASSERT_EQ(v.state, BX_KVM_DENIED);
    ASSERT_CONTAINS(v.detail, "no permission");
}

/* ---- Choosing -------------------------------------------------------------------------------- */

TEST(auto_follows_the_verdict)
{
    const struct bx_vmm_ops *ops = NULL;
    struct bx_kvm_verdict v = probe(true);

    if (bx_engine_choose("auto", tmpdir_fd(), &ops, NULL) < 0) {
        SKIP("qemu-system-x86_64 is not installed");
    }
    _cleanup_free_ char *program = NULL;
    bool own = bx_kvm_program(&program, NULL) == 0;
    ASSERT_STREQ(ops->name, v.state != BX_KVM_USABLE ? "qemu-tcg" : own ? "kvm" : "qemu-kvm");
    ASSERT_OK(bx_engine_choose("qemu", tmpdir_fd(), &ops, ERR));
    ASSERT_STREQ(ops->name, v.state == BX_KVM_USABLE ? "qemu-kvm" : "qemu-tcg");
    ops = NULL;
    if (v.state == BX_KVM_USABLE) {
        ASSERT_OK(bx_engine_choose("qemu-kvm", tmpdir_fd(), &ops, ERR));
    } else {
        ASSERT_FAILS(BOXLITE_E_UNSUPPORTED, bx_engine_choose("qemu-kvm", tmpdir_fd(), &ops, ERR));
        ASSERT_CONTAINS(err_message(), "KVM is not usable here");
        ASSERT_CONTAINS(err_hint(), "qemu-tcg");
        ASSERT_FAILS(BOXLITE_E_UNSUPPORTED, bx_engine_choose("kvm", tmpdir_fd(), &ops, ERR));
    }
}

TEST(unknown_engines_are_refused)
{
    const struct bx_vmm_ops *ops = NULL;

    ASSERT_FAILS(BOXLITE_E_INVALID, bx_engine_choose("xen\n", -1, &ops, ERR));
    ASSERT_CONTAINS(err_message(), "'xen\\x0a'");
    ASSERT_NULL(ops);
}
