/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_box_memory.c: the library when memory runs out: each allocation of our own code fails in turn. What was asked either
 * works or is NO_MEMORY, nothing leaks, and the home is sound.
 */
#include <stdio.h>
#include <stdlib.h>

#include "box/box.h"
#include "box/exec.h"
#include "box/options.h"
#include "box_fixture.h"

static int result(int r)
{
    /* jansson tells a lack of memory in the middle of a text as an error in it */
    bool memory = r == BOXLITE_E_NO_MEMORY || r == BOXLITE_E_INTEGRITY;
    if (r < 0 && !(allocation_failed() && memory)) {
        FAIL("%s: %s", boxlite_error_name(r), err_message());
    }
    return r;
}

static boxlite_runtime *open_inside(void)
{
    boxlite_runtime_options o = {.struct_size = sizeof(o)};
    boxlite_runtime *rt = NULL;
    o.home = bf_home();
    o.libexec = FAKESHIM_DIR;
    ASSERT_OK(bx_runtime_new(&o, &rt, ERR));
    return rt;
}

TEST_FOR(opening_a_home, 60)
{
    boxlite_runtime *first = bf_runtime();
    boxlite_box_free(bf_box(first, "a", NULL, 0));
    boxlite_runtime_free(first);
    boxlite_runtime_options o = {.struct_size = sizeof(o)};
    o.home = bf_home();
    TORTURE {
        boxlite_runtime *rt = NULL;
        int r = result(bx_runtime_new(&o, &rt, ERR));
        ASSERT_EQ(r == 0, rt != NULL);
        bx_runtime_free(rt);
    }
}

TEST_FOR(making_listing_and_removing, 120)
{
    boxlite_runtime_free(bf_runtime());
    boxlite_runtime *rt = open_inside();
    TORTURE {
        boxlite_box_options *o = NULL;
        boxlite_box *box = NULL;
        boxlite_box_list *list = NULL;
        const char *json = NULL;
        if (result(bx_box_options_new(IMAGE, &o, ERR)) == 0) {
            o->disk = 64u << 20;
            (void)result(bx_set_env(&o->labels, "label", "a", "b", ERR));
            if (result(bx_box_create(rt, o, &box, ERR)) == 0) {
                (void)result(bx_box_json(box, &json, ERR));
                if (result(bx_box_list_new(rt, &list, ERR)) == 0) {
                    ASSERT_EQ(list->n, 1);
                }
                bx_box_list_free(list);
                if (bx_box_remove(box, false, NULL) < 0) {
                    ASSERT(allocation_failed());
                    ASSERT_OK(bx_box_remove(box, true, ERR));
                }
            }
        }
        bx_box_free(box);
        bx_box_options_free(o);
    }
    bx_runtime_free(rt);
}

TEST_FOR(running_a_command, 240)
{
    boxlite_runtime *first = bf_runtime();
    boxlite_box_free(bf_box(first, "a", NULL, BF_DETACHED | BF_START));
    boxlite_runtime_free(first);
    boxlite_runtime *rt = open_inside();
    TORTURE {
        boxlite_box *box = NULL;
        boxlite_exec *exec = NULL;
        boxlite_exec_result end = {.struct_size = sizeof(end)};
        const char *const argv[] = {"echo", "x"};
        boxlite_exec_options *o = NULL;
        char b[8];
        if (result(bx_box_open(rt, "a", &box, ERR)) == 0
            && result(bx_exec_options_new(argv, 2, &o, ERR)) == 0) {
            int r = bx_exec_start(box, &o->spec, &exec, NULL);
            ASSERT(r == 0 || allocation_failed());
            if (r == 0) {
                r = bx_exec_wait(exec, 20000, &end, NULL);
                ASSERT(r == 0 || (allocation_failed() && r != BOXLITE_E_TIMEOUT));
                (void)bx_exec_read(exec, BOXLITE_STDOUT, b, sizeof(b), NULL);
            }
        }
        bx_exec_free(exec);
        bx_exec_options_free(o);
        bx_box_free(box);
    }
    boxlite_box *box = NULL;
    ASSERT_OK(bx_box_open(rt, "a", &box, ERR));
    ASSERT_OK(bx_box_remove(box, true, ERR));
    bx_box_free(box);
    bx_runtime_free(rt);
    reap_orphans();
}
