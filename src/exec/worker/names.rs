//! Names from messages, where the code expects constants.

use std::collections::BTreeSet;

use parking_lot::Mutex;

/// Names of stages and engines: there are few, since they are constants of this same program.
static NAMES: Mutex<BTreeSet<&'static str>> = Mutex::new(BTreeSet::new());

/// The same name with a static lifetime.
pub fn static_name(name: &str) -> &'static str {
    let mut names = NAMES.lock();
    if let Some(known) = names.get(name) {
        return known;
    }
    let added: &'static str = Box::leak(name.to_owned().into_boxed_str());
    names.insert(added);
    added
}
