//! What a connection of HTTP/2 tells its server, so that the server can end what takes too long.
//!
//! | activity | phase | limit |
//! |---|---|---|
//! | idle | `Idle` | `idle_timeout` |
//! | handlers run | `Other` | each handler has its `request_timeout`, each piece of a body that it writes its `write_timeout` |
//! | only the rest of bodies is to be sent | `Write` | `write_timeout`, from the last byte that the client has taken |

use super::shared::{Activity, Shared};
use crate::connection::{Phase, Presence};

pub(super) struct Life<'a, P> {
    presence: &'a P,
    shared: &'a Shared,
    activity: Option<Activity>,
    has_said_goodbye: bool,
}

impl<'a, P: Presence> Life<'a, P> {
    pub(super) fn new(presence: &'a P, shared: &'a Shared) -> Self {
        Life { presence, shared, activity: None, has_said_goodbye: false }
    }

    /// Returns whether the connection is to send GOAWAY now.
    pub(super) fn update(&mut self) -> bool {
        let may_stay = self.enter(self.shared.activity());
        let is_over = !may_stay || self.shared.is_over();
        is_over && !std::mem::replace(&mut self.has_said_goodbye, true)
    }

    /// Returns whether further requests are wanted.
    fn enter(&mut self, activity: Activity) -> bool {
        let before = self.activity.replace(activity);
        let has_progressed = self.shared.take_progress();
        let is_new = before != Some(activity);
        if activity == Activity::Idle {
            return !is_new || self.presence.enter_idle();
        }
        if before == Some(Activity::Idle) {
            // A request has begun.
            self.presence.enter(Phase::Head);
        }
        match activity {
            Activity::Sending if is_new || has_progressed => self.presence.enter(Phase::Write),
            Activity::Handling if is_new => self.presence.enter(Phase::Other),
            _ => {}
        }
        !self.presence.is_stopping()
    }
}
