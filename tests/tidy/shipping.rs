//! What is shipped: versions, build profiles and the systemd unit.

use crate::source::{read, shell_scripts};

/// A sum that wraps around would be a silently wrong result.
#[test]
fn shipped_builds_check_sums_for_overflow() {
    let manifest = read("Cargo.toml");
    for package in [
        "capstan",
        "capstan-cli",
        "capstan-client",
        "capstan-engine",
        "capstan-gpu",
        "capstan-identity",
        "capstan-math",
        "capstan-proofs",
        "capstan-proto",
        "capstan-region",
        "capstan-server",
    ] {
        let section = format!("[profile.release.package.{package}]\noverflow-checks = true\n");
        assert!(manifest.contains(&section), "{section}");
    }
    let most = std::hint::black_box(u32::MAX);
    let sum = std::panic::catch_unwind(|| most + std::hint::black_box(1));
    assert!(sum.is_err(), "this build does not check sums");
}

/// On systemd below 253, these settings hide the devices of GPUs: they set DevicePolicy to closed.
#[test]
fn the_systemd_unit_leaves_gpus_visible() {
    let unit = read("deploy/capstand.service");
    for line in unit.lines() {
        let hides = ["ProtectClock=", "PrivateDevices=", "DevicePolicy=", "DeviceAllow="];
        assert!(!hides.iter().any(|setting| line.starts_with(setting)), "{line}");
    }
}

/// systemd gives up after five failures within ten seconds, and treats a failure of ExecStartPre as
/// one that a restart may help, whatever the exit code.
#[test]
fn the_systemd_unit_waits_for_the_daemon_and_never_gives_up() {
    let unit = read("deploy/capstand.service");
    let has = |line: &str| unit.lines().any(|found| found == line);
    for line in ["Type=notify", "TimeoutStartSec=infinity", "StartLimitIntervalSec=0"] {
        assert!(has(line), "{line}");
    }
    assert!(has("Restart=on-failure") && has("RestartPreventExitStatus=64 78"));
    assert!(!unit.contains("ExecStartPre="));
}

#[test]
fn the_systemd_unit_lets_workers_restrict_themselves() {
    let unit = read("deploy/capstand.service");
    let filter = unit.lines().find_map(|line| line.strip_prefix("SystemCallFilter="));
    let calls = filter.expect("a filter of system calls").split_whitespace().collect::<Vec<_>>();
    let landlock = ["landlock_add_rule", "landlock_create_ruleset", "landlock_restrict_self"];
    for call in landlock.into_iter().chain(["seccomp"]) {
        assert!(calls.contains(&call), "{call}");
    }
}

/// The image listens on all interfaces. Who may use the Unix socket may not drain.
#[test]
fn shipped_files_let_no_stranger_call_and_no_caller_drain() {
    for file in ["deploy/Dockerfile", "deploy/compose.yaml", "deploy/capstand.service"] {
        let text = read(file);
        let lines: Vec<_> = text.lines().filter(|line| !line.trim().starts_with('#')).collect();
        let sets = |setting: &str| lines.iter().any(|line| line.contains(setting));
        assert!(!sets("CAPSTAN_INSECURE"), "{file} allows callers without credentials");
        assert!(!sets("CAPSTAN_ADMIN_OVER_TCP"), "{file} lets TCP peers drain");
        // The compose file uses the image.
        let is_image_used = file.ends_with("compose.yaml");
        assert!(is_image_used || sets("CAPSTAN_ADMIN_SOCKET=/"), "{file}: others could drain");
    }
}

/// Whether a line runs `pip install`, apart from its comment.
fn installs_by_pip(line: &str) -> bool {
    let code = line.split(" # ").next().unwrap_or_default();
    let words: Vec<_> = code.split_whitespace().collect();
    let is_pip =
        |word: &&str| word.trim_matches(['"', '\'', '(', '$']).rsplit('/').next() == Some("pip");
    let mut after_pip = words.iter().skip_while(|word| !is_pip(word)).skip(1);
    !code.trim_start().starts_with('#')
        && after_pip.find(|word| !word.starts_with('-')) == Some(&"install")
}

#[test]
fn installs_are_found_however_pip_is_called() {
    let runs = ["pip install x", "\"$bin/pip\" --quiet install x", "python3 -m pip install x"];
    for line in runs.into_iter().chain(["RUN pip install x", "(cd x && .venv/bin/pip install .)"]) {
        assert!(installs_by_pip(line), "{line}");
    }
    for line in ["# pip install x", "true # pip install x", "fail \"pip could not install\""] {
        assert!(!installs_by_pip(line), "{line}");
    }
}

/// A wheel that was replaced in the registry must not run here.
#[test]
fn wheels_are_installed_by_hash() {
    let mut installs = 0;
    for script in shell_scripts() {
        let text = read(&script).replace("\\\n", " ");
        for line in text.lines().filter(|line| installs_by_pip(line)) {
            // The client's wheel has just been built here.
            let is_own = line.contains("--no-deps \"$environment\"/wheel/");
            assert!(is_own || line.contains("--require-hashes"), "{script}: {line}");
            installs += usize::from(!is_own);
        }
    }
    assert!(read("scripts/sbom").contains("\"--require-hashes\"") && installs >= 5);
    let lists = ["deploy", "linters", "nvcc", "nvcc-tools", "proxies", "sbom"];
    for list in lists.into_iter().chain(["python-build", "python-test"]) {
        let text = read(&format!("scripts/wheels/{list}.txt"));
        let lines: Vec<_> = text.lines().filter(|line| !line.starts_with('#')).collect();
        assert!(!lines.is_empty(), "{list}");
        for (at, package) in lines.iter().enumerate().filter(|(_, line)| !line.starts_with(' ')) {
            let has_hash = lines.get(at + 1).is_some_and(|line| line.contains("--hash=sha256:"));
            assert!(has_hash, "{list}: {package}");
        }
    }
}

/// Everything that is released has one version, and the changelog begins with it.
#[test]
fn shipped_versions_agree() {
    let version = env!("CARGO_PKG_VERSION");
    // Internals of packages may change with every version.
    let package = |name: &str| {
        format!("capstan-{name} = {{ path = \"src/{name}\", version = \"={version}\" }}")
    };
    for (file, line) in [
        ("Cargo.toml", package("client")),
        ("Cargo.toml", package("engine")),
        ("Cargo.toml", package("gpu")),
        ("Cargo.toml", package("identity")),
        ("Cargo.toml", package("math")),
        ("Cargo.toml", package("proofs")),
        ("Cargo.toml", package("proto")),
        ("Cargo.toml", package("region")),
        ("Cargo.toml", package("server")),
        ("deploy/Dockerfile", format!("ARG VERSION={version}")),
        ("deploy/helm/capstan/Chart.yaml", format!("appVersion: {version}")),
        ("python/pyproject.toml", format!("version = \"{version}\"")),
        ("integrations/arkworks/Cargo.toml", format!("version = \"{version}\"")),
    ] {
        assert!(read(file).lines().any(|found| found == line), "{file} has no line `{line}`");
    }
    let changes = read("CHANGELOG.md");
    let heading = changes.lines().find_map(|line| line.strip_prefix("## ")).expect("a heading");
    let is_current = heading == "Unreleased" || heading.starts_with(&format!("{version} ("));
    assert!(is_current, "CHANGELOG.md begins with {heading}");
}
