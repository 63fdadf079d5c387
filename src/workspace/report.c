/* SPDX-License-Identifier: Apache-2.0 */
/*
 * report.c: changes for people and programs. Names may be any bytes: in JSON a name that is no UTF-8 stands in a
 * readable form beside its bytes in hexadecimal, in a diff it is quoted as git does it.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/io.h"
#include "base/json.h"
#include "workspace/box.h"

#define TEXT_FILE_MAX (4u << 20) /* larger files are named, not shown */

static const char *type_name(enum bx_ws_type type)
{
    static const char *const names[] = {"none", "file", "folder", "link", "special"};
    return names[type];
}

/* ---- JSON */

static int set_name(json_t *o, const char *key, const char *path)
{
    size_t n = strlen(path);
    int r = bx_json_set(o, key, bx_json_bytes(path, n));
    if (r < 0 || bx_utf8_valid(path, n)) {
        return r;
    }
    _cleanup_free_ char *hex = malloc(2 * n + 1), *name = bx_asprintf("%s_hex", key);
    if (!hex || !name) {
        return -ENOMEM;
    }
    for (size_t i = 0; i < n; i++) {
        (void)snprintf(hex + 2 * i, 3, "%02x", (unsigned char)path[i]);
    }
    return bx_json_set(o, name, json_string(hex));
}

static int set_mode(json_t *o, const char *key, uint32_t mode)
{
    char text[16];
    (void)snprintf(text, sizeof(text), "%04o", mode & 07777);
    return bx_json_set(o, key, json_string(text));
}

static int set_side(json_t *o, const char *prefix, const struct bx_ws_node *n, const char *target)
{
    char key[32];
    if (n->type == BX_WS_NONE) {
        return 0;
    }
    (void)snprintf(key, sizeof(key), "%stype", prefix);
    int r = bx_json_set(o, key, json_string(type_name(n->type)));
    (void)snprintf(key, sizeof(key), "%smode", prefix);
    r = r < 0 || n->type == BX_WS_LINK ? r : set_mode(o, key, n->mode);
    (void)snprintf(key, sizeof(key), "%ssize", prefix);
    r = r < 0 || n->type != BX_WS_FILE ? r : bx_json_set(o, key, json_integer((json_int_t)n->size));
    (void)snprintf(key, sizeof(key), "%starget", prefix);
    return r < 0 || !target ? r : set_name(o, key, target);
}

static json_t *change_json(const struct bx_ws_change *c)
{
    json_t *o = json_object();
    int r = o ? set_name(o, "path", c->path) : -ENOMEM;
    r = r < 0 ? r : bx_json_set(o, "change", json_string(bx_ws_kind_name(c->kind)));
    r = r < 0 || !c->from ? r : set_name(o, "from", c->from);
    r = r < 0 ? r : set_side(o, "", &c->fresh, c->target);
    r = r < 0 ? r : set_side(o, "old_", &c->old, c->old_target);
    r = r < 0 || !c->binary ? r : bx_json_set(o, "binary", json_true());
    r = r < 0 || !c->conflict ? r : bx_json_set(o, "conflict", json_string(c->conflict));
    r = r < 0 || !c->rule ? r : bx_json_set(o, "held_back_by", json_string(c->rule));
    r = r < 0 || !c->allow || !*c->allow ? r : bx_json_set(o, "allow", json_string(c->allow));
    if (r < 0) {
        json_decref(o);
        return NULL;
    }
    return o;
}

static const char *status_name(int status)
{
    static const char *const names[] = {"listed", "applied", "held back", "conflict",
                                        "nothing to do"};
    return names[status];
}

int bx_ws_report_json(boxlite_changes *c, const char **ret, boxlite_error **err)
{
    _cleanup_json_ json_t *o = json_object();
    json_t *list = json_array();
    int r = o ? set_name(o, "workspace", c->host) : -ENOMEM;
    r = r < 0 ? r : set_name(o, "guest", c->guest);
    r = r < 0 ? r : bx_json_set(o, "status", json_string(status_name(c->status)));
    for (size_t i = 0; r == 0 && i < c->list.n; i++) {
        r = json_array_append_new(list, change_json(&c->list.v[i])) < 0 ? -ENOMEM : 0;
    }
    r = r < 0 ? (json_decref(list), r) : bx_json_set(o, "changes", list);
    r = r < 0 || c->conflicts.n == 0
            ? r
            : bx_json_set(o, "conflicts", bx_json_from_strv(&c->conflicts));
    const struct {
        const char *key;
        size_t n;
    } counts[] = {{"ignored", c->list.ignored},
                  {"git_ignored", c->list.git_ignored},
                  {"outside_paths", c->list.outside}};
    for (size_t i = 0; r == 0 && i < BX_ARRAY_SIZE(counts); i++) {
        r = bx_json_set(o, counts[i].key, json_integer((json_int_t)counts[i].n));
    }
    char *text = r < 0 ? NULL : bx_json_text(o);
    if (!text) {
        return bx_fail_oom(err);
    }
    free(c->json);
    *ret = c->json = text;
    return 0;
}

