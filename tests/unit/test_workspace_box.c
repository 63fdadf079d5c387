/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_workspace_box.c: workspaces of boxes through the public interface. "In the box" is this host; its upper folder
 * is one of this host too, written as an overlay would.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "base/io.h"
#include "base/path.h"
#include "base/spawn.h"
#include "base/timeutil.h"
#include "box_fixture.h"
#include "workspace/session.h"

/* This program has a copy of its own of all below the exported functions, and with it of where the upper folder is: the
 * calls that look there must be those. */
static const boxlite_change_options no_options;
#define boxlite_box_diff(b, opt, ret, err) bx_ws_diff(b, (opt) ? (opt) : &no_options, ret, err)
#define boxlite_box_apply(b, opt, ret, err) bx_ws_apply(b, (opt) ? (opt) : &no_options, ret, err)
#define boxlite_box_discard(b, opt, err) bx_ws_discard(b, (opt) ? (opt) : &no_options, err)

static boxlite_runtime *rt;
static boxlite_box *box;
static boxlite_change_options *o;
static int host, upper;
static char host_path[700], upper_path[700];

static void put(int dir, const char *name, const char *text)
{
    _cleanup_free_ char *copy = strdup(name);
    for (char *slash = copy; (slash = strchr(slash, '/')); slash++) {
        *slash = '\0';
        (void)mkdirat(dir, copy, 0755);
        *slash = '/';
    }
    (void)unlinkat(dir, name, 0);
    ASSERT_OK(bx_write_file(dir, name, text, strlen(text), 0644));
}

static void holds(const char *name, const char *text)
{
    struct bx_buf b = BX_BUF_INIT(1 << 20);
    ASSERT_OK(bx_read_file(host, name, &b));
    ASSERT_STREQ(bx_buf_str(&b), text);
    bx_buf_done(&b);
}

