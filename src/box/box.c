/* SPDX-License-Identifier: Apache-2.0 */
/*
 * box.c: box handles: opening, the state, what is known of a box. See box.h.
 *
 * What is derived, from what: boxconfig.h. A shim that does not tell its state within a second
 * counts as running, since it holds the lock.
 */
#include "box/box.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/error.h"
#include "base/fd.h"
#include "base/json.h"
#include "base/timeutil.h"
#include "box/cost.h"
#include "box/shimfind.h"
#include "box/shimproc.h"

static const char *const state_names[] = {
    [BOXLITE_BOX_CREATED] = "created",   [BOXLITE_BOX_STARTING] = "starting",
    [BOXLITE_BOX_RUNNING] = "running",   [BOXLITE_BOX_PAUSED] = "paused",
    [BOXLITE_BOX_STOPPING] = "stopping", [BOXLITE_BOX_STOPPED] = "stopped",
};

const char *bx_box_state_name(int state)
{
    return state >= 0 && state < (int)BX_ARRAY_SIZE(state_names) ? state_names[state] : "unknown";
}

/* ---- Handles --------------------------------------------------------------------------------- */

static int read_config(boxlite_box *box, boxlite_error **err)
{
    struct bx_box_config config = {0};
    int r = bx_box_config_read(box->fd, &config, err);

    for (size_t i = 0; r == 0 && i < config.labels.n; i++) {
        const char *label = config.labels.v[i];
        r = bx_strv_add_mem(&box->label_names, label, strcspn(label, "="));
        r = r < 0 ? bx_fail_oom(err) : 0;
    }
    if (r < 0) {
        bx_strv_done(&box->label_names);
        box->label_names = (struct bx_strv){0};
        bx_box_config_done(&config);
        return r;
    }
    box->config = config;
    box->have_config = true;
    return 0;
}

const char *bx_box_label_name(const boxlite_box *box, size_t i)
{
    return i < box->label_names.n ? box->label_names.v[i] : NULL;
}

