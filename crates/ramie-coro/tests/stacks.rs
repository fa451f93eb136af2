//! Stacks: their cost, their guards, and the return of their memory.
//!
//! A program of its own, because it looks at the memory map of the whole process.

mod common;

use common::{child, child_under, is_child, page_size, resident_pages, use_stack};
use ramie_coro::{
    GuardKind, Stack, StackPool, StackSize, bare::BareCoroutine, guards, overflow::stack_of, stats,
};

fn pool() -> StackPool {
    StackPool::new(StackSize::default())
}

fn call_deep(stack: Stack, bytes: usize) -> Stack {
    let mut deep: BareCoroutine<(), (), u8> =
        BareCoroutine::with_stack(stack, move |_, ()| use_stack(bytes));
    deep.resume(());
    deep.into_stack().expect("it has returned")
}

#[test]
fn a_stack_knows_its_bounds() {
    let stack = pool().take().unwrap();
    let (limit, base) = (stack.limit().get(), stack.base().get());
    assert_eq!(limit % page_size(), 0);
    assert_eq!(base % 16, 0);
    assert_eq!(base - limit, stack.usable_bytes() + ramie_coro::GUARD_BYTES);
    assert!(stack.usable_bytes() + 2048 > stack.size().usable_bytes());
    for address in [limit, limit + ramie_coro::GUARD_BYTES, base - 1] {
        let found = stack_of(address).expect("it belongs to a stack");
        assert_eq!((found.limit(), found.base()), (limit, base));
    }
    let local = 0_u8;
    assert!(stack_of(&raw const local as usize).is_none());
}

#[test]
fn sizes_are_checked() {
    for bytes in [0, StackSize::MIN_BYTES - 1, StackSize::MAX_BYTES + 1, usize::MAX] {
        let error = StackSize::new(bytes).unwrap_err();
        assert!(error.is_bad_size() && error.to_string().contains("between 32768 and"), "{error}");
    }
    assert_eq!(StackSize::new(StackSize::MIN_BYTES + 1).unwrap().usable_bytes() % page_size(), 0);
}

#[test]
fn neighbours_differ_in_colour() {
    if !is_child() {
        return common::assert_success(&child("neighbours_differ_in_colour"));
    }
    let mut pool = pool();
    let stacks: Vec<_> = (0..24).map(|_| pool.take().unwrap()).collect();
    let mut colours: Vec<_> =
        stacks.iter().map(|stack| stack.size().usable_bytes() - stack.usable_bytes()).collect();
    colours.sort_unstable();
    colours.dedup();
    assert_eq!(colours.len(), 24, "{colours:?}");
    assert!(colours.iter().all(|colour| *colour < 1536), "{colours:?}");
}

#[test]
fn the_pool_gives_the_hottest_first() {
    let mut pool = pool();
    let (a, b) = (pool.take().unwrap(), pool.take().unwrap());
    let (base_a, base_b) = (a.base(), b.base());
    pool.put(a);
    pool.put(b);
    assert_eq!(pool.take().unwrap().base(), base_b);
    assert_eq!(pool.take().unwrap().base(), base_a);
}

#[test]
fn a_stack_of_another_size_returns_to_its_own_arena() {
    let mut pool = pool();
    let mut other = StackPool::new(StackSize::new(64 * 1024).unwrap());
    let len = pool.len();
    pool.put(other.take().unwrap());
    assert_eq!(pool.len(), len);
}

#[test]
fn a_small_program_guards_few_stacks() {
    if !is_child() {
        return common::assert_success(&child("a_small_program_guards_few_stacks"));
    }
    let _stack = pool().take().unwrap();
    assert_eq!(stats().made, 8);
}

#[test]
fn the_arena_is_guarded_and_has_no_huge_pages() {
    let stack = pool().take().unwrap();
    let flags = common::vm_flags(stack.base().get() - 1);
    assert!(flags.iter().any(|flag| flag == "nh"), "{flags:?}");
    if guards().kind() == GuardKind::Advice {
        assert!(flags.iter().any(|flag| flag == "gu"), "{flags:?}");
    }
}

