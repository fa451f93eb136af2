//! Select: exactly one arm is carried out.

use std::time::Duration;

use loom::thread;

use super::{
    arm::{RecvArm, SendArm},
    bounded,
    receiver::Receiver,
    select::{select_by, select_within},
    sender::Sender,
};
use crate::models::{check, check_within, value};

const SOON: Duration = Duration::from_nanos(1);

/// Two peers hand a value over at the same time: one succeeds, the other gets its value back.
pub(crate) fn one_of_two_receives() {
    check_within(2, || {
        let (channels, peers) = [(); 2]
            .map(|()| {
                let (sender, receiver) = bounded(0);
                let peer = thread::spawn(move || sender.send_timeout(value(), SOON).is_ok());
                (receiver, peer)
            })
            .into_iter()
            .unzip::<_, _, Vec<_>, Vec<_>>();
        let received = {
            let mut arms = [RecvArm::new(&channels[0]), RecvArm::new(&channels[1])];
            assert!(select_by(&mut arms.each_mut().map(|arm| arm.arm())));
            arms.iter().filter(|arm| arm.is_chosen()).filter(|arm| arm.result().is_ok()).count()
        };
        let sent = peers.into_iter().map(|peer| peer.join().unwrap()).filter(|sent| *sent).count();
        assert_eq!(received, sent, "carried out by both sides");
    });
}

/// The same, with one peer that sends and one that receives.
pub(crate) fn a_receive_or_a_send() {
    check_within(2, || {
        let ((sender, from_peer), (to_peer, receiver)) = (bounded(0), bounded(0));
        let giving = thread::spawn(move || sender.send_timeout(1, SOON).is_ok());
        let taking = thread::spawn(move || receiver.recv_timeout(SOON).is_ok());
        let (mut recv, mut send) = (RecvArm::new(&from_peer), SendArm::new(&to_peer, 2));
        assert!(select_by(&mut [recv.arm(), send.arm()]));
        let received = recv.is_chosen() && recv.result().is_ok();
        let sent = send.is_chosen() && send.result().is_ok();
        let (given, taken) = (giving.join().unwrap(), taking.join().unwrap());
        assert_eq!((received, sent), (given, taken), "carried out by both sides");
        assert!(!(given && taken), "two arms were carried out");
    });
}

/// Sends on one channel or receives from the other; returns whether it sent, and the value that it
/// received.
fn send_or_receive(sender: &Sender<u32>, receiver: &Receiver<u32>, mine: u32) -> Option<u32> {
    let (mut send, mut recv) = (SendArm::new(sender, mine), RecvArm::new(receiver));
    assert!(select_by(&mut [send.arm(), recv.arm()]));
    assert!(send.is_chosen() != recv.is_chosen(), "one arm is chosen");
    recv.is_chosen().then(|| recv.result().unwrap())
}

/// Two selects meet each other: one sends, the other receives.
pub(crate) fn two_selects_meet() {
    check(|| {
        let (to_other, from_me) = bounded(0);
        let (to_me, from_other) = bounded(0);
        let (keep, keep_too) = (from_me.clone(), to_me.clone());
        let other = thread::spawn(move || send_or_receive(&to_me, &from_me, 1));
        let mine = send_or_receive(&to_other, &from_other, 2);
        let others = other.join().unwrap();
        drop((keep, keep_too));
        assert!(matches!((mine, others), (Some(1), None) | (None, Some(2))), "a pair was made");
    });
}

/// A select that times out leaves the value in the channel.
pub(crate) fn a_select_that_left_takes_nothing() {
    check(|| {
        let (sender, receiver) = bounded(0);
        let sending = thread::spawn(move || sender.send(value()).is_ok());
        let mut arm = RecvArm::new(&receiver);
        let is_chosen = select_within(&mut [arm.arm()], SOON);
        assert_eq!(is_chosen, arm.is_chosen());
        assert!(is_chosen || receiver.recv().is_ok());
        assert!(sending.join().unwrap());
    });
}
