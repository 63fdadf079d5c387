/* SPDX-License-Identifier: Apache-2.0 */
/* progress.c: see progress.h. The line is drawn at most ten times a second, whatever the library reports. */
#include "cli/progress.h"

#include <inttypes.h>
#include <string.h>

#include "cli/values.h"

#define DELAY_US 1000000u
#define INTERVAL_US 100000u

static struct {
    bool off, visible;
    char what[64];         /* the step that runs */
    uint64_t since, drawn; /* when it began, when the line was drawn last */
} progress;

bool cli_progress_shown_here(void)
{
    static int terminal = -1;

    if (terminal < 0) {
        const char *term = getenv("TERM");

        terminal = isatty(STDERR_FILENO) && term && strcmp(term, "dumb") != 0;
    }
    return terminal && !progress.off;
}

void cli_progress_disable(void)
{
    cli_progress_clear();
    progress.off = true;
}

void cli_progress_clear(void)
{
    if (progress.visible) {
        fputs("\r\033[K", stderr);
        fflush(stderr);
        progress.visible = false;
    }
}

/* Whether a line may be drawn now; notes that it is. */
static bool due(uint64_t since, uint64_t now)
{
    if (now - since < DELAY_US || (progress.visible && now - progress.drawn < INTERVAL_US)) {
        return false;
    }
    progress.drawn = now;
    progress.visible = true;
    return true;
}

void cli_progress_report(void *data, const char *what, uint64_t done, uint64_t total)
{
    uint64_t now = cli_now_us();
    char done_text[CLI_VALUE_TEXT], total_text[CLI_VALUE_TEXT];

    if (!cli_progress_shown_here()) {
        return;
    }
    if (strncmp(progress.what, what, sizeof(progress.what) - 1) != 0) {
        (void)snprintf(progress.what, sizeof(progress.what), "%s", what);
        progress.since = now;
    }
    if (total && done >= total) {
        cli_progress_clear();
        progress.what[0] = 0;
        return;
    }
    if (!due(progress.since, now)) {
        return;
    }
    cli_size_text(done, done_text);
    cli_size_text(total, total_text);
    if (total) {
        unsigned percent = (unsigned)((double)done * 100.0 / (double)total);

        fprintf(stderr, "\r%s: %3u %% (%s of %s)\033[K", progress.what, percent, done_text,
                total_text);
    } else {
        fprintf(stderr, "\r%s: %s\033[K", progress.what, done_text);
    }
    fflush(stderr);
}

void cli_progress_waiting(const char *what, uint64_t since_us)
{
    uint64_t now = cli_now_us();

    if (cli_progress_shown_here() && due(since_us, now)) {
        fprintf(stderr, "\r%s (%" PRIu64 " s)\033[K", what, (now - since_us) / 1000000u);
        fflush(stderr);
    }
}
