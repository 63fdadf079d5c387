/* SPDX-License-Identifier: Apache-2.0 */
/*
 * options.c: options of boxes and commands, as exported.
 */
#include "box/options.h"

#include <errno.h>
#include <string.h>

#include "api/api.h"
#include "box/mounts.h"
#include "disk/upper.h"
#include "wire/proto.h"

#define TIMEOUT_MAX (UINT64_C(1) << 53) /* ms; exact in JSON numbers */

/* ---- Boxes ----------------------------------------------------------------------------------- */

int boxlite_box_options_new(const char *image, boxlite_box_options **ret, boxlite_error **err)
{
    bx_need(image, err);
    bx_need(ret, err);
    return bx_box_options_new(image, ret, err);
}

void boxlite_box_options_free(boxlite_box_options *o)
{
    bx_box_options_free(o);
}

int boxlite_box_options_set_name(boxlite_box_options *o, const char *name, boxlite_error **err)
{
    bx_need(o, err);
    bx_need(name, err);
    int r = bx_check_name("name", name, err);
    return r < 0 ? r : bx_set_string(&o->name, name, err);
}

int boxlite_box_options_set_hostname(boxlite_box_options *o, const char *hostname,
                                     boxlite_error **err)
{
    bx_need(o, err);
    bx_need(hostname, err);
    int r = bx_check_name("hostname", hostname, err);
    return r < 0 ? r : bx_set_string(&o->hostname, hostname, err);
}

int boxlite_box_options_set_cpus(boxlite_box_options *o, uint32_t cpus, boxlite_error **err)
{
    bx_need(o, err);
    if (cpus < 1 || cpus > BX_BOX_CPUS_MAX) {
        return bx_fail(err, BOXLITE_E_INVALID, "cpus: %u is not from 1 to %u", cpus,
                       BX_BOX_CPUS_MAX);
    }
    o->cpus = cpus;
    return 0;
}

int boxlite_box_options_set_memory(boxlite_box_options *o, uint64_t bytes, boxlite_error **err)
{
    bx_need(o, err);
    if (bytes < BX_BOX_MEMORY_MIN || bytes > BX_BOX_MEMORY_MAX) {
        return bx_fail(err, BOXLITE_E_INVALID, "memory: %llu bytes is not from 128 MiB to 4 TiB",
                       (unsigned long long)bytes);
    }
    o->memory = bytes;
    return 0;
}

int boxlite_box_options_set_disk(boxlite_box_options *o, uint64_t bytes, boxlite_error **err)
{
    bx_need(o, err);
    if (bytes < BX_UPPER_MIN || bytes > BX_UPPER_MAX) {
        return bx_fail(err, BOXLITE_E_INVALID, "disk: %llu bytes is not from 64 MiB to 16 TiB",
                       (unsigned long long)bytes);
    }
    o->disk = bytes;
    return 0;
}

int boxlite_box_options_set_network(boxlite_box_options *o, int network, boxlite_error **err)
{
    bx_need(o, err);
    if (network != BOXLITE_NETWORK_NONE && network != BOXLITE_NETWORK_USER) {
        return bx_fail(err, BOXLITE_E_INVALID, "network: %d is no BOXLITE_NETWORK_*", network);
    }
    o->network = network;
    return 0;
}

int boxlite_box_options_set_engine(boxlite_box_options *o, const char *engine, boxlite_error **err)
{
    static const char *const engines[] = {"auto", "qemu", "qemu-tcg", "qemu-kvm", "kvm"};
    bx_need(o, err);
    bx_need(engine, err);
    for (size_t i = 0; i < BX_ARRAY_SIZE(engines); i++) {
        if (bx_streq(engine, engines[i])) {
            return bx_set_string(&o->engine, engine, err);
        }
    }
    bx_fail(err, BOXLITE_E_INVALID, "engine: \"%.80s\" is unknown", engine);
    bx_hint(err, "use auto, qemu, qemu-tcg, qemu-kvm or kvm");
    return BOXLITE_E_INVALID;
}

int boxlite_box_options_set_kernel(boxlite_box_options *o, const char *kernel, boxlite_error **err)
{
    bx_need(o, err);
    bx_need(kernel, err);
    int r = bx_check_name("kernel", kernel, err);
    return r < 0 ? r : bx_set_string(&o->kernel, kernel, err);
}

