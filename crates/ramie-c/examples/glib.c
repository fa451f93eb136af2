/* A program on GLib's main loop drives a worker by g_unix_fd_add. Eight threads spawn fibers into it,
 * join them, and shut the runtime down while all of them and the loop go on; a thousand times, or as
 * often as the argument says. Needs `pkg-config --cflags --libs glib-2.0`. */
#include <assert.h>
#include <errno.h>
#include <glib-unix.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ramie.h"

enum { THREADS = 8 };

struct round {
    unsigned number;
    GMainLoop *loop;
    ramie_guest *guest;
    ramie_handle *handle;
    GString *text;   /* stands for a widget: only the thread of the loop may use it */
    ramie_fiber *writer;
    gboolean has_read;
    unsigned idles;
    int admitted, ran; /* atomic */
    int arrived;       /* atomic: the threads that have begun */
};

struct user {
    struct round *round;
    unsigned index;
};

/* Runs when the descriptor of the worker is readable. */
static gboolean give_turn(gint fd, GIOCondition condition, gpointer data) {
    struct round *round = data;
    assert(fd == ramie_guest_fd(round->guest) && condition == G_IO_IN);
    int turned = ramie_guest_turn(round->guest, 1000);
    if (round->writer != NULL && ramie_is_finished(round->writer)) {
        /* The loop awaits a fiber in this way, because a join would keep it from giving turns. */
        intptr_t length;
        int error = ramie_join(round->writer, &length);
        assert(error == 0 && length == 3 && strcmp(round->text->str, "abc") == 0);
        round->writer = NULL;
        round->has_read = TRUE;
    }
    if (turned != RAMIE_ENDED) {
        assert(turned == RAMIE_IDLE || turned == RAMIE_BUSY);
        return G_SOURCE_CONTINUE;
    }
    g_main_loop_quit(round->loop);
    return G_SOURCE_REMOVE;
}

/* The program's own events. */
static gboolean note_idle(gpointer data) {
    ((struct round *)data)->idles++;
    return G_SOURCE_CONTINUE;
}

/* A fiber of a runtime with one worker runs on the thread of the loop. */
static intptr_t write_text(void *arg) {
    struct round *round = arg;
    for (const char *letter = "abc"; *letter != '\0'; letter++) {
        g_string_append_c(round->text, *letter);
        ramie_sleep_us(10);
    }
    return (intptr_t)round->text->len;
}

static intptr_t count(void *arg) {
    struct round *round = arg;
    if (g_atomic_int_add(&round->ran, 1) % 3 == 0) ramie_yield();
    return 7;
}

static gpointer use_until_refused(gpointer data) {
    struct user *user = data;
    struct round *round = user->round;
    g_atomic_int_inc(&round->arrived);
    for (unsigned n = 0;; n++) {
        if (n == 1 && user->index == round->number % THREADS) {
            while (g_atomic_int_get(&round->arrived) < THREADS) g_thread_yield();
            int error = ramie_begin_shutdown(round->handle, -1);
            assert(error == 0);
        }
        ramie_fiber *fiber;
        int error = ramie_spawn(round->handle, count, round, &fiber);
        if (error == -ESHUTDOWN) return NULL;
        assert(error == 0);
        g_atomic_int_inc(&round->admitted);
        if (n % 4 == 3) {
            ramie_detach(fiber);
            continue;
        }
        intptr_t seven;
        error = ramie_join(fiber, &seven);
        assert(error == 0 && seven == 7);
    }
}

static void run_round(unsigned number) {
    ramie_options options = RAMIE_OPTIONS_INIT;
    options.workers = 1 + number % 2;
    options.driver = number % 4 < 2 ? RAMIE_DRIVER_AUTO : RAMIE_DRIVER_POLL;
    struct round round = {.number = number, .text = g_string_new(NULL)};
    int error = ramie_guest_start(&options, &round.guest);
    assert(error == 0);
    round.handle = ramie_guest_handle(round.guest);
    error = ramie_spawn_on(round.handle, 0, write_text, &round, &round.writer);
    assert(error == 0);
    round.loop = g_main_loop_new(NULL, FALSE);
    g_unix_fd_add(ramie_guest_fd(round.guest), G_IO_IN, give_turn, &round);
    /* At the priority of the descriptor, which is readable all the time while fibers can run. */
    guint idle = g_idle_add_full(G_PRIORITY_DEFAULT, note_idle, &round, NULL);
    GThread *threads[THREADS];
    struct user users[THREADS];
    for (unsigned i = 0; i < THREADS; i++) {
        users[i] = (struct user){&round, i};
        threads[i] = g_thread_new("user", use_until_refused, &users[i]);
    }

    g_main_loop_run(round.loop);

    for (unsigned i = 0; i < THREADS; i++) g_thread_join(threads[i]);
    g_source_remove(idle);
    g_main_loop_unref(round.loop);
    error = ramie_guest_end(round.guest, -1);
    assert(error == 0 && !ramie_is_open(round.handle));
    assert(ramie_spawn(round.handle, count, &round, NULL) == -ESHUTDOWN);
    ramie_handle_free(round.handle);
    assert(round.has_read && round.idles > 0);
    assert(round.ran == round.admitted && round.admitted >= THREADS - 1);
    g_string_free(round.text, TRUE);
}

int main(int argc, char **argv) {
    unsigned rounds = argc > 1 ? (unsigned)atoi(argv[1]) : 1000;
    for (unsigned n = 0; n < rounds; n++) run_round(n);
    printf("%u runtimes in GLib's loop, each used by %d threads until its end\n", rounds, THREADS);
    return 0;
}
