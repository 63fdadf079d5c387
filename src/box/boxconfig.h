/* SPDX-License-Identifier: Apache-2.0 */
/*
 * boxconfig.h: what a box is made of, as it stands in boxes/ID/config.json: written by the library
 * at create, read by the shim at each start (and, since a home can be damaged, checked like
 * outside input).
 *
 * boxes/ID/ holds:
 *   config.json    this
 *   upper.img      the writable disk
 *   lock           locked exclusively (F_OFD_SETLK) by the shim for its whole life: "is it
 *                  running?" is asked of the lock, never of a pid. The shim writes its pid and
 *                  start time there, to be found if it does not answer.
 *   kept           locked exclusively by who keeps a box with auto_remove over its next stop
 *                  (boxlite_box_keep()); not there or not locked: nobody
 *   control.sock   where clients connect (through /proc/self/fd/N/control.sock: no path length
 *                  limit is met)
 *   started        made at each start, removed once exit.json is written
 *   exit.json      how the last run ended: struct bx_box_exit, replaced atomically. Removed at the
 *                  next start. A box that is not locked and has "started" was lost: its shim was
 *                  killed.
 *   execs/N/       stdout, stderr: spools (spool.h: the first kept byte is where the file's data
 *                  begins), made with their first byte; result.json: struct bx_exec_exit, of the
 *                  main command only. Only execs/1, the main command's, outlives the run; all is
 *                  cleared by the next start.
 *   console.log    the guest console's tail; shim.log, engine.log for people
 * State is derived: locked and answering -> what the shim says; else exit.json or lost -> stopped;
 * else created.
 */
#ifndef BX_BOX_BOXCONFIG_H
#define BX_BOX_BOXCONFIG_H

#include <boxlite.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/str.h"
#include "box/record.h"

#define BX_BOX_CPUS_MAX 64u
#define BX_BOX_MEMORY_MIN (128ull << 20)
#define BX_BOX_MEMORY_MAX (1ull << 42)
#define BX_BOX_DISK_DEFAULT (10ull << 30)

#define BX_BOX_MOUNTS_MAX 128u

/* A folder or file of the host in the box. A workspace is a read-only share with an overlay over
 * it: what the box writes lies on its own disk, in BX_WORKSPACE_UPPER of its file system, N being
 * the mount's place in the list. */
#define BX_MOUNT_SHARE "share"
#define BX_MOUNT_WORKSPACE "workspace"
#define BX_WORKSPACE_UPPER "ws/%zu/upper"
struct bx_box_mount {
    char *kind;  /* BX_MOUNT_* */
    char *host;  /* absolute, without links */
    char *guest; /* absolute, normal */
    bool read_only;
};

struct bx_box_config {
    char *id, *name, *hostname;
    char *image, *digest; /* as named; manifest digest */
    char *rootfs;         /* path of the squashfs, relative to home */
    char *kernel;         /* name below kernels/ */
    char *engine;         /* as asked: "auto", … */
    uint32_t cpus;
    uint64_t memory, disk;
    int network; /* BOXLITE_NETWORK_* */
    bool auto_remove, detached;
    uint64_t timeout_ms;       /* 0: none */
    int64_t created;           /* seconds */
    struct bx_strv labels;     /* "name=value" */
    struct bx_rec_list mounts; /* of struct bx_box_mount */
    /* defaults of every command in this box: image config with the options' over it */
    struct bx_strv env; /* NAME=VALUE */
    char *workdir, *user, *stop_signal;
    /* the main command */
    bool main;
    struct bx_strv argv; /* entrypoint + command */
    uint16_t rows, cols; /* terminal, or 0, 0 */
    bool stdin_open;
};

void bx_box_config_done(struct bx_box_config *c);
int bx_box_config_write(const struct bx_box_config *c, int box_fd, boxlite_error **err);
int bx_box_config_read(int box_fd, struct bx_box_config *ret,
                       boxlite_error **err); /* checks all bounds */
char *bx_box_config_text(
    const struct bx_box_config *c); /* JSON, caller frees, NULL: out of memory */

static inline const struct bx_box_mount *bx_box_mounts(const struct bx_box_config *c)
{
    return c->mounts.v; /* c->mounts.n of them */
}
/* Makes a list's entry: copies all three strings. -ENOMEM. */
int bx_box_mount_add(struct bx_rec_list *list, const struct bx_box_mount *m);
void bx_box_mounts_done(struct bx_rec_list *list);

/* How a run of a box ended. */
struct bx_box_exit {
    int64_t started, ended; /* seconds */
    char *engine;           /* "qemu-tcg" */
    int code;               /* 0, or the BOXLITE_E_* code of the failure */
    char *error, *hint;     /* NULL when all was well */
};
void bx_box_exit_done(struct bx_box_exit *e);
int bx_box_exit_write(const struct bx_box_exit *e, int box_fd, boxlite_error **err);
int bx_box_exit_read(int box_fd, struct bx_box_exit *ret,
                     boxlite_error **err); /* NOT_FOUND: none */

/* How a command ended, on the wire and in result.json. */
struct bx_exec_exit {
    int32_t code, signal;
    uint32_t flags; /* BOXLITE_EXIT_* */
    uint64_t wall_us, user_us, system_us, max_rss;
    char *failure; /* why it was not started, or NULL */
};
void bx_exec_exit_done(struct bx_exec_exit *e);
struct bx_msg;
struct bx_buf;
int bx_exec_exit_from_msg(const struct bx_msg *m,
                          struct bx_exec_exit *ret);                       /* 0, -EPROTO, -ENOMEM */
int bx_exec_exit_to_msg(const struct bx_exec_exit *e, struct bx_buf *msg); /* appends the fields */
int bx_exec_exit_write(const struct bx_exec_exit *e, int dirfd, const char *name,
                       boxlite_error **err);
int bx_exec_exit_read(int dirfd, const char *name, struct bx_exec_exit *ret, boxlite_error **err);

/* What a command is started with; becomes the fields of BX_AG_EXEC / BX_SH_EXEC. */
struct bx_exec_spec {
    struct bx_strv argv, env;
    char *cwd, *user; /* NULL: the box's */
    uint32_t flags;   /* BX_EXEC_* of proto.h */
    uint16_t rows, cols;
    uint64_t timeout_ms;
    struct bx_exec_limit {
        uint64_t resource, soft, hard;
    } limits[16];
    size_t nlimits;
    char *builtin; /* or NULL */
    struct bx_buf files; /* FILE fields as they stand in a message */
    bool detached;
};
#define BX_EXEC_FILES_MAX (1u << 20)
/* Adds a file that is written before the command starts; 0, -ENOBUFS (over the maximum), -ENOMEM. */
int bx_exec_spec_add_file(struct bx_exec_spec *s, const char *path, const void *data, size_t len);
void bx_exec_spec_done(struct bx_exec_spec *s);
int bx_exec_spec_to_msg(const struct bx_exec_spec *s,
                        struct bx_buf *msg); /* appends; 0, -ENOBUFS, -ENOMEM */
int bx_exec_spec_from_msg(const struct bx_msg *m,
                          struct bx_exec_spec *ret); /* 0, -EPROTO, -ENOMEM */

#endif
