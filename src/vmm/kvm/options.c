/* SPDX-License-Identifier: Apache-2.0 */
/*
 * options.c: NAME=VALUE arguments from the shim. They name no file: everything comes as descriptors.
 */
#include "vmm/kvm/options.h"

#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/str.h"
#include "vmm/kvm/mem.h"

#define MEMORY_MIN (32ull << 20)
#define MEMORY_MAX (1ull << 40)

static bool set_name(struct bx_vm_options *o, const char *v)
{
    o->name = v;
    return *v != '\0';
}

static bool set_cmdline(struct bx_vm_options *o, const char *v)
{
    o->cmdline = v;
    return true;
}

static bool set_cpus(struct bx_vm_options *o, const char *v)
{
    uint64_t n = 0;

    if (bx_parse_u64(v, BX_KVM_CPUS_MAX, &n) < 0 || n == 0) {
        return false;
    }
    o->cpus = (uint32_t)n;
    return true;
}

static bool set_memory(struct bx_vm_options *o, const char *v)
{
    return bx_parse_u64(v, MEMORY_MAX, &o->memory) == 0 && o->memory >= MEMORY_MIN &&
           o->memory % (1u << 20) == 0;
}

/* One letter a disk: r or w. */
static bool set_disks(struct bx_vm_options *o, const char *v)
{
    for (; *v; v++) {
        if (o->ndisks == BX_KVM_DISKS_MAX || (*v != 'r' && *v != 'w')) {
            return false;
        }
        o->disk_read_only[o->ndisks++] = *v == 'r';
    }
    return true;
}

static bool set_mac(struct bx_vm_options *o, const char *v)
{
    uint8_t *m = o->mac;
    int end = 0;

    o->net = true;
    return sscanf(v, "%2hhx:%2hhx:%2hhx:%2hhx:%2hhx:%2hhx%n", &m[0], &m[1], &m[2], &m[3], &m[4],
                  &m[5], &end) == 6 &&
           end == 17 && v[end] == '\0';
}

static bool set_started(struct bx_vm_options *o, const char *v)
{
    return bx_parse_u64(v, UINT64_MAX, &o->started) == 0;
}

/* Letters: i initramfs, s from a snapshot, h huge pages, t trace of the boot, j tell the stages of
 * confinement. */
static bool set_flags(struct bx_vm_options *o, const char *v)
{
    for (; *v; v++) {
        switch (*v) {
        case 'i':
            o->initramfs = true;
            break;
        case 's':
            o->restore = true;
            break;
        case 'h':
            o->huge_pages = true;
            break;
        case 'j':
            o->tell_stages = true;
            break;
        case 't':
            o->trace_boot = true;
            break;
        default:
            return false;
        }
    }
    return true;
}

int bx_vm_options_parse(int argc, char **argv, struct bx_vm_options *ret, boxlite_error **err)
{
    static const struct {
        const char *name;
        bool (*set)(struct bx_vm_options *o, const char *value);
    } options[] = {
        {"name=", set_name},       {"cmdline=", set_cmdline}, {"cpus=", set_cpus},
        {"memory=", set_memory},   {"disks=", set_disks},     {"mac=", set_mac},
        {"started=", set_started}, {"flags=", set_flags},
    };

    *ret = (struct bx_vm_options){.name = "?", .cmdline = "", .cpus = 1, .memory = 512ull << 20};
    for (int i = 1; i < argc; i++) {
        bool good = false;

        for (size_t j = 0; j < BX_ARRAY_SIZE(options); j++) {
            if (bx_startswith(argv[i], options[j].name)) {
                good = options[j].set(ret, argv[i] + strlen(options[j].name));
                break;
            }
        }
        if (!good) {
            return bx_fail(err, BOXLITE_E_INVALID,
                           "'%.64s': this program is started by BoxLite and is of no use alone",
                           argv[i]);
        }
    }
    return 0;
}
