/* SPDX-License-Identifier: Apache-2.0 */
/*
 * shim.h: the parts of boxlite-shim, seen from each other. docs/decisions/0006-shim.md has the
 * reasons.
 *
 *   shim_main     arguments, signals, log, the loop
 *   shim_jail     what the process gives up, and when
 *   shim_life     the state machine: boot, run, stop, end; owns the engine
 *   shim_files    the box's folder: lock, markers, exit.json, removal
 *   shim_boot     what a VM is started with
 *   shim_share    shared folders: their server, and the bytes between it and the guest
 *   shim_console  the guest console: its file, its tail, the panic in it
 *   shim_agent    link 1: messages from and to the agent
 *   shim_exec     commands: their numbers, states, results, who owns them
 *   shim_output   their output: spools, credit, a full disk
 *   shim_input    their input
 *   shim_reader   attachments: one client that follows one command
 *   shim_server   link 2: the socket, connections, pending answers
 *   shim_request  one function per request of a client
 *
 * One thread, one loop. Objects are freed only from the loop's top (bx_shim_reap_later), never below a
 * callback that may still use them; until then `dead` marks them. Every list has a bound in the
 * constants below.
 */
#ifndef BX_BOX_SHIM_H
#define BX_BOX_SHIM_H

#include <boxlite.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/log.h"
#include "base/loop.h"
#include "box/boxconfig.h"
#include "box/spool.h"
#include "net/passt.h"
#include "vmm/vmm.h"
#include "wire/conn.h"
#include "wire/conn_io.h"
#include "wire/proto.h"

#define BX_SHIM_READERS_MAX 64u  /* attachments of one client */
#define BX_SHIM_PENDING_MAX 256u /* unanswered requests of one client */
#define BX_SHIM_RUNNING_MAX 256u /* commands at once */
/* Connections at once: one for each command (the command line makes one a command), and some for
 * those who look, stop or remove. */
#define BX_SHIM_CLIENTS_MAX (BX_SHIM_RUNNING_MAX + 64u)
#define BX_SHIM_ENDED_MAX 64u              /* ended commands that are kept */
#define BX_SHIM_ENDED_BYTES (256ull << 20) /* and their output together */
#define BX_SHIM_TAIL 4096u                 /* guest console bytes kept for an error */

/* What the outside is to the shim; tests put their own here. */
struct bx_shim_world {
    int (*choose)(const char *asked, int cache_fd, const struct bx_vmm_ops **ret,
                  boxlite_error **err);
    int (*passt_start)(struct bx_loop *loop, const struct bx_log *log, int log_fd,
                       bx_passt_ended_fn ended, void *data, struct bx_passt **ret, int *ret_fd,
                       struct bx_passt_net *ret_net, boxlite_error **err);
    void (*passt_free)(struct bx_passt *p);
    int (*rootfs_check)(int fd, const char *what, boxlite_error **err);
    const char *share_program;                 /* NULL: beside this program */
    void (*running)(const struct bx_log *log); /* nothing more will be started; may be NULL */
    uint64_t spool_max;
    uint32_t boot_quiet_ms; /* a boot without any sign of life for so long has failed */
    uint32_t boot_ms;       /* and any boot that takes longer */
    uint32_t panic_ms;      /* from a panic on the console to the engine's own end */
    uint32_t shutdown_ms;   /* for the agent's sync and power-off */
    uint32_t kill_ms;       /* for the engine to end after a kill */
    uint32_t follow_ms;     /* so long the end of a box that leaves nothing waits for its starter to look */
    uint32_t drain_ms;      /* readers of a stopped box who take nothing for so long are dropped */
    uint32_t stuck_ms;      /* for a full disk to take a command's output again */
};
extern const struct bx_shim_world bx_shim_real_world;

struct bx_shim_args {
    int box_fd, home_fd, control_fd, owner_pidfd; /* taken; owner_pidfd may be -1 */
    bool quiet;                                   /* see shimproc.h */
};

