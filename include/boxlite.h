/* SPDX-License-Identifier: Apache-2.0 */
/*
 * boxlite.h: the public interface of libboxlite, and its authoritative reference.
 *
 * BoxLite starts hardware-isolated Linux VMs ("boxes") from OCI images inside the calling
 * process' own rights: no daemon, no root.
 *
 * Handles    Opaque. A function that stores a new handle in a `boxlite_x **ret` gives it to the
 *            caller, who frees it with boxlite_x_free(). Every free function accepts NULL. A
 *            getter returns a borrowed pointer, valid until its object is freed or changed.
 *            Free everything made from a runtime before the runtime.
 * Errors     A function returns 0 (or a count, where said) or a negative BOXLITE_E_* code. On
 *            failure outputs are untouched, and if `err` is not NULL a new error object is stored
 *            there, which the caller frees. `*err` must be NULL on entry. The exit status of a
 *            program in a box is data, never an error.
 * Threads    A runtime and all that was made from it belong to one thread at a time. Different
 *            runtimes are independent, also when they share one home directory. Only
 *            boxlite_runtime_wakeup() may be called from any thread.
 * Event loop The caller owns the loop: wait until boxlite_runtime_fd() is readable, then call
 *            boxlite_runtime_dispatch(rt, 0, …), which runs the callbacks that are due. The
 *            blocking functions do that themselves until their result is there. A callback may
 *            call any function but the blocking ones and the free function of its own runtime.
 * Process    The library installs no signal handler, never exits, prints, or changes the working
 *            directory or umask. Every descriptor is close-on-exec. It ignores SIGPIPE by sending
 *            with MSG_NOSIGNAL. After fork() the child must not use inherited handles.
 * Text       All strings are UTF-8 or plain bytes without NUL; program output is bytes.
 */
#ifndef BOXLITE_H
#define BOXLITE_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define BOXLITE_API __attribute__((visibility("default")))
#else
#define BOXLITE_API
#endif

#define BOXLITE_VERSION_MAJOR 0
#define BOXLITE_VERSION_MINOR 1
#define BOXLITE_VERSION_PATCH 0

typedef struct boxlite_error boxlite_error;
typedef struct boxlite_runtime boxlite_runtime;
typedef struct boxlite_image boxlite_image;
typedef struct boxlite_image_list boxlite_image_list;
typedef struct boxlite_image_config boxlite_image_config;
typedef struct boxlite_kernel_list boxlite_kernel_list;
typedef struct boxlite_report boxlite_report;
typedef struct boxlite_transfer boxlite_transfer;
typedef struct boxlite_transfer_options boxlite_transfer_options;
typedef struct boxlite_box boxlite_box;
typedef struct boxlite_box_list boxlite_box_list;
typedef struct boxlite_box_options boxlite_box_options;
typedef struct boxlite_changes boxlite_changes;
typedef struct boxlite_change_options boxlite_change_options;
typedef struct boxlite_exec boxlite_exec;
typedef struct boxlite_exec_options boxlite_exec_options;

/* ---- Version --------------------------------------------------------------------------------- */

/* The library's version as text, "0.1.0". Static storage. */
BOXLITE_API const char *boxlite_version(void);

/* ---- Errors ---------------------------------------------------------------------------------- */

#define BOXLITE_OK 0
#define BOXLITE_E_INVALID (-1)      /* an argument is wrong */
#define BOXLITE_E_NOT_FOUND (-2)    /* no such image, box, kernel, exec, file */
#define BOXLITE_E_EXISTS (-3)       /* the name is taken */
#define BOXLITE_E_BUSY (-4)         /* in use by something else */
#define BOXLITE_E_STATE (-5)        /* the box is not in a state that allows this */
#define BOXLITE_E_DENIED (-6)       /* the system refused for want of rights */
#define BOXLITE_E_AUTH (-7)         /* a registry refused the credentials */
#define BOXLITE_E_UNSUPPORTED (-8)  /* not on this host, not in this build, not yet */
#define BOXLITE_E_TIMEOUT (-9)      /* a deadline passed */
#define BOXLITE_E_CANCELLED (-10)   /* the caller cancelled it */
#define BOXLITE_E_NETWORK (-11)     /* the network failed */
#define BOXLITE_E_INTEGRITY (-12)   /* data is damaged or not what its digest says */
#define BOXLITE_E_NO_SPACE (-13)    /* disk full or over quota */
#define BOXLITE_E_NO_MEMORY (-14)   /* out of memory */
#define BOXLITE_E_IO (-15)          /* any other failure of a system call */
#define BOXLITE_E_GUEST (-16)       /* the guest failed: kernel panic, agent lost, boot failed */
#define BOXLITE_E_ENGINE (-17)      /* the VM engine is missing, failed or was killed */
#define BOXLITE_E_INTERNAL (-18)    /* a bug in BoxLite */
#define BOXLITE_E_AGAIN (-19)       /* nothing there now; wait for an event */

/* The code's name, "NOT_FOUND"; "UNKNOWN" for a number that is none. Static storage. */
BOXLITE_API const char *boxlite_error_name(int code);
BOXLITE_API int boxlite_error_code(const boxlite_error *err);
/* The errno behind it, or 0. */
BOXLITE_API int boxlite_error_errno(const boxlite_error *err);
/* One line, without a full stop, with its chain of context: "starting box x: engine: …". */
BOXLITE_API const char *boxlite_error_message(const boxlite_error *err);
/* What the user can do, or NULL. */
BOXLITE_API const char *boxlite_error_hint(const boxlite_error *err);
BOXLITE_API void boxlite_error_free(boxlite_error *err);

/* ---- Runtime --------------------------------------------------------------------------------- */

#define BOXLITE_LOG_ERROR 0
#define BOXLITE_LOG_WARN 1
#define BOXLITE_LOG_INFO 2
#define BOXLITE_LOG_DEBUG 3

typedef void (*boxlite_log_fn)(void *data, int level, const char *area, const char *message);

/* Long work tells how far it is: `what` names the step ("building root image"), `total` is 0
 * where it is not known, `done == total != 0` ends the step. Units are bytes. */
typedef void (*boxlite_progress_fn)(void *data, const char *what, uint64_t done, uint64_t total);

/* The result of an asynchronous call: 0 or a BOXLITE_E_* code with its error (borrowed). Called
 * once, from dispatch, never inside the call that started it; with CANCELLED from
 * boxlite_runtime_free() for what is still under way then. */
typedef void (*boxlite_done_fn)(void *data, int result, const boxlite_error *error);

