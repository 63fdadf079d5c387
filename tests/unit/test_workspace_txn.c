/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_workspace_txn.c: an apply is all or nothing: killed before each of its steps, killed again while it is taken
 * back, on a full disk, with something changing under it. And undo.
 */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/error.h"
#include "base/io.h"
#include "base/path.h"
#include "base/timeutil.h"
#include "harness.h"
#include "workspace/box.h"
#include "workspace/txn.h"

static int root, source, txns;
static char root_path[800];

static void put_at(int dir, const char *name, const char *text, mode_t mode)
{
    (void)unlinkat(dir, name, 0); /* as an editor does it: a new node; and without the cost of a sync */
    int fd = openat(dir, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    ASSERT_OK(fd);
    ASSERT_OK(bx_write_full(fd, text, strlen(text)));
    ASSERT_OK(fchmod(fd, mode));
    (void)close(fd);
}

static void open_all(void)
{
    (void)snprintf(root_path, sizeof(root_path), "%s/root", tmpdir());
    root = open(root_path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    source = openat(tmpdir_fd(), "source", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    txns = openat(tmpdir_fd(), "txns", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    ASSERT_OK(root);
    ASSERT_OK(source);
    ASSERT_OK(txns);
}

static void close_all(void)
{
    (void)close(root);
    (void)close(source);
    (void)close(txns);
}

/* A tree with one of each that can be changed. */
static void make_tree(void)
{
    static const char *const all[] = {"root", "source", "txns"};
    for (size_t i = 0; i < BX_ARRAY_SIZE(all); i++) {
        ASSERT_OK(bx_rm_rf(tmpdir_fd(), all[i]));
        ASSERT_OK(mkdirat(tmpdir_fd(), all[i], 0755));
    }
    open_all();
    put_at(root, "replaced", "old", 0644);
    put_at(root, "removed", "going", 0600);
    put_at(root, "renamed", "stays the same", 0644);
    put_at(root, "chmod", "x", 0644);
    put_at(root, "retyped", "was a file", 0644);
    ASSERT_OK(mkdirat(root, "dir", 0755));
    put_at(root, "dir/a", "a", 0644);
    ASSERT_OK(mkdirat(root, "gone", 0750));
    ASSERT_OK(mkdirat(root, "gone/deep", 0755));
    put_at(root, "gone/deep/f", "f", 0644);
    ASSERT_OK(symlinkat("dir/a", root, "link"));
    ASSERT_OK(mkdirat(root, "filed", 0755));
    put_at(source, "0", "new content", 0600);
    put_at(source, "1", "stays the same", 0600);
}

static void add(struct bx_ws_changes *l, enum bx_ws_kind kind, const char *path, const char *from,
                enum bx_ws_type type, uint32_t mode, const char *target, int file)
{
    struct bx_ws_change c = {.kind = kind,
                             .path = strdup(path),
                             .from = from ? strdup(from) : NULL,
                             .fresh = {.type = type, .mode = mode, .mtime_ns = 1700000000000000000},
                             .target = target ? strdup(target) : NULL,
                             .file = file};
    if (kind != BX_WS_ADDED) {
        ASSERT_OK(bx_ws_stat(root, from ? from : path, &c.old));
    }
    ASSERT_OK(bx_ws_changes_add(l, &c, ERR));
}

static struct bx_ws_plan make_plan(void)
{
    struct bx_ws_changes l = {0};
    struct bx_ws_plan plan = {0};
    add(&l, BX_WS_MODIFIED, "replaced", NULL, BX_WS_FILE, 0755, NULL, 0);
    add(&l, BX_WS_DELETED, "removed", NULL, 0, 0, NULL, -1);
    add(&l, BX_WS_RENAMED, "far/away/renamed", "renamed", BX_WS_FILE, 0644, NULL, 1);
    add(&l, BX_WS_MODE, "chmod", NULL, BX_WS_FILE, 0600, NULL, -1);
    add(&l, BX_WS_RETYPED, "retyped", NULL, BX_WS_DIR, 0700, NULL, -1);
    add(&l, BX_WS_ADDED, "retyped/in", NULL, BX_WS_FILE, 0644, NULL, 0);
    add(&l, BX_WS_DELETED, "gone", NULL, 0, 0, NULL, -1);
    add(&l, BX_WS_DELETED, "gone/deep", NULL, 0, 0, NULL, -1);
    add(&l, BX_WS_DELETED, "gone/deep/f", NULL, 0, 0, NULL, -1);
    add(&l, BX_WS_MODIFIED, "link", NULL, BX_WS_LINK, 0777, "dir", -1);
    add(&l, BX_WS_RETYPED, "filed", NULL, BX_WS_FILE, 0644, NULL, 0);
    add(&l, BX_WS_ADDED, "dir/fresh", NULL, BX_WS_FILE, 0644, NULL, 0);
    add(&l, BX_WS_MODE, "dir", NULL, BX_WS_DIR, 0700, NULL, -1);
    ASSERT_OK(bx_ws_plan_of(&l, root, &plan, ERR));
    bx_ws_changes_done(&l);
    return plan;
}

static struct bx_ws_txn txn(void)
{
    return (struct bx_ws_txn){
        .txns = txns, .path = root_path, .root = root, .source = source, .undo_max = 1 << 20};
}

/* Everything below the root, as text: what the tree is. */
static char *picture(void)
{
    struct bx_ws_baseline b = {0};
    struct bx_buf out = BX_BUF_INIT(1 << 20);
    ASSERT_OK(bx_ws_baseline_walk(root, &b, ERR));
    for (size_t i = 0; i < b.n; i++) {
        const struct bx_ws_entry *e = &b.v[i];
        struct bx_buf text = BX_BUF_INIT(1 << 16);
        char *target = NULL;
        if (e->node.type == BX_WS_FILE) {
            ASSERT_OK(bx_read_file(root, e->path, &text));
        } else if (e->node.type == BX_WS_LINK) {
            ASSERT_OK(bx_ws_readlink(root, e->path, &target));
        }
        ASSERT_OK(bx_buf_appendf(&out, "%s %d %o %s%s\n", e->path, e->node.type, e->node.mode,
                                 bx_buf_str(&text), target ? target : ""));
        bx_buf_done(&text);
        free(target);
    }
    bx_ws_baseline_done(&b);
    return bx_buf_steal(&out, NULL);
}

static void apply(void)
{
    struct bx_ws_plan plan = make_plan();
    struct bx_ws_txn t = txn();
    struct bx_strv conflicts = {.max = 100};
    char id[17];
    ASSERT_OK(bx_ws_txn_check(&t, &plan, &conflicts, ERR));
    ASSERT_EQ(conflicts.n, 0);
    ASSERT_OK(bx_ws_txn_run(&t, &plan, id, ERR));
    bx_ws_plan_done(&plan);
    bx_strv_done(&conflicts);
}

TEST(an_apply_and_its_undo)
{
    struct bx_ws_plan back = {0};
    char id[17];
    int old = -1;
    make_tree();
    char *before = picture();
    apply();
    char *after = picture();
    ASSERT_CONTAINS(after, "replaced 1 755 new content");
    ASSERT_CONTAINS(after, "far/away/renamed 1 644 stays the same");
    ASSERT_CONTAINS(after, "retyped/in 1 644 new content");
    ASSERT_CONTAINS(after, "link 3 777 dir\n");
    ASSERT_CONTAINS(after, "dir 2 700 ");
    ASSERT(!strstr(after, "gone"));
    ASSERT(!strstr(after, ".boxlite"));
    ASSERT_OK(bx_ws_txn_last(txns, root_path, id, &back, &old, ERR));
    struct bx_ws_txn t = txn();
    struct bx_strv conflicts = {.max = 100};
    t.source = old;
    t.undo_source = 1;
    ASSERT_OK(bx_ws_txn_check(&t, &back, &conflicts, ERR));
    ASSERT_EQ(conflicts.n, 0);
    ASSERT_OK(bx_ws_txn_run(&t, &back, id, ERR));
    char *undone = picture();
    ASSERT_STREQ(undone, before);
    free(before);
    free(after);
    free(undone);
    bx_ws_plan_done(&back);
    (void)close(old);
    close_all();
}

TEST(undo_sees_what_was_changed_since)
{
    struct bx_ws_plan back = {0};
    struct bx_strv conflicts = {.max = 100};
    char id[17];
    int old = -1;
    make_tree();
    apply();
    put_at(root, "replaced", "edited after the apply", 0755);
    ASSERT_OK(bx_ws_txn_last(txns, root_path, id, &back, &old, ERR));
    struct bx_ws_txn t = txn();
    ASSERT_OK(bx_ws_txn_check(&t, &back, &conflicts, ERR));
    ASSERT_EQ(conflicts.n, 1);
    ASSERT_CONTAINS(conflicts.v[0], "replaced");
    bx_strv_done(&conflicts);
    bx_ws_plan_done(&back);
    (void)close(old);
    close_all();
}

/* ---- crashes */

static int steps_left;

static void die_at_step(void)
{
    if (steps_left-- == 0) {
        _exit(99);
    }
}

/* Runs it in a process that dies before its step number n: true if it came to its end instead. */
static bool run_and_die(int n, void (*what)(void))
{
    int status;
    pid_t pid = fork();
    ASSERT(pid >= 0);
    if (pid == 0) {
        steps_left = n;
        bx_ws_txn_step = die_at_step;
        what();
        _exit(0);
    }
    ASSERT_EQ(waitpid(pid, &status, 0), pid);
    ASSERT(WIFEXITED(status));
    ASSERT(WEXITSTATUS(status) == 99 || WEXITSTATUS(status) == 0);
    return WEXITSTATUS(status) == 0;
}

static void apply_or_fail(void)
{
    struct bx_ws_plan plan = make_plan();
    struct bx_ws_txn t = txn();
    char id[17];
    if (bx_ws_txn_run(&t, &plan, id, NULL) < 0) {
        _exit(1);
    }
}

static void recover_or_fail(void)
{
    if (bx_ws_txn_recover(txns, NULL, NULL) < 0) {
        _exit(1);
    }
}

TEST(killed_before_any_step_it_is_all_or_nothing)
{
    int n = 0, whole = 0, nothing = 0;
    for (bool ended = false; !ended; n++) {
        make_tree();
        char *before = picture();
        ended = run_and_die(n, apply_or_fail);
        ASSERT_OK(bx_ws_txn_recover(txns, NULL, ERR));
        char *now = picture();
        if (strcmp(now, before) == 0) {
            nothing++;
        } else {
            ASSERT_CONTAINS(now, "replaced 1 755 new content");
            ASSERT_CONTAINS(now, "dir 2 700 ");
            ASSERT_CONTAINS(now, "far/away/renamed 1 644 stays the same");
            ASSERT(!strstr(now, "gone"));
            ASSERT(!strstr(now, "removed"));
            whole++;
        }
        ASSERT(!strstr(now, ".boxlite"));
        free(before);
        free(now);
        close_all();
        ASSERT_LT(n, 500);
    }
    ASSERT_GT(nothing, 30); /* staging, the journal and every operation */
    ASSERT_GT(whole, 3);
}

TEST(killed_again_while_it_is_taken_back)
{
    for (int first = 24; first < 40; first += 12) {
        int n = 0;
        for (bool ended = false; !ended; n++) {
            make_tree();
            char *before = picture();
            if (run_and_die(first, apply_or_fail)) {
                FAIL("step %d was not reached", first);
            }
            ended = run_and_die(n, recover_or_fail);
            ASSERT_OK(bx_ws_txn_recover(txns, NULL, ERR));
            char *now = picture();
            ASSERT_STREQ(now, before);
            free(before);
            free(now);
            close_all();
            ASSERT_LT(n, 200);
        }
    }
}

TEST(a_damaged_journal_touches_nothing)
{
    make_tree();
    char *before = picture();
    ASSERT_OK(mkdirat(txns, "00000000000000aa", 0700));
    put_at(txns, "00000000000000aa/root", root_path, 0600);
    put_at(txns, "00000000000000aa/journal", "boxlite-apply 1\n/etc", 0600);
    ASSERT_OK(bx_ws_txn_recover(txns, NULL, ERR));
    char *now = picture();
    ASSERT_STREQ(now, before);
    free(before);
    free(now);
    close_all();
}

/* ---- others */

static int meddle_at;

static void meddle(void)
{
    if (meddle_at-- == 0) {
        put_at(root, "replaced", "someone else was here", 0644);
    }
}

TEST(a_file_that_changes_meanwhile_stops_all_and_stays)
{
    for (int n = 0; n < 30; n++) {
        make_tree();
        struct bx_ws_plan plan = make_plan();
        struct bx_ws_txn t = txn();
        char id[17];
        meddle_at = n;
        bx_ws_txn_step = meddle;
        int r = bx_ws_txn_run(&t, &plan, id, NULL);
        bx_ws_txn_step = NULL;
        ASSERT_EQ(r, BOXLITE_E_STATE);
        char *now = picture();
        ASSERT_CONTAINS(now, "replaced 1 644 someone else was here");
        ASSERT_CONTAINS(now, "gone/deep/f 1 644 f");
        ASSERT_CONTAINS(now, "removed 1 600 going");
        ASSERT(!strstr(now, "far"));
        ASSERT(!strstr(now, ".boxlite"));
        free(now);
        bx_ws_plan_done(&plan);
        close_all();
    }
}

/* Runs in a child whose files may not grow: staging fails in the middle. */
TEST(no_room_leaves_the_tree_as_it_was)
{
    make_tree();
    char *big = malloc(300000);
    memset(big, 'b', 300000);
    ASSERT_OK(bx_write_file(source, "0", big, 300000, 0600));
    free(big);
    char *before = picture();
    int status;
    pid_t pid = fork();
    ASSERT(pid >= 0);
    if (pid == 0) {
        const struct rlimit small = {100000, 100000};
        (void)signal(SIGXFSZ, SIG_IGN);
        (void)setrlimit(RLIMIT_FSIZE, &small);
        struct bx_ws_plan plan = make_plan();
        struct bx_ws_txn t = txn();
        char id[17];
        _exit(bx_ws_txn_run(&t, &plan, id, NULL) < 0 ? 0 : 1);
    }
    ASSERT_EQ(waitpid(pid, &status, 0), pid);
    ASSERT_EQ(status, 0);
    char *now = picture();
    ASSERT_STREQ(now, before);
    free(before);
    free(now);
    close_all();
}

/* A real small file system, which only root can mount. */
static int on_full_disk(void)
{
    char path[700];
    (void)snprintf(path, sizeof(path), "%s/small", tmpdir());
    if (unshare(CLONE_NEWNS) < 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ||
        mkdir(path, 0755) < 0 || mount("tmpfs", path, "tmpfs", 0, "size=256k") < 0) {
        return 77;
    }
    (void)snprintf(root_path, sizeof(root_path), "%s", path);
    root = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    put_at(root, "replaced", "old", 0644);
    struct bx_ws_changes l = {0};
    struct bx_ws_plan plan = {0};
    char id[17], name[32];
    add(&l, BX_WS_MODIFIED, "replaced", NULL, BX_WS_FILE, 0755, NULL, 0);
    for (int i = 0; i < 5; i++) {
        (void)snprintf(name, sizeof(name), "f%d", i);
        add(&l, BX_WS_ADDED, name, NULL, BX_WS_FILE, 0644, NULL, 0);
    }
    ASSERT_OK(bx_ws_plan_of(&l, root, &plan, ERR));
    char *before = picture();
    struct bx_ws_txn t = txn();
    _cleanup_error_ boxlite_error *err = NULL;
    int r = bx_ws_txn_run(&t, &plan, id, &err);
    char *now = picture();
    return r == BOXLITE_E_NO_SPACE && strcmp(now, before) == 0 ? 0 : 1;
}

TEST(a_full_disk_leaves_the_tree_as_it_was)
{
    int status;
    make_tree();
    char *big = calloc(1, 100000);
    memset(big, 'b', 100000);
    ASSERT_OK(bx_write_file(source, "0", big, 100000, 0600));
    free(big);
    pid_t pid = fork();
    ASSERT(pid >= 0);
    if (pid == 0) {
        _exit(on_full_disk());
    }
    ASSERT_EQ(waitpid(pid, &status, 0), pid);
    close_all();
    if (WIFEXITED(status) && WEXITSTATUS(status) == 77) {
        SKIP("mounting a small file system needs root");
    }
    ASSERT_EQ(status, 0);
}

/* Someone swaps a folder for a link that leads out, as fast as it goes. Nothing may appear where it leads. */
static void swap_for_ever(void)
{
    for (;;) {
        (void)renameat(root, "dir", root, "aside");
        (void)symlinkat("../victim", root, "dir");
        (void)unlinkat(root, "dir", 0);
        (void)renameat(root, "aside", root, "dir");
        (void)sched_yield();
        (void)sched_yield();
    }
}

TEST(a_folder_that_becomes_a_link_leads_nowhere)
{
    const char *seconds = getenv("BOXLITE_RACE_SECONDS");
    uint64_t end = bx_deadline_ms((seconds ? atol(seconds) : 1) * 1000);
    make_tree();
    ASSERT_OK(mkdirat(tmpdir_fd(), "victim", 0777));
    pid_t pid = fork();
    ASSERT(pid >= 0);
    if (pid == 0) {
        swap_for_ever();
    }
    unsigned applied = 0;
    while (bx_now_mono() < end || applied == 0) {
        struct bx_ws_plan plan = {0};
        struct bx_ws_op op = {.type = BX_WS_OP_PUT,
                              .path = strdup("dir/planted"),
                              .put = BX_WS_FILE,
                              .mode = 0644,
                              .source = 0};
        struct bx_ws_txn t = txn();
        char id[17];
        ASSERT_OK(bx_ws_plan_add(&plan, &op, ERR));
        if (bx_ws_txn_run(&t, &plan, id, NULL) == 0) {
            applied++;
            (void)bx_ws_txn_forget(txns, id);
        }
        (void)unlinkat(root, "dir/planted", 0);
        (void)unlinkat(root, "aside/planted", 0);
        bx_ws_plan_done(&plan);
    }
    (void)kill(pid, SIGKILL);
    ASSERT_EQ(waitpid(pid, NULL, 0), pid);
    ASSERT_OK(unlinkat(tmpdir_fd(), "victim", AT_REMOVEDIR)); /* empty */
    ASSERT_GT(applied, 0);
    close_all();
}