enum bx_shim_phase {
    BX_PHASE_BOOT,
    BX_PHASE_RUNNING,
    BX_PHASE_STOPPING, /* engine still there */
    BX_PHASE_DRAIN,    /* box stopped, lock released; slow readers get the rest */
    BX_PHASE_DONE,
};

/* How to end, in rising order: a stop under way is only ever made quicker. */
enum bx_shim_stop {
    BX_STOP_NONE,
    BX_STOP_SIGNAL,   /* stop signal to the main command, then as below */
    BX_STOP_SHUTDOWN, /* the agent kills all, syncs, powers off */
    BX_STOP_KILL,     /* the engine is killed */
};

struct bx_shim_share;
struct bx_shim_exec;
struct bx_shim_client;
struct bx_shim_reader;
struct bx_shim_pending;

struct bx_shim_execs {
    struct bx_shim_exec **v; /* by rising number */
    size_t n, cap;
    size_t running;
    uint32_t next; /* number of the next one */
    int dir;       /* execs/ */
};

struct bx_shim_console {
    int fd; /* console.log */
    uint64_t size;
    struct bx_buf tail;
    char line[256]; /* the line that is being printed */
    size_t line_len;
    char *panic; /* the reason, once seen */
};

struct bx_shim {
    struct bx_loop *loop;
    struct bx_log log;
    struct bx_shim_world world;
    struct bx_shim_args args;
    struct bx_box_config config;
    bool have_config;
    int lock_fd; /* -1: not ours */
    int64_t started;

    enum bx_shim_phase phase;
    enum bx_shim_stop stop;
    boxlite_error *failure;   /* the first one, if the box failed */
    boxlite_error *suspicion; /* a failure that waits for a better reason */
    bool paused, announced, timed_out, finishing;
    bool followed; /* someone has attached to the main command */
    struct bx_source *step; /* deadline of the present step */
    struct bx_source *boot_end;
    struct bx_source *timeout; /* the box's own */
    struct bx_source *owner;
    struct bx_source *finish; /* deferred end */
    struct bx_source *reaper;
    struct bx_source *stuck; /* retry of a full disk */

    const struct bx_vmm_ops *engine;
    struct bx_vmm *vm;
    struct bx_passt *passt;
    struct bx_passt_net net;
    struct bx_shim_share *share; /* NULL: the box shares nothing */
    bool have_net;
    struct bx_shim_console console;

    struct bx_conn *agent;
    struct bx_conn_io *agent_io;
    bool agent_ready;
    char *release; /* the guest kernel's */

    struct bx_shim_execs execs;
    int listen_fd;
    struct bx_source *listener;
    struct bx_shim_client *clients, *starter;
    size_t nclients;
    struct bx_shim_pending *pending;
    uint64_t next_query; /* number of the next question to the agent */
    struct bx_buf msg;   /* scratch: the message that is being made */
};

/* ---- shim_life */
/* Takes the descriptors of args, also on failure. */
int bx_shim_new(struct bx_loop *loop, const struct bx_log *log, const struct bx_shim_world *world,
                const struct bx_shim_args *args, struct bx_shim **ret); /* 0 or -errno */
void bx_shim_free(struct bx_shim *s);
/* Boots the box. What fails is told to the clients; then, as always in the end, the phase becomes
 * DONE. */
