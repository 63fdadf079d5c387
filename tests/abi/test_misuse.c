/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_misuse.c: what a caller can get wrong. Every function meets NULL (check_abi.py sees to it
 * that none is forgotten); then wrong order, wrong numbers, wrong sizes. Nothing crashes, the error
 * names the function and the argument, and outputs are left as they were.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "harness.h"

/* The call is refused, by name. */
#define REFUSED(arg, call)                                                                         \
    do {                                                                                           \
        ASSERT_FAILS(BOXLITE_E_INVALID, call);                                                     \
        ASSERT_CONTAINS(err_message(), #arg);                                                      \
    } while (0)

static boxlite_runtime *open_runtime(void)
{
    static char home[600];
    boxlite_runtime_options o;
    boxlite_runtime *rt = NULL;
    (void)snprintf(home, sizeof(home), "%s/home", tmpdir());
    boxlite_runtime_options_init(&o);
    o.home = home;
    ASSERT_OK(boxlite_runtime_new(&o, &rt, ERR));
    return rt;
}

TEST(freeing_nothing_is_fine)
{
    boxlite_error_free(NULL);
    boxlite_runtime_free(NULL);
    boxlite_report_free(NULL);
    boxlite_kernel_list_free(NULL);
    boxlite_image_config_free(NULL);
    boxlite_image_list_free(NULL);
    boxlite_image_free(NULL);
    boxlite_transfer_free(NULL);
    boxlite_transfer_cancel(NULL);
    boxlite_transfer_options_free(NULL);
    boxlite_box_options_free(NULL);
    boxlite_box_free(NULL);
    boxlite_box_list_free(NULL);
    boxlite_exec_options_free(NULL);
    boxlite_exec_free(NULL);
}

TEST(getters_of_nothing_give_nothing)
{
    ASSERT_NOT_NULL(boxlite_version());
    ASSERT_STREQ(boxlite_error_name(12345), "UNKNOWN");
    ASSERT_STREQ(boxlite_error_name(BOXLITE_E_NOT_FOUND), "NOT_FOUND");
    ASSERT_EQ(boxlite_error_code(NULL), 0);
    ASSERT_EQ(boxlite_error_errno(NULL), 0);
    (void)boxlite_error_message(NULL);
    ASSERT_NULL(boxlite_error_hint(NULL));
    boxlite_runtime_options_init(NULL);
    ASSERT_NULL(boxlite_runtime_home(NULL));
    ASSERT_EQ(boxlite_runtime_fd(NULL), -1);
    boxlite_runtime_wakeup(NULL);
    ASSERT_EQ(boxlite_report_count(NULL), 0);
    ASSERT_NULL(boxlite_report_name(NULL, 0));
    ASSERT_EQ(boxlite_report_status(NULL, 0), BOXLITE_CHECK_FAIL);
    ASSERT_NULL(boxlite_report_detail(NULL, 0));
    ASSERT_NULL(boxlite_report_advice(NULL, 0));
    ASSERT_EQ(boxlite_kernel_list_count(NULL), 0);
    ASSERT_NULL(boxlite_kernel_list_name(NULL, 0));
    ASSERT_NULL(boxlite_kernel_list_release(NULL, 0));
    ASSERT_EQ(boxlite_kernel_list_size(NULL, 0), 0);
    ASSERT_EQ(boxlite_image_list_count(NULL), 0);
    ASSERT_NULL(boxlite_image_list_get(NULL, 0));
    ASSERT_NULL(boxlite_image_digest(NULL));
    ASSERT_NULL(boxlite_transfer_digest(NULL));
    ASSERT_NULL(boxlite_transfer_name(NULL));
    ASSERT_EQ(boxlite_image_name_count(NULL), 0);
    ASSERT_NULL(boxlite_image_name(NULL, 0));
    ASSERT_NULL(boxlite_image_platform(NULL));
    ASSERT_EQ(boxlite_image_size(NULL), 0);
    ASSERT_EQ(boxlite_image_created(NULL), 0);
    ASSERT_NULL(boxlite_image_json(NULL));
    ASSERT_EQ(boxlite_image_shared_size(NULL), 0);
    ASSERT_EQ(boxlite_image_history_count(NULL), 0);
    ASSERT_EQ(boxlite_image_history_created(NULL, 0), 0);
    ASSERT_NULL(boxlite_image_history_created_by(NULL, 0));
    ASSERT_NULL(boxlite_image_history_comment(NULL, 0));
    ASSERT_NULL(boxlite_image_history_layer(NULL, 0));
    ASSERT_EQ(boxlite_image_history_size(NULL, 0), 0);
    ASSERT_NULL(boxlite_box_id(NULL));
    ASSERT_NULL(boxlite_box_name(NULL));
    ASSERT_NULL(boxlite_box_image(NULL));
    ASSERT_STREQ(boxlite_box_state_name(-7), "unknown");
    ASSERT_STREQ(boxlite_box_state_name(6), "unknown");
    ASSERT_STREQ(boxlite_box_state_name(BOXLITE_BOX_STOPPED), "stopped");
    ASSERT_EQ(boxlite_box_created(NULL), 0);
    ASSERT_NULL(boxlite_box_engine(NULL));
    ASSERT_EQ(boxlite_box_label_count(NULL), 0);
    ASSERT_NULL(boxlite_box_label_name(NULL, 0));
    ASSERT_NULL(boxlite_box_label_value(NULL, 0));
    ASSERT_EQ(boxlite_box_list_count(NULL), 0);
    ASSERT_NULL(boxlite_box_list_get(NULL, 0));
    ASSERT_EQ(boxlite_exec_number(NULL), 0);
    boxlite_exec_set_callback(NULL, NULL, NULL);
    ASSERT_EQ(boxlite_exec_events(NULL), 0);
    ASSERT_EQ(boxlite_exec_dropped(NULL, BOXLITE_STDOUT), 0);
    ASSERT_NULL(boxlite_exec_failure(NULL));
}

static void never(void *data, int result, const boxlite_error *error)
{
    FAIL("called");
}

TEST(no_runtime)
{
    boxlite_report *report = (void *)1;
    boxlite_kernel_list *kernels = (void *)1;
    boxlite_image *image = (void *)1;
    boxlite_image_list *images = (void *)1;
    const char *const refs[] = {"x"};
    boxlite_box *box = (void *)1;
    boxlite_box_list *boxes = (void *)1;
    boxlite_box_options *o;
    ASSERT_OK(boxlite_box_options_new("x", &o, ERR));
    REFUSED(ret is NULL, boxlite_runtime_new(NULL, NULL, ERR));
    REFUSED(rt is, boxlite_runtime_dispatch(NULL, 0, ERR));
    REFUSED(rt is, boxlite_doctor(NULL, &report, ERR));
    REFUSED(rt is, boxlite_kernel_import(NULL, "x", NULL, NULL, ERR));
    REFUSED(rt is, boxlite_kernel_remove(NULL, "x", 0, ERR));
    REFUSED(rt is, boxlite_kernel_list_new(NULL, &kernels, ERR));
    REFUSED(rt is, boxlite_image_import(NULL, "x", "y", NULL, &image, ERR));
    REFUSED(rt is, boxlite_image_load(NULL, "x", NULL, &images, ERR));
    REFUSED(rt is, boxlite_image_open(NULL, "x", &image, ERR));
    REFUSED(rt is, boxlite_image_remove(NULL, "x", 0, ERR));
    REFUSED(rt is, boxlite_image_pull(NULL, "x", NULL, &image, ERR));
    REFUSED(rt is, boxlite_image_push(NULL, "x", NULL, NULL, ERR));
    REFUSED(rt is, boxlite_image_push_async(NULL, "x", NULL, NULL, never, NULL, NULL, ERR));
    REFUSED(rt is, boxlite_registry_login(NULL, "x", "y", "z", NULL, ERR));
    REFUSED(rt is, boxlite_registry_logout(NULL, "x", NULL, ERR));
    REFUSED(rt is, boxlite_image_pull_async(NULL, "x", NULL, never, NULL, NULL, ERR));
    REFUSED(rt is, boxlite_image_list_new(NULL, &images, ERR));
    REFUSED(box is, boxlite_box_commit(NULL, "x", NULL, NULL, &image, ERR));
    REFUSED(rt is, boxlite_image_tag(NULL, "x", "y", ERR));
    REFUSED(rt is, boxlite_image_untag(NULL, "x", ERR));
    REFUSED(rt is, boxlite_image_save(NULL, refs, 1, BOXLITE_ARCHIVE_OCI, 1, ERR));
    REFUSED(rt is, boxlite_image_verify(NULL, "x", 0, ERR));
    REFUSED(rt is, boxlite_image_prune(NULL, 0, 0, 0, NULL, NULL, ERR));
    REFUSED(rt is, boxlite_box_create(NULL, o, &box, ERR));
    REFUSED(rt is, boxlite_box_open(NULL, "x", &box, ERR));
    REFUSED(rt is, boxlite_box_list_new(NULL, &boxes, ERR));
    ASSERT(report == (void *)1 && kernels == (void *)1 && image == (void *)1 &&
           images == (void *)1 && box == (void *)1 && boxes == (void *)1);
    ASSERT_EQ(boxlite_box_open(NULL, "x", &box, NULL),
              BOXLITE_E_INVALID); /* without an error too */
    boxlite_box_options_free(o);
}

TEST(no_arguments)
{
    boxlite_runtime *rt = open_runtime();
    const char *const refs[] = {NULL};
    boxlite_box_options *o;
    boxlite_image *image;
    boxlite_box *box;
    ASSERT_OK(boxlite_box_options_new("x", &o, ERR));
    REFUSED(ret is, boxlite_doctor(rt, NULL, ERR));
    REFUSED(path, boxlite_kernel_import(rt, NULL, NULL, NULL, ERR));
    REFUSED(kernel, boxlite_kernel_import(rt, "x", NULL, "../x", ERR));
    REFUSED(name, boxlite_kernel_remove(rt, NULL, 0, ERR));
    REFUSED(kernel, boxlite_kernel_remove(rt, "a/b", 0, ERR));
    REFUSED(ret is, boxlite_kernel_list_new(rt, NULL, ERR));
    REFUSED(path, boxlite_image_import(rt, NULL, "y", NULL, &image, ERR));
    REFUSED(ref, boxlite_image_import(rt, "x", NULL, NULL, &image, ERR));
    REFUSED(path, boxlite_image_load(rt, NULL, NULL, NULL, ERR));
    REFUSED(ref, boxlite_image_open(rt, NULL, &image, ERR));
    REFUSED(ret is, boxlite_image_open(rt, "x", NULL, ERR));
    REFUSED(ref, boxlite_image_remove(rt, NULL, 0, ERR));
    REFUSED(ref, boxlite_image_pull(rt, NULL, NULL, &image, ERR));
    REFUSED(ref, boxlite_image_pull_async(rt, NULL, NULL, never, NULL, NULL, ERR));
    REFUSED(ref, boxlite_image_push(rt, NULL, NULL, NULL, ERR));
    REFUSED(fn is, boxlite_image_push_async(rt, "x", NULL, NULL, NULL, NULL, NULL, ERR));
    REFUSED(registry, boxlite_registry_login(rt, NULL, "y", "z", NULL, ERR));
    REFUSED(user, boxlite_registry_login(rt, "x.y", NULL, "z", NULL, ERR));
    REFUSED(user, boxlite_registry_login(rt, "x.y", "a:b", "z", NULL, ERR));
    REFUSED(secret, boxlite_registry_login(rt, "x.y", "y", NULL, NULL, ERR));
    REFUSED(registry, boxlite_registry_logout(rt, NULL, NULL, ERR));
    REFUSED(registry, boxlite_registry_logout(rt, "../x", NULL, ERR));
    REFUSED(fn is, boxlite_image_pull_async(rt, "x", NULL, NULL, NULL, NULL, ERR));
    REFUSED(ret is, boxlite_image_list_new(rt, NULL, ERR));
    REFUSED(ref, boxlite_image_tag(rt, NULL, "y", ERR));
    REFUSED(name, boxlite_image_tag(rt, "x", NULL, ERR));
    REFUSED(name, boxlite_image_untag(rt, NULL, ERR));
    REFUSED(refs, boxlite_image_save(rt, NULL, 1, BOXLITE_ARCHIVE_OCI, 1, ERR));
    REFUSED(refs, boxlite_image_save(rt, refs, 1, BOXLITE_ARCHIVE_OCI, 1, ERR));
    REFUSED(bad images, boxlite_image_save(rt, refs, 0, BOXLITE_ARCHIVE_OCI, 1, ERR));
    REFUSED(bad images, boxlite_image_save(rt, refs, 1, 7, 1, ERR));
    REFUSED(bad images, boxlite_image_save(rt, refs, 1, BOXLITE_ARCHIVE_OCI, -1, ERR));
    REFUSED(ref, boxlite_image_verify(rt, NULL, 0, ERR));
    REFUSED(options, boxlite_box_create(rt, NULL, &box, ERR));
    REFUSED(ret is, boxlite_box_create(rt, o, NULL, ERR));
    REFUSED(name_or_id, boxlite_box_open(rt, NULL, &box, ERR));
    REFUSED(ret is, boxlite_box_open(rt, "x", NULL, ERR));
    REFUSED(ret is, boxlite_box_list_new(rt, NULL, ERR));
    boxlite_box_options_free(o);
    boxlite_runtime_free(rt);
}

TEST(no_options)
{
    const char *argv[] = {"a", NULL};
    boxlite_box_options *o = NULL;
    boxlite_exec_options *e = NULL;
    boxlite_image_config *c = NULL;
    REFUSED(image, boxlite_box_options_new(NULL, &o, ERR));
    REFUSED(image, boxlite_box_options_new("", &o, ERR));
    REFUSED(ret is, boxlite_box_options_new("x", NULL, ERR));
    ASSERT_NULL(o);
    REFUSED(o is, boxlite_box_options_set_name(NULL, "x", ERR));
    REFUSED(o is, boxlite_box_options_set_hostname(NULL, "x", ERR));
    REFUSED(o is, boxlite_box_options_set_cpus(NULL, 1, ERR));
    REFUSED(o is, boxlite_box_options_set_memory(NULL, 1, ERR));
    REFUSED(o is, boxlite_box_options_set_disk(NULL, 1, ERR));
    REFUSED(o is, boxlite_box_options_set_network(NULL, 0, ERR));
    REFUSED(o is, boxlite_box_options_set_engine(NULL, "auto", ERR));
    REFUSED(o is, boxlite_box_options_set_kernel(NULL, "x", ERR));
    REFUSED(o is, boxlite_box_options_add_env(NULL, "x", "y", ERR));
    REFUSED(o is, boxlite_box_options_add_label(NULL, "x", "y", ERR));
    REFUSED(o is, boxlite_box_options_set_workdir(NULL, "/", ERR));
    REFUSED(o is, boxlite_box_options_set_user(NULL, "x", ERR));
    REFUSED(o is, boxlite_box_options_set_entrypoint(NULL, argv, 1, ERR));
    REFUSED(o is, boxlite_box_options_set_command(NULL, argv, 1, ERR));
    REFUSED(o is, boxlite_box_options_set_main(NULL, 1, ERR));
    REFUSED(o is, boxlite_box_options_set_tty(NULL, 1, 1, ERR));
    REFUSED(o is, boxlite_box_options_set_stdin(NULL, 1, ERR));
    REFUSED(o is, boxlite_box_options_set_timeout(NULL, 1, ERR));
    REFUSED(o is, boxlite_box_options_set_auto_remove(NULL, 1, ERR));
    REFUSED(o is, boxlite_box_options_set_detached(NULL, 1, ERR));
    REFUSED(o is, boxlite_box_options_add_volume(NULL, "/a", "/b", 0, ERR));
    REFUSED(o is, boxlite_box_options_add_workspace(NULL, "/a", NULL, ERR));
    REFUSED(argv, boxlite_exec_options_new(NULL, 1, &e, ERR));
    REFUSED(argv, boxlite_exec_options_new(argv, 0, &e, ERR));
    REFUSED(argv, boxlite_exec_options_new(argv, 2, &e, ERR)); /* the second is NULL */
    REFUSED(ret is, boxlite_exec_options_new(argv, 1, NULL, ERR));
    ASSERT_NULL(e);
    REFUSED(o is, boxlite_exec_options_add_env(NULL, "x", "y", ERR));
    REFUSED(o is, boxlite_exec_options_set_workdir(NULL, "/", ERR));
    REFUSED(o is, boxlite_exec_options_set_user(NULL, "x", ERR));
    REFUSED(o is, boxlite_exec_options_set_tty(NULL, 1, 1, ERR));
    REFUSED(o is, boxlite_exec_options_set_stdin(NULL, 1, ERR));
    REFUSED(o is, boxlite_exec_options_set_timeout(NULL, 1, ERR));
    REFUSED(o is, boxlite_exec_options_add_rlimit(NULL, 0, 1, 1, ERR));
    REFUSED(o is, boxlite_exec_options_add_file(NULL, "a", "b", 1, ERR));
    REFUSED(o is, boxlite_exec_options_set_detached(NULL, 1, ERR));
    REFUSED(ret is, boxlite_transfer_options_new(NULL, ERR));
    REFUSED(o is, boxlite_transfer_options_set_platform(NULL, "linux/amd64", ERR));
    REFUSED(o is, boxlite_transfer_options_set_credentials(NULL, "x", "y", ERR));
    REFUSED(o is, boxlite_transfer_options_set_auth_file(NULL, "x", ERR));
    REFUSED(o is, boxlite_transfer_options_set_ca_file(NULL, "x", ERR));
    REFUSED(o is, boxlite_transfer_options_set_plain_http(NULL, 1, ERR));
    REFUSED(o is, boxlite_transfer_options_set_progress(NULL, NULL, NULL, ERR));
    REFUSED(ret is, boxlite_image_config_new(NULL, ERR));
    REFUSED(config, boxlite_image_config_set_entrypoint(c, argv, 1, ERR));
    REFUSED(config, boxlite_image_config_set_command(c, argv, 1, ERR));
    REFUSED(config, boxlite_image_config_add_env(c, "x", "y", ERR));
    REFUSED(config, boxlite_image_config_set_workdir(c, "/", ERR));
    REFUSED(config, boxlite_image_config_set_user(c, "x", ERR));
    REFUSED(config, boxlite_image_config_add_label(c, "x", "y", ERR));
}

TEST(no_box)
{
    boxlite_exec_options *o;
    boxlite_exec *exec = NULL;
    const char *argv[] = {"a"}, *text = NULL;
    ASSERT_OK(boxlite_exec_options_new(argv, 1, &o, ERR));
    REFUSED(box is, boxlite_box_state(NULL, ERR));
    REFUSED(box is, boxlite_box_json(NULL, &text, ERR));
    REFUSED(box is, boxlite_box_vmm_json(NULL, &text, ERR));
    REFUSED(box is, boxlite_box_set_detached(NULL, 1, ERR));
    REFUSED(box is, boxlite_box_keep(NULL, 1, ERR));
    REFUSED(box is, boxlite_box_start(NULL, ERR));
    REFUSED(box is, boxlite_box_start_async(NULL, NULL, NULL, ERR));
    REFUSED(box is, boxlite_box_stop(NULL, 0, ERR));
    REFUSED(box is, boxlite_box_stop_async(NULL, 0, NULL, NULL, ERR));
    REFUSED(box is, boxlite_box_pause(NULL, ERR));
    REFUSED(box is, boxlite_box_resume(NULL, ERR));
    REFUSED(box is, boxlite_box_remove(NULL, 1, ERR));
    REFUSED(box is, boxlite_box_wait(NULL, 0, ERR));
    REFUSED(box is, boxlite_box_exec(NULL, o, &exec, ERR));
    REFUSED(box is, boxlite_box_main(NULL, &exec, ERR));
    REFUSED(box is, boxlite_box_attach(NULL, 1, &exec, ERR));
    REFUSED(box is, boxlite_box_output(NULL, 1, &exec, ERR));
    REFUSED(box is, boxlite_box_copy_in(NULL, "x", "/y", ERR));
    REFUSED(box is, boxlite_box_copy_in_owner(NULL, "x", "/y", "", ERR));
    REFUSED(box is, boxlite_box_copy_out(NULL, "/x", "y", ERR));
    REFUSED(box is, boxlite_box_copy_in_tar(NULL, 0, "/y", ERR));
    REFUSED(box is, boxlite_box_copy_out_tar(NULL, "/x", 1, ERR));
    REFUSED(box is, boxlite_box_exec_tar_in(NULL, "/x", NULL, ERR));
    REFUSED(box is, boxlite_box_exec_tar_out(NULL, "/x", NULL, ERR));
    REFUSED(box is, boxlite_box_changes_tar(NULL, 1, ERR));
    ASSERT(!exec && !text);
    boxlite_exec_options_free(o);
}

TEST(no_changes)
{
    boxlite_change_options *o = NULL;
    boxlite_changes *c = NULL;
    const char *text = NULL;
    size_t n;

    REFUSED(ret is, boxlite_change_options_new(NULL, ERR));
    REFUSED(o is, boxlite_change_options_set_workspace(NULL, "x", ERR));
    REFUSED(o is, boxlite_change_options_add_path(NULL, "x", ERR));
    REFUSED(o is, boxlite_change_options_add_exclude(NULL, "x", ERR));
    REFUSED(o is, boxlite_change_options_set_hide_git_ignored(NULL, 1, ERR));
    REFUSED(o is, boxlite_change_options_add_allow(NULL, "x", ERR));
    REFUSED(o is, boxlite_change_options_set_dry_run(NULL, 1, ERR));
    REFUSED(o is, boxlite_change_options_set_merge(NULL, 1, ERR));
    ASSERT_OK(boxlite_change_options_new(&o, ERR));
    REFUSED(path is, boxlite_change_options_set_workspace(o, NULL, ERR));
    REFUSED(path is, boxlite_change_options_add_path(o, NULL, ERR));
    REFUSED(empty, boxlite_change_options_add_path(o, "", ERR));
    REFUSED(empty, boxlite_change_options_add_allow(o, "", ERR));
    boxlite_change_options_free(o);
    boxlite_change_options_free(NULL);
    REFUSED(box is, boxlite_box_diff(NULL, NULL, &c, ERR));
    REFUSED(box is, boxlite_box_apply(NULL, NULL, &c, ERR));
    REFUSED(box is, boxlite_box_discard(NULL, NULL, ERR));
    REFUSED(rt is, boxlite_workspace_undo(NULL, ".", 0, &c, ERR));
    REFUSED(c is, boxlite_changes_lines(NULL, 0, &n, &n, ERR));
    REFUSED(c is, boxlite_changes_json(NULL, &text, ERR));
    REFUSED(c is, boxlite_changes_text(NULL, 1, &text, ERR));
    ASSERT(!c && !text);
    ASSERT_EQ(boxlite_changes_status(NULL) + boxlite_changes_kind(NULL, 0), 0);
    ASSERT_EQ(boxlite_changes_count(NULL) + boxlite_changes_conflict_count(NULL), 0);
    ASSERT_EQ(boxlite_changes_ignored(NULL) + boxlite_changes_git_ignored(NULL), 0);
    ASSERT_EQ(boxlite_changes_outside(NULL), 0);
    ASSERT_EQ(boxlite_changes_size(NULL, 0) + boxlite_changes_old_size(NULL, 0), 0);
    ASSERT_EQ(boxlite_changes_mode(NULL, 0) + boxlite_changes_old_mode(NULL, 0), 0);
    ASSERT_NULL(boxlite_changes_workspace(NULL));
    ASSERT_NULL(boxlite_changes_path(NULL, 0));
    ASSERT_NULL(boxlite_changes_from(NULL, 0));
    ASSERT_NULL(boxlite_changes_held(NULL, 0));
    ASSERT_NULL(boxlite_changes_allow(NULL, 0));
    ASSERT_NULL(boxlite_changes_conflict(NULL, 0));
    ASSERT_NULL(boxlite_changes_conflict_line(NULL, 0));
    boxlite_changes_free(NULL);
}

TEST(no_command)
{
    boxlite_exec_result result = {.struct_size = sizeof(result)};
    char b[1];
    REFUSED(exec is, boxlite_exec_poll(NULL, BOXLITE_EXEC_EXITED, 0, ERR));
    REFUSED(exec is, boxlite_exec_read(NULL, BOXLITE_STDOUT, b, 1, ERR));
    REFUSED(exec is, boxlite_exec_write(NULL, b, 1, ERR));
    REFUSED(exec is, boxlite_exec_close_stdin(NULL, ERR));
    REFUSED(exec is, boxlite_exec_signal(NULL, 9, ERR));
    REFUSED(exec is, boxlite_exec_resize(NULL, 1, 1, ERR));
    REFUSED(exec is, boxlite_exec_wait(NULL, 0, &result, ERR));
}

TEST(option_structs_of_other_versions)
{
    struct {
        boxlite_runtime_options o;
        uint64_t newer;
    } v = {0};
    char home[600];
    boxlite_runtime *rt = NULL;
    (void)snprintf(home, sizeof(home), "%s/home", tmpdir());
    boxlite_runtime_options_init(&v.o);
    ASSERT_EQ(v.o.struct_size, sizeof(v.o));
    v.o.home = home;
    v.o.struct_size = sizeof(v); /* a newer caller that sets nothing new */
    ASSERT_OK(boxlite_runtime_new(&v.o, &rt, ERR));
    boxlite_runtime_free(rt);
    rt = NULL;
    v.newer = 1; /* and one that does */
    ASSERT_FAILS(BOXLITE_E_UNSUPPORTED, boxlite_runtime_new(&v.o, &rt, ERR));
    v.o.struct_size = 0; /* never initialised */
    REFUSED(struct_size, boxlite_runtime_new(&v.o, &rt, ERR));
    v.o.struct_size = offsetof(boxlite_runtime_options, libexec); /* an older caller */
    v.o.log_level = 77;
    ASSERT_OK(boxlite_runtime_new(&v.o, &rt, ERR));
    ASSERT_STREQ(boxlite_runtime_home(rt), home);
    boxlite_runtime_free(rt);
    v.o.struct_size = sizeof(v.o);
    rt = NULL;
    REFUSED(log_level, boxlite_runtime_new(&v.o, &rt, ERR));
    ASSERT_NULL(rt);
}

TEST(images_and_kernels_that_are_not_there)
{
    boxlite_runtime *rt = open_runtime();
    boxlite_image *image = NULL;
    boxlite_image_list *images = NULL;
    boxlite_kernel_list *kernels = NULL;
    ASSERT_FAILS(BOXLITE_E_NOT_FOUND, boxlite_image_open(rt, "none:1", &image, ERR));
    ASSERT(*err_hint());
    ASSERT_FAILS(BOXLITE_E_NOT_FOUND, boxlite_image_remove(rt, "none:1", 0, ERR));
    ASSERT_FAILS(BOXLITE_E_NOT_FOUND, boxlite_kernel_remove(rt, "none", 0, ERR));
    ASSERT_FAILS(BOXLITE_E_INVALID, boxlite_image_open(rt, "No:::", &image, ERR));
    ASSERT_NULL(image);
    ASSERT_OK(boxlite_image_list_new(rt, &images, ERR));
    ASSERT_EQ(boxlite_image_list_count(images), 0);
    boxlite_image_list_free(images);
    ASSERT_OK(boxlite_kernel_list_new(rt, &kernels, ERR));
    ASSERT_EQ(boxlite_kernel_list_count(kernels), 0);
    boxlite_kernel_list_free(kernels);
    boxlite_runtime_free(rt);
}

TEST(a_home_that_cannot_be_one)
{
    boxlite_runtime_options o;
    boxlite_runtime *rt = NULL;
    boxlite_runtime_options_init(&o);
    o.home = "/proc/version/x";
    int r = boxlite_runtime_new(&o, &rt, ERR);
    ASSERT_LT(r, 0);
    ASSERT_CONTAINS(err_message(), "/proc/version");
    ASSERT_NULL(rt);
}

TEST(the_doctor_has_an_answer_to_everything)
{
    boxlite_runtime *rt = open_runtime();
    boxlite_report *report;
    bool kernel = false;
    ASSERT_OK(boxlite_doctor(rt, &report, ERR));
    ASSERT_GT(boxlite_report_count(report), 8);
    for (size_t i = 0; i < boxlite_report_count(report); i++) {
        const char *name = boxlite_report_name(report, i);
        int status = boxlite_report_status(report, i);
        ASSERT(name && *name && boxlite_report_detail(report, i) &&
               *boxlite_report_detail(report, i));
        if (status == BOXLITE_CHECK_FAIL && !boxlite_report_advice(report, i)) {
            FAIL("%s fails without advice", name);
        }
        kernel = kernel || (strcmp(name, "kernel") == 0 && status == BOXLITE_CHECK_FAIL);
    }
    ASSERT(kernel); /* the home is new: there is none */
    ASSERT_NULL(boxlite_report_name(report, 1000));
    boxlite_report_free(report);
    boxlite_runtime_free(rt);
}
