/* SPDX-License-Identifier: Apache-2.0 */
/*
 * boxconfig.c: the files of a box: config.json, exit.json, result.json. See boxconfig.h.
 *
 * Each file is one table (record.h), and every member has its bounds there: the same table refuses
 * a damaged file and a bad value from a caller, since what is written is what would be read.
 */
#include "box/boxconfig.h"

#include <ctype.h>
#include <errno.h>

#include "base/error.h"
#include "base/io.h"
#include "base/path.h"
#include "box/record.h"
#include "disk/upper.h"

#define CONFIG_MAX (16u << 20) /* argv and env of 4 MiB, escaped */
#define EXIT_MAX (64u << 10)
#define U63_MAX ((uint64_t)INT64_MAX)

/* ---- checks of single values */

static bool is_id(const char *s)
{
    return strspn(s, "0123456789abcdef") == strlen(s) && strlen(s) >= 2 && strlen(s) <= 64;
}

static bool is_name(const char *s)
{
    size_t n = strlen(s);
    if (n == 0 || n > 63 || !isalnum((unsigned char)s[0])) {
        return false;
    }
    for (size_t i = 0; i < n; i++) {
        if (!isalnum((unsigned char)s[i]) && !strchr("_.-", s[i])) {
            return false;
        }
    }
    return true;
}

/* A relative path that stays below where it starts. */
static bool is_below(const char *s)
{
    while (*s) {
        size_t n = strcspn(s, "/");
        if (n == 0 || (n == 1 && s[0] == '.') || (n == 2 && s[0] == '.' && s[1] == '.')) {
            return false;
        }
        s += n;
        if (*s == '/' && *++s == '\0') {
            return false;
        }
        if (*s == '\0') {
            return true;
        }
    }
    return false;
}

static bool is_assignment(const char *s)
{
    const char *eq = strchr(s, '=');
    return eq && eq != s;
}

static bool is_not_empty(const char *s)
{
    return *s != '\0';
}

static bool is_mount_kind(const char *s)
{
    return bx_streq(s, BX_MOUNT_SHARE) || bx_streq(s, BX_MOUNT_WORKSPACE);
}

/* As bx_mount_guest_path() makes them: absolute, no part empty, "." or "..", not the root. */
static bool is_absolute(const char *s)
{
    return s[0] == '/' && is_below(s + 1);
}

static bool is_host_path(const char *s)
{
    return bx_streq(s, "/") || is_absolute(s);
}

/* ---- config.json */

#define F(k, t, ...)                                                                               \
    {                                                                                              \
        .key = #k, .type = BX_REC_##t, .offset = offsetof(REC, k), __VA_ARGS__                     \
    }

#define REC struct bx_box_mount
static const struct bx_rec_field mount_fields[] = {
    F(kind, STR, .ok = is_mount_kind),
    F(host, STR, .ok = is_host_path),
    F(guest, STR, .ok = is_absolute),
    F(read_only, BOOL),
};
#undef REC
static const struct bx_rec_table mount_table = {mount_fields, BX_ARRAY_SIZE(mount_fields),
                                                sizeof(struct bx_box_mount)};

#define REC struct bx_box_config
static const struct bx_rec_field config_fields[] = {
    F(id, STR, .ok = is_id),
    F(name, STR, .ok = is_name),
    F(hostname, STR, .ok = is_name),
    F(image, STR),
    F(digest, STR, .optional = true),
    F(rootfs, STR, .ok = is_below),
    F(kernel, STR, .ok = bx_is_filename),
    F(engine, STR, .ok = is_not_empty, .max = 32),
    F(cpus, U32, .min = 1, .max = BX_BOX_CPUS_MAX),
    F(memory, U64, .min = BX_BOX_MEMORY_MIN, .max = BX_BOX_MEMORY_MAX),
    F(disk, U64, .min = BX_UPPER_MIN, .max = BX_UPPER_MAX),
    F(network, I32, .max = BOXLITE_NETWORK_USER),
    F(auto_remove, BOOL),
    F(detached, BOOL),
    F(timeout_ms, U64, .max = UINT64_C(1) << 53),
    F(created, I64, .max = U63_MAX),
    F(labels, STRV, .ok = is_assignment, .optional = true),
    F(env, STRV, .ok = is_assignment, .optional = true),
    F(workdir, STR, .optional = true),
    F(user, STR, .optional = true),
    F(stop_signal, STR, .optional = true, .max = 32),
    F(main, BOOL),
    F(argv, STRV, .optional = true),
    F(rows, U16, .max = UINT16_MAX),
    F(cols, U16, .max = UINT16_MAX),
    F(stdin_open, BOOL),
    F(mounts, LIST, .item = &mount_table, .optional = true, .max = BX_BOX_MOUNTS_MAX),
};
#undef REC
static const struct bx_rec_table config_table = {config_fields, BX_ARRAY_SIZE(config_fields),
                                                 sizeof(struct bx_box_config)};

