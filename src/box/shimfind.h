/* SPDX-License-Identifier: Apache-2.0 */
/*
 * shimfind.h: who holds a box. Whether anybody does is asked of the lock; who, of the pid and start
 * time written in it, which are believed only while the lock is held and both still fit a live
 * process.
 */
#ifndef BX_BOX_SHIMFIND_H
#define BX_BOX_SHIMFIND_H

#include <stdbool.h>

/* Writes this process' pid and start time into its lock file. */
void bx_shim_note(int lock_fd);
/* 1: a shim runs, 0: none, -errno. Takes no lock. */
int bx_shim_running(int box_fd);
/* A pidfd of the shim that holds the box, or -1: there is none, or it cannot be told. */
int bx_shim_pidfd(int box_fd);
/* Its pid, for people; who signals it uses the pidfd. */
int bx_shim_pid(int box_fd);
/* Takes the box' lock, as one who starts or removes it does: a descriptor that holds it, -EAGAIN:
 * another has it, -errno. */
int bx_shim_lock(int box_fd);
/* Holds a box that would be removed when it stops, for as long as the descriptor is open: see
 * boxlite_box_keep(). A descriptor, -EAGAIN: another holds it, -errno. */
int bx_box_keep_lock(int box_fd);
/* Somebody does. */
bool bx_box_kept(int box_fd);

#endif
