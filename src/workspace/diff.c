/* SPDX-License-Identifier: Apache-2.0 */
/*
 * diff.c: the changes of a box in one of its workspaces: from the guest, compared, without what the user does not want
 * to see, and with what the gate says of each.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "base/fd.h"
#include "base/io.h"
#include "base/path.h"
#include "base/spawn.h"
#include "base/timeutil.h"
#include "box/changes.h"
#include "box/quiet.h"
#include "workspace/session.h"

#define IGNORE_FILE ".boxliteignore"
#define IGNORE_MAX (256u << 10)
#define RULES_FILE "gate.rules"
#define GIT_MS 30000

/* Where the uppers are, as the agent sees them. */
#define UPPERS "/box/upper/" BX_WORKSPACE_UPPER

void bx_ws_changes_free(boxlite_changes *c)
{
    if (!c) {
        return;
    }
    bx_ws_changes_done(&c->list);
    bx_strv_done(&c->conflicts);
    if (c->home_tmp >= 0 && *c->name) {
        (void)bx_rm_rf(c->home_tmp, c->name);
    }
    int *fds[] = {&c->root, &c->dirfd, &c->lockfd, &c->home_tmp};
    for (size_t i = 0; i < BX_ARRAY_SIZE(fds); i++) {
        bx_close(fds[i]);
    }
    free(c->host);
    free(c->guest);
    free(c->json);
    free(c->text);
    free(c);
}

boxlite_changes *bx_ws_changes_new(const char *host, const char *guest)
{
    boxlite_changes *c = calloc(1, sizeof(*c));
    if (c) {
        *c = (boxlite_changes){.root = -1, .dirfd = -1, .lockfd = -1, .home_tmp = -1};
        c->conflicts.max = BX_WS_CHANGES_MAX;
        c->host = strdup(host);
        c->guest = strdup(guest);
    }
    if (c && (!c->host || !c->guest)) {
        bx_ws_changes_free(c);
        return NULL;
    }
    return c;
}

/* ---- which workspace */

int bx_ws_find(boxlite_box *box, const char *name, size_t *ret, boxlite_error **err)
{
    const struct bx_box_mount *m;
    size_t found = 0;
    int r = bx_box_need_config(box, err);
    if (r < 0) {
        return r;
    }
    m = bx_box_mounts(&box->config);
    for (size_t i = 0; i < box->config.mounts.n; i++) {
        if (bx_streq(m[i].kind, BX_MOUNT_WORKSPACE) &&
            (!name || bx_streq(name, m[i].guest) || bx_streq(name, m[i].host))) {
            *ret = i;
            found++;
        }
    }
    if (found == 1) {
        return 0;
    }
    r = found == 0 && name
            ? bx_fail(err, BOXLITE_E_NOT_FOUND, "box %s has no workspace %s", box->row.name, name)
        : found == 0
            ? bx_fail(err, BOXLITE_E_STATE, "box %s has no workspace", box->row.name)
            : bx_fail(err, BOXLITE_E_INVALID, "box %s has %zu workspaces", box->row.name, found);
    bx_hint(err, found ? "say which one with --workspace PATH"
                       : "make the box with: boxlite create --workspace DIR …");
    return r;
}

/* ---- from the guest */

static ssize_t read_copy(void *data, void *p, size_t size, boxlite_error **err)
{
    return bx_copy_read(data, p, size, err);
}

static int pull_started(boxlite_box *box, size_t index, int dirfd, struct bx_ws_pulled *ret,
                        boxlite_error **err)
{
    _cleanup_(bx_copy_done) struct bx_copy copy = {0};
    _cleanup_error_ boxlite_error *why = NULL, *end = NULL;
    char upper[64];
    (void)snprintf(upper, sizeof(upper), UPPERS, index);
    const char *guest = bx_box_mounts(&box->config)[index].guest;
    _cleanup_free_ char *merged = bx_asprintf("@%s", guest);
    if (!merged) {
        return bx_fail_oom(err);
    }
    int r = bx_ws_upper_for_tests ? bx_changes_start(box, bx_ws_upper_for_tests, "", &copy, err)
                                  : bx_changes_start(box, upper, merged, &copy, err);
    if (r < 0) {
        return r;
    }
    r = bx_ws_pull(read_copy, &copy, dirfd, BX_WS_LIMIT, ret, &why);
    if (r == 0 || r == BOXLITE_E_INTEGRITY) {
        int k = bx_copy_finish(&copy, &end); /* its own words say best why there is nothing */
        if (k == BOXLITE_E_NOT_FOUND) {
            if (r == 0) {
                bx_ws_pulled_done(ret);
            }
            *ret = (struct bx_ws_pulled){.dirfd = dirfd}; /* nothing was written yet */
            return 0;
        }
        if (k < 0) {
            if (r == 0) {
                bx_ws_pulled_done(ret);
            }
            return bx_fail_again(err, r < 0 ? why : end);
        }
    }
    return r < 0 ? bx_fail_again(err, why) : 0;
}

