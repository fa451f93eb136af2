//! Ramie's protocols under a model checker.
//!
//! The models check the sources in `crates/ramie/src` (and one of `ramie-driver`) themselves: the
//! build script makes a tree of modules of them, in which atomics and cells are the checker's and
//! the run loop is a small stand-in (`tree/`). Each model (`tree/models/`,
//! `tree/channel/models.rs`) must hold in every interleaving, within a bound on preemptions; and
//! each *canary*, a bug written into a copy of the tree (`canaries.rs`), must be caught by its
//! model, or the model is worth nothing.
//!
//! Not modelled: abandoned strands, destructors during a panic, several fibers on one
//! worker (they do not run at the same time), the deques.
#![cfg(test)]
#![allow(
    dead_code,
    unused_imports,
    unused_macros,
    reason = "a model uses a part of each shipped file"
)]
#![allow(unreachable_pub, irrefutable_let_patterns, unreachable_code)]

use std::{env, process::Command};

#[path = "../canaries.rs"]
mod table;

/// The environment variable that makes a child process run a canary.
const CHILD: &str = "RAMIE_CANARY";

/// Runs the test `name` again in a process of its own, because broken code may do worse than
/// panic. There it runs the model, which must fail with the verdict of the canary.
fn must_catch(name: &str, model: fn()) {
    if env::var(CHILD).is_ok() {
        return model();
    }
    let program = env::current_exe().expect("a test has a program");
    let child = Command::new(program)
        .args([&format!("canaries::{name}"), "--exact", "--nocapture"])
        .env(CHILD, "1")
        .env("RUST_BACKTRACE", "0")
        .output();
    let child = child.expect("a child process");
    let said = format!(
        "{}{}",
        String::from_utf8_lossy(&child.stdout),
        String::from_utf8_lossy(&child.stderr)
    );
    let canary = table::CANARIES.iter().find(|canary| canary.name == name);
    let verdict = canary.expect("tests are made of canaries").verdict;
    assert!(!child.status.success(), "{name}: no interleaving shows this bug");
    assert!(said.contains(verdict), "{name}: failed, but not with {verdict:?}:\n{said}");
}

#[cfg(not(clippy))]
macro_rules! canary {
    ($name:ident, $($model:ident)::+) => {
        #[test]
        fn $name() {
            crate::must_catch(stringify!($name), crate::$name::$($model)::+);
        }
    };
}

include!(concat!(env!("OUT_DIR"), "/trees.rs"));

macro_rules! hold {
    ($($name:ident = $models:path: [$($model:ident),+ $(,)?])+) => {
        $(
            mod $name {
                use $models as models;
                $(
                    #[test]
                    fn $model() {
                        models::$model();
                    }
                )+
            }
        )+
    };
}

hold! {
    parking_lot = crate::shipped::models::parking_lot: [
        state_and_queue_change_together,
        all_are_woken,
        no_wake_up_is_spent_on_a_waiter_that_left,
        one_that_comes_back_is_not_woken_again,
    ]
    oneshot = crate::shipped::models::oneshot: [
        a_value_arrives,
        a_sender_that_leaves_is_noticed,
        a_receiver_that_leaves_drops_the_value,
        a_timeout_loses_no_value,
    ]
    completion = crate::shipped::models::completion: [
        a_waiter_sees_the_result,
        a_waiter_may_come_again,
    ]
    channel = crate::shipped::channel::models: [
        a_value_is_handed_over,
        a_value_goes_through_the_queue,
        a_waiting_sender_fills_the_gap,
        values_keep_their_order_where_ends_are_apart,
        no_value_goes_to_a_receiver_that_left,
        no_value_is_taken_from_a_sender_that_left,
        closing_wakes_receivers,
        closing_gives_values_back,
    ]
    select = crate::shipped::channel::select_models: [
        one_of_two_receives,
        a_receive_or_a_send,
        two_selects_meet,
        a_select_that_left_takes_nothing,
    ]
    park = crate::shipped::models::park: [
        an_unpark_ends_one_park,
        a_token_passes_on_what_each_unpark_brings,
        an_id_from_before_the_start_reaches_a_parked_strand,
        an_unpark_ends_no_other_wait,
        a_stale_reference_ends_nothing,
        a_stale_reference_ends_no_park,
        one_waker_wins,
    ]
    workers = crate::shipped::core::worker::workers_models: [
        what_is_shared_is_stolen,
        a_thief_wakes_the_next,
        one_that_has_enough_wakes_another,
        what_comes_from_outside_is_taken,
        one_that_takes_from_outside_wakes_the_next,
        the_end_is_noticed,
        the_end_that_begins_outside_is_noticed,
        the_end_does_not_come_early,
    ]
    cancel = crate::shipped::models::cancel: [
        a_wait_that_begins_is_cancelled,
        a_strand_that_joins_is_cancelled,
        all_members_are_notified,
        a_scope_inside_is_cancelled,
        two_cancels_end_a_wait_once,
        a_cancelled_wait_has_one_outcome,
        a_cancel_ends_no_other_wait,
        a_cancel_leaves_the_token,
        a_cancelled_park_loses_no_token,
        a_cancelled_waiter_may_come_again,
    ]
    cancel_points = crate::shipped::models::cancel_points: [
        a_cancelled_receiver_takes_no_value,
        a_cancelled_sender_keeps_its_value,
        a_cancelled_receiver_returns_a_sent_value,
        a_cancelled_waiter_for_a_lock_keeps_nobody_out,
        a_cancelled_writer_keeps_no_reader_out,
        a_cancelled_waiter_for_many_lets_the_next_pass,
        a_cancelled_select_takes_nothing,
    ]
    spin_lock = crate::shipped::models::spin_lock: [
        one_at_a_time_holds_it,
    ]
    mutex = crate::shipped::models::mutex: [
        one_at_a_time_holds_it,
        no_waiter_is_forgotten,
        a_loser_is_handed_the_lock,
        a_waiter_that_gives_up_keeps_nobody_out,
    ]
    semaphore = crate::shipped::models::semaphore: [
        a_permit_passes_on_what_was_done_under_it,
        a_waiter_that_gives_up_lets_the_next_pass,
        closing_refuses_all,
        no_permit_is_granted_once_the_close_was_seen,
    ]
    rwlock = crate::shipped::models::rwlock: [
        a_writer_is_alone,
        readers_go_together,
    ]
    broadcast = crate::shipped::models::broadcast: [
        a_value_is_seen_and_so_is_the_end,
    ]
    condvar = crate::shipped::models::condvar: [
        a_notification_ends_the_wait,
    ]
    once = crate::shipped::models::once: [
        all_see_what_one_did,
    ]
    trace_buffer = crate::shipped::models::trace_buffer: [
        an_event_is_copied_whole_or_not_at_all,
    ]
    watch = crate::shipped::models::watch: [
        a_change_is_seen_and_so_is_the_end,
        a_sender_sees_the_last_receiver_go,
    ]
    event = crate::shipped::models::event: [
        a_set_wakes_all,
        a_reset_wakes_nobody,
    ]
    handshake = crate::shipped::models::handshake: [
        each_post_is_handed_over,
        the_end_is_seen,
    ]
    sleep = crate::shipped::models::sleep: [
        a_push_ends_the_sleep,
        a_push_ends_each_sleep,
        pushers_do_not_collide,
        one_wake_for_each_sleep,
    ]
}
