//! The choice of the driver, its reports, and its answers to refusals of the kernel.

use crate::support::{self, in_child, in_child_with, run};
use ramie_driver::{
    Choice, Config, Driver, Feature, FeatureSet, Kind, Op, Outcome, Profile, Topic,
    masked_from_env, probe_report,
};

#[test]
fn auto_takes_io_uring_where_it_works() {
    if !support::has_ring() {
        return;
    }
    let driver = Driver::open(Choice::Auto, &Config::default()).unwrap();
    assert_eq!(driver.kind(), Kind::Uring);
    assert!(driver.reason().contains("trial"), "{}", driver.reason());
    let caps = driver.caps();
    assert!(caps.sq_entries == 256 && caps.cq_entries >= 1024, "{caps:?}");
    // An older kernel lacks some, each with its feature.
    let is_lacking = |feature: Option<Feature>| feature.is_some_and(|of| !caps.features.has(of));
    assert!(caps.ops.iter().all(|op| op.supported || is_lacking(op.feature)), "{caps:?}");
    assert!(!caps.kernel.is_empty());
}

#[test]
fn a_masked_feature_is_not_used() {
    if !support::has_ring() {
        return;
    }
    for feature in Feature::ALL {
        let masked = FeatureSet::EMPTY.with(feature);
        let config = Config { masked, ..Config::small() };
        let mut driver = Driver::open(Choice::Uring, &config).unwrap();
        assert!(!driver.caps().features.has(feature), "{}", feature.name());
        assert_eq!(run(&mut driver, Op::Nop), 0);
    }
}

/// The lane boots the kernel of a profile, and names the profile.
#[test]
#[ignore = "run by .ci/older-kernel, on an older kernel"]
fn a_profile_masks_the_features_that_its_kernel_lacks() {
    let name = std::env::var("PROFILE").expect("set by .ci/older-kernel");
    let profile = Profile::ALL.into_iter().find(|profile| profile.name() == name).unwrap();
    let driver = Driver::open(Choice::Uring, &Config::default()).unwrap();
    for feature in Feature::ALL {
        let is_lacking = !driver.caps().features.has(feature);
        assert_eq!(is_lacking, profile.masked().has(feature), "{}", feature.name());
    }
}

#[test]
fn the_suite_is_run_under_each_profile() {
    let script = include_str!("../../../../.ci/profiles");
    for profile in Profile::ALL {
        let count = script.matches(profile.name()).count();
        assert!(count > 0, ".ci/profiles leaves out {}", profile.name());
    }
}

#[test]
fn feature_sets_add_and_subtract() {
    let set = FeatureSet::EMPTY.with(Feature::MsgRing).with(Feature::ExtArg);
    assert_eq!(set.iter().count(), 2);
    assert_eq!(set.minus(set), FeatureSet::EMPTY);
    assert_eq!(FeatureSet::all().iter().count(), Feature::ALL.len());
    assert!(!FeatureSet::all().without(Feature::MsgRing).has(Feature::MsgRing));
}

#[test]
fn the_report_names_all_checks() {
    if !support::has_ring() {
        return;
    }
    let report = probe_report();
    assert_eq!(report.driver, Some(Kind::Uring));
    assert!(report.cpus >= 1);
    let ring = report.checks.iter().find(|check| check.name == "io_uring").unwrap();
    assert_eq!((ring.topic, ring.outcome), (Topic::Driver, Outcome::Ok));
    assert!(report.checks.iter().any(|check| check.name == "DEFER_TASKRUN"));
    assert!(report.checks.iter().any(|check| check.topic == Topic::Op));
    let nofile = report.settings.iter().find(|setting| setting.name == "ulimit -n").unwrap();
    assert!(nofile.value.is_some_and(|value| value > 0));
    for check in &report.checks {
        assert_eq!(check.outcome == Outcome::Ok, check.cause.is_none(), "{check:?}");
        assert_eq!(check.cause.is_some(), check.cure.is_some());
    }
}

#[test]
fn the_environment_decides() {
    in_child("child_environment_uring", Some("uring"));
    in_child("child_environment_poll", Some("poll"));
    in_child("child_environment_nonsense", Some("kqueue"));
    in_child("child_environment_unset", None);
}

#[test]
#[ignore = "run in a child by the_environment_decides"]
fn child_environment_uring() {
    assert_eq!(Choice::from_env().unwrap(), Choice::Uring);
}

#[test]
#[ignore = "run in a child by the_environment_decides"]
fn child_environment_poll() {
    assert_eq!(Choice::from_env().unwrap(), Choice::Poll);
}

#[test]
#[ignore = "run in a child by the_environment_decides"]
fn child_environment_nonsense() {
    let sentence = Choice::from_env().unwrap_err().to_string();
    assert!(sentence.contains("kqueue") && sentence.contains("uring, poll or auto"), "{sentence}");
}

#[test]
#[ignore = "run in a child by the_environment_decides"]
fn child_environment_unset() {
    assert_eq!(Choice::from_env().unwrap(), Choice::Auto);
}

