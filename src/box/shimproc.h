/* SPDX-License-Identifier: Apache-2.0 */
/*
 * shimproc.h: how the library starts a shim, and what both agree on.
 *
 * boxlite-shim --box-fd N --home-fd N --control-fd N [--owner-pidfd N] [--log-level L]
 *              [--quiet 1]
 *   box-fd      the box's folder
 *   home-fd     the home directory (rootfs and kernel are opened below it)
 *   control-fd  a connected stream socket: the starter's connection (link 2), served like any
 *               other client's. For an attached box it is the owner's: when it ends, the box ends.
 *   owner-pidfd only attached: the box ends too when this process does (a fork may keep the socket
 *   open)
 *   quiet       up for the library's own work in a stopped box: without main command, network and
 *               time-out, attached, for its starter alone. Leaves no trace of a run in the folder.
 * The shim first takes the lock, then answers: BX_SH_STATE events STARTING, RUNNING, or STOPPED
 * with the error. It is started in its own session with stdin, stdout and stderr on /dev/null
 * (stderr: shim.log), so that no terminal signal reaches it. Program folder ("libexec"):
 * boxlite-shim, boxlite-agent.
 */
#ifndef BX_BOX_SHIMPROC_H
#define BX_BOX_SHIMPROC_H

#define BX_SHIM_PROGRAM "boxlite-shim"
#define BX_AGENT_PROGRAM "boxlite-agent"
#define BX_CONTROL_SOCKET "control.sock"
#define BX_MAIN_EXEC 1u /* the main command's exec number */

/* Kept output of one stream: the first and last bytes are found by offset; older ones are dropped
 * when no attached reader needs them. */
#define BX_SPOOL_MAX (64ull << 20)

#endif
