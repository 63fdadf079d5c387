/* SPDX-License-Identifier: Apache-2.0 */
/*
 * environment_show.c: what is known of environments, for results, lists and the other parts of the server.
 */
#include <string.h>

#include "mcp/environment_priv.h"

bool mcp_environment_lost(struct mcp_environment *env)
{
    return boxlite_box_state(env->box, NULL) != BOXLITE_BOX_RUNNING;
}

boxlite_box *mcp_environment_box(const struct mcp_environment *env)
{
    return env->box;
}

const char *mcp_environment_name(const struct mcp_environment *env)
{
    return env->name;
}

const char *mcp_environment_image(const struct mcp_environment *env)
{
    return env->image;
}

const char *mcp_environment_workspace(const struct mcp_environment *env)
{
    return env->workspace;
}

const char *mcp_environment_doing(const struct mcp_environment *env)
{
    return env->state == PULLING    ? mcp_pull_says(env->pull)
           : env->state == STARTING ? "starting the VM"
                                    : NULL;
}

const char *mcp_environment_digest(const struct mcp_environment *env)
{
    return env->digest;
}

uint64_t mcp_environment_boot_ns(const struct mcp_environment *env)
{
    return env->boot_ns;
}

uint64_t mcp_environment_memory(const struct mcp_environment *env)
{
    return env->memory;
}

unsigned mcp_environment_generation(const struct mcp_environment *env)
{
    return env->starts;
}

unsigned mcp_environment_take_slot(struct mcp_environment *env, const void *owner)
{
    for (unsigned i = 0; i < MCP_CALLS_MAX; i++) {
        if (!env->slots[i]) {
            env->slots[i] = owner;
            return i + 1;
        }
    }
    return MCP_CALLS_MAX;
}

void mcp_environment_release_slot(struct mcp_environment *env, const void *owner)
{
    for (unsigned i = 0; env && i < MCP_CALLS_MAX; i++) {
        if (env->slots[i] == owner) {
            env->slots[i] = NULL;
        }
    }
}

void mcp_environment_describe(struct mcp_call *call, const char *name, json_t *result)
{
    struct mcp_environment *env = mcp_environment_find(mcp_server_environments(call->server), name);
    const char *engine = env && env->box ? boxlite_box_engine(env->box) : NULL;

    json_object_set_new(result, "environment", json_string(name));
    if (engine) {
        json_object_set_new(result, "engine", json_string(engine));
    }
    if (!env) { /* removed meanwhile */
        return;
    }
    if (env->start_ns >= call->started_ns && env->state == READY) {
        json_object_set_new(result, "start_ms", json_integer((json_int_t)(env->boot_ns / 1000000)));
    }
    if (env->restart_untold) {
        env->restart_untold = false;
        json_object_set_new(result, "restarted", json_true());
    }
    if (env->again_untold && env->state == READY) {
        env->again_untold = false;
        json_object_set_new(result, "started_again", json_true());
    }
}

static json_int_t seconds_since(uint64_t ns)
{
    return (json_int_t)((mcp_now_ns() - ns) / UINT64_C(1000000000));
}

/* What it costs the host now, in MiB: as its box says. */
static void add_cost(json_t *v, boxlite_box *box)
{
    static const struct {
        const char *from, *to;
    } names[] = {{"memory_used", "memory_used_mb"}, {"disk_used", "disk_used_mb"}};
    const char *text = NULL;
    _cleanup_json_ json_t *all =
        boxlite_box_json(box, &text, NULL) == 0 ? json_loads(text, 0, NULL) : NULL;

    for (size_t i = 0; i < BX_ARRAY_SIZE(names); i++) {
        const json_t *bytes = json_object_get(all, names[i].from);
        if (bytes) {
            json_object_set_new(v, names[i].to,
                                json_integer((json_integer_value(bytes) + (1 << 20) - 1) >> 20));
        }
    }
}

json_t *mcp_environments_json(struct mcp_environments *all)
{
    static const char *const states[] = {[IDLE] = "stopped",
                                         [PULLING] = "pulling its image",
                                         [STARTING] = "starting",
                                         [READY] = "running",
                                         [PAUSED] = "paused",
                                         [STOPPING] = "stopping",
                                         [STOPPED] = "stopped"};
    json_t *list = json_array();

    for (struct mcp_environment *env = all->first; env; env = env->next) {
        bool gone = env->state == READY && mcp_environment_lost(env);
        json_t *v = json_pack(
            "{s:s, s:s, s:s, s:s, s:I, s:I, s:I, s:I, s:I}", "environment", env->name, "image",
            env->image, "state", states[gone ? IDLE : env->state], "network",
            env->network == BOXLITE_NETWORK_NONE ? "none" : "user", "cpus", (json_int_t)env->cpus,
            "memory_mb", (json_int_t)(env->memory >> 20), "age_seconds",
            seconds_since(env->made_ns), "idle_seconds", seconds_since(env->used_ns),
            "running_commands", (json_int_t)mcp_jobs_running(all->server, env->name));
        if (!gone && (env->state == READY || env->state == PAUSED || env->state == STOPPED)) {
            add_cost(v, env->box);
        }
        if (env->workspace) {
            json_object_set_new(v, "workspace", json_string(env->workspace));
        }
        json_array_append_new(list, v);
    }
    return list;
}

bool mcp_call_environment(struct mcp_call *call, struct mcp_environment **ret)
{
    struct mcp_failure why;
    if (mcp_environment_get(mcp_server_environments(call->server),
                            mcp_arg_str(call, "environment", NULL), ret, &why) < 0) {
        mcp_call_fail_with(call, &why);
        return false;
    }
    mcp_call_in(call, (*ret)->name);
    return true;
}