/* Fill with boxlite_runtime_options_init() first, then set what you want. */
typedef struct boxlite_runtime_options {
    size_t struct_size;
    const char *home;   /* NULL: $BOXLITE_HOME, then ~/.boxlite */
    const char *libexec; /* folder of boxlite-shim and boxlite-agent; NULL: $BOXLITE_LIBEXEC, then
                            found beside the library or the program, then the installed place */
    boxlite_log_fn log; /* NULL: silent */
    void *log_data;
    int32_t log_level;  /* BOXLITE_LOG_* */
    int32_t reserved;
    boxlite_progress_fn progress; /* NULL: none */
    void *progress_data;
} boxlite_runtime_options;

BOXLITE_API void boxlite_runtime_options_init(boxlite_runtime_options *options);

/* Opens (and creates, mode 0700) the home directory and clears what crashed processes left there.
 * `options` may be NULL. */
BOXLITE_API int boxlite_runtime_new(const boxlite_runtime_options *options, boxlite_runtime **ret,
                                    boxlite_error **err);
/* Ends every box that this runtime started attached and that has not been stopped; a box that does
 * not end within two seconds is killed. No process of it is left when this returns. */
BOXLITE_API void boxlite_runtime_free(boxlite_runtime *rt);
BOXLITE_API const char *boxlite_runtime_home(const boxlite_runtime *rt);

/* A descriptor that is readable when boxlite_runtime_dispatch() has work. Borrowed. */
BOXLITE_API int boxlite_runtime_fd(const boxlite_runtime *rt);
/* Waits at most timeout_ms (-1: for ever, 0: not at all) for events, and handles those that are
 * there. 0, or the code of a failure of the loop itself. */
BOXLITE_API int boxlite_runtime_dispatch(boxlite_runtime *rt, int timeout_ms, boxlite_error **err);
/* Makes a dispatch that is running or comes next return at once; a blocking call that is running
 * returns BOXLITE_E_CANCELLED. Async-signal-safe; may be called from any thread. */
BOXLITE_API void boxlite_runtime_wakeup(boxlite_runtime *rt);

/* ---- Doctor ---------------------------------------------------------------------------------- */

#define BOXLITE_CHECK_OK 0
#define BOXLITE_CHECK_WARN 1
#define BOXLITE_CHECK_FAIL 2

/* Examines the host: KVM, engines, kernel, network, disk space, limits. Never fails because a
 * check does. */
BOXLITE_API int boxlite_doctor(boxlite_runtime *rt, boxlite_report **ret, boxlite_error **err);
BOXLITE_API size_t boxlite_report_count(const boxlite_report *report);
BOXLITE_API const char *boxlite_report_name(const boxlite_report *report, size_t i);
BOXLITE_API int boxlite_report_status(const boxlite_report *report, size_t i);
/* What was found, one line. */
BOXLITE_API const char *boxlite_report_detail(const boxlite_report *report, size_t i);
/* What to do about it, or NULL. */
BOXLITE_API const char *boxlite_report_advice(const boxlite_report *report, size_t i);
BOXLITE_API void boxlite_report_free(boxlite_report *report);

/* ---- Kernels --------------------------------------------------------------------------------- */

/* Imports a guest kernel from a Debian kernel package (.deb), a vmlinuz (with modules_dir, its
 * /lib/modules/VERSION folder) or a plain vmlinux. `name` NULL: "default", which boxes use unless
 * they name another. Replaces a kernel of that name. */
BOXLITE_API int boxlite_kernel_import(boxlite_runtime *rt, const char *path,
                                      const char *modules_dir, const char *name,
                                      boxlite_error **err);
/* Removes a kernel: NOT_FOUND; without `force` BUSY if boxes name it, which the message tells. */
BOXLITE_API int boxlite_kernel_remove(boxlite_runtime *rt, const char *name, int force,
                                      boxlite_error **err);
BOXLITE_API int boxlite_kernel_list_new(boxlite_runtime *rt, boxlite_kernel_list **ret,
                                        boxlite_error **err);
BOXLITE_API size_t boxlite_kernel_list_count(const boxlite_kernel_list *list);
BOXLITE_API const char *boxlite_kernel_list_name(const boxlite_kernel_list *list, size_t i);
/* The kernel's release, "6.1.0-50-cloud-amd64". */
BOXLITE_API const char *boxlite_kernel_list_release(const boxlite_kernel_list *list, size_t i);
BOXLITE_API uint64_t boxlite_kernel_list_size(const boxlite_kernel_list *list, size_t i);
BOXLITE_API void boxlite_kernel_list_free(boxlite_kernel_list *list);

/* ---- Images ---------------------------------------------------------------------------------- */

/* How commands start in boxes of an image that is imported from a bare root file system (OCI
 * image specification, "Image Configuration"). */
BOXLITE_API int boxlite_image_config_new(boxlite_image_config **ret, boxlite_error **err);
BOXLITE_API void boxlite_image_config_free(boxlite_image_config *config);
BOXLITE_API int boxlite_image_config_set_entrypoint(boxlite_image_config *config,
                                                    const char *const *argv, size_t argc,
                                                    boxlite_error **err);
BOXLITE_API int boxlite_image_config_set_command(boxlite_image_config *config,
                                                 const char *const *argv, size_t argc,
                                                 boxlite_error **err);
BOXLITE_API int boxlite_image_config_add_env(boxlite_image_config *config, const char *name,
                                             const char *value, boxlite_error **err);
BOXLITE_API int boxlite_image_config_set_workdir(boxlite_image_config *config, const char *dir,
                                                 boxlite_error **err);
BOXLITE_API int boxlite_image_config_set_user(boxlite_image_config *config, const char *user,
                                              boxlite_error **err);
BOXLITE_API int boxlite_image_config_add_label(boxlite_image_config *config, const char *name,
                                               const char *value, boxlite_error **err);

/* Makes an image from a tar of a root file system (plain, gzip or zstd). `ref` is NAME[:TAG],
 * `config` and `ret` may be NULL. A path of "-" reads descriptor 0. */
BOXLITE_API int boxlite_image_import(boxlite_runtime *rt, const char *path, const char *ref,
                                     const boxlite_image_config *config, boxlite_image **ret,
                                     boxlite_error **err);
/* Loads an OCI image layout (folder or tar) or a `docker save` archive; all images in it. `ref`
 * names an image that carries no name of its own, else NULL. `ret` may be NULL. */
BOXLITE_API int boxlite_image_load(boxlite_runtime *rt, const char *path, const char *ref,
                                   boxlite_image_list **ret, boxlite_error **err);
/* Finds a local image by NAME[:TAG], digest, or unique id prefix (12 characters or more): NOT_FOUND. */
BOXLITE_API int boxlite_image_open(boxlite_runtime *rt, const char *ref, boxlite_image **ret,
                                   boxlite_error **err);
