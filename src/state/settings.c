/* SPDX-License-Identifier: Apache-2.0 */
/*
 * settings.c: a table of settings, "GROUP.NAME", each a size. A group or name that the table does not have is a mistake that is told: a
 * limit with a typing error in its name would else be no limit.
 */
#include "state/settings.h"

#include <errno.h>
#include <stddef.h>
#include <string.h>

#include "base/error.h"
#include "base/io.h"
#include "base/json.h"
#include "base/str.h"

#define FILE_NAME "settings.json"
#define FILE_MAX (64u << 10)

static const struct setting {
    const char *group, *name;
    size_t offset;
} settings[] = {
    {"images", "limit", offsetof(struct bx_settings, images_limit)},
    {"images", "unpacked", offsetof(struct bx_settings, images_unpacked)},
};

static const struct setting *find(const char *group, const char *name)
{
    for (size_t i = 0; i < BX_ARRAY_SIZE(settings); i++) {
        if (bx_streq(settings[i].group, group) && (!name || bx_streq(settings[i].name, name))) {
            return &settings[i];
        }
    }
    return NULL;
}

static int fail_unknown(const char *group, const char *name, boxlite_error **err)
{
    int r = bx_fail(err, BOXLITE_E_INVALID, "there is no setting %.64s%s%.64s", group,
                    name ? "." : "", name ? name : "");

    bx_hint(err, "see boxlite-home(7) for those that there are");
    return r;
}

static int set_one(const char *group, const char *name, const json_t *value, struct bx_settings *s,
                   boxlite_error **err)
{
    const struct setting *known = find(group, name);
    const char *text = json_string_value(value);
    uint64_t size = 0;
    int r;

    if (!known) {
        return fail_unknown(group, name, err);
    }
    if (!text || bx_parse_size(text, &size) < 0) {
        r = bx_fail(err, BOXLITE_E_INVALID, "%s.%s is no size", group, name);
        bx_hint(err, "write a size as text, for example \"%s\": \"20G\"", name);
        return r;
    }
    memcpy((char *)s + known->offset, &size, sizeof(size));
    return 0;
}

static int set_group(const char *group, json_t *values, struct bx_settings *s, boxlite_error **err)
{
    const char *name;
    json_t *value;
    int r = 0;

    if (!find(group, NULL)) {
        return fail_unknown(group, NULL, err);
    }
    if (!json_is_object(values)) {
        return bx_fail(err, BOXLITE_E_INVALID, "%s is no object", group);
    }
    json_object_foreach(values, name, value)
    {
        r = r < 0 ? r : set_one(group, name, value, s, err);
    }
    return r;
}

int bx_settings_read(const struct bx_home *home, struct bx_settings *ret, boxlite_error **err)
{
    _cleanup_buf_ struct bx_buf text = BX_BUF_INIT(FILE_MAX);
    _cleanup_json_ json_t *doc = NULL;
    struct bx_settings s = {0};
    const char *group;
    json_t *values;
    int r = bx_read_file(home->fd, FILE_NAME, &text);

    if (r == -ENOENT) {
        *ret = s;
        return 0;
    }
    if (r < 0) {
        return bx_fail_errno(err, BOXLITE_E_IO, r, "reading %s/" FILE_NAME, home->path);
    }
    r = bx_json_parse(bx_buf_data(&text), text.len, "it", &doc, err);
    if (r == 0 && !json_is_object(doc)) {
        r = bx_fail(err, BOXLITE_E_INVALID, "it is no object");
    }
    json_object_foreach(doc, group, values)
    {
        r = r < 0 ? r : set_group(group, values, &s, err);
    }
    if (r < 0) {
        bx_wrap(err, "%s/" FILE_NAME, home->path);
        return r;
    }
    *ret = s;
    return 0;
}