int boxlite_box_options_add_env(boxlite_box_options *o, const char *name, const char *value,
                                boxlite_error **err)
{
    bx_need(o, err);
    bx_need(name, err);
    bx_need(value, err);
    return bx_set_env(&o->env, "env", name, value, err);
}

int boxlite_box_options_add_label(boxlite_box_options *o, const char *name, const char *value,
                                  boxlite_error **err)
{
    bx_need(o, err);
    bx_need(name, err);
    bx_need(value, err);
    int r = bx_check_label(name, err);
    return r < 0 ? r : bx_set_env(&o->labels, "label", name, value, err);
}

int boxlite_box_options_set_workdir(boxlite_box_options *o, const char *dir, boxlite_error **err)
{
    bx_need(o, err);
    bx_need(dir, err);
    int r = bx_check_guest_path("workdir", dir, err);
    return r < 0 ? r : bx_set_string(&o->workdir, dir, err);
}

int boxlite_box_options_set_user(boxlite_box_options *o, const char *user, boxlite_error **err)
{
    bx_need(o, err);
    bx_need(user, err);
    int r = bx_check_user("user", user, err);
    return r < 0 ? r : bx_set_string(&o->user, user, err);
}

int boxlite_box_options_set_entrypoint(boxlite_box_options *o, const char *const *argv, size_t argc,
                                       boxlite_error **err)
{
    bx_need(o, err);
    bx_need(argv || argc == 0, err);
    int r = bx_set_argv(&o->entrypoint, "entrypoint", argv, argc, err);
    o->entrypoint_set = r == 0 || o->entrypoint_set;
    return r;
}

int boxlite_box_options_set_command(boxlite_box_options *o, const char *const *argv, size_t argc,
                                    boxlite_error **err)
{
    bx_need(o, err);
    bx_need(argv || argc == 0, err);
    int r = bx_set_argv(&o->command, "command", argv, argc, err);
    o->command_set = r == 0 || o->command_set;
    return r;
}

int boxlite_box_options_set_main(boxlite_box_options *o, int on, boxlite_error **err)
{
    bx_need(o, err);
    o->main = on != 0;
    return 0;
}

/* A terminal has both, or there is none. */
static int check_tty(uint16_t rows, uint16_t cols, boxlite_error **err)
{
    return (rows == 0) == (cols == 0)
               ? 0
               : bx_fail(err, BOXLITE_E_INVALID, "tty: %u rows and %u columns", rows, cols);
}

int boxlite_box_options_set_tty(boxlite_box_options *o, uint16_t rows, uint16_t cols,
                                boxlite_error **err)
{
    bx_need(o, err);
    int r = check_tty(rows, cols, err);
    if (r == 0) {
        o->rows = rows;
        o->cols = cols;
    }
    return r;
}

int boxlite_box_options_set_stdin(boxlite_box_options *o, int on, boxlite_error **err)
{
    bx_need(o, err);
    o->stdin_open = on != 0;
    return 0;
}

static int check_timeout(uint64_t ms, boxlite_error **err)
{
    return ms <= TIMEOUT_MAX ? 0
                             : bx_fail(err, BOXLITE_E_INVALID, "timeout: %llu ms is too long",
                                       (unsigned long long)ms);
}

int boxlite_box_options_set_timeout(boxlite_box_options *o, uint64_t ms, boxlite_error **err)
{
    bx_need(o, err);
    int r = check_timeout(ms, err);
    o->timeout_ms = r == 0 ? ms : o->timeout_ms;
    return r;
}

int boxlite_box_options_set_auto_remove(boxlite_box_options *o, int on, boxlite_error **err)
{
    bx_need(o, err);
    o->auto_remove = on != 0;
    return 0;
}

int boxlite_box_options_set_detached(boxlite_box_options *o, int on, boxlite_error **err)
{
    bx_need(o, err);
    o->detached = on != 0;
    return 0;
}

int boxlite_box_options_add_volume(boxlite_box_options *o, const char *host, const char *guest,
                                   int read_only, boxlite_error **err)
{
    bx_need(o, err);
    bx_need(host, err);
    bx_need(guest, err);
    return bx_mount_add(&o->mounts, BX_MOUNT_SHARE, host, guest, read_only != 0, err);
}

