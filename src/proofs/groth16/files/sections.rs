//! iden3's container: a magic number, a version, and sections in any order.

use super::{error::ProofFileError, reader::PartReader};
use crate::formats::FileFormat;

type Result<T> = std::result::Result<T, ProofFileError>;

/// What distinguishes the formats.
pub struct ContainerFormat {
    pub format: FileFormat,
    pub magic: &'static str,
    pub version: u32,
    /// The sections that are read. Others are skipped.
    pub sections: &'static [SectionKind],
    /// The number of announced sections that may be missing at the end: one of a `.r1cs` file, for
    /// debuggers only.
    pub may_lack: u32,
}

#[derive(Debug, PartialEq, Eq)]
pub struct SectionKind {
    pub number: u32,
    /// The section's name in errors.
    pub name: &'static str,
}

/// The sections of a file, in the order of [`ContainerFormat::sections`].
pub struct FileSections<'a> {
    format: &'static ContainerFormat,
    found: Vec<Option<PartReader<'a>>>,
}

impl<'a> FileSections<'a> {
    pub fn read(file: &'a [u8], format: &'static ContainerFormat) -> Result<Self> {
        if !file.starts_with(format.magic.as_bytes()) {
            let error = ProofFileError::Magic { expected: format.magic };
            return Err(error.explained_by_format(file, format.format));
        }
        let mut reader = PartReader::new("the file", file);
        reader.take(format.magic.len() as u64)?;
        let (expected, got) = (format.version, reader.u32()?);
        if got != expected {
            return Err(ProofFileError::Version { expected, got });
        }
        let mut found = vec![None; format.sections.len()];
        let announced = reader.u32()?;
        for index in 0..announced {
            if reader.is_empty() {
                if announced - index > format.may_lack {
                    let found = index;
                    return Err(ProofFileError::MissingSections { announced, found });
                }
                break;
            }
            let (number, bytes) = (reader.u32()?, reader.u64()?);
            let known = format.sections.iter().position(|kind| kind.number == number);
            let name = known.map_or("a section", |known| format.sections[known].name);
            let section = reader.part(name, bytes)?;
            let Some(known) = known else { continue };
            if found[known].replace(section).is_some() {
                return Err(ProofFileError::RepeatedSection { section: name });
            }
        }
        match reader.remaining() {
            0 => Ok(Self { format, found }),
            bytes => {
                let position = reader.position();
                Err(ProofFileError::AfterSections { sections: announced, position, bytes })
            }
        }
    }

    /// Errors: `MissingSection`.
    pub fn get(&self, kind: &SectionKind) -> Result<PartReader<'a>> {
        self.find(kind).ok_or(ProofFileError::MissingSection { section: kind.name })
    }

    pub fn find(&self, kind: &SectionKind) -> Option<PartReader<'a>> {
        let index = self.format.sections.iter().position(|known| known == kind);
        self.found[index.expect("the format has the section")]
    }
}

/// Appends the header of a file.
pub fn begin_file(file: &mut Vec<u8>, format: &ContainerFormat, sections: u32) {
    file.extend_from_slice(format.magic.as_bytes());
    file.extend_from_slice(&format.version.to_le_bytes());
    file.extend_from_slice(&sections.to_le_bytes());
}

/// Appends the header of a section.
pub fn begin_section(file: &mut Vec<u8>, kind: &SectionKind, bytes: usize) {
    file.extend_from_slice(&kind.number.to_le_bytes());
    file.extend_from_slice(&(bytes as u64).to_le_bytes());
}
