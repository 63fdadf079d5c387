/* SPDX-License-Identifier: Apache-2.0 */
/*
 * proto.h: the messages of both links: their numbers and fields. docs/wire.md is the prose.
 *
 * Link 1, shim to agent. Exec n (chosen by the shim, from 1 up, never reused in a boot) has the channels
 * BX_CHANNEL(n, 0) stdin, (n, 1) stdout, (n, 2) stderr; with a terminal stdout carries it all. Both sides open
 * them with the EXEC message. The agent sends EOF on stdout and stderr before EXITED.
 * Link 2, client (library) to shim. A client's attachment a (chosen by the client, from 1 up) has the
 * channels BX_CHANNEL(a, stream) likewise, opened with ATTACH.
 * Numbers and strings are as in msg.h. Unknown messages are answered with ERROR or ignored if they are events.
 */
#ifndef BX_WIRE_PROTO_H
#define BX_WIRE_PROTO_H

#include <stdint.h>

#define BX_EXEC_MAX 0x0fffffffu
#define BX_CHANNEL(n, stream) ((uint32_t)(n) << 2 | (uint32_t)(stream))
#define BX_CHANNEL_NUMBER(channel) ((channel) >> 2)
#define BX_CHANNEL_STREAM(channel) ((channel)&3u)
enum { BX_STREAM_IN = 0, BX_STREAM_OUT = 1, BX_STREAM_ERR = 2 };

/* Shared folders: the guest kernel's FUSE requests (agent to shim) and their answers, opened by a CONFIGURE
 * with MOUNT. Records: u32 number of the mount, then a FUSE message, whose first u32 is its length. */
#define BX_CHANNEL_SHARE_REQUEST BX_CHANNEL(0, 1)
#define BX_CHANNEL_SHARE_ANSWER BX_CHANNEL(0, 2)
/* Not a mount: u32 16, u32 1, u32 uid, u32 gid: who owns what is in workspaces. */
#define BX_SHARE_CONTROL_NUMBER UINT32_MAX
#define BX_SHARE_CONTROL_OWNER 1u
#define BX_SHARE_IO_MAX (256u << 10) /* most bytes of one read or write */

/* The name of the virtio-serial port that carries link 1: /sys/class/virtio-ports/vportNpM/name */
#define BX_AGENT_PORT "org.boxlite.agent"

/* The comments are the specification, their layout is ours. */
/* clang-format off */
enum bx_msg_type {
    /* shim -> agent */
    BX_AG_CONFIGURE = 1, /* once, first: ROOT_DEV, ROOT_TYPE, UPPER_DEV, UPPER_TYPE, HOSTNAME, CLOCK_NS, FILE*,
                            NET_*?, MOUNT*, USER?: answered by READY or FAILED */
    BX_AG_EXEC = 2,      /* EXEC, ARG*, ENV*, CWD, USER, FLAGS, ROWS, COLS, TIMEOUT_MS, RLIMIT*, FILE*, BUILTIN?: answered by
                            STARTED or EXITED with START_ERROR */
    BX_AG_SIGNAL = 3,    /* EXEC, SIGNO: to the command's process group leader; SIGKILL: to its whole cgroup */
    BX_AG_RESIZE = 4,    /* EXEC, ROWS, COLS */
    BX_AG_CLOCK = 5,     /* CLOCK_NS: host real time now */
    BX_AG_SHUTDOWN = 6,  /* kill all, sync, unmount, power off; no answer but the end of the VM */
    BX_AG_PING = 7,      /* REQUEST: answered by PONG */
    BX_AG_STATS = 8,     /* REQUEST: answered by STATS_REPLY: MEM_TOTAL, MEM_FREE, CPU_US, PIDS */
    /* agent -> shim */
    BX_AG_READY = 32,   /* RELEASE (kernel), BOOT_US (uptime when ready) */
    BX_AG_FAILED = 33,  /* ERROR, ERRNO: cannot set the container up; it powers off after that */
    BX_AG_STARTED = 34, /* EXEC, PID (in the container) */
    BX_AG_EXITED = 35,  /* EXEC, CODE (0–255) or SIGNO, EXIT_FLAGS, WALL_US, USER_US, SYSTEM_US, MAX_RSS;
                           or START_ERROR (errno), ERROR (text), CODE 126 | 127 */
    BX_AG_PONG = 36,
    BX_AG_STATS_REPLY = 37,
    BX_AG_LOG = 38, /* LEVEL, TEXT */

