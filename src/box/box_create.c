/* SPDX-License-Identifier: Apache-2.0 */
/*
 * box_create.c: making a box: everything is checked and resolved first, then the folder is made
 * whole in tmp/, renamed to its place, and last the row is put in. The maker holds a lock on the
 * folder until then (home.h), so that no sweep takes it for a left-over; a crash at any point
 * leaves something that the next sweep removes.
 *
 * What a command gets in a box is the image's configuration with the options' over it, by Docker's
 * rules: an entrypoint replaces the image's and drops its command; a command replaces the image's;
 * environment variables replace those of the same name.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "base/error.h"
#include "base/fd.h"
#include "base/random.h"
#include "box/box.h"
#include "box/mounts.h"
#include "box/options.h"
#include "disk/upper.h"

#define ID_DIGITS 16
#define NAME_ATTEMPTS 16u
#define PATH_DEFAULT "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
#define MAKING_SPACE (8ull << 20) /* what a new box takes at most before it writes */

/* ---- What the options ask of this host ------------------------------------------------------- */

static int check_host(const boxlite_runtime *rt, const boxlite_box_options *o, boxlite_error **err)
{
    long cpus = sysconf(_SC_NPROCESSORS_ONLN);

    if (cpus > 0 && o->cpus > (unsigned long)cpus) {
        return bx_fail(err, BOXLITE_E_INVALID, "cpus: %u asked, but this host has %ld", o->cpus,
                       cpus);
    }
    int r = bx_box_check_kernel(rt, o->kernel, err);
    if (r < 0) {
        return r;
    }
    return bx_mounts_check(&o->mounts, rt->home->path, err);
}

/* ---- Image and options put together ---------------------------------------------------------- */

static int append_all(struct bx_strv *to, const struct bx_strv *from)
{
    int r = 0;
    for (size_t i = 0; r == 0 && i < from->n; i++) {
        r = bx_strv_add(to, from->v[i]);
    }
    return r;
}

/* Puts NAME=VALUE entries into an environment, the later over the earlier. */
static int merge_env(struct bx_strv *env, const struct bx_strv *from)
{
    int r = 0;
    for (size_t i = 0; r == 0 && i < from->n; i++) {
        const char *eq = strchr(from->v[i], '=');
        if (!eq || eq == from->v[i]) {
            continue; /* an image may carry nonsense */
        }
        _cleanup_free_ char *name = strndup(from->v[i], (size_t)(eq - from->v[i]));
        r = name ? bx_strv_setenv(env, name, eq + 1) : -ENOMEM;
    }
    return r;
}

static int merge_argv(const boxlite_box_options *o, const struct bx_image_run *run,
                      struct bx_strv *argv)
{
    const struct bx_strv none = {0};
    const struct bx_strv *entrypoint = o->entrypoint_set ? &o->entrypoint : &run->entrypoint;
    const struct bx_strv *command = o->command_set      ? &o->command
                                    : o->entrypoint_set ? &none
                                                        : &run->cmd;
    int r = append_all(argv, entrypoint);
    return r < 0 ? r : append_all(argv, command);
}

static int merge(const boxlite_box_options *o, const struct bx_image_run *run,
                 struct bx_box_config *c, boxlite_error **err)
{
    const struct bx_strv path = {.v = (char *[]){(char[]){PATH_DEFAULT}, NULL}, .n = 1};
    int r = merge_env(&c->env, &path);

    r = r < 0 ? r : merge_env(&c->env, &run->env);
    r = r < 0 ? r : merge_env(&c->env, &o->env);
    r = r < 0 ? r : merge_argv(o, run, &c->argv);
    r = r < 0 ? r : merge_env(&c->labels, &run->labels);
    r = r < 0 ? r : merge_env(&c->labels, &o->labels);
    if (r == -E2BIG) {
        return bx_fail(err, BOXLITE_E_INVALID,
                       "image and options have too many variables or arguments");
    }
    for (size_t i = 0; r == 0 && i < o->mounts.n; i++) {
        r = bx_box_mount_add(&c->mounts, (const struct bx_box_mount *)o->mounts.v + i);
    }
    if (r < 0) {
        return bx_fail_oom(err);
    }
    if (o->main && (c->argv.n == 0 || c->argv.v[0][0] == '\0')) {
        bx_fail(err, BOXLITE_E_INVALID, "command: image %s names none, and none was given",
                o->image);
        bx_hint(err, "give a command to run");
        return BOXLITE_E_INVALID;
    }
    if (!o->main) {
        bx_strv_done(&c->argv);
        c->argv = (struct bx_strv){0};
    }
    return 0;
}

