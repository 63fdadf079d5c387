/* SPDX-License-Identifier: Apache-2.0 */
/*
 * child.c: see child.h.
 *
 * The order matters. Everything of the agent that could leak is closed first. What needs the agent's
 * /proc comes before the container is entered; what needs root before the user is taken on; the
 * capability bounds before either. Paths are looked up after entering, so they are the container's.
 * The process is a plain copy of the agent: it has memory and may call anything.
 */
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/io.h"
#include "guest/caps.h"
#include "guest/child.h"
#include "guest/container.h"
#include "guest/files.h"
#include "guest/tar.h"
#include "guest/users.h"
#include "wire/proto.h"

#define DEFAULT_PATH "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
#define PASSWD_MAX (4u << 20)

static void reset_signals(void)
{
    sigset_t none;
    for (int sig = 1; sig < NSIG; sig++) {
        (void)signal(sig, SIG_DFL);
    }
    (void)sigemptyset(&none);
    (void)sigprocmask(SIG_SETMASK, &none, NULL);
}

/* Undoes boot_protect_self(); memory locks are not inherited. */
static int reset_protection(struct failure *f)
{
    static const struct rlimit nofile = {1024, 524288};
    _cleanup_close_ int fd = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);
    int r = fd < 0 ? -errno : bx_write_full(fd, "0", 1);
    if (r < 0) {
        return failure_set(f, r, "oom_score_adj");
    }
    (void)setpriority(PRIO_PROCESS, 0, 0);
    return setrlimit(RLIMIT_NOFILE, &nofile) < 0 ? failure_set(f, errno, "setrlimit") : 0;
}

static int set_stdio(const struct child *c, struct failure *f)
{
    /* Above 2 by construction: the agent's own 0, 1 and 2 are always open. */
    for (int i = 0; i < 3; i++) {
        if (dup2(c->stdio[i], i) < 0) {
            return failure_set(f, errno, "setting descriptor %d", i);
        }
    }
    if (setsid() < 0) {
        return failure_set(f, errno, "setsid");
    }
    if ((c->spec->flags & BX_EXEC_TTY) && ioctl(0, TIOCSCTTY, 0) < 0) {
        return failure_set(f, errno, "taking the terminal");
    }
    return bx_close_all(3, (int[]){c->report, c->agent->container.pidfd}, 2);
}

static int set_limits(const struct spec *s, struct failure *f)
{
    for (size_t i = 0; i < s->nrlimits; i++) {
        if (setrlimit(s->rlimits[i].resource, &s->rlimits[i].limit) < 0) {
            return failure_set(f, errno, "setting resource limit %d", s->rlimits[i].resource);
        }
    }
    return 0;
}

static int resolve_user(const struct spec *s, struct user *u, struct failure *f)
{
    struct bx_buf passwd = BX_BUF_INIT(PASSWD_MAX);
    struct bx_buf group = BX_BUF_INIT(PASSWD_MAX);
    users_read("/etc/passwd", &passwd);
    users_read("/etc/group", &group);
    int r = users_resolve(s->user ? s->user : "", bx_buf_str(&passwd), bx_buf_str(&group), u, f);
    bx_buf_done(&passwd);
    bx_buf_done(&group);
    return r;
}

static int become_user(const struct spec *s, const struct user *u, struct failure *f)
{
    if ((s->flags & BX_EXEC_TTY) && fchown(0, u->uid, 5) < 0) {
        return failure_set(f, errno, "giving the terminal to the user");
    }
    int r = caps_bound(f);
    if (r < 0) {
        return r;
    }
    if (setgroups(u->ngroups, u->groups) < 0 || setgid(u->gid) < 0 || setuid(u->uid) < 0) {
        return failure_set(f, errno, "becoming user %u", u->uid);
    }
    return u->uid == 0 ? caps_root(f) : 0;
}

/* A working directory that is missing is made, as Docker does for an image's. */
static int enter_cwd(const struct spec *s, struct failure *f)
{
    const char *cwd = s->cwd && *s->cwd ? s->cwd : "/";
    if (*cwd != '/') {
        return failure_say(f, EINVAL, "the working directory is not an absolute path: %.100s", cwd);
    }
    if (chdir(cwd) == 0) {
        return 0;
    }
    _cleanup_free_ char *dir = strdup(cwd);
    if (!dir) {
        return failure_set(f, ENOMEM, "working directory");
    }
    for (char *slash = dir + 1; (slash = strchr(slash, '/')); slash++) {
        *slash = 0;
        (void)mkdir(dir, 0755);
        *slash = '/';
    }
    (void)mkdir(dir, 0755);
    return chdir(cwd) < 0 ? failure_set(f, errno, "working directory %.100s", cwd) : 0;
}

static const char *env_get(const struct bx_strv *env, const char *name)
{
    size_t len = strlen(name);
    for (size_t i = 0; i < env->n; i++) {
        if (strncmp(env->v[i], name, len) == 0 && env->v[i][len] == '=') {
            return env->v[i] + len + 1;
        }
    }
    return NULL;
}

static int complete_env(struct bx_strv *env, const struct child *c, const struct user *u,
                        struct failure *f)
{
    const char *const defaults[][2] = {
        {"PATH", DEFAULT_PATH},
        {"HOSTNAME", c->agent->hostname},
        {"TERM", c->spec->flags & BX_EXEC_TTY ? "xterm" : NULL},
        {"HOME", *u->home ? u->home : "/"},
    };
    for (size_t i = 0; i < BX_ARRAY_SIZE(defaults); i++) {
        const char *value = defaults[i][1];
        if (value && !env_get(env, defaults[i][0]) &&
            bx_strv_setenv(env, defaults[i][0], value) < 0) {
            return failure_set(f, E2BIG, "environment");
        }
    }
    return 0;
}

