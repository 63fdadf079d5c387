/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The files of a box, and commands and results as message fields.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>

#include "base/error.h"
#include "base/io.h"
#include "box/boxconfig.h"
#include "harness.h"
#include "wire/msg.h"
#include "wire/proto.h"

static void fill(struct bx_box_config *c)
{
    *c = (struct bx_box_config){.id = strdup("00ff00ff00ff00ff"),
                                .name = strdup("my-box_1"),
                                .hostname = strdup("host"),
                                .image = strdup("img:1"),
                                .digest = strdup("sha256:x"),
                                .rootfs = strdup("rootfs/a.sqfs"),
                                .kernel = strdup("default"),
                                .engine = strdup("auto"),
                                .cpus = 4,
                                .memory = 1ull << 30,
                                .disk = 10ull << 30,
                                .network = BOXLITE_NETWORK_USER,
                                .auto_remove = true,
                                .timeout_ms = 5000,
                                .created = 1796057892,
                                .main = true,
                                .rows = 24,
                                .cols = 80,
                                .stdin_open = true,
                                .user = strdup("1000:1000")};
    ASSERT_OK(bx_strv_add(&c->argv, "sh"));
    ASSERT_OK(bx_strv_add(&c->argv, ""));
    ASSERT_OK(bx_strv_add(&c->env, "BYTES=\xff\x01\n\"\\ \xc3\xa9"));
    ASSERT_OK(bx_strv_add(&c->env, "EMPTY="));
    ASSERT_OK(bx_strv_add(&c->labels, "a=b=c"));
    const struct bx_box_mount mounts[] = {
        {(char *)BX_MOUNT_SHARE, (char *)"/srv/\xff\n", (char *)"/data", true},
        {(char *)BX_MOUNT_WORKSPACE, (char *)"/", (char *)"/src/a", false},
    };
    ASSERT_OK(bx_box_mount_add(&c->mounts, &mounts[0]));
    ASSERT_OK(bx_box_mount_add(&c->mounts, &mounts[1]));
}

/* The same from literals, without an allocation. */
static void fill_quietly(struct bx_box_config *c)
{
    static char *argv[] = {(char *)"sh", (char *)"\xff", NULL};
    *c = (struct bx_box_config){.id = (char *)"00", .name = (char *)"n", .argv = {argv, 2, 0}};
}

TEST(a_config_comes_back_as_it_was)
{
    struct bx_box_config a, b = {0};
    fill(&a);
    ASSERT_OK(bx_box_config_write(&a, tmpdir_fd(), ERR));
    ASSERT_OK(bx_box_config_read(tmpdir_fd(), &b, ERR));
    char *ta = bx_box_config_text(&a), *tb = bx_box_config_text(&b);
    ASSERT_STREQ(ta, tb);
    ASSERT_EQ(b.cpus, 4);
    ASSERT_EQ(b.disk, 10ull << 30);
    ASSERT_EQ(b.argv.n, 2);
    ASSERT_STREQ(b.argv.v[1], "");
    ASSERT_STREQ(b.env.v[0], a.env.v[0]); /* bytes, not text */
    ASSERT_STREQ(b.labels.v[0], "a=b=c");
    ASSERT_EQ(b.mounts.n, 2);
    ASSERT_STREQ(bx_box_mounts(&b)[0].host, "/srv/\xff\n");
    ASSERT(bx_box_mounts(&b)[0].read_only && !bx_box_mounts(&b)[1].read_only);
    ASSERT_STREQ(bx_box_mounts(&b)[1].kind, BX_MOUNT_WORKSPACE);
    ASSERT_NULL(b.workdir);
    ASSERT(b.auto_remove && !b.detached && b.main && b.stdin_open);
    free(ta);
    free(tb);
    bx_box_config_done(&a);
    bx_box_config_done(&b);
}

/* Replaces one piece of a good config, and reads it. */
static int read_changed(const char *from, const char *to)
{
    struct bx_box_config c;
    fill(&c);
    char *text = bx_box_config_text(&c), *at = strstr(text, from), *changed = NULL;
    ASSERT_NOT_NULL(at);
    ASSERT_GT(asprintf(&changed, "%.*s%s%s", (int)(at - text), text, to, at + strlen(from)), 0);
    ASSERT_OK(bx_write_file(tmpdir_fd(), "config.json", changed, strlen(changed), 0600));
    free(changed);
    free(text);
    bx_box_config_done(&c);
    struct bx_box_config b = {0};
    int r = bx_box_config_read(tmpdir_fd(), &b, ERR);
    bx_box_config_done(&b);
    return r;
}

