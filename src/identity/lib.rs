//! Who calls: certificates, bearer tokens, JSON Web Tokens and local users as names, and the
//! tenants that they belong to. Pure: reads no files and no sockets. The daemon reads the file of
//! tokens, and the command line writes it.
//!
//! Use the package `capstan`: this one belongs to it, and may change with each release.
#![deny(unsafe_code, clippy::unwrap_used)]

mod caller;
mod certificate;
mod credential_problem;
mod jwt;
mod key_set;
mod name;
mod signatures;
mod token;
mod token_edit;
mod token_file;

pub use caller::Caller;
pub use certificate::{certificate_name, first_expiry};
pub use credential_problem::CredentialProblem;
pub use jwt::{JwtPolicy, JwtVerifier};
pub use name::{is_valid_name, is_valid_tenant_name};
pub use token::BearerToken;
pub use token_edit::{add_token, can_be_written, remove_token, time_text};
pub use token_file::{TokenEntry, TokenFile, TokenFileProblem};