int bx_box_from_row(boxlite_runtime *rt, struct bx_box_row *take, boxlite_box **ret,
                    boxlite_error **err)
{
    _cleanup_close_ int boxes = -1;
    boxlite_box *box;
    int r = bx_home_dir(rt->home, "boxes", &boxes, err);

    if (r < 0) {
        return r;
    }
    box = calloc(1, sizeof(*box));
    if (!box) {
        return bx_fail_oom(err);
    }
    box->rt = rt;
    box->keep_fd = -1;
    box->row = *take;
    *take = (struct bx_box_row){0};
    box->fd = openat(boxes, box->row.id, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (box->fd < 0 && errno != ENOENT && errno != ENOTDIR && errno != ELOOP) {
        r = bx_fail_errno(err, BOXLITE_E_IO, errno, "opening the folder of box %s", box->row.name);
        bx_box_free(box);
        return r;
    }
    if (box->fd >= 0) {
        (void)read_config(box, NULL); /* a damaged one is told when it is needed */
    }
    *ret = box;
    return 0;
}

int bx_box_open(boxlite_runtime *rt, const char *name_or_id, boxlite_box **ret, boxlite_error **err)
{
    struct bx_box_row row = {0};
    _cleanup_box_ boxlite_box *box = NULL;
    int r = bx_store_box_find(rt->store, name_or_id, &row, err);

    if (r == BOXLITE_E_NOT_FOUND) {
        bx_hint(err, "see the boxes with: boxlite ls --all");
    }
    if (r < 0) {
        return r;
    }
    if (row.auto_remove) {
        bx_sweep_box(rt, row.id); /* it may have stopped just now */
    }
    r = bx_box_from_row(rt, &row, &box, err);
    bx_box_row_done(&row);
    if (r < 0) {
        return r;
    }
    if (box->row.auto_remove && bx_box_need_folder(box, NULL) < 0) {
        return bx_fail(err, BOXLITE_E_NOT_FOUND, "no box %s", name_or_id);
    }
    *ret = steal_ptr(&box);
    return 0;
}

void bx_box_free(boxlite_box *box)
{
    if (!box) {
        return;
    }
    bx_client_unref(box->client);
    bx_box_config_done(&box->config);
    bx_strv_done(&box->label_names);
    bx_box_row_done(&box->row);
    bx_close(&box->keep_fd);
    bx_close(&box->fd);
    free(box->json);
    free(box->vmm);
    free(box->engine);
    free(box);
}

int bx_box_need_folder(boxlite_box *box, boxlite_error **err)
{
    _cleanup_close_ int boxes = -1;
    struct stat there, here;
    int r = bx_home_dir(box->rt->home, "boxes", &boxes, err);

    if (r < 0) {
        return r;
    }
    if (box->fd >= 0 && fstatat(boxes, box->row.id, &there, AT_SYMLINK_NOFOLLOW) == 0 &&
        fstat(box->fd, &here) == 0 && there.st_ino == here.st_ino && there.st_dev == here.st_dev &&
        !(box->row.auto_remove && bx_box_emptied(box->fd))) {
        return 0;
    }
    return bx_fail(err, BOXLITE_E_NOT_FOUND, "box %s was removed", box->row.name);
}

int bx_box_need_config(boxlite_box *box, boxlite_error **err)
{
    if (box->have_config) {
        return 0;
    }
    int r = bx_box_need_folder(box, err);
    if (r == 0) {
        r = read_config(box, err);
    }
    if (r < 0) {
        bx_wrap(err, "box %s", box->row.name);
    }
    return r;
}

int bx_box_need_client(boxlite_box *box, boxlite_error **err)
{
    int r;
    if (box->client && bx_client_open(box->client) && !bx_client_over(box->client)) {
        return 0;
    }
    r = bx_box_need_folder(box, err);
    if (r < 0) {
        return r;
    }
    bx_client_unref(steal_ptr(&box->client));
    if (bx_client_lookup(box->rt, box->row.id) == NULL && bx_shim_running(box->fd) == 0) {
        r = bx_fail(err, BOXLITE_E_STATE, "box %s is not running", box->row.name);
        bx_hint(err, "start it with: boxlite start %s", box->row.name);
        return r;
    }
    r = bx_client_connect(box->rt, box->row.id, box->fd, &box->client, err);
    if (r == BOXLITE_E_STATE) {
        boxlite_error_free(err ? steal_ptr(err) : NULL);
        return bx_fail(err, BOXLITE_E_STATE, "box %s is just starting or ending", box->row.name);
    }
    return r;
}

/* ---- State ----------------------------------------------------------------------------------- */

bool bx_box_emptied(int box_fd)
{
    return faccessat(box_fd, "config.json", F_OK, 0) < 0 && errno == ENOENT;
}

int bx_box_state_at_rest(int box_fd, boxlite_error **err)
{
    int r = bx_shim_running(box_fd);
    if (r < 0) {
        return bx_fail_errno(err, BOXLITE_E_IO, r, "looking at a box' lock");
    }
    if (r == 1) {
        return BOXLITE_BOX_RUNNING;
    }
    if (faccessat(box_fd, "exit.json", F_OK, 0) == 0 ||
        faccessat(box_fd, "started", F_OK, 0) == 0) {
        return BOXLITE_BOX_STOPPED;
    }
    return BOXLITE_BOX_CREATED;
}

static bool state_known(void *data)
{
    struct bx_client *c = data;
    return bx_client_state(c) >= 0 || !bx_client_open(c);
}

int bx_box_state(boxlite_box *box, boxlite_error **err)
{
    _cleanup_error_ boxlite_error *ignored = NULL;
    int r = bx_box_need_folder(box, err);
    if (r < 0) {
        return r;
    }
    r = bx_box_state_at_rest(box->fd, err);
    if (r != BOXLITE_BOX_RUNNING) {
        return r;
    }
    if (bx_box_need_client(box, NULL) < 0) {
        return BOXLITE_BOX_STARTING; /* locked, but nobody listens yet */
    }
    if (!state_known(box->client) && !box->rt->dispatching) {
        (void)bx_runtime_wait(box->rt, state_known, box->client, bx_client_answer_by(box->client),
                              "asking for the state", &ignored);
    }
    r = bx_client_state(box->client);
    return r < 0 ? BOXLITE_BOX_RUNNING : r;
}

const char *bx_box_engine(boxlite_box *box)
{
    const char *engine = NULL;
    if (box->client && bx_client_open(box->client)) {
        engine = bx_client_engine(box->client);
    }
    if (!engine || !*engine) {
        engine = box->have_config ? box->config.engine : "auto";
    }
    char *copy = strdup(engine);
    if (copy) {
        free(box->engine);
        box->engine = copy;
    }
    return box->engine ? box->engine : "auto";
}

int bx_box_set_detached(boxlite_box *box, bool on, boxlite_error **err)
{
    _cleanup_close_ int lock = -1;
    int r = bx_box_need_config(box, err);
    if (r == 0) {
        r = bx_box_need_folder(box, err);
    }
    if (r < 0) {
        return r;
    }
    lock = bx_shim_lock(box->fd);
    if (lock == -EAGAIN) {
        return bx_fail(err, BOXLITE_E_STATE, "box %s is running", box->row.name);
    }
    if (lock < 0) {
        return bx_fail_errno(err, BOXLITE_E_IO, lock, "locking box %s", box->row.name);
    }
    bool before = box->config.detached;
    box->config.detached = on;
    r = before == on ? 0 : bx_box_config_write(&box->config, box->fd, err);
    if (r < 0) {
        box->config.detached = before;
    }
    return r;
}

int bx_box_keep(boxlite_box *box, bool on, boxlite_error **err)
{
    int r;
    if (on == (box->keep_fd >= 0)) {
        return 0;
    }
    if (!on) {
        bx_close(&box->keep_fd);
        if (box->row.auto_remove) {
            bx_sweep_box(box->rt, box->row.id);
        }
        return 0;
    }
    r = bx_box_need_folder(box, err);
    if (r < 0) {
        return r;
    }
    r = bx_box_keep_lock(box->fd);
    if (r < 0) {
        return r == -EAGAIN
                   ? bx_fail(err, BOXLITE_E_STATE, "another one keeps box %s", box->row.name)
                   : bx_fail_errno(err, BOXLITE_E_IO, r, "keeping box %s", box->row.name);
    }
    box->keep_fd = r;
    return 0;
}

/* ---- JSON ------------------------------------------------------------------------------------ */

static int add_time(json_t *obj, const char *key, int64_t seconds)
{
    char text[32];
    return seconds > 0
               ? bx_json_set(obj, key, json_string(bx_format_rfc3339(seconds, text, sizeof(text))))
               : 0;
}

/* How the last run ended. */
static int add_end(boxlite_box *box, json_t *obj)
{
    struct bx_box_exit end = {0};
    int r;

    if (bx_box_exit_read(box->fd, &end, NULL) < 0) {
        return bx_json_set(obj, "error",
                           json_string("the box was lost: its supervisor was killed"));
    }
    r = add_time(obj, "started_at", end.started);
    r = r < 0 ? r : add_time(obj, "ended_at", end.ended);
    if (r == 0 && end.engine) {
        r = bx_json_set(obj, "engine_used", json_string(end.engine));
    }
    if (r == 0 && end.error) {
        r = bx_json_set(obj, "error", json_string(end.error));
    }
    if (r == 0 && end.hint) {
        r = bx_json_set(obj, "hint", json_string(end.hint));
    }
    bx_box_exit_done(&end);
    return r;
}

/* The main command's result, if it has one. */
static int add_result(boxlite_box *box, json_t *obj)
{
    struct bx_exec_exit end = {0};
    char dir[32];

    (void)snprintf(dir, sizeof(dir), "execs/%u", BX_MAIN_EXEC);
    _cleanup_close_ int fd = openat(box->fd, dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0 || bx_exec_exit_read(fd, "result.json", &end, NULL) < 0) {
        return 0;
    }
    int r = bx_json_set(obj, "exit_code", json_integer(end.code));
    bx_exec_exit_done(&end);
    return r;
}

static int add_now(boxlite_box *box, json_t *obj, int state)
{
    /* The file has the header's number; people and scripts want the word of the command line. */
    bool user = box->config.network == BOXLITE_NETWORK_USER;
    int r = bx_json_set(obj, "network", json_string(user ? "user" : "none"));
    r = r < 0 ? r : bx_json_set(obj, "state", json_string(bx_box_state_name(state)));
    r = r < 0 ? r : add_time(obj, "created_at", box->row.created);
    r = r < 0 ? r : bx_json_set(obj, "disk_used", json_integer((json_int_t)bx_cost_disk(box->fd)));
    if (r == 0 && state == BOXLITE_BOX_STOPPED) {
        r = add_end(box, obj);
        return r < 0 ? r : add_result(box, obj);
    }
    if (r == 0 && state != BOXLITE_BOX_CREATED) {
        struct stat st;
        int pid = bx_shim_pid(box->fd);
        r = bx_json_set(obj, "engine_used", json_string(bx_box_engine(box)));
        if (r == 0 && pid >= 0) {
            r = bx_json_set(obj, "pid", json_integer(pid));
            r = r < 0 ? r
                      : bx_json_set(obj, "memory_used",
                                    json_integer((json_int_t)bx_cost_memory(pid)));
        }
        if (r == 0 && fstatat(box->fd, "started", &st, AT_SYMLINK_NOFOLLOW) == 0) {
            r = add_time(obj, "started_at", st.st_mtime);
        }
    }
    if (r == 0 && box->client && bx_client_release(box->client)) {
        r = bx_json_set(obj, "kernel_release", json_string(bx_client_release(box->client)));
    }
    return r;
}

int bx_box_json(boxlite_box *box, const char **ret, boxlite_error **err)
{
    _cleanup_free_ char *config = NULL, *text = NULL;
    _cleanup_json_ json_t *obj = NULL;
    int state = bx_box_state(box, err);
    int r = state < 0 ? state : bx_box_need_config(box, err);

    if (r < 0) {
        return r;
    }
    config = bx_box_config_text(&box->config);
    if (!config) {
        return bx_fail_oom(err);
    }
    r = bx_json_parse(config, strlen(config), "the box' configuration", &obj, err);
    if (r < 0) {
        return r;
    }
    if (add_now(box, obj, state) < 0 || !(text = bx_json_text(obj))) {
        return bx_fail_oom(err);
    }
    free(box->json);
    box->json = steal_ptr(&text);
    *ret = box->json;
    return 0;
}