void bx_shim_start(struct bx_shim *s);
bool bx_shim_done(const struct bx_shim *s);
/* Ends the box in at least that way; timeout_ms: for SIGNAL. */
void bx_shim_stop(struct bx_shim *s, enum bx_shim_stop how, uint32_t timeout_ms);
/* The box has failed: takes *err (the first failure is the one that is told), ends it. */
void bx_shim_fail(struct bx_shim *s, boxlite_error **err);
void bx_shim_agent_ready(struct bx_shim *s);
void bx_shim_agent_lost(struct bx_shim *s, int error);
void bx_shim_alive(struct bx_shim *s); /* a sign of life during the boot */
void bx_shim_main_started(struct bx_shim *s);
void bx_shim_main_ended(struct bx_shim *s);
void bx_shim_main_followed(struct bx_shim *s);
void bx_shim_panicked(struct bx_shim *s);
/* A client's reader or connection is gone: the drain may be over. */
void bx_shim_check_drained(struct bx_shim *s);
int bx_shim_state(const struct bx_shim *s); /* BOXLITE_BOX_* */
const char *bx_shim_state_text(int state);
/* Asks the engine; the answer goes to the pending requests of that kind. Returns 0. */
int bx_shim_pause(struct bx_shim *s, bool on);
/* ---- shim_signal */
/* The number of a signal by name or number ("SIGTERM", "TERM", "15", "SIGRTMIN+3"), or 0. */
int bx_shim_signal_number(const char *name);

/* ---- shim_files */
void bx_shim_args_close(struct bx_shim_args *a);
/* Lock, config, a clean folder. STATE: the box runs already. */
int bx_shim_files_begin(struct bx_shim *s, boxlite_error **err);
/* The box is removed when this run ends, and nobody keeps it. */
bool bx_shim_leaves_nothing(const struct bx_shim *s);
/* Leaves the folder as a stopped box's (or empty: auto_remove) and releases the lock. */
void bx_shim_files_end(struct bx_shim *s);

/* ---- shim_boot */
/* Starts network and engine; *ret_agent_fd: our end of the agent's channel. */
int bx_shim_boot(struct bx_shim *s, const struct bx_vmm_events *events, int *ret_agent_fd,
                 boxlite_error **err);
int bx_shim_configure_msg(const struct bx_shim *s, struct bx_buf *msg); /* 0 or -errno */

/* ---- shim_console */
int bx_shim_console_open(struct bx_shim_console *c, int box_fd); /* 0 or -errno */
void bx_shim_console_done(struct bx_shim_console *c);
/* True once, when the bytes complete the line of a kernel panic. */
bool bx_shim_console_feed(struct bx_shim_console *c, const uint8_t *p, size_t len);
/* The last lines, fit for one line of a message; caller frees; NULL: none. */
char *bx_shim_console_last(const struct bx_shim_console *c, unsigned lines);

/* ---- shim_agent */
int bx_shim_agent_open(struct bx_shim *s, int take_fd, boxlite_error **err);
void bx_shim_agent_close(struct bx_shim *s);
/* Sends s->msg. 0 or a code: GUEST when the guest does not take it. */
int bx_shim_agent_send(struct bx_shim *s, boxlite_error **err);
/* A message of one number and at most two more fields (tag 0: none). */
int bx_shim_agent_tell(struct bx_shim *s, uint16_t type, uint16_t tag1, uint64_t v1, uint16_t tag2,
                       uint64_t v2, boxlite_error **err);

/* ---- shim_exec */
enum bx_exec_state { BX_EXEC_PLANNED, BX_EXEC_SENT, BX_EXEC_RUNNING, BX_EXEC_ENDED };

struct bx_shim_out {
    struct bx_spool spool;
    struct bx_buf stuck; /* what the disk would not take; bounded by the channel's window */
    uint64_t owed;       /* credit that is held back */
    bool ended;          /* the guest has sent the end */
    bool reset;          /* no one will ever want more: dropped */
};

struct bx_shim_exec {
    struct bx_shim *shim;
    uint32_t number;
    enum bx_exec_state state;
    struct bx_shim_client *owner; /* killed when that goes; NULL: detached */
    struct bx_exec_spec *spec;    /* until it is sent */
    bool tty, has_stdin;
    uint64_t pid;
    struct bx_shim_out out[2];
    uint64_t stuck_since;
    struct bx_shim_reader *readers, *writer;
    struct bx_buf in;  /* input on its way to the guest */
    size_t in_foreign; /* of these, bytes of writers who have gone */
    bool in_eof, in_eof_sent, in_closed;
    int output_error; /* -errno: killed because its output could not be kept */
    bool told;        /* its result came from the guest */
    struct bx_exec_exit exit;
};

