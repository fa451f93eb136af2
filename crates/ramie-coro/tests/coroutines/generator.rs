//! Generators are iterators.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    rc::Rc,
};

use ramie_coro::{Builder, Generator, GeneratorYielder};

#[test]
fn it_yields_lazily() {
    let mut squares = Generator::new(|yielder| {
        for number in 0_u32.. {
            yielder.suspend(number * number);
        }
    });
    assert_eq!(squares.by_ref().take(4).collect::<Vec<_>>(), [0, 1, 4, 9]);
    assert_eq!(squares.next(), Some(16));
}

#[test]
fn it_is_fused() {
    let mut one = Generator::new(|yielder| yielder.suspend(1));
    assert_eq!((one.next(), one.next(), one.next()), (Some(1), None, None));
}

#[test]
fn dropping_it_half_way_unwinds_it() {
    let alive = Rc::new(());
    let inside = Rc::clone(&alive);
    let mut items = Generator::new(move |yielder| {
        let _inside = inside;
        loop {
            yielder.suspend(());
        }
    });
    items.next();
    drop(items);
    assert_eq!(Rc::strong_count(&alive), 1);
}

#[test]
fn a_panic_ends_it() {
    let mut items = Generator::new(|yielder| {
        yielder.suspend(1);
        panic!("oh no");
    });
    assert_eq!(items.next(), Some(1));
    assert!(catch_unwind(AssertUnwindSafe(|| items.next())).is_err());
    assert_eq!(items.next(), None);
}

#[test]
fn generators_of_generators() {
    fn digits(depth: u32, yielder: &GeneratorYielder<u32>) {
        if depth > 0 {
            Generator::new(move |yielder| digits(depth - 1, yielder))
                .for_each(|digit| yielder.suspend(digit));
        }
        yielder.suspend(depth);
    }
    let items = Generator::new(|yielder| digits(5, yielder));
    assert_eq!(items.collect::<Vec<_>>(), [0, 1, 2, 3, 4, 5]);
}

#[test]
fn it_can_be_built() {
    let coroutine = Builder::new().stack_size(64 * 1024).label("items");
    let coroutine = coroutine.build(|yielder: &GeneratorYielder<u8>, ()| yielder.suspend(1));
    assert_eq!(Generator::from(coroutine.unwrap()).collect::<Vec<_>>(), [1]);
}
