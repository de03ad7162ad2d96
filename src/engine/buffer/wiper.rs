//! Drops values on a background thread: wiping a large buffer would delay clients.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
};

use crate::sync::{
    OnceLock,
    mpsc::{Sender, channel},
    thread,
};

/// A thread that drops values in order. It starts with the first value. After the last clone of
/// this handle is gone, it drops the values that are left and ends.
#[derive(Clone, Default)]
pub struct Wiper(Arc<OnceLock<Option<Sender<Dropped>>>>);

type Dropped = Box<dyn Send>;

impl Wiper {
    /// Drops `value` on the thread, so that wiping gigabytes stalls no connection.
    pub fn drop_later(&self, value: impl Send + 'static) {
        let sender = self.0.get_or_init(|| {
            let (sender, values) = channel::<Dropped>();
            let thread = thread::Builder::new().name("capstan-wiper".into());
            // A panic is reported by its hook, and later values are still dropped here.
            let drop_one = |value| _ = catch_unwind(AssertUnwindSafe(|| drop(value)));
            thread.spawn(move || values.into_iter().for_each(drop_one)).is_ok().then_some(sender)
        });
        if let Some(sender) = sender {
            // If the thread is gone, the value comes back in the error and is dropped here.
            let _dropped_here_on_failure = sender.send(Box::new(value));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{cell::RefCell, sync::mpsc::RecvTimeoutError, time::Duration};

    use super::*;

    thread_local! {
        /// Dropped when its thread ends.
        static ON_THREAD: RefCell<Option<Sender<()>>> = const { RefCell::new(None) };
    }

    /// Moves its sender to the thread that drops it.
    struct MovesToThread(Option<Sender<()>>);

    impl Drop for MovesToThread {
        fn drop(&mut self) {
            ON_THREAD.set(self.0.take());
        }
    }

    #[test]
    fn a_panic_does_not_end_the_thread() {
        struct Panics;
        impl Drop for Panics {
            fn drop(&mut self) {
                panic!("a test of panics");
            }
        }
        /// Sends the name of the thread that drops it.
        struct NamesThread(Sender<Option<String>>);
        impl Drop for NamesThread {
            fn drop(&mut self) {
                let name = std::thread::current().name().map(str::to_owned);
                self.0.send(name).expect("the test waits");
            }
        }
        let (sender, receiver) = channel();
        let wiper = Wiper::default();
        wiper.drop_later(Panics);
        // A thread that ends would still drop the first one.
        for _ in 0..2 {
            wiper.drop_later(NamesThread(sender.clone()));
            assert_eq!(receiver.recv(), Ok(Some("capstan-wiper".to_owned())));
        }
    }

    #[test]
    fn the_thread_ends_with_the_last_handle() {
        let (sender, receiver) = channel();
        let wiper = Wiper::default();
        wiper.clone().drop_later(MovesToThread(Some(sender)));
        let early = receiver.recv_timeout(Duration::from_millis(50));
        assert_eq!(early, Err(RecvTimeoutError::Timeout), "the thread waits for more values");
        drop(wiper);
        assert!(receiver.recv().is_err(), "the thread has dropped its sender");
    }
}
