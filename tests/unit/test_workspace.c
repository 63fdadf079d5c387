/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_workspace.c: the parts that decide what is a change, what is left out, what is held back: baseline, layer of the
 * guest, comparison, patterns, gate, diff and merge.
 */
#include <archive.h>
#include <archive_entry.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/io.h"
#include "base/path.h"
#include "base/spawn.h"
#include "harness.h"
#include "workspace/workspace.h"

static int root, kept;

static void put(const char *name, const char *text)
{
    _cleanup_free_ char *copy = strdup(name);
    for (char *slash = copy; (slash = strchr(slash, '/')); slash++) {
        *slash = '\0';
        (void)mkdirat(root, copy, 0755);
        *slash = '/';
    }
    (void)unlinkat(root, name, 0);
    ASSERT_OK(bx_write_file(root, name, text, strlen(text), 0644));
}

static void enter(void)
{
    ASSERT_OK(mkdirat(tmpdir_fd(), "root", 0755));
    ASSERT_OK(mkdirat(tmpdir_fd(), "kept", 0700));
    root = openat(tmpdir_fd(), "root", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    kept = openat(tmpdir_fd(), "kept", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    ASSERT_OK(root);
    ASSERT_OK(kept);
}

static void leave(void)
{
    (void)close(root);
    (void)close(kept);
}

/* ---- a guest's layer */

static struct bx_buf tar;
static size_t tar_pos;
static struct archive *writer;

static la_ssize_t to_tar(struct archive *a, void *data, const void *p, size_t len)
{
    (void)a;
    (void)data;
    return bx_buf_append(&tar, p, len) < 0 ? -1 : (la_ssize_t)len;
}

static void begin_tar(void)
{
    tar = (struct bx_buf)BX_BUF_INIT(64u << 20);
    tar_pos = 0;
    writer = archive_write_new();
    ASSERT_EQ(archive_write_set_format_pax(writer), ARCHIVE_OK);
    ASSERT_EQ(archive_write_open(writer, NULL, NULL, to_tar, NULL), ARCHIVE_OK);
}

/* type: S_IF*; text: content, or the target of a link; link: a hard link to that. */
static void add(const char *name, mode_t mode, const char *text, const char *link)
{
    struct archive_entry *e = archive_entry_new();
    archive_entry_set_pathname(e, name);
    archive_entry_set_mode(e, mode);
    archive_entry_set_mtime(e, 1700000000, 0);
    if (link) {
        archive_entry_set_hardlink(e, link);
    } else if (S_ISLNK(mode)) {
        archive_entry_set_symlink(e, text);
    } else if (S_ISREG(mode)) {
        archive_entry_set_size(e, (int64_t)strlen(text));
    }
    ASSERT_GE(archive_write_header(writer, e), ARCHIVE_WARN); /* names that are no UTF-8 */
    if (S_ISREG(mode) && !link) {
        (void)archive_write_data(writer, text, strlen(text));
    }
    archive_entry_free(e);
}

static ssize_t from_tar(void *data, void *p, size_t size, boxlite_error **err)
{
    size_t n = tar.len - tar_pos < size ? tar.len - tar_pos : size;
    (void)data;
    (void)err;
    memcpy(p, bx_buf_data(&tar) + tar_pos, n);
    tar_pos += n;
    return (ssize_t)n;
}

static int pull(struct bx_ws_pulled *ret, boxlite_error **err)
{
    if (writer) {
        ASSERT_EQ(archive_write_close(writer), ARCHIVE_OK);
        (void)archive_write_free(writer);
        writer = NULL;
    }
    int r = bx_ws_pull(from_tar, NULL, kept, 1 << 20, ret, err);
    bx_buf_done(&tar);
    return r;
}

/* What is in that layer is refused, with a word of why. */
static void refused(const char *why)
{
    struct bx_ws_pulled p;
    ASSERT_FAILS(BOXLITE_E_INTEGRITY, pull(&p, ERR));
    ASSERT_CONTAINS(err_message(), why);
    ASSERT_OK(bx_rm_rf(tmpdir_fd(), "kept"));
    ASSERT_OK(mkdirat(tmpdir_fd(), "kept", 0700));
    (void)close(kept);
    kept = openat(tmpdir_fd(), "kept", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

static struct bx_ws_baseline base;
static struct bx_ws_pulled pulled;
static struct bx_ws_changes changes;

static void compare(void)
{
    ASSERT_OK(pull(&pulled, ERR));
    ASSERT_OK(bx_ws_compare(root, &base, &pulled, &changes, ERR));
}

static void done(void)
{
    bx_ws_changes_done(&changes);
    bx_ws_pulled_done(&pulled);
    bx_ws_baseline_done(&base);
}

/* "kind path" lines, with "<from" and "!conflict". */
static void expect(const char *want)
{
    struct bx_buf got = BX_BUF_INIT(1 << 20);
    for (size_t i = 0; i < changes.n; i++) {
        const struct bx_ws_change *c = &changes.v[i];
        ASSERT_OK(bx_buf_appendf(&got, "%s %s%s%s%s%s\n", bx_ws_kind_name(c->kind), c->path,
                                 c->from ? " <" : "", c->from ? c->from : "",
                                 c->conflict ? " !" : "", c->conflict ? c->conflict : ""));
    }
    ASSERT_STREQ(bx_buf_str(&got), want);
    bx_buf_done(&got);
}

TEST(kinds_of_changes)
{
    enter();
    put("same", "as it was");
    put("touched", "one");
    put("gone", "bye");
    put("moved/from", "the very same content");
    put("script", "#!/bin/sh\n");
    put("dir/a", "a");
    put("dir/b", "b");
    put("kind", "file");
    ASSERT_OK(symlinkat("one", root, "link"));
    ASSERT_OK(bx_ws_baseline_walk(root, &base, ERR));
    begin_tar();
    add("same", S_IFREG | 0644, "as it was", NULL);
    add("touched", S_IFREG | 0644, "two", NULL);
    add(".wh.gone", S_IFREG, "", NULL);
    add("moved/", S_IFDIR | 0755, "", NULL);
    add("moved/.wh.from", S_IFREG, "", NULL);
    add("moved/to", S_IFREG | 0644, "the very same content", NULL);
    add("script", S_IFREG | 0755, "#!/bin/sh\n", NULL);
    add("dir/", S_IFDIR | 0755, "", NULL);
    add("dir/.wh..wh..opq", S_IFREG, "", NULL);
    add("dir/b", S_IFREG | 0644, "b2", NULL);
    add("kind", S_IFLNK | 0777, "touched", NULL);
    add("link", S_IFLNK | 0777, "two", NULL);
    add("new", S_IFREG | 0600, "fresh", NULL);
    add("twin", S_IFREG | 0600, "", "new");
    add("pipe", S_IFIFO | 0600, "", NULL);
    add(".wh.never-was", S_IFREG, "", NULL);
    compare();
    expect("deleted dir/a\nmodified dir/b\ndeleted gone\ntype changed kind\nmodified link\n"
           "renamed moved/to <moved/from\nadded new\nadded pipe\nmode script\nmodified touched\n"
           "added twin\n");
    done();
    leave();
}

TEST(a_folder_that_is_deleted_takes_all_in_it)
{
    enter();
    put("d/x/1", "1");
    put("d/x/2", "2");
    put("d.txt", "beside");
    put("e/f", "f");
    ASSERT_OK(bx_ws_baseline_walk(root, &base, ERR));
    begin_tar();
    add(".wh.d", S_IFREG, "", NULL);
    add("e", S_IFREG | 0644, "now a file", NULL);
    compare();
    expect("deleted d\ndeleted d/x\ndeleted d/x/1\ndeleted d/x/2\ntype changed e\ndeleted e/f\n");
    done();
    leave();
}

TEST(what_the_host_changed_meanwhile_is_a_conflict)
{
    enter();
    put("both", "base");
    put("alike", "base");
    put("gone-here", "x");
    ASSERT_OK(bx_ws_baseline_walk(root, &base, ERR));
    put("both", "the host's");
    put("alike", "the same in the end");
    ASSERT_OK(unlinkat(root, "gone-here", 0));
    put("made", "here");
    begin_tar();
    add("both", S_IFREG | 0644, "the box's", NULL);
    add("alike", S_IFREG | 0644, "the same in the end", NULL);
    add("gone-here", S_IFREG | 0644, "y", NULL);
    add("made", S_IFREG | 0644, "there", NULL);
    compare();
    expect(
        "modified both !it was changed here meanwhile\n"
        "modified gone-here !it was deleted here meanwhile\nadded made !it was made here meanwhile\n");
    done();
    leave();
}

TEST(names_are_bytes)
{
    char name[NAME_MAX + 1];
    memset(name, 'n', 255);
    name[255] = '\0';
    enter();
    ASSERT_OK(bx_ws_baseline_walk(root, &base, ERR));
    begin_tar();
    add("line\nbreak", S_IFREG | 0644, "1", NULL);
    add("bad\xff\xfeutf", S_IFREG | 0644, "2", NULL);
    add("\xc3\xa4", S_IFREG | 0644, "3", NULL);
    add(name, S_IFREG | 0644, "4", NULL);
    compare();
    ASSERT_EQ(changes.n, 4);
    ASSERT_STREQ(changes.v[0].path, "bad\xff\xfeutf");
    ASSERT_STREQ(changes.v[1].path, "line\nbreak");
    ASSERT_STREQ(changes.v[2].path, name);
    ASSERT_STREQ(changes.v[3].path, "\xc3\xa4");
    done();
    leave();
}

TEST(a_hostile_layer_is_refused)
{
    static const char *const names[] = {"../up", "/etc/passwd", "a/../../b", "a//b",
                                        "./a",   "..",          "a/./b"};
    struct bx_ws_pulled p;
    enter();
    for (size_t i = 0; i < BX_ARRAY_SIZE(names); i++) {
        begin_tar();
        add(names[i], S_IFREG | 0644, "x", NULL);
        refused("no path below");
    }
    begin_tar();
    add("l", S_IFLNK | 0777, "/etc", NULL);
    add("l/passwd", S_IFREG | 0644, "x", NULL);
    refused("no folder");
    begin_tar();
    add("f", S_IFREG | 0644, "x", NULL);
    add("f", S_IFREG | 0644, "y", NULL);
    refused("twice");
    begin_tar();
    add("h", S_IFREG | 0644, "", "/etc/shadow");
    refused("did not come before");
    begin_tar();
    ASSERT_EQ(archive_write_close(writer), ARCHIVE_OK);
    (void)archive_write_free(writer);
    writer = NULL;
    bx_buf_done(&tar);
    tar = (struct bx_buf)BX_BUF_INIT(4096);
    for (int i = 0; i < 100; i++) {
        ASSERT_OK(bx_buf_appends(&tar, "this is no archive at all "));
    }
    refused("damaged");
    begin_tar();
    char *big = calloc(1, (1 << 20) + 2);
    memset(big, 'x', (1 << 20) + 1);
    add("big", S_IFREG | 0644, big, NULL);
    free(big);
    ASSERT_FAILS(BOXLITE_E_NO_SPACE, pull(&p, ERR));
    leave();
}

TEST(a_baseline_comes_back_as_it_was)
{
    struct bx_ws_baseline back;
    enter();
    put("a/b/c", "x");
    put("a.b", "y");
    put("new\nline", "z");
    ASSERT_OK(bx_ws_baseline_walk(root, &base, ERR));
    ASSERT_EQ(base.n, 5);
    ASSERT_STREQ(base.v[1].path, "a/b"); /* before "a.b" */
    ASSERT_OK(bx_ws_baseline_write(&base, kept, "b", ERR));
    ASSERT_OK(bx_ws_baseline_read(kept, "b", &back, ERR));
    ASSERT_EQ(back.n, base.n);
    for (size_t i = 0; i < base.n; i++) {
        ASSERT_STREQ(back.v[i].path, base.v[i].path);
        ASSERT(memcmp(&back.v[i].node, &base.v[i].node, sizeof(base.v[i].node)) == 0);
    }
    size_t first;
    ASSERT_EQ(bx_ws_baseline_below(&back, "a", &first), 2);
    ASSERT_EQ(first, 1);
    ASSERT_NULL(bx_ws_baseline_find(&back, "a/b/x"));
    ASSERT_NOT_NULL(bx_ws_baseline_find(&back, "a.b"));
    bx_ws_baseline_done(&back);
    ASSERT_OK(bx_write_file(kept, "b", "boxlite-baseline 1\nf 644 1 2 3 4 ../x", 36, 0600));
    ASSERT_FAILS(BOXLITE_E_INTEGRITY, bx_ws_baseline_read(kept, "b", &back, ERR));
    done();
    leave();
}

/* ---- patterns */

TEST(patterns_match_as_in_gitignore)
{
    static const struct {
        const char *pattern, *text;
        bool fits;
    } t[] = {
        {"*.o", "a.o", true},       {"*.o", "d/a.o", false},    {"**/a", "a", true},
        {"**/a", "x/y/a", true},    {"**/a", "xa", false},      {"a/**", "a/b/c", true},
        {"a/**", "a", false},       {"a/**/b", "a/b", true},    {"a/**/b", "a/x/y/b", true},
        {"[a-c]?", "bz", true},     {"[!a-c]?", "bz", false},   {"[]]", "]", true},
        {"\\*", "*", true},         {"\\*", "x", false},        {"[", "[", true},
        {"*a*b*c", "xaxbxc", true}, {"*a*b*c", "xaxbx", false}, {"", "", true},
    };
    for (size_t i = 0; i < BX_ARRAY_SIZE(t); i++) {
        if (bx_ws_match(t[i].pattern, t[i].text) != t[i].fits) {
            FAIL("%s against %s", t[i].pattern, t[i].text);
        }
    }
    /* One that would take for ever gives up instead. */
    ASSERT(!bx_ws_match("*a*a*a*a*a*a*a*a*a*a*a*b",
                        "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"));
}

TEST(ignore_lists)
{
    struct bx_ws_ignore *ig = NULL;
    ASSERT_OK(
        bx_ws_ignore_new("# comment\n*.log\n!keep.log\nbuild/\n/only-here\nsub/x\n\n", &ig, ERR));
    ASSERT(bx_ws_ignored(ig, "a.log", false));
    ASSERT(bx_ws_ignored(ig, "d/a.log", false));
    ASSERT(!bx_ws_ignored(ig, "d/keep.log", false));
    ASSERT(bx_ws_ignored(ig, "build", true));
    ASSERT(!bx_ws_ignored(ig, "build", false));
    ASSERT(bx_ws_ignored(ig, "x/build/deep/f", false));
    ASSERT(bx_ws_ignored(ig, "only-here", false));
    ASSERT(!bx_ws_ignored(ig, "d/only-here", false));
    ASSERT(bx_ws_ignored(ig, "sub/x", false));
    ASSERT(!bx_ws_ignored(ig, "y/sub/x", false));
    bx_ws_ignore_free(ig);
}

/* ---- the gate */

static struct bx_ws_change change(const char *path, enum bx_ws_type type, uint32_t mode,
                                  const char *target)
{
    return (struct bx_ws_change){.kind = BX_WS_ADDED,
                                 .path = strdup(path),
                                 .fresh = {.type = type, .mode = mode},
                                 .target = target ? strdup(target) : NULL,
                                 .file = -1};
}

/* The rule that holds it, "" for none. */
static const char *held(struct bx_ws_change c, const char *allow)
{
    static char name[128];
    struct bx_ws_rules *rules = NULL;
    struct bx_ws_changes list = {&c, 1, 1, 0, 0, 0};
    struct bx_strv names = {.max = 4};
    ASSERT_OK(bx_ws_rules_new(&rules, ERR));
    ASSERT_OK(bx_ws_rules_parse(rules, "[mine]\npath = Deploy/*\n[lockfile]\noff = true\n", ERR));
    if (allow) {
        ASSERT_OK(bx_strv_add(&names, allow));
    }
    ASSERT_OK(bx_ws_gate(rules, &list, &names, ERR));
    (void)snprintf(name, sizeof(name), "%.*s", c.rule ? (int)strcspn(c.rule, ":") : 0,
                   c.rule ? c.rule : "");
    bx_ws_change_done(&c);
    bx_strv_done(&names);
    bx_ws_rules_free(rules);
    return name;
}

TEST(the_gate)
{
    static const struct {
        const char *path, *rule;
    } files[] = {
        {".git/hooks/pre-commit", "git-hooks"},
        {"sub/.git/hooks/x", "git-hooks"},
        {".GIT/Hooks/x", "git-hooks"},
        {".git/config", "git-config"},
        {".git", "git-config"},
        {".github/workflows/ci.yml", "ci"},
        {"a/.gitlab-ci.yml", "ci"},
        {".envrc", "shell"},
        {"x/.vscode/tasks.json", "editor"},
        {"package.json", "package-scripts"},
        {"lib/setup.py", "package-scripts"},
        {"Cargo.lock", ""},
        {"deploy/x", "mine"},
        {"src/main.c", ""},
        {"github/workflows/ci.yml", ""},
        {".gitignore", ""},
    };
    for (size_t i = 0; i < BX_ARRAY_SIZE(files); i++) {
        ASSERT_STREQ(held(change(files[i].path, BX_WS_FILE, 0644, NULL), NULL), files[i].rule);
    }
    ASSERT_STREQ(held(change("tool", BX_WS_FILE, 0755, NULL), NULL), "new-exec");
    ASSERT_STREQ(held(change("tool", BX_WS_FILE, 0755, NULL), "new-exec"), "");
    ASSERT_STREQ(held(change("tool", BX_WS_FILE, 0755, NULL), "tool"), "");
    ASSERT_STREQ(held(change("tool", BX_WS_FILE, 0755, NULL), "all"), "");
    ASSERT_STREQ(held(change("tool", BX_WS_FILE, 04755, NULL), "new-exec"), "set-id");
    ASSERT_STREQ(held(change("dev", BX_WS_OTHER, 0644, NULL), "all"), "special-file");
    ASSERT_STREQ(held(change("d/l", BX_WS_LINK, 0777, "../x"), NULL), "");
    ASSERT_STREQ(held(change("d/l", BX_WS_LINK, 0777, "../../x"), NULL), "link-out");
    ASSERT_STREQ(held(change("l", BX_WS_LINK, 0777, "/etc/passwd"), NULL), "link-out");
    ASSERT_STREQ(held(change("d/l", BX_WS_LINK, 0777, "x/../../y"), NULL), "link-out");
    struct bx_ws_rules *rules = NULL;
    struct bx_ws_changes none = {0};
    struct bx_strv wrong = {.max = 1};
    ASSERT_OK(bx_strv_add(&wrong, "new-exek"));
    ASSERT_OK(bx_ws_rules_new(&rules, ERR));
    ASSERT_FAILS(BOXLITE_E_INVALID, bx_ws_gate(rules, &none, &wrong, ERR));
    ASSERT_FAILS(BOXLITE_E_INVALID, bx_ws_rules_parse(rules, "path = x\n", ERR));
    ASSERT_FAILS(BOXLITE_E_INVALID, bx_ws_rules_parse(rules, "[a]\nnonsense\n", ERR));
    ASSERT_CONTAINS(err_message(), "line 2");
    bx_strv_done(&wrong);
    bx_ws_rules_free(rules);
}

/* ---- text */

static void diff_is(const char *a, const char *b, const char *want)
{
    _cleanup_buf_ struct bx_buf out = BX_BUF_INIT(1 << 20);
    ASSERT_OK(bx_ws_unified(a, strlen(a), b, strlen(b), &out, ERR));
    ASSERT_STREQ(bx_buf_str(&out), want);
}

TEST(unified_diffs)
{
    diff_is("a\nb\nc\n", "a\nb\nc\n", "");
    diff_is("a\nb\nc\n", "a\nx\nc\n", "@@ -1,3 +1,3 @@\n a\n-b\n+x\n c\n");
    diff_is("", "a\n", "@@ -0,0 +1,1 @@\n+a\n");
    diff_is("a\n", "", "@@ -1,1 +0,0 @@\n-a\n");
    diff_is("a", "a\n", "@@ -1,1 +1,1 @@\n-a\n\\ No newline at end of file\n+a\n");
    diff_is(
        "1\n2\n3\n4\n5\n6\n7\n8\n9\n10\n11\n12\n", "1\n2\n3\n4\nX\n6\n7\n8\n9\n10\n11\n12\n13\n",
        "@@ -2,7 +2,7 @@\n 2\n 3\n 4\n-5\n+X\n 6\n 7\n 8\n@@ -10,3 +10,4 @@\n 10\n 11\n 12\n+13\n");
    _cleanup_buf_ struct bx_buf out = BX_BUF_INIT(16);
    ASSERT_FAILS(BOXLITE_E_NO_SPACE, bx_ws_unified("a\nb\nc\n", 6, "d\ne\nf\n", 6, &out, ERR));
}

/* What patch(1) makes of it is the new text, for many texts. */
TEST(diffs_can_be_applied)
{
    _cleanup_free_ char *patch = bx_find_program("patch");
    unsigned seed = 7;
    if (!patch) {
        SKIP("patch is not installed");
    }
    for (int round = 0; round < 60; round++) {
        struct bx_buf a = BX_BUF_INIT(1 << 20), b = BX_BUF_INIT(1 << 20), d = BX_BUF_INIT(1 << 20);
        for (int i = 0; i < 80; i++) {
            unsigned kind = (seed = seed * 1103515245u + 12345u) >> 16 & 15, word = seed >> 20 & 7;
            if (kind != 0) {
                ASSERT_OK(bx_buf_appendf(&a, "line %u\n", word));
            }
            if (kind != 1) {
                ASSERT_OK(bx_buf_appendf(&b, "line %u\n", kind == 2 ? word + 100 : word));
            }
        }
        ASSERT_OK(bx_buf_appends(&d, "--- a\n+++ b\n"));
        ASSERT_OK(bx_ws_unified(bx_buf_str(&a), a.len, bx_buf_str(&b), b.len, &d, ERR));
        ASSERT_OK(bx_write_file(tmpdir_fd(), "a", bx_buf_data(&a), a.len, 0600));
        ASSERT_OK(bx_write_file(tmpdir_fd(), "d", bx_buf_data(&d), d.len, 0600));
        _cleanup_free_ char *file = bx_path_join(tmpdir(), "a"), *in = bx_path_join(tmpdir(), "d");
        const char *const argv[] = {"patch", "-s", "-i", in, file, NULL};
        struct bx_spawn spec = {.path = patch, .argv = argv};
        int status = 0;
        struct bx_buf got = BX_BUF_INIT(1 << 20);
        ASSERT_OK(bx_run(&spec, NULL, NULL, UINT64_MAX, &status, ERR));
        ASSERT_EQ(status, 0);
        ASSERT_OK(bx_read_file(tmpdir_fd(), "a", &got));
        ASSERT_STREQ(bx_buf_str(&got), bx_buf_str(&b));
        bx_buf_done(&a);
        bx_buf_done(&b);
        bx_buf_done(&d);
        bx_buf_done(&got);
    }
}

static void fill(struct bx_buf *b, const char *text)
{
    *b = (struct bx_buf)BX_BUF_INIT(1 << 16);
    ASSERT_OK(bx_buf_appends(b, text));
}

TEST(merging_text)
{
    _cleanup_free_ char *git = bx_find_program("git");
    struct bx_buf base_text, ours, theirs, out = BX_BUF_INIT(1 << 16);
    if (!git) {
        SKIP("git is not installed");
    }
    fill(&base_text, "1\n2\n3\n4\n5\n6\n7\n8\n9\n");
    fill(&ours, "one\n2\n3\n4\n5\n6\n7\n8\n9\n");
    fill(&theirs, "1\n2\n3\n4\n5\n6\n7\n8\nnine\n");
    ASSERT_EQ(bx_ws_merge(&base_text, &ours, &theirs, &out, ERR), 1);
    ASSERT_STREQ(bx_buf_str(&out), "one\n2\n3\n4\n5\n6\n7\n8\nnine\n");
    bx_buf_done(&theirs);
    fill(&theirs, "uno\n2\n3\n4\n5\n6\n7\n8\n9\n");
    bx_buf_clear(&out);
    ASSERT_EQ(bx_ws_merge(&base_text, &ours, &theirs, &out, ERR), 0);
    bx_buf_done(&base_text);
    bx_buf_done(&ours);
    bx_buf_done(&theirs);
    bx_buf_done(&out);
}