/* Removes a name, and the image with its last name. BUSY while a box uses it, unless `force`. */
BOXLITE_API int boxlite_image_remove(boxlite_runtime *rt, const char *ref, int force,
                                     boxlite_error **err);
BOXLITE_API int boxlite_image_list_new(boxlite_runtime *rt, boxlite_image_list **ret,
                                       boxlite_error **err);
BOXLITE_API size_t boxlite_image_list_count(const boxlite_image_list *list);
/* Borrowed from the list. */
BOXLITE_API const boxlite_image *boxlite_image_list_get(const boxlite_image_list *list, size_t i);
BOXLITE_API void boxlite_image_list_free(boxlite_image_list *list);
/* The manifest's digest, "sha256:…". */
BOXLITE_API const char *boxlite_image_digest(const boxlite_image *image);
BOXLITE_API size_t boxlite_image_name_count(const boxlite_image *image);
BOXLITE_API const char *boxlite_image_name(const boxlite_image *image, size_t i);
/* "linux/amd64" */
BOXLITE_API const char *boxlite_image_platform(const boxlite_image *image);
/* Bytes on disk: blobs and built root image. */
BOXLITE_API uint64_t boxlite_image_size(const boxlite_image *image);
/* How many of them are blobs that other images here use too, when the object was made. */
BOXLITE_API uint64_t boxlite_image_shared_size(const boxlite_image *image);
/* Seconds since 1970. */
BOXLITE_API int64_t boxlite_image_created(const boxlite_image *image);
/* All that is known as a JSON object: digest, names, config, layers, sizes. */
BOXLITE_API const char *boxlite_image_json(const boxlite_image *image);
BOXLITE_API void boxlite_image_free(boxlite_image *image);

/* The steps by which an image was made, the oldest first; what an image says of itself. */
BOXLITE_API size_t boxlite_image_history_count(const boxlite_image *image);
/* Seconds since 1970, 0 where it is not said. */
BOXLITE_API int64_t boxlite_image_history_created(const boxlite_image *image, size_t i);
/* The command that made it; "" where it is not said. */
BOXLITE_API const char *boxlite_image_history_created_by(const boxlite_image *image, size_t i);
BOXLITE_API const char *boxlite_image_history_comment(const boxlite_image *image, size_t i);
/* The digest of the layer's blob, NULL for a step that changed no files; and the blob's bytes. */
BOXLITE_API const char *boxlite_image_history_layer(const boxlite_image *image, size_t i);
BOXLITE_API uint64_t boxlite_image_history_size(const boxlite_image *image, size_t i);

/* Gives an image another name, NAME[:TAG]; taken from an image that has it. */
BOXLITE_API int boxlite_image_tag(boxlite_runtime *rt, const char *ref, const char *name,
                                  boxlite_error **err);
/* Takes a name away and keeps the image, be it without a name: NOT_FOUND. */
BOXLITE_API int boxlite_image_untag(boxlite_runtime *rt, const char *name, boxlite_error **err);

/* Makes an image of what a box has changed: one more layer on the image that the box was made from.
 * A running box goes on meanwhile, and its programs may be in the middle of something; one that is
 * stopped is started quietly for it: BUSY if somebody else starts it just then. `config` says what else is to be different
 * (environment and labels join the base's), `comment` goes into the history; both and `ret` may be
 * NULL. The same changes and settings are the same digest. */
BOXLITE_API int boxlite_box_commit(boxlite_box *box, const char *ref,
                                   const boxlite_image_config *config, const char *comment,
                                   boxlite_image **ret, boxlite_error **err);

#define BOXLITE_ARCHIVE_OCI 0    /* a tar of an OCI image layout */
#define BOXLITE_ARCHIVE_DOCKER 1 /* the same with what `docker load` looks for */

/* Writes images as one archive to a descriptor (borrowed; blocking; may be a pipe). What was written
 * when it fails is no archive. */
BOXLITE_API int boxlite_image_save(boxlite_runtime *rt, const char *const *refs, size_t nrefs,
                                   int format, int fd, boxlite_error **err);
/* Digests all files of an image and builds its root image anew for a comparison: INTEGRITY, with
 * what is wrong, and what to do as the hint. With `repair`, damaged files are removed (the image must
 * then be brought in again) and a root image that differs is replaced, which is 0. */
BOXLITE_API int boxlite_image_verify(boxlite_runtime *rt, const char *ref, int repair,
                                     boxlite_error **err);
/* Removes images that no box uses: those without a name, with `all` those with one, too; only those
 * that came and were last used `min_age_sec` seconds ago or earlier; with `keep_bytes` other than 0 the
 * least recently used first, and no more than are needed to come down to so many bytes of disk. Also clears what
 * crashed processes left of images. The counts of images and bytes may be NULL. */
BOXLITE_API int boxlite_image_prune(boxlite_runtime *rt, int all, uint64_t min_age_sec,
                                    uint64_t keep_bytes, uint64_t *ret_removed,
                                    uint64_t *ret_freed, boxlite_error **err);

/* ---- Registries ------------------------------------------------------------------------------ */

/* How an image is pulled or pushed; where a function takes these, NULL means none of them is set. */
BOXLITE_API int boxlite_transfer_options_new(boxlite_transfer_options **ret, boxlite_error **err);
BOXLITE_API void boxlite_transfer_options_free(boxlite_transfer_options *o);
/* "linux/amd64" or, with a variant, "linux/amd64/v3"; default: this host's. UNSUPPORTED when it comes
 * to pulling, if boxes of this host cannot run it. */
BOXLITE_API int boxlite_transfer_options_set_platform(boxlite_transfer_options *o,
                                                      const char *platform, boxlite_error **err);
/* Instead of what credentials files say. */
BOXLITE_API int boxlite_transfer_options_set_credentials(boxlite_transfer_options *o,
                                                         const char *user, const char *secret,
                                                         boxlite_error **err);
/* The file of credentials; default: $REGISTRY_AUTH_FILE, then Docker's and Podman's in the user's
 * home. */
BOXLITE_API int boxlite_transfer_options_set_auth_file(boxlite_transfer_options *o,
                                                       const char *path, boxlite_error **err);
/* Certificates (PEM) of the authorities to trust, instead of the system's. */
BOXLITE_API int boxlite_transfer_options_set_ca_file(boxlite_transfer_options *o, const char *path,
                                                     boxlite_error **err);
/* No TLS. Registries on loopback that do not speak TLS need no option. */
BOXLITE_API int boxlite_transfer_options_set_plain_http(boxlite_transfer_options *o, int on,
                                                        boxlite_error **err);

