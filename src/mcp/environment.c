/* SPDX-License-Identifier: Apache-2.0 */
/*
 * environment.c: environments: boxes with a name that calls share. The default one is made when it is first used;
 * others by create_environment. A box is attached to this process: it ends with it, however that ends, and is removed by
 * its shim. An environment whose box was lost (guest crash, killed engine) is made afresh at its next use: the next
 * command works, and its result says that earlier files are gone.
 *
 * States: IDLE (no box) -> PULLING, if its image is not here -> STARTING -> READY -> IDLE again when the
 * box is lost. One that nobody has used for a while and in which no command runs is PAUSED: it costs no processor time,
 * keeps all it has, and is READY again when it is used. After a longer while it goes through STOPPING to STOPPED, where it
 * costs its disk alone; its next use starts the same box again. Meanwhile the box is kept (boxlite_box_keep()), or else its
 * stop would remove it: the end of this process gives that up, so that it then goes like the others. Waiters exist in
 * PULLING, STARTING and STOPPING, and in PAUSED and STOPPED until the resume, which may block for a moment and so is done by
 * a timer, never inside a callback of the library.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mcp/environment_priv.h"

static void on_look(void *data);

/* How often idle ones are looked for; 0: never. */
static uint64_t look_ms(const struct mcp_environments *all)
{
    const struct mcp_options *o = mcp_server_options(all->server);
    uint64_t pause = o->idle_s, stop = o->stop_idle_s, least = pause == 0 || (stop > 0 && stop < pause) ? stop : pause;
    return least > 0 ? least * 1000 / 4 + 1 : 0;
}

struct mcp_environments *mcp_environments_new(struct mcp_server *s)
{
    struct mcp_environments *all = calloc(1, sizeof(*all));
    if (all) {
        all->server = s;
    }
    return all;
}

static void lose_box(struct mcp_environment *env)
{
    boxlite_box *box = steal_ptr(&env->box);
    if (box) {
        (void)boxlite_box_keep(box, 0, NULL);
    }
    boxlite_box_free(box);
}

static void environment_free(struct mcp_environment *env)
{
    if (!env) {
        return;
    }
    while (env->waiters) {
        struct waiter *w = env->waiters;
        env->waiters = w->next;
        free(w);
    }
    mcp_timer_cancel(env->all->server, &env->resume);
    mcp_pull_free(env->pull);
    lose_box(env);
    json_decref(env->env);
    json_decref(env->volumes);
    free(env->workspace);
    free(env->name);
    free(env->image);
    free(env->digest);
    free(env);
}

static void list_free(struct mcp_environment **list)
{
    while (*list) {
        struct mcp_environment *env = *list;
        *list = env->next;
        environment_free(env);
    }
}

void mcp_environments_free(struct mcp_environments *all)
{
    if (all) {
        mcp_timer_cancel(all->server, &all->look);
        list_free(&all->first);
        list_free(&all->dropped);
        free(all);
    }
}

/* A callback is still to come. */
static bool in_transit(const struct mcp_environment *env)
{
    return env->state == STARTING || env->state == STOPPING;
}

static void on_dropped(void *data, int result, const boxlite_error *err)
{
    struct mcp_environment *env = data;
    (void)result;
    (void)err;
    env->gone = true;
}

static void end_box(struct mcp_environment *env)
{
    if (env->box) {
        (void)boxlite_box_keep(env->box, 0, NULL);
    }
    env->gone = !env->box || boxlite_box_stop_async(env->box, 0, on_dropped, env, NULL) < 0;
}

static void fail_waiters(struct mcp_environment *env, const struct mcp_failure *why)
{
    while (env->waiters) {
        struct waiter *w = env->waiters;
        env->waiters = w->next;
        w->fn(w->data, env, why);
        free(w);
    }
}

