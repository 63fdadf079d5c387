/* SPDX-License-Identifier: Apache-2.0 */
/*
 * streams.h: the two directions between a command's descriptors and its channels.
 *
 * Nothing is read from a command that its channel has no credit for, and nothing is taken off the
 * channel's credit that the command has not read: a slow side holds back the other and nobody else.
 *
 * A command that writes little at a time, again and again, would wake the agent for each piece, and that costs more
 * than the piece (8 KiB writes: ten times the processor time of large ones). So a stream that had bytes a moment ago and
 * is empty again rests for a millisecond, while its pipe, made large for that, fills. The first bytes after a pause never
 * wait.
 */
#ifndef BX_GUEST_STREAMS_H
#define BX_GUEST_STREAMS_H

#include "base/buf.h"
#include "guest/agent.h"

/* From the command to the host. */
struct out_stream {
    struct agent *agent;
    struct bx_source *source;
    struct bx_source *rest; /* timer: read on when it fires */
    uint64_t emptied;       /* when it was last read empty */
    uint32_t channel;
    int fd;         /* -1: at its end */
    int64_t budget; /* bytes still to be read after the command's end, -1: no bound */
    void (*ended)(void *data);
    void *data;
};

/* Takes fd, which is non-blocking. ended is called once, when the last byte and EOF have been queued. */
int out_stream_open(struct out_stream *s, struct agent *a, int take_fd, uint32_t channel,
                    void (*ended)(void *data), void *data);
void out_stream_writable(struct out_stream *s);
void out_stream_reset(struct out_stream *s);
/* The command has ended but something keeps the descriptor open: what is in it now is the last. What
 * comes later is read and thrown away, so that its writers live on. May call ended. */
void out_stream_finish(struct out_stream *s);
void out_stream_close(struct out_stream *s);

/* From the host to the command. */
struct in_stream {
    struct agent *agent;
    struct bx_source *source;
    uint32_t channel;
    int fd;   /* -1: closed */
    bool tty; /* shares fd with the output: the end is told by a control character */
    bool eof; /* no more will come */
    bool line_start;
    struct bx_buf queue;
};

int in_stream_open(struct in_stream *s, struct agent *a, int take_fd, uint32_t channel, bool tty);
void in_stream_bytes(struct in_stream *s, const uint8_t *p, size_t len);
void in_stream_eof(struct in_stream *s);
void in_stream_close(struct in_stream *s);

#endif