#define BOXLITE_TRANSFER_WAITING 0 /* for another process that does the same */
#define BOXLITE_TRANSFER_RUNNING 1
#define BOXLITE_TRANSFER_RETRYING 2 /* after a failure, which `note` tells */
#define BOXLITE_TRANSFER_PRESENT 3  /* it was there already */
#define BOXLITE_TRANSFER_DONE 4

/* How far one part of a transfer is. Events of one part may be left out between two that are told,
 * the last never. All pointers are borrowed for the call. */
typedef struct boxlite_transfer_event {
    size_t struct_size;
    const char *kind;   /* "manifest", "config", "layer"; "root": building the root image */
    const char *digest; /* of the part; of the root: the image's */
    int32_t state;      /* BOXLITE_TRANSFER_* */
    int32_t reserved;
    uint64_t done, total; /* bytes; total 0: not known */
    const char *note;     /* why it waits or is tried again, one line, or NULL */
} boxlite_transfer_event;

/* Called from dispatch, as all callbacks. */
typedef void (*boxlite_transfer_fn)(void *data, const boxlite_transfer_event *event);
BOXLITE_API int boxlite_transfer_options_set_progress(boxlite_transfer_options *o,
                                                      boxlite_transfer_fn fn, void *data,
                                                      boxlite_error **err);

/* Brings an image from its registry (docker.io unless the reference names one), also if it is here
 * already: what has not changed is not fetched again. AUTH, NOT_FOUND, NETWORK, TIMEOUT; UNSUPPORTED:
 * not for this host; NO_SPACE, told before anything big is fetched; INTEGRITY: the registry sends
 * something else than it should. `ret` may be NULL. */
BOXLITE_API int boxlite_image_pull(boxlite_runtime *rt, const char *ref,
                                   const boxlite_transfer_options *options, boxlite_image **ret,
                                   boxlite_error **err);
/* The same without waiting; `options` need not outlive the call. The handle in `ret` is the caller's;
 * `ret` may be NULL. */
BOXLITE_API int boxlite_image_pull_async(boxlite_runtime *rt, const char *ref,
                                         const boxlite_transfer_options *options,
                                         boxlite_done_fn fn, void *data, boxlite_transfer **ret,
                                         boxlite_error **err);
/* Sends an image of this home to a registry, byte for byte. `to` (may be NULL) is the name it gets there;
 * NULL: `ref` is one of the image's names, and is used. What the registry has is not sent again. The
 * image gets no new name here. */
BOXLITE_API int boxlite_image_push(boxlite_runtime *rt, const char *ref, const char *to,
                                   const boxlite_transfer_options *options, boxlite_error **err);
BOXLITE_API int boxlite_image_push_async(boxlite_runtime *rt, const char *ref, const char *to,
                                         const boxlite_transfer_options *options,
                                         boxlite_done_fn fn, void *data, boxlite_transfer **ret,
                                         boxlite_error **err);
/* Keeps credentials for a registry (HOST[:PORT], or docker.io), when it has taken them: with the
 * credential helper that the file of credentials names, else in that file, mode 0600. Credentials in
 * `options` (may be NULL) are not looked at. AUTH: refused. */
BOXLITE_API int boxlite_registry_login(boxlite_runtime *rt, const char *registry, const char *user,
                                       const char *secret,
                                       const boxlite_transfer_options *options,
                                       boxlite_error **err);
/* Forgets them: NOT_FOUND. */
BOXLITE_API int boxlite_registry_logout(boxlite_runtime *rt, const char *registry,
                                        const boxlite_transfer_options *options,
                                        boxlite_error **err);
/* Ends it: its function is called with CANCELLED, unless it ends otherwise before. */
BOXLITE_API void boxlite_transfer_cancel(boxlite_transfer *transfer);
/* Frees the handle; one that is under way is cancelled. */
BOXLITE_API void boxlite_transfer_free(boxlite_transfer *transfer);
/* After a successful end, else NULL: the digest of the image's manifest, and the full reference
 * under which it was transferred. */
BOXLITE_API const char *boxlite_transfer_digest(const boxlite_transfer *transfer);
BOXLITE_API const char *boxlite_transfer_name(const boxlite_transfer *transfer);

/* ---- Box options ----------------------------------------------------------------------------- */

#define BOXLITE_NETWORK_NONE 0 /* loopback only (the default) */
#define BOXLITE_NETWORK_USER 1 /* out through the host user's network, by passt */

BOXLITE_API int boxlite_box_options_new(const char *image, boxlite_box_options **ret,
                                        boxlite_error **err);
BOXLITE_API void boxlite_box_options_free(boxlite_box_options *o);
/* [a-zA-Z0-9][a-zA-Z0-9_.-]{0,62}; made up if not set. Also the guest's hostname unless set. */
BOXLITE_API int boxlite_box_options_set_name(boxlite_box_options *o, const char *name,
                                             boxlite_error **err);
BOXLITE_API int boxlite_box_options_set_hostname(boxlite_box_options *o, const char *hostname,
                                                 boxlite_error **err);
/* 1 to the host's CPUs; default 1. */
BOXLITE_API int boxlite_box_options_set_cpus(boxlite_box_options *o, uint32_t cpus,
                                             boxlite_error **err);
/* Bytes, 128 MiB or more; default 512 MiB. */
BOXLITE_API int boxlite_box_options_set_memory(boxlite_box_options *o, uint64_t bytes,
                                               boxlite_error **err);
/* Bytes that the box may write, 64 MiB or more; default 10 GiB, allocated only as written. */
BOXLITE_API int boxlite_box_options_set_disk(boxlite_box_options *o, uint64_t bytes,
                                             boxlite_error **err);
BOXLITE_API int boxlite_box_options_set_network(boxlite_box_options *o, int network,
                                                boxlite_error **err);
/* "auto" (default), "qemu" (its best accelerator), "qemu-tcg", "qemu-kvm", "kvm" */
BOXLITE_API int boxlite_box_options_set_engine(boxlite_box_options *o, const char *engine,
                                               boxlite_error **err);
/* A kernel's name; default "default". */
BOXLITE_API int boxlite_box_options_set_kernel(boxlite_box_options *o, const char *kernel,
                                               boxlite_error **err);
BOXLITE_API int boxlite_box_options_add_env(boxlite_box_options *o, const char *name,
                                            const char *value, boxlite_error **err);
BOXLITE_API int boxlite_box_options_add_label(boxlite_box_options *o, const char *name,
                                              const char *value, boxlite_error **err);
BOXLITE_API int boxlite_box_options_set_workdir(boxlite_box_options *o, const char *dir,
                                                boxlite_error **err);
BOXLITE_API int boxlite_box_options_set_user(boxlite_box_options *o, const char *user,
                                             boxlite_error **err);
