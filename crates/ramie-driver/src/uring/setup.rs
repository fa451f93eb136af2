//! Making a ring: the first attempt requests all flags, and each flag that the kernel refuses is
//! given up.

use std::io;
use std::os::fd::AsRawFd;
use std::sync::OnceLock;

use io_uring::{IoUring, Probe, opcode};
use rustix::io::Errno;

use super::buffer_ring;
use super::registered_ring::RegisteredRing;
use super::submitter_thread;
use crate::caps::{Caps, OpSupport, Refusal};
use crate::choice::Kind;
use crate::config::Config;
use crate::feature::{Feature, FeatureSet};
use crate::mask;
use crate::submitter::Submitter;

/// The largest queue that the kernel allows.
const MAX_ENTRIES: u32 = 32_768;
/// The smallest queue that is tried when memory is short.
const MIN_ENTRIES: u32 = 4;

/// The longest time for which a kernel thread polls without finding an entry: a minute.
const MAX_IDLE_MS: u128 = 60_000;

/// The flags of io_uring_setup(2), in the order in which they are given up: newest first.
const GIVEN_UP: [Feature; 7] = [
    Feature::NoSqArray,
    Feature::DeferTaskrun,
    Feature::SingleIssuer,
    Feature::CoopTaskrun,
    Feature::TaskrunFlag,
    Feature::SubmitAll,
    Feature::CqSize,
];

/// Makes a ring with all features that the kernel has; returns the ring and its features.
///
/// # Errors
/// The kernel refuses even the plainest ring: `EPERM`, `ENOSYS`, `ENOMEM`, `EMFILE`.
pub(super) fn ring(config: &Config) -> io::Result<(IoUring, Caps)> {
    let mut entries = config.entries.clamp(1, MAX_ENTRIES).next_power_of_two();
    let masked = config.masked.plus(mask::of_drivers());
    let unfit = submitter_thread::unfit_for(config.submitter);
    let mut features = consistent(FeatureSet::all().minus(masked).minus(unfit));
    let mut refused = Vec::new();
    let ring = loop {
        let error = match build(entries, config, features) {
            Ok(ring) => break ring,
            Err(error) => error,
        };
        match Errno::from_io_error(&error) {
            Some(Errno::INVAL) => {
                let given_up = GIVEN_UP.into_iter().find(|feature| features.has(*feature));
                let Some(feature) = given_up else { return Err(error) };
                refused.push(Refusal { feature, errno: Some(Errno::INVAL) });
                features = consistent(features.without(feature));
            }
            // Kernels before 5.12 charge rings to `ulimit -l`; a smaller ring may fit.
            Some(Errno::NOMEM) if entries > MIN_ENTRIES => entries /= 2,
            _ => return Err(error),
        }
    };
    let mut caps = Caps {
        kernel: crate::sys::kernel_release(),
        kind: Kind::Uring,
        submitter: config.submitter,
        features,
        masked,
        refused,
        ops: Vec::new(),
        sq_entries: ring.params().sq_entries(),
        cq_entries: ring.params().cq_entries(),
    };
    note_what_is_not_a_flag(&ring, &mut caps);
    Ok((ring, caps))
}

/// Removes features that need another feature which is missing.
fn consistent(mut features: FeatureSet) -> FeatureSet {
    // Without the flag by which the kernel announces them, detecting deferred or cooperative
    // completions would cost a system call.
    if !features.has(Feature::TaskrunFlag) {
        features = features.without(Feature::DeferTaskrun).without(Feature::CoopTaskrun);
    }
    if !features.has(Feature::SingleIssuer) {
        features = features.without(Feature::DeferTaskrun);
    }
    if !features.has(Feature::DeferTaskrun) && !features.has(Feature::CoopTaskrun) {
        features = features.without(Feature::TaskrunFlag);
    }
    features
}