void bx_box_config_done(struct bx_box_config *c)
{
    bx_rec_done(&config_table, c);
}

int bx_box_mount_add(struct bx_rec_list *list, const struct bx_box_mount *m)
{
    struct bx_box_mount copy = {strdup(m->kind), strdup(m->host), strdup(m->guest), m->read_only};
    struct bx_box_mount *v = realloc(list->v, (list->n + 1) * sizeof(copy));
    list->v = v ? v : list->v;
    if (!v || !copy.kind || !copy.host || !copy.guest) {
        bx_rec_done(&mount_table, &copy);
        return -ENOMEM;
    }
    v[list->n++] = copy;
    return 0;
}

void bx_box_mounts_done(struct bx_rec_list *list)
{
    bx_rec_list_done(&mount_table, list);
}

char *bx_box_config_text(const struct bx_box_config *c)
{
    return bx_rec_text(&config_table, c);
}

static int check_config(const struct bx_box_config *c, boxlite_error **err)
{
    if (c->main && (c->argv.n == 0 || c->argv.v[0][0] == '\0')) {
        return bx_fail(err, BOXLITE_E_INTEGRITY, "argv: a main command without a program");
    }
    if ((c->rows == 0) != (c->cols == 0)) {
        return bx_fail(err, BOXLITE_E_INTEGRITY, "rows: a terminal needs rows and columns");
    }
    return 0;
}

int bx_box_config_write(const struct bx_box_config *c, int box_fd, boxlite_error **err)
{
    return bx_rec_write(&config_table, c, box_fd, "config.json", CONFIG_MAX, true, err);
}

int bx_box_config_read(int box_fd, struct bx_box_config *ret, boxlite_error **err)
{
    struct bx_box_config c = {0};
    int r = bx_rec_read(&config_table, box_fd, "config.json", CONFIG_MAX, &c, err);
    if (r == 0 && (r = check_config(&c, err)) < 0) {
        bx_wrap(err, "config.json");
        bx_box_config_done(&c);
    }
    if (r < 0) {
        bx_hint(err, "the box's configuration is damaged: remove the box and create it again");
        return r;
    }
    *ret = c;
    return 0;
}

/* ---- exit.json */

#define REC struct bx_box_exit
static const struct bx_rec_field exit_fields[] = {
    F(started, I64, .max = U63_MAX),
    F(ended, I64, .max = U63_MAX),
    F(engine, STR, .optional = true, .max = 32),
    F(code, I32, .min = -99, .max = 0),
    F(error, STR, .optional = true, .max = EXIT_MAX / 4),
    F(hint, STR, .optional = true, .max = EXIT_MAX / 4),
};
#undef REC
static const struct bx_rec_table exit_table = {exit_fields, BX_ARRAY_SIZE(exit_fields),
                                               sizeof(struct bx_box_exit)};

void bx_box_exit_done(struct bx_box_exit *e)
{
    bx_rec_done(&exit_table, e);
}

int bx_box_exit_write(const struct bx_box_exit *e, int box_fd, boxlite_error **err)
{
    /* Read after a host's crash as what it then is: a box that was lost. */
    return bx_rec_write(&exit_table, e, box_fd, "exit.json", EXIT_MAX, false, err);
}

int bx_box_exit_read(int box_fd, struct bx_box_exit *ret, boxlite_error **err)
{
    struct bx_box_exit e = {0};
    int r = bx_rec_read(&exit_table, box_fd, "exit.json", EXIT_MAX, &e, err);
    if (r == 0) {
        *ret = e;
    }
    return r;
}

/* ---- result.json */

#define REC struct bx_exec_exit
static const struct bx_rec_field result_fields[] = {
    F(code, I32, .max = 255),         F(signal, I32, .max = 64),
    F(flags, U32, .max = UINT32_MAX), F(wall_us, U64, .max = U63_MAX),
    F(user_us, U64, .max = U63_MAX),  F(system_us, U64, .max = U63_MAX),
    F(max_rss, U64, .max = U63_MAX),  F(failure, STR, .optional = true),
};
#undef REC
static const struct bx_rec_table result_table = {result_fields, BX_ARRAY_SIZE(result_fields),
                                                 sizeof(struct bx_exec_exit)};

void bx_exec_exit_done(struct bx_exec_exit *e)
{
    bx_rec_done(&result_table, e);
}

int bx_exec_exit_write(const struct bx_exec_exit *e, int dirfd, const char *name,
                       boxlite_error **err)
{
    return bx_rec_write(&result_table, e, dirfd, name, EXIT_MAX, false, err);
}

int bx_exec_exit_read(int dirfd, const char *name, struct bx_exec_exit *ret, boxlite_error **err)
{
    struct bx_exec_exit e = {0};
    int r = bx_rec_read(&result_table, dirfd, name, EXIT_MAX, &e, err);
    if (r == 0) {
        *ret = e;
    }
    return r;
}