/* Replaces the image's entrypoint (and drops its command); argc 0: none. */
BOXLITE_API int boxlite_box_options_set_entrypoint(boxlite_box_options *o,
                                                   const char *const *argv, size_t argc,
                                                   boxlite_error **err);
BOXLITE_API int boxlite_box_options_set_command(boxlite_box_options *o, const char *const *argv,
                                                size_t argc, boxlite_error **err);
/* With a main command (entrypoint + command, Docker's rule) the box stops when that ends. Without
 * (the default) it idles until it is stopped, and commands come by boxlite_box_exec(). */
BOXLITE_API int boxlite_box_options_set_main(boxlite_box_options *o, int on, boxlite_error **err);
/* The main command's terminal (rows, columns; 0, 0: none) and whether it has a standard input. */
BOXLITE_API int boxlite_box_options_set_tty(boxlite_box_options *o, uint16_t rows, uint16_t cols,
                                            boxlite_error **err);
BOXLITE_API int boxlite_box_options_set_stdin(boxlite_box_options *o, int on, boxlite_error **err);
/* The box is stopped after so long (milliseconds from its start); 0: never. The main command's
 * result then says TIMED_OUT. */
BOXLITE_API int boxlite_box_options_set_timeout(boxlite_box_options *o, uint64_t ms,
                                                boxlite_error **err);
/* Remove the box as soon as it stops, for whatever reason. When its main command ends before the starter of an attached
 * box has called boxlite_box_main(), the box waits up to 10 s for that: nothing is left of the result afterwards. */
BOXLITE_API int boxlite_box_options_set_auto_remove(boxlite_box_options *o, int on,
                                                    boxlite_error **err);
/* A detached box outlives its starter; an attached one (default) ends with it, even by kill -9. */
BOXLITE_API int boxlite_box_options_set_detached(boxlite_box_options *o, int on,
                                                 boxlite_error **err);
/* Shares a folder or a single file of this host with the box, at the absolute path `guest`, writable
 * unless read_only. Changes are seen on both sides; what the box makes belongs to the calling user.
 * host: relative paths are taken from the working directory, links are followed now. NOT_FOUND: host
 * does not exist; INVALID: neither folder nor plain file, a guest path that is taken or not allowed. */
BOXLITE_API int boxlite_box_options_add_volume(boxlite_box_options *o, const char *host,
                                               const char *guest, int read_only,
                                               boxlite_error **err);
/* Gives the box a folder of this host to work in: it sees the files and may change them, but what it
 * writes stays on its own disk and the host's folder is never touched. guest NULL: at the folder's
 * own path. Errors as for a volume. */
BOXLITE_API int boxlite_box_options_add_workspace(boxlite_box_options *o, const char *host,
                                                  const char *guest, boxlite_error **err);

/* ---- Boxes ----------------------------------------------------------------------------------- */

#define BOXLITE_BOX_CREATED 0
#define BOXLITE_BOX_STARTING 1
#define BOXLITE_BOX_RUNNING 2
#define BOXLITE_BOX_PAUSED 3
#define BOXLITE_BOX_STOPPING 4
#define BOXLITE_BOX_STOPPED 5

/* Makes a box on disk; nothing runs yet. NOT_FOUND: no such image or kernel; EXISTS: the name. */
BOXLITE_API int boxlite_box_create(boxlite_runtime *rt, const boxlite_box_options *options,
                                   boxlite_box **ret, boxlite_error **err);
/* Finds a box by name, id, or unique id prefix: NOT_FOUND. */
BOXLITE_API int boxlite_box_open(boxlite_runtime *rt, const char *name_or_id, boxlite_box **ret,
                                 boxlite_error **err);
/* Frees the handle. The box itself goes on, unless this runtime started it attached: such a box
 * ends with its runtime. */
BOXLITE_API void boxlite_box_free(boxlite_box *box);
BOXLITE_API const char *boxlite_box_id(const boxlite_box *box);
BOXLITE_API const char *boxlite_box_name(const boxlite_box *box);
BOXLITE_API const char *boxlite_box_image(const boxlite_box *box);
/* The state now, BOXLITE_BOX_* (looked up afresh), or an error code: NOT_FOUND if it was removed. A
 * box whose supervisor does not answer within a second counts as running. */
BOXLITE_API int boxlite_box_state(boxlite_box *box, boxlite_error **err);
BOXLITE_API const char *boxlite_box_state_name(int state);
/* Seconds since 1970. */
BOXLITE_API int64_t boxlite_box_created(const boxlite_box *box);
/* The engine that runs it ("qemu-tcg"), or the one asked for while it is not running. */
BOXLITE_API const char *boxlite_box_engine(const boxlite_box *box);
BOXLITE_API size_t boxlite_box_label_count(const boxlite_box *box);
BOXLITE_API const char *boxlite_box_label_name(const boxlite_box *box, size_t i);
BOXLITE_API const char *boxlite_box_label_value(const boxlite_box *box, size_t i);
/* All that is known as a JSON object, with disk_used and, while it runs, memory_used: bytes that it costs
 * this host now. Made afresh, valid until the next call on this box. */
BOXLITE_API int boxlite_box_json(boxlite_box *box, const char **ret, boxlite_error **err);
/* What the engine's process of a running box says of itself, as a JSON object: exits and requests by
 * device, stages of the boot in microseconds. For people; fields come and go. Valid until the next
 * call on the box. STATE: not running; UNSUPPORTED: the engine says nothing (QEMU). */
BOXLITE_API int boxlite_box_vmm_json(boxlite_box *box, const char **ret, boxlite_error **err);

/* Whether the box will outlive its starter when it is started next: STATE if it runs. */
BOXLITE_API int boxlite_box_set_detached(boxlite_box *box, int on, boxlite_error **err);

/* While a box made with auto_remove is kept by a handle, a stop leaves it as it leaves other boxes:
 * with its disk, to be started again. `on` 0 gives that up, and one that has stopped is removed at
 * once. Freeing the handle and the end of the process, also by kill -9, give it up too: such a box
 * is then removed by whoever next looks at the home. Nothing changes for other boxes. Never blocks.
 * STATE: another handle keeps it. */
BOXLITE_API int boxlite_box_keep(boxlite_box *box, int on, boxlite_error **err);

/* Boots the VM. Blocking: returns when the guest answers (main command, if any, started). 0 if it
 * runs already, also when another process is just starting it. STATE: paused, or just stopping. */
BOXLITE_API int boxlite_box_start(boxlite_box *box, boxlite_error **err);
BOXLITE_API int boxlite_box_start_async(boxlite_box *box, boxlite_done_fn fn, void *data,
                                        boxlite_error **err);