fn build(entries: u32, config: &Config, features: FeatureSet) -> io::Result<IoUring> {
    let mut builder = IoUring::builder();
    builder.dontfork();
    if features.has(Feature::CqSize) {
        builder.setup_clamp().setup_cqsize(config.cq_entries.max(entries.saturating_mul(4)));
    }
    if features.has(Feature::SubmitAll) {
        builder.setup_submit_all();
    }
    if features.has(Feature::SingleIssuer) {
        builder.setup_single_issuer();
    }
    if features.has(Feature::DeferTaskrun) {
        builder.setup_defer_taskrun().setup_taskrun_flag();
    } else if features.has(Feature::CoopTaskrun) {
        builder.setup_coop_taskrun().setup_taskrun_flag();
    }
    if features.has(Feature::NoSqArray) {
        builder.setup_no_sqarray();
    }
    if let Submitter::KernelThread { idle } = config.submitter {
        // At least 1, because 0 would mean the kernel's own default, a second.
        let idle_ms = idle.as_nanos().div_ceil(1_000_000).clamp(1, MAX_IDLE_MS);
        builder.setup_sqpoll(idle_ms as u32);
    }
    builder.build(entries)
}

/// The op codes that the driver uses, with the kernel's names and the feature that needs each; None
/// if the driver cannot work without it.
const OPS: [(&str, u8, Option<Feature>); 48] = [
    ("NOP", opcode::Nop::CODE, None),
    ("READ", opcode::Read::CODE, None),
    ("WRITE", opcode::Write::CODE, None),
    ("READV", opcode::Readv::CODE, None),
    ("WRITEV", opcode::Writev::CODE, None),
    ("RECV", opcode::Recv::CODE, None),
    ("SEND", opcode::Send::CODE, None),
    ("RECVMSG", opcode::RecvMsg::CODE, None),
    ("SENDMSG", opcode::SendMsg::CODE, None),
    ("ACCEPT", opcode::Accept::CODE, None),
    ("CONNECT", opcode::Connect::CODE, None),
    ("POLL_ADD", opcode::PollAdd::CODE, None),
    ("OPENAT", opcode::OpenAt::CODE, None),
    ("OPENAT2", opcode::OpenAt2::CODE, None),
    ("CLOSE", opcode::Close::CODE, None),
    ("STATX", opcode::Statx::CODE, None),
    ("FSYNC", opcode::Fsync::CODE, None),
    ("FALLOCATE", opcode::Fallocate::CODE, None),
    ("FADVISE", opcode::Fadvise::CODE, None),
    ("SPLICE", opcode::Splice::CODE, None),
    ("TIMEOUT", opcode::Timeout::CODE, None),
    ("ASYNC_CANCEL", opcode::AsyncCancel::CODE, None),
    ("TEE", opcode::Tee::CODE, Some(Feature::Tee)),
    ("SHUTDOWN", opcode::Shutdown::CODE, Some(Feature::Shutdown)),
    ("READ_FIXED", opcode::ReadFixed::CODE, Some(Feature::Regions)),
    ("WRITE_FIXED", opcode::WriteFixed::CODE, Some(Feature::Regions)),
    ("SEND_ZC", opcode::SendZc::CODE, Some(Feature::ZeroCopy)),
    ("SENDMSG_ZC", opcode::SendMsgZc::CODE, Some(Feature::ZeroCopy)),
    ("RENAMEAT", opcode::RenameAt::CODE, Some(Feature::PathCalls)),
    ("UNLINKAT", opcode::UnlinkAt::CODE, Some(Feature::PathCalls)),
    ("MKDIRAT", opcode::MkDirAt::CODE, Some(Feature::PathCalls)),
    ("SYMLINKAT", opcode::SymlinkAt::CODE, Some(Feature::PathCalls)),
    ("LINKAT", opcode::LinkAt::CODE, Some(Feature::PathCalls)),
    ("MSG_RING", opcode::MsgRingData::CODE, Some(Feature::MsgRing)),
    ("SOCKET", opcode::Socket::CODE, Some(Feature::Socket)),
    ("FSETXATTR", opcode::FSetXattr::CODE, Some(Feature::Xattr)),
    ("SETXATTR", opcode::SetXattr::CODE, Some(Feature::Xattr)),
    ("FGETXATTR", opcode::FGetXattr::CODE, Some(Feature::Xattr)),
    ("GETXATTR", opcode::GetXattr::CODE, Some(Feature::Xattr)),
    ("FUTEX_WAIT", opcode::FutexWait::CODE, Some(Feature::Futex)),
    ("FUTEX_WAKE", opcode::FutexWake::CODE, Some(Feature::Futex)),
    ("WAITID", opcode::WaitId::CODE, Some(Feature::WaitId)),
    ("FIXED_FD_INSTALL", opcode::FixedFdInstall::CODE, Some(Feature::InstallFd)),
    ("FTRUNCATE", opcode::Ftruncate::CODE, Some(Feature::Truncate)),
    ("BIND", opcode::Bind::CODE, Some(Feature::BindListen)),
    ("LISTEN", opcode::Listen::CODE, Some(Feature::BindListen)),
    ("EPOLL_WAIT", opcode::EpollWait::CODE, Some(Feature::EpollWait)),
    ("PIPE", opcode::Pipe::CODE, Some(Feature::Pipe)),
];