/// In a process of its own, because it counts the stacks and mappings of the whole process.
fn hold_stacks(test: &str, count: usize) {
    if !is_child() {
        return common::assert_success(&child(test));
    }
    if guards().kind() == GuardKind::Protection {
        return common::skipped(guards().cause());
    }
    let (vmas, made) = (common::vma_count(), stats());
    let mut pool = pool();
    let start = std::time::Instant::now();
    let stacks: Vec<_> = (0..count).map(|_| pool.take().unwrap()).collect();
    let each = start.elapsed().as_nanos() / count as u128;
    let grown = common::vma_count() - vmas;
    println!("{count} stacks: {each} ns each, {grown} VMAs more");
    assert!(grown < 100, "{grown} VMAs for {count} stacks");
    assert!(stats().in_use >= made.in_use + count);
    assert!(stats().vmas_estimate < 100, "{:?}", stats());
    let first_and_last = [&stacks[0], &stacks[count - 1]];
    for stack in first_and_last {
        assert!(stack_of(stack.limit().get()).is_some());
    }
}

#[test]
fn a_hundred_thousand_stacks_take_few_vmas() {
    hold_stacks("a_hundred_thousand_stacks_take_few_vmas", 100_000);
}

#[test]
#[ignore = "takes half a gigabyte of page tables"]
fn a_million_stacks_take_few_vmas() {
    hold_stacks("a_million_stacks_take_few_vmas", 1_000_000);
}

#[test]
fn a_parked_shallow_coroutine_costs_one_page() {
    if common::memory_is_the_sanitizers() {
        return;
    }
    let mut pool = pool();
    for _ in 0..200 {
        let mut parked = BareCoroutine::with_stack(pool.take().unwrap(), |yielder, ()| {
            // SAFETY: on the coroutine's own stack.
            unsafe { yielder.suspend(()) };
        });
        parked.resume(());
        assert_eq!(resident_pages(parked.stack()), 1);
        assert_eq!(parked.stack().high_water_mark().div_ceil(page_size()), 1);
        parked.resume(());
        drop(parked.into_stack());
    }
}

#[test]
fn memory_is_released_on_demand() {
    let stack = call_deep(pool().take().unwrap(), 100_000);
    assert!((100_000..130_000).contains(&stack.high_water_mark()), "{}", stack.high_water_mark());
    let mut stack = stack;
    stack.release_memory(16 * 1024);
    assert!(stack.high_water_mark() < 16 * 1024 + page_size());
    assert!(resident_pages(&stack) <= 5);
    stack.release_memory(0);
    assert_eq!((resident_pages(&stack), stack.high_water_mark()), (0, 0));
}

#[test]
fn the_pool_gives_back_the_memory_of_a_deep_call() {
    let mut pool = pool();
    let mut stack = call_deep(pool.take().unwrap(), 150_000);
    for _ in 0..250 {
        pool.put(stack);
        stack = call_deep(pool.take().unwrap(), 100);
    }
    assert!(stack.high_water_mark() < 24 * 1024, "{}", stack.high_water_mark());
}

#[test]
fn trimming_gives_back_memory_and_stacks() {
    // In a process of its own, because other tests would take the returned stacks.
    if !is_child() {
        return common::assert_success(&child("trimming_gives_back_memory_and_stacks"));
    }
    let mut pool = pool();
    let stacks: Vec<_> = (0..20).map(|_| call_deep(pool.take().unwrap(), 50_000)).collect();
    let infos: Vec<_> =
        stacks.iter().map(|stack| stack_of(stack.base().get() - 1).unwrap()).collect();
    stacks.into_iter().for_each(|stack| pool.put(stack));
    pool.trim(2);
    assert_eq!(pool.len(), 2);
    let kept = infos.iter().filter(|info| info.high_water_mark() > 0).count();
    assert_eq!(kept, 2);
}

#[test]
fn a_dropped_stack_gives_its_memory_back() {
    // A size of its own, so that no other test takes the stack meanwhile.
    let mut pool = StackPool::new(StackSize::new(304 * 1024).unwrap());
    let stack = call_deep(pool.take().unwrap(), 100_000);
    let info = stack_of(stack.base().get() - 1).unwrap();
    assert!(info.high_water_mark() >= 100_000);
    drop(stack);
    assert_eq!(info.high_water_mark(), 0, "the stack keeps its pages");
}