static int pull(boxlite_box *box, size_t index, int dirfd, struct bx_ws_pulled *ret,
                boxlite_error **err)
{
    _cleanup_quiet_ struct bx_quiet quiet = {0};
    int state = bx_box_state(box, err);
    if (state < 0) {
        return state;
    }
    if (state == BOXLITE_BOX_CREATED) { /* it has never run */
        *ret = (struct bx_ws_pulled){.dirfd = dirfd};
        return 0;
    }
    int r = bx_quiet_begin(box, &quiet, err);
    r = r < 0 ? r : pull_started(box, index, dirfd, ret, err);
    if (r == 0 && (r = bx_quiet_end(&quiet, err)) < 0) {
        bx_ws_pulled_done(ret);
    }
    return r;
}

const char *bx_ws_upper_for_tests;

/* ---- what is not wanted */

struct wanted {
    const struct bx_strv *paths;
    const struct bx_ws_ignore *ignore;
    struct bx_strv git; /* what git ignores, sorted */
};

static bool is_dir(const struct bx_ws_change *c)
{
    return (c->fresh.type ? c->fresh.type : c->old.type) == BX_WS_DIR;
}

static bool is_below(const char *path, const char *folder)
{
    size_t n = strlen(folder);
    return bx_streq(folder, ".") ||
           (strncmp(path, folder, n) == 0 && (path[n] == '\0' || path[n] == '/'));
}

static bool in_paths(const struct bx_ws_change *c, void *data)
{
    const struct wanted *w = data;
    for (size_t i = 0; i < w->paths->n; i++) {
        if (is_below(c->path, w->paths->v[i]) || (c->from && is_below(c->from, w->paths->v[i]))) {
            return true;
        }
    }
    return w->paths->n == 0;
}

static bool not_ignored(const struct bx_ws_change *c, void *data)
{
    const struct wanted *w = data;
    return !bx_ws_ignored(w->ignore, c->path, is_dir(c));
}

static bool not_git_ignored(const struct bx_ws_change *c, void *data)
{
    const struct wanted *w = data;
    for (size_t i = 0; i < w->git.n; i++) {
        if (bx_streq(w->git.v[i], c->path)) {
            return false;
        }
    }
    return true;
}

/* A user may write a path as it is here, in the box, or below the workspace. */
static int normal_path(const boxlite_changes *c, const char *given, char **ret, boxlite_error **err)
{
    const char *p = given;
    const char *const roots[] = {c->guest, c->host};
    for (size_t i = 0; i < BX_ARRAY_SIZE(roots) && *given == '/'; i++) {
        size_t n = strlen(roots[i]);
        if (strncmp(given, roots[i], n) == 0 && (given[n] == '/' || !given[n])) {
            p = given + n + (given[n] == '/');
            break;
        }
    }
    while (p[0] == '.' && p[1] == '/') {
        p += 2;
    }
    _cleanup_free_ char *path = strdup(*p ? p : ".");
    size_t n = path ? strlen(path) : 0;
    while (n > 1 && path[n - 1] == '/') {
        path[--n] = '\0';
    }
    if (!path) {
        return bx_fail_oom(err);
    }
    if (!bx_streq(path, ".") && !bx_ws_path_ok(path)) {
        int r = bx_fail(err, BOXLITE_E_INVALID, "\"%.200s\" is no path in the workspace %s", given,
                        c->host);
        bx_hint(err, "write it as it is called below that folder");
        return r;
    }
    *ret = steal_ptr(&path);
    return 0;
}