/* ---- execve and its failures ------------------------------------------------------------------- */

static int exec_failed(const char *file, int errnum, struct failure *f)
{
    bool missing = errnum == ENOENT || errnum == ENOTDIR;
    f->code = missing ? 127 : 126;
    if (missing && access(file, F_OK) == 0) {
        return failure_say(f, errnum, "exec %.120s: its interpreter is missing", file);
    }
    return failure_set(f, errnum, "exec %.120s", file);
}

/* Tries the folders of the exec's own PATH. A file that may not be run is remembered and the search goes
 * on, as shells do. */
static int exec_search(char **argv, char **envp, const char *path, struct failure *f)
{
    int errnum = ENOENT;
    _cleanup_free_ char *found = NULL;
    for (const char *p = path; p; p = strchr(p, ':') ? strchr(p, ':') + 1 : NULL) {
        int len = (int)strcspn(p, ":");
        _cleanup_free_ char *file = bx_asprintf("%.*s%s%s", len, p, len > 0 ? "/" : "./", argv[0]);
        if (!file) {
            return failure_set(f, ENOMEM, "exec");
        }
        (void)execve(file, argv, envp);
        if (errno == ENOENT && access(file, F_OK) == 0) {
            return exec_failed(file, ENOENT, f);
        }
        if (errno != ENOENT && errno != ENOTDIR) {
            errnum = errno;
            free(found);
            found = steal_ptr(&file);
            if (errnum != EACCES) {
                break;
            }
        }
    }
    if (found) {
        return exec_failed(found, errnum, f);
    }
    f->code = 127;
    return failure_say(f, errnum, "exec %.120s: executable file not found in $PATH", argv[0]);
}

static int exec_program(struct spec *s, struct failure *f)
{
    char **argv = s->argv.v;
    if (s->argv.n == 0 || !*argv[0]) {
        f->code = 127;
        return failure_say(f, ENOENT, "no command given");
    }
    if (strchr(argv[0], '/')) {
        (void)execve(argv[0], argv, s->env.v);
        return exec_failed(argv[0], errno, f);
    }
    return exec_search(argv, s->env.v, env_get(&s->env, "PATH"), f);
}

/* A built-in runs in this process; the pipe's end tells that it started. */
static const struct builtin {
    const char *name;
    int (*run)(char *const *argv, size_t argc);
    size_t min, max; /* arguments */
    bool outside;    /* of the container, with the agent's rights: trusted with what it reads */
} builtins[] = {
    {"tar-out", tar_out, 1, 1, false},
    {"tar-in", tar_in, 1, 2, false},
    {"changes-out", changes_out, 2, 64, true},
    {"changes-drop", changes_drop, 1, 64, true},
};

static const struct builtin *find_builtin(const struct spec *s, struct failure *f)
{
    for (size_t i = 0; i < BX_ARRAY_SIZE(builtins); i++) {
        const struct builtin *b = &builtins[i];
        if (bx_streq(b->name, s->builtin) && s->argv.n >= b->min && s->argv.n <= b->max) {
            return b;
        }
    }
    (void)failure_say(f, ENOSYS, "no such built-in: %.60s", s->builtin);
    return NULL;
}

static int run_builtin(const struct builtin *b, const struct spec *s, int report)
{
    (void)close(report);
    _exit(b->run(s->argv.v, s->argv.n));
}

static int child_run(const struct child *c, struct failure *f)
{
    struct spec s = *c->spec; /* its vectors grow here; the agent's are another process' */
    struct user u = {0};
    const struct builtin *b = s.builtin ? find_builtin(&s, f) : NULL;
    if (s.builtin && !b) {
        return -ENOSYS;
    }
    int r = reset_protection(f);
    r = r < 0 ? r : set_stdio(c, f);
    if (r == 0 && b && b->outside) {
        char root[64];
        (void)snprintf(root, sizeof(root), "/proc/%d/root", (int)c->agent->container.pid);
        changes_container_root = open(root, O_PATH | O_DIRECTORY | O_CLOEXEC);
        return run_builtin(b, &s, c->report);
    }
    r = r < 0 ? r : container_enter(&c->agent->container, f);
    r = r < 0 ? r : set_limits(&s, f);
    r = r < 0 ? r : resolve_user(&s, &u, f);
    r = r < 0 ? r : enter_cwd(&s, f);
    r = r < 0 ? r : complete_env(&s.env, c, &u, f);
    r = r < 0 ? r : become_user(&s, &u, f);
    r = r < 0 ? r : files_write(&s.files, f);
    if (r < 0) {
        return r;
    }
    return b ? run_builtin(b, &s, c->report) : exec_program(&s, f);
}

_Noreturn void child_main(const struct child *c)
{
    struct child_report report = {.pid = (int32_t)getpid(), .failure = {.code = 126}};
    reset_signals();
    (void)umask(022);
    (void)bx_write_full(c->report, &report, sizeof(report));
    (void)child_run(c, &report.failure);
    (void)signal(SIGPIPE, SIG_IGN);
    (void)bx_write_full(c->report, &report, sizeof(report));
    _exit(report.failure.code);
}