static void enter(void)
{
    boxlite_box_options *bo;
    (void)snprintf(host_path, sizeof(host_path), "%s/project", tmpdir());
    (void)snprintf(upper_path, sizeof(upper_path), "%s/upper", tmpdir());
    ASSERT_OK(mkdir(host_path, 0755));
    ASSERT_OK(mkdir(upper_path, 0755));
    host = open(host_path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    upper = open(upper_path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    put(host, "src/main.c", "int main(void) { return 0; }\n");
    put(host, "text", "1\n2\n3\n4\n5\n6\n7\n8\n9\n");
    put(host, "old", "to be removed\n");
    rt = bf_runtime();
    ASSERT_OK(boxlite_box_options_new(IMAGE, &bo, ERR));
    ASSERT_OK(boxlite_box_options_set_name(bo, "work", ERR));
    ASSERT_OK(boxlite_box_options_set_disk(bo, 64u << 20, ERR));
    ASSERT_OK(boxlite_box_options_add_workspace(bo, host_path, NULL, ERR));
    ASSERT_OK(boxlite_box_create(rt, bo, &box, ERR));
    boxlite_box_options_free(bo);
    bx_ws_upper_for_tests = upper_path;
    ASSERT_OK(boxlite_change_options_new(&o, ERR));
}

static void leave(void)
{
    bx_ws_upper_for_tests = NULL;
    boxlite_change_options_free(o);
    boxlite_box_free(box);
    boxlite_runtime_free(rt);
    (void)close(host);
    (void)close(upper);
}

/* What a first run did. */
static void run_once(void)
{
    ASSERT_OK(boxlite_box_start(box, ERR));
    put(upper, "src/main.c", "int main(void) { return 1; }\n");
    put(upper, "src/new.c", "new\n");
    put(upper, ".envrc", "rm -rf /\n");
    ASSERT_OK(mknodat(upper, "old", S_IFCHR, makedev(0, 0)));
}

static void status_is(boxlite_changes *c, int status, size_t n)
{
    ASSERT_EQ(boxlite_changes_status(c), status);
    ASSERT_EQ(boxlite_changes_count(c), n);
}

TEST(diff_apply_and_undo)
{
    boxlite_changes *c = NULL;
    const char *text;
    size_t added, removed;
    enter();
    ASSERT_OK(boxlite_box_diff(box, NULL, &c, ERR)); /* never started: without a VM */
    status_is(c, BOXLITE_CHANGES_LISTED, 0);
    boxlite_changes_free(c);
    run_once();

    ASSERT_OK(boxlite_box_diff(box, NULL, &c, ERR));
    status_is(c, BOXLITE_CHANGES_LISTED, 4);
    ASSERT_STREQ(boxlite_changes_path(c, 0), ".envrc");
    ASSERT_CONTAINS(boxlite_changes_held(c, 0), "shell: ");
    ASSERT_STREQ(boxlite_changes_allow(c, 0), "shell");
    ASSERT_STREQ(boxlite_changes_path(c, 1), "old");
    ASSERT_EQ(boxlite_changes_kind(c, 1), BOXLITE_CHANGE_DELETED);
    ASSERT_EQ(boxlite_changes_old_size(c, 1), 14);
    ASSERT_OK(boxlite_changes_lines(c, 2, &added, &removed, ERR));
    ASSERT_EQ(added, 1);
    ASSERT_EQ(removed, 1);
    ASSERT_OK(boxlite_changes_text(c, 1 << 20, &text, ERR));
    ASSERT_CONTAINS(
        text, "diff --git a/src/main.c b/src/main.c\n--- a/src/main.c\n+++ b/src/main.c\n"
              "@@ -1,1 +1,1 @@\n-int main(void) { return 0; }\n+int main(void) { return 1; }\n");
    ASSERT_OK(boxlite_changes_text(c, 100, &text, ERR));
    ASSERT_CONTAINS(text, "are not shown");
    ASSERT_OK(boxlite_changes_json(c, &text, ERR));
    ASSERT_CONTAINS(text, "\"path\":\"src/new.c\",\"change\":\"added\"");
    boxlite_changes_free(c);
    holds("src/main.c", "int main(void) { return 0; }\n"); /* nothing was touched */

    ASSERT_OK(boxlite_change_options_set_dry_run(o, 1, ERR));
    ASSERT_OK(boxlite_box_apply(box, o, &c, ERR));
    status_is(c, BOXLITE_CHANGES_LISTED, 4);
    boxlite_changes_free(c);
    holds("old", "to be removed\n");
    ASSERT_OK(boxlite_change_options_set_dry_run(o, 0, ERR));
    ASSERT_OK(boxlite_box_apply(box, o, &c, ERR));
    status_is(c, BOXLITE_CHANGES_HELD, 4);
    boxlite_changes_free(c);
    holds("src/main.c", "int main(void) { return 1; }\n");
    holds("src/new.c", "new\n");
    ASSERT_EQ(faccessat(host, "old", F_OK, 0), -1);
    ASSERT_EQ(faccessat(host, ".envrc", F_OK, 0), -1);

    ASSERT_OK(boxlite_box_diff(box, NULL, &c, ERR)); /* what was applied is no change any more */
    status_is(c, BOXLITE_CHANGES_LISTED, 1);
    boxlite_changes_free(c);
    ASSERT_OK(boxlite_workspace_undo(rt, host_path, 0, &c, ERR));
    ASSERT_EQ(boxlite_changes_status(c), BOXLITE_CHANGES_APPLIED);
    boxlite_changes_free(c);
    holds("src/main.c", "int main(void) { return 0; }\n");
    holds("old", "to be removed\n");
    ASSERT_EQ(faccessat(host, "src/new.c", F_OK, 0), -1);
    ASSERT_OK(boxlite_box_diff(box, NULL, &c, ERR)); /* and is one again */
    status_is(c, BOXLITE_CHANGES_LISTED, 4);
    for (size_t i = 0; i < 4; i++) {
        ASSERT_NULL(boxlite_changes_conflict(c, i));
    }
    boxlite_changes_free(c);
    ASSERT_FAILS(BOXLITE_E_NOT_FOUND, boxlite_workspace_undo(rt, host_path, 0, &c, ERR));
    leave();
}

TEST(paths_and_what_is_left_out)
{
    boxlite_changes *c = NULL;
    enter();
    put(host, ".boxliteignore", "*.log\n");
    run_once();
    put(upper, "x.log", "log");
    put(upper, "tmp/y", "tmp");
    ASSERT_OK(boxlite_change_options_add_exclude(o, "tmp/", ERR));
    ASSERT_OK(boxlite_box_diff(box, o, &c, ERR));
    status_is(c, BOXLITE_CHANGES_LISTED, 4);
    ASSERT_EQ(boxlite_changes_ignored(c), 3); /* x.log, tmp, tmp/y */
    boxlite_changes_free(c);
    ASSERT_OK(boxlite_change_options_add_path(o, "./src/", ERR));
    ASSERT_OK(boxlite_box_diff(box, o, &c, ERR));
    status_is(c, BOXLITE_CHANGES_LISTED, 2);
    ASSERT_EQ(boxlite_changes_outside(c), 5);
    boxlite_changes_free(c);
    ASSERT_OK(boxlite_change_options_add_path(o, ".envrc", ERR)); /* who names it has seen it */
    ASSERT_OK(boxlite_box_apply(box, o, &c, ERR));
    status_is(c, BOXLITE_CHANGES_APPLIED, 3);
    boxlite_changes_free(c);
    holds(".envrc", "rm -rf /\n");
    holds("old", "to be removed\n");
    ASSERT_OK(boxlite_change_options_add_path(o, "../elsewhere", ERR));
    ASSERT_FAILS(BOXLITE_E_INVALID, boxlite_box_diff(box, o, &c, ERR));
    leave();
}

TEST(conflicts_and_merging)
{
    _cleanup_free_ char *git = bx_find_program("git");
    boxlite_changes *c = NULL;
    enter();
    run_once();
    put(upper, "text", "1\n2\n3\n4\n5\n6\n7\n8\nnine\n");
    put(host, "text", "one\n2\n3\n4\n5\n6\n7\n8\n9\n");
    ASSERT_OK(boxlite_box_apply(box, o, &c, ERR));
    ASSERT_EQ(boxlite_changes_status(c), BOXLITE_CHANGES_CONFLICT);
    ASSERT_EQ(boxlite_changes_conflict_count(c), 1);
    ASSERT_STREQ(boxlite_changes_conflict_line(c, 0), "text: it was changed here meanwhile");
    boxlite_changes_free(c);
    holds("src/main.c", "int main(void) { return 0; }\n"); /* all or nothing */
    if (!git) {
        SKIP("git is not installed");
    }
    ASSERT_OK(boxlite_change_options_set_merge(o, 1, ERR));
    ASSERT_OK(boxlite_box_apply(box, o, &c, ERR));
    ASSERT_EQ(boxlite_changes_status(c), BOXLITE_CHANGES_HELD);
    boxlite_changes_free(c);
    holds("text", "one\n2\n3\n4\n5\n6\n7\n8\nnine\n");
    holds("src/main.c", "int main(void) { return 1; }\n");
    leave();
}

TEST(discard_makes_it_forget)
{
    boxlite_changes *c = NULL;
    enter();
    run_once();
    ASSERT_FAILS(BOXLITE_E_STATE, boxlite_box_discard(box, NULL, ERR));
    ASSERT_OK(boxlite_box_stop(box, 5000, ERR));
    ASSERT_OK(boxlite_change_options_add_path(o, "src", ERR));
    ASSERT_OK(boxlite_box_discard(box, o, ERR));
    ASSERT_OK(boxlite_box_diff(box, NULL, &c, ERR));
    status_is(c, BOXLITE_CHANGES_LISTED, 2);
    boxlite_changes_free(c);
    put(host, "text", "changed here, and seen after a discard\n");
    ASSERT_OK(boxlite_box_discard(box, NULL, ERR));
    ASSERT_OK(boxlite_box_diff(box, NULL, &c, ERR));
    status_is(c, BOXLITE_CHANGES_LISTED, 0);
    boxlite_changes_free(c);
    ASSERT_EQ(boxlite_box_state(box, ERR), BOXLITE_BOX_STOPPED);
    leave();
}

TEST(a_box_without_a_workspace)
{
    boxlite_changes *c = NULL;
    rt = bf_runtime();
    box = bf_box(rt, "plain", NULL, 0);
    ASSERT_FAILS(BOXLITE_E_STATE, boxlite_box_diff(box, NULL, &c, ERR));
    ASSERT_CONTAINS(err_message(), "no workspace");
    boxlite_box_free(box);
    boxlite_runtime_free(rt);
}

/* The walk before the first start must stay cheap: stat calls only. */
TEST(fifty_thousand_files_are_a_moment)
{
    _cleanup_(bx_ws_baseline_done) struct bx_ws_baseline b = {0};
    char memory[] = "/dev/shm/bx-many-XXXXXX";
    if (!mkdtemp(memory)) {
        SKIP("/dev/shm cannot be written");
    }
    int many = open(memory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    for (int d = 0; d < 500; d++) {
        char name[32];
        (void)snprintf(name, sizeof(name), "d%03d", d);
        ASSERT_OK(mkdirat(many, name, 0755));
        int dir = openat(many, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        for (int f = 0; f < 100; f++) {
            (void)snprintf(name, sizeof(name), "f%02d", f);
            int fd = openat(dir, name, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
            ASSERT_OK(fd);
            (void)close(fd);
        }
        (void)close(dir);
    }
    uint64_t before = bx_now_mono();
    int r = bx_ws_baseline_walk(many, &b, NULL);
    uint64_t took = bx_now_mono() - before;
    (void)close(many);
    ASSERT_OK(bx_rm_rf(AT_FDCWD, memory));
    ASSERT_EQ(r, 0);
    ASSERT_EQ(b.n, 50500);
    ASSERT_LT(took / 1000000, 5000); /* ms; a loaded machine included */
}