void mcp_environment_drop(struct mcp_environment *env)
{
    static const struct mcp_failure removed = {BOXLITE_E_CANCELLED, "the environment was removed", NULL};
    struct mcp_environments *all = env->all;
    for (struct mcp_environment **p = &all->first; *p; p = &(*p)->next) {
        if (*p == env) {
            *p = env->next;
            all->count--;
            env->next = all->dropped;
            all->dropped = env;
            env->dropped = true;
            mcp_timer_cancel(all->server, &env->resume);
            mcp_pull_free(steal_ptr(&env->pull));
            if (!in_transit(env)) { /* else when that is over */
                end_box(env);
            }
            fail_waiters(env, &removed);
            return;
        }
    }
}

void mcp_environments_reap(struct mcp_environments *all)
{
    for (struct mcp_environment **p = &all->dropped; *p;) {
        struct mcp_environment *env = *p;
        if (env->gone && !in_transit(env)) { /* see on_started(), on_stopped() */
            *p = env->next;
            environment_free(env);
        } else {
            p = &env->next;
        }
    }
}

struct mcp_environment *mcp_environment_find(struct mcp_environments *all, const char *name)
{
    struct mcp_environment *env = all->first;
    while (env && strcmp(env->name, name) != 0) {
        env = env->next;
    }
    return env;
}

int mcp_environment_get(struct mcp_environments *all, const char *name, struct mcp_environment **ret,
                        struct mcp_failure *why)
{
    struct mcp_environment_spec spec = {.name = MCP_DEFAULT_ENVIRONMENT, .network = -1,
                                        .workspace = mcp_server_options(all->server)->workspace};
    struct mcp_environment *env = mcp_environment_find(all, name ? name : spec.name);
    if (env) {
        env->used_ns = mcp_now_ns();
        *ret = env;
        return 0;
    }
    if (name && strcmp(name, spec.name) != 0) {
        snprintf(all->message, sizeof(all->message), "there is no environment named %s", name);
        *why = (struct mcp_failure){BOXLITE_E_NOT_FOUND, all->message,
                                    "create it with create_environment, or leave the argument out for the default one"};
        return why->code;
    }
    return mcp_environment_add(all, &spec, ret, why);
}

static int fill(struct mcp_environment *env, const struct mcp_environment_spec *spec)
{
    const struct mcp_options *o = mcp_server_options(env->all->server);

    do {
        free(env->name);
        env->name = spec->name ? strdup(spec->name) : mcp_printf("env-%u", ++env->all->serial);
    } while (!spec->name && env->name && mcp_environment_find(env->all, env->name));
    env->image = strdup(spec->image ? spec->image : o->image);
    env->cpus = spec->cpus ? spec->cpus : o->cpus;
    env->memory = spec->memory ? spec->memory : o->memory;
    env->network = spec->network >= 0 ? spec->network : o->network;
    env->env = spec->env ? json_deep_copy(spec->env) : NULL;
    env->volumes = spec->volumes ? json_deep_copy(spec->volumes) : NULL;
    env->workspace = spec->workspace ? strdup(spec->workspace) : NULL;
    env->made_ns = env->used_ns = mcp_now_ns();
    return env->name && env->image ? 0 : BOXLITE_E_NO_MEMORY;
}

/* NULL: it may be made. Else the rule that forbids it, with its code. */
static const char *forbidden(struct mcp_environments *all, const struct mcp_environment_spec *spec, int *code)
{
    const struct mcp_options *o = mcp_server_options(all->server);
    char *m = all->message;
    size_t size = sizeof(all->message);

    *code = BOXLITE_E_DENIED;
    if (spec->name && mcp_environment_find(all, spec->name)) {
        *code = BOXLITE_E_EXISTS;
        snprintf(m, size, "an environment named %s exists", spec->name);
    } else if (all->count >= o->max_environments) {
        *code = BOXLITE_E_BUSY;
        snprintf(m, size, "there are %u environments already (rule: --max-environments)", all->count);
    } else if (spec->image && !mcp_patterns_match(o->allow_image, spec->image)) {
        snprintf(m, size, "image %s is not allowed (rule: --allow-image %s)", spec->image, o->allow_image);
    } else if (spec->cpus > o->max_cpus) {
        snprintf(m, size, "%u CPUs are more than %u (rule: --max-cpus)", spec->cpus, o->max_cpus);
    } else if (spec->memory > o->max_memory) {
        snprintf(m, size, "%llu MiB of memory are more than %llu (rule: --max-memory)",
                 (unsigned long long)(spec->memory >> 20), (unsigned long long)(o->max_memory >> 20));
    } else {
        return NULL;
    }
    return m;
}