#[test]
fn the_environment_masks_features() {
    if !support::has_ring() {
        return;
    }
    let mask = |test, value| in_child_with(test, &[("RAMIE_CAPS", value)]);
    mask("child_masked", Some("linux-5.15,-ext_arg"));
    mask("child_mask_of_nonsense", Some("-multishto"));
    mask("child_unmasked", Some(""));
    mask("child_unmasked", None);
}

#[test]
#[ignore = "run in a child by the_environment_masks_features"]
fn child_masked() {
    let masked = Profile::LINUX_5_15.masked().with(Feature::ExtArg);
    assert_eq!(masked_from_env().unwrap(), masked);
    let mut driver = Driver::open(Choice::Uring, &Config::small()).unwrap();
    let caps = driver.caps();
    assert_eq!((caps.masked, caps.features.iter().any(|used| masked.has(used))), (masked, false));
    let unmasked = Config { masked: FeatureSet::EMPTY, ..Config::small() };
    let kernels = Driver::open(Choice::Uring, &unmasked).unwrap().caps().features;
    assert_eq!(caps.features, kernels.minus(masked));
    assert_eq!(run(&mut driver, Op::Nop), 0);
    let report = probe_report();
    for check in report.checks.iter().filter(|check| check.topic == Topic::Feature) {
        let feature = Feature::ALL.into_iter().find(|of| of.name() == check.name).unwrap();
        let says = check.cause.as_ref().is_some_and(|cause| cause.contains("RAMIE_CAPS"));
        assert_eq!(says, masked.has(feature), "{check:?}");
    }
}

#[test]
#[ignore = "run in a child by the_environment_masks_features"]
fn child_mask_of_nonsense() {
    let sentence = masked_from_env().unwrap_err().to_string();
    assert!(sentence.contains("-multishto") && sentence.contains("-msg_ring"), "{sentence}");
    // A driver is to be had all the same.
    let driver = Driver::open(Choice::Uring, &Config::small()).unwrap();
    assert_eq!(driver.caps().masked, FeatureSet::EMPTY);
}

#[test]
#[ignore = "run in a child by the_environment_masks_features"]
fn child_unmasked() {
    assert_eq!(masked_from_env().unwrap(), FeatureSet::EMPTY);
    assert_eq!(
        Driver::open(Choice::Uring, &Config::small()).unwrap().caps().masked.iter().next(),
        None
    );
}

/// Answers io_uring's three calls with `errno` from now on, in this thread.
fn forbid_io_uring(errno: i32) {
    use seccompiler::{SeccompAction, SeccompFilter, TargetArch};
    let calls = [libc::SYS_io_uring_setup, libc::SYS_io_uring_enter, libc::SYS_io_uring_register];
    let filter = SeccompFilter::new(
        calls.into_iter().map(|call| (call, Vec::new())).collect(),
        SeccompAction::Allow,
        SeccompAction::Errno(errno as u32),
        TargetArch::try_from(std::env::consts::ARCH).unwrap(),
    );
    let program: seccompiler::BpfProgram = filter.unwrap().try_into().unwrap();
    seccompiler::apply_filter(&program).unwrap();
}

#[test]
fn a_seccomp_filter_makes_auto_fall_back() {
    in_child("child_forbidden", None);
    in_child("child_absent", None);
}

#[test]
#[ignore = "run in a child by a_seccomp_filter_makes_auto_fall_back"]
fn child_forbidden() {
    forbid_io_uring(libc::EPERM);
    let mut driver = Driver::open(Choice::Auto, &Config::default()).unwrap();
    assert_eq!(driver.kind(), Kind::Poll);
    assert!(driver.reason().contains("seccomp"), "{}", driver.reason());
    assert_eq!(run(&mut driver, Op::Nop), 0);
    let error = Driver::open(Choice::Uring, &Config::default()).unwrap_err();
    assert_eq!(error.raw_os_error(), Some(libc::EPERM));
    let sentence = error.to_string();
    assert!(sentence.contains("seccomp") && sentence.contains("RAMIE_DRIVER=poll"), "{sentence}");
    let report = probe_report();
    assert_eq!(report.driver, Some(Kind::Poll));
    let ring = report.checks.iter().find(|check| check.name == "io_uring").unwrap();
    assert_eq!(ring.outcome, Outcome::Refused);
    assert!(ring.cause.as_ref().unwrap().contains("seccomp"));
}

#[test]
#[ignore = "run in a child by a_seccomp_filter_makes_auto_fall_back"]
fn child_absent() {
    forbid_io_uring(libc::ENOSYS);
    let driver = Driver::open(Choice::Auto, &Config::default()).unwrap();
    assert_eq!(driver.kind(), Kind::Poll);
    assert!(driver.reason().contains("kernel"), "{}", driver.reason());
    let report = probe_report();
    let ring = report.checks.iter().find(|check| check.name == "io_uring").unwrap();
    assert_eq!(ring.outcome, Outcome::Missing);
}

