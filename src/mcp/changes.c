/* SPDX-License-Identifier: Apache-2.0 */
/*
 * changes.c: what the two tools for workspaces share: the environment made ready, the call of the library, its list of
 * changes as a result. That call waits until it is done, a second at most for a workspace of ordinary size; other calls'
 * commands go on meanwhile, and it is made by a timer, never inside a callback of the library.
 */
#include <stdlib.h>
#include <string.h>

#include "mcp/mcp.h"

#define LISTED_MAX 200

struct changing {
    struct mcp_call *call;
    struct mcp_environment *env; /* while it is waited for, and until the timer */
    char *env_name;
    mcp_changes_fn fn;
    struct mcp_timer timer;
};

static const struct {
    int number;
    const char *name;
} kinds[] =
    {
        {BOXLITE_CHANGE_ADDED, "added"},     {BOXLITE_CHANGE_MODIFIED, "modified"},
        {BOXLITE_CHANGE_DELETED, "deleted"}, {BOXLITE_CHANGE_RENAMED, "renamed"},
        {BOXLITE_CHANGE_MODE, "mode"},       {BOXLITE_CHANGE_TYPE, "type"},
},
  statuses[] = {
      {BOXLITE_CHANGES_LISTED, "listed"},
      {BOXLITE_CHANGES_APPLIED, "applied"},
      {BOXLITE_CHANGES_HELD, "held"},
      {BOXLITE_CHANGES_CONFLICT, "conflict"},
      {BOXLITE_CHANGES_NONE, "nothing to apply"},
};

static void set_text(json_t *v, const char *key, const char *text)
{
    _cleanup_free_ char *clean = text && *text ? malloc(3 * strlen(text) + 1) : NULL;
    bool bad = false;
    if (clean) {
        clean[mcp_utf8_clean(clean, text, strlen(text), &bad)] = '\0';
        json_object_set_new(v, key, json_string(clean));
    }
}

static json_t *change(const boxlite_changes *c, size_t i)
{
    json_t *v = json_object();
    set_text(v, "path", boxlite_changes_path(c, i));
    for (size_t k = 0; k < BX_ARRAY_SIZE(kinds); k++) {
        if (kinds[k].number == boxlite_changes_kind(c, i)) {
            set_text(v, "kind", kinds[k].name);
        }
    }
    set_text(v, "from", boxlite_changes_from(c, i));
    set_text(v, "held", boxlite_changes_held(c, i));
    set_text(v, "allow", boxlite_changes_allow(c, i));
    set_text(v, "conflict", boxlite_changes_conflict(c, i));
    return v;
}

json_t *mcp_changes_json(const boxlite_changes *c)
{
    size_t n = boxlite_changes_count(c);
    json_t *v = json_object(), *list = json_array();

    for (size_t i = 0; i < BX_ARRAY_SIZE(statuses); i++) {
        if (statuses[i].number == boxlite_changes_status(c)) {
            set_text(v, "status", statuses[i].name);
        }
    }
    set_text(v, "workspace", boxlite_changes_workspace(c));
    for (size_t i = 0; i < n && i < LISTED_MAX; i++) {
        json_array_append_new(list, change(c, i));
    }
    json_object_set_new(v, "count", json_integer((json_int_t)n));
    json_object_set_new(v, "changes", list);
    list = json_array();
    for (size_t i = 0; i < boxlite_changes_conflict_count(c) && i < LISTED_MAX; i++) {
        json_array_append_new(list, json_string(boxlite_changes_conflict_line(c, i)));
    }
    if (json_array_size(list) > 0) {
        json_object_set(v, "conflicts", list);
    }
    json_decref(list);
    return v;
}

int mcp_changes_options(const struct mcp_call *call, boxlite_change_options **ret,
                        boxlite_error **err)
{
    static const struct {
        const char *argument;
        int (*add)(boxlite_change_options *o, const char *text, boxlite_error **err);
    } lists[] = {{"paths", boxlite_change_options_add_path},
                 {"allow", boxlite_change_options_add_allow}};
    boxlite_change_options *o = NULL;
    json_t *item;
    size_t i;
    int r = boxlite_change_options_new(&o, err);

    for (size_t k = 0; k < BX_ARRAY_SIZE(lists); k++) {
        json_array_foreach(json_object_get(call->arguments, lists[k].argument), i, item)
        {
            r = r < 0 ? r : lists[k].add(o, json_string_value(item), err);
        }
    }
    r = r < 0 ? r : boxlite_change_options_set_dry_run(o, mcp_arg_bool(call, "dry_run"), err);
    r = r < 0 ? r : boxlite_change_options_set_merge(o, mcp_arg_bool(call, "merge"), err);
    if (r < 0) {
        boxlite_change_options_free(o);
        return r;
    }
    *ret = o;
    return 0;
}

static void changing_free(struct changing *c)
{
    mcp_timer_cancel(c->call->server, &c->timer);
    free(c->env_name);
    free(c);
}

static void cancel(struct mcp_call *call)
{
    struct changing *c = call->state;
    struct mcp_environment *env =
        mcp_environment_find(mcp_server_environments(call->server), c->env_name);
    if (env) {
        mcp_environment_forget(env, c);
    }
    changing_free(c);
}

static void on_timer(void *data)
{
    struct changing *c = data;
    struct mcp_call *call = c->call;
    struct mcp_environment *env =
        mcp_environment_find(mcp_server_environments(call->server), c->env_name);
    mcp_changes_fn fn = c->fn;

    changing_free(c);
    call->state = NULL;
    call->cancel = NULL;
    if (env) {
        fn(call, env);
    } else {
        mcp_call_fail(call, BOXLITE_E_CANCELLED, "the environment was removed", NULL);
    }
}

static void on_ready(void *data, struct mcp_environment *env, const struct mcp_failure *why)
{
    struct changing *c = data;
    struct mcp_call *call = c->call;

    (void)env;
    if (why) {
        changing_free(c);
        mcp_call_fail_with(call, why);
    } else {
        mcp_timer_arm(call->server, &c->timer, 0, on_timer, c);
    }
}

void mcp_changes_start(struct mcp_call *call, mcp_changes_fn fn)
{
    struct mcp_environment *env;
    struct changing *c;

    if (!mcp_call_environment(call, &env)) {
        return;
    }
    if (!mcp_environment_workspace(env)) {
        mcp_call_fail(
            call, BOXLITE_E_STATE,
            "this environment has no workspace: no host folder that it works on a copy of",
            "create_environment with workspace makes one that has");
        return;
    }
    c = calloc(1, sizeof(*c));
    if (!c || !(c->env_name = strdup(mcp_environment_name(env)))) {
        free(c);
        mcp_call_fail_error(call, NULL);
        return;
    }
    c->call = call;
    c->fn = fn;
    call->state = c;
    call->cancel = cancel;
    mcp_environment_when_ready(env, on_ready, c);
}