bool bx_shim_exec_is_main(const struct bx_shim_exec *e);
/* A planned command; takes what spec holds. BUSY, NO_MEMORY, STATE. */
int bx_shim_exec_new(struct bx_shim *s, struct bx_exec_spec *spec, struct bx_shim_client *owner,
                     struct bx_shim_exec **ret, boxlite_error **err);
int bx_shim_exec_send(struct bx_shim_exec *e, boxlite_error **err);
/* The newest command was never sent: forgets it. */
void bx_shim_exec_cancel(struct bx_shim_exec *e);
int bx_shim_exec_resize(struct bx_shim_exec *e, uint16_t rows, uint16_t cols, boxlite_error **err);
struct bx_shim_exec *bx_shim_exec_find(struct bx_shim *s, uint32_t number);
/* From the agent. */
void bx_shim_exec_started(struct bx_shim_exec *e, uint64_t pid);
void bx_shim_exec_exited(struct bx_shim_exec *e, struct bx_exec_exit *take);
void bx_shim_exec_bytes(struct bx_shim_exec *e, int which, const uint8_t *p, size_t len);
void bx_shim_exec_out_ended(struct bx_shim_exec *e, int which);
void bx_shim_exec_in_writable(struct bx_shim_exec *e);
void bx_shim_exec_in_closed(struct bx_shim_exec *e);
/* From a client. */
void bx_shim_exec_input(struct bx_shim_exec *e, const uint8_t *p, size_t len);
void bx_shim_exec_input_eof(struct bx_shim_exec *e);
int bx_shim_exec_signal(struct bx_shim_exec *e, int signo, boxlite_error **err);
/* A reader moved or left: what it held back may go on. */
void bx_shim_exec_readers_moved(struct bx_shim_exec *e);
void bx_shim_exec_writer_gone(struct bx_shim_exec *e);
void bx_shim_exec_pump(struct bx_shim_exec *e, int which); /* to all its readers */
void bx_shim_exec_unstick(struct bx_shim_exec *e);
void bx_shim_exec_settled(struct bx_shim_exec *e); /* may have ended: see there */
void bx_shim_exec_owner_gone(struct bx_shim *s, const struct bx_shim_client *client);
/* The VM is gone: all that have not ended have now. */
void bx_shim_execs_lost(struct bx_shim *s);
void bx_shim_execs_retry(struct bx_shim *s); /* those whose output the disk did not take */
void bx_shim_execs_reap(struct bx_shim *s);
void bx_shim_execs_done(struct bx_shim *s);

/* ---- shim_reader */
struct bx_shim_reader {
    struct bx_shim_exec *exec;
    struct bx_shim_client *client;
    uint32_t attachment;
    struct bx_shim_at {
        uint64_t pos; /* next byte to send */
        uint64_t end; /* stops there; UINT64_MAX: follows */
        bool done;    /* sent to its end, or not wanted any more */
    } at[2];
    struct bx_shim_reader *next_of_exec, *next_of_client;
};
struct bx_shim_attach {
    uint32_t attachment;
    uint64_t offset[2];
    bool follow, input;
};
int bx_shim_reader_new(struct bx_shim_client *client, struct bx_shim_exec *exec,
                       const struct bx_shim_attach *how, struct bx_shim_reader **ret,
                       boxlite_error **err);
void bx_shim_reader_free(struct bx_shim_reader *r);
struct bx_shim_reader *bx_shim_reader_find(struct bx_shim_client *client, uint32_t attachment);
/* Sends what there is and room for. */
void bx_shim_reader_pump(struct bx_shim_reader *r, int which);
/* Bytes that were just stored at `offset`: sent from memory to a reader who stands there. */
void bx_shim_reader_live(struct bx_shim_reader *r, int which, uint64_t offset, const uint8_t *p,
                         size_t len);