int mcp_environment_add(struct mcp_environments *all, const struct mcp_environment_spec *spec,
                        struct mcp_environment **ret, struct mcp_failure *why)
{
    struct mcp_environment *env;
    int code;
    const char *rule = forbidden(all, spec, &code);

    if (rule) {
        *why = (struct mcp_failure){code, rule,
                                    code == BOXLITE_E_EXISTS ? "use it, or choose another name"
                                    : code == BOXLITE_E_BUSY ? "use one of them, or remove_environment one"
                                                             : "the user of this machine can change the rule"};
        return code;
    }
    env = calloc(1, sizeof(*env));
    if (env) {
        env->all = all;
    }
    if (!env || fill(env, spec) < 0) {
        environment_free(env);
        *why = mcp_failure_of(NULL);
        return BOXLITE_E_NO_MEMORY;
    }
    if (look_ms(all) > 0 && !all->first) {
        mcp_timer_arm(all->server, &all->look, 1000, on_look, all);
    }
    env->next = all->first;
    all->first = env;
    all->count++;
    *ret = env;
    return 0;
}

static int set_folders(const struct mcp_environment *env, boxlite_box_options *o, boxlite_error **err)
{
    int r = env->workspace ? boxlite_box_options_add_workspace(o, env->workspace, NULL, err) : 0;
    json_t *volume;
    size_t i;

    json_array_foreach(env->volumes, i, volume)
    {
        r = r < 0 ? r
                  : boxlite_box_options_add_volume(o, json_string_value(json_object_get(volume, "host")),
                                                   json_string_value(json_object_get(volume, "guest")),
                                                   json_is_true(json_object_get(volume, "ro")), err);
    }
    return r;
}

static int set_options(const struct mcp_environment *env, boxlite_box_options *o, boxlite_error **err)
{
    const struct mcp_options *defaults = mcp_server_options(env->all->server);
    const char *key;
    json_t *value;
    int r;

    r = boxlite_box_options_set_cpus(o, env->cpus, err);
    r = r < 0 ? r : boxlite_box_options_set_memory(o, env->memory, err);
    r = r < 0 ? r : boxlite_box_options_set_network(o, env->network, err);
    r = r < 0 ? r : boxlite_box_options_set_auto_remove(o, 1, err);
    r = r < 0 ? r : set_folders(env, o, err);
    r = r < 0 ? r : boxlite_box_options_add_label(o, "org.boxlite.mcp.environment", env->name, err);
    if (r == 0 && defaults->disk > 0) {
        r = boxlite_box_options_set_disk(o, defaults->disk, err);
    }
    if (r == 0 && defaults->engine) {
        r = boxlite_box_options_set_engine(o, defaults->engine, err);
    }
    json_object_foreach(env->env, key, value)
    {
        r = r < 0 ? r : boxlite_box_options_add_env(o, key, json_string_value(value), err);
    }
    return r;
}

/* Tells all waiters, also those that a waiter adds or removes meanwhile. */
static void settle(struct mcp_environment *env, enum mcp_environment_state state, const struct mcp_failure *why)
{
    env->state = state;
    while (env->waiters && env->state == state) {
        struct waiter *w = env->waiters;
        env->waiters = w->next;
        w->fn(w->data, env, why);
        free(w);
    }
}

static void on_started(void *data, int result, const boxlite_error *err)
{
    struct mcp_environment *env = data;
    struct mcp_failure why = mcp_failure_of(err);

    env->boot_ns = mcp_now_ns() - env->start_ns;
    if (result == 0) {
        (void)boxlite_box_keep(env->box, 0, NULL);
    }
    settle(env, result == 0 ? READY : env->again ? STOPPED : IDLE, result < 0 ? &why : NULL);
    if (env->dropped) {
        end_box(env);
    }
}

