/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The whole command line of QEMU, word by word: a change of it is a decision, and shows here.
 */
#include <stdio.h>

#include "harness.h"
#include "vmm/qemu/argv.h"

static const struct bx_vmm_disk disks[] = {{.fd = 50, .read_only = true}, {.fd = 51}};

static struct bx_vmm_config config(void)
{
    return (struct bx_vmm_config){.name = "b1",
                                  .cpus = 2,
                                  .memory = UINT64_C(512) << 20,
                                  .cmdline = "boxlite.x=1, 2",
                                  .disks = disks,
                                  .ndisks = 2,
                                  .net_fd = 60,
                                  .mac = "52:54:00:0a:0B:0c"};
}

static struct bx_qemu_args arguments(const struct bx_vmm_config *c, enum bx_qemu_accel accel)
{
    return (struct bx_qemu_args){
        .program = "qemu",
        .accel = accel,
        .config = c,
        .tsc_khz = 2100000,
        .fds = {
            .qmp = 3, .console = 4, .agent = 5, .net = 6, .kernel = 7, .initramfs = 8, .disk0 = 9}};
}

static void check(const struct bx_strv *argv, const char *const *want, size_t n)
{
    for (size_t i = 0; i < n && i < argv->n; i++) {
        ASSERT_STREQ(argv->v[i], want[i]);
    }
    ASSERT_EQ(argv->n, n);
}

/* The value of the one option of that name, or NULL. */
static const char *value_of(const struct bx_strv *argv, const char *option)
{
    for (size_t i = 0; i + 1 < argv->n; i++) {
        if (bx_streq(argv->v[i], option)) {
            return argv->v[i + 1];
        }
    }
    return NULL;
}

TEST(full_machine)
{
    /* clang-format off */
    static const char *const want[] = {
        "qemu", "-name", "b1",
        "-M", "microvm,acpi=on,pic=off,pit=off,rtc=on,isa-serial=on,auto-kernel-cmdline=off",
        "-bios", "qboot.rom",
        "-accel", "tcg,thread=multi,tb-size=128",
        "-cpu", "max,la57=off,erms=off", "-m", "512M", "-smp", "2",
        "-nodefaults", "-no-user-config", "-display", "none", "-no-reboot", "-S",
        "-sandbox", "on,obsolete=deny,elevateprivileges=deny,spawn=deny,resourcecontrol=deny",
        "-chardev", "socket,id=qmp,fd=3", "-mon", "chardev=qmp,mode=control",
        "-chardev", "socket,id=console,fd=4", "-serial", "chardev:console",
        "-chardev", "socket,id=agent,fd=5",
        "-device", "virtio-serial-device,max_ports=2",
        "-device", "virtserialport,chardev=agent,name=org.boxlite.agent",
        "-netdev", "stream,id=net,server=off,addr.type=fd,addr.str=6",
        "-device", "virtio-net-device,netdev=net,mac=52:54:00:0a:0B:0c",
        "-add-fd", "fd=9,set=0",
        "-blockdev", "driver=raw,node-name=disk0,read-only=on,discard=unmap,file.driver=file,"
                     "file.filename=/dev/fdset/0,file.aio=threads,file.locking=off,"
                     "file.discard=unmap",
        "-device", "virtio-blk-device,drive=disk0,werror=report,rerror=report",
        "-add-fd", "fd=10,set=1",
        "-blockdev", "driver=raw,node-name=disk1,read-only=off,discard=unmap,file.driver=file,"
                     "file.filename=/dev/fdset/1,file.aio=threads,file.locking=off,"
                     "file.discard=unmap",
        "-device", "virtio-blk-device,drive=disk1,werror=report,rerror=report",
        "-object", "rng-builtin,id=rng", "-device", "virtio-rng-device,rng=rng",
        "-kernel", "/proc/self/fd/7", "-initrd", "/proc/self/fd/8",
        "-append", "console=ttyS0 quiet panic=-1 reboot=t rcupdate.rcu_expedited=1 cryptomgr.notests 8250.nr_uarts=1 "
                   "random.trust_cpu=on noreplace-smp tsc=reliable tsc_early_khz=2100000 "
                   "boxlite.x=1, 2",
    };
    /* clang-format on */
    _cleanup_strv_ struct bx_strv argv = {0};
    const struct bx_vmm_config c = config();
    const struct bx_qemu_args args = arguments(&c, BX_QEMU_TCG);

    ASSERT_OK(bx_qemu_argv(&args, &argv, ERR));
    check(&argv, want, BX_ARRAY_SIZE(want));
}

