/* SPDX-License-Identifier: Apache-2.0 */
/*
 * argv.c: QEMU's command line and the guest kernel's.
 *
 * The machine is the smallest one that boots Linux by its PVH entry: microvm, virtio-mmio devices,
 * no PCI, qboot as firmware. What each choice is for, and what it was measured to bring, is told in
 * docs/decisions/0004-engine-qemu.md; in short:
 *   acpi=on             SMP, and a power-off that QEMU sees; the devices are found through the DSDT
 *   pic=off,pit=off     no legacy timer: under TCG its calibration fails on a busy host, and then
 *                       the boot hangs. tsc_early_khz= tells the kernel what it would have measured
 *   isa-serial=on       a console that works from the kernel's first line, so that a panic is seen
 *   -no-reboot          a reset ends QEMU: a box never boots twice in one process
 *   -S                  the guest starts when QMP is ready: QEMU tells nothing about its end before
 *
 * Every file is named by descriptor: disks through fdsets, kernel and initramfs as /proc/self/fd/N.
 * Nothing in the arguments comes from the guest; the caller's kernel words go into -append, which
 * QEMU does not parse.
 */
#include "vmm/qemu/argv.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>

#include "base/buf.h"
#include "base/error.h"

#define MIB (UINT64_C(1) << 20)
#define MEMORY_MIN (32 * MIB)
#define MEMORY_MAX (UINT64_C(1) << 40)
#define CPUS_MAX 255
#define DISKS_MAX 4      /* microvm has eight virtio-mmio slots in all */
#define CMDLINE_MAX 2047 /* the kernel's COMMAND_LINE_SIZE, without NUL */
#define TB_SIZE_MIB 128

static const struct accel {
    const char *accel;
    const char *cpu;
    const char *kernel_words;
} accels[] = {
    /* la57: five-level page tables would lengthen every software page walk. erms: with it the kernel
     * copies by "rep movsb", which TCG runs byte by byte; without it 8 bytes at once: a third of the
     * CPU time of a pipe. */
    [BX_QEMU_TCG] = {"tcg,thread=multi,tb-size=", "max,la57=off,erms=off",
                     "noreplace-smp tsc=reliable "},
    [BX_QEMU_KVM] = {"kvm", "host", ""},
};

static const char machine[] =
    "microvm,acpi=on,pic=off,pit=off,rtc=on,isa-serial=on,auto-kernel-cmdline=off";
/* Deny what a VM that has all its descriptors never needs. */
static const char sandbox[] =
    "on,obsolete=deny,elevateprivileges=deny,spawn=deny,resourcecontrol=deny";
static const char kernel_words[] =
    "console=ttyS0 quiet panic=-1 reboot=t rcupdate.rcu_expedited=1 cryptomgr.notests "
    "8250.nr_uarts=1 random.trust_cpu=on ";

/* The vector and its first failure, so that the list of arguments reads as one. */
struct out {
    struct bx_strv *sv;
    int error;
};

static void add(struct out *out, const char *s)
{
    if (out->error == 0) {
        out->error = bx_strv_add(out->sv, s);
    }
}

static void add2(struct out *out, const char *option, const char *value)
{
    add(out, option);
    add(out, value);
}

/* One option with a value of bounded length. */
__attribute__((format(printf, 3, 4))) static void addf(struct out *out, const char *option,
                                                       const char *fmt, ...)
{
    char value[512];
    va_list ap;

    va_start(ap, fmt);
    int n = vsnprintf(value, sizeof(value), fmt, ap);
    va_end(ap);
    if (n < 0 || (size_t)n >= sizeof(value)) {
        out->error = out->error ? out->error : -E2BIG;
        return;
    }
    add2(out, option, value);
}

static void add_machine(struct out *out, const struct bx_qemu_args *args)
{
    const struct accel *accel = &accels[args->accel];
    const struct bx_vmm_config *c = args->config;

    add(out, args->program);
    addf(out, "-name", "%s", c->name);
    add2(out, "-M", machine);
    add2(out, "-bios", "qboot.rom");
    if (args->accel == BX_QEMU_TCG) {
        addf(out, "-accel", "%s%u", accel->accel, TB_SIZE_MIB);
    } else {
        add2(out, "-accel", accel->accel);
    }
    add2(out, "-cpu", accel->cpu);
    addf(out, "-m", "%" PRIu64 "M", c->memory / MIB);
    addf(out, "-smp", "%" PRIu32, c->cpus);
    add(out, "-nodefaults");
    add(out, "-no-user-config");
    add2(out, "-display", "none");
    add(out, "-no-reboot");
    add(out, "-S");
    add2(out, "-sandbox", sandbox);
}

static void add_channels(struct out *out, const struct bx_qemu_args *args)
{
    addf(out, "-chardev", "socket,id=qmp,fd=%d", args->fds.qmp);
    add2(out, "-mon", "chardev=qmp,mode=control");
    addf(out, "-chardev", "socket,id=console,fd=%d", args->fds.console);
    add2(out, "-serial", "chardev:console");
    addf(out, "-chardev", "socket,id=agent,fd=%d", args->fds.agent);
    add2(out, "-device", "virtio-serial-device,max_ports=2");
    add2(out, "-device", "virtserialport,chardev=agent,name=org.boxlite.agent");
}