TEST(a_damaged_config_names_the_field)
{
    static const struct {
        const char *from, *to, *message;
    } cases[] = {
        {"\"cpus\":4", "\"cpus\":0", "config.json: cpus: not an integer from 1 to 64"},
        {"\"cpus\":4", "\"cpus\":65", "cpus"},
        {"\"cpus\":4", "\"cpus\":-1", "cpus"},
        {"\"cpus\":4", "\"cpus\":\"4\"", "cpus"},
        {"\"cpus\":4", "\"cpus\":4.5", "cpus"},
        {"\"cpus\":4,", "", "cpus: missing"},
        {"\"memory\":1073741824", "\"memory\":1", "memory"},
        {"\"network\":1", "\"network\":2", "network"},
        {"\"auto_remove\":true", "\"auto_remove\":1", "auto_remove: not true or false"},
        {"\"rootfs/a.sqfs\"", "\"/etc/shadow\"", "rootfs"},
        {"\"rootfs/a.sqfs\"", "\"rootfs/../../x\"", "rootfs"},
        {"\"rootfs/a.sqfs\"", "\"rootfs//x\"", "rootfs"},
        {"\"rootfs/a.sqfs\"", "\"rootfs/\"", "rootfs"},
        {"\"rootfs/a.sqfs\"", "\"\"", "rootfs"},
        {"\"default\"", "\"../x\"", "kernel"},
        {"\"my-box_1\"", "\"-x\"", "name"},
        {"\"my-box_1\"", "\"a/b\"", "name"},
        {"\"00ff00ff00ff00ff\"", "\"../../x\"", "id"},
        {"\"EMPTY=\"", "\"=x\"", "env"},
        {"\"EMPTY=\"", "\"novalue\"", "env"},
        {"\"EMPTY=\"", "7", "env"},
        {"\"EMPTY=\"", "{\"hex\":\"413d0\"}", "env"},
        {"\"EMPTY=\"", "{\"hex\":\"413d00\"}", "env"},
        {"\"EMPTY=\"", "{\"hex\":\"413dZZ\"}", "env"},
        {"[\"sh\",\"\"]", "[]", "argv: a main command without a program"},
        {"[\"sh\",\"\"]", "[\"\"]", "argv"},
        {"\"rows\":24", "\"rows\":0", "rows"},
        {"\"/data\"", "\"data\"", "mounts: guest"},
        {"\"/data\"", "\"/\"", "mounts: guest"},
        {"\"/src/a\"", "\"/src/../a\"", "mounts: guest"},
        {"\"workspace\"", "\"device\"", "mounts: kind"},
        {"\"read_only\":true", "\"read_only\":1", "mounts: read_only"},
        {"\"mounts\":[", "\"mounts\":[7,", "mounts: not a JSON object"},
        {"{", "[{", "config.json"},
    };
    for (size_t i = 0; i < BX_ARRAY_SIZE(cases); i++) {
        ASSERT_FAILS(BOXLITE_E_INTEGRITY, read_changed(cases[i].from, cases[i].to));
        ASSERT_CONTAINS(err_message(), cases[i].message);
        ASSERT_CONTAINS(err_hint(), "remove the box");
    }
}

TEST(no_config_is_not_found)
{
    struct bx_box_config c = {0};
    struct bx_box_exit e = {0};
    ASSERT_FAILS(BOXLITE_E_NOT_FOUND, bx_box_config_read(tmpdir_fd(), &c, ERR));
    ASSERT_FAILS(BOXLITE_E_NOT_FOUND, bx_box_exit_read(tmpdir_fd(), &e, ERR));
}

TEST(an_exit_comes_back_as_it_was)
{
    struct bx_box_exit a = {.started = 5,
                            .ended = 7,
                            .engine = (char *)"qemu-tcg",
                            .code = BOXLITE_E_GUEST,
                            .error = (char *)"it \"broke\"\n"},
                       b = {0};
    ASSERT_OK(bx_box_exit_write(&a, tmpdir_fd(), ERR));
    ASSERT_OK(bx_box_exit_read(tmpdir_fd(), &b, ERR));
    ASSERT_EQ(b.code, BOXLITE_E_GUEST);
    ASSERT_STREQ(b.error, a.error);
    ASSERT_STREQ(b.engine, "qemu-tcg");
    ASSERT_NULL(b.hint);
    ASSERT_EQ(b.ended, 7);
    bx_box_exit_done(&b);
    ASSERT_OK(bx_write_file(tmpdir_fd(), "exit.json", "", 0, 0600)); /* after a loss of power */
    ASSERT_FAILS(BOXLITE_E_INTEGRITY, bx_box_exit_read(tmpdir_fd(), &b, ERR));
}

