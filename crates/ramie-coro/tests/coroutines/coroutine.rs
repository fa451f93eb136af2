//! Coroutines: values in and out, states, panics, reuse.

use std::{
    cell::{Cell, RefCell},
    panic::{AssertUnwindSafe, catch_unwind},
    rc::Rc,
};

use ramie_coro::{Builder, Coroutine, Resumed, StackSize, State, Yielder, overflow::stack_of};

fn sentence(f: impl FnOnce()) -> String {
    let payload = catch_unwind(AssertUnwindSafe(f)).expect_err("it panics");
    match payload.downcast::<String>() {
        Ok(sentence) => *sentence,
        Err(payload) => (*payload.downcast::<&str>().expect("a sentence")).to_owned(),
    }
}

#[test]
fn values_go_in_and_out() {
    let coroutine = Coroutine::new(|yielder, mut input: String| {
        for count in 1..=2 {
            input = yielder.suspend((count, input));
        }
        input.len()
    });
    assert_eq!(coroutine.resume("a".into()), Resumed::Yielded((1, "a".into())));
    assert_eq!(coroutine.resume("b".into()), Resumed::Yielded((2, "b".into())));
    assert_eq!(coroutine.resume("abc".into()), Resumed::Returned(3));
}

#[test]
fn results_are_taken_apart() {
    assert_eq!(Resumed::<_, ()>::Yielded(1).yielded(), Some(1));
    assert_eq!(Resumed::<_, ()>::Yielded(1).returned(), None);
    assert_eq!(Resumed::<(), _>::Returned(1).returned(), Some(1));
    assert_eq!(Resumed::<(), _>::Returned(1).yielded(), None);
}

#[test]
fn it_suspends_from_a_deep_call() {
    fn count_down(yielder: &Yielder<(), u32>, from: u32) {
        if from > 0 {
            yielder.suspend(from);
            count_down(yielder, from - 1);
        }
    }
    let coroutine = Coroutine::new(|yielder, ()| count_down(yielder, 3));
    let yielded: Vec<_> = std::iter::from_fn(|| coroutine.resume(()).yielded()).collect();
    assert_eq!(yielded, [3, 2, 1]);
}

/// The coroutine of a body, for use inside the body.
type Handle<Return> = Rc<RefCell<Option<Rc<Coroutine<(), (), Return>>>>>;

#[test]
fn it_knows_its_state() {
    let seen = Rc::new(Cell::new(None));
    let handle: Handle<()> = Rc::default();
    let (seen_inside, handle_inside) = (Rc::clone(&seen), Rc::clone(&handle));
    let coroutine = Rc::new(Coroutine::new(move |_: &Yielder<(), ()>, ()| {
        let own = handle_inside.take().unwrap();
        seen_inside.set(Some(own.state()));
    }));
    *handle.borrow_mut() = Some(Rc::clone(&coroutine));
    assert_eq!(coroutine.state(), State::Suspended);
    coroutine.resume(());
    assert_eq!(seen.get(), Some(State::Running));
    assert_eq!(coroutine.state(), State::Done);
}

#[test]
fn resuming_a_running_one_panics_with_a_sentence() {
    let handle: Handle<String> = Rc::default();
    let inside = Rc::clone(&handle);
    let coroutine = Rc::new(Coroutine::new(move |_: &Yielder<(), ()>, ()| {
        let own = inside.take().unwrap();
        sentence(|| _ = own.resume(()))
    }));
    *handle.borrow_mut() = Some(Rc::clone(&coroutine));
    let message = coroutine.resume(()).returned().unwrap();
    assert!(message.contains("is running"), "{message}");
}

#[test]
fn resuming_a_done_one_panics_with_a_sentence() {
    let coroutine: Coroutine<(), (), ()> = Coroutine::new(|_, ()| ());
    coroutine.resume(());
    let message = sentence(|| _ = coroutine.resume(()));
    assert!(message.contains("is done") && message.contains("reset"), "{message}");
}

#[test]
fn a_panic_comes_out_of_resume() {
    let coroutine: Coroutine<(), (), ()> = Coroutine::new(|yielder, ()| {
        yielder.suspend(());
        panic!("oh no");
    });
    coroutine.resume(());
    assert_eq!(sentence(|| _ = coroutine.resume(())), "oh no");
    assert_eq!(coroutine.state(), State::Done);
    assert!(!std::thread::panicking());
}

