/* Ramie for C: fibers on a few threads, with io_uring or epoll below.
 *
 * A fiber is a thread that the program schedules itself: it has a stack of its own, and when it
 * waits in a call of this header, its OS thread runs another fiber. A call that blocks the thread,
 * such as sleep(3), blocks all fibers of the thread; use ramie_blocking for it.
 *
 * Build:    cargo build --release --package ramie-c
 * Link:     cc -I crates/ramie-c/include main.c target/release/libramie_c.a -lpthread -ldl -lm
 *
 * Errors:   functions that return int or a ssize_t return a negative errno if they fail: -EINVAL for
 *           an argument out of range or a NULL that is not allowed, -ESHUTDOWN if the runtime takes
 *           no more fibers, -EDEADLK for a call that would wait for itself, -ENOTRECOVERABLE if Ramie
 *           itself has failed (a message is on stderr). They do not change errno.
 * Threads:  all functions may be called on any thread, and on fibers, unless stated otherwise.
 * longjmp:  must not leave the function of a fiber, nor cross a call of this header.
 * Signals:  no function may be called in a signal handler. Ramie has a handler for SIGSEGV, which
 *           reports stack overflows of fibers, and passes all other faults on to the previous handler.
 *           Writing to a pipe or socket without a reader raises SIGPIPE, as write(2) does.
 * fork:     in the child, all calls that can fail do so with -ESHUTDOWN, and the others do nothing;
 *           exec there, or fork before the first call.
 */
#ifndef RAMIE_H
#define RAMIE_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Options of a runtime. Begin with RAMIE_OPTIONS_INIT, because later versions add members. */
typedef struct ramie_options {
    size_t size;             /* sizeof(struct ramie_options) */
    uint32_t workers;        /* OS threads that run fibers; 0: one for each CPU */
    uint32_t driver;         /* RAMIE_DRIVER_AUTO, _URING or _POLL */
    size_t stack_size;       /* of a fiber, in bytes; 0: 256 KiB */
    int64_t grace_ms;        /* how long the end of a runtime waits for fibers; < 0: for ever */
    const char *thread_name; /* of workers, with a number behind it; NULL: "ramie-worker" */
    const size_t *cpus;      /* the workers are pinned to these CPUs, in turn */
    size_t cpu_count;        /* 0: they are not pinned */
    void (*on_worker_start)(size_t worker, void *arg); /* on the worker's thread; or NULL */
    void (*on_worker_stop)(size_t worker, void *arg);  /* all workers call each at the same time */
    void *hook_arg;
} ramie_options;

#define RAMIE_DRIVER_AUTO 0u
#define RAMIE_DRIVER_URING 1u
#define RAMIE_DRIVER_POLL 2u

#define RAMIE_OPTIONS_INIT \
    { sizeof(ramie_options), 0, RAMIE_DRIVER_AUTO, 0, -1, NULL, NULL, 0, NULL, NULL, NULL }

typedef struct ramie_runtime ramie_runtime; /* workers in the background */
typedef struct ramie_handle ramie_handle;   /* a way into a runtime, for any thread */
typedef struct ramie_fiber ramie_fiber;     /* a fiber that can be joined */
typedef struct ramie_channel ramie_channel; /* a queue of pointers */
typedef struct ramie_guest ramie_guest;     /* a worker that the program's own loop drives */

/* The function of a fiber; its value is for ramie_join. */
typedef intptr_t (*ramie_function)(void *arg);

/* ---- Runtimes ---- */

/* Runs f as a fiber on this thread, which is the first worker. Returns when f and all fibers that
 * were spawned meanwhile have ended, and stores the value of f, unless value is NULL. options may
 * be NULL. -EDEADLK: the caller is in a runtime already. */
int ramie_run(const ramie_options *options, ramie_function f, void *arg, intptr_t *value);

/* Starts a runtime whose workers are threads of their own. They inherit the signal mask of the
 * caller. */
int ramie_start(const ramie_options *options, ramie_runtime **runtime);

/* Ends a runtime: refuses further fibers, waits for those alive, for timeout_ms at most (< 0: for
 * ever), and frees the runtime. Fibers that are left are abandoned: they never run again, and their
 * stacks are leaked. Returns their number. -EDEADLK: the runtime waits for the caller, which is a
 * fiber of it, a function that such a fiber called by ramie_blocking, or an on_worker_stop; then the
 * runtime is not freed, see ramie_begin_shutdown. */
int ramie_shutdown(ramie_runtime *runtime, int64_t timeout_ms);

/* Makes a handle of a runtime, which may outlive it, and has to be freed. */
ramie_handle *ramie_runtime_handle(const ramie_runtime *runtime);

/* Makes a handle of the runtime that runs this fiber; NULL outside a runtime. */
ramie_handle *ramie_current_handle(void);

ramie_handle *ramie_handle_clone(const ramie_handle *handle);
void ramie_handle_free(ramie_handle *handle);

/* Begins the end of a runtime, and does not wait: a fiber may end its own runtime so. */
int ramie_begin_shutdown(const ramie_handle *handle, int64_t timeout_ms);

/* Whether the runtime takes fibers: 1 or 0. */
int ramie_is_open(const ramie_handle *handle);