/// Shows this thread, and no other, a file in place of the sysctl; false where it may not.
fn pretend_io_uring_disabled(value: &str) -> bool {
    use std::ffi::CString;
    // SAFETY: concerns this thread alone.
    if unsafe { libc::unshare(libc::CLONE_NEWNS) } != 0 {
        return false;
    }
    let file = std::env::temp_dir().join(format!("ramie-sysctl-{}", std::process::id()));
    std::fs::write(&file, value).unwrap();
    let text = |path: &std::path::Path| CString::new(path.to_str().unwrap()).unwrap();
    let mount = |from: &str, to: &str, flags| {
        let (from, to) = (text(from.as_ref()), text(to.as_ref()));
        // SAFETY: the paths live across the call; no file system takes data.
        unsafe {
            libc::mount(from.as_ptr(), to.as_ptr(), std::ptr::null(), flags, std::ptr::null())
        }
    };
    let is_private = mount("none", "/", libc::MS_REC | libc::MS_PRIVATE) == 0;
    let sysctl = "/proc/sys/kernel/io_uring_disabled";
    let is_mounted = is_private && mount(file.to_str().unwrap(), sysctl, libc::MS_BIND) == 0;
    std::fs::remove_file(&file).unwrap();
    is_mounted
}

#[test]
fn a_sysctl_that_switches_io_uring_off_is_named() {
    in_child("child_switched_off_for_some", None);
    in_child("child_switched_off_for_all", None);
}

/// The kernel answers EPERM at 1 (to users outside the group) and at 2 (to all).
fn switched_off(value: &str, sentence: &str) {
    if !pretend_io_uring_disabled(value) {
        return support::skipped("this user may not mount over the sysctl");
    }
    forbid_io_uring(libc::EPERM);
    let mut driver = Driver::open(Choice::Auto, &Config::default()).unwrap();
    assert_eq!(driver.kind(), Kind::Poll);
    assert!(driver.reason().contains(sentence), "{}", driver.reason());
    assert_eq!(run(&mut driver, Op::Nop), 0);
    let error = Driver::open(Choice::Uring, &Config::default()).unwrap_err().to_string();
    assert!(error.contains(sentence) && error.contains("RAMIE_DRIVER=poll"), "{error}");
    let report = probe_report();
    let ring = report.checks.iter().find(|check| check.name == "io_uring").unwrap();
    assert_eq!(ring.outcome, Outcome::Refused);
    assert!(ring.cure.as_ref().unwrap().contains("set it to 0"), "{ring:?}");
}

#[test]
#[ignore = "run in a child by a_sysctl_that_switches_io_uring_off_is_named"]
fn child_switched_off_for_some() {
    switched_off("1\n", "is 1 and this user is not in kernel.io_uring_group");
}

#[test]
#[ignore = "run in a child by a_sysctl_that_switches_io_uring_off_is_named"]
fn child_switched_off_for_all() {
    switched_off("2\n", "the administrator has switched it off");
}

#[test]
fn memlock_limit() {
    in_child("child_no_locked_memory", None);
    in_child("child_short_of_locked_memory", None);
}

/// Kernels before 5.12 charge rings to the limit, later ones do not.
#[test]
#[ignore = "run in a child by memlock_limit"]
fn child_no_locked_memory() {
    let limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: a valid limit.
    assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_MEMLOCK, &limit) }, 0);
    let mut driver = Driver::open(Choice::Auto, &Config::default()).unwrap();
    assert_eq!(run(&mut driver, Op::Nop), 0);
}

#[test]
#[ignore = "run in a child by memlock_limit"]
fn child_short_of_locked_memory() {
    forbid_io_uring(libc::ENOMEM);
    let mut driver = Driver::open(Choice::Auto, &Config::default()).unwrap();
    assert_eq!(driver.kind(), Kind::Poll);
    assert_eq!(run(&mut driver, Op::Nop), 0);
    let error = Driver::open(Choice::Uring, &Config::default()).unwrap_err();
    assert_eq!(error.raw_os_error(), Some(libc::ENOMEM));
    assert!(error.to_string().contains("ulimit -l"), "{error}");
}

#[test]
fn too_few_descriptors_are_reported_in_one_sentence() {
    in_child("child_out_of_descriptors", None);
}

#[test]
#[ignore = "run in a child by too_few_descriptors_are_reported_in_one_sentence"]
fn child_out_of_descriptors() {
    let choices = [Choice::Auto].into_iter().chain(support::choices());
    // The next descriptor would be one too many.
    let mut files = vec![std::fs::File::open("/dev/null").unwrap()];
    let limit = libc::rlimit { rlim_cur: 64, rlim_max: 64 };
    // SAFETY: a valid limit.
    assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &limit) }, 0);
    while let Ok(file) = files[0].try_clone() {
        files.push(file);
    }
    for choice in choices {
        let error = Driver::open(choice, &Config::default()).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(libc::EMFILE));
        assert!(error.to_string().contains("ulimit -n"), "{error}");
    }
}