/* The guest finds virtio-mmio devices in the order in which they are added, so the disks become
 * vda, vdb, … in the config's order. What a guest reports as lost is the guest's affair (report):
 * QEMU's default would stop the machine when the host's disk is full. */
static void add_disks(struct out *out, const struct bx_qemu_args *args)
{
    const struct bx_vmm_config *c = args->config;

    for (size_t i = 0; i < c->ndisks; i++) {
        const char *ro = c->disks[i].read_only ? "on" : "off";

        addf(out, "-add-fd", "fd=%d,set=%zu", args->fds.disk0 + (int)i, i);
        addf(out, "-blockdev",
             "driver=raw,node-name=disk%zu,read-only=%s,discard=unmap,file.driver=file,"
             "file.filename=/dev/fdset/%zu,file.aio=threads,file.locking=off,"
             "file.discard=unmap",
             i, ro, i);
        addf(out, "-device", "virtio-blk-device,drive=disk%zu,werror=report,rerror=report", i);
    }
}

static void add_net(struct out *out, const struct bx_qemu_args *args)
{
    if (args->fds.net < 0) {
        return;
    }
    addf(out, "-netdev", "stream,id=net,server=off,addr.type=fd,addr.str=%d", args->fds.net);
    addf(out, "-device", "virtio-net-device,netdev=net,mac=%s", args->config->mac);
}

static void add_kernel(struct out *out, const struct bx_qemu_args *args)
{
    const char *more = args->config->cmdline ? args->config->cmdline : "";
    _cleanup_buf_ struct bx_buf words = BX_BUF_INIT(CMDLINE_MAX);
    int r = bx_buf_appendf(&words, "%s%s", kernel_words, accels[args->accel].kernel_words);

    if (r == 0 && args->accel == BX_QEMU_TCG && args->tsc_khz > 0) {
        r = bx_buf_appendf(&words, "tsc_early_khz=%" PRIu64 " ", args->tsc_khz);
    }
    if (r == 0) {
        r = bx_buf_appends(&words, more);
    }
    if (r < 0) {
        out->error = out->error ? out->error : r;
        return;
    }
    addf(out, "-kernel", "/proc/self/fd/%d", args->fds.kernel);
    if (args->fds.initramfs >= 0) {
        addf(out, "-initrd", "/proc/self/fd/%d", args->fds.initramfs);
    }
    add2(out, "-append", bx_buf_str(&words));
}

/* A hardware address as it is written, nothing that could end the option's value. */
static bool is_mac(const char *s)
{
    if (!s || strlen(s) != 17) {
        return false;
    }
    for (size_t i = 0; i < 17; i++) {
        bool good = i % 3 == 2 ? s[i] == ':' : strchr("0123456789abcdefABCDEF", s[i]) != NULL;

        if (!good) {
            return false;
        }
    }
    return true;
}

static int check(const struct bx_qemu_args *args, boxlite_error **err)
{
    const struct bx_vmm_config *c = args->config;

    if (!c->name || c->name[0] == '\0' || strchr(c->name, ',') || strlen(c->name) > 128) {
        return bx_fail(err, BOXLITE_E_INVALID, "engine: not a name for a machine");
    }
    if (c->cpus < 1 || c->cpus > CPUS_MAX) {
        return bx_fail(err, BOXLITE_E_INVALID, "engine: %" PRIu32 " CPUs: must be 1 to %d", c->cpus,
                       CPUS_MAX);
    }
    if (c->memory < MEMORY_MIN || c->memory > MEMORY_MAX) {
        return bx_fail(err, BOXLITE_E_INVALID,
                       "engine: %" PRIu64 " bytes of memory: must be %" PRIu64 " MiB to %" PRIu64
                       " MiB",
                       c->memory, MEMORY_MIN / MIB, MEMORY_MAX / MIB);
    }
    if (c->ndisks > DISKS_MAX) {
        return bx_fail(err, BOXLITE_E_INVALID, "engine: %zu disks: at most %d", c->ndisks,
                       DISKS_MAX);
    }
    if (args->fds.net >= 0 && !is_mac(c->mac)) {
        return bx_fail(err, BOXLITE_E_INVALID, "engine: not a hardware address: '%s'",
                       c->mac ? c->mac : "");
    }
    return 0;
}

int bx_qemu_argv(const struct bx_qemu_args *args, struct bx_strv *ret, boxlite_error **err)
{
    struct out out = {.sv = ret};
    int r = check(args, err);

    if (r < 0) {
        return r;
    }
    add_machine(&out, args);
    add_channels(&out, args);
    add_net(&out, args);
    add_disks(&out, args);
    add2(&out, "-object", "rng-builtin,id=rng");
    add2(&out, "-device", "virtio-rng-device,rng=rng");
    add_kernel(&out, args);
    if (out.error == -ENOBUFS) {
        return bx_fail(err, BOXLITE_E_INVALID, "engine: the kernel command line is over %d bytes",
                       CMDLINE_MAX);
    }
    if (out.error < 0) {
        return bx_fail_errno(err, BOXLITE_E_IO, out.error, "engine: building the command line");
    }
    return 0;
}
