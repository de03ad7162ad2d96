//! The daemon's settings.

use std::iter;

use capstan::config::{SettingValues, command};

use super::credentials::with_file;
use crate::driver::{MemoryBound, Target};

/// Reads settings from a file, and checks them as a whole.
fn read(bytes: &[u8]) -> Option<SettingValues> {
    with_file(bytes, |path| {
        let path = path.to_str().expect("a path in UTF-8");
        let flags = command().try_get_matches_from(["capstand", "--config", path]);
        let read = SettingValues::read(&flags.expect("one flag"), iter::empty());
        read.map_err(|problems| assert!(!problems.is_empty())).ok()
    })
}

fn check(input: &[u8]) {
    let Some(values) = read(input) else { return };
    let _usable = values.check();
    let printed = values.to_toml();
    let again = read(printed.as_bytes()).expect("printed settings are settings");
    assert_eq!(again.to_toml(), printed);
}

#[test]
fn settings_file() {
    let seeds = vec![
        b"jobs_max = 7\nbytes_in_flight_max = \"2 GiB\"\nlisten = \"127.0.0.1:1\"\n".to_vec(),
        b"log_level = \"warn,capstan=debug\"\nunix_socket = \"/run/a\"\ncuda_devices = \"0,2\"\n\
          insecure = true\nunix_socket_mode = \"0660\"\ndata_dir = \"none\"\n"
            .to_vec(),
    ];
    let words = &[
        "workers = 3\n",
        "idle_timeout_ms = 100\n",
        "auth_tokens = \"/a\"\n",
        "auto",
        "none",
        " KiB",
        "\\n",
        "\\\\",
        "\\\"",
        "[a]\n",
        "9_9",
    ];
    // The command's own table of flags.
    let memory = MemoryBound { per_byte: 2048, always: 2 << 20 };
    Target { name: "settings_file", seeds, words, check, cases: 500, memory }.run();
}