/* ---- unified diff */

static int load_old(const boxlite_changes *c, const struct bx_ws_change *ch, struct bx_buf *ret)
{
    if (ch->old.type != BX_WS_FILE) {
        return 0;
    }
    _cleanup_close_ int fd =
        bx_ws_openat(c->root, ch->from ? ch->from : ch->path, O_RDONLY | O_NONBLOCK, 0);
    return fd < 0 ? fd : bx_read_fd(fd, ret);
}

static int load_new(const boxlite_changes *c, const struct bx_ws_change *ch, struct bx_buf *ret)
{
    char name[32];
    (void)snprintf(name, sizeof(name), "%d", ch->file);
    return ch->file < 0 ? 0 : bx_read_file(c->dirfd, name, ret);
}

/* A name in the head of a diff: with anything odd in it in quotes, bytes as \ooo. */
static int put_name(struct bx_buf *out, const char *prefix, const char *path)
{
    bool plain = true;
    for (const unsigned char *p = (const unsigned char *)path; *p; p++) {
        plain = plain && *p >= ' ' && *p < 0x7f && *p != '"' && *p != '\\';
    }
    if (plain) {
        return bx_buf_appendf(out, "%s%s", prefix, path);
    }
    int r = bx_buf_appendf(out, "\"%s", prefix);
    for (const unsigned char *p = (const unsigned char *)path; r == 0 && *p; p++) {
        r = *p == '"' || *p == '\\'  ? bx_buf_appendf(out, "\\%c", *p)
            : *p >= ' ' && *p < 0x7f ? bx_buf_append(out, p, 1)
                                     : bx_buf_appendf(out, "\\%03o", *p);
    }
    return r < 0 ? r : bx_buf_appends(out, "\"");
}

static unsigned git_mode(const struct bx_ws_node *n)
{
    return n->type == BX_WS_LINK ? 0120000 : 0100000 | (n->mode & 0111 ? 0755 : 0644);
}

static int put_head(struct bx_buf *out, const struct bx_ws_change *c)
{
    const bool had = c->old.type != BX_WS_NONE, has = c->fresh.type != BX_WS_NONE;
    int r = bx_buf_appends(out, "diff --git ");
    r = r < 0 ? r : put_name(out, "a/", c->from ? c->from : c->path);
    r = r < 0 ? r : bx_buf_appends(out, " ");
    r = r < 0 ? r : put_name(out, "b/", c->path);
    r = r < 0 ? r : bx_buf_appends(out, "\n");
    if (r == 0 && !had) {
        r = bx_buf_appendf(out, "new file mode %06o\n", git_mode(&c->fresh));
    } else if (r == 0 && !has) {
        r = bx_buf_appendf(out, "deleted file mode %06o\n", git_mode(&c->old));
    } else if (r == 0 && git_mode(&c->old) != git_mode(&c->fresh)) {
        r = bx_buf_appendf(out, "old mode %06o\nnew mode %06o\n", git_mode(&c->old),
                           git_mode(&c->fresh));
    }
    if (r == 0 && c->from) {
        r = bx_buf_appends(out, "similarity index 100%\nrename from ");
        r = r < 0 ? r : put_name(out, "", c->from);
        r = r < 0 ? r : bx_buf_appends(out, "\nrename to ");
        r = r < 0 ? r : put_name(out, "", c->path);
        r = r < 0 ? r : bx_buf_appends(out, "\n");
    }
    return r;
}