int bx_ws_normal_paths(const boxlite_changes *c, const struct bx_strv *given, struct bx_strv *ret,
                       boxlite_error **err)
{
    ret->max = 65536;
    for (size_t i = 0; i < given->n; i++) {
        _cleanup_free_ char *path = NULL;
        int r = normal_path(c, given->v[i], &path, err);
        if (r == 0 && bx_strv_add(ret, path) < 0) {
            r = bx_fail_oom(err);
        }
        if (r < 0) {
            return r;
        }
    }
    return 0;
}

static int make_ignore(int root, const struct bx_strv *excludes, struct bx_ws_ignore **ret,
                       boxlite_error **err)
{
    _cleanup_buf_ struct bx_buf text = BX_BUF_INIT(IGNORE_MAX);
    struct bx_ws_ignore *ig = NULL;
    _cleanup_close_ int fd = bx_ws_openat(root, IGNORE_FILE, O_RDONLY | O_NONBLOCK, 0);
    int r = fd < 0 ? 0 : bx_read_fd(fd, &text);
    if (r < 0) {
        return bx_fail_errno(err, BOXLITE_E_IO, r, "reading " IGNORE_FILE);
    }
    r = bx_ws_ignore_new(bx_buf_str(&text), &ig, err);
    for (size_t i = 0; r == 0 && i < excludes->n; i++) {
        r = bx_ws_ignore_add(ig, excludes->v[i], err);
    }
    if (r < 0) {
        bx_ws_ignore_free(ig);
        return r;
    }
    *ret = ig;
    return 0;
}

/* All changed paths, each with a NUL, through `git check-ignore`. Nothing of the guest is obeyed: the .gitignore files
 * are the host's. Without git, or outside a repository, nothing is ignored. */
static int ask_git(const boxlite_changes *c, struct bx_strv *ret, boxlite_error **err)
{
    _cleanup_free_ char *git = bx_find_program("git");
    _cleanup_buf_ struct bx_buf in = BX_BUF_INIT(1u << 30), out = BX_BUF_INIT(1u << 30);
    const char *const argv[] = {
        "git",          "-C", c->host,   "-c",         "core.fsmonitor=false",
        "check-ignore", "-z", "--stdin", "--no-index", NULL};
    int r = 0, status;
    ret->max = BX_WS_CHANGES_MAX;
    for (size_t i = 0; r == 0 && i < c->list.n; i++) {
        r = bx_buf_append(&in, c->list.v[i].path, strlen(c->list.v[i].path) + 1);
    }
    r = r < 0 ? r : bx_write_file(c->dirfd, "paths", bx_buf_data(&in), in.len, 0600);
    _cleanup_close_ int fd = r < 0 ? -1 : openat(c->dirfd, "paths", O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        return bx_fail_errno(err, BOXLITE_E_IO, r < 0 ? r : errno, "asking git");
    }
    const struct bx_spawn_fd fds[] = {{fd, STDIN_FILENO}};
    struct bx_spawn spec = {.path = git, .argv = argv, .fds = fds, .nfds = 1};
    r = git ? bx_run(&spec, &out, NULL, bx_deadline_ms(GIT_MS), &status, err) : 0;
    for (const char *p = bx_buf_str(&out), *end = p + out.len; r == 0 && p < end;
         p += strlen(p) + 1) {
        r = bx_strv_add(ret, p) < 0 ? bx_fail_oom(err) : 0;
    }
    return r;
}

static int drop_unwanted(boxlite_changes *c, const struct boxlite_change_options *o,
                         boxlite_error **err)
{
    _cleanup_(bx_strv_done) struct bx_strv paths = {0};
    struct bx_ws_ignore *ignore = NULL;
    struct wanted w = {.paths = &paths};
    int r = bx_ws_normal_paths(c, &o->paths, &paths, err);
    r = r < 0 ? r : make_ignore(c->root, &o->excludes, &ignore, err);
    if (r == 0) {
        w.ignore = ignore;
        bx_ws_changes_filter(&c->list, in_paths, &w, &c->list.outside);
        bx_ws_changes_filter(&c->list, not_ignored, &w, &c->list.ignored);
    }
    if (r == 0 && o->hide_git_ignored && c->list.n > 0) {
        r = ask_git(c, &w.git, err);
        bx_ws_changes_filter(&c->list, not_git_ignored, &w, &c->list.git_ignored);
    }
    bx_strv_done(&w.git);
    bx_ws_ignore_free(ignore);
    return r;
}

/* ---- the gate */

static bool is_change(const boxlite_changes *c, const char *path)
{
    for (size_t i = 0; i < c->list.n; i++) {
        if (bx_streq(c->list.v[i].path, path)) {
            return true;
        }
    }
    return false;
}