/* ---- messages */

TEST(a_command_comes_back_as_it_was)
{
    struct bx_exec_spec a = {.cwd = strdup("/w"),
                             .user = strdup(""),
                             .flags = BX_EXEC_TTY,
                             .rows = 3,
                             .cols = 4,
                             .timeout_ms = 5,
                             .detached = true,
                             .limits = {{7, 1, UINT64_MAX}},
                             .nlimits = 1},
                        b = {0};
    struct bx_buf msg = BX_BUF_INIT(1 << 20);
    struct bx_msg m;
    ASSERT_OK(bx_strv_add(&a.argv, "a b"));
    ASSERT_OK(bx_strv_add(&a.argv, "\xff"));
    ASSERT_OK(bx_strv_add(&a.env, "X=\n"));
    ASSERT_OK(bx_exec_spec_add_file(&a, "dir/a", "x\0y", 3));
    ASSERT_OK(bx_exec_spec_add_file(&a, "b", "", 0));
    _cleanup_free_ char *large = calloc(1, BX_EXEC_FILES_MAX);
    ASSERT_EQ(bx_exec_spec_add_file(&a, "c", large, BX_EXEC_FILES_MAX), -ENOBUFS);
    ASSERT_OK(bx_msg_begin(&msg, BX_SH_EXEC));
    ASSERT_OK(bx_exec_spec_to_msg(&a, &msg));
    ASSERT_OK(bx_msg_parse(bx_buf_data(&msg), msg.len, &m));
    ASSERT_OK(bx_exec_spec_from_msg(&m, &b));
    ASSERT_EQ(b.argv.n, 2);
    ASSERT_STREQ(b.argv.v[1], "\xff");
    ASSERT_STREQ(b.env.v[0], "X=\n");
    ASSERT_STREQ(b.cwd, "/w");
    ASSERT_STREQ(b.user, "");
    ASSERT_EQ(b.flags, BX_EXEC_TTY);
    ASSERT_EQ(b.rows, 3);
    ASSERT_EQ(b.cols, 4);
    ASSERT_EQ(b.timeout_ms, 5);
    ASSERT(b.detached);
    ASSERT_EQ(b.nlimits, 1);
    ASSERT_EQ(b.limits[0].resource, 7);
    ASSERT_EQ(b.limits[0].hard, UINT64_MAX);
    ASSERT_NULL(b.builtin);
    ASSERT_EQ(b.files.len, a.files.len);
    ASSERT(memcmp(bx_buf_data(&b.files), bx_buf_data(&a.files), a.files.len) == 0);
    bx_exec_spec_done(&a);
    bx_exec_spec_done(&b);
    bx_buf_done(&msg);
}

TEST(bad_commands_are_refused)
{
    static const struct {
        uint16_t tag;
        const char *value;
    } cases[] = {{BX_T_ENV, "novalue"}, {BX_T_ENV, "=x"},       {BX_T_FLAGS, "12345678"},
                 {BX_T_ROWS, "x"},      {BX_T_RLIMIT, "short"}, {BX_T_DETACHED, "12345678"},
                 {BX_T_CWD, "/twice"},  {BX_T_FILE, "no end"},  {BX_T_FILE, ""}};
    for (size_t i = 0; i < BX_ARRAY_SIZE(cases); i++) {
        struct bx_buf msg = BX_BUF_INIT(4096);
        struct bx_msg m;
        struct bx_exec_spec s = {0};
        ASSERT_OK(bx_msg_begin(&msg, BX_SH_EXEC));
        ASSERT_OK(bx_msg_str(&msg, BX_T_ARG, "true"));
        ASSERT_OK(bx_msg_str(&msg, BX_T_CWD, "/once"));
        ASSERT_OK(bx_msg_str(&msg, cases[i].tag, cases[i].value));
        ASSERT_OK(bx_msg_parse(bx_buf_data(&msg), msg.len, &m));
        ASSERT_EQ(bx_exec_spec_from_msg(&m, &s), -EPROTO);
        bx_buf_done(&msg);
    }
}

static int parse_exit(uint16_t tag1, uint64_t v1, uint16_t tag2, uint64_t v2,
                      struct bx_exec_exit *ret)
{
    struct bx_buf msg = BX_BUF_INIT(4096);
    struct bx_msg m;
    ASSERT_OK(bx_msg_begin(&msg, BX_AG_EXITED));
    if (tag1) {
        ASSERT_OK(bx_msg_u64(&msg, tag1, v1));
    }
    if (tag2) {
        ASSERT_OK(bx_msg_u64(&msg, tag2, v2));
    }
    ASSERT_OK(bx_msg_parse(bx_buf_data(&msg), msg.len, &m));
    int r = bx_exec_exit_from_msg(&m, ret);
    bx_buf_done(&msg);
    return r;
}