static int put_sides(struct bx_buf *out, const struct bx_ws_change *c)
{
    int r = bx_buf_appends(out, "--- ");
    r = r < 0                       ? r
        : c->old.type == BX_WS_NONE ? bx_buf_appends(out, "/dev/null")
                                    : put_name(out, "a/", c->path);
    r = r < 0 ? r : bx_buf_appends(out, "\n+++ ");
    r = r < 0                         ? r
        : c->fresh.type == BX_WS_NONE ? bx_buf_appends(out, "/dev/null")
                                      : put_name(out, "b/", c->path);
    return r < 0 ? r : bx_buf_appends(out, "\n");
}

int bx_ws_report_lines(const boxlite_changes *c, const struct bx_ws_change *ch,
                       struct bx_ws_lines *ret, boxlite_error **err)
{
    _cleanup_buf_ struct bx_buf old = BX_BUF_INIT(TEXT_FILE_MAX),
                                fresh = BX_BUF_INIT(TEXT_FILE_MAX);
    *ret = (struct bx_ws_lines){0};
    if (ch->binary || ch->conflict || load_old(c, ch, &old) < 0 || load_new(c, ch, &fresh) < 0) {
        return 0;
    }
    return bx_ws_count_lines(bx_buf_str(&old), old.len, bx_buf_str(&fresh), fresh.len, ret, err);
}

/* The body of one change; NO_SPACE when it does not fit. */
static int put_body(const boxlite_changes *c, const struct bx_ws_change *ch, struct bx_buf *out,
                    boxlite_error **err)
{
    _cleanup_buf_ struct bx_buf old = BX_BUF_INIT(TEXT_FILE_MAX),
                                fresh = BX_BUF_INIT(TEXT_FILE_MAX);
    int r = 0;
    if (ch->old.type == BX_WS_LINK && ch->old_target) {
        r = bx_buf_appends(&old, ch->old_target);
    }
    if (r == 0 && ch->target) {
        r = bx_buf_appends(&fresh, ch->target);
    }
    if (ch->binary || ch->conflict || load_old(c, ch, &old) < 0 || load_new(c, ch, &fresh) < 0) {
        const char *why = ch->binary     ? "Binary files differ"
                          : ch->conflict ? "The file here is not the one that the box saw"
                                         : "Files differ, and are too large to be shown";
        return bx_buf_appendf(out, "%s\n", why) < 0 ? BOXLITE_E_NO_SPACE : 0;
    }
    if (old.len == fresh.len && memcmp(bx_buf_data(&old), bx_buf_data(&fresh), old.len) == 0) {
        return 0;
    }
    r = r < 0 ? r : put_sides(out, ch);
    return r < 0
               ? BOXLITE_E_NO_SPACE
               : bx_ws_unified(bx_buf_str(&old), old.len, bx_buf_str(&fresh), fresh.len, out, err);
}

static bool shown(const struct bx_ws_change *c)
{
    return (c->old.type == BX_WS_FILE || c->old.type == BX_WS_LINK || c->old.type == BX_WS_NONE) &&
           (c->fresh.type == BX_WS_FILE || c->fresh.type == BX_WS_LINK ||
            c->fresh.type == BX_WS_NONE);
}

int bx_ws_report_text(boxlite_changes *c, size_t max, const char **ret, boxlite_error **err)
{
    _cleanup_buf_ struct bx_buf out = BX_BUF_INIT(max);
    size_t i, whole = 0;
    for (i = 0; i < c->list.n; i++) {
        const struct bx_ws_change *ch = &c->list.v[i];
        if (!shown(ch)) {
            continue;
        }
        _cleanup_error_ boxlite_error *why = NULL;
        whole = out.len;
        int r = put_head(&out, ch) < 0 ? BOXLITE_E_NO_SPACE : put_body(c, ch, &out, &why);
        if (r == BOXLITE_E_NO_SPACE) {
            break;
        }
        if (r < 0) {
            return bx_fail_again(err, why);
        }
    }
    if (i < c->list.n) { /* cut behind a whole file, and said so */
        out.len = whole;
        out.max = SIZE_MAX / 2;
        if (bx_buf_appendf(
                &out,
                "# %zu more of %zu changes are not shown: the diff is longer than %zu bytes\n",
                c->list.n - i, c->list.n, max) < 0) {
            return bx_fail_oom(err);
        }
    }
    char *text = bx_buf_steal(&out, NULL);
    if (!text) {
        return bx_fail_oom(err);
    }
    free(c->text);
    *ret = c->text = text;
    return 0;
}
