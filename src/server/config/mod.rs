//! The daemon's configuration, from a file, `CAPSTAN_*` variables and flags. `settings` lists every
//! setting. Only the binary reads the configuration; other modules receive values.

mod checks;
mod command;
mod kubernetes;
mod memory;
mod source;
mod values;

pub use crate::buffer::ByteSize;
pub use crate::settings::{Config, CudaSettings, EngineChoice, GpuIsolation};
pub use command::command;
#[doc(hidden)]
pub use memory::{available_to, process_limit, swap_limit_bytes};
pub use source::ConfigProblem;
#[doc(hidden)]
pub use source::{config_file, is_absent};
pub use values::SettingValues;
