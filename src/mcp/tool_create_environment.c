/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tool_create_environment.c: another environment, started at once so that what is wrong with it is said here and not at
 * its first command. An image that is not here is pulled; a call that takes longer than its client waits returns, and the
 * environment becomes ready by itself.
 */
#include <stdlib.h>
#include <string.h>

#include "mcp/mcp.h"

struct creation {
    struct mcp_call *call;
    struct mcp_environment *env;
    struct mcp_timer yield;
};

static const struct mcp_arg args[] = {
    {"image", MCP_STRING, true, false, "OCI image, NAME:TAG, for example \"boxlite/base:bookworm\" or \"node:22-slim\"; one that is not on this machine is pulled "
     "from its registry where the server allows it.", 0, 512},
    {"name", MCP_STRING, false, false, "Name for the new environment: letters, digits, - and _. Made up if left out.", 0, 40},
    {"cpus", MCP_INTEGER, false, false, "Virtual CPUs, 1 to 64 and no more than the host has. Default: the server's.", 1, 64},
    {"memory_mb", MCP_INTEGER, false, false, "Memory in MiB, 128 to 65536. Default: the server's.", 128, 65536},
    {"network", MCP_STRING, false, false,
     "\"none\" (no network), or \"user\" (out through the user's network) where the server allows it. Default: the "
     "server's.", 0, 16},
    {"env", MCP_STRING_MAP, false, false, "Environment variables of every command in it.", 0, 0},
    {"volumes", MCP_STRING_LIST, false, false,
     "Host folders to share, HOST:GUEST[:ro], absolute paths: what is changed there is changed for the user. Only folders that "
     "the user allowed (--allow-folder).", 0, 0},
    {"workspace", MCP_STRING, false, false,
     "Host folder that it works on a copy of, at the same path: the user's files stay as they are until apply_changes. Only a "
     "folder that the user allowed.", 0, 4096},
    {0},
};

static void creation_free(struct creation *c)
{
    mcp_timer_cancel(c->call->server, &c->yield);
    free(c);
}

static void answer(struct mcp_call *call, struct mcp_environment *env, const char *doing)
{
    const char *name = mcp_environment_name(env), *image = mcp_environment_image(env);
    json_t *v = json_pack("{s:s, s:s, s:b}", "environment", name, "image", image, "ready", !doing);
    char *text;

    if (mcp_environment_workspace(env)) {
        json_object_set_new(v, "workspace", json_string(mcp_environment_workspace(env)));
    }
    if (doing) {
        json_object_set_new(v, "note", json_string("not ready yet: use it as if it were, what runs in it waits; "
                                                   "list_environments shows its state"));
        text = mcp_printf("environment %s is not ready yet (%s); pass environment=\"%s\" to the other tools, which wait for it",
                          name, doing, name);
    } else {
        json_object_set_new(v, "engine", json_string(boxlite_box_engine(mcp_environment_box(env))));
        json_object_set_new(v, "start_ms", json_integer((json_int_t)(mcp_environment_boot_ns(env) / 1000000)));
        text = mcp_printf("environment %s runs image %s; pass environment=\"%s\" to the other tools", name, image, name);
    }
    mcp_call_finish(call, v, text, false);
}

static void on_ready(void *data, struct mcp_environment *env, const struct mcp_failure *why)
{
    struct creation *c = data;
    struct mcp_call *call = c->call;

    creation_free(c);
    if (why) {
        mcp_call_fail_with(call, why);
        mcp_environment_drop(env);
    } else {
        answer(call, env, NULL);
    }
}

static void on_yield(void *data)
{
    struct creation *c = data;
    struct mcp_call *call = c->call;
    struct mcp_environment *env = c->env;
    const char *doing = mcp_environment_doing(env);

    mcp_environment_forget(env, c);
    creation_free(c);
    answer(call, env, doing ? doing : "starting");
}

static void cancel(struct mcp_call *call)
{
    struct creation *c = call->state;
    mcp_environment_forget(c->env, c);
    mcp_environment_drop(c->env);
    creation_free(c);
}

static bool name_good(const char *name)
{
    return name[0] != '\0' &&
           strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_") == strlen(name);
}

