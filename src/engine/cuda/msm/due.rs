//! Whether a pass over what has come is due. Pure: numbers in, a decision out.
//!
//! One more pass has a price, so few should be cut; but what waits is work that the device might
//! have done. A fast sender's first pass is as small as lets the device be busy until all is there,
//! and the second one takes the rest. A slow sender's passes are as small as their price allows, so
//! that little is left to do when the last scalar has come.

/// A pass that takes so much of the time until all is there lets the next one be the last: what the
/// rate so far says of that time is not exact.
const BRIDGES: f64 = 0.8;

/// Prices that a pass is worth at least, where it does not bridge that time. With 3 passes are a
/// fifth fewer, and the MSMs of the tests end up to 4 % later.
const PRICES: f64 = 2.0;

/// A pass that would bridge the time so soon waits until it does. In prices, too.
const SOON: f64 = 0.5;

/// Where an MSM of scalars that arrive stands. Times are in nanoseconds.
#[derive(Debug, Clone, Copy)]
pub struct Moment {
    /// Scalars in all.
    pub n: u32,
    /// Those that passes have taken.
    pub at: u32,
    /// Those that are there.
    pub until: u32,
    /// Since they began to come.
    pub elapsed: f64,
    /// Pieces that have come: there is a look at each, and the next one at the next.
    pub looks: u32,
    /// Until the device has done the passes that it was given.
    pub busy: f64,
    /// Of the whole MSM, if it were one pass.
    pub whole: f64,
    /// Of one more pass.
    pub price: f64,
}

impl Moment {
    /// How long the device computes with what is there and in no pass.
    pub fn own(&self) -> f64 {
        self.whole * f64::from(self.until - self.at) / f64::from(self.n)
    }

    /// Whether that is to be a pass now.
    pub fn is_due(&self) -> bool {
        let Self { n, at, until, elapsed, looks, busy, whole, price } = *self;
        if until == n || until == at {
            return at < until;
        }
        let left = elapsed * f64::from(n - until) / f64::from(until);
        let step = elapsed / f64::from(looks.max(1));
        // Later is better, unless the device would have nothing to do before the next look.
        if busy >= step || busy >= left {
            return false;
        }
        let (own, idle) = (self.own(), left - busy);
        if own.min(idle) <= price {
            return false;
        }
        // As time goes by, there is more to do and less to bridge.
        let rate = whole * f64::from(until) / f64::from(n) / elapsed;
        let bridges_in = (BRIDGES * idle - own - price) / (BRIDGES + rate);
        bridges_in <= 0.0 || own >= PRICES * price && bridges_in > SOON * price
    }
}

#[cfg(test)]
mod tests;
