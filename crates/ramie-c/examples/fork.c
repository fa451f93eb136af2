/* What a child of fork(2) gets: each call fails at once, because the threads of the runtime are the
 * parent's. */
#include <assert.h>
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "ramie.h"

struct parent {
    ramie_runtime *runtime;
    ramie_handle *handle;
    ramie_guest *guest;
    ramie_fiber *waits, *ended;
    ramie_channel *channel;
};

static intptr_t five(void *arg) {
    (void)arg;
    return 5;
}

static intptr_t receive(void *arg) {
    void *value;
    int error = ramie_recv(arg, &value);
    assert(error == 0);
    return (intptr_t)value;
}

static void be_child(struct parent *parent) {
    /* A wait that never ends would be no error. */
    alarm(20);
    ramie_runtime *runtime;
    ramie_guest *guest;
    ramie_channel *channel;
    void *value;
    intptr_t number;
    assert(ramie_run(NULL, five, NULL, NULL) == -ESHUTDOWN);
    assert(ramie_start(NULL, &runtime) == -ESHUTDOWN);
    assert(ramie_guest_start(NULL, &guest) == -ESHUTDOWN);
    assert(ramie_channel_new(1, &channel) == -ESHUTDOWN);
    assert(ramie_spawn(parent->handle, five, NULL, NULL) == -ESHUTDOWN);
    assert(ramie_spawn_on(parent->handle, 0, five, NULL, NULL) == -ESHUTDOWN);
    assert(ramie_join(parent->waits, &number) == -ESHUTDOWN);
    assert(ramie_join(parent->ended, &number) == -ESHUTDOWN);
    assert(ramie_send(parent->channel, NULL) == -ESHUTDOWN);
    assert(ramie_recv(parent->channel, &value) == -ESHUTDOWN);
    assert(ramie_try_send(parent->channel, NULL) == -ESHUTDOWN);
    assert(ramie_try_recv(parent->channel, &value) == -ESHUTDOWN);
    assert(ramie_blocking(five, NULL, &number) == -ESHUTDOWN);
    assert(ramie_read(0, &number, 0) == -ESHUTDOWN && ramie_write(1, "", 0) == -ESHUTDOWN);
    assert(ramie_poll(0, POLLIN, -1) == -ESHUTDOWN && ramie_accept(0) == -ESHUTDOWN);
    assert(ramie_connect("localhost", 1) == -ESHUTDOWN);
    assert(ramie_listen("localhost", 0) == -ESHUTDOWN);
    assert(ramie_guest_turn(parent->guest, 0) == -ESHUTDOWN);
    assert(ramie_guest_fd(parent->guest) == -ESHUTDOWN);
    assert(ramie_guest_end(parent->guest, -1) == -ESHUTDOWN);
    assert(ramie_begin_shutdown(parent->handle, 0) == -ESHUTDOWN);
    assert(ramie_shutdown(parent->runtime, -1) == -ESHUTDOWN);
    assert(!ramie_is_open(parent->handle));
    /* These have no errors, and do nothing. */
    ramie_yield();
    ramie_sleep_us(1000000000);
    ramie_channel_close(parent->channel);
    ramie_detach(parent->waits);
    ramie_handle_free(parent->handle);
}

int main(void) {
    struct parent parent;
    int error = ramie_start(NULL, &parent.runtime);
    assert(error == 0);
    parent.handle = ramie_runtime_handle(parent.runtime);
    error = ramie_guest_start(NULL, &parent.guest);
    assert(error == 0);
    error = ramie_channel_new(1, &parent.channel);
    assert(error == 0);
    error = ramie_spawn(parent.handle, receive, parent.channel, &parent.waits);
    assert(error == 0);
    error = ramie_spawn(parent.handle, five, NULL, &parent.ended);
    assert(error == 0);
    while (!ramie_is_finished(parent.ended)) ramie_sleep_us(100);

    pid_t child = fork();
    assert(child >= 0);
    if (child == 0) {
        be_child(&parent);
        _exit(0);
    }
    int status;
    pid_t waited = waitpid(child, &status, 0);
    assert(waited == child && WIFEXITED(status) && WEXITSTATUS(status) == 0);

    /* The parent goes on. */
    error = ramie_send(parent.channel, (void *)7);
    assert(error == 0);
    intptr_t seven, got_five;
    error = ramie_join(parent.waits, &seven) | ramie_join(parent.ended, &got_five);
    assert(error == 0 && seven == 7 && got_five == 5);
    error = ramie_guest_end(parent.guest, -1) | ramie_shutdown(parent.runtime, -1);
    assert(error == 0);
    ramie_handle_free(parent.handle);
    ramie_channel_free(parent.channel);
    printf("all calls fail in the child, and the parent goes on\n");
    return 0;
}