/// Refuses a ring that lacks an op code without which the driver cannot work. Linux 5.7 has all of
/// them.
pub(super) fn require_ops(caps: &Caps) -> io::Result<()> {
    let is_missing = |op: &OpSupport| !op.supported && op.feature.is_none();
    if caps.ops.iter().any(is_missing) { Err(Errno::NOSYS.into()) } else { Ok(()) }
}

/// Chooses how this thread enters the ring.
pub(super) fn registered_ring(ring: &IoUring, caps: &mut Caps) -> RegisteredRing {
    let feature = Feature::RegisteredRing;
    let mut registered_ring = RegisteredRing::new(ring.as_raw_fd());
    if caps.features.has(feature)
        && let Err(errno) = registered_ring.register()
    {
        caps.features = caps.features.without(feature);
        caps.refused.push(Refusal { feature, errno: Some(errno) });
    }
    registered_ring
}

fn note_what_is_not_a_flag(ring: &IoUring, caps: &mut Caps) {
    let mut probe = Probe::new();
    // Without a probe (before 5.6) every op counts as missing, and the ring is refused below.
    let probed = ring.submitter().register_probe(&mut probe).is_ok();
    let supports = |code| probed && probe.is_supported(code);
    // A loop and not `OPS.map`, because `map` would be unrolled and take the optimizer minutes.
    for (name, code, feature) in &OPS {
        let supported = supports(*code);
        caps.ops.push(OpSupport { name, supported, feature: *feature });
    }
    let missing = caps.ops.iter().filter(|op| !op.supported).filter_map(|op| op.feature);
    let mut lacking = missing.fold(FeatureSet::EMPTY, FeatureSet::with);
    if !ring.params().is_feature_ext_arg() {
        lacking = lacking.with(Feature::ExtArg);
    }
    if !ring.params().is_feature_recvsend_bundle() {
        lacking = lacking.with(Feature::Bundle);
    }
    // The kernel got multishot receives in the same release as this op.
    if !supports(opcode::SendZc::CODE) {
        lacking = lacking.with(Feature::Multishot);
    }
    // The kernel got file tables with empty entries in the same release as this op.
    if !supports(opcode::Socket::CODE) {
        lacking = lacking.with(Feature::FixedFiles);
    }
    static BUFFERS: OnceLock<FeatureSet> = OnceLock::new();
    lacking = lacking.plus(*BUFFERS.get_or_init(|| buffer_ring::lacking(ring)));
    let used = caps.features;
    for feature in lacking.iter().filter(|feature| used.has(*feature)) {
        caps.features = caps.features.without(feature);
        caps.refused.push(Refusal { feature, errno: None });
    }
}