static void note_digest(struct mcp_environment *env, boxlite_runtime *rt)
{
    boxlite_image *image = NULL;
    if (boxlite_image_open(rt, env->image, &image, NULL) == 0) {
        free(env->digest);
        env->digest = strdup(boxlite_image_digest(image));
    }
    boxlite_image_free(image);
}

static int start_box(struct mcp_environment *env, boxlite_runtime *rt, boxlite_error **err)
{
    boxlite_box_options *o = NULL;
    int r;

    lose_box(env);
    r = boxlite_box_options_new(env->image, &o, err);
    r = r < 0 ? r : set_options(env, o, err);
    r = r < 0 ? r : boxlite_box_create(rt, o, &env->box, err);
    boxlite_box_options_free(o);
    if (r < 0) {
        return r;
    }
    note_digest(env, rt);
    env->start_ns = mcp_now_ns();
    env->restart_untold = ++env->starts > 1;
    env->again = env->again_untold = false;
    env->state = STARTING;
    r = boxlite_box_start_async(env->box, on_started, env, err);
    if (r < 0) {
        env->state = IDLE;
    }
    return r;
}

/* Why it did not start; a missing image that no rule lets in is told with the rule. */
static struct mcp_failure start_failure(struct mcp_environment *env, const boxlite_error *err)
{
    const struct mcp_options *o = mcp_server_options(env->all->server);
    struct mcp_failure why = mcp_failure_of(err);

    if (why.code == BOXLITE_E_NOT_FOUND && !mcp_pull_allowed(o, env->image)) {
        snprintf(env->all->message, sizeof(env->all->message),
                 "it is not on this machine and may not be pulled (rule: --allow-pull %.300s): name another image, or the "
                 "user of this machine can change the rule, or run: boxlite pull", o->allow_pull);
        why.hint = env->all->message;
    }
    return why;
}

static void on_pulled(void *data, const struct mcp_failure *why)
{
    struct mcp_environment *env = data;
    struct mcp_pull *pull = steal_ptr(&env->pull);
    _cleanup_error_ boxlite_error *err = NULL;

    if (why) {
        settle(env, IDLE, why);
    } else if (start_box(env, mcp_server_runtime(env->all->server, NULL), &err) < 0) {
        struct mcp_failure failure = start_failure(env, err);
        settle(env, IDLE, &failure);
    }
    mcp_pull_free(pull);
}

/* The error says which rule keeps a missing image from being pulled. */
static int start(struct mcp_environment *env, boxlite_error **err)
{
    boxlite_runtime *rt = mcp_server_runtime(env->all->server, err);
    boxlite_image *image = NULL;
    int r;

    if (!rt) {
        return -1;
    }
    r = boxlite_image_open(rt, env->image, &image, NULL);
    boxlite_image_free(image);
    if (r != BOXLITE_E_NOT_FOUND || !mcp_pull_allowed(mcp_server_options(env->all->server), env->image)) {
        return start_box(env, rt, err);
    }
    r = mcp_pull_start(rt, env->image, on_pulled, env, &env->pull, err);
    env->state = r < 0 ? IDLE : PULLING;
    return r;
}

static void start_afresh(struct mcp_environment *env)
{
    _cleanup_error_ boxlite_error *err = NULL;
    if (start(env, &err) < 0) {
        struct mcp_failure why = start_failure(env, err);
        settle(env, IDLE, &why);
    }
}

/* ---- Idle ones */

/* Its box, which was stopped, again; afresh only if that was removed. */
static void start_again(struct mcp_environment *env)
{
    _cleanup_error_ boxlite_error *err = NULL;
    int r;

    env->start_ns = mcp_now_ns();
    r = boxlite_box_start_async(env->box, on_started, env, &err);
    if (r == 0) {
        env->starts++;
        env->again = env->again_untold = true;
        env->state = STARTING;
    } else if (r == BOXLITE_E_NOT_FOUND) {
        start_afresh(env);
    } else {
        struct mcp_failure why = start_failure(env, err);
        settle(env, STOPPED, &why);
    }
}

