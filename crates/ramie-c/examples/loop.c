/* A program with a loop of its own, by epoll as GLib's and GUIs' loops, drives a worker: it runs
 * fibers between its own events, in turns of a millisecond. */
#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "ramie.h"

enum { CLICKS = 100 };

struct app {
    int clicks;           /* an eventfd, which stands for the events of a user */
    ramie_channel *queue; /* from the loop to a fiber */
    long handled;
};

static intptr_t handle_clicks(void *arg) {
    struct app *app = arg;
    void *click;
    while (ramie_recv(app->queue, &click) == 0) {
        app->handled += (intptr_t)click;
        ramie_sleep_us(100);
    }
    return app->handled;
}

static void *click(void *arg) {
    struct app *app = arg;
    for (int n = 0; n < CLICKS; n++) {
        uint64_t one = 1;
        ssize_t written = write(app->clicks, &one, sizeof one);
        assert(written == sizeof one);
    }
    return NULL;
}

static void watch(int set, int fd) {
    struct epoll_event event = {.events = EPOLLIN, .data.fd = fd};
    int error = epoll_ctl(set, EPOLL_CTL_ADD, fd, &event);
    assert(error == 0);
}

static void run(uint32_t driver) {
    ramie_options options = RAMIE_OPTIONS_INIT;
    options.workers = 1;
    options.driver = driver;
    ramie_guest *guest;
    int error = ramie_guest_start(&options, &guest);
    assert(error == 0);
    ramie_handle *handle = ramie_guest_handle(guest);
    struct app app = {eventfd(0, EFD_CLOEXEC), NULL, 0};
    error = ramie_channel_new(SIZE_MAX, &app.queue);
    assert(error == 0);
    ramie_fiber *fiber;
    error = ramie_spawn(handle, handle_clicks, &app, &fiber);
    assert(error == 0);
    pthread_t user;
    pthread_create(&user, NULL, click, &app);

    int set = epoll_create1(EPOLL_CLOEXEC);
    watch(set, ramie_guest_fd(guest));
    watch(set, app.clicks);
    uint64_t sum = 0;
    while (!ramie_is_finished(fiber)) {
        struct epoll_event event;
        int count = epoll_wait(set, &event, 1, -1);
        if (count < 0 && errno == EINTR) continue;
        assert(count == 1);
        if (event.data.fd == ramie_guest_fd(guest)) {
            int turned = ramie_guest_turn(guest, 1000);
            assert(turned >= 0);
            continue;
        }
        uint64_t clicks;
        ssize_t got = read(app.clicks, &clicks, sizeof clicks);
        assert(got == sizeof clicks);
        error = ramie_send(app.queue, (void *)(intptr_t)clicks);
        assert(error == 0);
        sum += clicks;
        if (sum == CLICKS) ramie_channel_close(app.queue);
    }
    intptr_t handled;
    error = ramie_join(fiber, &handled);
    assert(error == 0 && handled == CLICKS);
    pthread_join(user, NULL);
    error = ramie_guest_end(guest, -1);
    assert(error == 0 && !ramie_is_open(handle));
    ramie_handle_free(handle);
    ramie_channel_free(app.queue);
    close(set);
    close(app.clicks);
}

int main(void) {
    run(RAMIE_DRIVER_AUTO);
    run(RAMIE_DRIVER_POLL);
    printf("%d clicks were handled by a fiber in the loop\n", CLICKS);
    return 0;
}
