//! The matrices that a worker has mapped.

use super::{
    link::{WorkerLink, WorkerLost},
    message::{ControlRequest, MapMatrixRequest},
};
use crate::{
    error::{Error, Result},
    region::SharedObject,
    sparse::{SparseMatrix, WeakMatrix},
    sync::Mutex,
};

/// The matrices that a worker has mapped, under numbers that only it uses.
#[derive(Default)]
pub struct SentMatrices(Mutex<SentMatrixList>);

#[derive(Default)]
struct SentMatrixList {
    matrices: Vec<SentMatrix>,
    last_number: u64,
}

struct SentMatrix {
    matrix: WeakMatrix,
    number: u64,
}

impl SentMatrixList {
    fn find(&self, matrix: &SparseMatrix) -> Option<u64> {
        let sent = self.matrices.iter().find(|sent| sent.matrix.is_of(matrix))?;
        Some(sent.number)
    }

    /// Removes the matrices that have been dropped. Returns their numbers.
    fn take_dropped(&mut self) -> Vec<u64> {
        let dropped = self.matrices.extract_if(.., |sent| !sent.matrix.is_alive());
        dropped.map(|sent| sent.number).collect()
    }
}

impl SentMatrices {
    /// Whether the worker has mapped `matrix`. False while it maps another one, since this does not
    /// wait.
    pub fn contains(&self, matrix: &SparseMatrix) -> bool {
        self.0.try_lock().is_some_and(|sent| sent.find(matrix).is_some())
    }

    /// The number of `matrix`, if the worker has mapped it.
    pub fn number_of(&self, matrix: &SparseMatrix) -> Option<u64> {
        self.0.lock().find(matrix)
    }

    /// Lets the worker unmap the matrices that have been dropped.
    pub fn unmap_dropped(&self, link: &WorkerLink) -> Result<(), WorkerLost> {
        unmap(link, self.0.lock().take_dropped())
    }

    /// The number of `matrix` in the worker, which maps it if it has not.
    pub fn number(
        &self,
        link: &WorkerLink,
        matrix: &SparseMatrix,
    ) -> Result<Result<u64>, WorkerLost> {
        // Single flight: the lock is held while the worker maps a matrix.
        let mut sent = self.0.lock();
        unmap(link, sent.take_dropped())?;
        if let Some(number) = sent.find(matrix) {
            return Ok(Ok(number));
        }
        let number = sent.last_number + 1;
        if let Err(error) = map(link, matrix, number)? {
            return Ok(Err(error));
        }
        sent.last_number = number;
        sent.matrices.push(SentMatrix { matrix: matrix.downgrade(), number });
        Ok(Ok(number))
    }
}

fn unmap(link: &WorkerLink, numbers: Vec<u64>) -> Result<(), WorkerLost> {
    for number in numbers {
        let _unmapped = link.control(&ControlRequest::DropMatrix(number), None)?;
    }
    Ok(())
}

fn map(link: &WorkerLink, matrix: &SparseMatrix, number: u64) -> Result<Result<()>, WorkerLost> {
    let internal =
        |problem: String| Error::Internal(format!("a worker cannot map a matrix: {problem}"));
    let shared = match SharedObject::of_matrix(matrix) {
        Ok(shared) => shared,
        Err(error) => return Ok(Err(internal(error.to_string()))),
    };
    let (file, offset) = shared.file();
    let request = MapMatrixRequest { object: number, shape: matrix.shape(), offset };
    let mapped = link.control(&ControlRequest::MapMatrix(request), Some(file))?;
    Ok(mapped.map(drop).map_err(internal))
}