bool bx_shim_reader_done(const struct bx_shim_reader *r);

/* ---- shim_server */
struct bx_shim_client {
    struct bx_shim *shim;
    struct bx_conn *conn;
    struct bx_conn_io *io;
    bool dead;
    int told_state; /* the last STATE event, -1: none yet */
    struct bx_shim_reader *readers;
    size_t nreaders, npending;
    uint64_t taken; /* sum of its readers' places at the last look (bx_shim_drop_idle) */
    struct bx_shim_client *next;
};

enum bx_pending_kind {
    BX_PENDING_WAIT,
    BX_PENDING_PAUSE,
    BX_PENDING_RESUME,
    BX_PENDING_STOP,
    BX_PENDING_STATS,
    BX_PENDING_VMM
};

int bx_shim_listen(struct bx_shim *s, boxlite_error **err);
void bx_shim_unlisten(struct bx_shim *s);
/* Takes fd. */
int bx_shim_client_new(struct bx_shim *s, int take_fd, struct bx_shim_client **ret);
/* Marks a connection as ended: it, and what it owns, goes at the next reap, so this is allowed
 * anywhere. */
void bx_shim_client_drop(struct bx_shim_client *c);
void bx_shim_clients_reap(struct bx_shim *s);
void bx_shim_reap_later(struct bx_shim *s);
/* Begins a REPLY in s->msg, then sends it. A client that does not take it is dropped. */
void bx_shim_reply_begin(struct bx_shim_client *c, uint64_t request);
void bx_shim_reply_send(struct bx_shim_client *c);
void bx_shim_reply_error(struct bx_shim_client *c, uint64_t request, const boxlite_error *err);
/* An answer that comes later. BUSY over the bound. */
int bx_shim_pend(struct bx_shim_client *c, uint64_t request, enum bx_pending_kind kind,
                 uint64_t key, boxlite_error **err);
/* Calls fn for each one of that kind and key, which are settled by it. */
void bx_shim_settle(struct bx_shim *s, enum bx_pending_kind kind, uint64_t key,
                    void (*fn)(struct bx_shim_client *c, uint64_t request, void *data), void *data);
/* Answers one of a client's own waiting requests with an error, if it is there. */
void bx_shim_withdraw(struct bx_shim_client *c, enum bx_pending_kind kind, uint64_t request,
                      const boxlite_error *err);
void bx_shim_settle_error(struct bx_shim *s, enum bx_pending_kind kind, uint64_t key,
                          const boxlite_error *err);
void bx_shim_answer_empty(struct bx_shim_client *c, uint64_t request, void *data);
/* The box has stopped: an error for whoever still waits for something from it. */
void bx_shim_settle_stopped(struct bx_shim *s);
/* Readers of a stopped box who have taken nothing since the last call lose their connection (but
 * the starter). */
void bx_shim_drop_idle(struct bx_shim *s);
/* Writes out what is pending, within a limit, and closes all connections. */
void bx_shim_clients_close(struct bx_shim *s);
/* The STATE event to everyone, or to one client. */
void bx_shim_tell_state(struct bx_shim *s, struct bx_shim_client *only);
/* That a command runs, to all who are attached to it, or to one. */
void bx_shim_tell_started(struct bx_shim_exec *e, const struct bx_shim_client *only);

/* ---- shim_request */
int bx_shim_request(struct bx_shim_client *c, const struct bx_msg *m); /* -EPROTO ends the link */
void bx_shim_answer_wait(struct bx_shim_client *c, uint64_t request, void *exec);

/* ---- shim_jail */
void bx_shim_jail_early(const struct bx_log *log); /* first thing */
void bx_shim_jail_late(const struct bx_log *log);  /* once engine and network run */

#endif
