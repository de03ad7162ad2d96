//! Who calls: certificates, bearer tokens, JSON Web Tokens and local users as names, and the
//! tenants that they belong to. Pure: reads no files and no sockets.

#[cfg(feature = "server")]
mod caller;
#[cfg(feature = "server")]
mod certificate;
#[cfg(feature = "server")]
mod jwt;
#[cfg(feature = "server")]
mod key_set;
mod name;
#[cfg(feature = "server")]
mod signatures;
mod token;
mod token_edit;
mod token_file;

#[cfg(feature = "server")]
pub use self::{
    caller::Caller,
    certificate::{certificate_name, first_expiry},
    jwt::{JwtPolicy, JwtVerifier},
    name::{is_valid_name, is_valid_tenant_name},
};
pub use self::{
    token::BearerToken,
    token_edit::{add_token, can_be_written, remove_token, time_text},
    token_file::{TokenEntry, TokenFile, TokenFileProblem},
};