/* The root image's path relative to home. */
static int rootfs_path(const boxlite_runtime *rt, const struct bx_image_row *row, char **ret,
                       boxlite_error **err)
{
    _cleanup_close_ int fd = -1;
    _cleanup_free_ char *path = NULL;
    size_t home = strlen(rt->home->path);
    int r = bx_image_root(&rt->images, row, &fd, &path, err);

    if (r < 0) {
        return r;
    }
    const char *relative = path;
    if (strncmp(path, rt->home->path, home) == 0 && path[home] == '/') {
        relative = path + home + strspn(path + home, "/");
    }
    *ret = strdup(relative);
    return *ret ? 0 : bx_fail_oom(err);
}

static int set_texts(const boxlite_box_options *o, const struct bx_image_row *row,
                     const struct bx_image_run *run, struct bx_box_config *c, boxlite_error **err)
{
    const struct {
        char **field;
        const char *value;
    } texts[] = {
        {&c->image, o->image},
        {&c->digest, row->digest},
        {&c->kernel, o->kernel ? o->kernel : "default"},
        {&c->engine, o->engine ? o->engine : "auto"},
        {&c->workdir, o->workdir      ? o->workdir
                      : *run->workdir ? run->workdir
                                      : "/"},
        {&c->user, o->user ? o->user : run->user},
        {&c->stop_signal, run->stop_signal},
    };
    for (size_t i = 0; i < BX_ARRAY_SIZE(texts); i++) {
        if (!(*texts[i].field = strdup(texts[i].value))) {
            return bx_fail_oom(err);
        }
    }
    return 0;
}

static int make_config(boxlite_runtime *rt, const boxlite_box_options *o, struct bx_box_config *c,
                       boxlite_error **err)
{
    struct bx_image_row row = {0};
    struct bx_image_run run = {0};
    int r = bx_image_find(&rt->images, o->image, &row, err);

    if (r == BOXLITE_E_NOT_FOUND) {
        bx_hint(
            err,
            "see the images here with: boxlite image ls; bring one with: boxlite pull, boxlite image "
            "import or boxlite image load");
    }
    if (r == 0) {
        r = bx_image_run_parse(row.config, &run, err);
    }
    if (r == 0) {
        r = set_texts(o, &row, &run, c, err);
    }
    if (r == 0) {
        r = merge(o, &run, c, err);
    }
    if (r == 0) {
        r = rootfs_path(rt, &row, &c->rootfs, err);
    }
    bx_image_row_done(&row);
    bx_image_run_done(&run);
    c->cpus = o->cpus;
    c->memory = o->memory;
    c->disk = o->disk;
    c->network = o->network;
    c->auto_remove = o->auto_remove;
    c->detached = o->detached;
    c->timeout_ms = o->timeout_ms;
    c->created = (int64_t)time(NULL);
    c->main = o->main;
    c->rows = o->rows;
    c->cols = o->cols;
    c->stdin_open = o->main && o->stdin_open;
    return r;
}

/* ---- On disk --------------------------------------------------------------------------------- */

/* Writes the row; a name that is taken is EXISTS. */
static int insert_row(boxlite_runtime *rt, const struct bx_box_config *c, struct bx_box_row *row,
                      boxlite_error **err)
{
    row->id = strdup(c->id);
    row->name = strdup(c->name);
    row->image = strdup(c->image);
    row->digest = strdup(c->digest);
    row->config = bx_box_config_text(c);
    row->created = c->created;
    row->auto_remove = c->auto_remove;
    if (!row->id || !row->name || !row->image || !row->digest || !row->config) {
        return bx_fail_oom(err);
    }
    return bx_store_box_insert(rt->store, row, err);
}

