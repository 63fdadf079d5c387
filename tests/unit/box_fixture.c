/* SPDX-License-Identifier: Apache-2.0 */
/*
 * box_fixture.c: see box_fixture.h.
 */
#include "box_fixture.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/io.h"
#include "base/path.h"

static char home[512];

const char *bf_home(void)
{
    return home;
}

/* A tar with one folder in it. */
static void write_tar(int dirfd, const char *name)
{
    unsigned char tar[1536] = {0};
    unsigned sum = 0;
    (void)snprintf((char *)tar, 100, "etc/");
    (void)snprintf((char *)tar + 100, 8, "%07o", 0755);
    (void)snprintf((char *)tar + 108, 8, "%07o", 0);
    (void)snprintf((char *)tar + 116, 8, "%07o", 0);
    (void)snprintf((char *)tar + 124, 12, "%011o", 0);
    (void)snprintf((char *)tar + 136, 12, "%011o", 0);
    tar[156] = '5';
    memcpy(tar + 257, "ustar\00000", 8);
    memset(tar + 148, ' ', 8);
    for (int i = 0; i < 512; i++) {
        sum += tar[i];
    }
    (void)snprintf((char *)tar + 148, 8, "%06o", sum);
    ASSERT_OK(bx_write_file(dirfd, name, tar, sizeof(tar), 0600));
}

static void make_home(void)
{
    char path[600];
    boxlite_runtime_options o;
    boxlite_runtime *rt;

    (void)snprintf(home, sizeof(home), "%s/home", tmpdir());
    (void)snprintf(path, sizeof(path), "%s/kernels/default", home);
    ASSERT_OK(mkdir(home, 0700));
    ASSERT_OK(bx_mkdir_p(path, 0700));
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    ASSERT_OK(fd);
    ASSERT_OK(bx_write_file(fd, "vmlinux", "x", 1, 0600));
    ASSERT_OK(bx_write_file(fd, "initramfs", "x", 1, 0600));
    ASSERT_OK(bx_write_file(fd, "modules.cpio", "x", 1, 0600));
    ASSERT_OK(bx_write_file(fd, "kernel.json", "{\"release\":\"6.1\"}", 17, 0600));
    (void)close(fd);
    write_tar(tmpdir_fd(), "image.tar");
    (void)snprintf(path, sizeof(path), "%s/image.tar", tmpdir());
    boxlite_runtime_options_init(&o);
    o.home = home;
    ASSERT_OK(boxlite_runtime_new(&o, &rt, ERR));
    ASSERT_OK(boxlite_image_import(rt, path, IMAGE, NULL, NULL, ERR));
    boxlite_runtime_free(rt);
}

boxlite_runtime *bf_runtime(void)
{
    boxlite_runtime_options o;
    boxlite_runtime *rt = NULL;
    if (!*home) {
        make_home();
    }
    boxlite_runtime_options_init(&o);
    o.home = home;
    o.libexec = FAKESHIM_DIR;
    ASSERT_OK(boxlite_runtime_new(&o, &rt, ERR));
    return rt;
}

boxlite_box *bf_box(boxlite_runtime *rt, const char *name, const char *main, int flags)
{
    const char *argv[] = {"/bin/sh", "-c", main};
    boxlite_box_options *o;
    boxlite_box *box = NULL;

    ASSERT_OK(boxlite_box_options_new(IMAGE, &o, ERR));
    if (name) {
        ASSERT_OK(boxlite_box_options_set_name(o, name, ERR));
    }
    if (main) {
        ASSERT_OK(boxlite_box_options_set_command(o, argv, 3, ERR));
        ASSERT_OK(boxlite_box_options_set_main(o, 1, ERR));
        ASSERT_OK(boxlite_box_options_set_stdin(o, (flags & BF_STDIN) != 0, ERR));
    }
    ASSERT_OK(boxlite_box_options_set_disk(o, 64u << 20, ERR));
    ASSERT_OK(boxlite_box_options_set_detached(o, (flags & BF_DETACHED) != 0, ERR));
    ASSERT_OK(boxlite_box_options_set_auto_remove(o, (flags & BF_AUTO_REMOVE) != 0, ERR));
    ASSERT_OK(boxlite_box_create(rt, o, &box, ERR));
    boxlite_box_options_free(o);
    if (flags & BF_START) {
        ASSERT_OK(boxlite_box_start(box, ERR));
    }
    return box;
}

boxlite_exec *bf_sh(boxlite_box *box, const char *script, int flags)
{
    const char *argv[] = {"/bin/sh", "-c", script};
    boxlite_exec_options *o;
    boxlite_exec *exec = NULL;

    ASSERT_OK(boxlite_exec_options_new(argv, 3, &o, ERR));
    ASSERT_OK(boxlite_exec_options_set_stdin(o, (flags & BF_IN) != 0, ERR));
    ASSERT_OK(boxlite_exec_options_set_detached(o, (flags & BF_KEEP) != 0, ERR));
    ASSERT_OK(boxlite_box_exec(box, o, &exec, ERR));
    boxlite_exec_options_free(o);
    return exec;
}

char *bf_read_all(boxlite_exec *exec, int stream, size_t *ret_len)
{
    static struct bx_buf all; /* not on the stack: it lives over FAIL's jump */
    static char piece[65536];
    ssize_t n;
    all = (struct bx_buf)BX_BUF_INIT(256u << 20);
    while ((n = boxlite_exec_read(exec, stream, piece, sizeof(piece), NULL)) != 0) {
        if (n == BOXLITE_E_AGAIN) {
            ASSERT_OK(boxlite_exec_poll(
                exec, stream == BOXLITE_STDOUT ? BOXLITE_EXEC_STDOUT : BOXLITE_EXEC_STDERR, 20000,
                ERR));
            continue;
        }
        ASSERT_OK(n);
        ASSERT_OK(bx_buf_append(&all, piece, (size_t)n));
    }
    return bx_buf_steal(&all, ret_len);
}

int bf_wait(boxlite_exec *exec)
{
    boxlite_exec_result result = {.struct_size = sizeof(result)};
    ASSERT_OK(boxlite_exec_wait(exec, 20000, &result, ERR));
    return result.exit_code;
}

void bf_expect(boxlite_box *box, const char *script, const char *out)
{
    boxlite_exec *exec = bf_sh(box, script, 0);
    char *text = bf_read_all(exec, BOXLITE_STDOUT, NULL);
    ASSERT_STREQ(text, out);
    ASSERT_EQ(bf_wait(exec), 0);
    boxlite_exec_free(exec);
    free(text);
}

pid_t bf_shim_pid(const boxlite_box *box)
{
    char path[700];
    struct bx_buf text = BX_BUF_INIT(64);
    (void)snprintf(path, sizeof(path), "%s/boxes/%s/lock", home, boxlite_box_id(box));
    ASSERT_OK(bx_read_file(AT_FDCWD, path, &text));
    pid_t pid = (pid_t)strtol(bx_buf_str(&text), NULL, 10);
    bx_buf_done(&text);
    ASSERT_GT(pid, 1);
    return pid;
}

bool bf_exists(const char *id, const char *name)
{
    char path[700];
    (void)snprintf(path, sizeof(path), "%s/boxes/%s/%s", home, id, name);
    return access(path, F_OK) == 0;
}

void bf_fail_shim(const char *how)
{
    if (how) {
        (void)setenv("FAKE_SHIM", how, 1);
    } else {
        (void)unsetenv("FAKE_SHIM");
    }
}
