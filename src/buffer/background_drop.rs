//! Drops buffers on a background thread: zeroing a large one would delay clients.

use std::{
    sync::{
        OnceLock,
        mpsc::{Sender, channel},
    },
    thread,
};

/// Drops `buffer` on a background thread, so that wiping gigabytes stalls no connection.
pub fn drop_in_background(buffer: impl Send + 'static) {
    static WIPER: OnceLock<Option<Sender<Box<dyn Send>>>> = OnceLock::new();
    let wiper = WIPER.get_or_init(|| {
        let (sender, receiver) = channel::<Box<dyn Send>>();
        let thread = thread::Builder::new().name("capstan-wiper".into());
        thread.spawn(move || receiver.into_iter().for_each(drop)).is_ok().then_some(sender)
    });
    if let Some(wiper) = wiper {
        // If the thread is gone, the value comes back in the error and is dropped here.
        let _dropped_here_on_failure = wiper.send(Box::new(buffer));
    }
}
