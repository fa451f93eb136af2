//! The canaries: bugs that the models must catch, each a change of one place in one shipped file.
//!
//! The build script makes a tree of modules with each; the tests run them.

/// A bug on purpose.
#[allow(dead_code, reason = "the build script and the tests each use some of the fields")]
pub struct Canary {
    pub name: &'static str,
    /// Below `crates/ramie/src`.
    pub file: &'static str,
    pub from: &'static str,
    pub to: &'static str,
    /// Which model catches it.
    pub model: &'static str,
    /// What the checker, or the model's assertion, says then.
    pub verdict: &'static str,
}

const DEADLOCK: &str = "deadlock";
const RACE: &str = "Causality violation";

#[rustfmt::skip]
pub const CANARIES: &[Canary] = &[
    Canary {
        name: "lot_looks_before_it_locks",
        file: "parking_lot.rs",
        from: "let locked = self.lock();\n        if !validate() {",
        to: "let is_wanted = validate();\n        let locked = self.lock();\n        \
             if !is_wanted {",
        model: "models::parking_lot::state_and_queue_change_together",
        verdict: DEADLOCK,
    },
    Canary {
        name: "lot_lock_does_not_acquire",
        file: "parking_lot.rs",
        from: ".compare_exchange_weak(false, true, Ordering::Acquire, Ordering::Relaxed)",
        to: ".compare_exchange_weak(false, true, Ordering::Relaxed, Ordering::Relaxed)",
        model: "models::parking_lot::state_and_queue_change_together",
        verdict: RACE,
    },
    Canary {
        name: "lot_unlock_does_not_release",
        file: "parking_lot.rs",
        from: "self.lot.is_locked.store(false, Ordering::Release)",
        to: "self.lot.is_locked.store(false, Ordering::Relaxed)",
        model: "models::parking_lot::all_are_woken",
        verdict: RACE,
    },
    Canary {
        name: "lot_spends_a_wake_up_on_one_that_left",
        file: "parking_lot.rs",
        from: "return Some((slot, waiter));\n            }",
        to: "return Some((slot, waiter));\n            }\n            return None;",
        model: "models::parking_lot::no_wake_up_is_spent_on_a_waiter_that_left",
        verdict: DEADLOCK,
    },
    Canary {
        name: "oneshot_parks_without_a_look",
        file: "sync/oneshot.rs",
        from: "|| self.inner.state.load(Ordering::Acquire) == EMPTY",
        to: "|| true",
        model: "models::oneshot::a_value_arrives",
        verdict: DEADLOCK,
    },
    Canary {
        name: "oneshot_value_is_not_released",
        file: "sync/oneshot.rs",
        from: "compare_exchange(EMPTY, FULL, Ordering::AcqRel, Ordering::Acquire)",
        to: "compare_exchange(EMPTY, FULL, Ordering::Acquire, Ordering::Acquire)",
        model: "models::oneshot::a_value_arrives",
        verdict: RACE,
    },
    Canary {
        name: "oneshot_sender_leaves_in_silence",
        file: "sync/oneshot.rs",
        from: "if closed.is_ok() {",
        to: "if closed.is_ok() && false {",
        model: "models::oneshot::a_sender_that_leaves_is_noticed",
        verdict: DEADLOCK,
    },
    Canary {
        name: "oneshot_loses_a_late_value",
        file: "sync/oneshot.rs",
        from: "if closed.is_err() {\n            drop(self.inner.take());",
        to: "if closed.is_err() {\n            self.inner.state.store(CLOSED, Ordering::Relaxed);",
        model: "models::oneshot::a_receiver_that_leaves_drops_the_value",
        verdict: "Arc leaked",
    },
    Canary {
        name: "channel_lets_go_before_it_waits",
        file: "channel/core.rs",
        from: "unsafe { locked.waiting_receivers.push(&stay.waiter, prepared.wake_ref()) };",
        to: "{ drop(locked); locked = self.lock(); \
             unsafe { locked.waiting_receivers.push(&stay.waiter, prepared.wake_ref()) } };",
        model: "channel::models::a_value_goes_through_the_queue",
        verdict: DEADLOCK,
    },
    Canary {
        name: "channel_unlock_does_not_release",
        file: "channel/core.rs",
        from: "self.0.is_locked.store(false, Ordering::Release)",
        to: "self.0.is_locked.store(false, Ordering::Relaxed)",
        model: "channel::models::a_value_is_handed_over",
        verdict: RACE,
    },
    Canary {
        name: "channel_schedules_one_that_left",
        file: "channel/waiters.rs",
        from: "waiter.wait.get().and_then(|wait| wait.claim(Wake::Woken))",
        to: "waiter.wait.get().map(|wait| wait.claim(Wake::Woken).unwrap_or_else(|| \
             crate::strand::slot_at((wait.to_bits() >> 24) as u32)))",
        model: "channel::models::no_value_goes_to_a_receiver_that_left",
        verdict: "scheduled",
    },
    Canary {
        name: "channel_wakes_before_it_closes",
        file: "channel/core.rs",
        from: "self.lock().has_senders = false;\n        loop {\n            \
               let receiver = self.lock().waiting_receivers.claim_first();\n            \
               let Some(receiver) = receiver else { return };",
        to: "loop {\n            \
             let receiver = self.lock().waiting_receivers.claim_first();\n            \
             let Some(receiver) = receiver else { self.lock().has_senders = false; return };",
        model: "channel::models::closing_wakes_receivers",
        verdict: DEADLOCK,
    },
    Canary {
        name: "channel_forgets_waiting_senders",
        file: "channel/core.rs",
        from: "let Some(sender) = sender else { break };",
        to: "let Some(sender) = sender.filter(|_| false) else { break };",
        model: "channel::models::closing_gives_values_back",
        verdict: DEADLOCK,
    },
    Canary {
        name: "channel_counts_handles_in_two_steps",
        file: "channel/core.rs",
        from: "count.fetch_sub(1, Ordering::AcqRel) == 1",
        to: "{ let before = count.load(Ordering::Acquire); \
             count.store(before - 1, Ordering::Release); before == 1 }",
        model: "channel::models::closing_wakes_receivers",
        verdict: DEADLOCK,
    },
    Canary {
        name: "select_carries_out_a_second_arm",
        file: "channel/arm.rs",
        from: "            return Enlisted::Over;\n        }\n        let got = locked.get();",
        to: "        }\n        let got = locked.get();",
        model: "channel::select_models::one_of_two_receives",
        verdict: "a strand was scheduled that did not wait",
    },
    Canary {
        name: "select_does_not_claim_itself",
        file: "channel/arm.rs",
        from: "if wait.claim(Wake::Woken).is_none() {\n            return Enlisted::Over;\n        \
               }\n        let Some(value)",
        to: "let Some(value)",
        model: "channel::select_models::a_receive_or_a_send",
        verdict: "a strand was scheduled that did not wait",
    },
    Canary {
        name: "select_enlists_without_a_look",
        file: "channel/arm.rs",
        from: "if !locked.may_get(wait) {",
        to: "if locked.may_put(wait) || true {",
        model: "channel::select_models::one_of_two_receives",
        verdict: DEADLOCK,
    },
    Canary {
        name: "park_does_not_look_for_the_token",
        file: "strand/slot.rs",
        from: "let had_token = old & TOKEN != 0;",
        to: "let had_token = false;",
        model: "models::park::an_unpark_ends_one_park",
        verdict: DEADLOCK,
    },
    Canary {
        name: "unpark_does_not_release",
        file: "strand/slot.rs",
        from: "Ordering::AcqRel, Ordering::Relaxed) {\n                Ok(_) if parked",
        to: "Ordering::Acquire, Ordering::Relaxed) {\n                Ok(_) if parked",
        model: "models::park::an_unpark_ends_one_park",
        verdict: RACE,
    },
    Canary {
        name: "second_unpark_does_nothing",
        file: "strand/slot.rs",
        from: "let parked = old & (STATE | PARKING) == WAITING | PARKING;",
        to: "if old & TOKEN != 0 { return Unpark::Nothing }\n            \
             let parked = old & (STATE | PARKING) == WAITING | PARKING;",
        model: "models::park::a_token_passes_on_what_each_unpark_brings",
        verdict: DEADLOCK,
    },
    Canary {
        name: "unpark_ends_any_wait",
        file: "strand/slot.rs",
        from: "let parked = old & (STATE | PARKING) == WAITING | PARKING;",
        to: "let parked = old & STATE == WAITING;",
        model: "models::park::an_unpark_ends_no_other_wait",
        verdict: "a park's token ended another wait",
    },
    Canary {
        name: "claim_does_not_compare_epochs",
        file: "strand/slot.rs",
        from: "if old & STATE != WAITING || epoch != wait.epoch() {",
        to: "if old & STATE != WAITING || epoch != wait.epoch() && false {",
        model: "models::park::a_stale_reference_ends_nothing",
        verdict: "a reference to the first wait ended the second",
    },
    Canary {
        name: "claim_is_not_one_step",
        file: "strand/slot.rs",
        from: "let new = old & !(STATE | PARKING | CANCELLABLE) | reason as u64;",
        to: "let new = old & !(STATE | PARKING | CANCELLABLE) | reason as u64;\n            \
             self.word.store(new, Ordering::Release);\n            \
             if new != 0 { return true }",
        model: "models::park::one_waker_wins",
        verdict: "left == right",
    },
    Canary {
        name: "finish_is_two_steps",
        file: "completion.rs",
        from: "match self.0.swap(DONE, Ordering::AcqRel) {",
        to: "let found = self.0.load(Ordering::Acquire);\n        \
             self.0.store(DONE, Ordering::Release);\n        match found {",
        model: "models::completion::a_waiter_sees_the_result",
        verdict: DEADLOCK,
    },
    Canary {
        name: "waiter_stays_after_its_time",
        file: "completion.rs",
        from: "let _ = self.0.compare_exchange(bits, OPEN, Ordering::AcqRel, Ordering::Acquire);",
        to: "",
        model: "models::completion::a_waiter_may_come_again",
        verdict: "exceeded maximum number of branches",
    },
    Canary {
        name: "sleeper_does_not_look_again",
        file: "worker/shared.rs",
        from: "if may_sleep() && !self.has_mail() {",
        to: "if may_sleep() {",
        model: "models::sleep::a_push_ends_the_sleep",
        verdict: DEADLOCK,
    },
    Canary {
        name: "sleeper_does_not_acquire",
        file: "worker/shared.rs",
        from: "self.state.swap(SLEEPING, Ordering::AcqRel);",
        to: "self.state.store(SLEEPING, Ordering::Release);",
        model: "models::sleep::a_push_ends_the_sleep",
        verdict: DEADLOCK,
    },
    Canary {
        name: "wake_does_not_release",
        file: "worker/shared.rs",
        from: "self.state.swap(NOTIFIED, Ordering::AcqRel)",
        to: "self.state.swap(NOTIFIED, Ordering::Acquire)",
        model: "models::sleep::a_push_ends_the_sleep",
        verdict: DEADLOCK,
    },
    Canary {
        name: "push_does_not_release",
        file: "worker/shared.rs",
        from: "compare_exchange_weak(head, new, Ordering::Release, Ordering::Relaxed)",
        to: "compare_exchange_weak(head, new, Ordering::Relaxed, Ordering::Relaxed)",
        model: "models::sleep::a_push_ends_the_sleep",
        verdict: RACE,
    },
    Canary {
        name: "push_overwrites",
        file: "worker/shared.rs",
        from: "self.inbox.compare_exchange_weak(head, new, Ordering::Release, Ordering::Relaxed);",
        to: "{ self.inbox.store(new, Ordering::Release); Ok::<_, *mut Slot>(head) };",
        model: "models::sleep::pushers_do_not_collide",
        verdict: DEADLOCK,
    },
    Canary {
        name: "spawner_does_not_fence",
        file: "worker/team.rs",
        from: "self.queue.push(slot);\n        fence(Ordering::SeqCst);",
        to: "self.queue.push(slot);",
        model: "worker::team_models::what_is_shared_is_stolen",
        verdict: DEADLOCK,
    },
    Canary {
        name: "thief_looks_before_it_announces",
        file: "worker/team.rs",
        from: "pub(super) fn announce_sleep(&self) -> bool {\n        if",
        to: "pub(super) fn announce_sleep(&self) -> bool {\n        \
             let may_sleep = self.may_sleep();\n        \
             self.announce_too_late();\n        may_sleep\n    }\n    \
             fn announce_too_late(&self) -> bool {\n        if",
        model: "worker::team_models::what_is_shared_is_stolen",
        verdict: DEADLOCK,
    },
    Canary {
        name: "thief_does_not_wake_the_next",
        file: "worker/team.rs",
        from: "Steal::Success(slot) => {\n                        self.pass_search_on();",
        to: "Steal::Success(slot) => {",
        model: "worker::team_models::a_thief_wakes_the_next",
        verdict: DEADLOCK,
    },
    Canary {
        name: "end_is_looked_for_without_a_fence",
        file: "worker/team.rs",
        from: "fence(Ordering::SeqCst);\n        let is_over",
        to: "let is_over",
        model: "worker::team_models::the_end_is_noticed",
        verdict: DEADLOCK,
    },
    Canary {
        name: "end_is_kept_secret",
        file: "worker/team.rs",
        from: "if is_over {\n            self.finished.store(true, Ordering::SeqCst);\n            \
               self.wake_all();",
        to: "if is_over {\n            self.finished.store(true, Ordering::SeqCst);",
        model: "worker::team_models::the_end_is_noticed",
        verdict: DEADLOCK,
    },
    Canary {
        name: "each_pusher_wakes",
        file: "worker/shared.rs",
        from: "Ordering::AcqRel) == SLEEPING {",
        to: "Ordering::AcqRel) != RUNNING {",
        model: "models::sleep::one_wake_for_each_sleep",
        verdict: "woken twice",
    },
];