/* Sends the main command its stop signal, waits at most timeout_ms, then ends the VM with its disk
 * synced. 0 if it is stopped already. timeout_ms 0: at once. */
BOXLITE_API int boxlite_box_stop(boxlite_box *box, uint32_t timeout_ms, boxlite_error **err);
BOXLITE_API int boxlite_box_stop_async(boxlite_box *box, uint32_t timeout_ms, boxlite_done_fn fn,
                                       void *data, boxlite_error **err);
BOXLITE_API int boxlite_box_pause(boxlite_box *box, boxlite_error **err);
BOXLITE_API int boxlite_box_resume(boxlite_box *box, boxlite_error **err);
/* Removes a box that is not running; with `force` one that is, too. With force, 0 as well if it
 * has gone meanwhile. */
BOXLITE_API int boxlite_box_remove(boxlite_box *box, int force, boxlite_error **err);
/* Waits until the box has stopped, timeout_ms at most (-1: for ever): TIMEOUT; STATE if it was
 * never started. */
BOXLITE_API int boxlite_box_wait(boxlite_box *box, int timeout_ms, boxlite_error **err);

/* All boxes of the home, oldest first. */
BOXLITE_API int boxlite_box_list_new(boxlite_runtime *rt, boxlite_box_list **ret,
                                     boxlite_error **err);
BOXLITE_API size_t boxlite_box_list_count(const boxlite_box_list *list);
/* Borrowed from the list. NULL beyond its end. */
BOXLITE_API boxlite_box *boxlite_box_list_get(const boxlite_box_list *list, size_t i);
BOXLITE_API void boxlite_box_list_free(boxlite_box_list *list);

/* ---- Commands in a box ----------------------------------------------------------------------- */

BOXLITE_API int boxlite_exec_options_new(const char *const *argv, size_t argc,
                                         boxlite_exec_options **ret, boxlite_error **err);
BOXLITE_API void boxlite_exec_options_free(boxlite_exec_options *o);
BOXLITE_API int boxlite_exec_options_add_env(boxlite_exec_options *o, const char *name,
                                             const char *value, boxlite_error **err);
BOXLITE_API int boxlite_exec_options_set_workdir(boxlite_exec_options *o, const char *dir,
                                                 boxlite_error **err);
BOXLITE_API int boxlite_exec_options_set_user(boxlite_exec_options *o, const char *user,
                                              boxlite_error **err);
/* A terminal of that size; its output comes as BOXLITE_STDOUT. */
BOXLITE_API int boxlite_exec_options_set_tty(boxlite_exec_options *o, uint16_t rows, uint16_t cols,
                                             boxlite_error **err);
/* Whether it has a standard input that this side writes; without one it reads end of file. */
BOXLITE_API int boxlite_exec_options_set_stdin(boxlite_exec_options *o, int on,
                                               boxlite_error **err);
/* Kills the command and all its descendants after so long; 0: never. */
BOXLITE_API int boxlite_exec_options_set_timeout(boxlite_exec_options *o, uint64_t ms,
                                                 boxlite_error **err);
/* resource: RLIMIT_* number of Linux; UINT64_MAX: unlimited. */
BOXLITE_API int boxlite_exec_options_add_rlimit(boxlite_exec_options *o, int resource,
                                                uint64_t soft, uint64_t hard, boxlite_error **err);
/* Brings a file along (copied): the command's user writes it before the command starts, in one
 * round trip with it. `path` may be relative to the working directory; missing folders are made, a
 * file there is replaced. If it cannot be written the command ends with NOT_STARTED. INVALID: all
 * of them are over 1 MiB together. */
BOXLITE_API int boxlite_exec_options_add_file(boxlite_exec_options *o, const char *path,
                                              const void *data, size_t size, boxlite_error **err);
/* The command goes on when its handle is freed or its starter ends; default: it is killed. */
BOXLITE_API int boxlite_exec_options_set_detached(boxlite_exec_options *o, int on,
                                                  boxlite_error **err);

#define BOXLITE_STDIN 0
#define BOXLITE_STDOUT 1
#define BOXLITE_STDERR 2

/* Event bits. */
#define BOXLITE_EXEC_STDOUT 1u   /* stdout has bytes or has ended */
#define BOXLITE_EXEC_STDERR 2u   /* stderr has bytes or has ended */
#define BOXLITE_EXEC_STDIN 4u    /* stdin takes bytes again, or never will: write says which */
#define BOXLITE_EXEC_STARTED 8u  /* it runs */
#define BOXLITE_EXEC_EXITED 16u  /* the result is there (after all its output was sent) */

typedef void (*boxlite_exec_fn)(void *data, boxlite_exec *exec, uint32_t events);

#define BOXLITE_EXIT_TIMED_OUT 1u    /* killed by its time-out */
#define BOXLITE_EXIT_OOM_KILLED 2u   /* the guest ran out of memory and this command was killed */
#define BOXLITE_EXIT_NOT_STARTED 4u  /* never ran: see boxlite_exec_failure() */
#define BOXLITE_EXIT_BOX_LOST 8u     /* the box ended first */

typedef struct boxlite_exec_result {
    size_t struct_size; /* set by the caller */
    int32_t exit_code;  /* 0–255; 128 + signal; 124 timed out; 126, 127 not started; 137 box lost */
    int32_t signal;     /* that ended it, or 0 */
    uint32_t flags;     /* BOXLITE_EXIT_* */
    uint32_t reserved;
    uint64_t wall_us;   /* from start to end, by the guest's clock */
    uint64_t user_us;   /* CPU time of it and its waited-for children */
    uint64_t system_us;
    uint64_t max_rss;   /* bytes */
} boxlite_exec_result;

/* Starts a command in a running box. Returns at once; a command that cannot be started ends with
 * NOT_STARTED and exit code 126 or 127. */
BOXLITE_API int boxlite_box_exec(boxlite_box *box, const boxlite_exec_options *options,
                                 boxlite_exec **ret, boxlite_error **err);
/* The main command of a box that has one, from the beginning of its kept output; works after the
 * box stopped too: NOT_FOUND if it has none. The first handle writes its standard input, if it has
 * one; further ones only read. */
BOXLITE_API int boxlite_box_main(boxlite_box *box, boxlite_exec **ret, boxlite_error **err);
/* Any command of the box by its number, from the beginning of its kept output; without its input.
 * What does not exist is told by boxlite_exec_wait(). */
BOXLITE_API int boxlite_box_attach(boxlite_box *box, uint32_t number, boxlite_exec **ret,
                                   boxlite_error **err);