static void on_resume(void *data)
{
    struct mcp_environment *env = data;

    env->used_ns = mcp_now_ns();
    if (env->state == STOPPED) {
        start_again(env);
    } else if (boxlite_box_resume(env->box, NULL) == 0) {
        settle(env, READY, NULL);
    } else { /* it was lost meanwhile */
        start_afresh(env);
    }
}

static void resume_soon(struct mcp_environment *env)
{
    mcp_timer_arm(env->all->server, &env->resume, 0, on_resume, env);
}

static void on_stopped(void *data, int result, const boxlite_error *err)
{
    struct mcp_environment *env = data;
    (void)err;
    env->state = result < 0 ? PAUSED : STOPPED; /* a resume tells whether it is there */
    if (env->dropped) {
        end_box(env);
    } else if (env->waiters) {
        resume_soon(env);
    }
}

static void stop_idle(struct mcp_environment *env)
{
    enum mcp_environment_state before = env->state;
    if (boxlite_box_keep(env->box, 1, NULL) < 0) {
        return;
    }
    env->state = STOPPING;
    if (boxlite_box_stop_async(env->box, 0, on_stopped, env, NULL) < 0) {
        env->state = before;
        (void)boxlite_box_keep(env->box, 0, NULL);
    }
}

static void pause_idle(struct mcp_environment *env)
{
    if (boxlite_box_pause(env->box, NULL) == 0) {
        env->state = PAUSED;
        if (mcp_jobs_running(env->all->server, env->name) > 0) { /* begun while the pause was under way */
            resume_soon(env);
        }
    }
}

static bool in_use(const struct mcp_environment *env)
{
    const struct mcp_call *call = mcp_server_calls(env->all->server)->first;
    while (call && strcmp(call->environment, env->name) != 0) {
        call = call->next;
    }
    return call || env->waiters || mcp_jobs_running(env->all->server, env->name) > 0;
}

static void on_look(void *data)
{
    struct mcp_environments *all = data;
    const struct mcp_options *o = mcp_server_options(all->server);
    uint64_t now = mcp_now_ns();

    for (struct mcp_environment *env = all->first; env; env = env->next) {
        uint64_t idle_s = (now - env->used_ns) / UINT64_C(1000000000);
        bool running = env->state == READY && !mcp_environment_lost(env);
        if (in_use(env)) {
            env->used_ns = now;
        } else if ((running || env->state == PAUSED) && o->stop_idle_s > 0 && idle_s >= o->stop_idle_s) {
            stop_idle(env);
        } else if (running && o->idle_s > 0 && idle_s >= o->idle_s) {
            pause_idle(env);
        }
    }
    mcp_timer_arm(all->server, &all->look, look_ms(all), on_look, all);
}

/* ---- Use */

void mcp_environment_when_ready(struct mcp_environment *env, mcp_ready_fn fn, void *data)
{
    struct waiter *w, **end;

    if (env->state == READY && mcp_environment_lost(env)) {
        env->state = IDLE;
    }
    if (env->state == READY) {
        fn(data, env, NULL);
        return;
    }
    w = calloc(1, sizeof(*w));
    if (!w) {
        abort(); /* a program, not the library: out of a few bytes there is nothing to say */
    }
    *w = (struct waiter){.fn = fn, .data = data};
    end = &env->waiters;
    while (*end) {
        end = &(*end)->next;
    }
    *end = w;
    if (env->state == PAUSED || env->state == STOPPED) {
        resume_soon(env);
    }
    if (env->state == IDLE) {
        start_afresh(env);
    }
}

void mcp_environment_forget(struct mcp_environment *env, void *data)
{
    for (struct waiter **p = &env->waiters; *p;) {
        struct waiter *w = *p;
        if (w->data == data) {
            *p = w->next;
            free(w);
        } else {
            p = &w->next;
        }
    }
}