/* KVM has a clock of its own for the guest; what is only for TCG is not said. */
TEST(kvm_machine)
{
    _cleanup_strv_ struct bx_strv argv = {0};
    const struct bx_vmm_config c = config();
    const struct bx_qemu_args args = arguments(&c, BX_QEMU_KVM);

    ASSERT_OK(bx_qemu_argv(&args, &argv, ERR));
    ASSERT_STREQ(value_of(&argv, "-accel"), "kvm");
    ASSERT_STREQ(value_of(&argv, "-cpu"), "host");
    ASSERT_NULL(strstr(value_of(&argv, "-append"), "tsc"));
}

TEST(smallest_machine)
{
    _cleanup_strv_ struct bx_strv argv = {0};
    const struct bx_vmm_config c = {.name = "x", .cpus = 1, .memory = 32 << 20};
    struct bx_qemu_args args = arguments(&c, BX_QEMU_TCG);

    args.fds.net = args.fds.initramfs = -1;
    args.tsc_khz = 0;
    ASSERT_OK(bx_qemu_argv(&args, &argv, ERR));
    ASSERT_NULL(value_of(&argv, "-netdev"));
    ASSERT_NULL(value_of(&argv, "-initrd"));
    ASSERT_NULL(value_of(&argv, "-blockdev"));
    ASSERT_NULL(strstr(value_of(&argv, "-append"), "tsc_early_khz"));
}

static void refuses(const struct bx_vmm_config *c, const char *why)
{
    _cleanup_strv_ struct bx_strv argv = {0};
    const struct bx_qemu_args args = arguments(c, BX_QEMU_TCG);

    ASSERT_FAILS(BOXLITE_E_INVALID, bx_qemu_argv(&args, &argv, ERR));
    ASSERT_CONTAINS(err_message(), why);
}

TEST(refuses_what_cannot_be)
{
    struct bx_vmm_config c = config();
    char words[3000];

    c.cpus = 0;
    refuses(&c, "0 CPUs");
    c.cpus = 256;
    refuses(&c, "256 CPUs");
    c = config();
    c.memory = (32 << 20) - 1;
    refuses(&c, "must be 32 MiB");
    c.memory = UINT64_MAX;
    refuses(&c, "must be 32 MiB");
    c = config();
    c.ndisks = 5;
    refuses(&c, "5 disks");
    c = config();
    memset(words, 'x', sizeof(words));
    words[sizeof(words) - 1] = '\0';
    c.cmdline = words;
    refuses(&c, "over 2047 bytes");
}

/* QEMU would read what follows a comma as another property. */
TEST(refuses_what_would_end_a_value)
{
    static const char *const macs[] = {NULL,
                                       "",
                                       "52:54:00:12:34:5",
                                       "52:54:00:12:34:567",
                                       "52:54:00:12:34,x",
                                       "52-54-00-12-34-56",
                                       "g2:54:00:12:34:56"};
    static const char *const names[] = {NULL, "", "a,process=x"};
    struct bx_vmm_config c = config();

    for (size_t i = 0; i < BX_ARRAY_SIZE(macs); i++) {
        c.mac = macs[i];
        refuses(&c, "hardware address");
    }
    c = config();
    for (size_t i = 0; i < BX_ARRAY_SIZE(names); i++) {
        c.name = names[i];
        refuses(&c, "not a name");
    }
}

TEST(out_of_memory_leaks_nothing)
{
    const struct bx_vmm_config c = config();
    const struct bx_qemu_args args = arguments(&c, BX_QEMU_TCG);

    TORTURE
    {
        _cleanup_strv_ struct bx_strv argv = {0};
        int r = bx_qemu_argv(&args, &argv, NULL);

        ASSERT_EQ(r, allocation_failed() ? BOXLITE_E_NO_MEMORY : 0);
    }
}