TEST(every_end_of_a_command_has_one_exit_code)
{
    static const struct {
        uint16_t tag1;
        uint64_t v1;
        uint16_t tag2;
        uint64_t v2;
        int code, signal;
        uint32_t flags;
    } cases[] = {
        {BX_T_CODE, 7, 0, 0, 7, 0, 0},
        {BX_T_SIGNO, 9, 0, 0, 137, 9, 0},
        {BX_T_SIGNO, 9, BX_T_EXIT_FLAGS, BOXLITE_EXIT_TIMED_OUT, 124, 9, BOXLITE_EXIT_TIMED_OUT},
        {BX_T_START_ERROR, ENOENT, 0, 0, 127, 0, BOXLITE_EXIT_NOT_STARTED},
        {BX_T_START_ERROR, EACCES, 0, 0, 126, 0, BOXLITE_EXIT_NOT_STARTED},
        {BX_T_START_ERROR, ENOTDIR, BX_T_CODE, 127, 127, 0, BOXLITE_EXIT_NOT_STARTED},
    };
    for (size_t i = 0; i < BX_ARRAY_SIZE(cases); i++) {
        struct bx_exec_exit e = {0};
        ASSERT_OK(parse_exit(cases[i].tag1, cases[i].v1, cases[i].tag2, cases[i].v2, &e));
        ASSERT_EQ(e.code, cases[i].code);
        ASSERT_EQ(e.signal, cases[i].signal);
        ASSERT_EQ(e.flags, cases[i].flags);
        ASSERT_EQ(e.failure != NULL, cases[i].tag1 == BX_T_START_ERROR);
        struct bx_exec_exit back = {0};
        ASSERT_OK(bx_exec_exit_write(&e, tmpdir_fd(), "result.json", ERR));
        ASSERT_OK(bx_exec_exit_read(tmpdir_fd(), "result.json", &back, ERR));
        ASSERT_EQ(back.code, e.code);
        ASSERT_EQ(back.flags, e.flags);
        ASSERT_STREQ(back.failure, e.failure);
        bx_exec_exit_done(&back);
        bx_exec_exit_done(&e);
    }
}

TEST(bad_results_are_refused)
{
    struct bx_exec_exit e = {0};
    ASSERT_EQ(parse_exit(0, 0, 0, 0, &e), -EPROTO);
    ASSERT_EQ(parse_exit(BX_T_CODE, 256, 0, 0, &e), -EPROTO);
    ASSERT_EQ(parse_exit(BX_T_SIGNO, 65, 0, 0, &e), -EPROTO);
    ASSERT_EQ(parse_exit(BX_T_CODE, 0, BX_T_WALL_US, UINT64_MAX, &e), -EPROTO);
    ASSERT_EQ(parse_exit(BX_T_CODE, 0, BX_T_EXIT_FLAGS, UINT64_MAX, &e), -EPROTO);
}

/* Not of reading JSON: jansson's lexer drops a character when it cannot grow its buffer, and says
 * nothing. */
TEST(out_of_memory_is_reported_and_leaks_nothing)
{
    struct bx_exec_spec a = {.cwd = strdup("/w"), .user = strdup("u"), .builtin = strdup("b")};
    struct bx_buf msg = BX_BUF_INIT(4096);
    struct bx_msg m;
    ASSERT_OK(bx_strv_add(&a.argv, "x"));
    ASSERT_OK(bx_strv_add(&a.env, "A=1"));
    ASSERT_OK(bx_msg_begin(&msg, BX_SH_EXEC));
    ASSERT_OK(bx_exec_spec_to_msg(&a, &msg));
    ASSERT_OK(bx_msg_parse(bx_buf_data(&msg), msg.len, &m));
    TORTURE
    {
        struct bx_exec_spec b = {0};
        int r = bx_exec_spec_from_msg(&m, &b);
        ASSERT_EQ(r, allocation_failed() ? -ENOMEM : 0);
        bx_exec_spec_done(&b);
    }
    TORTURE
    {
        struct bx_box_config c;
        fill_quietly(&c);
        char *text = bx_box_config_text(&c);
        ASSERT(text || allocation_failed()); /* hex instead of text is as good */
        free(text);
    }
    bx_exec_spec_done(&a);
    bx_buf_done(&msg);
}
