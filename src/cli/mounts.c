/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mounts.c: see mounts.h.
 *
 * Three spellings of one thing: HOST:PATH[:ro] as Docker has it, KEY=VALUE,… for paths with a colon, DIR[:PATH] for a
 * workspace. "~" at the beginning is the user's home here as well, because no shell sees it behind "source=".
 */
#include "cli/mounts.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#include "cli/cli.h"
#include "cli/util.h"

struct mount {
    char *source, *target, *type;
    bool read_only, create;
};

static void mount_done(struct mount *m)
{
    free(m->source);
    free(m->target);
    free(m->type);
}

static char *host_path(const char *text, size_t length)
{
    const char *home = getenv("HOME");

    if (home && length > 0 && text[0] == '~' && (length == 1 || text[1] == '/')) {
        return cli_text("%s%.*s", home, (int)length - 1, text + 1);
    }
    return cli_copy(text, length);
}

static int add_volume(boxlite_box_options *o, const char *text)
{
    _cleanup_error_ boxlite_error *err = NULL;
    const char *colon = strchr(text, ':');
    const char *guest = colon ? colon + 1 : "", *mode = strrchr(guest, ':');
    size_t length = mode ? (size_t)(mode - guest) : strlen(guest);
    bool read_only = mode && strcmp(mode, ":ro") == 0;

    if (!colon || colon == text || length == 0 || (mode && !read_only && strcmp(mode, ":rw") != 0)) {
        return cli_error_hint("like -v ./data:/data or -v ~/src:/src:ro", "-v: '%s' is not HOST:PATH[:ro]", text);
    }
    _cleanup_free_ char *host = host_path(text, (size_t)(colon - text));
    _cleanup_free_ char *path = cli_copy(guest, length);

    return boxlite_box_options_add_volume(o, host, path, read_only, &err) < 0 ? cli_fail(&err, NULL) : 0;
}

static int add_workspace(boxlite_box_options *o, const char *text)
{
    _cleanup_error_ boxlite_error *err = NULL;
    const char *colon = strchr(text, ':');
    _cleanup_free_ char *host = host_path(text, colon ? (size_t)(colon - text) : strlen(text));

    if (*host == '\0' || (colon && colon[1] == '\0')) {
        return cli_error_hint("like --workspace . or --workspace ~/src:/src", "--workspace: '%s' is not DIR[:PATH]",
                              text);
    }
    return boxlite_box_options_add_workspace(o, host, colon ? colon + 1 : NULL, &err) < 0 ? cli_fail(&err, NULL) : 0;
}

/* ---- --mount */

static const struct {
    const char *name;
    size_t text; /* offset of a text, or of a flag */
    bool flag;
} keys[] = {
    {"type", offsetof(struct mount, type), false},
    {"source", offsetof(struct mount, source), false},
    {"src", offsetof(struct mount, source), false},
    {"target", offsetof(struct mount, target), false},
    {"destination", offsetof(struct mount, target), false},
    {"dst", offsetof(struct mount, target), false},
    {"readonly", offsetof(struct mount, read_only), true},
    {"ro", offsetof(struct mount, read_only), true},
    {"create", offsetof(struct mount, create), true},
};

/* KEY=VALUE or KEY of a --mount. False: there is no such key, or not with such a value. */
static bool set_key(struct mount *m, const char *item, size_t length)
{
    const char *equals = memchr(item, '=', length);
    size_t name = equals ? (size_t)(equals - item) : length;
    size_t left = equals ? length - name - 1 : 0;

    for (size_t i = 0; i < CLI_COUNT(keys); i++) {
        char *field = (char *)m + keys[i].text;

        if (strlen(keys[i].name) != name || strncmp(keys[i].name, item, name) != 0) {
            continue;
        }
        if (!keys[i].flag) {
            free(*(char **)field);
            *(char **)field = equals ? cli_copy(equals + 1, left) : NULL;
            return left > 0;
        }
        bool on = !equals || (left == 4 && strncmp(equals + 1, "true", 4) == 0);

        *(bool *)field = on;
        return on || (left == 5 && strncmp(equals + 1, "false", 5) == 0);
    }
    return false;
}

/* Makes a folder and those above it. */
static int make_folder(const char *path)
{
    _cleanup_free_ char *copy = cli_text("%s/", path);

    for (char *slash = copy + 1; (slash = strchr(slash, '/')); slash++) {
        *slash = 0;
        if (mkdir(copy, 0777) < 0 && errno != EEXIST) {
            return cli_error("making %s: %s", copy, strerror(errno));
        }
        *slash = '/';
    }
    return 0;
}

static int add_mount(boxlite_box_options *o, const char *text)
{
    _cleanup_error_ boxlite_error *err = NULL;
    _cleanup_(mount_done) struct mount m = {0};
    int status = 0;

    for (const char *p = text; *p;) {
        size_t length = strcspn(p, ",");

        if (!set_key(&m, p, length)) {
            return cli_error_hint("the keys are type, source, target, readonly and create",
                                  "--mount: '%.*s' is not understood", (int)length, p);
        }
        p += length;
        p += *p == ',';
    }
    if (m.type && strcmp(m.type, "bind") != 0) {
        return cli_error_hint("type=bind shares a folder of this machine", "--mount: there is no type '%s'", m.type);
    }
    if (!m.source || !m.target) {
        return cli_error_hint("like --mount type=bind,source=./data,target=/data",
                              "--mount: '%s' names no source or no target", text);
    }
    _cleanup_free_ char *host = host_path(m.source, strlen(m.source));

    if (m.create) {
        status = make_folder(host);
    }
    if (!status && boxlite_box_options_add_volume(o, host, m.target, m.read_only, &err) < 0) {
        status = cli_fail(&err, NULL);
    }
    return status;
}

int cli_add_mounts(boxlite_box_options *o, const struct cli_box *box)
{
    const struct {
        const struct cli_list *list;
        int (*add)(boxlite_box_options *o, const char *text);
    } kinds[] = {
        {&box->volumes, add_volume}, {&box->mounts, add_mount}, {&box->workspaces, add_workspace}};
    int status = 0;

    for (size_t k = 0; k < CLI_COUNT(kinds); k++) {
        for (size_t i = 0; !status && i < kinds[k].list->count; i++) {
            status = kinds[k].add(o, kinds[k].list->items[i]);
        }
    }
    return status;
}
