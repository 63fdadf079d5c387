/* SPDX-License-Identifier: Apache-2.0 */
/*
 * options.c: checks and containers of what the user asks. See options.h.
 */
#include "box/options.h"

#include <ctype.h>
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"

#define MEMORY_DEFAULT (512ull << 20)
#define NAME_MAX_LEN 63
#define USER_MAX_LEN 256
#define RLIMIT_RESOURCES 16 /* RLIMIT_* numbers of Linux end below this */

int bx_check_name(const char *field, const char *value, boxlite_error **err)
{
    size_t n = strlen(value);
    bool good = n > 0 && n <= NAME_MAX_LEN && isalnum((unsigned char)value[0]);
    for (size_t i = 0; good && i < n; i++) {
        good = isalnum((unsigned char)value[i]) || strchr("_.-", value[i]);
    }
    if (good) {
        return 0;
    }
    bx_fail(err, BOXLITE_E_INVALID, "%s: \"%.80s\" is not a valid name", field, value);
    bx_hint(err, "use up to 63 letters, digits, \"_\", \".\" and \"-\", a letter or digit first");
    return BOXLITE_E_INVALID;
}

int bx_check_label(const char *name, boxlite_error **err)
{
    if (*name == '\0' || strchr(name, '=') || strlen(name) > NAME_MAX) {
        return bx_fail(
            err, BOXLITE_E_INVALID,
            "label: \"%.80s\" is not a valid label name (empty, too long, or with \"=\")", name);
    }
    return 0;
}

int bx_set_string(char **field, const char *value, boxlite_error **err)
{
    char *copy = strdup(value);
    if (!copy) {
        return bx_fail_oom(err);
    }
    free(*field);
    *field = copy;
    return 0;
}

int bx_check_guest_path(const char *field, const char *value, boxlite_error **err)
{
    if (value[0] != '/') {
        return bx_fail(err, BOXLITE_E_INVALID, "%s: \"%.80s\" is not an absolute path", field,
                       value);
    }
    if (strlen(value) >= PATH_MAX) {
        return bx_fail(err, BOXLITE_E_INVALID, "%s: the path is too long", field);
    }
    return 0;
}

int bx_check_user(const char *field, const char *value, boxlite_error **err)
{
    size_t n = strlen(value);
    bool good = n <= USER_MAX_LEN;
    for (size_t i = 0; good && i < n; i++) {
        good = !iscntrl((unsigned char)value[i]) && value[i] != ' ';
    }
    return good ? 0
                : bx_fail(err, BOXLITE_E_INVALID,
                          "%s: \"%.80s\" is not a user (name or number, "
                          "then \":\" and a group if wanted)",
                          field, value);
}

int bx_set_env(struct bx_strv *env, const char *field, const char *name, const char *value,
               boxlite_error **err)
{
    int r;
    if (*name == '\0' || strchr(name, '=')) {
        return bx_fail(err, BOXLITE_E_INVALID, "%s: \"%.80s\" is not a valid name", field, name);
    }
    r = bx_strv_setenv(env, name, value);
    if (r == -E2BIG) {
        return bx_fail(err, BOXLITE_E_INVALID, "%s: too many", field);
    }
    return r < 0 ? bx_fail_oom(err) : 0;
}

int bx_set_argv(struct bx_strv *sv, const char *field, const char *const *argv, size_t argc,
                boxlite_error **err)
{
    _cleanup_strv_ struct bx_strv copy = {0};
    int r;

    for (size_t i = 0; i < argc; i++) {
        if (!argv[i]) {
            return bx_fail(err, BOXLITE_E_INVALID, "%s: argument %zu is NULL", field, i);
        }
    }
    r = bx_strv_copy(&copy, argv, argc);
    if (r == -E2BIG) {
        return bx_fail(err, BOXLITE_E_INVALID, "%s: too many arguments", field);
    }
    if (r < 0) {
        return bx_fail_oom(err);
    }
    bx_strv_done(sv);
    *sv = copy;
    copy = (struct bx_strv){0};
    return 0;
}

/* ---- A box ----------------------------------------------------------------------------------- */

int bx_box_options_new(const char *image, boxlite_box_options **ret, boxlite_error **err)
{
    boxlite_box_options *o;
    if (*image == '\0') {
        return bx_fail(err, BOXLITE_E_INVALID, "image: the name is empty");
    }
    o = calloc(1, sizeof(*o));
    if (!o || !(o->image = strdup(image))) {
        free(o);
        return bx_fail_oom(err);
    }
    o->cpus = 1;
    o->memory = MEMORY_DEFAULT;
    o->disk = BX_BOX_DISK_DEFAULT;
    o->network = BOXLITE_NETWORK_NONE;
    *ret = o;
    return 0;
}

void bx_box_options_free(boxlite_box_options *o)
{
    if (!o) {
        return;
    }
    char *const strings[] = {o->image,  o->name,    o->hostname, o->engine,
                             o->kernel, o->workdir, o->user};
    for (size_t i = 0; i < BX_ARRAY_SIZE(strings); i++) {
        free(strings[i]);
    }
    bx_strv_done(&o->env);
    bx_strv_done(&o->labels);
    bx_strv_done(&o->entrypoint);
    bx_strv_done(&o->command);
    bx_box_mounts_done(&o->mounts);
    free(o);
}

/* ---- A command ------------------------------------------------------------------------------- */

int bx_exec_options_new(const char *const *argv, size_t argc, boxlite_exec_options **ret,
                        boxlite_error **err)
{
    boxlite_exec_options *o;
    int r;

    if (argc == 0 || !argv[0] || *argv[0] == '\0') {
        return bx_fail(err, BOXLITE_E_INVALID, "argv: no command");
    }
    o = calloc(1, sizeof(*o));
    if (!o) {
        return bx_fail_oom(err);
    }
    r = bx_set_argv(&o->spec.argv, "argv", argv, argc, err);
    if (r < 0) {
        bx_exec_options_free(o);
        return r;
    }
    *ret = o;
    return 0;
}

void bx_exec_options_free(boxlite_exec_options *o)
{
    if (o) {
        bx_exec_spec_done(&o->spec);
        free(o);
    }
}

int bx_exec_options_add_rlimit(boxlite_exec_options *o, int resource, uint64_t soft, uint64_t hard,
                               boxlite_error **err)
{
    struct bx_exec_spec *s = &o->spec;
    size_t i = 0;

    if (resource < 0 || resource >= RLIMIT_RESOURCES) {
        return bx_fail(err, BOXLITE_E_INVALID, "rlimit: there is no resource %d", resource);
    }
    if (soft > hard) {
        return bx_fail(err, BOXLITE_E_INVALID, "rlimit %d: the soft limit is over the hard one",
                       resource);
    }
    while (i < s->nlimits && s->limits[i].resource != (uint64_t)resource) {
        i++;
    }
    if (i == BX_ARRAY_SIZE(s->limits)) {
        return bx_fail(err, BOXLITE_E_INVALID, "rlimit: too many");
    }
    s->limits[i].resource = (uint64_t)resource;
    s->limits[i].soft = soft;
    s->limits[i].hard = hard;
    s->nlimits = i == s->nlimits ? i + 1 : s->nlimits;
    return 0;
}