/* ---- Fibers ---- */

/* Spawns a fiber. handle may be NULL on a fiber: then it is one of the same runtime. If fiber is
 * NULL, the fiber is detached. */
int ramie_spawn(const ramie_handle *handle, ramie_function f, void *arg, ramie_fiber **fiber);

/* The same on the worker of that index. */
int ramie_spawn_on(const ramie_handle *handle, size_t worker, ramie_function f, void *arg,
                   ramie_fiber **fiber);

/* Waits until a fiber has ended, stores its value unless value is NULL, and frees it.
 * -ECANCELED: its runtime has abandoned it, or could not start it. -EDEADLK: the caller is that
 * fiber; it is not freed then. */
int ramie_join(ramie_fiber *fiber, intptr_t *value);

/* Gives up the right to join a fiber, which goes on and is freed when it has ended. */
void ramie_detach(ramie_fiber *fiber);

/* Whether a fiber has ended, so that ramie_join returns at once: 1 or 0. */
int ramie_is_finished(const ramie_fiber *fiber);

/* Lets other fibers of this worker run once; one that was just spawned may begin later. */
void ramie_yield(void);

/* Waits for that many microseconds. */
void ramie_sleep_us(uint64_t microseconds);

/* Calls f on a thread for code that blocks, and waits until it has returned, so arg may point into
 * the caller's stack. Stores the value of f, unless value is NULL. */
int ramie_blocking(ramie_function f, void *arg, intptr_t *value);

/* ---- Input and output ----
 * As the calls of the same name, but only the fiber waits. Outside a runtime the thread waits. The
 * descriptor must stay open until the call has returned. */

ssize_t ramie_read(int fd, void *buffer, size_t count);
ssize_t ramie_write(int fd, const void *buffer, size_t count);

/* Connects to a TCP port of a host, which is a name or an address; returns the descriptor of the
 * connection, which is closed on exec. Only the fiber waits, also for the resolution of the name.
 * -EIO: the name has no address. */
int ramie_connect(const char *host, uint16_t port);

/* Listens on a TCP port of this host, of which "0.0.0.0" is each IPv4 address and "::" each address;
 * returns a descriptor for ramie_accept, which is closed on exec. Port 0: any port that is free, see
 * getsockname(2). */
int ramie_listen(const char *host, uint16_t port);

/* Accepts a connection; returns its descriptor, which is closed on exec. */
int ramie_accept(int fd);

/* Waits for events of poll(2), such as POLLIN, for timeout_ms at most (< 0: for ever). Returns the
 * events that hold; 0: the time is over. */
int ramie_poll(int fd, short events, int64_t timeout_ms);

/* ---- Channels ---- */

/* Makes a channel with room for that many pointers. 0: a send waits for its receiver. SIZE_MAX: a
 * send never waits. */
int ramie_channel_new(size_t capacity, ramie_channel **channel);

/* Sends a pointer, which is not followed. Waits while there is no room. -EPIPE: closed. */
int ramie_send(ramie_channel *channel, void *value);

/* Receives the oldest pointer, and stores it unless value is NULL. Waits while there is none.
 * -EPIPE: closed, and empty. */
int ramie_recv(ramie_channel *channel, void **value);

/* The same without a wait. -EAGAIN: it would have to wait. */
int ramie_try_send(ramie_channel *channel, void *value);
int ramie_try_recv(ramie_channel *channel, void **value);

/* Refuses further sends. Those that wait already go on. */
void ramie_channel_close(ramie_channel *channel);

/* Frees a channel, which nobody uses any more. */
void ramie_channel_free(ramie_channel *channel);

/* ---- Inside the loop of another program ----
 * The first worker of such a runtime runs only in ramie_guest_turn. All functions with a
 * ramie_guest are for the thread that has made it; on others they return -EPERM. A ramie_join on that
 * thread would wait for ever unless the fiber has ended, because no turn is given meanwhile. */

#define RAMIE_IDLE 0  /* all fibers wait; the next turn is due when the descriptor is readable */
#define RAMIE_BUSY 1  /* there is more to run; the descriptor is readable */
#define RAMIE_ENDED 2 /* a shutdown has begun, and all fibers have ended */

/* -EDEADLK: the caller is in a runtime. */
int ramie_guest_start(const ramie_options *options, ramie_guest **guest);

/* Returns the descriptor that is readable when a turn is due: for poll(2), epoll(7), GLib's
 * g_unix_fd_add. It must not be read or closed. */
int ramie_guest_fd(const ramie_guest *guest);

/* Runs fibers until all of them wait, or for about that many microseconds. Returns RAMIE_IDLE,
 * RAMIE_BUSY or RAMIE_ENDED. It never waits. */
int ramie_guest_turn(ramie_guest *guest, uint64_t microseconds);

/* Makes a handle, by which any thread spawns. NULL on another thread. */
ramie_handle *ramie_guest_handle(const ramie_guest *guest);

/* Ends the runtime as ramie_shutdown does. The fibers run on this thread meanwhile. */
int ramie_guest_end(ramie_guest *guest, int64_t timeout_ms);

#ifdef __cplusplus
}
#endif

#endif
