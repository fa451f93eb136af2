/* Eight threads of a C program spawn fibers into a runtime in the background, join them, and shut
 * the runtime down while all of them go on; a thousand times, or as often as the argument says. */
#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "ramie.h"

enum { THREADS = 8 };

struct round {
    ramie_handle *handle;
    ramie_channel *numbers;
    pthread_barrier_t begin;
    unsigned number;
};

struct user {
    struct round *round;
    unsigned index;
    long admitted;
};

static intptr_t twice(void *arg) {
    if ((intptr_t)arg % 3 == 0) ramie_yield();
    return 2 * (intptr_t)arg;
}

static void *use_until_refused(void *arg) {
    struct user *user = arg;
    struct round *round = user->round;
    pthread_barrier_wait(&round->begin);
    if (user->index == round->number % THREADS) {
        int error = ramie_begin_shutdown(round->handle, -1);
        assert(error == 0);
    }
    for (intptr_t n = 0;; n++) {
        ramie_fiber *fiber;
        int error = ramie_spawn(round->handle, twice, (void *)n, &fiber);
        if (error == -ESHUTDOWN) return NULL;
        assert(error == 0);
        user->admitted++;
        if (n % 4 == 1) {
            ramie_detach(fiber);
            continue;
        }
        intptr_t value;
        error = ramie_join(fiber, &value);
        assert(error == 0 && value == 2 * n);
    }
}

static void run_round(unsigned number) {
    ramie_options options = RAMIE_OPTIONS_INIT;
    options.workers = 1 + number % 2;
    options.driver = number % 4 < 2 ? RAMIE_DRIVER_AUTO : RAMIE_DRIVER_POLL;
    ramie_runtime *runtime;
    int error = ramie_start(&options, &runtime);
    assert(error == 0);
    struct round round = {ramie_runtime_handle(runtime), NULL, {{0}}, number};
    pthread_barrier_init(&round.begin, NULL, THREADS);
    pthread_t threads[THREADS];
    struct user users[THREADS];
    for (unsigned i = 0; i < THREADS; i++) {
        users[i] = (struct user){&round, i, 0};
        error = pthread_create(&threads[i], NULL, use_until_refused, &users[i]);
        assert(error == 0);
    }
    /* In one half of the rounds this thread shuts it down as well, meanwhile. */
    if (number % 2) {
        error = ramie_shutdown(runtime, -1);
        assert(error == 0);
    }
    for (unsigned i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
    if (number % 2 == 0) {
        error = ramie_shutdown(runtime, -1);
        assert(error == 0);
    }
    /* The handle outlives its runtime. */
    assert(!ramie_is_open(round.handle));
    assert(ramie_spawn(round.handle, twice, NULL, NULL) == -ESHUTDOWN);
    ramie_handle_free(round.handle);
    pthread_barrier_destroy(&round.begin);
}

int main(int argc, char **argv) {
    unsigned rounds = argc > 1 ? (unsigned)atoi(argv[1]) : 1000;
    for (unsigned n = 0; n < rounds; n++) run_round(n);
    printf("%u runtimes, each used by %d threads until its end\n", rounds, THREADS);
    return 0;
}
