//! A scope that can be cancelled, and its members: strands, and scopes inside.
#![allow(unsafe_code)]

use std::{
    borrow::Cow,
    cell::{Cell, OnceCell},
    ptr,
    sync::{Arc, OnceLock},
};

use super::{Cancelled, frame};
use crate::core::{
    primitive::{AtomicBool, Ordering, fence},
    spin_lock::SpinLock,
    strand::{FiberId, StrandHeader, header_at},
    worker,
};

pub(crate) struct Node {
    is_cancelled: AtomicBool,
    reason: OnceLock<Cow<'static, str>>,
    members: SpinLock<ScopeMembers>,
}

/// The number of members that are notified between two holds of the lock.
const BATCH: usize = 16;

/// The members of a scope that have not been notified of its cancellation, and those that have.
struct ScopeMembers {
    waiting: List,
    notified: List,
}

/// A member that is notified of a cancellation.
enum Target {
    /// A strand, whose wait is ended.
    Strand(FiberId),
    /// A scope inside, which is cancelled, too.
    Scope(Arc<Node>),
}

/// An entry in a list of members, in the frame of the strand that is in the scope.
struct ScopeMember {
    target: Target,
    is_notified: Cell<bool>,
    next: Cell<*const ScopeMember>,
    previous: Cell<*const ScopeMember>,
}

impl ScopeMember {
    fn new(target: Target) -> Self {
        ScopeMember {
            target,
            is_notified: Cell::new(false),
            next: Cell::new(ptr::null()),
            previous: Cell::new(ptr::null()),
        }
    }
}

/// The place of a strand among the members of a scope that it has entered. The strand joins when it
/// first waits in the scope, because most calls in a scope never wait, and a cancellation has
/// nothing to end before.
pub(super) struct StrandMembership {
    /// The entry, once the strand is a member.
    member: OnceCell<ScopeMember>,
}

impl StrandMembership {
    pub(super) const fn new() -> Self {
        StrandMembership { member: OnceCell::new() }
    }

    /// Makes the current strand a member.
    ///
    /// # Safety
    /// Each call names the same node, and this stays where it is until it has
    /// [left](Self::leave) that node.
    pub(super) unsafe fn join(&self, node: &Node) {
        if self.member.get().is_some() {
            return;
        }
        let strand = worker::current().current_header().id();
        let member = self.member.get_or_init(|| ScopeMember::new(Target::Strand(strand)));
        // SAFETY: the caller's promise; the member has just been made.
        unsafe { node.add(member) };
    }

    /// Ends the membership, if there is one, for good.
    pub(super) fn leave(&self, node: &Node) {
        if let Some(member) = self.member.get() {
            node.remove(member);
        }
    }
}

/// INVARIANT: links members that are alive, because `Node::with_member` and
/// `StrandMembership::leave` take a member off before its frame is left.
struct List {
    first: *const ScopeMember,
    last: *const ScopeMember,
}

// SAFETY: the lists are touched only under the lock of the node, and so are the cells of members.
unsafe impl Send for ScopeMembers {}

impl List {
    const fn new() -> Self {
        List { first: ptr::null(), last: ptr::null() }
    }

    /// # Safety
    /// The member stays where it is until it was removed, and is in no list.
    unsafe fn push(&mut self, member: *const ScopeMember) {
        // SAFETY: the caller's promise.
        let entry = unsafe { &*member };
        entry.next.set(ptr::null());
        entry.previous.set(self.last);
        // SAFETY: members in a list are alive.
        match unsafe { self.last.as_ref() } {
            Some(last) => last.next.set(member),
            None => self.first = member,
        }
        self.last = member;
    }

    fn remove(&mut self, member: &ScopeMember) {
        let (previous, next) = (member.previous.get(), member.next.get());
        debug_assert!(!previous.is_null() || ptr::eq(self.first, member), "in another list");
        debug_assert!(!next.is_null() || ptr::eq(self.last, member), "in another list");
        // SAFETY: neighbours in a list are alive.
        match unsafe { previous.as_ref() } {
            Some(previous) => previous.next.set(next),
            None => self.first = next,
        }
        // SAFETY: as above.
        match unsafe { next.as_ref() } {
            Some(next) => next.previous.set(previous),
            None => self.last = previous,
        }
    }
}

impl ScopeMembers {
    /// Takes the next member that has not been notified.
    fn next_unnotified(&mut self) -> Option<&ScopeMember> {
        // SAFETY: members in a list are alive.
        let member = unsafe { self.waiting.first.as_ref() }?;
        self.waiting.remove(member);
        // SAFETY: the member does not move, and was just taken off the other list.
        unsafe { self.notified.push(member) };
        member.is_notified.set(true);
        Some(member)
    }
}