/* What a command (number 0: the main one) has written so far and is still kept, then the end of
 * both streams, though it may go on: for showing logs. It takes no input, and has a result only
 * if the box has stopped: boxlite_exec_wait() is STATE otherwise. */
BOXLITE_API int boxlite_box_output(boxlite_box *box, uint32_t number, boxlite_exec **ret,
                                   boxlite_error **err);
/* Its number in the box, for boxlite_box_attach(); 0 until STARTED. */
BOXLITE_API uint32_t boxlite_exec_number(const boxlite_exec *exec);
/* Called from dispatch with the events that are due when something new has come, and again while
 * the callback reads or writes and more is due. It may free `exec`. fn NULL: none. */
BOXLITE_API void boxlite_exec_set_callback(boxlite_exec *exec, boxlite_exec_fn fn, void *data);
/* Events that are due now (STARTED and EXITED stay due). */
BOXLITE_API uint32_t boxlite_exec_events(const boxlite_exec *exec);
/* Waits until one of `events` is due, timeout_ms at most (-1: for ever): TIMEOUT, CANCELLED.
 * Returns the due events, more than 0. */
BOXLITE_API int boxlite_exec_poll(boxlite_exec *exec, uint32_t events, int timeout_ms,
                                  boxlite_error **err);
/* Takes what is there, up to `size` bytes: their number, 0 at the end of the stream, AGAIN if
 * nothing is there yet. Never blocks. Reading makes room for more: a reader that stops stops the
 * writer, nothing is lost. */
BOXLITE_API ssize_t boxlite_exec_read(boxlite_exec *exec, int stream, void *data, size_t size,
                                      boxlite_error **err);
/* Bytes of that stream that were dropped before this reader came, because the kept output is
 * bounded. */
BOXLITE_API uint64_t boxlite_exec_dropped(const boxlite_exec *exec, int stream);
/* Gives bytes to its standard input: the number taken, AGAIN if none can be now. */
BOXLITE_API ssize_t boxlite_exec_write(boxlite_exec *exec, const void *data, size_t size,
                                       boxlite_error **err);
/* End of its standard input, after what was written. */
BOXLITE_API int boxlite_exec_close_stdin(boxlite_exec *exec, boxlite_error **err);
/* A signal to the command, Linux numbers. SIGKILL ends all its descendants too. */
BOXLITE_API int boxlite_exec_signal(boxlite_exec *exec, int signo, boxlite_error **err);
BOXLITE_API int boxlite_exec_resize(boxlite_exec *exec, uint16_t rows, uint16_t cols,
                                    boxlite_error **err);
/* Waits for its end, -1 for ever: TIMEOUT. Output need not be read first, but if the kept output
 * fills up while this reader is attached, the command waits for it. `ret` may be NULL. */
BOXLITE_API int boxlite_exec_wait(boxlite_exec *exec, int timeout_ms, boxlite_exec_result *ret,
                                  boxlite_error **err);
/* Why it was not started, one line, or NULL. */
BOXLITE_API const char *boxlite_exec_failure(const boxlite_exec *exec);
/* Frees the handle, and kills the command unless it has ended, is detached or the main command. */
BOXLITE_API void boxlite_exec_free(boxlite_exec *exec);

/* ---- Files ----------------------------------------------------------------------------------- */

/* Copies between host and a box; folders with all in them; owners become the calling user on the host
 * and the box's user in the box, modes, times and symlinks are kept. A box that is not running is started
 * for it without its main command, and stopped after: BUSY if another process does so just now. Like `docker cp`: into an
 * existing folder, else to that name; a source that ends with "/." gives its contents only. What
 * comes out of a box never leaves the target folder, follows no link in it, and brings no devices
 * and no set-user-ID bits; INTEGRITY when a box tries. */
BOXLITE_API int boxlite_box_copy_in(boxlite_box *box, const char *host_path,
                                    const char *guest_path, boxlite_error **err);
/* The same with another owner in the box: a user as for a command ("name", "1000:1000"), or "": the numbers
 * that the files have on the host. */
BOXLITE_API int boxlite_box_copy_in_owner(boxlite_box *box, const char *host_path,
                                          const char *guest_path, const char *owner,
                                          boxlite_error **err);
BOXLITE_API int boxlite_box_copy_out(boxlite_box *box, const char *guest_path,
                                     const char *host_path, boxlite_error **err);
/* The same as a tar stream on a descriptor (borrowed; blocking). */
BOXLITE_API int boxlite_box_copy_in_tar(boxlite_box *box, int fd, const char *guest_dir,
                                        boxlite_error **err);
BOXLITE_API int boxlite_box_copy_out_tar(boxlite_box *box, const char *guest_path, int fd,
                                         boxlite_error **err);
/* The same as commands of the caller's loop: `in` takes the tar stream on its standard input, `out`
 * gives one as its standard output; what went wrong is on standard error, and the exit code is not 0
 * then. What comes out of a box is not to be trusted: names, links and sizes are the guest's. */
BOXLITE_API int boxlite_box_exec_tar_in(boxlite_box *box, const char *guest_dir,
                                        boxlite_exec **ret, boxlite_error **err);
BOXLITE_API int boxlite_box_exec_tar_out(boxlite_box *box, const char *guest_path,
                                         boxlite_exec **ret, boxlite_error **err);
/* All that differs from the box' image as a layer of one (OCI image specification: whiteouts, opaque
 * folders), a tar stream on a descriptor (borrowed; blocking). The same changes give the same bytes.
 * What BoxLite itself puts into a box (/etc/hosts, /etc/hostname, /etc/resolv.conf, /dev, /proc, /sys)
 * is left out. A running box goes on meanwhile; a box that is not running is started for it without its
 * main command, and stopped after: BUSY if another process does so just now. */
BOXLITE_API int boxlite_box_changes_tar(boxlite_box *box, int fd, boxlite_error **err);

/* ---- Workspaces ------------------------------------------------------------------------------ */

/* A workspace (boxlite_box_options_add_workspace()) is a folder of this host that a box sees and changes
 * on its own disk only. What it saw is written down before its first start; the changes are what differs
 * from that. docs/workspaces.md has the whole.
 *
 * A box that is not running is started for diff and apply as for boxlite_box_changes_tar(). */

/* Which changes, and how. NULL stands for default options wherever they are taken. */
BOXLITE_API int boxlite_change_options_new(boxlite_change_options **ret, boxlite_error **err);
BOXLITE_API void boxlite_change_options_free(boxlite_change_options *o);
/* Which of several workspaces: its path here or in the box. */
BOXLITE_API int boxlite_change_options_set_workspace(boxlite_change_options *o, const char *path,
                                                     boxlite_error **err);