/* The folder, whole, under boxes/ID; *ret_lock keeps the sweep away until the row is in. */
static int make_folder(boxlite_runtime *rt, const struct bx_box_config *c, int *ret_lock,
                       boxlite_error **err)
{
    _cleanup_close_ int boxes = -1, tmp = -1, fd = -1;
    char name[64];
    int r = bx_home_need_space(rt->home, MAKING_SPACE, "a new box", err);

    if (r == 0) {
        r = bx_home_dir(rt->home, "boxes", &boxes, err);
    }
    if (r == 0) {
        r = bx_home_tmp_dir(rt->home, "box", &tmp, &fd, name, sizeof(name), err);
    }
    if (r == 0) {
        r = bx_upper_create(rt->home, c->disk, fd, "upper.img", err);
    }
    if (r == 0) {
        r = bx_box_config_write(c, fd, err);
    }
    if (r == 0 && renameat(tmp, name, boxes, c->id) < 0) {
        r = bx_fail_errno(err, BOXLITE_E_IO, errno, "making the folder boxes/%s", c->id);
    }
    if (r < 0) {
        return r; /* the next sweep of tmp/ takes what is there, as after a crash */
    }
    *ret_lock = steal_fd(&fd);
    return 0;
}

/* Gives the box its id and name, and writes it. EXISTS if the name is taken. */
static int make_box(boxlite_runtime *rt, struct bx_box_config *c, const char *name,
                    const char *hostname, struct bx_box_row *row, boxlite_error **err)
{
    _cleanup_close_ int lock = -1;
    char id[ID_DIGITS + 1];
    int r;

    bx_random_hex(id, ID_DIGITS);
    free(c->id);
    free(c->name);
    free(c->hostname);
    c->id = strdup(id);
    c->name = strdup(name);
    c->hostname = strdup(hostname ? hostname : name);
    if (!c->id || !c->name || !c->hostname) {
        return bx_fail_oom(err);
    }
    r = make_folder(rt, c, &lock, err);
    if (r < 0) {
        return r;
    }
    r = insert_row(rt, c, row, err);
    if (r < 0) {
        (void)bx_box_discard(rt, id, NULL);
    }
    return r;
}

static int make_named(boxlite_runtime *rt, struct bx_box_config *c, const boxlite_box_options *o,
                      struct bx_box_row *row, boxlite_error **err)
{
    if (o->name) {
        return make_box(rt, c, o->name, o->hostname, row, err);
    }
    for (unsigned attempt = 0;; attempt++) {
        _cleanup_free_ char *name = bx_box_random_name(attempt);
        _cleanup_error_ boxlite_error *error = NULL;
        if (!name) {
            return bx_fail_oom(err);
        }
        int r = make_box(rt, c, name, o->hostname, row, &error);
        if (r == 0 || r != BOXLITE_E_EXISTS || attempt == NAME_ATTEMPTS) {
            return r < 0 ? bx_fail_again(err, error) : 0;
        }
        bx_box_row_done(row);
        *row = (struct bx_box_row){0};
    }
}

int bx_box_create(boxlite_runtime *rt, const boxlite_box_options *o, boxlite_box **ret,
                  boxlite_error **err)
{
    struct bx_box_config c = {0};
    struct bx_box_row row = {0};
    int r = check_host(rt, o, err);

    if (r == 0) {
        r = make_config(rt, o, &c, err);
    }
    if (r == 0) {
        r = make_named(rt, &c, o, &row, err);
    }
    if (r == 0 && (r = bx_box_from_row(rt, &row, ret, err)) < 0) {
        /* A box that nobody was told of must not stay. */
        (void)bx_store_box_delete(rt->store, c.id, NULL);
        (void)bx_box_discard(rt, c.id, NULL);
    }
    bx_box_row_done(&row);
    bx_box_config_done(&c);
    if (r < 0) {
        bx_wrap(err, "creating a box");
    }
    return r;
}