static int gate(boxlite_box *box, boxlite_changes *c, const struct boxlite_change_options *o,
                boxlite_error **err)
{
    _cleanup_buf_ struct bx_buf text = BX_BUF_INIT(IGNORE_MAX);
    _cleanup_(bx_strv_done) struct bx_strv allow = {.max = 65536};
    _cleanup_(bx_strv_done) struct bx_strv paths = {0};
    struct bx_ws_rules *rules = NULL;
    int r = bx_ws_rules_new(&rules, err);
    r = r < 0 ? r : bx_ws_normal_paths(c, &o->paths, &paths, err);
    int k = bx_read_file(box->rt->home->fd, RULES_FILE, &text);
    if (r == 0 && k < 0 && k != -ENOENT) {
        r = bx_fail_errno(err, BOXLITE_E_IO, k, "reading " RULES_FILE);
    }
    r = r < 0 ? r : bx_ws_rules_parse(rules, bx_buf_str(&text), err);
    r = r < 0                                                                   ? r
        : bx_strv_copy(&allow, (const char *const *)o->allow.v, o->allow.n) < 0 ? bx_fail_oom(err)
                                                                                : 0;
    for (size_t i = 0; r == 0 && i < paths.n; i++) { /* who names a file itself has seen it */
        r = is_change(c, paths.v[i]) && bx_strv_add(&allow, paths.v[i]) < 0 ? bx_fail_oom(err) : r;
    }
    r = r < 0 ? r : bx_ws_gate(rules, &c->list, &allow, err);
    bx_ws_rules_free(rules);
    return r;
}

/* ---- together */

int bx_ws_open(boxlite_box *box, size_t index, boxlite_changes **ret, boxlite_error **err)
{
    const struct bx_box_mount *m = &bx_box_mounts(&box->config)[index];
    boxlite_changes *c = bx_ws_changes_new(m->host, m->guest);
    if (!c) {
        return bx_fail_oom(err);
    }
    int r = bx_ws_open_root(c->host, &c->root, err);
    r = r < 0 ? r
              : bx_home_tmp_dir(box->rt->home, "changes", &c->home_tmp, &c->lockfd, c->name,
                                sizeof(c->name), err);
    if (r == 0) {
        c->dirfd = openat(c->lockfd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        r = c->dirfd < 0 ? bx_fail_errno(err, BOXLITE_E_IO, errno, "a folder for changes") : 0;
    }
    if (r < 0) {
        bx_ws_changes_free(c);
        return r;
    }
    *ret = c;
    return 0;
}

int bx_ws_collect(boxlite_box *box, const struct boxlite_change_options *o, size_t *ret_index,
                  boxlite_changes **ret, boxlite_error **err)
{
    _cleanup_(bx_ws_baseline_done) struct bx_ws_baseline base = {0};
    struct bx_ws_pulled pulled = {.dirfd = -1};
    boxlite_changes *c = NULL;
    char name[32];
    size_t index = 0;
    int r = bx_ws_find(box, o->workspace, &index, err);
    r = r < 0 ? r : bx_ws_prepare(box, err);
    r = r < 0 ? r : bx_ws_open(box, index, &c, err);
    if (r < 0) {
        return r;
    }
    (void)snprintf(name, sizeof(name), "baseline.%zu", index);
    _cleanup_close_ int dir = bx_ws_box_dir(box, false);
    r = bx_ws_baseline_read(dir, name, &base, err);
    if (r == 0 && (r = pull(box, index, c->dirfd, &pulled, err)) == 0) {
        r = bx_ws_compare(c->root, &base, &pulled, &c->list, err);
        bx_ws_pulled_done(&pulled);
    }
    r = r < 0 ? r : drop_unwanted(c, o, err);
    r = r < 0 ? r : gate(box, c, o, err);
    if (r < 0) {
        bx_ws_changes_free(c);
        return r;
    }
    *ret_index = index;
    *ret = c;
    return 0;
}

int bx_ws_diff(boxlite_box *box, const struct boxlite_change_options *o, boxlite_changes **ret,
               boxlite_error **err)
{
    size_t index;
    int r = bx_ws_collect(box, o, &index, ret, err);
    if (r < 0) {
        bx_wrap(err, "changes of box %s", box->row.name);
    }
    return r;
}