/// Huge pages are refused explicitly, not only as an effect of `MAP_STACK` since Linux 6.7.
#[test]
fn huge_pages_are_refused_by_advice() {
    use seccompiler::{
        SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule,
    };
    if !is_child() {
        let output = child("huge_pages_are_refused_by_advice");
        return common::assert_signal(&output, libc::SIGSYS);
    }
    let advice = libc::MADV_NOHUGEPAGE as u64;
    let is_refusal =
        SeccompCondition::new(2, SeccompCmpArgLen::Dword, SeccompCmpOp::Eq, advice).unwrap();
    let rule = SeccompRule::new(vec![is_refusal]).unwrap();
    let filter = SeccompFilter::new(
        [(libc::SYS_madvise, vec![rule])].into(),
        SeccompAction::Allow,
        SeccompAction::KillProcess,
        std::env::consts::ARCH.try_into().unwrap(),
    );
    let program: seccompiler::BpfProgram = filter.unwrap().try_into().unwrap();
    seccompiler::apply_filter(&program).unwrap();
    drop(pool().take());
}

#[test]
fn a_dropped_stack_is_used_again() {
    if !is_child() {
        return common::assert_success(&child("a_dropped_stack_is_used_again"));
    }
    for _ in 0..100 {
        std::thread::spawn(|| drop(pool().take().unwrap())).join().unwrap();
    }
    assert_eq!(stats().made, 8);
    assert_eq!(stats().in_use, 0);
}

#[test]
fn stacks_are_exchanged_between_threads() {
    let mut pool = pool();
    let threads: Vec<_> = (0..4)
        .map(|at| {
            let stacks: Vec<_> = (0..100).map(|_| pool.take().unwrap()).collect();
            std::thread::spawn(move || {
                let mut pool = StackPool::new(StackSize::default());
                stacks.into_iter().for_each(|stack| pool.put(call_deep(stack, 1000 * at)));
            })
        })
        .collect();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
}

#[test]
fn without_guard_regions_mprotect_guards() {
    if !is_child() {
        let output = child("without_guard_regions_mprotect_guards");
        return common::assert_success(&output);
    }
    ramie_coro::force_protection();
    assert_eq!(guards().kind(), GuardKind::Protection);
    let limit = std::fs::read_to_string("/proc/sys/vm/max_map_count").unwrap();
    let limit: usize = limit.trim().parse().unwrap();
    let mut pool = pool();
    let mut stacks = Vec::new();
    let error = loop {
        match pool.take() {
            Ok(stack) => stacks.push(stack),
            Err(error) => break error,
        }
    };
    assert_eq!(stacks.len(), limit / 100 * 45);
    assert!(stats().vmas_estimate >= 2 * stacks.len(), "{:?}", stats());
    let sentence = error.to_string();
    assert!(error.is_guard_limit() && sentence.contains("vm.max_map_count"), "{sentence}");
    // No stack is lost: returned stacks are handed out again.
    pool.put(call_deep(stacks.pop().unwrap(), 1000));
    assert!(pool.take().is_ok());
}

#[test]
fn locked_memory_falls_back_to_mprotect() {
    if common::memory_is_the_sanitizers() {
        return;
    }
    if !is_child() {
        let output = child_under("ulimit -l unlimited", "locked_memory_falls_back_to_mprotect");
        return common::assert_success(&output);
    }
    // SAFETY: takes flags.
    if unsafe { libc::mlockall(libc::MCL_FUTURE) } != 0 {
        return common::skipped("memory may not be locked");
    }
    let small = StackSize::new(StackSize::MIN_BYTES).unwrap();
    let stack = StackPool::new(small).take();
    assert_eq!(guards().kind(), GuardKind::Protection);
    assert_eq!(guards().raw_os_error(), Some(libc::EINVAL));
    assert!(guards().cause().contains("mlockall"));
    assert!(stack.is_ok(), "{stack:?}");
}

#[test]
fn a_limit_on_address_space_is_an_error() {
    if common::memory_is_the_sanitizers() {
        return;
    }
    if !is_child() {
        let output = child_under("ulimit -v 1000000", "a_limit_on_address_space_is_an_error");
        return common::assert_success(&output);
    }
    let mut pool = pool();
    let mut stacks = Vec::new();
    let error = loop {
        match pool.take() {
            Ok(stack) => stacks.push(stack),
            Err(error) => break error,
        }
    };
    let sentence = error.to_string();
    assert!(error.is_out_of_memory() && sentence.contains("ulimit -v"), "{sentence}");
    assert_eq!(error.raw_os_error(), Some(libc::ENOMEM));
    assert_eq!(std::io::Error::from(error).kind(), std::io::ErrorKind::OutOfMemory);
    assert!(stacks.len() > 2000, "{}", stacks.len());
    drop(stacks.pop());
    assert!(pool.take().is_ok(), "what came back is handed out again");
}
