//! The twins of std's mpsc: the same steps have the same results, and no value is lost or
//! duplicated.

use std::{sync::atomic::AtomicUsize, time::Duration};

use crate::common::{Counted, Random, everywhere, one_worker, with_workers};
use ramie::{fiber, sync::mpsc};

const MS: Duration = Duration::from_millis(1);

macro_rules! steps {
    ($($root:ident)::+) => {{
        use $($root)::+::sync::mpsc;
        let mut seen = Vec::new();
        let (sender, receiver) = mpsc::channel();
        seen.push(format!("{sender:?} {receiver:?} {:?}", receiver.try_recv()));
        seen.push(format!("{:?}", receiver.recv_timeout(MS)));
        let other = sender.clone();
        seen.push(format!("{:?} {:?}", sender.send(1), other.send(2)));
        seen.push(format!("{:?} {:?}", receiver.recv(), receiver.try_iter().collect::<Vec<_>>()));
        sender.send(3).unwrap();
        drop((sender, other));
        seen.push(format!("{:?}", receiver.iter().collect::<Vec<_>>()));
        seen.push(format!("{:?} {:?}", receiver.recv(), receiver.try_recv()));
        seen.push(format!("{:?}", receiver.recv_timeout(MS)));
        seen.push(format!("{:?}", receiver.into_iter().next()));
        let (sender, receiver) = mpsc::channel();
        drop(receiver);
        seen.push(format!("{:?}", sender.send(4)));
        let (sender, receiver) = mpsc::sync_channel(1);
        seen.push(format!("{sender:?} {:?} {:?}", sender.try_send(1), sender.try_send(2)));
        seen.push(format!("{:?}", receiver.recv()));
        drop(receiver);
        seen.push(format!("{:?} {:?}", sender.try_send(3), sender.send(4)));
        let (sender, _receiver) = mpsc::sync_channel(0);
        seen.push(format!("{:?}", sender.try_send(1)));
        seen
    }};
}

#[test]
fn each_channel_behaves_as_in_std() {
    let expected = steps!(std);
    everywhere(|| assert_eq!(steps!(ramie), expected));
}

#[test]
fn a_rendezvous_waits_for_the_receiver() {
    everywhere(|| {
        let (sender, receiver) = mpsc::sync_channel(0);
        let sends = fiber::spawn(move || (0..100).try_for_each(|n| sender.send(n)));
        assert!(receiver.iter().eq(0..100));
        assert_eq!(sends.join().unwrap(), Ok(()));
    });
}

/// The values of each sender arrive in order, each once, across runtimes and threads.
#[test]
fn values_keep_their_order_for_each_sender() {
    let mut random = Random::new("values_keep_their_order_for_each_sender");
    for bound in [0, 1, 7, 64] {
        let pause = 2 + random.below(5);
        let (sender, receiver) = mpsc::sync_channel(bound);
        let send = |n: usize, sender: mpsc::SyncSender<(usize, u64)>| {
            for value in 0..200 {
                sender.send((n, value)).unwrap();
                if value % pause == 0 {
                    fiber::yield_now();
                }
            }
        };
        std::thread::scope(|s| {
            let [one, two, three] = [(); 3].map(|()| sender.clone());
            s.spawn(move || send(0, one));
            s.spawn(move || one_worker().run(|| send(1, two)));
            s.spawn(move || with_workers(2).run(|| send(2, three)));
            drop(sender);
            let mut next = [0; 3];
            for (n, value) in &receiver {
                assert_eq!(value, next[n]);
                next[n] += 1;
            }
            assert_eq!(next, [200; 3]);
        });
    }
}

#[test]
fn values_that_were_not_received_are_dropped_once() {
    let drops = AtomicUsize::new(0);
    one_worker().run(|| {
        let (sender, receiver) = mpsc::channel();
        (0..3).for_each(|_| assert!(sender.send(Counted(&drops)).is_ok()));
        drop(receiver.recv());
        drop(receiver);
        drop(sender.send(Counted(&drops)));
    });
    assert_eq!(drops.into_inner(), 4);
}