/* -1 is the server's own; false: not allowed, answered. */
static bool network_of(struct mcp_call *call, int *ret)
{
    const char *asked = mcp_arg_str(call, "network", NULL);
    int allowed = mcp_server_options(call->server)->network;

    *ret = -1;
    if (!asked) {
        return true;
    }
    if (strcmp(asked, "none") == 0) {
        *ret = BOXLITE_NETWORK_NONE;
        return true;
    }
    if (strcmp(asked, "user") != 0) {
        mcp_call_fail(call, BOXLITE_E_INVALID, "argument network: neither \"none\" nor \"user\"", NULL);
        return false;
    }
    if (allowed != BOXLITE_NETWORK_USER) {
        mcp_call_fail(call, BOXLITE_E_DENIED, "argument network: this server gives environments no network",
                      "the user can allow it: boxlite-mcp-server --network user");
        return false;
    }
    *ret = BOXLITE_NETWORK_USER;
    return true;
}

/* Host folders, by the rule; false: answered. */
static bool folders_of(struct mcp_call *call, json_t **ret_volumes, char **ret_workspace)
{
    const struct mcp_options *o = mcp_server_options(call->server);
    const char *workspace = mcp_arg_str(call, "workspace", NULL);
    _cleanup_free_ char *why = NULL;

    *ret_volumes = mcp_volumes_parse(o, json_object_get(call->arguments, "volumes"), &why);
    *ret_workspace = *ret_volumes && workspace ? mcp_folder_allow(o, workspace, false, &why) : NULL;
    if (*ret_volumes && (!workspace || *ret_workspace)) {
        return true;
    }
    mcp_call_fail(call, BOXLITE_E_DENIED, why ? why : "out of memory",
                  "the user of this machine can change the rule; files of your own go in with write_file");
    return false;
}

static void start(struct mcp_call *call)
{
    _cleanup_json_ json_t *volumes = NULL;
    _cleanup_free_ char *workspace = NULL;
    struct mcp_environment_spec spec = {
        .name = mcp_arg_str(call, "name", NULL),
        .image = mcp_arg_str(call, "image", NULL),
        .cpus = (uint32_t)mcp_arg_int(call, "cpus", 0),
        .memory = (uint64_t)mcp_arg_int(call, "memory_mb", 0) << 20,
        .env = json_object_get(call->arguments, "env"),
    };
    struct creation *c;
    struct mcp_failure why;

    if (spec.name && !name_good(spec.name)) {
        mcp_call_fail(call, BOXLITE_E_INVALID, "argument name: only letters, digits, - and _", NULL);
        return;
    }
    if (!network_of(call, &spec.network) || !folders_of(call, &volumes, &workspace)) {
        return;
    }
    spec.volumes = volumes;
    spec.workspace = workspace;
    c = calloc(1, sizeof(*c));
    why = mcp_failure_of(NULL);
    if (!c || mcp_environment_add(mcp_server_environments(call->server), &spec, &c->env, &why) < 0) {
        free(c);
        mcp_call_fail_with(call, &why);
        return;
    }
    c->call = call;
    call->state = c;
    call->cancel = cancel;
    mcp_call_in(call, mcp_environment_name(c->env));
    mcp_timer_arm(call->server, &c->yield, mcp_call_yield_ms(call), on_yield, c);
    mcp_environment_when_ready(c->env, on_ready, c);
}

const struct mcp_tool mcp_tool_create_environment = {
    .name = "create_environment",
    .title = "Create a micro-VM environment",
    .description =
        "Create and start another isolated Linux micro-VM environment (sandbox) from an OCI image, with its own "
        "files, CPUs and memory, and get its name for execute_code and run_command. Not needed for the default "
        "environment. It ends with this session.",
    .args = args,
    .output_schema =
        "{\"type\":\"object\",\"properties\":{\"environment\":{\"type\":\"string\",\"description\":\"its name\"},"
        "\"image\":{\"type\":\"string\"},\"ready\":{\"type\":\"boolean\"},\"workspace\":{\"type\":\"string\",\"description\":\"where its commands run unless told otherwise\"},\"note\":{\"type\":\"string\"},\"engine\":{\"type\":\"string\"},\"start_ms\":{\"type\":\"integer\"},"
        "\"error\":{\"type\":\"string\"},\"code\":{\"type\":\"string\"},\"hint\":{\"type\":\"string\"}}}",
    .start = start,
};