/* Only what is at or below one of these paths: relative to the workspace, or absolute here or in the box. */
BOXLITE_API int boxlite_change_options_add_path(boxlite_change_options *o, const char *path,
                                                boxlite_error **err);
/* A pattern as in a .gitignore file of what to leave out; it follows those of the host's .boxliteignore. */
BOXLITE_API int boxlite_change_options_add_exclude(boxlite_change_options *o, const char *pattern,
                                                   boxlite_error **err);
/* Leaves out what git ignores (the host's .gitignore files). Nothing is without git. */
BOXLITE_API int boxlite_change_options_set_hide_git_ignored(boxlite_change_options *o, int on,
                                                            boxlite_error **err);
/* Lets changes through that the gate holds back: the name of a rule, a changed path, or "all". A path that
 * was added and is itself a change is let through, too. INVALID from the call that uses it: neither. */
BOXLITE_API int boxlite_change_options_add_allow(boxlite_change_options *o, const char *what,
                                                 boxlite_error **err);
/* For apply: do all but writing; and: files that both sides changed are merged as text (by git) where the
 * changes do not meet. */
BOXLITE_API int boxlite_change_options_set_dry_run(boxlite_change_options *o, int on,
                                                   boxlite_error **err);
BOXLITE_API int boxlite_change_options_set_merge(boxlite_change_options *o, int on,
                                                 boxlite_error **err);

/* How a call ended that worked. */
#define BOXLITE_CHANGES_LISTED 0   /* nothing was written: a diff, a dry run */
#define BOXLITE_CHANGES_APPLIED 1  /* all of them were applied */
#define BOXLITE_CHANGES_HELD 2     /* some are held back by the gate; the others, if any, were applied */
#define BOXLITE_CHANGES_CONFLICT 3 /* nothing was written: this host changed some of the files too */
#define BOXLITE_CHANGES_NONE 4     /* there was nothing to apply */

/* Kinds of changes. */
#define BOXLITE_CHANGE_ADDED 1
#define BOXLITE_CHANGE_MODIFIED 2
#define BOXLITE_CHANGE_DELETED 3
#define BOXLITE_CHANGE_RENAMED 4 /* without any other change */
#define BOXLITE_CHANGE_MODE 5    /* of its mode only */
#define BOXLITE_CHANGE_TYPE 6    /* a file became a link, say */

/* What the box has changed. */
BOXLITE_API int boxlite_box_diff(boxlite_box *box, const boxlite_change_options *options,
                                 boxlite_changes **ret, boxlite_error **err);
/* Brings the changes to this host's folder: all that are neither held back nor left out, or nothing at all,
 * also after a crash at any moment. What was replaced is kept for boxlite_workspace_undo(). */
BOXLITE_API int boxlite_box_apply(boxlite_box *box, const boxlite_change_options *options,
                                  boxlite_changes **ret, boxlite_error **err);
/* Makes the box forget changes: those of the options' paths, or all. It sees this host's files then. STATE:
 * the box is running. */
BOXLITE_API int boxlite_box_discard(boxlite_box *box, const boxlite_change_options *options,
                                    boxlite_error **err);
/* Takes the last apply to the folder `dir` back, which need not come from a box that still exists. CONFLICT
 * status: files were changed since. NOT_FOUND: there is none, or its files were too large to be kept (1 GiB;
 * the last 20 applies are). */
BOXLITE_API int boxlite_workspace_undo(boxlite_runtime *rt, const char *dir, int dry_run,
                                       boxlite_changes **ret, boxlite_error **err);

BOXLITE_API int boxlite_changes_status(const boxlite_changes *c); /* BOXLITE_CHANGES_* */
/* The workspace's path here. */
BOXLITE_API const char *boxlite_changes_workspace(const boxlite_changes *c);
BOXLITE_API size_t boxlite_changes_count(const boxlite_changes *c);
/* Below the workspace; any bytes but NUL. */
BOXLITE_API const char *boxlite_changes_path(const boxlite_changes *c, size_t i);
BOXLITE_API int boxlite_changes_kind(const boxlite_changes *c, size_t i); /* BOXLITE_CHANGE_* */
/* What it was called before, if RENAMED, else NULL. */
BOXLITE_API const char *boxlite_changes_from(const boxlite_changes *c, size_t i);
/* Bytes before and after; 0 for what is no file. */
BOXLITE_API uint64_t boxlite_changes_old_size(const boxlite_changes *c, size_t i);
BOXLITE_API uint64_t boxlite_changes_size(const boxlite_changes *c, size_t i);
/* Permission bits before and after; 0: it was, or is, not there. */
BOXLITE_API uint32_t boxlite_changes_old_mode(const boxlite_changes *c, size_t i);
BOXLITE_API uint32_t boxlite_changes_mode(const boxlite_changes *c, size_t i);
/* The rule that holds it back and why, one line, or NULL. */
BOXLITE_API const char *boxlite_changes_held(const boxlite_changes *c, size_t i);
/* What boxlite_change_options_add_allow() takes to let it through; NULL or "": nothing does. */
BOXLITE_API const char *boxlite_changes_allow(const boxlite_changes *c, size_t i);
/* Why it cannot be applied as it is: "it was changed here meanwhile", or NULL. */
BOXLITE_API const char *boxlite_changes_conflict(const boxlite_changes *c, size_t i);
/* After CONFLICT: lines "PATH: why". */
BOXLITE_API size_t boxlite_changes_conflict_count(const boxlite_changes *c);
BOXLITE_API const char *boxlite_changes_conflict_line(const boxlite_changes *c, size_t i);
/* Changes that are not in the list: left out by patterns, by git's, because of the paths that were given. */
BOXLITE_API size_t boxlite_changes_ignored(const boxlite_changes *c);
BOXLITE_API size_t boxlite_changes_git_ignored(const boxlite_changes *c);
BOXLITE_API size_t boxlite_changes_outside(const boxlite_changes *c);
/* Lines added and removed; 0 and 0 for what is binary or no file. */
BOXLITE_API int boxlite_changes_lines(boxlite_changes *c, size_t i, size_t *ret_added,
                                      size_t *ret_removed, boxlite_error **err);
/* All of it as a JSON object; valid until the next call of this function. */
BOXLITE_API int boxlite_changes_json(boxlite_changes *c, const char **ret, boxlite_error **err);
/* A unified diff as git writes it, of max_bytes at most: cut behind a whole file, with a line that says so.
 * Valid until the next call of this function. */
BOXLITE_API int boxlite_changes_text(boxlite_changes *c, size_t max_bytes, const char **ret,
                                     boxlite_error **err);
BOXLITE_API void boxlite_changes_free(boxlite_changes *c);

#ifdef __cplusplus
}
#endif
#endif