/// The fence between a wait's beginning and the look at the marks; see the protocol in
/// `cancel/mod.rs`.
#[inline]
pub(crate) fn fence_after_begin() {
    fence(Ordering::SeqCst);
}

impl Node {
    pub(super) fn new() -> Self {
        Node {
            is_cancelled: AtomicBool::new(false),
            reason: OnceLock::new(),
            members: SpinLock::new(ScopeMembers { waiting: List::new(), notified: List::new() }),
        }
    }

    #[inline]
    pub(super) fn is_cancelled(&self) -> bool {
        // Acquire: the reason is visible.
        self.is_cancelled.load(Ordering::Acquire)
    }

    pub(super) fn cause(&self) -> Option<Cancelled> {
        let reason = self.is_cancelled().then(|| self.reason.get()).flatten()?;
        Some(Cancelled::requested(reason.clone()))
    }

    /// Runs `f` while this scope is cancelled with the scope around the current strand.
    pub(super) fn enter<T>(this: &Arc<Node>, f: impl FnOnce() -> T) -> T {
        match Node::around() {
            None => f(),
            Some(outer) => Node::under(&outer, this, f),
        }
    }

    /// The scope around the current strand.
    pub(super) fn around() -> Option<Arc<Node>> {
        frame::snapshot().and_then(frame::InheritedLimits::into_node)
    }

    /// Runs `f` while `inner` is cancelled with `outer`.
    pub(super) fn under<T>(outer: &Arc<Node>, inner: &Arc<Node>, f: impl FnOnce() -> T) -> T {
        outer.with_member(Target::Scope(Arc::clone(inner)), || {
            // The outer scope may have been cancelled before this node was on its list.
            if let Some(reason) = outer.is_cancelled().then(|| outer.reason.get()).flatten() {
                inner.mark(reason.clone());
            }
            f()
        })
    }

    fn with_member<T>(&self, target: Target, f: impl FnOnce() -> T) -> T {
        struct Leave<'a>(&'a Node, &'a ScopeMember);
        impl Drop for Leave<'_> {
            fn drop(&mut self) {
                self.0.remove(self.1);
            }
        }
        let member = ScopeMember::new(target);
        // SAFETY: the member lies in this frame, which is left only through `Leave`.
        unsafe { self.add(&member) };
        let _leave = Leave(self, &member);
        f()
    }

    /// # Safety
    /// The member stays where it is until it was removed, and is in no list.
    unsafe fn add(&self, member: &ScopeMember) {
        // SAFETY: the caller's promise.
        unsafe { self.members.lock().waiting.push(member) };
    }

    fn remove(&self, member: &ScopeMember) {
        let mut members = self.members.lock();
        match member.is_notified.get() {
            true => members.notified.remove(member),
            false => members.waiting.remove(member),
        }
    }

    /// Marks the node; returns whether it was not marked yet.
    fn mark(&self, reason: Cow<'static, str>) -> bool {
        let is_first = self.reason.set(reason).is_ok();
        if is_first {
            // Release: the reason is visible to a strand that sees the mark.
            self.is_cancelled.store(true, Ordering::Release);
        }
        is_first
    }

    /// Cancels this scope and those inside; returns whether it was the first to do so.
    pub(super) fn cancel(self: &Arc<Node>, reason: Cow<'static, str>) -> bool {
        if !self.mark(reason) {
            return false;
        }
        worker::note_cancel(Arc::as_ptr(self).cast());
        let mut marked = vec![Arc::clone(self)];
        while let Some(node) = marked.pop() {
            node.notify_members(&mut marked);
        }
        true
    }

    /// Ends the waits of the strands in this node, and marks the nodes inside.
    fn notify_members(&self, marked: &mut Vec<Arc<Node>>) {
        let Some(reason) = self.reason.get() else { return };
        // The fence between the mark and the look at the members' waits: see the protocol.
        fence(Ordering::SeqCst);
        let mut is_done = false;
        while !is_done {
            let mut woken: [Option<&'static StrandHeader>; BATCH] = [None; BATCH];
            let mut members = self.members.lock();
            for place in &mut woken {
                let Some(member) = members.next_unnotified() else {
                    is_done = true;
                    break;
                };
                match &member.target {
                    Target::Strand(id) => {
                        let header = header_at(id.index());
                        *place = header.cancel(id.generation()).then_some(header);
                    }
                    Target::Scope(node) if node.mark(reason.clone()) => {
                        marked.push(Arc::clone(node))
                    }
                    Target::Scope(_) => {}
                }
            }
            drop(members);
            woken.into_iter().flatten().for_each(worker::schedule);
        }
    }
}