#[test]
fn coroutines_nest() {
    let outer: Coroutine<u32, u32, u32> = Coroutine::new(|yielder, input| {
        let inner: Coroutine<u32, u32, u32> =
            Coroutine::new(|yielder, input| yielder.suspend(input * 2) * 3);
        let doubled = inner.resume(input).yielded().unwrap();
        let next = yielder.suspend(doubled);
        inner.resume(next).returned().unwrap()
    });
    assert_eq!(outer.resume(1), Resumed::Yielded(2));
    assert_eq!(outer.resume(5), Resumed::Returned(15));
}

#[test]
fn many_live_at_once() {
    let coroutines: Vec<Coroutine<u64, (), u64>> = (0..2000)
        .map(|at| {
            Coroutine::new(move |yielder: &Yielder<u64, ()>, first| {
                first + yielder.suspend(()) + at
            })
        })
        .collect();
    coroutines.iter().for_each(|coroutine| _ = coroutine.resume(1));
    for (at, coroutine) in coroutines.iter().enumerate() {
        assert_eq!(coroutine.resume(2), Resumed::Returned(3 + at as u64));
    }
}

fn own_stack() -> usize {
    let here = 0_u8;
    stack_of(&raw const here as usize).expect("it runs on a coroutine's stack").base()
}

#[test]
fn reset_reuses_the_stack() {
    let mut coroutine: Coroutine<(), (), usize> = Coroutine::new(|_, ()| own_stack());
    let first = coroutine.resume(()).returned().unwrap();
    for _ in 0..100 {
        coroutine.reset(|_, ()| own_stack());
        assert_eq!(coroutine.state(), State::Suspended);
        assert_eq!(coroutine.resume(()), Resumed::Returned(first));
    }
}

#[test]
fn reset_unwinds_a_suspended_body_first() {
    let dropped = Rc::new(());
    let inside = Rc::clone(&dropped);
    let mut coroutine: Coroutine<(), (), u32> = Coroutine::new(move |yielder, ()| {
        let _inside = inside;
        yielder.suspend(());
        unreachable!("it is reset")
    });
    coroutine.resume(());
    coroutine.reset(|_, ()| 7);
    assert_eq!(Rc::strong_count(&dropped), 1);
    assert_eq!(coroutine.resume(()), Resumed::Returned(7));
}

#[test]
fn stacks_come_in_sizes() {
    for bytes in [StackSize::MIN_BYTES, 100_000, 4 << 20] {
        let coroutine: Coroutine<(), (), usize> = Builder::new()
            .stack_size(bytes)
            .label("sized")
            .build(|_, ()| {
                let here = 0_u8;
                stack_of(&raw const here as usize).unwrap().size().usable_bytes()
            })
            .unwrap();
        assert_eq!(coroutine.resume(()), Resumed::Returned(bytes.next_multiple_of(4096)));
    }
    let refused = Builder::new().stack_size(1).build(|_: &Yielder<(), ()>, ()| ());
    assert!(refused.unwrap_err().is_bad_size());
}

#[test]
fn a_small_stack_is_enough_for_a_panic() {
    let builder = Builder::new().stack_size(StackSize::MIN_BYTES);
    let coroutine: Coroutine<(), (), ()> =
        builder.build(|_, ()| panic!("{}", "formatted ".repeat(3))).unwrap();
    assert!(sentence(|| _ = coroutine.resume(())).starts_with("formatted"));
}

#[test]
fn large_and_aligned_values_pass() {
    #[derive(Clone, Copy, PartialEq, Debug)]
    #[repr(align(64))]
    struct Aligned([u64; 32]);
    let value = Aligned([7; 32]);
    let coroutine = Coroutine::new(move |yielder: &Yielder<Aligned, Aligned>, input| {
        let captured = value;
        assert_eq!(&raw const captured as usize % 64, 0);
        yielder.suspend(input)
    });
    assert_eq!(coroutine.resume(value), Resumed::Yielded(value));
    assert_eq!(coroutine.resume(value), Resumed::Returned(value));
}
