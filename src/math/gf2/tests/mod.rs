mod files;
mod operations;
mod oracle;
