//! Zeroing a large buffer takes a while, and the threads that drop one have clients waiting.

use std::{
    sync::{
        OnceLock,
        mpsc::{Sender, channel},
    },
    thread,
};

/// Drops `corpse` on a thread of its own, so that wiping gigabytes stalls no connection.
pub fn bury(corpse: impl Send + 'static) {
    static GRAVE: OnceLock<Option<Sender<Box<dyn Send>>>> = OnceLock::new();
    let grave = GRAVE.get_or_init(|| {
        let (sender, receiver) = channel::<Box<dyn Send>>();
        let digger = thread::Builder::new().name("capstan-reaper".into());
        digger.spawn(move || receiver.into_iter().for_each(drop)).is_ok().then_some(sender)
    });
    if let Some(grave) = grave {
        // Where the thread is gone, the value comes back in the error and is dropped here.
        let _dropped_here_on_failure = grave.send(Box::new(corpse));
    }
}