    /* client -> shim; each has REQUEST (from 1 up, per connection) and is answered by REPLY or REPLY_ERROR with it */
    BX_SH_STATUS = 64,  /* -> STATE, ENGINE, EXEC (the main command's or absent), PID (shim), STARTED_NS, RELEASE */
    BX_SH_EXEC = 65,    /* the fields of BX_AG_EXEC without EXEC; + DETACHED -> EXEC. Without DETACHED the command is
                           killed when this connection ends. */
    BX_SH_ATTACH = 66,  /* EXEC, ATTACHMENT, OFFSET_OUT, OFFSET_ERR (absolute, default 0), FOLLOW (0: what is there now, then
                           EOF), STDIN (1: this attachment writes it) -> START_OUT, START_ERR (first bytes still kept) */
    BX_SH_DETACH = 67,  /* ATTACHMENT: its channels are closed, no frames after the REPLY */
    BX_SH_WAIT = 68,    /* EXEC -> when it ended: the fields of BX_AG_EXITED */
    BX_SH_SIGNAL = 69,  /* EXEC, SIGNO */
    BX_SH_RESIZE = 70,  /* EXEC, ROWS, COLS */
    BX_SH_PAUSE = 71,
    BX_SH_RESUME = 72,
    BX_SH_STOP = 73,    /* TIMEOUT_MS: REPLY comes before the shim ends; then end of file */
    BX_SH_KILL = 74,    /* EXEC: SIGKILL to its cgroup */
    BX_SH_LIST = 75,    /* -> EXEC* of those running */
    BX_SH_STATS = 76,   /* -> the fields of BX_AG_STATS_REPLY */
    BX_SH_CANCEL = 77,  /* WHICH: a WAIT of this connection, answered by REPLY_ERROR (CANCELLED) if it still waits */
    BX_SH_VMM = 78,     /* -> TEXT: JSON, what the engine's process says of itself */
    /* shim -> client */
    BX_SH_REPLY = 96,       /* REQUEST, fields */
    BX_SH_REPLY_ERROR = 97, /* REQUEST, CODE_NEG (u64: minus the BOXLITE_E_* code), ERRNO, ERROR, HINT */
    BX_SH_STATE = 98,       /* event, sent to every client: STATE, ENGINE, RELEASE; STOPPED with ERROR, CODE_NEG, HINT if it failed */
    BX_SH_STARTED = 99,     /* event for clients that attached to EXEC: PID */
};

enum bx_tag {
    BX_T_REQUEST = 1,
    BX_T_EXEC = 2,
    BX_T_ARG = 3,
    BX_T_ENV = 4, /* NAME=VALUE */
    BX_T_CWD = 5,
    BX_T_USER = 6, /* "", name, uid, name:group …; resolved in the image by the agent */
    BX_T_FLAGS = 7, /* BX_EXEC_* */
    BX_T_ROWS = 8,
    BX_T_COLS = 9,
    BX_T_TIMEOUT_MS = 10,
    BX_T_RLIMIT = 11, /* bytes: u64 resource, soft, hard */
    BX_T_BUILTIN = 12, /* instead of a program: "tar-out" (ARG: path), "tar-in" (ARG: folder, owner?), "changes-out"
                          (ARG: upper folder, joined view or "", then paths to leave out), "changes-drop" (ARG: upper folder, then paths) */
    BX_T_SIGNO = 13,
    BX_T_CODE = 14,
    BX_T_EXIT_FLAGS = 15, /* BOXLITE_EXIT_* bits of boxlite.h */
    BX_T_WALL_US = 16,
    BX_T_USER_US = 17,
    BX_T_SYSTEM_US = 18,
    BX_T_MAX_RSS = 19,
    BX_T_START_ERROR = 20,
    BX_T_PID = 21,
    BX_T_ERROR = 22,
    BX_T_ERRNO = 23,
    BX_T_HINT = 24,
    BX_T_CODE_NEG = 25,
    BX_T_CLOCK_NS = 26,
    BX_T_HOSTNAME = 27,
    BX_T_ROOT_DEV = 28, /* "/dev/vda" */
    BX_T_ROOT_TYPE = 29,
    BX_T_UPPER_DEV = 30, /* "/dev/vdb", absent: tmpfs */
    BX_T_UPPER_TYPE = 31,
    BX_T_FILE = 32, /* bytes: path NUL content. CONFIGURE: written into the upper layer at each start (/etc/hosts, …).
                       EXEC: written by the command's user before it starts; relative to its CWD */
    BX_T_NET_ADDR = 33, /* "10.0.2.15/24"; absent: loopback only. Interface eth0 */
    BX_T_NET_GATEWAY = 34,
    BX_T_NET_MTU = 35,
    BX_T_RELEASE = 36,
    BX_T_BOOT_US = 37,
    BX_T_STATE = 38, /* BOXLITE_BOX_* */
    BX_T_ENGINE = 39,
    BX_T_STARTED_NS = 40,
    BX_T_ATTACHMENT = 41,
    BX_T_OFFSET_OUT = 42,
    BX_T_OFFSET_ERR = 43,
    BX_T_FOLLOW = 44,
    BX_T_STDIN = 45,
    BX_T_START_OUT = 46,
    BX_T_START_ERR = 47,
    BX_T_DETACHED = 48,
    BX_T_LEVEL = 49,
    BX_T_TEXT = 50,
    BX_T_MEM_TOTAL = 51,
    BX_T_MEM_FREE = 52,
    BX_T_CPU_US = 53,
    BX_T_PIDS = 54,
    BX_T_WHICH = 55, /* number of a request */
    BX_T_MOUNT = 60, /* bytes: u8 BX_MOUNT_* bits, then the path in the guest; numbered from 0 by their order */
};
/* clang-format on */

/* the first byte of a MOUNT */
#define BX_MOUNT_READ_ONLY 1u
#define BX_MOUNT_UNION 2u /* a workspace: read-only below, writes go to the box's disk */
#define BX_MOUNT_FILE 4u  /* a single file */

/* BX_T_FLAGS of an exec */
#define BX_EXEC_TTY 1u
#define BX_EXEC_STDIN 2u /* a stdin channel; else /dev/null */

#endif
