/* A program of fibers: a server and clients on a socket, a pipe, a channel, and code that blocks. */
#include <arpa/inet.h>
#include <assert.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "ramie.h"

enum { CLIENTS = 10 };

static struct sockaddr_in address;

static intptr_t serve_one(void *arg) {
    int fd = (int)(intptr_t)arg;
    char buffer[64];
    ssize_t count;
    while ((count = ramie_read(fd, buffer, sizeof buffer)) > 0) {
        ssize_t written = ramie_write(fd, buffer, (size_t)count);
        assert(written == count);
    }
    close(fd);
    return 0;
}

static intptr_t serve(void *arg) {
    int listener = (int)(intptr_t)arg;
    for (int n = 0; n < CLIENTS; n++) {
        int fd = ramie_accept(listener);
        assert(fd >= 0);
        int error = ramie_spawn(NULL, serve_one, (void *)(intptr_t)fd, NULL);
        assert(error == 0);
    }
    return 0;
}

/* Stands for a call that blocks. */
static intptr_t check(void *arg) {
    return strcmp(arg, "hello") == 0;
}

static intptr_t ask(void *arg) {
    ramie_channel *answers = arg;
    int fd = ramie_connect("127.0.0.1", ntohs(address.sin_port));
    assert(fd >= 0);
    char buffer[8] = "";
    assert(ramie_poll(fd, POLLIN, 0) == 0);
    assert(ramie_write(fd, "hello", 5) == 5);
    assert(ramie_poll(fd, POLLIN, -1) == POLLIN);
    assert(ramie_poll(fd, POLLIN, 0) == POLLIN);
    for (size_t got = 0; got < 5;) got += (size_t)ramie_read(fd, buffer + got, sizeof buffer - got);
    intptr_t is_right;
    int error = ramie_blocking(check, buffer, &is_right);
    assert(error == 0 && is_right);
    close(fd);
    return ramie_send(answers, (void *)5);
}

static intptr_t join_itself(void *arg) {
    void *self;
    assert(ramie_recv(arg, &self) == 0);
    return ramie_send(arg, (void *)(intptr_t)ramie_join(self, NULL));
}

static intptr_t program(void *arg) {
    (void)arg;
    int listener = ramie_listen("127.0.0.1", 0);
    assert(listener >= 0);
    socklen_t size = sizeof address;
    assert(getsockname(listener, (struct sockaddr *)&address, &size) == 0);
    ramie_fiber *server;
    assert(ramie_spawn(NULL, serve, (void *)(intptr_t)listener, &server) == 0);
    ramie_channel *answers;
    assert(ramie_channel_new(0, &answers) == 0);
    ramie_fiber *itself;
    void *refused;
    assert(ramie_spawn(NULL, join_itself, answers, &itself) == 0);
    assert(ramie_send(answers, itself) == 0 && ramie_recv(answers, &refused) == 0);
    assert((intptr_t)refused == -EDEADLK && ramie_join(itself, NULL) == 0);
    for (int n = 0; n < CLIENTS; n++) assert(ramie_spawn(NULL, ask, answers, NULL) == 0);
    intptr_t sum = 0;
    for (int n = 0; n < CLIENTS; n++) {
        void *answer;
        assert(ramie_recv(answers, &answer) == 0);
        sum += (intptr_t)answer;
    }
    assert(ramie_join(server, NULL) == 0);
    assert(ramie_try_recv(answers, NULL) == -EAGAIN);
    ramie_channel_close(answers);
    assert(ramie_send(answers, NULL) == -EPIPE && ramie_recv(answers, NULL) == -EPIPE);
    ramie_channel_free(answers);
    close(listener);
    assert(ramie_connect("127.0.0.1", ntohs(address.sin_port)) == -ECONNREFUSED);
    assert(ramie_connect(NULL, 1) == -EINVAL && ramie_listen("\xff", 1) == -EINVAL);
    ramie_sleep_us(1000);
    assert(ramie_read(-1, NULL, 0) == -EBADF);
    assert(ramie_run(NULL, program, NULL, NULL) == -EDEADLK);
    return sum;
}

int main(void) {
    intptr_t sum;
    ramie_options options = RAMIE_OPTIONS_INIT;
    options.workers = 2;
    int error = ramie_run(&options, program, NULL, &sum);
    assert(error == 0 && sum == 5 * CLIENTS);
    options.driver = 9;
    assert(ramie_run(&options, program, NULL, NULL) == -EINVAL);
    printf("%d clients were answered\n", CLIENTS);
    return 0;
}
