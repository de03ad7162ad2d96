//! The bases that a worker has mapped.

use std::io;

use parking_lot::Mutex;

use super::{
    link::{WorkerLink, WorkerLost},
    message::{ControlRequest, MapBasesRequest, NamedBases},
};
use crate::{
    curve::points::{Bases, WeakOwner},
    error::{Error, Result},
    region::SharedBases,
};

/// The objects that a worker has mapped, under numbers that only it uses.
#[derive(Default)]
pub struct SentBases(Mutex<SentObjects>);

#[derive(Default)]
struct SentObjects {
    objects: Vec<SentObject>,
    last_number: u64,
}

struct SentObject {
    owner: WeakOwner,
    number: u64,
}

impl SentBases {
    /// Whether the worker has mapped the object that `bases` are part of.
    pub fn contains(&self, bases: &Bases) -> bool {
        self.0.lock().objects.iter().any(|object| object.owner.owns(bases))
    }

    /// The name of `bases` in the worker, which maps their object if it has not. Objects that have
    /// been dropped since are unmapped.
    pub fn name(&self, link: &WorkerLink, bases: &Bases) -> Result<Result<NamedBases>, WorkerLost> {
        // Single flight: the lock is held while the worker maps an object.
        let mut sent = self.0.lock();
        let dropped: Vec<_> =
            sent.objects.extract_if(.., |object| !object.owner.is_alive()).collect();
        for SentObject { number, .. } in dropped {
            let _unmapped = link.control(&ControlRequest::DropBases(number), None)?;
        }
        let known = sent.objects.iter().find(|object| object.owner.owns(bases));
        let object = match known {
            Some(object) => object.number,
            None => {
                let number = sent.last_number + 1;
                if let Err(error) = map(link, bases, number)? {
                    return Ok(Err(error));
                }
                sent.last_number = number;
                sent.objects.push(SentObject { owner: WeakOwner::of(bases), number });
                number
            }
        };
        let (start, len) = (bases.offset_in_owner() as u64, bases.len() as u64);
        Ok(Ok(NamedBases { object, start, len }))
    }
}

/// Lets the worker map all points of the object.
fn map(link: &WorkerLink, bases: &Bases, number: u64) -> Result<Result<()>, WorkerLost> {
    let internal =
        |problem: String| Error::Internal(format!("a worker cannot map bases: {problem}"));
    let shared = match SharedBases::new(bases) {
        Ok(shared) => shared,
        Err(error) => return Ok(Err(internal(error.to_string()))),
    };
    let Some((file, offset)) = shared.file() else {
        return Ok(Err(internal(io::Error::from(io::ErrorKind::NotFound).to_string())));
    };
    let request = MapBasesRequest { object: number, group: bases.group(), offset };
    let mapped = link.control(&ControlRequest::MapBases(request), Some(file))?;
    Ok(mapped.map(drop).map_err(internal))
}