int boxlite_box_options_add_workspace(boxlite_box_options *o, const char *host, const char *guest,
                                      boxlite_error **err)
{
    bx_need(o, err);
    bx_need(host, err);
    return bx_mount_add(&o->mounts, BX_MOUNT_WORKSPACE, host, guest, false, err);
}

/* ---- Commands -------------------------------------------------------------------------------- */

int boxlite_exec_options_new(const char *const *argv, size_t argc, boxlite_exec_options **ret,
                             boxlite_error **err)
{
    bx_need(argv, err);
    bx_need(ret, err);
    return bx_exec_options_new(argv, argc, ret, err);
}

void boxlite_exec_options_free(boxlite_exec_options *o)
{
    bx_exec_options_free(o);
}

int boxlite_exec_options_add_env(boxlite_exec_options *o, const char *name, const char *value,
                                 boxlite_error **err)
{
    bx_need(o, err);
    bx_need(name, err);
    bx_need(value, err);
    return bx_set_env(&o->spec.env, "env", name, value, err);
}

int boxlite_exec_options_set_workdir(boxlite_exec_options *o, const char *dir, boxlite_error **err)
{
    bx_need(o, err);
    bx_need(dir, err);
    int r = bx_check_guest_path("workdir", dir, err);
    return r < 0 ? r : bx_set_string(&o->spec.cwd, dir, err);
}

int boxlite_exec_options_set_user(boxlite_exec_options *o, const char *user, boxlite_error **err)
{
    bx_need(o, err);
    bx_need(user, err);
    int r = bx_check_user("user", user, err);
    return r < 0 ? r : bx_set_string(&o->spec.user, user, err);
}

static void set_flag(boxlite_exec_options *o, uint32_t flag, int on)
{
    o->spec.flags = on ? o->spec.flags | flag : o->spec.flags & ~flag;
}

int boxlite_exec_options_set_tty(boxlite_exec_options *o, uint16_t rows, uint16_t cols,
                                 boxlite_error **err)
{
    bx_need(o, err);
    int r = check_tty(rows, cols, err);
    if (r == 0) {
        o->spec.rows = rows;
        o->spec.cols = cols;
        set_flag(o, BX_EXEC_TTY, rows != 0);
    }
    return r;
}

int boxlite_exec_options_set_stdin(boxlite_exec_options *o, int on, boxlite_error **err)
{
    bx_need(o, err);
    set_flag(o, BX_EXEC_STDIN, on);
    return 0;
}

int boxlite_exec_options_set_timeout(boxlite_exec_options *o, uint64_t ms, boxlite_error **err)
{
    bx_need(o, err);
    int r = check_timeout(ms, err);
    o->spec.timeout_ms = r == 0 ? ms : o->spec.timeout_ms;
    return r;
}

int boxlite_exec_options_add_rlimit(boxlite_exec_options *o, int resource, uint64_t soft,
                                    uint64_t hard, boxlite_error **err)
{
    bx_need(o, err);
    return bx_exec_options_add_rlimit(o, resource, soft, hard, err);
}

int boxlite_exec_options_add_file(boxlite_exec_options *o, const char *path, const void *data,
                                  size_t size, boxlite_error **err)
{
    bx_need(o, err);
    bx_need(path, err);
    if (size > 0) {
        bx_need(data, err);
    }
    if (!*path) {
        return bx_fail(err, BOXLITE_E_INVALID, "file: the path is empty");
    }
    int r = bx_exec_spec_add_file(&o->spec, path, data ? data : "", size);
    if (r == -ENOBUFS) {
        r = bx_fail(err, BOXLITE_E_INVALID, "file %s: more than %u KiB together", path,
                    BX_EXEC_FILES_MAX >> 10);
        bx_hint(err, "give large files to the command's standard input, or copy them in first");
        return r;
    }
    return r < 0 ? bx_fail_oom(err) : 0;
}

int boxlite_exec_options_set_detached(boxlite_exec_options *o, int on, boxlite_error **err)
{
    bx_need(o, err);
    o->spec.detached = on != 0;
    return 0;
}
